"""IR 2 as text: iteration spaces in isl's notation, with calls."""

from __future__ import annotations

from spfgen.facts.formula import conjuncts, show
from spfgen.sets.uf import Encoder, comparisons
from spfgen.space.nodes import Instance


def iteration_space(instance: Instance) -> str:
    """`[sizes] -> { [indices, positions] : constraints }`: calls stand as calls, declared facts are left out."""
    space = instance.domain.space
    quotients = Encoder(quotients=dict(instance.quotients)).definitions()
    known = space.of(comparisons([*instance.facts, *(c for q in quotients for c in conjuncts(q))]))
    _, _, constraints = str(instance.domain.gist(known)).partition(" : ")
    constraints = constraints.removesuffix(" }")
    indices = [*instance.made, *instance.indices, *instance.positions]
    if instance.guards:
        constraints += f" and {' and '.join(map(show, instance.guards))}"
    body = f"[{', '.join(indices)}] : {constraints}" if constraints else f"[{', '.join(indices)}]"
    return f"[{', '.join(instance.sizes)}] -> {{ {body} }}"

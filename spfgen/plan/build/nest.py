"""The nest of an instance: the steps of its scan, folded from the inside out around what is done at each point."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from spfgen.ir import rewrite
from spfgen.plan.analyse.scan import Step, with_quotients, wrapped
from spfgen.plan.build.narrow import narrowed
from spfgen.plan.context import Context
from spfgen.plan.finds import with_finds
from spfgen.plan.nodes import Accumulate, Block, Define, Finish, Guard, Load, Plan, Store, chain, with_body
from spfgen.sets.named import Piece
from spfgen.space.nodes import Instance, Value

NOTHING = Block(())


def known_at(instance: Instance, steps: Sequence[Step]) -> Piece:
    """What is known behind these steps."""
    return steps[-1].known if steps else instance.domain.space.universe()


def stored_at(instance: Instance, known: Piece, op: str, value: Value | None = None) -> Store:
    """What is done at a point: the value comes to its place."""
    place = tuple(with_quotients(p, known) for p in instance.target.place)
    stored_value = with_quotients(instance.value if value is None else value, known)
    return Store(replace(instance.target, place=place), stored_value, op, monoid=instance.monoid)


def guarded(instance: Instance, known: Piece, does: Plan) -> Plan:
    """What is done at a point, if it is one where that has to be asked."""
    if not instance.guards:
        return does
    conditions = tuple(with_quotients(g, known) for g in instance.guards)
    return Guard(conditions, does, "the place in the value array could not be proved to lie within it")


def build_nest(
    instance: Instance,
    steps: Sequence[Step],
    does: Plan,
    context: Context,
    placed: Callable[[Step, Plan], Plan] = wrapped,
    total: tuple[int, Callable[[Plan], Plan]] | None = None,
    fixed: Collection[str] | None = (),
    around: Collection[str] = (),
) -> Plan:
    """What is `done` at all points of the instance; loops that look for a position are finds, not yet chosen. `placed`
    makes the node of a step; a `total` is kept around all steps from that number on. Loops get narrower bounds but for
    the `fixed` ones (None: for all); `around` are indices of loops around the nest."""
    body = guarded(instance, known_at(instance, steps), does)
    for k in range(len(steps), -1, -1):
        if k < len(steps):
            body = placed(steps[k], body)
        if total is not None and total[0] == k:
            body = total[1](body)
    if fixed is not None:
        body = narrowed(instance, body, steps, context, fixed, around)
    return with_finds(body)


def without_known(above: Sequence[Plan], finish: Finish) -> Finish:
    """What is made of totals, without what is read and computed above already."""
    known = {replace(n, body=NOTHING) for n in above if isinstance(n, Load | Define)}

    def rule(node: object) -> object | None:
        is_known = isinstance(node, Load | Define) and replace(node, body=NOTHING) in known
        return node.body if is_known else None  # type: ignore[attr-defined]

    result: Finish = rewrite(rule, finish)
    return result


def finished_once(nest: Plan) -> Plan:
    """The nest without what its finish would read and compute again."""
    nodes = list(chain(nest))
    place = next((k for k, n in enumerate(nodes) if isinstance(n, Accumulate) and n.finish is not None), None)
    if place is None:
        return nest
    total = nodes[place]
    assert isinstance(total, Accumulate)
    assert total.finish is not None
    result: Plan = replace(total, finish=without_known(nodes[:place], total.finish))
    for node in reversed(nodes[:place]):
        result = with_body(node, result)
    return result

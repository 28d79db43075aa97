"""What is declared of the functions that a kernel calls, checked for the types with which it calls them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spfgen.errors import InternalError
from spfgen.facts.prove import Answer, note
from spfgen.ir import children
from spfgen.lang import nodes as lang
from spfgen.lang.properties import SAMPLED, check_function, kinds_of
from spfgen.lang.types import TYPES, ElementType
from spfgen.lang.typing import Kind, kind_of, scalar_types, settled
from spfgen.space.nodes import Program
from spfgen.space.results import regions_in


def check_declared(kernel: lang.Kernel, program: Program) -> None:
    """Raise SpecError, with a counterexample, where a property of a function does not hold."""
    uses = [node for step in kernel.statements for node in _uses(step)]
    if not uses:
        return
    types = {t.name: TYPES[t.value_type] for t in program.every_tensor}

    def leaf(value: Any) -> Kind:
        match value:
            case lang.Access(tensor):
                return types[tensor]
            case lang.Local(name):
                return scalars[name]
        raise InternalError(f"no type of {value!r}")

    scalars: dict[str, Kind] = {}
    scalars = scalar_types(kernel.statements, leaf)
    regions = regions_in(program.steps.body, program.every_tensor)
    for node in uses:
        fills = tuple(map(regions.fill, node.arguments)) if isinstance(node, lang.Apply) else None
        types_of = [k.name for k in _kinds(node, leaf)]
        about = f"declared of `{node.function.name}`, of {', '.join(dict.fromkeys(types_of))}"
        for checked in check_function(node.function, kinds_of(types_of), fills):
            note(Answer(checked.text, checked.how != SAMPLED, None, 0.0, about, how=checked.how))


def _uses(node: Any) -> Iterator[Any]:
    """The nodes that call a function; not those within functions, whose properties nothing relies on."""
    if isinstance(node, lang.Function):
        return
    if getattr(node, "function", None) is not None:
        yield node
    for child in children(node):
        yield from _uses(child)


def _kinds(node: Any, leaf: Any) -> tuple[ElementType, ...]:
    match node:
        case lang.Apply(_, arguments):
            return tuple(settled(kind_of(a, leaf)) for a in arguments)
        case lang.Reduce(_, _, value):
            return (settled(kind_of(value, leaf)),) * 2
        case lang.Statement(target):
            return (settled(leaf(target)),) * 2
        case lang.Set(name):
            return (settled(leaf(lang.Local(name))),) * 2
    raise InternalError(f"no call in {node!r}")

"""What finds rely on that is kept around them: a table has the positions that are looked for, and a state stays for no
longer than the keys run one way.

A table is built of the positions and the array that a find asks for, in its bounds. What moves a find's state from one
iteration to the next was proved of the loops between them (finds/sequential.py): of so many, inside the loops that its
bounds depend on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spfgen.facts.formula import Expr, rename, substitute, variables
from spfgen.ir import children, walk
from spfgen.plan.nodes import (
    Block,
    BoundSearch,
    Define,
    Find,
    FindTable,
    Load,
    Plan,
    Scan,
    SearchState,
    Segment,
    Version,
    goes_on,
    stores_in,
)
from spfgen.plan.verify.meaning import Fault
from spfgen.space.nodes import Operand, Read


@dataclass(frozen=True)
class _Around:
    """What is known at a node: names that are computed or read, by what they are; the `names` of loops, each with
    several iterations; tables and states with how many loops and which names there were around them."""

    means: Mapping[str, Expr] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    loops: int = 0
    places: Mapping[str, tuple[FindTable | SearchState, int, frozenset[str], Mapping[str, Expr]]] = field(
        default_factory=dict
    )

    def naming(self, dim: str, value: Expr) -> _Around:
        return replace(self, means={**self.means, dim: substitute(value, self.means)})

    def plain(self, part: Any) -> Any:
        """In terms of loops alone."""
        return substitute(part, self.means)


def check_places(plan: Plan) -> None:
    """Raises Fault."""
    _visit(plan, _Around())


def _visit(node: Plan | Version, around: _Around) -> None:
    if isinstance(node, Find | Segment | BoundSearch) and node.place:
        _check(node, around)
    if isinstance(node, Block):
        for part in node.parts:
            _visit(part, around)
            if goes_on(part):
                around = around.naming(part.dim, part.value)
        return
    around = _inside(node, around)
    for inner in children(node):
        if isinstance(inner, Plan | Version):
            _visit(inner, around)


def _inside(node: Plan | Version, around: _Around) -> _Around:
    match node:
        case Load(dim, call):
            return around.naming(dim, call)
        case Define(dim, value):
            return around.naming(dim, value)
        case SearchState(name) | FindTable(name):
            here = (node, around.loops, around.names, around.means)
            return replace(around, places={**around.places, name: here})
        case Scan(dim):
            return replace(around, names=around.names | {dim}, loops=around.loops + 1)
        case Find(loads=loads):
            for name, call in loads:
                around = around.naming(name, call)
    return around


def _check(node: Find | Segment | BoundSearch, around: _Around) -> None:
    if node.place not in around.places:
        raise Fault(f"there is no table or state {node.place} around what is looked for")
    place, loops, names, means = around.places[node.place]
    if isinstance(place, SearchState):
        assert not isinstance(node, BoundSearch)
        _check_state(node, place, around, loops, names)
    else:
        _check_table(node, place, around, means)


def _check_state(node: Find | Segment, state: SearchState, around: _Around, loops: int, names: frozenset[str]) -> None:
    if state.loops and around.loops - loops > state.loops:
        raise Fault(f"{state.name} is kept in more loops than those in which the keys run one way")
    if not state.over:
        moving = {v for e in (*node.low, *node.high) for v in variables(around.plain(e))} & (around.names - names)
        if moving:
            raise Fault(f"{state.name} is kept while the bounds change with {', '.join(sorted(moving))}")
    for op, ends, bounds in (("low", state.low, node.low), ("high", state.high, node.high)):
        if ends and {around.plain(e) for e in ends} != {around.plain(e) for e in bounds}:
            raise Fault(f"{state.name} begins at another {op} end than what is looked for")


def _check_table(
    node: Find | Segment | BoundSearch, table: FindTable, around: _Around, means: Mapping[str, Expr]
) -> None:
    def within(part: Any) -> Any:
        return substitute(part, means)

    for op, ends, bounds in (("low", table.low, node.low), ("high", table.high, node.high)):
        if {within(e) for e in ends} != {around.plain(e) for e in bounds}:
            raise Fault(f"{table.name} has other positions than those that are looked for, at the {op} end")
    call = node.calls()[node.key.dim] if isinstance(node, Find) and node.key is not None else None
    call = node.call if isinstance(node, Segment | BoundSearch) else call
    if call is not None and within(table.call) != around.plain(rename(call, {node.dim: table.dim})):
        raise Fault(f"{table.name} has other keys than those that are looked for")
    if table.values is not None and isinstance(node, Find):
        _check_values(node, table, around, tuple(map(within, table.values.place)))


def _check_values(node: Find, table: FindTable, around: _Around, place: tuple[Expr, ...]) -> None:
    """A scatter copies what the find reads."""
    copied = table.values
    assert copied is not None
    reads = [n.operand for d in stores_in(node.hit) for n in walk(d.value) if isinstance(n, Read)]
    reads_of_copied = [o for o in reads if _is_of(o, copied)]
    same = {node.dim: table.dim}
    if reads_of_copied and not any(
        tuple(around.plain(rename(e, same)) for e in o.place) == place for o in reads_of_copied
    ):
        raise Fault(f"{table.name} copies other values than those that are read")


def _is_of(one: Operand, other: Operand) -> bool:
    return (one.tensor, one.array, one.label) == (other.tensor, other.array, other.label)

"""Entries of one row come together: they are summed in a workspace and appended in order, each coordinate once.

Where the loops outside fix all coordinates of the target but one, what the loops inside deliver is a row (Gustavson,
1978). Nests of several terms that begin with the same loops make their rows together. Without it every product would be
an entry of its own, to be sorted and added up when all are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spfgen.facts.formula import Expr, variables
from spfgen.ir import walk
from spfgen.plan.analyse.cost import plus
from spfgen.plan.nodes import (
    PLANS,
    Append,
    Block,
    Define,
    Find,
    FindTable,
    Load,
    Partition,
    Plan,
    RowWorkspace,
    Scan,
    Versions,
    chain,
    with_body,
)
from spfgen.space.nodes import Tensor, extent_value

OUTSIDE = Scan | Load | Define | FindTable
"""What may stand around a row."""


@dataclass(frozen=True)
class _Row:
    """A nest in two: what fixes all coordinates but one, and what is inside."""

    outer: tuple[Plan, ...]
    axis: int
    common: tuple[Expr, ...]
    does: Append
    inner: Plan


def gathered(nests: Sequence[Plan], target: Tensor, fixed: Mapping[str, int]) -> list[Plan]:
    """The nests; those that begin with the same loops share a workspace for a row, if that avoids sorting."""
    result: list[Plan] = []
    waiting: list[_Row] = []
    for nest in nests:
        if isinstance(nest, Versions):
            each = (replace(v, body=gathered([v.body], target, fixed)[0]) for v in nest.versions)
            result += [*_made(waiting, target, fixed), replace(nest, versions=tuple(each))]
            waiting = []
            continue
        row = _row(nest)
        if row is None:
            result += [*_made(waiting, target, fixed), nest]
            waiting = []
        elif waiting and _alike(waiting[0], row):
            waiting.append(row)
        else:
            result += _made(waiting, target, fixed)
            waiting = [row]
    return result + _made(waiting, target, fixed)


def _row(plan: Plan) -> _Row | None:
    """The nest in two, at the outermost place where that is possible; None where there is nothing to be gathered."""
    nodes = list(chain(plan))
    does = nodes[-1]
    row = row_of(nodes, does.coordinates) if isinstance(does, Append) else None
    if row is None:
        return None
    assert isinstance(does, Append)
    place, axis = row
    outer, inner = tuple(nodes[:place]), nodes[place]
    if any(isinstance(n, Scan | Find) and n.parallel for n in walk(inner, PLANS)):
        return None
    if any(isinstance(n, Scan) and n.collapse for n in nodes[place:]):
        return None  # these loops are shared out as one with those around: nothing stands between them
    common = tuple(e for k, e in enumerate(does.coordinates) if k != axis)
    return _Row(outer, axis, common, does, inner)


def row_of(nodes: Sequence[Plan], coordinates: Sequence[Expr]) -> tuple[int, int] | None:
    """After how many nodes of a nest all coordinates but one are fixed, and which one that is."""
    rows: list[tuple[int, int]] = []
    for axis in range(len(coordinates)):
        others = {v for k, e in enumerate(coordinates) if k != axis for v in variables(e)}
        place = _fixed(nodes, others)
        if place is not None:
            rows.append((place, -axis))
    if not rows:
        return None
    place, axis = min(rows)
    return place, -axis


def _fixed(nodes: Sequence[Plan], names: set[str]) -> int | None:
    """After how many nodes, a loop among them, these names have values."""
    inside = {d for n in nodes for d in _defined(n)}
    missing = names & inside
    loops = 0
    for k, node in enumerate(nodes[:-1]):
        if loops and not missing:
            return k
        if not isinstance(node, OUTSIDE):
            return None
        missing -= set(_defined(node))
        loops += isinstance(node, Scan)
    return None


def _defined(node: Plan) -> tuple[str, ...]:
    match node:
        case Scan(dim) | Load(dim) | Define(dim):
            return (dim,)
        case Find(dim, loads=loads):
            return (dim, *(loaded.dim for loaded in loads))
    return ()


def _alike(one: _Row, other: _Row) -> bool:
    """Whether two nests begin with the same loops and deliver rows of the same kind."""
    same = len(one.outer) == len(other.outer) and all(map(_same, one.outer, other.outer))
    return same and (one.axis, one.common) == (other.axis, other.common)


def _same(one: Plan, other: Plan) -> bool:
    match one, other:
        case Scan(), Scan():
            marks = [(s.dim, s.low, s.high, s.parallel, s.vector, s.unroll, s.collapse, s.down) for s in (one, other)]
            return marks[0] == marks[1]
        case Load(dim, call), Load(name, again):
            return (dim, call) == (name, again)
        case Define(dim, value), Define(name, again):
            return (dim, value) == (name, again)
    return False


def _made(rows: Sequence[_Row], target: Tensor, fixed: Mapping[str, int]) -> list[Plan]:
    """What these rows become together."""
    if not rows:
        return []
    first = rows[0]
    loops = sum(isinstance(n, Scan | Find) for n in chain(first.inner))
    if len(rows) == 1 and loops < 2:  # a row of its own, which nothing else adds to
        return [_around(rows, first.inner)]
    inner = first.inner if len(rows) == 1 else Block(tuple(r.inner for r in rows))
    why = "what is delivered here has all coordinates but one in common: each is appended once, in order"
    extent = extent_value(target.extents[first.axis], fixed)
    return [_around(rows, RowWorkspace(target.name, first.axis, first.common, extent, inner, why))]


def _around(rows: Sequence[_Row], inner: Plan) -> Plan:
    """The loops outside, with the work of all rows."""
    for nodes in zip(*(reversed(r.outer) for r in rows), strict=True):
        node = nodes[0]
        if isinstance(node, Scan) and len(rows) > 1:
            node = replace(node, partition=_shared([n.partition for n in nodes if isinstance(n, Scan)]))
        inner = with_body(node, inner)
    return inner


def _shared(shares: Sequence[Partition | None]) -> Partition | None:
    """How a loop is shared out that does what several did."""
    known = [s for s in shares if s is not None]
    if len(known) < len(shares):
        return None
    works = [s.work for s in known]
    total = None if None in works else plus(*(w for w in works if w is not None))
    weighed = next((s for s in known if s.weight is not None), known[0])
    return replace(weighed, work=total, uneven=any(s.uneven for s in known) and weighed.weight is None)

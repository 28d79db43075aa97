"""Zeros that blocks hold add nothing, and are passed over.

A block of a few places is stored whole, whatever is in it. A product goes through it again and again:

    for i { for p { j = idx(p); for q in blocks of j { for c < C { D[i, k] += A[p]*B[q, r, c] } } } }

Two things are done about the zeros of a factor. What stands in loops that go on with the other factor runs only where
the value is not zero (`Skip`; plan/listed.py lists such values first). What is gone through for each j is copied first,
what is not zero in the order of the rows (`Copied`): the copy is what a layout without blocks would have, and costs one
pass. Short rows of blocks take longer to go through than their values alone, wide ones less where few are zeros.

Zero times infinity is no number, and what is stored counts: so both happen only where all values of the other factor
are finite, which the kernel finds out when it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

from spfgen.errors import InternalError
from spfgen.facts.formula import ONE, ZERO, Bin, Call, Compare, Expr, Num, Var, substitute, variables
from spfgen.ir import fresh, rewrite, walk
from spfgen.lang.nodes import Apply
from spfgen.lang.types import TYPES
from spfgen.plan.check import Reader
from spfgen.plan.context import Context
from spfgen.plan.cost import Counts, plus, times
from spfgen.plan.depend import adds_apart, place_inside
from spfgen.plan.nodes import (
    Copied,
    Do,
    Find,
    Guard,
    Load,
    Locate,
    Pick,
    PickRow,
    Plan,
    Scan,
    Segment,
    Skip,
    State,
    chain,
    with_body,
)
from spfgen.plan.scan import Step
from spfgen.plan.work import additions
from spfgen.sets.uf import comparisons
from spfgen.space.nodes import Instance, Operand, Read, Value

MOST = 16
"""Places of a block along one of its dimensions."""


def zeros_skipped(instance: Instance, plan: Plan, context: Context) -> Plan:
    """The nest in which what a zero of a block would add is left out."""
    nodes = list(chain(plan))
    for one, other in _factors(nodes, context):
        wanted = {v for p in one.place for v in variables(p)}
        last = max((k for k, n in enumerate(nodes) if defines(n) in wanted), default=-1)
        inside = nodes[last + 1 :]
        loops = [n for n in inside if isinstance(n, Scan | Find)]
        plain = all(isinstance(n, Scan | Load | Locate | Guard | Segment | State | Do) or _only_hits(n) for n in inside)
        if last < 0 or not plain or not any(small(n) is None for n in loops) or not _in_block(nodes, one):
            continue
        why = f"a zero of {one.tensor} adds nothing where all of {other.tensor} is finite"
        nodes.insert(last + 1, Skip(one, _array(other), additions(instance, nodes), inside[0], why))
        return around(nodes[:-1], nodes[-1])
    return plan


def zeros_left_out(
    instance: Instance, plan: Plan, steps: Sequence[Step], context: Context
) -> tuple[Copied, Plan] | None:
    """What is to be copied first, and the nest that uses the copy; the copy has no nests yet."""
    nodes = list(chain(plan))
    for one, other in _factors(nodes, context):
        found = _rows(instance, nodes, one, other)
        if found is not None:
            return _copied(instance, nodes, steps, one, other, found)
    return None


def _factors(nodes: Sequence[Plan], context: Context) -> Iterable[tuple[Operand, Operand]]:
    """The factors of a product of two that is added, each with the other one."""
    do = nodes[-1]
    if not isinstance(do, Do) or do.op != "+=" or context.fixed or not _is_product(do.value):
        return ()
    reads = [n.operand for n in walk(do.value) if isinstance(n, Read)]
    kinds = [context.types.get(o.tensor, "complex128") for o in (*reads, do.target)]
    if len(reads) != 2 or any(TYPES[k].kind == "c" for k in kinds) or not all(o.sparse for o in reads):
        return ()
    return ((reads[0], reads[1]), (reads[1], reads[0]))


def _is_product(value: Value) -> bool:
    match value:
        case Read():
            return True
        case Apply(arguments=arguments):
            every = {(k, 0) for k in range(len(arguments))} <= {*value.operator.annihilators}
            return every and all(map(_is_product, arguments))
    return False


def _only_hits(node: Plan) -> bool:
    return isinstance(node, Find) and node.miss is None


def defines(node: Plan) -> str:
    """The dimension that gets its value there, if one does."""
    return node.dim if isinstance(node, Scan | Load | Locate | Find) else ""


def small(node: Plan) -> int | None:
    """How often a loop over a dimension of a block runs at most."""
    numbers = [e.value for e in node.high if isinstance(e, Num)] if isinstance(node, Scan) else []
    return min(numbers) if numbers and node.low == (ZERO,) and 1 < min(numbers) <= MOST else None  # type: ignore[attr-defined]


def _in_block(nodes: Sequence[Plan], operand: Operand) -> bool:
    """Whether the places of the values run over a block."""
    wanted = {v for p in operand.place for v in variables(p)}
    return any(small(n) is not None and defines(n) in wanted for n in nodes)


def _array(operand: Operand) -> Operand:
    """The array of values as a whole."""
    return replace(operand, place=(), positions=(), subscripts=())


def around(nodes: Sequence[Plan], inside: Plan) -> Plan:
    """The nest of these nodes, the first one outermost."""
    for node in reversed(nodes):
        inside = with_body(node, inside)
    return inside


# --- copies -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """`own`: what only serves to go through one factor, in order; it depends on `row`, dimensions with so many values
    each, whose nodes are `above`. `first` is the loop from which on nothing else is done; `key` is the subscript
    `number` of the target, the only one that changes there."""

    own: tuple[Plan, ...]
    above: tuple[Plan, ...]
    extents: tuple[Expr, ...]
    first: int
    number: int
    key: Expr


def _rows(instance: Instance, nodes: Sequence[Plan], one: Operand, other: Operand) -> _Rows | None:
    do = nodes[-1]
    assert isinstance(do, Do)
    by_dim = {defines(n): n for n in nodes if defines(n)}
    elsewhere = _needed(by_dim, other.place, "")
    loops = [k for k, n in enumerate(nodes) if isinstance(n, Scan)]
    own_loops = [k for k in loops if not any(n.dim in elsewhere for n in nodes[k:] if isinstance(n, Scan))]
    if not own_loops or len(own_loops) == len(loops) or not all(map(_may_move, nodes[own_loops[0] :])):
        return None
    first = own_loops[0]
    inside = {defines(n) for n in nodes[first:]}
    blocks = [small(nodes[k]) is not None for k in own_loops]
    changing = [k for k, p in enumerate(do.target.place) if _needed(by_dim, (p,), one.tensor) & inside]
    if elsewhere & inside or len(changing) != 1 or all(blocks) or not any(blocks):
        return None
    key = _written_out(do.target.place[changing[0]], by_dim, inside)
    bounds = [e for n in nodes[first:] for e in _spoken(n)]
    needed = _needed(by_dim, (*one.place, key, *bounds), one.tensor)
    row = [n for n in nodes[:first] if defines(n) in needed and _is_given(n, one.tensor)]
    own = [n for n in nodes if defines(n) in needed and n not in row] + [
        n for n in nodes[first:] if isinstance(n, Guard)
    ]
    own.sort(key=nodes.index)
    if not all(isinstance(n, Scan | Load | Locate | Guard) for n in (*own, *row)) or not row:
        return None
    counts = Counts(instance)
    extents = [_extent(counts, n) for n in row]
    known = [e for e in extents if e is not None]
    if len(known) < len(row) or not {v for p in one.place for v in variables(p)} <= needed | set(instance.sizes):
        return None
    found = _Rows(tuple(own), tuple(row), tuple(known), first, changing[0], key)
    return found if _is_safe(instance, nodes, found, one) else None


def _may_move(node: Plan) -> bool:
    return isinstance(node, Scan | Load | Locate | Guard | Do) and not getattr(node, "parallel", False)


def _is_given(node: Plan, tensor: str) -> bool:
    """Whether the rows know a dimension from elsewhere: it is a loop, or what an array of another tensor holds."""
    return isinstance(node, Scan) or (isinstance(node, Load) and not node.call.function.startswith(f"{tensor}."))


def _needed(by_dim: Mapping[str, Plan], exprs: Iterable[Expr], tensor: str) -> set[str]:
    """The dimensions that expressions speak of, and those that these are made of, up to the ones that are given."""
    found: set[str] = set()
    todo = [v for e in exprs for v in variables(e)]
    while todo:
        name = todo.pop()
        if name in found or name not in by_dim:
            continue
        found.add(name)
        node = by_dim[name]
        if isinstance(node, Locate) or not tensor or not _is_given(node, tensor):
            todo += [v for e in _spoken(node) for v in variables(e)]
    return found


def _spoken(node: Plan) -> tuple[Expr, ...]:
    match node:
        case Scan(low=low, high=high):
            return (*low, *high)
        case Load(call=call):
            return call.arguments
        case Locate(value=value):
            return (value,)
        case Guard(conditions):
            return tuple(Var(v) for f in conditions for v in variables(f))
    return ()


def _written_out(expr: Expr, by_dim: Mapping[str, Plan], inside: set[str]) -> Expr:
    """In terms of what is looped over or read there."""
    located = {d: n.value for d, n in by_dim.items() if d in inside and isinstance(n, Locate)}
    while variables(expr) & located.keys():
        expr = substitute(expr, located)
    return expr


def _extent(counts: Counts, node: Plan) -> Expr | None:
    """The dimension lies in [0, extent)."""
    if isinstance(node, Load):
        return counts.range(node.dim)
    number = small(node)
    return None if number is None else Num(number)


def _rows_nest(found: _Rows, one: Operand) -> Plan:
    """All rows, and in each what is stored there."""
    key = Pick(one, (found.key,))
    nest = around(found.own, key)
    limits = tuple(
        c
        for n in found.above
        if isinstance(n, Scan)
        for c in (*(Compare("<=", e, Var(n.dim)) for e in n.low), *(Compare("<", Var(n.dim), e) for e in n.high))
        if c.left != ZERO and not isinstance(c.right, Num)
    )
    nest = PickRow(_row(found), Guard(limits, nest) if limits else nest)
    for node, extent in reversed(list(zip(found.above, found.extents, strict=True))):
        nest = Scan(defines(node), (ZERO,), (extent,), nest)
    assert isinstance(nest, Scan)
    return replace(nest, parallel=True, because="each row has a place of its own")


def _row(found: _Rows) -> Expr:
    """The number of a row."""
    result: Expr = Var(defines(found.above[0]))
    for node, extent in zip(found.above[1:], found.extents[1:], strict=True):
        result = Bin("+", Bin("*", result, extent), Var(defines(node)))
    return result


def _is_safe(instance: Instance, nodes: Sequence[Plan], found: _Rows, one: Operand) -> bool:
    """Whether nothing is read outside of its array in any row."""
    reader = Reader(instance, instance.domain.space.universe())
    of_sizes = [n for n in nodes if isinstance(n, Locate) and variables(n.value) <= set(instance.sizes)]
    end = Pick(one, (found.key,))
    try:
        reader.read(around(of_sizes, end))
        for node in found.above:
            reader.define(defines(node))
            if isinstance(node, Scan):
                reader.require(*(Compare(">=", Var(node.dim), e) for e in node.low))
                reader.require(*(Compare("<", Var(node.dim), e) for e in node.high))
        reader.read(around([n for n in found.own if n not in of_sizes], end))
    except InternalError:
        return False
    facts = [c for c in comparisons(instance.facts) if c.value.names() <= reader.defined]
    return place_inside(instance, one, reader.enforced.with_constraints(facts))


def _copied(
    instance: Instance, nodes: Sequence[Plan], steps: Sequence[Step], one: Operand, other: Operand, found: _Rows
) -> tuple[Copied, Plan]:
    do = nodes[-1]
    assert isinstance(do, Do)
    taken = {*instance.domain.space.names, *instance.indices}
    begin, end, position, column = (fresh(f"{one.tensor}.{n}", taken) for n in ("begin", "end", "q", "column"))
    arrays = (f"{one.tensor}.kept starts", f"{one.tensor}.kept columns", f"{one.tensor}.kept values")
    row, at = _row(found), Var(position)
    value = replace(_array(one), array="kept values", place=(at,), extents=(_count(one),))
    target = do.target
    place = (*target.place[: found.number], Var(column), *target.place[found.number + 1 :])
    changed = rewrite(lambda n: value if n == one else None, do.value)
    inner: Plan = Load(column, Call(arrays[1], (at,)), replace(do, target=replace(target, place=place), value=changed))
    held = (other.label,) if _is_held(instance, steps, defines(nodes[found.first]), other) else ()
    loops = [n.dim for n in nodes[found.first :] if isinstance(n, Scan)]
    apart = target.tensor not in (one.tensor, other.tensor) and all(adds_apart(instance, steps, d) for d in loops)
    inner = Scan(position, (Var(begin),), (Var(end),), inner, held=held, apart=apart)
    inner = Load(begin, Call(arrays[0], (row,)), Load(end, Call(arrays[0], (plus(row, ONE),)), inner))
    nest = around(nodes[: found.first], inner)
    why = f"zeros of {one.tensor} add nothing where all of {other.tensor} is finite"
    rows = reduce(lambda a, b: Bin("*", a, b), found.extents)  # whole numbers: (n + 1)/2*2 is not n + 1
    added = additions(instance, nodes)
    pick = _rows_nest(found, one)
    width = prod(small(n) or 1 for n in nodes[found.first :])
    limit = target.extents[found.number]
    copy = Copied(arrays, one, _array(other), rows, limit, added, width, pick, nest, nest, why)
    return copy, nest


def _count(operand: Operand) -> Expr:
    return times(*operand.extents)


def _is_held(instance: Instance, steps: Sequence[Step], loop: str, operand: Operand) -> bool:
    """Whether the value may be read above the loop: it lies within its array even where that has no iteration."""
    known = next(s.before for s in steps if s.dim == loop)
    return known is not None and place_inside(instance, operand, known)

"""What is not zero in blocks is written to a short list before it is used.

    for i { for p { for r { for c { if (A[p, r, c] != 0) { j = C*idx(p) + c; for q in row j { D[i, k] += ... } } } } } }

A processor cannot foresee which values are zeros, nor which row of B comes next. So some blocks at a time are gone
through without a question: each value is written to the end of a list, which grows only if it is not zero. The loop
over the list is the one that a layout without blocks would have: what later iterations read can be fetched ahead.

A dimension of the block that only says which row of the result is added to comes first: then one row after the other is
added to, and stays in the first cache. Each place gets its terms in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from spfgen.facts.formula import ZERO, Call, Num, Var, substitute, variables
from spfgen.ir import fresh, rewrite
from spfgen.plan.nodes import Do, Guard, Listed, Load, Locate, Pick, Plan, Scan, Seq, Skip, State, chain
from spfgen.plan.prefetch import fetched_ahead
from spfgen.plan.simplify import used, without_unused
from spfgen.plan.zeros import around, defines, small

MOST = 256
"""Values of a list: with their keys they take a tenth of the first cache."""


def with_lists(plan: Plan) -> Plan:
    """The plan in which values that are passed over where they are zero are listed first."""
    nest = plan.parts[-1] if isinstance(plan, Seq) else plan
    nodes = list(chain(nest))
    at = next((k for k, n in enumerate(nodes) if isinstance(n, Skip)), 0)
    scans = [k for k, n in enumerate(nodes[:at]) if isinstance(n, Scan) and small(n) is None]
    if not scans:
        return plan
    first, skip, do = scans[-1], nodes[at], nodes[-1]
    loop, inside, tail = nodes[first], nodes[first + 1 : at], nodes[at + 1 :]
    assert isinstance(loop, Scan)
    assert isinstance(skip, Skip)
    assert isinstance(do, Do)
    rows = _names_of_row(inside, do)
    if loop.parallel or loop.dim in rows or any(isinstance(e, Num) for e in loop.high):
        return plan  # a list would have a few values
    if any(isinstance(n, State) or (isinstance(n, Scan) and _is_split(n)) for n in nodes[:at]):
        return plan  # rows must come with their blocks
    if not all(isinstance(n, Scan | Load | Locate | Guard) for n in inside):
        return plan
    before = _that_name_rows(loop, inside, rows)
    inside = [n for n in inside if n not in before]
    if _values(inside) > MOST:
        return plan
    found = _listed(loop, inside, skip, tail, {*map(defines, nodes)})
    result = around([*nodes[:first], *before], found)
    return replace(plan, parts=(*plan.parts[:-1], result)) if isinstance(plan, Seq) else result


def _values(inside: Sequence[Plan]) -> int:
    """How many values an iteration has at most."""
    return prod(small(n) or 1 for n in inside)


def _is_split(scan: Scan) -> bool:
    """Whether threads may share an iteration."""
    return scan.share is not None and scan.share.slice is not None


def _listed(loop: Scan, inside: Sequence[Plan], skip: Skip, tail: Sequence[Plan], taken: set[str]) -> Plan:
    """The lists of some iterations of the loop, and what is done with each value."""
    *steps, do = tail
    assert isinstance(do, Do)
    moving = {loop.dim, *map(defines, inside)}
    computed: list[Plan] = []
    while isinstance(node := steps[0], Locate) and variables(node.value) & moving:
        moving.add(node.dim)
        computed.append(steps.pop(0))  # what the list says need not be computed
    inside = [*inside, *computed]
    later = _not_needed(inside, skip)
    inside = [n for n in inside if n not in later]
    tensor, dim = skip.value.tensor, loop.dim
    wanted = (f"{dim}_first", f"{dim}_last", f"{tensor}.count", f"{tensor}.q")
    first, last, count, position = (fresh(n, taken) for n in wanted)
    source = replace(skip.value, place=(), positions=())
    listed = replace(source, array="listed", place=(Var(position),), extents=(Num(MOST),))
    do = replace(do, value=rewrite(lambda n: listed if n == skip.value else None, do.value))
    rest = around([*later, *steps], do)
    keys = [d for d in dict.fromkeys((dim, *map(defines, inside))) if d in used(rest)]
    arrays = tuple(f"{tensor}.listed {d}" for d in keys)
    for key, array in reversed(list(zip(keys, arrays, strict=True))):
        rest = Load(key, Call(array, (Var(position),)), rest)
    picked = without_unused(around(inside, Pick(skip.value, tuple(map(Var, keys)))))
    return Listed(
        arrays,
        source,
        skip.other,
        skip.additions,
        (first, last, count),
        loop.low,
        loop.high,
        MOST // _values(inside),
        replace(loop, low=(Var(first),), high=(Var(last),), body=picked),
        fetched_ahead(Scan(position, (ZERO,), (Var(count),), rest)),
        skip.because,
    )


def _names_of_row(inside: Sequence[Plan], do: Do) -> set[str]:
    """The dimensions that the place of the target speaks of."""
    located = {n.dim: n.value for n in inside if isinstance(n, Locate)}
    place = do.target.place
    while any(variables(p) & located.keys() for p in place):
        place = tuple(substitute(p, located) for p in place)
    return {v for p in place for v in variables(p)}


def _that_name_rows(loop: Scan, inside: Sequence[Plan], rows: set[str]) -> list[Plan]:
    """What comes before the loop: dimensions of the block that say which row is added to, where neither their bounds
    nor anything computed from them depends on the loop."""
    moving, found = {loop.dim}, list[Plan]()
    for node in inside:
        stays = set(_spoken(node)) & moving or (isinstance(node, Scan) and node.dim not in rows)
        if stays or not isinstance(node, Scan | Locate):
            moving.add(defines(node))
        else:
            found.append(node)
    return found


def _not_needed(inside: Sequence[Plan], skip: Skip) -> list[Plan]:
    """What arrays hold that says neither which values there are nor what a list says of them."""
    needed = {v for p in skip.value.place for v in variables(p)}
    found: list[Plan] = []
    for node in reversed(inside):
        if isinstance(node, Load) and node.dim not in needed:
            found.insert(0, node)
        else:
            needed |= set(_spoken(node))
    return found


def _spoken(node: Plan) -> Iterator[str]:
    match node:
        case Scan(low=low, high=high):
            yield from (v for e in (*low, *high) for v in variables(e))
        case Locate(value=value) | Load(call=value):
            yield from variables(value)
        case Guard(conditions):
            yield from (v for f in conditions for v in variables(f))

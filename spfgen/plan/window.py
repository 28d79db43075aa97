"""A few neighbouring places that a loop goes through again and again are summed in an array of their own.

    y[64*s, ... ] = 0; for d { for j in the part of [0, 64) that there is { y[64*s + j] += A[d, j]*x[j + f(d)] } }

A compiler does not know how long such a part is, nor that y overlaps nothing else. So the places are summed in an array
of 64, which is stored in the end; and where the part is all of [0, 64), as it is but at the borders, the loop says so:

    sums[64] = 0; for d { if (all) { for j in [0, 64) { sums[j] += ... } } else { ... } } y[64*s + j] = sums[j]

All terms are the same, and each place gets them in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spfgen.facts.formula import ZERO, Bin, Compare, Expr, Formula, Num, Var, substitute
from spfgen.ir import rewrite, walk
from spfgen.plan.nodes import PLANS, Clear, Do, Load, Locate, Plan, Scan, Whole, chain, with_body
from spfgen.plan.simplify import without_unused
from spfgen.sets.affine import NotAffine, expression
from spfgen.sets.uf import linear
from spfgen.space.nodes import Operand, Read

FEWEST, MOST = 16, 256
"""Places: fewer are sums of their own (plan/small.py), more would not stay in the first cache beside what is read."""


def with_windows(plan: Plan, types: Mapping[str, str]) -> Plan:
    """The plan with such arrays where a nest clears the places that it alone adds to."""

    def rule(node: object) -> Plan | None:
        return _window(node, types) if isinstance(node, Clear) else None

    result: Plan = rewrite(rule, plan, PLANS)
    return result


def _window(clear: Clear, types: Mapping[str, str]) -> Plan | None:
    part, body = clear.part, clear.body
    if not isinstance(part, Scan) or not isinstance(part.body, Do) or body is None or clear.gaps or clear.span:
        return None
    count = _longest(part)
    *around, do = chain(body)
    scans = [n for n in around if isinstance(n, Scan)]
    if count is None or not FEWEST <= count[1] <= MOST or len(scans) < 2 or not isinstance(do, Do):
        return None
    if not all(isinstance(n, Load | Locate) or (isinstance(n, Scan) and _plain(n)) for n in around):
        return None
    if do.op != "+=" or not _same_row(part, part.body.target, do.target):
        return None
    reads = [n.operand for n in walk(do.value) if isinstance(n, Read)]
    if any(o.tensor == clear.tensor for o in reads) or len({types[o.tensor] for o in (do.target, *reads)}) > 1:
        return None
    inner = around[around.index(scans[-1]) :]
    whole = _whole(scans[-1], [n for n in inner[1:] if isinstance(n, Load | Locate)], do)
    if whole is None or whole[2] != count[1]:
        return None
    conditions, loop, _ = whole
    at_borders = replace(scans[-1], ahead=None)
    result: Plan = Whole(conditions, loop, at_borders, "then it is known how often the loop runs")
    for node in reversed(around[: around.index(scans[-1])]):
        result = with_body(node, result)
    return replace(clear, body=result, window=count[1])


def _plain(scan: Scan) -> bool:
    return not any((scan.parallel, scan.vector, scan.unroll, scan.collapse, scan.down, scan.runs, scan.share))


def _longest(scan: Scan) -> tuple[Expr, int] | None:
    """A bound from which on the loop runs at most so often, a number."""
    for low in scan.low:
        for high in scan.high:
            try:
                length = linear(high) - linear(low)
            except NotAffine:
                continue
            if not length.terms:
                return low, length.constant
    return None


def _same_row(part: Scan, cleared: Operand, target: Operand) -> bool:
    """Whether what is added to lies among what is cleared: only the last subscript runs."""
    *row, last = cleared.place
    return last == Var(part.dim) and (cleared.tensor, row) == (target.tensor, list(target.place[:-1]))


def _whole(scan: Scan, above: Sequence[Load | Locate], do: Do) -> tuple[tuple[Formula, ...], Scan, int] | None:
    """When the loop runs as often as it can, the loop for that, from 0 on, and how often. What is found out in it is
    told in terms of its own position; None where that cannot be."""
    found = _longest(scan)
    if found is None or not all(isinstance(n, Locate) for n in above):
        return None
    first, count = found
    past = Bin("+", first, Num(count))
    needs: list[Formula] = [Compare("<=", low, first) for low in scan.low if low != first]
    for high in scan.high:
        rest = linear(high) - linear(past)
        if rest.terms or rest.constant < 0:
            needs.append(Compare("<=", past, high))
    at = f"{scan.dim} in"
    values: dict[str, Expr] = {scan.dim: Bin("+", first, Var(at))}
    nodes: list[Plan] = []
    for node in above:
        assert isinstance(node, Locate)
        try:
            value = expression(linear(substitute(node.value, values)))
        except NotAffine:
            return None
        nodes.append(replace(node, value=value))
    try:
        values[scan.dim] = expression(linear(values[scan.dim]))
    except NotAffine:
        return None
    result: Plan = substitute(do, values)
    for made in reversed(nodes):
        result = with_body(made, result)
    ahead = None if scan.ahead is None else substitute(scan.ahead, values)
    loop = replace(scan, dim=at, low=(ZERO,), high=(Num(count),), body=without_unused(result), ahead=ahead)
    return tuple(needs), loop, count

"""Loops that only add to one sum run for several neighbouring iterations of the loop around at once.

    for p { j = f(p); for k { sum += A[p]*B[i, k]*D[k, j] } C[p] = sum }

waits for one addition after the other, and each value of D lies in another line of the cache, so that no vector is
loaded. Four p at once have four sums, which wait for nothing but their own, read B once, and share the lines of D where
their j are near each other. Where D is read along, as D[j, k], each sum is a vector: four share those of B, and none
waits until another is added up. Each sum is stored when and where it was, in the same order: nothing has to be proved
but that no value that is read depends on one that is stored.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from spfgen import tuning
from spfgen.facts.formula import Bin, Expr, Num, Var, substitute, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.nodes import PLANS, Do, Load, Locate, Plan, Scan, Seq, UnrollAndJam, chain, is_sum, with_body
from spfgen.space.nodes import Operand, Read

ACROSS = "unroll-and-jam: sums across contiguous elements are independent of each other"
ALONG = "unroll-and-jam: sums along contiguous elements share loads and are independent of each other"


def unroll_and_jam(plan: Plan) -> Plan:
    """The plan in which several iterations run through such loops together."""
    shares = [n.partition for n in walk(plan, PLANS) if isinstance(n, Scan) and n.partition is not None]
    split = {s.row for s in shares if s.slice is not None}

    def rule(node: object) -> Plan | None:
        return _several(node) if isinstance(node, Scan) and node.dim not in split else None

    result: Plan = rewrite(rule, plan, PLANS)
    return result


def one_by_one_from(dim: str) -> str:
    """The first iteration that is not run with others."""
    return f"{dim} next"


def one_by_one(plan: Plan) -> Plan:
    """The plan with what each iteration does alone, told once."""
    result: Plan = rewrite(lambda n: n.body if isinstance(n, UnrollAndJam) else None, plan, PLANS)
    return result


def _several(loop: Scan) -> Plan | None:
    *around, do = chain(loop.body)
    inner = around.pop() if around else None
    totals = [n for n in around if is_sum(n)]
    before = [n for n in around if isinstance(n, Load | Locate)]
    if not isinstance(inner, Scan) or not isinstance(do, Do) or len(totals) != 1 or len(around) != len(before) + 1:
        return None
    if not _is_plain(loop) or not _is_plain(inner):
        return None
    if not do.target.array or any(isinstance(e, Num) and e.value < tuning.JAMMED_ITERATIONS for e in loop.high):
        return None  # each iteration has its own sum already (register_blocks.py), or there are not so many
    reads = [n.operand for n in walk(do.value) if isinstance(n, Read)]
    if do.op != "+=" or do.target != totals[0].target or any(o.tensor == do.target.tensor for o in reads):
        return None
    own = {loop.dim, *(n.dim for n in before)}
    if any(own & variables(e) for e in (*inner.low, *inner.high)):
        return None
    across = any(inner.dim in variables(p) for o in reads for p in o.place[:-1])
    if not across and not _shares(reads, own, inner):
        return None
    start = one_by_one_from(loop.dim)
    lanes = [{d: Var(f"{d} {k}") for d in own} | {loop.dim: _place(start, k)} for k in range(tuning.JAMMED_ITERATIONS)]
    group: Plan = with_body(inner, Seq(tuple(substitute(do, lane) for lane in lanes)))
    for lane in lanes:  # the first sum is stored first
        group = with_body(substitute(with_body(totals[0], do), lane), group)
    for lane in reversed(lanes):
        for node in reversed(before):
            group = _defined(substitute(with_body(node, do), lane), lane[node.dim], group)
    left = replace(loop, low=(Var(start),))
    return UnrollAndJam(start, loop.low, loop.high, tuning.JAMMED_ITERATIONS, group, left, ACROSS if across else ALONG)


def _shares(reads: Sequence[Operand], own: Set[str], inner: Scan) -> bool:
    """Whether the loop inside, unless it is known to be short, reads what is the same for all iterations beside what is
    not."""
    moved = [o for o in reads if any(inner.dim in variables(p) for p in o.place[-1:])]  # scalars have no place
    theirs = [bool(own & {v for p in o.place for v in variables(p)}) for o in moved]
    short = any(isinstance(e, Num) and e.value < tuning.JAMMED_TERMS for e in inner.high)
    return all(o.place[-1] == Var(inner.dim) for o in moved) and any(theirs) and not all(theirs) and not short


def _is_plain(loop: Scan) -> bool:
    """Whether the loop runs upwards, one iteration after the other, and nothing else is said of it."""
    marks = (
        loop.parallel,
        loop.down,
        loop.vector,
        loop.unroll,
        loop.collapse,
        loop.segment_keys,
        loop.ahead,
        loop.partition,
    )
    return not any(marks)


def _place(start: str, further: int) -> Expr:
    return Bin("+", Var(start), Num(further)) if further else Var(start)


def _defined(node: Plan, name: Expr, inner: Plan) -> Plan:
    """The definition under the name that it has among several."""
    assert isinstance(node, Load | Locate)
    assert isinstance(name, Var)
    return replace(node, dim=name.name, body=inner)

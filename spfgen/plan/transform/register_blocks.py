"""Small dense blocks: their sums stay in registers, and their loops run a number of times that is known.

    for p { for r < min(R, rest) { for c < min(C, rest of p) { y[R*b + r] += A[p, r, c]*x[C*f(p) + c] } } }

adds to memory for each p. Instead there are R sums; where the block is whole, and all but the last ones are, the loops
over r and c run R and C times, numbers that the compiler sees: it writes out the additions, and the sums are registers.
Each value of a whole block has a sum of its own, where the registers hold so many; what was in y before is added last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from spfgen import tuning
from spfgen.facts.formula import Bin, Compare, Expr, Formula, Num, Var, substitute, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.analyse.small_blocks import extent_of_block
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    Cheapest,
    Clear,
    Define,
    Find,
    Guard,
    Load,
    Plan,
    Registers,
    Scan,
    Store,
    Version,
    Versions,
    chain,
    is_sum,
    lookups_of,
    specialised,
    with_body,
)
from spfgen.plan.transform.simplify import without_unused
from spfgen.sets.affine import Affine, NotAffine, expression
from spfgen.sets.uf import linear
from spfgen.space.nodes import Read

WHY = "all blocks but the last ones are whole"


Disjoint = Callable[[Accumulate, str, str, set[str]], bool]
"""Whether iterations of a parallel loop add sums, one for each iteration of a small loop, to different places, given
the dimensions known where they begin."""


def with_sums(plan: Plan, disjoint: Disjoint) -> Plan:
    """The plan with sums for the small blocks of the target, wherever a loop comes to them again and again and threads
    do not meet there: all places of a block are added to, whether anything was summed for them or not."""
    defined = _defined(plan)
    shared = [
        n.dim
        for n in walk(plan, PLANS)
        if isinstance(n, Scan) and n.parallel and not (n.partition and n.partition.adds)
    ]

    def rule(node: object) -> Plan | None:
        if isinstance(node, Clear):
            return _stored(node)
        if not isinstance(node, Scan):
            return None
        counted, origin = _from_zero(node)
        sums = _sums(counted)
        if sums is None:
            return None
        above = defined - _defined(node)
        dim = _registers(sums).dim
        block_loop = origin.get(dim, dim)
        return (
            _in_wholes(sums, node) if all(disjoint(sums, block_loop, d, above) for d in shared if d in above) else None
        )

    result: Plan = rewrite(rule, plan, PLANS)
    return result


def _defined(plan: Plan) -> set[str]:
    return {n.dim for n in walk(plan, PLANS) if isinstance(n, Scan | Load | Define | Find)}


def _from_zero(outer: Scan) -> tuple[Scan, dict[str, str]]:
    """The nest with small loops over [low, low + n) counted from 0, where low is known outside; and what those loops
    were over before."""
    origin: dict[str, str] = {}
    inside = [n for n in chain(outer.body) if isinstance(n, Scan | Load | Define)]
    for scan in inside:
        if (
            isinstance(scan, Scan)
            and scan.low != (Num(0),)
            and not variables(*scan.low)
            & {
                outer.dim,
                *(n.dim for n in inside),
            }
        ):
            counted = _counted(scan, f"{scan.dim}_own")
            if counted is not None:
                outer = rewrite(partial(_replaced, scan, counted), outer)
                origin[counted.dim] = scan.dim
                break
    return outer, origin


def _counted(scan: Scan, dim: str) -> Scan | None:
    """A loop over [low, low + n) as one over [0, n), when n is a small number."""
    try:
        (low,) = map(linear, scan.low)
        high = [linear(e) - low for e in scan.high]
    except (NotAffine, ValueError):
        return None
    numbers = [h.constant for h in high if not h.names()]
    if not numbers or not 1 < min(numbers) <= tuning.BLOCK_SUMS:
        return None
    place = low + Affine(((dim, 1),))

    def rule(node: object) -> Expr | None:
        match node:
            case Var(name) if name == scan.dim:
                return expression(place)
            case Bin("%" | "rem", left, Num(count)) if dim in variables(left) and count >= min(numbers):
                offset = linear(left) - Affine(((dim, 1),))
                return None if any(k % count for _, k in offset.terms) or offset.constant % count else Var(dim)
            case Bin(op, _, _) if op in ("+", "-") and dim in variables(node):
                return expression(linear(node))
        return None

    def careful(node: object) -> Expr | None:
        try:
            return rule(node)
        except NotAffine:
            return None

    body: Plan = rewrite(careful, scan.body)
    return replace(scan, dim=dim, low=(Num(0),), high=tuple(map(expression, high)), body=body)


def _sums(outer: Scan) -> Accumulate | None:
    """The loop with a sum for each place that a small loop inside goes through."""
    inside = list(chain(outer.body))
    if outer.parallel or not all(isinstance(n, Scan | Load | Define | Guard | Store) or is_sum(n) for n in inside):
        return None
    do = inside[-1]
    if not isinstance(do, Store) or do.op == "=" or any(is_sum(n) and n.op == "=" for n in inside):
        return None
    if any(isinstance(n, Read) and n.operand.tensor == do.target.tensor for n in walk(do.value)):
        return None
    located = {n.dim: n.value for n in inside if isinstance(n, Define)}
    located |= {n.dim: n.call for n in inside if isinstance(n, Load)}
    place = tuple(_written_out(p, located) for p in do.target.place)
    named = variables(*place)
    defined = {outer.dim, *(n.dim for n in inside if isinstance(n, Scan | Load))}
    small = [n for n in inside if isinstance(n, Scan) and n.dim in named]
    if len(small) != 1 or named & defined != {small[0].dim}:
        return None
    (block_loop,) = small
    count = _count(block_loop)
    if count is None or variables(*block_loop.high) & {*defined, *located}:
        return None
    added = replace(do.target, array="", place=(Var(block_loop.dim),))
    nest = without_unused(rewrite(lambda n: added if n == do.target else None, outer))
    why = f"{do.target.tensor} has at most {count} places there"
    registers = Registers(block_loop.dim, count, block_loop.high, added)
    return Accumulate(replace(do.target, place=place), do.op, nest, registers, why, monoid=do.monoid)


def _stored(clear: Clear) -> Plan | None:
    """What is cleared first is stored instead, where it is known to be just the places of the sums: only blocks that
    are not whole are cleared."""
    if clear.body is None:
        return None
    above, node = lookups_of(clear.body)
    if not isinstance(node, Versions) or node.by_cost or len(node.versions) != 2:
        return None
    whole, edges = node.versions
    if not isinstance(whole.body, Accumulate) or not _are_places(clear.part, whole, whole.body):
        return None
    stored = replace(whole, body=replace(whole.body, op="="))
    result: Plan = replace(node, versions=(stored, replace(edges, body=replace(clear, body=edges.body))))
    for outer in reversed(above):
        result = with_body(outer, result)
    return result


def _are_places(part: Plan | None, whole: Version, sums: Accumulate) -> bool:
    """Whether a loop over places goes through those of the sums where the blocks are whole."""
    registers = _registers(sums)
    conditions = () if isinstance(whole.when, Cheapest) else whole.when
    match part:
        case Scan(dim, (low,), high, Store(target)) if len(target.place) == len(sums.target.place) == 1:
            pass
        case _:
            return False
    try:
        first = linear(substitute(sums.target.place[0], {registers.dim: Num(0)}))
        after = linear(substitute(sums.target.place[0], {registers.dim: Num(1)}))
        ends = [linear(e) - first for e in high]
        known = [linear(c.left) for c in conditions if isinstance(c, Compare)]
        begin = linear(low)
    except NotAffine:
        return False
    count = Affine((), registers.count)
    if target.place != (Var(dim),) or begin != first or after - first != Affine((), 1):
        return False
    return count in ends and all(end == count or end in known for end in ends)


def _count(scan: Scan) -> int | None:
    """How often a loop runs at most, when that is a small number."""
    return None if scan.parallel else extent_of_block(scan)


def _written_out(expr: Expr, located: Mapping[str, Expr]) -> Expr:
    while variables(expr) & located.keys():
        expr = substitute(expr, located)
    return expr


def _in_wholes(sums: Accumulate, given: Scan) -> Plan:
    """The sums where blocks are whole, those at the edges apart."""
    registers = _registers(sums)
    block_loop = next(n for n in chain(sums.body) if isinstance(n, Scan) and n.dim == registers.dim)
    needs = _needs(block_loop)
    inner = _wholes_inside(_with_count(sums.body, block_loop), block_loop.dim)
    whole = replace(sums, storage=replace(registers, high=(Num(registers.count),)), body=inner)
    return specialised(needs, whole, given, WHY)


def _registers(sums: Accumulate) -> Registers:
    assert isinstance(sums.storage, Registers)
    return sums.storage


def _replaced(old: Plan, new: Plan, node: object) -> Plan | None:
    return new if node == old else None


def _needs(scan: Scan) -> tuple[Formula, ...]:
    """What must hold for a loop to run as often as it can."""
    count = _count(scan)
    assert count is not None
    return tuple(Compare(">=", e, Num(count)) for e in scan.high if not isinstance(e, Num))


def _with_count(plan: Plan, scan: Scan) -> Plan:
    """The nest in which this loop runs as often as it can."""
    count = _count(scan)
    assert count is not None
    known = replace(scan, high=(Num(count),))
    result: Plan = rewrite(
        lambda n: replace(n, high=known.high) if isinstance(n, Scan) and n.dim == scan.dim else None, plan
    )
    return result


def _wholes_inside(plan: Plan, dim: str) -> Plan:
    """The nest whose loop over `dim` has the small loops inside of it run as often as they can, where they do."""

    def rule(node: object) -> Plan | None:
        if not isinstance(node, Scan) or node.dim != dim:
            return None
        inside = list(chain(node.body))
        defined = {node.dim, *(n.dim for n in inside if isinstance(n, Scan | Load | Define))}
        needs: tuple[Formula, ...] = ()
        whole: Plan = node
        edges: Plan = node
        for scan in inside:
            if isinstance(scan, Scan) and _count(scan) is not None and _needs(scan):
                more = _needs(scan)
                if not variables(*more) & defined:
                    needs += more
                    whole, edges = _with_count(whole, scan), _guarded(edges, scan)
        return specialised(needs, whole, edges, WHY) if needs else None

    result: Plan = rewrite(rule, plan, PLANS)
    return result


def _guarded(plan: Plan, scan: Scan) -> Plan:
    """The nest in which this loop runs as often as it can, and does nothing where it should not: its number of
    iterations is still known."""
    inside = tuple(Compare("<", Var(scan.dim), e) for e in scan.high if not isinstance(e, Num))

    def rule(node: object) -> Plan | None:
        return replace(node, body=Guard(inside, node.body)) if isinstance(node, Scan) and node.dim == scan.dim else None

    result: Plan = rewrite(rule, _with_count(plan, scan))
    return result

"""Operands that are read against the grain are read from a transposed copy, where that pays.

    for i { for p { j = f(p); for k { sum += A[p]*B[i, k]*D[k, j] } } }

walks down a column of D for each p: each value lies in another line of the cache, so that no vector can be loaded, and
of large columns nothing stays in the caches. A copy in which the values for neighbouring k are neighbours costs one
pass over D: little, where each value is read several times. The sizes of the call decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spfgen import tuning
from spfgen.facts.formula import ONE, ZERO, Bin, Expr, Num, Var, substitute, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.analyse.cost import THREADS, Counts, is_ever_less, nanoseconds, plus, times
from spfgen.plan.context import Context
from spfgen.plan.nodes import Cheapest, Define, Guard, Load, Plan, Scan, Store, Transpose, Version, chain, is_sum
from spfgen.space.nodes import Instance, Operand, Read

ACROSS, ALONG, COPIED = map(
    nanoseconds,
    (tuning.TRANSPOSE_ACROSS_TENTHS, tuning.TRANSPOSE_ALONG_TENTHS, tuning.TRANSPOSE_COPIED_TENTHS),
)
MOVED, FRESH = nanoseconds(tuning.TRANSPOSE_MOVED_TENTHS), nanoseconds(tuning.TRANSPOSE_FRESH_TENTHS)
NEAR, KEPT = Num(tuning.TRANSPOSE_NEAR), Num(tuning.TRANSPOSE_KEPT)
COPY = "transposed"


def with_transposed(instance: Instance, variants: Sequence[Version], context: Context) -> list[Version]:
    """The variants, and for those that read an operand against the grain one that transposes it first, where that is
    faster for some sizes."""
    result: list[Version] = []
    for variant in variants:
        operand_and_axis = _across(variant.body)
        if operand_and_axis is None:
            result.append(variant)
            continue
        operand, axis = operand_and_axis
        reads = times(*_trips(instance, variant.body))
        size = times(*operand.extents)
        far = plus(ONE, _above(size, NEAR))
        direct = times(ACROSS, far, reads)
        each = [COPIED, times(FRESH, _above(size, KEPT))]
        each += [] if context.deterministic else [times(MOVED, _above(THREADS, ONE))]
        copied = plus(times(plus(*each), size), times(ALONG, far, reads))
        if is_ever_less(copied, direct, context.stored):
            result.append(replace(variant, when=Cheapest(plus(variant.cost, direct))))
            transposed = _transposed(variant.body, operand, axis)
            result.append(Version(Cheapest(plus(variant.cost, copied)), transposed))
        else:
            result.append(variant)
    return result


def _above(number: Expr, limit: Expr) -> Expr:
    """1 where the number is larger than the limit, else 0."""
    return Bin("min", ONE, Bin("max", ZERO, Bin("-", number, limit)))


def _trips(instance: Instance, plan: Plan) -> list[Expr]:
    """How often each loop runs."""
    counts = Counts(instance)
    known = {call.function: Var(dim) for dim, call in instance.calls.items()}
    loaded = {n.dim: known[n.call.function] for n in chain(plan) if isinstance(n, Load)}

    def asked(bounds: tuple[Expr, ...]) -> list[Expr]:
        return [substitute(e, loaded) for e in bounds]

    return [counts.trips(asked(n.low), asked(n.high)) for n in chain(plan) if isinstance(n, Scan)]


def _across(plan: Plan) -> tuple[Operand, int] | None:
    """The only operand that a sum is not along, and the subscript that is."""
    nodes = list(chain(plan))
    do = nodes[-1]
    plain = all(isinstance(n, Scan | Load | Define | Guard | Store) or is_sum(n) for n in nodes)
    if not plain or not isinstance(do, Store):
        return None
    scans = [k for k, n in enumerate(nodes) if isinstance(n, Scan)]
    if not scans or not any(map(is_sum, nodes)):
        return None
    inner = nodes[scans[-1]]
    assert isinstance(inner, Scan)
    if inner.vector or inner.unroll or any(isinstance(n, Load) for n in nodes[scans[-1] :]):
        return None
    reads = dict.fromkeys(n.operand for n in walk(do.value) if isinstance(n, Read))
    moved = [o for o in reads if any(inner.dim in variables(p) for p in o.place)]
    across = [o for o in moved if o.place[-1] != Var(inner.dim)]
    if len(across) != 1 or any(inner.dim in variables(p) for o in moved if o not in across for p in o.place[:-1]):
        return None
    (operand,) = across
    along = [k for k, p in enumerate(operand.place) if inner.dim in variables(p)]
    if operand.tensor == do.target.tensor or len(along) != 1 or operand.place[along[0]] != Var(inner.dim):
        return None
    return operand, along[0]


def _transposed(plan: Plan, operand: Operand, axis: int) -> Plan:
    """The nest that reads the operand from a copy."""
    order = [k for k in range(len(operand.place)) if k != axis] + [axis]
    place, extents = tuple(operand.place[k] for k in order), tuple(operand.extents[k] for k in order)
    copy = replace(operand, array=f"{operand.array} {COPY}", place=place, extents=extents)
    inside = rewrite(lambda n: Read(copy) if n == Read(operand) else None, plan)
    why = f"the sums read {operand.tensor} with a stride, and each value several times"
    return Transpose(operand, axis, copy, inside, why)

"""What a schedule asks of loops is proved legal, or refused with the dependence that forbids it and an example.

Parallel: no iteration reads what another one writes. Vectorized: besides, none adds to a place that another one adds
to, unless all add to one sum that is kept in a variable. Unrolled and prefetched: always. Fused: parallel, each of the
loops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from spfgen.errors import SpecError
from spfgen.facts.formula import variables
from spfgen.ir import rewrite, walk
from spfgen.plan.analyse.depend import (
    DEPENDENCE,
    INDEPENDENT,
    REDUCTION,
    Meeting,
    in_words,
    meetings,
    read_too_early,
    relation,
)
from spfgen.plan.analyse.scan import Step
from spfgen.plan.context import Context
from spfgen.plan.nodes import (
    PLANS,
    Block,
    Define,
    Find,
    Guard,
    LevelLoop,
    Load,
    Plan,
    Prefetch,
    Scan,
    Store,
    is_sum,
    is_temporary,
    with_body,
)
from spfgen.plan.transform.prefetch import fetched_as_said
from spfgen.space.nodes import Instance, Mark


def parallel_loop(instance: Instance, steps: Sequence[Step], context: Context) -> Meeting | None:
    """The loop that the schedule wants parallel, if there is one in this nest, and what its iterations share.

    Raises SpecError when one of them needs what another one writes.
    """
    wanted = [m for s in steps if s.kind == "scan" and (m := context.marked("parallel", s.dim)) is not None]
    if not wanted:
        return None
    if len(wanted) > 1:
        names = " and ".join(f"`{m.dim}`" for m in wanted)
        hint = "threads share out the iterations of one loop: the outer one, or both as one with `fuse`"
        raise SpecError(f"expected one parallel loop in a nest, but {names} are in one", wanted[1].span, (hint,))
    (mark,) = wanted
    meeting = meetings(instance, steps, mark.dim)
    if meeting.kind == DEPENDENCE:
        raise refused(steps, mark, meeting, "run in any order")
    fused = context.marked("fuse", mark.dim)
    for dim in fused.inner if fused is not None else ():
        if meeting.kind == INDEPENDENT and any(s.dim == dim and s.kind == "scan" for s in steps):
            inner = meetings(instance, steps, dim)
            if inner.kind != INDEPENDENT:
                raise refused(steps, replace(mark, dim=dim), inner, "run in any order")
    return meeting


def check_order(instance: Instance, steps: Sequence[Step], context: Context) -> None:
    """Raises SpecError when the loops read a place of the target before it is written."""
    dependence = read_too_early(instance, steps)
    if dependence is not None:
        marks = [m for m in context.marks if m.dim in {*dependence.outer, dependence.loop}]
        raise SpecError(
            f"expected a loop order in which elements are written before they are read, but {in_words(dependence)}",
            marks[0].span if marks else None,
            (
                f"the dependence: {relation(steps, dependence)}",
                "leave the order of these loops to spfgen, or reverse it",
            ),
        )


def refused(steps: Sequence[Step], mark: Mark, meeting: Meeting, what: str) -> SpecError:
    """The loop cannot be what the schedule wants."""
    carries = "a dependence" if meeting.kind == DEPENDENCE else "a reduction"
    return SpecError(
        f"expected a loop whose iterations can {what}, but `{mark.dim}` carries {carries}: {in_words(meeting)}",
        mark.span,
        (f"the dependence: {relation(steps, meeting)}",),
    )


@dataclass(frozen=True)
class SharedPlaces:
    """What iterations of a loop of these steps share in a statement inside; `summed` if they add to a variable."""

    meeting: Meeting
    steps: Sequence[Step]
    summed: bool


Sharing = Callable[[Scan, Mark], list[SharedPlaces]]
"""What iterations of a loop share in each statement inside. May raise SpecError for a mark that this forbids."""


def annotated(instance: Instance, nest: Plan, steps: Sequence[Step], context: Context) -> Plan:
    """The nest with what the schedule says of its loops. Raises SpecError where that is not legal."""

    def sharing(scan: Scan, mark: Mark) -> list[SharedPlaces]:
        summed = any(is_sum(n) and any(m is scan for m in walk(n.body)) for n in walk(nest))
        return [SharedPlaces(meetings(instance, steps, mark.dim), steps, summed)]

    return annotated_by(sharing, nest, context)


def annotated_by(sharing: Sharing, nest: Plan, context: Context, own_sums: Collection[str] = ()) -> Plan:
    """The same, where it is known what iterations share. `made` are sums that the kernel keeps for itself."""
    nothing: dict[Mark, bool] = {}
    inspecting = {id(n) for c in walk(nest, PLANS) if isinstance(c, LevelLoop) for n in walk(c.inspect, PLANS)}

    def rule(node: object) -> Plan | None:
        if not isinstance(node, Scan) or id(node) in inspecting:
            return None
        result: Plan = node
        for mark in (m for m in context.marks if m.dim == node.dim):
            assert isinstance(result, Scan)
            match mark.word:
                case "vectorize":
                    result = _vectorized(result, mark, sharing)
                case "unroll":
                    result = _unrolled(result, mark, context)
                case "fuse":
                    result = _fused(result, mark)
                case "prefetch":
                    fetching = _fetching(result, mark, own_sums)
                    nothing[mark] = fetching is None and nothing.get(mark, True)
                    result = fetching or result
        return None if result is node else result

    if not any(m.word in ("vectorize", "unroll", "fuse", "prefetch") for m in context.marks):
        return nest
    result: Plan = rewrite(rule, nest, PLANS)
    for mark in (m for m, is_so in nothing.items() if is_so):
        message = f"expected a loop that reads values, but `{mark.dim}` reads none at its own position"
        raise SpecError(message, mark.span, ("leave `prefetch` out",))
    return result


def _fetching(scan: Scan, mark: Mark, own_sums: Collection[str]) -> Plan | None:
    if scan.down:
        message = f"expected a loop that runs upwards, but `{mark.dim}` runs downwards: what is ahead was read before"
        raise SpecError(message, mark.span, ("leave `prefetch` out",))
    return fetched_as_said(scan, mark.number, own_sums)


def _vectorized(scan: Scan, mark: Mark, sharing: Sharing) -> Scan:
    inside = [n for n in walk(scan.body) if isinstance(n, Plan)]
    loop = next((n for n in inside if isinstance(n, Scan | Find)), None)
    if loop is not None:
        hint = (f"vectorize `{loop.dim}`", f"or put `{mark.dim}` innermost: `order ..., {mark.dim}`")
        raise SpecError(f"expected the innermost loop, but `{loop.dim}` is inside of `{mark.dim}`", mark.span, hint)
    for shared in sharing(scan, mark):
        kind = shared.meeting.kind
        if kind == DEPENDENCE or (kind == REDUCTION and not shared.summed):
            raise refused(shared.steps, mark, shared.meeting, "be vectorized")
    if not all(isinstance(n, Load | Define | Guard | Store | Prefetch | Block) or is_temporary(n) for n in inside):
        hints = ("loops that search or have sums of their own are not vectorized: leave `vectorize` out",)
        message = f"expected a loop that does nothing but compute, but `{mark.dim}` does more"
        raise SpecError(message, mark.span, hints)
    return replace(scan, vector=True)


def _unrolled(scan: Scan, mark: Mark, context: Context) -> Scan:
    if scan.parallel or context.marked("vectorize", mark.dim) is not None:
        what = "parallel" if scan.parallel else "vectorized"
        hint = f"split it and unroll the loop inside: `split {mark.dim} by {mark.number}; unroll {mark.dim} by ...`"
        raise SpecError(f"expected a plain loop, but `{mark.dim}` is {what}", mark.span, (hint,))
    return replace(scan, unroll=mark.number)


def _fused(scan: Scan, mark: Mark) -> Scan:
    """Loops that are shared out as one: the inner ones have bounds of their own, and what is read between them may as
    well be read inside of all."""
    if not scan.parallel:
        hint = f"fused loops have more iterations to share out: `parallel {mark.dim}` where that is legal"
        raise SpecError(f"expected a parallel loop, but `{mark.dim}` is not", mark.span, (hint,))
    loops = [scan]
    between: list[Plan] = []
    for dim in mark.inner:
        node: Plan = loops[-1].body
        while isinstance(node, Load | Define):
            between.append(node)
            node = node.body
        if not isinstance(node, Scan) or node.dim != dim:
            message = f"expected `{dim}` directly inside of `{mark.dim}`, but there is more between them"
            hints = ("between fused loops values are read and computed, and nothing else is done",)
            raise SpecError(message, mark.span, hints)
        known = {n.dim for n in (*loops, *between) if isinstance(n, Scan | Load | Define)}
        if any(variables(e) & known for e in (*node.low, *node.high)):
            hint = "loops are fused when the inner one runs from and to the same places in each iteration"
            raise SpecError(f"expected bounds of `{dim}` that do not change, but they do", mark.span, (hint,))
        if node.vector or node.unroll:
            word = "vectorized" if node.vector else "unrolled"
            hint = f"split it and fuse the loop outside: `split {dim} by 8 as outer; fuse {mark.dim}, outer`"
            raise SpecError(f"expected plain loops, but `{dim}` is {word}", mark.span, (hint,))
        loops.append(node)
    inside = loops[-1].body
    for node in (*reversed(between), *(replace(n, collapse=1) for n in reversed(loops[1:]))):
        inside = with_body(node, inside)
    scan = replace(scan, body=inside)
    return replace(scan, collapse=1 + len(mark.inner), partition=None)

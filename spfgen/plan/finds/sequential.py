"""Sequential iteration: the position is kept from one find to the next and only ever moves one way.

Needs (Zhao et al. 2022, appendix A): the array is sorted within the bounds; of two iterations of the enclosing loops
with the same state the later one does not ask for an earlier key, and the bounds are the same. The state indices are
found by greedy elimination, inner loops first; what is left may be replaced by a computed dimension that says less
(reduced indices, A.3). After a hit the position stays, so that the same key may be asked for again.

Galloping is the same with growing steps: for finds that jump far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spfgen import tuning
from spfgen.facts.formula import ZERO, Expr, Num, Var, other_arguments, variables
from spfgen.plan.analyse.cost import log2, nanoseconds, over, plus, times
from spfgen.plan.analyse.scan import with_quotients
from spfgen.plan.finds.proposal import NOTHING, Offer, Proposal, Setup
from spfgen.plan.finds.query import KnownLoad, Query
from spfgen.plan.nodes import Key, Rejected, SearchState
from spfgen.sets.affine import Affine, divided, expression
from spfgen.sets.bounds import bounds
from spfgen.sets.named import Constraint
from spfgen.space.local_tensors import COUNT

NAME, GALLOP = "sequential", "gallop"
ALGORITHMS = {NAME: "sequential iteration", GALLOP: "galloping"}


@dataclass(frozen=True)
class _Kept:
    """The state indices, and whether the keys fall in time."""

    state: tuple[str, ...]
    falling: bool


def propose(query: Query, key: KnownLoad) -> list[Offer]:
    """Sequential iteration and galloping."""
    offer = _offer(query, key)
    if isinstance(offer, str):
        return [Rejected(NAME, offer), Rejected(GALLOP, offer)]
    return list(offer)


def _offer(query: Query, key: KnownLoad) -> str | tuple[Offer, ...]:
    order = query.order(key)
    if order.descending is None:
        return order.doubt
    kept = _kept(query, key)
    if isinstance(kept, str):
        return kept
    above = next(d for d in query.loops if d not in kept.state)
    state = _state(query, key, kept, above, order.descending)
    if isinstance(state, str):
        return state
    backward = kept.falling != order.descending
    words = f"{order.words} and the keys searched for are {'decreasing' if kept.falling else 'increasing'}"
    if kept.state:
        words += f" for one value of {', '.join(kept.state)}"
    find = replace(
        query.find,
        conditions=query.remaining(key),
        key=Key(key.dim, with_quotients(key.value, query.before), order.descending, order.unique, backward),
        parallel=False,
        because=f"{words} (by Z3 from the declared properties)",
        place=state.name,
        at=state.over,
    )
    states = _times_started(query, state, above)
    memory = times(nanoseconds(tuning.STATE_TENTHS), *state.extents) if state.extents else ZERO  # cleared before
    walked = plus(memory, times(nanoseconds(tuning.WALK_TENTHS), states, query.length))
    steps = query.total(nanoseconds(tuning.STEP_TENTHS))
    far = over(times(states, query.length), query.visits)
    jumps = plus(
        memory, query.total(plus(nanoseconds(tuning.JUMP_TENTHS), times(nanoseconds(tuning.GALLOP_TENTHS), log2(far))))
    )
    setup = (Setup(above, state),)
    frugal = not state.extents
    walking = Proposal(NAME, replace(find, algorithm=ALGORITHMS[NAME]), plus(walked, steps), setup, frugal)
    if backward:
        return walking, Rejected(GALLOP, "it would run backwards")
    return walking, Proposal(GALLOP, replace(find, algorithm=ALGORITHMS[GALLOP]), jumps, setup, frugal)


def _kept(query: Query, key: KnownLoad) -> _Kept | str:
    """The fewest state indices for which the keys run one way, or why there are none."""
    if not query.loops:
        return "there is no loop around it"
    reason = "its bounds change in every iteration"
    for falling in (False, True):
        state = list(query.loops)
        for loop in reversed([d for d in query.loops[len(query.fixed) :] if d not in query.falling]):
            fewer = [s for s in state if s != loop]
            verdict = _is_state(query, key, fewer, falling)
            if verdict == "":
                state = fewer
            elif verdict is not None:
                reason = verdict
        above = next((d for d in query.loops if d not in state), query.loops[0])
        for index in reversed(list(state)):
            inside = query.loops.index(index) >= query.loops.index(above)  # further out it takes no room
            if inside and not isinstance(query.trips[index], Num):  # nor does a small block
                state = _reduced(query, key, state, index, falling)
        if any(d not in state for d in query.loops):
            return _Kept(tuple(state), falling)
    return reason


def _reduced(query: Query, key: KnownLoad, state: list[str], index: str, falling: bool) -> list[str]:
    """The state with a computed dimension in place of a loop, where that is enough: it says less."""
    for step in query.steps:
        if step.kind in ("scan", "guard") or index not in query.sources({step.dim}):
            continue
        determined = query.determined({step.dim})
        if index in determined or variables(key.value) <= determined:
            continue
        if any(_equal(query, step.dim, name) for name in (index, *(variables(key.value) & query.outer))):
            continue  # another name for the loop, or for what the key is made of
        other = [step.dim if s == index else s for s in state]
        if _is_state(query, key, other, falling) == "":
            return other
    return state


def _equal(query: Query, one: str, two: str) -> bool:
    return query.before.implies(Constraint(True, Affine(((one, 1), (two, -1)))))


def _is_state(query: Query, key: KnownLoad, state: list[str], falling: bool) -> str | None:
    """ "" when it is proved; None when the bounds differ, else what is not proved."""
    bounds = variables(*query.find.low, *query.find.high, *other_arguments(key.call, query.find.dim))
    if not bounds - {query.find.dim} <= query.determined(state):
        return None
    answer = query.later(key.value, state, ">=" if falling else "<=")
    if answer.proved:
        return ""
    return f"a later iteration may ask for a smaller key ({answer.word})"


def _state(query: Query, key: KnownLoad, kept: _Kept, above: str, descending: bool) -> SearchState | str:
    """Where the position is kept: a scalar, one that starts anew with its indices, or an array over them."""
    outside = query.known_above(above)
    inner = [s for s in kept.state if s not in outside]
    if len(inner) > 1:
        return f"its state would have to be kept for each combination of {', '.join(inner)}"
    over_: tuple[Expr, ...] = tuple(Var(s) for s in inner)
    extents: tuple[Expr, ...] = ()
    if inner and not _side_by_side(query, inner, above):
        sized = [_array_extent(query, s) for s in inner]
        if any(e is None for e in sized):
            return f"the values of {', '.join(inner)} that its state depends on have no bounds in the sizes"
        if query.fixed:
            return f"each thread would have to clear its states in every iteration of {query.fixed[-1]}"
        extents = tuple(e for e in sized if e is not None)
    needed = variables(*query.find.low, *query.find.high)
    ready = not inner and needed <= outside
    return SearchState(
        f"{query.find.dim} state{len(query.find.given) or ''}",
        query.find.low if ready else (),
        query.find.high if ready else (),
        kept.falling != descending,
        over_,
        extents,
        NOTHING,
        loops=len(query.loops) - query.loops.index(above),
    )


def _side_by_side(query: Query, inner: list[str], above: str) -> bool:
    """Whether iterations with the same value of the (only) index follow one another: it never falls, or never rises."""
    if len(inner) != 1 or inner[0] in query.loops:  # a loop inside comes again for every iteration outside
        return False
    fixed = query.loops[: query.loops.index(above)]
    return any(query.later(Var(inner[0]), fixed, op).proved for op in ("<=", ">="))


def _array_extent(query: Query, index: str) -> Expr | None:
    """n when the index is proved to lie in [0, n) for an n in the sizes that are known when the kernel is called."""
    sizes = {s for s in query.instance.sizes if s not in query.instance.around and not s.endswith(f".{COUNT}")}
    lower, upper = bounds(query.before.project({*sizes, index}).constraints(index), index)
    if not any(not e.terms and e.constant <= 0 for _, e in lower):
        return None
    return next((expression(divided(e, a).plus(1)) for a, e in upper if e.names() <= sizes), None)


def _times_started(query: Query, state: SearchState, above: str) -> Expr:
    """How often a state starts from its beginning."""
    outside = query.loops[: query.loops.index(above)]
    indices = [query.counts.extent(e.name) for e in state.over if isinstance(e, Var)]
    return times(*(query.trips[d] for d in outside), *indices)

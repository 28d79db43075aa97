"""Partial sums in C (plan/transform/partial_sums.py), segmented reductions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from spfgen import tuning
from spfgen.cir.lower.scope import Accumulator, Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import INT, added_pairwise, downwards, in_braces, joined, loop, minus
from spfgen.cir.tree.elements import zero
from spfgen.facts.formula import Bin, Compare, Expr, Num, Var, substitute, variables
from spfgen.ir import rewrite
from spfgen.lang.types import ElementType
from spfgen.plan.nodes import (
    ACROSS,
    DISTINCT,
    FEW_LEFT,
    IN_TURN,
    LEFT,
    SEVERAL,
    Ahead,
    Block,
    Find,
    Guard,
    Plan,
    Scan,
    Store,
    chain,
)
from spfgen.plan.transform.segmented_reduction import written_out
from spfgen.plan.transform.simplify import without_unused
from spfgen.space.nodes import Monoid, Operand

TWICE = openmp.unroll(2)


def partial_sums(low: Lowering, plan: Scan, scope: Scope) -> list[c.Stmt]:
    """A loop that only adds to sums, as its plan says."""
    if plan.partial == SEVERAL:
        return vectors_side_by_side(low, plan, scope)
    if plan.partial == DISTINCT:
        return distinct_places(low, plan, scope)
    do = list(chain(plan.body))[-1]
    assert isinstance(do, Store)
    accumulator = scope.running(do.target)
    assert accumulator is not None
    if plan.partial in (ACROSS, IN_TURN):
        return (vector_sums if plan.partial == ACROSS else side_sums)(low, plan, scope, accumulator)
    write = {LEFT: taken_off, FEW_LEFT: few_taken_off}[plan.partial]
    return write(low, plan, scope, accumulator.variable, accumulator.type)


def distinct_places(low: Lowering, plan: Scan, scope: Scope) -> list[c.Stmt]:
    """Four iterations read and add, then the four sums are stored."""
    position, first = low.names[plan.dim], low.fold("spfgen_max", plan.low, scope)
    end = low.fold("spfgen_min", plan.high, scope)
    at = c.Name(low.names.new(f"{position}_next"))
    low.names.table[f"@{at.name}"] = at.name
    do = list(chain(plan.body))[-1]
    assert isinstance(do, Store)
    kind = low.kinds[do.target.tensor].c
    sums = [c.Name(low.names.new(f"{do.target.tensor}_{k + 1}")) for k in range(tuning.UNROLLED)]
    one_by_one = low.plan(plan.body, scope)
    read: list[c.Stmt] = []
    added: list[c.Stmt] = []
    stored: list[c.Stmt] = []
    for k, partial_sum in enumerate(sums):
        place = Bin("+", Var(f"@{at.name}"), Num(k)) if k else Var(f"@{at.name}")
        *above, last = low.plan(substitute(plan.body, {plan.dim: place}), scope)
        if scope.atomic or not isinstance(last, c.Assign) or last.op not in ("+=", "="):
            # one atomic addition after another, or another way to add, as of booleans
            return [*fetched(low, plan, scope, first, end, some=False), low.loop(plan, scope, one_by_one)]
        total = c.Bin("+", last.target, last.value) if last.op == "+=" else last.value
        if above:
            read.append(c.Declare(kind, partial_sum.name))
            added += in_braces([*above, c.Assign(partial_sum, "=", total)])
        else:
            added.append(c.Declare(f"const {kind}", partial_sum.name, total))
        stored += in_braces([*above, c.Assign(last.target, "=", partial_sum)])
    lines: list[c.Stmt] = []
    if not isinstance(end, c.Name | c.Int):
        end = c.Name(low.names.new(f"{position}_end"))
        lines.append(c.Declare(f"const {INT}", end.name, low.fold("spfgen_min", plan.high, scope)))
    more = c.Bin("<=", c.Bin("+", at, c.Int(tuning.UNROLLED)), end)
    return [
        *lines,
        *fetched(low, plan, scope, first, end, some=False),
        c.Comment("unrolled by four: no two of the places are the same"),
        c.Declare(INT, at.name, first),
        c.While(more, c.Block((*read, *added, *stored, c.Assign(at, "+=", c.Int(tuning.UNROLLED))))),
        loop(position, at, end, one_by_one),
    ]


def few_taken_off(low: Lowering, plan: Scan, scope: Scope, name: str, kind: ElementType) -> list[c.Stmt]:
    """A sum of its own for a short loop: the one around waits for one addition in each iteration, not for all of them.
    Where the loop is whole, as it mostly is, compilers know how often it runs."""
    few = low.names.new(f"{name}_few")
    body = _for_another(low, plan.body, scope, name, few)

    def run(lows: tuple[Expr, ...], highs: tuple[Expr, ...]) -> c.Stmt:
        limits = (low.fold("spfgen_max", lows, scope), low.fold("spfgen_min", highs, scope))
        return (downwards if plan.down else loop)(low.names[plan.dim], *limits, body)

    lows, highs = (tuple(e for e in limits if isinstance(e, Num)) for limits in (plan.low, plan.high))
    asked = [Compare("<=", e, lows[0]) for e in plan.low if e not in lows] if lows else []
    asked += [Compare("<=", highs[0], e) for e in plan.high if e not in highs]
    each = run(plan.low, plan.high)
    if lows and asked:
        each = c.If(low.all(asked, scope), c.Block((run(lows, highs),)), c.Block((each,)))
    lines = [c.Declare(kind.c, few, zero(kind)), each, c.Assign(c.Name(name), "+=", c.Name(few))]
    return [c.Braces(c.Block(tuple(lines)))]


def taken_off(low: Lowering, plan: Scan, scope: Scope, name: str, kind: ElementType) -> list[c.Stmt]:
    """One value after another: the last of them may be just computed, and then there is no other way between it and
    what is computed next. Long segments begin with four sums, to which most values are added before they wait. Two of
    the others are in a round: with one, where the loop's jump lies in memory makes as much as a sixth of the time."""
    position = low.names[plan.dim]
    first, end = low.fold("spfgen_max", plan.low, scope), low.fold("spfgen_min", plan.high, scope)
    at = c.Name(low.names.new(f"{position}_next"))
    low.names.table[f"@{at.name}"] = at.name
    names = [low.names.new(f"{name}_{k + 1}") for k in range(tuning.UNROLLED)]
    each: list[c.Stmt] = []
    for k, partial_sum in enumerate(names):
        place = Bin("-", Var(f"@{at.name}"), Num(k + 1)) if plan.down else Var(f"@{at.name}")
        place = Bin("+", place, Num(k)) if k and not plan.down else place
        each += in_braces(_for_another(low, substitute(plan.body, {plan.dim: place}), scope, name, partial_sum))
    more = (
        c.Bin("<=", c.Bin("+", first, c.Int(tuning.UNROLLED)), at)
        if plan.down
        else c.Bin("<=", c.Bin("+", at, c.Int(tuning.UNROLLED)), end)
    )
    step = c.Assign(at, "-=" if plan.down else "+=", c.Int(tuning.UNROLLED))
    sums = [c.Bin("+", c.Name(a), c.Name(b)) for a, b in zip(names[::2], names[1::2], strict=True)]
    several = c.Block(
        (
            c.Comment("four partial sums, whose additions are independent"),
            *(c.Declare(kind.c, partial_sum, zero(kind)) for partial_sum in names),
            c.While(more, c.Block((*each, step))),
            c.Assign(c.Name(name), "+=", joined("+", sums)),
        )
    )
    body = low.plan(plan.body, scope)
    return [
        c.Declare(INT, at.name, end if plan.down else first),
        c.If(c.Bin("<=", c.Int(tuning.PREFETCH_LONG), minus(end, first)), several),
        downwards(position, first, at, body, TWICE) if plan.down else loop(position, at, end, body, TWICE),
    ]


def vector(names: Iterable[str]) -> str:
    """The pragma of sums by vectors, where the schedule asks for them."""
    return openmp.simd_sums(names)


def in_pieces(whole: c.For, pieces: Sequence[int]) -> list[c.Stmt]:
    """A loop from 0 as several, which run so often each."""
    loops: list[c.Stmt] = []
    start = 0
    for count in pieces:
        limit = c.Bin("<", c.Name(whole.variable), c.Int(start + count))
        pragmas = whole.pragmas if count > 1 else ()
        loops.append(replace(whole, start=c.Int(start), condition=limit, pragmas=pragmas))
        start += count
    return loops


def vector_sums(low: Lowering, plan: Scan, scope: Scope, total: Accumulator) -> list[c.Stmt]:
    """A vector of sums, two in long loops, written out: with `omp simd reduction` compilers add up the vector in the
    end one number after the other, which takes longer than the loop where that is short."""
    first, end = low.fold("spfgen_max", plan.low, scope), low.fold("spfgen_min", plan.high, scope)
    position = low.names[plan.dim]
    lines: list[c.Stmt] = []
    if not isinstance(end, c.Name | c.Int):
        lines.append(c.Declare(f"const {INT}", low.names.new(f"{position}_end"), end))
        end = c.Name(lines[-1].name)  # type: ignore[attr-defined]
    at, lane = c.Name(low.names.new(f"{position}_next")), c.Name(low.names.new("lane"))
    vectors = [c.Name(low.names.new(f"{total.variable}_vector")) for _ in range(2)]
    low.names.table |= {f"@{n.name}": n.name for n in (at, lane)}

    def summed(count: int) -> c.Block:
        return c.Block(tuple(_by_vectors(low, plan, scope, total, vectors[:count], lane, at, end)))

    lines += [c.Comment("a vector of partial sums, two in long loops"), c.Declare(INT, at.name, first)]
    one, two = summed(1), summed(2)
    length = minus(end, first)
    if isinstance(length, c.Int):
        return [*lines, *(one if length.value < tuning.VECTOR_SUM_LONG else two).statements]
    return [*lines, c.If(c.Bin("<", length, c.Int(tuning.VECTOR_SUM_LONG)), one, two)]


def _by_vectors(
    low: Lowering,
    plan: Scan,
    scope: Scope,
    total: Accumulator,
    vectors: Sequence[c.Name],
    lane: c.Name,
    at: c.Name,
    end: c.Expr,
) -> list[c.Stmt]:
    """The loop with these vectors of sums, what is left of it, and all the sums together."""
    kind = total.type
    width = max(tuning.VECTOR_SUM_BYTES // kind.bytes, 1)
    target = next(n.target for n in chain(plan.body) if isinstance(n, Store))

    def of(vector: c.Name) -> Accumulator:
        return replace(total, place=c.Load(vector, lane))

    def each(vector: c.Name, op: str, value: c.Expr) -> c.Stmt:
        return loop(lane.name, c.Int(0), c.Int(width), [low.added(of(vector), op, value, kind)], openmp.SIMD)

    def added(vector: c.Name, further: int) -> c.Stmt:
        place: Expr = Bin("+", Var(f"@{at.name}"), Var(f"@{lane.name}"))
        place = Bin("+", place, Num(further)) if further else place
        inside = scope.accumulating(target, at=of(vector))
        return loop(
            lane.name, c.Int(0), c.Int(width), low.plan(substitute(plan.body, {plan.dim: place}), inside), openmp.SIMD
        )

    step = c.Int(len(vectors) * width)
    inside = [added(v, k * width) for k, v in enumerate(vectors)]
    return [
        *(c.Declare(kind.c, v.name, length=width) for v in vectors),
        *(each(v, "=", low.nothing(kind, total.monoid)) for v in vectors),
        c.While(c.Bin("<=", c.Bin("+", at, step), end), c.Block((*inside, c.Assign(at, "+=", step)))),
        loop(low.names[plan.dim], at, end, low.plan(plan.body, scope)),
        *(each(vectors[0], "+=", c.Load(v, lane)) for v in vectors[1:]),
        low.added(total, "+=", lanes_added(low, vectors[0], width, total.monoid), kind),
    ]


def vectors_side_by_side(low: Lowering, plan: Scan, scope: Scope) -> list[c.Stmt]:
    """A vector of sums for each of several totals of one type."""
    dos = plan.body.parts if isinstance(plan.body, Block) else ()
    totals = [scope.running(n.target) for n in dos if isinstance(n, Store)]
    accumulators = [t for t in totals if t is not None]
    kind = accumulators[0].type
    width = max(tuning.VECTOR_SUM_BYTES // kind.bytes, 1)
    first, end = low.fold("spfgen_max", plan.low, scope), low.fold("spfgen_min", plan.high, scope)
    position = low.names[plan.dim]
    at, lane = c.Name(low.names.new(f"{position}_next")), c.Name(low.names.new("lane"))
    low.names.table |= {f"@{n.name}": n.name for n in (at, lane)}
    vectors = [c.Name(low.names.new(f"{t.variable}_vector")) for t in accumulators]
    place = Bin("+", Var(f"@{at.name}"), Var(f"@{lane.name}"))

    def lanes(body: Sequence[c.Stmt]) -> c.Stmt:
        return loop(lane.name, c.Int(0), c.Int(width), body, openmp.SIMD)

    inside = scope
    for do, vector in zip(dos, vectors, strict=True):
        assert isinstance(do, Store)
        inside = inside.accumulating(do.target, at=Accumulator(c.Load(vector, lane), kind))
    added = [lanes(low.plan(substitute(do, {plan.dim: place}), inside)) for do in dos]
    more = c.Bin("<=", c.Bin("+", at, c.Int(width)), end)
    return [
        c.Comment("a vector of sums for each"),
        *(c.Declare(kind.c, v.name, length=width) for v in vectors),
        *(lanes([c.Assign(c.Load(v, lane), "=", zero(kind))]) for v in vectors),
        c.Declare(INT, at.name, first),
        c.While(more, c.Block((*added, c.Assign(at, "+=", c.Int(width))))),
        loop(position, at, end, [compiler_barrier(), *low.plan(plan.body, scope)]),
        *(c.Assign(t.place, "+=", lanes_added(low, v, width)) for t, v in zip(accumulators, vectors, strict=True)),
    ]


def side_sums(low: Lowering, plan: Scan, scope: Scope, total: Accumulator) -> list[c.Stmt]:
    """Four values at a time, in turn for two sums. All but the first of the four are guarded: one branch less that a
    processor may foresee wrongly than with a loop for what is left, and no slower where it foresees that one."""
    position, first = low.names[plan.dim], low.fold("spfgen_max", plan.low, scope)
    end = low.fold("spfgen_min", plan.high, scope)
    lines: list[c.Stmt] = []
    if not isinstance(end, c.Name | c.Int):
        lines.append(c.Declare("const int64_t", low.names.new(f"{position}_end"), end))
        end = c.Name(lines[-1].name)  # type: ignore[attr-defined]
    body = [
        *fetched(low, plan, scope, first, end, some=True),
        *_unrolled_with_guards(low, plan, scope, total, (first, end)),
    ]
    # Where rows are empty, many of them are: the less is done for each the better.
    return [*lines, c.If(c.Bin("<", first, end), c.Block(tuple(body)))]


def _unrolled_with_guards(
    low: Lowering,
    plan: Scan,
    scope: Scope,
    total: Accumulator,
    limits: tuple[c.Expr, c.Expr],
) -> list[c.Stmt]:
    """The loop from one limit to the other, with its values in turn for two sums."""
    position, (first, end) = low.names[plan.dim], limits
    at, name = c.Name(position), total.variable
    few = any(isinstance(n, Find | Guard) for n in chain(plan.body))
    # What is looked up first takes longer than to add, and a loop may end within the four: two sums from the first to
    # the last. Else one addition of four values is in time for the next four.
    sums = [name, low.names.new(f"{name}_2")] if few else [low.names.new(f"{name}_{k}") for k in (1, 2)]
    other = c.Declare(total.type.c, sums[1], low.nothing(total.type, total.monoid))
    added = low.added(replace(total, place=c.Name(sums[0])), "+=", c.Name(sums[1]), total.type)
    group: list[c.Stmt] = []
    for k in reversed(range(2 if few else 4)):
        value = _value(low, plan, scope, name, k, sums[k % 2], begins=k < 2 and not few)
        if k == 1 and not few:
            value, group = _begun(value, sums[1], total.type), [*group, added]
        elif group:
            value = in_braces(value) if k or few else _begun(value, sums[0], total.type)
        guard = c.Bin("<", c.Bin("+", at, c.Int(k)), end)
        group = [c.If(guard, c.Block((*value, *group)))] if k else [*value, *group]
    if not few:
        group = [*group, low.added(total, "+=", c.Name(sums[0]), total.type)]
    pairs = c.For("int64_t", position, first, c.Bin("<", at, end), 2 if few else 4, c.Block(tuple(group)))
    by = "two" if few else "four"
    comment = c.Comment(f"unrolled by {by} with partial sums, whose additions are independent")
    return [comment, other, pairs, added] if few else [comment, pairs]


def _value(low: Lowering, plan: Scan, scope: Scope, name: str, further: int, other: str, begins: bool) -> list[c.Stmt]:
    """What the loop does that many positions further, for another sum, which may hold nothing yet."""
    body: Plan = substitute(plan.body, {plan.dim: Bin("+", Var(plan.dim), Num(further))}) if further else plan.body
    lines = low.plan(body, scope.renamed(name, other, begins))
    return lines if further == 0 else [s for s in lines if not isinstance(s, c.Comment)]


def _for_another(low: Lowering, body: Plan, scope: Scope, name: str, other: str) -> list[c.Stmt]:
    """What adds to one sum, for another one."""
    return low.plan(body, scope.renamed(name, other))


def compiler_barrier() -> c.Stmt:
    """What keeps compilers from merging iterations of the loop around."""
    return c.Do(c.Call("spfgen_compiler_barrier", ()))


def segmented(low: Lowering, plan: Scan, scope: Scope) -> list[c.Stmt]:
    """What belongs to one place is summed, four positions at a time, then added to it. Where short runs are of many
    lengths, as samples say, each position adds to its place: a processor waits less for one to come back from memory
    than it loses with each end of a run that it does not foresee."""
    lines: list[c.Stmt] = []
    limits: list[c.Expr] = [low.fold("spfgen_max", plan.low, scope), low.fold("spfgen_min", plan.high, scope)]
    for k, word in enumerate(("begin", "end")):
        if not isinstance(limits[k], c.Name | c.Int):
            name = low.names.new(f"{low.names[plan.dim]}_{word}")
            lines.append(c.Declare(f"const {INT}", name, limits[k]))
            limits[k] = c.Name(name)
    first, end = limits
    key = low.expr(substitute(plan.segment_keys[-1], {plan.dim: Num(0)}), scope)
    assert isinstance(key, c.Load)
    predictable = c.Call(
        f"spfgen_predictable_segments_{low.element_type(plan.segment_keys[-1]).name}",
        (c.Bin("+", key.array, first), minus(end, first)),
    )
    single = c.Comment("short runs of many lengths: the branches at their ends would be mispredicted")
    return [
        *lines,
        c.If(
            predictable,
            c.Block(tuple(_in_predictable_segments(low, plan, scope, first, end))),
            c.Block((single, low.loop(plan, scope, low.plan(plan.body, scope)))),
        ),
    ]


def _in_predictable_segments(low: Lowering, plan: Scan, scope: Scope, begin: c.Expr, end: c.Expr) -> list[c.Stmt]:
    """Places come in order: where four positions begin and end with one, all of them belong to it. That is one question
    for four values, which go to two sums in turn."""
    do = list(chain(plan.body))[-1]
    assert isinstance(do, Store)
    kind, scalar_target = low.compute_type(plan.body, do.target), replace(do.target, place=(), extents=())
    body = without_unused(rewrite(lambda n: scalar_target if n == do.target else None, plan.body))
    words = (f"{low.names[plan.dim]}_next", f"{low.names[plan.dim]}_first", *[f"{do.target.tensor}_sum"] * 3)
    at, first, total, one, other = (c.Name(low.names.new(word)) for word in words)
    low.names.table |= {f"@{n.name}": n.name for n in (at, first)}
    here: Expr = Var(f"@{at.name}")
    known = {plan.dim: Var(f"@{first.name}")}

    def further(by: int) -> dict[str, Expr]:
        return {plan.dim: Bin("+", here, Num(by)) if by else here}

    def summed(by: int, sum_: c.Name) -> list[c.Stmt]:
        return in_braces(
            low.plan(substitute(body, further(by)), scope.accumulating(scalar_target, at=Accumulator(sum_, kind)))
        )

    def same(by: int) -> c.Expr:
        """Whether there is such a position, and it belongs to the place of the first one."""
        reached = c.Bin("<", c.Bin("+", at, c.Int(by)) if by else at, end)
        calls = [(substitute(call, further(by)), substitute(call, known)) for call in plan.segment_keys]
        return joined("&&", [reached, *(c.Bin("==", low.expr(a, scope), low.expr(b, scope)) for a, b in calls)])

    def moved(by: int) -> c.Stmt:
        return c.Assign(at, "+=", c.Int(by))

    def started(*sums: c.Name) -> list[c.Stmt]:
        return [c.Declare(kind.c, s.name, zero(kind)) for s in sums]

    def added(to: c.Name, what: c.Name) -> c.Stmt:
        return low.combine(to, "+=", what, kind, kind)

    four = [line for k in range(4) for line in summed(k, (one, other)[k % 2])]
    last: list[c.Stmt] = []
    for k in reversed(range(3)):
        last = [c.If(same(k), c.Block((*summed(k, one), *last, moved(1))))]
    place = tuple(substitute(e, known) for e in written_out(plan.body, do.target.place))
    target = low.place(replace(do.target, place=place), scope)
    run = [
        c.Declare(f"const {INT}", first.name, at),
        *started(total),
        *summed(0, total),
        moved(1),
        c.While(same(3), c.Block((*started(one, other), *four, added(one, other), added(total, one), moved(4)))),
        *started(one),
        *last,
        added(total, one),
        low.combine(target, "+=", total, low.kinds[do.target.tensor], kind),
    ]
    return [
        c.Comment("segmented reduction: what belongs to one place is summed, then added to it; places come in order"),
        c.Declare(INT, at.name, begin),
        c.While(c.Bin("<", at, end), c.Block(tuple(run))),
    ]


def fetched(
    low: Lowering,
    plan: Scan,
    scope: Scope,
    start: c.Expr,
    end: c.Expr,
    some: bool,
    function: str = "spfgen_prefetch_far",
) -> list[c.Stmt]:
    """What lies further on in the arrays of a loop is fetched, once, before it, if it is not empty; `some` says that it
    is not."""
    if plan.ahead is None:
        return []
    lines: list[c.Stmt] = []
    name = low.names.new(f"{low.names[plan.dim]}_ahead") if plan.ahead.each else low.names[plan.dim]
    for read in plan.ahead.arrays:
        place = low.place(read, scope) if isinstance(read, Operand) else low.expr(read, scope)
        assert isinstance(place, c.Load)
        later = _renamed(place.index, plan, low, c.Name(name) if plan.ahead.each else start)
        later = c.Bin("+", later, c.Int(plan.ahead.places)) if plan.ahead.places else later
        size = low.element_type(read).bytes
        lines.append(c.Do(c.Call(function, (place.array, c.Bin("*", later, c.Int(size))))))
    if plan.ahead.each:
        more = c.Bin("<", c.Name(name), end)
        lines = [c.For("int64_t", name, start, more, plan.ahead.each, c.Block(tuple(lines)))]
    conditions = [pays(low, plan.ahead, scope)] if plan.ahead.when else []
    if not some and not plan.ahead.each:
        conditions.append(c.Bin("<", start, end))
    return [c.If(joined("&&", conditions), c.Block(tuple(lines)))] if conditions else lines


def pays(low: Lowering, ahead: Ahead, scope: Scope) -> c.Expr:
    """Whether it pays to fetch ahead: found out once, where only sizes decide."""
    condition = low.all(ahead.when, scope)
    if not variables(*ahead.when) <= low.program.sizes.readings.keys():
        return condition
    return low.chosen("const bool", ahead.name, condition, ahead.because)


def _renamed(index: c.Expr, plan: Scan, low: Lowering, by: c.Expr) -> c.Expr:
    variable = c.Name(low.names[plan.dim])
    result: c.Expr = rewrite(lambda n: by if n == variable else None, index)
    return result


def _begun(lines: list[c.Stmt], name: str, kind: ElementType) -> list[c.Stmt]:
    """The sum begins with the value that is added to it first, where that is all that the lines do."""
    match lines:
        case [*comments, c.Assign(c.Name(variable), "+=" | "=", value)] if variable == name:
            if all(isinstance(s, c.Comment) for s in comments):
                return [*comments, c.Declare(kind.c, name, value)]
        case [*_, c.Assign(c.Name(variable), "=")] if variable == name:  # what is computed first is declared
            return [c.Declare(kind.c, name), *in_braces(lines)]
    return [c.Declare(kind.c, name, zero(kind)), *in_braces(lines)]


def lanes_added(low: Lowering, vector: c.Name, width: int, monoid: Monoid | None = None) -> c.Expr:
    """The sums of a vector together."""
    lanes: list[c.Expr] = [c.Load(vector, c.Int(k)) for k in range(width)]
    while monoid is not None and len(lanes) > 1:
        lanes = [low.together(*pair, monoid) for pair in zip(lanes[::2], lanes[1::2], strict=True)]
    return added_pairwise(lanes)

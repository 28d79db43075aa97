"""Loops level by level, in C: an inspector gives the pairs of iterations that need one another to rt/levels.h, which
puts blocks of iterations in levels, or stretches of them on lists; then threads go through their levels or lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spfgen.cir.lower.scope import Paired, Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import INT, downwards, loop, minus
from spfgen.facts.formula import Call, Expr, Var, calls, substitute
from spfgen.ir import rewrite
from spfgen.plan.nodes import LevelLoop, Plan
from spfgen.plan.transform.prefetch import places_of
from spfgen.space.nodes import Operand

STRUCT = "spfgen_levels"


def params(low: Lowering) -> list[c.Param]:
    """What the caller keeps between calls, when there is something."""
    count = len(low.ordered)
    if not count:
        return []
    many = "one" if count == 1 else f"{count}, one for each loop that runs level by level"
    doc = f"NULL (serial), or {many}: all zero at first, then kept for the same pattern"
    return [c.Param(f"{STRUCT} *", low.orders, doc)]


def levels(low: Lowering, plan: LevelLoop, scope: Scope) -> list[c.Stmt]:
    """The inspector, where the order is not there yet; then the loop."""
    name = low.names[plan.dim]
    number = len(low.ordered)
    low.ordered.append(plan)
    kept, now, order, one_thread, count = (
        low.names.new(f"{name}_{word}") for word in ("levels", "now", "order", "one_thread", "count")
    )
    first = low.fold("spfgen_max", plan.low, scope)
    last = low.fold("spfgen_min", plan.high, scope)
    origin = c.Bin("-", last, c.Int(1)) if plan.down else first
    paired = Paired(c.Name(kept), c.Name(name), origin, plan.down)
    wanted = c.Name("true" if plan.wanted else "false")
    asks = c.Call("spfgen_levels_asks", (c.Name(kept), c.Name(count), c.Name("threads"), wanted))
    known = c.Call("spfgen_levels_kept", (c.Name(low.orders), c.Int(number)))
    serial = one_by_one(name, _serial(low, plan, plan.body, scope, first, last))
    by_levels = [
        c.Declare(f"const {STRUCT}", one_thread, c.Call("spfgen_levels_one_thread", (c.Name(order),))),
        c.Comment(f"level by level, or by lists, over {name}: {plan.because}"),
        _executor(low, plan, scope, (order, one_thread), first, last),
    ]
    return [
        c.Comment(f"which iterations over {name} need which, unless it is known from an earlier call"),
        c.Declare(f"const {INT}", count, minus(last, first)),
        c.Declare(f"{STRUCT} *", kept, known),
        c.While(asks, c.Block(tuple(_serial(low, plan, plan.inspect, replace(scope, paired=paired), first, last)))),
        c.Declare(f"const {STRUCT}", now, c.Call("spfgen_levels_order", (c.Name(kept),))),
        c.Declare(f"const {STRUCT} *", order, c.Un("&", c.Name(now))),
        c.If(c.Bin(">", c.Field(c.Name(order), "threads"), c.Int(0)), c.Block(tuple(by_levels)), c.Block((serial,))),
        c.Do(c.Call("spfgen_levels_done", (c.Name(kept),))),
    ]


def one_by_one(name: str, lines: Sequence[c.Stmt]) -> c.Braces:
    """A loop whose iterations need earlier ones, in their order. It gets a function of its own, the same in all
    kernels: how fast such a loop is hangs on where its branches stand, and inside of a larger function it was measured
    up to 40 % slower."""
    return c.Braces(c.Block((c.Comment(f"one after another over {name}"), *lines)), outline="serial")


def _serial(low: Lowering, plan: LevelLoop, body: Plan, scope: Scope, first: c.Expr, last: c.Expr) -> list[c.Stmt]:
    """One iteration after another."""
    name = low.names[plan.dim]
    started, inner = low.started(scope)
    lines = low.plan(body, replace(inner, looped=True))
    return [*started, downwards(name, first, last, lines) if plan.down else loop(name, first, last, lines)]


def _executor(
    low: Lowering, plan: LevelLoop, scope: Scope, orders: tuple[str, str], first: c.Expr, last: c.Expr
) -> c.Stmt:
    """The units of each thread one after another, each when those that it needs are done; the runs of a unit and
    their iterations in order."""
    name = low.names[plan.dim]
    order, one_thread = map(c.Name, orders)
    team, thread, unit, run, begin, end = (
        c.Name(low.names.new(n)) for n in (f"{name}_team", "thread", "unit", "run", f"{name}_begin", f"{name}_end")
    )

    def field(word: str, at: c.Expr) -> c.Expr:
        return c.Load(c.Field(team, word), at)

    def after(variable: c.Expr) -> c.Expr:
        return c.Bin("+", variable, c.Int(1))

    started, within = low.started(replace(scope, thread=thread, looped=True))
    body = [*low.plan(plan.body, within)]
    place = c.Bin("*", c.Int(2), run)
    limits: list[c.Stmt] = [
        *_fetched(low, plan, scope, (team, unit, run), last if plan.down else first),
        c.Declare(f"const {INT}", begin.name, field("run", place)),
        c.Declare(f"const {INT}", end.name, field("run", after(place))),
    ]
    if plan.down:
        iterations = downwards(name, c.Bin("-", last, end), c.Bin("-", last, begin), body)
    else:
        iterations = loop(name, _plus(first, begin), _plus(first, end), body)
    runs = loop(run.name, field("unit", unit), field("unit", after(unit)), [*limits, *started, iterations])
    wait = c.Do(c.Call("spfgen_levels_wait", (team, unit, thread)))
    done = c.Do(c.Call("spfgen_levels_pass", (team, thread)))
    mine = c.Call("spfgen_levels_first", (team, thread))
    more, next_unit = c.Bin("<", unit, c.Field(team, "units")), c.Bin("+", unit, c.Field(team, "threads"))
    inside: list[c.Stmt] = [
        c.Declare(f"const {STRUCT} *", team.name, c.Call("spfgen_levels_team", (order, c.Un("&", one_thread)))),
        c.For(INT, unit.name, mine, more, next_unit, c.Block((wait, runs, done))),
    ]
    threads = c.Cast("int", c.Field(order, "threads"))
    pragma = openmp.one_each(f"(int){order.name}->threads")
    return loop(thread.name, c.Int(0), threads, inside, pragma, "int")


def _fetched(
    low: Lowering, plan: LevelLoop, scope: Scope, places: tuple[c.Name, c.Name, c.Name], edge: c.Expr
) -> list[c.Stmt]:
    """What a later run of the unit reads first, where that comes from far away: the processor does not foresee it."""
    if not plan.first:
        return []
    team, unit, run = places
    name = low.names.new(f"{low.names[plan.dim]}_ahead")
    low.names.table[name] = name
    ahead = c.Bin("+", run, c.Field(team, "ahead"))
    begin = c.Load(c.Field(team, "run"), c.Bin("*", c.Int(2), ahead))
    value = c.Bin("-", c.Bin("-", edge, c.Int(1)), begin) if plan.down else _plus(edge, begin)
    lines: list[c.Stmt] = [c.Declare(f"const {INT}", name, value)]
    starts: dict[Call, Expr] = {}
    for call in (call for read in plan.first for place in places_of(read) for call in calls(place)):
        if call not in starts:
            start = low.names.new(f"{call.function.rpartition('.')[2]}_ahead")
            low.names.table[start] = start
            starts[call] = Var(start)
            lines.append(c.Declare(f"const {INT}", start, low.expr(substitute(call, {plan.dim: Var(name)}), scope)))
    for read in plan.first:
        there = substitute(rewrite(lambda n: starts.get(n), read), {plan.dim: Var(name)})
        place = low.place(there, scope) if isinstance(there, Operand) else low.expr(there, scope)
        assert isinstance(place, c.Load)
        size = c.Int(low.element_type(read).bytes)
        lines.append(c.Do(c.Call("spfgen_prefetch_soon", (place.array, c.Bin("*", place.index, size)))))
    about = c.Comment("what a later run reads first is fetched")
    more = c.Bin("<", ahead, c.Load(c.Field(team, "unit"), c.Bin("+", unit, c.Int(1))))
    return [c.If(more, c.Block((about, *lines)))]


def _plus(a: c.Expr, b: c.Expr) -> c.Expr:
    return b if a == c.Int(0) else c.Bin("+", a, b)


def pair(low: Lowering, needed: Expr, scope: Scope) -> c.Stmt:
    """This iteration needs that one; both are counted from where the loop begins."""
    assert scope.paired is not None
    kept, iteration, origin, down = scope.paired.kept, scope.paired.own, scope.paired.origin, scope.paired.down
    iterations = (iteration, low.expr(needed, scope, down or origin != c.Int(0)))
    counted = [c.Bin("-", origin, e) if down else minus(e, origin) for e in iterations]
    return c.Do(c.Call("spfgen_levels_pair", (kept, *counted)))

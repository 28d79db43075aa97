"""What each part has for itself: sums, scalars, and copies of arrays, which are combined after the loop."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from spfgen import tuning
from spfgen.cir.lower import from_steps
from spfgen.cir.lower.cost import cost_expr
from spfgen.cir.lower.parallel.parts import THREADS, Loop, Parts, memory, monoid_of, number_of_parts, taken, under_name
from spfgen.cir.lower.scope import Accumulator, Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp, operators
from spfgen.cir.tree.build import INT, joined, loop
from spfgen.facts.formula import ONE
from spfgen.lang.types import TYPES
from spfgen.plan.nodes import Copy, Partition, Scan
from spfgen.plan.transform.partition import stored
from spfgen.space.local_tensors import OWN
from spfgen.space.nodes import Operand
from spfgen.space.typed import Scalar


def summed(low: Lowering, plan: Loop, partition: Partition, scope: Scope) -> list[c.Stmt]:
    """Each part sums in a variable of its own; the sums are added in order."""
    target = stored(plan)
    total = scope.accumulators[target.tensor, target.place]
    kind = total.type
    count = number_of_parts(low, partition, scope)
    parts = Parts(low, plan, scope, count, taken(partition))
    sums = memory(low, f"{target.tensor}_parts", kind.c, count, scope)
    own = low.names.new(f"{target.tensor}_part")
    body = [
        *parts.bounds,
        c.Declare(kind.c, own, low.nothing(kind, total.monoid)),
        *parts.alone(parts.scope.accumulating(target, at=replace(total, place=c.Name(own)))),
        c.Assign(c.Load(sums, parts.part), "=", c.Name(own)),
    ]
    part = low.names.new("part")
    add = low.added(total, "+=", c.Load(sums, c.Name(part)), kind)
    after = c.For("int", part, c.Int(0), c.Bin("<", c.Name(part), count), 1, c.Block((add,)))
    return [parts.comment(), *parts.loop(body), after]


def with_own_scalars(low: Lowering, plan: Scan, scope: Scope) -> list[c.Stmt]:
    """Each part has scalars of its own; after the loop they are combined in order."""
    parts = Parts(low, plan, scope, THREADS, openmp.one_each(THREADS.name))
    begun: list[c.Stmt] = []
    kept: list[c.Stmt] = []
    again: list[c.Stmt] = []
    after = c.Name(low.names.new("part"))
    for own in plan.private:
        kind, name = TYPES[own.type].c, low.names[own.name]
        held = memory(low, f"{name}s", kind, THREADS, scope)
        begun += low.plan(own, parts.scope)
        kept.append(c.Assign(c.Load(held, parts.part), "=", c.Name(name)))
        again.append(c.Declare(f"const {kind}", name, c.Load(held, after)))
    assert plan.combined is not None
    joined = c.Block((*again, *low.plan(plan.combined, scope)))
    each = c.For("int", after.name, c.Int(0), c.Bin("<", after, THREADS), 1, joined)
    return [parts.comment(), *parts.loop([*parts.bounds, *begun, *parts.alone(), *kept]), each]


def with_own_arrays(low: Lowering, plan: Scan, scope: Scope) -> list[c.Stmt]:
    """Each part but the first has copies of the arrays that it updates; they are combined in order. There are no
    copies where these take longer than what they save."""
    sizes = {
        copy: joined("*", [low.expr(e, Scope()) for e in copy.target.extents] or [c.Int(1)]) for copy in plan.copies
    }
    places: c.Expr = joined("+", list(sizes.values()))
    number = c.Call("spfgen_copies", (THREADS, c.Cast("double", low.values_held()), places))
    count = low.chosen("const int", "copies", number, "copies of what is updated, one for each thread or none")
    parts = Parts(low, plan, scope, count, openmp.one_each(count.name))
    apart = c.Bin(">", parts.part, c.Int(0))
    begun: list[c.Stmt] = []
    after: list[c.Stmt] = []
    with ExitStack() as renamed:
        for copy, size in sizes.items():
            target, kind = copy.target, TYPES[copy.type]
            low.arrays[f"{target.tensor}.{target.array}"] = None
            whole = c.Name(low.array_names[target.tensor, target.array])
            more = c.Bin("*", c.Bin("-", count, c.Int(1)), size)
            held = memory(low, f"{target.tensor}_copies", kind.c, more, scope)
            own, place, end = (c.Name(low.names.new(n)) for n in (f"{target.tensor}_own", "p", "p_end"))
            before = c.Bin("*", c.Cast(INT, c.Bin("-", parts.part, c.Int(1))), size)
            empty = c.Assign(c.Load(own, place), "=", operators.literal(copy.neutral, kind))
            until = c.Declare(f"const {INT}", end.name, c.Select(apart, size, c.Int(0)))
            begun.append(c.Declare(f"{kind.c} *restrict", own.name, c.Select(apart, c.Bin("+", held, before), whole)))
            begun += [until, loop(place.name, c.Int(0), end, [empty])]
            after += _combined(low, copy, whole, held, size, count, scope)
            renamed.enter_context(under_name(low, target, own.name))
        body = [*parts.bounds, *begun, *parts.alone()]
    return [parts.comment(), *parts.loop(body), *after]


def _combined(
    low: Lowering, copy: Copy, whole: c.Name, held: c.Name, size: c.Expr, count: c.Name, scope: Scope
) -> list[c.Stmt]:
    """All copies of an array combined with it, in order."""
    kind = TYPES[copy.type]
    number, place = c.Name(low.names.new("copy")), c.Name(low.names.new("p"))
    old, new = (Scalar(f"{copy.target.tensor} {n}", kind.name) for n in ("combined", "of a copy"))
    for scalar, name in ((old, "before"), (new, "more")):
        low.names.table.setdefault(scalar.name, low.names.new(name))
    at = c.Bin("+", c.Bin("*", c.Cast(INT, number), size), place)
    value = from_steps.typed_as(low, replace(copy.operator, arguments=(old, new)), scope, kind)
    lines: list[c.Stmt] = [
        c.Declare(f"const {kind.c}", low.names[old.name], c.Load(whole, place)),
        c.Declare(f"const {kind.c}", low.names[new.name], c.Load(held, at)),
        c.Assign(c.Load(whole, place), "=", value),
    ]
    fewer = c.Bin("<", number, c.Bin("-", count, c.Int(1)))
    each = c.For("int", number.name, c.Int(0), fewer, 1, c.Block((loop(place.name, c.Int(0), size, lines),)))
    return [c.Comment(f"the copies of {copy.target.tensor} are combined in order"), each]


def with_copies(low: Lowering, plan: Loop, partition: Partition, scope: Scope) -> list[c.Stmt]:
    """Each part but the first adds to a copy of the target that its thread clears; the copies are added in order.

    Where the target is to be cleared before, the first part does it: what one thread does alone it also clears alone,
    or it would fetch all of it from the caches of the others.
    """
    target = stored(plan)
    kind = low.kinds[target.tensor]
    places = joined("*", _extents(low, target) if target.place else [c.Int(1)])
    count = c.Name(low.names.new("copies"))
    several = number_of_parts(low, partition, scope, tuning.FIXED_COPIES) if partition.fixed else THREADS
    number = c.Call("spfgen_copies", (several, cost_expr(partition.work or ONE, low, scope), places))
    low.choices.append(c.Declare("const int", count.name, number))
    parts = Parts(low, plan, scope, count, taken(partition) if partition.fixed else openmp.one_each(count.name))
    more = c.Bin("*", c.Bin("-", count, c.Int(1)), places)
    copies = memory(low, f"{target.tensor}_copies", kind.c, more, scope)
    low.arrays[f"{target.tensor}.{target.array}"] = None
    whole = low.array_names[target.tensor, target.array]
    own, place = low.names.new(f"{target.tensor}_own"), low.names.new("p")
    before = c.Bin("*", c.Cast(INT, c.Bin("-", parts.part, c.Int(1))), places)
    monoid = monoid_of(plan)
    nothing = low.nothing(kind, monoid)
    cleared = loop(place, c.Int(0), places, [c.Assign(c.Load(c.Name(own), c.Name(place)), "=", nothing)])
    apart = c.Bin(">", parts.part, c.Int(0))
    if partition.clears:
        mine = c.Select(apart, c.Bin("+", copies, before), c.Name(whole))
        begun: list[c.Stmt] = [c.Declare(f"{kind.c} *restrict", own, mine), cleared]
    else:
        moved = c.Assign(c.Name(own), "=", c.Bin("+", copies, before))
        begun = [c.Declare(f"{kind.c} *restrict", own, c.Name(whole)), c.If(apart, c.Block((moved, cleared)))]
    with under_name(low, target, own):
        body: list[c.Stmt] = [*parts.bounds, *begun, *parts.alone()]
    added = _added(low, Accumulator(c.Name(whole), kind, monoid=monoid), copies, places, count)
    lines: list[c.Stmt] = [parts.comment(), *parts.loop(body), *added]
    if not partition.atomic:
        return lines
    atomic = replace(plan, partition=replace(partition, adds=""))
    alone = Parts(low, atomic, replace(scope, atomic=True), number_of_parts(low, partition, scope), taken(partition))
    adding = alone.loop([*alone.bounds, *alone.alone()])
    atomically = c.Call("spfgen_atomically", (count, THREADS, places))
    why = c.Comment("copies would take longer than atomic additions")
    first = low.clear(partition.clears) if partition.clears else []
    return [c.If(atomically, c.Block((why, *first, *adding)), c.Block(tuple(lines)))]


def _extents(low: Lowering, target: Operand) -> list[c.Expr]:
    if target.array == OWN:
        return [low.expr(e, Scope()) for e in target.extents]
    values = low.program.tensor(target.tensor).layout.values
    extents = next(v.extents for v in values if v.name == target.array)
    return [low.layout_expr(e, target.tensor) for e in extents]


def _added(low: Lowering, whole: Accumulator, copies: c.Name, places: c.Expr, count: c.Expr) -> list[c.Stmt]:
    """All copies are added to the target, each thread a range of places; where those are few, one thread all."""
    part, place, copy, end = (low.names.new(n) for n in ("part", "p", "copy", "p_end"))
    team = c.Name(low.names.new("adders"))

    def bound(number: c.Expr) -> c.Expr:
        return c.Call("spfgen_part", (c.Int(0), places, number, team))

    at = c.Bin("+", c.Bin("*", c.Cast(INT, c.Name(copy)), places), c.Name(place))
    total = replace(whole, place=c.Load(whole.place, c.Name(place)))
    add = low.added(total, "+=", c.Load(copies, at), whole.type)
    inner = loop(place, bound(c.Name(part)), c.Name(end), [add])
    fewer = c.Bin("<", c.Name(copy), c.Bin("-", count, c.Int(1)))
    each = c.For("int", copy, c.Int(0), fewer, 1, c.Block((inner,)))
    limit = c.Declare(f"const {INT}", end, bound(c.Bin("+", c.Name(part), c.Int(1))))
    more = c.Bin("<", c.Name(part), team)
    shared = c.For("int", part, c.Int(0), more, 1, c.Block((limit, each)), (openmp.one_each(team.name),))
    adders = c.Declare(
        "const int", team.name, c.Select(c.Bin("<", places, c.Int(tuning.SERIAL_PLACES)), c.Int(1), THREADS)
    )
    return [c.If(c.Bin(">", count, c.Int(1)), c.Block((c.Comment("the copies are added in order"), adders, shared)))]

"""What each part has for itself: sums, scalars, and copies of arrays, which are combined after the loop."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from spfgen import tuning
from spfgen.cir.lower.cost import cost_expr
from spfgen.cir.lower.parallel.parts import THREADS, Loop, Parts, memory, number_of_parts, taken, under_name
from spfgen.cir.lower.scope import Accumulator, Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import INT, joined, loop
from spfgen.lang.types import TYPES
from spfgen.plan.nodes import Copy, Partition, Scan
from spfgen.plan.transform.partition import stored
from spfgen.space.local_tensors import HELD, OWN
from spfgen.space.nodes import Operand


def summed(low: Lowering, plan: Loop, partition: Partition, scope: Scope) -> list[c.Stmt]:
    """Each part sums in a variable of its own; the sums are added in order."""
    target = stored(plan)
    total = scope.accumulators[target.tensor, target.place]
    kind = total.type
    count = number_of_parts(low, partition, scope)
    parts = Parts(low, plan, scope, count, taken(partition))
    sums = memory(low, f"{target.tensor}_parts", kind.c, count, scope)
    part_sum = low.names.new(f"{target.tensor}_part")
    body = [
        *parts.bounds,
        c.Declare(kind.c, part_sum, low.nothing(kind, total.monoid)),
        *parts.alone(parts.scope.accumulating(target, at=replace(total, place=c.Name(part_sum)))),
        c.Assign(c.Load(sums, parts.part), "=", c.Name(part_sum)),
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
    for scalar in plan.private:
        kind, name = TYPES[scalar.type].c, low.names[scalar.name]
        of_parts = memory(low, f"{name}s", kind, THREADS, scope)
        begun += low.plan(scalar, parts.scope)
        kept.append(c.Assign(c.Load(of_parts, parts.part), "=", c.Name(name)))
        again.append(c.Declare(f"const {kind}", name, c.Load(of_parts, after)))
    assert plan.combined is not None
    joined = c.Block((*again, *low.plan(plan.combined, scope)))
    each = c.For("int", after.name, c.Int(0), c.Bin("<", after, THREADS), 1, joined)
    return [parts.comment(), *parts.loop([*parts.bounds, *begun, *parts.alone(), *kept]), each]


def with_copies(low: Lowering, plan: Loop, partition: Partition, scope: Scope) -> list[c.Stmt]:
    """Each part but the first updates copies that its thread clears; the copies are combined in order. There are none
    where they take longer than what they save.

    Where the target is to be cleared before, the first part does it: what one thread does alone it also clears alone,
    or it would fetch all of it from the caches of the others.
    """
    sizes = [_places(low, copy.target) for copy in partition.copies]
    places = joined("+", sizes)
    count = c.Name(low.names.new("copies"))
    several = number_of_parts(low, partition, scope, tuning.FIXED_COPIES) if partition.fixed else THREADS
    work = c.Cast("double", low.values_held()) if partition.work is None else cost_expr(partition.work, low, scope)
    low.choices.append(c.Declare("const int", count.name, c.Call("spfgen_copies", (several, work, places))))
    parts = Parts(low, plan, scope, count, taken(partition) if partition.fixed else openmp.one_each(count.name))
    begun: list[c.Stmt] = []
    copied: list[tuple[Accumulator, c.Name, c.Expr]] = []
    with ExitStack() as renamed:
        for copy, size in zip(partition.copies, sizes, strict=True):
            target, kind = copy.target, low.kinds[copy.target.tensor]
            more = c.Bin("*", c.Bin("-", count, c.Int(1)), size)
            copies = memory(low, f"{target.tensor}_copies", kind.c, more, scope)
            low.arrays[f"{target.tensor}.{target.array}"] = None
            whole = c.Name(low.array_names[target.tensor, target.array])
            of_thread = low.names.new(f"{target.tensor}_own")
            begun += _begun(low, copy, of_thread, whole, copies, size, parts.part, bool(partition.clears))
            copied.append((Accumulator(whole, kind, monoid=copy.monoid), copies, size))
            renamed.enter_context(under_name(low, target, of_thread))
        body: list[c.Stmt] = [*parts.bounds, *begun, *parts.alone()]
    after = [line for total, copies, size in copied for line in _added(low, total, copies, size, count)]
    lines: list[c.Stmt] = [parts.comment(), *parts.loop(body), *after]
    if not partition.atomic:
        return lines
    atomic = replace(plan, partition=replace(partition, adds="", copies=()))
    alone = Parts(low, atomic, replace(scope, atomic=True), number_of_parts(low, partition, scope), taken(partition))
    adding = alone.loop([*alone.bounds, *alone.alone()])
    atomically = c.Call("spfgen_atomically", (count, THREADS, places))
    why = c.Comment("copies would take longer than atomic additions")
    first = low.clear(partition.clears) if partition.clears else []
    return [c.If(atomically, c.Block((why, *first, *adding)), c.Block(tuple(lines)))]


def _begun(
    low: Lowering, copy: Copy, of_thread: str, whole: c.Name, copies: c.Name, size: c.Expr, part: c.Name, clears: bool
) -> list[c.Stmt]:
    """What a part has of an array, cleared: the first one has the array itself, which it clears if nobody else does."""
    kind, place = low.kinds[copy.target.tensor], low.names.new("p")
    before = c.Bin("*", c.Cast(INT, c.Bin("-", part, c.Int(1))), size)
    nothing = low.nothing(kind, copy.monoid)
    cleared = loop(place, c.Int(0), size, [c.Assign(c.Load(c.Name(of_thread), c.Name(place)), "=", nothing)])
    apart = c.Bin(">", part, c.Int(0))
    if clears:
        mine = c.Select(apart, c.Bin("+", copies, before), whole)
        return [c.Declare(f"{kind.c} *restrict", of_thread, mine), cleared]
    moved = c.Assign(c.Name(of_thread), "=", c.Bin("+", copies, before))
    return [c.Declare(f"{kind.c} *restrict", of_thread, whole), c.If(apart, c.Block((moved, cleared)))]


def _places(low: Lowering, target: Operand) -> c.Expr:
    """How many places an array has."""
    return joined("*", _extents(low, target) or [c.Int(1)])


def _extents(low: Lowering, target: Operand) -> list[c.Expr]:
    if target.array in (OWN, HELD):
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
    how = c.Comment(f"the copies are {'added' if whole.monoid is None else 'combined'} in order")
    return [c.If(c.Bin(">", count, c.Int(1)), c.Block((how, adders, shared)))]

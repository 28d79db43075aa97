"""Loops on threads (plan/transform/partition.py says how): parts of the iterations, and what is added up after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spfgen import tuning
from spfgen.cir.lower import entries, from_steps
from spfgen.cir.lower.clearing import cleared_span, spans
from spfgen.cir.lower.cost import cost_expr
from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.workspaces import Workspace
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import operators
from spfgen.cir.tree.build import INT, joined, linear_index, loop, minus
from spfgen.cir.tree.elements import zero
from spfgen.facts.formula import ONE, ZERO, Bin, Call, Compare, Expr, Num, Var, substitute, variables
from spfgen.ir import rewrite, walk
from spfgen.lang.types import TYPES
from spfgen.plan.nodes import (
    PLANS,
    Clear,
    Copy,
    Do,
    Find,
    Guard,
    Load,
    Locate,
    Partition,
    Plan,
    Reduce,
    Scan,
    Slice,
    State,
    Table,
    Tile,
    UnrollAndJam,
    Versioned,
    body,
    chain,
    with_body,
)
from spfgen.plan.transform.simplify import without_unused
from spfgen.plan.transform.unroll_and_jam import one_by_one_from
from spfgen.sets.affine import NotAffine, expression
from spfgen.sets.uf import linear
from spfgen.space.nodes import Operand
from spfgen.space.typed import Scalar

if TYPE_CHECKING:
    from spfgen.cir.lower.from_plan import Lowering

THREADS = c.Name("threads")
ONE_EACH = "omp parallel for schedule(static, 1) num_threads({})"
DYNAMIC = "omp parallel for schedule(monotonic: dynamic, 1) num_threads(threads)"
"""A thread that is done takes the next part: a later one, as what finds keep from part to part must only go on."""
Loop = Scan | Find


def on_threads(low: Lowering, plan: Loop, scope: Scope) -> list[c.Stmt]:
    """The loop in parts, and what comes after them."""
    partition = plan.partition
    assert partition is not None
    lines = _in_parts(low, plan, partition, scope)
    if partition.weight is None or _has_ends(low, plan):
        return lines
    # An array of weights holds an element for each end of a loop with iterations; for others it may not.
    bottom, top = low.fold("spfgen_max", plan.low, scope), low.fold("spfgen_min", plan.high, scope)
    nothing = c.Block(tuple(low.clear(scope.clears))) if scope.clears else None
    return [c.If(c.Bin("<", bottom, top), c.Block(tuple(lines)), nothing)]


def clears(low: Lowering, plan: Plan, clear: Clear) -> bool:
    """Whether threads add to copies of what is cleared: then they clear it as they clear those."""
    loop = next((n for n in chain(plan) if not isinstance(n, Load | Locate | State | Table)), None)
    several = len(low.program.tensor(clear.tensor).layout.values) > 1
    if several or clear.part is not None or not isinstance(loop, Scan | Find) or loop.partition is None:
        return False
    return loop.parallel and loop.partition.adds == "copies" and _stored(loop).tensor == clear.tensor


def _has_ends(low: Lowering, plan: Loop) -> bool:
    """Whether the loop never ends before it begins: from 0 to a size."""
    if plan.low != (ZERO,) or len(plan.high) != 1:
        return False
    (end,) = plan.high
    return isinstance(end, Var) and end.name in low.program.size_of


def _in_parts(low: Lowering, plan: Loop, partition: Partition, scope: Scope) -> list[c.Stmt]:
    match partition.adds:
        case "sum":
            return _summed(low, plan, partition, scope)
        case "copies":
            return _with_copies(low, plan, partition, scope)
        case "segments":
            assert isinstance(plan, Scan)
            return _segments(low, plan, partition, scope)
    if partition.slice is not None and isinstance(plan, Scan):
        return _rows(low, plan, partition, partition.slice, scope)
    if partition.row and isinstance(plan, Scan):
        return _divided(low, plan, partition, scope)
    parts = _Parts(low, plan, scope, _number(low, partition, scope), _taken(low))
    own, after, inside = entries.divided(low, entries.appended(plan), parts.count, parts.part, parts.scope)
    return [parts.comment(), *parts.loop([*parts.bounds, *own, *parts.alone(inside)]), *after]


def needs_parts(plan: Loop) -> bool:
    """Whether a pragma on the loop itself would not do."""
    partition = plan.partition
    if partition is None:
        return False
    return (
        partition.weight is not None
        or partition.uneven
        or bool(partition.adds)
        or spans(plan) is not None
        or _pays_dynamic(plan)
    )


def _pays_dynamic(plan: Loop) -> bool:
    """Whether it pays that a thread that is done early finds more to do: there are loops inside, which take longer than
    to ask for it, and look things up, which takes now longer, now less."""
    inside = list(walk(body(plan), PLANS))
    alone = isinstance(plan, Scan) and (plan.collapse > 1 or plan.vector)
    loops, looks_up = any(isinstance(n, Loop) for n in inside), any(isinstance(n, Load | Guard | Find) for n in inside)
    return loops and looks_up and not alone


@dataclass
class _Parts:
    """A loop over parts: where each begins and ends."""

    low: Lowering
    plan: Loop
    outside: Scope
    count: c.Expr
    pragma: str
    cost: c.Name | None = None

    def __post_init__(self) -> None:
        low, plan = self.low, self.plan
        names = low.names
        name = names[plan.dim]
        self.part = c.Name(names.new("part"))
        self.start, self.stop = c.Name(names.new(f"{name}_begin")), c.Name(names.new(f"{name}_end"))
        self.name = name
        self.bottom = low.fold("spfgen_max", plan.low, self.outside)
        self.top = low.fold("spfgen_min", plan.high, self.outside)
        self.following = c.Bin("+", self.part, c.Int(1))
        thread = self.part if self.pragma != DYNAMIC else c.Call("spfgen_thread", ())
        self.states, self.scope = low.started(replace(self.outside, thread=thread, looped=True))

    @property
    def bounds(self) -> list[c.Stmt]:
        """Where the part begins and ends."""
        kind = f"const {INT}"
        return [
            c.Declare(kind, self.start.name, self.begin(self.part)),
            c.Declare(kind, self.stop.name, self.begin(self.following)),
        ]

    def alone(self, scope: Scope | None = None) -> list[c.Stmt]:
        """The iterations of one part."""
        return [*self.states, *self.between(self.start, self.stop, scope or self.scope)]

    def between(self, start: c.Name, stop: c.Name, scope: Scope) -> list[c.Stmt]:
        """The iterations from one variable to another."""
        return self.low.plan(between(self.low, self.plan, start, stop), scope)

    def comment(self, split: str = "") -> c.Stmt:
        """How iterations are divided; `split` is the loop of which several threads share an iteration that is long."""
        weight = self.plan.partition.weight if self.plan.partition is not None else None
        if weight is None:
            return c.Comment("the iterations in equal parts")
        text = f"work partition: parts of about the same number of entries, by {self.array(weight.pointer)[0].name}"
        if weight.deeper:
            text += f", measured by {self.array(weight.deeper[-1])[0].name}"
        return c.Comment(f"{text}; a long {split} is split" if split else text)

    def array(self, function: str) -> tuple[c.Name, str]:
        """An index array and its type."""
        tensor, array = function.split(".", 1)
        self.low.arrays[function] = None
        kind = dict(self.low.program.tensor(tensor).index_types)[array]
        return c.Name(self.low.array_names[tensor, array]), kind

    def begin(self, part: c.Expr) -> c.Expr:
        """Where a part begins."""
        weight = self.plan.partition.weight if self.plan.partition is not None else None
        if weight is None:
            return c.Call("spfgen_part", (self.bottom, self.top, part, self.count))
        array, kind = self.array(weight.pointer)
        if not weight.deeper:
            arguments = (array, self.bottom, self.top, self.each(), part, self.count)
            return c.Call(f"spfgen_partition_{kind}", arguments)
        position = self.position(part)
        return c.Call(f"spfgen_outer_{kind}", (array, self.bottom, self.top, position, part, self.count))

    def split(self, part: c.Expr, at: c.Name) -> c.Expr:
        """The same; the part may begin within an iteration, at `at`."""
        weight = self.plan.partition.weight if self.plan.partition is not None else None
        assert weight is not None
        array, kind = self.array(weight.pointer)
        place = c.Un("&", at)
        if not weight.deeper:
            arguments = (array, self.bottom, self.top, self.each(), part, self.count, place)
            return c.Call(f"spfgen_split_{kind}", arguments)
        position = self.position(part)
        return c.Call(f"spfgen_outer_split_{kind}", (array, self.bottom, self.top, position, part, self.count, place))

    def within(self, at: c.Name, end: c.Name, past: c.Name, goes_on: c.Expr, then: str = "") -> list[c.Stmt]:
        """Where the part begins and ends, within an iteration each; `past` is behind the last one it has any of."""
        return [
            c.Declare(INT, at.name),
            c.Declare(INT, end.name),
            c.Declare(f"const {INT}", self.start.name, self.split(self.part, at)),
            c.Declare(f"const {INT}", self.stop.name, self.split(self.following, end)),
            c.Comment(f"the last {self.name} may go on in the next part{then}"),
            c.Declare(f"const {INT}", past.name, c.Select(goes_on, c.Bin("+", self.stop, c.Int(1)), self.stop)),
        ]

    def position(self, part: c.Expr) -> c.Expr:
        """Where a part begins among the positions of the loop inside, by the lengths of the loops in that."""
        weight = self.plan.partition.weight if self.plan.partition is not None else None
        assert weight is not None
        functions = (weight.pointer, *weight.deeper)
        ends = [(self.bottom, self.top)]
        for function in functions[:-1]:
            array, _ = self.array(function)
            ends.append((c.Load(array, ends[-1][0]), c.Load(array, ends[-1][1])))
        array, kind = self.array(functions[-1])
        found: c.Expr = c.Call(f"spfgen_partition_{kind}", (array, *ends[-1], c.Int(1), part, self.count))
        for function, (bottom, top) in zip(functions[-2:0:-1], ends[-2:0:-1], strict=True):
            array, kind = self.array(function)
            found = c.Call(f"spfgen_outer_{kind}", (array, bottom, top, found, part, self.count))
        return found

    def each(self) -> c.Expr:
        weight = self.plan.partition.weight if self.plan.partition is not None else None
        assert weight is not None
        if isinstance(weight.each, Num):
            return c.Int(weight.each.value)
        if self.cost is None:
            value = c.Cast(INT, cost_expr(weight.each, self.low, self.outside))
            comment = "what an iteration clears, in iterations of the loop inside"
            self.cost = self.low.chosen(f"const {INT}", f"{self.name}_cost", value, comment)
        return self.cost

    def loop(self, body: list[c.Stmt]) -> list[c.Stmt]:
        more, lines = c.Bin("<", self.part, self.count), c.Block(tuple(body))
        return [c.For("int", self.part.name, c.Int(0), more, 1, lines, (self.pragma,))]


def between(low: Lowering, plan: Loop, start: c.Name, stop: c.Name) -> Loop:
    """The loop from one variable to another, on one thread."""
    if isinstance(plan, Scan):
        plan = replace(plan, private=(), combined=None, copies=())
    return replace(
        plan, low=(variable(low, start),), high=(variable(low, stop),), parallel=False, because="", partition=None
    )


def variable(low: Lowering, name: c.Name) -> Var:
    """A variable of the C in expressions of the plan."""
    low.names.table[f"@{name.name}"] = name.name
    return Var(f"@{name.name}")


def _taken(low: Lowering) -> str:
    """How threads take parts: in turns, or one each."""
    return DYNAMIC if low.program.level > 1 else ONE_EACH.format(THREADS.name)


def _number(low: Lowering, partition: Partition, scope: Scope, most: int = tuning.FIXED_PARTS) -> c.Expr:
    """How many parts there are."""
    if not partition.fixed and low.program.level < 2:
        return THREADS
    if not partition.fixed:
        several: c.Expr = c.Select(
            c.Bin(">", THREADS, c.Int(1)), c.Bin("*", c.Int(tuning.CHUNKS_PER_THREAD), THREADS), c.Int(1)
        )
        if partition.work is not None:
            several = c.Call(
                "spfgen_chunks", (THREADS, cost_expr(partition.work, low, scope), c.Int(tuning.CHUNKS_PER_THREAD))
            )
        comment = "more parts than threads: one that is done early takes another"
        return low.chosen("const int", "parts", several, comment)
    value = c.Call("spfgen_parts", (cost_expr(partition.work or ONE, low, scope), c.Int(most)))
    comment = "parts that do not depend on the number of threads: sums are always the same"
    return low.chosen("const int", "parts", value, comment)


def _stored(plan: Plan) -> Operand:
    do = list(chain(plan))[-1]
    assert isinstance(do, Do)
    return do.target


# --- all add to one variable --------------------------------------------------------------------------


def _summed(low: Lowering, plan: Loop, partition: Partition, scope: Scope) -> list[c.Stmt]:
    """Each part sums in a variable of its own; the sums are added in order."""
    target = _stored(plan)
    total, kind = scope.sums[target.tensor, target.place]
    count = _number(low, partition, scope)
    parts = _Parts(low, plan, scope, count, _taken(low))
    sums = _workspace(low, f"{target.tensor}_parts", kind.c, count, scope)
    own = low.names.new(f"{target.tensor}_part")
    body = [
        *parts.bounds,
        c.Declare(kind.c, own, zero(kind)),
        *parts.alone(parts.scope.summed(target, own, kind)),
        c.Assign(c.Load(sums, parts.part), "=", c.Name(own)),
    ]
    part = low.names.new("part")
    add = low.combine(c.Name(total), "+=", c.Load(sums, c.Name(part)), kind, kind)
    after = c.For("int", part, c.Int(0), c.Bin("<", c.Name(part), count), 1, c.Block((add,)))
    return [parts.comment(), *parts.loop(body), after]


def _workspace(low: Lowering, name: str, kind: str, count: c.Expr, scope: Scope, each_thread: bool = False) -> c.Name:
    """Memory that need not be cleared."""
    found = low.names.new(name)
    low.workspaces.append(Workspace(found, kind, count, each_thread=each_thread, cleared=False, when=scope.when))
    return c.Name(found)


# --- scalars of each part -------------------------------------------------------------------------------


def with_own_scalars(low: Lowering, plan: Scan, scope: Scope) -> list[c.Stmt]:
    """Each part has scalars of its own; after the loop they are combined in order."""
    parts = _Parts(low, plan, scope, THREADS, ONE_EACH.format(THREADS.name))
    begun: list[c.Stmt] = []
    kept: list[c.Stmt] = []
    again: list[c.Stmt] = []
    after = c.Name(low.names.new("part"))
    for own in plan.private:
        kind, name = TYPES[own.type].c, low.names[own.name]
        held = _workspace(low, f"{name}s", kind, THREADS, scope)
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
    parts = _Parts(low, plan, scope, count, ONE_EACH.format(count.name))
    apart = c.Bin(">", parts.part, c.Int(0))
    begun: list[c.Stmt] = []
    after: list[c.Stmt] = []
    with ExitStack() as renamed:
        for copy, size in sizes.items():
            target, kind = copy.target, TYPES[copy.type]
            low.arrays[f"{target.tensor}.{target.array}"] = None
            whole = c.Name(low.array_names[target.tensor, target.array])
            more = c.Bin("*", c.Bin("-", count, c.Int(1)), size)
            held = _workspace(low, f"{target.tensor}_copies", kind.c, more, scope)
            own, place, end = (c.Name(low.names.new(n)) for n in (f"{target.tensor}_own", "p", "p_end"))
            before = c.Bin("*", c.Cast(INT, c.Bin("-", parts.part, c.Int(1))), size)
            empty = c.Assign(c.Load(own, place), "=", operators.literal(copy.neutral, kind))
            until = c.Declare(f"const {INT}", end.name, c.Select(apart, size, c.Int(0)))
            begun.append(c.Declare(f"{kind.c} *restrict", own.name, c.Select(apart, c.Bin("+", held, before), whole)))
            begun += [until, loop(place.name, c.Int(0), end, [empty])]
            after += _combined(low, copy, whole, held, size, count, scope)
            renamed.enter_context(_renamed(low, target, own.name))
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


# --- copies of the target -------------------------------------------------------------------------------


def _with_copies(low: Lowering, plan: Loop, partition: Partition, scope: Scope) -> list[c.Stmt]:
    """Each part but the first adds to a copy of the target that its thread clears; the copies are added in order.

    Where the target is to be cleared before, the first part does it: what one thread does alone it also clears alone,
    or it would fetch all of it from the caches of the others.
    """
    target = _stored(plan)
    kind = low.kinds[target.tensor]
    extents = _extents(low, target) if target.place else ()
    places = joined("*", [low.layout_expr(e, target.tensor) for e in extents] or [c.Int(1)])
    count = c.Name(low.names.new("copies"))
    several = _number(low, partition, scope, tuning.FIXED_COPIES) if partition.fixed else THREADS
    number = c.Call("spfgen_copies", (several, cost_expr(partition.work or ONE, low, scope), places))
    low.choices.append(c.Declare("const int", count.name, number))
    parts = _Parts(low, plan, scope, count, _taken(low) if partition.fixed else ONE_EACH.format(count.name))
    more = c.Bin("*", c.Bin("-", count, c.Int(1)), places)
    copies = _workspace(low, f"{target.tensor}_copies", kind.c, more, scope)
    low.arrays[f"{target.tensor}.{target.array}"] = None
    whole = low.array_names[target.tensor, target.array]
    own, place = low.names.new(f"{target.tensor}_own"), low.names.new("p")
    before = c.Bin("*", c.Cast(INT, c.Bin("-", parts.part, c.Int(1))), places)
    cleared = loop(place, c.Int(0), places, [c.Assign(c.Load(c.Name(own), c.Name(place)), "=", zero(kind))])
    apart = c.Bin(">", parts.part, c.Int(0))
    if scope.clears:
        mine = c.Select(apart, c.Bin("+", copies, before), c.Name(whole))
        begun: list[c.Stmt] = [c.Declare(f"{kind.c} *restrict", own, mine), cleared]
    else:
        moved = c.Assign(c.Name(own), "=", c.Bin("+", copies, before))
        begun = [c.Declare(f"{kind.c} *restrict", own, c.Name(whole)), c.If(apart, c.Block((moved, cleared)))]
    with _renamed(low, target, own):
        body: list[c.Stmt] = [*parts.bounds, *begun, *parts.alone()]
    added = _added(low, whole, copies, places, count, target)
    lines: list[c.Stmt] = [parts.comment(), *parts.loop(body), *added]
    if not partition.atomic:
        return lines
    atomic = replace(plan, partition=replace(partition, adds=""))
    alone = _Parts(low, atomic, replace(scope, atomic=True), _number(low, partition, scope), _taken(low))
    adding = alone.loop([*alone.bounds, *alone.alone()])
    atomically = c.Call("spfgen_atomically", (count, THREADS, places))
    why = c.Comment("copies would take longer than atomic additions")
    first = low.clear(scope.clears) if scope.clears else []
    return [c.If(atomically, c.Block((why, *first, *adding)), c.Block(tuple(lines)))]


def _extents(low: Lowering, target: Operand) -> tuple[Expr, ...]:
    values = low.program.tensor(target.tensor).layout.values
    return next(v.extents for v in values if v.name == target.array)


@contextmanager
def _renamed(low: Lowering, target: Operand, name: str) -> Iterator[None]:
    """Meanwhile the target's array goes by another name."""
    key = (target.tensor, target.array)
    before = low.array_names[key]
    low.array_names[key] = name
    try:
        yield
    finally:
        low.array_names[key] = before


def _added(low: Lowering, whole: str, copies: c.Name, places: c.Expr, count: c.Expr, target: Operand) -> list[c.Stmt]:
    """All copies are added to the target, each thread a range of places; where those are few, one thread all."""
    kind = low.kinds[target.tensor]
    part, place, copy, end = (low.names.new(n) for n in ("part", "p", "copy", "p_end"))
    team = c.Name(low.names.new("adders"))

    def bound(number: c.Expr) -> c.Expr:
        return c.Call("spfgen_part", (c.Int(0), places, number, team))

    at = c.Bin("+", c.Bin("*", c.Cast(INT, c.Name(copy)), places), c.Name(place))
    add = low.combine(c.Load(c.Name(whole), c.Name(place)), "+=", c.Load(copies, at), kind, kind)
    inner = loop(place, bound(c.Name(part)), c.Name(end), [add])
    fewer = c.Bin("<", c.Name(copy), c.Bin("-", count, c.Int(1)))
    each = c.For("int", copy, c.Int(0), fewer, 1, c.Block((inner,)))
    limit = c.Declare(f"const {INT}", end, bound(c.Bin("+", c.Name(part), c.Int(1))))
    more = c.Bin("<", c.Name(part), team)
    shared = c.For("int", part, c.Int(0), more, 1, c.Block((limit, each)), (ONE_EACH.format(team.name),))
    adders = c.Declare(
        "const int", team.name, c.Select(c.Bin("<", places, c.Int(tuning.SERIAL_PLACES)), c.Int(1), THREADS)
    )
    return [c.If(c.Bin(">", count, c.Int(1)), c.Block((c.Comment("the copies are added in order"), adders, shared)))]


# --- slices: the places of one key, in a part of their own ------------------------------------------------


@dataclass
class _Boundary:
    """What several parts add to the places of one key: an array of them for each, added to the target at the end."""

    low: Lowering
    target: Operand
    slice: Slice
    scope: Scope
    guarded: bool
    """Whether conditions in the loop decide that there is such a place."""

    def __post_init__(self) -> None:
        self.kind = self.low.kinds[self.target.tensor]
        self.array = c.Name(self.low.names.new(f"{self.target.tensor}_part"))
        own = [(r, e) for r, e in zip(self.slice.rest, self.slice.extents, strict=True) if r != ZERO]
        self.operand = replace(self.target, place=tuple(r for r, _ in own), extents=tuple(e for _, e in own))
        sizes = [self.low.expr(e, self.scope) for _, e in own]
        self.count = joined("*", sizes) if sizes else c.Int(1)

    @property
    def single(self) -> bool:
        return not self.operand.place

    def of_row(self, plan: Plan, array: str) -> Plan | None:
        """The nest with the places of the key in an array of that name; None if it speaks of others. Clearing goes on
        in the target."""
        unknown: list[Operand] = []

        def rule(node: object) -> object | None:
            if not isinstance(node, Operand) or (node.tensor, node.array) != (self.target.tensor, self.target.array):
                return None
            place = self.rest(node)
            unknown.extend([node] if place is None else [])
            return replace(self.operand, place=place or (), array=array)

        nodes = list(chain(plan))
        clear = next((k for k, n in enumerate(nodes) if isinstance(n, Clear)), -1)
        result: Plan = rewrite(rule, body(nodes[clear]) or plan if clear >= 0 else plan)
        for node in reversed(nodes[: clear + 1]):
            result = with_body(node, result)
        return None if unknown else result

    def rest(self, operand: Operand) -> tuple[Expr, ...] | None:
        """Where the operand's place is among those of the key."""
        if operand.place == self.target.place:
            return self.operand.place
        found = []
        for place, base, rest in zip(operand.place, self.slice.base, self.slice.rest, strict=True):
            try:
                further = expression(linear(place) - linear(base))
            except NotAffine:
                return None
            if rest != ZERO:
                found.append(further)
            elif further != ZERO:
                return None
        return tuple(found)

    def start(self, scope: Scope, key: Mapping[str, Expr] | None = None) -> c.Expr:
        """Where the places of the key begin in the target."""
        low = self.low
        base = tuple(substitute(b, key or {}) for b in self.slice.base)
        first = low.place(replace(self.target, place=base), scope)
        assert isinstance(first, c.Load)
        return c.Bin("+", first.array, first.index) if first.index != c.Int(0) else first.array

    def redirected(self, plan: Plan) -> Plan:
        """The nest with its additions to these places; nothing is cleared or stored."""

        def rule(node: object) -> object | None:
            match node:
                case Clear(body=inner) if inner is not None:
                    return inner
                case Reduce(op="=") | Tile(op="="):
                    return replace(node, op="+=")
                case Versioned(body=inner):
                    return inner
            return None

        own = self.of_row(rewrite(rule, plan), self.target.array)
        assert own is not None
        return without_unused(own)

    def begun(self, arrays: c.Name, number: c.Expr) -> list[c.Stmt]:
        """The places of a part, cleared."""
        name = c.Name(self.low.names.new("p"))
        start = c.Bin("+", arrays, c.Bin("*", c.Cast(INT, number), self.count) if self.count != c.Int(1) else number)
        declared = c.Declare(f"{self.kind.c} *restrict", self.array.name, start)
        if self.single:
            return [declared, c.Assign(c.Load(self.array, c.Int(0)), "=", zero(self.kind))]
        clear = c.Assign(c.Load(self.array, name), "=", zero(self.kind))
        return [declared, loop(name.name, c.Int(0), self.count, [clear])]

    def added(self, arrays: c.Name, number: c.Expr, scope: Scope) -> list[c.Stmt]:
        """The places of a part are added to the target's."""
        low = self.low
        source: c.Expr = number
        if not self.single:
            source = c.Bin("+", c.Bin("*", c.Cast(INT, number), self.count), self.linear_rest())

        def add(place: Operand) -> c.Stmt:
            return low.combine(low.place(place, scope), "+=", c.Load(arrays, source), self.kind, self.kind)

        return self.each(add, scope)

    def counters(self) -> list[str]:
        return [f"{self.target.tensor} rest {k}" for k, r in enumerate(self.slice.rest) if r != ZERO]

    def linear_rest(self) -> c.Expr:
        names = [c.Name(self.low.names[n]) for n in self.counters()]
        return linear_index(names, self.operand.extents, lambda e: self.low.expr(e, self.scope))

    def each(self, do: Callable[[Operand], c.Stmt], scope: Scope) -> list[c.Stmt]:
        """A statement for each place of the key."""
        low = self.low
        place: list[Expr] = []
        loops: list[tuple[str, c.Expr]] = []
        for k, (base, rest, extent) in enumerate(
            zip(self.slice.base, self.slice.rest, self.slice.extents, strict=True)
        ):
            if rest == ZERO:
                place.append(base)
                continue
            dim = f"{self.target.tensor} rest {k}"
            name = low.names[dim]
            end = low.expr(extent, scope)
            if base != ZERO:
                left = minus(low.expr(self.target.extents[k], scope), low.expr(base, scope))
                end = c.Call("spfgen_min", (end, left))
            loops.append((name, end))
            place.append(Var(dim) if base == ZERO else Bin("+", base, Var(dim)))
        body: list[c.Stmt] = [do(replace(self.target, place=tuple(place)))]
        for name, end in reversed(loops):
            body = [loop(name, c.Int(0), end, body)]
        bases = [(b, e) for b, e in zip(self.slice.base, self.target.extents, strict=True) if variables(b)]
        if not self.guarded or not bases:
            return body
        inside = [c.Bin(">=", low.expr(b, scope), c.Int(0)) for b, _ in bases]
        inside += [c.Bin("<", low.expr(b, scope), low.expr(e, scope)) for b, e in bases]
        return [c.If(joined("&&", inside), c.Block(tuple(body)))]


def _boundary(low: Lowering, plan: Loop, found: Slice, scope: Scope) -> _Boundary:
    target = _stored(plan)
    for k, rest in enumerate(found.rest):
        dim = f"{target.tensor} rest {k}"
        if rest != ZERO and dim not in low.names.table:
            low.names.table[dim] = low.names.new("r")
    guarded = any(isinstance(n, Guard | Find) for n in chain(plan))
    return _Boundary(low, target, found, scope, guarded)


def _rows(low: Lowering, plan: Scan, partition: Partition, found: Slice, scope: Scope) -> list[c.Stmt]:
    """Each part takes whole rows, and may begin and end within one: what it has of a row that goes on in the next part
    it sums in places of its own, and the part where the row ends stores what it has itself."""
    boundary = _boundary(low, plan, found, scope)
    count = _number(low, partition, scope)
    parts = _Parts(low, plan, scope, count, _taken(low))
    key = (boundary.target.tensor, f"{boundary.target.array} of a row")
    own_body = boundary.of_row(plan.body, key[1])
    if own_body is None:
        return [parts.comment(), *parts.loop([*parts.bounds, *parts.alone()])]
    row = low.names[plan.dim]
    inner = low.names[partition.row]
    words = (f"{row}_from", f"{row}_to", f"{row}_stop", f"{inner}_begin", f"{inner}_end")
    at, end, past, begin, stop = (c.Name(low.names.new(word)) for word in words)
    rows = _workspace(low, f"{row}_shared", INT, count, scope)
    arrays = _workspace(low, f"{boundary.target.tensor}_parts", boundary.kind.c, _times(count, boundary.count), scope)
    assert partition.weight is not None
    pointer, index = parts.array(partition.weight.pointer)
    goes_on = c.Bin(">", end, c.Load(pointer, parts.stop))
    limits = variable(low, begin), variable(low, stop)
    whole = Compare("<", Var(plan.dim), variable(low, parts.stop))

    def bounded(node: object) -> object | None:
        if isinstance(node, Scan) and node.dim == partition.row:
            return replace(node, low=limits[:1], high=limits[1:])
        if isinstance(node, Clear) and node.part is not None and node.span is None:
            return replace(node, part=Guard((whole,), node.part))
        return None

    low.array_names[key] = low.names.new(f"{boundary.target.tensor}_row")
    nest = without_unused(rewrite(bounded, own_body))

    def lines(places: c.Expr, until: c.Expr) -> list[c.Stmt]:
        return [
            c.Declare(f"{boundary.kind.c} *", low.array_names[key], places),
            c.Declare(f"const {INT}", stop.name, until),
            *low.plan(nest, parts.scope),
            c.Assign(begin, "=", stop),
        ]

    each = _in_pieces(low, plan, boundary, parts, (end, past, pointer, TYPES[index].c), _step(found, plan.dim), lines)
    inside: list[c.Stmt] = [
        *parts.within(at, end, past, goes_on, ": what this part has of it is kept apart"),
        c.Assign(c.Load(rows, parts.part), "=", c.Select(goes_on, parts.stop, c.Int(-1))),
        *boundary.begun(arrays, parts.part),
        *parts.states,
        *cleared_span(low, plan, [variable(low, parts.start)], [variable(low, parts.stop)], parts.scope),
        c.Declare(INT, begin.name, at),
        *each,
    ]
    return [
        parts.comment(split=row),
        *parts.loop(inside),
        *_boundaries_added(low, plan, boundary, rows, arrays, count, scope),
    ]


def _divided(low: Lowering, plan: Scan, partition: Partition, scope: Scope) -> list[c.Stmt]:
    """Each part may begin and end within an iteration, between two of the loop inside: all of these write different
    places."""
    parts = _Parts(low, plan, scope, _number(low, partition, scope), _taken(low))
    row, inner = low.names[plan.dim], low.names[partition.row]
    words = (f"{inner}_from", f"{inner}_to", f"{row}_stop")
    at, end, past = (c.Name(low.names.new(word)) for word in words)
    first, last = variable(low, at), variable(low, end)

    def bounded(node: object) -> object | None:
        match node:
            case Scan(dim, low=begin, high=high) if dim == partition.row:
                left = isinstance(begin[0], Var) and begin[0].name == one_by_one_from(dim)
                return replace(node, low=begin if left else (*begin, first), high=(*high, last))
            case UnrollAndJam(start, low=begin, high=high) if start == one_by_one_from(partition.row):
                return replace(node, low=(*begin, first), high=(*high, last))
        return None

    assert partition.weight is not None
    pointer, _ = parts.array(partition.weight.pointer)
    goes_on = c.Bin(">", end, c.Load(pointer, parts.stop))
    inside: list[c.Stmt] = [
        *parts.within(at, end, past, goes_on),
        *parts.states,
        *low.plan(rewrite(bounded, between(low, plan, parts.start, past), PLANS), parts.scope),
    ]
    return [parts.comment(split=row), *parts.loop(inside)]


def _step(found: Slice, dim: str) -> int | None:
    """How far the places of a row are from those of the row before, where that is a number."""
    if len(found.base) != 1:
        return None
    try:
        place = linear(found.base[0])
    except NotAffine:
        return None
    return place.coefficient(dim) if place.names() == {dim} else None


def _is_held(boundary: _Boundary, dim: str) -> bool:
    """Whether a row has one place, which is what an index array holds for it."""
    match boundary.slice.base:
        case (Call(_, (Var(name),)),):
            return name == dim and boundary.single
    return False


def _in_pieces(
    low: Lowering,
    plan: Scan,
    boundary: _Boundary,
    parts: _Parts,
    known: tuple[c.Name, c.Name, c.Name, str],
    step: int | None,
    lines: Callable[[c.Expr, c.Expr], list[c.Stmt]],
) -> list[c.Stmt]:
    """The rows of a part: the whole ones, then what it has of the last one. Where both have their places and their ends
    is found out once, since rows may be so short that it takes longer than what is done for them."""
    end, past, pointer, index = known
    row = low.names[plan.dim]
    piece, first, last, ends, places = (
        c.Name(low.names.new(n)) for n in ("piece", f"{row}_first", f"{row}_last", f"{row}_ends", f"{row}_places")
    )
    until = c.Name(low.names.new(f"{row}_until"))
    further = c.Bin("-", c.Name(row), first)
    after = c.Bin("+", pointer, c.Bin("+", first, c.Int(1)))
    above: list[c.Stmt] = []
    declared: list[c.Stmt] = []
    at: c.Expr = c.Select(piece, boundary.array, boundary.start(parts.scope))
    start: c.Expr
    if step is not None:
        start = boundary.start(parts.scope, {plan.dim: variable(low, first)})
        declared.append(c.Declare(f"{boundary.kind.c} *", places.name, c.Select(piece, boundary.array, start)))
        at = c.Bin("+", places, further if step == 1 else c.Bin("*", c.Int(step), further))
    elif _is_held(boundary, plan.dim):
        array, kind = parts.array(boundary.slice.base[0].function)  # type: ignore[attr-defined]
        rows, none = c.Name(low.names.new(f"{row}_rows")), c.Name(low.names.new(f"{row}_none"))
        above.append(c.Declare(f"const {TYPES[kind].c}", none.name, c.Int(0)))
        low.arrays[f"{boundary.target.tensor}.{boundary.target.array}"] = None
        start = c.Name(low.array_names[boundary.target.tensor, boundary.target.array])
        declared += [
            c.Declare(
                f"const {TYPES[kind].c} *", rows.name, c.Select(piece, c.Un("&", none), c.Bin("+", array, first))
            ),
            c.Declare(f"{boundary.kind.c} *", places.name, c.Select(piece, boundary.array, start)),
        ]
        at = c.Bin("+", places, c.Load(rows, further))
    inside = [
        c.Declare(f"const {INT}", first.name, c.Select(piece, parts.stop, parts.start)),
        c.Declare(f"const {INT}", last.name, c.Select(piece, past, parts.stop)),
        c.Declare(f"const {index} *", ends.name, c.Select(piece, c.Un("&", until), after)),
        *declared,
        loop(row, first, last, lines(at, c.Load(ends, further))),
    ]
    return [
        *above,
        c.Declare(f"const {index}", until.name, c.Cast(index, end)),
        c.Comment("whole rows, then what this part has of the last one"),
        c.For("int", piece.name, c.Int(0), c.Bin("<", piece, c.Int(2)), 1, c.Block(tuple(inside))),
    ]


def _with(declared: c.Declare, lines: list[c.Stmt]) -> list[c.Stmt]:
    """The lines after a declaration, if they need it."""
    return [declared, *lines] if c.Name(declared.name) in [n for s in lines for n in walk(s)] else lines


def _times(a: c.Expr, b: c.Expr) -> c.Expr:
    return a if b == c.Int(1) else c.Bin("*", a, b)


def _boundaries_added(
    low: Lowering, plan: Scan, boundary: _Boundary, rows: c.Name, arrays: c.Name, count: c.Expr, scope: Scope
) -> list[c.Stmt]:
    """What parts have summed of rows that go on behind them is added up in order."""
    row = low.names[plan.dim]
    part = c.Name(low.names.new("part"))
    inside = _with(c.Declare(f"const {INT}", row, c.Load(rows, part)), boundary.added(arrays, part, scope))
    found = c.If(c.Bin(">=", c.Load(rows, part), c.Int(0)), c.Block(tuple(inside)))
    each = c.For("int", part.name, c.Int(0), c.Bin("<", part, count), 1, c.Block((found,)))
    return [c.Comment(f"what parts have of an iteration over {row} that goes on in the next one, in order"), each]


def _segments(low: Lowering, plan: Scan, partition: Partition, scope: Scope) -> list[c.Stmt]:
    """Each part adds to places that no other part adds to, but for those of the key that the part before ended with."""
    assert partition.slice is not None
    boundary = _boundary(low, plan, partition.slice, scope)
    count = _number(low, partition, scope)
    parts = _Parts(low, plan, scope, count, _taken(low))
    name = low.names[plan.dim]
    own = c.Name(low.names.new(f"{name}_own"))
    arrays = _workspace(low, f"{boundary.target.tensor}_parts", boundary.kind.c, _times(count, boundary.count), scope)
    keys = [b for b in partition.slice.base if plan.dim in variables(b)]

    def continues(at: c.Name, first: c.Name) -> c.Expr:
        """Whether the key is the one right before the part."""
        before = Bin("-", variable(low, first), Num(1))
        pairs = [(substitute(k, {plan.dim: variable(low, at)}), substitute(k, {plan.dim: before})) for k in keys]
        return joined("&&", [c.Bin("==", low.expr(a, scope), low.expr(b, scope)) for a, b in pairs])

    before = between(low, plan, parts.start, own)
    assert isinstance(before, Scan)
    piece: Plan = with_body(replace(before, segment_keys=()), boundary.redirected(plan.body))
    if boundary.single:
        piece = Reduce(boundary.operand, "+=", piece)
    with _renamed(low, boundary.target, boundary.array.name):
        partial = low.plan(piece, parts.scope)
    goes_on = c.Bin("&&", c.Bin("<", own, parts.stop), continues(own, parts.start))
    lines: list[c.Stmt] = [
        *parts.bounds,
        c.Declare(INT, own.name, parts.start),
        *parts.states,
        c.If(
            c.Bin(">", parts.start, parts.bottom),
            c.Block((
                c.Comment("the part before has begun with these places"),
                c.While(goes_on, c.Block((c.Assign(own, "+=", c.Int(1)),))),
                *boundary.begun(arrays, parts.part),
                *partial,
            )),
        ),
        *parts.between(own, parts.stop, parts.scope),
    ]  # fmt: skip
    part = c.Name(low.names.new("part"))
    first = c.Name(name)
    inside = c.Bin("&&", c.Bin(">", first, parts.bottom), c.Bin("<", first, parts.top))
    after = c.For(
        "int", part.name, c.Int(1), c.Bin("<", part, count), 1,
        c.Block((
            c.Declare(f"const {INT}", name, parts.begin(part)),
            c.If(c.Bin("&&", inside, continues(first, first)), c.Block(tuple(boundary.added(arrays, part, scope)))),
        )),
    )  # fmt: skip
    comment = c.Comment("equal parts; places that go on from one part to the next are summed for each")
    later = c.Comment("what parts have added to the last places of the one before")
    return [comment, *parts.loop(lines), later, after]

"""Entries that go to their place at once (plan/assemble/in_place.py): the loops twice, offsets and arrays in between.

first run     counts[lane][group]++ for each entry; a lane is a part of a parallel loop, or a loop of its own
NAME_T_room   counts become offsets; sizes, arrays, where groups begin (by_key.py)
second run    the entry goes to the next offset of its group, and the offset moves on
NAME_T        groups that are not in order are sorted, what is there twice added up (by_key.py)

Where entries that follow one another go to places that lie far apart, buckets of groups stand for groups in both runs;
each bucket fits the cache, and NAME_T_gathered puts it in order. A few windows of the loop show whether they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from spfgen.cir.lower.layout import field_name, final_structs
from spfgen.cir.lower.scope import Run, Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.lower.workspaces import Workspace
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.affine import ArrayName, Names
from spfgen.cir.tree.build import INT, joined
from spfgen.facts.formula import Expr
from spfgen.ir import walk
from spfgen.lang.types import TYPES
from spfgen.plan.nodes import PLANS, Append, InPlace, Scan
from spfgen.space.nodes import Tensor


@dataclass
class Lanes:
    """How many lanes there are so far."""

    counts: list[c.Expr] = field(default_factory=list)

    def taken(self, count: c.Expr) -> c.Expr:
        """Where so many more begin."""
        first = self.total
        self.counts.append(count)
        return first

    @property
    def total(self) -> c.Expr:
        return reduce(lambda a, b: c.Bin("+", a, b), self.counts) if self.counts else c.Int(0)


@dataclass(frozen=True)
class Placing:
    """One of the runs (`count`, `insert`, or `sample`, which looks how far apart entries go): the tensor's target; the
    lanes that it has met; the lane here."""

    target: Target
    kind: str
    lanes: Lanes
    lane: c.Expr | None = None

    @property
    def in_lanes(self) -> bool:
        return not self.target.plan.apart

    @property
    def groups(self) -> c.Expr:
        return self.target.groups

    def divided(self, low: Lowering, count: c.Expr, number: c.Expr) -> tuple[list[c.Stmt], Run]:
        """Within one of so many parts of a loop: a declaration, and the run."""
        if not self.in_lanes or self.kind == "sample":
            return [], self
        first = self.lanes.taken(count)
        number = number if first == c.Int(0) else c.Bin("+", first, number)
        own = c.Name(low.names.new(f"{self.target.tensor.name}_own"))
        place = c.Bin("+", self.target.counters, c.Bin("*", number, self.target.stride))
        return [c.Declare(f"{self.target.counter} *restrict", own.name, place)], replace(self, lane=own)

    def append(self, low: Lowering, plan: Append, scope: Scope, value: c.Expr) -> list[c.Stmt]:
        """An entry is counted, or goes to its place."""
        from spfgen.cir.nest import pruned  # numpy, which is not needed before

        target = self.target
        lines, names = target.names(low, [low.expr(e, scope) for e in plan.coordinates])
        lane, group = self.lane, target.group(names)
        if self.kind == "sample":
            return pruned([*lines, c.Do(c.Call("spfgen_spread_note", (target.spread, group)))])
        index = target.counter_at(group)
        if lane is None:
            first = c.Int(0) if target.plan.apart else self.lanes.taken(c.Int(1))
            moved = index if first == c.Int(0) else c.Bin("+", c.Bin("*", first, target.stride), index)
            lane, index = target.counters, moved
        place = c.Load(lane, index)
        step = c.Assign(place, "+=", c.Int(1))
        if self.kind == "count":
            return pruned([*lines, step])
        position = c.Name(low.names.new(target.rank.position))
        names = names.knowing({target.rank.position: position})
        number = c.Declare(f"const {INT}", position.name, place)
        noted = target.noted(position, group)
        return pruned([*lines, number, step, *noted, *target.written(names, value)])


class Target:
    """The result: how the group and the keys of an entry follow from its coordinates, and its arrays."""

    def __init__(self, low: Lowering, plan: InPlace) -> None:
        from spfgen.plan.assemble.in_place import counter_of, groups_of  # numpy, which is not needed before

        self.plan = plan
        self.tensor: Tensor = low.program.tensor(plan.tensor)
        found = groups_of(self.tensor)
        assert found is not None
        self.key = found.key.key
        self.encoded = self.key.plan.encoded
        self.layout, self.rank = self.encoded.layout, self.key.levels[0].rank
        self.extents = [low.extent(e) for e in self.tensor.extents]
        plain = Names(dict(zip(self.layout.parameters, self.extents, strict=True)), {}, {}, self.encoded.quotients)
        self.arguments, self.group_extents = found.arguments, found.extents
        self.groups: c.Expr = c.Int(1)
        if found.extents:
            count = joined("*", [plain.expr(e) for e in found.extents])
            why = f"how many groups {self.tensor.name} has, each with an offset"
            self.groups = low.chosen(f"const {INT}", f"{plan.tensor}_groups", count, why)
        self.scatters = found.sortable and not plan.apart and _shares(plan)
        """Whether entries may have to go to buckets of groups first."""
        self.stride: c.Expr = c.Name(low.names.new(f"{plan.tensor}_stride")) if self.scatters else self.groups
        self.spread, self.factor, self.group_of = (
            c.Name(low.names.new(f"{plan.tensor}_{n}")) for n in ("spread", "factor", "group_of")
        )
        self.sizes = {n: low.names.new(f"{plan.tensor}_{n}") for n in self.layout.sizes}
        self.counters = c.Name(low.names.new(f"{plan.tensor}_counts"))
        self.counter = TYPES[counter_of(self.tensor, plan)].c
        self.entries = low.entries[plan.tensor]
        kinds, own = dict(self.tensor.assembled_types), [self.encoded.calls[k].function for k in self.rank.keys]
        self.arrays = {
            n: ArrayName(low.names.new(f"{plan.tensor}_{n}"), kinds[n] != "int64", self.layout.index(n).extents)
            for n in own
        }
        (value,) = self.layout.values
        self.arrays[value.name] = ArrayName(low.names.new(f"{plan.tensor}_{value.name}"), False, value.extents)
        self.kinds = {n: TYPES[kinds[n]].c for n in own} | {value.name: TYPES[self.tensor.value_type].c}
        self.struct = final_structs(low.program)[plan.tensor].name

    def names(self, low: Lowering, coordinates: Sequence[c.Expr]) -> tuple[list[c.Stmt], Names]:
        """The names of an entry: what is computed of its coordinates is declared."""
        lines: list[c.Stmt] = []

        def declared(wanted: str, value: c.Expr) -> c.Expr:
            if isinstance(value, c.Name | c.Int):
                return value
            lines.append(c.Declare(f"const {INT}", low.names.new(wanted), value))
            return c.Name(lines[-1].name) if isinstance(lines[-1], c.Declare) else value

        from spfgen.cir.pack import target_names  # numpy, which is not needed before

        own = [declared(n, v) for n, v in zip(self.layout.coordinates, coordinates, strict=True)]
        names = target_names(self.key, own, self.extents)
        for rule in self.key.computed:
            names = names.knowing({rule.position: declared(rule.position, names.floor(rule.numerator, rule.divisor))})
        return lines, replace(names, arrays=self.arrays)

    def group(self, names: Names) -> c.Expr:
        return names.linear_index(self.group_extents, [names.expr(a) for a in self.arguments])

    def counter_at(self, group: c.Expr) -> c.Expr:
        """The number of the counter of a group, or of its bucket."""
        if not self.scatters:
            return group
        bucket = c.Cast(INT, c.Bin(">>", c.Bin("*", c.Cast("uint64_t", group), self.factor), c.Int(32)))
        return c.Select(self.factor, bucket, group)

    def noted(self, position: c.Expr, group: c.Expr) -> list[c.Stmt]:
        """The group of an entry that goes to a bucket."""
        if not self.scatters:
            return []
        stored = c.Assign(c.Load(self.group_of, position), "=", c.Cast("int32_t", group))
        return [c.If(self.group_of, c.Block((stored,)))]

    def sampled(self, low: Lowering, sample: Sequence[c.Stmt]) -> list[c.Stmt]:
        """Whether groups or buckets of groups are counted, by a few windows of the loop."""
        assert isinstance(self.stride, c.Name)
        entries = c.Cast("double", low.values_held())
        each = c.Int(sum(TYPES[k].bytes for k in (self.tensor.value_type, *dict(self.tensor.assembled_types).values())))
        scaled = c.Bin("<<", c.Cast("uint64_t", self.stride), c.Int(32))
        far = [
            c.Assign(self.stride, "=", c.Call("spfgen_buckets", (entries, self.groups))),
            c.Assign(self.factor, "=", c.Bin("/", scaled, c.Cast("uint64_t", self.groups))),
        ]
        asked = c.If(c.Call("spfgen_is_far", (self.spread,)), c.Block(tuple(far)))
        return [
            c.Comment("where neighbours go to places far apart, buckets of groups are counted in place of groups"),
            c.Declare("spfgen_spread", self.spread.name, None, 1),
            c.Declare(INT, self.stride.name, self.groups),
            c.Declare("uint64_t", self.factor.name, c.Int(0)),
            c.If(c.Call("spfgen_may_scatter", (self.spread, entries, each, self.groups)), c.Block((*sample, asked))),
        ]

    def written(self, names: Names, value: c.Expr) -> list[c.Stmt]:
        """The keys and the value of an entry at its place."""
        names = names.knowing({n: c.Name(own) for n, own in self.sizes.items()})
        (array,), calls = self.layout.values, self.encoded.calls
        stored = [(calls[k].function, calls[k].arguments, names.name(k)) for k in self.rank.keys]
        return [self.write(*own, names) for own in (*stored, (array.name, array.position, value))]

    def write(self, array: str, at: Sequence[Expr], value: c.Expr, names: Names) -> c.Stmt:
        own = self.arrays[array]
        place = names.linear_index(own.extents, [names.expr(p) for p in at])
        return c.Assign(c.Load(c.Name(own.name), place), "=", c.Cast(self.kinds[array], value) if own.narrow else value)

    def pointers(self) -> list[c.Stmt]:
        """The arrays under their names."""
        made = c.Cast(f"{self.struct} *", c.Field(self.entries, "made"))
        lines: list[c.Stmt] = [
            c.Declare(f"const {INT}", own, c.Field(made, field_name(n))) for n, own in self.sizes.items()
        ]
        if self.scatters:
            lines.append(c.Declare("int32_t *restrict", self.group_of.name, c.Field(self.entries, "group_of")))
        for name, array in self.arrays.items():
            kind = f"{self.kinds[name]} *"
            memory = c.Cast(kind, c.Cast("uintptr_t", c.Field(made, field_name(name))))
            lines.append(c.Declare(f"{kind}restrict", array.name, memory))
        return lines


def in_place(low: Lowering, plan: InPlace, scope: Scope) -> list[c.Stmt]:
    """Both runs, with the room for the entries made in between."""
    target = Target(low, plan)
    sampling, counting, writing = (Placing(target, kind, Lanes()) for kind in ("sample", "count", "insert"))
    before: list[c.Stmt] = []
    if target.scatters:
        samples = low.plan(plan.body, replace(scope, runs={**scope.runs, plan.tensor: sampling}))
        before = target.sampled(low, samples)
    first = low.plan(plan.body, replace(scope, runs={**scope.runs, plan.tensor: counting}))
    second = low.plan(plan.body, replace(scope, runs={**scope.runs, plan.tensor: writing}))
    lanes: c.Expr = c.Int(1) if plan.apart else counting.lanes.total
    count = c.Call("spfgen_times", (lanes, target.groups)) if lanes != c.Int(1) else target.groups
    low.workspaces.append(Workspace(target.counters.name, target.counter, count, when=scope.when))
    status = c.Name(low.names.new(f"{plan.tensor}_status"))
    low.statuses.append(status)
    room, gathered = low.rooms[plan.tensor]
    made = c.Call(room, (target.entries, target.counters, target.groups, target.stride, c.Cast("int", lanes)))
    after: list[c.Stmt] = []
    if target.scatters:
        ends = c.Bin("+", target.counters, c.Bin("*", c.Bin("-", lanes, c.Int(1)), target.stride))
        call = c.Call(gathered, (target.entries, ends, target.groups, target.stride, target.factor, c.Name("threads")))
        after = [c.If(target.group_of, c.Block((c.Assign(status, "=", call),)))]
    then = c.Block((*target.pointers(), *second, *after))
    return [
        *before,
        c.Comment(f"count: {plan.because}"),
        c.Scope(c.Block(tuple(first))),
        c.Comment("offsets, sizes and arrays follow from the counts; then each entry is inserted"),
        c.Assign(status, "=", made),
        c.If(c.Bin("==", status, c.Name("SPFGEN_OK")), then),
    ]


def _shares(plan: InPlace) -> bool:
    """Whether all entries come from loops that threads share, which have parts."""
    shared = [n for n in walk(plan.body, PLANS) if isinstance(n, Scan) and n.parallel and n.partition is not None]
    inside = sum(isinstance(n, Append) for s in shared for n in walk(s.body, PLANS))
    return bool(shared) and inside == sum(isinstance(n, Append) for n in walk(plan.body, PLANS))


def samples(low: Lowering, scope: Scope) -> tuple[c.Expr, c.Expr] | None:
    """Where only windows of a loop are run: how many there are, and what the number of the window is noted in."""
    for run in scope.runs.values():
        if isinstance(run, Placing) and run.kind == "sample":
            why = "some of so many windows of the loop are looked at"
            count = low.chosen(
                "const int", "windows", c.Call("spfgen_windows", (c.Cast("double", low.values_held()),)), why
            )
            return count, c.Field(run.target.spread, "window")
    return None


def counts_in_lanes(scope: Scope) -> bool:
    """Whether parts of a loop count for themselves: which iterations each has must not depend on the run."""
    return any(run.in_lanes for run in scope.runs.values())


def lanes(low: Lowering, scope: Scope) -> c.Expr | None:
    """How many parts a loop has where parts count for themselves: no more counters than four times the entries."""
    found: c.Expr | None = None
    for run in scope.runs.values():
        if run.in_lanes:
            most = c.Call("spfgen_lanes", (c.Name("threads"), c.Cast("double", low.values_held()), run.groups))
            found = low.chosen("const int", "lanes", most, "each part counts for itself")
    return found

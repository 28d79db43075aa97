"""What is done with the entries of a result that go to their place at once, by its form (plan/assemble/forms.py).

groups, first run   counts[lane][group]++ for each entry; a lane is a part of a parallel loop, or a loop of its own
NAME_T_room         counts become offsets; sizes, arrays, where groups begin (by_key.py)
second run          the entry goes to the next offset of its group, and the offset moves on
NAME_T              groups that are not in order are sorted, what is there twice added up (by_key.py)

Where entries that follow one another go to places that lie far apart, buckets of groups stand for groups in both runs;
each bucket fits the cache, and NAME_T_gathered puts it in order. A few windows of the loop show whether they do.

keys, first run     counts[lane]++ for each entry
second run          the key and the value of the entry go to the next place of its lane
NAME_T              the arrays, from the keys (by_key.py)

marks, first run    the word of the entry's position is noted in the lane, unless it is one of those noted last
NAME_T_room         all words in order, each once; sizes, and the arrays of the ranks (by_key.py)
second run          the value goes to its place, which the number of its word says
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spfgen.cir.lower import entries
from spfgen.cir.lower.layout import field_name, final_structs
from spfgen.cir.lower.placing import Lanes, Placing
from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.lower.workspaces import WorkspaceArray
from spfgen.cir.pack import is_stored, target_names
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.affine import ArrayName, ExprLowering
from spfgen.cir.tree.build import INT, folded, joined
from spfgen.facts.formula import Expr
from spfgen.ir import walk
from spfgen.lang.types import TYPES
from spfgen.layout.keys import KeyField
from spfgen.plan.assemble.forms import Groups, Keys, Marks, counter_of, form_of
from spfgen.plan.nodes import PLANS, Append, InPlace, Scan
from spfgen.sets.affine import Affine
from spfgen.space.nodes import Tensor

OK, NO_MEMORY, NO_INDEX = (c.Name(f"SPFGEN_{n}") for n in ("OK", "ERROR_MEMORY", "ERROR_INDEX"))
WORD = "uint64_t"


def target_of(low: Lowering, plan: InPlace) -> _Target:
    """What is done with the entries of a result."""
    form = form_of(low.program.tensor(plan.tensor), plan.how)
    match form:
        case Groups():
            return _Grouped(low, plan, form)
        case Marks():
            return _Marked(low, plan, form)
    assert form is not None
    return _Keyed(low, plan, form)


class _Target:
    """The result: how its keys follow from coordinates, its sizes, and the arrays that the second run writes."""

    counters = c.Name("")
    lane = ""
    stride: c.Expr = c.Int(1)
    groups: c.Expr = c.Int(1)
    spread = c.Name("")

    def __init__(self, low: Lowering, plan: InPlace, form: Groups | Keys | Marks) -> None:
        self.plan = plan
        self.tensor: Tensor = low.program.tensor(plan.tensor)
        self.key = form.key.key
        self.encoded = self.key.plan.encoded
        self.layout = self.encoded.layout
        self.extents = [low.extent(e) for e in self.tensor.extents]
        self.known = ExprLowering(
            dict(zip(self.layout.parameters, self.extents, strict=True)), {}, {}, self.encoded.quotients
        )
        self.sizes = {n: low.names.new(f"{plan.tensor}_{n}") for n in self.layout.sizes}
        self.entries = low.entries[plan.tensor]
        self.arrays: dict[str, ArrayName] = {}
        self.kinds: dict[str, str] = {}
        self.struct = final_structs(low.program)[plan.tensor].name
        self.status = c.Name("")

    def kept(self, low: Lowering, arrays: Sequence[str]) -> None:
        """The second run writes these arrays, and the values."""
        (value,), kinds, name = self.layout.values, dict(self.tensor.final_types), self.plan.tensor
        for n in arrays:
            array = ArrayName(low.names.new(f"{name}_{n}"), kinds[n] != "int64", self.layout.index(n).extents)
            self.arrays[n], self.kinds[n] = array, TYPES[kinds[n]].c
        self.arrays[value.name] = ArrayName(low.names.new(f"{name}_{value.name}"), False, value.extents)
        self.kinds[value.name] = TYPES[self.tensor.value_type].c

    def begun(self, low: Lowering) -> None:
        """The variable that says how it went."""
        self.status = c.Name(low.names.new(f"{self.plan.tensor}_status"))
        low.statuses.append(self.status)

    def goes(self, call: c.Expr, then: Sequence[c.Stmt]) -> list[c.Stmt]:
        """What is done unless the call fails."""
        return [c.Assign(self.status, "=", call), c.If(c.Bin("==", self.status, OK), c.Block(tuple(then)))]

    def names(self, low: Lowering, coordinates: Sequence[c.Expr]) -> tuple[list[c.Stmt], ExprLowering]:
        """The names of an entry: what is computed of its coordinates is declared."""
        lines: list[c.Stmt] = []

        def declared(wanted: str, value: c.Expr) -> c.Expr:
            if isinstance(value, c.Name | c.Int):
                return value
            lines.append(c.Declare(f"const {INT}", low.names.new(wanted), value))
            return c.Name(lines[-1].name) if isinstance(lines[-1], c.Declare) else value

        declared_coordinates = [declared(n, v) for n, v in zip(self.layout.coordinates, coordinates, strict=True)]
        names = target_names(self.key, declared_coordinates, self.extents)
        for rule in self.key.computed:
            names = names.knowing({rule.position: declared(rule.position, names.floor(rule.numerator, rule.divisor))})
        return lines, replace(names, arrays=self.arrays)

    def fits(self, names: ExprLowering, lines: Sequence[c.Stmt], value: c.Expr, run: Placing) -> list[c.Stmt]:
        """The lines for an entry that there is a place for; that there is none is noted, unless it is the fill."""
        if not self.key.checks:
            return list(lines)
        inside = joined("&&", [names.constraint(x) for x in self.key.checks])
        if run.kind != "count":
            return [c.If(inside, c.Block(tuple(lines)))]
        stored = is_stored(value, self.layout.fill, TYPES[self.tensor.value_type])
        lost = c.Assign(c.Field(self.entries, "misplaced"), "=", c.Int(1))
        return [c.If(inside, c.Block(tuple(lines)), c.If(stored, c.Block((openmp.ATOMIC_WRITE, lost))))]

    def entry(self, low: Lowering, run: Placing, names: ExprLowering, value: c.Expr) -> list[c.Stmt]:
        """What a run does with an entry."""
        raise NotImplementedError

    def both(self, low: Lowering, scope: Scope) -> list[c.Stmt]:
        """Both runs."""
        raise NotImplementedError

    def write(self, array: str, at: Sequence[Expr], value: c.Expr, names: ExprLowering) -> c.Stmt:
        target = self.arrays[array]
        place = names.linear_index(target.extents, [names.expr(p) for p in at])
        return c.Assign(
            c.Load(c.Name(target.name), place), "=", c.Cast(self.kinds[array], value) if target.narrow else value
        )

    def pointers(self) -> list[c.Stmt]:
        """The arrays under their names."""
        result = c.Cast(f"{self.struct} *", c.Field(self.entries, "made"))
        lines: list[c.Stmt] = [
            c.Declare(f"const {INT}", size, c.Field(result, field_name(n))) for n, size in self.sizes.items()
        ]
        for name, array in self.arrays.items():
            kind = f"{self.kinds[name]} *"
            memory = c.Cast(kind, c.Cast("uintptr_t", c.Field(result, field_name(name))))
            lines.append(c.Declare(f"{kind}restrict", array.name, memory))
        return lines


class _Grouped(_Target):
    """Entries are counted in groups."""

    def __init__(self, low: Lowering, plan: InPlace, form: Groups) -> None:
        super().__init__(low, plan, form)
        self.rank = self.key.levels[0].rank
        self.arguments, self.group_extents = form.arguments, form.extents
        if form.extents:
            count = joined("*", [self.known.expr(e) for e in form.extents])
            why = f"how many groups {self.tensor.name} has, each with an offset"
            self.groups = low.chosen(f"const {INT}", f"{plan.tensor}_groups", count, why)
        self.scatters = form.sortable and not plan.apart and _shares(plan)
        """Whether entries may have to go to buckets of groups first."""
        self.stride = c.Name(low.names.new(f"{plan.tensor}_stride")) if self.scatters else self.groups
        self.spread, self.factor, self.group_of = (
            c.Name(low.names.new(f"{plan.tensor}_{n}")) for n in ("spread", "factor", "group_of")
        )
        self.counters = c.Name(low.names.new(f"{plan.tensor}_counts"))
        self.counter = TYPES[counter_of(self.tensor, plan)].c
        self.lane = f"{self.counter} *restrict"
        self.kept(low, [self.encoded.calls[k].function for k in self.rank.keys])

    def entry(self, low: Lowering, run: Placing, names: ExprLowering, value: c.Expr) -> list[c.Stmt]:
        """What a run does with an entry."""
        group = self.group(names)
        if run.kind == "sample":
            return [c.Do(c.Call("spfgen_spread_note", (self.spread, group)))]
        place = run.element(self.counter_at(group))
        step = c.Assign(place, "+=", c.Int(1))
        if run.kind == "count":
            return [step]
        position = c.Name(low.names.new(self.rank.position))
        names = names.knowing({self.rank.position: position})
        number = c.Declare(f"const {INT}", position.name, place)
        return [number, step, *self.noted(position, group), *self.written(names, value)]

    def group(self, names: ExprLowering) -> c.Expr:
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

    def pointers(self) -> list[c.Stmt]:
        declared = super().pointers()
        if not self.scatters:
            return declared
        groups = c.Declare("int32_t *restrict", self.group_of.name, c.Field(self.entries, "group_of"))
        return [*declared[: len(self.sizes)], groups, *declared[len(self.sizes) :]]

    def sampled(self, low: Lowering, sample: Sequence[c.Stmt]) -> list[c.Stmt]:
        """Whether groups or buckets of groups are counted, by a few windows of the loop."""
        assert isinstance(self.stride, c.Name)
        entries = c.Cast("double", low.values_held())
        each = c.Int(sum(TYPES[k].bytes for k in (self.tensor.value_type, *dict(self.tensor.final_types).values())))
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

    def written(self, names: ExprLowering, value: c.Expr) -> list[c.Stmt]:
        """The keys and the value of an entry at its place."""
        names = names.knowing({n: c.Name(stored_at) for n, stored_at in self.sizes.items()})
        (array,), calls = self.layout.values, self.encoded.calls
        stored = [(calls[k].function, calls[k].arguments, names.name(k)) for k in self.rank.keys]
        return [self.write(*stored_at, names) for stored_at in (*stored, (array.name, array.position, value))]

    def both(self, low: Lowering, scope: Scope) -> list[c.Stmt]:
        """Both runs, with the room for the entries made in between."""
        plan, before = self.plan, list[c.Stmt]()
        if self.scatters:
            samples, _ = _run(low, self, "sample", scope)
            before = self.sampled(low, samples)
        first, lanes = _run(low, self, "count", scope)
        second, _ = _run(low, self, "insert", scope)
        count = c.Call("spfgen_times", (lanes, self.groups)) if lanes != c.Int(1) else self.groups
        low.workspaces.append(WorkspaceArray(self.counters.name, self.counter, count, when=scope.when))
        self.begun(low)
        room, gathered = low.rooms[plan.tensor]
        made_room = c.Call(room, (self.entries, self.counters, self.groups, self.stride, c.Cast("int", lanes)))
        after: list[c.Stmt] = []
        if self.scatters:
            ends = c.Bin("+", self.counters, c.Bin("*", c.Bin("-", lanes, c.Int(1)), self.stride))
            given = (self.entries, ends, self.groups, self.stride, self.factor, c.Name("threads"))
            call = c.Call(gathered, given)
            after = [c.If(self.group_of, c.Block((c.Assign(self.status, "=", call),)))]
        return [
            *before,
            c.Comment(f"count: {plan.because}"),
            c.Braces(c.Block(tuple(first))),
            c.Comment("offsets, sizes and arrays follow from the counts; then each entry is inserted"),
            *self.goes(made_room, [*self.pointers(), *second, *after]),
        ]


class _Worded(_Target):
    """An entry has a word: some digits of its key, side by side."""

    def __init__(self, low: Lowering, plan: InPlace, form: Keys | Marks) -> None:
        super().__init__(low, plan, form)
        self.may_be_wide = form.may_be_wide
        self.fields = form.fields
        self.shifts: list[c.Expr] = []
        self.bases: list[c.Expr | None] = []
        below: c.Expr = c.Int(0)
        low.choices.append(c.Comment(f"where the digits of a key of {plan.tensor} are"))
        for field in reversed(self.fields):
            low_end, high = self.limits(low, field)
            base = high if field.down else None if low_end == c.Int(0) else low_end
            self.bases.insert(0, base)
            self.shifts.insert(0, self.constant(low, "int", f"{field.name}_shift", below))
            width = c.Call("spfgen_bits_of", (high if low_end == c.Int(0) else c.Bin("-", high, low_end),))
            below = c.Bin("+", self.shifts[0], width)
        self.bits = self.constant(low, "int", "bits", below)

    def limits(self, low: Lowering, field: KeyField) -> tuple[c.Expr, c.Expr]:
        """The least and the largest value of a digit."""
        least = folded("spfgen_max", [c.Un("-", self.known.floor(e, a)) for a, e in field.lower])
        most = folded("spfgen_min", [self.known.floor(e, a) for a, e in field.upper])
        high = self.constant(low, INT, f"{field.name}_high", most)
        if field.lower == ((1, Affine(())),):
            return c.Int(0), high
        return self.constant(low, INT, f"{field.name}_low", least), high

    def constant(self, low: Lowering, kind: str, wanted: str, value: c.Expr) -> c.Expr:
        """What is found out before the loops."""
        if isinstance(value, c.Int):
            return value
        name = low.names.new(f"{self.plan.tensor}_{wanted}")
        low.choices.append(c.Declare(f"const {kind}", name, value))
        return c.Name(name)

    def word(self, names: ExprLowering) -> c.Expr:
        parts: list[c.Expr] = []
        for field, shift, base in zip(self.fields, self.shifts, self.bases, strict=True):
            value = names.name(field.name)
            if base is not None:
                value = c.Bin("-", base, value) if field.down else c.Bin("-", value, base)
            digit: c.Expr = c.Cast(WORD, value)
            parts.append(digit if shift == c.Int(0) else c.Bin("<<", digit, shift))
        return joined("|", parts) if parts else c.Int(0)

    def unless_wide(self, low: Lowering, then: Sequence[c.Stmt], scope: Scope) -> list[c.Stmt]:
        """Where a word has too many bits, entries are listed as those of loops that cannot run twice."""
        wide = c.Bin(">", self.bits, c.Int(64))
        if not self.may_be_wide:
            too_large = c.Assign(self.status, "=", NO_INDEX)  # extents are beyond what index arrays hold
            return [c.If(wide, c.Block((too_large,)), c.Block(tuple(then)))]
        listed = low.plan(self.plan.body, scope)
        failed = c.If(c.Field(self.entries, "failed"), c.Block((c.Assign(self.status, "=", NO_MEMORY),)))
        begun = entries.emptied_list(low, self.entries)
        about = c.Comment("a key does not fit in a word")
        return [c.If(wide, c.Block((about, *begun, *listed, failed)), c.Block(tuple(then)))]


class _Keyed(_Worded):
    """Entries are listed by their keys."""

    stride = c.Int(16)  # lanes do not share a line of the cache

    def __init__(self, low: Lowering, plan: InPlace, form: Keys) -> None:
        super().__init__(low, plan, form)
        self.counters = c.Name(low.names.new(f"{plan.tensor}_counts"))
        self.lane = f"{INT} *restrict"
        self.key_list, self.value_list = (c.Name(low.names.new(f"{plan.tensor}_{n}")) for n in ("keys", "values"))

    def entry(self, low: Lowering, run: Placing, names: ExprLowering, value: c.Expr) -> list[c.Stmt]:
        """What a run does with an entry."""
        place = run.element(c.Int(0))
        step = c.Assign(place, "+=", c.Int(1))
        if run.kind == "count":
            return self.fits(names, [step], value, run)
        number = c.Name(low.names.new("entry"))
        lines: list[c.Stmt] = [
            c.Declare(f"const {INT}", number.name, place),
            step,
            c.Assign(c.Load(self.key_list, number), "=", self.word(names)),
            c.Assign(c.Load(self.value_list, number), "=", value),
        ]
        return self.fits(names, lines, value, run)

    def both(self, low: Lowering, scope: Scope) -> list[c.Stmt]:
        """Both runs, with memory for the list in between."""
        self.begun(low)
        first, lanes = _run(low, self, "count", scope)
        second, _ = _run(low, self, "insert", scope)
        count = self.stride if lanes == c.Int(1) else c.Bin("*", lanes, self.stride)
        low.workspaces.append(WorkspaceArray(self.counters.name, INT, count, when=scope.when))
        kind = TYPES[self.tensor.value_type].c
        given = (self.entries, self.counters, c.Cast("int", lanes), self.stride, c.Call("sizeof", (c.Name(kind),)))
        words = c.Field(self.entries, "keys")
        values = c.Cast(f"{kind} *", c.Field(self.entries, "values"))
        then = [
            c.Declare(f"{WORD} *restrict", self.key_list.name, words),
            c.Declare(f"{kind} *restrict", self.value_list.name, values),
            *second,
        ]
        lines = [
            c.Comment(f"count: {self.plan.because}"),
            c.Braces(c.Block(tuple(first))),
            *self.goes(c.Call("spfgen_keyed_room", given), then),
        ]
        return self.unless_wide(low, lines, scope)


class _Marked(_Worded):
    """Positions of the last rank are noted, then numbered."""

    def __init__(self, low: Lowering, plan: InPlace, form: Marks) -> None:
        super().__init__(low, plan, form)
        self.rank = self.key.levels[-1].rank
        self.counters = c.Name(low.names.new(f"{plan.tensor}_marks"))
        self.lane = "spfgen_marks *"
        self.kept(low, [])
        width = self.shifts[form.group - 1] if form.group else self.bits
        slots = c.Call("spfgen_marks_slots", (width, c.Cast("double", low.values_held())))
        why = f"how many of the last positions of {plan.tensor} a part of the loop has at hand"
        self.groups = low.chosen(f"const {INT}", f"{plan.tensor}_slots", slots, why)

    def entry(self, low: Lowering, run: Placing, names: ExprLowering, value: c.Expr) -> list[c.Stmt]:
        """What a run does with an entry."""
        lane, word = run.here(), self.word(names)
        if run.kind == "count":
            return self.fits(names, [c.Do(c.Call("spfgen_mark", (lane, word)))], value, run)
        position = c.Name(low.names.new(self.rank.position))
        marked: c.Expr = c.Call("spfgen_marked", (lane, self.entries, word))
        marked = c.Bin("+", marked, c.Int(self.rank.low)) if self.rank.low else marked
        known = {self.rank.position: position, **{n: c.Name(size) for n, size in self.sizes.items()}}
        (array,) = self.layout.values
        stored = self.write(array.name, array.position, value, names.knowing(known))
        return self.fits(names, [c.Declare(f"const {INT}", position.name, marked), stored], value, run)

    def both(self, low: Lowering, scope: Scope) -> list[c.Stmt]:
        """Both runs, with the arrays of ranks made in between."""
        self.begun(low)
        first, lanes = _run(low, self, "count", scope)
        second, _ = _run(low, self, "insert", scope)
        low.workspaces.append(WorkspaceArray(self.counters.name, "spfgen_marks", lanes, when=scope.when))
        number = c.Cast("int", lanes)
        low.released.append(c.Do(c.Call("spfgen_marks_free", (self.counters, number))))
        room, _ = low.rooms[self.plan.tensor]
        opened = c.Call("spfgen_marks_open", (self.counters, number, self.groups, self.entries))
        made_room = c.Call(room, (self.entries, self.counters, number, c.Name("threads")))
        then = [
            c.Braces(c.Block(tuple(first))),
            c.Comment("positions follow from their order, sizes from their number; then each value goes to its place"),
            *self.goes(made_room, [*self.pointers(), *second]),
        ]
        lines = [c.Comment(f"note positions: {self.plan.because}"), *self.goes(opened, then)]
        return self.unless_wide(low, lines, scope)


def _run(low: Lowering, target: _Target, kind: str, scope: Scope) -> tuple[list[c.Stmt], c.Expr]:
    """The loops of a run; how many lanes they have."""
    run = Placing(target, kind, Lanes())
    plan = target.plan
    lines = low.plan(plan.body, replace(scope, runs={**scope.runs, plan.tensor: run}))
    return lines, c.Int(1) if plan.apart else run.lanes.total


def _shares(plan: InPlace) -> bool:
    """Whether all entries come from loops that threads share, which have parts."""
    shared = [n for n in walk(plan.body, PLANS) if isinstance(n, Scan) and n.parallel and n.partition is not None]
    inside = sum(isinstance(n, Append) for s in shared for n in walk(s.body, PLANS))
    return bool(shared) and inside == sum(isinstance(n, Append) for n in walk(plan.body, PLANS))

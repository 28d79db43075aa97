"""Results in their layout, in C: the arrays of a layout from the entries that a kernel makes.

For layouts whose ranks are those of one key (layout/keys.py). Each entry gets its key; the keys are sorted, unless they
come in order; the positions of each rank are counted, and sizes follow from that; arrays are allocated, and filled as
packing does it (pack.py). Entries at one place are added up.

    NAME_loops     the loops of the kernel: lists of entries (rt/entries.h)
    NAME_T_keys    the keys of the entries of result T; NAME_T_kept drops fill values that have no place before
    NAME_T_fill    its arrays from sorted keys
    NAME_T         all of that, and memory

Entries that go to their place at once (placed.py) have no list of coordinates:

    NAME_T_room    where groups begin, and the arrays, from the numbers of their entries; or the arrays of all ranks
                   from the words of their positions
    NAME_T         groups in order, entries at one place added up; or all from keys
    NAME_in, NAME  what the header shows
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from spfgen import tuning
from spfgen.cir.lower.layout import KIND, field_name
from spfgen.cir.pack import (
    ArrayTypes,
    GeneratedFunction,
    added_up,
    digits_of,
    fill_function,
    is_stored,
    key_of,
    new_name,
    target_names,
)
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.affine import ExprLowering
from spfgen.cir.tree.build import INT, any_of, folded, joined, loop
from spfgen.cir.tree.elements import converted
from spfgen.cir.tree.operators import literal
from spfgen.cir.tree.simplify import simplify
from spfgen.facts.formula import Expr, Var, variables
from spfgen.lang.types import KEYWORDS, TYPES
from spfgen.layout.keys import KeyLevel
from spfgen.layout.nodes import IndexArray, ValueArray
from spfgen.layout.pack_rules import shift
from spfgen.plan.assemble.by_key import KeyAssembly
from spfgen.plan.assemble.forms import Form, Groups, Keys, Marks, counter_of
from spfgen.plan.nodes import InPlace
from spfgen.sets.affine import Affine
from spfgen.sets.uf import linear

MEMORY = "spfgen_allocator"
OK, NO_MEMORY, NO_PLACE, NO_INDEX = (f"SPFGEN_{n}" for n in ("OK", "ERROR_MEMORY", "ERROR_PLACE", "ERROR_INDEX"))
ZEROS = (c.Int(0), c.Float(0.0), c.Float(0.0, True))
LARGEST = {"int8": "INT8_MAX", "int16": "INT16_MAX", "int32": "INT32_MAX", "int64": "INT64_MAX"}


def functions_by_key(assembly: KeyAssembly, struct: str, name: str, by_steps: str = "") -> list[c.Function]:
    """Static functions, the last of which makes the result: `int name(entries, made, threads, memory)`. `by_steps` is
    the function that does so where a key does not fit in 64 bits."""
    return [simplify(f) for f in _Maker(name, assembly, struct, by_steps).functions()]


def functions_in_place(
    form: Form, struct: str, rooms: tuple[str, str], name: str, plan: InPlace, by_steps: str = ""
) -> tuple[list[c.Function], list[c.Function]]:
    """Static functions that the loops call, and those after them, if anything is left to do, the last of which does
    it: `int name(entries, made, threads, memory)`.

    Of groups: `int room(entries, counts, groups, stride, lanes)`; `int gathered(entries, stop, groups, buckets, factor,
    threads)`, where groups can be sorted. Of marks: `int room(entries, marks, lanes, threads)`. `by_steps` is the
    function for keys that do not fit in a word.
    """
    maker = _Maker(name, form.key, struct, by_steps, isinstance(form, Keys))
    match form:
        case Groups():
            counter = counter_of(form.key.tensor, plan)
            scatters = form.sortable and not plan.apart
            before = [_Whole(maker).room(rooms[0], counter, form.in_slots, scatters)]
            before += [_Whole(maker).gathered(rooms[1], counter, plan.ordered)] if scatters else []
            after = [] if plan.ordered else [_Whole(maker).put_in_order()]
        case Marks():
            ranks = replace(form.key.key, fields=form.fields)
            filling = fill_function(ranks, maker.types, values=False)
            marking = replace(filling.function, name=f"{name}_ranks", result="void", static=True)
            before = [marking, _Whole(maker, len(form.fields)).room_of_marks(rooms[0], filling, form.group)]
            done = c.If(c.Field(c.Name("entries"), "keys"), c.Return(c.Name(OK)))
            after = maker.functions(done) if form.may_be_wide else []
        case _:
            before = []
            after = maker.functions() if form.may_be_wide else [maker.fill(), _Whole(maker).function(keyed=True)]
    return [simplify(f) for f in before], [simplify(f) for f in after]


class _Maker:
    """The functions of one result."""

    def __init__(
        self, name: str, assembly: KeyAssembly, struct: str, by_steps: str, may_have_keys: bool = False
    ) -> None:
        self.tensor, self.key, self.struct = assembly.tensor, assembly.key, struct
        self.by_steps = by_steps
        self.may_have_keys = may_have_keys
        """Whether entries may come with keys in place of coordinates."""
        self.tree = assembly.tree
        self.encoded = self.key.plan.encoded
        self.layout = self.encoded.layout
        self.name = name
        self.kinds = dict(self.tensor.final_types)
        self.entry, self.value = TYPES[self.tensor.entry_type], TYPES[self.tensor.value_type]
        self.rank = len(self.layout.coordinates)
        self.types = ArrayTypes(self.entry.name, self.tensor.final_types)
        self.filling = fill_function(self.key, self.types)

    def functions(self, first: c.Stmt | None = None) -> list[c.Function]:
        """From coordinates, or from keys where entries have them; `first` is done before."""
        kept = [self.kept()] if self.key.checks else []
        return [*kept, self.keys(), self.fill(), _Whole(self).function(first)]

    def fill(self) -> c.Function:
        return replace(self.filling.function, name=f"{self.name}_fill", result="void", static=True)

    # --- the entries

    def at_entry(self, taken: set[str]) -> tuple[list[c.Stmt], ExprLowering, list[c.Param]]:
        """The coordinates of entry q; parameters for the extents."""
        extents = [new_name(n, taken) for n in self.layout.parameters]
        names = [new_name(x, taken) for x in self.layout.coordinates]
        lines: list[c.Stmt] = [
            c.Declare(f"const {INT}", n, c.Call("spfgen_appended_at", (c.Name("entries"), c.Int(k), c.Name("q"))))
            for k, n in enumerate(names)
        ]
        wanted = target_names(self.key, [c.Name(n) for n in names], [c.Name(e) for e in extents])
        return lines, wanted, [c.Param(INT, e, "extent") for e in extents]

    def computed(self, names: ExprLowering, taken: set[str]) -> tuple[list[c.Stmt], ExprLowering]:
        lines: list[c.Stmt] = []
        for rule in self.key.computed:
            name = new_name(rule.position, taken)
            lines.append(c.Declare(f"const {INT}", name, names.floor(rule.numerator, rule.divisor)))
            names = names.knowing({rule.position: c.Name(name)})
        return lines, names

    def kept(self) -> c.Function:
        taken = {*KEYWORDS, *RESERVED}
        lines, names, params = self.at_entry(taken)
        more, names = self.computed(names, taken)
        value = c.Load(c.Cast(f"const {self.entry.c} *", c.Field(c.Name("entries"), "values")), c.Name("q"))
        size = c.Call("sizeof", (c.Name(self.entry.c),))
        copied = c.Do(c.Call("spfgen_appended_copy", (c.Name("entries"), c.Int(self.rank), size, *_names("kept", "q"))))
        fits = joined("&&", [names.constraint(x) for x in self.key.checks])
        there = (c.If(c.Bin("!=", c.Name("kept"), c.Name("q")), copied), c.Assign(c.Name("kept"), "+=", c.Int(1)))
        lost = c.If(is_stored(value, self.layout.fill, self.entry), c.Return(c.Name(NO_PLACE)))
        body = [
            c.Declare(INT, "kept", c.Int(0)),
            loop("q", c.Int(0), c.Field(c.Name("entries"), "count"),
                 [*lines, *more, c.If(fits, c.Block(there), lost)]),
            c.Assign(c.Field(c.Name("entries"), "count"), "=", c.Name("kept")),
            c.Return(c.Name(OK)),
        ]  # fmt: skip
        doc = f"Leaves out entries that {self.layout.name} has no place for, if they are the fill value."
        params = [c.Param(f"{KIND} *", "entries"), *params]
        return c.Function("int", f"{self.name}_kept", tuple(params), c.Block(tuple(body)), doc, static=True)

    def keys(self) -> c.Function:
        taken = {*KEYWORDS, *RESERVED}
        digits = digits_of(self.key, taken)
        lines, names, params = self.at_entry(taken)
        more, word = key_of(digits, names, taken)
        body = [*lines, *more, c.Assign(c.Load(c.Name("key"), c.Name("q")), "=", word)]
        pragma = openmp.parallel_for("parts")
        whole = loop("q", c.Int(0), c.Field(c.Name("entries"), "count"), body, pragma)
        order = ", ".join(f"{f.name}{' (downwards)' if f.down else ''}" for f in self.key.fields)
        doc = f"The keys of entries for {self.layout.name}, by which they are in order: {order or 'all alike'}."
        given = [c.Param(f"const {KIND} *", "entries"), *params, *digits.params]
        given += [c.Param("uint64_t *restrict", "key"), c.Param("int", "parts")]
        statements = (c.Do(c.Cast("void", c.Name("parts"))), whole)
        return c.Function("void", f"{self.name}_keys", tuple(given), c.Block(statements), doc, static=True)


def _names(*names: str) -> tuple[c.Expr, ...]:
    return tuple(c.Name(n) for n in names)


RESERVED = frozenset(
    {"entries", "made", "threads", "memory", "own", "q", "k", "key", "parts", "kept", "status", "values"}
    | {"ends", "stop", "stride", "buckets", "factor"}
    | {"counts", "groups", "lanes", "total", "widest", "g", "to", "first", "last", "twice", "begin", "val"}
)


class _Whole:
    """The function that makes the arrays of one result: declarations and statements in turn."""

    def __init__(self, maker: _Maker, digits: int | None = None) -> None:
        """A key has so many digits, or all of them."""
        self.maker, self.key, self.layout = maker, maker.key, maker.layout
        self.of_key = self.key if digits is None else replace(self.key, fields=self.key.fields[:digits])
        self.taken = {*KEYWORDS, *RESERVED}
        self.lines: list[c.Stmt] = []
        self.opened = self.lent = False
        self.sizes: dict[str, c.Expr] = {}
        self.exact: dict[str, c.Expr] = {}
        """What sizes are that are no larger than needed."""
        for n in self.layout.parameters:
            self.sizes[n] = self.declared(n, c.Field(c.Name("made"), field_name(n)))

    def declared(self, wanted: str, value: c.Expr, kind: str = INT) -> c.Name:
        name = new_name(wanted, self.taken)
        self.lines.append(c.Declare(f"const {kind}", name, value))
        return c.Name(name)

    def names(self) -> ExprLowering:
        return ExprLowering(self.sizes, {}, {}, self.maker.encoded.quotients)

    def known(self) -> set[str]:
        """The sizes that are known, and the quotients of them."""
        names = set(self.sizes)
        return names | {n for n, (value, _) in self.maker.encoded.quotients.items() if value.names() <= names}

    def fails(self, condition: c.Expr, status: str) -> None:
        close = self.closed() if self.opened else []
        self.lines.append(c.If(condition, c.Block((*close, c.Return(c.Name(status))))))

    def closed(self) -> list[c.Stmt]:
        """Memory is given back, but for keys that are only lent."""
        kept = [c.Assign(c.Field(c.Name("own"), "key"), "=", c.Name("NULL"))] if self.lent else []
        return [*kept, c.Do(c.Call("spfgen_assembly_close", (c.Name("own"),)))]

    def appended(self) -> None:
        """Without keys, where the layout is a tree and entries come in order, or rows are counted."""
        maker, tree = self.maker, self.maker.tree
        if tree is None:
            return
        kinds = {n: TYPES[k].c for n, k in maker.tensor.final_types} | {self.layout.values[0].name: maker.value.c}
        arrays = (*tree.arrays, self.layout.values[0].name)
        wide = [int(maker.kinds[n] == "int64") for n in tree.arrays]
        lists = {"order": tree.order, "end": tree.ends, "begins": [int(bool(b)) for b in tree.begins], "wide": wide}
        types = {"order": "int", "end": "int", "begins": "bool", "wide": "bool"}
        local = {n: c.Name(new_name(n, self.taken)) for n in (*lists, "tree", "totals", "arrays", "appended")}
        inner: list[c.Stmt] = []
        for name, values in lists.items():
            inner.append(c.Declare(types[name], local[name].name, None, len(values)))
            inner += [c.Assign(c.Load(local[name], c.Int(k)), "=", c.Int(v)) for k, v in enumerate(values)]
        inner.append(c.Declare("spfgen_tree", local["tree"].name, None, 1))
        fields: dict[str, c.Expr] = {n: local[n] for n in lists}
        fields |= {"rank": c.Int(len(tree.order)), "levels": c.Int(len(tree.ends))}
        fields["rows"] = self.sizes[self.layout.parameters[tree.order[0]]]
        inner += [c.Assign(c.Field(local["tree"], n), "=", v) for n, v in fields.items()]
        inner.append(c.Declare(INT, local["totals"].name, None, len(tree.ends)))
        inner.append(c.Declare("void *", local["arrays"].name, None, len(arrays)))
        inner += [c.Assign(c.Load(local["arrays"], c.Int(k)), "=", c.Name("NULL")) for k in range(len(arrays))]
        size_of = c.Call("sizeof", (c.Name(maker.entry.c),))
        work = c.Bin("*", c.Float(8.0), c.Cast("double", c.Field(c.Name("entries"), "count")))
        threads = c.Call("spfgen_threads", (c.Name("threads"), work))
        given = (c.Name("entries"), local["tree"], size_of, threads, c.Name("memory"), local["totals"], local["arrays"])
        inner.append(c.Declare("const int", local["appended"].name, c.Call("spfgen_tree_made", given)))
        filled: list[c.Stmt] = [
            c.Assign(
                c.Field(c.Name("made"), field_name(n)), "=", c.Cast(f"{kinds[n]} *", c.Load(local["arrays"], c.Int(k)))
            )
            for k, n in enumerate(arrays)
        ]
        filled += [
            c.Assign(c.Field(c.Name("made"), field_name(n)), "=", c.Load(local["totals"], c.Int(k)))
            for k, n in enumerate(tree.sizes)
        ]
        inner.append(c.If(c.Bin(">=", local["appended"], c.Int(0)), c.Block((*filled, c.Return(local["appended"])))))
        self.lines.append(c.Braces(c.Block(tuple(inner))))

    # --- entries that go to their place at once

    def room(self, name: str, counter: str, in_slots: bool, scatters: bool) -> c.Function:
        """Counts become offsets; then sizes, arrays, and where groups begin."""
        maker, total, widest = self.maker, c.Name("total"), c.Name("widest")
        groups, counts = c.Name("groups"), c.Name("counts")
        entries, memory = c.Name("entries"), f"const {MEMORY} *"
        begun: list[c.Stmt] = [
            c.Declare(f"{maker.struct} *", "made", c.Cast(f"{maker.struct} *", c.Field(entries, "made"))),
            c.Declare(memory, "memory", c.Cast(memory, c.Field(entries, "memory"))),
        ]
        self.check_digits()
        limit, size = c.Field(entries, "most"), c.Call("sizeof", (c.Name(TYPES[counter].c),))
        taken = c.Call("spfgen_times", (c.Name("lanes"), c.Call("spfgen_times", (groups, c.Cast(INT, size)))))
        self.fails(c.Bin("&&", c.Bin(">", limit, c.Int(0)), c.Bin(">", taken, limit)), NO_MEMORY)
        given = (c.Name("stride"), c.Name("lanes"), c.Int(int(in_slots)), counts, c.Un("&", widest))
        self.lines.append(c.Declare(INT, "widest", c.Int(0)))
        self.lines.append(c.Declare(f"const {INT}", "total", c.Call(f"spfgen_totals_{counter}", given)))
        self.check_totals([total])
        self.solve([total], [widest if in_slots else total])
        arrays = self.arrays([total])
        if self.key.levels[0].rank.begin:
            begin = self.begin_array()
            kind = TYPES[maker.kinds[begin]]
            offset = converted(c.Load(counts, c.Name("k")), TYPES[counter], kind)
            filled = loop("k", c.Int(0), groups, [c.Assign(c.Load(arrays[begin], c.Name("k")), "=", offset)])
            self.lines += self.with_groups(filled, total) if scatters else [filled]
        self.lines += [c.Assign(c.Field(entries, "widest"), "=", widest), c.Return(c.Name(OK))]
        params = (
            c.Param(f"{KIND} *", "entries"),
            c.Param(
                f"{TYPES[counter].c} *restrict", "counts", "entries of each group, for each lane; then where they begin"
            ),
            c.Param(INT, "groups"),
            c.Param(INT, "stride", "counters of a lane: groups, or buckets of them"),
            c.Param("int", "lanes"),
        )
        doc = f"Room for the entries of {maker.tensor.name}, by their numbers."
        return c.Function("int", name, params, c.Block((*begun, *self.lines)), doc, static=True)

    def with_groups(self, filled: c.Stmt, total: c.Expr) -> list[c.Stmt]:
        """Where buckets are counted, the group of each entry is kept, and where groups begin is not known yet."""
        kept = c.Field(c.Name("entries"), "group_of")
        new = c.Call("spfgen_result", (c.Name("NULL"), total, c.Call("sizeof", (c.Name("int32_t"),))))
        memory = c.Assign(kept, "=", c.Cast("int32_t *", new))
        missing = c.If(c.Un("!", kept), c.Return(c.Name(NO_MEMORY)))
        return [c.If(c.Bin("==", c.Name("stride"), c.Name("groups")), c.Block((filled,)), c.Block((memory, missing)))]

    def gathered(self, name: str, counter: str, ordered: bool) -> c.Function:
        """Each bucket of groups becomes its groups."""
        maker, entries = self.maker, c.Name("entries")
        self.lines = [c.Declare(f"{maker.struct} *", "made", c.Cast(f"{maker.struct} *", c.Field(entries, "made")))]
        arrays, types = self.group_arrays()
        kind, ends = TYPES[types[0]], c.Name("ends")
        end = converted(c.Load(c.Name("stop"), c.Name("k")), TYPES[counter], kind)
        total = c.Field(c.Name("made"), field_name(self.layout.sizes[0]))
        team = c.Call("spfgen_threads", (c.Name("threads"), c.Bin("*", c.Float(8.0), c.Cast("double", total))))
        group_of, widest = c.Field(entries, "group_of"), c.Field(entries, "widest")
        given = (*map(c.Name, ("groups", "buckets", "factor")), ends, group_of, arrays[1], arrays[2], arrays[0], widest)
        call = c.Call(f"spfgen_bucketed_{'_'.join(types)}", (*given, c.Int(int(not ordered)), team))
        self.lines += [
            c.Declare(kind.c, "ends", None, tuning.CONVERT_BUCKETS),
            loop("k", c.Int(0), c.Name("buckets"), [c.Assign(c.Load(ends, c.Name("k")), "=", end)]),
            c.Declare("const int", "twice", call),
            c.Do(c.Call("free", (group_of,))),
            c.Assign(group_of, "=", c.Name("NULL")),
            c.If(c.Bin("<", c.Name("twice"), c.Int(0)), c.Return(c.Name(NO_MEMORY))),
            c.If(c.Bin("==", c.Name("twice"), c.Int(0)), c.Block((c.Assign(widest, "=", c.Int(-1)),))),
            c.Return(c.Name(OK)),
        ]
        params = (
            c.Param(f"{KIND} *", "entries"),
            c.Param(f"const {TYPES[counter].c} *restrict", "stop", "where each bucket ends"),
            c.Param(INT, "groups"),
            c.Param(INT, "buckets"),
            c.Param("uint64_t", "factor", "2^32 * buckets / groups"),
            c.Param("int", "threads"),
        )
        doc = f"The entries of {maker.tensor.name}, which are in buckets of groups, in their groups."
        return c.Function("int", name, params, c.Block(tuple(self.lines)), doc, static=True)

    def group_arrays(self) -> tuple[list[c.Name], tuple[str, str, str]]:
        """Where groups begin, the key and the value of each entry; and their types."""
        maker, (value,) = self.maker, self.layout.values
        begin, key = self.begin_array(), maker.encoded.calls[self.key.levels[0].rank.keys[0]].function
        types = (maker.kinds[begin], maker.kinds[key], maker.value.name)
        roles = zip(("begin", "key", "val"), types, (begin, key, value.name), strict=True)
        return [self.pointer(w, TYPES[t].c, self.held(n)) for w, t, n in roles], types

    def begin_array(self) -> str:
        return self.maker.encoded.calls[self.key.levels[0].rank.begin].function

    def put_in_order(self) -> c.Function:
        """Groups that are not in order are sorted."""
        maker, params = self.maker, self.params
        doc = f"The entries of {maker.tensor.name}, each group in order, each once."
        arrays, types = self.group_arrays()
        groups = self.declared("groups", self.elements(self.layout.index(self.begin_array())))
        in_order = c.Bin("<", c.Field(c.Name("entries"), "widest"), c.Int(0))
        self.lines.append(c.If(in_order, c.Return(c.Name(OK))))
        total = c.Field(c.Name("made"), field_name(self.layout.sizes[0]))
        work = c.Bin("*", c.Float(8.0), c.Cast("double", total))
        parts = self.declared("parts", c.Call("spfgen_threads", (c.Name("threads"), work)), "int")
        others = c.Bin("-", groups, c.Int(1))
        given = (others, c.Bin("+", arrays[0], c.Int(1)), *arrays[1:], c.Field(c.Name("entries"), "widest"), parts)
        twice = self.declared("twice", c.Call(f"spfgen_ordered_{'_'.join(types)}", given), "int")
        self.fails(c.Bin("<", twice, c.Int(0)), NO_MEMORY)
        self.lines += [c.If(c.Bin(">", twice, c.Int(0)), c.Block(tuple(self.combined(arrays, others, total)))),
                       c.Do(c.Cast("void", c.Name("memory"))), c.Return(c.Name(OK))]  # fmt: skip
        return c.Function("int", maker.name, params, c.Block(tuple(self.lines)), doc, static=True)

    def held(self, array: str) -> c.Expr:
        """An array of the result, to be written."""
        return c.Cast("uintptr_t", c.Field(c.Name("made"), field_name(array)))

    def combined(self, arrays: Sequence[c.Expr], groups: c.Expr, total: c.Expr) -> list[c.Stmt]:
        """Entries of a group that stand side by side at one place are added up; all that follow move up."""
        begin, key, val = arrays
        g, q, to, first, last = map(c.Name, ("g", "q", "to", "first", "last"))
        before, above = c.Bin("-", to, c.Int(1)), c.Bin("+", g, c.Int(1))
        again = c.Bin("&&", c.Bin(">", q, first), c.Bin("==", c.Load(key, before), c.Load(key, q)))
        moved = [c.Assign(c.Load(a, to), "=", c.Load(a, q)) for a in (key, val)]
        kept = c.Block((*moved, c.Assign(to, "+=", c.Int(1))))
        each = c.If(again, c.Block((added_up(c.Load(val, before), c.Load(val, q), self.maker.value),)), kept)
        kind = TYPES[self.maker.kinds[self.begin_array()]]
        end = c.Assign(c.Load(begin, above), "=", converted(to, TYPES["int64"], kind))
        limit = c.Declare(f"const {INT}", "last", c.Load(begin, above))
        body = [limit, loop("q", first, last, [each]), c.Assign(first, "=", last), end]
        return [
            c.Declare(INT, "to", c.Int(0)),
            c.Declare(INT, "first", c.Int(0)),
            loop("g", c.Int(0), groups, body),
            c.Assign(total, "=", to),
        ]

    # --- keys

    @property
    def params(self) -> tuple[c.Param, ...]:
        return (
            c.Param(f"{KIND} *", "entries"),
            c.Param(f"{self.maker.struct} *", "made"),
            c.Param("int", "threads"),
            c.Param(f"const {MEMORY} *", "memory"),
        )

    def function(self, first: c.Stmt | None = None, *, keyed: bool = False) -> c.Function:
        """`keyed`: entries have keys; else only where these are there."""
        maker, entries = self.maker, c.Name("entries")
        self.lines += [] if first is None else [first]
        if not keyed:
            self.without_keys(self.appended, self.kept)
        given = self.fields()
        count = self.declared("count", c.Field(entries, "count"))
        parts, levels = self.opened_for(count, c.Field(entries, "keys") if maker.may_have_keys else c.Name("NULL"))
        key = c.Field(c.Name("own"), "key")
        if not keyed:
            extents = [self.sizes[n] for n in self.layout.parameters]
            digits = [given[a] for a in self.digits.arguments]
            call = c.Do(c.Call(f"{maker.name}_keys", (entries, *extents, *digits, key, parts)))
            self.lines.append(c.If(self.has_none, c.Block((call,))) if maker.may_have_keys else call)
        if maker.may_have_keys:
            self.lines.append(c.Assign(c.Field(entries, "keys"), "=", c.Name("NULL")))
        align = c.Int(0) if (field := self.alignment()) is None else self.shifts[field]
        ordered = c.Call("spfgen_assembly_order", (c.Name("own"), self.bits, align))
        sorts = self.declared("unsorted", ordered, "int")
        self.fails(c.Bin("==", sorts, c.Int(1)), NO_MEMORY)
        self.fails(c.Bin("!=", sorts, c.Int(0)), NO_INDEX)
        arrays = self.filled(levels, given, {"count": count, "key": key, "parts": parts}, maker.filling, "fill")
        self.lines += self.ended(arrays)
        doc = f"The arrays of {maker.tensor.name} from its entries."
        return c.Function("int", maker.name, self.params, c.Block(tuple(self.lines)), doc, static=True)

    def opened_for(self, count: c.Expr, key: c.Expr) -> tuple[c.Expr, c.Expr]:
        """The parts in which so many keys are looked at, and the number of ranks."""
        work = c.Bin("*", c.Float(8.0), c.Cast("double", count))
        parts = self.declared("parts", c.Call("spfgen_threads", (c.Name("threads"), work)), "int")
        levels = c.Int(len(self.key.levels))
        self.lines.append(c.Declare("spfgen_assembly", "own", None, 1))
        self.fails(c.Un("!", c.Call("spfgen_assembly_open", (c.Name("own"), count, parts, levels, key))), NO_MEMORY)
        self.opened = True
        return parts, levels

    def filled(
        self,
        levels: c.Expr,
        given: dict[str, c.Expr],
        known: Mapping[str, c.Expr],
        filling: GeneratedFunction,
        name: str,
    ) -> dict[str, c.Expr]:
        """New arrays with all that follows from keys in order."""
        maker = self.maker
        totals, widths = self.counted(levels)
        self.solve(totals, widths)
        arrays = self.arrays(totals)
        given |= {"from": c.Field(c.Name("own"), "from"), **known}
        given |= {n: c.Field(c.Name("own"), n) for n in ("start", "done")}
        given["value"] = c.Cast(f"const {maker.entry.c} *", c.Field(c.Name("entries"), "values"))
        given |= {f"total:{k}": t for k, t in enumerate(totals)}
        given |= {f"size:{n}": v for n, v in self.sizes.items()} | {f"array:{n}": a for n, a in arrays.items()}
        self.lines.append(c.Do(c.Call(f"{maker.name}_{name}", tuple(given[a] for a in filling.arguments))))
        return arrays

    @property
    def has_none(self) -> c.Expr:
        return c.Un("!", c.Field(c.Name("entries"), "keys"))

    def without_keys(self, *parts: Callable[[], None]) -> None:
        """What is done of entries without keys."""
        before, self.lines = self.lines, []
        for part in parts:
            part()
        added, self.lines = self.lines, before
        if added and self.maker.may_have_keys:
            added = [c.If(self.has_none, c.Block(tuple(added)))]
        self.lines += added

    def kept(self) -> None:
        """Without the fill values that have no place."""
        if self.key.checks:
            extents = [self.sizes[n] for n in self.layout.parameters]
            status = self.declared("status", c.Call(f"{self.maker.name}_kept", (c.Name("entries"), *extents)), "int")
            self.fails(c.Bin("!=", status, c.Name(OK)), NO_PLACE)

    def room_of_marks(self, name: str, filling: GeneratedFunction, group: int) -> c.Function:
        """The words of all positions in order; then sizes, arrays, and what ranks store."""
        maker, entries, memory = self.maker, c.Name("entries"), f"const {MEMORY} *"
        begun: list[c.Stmt] = [
            c.Declare(f"{maker.struct} *", "made", c.Cast(f"{maker.struct} *", c.Field(entries, "made"))),
            c.Declare(memory, "memory", c.Cast(memory, c.Field(entries, "memory"))),
        ]
        given = self.fields()
        width = self.shifts[group - 1] if group else self.bits
        passed = (c.Name("marks"), c.Name("lanes"), width, self.bits, entries, c.Name("threads"))
        status = self.declared("status", c.Call("spfgen_marks_gathered", passed), "int")
        self.lines.append(c.If(c.Bin("!=", status, c.Name(OK)), c.Return(status)))
        count = self.declared("count", c.Field(entries, "count"))
        key = c.Field(entries, "keys")
        self.lent = True
        parts, levels = self.opened_for(count, key)
        align = c.Int(0) if (field := self.alignment()) is None else self.shifts[field]
        cut = (count, key, align, parts, c.Field(c.Name("own"), "start"))
        self.lines.append(c.Do(c.Call("spfgen_keys_parts", cut)))
        self.filled(levels, given, {"count": count, "key": key, "parts": parts}, filling, "ranks")
        self.lines += [*self.closed(), c.Return(c.Name(OK))]
        params = (
            c.Param(f"{KIND} *", "entries"),
            c.Param("spfgen_marks *", "marks", "the words that each lane has found"),
            c.Param("int", "lanes"),
            c.Param("int", "threads"),
        )
        doc = f"Room for the entries of {maker.tensor.name}, by the words of their positions."
        return c.Function("int", name, params, c.Block((*begun, *self.lines)), doc, static=True)

    # --- digits

    def check_digits(self) -> list[tuple[c.Expr, c.Expr]]:
        """The bounds of each digit, which fit the types of the arrays that hold it."""
        names = self.names()
        ends: list[tuple[c.Expr, c.Expr]] = []
        for field in self.key.fields:
            low = folded("spfgen_max", [c.Un("-", names.floor(e, a)) for a, e in field.lower])
            high = folded("spfgen_min", [names.floor(e, a) for a, e in field.upper])
            own_low = c.Int(0) if field.lower == ((1, Affine(())),) else self.declared(f"{field.name}_low", low)
            ends.append((own_low, self.declared(f"{field.name}_high", high)))
        wide: list[c.Expr] = []
        for field, (_, high) in zip(self.key.fields, ends, strict=True):
            kind = (
                self.maker.kinds[self.maker.encoded.calls[field.name].function] if self.is_call(field.name) else "int64"
            )
            if kind != "int64":
                wide.append(c.Bin(">", high, c.Name(LARGEST[kind])))
        if wide:
            self.fails(any_of(wide), NO_INDEX)
        return ends

    def fields(self) -> dict[str, c.Expr]:
        """The bounds of each digit, and where it is in a key."""
        self.digits = digits_of(self.of_key, set())
        given, ends = dict[str, c.Expr](), self.check_digits()
        below: c.Expr = c.Int(0)
        shifts: list[c.Expr] = []
        for number in reversed(range(len(self.of_key.fields))):
            field, (low, high) = self.of_key.fields[number], ends[number]
            shifts.insert(0, self.declared(f"{field.name}_shift", below, "int"))
            width = c.Call("spfgen_bits_of", (high if low == c.Int(0) else c.Bin("-", high, low),))
            below = c.Bin("+", shifts[0], width)
            given[f"shift:{number}"] = shifts[0]
            given[f"base:{number}"] = high if field.down else low
        self.shifts = shifts
        self.bits: c.Expr = self.declared("bits", below, "int")
        too_wide = c.Bin(">", self.bits, c.Int(64))
        if self.maker.by_steps and self.of_key is self.key:
            passed = tuple(c.Name(n) for n in ("entries", "made", "threads", "memory"))
            by_steps = c.Block((c.Return(c.Call(self.maker.by_steps, passed)),))
            self.lines += [c.Comment("a key does not fit in 64 bits"), c.If(too_wide, by_steps)]
        else:
            self.fails(too_wide, NO_MEMORY)  # an array of an extent has no room either
        return given

    def is_call(self, name: str) -> bool:
        return name in self.maker.encoded.calls

    def alignment(self) -> int | None:
        """The field from which on keys are together in one part."""
        fields = [level.group - 1 for level in self.key.levels if level.rank.kind == "slots" and level.group]
        return min(fields, default=None)

    # --- sizes

    def counted(self, levels: c.Expr) -> tuple[list[c.Expr], list[c.Expr]]:
        """Of each rank how many positions there are, and the most in a group."""
        totals: list[c.Expr] = []
        widths: list[c.Expr] = []
        assembly = c.Name("own")
        for number, level in enumerate(self.key.levels):
            cut = self.shifts[level.end - 1] if level.end else self.bits
            ranked = c.Call("spfgen_assembly_rank", (assembly, cut, c.Int(number), levels))
            totals.append(self.declared(f"{level.rank.position}_total", ranked))
            if level.rank.kind != "slots" or not level.group:
                widths.append(totals[-1])
                continue
            sides = (c.Field(assembly, "parts"), c.Field(assembly, "start"))
            widest = c.Call("spfgen_keys_widest", (c.Field(assembly, "key"), cut, self.shifts[level.group - 1], *sides))
            widths.append(self.declared(f"{level.rank.position}_most", widest))
        self.check_totals(totals)
        return totals, widths

    def check_totals(self, totals: Sequence[c.Expr]) -> None:
        """Positions fit the types of index arrays."""
        kinds = {k for k in self.maker.kinds.values() if k != "int64"}
        if kinds and totals:
            least = min(kinds, key=lambda k: TYPES[k].bytes)
            self.fails(any_of([c.Bin(">", t, c.Name(LARGEST[least])) for t in totals]), NO_INDEX)

    def solve(self, totals: Sequence[c.Expr], widths: Sequence[c.Expr]) -> None:
        """As `layout.keys.solved_sizes`, in C."""
        counts: dict[str, c.Expr] = {}
        for level, total, width in zip(self.key.levels, totals, widths, strict=True):
            rank = level.rank
            length: c.Expr = width if rank.kind == "slots" else total
            length = c.Bin("+", length, c.Int(rank.low)) if rank.low else length
            if rank.kind == "slots":
                self.capacity(level, length)
            else:
                call = self.maker.encoded.calls[rank.begin]
                self.grown(self.layout.index(call.function), call.arguments, counts, rank.kind == "pointer")
            counts[rank.position] = length
            for name in rank.keys:
                call = self.maker.encoded.calls[name]
                index = self.layout.index(call.function)
                self.grown(index, call.arguments, counts)
                if call.function not in self.key.plan.sentinels and rank.kind == "slots":
                    self.fails(c.Bin("!=", self.elements(index), total), NO_PLACE)
                for argument, extent in zip(call.arguments, index.extents, strict=True):
                    if argument == Var(rank.position) and self.exact_of(extent) != length:
                        self.fails(c.Bin("<", self.names().expr(extent), length), NO_PLACE)
        for value in self.layout.values:
            self.grown(value, value.position, counts)
        for size in self.layout.sizes:
            self.lines.append(c.Assign(c.Field(c.Name("made"), field_name(size)), "=", self.sizes[size]))

    def capacity(self, level: KeyLevel, needed: c.Expr) -> None:
        """The rank has room for so many positions; sizes in its bounds that are not known yet become large enough."""
        rank, names, known = level.rank, self.names(), self.known()
        rooms = [names.floor(e, a) for a, e in rank.highs if e.names() <= known]
        for name in rank.keys:
            call = self.maker.encoded.calls[name]
            for argument, extent in zip(call.arguments, self.layout.index(call.function).extents, strict=True):
                further = shift(argument, rank.position)
                if further is not None and variables(extent) <= set(self.sizes):
                    rooms.append(c.Bin("-", names.expr(extent), c.Int(1 + further)))
        if rooms:
            self.fails(c.Bin("<=", folded("spfgen_min", rooms), c.Bin("-", needed, c.Int(1))), NO_PLACE)
            return
        for a, high in rank.highs:
            last = c.Bin("-", needed, c.Int(1))
            self.solved(high, last if a == 1 else c.Bin("*", c.Int(a), last))

    def grown(
        self,
        array: IndexArray | ValueArray,
        places: Sequence[Expr],
        counts: Mapping[str, c.Expr],
        pointer: bool = False,
    ) -> None:
        """Sizes in the extents of an array that are not known yet become as large as needed."""
        for k, (place, extent) in enumerate(zip(places, array.extents, strict=True)):
            if variables(extent) <= set(self.sizes):
                continue
            needed: c.Expr = counts.get(place.name, c.Int(0)) if isinstance(place, Var) else c.Int(0)
            needed = c.Bin("+", needed, c.Int(1)) if pointer and k == len(array.extents) - 1 else needed
            self.solved(linear(extent), needed)

    def solved(self, extent: Affine, value: c.Expr) -> None:
        """The only unknown size of the extent such that the extent is at least `value`."""
        unknown = extent.names() - self.known()
        if len(unknown) != 1:
            return
        name = unknown.pop()
        factor, others = extent.coefficient(name), extent.without(name)
        if factor <= 0 or name in others.names():
            return
        missing = value if others == Affine(()) else c.Bin("-", value, self.names().affine(others))
        if factor != 1:
            missing = c.Un("-", c.Call("spfgen_floor_div", (c.Un("-", missing), c.Int(factor))))
        least = missing if others == Affine(()) and factor == 1 else c.Call("spfgen_max", (c.Int(0), missing))
        self.sizes[name] = self.declared(name, least)
        if least == value:
            self.exact[name] = value

    def exact_of(self, extent: Expr) -> c.Expr:
        """An extent, by what it is as large as needed for."""
        value = self.names().expr(extent)
        return self.exact.get(extent.name, value) if isinstance(extent, Var) else value

    def elements(self, array: IndexArray | ValueArray) -> c.Expr:
        parts = [self.names().expr(e) for e in array.extents]
        if not parts:
            return c.Int(1)
        return parts[0] if len(parts) == 1 else folded("spfgen_elements", parts)

    # --- arrays

    def arrays(self, totals: Sequence[c.Expr]) -> dict[str, c.Expr]:
        """New arrays, with what they hold where no entry is."""
        arrays: dict[str, c.Expr] = {}
        maker = self.maker
        declared: list[IndexArray | ValueArray] = [*self.layout.indexes, *self.layout.values]
        sizes = {a.name: self.declared(f"{a.name}_count", self.elements(a)) for a in declared}
        missing: list[c.Expr] = []
        for index in self.layout.indexes:
            kind = TYPES[maker.kinds[index.name]]
            arrays[index.name] = self.allocated(index.name, kind.c, sizes[index.name])
            missing.append(c.Un("!", arrays[index.name]))
        (value,) = self.layout.values
        cleared = self.key.pads and maker.entry == maker.value and literal(self.layout.fill, maker.entry) in ZEROS
        arrays[value.name] = self.allocated(value.name, maker.value.c, sizes[value.name], cleared)
        missing.append(c.Un("!", arrays[value.name]))
        if maker.entry != maker.value:  # summed in another type
            size = c.Call("sizeof", (c.Name(maker.entry.c),))
            room = c.Call("spfgen_workspace", (sizes[value.name], c.Int(1), size))
            arrays["entries"] = self.pointer("sums", maker.entry.c, room)
            missing.append(c.Un("!", arrays["entries"]))
            self.fails_freed(any_of(missing), arrays["entries"])
        else:
            self.fails(any_of(missing), NO_MEMORY)
        calls, ranks = self.maker.encoded.calls, [level.rank for level in self.key.levels]
        bounds = {calls[n].function for r in ranks for n in (r.begin, r.other) if n}
        for index in self.layout.indexes:
            kind = TYPES[maker.kinds[index.name]]
            filler = self.rest(index.name)
            if index.name in bounds or self.is_full(index, totals):
                continue
            full = [c.Bin("!=", sizes[index.name], t) for t in totals]
            self.initialised(arrays[index.name], sizes[index.name], converted(filler, TYPES["int64"], kind), full)
        stored = arrays.get("entries", arrays[value.name])
        full = [] if self.key.pads else [c.Bin("!=", sizes[value.name], t) for t in totals]
        if not cleared and (self.key.pads or not self.is_full(value, totals)):
            self.initialised(stored, sizes[value.name], literal(self.layout.fill, maker.entry), full)
        self.counts = sizes
        if maker.entry != maker.value:
            self.final, arrays[value.name] = arrays[value.name], stored
        return {n: a for n, a in arrays.items() if n != "entries"}

    def is_full(self, array: IndexArray | ValueArray, totals: Sequence[c.Expr]) -> bool:
        """Whether an array has as many elements as there are positions of a rank, whatever the entries are."""
        return len(array.extents) == 1 and self.exact_of(array.extents[0]) in totals

    def rest(self, array: str) -> c.Expr:
        """What an index array holds where no entry is."""
        known = self.known()
        lows = [c.Un("-", self.names().floor(e, a)) for a, e in self.key.lows_of(array) if e.names() <= known]
        return folded("spfgen_max", lows) if lows else c.Int(0)

    def pointer(self, wanted: str, kind: str, value: c.Expr) -> c.Name:
        name = new_name(wanted, self.taken)
        self.lines.append(c.Declare(f"{kind} *", name, c.Cast(f"{kind} *", value)))
        return c.Name(name)

    def allocated(self, array: str, kind: str, count: c.Expr, cleared: bool = False) -> c.Name:
        size, function = c.Call("sizeof", (c.Name(kind),)), "spfgen_result_zero" if cleared else "spfgen_result"
        pointer = self.pointer(array, kind, c.Call(function, (c.Name("memory"), count, size)))
        self.lines.append(c.Assign(c.Field(c.Name("made"), field_name(array)), "=", pointer))
        return pointer

    def fails_freed(self, condition: c.Expr, memory: c.Expr) -> None:
        close = (c.Do(c.Call("free", (memory,))), *self.closed())
        self.lines.append(c.If(condition, c.Block((*close, c.Return(c.Name(NO_MEMORY))))))

    def initialised(self, array: c.Expr, count: c.Expr, value: c.Expr, unless: Sequence[c.Expr]) -> None:
        written = loop("k", c.Int(0), count, [c.Assign(c.Load(array, c.Name("k")), "=", value)])
        self.lines.append(c.If(joined("&&", unless), c.Block((written,))) if unless else written)

    def ended(self, arrays: Mapping[str, c.Expr]) -> list[c.Stmt]:
        maker = self.maker
        lines: list[c.Stmt] = []
        if maker.entry != maker.value:
            (value,) = self.layout.values
            sums = arrays[value.name]
            total = converted(c.Load(sums, c.Name("k")), maker.entry, maker.value)
            lines.append(
                loop("k", c.Int(0), self.counts[value.name], [c.Assign(c.Load(self.final, c.Name("k")), "=", total)])
            )
            lines.append(c.Do(c.Call("free", (sums,))))
        return [*lines, *self.closed(), c.Return(c.Name(OK))]

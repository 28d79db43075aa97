"""Packing in C. Two functions for a layout, with sorting (rt/keys.h) in between:

keys   passes over the entries (arrays of coordinates, or all that another layout stores) and writes the key of each;
fill   passes over the sorted keys and writes the arrays: a rank steps on where its digits change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import copysign

from spfgen.cir.nest import ArraysInC, nests, pruned
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.affine import ArrayName, ExprLowering
from spfgen.cir.tree.build import INT, joined
from spfgen.cir.tree.names import identifier
from spfgen.ir import fresh, walk
from spfgen.lang.types import KEYWORDS, TYPES, ElementType
from spfgen.layout.keys import KeyLevel, KeyPlan
from spfgen.layout.nodes import Layout
from spfgen.layout.points import encode
from spfgen.sets.affine import Affine
from spfgen.sets.named import Constraint

WORD = "uint64_t"
RESERVED = frozenset({"part", "parts", "count", "key", "from", "value", "start", "done", "q", "changed", "wrong", "at",
                      "before", "own"})  # fmt: skip


@dataclass(frozen=True)
class ArrayTypes:
    """Element types: of the values, of each index array, of each array of coordinates."""

    value: str
    indexes: tuple[tuple[str, str], ...] = ()
    coordinates: tuple[str, ...] = ()


@dataclass(frozen=True)
class GeneratedFunction:
    """A function and the names of its parameters in order: `size:`, `array:`, or a word of this module."""

    function: c.Function
    arguments: tuple[str, ...]


def new_name(wanted: str, taken: set[str]) -> str:
    name = fresh(identifier(wanted), taken)
    taken.add(name)
    return name


# --- what a layout brings along -----------------------------------------------------------------------------


def parameters(
    layout: Layout, types: ArrayTypes, taken: set[str], const: bool, known: Mapping[str, str] | None = None
) -> tuple[ArraysInC, list[c.Param]]:
    """The sizes and arrays of a layout as parameters; `known` sizes have names already."""
    sizes = {**(known or {})}
    sizes |= {n: new_name(n, taken) for n in (*layout.parameters, *layout.sizes) if n not in sizes}
    params = [c.Param(INT, v, f"size `{n}`") for n, v in sizes.items() if n not in (known or {})]
    arrays: dict[str, ArrayName] = {}
    word = "const " if const else ""
    for name, kind in types.indexes:
        arrays[name] = ArrayName(new_name(name, taken), kind != "int64", layout.index(name).extents)
        params.append(c.Param(f"{word}{TYPES[kind].c} *restrict", arrays[name].name, f"array `{name}`"))
    for value in layout.values:
        arrays[value.name] = ArrayName(new_name(value.name, taken), False, value.extents)
        params.append(
            c.Param(f"{word}{TYPES[types.value].c} *restrict", arrays[value.name].name, f"array `{value.name}`")
        )
    return ArraysInC(layout, sizes, arrays, frozenset(taken)), params


def in_parts(body: Sequence[c.Stmt]) -> c.Stmt:
    """The body for each part, the parts side by side."""
    pragma = openmp.one_each("parts")
    return c.For(
        "int", "part", c.Int(0), c.Bin("<", c.Name("part"), c.Name("parts")), 1, c.Block(tuple(body)), (pragma,)
    )


def is_stored(value: c.Expr, fill: complex, kind: ElementType) -> c.Expr:
    """Whether a value is not the fill value, bit by bit; but nan is nan."""
    if kind.kind in "biu":
        return c.Bin("!=", value, c.Int(int(fill.real)))
    single = kind.name in ("float32", "complex64")
    if kind.kind == "f":
        return _is_other(value, fill.real, single)
    if fill != fill:
        return c.Bin("==", value, value)
    suffix = "f" if single else ""
    parts = (c.Call(f"creal{suffix}", (value,)), c.Call(f"cimag{suffix}", (value,)))
    return c.Bin("||", _is_other(parts[0], fill.real, single), _is_other(parts[1], fill.imag, single))


def _is_other(value: c.Expr, number: float, single: bool) -> c.Expr:
    if number != number:
        return c.Bin("==", value, value)
    other = c.Bin("!=", value, c.Float(float(number), single))
    if number != 0:
        return other
    sign = c.Call("signbit", (value,))
    return c.Bin("||", other, c.Un("!", sign) if copysign(1.0, number) < 0 else c.Bin("!=", sign, c.Int(0)))


# --- scanning a layout ---------------------------------------------------------------------------------------


def count_function(layout: Layout, types: ArrayTypes) -> GeneratedFunction:
    """How many entries each part of the scan has: count[part]."""
    taken = {*KEYWORDS, *RESERVED}
    source, params = parameters(layout, types, taken, const=True)

    def leaf(names: ExprLowering, value: c.Expr) -> list[c.Stmt]:
        return [c.Assign(c.Name("own"), "+=", c.Int(1))]

    lines = nests(source, leaf, "part", "parts")
    body = [
        c.Declare(INT, "own", c.Int(0)),
        *lines,
        c.Assign(c.Load(c.Name("count"), c.Name("part")), "=", c.Name("own")),
    ]
    more = [c.Param("int", "parts"), c.Param(f"{INT} *restrict", "count", "entries of each part")]
    arguments = (*argument_names(layout, types), "parts", "count")
    return made("void", "spfgen_count", [*params, *more], [in_parts(body)], scan_doc(layout, "counts"), arguments)


def scan_doc(layout: Layout, verb: str) -> str:
    return f"Scans {layout.name}: {verb} its entries."


def argument_names(layout: Layout, types: ArrayTypes) -> tuple[str, ...]:
    sizes = (f"size:{n}" for n in (*layout.parameters, *layout.sizes))
    return (*sizes, *(f"array:{n}" for n, _ in types.indexes), *(f"array:{v.name}" for v in layout.values))


def coordinates_function(layout: Layout, types: ArrayTypes) -> GeneratedFunction:
    """The coordinates and values of all entries, each part from start[part] on."""
    taken = {*KEYWORDS, *RESERVED}
    outputs = [new_name(f"{x}_of", taken) for x in layout.coordinates]
    source, params = parameters(layout, types, taken, const=True)

    def leaf(names: ExprLowering, value: c.Expr) -> list[c.Stmt]:
        place = c.Name("q")
        lines: list[c.Stmt] = [
            c.Assign(c.Load(c.Name(o), place), "=", names.name(x))
            for o, x in zip(outputs, layout.coordinates, strict=True)
        ]
        stored = c.Assign(c.Load(c.Name("value"), place), "=", value)
        return [*lines, stored, c.Assign(place, "+=", c.Int(1))]

    body = [c.Declare(INT, "q", c.Load(c.Name("start"), c.Name("part"))), *nests(source, leaf, "part", "parts")]
    more = [c.Param("int", "parts"), c.Param(f"const {INT} *restrict", "start", "first entry of each part")]
    more += [
        c.Param(f"{INT} *restrict", o, f"coordinate `{x}`") for o, x in zip(outputs, layout.coordinates, strict=True)
    ]
    more.append(c.Param(f"{TYPES[types.value].c} *restrict", "value"))
    doc = scan_doc(layout, "writes")
    columns = (f"column:{k}" for k in range(layout.rank))
    arguments = (*argument_names(layout, types), "parts", "start", *columns, "value")
    return made("void", "spfgen_coordinates", [*params, *more], [in_parts(body)], doc, arguments)


# --- keys ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Digits:
    """The run-time numbers of the fields: C names of each field's shift and base (None: 0, counted upwards)."""

    key: KeyPlan
    shifts: tuple[str, ...]
    bases: tuple[str | None, ...]
    masks: tuple[str, ...]

    @property
    def params(self) -> list[c.Param]:
        result = []
        for field, shift, base in zip(self.key.fields, self.shifts, self.bases, strict=True):
            result.append(c.Param("int", shift, f"the lowest bit of `{field.name}` in a key"))
            if base is not None:
                result.append(
                    c.Param(INT, base, f"the {'highest' if field.down else 'lowest'} value of `{field.name}`")
                )
        return result

    @property
    def arguments(self) -> list[str]:
        result = []
        for number, base in enumerate(self.bases):
            result.append(f"shift:{number}")
            if base is not None:
                result.append(f"base:{number}")
        return result


def digits_of(key: KeyPlan, taken: set[str]) -> Digits:
    zero = ((1, Affine(())),)
    shifts, bases, masks = [], list[str | None](), []
    for field in key.fields:
        shifts.append(new_name(f"{field.name}_shift", taken))
        plain = not field.down and field.lower == zero
        bases.append(None if plain else new_name(f"{field.name}_base", taken))
        masks.append(new_name(f"{field.name}_mask", taken))
    return Digits(key, tuple(shifts), tuple(bases), tuple(masks))


def key_of(digits: Digits, names: ExprLowering, taken: set[str]) -> tuple[list[c.Stmt], c.Expr]:
    """The key of an entry whose coordinates are known."""
    lines: list[c.Stmt] = []
    for rule in digits.key.computed:
        name = new_name(rule.position, taken)
        lines.append(c.Declare(f"const {INT}", name, names.floor(rule.numerator, rule.divisor)))
        names = names.knowing({rule.position: c.Name(name)})
    parts: list[c.Expr] = []
    for field, shift, base in zip(digits.key.fields, digits.shifts, digits.bases, strict=True):
        value = names.name(field.name)
        if base is not None:
            value = c.Bin("-", c.Name(base), value) if field.down else c.Bin("-", value, c.Name(base))
        parts.append(c.Bin("<<", c.Cast(WORD, value), c.Name(shift)))
    return lines, joined("|", parts) if parts else c.Int(0)


def target_names(key: KeyPlan, coordinates: Sequence[c.Expr], extents: Sequence[c.Expr]) -> ExprLowering:
    """The names of a target where only coordinates and extents are known."""
    encoded = key.plan.encoded
    layout = encoded.layout
    values = dict(zip(layout.coordinates, coordinates, strict=True))
    values |= dict(zip(layout.parameters, extents, strict=True))
    inside = []
    for x, n in zip(layout.coordinates, layout.parameters, strict=True):
        inside += [Constraint(False, Affine(((x, 1),))), Constraint(False, Affine(((n, 1), (x, -1)), -1))]
    about = encoded.space.of(inside)

    def is_natural(value: Affine) -> bool:
        known = {*layout.coordinates, *layout.parameters}
        return value.names() <= known and not value.floors() and about.implies(Constraint(False, value))

    return ExprLowering(values, {}, encoded.calls, encoded.quotients, is_natural)


# --- filling ---------------------------------------------------------------------------------------------------


def fill_function(key: KeyPlan, types: ArrayTypes, *, values: bool = True) -> GeneratedFunction:
    """The arrays of the layout from sorted keys, or its index arrays. Places that no entry has are left alone."""
    return _Fill(key, types).made(values)


class _Fill:
    def __init__(self, key: KeyPlan, types: ArrayTypes) -> None:
        self.key, self.types = key, types
        self.taken = {*KEYWORDS, *RESERVED}
        self.layout = key.plan.encoded.layout
        self.encoded = encode(self.layout)
        self.source, self.params = parameters(self.layout, types, self.taken, const=False)
        self.digits = digits_of(key, self.taken)
        self.totals = [new_name(f"{level.rank.position}_total", self.taken) for level in key.levels]
        self.ranks = [new_name(level.rank.position, self.taken) for level in key.levels]
        self.segments = [new_name(f"{level.rank.position}_segment", self.taken) for level in key.levels]
        self.kinds = dict(types.indexes)

    def digit(self, number: int, key: c.Expr) -> c.Expr:
        """The value of a field of a key."""
        field, base = self.key.fields[number], self.digits.bases[number]
        value: c.Expr = c.Bin(">>", key, c.Name(self.digits.shifts[number]))
        if number:
            value = c.Bin("&", value, c.Name(self.digits.masks[number]))
        value = c.Cast(INT, value)
        if base is None:
            return value
        return c.Bin("-", c.Name(base), value) if field.down else c.Bin("+", value, c.Name(base))

    def names(self, key: c.Expr | None = None) -> ExprLowering:
        """The names at an entry; with a `key` the digits are read off it, else they have names of their own."""
        values: dict[str, c.Expr] = {n: c.Name(v) for n, v in self.source.sizes.items()}
        for number, field in enumerate(self.key.fields):
            values[field.name] = c.Name(self.fields[number]) if key is None else self.digit(number, key)
        values |= {level.rank.position: c.Name(r) for level, r in zip(self.key.levels, self.ranks, strict=True)}
        return ExprLowering(values, self.source.arrays, self.encoded.calls, self.encoded.quotients)

    def segment(self, level: KeyLevel, names: ExprLowering) -> c.Expr:
        """Which group of all the entry is in."""
        call = self.encoded.calls[level.rank.begin]
        extents = self.layout.index(call.function).extents
        return names.linear_index(extents, [names.expr(a) for a in call.arguments])

    def made(self, values: bool) -> GeneratedFunction:
        self.fields = [new_name(f.name, self.taken) for f in self.key.fields]
        names = self.names()
        word = c.Load(c.Name("key"), c.Name("q"))
        for rule in (*self.key.computed, *self.key.after):  # positions that follow from the digits without being one
            if rule.position not in names.values and rule.numerator.names() <= {*names.values, *names.quotients}:
                names = names.knowing({rule.position: names.floor(rule.numerator, rule.divisor)})
        lines: list[c.Stmt] = [
            c.Declare(
                f"const {WORD}",
                "changed",
                c.Select(
                    c.Bin(">", c.Name("q"), c.Int(0)),
                    c.Bin("^", word, c.Load(c.Name("key"), c.Bin("-", c.Name("q"), c.Int(1)))),
                    c.Name("UINT64_MAX"),
                ),
            )
        ]
        lines += [c.Declare(f"const {INT}", n, self.digit(k, word)) for k, n in enumerate(self.fields)]
        for number, level in enumerate(self.key.levels):
            lines += self.level(number, level, names)
        lines += self.value(names) if values else []
        part = c.Name("part")
        first, last = c.Load(c.Name("start"), part), c.Load(c.Name("start"), c.Bin("+", part, c.Int(1)))
        loop = c.For(INT, "q", first, c.Bin("<", c.Name("q"), last), 1, c.Block(tuple(pruned(lines))))
        masks: list[c.Stmt] = []
        for number, field in enumerate(self.digits.masks[1:], 1):
            above = c.Name(self.digits.shifts[number - 1])
            width = c.Bin("-", above, c.Name(self.digits.shifts[number]))
            one = c.Cast(WORD, c.Int(1))
            masks.append(c.Declare(f"const {WORD}", field, c.Bin("-", c.Bin("<<", one, width), c.Int(1))))
        body = pruned([*masks, in_parts([*self.started(), loop]), *self.tails()])
        params = [c.Param(INT, "count", "entries"), c.Param(f"const {WORD} *restrict", "key", "sorted keys")]
        params += [c.Param("const uint32_t *restrict", "from", "where the value of each key is; NULL: in their order")]
        params += [c.Param(f"const {TYPES[self.types.value].c} *restrict", "value"), c.Param("int", "parts")]
        params += [c.Param(f"const {INT} *restrict", "start", "the first entry of each part")]
        params += [c.Param(f"const {INT} *restrict", "done", "how far each rank is where a part begins")]
        params += [c.Param(INT, t, "positions in all") for t in self.totals]
        params += [*self.digits.params, *self.params]
        doc = f"Writes the arrays of {self.layout.name} from sorted keys of its entries."
        arguments: tuple[str, ...] = ("count", "key", "from", "value", "parts", "start", "done")
        arguments += (*(f"total:{k}" for k in range(len(self.totals))), *self.digits.arguments)
        arguments += argument_names(self.layout, self.types)
        return made("void", "spfgen_fill", params, body, doc, arguments)

    def level(self, number: int, level: KeyLevel, names: ExprLowering) -> list[c.Stmt]:
        """A rank steps on where a digit of its own or one before has changed."""
        rank, position = level.rank, c.Name(self.ranks[number])
        lines: list[c.Stmt] = []
        grouped = rank.kind == "slots" and level.group > 0
        if grouped:
            fresh_group = c.Bin(">>", c.Name("changed"), c.Name(self.digits.shifts[level.group - 1]))
            lines.append(c.If(fresh_group, c.Block((c.Assign(position, "=", c.Int(rank.low - 1)),))))
        step: list[c.Stmt] = [c.Assign(position, "+=", c.Int(1))]
        if rank.begin:
            step += self.bounds(number, level, names)
        for key in rank.keys:
            call = self.encoded.calls[key]
            place = names.linear_index(
                self.layout.index(call.function).extents, [names.expr(a) for a in call.arguments]
            )
            step.append(self.stored(call.function, place, names.name(key)))
        changed = c.Bin(">>", c.Name("changed"), c.Name(self.digits.shifts[level.end - 1]))
        return [*lines, c.If(changed, c.Block(tuple(step)))]

    def stored(self, array: str, place: c.Expr, value: c.Expr) -> c.Stmt:
        element = self.source.arrays[array]
        return c.Assign(
            c.Load(c.Name(element.name), place),
            "=",
            c.Cast(TYPES[self.kinds[array]].c, value) if element.narrow else value,
        )

    def bounds(self, number: int, level: KeyLevel, names: ExprLowering) -> list[c.Stmt]:
        """Groups up to this one begin here at the latest."""
        begin = self.encoded.calls[level.rank.begin].function
        last = c.Name(self.segments[number])
        write = self.stored(begin, last, c.Name(self.ranks[number]))
        step = c.Assign(last, "+=", c.Int(1))
        return [c.While(c.Bin("<", last, self.segment(level, names)), c.Block((step, write)))]

    def started(self) -> list[c.Stmt]:
        """How far the ranks are where the part begins."""
        lines: list[c.Stmt] = []
        first = c.Load(c.Name("start"), c.Name("part"))
        before = c.Load(c.Name("key"), c.Bin("-", first, c.Int(1)))
        for number, level in enumerate(self.key.levels):
            place = c.Bin("+", c.Bin("*", c.Name("part"), c.Int(len(self.key.levels))), c.Int(number))
            done = c.Bin("+", c.Load(c.Name("done"), place), c.Int(level.rank.low - 1))
            lines.append(c.Declare(INT, self.ranks[number], done))
            if level.rank.begin:
                segment = c.Select(c.Bin(">", first, c.Int(0)), self.segment(level, self.names(before)), c.Int(-1))
                lines.append(c.Declare(INT, self.segments[number], segment))
        return lines

    def tails(self) -> list[c.Stmt]:
        """Groups behind the last entry are empty; ends and lengths follow from where the groups begin."""
        lines: list[c.Stmt] = []
        last = c.Load(c.Name("key"), c.Bin("-", c.Name("count"), c.Int(1)))
        for number, level in enumerate(self.key.levels):
            if not level.rank.begin:
                continue
            total = c.Name(self.totals[number])
            before = {
                other.rank.position: c.Bin("-", c.Name(t), c.Int(1))
                for other, t in zip(self.key.levels[:number], self.totals, strict=False)
            }
            names = self.names(last).knowing(before)
            begin = self.encoded.calls[level.rank.begin].function
            extents = [names.expr(e) for e in self.layout.index(begin).extents]
            size = joined("*", extents)
            segment = c.Select(c.Bin(">", c.Name("count"), c.Int(0)), self.segment(level, names), c.Int(-1))
            at = c.Name("at")
            write = self.stored(begin, at, total)
            start = c.Bin("+", segment, c.Int(1))
            lines.append(c.For(INT, "at", start, c.Bin("<", at, size), 1, c.Block((write,))))
            if level.rank.other:
                other = self.encoded.calls[level.rank.other].function
                array = c.Name(self.source.arrays[begin].name)
                following = c.Bin("+", at, c.Int(1))
                end: c.Expr = c.Select(c.Bin("<", following, size), c.Cast(INT, c.Load(array, following)), total)
                if level.rank.kind == "counts":
                    end = c.Bin("-", end, c.Cast(INT, c.Load(array, at)))
                lines.append(
                    c.For(INT, "at", c.Int(0), c.Bin("<", at, size), 1, c.Block((self.stored(other, at, end),)))
                )
        return lines

    def value(self, names: ExprLowering) -> list[c.Stmt]:
        """Entries with equal coordinates are added."""
        (value,) = self.layout.values
        place = names.linear_index(value.extents, [names.expr(p) for p in value.position])
        target = c.Load(c.Name(self.source.arrays[value.name].name), place)
        entry_value = c.Name("own")
        at = c.Select(c.Name("from"), c.Cast(INT, c.Load(c.Name("from"), c.Name("q"))), c.Name("q"))
        kind = TYPES[self.types.value]
        read = c.Declare(f"const {kind.c}", "own", c.Load(c.Name("value"), at))
        added = added_up(target, entry_value, kind)
        return [read, c.If(c.Name("changed"), c.Block((c.Assign(target, "=", entry_value),)), c.Block((added,)))]


def added_up(target: c.Expr, value: c.Expr, kind: ElementType) -> c.Stmt:
    """An entry comes to the one that is at its place."""
    if kind.kind == "b":
        return c.Assign(target, "=", c.Bin("||", target, value))
    if kind.kind in "iu" and kind.bytes < 4:
        return c.Assign(target, "=", c.Cast(kind.c, c.Bin("+", target, value)))
    return c.Assign(target, "+=", value)


def made(
    result: str, name: str, params: Sequence[c.Param], body: Sequence[c.Stmt], doc: str, arguments: Sequence[str]
) -> GeneratedFunction:
    """A function with those of the parameters that it needs; `arguments`: what is given for each."""
    used = {n.name for s in body for n in walk(s) if isinstance(n, c.Name)}
    needed = [(p, a) for p, a in zip(params, arguments, strict=True) if p.name in used or p.name == "parts"]
    word = [] if "parts" in used else [c.Do(c.Cast("void", c.Name("parts")))]  # without OpenMP no pragma needs it
    function = c.Function(result, name, tuple([p for p, _ in needed]), c.Block((*word, *body)), doc)
    return GeneratedFunction(function, tuple([a for _, a in needed]))

"""Assemblies (plan/assemble/) as C: one case for each step, nothing is decided here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spfgen.cir.checks import names as checks_names
from spfgen.cir.lower.from_checks import check_functions
from spfgen.cir.lower.from_checks import places as report_places
from spfgen.cir.lower.layout import field_name
from spfgen.cir.nest import ArraysInC, At, ScanNest, nests, pruned
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.affine import ArrayName
from spfgen.cir.tree.affine import ExprLowering as Layouted
from spfgen.cir.tree.build import INT, any_of, joined, linear_index, loop, operation
from spfgen.cir.tree.elements import constant, converted
from spfgen.cir.tree.names import identifier
from spfgen.cir.tree.operators import literal
from spfgen.errors import InternalError
from spfgen.facts.formula import ZERO, And, Bin, Call, Compare, Expr, Formula, Not, Num, Or, Var, calls, within
from spfgen.ir import fresh
from spfgen.lang.types import KEYWORDS, TYPES, ElementType
from spfgen.layout.checks import checks_of
from spfgen.layout.nodes import Layout
from spfgen.layout.points import encode, lean, scan_of
from spfgen.plan.assemble.from_pack_plan import assembly_by_ends
from spfgen.plan.assemble.nodes import (
    COUNT,
    FIRST,
    LINKED,
    MORE,
    NUMBER,
    PIECE,
    ROW,
    Assembly,
    AssemblyStep,
    CheckFacts,
    CheckShared,
    Choose,
    Differs,
    Fail,
    Filler,
    Fold,
    Insert,
    Into,
    Keep,
    Let,
    MaxOverPoints,
    Movable,
    Move,
    NumberBlocks,
    Offsets,
    Patterns,
    Ranks,
    Repeat,
    Running,
    SameValue,
    SelectRows,
    Sort,
    Store,
    UpperBound,
    ValueWord,
    Vec,
    When,
    steps_in,
)

OK, MEMORY, PLACE, INDEX = "SPFGEN_OK", "SPFGEN_ERROR_MEMORY", "SPFGEN_ERROR_PLACE", "SPFGEN_ERROR_INDEX"
ELSEWHERE, TOGETHER = "SPFGEN_ELSEWHERE", "SPFGEN_TOGETHER"
VECTOR, POOL, ALLOCATOR = f"{INT} *", "spfgen_pool *", "const spfgen_allocator *"
RESERVED = frozenset({"q", "k", "place", "value", "pool", "memory", "made", "values", "entries", "status", "count",
                      "column", "begun", "dropped", "blocks", "taken", "given", "part", "parts"})  # fmt: skip


@dataclass(frozen=True)
class AssemblyTarget:
    """The result: the name of its struct, the types of its values, of the entries, of its index arrays."""

    struct: str
    value_type: ElementType
    entry_type: ElementType
    index_types: Mapping[str, str]
    axis: int | None = None


@dataclass
class _Names:
    """C names of scalars and vectors."""

    taken: set[str] = field(default_factory=lambda: {*KEYWORDS, *RESERVED})
    table: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        if name not in self.table:
            unique = fresh(identifier(name), self.taken)
            self.taken.add(unique)
            self.table[name] = unique
        return self.table[name]


def assemble_functions(assembly: Assembly, target: AssemblyTarget, name: str, file_names: set[str]) -> list[c.Function]:
    """Static functions, the last of which makes the arrays of the result: `int name(entries, made, memory)`."""
    functions: list[c.Function] = []
    tries: list[str] = []
    for k, one in enumerate((assembly, *assembly.fallbacks)):
        function_name = fresh(f"{name}_{k + 1}" if k else f"{name}_try", file_names)
        file_names.add(function_name)
        writer = _Writer(one, target, function_name)
        assembled = writer.function()
        functions += [*writer.before, assembled]
        tries.append(function_name)
    by_ends = None if target.axis is None else assembly_by_ends(assembly.layout)
    if by_ends is None:
        return [*functions, _driver(assembly, target, name, tries)]
    function_name, first = (fresh(f"{name}_{n}", file_names) for n in ("ends", "by_ends"))
    file_names |= {function_name, first}
    writer = _Writer(by_ends, target, function_name)
    assembled = writer.function()
    functions += [*writer.before, assembled, _by_ends(by_ends, target, first, function_name)]
    return [*functions, _driver(assembly, target, name, tries, first)]


class _Writer:
    """The function that makes the arrays of some entries: coordinates that rise, each once."""

    def __init__(self, assembly: Assembly, target: AssemblyTarget, name: str) -> None:
        self.assembly, self.target, self.name = assembly, target, name
        self.layout = assembly.layout
        self.names = _Names()
        self.scalars: dict[str, None] = {}
        self.vectors: dict[str, None] = {}
        self.before: list[c.Function] = []
        self.type = target.entry_type

    # --- the function -------------------------------------------------------------------------------------

    def function(self) -> c.Function:
        layout = self.layout
        given = [self.names[n] for n in layout.parameters]
        columns = [self.names[n] for n in layout.coordinates]
        body = [s for step in self.assembly.steps for s in self.step(step)]
        sizes = [c.Assign(self.field(n), "=", c.Name(self.names[n])) for n in layout.sizes]
        params = [c.Param(POOL, "pool"), c.Param(INT, "count")]
        params += [
            c.Param(f"const {INT} *", n, f"coordinate `{x}`") for n, x in zip(columns, layout.coordinates, strict=True)
        ]
        params.append(c.Param(f"const {self.type.c} *", "values"))
        if self.assembly.alternatives > 1:
            params.append(c.Param(VECTOR, self.names[FIRST]))
        if self.assembly.axis is not None:
            params.append(c.Param(f"const {INT} *", self.names[LINKED]))
        params += [c.Param(f"{self.target.struct} *", "made"), c.Param(ALLOCATOR, "memory")]
        sizes_read: list[c.Stmt] = [
            c.Declare(f"const {INT}", n, self.field(p)) for n, p in zip(given, layout.parameters, strict=True)
        ]
        declared = [c.Declare(INT, self.names[n], c.Int(0)) for n in self.scalars if n not in layout.parameters]
        declared += [c.Declare(VECTOR, self.names[n], c.Name("NULL")) for n in self.vectors]
        if any(isinstance(s, Keep) for s in steps_in(self.assembly.steps)):
            declared.append(c.Declare("bool", "dropped", c.Name("false")))
        unused = [c.Do(c.Cast("void", c.Name(n))) for n in ("memory", "values", *columns)]
        whole = c.Block((*sizes_read, *declared, *unused, *body, *sizes, c.Return(c.Name(OK))))
        doc = f"Arrays of layout {layout.name} from entries whose coordinates rise, each once."
        return c.Function("int", self.name, tuple(params), whole, doc, static=True)

    def field(self, name: str) -> c.Expr:
        return c.Field(c.Name("made"), field_name(name))

    def vector(self, name: str) -> c.Expr:
        if name not in self.layout.coordinates and name != FIRST:
            self.vectors.setdefault(name)
        return c.Name(self.names[name])

    def scalar(self, name: str) -> c.Expr:
        self.scalars.setdefault(name)
        return c.Name(self.names[name])

    # --- expressions --------------------------------------------------------------------------------------

    def expr(self, e: Any) -> c.Expr:
        match e:
            case Num(value):
                return c.Int(value)
            case Var() if e == ROW:
                return c.Name("q")
            case Var() if e == COUNT:
                return c.Name("count")
            case Var(name):
                return c.Name(self.names[name])
            case Call(vector, (index,)):
                return c.Load(c.Name(self.names[vector]), self.expr(index))
            case Bin("-", left, right) if left == ZERO:
                return c.Un("-", self.expr(right))
            case Bin(op, left, right):
                return operation(op, self.expr(left), self.expr(right))
            case Choose(condition, yes, no):
                return c.Select(self.condition(condition), self.expr(yes), self.expr(no))
            case UpperBound(vector, length, value):
                return c.Call("spfgen_not_above", (c.Name(self.names[vector]), self.expr(length), self.expr(value)))
            case ValueWord(row, word):
                return c.Call("spfgen_value_word", (c.Name("values"), self.expr(row), self.bytes(), c.Int(word)))
            case Formula():
                return c.Select(self.condition(e), c.Int(1), c.Int(0))
        raise InternalError(f"no C for {e!r}")

    def condition(self, f: Formula) -> c.Expr:
        match f:
            case Compare(op, left, right):
                return c.Bin("==" if op == "=" else op, self.expr(left), self.expr(right))
            case And(parts):
                return joined("&&", [self.condition(p) for p in parts])
            case Or(parts):
                return any_of([self.condition(p) for p in parts])
            case Not(part):
                return c.Un("!", self.condition(part))
            case SameValue(one, other):
                return c.Call("spfgen_same_value", (c.Name("values"), self.expr(one), self.expr(other), self.bytes()))
            case Differs(row, as_number):
                return differs(c.Load(c.Name("values"), self.expr(row)), self.layout, self.type, as_number)
        raise InternalError(f"no C for {f!r}")

    def bytes(self) -> c.Expr:
        return c.Call("sizeof", (c.Name(self.type.c),))

    def length(self, e: Any) -> c.Expr:
        """Products that do not overflow."""
        if isinstance(e, Bin) and e.op == "*":
            return c.Call("spfgen_times", (self.length(e.left), self.length(e.right)))
        return self.expr(e)

    # --- steps --------------------------------------------------------------------------------------------

    def step(self, step: AssemblyStep) -> list[c.Stmt]:
        for part in (self.of_vectors, self.of_control, self.of_chunks, self.of_arrays):
            lines = part(step)
            if lines is not None:
                return lines
        raise InternalError(f"no C for {step!r}")

    def of_vectors(self, step: AssemblyStep) -> list[c.Stmt] | None:
        """Vectors are made and changed."""
        match step:
            case Let(name, value):
                return [c.Assign(self.scalar(name), "=", self.expr(value))]
            case Vec(name, length, value):
                target = self.vector(name)
                stored = c.Assign(c.Load(target, c.Name("q")), "=", self.expr(value))
                return [*self.new(target, length), loop("q", c.Int(0), self.length(length), [stored])]
            case Into():
                return [self.into(step)]
            case Fold():
                return self.fold(step)
            case Ranks(rank, first, total, length, columns, why):
                out = [c.Un("&", self.vector(rank)), c.Un("&", self.vector(first)), c.Un("&", self.scalar(total))]
                call = c.Call("spfgen_ranks", (c.Name("pool"), self.expr(length), *self.columns(columns), *out))
                return [*said(why), self.with_columns(columns, [c.If(c.Un("!", call), c.Return(c.Name(MEMORY)))])]
            case Sort(order, length, columns):
                target = self.vector(order)
                call = c.Call("spfgen_sorted", (c.Name("pool"), self.expr(length), *self.columns(columns)))
                return [self.with_columns(columns, [c.Assign(target, "=", call), *no_memory(target)])]
            case Offsets(vector, length, total, why):
                call = c.Call("spfgen_offsets", (self.vector(vector), self.length(length)))
                return [*said(why), c.Assign(self.scalar(total), "=", call) if total else c.Do(call)]
            case Running(vector, length, width, least, backwards):
                flags = [c.Name("true" if x else "false") for x in (least, backwards)]
                return [
                    c.Do(c.Call("spfgen_running", (self.vector(vector), self.length(length), self.expr(width), *flags)))
                ]
            case SelectRows():
                return self.rows(step)
            case Keep():
                return self.keep(step)
            case Move(mask):
                return self.move(c.Name(self.names[mask]), True)
        return None

    def of_control(self, step: AssemblyStep) -> list[c.Stmt] | None:
        """Conditions, repetition, failure."""
        match step:
            case Fail(when, why, together):
                status = c.Return(c.Name(TOGETHER if together else PLACE))
                return [c.If(self.condition(when), c.Block((c.Comment(why), status)))]
            case When(condition, then, otherwise):
                parts = [c.Block(tuple(s for inner in part for s in self.step(inner))) for part in (then, otherwise)]
                return [c.If(self.condition(condition), parts[0], parts[1] if otherwise else None)]
            case Repeat(body):
                lines = [s for inner in body for s in self.step(inner)]
                lines.append(c.If(c.Un("!", c.Name("dropped")), c.Break()))
                return [c.While(c.Name("true"), c.Block(tuple(lines)))]
        return None

    def of_chunks(self, step: AssemblyStep) -> list[c.Stmt] | None:
        """Entries are put into chunks."""
        match step:
            case NumberBlocks(name, length, group, low, high):
                given = [c.Name(self.names[v]) for v in (group, low, high)]
                return self.called(name, "spfgen_blocks", [self.expr(length), *given])
            case Patterns(name, length, group, content, groups):
                given = [c.Name(self.names[v]) for v in (group, content)]
                return self.called(name, "spfgen_patterns", [self.expr(length), *given, self.expr(groups)])
            case Movable(name, length, group, slot, more, sizes, groups, width):
                given = [c.Name(self.names[v]) for v in (group, slot, more, sizes)]
                return self.called(
                    name, "spfgen_movable", [self.expr(length), *given, self.expr(groups), self.expr(width)]
                )
        return None

    def of_arrays(self, step: AssemblyStep) -> list[c.Stmt] | None:
        """The arrays of the layout are made and filled."""
        match step:
            case Filler():
                return self.filler(step)
            case MaxOverPoints():
                return self.room(step)
            case Insert(array, vector, extents):
                return self.insert(array, vector, extents, step.because)
            case Store():
                return self.store(step)
            case CheckShared():
                return self.shared(step)
            case CheckFacts():
                return self.facts(step)
        return None

    def new(self, vector: c.Expr, length: Any) -> list[c.Stmt]:
        allocated = c.Call("spfgen_vector", (c.Name("pool"), self.length(length)))
        return [c.Assign(vector, "=", allocated), *no_memory(vector)]

    def called(self, name: str, function: str, given: Sequence[c.Expr]) -> list[c.Stmt]:
        vector = self.vector(name)
        return [c.Assign(vector, "=", c.Call(function, (c.Name("pool"), *given))), *no_memory(vector)]

    def columns(self, columns: Sequence[str]) -> list[c.Expr]:
        return [c.Int(len(columns)), c.Name("column")]

    def with_columns(self, columns: Sequence[str], lines: Sequence[c.Stmt]) -> c.Stmt:
        declared: list[c.Stmt] = [c.Declare(f"const {INT} *", "column", None, max(1, len(columns)))]
        given = [c.Name(self.names[v]) for v in columns] or [c.Name("NULL")]
        declared += [c.Assign(c.Load(c.Name("column"), c.Int(k)), "=", v) for k, v in enumerate(given)]
        return c.Braces(c.Block((*declared, *lines)))

    def into(self, step: Into) -> c.Stmt:
        place, value = c.Load(self.vector(step.vector), c.Name("place")), c.Name("value")
        lines: list[c.Stmt] = [
            c.Declare(f"const {INT}", "place", self.expr(step.place)),
            c.Declare(f"const {INT}", "value", self.expr(step.value)),
        ]
        match step.how:
            case "set":
                lines.append(c.Assign(place, "=", value))
            case "add":
                lines.append(c.Assign(place, "+=", value))
            case how:
                better = c.Bin(">" if how == "max" else "<", value, place)
                lines.append(c.If(better, c.Block((c.Assign(place, "=", value),))))
        body = lines if step.when is None else [c.If(self.condition(step.when), c.Block(tuple(lines)))]
        if step.backwards:
            last = c.Bin("-", self.expr(step.length), c.Int(1))
            return c.For(INT, "q", last, c.Bin(">=", c.Name("q"), c.Int(0)), -1, c.Block(tuple(body)))
        return loop("q", c.Int(0), self.length(step.length), body)

    def fold(self, step: Fold) -> list[c.Stmt]:
        total, value = self.scalar(step.name), c.Name("value")
        lines: list[c.Stmt] = [c.Declare(f"const {INT}", "value", self.expr(step.value))]
        if step.how == "sum":
            lines.append(c.Assign(total, "+=", value))
        else:
            better = c.Bin(">" if step.how == "max" else "<", value, total)
            lines.append(c.Assign(total, "=", c.Select(better, value, total)))
        return [c.Assign(total, "=", self.expr(step.initial)), loop("q", c.Int(0), self.length(step.length), lines)]

    def rows(self, step: SelectRows) -> list[c.Stmt]:
        rows, count = self.vector(step.name), self.scalar(step.count)
        noted = [c.Assign(c.Load(rows, count), "=", c.Name("q")), c.Assign(count, "+=", c.Int(1))]
        body = [c.If(self.condition(step.when), c.Block(tuple(noted)))]
        return [*self.new(rows, step.length), c.Assign(count, "=", c.Int(0)),
                loop("q", c.Int(0), self.length(step.length), body)]  # fmt: skip

    def move(self, mask: c.Expr, chosen: bool) -> list[c.Stmt]:
        """Rows that are chosen, or that a mask drops, go to another alternative where they have one."""
        names = [c.Name(self.names[n]) for n in (MORE, NUMBER, PIECE, FIRST)]
        function = "spfgen_moved_away" if chosen else "spfgen_moved"
        return [c.If(c.Call(function, (c.Name("count"), mask, *names)), c.Block((c.Return(c.Name(ELSEWHERE)),)))]

    def keep(self, step: Keep) -> list[c.Stmt]:
        mask = c.Name(self.names[step.mask])
        count, values = c.Name("count"), c.Name("values")
        dropped = c.Bin(">", c.Call("spfgen_dropped", (count, mask)), c.Int(0))
        if self.assembly.axis is not None:  # the other end is dropped or not
            return [*said(step.because), c.If(dropped, c.Block((c.Return(c.Name(PLACE)),)))]
        lines: list[c.Stmt] = []
        if self.assembly.alternatives > 1:
            lines += self.move(mask, False)
        lost = joined("&&", [c.Un("!", c.Load(mask, c.Name("q"))),
                             differs(c.Load(values, c.Name("q")), self.layout, self.type, True)])  # fmt: skip
        lines.append(loop("q", c.Int(0), count, [c.If(lost, c.Block((c.Return(c.Name(PLACE)),)))]))
        columns = [c.Name(self.names[vector]) for vector in step.columns]
        for column, kind in [*((x, INT) for x in columns), (values, self.type.c)]:
            call = c.Call("spfgen_kept", (c.Name("pool"), count, mask, column, c.Call("sizeof", (c.Name(kind),))))
            lines.append(c.Assign(column, "=", c.Cast(f"{kind} *", call)))
        missing = any_of([c.Un("!", column) for column in (*columns, values)])
        lines.append(c.If(missing, c.Block((c.Return(c.Name(MEMORY)),))))
        lines.append(c.Assign(count, "-=", c.Call("spfgen_dropped", (count, mask))))
        return [
            *said(step.because),
            c.Assign(c.Name("dropped"), "=", dropped),
            c.If(c.Name("dropped"), c.Block(tuple(lines))),
        ]

    def filler(self, step: Filler) -> list[c.Stmt]:
        out = [c.Un("&", self.vector(step.group)), c.Un("&", self.vector(step.key)), c.Un("&", self.scalar(step.total))]
        given = [self.expr(step.length), *(c.Name(self.names[v]) for v in (step.groups_of, step.keys_of))]
        given += [self.length(step.groups), self.expr(step.width), self.expr(step.low)]
        call = c.Call("spfgen_filler", (c.Name("pool"), *given, *out))
        return [c.If(c.Un("!", call), c.Block((c.Return(c.Name(MEMORY)),)))]

    # --- results ------------------------------------------------------------------------------------------

    def result(self, array: str, kind: ElementType, length: c.Expr, const: str) -> tuple[c.Expr, list[c.Stmt]]:
        """A new array of the result, under a name of its own."""
        new_array = c.Name(fresh(identifier(f"new_{array}"), self.names.taken))
        self.names.taken.add(new_array.name)
        allocated = c.Call("spfgen_result", (c.Name("memory"), length, c.Call("sizeof", (c.Name(kind.c),))))
        return new_array, [
            c.Declare(f"{kind.c} *", new_array.name, c.Cast(f"{kind.c} *", allocated)),
            c.Assign(self.field(array), "=", new_array),
            *no_memory(new_array),
        ]

    def insert(self, array: str, vector: str, extents: Sequence[Expr], why: str) -> list[c.Stmt]:
        kind = TYPES[self.target.index_types[array]]
        length = self.length(_product(extents))
        stored_index, lines = self.result(array, kind, length, "const ")
        number = c.Load(c.Name(self.names[vector]), c.Name("q"))
        narrow = c.Cast(kind.c, number)
        stored: list[c.Stmt] = []
        if kind.name != "int64":
            wrong = c.Bin("!=", c.Cast(INT, narrow), number)
            stored.append(c.If(wrong, c.Block((c.Return(c.Name(INDEX)),))))
        stored.append(c.Assign(c.Load(stored_index, c.Name("q")), "=", narrow if kind.name != "int64" else number))
        return [*said(why), *lines, loop("q", c.Int(0), length, stored)]

    def store(self, step: Store) -> list[c.Stmt]:
        layout, kind = self.layout, self.target.value_type
        value = next(v for v in layout.values if v.name == step.array)
        names = Layouted({n: c.Name(self.names[n]) for n in (*layout.parameters, *layout.sizes)}, {}, {}, {})
        length: c.Expr = c.Int(1)
        for extent in value.extents:
            least_extent = c.Call("spfgen_max", (c.Int(0), names.expr(extent)))
            length = least_extent if length == c.Int(1) else c.Call("spfgen_times", (length, least_extent))
        stored_values, lines = self.result(step.array, kind, length, "")
        filler = constant(1, kind) if value.implied else fill_of(layout, kind)
        lines.append(loop("q", c.Int(0), length, [c.Assign(c.Load(stored_values, c.Name("q")), "=", filler)]))
        place = c.Load(c.Name(self.names[step.places]), c.Name("q"))
        plain = c.Load(c.Name("values"), c.Name("q"))
        stored = converted(self._turned(plain, step.turned), self.type, kind)
        inside = c.Bin(">=", place, c.Int(0))
        target = c.Load(stored_values, place)
        lines.append(loop("q", c.Int(0), c.Name("count"), [c.If(inside, c.Block((c.Assign(target, "=", stored),)))]))
        other: c.Expr = c.Bin("!=", target, stored)
        if kind.kind in "fc":
            other = joined(
                "&&", [other, c.Un("!", joined("&&", [c.Bin("!=", target, target), c.Bin("!=", stored, stored)]))]
            )
        wrong = c.If(joined("&&", [inside, other]), c.Block((c.Return(c.Name(PLACE)),)))
        return [*lines, loop("q", c.Int(0), c.Name("count"), [wrong])]

    def _turned(self, value: c.Expr, turned: Sequence[tuple[str, tuple[str, ...]]]) -> c.Expr:
        """What is stored of a value, by what its alternative does to it; a 0 keeps its sign."""
        for vector, operators in turned:
            done = value
            for operator in operators:
                if operator == "negative":
                    done = c.Cast(self.type.c, c.Un("-", done)) if self.type.kind in "iu" else c.Un("-", done)
                elif operator == "conjugate" and self.type.kind == "c":
                    done = c.Call("conjf" if self.type.name == "complex64" else "conj", (done,))
            here = joined("&&", [c.Bin("!=", c.Load(c.Name(self.names[vector]), c.Name("q")), c.Int(0)),
                                 c.Bin("!=", value, constant(0, self.type))])  # fmt: skip
            value = c.Select(here, done, value)
        return value

    # --- checks -------------------------------------------------------------------------------------------

    def shared(self, step: CheckShared) -> list[c.Stmt]:
        """As many entries as there are places that hold something; with a fill value that is not 0, no place twice."""
        layout, kind = self.layout, self.target.value_type
        told, filled = c.Name(self.names["told"]), c.Name(self.names["filled"])
        each: c.Expr = c.Int(1)
        if self.assembly.axis is not None:  # the end of an interval stands for all behind the first one
            along = c.Name(self.names[layout.coordinates[self.assembly.axis]])
            longer = c.Bin("-", c.Load(along, c.Name("q")), c.Load(along, c.Bin("-", c.Name("q"), c.Int(1))))
            each = c.Select(c.Load(c.Name(self.names[LINKED]), c.Name("q")), longer, each)
        is_told = differs(c.Load(c.Name("values"), c.Name("q")), layout, self.type, True)
        lines: list[c.Stmt] = [
            c.Declare(INT, told.name, c.Int(0)),
            c.Declare(INT, filled.name, c.Int(0)),
            loop("q", c.Int(0), c.Name("count"), [c.If(is_told, c.Block((c.Assign(told, "+=", each),)))]),
        ]

        def counted(names: Layouted, value: c.Expr) -> list[c.Stmt]:
            holds = differs(value, layout, kind, True)
            return [c.If(holds, c.Block((c.Assign(filled, "+=", c.Int(1)),)))]

        lines += self.scan(counted)
        wrong = ">" if self.assembly.axis is None else "!="
        lines.append(c.If(c.Bin(wrong, filled, told), c.Block((c.Return(c.Name(TOGETHER)),))))
        if layout.fill_text != "0" and self.assembly.axis is None:
            lines += self.twice()
        return [*said(step.because), c.Braces(c.Block(tuple(lines)))]

    def twice(self) -> list[c.Stmt]:
        """Whether a coordinate has two places."""
        layout = self.layout
        points, at = c.Name(self.names["points"]), c.Name(self.names["point"])
        columns = [f"points {x}" for x in layout.coordinates]

        def counted(names: Layouted, value: c.Expr) -> list[c.Stmt]:
            return [c.Assign(points, "+=", c.Int(1))]

        def listed(names: Layouted, value: c.Expr) -> list[c.Stmt]:
            column = [c.Assign(c.Load(self.vector(v), at), "=", names.name(x))
                   for v, x in zip(columns, layout.coordinates, strict=True)]  # fmt: skip
            return [*column, c.Assign(at, "+=", c.Int(1))]

        lines: list[c.Stmt] = [c.Declare(INT, points.name, c.Int(0)), *self.scan(counted)]
        for vector in columns:
            column = self.vector(vector)
            lines += [c.Assign(column, "=", c.Call("spfgen_vector", (c.Name("pool"), points))), *no_memory(column)]
        lines += [c.Declare(INT, at.name, c.Int(0)), *self.scan(listed)]
        rank, first, total = (self.vector("points rank"), self.vector("points first"), self.scalar("points total"))
        call = c.Call("spfgen_ranks", (c.Name("pool"), points, *self.columns(columns),
                                       *(c.Un("&", x) for x in (rank, first, total))))  # fmt: skip
        ranked = [c.If(c.Un("!", call), c.Block((c.Return(c.Name(MEMORY)),)))]
        lines.append(self.with_columns(columns, ranked))
        lines.append(c.If(c.Bin("<", total, points), c.Block((c.Return(c.Name(TOGETHER)),))))
        return lines

    def scan(self, leaf: Callable[[Layouted, c.Expr], list[c.Stmt]]) -> list[c.Stmt]:
        """Loops over all that the arrays store."""
        layout = self.layout
        arrays = {i.name: ArrayName(self.names[self._vector_of(i.name)], False, i.extents) for i in layout.indexes}
        value_arrays: list[c.Stmt] = []
        for value in layout.values:
            array_name = fresh(identifier(f"held_{value.name}"), self.names.taken)
            arrays[value.name] = ArrayName(array_name, False, value.extents)
            value_arrays.append(c.Declare(f"const {self.target.value_type.c} *", array_name, self.field(value.name)))
        taken = frozenset({*self.names.taken, *(a.name for a in arrays.values())})
        sizes = {n: self.names[n] for n in (*layout.parameters, *layout.sizes)}
        alone = [c.Declare("const int", "part", c.Int(0)), c.Declare("const int", "parts", c.Int(1))]
        nest = nests(ArraysInC(layout, sizes, arrays, taken), leaf, "part", "parts")
        return [c.Braces(c.Block((*value_arrays, *alone, c.Do(c.Cast("void", c.Name("part"))),
                                 c.Do(c.Cast("void", c.Name("parts"))), *nest)))]  # fmt: skip

    def room(self, step: MaxOverPoints) -> list[c.Stmt]:
        """Loops over the points of the relation, whatever is stored there."""
        layout = self.layout
        encoded = encode(layout)
        arrays = {n: ArrayName(self.names[v], False, layout.index(n).extents) for n, v in step.arrays.items()}
        sizes = {n: self.names[n] for n in (*layout.parameters, *layout.sizes)}
        reached_most = c.Name(self.names[step.vector]) if step.vector else self.scalar(step.most)
        source = ArraysInC(layout, sizes, arrays, frozenset({*self.names.taken, "place", "value"}))

        def inner(point: At) -> list[c.Stmt]:
            names = point.names
            places = [names.affine(p) for p in step.places]
            if not step.vector:
                reached = c.Bin("+", places[0], c.Int(1))
                return [c.Assign(reached_most, "=", c.Call("spfgen_max", (reached_most, reached)))]
            inside: list[c.Expr] = []
            for p, extent in zip(places, step.shape, strict=True):
                inside += [c.Bin(">=", p, c.Int(0)), c.Bin("<", p, self.expr(extent))]
            lines: list[c.Stmt] = [c.Declare(f"const {INT}", "place", linear_index(places, step.shape, self.expr))]
            for vector, group in step.groups:
                lines.append(c.Assign(c.Load(c.Name(self.names[vector]), c.Name("place")), "=", names.affine(group)))
            for value in step.values:
                pairs = [(a, e) for call in calls(value) for a, e in _subscripts(layout, call)]
                guards = [names.condition(within(a, ZERO, e)) for a, e in pairs]
                target = c.Load(reached_most, c.Name("place"))
                reached = c.Bin("+", names.expr(value), c.Int(1))
                most = c.Assign(target, "=", c.Call("spfgen_max", (target, reached)))
                lines.append(c.If(joined("&&", guards), c.Block((most,))) if guards else most)
            return [c.If(joined("&&", inside), c.Block(tuple(lines)))]

        body: list[c.Stmt] = [] if step.vector else [c.Assign(reached_most, "=", c.Int(0))]
        for piece, steps in zip(encoded.pieces, scan_of(layout), strict=True):
            nest = ScanNest(source, piece.intersect(encoded.facts), "part", "parts")
            start = replace(nest.start(encoded), split=False)
            body.append(c.Braces(c.Block(tuple(pruned(nest.steps(lean(encoded, steps), start, inner))))))
        return body

    def _vector_of(self, array: str) -> str:
        return next(s.vector for s in self.assembly.steps if isinstance(s, Insert) and s.array == array)

    def facts(self, step: CheckFacts) -> list[c.Stmt]:
        """The checks of the layout, on arrays of 64-bit integers."""
        layout = self.layout
        checks = checks_of(layout)
        name = f"{self.name}_holds"
        functions = check_functions(layout, checks, {i.name: "int64" for i in layout.indexes}, name)
        self.before += [c.Function(f.result, f.name, f.params, f.body, f.doc, static=True) for f in functions]
        report = self.names["report"]
        given = [c.Name(self.names[n]) for n in (*layout.parameters, *layout.sizes)]
        given += [c.Name(self.names[self._vector_of(i.name)]) for i in layout.indexes]
        call = c.Call(name, (*given, c.Int(LIMIT), c.Int(1), c.Name(report)))
        status = c.Name(self.names["holds"])
        lines: list[c.Stmt] = [
            c.Declare(INT, report, None, 1 + report_places(checks) + len(checks)),
            c.Declare("const int", status.name, call),
            c.If(c.Bin("==", status, c.Name(checks_names.MEMORY)), c.Block((c.Return(c.Name(MEMORY)),))),
            c.If(c.Bin("==", status, c.Name(checks_names.BROKEN)), c.Block((c.Return(c.Name(TOGETHER)),))),
        ]
        return [*said(step.because), c.Braces(c.Block(tuple(lines)))]


def _subscripts(layout: Layout, call: Call) -> list[tuple[Expr, Expr]]:
    """The arguments of a call, each with the extent below which it is."""
    return list(zip(call.arguments, layout.index(call.function).extents, strict=True))


LIMIT = 1 << 40
"""Checks that are not linear are made in full."""


def _product(extents: Sequence[Expr]) -> Expr:
    result: Expr = Num(1)
    for extent in extents:
        result = extent if result == Num(1) else Bin("*", result, extent)
    return result


def said(why: str) -> list[c.Stmt]:
    return [c.Comment(why)] if why else []


def no_memory(pointer: c.Expr) -> list[c.Stmt]:
    return [c.If(c.Un("!", pointer), c.Block((c.Return(c.Name(MEMORY)),)))]


def fill_of(layout: Layout, kind: ElementType) -> c.Expr:
    return literal(layout.fill, kind)


def differs(value: c.Expr, layout: Layout, kind: ElementType, as_number: bool) -> c.Expr:
    """Whether a value is not the fill value, bit by bit (nan is nan), or as a number."""
    from spfgen.cir.pack import is_stored

    if not as_number or kind.kind in "biu" or complex(layout.fill) != 0:
        return is_stored(value, layout.fill, kind)
    return c.Bin("!=", value, constant(0, kind))


# --- the driver ---------------------------------------------------------------------------------------------------


def _by_ends(assembly: Assembly, target: AssemblyTarget, name: str, writer: str) -> c.Function:
    """From intervals to the result, by their ends; PLACE where that needs all that they stand for."""
    layout, kind, names = assembly.layout, target.entry_type, _Names()
    local = {n: c.Name(names[n]) for n in ("columns", "ends", "linked", "total", "own status")}
    pool, status = c.Name("pool"), local["own status"]
    given = (
        pool,
        c.Name("entries"),
        c.Int(layout.rank),
        c.Int(assembly.axis or 0),
        c.Call("sizeof", (c.Name(kind.c),)),
    )
    out = (local["columns"], *(c.Un("&", local[n]) for n in ("ends", "linked", "total")))
    columns = [c.Load(local["columns"], c.Int(k)) for k in range(layout.rank)]
    ends = c.Cast(f"const {kind.c} *", local["ends"])
    call = c.Call(writer, (pool, local["total"], *columns, ends, local["linked"], c.Name("made"), c.Name("memory")))
    most = c.Select(c.Name("memory"), c.Field(c.Name("memory"), "max_workspace"), c.Int(0))
    body: list[c.Stmt] = [
        c.Declare("spfgen_pool", "pool", None, 1),
        c.Do(c.Call("memset", (pool, c.Int(0), c.Call("sizeof", (c.Name("spfgen_pool"),))))),
        c.Assign(c.Field(pool, "most"), "=", most),
        c.Declare(VECTOR, local["columns"].name, None, layout.rank),
        c.Declare("void *", local["ends"].name, c.Name("NULL")),
        c.Declare(VECTOR, local["linked"].name, c.Name("NULL")),
        c.Declare(INT, local["total"].name, c.Int(0)),
        c.Declare("int", status.name, c.Call("spfgen_interval_ends", (*given, *out))),
        c.If(c.Bin("==", status, c.Name(OK)), c.Block((c.Assign(status, "=", call),))),
        c.If(c.Bin("!=", status, c.Name(OK)), c.Block(tuple(_cleared(assembly, target)))),
        c.Do(c.Call("spfgen_pool_free", (pool, c.Int(0), c.Int(0)))),
        c.Return(c.Select(_unplaced(status), c.Name(PLACE), status)),
    ]
    params = (
        c.Param("const spfgen_appended *", "entries"),
        c.Param(f"{target.struct} *", "made"),
        c.Param(ALLOCATOR, "memory"),
    )
    doc = f"The result in layout {layout.name} of intervals, if their ends say all of it."
    return c.Function("int", name, params, c.Block(tuple(body)), doc, static=True)


def _driver(
    assembly: Assembly, target: AssemblyTarget, name: str, tries: Sequence[str], by_ends: str = ""
) -> c.Function:
    """From the entries of a kernel, in any order, to the result."""
    layout, kind = assembly.layout, target.entry_type
    names = _Names()
    columns = [c.Name(names[f"c {k}"]) for k in range(layout.rank)]
    body = _listed(target, columns, names, layout.rank)
    body += [*_combined(columns, kind, names), c.Declare(INT, "blocks", c.Int(0)), c.Declare(INT, "taken", c.Int(0))]
    if layout.is_pattern:
        body += _told_only(layout, kind, columns, names)
    first, mask, dropped = (c.Name(names[n]) for n in ("first alternative", "mask", "dropped entries"))
    status = c.Name("status")
    attempts = _attempts(assembly, target, tries, columns, first)
    again = [
        *attempts,
        c.If(c.Un("!", _unplaced(status)), c.Block((c.Break(),))),
        *_fewer(layout, kind, columns, mask, dropped),
    ]
    main: list[c.Stmt] = [
        c.Declare(VECTOR, mask.name, c.Name("NULL")),
        c.Declare(INT, dropped.name, c.Int(0)),
        *([c.Declare(VECTOR, first.name, c.Name("NULL"))] if _has_alternatives(assembly) else []),
        c.While(c.Name("true"), c.Block(tuple(again))),
        *[c.If(c.Bin("!=", status, c.Name(OK)), c.Block(tuple(_cleared(assembly, target))))],
        *_free_pool(),
        c.Return(c.Select(c.Bin("==", status, c.Name(TOGETHER)), c.Name(PLACE), status)),
    ]
    whole = [_with_pool(s) for s in (*_begun(by_ends), *body, *main)]
    params = (
        c.Param("const spfgen_appended *", "entries"),
        c.Param(f"{target.struct} *", "made"),
        c.Param("int", "threads"),
        c.Param(ALLOCATOR, "memory"),
    )
    doc = f"The result in layout {layout.name}, whose extents are set, of entries in any order."
    return c.Function("int", name, params, c.Block(tuple(whole)), doc, static=True)


def _begun(by_ends: str) -> list[c.Stmt]:
    """An empty pool, and what is tried before anything is listed."""
    pool, status = c.Name("pool"), c.Name("status")
    most = c.Select(c.Name("memory"), c.Field(c.Name("memory"), "max_workspace"), c.Int(0))
    head: list[c.Stmt] = [
        c.Declare("spfgen_pool", "pool", None, 1),
        c.Do(c.Call("memset", (pool, c.Int(0), c.Call("sizeof", (c.Name("spfgen_pool"),))))),
        c.Assign(c.Field(pool, "most"), "=", most),
        c.Declare("int", "status", c.Name(OK)),
    ]
    if by_ends:
        passed = tuple(c.Name(n) for n in ("entries", "made", "memory"))
        head += [
            c.Assign(status, "=", c.Call(by_ends, passed)),
            c.If(c.Bin("!=", status, c.Name(PLACE)), c.Block((c.Return(status),))),
            c.Assign(status, "=", c.Name(OK)),
        ]
    return head


def _attempts(
    assembly: Assembly, target: AssemblyTarget, tries: Sequence[str], columns: Sequence[c.Expr], first: c.Expr
) -> list[c.Stmt]:
    """One assembly after the other, until one has a place for all entries."""
    pool, count, values, result = (c.Name(n) for n in ("pool", "count", "values", "made"))
    status, address = c.Name("status"), c.Un("&", pool)
    lines: list[c.Stmt] = []
    for one, function in zip((assembly, *assembly.fallbacks), tries, strict=True):
        chosen = one.alternatives > 1
        given = [address, count, *columns, values, *([first] if chosen else []), result, c.Name("memory")]
        again: list[c.Stmt] = [
            *_cleared(assembly, target),
            c.Assign(c.Name("blocks"), "=", c.Field(address, "count")),
            c.Assign(c.Name("taken"), "=", c.Field(address, "taken")),
            c.Assign(status, "=", c.Call(function, tuple(given))),
            c.Do(c.Call("spfgen_pool_free", (address, c.Name("blocks"), c.Name("taken")))),
        ]
        attempt = again
        if chosen:
            attempt = [
                c.Assign(first, "=", c.Call("spfgen_vector", (address, count))),
                *no_memory_free(first),
                loop("q", c.Int(0), count, [c.Assign(c.Load(first, c.Name("q")), "=", c.Int(0))]),
                *again,
                c.While(c.Bin("==", status, c.Name(ELSEWHERE)), c.Block(tuple(again))),
            ]
        lines += [c.If(_unplaced(status), c.Block(tuple(attempt)))] if lines else attempt
    return lines


def _fewer(layout: Layout, kind: ElementType, columns: Sequence[c.Name], mask: c.Expr, dropped: c.Expr) -> list[c.Stmt]:
    """Without what equals the fill value; that ends the attempts where there is nothing of that kind."""
    count, values, status = c.Name("count"), c.Name("values"), c.Name("status")
    address = c.Un("&", c.Name("pool"))
    as_number = differs(c.Load(values, c.Name("q")), layout, kind, True)
    plain = differs(c.Load(values, c.Name("q")), layout, kind, False)
    together = c.Bin("==", status, c.Name(TOGETHER))
    kept = c.Select(c.Select(together, as_number, plain), c.Int(1), c.Int(0))
    lines: list[c.Stmt] = [
        c.Comment("what equals the fill value need not be stored"),
        c.Assign(mask, "=", c.Call("spfgen_vector", (address, count))),
        c.If(c.Un("!", mask), c.Block((c.Assign(status, "=", c.Name(MEMORY)), c.Break()))),
        loop("q", c.Int(0), count, [c.Assign(c.Load(mask, c.Name("q")), "=", kept)]),
        c.Assign(dropped, "=", c.Call("spfgen_dropped", (count, mask))),
        c.If(c.Bin("==", dropped, c.Int(0)), c.Block((c.Break(),))),
    ]
    for column, type_ in [*((x, INT) for x in columns), (values, kind.c)]:
        size = c.Call("sizeof", (c.Name(type_),))
        kept_rows = c.Call("spfgen_kept", (address, count, mask, column, size))
        lines += [c.Assign(column, "=", c.Cast(f"{type_} *", kept_rows)), *_memory_break(column, status)]
    return [*lines, c.Assign(count, "-=", dropped)]


def _has_alternatives(assembly: Assembly) -> bool:
    return any(a.alternatives > 1 for a in (assembly, *assembly.fallbacks))


def _with_pool(stmt: c.Stmt) -> c.Stmt:
    """The pool is an array of one: its name is its address."""
    from spfgen.ir import rewrite

    def rule(node: object) -> c.Expr | None:
        return c.Name("pool") if node == c.Un("&", c.Name("pool")) else None

    changed: c.Stmt = rewrite(rule, stmt)
    return changed


def _unplaced(status: c.Expr) -> c.Expr:
    return any_of([c.Bin("==", status, c.Name(PLACE)), c.Bin("==", status, c.Name(TOGETHER))])


def no_memory_free(pointer: c.Expr) -> list[c.Stmt]:
    return [c.If(c.Un("!", pointer), c.Block((*_free_pool(), c.Return(c.Name(MEMORY)))))]


def _memory_break(pointer: c.Expr, status: c.Expr) -> list[c.Stmt]:
    return [c.If(c.Un("!", pointer), c.Block((c.Assign(status, "=", c.Name(MEMORY)), c.Break())))]


def _free_pool() -> list[c.Stmt]:
    return [c.Do(c.Call("spfgen_pool_free", (c.Un("&", c.Name("pool")), c.Int(0), c.Int(0))))]


def _cleared(assembly: Assembly, target: AssemblyTarget) -> list[c.Stmt]:
    """Arrays that an attempt has made are given back."""
    lines: list[c.Stmt] = []
    for array in assembly.layout.arrays:
        field = c.Field(c.Name("made"), field_name(array))
        lines.append(c.Do(c.Call("spfgen_allocator_release", (c.Name("memory"), c.Cast("void *", field)))))
        lines.append(c.Assign(field, "=", c.Name("NULL")))
    return lines


def _listed(target: AssemblyTarget, columns: Sequence[c.Name], names: _Names, rank: int) -> list[c.Stmt]:
    """Columns of coordinates and values of all entries; an interval is one entry for each of its coordinates."""
    kind, entries = target.entry_type, c.Name("entries")
    pool = c.Un("&", c.Name("pool"))
    lines: list[c.Stmt] = [c.Declare(INT, "count", c.Field(entries, "count"))]
    for k, column in enumerate(columns):
        lines += [
            c.Declare(VECTOR, column.name, c.Call("spfgen_appended_column", (pool, entries, c.Int(k)))),
            *no_memory_free(column),
        ]
    entry_values = c.Cast(f"const {kind.c} *", c.Field(entries, "values"))
    if target.axis is None:
        return [*lines, c.Declare(f"const {kind.c} *", "given", entry_values)]
    last, total, to = (c.Name(names[n]) for n in ("last", "places", "to"))
    count, at = c.Name("count"), c.Name("q")
    wide = [c.Name(names[f"wide {k}"]) for k in range(rank)]
    lines += [
        c.Declare(VECTOR, last.name, c.Call("spfgen_appended_column", (pool, entries, c.Int(rank)))),
        *no_memory_free(last),
        c.Declare(INT, total.name, c.Int(0)),
        loop(
            "q",
            c.Int(0),
            count,
            [
                c.Assign(
                    total, "+=", c.Bin("+", c.Bin("-", c.Load(last, at), c.Load(columns[target.axis], at)), c.Int(1))
                )
            ],
        ),
    ]
    for wide_column in wide:
        lines += [
            c.Declare(VECTOR, wide_column.name, c.Call("spfgen_vector", (pool, total))),
            *no_memory_free(wide_column),
        ]
    spread = c.Name(names["spread"])
    taken = c.Call("spfgen_pool_take", (pool, total, c.Call("sizeof", (c.Name(kind.c),))))
    lines += [c.Declare(f"{kind.c} *", spread.name, c.Cast(f"{kind.c} *", taken)), *no_memory_free(spread),
              c.Declare(f"const {kind.c} *", names["each"], entry_values),
              c.Declare(INT, to.name, c.Int(0))]  # fmt: skip
    inner: list[c.Stmt] = [
        c.Assign(c.Load(wide_column, to), "=", c.Name("place") if k == target.axis else c.Load(columns[k], at))
        for k, wide_column in enumerate(wide)
    ]
    inner += [c.Assign(c.Load(spread, to), "=", c.Load(c.Name(names["each"]), at)), c.Assign(to, "+=", c.Int(1))]
    each = loop("place", c.Load(columns[target.axis], at), c.Bin("+", c.Load(last, at), c.Int(1)), inner)
    lines.append(loop("q", c.Int(0), count, [each]))
    lines += [c.Assign(c.Name(x.name), "=", wide_column) for x, wide_column in zip(columns, wide, strict=True)]
    return [*lines, c.Assign(count, "=", total), c.Declare(f"const {kind.c} *", "given", spread)]


def _combined(columns: Sequence[c.Name], kind: ElementType, names: _Names) -> list[c.Stmt]:
    """In the order of their coordinates, each once: those at one place add up."""
    rank, first, total = (c.Name(names[n]) for n in ("rank", "first", "total"))
    pool, count, q = c.Un("&", c.Name("pool")), c.Name("count"), c.Name("q")
    lines: list[c.Stmt] = [
        c.Declare(VECTOR, rank.name, c.Name("NULL")),
        c.Declare(VECTOR, first.name, c.Name("NULL")),
        c.Declare(INT, total.name, c.Int(0)),
    ]
    ranked: list[c.Stmt] = [c.Declare(f"const {INT} *", "column", None, max(1, len(columns)))]
    ranked += [c.Assign(c.Load(c.Name("column"), c.Int(k)), "=", v) for k, v in enumerate(columns or [c.Name("NULL")])]
    call = c.Call("spfgen_ranks", (pool, count, c.Int(len(columns)), c.Name("column"),
                                   *(c.Un("&", x) for x in (rank, first, total))))  # fmt: skip
    ranked.append(c.If(c.Un("!", call), c.Block((*_free_pool(), c.Return(c.Name(MEMORY))))))
    lines.append(c.Braces(c.Block(tuple(ranked))))
    sums = c.Name(names["sums"])
    taken = c.Call("spfgen_pool_take", (pool, total, c.Call("sizeof", (c.Name(kind.c),))))
    lines += [c.Declare(f"{kind.c} *", sums.name, c.Cast(f"{kind.c} *", taken)), *no_memory_free(sums)]
    given = c.Name("given")
    target = c.Load(sums, c.Load(rank, q))
    own_value = c.Load(given, q)
    added = (
        c.Assign(target, "=", c.Bin("||", target, own_value)) if kind.kind == "b" else c.Assign(target, "+=", own_value)
    )
    is_first = c.Bin("==", c.Load(first, c.Load(rank, q)), q)
    lines.append(
        loop("q", c.Int(0), count, [c.If(is_first, c.Block((c.Assign(target, "=", own_value),)), c.Block((added,)))])
    )
    for k, column in enumerate(columns):
        once = c.Name(names[f"once {k}"])
        lines += [c.Declare(VECTOR, once.name, c.Call("spfgen_vector", (pool, total))), *no_memory_free(once)]
        lines.append(loop("q", c.Int(0), total, [c.Assign(c.Load(once, q), "=", c.Load(column, c.Load(first, q)))]))
        lines.append(c.Assign(column, "=", once))
    return [*lines, c.Assign(count, "=", total), c.Declare(f"{kind.c} *", "values", sums)]


def _told_only(layout: Layout, kind: ElementType, columns: Sequence[c.Name], names: _Names) -> list[c.Stmt]:
    """In a layout without values: what is not the fill value, as 1s."""
    count, values, q = c.Name("count"), c.Name("values"), c.Name("q")
    told = c.Name(names["told"])
    lines: list[c.Stmt] = [c.Declare(INT, told.name, c.Int(0))]
    as_number = layout.fill_text == "0"
    moved = [c.Assign(c.Load(x, told), "=", c.Load(x, q)) for x in columns]
    kept = [*moved, c.Assign(c.Load(values, told), "=", constant(1, kind)), c.Assign(told, "+=", c.Int(1))]
    holds = differs(c.Load(values, q), layout, kind, as_number)
    return [*lines, loop("q", c.Int(0), count, [c.If(holds, c.Block(tuple(kept)))]), c.Assign(count, "=", told)]

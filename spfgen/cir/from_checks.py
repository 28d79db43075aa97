"""The checks of a layout (layout/checks.py) in C: a function for each, and one that calls them all.

Whether a value is wrong is collected without branches, so that plain loops are vectorised; where a range of values
holds a wrong one, it is run through again for the first. Every read is within its array, whatever the arrays hold:
that follows from the bounds of the loops, or is asked before the read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from spfgen.cir import nodes as c
from spfgen.cir.names import identifier
from spfgen.errors import InternalError
from spfgen.facts.formula import (
    NEGATED,
    And,
    Bin,
    Call,
    Compare,
    Exists,
    Expr,
    Forall,
    Formula,
    Not,
    Num,
    Or,
    Var,
    calls,
    conjunction,
    show,
)
from spfgen.ir import fresh, walk
from spfgen.lang.types import KEYWORDS, TYPES
from spfgen.layout.checks import Check, Groups, Part, Segments
from spfgen.layout.loops import Loop, scan
from spfgen.layout.nodes import Layout
from spfgen.sets.affine import NotAffine, affine, expression

INT = "int64_t"
HOLDS, BROKEN, UNCHECKED, MEMORY = "SPFGEN_HOLDS", "SPFGEN_BROKEN", "SPFGEN_UNCHECKED", "SPFGEN_MEMORY"
KNOWN = frozenset({HOLDS, BROKEN, UNCHECKED, MEMORY, "INT64_MAX", "INT32_MAX", "NULL", "int64_t", "uint64_t"})
CHUNK = 64
"""So many values of an outer loop are given to a thread at a time."""
QUICK = 16
"""A plain check looks at so many values in the time that a kernel takes for one: a team of threads pays later."""
BLOCK = 1024
"""So many segments are looked at together: their places stay in a near cache."""


def check_functions(layout: Layout, checks: Sequence[Check], kinds: Mapping[str, str], name: str) -> list[c.Function]:
    """A function for each check of the layout and, the last, `name`, which makes them all; `kinds` are the types of the
    index arrays.

    `name` takes sizes, index arrays, `limit` (how much work is too much, where it is not bounded by the sizes of the
    arrays), `threads` and `report`: there it leaves the number of the first check that fails, or -1; in the places
    from 1 on the values of its variables; behind them, for each check, whether it was not made in full.
    """
    functions: list[c.Function | None] = [None] * len(checks)
    riding = {id(f) for check in checks for f in check.along}
    for k, check in enumerate(checks):
        if id(check.fact) not in riding:
            functions[k] = _Writer(layout, kinds, name, k, checks[k - len(check.along) : k + 1]).function()
    return [*(f for f in functions if f), _all(layout, checks, kinds, name, functions)]


def places(checks: Sequence[Check]) -> int:
    """The most variables that a check has: so many places of a report hold their values."""
    return max((len(check.names) for check in checks), default=0)


def _all(
    layout: Layout, checks: Sequence[Check], kinds: Mapping[str, str], name: str, functions: Sequence[c.Function | None]
) -> c.Function:
    names = _Names(layout, name)
    report = c.Name(names.report)
    lines: list[c.Stmt] = [c.Assign(c.Load(report, c.Int(0)), "=", c.Int(-1))]
    lines.append(c.Declare("int", names.status, c.Name(HOLDS)))
    flags = 1 + places(checks)
    for k, (check, function) in enumerate(zip(checks, functions, strict=True)):
        lines.append(c.Comment(f"{check.array}: {check.fact.text}; {check.because}"))
        if function is None:  # the next one sees to it
            continue
        call = c.Call(function.name, tuple(c.Name(p.name) for p in function.params))
        lines.append(c.Assign(c.Name(names.status), "=", call))
        failed = c.Bin("||", _is(names.status, BROKEN), _is(names.status, MEMORY))
        lines.append(c.If(failed, c.Block((c.Return(c.Name(names.status)),))))
        lines.append(c.Assign(c.Load(report, c.Int(flags + k)), "=", _is(names.status, UNCHECKED)))
    used = {n.name for s in lines for n in walk(s) if isinstance(n, c.Name)}
    params = _params(layout, kinds, names)
    lines = [c.Do(c.Cast("void", c.Name(p.name))) for p in params if p.name not in used] + lines
    lines.append(c.Return(c.Name(HOLDS)))
    doc = f"Whether index arrays satisfy all that layout {layout.name} declares of them; they may hold anything."
    doc += f"\n\nReturns {HOLDS}, {BROKEN} or {MEMORY}."
    return c.Function("int", name, tuple(params), c.Block(tuple(lines)), doc)


def _is(name: str, value: str) -> c.Expr:
    return c.Bin("==", c.Name(name), c.Name(value))


def _params(layout: Layout, kinds: Mapping[str, str], names: _Names) -> list[c.Param]:
    params = [c.Param(INT, names[n]) for n in (*layout.parameters, *layout.sizes)]
    for index in layout.indexes:
        shape = "".join(f"[{show(e)}]" for e in index.extents)
        params.append(c.Param(f"const {TYPES[kinds[index.name]].c} *", names[index.name], shape))
    params.append(c.Param(INT, names.limit, "give up a check that is not linear after so many instances"))
    params.append(c.Param("int", names.threads, "threads to use; 0 or less leaves the choice to OpenMP"))
    about = (
        "number of the check that failed, or -1; the values of its variables; for each check, whether it was not made"
    )
    params.append(c.Param(f"{INT} *", names.report, about))
    return params


Bounds = tuple[list[c.Stmt], c.Expr, c.Expr]
"""Declarations, from where on a loop runs, and before which value it ends."""


class _Names:
    """C names of sizes and arrays, and fresh ones."""

    def __init__(self, layout: Layout, name: str) -> None:
        self.taken = {*KEYWORDS, *KNOWN, name}
        self.variables: dict[str, str] = {}
        self.table = {n: self.new(n) for n in (*layout.parameters, *layout.sizes, *(a.name for a in layout.indexes))}
        self.limit, self.threads = self.new("limit"), "threads"
        self.report, self.status = self.new("report"), self.new("status")

    def new(self, wanted: str) -> str:
        name = fresh(identifier(wanted), self.taken)
        self.taken.add(name)
        return name

    def of(self, variable: str) -> str:
        """The same name each time: for what is never declared inside of its own scope."""
        if variable not in self.variables:
            self.variables[variable] = self.new(variable)
        return self.variables[variable]

    def __getitem__(self, name: str) -> str:
        return self.table[name]


class _Writer:
    """Writes the function of one check."""

    def __init__(
        self, layout: Layout, kinds: Mapping[str, str], name: str, number: int, checks: Sequence[Check]
    ) -> None:
        """The last of the checks has the number; those before it are made along with it."""
        *self.along, check = checks
        self.layout = layout
        self.number = number
        self.kinds = kinds
        self.check = check
        self.extents = {a.name: a.extents for a in layout.indexes}
        self.names = _Names(layout, name)
        self.name = self.names.new(f"{name}_{number + 1}")
        self.limit, self.threads, self.report = self.names.limit, self.names.threads, self.names.report
        self.work = self.names.new("work")
        self.scope: dict[str, c.Expr] = {}
        self.counted = False
        self.is_parallel = False
        self.lengths: dict[Expr, str] = {}
        self.narrowed: dict[Expr, str] = {}

    def function(self) -> c.Function:
        body: list[c.Stmt] = []
        if self.along and not isinstance(self.check.parts[0], Segments):
            body += self.fused()
        for part in self.check.parts if not body else ():
            self.scope = {}
            made = self.groups(part) if isinstance(part, Groups) else self.part(part)
            body.append(c.Scope(c.Block(tuple(made))) if len(self.check.parts) > 1 else c.Block(tuple(made)))
        body.append(c.Return(c.Name(HOLDS if self.check.parts else UNCHECKED)))
        body[:0] = [c.Declare(f"const {INT}", n, self.expr(e)) for e, n in self.lengths.items()]
        for bound, name in self.narrowed.items():
            most = c.Call("spfgen_min", (self.expr(bound), c.Name("INT32_MAX")))
            body.insert(0, c.Declare("const int32_t", name, c.Cast("int32_t", most)))
        if self.is_parallel:
            hashed = any(isinstance(part, Groups) for part in self.check.parts)
            share = self.total() if hashed else c.Bin("/", self.total(), c.Int(QUICK))
            threads = c.Call("spfgen_threads", (c.Name(self.threads), share))
            body.insert(0, c.Assign(c.Name(self.threads), "=", threads))
        used = {n.name for s in body for n in walk(s) if isinstance(n, c.Name)}
        params = [c.Param(INT, self.names[n]) for n in (*self.layout.parameters, *self.layout.sizes)]
        for index in self.layout.indexes:
            params.append(c.Param(f"const {TYPES[self.kinds[index.name]].c} *restrict", self.names[index.name]))
        params += [c.Param(INT, self.limit), c.Param("int", self.threads), c.Param(f"{INT} *", self.report)]
        doc = "\n".join(f"{k.array}: {k.fact.text}; {k.because}" for k in (*self.along, self.check))
        wanted = tuple(p for p in params if p.name in used)
        return c.Function("int", self.name, wanted, c.Block(tuple(body)), doc, static=True)

    def total(self) -> c.Expr:
        """About how much there is to look at: the sizes of the arrays that are looked at."""
        found: c.Expr | None = None
        for function in dict.fromkeys(
            n.function for k in (*self.along, self.check) for n in walk(k.body) if isinstance(n, Call)
        ):
            size: c.Expr | None = None
            for extent in self.extents[function]:
                own = self.expr(extent, True)
                size = own if size is None else c.Bin("*", size, own)
            found = size if found is None or size is None else c.Bin("+", found, size)
        return found or c.Int(0)

    # --- instances one by one -----------------------------------------------------------------------

    def part(self, part: Part) -> list[c.Stmt]:
        """Run through all values in parallel; the values of the first instance that is wrong are kept."""
        found = part.scan
        if isinstance(part, Segments):
            return self.segments(part)
        if not found.loops:
            return self.alone(part)
        if len(found.loops) == 1 and not _has_quantifier(found.body):
            return self.single(part, found.loops[0])
        return self.nest(part)

    def alone(self, part: Part) -> list[c.Stmt]:
        """A fact without variables."""
        lines, wrong = self.wrong(part.scan.body, part.scan.guards)
        return self.within(part.scan.before, [*lines, c.If(wrong, c.Block(tuple(self.failed())))])

    def single(self, part: Part, loop: Loop) -> list[c.Stmt]:
        """One loop: whether there is a wrong instance, then where the first is."""
        broken = self.names.of("broken")
        lines, low, high = self.bounds(loop)
        variable = self.names.of(loop.variable)
        self.scope = {loop.variable: c.Name(variable)}
        more, wrong = self.wrong(part.scan.body, part.scan.guards)
        collect = c.Block((*more, c.Assign(c.Name(broken), "|=", wrong)))
        leave = c.Block((*more, c.If(wrong, c.Block((*self.kept(part), *self.failed())))))
        less = c.Bin("<", c.Name(variable), high)
        pragma = self.parallel(f"reduction(| : {broken})")
        lines += [
            c.Declare("int", broken, c.Int(0)),
            c.Comment(f"whether it is wrong for some {loop.variable}"),
            c.For(INT, variable, low, less, 1, collect, (pragma,)),
            c.Comment("the first that is wrong"),
            c.If(c.Name(broken), c.Block((c.For(INT, variable, low, less, 1, leave),))),
        ]
        return self.within(part.scan.before, lines)

    def fused(self) -> list[c.Stmt]:
        """Several checks of one loop in one pass: over the places that all look at, then over those at the ends."""
        checks = [*self.along, self.check]
        parts = [k.parts[0] for k in checks]
        loops = [p.scan.loops[0] for p in parts]
        variable = self.names.of(loops[0].variable)
        flags = [self.names.of(f"broken_{k + 1}") for k in range(len(checks))]
        low = max((loop.low[0] for loop in loops), key=_constant)
        high = min((loop.high[0] for loop in loops), key=_constant)
        wrongs: list[c.Expr] = []
        kept: list[list[c.Stmt]] = []
        for part, loop in zip(parts, loops, strict=True):
            assert isinstance(part, Part)
            self.scope = {loop.variable: c.Name(variable)}
            wrongs.append(self.wrong(part.scan.body, ())[1])
            kept.append(self.kept(part))
        self.scope = {}
        lines: list[c.Stmt] = [c.Declare("int", flag, c.Int(0)) for flag in flags]

        def run(start: c.Expr, end: Expr, body: Sequence[c.Stmt], pragma: str = "") -> c.Stmt:
            less = c.Bin("<", c.Name(variable), self.expr(end))
            return c.For(INT, variable, start, less, 1, c.Block(tuple(body)), (pragma,) if pragma else ())

        each = [c.Assign(c.Name(flag), "|=", wrong) for flag, wrong in zip(flags, wrongs, strict=True)]
        lines.append(c.Comment(f"which of them are wrong for some {loops[0].variable}"))
        lines.append(run(self.expr(low), high, each, self.parallel(f"reduction(| : {', '.join(flags)})")))
        for loop, one in zip(loops, each, strict=True):
            if loop.low[0] != low:
                lines.append(run(self.expr(loop.low[0]), Bin("min", low, loop.high[0]), [one]))
            if loop.high[0] != high:
                start = c.Call("spfgen_max", (self.expr(loop.low[0]), self.expr(high)))
                lines.append(run(start, loop.high[0], [one]))
        lines.append(c.Comment("the first place where the first of them is wrong"))
        for k, loop in enumerate(loops):
            leave = c.If(wrongs[k], c.Block((*kept[k], *self.failed(back=len(loops) - 1 - k))))
            again = run(self.expr(loop.low[0]), loop.high[0], [leave])
            lines.append(c.If(c.Name(flags[k]), c.Block((again,))))
        return lines

    def kept(self, part: Part) -> list[c.Stmt]:
        """Note the values of the fact's variables."""
        return [
            c.Assign(c.Load(c.Name(self.report), c.Int(1 + k)), "=", self.expr(e))
            for k, (_, e) in enumerate(part.values)
        ]

    def failed(self, status: str = BROKEN, back: int = 0) -> list[c.Stmt]:
        """Leave: this check, or the one so many before, has failed."""
        number = c.Assign(c.Load(c.Name(self.report), c.Int(0)), "=", c.Int(self.number - back))
        return [number, c.Return(c.Name(status))]

    def nest(self, part: Part) -> list[c.Stmt]:
        """Loops in loops: for each value of the outermost, whether an instance is wrong, then where the first is."""
        outer, *inner = part.scan.loops
        first, broken = self.names.of("first"), self.names.of("broken")
        self.counted = not self.check.is_linear

        def collect() -> list[c.Stmt]:
            more, wrong = self.wrong(part.scan.body, part.scan.guards)
            if self.counted and _has_quantifier(part.scan.body):  # what was not looked for was not found
                wrong = c.Bin("&&", wrong, c.Bin("<=", c.Name(self.work), c.Name(self.limit)))
            return [*more, c.Assign(c.Name(broken), "|=", wrong)]

        def search() -> list[c.Stmt]:
            return self.search(part, outer, first)

        def row() -> list[c.Stmt]:
            bounds = self.bounds(inner[0]) if inner else None
            lines: list[c.Stmt] = [*bounds[0]] if bounds else []
            lines += [c.Declare("int", broken, c.Int(0)), *self.loops(inner, collect, known=bounds)]
            counted, self.counted = self.counted, False
            again = c.Scope(c.Block(tuple(self.loops(inner, search, known=bounds))))
            self.counted = counted
            where = c.Comment(f"the first that is wrong; of several values of {outer.variable} the least")
            return [*lines, where, c.If(c.Name(broken), c.Block((c.Pragma("omp critical"), again)))]

        names = ", ".join(loop.variable for loop in inner) or "value inside"
        about = c.Comment(f"for every {outer.variable}, whether it is wrong for some {names}")
        lines: list[c.Stmt] = [c.Declare(INT, first, c.Name("INT64_MAX")), *self.counter(), about]
        lines += self.within(part.scan.before, self.loops([outer], row, self.shared()))
        lines.append(c.If(c.Bin("<", c.Name(first), c.Name("INT64_MAX")), c.Block(tuple(self.failed()))))
        return [*lines, *self.too_much()]

    def search(self, part: Part, outer: Loop, first: str) -> list[c.Stmt]:
        """Keep the values of an instance that is wrong, if that of the outer loop is less than `first`."""
        more, wrong = self.wrong(part.scan.body, part.scan.guards)
        at = self.scope[outer.variable]
        new = c.Bin("&&", c.Bin("<", at, c.Name(first)), wrong)
        return [*more, c.If(new, c.Block((c.Assign(c.Name(first), "=", at), *self.kept(part))))]

    def parallel(self, clauses: str) -> str:
        self.is_parallel = True
        return f"omp parallel for num_threads({self.threads}) {clauses}"

    def shared(self) -> str:
        """The pragma of an outer loop over work of any size."""
        work = f" reduction(+ : {self.work})" if self.counted else ""
        return self.parallel(f"schedule(dynamic, {CHUNK}){work}")

    def counter(self) -> list[c.Stmt]:
        return [c.Declare(INT, self.work, c.Int(0))] if self.counted else []

    def too_much(self) -> list[c.Stmt]:
        if not self.counted:
            return []
        over = c.Bin(">", c.Name(self.work), c.Name(self.limit))
        self.counted = False
        return [c.If(over, c.Block((c.Return(c.Name(UNCHECKED)),)))]

    # --- segments -----------------------------------------------------------------------------------

    def segments(self, part: Segments) -> list[c.Stmt]:
        """Blocks of segments: what is wrong in a block is counted without regard to segments, then between them."""
        outer, inner = part.scan.loops
        first, block, stop = self.names.of("first"), self.names.of("block"), self.names.of("stop")
        variable, place = self.names.of(outer.variable), self.names.of(inner.variable)
        start, end = self.names.of(f"{inner.variable}_first"), self.names.of(f"{inner.variable}_stop")
        wrong, between = self.names.of("wrong"), self.names.of("between")
        bounds, low, high = self.bounds(outer)
        clip_low, clip_high = self.extreme("spfgen_max", part.clip.low), self.extreme("spfgen_min", part.clip.high)

        def at(e: Expr, value: c.Expr) -> c.Expr:
            self.scope = {outer.variable: value}
            found = self.expr(e, True)
            self.scope = {}
            return found

        def bad(counter: str) -> c.Stmt:
            self.scope = {inner.variable: c.Name(place)}
            _, found = self.wrong(part.scan.body, ())
            self.scope = {}
            return c.Assign(c.Name(counter), "+=", found)

        last = c.Bin("-", c.Name(stop), c.Int(1))
        furthest = Bin("max", part.low, part.high)
        less = c.Bin("<", c.Name(place), c.Name(end))
        flat: list[c.Stmt] = [
            c.Declare(f"const {INT}", start, c.Call("spfgen_max", (clip_low, at(part.low, c.Name(block))))),
            c.Declare(f"const {INT}", end, c.Call("spfgen_min", (clip_high, at(furthest, last)))),
            c.Comment(f"how many are wrong in the block, wherever its values of {outer.variable} begin and end"),
            c.Declare("int", wrong, c.Int(0)),
            c.For(INT, place, c.Name(start), less, 1, bad(wrong)),
        ]
        own, following = c.Name(variable), c.Bin("+", c.Name(variable), c.Int(1))
        gap = self.names.of(f"{inner.variable}_next")
        begin = c.Call("spfgen_max", (clip_low, at(furthest, own)))
        begins = c.Declare(f"const {INT}", gap, c.Call("spfgen_min", (clip_high, at(part.low, following))))
        in_gap = c.Bin("<", c.Name(place), c.Name(gap))
        inside: list[c.Stmt] = [begins]
        if part.is_close:
            inside += [c.Declare(f"const {INT}", place, begin), c.If(in_gap, c.Block((bad(between),)))]
        else:
            inside.append(c.For(INT, place, begin, in_gap, 1, bad(between)))
        flat += [
            c.Comment(f"how many of them are between one value of {outer.variable} and the next"),
            c.Declare("int", between, c.Int(0)),
            c.For(INT, variable, c.Name(block), c.Bin("<", own, last), 1, c.Block(tuple(inside))),
        ]
        self.scope = {outer.variable: own}
        rows = self.loops([inner], lambda: self.search(part, outer, first))
        self.scope = {}
        again = c.For(INT, variable, c.Name(block), c.Bin("<", own, c.Name(stop)), 1, c.Block(tuple(rows)))
        beyond = c.Bin(">", c.Bin("-", c.Name(end), c.Name(start)), c.Name("INT32_MAX"))
        differ = c.Bin("||", c.Bin("!=", c.Name(wrong), c.Name(between)), beyond)
        flat.append(c.If(differ, c.Block((c.Pragma("omp critical"), c.Scope(c.Block((again,)))))))

        before, riding, after = self.riding(part, outer, (low, high), (block, stop))
        more = c.Bin("<", c.Name(block), high)
        until = c.Call("spfgen_min", (high, c.Bin("+", c.Name(block), c.Int(BLOCK))))
        body = [c.Declare(f"const {INT}", stop, until), *riding, *flat]
        pragma = self.parallel("schedule(dynamic)")
        return [
            *bounds,
            c.Declare(INT, first, c.Name("INT64_MAX")),
            *before,
            c.Comment(f"blocks of {BLOCK} values of {outer.variable}: {self.check.fact.text}"),
            c.For(INT, block, low, more, BLOCK, c.Block(tuple(body)), (pragma,)),
            *after,
            c.If(c.Bin("<", c.Name(first), c.Name("INT64_MAX")), c.Block(tuple(self.failed()))),
        ]

    def riding(
        self, part: Segments, outer: Loop, ends: tuple[c.Expr, c.Expr], names: tuple[str, str]
    ) -> tuple[list[c.Stmt], list[c.Stmt], list[c.Stmt]]:
        """The range that is checked along with segments: what stands before the loop over blocks, in it, and after it.

        From the first place of a block to the first of the next; the first and the last block reach to the ends.
        """
        if not self.along:
            return [], [], []
        (along,) = self.along
        (own,) = along.parts
        assert isinstance(own, Part)
        (loop,) = own.scan.loops
        block, stop = names
        least, outside = self.names.of("least"), self.names.of("outside")
        place = self.names.of(loop.variable)
        start, end = self.names.of("part_start"), self.names.of("part_end")
        lines, low, high = self.bounds(loop)

        def first(value: str) -> c.Expr:
            self.scope = {outer.variable: c.Name(value)}
            found = self.expr(part.low, True)
            self.scope = {}
            return found

        self.scope = {loop.variable: c.Name(place)}
        _, wrong = self.wrong(own.scan.body, ())
        self.scope = {loop.variable: c.Name(least)}
        kept = self.kept(own)
        self.scope = {}

        def search(from_: c.Expr, to: c.Expr) -> c.Stmt:
            new = c.Bin("&&", c.Bin("<", c.Name(place), c.Name(least)), wrong)
            note = c.If(new, c.Block((c.Assign(c.Name(least), "=", c.Name(place)),)))
            return c.For(INT, place, from_, c.Bin("<", c.Name(place), to), 1, c.Block((note,)))

        here = c.Call("spfgen_max", (low, first(block)))
        there = c.Call("spfgen_min", (high, first(stop)))
        inside = c.Bin("<", c.Name(place), c.Name(end))
        again = c.Block((c.Pragma("omp critical"), c.Scope(c.Block((search(c.Name(start), c.Name(end)),)))))
        riding: list[c.Stmt] = [
            c.Comment(f"{along.array}: {along.fact.text}"),
            c.Declare(f"const {INT}", start, c.Select(c.Bin("==", c.Name(block), ends[0]), low, here)),
            c.Declare(f"const {INT}", end, c.Select(c.Bin("==", c.Name(stop), ends[1]), high, there)),
            c.Declare("int", outside, c.Int(0)),
            c.For(INT, place, c.Name(start), inside, 1, c.Assign(c.Name(outside), "|=", wrong)),
            c.If(c.Name(outside), again),
        ]
        empty = c.If(c.Bin(">=", ends[0], ends[1]), c.Block((search(low, high),)))
        failed = c.Block((*kept, *self.failed(back=1)))
        after = c.If(c.Bin("<", c.Name(least), c.Name("INT64_MAX")), failed)
        return [*lines, c.Declare(INT, least, c.Name("INT64_MAX")), empty], riding, [after]

    # --- pairs with equal keys ----------------------------------------------------------------------

    def groups(self, part: Groups) -> list[c.Stmt]:
        """Each value of the last loop is compared with the last one before it that has the same keys, by a hash table.

        One loop: each thread has the keys of a part of the table. Loops around it: each thread has a table.
        """
        *outer, loop = part.scan.loops
        self.counted = bool(outer) and not self.check.is_linear
        found, table = self.names.of("found"), self.names.of("table")
        count, slots, shift = self.names.of("count"), self.names.of("slots"), self.names.of("shift")
        names = (found, table, count, slots, shift)
        lines: list[c.Stmt] = [c.Declare(INT, found, c.Name("INT64_MAX")), *self.counter()]
        lines += self.tables(part, outer, loop, names) if outer else self.one_table(part, loop, names)
        lines.append(c.Do(c.Call("free", (c.Name(table),))))
        lines.append(c.If(c.Bin("<", c.Name(found), c.Name("INT64_MAX")), c.Block(tuple(self.failed()))))
        lines += self.too_much()
        return self.within(part.scan.before, lines)

    def table_of(self, words: c.Expr, threads: c.Expr, table: str) -> list[c.Stmt]:
        memory = c.Call("spfgen_workspace", (words, threads, c.Call("sizeof", (c.Name("int64_t"),))))
        missing = c.If(c.Un("!", c.Name(table)), c.Block(tuple(self.failed(MEMORY))))
        return [c.Declare(f"{INT} *", table, memory), missing]

    def sized(self, loop: Loop, count: str) -> tuple[list[c.Stmt], c.Expr, c.Expr]:
        """(lines, low, high) of a loop, with the number of its values."""
        lines, low, high = self.bounds(loop)
        length = high if low == c.Int(0) else c.Bin("-", high, low)
        return [*lines, c.Declare(f"const {INT}", count, length)], low, high

    def one_table(self, part: Groups, loop: Loop, names: tuple[str, ...]) -> list[c.Stmt]:
        found, table, count, slots, shift = names
        lines, low, high = self.sized(loop, count)
        hold = c.If(c.Bin("<=", c.Name(count), c.Int(0)), c.Block((c.Return(c.Name(HOLDS)),)))
        lines += [hold, *self.in_set(part, low, high, (found, count)), *_slots(count, shift, slots)]
        lines += self.table_of(c.Bin("+", c.Name(slots), c.Name(count)), c.Int(1), table)
        number, start, end = self.names.of("part"), self.names.of("slot_start"), self.names.of("slot_end")
        own: list[c.Stmt] = [
            c.Comment("the keys whose slots are in this part"),
            *_share(slots, self.threads, number, (start, end)),
            *self.chained(part, loop, low, high, (found, table, slots, shift), (start, end)),
        ]
        more = c.Bin("<", c.Name(number), c.Name(self.threads))
        pragma = self.parallel("schedule(static, 1)")
        return [*lines, c.For("int", number, c.Int(0), more, 1, c.Block(tuple(own)), (pragma,))]

    def in_set(self, part: Groups, low: c.Expr, high: c.Expr, names: tuple[str, str]) -> list[c.Stmt]:
        """Where keys lie close together and no two may be equal: a bit for each; a thread has a part of the words."""
        if part.limits is None:
            return []
        found, count = names
        span, words, bits, number, start, end, key, word, bit = (
            self.names.of(n) for n in ("span", "words", "bits", "part", "word_start", "word_end", "key", "word", "bit")
        )
        at, before = self.names.of(part.second), self.names.of(part.first)
        least, limit = (self.expr(e) for e in part.limits)

        def key_at(place: str) -> c.Expr:
            self.scope = {part.first: c.Name(place)}
            loaded = self.expr(part.keys[0])
            self.scope = {}
            return loaded

        inside = c.Bin("&&", c.Bin(">=", c.Name(key), least), c.Bin("<", c.Name(key), limit))
        place = c.Name(key) if least == c.Int(0) else c.Bin("-", c.Name(key), least)
        of_word = c.Select(inside, c.Bin("/", place, c.Int(64)), c.Int(-1))
        mine = c.Bin("&&", c.Bin(">=", c.Name(word), c.Name(start)), c.Bin("<", c.Name(word), c.Name(end)))
        shifted = c.Bin("<<", c.Cast("uint64_t", c.Int(1)), c.Bin("%", place, c.Int(64)))
        held = c.Load(c.Name(bits), c.Name(word))
        earlier = c.If(c.Bin("<", c.Name(at), c.Name(found)), c.Block((c.Assign(c.Name(found), "=", c.Name(at)),)))
        again = c.Block((c.Pragma("omp critical"), c.Scope(c.Block((earlier,)))))
        seen: list[c.Stmt] = [
            c.Declare("const uint64_t", bit, shifted),
            c.If(c.Bin("!=", c.Bin("&", held, c.Name(bit)), c.Int(0)), again),
            c.Assign(held, "|=", c.Name(bit)),
        ]
        look: list[c.Stmt] = [
            c.Declare(f"const {INT}", key, key_at(at)),
            c.Declare(f"const {INT}", word, of_word),
            c.If(mine, c.Block(tuple(seen))),
        ]
        parts = _share(words, self.threads, number, (start, end))
        all_keys = c.For(INT, at, low, c.Bin("<", c.Name(at), high), 1, c.Block(tuple(look)))
        more = c.Bin("<", c.Name(number), c.Name(self.threads))
        own = c.Block((c.Comment("the keys whose bits are in this part"), *parts, all_keys))
        pragma = self.parallel("schedule(static, 1)")
        self.scope = {part.first: c.Name(before), part.second: c.Name(found)}
        values = [self.expr(Var(n)) for n in self.check.names]
        self.scope = {}
        kept = [c.Assign(c.Load(c.Name(self.report), c.Int(1 + k)), "=", e) for k, e in enumerate(values)]
        equal = c.Bin("==", key_at(before), key_at(found))
        first = c.If(equal, c.Block((*kept, *self.failed())))
        other = c.For(INT, before, low, c.Bin("<", c.Name(before), c.Name(found)), 1, c.Block((first,)))
        memory = c.Call("spfgen_workspace", (c.Name(words), c.Int(1), c.Call("sizeof", (c.Name("uint64_t"),))))
        missing = c.If(c.Un("!", c.Name(bits)), c.Block(tuple(self.failed(MEMORY))))
        body: list[c.Stmt] = [
            c.Comment("the keys lie close together: a bit for each of them"),
            c.Declare(f"const {INT}", words, c.Bin("+", c.Bin("/", c.Name(span), c.Int(64)), c.Int(1))),
            c.Declare("uint64_t *", bits, memory),
            missing,
            c.For("int", number, c.Int(0), more, 1, own, (pragma,)),
            c.Do(c.Call("free", (c.Name(bits),))),
            c.If(c.Bin("<", c.Name(found), c.Name("INT64_MAX")), c.Block((other,))),
            c.Return(c.Name(HOLDS)),
        ]
        length = limit if least == c.Int(0) else c.Bin("-", limit, least)
        close = c.Bin("<=", c.Bin("/", c.Name(span), c.Int(64)), c.Name(count))
        return [c.Declare(f"const {INT}", span, length), c.If(close, c.Block(tuple(body)))]

    def tables(self, part: Groups, outer: Sequence[Loop], loop: Loop, names: tuple[str, ...]) -> list[c.Stmt]:
        found, table, count, slots, shift = names
        longest, size, own, k = (self.names.of(n) for n in ("longest", "size", "own", "k"))

        def measure() -> list[c.Stmt]:
            lines, _, _ = self.sized(loop, count)
            higher = c.Bin(">", c.Name(count), c.Name(longest))
            return [*lines, c.If(higher, c.Block((c.Assign(c.Name(longest), "=", c.Name(count)),)))]

        def row() -> list[c.Stmt]:
            lines, low, high = self.sized(loop, count)
            wanted: c.Expr = c.Bin(">", c.Name(count), c.Int(1))
            if self.counted:
                lines.append(self.counting(low, high))
                wanted = c.Bin("&&", wanted, c.Bin("<=", c.Name(self.work), c.Name(self.limit)))
            place = c.Bin("+", c.Name(table), c.Bin("*", c.Call("spfgen_thread", ()), c.Name(size)))
            less = c.Bin("<", c.Name(k), c.Bin("+", c.Name(slots), c.Name(count)))
            doing: list[c.Stmt] = [
                c.Declare(f"{INT} *", own, place),
                *_slots(count, shift, slots),
                c.For(INT, k, c.Int(0), less, 1, c.Assign(c.Load(c.Name(own), c.Name(k)), "=", c.Int(0))),
                *self.chained(part, loop, low, high, (found, own, slots, shift), None, outer[0].variable),
            ]
            return [*lines, c.If(wanted, c.Block(tuple(doing)))]

        lines: list[c.Stmt] = [c.Declare(INT, longest, c.Int(0))]
        counted, self.counted = self.counted, False
        lines += self.loops(outer, measure, self.parallel(f"reduction(max : {longest})"))
        self.counted = counted
        lines.append(
            c.Declare(f"const {INT}", size, c.Bin("+", c.Call("spfgen_chains", (c.Name(longest),)), c.Name(longest)))
        )
        lines += self.table_of(c.Name(size), c.Name(self.threads), table)
        return [*lines, *self.loops(outer, row, self.shared())]

    def chained(
        self,
        part: Groups,
        loop: Loop,
        low: c.Expr,
        high: c.Expr,
        names: tuple[str, str, str, str],
        share: tuple[str, str] | None,
        outer: str = "",
    ) -> list[c.Stmt]:
        """The loop over a range: links hold places counted from its start, plus one."""
        found, table, slots, shift = names
        slot, link, hash_name = self.names.of("slot"), self.names.of("link"), self.names.of("hash")
        at, before = self.names.of(part.second), self.names.of(part.first)
        scope = self.scope
        self.scope = {**scope, part.first: c.Name(at)}
        keys = [self.expr(k) for k in part.keys]
        lines: list[c.Stmt] = [c.Declare("uint64_t", hash_name, c.Int(0))]
        for key in keys:
            lines.append(c.Assign(c.Name(hash_name), "=", c.Call("spfgen_mix", (c.Name(hash_name), key))))
        lines.append(c.Declare(f"const {INT}", slot, c.Cast(INT, c.Bin(">>", c.Name(hash_name), c.Name(shift)))))

        def place(value: c.Expr) -> c.Expr:
            return value if low == c.Int(0) else c.Bin("-", value, low)

        def other(value: c.Expr) -> c.Expr:
            shifted = c.Bin("-", value, c.Int(1))
            return shifted if low == c.Int(0) else c.Bin("+", low, shifted)

        content = c.Un("*", c.Name(link))
        following = c.Bin("+", c.Bin("+", c.Name(table), c.Name(slots)), c.Bin("-", content, c.Int(1)))
        self.scope = {**scope, part.first: other(content)}
        their = [self.expr(k) for k in part.keys]
        differs = _any([c.Bin("!=", a, b) for a, b in zip(keys, their, strict=True)])
        chain: list[c.Stmt] = [
            c.Declare(f"{INT} *", link, c.Bin("+", c.Name(table), c.Name(slot))),
            c.While(
                c.Bin("&&", c.Bin(">", content, c.Int(0)), differs), c.Block((c.Assign(c.Name(link), "=", following),))
            ),
        ]
        self.scope = {**scope, part.first: c.Name(before), part.second: c.Name(at)}
        more, wrong = self.wrong(part.body, part.inside)
        values = [self.expr(Var(n)) for n in self.check.names]
        kept = [c.Assign(c.Load(c.Name(self.report), c.Int(1 + k)), "=", e) for k, e in enumerate(values)]
        self.scope = scope
        order = self.expr(Var(outer)) if outer else c.Name(at)
        record = c.If(
            c.Bin("<", order, c.Name(found)), c.Block((c.Assign(c.Name(found), "=", order), *kept))
        )  # the first in the order of the loops
        seat = c.Bin("+", c.Name(slots), place(c.Name(at)))
        hit = [
            c.Declare(f"const {INT}", before, other(content)),
            *more,
            c.If(wrong, c.Block((c.Pragma("omp critical"), c.Scope(c.Block((record,)))))),
            c.Assign(
                c.Load(c.Name(table), seat),
                "=",
                c.Load(c.Name(table), c.Bin("+", c.Name(slots), place(c.Name(before)))),
            ),
        ]
        chain.append(c.If(c.Bin(">", content, c.Int(0)), c.Block(tuple(hit))))
        chain.append(c.Assign(content, "=", c.Bin("+", place(c.Name(at)), c.Int(1))))
        if share:
            mine = c.Bin("&&", c.Bin(">=", c.Name(slot), c.Name(share[0])), c.Bin("<", c.Name(slot), c.Name(share[1])))
            lines.append(c.If(mine, c.Block(tuple(chain))))
        else:
            lines += chain
        return [c.For(INT, at, low, c.Bin("<", c.Name(at), high), 1, c.Block(tuple(lines)))]

    # --- loops --------------------------------------------------------------------------------------

    def within(self, before: Sequence[Formula], lines: list[c.Stmt]) -> list[c.Stmt]:
        return [c.If(self.truth(conjunction(list(before))), c.Block(tuple(lines)))] if before else lines

    def bounds(self, loop: Loop) -> tuple[list[c.Stmt], c.Expr, c.Expr]:
        """(declarations, low, high)"""
        lines: list[c.Stmt] = []
        ends: list[c.Expr] = []
        for word, function, own in (("start", "spfgen_max", loop.low), ("end", "spfgen_min", loop.high)):
            value = self.extreme(function, own)
            if not isinstance(value, c.Int | c.Name):
                name = self.names.of(f"{loop.variable}_{word}")
                lines.append(c.Declare(f"const {INT}", name, value))
                value = c.Name(name)
            ends.append(value)
        return lines, ends[0], ends[1]

    def extreme(self, function: str, bounds: Sequence[Expr]) -> c.Expr:
        result = self.expr(bounds[0])
        for bound in bounds[1:]:
            result = c.Call(function, (result, self.expr(bound)))
        return result

    def loops(
        self, loops: Sequence[Loop], body: Callable[[], list[c.Stmt]], pragma: str = "", known: Bounds | None = None
    ) -> list[c.Stmt]:
        """A nest around the body, which is written when the loops' variables have names; `known` are the bounds of the
        first loop when they are declared already."""
        if not loops:
            return body()
        loop, *rest = loops
        lines, low, high = ([], *known[1:]) if known else self.bounds(loop)
        variable = self.names.of(loop.variable)
        scope = self.scope
        self.scope = {**scope, loop.variable: c.Name(variable)}
        inner = c.Block(tuple(self.loops(rest, body)))
        self.scope = scope
        less = c.Bin("<", c.Name(variable), high)
        made: c.Stmt = c.For(INT, variable, low, less, 1, inner, (pragma,) if pragma else ())
        if self.counted and not rest and not pragma:
            made = c.If(c.Bin("<=", c.Name(self.work), c.Name(self.limit)), c.Block((made,)))
            lines = [*lines, self.counting(low, high)]
        return [*lines, made]

    def counting(self, low: c.Expr, high: c.Expr) -> c.Stmt:
        """Add the number of values of a loop to the work."""
        length = high if low == c.Int(0) else c.Bin("-", high, low)
        return c.Assign(c.Name(self.work), "+=", c.Call("spfgen_max", (length, c.Int(0))))

    # --- formulas -----------------------------------------------------------------------------------

    def wrong(self, body: Formula, guards: Sequence[Formula]) -> tuple[list[c.Stmt], c.Expr]:
        """(lines, whether the instance does not hold): it holds where a guard does not."""
        lines: list[c.Stmt] = []
        if not guards:
            wrong = self.negated(body, lines, strict=True)
            if not any(isinstance(n, c.Call) for n in walk(wrong)):
                return lines, wrong  # clang warns of functions that are called on both sides of a bit operator
            lines = []
            return lines, self.negated(body, lines, strict=False)
        guard = self.truth(conjunction(list(guards)))
        inner: list[c.Stmt] = []
        wrong = self.negated(body, inner, strict=False)
        if not inner:
            return lines, c.Bin("&&", guard, wrong)
        name = self.names.new("wrong")
        lines = [c.Declare("int", name, c.Int(0))]
        lines.append(c.If(guard, c.Block((*inner, c.Assign(c.Name(name), "=", wrong)))))
        return lines, c.Name(name)

    def truth(self, formula: Formula) -> c.Expr:
        """A formula without quantifiers."""
        return self.negated(Not(formula), [], strict=False)

    def negated(self, formula: Formula, lines: list[c.Stmt], strict: bool) -> c.Expr:
        """Whether the formula is false; `strict` evaluates all of it, without branches. Quantifiers become `lines`."""
        both, either = ("&", "|") if strict else ("&&", "||")
        match formula:
            case Not(Compare(op, left, right)):
                return self.comparison(op, left, right)
            case Not(And(parts)):
                return _joined(both, [self.negated(Not(p), lines, strict) for p in parts])
            case Not(Or(parts)):
                return _joined(either, [self.negated(Not(p), lines, strict) for p in parts])
            case Not(Not(part)):
                return self.negated(part, lines, strict)
            case Not(quantified):
                return c.Un("!", self.negated(quantified, lines, strict))
            case Compare(op, left, right):
                return self.comparison(NEGATED[op], left, right)
            case And(parts):
                return _joined(either, [self.negated(p, lines, strict) for p in parts])
            case Or(parts):
                return _joined(both, [self.negated(p, lines, strict) for p in parts])
            case Forall() | Exists():
                return self.quantified(formula, lines)
        raise InternalError(f"no C for {formula!r}")

    def quantified(self, formula: Forall | Exists, lines: list[c.Stmt]) -> c.Expr:
        """Whether it is false. A flag is found by loops over its variables."""
        some = isinstance(formula, Exists)
        found = scan(formula.variables, formula.body, self.extents, some=some)
        if found is None:
            raise InternalError(f"no bounds for {formula!r}")
        flag = self.names.new("some" if some else "wrong")
        lines.append(c.Declare("int", flag, c.Int(0)))

        def inside() -> list[c.Stmt]:
            inner: list[c.Stmt] = []
            body = self.negated(Not(found.body) if some else found.body, inner, strict=False)
            guarded = [c.Assign(c.Name(flag), "|=", body)]
            if found.guards:
                return [c.If(self.truth(conjunction(list(found.guards))), c.Block((*inner, *guarded)))]
            return [*inner, *guarded]

        lines += self.within(found.before, self.loops(found.loops, inside, ""))
        return c.Un("!", c.Name(flag)) if some else c.Name(flag)

    def comparison(self, op: str, left: Expr, right: Expr) -> c.Expr:
        narrow = self.narrow(op, left, right)
        if narrow is not None:
            return narrow
        return c.Bin("==" if op == "=" else op, self.expr(left), self.expr(right))

    def narrow(self, op: str, left: Expr, right: Expr) -> c.Expr | None:
        """A 32-bit value compared with an upper bound made of sizes: in 32 bits, of which more fit into a vector.

        Only a bound that is -1 or more: what is beyond 32 bits is then beyond all values.
        """
        if not isinstance(left, Call) or self.kinds[left.function] == "int64" or isinstance(right, Num) or calls(right):
            return None
        sizes = {*self.layout.parameters, *self.layout.sizes}
        try:
            bound = affine(right, _no_call)
        except NotAffine:
            return None
        shift = {"<=": 0, ">": 0, "<": -1, ">=": -1}.get(op)
        if shift is None or not bound.names() <= sizes or bound.floors() or any(k < 0 for _, k in bound.terms):
            return None
        bound = bound.plus(shift)
        if bound.constant < -1:
            return None
        most = expression(bound)
        if most not in self.narrowed:
            self.narrowed[most] = self.names.new(f"{left.function}_most")
        return c.Bin("<=" if op in ("<=", "<") else ">", self.expr(left), c.Name(self.narrowed[most]))

    def expr(self, expr: Expr, within: bool = False) -> c.Expr:
        """An integer expression. `within` an operation, narrow loaded values are widened first."""
        match expr:
            case Num(value):
                return c.Int(value)
            case Var(name) if name in self.scope:
                return self.scope[name]
            case Var(name):
                return c.Name(self.names[name])
            case Call(function, arguments):
                return self.load(function, arguments, within)
            case Bin(op, left, right):
                return _operation(op, self.expr(left, True), self.expr(right, True))
        raise InternalError(f"no C for {expr!r}")

    def load(self, function: str, arguments: Sequence[Expr], within: bool) -> c.Expr:
        index: c.Expr | None = None
        for argument, extent in zip(arguments, self.extents[function], strict=True):
            own = self.expr(argument, True)
            index = own if index is None else c.Bin("+", c.Bin("*", index, self.length(function, extent)), own)
        loaded = c.Load(c.Name(self.names[function]), index or c.Int(0))
        return c.Cast(INT, loaded) if within and self.kinds[function] != "int64" else loaded

    def length(self, function: str, extent: Expr) -> c.Expr:
        """An extent of an array; one that is computed gets a name."""
        if isinstance(extent, Num | Var):
            return self.expr(extent)
        if extent not in self.lengths:
            self.lengths[extent] = self.names.new(f"{function}_length")
        return c.Name(self.lengths[extent])


def _no_call(call: Call) -> str:
    raise NotAffine(call)


def _constant(bound: Expr) -> int:
    return affine(bound, _no_call).constant


def _share(count: str, parts: str, part: str, names: tuple[str, str]) -> list[c.Stmt]:
    """From where to where a part of so many things reaches."""
    each = c.Bin("/", c.Name(count), c.Name(parts))
    following = c.Bin("+", c.Name(part), c.Int(1))
    end = c.Select(c.Bin("==", following, c.Name(parts)), c.Name(count), c.Bin("*", each, following))
    return [
        c.Declare(f"const {INT}", names[0], c.Bin("*", each, c.Name(part))),
        c.Declare(f"const {INT}", names[1], end),
    ]


def _slots(count: str, shift: str, slots: str) -> list[c.Stmt]:
    """A chain for each of `count` keys, or more."""
    return [
        c.Declare("const int", shift, c.Call("spfgen_chain_shift", (c.Name(count),))),
        c.Declare(f"const {INT}", slots, c.Call("spfgen_chains", (c.Name(count),))),
    ]


def _operation(op: str, a: c.Expr, b: c.Expr) -> c.Expr:
    """Division rounds down; the divisor is positive."""
    named = {"/": "spfgen_floor_div", "%": "spfgen_floor_mod", "min": "spfgen_min", "max": "spfgen_max"}
    if op in named:
        return c.Call(named[op], (a, b))
    return c.Bin({"quot": "/", "rem": "%"}.get(op, op), a, b)


def _joined(op: str, parts: Sequence[c.Expr]) -> c.Expr:
    if not parts:
        return c.Int(int(op in ("&", "&&")))
    result = parts[0]
    for part in parts[1:]:
        result = c.Bin(op, result, part)
    return result


def _any(parts: Sequence[c.Expr]) -> c.Expr:
    return _joined("||", parts)


def _has_quantifier(body: Formula) -> bool:
    return any(isinstance(n, Forall | Exists) for n in walk(body))

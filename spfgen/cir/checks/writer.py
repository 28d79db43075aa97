"""What all ways to check have in common: loops, formulas with quantifiers, the report, limits of work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from spfgen import tuning
from spfgen.cir.checks.expressions import Expressions
from spfgen.cir.checks.names import BROKEN, UNCHECKED, CheckNames
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import INT, joined, loop, minus
from spfgen.errors import InternalError
from spfgen.facts.formula import NEGATED, And, Compare, Exists, Expr, Forall, Formula, Not, Or, Var, conjunction
from spfgen.ir import walk
from spfgen.layout.checks import Check
from spfgen.layout.loops import Loop, scan
from spfgen.layout.nodes import Layout

NEVER = c.Name("INT64_MAX")
"""In place of the first value that is wrong, as long as none is."""

Bounds = tuple[list[c.Stmt], c.Expr, c.Expr]
"""Declarations, from where on a loop runs, and before which value it ends."""


class Writer(Expressions):
    """The state of writing the function of one check.

    `counted`: the loops add up how much work they do; `is_parallel`: the number of threads is used.
    """

    def __init__(
        self, layout: Layout, kinds: Mapping[str, str], name: str, number: int, checks: Sequence[Check]
    ) -> None:
        """The last of the checks has the number; those before it are made along with it."""
        super().__init__(layout, kinds, CheckNames(layout, name))
        *self.along, self.check = checks
        self.number = number
        self.name = self.names.new(f"{name}_{number + 1}")
        self.limit, self.threads, self.report = self.names.limit, self.names.threads, self.names.report
        self.work = self.names.new("work")
        self.counted = False
        self.is_parallel = False

    # --- the report ---------------------------------------------------------------------------------

    def kept(self, values: Sequence[Expr]) -> list[c.Stmt]:
        """Note the values of the fact's variables."""
        return [c.Assign(c.Load(c.Name(self.report), c.Int(1 + k)), "=", self.expr(e)) for k, e in enumerate(values)]

    def kept_names(self) -> list[c.Stmt]:
        """The same where they all have names."""
        return self.kept([Var(n) for n in self.check.names])

    def failed(self, status: str = BROKEN, back: int = 0) -> list[c.Stmt]:
        """Leave: this check, or the one so many before, has failed."""
        number = c.Assign(c.Load(c.Name(self.report), c.Int(0)), "=", c.Int(self.number - back))
        return [number, c.Return(c.Name(status))]

    def failed_at(self, first: str) -> c.Stmt:
        """Leave if there is a first value that is wrong."""
        return c.If(c.Bin("<", c.Name(first), NEVER), c.Block(tuple(self.failed())))

    # --- threads and work ---------------------------------------------------------------------------

    def parallel(self, clauses: str) -> str:
        self.is_parallel = True
        return openmp.parallel_for(self.threads, clauses=clauses)

    def shared(self) -> str:
        """The pragma of an outer loop over work of any size."""
        work = f" {openmp.combined('+', self.work)}" if self.counted else ""
        return self.parallel(f"{openmp.scheduled(f'dynamic, {tuning.CHECKED_CHUNK}')}{work}")

    def counter(self) -> list[c.Stmt]:
        return [c.Declare(INT, self.work, c.Int(0))] if self.counted else []

    def counting(self, low: c.Expr, high: c.Expr) -> c.Stmt:
        """Add the number of values of a loop to the work."""
        return c.Assign(c.Name(self.work), "+=", c.Call("spfgen_max", (minus(high, low), c.Int(0))))

    def is_little(self) -> c.Expr:
        """Whether the work is within the limit as yet."""
        return c.Bin("<=", c.Name(self.work), c.Name(self.limit))

    def uncounted(self, write: Callable[[], list[c.Stmt]]) -> list[c.Stmt]:
        """What is written, with loops that do not count."""
        counted, self.counted = self.counted, False
        lines = write()
        self.counted = counted
        return lines

    def too_much(self) -> list[c.Stmt]:
        """Leave if the work was beyond the limit; it is not counted any more."""
        if not self.counted:
            return []
        over = c.Bin(">", c.Name(self.work), c.Name(self.limit))
        self.counted = False
        return [c.If(over, c.Block((c.Return(c.Name(UNCHECKED)),)))]

    # --- loops --------------------------------------------------------------------------------------

    def within(self, before: Sequence[Formula], lines: list[c.Stmt]) -> list[c.Stmt]:
        return [c.If(self.truth(conjunction(list(before))), c.Block(tuple(lines)))] if before else lines

    def bounds(self, of: Loop) -> Bounds:
        """What is neither a number nor a name gets a name."""
        lines: list[c.Stmt] = []
        ends: list[c.Expr] = []
        for word, function, limits in (("start", "spfgen_max", of.low), ("end", "spfgen_min", of.high)):
            value = self.extreme(function, limits)
            if not isinstance(value, c.Int | c.Name):
                name = self.names.of(f"{of.variable}_{word}")
                lines.append(c.Declare(f"const {INT}", name, value))
                value = c.Name(name)
            ends.append(value)
        return lines, ends[0], ends[1]

    def loops(
        self, loops: Sequence[Loop], body: Callable[[], list[c.Stmt]], pragma: str = "", known: Bounds | None = None
    ) -> list[c.Stmt]:
        """A nest around the body, which is written when the loops' variables have names; `known` are the bounds of the
        first loop when they are declared already."""
        if not loops:
            return body()
        outer, *inner_loops = loops
        lines, low, high = ([], *known[1:]) if known else self.bounds(outer)
        variable = self.names.of(outer.variable)
        with self.naming({outer.variable: c.Name(variable)}):
            inner = self.loops(inner_loops, body)
        nest: c.Stmt = loop(variable, low, high, inner, pragma)
        if self.counted and not inner_loops and not pragma:
            nest = c.If(self.is_little(), c.Block((nest,)))
            lines = [*lines, self.counting(low, high)]
        return [*lines, nest]

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
                return joined(both, [self.negated(Not(p), lines, strict) for p in parts])
            case Not(Or(parts)):
                return joined(either, [self.negated(Not(p), lines, strict) for p in parts])
            case Not(Not(part)):
                return self.negated(part, lines, strict)
            case Not(quantified):
                return c.Un("!", self.negated(quantified, lines, strict))
            case Compare(op, left, right):
                return self.comparison(NEGATED[op], left, right)
            case And((low, high)) if (outside := self.outside(low, high)) is not None:
                return outside
            case And(parts):
                return joined(either, [self.negated(p, lines, strict) for p in parts])
            case Or(parts):
                return joined(both, [self.negated(p, lines, strict) for p in parts])
            case Forall() | Exists():
                return self.quantified(formula, lines)
        raise InternalError(f"no C for {formula!r}")

    def quantified(self, formula: Forall | Exists, lines: list[c.Stmt]) -> c.Expr:
        """Whether it is false. A flag is found by loops over its variables."""
        some = isinstance(formula, Exists)
        scanned = scan(formula.variables, formula.body, self.extents, some=some)
        if scanned is None:
            raise InternalError(f"no bounds for {formula!r}")
        flag = self.names.new("some" if some else "wrong")
        lines.append(c.Declare("int", flag, c.Int(0)))

        def inside() -> list[c.Stmt]:
            inner: list[c.Stmt] = []
            body = self.negated(Not(scanned.body) if some else scanned.body, inner, strict=False)
            return self.within(scanned.guards, [*inner, c.Assign(c.Name(flag), "|=", body)])

        lines += self.within(scanned.before, self.loops(scanned.loops, inside))
        return c.Un("!", c.Name(flag)) if some else c.Name(flag)


def critical(lines: Sequence[c.Stmt]) -> c.Block:
    """One thread at a time."""
    return c.Block((openmp.CRITICAL, c.Braces(c.Block(tuple(lines)))))

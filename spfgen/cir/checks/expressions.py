"""Expressions and comparisons of a layout's facts as C, in 32 bits where that is enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from spfgen.cir.checks.names import CheckNames
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT, folded, operation
from spfgen.errors import InternalError
from spfgen.facts.formula import Bin, Call, Compare, Expr, Formula, Num, Var, calls
from spfgen.layout.nodes import Layout
from spfgen.sets.affine import NotAffine, affine, expression


class Expressions:
    """What stands for variables at a place of a function, and what it declares at its start."""

    def __init__(self, layout: Layout, kinds: Mapping[str, str], names: CheckNames) -> None:
        self.layout = layout
        self.kinds = kinds
        self.names = names
        self.extents = {a.name: a.extents for a in layout.indexes}
        self.scope: dict[str, c.Expr] = {}
        self.lengths: dict[Expr, str] = {}
        self.narrowed: dict[Expr, str] = {}
        self.counts: dict[Expr, str] = {}

    @contextmanager
    def naming(self, values: Mapping[str, c.Expr]) -> Iterator[None]:
        """Inside, these stand for variables too."""
        scope = self.scope
        self.scope = {**scope, **values}
        yield
        self.scope = scope

    def declarations(self) -> list[c.Stmt]:
        """Of bounds and extents that got names."""
        lengths: list[c.Stmt] = [c.Declare(f"const {INT}", n, self.expr(e)) for e, n in self.lengths.items()]
        narrowed: list[c.Stmt] = []
        for bound, name in self.narrowed.items():
            most = c.Call("spfgen_min", (self.expr(bound), c.Name("INT32_MAX")))
            narrowed.append(c.Declare("const int32_t", name, c.Cast("int32_t", most)))
        for bound, name in self.counts.items():
            most = c.Call("spfgen_min", (self.expr(bound), c.Name("INT32_MAX")))
            narrowed.append(c.Declare("const uint32_t", name, c.Cast("uint32_t", c.Bin("+", most, c.Int(1)))))
        return [*reversed(narrowed), *lengths]

    def comparison(self, op: str, left: Expr, right: Expr) -> c.Expr:
        narrow = self.narrow(op, left, right)
        if narrow is not None:
            return narrow
        return c.Bin("==" if op == "=" else op, self.expr(left), self.expr(right))

    def narrow(self, op: str, left: Expr, right: Expr) -> c.Expr | None:
        """A 32-bit value compared with an upper bound made of sizes: in 32 bits, of which more fit into a vector."""
        most = self._most(op, left, right)
        if most is None:
            return None
        if most not in self.narrowed:
            assert isinstance(left, Call)
            self.narrowed[most] = self.names.new(f"{left.function}_most")
        return c.Bin("<=" if op in ("<=", "<") else ">", self.expr(left), c.Name(self.narrowed[most]))

    def outside(self, low: Formula, high: Formula) -> c.Expr | None:
        """Whether a 32-bit value is below 0 or above such a bound: one comparison, of numbers without a sign."""
        match low, high:
            case Compare(">=", Call(function) as value, Num(0)), Compare(op, left, right) if left == value:
                most = self._most(op, value, right) if op in ("<", "<=") else None
            case _:
                return None
        if most is None:
            return None
        if most not in self.counts:
            self.counts[most] = self.names.new(f"{function}_count")
        return c.Bin(">=", c.Cast("uint32_t", self.expr(value)), c.Name(self.counts[most]))

    def _most(self, op: str, left: Expr, right: Expr) -> Expr | None:
        """The most that a 32-bit value may be, where it is compared with an upper bound made of sizes.

        Only a bound that is -1 or more: what is beyond 32 bits is then beyond all values.
        """
        if not isinstance(left, Call) or self.kinds[left.function] == "int64" or isinstance(right, Num) or calls(right):
            return None
        sizes = {*self.layout.parameters, *self.layout.sizes}
        try:
            bound = affine(right, no_call)
        except NotAffine:
            return None
        shift = {"<=": 0, ">": 0, "<": -1, ">=": -1}.get(op)
        if shift is None or not bound.names() <= sizes or bound.floors() or any(k < 0 for _, k in bound.terms):
            return None
        bound = bound.plus(shift)
        return expression(bound) if bound.constant >= -1 else None

    def extreme(self, function: str, bounds: Sequence[Expr]) -> c.Expr:
        return folded(function, [self.expr(b) for b in bounds])

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
                return operation(op, self.expr(left, True), self.expr(right, True))
        raise InternalError(f"no C for {expr!r}")

    def load(self, function: str, arguments: Sequence[Expr], within: bool) -> c.Expr:
        index: c.Expr | None = None
        for argument, extent in zip(arguments, self.extents[function], strict=True):
            subscript = self.expr(argument, True)
            index = (
                subscript if index is None else c.Bin("+", c.Bin("*", index, self.length(function, extent)), subscript)
            )
        loaded = c.Load(c.Name(self.names[function]), index or c.Int(0))
        return c.Cast(INT, loaded) if within and self.kinds[function] != "int64" else loaded

    def length(self, function: str, extent: Expr) -> c.Expr:
        """An extent of an array; one that is computed gets a name."""
        if isinstance(extent, Num | Var):
            return self.expr(extent)
        if extent not in self.lengths:
            self.lengths[extent] = self.names.new(f"{function}_length")
        return c.Name(self.lengths[extent])


def no_call(call: Call) -> str:
    raise NotAffine(call)

"""Affine expressions, calls and conditions of a layout as C, by the names that stand for their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT, joined, linear_index, operation
from spfgen.errors import InternalError
from spfgen.facts.formula import And, Bin, Call, Compare, Expr, Formula, Not, Num, Or, Var
from spfgen.sets.affine import Affine, Floor
from spfgen.sets.named import Constraint
from spfgen.sets.uf import linear


@dataclass(frozen=True)
class ArrayName:
    """An array in C: its name, whether its elements are narrower than int64_t, its declared extents."""

    name: str
    narrow: bool
    extents: tuple[Expr, ...]


@dataclass(frozen=True)
class ExprLowering:
    """What stands for names, encoded calls, quotients and arrays; `is_natural` knows what is never negative."""

    values: Mapping[str, c.Expr]
    arrays: Mapping[str, ArrayName]
    calls: Mapping[str, Call]
    quotients: Mapping[str, tuple[Affine, int]]
    is_natural: Callable[[Affine], bool] = field(default=lambda value: False)

    def knowing(self, values: Mapping[str, c.Expr]) -> ExprLowering:
        return replace(self, values={**self.values, **values})

    def name(self, name: str) -> c.Expr:
        if name in self.values:
            return self.values[name]
        if name in self.quotients:
            return self.floor(*self.quotients[name])
        if name in self.calls:
            return self.expr(self.calls[name])
        raise InternalError(f"nothing stands for {name!r}")

    def floor(self, numerator: Affine, divisor: int) -> c.Expr:
        """numerator / divisor rounded down."""
        if divisor == 1:
            return self.affine(numerator)
        if self.is_natural(numerator):
            return c.Bin("/", self.affine(numerator), c.Int(divisor))
        return c.Call("spfgen_floor_div", (self.affine(numerator), c.Int(divisor)))

    def affine(self, value: Affine) -> c.Expr:
        """The terms added up, positive ones first."""
        result: c.Expr | None = None
        for atom, factor in sorted(value.terms, key=lambda t: t[1] < 0):
            term = self.floor(atom.numerator, atom.divisor) if isinstance(atom, Floor) else self.name(atom)
            if isinstance(term, c.Load):
                term = c.Cast(INT, term)
            if abs(factor) != 1:
                term = c.Bin("*", c.Int(abs(factor)), term)
            if result is None:
                result = term if factor > 0 else c.Un("-", term)
            else:
                result = c.Bin("+" if factor > 0 else "-", result, term)
        if result is None:
            return c.Int(value.constant)
        if value.constant:
            result = c.Bin("+" if value.constant > 0 else "-", result, c.Int(abs(value.constant)))
        return result

    def expr(self, expr: Expr) -> c.Expr:
        """Any expression of the layout: a value's place, an extent."""
        match expr:
            case Num(value):
                return c.Int(value)
            case Var(name):
                return self.name(name)
            case Call(function, arguments):
                return self.load(function, [self.expr(a) for a in arguments])
            case Bin(op, left, right):
                return operation(op, self.expr(left), self.expr(right))
        raise InternalError(f"no C for {expr!r}")

    def load(self, function: str, subscripts: Sequence[c.Expr]) -> c.Expr:
        array = self.arrays[function]
        loaded = c.Load(c.Name(array.name), self.linear_index(array.extents, subscripts))
        return c.Cast(INT, loaded) if array.narrow else loaded

    def linear_index(self, extents: Sequence[Expr], subscripts: Sequence[c.Expr]) -> c.Expr:
        """The place in an array that is read row by row."""
        return linear_index(subscripts, extents, self.expr)

    def constraint(self, constraint: Constraint) -> c.Expr:
        """A condition, with the positive terms on one side."""
        left = Affine(tuple((a, f) for a, f in constraint.value.terms if f > 0))
        right = Affine(tuple((a, -f) for a, f in constraint.value.terms if f < 0), -constraint.value.constant)
        return c.Bin("==" if constraint.equality else ">=", self.affine(left), self.affine(right))

    def condition(self, formula: Formula) -> c.Expr:
        match formula:
            case Compare(op, left, right):
                return c.Bin("==" if op == "=" else op, self.expr(left), self.expr(right))
            case And(parts):
                return joined("&&", [self.condition(p) for p in parts])
            case Or(parts):
                return joined("||", [self.condition(p) for p in parts])
            case Not(part):
                return c.Un("!", self.condition(part))
        raise InternalError(f"no C for {formula!r}")


def arguments(call: Call) -> list[Affine]:
    """The arguments of an encoded call."""
    return [linear(a) for a in call.arguments]

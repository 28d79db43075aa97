"""Affine expressions: integers times named dimensions, plus a constant, plus floors of such divided by a number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from spfgen.errors import Span
from spfgen.facts.formula import Bin, Call, Expr, Num, Var


class NotAffine(Exception):
    """An expression is not affine; `expr` is the smallest part that is at fault."""

    def __init__(self, expr: Expr) -> None:
        super().__init__("not affine")
        self.expr = expr
        self.span: Span | None = getattr(expr, "span", None)


@dataclass(frozen=True, slots=True)
class Floor:
    """floor(numerator / divisor) with a positive divisor."""

    numerator: Affine
    divisor: int


Atom = str | Floor

LARGEST = 2**62
"""Products of constants beyond this have no place in 64-bit C."""


@dataclass(frozen=True, slots=True)
class Affine:
    """`constant` plus the sum of coefficient times atom over `terms`; no coefficient is zero."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int = 0

    @staticmethod
    def of(terms: Mapping[Atom, int] | Iterable[tuple[Atom, int]], constant: int = 0) -> Affine:
        total: dict[Atom, int] = {}
        for atom, coefficient in terms.items() if isinstance(terms, Mapping) else terms:
            total[atom] = total.get(atom, 0) + coefficient
        return Affine(tuple([item for item in total.items() if item[1]]), constant)

    def __add__(self, other: Affine) -> Affine:
        return Affine.of((*self.terms, *other.terms), self.constant + other.constant)

    def __sub__(self, other: Affine) -> Affine:
        return Affine.of((*self.terms, *[(a, -c) for a, c in other.terms]), self.constant - other.constant)

    def scaled(self, factor: int) -> Affine:
        return Affine(tuple([(a, c * factor) for a, c in self.terms]) if factor else (), self.constant * factor)

    def plus(self, constant: int) -> Affine:
        return Affine(self.terms, self.constant + constant)

    def coefficient(self, atom: Atom) -> int:
        for term, coefficient in self.terms:
            if term == atom:
                return coefficient
        return 0

    def without(self, atom: Atom) -> Affine:
        return Affine(tuple(t for t in self.terms if t[0] != atom), self.constant)

    def names(self) -> set[str]:
        """All dimensions that occur, inside floors too."""
        result: set[str] = set()
        for atom, _ in self.terms:
            result |= {atom} if isinstance(atom, str) else atom.numerator.names()
        return result

    def renamed(self, names: Mapping[str, str]) -> Affine:
        """The same with other names for some dimensions."""
        terms: list[tuple[Atom, int]] = []
        for atom, coefficient in self.terms:
            if isinstance(atom, Floor):
                terms.append((Floor(atom.numerator.renamed(names), atom.divisor), coefficient))
            else:
                terms.append((names.get(atom, atom), coefficient))
        return Affine(tuple(terms), self.constant)

    def floors(self) -> list[Floor]:
        return [a for a, _ in self.terms if isinstance(a, Floor)]


def affine(expr: Expr, call: Callable[[Call], str]) -> Affine:
    """Read an expression; `call` names the dimension that stands for a call. Raises NotAffine."""
    match expr:
        case Num(value):
            return Affine((), value)
        case Var(name):
            return Affine(((name, 1),))
        case Call():
            return Affine(((call(expr), 1),))
        case Bin("+", left, right):
            return affine(left, call) + affine(right, call)
        case Bin("-", left, right):
            return affine(left, call) - affine(right, call)
        case Bin("*", left, right):
            a, b = affine(left, call), affine(right, call)
            factor, other = (a, b) if not a.terms else (b, a)
            product = other.scaled(factor.constant)
            if factor.terms or any(abs(c) > LARGEST for c in (product.constant, *(c for _, c in product.terms))):
                raise NotAffine(expr)
            return product
        case Bin("/" | "%" as op, left, right):
            numerator, divisor = affine(left, call), affine(right, call)
            if divisor.terms or divisor.constant <= 0:
                raise NotAffine(expr)
            quotient = divided(numerator, divisor.constant)
            return quotient if op == "/" else numerator - quotient.scaled(divisor.constant)
    raise NotAffine(expr)


def divided(numerator: Affine, divisor: int) -> Affine:
    """floor(numerator / divisor), with what divides exactly taken out of the floor."""
    if divisor == 1:
        return numerator
    outside = [(a, c // divisor) for a, c in numerator.terms if c % divisor == 0]
    inside = [(a, c) for a, c in numerator.terms if c % divisor != 0]
    whole, remainder = divmod(numerator.constant, divisor)
    if not inside:
        return Affine.of(outside, whole)
    return Affine.of([*outside, (Floor(Affine(tuple(inside), remainder), divisor), 1)], whole)


def expression(value: Affine) -> Expr:
    """Back to an expression, positive terms first."""
    result: Expr | None = None
    for atom, coefficient in sorted(value.terms, key=lambda t: t[1] < 0):
        term: Expr = Var(atom) if isinstance(atom, str) else Bin("/", expression(atom.numerator), Num(atom.divisor))
        size = abs(coefficient)
        if size != 1:
            term = Bin("*", Num(size), term)
        if result is None:
            result = term if coefficient > 0 else Bin("-", Num(value.constant), term)
            if coefficient < 0:
                value = Affine(value.terms, 0)
        else:
            result = Bin("+" if coefficient > 0 else "-", result, term)
    if result is None:
        return Num(value.constant)
    if value.constant:
        result = Bin("+" if value.constant > 0 else "-", result, Num(abs(value.constant)))
    return result

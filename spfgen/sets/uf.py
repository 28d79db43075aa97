"""Uninterpreted functions on isl: every call is a dimension of its own.

`rowptr(pi + 1)` becomes a dimension named so; a table says which function and arguments it stands for. Quotients
by a number are dimensions too, bounded on both sides, so that sets hold no hidden variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spfgen.facts.domains import Limits, arguments_inside
from spfgen.facts.formula import (
    MIRRORED,
    ZERO,
    Bin,
    Call,
    Compare,
    Exists,
    Expr,
    Forall,
    Formula,
    Num,
    Var,
    conjunction,
    conjuncts,
    show,
    variables,
    within,
)
from spfgen.ir import rewrite, walk
from spfgen.sets.affine import Affine, NotAffine, affine, divided, expression
from spfgen.sets.named import Constraint, Encode, Piece, Space, comparison, pieces


@dataclass
class Encoder:
    """Replaces calls and quotients by variables, and remembers what the variables stand for.

    Arguments in `calls` and numerators in `quotients` are themselves free of calls and quotients.
    """

    calls: dict[str, Call] = field(default_factory=dict)
    quotients: dict[str, tuple[Expr, int]] = field(default_factory=dict)

    def formula(self, formula: Formula) -> Formula:
        """The formula with variables in place of calls and quotients. Raises NotAffine, QuantifiedCall."""
        bound = {n for q in walk(formula) if isinstance(q, Forall | Exists) for n in q.variables}
        result = self._rewrite(formula, bound)
        assert isinstance(result, Formula)
        return result

    def definitions(self) -> list[Formula]:
        """What makes each quotient variable a quotient."""
        return [is_quotient(name, *quotient) for name, quotient in self.quotients.items()]

    def _rewrite(self, node: Any, bound: set[str]) -> Any:
        from dataclasses import replace

        match node:
            case Call() | Bin() | Num() | Var():
                return self._expr(node, bound)
            case Compare(_, left, right):
                return replace(node, left=self._expr(left, bound), right=self._expr(right, bound))
            case Forall(_, body) | Exists(_, body):
                return replace(node, body=self._rewrite(body, bound))
        if hasattr(node, "parts"):
            return replace(node, parts=tuple(self._rewrite(p, bound) for p in node.parts))
        return replace(node, part=self._rewrite(node.part, bound))

    def _expr(self, expr: Expr, bound: set[str]) -> Expr:
        match expr:
            case Call():
                return Var(self.call(expr, bound))
            case Bin(op, left, right) if op in ("min", "max"):
                return Bin(op, self._expr(left, bound), self._expr(right, bound), expr.span)
            case Bin("/" | "%", left, right):
                return self._quotient(expr, bound)
            case Bin(op, left, right):
                result = Bin(op, self._expr(left, bound), self._expr(right, bound), expr.span)
                if op == "*":
                    affine(result, _no_call)
                return result
        return expr

    def expr(self, expr: Expr) -> Expr:
        """An expression with variables in place of calls; quotients and products stay (value positions)."""
        match expr:
            case Call():
                return Var(self.call(expr, set()))
            case Bin(op, left, right):
                return Bin(op, self.expr(left), self.expr(right), expr.span)
        return expr

    def call(self, call: Call, bound: set[str]) -> str:
        arguments = []
        for argument in call.arguments:
            plain = self._expr(argument, bound)
            used = affine(plain, _no_call).names() & bound
            if used:
                raise QuantifiedCall(call, sorted(used)[0])
            arguments.append(expression(affine(plain, _no_call)))
        canonical = Call(call.function, tuple(arguments), call.span)
        name = show(canonical)
        self.calls.setdefault(name, canonical)
        return name

    def _quotient(self, expr: Bin, bound: set[str]) -> Expr:
        left, right = self._expr(expr.left, bound), self._expr(expr.right, bound)
        divisor = affine(right, _no_call)
        if divisor.terms or divisor.constant <= 0:
            raise NotAffine(expr)
        numerator = affine(left, _no_call)
        if numerator.names() & bound:
            return Bin(expr.op, left, right, expr.span)
        whole = divided(numerator, divisor.constant)
        quotient: Expr = expression(Affine.of([t for t in whole.terms if isinstance(t[0], str)], whole.constant))
        for floor in whole.floors():
            inner = expression(floor.numerator)
            name = show(Bin("/", inner, Num(floor.divisor)))
            self.quotients.setdefault(name, (inner, floor.divisor))
            quotient = Bin("+", quotient, Var(name)) if quotient != Num(0) else Var(name)
        if expr.op == "/":
            return quotient
        return Bin("-", left, Bin("*", right, quotient))


class QuantifiedCall(Exception):
    """A call whose argument is a quantified variable: no dimension can stand for it."""

    def __init__(self, call: Call, variable: str) -> None:
        super().__init__(f"{show(call)} with quantified {variable}")
        self.call = call
        self.variable = variable


def _no_call(call: Call) -> str:
    raise NotAffine(call)


def linear(expr: Expr) -> Affine:
    """An encoded expression as an affine one. Raises NotAffine."""
    return affine(expr, _no_call)


def is_quotient(name: str, numerator: Expr, divisor: int) -> Formula:
    """What makes a variable this quotient."""
    scaled = Bin("*", Num(divisor), Var(name))
    return within(numerator, scaled, Bin("+", scaled, Num(divisor)))


def comparisons(formulas: Iterable[Formula]) -> list[Constraint]:
    """The affine comparisons among the formulas."""
    result = []
    for formula in formulas:
        if isinstance(formula, Compare) and formula.op != "!=":
            try:
                left, right = linear(with_floors(formula.left)), linear(with_floors(formula.right))
            except NotAffine:
                continue
            result.append(comparison(formula.op, left, right))
    return result


def as_formulas(constraints: Iterable[Constraint]) -> list[Formula]:
    """The constraints as comparisons with 0."""
    return [Compare("=" if c.equality else ">=", expression(c.value), ZERO) for c in constraints]


def solved_for(condition: Formula, name: str) -> tuple[str, Affine] | None:
    """A comparison as `name op bound`, where its coefficient is 1 or -1 and the bound does not speak of it."""
    if not isinstance(condition, Compare):
        return None
    try:
        value = linear(condition.left) - linear(condition.right)
    except NotAffine:
        return None
    factor, others = value.coefficient(name), value.without(name)
    if abs(factor) != 1 or name in others.names():
        return None
    return condition.op if factor == 1 else MIRRORED[condition.op], others.scaled(-factor)


def with_floors(expr: Expr) -> Expr:
    """C's own division, where a plan has proved it right, read as division rounded down again."""
    if isinstance(expr, Var | Num):
        return expr

    def rule(n: object) -> Expr | None:
        match n:
            case Bin("quot", left, right):
                return Bin("/", left, right)
            case Bin("rem", left, right):
                return Bin("%", left, right)
        return None

    result = rewrite(rule, expr)
    assert isinstance(result, Expr)
    return result


def merge_equal_calls(piece: Piece, calls: Mapping[str, Call]) -> tuple[Piece, dict[str, str]]:
    """Congruence: calls of one function with arguments that are equal in the set have equal values.

    Returns the set with those equalities and, for each call that equals an earlier one, the name of that one.
    """
    same: dict[str, str] = {}
    names = list(calls)
    changed = True
    while changed:
        changed = False
        for k, later in enumerate(names):
            if later in same:
                continue
            for earlier in names[:k]:
                if earlier in same or not _equal_arguments(piece, calls[earlier], calls[later]):
                    continue
                same[later] = earlier
                piece = piece.with_constraints([Constraint(True, Affine(((later, 1), (earlier, -1))))])
                changed = True
                break
    return piece, same


def _equal_arguments(piece: Piece, a: Call, b: Call) -> bool:
    if a.function != b.function:
        return False
    differences = [linear(x) - linear(y) for x, y in zip(a.arguments, b.arguments, strict=True)]
    return all((not d.terms and not d.constant) or piece.implies(Constraint(True, d)) for d in differences)


def in_domain(encoder: Encoder, limits: Limits) -> dict[str, tuple[Formula, ...]]:
    """For each call that occurs: its arguments lie within the extents of the array."""
    result: dict[str, tuple[Formula, ...]] = {}
    while len(result) < len(encoder.calls):
        for name, call in list(encoder.calls.items()):
            if name not in result:
                result[name] = tuple(encoder.formula(f) for f in arguments_inside([call], limits))
    return result


Found = list[tuple[Piece, frozenset[str]]]


def defined_pieces(
    space: Space, formula: Formula, encoder: Encoder, domains: Mapping[str, Iterable[Formula]], encode: Encode
) -> tuple[Found, bool]:
    """The points where an encoded formula holds as disjoint pieces, each with the quotients of which it says nothing,
    such that a piece speaks of calls only where these are defined (`domains`); and whether that took more pieces.

    One alternative less another one may speak of a call of the other, also where that has no value.
    """
    unrefined = [without_unused(p, encoder) for p in pieces(space, formula, encode)]
    if len(unrefined) < 2:
        return unrefined, False
    inside = {name: space.of(comparisons(c for f in domains[name] for c in conjuncts(f))) for name in encoder.calls}
    if not any(p.involves(n) and not p.is_subset(inside[n]) for p, _ in unrefined for n in encoder.calls):
        return unrefined, False
    wanted = [conjunction([*domains[name]]) for name in encoder.calls]
    return [without_unused(p, encoder) for p in pieces(space, formula, encode, wanted)], True


def without_unused(piece: Piece, encoder: Encoder) -> tuple[Piece, frozenset[str]]:
    """The piece with nothing said of the quotients of calls of which it says no more than what they are, and these: of
    alternatives, each reads its own index arrays."""
    of_calls = set(encoder.calls)
    for name, (numerator, _) in encoder.quotients.items():
        if variables(numerator) & of_calls:
            of_calls.add(name)
    arguments = {v for c in encoder.calls.values() for a in c.arguments for v in variables(a)}
    unused: set[str] = set()
    for name, definition in reversed([*zip(encoder.quotients, encoder.definitions(), strict=True)]):
        if name in of_calls - arguments:
            simpler = _without_meaning(piece, name, comparisons(conjuncts(definition)))
            if simpler is not None:
                piece = simpler
                unused.add(name)
    return piece, frozenset(unused)


def _without_meaning(piece: Piece, name: str, meaning: Sequence[Constraint]) -> Piece | None:
    """The piece without what it says of a quotient, if that is no more than what it is."""
    constraints, means = piece.constraints(name), piece.space.of(meaning)
    if any(c.equality for c in constraints) or not all(map(means.implies, constraints)):
        return None
    simpler = piece.gist(means)
    return None if simpler.involves(name) else simpler


def shifted(expr: Expr) -> tuple[str, int]:
    """(name, c) of name + c; without a name for all else."""
    try:
        value = linear(expr)
    except NotAffine:
        return "", 0
    match value.terms:
        case ((str() as name, 1),):
            return name, value.constant
    return "", 0

"""From parse trees to expressions and formulas.

The grammar has one ladder for both; here it is decided which one a piece must be. `Reader` holds what a reading
needs: the source (for spans) and the constants (sizes of blocks, the rank of a family) that are already numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from lark import Token, Tree

from spfgen.errors import InternalError, Span, SpecError
from spfgen.facts.formula import (
    ONE,
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
    conjunction,
    evaluate,
    implies,
)
from spfgen.lang.nodes import Source

_RUNS = ("ranged", "ranged_down")
BUILTINS = {"floor": 1, "ceil": 1, "min": 2, "max": 2}


def span_of(source: Source, item: Any) -> Span | None:
    """Where a tree or token stands; a piece over several lines is marked to the end of its first."""
    if isinstance(item, Token):
        line, column, end_line, end = item.line, item.column, item.end_line, item.end_column
    elif isinstance(item, Tree) and not item.meta.empty:
        meta = item.meta
        line, column, end_line, end = meta.line, meta.column, meta.end_line, meta.end_column
    else:
        return None
    if line is None or column is None:
        return None
    if end_line != line or end is None:
        end = len(source.text.splitlines()[line - 1]) + 1
    return Span(source.file, source.text, line, column, end)


@dataclass(frozen=True)
class Reader:
    """Reads names, expressions and formulas; `constants` are replaced by their numbers wherever they stand."""

    source: Source
    constants: Mapping[str, int] = field(default_factory=dict)

    def span(self, item: Any) -> Span | None:
        return span_of(self.source, item)

    def fail(self, message: str, item: Any, *notes: str) -> SpecError:
        return SpecError(message, self.span(item), notes)

    def with_constant(self, name: str, value: int) -> Reader:
        return Reader(self.source, {**self.constants, name: value})

    # --- names -----------------------------------------------------------------------------------

    def name(self, tree: Tree[Token]) -> str:
        """A single name; `p_{k}` becomes `p_1` when k is 1."""
        found = self.names_of(tree)
        if tree.data in _RUNS:
            raise self.fail("expected one name, but this is a list of names", tree)
        return found[0]

    def names_of(self, tree: Tree[Token]) -> list[str]:
        """The names that a name stands for: one, or a run `p_{1..rank}` (empty when it runs backwards)."""
        match tree.data:
            case "name":
                return [str(tree.children[0])]
            case "subscripted":
                stem, subscript = tree.children
                return [f"{stem}{self.constant(subscript)}"]
            case "ranged":
                stem, low, high = tree.children
                return [f"{stem}{n}" for n in range(self.constant(low), self.constant(high) + 1)]
            case "ranged_down":
                stem, high, low = tree.children
                return [f"{stem}{n}" for n in range(self.constant(high), self.constant(low) - 1, -1)]
        raise InternalError(f"not a name: {tree.data}")

    def names(self, tree: Tree[Token] | None) -> list[tuple[str, Span | None]]:
        """The names of a comma-separated list with their places."""
        if tree is None:
            return []
        return [(n, self.span(child)) for child in tree.children for n in self.names_of(child)]  # type: ignore[arg-type]

    def constant(self, tree: Any) -> int:
        """An expression that must be a number once the constants are known."""
        expr = self.expr(tree)

        def unknown(name: str) -> int:
            raise self.fail(
                f"expected a constant, but `{name}` is not one",
                tree,
                "subscripts in braces and the limits of `each` are made of numbers and the constants after `;`",
            )

        value = evaluate(expr, unknown, lambda f, _: unknown(f))
        assert isinstance(value, int)
        return value

    # --- expressions -----------------------------------------------------------------------------

    def exprs(self, tree: Tree[Token] | None) -> tuple[Expr, ...]:
        """A comma-separated list; `n_{1..rank}` stands for all its names."""
        if tree is None:
            return ()
        result: list[Expr] = []
        for child in tree.children:
            if isinstance(child, Tree) and child.data in _RUNS:
                result += [self.variable(n, child) for n in self.names_of(child)]
            else:
                result.append(self.expr(child))
        return tuple(result)

    def variable(self, name: str, at: Any) -> Expr:
        if name in self.constants:
            return Num(self.constants[name], self.span(at))
        return Var(name, self.span(at))

    def expr(self, tree: Any) -> Expr:
        """An integer expression."""
        span = self.span(tree)
        match tree.data:
            case "number_":
                return Num(int(tree.children[0]), span)
            case "name" | "subscripted" | "ranged" | "ranged_down":
                return self.variable(self.name(tree), tree)
            case "call":
                return Call(self.name(tree.children[0]), self.exprs(tree.children[1]), span)
            case "builtin":
                return self._builtin(tree)
            case "scaled":
                return Bin("*", Num(int(tree.children[0])), self.expr(tree.children[1]), span)
            case "sign":
                operator, operand = tree.children
                value = self.expr(operand)
                if operator == "+":
                    return value
                return Num(-value.value, span) if isinstance(value, Num) else Bin("-", Num(0), value, span)
            case "sum" | "product":
                return self._left_to_right(tree)
        raise self.fail("expected an integer expression, but this is a condition", tree)

    def _left_to_right(self, tree: Tree[Any]) -> Expr:
        result = self.expr(tree.children[0])
        for operator, operand in zip(tree.children[1::2], tree.children[2::2], strict=True):
            op = "%" if operator == "mod" else str(operator)
            right = self.expr(operand)
            if op in ("/", "%") and isinstance(right, Num) and right.value <= 0:
                raise self.fail(f"expected a positive divisor, but this is {right.value}", operand)
            result = Bin(op, result, right, self.span(tree))
        return result

    def _builtin(self, tree: Tree[Any]) -> Expr:
        function = str(tree.children[0])
        arguments = [self.expr(a) for a in tree.children[1:]]
        span = self.span(tree)
        if len(arguments) != BUILTINS[function] and not (function in ("min", "max") and len(arguments) > 2):
            raise self.fail(f"expected {BUILTINS[function]} argument(s) of {function}, but there are {len(arguments)}", tree)
        first = arguments[0]
        match function:
            case "floor":
                return first  # division rounds down already
            case "ceil" if isinstance(first, Bin) and first.op == "/":
                above = Bin("-", Bin("+", first.left, first.right), ONE)
                return Bin("/", above, first.right, span)
            case "ceil":
                return first
        result = first
        for argument in arguments[1:]:
            result = Bin(function, result, argument, span)
        return result

    # --- formulas --------------------------------------------------------------------------------

    def formula(self, tree: Any) -> Formula:
        """A condition."""
        span = self.span(tree)
        match tree.data:
            case "implication":
                condition, _, conclusion = tree.children
                return implies(self.formula(condition), self.formula(conclusion), span)
            case "disjunction":
                return Or(tuple(self.formula(c) for c in tree.children), span)
            case "conjunction":
                return And(tuple(self.formula(c) for c in tree.children), span)
            case "not_":
                return Not(self.formula(tree.children[0]), span)
            case "truth":
                return And((), span) if tree.children[0] == "true" else Or((), span)
            case "comparison":
                return self._comparison(tree)
            case "quantified":
                return self._quantified(tree)
            case "each":
                return self._each(tree)
        raise self.fail("expected a condition, but this is an integer expression", tree)

    def _comparison(self, tree: Tree[Any]) -> Formula:
        """`0 <= i, j < n` compares every neighbour with every neighbour, as in isl."""
        sides = [self._side(c) for c in tree.children[::2]]
        operators = ["=" if op == "==" else str(op) for op in tree.children[1::2]]
        parts = [
            Compare(op, a, b, self.span(tree))
            for op, (left, right) in zip(operators, pairwise(sides), strict=True)
            for a in left
            for b in right
        ]
        return parts[0] if len(parts) == 1 else conjunction(list(parts))

    def _side(self, tree: Tree[Any]) -> tuple[Expr, ...]:
        return self.exprs(tree) if tree.data == "expressions_" else self.exprs(Tree("expressions", [tree]))

    def _quantified(self, tree: Tree[Any]) -> Formula:
        """`forall p, q : F`, and `forall p <= q : F` for `forall p, q : p <= q => F`."""
        quantifier, head, body_tree = tree.children
        span = self.span(tree)
        sides = [head] if head.data != "comparison" else head.children[::2]
        items = [i for s in sides for i in (s.children if s.data == "expressions_" else [s])]
        bound: list[str] = []
        for item in items:
            if item.data not in ("name", "subscripted", *_RUNS):
                raise self.fail(f"expected the variables of `{quantifier}`, but this is an expression", item)
            bound += [n for n in self.names_of(item) if n not in bound]
        body = self.formula(body_tree)
        if quantifier == "forall":
            if head.data == "comparison":
                body = implies(self.formula(head), body, span)
            return Forall(tuple(bound), body, span)
        if head.data == "comparison":
            body = conjunction([self.formula(head), body])
        return Exists(tuple(bound), body, span)

    def _each(self, tree: Tree[Any]) -> Formula:
        """`each k in a..b : F` is the conjunction of F over k."""
        name, low, high, body = tree.children
        numbers = range(self.constant(low), self.constant(high) + 1)
        return conjunction([self.with_constant(str(name), n).formula(body) for n in numbers])

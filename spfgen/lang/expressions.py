"""From parse trees to expressions and formulas.

The grammar has one ladder for both; here it is decided which one a piece must be. `Reader` holds what a reading
needs: the source (for spans) and the constants (sizes of blocks, the rank of a family) that are already numbers.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from lark import Token, Tree

from spfgen.errors import InternalError, Span, SpecError, SpecErrors
from spfgen.facts.formula import (
    ONE,
    ZERO,
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
    evaluate,
    implies,
    variables,
)
from spfgen.ir import children, rewrite
from spfgen.lang.nodes import Source

_RUNS = ("ranged", "ranged_down")
BUILTINS = {"floor": 1, "ceil": 1, "min": 2, "max": 2}
LARGEST = 2**31 - 1
LARGEST_VALUE = 2**64 - 1
"""The largest number in a spec: sums and products of two stay within 64 bits."""
SHORT_FORMS = ("increasing", "decreasing", "injective", "strictly")
LONGEST = 100
"""The most repetitions of one `each`, and the most names of one run."""


def with_absolute_values(formula: Formula) -> Formula:
    """The condition with `abs(e)` as the larger one of e and -e: where no array can have that name."""

    def rule(node: Any) -> Any:
        match node:
            case Call("abs", (inner,)):
                return Bin("max", inner, Bin("-", ZERO, inner), node.span)
        return None

    result: Formula = rewrite(rule, formula)
    return result


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


def word_in(span: Span | None, word: str) -> Span | None:
    """The place of a word within a span; the whole span when the word is not there."""
    if span is None or not 1 <= span.line <= len(span.text.splitlines()):
        return span
    line = span.text.splitlines()[span.line - 1][: span.end_column - 1]
    match = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)").search(line, span.column - 1)
    if match is None:
        return span
    return Span(span.file, span.text, span.line, match.start() + 1, match.end() + 1)


def raise_all(errors: Sequence[SpecError]) -> None:
    """Raise what was collected, each mistake once; nothing when there is none."""
    once = list({(e.message, e.span): e for e in errors}.values())
    if len(once) == 1:
        raise once[0]
    if once:
        raise SpecErrors(once)


def counted(number: int, what: str) -> str:
    """`1 argument`, `2 arguments`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def there_are(number: int) -> str:
    """`there is none`, `there is 1`, `there are 2`."""
    return "there is none" if number == 0 else f"there {'is' if number == 1 else 'are'} {number}"


def _shortened(text: str) -> str:
    return text if len(text) <= 24 else f"one of {len(text)} digits"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the known name that is nearest, or nothing."""
    choices = {k.lower(): k for k in sorted(known)}
    matches = difflib.get_close_matches(name.lower(), list(choices), 1, 0.65)
    return f"did you mean `{choices[matches[0]]}`?" if matches else ""


def rebound(formula: Formula, known: frozenset[str] | set[str]) -> Iterator[SpecError]:
    """An error for each quantified variable whose name means something already where it stands."""
    if isinstance(formula, Forall | Exists):
        word = "forall" if isinstance(formula, Forall) else "exists"
        for name in formula.variables:
            if name in known:
                yield SpecError(
                    f"expected a new name after `{word}`, but `{name}` is defined already",
                    formula.span,
                    (f"give the variable of `{word}` another name",),
                )
        known = known | set(formula.variables)
    for part in children(formula):
        if isinstance(part, Formula):
            yield from rebound(part, known)


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
        names = self.names_of(tree)
        if tree.data in _RUNS:
            raise self.fail(
                "expected one name, but this is a list of names",
                tree,
                "a list such as `p_{1..rank}` means all its names, separated by commas; "
                "for one after the other, write `each k in 1..rank : ...` with `p_{k}`",
            )
        return names[0]

    def names_of(self, tree: Tree[Token]) -> list[str]:
        """The names that a name stands for: one, or a run `p_{1..rank}` (empty when it runs backwards)."""
        match tree.data:
            case "name":
                return [str(tree.children[0])]
            case "subscripted":
                stem, subscript = tree.children
                return [f"{stem}{self._subscript(subscript)}"]
            case "ranged":
                stem, low, high = tree.children
                return [f"{stem}{n}" for n in self._run(tree, low, high)]
            case "ranged_down":
                stem, high, low = tree.children
                return [f"{stem}{n}" for n in reversed(self._run(tree, low, high))]
        raise InternalError(f"not a name: {tree.data}")

    def _subscript(self, tree: Any) -> int:
        """The number that a name ends in."""
        number = self.constant(tree)
        if number < 0:
            raise self.fail(
                f"expected a subscript of at least 0, but this is {number}", tree, "names end in 0, 1, 2, ..."
            )
        return number

    def _run(self, tree: Any, low: Any, high: Any) -> range:
        """The subscripts of a run of names; it may have no names, but not fewer."""
        first, last = self._subscript(low), self.constant(high)
        if last < first - 1:
            raise self.fail(
                f"expected a list of names, but it runs from {first} to {last}",
                tree,
                "set the constants so that the last subscript is not below the first",
            )
        return self._repetitions(tree, first, last)

    def _repetitions(self, tree: Any, low: int, high: int) -> range:
        if high - low >= LONGEST:
            raise self.fail(
                f"expected at most {LONGEST} repetitions, but there are {high - low + 1}",
                tree,
                "repetitions are expanded: use a size and an index array instead",
            )
        return range(low, high + 1)

    def repetitions(self, low: Any, high: Any) -> range:
        """The numbers of `each k in low..high`, perhaps none."""
        return self._repetitions(high, self.constant(low), self.constant(high))

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

        return int(evaluate(expr, unknown, lambda f, _: unknown(f)))

    def number(self, token: Any) -> int:
        """A number as written, if it is not too large to compute with."""
        return self._at_most(LARGEST, token, "a larger one can be passed at run time: declare it with `size`")

    def whole(self, token: Any) -> int:
        """A number that is a value: of 64 bits, with or without a sign."""
        return self._at_most(LARGEST_VALUE, token, "a larger one is written with a point, as a float64")

    def _at_most(self, most: int, token: Any, hint: str) -> int:
        if len(token) > len(str(most)) + 20 or int(token) > most:
            raise self.fail(f"expected a number of at most {most}, but found {_shortened(token)}", token, hint)
        return int(token)

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
                return Num(self.number(tree.children[0]), span)
            case "name" | "subscripted" | "ranged" | "ranged_down":
                return self.variable(self.name(tree), tree)
            case "call":
                return Call(self.name(tree.children[0]), self.exprs(tree.children[1]), span)
            case "builtin":
                return self._builtin(tree)
            case "scaled":
                return Bin("*", Num(self.number(tree.children[0])), self.expr(tree.children[1]), span)
            case "sign":
                operator, operand = tree.children
                value = self.expr(operand)
                if operator == "+":
                    return value
                return Num(-value.value, span) if isinstance(value, Num) else Bin("-", Num(0), value, span)
            case "sum" | "product":
                return self._left_to_right(tree)
        raise self.fail(
            "expected an integer expression, but this is a condition",
            tree,
            "compare integers, and join the comparisons with `and`, `or` and `not`",
        )

    def _left_to_right(self, tree: Tree[Any]) -> Expr:
        result = self.expr(tree.children[0])
        for operator, operand in zip(tree.children[1::2], tree.children[2::2], strict=True):
            op = {"mod": "%", "//": "/"}.get(str(operator), str(operator))
            right = self.expr(operand)
            if op in ("/", "%") and not variables(right) and not calls(right):
                divisor = int(evaluate(right, str, lambda f, _: f))
                if divisor <= 0:
                    raise self._no_divisor(operand, divisor)
            result = Bin(op, result, right, self.span(tree))
        return result

    def _no_divisor(self, operand: Any, value: int) -> SpecError:
        name = str(operand.children[0]) if operand.data == "name" else ""
        if name in self.constants:
            hint = f"the constant `{name}` is {value} here: give it a positive number"
        else:
            hint = "`/` rounds down and `mod` is its remainder; both need a divisor of at least 1"
        return self.fail(f"expected a positive divisor, but this is {value}", operand, hint)

    def _builtin(self, tree: Tree[Any]) -> Expr:
        function = str(tree.children[0])
        arguments = [self.expr(a) for a in tree.children[1:]]
        span = self.span(tree)
        if len(arguments) != BUILTINS[function] and not (function in ("min", "max") and len(arguments) > 2):
            wanted = BUILTINS[function]
            raise self.fail(
                f"expected {counted(wanted, 'argument')} of `{function}`, but {there_are(len(arguments))}",
                tree,
                f"write `{function}({', '.join('ab'[:wanted])})`",
            )
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
                return And((), span) if str(tree.children[0]).lower() == "true" else Or((), span)
            case "comparison":
                return self._comparison(tree)
            case "quantified":
                return self._quantified(tree)
            case "each":
                return self._each(tree)
        raise self._no_condition(tree)

    def _no_condition(self, tree: Tree[Any]) -> SpecError:
        name = str(tree.children[0]) if tree.data == "name" else ""
        near = difflib.get_close_matches(name, SHORT_FORMS, 1, 0.75) if name else []
        if near:
            return self.fail(f"expected `{near[0]}`, but found `{name}`", tree, f"did you mean `{near[0]}`?")
        what = "a list" if tree.data == "expressions_" else "an integer expression"
        hint = "compare it with something: `i = p`, `0 <= p < n`"
        return self.fail(f"expected a condition, but this is {what}", tree, hint)

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
                raise self.fail(
                    f"expected the variables of `{quantifier}`, but this is an expression",
                    item,
                    f"write `{quantifier} p, q : ...`, or `{quantifier} p < q : ...` with a condition on them",
                )
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
        numbers = self.repetitions(low, high)
        return conjunction([self.with_constant(str(name), n).formula(body) for n in numbers])

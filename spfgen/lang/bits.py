"""Functions of integers and booleans as terms of bit vectors, for Z3: what they compute in numpy's types.

Only bodies without loops, and the operators below, have one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spfgen.lang import nodes as n
from spfgen.lang.types import ElementType
from spfgen.lang.typing import (
    Kind,
    fitting,
    function_scalars,
    function_type,
    literal_kind,
    loop,
    settled,
    updated,
    weak,
)

PATHS = 64
"""The most ways through a function that are written down."""


class NoTermError(Exception):
    """The function has no term here."""


@dataclass(frozen=True, slots=True)
class Term:
    """A bit vector, as SMT-LIB, of a type; booleans are of one bit."""

    text: str
    kind: Kind


def width(kind: ElementType) -> int:
    return 1 if kind.kind == "b" else 8 * kind.bytes


def number(value: Any, kind: ElementType) -> str:
    return f"(_ bv{int(value) % 2 ** width(kind)} {width(kind)})"


def called(function: n.Function, arguments: Sequence[Term]) -> Term:
    """The term of a call."""
    kinds = [settled(a.kind) for a in arguments]
    result = function_type(function, kinds)
    scalars = function_scalars(function, kinds)
    given = {p: cast(a, scalars[p]) for p, a in zip(function.parameters, arguments, strict=True)}
    return _Body(scalars, result).run(list(function.body), given)


def cast(term: Term, kind: Kind) -> Term:
    own, wanted = settled(term.kind), settled(kind)
    if own.kind not in "biu" or wanted.kind not in "biu":
        raise NoTermError
    before, after = width(own), width(wanted)
    if wanted.kind == "b" and own.kind != "b":
        return Term(_bit(f"(distinct {term.text} {number(0, own)})"), kind)
    if after > before:
        extend = "sign_extend" if own.kind == "i" else "zero_extend"
        return Term(f"((_ {extend} {after - before}) {term.text})", kind)
    if after < before:
        return Term(f"((_ extract {after - 1} 0) {term.text})", kind)
    return Term(term.text, kind)


def _bit(condition: str) -> str:
    return f"(ite {condition} #b1 #b0)"


class _Body:
    """A body, carried out on terms."""

    def __init__(self, scalars: Mapping[str, Kind], result: ElementType) -> None:
        self.scalars, self.result, self.paths = scalars, result, 0

    def run(self, steps: list[Any], known: dict[str, Term]) -> Term:
        for at, step in enumerate(steps):
            match step:
                case n.Let(name, tree):
                    known = {**known, name: cast(value(tree, known), self.scalars[name])}
                case n.Set(name, op, tree):
                    tree = tree if op == "=" else updated(step)
                    known = {**known, name: cast(value(tree, known), self.scalars[name])}
                case n.If(condition, then, otherwise):
                    self.paths += 1
                    if self.paths > PATHS:
                        raise NoTermError
                    truth = cast(value(condition, known), TRUTH).text
                    rest = steps[at + 1 :]
                    yes, no = self.run([*then, *rest], known), self.run([*otherwise, *rest], known)
                    return Term(f"(ite (= {truth} #b1) {yes.text} {no.text})", self.result)
                case n.Return(tree):
                    return cast(value(tree, known), self.result)
                case _:
                    raise NoTermError
        raise NoTermError


TRUTH = loop("isnan", [literal_kind(True)]).result


def value(tree: Any, known: Mapping[str, Term]) -> Term:
    match tree:
        case n.Constant(constant):
            kind = literal_kind(constant)
            if settled(kind).kind not in "biu":
                raise NoTermError
            return Term(number(constant, settled(kind)), kind)
        case n.Local(name):
            return known[name]
        case n.Apply(op, arguments):
            parts = [value(a, known) for a in arguments]
            if tree.function is not None:
                return called(tree.function, parts)
            kinds = [p.kind for p in parts]
            found = loop(op, fitting(op, arguments, kinds), tree.span)
            given = [cast(p, k).text for p, k in zip(parts, found.arguments, strict=True)]
            result = weak(found.result) if all(isinstance(k, type) for k in kinds) else found.result
            return Term(_applied(op, given, found.arguments, found.result), result)
    raise NoTermError


_SAME = {
    "add": "bvadd",
    "subtract": "bvsub",
    "multiply": "bvmul",
    "negative": "bvneg",
    "invert": "bvnot",
    "bitwise_and": "bvand",
    "bitwise_or": "bvor",
    "bitwise_xor": "bvxor",
    "logical_and": "bvand",
    "logical_or": "bvor",
    "logical_xor": "bvxor",
    "logical_not": "bvnot",
}
_OF_BOOLEANS = {"add": "bvor", "multiply": "bvand"}
_ORDERS = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}


def _applied(op: str, given: Sequence[str], kinds: Sequence[ElementType], result: ElementType) -> str:
    kind, (a, *rest) = kinds[0], given
    sign = "s" if kind.kind == "i" else "u"
    if len(set(kinds[op == "where" :])) > 1:
        raise NoTermError
    if op.startswith("logical_"):
        given = [cast(Term(g, kind), TRUTH).text for g in given]
        return f"({_SAME[op]} {' '.join(given)})"
    if kind.kind == "b" and op in _OF_BOOLEANS:
        return f"({_OF_BOOLEANS[op]} {' '.join(given)})"
    if op in _SAME:
        return f"({_SAME[op]} {' '.join(given)})"
    if op in _ORDERS:
        return _bit(f"(bv{sign}{_ORDERS[op]} {a} {rest[0]})")
    zero = number(0, kind)
    match op, rest:
        case "equal", [b]:
            return _bit(f"(= {a} {b})")
        case "not_equal", [b]:
            return _bit(f"(distinct {a} {b})")
        case "maximum" | "fmax", [b]:
            return f"(ite (bv{sign}gt {a} {b}) {a} {b})"
        case "minimum" | "fmin", [b]:
            return f"(ite (bv{sign}lt {a} {b}) {a} {b})"
        case "absolute", [] if kind.kind == "i":
            return f"(ite (bvslt {a} {zero}) (bvneg {a}) {a})"
        case "square", []:
            return f"(bvmul {a} {a})"
        case "where", [b, c]:
            return f"(ite (= {cast(Term(a, kind), TRUTH).text} #b1) {b} {c})"
        case "left_shift", [b]:
            return f"(bvshl {a} {b})"
        case "right_shift", [b]:
            return f"({'bvashr' if kind.kind == 'i' else 'bvlshr'} {a} {b})"
        case "remainder", [b]:
            rest_of = "bvsmod" if kind.kind == "i" else "bvurem"
            return f"(ite (= {b} {zero}) {zero} ({rest_of} {a} {b}))"
    if op == result.name or op in ("positive", "conjugate", "real") or (op == "absolute" and kind.kind != "i"):
        return cast(Term(a, kind), result).text
    raise NoTermError


Goal = Callable[[Sequence[Term]], tuple[Term, Term]]


def question(goal: Goal, kinds: Sequence[ElementType]) -> str | None:
    """Whether two terms over variables of these types may differ, as a script; None where there are no terms."""
    if any(k.kind not in "biu" for k in kinds):
        return None
    names = [f"x{k}" for k in range(len(kinds))]
    try:
        left, right = goal([Term(name, kind) for name, kind in zip(names, kinds, strict=True)])
        right = cast(right, left.kind) if settled(right.kind) != settled(left.kind) else right
    except NoTermError:
        return None
    asked = f"(assert (distinct {left.text} {right.text}))"
    variables = [f"(declare-fun {m} () (_ BitVec {width(k)}))" for m, k in zip(names, kinds, strict=True)]
    return "\n".join(["(set-logic QF_BV)", *variables, asked, "(check-sat)", ""])

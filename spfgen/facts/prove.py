"""Asks Z3 whether facts imply a goal. The only importer of z3.

Declared facts are instantiated at the terms that occur (quantifier-free). Budgets are counted in Z3's own resource
units, so that answers do not depend on the machine; `unknown` is no proof. Every obligation is a fresh solver.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from spfgen.errors import InternalError
from spfgen.facts.formula import (
    ZERO,
    And,
    Bin,
    Call,
    Compare,
    Expr,
    Forall,
    Formula,
    Not,
    Num,
    Or,
    Var,
    calls,
    conjunction,
    implies,
    show,
    substitute,
    within,
)

RESOURCES = 2_000_000
"""Z3's rlimit for one obligation."""
INSTANCES = 400
"""The most instances of one fact."""


@dataclass(frozen=True)
class Answer:
    """`proved`, or refuted when there is a counterexample (`model`), else unknown."""

    goal: str
    proved: bool
    model: tuple[tuple[str, int], ...] | None
    seconds: float

    @property
    def word(self) -> str:
        return "proved" if self.proved else "refuted" if self.model is not None else "unknown"


@dataclass(frozen=True)
class Facts:
    """Closed formulas that hold of the functions, and the extents of each function's arguments."""

    formulas: tuple[Formula, ...]
    extents: Mapping[str, tuple[Expr, ...]]


def implied(assumptions: Sequence[Formula], facts: Facts, goal: Formula, *, thorough: bool = False) -> Answer:
    """Whether the assumptions and facts imply the goal for all integers.

    Facts are first instantiated so that no new calls arise; `thorough` tries again with those that make new ones.
    """
    answer = _ask(assumptions, facts, goal, new_calls=False)
    return _ask(assumptions, facts, goal, new_calls=True) if thorough and not answer.proved else answer


def _ask(assumptions: Sequence[Formula], facts: Facts, goal: Formula, new_calls: bool) -> Answer:
    start = time.perf_counter()
    z3 = _z3()
    known = [*assumptions, Not(goal)]
    known += instantiate(facts, known, new_calls)
    solver = z3.SolverFor("QF_UFNIA" if any(map(_is_nonlinear, known)) else "QF_UFLIA")
    solver.set("rlimit", RESOURCES)
    solver.set("random_seed", 0)
    encoder = _Encoder(z3)
    for formula in known:
        solver.add(encoder.formula(formula))
    verdict = solver.check()
    model = None
    if verdict == z3.sat:
        found = solver.model()
        values = {n: found.eval(v, model_completion=True) for n, v in encoder.variables.items()}
        model = tuple(sorted((n, v.as_long()) for n, v in values.items()))
    return Answer(show(goal), verdict == z3.unsat, model, time.perf_counter() - start)


@lru_cache(maxsize=1)
def _z3() -> Any:
    import z3

    return z3


def instantiate(facts: Facts, known: Iterable[Formula], new_calls: bool = True) -> list[Formula]:
    """Each fact at the arguments of the calls that occur; where its own calls lie within their arrays."""
    known = list(known)
    occurring: dict[Call, None] = {}
    for formula in known:
        occurring |= dict.fromkeys(calls(formula))
    result: list[Formula] = []
    for fact in facts.formulas:
        bound, body = (fact.variables, fact.body) if isinstance(fact, Forall) else ((), fact)
        for values in _substitutions(bound, calls(body), list(occurring)):
            instance = substitute(body, values)
            if not new_calls and not all(c in occurring for c in calls(instance)):
                continue
            inside = [
                within(argument, ZERO, extent)
                for call in calls(instance)
                for argument, extent in zip(call.arguments, facts.extents[call.function], strict=True)
            ]
            result.append(implies(conjunction(inside), instance))
    return result


def _substitutions(
    bound: tuple[str, ...], patterns: list[Call], occurring: list[Call]
) -> list[dict[str, Expr]]:
    """Terms for the bound variables, read off the calls that occur."""
    candidates: dict[str, dict[Expr, None]] = {name: {} for name in bound}
    for pattern, call in product(patterns, occurring):
        if pattern.function != call.function:
            continue
        for formal, actual in zip(pattern.arguments, call.arguments, strict=True):
            match formal:
                case Var(name) if name in bound:
                    candidates[name][actual] = None
                case Bin("+", Var(name), Num(shift)) if name in bound:
                    candidates[name][_minus(actual, shift)] = None
    # A variable that stands only in comparisons (a segment's position) ranges over all arguments that occur.
    everything = dict.fromkeys(a for c in occurring for a in c.arguments)
    choices = [list(found or everything) for found in candidates.values()]
    combinations = product(*choices)
    return [dict(zip(bound, values, strict=True)) for values, _ in zip(combinations, range(INSTANCES), strict=False)]


def _minus(expr: Expr, shift: int) -> Expr:
    match expr:
        case Bin("+", left, Num(value)) if value == shift:
            return left
    return Bin("-", expr, Num(shift))


def _is_nonlinear(formula: Formula) -> bool:
    from spfgen.ir import walk

    return any(
        isinstance(n, Bin) and n.op in ("*", "/", "%", "quot", "rem") and not _has_number(n) for n in walk(formula)
    )


def _has_number(expr: Bin) -> bool:
    return isinstance(expr.right, Num) or (expr.op == "*" and isinstance(expr.left, Num))


class _Encoder:
    """Formulas to Z3 terms; integers and uninterpreted functions by name."""

    def __init__(self, z3: Any) -> None:
        self.z3 = z3
        self.variables: dict[str, Any] = {}
        self.functions: dict[str, Any] = {}

    def formula(self, formula: Formula) -> Any:
        z3 = self.z3
        match formula:
            case And(parts):
                return z3.And([self.formula(p) for p in parts])
            case Or(parts):
                return z3.Or([self.formula(p) for p in parts])
            case Not(part):
                return z3.Not(self.formula(part))
            case Compare(op, left, right):
                a, b = self.expr(left), self.expr(right)
                match op:
                    case "=":
                        return a == b
                    case "!=":
                        return a != b
                    case "<":
                        return a < b
                    case "<=":
                        return a <= b
                    case ">":
                        return a > b
                    case ">=":
                        return a >= b
        raise InternalError(f"no obligation for {formula!r}")

    def expr(self, expr: Expr) -> Any:
        z3 = self.z3
        match expr:
            case Num(value):
                return z3.IntVal(value)
            case Var(name):
                if name not in self.variables:
                    self.variables[name] = z3.Int(name)
                return self.variables[name]
            case Call(function, arguments):
                if function not in self.functions:
                    self.functions[function] = z3.Function(function, *([z3.IntSort()] * (len(arguments) + 1)))
                return self.functions[function](*(self.expr(a) for a in arguments))
            case Bin(op, left, right):
                a, b = self.expr(left), self.expr(right)
                match op:
                    case "+":
                        return a + b
                    case "-":
                        return a - b
                    case "*":
                        return a * b
                    case "/" | "quot":
                        return a / b  # rounds down for a positive divisor
                    case "%" | "rem":
                        return a % b
                    case "min":
                        return z3.If(a <= b, a, b)
                    case "max":
                        return z3.If(a >= b, a, b)
        raise InternalError(f"no obligation for {expr!r}")

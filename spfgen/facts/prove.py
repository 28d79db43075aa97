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
    implies,
    show,
    substitute,
    within,
)
from spfgen.ir import walk

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
    known = [*assumptions, Not(goal)]
    known += instantiate(facts, known, new_calls)
    verdict, model = _answer(smt_lib(known), _logic(known))
    return Answer(show(goal), verdict == "unsat", model if verdict == "sat" else None, time.perf_counter() - start)


def _logic(formulas: Sequence[Formula]) -> str:
    """The smallest logic that holds the formulas; none for those with quantifiers of the user's own."""
    if any(isinstance(n, Exists | Forall) for f in formulas for n in walk(f)):
        return ""
    return "QF_UFNIA" if any(map(_is_nonlinear, formulas)) else "QF_UFLIA"


@lru_cache(maxsize=1024)
def _answer(text: str, logic: str) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Z3's verdict on an SMT-LIB text, with the integers of its model. Remembered within the process."""
    z3 = _z3()
    solver = z3.SolverFor(logic) if logic else z3.Solver()
    solver.set("rlimit", RESOURCES)
    solver.set("random_seed", 0)
    solver.set("ctrl_c", False)  # Z3 would take an interrupt for itself and answer `unknown`
    solver.from_string(text)
    verdict = str(solver.check())
    if verdict != "sat":
        return verdict, ()
    found = solver.model()
    return verdict, tuple(sorted((d.name(), found[d].as_long()) for d in found.decls() if d.arity() == 0))


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


def _substitutions(bound: tuple[str, ...], patterns: list[Call], occurring: list[Call]) -> list[dict[str, Expr]]:
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
    return any(
        isinstance(n, Bin) and n.op in ("*", "/", "%", "quot", "rem") and not _has_number(n) for n in walk(formula)
    )


def _has_number(expr: Bin) -> bool:
    return isinstance(expr.right, Num) or (expr.op == "*" and isinstance(expr.left, Num))


# --- SMT-LIB --------------------------------------------------------------------------------------------


def smt_lib(formulas: Sequence[Formula]) -> str:
    """The formulas as an SMT-LIB text: declarations, then an assertion each."""
    names: dict[str, int] = {}
    for formula in formulas:
        for node in walk(formula):
            match node:
                case Var(name):
                    names[name] = 0
                case Call(function, arguments):
                    names[function] = len(arguments)
    lines = [f"(declare-fun {_symbol(n)} ({' '.join(['Int'] * arity)}) Int)" for n, arity in names.items()]
    lines += [f"(assert {_formula(f)})" for f in formulas]
    return "\n".join(lines)


def _symbol(name: str) -> str:
    return f"|{name}|"


def _formula(formula: Formula) -> str:
    match formula:
        case And(()):
            return "true"
        case Or(()):
            return "false"
        case And(parts):
            return f"(and {' '.join(map(_formula, parts))})"
        case Or(parts):
            return f"(or {' '.join(map(_formula, parts))})"
        case Not(part):
            return f"(not {_formula(part)})"
        case Exists(names, body) | Forall(names, body):
            word = "exists" if isinstance(formula, Exists) else "forall"
            bound = " ".join(f"({_symbol(n)} Int)" for n in names)
            return f"({word} ({bound}) {_formula(body)})"
        case Compare("!=", left, right):
            return f"(not (= {_expr(left)} {_expr(right)}))"
        case Compare(op, left, right):
            return f"({op} {_expr(left)} {_expr(right)})"
    raise InternalError(f"no obligation for {formula!r}")


# Division rounds down for a positive divisor, in SMT-LIB as here.
_OPERATORS = {"/": "div", "quot": "div", "%": "mod", "rem": "mod"}


def _expr(expr: Expr) -> str:
    match expr:
        case Num(value):
            return str(value) if value >= 0 else f"(- {-value})"
        case Var(name):
            return _symbol(name)
        case Call(function, arguments):
            return f"({_symbol(function)} {' '.join(map(_expr, arguments))})"
        case Bin("min" | "max" as op, left, right):
            a, b = _expr(left), _expr(right)
            return f"(ite ({'<=' if op == 'min' else '>='} {a} {b}) {a} {b})"
        case Bin(op, left, right):
            return f"({_OPERATORS.get(op, op)} {_expr(left)} {_expr(right)})"
    raise InternalError(f"no obligation for {expr!r}")

"""Asks Z3 whether facts imply a goal. The only importer of z3.

Declared facts are instantiated at the terms that occur (quantifier-free). Budgets are counted in Z3's own resource
units, so that answers do not depend on the machine; `unknown` is no proof. Every obligation is a fresh solver.
Verdicts are remembered in the process and on disk (facts/answers.py); then Z3 is not even imported.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

from spfgen.facts import answers
from spfgen.facts.answers import Verdict
from spfgen.facts.formula import (
    ZERO,
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
    conjuncts,
    evaluate,
    implies,
    opened,
    show,
    substitute,
    variables,
    within,
)
from spfgen.facts.smt import (
    LINEAR,
    bounded,
    canonical,
    function_symbol,
    logic_of,
    smt_script,
    variable_name,
    variable_symbol,
)
from spfgen.ir import walk

RESOURCES = 2_000_000
"""Z3's rlimit for one obligation."""
SECONDS = 20
"""When to give up: not all that Z3 does is counted as resources. Such verdicts are not kept."""
SEED = 0
SMALL = (4, 64)
"""The limits that are tried for the numbers of a counterexample."""
INSTANCES = 400
"""The most instances of one fact."""


@dataclass(frozen=True)
class Answer:
    """`proved`, or refuted when there is a counterexample, else unknown.

    `model` is the counterexample: the values of names; `values` those of the `calls` in the question, which only
    `smaller` finds out.
    `seconds` is what Z3 took, then or now (`cached`: it was not asked now); `text` the SMT-LIB script that it got:
    proved is `unsat`. It holds the `assumptions`, the negated goal, then `instances` of the declared facts.
    """

    goal: str
    proved: bool
    model: tuple[tuple[str, int], ...] | None
    seconds: float
    about: str = ""
    text: str = ""
    cached: bool = False
    values: tuple[tuple[str, int], ...] = ()
    assumptions: int = 0
    instances: int = 0
    calls: tuple[Call, ...] = ()
    how: str = ""
    """How it is known, where not by Z3."""

    @property
    def word(self) -> str:
        return self.how or ("proved" if self.proved else "refuted" if self.model is not None else "unknown")


@dataclass(frozen=True)
class Facts:
    """Closed formulas that hold of the functions, and the extents of each function's arguments."""

    formulas: tuple[Formula, ...]
    extents: Mapping[str, tuple[Expr, ...]]


def implied(
    assumptions: Sequence[Formula], facts: Facts, goal: Formula, *, thorough: bool = False, about: str = ""
) -> Answer:
    """Whether the assumptions and facts imply the goal for all integers; `about` says in words why that is asked.

    Facts are first instantiated so that no new calls arise; `thorough` tries again with those that make new ones, and
    then at these, too.
    """
    answer = _ask(assumptions, facts, goal, about, rounds=0)
    for rounds in (1, 2) if thorough else ():
        if not answer.proved:
            first, answer = answer, _ask(assumptions, facts, goal, about, rounds=rounds)
            answer = replace(answer, seconds=first.seconds + answer.seconds, cached=first.cached and answer.cached)
    _note(answer)
    return answer


def note(answer: Answer) -> None:
    """Have those who listen hear an answer."""
    _note(answer)


# --- who listens ----------------------------------------------------------------------------------------

_RECORDS: ContextVar[tuple[list[Answer], ...]] = ContextVar("records of answers", default=())


@contextmanager
def recorded() -> Iterator[list[Answer]]:
    """A list of all answers that are given meanwhile in this thread, remembered ones too; these may be nested."""
    answers: list[Answer] = []
    token = _RECORDS.set((*_RECORDS.get(), answers))
    try:
        yield answers
    finally:
        _RECORDS.reset(token)


def _note(answer: Answer) -> None:
    for record in _RECORDS.get():
        record.append(answer)


P = ParamSpec("P")
R = TypeVar("R")


def remembered(function: Callable[P, R]) -> Callable[P, R]:
    """Like `lru_cache`, for functions that ask: what they asked is recorded each time."""

    @lru_cache(maxsize=256)
    def answered(*arguments: P.args, **named: P.kwargs) -> tuple[R, tuple[Answer, ...]]:
        with recorded() as asked:
            result = function(*arguments, **named)
        return result, tuple(replace(answer, cached=True) for answer in asked)

    @wraps(function)
    def wrapper(*arguments: P.args, **named: P.kwargs) -> R:
        with recorded() as asked:
            result, before = answered(*arguments, **named)  # type: ignore[arg-type]
        if not asked:
            for answer in before:
                _note(answer)
        return result

    wrapper.cache_clear = answered.cache_clear  # type: ignore[attr-defined]
    return wrapper


def unique(answers: Iterable[Answer]) -> tuple[Answer, ...]:
    """The answers in their order, without those that repeat an earlier one."""
    result: dict[tuple[str, str, str], Answer] = {}
    for answer in answers:
        result.setdefault((answer.about, answer.goal, answer.text), answer)
    return tuple(result.values())


# --- asking ---------------------------------------------------------------------------------------------


def _ask(assumptions: Sequence[Formula], facts: Facts, goal: Formula, about: str, rounds: int) -> Answer:
    """Facts are instantiated with new calls that often: those of a round are among the calls of the next one."""
    start = perf_counter()
    asked = (*assumptions, Not(goal))
    script, instances, shown = _script(asked, facts.formulas, tuple(facts.extents.items()), rounds)
    text, symbols = canonical(script)
    verdict, since = _verdict(text, ())  # what calls are in a counterexample takes longer than the answer
    refuted = verdict.word == "sat"
    model = tuple(sorted((variable_name(symbols[n]), value) for n, value in verdict.model))
    return Answer(
        goal=show(goal),
        proved=verdict.word == "unsat",
        model=model if refuted else None,
        seconds=verdict.seconds,
        about=about,
        text=script,
        cached=since < start,
        assumptions=len(assumptions),
        instances=instances,
        calls=shown,
    )


@lru_cache(maxsize=1024)
def _script(
    asked: tuple[Formula, ...],
    formulas: tuple[Formula, ...],
    extents: tuple[tuple[str, tuple[Expr, ...]], ...],
    rounds: int,
) -> tuple[str, int, tuple[Call, ...]]:
    """The question, how many instances of facts are in it, and the calls whose values make a counterexample clear. The
    same is often asked again: of several orders of loops, or of each sum of a value."""
    facts = Facts(formulas, dict(extents))
    occurring, bound = _calls_and_bound(asked)
    instances = instantiate(facts, occurring, new_calls=rounds > 0)
    for _ in range(1, rounds):
        instances = instantiate(facts, {**occurring, **_forward(instances)})
    # The value of a call says nothing where a quantified variable is in it.
    shown = tuple(c for c in occurring if not bound or not bound & variables(c))
    return smt_script([*asked, *instances]), len(instances), shown


def smaller(answer: Answer) -> Answer:
    """The same with a counterexample of small numbers, where there is one, and the values of calls in it: for people to
    read."""
    if not answer.model:
        return answer
    names = [name for name, _ in answer.model]
    for script in (*(bounded(answer.text, names, limit) for limit in SMALL), answer.text):
        verdict, _ = _verdict(script, answer.calls)
        if verdict.word == "sat":
            return replace(answer, model=verdict.model, values=verdict.values)
    return answer


def _calls_and_bound(formulas: Iterable[Formula]) -> tuple[dict[Call, None], set[str]]:
    """The calls that occur, each once, and the names that are quantified somewhere."""
    calls: dict[Call, None] = {}
    bound: set[str] = set()
    for formula in formulas:
        for node in walk(formula):
            if isinstance(node, Call):
                calls[node] = None
            elif isinstance(node, Exists | Forall):
                bound.update(node.variables)
    return calls, bound


def _forward(instances: Iterable[Formula]) -> dict[Call, None]:
    """The calls of instances without those a step back, `f(p - 1)`: with them there is always another one."""
    return {c: None for c in _calls_and_bound(instances)[0] if not any(_is_difference(n) for n in walk(c))}


def _is_difference(node: Any) -> bool:
    return isinstance(node, Bin) and node.op == "-"


_TURN = threading.RLock()


@lru_cache(maxsize=1024)
def _verdict(script: str, shown: tuple[Call, ...]) -> tuple[Verdict, float]:
    """Z3's verdict, and when in this process it was given (never, when it came from the disk)."""
    key = answers.key(script, *map(show, shown), str(RESOURCES), str(SEED), z3_version())
    verdict = answers.load(key)
    if verdict is not None:
        return verdict, 0.0
    verdict, keep = _solved(script, shown)
    if keep:
        answers.save(key, verdict)
    return verdict, perf_counter()


def _solved(script: str, shown: tuple[Call, ...]) -> tuple[Verdict, bool]:
    """Z3's verdict now, and whether it would be the same on any machine. Z3 answers one thread at a time."""
    with _TURN:
        return _solved_alone(script, shown)  # what Z3 made is gone with that call, while it is still our turn


def _solved_alone(script: str, shown: tuple[Call, ...]) -> tuple[Verdict, bool]:
    z3 = _z3()
    start = perf_counter()
    logic = logic_of(script)
    # In a context that others have used, answers depend on what was asked before: some questions never end there.
    context = z3.Context()
    # Without products Z3's core decides it, and its preparations would take longer than the question.
    if logic == LINEAR:
        solver = z3.SimpleSolver(ctx=context)
    else:
        solver = z3.SolverFor(logic, ctx=context) if logic else z3.Solver(ctx=context)
    solver.set("rlimit", RESOURCES)
    solver.set("timeout", 1000 * SECONDS)
    solver.set("random_seed", SEED)
    solver.set("ctrl_c", False)  # Z3 would take an interrupt for itself and answer `unknown`
    solver.from_string(script)
    word = str(solver.check())
    if word != "sat":
        seconds = perf_counter() - start
        return Verdict(word, seconds=seconds), seconds < SECONDS and "memory" not in solver.reason_unknown()
    z3_model = solver.model()
    names = {d.name(): d for d in z3_model.decls()}
    model = tuple(sorted((variable_name(n), z3_model[d].as_long()) for n, d in names.items() if d.arity() == 0))
    values = tuple((show(call), value) for call in shown if (value := _value_of(call, z3_model)) is not None)
    return Verdict(word, model, values, perf_counter() - start), True


def _value_of(call: Call, model: Any) -> int | None:
    """What a call is in Z3's model."""
    z3 = _z3()

    def number(term: Any) -> int:
        return int(model.eval(term, model_completion=True).as_long())

    def value(function: str, arguments: tuple[int, ...]) -> int:
        kinds = [z3.IntSort(model.ctx)] * (len(arguments) + 1)
        return number(z3.Function(function_symbol(function), *kinds)(*(z3.IntVal(a, model.ctx) for a in arguments)))

    try:
        return int(evaluate(call, lambda name: number(z3.Int(variable_symbol(name), model.ctx)), value))
    except (ZeroDivisionError, AttributeError):  # no number in this model
        return None


@lru_cache(maxsize=1)
def _z3() -> Any:
    import z3

    return z3


def decide(goal: Callable[[Any], Any]) -> bool | Mapping[str, int]:
    """True where Z3 proves what `goal` makes of its module, which has terms of its own (of bits, say); the values of
    its variables where it finds a counterexample; False where it gives up."""
    z3 = _z3()
    solver = z3.Solver()
    solver.set("rlimit", RESOURCES)
    solver.set("random_seed", SEED)
    solver.add(z3.Not(goal(z3)))
    answer = solver.check()
    if answer == z3.sat:
        model = solver.model()
        return {str(d): int(model[d].as_signed_long()) for d in model.decls() if z3.is_bv_value(model[d])}
    return bool(answer == z3.unsat)


@lru_cache(maxsize=1)
def z3_version() -> str:
    """The version of Z3 that would answer; read off the name of its installation, which is a hundred times faster."""
    module_spec = importlib.util.find_spec("z3")
    if module_spec is not None and module_spec.origin is not None:
        with suppress(OSError):
            package = Path(module_spec.origin).parent
            names = [entry.name for entry in package.parent.glob("z3_solver-*.dist-info")]
            if len(names) == 1:
                return names[0]
    return str(_z3().get_version_string())


# --- instances of facts ---------------------------------------------------------------------------------


def instantiate(facts: Facts, occurring: Mapping[Call, None], new_calls: bool = True) -> list[Formula]:
    """Each fact at the arguments of the calls that occur; where its own calls lie within their arrays."""
    functions = {call.function for call in occurring}
    result: list[Formula] = []
    for fact in facts.formulas:
        bound, body = opened(fact)
        patterns = calls(body)
        if not new_calls and not all(p.function in functions for p in patterns):
            continue
        strict = _strict_pairs(body)
        for values in _substitutions(bound, patterns, list(occurring)):
            if any(values.get(a) == values.get(b) for a, b in strict):
                continue  # p < p: says nothing
            if not new_calls and not all(substitute(p, values) in occurring for p in patterns):
                continue
            instance = substitute(body, values)
            inside = [
                within(argument, ZERO, extent)
                for call in dict.fromkeys(calls(instance))
                for argument, extent in zip(call.arguments, facts.extents[call.function], strict=True)
            ]
            result.append(implies(conjunction(inside), instance))
    return result


def _strict_pairs(body: Formula) -> list[tuple[str, str]]:
    """The pairs of variables that an implication assumes to differ: p < q."""
    match body:
        case Or((Not(condition), _)):
            parts = conjuncts(condition)
            return [
                (part.left.name, part.right.name)
                for part in parts
                if isinstance(part, Compare)
                and part.op in ("<", ">")
                and isinstance(part.left, Var)
                and isinstance(part.right, Var)
            ]
    return []


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
    choices = [list(terms or everything) for terms in candidates.values()]
    combinations = product(*choices)
    return [dict(zip(bound, values, strict=True)) for values, _ in zip(combinations, range(INSTANCES), strict=False)]


def _minus(expr: Expr, shift: int) -> Expr:
    match expr:
        case Bin("+", left, Num(value)) if value == shift:
            return left
    return Bin("-", expr, Num(shift))

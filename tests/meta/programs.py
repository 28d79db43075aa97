"""Programs of the random generators with their plans and a few small operands, by the road that the compiler takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings

import spfgen
from spfgen.errors import DataError, SpfgenError
from spfgen.pipeline import Generated, make_plans
from spfgen.plan.nodes import Plan
from spfgen.plan.verify import compared
from spfgen.plan.verify.compared import Compared
from spfgen.run.calls.call import Bound
from spfgen.space.local_tensors import AT
from spfgen.space.nodes import Program
from tests.fuzz import carried, interpreted, rewritten, runner, test_random_expressions, test_random_loops
from tests.fuzz.programs import Case
from tests.fuzz.test_random_programs import drawn
from tests.plans.effort import Effort
from tests.plans.interpret import Choices, Held, interpret

SUMS, STEPS = "sums of products", "steps"
LONGEST = 20_000
"""Iterations after which a plan is said not to end; or four times those of the one that is right, and some."""
Results = dict[str, dict[str, Any]]


class Bounded(Effort):
    """Raises TimeoutError where a plan goes on and on."""

    most = LONGEST

    def __setattr__(self, name: str, value: int) -> None:
        if value > self.most:
            raise TimeoutError
        super().__setattr__(name, value)


def bounded_by(effort: Effort) -> Bounded:
    """For a plan that is to do about as much."""
    found = Bounded()
    object.__setattr__(found, "most", min(LONGEST, 4 * effort.total + 200))
    return found


@dataclass(frozen=True)
class _Copy:
    """An operand as it was before the call."""

    sizes: Mapping[str, int]
    arrays: Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """What a call passes."""

    operands: Mapping[str, Held]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Planned:
    """A program, its plans, what was compared while they were made, and some operands."""

    text: str
    road: str
    program: Program
    plans: tuple[Plan, ...]
    compared: Compared
    runs: tuple[Run, ...]

    def results(self, plans: Sequence[Plan], run: Run, choice: Choices, effort: Effort) -> Results | str:
        """What the plans compute, or what becomes of it."""
        try:
            return interpret(self.program, plans, run.operands, run.sizes, choice, effort)
        except DataError:
            return "refused"
        except (SpfgenError, ArithmeticError, TimeoutError):
            return "wrong"


CHOICES = (Choices(), Choices(1, False))


def same(one: Results | str, other: Results | str) -> bool:
    """Whether two plans computed the same, up to the order of additions and of entries."""
    if isinstance(one, str) or isinstance(other, str):
        return one is other or one == other
    return all(
        one[t].keys() == other[t].keys() and all(map(_alike, _in_order(one[t]), _in_order(other[t]))) for t in one
    )


def _in_order(arrays: dict[str, Any]) -> list[Any]:
    if AT not in arrays:
        return [*arrays.values()]
    order = np.lexsort(arrays[AT].T[::-1]) if arrays[AT].size else slice(None)
    return [a[order] for a in arrays.values()]


def _alike(a: Any, b: Any) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=a.dtype.kind in "fc"))


# --- sums of products ----------------------------------------------------------------------------------


def sums(focus: str, count: int) -> Iterator[Planned]:
    """Programs of the generators of sums of products; always the same."""
    found: list[Case] = []
    if not count:
        return

    @settings(derandomize=True, max_examples=count, database=None, deadline=None, suppress_health_check=[*HealthCheck])
    @given(drawn(focus))
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    for case in found[:count]:
        planned = of_case(case)
        if planned is not None:
            yield planned


def of_case(case: Case) -> Planned | None:
    """None where the program is refused."""
    try:
        joined = interpreted.joined(case)
        with compared.recorded() as record:
            plans = make_plans(joined.program)
    except SpfgenError:
        return None
    runs = []
    for data in case.data:
        operands = runner.operands(case, joined.program, data)
        runs.append(Run({n: o.tensor for n, o in operands.items()}, {**dict(data.sizes), **dict(data.extents)}))
    road = STEPS if joined.program.beyond else SUMS
    return Planned(case.kernel, road, joined.program, plans, record, tuple(runs))


# --- steps -----------------------------------------------------------------------------------------------


def steps(count: int) -> Iterator[Planned]:
    """Programs of the generators of equations, of loops and of results that are written again and again."""
    kinds: Sequence[Callable[[int, int], Any]] = (_equation, _loop, _rewritten)
    for seed in range(count):
        yield from of_calls(lambda seed=seed: kinds[seed % len(kinds)](seed, 1 + seed % 2))


def of_calls(run: Callable[[], Any]) -> Iterator[Planned]:
    """What is compiled and called meanwhile."""
    made: dict[int, tuple[Generated, list[Run]]] = {}

    def watch(own: Generated, call: Bound) -> None:
        copies = {n: _Copy({**t.sizes}, {k: np.array(a) for k, a in t.arrays.items()}) for n, t in call.tensors.items()}
        made.setdefault(id(own), (own, []))[1].append(Run(copies, {**call.sizes}))

    with carried.by_the_interpreter(watch=watch), suppress(test_random_expressions.Skipped):
        run()
    for own, runs in made.values():
        road = STEPS if own.program.beyond else SUMS
        yield Planned(own.program.doc or own.program.name, road, own.program, own.plans, own.compared, tuple(runs))


LAYOUTS = ("csr", "csc", "ell", "coo", "coo_unsorted", "dcsr", "bcsr(R=2, C=2)", "dia", "csr_unsorted")
ENTRIES = (
    "B[i,j] = A[i,j]",
    "B[j,i] = A[i,j]",
    "B[i,j] = A[i,k]*A[k,j]",
    "B[i,j] = A[i,j] + A[j,i]",
    "B[i,j] = A[j,i] + A[j,i]",
    "B[i,j] = A[i,k]*A[k,j] + A[i,j]",
    "B[i,j] = abs(A[j,i])",
    "B[i,j] = A[i,j] where j <= i",
)
"""Equations with results that are counted and go to their place at once, or row by row."""


def assembled(count: int) -> Iterator[Planned]:
    """Programs with results whose entries are gathered, or counted and inserted."""
    for seed in range(count):
        yield from of_calls(lambda seed=seed: _assembled(seed))


def _assembled(seed: int) -> None:
    rng = np.random.default_rng([seed, 49])
    text = ENTRIES[seed % len(ENTRIES)]
    given, made = (LAYOUTS[k] for k in rng.integers(len(LAYOUTS), size=2))
    with suppress(SpfgenError):
        kernel = spfgen.compile(text, A=given, B=made, optimize=int(rng.integers(1, 3)))
        for extent in (6, 4):
            values = np.where(rng.random((extent, extent)) < 0.4, rng.integers(1, 9, (extent, extent)), 0)
            kernel(A=spfgen.pack(values.astype(float), given))


def _equation(seed: int, level: int) -> str:
    equation, sets = test_random_expressions.random_equation(seed)
    return test_random_expressions.problem(equation, seed, level, sets)


def _loop(seed: int, level: int) -> str:
    return test_random_loops.problem(test_random_loops.random_program(seed), seed, level)


def _rewritten(seed: int, level: int) -> str:
    return rewritten.problem(rewritten.grown(seed), level)


__all__ = ["STEPS", "SUMS", "Planned", "assembled", "same", "steps", "sums"]

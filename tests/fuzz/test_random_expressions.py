"""Random equations with functions, fills, reductions and views of neighbours, in all layouts, against plain numpy.

A failure is shrunk and shown as text with its layouts. `-m fuzz` runs many; SPFGEN_FUZZ_SECONDS says for how long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spfgen.errors import DataError, SpfgenError
from tests.fuzz import results, unseen
from tests.fuzz.expressions import (
    EXTENT_OF,
    INDICES,
    Equation,
    Grower,
    Known,
    Operand,
    accessed,
    alone,
    result_of,
    shrunk,
)
from tests.fuzz.seeds import reports_of
from tests.papers import support

FILLS: dict[str, Sequence[Any]] = {
    "f": (0.0, 0.0, 1.0, np.inf, -np.inf, 2.5, np.nan),
    "i": (0, 0, 1, -3),
    "b": (False, False, True),
}
DENSITIES = (0.4, 0.0, 1.0)
EXTENTS = ({"n": 4, "m": 5}, {"n": 3, "m": 2}, {"n": 1, "m": 6})


class Skipped(Exception):
    """A layout does not hold the data."""


def random_equation(seed: int, depth: int = 4) -> tuple[Equation, list[tuple[dict[str, Any], Known]]]:
    """The equation, and for each data set the operands to pass and what they are as arrays."""
    rng = np.random.default_rng([seed, 3])
    operands = tuple(_operand(rng, f"T{n}") for n in range(rng.integers(2, 5)))
    sets = [_data(operands, seed, which) for which in range(3)]
    grower = Grower(rng, operands, [known for _, known in sets])
    wanted = min(2, sum(bool(o.axes) for o in operands))
    for turn in range(60):  # with several tensors in it
        free = "".join(sorted(str(i) for i in rng.permutation(list(INDICES))[: rng.integers(0, 4)]))
        value, _ = grower.grow(grower.pick("ffib"), int(rng.integers(1, depth + 1)), free)
        used = accessed(value)
        if sum(o.name in used and bool(o.axes) for o in operands) >= wanted:
            break
        wanted = max(1, wanted) if turn < 40 else 1
    result = results.random_layout(rng, len(free))
    return Equation(tuple(o for o in operands if o.name in used), free, "=", value, result), sets


def _operand(rng: np.random.Generator, name: str) -> Operand:
    rank = int(rng.choice([0, 1, 1, 2, 2, 2, 3]))
    axes = "".join(str(a) for a in rng.choice(["n", "m"], rank))
    kind = str(rng.choice(["f", "f", "i", "b"]))
    ours = [n for n, u in unseen.ALL.items() if u.rank == rank]
    layout = str(rng.choice([*support.LAYOUTS[rank], *ours])) if rank else ""
    own_fill = "dense" in layout or not rank or layout in ours or layout in ("rle",)
    fills = FILLS[kind][:1] if own_fill else FILLS[kind]
    return Operand(name, axes, kind, fills[rng.integers(len(fills))], layout)


def _data(operands: Sequence[Operand], seed: int, which: int) -> tuple[dict[str, Any], Known]:
    rng = np.random.default_rng([seed, which, 9])
    given: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for operand in operands:
        shape = tuple(EXTENTS[which][a] for a in operand.axes)
        values = {
            "f": lambda s=shape: rng.choice([-2.0, -1.0, 0.5, 1.0, 2.0, 3.0], s),
            "i": lambda s=shape: rng.integers(-5, 9, s),
            "b": lambda s=shape: rng.random(s) < 0.7,
        }[operand.kind]()
        if not shape:
            given[operand.name], arrays[operand.name] = values[()], np.asarray(values)
            continue
        kept = rng.random(shape) < DENSITIES[which]
        array = np.where(kept, values, np.asarray(operand.fill).astype(np.asarray(values).dtype))
        made = support.packed(array, operand.layout, operand.fill, seed % 5)
        if made is None:
            raise Skipped
        given[operand.name], arrays[operand.name] = made
    return given, Known(arrays, EXTENTS[which])


def problem(equation: Equation, seed: int, level: int, sets: Sequence[tuple[dict[str, Any], Known]]) -> str:
    """What is wrong with what the compiled equation gives; "" where nothing is."""
    layouts = tuple((o.name, o.layout) for o in equation.operands if o.axes)
    fills = tuple((o.name, o.fill) for o in equation.operands if o.axes)
    layouts += (("R", equation.result),) if equation.free else ()
    names = {o.name for o in equation.operands}
    expected, fill = result_of(equation, sets[0][1], None), 0
    try:
        kernel = support.compiled(equation.text(), layouts, fills, "", "", level)
        for number, (given, known) in enumerate(sets):
            said = alone(equation.value)
            sizes = {i: known.extents[EXTENT_OF[i]] for i in equation.free if i not in said}
            expected, fill = result_of(equation, known, None), kernel.program.tensor("R").layout.fill
            more = {"prune": True} if seed + number & 1 else {}
            try:
                found = kernel(**{n: v for n, v in given.items() if n in names}, sizes=sizes, **more)
            except DataError as error:
                if results.may_refuse(equation.result, expected, fill, error):
                    continue
                raise
            results.check(found, expected, equation.result, bool(more), f"{known.arrays}")
    except SpfgenError as error:
        if results.may_refuse(equation.result, expected, fill, error):
            return ""
        return f"refused: {type(error).__name__}: {error}"
    except AssertionError as error:
        return f"wrong: {error}"
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"
    return ""


def try_one(seed: int, level: int = 1) -> str:
    """A report of what fails, shrunk; "" where nothing does."""
    try:
        equation, sets = random_equation(seed)
    except Skipped:
        return ""
    found = problem(equation, seed, level, sets)
    if not found:
        return ""
    kind = found.partition(":")[0]

    def fails(trial: Equation) -> bool:
        used = accessed(trial.value)
        trial = replace(trial, operands=tuple(o for o in trial.operands if o.name in used))
        try:
            own = [_again(trial, seed, which) for which in range(3)]
        except Skipped:
            return False
        return problem(trial, seed, level, own).startswith(kind)

    def _again(trial: Equation, seed: int, which: int) -> tuple[dict[str, Any], Known]:
        return _data(trial.operands, seed, which)

    small = shrunk(equation, fails) if fails(equation) else equation
    if small.result != "dense" and fails(replace(small, result="dense")):
        small = replace(small, result="dense")
    used = accessed(small.value)
    small = replace(small, operands=tuple(o for o in small.operands if o.name in used))
    own = [_data(small.operands, seed, which) for which in range(3)] if small is not equation else sets
    told = [f"{o.name} : {support.with_fill(o.layout, o.fill)} <{o.kind}> [{o.axes}]" for o in small.operands]
    told.append(f"R : {small.result}")
    message = problem(small, seed, level, own) or found
    return (
        f"seed {seed} level {level}: {small.text()}\n  {'; '.join(told)}\n  {message[:900]}\n  (was: {equation.text()})"
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(8))
def test_random_equations(seed: int) -> None:
    report = try_one(seed)
    assert not report, report


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_many_random_equations() -> None:
    reports = reports_of(try_one)
    assert not reports, "\n\n".join(reports)

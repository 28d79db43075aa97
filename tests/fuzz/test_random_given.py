"""Random equations into sparse results that come with a pattern: all that is computed is stored, or the call fails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError, SpfgenError
from tests.fuzz.expressions import EXTENT_OF, alone, result_of
from tests.fuzz.seeds import reports_of
from tests.fuzz.test_random_expressions import Skipped, random_equation
from tests.papers import support

OPERATORS = ("=", "=", "=", "+=", "max=", "min=", "*=")
PATTERNS = (1.0, 0.6)
"""How much a result stores; of one that stores everything nothing can be lost."""


def try_one(seed: int, level: int = 1) -> str:
    """A report of what fails; "" where nothing does."""
    rng = np.random.default_rng([seed, 77])
    try:
        equation, sets = random_equation(seed, 3)
    except Skipped:
        return ""
    if not equation.free:
        return ""
    layout = str(rng.choice(support.SPARSE[len(equation.free)]))
    plain = replace(equation, result=layout)
    equation = replace(plain, op=str(rng.choice(OPERATORS)))
    layouts = (*((o.name, o.layout) for o in equation.operands if o.axes), ("R", layout))
    fills = tuple((o.name, o.fill) for o in equation.operands if o.axes)
    names = {o.name for o in equation.operands}
    told = f"seed {seed} level {level}: {equation.text()} {layouts} {fills}\n"
    for density in PATTERNS:
        for given, known in sets[:2]:
            shape = result_of(plain, known, None)
            if shape.dtype.kind == "b" and equation.op != "=":
                return ""
            stored = rng.random(shape.shape) < density
            before = np.where(stored, rng.choice([1, 2, 3], shape.shape), 0).astype(shape.dtype)
            expected = result_of(equation, known, before if equation.op != "=" else None).astype(shape.dtype)
            if not np.isfinite(expected.astype(float)).all():
                continue  # 0 times infinity is 0 where the 0 is not stored
            said = alone(equation.value)
            sizes = {i: known.extents[EXTENT_OF[i]] for i in equation.free if i not in said}
            try:
                result = spfgen.pack(before, layout)
                kernel = support.compiled(equation.text(), layouts, fills, "", "", level)
                kernel(R=result, **{n: v for n, v in given.items() if n in names}, sizes=sizes)
                support.compare(result.to_numpy(), expected, False, f"{known.arrays} {before}")
            except DataError as error:
                if density == 1.0 or "to store all" not in error.message:
                    return f"{told}refused: {error}"
            except AssertionError as error:
                return f"{told}wrong: {error}"
            except SpfgenError as error:
                return f"{told}refused: {type(error).__name__}: {error}"
    return ""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(8))
def test_random_equations_into_a_pattern(seed: int) -> None:
    report = try_one(seed)
    assert not report, report


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_many_equations_into_a_pattern() -> None:
    reports = reports_of(try_one)
    assert not reports, "\n\n".join(reports)

"""Values that read one tensor several times, where a sum once rode in the loops of another one and lost points, found
others, or was lost itself; or in which the declared properties leave a product no point. Random testing found them."""

from __future__ import annotations

import re

import pytest

from tests.fuzz import runner
from tests.fuzz.programs import CLASSES, Case, Data

TEXTS = (
    ("msr", "s = sum(i: A[i, i])/2 - sum(i, j: A[i, j]*A[i, j])*sum(i, j: A[i, j])"),
    ("coo", "y[i] = (sum(j < i: A[i, j]) - sum(j < i: A[i, j]*y[j]))*A[i, 1]"),
    ("symmetric", "y[i] = sum(j: A[i, j]*x[j]) - sum(j < i: A[j, i]*y[j])"),
    ("from_both_sides", "y[i] = -sum(j < i: A[i, j])/sum(j, k: A[i, j]*A[j, k])"),
    ("from_both_sides", "y[i] = sum(j: A[i, j]*x[j])/(1 + sum(j: A[i, j]))"),
    ("hyb", "y[i] = (sum(j < i: A[i, j]) - sum(j: A[i, j]*A[i, j]))/sum(j > i: A[i, j]*x[j])"),
    ("list_by_columns", "y[i] = A[i, i]*sum(j: A[i, j])"),
    ("list_by_columns", "Y[i, j] = A[i, j]/(1 + sum(k: A[i, k]))"),
    ("mirrored", "y[i] = sum(j: A[i, j]*A[j, j])/(1 + A[i, i])"),
    ("mirrored", "Y[i, j] = A[i, j + 1]*A[i, j]"),
)
DIMS = {"A": 2, "x": 1, "y": 1, "Y": 2, "s": 0}
DATA = tuple(
    Data(tuple((c, n) for c in CLASSES), (), density, seed)
    for seed, (n, density) in enumerate(
        [(5, 0.4), (6, 0.4), (4, 1.0), (9, 0.2), (2, 1.0), (1, 1.0), (3, 0.0), (0, 0.4)]
    )
)


def case(layout: str, text: str) -> Case:
    used = [n for n in DIMS if re.search(rf"\b{n}\[", text)]
    declared = " ".join(f"tensor {n} : {layout if n == 'A' else 'dense'}" for n in used)
    dims = tuple((n, (CLASSES[0],) * DIMS[n]) for n in used)
    return Case(f"kernel NAME {{ {declared}  {text} }}", dims, (), DATA)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("layout", "text"), TEXTS)
def test_the_result_is_right(layout: str, text: str) -> None:
    (outcome,) = runner.run([case(layout, text)])
    assert not outcome.refused
    assert not outcome.problem, outcome.report()
    assert outcome.runs == len(DATA)

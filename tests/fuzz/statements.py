"""Programs that read one tensor twice and more, in any layout: what one read finds must not become another's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.programs import Case, Data, known_layouts, unseen_layouts

STATEMENTS = (
    "y[i] = A[i, i]*sum(j: A[i, j])", "y[i] = sum(j: A[i, j])*sum(j: A[j, i])", "y[i] = A[i, j]*A[j, i]",
    "y[i] = sum(j: A[i, j]*x[j])/(1 + sum(j: A[i, j]))", "y[i] = sum(j: A[i, j]*A[j, j])/(1 + A[i, i])",
    "y[i] = sum(j: A[i, j])/(1 + x[i])", "y[j] = sum(i: A[i, j])/(1 + x[j])", "y[i] = A[i, j]*A[i, j]",
    "y[j] = sum(i: A[i, j]*x[i])*sum(i: A[i, j]*A[i, j])", "y[i] = A[i, j]*A[j, k]*x[k]", "y[i] = A[i, j]*A[k, j]",
    "y[i] = A[i, i] + A[i, j]*x[j]", "y[i] = A[i, j]*x[j] - A[j, i]*x[j]", "y[i] = A[i, j]*B[j, i]*A[i, i]",
    "Y[i, j] = A[i, j]/(1 + A[j, i])", "Y[i, j] = A[i, j]/(1 + sum(k: A[i, k]))", "Y[i, j] = A[i, k]*A[k, j]",
    "Y[i, j] = A[i, j]*A[j, i]", "Y[i, j] = A[i, j] + A[j, i]", "Y[i, j] = A[i, j]*sum(k: A[i, k]*A[j, k])",
    "s = A[i, j]*A[j, k]*A[k, i]", "s = A[i, j]*A[i, j]", "s = sum(i, j: A[i, j])/(1 + sum(i: A[i, i]))",
    "y[i] = v[i]*v[i]", "y[i] = v[i]*v[j]*A[i, j]", "y[i] = v[i]/(1 + v[i + 1])", "y[i] = v[i]*sum(j: v[j])",
    "y[i] = sum(j: A[i, j]*v[j])/(1 + v[i])", "y[i] = u[i] - sum(j < i: A[i, j]*y[j])",
    "y[i] = (u[i] - sum(j < i: A[i, j]*y[j]))/(1 + A[i, i])", "y[i] = u[i] - A[i, i]*sum(j: A[i, j]*x[j])",
    "y[i] = (u[i] - sum(j > i: A[j, i]*y[j]))/(2 + A[i, i])",
)  # fmt: skip
RANKS = {"A": 2, "B": 2, "Y": 2, "u": 1, "v": 1, "x": 1, "y": 1}
SPARSE = "ABv"


@st.composite
def reading_cases(draw: Callable[[Any], Any]) -> Case:
    """One of the statements; all tensors have one extent."""
    statement = draw(st.sampled_from(STATEMENTS))
    layouts = {n: draw(st.sampled_from(layouts_of(RANKS[n]))) for n in _used(statement) if n in SPARSE}
    return reading(statement, layouts, [draw(_data()) for _ in range(2)])


def reading(statement: str, layouts: Mapping[str, str], data: Sequence[Data]) -> Case:
    """The statement with its sparse tensors in these layouts, the other ones dense."""
    declared = [f"    tensor {n} : {layouts.get(n, 'dense')}" for n in _used(statement)]
    text = "\n".join(["kernel NAME {", *declared, f"    {statement}", "}"])
    return Case(text, tuple((n, ("n0",) * RANKS[n]) for n in _used(statement)), (), tuple(data))


def _used(statement: str) -> list[str]:
    return [n for n in RANKS if re.search(rf"\b{n}\[", statement)]


def layouts_of(rank: int) -> list[str]:
    return [*known_layouts(rank), *unseen_layouts(rank)]


@st.composite
def _data(draw: Callable[[Any], Any]) -> Data:
    extents = tuple((c, draw(st.sampled_from((1, 2, 3, 4, 5)))) for c in ("n0", "n1", "n2"))
    return Data(extents, (), draw(st.sampled_from((0.4, 0.4, 1.0, 0.15))), draw(st.integers(0, 50)))

"""Programs that read one tensor twice and more, in any layout: what one read finds must not become another's."""

from __future__ import annotations

import re
from collections.abc import Callable
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
    names = [n for n in RANKS if re.search(rf"\b{n}\[", statement)]
    layouts = {n: draw(st.sampled_from(_layouts(n))) for n in names}
    declared = [f"    tensor {n} : {layout}" for n, layout in layouts.items()]
    text = "\n".join(["kernel NAME {", *declared, f"    {statement}", "}"])
    dims = tuple((n, ("n0",) * RANKS[n]) for n in names)
    return Case(text, dims, (), tuple(draw(_data()) for _ in range(2)))


def _layouts(name: str) -> list[str]:
    if name not in SPARSE:
        return ["dense"]
    return [*known_layouts(RANKS[name]), *unseen_layouts(RANKS[name])]


@st.composite
def _data(draw: Callable[[Any], Any]) -> Data:
    extents = tuple((c, draw(st.sampled_from((1, 2, 3, 4, 5)))) for c in ("n0", "n1", "n2"))
    return Data(extents, (), draw(st.sampled_from((0.4, 0.4, 1.0, 0.15))), draw(st.integers(0, 50)))

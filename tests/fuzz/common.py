"""What people compute most, mixed: known kernels, some of them in one program, that read the same tensors and share
their patterns, with numbers as factors, in any layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.programs import CLASSES, SHARABLE, Case, Data, known_layouts, unseen_layouts

STATEMENTS = (
    "y[i] = A[i, j]*x[j]", "y[i] = u[i] - A[i, j]*x[j]", "y[i] = A[i, j]", "y[i] = A[i, j]*v[j]",
    "y[i] = B[i, j]*A[i, j]", "y[i] = A[i, j]*x[j]/2", "z[j] = A[i, j]*u[i]", "z[j] = A[i, j]",
    "s = A[i, j]", "s = u[i]*A[i, j]*x[j]", "s = A[i, j]*B[i, j]", "t = x[j]*v[j]",
    "Y[i, k] = A[i, j]*X[j, k]", "T[k, i] = A[i, j]*X[j, k]", "Z[j, k] = A[i, j]*U[i, k]", "Y[i, k] = A[i, j]*K[j, k]",
    "Y[i, k] = F[i, j, k]*x[j]", "y[i] = F[i, j, k]*x[j]*w[k]", "M[i, l] = F[i, j, k]*P[j, l]*Q[k, l]",
    "C[i, j] = A[i, j]*U[i, k]*X[j, k]", "C[i, j] = A[i, j]*sum(k: U[i, k]*X[j, k])", "C[i, j] = A[i, j]",
    "C[i, j] = A[i, j]*u[i]", "C[i, j] = u[i]*A[i, j]*x[j]", "C[i, j] = A[i, j]/sum(m: A[i, m])",
    "G[i, j] = A[i, j] + B[i, j]", "G[i, j] = A[i, j]*B[i, j]", "H[j, i] = A[i, j]", "G[i, j] = A[i, j] - u[i]*x[j]",
)  # fmt: skip
DIMS = {
    "A": "ij", "B": "ij", "C": "ij", "F": "ijk", "G": "ij", "H": "ji", "K": "jk", "M": "il", "P": "jl", "Q": "kl",
    "T": "ki", "U": "ik", "X": "jk", "Y": "ik", "Z": "jk", "u": "i", "v": "j", "w": "k", "x": "j", "y": "i", "z": "j",
}  # fmt: skip
CLASS = {"i": "n0", "j": "n1", "k": "n2", "l": "n0"}
SPARSE = "ABFKv"
MOST = 3
"""Statements of a program."""


@st.composite
def common_cases(draw: Callable[[Any], Any]) -> Case:
    """One to three of the statements, of the same tensors."""
    lines = [_with_number(draw, s) for s in draw(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=MOST))]
    used = [n for n in DIMS if any(f"{n}[" in line for line in lines)]
    layouts = {n: draw(st.sampled_from(_layouts(n))) for n in used}
    sharing = layouts.get("A") in SHARABLE and draw(st.booleans())
    shares = {n: "A" for n in ("B", "C") if n in used} if sharing else {}
    declared = [f"    tensor {n} : " + (f"{layouts['A']} shares A" if n in shares else layouts[n]) for n in used]
    text = "\n".join(["kernel NAME {", *declared, *(f"    {line}" for line in lines), "}"])
    dims = tuple((n, tuple(CLASS[i] for i in DIMS[n])) for n in used)
    return Case(text, dims, tuple(shares.items()), tuple(draw(_data()) for _ in range(2)))


def _with_number(draw: Callable[[Any], Any], statement: str) -> str:
    """The statement, perhaps with a number as a factor of its first term, perhaps added to what is there."""
    left, right = statement.split(" = ")
    number = draw(st.sampled_from(("", "", "a*", "2*")))
    exact = not any(sign in right for sign in "+-/")
    behind = draw(st.sampled_from(("", "", "*b"))) if exact else ""
    return f"{left} {draw(st.sampled_from(('=', '=', '+=')))} {number}{right}{behind}"


def _layouts(name: str) -> list[str]:
    rank = len(DIMS[name])
    if name in SPARSE:
        return [*known_layouts(rank), *unseen_layouts(rank)]
    return ["dense", "dense_col"]


@st.composite
def _data(draw: Callable[[Any], Any]) -> Data:
    extents = tuple((c, draw(st.sampled_from((0, 1, 2, 3, 5, 8, 17)))) for c in CLASSES)
    return Data(extents, (), draw(st.sampled_from((0.4, 0.15, 1.0, 0.0))), draw(st.integers(0, 50)))

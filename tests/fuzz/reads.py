"""Values that read one tensor several times: its rows, columns and diagonals, sums of them, products and quotients of
such sums, solves; in all layouts, those with alternatives too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.programs import CLASSES, Case, Data, known_layouts, unseen_layouts

TERMS = {
    # (rank of the target, rank of what is read): what has a value at one point
    (0, 1): ("sum(i: v[i])", "sum(i: v[i]*x[i])", "sum(i: v[i]*v[i])", "sum(i: v[i]*v[i + 1])", "v[0]", "v[1]"),
    (0, 2): (
        "sum(i: A[i, i])", "sum(i, j: A[i, j])", "sum(i, j: A[i, j]*A[j, i])", "sum(i, j: A[i, j]*x[j])", "A[0, 0]",
        "sum(i, j: A[i, i]*A[i, j])", "sum(j: A[0, j])", "sum(i < j: A[i, j])", "sum(i, j: A[i, j]*A[i, j])",
    ),
    (1, 1): (
        "v[i]", "sum(j: v[j])", "sum(j < i: v[j])", "v[i + 1]", "sum(j: v[j]*x[j])", "v[i]*v[i]", "v[0]",
        "sum(j > i: v[j]*v[j])", "v[i]*x[i]",
    ),
    (1, 2): (
        "A[i, i]", "sum(j: A[i, j])", "sum(j: A[j, i])", "sum(j: A[i, j]*x[j])", "sum(j: A[j, i]*x[j])",
        "sum(j: A[i, j]*A[i, j])", "sum(j: A[i, j]*A[j, i])", "sum(j: A[i, j]*A[j, j])", "sum(j: A[j, j])",
        "sum(j < i: A[i, j])", "sum(j > i: A[i, j]*x[j])", "sum(j < i: A[j, i])", "sum(j, k: A[i, j]*A[j, k])",
        "sum(j: A[i, j] where j > 1)", "A[0, i]", "A[i, 1]", "A[i, i + 1]", "sum(j: A[i, j + 1])", "sum(j, k: A[j, k])",
    ),
    (1, 3): (
        "F[i, i, i]", "sum(j, k: F[i, j, k])", "sum(j, k: F[j, i, k])", "sum(j: F[i, j, j])", "sum(j: F[i, i, j]*x[j])",
        "sum(j, k: F[i, j, k]*x[k])", "sum(j: F[j, j, i])",
    ),
    (2, 2): (
        "A[i, j]", "A[j, i]", "A[i, i]", "A[j, j]", "sum(k: A[i, k])", "sum(k: A[k, j])", "sum(k: A[j, k])",
        "sum(k: A[i, k]*A[k, j])", "sum(k: A[i, k]*x[k])", "sum(k < i: A[k, j])", "A[i, j + 1]", "A[i, j]*A[j, i]",
        "sum(k: A[k, k])",
    ),
    (2, 3): ("F[i, j, j]", "sum(k: F[i, j, k])", "sum(k: F[i, k, j])", "F[i, j, i]", "sum(k, l: F[i, k, l])"),
}  # fmt: skip
TARGETS = {0: "s", 1: "y[i]", 2: "Y[i, j]"}
FORMS = (
    "{}*{}",
    "{}/(1 + {})",
    "{} + {}",
    "{} - {}",
    "({} + {})*{}",
    "({} - {})/{}",
    "{}/2 - {}*{}",
    "{}*{}*{}",
    "-{}/{}",
)
SOLVES = {
    1: ("y[i] = {} - sum(j < i: v[j]*y[j])", "y[i] = ({} - sum(j > i: v[j]*y[j]))*{}"),
    2: (
        "y[i] = {} - sum(j < i: A[i, j]*y[j])", "y[i] = {} - sum(j > i: A[i, j]*y[j])",
        "y[i] = {} - sum(j < i: A[j, i]*y[j])", "y[i] = {} - sum(j > i: A[j, i]*y[j]) - {}",
        "y[i] = ({} - sum(j < i: A[i, j]*y[j]))/2 + {}", "y[i] = ({} - sum(j < i: A[i, j]*y[j]))*{}",
    ),
}  # fmt: skip
"""No quotient of what a sum has: the order in which is added must make no difference."""
DIMS = {"v": 1, "A": 2, "F": 3, "x": 1, "y": 1, "Y": 2, "s": 0}
SPARSE = "vAF"
ALTERNATIVES = (
    "symmetric", "from_both_sides", "mirrored", "mirrored_below", "two_ends", "bidiagonal", "hyb", "arrow", "msr",
    "first_column_and_list", "classes", "list_by_columns", "rows_of_segments", "one_in_four_rows", "column_ranges",
)  # fmt: skip
"""What goes wrong first: several mappings, orders that no loop of the statement has."""


@st.composite
def cases_of_reads(draw: Callable[[Any], Any]) -> Case:
    """One or two statements about one tensor."""
    rank = draw(st.sampled_from((2, 2, 2, 2, 1, 3)))
    lines = [_statement(draw, rank) for _ in range(draw(st.sampled_from((1, 1, 2))))]
    used = [n for n in DIMS if any(f"{n}[" in line for line in lines)]
    layouts = {n: draw(st.sampled_from(_layouts(DIMS[n]) if n in SPARSE else ("dense",))) for n in used}
    declared = [f"    tensor {n} : {layouts[n]}" for n in used]
    text = "\n".join(["kernel NAME {", *declared, *(f"    {line}" for line in lines), "}"])
    dims = tuple((n, (CLASSES[0],) * DIMS[n]) for n in used)
    return Case(text, dims, (), tuple(draw(_data()) for _ in range(2)))


def _statement(draw: Callable[[Any], Any], rank: int) -> str:
    if rank in SOLVES and draw(st.integers(0, 4)) == 4:
        return _filled(draw, draw(st.sampled_from(SOLVES[rank])), TERMS[1, rank])
    target = draw(st.sampled_from([t for t, r in TERMS if r == rank]))
    form = draw(st.sampled_from(FORMS))
    return f"{TARGETS[target]} = {_filled(draw, form, TERMS[target, rank])}"


def _filled(draw: Callable[[Any], Any], form: str, terms: Sequence[str]) -> str:
    """The form with terms, in parentheses where they are products."""
    count = form.count("{}")
    found = [draw(st.sampled_from(terms)) for _ in range(count)]
    return form.format(*(t if t.startswith("sum(") or "*" not in t else f"({t})" for t in found))


def _layouts(rank: int) -> list[str]:
    own = unseen_layouts(rank)
    return [*known_layouts(rank), *own, *(n for n in ALTERNATIVES if n in own), *own]


@st.composite
def _data(draw: Callable[[Any], Any]) -> Data:
    n = draw(st.sampled_from((3, 5, 6, 4, 2, 1, 0, 9)))
    extents = tuple((c, n) for c in CLASSES)
    return Data(extents, (), draw(st.sampled_from((0.4, 0.4, 0.2, 1.0, 0.0))), draw(st.integers(0, 50)))

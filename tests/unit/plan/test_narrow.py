"""Loops begin and end where a sorted array says so; the search needs a proof that it is sorted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import spfgen
from spfgen.facts.formula import variables
from spfgen.ir import walk
from spfgen.plan.nodes import BoundSearch, Find, Guard, Reach, Scan

UNSORTED = """
layout loose(n, m) {
    size nnz
    relation { [pi, pj] -> [i, j] : 0 <= pi < n and ptr(pi) <= pj < ptr(pi + 1) and i = pi and j = idx(pj) }
    index ptr[n + 1] { range 0 <= ptr(p) <= nnz  property increasing }
    index idx[nnz] { range 0 <= idx(p) < m }
    value val[nnz] at [pj]
}
"""


def bounds(layout: object, schedule: str) -> list[str]:
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A=layout, x="dense", y="dense", schedule=schedule)
    found = [n for p in kernel.generated.plans for n in walk(p) if isinstance(n, BoundSearch)]
    return [dim for _, dim in dict.fromkeys((n.name, n.dim) for n in found)]  # variants have the same ones


@pytest.mark.parametrize(
    ("layout", "schedule", "expected"),
    [
        ("csr", "tile j by 8", ["A.pj", "A.pj"]),  # where a row has columns of the tile
        ("csr", "tile A.pj by 8", ["i", "i"]),  # which rows have positions of the tile
        ("coo", "tile i by 8", ["A.p", "A.p"]),
        ("coo", "tile j by 8", []),  # sorted by rows only
        ("csr", "tile i by 8", []),  # rows are counted, not looked for
        ("csr", "", []),
    ],
)
def test_where_an_array_is_sorted(layout: str, schedule: str, expected: list[str]) -> None:
    assert bounds(layout, schedule) == expected


def test_not_where_it_may_not_be() -> None:
    loose = spfgen.parse(UNSORTED).layouts["loose"]
    assert bounds(loose, "tile j by 8") == []
    assert bounds(loose, "tile A.pj by 8") == ["i", "i"]
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A=loose, x="dense", y="dense", schedule="tile j by 8")
    assert any(isinstance(n, Guard) or getattr(n, "conditions", ()) for p in kernel.generated.plans for n in walk(p))


def test_an_array_that_falls() -> None:
    text = UNSORTED.replace("0 <= idx(p) < m }", "0 <= idx(p) < m  property decreasing within ptr }")
    falling = spfgen.parse(text).layouts["loose"]
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A=falling, x="dense", y="dense", schedule="tile j by 3")
    assert all(n.descending for p in kernel.generated.plans for n in walk(p) if isinstance(n, BoundSearch))
    ptr, idx = np.array([0, 3, 3, 6, 7]), np.array([6, 4, 2, 5, 3, 0, 1])
    matrix = spfgen.tensor(falling, shape=(4, 7), ptr=ptr, idx=idx, val=np.arange(1.0, 8.0))
    x = np.arange(1.0, 8.0)
    assert np.array_equal(kernel(A=matrix, x=x), matrix.to_numpy() @ x)


def reached(layout: object, schedule: str) -> list[str]:
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A=layout, x="dense", y="dense", schedule=schedule)
    return [n.dim for p in kernel.generated.plans for n in walk(p) if isinstance(n, Reach)]


def test_tiles_that_are_passed_over() -> None:
    """A tile that is looked through for a key is entered if the key lies between its first and its last value."""
    blocks = "order j, i; split A.pi by 2 as block; find A.pi : {}; find A.pj : search"
    assert reached("dcsr", blocks.format("search")) == ["A.pi"]
    assert reached("dcsr", blocks.format("loop")) == ["A.pi"]
    assert reached("dcsr", blocks.format("sequential")) == []  # it stands behind the tile already
    assert reached("csr", "tile j by 8") == ["A.pj"]
    assert reached(spfgen.parse(UNSORTED).layouts["loose"], "tile j by 8") == []
    dense = np.zeros((9, 5))
    dense[[0, 2, 3, 7, 8], [1, 4, 0, 3, 3]] = [1.0, 2.0, 3.0, 4.0, 5.0]
    x = np.arange(1.0, 6.0)
    for name in ("search", "loop"):
        kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A="dcsr", x="dense", y="dense", schedule=blocks.format(name))
        assert np.array_equal(kernel(A=spfgen.pack(dense, "dcsr"), x=x), dense @ x)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("where", ["j <= i", "j >= i", "i - 2 <= j and j <= i + 1"])
def test_tiles_of_triangles_and_bands(where: str) -> None:
    """Tiles without a point are not in the loops over tiles."""
    kernel = spfgen.compile(
        f"s = A[i, j] where {where}", A="dense", schedule="tile i by 4, j by 4; order i_tile, j_tile, i, j"
    )
    loop = next(n for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan) and n.dim == "j_tile")
    assert any("i_tile" in variables(e) for e in (*loop.low, *loop.high))
    a = np.arange(1.0, 100.0).reshape(11, 9)
    i, j = np.indices(a.shape)
    inside = {"j <= i": j <= i, "j >= i": j >= i}.get(where, (i - 2 <= j) & (j <= i + 1))
    assert kernel(A=a) == a[inside].sum()


VECTOR = """
layout v(n) {
    size nnz
    relation { [p] -> [i] : 0 <= p < nnz and i = idx(p) }
    index idx[nnz] { range 0 <= idx(p) < n  property PROPERTY }
    value val[nnz] at [p]
}
"""
WINDOWS: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray], list[float]]]] = {
    "convolution": ("y[i] = x[i + k]*w[k]", lambda x, w: [x[i : i + len(w)] @ w[: len(x) - i] for i in range(9)]),
    "in a sum of its own": (
        "y[i] = 1 - sum(k: x[i + k]*w[k])",
        lambda x, w: [1 - x[i : i + len(w)] @ w[: len(x) - i] for i in range(9)],
    ),
    "with a stride": (
        "y[i] = x[2*i + k]*w[k]",
        lambda x, w: [x[2 * i : 2 * i + len(w)] @ w[: max(len(x) - 2 * i, 0)] for i in range(9)],
    ),
    "backwards": (
        "y[i] = x[12 - i - k]*w[k]",
        lambda x, w: [sum(x[12 - i - k] * w[k] for k in range(len(w)) if i + k <= 12) for i in range(9)],
    ),
    "blocks": (
        "y[i] = x[j]*z[j] where j/4 = i",
        lambda x, w: [float(sum((x * np.arange(1.0, 14.0))[4 * i : 4 * i + 4])) for i in range(9)],
    ),
    "a band": (
        "y[i] = x[j]*z[i] where i <= 2*j and 2*j < i + 5",
        lambda x, w: [sum(x[j] * (i + 1) for j in range(13) if i <= 2 * j < i + 5) for i in range(9)],
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("direction", ["increasing", "strictly increasing", "decreasing", "strictly decreasing", ""])
def test_windows(name: str, direction: str) -> None:
    """What lies in a window is found by bounds, not by comparing every position, where the array is sorted."""
    text, expected = WINDOWS[name]
    vector = VECTOR.replace("property PROPERTY", f"property {direction}" if direction else "")
    layout = spfgen.parse(vector).layouts["v"]
    others = {n: "dense" for n in "wz" if f"{n}[" in text}
    kernel = spfgen.compile(text, x=layout, y="dense", schedule="order i, x.p", **others)
    nodes = [n for p in kernel.generated.plans for n in walk(p)]
    sides = [n.descending for n in nodes if isinstance(n, BoundSearch)]
    assert sides == ([] if not direction else [direction.endswith("decreasing")] * 2)
    assert any(isinstance(n, Find) for n in nodes) == (not direction)
    rng = np.random.default_rng(5)
    for stored in (0, 1, 5, 13):
        x = np.zeros(13)
        x[rng.choice(13, stored, replace=False)] = rng.integers(1, 9, stored)
        w = np.array([2.0, -1.0, 3.0])
        given = {"w": w, "z": np.arange(1.0, 10.0 if name == "a band" else 14.0)}
        y = np.full(9, 7.0)
        kernel(x=spfgen.pack(x, layout), y=y, **{n: given[n] for n in others})
        assert y.tolist() == pytest.approx([float(v) for v in expected(x, w)])


def test_only_what_a_schedule_does_not_find_otherwise() -> None:
    options = {"x": "sv", "w": "dense", "y": "dense", "schedule": "order i, x.p"}
    for algorithm, expected in (("search", 2), ("loop", 0)):
        kernel = spfgen.compile("y[i] = x[i + k]*w[k]", finds={"x.p": algorithm}, **options)
        assert sum(isinstance(n, BoundSearch) for p in kernel.generated.plans for n in walk(p)) == expected
    plain = spfgen.compile("y[i] = x[i + k]*w[k]", optimize=0, **options)
    assert not any(isinstance(n, BoundSearch) for p in plain.generated.plans for n in walk(p))


def test_only_where_positions_are_passed_again_and_again() -> None:
    """A slice of each row takes one pass over what is stored; with a loop around, each row would be passed anew."""
    for text, schedule, expected in (
        ("B[i, j] = A[i + 2, j + 3]", "", []),
        ("B[i, j] = A[i + 2, j + 3]*x[k]", "order k, i, A.pj", ["A.pj", "A.pj"]),
        ("B[i, j] = A[i + 2, j]*x[k] where j < i", "order k, i, A.pj", []),  # a half is no window
    ):
        others = {"x": "dense"} if "x[" in text else {}
        kernel = spfgen.compile(text, A="csr", B="dense", schedule=schedule, **others)
        assert [n.dim for p in kernel.generated.plans for n in walk(p) if isinstance(n, BoundSearch)] == expected
        a = np.arange(54.0).reshape(6, 9) * (np.arange(54).reshape(6, 9) % 3 != 1)
        b = np.full((3, 4 if "+ 3" in text else 9), 7.0)
        kernel(A=spfgen.pack(a, "csr"), B=b, **{n: np.array([1.0, 2.0]) for n in others})
        expected_b = a[2:5, 3:7] if "+ 3" in text else np.tril(a[2:5], -1)
        assert np.array_equal(b, expected_b * (3 if others else 1)), text


def test_a_window_by_a_dimension_that_gets_another_name() -> None:
    """What holds within a window is said by the names that the plan keeps: a right program was refused."""
    rng = np.random.default_rng(3)
    one, other = (np.where(rng.random((5, 6)) < 0.5, rng.integers(1, 5, (5, 6)), 0).astype(float) for _ in range(2))
    text = "kernel k { size w  tensor A : vbl  tensor B : csf  tensor y : dense  y[k - w] += A[j, i]*B[k - i, i] }"
    kernel = spfgen.parse(text).kernels["k"].compile()
    y = np.zeros(7)
    kernel(A=spfgen.pack(one, "vbl"), B=spfgen.pack(other, "csf"), y=y, sizes={"w": 1})
    expected = np.zeros(7)
    for (j, i), (r, c) in product(np.ndindex(5, 6), np.ndindex(5, 6)):
        if c == i and 0 <= r + i - 1 < 7:
            expected[r + i - 1] += one[j, i] * other[r, c]
    np.testing.assert_allclose(y, expected)


INTERVALS = """
layout intervals(n, m) {
    size runs
    relation { [pi, q, p] -> [i, j] :
        0 <= pi < n and ptr(pi) <= q < ptr(pi + 1) and start(q) <= p < start(q) + size(q) and i = pi and j = p }
    index ptr[n + 1] { range 0 <= ptr(p) <= runs  property increasing }
    index start[runs] { range 0 <= start(q) < m  RISES }
    index size[runs] { range 0 <= size(q) <= m  OVER }
    value val[runs] at [q]
}
"""
RISES = "property increasing within ptr"
OVER = "property forall s, p, q : ptr(s) <= p < q < ptr(s + 1) => start(p) + size(p) <= start(q)"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("rises", "over", "expected"),
    [(RISES, OVER, 1), ("", OVER, 1), (RISES, "", 0), ("", "", 0)],
)
def test_an_interval_is_found_by_its_start(rises: str, over: str, expected: int) -> None:
    """One search, whatever the end is made of, where intervals are proved not to meet: then the starts rise, too."""
    layout = spfgen.parse(INTERVALS.replace("RISES", rises).replace("OVER", over)).layouts["intervals"]
    kernel = spfgen.compile("C[i,j] = A[i,j]*B[i,j]", A="coo", B=layout, C="dense", schedule="order A.p")
    found = [n for p in kernel.generated.plans for n in walk(p) if isinstance(n, BoundSearch)]
    assert len(found) == expected
    arrays = {
        "ptr": [0, 3, 3, 5],
        "start": [1, 3, 6, 0, 2],
        "size": [2, 0, 1, 2, 5] if over else [3, 4, 1, 3, 4],  # where they may meet: they do
        "val": [2.0, 3.0, 5.0, 7.0, 11.0],
    }
    b = spfgen.tensor(
        layout, shape=(3, 8), **{n: np.array(v, float if n == "val" else "i4") for n, v in arrays.items()}
    )
    a = np.arange(24.0).reshape(3, 8) % 5
    assert np.array_equal(kernel(A=spfgen.pack(a, "coo"), B=b), a * b.to_numpy())


@pytest.mark.parametrize(("over", "expected"), [(OVER, ["q", "j"]), ("", ["j", "q"])])
def test_intervals_are_intersected(over: str, expected: list[str]) -> None:
    """Positions that meet another interval come before the points, where two searches find them."""
    text = INTERVALS.replace("val[runs] at [q]", "val[runs, m] at [q, p]")
    layout = spfgen.parse(text.replace("RISES", RISES).replace("OVER", over)).layouts["intervals"]
    kernel = spfgen.compile("C[i,j] = A[i,j]*B[i,j]", A="csr_rle", B=layout, C="dense", optimize=1)
    (plan,) = kernel.generated.plans
    inner = [n.dim.removeprefix("B.") for n in walk(plan) if isinstance(n, Scan | Find)][-2:]
    assert inner == expected

"""How much plans do, counted by the interpreter: as much as is stored, whatever the extents are, where the result is
sparse; as much as the result has places where it is dense. And how long plans are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS
from tests.fuzz import unseen
from tests.fuzz.carried import by_the_interpreter
from tests.fuzz.operands import make
from tests.plans.effort import Effort

STORED = 12


def entries(number: int, rows: int, columns: int) -> coo_array:
    """So many entries in the upper left 8 by 8 corner of a matrix of any shape."""
    rng = np.random.default_rng(number)
    at = rng.choice(64, STORED, replace=False)
    values = rng.integers(1, 9, STORED).astype(float)
    return coo_array((values, (at // 8, at % 8)), shape=(rows, columns))


SPARSE: dict[str, tuple[str, dict[str, str]]] = {
    "the larger one": ("C[i,j] = maximum(A[i,j], B[i,j])", {}),
    "exclusive or": ("C[i,j] = logical_xor(A[i,j], B[i,j])", {}),
    "a product": ("C[i,j] = ldexp(A[i,j], int64(B[i,j]))", {}),
    "a mask": ("C[i,j] = where(A[i,j] > 2, B[i,j], 0)", {}),
    "its complement": ("C[i,j] = where(A[i,j] > 2, 0, B[i,j])", {}),
    "paths": ("C[i,j] = min(k: A[i,k] + B[k,j])", {"A": "fill inf", "B": "fill inf", "C": "fill inf"}),
    "a root of a product": ("C[i,j] = sqrt(sum(k: A[i,k]*B[k,j]))", {}),
    "one above the other": ("C[l,j] = concat((A[i,j], B[k,j]), (i,k) -> l)", {}),
    "a matrix in a row": ("c[k] = collapse(A[i,j] + B[i,j], (i,j) -> k)", {}),
    "a part": ("C[i,j] = A[i(1::2), j] * sign(B[i(1::2), j])", {}),
    "a sum of four": ("C[i,j] = sqrt(A[i,j] + B[i,j] + A[i,j]*B[i,j] + 2*A[i,j])", {}),
}


def effort(text: str, fills: dict[str, str], rows: int, columns: int, operands: str, result: str) -> Effort:
    target = text[0]
    layouts = {n: f"{operands} {fills.get(n, '')}".strip() for n in "AB" if f"{n}[" in text}
    wanted = result if target == "C" or result == "dense" else "sv"
    found = Effort()
    with by_the_interpreter(found) as ran:
        kernel = spfgen.compile(text, **layouts, **{target: f"{wanted} {fills.get(target, '')}".strip()})
        fill = float(fills.get("A", "fill 0").split()[1])
        given = {n: spfgen.pack(entries(ord(n), rows, columns), layouts[n], fill=fill) for n in layouts}
        kernel(**given)
    assert ran
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", SPARSE)
def test_what_is_stored_decides(case: str) -> None:
    """The same entries in a matrix of four times the extents: nothing more is visited, looked for or combined. What a
    table of positions costs, which is chosen for its cost, grows with one extent, never with their product."""
    text, fills = SPARSE[case]
    small, large = (effort(text, fills, n, n, "dcsr", "coo") for n in (10, 40))
    assert replace(small, cells=0) == replace(large, cells=0)
    assert large.cells - small.cells <= 4 * 30, f"{small} {large}"
    assert small.total < 400


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", ["the larger one", "exclusive or", "one above the other", "a sum of four"])
def test_a_list_is_not_gone_through_for_each_column(case: str) -> None:
    """For a given column the rows of a sorted list rise, too, but nothing says where they are."""
    text, fills = SPARSE[case]
    small, large = (effort(text, fills, n, n, "coo", "coo") for n in (10, 40))
    assert replace(small, cells=0) == replace(large, cells=0)
    assert small.total < 400


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", ["the larger one", "a mask", "its complement", "one above the other"])
def test_rows_count_where_they_are_gone_through(case: str) -> None:
    """csr has all rows, whatever is stored in them; columns cost nothing."""
    text, fills = SPARSE[case]
    small, wide, long = (effort(text, fills, *shape, "csr", "csr") for shape in ((10, 10), (10, 40), (40, 10)))
    assert small.total == wide.total, f"{small} {wide}"
    assert long.total - small.total <= 4 * 30, f"{small} {long}"


def test_places_count_where_the_result_is_dense() -> None:
    text, fills = SPARSE["the larger one"]
    small, large = (effort(text, fills, n, n, "dcsr", "dense") for n in (10, 40))
    grown = large.total - small.total
    assert 1500 <= grown <= 2 * 1500 + 200, f"{small} {large}"


def test_the_plan_of_a_sum_grows_with_its_terms() -> None:
    """Not with the sets of them: eight vectors have 255."""
    sizes: list[int] = []
    for count in (3, 6, 12, 24):  # two have a loop of their own
        names = [f"v{k}" for k in range(count)]
        text = f"y[i] = sqrt({' + '.join(f'{n}[i]' for n in names)})"
        kernel = spfgen.compile(text, **dict.fromkeys(names, "sv"), y="dense")
        sizes.append(sum(1 for p in kernel.generated.plans for _ in walk(p, PLANS)))
    steps: Any = np.diff(sizes)
    assert steps[1] <= 2.5 * steps[0] + 10, sizes
    assert steps[2] <= 2.5 * steps[1] + 10, sizes


RUNS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "s = sum(j: A[j])": (np.sum, ["rle", "sparse_rle"]),
    "s = A[j]*B[j]": (np.dot, ["rle rle", "sparse_rle rle", "sparse_rle sparse_rle"]),
    "s = sum(j: maximum(A[j], B[j]))": (
        lambda a, b: np.maximum(a, b).sum(),
        ["rle rle", "sparse_rle sparse_rle", "rle sparse_rle"],
    ),
    "s = max(j: A[j] - B[j])": (lambda a, b: (a - b).max(), ["rle sparse_rle"]),
    "s = sum(j: exp(-A[j]))": (lambda a: np.exp(-a).sum(), ["rle", "sparse_rle"]),
    "s = sum(j: round(A[j]*B[j] + C[j]))": (lambda a, b, c: (a * b + c).sum(), ["rle rle sparse_rle"]),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("text", "layouts"), [(text, one) for text, (_, all_) in RUNS.items() for one in all_])
def test_runs_count_not_points(text: str, layouts: str) -> None:
    """Runs that are four times as long take as much work; four times as many runs take about four times as much, be it
    that one operand's are looked for among the other's."""

    def taken(runs: int, length: int) -> int:
        rng = np.random.default_rng(3)
        found = Effort()
        names = dict(zip("ABC", layouts.split(), strict=False))
        given = {n: np.repeat(rng.permutation(np.arange(runs) % 5), length).astype(float) for n in names}
        with by_the_interpreter(found) as ran:
            result = spfgen.compile(text, **names)(**{n: spfgen.pack(given[n], names[n]) for n in names})
        assert ran
        assert result == pytest.approx(RUNS[text][0](*given.values()))
        return found.total

    one = taken(30, 3)
    assert taken(30, 12) <= one + 10
    assert taken(120, 3) <= 6 * one


def test_the_runs_of_a_row_meet_those_of_the_same_row_only() -> None:
    """Intervals are intersected row by row: a dense result costs its places, and besides what is stored."""

    def taken(text: str, runs: int) -> int:
        rng = np.random.default_rng(4)
        a, b = (np.repeat(rng.permutation(np.arange(4 * runs) % 3).reshape(4, runs), 48 // runs, 1) for _ in "ab")
        found = Effort()
        with by_the_interpreter(found):
            kernel = spfgen.compile(text, A="csr_rle", B="vbl", C="dense")
            result = kernel(A=spfgen.pack(a.astype(float), "csr_rle"), B=spfgen.pack(b.astype(float), "vbl"))
        assert np.array_equal(result, a * b if "*" in text else np.maximum(a, b))
        return found.total

    for text in ("C[i,j] = A[i,j]*B[i,j]", "C[i,j] = maximum(A[i,j], B[i,j])"):
        assert taken(text, 24) <= 4 * 48 * 12, text
        assert taken(text, 24) <= 2 * taken(text, 6), text


ONCE: dict[str, Callable[..., Any]] = {
    "Y[i,j] = exp(A[i,j])/sum(k, l: exp(A[k,l]))": lambda a: np.exp(a) / np.exp(a).sum(),
    "Y[i,j] = exp(A[i,j])/sum(k: exp(A[i,k]))": lambda a: np.exp(a) / np.exp(a).sum(1, keepdims=True),
    "Y[i,j] = exp(A[i,j])/sum(k: exp(A[k,j]))": lambda a: np.exp(a) / np.exp(a).sum(0),
    "Y[i,j] = exp(A[i,j] - max(k: A[i,k]))/sum(k: exp(A[i,k] - max(l: A[i,l])))": lambda a: (
        np.exp(a) / np.exp(a).sum(1, keepdims=True)
    ),
    "Y[i,j] = (A[i,j] - sum(k, l: A[k,l])/64)**2": lambda a: (a - a.sum() / 64) ** 2,
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["dense", "csr", "csc"])
@pytest.mark.parametrize("text", ONCE)
def test_what_loops_do_not_change_is_done_once(text: str, layout: str) -> None:
    """A reduction that speaks of some indices, or none, is made once for each of these: four times the rows and
    columns take sixteen times the work, and what is looked for by its logarithm, not 64 or 256 times."""

    def taken(n: int) -> int:
        a = entries(5, n, n).toarray()
        found = Effort()
        with by_the_interpreter(found) as ran:
            result = spfgen.compile(text, A=layout, Y="dense")(A=spfgen.pack(a, layout))
        assert ran
        np.testing.assert_allclose(result, ONCE[text](a))
        return found.total

    small, large = taken(8), taken(32)
    assert large <= 24 * small, (small, large)


def test_the_greatest_of_a_row_is_looked_for_in_rows_that_have_entries() -> None:
    """It moves out of the loop over the row, not out of that over the rows, where nothing may be stored."""
    small, large = (effort("C[i,j] = A[i,j]/max(k: abs(A[i,k]))", {}, n, 8, "dcsr", "coo") for n in (10, 40))
    assert small == large
    assert small.total < 100


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "layouts"),
    [
        ("C[j] = 2*A[j]", {"A": "rle", "C": "rle"}),
        ("C[j] = exp(A[j])", {"A": "sparse_rle", "C": "rle"}),
        ("C[j] = A[j]*0.25 + B[j]*0.75", {"A": "rle", "B": "rle", "C": "rle"}),
        ("C[j] = A[j]*B[j]", {"A": "rle", "B": "rle", "C": "sparse_rle"}),
        ("C[j] = where(A[j] > B[j], A[j], 9)", {"A": "rle", "B": "rle", "C": "sparse_rle"}),
    ],
)
def test_results_of_runs_come_run_by_run(text: str, layouts: dict[str, str]) -> None:
    """Of runs that are four times as long nothing takes longer; neighbours with equal values are joined."""

    def taken(length: int) -> int:
        rng = np.random.default_rng(3)
        given = {n: np.repeat(rng.permutation(np.arange(30) % 5), length).astype(float) for n in layouts if n != "C"}
        tensors = {n: spfgen.pack(a, layouts[n]) for n, a in given.items()}
        found = Effort()
        with by_the_interpreter(found) as ran:
            spfgen.compile(text, **layouts)(**tensors)
        assert ran
        result = spfgen.compile(text, **layouts, prune=True)(**tensors)
        names = {"exp": np.exp, "where": np.where, "j": slice(None), **given}
        wanted = eval(text.partition("=")[2], names)
        np.testing.assert_allclose(result.to_numpy(), wanted)
        for name, array in spfgen.pack(wanted, layouts["C"], fill=result.fill).arrays.items():
            np.testing.assert_array_equal(result.arrays[name], array)
        return found.total

    assert taken(12) == taken(3)


NESTED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "s = max(i: min(j: max(k: A[i,j,k])))": (lambda a: a.max(2).min(1).max(), np.array),
    "s = max(i: sum(j: max(k: A[i,j,k])))": (lambda a: a.max(2).sum(1).max(), np.array),
    "s = sum(i: sqrt(sum(j, k: A[i,j,k])))": (lambda a: np.sqrt(a.sum((1, 2))).sum(), np.array),
    "s = sum(i: max(j: max(k: A[i,j,k])*B[i,j]))": (lambda a: (a.max(2) * a.sum(2)).max(1).sum(), lambda a: a.sum(2)),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["csf", "coo", "coo_unsorted"])
@pytest.mark.parametrize("text", NESTED)
def test_nested_reductions_meet_what_is_stored(text: str, layout: str) -> None:
    """Not all places of all indices around them."""
    meaning, other = NESTED[text]

    def taken(extent: int) -> Effort:
        rng = np.random.default_rng(8)
        a = np.zeros((extent, extent, extent))
        a[tuple(rng.integers(0, 6, (3, 20)))] = rng.integers(1, 9, 20)
        found = Effort()
        given = {"A": spfgen.pack(a, layout), **({"B": spfgen.pack(other(a), "dcsr")} if "B[" in text else {})}
        with by_the_interpreter(found) as ran:
            result = spfgen.compile(text, A=layout, **({"B": "dcsr"} if "B" in given else {}))(**given)
        assert ran
        assert result == pytest.approx(meaning(a))
        return found

    small, large = taken(7), taken(20)
    assert replace(small, cells=0) == replace(large, cells=0)
    assert small.total < 400


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", [(3, 2, 0), (3, 0, 2), (0, 3, 2)])
@pytest.mark.parametrize("text", ["y[i] = min(j: max(k: A[i,j,k]))", "y[i] = max(j: sum(k: A[i,j,k]))"])
def test_nested_reductions_of_nothing(text: str, shape: tuple[int, ...]) -> None:
    """Where there is nothing to combine, what comes out is what leaves everything as it is."""
    outer, inner = (np.minimum, np.maximum) if "min" in text else (np.maximum, np.add)
    start = {np.minimum: np.inf, np.maximum: -np.inf, np.add: 0.0}
    wanted = outer.reduce(inner.reduce(np.zeros(shape), 2, initial=start[inner]), 1, initial=start[outer])
    found = spfgen.compile(text, A="csf", y="dense")(A=spfgen.pack(np.zeros(shape), "csf"))
    np.testing.assert_array_equal(found, wanted)


HALVES: dict[tuple[str, str], Callable[..., Any]] = {
    ("y[i] = max(j: A[i,j])", "antisym_csr"): lambda a, x: a.max(1),
    ("y[i] = min(j: A[i,j] + x[j])", "sym_csr fill inf"): lambda a, x: (a + x).min(1),
    ("y[i] = max(j: A[i,j]*x[j])", "antisym_csr"): lambda a, x: (a * x).max(1),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("text", "layout"), HALVES)
def test_half_of_each_row_is_stored_in_other_rows(text: str, layout: str) -> None:
    """That half is not looked for in all rows that come later: rows and entries count, nothing else."""

    def taken(n: int) -> int:
        rng = np.random.default_rng(n)
        fill, sign = (np.inf, 1) if "inf" in layout else (0.0, -1)
        a, x = np.full((n, n), fill), np.arange(1.0, n + 1)
        for i, j, value in rng.integers(0, n, (2 * n, 3)):
            if i != j:
                a[i, j], a[j, i] = value, sign * value
        found = Effort()
        given = {"x": x} if "x[" in text else {}
        with by_the_interpreter(found) as ran:
            kernel = spfgen.compile(text, A=layout, y="dense", **dict.fromkeys(given, "dense"))
            result = kernel(A=spfgen.pack(a, layout.split()[0], fill=fill), **given)
        assert ran
        np.testing.assert_array_equal(result, HALVES[text, layout](a, x))
        return found.total

    assert taken(80) <= 6 * taken(20)


PAIRS = [
    ("C[i,j] = A[i,k]*B[k,j]", "csc", "csc", "csc"),
    ("C[i,j] = A[i,k]*B[k,j]", "csc", "csc", "coo"),
    ("C[i,j] = A[i,k]*B[k,j]", "dcsr", "csc", "coo"),
    ("C[i,j] = A[i,k]*B[k,j]", "jagged", "csc", "coo"),
    ("s = A[i,j]*B[i,j]", "vbr", "csc", "scalar"),
    ("s = A[i,j]*B[i,j]", "blocks_anywhere", "blocks_anywhere", "scalar"),
    ("C[i,j] = A[i(1:),j(1:)]*B[i(:-1),j(:-1)]", "from_both_sides", "from_both_sides", "coo"),
    ("C[i,j] = maximum(A[i,j], B[i,j])", "row_interval", "csc", "coo"),
    ("C[i,j] = A[i,k]*B[k,j]", "sym_csr", "sym_csr", "coo"),
    ("C[i,j] = A[i,k]*B[k,j]", "band", "csc", "coo"),
    ("C[i,j] = A[i,k]*B[k,j]", "band", "coo_unsorted", "coo"),
    ("C[i,j] = sqrt(sum(k: A[i,k]*B[k,j]))", "csc", "csr", "coo"),
    ("y[i] = max(j: A[i,j]*B[i,j])", "repeated_rows", "csr", "dense"),
    ("y[i] = argmax(j: A[i,j] + B[i,j])", "csr", "csc", "dense"),
    ("y[i] = argmin(j: A[i,j] - B[i,j])", "sym_csr", "csc", "dense"),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("text", "a", "b", "result"), PAIRS)
def test_pairs_of_layouts(text: str, a: str, b: str, result: str) -> None:
    """Of four times the rows, columns and entries there is about four times as much to do: no tensor is gone through
    again for each row, column or entry of the other."""
    own = [unseen.ALL[name].text for name in {a, b} if name in unseen.ALL]
    declared = f"kernel k {{ tensor A : {a} tensor B : {b} tensor {text[0]} : {result} {text} }}"
    spec = spfgen.parse("\n".join([*own, declared]))

    def taken(n: int) -> float:
        found = Effort()
        with by_the_interpreter(found) as ran:
            kernel = spec.kernels["k"].compile()
            given = {name: make(kernel.layouts[name], (n, n), 3.6 / n, ord(name)) for name in "AB"}
            kernel(**{name: operand.tensor for name, operand in given.items()})
        assert ran
        return found.total / (n + sum(len(o.entries) for o in given.values()))

    assert taken(48) <= 2.2 * taken(12)


def test_rows_by_their_place_are_not_looked_for_at_each_entry() -> None:
    """The array says for each row at which position it is: rows come first."""
    spec = spfgen.parse("""
    layout placed(n, m) {
        size nnz
        relation { [q, p] -> [i, j] :
            0 <= q < n and ptr(q) <= p < ptr(q + 1) and q = place(i) and j = col(p) }
        index place[n] { range 0 <= place(i) < n  property injective }
        index ptr[n + 1] { range 0 <= ptr(q) <= nnz  property increasing }
        index col[nnz] { range 0 <= col(p) < m  property strictly increasing within ptr }
        value val[nnz] at [p]
    }""")

    def taken(n: int) -> float:
        found = Effort()
        with by_the_interpreter(found) as ran:
            kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A=spec.layouts["placed"], x="dense", y="dense")
            kernel(A=spfgen.pack(np.eye(n), spec.layouts["placed"]), x=np.ones(n))
        assert ran
        return found.total

    assert taken(40) <= 4 * taken(10) + 8

"""Sparse results whose pattern is computed, in every layout that packs, beside dense numpy: values, pattern, order."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import spfgen
from spfgen.errors import DataError, Unsupported, UsageError
from spfgen.layout.nodes import ENTRIES
from tests.fuzz.programs import known_layouts
from tests.plans.interpret import interpret

MATRICES = ["csr", "csc", "coo", "dcsr", "bcsr(R=2, C=3)", "dia", "ell"]
EXACT = ["csr", "csc", "coo", "dcsr"]
"""Layouts that store entries and nothing else."""


def matrix(rows: int, columns: int, density: float = 0.3, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng([rows, columns, seed])
    return np.where(random.random((rows, columns)) < density, random.integers(1, 9, (rows, columns)), 0).astype(float)


def csr(dense: np.ndarray) -> Any:
    return scipy.sparse.csr_array(dense)


def stored(tensor: spfgen.Tensor) -> list[tuple[int, ...]]:
    """The coordinates that a tensor stores, in its order."""
    return list(zip(*(c.tolist() for c in tensor.to_coo().coords), strict=True))


def check(result: spfgen.Tensor, dense: np.ndarray, pattern: np.ndarray | None = None) -> None:
    """The result is a valid tensor with these values; with a pattern, it stores that and each coordinate once."""
    assert result.validate() == ()
    np.testing.assert_allclose(result.to_numpy(), dense, rtol=1e-12, atol=1e-12)
    found = stored(result)
    assert len(set(found)) == len(found)
    if pattern is not None:
        assert sorted(found) == sorted(zip(*map(np.ndarray.tolist, np.nonzero(pattern)), strict=True))
    for index in result.layout.indexes:
        assert result.arrays[index.name].base is None or result.arrays[index.name].base.__class__ is np.ndarray


A, B, SQUARE, D = matrix(6, 5), matrix(5, 7, seed=1), matrix(6, 6, seed=2), np.arange(1.0, 7.0)
OTHER = matrix(6, 6, seed=3)
CASES = {
    "product": ("C[i,j] = A[i,k]*B[k,j]", {"A": A, "B": B}, A @ B),
    "weighted": ("C[i,j] = S[k,i]*d[k]*S[k,j]", {"S": SQUARE, "d": D}, SQUARE.T @ np.diag(D) @ SQUARE),
    "gram": ("C[i,j] = A[k,i]*A[k,j]", {"A": A}, A.T @ A),
    "sums": (
        "C[i,j] = (c0*S[k,i] + T[k,i])*(c1*T[j,k] + S[k,j])",
        {"S": SQUARE, "T": OTHER, "c0": 2.0, "c1": 3.0},
        (2 * SQUARE + OTHER).T @ (3 * OTHER.T + SQUARE),
    ),
    "triple": ("C[i,l] = S[i,j]*T[j,k]*S[k,l]", {"S": SQUARE, "T": OTHER}, SQUARE @ OTHER @ SQUARE),
    "products of sums": (
        "C[i,j] = (S[i,k] + T[i,k])*(S[k,j] + T[k,j] + S[k,j])",
        {"S": SQUARE, "T": OTHER},
        (SQUARE + OTHER) @ (2 * SQUARE + OTHER),
    ),
    "union": ("C[i,j] = S[i,j] + T[i,j]", {"S": SQUARE, "T": OTHER}, SQUARE + OTHER),
    "transposed": ("C[i,j] = A[j,i]", {"A": A}, A.T),
    "edges": (
        "C[i,j] = S[i,j]*(d[j] - d[i])*(d[j] - d[i])",
        {"S": SQUARE, "d": D},
        SQUARE * (D[None, :] - D[:, None]) ** 2,
    ),
    "scaled": ("C[i,j] = S[i,j]/d[j]", {"S": SQUARE, "d": D}, SQUARE / D),
    "lower": ("C[i,j] = S[i,j] where j <= i", {"S": SQUARE}, np.tril(SQUARE)),
    "outer": (
        "C[i,j] = sum(k: S[i,k])*sum(k: T[k,j])",
        {"S": SQUARE, "T": OTHER},
        np.outer(SQUARE.sum(1), OTHER.sum(0)),
    ),
}


PAIRS = [(c, m) for k, c in enumerate(CASES) for n, m in enumerate(MATRICES) if n == 0 or (k + n) % 3 == 0]
"""Each case in the first layout and in two others, in turn: what is computed does not depend on where it is put."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("case", "layout"), PAIRS)
def test_a_result_in_each_layout(case: str, layout: str) -> None:
    text, operands, dense = CASES[case]
    given = {n: csr(v) if np.ndim(v) == 2 else v for n, v in operands.items()}
    result = spfgen.evaluate(text, out=layout, **given)
    if layout in EXACT:  # all numbers are positive but for `edges`: what is stored is what is not 0
        pattern = SQUARE if case == "edges" else dense
        check(result, dense, pattern)
        check(spfgen.evaluate(text, out=layout, prune=True, **given), dense, dense)
    else:
        check(result, dense)


X = np.arange(1.0, 7.0)
STEPS = {
    "union": ("C[i,j] = max(A[i,j], B[i,j])", {"A": SQUARE, "B": OTHER}, np.maximum(SQUARE, OTHER)),
    "power": ("C[i,j] = A[i,j]*(x[j] - x[i])**2", {"A": SQUARE, "x": X}, SQUARE * (X - X[:, None]) ** 2),
    "root": ("C[i,j] = sqrt(A[i,j])", {"A": SQUARE}, np.sqrt(SQUARE)),
    "mask": ("C[i,j] = where(B[i,j] > 4, A[i,j], 0)", {"A": SQUARE, "B": OTHER}, np.where(OTHER > 4, SQUARE, 0)),
    "semiring": ("C[i,j] = max(k: A[i,k]*B[k,j])", {"A": SQUARE, "B": OTHER}, (SQUARE[:, :, None] * OTHER).max(1)),
    "everywhere": ("C[i,j] = exp(A[i,j])", {"A": SQUARE}, np.exp(SQUARE)),
    "loops": (
        "for i { let s = sum(j: A[i,j])  for j { if A[i,j] { C[i,j] = A[i,j]/s } } }",
        {"A": SQUARE},
        SQUARE / np.maximum(SQUARE.sum(1), 1)[:, None],
    ),
    "updates": ("C[i,j] += abs(A[i,j])\nC[i,j] += max(B[i,j], 0)", {"A": SQUARE, "B": OTHER}, SQUARE + OTHER),
    "scatter": ("for i, j { C[i, at[j]] += sqrt(A[i,j]) }", {"A": SQUARE, "at": np.array([1, 1, 0, 2, 5, 5])}, None),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bcsr(R=2, C=3)"])
@pytest.mark.parametrize("case", STEPS)
def test_what_is_more_than_sums_of_products(case: str, layout: str) -> None:
    text, operands, dense = STEPS[case]
    layouts: dict[str, str] = {n: "csr" if v.ndim == 2 else f"dense<{v.dtype}>" for n, v in operands.items()}
    kernel = spfgen.compile(text, C=layout, **layouts)
    given = {n: csr(v) if v.ndim == 2 else v for n, v in operands.items()}
    if dense is None:
        dense = np.zeros((6, 6))
        np.add.at(dense, (slice(None), operands["at"]), np.sqrt(SQUARE))
    sizes = {kernel.program.tensor("C").extents[1]: 6} if case == "scatter" else {}
    check(kernel(**given, sizes=sizes), dense)
    pattern = dense != 1 if case == "everywhere" else dense  # the result is 1 where the operand is 0
    check(kernel(**given, sizes=sizes, prune=True), dense, pattern if layout in EXACT else None)


def test_a_fill_that_is_not_zero() -> None:
    """Products by (min, +): what is not stored is infinity."""
    a = np.where(SQUARE > 0, SQUARE, np.inf)
    b = np.where(OTHER > 0, OTHER, np.inf)
    kernel = spfgen.compile("C[i,j] = min(k: A[i,k] + B[k,j])", A="csr fill inf", B="csr fill inf", C="csr fill inf")
    result = kernel(A=spfgen.pack(a, "csr fill inf"), B=spfgen.pack(b, "csr fill inf"), prune=True)
    dense = (a[:, :, None] + b).min(1)
    entries = dict(zip(stored(result), result.to_coo().values.tolist(), strict=True))
    assert entries == {tuple(map(int, at)): dense[tuple(at)] for at in np.argwhere(np.isfinite(dense))}


def test_nan_is_pruned_where_it_is_the_fill_value() -> None:
    a, b = np.array([np.nan, -2, np.nan]), np.array([[0, 1, 1], [0, 1, 0]], bool)
    kernel = spfgen.compile("C[i,j] = sin(min(where(b[i,j], 1.0, 0.5), a[j]))", a="sv fill nan", b="csr", C="csr")
    result = kernel(a=spfgen.pack(a, "sv", fill=np.nan), b=spfgen.pack(b, "csr"), prune=True)
    assert np.isnan(result.layout.fill)
    assert stored(result) == [(0, 1), (1, 1)]
    np.testing.assert_allclose(result.to_numpy(), np.sin(np.minimum(np.where(b, 1, 0.5), a)))


def test_the_types_of_a_call_decide_the_fill_value() -> None:
    """`true | x` is true where x is a truth value, whatever it is."""
    kernel = spfgen.compile("C[i,j] = (true | x[i])", C="coo", x="dense")
    for x in (np.zeros(3, bool), np.array([0, 6, 1]), np.ones(3, bool)):
        result = kernel(x=x, sizes={"j": 2})
        np.testing.assert_array_equal(result.to_numpy(), np.tile((True | x)[:, None], 2))
        assert (result.layout.fill == 1) == (x.dtype == bool)


REPEATED = {
    "the last assignment counts": ("for k { C[i,j] = A[i,j]*abs(x[k]) }", lambda a, x: a * abs(x[-1])),
    "an assignment that is a fill": ("for k { C[i,j] = A[i,j]*max(x[k], 0) }", lambda a, x: a * max(x[-1], 0)),
    "two assignments": ("for i { C[i,j] = sqrt(A[i,j])  C[i,j] = abs(A[i,j]) }", lambda a, x: abs(a)),
    "an update from the fill": ("C[i,j] max= abs(A[i,j])", lambda a, x: abs(a)),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", REPEATED)
def test_places_that_are_written_several_times(case: str) -> None:
    text, meaning = REPEATED[case]
    a, x = np.abs(A), np.array([2.0, 3.0, -1.5])
    layouts = {"x": "dense"} if "x[" in text else {}
    kernel = spfgen.compile(text, A="csr", C="csr", **layouts)
    check(kernel(A=csr(a), **({"x": x} if layouts else {})), meaning(a, x))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("operand", ["csr", "csc", "coo", "bcsr(R=2, C=3)", "dia"])
def test_each_level_and_operands_in_other_layouts(operand: str, level: int) -> None:
    kernel = spfgen.compile("C[i,j] = A[i,k]*B[k,j]", A=operand, B=operand, C="csr", optimize=level)
    check(kernel(A=spfgen.pack(A, operand), B=spfgen.pack(B, operand)), A @ B)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", MATRICES)
def test_a_slice_of_a_tensor_of_rank_three(layout: str) -> None:
    """What users of another compiler reported as broken."""
    b = np.where(np.random.default_rng(0).random((4, 5, 3)) < 0.4, 2.0, 0.0)
    c = np.array([1.0, 3.0, 5.0])
    dense = np.einsum("jik,k->ij", b, c)
    result = spfgen.evaluate("A[i,j] = B[j,i,k]*c[k]", out=layout, B=spfgen.pack(b, "csf3"), c=c)
    check(result, dense, dense if layout in EXACT else None)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["sv", "coo", "csf3", "dense"])
def test_other_ranks(layout: str) -> None:
    if layout == "csf3":
        b = np.where(np.random.default_rng(1).random((4, 5, 3)) < 0.4, 2.0, 0.0)
        check(spfgen.evaluate("C[k,i,j] = B[i,j,k]", out=layout, B=spfgen.pack(b, "coo")), b.transpose(2, 0, 1))
    elif layout == "dense":
        result = spfgen.evaluate("C[i,j] = A[i,k]*B[k,j]", out=layout, A=csr(A), B=csr(B))
        np.testing.assert_array_equal(result, A @ B)
    else:
        check(spfgen.evaluate("y[i] = A[i,j]*x[j]", out=layout, A=csr(A), x=np.ones(5)), A.sum(1), A.sum(1))


SHIPPED = [(rank, name) for rank in (1, 2, 3) for name in known_layouts(rank)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("rank", "name"), SHIPPED)
def test_every_shipped_layout_as_a_result(rank: int, name: str) -> None:
    """The same as dense numpy, packed: what the layout stores, refused where it has no place for it."""
    random = np.random.default_rng(rank)
    shape = (6, 6, 4)[:rank]
    a, b = (np.where(random.random(shape) < 0.4, random.integers(1, 9, shape), 0).astype(float) for _ in range(2))
    text = "C[{0}] = A[{0}] + 2*B[{0}]".format(", ".join("ijk"[:rank]))
    operand = {1: "sv", 2: "csc", 3: "coo"}[rank]
    kernel = spfgen.compile(text, A=operand, B=operand, C=name)
    given = {"A": spfgen.pack(a, operand), "B": spfgen.pack(b, operand)}
    if "C" not in kernel.assembled:  # nothing to be computed: the layout says all that it stores
        return
    try:
        wanted = spfgen.pack(a + 2 * b, name)
    except (DataError, Unsupported):
        with pytest.raises((DataError, Unsupported)):
            kernel(**given)
        return
    result = kernel(**given)
    assert result.dtype == wanted.dtype
    check(result, (a + 2 * b).astype(wanted.dtype))
    assert stored(result) == stored(wanted)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", MATRICES)
@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (4, 4, 4)])
def test_empty_operands(layout: str, shape: tuple[int, int, int]) -> None:
    rows, middle, columns = shape
    kernel = spfgen.compile("C[i,j] = A[i,k]*B[k,j]", A="csr", B="csr", C=layout)
    result = kernel(A=csr(np.zeros((rows, middle))), B=csr(np.zeros((middle, columns))))
    assert result.shape == (rows, columns)
    check(result, np.zeros((rows, columns)))


def test_what_is_stored_although_it_is_zero() -> None:
    """A coordinate is stored where a term has all its factors stored, whatever they are; not with `prune`."""
    zeros = scipy.sparse.csr_array((np.array([0.0, 2.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    kernel = spfgen.compile("C[i,j] = A[i,j] - B[i,j]", A="csr", B="csr", C="csr")
    assert stored(kernel(A=zeros, B=zeros)) == [(0, 0), (0, 1)]
    assert stored(kernel(A=zeros, B=zeros, prune=True)) == []
    assert stored(kernel(A=zeros, B=csr(np.array([[0.0, 1.0]])), prune=True)) == [(0, 1)]
    pruning = spfgen.compile("C[i,j] = A[i,j] - B[i,j]", A="csr", B="csr", C="csr", prune=True)
    assert stored(pruning(A=zeros, B=zeros)) == []
    assert stored(pruning(A=zeros, B=zeros, prune=False)) == [(0, 0), (0, 1)]


def test_a_result_that_is_given_has_its_own_pattern() -> None:
    kernel = spfgen.compile("C[i,j] = A[i,k]*B[k,j]", A="csr", B="csr", C="csr")
    target = csr(np.ones((6, 7)))
    assert kernel(A=csr(A), B=csr(B), C=target) is target
    np.testing.assert_array_equal(target.toarray(), A @ B)
    with pytest.raises(DataError, match="stores nothing"):
        kernel(A=csr(A), B=csr(B), C=csr(np.eye(6, 7)))


def test_several_statements_and_results() -> None:
    kernel = spfgen.compile(
        "C[i,j] = A[i,k]*B[k,j]; y[i] = A[i,k]; C[i,j] += 2*E[i,j]", A="csr", B="csr", E="csr", C="csr", y="dense"
    )
    e = matrix(6, 7, seed=5)
    found = kernel(A=csr(A), B=csr(B), E=csr(e))
    check(found["C"], A @ B + 2 * e, A @ B + e)
    np.testing.assert_array_equal(found["y"], A.sum(1))
    both = spfgen.evaluate("C[i,j] = A[i,k]*B[k,j]; D[j,i] = A[i,j]", out={"C": "csc", "D": "coo"}, A=csr(A), B=csr(B))
    check(both["C"], A @ B)
    check(both["D"], A.T)


def test_the_second_assignment_is_what_counts() -> None:
    kernel = spfgen.compile("C[i,j] = A[i,j]; C[i,j] = B[i,j]", A="csr", B="csr", C="csr")
    check(kernel(A=csr(SQUARE), B=csr(OTHER)), OTHER, OTHER)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 3])
def test_threads(threads: int) -> None:
    """Enough work that all threads have some."""
    a = scipy.sparse.random_array((400, 300), density=0.05, format="csr", rng=np.random.default_rng(1))
    b = scipy.sparse.random_array((300, 350), density=0.05, format="csr", rng=np.random.default_rng(2))
    for layout in ("csr", "csc"):
        kernel = spfgen.compile("C[i,j] = A[i,k]*B[k,j]", A="csr", B="csr", C=layout, threads=threads)
        check(kernel(A=a, B=b), (a @ b).toarray(), (a @ b).toarray())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("columns", [3000, 2**25])
def test_long_rows(columns: int) -> None:
    """Kept in dense workspaces, and in hash tables where there is room for far more than is stored."""
    random = np.random.default_rng(7)
    a = scipy.sparse.random_array((20, 50), density=0.5, format="csr", rng=random)
    at = random.integers(0, columns, (50, 200))
    b = scipy.sparse.csr_array((random.random(10000), (np.repeat(np.arange(50), 200), at.ravel())), (50, columns))
    b.sum_duplicates()
    wanted = scipy.sparse.csr_array(a @ b)
    wanted.sort_indices()
    for threads in (1, 2):
        kernel = spfgen.compile("C[i,j] = A[i,k]*B[k,j]", A="csr", B="csr", C="csr", threads=threads)
        result = kernel(A=a, B=b)
        assert result.validate() == ()
        np.testing.assert_array_equal(result.arrays["rowptr"], wanted.indptr)
        np.testing.assert_array_equal(result.arrays["colidx"], wanted.indices)
        np.testing.assert_allclose(result.arrays["val"], wanted.data)


def test_rows_are_gathered() -> None:
    """Where the loops outside fix all coordinates but one; terms that begin alike make their rows together."""
    product = spfgen.compile("C[i,j] = A[i,k]*B[k,j]", A="csr", B="csr", C="csr")
    assert "gather what is appended to C at (i, ...)" in product.explain()
    both = spfgen.compile("C[i,j] = A[i,k]*B[k,j] + A[i,j]", A="csr", B="csr", C="csr")
    assert both.explain().count("gather") == 1
    assert both.explain().count("scan i ") == 1
    copy = spfgen.compile("C[i,j] = A[j,i]", A="csr", C="csr")
    assert "gather" not in copy.explain()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("text", "layouts", "merges"), [
    ("C[i,j] = A[i,j] + B[i,j]", ("csr", "csr"), True),
    ("C[i,j] = 2*A[i,j] - B[i,j] - A[i,j]", ("csc", "csc"), True),
    ("C[i,j] = A[i,j] + B[j,i]", ("csr", "csr"), False),
    ("C[i,j] = A[i,j] + B[i,j]", ("csr", "csc"), False),
    ("C[i,j] = A[i,j] + B[i,j]", ("csr_unsorted", "csr_unsorted"), False),
    ("C[i,j] = A[i,j] + B[i,j]", ("coo", "coo"), False),
])  # fmt: skip
@pytest.mark.parametrize("out", ["csr", "csc", "coo_unsorted"])
def test_sums_of_what_comes_in_order_are_merged(text: str, layouts: tuple[str, str], merges: bool, out: str) -> None:
    kernel = spfgen.compile(text, A=layouts[0], B=layouts[1], C=out)
    assert ("in order: they are merged" in kernel.explain()) == merges
    a, b = SQUARE, OTHER.T if "B[j" in text else OTHER
    wanted = a - b if "2*" in text else a + b
    check(kernel(A=spfgen.pack(a, layouts[0]), B=spfgen.pack(OTHER, layouts[1])), wanted, (a != 0) | (b != 0))


def test_plans_that_gather_mean_the_same() -> None:
    """The plan is carried out over numpy arrays, beside dense numpy."""
    for text, operands, dense in (CASES["product"], CASES["sums"]):
        layouts = {n: "csr" for n, v in operands.items() if np.ndim(v) == 2}
        kernel = spfgen.compile(text, C="csr", **layouts)
        given = {n: spfgen.pack(v, "csr") if np.ndim(v) == 2 else v for n, v in operands.items()}
        bound = kernel.bind(**given)
        made = kernel.generated
        found = interpret(made.program, made.plans, bound.tensors, {})
        np.testing.assert_allclose(found["C"][ENTRIES], dense)


@pytest.mark.parametrize("layout", ["csr", "bcsr(R=2, C=2)"])
def test_results_that_share_a_pattern_that_is_computed(layout: str) -> None:
    """The owner's pattern is computed first; the others have it, and are computed there."""
    text = f"""kernel both {{
        tensor A, B : csr  tensor D, E : {layout} shares C  tensor C : {layout}
        C[i,j] = A[i,k]*B[k,j]  D[i,j] = A[i,j]*B[i,j]*C[i,j]  E[i,j] = A[i,j]
    }}"""
    found = spfgen.parse(text).kernels["both"].compile()(A=csr(SQUARE), B=csr(SQUARE.T))
    product = SQUARE @ SQUARE.T
    np.testing.assert_array_equal(found["C"].to_numpy(), product)
    np.testing.assert_array_equal(found["D"].to_numpy(), SQUARE * SQUARE.T * product)
    stored = np.zeros(product.shape, bool)
    stored[tuple(found["C"].to_coo().coords)] = True
    np.testing.assert_array_equal(found["E"].to_numpy(), np.where(stored, SQUARE, 0))
    for own in found.values():
        assert own.validate() == ()
        assert all(np.array_equal(own.arrays[i.name], found["C"].arrays[i.name]) for i in own.layout.indexes)


def test_a_result_with_the_pattern_of_an_operand() -> None:
    """What is an operand times what is everywhere stores what the operand does, in arrays of its own."""
    a = csr(SQUARE)
    kernel = spfgen.compile("C[i,j] = -2*A[i,j]*d[i]/d[j]", A="csr", d="dense", C="csr")
    assert "shares index arrays of A" in kernel.explain()
    result = kernel(A=a, d=D)
    check(result, -2 * SQUARE * D[:, None] / D, SQUARE)
    assert not np.shares_memory(result.arrays["colidx"], a.indices)
    zeros = scipy.sparse.csr_array((np.array([0.0, 2.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    double = spfgen.compile("C[i,j] = 2*A[i,j]", A="csr", C="csr")
    assert stored(double(A=zeros)) == [(0, 0), (0, 1)]
    assert stored(double(A=zeros, prune=True)) == [(0, 1)]
    given = csr(np.ones((1, 2)))
    assert double(A=zeros, C=given) is given
    np.testing.assert_array_equal(given.toarray(), [[0, 4]])
    masked = spfgen.compile("C[i,j] = A[i,j]*L[i,j]", A="csr", L="lower", C="csr")
    check(masked(A=a, L=np.tril(np.ones((6, 6)))), np.tril(SQUARE), np.tril(SQUARE))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint8", "float32", "complex64", "complex128"])
def test_element_types(dtype: str) -> None:
    """The type is that of numpy; what does not fit wraps around."""
    a, b = (SQUARE * 20).astype(dtype), (OTHER * 3).astype(dtype)
    result = spfgen.evaluate("C[i,j] = A[i,k]*B[k,j] + A[i,j]", out="csr", A=csr(a), B=csr(b))
    assert result.dtype == dtype
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result.to_numpy(), a @ b | a if dtype == "bool" else a @ b + a)


def test_a_declared_type_holds_the_sum_not_its_parts() -> None:
    halves = csr(np.full((2, 2), 0.5))
    kernel = spfgen.compile("C[i,j] = A[i,k]*B[k,j]", A="csr", B="csr", C="csr<int32>")
    result = kernel(A=halves, B=csr(np.ones((2, 2))))
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result.to_numpy(), np.ones((2, 2)))


def test_index_types() -> None:
    kernel = spfgen.compile("C[i,j] = A[i,j]", A="csr", C="csr<float, int64>")
    result = kernel(A=csr(SQUARE))
    assert (result.dtype, result.arrays["colidx"].dtype) == (np.float32, np.int64)
    assert spfgen.evaluate("C[i,j] = A[i,j]", out="csr", A=csr(SQUARE)).arrays["colidx"].dtype == np.int32


def test_extents_that_do_not_fit_32_bits() -> None:
    """Index arrays are wide then, unless their type is declared: that is refused."""
    n = 2**40
    a = spfgen.pack((np.array([[3, 2**39], [7, 5]]), np.ones(2)), "coo", shape=(n, n))
    result = spfgen.evaluate("C[j,i] = 2*A[i,j]", out="coo", A=a)
    assert result.shape == (n, n)
    assert dict(zip(stored(result), result.to_coo().values.tolist(), strict=True)) == {(7, 3): 2, (5, 2**39): 2}
    with pytest.raises(DataError, match="fit int32"):
        spfgen.evaluate("C[j,i] = 2*A[i,j]", out="coo<double, int32>", A=a)


def test_memory_is_ones_own_and_calls_can_be_repeated() -> None:
    kernel = spfgen.compile("C[i,j] = A[i,k]*B[k,j]", A="csr", B="csr", C="csr")
    a = csr(A.copy())
    bound = kernel.bind(A=a, B=csr(B))
    bound()
    first = kernel.results(bound, {})
    kept = first.to_numpy()
    a.data *= 2
    bound()
    second = kernel.results(bound, {})
    np.testing.assert_array_equal(first.to_numpy(), kept)
    np.testing.assert_array_equal(second.to_numpy(), 2 * kept)
    assert all(x.flags.owndata or x.base is not None for x in first.arrays.values())


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("out", ["csr", "csc", "coo", "dcsr", "csf", "bcsr", "ell", "coo_unsorted"])
@pytest.mark.exhaustive
def test_many_entries(out: str, threads: int) -> None:
    """In the order of the layout and out of it; arrays that the kernel allocated may become the result's."""
    random = np.random.default_rng(5)
    a, b = (np.where(random.random((90, 110)) < 0.4, random.integers(1, 9, (90, 110)), 0).astype(float) for _ in "ab")
    texts = {
        "C[i,j] = A[i,j] + B[i,j]": a + b,
        "C[j,i] = A[i,j]": a.T,
        "C[i,j] = max(A[i,j], B[i,j])": np.maximum(a, b),
        "C[l,j] = concat((A[i,j], B[k,j]), (i,k) -> l)": np.vstack([a, b]),
        "C[i,l] = concat((A[i,j], B[i,k]), (j,k) -> l)": np.hstack([a, b]),
        "C[i,j] = A[i,k]*B[j,k]": a @ b.T,
    }
    for text, wanted in texts.items():
        operands = {"A": csr(a), "B": csr(b)} if "B" in text else {"A": csr(a)}
        kernel = spfgen.compile(text, threads=threads, C=out, **dict.fromkeys(operands, "csr"))
        check(kernel(**operands), wanted, None if out == "bcsr" else wanted)  # whole blocks are stored
        check(kernel(**{n: csr(np.zeros_like(x.toarray())) for n, x in operands.items()}), 0 * wanted, 0 * wanted)


def test_memory_of_a_kernel_outlives_it() -> None:
    """Arrays that the kernel allocated are given back when nobody has them any more, and scipy takes them."""
    a = scipy.sparse.random_array((200, 200), density=0.2, format="csr", rng=np.random.default_rng(1))
    kernel = spfgen.compile("C[i,j] = 2*A[i,j] + A[i,j]", A="csr", C="csr")
    bound = kernel.bind(A=a)
    bound()
    arrays = dict(bound.tensors["C"].arrays)
    for _ in range(3):
        bound()
    del bound, kernel
    gc.collect()
    made = scipy.sparse.csr_array((arrays["val"], arrays["colidx"], arrays["rowptr"]), shape=a.shape)
    np.testing.assert_array_equal((made - 3 * a).toarray(), 0)
    arrays["val"][:] = 1
    assert arrays["val"].sum() == a.nnz


def test_a_pattern_is_computed_once() -> None:
    """It is filled again with other values, in the same arrays."""
    kernel = spfgen.compile("C[i,j] = A[i,k]*B[k,j]", A="csr", B="csr", C="csr")
    a, b = csr(A.copy()), csr(B.copy())
    made = kernel.symbolic(A=a, B=b)
    check(made.result, A @ B, A @ B)
    values = made.result.arrays["val"]
    a.data *= 3
    assert made.numeric() is made.result
    check(made.result, 3 * A @ B, A @ B)
    assert made.numeric(B=csr(2 * B)) is made.result
    check(made.result, 6 * A @ B, A @ B)
    assert made.result.arrays["val"] is values
    with pytest.raises(DataError, match="stores nothing"):
        made.numeric(A=csr(np.ones((6, 5))))
    with pytest.raises(UsageError, match="`Q` is not one"):
        made.numeric(Q=a)
    with pytest.raises(UsageError, match="`C` is a result"):
        made.numeric(C=made.result)
    check(made.numeric(), 6 * A @ B, A @ B)  # the operands of before what was refused
    with pytest.raises(UsageError, match="is given"):
        kernel.symbolic(A=a, B=b, C=made.result)
    with pytest.raises(UsageError, match="there is none"):
        spfgen.compile("y[i] = A[i,j]", A="csr", y="dense").symbolic(A=a)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("result", ["csr", "coo", "bcsr", "csc", "dcsr"])
def test_two_kernels_of_a_product(result: str) -> None:
    """What `generate --phases` writes: one makes the pattern, the other computes values in it."""
    symbolic, numeric = spfgen.compile("C[i,j] = A[i,k]*B[k,j]", A="csr", B="csr", C=result).phases()
    assert (symbolic.name, numeric.name) == ("kernel_symbolic", "kernel_numeric")
    a, b = csr(A.copy()), csr(B.copy())
    made = symbolic(A=a, B=b)
    values = {n: v for n, v in made.arrays.items() if v.dtype.kind == "f"}
    a.data *= 3
    assert numeric(A=a, B=b, C=made) is made
    assert np.allclose(made.to_numpy(), 3 * A @ B)
    assert all(made.arrays[n] is v for n, v in values.items())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", ["C[i,j] = A[i,k]*B[k,j]", "C[j,i] = A[i,j] + B[j,i]"])
def test_memory_that_is_limited(text: str, threads: int) -> None:
    """The call is refused, and can be repeated; a limit that is large enough changes nothing."""
    a = scipy.sparse.random_array((200, 200), density=0.05, format="csr", rng=np.random.default_rng(1))
    dense = (a @ a if "k" in text else a.T + a).toarray()
    compiled = {"A": "csr", "B": "csr", "C": "csr", "threads": threads}
    few = spfgen.compile(text, max_workspace=4000, **compiled)
    bound = few.bind(A=a, B=a)
    for _ in range(2):
        with pytest.raises(DataError, match="at most 4000 bytes"):
            bound()
    enough = spfgen.compile(text, max_workspace=10**7, **compiled).bind(A=a, B=a)
    for _ in range(2):
        enough()
        check(enough.tensors["C"], dense, dense)
    with pytest.raises(UsageError, match="number of bytes"):
        spfgen.compile(text, max_workspace=-1, **compiled)
    with pytest.raises(UsageError, match="prune=True or prune=False"):
        spfgen.compile(text, prune="yes", **compiled)


def test_a_kernel_from_a_pickle() -> None:
    kernel = pickle.loads(pickle.dumps(spfgen.compile("C[i,j] = A[i,j]*2", A="csr", C="coo", prune=True)))
    check(kernel(A=csr(SQUARE)), 2 * SQUARE, SQUARE)


def test_a_pattern_without_values() -> None:
    """What cancels out is not there: all that such a layout stores is true."""
    both = spfgen.evaluate("C[i,j] = A[i,j] - B[i,j]", out="csr_pattern", A=csr(SQUARE), B=csr(OTHER))
    assert both.dtype == bool
    np.testing.assert_array_equal(both.to_numpy(), SQUARE != OTHER)


def test_a_symmetric_result() -> None:
    """The two halves are one; what is not symmetric has no place."""
    a = csr(SQUARE)
    result = spfgen.evaluate("C[i,j] = A[k,i]*A[k,j]", out="sym_lower", A=a)
    np.testing.assert_allclose(result.to_numpy(), SQUARE.T @ SQUARE)
    with pytest.raises(DataError):
        spfgen.evaluate("C[i,j] = 1*A[i,j]", out="sym_lower", A=a)


def test_layouts_that_only_a_computed_pattern_can_have() -> None:
    """Entries stored twice have no place to be added to, but packing needs none."""
    check(spfgen.evaluate("C[i,j] = A[j,i]", out="coo_unsorted", A=csr(A)), A.T, A.T)
    ones = spfgen.evaluate("y[i] = A[i,j]*x[j]", out="rle", A=csr(np.ones((3, 2))), x=np.ones(2))
    np.testing.assert_array_equal(ones.to_numpy(), [2, 2, 2])


def test_extents_that_nothing_says() -> None:
    kernel = spfgen.compile("C[i,i] = x[i]", x="dense", C="csr")
    check(kernel(x=D, sizes={"C.nrow": 6, "C.ncol": 6}), np.diag(D), np.diag(D))
    either = spfgen.compile("C[i,j + k] = A[i,j]", A="csr", C="csr")
    with pytest.raises(UsageError, match="its extents"):
        either(A=csr(SQUARE))


def test_an_entry_that_the_layout_has_no_place_for() -> None:
    with pytest.raises(DataError, match="`C`"):
        spfgen.evaluate("C[i,j] = A[i,j]", out="diagonal", A=csr(np.ones((3, 3))))


@pytest.mark.parametrize("layout", ["sym_lower", "sym_csr"])
def test_a_quotient_of_a_mirrored_matrix(layout: str) -> None:
    """The two parts of the relation come in another order with the divisor than without."""
    symmetric = SQUARE + SQUARE.T
    d = np.arange(1.0, 1 + len(symmetric))
    result = spfgen.evaluate("C[i,j] = A[i,j]/d[i]", out="csr", A=spfgen.pack(symmetric, layout), d=d)
    np.testing.assert_allclose(result.to_numpy(), symmetric / d[:, None])


def test_a_quotient_of_parts_that_read_different_arrays() -> None:
    """Parts of one relation need not have the same dimensions."""
    text = """layout some_rows(nrow, ncol) {
        size nd, nnz
        relation {
            [t, r, p] -> [i, j] : t = 0 and 0 <= r < nd and 0 <= p < ncol and i = row(r) and j = p ;
            [t, r, p] -> [i, j] : t = 1 and 0 <= r < nrow and ptr(r) <= p < ptr(r + 1) and i = r and j = col(p) }
        index row[nd] { range 0 <= row(r) < nrow  property strictly increasing }
        index ptr[nrow + 1] {
            range 0 <= ptr(p) <= nnz
            property increasing
            property ptr(0) = 0
            property ptr(nrow) = nnz
        }
        index col[nnz] { range 0 <= col(p) < ncol  property strictly increasing within ptr }
        value full[nd, ncol] at [r, p] when t = 0
        value rest[nnz] at [p] when t = 1
    }"""
    arrays = {"row": [1], "ptr": [0, 1, 1, 3], "col": [2, 0, 1], "full": [[1.0, 2, 3]], "rest": [4.0, 5, 6]}
    layout = spfgen.parse(text).layouts["some_rows"]
    operand = spfgen.tensor(layout, shape=(3, 3), **{n: np.array(a) for n, a in arrays.items()})
    result = spfgen.evaluate("C[i,j] = A[i,j]/d[i]", out="csr", A=operand, d=np.array([1.0, 2, 4]))
    np.testing.assert_array_equal(result.to_numpy(), [[0, 0, 4], [0.5, 1, 1.5], [1.25, 1.5, 0]])


def misuses() -> Iterable[tuple[str, dict[str, Any], str]]:
    yield "C[i,j] = A[i,j]", {"out": "crs", "A": csr(A)}, "crs"
    yield "C[i,j] = A[i,j]", {"out": "sv", "A": csr(A)}, "2 dimensions"
    yield "C[i,j] = A[i,j]", {"out": {"D": "csr"}, "A": csr(A)}, "not one"
    yield "C[i,j] = A[i,j]", {"out": "csr", "A": csr(A), "C": np.zeros((6, 5))}, "all are"
    yield "C[i,j] = A[i,j]", {"out": 7, "A": csr(A)}, "a layout"
    yield "C[i,j] = A[i,j]", {"out": "csr", "A": csr(A), "prune": 7}, "prune=True"


@pytest.mark.parametrize(("text", "given", "match"), list(misuses()))
def test_misuse(text: str, given: dict[str, Any], match: str) -> None:
    with pytest.raises(spfgen.SpfgenError, match=match):
        spfgen.evaluate(text, **given)


def test_operands_with_the_names_of_options() -> None:
    np.testing.assert_array_equal(spfgen.evaluate("y[i] = out[i]*prune[i]", out=D, prune=D), D * D)
    spec = spfgen.parse("kernel k { tensor A, C : csr  tensor prune : dense  C[i,j] = A[i,j]*prune[j] }")
    check(spec.kernels["k"].compile()(A=csr(SQUARE), prune=D), SQUARE * D)


def test_what_explain_says() -> None:
    kernel = spfgen.compile("C[i,j] = A[i,k]*B[k,j]", A="csr", B="csr", C="csc")
    assert "C : csc, float64, output, its pattern is computed" in kernel.explain()
    assert "at most A.nnz*B.nnz/A.ncol entries of C, 16 bytes each, or 24 beyond 32 bits" in kernel.explain()
    assert "4*B.ncol bytes for the rows of each thread" in kernel.explain()
    assert [t["assembled"] for t in kernel.explain(json=True)["tensors"]] == [False, False, True]


def test_the_text_says_whose_pattern_it_is() -> None:
    """`within`, `shares`, and schedules that speak of positions of the result: it is given."""
    spec = spfgen.parse("""
    kernel within_it { tensor A, B, C : csr  C[i,j] = A[i,k]*B[k,j] within C }
    kernel sharing { tensor A : csr  tensor C : csr shares A  C[i,j] = 2*A[i,j] }
    kernel reading { tensor A, C : csr  tensor y : dense  C[i,j] = A[i,j]  y[i] = C[i,j] }
    kernel found { tensor A, C : csr  C[i,j] = A[j,i]  schedule { find C.pj : search } }
    kernel computed { tensor A, C : csr  C[i,j] = A[j,i] }
    """)
    assembled = {n: set(spec.kernels[n].compile().assembled) for n in spec.kernels}
    assert assembled == {"within_it": set(), "sharing": set(), "found": set(), "reading": {"C"}, "computed": {"C"}}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize(
    "text", ["2*A", "round(A*1.5)", "A*0.5 + B*0.5", "A*B", "max(A, B)", "A - B", "exp(A)", "A + 1"]
)
def test_results_in_runs_are_runs(text: str, prune: bool, threads: int) -> None:
    """Neighbours with equal values are joined, also where they come from several operands."""
    for layout, shape in (("csr_rle", (6, 11)), ("rle", (13,)), ("sparse_rle", (40,))):
        rng = np.random.default_rng(len(text))
        index = "[i, j]" if len(shape) == 2 else "[i]"
        equation = f"C{index} = " + text.replace("A", f"A{index}").replace("B", f"B{index}")
        given = {n: runs_of(rng, shape) for n in "AB" if n in text}
        kernel = spfgen.compile(equation, **dict.fromkeys((*given, "C"), layout), prune=prune, threads=threads)
        found = kernel(**{n: spfgen.pack(a, layout) for n, a in given.items()})
        wanted = eval(text, {"round": np.round, "max": np.maximum, "exp": np.exp, **given})
        np.testing.assert_array_equal(found.to_numpy(), wanted)
        if prune:
            expected = spfgen.pack(wanted, layout, fill=found.fill)
            for name, array in expected.arrays.items():
                np.testing.assert_array_equal(found.arrays[name], array)


def runs_of(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Rows of a few runs each; some have one."""
    rows = []
    for _ in range(int(np.prod(shape[:-1]))):
        cuts = np.sort(rng.integers(0, shape[-1] + 1, rng.integers(0, 5)))
        rows.append(np.repeat(rng.integers(0, 3, len(cuts) + 1), np.diff([0, *cuts, shape[-1]])))
    return np.array(rows, float).reshape(shape)


LISTED = """
layout listed(m, n) {
    size some, stored
    relation { [p, q] -> [i, j] : 0 <= p < some and begin(p) <= q < begin(p + 1) and i = row(p) - %d and j = col(q) }
    index row[some] { range %d <= row(p) < m + %d  property strictly increasing }
    index begin[some + 1] {
        range 0 <= begin(p) <= stored
        property increasing
        property begin(0) = 0
        property begin(some) = stored
    }
    index col[stored] { range 0 <= col(q) < n  property strictly increasing within begin }
    value data[stored] at [q]
}
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("first", [0, 1])
def test_rows_that_a_layout_lists(first: int, level: int) -> None:
    """Numbers of rows from 0 are what the kernel delivers; from 1 they are packed. No row, one, and all of them."""
    listed = spfgen.parse(LISTED % (first, first, first)).layouts["listed"]
    rng = np.random.default_rng(7)
    kernel = spfgen.compile("C[i,j] = A[i,k]*B[k,j]", optimize=level, threads=2, A="csr", B="csr", C=listed)
    for rows in (set[int](), {4}, {0, 3, 17}, set(range(30))):
        a = np.where(np.isin(np.arange(30), [*rows])[:, None], rng.integers(0, 3, (30, 30)), 0).astype(float)
        b = np.where(rng.random((30, 30)) < 0.3, rng.integers(1, 5, (30, 30)), 0).astype(float)
        found = kernel(A=csr(a), B=csr(b))
        check(found, a @ b)
        pattern = (a != 0).astype(int) @ (b != 0) > 0
        np.testing.assert_array_equal(found.arrays["row"], np.flatnonzero(pattern.any(1)) + first)
        assert found.arrays["data"].size == pattern.sum()


def test_fill_values_without_a_place_are_left_out() -> None:
    """An operand may store its fill value where the layout of the result has no place: two rows have one column."""
    pairs = spfgen.parse("""
        layout pairs(m, n) {
            relation { [b, r] -> [i, j] : 0 <= r < 2 and i = 2*b + r and 0 <= i < m and j = col(b) and j < n }
            index col[floor((m + 1)/2)] { range 0 <= col(b) <= n }
            value val[m] at [2*b + r]
        }
    """).layouts["pairs"]
    kernel = spfgen.compile("C[i,j] = A[i,j]", A="coo", C=pairs)
    at = {"idx_1": np.array([0, 0, 2, 3], np.int32), "idx_2": np.array([0, 1, 2, 2], np.int32)}
    a = spfgen.tensor("coo", shape=(4, 3), **at, val=np.array([0.0, 3.0, 4.0, 5.0]))
    np.testing.assert_array_equal(kernel(A=a).to_numpy(), a.to_numpy())
    a = spfgen.tensor("coo", shape=(4, 3), **at, val=np.array([2.0, 3.0, 4.0, 5.0]))
    with pytest.raises(DataError, match="agree on `col"):
        kernel(A=a)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("P[i,j] = sqrt(A[i,j])\nQ[i,j] = P[i,j]*2", lambda a: 2 * np.sqrt(a)),
        ("P[i,j] = 2*A[i,j]\nQ[i,j] = P[i,j]*2\nR[i,j] = Q[i,j]/4", lambda a: a),
        ("P[i,j] = A[i,k]*B[j,k]\nQ[i,j] = P[i,j]*2\nR[i,j] = -Q[i,j]", lambda a: -2 * a @ a.T),
    ],
)
def test_results_made_of_results(text: str, wanted: Any) -> None:
    array = np.where(np.arange(30).reshape(5, 6) % 4 == 1, 9.0, 0)
    names = [line[0] for line in text.split("\n")]
    given = {n: array for n in "AB" if f"{n}[" in text}
    found = spfgen.compile(text, **dict.fromkeys([*given, *names], "csr"))(**given)
    np.testing.assert_allclose(found[names[-1]].to_numpy(), wanted(array))


def test_what_follows_from_a_computed_result_is_asked_for_its_place_in_the_kernel() -> None:
    text = "R1[i,j] = A[i,j]\nR2[i,j] = max(2*R1[i,j], R1[i,j])"
    kernel = spfgen.compile(text, A="csr", R1="dcsr", R2="lower")
    below = np.tril(np.arange(25.0).reshape(5, 5))
    np.testing.assert_array_equal(kernel(A=below)["R2"].to_numpy(), 2 * below)
    with pytest.raises(DataError, match="R2"):
        kernel(A=below.T.copy())


@pytest.mark.parametrize(
    ("text", "needed"),
    {
        "D[i,j] = (A[i,j] | B[i,j]) & C[i,j]": lambda a, b, c: (a | b) & c,
        "D[i,j] = (A[i,j] & B[i,j]) ^ C[i,j]": lambda a, b, c: (a & b) | c,
        "D[i,j] = A[i,j]*max(B[i,j], C[i,j])": lambda a, b, c: a & (b | c),
        "D[i,j] = where(A[i,j] > 0, B[i,j], C[i,j])": lambda a, b, c: (a & b) | c,
        "D[i,j] = max(A[i,j]*B[i,j], 0)*abs(C[i,j] - A[i,j])": lambda a, b, c: a & b,
    }.items(),
)
@pytest.mark.parametrize("layouts", [("csr", "csr", "csr"), ("csr", "coo", "ell"), ("csc", "dcsr", "csr")])
@pytest.mark.sampled(6)
def test_a_computed_pattern_has_what_the_algebra_of_the_value_needs(text, needed, layouts) -> None:
    rng = np.random.default_rng(3)
    dense = [np.where(rng.random((9, 11)) < 0.3, rng.integers(1, 4, (9, 11)), 0) for _ in range(3)]
    packed = [spfgen.pack(d, layout) for d, layout in zip(dense, layouts, strict=True)]
    found = spfgen.evaluate(text, out="csr", **dict(zip("ABC", packed, strict=True)))
    body = text.partition("=")[2].replace("[i,j]", "").replace("max", "np.maximum").replace("where", "np.where")
    expected = eval(body, {"np": np, "abs": np.abs, **dict(zip("ABC", dense, strict=True))})
    assert np.array_equal(found.to_numpy(), expected)
    assert len(found.arrays["val"]) == needed(*(d != 0 for d in dense)).sum()


@pytest.mark.parametrize(
    ("body", "needed"),
    [
        ("return (a & b) ^ c", lambda a, b, c: (a & b) | c),
        ("let t = b | c\nreturn a & t", lambda a, b, c: a & (b | c)),
        ("return where(a != 0, b + c, 0)", lambda a, b, c: a & (b | c)),
        ("return (a & b) + (a & c)\nproperty annihilator 0 at 1", lambda a, b, c: a & (b | c)),
        ("if a > 0 { return b }\nreturn c", lambda a, b, c: a | b | c),
    ],
)
@pytest.mark.sampled(3)
def test_a_computed_pattern_has_what_the_body_of_a_function_needs(body: str, needed: Any) -> None:
    rng = np.random.default_rng(4)
    dense = [np.where(rng.random((9, 11)) < 0.3, rng.integers(1, 4, (9, 11)), 0) for _ in range(3)]
    text = f"function f(a, b, c) {{ {body} }}\nD[i,j] = f(A[i,j], B[i,j], C[i,j])"
    operands = {n: spfgen.pack(d, "csr") for n, d in zip("ABC", dense, strict=True)}
    found = spfgen.evaluate(text, out="csr", **operands)
    assert np.array_equal(found.to_numpy(), spfgen.evaluate(text, **operands))
    assert len(found.arrays["val"]) == needed(*(d != 0 for d in dense)).sum()


def test_the_body_of_a_function_is_called_with_what_is_not_stored() -> None:
    """0 times infinity is nan there, so a product of floating-point numbers needs all of its arguments."""
    a, b = np.array([0.0, 2.0, 0.0]), np.array([np.inf, 3.0, 0.0])
    text = "function f(a, b) { return a*b }\nD[i] = f(A[i], B[i])"
    found = spfgen.evaluate(text, out="sv", A=spfgen.pack(a, "sv"), B=spfgen.pack(b, "sv"))
    np.testing.assert_array_equal(found.to_numpy(), [np.nan, 6.0, 0.0])


@pytest.mark.parametrize(
    ("update", "wanted", "needed"),
    [
        ("*= 2", lambda a, b: a * 2, lambda a, b: a),
        ("*= x[i]", lambda a, b: a * np.arange(9.0)[:, None], lambda a, b: a),
        ("*= B[i,j] where i < 4", lambda a, b: np.where(np.arange(9)[:, None] < 4, a * b, a), lambda a, b: a),
        ("**= 2", lambda a, b: a**2, lambda a, b: a),
        ("min= 2", lambda a, b: np.minimum(a, 2), lambda a, b: a),
        ("max= B[i,j]", np.maximum, lambda a, b: a | b),
        ("/= B[i,j] + 1", lambda a, b: a / (b + 1), lambda a, b: a | b),
        ("+= 1 where i = j", lambda a, b: a + np.eye(9), lambda a, b: a | np.eye(9, dtype=bool)),
    ],
)
@pytest.mark.sampled(4)
def test_an_update_makes_no_entries_where_it_keeps_the_fill(update: str, wanted: Any, needed: Any) -> None:
    """What the statements before have stored drives the update: not all places, of which there may be too many."""
    rng = np.random.default_rng(5)
    a, b = (np.where(rng.random((9, 9)) < 0.2, rng.integers(1, 5, (9, 9)), 0).astype(float) for _ in range(2))
    operands = {"A": spfgen.pack(a, "coo"), "B": spfgen.pack(b, "csr"), "x": np.arange(9.0)}
    read = {n: v for n, v in operands.items() if n == "A" or f"{n}[" in update}
    found = spfgen.evaluate(f"C[i,j] = A[i,j]\nC[i,j] {update}", out="csr", **read)
    np.testing.assert_array_equal(found.to_numpy(), wanted(a, b))
    assert found.nse == needed(a != 0, b != 0).sum()


@pytest.mark.parametrize(
    "steps",
    [
        "C[i,j] = A[i,j]; for i { C[i,j] *= x[i] }",
        "for i { C[i,j] = A[i,j]  C[i,j] *= x[i] }",
        "C[i,j] = A[i,j]; for i, j { C[i,j] *= x[i] }",
        "C[i,j] = A[i,j]; for i { if x[i] != 1 { C[i,j] *= x[i] } }",
    ],
)
def test_an_update_in_a_loop_makes_no_entries_where_it_keeps_the_fill(steps: str) -> None:
    rng = np.random.default_rng(6)
    a, x = np.where(rng.random((9, 8)) < 0.2, rng.integers(1, 5, (9, 8)), 0).astype(float), np.arange(1.0, 10)
    found = spfgen.evaluate(steps, out="csr", A=spfgen.pack(a, "csr"), x=x)
    np.testing.assert_array_equal(found.to_numpy(), a * x[:, None])
    assert found.nse == np.count_nonzero(a)

"""Entries of results that are counted and go to their place at once, in any order, on threads, with duplicates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen import tuning
from spfgen.cir.lower import files
from spfgen.ir import walk
from spfgen.kernel import Kernel
from spfgen.layout.validate import violation
from spfgen.plan.nodes import InPlace

RANDOM = np.random.default_rng(5)
BY_COLUMN = """
layout by_column(nrow, ncol) {
    size nnz
    relation { [pj, p] -> [i, j] : 0 <= pj < ncol and ptr(pj) <= p < ptr(pj + 1) and j = pj and i + idx(p) = nrow - 1 }
    index ptr[ncol + 1] { range 0 <= ptr(q) <= nnz  property increasing  property ptr(0) = 0  property ptr(ncol) = nnz }
    index idx[nnz] { range 0 <= idx(p) < nrow  property strictly increasing within ptr }
    value val[nnz] at [p]
}
"""


def matrix(rows: int, columns: int, count: int) -> sp.coo_array:
    """Entries in any order, some coordinates twice."""
    i, j = RANDOM.integers(0, max(rows, 1), count), RANDOM.integers(0, max(columns, 1), count)
    return sp.coo_array((RANDOM.integers(1, 9, count).astype(float), (i, j)), shape=(rows, columns))


def check(tensor: spfgen.Tensor) -> None:
    assert violation(tensor.layout, tensor.sizes, tensor.arrays) is None


def plan_of(kernel: spfgen.api.Kernel) -> InPlace | None:
    found = [n for p in kernel.generated.plans for n in walk(p) if isinstance(n, InPlace)]
    return found[0] if found else None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("source", "target"), [
    ("csr", "csc"), ("csc", "csr"), ("coo", "csr"), ("csr_unsorted", "csr"), ("coo_unsorted", "csc"),
    ("bcsr", "csc"), ("dcsr", "csr"), ("ell", "csc_unsorted"), ("csr", "ell"), ("csr", "coo"), ("dcsr", "coo"),
])  # fmt: skip
def test_copies_between_layouts(source: str, target: str, threads: int) -> None:
    """The last one is enough work for several threads."""
    kernel = spfgen.compile("B[i,j] = A[i,j]", A=source, B=target, threads=threads)
    assert plan_of(kernel) is not None
    for shape, count in [((0, 3), 0), ((3, 0), 0), ((1, 1), 1), ((40, 60), 500), ((600, 400), 40_000)]:
        given = matrix(*shape, count)
        if source != "coo_unsorted":
            given.sum_duplicates()
        made = kernel(A=spfgen.pack(given, source))
        check(made)
        np.testing.assert_array_equal(made.to_numpy(), given.toarray())


def test_what_is_there_twice_is_added_up_in_each_type() -> None:
    i, j = np.array([2, 0, 2, 2, 0, 2]), np.array([1, 3, 0, 1, 3, 1])
    for kind in ("float32", "int8", "bool", "complex128"):
        values = np.array([1, 2, 3, 100, 100, 5]).astype(kind)
        given = spfgen.tensor("coo_unsorted", idx_1=i.astype("i4"), idx_2=j.astype("i4"), val=values, shape=(4, 4))
        made = spfgen.compile("B[i,j] = A[i,j]", A="coo_unsorted", B="csr")(A=given)
        expected = np.zeros((4, 4), kind)
        np.add.at(expected, (i, j), values)
        assert made.arrays["rowptr"].tolist() == [0, 1, 1, 3, 3]
        assert made.arrays["colidx"].tolist() == [3, 0, 1]
        np.testing.assert_array_equal(made.to_numpy(), expected)


def test_long_groups_are_sorted() -> None:
    """Groups of 0, 1, 2, 8, 9, 16, 17, 32, 33, and 700 entries, each sorted in its own manner."""
    lengths = [0, 1, 2, 8, 9, 0, 16, 17, 32, 33, 700, 3, 0]
    columns = np.concatenate([RANDOM.permutation(900)[:n] for n in lengths])
    rows = np.repeat(np.arange(len(lengths)), lengths)
    order = RANDOM.permutation(len(rows))
    given = sp.coo_array((np.arange(1.0, len(rows) + 1), (rows[order], columns[order])), (len(lengths), 900))
    for twice in (False, True):
        if twice:
            given = sp.coo_array((np.tile(given.data, 2), (np.tile(given.row, 2), np.tile(given.col, 2))), given.shape)
        made = spfgen.compile("B[i,j] = A[i,j]", A="coo_unsorted", B="csr")(A=given)
        check(made)
        np.testing.assert_array_equal(made.to_numpy(), given.toarray())


@pytest.mark.parametrize(("source", "target"), [("csr", "csc"), ("coo_unsorted", "csr"), ("csc", "csr")])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.sampled(3)
def test_entries_that_go_far_apart(source: str, target: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets of groups are counted first, each with 50 entries about, whatever fits the cache."""
    for name, number in {"CONVERT_FAR_BYTES": 0, "CONVERT_BUCKET": 50, "CONVERT_MANY_APART": 0}.items():
        monkeypatch.setattr(tuning, name, number)
    files.runtime.cache_clear()
    try:
        kernel = spfgen.compile("B[i,j] = A[i,j]", A=source, B=target, threads=threads)
        assert "spfgen_bucketed" in kernel.source
        for shape, count in [((0, 3), 0), ((1, 1), 1), ((3, 400), 100), ((600, 400), 40_000)]:
            given = matrix(*shape, count)
            if source != "coo_unsorted":
                given.sum_duplicates()
            made = kernel(A=spfgen.pack(given, source))
            check(made)
            np.testing.assert_array_equal(made.to_numpy(), given.toarray())
    finally:
        files.runtime.cache_clear()


def test_keys_below_zero_are_sorted() -> None:
    """Long groups, whose keys are part of words (found by fuzzing)."""
    layout = """layout moved(nrow, ncol) {
        size nnz
        relation { [pi, p] -> [i, j] : 0 <= pi < nrow and ptr(pi) <= p < ptr(pi + 1) and i = pi and j = idx(p) + 2 }
        index ptr[nrow + 1] {
            range 0 <= ptr(q) <= nnz  property increasing  property ptr(0) = 0  property ptr(nrow) = nnz }
        index idx[nnz] { range -2 <= idx(p) < ncol - 2  property strictly increasing within ptr }
        value val[nnz] at [p]
    }
    kernel copied { tensor A : coo_unsorted(rank=2)  tensor B : moved  B[i,j] = A[i,j] }"""
    given = matrix(3, 60, 400)
    made = spfgen.parse(layout).kernels["copied"].compile()(A=given)
    check(made)
    np.testing.assert_array_equal(made.to_numpy(), given.toarray())


def test_order_is_proved_where_it_follows() -> None:
    proved = {
        ("csr", "csc"): (True, False),
        ("csr", "csr_unsorted"): (True, True),
        ("csr_unsorted", "csr"): (False, True),
        ("coo_unsorted", "csr"): (False, False),
    }
    for (source, target), expected in proved.items():
        plan = plan_of(spfgen.compile("B[i,j] = A[i,j]", A=source, B=target))
        assert plan is not None
        assert (plan.ordered, plan.apart) == expected


@pytest.mark.parametrize(("source", "target"), [("bcsr", "csr"), ("dia", "csc"), ("ell", "coo"), ("csr", "dcsr")])
def test_what_equals_the_fill_value_may_be_left_out(source: str, target: str) -> None:
    """As conversions do; also where entries are a list."""
    plain = spfgen.compile("B[i,j] = A[i,j]", A=source, B=target)
    kernel = Kernel(replace(plain.parsed, without_fill=True), plain.layouts)
    given = matrix(9, 11, 30)
    given.sum_duplicates()
    made = kernel(A=spfgen.pack(given, source))
    assert made.nse == given.nnz
    np.testing.assert_array_equal(made.to_numpy(), given.toarray())


def test_nests_one_after_the_other_are_in_order() -> None:
    """Rows of a stack come from one operand each; rows of matrices side by side from one after the other."""
    expected = {
        "C[l,j] = concat((A[i,j], B[k,j]), (i, k) -> l)": (True, True),
        "C[i,l] = concat((A[i,j], B[i,k]), (j, k) -> l)": (True, True),
        "C[l,j] = concat((A[j,i], B[k,j]), (i, k) -> l)": (True, False),
    }
    left, right = matrix(8, 8, 30).tocsr(), matrix(8, 8, 30).tocsr()
    stacked = [np.vstack, np.hstack, lambda both: np.vstack([both[0].T, both[1]])]
    for (text, flags), stack in zip(expected.items(), stacked, strict=True):
        kernel = spfgen.compile(text, A="csr", B="csr", C="csr", threads=2)
        plan = plan_of(kernel)
        assert plan is not None
        assert (plan.ordered, plan.apart) == flags
        made = kernel(A=left, B=right)
        check(made)
        np.testing.assert_array_equal(made.to_numpy(), stack([left.toarray(), right.toarray()]))


def test_layouts_of_the_user() -> None:
    """Columns that are stored from their last row on."""
    spec = spfgen.parse(BY_COLUMN + "kernel k { tensor A : csr tensor B : by_column B[i,j] = A[i,j] }")
    given = matrix(7, 9, 30)
    given.sum_duplicates()
    kernel = spec.kernels["k"].compile()
    made = kernel(A=given.tocsr())
    check(made)
    np.testing.assert_array_equal(made.to_numpy(), given.toarray())


@pytest.mark.parametrize("text", [
    "C[i,j] = A[j,i]", "C[i,j] = 2*A[i,j]", "C[i,j] = A[i,j]*d[i]", "C[i,j] = A[i+2,j+1]", "C[i,j] = A[2*i,j]",
    "C[i,j] = A[i,j] + A[j,i]", "C[i,j] = d[i]*d[j]", "C[l,j] = concat((B[i,j], A[k,j]), (i, k) -> l)",
])  # fmt: skip
@pytest.mark.sampled(4)
def test_statements(text: str) -> None:
    """Transposes, scaled ones, windows, strides, stacks: what runs twice and what does not, with the same results."""
    left, right, d = matrix(9, 9, 30), matrix(7, 9, 30), np.arange(9.0)
    operands = {"A": left.tocsr(), "B": right.tocsr(), "d": d}
    operands = {n: v for n, v in operands.items() if f"{n}[" in text}
    layouts = {n: "dense" if n == "d" else "csr" for n in operands}
    kernel = spfgen.compile(text, C="csr", **layouts)
    own, dense = kernel(**operands), left.toarray()
    expected = {
        "C[i,j] = A[j,i]": dense.T,
        "C[i,j] = 2*A[i,j]": 2 * dense,
        "C[i,j] = A[i,j]*d[i]": dense * d[:, None],
        "C[i,j] = A[i+2,j+1]": dense[2:, 1:],
        "C[i,j] = A[2*i,j]": dense[::2],
        "C[i,j] = A[i,j] + A[j,i]": dense + dense.T,
        "C[i,j] = d[i]*d[j]": np.outer(d, d),
    }.get(text, np.vstack([right.toarray(), dense]))
    check(own)
    np.testing.assert_array_equal(own.to_numpy()[: expected.shape[0], : expected.shape[1]], expected)


def test_it_is_said() -> None:
    text = spfgen.compile("B[i,j] = A[i,j]", A="csr", B="csc").explain()
    for line in ("count the entries of each (pj)", "offsets colptr", "insert rowidx", "insert val", "make offsets"):
        assert line in text


@pytest.mark.sampled(6)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("source", "target", "how"), [
    ("csr", "bcsr(R=2, C=3)", "marks"), ("csr", "dia", "marks"), ("coo", "bcsr2", "keys"), ("csc", "bcsr", "keys"),
    ("coo_unsorted", "dia", "keys"), ("csr", "dcsc", "keys"), ("csr", "csf", "keys"),
])  # fmt: skip
def test_positions_that_are_marked_and_keys(source: str, target: str, how: str, threads: int) -> None:
    """Blocks and diagonals where entries of a group come together, each once; else keys are listed and sorted."""
    kernel = spfgen.compile("B[i,j] = A[i,j]", A=source, B=target, threads=threads)
    plan = plan_of(kernel)
    assert plan is not None
    assert plan.how == how
    for shape, count in [((0, 3), 0), ((3, 0), 0), ((1, 1), 1), ((40, 60), 500), ((70, 64), 0), ((63, 64), 3000)]:
        given = matrix(*shape, count)
        if source != "coo_unsorted":
            given.sum_duplicates()
        made = kernel(A=spfgen.pack(given, source))
        check(made)
        np.testing.assert_array_equal(made.to_numpy(), given.toarray())


def test_positions_whose_slots_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words share slots then, and are noted again and again."""
    runtime = files.runtime
    kernel = spfgen.compile("B[i,j] = A[i,j]", A="csr", B="bcsr(R=4, C=1)", threads=3)
    monkeypatch.setattr(files, "runtime", lambda name: runtime(name).replace("bits > 1 &&", "bits < 0 &&"))
    few = spfgen.compile("B[i,j] = A[i,j]", A="csr", B="bcsr(R=4, C=1)", threads=3)
    given = matrix(50, 80, 2000)
    given.sum_duplicates()
    for one in (kernel, few):
        made = one(A=given.tocsr())
        check(made)
        np.testing.assert_array_equal(made.to_numpy(), given.toarray())

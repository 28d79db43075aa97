"""Sparse results: computed on the pattern that they come with, or that they share with an operand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import spfgen
from spfgen.errors import Unsupported

RNG = np.random.default_rng(5)


def matrix(shape: tuple[int, ...], density: float = 0.4) -> np.ndarray:
    return np.where(RNG.random(shape) < density, RNG.integers(1, 9, shape), 0).astype(float)


def test_sddmm_shares_the_pattern_of_its_mask() -> None:
    spec = spfgen.parse(
        "kernel sddmm { tensor A : csr tensor B, D : dense tensor C : csr shares A  C[i,j] = A[i,j]*B[i,k]*D[k,j] }"
    )
    a, b, d = matrix((5, 6)), matrix((5, 3), 1), matrix((3, 6), 1)
    mask = scipy.sparse.csr_array(a)
    result = spec.kernels["sddmm"].compile()(A=mask, B=b, D=d)
    np.testing.assert_array_equal(result.to_numpy(), a * (b @ d))
    assert np.shares_memory(result.arrays["colidx"], mask.indices)


def test_sums_over_a_pattern_that_another_tensor_shares() -> None:
    """The arrays of the pattern have the names of the tensor that they come with (found by fuzzing)."""
    spec = spfgen.parse("""kernel k { tensor A : csr tensor C : csr shares A tensor x, y : dense
        C[i, j] = 2*A[i, j]
        y[i] = A[i, j]*x[j] }""")
    a, x = matrix((5, 6)), matrix((6,), 1)
    result = spec.kernels["k"].compile()(A=scipy.sparse.csr_array(a), x=x)
    np.testing.assert_array_equal(result["C"].to_numpy(), 2 * a)
    np.testing.assert_array_equal(result["y"], a @ x)


def test_all_that_a_layout_has_is_shared_also_what_only_lengths_of_values_are() -> None:
    """The size of a value array follows from no index array that locates a coordinate."""
    spec = spfgen.parse("""
    layout profile(n, m) {
        size nl
        relation { [a, b] -> [i, j] : 0 <= a < n and ptr(a) <= b < ptr(a + 1) and i = a and j = a + b - ptr(a + 1) }
        index ptr[n + 1] {
            range 0 <= ptr(p) <= nl
            property increasing
            property ptr(0) = 0
            property ptr(n) = nl
            property forall a : ptr(a + 1) - ptr(a) <= a
        }
        value val[nl] at [b]
    }
    kernel k { tensor A : profile  tensor x : dense  tensor C : profile shares A  C[i,j] = A[i,j]*x[j] }""")
    a, x = np.tril(matrix((5, 5)), -1), matrix((5,), 1)
    packed = spfgen.pack(a, spec.layouts["profile"])
    result = spec.kernels["k"].compile()(A=packed, x=x)
    np.testing.assert_array_equal(result.to_numpy(), a * x)
    assert result.arrays["ptr"] is packed.arrays["ptr"]


def test_a_pattern_is_shared_with_a_layout_whose_sizes_have_other_names() -> None:
    spec = spfgen.parse("""
    layout rows(nrow, ncol) {
        size entries
        relation { [a, b] -> [i, j] : 0 <= a < nrow and rowptr(a) <= b < rowptr(a + 1) and i = a and j = colidx(b) }
        index rowptr[nrow + 1] {
            range 0 <= rowptr(p) <= entries
            property increasing
            property rowptr(0) = 0
            property rowptr(nrow) = entries
        }
        index colidx[entries] {
            range 0 <= colidx(p) < ncol
            property strictly increasing within rowptr
        }
        value val[entries] at [b]
    }
    kernel k { tensor A : csr  tensor C : rows shares A  C[i,j] = 2*A[i,j] }""")
    a = matrix((5, 6))
    result = spec.kernels["k"].compile()(A=scipy.sparse.csr_array(a))
    np.testing.assert_array_equal(result.to_numpy(), 2 * a)


def test_ttm_shares_two_levels() -> None:
    """The result has the fibres of A and a last level of its own, given by the caller."""
    spec = spfgen.parse(
        "kernel ttm { tensor A : csf3 tensor B : dense tensor C : csf3 shares A on i, j  C[i,j,l] = A[i,j,k]*B[k,l] }"
    )
    dense = np.where(RNG.random((4, 5, 6)) < 0.3, RNG.integers(1, 9, (4, 5, 6)), 0).astype(float)
    b = matrix((6, 2), 1)
    kernel = spec.kernels["ttm"].compile()
    copy = spfgen.compile("T[i,j,k] += A[i,j,k]", A="dense", T="dense")
    bound = kernel.bind(A=copy(A=dense), B=b, C=_full_last_level(dense, 2))
    bound()
    np.testing.assert_array_equal(bound.tensors["C"].to_numpy(), np.einsum("ijk,kl->ijl", dense, b))


@pytest.mark.parametrize("density", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("shape", [(4, 5, 6), (1, 1, 1), (0, 3, 2)])
@pytest.mark.exhaustive
def test_what_is_not_shared_is_computed(density: float, shape: tuple[int, int, int]) -> None:
    """The result is not given: its last level is made, also for fibres of A in which nothing is computed."""
    spec = spfgen.parse("""
        kernel dense_factor {
            tensor A : csf3 tensor B : dense tensor C : csf3 shares A on i, j  C[i,j,l] = A[i,j,k]*B[k,l] }
        kernel sparse_factor { tensor A, B : csf3 tensor C : csf3 shares A on i, j  C[i,j,l] = A[i,j,k]*B[j,k,l] }
    """)
    rng = np.random.default_rng(5)
    a = spfgen.pack(np.where(rng.random(shape) < density, 1.5, 0), "csf3")
    b = np.where(rng.random((*shape[1:], 3)) < 0.2, 2.5, 0)
    for name, factor in (("dense_factor", matrix((shape[2], 2), 1)), ("sparse_factor", spfgen.pack(b, "csf3"))):
        found = spec.kernels[name].compile()(A=a, B=factor)
        found.validate()
        wanted = {"dense_factor": "ijk,kl->ijl", "sparse_factor": "ijk,jkl->ijl"}[name]
        values = factor if name == "dense_factor" else b
        np.testing.assert_allclose(found.to_numpy(), np.einsum(wanted, a.to_numpy(), values))
        for array in ("idx_1", "ptr_2", "idx_2"):
            np.testing.assert_array_equal(found.arrays[array], a.arrays[array])


def _full_last_level(dense: np.ndarray, width: int) -> spfgen.Tensor:
    """A csf tensor with the (i, j) fibres of `dense`, every one of them full."""
    pattern = np.repeat(dense.any(axis=2)[:, :, None], width, axis=2).astype(float)
    i, j, k = np.nonzero(pattern)
    fibres = np.unique(np.stack([i, j]), axis=1)
    rows = np.unique(fibres[0])
    return spfgen.tensor(
        "csf3",
        shape=pattern.shape,
        idx_1=rows.astype(np.int32),
        ptr_2=np.concatenate([[0], np.cumsum([np.sum(fibres[0] == r) for r in rows])]).astype(np.int32),
        idx_2=fibres[1].astype(np.int32),
        ptr_3=(np.arange(fibres.shape[1] + 1) * width).astype(np.int32),
        idx_3=k.astype(np.int32),
        val=np.full(len(k), np.nan),
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["csr", "csc", "dcsr", "coo", "bcsr(R=2, C=3)", "dia", "ell", "lower", "diagonal"])
def test_a_given_pattern_is_kept(layout: str) -> None:
    """Where the text says so, what falls outside of the pattern is left out; what is not reached becomes zero."""
    name = layout.split("(")[0]
    pattern = matrix((6, 6))
    if name in ("lower", "diagonal"):
        pattern = np.tril(pattern) if name == "lower" else np.diag(np.diag(pattern))
    a, b = matrix((6, 4)), matrix((4, 6))
    kernel = spfgen.compile("C[i,k] = A[i,j]*B[j,k] within C", A="csr", B="csr", C=layout)
    from spfgen.run.calls.bind import bind

    target = bind(kernel.layouts["C"], pattern, "C", {})
    stored = np.zeros((6, 6), dtype=bool)
    stored[target.to_coo().coords] = True
    kernel(A=a, B=b, C=target)
    np.testing.assert_array_equal(target.to_numpy(), np.where(stored, a @ b, 0))


def test_duplicates_cannot_be_written() -> None:
    """Where they are given: a pattern that is computed has none."""
    kernel = spfgen.compile("C[i,j] = A[i,j]", A="csr", C="coo_unsorted")
    given = spfgen.pack(np.eye(3), "coo_unsorted")
    with pytest.raises(Unsupported, match="stored once"):
        kernel(A=np.eye(3), C=given)


def test_one_place_for_two_coordinates_cannot_be_written() -> None:
    spec = spfgen.parse(
        """
        layout runs(n) {
            size m
            relation { [q] -> [i] : 0 <= q < m and start(q) <= i < start(q + 1) }
            index start[m + 1] { range 0 <= start(q) <= n  property increasing }
            value val[m] at [q]
        }
        """
    )
    kernel = spfgen.compile("y[i] = x[i]", x="dense", y=spec.layouts["runs"])
    with pytest.raises(Unsupported, match="stands for one coordinate"):
        kernel.with_given(["y"])


def test_two_nests_may_use_the_same_names() -> None:
    """Both terms compute the position in the band before any loop."""
    spec = spfgen.parse(
        """
        layout banded(nrow, ncol; low = 1, high = 1) {
            relation { [r, d] -> [i, j] : 0 <= r < nrow and 0 <= d <= low + high and i = r and j = r + d - low }
            value val[nrow, low + high + 1] at [r, d]
        }
        kernel sums { tensor A : banded  s = A[i, i + n]*a + A[i, i + n]  size n }
        """
    )
    band = np.arange(12.0).reshape(4, 3)
    tensor = spfgen.tensor(spec.layouts["banded"], shape=(4, 4), val=band)
    kernel = spec.kernels["sums"].compile()
    assert kernel(A=tensor, a=2.0, n=1) == 3 * np.trace(tensor.to_numpy(), 1)


HYBRID = """
layout hybrid(nrow, ncol) {
    size width, nnz
    relation { [w, p, s] -> [i, j] :
        w = 0 and 0 <= p < nrow and 0 <= s < width and i = p and j = ecol(p, s) and 0 <= j
        or w = 1 and 0 <= p < nnz and s = 0 and i = crow(p) and j = ccol(p) }
    index ecol[nrow, width] { range -1 <= ecol(p, s) < ncol }
    index crow[nnz] { range 0 <= crow(p) < nrow }
    index ccol[nnz] { range 0 <= ccol(p) < ncol }
    value ell[nrow, width] at [p, s] when w = 0
    value coo[nnz] at [p] when w = 1
}
"""


def test_a_coordinate_in_two_value_arrays_cannot_be_written() -> None:
    """Read, the two parts add up; written, both would get the whole sum."""
    layout = spfgen.parse(HYBRID).layouts["hybrid"]
    with pytest.raises(Unsupported, match="stored once"):
        spfgen.compile("Y[i,j] = A[i,j]", A="dense", Y=layout).with_given(["Y"])
    read = spfgen.compile("s = Y[i,j]", Y=layout)
    arrays = {"ecol": [[0]], "crow": [0], "ccol": [0], "ell": [[3.0]], "coo": [4.0]}
    tensor = spfgen.tensor(layout, shape=(1, 1), **{n: np.array(a) for n, a in arrays.items()})
    assert read(Y=tensor) == 7


@pytest.mark.parametrize("value", ["x[i]", "exp(x[i])"])
def test_a_layout_that_cannot_be_written_is_not_supported(value: str) -> None:
    """The same words whichever way the kernel is compiled: its text is right, the layout does not go."""
    tensors = "tensor x : dense tensor C : coo_unsorted shares D tensor D : coo_unsorted"
    kernel = spfgen.parse(f"kernel k {{ {tensors} C[i,i] = {value}*D[i,i] }}")
    with pytest.raises(Unsupported, match="cannot be an output"):
        kernel.kernels["k"].compile()


def test_places_of_several_kinds_hold_more_than_sums() -> None:
    """Every second row is stored from its end: a value around a sum is written in both ways."""
    spec = spfgen.parse("""
    layout snake(n, m) {
        relation { [a, b] -> [i, j] : 0 <= a < n and 0 <= b < m and i = a
            and (a mod 2 = 0 and j = b or a mod 2 = 1 and j = m - 1 - b) }
        value val[n, m] at [a, b]
    }
    kernel k { tensor M : csr tensor A, B : dense tensor C : snake  C[i,j] = M[i,j]*sum(k: A[i,k]*B[k,j]) }""")
    m, a, b = matrix((5, 4)), matrix((5, 3), 1), matrix((3, 4), 1)
    result = spec.kernels["k"].compile()(M=scipy.sparse.csr_array(m), A=a, B=b)
    np.testing.assert_array_equal(result.to_numpy(), m * (a @ b))

"""A subscript looks at what it asks for: work is counted, not timed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen import tuning
from spfgen.errors import DataError
from spfgen.layout import points
from spfgen.run.arrays import indexing
from spfgen.run.tensor import Tensor

N = 1200
LARGE = np.s_[
    5,
    (5, 7),
    10:20,
    (slice(None), slice(3, 5)),
    (slice(None, None, -7), slice(2, None, 3)),
]


@pytest.fixture(scope="module")
def matrix():
    rng = np.random.default_rng(0)
    return sp.random_array((N, N), density=5 / N, format="csr", rng=rng)


@pytest.fixture
def looked_at(monkeypatch):
    """The number of points of layouts that numpy went through, and of entries that C did."""
    seen = [0]

    def expanded(first, lengths, plain=points.expanded):
        rows, values = plain(first, lengths)
        seen[0] += len(rows)
        return rows, values

    def coordinates(layout, sizes, arrays, plain=indexing.coordinates, **options):
        seen[0] += sum(arrays[v.name].size for v in layout.values)
        return plain(layout, sizes, arrays, **options)

    monkeypatch.setattr(points, "expanded", expanded)
    monkeypatch.setattr(indexing, "coordinates", coordinates)
    return seen


def dense_of(found):
    return found.to_numpy() if isinstance(found, Tensor) else found


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("csr", np.s_[(5, 7), 5, 10:20, [4, 4, 1199, -1], ([3, 5, 5], [1, 2, 0])]),
        ("csc", np.s_[(5, 7), (slice(None), 5), (slice(None), slice(3, 9)), (slice(None), [4, 4, -1])]),
        ("ell", np.s_[(5, 7), 5, 10:20, [4, 4, 1199]]),
        ("bcsr(R=2, C=3)", np.s_[(5, 7), 5, 11:20, [4, 4, 1199]]),
        ("coo", np.s_[(5, 7), 5, 11:20, -1]),
        ("dcsr", np.s_[(5, 7), 5, 11:20, -1]),
        ("dense", np.s_[(5, 7), (slice(2), slice(10)), ([3, 5, 5], [1, 2, 0])]),
    ],
)
def test_few_places_of_many(name, keys, matrix, looked_at, monkeypatch) -> None:
    monkeypatch.setattr(tuning, "PACK_BY_NUMPY", 1000)
    tensor, dense = spfgen.pack(matrix, name), matrix.toarray()
    for key in keys:
        looked_at[0] = 0
        found = tensor[key]
        assert looked_at[0] < 600, key
        np.testing.assert_array_equal(dense_of(found), dense[key])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["csr", "csc", "coo", "dcsr", "jds"])
def test_work_of_a_permutation_follows_from_the_entries(name, matrix, looked_at, monkeypatch) -> None:
    for name_of in ("PACK_BY_NUMPY", "CONVERT_COMPILED"):  # C does it
        monkeypatch.setattr(tuning, name_of, 1000)
    tensor, p, dense = spfgen.pack(matrix, name), np.random.default_rng(1).permutation(N), matrix.toarray()
    for key in (np.ix_(p, p), p, (slice(None), p), (p, p), (p[:, None], p[:50])):
        looked_at[0] = 0
        found, expected = tensor[key], dense[key]
        assert looked_at[0] < 20 * (matrix.nnz + N), key
        np.testing.assert_array_equal(found.to_numpy(), expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["csr", "coo", "csr_unsorted", "sell(C=4)", "csr fill inf"])
def test_large_ones_as_small_ones(name, matrix, monkeypatch) -> None:
    for name_of in ("PACK_BY_NUMPY", "CONVERT_COMPILED"):
        monkeypatch.setattr(tuning, name_of, 500)
    dense = matrix.toarray()[:400, :300]
    dense[dense == 0] = np.inf if "inf" in name else 0
    tensor = spfgen.pack(dense, name)
    for key in LARGE:
        np.testing.assert_array_equal(dense_of(tensor[key]), dense[key])
    np.testing.assert_array_equal(tensor.T.to_numpy(), dense.T)
    for function in (np.vstack, np.hstack, np.stack):
        np.testing.assert_array_equal(function([tensor, tensor]).to_numpy(), function([dense, dense]))


def test_extents_without_memory() -> None:
    text = """
    layout iso(n, m) {
        relation { [i0, j0] -> [i, j] : 0 <= i0 < n and 0 <= j0 < m and i = i0 and j = j0 }
        value val[1] at [0]
    }
    """
    layout = spfgen.parse(text).layouts["iso"]
    tensor = spfgen.tensor(layout, shape=(2**40, 2**20), val=np.array([7.0]))
    assert tensor[2**40 - 1, 5] == 7
    np.testing.assert_array_equal(tensor[2**40 - 3 :, [5, 5]].to_numpy(), np.full((3, 2), 7.0))


@pytest.mark.parametrize(
    ("text", "operands", "said"),
    [
        ("y[i] = x[p[i]]", {"p": [0, 4, 2, 17]}, r"`p\[3\]` is 17, and `x` has the places 0 to 4"),
        ("y[i] = x[p[i] + 1]", {"p": [0, 4]}, r"`p\[i\] \+ 1` at i = 1 is 5"),
        ("y[i] = x[p[q[i]]]", {"p": [0, -3], "q": [0, 1]}, r"`p\[q\[i\]\]` at i = 1 is -3"),
        ("y[i] = sum(j: x[q[i, j]])", {"q": [[1, 2], [3, 9]]}, r"`q\[1, 1\]` is 9"),
        ("for i { let k = p[i]; y[i] = x[k] }", {"p": [0, 5]}, r"`p\[1\]` is 5"),
    ],
)
def test_what_lies_outside_is_named(text: str, operands: dict[str, Any], said: str) -> None:
    """The array, the index and the value."""
    given = {name: np.array(values) for name, values in operands.items()}
    with pytest.raises(DataError, match=f"to lie within their tensors, but {said}"):
        spfgen.evaluate(text, x=np.arange(5.0), **given)


@pytest.mark.parametrize("key", [(slice(None), 1, ..., [0, 2]), ([0, 1], ..., 1, [0, 2]), (0, 1, ..., [2]), (1, ...)])
def test_an_ellipsis_of_no_dimension_sets_arrays_apart(key) -> None:
    dense = np.arange(24).reshape(2, 3, 4)
    tensor = spfgen.pack(dense, "csf")
    assert np.array_equal(np.asarray(tensor[key]), dense[key])


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "dcsr", "csr_unsorted", "csr fill 3"])
@pytest.mark.parametrize("compiled", [False, True])
def test_places_across_what_is_stored(layout, compiled, monkeypatch) -> None:
    """Columns of rows and rows of columns in any order, several times, are taken from each row or column."""
    monkeypatch.setenv("SPFGEN_COMPILE", "eager" if compiled else "never")
    rng = np.random.default_rng(5)
    dense = rng.integers(0, 4, (7, 6)) * (rng.random((7, 6)) < 0.6) * 0.5
    tensor = spfgen.pack(dense, layout)
    dense = tensor.to_numpy()
    for columns in ([3, 1, 2], [0, 5], [5, 5, 0, 5], [-1, 2, -6], [], rng.permutation(6), [4]):
        for rows in (slice(None), slice(None, None, -2), slice(5, 1), slice(1, 4), 3):
            found = tensor[rows, columns]
            assert not found.size or found.validate() == ()
            np.testing.assert_array_equal(dense_of(found), dense[rows, np.asarray(columns, np.int64)])
        found = tensor[np.abs(columns).astype(int), :]
        np.testing.assert_array_equal(dense_of(found), dense[np.abs(columns).astype(int)])


@pytest.mark.parametrize("layout", ["coo", "dcsr", "csc"])
def test_a_matrix_of_very_many_rows(layout) -> None:
    shape, values = (2**40, 2**20), np.array([1.0, 2.0, 3.0])
    coords = np.array([5, 2**39, 2**40 - 1]), np.array([1, 2, 2**20 - 1])
    tensor = spfgen.pack((coords, values), layout, shape=shape)
    assert [tensor[i, j] for i, j in ((5, 1), (2**40 - 1, -1), (7, 3), (2**39, 2))] == [1.0, 3.0, 0.0, 2.0]
    assert tensor[[5, 2**39], [1, 2]].to_numpy().tolist() == [1.0, 2.0]
    assert (tensor[2**39].nse, tensor[2**39 :].shape, tensor[:, [2, 1]].nse) == (1, (2**39, 2**20), 2)
    assert tensor[np.ix_([5, 7], [1, 2])].to_numpy().tolist() == [[1.0, 0.0], [0.0, 0.0]]
    with pytest.raises(IndexError, match="in dimension 0, but it is 1099511627776"):
        tensor[2**40, 0]


@pytest.mark.parametrize("layout", ["dense", "csr", "coo"])
def test_an_element_keeps_the_sign_of_a_zero(layout) -> None:
    tensor = spfgen.pack(([[0, 0], [0, 1]], [-0.0, 1.0]), layout, shape=(1, 2))
    assert np.signbit(tensor[0, 0])
    assert np.signbit(tensor[0][0])

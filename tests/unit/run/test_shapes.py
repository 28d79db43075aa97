"""Functions that change shapes give what numpy gives, in any layout."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen import tuning
from spfgen.errors import DataError, SpfgenError, UsageError
from spfgen.run.arrays.eager import dense_of
from spfgen.run.calls.layout_signature import refilled
from spfgen.run.tensor import Tensor
from tests.unit.layout.test_pack import label
from tests.unit.run.test_arrays import LAYOUTS, agrees, drawn

SQUARE = ["csr", "csc", "coo", "bcsr", "dia", "ell", "dcsr", "vbl", "jds"]

ANY = [
    (lambda m, a: m.reshape(a, -1)),
    (lambda m, a: m.reshape(a, (1, -1))),
    (lambda m, a: m.reshape(a, a.shape[::-1], "F")),
    (lambda m, a: m.reshape(a, a.shape[::-1])),
    (lambda m, a: m.flip(a)),
    (lambda m, a: m.flip(a, -1)),
    (lambda m, a: m.roll(a, 2)),
    (lambda m, a: m.roll(a, -1, 0)),
    (lambda m, a: m.roll(a, (1, -2), (0, -1))),
    (lambda m, a: m.pad(a, 1)),
    (lambda m, a: m.pad(a, (0, 2), constant_values=3)),
    (lambda m, a: m.pad(a, 2, constant_values=((1, 2),))),
    (lambda m, a: m.pad(a, (2, 1), "edge")),
    (lambda m, a: m.pad(a, (1, 3), "wrap")),
    (lambda m, a: m.expand_dims(a, 0)),
    (lambda m, a: m.expand_dims(a, (0, -1))),
    (lambda m, a: m.squeeze(m.expand_dims(a, 1), 1)),
    (lambda m, a: m.broadcast_to(a, (2, *a.shape))),
    (lambda m, a: m.tile(a, 2)),
    (lambda m, a: m.tile(a, (2, 1, 2))),
    (lambda m, a: m.repeat(a, 2)),
    (lambda m, a: m.repeat(a, 3, 0)),
    (lambda m, a: m.repeat(a, np.arange(a.shape[-1]), -1)),
    (lambda m, a: m.concatenate([a, a])),
    (lambda m, a: m.concatenate([a, a, a], -1)),
    (lambda m, a: m.concatenate([a, a], None)),
    (lambda m, a: m.stack([a, a])),
    (lambda m, a: m.stack([a, a], -1)),
    (lambda m, a: m.vstack([a, a])),
    (lambda m, a: m.hstack([a, a])),
    (lambda m, a: m.block([[a, a], [a, a]])),
    (lambda m, a: m.transpose(a)),
    (lambda m, a: m.kron(a, a)),
]
MATRICES = [
    (lambda m, a: m.tril(a)),
    (lambda m, a: m.tril(a, -1)),
    (lambda m, a: m.triu(a, 1)),
    (lambda m, a: m.diag(a)),
    (lambda m, a: m.diag(a, 2)),
    (lambda m, a: m.diag(a, -1)),
    (lambda m, a: m.diag(m.diag(a, 1), -2)),
    (lambda m, a: m.kron(a, m.diag(a))),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_functions(layout) -> None:
    turn = sum(map(ord, layout.name)) % 3
    for fill in {0: (layout.fill,), 1: (np.inf,), 2: (2.0,)}[turn] if layout.name not in SQUARE else (layout.fill, 2.0):
        tensor, dense = drawn(refilled(layout, fill), 7, {1: (6,), 2: (4, 5), 3: (2, 3, 2)}[layout.rank])
        for function in (*ANY, *(MATRICES if layout.rank == 2 else ())):
            with np.errstate(all="ignore"):
                agrees(function(spfgen, tensor), function(np, dense))
        agrees(spfgen.slice(tensor, np.s_[::-2]), dense[::-2])


def test_functions_of_numpy_are_these() -> None:
    dense = np.diag(np.arange(1.0, 5))
    tensor = spfgen.pack(dense, "csr")
    for function in (*ANY, *MATRICES):
        got = function(np, tensor)
        assert isinstance(got, Tensor)
        agrees(got, function(np, dense))


@pytest.mark.parametrize("name", SQUARE)
def test_the_layout_that_is_asked_for(name) -> None:
    first, second = np.diag(np.arange(1.0, 7)), np.triu(np.ones((6, 6)))
    one, two = spfgen.pack(first, "csr"), spfgen.pack(second, "coo")
    for got, expected in [
        (spfgen.concatenate([one, two], axis=1, layout=name), np.concatenate([first, second], 1)),
        (spfgen.reshape(one, (4, 9), layout=name), first.reshape(4, 9)),
        (spfgen.slice(one, np.s_[1:5:2, ::-1], layout=name), first[1:5:2, ::-1]),
        (spfgen.kron(two, first, layout=name), np.kron(second, first)),
        (spfgen.block([[one, None or two], [two, one]], layout=name), np.block([[first, second], [second, first]])),
    ]:
        assert got.layout.name == name
        agrees(got, expected)
    inf = spfgen.slice(one, ..., layout=f"{name} fill inf")
    assert inf.fill_value == np.inf
    agrees(inf, first)
    agrees(spfgen.tril(one, layout=f"{name}<float>"), np.tril(first).astype(np.float32))


def test_the_layout_of_the_operand() -> None:
    one = spfgen.pack(np.eye(6), "bcsr", R=2, C=3)
    for got, name in [
        (spfgen.flip(one), "bcsr"), (spfgen.reshape(one, (3, 12)), "bcsr"), (spfgen.reshape(one, -1), "coo"),
        (spfgen.stack([one, one]), "coo"), (spfgen.reshape(spfgen.pack(np.eye(4), "csf"), (2, 2, 4)), "csf"),
        (spfgen.diag(spfgen.pack(np.ones(3), "sv")), "coo"), (spfgen.concatenate([np.eye(2), one[:2, :2]]), "dense"),
    ]:  # fmt: skip
        assert got.layout.name == name
    with pytest.raises(DataError):
        spfgen.triu(np.ones((3, 3)), layout="lower")
    assert spfgen.squeeze(spfgen.pack(np.full((1, 1), 4.0), "csr")) == 4


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_nothing(shape) -> None:
    tensor, dense = spfgen.pack(np.zeros(shape), "csr"), np.zeros(shape)
    fine = [f for f in ANY if f not in ANY[2:4] + ANY[12:14] + ANY[1:2] + ANY[22:23]]
    for function in (*fine, *MATRICES[:4]):
        agrees(function(spfgen, tensor), function(np, dense))
    with pytest.raises(DataError, match="extent is 0"):
        spfgen.pad(tensor, 1, "edge")


def test_what_is_wrong() -> None:
    tensor = spfgen.pack(np.eye(4), "csr")
    for wrong, kind, words in [
        (lambda: spfgen.reshape(tensor, (3, 5)), DataError, "16 elements"),
        (lambda: spfgen.reshape(tensor, (3, -1)), DataError, "16 elements"),
        (lambda: spfgen.reshape(tensor, 2.5), UsageError, "integers"),
        (lambda: spfgen.concatenate([tensor, tensor[:, :2]]), DataError, "agree but in dimension 0"),
        (lambda: spfgen.concatenate([]), UsageError, "none"),
        (lambda: spfgen.stack([tensor, tensor[1:]]), DataError, "one shape"),
        (lambda: spfgen.squeeze(tensor, 0), DataError, "extent 1"),
        (lambda: spfgen.broadcast_to(tensor, (4, 3)), DataError, "broadcast"),
        (lambda: spfgen.pad(tensor, 1, "mean"), UsageError, "wrap"),
        (lambda: spfgen.pad(tensor, -1), UsageError, "pad_width"),
        (lambda: spfgen.diag(spfgen.stack([tensor, tensor])), DataError, "vector or a matrix"),
        (lambda: spfgen.roll(tensor, (1, 2), (0, 1, 0)), UsageError, "a shift for each axis"),
        (lambda: spfgen.block([[tensor], tensor]), UsageError, "one depth"),
        (lambda: spfgen.flip(tensor, layout="csx"), SpfgenError, "csx"),
    ]:
        with pytest.raises(kind, match=words):
            wrong()
    with pytest.raises(np.exceptions.AxisError):
        spfgen.flip(tensor, 2)


@pytest.mark.parametrize("many", [1, 10**6], ids=["left in their order", "sorted"])
@pytest.mark.parametrize("name", ["csr", "csc", "coo", "coo_unsorted", "bcsr", "dia", "csr fill 7"])
def test_parts_of_several_extents(name: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the entries of large parts stay as they come, or are sorted first."""
    monkeypatch.setattr(tuning, "PACK_BY_NUMPY", many)
    random = np.random.default_rng(4)
    for axis in (0, 1, -1):
        shapes = [(4, 4), (4, 4)] + [(n, 4) if axis == 0 else (4, n) for n in (6, 0, 2)]
        dense = [np.where(random.random(s) < 0.4, random.integers(1, 9, s), 7.0 * ("fill" in name)) for s in shapes]
        parts = [spfgen.pack(d, name) for d in dense]
        before = [{n: a.copy() for n, a in p.arrays.items()} for p in parts]
        made = spfgen.concatenate(parts, axis)
        np.testing.assert_array_equal(made.to_numpy(), np.concatenate(dense, axis))
        np.testing.assert_array_equal(spfgen.concatenate(parts[:1], axis).to_numpy(), dense[0])
        np.testing.assert_array_equal(spfgen.stack(parts[:2], axis).to_numpy(), np.stack(dense[:2], axis))
        for part, arrays in zip(parts, before, strict=True):
            for array, own in arrays.items():
                np.testing.assert_array_equal(part.arrays[array], own)


def test_large_extents() -> None:
    n = 2**40
    tensor = spfgen.pack(([[5, n - 1], [n - 2, 0]], [1.0, 2.0]), "coo", shape=(n, n))
    assert spfgen.flip(tensor)[n - 6, 1] == 1
    assert spfgen.roll(tensor, 3, 1)[5, 1] == 1
    assert spfgen.concatenate([tensor, tensor], axis=1)[5, 2 * n - 2] == 1
    assert spfgen.kron(np.eye(2), tensor).nnz == 4
    assert dense_of(spfgen.slice(tensor, np.s_[5, n - 3 :])).tolist() == [0, 1, 0]
    with pytest.raises(DataError, match="2\\^63"):
        spfgen.reshape(tensor, -1)


@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (2, 0), (-1, -2)])
@pytest.mark.parametrize("offset", [0, 1, -1, 5])
def test_diagonals_along_axes(axes: tuple[int, int], offset: int) -> None:
    dense = np.arange(24).reshape(2, 3, 4) % 5
    tensor = spfgen.pack(dense, "csf")
    assert np.array_equal(np.asarray(np.diagonal(tensor, offset, *axes)), np.diagonal(dense, offset, *axes))
    assert np.array_equal(np.trace(tensor, offset, *axes), np.trace(dense, offset, *axes))
    assert np.array_equal(np.linalg.trace(tensor, offset=offset), np.linalg.trace(dense, offset=offset))


def test_where_something_is() -> None:
    dense = np.eye(3)
    tensor = spfgen.pack(dense, "csr")
    assert np.array_equal(np.argwhere(tensor), np.argwhere(dense))
    assert np.array_equal(tensor.ravel("F").to_numpy(), dense.ravel("F"))


@pytest.mark.parametrize("rank", [21])
def test_a_shape_of_very_many_dimensions(rank) -> None:
    """A dense layout of so many is not tried out: small data have 4^rank elements."""
    for source in (spfgen.array.asarray(np.array([5, 7])), spfgen.pack(np.array([5, 7]), "sv")):
        found = spfgen.array.reshape(source, (1,) * (rank - 1) + (2,))
        assert found.shape == (1,) * (rank - 1) + (2,)
        assert found.to_numpy().ravel().tolist() == [5, 7]
    with pytest.raises(spfgen.SpfgenError, match=r"more than 1048576 elements(.|\n)*use coo"):
        spfgen.pack(np.ones((1,) * rank), "dense")

"""Matrices in segments, of rows or of columns: parts, transposes, several side by side, sums and functions of two that
need no scan mean what they mean in numpy, and are right in their layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.run import conversion
from spfgen.run.arrays import eager, elementwise, indexing, lazy, merges, ordered
from spfgen.run.calls import call_cache

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")
LAYOUTS = ("csr", "csc", "csr_unsorted", "coo", "csr fill 2")


def drawn(random: np.random.Generator, shape: tuple[int, int], dtype: str, fill: int = 0) -> tuple[np.ndarray, Any]:
    """(a dense array, where it is stored)."""
    numbers = [0, 1, -2, 3, np.inf, np.nan, -0.0] if dtype.startswith("f") else [0, 1, 2, 3]
    stored = random.random(shape) < 0.5
    return np.where(stored, random.choice(numbers, shape).astype(dtype), np.array(fill).astype(dtype)), stored


def packed(dense: np.ndarray, stored: np.ndarray, layout: str, fill: int = 0) -> spfgen.Tensor:
    at = np.nonzero(stored)
    return spfgen.pack((at, dense[at]), layout.partition(" ")[0], shape=dense.shape, fill=fill)


def part(random: np.random.Generator, extent: int) -> Any:
    match int(random.integers(8)):
        case 0:
            return int(random.integers(-extent, extent))
        case 1:
            return slice(None)
        case 2:
            return random.integers(-extent, extent, int(random.integers(0, 7)))
        case 3:
            return random.random(extent) < 0.5
    low, high = (None if random.random() < 0.3 else int(random.integers(-extent - 2, extent + 3)) for _ in range(2))
    return slice(low, high, int(random.choice([-3, -1, 1, 1, 1, 2])))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.sampled(3)
def test_parts(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick: list[object] = []
    of_segments = indexing.Subscript.of_segments
    monkeypatch.setattr(indexing.Subscript, "of_segments", lambda s: quick.append(r := of_segments(s)) or r)
    random = np.random.default_rng(1)
    for _ in range(150):
        shape = tuple(map(int, random.integers(1, 8, 2)))
        fill = 2 if "fill" in layout else 0
        dense, stored = drawn(random, shape, str(random.choice(["f8", "f4", "i4", "u1"])), fill)
        tensor = packed(dense, stored, layout, fill)
        key: Any = (part(random, shape[0]), part(random, shape[1]))
        if all(isinstance(k, np.ndarray) and k.ndim for k in key):
            key = np.ix_(*key) if random.random() < 0.7 else np.ix_(*key[::-1])[::-1]
        key = key[0] if random.random() < 0.3 else key
        try:
            wanted = dense[key]
        except IndexError:
            with pytest.raises(IndexError):
                tensor[key]
            continue
        found = tensor[key]
        assert np.shape(found) == wanted.shape
        assert np.asarray(found).dtype == wanted.dtype
        np.testing.assert_array_equal(np.asarray(found), wanted)
        if isinstance(found, spfgen.Tensor):
            found.validate()
            assert found.fill == fill
    assert any(r is not None for r in quick)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_and_columns_in_another_order(layout: str) -> None:
    random, fill = np.random.default_rng(5), 2 if "fill" in layout else 0
    dense, stored = drawn(random, (7, 5), "f8", fill)
    key = np.ix_(random.integers(-7, 7, 9), random.permutation(5))
    asked = indexing.asked(packed(dense, stored, layout, fill), key)
    found = asked.of_segments()
    np.testing.assert_array_equal(np.asarray(found), dense[key])
    found.validate()


def test_what_is_known_of_a_layout_holds_for_other_fill_values(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(6)
    pairs = [drawn(random, (6, 5), "f8") for _ in range(2)]
    one, other = (packed(*p, "csr") for p in pairs)
    for t in (0.1875, 0.28125, np.nan, -np.inf):
        found = (one - t) * (other - t)
        np.testing.assert_array_equal(np.asarray(found), (pairs[0][0] - t) * (pairs[1][0] - t))
        monkeypatch.setattr(ordered, "key_plan", lambda *_: pytest.fail("planned again"))
        monkeypatch.setattr(conversion, "key_plan", lambda *_: pytest.fail("planned again"))
    assert found.layout.unfilled == one.layout


def test_entries_that_stand_twice_are_added() -> None:
    arrays = {"rowptr": np.array([0, 3, 4]), "colidx": np.array([1, 0, 1, 1]), "val": np.array([1.0, 2.0, 3.0, 4.0])}
    tensor = spfgen.tensor("csr_unsorted", shape=(2, 2), **arrays)
    assert tensor[0, 1] == 4
    assert np.array_equal(np.asarray(tensor[0]), [2, 4])
    assert np.array_equal(np.asarray(tensor[np.ix_([0, 1], [1, 0, 1])]), [[4, 2, 4], [4, 0, 4]])
    assert np.array_equal(np.asarray(tensor[[1, 0, 0]]), [[0, 4], [2, 4], [2, 4]])
    assert np.array_equal(tensor.max(axis=0), [2, 4])
    assert np.array_equal(np.asarray(tensor + tensor), [[4, 8], [0, 8]])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_transpose_is_over_the_same_arrays(layout: str) -> None:
    fill = 2 if "fill" in layout else 0
    dense, stored = drawn(np.random.default_rng(2), (4, 6), "f8", fill)
    tensor = packed(dense, stored, layout, fill)
    found = tensor.T
    np.testing.assert_array_equal(np.asarray(found), dense.T)
    found.validate()
    assert found.T.layout == tensor.layout
    assert found.fill == fill
    name = {"csr": "csc", "csc": "csr", "csr_unsorted": "csc_unsorted", "csr fill 2": "csc"}.get(layout, "coo")
    assert found.layout.name == name
    assert np.shares_memory(found.arrays["val"], tensor.arrays["val"]) == (layout != "coo")
    if layout != "coo":
        assert not any(found.arrays[a.name].flags.writeable for a in found.layout.indexes)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_several(layout: str, axis: int) -> None:
    random, fill = np.random.default_rng(3), 2 if "fill" in layout else 0
    parts = [drawn(random, (5, 4), "f8", fill) for _ in range(3)]
    found = spfgen.concatenate([packed(*p, layout, fill) for p in parts], axis=axis)
    np.testing.assert_array_equal(np.asarray(found), np.concatenate([d for d, _ in parts], axis=axis))
    found.validate()
    assert (found.layout.name, found.fill) == (layout.partition(" ")[0], fill)
    other = spfgen.concatenate([packed(*parts[0], layout, fill), packed(*parts[1], "csc", fill)], axis=axis)
    np.testing.assert_array_equal(np.asarray(other), np.concatenate([parts[0][0], parts[1][0]], axis=axis))


def test_columns_that_their_type_does_not_hold_are_no_segments() -> None:
    wide = spfgen.pack((([0], [2**31 - 2]), [1.0]), "csr", shape=(1, 2**31 - 1))
    found = spfgen.concatenate([wide, wide], axis=1)
    assert found.shape == (1, 2**32 - 2)
    assert (found[0, 2**31 - 2], found[0, 2**32 - 3], found[0, 5]) == (1, 1, 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_reductions(layout: str) -> None:
    random, fill = np.random.default_rng(4), 2 if "fill" in layout else 0
    for kind in ("f8", "f4", "i8", "u8", "u1", "?", "c16"):
        dense, stored = drawn(random, (6, 5), kind, 1 if kind == "?" and fill else fill)
        tensor = packed(dense, stored, layout, 1 if kind == "?" and fill else fill)
        for name in ("sum", "prod", "max", "min", "any", "all", "mean"):
            for axis in (None, 0, 1, (0, 1)):
                found, wanted = getattr(tensor, name)(axis=axis), getattr(dense, name)(axis=axis)
                assert np.asarray(found).dtype == np.asarray(wanted).dtype
                np.testing.assert_allclose(found, wanted, 1e-6)
    exact = np.array([[2**63, 1], [2**63 - 1, 2]], np.uint64)
    assert np.array_equal(spfgen.pack(exact, "csr").sum(axis=0), exact.sum(axis=0))


FUNCTIONS = (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.power, np.less, np.equal, np.hypot, np.arctan2)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.sampled(8)
def test_functions_of_two(function: np.ufunc, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by entries, to the bit, in the same layout, with as much stored."""
    random = np.random.default_rng(5)
    merged = eager._merged
    monkeypatch.setattr(call_cache, "_CALLS", {})  # kernels may give another of 0 and -0.0 as the greater one
    for _ in range(12):
        shape = tuple(map(int, random.integers(1, 7, 2)))
        kind, fills = str(random.choice(["f8", "f4", "i8"])), random.choice([0, 0, 1], 2)
        one, two = (packed(*drawn(random, shape, kind, int(f)), layout, int(f)) for f in fills)
        quick = merged(function, (one, two), eager.in_single(function, {}), False)
        monkeypatch.setattr(eager, "_merged", lambda *_: None)
        slow = function(one, two)
        monkeypatch.setattr(eager, "_merged", merged)
        assert quick is not None
        assert (quick.nse, quick.layout, quick.dtype) == (slow.nse, slow.layout, slow.dtype)
        np.testing.assert_array_equal(np.asarray(quick), np.asarray(slow))
        assert np.array_equal(np.signbit(np.asarray(quick)), np.signbit(np.asarray(slow)))
        quick.validate()


def test_memory_that_is_used_again_is_nobody_elses() -> None:
    random = np.random.default_rng(6)
    dense = [np.where(random.random((200, 200)) < 0.4, random.random((200, 200)), 0) for _ in range(3)]
    a, b, c = (spfgen.pack(d, "csr") for d in dense)
    first = np.fmin(a, b) + 0  # of values that lie where the next call puts its own
    again = np.positive(a + b)
    c + c
    assert np.array_equal(np.asarray(first), np.fmin(dense[0], dense[1]))
    assert np.array_equal(np.asarray(again), dense[0] + dense[1])


@pytest.mark.parametrize("layouts", [("coo", "coo"), ("coo", "csr"), ("csc", "coo_unsorted")], ids="-".join)
def test_two_in_order_are_merged(layouts: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[object] = []
    sides = ordered.sides
    for module in (ordered, elementwise):
        monkeypatch.setattr(module, "sides", lambda *given: merged.append(r := sides(*given)) or r)
    random = np.random.default_rng(5)
    for function in (np.add, np.subtract, np.multiply, np.maximum, np.greater, np.logical_xor, np.arctan2):
        for kinds in (("f8", "f8"), ("f4", "c16"), ("i4", "u1"), ("i8", "f8")):
            shape = tuple(map(int, random.integers(1, 9, 2)))
            dense, tensors = [], []
            for layout, kind in zip(layouts, kinds, strict=True):
                array, stored = drawn(random, shape, kind)
                dense.append(array)
                tensors.append(packed(array, stored, layout))
            try:
                wanted = function(*dense)
            except TypeError:
                continue
            found = function(*tensors)
            if function is np.multiply:  # 0 where nothing is stored, times infinity, is 0
                wanted = np.where((dense[0] == 0) | (dense[1] == 0), 0, wanted)
                found = np.where(np.isnan(np.asarray(found)) & (wanted == 0), 0, np.asarray(found))
            assert np.asarray(found).dtype == wanted.dtype
            np.testing.assert_array_equal(np.asarray(found), wanted)
            if isinstance(found, spfgen.Tensor):
                found.validate()
    assert any(r is not None for r in merged)


def test_three_dimensions_are_merged() -> None:
    random = np.random.default_rng(6)
    dense = [random.integers(0, 3, (4, 5, 6)) * (random.random((4, 5, 6)) < 0.5) for _ in "ab"]
    one, two = (spfgen.pack(d, "coo3") for d in dense)
    assert ordered.form_of(one.layout) is not None
    found = one - two
    assert found.layout.name == one.layout.name
    found.validate()
    assert np.array_equal(found.to_numpy(), dense[0] - dense[1])


@pytest.mark.parametrize("layout", ["coo3", "coo"])
def test_transposes_of_lists_are_counted(layout: str) -> None:
    random = np.random.default_rng(7)
    for _ in range(20):
        shape = tuple(map(int, random.integers(0, 6, 3 if layout == "coo3" else 2)))
        dense = random.integers(0, 3, shape) * (random.random(shape) < 0.5)
        tensor, order = spfgen.pack(dense, layout), tuple(map(int, random.permutation(len(shape))))
        found = tensor.transpose(order)
        assert found.layout.name == tensor.layout.name
        found.validate()
        assert np.array_equal(found.to_numpy(), dense.transpose(order))
        assert ordered.transposed(tensor, order) is not None


@pytest.mark.exhaustive
def test_products_of_lists_go_by_rows() -> None:
    random = np.random.default_rng(8)
    dense = [np.where(random.random(s) < 0.02, random.random(s), 0) for s in ((2000, 1500), (1500, 2000))]
    lists, rows = ([spfgen.pack(d, layout) for d in dense] for layout in ("coo", "csr"))
    found = lists[0] @ lists[1]
    assert found.layout.name == "coo"
    found.validate()
    assert np.allclose(found.to_numpy(), dense[0] @ dense[1])
    assert (lists[0] @ rows[1]).layout.name == "coo"
    assert np.allclose((rows[0] @ lists[1]).to_numpy(), dense[0] @ dense[1])


def test_what_is_stored_but_equals_the_fill_is_left_out_of_products() -> None:
    one, two = spfgen.pack(np.array([[1.0, 1.0], [0, 2]]), "csr"), spfgen.pack(np.array([[1.0], [-1]]), "csr")
    assert (one @ two).nse == 1


def test_two_layouts_are_merged_in_that_of_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "ENOUGH", 0)
    random = np.random.default_rng(9)
    dense = [random.integers(0, 3, (7, 5)) * (random.random((7, 5)) < 0.5) for _ in "ab"]
    for first, second in (("csr", "csc"), ("csc", "coo"), ("coo", "csr"), ("csr", "bcsr")):
        one, two = (
            spfgen.pack(dense[0], first),
            spfgen.pack(dense[1], second, **({"R": 2, "C": 2} if "b" in second else {})),
        )
        found = one - two
        assert found.layout.name == first
        found.validate()
        assert np.array_equal(found.to_numpy(), dense[0] - dense[1])


MERGED = {
    "2a-b": (lambda a, b: 2 * a - b, True),
    "(a+b).T": (lambda a, b: (a + b).T, True),
    "a.T+b.T": (lambda a, b: a.T + b.T, True),
    "a+b-a*b": (lambda a, b: a + b - a * b, True),
    "a*b": (lambda a, b: a * b + 0, False),
    "sin(a)*b": (lambda a, b: np.sin(a) * b, False),
    "total": (lambda a, b: (a + b).sum(), False),
    "many": (lambda a, b: a + b - a * b + abs(a - b) + np.maximum(a, b), False),
}


@pytest.mark.parametrize("name", MERGED)
def test_lazy_sums_in_one_layout_go_by_merges(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spfgen.run.arrays.tree_kernel.ENOUGH", 0)
    random = np.random.default_rng(10)
    dense = [np.where(random.random((6, 6)) < 0.5, random.random((6, 6)), 0) for _ in "ab"]
    do, by_merges = MERGED[name]
    one, two = (spfgen.asarray(spfgen.pack(d, "csr")) for d in dense)
    found = do(one, two)
    assert np.allclose(np.asarray(found.compute()), do(*dense))
    node = found.node
    assert merges.goes_by_merges(node, lazy.patterns(lazy.in_order(node))) == by_merges
    assert ("merging" in found.explain()) == by_merges


def test_lazy_comparisons_with_integers_that_the_type_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spfgen.run.arrays.tree_kernel.ENOUGH", 0)
    tensor = spfgen.pack(np.array([[1, 2], [0, 4]], np.uint32), "csf", fill=2**32 - 1)
    assert not np.asarray((spfgen.asarray(tensor) == -1).compute()).any()

"""Packing, unpacking and converting in C gives what numpy gives; every layout converts to every other."""

from __future__ import annotations

import shutil
import subprocess
from itertools import product

import numpy as np
import pytest

import spfgen
from spfgen import tuning
from spfgen.cir import pack as code
from spfgen.cir.pack import ArrayTypes
from spfgen.errors import DataError
from spfgen.layout.keys import NoKey, key_plan
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import Packed, key_orders, pack
from spfgen.layout.points import to_coordinates
from spfgen.layout.validate import violation
from spfgen.run import by_kernel, conversion, later
from spfgen.run import compile as compiling
from spfgen.run import pack as packing
from spfgen.run.calls import functions
from spfgen.run.calls.layout_signature import form_of
from spfgen.run.pack import convert_arrays, coordinates, pack_entries
from tests.unit.layout.test_pack import LAYOUTS, get, label, storable

RANDOM = np.random.default_rng(11)
SPECIAL = {"dense", "dense_col", "coo", "coo_unsorted", "csf"}
IN_C = [get(n, **({"rank": r} if n in SPECIAL else {})) for n, r in [
    ("csr", 2), ("coo", 2), ("csf", 3), ("bcsr", 2), ("dia", 2), ("ell", 2), ("dcsc", 2), ("four_arrays", 2),
    ("counted", 2), ("sv_decreasing", 1), ("dense_col", 2), ("ones", 2), ("full_slots", 2),
]]  # fmt: skip


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions are compiled without much optimisation: it would take longer than all else here.

    Threads share little data, too.
    """
    build = compiling.build
    for module in (functions, compiling):
        monkeypatch.setattr(module, "build", lambda text: build(text, optimise=False))
    monkeypatch.setattr(tuning, "PACK_PER_THREAD", 1)


def entries(shape: tuple[int, ...], count: int, once: bool = False, ascending: bool = False):
    """Random coordinates and values."""
    columns = [RANDOM.integers(0, max(n, 1), count if min(shape) else 0) for n in shape]
    if once or ascending:
        columns = list(np.unique(np.stack(columns), axis=1))
        if not ascending:
            order = RANDOM.permutation(len(columns[0]))
            columns = [c[order] for c in columns]
    return tuple(columns), RANDOM.integers(1, 9, len(columns[0])).astype(float)


def same(got: Packed, expected: Packed) -> None:
    assert got.sizes == expected.sizes
    for name, array in expected.arrays.items():
        assert got.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(got.arrays[name], array, err_msg=name)


def stored(layout: Layout, shape: tuple[int, ...]) -> Packed:
    """Some data that the layout can hold."""
    dense = np.where(RANDOM.random(shape) < 0.3, RANDOM.integers(2, 9, shape), layout.fill).astype(float)
    dense = storable(layout, shape, dense)
    coords = np.nonzero(dense != layout.fill)
    return pack(layout, shape, coords, dense[coords])


def dense_of(layout: Layout, packed: Packed, fill: float) -> np.ndarray:
    coords, values = to_coordinates(layout, packed.sizes, packed.arrays, packed.arrays)
    dense = np.full(tuple(packed.sizes[p] for p in layout.parameters), fill)
    dense[coords] = 0
    np.add.at(dense, coords, values)
    return dense


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", IN_C, ids=label)
def test_packed_in_c_as_with_numpy(layout, monkeypatch):
    shapes = {1: [(40,), (1,)], 2: [(9, 10), (1, 7), (13, 8)], 3: [(5, 6, 7), (1, 2, 3)]}[layout.rank]
    seen = copies(monkeypatch)
    for shape, (once, ascending), threads in product(shapes, [(False, False), (True, False), (True, True)], (1, 3)):
        coords, values = entries(shape, 50, once, ascending)
        narrow = tuple(c.astype(np.int32) for c in coords) if threads == 1 else coords
        expected = pack(layout, shape, coords, values)
        got = pack_entries(layout, shape, narrow, values, threads=threads, small=0)
        same(got, expected)
        assert violation(layout, got.sizes, got.arrays) is None
    assert len(seen) >= 6 or not key_plan(layout, key_orders(layout)).levels, "the way through C was not taken"
    assert all(seen)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", IN_C, ids=label)
def test_unpacked_in_c_as_with_numpy(layout):
    for shape in {1: [(40,), (0,)], 2: [(9, 10), (0, 3), (1, 1)], 3: [(5, 6, 7)]}[layout.rank]:
        packed = stored(layout, shape)
        expected_coords, expected = to_coordinates(layout, packed.sizes, packed.arrays, packed.arrays)
        for threads in (1, 3):
            coords, values = packing._coordinates(layout, packed.sizes, packed.arrays, threads)
            one, two = np.lexsort(coords), np.lexsort(expected_coords)
            np.testing.assert_array_equal(np.stack(coords)[:, one], np.stack(expected_coords)[:, two])
            np.testing.assert_array_equal(values[one], expected[two])


PAIRS = [("csr", "csc"), ("csc", "bcsr"), ("csr", "bcsr"), ("csr", "dia"), ("csr", "ell"), ("csr", "coo"),
         ("coo", "csr"), ("dense", "csr"), ("dia", "csr"), ("bcsr", "csr"), ("ell", "four_arrays"), ("dense", "dia"),
         ("bcsr", "counted"), ("with_diagonal", "dcsr"), ("csr", "by_columns"), ("csc", "csf")]  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("names", PAIRS, ids=" to ".join)
def test_converted_in_c(names):
    source, target = (get(n, **({"rank": 2} if n in SPECIAL else {})) for n in names)
    for shape, threads in product([(12, 9), (7, 16), (1, 1)], (1, 3)):
        packed = stored(source, shape)
        got = packing._converted(source, packed.sizes, packed.arrays, target, {}, threads)
        assert violation(target, got.sizes, got.arrays) is None
        np.testing.assert_array_equal(dense_of(target, got, 0), dense_of(source, packed, 0))
        coords, values = to_coordinates(source, packed.sizes, packed.arrays, packed.arrays)
        if packing.pads(source):
            coords, values = tuple(c[values != 0] for c in coords), values[values != 0]
        same(got, pack(target, shape, coords, values))


MATRICES = [x for x in LAYOUTS if x.rank == 2]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("source", MATRICES, ids=label)
def test_every_layout_converts_to_every_other(source):
    packed = stored(source, (8, 12))
    expected = dense_of(source, packed, source.fill)
    reached = 0
    for target in MATRICES:
        try:
            got = convert_arrays(source, packed.sizes, packed.arrays, target)
        except DataError as error:
            found = error.message
        else:
            found = ""
            reached += 1
        assert not found or any(w in found for w in ("store", "at most", "agree on"))
        if found:
            continue
        assert violation(target, got.sizes, got.arrays) is None
        held = dense_of(target, got, source.fill)
        np.testing.assert_array_equal(np.where(held == target.fill, source.fill, held), expected)
    assert reached >= 10


def test_explicit_zeros_are_kept_and_padding_is_not():
    csr, bcsr, dense = get("csr"), get("bcsr"), get("dense", rank=2)
    packed = pack(csr, (4, 4), (np.array([0, 3]), np.array([1, 2])), np.array([0.0, 5.0]))
    assert convert_arrays(csr, packed.sizes, packed.arrays, get("csc")).sizes["nnz"] == 2
    blocks = convert_arrays(csr, packed.sizes, packed.arrays, bcsr)
    assert blocks.sizes["nb"] == 2
    assert convert_arrays(bcsr, blocks.sizes, blocks.arrays, csr).sizes["nnz"] == 1
    full = convert_arrays(csr, packed.sizes, packed.arrays, dense)
    assert convert_arrays(dense, full.sizes, full.arrays, csr).sizes["nnz"] == 1


@pytest.mark.parametrize("small", [0, 10**6], ids=["C", "numpy"])
def test_what_cannot_be_packed_is_said_alike(small):
    def message(name, shape, coords, values, **more):
        with pytest.raises(DataError) as error:
            pack_entries(get(name), shape, coords, np.array(values), small=small, **more)
        return error.value.message

    one = (np.array([0, 2]), np.array([1, 5]))
    assert "within the shape (3, 3), but there is (2, 5)" in message("csr", (3, 3), one, [1.0, 2.0])
    assert "there is (0, -1)" in message("bcsr", (3, 3), (np.array([0]), np.array([-1])), [1.0])
    assert "no place for the value 1.0 at (0, 1)" in message("diagonal", (3, 6), one, [1.0, 2.0])
    assert "of one length" in message("csr", (3, 3), one, [1.0])
    twice = (np.array([1, 1]), np.array([2, 2]))
    assert "each coordinate once, but (1, 2)" in message("csr", (3, 3), twice, [1.0, 1.0], duplicates="error")
    far = (np.array([2**31]), np.array([0]))
    assert "fit int32" in message("dcsr", (2**32, 3), far, [1.0])


def test_duplicates_in_c():
    shape, count = (6, 7), 300
    coords, values = entries(shape, count)
    for name, how in product(["csr", "bcsr", "ell"], ["sum", "first", "last", np.maximum]):
        expected = pack(get(name), shape, coords, values, duplicates=how)
        same(pack_entries(get(name), shape, coords, values, duplicates=how, threads=2, small=0), expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["float64", "int16"])
def test_duplicates_are_combined_by_a_kernel(kind, monkeypatch):
    """The least, largest, first and last of each coordinate, by numbers of entries; numpy has no part in it."""
    monkeypatch.setattr("spfgen.run.pack.pack", None)
    shape, count = (6, 7), 300
    coords, _ = entries(shape, count)
    values = RANDOM.integers(-9, 9, count).astype(kind)
    if kind == "float64":
        values[7] = np.nan
    for name, how in product(["csr", "dcsr"], ["first", "last", np.maximum, np.minimum]):
        expected = pack(get(name), shape, coords, values, duplicates=how)
        same(pack_entries(get(name), shape, coords, values, duplicates=how, threads=2, small=0), expected)


def test_types_in_c():
    coords, _ = entries((9, 9), 60)
    for dtype, name in product(["bool", "int8", "uint16", "float32", "complex128"], ["csr", "bcsr"]):
        values = RANDOM.integers(0, 2, 60).astype(dtype)
        kinds = {get(name).indexes[1].name: "int64"}
        same(
            pack_entries(get(name), (9, 9), coords, values, kinds, small=0),
            pack(get(name), (9, 9), coords, values, kinds),
        )


def test_keys_of_more_than_64_bits_go_another_way():
    layout = get("coo", rank=3)
    shape = (2**40, 2**40, 5)
    coords = tuple(RANDOM.integers(0, n, 30) for n in shape)
    kinds = {a.name: "int64" for a in layout.indexes}
    same(
        pack_entries(layout, shape, coords, np.ones(30), kinds, small=0),
        pack(layout, shape, coords, np.ones(30), kinds),
    )


def test_long_segments_and_many_digits():
    """One row with thousands of entries; vectors with keys of many bits."""
    count = 5000
    columns = RANDOM.integers(0, 10**6, count)
    coords = (np.where(np.arange(count) % 10 == 0, RANDOM.integers(0, 40, count), 7), columns)
    same(pack_entries(get("csr"), (40, 10**6), coords, np.ones(count), small=0),
         pack(get("csr"), (40, 10**6), coords, np.ones(count)))  # fmt: skip
    for layout in (get("sv"), get("sv_decreasing")):
        place = RANDOM.integers(0, 2**45, count)
        same(pack_entries(layout, (2**45,), (place,), np.ones(count), {"idx": "int64"}, threads=3, small=0),
             pack(layout, (2**45,), (place,), np.ones(count), {"idx": "int64"}))  # fmt: skip


def test_tensors_use_it():
    """What the Python door packs and unpacks is the same beyond the limit."""
    count = tuning.PACK_BY_NUMPY + 5
    dense = np.zeros((200, 300))
    dense[RANDOM.integers(0, 200, count), RANDOM.integers(0, 300, count)] = 2
    coords = np.nonzero(dense)
    packed = pack_entries(get("csr"), dense.shape, coords, dense[coords], small=0)
    tensor = spfgen.tensor("csr", shape=dense.shape, **packed.arrays)
    np.testing.assert_array_equal(tensor.to_numpy(), dense)
    got, values = coordinates(get("csr"), packed.sizes, packed.arrays, small=0)
    np.testing.assert_array_equal(got, coords)
    assert (values == 2).all()


@pytest.mark.exhaustive
def test_small_ones_go_through_c_once_there_were_many(monkeypatch):
    monkeypatch.setenv("SPFGEN_COMPILE", "background")
    monkeypatch.setattr(tuning, "LATER_START", tuning.LATER_WORK // 3)
    csr, csc = get("csr"), get("csc")
    way = copies(monkeypatch)
    for count in (0, 1, 7, 30, 5):
        packed = stored(csr, (6, count))
        got = convert_arrays(csr, packed.sizes, packed.arrays, csc)
        same(got, pack(csc, (6, count), *to_coordinates(csr, packed.sizes, packed.arrays, packed.arrays)))
        tries = len(way)
        assert later.wait()
    assert tries >= 2, "the way through C was not taken"


def test_numpy_packs_until_there_have_been_many(monkeypatch, tmp_path):
    """The first call does not wait for a compiler, unless there are so many entries that it would be faster."""
    monkeypatch.setenv("SPFGEN_COMPILE", "background")
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(conversion, "_KNOWN", {})
    monkeypatch.setattr(later, "_STATES", {})
    way, dense = copies(monkeypatch), RANDOM.integers(1, 9, (7, 11)).astype(float)
    coords = tuple(c[::-1] for c in np.nonzero(dense))
    same(
        pack_entries(get("csr"), (7, 11), coords, dense[coords], small=1),
        pack(get("csr"), (7, 11), coords, dense[coords]),
    )
    assert not way
    monkeypatch.setattr(tuning, "CONVERT_COMPILED", dense.size)
    same(
        pack_entries(get("csr"), (7, 11), coords, dense[coords], small=1),
        pack(get("csr"), (7, 11), coords, dense[coords]),
    )
    assert way


@pytest.mark.parametrize("name", ["csr", "csc", "coo", "dcsr", "bcsr", "dia"])
def test_many_entries_in_order_need_no_compilation(monkeypatch, name):
    layout, shape = get(name, **({"rank": 2} if name == "coo" else {})), (9, 9)
    dense = np.diag(np.arange(1.0, 10)) + np.diag(np.ones(8), 1) + np.diag(np.ones(8), -1)
    coords = np.nonzero(dense)
    wanted = pack(layout, shape, coords, dense[coords])
    coords, values = to_coordinates(layout, wanted.sizes, wanted.arrays, wanted.arrays)
    kept = values != 0
    coords, values = tuple(c[kept] for c in coords), values[kept]
    form, compiled = form_of(layout), list[int]()
    monkeypatch.setattr(form, "in_order", 0)
    packed = packing._packed
    monkeypatch.setattr(packing, "_packed", lambda *own: (compiled.append(1), packed(*own))[1])
    same(packing.pack_entries(layout, shape, coords, values, small=5), wanted)
    assert (compiled, form.in_order) == ([], len(values))
    twice = tuple(np.repeat(c, 2) for c in coords)
    got = packing.pack_entries(layout, shape, twice, np.repeat(values, 2), small=5)
    same(got, pack(layout, shape, twice, np.repeat(values, 2)))
    assert not compiled
    turned = tuple(c[::-1] for c in coords)
    same(packing.pack_entries(layout, shape, turned, values[::-1], small=5), wanted)
    assert compiled, "entries that have to be sorted"
    del compiled[:]
    form.in_order = tuning.CONVERT_COMPILED
    same(packing.pack_entries(layout, shape, coords, values, small=5), wanted)
    assert compiled, "there were many"


def test_scipy_arrays_are_converted_as_they_are(monkeypatch):
    """Sorted or not, with duplicates, explicit zeros, in any format; what is wrong is said."""
    sparse = pytest.importorskip("scipy.sparse")
    indptr, columns = np.array([0, 2, 2, 5]), np.array([3, 1, 0, 2, 2])
    messy = sparse.csr_array((np.array([1.0, 2.0, 0.0, 4.0, 8.0]), columns, indptr), shape=(3, 4))
    tidy = messy.copy()
    tidy.sum_duplicates()
    wanted = messy.toarray()
    for matrix in (messy, tidy, messy.tocsc(), tidy.tocoo(), messy.tobsr((3, 2)), tidy.todia(), tidy.tolil()):
        for layout in ("csr", "csc", "bcsr", "ell"):
            got = spfgen.pack(matrix, layout)
            np.testing.assert_array_equal(got.to_numpy(), wanted)
            assert not any(np.shares_memory(a, b) for a in got.arrays.values() for b in (tidy.data, tidy.indices))
    monkeypatch.setattr(tuning, "CONVERT_COMPILED", 0)  # now in C
    for matrix in (messy, tidy):
        got = spfgen.pack(matrix, "csc")
        np.testing.assert_array_equal(got.to_numpy(), wanted)
        assert got.nse == 4
    tidy.indices[-1] = 9
    with pytest.raises(DataError):
        spfgen.pack(tidy, "csc")


def test_a_tensor_that_was_changed_is_not_converted_unasked():
    tensor = spfgen.pack(np.eye(5), "csr")
    tensor.arrays["colidx"].flags.writeable = True
    tensor.arrays["colidx"][2] = 10**6
    with pytest.raises(DataError, match="colidx"):
        tensor.convert("csc")


def test_a_team_has_work_for_each(monkeypatch):
    monkeypatch.undo()
    each = tuning.PACK_PER_THREAD
    assert [packing.team(4, n) for n in (0, 10, each, 2 * each, 10**6)] == [1, 1, 1, 2, 4]


def copies(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows by whether the kernel had a place for all entries, each time that one copies."""
    seen: list[bool] = []
    own = by_kernel.CopyKernel.__call__

    def tried(copy, *given):
        seen.append(False)
        made = own(copy, *given)
        seen[-1] = True
        return made

    monkeypatch.setattr(by_kernel.CopyKernel, "__call__", tried)
    return seen


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_of_all_lengths(monkeypatch, threads):
    """Rows of 0, 1, 2, 8, 9, 16, 17, 32, 33 and 300 entries, each sorted in its own manner; rows without order. Layouts
    with groups that are known beforehand are made by the kernel that copies."""
    seen = copies(monkeypatch)
    lengths = [0, 1, 2, 8, 9, 0, 16, 17, 32, 33, 300, 3, 0, 0, 5, 2, 0]
    columns = np.concatenate([RANDOM.permutation(400)[:n] for n in lengths])
    rows = np.repeat(np.arange(len(lengths)), lengths)
    shape, values = (len(lengths), 400), np.arange(1.0, len(rows) + 1)
    for order in (RANDOM.permutation(len(rows)), np.arange(len(rows))):
        coords = rows[order], columns[order]
        expected = pack(get("csr"), shape, coords, values)
        same(pack_entries(get("csr"), shape, coords, values, threads=threads, small=0), expected)
        same(
            convert_arrays(get("csr"), expected.sizes, expected.arrays, get("csc"), threads=threads, small=0),
            pack(get("csc"), shape, coords, values),
        )
    assert seen == [True] * 4
    twice = tuple(np.append(c, c[7]) for c in coords)
    same(
        pack_entries(get("csr"), shape, twice, np.append(values, 2.0), threads=threads, small=0),
        pack(get("csr"), shape, twice, np.append(values, 2.0)),
    )
    for wrong in (len(lengths), -1):
        outside = (np.append(rows, wrong), np.append(columns, 0))
        with pytest.raises(DataError, match="within the shape"):
            pack_entries(get("csr"), shape, outside, np.append(values, 2.0), threads=threads, small=0)


def test_layouts_without_a_key_say_why():
    for name, reason in [("with_diagonal", "several pieces"), ("one_each", "written at places")]:
        with pytest.raises(NoKey, match=reason):
            key_plan(get(name), key_orders(get(name)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("openmp", [["-fopenmp"], []], ids=["OpenMP", "serial"])
def test_no_warnings(compiler, openmp, tmp_path):
    """What is generated is as plain as kernels are."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not on PATH")
    files = [tmp_path / "keys.c"]
    files[0].write_text(functions.shared_text())
    for number, name in enumerate(("csr", "dia", "bcsr", "csf")):
        layout = get(name, **({"rank": 2} if name in SPECIAL else {}))
        value = ("float64", "int8", "bool", "complex64")[number]
        types = ArrayTypes(value, tuple((a.name, "int32") for a in layout.indexes))
        made = [code.count_function(layout, types), code.coordinates_function(layout, types)]
        files.append(tmp_path / f"{name}.c")
        files[-1].write_text(functions.source_text(made, "test"))
    command = [compiler, "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", *openmp, "-c", *map(str, files)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[:3000]

"""Blocks in files: what is written is read again, lazily; what is damaged is named, and never unpickled."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError, UsageError

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
store = pytest.importorskip("spfgen.cluster.store")

CHUNKS = ((4, 0, 5), (3, 4))
GRIDS = {"plain": CHUNKS, "one": ((9,), (7,)), "rows": ((1,) * 9, (7,)), "empty": ((9, 0, 0), (0, 7))}


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def dense() -> np.ndarray:
    random = np.random.default_rng(3)
    return np.where(random.random((9, 7)) < 0.4, random.uniform(1, 2, (9, 7)), 0.0)


def blocked(layout: str = "csr", chunks=CHUNKS, array: np.ndarray | None = None):
    whole = dense() if array is None else array
    return da.from_array(whole, chunks=chunks).map_blocks(spfgen.pack, layout, dtype=whole.dtype)


def written(kind: str, blocks, folder: Path) -> str:
    if kind == "zarr":
        pytest.importorskip("zarr")
        return store.to_zarr(blocks, folder / "A.zarr")
    assert all(Path(n).is_file() for n in store.to_npz(blocks, folder / "A-*.npz"))
    return str(folder / "A-*.npz")


@pytest.mark.parametrize("kind", ["npz", "zarr"])
@pytest.mark.parametrize("grid", GRIDS)
def test_there_and_back(kind: str, grid: str, tmp_path) -> None:
    chunks = GRIDS[grid]
    found = store.opened(written(kind, blocked(chunks=chunks), tmp_path))
    assert found.shape == (9, 7)
    array = found.to_blocked()
    assert array.sizes == chunks
    assert isinstance(array.example(), spfgen.Tensor)
    sizes = {p: sum(a.nbytes for a in part().arrays.values()) for p, part in found.parts.items()}
    assert array.weights.keys() == sizes.keys()
    assert all(0 <= array.weights[p] - size < 1000 for p, size in sizes.items()), "planners count with what is there"
    np.testing.assert_array_equal(array.compute().to_numpy(), dense())
    for place, (rows, columns) in found.boxes().items():
        part = pickle.loads(pickle.dumps(found.parts[place]))()
        assert part.layout.name == "csr"
        np.testing.assert_array_equal(part.to_numpy(), dense()[slice(*rows), slice(*columns)])


@pytest.mark.parametrize("kind", ["npz", "zarr"])
def test_layouts_and_fills(kind: str, tmp_path) -> None:
    for number, (layout, dtype) in enumerate(
        {"bcsr(R=2, C=2)": "float32", "coo": "complex128", "dense": "int64"}.items()
    ):
        (tmp_path / str(number)).mkdir()
        array = dense().astype(dtype)
        where = written(kind, blocked(layout, array=array), tmp_path / str(number))
        found = store.opened(where).to_blocked()
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.compute().to_numpy(), array)
    one = spfgen.pack(np.where(dense() == 0, 1, dense()), "csr", fill=1)
    (tmp_path / "fill").mkdir()
    where = written(kind, da.from_array(one, chunks=(5, 5), asarray=False), tmp_path / "fill")
    found = store.opened(where).to_blocked().compute()
    assert found.fill_value == 1
    np.testing.assert_array_equal(found.to_numpy(), one.to_numpy())


def test_files_that_save_wrote_go_one_below_the_other(tmp_path) -> None:
    for k in range(11):
        spfgen.pack(np.full((2, 3), float(k)), "csr").save(tmp_path / f"B-{k}.npz")
    found = store.opened(tmp_path / "B-*.npz")
    assert (found.shape, found.bounds[0][:3]) == ((22, 3), (0, 2, 4))
    np.testing.assert_array_equal(found.to_blocked().compute().to_numpy()[:, 0], np.repeat(np.arange(11.0), 2))
    spfgen.pack(np.ones((2, 4)), "csr").save(tmp_path / "B-11.npz")
    with pytest.raises(DataError, match=r"B-0.npz and .*B-11.npz differ"):
        store.opened(tmp_path / "B-*.npz")


def test_nothing_is_read_before_it_is_needed(tmp_path) -> None:
    array = store.opened(written("npz", blocked(), tmp_path)).to_blocked().to_dask_array()
    (tmp_path / "A-2-1.npz").unlink()
    np.testing.assert_array_equal(array[:4, :3].compute().to_numpy(), dense()[:4, :3])
    with pytest.raises(DataError, match=r"block \[4:9, 3:7\]: .*A-2-1.npz"):
        array[8].compute()


def changed(path: Path, name: str, content: object) -> None:
    """The file with another entry."""
    with zipfile.ZipFile(path) as file:
        entries = {n: file.read(n) for n in file.namelist()}
    stream = io.BytesIO()
    np.save(stream, np.asarray(content), allow_pickle=True)
    entries[f"{name}.npy"] = stream.getvalue()
    with zipfile.ZipFile(path, "w") as file:
        for entry, data in entries.items():
            file.writestr(entry, data)


class Harm:
    """To unpickle one fails the test."""

    def __reduce__(self):
        return pytest.fail, ("unpickled",)


NPZ = {
    "an index too large": ("array.colidx", [0, 99, 1], "colidx"),
    "of another length": ("array.val", [1.0], "val"),
    "objects": ("array.val", [Harm()], "cannot be read"),
    "another size": (
        "spfgen",
        json.dumps({"format": 1, "layout": "csr", "constants": {}, "sizes": {"n": 10**9}}),
        "cannot",
    ),
    "no numbers": ("array.rowptr", ["a", "b"], "rowptr"),
}


@pytest.mark.parametrize("name", NPZ)
def test_damaged_npz(name: str, tmp_path) -> None:
    found = store.opened(written("npz", blocked(), tmp_path))
    entry, content, words = NPZ[name]
    if entry == "array.colidx":
        content = np.append(content, np.zeros(found.parts[2, 0]().arrays["colidx"].size - 3)).astype("int32")
    changed(tmp_path / "A-2-0.npz", entry, np.array(content, dtype=object) if name == "objects" else content)
    with pytest.raises(DataError, match=rf"block \[4:9, 0:3\]: .*A-2-0.npz.*{words}"):
        found.parts[2, 0]()


def test_bytes_that_changed(tmp_path) -> None:
    """Whatever byte changes: a DataError that names the file, or the same tensor."""
    store.to_npz(blocked(), tmp_path / "A-*.npz")
    path = tmp_path / "A-2-0.npz"
    whole = path.read_bytes()
    for at in range(0, len(whole), 61):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        _same_or_named("A-2-0.npz", tmp_path / "A-*.npz")
    for length in range(0, len(whole), 301):
        path.write_bytes(whole[:length])
        _same_or_named("A-2-0.npz", tmp_path / "A-*.npz")


def _same_or_named(name: str, where: Path) -> None:
    found = None
    with suppress(DataError), _named(name):
        found = store.opened(where).parts[2, 0]()
    if found is not None:
        np.testing.assert_array_equal(found.to_numpy(), dense()[4:, :3])


@contextmanager
def _named(name: str):
    try:
        yield
    except DataError as error:
        if name not in str(error):
            raise AssertionError(str(error)) from error
        raise


def test_damaged_zarr(tmp_path) -> None:
    where = Path(written("zarr", blocked(), tmp_path))
    found = store.opened(where)
    group = where / "2.0"
    chunk = next(p for p in (group / "colidx" / "c").rglob("*") if p.is_file())
    whole, harmless = chunk.read_bytes(), (group / "colidx" / "zarr.json").read_text()
    for content in (b"", whole[:-3], b"\0" * len(whole)):
        chunk.write_bytes(content)
        with pytest.raises(DataError, match=r"block \[4:9, 0:3\]: .*2.0 cannot be read: .*colidx"):
            found.parts[2, 0]()
    chunk.unlink()
    with pytest.raises(DataError, match="`colidx`, but 0 of 1 chunks are there"):
        found.parts[2, 0]()
    chunk.write_bytes(whole)
    said = json.loads(harmless)
    for change in ({"shape": [10**15]}, {"codecs": [{"name": "numcodecs.pickle"}]}, {"data_type": "string"}):
        (group / "colidx" / "zarr.json").write_text(json.dumps(said | change))
        with pytest.raises(DataError, match=r"block \[4:9, 0:3\]: .*2.0 cannot be read"):
            found.parts[2, 0]()
    (group / "colidx" / "zarr.json").write_text(harmless)
    np.testing.assert_array_equal(found.parts[2, 0]().to_numpy(), dense()[4:, :3])
    (group / "zarr.json").unlink()
    with pytest.raises(DataError, match=r"but it has 5 groups"):
        store.opened(where)


def test_grids_that_are_none(tmp_path) -> None:
    where = Path(written("npz", blocked(), tmp_path))
    (tmp_path / "A-0-0.npz").rename(tmp_path / "gone")
    with pytest.raises(DataError, match=r"each of 3 x 2 blocks.* none for \(0, 0\)"):
        store.opened(where)
    (tmp_path / "A-0-0.npz").write_bytes((tmp_path / "A-0-1.npz").read_bytes())
    with pytest.raises(DataError, match=r"A-0-0.npz and \S*A-0-1.npz both hold block \(0, 1\)"):
        store.opened(where)
    (tmp_path / "gone").rename(tmp_path / "A-0-0.npz")
    changed(tmp_path / "A-0-0.npz", "block", json.dumps({"place": [0, 0], "bounds": [[0, 4], [1, 3]]}))
    with pytest.raises(DataError, match="without gaps or overlaps"):
        store.opened(where)
    changed(tmp_path / "A-0-0.npz", "block", json.dumps({"place": "x"}))
    with pytest.raises(DataError, match=r"A-0-0.npz cannot be read"):
        store.opened(where)
    changed(tmp_path / "A-0-0.npz", "block", json.dumps({"place": [10**15, 0], "bounds": [[0, 4], [0, 3]]}))
    with pytest.raises(DataError, match=r"none for \(0, 0\), .* and others"):
        store.opened(where)


def test_misuse(tmp_path) -> None:
    with pytest.raises(UsageError, match="there are none"):
        store.opened(tmp_path / "none-*.npz")
    with pytest.raises(UsageError, match=r"with a \*"):
        store.to_npz(blocked(), tmp_path / "A.npz")
    with pytest.raises(UsageError, match="in blocks"):
        store.to_npz(spfgen.pack(dense(), "csr"), tmp_path / "A-*.npz")
    store.to_npz(blocked(), tmp_path / "A-*.npz")
    with pytest.raises(UsageError, match="exists"):
        store.to_npz(blocked(), tmp_path / "A-*.npz")
    store.to_npz(2 * blocked(), tmp_path / "A-*.npz", force=True)
    np.testing.assert_array_equal(store.opened(tmp_path / "A-*.npz").to_blocked().compute().to_numpy(), 2 * dense())
    pytest.importorskip("zarr")
    with pytest.raises(UsageError, match="exists"):
        store.to_zarr(blocked(), tmp_path, force=True)
    store.to_zarr(blocked(), tmp_path / "A.zarr")
    with pytest.raises(UsageError, match="exists"):
        store.to_zarr(blocked(), tmp_path / "A.zarr")
    store.to_zarr(2 * blocked(), tmp_path / "A.zarr", force=True)
    np.testing.assert_array_equal(store.opened(tmp_path / "A.zarr").to_blocked().compute().to_numpy(), 2 * dense())


@pytest.mark.parametrize("kind", ["npz", "zarr"])
def test_blocks_of_numpy(kind: str, tmp_path) -> None:
    where = written(kind, da.from_array(dense(), chunks=CHUNKS), tmp_path)
    np.testing.assert_array_equal(store.opened(where).to_blocked().compute().to_numpy(), dense())


@pytest.mark.parametrize("kind", ["npz", "zarr"])
def test_blocked_tensors(kind: str, tmp_path) -> None:
    blocks = spfgen.blocks(dense(), {0: 4, 1: 3}, layout="csr")
    if kind == "npz":
        blocks.to_npz(tmp_path / "A-*.npz")
    else:
        pytest.importorskip("zarr")
        blocks.to_zarr(tmp_path / "A.zarr")
    where = tmp_path / {"npz": "A-*.npz", "zarr": "A.zarr"}[kind]
    found = spfgen.read_blocks(where)
    assert (found.bounds, found.dtype, found.example().layout.name) == (blocks.bounds, float, "csr")
    np.testing.assert_array_equal(found.compute().to_numpy(), dense())
    found = spfgen.read_blocks(where, {0: 5}, layout="csc", shape=(9, 7))
    assert found.bounds == ((0, 5, 9), (0, 7))
    assert found.example().layout.name == "csc"
    np.testing.assert_array_equal(found.compute().to_numpy(), dense())
    with pytest.raises(DataError, match="the blocks make"):
        spfgen.read_blocks(where, shape=(9, 8))


HEADS = {"general": "real", "symmetric": "integer", "skew-symmetric": "real", "hermitian": "complex"}


def market(symmetry: str, field: str, n: int = 9, ending: str = "\n") -> str:
    random = np.random.default_rng(1)
    places = [(i, j) for i in range(1, n + 1) for j in range(1, n + 1) if symmetry == "general" or i > j]
    kept = [places[k] for k in random.permutation(len(places))[:20]]
    value = {"real": "{}.25", "integer": "-{}", "complex": "{} 2.5", "pattern": ""}[field]
    lines = [f"{i} {j} {value.format(k)}".strip() for k, (i, j) in enumerate(kept)]
    lines.insert(7, "")
    head = f"%%MatrixMarket matrix coordinate {field} {symmetry}{ending}% a comment{ending}{ending}{n} {n} 20{ending}"
    return head + ending.join(lines)


@pytest.mark.parametrize("symmetry", HEADS)
@pytest.mark.parametrize("size", [1, 7, 40, 10**6])
@pytest.mark.sampled(6)
def test_ranges_of_matrix_market(symmetry: str, size: int, tmp_path) -> None:
    for field in {HEADS[symmetry], "pattern"} if symmetry in ("general", "symmetric") else {HEADS[symmetry]}:
        for ending in ("\n", "\r\n"):
            path = tmp_path / "A.mtx"
            path.write_text(market(symmetry, field, ending=ending) + ending * (size % 2), newline="")
            whole = spfgen.load_tensor(path)
            found = spfgen.read_blocks(path, {0: 4, 1: 5}, size=size, layout="csr")
            assert found.dtype == whole.dtype
            np.testing.assert_array_equal(found.compute().to_numpy(), whole.to_numpy())


@pytest.mark.parametrize("head", ["", "# spfgen shape: 4 5 6\n", "3 3\n4 5 6\n", "# of others\n3\n4 5 6\n"])
def test_ranges_of_frostt(head: str, tmp_path) -> None:
    path = tmp_path / "A.tns"
    path.write_text(head + "1 1 1 1.5\n4 5 6 2\n# a comment\n2 2 2 -1\n")
    for size in (1, 9, 1000):
        found = spfgen.read_blocks(path, {0: 2, 1: 2}, size=size, shape=(4, 5, 6))
        np.testing.assert_array_equal(found.compute().to_numpy(), spfgen.load_tensor(path).to_numpy())
    if head:
        assert spfgen.read_blocks(path).shape == (4, 5, 6)
    else:
        with pytest.raises(UsageError, match=r"which .* does not say"):
            spfgen.read_blocks(path)


def test_wrong_lines_of_ranges(tmp_path) -> None:
    path = tmp_path / "A.mtx"
    good = market("general", "real")
    lines = good.splitlines()
    for at, wrong, words in (
        (9, "1 2 x", "expected row"),
        (20, "1 99 2.5", "within 9 x 9"),
        (4, "0 1 2", "within 9 x 9"),
    ):
        path.write_text("\n".join([*lines[:at], wrong, *lines[at + 1 :]]))
        for size in (10, 33, 1000):
            with pytest.raises(DataError, match=rf"A.mtx:{at + 1}: .*{words}"):
                spfgen.read_blocks(path, size=size).compute()
    path.write_text("\n".join(lines[:-1]))
    with pytest.raises(DataError, match=r"expected 20 entries .* but there are 19"):
        spfgen.read_blocks(path, {0: 3}, size=50).compute()
    path.write_text(market("symmetric", "real") + "\n1 5 2.0")
    with pytest.raises(DataError, match="on and below the diagonal"):
        spfgen.read_blocks(path, size=50).compute()
    path.write_text("%%MatrixMarket matrix array real general\n1 1\n2.0\n")
    with pytest.raises(UsageError, match="dense array"):
        spfgen.read_blocks(path)
    with pytest.raises(UsageError, match=r"a .mtx or .tns file"):
        spfgen.read_blocks(tmp_path / "A.mtx.gz")
    with pytest.raises(DataError, match="there is no"):
        spfgen.read_blocks(tmp_path / "B.mtx")
    path = tmp_path / "A.tns"
    path.write_text("1 1 1\n2 2 2\n3 3 x\n4 4 4\n")
    for size in (1, 7, 100):
        with pytest.raises(DataError, match=r"A.tns:3: "):
            spfgen.read_blocks(path, shape=(4, 4), size=size).compute()

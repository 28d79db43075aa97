"""What a tensor can do: facts, conversions, files, pictures; and what numpy may not do to it."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen import tuning
from spfgen.errors import DataError, SpecError, UsageError
from spfgen.run import validate
from spfgen.run.calls import layout_signature

DENSE = np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 3.0, 0.0, 4.0], [5.0, 0.0, 0.0, 6.0]])
MATRICES = [
    "csr",
    "csr_unsorted",
    "csc",
    "coo",
    "coo_unsorted",
    "bcsr",
    "dia",
    "ell",
    "dcsr",
    "csf",
    "dense",
    "dense_col",
]
OWN = """
# Above the layout, and not part of it.
import "nothing.spf"
layout rows(nrow, ncol; W = 2) {
    relation { [p, s] -> [i, j] : 0 <= p < nrow and 0 <= s < W and i = p and j = at(p, s) and 0 <= j }
    index at[nrow, W] { range -1 <= at(p, s) < ncol
        property forall r, s, t : s < t and at(r, t) >= 0 => 0 <= at(r, s) < at(r, t) }
    value val[nrow, W] at [p, s]
}
layout other(n) { relation { [p] -> [i] : 0 <= p < n and i = p }  value val[n] at [p] }
"""


def own() -> spfgen.api.LayoutHandle:
    return spfgen.parse(OWN.replace('import "nothing.spf"\n', "")).layouts["rows"]


# --- facts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", MATRICES)
def test_facts(layout) -> None:
    made = spfgen.pack(DENSE.astype(np.float32), layout)
    assert (made.shape, made.ndim, made.dtype, made.fill_value) == ((4, 4), 2, np.float32, 0)
    assert isinstance(made.fill_value, np.float32)
    assert made.nse >= 6
    assert set(made.arrays) == set(made.layout.arrays)
    assert re.fullmatch(rf"<spfgen.Tensor {layout}.*, 4 x 4, \d+ stored, float32>", repr(made).splitlines()[0])
    assert np.array_equal(made.to_numpy(), DENSE)
    entries = made.to_coo()
    assert np.array_equal(sp.coo_array((entries.values, entries.coords), entries.shape).toarray(), DENSE)


# --- to scipy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "form"),
    [
        ("csr", "csr"),
        ("csr_unsorted", "csr"),
        ("csc", "csc"),
        ("coo", "coo"),
        ("bcsr", "bsr"),
        ("dia", "dia"),
        ("ell", "coo"),
        ("dense", "coo"),
    ],
)
def test_to_scipy(layout, form) -> None:
    made = spfgen.pack(DENSE, layout)
    found = made.to_scipy()
    assert isinstance(found, sp.sparray)
    assert found.format == form
    assert np.shares_memory(found.data, made.arrays["val"]) == (form != "coo" or layout == "coo")
    assert np.array_equal(found.toarray(), DENSE)
    for other in ("csr", "csc", "coo", "dia", "bsr", "lil", "dok"):
        again = made.to_scipy(other)
        assert again.format == other
        assert np.array_equal(again.toarray(), DENSE)
        assert np.array_equal(spfgen.pack(again, layout).to_numpy(), DENSE)


def test_to_scipy_of_what_scipy_does_not_have() -> None:
    odd = spfgen.pack(DENSE[:3], "bcsr")
    assert np.array_equal(odd.to_scipy().toarray(), DENSE[:3])
    vector = spfgen.pack(DENSE[0], "sv").to_scipy()
    assert vector.shape == (4,)
    assert vector.toarray().tolist() == DENSE[0].tolist()
    cube = spfgen.pack(np.ones((2, 2, 2)), "csf")
    with pytest.raises(DataError, match="csr"):
        cube.to_scipy("csr")
    with pytest.raises(UsageError, match="did you mean `csr`"):
        spfgen.pack(DENSE, "csr").to_scipy("crs")
    empty = spfgen.pack(np.zeros((0, 3)), "csr").to_scipy()
    assert (empty.shape, empty.nnz) == ((0, 3), 0)


# --- pack and convert ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia", "dok", "lil"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_pack_from_scipy(form, kind) -> None:
    given = getattr(sp, f"{form}_{kind}")(sp.csr_array(DENSE))
    for layout in ("csr", "bcsr(R=2, C=2)", "ell"):
        assert np.array_equal(spfgen.pack(given, layout).to_numpy(), DENSE)


def test_pack_from_other_objects() -> None:
    places = np.nonzero(DENSE)
    values = DENSE[places]
    for given in (
        (places, values),
        (np.array(places), values),
        (np.array(places, np.uint8), values),
        ([p.tolist() for p in places], values.tolist()),
        DENSE,
        DENSE.tolist(),
        np.asfortranarray(DENSE),
        spfgen.pack(DENSE, "dia"),
        spfgen.pack(DENSE, own()),
    ):
        made = spfgen.pack(given, "csr")
        assert np.array_equal(made.to_numpy(), DENSE)
        assert made.arrays["colidx"].dtype == np.int32
    vector = spfgen.pack(([3, 1], [1.0, 2.0]), "sv", shape=5)
    assert vector.to_numpy().tolist() == [0, 2, 0, 1, 0]
    assert spfgen.pack((np.array([3, 1]), [1.0, 2.0]), "sv").shape == (4,)
    assert spfgen.pack(([[], []], []), "csr", shape=(2, 3)).to_numpy().tolist() == [[0] * 3] * 2
    assert spfgen.pack(([[], []], []), "csr").shape == (0, 0)


def test_pack_makes_new_arrays() -> None:
    given = sp.csr_array(DENSE)
    made = spfgen.pack(given, "csr")
    assert not any(np.shares_memory(a, b) for a in made.arrays.values() for b in (given.data, given.indices))
    before = spfgen.pack(DENSE, "csr")
    assert not np.shares_memory(before.convert("csr").arrays["val"], before.arrays["val"])


def test_constants_and_types() -> None:
    for made in (
        spfgen.pack(DENSE, "bcsr", R=4, C=4),
        spfgen.pack(DENSE, "bcsr(R=4)", C=4),
        spfgen.pack(DENSE, spfgen.parse("").layouts["bcsr"], R=4, C=4),
    ):
        assert made.layout.constants == (("R", 4), ("C", 4))
        assert made.arrays["val"].shape == (1, 4, 4)
    typed = spfgen.pack(DENSE, "csr<float, int64>")
    assert [a.dtype.name for a in typed.arrays.values()] == ["int64", "int64", "float32"]
    mixed = spfgen.pack(DENSE, "csr<double, rowptr : int64>")
    assert [a.dtype.name for a in mixed.arrays.values()] == ["int64", "int32", "float64"]
    wide = spfgen.pack(([[0], [2**40]], [1.0]), "csr")
    assert wide.arrays["colidx"].dtype == np.int64
    for kind in ("bool", "int8", "uint64", "float32", "complex128"):
        assert spfgen.pack(DENSE.astype(kind), "csr").dtype == kind


@pytest.mark.parametrize(
    ("duplicates", "value"),
    [("sum", 7.0), ("last", 4.0), ("first", 1.0), (np.maximum, 4.0), (np.multiply, 8.0), (lambda a, b: a - b, -5.0)],
)
def test_duplicates(duplicates, value) -> None:
    given = (np.array([[0, 1, 0, 0], [2, 0, 2, 2]]), np.array([1.0, 9.0, 2.0, 4.0]))
    made = spfgen.pack(given, "csr", shape=(2, 3), duplicates=duplicates)
    assert made.to_numpy().tolist() == [[0, 0, value], [9, 0, 0]]
    with pytest.raises(DataError, match=r"\(0, 2\) occurs more than once"):
        spfgen.pack(given, "csr", duplicates="error")
    with pytest.raises(UsageError, match="`sum`, `last`, `first`, `error`"):
        spfgen.pack(given, "csr", duplicates="add")


@pytest.mark.parametrize("source", MATRICES)
def test_convert(source) -> None:
    made = spfgen.pack(DENSE, source)
    for target in MATRICES:
        found = made.convert(target)
        assert found.layout.name == target
        assert np.array_equal(found.to_numpy(), DENSE)
    assert np.array_equal(made.convert("bcsr", R=3, C=1).to_numpy(), DENSE)


@pytest.mark.parametrize(
    ("obj", "layout", "options", "kind", "words"),
    [
        (([[0], [5]], [1.0]), "csr", {"shape": (2, 3)}, DataError, ["from 0 to 2", "5"]),
        (([[0], [-1]], [1.0]), "csr", {"shape": (2, 3)}, DataError, ["-1"]),
        (([[0], [-1]], [1.0]), "csr", {}, DataError, ["-1"]),
        (([[0], [1.5]], [1.0]), "csr", {}, DataError, ["integers", "coordinates[1]", "float64"]),
        (([[0], [1]], [1.0, 2.0]), "csr", {}, DataError, ["(1,)", "(2,)"]),
        (([[0], [np.uint64(2**63)]], [1.0]), "csr", {}, DataError, ["2^63"]),
        (([[0], [1]], [1.0]), "csr", {"shape": (3,)}, DataError, ["1 dimension", "2"]),
        (([[0], [1]], [1.0]), "csr", {"shape": (3, -1)}, DataError, ["negative"]),
        (([[0], [1]], ["a"]), "csr", {}, DataError, ["`values`"]),
        ((1, 2, 3), "csr", {}, DataError, ["(coordinates, values)", "3 parts"]),
        (DENSE, "csr", {"shape": (4, 5)}, DataError, ["(4, 5)", "(4, 4)"]),
        (DENSE, "csf3", {}, DataError, ["3 dimensions", "it has 2"]),
        (DENSE, "lower", {}, DataError, ["(0, 2)"]),
        (DENSE, "crs", {}, SpecError, ["did you mean `csr`"]),
        (DENSE, "csr<foo>", {}, SpecError, ["`foo`"]),
        (DENSE, "csr", {"R": 2}, SpecError, ["`R`"]),
        (DENSE, 7, {}, UsageError, ["layout", "int"]),
        (DENSE * 1j, "csr<float>", {}, DataError, ["float32", "complex128"]),
        (DENSE.astype(np.longdouble), "csr", {}, DataError, ["complex128"]),
        (object(), "csr", {}, DataError, ["object"]),
    ],
)
def test_what_cannot_be_packed(obj, layout, options, kind, words) -> None:
    with pytest.raises(kind) as caught:
        spfgen.pack(obj, layout, **options)
    for word in words:
        assert word in str(caught.value)


# --- files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", MATRICES)
@pytest.mark.parametrize("kind", ["float64", "bool", "complex64"])
def test_save_and_load(layout, kind, tmp_path) -> None:
    made = spfgen.pack(DENSE.astype(kind), layout)
    made.save(tmp_path / "t.npz")
    found = spfgen.load_tensor(tmp_path / "t.npz")
    assert found.layout == made.layout
    assert found.sizes == made.sizes
    for name, array in made.arrays.items():
        assert found.arrays[name].dtype == array.dtype
        assert np.array_equal(found.arrays[name], array)


def test_a_layout_of_the_user_travels_with_its_tensor(tmp_path) -> None:
    made = spfgen.pack(DENSE, own(), W=3)
    path = str(tmp_path / "t.npz")
    made.save(path)
    found = spfgen.load_tensor(path)
    assert found.layout == made.layout
    assert np.array_equal(found.to_numpy(), DENSE)
    assert np.allclose(spfgen.evaluate("y[i] = A[i, j]*x[j]", A=found, x=np.ones(4)), DENSE.sum(axis=1))
    with np.load(path, allow_pickle=False) as file:
        text = str(file["layout"])
    assert text.startswith("layout rows(")
    assert "other" not in text
    empty = spfgen.pack(np.zeros((0, 3)), "csr")
    empty.save(path, force=True)
    assert spfgen.load_tensor(path).shape == (0, 3)


def test_nothing_is_overwritten(tmp_path) -> None:
    made, path = spfgen.pack(DENSE, "csr"), tmp_path / "t.npz"
    path.write_text("mine")
    with pytest.raises(UsageError, match=r"exists(.|\n)*force=True"):
        made.save(path)
    assert path.read_text() == "mine"
    made.save(path, force=True)
    assert np.array_equal(spfgen.load_tensor(path).to_numpy(), DENSE)
    for wrong in (tmp_path, tmp_path / "t.npy", tmp_path / "no" / "t.npz"):
        with pytest.raises(UsageError):
            made.save(wrong)
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(UsageError, match="something else"):
        made.save(tmp_path / "folder.npz", force=True)


def altered(path, **entries) -> None:
    """The file with other entries; those that are None are left out."""
    with np.load(path, allow_pickle=False) as file:
        content = {**{n: file[n] for n in file.files}, **entries}
    np.savez(path, **{n: v for n, v in content.items() if v is not None})


def about(**changes) -> np.ndarray:
    made = {"format": 1, "layout": "csr", "constants": {}, "sizes": {"nrow": 4, "ncol": 4, "nnz": 6}, **changes}
    return np.array(json.dumps({n: v for n, v in made.items() if v is not None}))


@pytest.mark.parametrize(
    ("entries", "word"),
    [
        ({"spfgen": None}, "no tensor"),
        ({"layout": None}, "no tensor"),
        ({"array.val": None}, "`val`"),
        ({"array.colidx": np.array([0, 2, 1, 3, 0, 9], np.int32)}, r"colidx\(5\) = 9"),
        ({"array.colidx": np.array([0.5] * 6)}, "`colidx`"),
        ({"array.colidx": np.array([None] * 6)}, "damaged"),
        ({"spfgen": about(format=3)}, "format is 3"),
        ({"spfgen": about(layout="csc")}, "no layout `csc`"),
        ({"spfgen": about(sizes={"nrow": 5, "ncol": 4})}, "nrow is 5"),
        ({"spfgen": about(sizes=[1])}, "damaged"),
        ({"spfgen": about(constants={"R": "x"})}, "damaged"),
        ({"spfgen": about(sizes=None)}, "damaged"),
        ({"spfgen": np.array("{")}, "damaged"),
        ({"layout": np.array("layout csr(")}, "cannot be read"),
        ({"layout": np.array("")}, "no layout"),
    ],
)
def test_altered_files(entries, word, tmp_path) -> None:
    path = tmp_path / "t.npz"
    spfgen.pack(DENSE, "csr").save(path)
    altered(path, **entries)
    with pytest.raises(DataError, match=f"{re.escape(str(path))}(.|\n)*{word}"):
        spfgen.load_tensor(path)


def test_other_files(tmp_path) -> None:
    path = tmp_path / "t.npz"
    with pytest.raises(DataError, match="No such file"):
        spfgen.load_tensor(path)
    np.save(tmp_path / "a.npy", DENSE)
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").write_bytes(b"")
    spfgen.pack(DENSE, "csr").save(path)
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        (tmp_path / "cut.npz").write_bytes(content[:length])
        with pytest.raises(DataError, match="cut"):
            spfgen.load_tensor(tmp_path / "cut.npz")
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as file:
        file.writestr("hello", "hello")
    for name in ("a.npy", "text.npz", "empty.npz", "zip.npz", "."):
        with pytest.raises(DataError):
            spfgen.load_tensor(tmp_path / name)


# --- numpy and pictures --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        np.median,
        np.cumsum,
        np.linalg.det,
        lambda t: spfgen.tensor("dense", val=t),
    ],
)
def test_nothing_becomes_dense_unasked(use) -> None:
    with pytest.raises((TypeError, DataError), match=r"dense only on request|spfgen\.Tensor"):
        use(spfgen.pack(DENSE, "csr"))


def test_the_error_of_numpy_says_what_to_do() -> None:
    with pytest.raises(spfgen.SpfgenError, match=r"numpy\.sort(.|\n)*to_numpy\(\)"):
        np.sort(spfgen.pack(DENSE, "csr"))


@pytest.mark.parametrize("shape", [(40, 40), (1000, 3), (3, 1000), (700,), (2**40, 2**40)])
def test_a_picture(shape) -> None:
    rng = np.random.default_rng(0)
    count = 5
    coords = [rng.integers(0, n, count) for n in shape]
    made = spfgen.pack((coords, np.ones(count)), "coo", shape=shape)
    found = ElementTree.fromstring(made._repr_html_())
    assert "coo(rank=" in "".join(found.itertext())
    assert re.search(r"\d (B|kB)$", found[0].text)
    picture, example = [e for e in found.iter() if e.tag.endswith("svg")]
    assert "idx_1(p)" in "".join(example.itertext())
    assert 0 < len(list(picture)) <= count
    assert 0 < int(picture.get("width")) <= 200
    _, _, columns, rows = map(int, picture.get("viewBox").split())
    assert all(0 <= int(c.get("x")) < columns <= 48 and 0 <= int(c.get("y")) < rows <= 48 for c in picture)


def test_a_picture_shows_where_entries_are() -> None:
    found = ElementTree.fromstring(spfgen.pack(np.eye(40), "csr")._repr_html_())
    spy = next(e for e in found.iter() if e.tag.endswith("svg"))
    cells = {(int(e.get("y")), int(e.get("x"))) for e in spy}
    assert cells == {(k, k) for k in range(40)}


def test_of_a_cube_the_layout_is_shown() -> None:
    found = ElementTree.fromstring(spfgen.pack(np.ones((9, 9, 9)), "csf")._repr_html_())
    assert "9 x 9 x 9, 729 stored, float64" in found[0].text
    assert [e.tag.rpartition("}")[2] for e in found] == ["code", "details"]
    assert "how csf stores" in found[1][0].text


def test_a_notebook_shows_what_a_lazy_array_does() -> None:
    found = ElementTree.fromstring((spfgen.asarray(spfgen.pack(np.eye(3), "csr")) > 0.5)._repr_html_())
    assert "3 x 3, bool: " in found[0].text
    assert "A[i, j] > " in "".join(found[1].itertext())


def test_validation_again_sees_what_has_changed(monkeypatch):
    """The second time only the elements are looked at anew, as long as the arrays are the same ones."""
    monkeypatch.setattr(tuning, "VALIDATE_COMPILED", 0)
    monkeypatch.setattr(tuning, "VALIDATE_TINY", 0)
    matrix = sp.random_array((40, 30), density=0.3, format="csr", rng=np.random.default_rng(3))
    columns = matrix.indices.astype(np.int32)
    arrays = {"rowptr": matrix.indptr.astype(np.int32), "colidx": columns, "val": matrix.data}
    tensor = spfgen.tensor("csr", shape=(40, 30), **arrays)
    made = []
    monkeypatch.setattr(validate, "check_arrays", lambda *a, _own=validate.check_arrays: made.append(a) or _own(*a))
    for wrong in (30, -1, 7):
        assert tensor.validate() == ()
        kept, columns[7] = int(columns[7]), columns[6] if wrong == 7 else wrong
        with pytest.raises(DataError, match=f"`colidx`.*{columns[7]}"):
            tensor.validate(threads=2)
        columns[7] = kept
    assert len(made) == 1
    tensor.arrays["colidx"] = columns[:-1]
    with pytest.raises(DataError, match="with shape"):
        tensor.validate()
    tensor.arrays["colidx"] = columns + 30
    with pytest.raises(DataError, match="colidx"):
        tensor.validate()
    assert len(made) == 2


def test_wrong_arguments_are_told(tmp_path):
    tensor = spfgen.pack(DENSE, "csr")
    (tmp_path / "t.txt").write_text("no archive")
    with pytest.raises(DataError, match=r"t\.txt cannot be read: it is not an \.npz"):
        spfgen.load_tensor(tmp_path / "t.txt")
    for wrong in (lambda: tensor.save(3), lambda: spfgen.load_tensor(3)):
        with pytest.raises(UsageError, match="expected the path of a file, but this is an int"):
            wrong()
    twice = (([0, 0], [1, 1]), [1.0, 2.0])
    for function in (lambda a: a, np.sqrt, np.divmod, 3, "most"):
        with pytest.raises(UsageError, match="or a function of two values for duplicates"):
            spfgen.pack(twice, "csr", duplicates=function)
    with pytest.raises(UsageError, match="that gives a number, but it gives 'x'"):
        spfgen.pack(twice, "csr", duplicates=lambda *_: "x")
    assert spfgen.pack(twice, "csr", duplicates=lambda a, b, c=4: a * b + c).arrays["val"].tolist() == [6]


def test_values_that_do_not_fit_a_type_are_refused():
    for values, kind in (([300, 1], "int8"), ([-1, 1], "int8"), ([2**40, 1], "int32")):
        array = np.array([values])
        if values == [-1, 1]:
            np.testing.assert_array_equal(spfgen.pack(array, f"csr<{kind}>").arrays["val"], values)
            continue
        with pytest.raises(DataError, match=f"expected values that fit {kind}, but there is {values[0]}"):
            spfgen.pack(array, f"csr<{kind}>")
    for kind, values in (("uint8", [-1.0, 2.0]), ("uint8", [-1, 2]), ("int64", [0.5, 1.0])):
        with pytest.raises(DataError, match=f"expected values of {kind}"):
            spfgen.pack(np.array([values]), f"csr<{kind}>")


@pytest.mark.parametrize(("fill", "kinds"), [("-1", ["uint8", "uint64", "bool"]), ("300", ["int8", "uint8", "bool"])])
def test_fills_that_do_not_fit_a_type_are_refused(fill, kinds):
    text = f"""layout full(n) {{ relation {{ [p] -> [i] : 0 <= p < n and i = p }}
        value val[n] at [p]  fill {fill} }}"""
    layout = spfgen.parse(text).layouts["full"]
    assert spfgen.pack(np.array([1.0, 2.0]), layout).arrays["val"].tolist() == [1, 2]
    for kind in kinds:
        with pytest.raises(DataError, match=f"a fill value that {kind} has, but it is {fill}"):
            spfgen.pack(np.ones(2, kind), layout)


def test_layouts_that_were_forgotten_are_first_again() -> None:
    """A table that is full forgets all layouts: what is known of each must not outlive that."""
    layout = layout_signature.canonical(spfgen.pack(DENSE, "csr").layout)
    layout_signature._FIRST.update(dict.fromkeys(range(layout_signature.REMEMBERED), layout))
    layout_signature.canonical(replace(layout, name="another"))
    assert layout_signature.canonical(replace(layout)) is layout_signature.canonical(layout)

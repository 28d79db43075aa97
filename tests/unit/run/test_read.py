import bz2
import gzip
import lzma
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import spfgen
from spfgen.errors import DataError, SpfgenError, UsageError
from spfgen.run.coordinates import Coordinates
from spfgen.run.files import read as reading
from spfgen.run.files.read import random_data, read
from spfgen.run.files.write import write

DATA = Path(__file__).parents[2] / "data"
COORDINATE = "%%MatrixMarket matrix coordinate "
ARRAY = "%%MatrixMarket matrix array "


def coordinates(shape, *entries, dtype=float):
    """Entries given as (i, j, ..., value)."""
    coords = tuple(np.array([entry[k] for entry in entries], np.int64) for k in range(len(shape)))
    return Coordinates(shape, coords, np.array([entry[-1] for entry in entries], dtype))


def entries(data):
    """The stored entries in order, as Python numbers."""
    return list(zip(*(coord.tolist() for coord in data.coords), data.values.tolist(), strict=True))


@pytest.fixture
def text(tmp_path):
    """Write a text to a file of the given name; returns its path."""

    def make(content, name="x.mtx"):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(file)

    return make


# ---- Coordinates


def test_duplicates_mean_their_sum():
    data = coordinates((2, 3), (0, 1, 2.0), (1, 2, 5.0), (0, 1, 0.5))
    assert data.to_dense().tolist() == [[0, 2.5, 0], [0, 0, 5]]


def test_to_dense_keeps_the_dtype_and_takes_any_rank():
    assert coordinates((2,), (1, True), (1, True), dtype=bool).to_dense().tolist() == [False, True]
    assert coordinates((2,), (1, 200), dtype=np.uint8).to_dense().dtype == np.uint8
    assert coordinates((0, 4)).to_dense().shape == (0, 4)
    assert Coordinates((), (), np.array([1.0, 2.0])).to_dense() == 3
    assert Coordinates((), (), np.zeros(0)).to_dense() == 0


@pytest.mark.parametrize(
    ("shape", "coords", "values", "message"),
    [
        ((2, 2), [[0]], [1.0], "coordinates of 2 dimensions, but there are 1"),
        ((2,), [[0, 1]], [1.0], r"int64 coordinates of shape \(1,\) for dimension 0"),
        ((2,), [[2]], [1.0], "from 0 to 1 in dimension 0, but they go from 2 to 2"),
        ((2, 2), [[0], [-1]], [1.0], "in dimension 1, but they go from -1 to -1"),
        ((2,), [[0]], [[1.0]], "values in one dimension"),
    ],
)
def test_parts_must_fit(shape, coords, values, message):
    with pytest.raises(DataError, match=message):
        Coordinates(shape, tuple(np.array(coord, np.int64) for coord in coords), np.array(values))


def test_coordinates_must_be_int64():
    with pytest.raises(DataError, match="expected int64 coordinates"):
        Coordinates((2,), (np.array([0], np.int32),), np.array([1.0]))


def test_dense_form_that_does_not_fit():
    with pytest.raises(DataError, match="expected a tensor that fits in memory, but it is 10000000000 x 1000"):
        coordinates((10**10, 10**10), (0, 0, 1.0)).to_dense()


# ---- Matrix Market


def test_real_matrix_against_an_independent_reading():
    data = read(str(DATA / "bcsstk09.mtx.gz"))
    assert data.shape == (1083, 1083)
    assert len(data.values) == 18437
    assert data.values.dtype == np.float64
    assert all(coord.dtype == np.int64 for coord in data.coords)
    expected = np.zeros((1083, 1083))
    with gzip.open(DATA / "bcsstk09.mtx.gz", "rt") as stream:
        lines = [line for line in stream if not line.startswith("%")]
    assert len(lines) == 1 + 9760
    for line in lines[1:]:
        i, j, value = line.split()
        expected[int(i) - 1, int(j) - 1] = expected[int(j) - 1, int(i) - 1] = float(value)
    assert np.array_equal(data.to_dense(), expected)


def test_hermitian_is_expanded_with_conjugates():
    expected = np.array([[2, 1 + 1j, 0], [1 - 1j, 0, 0.5 - 4j], [0, 0.5 + 4j, -1]])
    data = read(str(DATA / "hermitian.mtx"))
    assert len(data.values) == 6
    assert np.array_equal(data.to_dense(), expected)


def test_pattern_is_bool_and_keeps_duplicates():
    data = read(str(DATA / "pattern.mtx"))
    assert data.values.dtype == bool
    assert entries(data) == [(0, 1, True), (2, 3, True), (2, 3, True), (1, 0, True)]


def test_skew_symmetric_integer_is_expanded(text):
    data = read(text(COORDINATE + "integer skew-symmetric\n3 3 2\n2 1 4\n3 1 -5\n"))
    assert data.values.dtype == np.int64
    assert data.to_dense().tolist() == [[0, -4, 5], [4, 0, 0], [-5, 0, 0]]


SYMMETRIES = ["symmetric", "skew-symmetric", "hermitian"]


@pytest.mark.parametrize("symmetry", SYMMETRIES)
@pytest.mark.parametrize("field", ["real", "integer", "complex", "pattern", "double"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_symmetric_files_are_expanded(text, symmetry, field, size):
    """Against the whole matrix, in both formats; either side of the diagonal may be the one that is written."""
    if field == "pattern" and symmetry != "symmetric":
        return
    random = np.random.default_rng(size)
    parts = random.integers(-9, 9, (2, size, size)) * (random.random((size, size)) < 0.6)
    whole = parts[0] + 1j * parts[1] * (field == "complex")
    if field == "pattern":
        whole = (whole != 0).astype(complex)
    lower = np.tril(whole, -1)
    other = {"symmetric": lower.T, "skew-symmetric": -lower.T, "hermitian": lower.conj().T}[symmetry]
    diagonal = np.diag(np.diagonal(whole.real if symmetry == "hermitian" else whole))
    whole = lower + other + (0 if symmetry == "skew-symmetric" else 1) * diagonal

    def shown(value):
        number = f"{value.real:.0f}"
        return {"pattern": "", "complex": f"{number} {value.imag:.0f}"}.get(field, number)

    for side in (np.tril(whole), np.triu(whole)):
        places = np.argwhere(side != 0)
        lines = [f"{i + 1} {j + 1} {shown(side[i, j])}" for i, j in places]
        path = text(f"{COORDINATE}{field} {symmetry}\n%\n{size} {size} {len(lines)}\n" + "\n".join(lines) + "\n")
        data = read(path)
        assert np.array_equal(data.to_dense(), whole)
        assert len(data.values) == np.count_nonzero(whole)
    if field != "pattern":
        first = 1 if symmetry == "skew-symmetric" else 0
        lines = [shown(whole[i, j]) for j in range(size) for i in range(j + first, size)]
        data = read(text(f"{ARRAY}{field} {symmetry}\n%\n{size} {size}\n" + "\n".join(lines) + "\n"))
        assert np.array_equal(data, whole)
        assert data.dtype == ("int64" if field == "integer" else "complex128" if field == "complex" else "float64")


def test_infinite_complex_numbers_survive_mirroring(text):
    data = read(text(COORDINATE + "complex skew-symmetric\n2 2 1\n2 1 inf 0\n"))
    assert data.values.tolist() == [complex("inf"), complex(-np.inf, -0.0)]
    data = read(text(COORDINATE + "complex hermitian\n2 2 2\n2 1 inf 1\n1 1 nan 0\n"))
    assert sorted(map(str, data.values.tolist())) == ["(inf+1j)", "(inf-1j)", "(nan+0j)"]


def test_mirrored_pairs_are_refused_and_scattered_sides_are_not(text):
    head = COORDINATE + "integer symmetric\n3 3 "
    data = read(text(head + "3\n1 2 5\n3 1 6\n3 1 4\n"))
    assert data.to_dense().tolist() == [[0, 5, 10], [5, 0, 0], [10, 0, 0]]
    with pytest.raises(DataError, match=r"one side of a symmetric .* entries at 3 1 and at 1 3\n") as caught:
        read(text(head + "4\n1 2 5\n3 1 6\n1 3 6\n2 2 0\n"))
    assert "must say general" in str(caught.value)


def test_integers_are_exact(text):
    path = text(COORDINATE + "integer general\n1 1 1\n1 1 -9223372036854775807\n")
    assert read(path).values.tolist() == [-9223372036854775807]
    path = text(COORDINATE + "unsigned-integer general\n1 1 1\n1 1 18446744073709551615\n")
    assert read(path).values.tolist() == [18446744073709551615]


def test_array_format_is_dense_and_by_column(text):
    data = read(text(ARRAY + "real general\n2 3\n1\n2\n3\n4\n5\n6\n"))
    assert isinstance(data, np.ndarray)
    assert data.tolist() == [[1, 3, 5], [2, 4, 6]]
    assert data.flags.c_contiguous
    data = read(text(ARRAY + "real symmetric\n2 2\n1\n2\n3\n"))
    assert data.tolist() == [[1, 2], [2, 3]]


@pytest.mark.parametrize(
    ("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)]
)
def test_packed_files(text, ending, pack):
    path = text(pack((DATA / "pattern.mtx").read_bytes()), "a.MTX" + ending)
    assert entries(read(path)) == entries(read(str(DATA / "pattern.mtx")))
    path = text(pack((DATA / "fibres.tns").read_bytes()), "a.tns" + ending)
    assert entries(read(path)) == entries(read(str(DATA / "fibres.tns")))


@pytest.mark.parametrize(
    ("number", "value"),
    [("4", 4), ("+4", 4), ("-.5e3", -500), ("5.", 5), ("1.0D+02", 100), ("2d-1", 0.2), ("1E+2", 100)],
)
def test_ways_to_write_a_number(text, number, value):
    assert entries(read(text(COORDINATE + f"real general\n2 2 1\n1 2 {number}\n"))) == [(0, 1, value)]
    assert read(text(ARRAY + f"real general\n1 1\n{number}\n")).tolist() == [[value]]


def test_not_finite_numbers(text):
    data = read(text(COORDINATE + "real general\n2 2 3\n1 1 nan\n1 2 -Inf\n2 2 +infinity\n"))
    assert np.isnan(data.values[0])
    assert data.values[1:].tolist() == [-np.inf, np.inf]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("end", ["", " ", "\t", "\r", "\n", "\r\n", "\n\n \n", " \n"])
def test_ends_of_a_file(text, end):
    # In a process of its own: scipy 1.17 does not survive a blank at the very end.
    path = text(COORDINATE + "integer general\n2 2 2\n\n1 1 3\n 2\t1  4" + end)
    code = "import sys; from spfgen.run.files.read import read; print(read(sys.argv[1]).to_dense().tolist())"
    ended = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "[[3, 0], [4, 0]]\n"


def test_lines_of_windows(text):
    path = text(COORDINATE + "real general\r\n% from Windows\r\n\r\n2 2 1\r\n2 1 4.5\r\n")
    assert entries(read(path)) == [(1, 0, 4.5)]


def test_empty_matrices(text):
    assert read(text(COORDINATE + "real general\n0 0 0\n")).shape == (0, 0)
    data = read(text(COORDINATE + "pattern general\n3 4 0"))
    assert (data.shape, entries(data)) == ((3, 4), [])
    for shape in ((0, 3), (3, 0), (0, 0)):
        data = read(text(ARRAY + f"integer general\n{shape[0]} {shape[1]}\n"))
        assert (data.shape, data.dtype) == (shape, np.int64)
    assert read(text(ARRAY + "real skew-symmetric\n1 1\n")).tolist() == [[0]]


def test_huge_extents_cost_nothing(text):
    data = read(text(COORDINATE + "real general\n1000000000000 2000000000000 1\n1000000000000 7 1\n"))
    assert data.shape == (10**12, 2 * 10**12)
    assert entries(data) == [(10**12 - 1, 6, 1.0)]


WRONG_MTX = [
    ("", r"x.mtx:1: expected '%%MatrixMarket matrix"),
    ("1 1 2\n", r"x.mtx:1: expected '%%MatrixMarket matrix .*, but got '1 1 2'"),
    ("%%MatrixMarket vector array real general\n1\n1\n", "x.mtx:1: expected"),
    (COORDINATE + "quaternion general\n1 1 0\n", "x.mtx:1: expected one of the .* but got 'quaternion'"),
    (COORDINATE + "real triangular\n1 1 0\n", "x.mtx:1: expected one of general .* but got 'triangular'"),
    (COORDINATE + "pattern hermitian\n1 1 0\n", "x.mtx:1: expected"),
    (ARRAY + "pattern general\n1 1\n", "x.mtx:1: expected"),
    (COORDINATE + "real general\n", "x.mtx:2: expected the numbers 'rows columns entries'"),
    (COORDINATE + "real general\n% c\n2 2\n1 1 4\n", "x.mtx:3: expected the numbers 'rows columns entries'"),
    (COORDINATE + "real general\n2 2 1 7\n1 1 4\n", "x.mtx:2: expected the numbers"),
    (COORDINATE + "real general\n2 -2 1\n1 1 4\n", "x.mtx:2: expected the numbers"),
    (COORDINATE + "real general\n2 99999999999999999999 1\n1 1 4\n", r"x.mtx:2: expected sizes below 2\^63"),
    (COORDINATE + "real symmetric\n3 2 1\n2 1 4\n", "x.mtx:2: expected a square matrix"),
    (ARRAY + "real symmetric\n3 2\n1\n2\n3\n4\n5\n", "x.mtx:2: expected a square matrix"),
    (COORDINATE + "real general\n2 2 1\n0 1 4\n", "x.mtx:3: expected a row .* within 2 x 2.*counts from 1"),
    (COORDINATE + "real general\n% c\n2 2 2\n1 1 4\n1 3 4\n", "x.mtx:5: expected a row .* but got '1 3 4'"),
    (COORDINATE + "real general\n2 2 1\n-1 1 4\n", "x.mtx:3: expected row, column and a real number"),
    (
        COORDINATE + "real general\n2 2 3\n1 1 4\n2 2 4\n",
        "x.mtx:2: expected 3 entries to follow, but there are 2",
    ),
    (COORDINATE + "real general\n2 2 3\n1 1 4\n\n2 2 4\n", "x.mtx: Truncated file"),
    (
        COORDINATE + "real general\n2 2 1\n1 1 4\n2 2 4\n",
        "x.mtx:4: expected what line 2 says, but got '2 2 4'",
    ),
    (COORDINATE + "real general\n2 2 0\n2 2 4\n", "x.mtx:2: expected no entries"),
    (ARRAY + "real general\n0 2\n4\n", "x.mtx:2: expected no entries"),
    (
        COORDINATE + "real general\n2 2 1000000000000000\n1 1 1\n",
        "x.mtx:2: expected 1000000000000000 entries",
    ),
    (ARRAY + "real general\n2 2\n1\n2\n3\n", "x.mtx:2: expected 4 entries to follow, but there are 3"),
    (ARRAY + "real general\n2 2\n1 2\n3 4\n1\n2\n", "x.mtx:3: expected a real number, but got '1 2'"),
    (ARRAY + "real general\n9000000000 9000000000\n1\n", "x.mtx:2: expected 81000000000000000000 entries"),
    (COORDINATE + "real general\n2 2 1\n1 1\n", "x.mtx:3: expected row, .* real number, but got '1 1'"),
    (COORDINATE + "real general\n2 2 1\n1 1 4 5\n", "x.mtx:3: expected row, column and a real number"),
    (COORDINATE + "real general\n2 2 2\n1 1 4\n1 1 4abc\n", "x.mtx:4: expected .*, but got '1 1 4abc'"),
    (COORDINATE + "real general\n2 2 1\n1 1 1.2.3\n", "x.mtx:3: expected"),
    (COORDINATE + "real general\n2 2 1\n1 1 0x10\n", "x.mtx:3: expected"),
    (COORDINATE + "real general\n2 2 1\n1.0 1 4\n", "x.mtx:3: expected"),
    (COORDINATE + "real general\n2 2 2\n1 1 4\n% late\n2 2 5\n", "x.mtx:4: expected .*, but got '% late'"),
    (COORDINATE + "integer general\n2 2 1\n1 1 1.5\n", "x.mtx:3: expected row, column and an integer"),
    (COORDINATE + "integer general\n2 2 1\n1 1 99999999999999999999\n", "x.mtx:3: .*Integer out of range"),
    (COORDINATE + "complex general\n2 2 1\n1 1 4\n", "x.mtx:3: expected row, column and two real numbers"),
    (COORDINATE + "pattern general\n2 2 1\n1 1 4\n", "x.mtx:3: expected row, column, but got '1 1 4'"),
    (COORDINATE + "real skew-symmetric\n2 2 1\n1 1 4\n", "x.mtx has a diagonal that is not 0"),
    (COORDINATE + "complex hermitian\n2 2 1\n1 1 4 1\n", "x.mtx has a diagonal that is not real"),
    (ARRAY + "complex hermitian\n1 1\n4 1\n", "x.mtx has a diagonal that is not real"),
    (COORDINATE + "unsigned-integer skew-symmetric\n2 2 1\n2 1 4\n", "x.mtx:1: expected a field that suits"),
    (COORDINATE + f"integer skew-symmetric\n2 2 1\n2 1 {-(2**63)}\n", "negatives fit int64, but .*x.mtx has -9"),
    (ARRAY + "real symmetric\n2 2\n1\n2\nx\n", "x.mtx:5: expected a real number, but got 'x'"),
    (ARRAY + "real symmetric\n2 2\n1\n2\n3\n4\n", "x.mtx"),
    (b"\xff\xfe\x00\x01" * 30, "x.mtx:1: expected"),
]


def test_lines_are_checked_by_c_as_by_a_pattern():
    """Lines of pieces in any order, in every field: both stop at the same line, or at none."""
    random = np.random.default_rng(5)
    pieces = [
        *"019 \t\r\n.-+eEdDx",
        "1 2 3",
        "1 2 1.5e-3",
        "\n1 1 ",
        "nan",
        "INF",
        "Infinity",
        "1 2 0.5 2.",
        " 3 4\r\n",
    ]
    stops = []
    for field, dense in [(f, d) for f in reading._VALUES for d in (False, True) if not (d and f == "pattern")]:
        header = reading.MarketHeader(dense, field, "general", (3, 3) if dense else (3, 3, 2), 2, 3)
        for _ in range(300):
            text = ("##" + "".join(random.choice(pieces, random.integers(0, 9)))).encode()
            stops.append(reading._formed(text, header))
            assert stops[-1] == reading._formed_by_pattern(text, header), text
    assert len(set(stops)) > 8


def test_long_files_as_short_ones(text, monkeypatch):
    wrong = text(COORDINATE + "real general\n3 3 2\n1 1 1\n2 2 4abc\n")
    right = text(COORDINATE + "real general\n3 3 2\n1 1 +1\n2 2 4d1 \n \n", "right.mtx")
    for long in (0, 2**62):
        monkeypatch.setattr(reading, "LONG", long)
        with pytest.raises(DataError, match=":4: expected row, column and a real number, but got '2 2 4abc'"):
            read(wrong)
        assert entries(read(right)) == [(0, 0, 1.0), (1, 1, 40.0)]


@pytest.mark.parametrize(("content", "message"), WRONG_MTX)
def test_wrong_mtx(text, content, message):
    with pytest.raises(DataError) as caught:
        read(text(content))
    assert_says(caught.value, message)


def assert_says(error, message):
    import re

    assert re.search(message, str(error), re.DOTALL), str(error)


# ---- FROSTT


def test_tns():
    data = read(str(DATA / "fibres.tns"))
    assert data.shape == (2, 3, 4)
    assert entries(data) == [(0, 0, 0, 1.5), (1, 2, 3, -2), (0, 1, 0, 0.4), (1, 2, 3, 0.25), (1, 0, 1, 7)]
    assert data.to_dense()[1, 2, 3] == -1.75
    assert data.values.dtype == np.float64


def test_tns_within_a_given_shape():
    assert read(str(DATA / "fibres.tns"), shape=(5, 3, 9)).shape == (5, 3, 9)
    with pytest.raises(DataError, match=r"fibres.tns:4: expected coordinate 3 from 1 to 3, but got '2 3 4 -2'"):
        read(str(DATA / "fibres.tns"), shape=(2, 3, 3))
    with pytest.raises(DataError, match=r"fibres.tns:3: expected 2 coordinates and a value, but got '1 1 1 1.5'"):
        read(str(DATA / "fibres.tns"), shape=(2, 3))


def test_empty_tns_needs_a_shape(text):
    path = text("# nothing\n\n", "x.tns")
    data = read(path, shape=(2, 3))
    assert (data.shape, entries(data)) == ((2, 3), [])
    with pytest.raises(DataError, match=r"expected entries, but .*x.tns has none"):
        read(path)


def test_large_coordinates_of_tns_are_exact(text):
    data = read(text("9007199254740993 1\r\n3 2\r\n", "x.tns"))
    assert data.coords[0].tolist() == [9007199254740992, 2]
    assert data.shape == (9007199254740993,)


@pytest.mark.parametrize(
    ("content", "shape", "found"),
    [
        ("2 2\n3 4\n1 1 5\n3 2 6\n", (3, 4), [(0, 0, 5), (2, 1, 6)]),
        ("2\n3 4\n1 1 5\n3 2 6\n", (3, 4), [(0, 0, 5), (2, 1, 6)]),
        ("# a comment\n\n3 1 # order and entries\n3 4 9\n\n# more\n1 1 9 -2.5\n", (3, 4, 9), [(0, 0, 8, -2.5)]),
        ("1 2\n7\n1 5\n7 6\n", (7,), [(0, 5), (6, 6)]),
        ("3 0\n3 4 9\n", (3, 4, 9), []),
        ("3\n0 4 9\n", (0, 4, 9), []),
        ("2 5\n3 4\n1 6\n", (3,), [(1, 5), (2, 4), (0, 6)]),
        ("2 5.0\n3 4\n", (3,), [(1, 5), (2, 4)]),
        ("3 5\n1 4\n", (3,), [(2, 5), (0, 4)]),
    ],
)
def test_headers_of_tns(text, content, shape, found):
    data = read(text(content, "x.tns"))
    assert data.shape == shape
    assert entries(data) == found


def test_what_may_be_a_header_or_a_vector(text):
    path = text("2 0\n4 5\n", "x.tns")
    assert entries(read(path, shape=(9,))) == [(1, 0), (3, 5)]
    assert read(path, shape=(4, 5)).shape == (4, 5)
    with pytest.raises(DataError, match=r"expected the shape 4 x 6, but .* has 4 x 5"):
        read(path, shape=(4, 6))


def test_shapes_that_are_known_in_part(text):
    assert read(str(DATA / "fibres.tns"), shape=(None, 3, 9)).shape == (2, 3, 9)
    assert read(str(DATA / "pattern.mtx"), shape=(None, None)).shape == read(str(DATA / "pattern.mtx")).shape
    with pytest.raises(DataError, match=r"expected the shape \? x 77, but .*pattern.mtx has"):
        read(str(DATA / "pattern.mtx"), shape=(None, 77))
    with pytest.raises(DataError, match="expected coordinate 2 from 1 to 2"):
        read(str(DATA / "fibres.tns"), shape=(None, 2, None))
    with pytest.raises(DataError, match="expected entries"):
        read(text("# nothing\n", "x.tns"), shape=(None, 3))


WRONG_TNS = [
    ("1 1 2\n0 1 3\n", "x.tns:2: expected coordinate 1 of at least 1, but got '0 1 3'.*count from 1"),
    ("# c\n\n1 1 2\n1 -1 3\n", "x.tns:4: expected coordinate 2 of at least 1"),
    ("1 1 2\n\n1 1 1 3\n", "x.tns:3: expected 2 whole coordinates and a value, but got '1 1 1 3'"),
    ("1 1 2\n1 3\n", "x.tns:2: expected 2 whole coordinates and a value"),
    ("1 1 2\n# c\n1 x 3\n", "x.tns:3: expected 2 whole coordinates and a value, but got '1 x 3'"),
    ("1 1.5 2\n", "x.tns:1: expected 2 whole coordinates"),
    ("1 1 2\n1 1 2,5\n", "x.tns:2: expected"),
    ("1 99999999999999999999 2\n", "x.tns:1: expected"),
    ("3\n", "x.tns:1: expected coordinates and a value"),
    ("3 3\n4 4 4\n1 1 1 5\n1 1 2 5\n", "expected 3 entries, as the header of .*x.tns says, but there are 2.*truncated"),
    ("3 1\n4 4 4\n1 1 1 5\n1 1 2 5\n", "expected 1 entries, as the header of .*x.tns says, but there are 2"),
    ("3 1\n4 4 4\n", "expected 1 entries, as the header of .*x.tns says, but there are 0"),
    ("# c\n3 1\n4 4 4\n1 1 5 2.0\n", "x.tns:4: expected coordinate 3 from 1 to 4, but got '1 1 5 2.0'"),
    ("3\n4 4 4\n1 1 1 5\n1 0 2 5\n", "x.tns:4: expected coordinate 2 from 1 to 4, but got '1 0 2 5'.*count from 1"),
    ("3\n4 4 4\n1 1 1 5\n1 1 5\n", "x.tns:4: expected 3 whole coordinates and a value, but got '1 1 5'"),
    ("2 0\n4 5\n", "may be either.*say its shape"),
    ("2 2\n4 5\n", "may be either.*say its shape"),
    ("3 1\n4 4\n1 1 1 5\n", "x.tns:2: expected 1 whole|x.tns:3: expected 1 whole"),
    ("# spfgen shape: 2 x\n1 1 1\n", "x.tns:1: expected extents"),
    (b"\x00\x01\xff\n", "x.tns:1: expected"),
]


@pytest.mark.parametrize(("content", "message"), WRONG_TNS)
def test_wrong_tns(text, content, message):
    with pytest.raises(DataError) as caught:
        read(text(content, "x.tns"))
    assert_says(caught.value, message)


# ---- numpy


def test_npy(tmp_path):
    array = np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3))
    np.save(tmp_path / "x.npy", array)
    data = read(str(tmp_path / "x.npy"))
    assert data.tolist() == array.tolist()
    assert data.dtype == np.dtype("float32")
    assert data.dtype.isnative
    assert data.flags.c_contiguous
    np.save(tmp_path / "x.npy", np.float64(3))
    assert read(str(tmp_path / "x.npy")).shape == ()


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "bsr", "dia"])
def test_sparse_npz(tmp_path, form):
    dense = np.array([[0, 1.5, 0, 0], [2, 0, 0, -3]])
    sparse.save_npz(tmp_path / "x.npz", sparse.coo_array(dense).asformat(form))
    data = read(str(tmp_path / "x.npz"))
    assert isinstance(data, Coordinates)
    assert np.array_equal(data.to_dense(), dense)


def test_npz_keeps_duplicates_and_explicit_zeros(tmp_path):
    matrix = sparse.csr_array(([1.0, 2.0, 0.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    sparse.save_npz(tmp_path / "x.npz", matrix)
    assert entries(read(str(tmp_path / "x.npz"))) == [(0, 1, 1.0), (0, 1, 2.0), (1, 0, 0.0)]


@pytest.mark.parametrize("damage", ["indptr", "indices"])
def test_sparse_npz_that_lies(tmp_path, damage):
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(np.eye(3)))
    arrays = dict(np.load(tmp_path / "x.npz"))
    arrays[damage][1] = 2_000_000
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(DataError, match=r"expected a readable file, but .*x.npz"):
        read(str(tmp_path / "x.npz"))


def test_npz_of_arrays(tmp_path):
    path = str(tmp_path / "x.npz")
    np.savez(path, images=np.arange(4))
    assert read(path).tolist() == [0, 1, 2, 3]
    np.savez(path, images=np.arange(4), labels=np.ones(2))
    with pytest.raises(DataError, match=r"x.npz holds images, labels") as caught:
        read(path)
    assert caught.value.notes == (f"choose one as {path}:NAME",)
    assert read(path + ":labels").tolist() == [1, 1]
    with pytest.raises(DataError, match=r"expected an array 'label', but .*x.npz holds images, labels"):
        read(path + ":label")


def test_tensors_that_were_saved(tmp_path):
    made = spfgen.tensor("csr", shape=(2, 3), rowptr=[0, 1, 2], colidx=[2, 0], val=[5.0, 0.0])
    made.save(tmp_path / "x.npz")
    data = read(str(tmp_path / "x.npz"))
    assert (data.shape, entries(data)) == ((2, 3), [(0, 2, 5.0), (1, 0, 0.0)])
    assert read(str(tmp_path / "x.npz:array.val")).tolist() == [5.0, 0.0]
    content = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(content[:-50])
    with pytest.raises(DataError, match=r"x\.npz"):
        read(str(tmp_path / "x.npz"))


def test_objects_are_not_unpickled(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}], object))
    np.savez(tmp_path / "x.npz", a=np.array([{}], object))
    for name in ("x.npy", "x.npz"):
        with pytest.raises(DataError, match=f"expected a readable file, but .*{name}: it holds objects of Python"):
            read(str(tmp_path / name))


def test_text_is_no_number(tmp_path):
    np.save(tmp_path / "x.npy", np.array(["a"]))
    with pytest.raises(DataError, match=r"expected numbers or bool, but .*x.npy holds <U1"):
        read(str(tmp_path / "x.npy"))


def test_exchanged_endings(tmp_path):
    np.save(tmp_path / "x.npy", np.ones(2))
    (tmp_path / "x.npy").rename(tmp_path / "y.npz")
    np.savez(tmp_path / "x.npz", np.ones(2))
    (tmp_path / "x.npz").rename(tmp_path / "y.npy")
    with pytest.raises(DataError, match=r"rename it to \.npy"):
        read(str(tmp_path / "y.npz"))
    with pytest.raises(DataError, match=r"rename it to \.npz"):
        read(str(tmp_path / "y.npy"))


def test_archive_of_something_else(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("letter.txt", "hello")
    with pytest.raises(DataError):
        read(str(tmp_path / "x.npz"))


# ---- any file


@pytest.mark.parametrize("name", ["x.mtx", "x.mtx.gz", "x.tns", "x.npy", "x.npz", "x.npz:a"])
def test_missing_file_and_folder(tmp_path, name):
    with pytest.raises(DataError, match=r"expected a file to read, but there is no .*x\."):
        read(str(tmp_path / name))
    (tmp_path / name.removesuffix(":a")).mkdir()
    with pytest.raises(DataError, match=r"expected a readable file, but .*x\.\w+.*: Is a directory"):
        read(str(tmp_path / name))


def test_unknown_ending(tmp_path):
    with pytest.raises(DataError, match=r"one of \.mtx .* \.npz, but got .*x\.csv"):
        read(str(tmp_path / "x.csv"))


def test_shape_that_was_expected(tmp_path):
    assert read(str(DATA / "pattern.mtx"), shape=(3, 4)).shape == (3, 4)
    with pytest.raises(DataError, match=r"expected the shape 4 x 3, but .*pattern.mtx has 3 x 4"):
        read(str(DATA / "pattern.mtx"), shape=(4, 3))
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(DataError, match="expected the shape 2, but"):
        read(str(tmp_path / "x.npy"), shape=(2,))


def samples(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(12.0).reshape(3, 4))
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(np.eye(5)))
    for name in ("hermitian.mtx", "pattern.mtx", "fibres.tns"):
        (tmp_path / name).write_bytes((DATA / name).read_bytes())
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((DATA / name).read_bytes(), mtime=0))
        (tmp_path / f"{name}.xz").write_bytes(lzma.compress((DATA / name).read_bytes()))
    return sorted(file for file in tmp_path.iterdir() if file.is_file())


def read_or_refuse(path):
    """Whatever the bytes are: data that hold together, or a DataError that names the file."""
    try:
        read(str(path))
    except DataError as error:
        message = str(error)
    else:
        return True
    assert path.name in message
    return False


@pytest.mark.exhaustive
def test_truncated_files(tmp_path):
    for file in samples(tmp_path):
        content = file.read_bytes()
        assert read_or_refuse(file)
        for length in range(len(content)):
            file.write_bytes(content[:length])
            accepted = read_or_refuse(file)
            # A text without its last characters may still be a text.
            assert not accepted or file.suffix in (".mtx", ".tns"), (file, length)


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_read_or_refused(tmp_path):
    random = np.random.default_rng(7)
    for file in samples(tmp_path):
        content = file.read_bytes()
        for _ in range(150):
            damaged = bytearray(content)
            for place in random.integers(0, len(content), random.integers(1, 4)):
                damaged[place] = random.choice(list(b"0159-+.eE \n\t%#x\x00\xff"))
            file.write_bytes(bytes(damaged))
            read_or_refuse(file)


# ---- random


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_random_dense_is_in_the_half_open_interval(dtype):
    data = random_data((200, 100), dtype=dtype)
    assert (data.shape, data.dtype) == ((200, 100), dtype)
    assert data.min() >= -1
    assert data.max() < 1
    assert abs(data.astype(float).mean()) < 0.02
    assert len(np.unique(data)) > 1500


@pytest.mark.parametrize(
    ("shape", "density"), [((40, 50), 0.1), ((40, 50), 0.9), ((3, 4, 5), 0.5), ((7,), 1.0), ((10, 10), 0.0)]
)
def test_random_coordinates_are_distinct(shape, density):
    data = random_data(shape, density, seed=3)
    assert len(data.values) == round(density * np.prod(shape))
    places = list(zip(*(coord.tolist() for coord in data.coords), strict=True))
    assert len(set(places)) == len(places)
    assert places == sorted(places)


def test_random_places_are_spread_evenly():
    counts = sum(random_data((4, 6), 0.25, seed=seed, dtype=bool).to_dense().astype(int) for seed in range(800))
    assert counts.sum() == 800 * 6
    assert counts.min() > 140
    assert counts.max() < 260


def test_random_in_a_huge_box():
    shape = (60114, 83826, 23034, 1132, 100)
    data = random_data(shape, 1e-15)
    assert len(data.values) == round(1e-15 * 60114 * 83826 * 23034 * 1132 * 100) > 10_000
    assert all(coord.max() > 0.99 * extent - 2 for coord, extent in zip(data.coords, shape, strict=True))


def test_random_depends_on_the_seed_only():
    one, same, other = (random_data((30, 30), 0.1, seed=seed) for seed in (1, 1, 2))
    assert entries(one) == entries(same) != entries(other)


def test_random_of_other_kinds():
    integers = random_data((1000,), dtype="int32")
    assert (integers.dtype, integers.min(), integers.max()) == (np.int32, -9, 9)
    stored = random_data((100, 100), 0.3, dtype="int8").values
    assert (stored.dtype, stored.min(), stored.max(), np.any(stored == 0)) == (np.int8, -9, 9, False)
    assert random_data((1000,), dtype="uint8").max() == 9
    assert set(random_data((100,), dtype=bool).tolist()) == {False, True}
    assert random_data((100,), 0.5, dtype=bool).values.all()
    both = random_data((1000,), dtype="complex64")
    assert both.dtype == np.complex64
    assert both.real.min() < -0.9 < 0.9 < both.imag.max() < 1
    assert not np.array_equal(both.real, both.imag)


def test_random_of_empty_shapes():
    assert random_data((0, 3)).shape == (0, 3)
    assert random_data(()).shape == ()
    assert len(random_data((0, 3), 0.5).values) == 0
    assert len(random_data((), 1.0).values) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((2, -1),), "expected extents of at least 0"),
        (((2, 2), 1.5), "expected a density from 0 to 1, but got 1.5"),
        (((2, 2), float("nan")), "expected a density from 0 to 1"),
        (((2, 2), None, 0, "U3"), "expected a dtype of numbers or bool"),
    ],
)
def test_random_wrong_arguments(arguments, message):
    with pytest.raises(UsageError, match=message):
        random_data(*arguments)


def test_random_that_does_not_fit():
    with pytest.raises(DataError, match="expected data that fit in memory"):
        random_data((10**10, 10**10))


# ---- write


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int8", "int64", "uint64", bool])
@pytest.mark.parametrize("ending", [".npz", ".mtx", ".mtx.gz"])
def test_matrix_round_trip(tmp_path, dtype, ending):
    data = random_data((20, 30), 0.2, dtype=dtype)
    path = str(tmp_path / f"x{ending}")
    write(path, data)
    back = read(path)
    assert back.shape == data.shape
    assert np.array_equal(back.to_dense(), data.to_dense())  # every bit: a float32 may come back as float64
    assert back.values.dtype.kind == data.values.dtype.kind


@pytest.mark.parametrize("dtype", ["float16", "float64", "complex128", "int32", bool])
@pytest.mark.parametrize("ending", [".npy", ".npz", ".mtx", ".mtx.gz"])
def test_dense_round_trip(tmp_path, dtype, ending):
    data = random_data((5, 7), dtype=dtype)
    path = str(tmp_path / f"x{ending}")
    write(path, data)
    back = read(path)
    assert isinstance(back, np.ndarray)
    assert np.array_equal(back, data)


@pytest.mark.parametrize("ending", [".tns", ".tns.gz"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_tensor_round_trip_keeps_the_shape(tmp_path, ending, dtype):
    data = random_data((9, 8, 7, 6), 0.01, dtype=dtype)
    path = str(tmp_path / f"x{ending}")
    write(path, data)
    back = read(path)
    assert back.shape == (9, 8, 7, 6)  # no entry has the last coordinate of each dimension
    assert entries(back) == entries(data)
    with pytest.raises(DataError, match=r"expected the shape 9 x 8 x 7 x 7, but .* has 9 x 8 x 7 x 6"):
        read(path, shape=(9, 8, 7, 7))


def test_dense_array_as_tns(tmp_path):
    path = str(tmp_path / "x.tns")
    write(path, np.array([[0, 0.1], [0, 0]]))
    assert Path(path).read_text() == "# spfgen shape: 2 2\n1 2 0.1\n"
    write(path, np.zeros((2, 2, 2)), force=True)
    assert read(path).shape == (2, 2, 2)


@pytest.mark.parametrize("ending", [".mtx", ".tns"])
def test_special_numbers_and_duplicates_survive(tmp_path, ending):
    values = [np.nan, np.inf, -np.inf, -0.0, 5e-324, 0.1, 1 / 3, 1.7976931348623157e308]
    data = coordinates((3, 3), *((1, 2, value) for value in values))
    path = str(tmp_path / f"x{ending}")
    write(path, data)
    back = read(path)
    assert back.values.tobytes() == data.values.tobytes()
    assert back.coords[0].tolist() == [1] * len(values)


def test_bool_is_written_as_pattern(tmp_path):
    write(tmp_path / "x.mtx", coordinates((2, 2), (0, 1, True), dtype=bool))
    assert (tmp_path / "x.mtx").read_text().startswith("%%MatrixMarket matrix coordinate pattern general\n")
    write(tmp_path / "y.mtx", coordinates((2, 2), (0, 1, True), (1, 1, False), dtype=bool))
    assert entries(read(str(tmp_path / "y.mtx"))) == [(0, 1, 1), (1, 1, 0)]


def test_existing_file_stays_unless_forced(tmp_path):
    path = tmp_path / "x.npy"
    path.write_text("precious")
    with pytest.raises(UsageError, match=r"but .*x\.npy exists") as caught:
        write(path, np.ones(2))
    assert any("--force" in note for note in caught.value.notes)
    assert path.read_text() == "precious"
    write(path, np.ones(2), force=True)
    assert read(str(path)).tolist() == [1, 1]


def test_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    (tmp_path / "x.npy").write_text("precious")

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(UsageError, match="No space left on device"):
        write(tmp_path / "x.npy", np.ones(2), force=True)
    with pytest.raises(UsageError):
        write(tmp_path / "new.npy", np.ones(2))
    assert [file.name for file in tmp_path.iterdir()] == ["x.npy"]
    assert (tmp_path / "x.npy").read_text() == "precious"


def test_same_data_same_bytes(tmp_path):
    data = random_data((20, 20), 0.1)
    write(tmp_path / "a.mtx.gz", data)
    write(tmp_path / "b.mtx.gz", data)
    assert (tmp_path / "a.mtx.gz").read_bytes() == (tmp_path / "b.mtx.gz").read_bytes()


MATRIX = coordinates((2, 2), (0, 1, 1.0))
TENSOR = coordinates((2, 2, 2), (0, 1, 1, 1.0))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.csv", MATRIX, r"one of \.npy \.npz \.mtx \.mtx\.gz \.tns \.tns\.gz, but got .*x\.csv"),
        ("x.mtx.xz", MATRIX, "expected a file ending in one of"),
        ("x.npy", MATRIX, "expected a dense array"),
        ("x.mtx", TENSOR, "expected two dimensions .* but there are 3"),
        ("x.npz", TENSOR, "expected two dimensions .* but there are 3"),
        ("x.mtx", np.ones(3), "expected two dimensions .* but there are 1"),
        ("x.tns", np.ones((2, 2), complex), "expected real numbers"),
        ("x.tns", np.float64(1).reshape(()), "expected real numbers"),
        ("x.npy", np.array(["a"]), "expected numbers or bool"),
        ("x.npz", coordinates((2, 2), (0, 1, 1.0), dtype="float16"), "float16"),
        ("no/x.npy", np.ones(2), "cannot be written: No such file or directory"),
    ],
)
def test_wrong_writes(tmp_path, name, data, message):
    with pytest.raises(UsageError, match=message):
        write(tmp_path / name, data)
    assert list(tmp_path.iterdir()) == []


def test_write_does_not_replace_what_is_no_file(tmp_path):
    (tmp_path / "x.npy").mkdir()
    with pytest.raises(UsageError, match="something else"):
        write(tmp_path / "x.npy", np.ones(2), force=True)


def test_write_goes_through_a_symbolic_link(tmp_path):
    (tmp_path / "link.npy").symlink_to(tmp_path / "file.npy")
    write(tmp_path / "link.npy", np.ones(2))
    assert (tmp_path / "link.npy").is_symlink()
    assert read(str(tmp_path / "file.npy")).tolist() == [1, 1]


def test_all_errors_are_ours():
    assert issubclass(DataError, SpfgenError)
    code = "import sys, spfgen.run.files.read, spfgen.run.files.write; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

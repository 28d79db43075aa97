"""Read matrices and tensors from files, or draw random ones.

A file is a user's input: whatever is wrong with it ends in a DataError that names the file and, where there
is one, the line. Matrix Market text is checked here before scipy parses it: scipy (1.17) reads `4abc` as 4,
`1.0D+02` as 1 and 1.5 as the integer 1, ignores what follows on a line, fills a symmetric array that is not
square with memory that is not its own, and ends the process when an array has no rows or the text ends in a
blank without a newline. Symmetric files are expanded here, too.
"""

from __future__ import annotations

import io
import logging
import math
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spfgen.errors import DataError, SpfgenError, UsageError
from spfgen.lang.expressions import there_are
from spfgen.progress import task
from spfgen.run.coordinates import Coordinates, extents_text
from spfgen.run.files.write import SHAPE_COMMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import DTypeLike, NDArray

LOGGER = logging.getLogger(__name__)
ENDINGS = (
    *(f".mtx{packed}" for packed in ("", ".gz", ".xz", ".bz2")),
    *(f".tns{packed}" for packed in ("", ".gz", ".xz", ".bz2")),
    ".npy",
    ".npz",
)

LARGEST = 2**63 - 1
LONG = 2**22
"""Characters from which on the form of lines is checked by compiled C."""


def read(path: str, *, shape: tuple[int | None, ...] | None = None) -> Coordinates | NDArray[Any]:
    """Read a file by its ending; sparse formats give Coordinates, dense ones a C-contiguous ndarray.

    .mtx (.gz .xz .bz2): Matrix Market. Symmetric, skew-symmetric and hermitian files are expanded; the values
    are float64, int64, uint64 or complex128, and bool (all True) for `pattern`. The array format is dense.
    .tns (.gz .xz .bz2): FROSTT, values are float64. The extents are those of a first comment (`# spfgen shape: 3 4`) or
    of two first lines (the order, and the number of entries; the extents), else the largest coordinates.
    .npy, .npz: numpy. An .npz is a scipy.sparse matrix, a tensor that Tensor.save wrote, or holds one array, or is
    written `file.npz:NAME`.

    `shape` is what the caller expects, None for extents that are not known; a .tns may have larger ones than its
    coordinates tell. Raises DataError for all that can be wrong with the file.
    """
    file, name = _split_name(str(path))
    kind = _kind(file)
    LOGGER.debug("reading %s", path)
    with task(f"reading {Path(file).name}"), _blame(file):
        if kind == "mtx":
            data = read_market(file, _unpack(file))
        elif kind == "tns":
            return read_tns(file, _unpack(file), shape)
        elif kind == "npy":
            data = _read_npy(file)
        else:
            data = _read_npz(file, name)
    if not _agree(shape, data.shape):
        raise DataError(f"expected the shape {extents_text(shape or ())}, but {path} has {extents_text(data.shape)}")
    return data


def random_data(
    shape: tuple[int, ...], density: float | None = None, seed: int = 0, dtype: DTypeLike = "float64"
) -> Coordinates | NDArray[Any]:
    """Random data: an ndarray when `density` is None, else Coordinates with `density * size` distinct places.

    Real numbers are uniform in [-1, 1), as are both parts of complex ones; integers are from -9 to 9 (0 to 9
    when unsigned; stored ones are not 0); bool is either, stored ones are True. The places are sorted by row.
    Memory is proportional to the entries, not to the box. Raises UsageError for a wrong argument and
    DataError when the data do not fit in memory.
    """
    import numpy as np

    kind = np.dtype(dtype)
    if kind.kind not in "biufc":
        raise UsageError(f"expected a dtype of numbers or bool, but got {kind}")
    if any(extent < 0 for extent in shape):
        raise UsageError(f"expected extents of at least 0, but the shape is {shape}")
    if density is not None and not 0 <= density <= 1:
        raise UsageError(f"expected a density from 0 to 1, but got {density}")
    random = np.random.default_rng(seed)
    size = math.prod(shape)
    try:
        count = size if density is None else min(size, round(density * size))
        if density is None:
            return _random_values(random, count, kind, nonzero=False).reshape(shape)
        coords = _random_places(random, shape, count)
        return Coordinates(tuple(shape), coords, _random_values(random, count, kind, nonzero=True))
    except (MemoryError, ValueError, OverflowError) as error:
        raise DataError(f"expected data that fit in memory, but {extents_text(shape)} of {kind} do not") from error


# ---- files


def _split_name(path: str) -> tuple[str, str | None]:
    """`file.npz:NAME` in its two parts."""
    match = re.match(r"(.*?\.npz):(.*)$", path, re.IGNORECASE | re.DOTALL)
    return (match[1], match[2]) if match else (path, None)


def _kind(file: str) -> str:
    for ending in ENDINGS:
        if file.lower().endswith(ending):
            return ending.split(".")[1]
    raise DataError(f"expected a file ending in one of {' '.join(ENDINGS)}, but got {file}")


@contextmanager
def _blame(file: str) -> Iterator[None]:
    """Turn whatever a reader raises into a DataError about the file."""
    try:
        yield
    except SpfgenError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"expected a file to read, but there is no {file}") from error
    except EOFError as error:
        raise DataError(f"expected a complete file, but {file} ends too early") from error
    # zipfile, zlib, lzma, numpy and scipy raise a dozen unrelated classes for damaged files, RuntimeError and
    # NotImplementedError among them.
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        if "allow_pickle" in reason:
            reason = "it holds objects of Python, not numbers"
        if not reason.isprintable() or len(reason) > 200:  # some repeat what they could not read
            reason = _shown(reason)
        raise DataError(f"expected a readable file, but {file}: {reason}") from error


def _unpack(file: str) -> bytes:
    """The text of the file. All of it, so that a truncated archive shows before anything is parsed."""
    data = Path(file).read_bytes()
    lower = file.lower()
    if lower.endswith(".gz"):
        import gzip

        try:
            return gzip.decompress(data)
        except gzip.BadGzipFile as error:
            raise DataError(f"expected a file that gzip wrote, but {file} is not one") from error
    if lower.endswith(".xz"):
        import lzma

        return lzma.decompress(data)
    if lower.endswith(".bz2"):
        import bz2

        return bz2.decompress(data)
    return data


def _shown(line: bytes | str) -> str:
    """A line of a file as it may appear in a message: short, printable."""
    text = line.decode("latin-1") if isinstance(line, bytes) else line
    text = text.strip()
    if not text.replace("\t", " ").isprintable():  # a terminal may obey what binary files hold
        return "binary data"
    return repr(text if len(text) <= 60 else text[:57] + "...")


# ---- Matrix Market

_BLANK = rb"[ \t]*+"
_GAP = rb"[ \t]++"
_INDEX = rb"\d++"
_INTEGER = rb"[-+]?\d++"
_REAL = rb"[-+]?(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:[eEdD][-+]?\d++)?|(?i:nan|infinity|inf))"
_FROM_FORTRAN = bytes.maketrans(b"dD", b"eE")
_VALUES = {
    "real": (_REAL, "a real number"),
    "double": (_REAL, "a real number"),
    "integer": (_INTEGER, "an integer"),
    "unsigned-integer": (_INDEX, "an integer of at least 0"),
    "complex": (_REAL + _GAP + _REAL, "two real numbers"),
    "pattern": (b"", "nothing"),
}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


@dataclass(frozen=True)
class MarketHeader:
    """What the first lines of a Matrix Market file say, and where the entries begin."""

    dense: bool
    field: str
    symmetry: str
    sizes: tuple[int, ...]
    """Rows and columns, and for the coordinate format the number of stored entries."""
    start: int
    line: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sizes[:2]

    @property
    def stored(self) -> int:
        """The number of lines that must follow."""
        rows, columns = self.shape
        if not self.dense:
            return self.sizes[2]
        if self.symmetry == "general":
            return rows * columns
        return rows * (rows - 1) // 2 if self.symmetry == "skew-symmetric" else rows * (rows + 1) // 2


def read_market(file: str, text: bytes) -> Coordinates | NDArray[Any]:
    import numpy as np

    header = market_header(file, text)
    _check_mtx_entries(file, text, header)
    if header.stored == 0:
        return _empty_mtx(file, text, header)
    matrix = _parsed_mtx(file, text, header)
    if header.dense:
        return _whole_array(file, header, _plain(file, np.asarray(matrix)))
    coords = tuple(np.ascontiguousarray(coord, np.int64) for coord in (matrix.row, matrix.col))
    values = np.asarray(matrix.data)
    if header.field == "pattern":  # scipy makes up 1.0 for each; there were no numbers in the file
        values = np.ones(values.shape, np.bool_)
    return whole_matrix(file, header, Coordinates(header.shape, coords, _plain(file, values)))


def _parsed_mtx(file: str, text: bytes, header: MarketHeader) -> Any:
    """What is written in the file and no more: scipy reads it as a general matrix.

    Its own expansion of symmetric ones doubles entries that are stored on both sides and loses infinite complex ones.
    The values of a symmetric array are read as a column.
    """
    from scipy.io import mmread

    kind = "array" if header.dense else "coordinate"
    sizes = header.sizes
    if header.dense and header.symmetry != "general":
        sizes = (header.stored, 1)
    # Lines keep their numbers, which scipy's messages give.
    lines = "%\n" * (header.line - 3)
    banner = f"%%MatrixMarket matrix {kind} {header.field} general\n{lines}{' '.join(map(str, sizes))}\n"
    # Fortran writes 1.0D+02 and +1, both of which scipy misunderstands; now that the form of each line is
    # known, no other letter d and no plus that matters can occur.
    entries: bytes | memoryview = memoryview(text)[header.start : len(text) - _space_at_end(text)]
    if any(text.find(letter, header.start) >= 0 for letter in (b"d", b"D", b"+")):
        entries = bytes(entries).translate(_FROM_FORTRAN, b"+")
    try:
        return mmread(io.BytesIO(b"".join([banner.encode(), entries, b"\n"])))
    except (ValueError, OverflowError) as error:
        raise _mtx_error(file, text, header, str(error)) from error


def whole_matrix(file: str, header: MarketHeader, half: Coordinates) -> Coordinates:
    """With the entries on the other side of the diagonal. Raises DataError when the file is not what it says."""
    import numpy as np

    if header.symmetry == "general":
        return half
    (rows, columns), values = half.coords, half.values
    _check_diagonal(file, header, values[rows == columns])
    off = rows != columns
    below = rows > columns
    if below.any() and not below[off].all():
        _check_one_side(file, header, half)
    mirrored = _mirrored(file, header, values[off])
    coords = (np.concatenate([rows, columns[off]]), np.concatenate([columns, rows[off]]))
    return Coordinates(half.shape, coords, np.concatenate([values, mirrored]))


def _whole_array(file: str, header: MarketHeader, array: NDArray[Any]) -> NDArray[Any]:
    """The array itself; a symmetric one from the column of its values on and below the diagonal, column by column."""
    import numpy as np

    if header.symmetry == "general":
        return array
    values = array.reshape(-1)
    skew = header.symmetry == "skew-symmetric"
    columns, rows = np.triu_indices(header.shape[0], int(skew))
    _check_diagonal(file, header, values[rows == columns])
    whole = np.zeros(header.shape, values.dtype)
    whole[columns, rows] = _mirrored(file, header, values)
    whole[rows, columns] = values
    return whole


def _mirrored(file: str, header: MarketHeader, values: NDArray[Any]) -> NDArray[Any]:
    """The values on the other side of the diagonal."""
    import numpy as np

    if header.symmetry == "hermitian":
        return np.asarray(np.conj(values))
    if header.symmetry == "symmetric":
        return values
    if values.dtype.kind == "i" and values.size and values.min() == np.iinfo(values.dtype).min:
        raise DataError(f"expected integers whose negatives fit {values.dtype}, but {file} has {values.min()}")
    return np.asarray(np.negative(values))


def _check_diagonal(file: str, header: MarketHeader, values: NDArray[Any]) -> None:
    """The diagonal of a skew-symmetric matrix is 0, that of a hermitian one is real. Nothing is known of nan."""
    wrong, what = None, ""
    if header.symmetry == "skew-symmetric":
        wrong, what = (values != 0) & (values == values), "0"
    elif header.symmetry == "hermitian":
        wrong, what = (values.imag != 0) & (values.imag == values.imag), "real"
    if wrong is not None and wrong.any():
        raise DataError(f"expected a {header.symmetry} matrix, but {file} has a diagonal that is not {what}")


def _check_one_side(file: str, header: MarketHeader, half: Coordinates) -> None:
    """No place is stored together with the mirrored one: there would be two meanings."""
    import numpy as np

    rows, columns = half.coords
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    order = np.lexsort((rows, low, high))
    rows, low, high = rows[order], low[order], high[order]
    both = np.flatnonzero((low[1:] == low[:-1]) & (high[1:] == high[:-1]) & (rows[1:] != rows[:-1]))
    if both.size:
        i, j = int(high[both[0]]) + 1, int(low[both[0]]) + 1
        raise DataError(
            f"expected one side of a {header.symmetry} matrix, but {file} has entries at {i} {j} and at {j} {i}",
            notes=["if all entries are there, the first line must say general"],
        )


def _empty_mtx(file: str, text: bytes, header: MarketHeader) -> Coordinates | NDArray[Any]:
    import numpy as np

    if text[header.start :].strip():
        raise DataError(f"{file}:{header.line - 1}: expected no entries, as this line says, but some follow")
    kinds = {"integer": "int64", "unsigned-integer": "uint64", "complex": "complex128", "pattern": "bool"}
    values = np.zeros(0, kinds.get(header.field, "float64"))
    nowhere = np.zeros(0, np.int64)
    data = Coordinates(header.shape, (nowhere, nowhere), values)
    return data.to_dense() if header.dense else data


def market_header(file: str, text: bytes) -> MarketHeader:
    banner = re.match(rb"[^\n]*+\n?", text)
    first = banner[0] if banner else b""
    words = first.decode("latin-1").lower().split()
    formats = ("coordinate", "array")
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"] or words[2] not in formats:
        wanted = "'%%MatrixMarket matrix coordinate|array FIELD SYMMETRY'"
        raise DataError(f"{file}:1: expected {wanted}, but {f'got {_shown(first)}' if text else 'the file is empty'}")
    dense, field, symmetry = words[2] == "array", words[3], words[4]
    if symmetry == "skew-symmetric" and field == "unsigned-integer":
        raise DataError(f"{file}:1: expected a field that suits {symmetry}, but got {field!r}")
    if field not in _VALUES or (dense and field == "pattern"):
        raise DataError(f"{file}:1: expected one of the fields {' '.join(_VALUES)}, but got {field!r}")
    if symmetry not in _SYMMETRIES or (field == "pattern" and symmetry not in _SYMMETRIES[:2]):
        wanted = f"one of {' '.join(_SYMMETRIES)} that suits {field}"
        raise DataError(f"{file}:1: expected {wanted}, but got {symmetry!r}")
    comments = re.compile(rb"(?:[ \t]*+(?:%[^\n]*+)?\r?\n)*+").match(text, len(first))
    begin = comments.end() if comments else len(first)
    end = text.find(b"\n", begin) + 1 or len(text)
    line = text.count(b"\n", 0, begin) + 1
    numbers = text[begin:end].split()
    names = "rows columns" if dense else "rows columns entries"
    if len(numbers) != len(names.split()) or not all(re.fullmatch(_INDEX, number) for number in numbers):
        raise DataError(f"{file}:{line}: expected the numbers '{names}', but got {_shown(text[begin:end])}")
    sizes = tuple(int(number) if len(number) < 20 else LARGEST + 1 for number in numbers)
    if max(sizes) > LARGEST:
        raise DataError(f"{file}:{line}: expected sizes below 2^63, but got {_shown(text[begin:end])}")
    if symmetry != "general" and sizes[0] != sizes[1]:
        raise DataError(f"{file}:{line}: expected a square matrix ({symmetry}), but it is {extents_text(sizes[:2])}")
    return MarketHeader(dense, field, symmetry, sizes, end, line + 1)


def _check_mtx_entries(file: str, text: bytes, header: MarketHeader) -> None:
    """Check the form of every line, and that as many as announced can follow, before memory is asked for."""
    meaning = _VALUES[header.field][1]
    if not header.dense:
        meaning = "row, column" + ("" if header.field == "pattern" else f" and {meaning}")
    good = _formed(text, header) if len(text) >= LONG else None
    if good is None:
        good = _formed_by_pattern(text, header)
    if good < len(text):
        line = header.line + text.count(b"\n", header.start, good)
        wrong = text[good : good + 100].partition(b"\n")[0]
        raise DataError(f"{file}:{line}: expected {meaning}, but got {_shown(wrong)}")
    lines = text.count(b"\n", header.start) + (not text.endswith(b"\n"))
    if lines < header.stored:
        raise DataError(
            f"{file}:{header.line - 1}: expected {header.stored} entries to follow, but {there_are(lines)}",
            notes=["the file may be truncated"],
        )


def _space_at_end(text: bytes) -> int:
    tail = text[-4096:]
    return len(tail) - len(tail.rstrip()) if tail.strip() else len(text) - len(text.rstrip())


def _formed_by_pattern(text: bytes, header: MarketHeader) -> int:
    """How much of the text is lines of the right form."""
    value, _ = _VALUES[header.field]
    if not header.dense:
        value = _INDEX + _GAP + _INDEX + (_GAP + value if value else b"")
    form = re.compile(rb"(?:" + _BLANK + rb"(?:" + value + _BLANK + rb")?(?:\r?\n|\r?\Z))*+")
    match = form.match(text, header.start)
    return match.end() if match else header.start


def _formed(text: bytes, header: MarketHeader) -> int | None:
    """The same by compiled C; None when there is no compiler.

    A pattern needs ten times as long as scipy needs to read the numbers.
    """
    import ctypes

    from spfgen.cir.lower.files import runtime
    from spfgen.errors import ToolError
    from spfgen.run.compile import build, load

    try:
        check = load(build(runtime("mtx_lines.h") + "\n")).spfgen_mtx_lines
    except ToolError:
        return None
    check.restype = ctypes.c_int64
    check.argtypes = [ctypes.c_char_p, *[ctypes.c_int64] * 2, *[ctypes.c_int] * 4]
    numbers = {"pattern": 0, "complex": 2}.get(header.field, 1)
    sign, fraction = header.field != "unsigned-integer", header.field in ("real", "double", "complex")
    return int(check(text, header.start, len(text), 0 if header.dense else 2, numbers, sign, fraction))


def _mtx_error(file: str, text: bytes, header: MarketHeader, reason: str) -> DataError:
    match = re.match(r"Line (\d+): (.*)", reason)
    if not match:
        return DataError(f"expected a Matrix Market file, but {file}: {reason}")
    lines = text.splitlines()
    line = int(match[1])
    content = lines[line - 1] if line <= len(lines) else b""
    if "out of bounds" in match[2]:
        zero = [b"0"] if b"0" in content.split()[:2] else []
        wanted = f"a row and a column within {extents_text(header.shape)}"
        return DataError(
            f"{file}:{line}: expected {wanted}, but got {_shown(content)}",
            notes=["Matrix Market counts from 1"] if zero else [],
        )
    wanted = f"what line {header.line - 1} says"
    return DataError(f"{file}:{line}: expected {wanted}, but got {_shown(content)}: {match[2]}")


# ---- FROSTT


@dataclass(frozen=True)
class _List:
    """A FROSTT text: where its entries begin, and what its first lines say, if they say something."""

    file: str
    text: bytes
    shape: tuple[int, ...] | None = None
    count: int | None = None
    skipped: int = 0
    """So many lines belong to the header."""

    def lines(self) -> Iterator[tuple[int, list[str]]]:
        """The lines with entries: their number in the file and their words."""
        return (line for line in _worded_lines(self.text) if line[0] > self.skipped)


def read_tns(file: str, text: bytes, shape: tuple[int | None, ...] | None) -> Coordinates:
    import numpy as np

    entries = tns_header(file, text, shape)
    if entries.shape is not None and not _agree(shape, entries.shape):
        raise DataError(f"expected the shape {extents_text(shape or ())}, but {file} has {extents_text(entries.shape)}")
    known: tuple[int | None, ...] | None = shape if entries.shape is None else entries.shape
    _, first = next(entries.lines(), (0, []))
    if not first:
        _check_count(entries, 0)
        if known is None or None in known:
            notes = ["an empty tensor can be read when its shape is given"]
            raise DataError(f"expected entries, but {file} has none", notes=notes)
        full = tuple(extent for extent in known if extent is not None)
        return Coordinates(full, tuple(np.zeros(0, np.int64) for _ in full), np.zeros(0))
    order = len(first) - 1
    if order < 1 or (known is not None and order != len(known)):
        wanted = f"{len(known)} coordinates and a value" if known is not None else "coordinates and a value"
        raise _tns_error(entries, 0, f"expected {wanted}", [])
    columns = [(f"c{dimension}", np.int64) for dimension in range(order)]
    types = [*columns, ("value", np.float64)]
    try:
        table = np.loadtxt(_lines(text), dtype=types, comments="#", ndmin=1, skiprows=entries.skipped)
    except ValueError as error:
        raise _wrong_tns_line(entries, order, str(error)) from error
    _check_count(entries, len(table))
    coords, extents = [], []
    for dimension, (name, _) in enumerate(columns):
        coord = np.ascontiguousarray(table[name])
        extent = known[dimension] if known is not None else None
        _check_column(entries, dimension, coord, extent)
        coords.append(coord - 1)
        extents.append(int(coord.max()) if extent is None else extent)
    return Coordinates(tuple(extents), tuple(coords), np.ascontiguousarray(table["value"]))


def _check_column(entries: _List, dimension: int, coord: NDArray[np.int64], extent: int | None) -> None:
    """The coordinates of a dimension count from 1 and are within the extent, when that is known."""
    import numpy as np

    outside = np.flatnonzero((coord < 1) | (coord > (LARGEST if extent is None else extent)))
    if outside.size:
        wanted = "of at least 1" if extent is None else f"from 1 to {extent}"
        notes = ["FROSTT files count from 1"] if coord.min() == 0 else []
        raise _tns_error(entries, int(outside[0]), f"expected coordinate {dimension + 1} {wanted}", notes)


def _check_count(entries: _List, count: int) -> None:
    if entries.count is not None and entries.count != count:
        raise DataError(
            f"expected {entries.count} entries, as the header of {entries.file} says, but there are {count}",
            notes=["the file may be truncated"] if count < entries.count else [],
        )


def tns_header(file: str, text: bytes, shape: tuple[int | None, ...] | None) -> _List:
    """What the first lines say: our comment, or a line with the order (and the number of entries) and one of extents.

    Raises DataError when such lines may just as well be the entries of a vector.
    """
    stated_shape = _said_shape(file, text)
    if stated_shape is not None:
        return _List(file, text, stated_shape)
    head = [line for _, line in zip(range(3), _worded_lines(text), strict=False)]
    if len(head) < 2 or not all(re.fullmatch("[0-9]{1,18}", word) for _, words in head[:2] for word in words):
        return _List(file, text)
    first, (number, extents), entry_lines = head[0][1], head[1], head[2:]
    order, counts = int(first[0]), [int(word) for word in first[1:]]
    if len(first) > 2 or len(extents) != order or (entry_lines and len(entry_lines[0][1]) != order + 1):
        return _List(file, text)
    if len(first) == len(extents) == 2 and not entry_lines:
        if shape is None:
            raise DataError(
                f"expected entries or the header of an empty matrix, but {file} may be either",
                notes=["say its shape"],
            )
        if len(shape) == 1:
            return _List(file, text)
    return _List(file, text, tuple(map(int, extents)), counts[0] if counts else None, number)


def _agree(wanted: tuple[int | None, ...] | None, shape: tuple[int, ...]) -> bool:
    """Whether the shape is the wanted one, as far as that is known."""
    if wanted is None:
        return True
    return len(wanted) == len(shape) and all(w is None or w == f for w, f in zip(wanted, shape, strict=True))


def _said_shape(file: str, text: bytes) -> tuple[int, ...] | None:
    if not text.startswith(SHAPE_COMMENT.encode()):
        return None
    words = text.partition(b"\n")[0].decode("latin-1").removeprefix(SHAPE_COMMENT).split()
    if not all(re.fullmatch("[0-9]{1,18}", word) for word in words):
        got = _shown(" ".join(words))
        raise DataError(f"{file}:1: expected extents after '{SHAPE_COMMENT}', but got {got}")
    return tuple(int(word) for word in words)


def _lines(text: bytes) -> io.TextIOWrapper:
    # Latin-1 has a character for every byte: a comment may be in any encoding.
    return io.TextIOWrapper(io.BytesIO(text), encoding="latin-1")


def _worded_lines(text: bytes) -> Iterator[tuple[int, list[str]]]:
    """The lines that are more than a comment: their number in the file and their words."""
    for number, line in enumerate(_lines(text), start=1):
        words = line.partition("#")[0].split()
        if words:
            yield number, words


def _tns_error(entries: _List, row: int, wanted: str, notes: list[str]) -> DataError:
    for index, (number, words) in enumerate(entries.lines()):
        if index == row:
            return DataError(f"{entries.file}:{number}: {wanted}, but got {_shown(' '.join(words))}", notes=notes)
    return DataError(f"{entries.file}: {wanted}, but got another")


def _wrong_tns_line(entries: _List, order: int, reason: str) -> DataError:
    """Which line numpy stumbled over; it counts only those with entries."""
    for number, words in entries.lines():
        if len(words) != order + 1 or not (_all(int, words[:-1]) and _all(float, words[-1:])):
            wanted = f"{order} whole coordinates and a value"
            return DataError(f"{entries.file}:{number}: expected {wanted}, but got {_shown(' '.join(words))}")
    return DataError(f"expected a FROSTT file, but {entries.file}: {reason}")


def _all(convert: type[int] | type[float], words: list[str]) -> bool:
    try:
        numbers = [convert(word) for word in words]
    except ValueError:
        return False
    return convert is float or all(abs(number) <= LARGEST for number in numbers)


# ---- numpy


def _loaded(file: str) -> Any:
    """What numpy.load gives, which takes everything that it does not know for a pickle."""
    import numpy as np

    with Path(file).open("rb") as stream:
        begin = stream.read(6)
    if begin and not begin.startswith((b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06")):
        raise DataError(f"expected a file that numpy.save or numpy.savez wrote, but {file} is not one")
    return np.load(file, allow_pickle=False)


def _read_npy(file: str) -> NDArray[Any]:
    import numpy as np

    array = _loaded(file)
    if not isinstance(array, np.ndarray):
        array.close()
        raise DataError(f"expected one array, but {file} is an archive", notes=["rename it to .npz"])
    return _plain(file, array)


def _read_npz(file: str, name: str | None) -> Coordinates | NDArray[Any]:
    import numpy as np

    archive = _loaded(file)
    if isinstance(archive, np.ndarray):
        raise DataError(f"expected an archive, but {file} is one array", notes=["rename it to .npy"])
    with archive:
        names = list(archive.files)
        if name is None and {"format", "shape", "data"} <= set(names):
            return _read_sparse(file)
        if name is None and {"spfgen", "layout"} <= set(names):
            from spfgen.run.store import load_tensor

            return load_tensor(file).to_coo()
        if name is None and len(names) == 1:
            name = names[0]
        if name not in names:
            inside = ", ".join(names) or "nothing"
            if name is None:
                raise DataError(
                    f"expected a sparse matrix or one array, but {file} holds {inside}",
                    notes=[f"choose one as {file}:NAME"],
                )
            raise DataError(f"expected an array {name!r}, but {file} holds {inside}")
        return _plain(file, archive[name])


def _read_sparse(file: str) -> Coordinates:
    import numpy as np
    from scipy import sparse

    matrix = sparse.load_npz(file)
    if hasattr(matrix, "check_format"):
        # The expansion below is C that trusts these arrays.
        matrix.check_format(full_check=True)
    stored = matrix.tocoo()
    places = getattr(stored, "coords", None) or (stored.row, stored.col)
    coords = tuple(np.ascontiguousarray(coord, np.int64) for coord in places)
    shape = tuple(int(extent) for extent in stored.shape)
    try:
        return Coordinates(shape, coords, _plain(file, np.asarray(stored.data)))
    except DataError as error:
        raise DataError(f"{file}: {error.message}") from error


def _plain(file: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array as numbers in the byte order of this machine, C-contiguous."""
    import numpy as np

    if array.dtype.kind not in "biufc":
        raise DataError(f"expected numbers or bool, but {file} holds {array.dtype}")
    return np.require(array, dtype=array.dtype.newbyteorder("="), requirements="C")


# ---- random


def _random_values(random: np.random.Generator, count: int, kind: np.dtype[Any], *, nonzero: bool) -> NDArray[Any]:
    import numpy as np

    if kind.kind == "b":
        return np.ones(count, kind) if nonzero else random.integers(0, 2, count).astype(kind)
    if kind.kind in "iu":
        integers = random.integers(1 if nonzero else 0, 10, count)
        if kind.kind == "i":
            integers *= random.choice(np.array([-1, 1]), count)
        return integers.astype(kind)
    # Multiples of a power of two that the dtype holds exactly: rounding could turn 0.99... into 1.
    bits = min(52, np.finfo(kind).nmant)
    parts = random.integers(-(2**bits), 2**bits, (2 if kind.kind == "c" else 1, count)) / 2.0**bits
    values: NDArray[Any] = parts[0] + 1j * parts[1] if kind.kind == "c" else parts[0]
    return values.astype(kind)


def _random_places(random: np.random.Generator, shape: tuple[int, ...], count: int) -> tuple[NDArray[np.int64], ...]:
    """`count` distinct places, each set of them equally likely, in lexicographic order."""
    import numpy as np

    if count == 0 or not shape:
        return tuple(np.zeros(count, np.int64) for _ in shape)
    size = math.prod(shape)
    if 2 * count > size:
        linear = np.sort(random.permutation(size)[:count])
        return tuple(np.ascontiguousarray(coord, np.int64) for coord in np.unravel_index(linear, shape))
    # Draw with repetition until there are enough different ones, then leave out any of them. Linear positions
    # would not do: the sizes of real tensors exceed 2^63.
    drawn = np.zeros((len(shape), 0), np.int64)
    while drawn.shape[1] < count:
        more = count - drawn.shape[1] + 16
        fresh = np.stack([random.integers(0, extent, more) for extent in shape])
        drawn = np.concatenate([drawn, fresh], axis=1)
        drawn = drawn[:, np.lexsort(drawn[::-1])]
        differs = np.any(drawn[:, 1:] != drawn[:, :-1], axis=0)
        drawn = drawn[:, np.concatenate([[True], differs])]
    kept = np.sort(random.permutation(drawn.shape[1])[:count])
    return tuple(np.ascontiguousarray(coord) for coord in drawn[:, kept])

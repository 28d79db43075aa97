"""One big text of coordinates, Matrix Market or FROSTT, read in ranges of bytes: whole lines, each by one range.

Each range is read and cut into what goes to each block; a block is packed from what all ranges have for it. No task
holds more than a range, or a block.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from spfgen.cluster.cuts import Bounds, Box, boxes
from spfgen.cluster.tasks import packed, split
from spfgen.errors import DataError, UsageError
from spfgen.run.coordinates import Coordinates
from spfgen.run.files.read import MarketHeader, market_header, read_market, read_tns, tns_header, whole_matrix
from spfgen.run.files.write import SHAPE_COMMENT

MOST_HEAD = 2**20
"""The bytes among which a FROSTT text is looked at for a header."""


@dataclass(frozen=True)
class TextFile:
    """A file that can be read in ranges: its shape, where its entries begin, and how many it says to have."""

    path: str
    shape: tuple[int, ...]
    start: int
    end: int
    count: int | None
    market: MarketHeader | None = None

    def ranges(self, size: int) -> list[TextRange]:
        """Of about `size` bytes each, at least one."""
        count = max(1, -(-(self.end - self.start) // size))
        cuts = [self.start + (self.end - self.start) * k // count for k in range(count + 1)]
        return [TextRange(self, low, high) for low, high in pairwise(cuts)]

    def example(self, layout: Any) -> Any:
        """A small block: without entries, of the type that the header says."""
        kinds = {"integer": "int64", "unsigned-integer": "uint64", "complex": "complex128", "pattern": "bool"}
        kind = kinds.get(self.market.field, "float64") if self.market else "float64"
        nowhere = tuple(np.zeros(0, np.int64) for _ in self.shape)
        return packed(Coordinates((1,) * len(self.shape), nowhere, np.zeros(0, kind)), layout, strict=False)

    @property
    def stamp(self) -> tuple[int, int]:
        """Tells versions of the file apart."""
        status = Path(self.path).stat()
        return status.st_mtime_ns, status.st_size


@dataclass(frozen=True)
class TextRange:
    """Reads the lines that begin in [begin, end)."""

    text: TextFile
    begin: int
    end: int

    def __call__(self) -> tuple[Coordinates, int]:
        """The entries, those on the other side of the diagonal of a symmetric matrix among them, and how many are in
        these lines. Raises DataError with file and line."""
        file, lines = self.text.path, self._lines()
        with self._numbered():
            if self.text.market is None:
                shape = " ".join(map(str, self.text.shape))
                entries = read_tns(file, f"{SHAPE_COMMENT} {shape}\n".encode() + lines, None)
                return entries, len(entries.values)
            return self._market(self.text.market, file, lines)

    def _market(self, header: MarketHeader, file: str, lines: bytes) -> tuple[Coordinates, int]:
        rows, columns = header.shape
        count = sum(1 for line in lines.splitlines() if line.strip())
        head = f"%%MatrixMarket matrix coordinate {header.field} general\n{rows} {columns} {count}\n"
        half = read_market(file, head.encode() + lines)
        assert isinstance(half, Coordinates)
        if header.symmetry != "general" and not (half.coords[0] >= half.coords[1]).all():
            message = f"expected entries of a {header.symmetry} matrix on and below the diagonal, but {file} has others"
            raise DataError(message, None, ("read it whole: spfgen.blocks(spfgen.load_tensor(...), ...)",))
        return whole_matrix(file, header, half), count

    def _lines(self) -> bytes:
        with Path(self.text.path).open("rb") as stream:
            begin = self.begin
            if begin > self.text.start:
                stream.seek(begin - 1)
                begin += len(stream.readline()) - 1  # the rest of a line that began before
            stream.seek(begin)
            lines = stream.read(max(0, self.end - begin))
            return lines if not lines or lines.endswith(b"\n") else lines + stream.readline()

    @contextmanager
    def _numbered(self) -> Iterator[None]:
        """Lines are counted from the begin of the file. Only then is what stands before read."""
        try:
            yield
        except DataError as error:
            skipped = self._skipped()
            header_lines = 2 if self.text.market is not None else 1

            def counted(match: re.Match[str]) -> str:
                return f"{self.text.path}:{max(1, int(match[1]) - header_lines + skipped)}:"

            message = re.sub(re.escape(self.text.path) + r":(\d+):", counted, error.message)
            raise DataError(message, error.span, error.notes) from None

    def _skipped(self) -> int:
        """How many lines begin before the first of the range."""
        with Path(self.text.path).open("rb") as stream:
            left, count = self.begin - (self.begin > self.text.start), 0
            while left > 0 and (some := stream.read(min(left, 2**22))):
                count, left = count + some.count(b"\n"), left - len(some)
            return count + (self.begin > self.text.start)


@dataclass(frozen=True)
class SplitLines:
    """What a range has for each block, and under () how many entries its lines are."""

    part: TextRange
    bounds: tuple[Bounds, ...]

    def __call__(self) -> dict[tuple[int, ...], Any]:
        entries, count = self.part()
        return {**split(entries, self.bounds), (): count}


@dataclass(frozen=True)
class GatheredBlock:
    """A block, of what all ranges have for it."""

    text: TextFile
    box: Box
    layout: Any

    def __call__(self, counts: Sequence[int], parts: Sequence[Coordinates]) -> Any:
        if self.text.count is not None and sum(counts) != self.text.count:
            message = f"expected {self.text.count} entries in {self.text.path}, as its header says"
            raise DataError(f"{message}, but there are {sum(counts)}", None, ("the file may be truncated",))
        shape = tuple(high - low for low, high in self.box)
        columns = tuple(np.concatenate([p.coords[d] for p in parts]) for d in range(len(shape)))
        values = np.concatenate([p.values for p in parts])
        return packed(Coordinates(shape, columns, values), self.layout, strict=True)


def opened_text(path: str, shape: Sequence[int] | None = None) -> TextFile:
    """Looks at the header alone. Raises DataError; UsageError for packed files, and where `shape` is needed."""
    file = Path(path)
    if file.suffix not in (".mtx", ".tns"):
        hint = ("unpack it first: ranges of bytes cannot be cut out of a packed file",)
        raise UsageError(f"expected a .mtx or .tns file, but it is {path}", None, hint)
    if not file.is_file():
        raise DataError(f"expected a file to read, but there is no {path}")
    opened = _opened_market(file) if file.suffix == ".mtx" else _opened_tns(file, shape)
    if shape is not None and tuple(shape) != opened.shape:
        raise DataError(f"expected the shape {tuple(shape)}, but {path} has {opened.shape}")
    return opened


def _opened_market(file: Path) -> TextFile:
    with file.open("rb") as stream:
        lines = [stream.readline()]
        while (line := stream.readline()) and (line.startswith(b"%") or not line.strip()):
            lines.append(line)
    header = market_header(os.fspath(file), b"".join([*lines, line]))
    if header.dense:
        raise UsageError(f"expected stored entries, but {file} is a dense array", None, ("`da.from_array` cuts one",))
    return TextFile(os.fspath(file.absolute()), header.shape, header.start, file.stat().st_size, header.stored, header)


def _opened_tns(file: Path, shape: Sequence[int] | None) -> TextFile:
    with file.open("rb") as stream:
        head = stream.read(MOST_HEAD)
    header = tns_header(os.fspath(file), head, None if shape is None else tuple(shape))
    if header.shape is None and shape is None:
        hint = ("say it: shape=(...)",)
        raise UsageError(f"expected the shape, which {file} does not say, because it is read only once", None, hint)
    start = sum(len(line) for line in head.splitlines(keepends=True)[: header.skipped])
    extents = header.shape or tuple(shape or ())
    return TextFile(os.fspath(file.absolute()), extents, start, file.stat().st_size, header.count)


def graph_of(text: TextFile, bounds: tuple[Bounds, ...], layout: Any, size: int, name: str) -> dict[Any, Any]:
    """Tasks: each range is read once, and only what a block needs of it goes there."""
    tasks: dict[Any, Any] = {}
    ranges = text.ranges(size)
    for number, part in enumerate(ranges):
        tasks[f"lines-{name}", number] = (SplitLines(part, bounds),)
        for place in ((), *boxes(bounds)):
            tasks[f"piece-{name}", number, *place] = (_piece, (f"lines-{name}", number), list(place))
    counts = [(f"piece-{name}", k) for k in range(len(ranges))]
    for place, box in boxes(bounds).items():
        pieces = [(f"piece-{name}", k, *place) for k in range(len(ranges))]
        tasks[name, *place] = (GatheredBlock(text, box, layout), counts, pieces)
    return tasks


def _piece(pieces: Mapping[tuple[int, ...], Any], place: Sequence[int]) -> Any:
    return pieces[tuple(place)]

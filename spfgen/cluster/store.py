"""Tensors in blocks in files: an .npz or a group of Zarr for each block, opened without reading an array.

Nothing that a file says is executed or unpickled. A block is checked when it is read: what it says of itself against
what the whole says of it, its arrays against its layout; a DataError names the file, the block and the array.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from spfgen.cluster.blocked import Blocked
from spfgen.cluster.construction import blocks, bounds_for, small
from spfgen.cluster.cuts import Bounds, Box, boxes, shown
from spfgen.cluster.tasks import MakeBlock
from spfgen.errors import DataError, SpfgenError, UsageError
from spfgen.run.calls.detect_layout import tensor_of
from spfgen.run.store import (
    ABOUT,
    DAMAGE,
    TEXT,
    load_tensor,
    said_of,
    save,
    shape_said,
    tensor_of_file,
    texts_of,
    unpacked_bytes,
)
from spfgen.run.tensor import Tensor

Place = tuple[int, ...]

BLOCK = "block"
"""The entry of an .npz, and the attribute of a group, that says where the block lies."""
BLOCKS = "blocks"
"""The attribute of a Zarr root that says the bounds along each axis."""
CODECS = frozenset("bytes zstd gzip blosc crc32c transpose".split())
"""Of Zarr: others may be anything, such as pickles."""


@dataclass(frozen=True)
class StoredBlocks:
    """A tensor in blocks in files. `parts[place]` reads the block at that place of the grid that `bounds` make: a
    function without arguments, that goes to other processes."""

    bounds: tuple[Bounds, ...]
    parts: Mapping[Place, Callable[[], Tensor]]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(b[-1] for b in self.bounds)

    def boxes(self) -> dict[Place, Box]:
        """(from, below) along each axis, of each block."""
        return boxes(self.bounds)

    def to_blocked(self, layout: Any = None) -> Blocked:
        """A collection of these blocks, each read when it is needed; with a layout they are packed in it then."""
        from dask.base import tokenize
        from dask.highlevelgraph import HighLevelGraph

        from spfgen.cluster.placement import placed

        def example() -> Any:
            return small(tasks[min(tasks)][0](self.parts[min(tasks)]()))

        name = f"read-{tokenize(self.bounds, sorted(self.parts.items()), str(layout))}"
        tasks = {
            p: (MakeBlock(layout, tuple(h - w for w, h in b), None, b), (self.parts[p],))
            for p, b in self.boxes().items()
        }
        layer, is_placed = placed({(name, *p): task for p, task in tasks.items()}, [len(b) - 1 for b in self.bounds])
        graph = HighLevelGraph.from_collections(name, layer)
        sizes = {place: getattr(part, "nbytes", None) for place, part in self.parts.items()}
        known = {place: size for place, size in sizes.items() if size is not None}
        weights = known if layout is None and len(known) == len(self.parts) else None
        memory = None if len(known) < len(self.parts) else sum(known.values())
        return Blocked(graph, name, self.bounds, example, layout, memory, weights=weights, placed=is_placed)


def opened(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> StoredBlocks:
    """Blocks in files: a pattern or a list of names of .npz files, or a folder that `to_zarr` wrote.

    Files that `to_npz` wrote say where their blocks lie; others that Tensor.save wrote are put one below the other, in
    the order of the list, for a pattern in that of the numbers in their names. Raises DataError, UsageError.
    """
    if isinstance(path, str | os.PathLike) and Path(path).is_dir():
        return _opened_zarr(os.fspath(path))
    if isinstance(path, str | os.PathLike):
        pattern = Path(path)
        files = sorted(map(os.fspath, pattern.parent.glob(pattern.name)), key=_by_numbers)
    else:
        files = [os.fspath(p) for p in path]
    if not files:
        raise UsageError(f"expected files of blocks, but there are none at {path}")
    return _opened_npz(files)


def _by_numbers(name: str) -> list[tuple[int, str]]:
    return [(int(word), "") if word.isdigit() else (-1, word) for word in re.split(r"(\d+)", name)]


def read_blocks(path: Any, asked: Any, count: Any, layout: Any, shape: Any, size: int) -> Blocked:
    """See spfgen.read_blocks."""
    if isinstance(path, str | os.PathLike) and re.search(r"\.(mtx|tns)(\.\w+)?$", os.fspath(path)):
        return _of_text(os.fspath(path), asked, count, layout, shape, size)
    stored = opened(path)
    if shape is not None and tuple(shape) != stored.shape:
        raise DataError(f"expected the shape {tuple(shape)}, but the blocks make {stored.shape}")
    blocked = stored.to_blocked(layout)
    return blocks(blocked, asked, count, None, layout, None) if asked or count else blocked


def _of_text(path: str, asked: Any, count: Any, layout: Any, shape: Any, size: int) -> Blocked:
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    from spfgen.cluster.text_ranges import graph_of, opened_text
    from spfgen.run.arrays.made import of_coordinates

    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise UsageError(f"expected a number of bytes to read at once, but it is {size!r}")
    text = opened_text(path, shape)
    bounds = tuple(bounds_for(text.shape, None, layout, asked, count, None))
    wanted = layout or of_coordinates(len(bounds))
    name = f"read-{tokenize(text, text.stamp, bounds, str(wanted), size)}"
    graph = HighLevelGraph.from_collections(name, graph_of(text, bounds, wanted, size, name))
    return Blocked(graph, name, bounds, lambda: text.example(wanted), wanted)


# ---- .npz


@dataclass(frozen=True)
class NpzBlock:
    """Reads a block; `stamp` tells versions of the file apart, `nbytes` is what it takes in memory."""

    path: str
    box: Box
    stamp: tuple[int, int]
    nbytes: int | None = None

    def __call__(self) -> Tensor:
        with _about(self.path, self.box):
            return _fitting(load_tensor(self.path), self.box)


def _opened_npz(files: Sequence[str]) -> StoredBlocks:
    headers = [texts_of(f, BLOCK, ABOUT, TEXT) for f in files]
    where = _said_boxes(files, headers) if any(BLOCK in s for s in headers) else _stacked(files, headers)
    named = {place: file for file, (place, _) in zip(files, where, strict=True)}
    box_of = dict(where)
    _check_grid(files, [place for place, _ in where])
    rank = len(where[0][0])
    sides = [{place[d]: box[d] for place, box in box_of.items()} for d in range(rank)]
    bounds = tuple((0, *[side[k][1] for k in sorted(side)]) for side in sides)
    wrong = next((named[p] for p, box in boxes(bounds).items() if box_of.get(p) != box), None)
    if wrong is not None:
        raise DataError(f"expected blocks without gaps or overlaps, but {wrong} does not fit")
    return StoredBlocks(bounds, {p: _npz_block(named[p], box) for p, box in box_of.items()})


def _npz_block(file: str, box: Box) -> NpzBlock:
    return NpzBlock(file, box, _stamp(file), unpacked_bytes(file))


def _check_grid(files: Sequence[str], places: Sequence[Place]) -> None:
    """Raise DataError where two files hold the same block, or a block of the grid that the others span is missing."""
    file_of: dict[Place, str] = {}
    for file, place in zip(files, places, strict=True):
        if len(place) != len(places[0]):
            message = f"expected blocks of one rank, but {files[0]} has {len(places[0])} and {file} {len(place)} axes"
            raise DataError(message)
        if place in file_of:
            raise DataError(f"expected a file for each block, but {file_of[place]} and {file} both hold block {place}")
        file_of[place] = file
    extents = [1 + max(place[d] for place in places) for d in range(len(places[0]))]
    if len(file_of) < prod(extents):
        flat = range(min(prod(extents), len(file_of) + 4))
        missing = [place for place in (_place(number, extents) for number in flat) if place not in file_of]
        more = "" if len(file_of) + len(missing) == prod(extents) else " and others"
        there, which = " x ".join(map(str, extents)), ", ".join(map(str, missing))
        raise DataError(f"expected a file for each of {there} blocks, but there is none for {which}{more}")


def _place(number: int, extents: Sequence[int]) -> Place:
    """The place of a block that is the `number`-th one by rows."""
    place: list[int] = []
    for extent in reversed(extents):
        number, last = divmod(number, extent)
        place.append(last)
    return tuple(reversed(place))


def _stacked(files: Sequence[str], headers: Sequence[Mapping[str, str]]) -> list[tuple[Place, Box]]:
    """Of files that do not say where they belong: one below the other."""
    places: list[tuple[Place, Box]] = []
    begin = 0
    for number, (file, one) in enumerate(zip(files, headers, strict=True)):
        with _about(file, None):
            shape = shape_said(json.loads(one[ABOUT]), one[TEXT])
        box = ((begin, begin + shape[0]), *[(0, n) for n in shape[1:]])
        places.append(((number, *[0] * (len(shape) - 1)), box))
        begin += shape[0]
        if places[0][1][1:] != box[1:]:
            message = f"expected blocks that can be stacked, but {files[0]} and {file} differ in extents of other axes"
            raise DataError(message, None, ("`to_npz` writes files with the bounds of their blocks",))
    return places


def _said_boxes(files: Sequence[str], headers: Sequence[Mapping[str, str]]) -> list[tuple[Place, Box]]:
    places: list[tuple[Place, Box]] = []
    for file, one in zip(files, headers, strict=True):
        with _about(file, None):
            if BLOCK not in one:
                raise DataError("it does not state the bounds of its block, as the others do")
            about = json.loads(one[BLOCK])
            place, box = tuple(map(int, about["place"])), _box(about["bounds"])
            if len(place) != len(box) or min(place) < 0:
                raise ValueError("no place of a block")
            places.append((place, box))
    return places


def _box(bounds: Any) -> Box:
    box = tuple((int(low), int(high)) for low, high in bounds)
    if not box or not all(0 <= low <= high for low, high in box):
        raise ValueError("no bounds of a block")
    return box


def _stamp(file: str) -> tuple[int, int]:
    status = Path(file).stat()
    return status.st_mtime_ns, status.st_size


def to_npz(blocks: Any, path: str | os.PathLike[str], *, force: bool = False) -> list[str]:
    """Write each block to a file, from where it is: `to_npz(A, "A-*.npz")` writes A-0-0.npz and so on, and gives their
    names. `blocks` are those of an array of dask or of another collection with `bounds`.

    Raises UsageError for a path without a `*` and, without `force`, for files that exist.
    """
    if Path(path).name.count("*") != 1 or Path(path).suffix != ".npz":
        raise UsageError(f"expected a path like A-*.npz, with a * for the place of the block, but it is {path}")
    pattern = Path(path).absolute()  # workers may be elsewhere
    folder, name = pattern.parent, pattern.name

    def writer(place: Place, box: Box) -> NpzWriter:
        return NpzWriter(os.fspath(folder / name.replace("*", "-".join(map(str, place)))), place, box, force)

    written = _each(blocks, writer)
    return sorted(written, key=_by_numbers)


@dataclass(frozen=True)
class NpzWriter:
    path: str
    place: Place
    box: Box
    force: bool

    def __call__(self, block: Any) -> str:
        tensor = _fitting(tensor_of(block, "the block"), self.box)
        save(tensor, self.path, self.force, {BLOCK: json.dumps({"place": self.place, "bounds": self.box})})
        return self.path


def _each(blocks: Any, writer: Callable[[Place, Box], Any]) -> list[str]:
    """What the writers give, which run where the blocks are."""
    from dask.base import compute
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph

    bounds, name = bounds_of(blocks), f"write-{blocks.name}"
    layer = {(name, *p): (writer(p, box), (blocks.name, *p)) for p, box in boxes(bounds).items()}
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[blocks])
    return list(compute(*[Delayed(key, graph, layer=name) for key in layer]))


def bounds_of(blocks: Any) -> tuple[Bounds, ...]:
    """Of an array of dask, from the sizes of its chunks; of what has `bounds`, these. Raises UsageError."""
    if hasattr(blocks, "bounds"):
        return tuple(tuple(b) for b in blocks.bounds)
    if not hasattr(blocks, "chunks"):
        raise UsageError("expected tensors in blocks, or an array of dask", None, ("`da.from_array` makes one",))
    bounds = []
    for sizes in blocks.chunks:
        if any(n != n for n in sizes):
            raise UsageError("expected chunks of known sizes", None, ("array.compute_chunk_sizes() finds them",))
        bounds.append((0, *accumulate(sizes)))
    return tuple(bounds)


# ---- Zarr


@dataclass(frozen=True)
class ZarrBlock:
    path: str
    name: str
    box: Box
    stamp: tuple[int, int]
    nbytes: int | None = None

    def __call__(self) -> Tensor:
        with _about(f"{self.path}/{self.name}", self.box):
            group = _zarr().open_group(self.path, path=self.name, mode="r")
            attributes = dict(group.attrs)
            if _box(attributes[BLOCK]) != self.box:
                raise DataError(f"it states the bounds {shown(_box(attributes[BLOCK]))}")
            arrays = {n: _array(n, a) for n, a in group.arrays()}
            return _fitting(tensor_of_file(attributes[ABOUT], attributes[TEXT], arrays), self.box)


def _array(name: str, array: Any) -> Any:
    """The numbers of an array of Zarr. Raises DataError where a chunk is missing, and for what is not plain numbers."""
    codecs = {c["name"] for c in array.metadata.to_dict().get("codecs", [{"name": "those of another version"}])}
    if not codecs <= CODECS or array.dtype.kind not in "biufc":
        wrong = ", ".join(sorted(codecs - CODECS)) or str(array.dtype)
        raise DataError(f"expected plain numbers in array `{name}`, but it has {wrong}")
    if array.nchunks_initialized != array.nchunks:
        there = f"{array.nchunks_initialized} of {array.nchunks} chunks are there"
        raise DataError(f"expected all of array `{name}`, but {there}")
    try:
        return array[...]
    except Exception as error:  # codecs raise what they like
        raise DataError(f"array `{name}` is damaged ({error})") from error


def _opened_zarr(path: str) -> StoredBlocks:
    with _about(path, None):
        attributes = dict(_zarr().open_group(path, mode="r").attrs)
        if BLOCKS not in attributes:
            raise DataError("its blocks were not all written, or it holds no tensor in blocks")
        bounds = tuple(tuple(map(int, b)) for b in attributes[BLOCKS])
        if not bounds or not all(b[0] == 0 and all(low <= high for low, high in pairwise(b)) for b in bounds):
            raise DataError("its bounds do not rise from 0")
        groups = {g.parent.name: g for g in Path(path).glob("*/zarr.json")}
        if prod(len(b) - 1 for b in bounds) > len(groups):
            raise DataError(f"its bounds make {_times(bounds)} blocks, but it has {len(groups)} groups")
    parts = {}
    for place, box in boxes(bounds).items():
        name = ".".join(map(str, place))
        if name not in groups:
            raise DataError(f"block {shown(box)}: {path} has no group {name}")
        stamp = _stamp(os.fspath(groups[name]))
        parts[place] = ZarrBlock(os.fspath(Path(path).absolute()), name, box, stamp, _bytes_said(groups[name].parent))
    return StoredBlocks(bounds, parts)


def _bytes_said(group: Path) -> int | None:
    """The bytes of the arrays of a group, by their descriptions, which planners count with."""
    total = 0
    for file in group.glob("*/zarr.json"):
        try:
            description = json.loads(file.read_text(encoding="utf-8"))
            total += prod(map(int, description["shape"])) * np.dtype(description["data_type"]).itemsize
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return None
    return total


def to_zarr(blocks: Any, path: str | os.PathLike[str], *, force: bool = False) -> str:
    """Write each block to a group of a Zarr folder, from where it is, and give the path. `blocks` as for `to_npz`.

    The folder appears with its bounds when all blocks are written. Raises UsageError for one that is there, unless
    `force` says to replace it, and without the package zarr.
    """
    target = os.fspath(Path(path).absolute())
    is_ours = Path(target, "zarr.json").is_file()
    if Path(target).exists() and not (force and is_ours):
        hint = ("replace it with force=True",) if is_ours else ()
        raise UsageError(f"expected a new folder, but {path} exists", None, hint)
    root = _zarr().open_group(target, mode="w", zarr_format=3)
    _each(blocks, lambda place, box: ZarrWriter(target, ".".join(map(str, place)), box))
    root.attrs[BLOCKS] = [list(b) for b in bounds_of(blocks)]
    return target


@dataclass(frozen=True)
class ZarrWriter:
    path: str
    name: str
    box: Box

    def __call__(self, block: Any) -> str:
        tensor = _fitting(tensor_of(block, "the block"), self.box)
        about, text = said_of(tensor)
        attributes = {ABOUT: about, TEXT: text, BLOCK: [list(side) for side in self.box]}
        group = _zarr().open_group(self.path, path=self.name, mode="w", zarr_format=3, attributes=attributes)
        for name, array in tensor.arrays.items():
            group.create_array(name, data=array, config={"write_empty_chunks": True})
        return self.name


def _zarr() -> Any:
    try:
        import zarr
    except ImportError:
        raise UsageError("expected the package zarr, but it is not installed", None, ("pip install zarr",)) from None
    return zarr


# ---- what is said of them


@contextmanager
def _about(path: str, box: Box | None) -> Iterator[None]:
    """Whatever goes wrong is a DataError that names the file and the block."""
    which = "blocks" if box is None else f"block {shown(box)}"
    try:
        yield
    except UsageError:
        raise
    except SpfgenError as error:
        message = error.message if path in error.message else f"{path} cannot be read: {error.message}"
        raise DataError(f"{which}: {message}", None, error.notes) from error
    except (OSError, *DAMAGE, RecursionError) as error:
        raise DataError(f"{which}: {path} cannot be read: it is damaged ({error})") from error


def _fitting(tensor: Tensor, box: Box) -> Tensor:
    shape = tuple(high - low for low, high in box)
    if tensor.shape != shape:
        raise DataError(f"expected a block of shape {shape}, but it has {tensor.shape}")
    return tensor


def _times(bounds: Sequence[Bounds]) -> str:
    return " x ".join(str(len(b) - 1) for b in bounds)

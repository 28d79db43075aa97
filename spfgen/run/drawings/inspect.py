"""Facts about a matrix or tensor: what a person looks at before choosing a layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np

from spfgen.errors import DataError, Unsupported
from spfgen.folder import human_bytes
from spfgen.layout.measure import WIDE, MemoryUse, measure
from spfgen.layout.nodes import Layout
from spfgen.layout.points import Array, row_ranks, sorted_order
from spfgen.progress import task
from spfgen.run.coordinates import Coordinates
from spfgen.run.threads import threads_by_default

AT_ONCE = 2
"""So many layouts are measured at a time: each may need several times the memory of the entries."""
BLOCKS = ((2, 2), (3, 3), (4, 4), (6, 6), (8, 8), (16, 16), (1, 4), (4, 1), (1, 8), (8, 1))
"""Rows and columns of the aligned blocks that are looked at."""


@dataclass(frozen=True)
class Spread:
    """How entries are spread over one dimension: the entries for each index, those without entries included."""

    extent: int
    empty: int
    least: int
    median: float
    most: int
    mean: float


@dataclass(frozen=True)
class Runs:
    """Maximal runs of neighbours in the last dimension: their number and the length of the longest."""

    count: int
    longest: int


@dataclass(frozen=True)
class Numbers:
    """The stored values. `least` and `most` are among the finite ones; None where there are none, and for complex
    numbers and bool."""

    dtype: str
    zeros: int
    nans: int
    infinities: int
    distinct: int
    least: float | int | None
    most: float | int | None


@dataclass(frozen=True)
class Diagonals:
    """Bandwidths below and above the main diagonal, diagonals with entries, the places that those have together, and
    the entries on the main one."""

    below: int
    above: int
    count: int
    places: int
    main: int


@dataclass(frozen=True)
class Symmetry:
    """For a square matrix. `pattern` is the share of entries off the diagonal whose mirrored place is stored too; the
    others are about values, those of places that are not stored being 0."""

    pattern: float
    symmetric: bool
    skew: bool
    hermitian: bool


@dataclass(frozen=True)
class BlockFit:
    """Aligned blocks that hold an entry: how many, and the share of their places that are stored."""

    rows: int
    columns: int
    count: int
    fill: float


@dataclass(frozen=True)
class DataFacts:
    """`stored` entries are at `places` different places. What only matrices have is None for the others."""

    shape: tuple[int, ...]
    stored: int
    places: int
    values: Numbers
    spread: tuple[Spread, ...]
    runs: Runs | None
    equal_runs: Runs | None
    fibers: tuple[int, ...]
    """For each dimension but the last: how many different leading coordinates there are, up to it."""
    diagonals: Diagonals | None = None
    symmetry: Symmetry | None = None
    blocks: tuple[BlockFit, ...] = ()

    @property
    def density(self) -> float:
        size = prod(self.shape)
        return self.places / size if size else 0.0


def entries_of(data: Coordinates | Array) -> Coordinates:
    """The stored entries of what a file holds; of a dense array those that are not zero."""
    if isinstance(data, Coordinates):
        return data
    places = np.nonzero(data) if data.ndim else ()
    return Coordinates(data.shape, tuple(c.astype(np.int64) for c in places), np.atleast_1d(data[places]))


def distinct(entries: Coordinates) -> Coordinates:
    """The same, sorted, with the entries of each place added up."""
    from spfgen.layout.duplicates import combined_values

    columns, values = list(entries.coords), entries.values
    order = sorted_order(columns, len(values))
    if order is not None:
        columns, values = [c[order] for c in columns], values[order]
    new = _changes(columns, len(values))
    if not new.all():
        first = np.flatnonzero(new)
        values = combined_values(columns, values, first, "sum")
        columns = [c[first] for c in columns]
    return Coordinates(entries.shape, tuple(columns), values)


def _changes(columns: Iterable[Array], count: int) -> Array:
    """bool[count]: whether a row differs from the one before it, in one of the columns."""
    new = np.zeros(count, dtype=bool)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new


def facts_of(entries: Coordinates, single: Coordinates) -> DataFacts:
    """The facts. `single` is `distinct(entries)`."""
    with task("looking at the entries"):
        return _facts_of(entries, single)


def _facts_of(entries: Coordinates, single: Coordinates) -> DataFacts:
    shape, columns, count = single.shape, single.coords, len(single.values)
    matrix = len(shape) == 2
    leading = [_changes(columns[: k + 1], count) for k in range(len(shape) - 1)]
    return DataFacts(
        shape,
        len(entries.values),
        count,
        _numbers(single.values),
        tuple(_spread(c, n) for c, n in zip(columns, shape, strict=True)),
        _runs(single, equal_values=False) if shape else None,
        _runs(single, equal_values=True) if shape else None,
        tuple(int(np.count_nonzero(new)) for new in leading),
        _diagonals(single) if matrix else None,
        _symmetry(single) if matrix and shape[0] == shape[1] else None,
        tuple(_blocks(single)) if matrix and count else (),
    )


def _numbers(values: Array) -> Numbers:
    finite = np.isfinite(values)
    ordered = values[finite] if values.dtype.kind in "iuf" else values[:0]
    return Numbers(
        values.dtype.name,
        int(np.count_nonzero(values == 0)),
        int(np.count_nonzero(np.isnan(values))) if values.dtype.kind in "fc" else 0,
        int(np.count_nonzero(np.isinf(values))) if values.dtype.kind in "fc" else 0,
        _different(values),
        _number(ordered.min()) if ordered.size else None,
        _number(ordered.max()) if ordered.size else None,
    )


def _number(value: Any) -> int | float | None:
    """As a number of Python; None when it is beyond what that holds, as longdouble may be."""
    number = int(value) if value.dtype.kind in "iu" else float(value)
    return number if np.isfinite(float(number)) else None


def _different(values: Array) -> int:
    """How many different values there are; nan counts once. (numpy.unique hashes, which takes five times as long.)"""
    arranged = np.sort(values)
    numbers = arranged[arranged == arranged]
    return int(np.count_nonzero(_changes([numbers], len(numbers)))) + (len(numbers) < len(arranged))


def _spread(column: Array, extent: int) -> Spread:
    counts = np.sort(_counted(column, extent)[1])
    empty = extent - len(counts)

    def at(place: int) -> int:
        return 0 if place < empty else int(counts[place - empty])

    if not extent:
        return Spread(0, 0, 0, 0.0, 0, 0.0)
    median = (at((extent - 1) // 2) + at(extent // 2)) / 2
    return Spread(extent, empty, at(0), median, at(extent - 1), len(column) / extent)


def _counted(numbers: Array, limit: int) -> tuple[Array, Array]:
    """The different ones of numbers from 0 to the limit, and how often each occurs. Memory is proportional to how many
    there are, not to the limit."""
    if limit > len(numbers) * 4 + 1000:
        return np.unique(numbers, return_counts=True)
    counts = np.bincount(numbers, minlength=1)
    different = np.flatnonzero(counts)
    return different, counts[different]


def _runs(single: Coordinates, *, equal_values: bool) -> Runs:
    """Runs of neighbours in the last dimension, with the same value in `equal_values`."""
    *outer, last = single.coords
    count = len(last)
    new = _changes(outer, count)
    new[1:] |= last[1:] != last[:-1] + 1
    if equal_values:
        values = single.values
        new[1:] |= values[1:] != values[:-1]
    starts = np.flatnonzero(new)
    lengths = np.diff(np.append(starts, count))
    return Runs(len(starts), int(lengths.max(initial=0)))


def _diagonals(single: Coordinates) -> Diagonals:
    rows, columns = single.coords
    nrow, ncol = single.shape
    shifted, counts = _counted(columns - rows + nrow, nrow + ncol)
    offsets = shifted - nrow
    lengths = [min(nrow, ncol - d) - max(0, -d) for d in offsets.tolist()]
    main = counts[offsets == 0]
    return Diagonals(
        max(0, -int(offsets.min(initial=0))),
        max(0, int(offsets.max(initial=0))),
        len(offsets),
        sum(lengths),
        int(main.sum()),
    )


def _symmetry(single: Coordinates) -> Symmetry:
    """Every place is paired with the mirrored one."""
    rows, columns = single.coords
    count = len(rows)
    ranks, first = row_ranks([np.concatenate([rows, columns]), np.concatenate([columns, rows])], 2 * count)
    values = np.zeros(len(first), dtype=single.values.dtype)
    mirrored = values.copy()
    values[ranks[:count]] = single.values
    mirrored[ranks[count:]] = single.values
    stored = np.zeros(len(first), dtype=bool)
    stored[ranks[:count]] = True
    off = rows != columns
    both = int(np.count_nonzero(stored[ranks[count:]] & off))
    strays = int(np.count_nonzero(off))
    signless = values.dtype.kind in "bu"
    return Symmetry(
        both / strays if strays else 1.0,
        _same(values, mirrored),
        not values.any() if signless else _same(values, -mirrored),
        _same(values, np.conj(mirrored)),
    )


def _same(left: Array, right: Array) -> bool:
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fc"))


def _blocks(single: Coordinates) -> Iterator[BlockFit]:
    """Larger blocks are made of the largest smaller ones that fit into them, of which there are fewer than entries."""
    count = len(single.values)
    blocks_of = {(1, 1): list(single.coords)}
    for rows, columns in BLOCKS:
        high, wide = max((s for s in blocks_of if not rows % s[0] and not columns % s[1]), key=prod)
        parts = [blocks_of[high, wide][0] // (rows // high), blocks_of[high, wide][1] // (columns // wide)]
        first = row_ranks(parts, len(parts[0]))[1]
        blocks_of[rows, columns] = [part[first] for part in parts]
        yield BlockFit(rows, columns, len(first), count / (len(first) * rows * columns))


# --- memory ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LayoutCost:
    """A layout, by its text, and the memory it takes, or the reason why it cannot store the data. `parameters` are the
    names of its extents; `indexed`: it has index arrays."""

    layout: str
    memory: MemoryUse | None
    parameters: tuple[str, ...]
    indexed: bool
    reason: str = ""


def costs(single: Coordinates, layouts: Mapping[str, Layout]) -> list[LayoutCost]:
    """The layouts by memory, those that cannot store the data last, in the order given. `single` as from `distinct`."""
    costs_of: list[LayoutCost] = []
    with (
        task("measuring layouts", len(layouts)) as step,
        ThreadPoolExecutor(min(AT_ONCE, threads_by_default())) as pool,
    ):
        # numpy leaves Python to others while it sorts; the calls of isl do not.
        running = {pool.submit(_cost, text, layout, single): text for text, layout in layouts.items()}
        try:
            for done, (future, text) in enumerate(running.items()):
                step(done, text)
                costs_of.append(future.result())
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return sorted(costs_of, key=lambda c: (c.memory is None, c.memory.bytes if c.memory is not None else 0))


def _cost(text: str, layout: Layout, single: Coordinates) -> LayoutCost:
    memory, reason = None, ""
    try:
        memory = measure(layout, single.shape, single.coords, single.values)
    except (DataError, Unsupported) as error:
        reason = error.message
    return LayoutCost(text, memory, layout.parameters, bool(layout.indexes), reason)


# --- for people and programs ------------------------------------------------------------------------------


def as_dict(facts: DataFacts, costs: Sequence[LayoutCost]) -> dict[str, Any]:
    """For JSON."""
    return {
        **asdict(facts),
        "shape": list(facts.shape),
        "density": facts.density,
        "memory": {c.layout: {"reason": c.reason} if c.memory is None else asdict(c.memory) for c in costs},
    }


def as_text(facts: DataFacts, costs: Sequence[LayoutCost]) -> str:
    """A table of facts, then one of layouts."""
    rows = [*_size_rows(facts), *_matrix_rows(facts)]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {what}" for name, what in rows]
    if costs:
        lines += [
            "",
            f"memory in each layout, {facts.values.dtype} values, for one entry and in all",
            *_costs(costs, facts),
        ]
    return "\n".join(lines)


def _size_rows(facts: DataFacts) -> Iterator[tuple[str, str]]:
    values, count = facts.values, facts.places
    yield "shape", " x ".join(map(str, facts.shape)) or "a single number"
    doubled = f", {count} without duplicates" if count != facts.stored else ""
    yield "entries", f"{facts.stored} stored{doubled}, density {facts.density:.3g}"
    yield "values", ", ".join([values.dtype, *_about_values(values)])
    for name, spread in zip(_dimensions(len(facts.shape)), facts.spread, strict=True):
        yield name, f"{_spread_text(spread)}; {spread.empty} of {spread.extent} are empty"
    for k, fibers in enumerate(facts.fibers[1:], start=2):
        yield f"fibers {k}", f"{fibers} different leading {k} coordinates, {_mean(count, fibers)} entries in each"
    neighbours = "neighbours in the last dimension"
    kinds = (
        ("runs", facts.runs, neighbours),
        ("equal runs", facts.equal_runs, f"{neighbours} that hold one value"),
    )
    for name, runs, what in kinds:
        if runs is not None and count:
            yield name, f"{runs.count}, mean length {_mean(count, runs.count)}, longest {runs.longest}; {what}"


def _matrix_rows(facts: DataFacts) -> Iterator[tuple[str, str]]:
    if not facts.places:
        return
    diagonals, symmetry = facts.diagonals, facts.symmetry
    if diagonals is not None:
        sides = f"{diagonals.below} below and {diagonals.above} above the main diagonal"
        yield "bandwidth", sides + _triangle(diagonals)
        filled = f"{100 * facts.places / diagonals.places:.3g} % of their places are stored"
        yield "diagonals", f"{diagonals.count} hold an entry, {filled}; {diagonals.main} entries are on the main one"
    if symmetry is not None:
        is_complex = facts.values.dtype.startswith("complex")
        words = ["symmetric"] * symmetry.symmetric + ["skew-symmetric"] * symmetry.skew
        words += ["hermitian"] * (symmetry.hermitian and is_complex)
        yield (
            "symmetry",
            f"{' and '.join(words) or 'not symmetric'}; {100 * symmetry.pattern:.3g} % of the pattern is mirrored",
        )
    if facts.blocks:
        texts = [f"{b.rows}x{b.columns} {b.fill:.2f}" for b in facts.blocks]
        yield "block fill", ", ".join(texts)


def _triangle(diagonals: Diagonals) -> str:
    if diagonals.below and diagonals.above:
        return ""
    if not diagonals.below and not diagonals.above:
        return "; a diagonal matrix"
    return "; a lower triangle" if diagonals.below else "; an upper triangle"


def _dimensions(rank: int) -> list[str]:
    return ["rows", "columns"] if rank == 2 else [f"dimension {k + 1}" for k in range(rank)]


def _spread_text(spread: Spread) -> str:
    return f"{spread.least} to {spread.most} entries, median {spread.median:g}, mean {spread.mean:.3g}"


def _mean(count: int, groups: int) -> str:
    return f"{count / groups:.3g}" if groups else "0"


def _about_values(values: Numbers) -> Iterator[str]:
    if values.least is not None and values.most is not None:
        yield f"{values.least:g} to {values.most:g}"
    yield f"{values.distinct} different"
    for count, what in ((values.zeros, "zero"), (values.nans, "nan"), (values.infinities, "infinite")):
        if count:
            yield f"{count} {what}"


def _costs(costs: Sequence[LayoutCost], facts: DataFacts) -> Iterator[str]:
    width = max(len(c.layout) for c in costs)
    for cost in costs:
        name, memory = f"  {cost.layout:<{width}}", cost.memory
        if memory is None:
            yield f"{name}  {'-':>10}  {'-':>9}  {cost.reason}"
            continue
        each = f"{memory.bytes / facts.places:.3g} B" if facts.places else "-"
        total = ("" if memory.exact else ">") + human_bytes(memory.bytes)
        sizes = [f"{n} = {v}" for n, v in memory.sizes.items() if n not in cost.parameters]
        remarks = ["int64 indices"] * (memory.index_bytes == WIDE and cost.indexed)
        remarks += ["" if memory.verified else "too large to try"]
        yield f"{name}  {each:>10}  {total:>9}  {', '.join(t for t in (*sizes, *remarks) if t)}".rstrip()

"""Packing, unpacking and converting with generated C, where the layout's ranks are those of one key (layout/keys.py).

Everything else, data that the layout has no place for, and whatever is too small to be worth a compilation goes the
way of layout/pack.py and layout/points.py, which also word what is wrong. The results are the same.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

import spfgen
from spfgen.cir import convert
from spfgen.cir import pack as code
from spfgen.cir.check import check as check_c
from spfgen.cir.convert import Pair
from spfgen.cir.files import SERIAL, plain_file, runtime
from spfgen.cir.pack import Made, Types
from spfgen.cir.print import print_file
from spfgen.cir.simplify import simplify
from spfgen.errors import DataError, ToolError, Unsupported
from spfgen.lang.types import INDEX_TYPES, TYPES
from spfgen.layout.duplicates import Duplicates
from spfgen.layout.keys import Field, KeyPlan, NoKey, key_plan, solved_sizes
from spfgen.layout.nodes import Layout, coordinate_list
from spfgen.layout.order import in_order
from spfgen.layout.pack import INDEX_TYPE, Packed, check_fill, key_orders, pack
from spfgen.layout.points import Array, affine_value, shape_of, to_coordinates
from spfgen.layout.proofs import stored_once
from spfgen.run.compile import build, load

SMALL = 20_000
"""Fewer entries are packed with numpy: a compilation takes longer, and no caller would notice."""
MOST = 2**32 - 1
MOST_READY = 256
MOST_EMPTY = 64
"""More groups for each entry than this are not counted one by one."""
NEAR, FAR = 2**21, 12 * 2**20
"""Bytes: so much is near wherever it is written; beyond the other it pays to bring neighbours together first."""
BUCKET, BUCKETS = 12_000, 256
"""Entries of a bucket, about, and the most buckets: each needs a few lines of the cache while entries go there."""
PAGE_PART = 2531
"""Bytes: the golden section of a page."""
LARGE = 2**21
SPREAD, WINDOW, SAMPLES = 1021, 128, 64
"""Buckets, entries and windows of the test whether neighbours lie far apart."""
KNOWN = frozenset({"NULL", "INT64_MAX", "INT64_MIN", "UINT64_MAX", "true", "false"})


class _Fall(Exception):
    """The way through C is not for this data."""


def pack_entries(
    layout: Layout,
    shape: tuple[int, ...],
    coords: tuple[Array, ...],
    values: Array,
    index_types: Mapping[str, str] | None = None,
    duplicates: Duplicates = "sum",
    *,
    threads: int = 0,
    small: int = SMALL,
) -> Packed:
    """As layout.pack.pack, faster; coordinates may be int32 too. Fewer than `small` entries are packed with numpy."""
    values = np.asarray(values)
    if len(values) >= small:
        with suppress(_Fall, NoKey, ToolError):
            return _packed(layout, shape, coords, values, index_types or {}, duplicates, _threads(threads))
    wide = tuple(np.asarray(c).astype(np.int64, copy=False) for c in coords)
    return pack(layout, shape, wide, values, index_types, duplicates)


def convert_arrays(
    source: Layout,
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
    target: Layout,
    index_types: Mapping[str, str] | None = None,
    *,
    threads: int = 0,
    small: int = SMALL,
) -> Packed:
    """The arrays of another layout with the same entries.

    What a layout stores only because it stores whole blocks, diagonals or everything is left out where it is the fill
    value; explicit entries are kept. Entries stored twice are added. Raises as layout.pack.pack does.
    """
    shape = tuple(sizes[p] for p in source.parameters)
    if _stored(source, arrays) >= small:
        with suppress(_Fall, NoKey, ToolError):
            return _converted(source, sizes, arrays, target, index_types or {}, _threads(threads))
    coords, values = coordinates(source, sizes, arrays, threads=threads, small=small)
    if pads(source):
        kept = values != np.asarray(source.fill).astype(values.dtype)
        coords, values = tuple(c[kept] for c in coords), values[kept]
    return pack_entries(target, shape, coords, values, index_types, threads=threads, small=small)


def coordinates(
    layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array], *, threads: int = 0, small: int = SMALL
) -> tuple[tuple[Array, ...], Array]:
    """As layout.points.to_coordinates, faster (the order of the entries may differ)."""
    if _stored(layout, arrays) >= small:
        with suppress(_Fall, ToolError):
            return _coordinates(layout, sizes, arrays, _threads(threads))
    values = {v.name: arrays[v.name] for v in layout.values}
    return to_coordinates(layout, dict(sizes), dict(arrays), values)


def pads(layout: Layout) -> bool:
    """Whether the layout stores places in groups, of which some hold no entry."""
    try:
        return key_plan(layout, key_orders(layout)).pads
    except Unsupported:
        return True


def _stored(layout: Layout, arrays: Mapping[str, Array]) -> int:
    return sum(arrays[v.name].size for v in layout.values)


def _threads(wanted: int) -> int:
    from spfgen.run.call import threads_allowed, threads_by_default

    return threads_allowed(wanted or threads_by_default())


# --- compiled functions ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Function:
    call: Any
    arguments: tuple[str, ...]

    def __call__(self, given: Mapping[str, Any]) -> int:
        return int(self.call(*(_argument(given[n]) for n in self.arguments)) or 0)


def _argument(value: Any) -> Any:
    if value is None:
        return ctypes.c_void_p(None)
    return ctypes.c_void_p(value.ctypes.data) if isinstance(value, np.ndarray) else ctypes.c_int64(value)


def source_text(made: Sequence[Made], about: str) -> str:
    """The C text of some functions."""
    functions = [simplify(m.function) for m in made]
    file = plain_file(functions, f"{about}, made by spfgen {spfgen.__version__}. Compile with -std=c99 -O3 -fopenmp.")
    check_c(file, KNOWN)
    return print_file(file)


def _loaded(made: Sequence[Made], about: str) -> list[_Function]:
    library = load(build(source_text(made, about)))
    result = []
    for m in made:
        call = getattr(library, m.function.name)
        call.restype = ctypes.c_int if m.function.result == "int" else None
        result.append(_Function(call, m.arguments))
    return result


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    """The functions that are the same for all layouts: rt/keys.h."""
    library = load(build(runtime("keys.h").replace("SORT_WORDS", runtime("sort_words.h")) + "\n"))
    for name in ("keys_widest", "totals_int32", "totals_int64", "numbered"):
        getattr(library, f"spfgen_{name}").restype = ctypes.c_int64
    return library


@lru_cache(maxsize=32)
def _ordering(place: str, key: str, value: str) -> ctypes.CDLL:
    """The functions that sort segments, for these types."""
    return load(build(ordering_text(place, key, value)))


def ordering_text(place: str, key: str, value: str) -> str:
    """rt/order_segments.h for these types."""
    text = runtime("order_segments.h")
    for word, kind in (("PLACE", place), ("KEY", key), ("VALUE", value)):
        text = re.sub(rf"\b{word}\b", TYPES[kind].c, text)
    headers = "".join(f"#include <{h}.h>\n" for h in ("complex", "stdbool", "stdint", "string"))
    pieces = "\n\n".join((SERIAL, runtime("thread.h"), runtime("sort_words.h"), text))
    return f"{headers}{pieces}\n"


@lru_cache(maxsize=64)
def _unpacking(layout: Layout, types: Types) -> list[_Function]:
    made = [code.count_function(layout, types, False), code.coordinates_function(layout, types)]
    return _loaded(made, f"Unpacking {layout.name}")


def functions(pair: Pair, way: str) -> list[Made] | None:
    """The functions of a conversion by one of the ways: counted, table, grouped or keys."""
    match way:
        case "sequence":
            return convert.sequence_functions(pair)
        case "counted":
            return convert.counted_functions(pair)
        case "scattered":
            return convert.scattered_functions(pair)
        case "table":
            return convert.table_functions(pair)
        case "grouped":
            return convert.grouped_functions(pair)
    counting = code.count_function(pair.source, pair.types, pair.without_fill)
    making = code.keys_of_layout(pair.key, pair.source, pair.types, pair.without_fill)
    return [counting, making, code.fill_function(pair.key, pair.target)]


def _functions(pair: Pair, way: str) -> list[_Function] | None:
    made = functions(pair, way)
    return None if made is None else _loaded(made, f"From {pair.source.name} to {pair.layout.name}")


# --- running -----------------------------------------------------------------------------------------------------


def _types(layout: Layout, arrays: Mapping[str, Array]) -> Types:
    kinds = tuple((a.name, arrays[a.name].dtype.name) for a in layout.indexes)
    return Types(arrays[layout.values[0].name].dtype.name, kinds)


def _given(layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> dict[str, Any]:
    given: dict[str, Any] = {f"size:{n}": sizes[n] for n in (*layout.parameters, *layout.sizes)}
    return given | {f"array:{n}": np.ascontiguousarray(arrays[n]) for n in layout.arrays}


def _starts(function: _Function, given: dict[str, Any], parts: int) -> Array:
    """Where the entries of each part of a scan begin, and their number."""
    count = np.zeros(parts, np.int64)
    function({**given, "parts": parts, "count": count})
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])


def _coordinates(
    layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array], threads: int
) -> tuple[tuple[Array, ...], Array]:
    counting, writing = _unpacking(layout, _types(layout, arrays))
    given = _given(layout, sizes, arrays)
    start = _starts(counting, given, threads)
    count = int(start[-1])
    columns = [np.empty(count, np.int64) for _ in layout.coordinates]
    values = np.empty(count, arrays[layout.values[0].name].dtype)
    more = {f"column:{k}": column for k, column in enumerate(columns)}
    writing({**given, **more, "parts": threads, "start": start, "value": values})
    return tuple(columns), values


def _packed(
    layout: Layout,
    shape: tuple[int, ...],
    coords: tuple[Array, ...],
    values: Array,
    index_types: Mapping[str, str],
    duplicates: Duplicates,
    threads: int,
) -> Packed:
    """From arrays of coordinates, which are a layout as any other."""
    if len(shape) != layout.rank or len(coords) != layout.rank or not layout.rank or values.ndim != 1:
        raise _Fall
    columns = [np.ascontiguousarray(c) for c in coords]
    columns = [c if c.dtype.name in INDEX_TYPES else c.astype(np.int64) for c in columns]
    if any(c.shape != values.shape for c in columns):
        raise _Fall
    source = coordinate_list(layout.rank)
    arrays = {a.name: c for a, c in zip(source.indexes, columns, strict=True)}
    arrays[source.values[0].name] = np.ascontiguousarray(values)
    sizes = dict(zip(source.parameters, map(int, shape), strict=True)) | {source.sizes[0]: len(values)}
    return _converted(source, sizes, arrays, layout, index_types, threads, duplicates, len(values))


def _converted(
    source: Layout,
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
    target: Layout,
    index_types: Mapping[str, str],
    threads: int,
    duplicates: Duplicates = "sum",
    expected: int | None = None,
) -> Packed:
    """`expected` is the number of entries, where an entry that is left out is one outside of the extents."""
    kinds = tuple(str(index_types.get(a.name, INDEX_TYPE)) for a in target.indexes)
    stored = _stored(source, arrays)
    if stored > MOST:
        raise _Fall
    place = "int32" if stored < 2**31 else "int64"
    own = tuple(arrays[n].dtype.name for n in source.arrays)
    ready = _prepared(source, target, own, kinds, place, expected is not None)
    check_fill(target, arrays[source.values[0].name].dtype)
    shape = tuple(sizes[p] for p in source.parameters)
    digits = _Digits.of(ready.pair.key, shape, ready.pair.target.indexes)
    run = _Run(ready, digits, _given(source, sizes, arrays), threads, duplicates, expected)
    for way in ready.ways:
        found: Packed | None = getattr(run, way)()
        if found is not None:
            return found
    raise _Fall


@dataclass(frozen=True, eq=False)
class _Ready:
    """What is found out once about a conversion: the `ways` to try in turn, and the compiled functions of each."""

    pair: Pair
    ways: tuple[str, ...]
    functions: dict[str, list[_Function] | None]
    ordered: bool
    """Entries of a group are proved to come in the order of their keys."""

    def of(self, way: str) -> list[_Function] | None:
        if way not in self.functions:
            self.functions[way] = _functions(self.pair, way)
        return self.functions[way]


_READY: dict[tuple[object, ...], tuple[Layout, Layout, _Ready]] = {}
"""By the identity of the layouts, which are kept: to hash a layout takes longer than a small conversion."""


def _prepared(
    source: Layout, target: Layout, own: tuple[str, ...], kinds: tuple[str, ...], place: str, packs: bool
) -> _Ready:
    name = (id(source), id(target), own, kinds, place, packs)
    if name in _READY:
        return _READY[name][2]
    key = key_plan(target, key_orders(target))
    names = [a.name for a in source.indexes]
    types = Types(own[len(names)], tuple(zip(names, own, strict=False)))
    wanted = Types(types.value, tuple(zip((a.name for a in target.indexes), kinds, strict=True)))
    pair = Pair(source, types, key, wanted, place, not packs and pads(source))
    once = not packs and stored_once(source).proved
    ways, ordered = ["keys"], False
    if convert.is_counted(key):
        ways, ordered = ["counted", "keys"], in_order(source, key)
        if convert.is_sequence(pair) and not ordered:
            ways = ["sequence", *ways]
    elif once and convert.is_table(key):
        ways = ["table", "keys"]
    elif once and convert.is_grouped(key):
        ways = ["grouped", "keys"]
    if len(_READY) >= MOST_READY:
        _READY.clear()
    _READY[name] = source, target, _Ready(pair, tuple(ways), {}, ordered)
    return _READY[name][2]


def _pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@dataclass(frozen=True)
class _Run:
    """One conversion. Each way gives None when it is not for this data."""

    ready_made: _Ready
    digits: _Digits
    given: Mapping[str, Any]
    threads: int
    duplicates: Duplicates
    expected: int | None

    @property
    def pair(self) -> Pair:
        return self.ready_made.pair

    @property
    def layout(self) -> Layout:
        return self.pair.layout

    def ready(self, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> dict[str, Any]:
        """The arguments with the target's."""
        own = {f"to {n}": v for n, v in _given(self.layout, sizes, arrays).items()}
        return {**self.given, **own}

    def totals(self, count: Array, apart: bool) -> tuple[int, int]:
        """(entries, the most of a group); the counts become starts."""
        widest = np.zeros(1, np.int64)
        parts, groups = count.shape
        function = getattr(_library(), f"spfgen_totals_{count.dtype.name}")
        total = function(ctypes.c_int64(groups), parts, int(apart), _pointer(count), _pointer(widest))
        return int(total), int(widest[0])

    def groups(self) -> int:
        """The number of groups of the only rank."""
        _, extents = convert.group_arguments(self.pair.key)
        return prod(shape_of(extents, self.digits.sizes))

    def made(self, total: int, widest: int) -> tuple[dict[str, int], dict[str, Array]] | None:
        """The sizes and arrays of the target when its only rank has so many positions."""
        sizes = solved_sizes(self.pair.key, self.digits.sizes, [total], [widest])
        if sizes is None:
            return None
        return sizes, _made_arrays(
            self.pair.key, sizes, [total], self.pair.target.indexes, np.dtype(self.pair.types.value)
        )

    def write_bounds(self, arrays: Mapping[str, Array], start: Array, total: int) -> None:
        """Pointer arrays: where each group begins and ends."""
        rank, calls = self.pair.level.rank, self.pair.key.plan.encoded.calls
        arrays[calls[rank.begin].function].reshape(-1)[...] = start
        if rank.other:
            ends = np.append(start[1:], total)
            arrays[calls[rank.other].function].reshape(-1)[...] = ends - start if rank.kind == "counts" else ends

    @property
    def stored(self) -> int:
        """The places of the source's value array."""
        return int(self.given[f"array:{self.pair.source.values[0].name}"].size)

    def sequence(self) -> Packed | None:
        functions, groups = self.ready_made.of("sequence"), self.groups()
        assert functions is not None
        testing, copying = functions
        more = {"parts": self.threads, "entries": self.stored}
        if testing({**self.given, **more}) or groups >= MOST_EMPTY * self.stored + 2**16:
            return None
        found = self.made(self.stored, self.stored)
        if found is None:
            return None
        sizes, arrays = found
        count = _zeros((groups,), np.dtype(self.pair.place))
        copying({**self.ready(sizes, arrays), **more, "count": count})
        getattr(_library(), f"spfgen_begins_{self.pair.place}")(ctypes.c_int64(groups), _pointer(count))
        self.write_bounds(arrays, count, self.stored)
        return Packed(sizes, arrays)

    def counted(self) -> Packed | None:
        functions = self.ready_made.of("counted")
        assert functions is not None
        counting, writing, testing, spreading, *ahead = functions
        groups, rank, stored = self.groups(), self.pair.level.rank, self.stored
        if groups >= MOST_EMPTY * stored + 2**16:
            return None
        apart = self.is_scattered(spreading, groups)
        if apart and stored * self.entry_bytes() > FAR and convert.is_sortable(self.pair.key):
            return self.scattered(groups)
        parts = max(1, min(self.threads, 4 * stored // max(groups, 1)))
        count = _zeros((parts, groups), np.dtype(self.pair.place))
        more = {"parts": parts, "groups": groups, "count": count}
        if counting({**self.given, **more}):
            raise _Fall
        total, widest = self.totals(count, apart=rank.kind == "slots")
        if self.expected is not None and total != self.expected:
            raise _Fall
        found = self.made(total, widest)
        if found is None:
            return None
        sizes, arrays = found
        if rank.begin:
            self.write_bounds(arrays, count[0], total)
        ready = self.ready(sizes, arrays)
        if ahead and apart and total == stored:
            writing = ahead[0]
        writing({**ready, **more})
        if self.ready_made.ordered:
            wrong = False
        elif convert.is_sortable(self.pair.key):
            wrong = self.sorted(arrays, count[-1], widest)
        else:
            wrong = testing({**ready, "parts": self.threads, "groups": groups, "count": count[-1]}) != 0
        return None if wrong else Packed(sizes, arrays)

    def entry_bytes(self) -> int:
        """What is written for an entry: its value and keys, about."""
        kinds = dict(self.pair.target.indexes)
        keys = [kinds[self.pair.key.plan.encoded.calls[k].function] for k in self.pair.level.rank.keys]
        return sum(np.dtype(k).itemsize for k in (self.pair.types.value, *keys))

    def is_scattered(self, spreading: _Function, groups: int) -> bool:
        """Whether the target does not fit the cache, and entries that follow one another lie far apart in it."""
        if groups == 0 or self.stored * self.entry_bytes() <= NEAR:
            return False
        buckets = min(groups, SPREAD)
        sizes = {"buckets": buckets, "factor": (buckets << 32) // groups, "seen": np.zeros(buckets, np.int32)}
        parts = max(1, self.stored // WINDOW)
        return bool(spreading({**self.given, **sizes, "parts": parts, "samples": min(parts, SAMPLES)}))

    def scattered(self, groups: int) -> Packed | None:
        """By buckets of groups, each of which is finished within the cache."""
        functions = self.ready_made.of("scattered")
        assert functions is not None
        counting, distributing = functions
        place = np.dtype(self.pair.place)
        if groups >= 2**31 or not self.is_short(self.stored):
            return None
        buckets = self.buckets(groups)
        more = {"parts": self.threads, "buckets": buckets, "factor": (buckets << 32) // groups}
        count = np.zeros((self.threads, buckets), place)
        if counting({**self.given, **more, "count": count}):
            raise _Fall
        total, most = self.totals(count, apart=False)
        if self.expected is not None and total != self.expected:
            raise _Fall
        found = self.made(total, total)
        if found is None:
            return None
        sizes, arrays = found
        group_of = np.empty(total, np.int32)
        distributing({**self.ready(sizes, arrays), **more, "count": count, "group_of": group_of})
        keys, values = self.key_array(arrays), arrays[self.layout.values[0].name]
        sorts = not self.ready_made.ordered
        begin, most_groups = np.empty(groups, place), 2 + 2**32 // more["factor"]
        room = [np.empty(self.threads * most_groups, place)]
        room += _rooms(self.threads, most, keys, values)
        function = _ordering(place.name, keys.dtype.name, values.dtype.name).spfgen_finish_buckets
        numbers = [ctypes.c_int64(n) for n in (groups, buckets, more["factor"])]
        widths = [ctypes.c_int64(n) for n in (most_groups, most)]
        given = [_pointer(a) for a in (count[-1], group_of, keys, values, begin)]
        if function(*numbers, *given, *widths, *map(_pointer, room), int(sorts), self.threads):
            return None
        self.write_bounds(arrays, begin, total)
        return Packed(sizes, arrays)

    def buckets(self, groups: int) -> int:
        """How many; a bucket begins at another part of a page than the one before, else all would share few lines."""
        most = max(1, min(groups, BUCKETS, self.stored // BUCKET))
        return min(range(most - most // 8, most + 1), key=lambda b: abs(4 * self.stored / b % 4096 - PAGE_PART))

    def key_array(self, arrays: Mapping[str, Array]) -> Array:
        """The array of the only key."""
        field = self.pair.key.fields[self.pair.level.group]
        return arrays[self.pair.key.plan.encoded.calls[field.name].function]

    def is_short(self, widest: int) -> bool:
        """Whether a key and a place among so many fit a word."""
        field = self.pair.key.fields[self.pair.level.group]
        return field.limits(self.digits.sizes)[1].bit_length() + max(widest, 2).bit_length() <= 63

    def sorted(self, arrays: Mapping[str, Array], stop: Array, widest: int) -> bool:
        """Sort the keys of each group; whether one is there twice."""
        keys, values = self.key_array(arrays), arrays[self.layout.values[0].name]
        if not self.is_short(widest):
            return True
        function = _ordering(stop.dtype.name, keys.dtype.name, values.dtype.name).spfgen_order_segments
        pointers = [_pointer(a) for a in (stop, keys, values)]
        rooms = _rooms(self.threads, widest, keys, values)
        more = (ctypes.c_int64(widest), *map(_pointer, rooms), self.threads)
        return bool(function(ctypes.c_int64(len(stop)), *pointers, *more))

    def table(self) -> Packed | None:
        functions = self.ready_made.of("table")
        assert functions is not None
        marking, writing = functions
        key, level = self.pair.key, self.pair.level
        low, high = key.fields[0].limits(self.digits.sizes)
        stored = self.given[f"array:{self.pair.source.values[0].name}"].size
        if high - low + 1 > 4 * stored + 2**16:
            return None
        mark = np.zeros(high - low + 1, np.uint8)
        if marking({**self.given, "parts": self.threads, "base": low, "mark": mark}):
            raise _Fall
        number = np.empty(len(mark), np.int64)
        down = int(key.fields[0].down)
        total = int(_library().spfgen_numbered(ctypes.c_int64(len(mark)), down, _pointer(mark), _pointer(number)))
        found = self.made(total, total)
        if found is None:
            return None
        sizes, arrays = found
        keys = np.flatnonzero(mark) + low
        own = arrays[key.plan.encoded.calls[level.rank.keys[0]].function]
        own[level.rank.low : level.rank.low + total] = keys[::-1] if down else keys
        writing({**self.ready(sizes, arrays), "parts": self.threads, "base": low, "number": number})
        return Packed(sizes, arrays)

    def grouped(self) -> Packed | None:
        functions = self.ready_made.of("grouped")
        if functions is None:
            return None
        collecting, writing = functions
        field = self.pair.key.fields[self.pair.level.group]
        low, high = field.limits(self.digits.sizes)
        stored, groups, place = self.stored, self.groups(), np.dtype(self.pair.place)
        length = high - low + 1
        if max(length, groups) > 4 * stored + 2**16:
            return None
        parts = max(1, min(self.threads, 4 * stored // length))
        count = _zeros((groups + 1,), place)
        more = {"parts": parts, "base": high if field.down else low, "range": length, "count": count}
        more["room"] = room = min(stored, groups * length)
        more |= {"seen": np.zeros((parts, length), place), "keys": np.empty((parts, room), place)}
        words = np.empty((parts, length), np.uint64)
        if collecting({**self.given, **more, "words": words, "bits": max(1, (length - 1).bit_length())}):
            raise _Fall
        total, _ = self.totals(count[None], apart=False)
        found = self.made(total, total)
        if found is None:
            return None
        sizes, arrays = found
        self.write_bounds(arrays, count[:-1], total)
        writing({**self.ready(sizes, arrays), **more})
        return Packed(sizes, arrays)

    def keys(self) -> Packed | None:
        functions = self.ready_made.of("keys")
        assert functions is not None
        counting, making, filling = functions
        if self.digits.bits > 64:
            raise _Fall
        start = _starts(counting, dict(self.given), self.threads)
        count = int(start[-1])
        if self.expected is not None and count != self.expected:
            raise _Fall
        words, values = np.empty(count, np.uint64), np.empty(count, self.pair.types.value)
        more = {"parts": self.threads, "start": start, "key": words, "value": values}
        if making({**self.given, **self.digits.given, **more}):
            raise _Fall
        kinds = self.pair.target.indexes
        return _filled(self.pair.key, self.digits, filling, words, values, kinds, self.duplicates, self.threads)


@dataclass(frozen=True)
class _Digits:
    """Where the fields lie in a key of `bits` bits, for these extents."""

    sizes: dict[str, int]
    shifts: tuple[int, ...]
    bits: int
    given: dict[str, Any]

    @staticmethod
    def of(key: KeyPlan, shape: tuple[int, ...], kinds: Sequence[tuple[str, str]]) -> _Digits:
        """Raises _Fall when a key would be too long, or an index might not fit its type."""
        encoded = key.plan.encoded
        sizes = dict(zip(encoded.layout.parameters, map(int, shape), strict=True))
        known = dict(sizes)
        for name, (numerator, divisor) in encoded.quotients.items():
            if numerator.names() <= set(known):
                known[name] = int(affine_value(numerator, known)) // divisor
        limits = [f.limits(known) for f in key.fields]
        widths = [max(1, (high - low).bit_length()) for low, high in limits]
        if any(high < low for low, high in limits):
            raise _Fall
        of_array = dict(kinds)
        for field, (low, high) in zip(key.fields, limits, strict=True):
            if field.name in encoded.calls:
                info = np.iinfo(of_array[encoded.calls[field.name].function])
                if low < info.min or high > info.max:
                    raise _Fall
        shifts = tuple(sum(widths[k + 1 :]) for k in range(len(widths)))
        given: dict[str, Any] = {f"size:{n}": v for n, v in sizes.items()}
        for k, (field, (low, high)) in enumerate(zip(key.fields, limits, strict=True)):
            given |= {f"shift:{k}": shifts[k], f"base:{k}": _base(field, low, high)}
        return _Digits(sizes, shifts, sum(widths), given)


def _base(field: Field, low: int, high: int) -> int:
    return high if field.down else low


def _filled(
    key: KeyPlan,
    digits: _Digits,
    filling: _Function,
    words: Array,
    values: Array,
    kinds: Sequence[tuple[str, str]],
    duplicates: Duplicates,
    threads: int,
) -> Packed:
    """Sort the keys if need be, count the ranks, make the arrays and fill them."""
    layout, library, count = key.plan.encoded.layout, _library(), len(words)
    pointer = ctypes.c_void_p
    order = library.spfgen_keys_order(ctypes.c_int64(count), pointer(words.ctypes.data), threads)
    places: Array | None = None
    if order == 0:
        places = _sorted(library, words, digits.bits, threads)
    cuts = [digits.shifts[level.end - 1] for level in key.levels]
    groups = [digits.shifts[level.group - 1] if level.group else None for level in key.levels]
    together = [g for level, g in zip(key.levels, groups, strict=True) if level.rank.kind == "slots" and g is not None]
    start, done = np.empty(threads + 1, np.int64), np.empty((threads, len(cuts)), np.int64)
    of_words, of_start = pointer(words.ctypes.data), pointer(start.ctypes.data)
    library.spfgen_keys_parts(ctypes.c_int64(count), of_words, max(together, default=0), threads, of_start)

    def distinct(cut: int) -> Array:
        found = np.empty(threads, np.int64)
        library.spfgen_keys_count(of_words, cut, threads, of_start, pointer(found.ctypes.data))
        return found

    if duplicates != "sum" and int(distinct(0).sum()) < count:
        raise _Fall
    totals, widths = [], []
    for number, (cut, group) in enumerate(zip(cuts, groups, strict=True)):
        found = distinct(cut)
        totals.append(int(found.sum()))
        done[:, number] = np.cumsum(found) - found
        widest = totals[-1]
        if key.levels[number].rank.kind == "slots" and group is not None:
            widest = int(library.spfgen_keys_widest(of_words, cut, group, threads, of_start))
        widths.append(widest)
    sizes = solved_sizes(key, digits.sizes, totals, widths)
    if sizes is None:
        raise _Fall
    arrays = _made_arrays(key, sizes, totals, kinds, values.dtype)
    given = {**digits.given, **{f"total:{k}": t for k, t in enumerate(totals)}, **_given(layout, sizes, arrays)}
    filling({**given, "count": count, "key": words, "from": places, "value": values, "parts": threads,
             "start": start, "done": done})  # fmt: skip
    return Packed(sizes, arrays)


def _sorted(library: ctypes.CDLL, words: Array, bits: int, threads: int) -> Array:
    """Sort the keys in place; where each was before."""
    count = len(words)
    of_place = max(1, (count - 1).bit_length())
    lead = min(bits, max(0, bits + of_place - 64, min(11, of_place - 5)))
    if lead > of_place + 2:
        raise _Fall
    places, room = np.empty(count, np.uint32), np.empty(count, np.uint64)
    start = np.empty((threads << lead) + 1, np.int64)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (words, places, room, start)]
    library.spfgen_keys_sort(ctypes.c_int64(count), bits, lead, *pointers, threads)
    return places


def _rooms(threads: int, most: int, keys: Array, values: Array) -> list[Array]:
    """For each thread room for so many keys (and 32 more), values and words."""
    of_keys = np.empty(threads * (most + 32), keys.dtype)
    return [of_keys, np.empty(threads * most, values.dtype), np.empty(threads * most, np.uint64)]


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Zeros; where they are new memory, in large pages: numpy asks for these only where it does not clear."""
    array = np.zeros(shape, dtype)
    if array.nbytes >= LARGE:
        _library().spfgen_in_large_pages(_pointer(array), ctypes.c_int64(array.nbytes))
    return array


def _made_arrays(
    key: KeyPlan,
    sizes: Mapping[str, int],
    totals: Sequence[int],
    kinds: Sequence[tuple[str, str]],
    dtype: np.dtype[Any],
) -> dict[str, Array]:
    """The arrays, with what stands at places that no entry has."""
    plan = key.plan
    layout = plan.encoded.layout
    arrays: dict[str, Array] = {}
    try:
        for name, kind in kinds:
            shape = shape_of(layout.index(name).extents, sizes)
            if max(totals, default=0) > np.iinfo(kind).max:
                raise _Fall
            rest = key.rest(name, sizes)
            arrays[name] = np.empty(shape, kind) if prod(shape) in totals else np.full(shape, rest, kind)
        (value,) = layout.values
        shape = shape_of(value.extents, sizes)
        if not key.pads and prod(shape) in totals:
            arrays[value.name] = np.empty(shape, dtype)
        elif layout.fill == 0:
            arrays[value.name] = _zeros(shape, dtype)
        else:
            arrays[value.name] = np.full(shape, np.asarray(layout.fill).astype(dtype), dtype)
    except (MemoryError, ValueError):
        raise DataError(f"expected arrays of layout `{layout.name}` that fit in memory, but they do not") from None
    return arrays

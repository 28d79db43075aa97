"""The ways in which entries get from one layout to another with generated C (cir/convert.py, cir/pack.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spfgen.cir.convert import Pair
from spfgen.layout.duplicates import Duplicates
from spfgen.layout.keys import Level
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import Packed
from spfgen.layout.points import Array
from spfgen.run.by_kernel import NoPlace
from spfgen.run.calls.functions import Function, address, shared, zeros
from spfgen.run.calls.layout_signature import LayoutSignature, form_of
from spfgen.run.conversion import Conversion, Digits, Fall


def given_of(
    form: LayoutSignature, sizes: Mapping[str, int], arrays: Mapping[str, Array], to: bool = False
) -> dict[str, int]:
    """A layout's sizes and arrays for C; the arrays are contiguous, and kept by the caller."""
    of_sizes, of_arrays = form.given_to if to else form.given
    given = dict(zip(of_sizes, [sizes[n] for n in form.sizes], strict=True))
    given.update(zip(of_arrays, [address(arrays[n]) for n in form.arrays], strict=True))
    return given


def starts(function: Function, given: Mapping[str, int], parts: int) -> Array:
    """Where the entries of each part of a scan begin, and their number."""
    start = np.zeros(parts + 1, np.int64)
    function({**given, "parts": parts, "count": address(start[1:])})
    return np.cumsum(start, out=start)


@dataclass(slots=True)
class Run:
    """One conversion of `arrays`, which `given` has for C: `stored` places of values. Each way gives None when it is
    not for this data."""

    conversion: Conversion
    digits: Digits
    sizes: Mapping[str, int]
    arrays: Mapping[str, Array]
    given: Mapping[str, int]
    stored: int
    threads: int
    duplicates: Duplicates
    expected: int | None
    """The number of entries, where an entry that is left out is one outside of the extents."""

    @property
    def pair(self) -> Pair:
        return self.conversion.pair

    @property
    def layout(self) -> Layout:
        return self.pair.layout

    @property
    def level(self) -> Level:
        return self.pair.level

    def by(self, way: str) -> Packed | None:
        """By one of the ways. Raises Fall, ToolError."""
        match way:
            case "kernel":
                return self.kernel()
            case "table":
                return self.table()
            case "grouped":
                return self.grouped()
        return self.keys()

    def functions(self, way: str) -> list[Function]:
        found = self.conversion.of(way)
        assert found is not None
        return found

    def ready(self, made: Packed) -> dict[str, int]:
        """The arguments with the target's."""
        return {**self.given, **given_of(form_of(self.layout), made.sizes, made.arrays, to=True)}

    def totals(self, count: Array, in_slots: bool = False) -> tuple[int, int]:
        """(entries, the most of a group); the counts become starts, with `in_slots` those within each group."""
        widest = np.zeros(1, np.int64)
        parts, groups = count.shape
        function = shared("totals_int32" if count.itemsize == 4 else "totals_int64")
        return function(groups, parts, int(in_slots), address(count), address(widest)), int(widest[0])

    def made(self, total: int, widest: int) -> Packed | None:
        """The target, not filled yet, when its only rank has so many positions."""
        room = self.digits.room((total,), (widest,))
        return None if room is None else Packed(dict(room.sizes), room.made(self.layout))

    def check_count(self, total: int) -> None:
        """Raises Fall when entries are missing."""
        if self.expected is not None and total != self.expected:
            raise Fall

    def write_bounds(self, arrays: Mapping[str, Array], start: Array, total: int) -> None:
        """Pointer arrays: where each group begins and ends."""
        rank, calls = self.level.rank, self.pair.key.plan.encoded.calls
        begin = arrays[calls[rank.begin].function]
        (begin if begin.ndim == 1 else begin.reshape(-1))[...] = start
        if rank.other:
            ends = np.append(start[1:], total)
            arrays[calls[rank.other].function].reshape(-1)[...] = ends - start if rank.kind == "counts" else ends

    # --- the kernel that copies

    def kernel(self) -> Packed | None:
        """Entries are counted, then each goes to its place; those at one place are added up."""
        if self.duplicates != "sum":
            return None
        if self.expected is not None and not self.is_inside():
            raise Fall
        try:
            return self.conversion.copy(self.sizes, self.arrays, self.threads)
        except NoPlace as error:
            raise Fall from error

    def is_inside(self) -> bool:
        """Whether the coordinates that a user gave lie within the extents."""
        source = self.pair.source
        shape = [self.sizes[p] for p in source.parameters]
        columns = zip(source.indexes, shape, strict=True)
        return not self.stored or all(
            self.arrays[a.name].min() >= 0 and self.arrays[a.name].max() < n for a, n in columns
        )

    # --- keys in a table

    def table(self) -> Packed | None:
        """All keys that occur are marked and numbered."""
        marking, writing = self.functions("table")
        key, level = self.pair.key, self.level
        low, high = self.digits.limits[0]
        if high - low + 1 > 4 * self.stored + 2**16:
            return None
        mark = np.zeros(high - low + 1, np.uint8)
        more = {"parts": self.threads, "base": low}
        if marking({**self.given, **more, "mark": address(mark)}):
            raise Fall
        number = np.empty(len(mark), np.int64)
        down = int(key.fields[0].down)
        total = shared("numbered")(len(mark), down, address(mark), address(number))
        made = self.made(total, total)
        if made is None:
            return None
        keys = np.flatnonzero(mark) + low
        own = made.arrays[key.plan.encoded.calls[level.rank.keys[0]].function]
        own[level.rank.low : level.rank.low + total] = keys[::-1] if down else keys
        writing({**self.ready(made), **more, "number": address(number)})
        return made

    # --- group by group

    def grouped(self) -> Packed | None:
        """The keys of each group are collected and sorted."""
        functions = self.conversion.of("grouped")
        if functions is None:
            return None
        collecting, writing = functions
        field = self.pair.key.fields[self.level.group]
        low, high = self.digits.limits[self.level.group]
        stored, groups, place = self.stored, self.digits.groups, np.dtype(self.pair.place)
        length = high - low + 1
        if max(length, groups) > 4 * stored + 2**16:
            return None
        parts = max(1, min(self.threads, 4 * stored // length))
        count = zeros((groups + 1,), place)
        room = min(stored, groups * length)
        seen, keys = np.zeros((parts, length), place), np.empty((parts, room), place)
        words = np.empty((parts, length), np.uint64)
        more = {"parts": parts, "base": high if field.down else low, "range": length, "room": room}
        more |= {"count": address(count), "seen": address(seen), "keys": address(keys)}
        bits = max(1, (length - 1).bit_length())
        if collecting({**self.given, **more, "words": address(words), "bits": bits}):
            raise Fall
        total, _ = self.totals(count[None])
        made = self.made(total, total)
        if made is None:
            return None
        self.write_bounds(made.arrays, count[:-1], total)
        writing({**self.ready(made), **more})
        return made

    # --- keys that are sorted

    def keys(self) -> Packed | None:
        """Each entry gets its key; keys are sorted where need be, and ranks counted."""
        counting, making, filling = self.functions("keys")
        if self.digits.bits > 64:
            raise Fall
        start = starts(counting, self.given, self.threads)
        count = int(start[-1])
        self.check_count(count)
        words, values = np.empty(count, np.uint64), np.empty(count, self.pair.types.value)
        more = {"parts": self.threads, "start": address(start), "key": address(words), "value": address(values)}
        if making({**self.given, **self.digits.given, **more}):
            raise Fall
        return self.filled(filling, words, values)

    def filled(self, filling: Function, words: Array, values: Array) -> Packed:
        """Sort the keys if need be, count the ranks, make the arrays and fill them."""
        digits, threads, count = self.digits, self.threads, len(words)
        levels, shifts, of_words = self.pair.key.levels, digits.shifts, address(words)
        places: Array | None = None
        if shared("keys_order")(count, of_words, threads) == 0:
            places = sorted_words(words, digits.bits, threads)
        cuts = [shifts[level.end - 1] for level in levels]
        groups = [shifts[level.group - 1] if level.group else None for level in levels]
        together = [g for level, g in zip(levels, groups, strict=True) if level.rank.kind == "slots" and g is not None]
        start, done = np.empty(threads + 1, np.int64), np.empty((threads, len(cuts)), np.int64)
        of_start = address(start)
        shared("keys_parts")(count, of_words, max(together, default=0), threads, of_start)

        def distinct(cut: int) -> Array:
            found = np.empty(threads, np.int64)
            shared("keys_count")(of_words, cut, threads, of_start, address(found))
            return found

        if self.duplicates != "sum" and int(distinct(0).sum()) < count:
            raise Fall
        totals, widths = [], []
        for number, (cut, group) in enumerate(zip(cuts, groups, strict=True)):
            found = distinct(cut)
            totals.append(int(found.sum()))
            done[:, number] = np.cumsum(found) - found
            widest = totals[-1]
            if levels[number].rank.kind == "slots" and group is not None:
                widest = shared("keys_widest")(of_words, cut, group, threads, of_start)
            widths.append(widest)
        room = digits.room(totals, widths)
        if room is None:
            raise Fall
        made = Packed(dict(room.sizes), room.made(self.layout))
        more: dict[str, Any] = {"count": count, "key": of_words, "value": address(values), "parts": threads}
        more |= {"start": of_start, "done": address(done), "from": None if places is None else address(places)}
        more |= {f"total:{k}": t for k, t in enumerate(totals)}
        filling({**digits.given, **given_of(form_of(self.layout), made.sizes, made.arrays), **more})
        return made


def sorted_words(words: Array, bits: int, threads: int) -> Array:
    """Sort the keys in place; where each was before."""
    count = len(words)
    of_place = max(1, (count - 1).bit_length())
    lead = min(bits, max(0, bits + of_place - 64, min(11, of_place - 5)))
    if lead > of_place + 2:
        raise Fall
    places, room = np.empty(count, np.uint32), np.empty(count, np.uint64)
    start = np.empty((threads << lead) + 1, np.int64)
    pointers = [address(a) for a in (words, places, room, start)]
    shared("keys_sort")(count, bits, lead, *pointers, threads)
    return places

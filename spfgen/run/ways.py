"""The ways in which entries get from one layout to another with generated C (cir/convert.py, cir/pack.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.cir import convert
from spfgen.cir.convert import Pair
from spfgen.layout.duplicates import Duplicates
from spfgen.layout.keys import Level
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import Packed
from spfgen.layout.points import Array
from spfgen.run.calls.functions import Function, address, ordering, shared, zeros
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
            case "sequence":
                return self.sequence()
            case "counted":
                return self.counted()
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

    # --- entries that come in order

    def sequence(self) -> Packed | None:
        """The entries are copied, if they come in order."""
        testing, copying = self.functions("sequence")
        groups = self.digits.groups
        more = {"parts": self.threads, "entries": self.stored}
        if testing({**self.given, **more}) or groups >= tuning.CONVERT_EMPTY_GROUPS * self.stored + 2**16:
            return None
        made = self.made(self.stored, self.stored)
        if made is None:
            return None
        count = zeros((groups,), np.dtype(self.pair.place))
        copying({**self.ready(made), **more, "count": address(count)})
        shared(f"begins_{self.pair.place}")(groups, address(count))
        self.write_bounds(made.arrays, count, self.stored)
        return made

    # --- entries that are counted

    def counted(self) -> Packed | None:
        """The entries of each group are counted, then written as they come, then sorted where need be."""
        counting, writing, testing, spreading, *ahead = self.functions("counted")
        groups, rank, stored = self.digits.groups, self.level.rank, self.stored
        if groups >= tuning.CONVERT_EMPTY_GROUPS * stored + 2**16:
            return None
        apart = self.apart(spreading)
        if (
            apart >= tuning.CONVERT_MANY_APART
            and stored * self.conversion.entry_bytes > tuning.CONVERT_FAR_BYTES
            and convert.is_sortable(self.pair.key)
        ):
            return self.scattered(groups)
        parts = max(1, min(self.threads, 4 * stored // max(groups, 1)))
        count = zeros((parts, groups), np.dtype(self.pair.place))
        more = {"parts": parts, "groups": groups, "count": address(count)}
        if counting({**self.given, **more}):
            raise Fall
        total, widest = self.totals(count, rank.kind == "slots")
        self.check_count(total)
        made = self.made(total, widest)
        if made is None:
            return None
        if rank.begin:
            self.write_bounds(made.arrays, count[0], total)
        if ahead and apart >= tuning.CONVERT_SOME_APART and total == stored:
            writing = ahead[0]
        ready = self.ready(made) | more
        writing(ready)
        if self.conversion.ordered:
            return made
        if convert.is_sortable(self.pair.key):
            wrong = self.sorted(made.arrays, count[-1], widest)
        else:
            wrong = testing({**ready, "parts": self.threads, "count": address(count[-1])}) != 0
        return None if wrong else made

    def apart(self, spreading: Function) -> int:
        """Of 100 entries that follow one another, how many lie far apart in a target that does not fit the cache."""
        groups = self.digits.groups
        if groups == 0 or self.stored * self.conversion.entry_bytes <= tuning.CONVERT_NEAR_BYTES:
            return 0
        buckets, parts = min(groups, tuning.CONVERT_SPREAD), max(1, self.stored // tuning.CONVERT_WINDOW)
        seen = np.zeros(buckets, np.int32)
        more = {"parts": parts, "samples": min(parts, tuning.CONVERT_SAMPLES), "factor": (buckets << 32) // groups}
        return spreading({**self.given, **more, "seen": address(seen)})

    def scattered(self, groups: int) -> Packed | None:
        """By buckets of groups, each of which is finished within the cache."""
        counting, distributing = self.functions("scattered")
        place = np.dtype(self.pair.place)
        if groups >= 2**31 or not self.is_short(self.stored):
            return None
        buckets = self.buckets(groups)
        factor = (buckets << 32) // groups
        count = np.zeros((self.threads, buckets), place)
        more = {"parts": self.threads, "buckets": buckets, "factor": factor, "count": address(count)}
        if counting({**self.given, **more}):
            raise Fall
        total, most = self.totals(count)
        self.check_count(total)
        made = self.made(total, total)
        if made is None:
            return None
        group_of = np.empty(total, np.int32)
        distributing({**self.ready(made), **more, "group_of": address(group_of)})
        keys, values = self.key_array(made.arrays), made.arrays[self.layout.values[0].name]
        begin, most_groups = np.empty(groups, place), 2 + 2**32 // factor
        rooms = [np.empty(self.threads * most_groups, place), *_rooms(self.threads, most, keys, values)]
        finish = ordering(place.name, keys.dtype.name, values.dtype.name).finish_buckets
        given = [address(a) for a in (count[-1], group_of, keys, values, begin)]
        sizes, sorts = (groups, buckets, factor), int(not self.conversion.ordered)
        if finish(*sizes, *given, most_groups, most, *map(address, rooms), sorts, self.threads):
            return None
        self.write_bounds(made.arrays, begin, total)
        return made

    def buckets(self, groups: int) -> int:
        """How many; a bucket begins at another part of a page than the one before, else all would share few lines."""
        most = max(1, min(groups, tuning.CONVERT_BUCKETS, self.stored // tuning.CONVERT_BUCKET))
        return min(
            range(most - most // 8, most + 1), key=lambda b: abs(4 * self.stored / b % 4096 - tuning.CONVERT_PAGE_PART)
        )

    def key_array(self, arrays: Mapping[str, Array]) -> Array:
        """The array of the only key."""
        field = self.pair.key.fields[self.level.group]
        return arrays[self.pair.key.plan.encoded.calls[field.name].function]

    def is_short(self, widest: int) -> bool:
        """Whether a key and a place among so many fit a word."""
        return self.digits.limits[self.level.group][1].bit_length() + max(widest, 2).bit_length() <= 63

    def sorted(self, arrays: Mapping[str, Array], stop: Array, widest: int) -> bool:
        """Sort the keys of each group; whether one is there twice."""
        keys, values = self.key_array(arrays), arrays[self.layout.values[0].name]
        if not self.is_short(widest):
            return True
        order = ordering(stop.dtype.name, keys.dtype.name, values.dtype.name).order_segments
        rooms = _rooms(self.threads, widest, keys, values)
        given = [address(a) for a in (stop, keys, values)]
        return bool(order(len(stop), *given, widest, *map(address, rooms), self.threads))

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


def _rooms(threads: int, most: int, keys: Array, values: Array) -> list[Array]:
    """For each thread room for so many keys (and 32 more), values and words."""
    of_keys = np.empty(threads * (most + 32), keys.dtype)
    return [of_keys, np.empty(threads * most, values.dtype), np.empty(threads * most, np.uint64)]

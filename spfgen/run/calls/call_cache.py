"""Calls like earlier ones: what does not depend on sizes and contents of the operands is found out at the first call.

`evaluate` takes some 100 microseconds to find layouts, a kernel and types, longer than a kernel of a few thousand
entries runs. A later call of the same statements with operands of the same layouts and types checks sizes and index
arrays, makes the results and calls the C. Whatever is unusual goes the long way, which also words all errors.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from spfgen.errors import DataError
from spfgen.layout.fill import typed_fill
from spfgen.layout.nodes import Layout
from spfgen.run.assembly import NARROW, Memory, ResultAssembly
from spfgen.run.calls.bind import is_number
from spfgen.run.calls.functions import address
from spfgen.run.calls.layout_signature import form_of, remember
from spfgen.run.tensor import Array, Tensor, TensorRecord, check_unchanged
from spfgen.run.threads import threads_allowed

if TYPE_CHECKING:
    from spfgen.run.calls.call import Bound
    from spfgen.space.nodes import Tensor as Declared

WORD = 8
"""Bytes of what structs consist of."""
NOTHING = object()
"""What `called` returns where there is no such call, or where it must go the long way."""
_CALLS: dict[Hashable, CachedCall] = {}
NO_RECORDS: Mapping[str, TensorRecord] = MappingProxyType({})
SIGNATURE = "signature"
"""Under which the record of a tensor has it."""


def signature(value: Any) -> Hashable:
    """The layout and the types of an operand; None where calls with it are not cached."""
    if isinstance(value, Tensor):
        return (id(value.layout), *[a.dtype.num for a in value.arrays.values()])
    if type(value) is np.ndarray:
        flags, kind = value.flags, value.dtype
        return (kind.num, value.ndim) if flags.c_contiguous and flags.aligned and kind.isnative else None
    return (type(value),) if is_number(value) else None


def called(key: Hashable, operands: Mapping[str, Any]) -> Any:
    """The result of a call like an earlier one that was remembered under this key; else NOTHING."""
    call = _CALLS.get(key)
    return NOTHING if call is None else call(operands)


def operation_called(name: Hashable, operands: Mapping[str, Any]) -> Any:
    """The same under the key that `operation_key` gives; NOTHING, too, for tensors that are not what they were."""
    kinds, records = list[Hashable](), dict[str, TensorRecord]()
    for operand, value in operands.items():
        if type(value) is Tensor:
            try:
                record = records[operand] = check_unchanged(value)
            except DataError:
                return NOTHING
            kind = record.known.get(SIGNATURE)
            if kind is None:
                kind = record.known[SIGNATURE] = signature(value)
            kinds.append(kind)
        else:
            kinds.append(signature(value))
    call = _CALLS.get((name, None, *operands, *kinds))
    return NOTHING if call is None else call(operands, records)


def operation_key(name: Hashable, operands: Mapping[str, Any]) -> Hashable:
    """Of an operation that is one call of a kernel; layouts and types of operands decide which (`share_call`)."""
    return key_of(name, operands, None)


def share_call(key: Hashable, call: Hashable, names: Collection[str]) -> None:
    """Under `key`, too, the call that is remembered under another key, where it has operands of these names."""
    known_call = _CALLS.get(call)
    if known_call is not None and key is not None and known_call.names == set(names):
        remember(_CALLS, key, known_call)


def is_known(key: Hashable) -> bool:
    return key in _CALLS


def key_of(statements: Hashable, operands: Mapping[str, Any], options: Hashable) -> Hashable:
    """None where calls of these operands are not cached."""
    kinds = tuple([signature(v) for v in operands.values()])
    return None if None in kinds else (statements, options, *operands, *kinds)


def remember_call(key: Hashable, bound: Bound, operands: Mapping[str, Any], out: Any = None) -> None:
    """Keep what later calls need, where the program is a usual one; and the layouts of `out`, which are in the key by
    their identity."""
    program, sizes = bound.program, bound.program.sizes
    unusual = program.parameters, sizes.fixed, sizes.agreements, sizes.derived, program.doubts, program.filled
    inputs = {t.name for t in program.tensors if t.is_input and not t.is_output}
    if (
        any(unusual)
        or inputs != set(operands)
        or not all(_is_in_place(bound.tensors[n], v) for n, v in operands.items())
    ):
        return
    results = [_result(bound, t, inputs) for t in program.tensors if t.is_output]
    known = [r for r in results if r is not None]
    if results and len(known) == len(results):
        remember(_CALLS, key, CachedCall(bound, operands, known, tuple((out or {}).values())))


def _is_in_place(tensor: Tensor, given: Any) -> bool:
    """Whether an operand is used as it is, not converted before; numbers are copied by each call."""
    if isinstance(given, Tensor):
        arrays = tensor.arrays
        return tuple(arrays) == tuple(given.arrays) and all(arrays[n] is a for n, a in given.arrays.items())
    return is_number(given) or tensor.arrays[tensor.layout.values[0].name] is given


def _result(bound: Bound, declared: Declared, inputs: Collection[str]) -> _Result | None:
    """None where a result takes more than memory to make: it has the pattern of others, or extents that no operand
    has."""
    program, layout, name = bound.program, declared.layout, declared.name
    assembly = bound.assemblies.get(name)
    numpy = [b.arrays[0][1] for b in layout.bindings if b.library == "numpy"]
    if declared.is_made != (assembly is not None) or (assembly is None and layout.indexes):
        return None
    if assembly is None and layout.rank and not numpy:
        return None
    sources = []
    for field, dim in zip((*layout.parameters, *layout.sizes), (*declared.extents, *declared.sizes), strict=True):
        place = next((p for p in program.sizes.readings.get(dim, ()) if p[0] in inputs), None)
        if place is None:
            return None
        sources.append((field, *place))
    kinds = dict(declared.final_types)
    tensor = bound.tensors[name] if assembly is None else bound.pending[name]
    turned = layout.rank > 0 and numpy[:1] == ["T"]
    return _Result(name, layout, tensor.dtype, tuple(sources), layout.values[0].name, turned, assembly, kinds)


@dataclass(frozen=True, eq=False)
class _Result:
    """One that the call makes. `sources`: for each parameter and size, the operand and the size of it that it has.
    `assembly`: of one whose pattern is computed, with the types of its index arrays."""

    name: str
    layout: Layout
    dtype: Any
    sources: tuple[tuple[str, str, str], ...]
    value: str
    turned: bool
    assembly: ResultAssembly | None
    kinds: Mapping[str, str]

    def extents(self, sizes: Mapping[str, Mapping[str, int]]) -> tuple[list[int], tuple[int, ...]]:
        """(what its struct says, the shape of its array)."""
        own_sizes = {n: sizes[operand][size] for n, operand, size in self.sources}
        if self.assembly is None:
            return list(own_sizes.values()), form_of(self.layout).shape(self.value, own_sizes)
        kept = len(self.layout.parameters)  # of which none is a number below 0
        return [n or -1 if k < kept else n for k, n in enumerate(own_sizes.values())], ()

    def array(self, made: Array) -> Any:
        """An array as numpy has it, or a number."""
        return made[()] if not made.ndim else made.T if self.turned else made

    def taken(self, struct: ctypes.Structure, threads: int) -> Any:
        """A tensor, of what the C says after a call."""
        assert self.assembly is not None
        tensor = self.assembly.taken(struct, self.kinds, self.dtype)
        return self.assembly.finished(self.name, tensor, threads)


class CachedCall:
    """A kernel for operands of these layouts and types, to be called with others of them.

    What the C takes are pointers to structs of words (sizes and addresses), which lie one behind the other."""

    def __init__(self, bound: Bound, operands: Mapping[str, Any], results: list[_Result], kept: object) -> None:
        program, tensors = bound.program, bound.tensors
        self.names = set(operands)
        places = {name: k for k, (name, *_) in enumerate(bound.entry.structs)}
        self._structs = bound.entry.structs
        self._lengths = [ctypes.sizeof(struct) // WORD for _, struct, *_ in self._structs]
        self._levels = [None] if program.levels else []
        self._most = max((r.assembly.most for r in results if r.assembly is not None), default=None)
        more = len(self._levels) + (self._most is not None)
        pointers = [ctypes.c_void_p] * len(self._lengths)
        kind = ctypes.CFUNCTYPE(ctypes.c_int, *pointers, ctypes.c_int, *[ctypes.c_void_p] * more)
        self._function = kind(ctypes.cast(bound.entry.function, ctypes.c_void_p).value)  # type: ignore[arg-type]
        structs = [struct for _, struct, *_ in self._structs]
        self._tensors = [
            (p := places[n], n, v.layout, (structs[p], signature(v)))
            for n, v in operands.items()
            if isinstance(v, Tensor)
        ]
        self._arrays = [(places[n], n) for n, v in operands.items() if isinstance(v, np.ndarray)]
        self._numbers = [(places[n], n, tensors[n].dtype) for n, v in operands.items() if is_number(v)]
        self._results = [(places[r.name], r, filling(r)) for r in results]
        made = [
            places[n]
            for n in (*[n for _, n in self._arrays], *[n for _, n, _ in self._numbers], *[r.name for r in results])
        ]
        begins = accumulate([WORD * self._lengths[place] for place in made], initial=0)
        self._made = list(zip(made, begins, strict=False))
        """The places of structs that a call makes, where each begins among their words."""
        self._alone = results[0] if len(results) == 1 and results[0].assembly is None else None
        agreeing = [[p for p in places if p[0] in operands] for places in program.sizes.readings.values()]
        self._agreeing = [(first, others) for first, *others in filter(None, agreeing)]
        self._largest = min(NARROW, program.limits.safe)
        self._threads = bound.threads
        self._extents: dict[Any, Any] = {}
        self._kept = kept, bound.entry.function

    def __call__(self, operands: Mapping[str, Any], records: Mapping[str, TensorRecord] = NO_RECORDS) -> Any:
        """NOTHING where they are others than they seem, and where the C finds fault with them. `records`: those of
        tensors that were looked at just now."""
        pointers, words = [0] * len(self._lengths), list[int]()
        kept_alive, held, sizes = list[Array](), list[Any](), list[Any]()
        for place, name, layout, key in self._tensors:
            value = operands[name]
            if value.layout is not layout:
                return NOTHING
            try:
                known = (records.get(name) or check_unchanged(value)).known
            except DataError:
                return NOTHING
            if key not in known:
                if signature(value) != key[1]:
                    return NOTHING
                known[key] = self._of_tensor(place, value)
            of_operand, pointers[place], own_words = known[key]
            sizes.append(of_operand)
            held.append(own_words)
        for _, name in self._arrays:
            shape = operands[name].shape
            words += shape
            words.append(address(operands[name]))
            sizes.append(shape)
        try:
            for _, name, kind in self._numbers:
                kept_alive.append(np.array(operands[name], kind))
                words.append(address(kept_alive[-1]))
            given = tuple(sizes)
            extents = self._extents.get(given)
            if extents is None:
                extents = self._extents_of(operands)
                remember(self._extents, given, extents)
            if not extents:
                return NOTHING
            for (place, result, fill), (of_operand, shape) in zip(self._results, extents, strict=True):
                words += of_operand
                if result.assembly is None:
                    kept_alive.append(
                        np.zeros(shape, result.dtype) if fill is None else np.full(shape, fill, result.dtype)
                    )
                    words.append(address(kept_alive[-1]))
                else:
                    words += [0] * (self._lengths[place] - len(of_operand))
        except (MemoryError, ValueError, OverflowError):
            return NOTHING
        return self._run(pointers, array("q", words), kept_alive)

    def _of_tensor(self, place: int, value: Tensor) -> tuple[tuple[int, ...], int, array[int]]:
        """(its sizes, where its struct is, which the C does not change, the words of that)."""
        *_, fields, names = self._structs[place]
        sizes = tuple([value.sizes[n] for n in fields])
        words = array("q", [*sizes, *[address(value.arrays[a]) for a in names]])
        return sizes, words.buffer_info()[0], words

    def _extents_of(self, operands: Mapping[str, Any]) -> list[Any]:
        """Those of the results; none where extents of one index differ, or one is too large for these types."""
        sizes: dict[str, Mapping[str, int]] = {n: {} for _, n, _ in self._numbers}
        for place, name in self._arrays:
            fields = self._structs[place][2]
            sizes[name] = dict(zip(fields, operands[name].shape, strict=True))
        sizes |= {n: operands[n].sizes for _, n, *_ in self._tensors}
        for (name, size), others in self._agreeing:
            extent = sizes[name][size]
            if extent > self._largest or any(sizes[n][size_there] != extent for n, size_there in others):
                return []
        return [r.extents(sizes) for _, r, _ in self._results]

    def _run(self, pointers: list[int], words: array[int], kept_alive: Sequence[Array]) -> Any:
        more: list[Any] = [*self._levels]
        if self._most is not None:
            more.append(ctypes.byref(Memory(max_workspace=self._most)))
        threads, base = threads_allowed(self._threads), words.buffer_info()[0]
        for place, begin in self._made:
            pointers[place] = base + begin
        if self._function(*pointers, threads, *more):
            return NOTHING
        if self._alone is not None:
            return self._alone.array(kept_alive[-1])
        arrays, begins = iter(kept_alive[len(self._numbers) :]), dict(self._made)
        results = [
            (
                r.name,
                r.array(next(arrays))
                if r.assembly is None
                else r.taken(self._structs[place][1].from_buffer(words, begins[place]), threads),
            )
            for place, r, _ in self._results
        ]
        return results[0][1] if len(results) == 1 else dict(results)


def filling(result: _Result) -> Any:
    """What a new array holds; None for 0."""
    return None if result.layout.fill_text == "0" else typed_fill(result.layout.fill, result.dtype)

"""Calls a compiled kernel: structs for its tensors, checks before the call, error codes after it."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from spfgen.cir.lower.layout import field_name, finished
from spfgen.errors import DataError, InternalError, UsageError
from spfgen.facts.formula import Bin, Expr, Var, evaluate, show
from spfgen.ir import walk
from spfgen.lang.expressions import did_you_mean
from spfgen.layout.fill import filled
from spfgen.public import Public
from spfgen.run.assembly import Memory, ResultAssembly, pending
from spfgen.run.calls.validation_cache import equal
from spfgen.run.tensor import Array, Tensor, described, extents_of, size_number
from spfgen.run.threads import Forks, threads_allowed
from spfgen.space.nodes import Program
from spfgen.space.nodes import Tensor as Declared

MEMORY, RANGE, PLACE, INDEX = 3, 4, 5, 6
STATUS = {1: "a null pointer", 2: "sizes that do not agree", MEMORY: "no memory for a workspace"}


def struct_of(declared: Declared) -> type[ctypes.Structure]:
    """The ctypes structure that mirrors the C struct of a tensor."""
    layout = finished(declared).layout
    return _structure(declared.name, (*layout.parameters, *layout.sizes), layout.arrays)


@lru_cache(maxsize=1024)
def _structure(name: str, sizes: tuple[str, ...], arrays: tuple[str, ...]) -> type[ctypes.Structure]:
    fields: list[tuple[str, Any]] = [(field_name(n), ctypes.c_int64) for n in sizes]
    fields += [(field_name(a), ctypes.c_void_p) for a in arrays]
    return type(f"{name}_struct", (ctypes.Structure,), {"_fields_": fields})


def function_name(program: Program) -> str:
    """The function that calls from Python call: that with an allocator, where it makes results."""
    return f"{program.name}_in" if any(t.is_made for t in program.tensors) else program.name


class KernelVariant:
    """A compiled kernel for fixed element types, with what its calls need to know of the program, found out once."""

    def __init__(self, program: Program, function: Callable[..., int]) -> None:
        self.program = program
        self.function = function
        self.structs = []
        for declared in program.tensors:
            layout = declared.layout
            arrays = () if declared.is_made else layout.arrays
            self.structs.append((declared.name, struct_of(declared), (*layout.parameters, *layout.sizes), arrays))
        self._equal = [
            (size, program.sizes.fixed.get(size), _names(program, size), tuple(places))
            for size, places in program.sizes.readings.items()
        ]
        self._shared = [
            (t.name, array, *function.partition(".")[::2])
            for t in program.tensors
            for array, function in t.arrays
            if function.partition(".")[0] != t.name
        ]
        outputs = [t for t in program.tensors if t.is_output and not t.is_made]
        self._apart = {t.name: tuple(_other_arrays(program, t)) for t in outputs}

    def check(
        self,
        tensors: Mapping[str, Tensor],
        sizes: Mapping[str, int],
        results: Container[str] = (),
        validate: str = "once",
    ) -> None:
        """Raises DataError when sizes contradict each other, a tensor does not have the pattern that it shares, or an
        output overlaps another array.

        Outputs in `made` were allocated for the call: they overlap nothing, and have the patterns of others.
        """
        known: dict[str, int] = {}
        for size, fixed, names, places in self._equal:
            values = {tensors[t].sizes[f] for t, f in places}
            if fixed is not None:
                values.add(fixed)
            if sizes:
                values.update(sizes[n] for n in names if n in sizes)
            if len(values) > 1:
                raise _contradiction(self.program, size, tensors, sizes)
            if values:
                known[size] = values.pop()
        for groups in self.program.sizes.agreements:
            _check_least(self.program, groups, tensors, sizes)
        known.update(sizes)
        _check_derived(self.program, tensors, sizes)
        if max(known.values(), default=0) > self.program.limits.safe:
            _check_fits(self.program, known, tensors)
        for name, array, owner, shared_array in self._shared:
            if name not in results:
                _check_shared(tensors, name, array, owner, shared_array, validate)
        for name, others in self._apart.items():
            if name not in results:
                _check_apart(name, tensors, others)

    def bind(
        self,
        tensors: Mapping[str, Tensor],
        sizes: Mapping[str, int],
        threads: int,
        results: Container[str] = (),
        validate: str = "once",
        assemblies: Mapping[str, ResultAssembly] = MappingProxyType({}),
    ) -> Bound:
        self.check(tensors, sizes, results, validate)
        return Bound(self.program, self.function, tensors, sizes, threads, self, assemblies)


class LevelsStruct(ctypes.Structure):
    """What a loop that runs level by level keeps between calls (rt/levels_type.h)."""

    WHOLE = (
        *("iterations", "allowed", "threads", "size", "shift", "levels", "wanted"),
        *("units", "ahead", "listed", "way", "turn", "calls", "longer", "busy"),
    )
    POINTERS = (
        *("unit", "run", "wait", "need", "done", "seen", "other"),
        *("depth", "work", "place", "nearest", "lists", "latest"),
    )
    _fields_ = (
        *((name, ctypes.c_int64) for name in WHOLE),
        *((name, ctypes.c_double) for name in ("start", "spent", "limit")),
        ("lately", ctypes.c_double * 4),
        *((name, ctypes.c_void_p) for name in POINTERS),
    )


def _freed(kept: Iterable[LevelsStruct]) -> None:
    """Give back the memory that kernels took for it."""
    free = ctypes.CDLL(None).free
    free.argtypes = (ctypes.c_void_p,)
    for order in kept:
        if order.other:
            _freed([LevelsStruct.from_address(order.other)])
        for name in LevelsStruct.POINTERS:
            free(getattr(order, name))


@dataclass(frozen=True)
class _Assembled:
    """A result whose pattern is computed: how it is made, in which struct, of which types. Without an assembly nobody
    wants it."""

    name: str
    assembly: ResultAssembly
    struct: ctypes.Structure
    kinds: Mapping[str, str]
    pending: Tensor

    def ready(self) -> None:
        """Before a call: the extents, as far as operands do not say them; none is a number below 0."""
        for name in self.pending.layout.parameters:
            setattr(self.struct, field_name(name), self.pending.sizes[name] or -1)


class Bound(Public):
    """A kernel with its operands in place: call it again and again. Holds references to all arrays.

    Loops that run level by level (a triangular solve) find their levels, or lists, in the first call after
    `keep_levels`, and use them in the later ones; without it they are serial.

    `threads` of 0 leaves the number of threads to OpenMP (OMP_NUM_THREADS). In a child of a process that has run
    kernels with threads, one thread is used. Values may change between calls; index arrays were checked when the
    operands were bound, and may not. Arrays that are put into a tensor in place of others later are not seen.
    """

    _public = ("sizes", "tensors")
    sizes: dict[str, int]
    """Extents and sizes by name."""
    tensors: dict[str, Tensor]
    """Operands and results by name."""

    def __init__(
        self,
        program: Program,
        function: Callable[..., int],
        tensors: Mapping[str, Tensor],
        sizes: Mapping[str, int],
        threads: int,
        checked: KernelVariant | None = None,
        assemblies: Mapping[str, ResultAssembly] = MappingProxyType({}),
    ) -> None:
        entry = checked or KernelVariant(program, function)
        if checked is None:
            entry.check(tensors, sizes)
        self.entry, self.threads = entry, threads
        self.program = program
        self.statements: tuple[Any, ...] = ()
        """What is computed, where that is known: for messages."""
        self.tensors = dict(tensors)
        self.sizes = dict(sizes)
        self._function = function
        structs = []
        self._held: list[Array] = []
        for name, struct, fields, arrays in entry.structs:
            tensor = tensors[name]
            sizes_of_tensor, arrays_of_tensor = tensor.sizes, tensor.arrays
            self._held += [arrays_of_tensor[a] for a in arrays]
            structs.append(
                struct(
                    *[sizes_of_tensor[n] for n in fields],
                    *[arrays_of_tensor[a].__array_interface__["data"][0] for a in arrays],
                )
            )
        self._structs = structs
        by_name = dict(zip((name for name, *_ in entry.structs), structs, strict=True))
        self._assembled = [
            _Assembled(t.name, assemblies[t.name], by_name[t.name], dict(t.final_types), tensors[t.name])
            for t in program.tensors
            if t.is_made
        ]
        self.assemblies = assemblies
        self.pending = {a.name: a.pending for a in self._assembled}
        self._memory = Memory(max_workspace=max((a.assembly.most for a in self._assembled), default=0))
        self.otherwise: Callable[[int], Mapping[str, Tensor]] | None = None
        """Makes results, or says what is wrong with them, where the C has no place for an entry or no number for it."""
        self._threads = ctypes.c_int(threads)
        self._process: object = None
        self._arguments: tuple[object, ...] = (
            *map(ctypes.byref, structs),
            *[ctypes.c_int64(sizes[name]) for name in program.parameters],
            self._threads,
            *([None] if program.levels else []),
            *([ctypes.byref(self._memory)] if self._assembled else []),
        )

    def keep_levels(self) -> Bound:
        """The same; what decides the order of its loops is found once and kept, for many calls."""
        place = len(self._arguments) - (2 if self._assembled else 1)
        if self.program.levels and self._arguments[place] is None:
            kept = (LevelsStruct * self.program.levels)()
            weakref.finalize(self, _freed, kept)
            self._arguments = (*self._arguments[:place], kept, *self._arguments[place + 1 :])
        return self

    def __call__(self) -> None:
        """Run once; results whose pattern is computed are new tensors then. Raises DataError when memory is out."""
        if self._process is not Forks.process:
            self._process, self._threads.value = Forks.process, threads_allowed(self.threads)
        for assembled in self._assembled:
            assembled.ready()
        status = self._function(*self._arguments)
        if status in (PLACE, INDEX) and self.otherwise is not None:
            self.tensors.update(self.otherwise(status))
        elif status:
            self._fail(status)
        else:
            for result in self._assembled:
                self._take(result)

    def _take(self, result: _Assembled) -> None:
        tensor = result.assembly.taken(result.struct, result.kinds, result.pending.dtype)
        self.tensors[result.name] = result.assembly.finished(result.name, tensor, self._threads.value)

    def _fail(self, status: int) -> None:
        """The other codes report what was checked before the call."""
        if status == MEMORY:
            what = "the entries or a workspace" if self._assembled else "a workspace"
            if most := self._memory.max_workspace:
                message = f"expected entries and workspaces of `{self.program.name}` that take at most {most} bytes"
                raise DataError(f"{message}, but they take more", None, ("`max_workspace` is the limit",))
            raise DataError(f"expected memory for {what} of `{self.program.name}`, but there is not enough")
        if status == RANGE:
            from spfgen.run.calls.outside import outside  # with the language, which other calls do without

            which = outside(self.statements, self.tensors) or "one does not"
            raise DataError(
                f"expected the subscripts of `{self.program.name}` that are values to lie within their tensors, but "
                f"{which}",
                None,
                ("subscripts count from 0; the results of this call are incomplete",),
            )
        if status == PLACE:
            from spfgen.run.calls.pattern_overflow import say_where
            from spfgen.space.pattern_overflow import is_given  # which is about relations: other calls do without

            say_where(self.program, self.tensors, self.sizes)
            given = [t for t in self.program.tensors if t.is_output and is_given(t)]
            names = " and ".join(f"`{t.name}`" for t in given)
            raise DataError(
                f"expected {names} to store all that `{self.program.name}` computes, but an entry has no place",
                None,
                (
                    "pass a pattern that contains it; the results of this call are incomplete",
                    f"to compute only what is stored, write `within {given[0].name}` after the statement",
                ),
            )
        raise InternalError(f"{self.program.name} returned {status}: {STATUS.get(status, 'unknown')}")

    def __repr__(self) -> str:
        tensors = ", ".join(f"{n} <spfgen.Tensor {described(t)}>" for n, t in self.tensors.items())
        return f"<spfgen.Bound {self.program.name}: {tensors}>"


def checked_sizes(program: Program, sizes: Mapping[str, object]) -> dict[str, int]:
    """Sizes by the names of sizes and indices. Raises UsageError for an unknown name, DataError for a wrong value."""
    known = {*program.size_names, *program.sizes.of_index, *program.sizes.numbers}
    for name in sizes:
        if name not in known:
            plain = sorted(n for n in known if "." not in n)
            raise UsageError(
                f"expected an index or a size of `{program.name}`, but `{name}` is neither",
                None,
                (did_you_mean(name, plain) or f"known: {', '.join(plain)}",),
            )
    numbers = {name: size_number(name, value) for name, value in sizes.items()}
    for name, number in program.sizes.numbers.items():
        if numbers.pop(name, number) != number:
            raise DataError(f"expected {number} for `{name}`, which the text says, but it is {sizes[name]}")
    return numbers


def _contradiction(program: Program, size: str, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> DataError:
    """What names the two places that say different things of a size."""
    stated = [*_said(program, size, sizes)]
    stated += [(f"{t}.{f}", tensors[t].sizes[f]) for t, f in program.sizes.readings[size]]
    other, value = next(one for one in stated if one[1] != stated[0][1])
    return DataError(
        f"expected extents that agree, but {stated[0][0]} is {stated[0][1]} and {other} is {value}",
        None,
        (_why(program, size),),
    )


def _check_least(
    program: Program, groups: Sequence[Sequence[str]], tensors: Mapping[str, Tensor], sizes: Mapping[str, int]
) -> None:
    """The extents of an index that an access repeats agree: the least ones of each group."""
    extents = [(size, size_value(program, size, tensors, sizes)) for group in groups for size in group]
    known = {size: value for size, value in extents if value is not None}
    least = [min(known[size] for size in group) for group in groups]
    if len(set(least)) > 1:
        one, other = groups[0], groups[next(k for k, n in enumerate(least) if n != least[0])]
        raise DataError(
            f"expected extents that agree, but {_smaller(one)} is {least[0]} and "
            f"{_smaller(other)} is {next(n for n in least if n != least[0])}",
            None,
            ("one index runs over both",),
        )


def _check_derived(program: Program, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> None:
    """Extents are what views make them of others."""
    for left, expr, is_checked in program.sizes.derived:
        if not is_checked:
            continue
        one = _evaluated(program, left, tensors, sizes)
        other = _evaluated(program, expr, tensors, sizes)
        if one is not None and other is not None and one != other:
            raise DataError(
                f"expected extents that agree, but {_called(program, left)} is {one} and {show(expr)} is {other}",
                None,
                ("a view of other tensors has this extent",),
            )


def _called(program: Program, extent: Expr) -> str:
    """An extent that is nobody's own by the index that has it."""
    name = show(extent)
    indices = (i for i, extents in program.sizes.of_index.items() if extents == (name,) and "." not in name)
    return next((f"`{i}`" for i in indices), name)


def _smaller(group: Sequence[str]) -> str:
    return group[0] if len(group) == 1 else f"the least of {' and '.join(group)}"


def _said(program: Program, size: str, sizes: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """What the text of the kernel and the caller's sizes say of a size."""
    if size in program.sizes.fixed:
        yield "the extent in the kernel's text", program.sizes.fixed[size]
    for name in _names(program, size):
        if name in sizes:
            yield f"the size given for `{name}`", sizes[name]


def _names(program: Program, size: str) -> list[str]:
    """The names under which a caller can give a size: its own, and those of the indices that run over it alone."""
    return list(dict.fromkeys([size, *(i for i, extents in program.sizes.of_index.items() if extents == (size,))]))


def _why(program: Program, size: str) -> str:
    indices = [i for i, extents in program.sizes.of_index.items() if size in extents]
    return f"index `{indices[0]}` runs over both" if indices else "they are declared to be the same size"


def _other_arrays(program: Program, output: Declared) -> Iterator[tuple[str, str, str]]:
    """(own value array, other tensor, its array): the pairs that may not overlap."""
    for value in output.layout.values:
        for other in (t for t in program.tensors if not t.is_made):
            is_output = other.name == output.name
            yield from (
                (value.name, other.name, name) for name in other.layout.arrays if not is_output or name != value.name
            )


def _check_shared(
    tensors: Mapping[str, Tensor], name: str, array: str, owner: str, shared_array: str, validate: str
) -> None:
    """A tensor that shares the pattern of another one has equal index arrays."""
    if not equal(tensors[name].arrays[array], tensors[owner].arrays[shared_array], validate):
        raise DataError(
            f"expected `{name}` to share `{shared_array}` of `{owner}`, but its `{array}` holds other numbers",
            None,
            (f"make it over the arrays of `{owner}`, or leave `{name}` out: it is made then",),
        )


def _check_apart(name: str, tensors: Mapping[str, Tensor], others: Iterable[tuple[str, str, str]]) -> None:
    """An output's values may not overlap any other array of the call."""
    for array_of_output, other, array in others:
        if np.may_share_memory(tensors[name].arrays[array_of_output], tensors[other].arrays[array]):
            raise DataError(
                f"expected `{name}` in memory of its own, but it overlaps `{array}` of `{other}`",
                None,
                ("the kernel would read what it has already changed: pass a copy",),
            )


def _check_fits(program: Program, sizes: Mapping[str, int], tensors: Mapping[str, Tensor]) -> None:
    """What C computes of these sizes fits in 64 bits. Raises DataError."""
    ranges = {name: (value, value) for name, value in sizes.items()}
    owners = {function: (t.name, array_name) for t in program.tensors for array_name, function in t.arrays}

    def range_of(function: str) -> tuple[int, int]:
        tensor, array = owners[function]
        beyond = tensors[tensor].arrays[array]
        return (int(beyond.min()), int(beyond.max())) if beyond.size else (0, 0)

    beyond = program.limits.beyond(ranges) and program.limits.beyond(ranges, range_of)
    if beyond is not None:
        expr, reached = beyond
        large = [f"{name} = {value}" for name, value in sizes.items() if value > 2**15]
        raise DataError(
            f"expected sizes with which `{show(expr)}` fits in 64 bits, but it may reach {reached}",
            None,
            (f"where {', '.join(large)}", "make the extents smaller: kernels compute in 64-bit integers"),
        )


class Output:
    """How an output that was not given is made, found out once."""

    def __init__(self, program: Program, declared: Declared) -> None:
        layout = declared.layout
        self.declared = declared
        self._program = program
        self._fields = tuple(
            zip((*layout.parameters, *layout.sizes), (*declared.extents, *declared.sizes), strict=True)
        )
        self._shared = [(array, *function.partition(".")[::2]) for array, function in declared.arrays]

    def make(self, tensors: Mapping[str, Tensor], sizes: Mapping[str, int], dtype: Any) -> Tensor | None:
        """Nothing but the fill value, with the extents of the other operands; None when its sizes or index arrays are
        not known."""
        layout, own_name = self.declared.layout, self.declared.name
        pattern = {
            a: tensors[o].arrays[shared_array] for a, o, shared_array in self._shared if o != own_name and o in tensors
        }
        lengths = {
            extent.name: length
            for index in layout.indexes
            if index.name in pattern
            for extent, length in zip(index.extents, pattern[index.name].shape, strict=True)
            if isinstance(extent, Var)
        }
        own_sizes: dict[str, int] = {}
        for name, dim in self._fields:
            value = size_value(self._program, dim, tensors, sizes)
            value = lengths.get(name) if value is None else value
            if value is None:
                return None
            own_sizes[name] = value
        if self.declared.is_made:
            return pending(self.declared, own_sizes, dtype)
        if len(pattern) < len(self._shared):
            return None
        arrays: dict[str, Any] = dict(pattern)
        for value_array in layout.values:
            arrays[value_array.name] = _filled(
                own_name, extents_of(layout, value_array.name, own_sizes), layout.fill, dtype
            )
        return Tensor(layout, own_sizes, arrays)

    def unknown(self, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> list[str]:
        """The indices whose extents nothing says, or the names of these where no index has them: `B.nrow` of
        `B[q[i], j]`."""
        dims = [dim for _, dim in self._fields if size_value(self._program, dim, tensors, sizes) is None]
        indices = [index for index, extents in self._program.sizes.of_index.items() if {*dims} & {*extents}]
        return indices or [dim for dim in dims if dim in self._program.sizes.readings]


def _filled(name: str, shape: tuple[int, ...], fill: Any, dtype: str) -> Array:
    try:
        return filled(shape, fill, dtype)
    except DataError:
        raise
    except (MemoryError, ValueError):  # ValueError: the number of bytes is beyond the address space
        extents = " x ".join(map(str, shape))
        raise DataError(f"expected an output `{name}` that fits in memory, but it is {extents} of {dtype}") from None


def size_value(program: Program, size: str, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> int | None:
    """The value of a size dimension: fixed, given by its name or by an index's, or read from an operand. Where none of
    these says it, that of an extent that it must agree with, or that its index has in another statement."""
    value = _own_value(program, size, tensors, sizes)
    for groups in program.sizes.agreements if value is None else ():
        for group in groups if any((size,) == g for g in groups) else ():
            values = [_own_value(program, s, tensors, sizes) for s in group]
            known = [n for n in values if n is not None]
            if value is None and len(known) == len(group):
                value = min(known)
    if value is None:
        value = _derived_value(program, size, tensors, sizes, frozenset())
    for index, extents in program.sizes.of_index.items() if value is None else ():
        if size in extents:
            elsewhere = (_own_value(program, e, tensors, sizes) for e in extents)
            values = [sizes.get(index), *elsewhere]
            value = next((n for n in values if n is not None), value)
    return value


def _derived_value(
    program: Program, size: str, tensors: Mapping[str, Tensor], sizes: Mapping[str, int], asking: frozenset[str]
) -> int | None:
    """What follows from the sizes of other tensors, through views."""
    rules = [expr for left, expr, _ in program.sizes.derived if left == Var(size)] if size not in asking else []
    values = (_evaluated(program, expr, tensors, sizes, asking | {size}) for expr in rules)
    return next((value for value in values if value is not None), None)


def _evaluated(
    program: Program,
    expr: Expr,
    tensors: Mapping[str, Tensor],
    sizes: Mapping[str, int],
    asking: frozenset[str] = frozenset(),
) -> int | None:
    """What an extent is of others, where these are known; not those that are being asked for."""

    def known(name: str) -> int:
        number_of = sizes.get(name)
        number_of = _own_value(program, name, tensors, sizes) if number_of is None else number_of
        number_of = _derived_value(program, name, tensors, sizes, asking) if number_of is None else number_of
        if number_of is None:
            raise KeyError(name)
        return number_of

    def number(part: Expr) -> int:
        return int(evaluate(part, known, lambda f, _: known(f)))

    try:
        if any(isinstance(n, Bin) and n.op == "/" and number(n.right) == 0 for n in walk(expr)):
            return None  # what parts of nothing a whole of nothing has may be any number
        return number(expr)
    except KeyError:
        return None


def _own_value(program: Program, size: str, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> int | None:
    if size in program.sizes.fixed:
        return program.sizes.fixed[size]
    if sizes:
        for name in _names(program, size):
            if name in sizes:
                return int(sizes[name])
    for tensor, field in program.sizes.readings.get(size, ()):
        if tensor in tensors:
            return tensors[tensor].sizes[field]
    return None

"""`spfgen run`: read or draw the operands, run the kernel, time it, compare it with the reference, write results."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from spfgen.api import Kernel
from spfgen.errors import CheckFailed, DataError, UsageError
from spfgen.lang.expressions import counted
from spfgen.lang.reference import Stored, evaluate
from spfgen.lang.types import TYPES
from spfgen.layout import pack as packing
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import pack
from spfgen.run.bind import typed
from spfgen.run.call import Bound, checked_sizes, size_value
from spfgen.run.count import count_operations
from spfgen.run.read import Coordinates, random_data, read
from spfgen.run.tensor import Array, Tensor, about, described
from spfgen.run.write import write
from spfgen.space.nodes import Program
from spfgen.space.nodes import Tensor as Declared

DEFAULT_DENSITY = 0.1
RANDOM = "random"
COLUMNS = (".mtx", ".mtx.gz")
"""Files of matrices, where a vector is one column."""


@dataclass(frozen=True)
class Job:
    """`data` names a source for each operand: a file, a number for a scalar, `random` or `random:DENSITY`; `outputs`
    a file for results; `shapes` the extents of operands."""

    data: Mapping[str, str]
    sizes: Mapping[str, int]
    outputs: Mapping[str, str]
    repeat: int
    seed: int
    check: bool
    force: bool
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """`failure` is what the check found; then no result was written."""

    kernel: str
    operands: Mapping[str, str]
    threads: str
    seconds: tuple[float, ...]
    operations: int
    moved_bytes: int
    check: str | None
    failure: CheckFailed | None = None
    written: tuple[str, ...] = field(default=())

    @property
    def median(self) -> float:
        """Not 0: a clock may be too coarse to see a call."""
        return max(float(np.median(self.seconds)), 1e-9)

    def as_dict(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "operands": dict(self.operands),
            "threads": self.threads,
            "seconds": {"median": self.median, "min": min(self.seconds), "max": max(self.seconds)},
            "operations": self.operations,
            "gflops": self.operations / self.median / 1e9,
            "bytes": self.moved_bytes,
            "gbytes_per_second": self.moved_bytes / self.median / 1e9,
            "check": self.check,
            "passed": None if self.check is None else self.failure is None,
            "written": list(self.written),
        }

    def text(self) -> str:
        width = max([len(n) for n in self.operands], default=0)
        lines = [f"{self.kernel}"]
        lines += [f"  {name:<{width}}  {what}" for name, what in self.operands.items()]
        lines.append(
            f"  time     {_seconds(self.median)} (median of {len(self.seconds)}, {_seconds(min(self.seconds))} to "
            f"{_seconds(max(self.seconds))}), threads: {self.threads}"
        )
        lines.append(f"  speed    {self.operations / self.median / 1e9:.3g} GFLOP/s ({self.operations} operations)")
        lines.append(
            f"  memory   {self.moved_bytes / self.median / 1e9:.3g} GB/s "
            f"({self.moved_bytes} bytes: each operand read once, each result written once)"
        )
        if self.check:
            lines.append(f"  check    {self.check}")
        lines += [f"  wrote    {path}" for path in self.written]
        return "\n".join(lines)


def _seconds(value: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def run_job(kernel: Kernel, job: Job) -> Report:
    """Raises DataError, UsageError for what is wrong with the call or the data; a failed check is in the report."""
    program = kernel.generated.program
    _check_names(program, job)
    for name, path in job.outputs.items():
        _check_target(program.tensor(name), path, job)
    bound = kernel.bind(sizes=job.sizes, **_operands(program, job))
    before = {t.name: _values(bound.tensors[t.name]) for t in program.tensors if t.is_output}
    seconds = _timed(bound, before, job.repeat)
    checked, failure = _verdict(kernel, bound, before) if job.check else (None, None)
    written = {} if failure else job.outputs
    for name, path in written.items():
        write(path, _written(bound.tensors[name], path), force=job.force)
    return Report(
        kernel.name,
        {t.name: _described(t, bound.tensors[t.name]) for t in program.tensors},
        str(kernel.threads or os.environ.get("OMP_NUM_THREADS") or "default"),
        tuple(seconds),
        count_operations(kernel, bound),
        _moved(bound),
        checked,
        failure,
        tuple(written.values()),
    )


def _check_names(program: Program, job: Job) -> None:
    names = [t.name for t in program.tensors]
    for name in (*job.data, *job.outputs, *job.shapes):
        if name not in names:
            raise UsageError(
                f"expected an operand of `{program.name}`, but `{name}` is not one",
                None,
                (f"its operands: {', '.join(names)}",),
            )
    for name in job.outputs:
        if not program.tensor(name).is_output:
            raise UsageError(f"expected a result of `{program.name}`, but `{name}` is an operand")
    for name, shape in job.shapes.items():
        rank = program.tensor(name).layout.rank
        if len(shape) != rank:
            wanted = counted(rank, "extent")
            raise UsageError(f"expected {wanted} for `{name}`, but its --shape has {len(shape)}")
    checked_sizes(program, job.sizes)
    for name in program.parameters:
        if name not in job.sizes:
            raise UsageError(f"expected the size `{name}`, but it is missing", None, (f"pass --size {name}=N",))
    for tensor in program.tensors:
        if tensor.is_input and not tensor.is_output and tensor.name not in job.data:
            raise UsageError(
                f"expected data for `{tensor.name}`, but there is none",
                None,
                (f"pass --data {tensor.name}=FILE or --data {tensor.name}={RANDOM}",),
            )


# --- results in files ----------------------------------------------------------------------------------


def _check_target(declared: Declared, path: str, job: Job) -> None:
    """The result can go to that file; asked before any work is done. Raises UsageError."""
    target = Path(path)
    if target.exists() and not job.force and target.is_file():
        raise UsageError(f"expected a new file, but {path} exists", None, ("overwrite it with --force",))
    if target.exists() and not target.is_file():
        raise UsageError(f"expected a file to write, but {path} is something else")
    if not os.access(target.absolute().parent, os.W_OK | os.X_OK):
        raise UsageError(f"expected a folder to write {path} to, but {target.absolute().parent} is none, or closed")
    if sum(Path(p).absolute() == target.absolute() for p in job.outputs.values()) > 1:
        raise UsageError(f"expected a file for each result, but {path} stands twice")
    with tempfile.TemporaryDirectory() as folder:  # the same kind of data, as small as can be, shows the rest
        trial = Path(folder) / target.name
        try:
            write(trial, _filed(_smallest(declared, path), path))
        except UsageError as error:
            raise UsageError(error.message.replace(str(trial), path), None, error.notes) from None


def _is_dense(layout: Layout, path: str) -> bool:
    """Whether the result goes to that file as a dense array."""
    return not layout.indexes and path.lower().endswith((".npy", ".npz", *COLUMNS))


def _smallest(declared: Declared, path: str) -> Coordinates | Array:
    shape = (1,) * declared.layout.rank
    if _is_dense(declared.layout, path):
        return np.zeros(shape, declared.value_type)
    nowhere = tuple(np.zeros(1, np.int64) for _ in shape)
    return Coordinates(shape, nowhere, np.zeros(1, declared.value_type))


def _written(tensor: Tensor, path: str) -> Coordinates | Array:
    return _filed(tensor.to_numpy() if _is_dense(tensor.layout, path) else tensor.to_coo(), path)


def _filed(data: Coordinates | Array, path: str) -> Coordinates | Array:
    """The result as its file holds it: a vector as one column of a matrix where there are only matrices."""
    if len(data.shape) != 1 or not path.lower().endswith(COLUMNS):
        return data
    if not isinstance(data, Coordinates):
        return data.reshape(-1, 1)
    return Coordinates((*data.shape, 1), (*data.coords, np.zeros_like(data.coords[0])), data.values)


# --- operands ------------------------------------------------------------------------------------------


def _operands(program: Program, job: Job) -> dict[str, object]:
    """Files first: their shapes say how large random operands are."""
    found: dict[str, object] = {}
    extents = _said_extents(program, job)
    for name, source in job.data.items():
        declared = program.tensor(name)
        if not _is_random(source):
            value = _given(program, declared, source, job)
            extents = {**dict(zip(declared.extents, map(int, value.shape), strict=True)), **extents}
            found[name] = _cast(value, declared)
    for number, (name, source) in enumerate(job.data.items()):
        declared = program.tensor(name)
        if _is_random(source):
            shape = tuple(_extent(program, dim, extents, job.sizes, name) for dim in declared.extents)
            found[name] = _random(declared, shape, source, job.seed + number)
    return found


def _said_extents(program: Program, job: Job) -> dict[str, int]:
    """What the text of the kernel and --shape say. Raises UsageError when --shape contradicts either, or --size."""
    extents = dict(program.fixed)
    for name, shape in job.shapes.items():
        for place, (dim, extent) in enumerate(zip(program.tensor(name).extents, shape, strict=True), start=1):
            size = size_value(program, dim, {}, job.sizes)
            other = extents.setdefault(dim, extent if size is None else size)
            if other != extent:
                raise UsageError(
                    f"expected extents that agree, but --shape says that dimension {place} of `{name}` is {extent}, "
                    f"and it is {other} elsewhere"
                )
    return extents


def _is_random(source: str) -> bool:
    return source.partition(":")[0] == RANDOM


def _given(program: Program, declared: Declared, source: str, job: Job) -> Coordinates | Array:
    """What the file holds, or the number that a scalar is given as."""
    if declared.layout.rank == 0:
        number = _number(source)
        if number is not None:
            return typed(number, declared.name, declared.value_type)
    said = job.shapes.get(declared.name)
    known: tuple[int | None, ...] | None = None
    if ".tns" in Path(source).name.lower():  # such files need not say their shape
        known = said or tuple(size_value(program, dim, {}, job.sizes) for dim in declared.extents)
    value = read(source, shape=known)
    if ".mtx" in Path(source).name.lower() and declared.layout.rank == 1 and 1 in value.shape:
        value = _column(value)
    if len(value.shape) != declared.layout.rank:
        wanted = counted(declared.layout.rank, "dimension")
        raise DataError(f"expected `{declared.name}` with {wanted}, but {source} has {len(value.shape)}")
    if said is not None and tuple(value.shape) != said:
        found = " x ".join(map(str, value.shape))
        raise DataError(f"expected `{declared.name}` of the extents of its --shape, but {source} has {found}")
    return value


def _number(source: str) -> int | float | complex | None:
    for kind in (int, float, complex):
        try:
            return kind(source)
        except ValueError:
            continue
    return None


def _column(value: Coordinates | Array) -> Coordinates | Array:
    """A matrix of one row or column as a vector."""
    if not isinstance(value, Coordinates):
        return value.reshape(-1)
    along = 0 if value.shape[1] == 1 else 1
    return Coordinates((value.shape[along],), (value.coords[along],), value.values)


def _extent(program: Program, dim: str, extents: Mapping[str, int], sizes: Mapping[str, int], name: str) -> int:
    """Of a random operand; what the caller says comes before what a file says, so that a contradiction shows."""
    value = size_value(program, dim, {}, sizes)
    if value is None:
        value = extents.get(dim)
    if value is None:
        index = next((i for i, extent in program.index_extent.items() if extent == dim), dim)
        raise UsageError(
            f"expected the extent of `{index}` for `{name}`, but no file gives it",
            None,
            (f"pass --size {index}=N",),
        )
    return value


def _cast(value: Coordinates | Array, declared: Declared) -> Coordinates | Array:
    """The declared element type, for a file: text files say little about types."""
    kind = declared.value_type
    values = value.values if isinstance(value, Coordinates) else value
    if values.dtype.name == kind:
        return value
    if values.dtype.kind == "c" and TYPES[kind].kind != "c":
        raise DataError(
            f"expected `{declared.name}` to hold {kind}, but the file holds complex numbers",
            None,
            (f"declare `tensor {declared.name} : {declared.layout.name}<complex128>`",),
        )
    with np.errstate(invalid="ignore"):  # a nan that becomes an integer is told below
        cast = values.astype(kind)
    lossy = TYPES[kind].kind in "biu" and not np.array_equal(cast, values)
    if lossy:
        raise DataError(f"expected `{declared.name}` to hold {kind}, but the file holds numbers that are none")
    return Coordinates(value.shape, value.coords, cast) if isinstance(value, Coordinates) else cast


def _random(declared: Declared, shape: tuple[int, ...], source: str, seed: int) -> Coordinates | Array:
    """Random data of which the layout can store every entry."""
    density = _density(source)
    if density is None and declared.layout.indexes:
        density = DEFAULT_DENSITY
    data = random_data(shape, density, seed, TYPES[declared.value_type].name)
    if not isinstance(data, Coordinates):
        if prod(shape) == 0 or any(b.library == "numpy" for b in declared.layout.bindings) or not shape:
            return data
        data = Coordinates(shape, tuple(c.reshape(-1).astype(np.int64) for c in np.indices(shape)), data.reshape(-1))
    with about(declared.name):
        return storable(declared.layout, data)


def _density(source: str) -> float | None:
    _, colon, text = source.partition(":")
    if not colon:
        return None
    try:
        density = float(text)
    except ValueError:
        density = -1.0
    if not 0 <= density <= 1:
        raise UsageError(f"expected a density from 0 to 1, but it is `{text}`")
    return density


def storable(layout: Layout, data: Coordinates) -> Coordinates:
    """The entries that the layout has places for; with what it stores together with them."""
    try:
        pack(layout, data.shape, data.coords, data.values, {a.name: "int64" for a in layout.indexes})
        return data
    except DataError:
        coords, values = packing.storable(layout, data.shape, data.coords, data.values)
        return Coordinates(data.shape, tuple(coords), values)


def _values(tensor: Tensor) -> dict[str, Array]:
    return {v.name: tensor.arrays[v.name].copy() for v in tensor.layout.values}


def _timed(bound: Bound, before: Mapping[str, Mapping[str, Array]], repeat: int) -> list[float]:
    """One warm-up and `repeat` timed runs, each from the same start."""
    seconds = []
    for _ in range(repeat + 1):
        for name, arrays in before.items():
            for array, values in arrays.items():
                bound.tensors[name].arrays[array][...] = values
        start = time.perf_counter()
        bound()
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def _moved(bound: Bound) -> int:
    """Bytes of all distinct arrays."""
    arrays = {a.ctypes.data: a.nbytes for t in bound.tensors.values() for a in t.arrays.values()}
    return sum(arrays.values())


def _described(declared: Declared, tensor: Tensor) -> str:
    role = "result" if declared.is_output else "operand"
    return f"{role} {described(tensor)}"


# --- the check ---------------------------------------------------------------------------------------


def _verdict(kernel: Kernel, bound: Bound, before: Mapping[str, Mapping[str, Array]]) -> tuple[str, CheckFailed | None]:
    """Compare every output with the reference: in words, and the error when one differs."""
    given: dict[str, Any] = {}
    for name, tensor in bound.tensors.items():
        arrays = {**tensor.arrays, **before.get(name, {})}
        given[name] = stored(Tensor(tensor.layout, tensor.sizes, arrays))
    sizes = {name: bound.sizes[name] for name in bound.program.parameters}
    texts = []
    for name, reference in evaluate(kernel.parsed, given, sizes).items():
        got, expected = np.asarray(_flat(stored(bound.tensors[name]))), np.asarray(_flat(reference))
        try:
            texts.append(f"{name} {_compare(name, got, expected)}")
        except CheckFailed as error:
            return f"failed: {error.message}", error
    return "ok: " + "; ".join(texts), None


def stored(tensor: Tensor) -> Any:
    """A tensor as the reference takes it: a dense array where all is stored, else its entries."""
    if not tensor.layout.indexes and tensor.layout.rank == 0:
        return tensor.arrays[tensor.layout.values[0].name].reshape(())
    entries = tensor.to_coo()
    if not tensor.layout.indexes and entries.values.size == prod(entries.shape):
        return tensor.to_numpy()
    return Stored(entries.shape, entries.coords, entries.values)


def _flat(value: Any) -> Array:
    return value.values if isinstance(value, Stored) else np.asarray(value).reshape(-1)


def _compare(name: str, got: Array, expected: Array) -> str:
    """The largest difference, relative to the largest value; a tolerance that grows with rounding."""
    if got.shape != expected.shape:
        raise CheckFailed(f"`{name}` has {got.shape} values, but the reference has {expected.shape}")
    if not got.size:
        return "is empty"
    if got.dtype.kind in "fc":
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0) or 1.0
        with np.errstate(invalid="ignore"):  # infinity less infinity, where they are the same
            difference = np.where(same, 0.0, np.abs(got - expected)) / scale
        tolerance = 1e4 * np.finfo(got.dtype).eps
    else:
        difference = (got != expected).astype(float)
        tolerance = 0.0
    worst = int(np.argmax(np.where(np.isnan(difference), np.inf, difference)))
    if not difference[worst] <= tolerance:
        raise CheckFailed(
            f"`{name}` differs from the reference: value {worst} is {got[worst]}, but {expected[worst]} is right",
            None,
            (f"relative difference {difference[worst]:.3g}, allowed {tolerance:.3g}",),
        )
    return f"equals the numpy reference (largest relative difference {float(difference[worst]):.2g})"

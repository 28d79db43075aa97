"""`spfgen run`: read or draw the operands, run the kernel, time it, compare it with the reference, write results."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spfgen.api import Kernel
from spfgen.errors import CheckFailed, DataError, UsageError
from spfgen.lang.reference import Stored, evaluate
from spfgen.lang.types import TYPES
from spfgen.run.call import Bound, size_value
from spfgen.run.count import count_operations
from spfgen.run.read import Coordinates, random_data, read
from spfgen.run.tensor import Array, Tensor
from spfgen.run.write import write
from spfgen.space.nodes import Program
from spfgen.space.nodes import Tensor as Declared

DEFAULT_DENSITY = 0.1


@dataclass(frozen=True)
class Job:
    """`data` names a source for each operand: a file, `random` or `random:DENSITY`; `outputs` a file for results."""

    data: Mapping[str, str]
    sizes: Mapping[str, int]
    outputs: Mapping[str, str]
    repeat: int
    seed: int
    check: bool
    force: bool


@dataclass(frozen=True)
class Report:
    kernel: str
    operands: Mapping[str, str]
    threads: str
    seconds: tuple[float, ...]
    operations: int
    moved_bytes: int
    check: str | None
    written: tuple[str, ...] = field(default=())

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))

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
    """Raises DataError, UsageError for what is wrong with the call or the data; CheckFailed when results differ."""
    program = kernel.generated.program
    _check_names(program, job)
    operands = _operands(program, job)
    parameters = {p: job.sizes[p] for p in program.parameters if p in job.sizes}
    bound = kernel.bind(sizes=job.sizes, **operands, **parameters)
    outputs = [t.name for t in program.tensors if t.is_output]
    before = {n: _values(bound.tensors[n]) for n in outputs}
    seconds = _timed(bound, before, job.repeat)
    operations = count_operations(kernel, bound)
    checked = _checked(kernel, bound, before, job.sizes) if job.check else None
    written = []
    for name, path in job.outputs.items():
        write(path, _result(bound.tensors[name], path), force=job.force)
        written.append(path)
    return Report(
        kernel.name,
        {t.name: _described(t, bound.tensors[t.name]) for t in program.tensors},
        str(kernel.threads or "default"),
        tuple(seconds),
        operations,
        _moved(bound),
        checked,
        tuple(written),
    )


def _check_names(program: Program, job: Job) -> None:
    names = {t.name for t in program.tensors}
    for name in (*job.data, *job.outputs):
        if name not in names:
            raise UsageError(
                f"expected an operand of `{program.name}`, but `{name}` is not one",
                None,
                (f"its operands: {', '.join(sorted(names))}",),
            )
    for name in job.outputs:
        if not program.tensor(name).is_output:
            raise UsageError(f"expected a result of `{program.name}`, but `{name}` is an operand")
    sizes = {*program.parameters, *program.index_extent, *program.size_of}
    for name in job.sizes:
        if name not in sizes:
            raise UsageError(
                f"expected an index or a size of `{program.name}`, but `{name}` is neither",
                None,
                (f"known: {', '.join(sorted(s for s in sizes if '.' not in s))}",),
            )
    for tensor in program.tensors:
        if tensor.is_input and not tensor.is_output and tensor.name not in job.data:
            raise UsageError(
                f"expected data for `{tensor.name}`, but there is none",
                None,
                (f"pass --data {tensor.name}=FILE or --data {tensor.name}=random",),
            )


def _operands(program: Program, job: Job) -> dict[str, object]:
    """Files first: their shapes say how large random operands are."""
    found: dict[str, object] = {}
    extents: dict[str, int] = dict(program.fixed)
    for name, source in job.data.items():
        if not source.startswith("random"):
            declared = program.tensor(name)
            value = read(source)
            _learn_extents(declared, value, extents, source)
            found[name] = _cast(value, declared)
    for number, (name, source) in enumerate(job.data.items()):
        if source.startswith("random"):
            declared = program.tensor(name)
            shape = tuple(_extent(program, dim, extents, job.sizes, name) for dim in declared.extents)
            found[name] = _random(declared, shape, source, job.seed + number)
    return found


def _learn_extents(declared: Declared, value: Coordinates | Array, extents: dict[str, int], source: str) -> None:
    if len(value.shape) != declared.layout.rank:
        raise DataError(
            f"expected `{declared.name}` with {declared.layout.rank} dimensions, but {source} has {len(value.shape)}"
        )
    for dim, extent in zip(declared.extents, value.shape, strict=True):
        extents.setdefault(dim, int(extent))


def _extent(
    program: Program, dim: str, extents: Mapping[str, int], sizes: Mapping[str, int], name: str
) -> int:
    value = extents.get(dim)
    if value is None:
        value = size_value(program, dim, {}, sizes)
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
    if isinstance(value, Coordinates):
        return Coordinates(value.shape, value.coords, value.values.astype(kind))
    return value.astype(kind)


def _random(declared: Declared, shape: tuple[int, ...], source: str, seed: int) -> Coordinates | Array:
    _, _, text = source.partition(":")
    density: float | None = None
    if text:
        try:
            density = float(text)
        except ValueError:
            density = -1.0
        if not 0 <= density <= 1:
            raise UsageError(f"expected a density from 0 to 1, but it is `{text}`")
    elif declared.layout.indexes:
        density = DEFAULT_DENSITY
    return random_data(shape, density, seed, TYPES[declared.value_type].name)


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
    shape = " x ".join(map(str, tensor.shape)) or "scalar"
    constants = ", ".join(f"{n}={v}" for n, v in tensor.layout.constants)
    layout = f"{tensor.layout.name}({constants})" if constants else tensor.layout.name
    role = "result" if declared.is_output else "operand"
    return f"{role} {layout}, {shape}, {tensor.nse} stored, {tensor.dtype}"


def _result(tensor: Tensor, path: str) -> Coordinates | Array:
    dense = not tensor.layout.indexes and path.endswith((".npy", ".npz"))
    return tensor.to_numpy() if dense else tensor.to_coo()


# --- the check ---------------------------------------------------------------------------------------


def _checked(
    kernel: Kernel, bound: Bound, before: Mapping[str, Mapping[str, Array]], sizes: Mapping[str, int]
) -> str:
    """Compare every output with the reference. Raises CheckFailed with the worst place."""
    given: dict[str, Any] = {}
    for name, tensor in bound.tensors.items():
        arrays = {**tensor.arrays, **before.get(name, {})}
        given[name] = stored(Tensor(tensor.layout, tensor.sizes, arrays))
    wanted = evaluate(kernel._kernel, given, dict(sizes))
    texts = []
    for name, reference in wanted.items():
        own = stored(bound.tensors[name])
        got, expected = np.asarray(_flat(own)), np.asarray(_flat(reference))
        texts.append(f"{name} {_compare(name, got, expected)}")
    return "ok: " + "; ".join(texts)


def stored(tensor: Tensor) -> Any:
    """A tensor as the reference takes it: a dense array where all is stored, else its entries."""
    if not tensor.layout.indexes and tensor.layout.rank == 0:
        return tensor.arrays[tensor.layout.values[0].name].reshape(())
    entries = tensor.to_coo()
    count = 1
    for extent in entries.shape:
        count *= extent
    if not tensor.layout.indexes and entries.values.size == count:
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

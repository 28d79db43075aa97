"""`spfgen run`: read or draw the operands, run the kernel, time it, compare it with the reference, write results."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spfgen.errors import SpfgenError, Unsupported, UsageError
from spfgen.kernel import Kernel
from spfgen.lang.expressions import counted
from spfgen.run.assembly import is_pending
from spfgen.run.bandwidth import read_rate
from spfgen.run.calls.call import Bound, checked_sizes
from spfgen.run.calls.count import count_operations
from spfgen.run.calls.operands import RANDOM, operands
from spfgen.run.calls.requests import Job
from spfgen.run.calls.results import check_target, in_file
from spfgen.run.files.write import write
from spfgen.run.tensor import Array, Tensor, described
from spfgen.run.tuners.compare import ResultVerdict, verdict
from spfgen.space.nodes import Program
from spfgen.space.nodes import Tensor as Declared

GOOD, FAIR = 0.6, 0.25
"""Shares of the bandwidth."""
DENSE = 1
"""Operations for each byte above which the arithmetic of a processor is slower than its memory."""


@dataclass(frozen=True)
class Report:
    """`checked` is what the check found; no result was written if one differs."""

    kernel: str
    operands: Mapping[str, str]
    threads: str
    seconds: tuple[float, ...]
    operations: int | None
    moved_bytes: int
    read_rate: float | None
    """Bytes per second at which this machine reads that many bytes, where that was measured."""
    checked: ResultVerdict | None = None
    written: tuple[str, ...] = field(default=())

    @property
    def check(self) -> str | None:
        return None if self.checked is None else self.checked.text

    @property
    def failure(self) -> SpfgenError | None:
        """What differs, or why it could not be compared although that was asked for."""
        if self.checked is None or self.checked.is_compared:
            return None if self.checked is None else self.checked.failure
        why = f"the results of `{self.kernel}` were {self.checked.text}"
        written = ("they are written all the same",) if self.written else ()
        return Unsupported(why, None, (*written, "check the kernel with smaller operands"))

    @property
    def median(self) -> float:
        """Not 0: a clock may be too coarse to see a call."""
        return max(float(np.median(self.seconds)), 1e-9)

    @property
    def share(self) -> float | None:
        """The speed of the fastest call as a share of the fastest reading: what else runs has slowed neither."""
        return self.moved_bytes / max(min(self.seconds), 1e-9) / self.read_rate if self.read_rate else None

    def verdict(self) -> str:
        """Whether the speed is good."""
        if self.read_rate is None or self.share is None:
            return "of the bandwidth: not measured, the data are too few"
        text = f"{self.share:.0%} of the bandwidth of this machine for so many bytes, {self.read_rate / 1e9:.3g} GB/s"
        if self.share >= GOOD:
            return f"{text}: good, memory is the limit"
        if self.operations is not None and self.operations > DENSE * self.moved_bytes:
            return f"{text}: {self.operations / self.moved_bytes:.2g} operations per byte, so arithmetic is the limit"
        if self.share >= FAIR:
            return f"{text}: fair, as is usual with gathers"
        return f"{text}: low; try `spfgen tune`, with --layouts, too"

    def as_dict(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "operands": dict(self.operands),
            "threads": self.threads,
            "seconds": {"median": self.median, "min": min(self.seconds), "max": max(self.seconds)},
            "operations": self.operations,
            "gflops": None if self.operations is None else self.operations / self.median / 1e9,
            "bytes": self.moved_bytes,
            "gbytes_per_second": self.moved_bytes / self.median / 1e9,
            "read_gbytes_per_second": None if self.read_rate is None else self.read_rate / 1e9,
            "share_of_bandwidth": self.share,
            "check": self.check,
            "passed": None if self.checked is None or not self.checked.is_compared else self.checked.failure is None,
            "written": list(self.written),
        }

    def text(self) -> str:
        width = max([len(n) for n in self.operands], default=0)
        low, high = seconds_text(min(self.seconds)), seconds_text(max(self.seconds))
        lines = [f"{self.kernel}"]
        lines += [f"  {name:<{width}}  {what}" for name, what in self.operands.items()]
        lines.append(
            f"  time     {seconds_text(self.median)} (median of {len(self.seconds)}, {low} to {high}), "
            f"threads: {self.threads}"
        )
        if self.operations is not None:
            lines.append(f"  speed    {self.operations / self.median / 1e9:.3g} GFLOP/s ({self.operations} operations)")
        lines.append(
            f"  memory   {self.moved_bytes / self.median / 1e9:.3g} GB/s "
            f"({self.moved_bytes} bytes: each operand read once, each result written once)"
        )
        lines.append(f"  share    {self.verdict()}")
        if self.check:
            lines.append(f"  check    {self.check}")
        lines += [f"  wrote    {path}" for path in self.written]
        return "\n".join(lines)


def seconds_text(value: float) -> str:
    """`1.5 ms`: seconds in the unit that suits them."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def run_job(kernel: Kernel, job: Job) -> Report:
    """Raises DataError, UsageError for what is wrong with the call or the data; a failed check is in the report."""
    kernel = kernel.with_given(job.data)
    program = kernel.generated.program
    check_job(program, job)
    for name, path in job.outputs.items():
        check_target(program.tensor(name), path, job)
    bound = kernel.bind(sizes=job.sizes, **operands(program, job))
    before = {t.name: values_of(bound.tensors[t.name]) for t in program.tensors if t.is_output}
    seconds = timed(bound, before, job.repeat)
    checked = verdict(kernel, bound.tensors, passed(bound), before) if job.check else None
    written = {} if checked is not None and checked.failure else job.outputs
    for name, path in written.items():
        write(path, in_file(bound.tensors[name], path), force=job.force)
    return Report(
        kernel.name,
        {t.name: _described(t, bound.tensors[t.name]) for t in program.tensors},
        str(kernel.threads or os.environ.get("OMP_NUM_THREADS") or "default"),
        tuple(seconds),
        count_operations(kernel, bound),
        moved := _moved(bound),
        read_rate(moved, kernel.threads or 0),
        checked,
        tuple(written.values()),
    )


def check_job(program: Program, job: Job) -> None:
    """Every operand has data, and nothing else has. Raises UsageError."""
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


def passed(bound: Bound) -> dict[str, int]:
    """The sizes that the caller passes to the kernel."""
    return {name: bound.sizes[name] for name in bound.program.parameters}


def values_of(tensor: Tensor) -> dict[str, Array]:
    """A copy of the values; none of a result whose pattern is computed."""
    if is_pending(tensor):
        return {}
    return {v.name: tensor.arrays[v.name].copy() for v in tensor.layout.values}


def timed(bound: Bound, before: Mapping[str, Mapping[str, Array]], repeat: int) -> list[float]:
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

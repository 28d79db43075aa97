"""How evenly a kernel of ours keeps its threads at work."""

from __future__ import annotations

import ctypes
from pathlib import Path
from statistics import median
from typing import Any

from experiments.peers.spfgen import module_or_missing

SOURCE = Path(__file__).with_name("busy.c")
FLAGS = ("-D_POSIX_C_SOURCE=199309L", "-Wl,--wrap=GOMP_parallel")
WARM, CALLS = 50, 301


def least_over_most(bound: Any, threads: int) -> float | None:
    """The time that the thread with the least work is at it over that of the one with the most, the median of many
    calls; None where the kernel runs on one thread, or not on gcc's OpenMP runtime.

    The kernel is compiled once more for it, with a clock around what each thread does: the one whose times are
    measured is left as it is.
    """
    call, compiled, errors, pipeline = (
        module_or_missing(f"spfgen.{name}") for name in ("run.calls.call", "run.compile", "errors", "pipeline")
    )
    program = bound.program
    source = pipeline.print_kernel(program, pipeline.make_plans(program)).whole
    try:
        library = compiled.load(compiled.build(f"{source}\n{SOURCE.read_text()}", extra_flags=FLAGS))
    except errors.ToolError:
        return None
    spent = (ctypes.c_double * threads).in_dll(library, "busy_nanoseconds")
    timed = call.Bound(program, getattr(library, program.name), bound.tensors, bound.sizes, threads)
    shares = []
    for number in range(WARM + CALLS):
        ctypes.memset(spent, 0, ctypes.sizeof(spent))
        timed()
        if not any(spent):
            return None
        if number >= WARM:
            shares.append(min(spent) / max(spent))
    return median(shares)

"""How the work of a kernel grows: its C counts what it does, on data of which there is ten times as much.

Counted are basic blocks of the generated C, by the instrumentation of gcc (`-fsanitize-coverage=trace-pc` calls a
function in each), and bytes that are cleared or copied. That is what the machine does, whatever the plan says, and the
same in each run: seconds are neither.
"""

from __future__ import annotations

import atexit
import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spfgen.run.tensor import Tensor

Array = np.ndarray[Any, Any]

MOST = 15.0
"""Ten times as much may take so many times the work: sorting and tables are not quite linear."""
LINE = 64
"""Bytes cleared or copied that count as one block."""
SOURCE = """
static unsigned long long blocks;
void __sanitizer_cov_trace_pc(void) { __atomic_fetch_add(&blocks, 1, 0); }
void spfgen_test_bytes(unsigned long n) { __atomic_fetch_add(&blocks, n / %d, 0); }
unsigned long long spfgen_test_blocks(void) { return blocks; }
"""
HEADER = """
#include <stdlib.h>
#include <string.h>
void spfgen_test_bytes(unsigned long n);
#define memset(p, v, n) (spfgen_test_bytes(n), memset(p, v, n))
#define memcpy(p, q, n) (spfgen_test_bytes(n), memcpy(p, q, n))
#define calloc(n, m) (spfgen_test_bytes((n) * (m)), calloc(n, m))
"""
COUNTING = ("-fsanitize-coverage=trace-pc", "-fno-tree-vectorize", "-fno-tree-slp-vectorize")
COUNTING_LOOPS = ("-fno-tree-loop-distribute-patterns", "-fno-unroll-loops")


@cache
def _counter() -> tuple[Any, Path]:
    """The functions that count, for all libraries of the process, and the header that counts bytes."""
    folder = Path(tempfile.mkdtemp(prefix="spfgen_growth_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source, library = folder / "count.c", folder / "count.so"
    source.write_text(SOURCE % LINE)
    (folder / "count.h").write_text(HEADER)
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-o", str(library), str(source)], check=True)
    found = ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    found.spfgen_test_blocks.restype = ctypes.c_ulonglong
    return found, folder / "count.h"


@contextmanager
def counting() -> Iterator[Callable[[], int]]:
    """Kernels that are compiled meanwhile count; the function says how much there is by now."""
    if shutil.which("gcc") is None:
        pytest.skip("it is gcc that counts")
    library, header = _counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPFGEN_CC", " ".join(("gcc", *COUNTING, *COUNTING_LOOPS, "-include", str(header))))
        yield lambda: int(library.spfgen_test_blocks())


def work_of(run: Callable[[], Any], count: Callable[[], int]) -> tuple[int, Any]:
    """What a call does, when all that it needs is compiled, and its result."""
    run()
    before = count()
    found = run()
    return count() - before, found


# --- data of which there is ten times as much -----------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """Extents, and how many of the values of each index have something stored at them."""

    extent: int
    used: int


SCALES = {1: (100, 10), 2: (100, 10), 3: (12, 6), 4: (4, 2)}
"""By the largest rank of a program: the smaller extents, and the fewer values of an index that are used."""


def scales(rank: int) -> list[Scale]:
    """What is measured: the second has ten times the extents of the first, the third ten times the entries of the
    second."""
    extent, used = SCALES[rank]
    return [Scale(extent, used), Scale(10 * extent, used), Scale(10 * extent, 10 * used)]


def pattern(shape: Sequence[int], used: int) -> Array:
    """Which places of an array are stored: as many in each row, at rows and columns that all arrays use."""
    kept = np.zeros(shape, bool)
    for step in (0, 1):
        places = []
        for axis, extent in enumerate(shape):
            most = min(used, extent)
            places.append((np.arange(used) + step * axis) % max(most, 1) * extent // max(most, 1))
        if all(shape):
            kept[tuple(places)] = True
    return kept


def size_of(value: Any) -> int:
    """Elements of an operand or a result, all arrays of it."""
    if isinstance(value, Tensor):
        return sum(a.size for a in value.arrays.values())
    if isinstance(value, Mapping):
        return sum(map(size_of, value.values()))
    return int(getattr(value, "size", 1))


def too_much(counts: Sequence[tuple[int, int]]) -> list[str]:
    """Of (work, size of all operands and results) for the three scales: where the work grows faster than 15 times, or,
    where what is given and made grows faster than ten times, than one and a half times of that."""
    words = ("ten times the extents", "ten times the entries")
    found = []
    for word, (before, size), (after, larger) in zip(words, counts, counts[1:], strict=False):
        most = max(MOST, MOST / 10 * larger / size)
        if after > most * before:
            found.append(f"{word}: {after / before:.0f} times the work, of {larger / size:.0f} times the data")
    return found

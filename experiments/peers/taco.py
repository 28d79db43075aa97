"""The tensor compiler taco, when its command is on PATH."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.harness.case import Missing, Runner
from experiments.harness.native import load

Array = np.ndarray[Any, Any]

# taco compiles with -ffast-math, so it may have that; spelt out, because with -ffast-math itself the linker
# adds a start-up that flushes small numbers to zero in the whole process, the other contestants included.
FAST_MATH = (
    "-fno-math-errno",
    "-ffinite-math-only",
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-fassociative-math",
    "-freciprocal-math",
)


class Tensor(ctypes.Structure):
    """`taco_tensor_t`, as the text that taco writes declares it."""

    _fields_ = (
        ("order", ctypes.c_int32),
        ("dimensions", ctypes.c_void_p),
        ("component_size", ctypes.c_int32),
        ("mode_ordering", ctypes.c_void_p),
        ("mode_types", ctypes.c_void_p),
        ("indices", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("fill_value", ctypes.c_void_p),
        ("values_size", ctypes.c_int32),
    )


@cache
def kernel(schedule: str, *arguments: str) -> ctypes.CDLL:
    """The kernel that `taco` writes for these arguments, with this schedule of OpenMP.

    taco writes schedule(runtime), which without a setting means dynamic with single rows in gcc's OpenMP:
    the worst there is. The schedule is put into the text instead, so that each contestant has its own.
    """
    if shutil.which("taco") is None:
        raise Missing("no command `taco` on PATH; build github.com/tensor-compiler/taco, and put its bin/ on PATH")
    with tempfile.TemporaryDirectory(prefix="spfgen-experiments-") as folder:
        source = Path(folder) / "taco.c"
        line = ["taco", *arguments, "-print-nocolor", f"-write-source={source}"]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not source.exists():
            raise RuntimeError(f"taco: {(done.stderr or done.stdout).strip()[-200:]}")
        # Without the comments at the head: they name the temporary file, and the cache goes by the text.
        text = source.read_text().replace("schedule(runtime)", f"schedule({schedule})")
        source.write_text(text[text.index("#ifndef") :])
        return load(source, FAST_MATH)


def tensor(values: Array, dimensions: Sequence[int], levels: Sequence[Sequence[Array]]) -> tuple[Tensor, Any]:
    """A tensor over arrays that exist already, and what must be kept alive for it.

    `levels` has the index arrays of each mode: none for a dense one, (pos, crd) for a compressed one.
    """
    sizes = np.array(dimensions, dtype=np.int32)
    order = np.arange(len(dimensions), dtype=np.int32)
    types = np.array([1 if arrays else 0 for arrays in levels], dtype=np.int32)
    # A dense mode points at its size, a compressed one at its pos and crd.
    rows: list[Any] = []
    for number, arrays in enumerate(levels):
        places = [a.ctypes.data for a in arrays] or [sizes[number:].ctypes.data]
        rows.append((ctypes.c_void_p * len(places))(*places))
    indices = (ctypes.c_void_p * len(rows))(*(ctypes.addressof(row) for row in rows))
    made = Tensor(
        len(dimensions),
        sizes.ctypes.data,
        8 * values.itemsize,
        order.ctypes.data,
        types.ctypes.data,
        ctypes.addressof(indices),
        values.ctypes.data,
        None,
        values.size,
    )
    return made, (values, sizes, order, types, rows, indices, levels)


def prepare_spmv(matrix: csr_array, x: Array, schedule: str, threads: int = 1) -> Runner:
    """y = A x with the rows in parallel."""
    formats = ("-f=A:ds", "-f=x:d", "-f=y:d")
    code = kernel(schedule, "y(i)=A(i,j)*x(j)", *formats, "-s=parallelize(i,CPUThread,NoRaces)")
    code.omp_set_num_threads(ctypes.c_int(threads))
    y = np.full(matrix.shape[0], np.nan)
    result, kept_y = tensor(y, matrix.shape[:1], [()])
    left, kept_a = tensor(matrix.data, matrix.shape, [(), (matrix.indptr, matrix.indices)])
    right, kept_x = tensor(x, matrix.shape[1:], [()])
    call = partial(code.compute, ctypes.byref(result), ctypes.byref(left), ctypes.byref(right))
    return Runner(call, lambda: y, (kept_y, kept_a, kept_x))


def prepare_spmspv(
    matrix: Any, index: Array, value: Array, threads: int, schedule: str = "static", by_column: bool = False
) -> Runner:
    """y = A x with x sparse and y dense; A in csr, the rows in parallel, or in csc, where taco has no threads."""
    storage = "-f=A:ds:1,0" if by_column else "-f=A:ds"
    parallel = () if by_column else ("-s=parallelize(i,CPUThread,NoRaces)",)
    code = kernel(schedule, "y(i)=A(i,j)*x(j)", storage, "-f=x:s", "-f=y:d", *parallel)
    # The thread count of this process may be another; the function is that of the OpenMP that the kernel uses.
    code.omp_set_num_threads(ctypes.c_int(threads))
    y = np.full(matrix.shape[0], np.nan)
    ends = np.array([0, index.size], dtype=np.int32)
    result, kept_y = tensor(y, matrix.shape[:1], [()])
    left, kept_a = tensor(matrix.data, matrix.shape, [(), (matrix.indptr, matrix.indices)])
    right, kept_x = tensor(value, matrix.shape[1:], [(ends, index)])
    call = partial(code.compute, ctypes.byref(result), ctypes.byref(left), ctypes.byref(right))
    return Runner(call, lambda: y, (kept_y, kept_a, kept_x))


def prepare_spgemm(left: csr_array, right: csr_array) -> Runner:
    """A new result in csr, its columns sorted, row by row in a workspace; taco has no threads for that."""
    formats = ("-f=A:ds", "-f=B:ds", "-f=C:ds")
    code = kernel("static", "A(i,j)=B(i,k)*C(k,j)", *formats, "-s=reorder(i,k,j),precompute(B(i,k)*C(k,j),j,j)")
    one, kept_one = tensor(left.data, left.shape, [(), (left.indptr, left.indices)])
    other, kept_other = tensor(right.data, right.shape, [(), (right.indptr, right.indices)])
    nothing = np.zeros(1, np.int32)
    shape = (left.shape[0], right.shape[1])
    result, kept = tensor(np.zeros(1), shape, [(), (nothing, nothing)])
    places = kept[4][1]
    release = ctypes.CDLL(None).free
    release.argtypes = [ctypes.c_void_p]
    made: list[int] = []

    def call() -> None:
        while made:
            release(made.pop())
        code.evaluate(ctypes.byref(result), ctypes.byref(one), ctypes.byref(other))
        made.extend((places[0], places[1], result.values))

    def found() -> csr_array:
        starts = _copied(places[0], shape[0] + 1, ctypes.c_int32)
        count = int(starts[-1])
        return csr_array(
            (_copied(result.values, count, ctypes.c_double), _copied(places[1], count, ctypes.c_int32), starts), shape
        )

    return Runner(call, found, (kept_one, kept_other, kept))


def _copied(address: int, count: int, kind: Any) -> Array:
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(kind)), (count,)).copy()

"""Validation of csr, int32 indices and float64 values, beside one product of the same matrix with a vector.

Validation checks all that the layout declares: the row pointers rise from 0 to the number of entries, the columns are
within the matrix and rise in each row. scipy's check_format looks at less: it does not ask whether columns rise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.data import made, stored
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.race import Outcome
from experiments.harness.timing import geometric_mean
from experiments.peers.spfgen import module_or_missing

TASK = "validate csr"
LEAST_ENTRIES = 200_000
PROGRAM = "y[i] = A[i,j]*x[j]"


def cases(quick: bool, threads: int) -> list[Case]:
    """Each matrix with one thread and with all."""
    found = []
    for count in sorted({1, threads}):
        for name, load in matrices(quick):
            found.append(case(f"{TASK}, {name}, {count} thread{'s' if count > 1 else ''}", load, count))
    return found


def matrices(quick: bool) -> Iterator[tuple[str, Callable[[], csr_array]]]:
    """Short rows, long rows, rows of very different lengths, empty rows; in the caches and outside of them."""
    size = 1 if quick else 10
    yield f"stencil {100 * size}", partial(made.stencil, 100 * size)
    yield f"banded {20_000 * size}, 31 wide", partial(made.banded, 20_000 * size, 15)
    yield f"uniform {50_000 * size}, 8 a row", partial(made.uniform, 50_000 * size, 50_000 * size, 8)
    yield f"power law 2^{13 if quick else 18}", partial(made.power_law, 13 if quick else 18, 16)
    yield "long rows", partial(made.long_rows, 20_000 * size, 4, 8, 15_000 * size)
    yield f"empty rows {200_000 * size}", partial(made.empty_rows, 200_000 * size, 20, 16)
    real = stored.shared_matrices(LEAST_ENTRIES)
    for matrix in real[-1:] if quick else real[:8]:
        yield matrix.name, matrix.load


def case(label: str, load: Callable[[], csr_array], threads: int) -> Case:
    """One matrix and thread count."""
    return Case(
        label=label,
        data=partial(narrow, load),
        ours=partial(prepare_ours, threads=threads),
        peers=(Contestant("spmv", partial(prepare_spmv, threads=threads)), Contestant("scipy", prepare_scipy)),
        check=check,
        bytes_moved=lambda matrix: 4 * (matrix.nnz + matrix.shape[0] + 1),
        facts=lambda matrix: {"rows": matrix.shape[0], "entries": matrix.nnz},
        threads=threads,
    )


def narrow(load: Callable[[], csr_array]) -> csr_array:
    """The matrix with int32 indices, its columns in order."""
    matrix = csr_array(load())
    matrix.sum_duplicates()
    matrix.indptr, matrix.indices = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
    return matrix


def prepare_ours(matrix: csr_array, threads: int) -> Runner:
    """All that the layout declares."""
    api = module_or_missing("spfgen.api")
    arrays = {"rowptr": matrix.indptr, "colidx": matrix.indices, "val": matrix.data}
    tensor = api.tensor("csr", shape=matrix.shape, **arrays)
    for _ in range(64):  # C is compiled after a million of elements
        tensor.validate(threads=threads)
    return Runner(lambda: tensor.validate(threads=threads))


def prepare_spmv(matrix: csr_array, threads: int) -> Runner:
    """One product, with arrays that are in place."""
    kernel = module_or_missing("spfgen.api").compile(PROGRAM, A="csr", x="dense", y="dense", threads=threads)
    x, y = made.vector(matrix.shape[1]), np.full(matrix.shape[0], np.nan)
    expected = matrix @ x
    return Runner(kernel.bind(A=matrix, x=x, y=y), lambda: () if np.allclose(y, expected) else "a wrong product")


def prepare_scipy(matrix: csr_array) -> Runner:
    """scipy's own check, which has one thread."""
    return Runner(lambda: matrix.check_format(full_check=True) or ())


def check(matrix: csr_array) -> Callable[[Any], str]:
    """Nothing is found, nothing left unchecked."""
    return lambda result: "" if result == () else f"expected nothing to be found, but {result}"


def closing(outcomes: Sequence[Outcome]) -> str:
    """Whether validation takes no longer than one product; ratios are times of the product / ours."""
    lines = []
    for threads in sorted({o.threads or 1 for o in outcomes}):
        own = [o for o in outcomes if (o.threads or 1) == threads]
        ratios = [(e.ratio, o.label) for o in own for e in o.best() if e.name == "spmv" and e.ratio]
        if ratios:
            least, where = min(ratios)
            mean, verdict = geometric_mean([r for r, _ in ratios]), "met" if least >= 1.0 else "NOT met"
            team = f"{threads} thread{'s' if threads > 1 else ''}"
            lines.append(f"spmv / ours, {team}: mean {mean:.2f}, least {least:.2f} ({where}), target 1: {verdict}")
    return "\n".join(lines)

"""y[i] = A[i,j]*x[j] with x and y dense and A in csr, bcsr, dia, ell, coo, csc, dcsr; ours beside those who can.

csr is run on all matrices, and on some with other types of values and indices; each other layout on matrices of its
structure. Everything with one thread, then with those of `--threads`; `--cases "1 thread"` takes the first only,
`--cases "dia,"` a layout. What is done once beforehand (packing, MKL's inspector) is not timed.

`ours-chosen` is what `spfgen.tune_layouts` (and so `Kernel.optimize`) makes of a csr matrix, which it may store in
another layout: the counterpart of `mkl-ie`, which may do so too. Our csr stands beside both; how long the choice, the
conversion and the inspector take is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from experiments.harness.case import Case
from experiments.spmv.contestants import for_csr, for_layout, prepare_ours
from experiments.spmv.data import Make, bytes_moved, check, facts, matrices, product, structured
from experiments.spmv.targets import closing

__all__ = ["cases", "closing", "csr_case", "layout_case"]

USUAL = ("float64", "int32")
OTHER_TYPES = (("float32", "int32"), ("float64", "int64"), ("float32", "int64"))
TYPED = ("stencil", "banded 500000", "power law")
"""Matrices that are run with other types as well, by the beginnings of their names."""


def cases(quick: bool, threads: int) -> list[Case]:
    """All of csr, then the other layouts."""
    return [*_csr_cases(quick, threads), *_layout_cases(quick, threads)]


def _csr_cases(quick: bool, threads: int) -> Iterator[Case]:
    for label, make in matrices(quick):
        for types in (USUAL, *(OTHER_TYPES if label.startswith(TYPED) else ())):
            for count in sorted({1, threads}):
                yield csr_case(label, make, count, *types)


def _layout_cases(quick: bool, threads: int) -> Iterator[Case]:
    for layout, label, make, block in structured(quick):
        for count in sorted({1, threads}):
            yield layout_case(layout, label, make, block, count)


def csr_case(label: str, make: Make, threads: int, value: str = "float64", index: str = "int32") -> Case:
    """A matrix in csr, with these types."""
    types = "" if (value, index) == USUAL else f", {value} {index}"
    return Case(
        label=f"csr, {label}{types}, {_threads(threads)}",
        data=partial(product, make, "csr", 1, value, index),
        ours=partial(prepare_ours, threads=threads),
        peers=for_csr(threads, value, index),
        check=check,
        bytes_moved=bytes_moved,
        facts=facts,
        threads=threads,
    )


def layout_case(layout: str, label: str, make: Make, block: int, threads: int) -> Case:
    """A matrix in another layout."""
    return Case(
        label=f"{layout}, {label}, {_threads(threads)}",
        data=partial(product, make, layout, block, *USUAL),
        ours=partial(prepare_ours, threads=threads),
        peers=for_layout(layout, threads),
        check=check,
        bytes_moved=bytes_moved,
        facts=facts,
        threads=threads,
    )


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"

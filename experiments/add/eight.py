"""Sums of eight sparse vectors, and of eight matrices in csr."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.data import made
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.pace import Pace
from experiments.peers.kernels import compiled, in_csr, measured, packed, returning

CALL_SECONDS, TOTAL_SECONDS = 20.0, 5.0
NAMES = "ABCDEFGH"

Operands = tuple[csr_array, ...]


@dataclass(frozen=True)
class Kind:
    """What is added up: the subscripts, the layout, how much is stored in a row (a vector is a matrix of one row)."""

    name: str
    subscripts: str
    layout: str
    rows: int
    columns: int
    per_row: int


def kinds(quick: bool) -> tuple[Kind, ...]:
    """Vectors with a tenth and with a hundredth stored, and matrices."""
    length, size = (20_000, 500) if quick else (2_000_000, 50_000)
    return (
        Kind("vectors, 10.0% stored", "i", "sv", 1, length, length // 10),
        Kind("vectors, 1.0% stored", "i", "sv", 1, length, length // 100),
        Kind("matrices", "i,j", "csr", size, size, 8),
    )


def cases(quick: bool, threads: int) -> list[Case]:
    """Each kind with a sparse result, vectors with a dense one, too; with one thread and with all."""
    return [
        case(kind, out, count)
        for count in sorted({1, threads})
        for kind in kinds(quick)
        for out in ("dense", "sparse")
        if out == "sparse" or kind.rows == 1
    ]


def case(kind: Kind, out: str, threads: int) -> Case:
    """One sum."""
    return Case(
        label=f"eight {kind.name}, {out} result, {threads} thread{'s' if threads > 1 else ''}",
        data=partial(operands, kind),
        ours=partial(prepare_ours, kind=kind, out=out, threads=threads),
        peers=(
            Contestant("ours-pairs", partial(prepare_pairs, kind=kind, out=out, threads=threads)),
            Contestant("scipy", partial(prepare_scipy, out=out), "1 thread"),
        ),
        check=check,
        facts=lambda data: {"entries": sum(int(m.nnz) for m in data)},
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


@lru_cache(maxsize=1)
def operands(kind: Kind) -> Operands:
    """Whole numbers, so that sums are exact in any order."""
    found = []
    for seed in range(100, 100 + len(NAMES)):
        matrix = made.uniform(kind.rows, kind.columns, kind.per_row, seed=seed)
        matrix.data = np.random.default_rng(seed).integers(1, 9, matrix.nnz).astype(float)
        found.append(matrix)
    return tuple(found)


def given(data: Operands, kind: Kind) -> dict[str, Any]:
    """The operands by name; a vector is an array."""
    return {n: m.toarray()[0] if kind.rows == 1 else m for n, m in zip(NAMES, data, strict=True)}


def prepare_ours(data: Operands, kind: Kind, out: str, threads: int) -> Runner:
    """All eight in one kernel."""
    text = f"R[{kind.subscripts}] = {' + '.join(f'{n}[{kind.subscripts}]' for n in NAMES)}"
    layouts = {**dict.fromkeys(NAMES, kind.layout), "R": "dense" if out == "dense" else kind.layout}
    return returning(text, layouts, given(data, kind), threads)


def prepare_pairs(data: Operands, kind: Kind, out: str, threads: int) -> Runner:
    """The sum of two, to which one after the other is added: a dense sum in place, a sparse one as a new result."""
    held = packed(dict.fromkeys(NAMES, kind.layout), given(data, kind))
    at, result = kind.subscripts, "dense" if out == "dense" else kind.layout
    two = compiled(f"R[{at}] = A[{at}] + B[{at}]", (("A", kind.layout), ("B", kind.layout), ("R", result)), threads)
    more = two
    if out == "dense":
        more = compiled(f"R[{at}] += B[{at}]", (("B", kind.layout), ("R", result)), threads)

    def call() -> Any:
        found = two(A=held["A"], B=held["B"])
        for name in NAMES[2:]:
            found = more(R=found, B=held[name]) if out == "dense" else two(A=found, B=held[name])
        return found

    return measured(call, (held,))


def prepare_scipy(data: Operands, out: str) -> Runner:
    """SciPy's sums of two."""

    def call() -> Any:
        found = data[0] + data[1]
        for matrix in data[2:]:
            found = found + matrix
        return found.toarray() if out == "dense" else found

    return measured(call)


def check(data: Operands) -> Callable[[Any], str]:
    """Entry by entry: all entries together, equal places added up."""
    every = [m.tocoo() for m in data]
    places = tuple(np.concatenate([getattr(m, part) for m in every]) for part in ("row", "col"))
    wanted = csr_array((np.concatenate([m.data for m in every]), places), shape=data[0].shape)

    def complain(found: Any) -> str:
        got = in_csr(found)
        if got.shape != wanted.shape:
            return f"shape {got.shape}, expected {wanted.shape}"
        count = int((got != wanted).nnz)
        return "" if not count else f"{count} of {wanted.nnz} elements differ"

    return complain

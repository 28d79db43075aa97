"""Kernels over extents beyond 2^31 with few entries: positions and coordinates need 64 bits, memory does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import spfgen
from spfgen.pipeline import Generated
from spfgen.run.calls.bind import bind
from spfgen.run.coordinates import Coordinates
from spfgen.run.tensor import Tensor

N = 2**40 + 3
M = 2**62 + 1
Entries = Mapping[tuple[int, ...], float]

WIDE: Entries = {(0, 0): 5.0, (0, 2**33 + 1): 6.0, (1, 7): -1.0, (2, N - 2): 8.0, (2, N - 1): 7.0}
"""In a matrix of 3 rows and N columns."""
OTHER: Entries = {(0, 2**33 + 1): 1.0, (1, 5): 2.0, (1, 7): 4.0, (2, N - 1): 3.0}
VECTOR: Entries = {(7,): 1.0, (2**33 + 1,): 10.0, (N - 1,): 100.0}
SQUARE: Entries = {(0, M - 1): 1.0, (7, 2**61): 2.0, (2**61, 7): 3.0, (M - 1, 0): 4.0, (M - 1, M - 1): 5.0}


@dataclass(frozen=True)
class Huge:
    """A kernel, its operands as layout, shape and entries, and what its output is."""

    text: str
    operands: Mapping[str, tuple[str, tuple[int, ...], Entries]]
    wanted: Callable[[], Any]
    output: str = "dense"
    index: str = "int64"
    finds: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.text} {' '.join(v[0] for v in self.operands.values())} {self.index} {dict(self.finds)}"


def turned(entries: Entries) -> Entries:
    return {(j, i): v for (i, j), v in entries.items()}


def rows(*factors: Entries) -> np.ndarray[Any, Any]:
    """The sums by row of the products of entries with equal coordinates."""
    result = np.zeros(3)
    for place, value in factors[0].items():
        result[place[0]] += value * np.prod([f.get(place, 0.0) for f in factors[1:]])
    return result


def times_vector() -> np.ndarray[Any, Any]:
    spread = {(i, j): VECTOR.get((j,), 0.0) for i, j in WIDE}
    return rows(WIDE, spread)


def cases() -> list[Huge]:
    """Every layout that can hold such data, alone and against another one."""
    found = []
    wide, square = (3, N), (M, M)
    for name in ("csr", "coo", "coo_unsorted", "csf", "dcsr", "dcsc", "ell", "bcsr(R=2, C=4)"):
        found.append(Huge("y[i] = A[i, j]*x[j]", {"A": (name, wide, WIDE), "x": ("sv", (N,), VECTOR)}, times_vector))
        found.append(
            Huge(
                "y[i] = A[i, j]*B[i, j]",
                {"A": (name, wide, WIDE), "B": ("csr", wide, OTHER)},
                lambda: rows(WIDE, OTHER),
            )
        )
    for name in ("csc", "coo", "dcsr", "dcsc", "dia", "diagonal"):
        tall = {p: v for p, v in turned(WIDE).items() if name != "diagonal" or p[0] == p[1]}
        found.append(Huge("y[j] = A[i, j]", {"A": (name, wide[::-1], tall)}, lambda tall=tall: rows(turned(tall))))
    for name in ("coo", "coo_unsorted", "csf", "dcsr", "dcsc"):
        found.append(Huge("s = A[i, j]", {"A": (name, square, SQUARE)}, lambda: np.float64(15), "scalar"))
        squares = sum(v * v for v in SQUARE.values())
        both = {"A": (name, square, SQUARE), "B": ("coo", square, SQUARE)}
        found.append(Huge("s = A[i, j]*B[i, j]", both, lambda squares=squares: np.float64(squares), "scalar"))
    for find in ("hash", "loop", "search"):
        x = "sv" if find == "search" else "sv_unsorted"
        operands = {"A": ("csr", wide, WIDE), "x": (x, (N,), VECTOR)}
        found.append(Huge("y[i] = A[i, j]*x[j]", operands, times_vector, finds={"x.p": find}))
    # A block column fits 32 bits where the columns do not.
    near = {(0, 28): 1.0, (1, 2**33 - 1): 2.0, (2, 2**33 - 4): 3.0, (2, 30): 4.0}
    line = {(30,): 5.0, (2**33 - 1,): 7.0, (2**33 - 4,): 11.0}
    found.append(
        Huge(
            "y[i] = A[i, j]*x[j]",
            {"A": ("bcsr(R=2, C=4)", (3, 2**33), near), "x": ("sv", (2**33,), line)},
            lambda: np.array([0.0, 14.0, 53.0]),
            index="int32 for A",
        )
    )
    # The largest extent there is: the last block ends beyond it.
    last = {(0, 2**63 - 2): 1.0, (1, 2**63 - 3): 2.0}
    found.append(Huge("y[i] = A[i, j]", {"A": ("bcsr(R=2, C=4)", (3, 2**63 - 1), last)}, lambda: np.array([1.0, 2, 0])))
    return found


def compiled(case: Huge, name: str) -> spfgen.Kernel:
    layouts = {n: typed(layout, case.index == "int64" or n != "A") for n, (layout, _, _) in case.operands.items()}
    if case.output != "scalar":
        layouts["y"] = typed("dense", wide=False)
    return spfgen.compile(case.text, threads=1, name=name, finds=case.finds or None, **layouts)


def typed(layout: str, wide: bool) -> str:
    """A layout's use with element types; those of index arrays before the constants."""
    plain, bracket, constants = layout.partition("(")
    return f"{plain}<float64, {'int64' if wide else 'int32'}>{bracket}{constants}"


def operands(case: Huge, made: Generated) -> dict[str, Tensor]:
    """The tensors of the kernel, the output filled with what must go away."""
    found = {}
    for declared in made.program.tensors:
        kinds = dict(declared.index_types)
        if declared.name in case.operands:
            _, shape, entries = case.operands[declared.name]
            places = np.array(list(entries), np.int64).reshape(len(entries), len(shape))
            data = Coordinates(shape, tuple(places.T.copy()), np.array(list(entries.values())))
            found[declared.name] = bind(declared.layout, data, declared.name, kinds, value_type="float64")
        else:
            output = np.full_like(case.wanted(), 77.0)
            found[declared.name] = bind(declared.layout, output, declared.name, kinds, output=True)
    return found

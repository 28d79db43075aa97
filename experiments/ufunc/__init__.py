"""numpy's functions of sparse tensors of rank three, with dense and with sparse results; functions fused.

logical_xor, ldexp, right_shift and power of two tensors, and `(A and B) xor (A or D)` of three in one kernel, which
PyData/Sparse and numpy compute one by one. ours is in fibres (csf), `ours-coo` in sorted coordinates. Each makes its
result in the call; the peak of memory of a call stands behind its time. A sparse result has the fill value that the
function gives: power of two tensors of zeros is 1. numpy works on dense arrays and has one thread, PyData/Sparse too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.pace import Pace
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers import pydata
from experiments.peers.kernels import measured, returning, same

Array = np.ndarray[Any, Any]

CALL_SECONDS, TOTAL_SECONDS = 30.0, 5.0
TARGETS = (
    Target("PyData/Sparse, one function", ("sparse",), 10.0, part="two"),
    Target("PyData/Sparse, fused", ("sparse",), 20.0, part="three"),
    Target("numpy, dense arrays", ("numpy",)),
)


@dataclass(frozen=True)
class Program:
    """A computation: its text, the types of its operands, what it means in numpy, the fill value of the result."""

    name: str
    text: str
    types: Mapping[str, str]
    meaning: Callable[..., Any]
    fill: int = 0


PROGRAMS = (
    Program(
        "logical_xor of two",
        "C[i,j,k] = logical_xor(A[i,j,k], B[i,j,k])",
        {"A": "bool", "B": "bool"},
        np.logical_xor,
    ),
    Program("ldexp of two", "C[i,j,k] = ldexp(A[i,j,k], B[i,j,k])", {"A": "float64", "B": "int64"}, np.ldexp),
    Program("right_shift of two", "C[i,j,k] = A[i,j,k] >> B[i,j,k]", {"A": "int64", "B": "int64"}, np.right_shift),
    Program("power of two", "C[i,j,k] = power(A[i,j,k], B[i,j,k])", {"A": "float64", "B": "float64"}, np.power, fill=1),
    Program(
        "and, xor, or of three",
        "C[i,j,k] = logical_xor(A[i,j,k] and B[i,j,k], A[i,j,k] or D[i,j,k])",
        {"A": "bool", "B": "bool", "D": "bool"},
        lambda a, b, d: np.logical_xor(np.logical_and(a, b), np.logical_or(a, d)),
    ),
)


@dataclass(frozen=True)
class Cubes:
    """The operands of a program as dense arrays, by name."""

    program: Program
    operands: dict[str, Array]


def cases(quick: bool, threads: int) -> list[Case]:
    """Each program at each density, with a dense result and with a sparse one, with one thread and with all."""
    extent, shares = (30, (0.01,)) if quick else (300, (0.001, 0.01))
    return [
        case(program, extent, share, out, count)
        for count in sorted({1, threads})
        for program in PROGRAMS
        for share in shares
        for out in ("dense", "sparse")
    ]


def case(program: Program, extent: int, share: float, out: str, threads: int) -> Case:
    """One program on cubes of an extent, of which a share is stored."""
    return Case(
        label=f"{program.name}, {extent}^3, {share:.1%}, {out} result, {threads} thread{'s' if threads > 1 else ''}",
        data=partial(cubes, program, extent, share),
        ours=partial(prepare_ours, layout="csf", out=out, threads=threads),
        peers=(
            Contestant("ours-coo", partial(prepare_ours, layout="coo", out=out, threads=threads)),
            Contestant("sparse", partial(prepare_sparse, out=out), "1 thread"),
            Contestant("numpy", prepare_numpy, "1 thread"),
        ),
        check=check,
        facts=lambda data: {name: int(np.count_nonzero(a)) for name, a in data.operands.items()},
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


def cubes(program: Program, extent: int, share: float) -> Cubes:
    """Operands with small numbers at random places; numbers of other seeds for each name."""
    made = {
        name: cube(extent, share, dtype, seed) for seed, (name, dtype) in enumerate(program.types.items(), start=20)
    }
    return Cubes(program, made)


@lru_cache(maxsize=4)
def cube(extent: int, share: float, dtype: str, seed: int) -> Array:
    """A dense array with a share of it stored: small numbers, so that no power is beyond the largest double."""
    random = np.random.default_rng(seed)
    shape = (extent,) * 3
    found = np.zeros(extent**3, dtype)
    places = random.integers(0, found.size, round(share * found.size))
    found[places] = random.integers(1, 6, places.size).astype(dtype)
    return found.reshape(shape)


def prepare_ours(data: Cubes, layout: str, out: str, threads: int) -> Runner:
    """spfgen's kernel."""
    program = data.program
    sparse = f"{layout} fill {program.fill}" if program.fill else layout
    layouts = {**dict.fromkeys(data.operands, layout), "C": "dense" if out == "dense" else sparse}
    return returning(program.text, layouts, data.operands, threads)


def prepare_sparse(data: Cubes, out: str) -> Runner:
    """PyData/Sparse in coordinates, function by function."""
    operands = [pydata.module().COO.from_numpy(a) for a in data.operands.values()]
    meaning = data.program.meaning
    if out == "dense":
        return measured(lambda: meaning(*operands).todense())
    return measured(lambda: meaning(*operands))


def prepare_numpy(data: Cubes) -> Runner:
    """numpy on dense arrays."""
    operands = tuple(data.operands.values())
    return measured(lambda: data.program.meaning(*operands))


def check(data: Cubes) -> Callable[[Any], str]:
    """What numpy computes; powers of small whole numbers are exact in both."""
    return same(np.asarray(data.program.meaning(*data.operands.values())))


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)

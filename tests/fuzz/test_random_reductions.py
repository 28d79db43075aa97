"""Reductions by every function of two arguments that numpy has, of every type, in all layouts, against `ufunc.reduce`.

What is reduced is an access, perhaps with a function around it or under a condition of the indices; the extent is 0,
1, or more; nothing, some or all of it is stored. numpy alone says what is meant. Where it has no value (no identity and
nothing to combine), spfgen may refuse.
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.errors import InternalError, SpfgenError
from tests.fuzz.seeds import reports_of

FUNCTIONS = tuple(
    name
    for name, u in sorted(vars(np).items())
    if isinstance(u, np.ufunc) and u.nin == 2 and u.nout == 1 and u.signature is None and u.__name__ == name
)
KINDS = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float32",
    "float64",
    "complex128",
)
LAYOUTS = {1: ("dense", "sv", "sv_unsorted", "bit_map"), 2: ("dense", "dense_col", "csr", "csc", "coo", "dcsr", "ell")}
AROUND = {"{0}": lambda a: a, "abs({0})": np.abs, "({0} + {0})": np.add, "({0} == 1)": lambda a: a == 1}
WRONG_IN_NUMPY = (np.power, np.float_power, np.arctan2)
"""Their `reduce` reads, in numpy 2.4 on some processors, what it has written over: it is not the fold of the values."""


@dataclass(frozen=True)
class Reduction:
    """`function(j: around(A[i, j]) where ...)`, or without `i`."""

    function: str
    kind: str
    layout: str
    around: str
    condition: bool
    values: np.ndarray[Any, Any]
    fill: Any
    level: int

    def text(self) -> str:
        access = "A[i, j]" if self.values.ndim == 2 else "A[j]"
        where = " where j >= i" if self.condition else ""
        value = self.around.format(access)
        target = "y[i]" if self.values.ndim == 2 else "y"
        return f"{target} = {self.function}(j: {value}{where})"

    def report(self, problem: str) -> str:
        told = f"A : {self.layout}<{self.kind}> fill {self.fill!r}, level {self.level}"
        return f"{self.text()}\n  {told}\n  {self.values.tolist()}\n  {problem[:700]}"


def random_reduction(seed: int, level: int) -> Reduction:
    rng = np.random.default_rng([seed, 17])
    kind = np.dtype(str(rng.choice(KINDS)))
    rank = int(rng.choice([1, 2, 2]))
    shape = tuple(int(rng.choice([0, 1, 2, 3, 7])) for _ in range(rank))
    values = _values(rng, kind, shape)
    fill = kind.type(rng.choice([0, 0, 1, 2])) if kind.kind != "b" else np.bool_(rng.random() < 0.3)
    layout = str(rng.choice(LAYOUTS[rank]))
    if layout not in ("dense", "dense_col"):
        values = np.where(rng.random(shape) < rng.choice([0.0, 0.5, 0.5, 1.0]), values, fill).astype(kind)
    around = str(rng.choice([*AROUND, "{0}", "{0}", "{0}"]))
    condition = bool(rank == 2 and rng.random() < 0.2)
    return Reduction(str(rng.choice(FUNCTIONS)), kind.name, layout, around, condition, values, fill, level)


def _values(rng: np.random.Generator, kind: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if kind.kind == "b":
        return rng.random(shape) < 0.6
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        small = rng.integers(max(-3, limits.min), 6, shape)
        ends = rng.choice(np.array([limits.min, limits.max, limits.max // 2 + 1], kind), shape)
        return np.where(rng.random(shape) < 0.9, small.astype(kind), ends)
    found = rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0], shape)
    if rng.random() < 0.2:
        found = np.where(rng.random(shape) < 0.3, rng.choice([np.inf, -np.inf, np.nan], shape), found)
    return (found + 1j * rng.choice([-1.0, 0.0, 2.0], shape) if kind.kind == "c" else found).astype(kind)


def meant(case: Reduction) -> tuple[Any, bool]:
    """What numpy gives; whether spfgen may refuse, since numpy does or has nothing to combine. Raises TypeError where
    the function does not take the type."""
    function: np.ufunc = getattr(np, case.function)
    value = AROUND[case.around](case.values)
    if function.reduce(np.ones(1, value.dtype)).dtype == np.float16:  # C has none: float32 takes its place
        value = value.astype(np.float32)
    if case.values.ndim == 1:
        return _row(function, value)
    rows = [value[i, i:] if case.condition else value[i] for i in range(len(value))]
    found = [_row(function, row) for row in rows]
    kind = _row(function, np.ones(1, value.dtype))[0].dtype
    return np.array([v for v, _ in found], kind), any(free for _, free in found)


def _row(function: np.ufunc, row: np.ndarray[Any, Any]) -> tuple[Any, bool]:
    if not len(row):
        try:
            return function.reduce(row), False
        except ValueError:
            return function.reduce(np.ones(1, row.dtype)), True
    if function in WRONG_IN_NUMPY:
        kind = function.reduce(row).dtype
        return functools.reduce(function, row[1:].astype(kind), row.astype(kind)[0]), False
    return function.reduce(row), False


def try_one(seed: int, level: int = 1) -> str:
    case = random_reduction(seed, level)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            wanted, free = meant(case)
        except (TypeError, ValueError):
            return ""  # numpy has no such reduction: nothing is promised
        dense = case.layout.startswith("dense")
        try:
            operand = (
                case.values
                if case.layout == "dense"
                else spfgen.pack(case.values, case.layout, **({} if dense else {"fill": case.fill}))
            )
            made = spfgen.compile(
                case.text(),
                A=operand.layout if isinstance(operand, spfgen.Tensor) else "dense",
                optimize=case.level,
                **({"y": "dense"} if case.values.ndim == 2 else {}),
            )
            found = made(A=operand)
        except InternalError as error:
            return case.report(f"internal error: {error}")
        except SpfgenError as error:
            return "" if free or "numpy refuses it, too" in str(error) else case.report(f"refused: {error}")
        except Exception as error:
            return case.report(f"crash: {type(error).__name__}: {error}")
    if free:
        return ""
    return "" if same(np.asarray(found), np.asarray(wanted)) else case.report(f"{found!r} instead of {wanted!r}")


def same(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> bool:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    if wanted.dtype.kind in "fc":
        close = 1e-4 if wanted.dtype.itemsize in (4, 8) and wanted.dtype != np.float64 else 1e-9
        return bool(np.allclose(found, wanted, rtol=close, atol=1e-12, equal_nan=True))
    return bool(np.array_equal(found, wanted))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(24))
def test_random_reductions(seed: int) -> None:
    report = try_one(seed, seed % 3)
    assert not report, report


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_many_random_reductions() -> None:
    reports = reports_of(try_one)
    assert not reports, "\n\n".join(reports)

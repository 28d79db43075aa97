"""The kernels that every combination of layouts must compute, with numpy's own words for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spfgen.lang.nodes import LayoutAlias
from spfgen.lang.spec import SpecTree, builtin, builtin_names
from spfgen.pipeline import RANK, layout_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """`ranks` of the tensors, output first; `meaning` computes the output from dense operands."""

    name: str
    text: str
    subscripts: Mapping[str, str]
    meaning: Callable[..., Array]

    @property
    def output(self) -> str:
        return next(iter(self.subscripts))

    @property
    def operands(self) -> list[str]:
        return list(self.subscripts)[1:]


def einsum(text: str) -> Callable[..., Array]:
    return lambda *operands: np.einsum(text, *operands)


def strict_lower(a: Array) -> Array:
    return np.asarray(np.tril(a, -1).sum())


CASES = (
    Case("spmv", "y[i] = A[i, j]*x[j]", {"y": "i", "A": "ij", "x": "j"}, einsum("ij,j->i")),
    Case("spmm", "C[i, k] = A[i, j]*B[j, k]", {"C": "ik", "A": "ij", "B": "jk"}, einsum("ij,jk->ik")),
    Case("product", "C[i, j] = A[i, j]*B[i, j]", {"C": "ij", "A": "ij", "B": "ij"}, einsum("ij,ij->ij")),
    Case(
        "sddmm",
        "C[i, j] = A[i, j]*B[i, k]*D[k, j]",
        {"C": "ij", "A": "ij", "B": "ik", "D": "kj"},
        einsum("ij,ik,kj->ij"),
    ),
    Case("ttm", "C[i, j, l] = A[i, j, k]*B[k, l]", {"C": "ijl", "A": "ijk", "B": "kl"}, einsum("ijk,kl->ijl")),
    Case(
        "mttkrp",
        "D[i, l] = A[i, j, k]*B[j, l]*C[k, l]",
        {"D": "il", "A": "ijk", "B": "jl", "C": "kl"},
        einsum("ijk,jl,kl->il"),
    ),
    Case("dot2", "s = x[i]*y[i]", {"s": "", "x": "i", "y": "i"}, einsum("i,i->")),
    Case("dot3", "s = x[i]*y[i]*z[i]", {"s": "", "x": "i", "y": "i", "z": "i"}, einsum("i,i,i->")),
    Case("trace", "s = A[i, i]", {"s": "", "A": "ii"}, einsum("ii->")),
    Case("lower_sum", "s = A[i, j] where j < i", {"s": "", "A": "ij"}, strict_lower),
    Case("quadratic", "s = x[i]*A[i, j]*y[j]", {"s": "", "x": "i", "A": "ij", "y": "j"}, einsum("i,ij,j->")),
)
"""SpMSpV is spmv with a sparse x, SpMSpM is spmm with two sparse matrices."""

SHAPES: tuple[Mapping[str, int], ...] = (
    {"i": 5, "j": 6, "k": 4, "l": 3},
    {"i": 7, "j": 3, "k": 5, "l": 2},
    {"i": 1, "j": 1, "k": 1, "l": 1},
    {"i": 0, "j": 3, "k": 2, "l": 2},
    {"i": 4, "j": 0, "k": 0, "l": 3},
)
DENSITIES = (0.4, 0.0, 1.0)


def layouts_of_rank(rank: int) -> list[str]:
    """The layouts that come with spfgen and have, or can have, this rank."""
    found = []
    for name in builtin_names():
        declaration = builtin(name)
        settings = {}
        if isinstance(declaration, LayoutAlias):
            from spfgen.lang.parse import parse_layout_use

            declaration, settings = SpecTree().resolve(parse_layout_use(name))
        assert declaration is not None
        if RANK in dict(declaration.constants):
            settings.setdefault(RANK, rank)
        if layout_of(declaration, settings).rank == rank:
            found.append(name)
    return found


def choices(case: Case, names: Sequence[str]) -> dict[str, list[str]]:
    return {n: layouts_of_rank(len(case.subscripts[n])) for n in names}


def sampled(lists: Sequence[Sequence[str]], partners: int) -> list[tuple[str, ...]]:
    """Combinations in which each value of the longest list is `partners` times, with different others each time."""
    rng = np.random.default_rng(1)
    rows = partners * max(map(len, lists))
    columns = []
    for values in lists:
        row: list[str] = []
        while len(row) < rows:
            row += [str(v) for v in rng.permutation(list(values))]
        columns.append(row[:rows])
    return list(dict.fromkeys(zip(*columns, strict=True)))


def paired(lists: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Combinations in which each two values of different lists meet: all of them for two lists. For at most three."""
    order = sorted(range(len(lists)), key=lambda k: -len(lists[k]))
    first, second, *third = [lists[k] for k in order] if len(lists) > 1 else (lists[0], [""])
    assert len(third) <= 1
    rows = []
    for (a, x), (b, y) in itertools.product(enumerate(first), enumerate(second)):
        row = dict(zip(order, (x, y, *(values[(a + b) % len(values)] for values in third)), strict=False))
        rows.append(tuple(row[k] for k in range(len(lists))))
    return rows

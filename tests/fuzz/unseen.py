"""Layouts that do not come with spfgen, and random arrays for each: what packing cannot make is made here.

A maker gets a random generator, the shape and how full the tensor is, and returns sizes and index arrays that keep
the declared ranges and properties (`test_makers_keep_their_promises` asks spfgen's validation as well).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from spfgen.lang.parse import parse_layout_use
from spfgen.lang.spec import SpecTree, parse_tree
from spfgen.layout.nodes import Layout
from spfgen.pipeline import layout_of
from spfgen.run.tensor import extents_of

Array = np.ndarray[Any, Any]
Made = tuple[dict[str, int], dict[str, Any]]
Maker = Callable[[np.random.Generator, tuple[int, ...], float], Made]


@dataclass(frozen=True)
class Unseen:
    name: str
    rank: int
    text: str
    make: Maker


ALL: dict[str, Unseen] = {}


MAKERS: dict[str, Maker] = {}
"""Makers for layouts that come with spfgen, with data that packing never makes."""


def layout(rank: int, text: str) -> Callable[[Maker], Maker]:
    def register(make: Maker) -> Maker:
        name = make.__name__
        ALL[name] = Unseen(name, rank, text.replace("NAME", name).strip(), make)
        return make

    return register


@cache
def tree() -> SpecTree:
    """All of them, read once (spfgen remembers what it found out about a declaration)."""
    return parse_tree("\n\n".join(u.text for u in ALL.values()), "unseen.spf")


# --- help ---------------------------------------------------------------------------------------------


def pointer(lengths: Any) -> Array:
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))]).astype(np.int64)


def subset(rng: np.random.Generator, n: int, density: float) -> Array:
    return np.flatnonzero(rng.random(n) < density)


def rows(rng: np.random.Generator, nrow: int, ncol: int, density: float) -> tuple[list[Array], Array, Array]:
    """Sorted columns of each row, their pointer and all of them."""
    found = [subset(rng, ncol, density) for _ in range(nrow)]
    return found, pointer([len(f) for f in found]), np.concatenate([np.zeros(0, np.int64), *found])


# --- vectors ------------------------------------------------------------------------------------------


@layout(
    1,
    """
layout NAME(n) {
    relation { [p] -> [i] : 0 <= p < n and i = n - 1 - p }
    value val[n] at [p]
}""",
)
def reversed_vector(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    return {}, {}


@layout(
    1,
    """
layout NAME(n) {
    relation { [p] -> [i] : 0 <= p < n and i = p }
    value val[2*n] at [2*p]
}""",
)
def stride_vector(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    return {}, {}


@layout(
    1,
    """
layout NAME(n) {
    size nruns
    relation { [p] -> [i] : 0 <= p < nruns and rstart(p) <= i < rstart(p + 1) }
    index rstart[nruns + 1] {
        range 0 <= rstart(p) <= n
        property increasing
        property rstart(0) = 0
        property rstart(nruns) = n
    }
    value val[nruns] at [p]
}""",
)
def run_vector(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    (n,) = shape
    nruns = int(rng.integers(1, n + 2)) if n else int(rng.integers(0, 2))
    cuts = np.sort(rng.integers(0, n + 1, max(nruns - 1, 0)))
    ends = [n] if nruns else []
    return {"nruns": nruns}, {"rstart": [0, *cuts, *ends]}


@layout(
    1,
    """
layout NAME(n) {
    size nint, nnz
    relation { [q, e] -> [i] : 0 <= q < nint and start(q) <= e < end(q) and i = e }
    index start[nint] { range 0 <= start(q) <= n }
    index end[nint] {
        range 0 <= end(q) <= n
        property forall q : start(q) <= end(q)
        property forall p < q : end(p) <= start(q)
    }
    index ofs[nint] {
        range 0 <= ofs(q) <= nnz
        property forall q : ofs(q) + end(q) - start(q) <= nnz
        property forall p < q : ofs(p) + end(p) - start(p) <= ofs(q)
    }
    value val[nnz] at [ofs(q) + e - start(q)]
}""",
)
def interval_vector(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    (n,) = shape
    nint = int(rng.integers(0, 4))
    cuts = np.sort(rng.integers(0, n + 1, 2 * nint))
    start, end = cuts[::2], cuts[1::2]
    ofs, at = [], 0
    for a, b in zip(start, end, strict=True):
        at += int(rng.integers(0, 2))
        ofs.append(at)
        at += int(b - a)
    return {"nint": nint, "nnz": at + int(rng.integers(0, 2))}, {"start": start, "end": end, "ofs": ofs}


@layout(
    1,
    """
layout NAME(n) {
    size m
    relation { [p, e] -> [i] : 0 <= p < m and first(p) <= e <= last(p) and i = e }
    index first[m] { range 0 <= first(p) < n }
    index last[m]  { range 0 <= last(p) < n }
    value val[n*n] at [n*(last(p) - first(p)) + first(p)]
}""",
)
def value_of_interval(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """Some intervals are empty: then the place of the value lies outside of its array."""
    (n,) = shape
    m = int(rng.integers(1, 7)) if n else 0
    return {"m": m}, {"first": rng.integers(0, max(n, 1), m), "last": rng.integers(0, max(n, 1), m)}


@layout(
    1,
    """
layout NAME(n) {
    size nnz
    relation { [p] -> [i] : 0 <= p < nnz and where(i) = p }
    index where[n] { range -1 <= where(i) < nnz }
    value val[nnz] at [p]
}""".replace("where", "slot"),
)
def looked_up_vector(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    nnz = int(rng.integers(0, 5))
    return {"nnz": nnz}, {"slot": rng.integers(-1, nnz, shape) if nnz else np.full(shape, -1)}


@layout(
    1,
    """
layout NAME(n) {
    relation { [p] -> [i] : 0 <= p < n and mask(p) = 1 and i = p }
    index mask[n] { range 0 <= mask(p) <= 1 }
    value val[n] at [p]
}""",
)
def masked_vector(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    return {}, {"mask": rng.random(shape) < density}


@layout(
    1,
    """
layout NAME(n) {
    size nnz
    relation { [p] -> [i] : 0 <= p < nnz and i = idx(p) - 1 }
    index idx[nnz] {
        range 1 <= idx(p) <= n
        property strictly increasing
    }
    value val[nnz] at [p]
}""",
)
def one_based_vector(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    found = subset(rng, shape[0], density) + 1
    return {"nnz": len(found)}, {"idx": found}


def _several(rng: np.random.Generator, n: int, density: float) -> Array:
    """Sorted coordinates, some of them several times."""
    found = subset(rng, n, density)
    return np.repeat(found, rng.integers(1, 4, len(found)))


@layout(
    1,
    """
layout NAME(n) {
    size nnz
    relation { [p] -> [i] : 0 <= p < nnz and i = idx(p) }
    index idx[nnz] {
        range 0 <= idx(p) < n
        property increasing
    }
    value val[nnz] at [p]
}""",
)
def rising_vector(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    found = _several(rng, shape[0], density)
    return {"nnz": len(found)}, {"idx": found}


@layout(
    1,
    """
layout NAME(n) {
    size nnz
    relation { [p] -> [i] : 0 <= p < nnz and i = idx(p) }
    index idx[nnz] {
        range 0 <= idx(p) < n
        property decreasing
    }
    value val[nnz] at [p]
}""",
)
def falling_vector(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    found = _several(rng, shape[0], density)[::-1]
    return {"nnz": len(found)}, {"idx": found}


@layout(
    1,
    """
layout NAME(n) {
    size nnz
    relation { [p] -> [i] : 0 <= p < nnz and i = idx(p) }
    index idx[nnz] { range -3 <= idx(p) }
    value val[nnz] at [p]
}""",
)
def unbounded_vector(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """Coordinates outside of the vector stand for nothing."""
    found = rng.integers(-3, shape[0] + 4, int(rng.integers(0, 9)))
    return {"nnz": len(found)}, {"idx": found}


# --- dense matrices in other orders -------------------------------------------------------------------


@layout(
    2,
    """
layout NAME(nrow, ncol; R = 2, C = 3) {
    relation { [a, b, r, c] -> [i, j] :
        0 <= a < ceil(nrow/R) and 0 <= b < ceil(ncol/C) and 0 <= r < R and 0 <= c < C
        and i = R*a + r and j = C*b + c }
    value val[ceil(nrow/R), ceil(ncol/C), R, C] at [a, b, r, c]
}""",
)
def tiled(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    return {}, {}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    relation { [a, b] -> [i, j] : 0 <= a < nrow and 0 <= b < ncol and i = a and j = b and (exists k : b = 2*k) }
    value val[nrow, ceil(ncol/2)] at [a, floor(b/2)]
}""",
)
def even_columns(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    return {}, {}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    relation { [a, b] -> [i, j] : 0 <= a < nrow and 0 <= b < ncol and i = a and j = b and (a + b) mod 2 = 0 }
    value val[nrow, ceil(ncol/2)] at [a, floor(b/2)]
}""",
)
def chessboard(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    return {}, {}


@layout(
    2,
    """
layout NAME(nrow, ncol; low = 1, high = 1) {
    relation { [r, d] -> [i, j] : 0 <= r < nrow and 0 <= d <= low + high and i = r and j = r + d - low }
    value val[nrow, low + high + 1] at [r, d]
}""",
)
def banded(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    return {}, {}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    relation {
        [w, p] -> [i, j] : w = 0 and 0 <= p < ncol and i = 0 and j = p;
        [w, p] -> [i, j] : w = 1 and 1 <= p < nrow and i = p and j = p
    }
    value first[ncol] at [p] when w = 0
    value rest[nrow] at [p] when w = 1
}""",
)
def arrow(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    return {}, {}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    relation {
        [p] -> [p, p] : 0 <= p < nrow;
        [q] -> [q, q + 1] : 0 <= q < nrow
    }
    value val[nrow] at [p]
}""",
)
def bidiagonal(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    return {}, {}


# --- rows ---------------------------------------------------------------------------------------------


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nnz
    relation { [r, p] -> [i, j] : 0 <= r < nrow and rowptr(r) <= p < rowptr(r + 1) and i = r and j = colidx(p) }
    index rowptr[nrow + 1] {
        range 0 <= rowptr(p) <= nnz
        property increasing
        property rowptr(0) = 0
        property rowptr(nrow) = nnz
    }
    index colidx[nnz] {
        range 0 <= colidx(p) < ncol
        property strictly decreasing within rowptr
    }
    value val[nnz] at [p]
}""",
)
def csr_reversed(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    found, rowptr, _ = rows(rng, *shape, density)
    return {"nnz": int(rowptr[-1])}, {"rowptr": rowptr, "colidx": [c for f in found for c in f[::-1]]}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nnz
    relation { [r, p] -> [i, j] :
        0 <= r < nrow and rowptr(r) - 1 <= p < rowptr(r + 1) - 1 and i = r and j = colidx(p) - 1 }
    index rowptr[nrow + 1] {
        range 1 <= rowptr(p) <= nnz + 1
        property increasing
    }
    index colidx[nnz] { range 1 <= colidx(p) <= ncol }
    value val[nnz] at [p]
}""",
)
def csr_one_based(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    _, rowptr, colidx = rows(rng, *shape, density)
    rng.shuffle(colidx)
    return {"nnz": int(rowptr[-1])}, {"rowptr": rowptr + 1, "colidx": colidx + 1}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nnz
    relation { [r, p] -> [i, j] : 0 <= r < nrow and rbeg(r) <= p < rend(r) and i = r and j = colidx(p) }
    index rbeg[nrow] { range 0 <= rbeg(r) <= nnz }
    index rend[nrow] { range 0 <= rend(r) <= nnz }
    index colidx[nnz] { range 0 <= colidx(p) < ncol }
    value val[nnz] at [p]
}""",
)
def begin_end_rows(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    nrow, ncol = shape
    nnz = int(rng.integers(0, 8)) if ncol else 0
    return {"nnz": nnz}, {
        "rbeg": rng.integers(0, nnz + 1, nrow),
        "rend": rng.integers(0, nnz + 1, nrow),
        "colidx": rng.integers(0, max(ncol, 1), nnz),
    }


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nnz
    relation { [r, p] -> [i, j] :
        0 <= r < nrow and rowptr(r) <= p < rowptr(r + 1) and i = r and j = r - (rowptr(r + 1) - 1 - p) }
    index rowptr[nrow + 1] {
        range 0 <= rowptr(r) <= nnz
        property increasing
        property rowptr(0) = 0
        property rowptr(nrow) = nnz
        property forall r : rowptr(r + 1) - rowptr(r) <= r + 1
    }
    value val[nnz] at [p]
}""",
)
def envelope(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    rowptr = pointer([rng.integers(0, r + 2) for r in range(shape[0])])
    return {"nnz": int(rowptr[-1])}, {"rowptr": rowptr}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nnz, m
    relation { [r, p] -> [i, j] : 0 <= r < nrow and rowptr(r) <= p < rowptr(r + 1) and i = r and j = perm(colidx(p)) }
    index rowptr[nrow + 1] {
        range 0 <= rowptr(p) <= nnz
        property increasing
        property rowptr(0) = 0
        property rowptr(nrow) = nnz
    }
    index colidx[nnz] {
        range 0 <= colidx(p) < m
        property strictly increasing within rowptr
    }
    index perm[m] {
        range 0 <= perm(q) < ncol
        property injective
    }
    value val[nnz] at [p]
}""",
)
def csr_permuted(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    nrow, ncol = shape
    m = int(rng.integers(0, ncol + 1))
    _, rowptr, colidx = rows(rng, nrow, m, density)
    return {"nnz": int(rowptr[-1]), "m": m}, {"rowptr": rowptr, "colidx": colidx, "perm": rng.permutation(ncol)[:m]}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size ndiag, nnz
    relation { [d, p] -> [i, j] :
        0 <= d < ndiag and jdptr(d) <= p < jdptr(d + 1) and i = perm(p - jdptr(d)) and j = colidx(p) }
    index jdptr[ndiag + 1] {
        range 0 <= jdptr(d) <= nnz
        property increasing
        property jdptr(0) = 0
        property jdptr(ndiag) = nnz
        property forall d : jdptr(d + 1) - jdptr(d) <= nrow
    }
    index perm[nrow] {
        range 0 <= perm(q) < nrow
        property injective
    }
    index colidx[nnz] { range 0 <= colidx(p) < ncol }
    value val[nnz] at [p]
}""",
)
def jagged(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    nrow, ncol = shape
    found, _, _ = rows(rng, nrow, ncol, density)
    perm = sorted(range(nrow), key=lambda r: -len(found[r]))
    width = max((len(f) for f in found), default=0)
    diagonals = [[found[r][d] for r in perm if len(found[r]) > d] for d in range(width)]
    jdptr = pointer([len(d) for d in diagonals])
    return {"ndiag": width, "nnz": int(jdptr[-1])}, {
        "jdptr": jdptr,
        "perm": perm,
        "colidx": [c for d in diagonals for c in d],
    }


@layout(
    2,
    """
layout NAME(nrow, ncol; C = 2) {
    size nnz
    relation { [s, k, l] -> [i, j] :
        0 <= C*s < nrow and 0 <= k < width(s) and 0 <= l < C
        and i = C*s + l and j = colidx(sptr(s) + C*k + l) and 0 <= j }
    index width[ceil(nrow/C)] { range 0 <= width(s) }
    index sptr[ceil(nrow/C)] {
        range 0 <= sptr(s) <= nnz
        property forall s : sptr(s) + C*width(s) <= nnz
    }
    index colidx[nnz] { range -1 <= colidx(p) < ncol }
    value val[nnz] at [sptr(s) + C*k + l]
}""",
)
def sliced(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    nrow, ncol = shape
    found, _, _ = rows(rng, nrow, ncol, density)
    width, sptr, colidx = [], [], []
    for s in range((nrow + 1) // 2):
        two = [found[r] if r < nrow else np.zeros(0, np.int64) for r in (2 * s, 2 * s + 1)]
        width.append(max(len(t) for t in two))
        sptr.append(len(colidx))
        colidx += [int(t[k]) if k < len(t) else -1 for k in range(width[-1]) for t in two]
    return {"nnz": len(colidx)}, {"width": width, "sptr": sptr, "colidx": colidx}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nnz
    relation { [r, p] -> [i, j] : 0 <= r < nrow and rowptr(r) <= p < rowptr(r + 1) and i = r and j = colidx(p) }
    index rowptr[nrow + 1] {
        range 0 <= rowptr(p) <= nnz
        property increasing
        property rowptr(0) = 0
        property rowptr(nrow) = nnz
    }
    index colidx[nnz] {
        range 0 <= colidx(p) < ncol
        property decreasing within rowptr
    }
    value val[nnz] at [p]
}""",
)
def falling_rows(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """From right to left, some columns several times."""
    found = [_several(rng, shape[1], density)[::-1] for _ in range(shape[0])]
    rowptr = pointer([len(f) for f in found])
    return {"nnz": int(rowptr[-1])}, {"rowptr": rowptr, "colidx": [c for f in found for c in f]}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = ridx(p) and j = cidx(p) }
    index ridx[nnz] {
        range 0 <= ridx(p) < nrow
        property decreasing
    }
    index cidx[nnz] {
        range 0 <= cidx(p) < ncol
        property forall p < q : ridx(p) = ridx(q) => cidx(p) <= cidx(q)
    }
    value val[nnz] at [p]
}""",
)
def falling_list(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """The last row first, each from left to right, some entries several times."""
    found = [(r, c) for r in reversed(range(shape[0])) for c in _several(rng, shape[1], density)]
    return {"nnz": len(found)}, {"ridx": [r for r, _ in found], "cidx": [c for _, c in found]}


# --- blocks and several arrays ------------------------------------------------------------------------


@layout(
    2,
    """
layout NAME(nrow, ncol; R = 2, C = 2) {
    size nb
    relation { [b, r, c] -> [i, j] :
        0 <= b < nb and 0 <= r < R and 0 <= c < C and i = row0(b) + r and j = col0(b) + c }
    index row0[nb] { range 0 <= row0(b) <= nrow - R }
    index col0[nb] { range -C < col0(b) < ncol }
    value val[nb, R, C] at [b, r, c]
}""",
)
def blocks_anywhere(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    nrow, ncol = shape
    nb = int(rng.integers(0, 4)) if nrow >= 2 and ncol else 0
    row0 = rng.integers(0, max(nrow - 1, 1), nb)
    return {"nb": nb}, {"row0": row0, "col0": rng.integers(-1, max(ncol, 1), nb)}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nb, nnz
    relation { [b, r, c] -> [i, j] :
        0 <= b < nb and 0 <= r < height(b) and 0 <= c < breadth(b) and i = row0(b) + r and j = col0(b) + c }
    index row0[nb] { range 0 <= row0(b) <= nrow }
    index col0[nb] { range 0 <= col0(b) <= ncol }
    index height[nb] { range 0 <= height(b) }
    index breadth[nb] { range 0 <= breadth(b) }
    index first[nb] { range 0 <= first(b) <= nnz }
    value val[nnz] at [first(b) + r*breadth(b) + c]
}""",
)
def blocks_of_any_size(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    nrow, ncol = shape
    nb = int(rng.integers(0, 4))
    row0, col0 = rng.integers(0, nrow + 1, nb), rng.integers(0, ncol + 1, nb)
    height = np.array([rng.integers(0, nrow - r + 1) for r in row0], np.int64)
    breadth = np.array([rng.integers(0, ncol - c + 1) for c in col0], np.int64)
    first = pointer(height * breadth)
    return {"nb": nb, "nnz": int(first[-1])}, {
        "row0": row0, "col0": col0, "height": height, "breadth": breadth, "first": first[:-1],
    }  # fmt: skip


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nnz
    relation { [r, p] -> [i, j] :
        0 <= r < nrow and rowptr(r) <= p < rowptr(r + 1)
        and (i = r and j = colidx(p) or i = colidx(p) and j = r) }
    index rowptr[nrow + 1] {
        range 0 <= rowptr(p) <= nnz
        property increasing
        property rowptr(0) = 0
        property rowptr(nrow) = nnz
    }
    index colidx[nnz] {
        range 0 <= colidx(p) < nrow
        property strictly increasing within rowptr
        property forall r, p : rowptr(r) <= p < rowptr(r + 1) => colidx(p) <= r
    }
    value val[nnz] at [p]
}""",
)
def symmetric(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    found = [subset(rng, r + 1, density) for r in range(shape[0])]
    rowptr = pointer([len(f) for f in found])
    return {"nnz": int(rowptr[-1])}, {"rowptr": rowptr, "colidx": [c for f in found for c in f]}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size width, nnz
    relation { [w, p, s] -> [i, j] :
        w = 0 and 0 <= p < nrow and 0 <= s < width and i = p and j = ecol(p, s) and 0 <= j
        or w = 1 and 0 <= p < nnz and s = 0 and i = crow(p) and j = ccol(p) }
    index ecol[nrow, width] { range -1 <= ecol(p, s) < ncol }
    index crow[nnz] { range 0 <= crow(p) < nrow }
    index ccol[nnz] { range 0 <= ccol(p) < ncol }
    value ell[nrow, width] at [p, s] when w = 0
    value coo[nnz] at [p] when w = 1
}""",
)
def hyb(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    nrow, ncol = shape
    width = int(rng.integers(0, 3))
    nnz = int(rng.integers(0, 5)) if nrow and ncol else 0
    return {"width": width, "nnz": nnz}, {
        "ecol": rng.integers(-1, ncol, (nrow, width)) if ncol else np.full((nrow, width), -1),
        "crow": rng.integers(0, max(nrow, 1), nnz),
        "ccol": rng.integers(0, max(ncol, 1), nnz),
    }


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nnz
    relation {
        [p, q] -> [i, j] : 0 <= p < nrow and q = 0 and i = p and j = 0;
        [p, q] -> [i, j] : 0 <= p < nnz and q = 1 and i = ridx(p) and j = cidx(p)
    }
    index ridx[nnz] { range 0 <= ridx(p) < nrow }
    index cidx[nnz] {
        range 0 < cidx(p) < ncol
        property forall p < q : ridx(p) = ridx(q) => cidx(p) < cidx(q)
    }
    value first[nrow] at [p] when q = 0
    value rest[nnz] at [p] when q = 1
}""",
)
def first_column_and_list(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    nrow, ncol = shape
    found, _, _ = rows(rng, nrow, max(ncol - 1, 0), density)
    pairs = [(r, c + 1) for r, f in enumerate(found) for c in f]
    return {"nnz": len(pairs)}, {"ridx": [r for r, _ in pairs], "cidx": [c for _, c in pairs]}


# --- several mappings, and one array in several roles --------------------------------------------------


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index col[nnz] {
        range 0 <= col(p) < ncol
        property increasing
    }
    index row[nnz] {
        range 0 <= row(p) < nrow
        property increasing where col equal
    }
    value val[nnz] at [p]
}""",
)
def list_by_columns(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """Some entries several times."""
    found = [(r, c) for c in range(shape[1]) for r in _several(rng, shape[0], density / 2)]
    return {"nnz": len(found)}, {"row": [r for r, _ in found], "col": [c for _, c in found]}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nnz
    relation { [a, p] -> [i, j] : 0 <= a < nrow and ptr(a) <= p < ptr(a + 1) and i = a
        and (z(p) mod 2 = 0 and j = floor(z(p)/2) or z(p) mod 2 = 1 and j = ncol - 1 - floor(z(p)/2)) }
    index ptr[nrow + 1] {
        range 0 <= ptr(p) <= nnz
        property increasing
    }
    index z[nnz] { range 0 <= z(p) }
    value val[nnz] at [p]
}""",
)
def from_both_sides(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """Even numbers count columns from the left, odd ones from the right; some are none."""
    _, ptr, z = rows(rng, shape[0], 2 * shape[1] + 1, density / 2)
    rng.shuffle(z)
    return {"nnz": len(z)}, {"ptr": ptr, "z": z}


@layout(
    2,
    """
layout NAME(n, m) {
    size nnz
    relation {
        [a, p] -> [i, j] : 0 <= a < n and ptr(a) <= p < ptr(a + 1) and i = a and j = col(p);
        [a, p] -> [i, j] : 0 <= a < n and ptr(a) <= p < ptr(a + 1) and i = col(p) and j = a
    }
    index ptr[n + 1] {
        range 0 <= ptr(p) <= nnz
        property increasing
    }
    index col[nnz] {
        range 0 <= col(p) < m
        property strictly increasing within ptr
        property forall a, p : ptr(a) <= p < ptr(a + 1) => col(p) <= a
    }
    value val[nnz] at [p]
}""",
)
def mirrored(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """A mirrored place may lie outside of a matrix that is not square."""
    found = [subset(rng, min(r + 1, shape[1]), density) for r in range(shape[0])]
    ptr = pointer([len(f) for f in found])
    return {"nnz": int(ptr[-1])}, {"ptr": ptr, "col": [c for f in found for c in f]}


@layout(
    2,
    """
layout NAME(n, m) {
    size nnz
    relation {
        [a, p] -> [i, j] : 0 <= a < n and ptr(a) <= p < ptr(a + 1) and i = a and j = col(p) and j < i;
        [a, p] -> [i, j] : 0 <= a < n and ptr(a) <= p < ptr(a + 1) and j = a and i = col(p) and i < j
    }
    index ptr[n + 1] {
        range 0 <= ptr(p) <= nnz
        property increasing
    }
    index col[nnz] {
        range 0 <= col(p) < m
        property strictly increasing within ptr
    }
    value low[nnz] at [p]
}""",
)
def mirrored_below(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """What is stored above the diagonal is neither part."""
    _, ptr, col = rows(rng, *shape, density)
    return {"nnz": len(col)}, {"ptr": ptr, "col": col}


@layout(
    2,
    """
layout NAME(n, m) {
    relation { [e] -> [i, j] : 0 <= e < n and i = e and j = a(e); [e] -> [i, j] : 0 <= e < n and i = e and j = b(e) }
    index a[n] { range 0 <= a(e) <= m }
    index b[n] { range 0 <= b(e) <= m }
    value w[n] at [e]
}""",
)
def two_ends(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """Row e is an edge with its weight at both ends, of which some are none."""
    n, m = shape
    return {}, {"a": rng.integers(0, m + 1, n), "b": rng.integers(0, m + 1, n)}


@layout(
    2,
    """
layout NAME(n, m) {
    size na, nb
    relation { [a, b] -> [i, j] : 0 <= a < na and 0 <= b < nb and 0 <= i < n and 0 <= j < m and r(i) = a and c(j) = b }
    index r[n] { range 0 <= r(i) < na }
    index c[m] { range 0 <= c(j) < nb }
    value val[na, nb] at [a, b]
}""",
)
def classes(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """One value for each class of rows and class of columns."""
    na, nb = (int(k) for k in rng.integers(1, 4, 2))
    return {"na": na, "nb": nb}, {"r": rng.integers(0, na, shape[0]), "c": rng.integers(0, nb, shape[1])}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size ns, nnz
    relation { [a, q, p] -> [i, j] :
        0 <= a < nrow and ptr(a) <= q < ptr(a + 1) and sptr(q) <= p < sptr(q + 1) and i = a and j = col(p) }
    index ptr[nrow + 1] {
        range 0 <= ptr(a) <= ns
        property increasing
    }
    index sptr[ns + 1] {
        range 0 <= sptr(q) <= nnz
        property increasing
    }
    index col[nnz] { range 0 <= col(p) < ncol }
    value val[nnz] at [p]
}""",
)
def rows_of_segments(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    nrow, ncol = shape
    ptr = pointer(rng.integers(0, 3, nrow))
    sptr = pointer(rng.integers(0, 4, int(ptr[-1])) if ncol else np.zeros(int(ptr[-1]), np.int64))
    nnz = int(sptr[-1])
    return {"ns": int(ptr[-1]), "nnz": nnz}, {"ptr": ptr, "sptr": sptr, "col": rng.integers(0, max(ncol, 1), nnz)}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nnz
    relation {
        [w, a, p] -> [i, j] : w = 0 and 0 <= a < nrow and p = a and i = a and j = a;
        [w, a, p] -> [i, j] : w = 1 and 0 <= a < nrow and ja(a) <= p < ja(a + 1) and i = a and j = ja(p)
    }
    index ja[nrow + 1 + nnz] {
        range 0 <= ja(p) <= nrow + 1 + nnz
        property forall a : a < nrow => ja(a) <= ja(a + 1)
    }
    value val[nrow + 1 + nnz] at [p]
}""",
)
def msr(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """The diagonal, a place that nothing uses, the rest; one array has the pointers first and then the columns."""
    nrow, ncol = shape
    within = min(ncol, nrow + 1)  # as far as the range of the one array is sure to go
    found = [np.setdiff1d(subset(rng, within, density), [r]) for r in range(nrow)]
    ptr = pointer([len(f) for f in found]) + nrow + 1
    cols = [c for f in found for c in f]
    return {"nnz": len(cols)}, {"ja": [*ptr, *cols]}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    relation { [b, r] -> [i, j] :
        0 <= 4*b < nrow and 0 <= r < min(4, nrow - 4*b) and i = 4*b + r and j = col(b) }
    index col[ceil(nrow/4)] { range 0 <= col(p) <= ncol }
    value val[ceil(nrow/4)] at [b]
}""",
)
def one_in_four_rows(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """Four rows at a time, fewer in the end, have one value in one column, or none."""
    nrow, ncol = shape
    return {}, {"col": rng.integers(0, ncol + 1, (nrow + 3) // 4)}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size len
    relation { [c, r] -> [i, j] : 0 <= c < ncol and top(c) <= r < bottom(c) and i = r and j = c }
    index top[ncol] { range 0 <= top(c) <= nrow }
    index bottom[ncol] { range 0 <= bottom(c) <= nrow }
    index ptr[ncol] { range 0 <= ptr(c) <= len }
    value val[len] at [ptr(c) + r - top(c)]
}""",
)
def column_ranges(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    nrow, ncol = shape
    top, bottom = np.sort(rng.integers(0, nrow + 1, (2, ncol)), axis=0)
    ptr = pointer(bottom - top)
    return {"len": int(ptr[-1])}, {"top": top, "bottom": bottom, "ptr": ptr[:-1]}


@layout(
    1,
    """
layout NAME(n) {
    size nnz
    relation { [p] -> [i] : 0 <= p < nnz and (i = idx(p) or i = n - 1 - idx(p)) }
    index idx[nnz] { range 0 <= idx(p) < n }
    value val[nnz] at [p]
}""",
)
def vector_and_its_reverse(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    found = rng.permutation(subset(rng, shape[0], density / 2))
    return {"nnz": len(found)}, {"idx": found}


# --- rank 3 -------------------------------------------------------------------------------------------


@layout(
    3,
    """
layout NAME(n1, n2, n3) {
    size nf
    relation { [f, t] -> [i, j, k] : 0 <= f < nf and 0 <= t < n3 and i = one(f) and j = two(f) and k = t }
    index one[nf] { range 0 <= one(f) < n1 }
    index two[nf] {
        range 0 <= two(f) < n2
        property forall f < g : one(f) = one(g) => two(f) < two(g)
    }
    value val[nf, n3] at [f, t]
}""",
)
def dense_fibres(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    pairs = np.argwhere(rng.random(shape[:2]) < density)
    return {"nf": len(pairs)}, {"one": pairs[:, 0], "two": pairs[:, 1]}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index col[nnz] {
        range 0 <= col(p) < ncol
        property increasing
    }
    index row[nnz] {
        range 0 <= row(p) < nrow
        property increasing where col equal
    }
    value val[nnz] at [p]
}""",
)
def column_list(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    col, row = np.nonzero(rng.random(shape[::-1]) < density)
    return {"nnz": len(row)}, {"row": row, "col": col}


@layout(
    2,
    """
layout NAME(nrow, ncol) {
    size nnz
    relation {
        [a, p] -> [i, j] : 0 <= a < nrow and ptr(a) <= p < ptr(a + 1) and i = a and j = col(p) and j < i ;
        [a, p] -> [i, j] : 0 <= a < nrow and ptr(a) <= p < ptr(a + 1) and j = a and i = col(p) and i < j
    }
    index ptr[nrow + 1] {
        range 0 <= ptr(p) <= nnz
        property increasing
    }
    index col[nnz] {
        range 0 <= col(p) < ncol
        property strictly increasing within ptr
    }
    value low[nnz] at [p]
}""",
)
def mirrored_rows(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    _, ptr, col = rows(rng, *shape, density)
    return {"nnz": int(ptr[-1])}, {"ptr": ptr, "col": col}


# --- what packing never makes of the layouts that come with spfgen -------------------------------------


def maker(make: Maker) -> Maker:
    MAKERS[make.__name__] = make
    return make


@maker
def coo_unsorted(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """Entries in any order, some twice."""
    nnz = int(rng.integers(0, 8)) if all(shape) else 0
    return {"nnz": nnz}, {f"idx_{k + 1}": rng.integers(0, max(n, 1), nnz) for k, n in enumerate(shape)}


@maker
def sv_unsorted(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    found = rng.permutation(subset(rng, shape[0], density))
    return {"nnz": len(found)}, {"idx": found}


@maker
def dia(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """Diagonals in any order."""
    nrow, ncol = shape
    offsets = np.arange(-nrow + 1, ncol) if nrow and ncol else np.zeros(0, np.int64)
    found = rng.permutation(offsets[rng.random(len(offsets)) < density])
    return {"ndiag": len(found)}, {"offset": found}


@maker
def csf(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Made:
    """A tree with empty branches."""
    counts, sizes, arrays = 1, {}, {}
    for k, n in enumerate(shape, 1):
        found = [subset(rng, n, density) for _ in range(counts)]
        counts = sum(len(f) for f in found)
        sizes[f"nnz_{k}"] = counts
        arrays[f"idx_{k}"] = [c for f in found for c in f]
        if k > 1:
            arrays[f"ptr_{k}"] = pointer([len(f) for f in found])
    return sizes, arrays


def index_arrays(
    declared: Layout, make: Maker, seed: int, shape: tuple[int, ...], density: float, kinds: Mapping[str, str]
) -> Made:
    """Sizes (extents too) and index arrays of a random tensor."""
    sizes, arrays = make(np.random.default_rng([seed, *shape]), shape, density)
    sizes = {**dict(zip(declared.parameters, shape, strict=True)), **sizes}
    return sizes, {
        a.name: np.ascontiguousarray(
            np.asarray(arrays[a.name]).astype(kinds.get(a.name, "int32")).reshape(extents_of(declared, a.name, sizes))
        )
        for a in declared.indexes
    }


def resolved(name: str) -> Layout:
    declaration, settings = tree().resolve(parse_layout_use(name))
    return layout_of(declaration, settings)

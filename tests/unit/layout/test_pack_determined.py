"""Layouts whose packing takes more than counting: runs and blocks that hold all entries, alternatives that are tried in
turn, keys that the relation determines through quotients, entries of which one is stored for several."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from spfgen.errors import DataError, Unsupported
from spfgen.lang.spec import parse_tree
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import pack
from spfgen.layout.pack_plan import pack_plan
from spfgen.layout.points import encode, to_coordinates
from spfgen.layout.validate import violation
from spfgen.pipeline import layout_of
from spfgen.run.examining.examine_packing import tried
from spfgen.sets.affine import Affine
from spfgen.sets.named import Constraint, Space

RUNS = """
layout intervals(n) {
    size ni, len
    relation { [q, p] -> [i] : 0 <= q < ni and ptr(q) <= p < ptr(q + 1) and i = start(q) + p - ptr(q) }
    index start[ni] { range 0 <= start(q) < n  property forall q, r
        : q < r => start(q) + ptr(q + 1) - ptr(q) <= start(r) }
    index ptr[ni + 1] { range 0 <= ptr(q) <= len  property increasing  property ptr(0) = 0  property ptr(ni) = len }
    value val[len] at [p]
}
layout backward_intervals(n) {
    size ni, len
    relation { [q, p] -> [i] : 0 <= q < ni and ptr(q) <= p < ptr(q + 1) and i = last(q) - p + ptr(q) }
    index last[ni] { range 0 <= last(q) < n  property strictly increasing }
    index ptr[ni + 1] { range 0 <= ptr(q) <= len  property increasing  property ptr(0) = 0  property ptr(ni) = len }
    value val[len] at [p]
}
layout intervals_of_rows(n, m) {
    size ni, len
    relation { [a, q, p] -> [i, j] : 0 <= a < n and rp(a) <= q < rp(a + 1) and ptr(q) <= p < ptr(q + 1)
        and i = a and j = start(q) + p - ptr(q) }
    index rp[n + 1] { range 0 <= rp(a) <= ni property increasing }
    index ptr[ni + 1] { range 0 <= ptr(q) <= len  property increasing  property ptr(0) = 0  property ptr(ni) = len }
    index start[ni] { range 0 <= start(q) < m }
    value val[len] at [p]
}
layout intervals_with_lengths(n) {
    size ni, len
    relation { [q, k] -> [i] : 0 <= q < ni and 0 <= k < count(q) and i = start(q) + k }
    index start[ni] { range 0 <= start(q) < n }
    index count[ni] { range 0 <= count(q) <= n }
    index ptr[ni] { range 0 <= ptr(q) <= len }
    value val[len] at [ptr(q) + k]
}
layout diagonal_blocks(nrow, ncol) {
    size nb, len
    relation { [b, r, c] -> [i, j] : 0 <= b < nb and start(b) <= r < start(b + 1)
        and start(b) <= c < start(b + 1) and i = r and j = c }
    index start[nb + 1] { range 0 <= start(b) <= max(nrow, ncol)  property strictly increasing
        property start(0) = 0 }
    index xptr[nb + 1] { range 0 <= xptr(b) <= len  property increasing }
    value val[len] at [xptr(b) + (r - start(b))*(start(b + 1) - start(b)) + c - start(b)]
}
layout separate_diagonal_blocks(nrow, ncol) {
    size nb, len
    relation { [b, r, c] -> [i, j] : 0 <= b < nb and first(b) <= r < last(b) and first(b) <= c < last(b)
        and i = r and j = c }
    index first[nb] { range 0 <= first(b) }
    index last[nb] { range 0 <= last(b) }
    index xptr[nb] { range 0 <= xptr(b) <= len }
    value val[len] at [xptr(b) + (r - first(b))*(last(b) - first(b)) + c - first(b)]
}
layout diagonal_cubes(n, m, o) {
    size nb, len
    relation { [b, r, c, d] -> [i, j, k] : 0 <= b < nb and start(b) <= r < start(b + 1)
        and start(b) <= c < start(b + 1) and start(b) <= d < start(b + 1) and i = r and j = c and k = d }
    index start[nb + 1] { range 0 <= start(b) <= n + m + o  property strictly increasing  property start(0) = 0 }
    index xptr[nb + 1] { range 0 <= xptr(b) <= len  property increasing }
    value val[len] at [xptr(b)
        + ((r - start(b))*(start(b + 1) - start(b)) + c - start(b))*(start(b + 1) - start(b)) + d - start(b)]
}
"""

ALTERNATIVES = """
layout ell_and_list(nrow, ncol) {
    size nl
    relation {
        [part, a, k] -> [i, j] : part = 0 and 0 <= a < nrow and 0 <= k < 2 and i = a and j = col(a, k) and 0 <= j ;
        [part, a, k] -> [i, j] : part = 1 and 0 <= a < nl and k = 0 and i = lrow(a) and j = lcol(a) }
    index col[nrow, 2] { range -1 <= col(a, k) < ncol }
    index lrow[nl] { range 0 <= lrow(p) < nrow }
    index lcol[nl] { range 0 <= lcol(p) < ncol }
    value slot[nrow, 2] at [a, k] when part = 0
    value rest[nl] at [a] when part = 1
}
layout list_of_columns_and_csr(nrow, ncol) {
    size nl
    relation {
        [part, a, k] -> [i, j] : part = 1 and 0 <= a < nrow and ptr(a) <= k < ptr(a + 1) and i = a and j = lcol(k) ;
        [part, a, k] -> [i, j] : part = 0 and 0 <= a < ncol and 0 <= k < 3 and j = a and i = row(a, k) and 0 <= i }
    index row[ncol, 3] { range -1 <= row(a, k) < nrow }
    index ptr[nrow + 1] { range 0 <= ptr(p) <= nl property increasing }
    index lcol[nl] { range 0 <= lcol(p) < ncol }
    value slot[ncol, 3] at [a, k] when part = 0
    value rest[nl] at [k] when part = 1
}
layout diagonals_and_list(nrow, ncol) {
    size nl
    relation {
        [part, a, k] -> [i, j] : part = 0 and 0 <= a < 3 and 0 <= k < nrow and i = k and j = k + off(a) ;
        [part, a, k] -> [i, j] : part = 1 and 0 <= a < nl and k = 0 and i = lrow(a) and j = lcol(a) }
    index off[3] { range -nrow < off(a) <= ncol }
    index lrow[nl] { range 0 <= lrow(p) < nrow }
    index lcol[nl] { range 0 <= lcol(p) < ncol }
    value slot[3, nrow] at [a, k] when part = 0
    value rest[nl] at [a] when part = 1
}
layout row_column_list(nrow, ncol) {
    size nl
    relation {
        [part, a, k] -> [i, j] : part = 0 and 0 <= a < nrow and k = 0 and i = a and j = c0(a) and 0 <= j ;
        [part, a, k] -> [i, j] : part = 1 and 0 <= a < ncol and k = 0 and j = a and i = c1(a) and 0 <= i;
        [part, a, k] -> [i, j] : part = 2 and 0 <= a < nl and k = 0 and i = lrow(a) and j = lcol(a) }
    index c0[nrow] { range -1 <= c0(a) < ncol }
    index c1[ncol] { range -1 <= c1(a) < nrow }
    index lrow[nl] { range 0 <= lrow(p) < nrow }
    index lcol[nl] { range 0 <= lcol(p) < ncol }
    value v0[nrow] at [a] when part = 0
    value v1[ncol] at [a] when part = 1
    value v2[nl] at [a] when part = 2
}
"""

KEYS = """
layout morton(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz
        and i = z(p) mod 2 + 2*(floor(z(p)/4) mod 2) + 4*(floor(z(p)/16) mod 2)
        and j = floor(z(p)/2) mod 2 + 2*(floor(z(p)/8) mod 2) + 4*(floor(z(p)/32) mod 2) }
    index z[nnz] { range 0 <= z(p) < 64  property strictly increasing }
    value val[nnz] at [p]
}
layout morton_open(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = z(p) mod 2 + 2*(floor(z(p)/4) mod 2) + 4*floor(z(p)/16)
        and j = floor(z(p)/2) mod 2 + 2*(floor(z(p)/8) mod 2) }
    index z[nnz] { range 0 <= z(p)  property strictly increasing }
    value val[nnz] at [p]
}
layout morton_dense(nrow, ncol) {
    relation { [z] -> [i, j] : 0 <= z < 64 and i = z mod 2 + 2*(floor(z/4) mod 2) + 4*(floor(z/16) mod 2)
        and j = floor(z/2) mod 2 + 2*(floor(z/8) mod 2) + 4*(floor(z/32) mod 2) }
    value val[64] at [z]
}
layout morton_blocks(nrow, ncol) {
    size nb
    relation { [b, r, c] -> [i, j] : 0 <= b < nb and 0 <= r < 2 and 0 <= c < 2
        and i = 2*(z(b) mod 2 + 2*(floor(z(b)/4) mod 2)) + r
        and j = 2*(floor(z(b)/2) mod 2 + 2*(floor(z(b)/8) mod 2)) + c }
    index z[nb] { range 0 <= z(b) < 16  property strictly increasing }
    value val[nb, 2, 2] at [b, r, c]
}
layout morton_in_blocks(nrow, ncol) {
    size nb
    relation { [a, b, z] -> [i, j] : 4*a < nrow and 0 <= a and ptr(a) <= b < ptr(a + 1) and 0 <= z < 16
        and i = 4*a + z mod 2 + 2*(floor(z/4) mod 2) and j = 4*col(b) + floor(z/2) mod 2 + 2*(floor(z/8) mod 2) }
    index ptr[ceil(nrow/4) + 1] { range 0 <= ptr(a) <= nb property increasing }
    index col[nb] { range 0 <= 4*col(b) < ncol property strictly increasing within ptr }
    value val[nb, 16] at [b, z]
}
layout swizzled(nrow, ncol) {
    relation { [i1, c] -> [i, j] : 0 <= i1 < nrow and 0 <= c < 4*ceil(ncol/4) and i = i1
        and j = 4*floor(c/4) + (c + i1) mod 4 }
    value val[nrow, 4*ceil(ncol/4)] at [i1, c]
}
layout swizzled_csr(nrow, ncol) {
    size nnz
    relation { [a, p] -> [i, j] : 0 <= a < nrow and ptr(a) <= p < ptr(a + 1) and i = a
        and j = 4*floor(col(p)/4) + (col(p) + a) mod 4 }
    index ptr[nrow + 1] { range 0 <= ptr(a) <= nnz property increasing }
    index col[nnz] { range 0 <= col(p) < 4*ceil(ncol/4) property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout swizzled_rows(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = 2*floor(row(p)/2) + (row(p) + floor(col(p)/2)) mod 2
        and j = col(p) }
    index row[nnz] { range 0 <= row(p) < 2*ceil(nrow/2) }
    index col[nnz] { range 0 <= col(p) < ncol }
    value val[nnz] at [p]
}
layout flipped(n) {
    size nnz
    relation { [p] -> [i] : 0 <= p < nnz and i = 2*floor(k(p)/2) + 1 - k(p) mod 2 }
    index k[nnz] { range 0 <= k(p) <= n property strictly increasing }
    value val[nnz] at [p]
}
layout snake(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = floor(z(p)/8) and (i mod 2 = 0
        and j = z(p) mod 8 or i mod 2 = 1 and j = 7 - z(p) mod 8) }
    index z[nnz] { range 0 <= z(p) property strictly increasing }
    value val[nnz] at [p]
}
layout wrapped_diagonals(nrow, ncol) {
    size nd
    relation { [d, k] -> [i, j] : 0 <= d < nd and 0 <= k < nrow and i = k and j = (k + off(d)) mod 8 }
    index off[nd] { range 0 <= off(d) < 8 property strictly increasing }
    value val[nd, nrow] at [d, k]
}
layout columns_of_slots(nrow, ncol) {
    size width
    relation { [a, s] -> [i, j] : 0 <= a < nrow and 0 <= s < len(a) and i = a and j = col(s, a) }
    index len[nrow] { range 0 <= len(a) <= width }
    index col[width, nrow] {
        range 0 <= col(s, a) < ncol
        property forall s, t, a : s < t and t < len(a) => col(s, a) < col(t, a)
    }
    value val[width, nrow] at [s, a]
}
layout listed_by_blocks(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = 3*up(p) + r(p) and j = 4*left(p) + c(p) }
    index up[nnz] { range 0 <= 3*up(p) < nrow  property increasing }
    index left[nnz] { range 0 <= 4*left(p) < ncol  property increasing where up equal }
    index r[nnz] {
        range 0 <= r(p) < 3
        property forall p, q : p < q and up(p) = up(q) and left(p) = left(q) => r(p) <= r(q)
    }
    index c[nnz] {
        range 0 <= c(p) < 4
        property forall p, q : p < q and up(p) = up(q) and left(p) = left(q) and r(p) = r(q) => c(p) < c(q)
    }
    value val[nnz] at [p]
}
layout remainders(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = z(p) mod 3 and j = z(p) mod 5 }
    index z[nnz] { range 0 <= z(p) < 15 property strictly increasing }
    value val[nnz] at [p]
}
"""

SYMMETRIC = """
layout mirrored(n, m) {
    size nnz
    relation {
        [a, p] -> [i, j] : 0 <= a < n and ptr(a) <= p < ptr(a + 1) and i = a and j = col(p) ;
        [a, p] -> [i, j] : 0 <= a < n and ptr(a) <= p < ptr(a + 1) and i = col(p) and j = a }
    index ptr[n + 1] { range 0 <= ptr(p) <= nnz  property increasing }
    index col[nnz] {
        range 0 <= col(p) < m
        property strictly increasing within ptr
        property forall a, p : ptr(a) <= p < ptr(a + 1) => col(p) <= a
    }
    value val[nnz] at [p]
}
layout mirrored_list(n, m) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) ;
        [p] -> [i, j] : 0 <= p < nnz and i = col(p) and j = row(p) }
    index row[nnz] { range 0 <= row(p) < n }
    index col[nnz] { range 0 <= col(p) < m property forall p : 0 <= p < nnz => col(p) <= row(p) }
    value val[nnz] at [p]
}
layout mirrored_list_in_any_order(n, m) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) ;
        [p] -> [i, j] : 0 <= p < nnz and i = col(p) and j = row(p) }
    index row[nnz] { range 0 <= row(p) < n }
    index col[nnz] { range 0 <= col(p) < m }
    value val[nnz] at [p]
}
layout mirrored_in_any_order(n, m) {
    size nnz
    relation {
        [a, p] -> [i, j] : 0 <= a < n and ptr(a) <= p < ptr(a + 1) and i = a and j = col(p) ;
        [a, p] -> [i, j] : 0 <= a < n and ptr(a) <= p < ptr(a + 1) and i = col(p) and j = a }
    index ptr[n + 1] { range 0 <= ptr(p) <= nnz  property increasing }
    index col[nnz] { range 0 <= col(p) < m property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout symmetric_cube(n, m, o) {
    size nnz
    relation { [p] -> [i, j, k] : 0 <= p < nnz and i = a(p) and j = b(p) and k = c(p) ;
        [p] -> [i, j, k] : 0 <= p < nnz and i = a(p) and k = b(p) and j = c(p) ;
        [p] -> [i, j, k] : 0 <= p < nnz and j = a(p) and i = b(p) and k = c(p) ;
        [p] -> [i, j, k] : 0 <= p < nnz and j = a(p) and k = b(p) and i = c(p) ;
        [p] -> [i, j, k] : 0 <= p < nnz and k = a(p) and i = b(p) and j = c(p) ;
        [p] -> [i, j, k] : 0 <= p < nnz and k = a(p) and j = b(p) and i = c(p) }
    index a[nnz] { range 0 <= a(p) < n }
    index b[nnz] { range 0 <= b(p) < n }
    index c[nnz] { range 0 <= c(p) < n }
    value val[nnz] at [p]
}
layout symmetric_slices(n, m, o) {
    size nnz
    relation { [p] -> [i, j, k] : 0 <= p < nnz and i = a(p) and j = b(p) and k = c(p) ;
        [p] -> [i, j, k] : 0 <= p < nnz and i = a(p) and k = b(p) and j = c(p) }
    index a[nnz] { range 0 <= a(p) < n }
    index b[nnz] { range 0 <= b(p) < n }
    index c[nnz] { range 0 <= c(p) < n }
    value val[nnz] at [p]
}
"""

OPEN = {
    "remainders": (3, 5), "morton": (8, 8), "morton_dense": (8, 8), "morton_blocks": (8, 8), "morton_open": (9, 4),
    "snake": (9, 8), "wrapped_diagonals": (9, 8),
}  # fmt: skip
"""The largest extents of layouts with room for some coordinates only."""


def layout(text: str, name: str) -> Layout:
    return layout_of(parse_tree(text).layouts[name], {})


def names(text: str) -> list[str]:
    return list(parse_tree(text).layouts)


def arrays(found: Layout, dense: object) -> dict[str, object]:
    """The packed arrays, which hold what is declared and come back as the same dense array."""
    wanted = np.asarray(dense, dtype=float)
    coords = tuple(np.nonzero(wanted))
    packed = pack(found, wanted.shape, coords, wanted[coords])
    assert violation(found, packed.sizes, packed.arrays) is None
    columns, values = to_coordinates(
        found, packed.sizes, packed.arrays, {v.name: packed.arrays[v.name] for v in found.values}
    )
    back = np.zeros(wanted.shape)
    np.add.at(back, columns, values)
    assert np.array_equal(back, wanted)
    return {n: a.tolist() for n, a in packed.arrays.items()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "text", [RUNS, ALTERNATIVES, KEYS, SYMMETRIC], ids=["runs", "alternatives", "keys", "symmetric"]
)
def test_there_and_back(text: str) -> None:
    """Random data of several densities, with equal neighbours and others, empty arrays and single elements."""
    for name in names(text):
        found = layout(text, name)
        most = OPEN.get(name, (9, 8, 5))
        for number, extents in enumerate(((0, 3, 2), (1, 1, 1), (3, 3, 3), (4, 6, 5), (9, 8, 5))):
            shape = tuple(min(a, b) for a, b in zip(extents[: found.rank], most, strict=False))
            for density in (0.0, 0.1, 0.5, 1.0):
                for equal in (False, True):
                    random = np.random.default_rng([number, int(10 * density)])
                    values = 2 if equal else random.integers(1, 9, shape)
                    dense = np.where(random.random(shape) < density, values, 0)
                    if text is SYMMETRIC:
                        dense = mirrored(name, dense[tuple(slice(min(shape)) for _ in shape)])
                    arrays(found, dense)


def mirrored(name: str, dense: np.ndarray) -> np.ndarray:
    """As the layout can store it, the same for coordinates in other orders."""
    orders = [(0, 1, 2), (0, 2, 1)] if name == "symmetric_slices" else list(permutations(range(dense.ndim)))
    return np.asarray(np.maximum.reduce([dense.transpose(o) for o in orders]))


def test_runs_are_as_long_as_they_can_be() -> None:
    assert arrays(layout(RUNS, "intervals"), [1, 1, 0, 2, 3]) == {
        "start": [0, 3], "ptr": [0, 2, 4], "val": [1, 1, 2, 3],
    }  # fmt: skip


def test_blocks_are_as_small_as_they_can_be() -> None:
    blocks = layout(RUNS, "diagonal_blocks")
    assert arrays(blocks, [[0, 0, 0], [5, 0, 0], [0, 0, 6]]) == {
        "start": [0, 2, 3], "xptr": [0, 4, 5], "val": [0, 0, 5, 0, 6],
    }  # fmt: skip
    assert arrays(blocks, [[0, 0, 5], [0, 6, 0], [0, 0, 0]])["start"] == [0, 3]
    assert arrays(layout(RUNS, "separate_diagonal_blocks"), [[0, 0, 0], [0, 0, 5], [0, 0, 0]]) == {
        "first": [1], "last": [3], "xptr": [0], "val": [0, 5, 0, 0],
    }  # fmt: skip


def test_what_an_alternative_cannot_hold_goes_to_the_next() -> None:
    assert arrays(layout(ALTERNATIVES, "ell_and_list"), [[1, 2, 3, 4], [0, 5, 0, 0]]) == {
        "col": [[0, 1], [1, -1]], "lrow": [0, 0], "lcol": [2, 3], "slot": [[1, 2], [5, 0]], "rest": [3, 4],
    }  # fmt: skip
    assert arrays(layout(ALTERNATIVES, "row_column_list"), [[1, 2], [3, 4]]) == {
        "c0": [0, 0], "c1": [-1, 0], "lrow": [1], "lcol": [1], "v0": [1, 3], "v1": [0, 2], "v2": [4],
    }  # fmt: skip


def test_alternatives_in_the_order_of_the_text() -> None:
    """Also where that is not the order of the numbers that tell them apart."""
    text = ALTERNATIVES.replace("part = 0", "part = 2")
    assert arrays(layout(text, "ell_and_list"), [[1, 2, 3]])["rest"] == [3]


def test_a_range_says_nothing_of_other_alternatives() -> None:
    """Where the list holds nothing, because no column is beyond the first, the first column is still stored."""
    text = """layout made(n, m) {
    size nnz
    relation { [p, q] -> [i, j] : 0 <= p < n and q = 0 and i = p and j = 0 ;
               [p, q] -> [i, j] : 0 <= p < nnz and q = 1 and i = row(p) and j = col(p) }
    index row[nnz] { range 0 <= row(p) < n }
    index col[nnz] { range 0 < col(p) < m }
    value first[n] at [p] when q = 0
    value rest[nnz] at [p] when q = 1
}"""
    assert arrays(layout(text, "made"), [[7], [8]]) == {"row": [], "col": [], "first": [7, 8], "rest": []}


def test_keys_from_bits() -> None:
    dense = np.zeros((8, 8))
    dense[1, 0], dense[0, 1], dense[2, 3] = 5, 6, 7
    assert arrays(layout(KEYS, "morton"), dense) == {"z": [1, 2, 14], "val": [5, 6, 7]}
    assert arrays(layout(KEYS, "swizzled"), [[1, 2, 3, 4], [5, 6, 7, 8]])["val"] == [[1, 2, 3, 4], [6, 7, 8, 5]]


def test_many_bits_are_found_one_by_one() -> None:
    bits = 5
    row, col = (" + ".join(f"{2**k}*(floor(z(p)/{4**k * s}) mod 2)" for k in range(bits)) for s in (1, 2))
    text = f"""layout made(n, m) {{
    size nnz
    relation {{ [p] -> [i, j] : 0 <= p < nnz and i = {row} and j = {col} }}
    index z[nnz] {{ range 0 <= z(p) < {4**bits}  property strictly increasing }}
    value val[nnz] at [p]
}}"""
    dense = np.zeros((32, 32))
    dense[31, 0], dense[0, 31], dense[21, 10] = 5, 6, 7
    made = arrays(layout(text, "made"), dense)
    assert made["z"] == [0b0101010101, 0b0110011001, 0b1010101010]
    assert made["val"] == [5, 7, 6]


def test_a_key_with_two_values_is_refused() -> None:
    text = """layout made(n, m) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = z(p) mod 4 and j = floor(z(p)/4) mod 4 }
    index z[nnz] { range 0 <= z(p) < 32 }
    value val[nnz] at [p]
}"""
    with pytest.raises(Unsupported, match=r"neither it nor `z\(p\)`"):
        pack_plan(layout(text, "made"))
    assert pack_plan(layout(text.replace("32", "16"), "made"))


def test_functions_are_proved() -> None:
    """Of a set: i = 2*floor(z/2) + (1 - z mod 2) determines z, and i = floor(z/2) does not."""
    both = layout(KEYS, "flipped")
    encoded = encode(both)
    (piece,) = encoded.pieces
    (case,) = piece.function("k(p)", {"i", "n"}) or ()
    assert case.divisor == 1
    space = Space(("i", "z"))
    half = space.of(
        [Constraint(False, Affine((("z", 1), ("i", -2)))), Constraint(False, Affine((("z", -1), ("i", 2)), 1))]
    )
    assert half.function("z", {"i"}) is None
    assert half.function("i", {"z"}) is not None


def test_one_of_the_entries_that_are_stored_together() -> None:
    dense = [[1, 2, 0], [2, 0, 3], [0, 3, 4]]
    assert arrays(layout(SYMMETRIC, "mirrored"), dense) == {
        "ptr": [0, 1, 2, 4],
        "col": [0, 0, 1, 2],
        "val": [1, 2, 3, 4],
    }
    upper = SYMMETRIC.replace("col(p) <= a", "a <= col(p)")
    assert arrays(layout(upper, "mirrored"), dense) == {"ptr": [0, 2, 3, 4], "col": [0, 1, 2, 2], "val": [1, 2, 3, 4]}
    free = layout(SYMMETRIC, "mirrored_list_in_any_order")
    assert arrays(free, dense) == {"row": [0, 1, 2, 2], "col": [0, 0, 1, 2], "val": [1, 2, 3, 4]}
    with pytest.raises(DataError, match=r"expected a value at \(1, 0\)|expected equal values"):
        arrays(free, [[0, 2], [0, 0]])


def test_check_draws_arrays() -> None:
    found = tried(layout(RUNS, "intervals"), 0)
    assert (found.packed, found.lost, found.wrong) == (found.count, "", "")
    some = tried(layout(KEYS, "remainders"), 0)
    assert 0 < some.packed < some.count
    assert "no place for the value" in some.lost
    assert not some.wrong


BEHIND_THE_DIAGONAL = """
layout made(n, m) {
    size nnz
    relation {
        [a, p] -> [i, j] : 0 <= a < n and p = a and i = a and j = a ;
        [a, p] -> [i, j] : 0 <= a < n and n + 1 <= p and ptr(a) <= p < ptr(a + 1) and i = a and j = col(p) }
    index ptr[n + 1] { range n + 1 <= ptr(p) <= n + 1 + nnz property increasing }
    index col[n + 1 + nnz] { range -1 <= col(p) < m }
    value val[n + 1 + nnz] at [p]
}
"""


def test_positions_that_begin_behind_others() -> None:
    assert arrays(layout(BEHIND_THE_DIAGONAL, "made"), [[5, 0, 6], [0, 0, 0], [7, 8, 9]]) == {
        "ptr": [4, 5, 5, 7], "col": [-1, -1, -1, -1, 2, 0, 1], "val": [5, 0, 9, 0, 6, 7, 8],
    }  # fmt: skip


def test_what_is_left_of_a_coordinate_is_a_key_beside_the_block() -> None:
    """`r(p)` follows from `up(p)`, which is a key of the same position."""
    dense = np.zeros((5, 5))
    dense[[0, 1, 2, 4], [1, 0, 4, 4]] = 1, 2, 3, 4
    found = arrays(layout(KEYS, "listed_by_blocks"), dense)
    assert [found[n] for n in ("up", "left", "r", "c")] == [[0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 2, 1], [1, 0, 0, 0]]


def test_lengths_are_as_large_as_their_entries_need() -> None:
    """As in ELLPACK-R: slots are counted up to an array that says how many there are."""
    found = arrays(layout(KEYS, "columns_of_slots"), [[0, 5, 6], [0, 0, 0], [7, 0, 0]])
    assert [found[n] for n in ("len", "col")] == [[2, 0, 1], [[1, 0, 0], [2, 0, 0]]]


def test_one_array_for_bounds_and_keys() -> None:
    """As in SPARSKIT's MSR: not packed, and the reason is the right one."""
    text = BEHIND_THE_DIAGONAL.replace("ptr", "ja").replace("col", "ja")
    text = text.replace("    index ja[n + 1] { range n + 1 <= ja(p) <= n + 1 + nnz property increasing }\n", "")
    with pytest.raises(Unsupported, match=r"`ja` holds both the bounds of the position `p` and what is found at it"):
        pack_plan(layout(text, "made"))

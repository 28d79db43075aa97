"""Layouts that leave open which position an entry has: packing chooses, and any choice comes back as the same data."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError
from spfgen.lang.spec import parse_tree
from spfgen.layout.keys import key_plan
from spfgen.layout.pack import key_orders, pack
from spfgen.pipeline import layout_of
from spfgen.run.examining.examine_packing import tried
from spfgen.run.pack import pack_entries
from tests.unit.layout.test_pack_determined import arrays, layout, names

OPEN = """
layout groups_of_four(n, m) {
    relation { [g, a, c] -> [i, j] : 0 <= g and 4*g + c < m and 0 <= c < 4 and 0 <= a < n and i = a
        and j = perm(4*g + c) }
    index perm[m] { range 0 <= perm(q) < m property injective }
    value val[ceil(m/4), n, 4] at [g, a, c]
}
layout groups_with_rows(n, m) {
    size nnz
    relation { [g, p, c] -> [i, j] : 0 <= g and 4*g + c < m and 0 <= c < 4 and ptr(g) <= p < ptr(g + 1)
        and i = row(p) and j = perm(4*g + c) }
    index perm[m] { range 0 <= perm(q) < m property injective }
    index ptr[ceil(m/4) + 1] { range 0 <= ptr(g) <= nnz property increasing }
    index row[nnz] { range 0 <= row(p) < n property strictly increasing within ptr }
    value val[nnz, 4] at [p, c]
}
layout groups_of_any_size(n, m) {
    size ng, nnz
    relation { [g, q, p] -> [i, j] : 0 <= g < ng and gptr(g) <= q < gptr(g + 1) and ptr(g) <= p < ptr(g + 1)
        and i = row(p) and j = perm(q) }
    index perm[m] { range 0 <= perm(q) < m property injective }
    index gptr[ng + 1] { range 0 <= gptr(g) <= m property strictly increasing property gptr(0) = 0
        property gptr(ng) = m }
    index ptr[ng + 1] { range 0 <= ptr(g) <= nnz property increasing }
    index row[nnz] { range 0 <= row(p) < n property strictly increasing within ptr }
    index vptr[ng + 1] { range 0 <= vptr(g) }
    size len
    value val[len] at [vptr(g) + (p - ptr(g))*(gptr(g + 1) - gptr(g)) + q - gptr(g)]
}
layout group_of_each(n, m) {
    size ng, nnz
    relation { [g, p, c] -> [i, j] : 0 <= g < ng and ptr(g) <= p < ptr(g + 1) and i = row(p) and 0 <= c < m
        and j = c and group(c) = g }
    index group[m] { range 0 <= group(c) < ng }
    index ptr[ng + 1] { range 0 <= ptr(g) <= nnz property increasing }
    index row[nnz] { range 0 <= row(p) < n property strictly increasing within ptr }
    value val[nnz, m] at [p, c]
}
layout rows_by_their_place(n, m) {
    size nnz
    relation { [q, p] -> [i, j] : 0 <= q < n and ptr(q) <= p < ptr(q + 1) and q = inv(i) and j = col(p) }
    index inv[n] { range 0 <= inv(q) < n property injective }
    index ptr[n + 1] { range 0 <= ptr(q) <= nnz property increasing }
    index col[nnz] { range 0 <= col(p) < m property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout both_permutations(n, m) {
    size nnz
    relation { [q, p] -> [i, j] : 0 <= q < n and ptr(q) <= p < ptr(q + 1) and i = perm(q) and q = inv(i)
        and j = col(p) }
    index perm[n] { range 0 <= perm(q) < n property injective }
    index inv[n] { range 0 <= inv(q) < n property injective }
    index ptr[n + 1] { range 0 <= ptr(q) <= nnz property increasing }
    index col[nnz] { range 0 <= col(p) < m property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout dense_rows_by_their_place(n, m) {
    relation { [q, c] -> [i, j] : 0 <= q < n and 0 <= c < m and q = inv(i) and j = c }
    index inv[n] { range 0 <= inv(q) < n property injective }
    value val[n, m] at [q, c]
}
layout columns_of_columns(n, m) {
    size nnz
    relation { [a, p] -> [i, j] : 0 <= a < n and ptr(a) <= p < ptr(a + 1) and i = a and j = perm(col(p)) }
    index perm[m] { range 0 <= perm(q) < m property injective }
    index ptr[n + 1] { range 0 <= ptr(q) <= nnz property increasing }
    index col[nnz] { range 0 <= col(p) < m property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout chunks(n, m) {
    size nc
    relation { [a, c, s] -> [i, j] : 0 <= a < n and ptr(a) <= c < ptr(a + 1) and 0 <= s < 4 and i = a
        and j = col(c, s) and 0 <= j }
    index ptr[n + 1] { range 0 <= ptr(q) <= nc property increasing }
    index col[nc, 4] { range -1 <= col(c, s) < m }
    value val[nc, 4] at [c, s]
}
layout chunks_with_owners(n, m) {
    size nc
    relation { [c, s] -> [i, j] : 0 <= c < nc and 0 <= s < 4 and i = owner(c) and j = col(c, s) and 0 <= j }
    index owner[nc] { range 0 <= owner(c) < n }
    index col[nc, 4] { range -1 <= col(c, s) < m }
    value val[nc, 4] at [c, s]
}
layout chunks_with_counts(n, m) {
    size nc
    relation { [c, s] -> [i, j] : 0 <= c < nc and 0 <= s < used(c) and i = owner(c) and j = col(c, s) }
    index owner[nc] { range 0 <= owner(c) < n }
    index used[nc] { range 0 <= used(c) <= 4 }
    index col[nc, 4] { range 0 <= col(c, s) < m }
    value val[nc, 4] at [c, s]
}
layout chains_of_two(n, m) {
    size nc
    relation { [a, h, c, s] -> [i, j] : 0 <= a < n and h = 0 and 0 <= c < nc and c = head(a) and 0 <= s < 2
        and i = a and j = col(c, s) and 0 <= j ;
    [a, h, c, s] -> [i, j] : 0 <= a < n and h = 1 and 0 <= c < nc and c = next(head(a)) and 0 <= s < 2
        and i = a and j = col(c, s) and 0 <= j }
    index head[n] { range -1 <= head(a) < nc }
    index next[nc] { range -1 <= next(c) < nc }
    index col[nc, 2] { range -1 <= col(c, s) < m }
    value val[nc, 2] at [c, s]
}
layout table_of_chunks(n, m) {
    size nc, most
    relation { [a, t, s, c] -> [i, j] : 0 <= a < n and 0 <= t < most and 0 <= c < nc and c = at(a, t)
        and 0 <= s < 4 and i = a and j = col(c, s) and 0 <= j }
    index at[n, most] { range -1 <= at(a, t) < nc }
    index col[nc, 4] { range -1 <= col(c, s) < m }
    value val[nc, 4] at [c, s]
}
layout marks_with_places(n, m) {
    size nnz
    relation { [a, c] -> [i, j] : 0 <= a < n and 0 <= c < m and i = a and j = c and mark(a, c) = 1 }
    index mark[n, m] { range 0 <= mark(a, c) <= 1 }
    index rank[n, m] { range 0 <= rank(a, c) < nnz }
    value val[nnz] at [rank(a, c)]
}
layout marks_with_ranks(n, m) {
    size nnz
    relation { [a, c] -> [i, j] : 0 <= a < n and 0 <= c < m and i = a and j = c and mark(a, c) = 1 }
    index mark[n, m] { range 0 <= mark(a, c) <= 1 }
    index start[n + 1] { range 0 <= start(a) <= nnz property increasing }
    index rank[n, m] { range 0 <= rank(a, c) <= m }
    value val[nnz] at [start(a) + rank(a, c)]
}
layout bits(n, m) {
    relation { [a, w, b] -> [i, j] : 0 <= a < n and 0 <= 2*w < m and 0 <= b < 2 and i = a and j = 2*w + b
        and (b = 0 and bits(a, w) mod 2 = 1 or b = 1 and floor(bits(a, w)/2) mod 2 = 1) }
    index bits[n, ceil(m/2)] { range 0 <= bits(a, w) < 4 }
    value val[n, ceil(m/2), 2] at [a, w, b]
}
layout bits_with_starts(n, m) {
    size nnz
    relation { [a, w, b, p] -> [i, j] : 0 <= a < n and 0 <= 2*w < m and i = a and j = 2*w + b and 0 <= p < nnz and
    (b = 0 and bits(a, w) mod 2 = 1 and p = start(a, w) or b = 1 and floor(bits(a, w)/2) mod 2 = 1
        and p = start(a, w) + bits(a, w) mod 2) }
    index bits[n, ceil(m/2)] { range 0 <= bits(a, w) < 4 }
    index start[n, ceil(m/2)] { range 0 <= start(a, w) <= nnz }
    value val[nnz] at [p]
}
layout places(n, m) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and p = at(i, j) }
    index at[n, m] { range -1 <= at(a, c) < nnz }
    value val[nnz] at [p]
}
layout pages(n) {
    size np
    relation { [k, r] -> [i] : 0 <= 8*k < n and 0 <= r < 8 and i = 8*k + r and 0 <= page(k) }
    index page[ceil(n/8)] { range -1 <= page(k) < np }
    value val[np, 8] at [page(k), r]
}
layout pages_side_by_side(n) {
    size np
    relation { [k, r] -> [i] : 0 <= 8*k < n and 0 <= r < 8 and i = 8*k + r and 0 <= page(k) }
    index page[ceil(n/8)] { range -1 <= page(k) < np }
    value val[8*np] at [8*page(k) + r]
}
layout columns_by_their_place(n, m) {
    size nnz
    relation { [a, p] -> [i, j] : 0 <= a < n and ptr(a) <= p < ptr(a + 1) and i = a and col(p) = cinv(j) }
    index cinv[m] { range 0 <= cinv(q) < m property injective }
    index ptr[n + 1] { range 0 <= ptr(q) <= nnz property increasing }
    index col[nnz] { range 0 <= col(p) < m property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout bits_from_starts(n) {
    size nnz
    relation {
    [w, b] -> [i] : 0 <= w and i = 4*w and b = 0 and bits(w) mod 2 = 1;
    [w, b] -> [i] : 0 <= w and i = 4*w + 1 and b = 1 and floor(bits(w)/2) mod 2 = 1;
    [w, b] -> [i] : 0 <= w and i = 4*w + 2 and b = 2 and floor(bits(w)/4) mod 2 = 1;
    [w, b] -> [i] : 0 <= w and i = 4*w + 3 and b = 3 and floor(bits(w)/8) mod 2 = 1 }
    index bits[ceil(n/4)] { range 0 <= bits(w) < 16 }
    index start[ceil(n/4)] { range 0 <= start(w) <= nnz }
    value val[nnz] at [start(w) + b]
}
layout inverted_bits(n) {
    relation { [w, b] -> [i] : 0 <= w and i = 2*w and b = 0 and off(w) mod 2 = 0; [w, b] -> [i] : 0 <= w
        and i = 2*w + 1 and b = 1 and floor(off(w)/2) mod 2 = 0 }
    index off[ceil(n/2)] { range 0 <= off(w) < 4 }
    value val[ceil(n/2), 2] at [w, b]
}
layout two_segments(n, m) {
    size nnz
    relation { [a, t, p] -> [i, j] : 0 <= a < n and 0 <= t < 2 and first(a, t) <= p < last(a, t) and i = a
        and j = col(p) }
    index first[n, 2] { range 0 <= first(a, t) <= nnz }
    index last[n, 2] { range 0 <= last(a, t) <= nnz }
    index col[nnz] { range 0 <= col(p) < m }
    value val[nnz] at [p]
}
layout fibres_of_chunks(n, m, o) {
    size nf, nc
    relation { [a, f, c, s] -> [i, j, k] : 0 <= a < n and ptr(a) <= f < ptr(a + 1)
        and cptr(f) <= c < cptr(f + 1) and 0 <= s < 3 and i = a and j = mid(f) and k = last(c, s) and 0 <= k }
    index ptr[n + 1] { range 0 <= ptr(a) <= nf property increasing }
    index mid[nf] { range 0 <= mid(f) < m property strictly increasing within ptr }
    index cptr[nf + 1] { range 0 <= cptr(f) <= nc property increasing }
    index last[nc, 3] { range -1 <= last(c, s) < o }
    value val[nc, 3] at [c, s]
}
layout rows_of_segments(n, m) {
    size ns, nnz
    relation { [a, q, p] -> [i, j] : 0 <= a < n and ptr(a) <= q < ptr(a + 1) and sptr(q) <= p < sptr(q + 1)
        and i = a and j = col(p) }
    index ptr[n + 1] { range 0 <= ptr(a) <= ns property increasing }
    index sptr[ns + 1] { range 0 <= sptr(q) <= nnz property increasing }
    index col[nnz] { range 0 <= col(p) < m }
    value val[nnz] at [p]
}
layout classes(n, m) {
    size na, nb
    relation { [a, b] -> [i, j] : 0 <= a < na and 0 <= b < nb and 0 <= i < n and 0 <= j < m and r(i) = a and c(j) = b }
    index r[n] { range 0 <= r(i) < na }
    index c[m] { range 0 <= c(j) < nb }
    value val[na, nb] at [a, b]
}
layout staircase(n, m) {
    relation { [a, b] -> [i, j] : 0 <= a < n and 0 <= b < limit(a) and i = a and j = b }
    index limit[n] { range 0 <= limit(a) <= m property increasing }
    value val[n, m] at [a, b]
}
layout columns_in_turn(n, m) {
    size nnz
    relation { [k, p] -> [i, j] : 0 <= k < 3 and ptr(k) <= p < ptr(k + 1) and i = row(p) and j = 3*col(p) + k }
    index ptr[4] { range 0 <= ptr(k) <= nnz property increasing }
    index row[nnz] { range 0 <= row(p) < n property increasing within ptr }
    index col[nnz] { range 0 <= 3*col(p) < m }
    value val[nnz] at [p]
}
layout runs_from_the_diagonal(n, m) {
    size nrun
    relation { [a, q, p] -> [i, j] : 0 <= a < n and ptr(a) <= q < ptr(a + 1)
        and a + from(q) <= p < a + from(q) + len(q) and i = a and j = p }
    index ptr[n + 1] { range 0 <= ptr(a) <= nrun property increasing }
    index from[nrun] { range -n < from(q) < m property strictly increasing within ptr }
    index len[nrun] { range 0 < len(q) <= m }
    value val[nrun] at [q]
}
layout list_of_runs(n, m) {
    size nr
    relation { [q, p] -> [i, j] : 0 <= q < nr and lo(q) <= p < hi(q) and i = row(q) and j = p }
    index row[nr] { range 0 <= row(q) < n }
    index lo[nr] { range 0 <= lo(q) < m }
    index hi[nr] { range 0 <= hi(q) <= m }
    value val[nr] at [q]
}
layout slices_with_widths(n, m; C = 2) {
    size nnz
    relation { [s, k, l] -> [i, j] : 0 <= C*s < n and 0 <= k < width(s) and 0 <= l < C
        and i = C*s + l and j = col(start(s) + C*k + l) and 0 <= j }
    index width[ceil(n/C)] { range 0 <= width(s) }
    index start[ceil(n/C)] { range 0 <= start(s) <= nnz  property forall s : start(s) + C*width(s) <= nnz }
    index col[nnz] { range -1 <= col(p) < m }
    value val[nnz] at [start(s) + C*k + l]
}
layout slices_with_offsets(n, m; C = 4) {
    size len
    relation { [s, k, l] -> [i, j] : 0 <= C*s < n and 0 <= l < C and 0 <= k and off(s) + C*k < off(s + 1)
        and i = C*s + l and j = col(off(s) + C*k + l) and 0 <= j }
    index off[ceil(n/C) + 1] {
        range 0 <= off(s) <= len
        property increasing  property off(0) = 0  property off(ceil(n/C)) = len
    }
    index col[len] { range -1 <= col(p) < m }
    value val[len] at [off(s) + C*k + l]
}
layout differences(n, m) {
    size nnz
    relation { [a, p] -> [i, j] : 0 <= a < n and ptr(a) <= p < ptr(a + 1) and i = a and j = base(a) + delta(p) }
    index ptr[n + 1] { range 0 <= ptr(a) <= nnz property increasing }
    index base[n] { range 0 <= base(a) <= m }
    index delta[nnz] { range 0 <= delta(p) < m property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout half_of_blocks(n, m) {
    size nb
    relation { [b, r, c] -> [i, j] : 0 <= b < nb and 0 <= r < 2 and 0 <= c < 2 and i = 2*up(b) + r
            and j = 2*left(b) + c ;
        [b, r, c] -> [i, j] : 0 <= b < nb and 0 <= r < 2 and 0 <= c < 2 and j = 2*up(b) + r and i = 2*left(b) + c
            and left(b) < up(b) }
    index up[nb] { range 0 <= 2*up(b) < n property increasing }
    index left[nb] {
        range 0 <= 2*left(b) < m
        property strictly increasing where up equal
        property forall b : left(b) <= up(b)
    }
    value val[nb, 2, 2] at [b, r, c]
}
layout jagged(n, m) { size nnz
    relation { [p, q] -> [i, j] : 0 <= p < n and 0 <= q < cnt(p) and i = p and j = col(start(p) + q) }
    index cnt[n] { range 0 <= cnt(p) <= m }
    index start[n] { range 0 <= start(p) <= nnz }
    index col[nnz] { range 0 <= col(p) < m }
    value a[nnz] at [start(p) + q] }
layout fibres(n, m) {
    size nf, nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(fibre(p)) and j = col(p) }
    index fibre[nnz] { range 0 <= fibre(p) < nf property increasing }
    index row[nf] { range 0 <= row(f) < n property strictly increasing }
    index col[nnz] { range 0 <= col(p) < m property strictly increasing where fibre equal }
    value val[nnz] at [p]
    }
"""

LIMITED = {"chains_of_two", "half_of_blocks"}
"""Layouts that do not hold everything: four entries of a row, symmetric matrices."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", names(OPEN))
def test_there_and_back(name: str) -> None:
    """Arrays of several shapes and densities, empty ones and full ones."""
    found = tried(layout(OPEN, name), 1)
    assert not found.wrong
    assert found.packed == found.count or name in LIMITED
    assert found.packed > found.count // 2


DENSE = np.array([[1, 2, 3, 4, 5, 6, 7], [0, 0, 0, 0, 0, 0, 0], [0, 9, 0, 0, 0, 0, 0], [8, 0, 0, 0, 0, 7, 7]])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("chunks", {"ptr": [0, 2, 2, 3, 4], "col": [[0, 1, 2, 3], [4, 5, 6, -1], [1, -1, -1, -1], [0, 5, 6, -1]]}),
        ("chunks_with_owners", {"owner": [0, 0, 2, 3]}),
        ("table_of_chunks", {"at": [[0, 1], [-1, -1], [2, -1], [3, -1]]}),
        ("bits_with_starts", {"bits": [[3, 3, 3, 1], [0] * 4, [2, 0, 0, 0], [1, 0, 2, 1]],
                              "start": [[0, 2, 4, 6], [7] * 4, [7, 8, 8, 8], [8, 9, 9, 10]]}),
        ("marks_with_ranks", {"start": [0, 7, 7, 8, 11], "rank": [[0, 1, 2, 3, 4, 5, 6], [0] * 7, [0] * 7,
                                                                  [0, 0, 0, 0, 0, 1, 2]]}),
        ("rows_by_their_place", {"inv": [0, 1, 2, 3]}),
        ("jagged", {"start": [0, 7, 7, 8], "cnt": [7, 0, 1, 3]}),
        ("slices_with_widths", {"start": [0, 14], "width": [7, 3]}),
        ("slices_with_offsets", {"off": [0, 28]}),
    ],
)  # fmt: skip
def test_arrays(name: str, expected: dict[str, object]) -> None:
    found = arrays(layout(OPEN, name), DENSE)
    assert {n: found[n] for n in expected} == expected


def test_rows_that_are_too_long_take_more_chunks_only_where_there_are_more() -> None:
    four = np.eye(7) + np.eye(7, k=1) + np.eye(7, k=2) + np.eye(7, k=3)
    assert arrays(layout(OPEN, "chunks_with_owners"), four)["owner"] == [*range(7)]
    arrays(layout(OPEN, "chains_of_two"), four)
    with pytest.raises(DataError, match="expected at most 2 entries for c = "):
        arrays(layout(OPEN, "chains_of_two"), DENSE)


def test_what_has_two_places_is_no_fault_of_packing() -> None:
    """An edge from a node to itself is stored at both ends; others have room."""
    edges = parse_tree("""layout edges(n, m) {
        size ne
        relation { [e, s] -> [i, j] : 0 <= e < ne and s = 0 and i = a(e) and j = b(e) ;
            [e, s] -> [i, j] : 0 <= e < ne and s = 1 and i = b(e) and j = a(e) }
        index a[ne] { range 0 <= a(e) < n }
        index b[ne] { range 0 <= b(e) < m }
        value val[ne] at [e]
    }""")
    found = tried(layout_of(edges.layouts["edges"], {}), 0)
    assert not found.wrong
    assert 0 < found.packed < found.count
    with pytest.raises(DataError, match=r"stores once, but it has two places for that at \(1, 1\)"):
        arrays(layout_of(edges.layouts["edges"], {}), np.diag([0, 5]))


def test_chunks_of_two_keys() -> None:
    """The keys count together: two entries of a chunk may have one of them in common."""
    text = """layout slabs(n, m, o) {
        size nc
        relation { [c, s] -> [i, j, k] : 0 <= c < nc and 0 <= s < 4 and i = owner(c)
            and j = middle(c, s) and k = last(c, s) and 0 <= j }
        index owner[nc] { range 0 <= owner(c) < n  property increasing }
        index middle[nc, 4] { range -1 <= middle(c, s) < m }
        index last[nc, 4] { range 0 <= last(c, s) < o }
        value val[nc, 4] at [c, s]
    }"""
    dense = np.arange(1, 13).reshape(2, 2, 3)
    found = arrays(layout(text, "slabs"), dense)
    assert found["middle"] == [[0, 0, 0, 1], [1, 1, -1, -1], [0, 0, 0, 1], [1, 1, -1, -1]]


def test_in_c() -> None:
    """Positions that follow from a rank are none of the digits of a key."""
    found = layout(OPEN, "groups_of_four")
    assert key_plan(found, key_orders(found)).after
    dense = np.random.default_rng(0).integers(0, 3, (9, 14)).astype(float)
    coords = np.nonzero(dense)
    fast = pack_entries(found, dense.shape, coords, dense[coords], small=0)
    slow = pack(found, dense.shape, coords, dense[coords])
    assert all(np.array_equal(fast.arrays[n], a) for n, a in slow.arrays.items())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["chunks", "bits_with_starts", "rows_by_their_place"])
def test_products_into_them(name: str) -> None:
    own = spfgen.parse(OPEN).layouts[name]
    left, right = DENSE[:, :4].astype(float), DENSE[:, 2:6].astype(float)
    made = spfgen.evaluate("C[i, j] = A[i, k]*B[k, j]", A=spfgen.pack(left, own), B=spfgen.pack(right, "csr"), out=own)
    assert made.layout.name == name
    assert np.array_equal(made.to_numpy(), left @ right)

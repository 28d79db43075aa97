"""Layouts of which packing finds the order of positions, and what fills places without entries, by what is declared."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError, Unsupported
from spfgen.layout.keys import NoKey, key_plan
from spfgen.layout.pack import key_orders, pack
from spfgen.run.examining.examine_packing import tried
from spfgen.run.pack import pack_entries
from tests.unit.layout.test_pack_determined import arrays, layout, names

OPEN = """
layout skygap(nrow, ncol) {
    size room
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and first(pi) <= p <= pi and i = pi and j = p }
    index begin[nrow] { range 0 <= begin(r) <= room  property forall p, q : p < q => begin(p) + p + 1 - first(p) <=
        begin(q)
        property forall p : begin(p) + p + 1 - first(p) <= room }
    index first[nrow] { range 0 <= first(r) <= nrow  property forall p : first(p) <= p + 1 }
    value val[room] at [begin(pi) + p - first(pi)]
}
layout interval(nrow, ncol) {
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and left(pi) <= p < right(pi) and i = pi and j = p }
    index left[nrow] { range 0 <= left(q) <= ncol }
    index right[nrow] { range 0 <= right(q) <= ncol  property forall a : left(a) <= right(a) }
    value val[nrow] at [pi]
}
layout runs_of_rows(nrow, ncol) {
    size nrun, nnz
    relation { [q, r, p] -> [i, j] : 0 <= q < nrun and start(q) <= r < start(q + 1) and ptr(q) <= p < ptr(q + 1)
        and i = r and j = idx(p) }
    index start[nrun + 1] { range 0 <= start(q) <= nrow  property strictly increasing  property start(0) = 0
        property start(nrun) = nrow }
    index ptr[nrun + 1] { range 0 <= ptr(q) <= nnz  property increasing  property ptr(0) = 0  property ptr(nrun) =
        nnz }
    index idx[nnz] { range 0 <= idx(p) < ncol  property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout antiorder(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index row[nnz] { range 0 <= row(p) < nrow  property forall p, q : p < q and row(p) + col(p) = row(q) + col(q)
        => row(p) < row(q) }
    index col[nnz] { range 0 <= col(p) < ncol  property forall p, q : p < q => row(p) + col(p) <= row(q) + col(q) }
    value val[nnz] at [p]
}
layout tiles(nrow, ncol) {
    size nnz, ntile
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and ptr(pi) <= p < ptr(pi + 1) and i = pi and j = col(floor(p/6),
        p mod 3, floor(p/3) mod 2) }
    index ptr[nrow + 1] { range 0 <= ptr(r) <= nnz  property increasing  property ptr(0) = 0  property ptr(nrow) =
        nnz  property forall r : ptr(r) <= 6*ntile }
    index col[ntile, 3, 2] { range 0 <= col(t, s, o) < ncol }
    value val[ntile, 3, 2] at [floor(p/6), p mod 3, floor(p/3) mod 2]
}
layout plusminus(nrow, ncol) {
    relation { [c] -> [i, j] : 0 <= c < ncol and j = c and i = head(c) and 0 <= head(c) ;
               [c] -> [i, j] : 0 <= c < ncol and j = c and i = tail(c) and 0 <= tail(c) as -val }
    index head[ncol] { range -1 <= head(c) < nrow }
    index tail[ncol] { range -1 <= tail(c) < nrow  property forall c : head(c) >= 0 or tail(c) >= 0 => not head(c)
        = tail(c) }
    value val[ncol] at [c]
}
layout jad_inverse(nrow, ncol) {
    size ndiag, nnz
    relation { [q, d] -> [i, j] : 0 <= q < nrow and 0 <= d < ndiag and 0 <= i < nrow and place(i) = q and d <
        len(q) and j = col(start(d) + q) }
    index place[nrow] { range 0 <= place(i) < nrow  property injective }
    index len[nrow] { range 0 <= len(q) <= ndiag  property decreasing }
    index start[ndiag] { range 0 <= start(d) <= nnz  property increasing }
    index col[nnz] { range 0 <= col(p) < ncol }
    value val[nnz] at [start(d) + q]
}
layout one_interval(n) {
    relation { [p] -> [i] : left(0) <= p < right(0) and i = p }
    index left[1] { range 0 <= left(q) <= n }
    index right[1] { range 0 <= right(q) <= n  property forall a : left(a) <= right(a) }
    value val[1] at [0]
}
layout one_window(n) {
    size lo, hi
    relation { [p] -> [i] : lo <= p < hi and p < n and i = p }
    value val[hi] at [p]
}
layout widths(nrow, ncol) {
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and left(pi) <= p < left(pi) + width(pi) and i = pi and j = p }
    index left[nrow] { range 0 <= left(q) <= ncol }
    index width[nrow] { range 0 <= width(q) <= ncol  property forall a : left(a) + width(a) <= ncol }
    value val[nrow] at [pi]
}
layout inclusive(nrow, ncol) {
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and first(pi) <= p <= last(pi) and i = pi and j = p }
    index first[nrow] { range 0 <= first(q) <= ncol }
    index last[nrow] { range -1 <= last(q) < ncol  property forall a : first(a) <= last(a) + 1 }
    value val[nrow, ncol] at [pi, p]
}
layout staircase(nrow, ncol) {
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and 0 <= p < stop(pi) and i = pi and j = p }
    index stop[nrow] { range 0 <= stop(q) <= ncol  property increasing }
    value val[nrow, ncol] at [pi, p]
}
layout falling_staircase(nrow, ncol) {
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and begin(pi) <= p < ncol and i = pi and j = p }
    index begin[nrow] { range 0 <= begin(q) <= ncol  property decreasing }
    value val[nrow, ncol] at [pi, p]
}
layout disjoint_intervals(nrow, ncol) {
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and left(pi) <= p < right(pi) and i = pi and j = p }
    index left[nrow] { range 0 <= left(q) <= ncol  property forall a, b : a < b => right(a) <= left(b) }
    index right[nrow] { range 0 <= right(q) <= ncol  property forall a : left(a) <= right(a) }
    value val[ncol] at [p]
}
layout classes(nrow, ncol) {
    size nq, nnz
    relation { [q, p] -> [i, j] : 0 <= q < nq and ptr(q) <= p < ptr(q + 1) and 0 <= i < nrow and cls(i) = q and j =
        idx(p) }
    index cls[nrow] { range 0 <= cls(r) < nq }
    index ptr[nq + 1] { range 0 <= ptr(q) <= nnz  property increasing  property ptr(0) = 0  property ptr(nq) = nnz }
    index idx[nnz] { range 0 <= idx(p) < ncol  property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout runs_of_columns(nrow, ncol) {
    size nrun, nnz
    relation { [q, c, p] -> [i, j] : 0 <= q < nrun and start(q) <= c < start(q + 1) and ptr(q) <= p < ptr(q + 1)
        and j = c and i = idx(p) }
    index start[nrun + 1] { range 0 <= start(q) <= ncol  property strictly increasing  property start(0) = 0
        property start(nrun) = ncol }
    index ptr[nrun + 1] { range 0 <= ptr(q) <= nnz  property increasing  property ptr(0) = 0  property ptr(nrun) =
        nnz }
    index idx[nnz] { range 0 <= idx(p) < nrow  property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout dense_runs(nrow, ncol) {
    size nrun
    relation { [q, r, c] -> [i, j] : 0 <= q < nrun and start(q) <= r < start(q + 1) and 0 <= c < ncol and i = r and
        j = c }
    index start[nrun + 1] { range 0 <= start(q) <= nrow  property strictly increasing  property start(0) = 0
        property start(nrun) = nrow }
    value val[nrun, ncol] at [q, c]
}
layout runs_with_ends(nrow, ncol) {
    size nrun, nnz
    relation { [q, r, p] -> [i, j] : 0 <= q < nrun and from(q) <= r < to(q) and ptr(q) <= p < ptr(q + 1) and i = r
        and j = idx(p) }
    index from[nrun] { range 0 <= from(q) <= nrow  property strictly increasing }
    index to[nrun] { range 0 <= to(q) <= nrow  property forall a, b : a < b => to(a) <= from(b)  property forall a
        : from(a) < to(a) }
    index ptr[nrun + 1] { range 0 <= ptr(q) <= nnz  property increasing  property ptr(0) = 0  property ptr(nrun) =
        nnz }
    index idx[nnz] { range 0 <= idx(p) < ncol  property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout diagonal_order(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index row[nnz] { range 0 <= row(p) < nrow  property forall p, q : p < q and col(p) - row(p) = col(q) - row(q)
        => row(p) < row(q) }
    index col[nnz] { range 0 <= col(p) < ncol  property forall p, q : p < q => col(p) - row(p) <= col(q) - row(q) }
    value val[nnz] at [p]
}
layout falling_sums(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index row[nnz] { range 0 <= row(p) < nrow  property forall p, q : p < q => row(p) + 2*col(p) >= row(q) +
        2*col(q) }
    index col[nnz] { range 0 <= col(p) < ncol }
    value val[nnz] at [p]
}
layout block_order(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index row[nnz] { range 0 <= row(p) < nrow  property forall p, q : p < q => floor(row(p)/4) <= floor(row(q)/4) }
    index col[nnz] { range 0 <= col(p) < ncol  property forall p, q : p < q and floor(row(p)/4) = floor(row(q)/4)
        => floor(col(p)/4) <= floor(col(q)/4) }
    value val[nnz] at [p]
}
layout sums3(n, m, k) {
    size nnz
    relation { [p] -> [a, b, c] : 0 <= p < nnz and a = ia(p) and b = ib(p) and c = ic(p) }
    index ia[nnz] { range 0 <= ia(p) < n  property forall p, q : p < q => ia(p) + ib(p) + ic(p) <= ia(q) + ib(q) +
        ic(q) }
    index ib[nnz] { range 0 <= ib(p) < m }
    index ic[nnz] { range 0 <= ic(p) < k }
    value val[nnz] at [p]
}
layout sums_in_rows(n, m, k) {
    size nnz
    relation { [r, p] -> [a, b, c] : 0 <= r < n and ptr(r) <= p < ptr(r + 1) and a = r and b = ib(p) and c = ic(p) }
    index ptr[n + 1] { range 0 <= ptr(q) <= nnz  property increasing  property ptr(0) = 0  property ptr(n) = nnz }
    index ib[nnz] { range 0 <= ib(p) < m }
    index ic[nnz] { range 0 <= ic(p) < k property forall r, p, q : ptr(r) <= p < q < ptr(r + 1) => ib(p) + ic(p) <=
        ib(q) + ic(q) }
    value val[nnz] at [p]
}
layout jad_forward(nrow, ncol) {
    size ndiag, nnz
    relation { [q, d] -> [i, j] : 0 <= q < nrow and 0 <= d < ndiag and i = perm(q) and d < len(q) and j =
        col(start(d) + q) }
    index perm[nrow] { range 0 <= perm(i) < nrow  property injective }
    index len[nrow] { range 0 <= len(q) <= ndiag  property decreasing }
    index start[ndiag] { range 0 <= start(d) <= nnz  property increasing }
    index col[nnz] { range 0 <= col(p) < ncol }
    value val[nnz] at [start(d) + q]
}
layout sorted_csr(nrow, ncol) {
    size nnz
    relation { [q, p] -> [i, j] : 0 <= q < nrow and ptr(q) <= p < ptr(q + 1) and i = perm(q) and j = col(p) }
    index perm[nrow] { range 0 <= perm(q) < nrow  property injective }
    index ptr[nrow + 1] { range 0 <= ptr(q) <= nnz  property increasing  property ptr(0) = 0  property ptr(nrow) =
        nnz
        property forall q : ptr(q + 1) - ptr(q) >= ptr(q + 2) - ptr(q + 1) }
    index col[nnz] { range 0 <= col(p) < ncol  property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout short_rows_first(nrow, ncol) {
    size w
    relation { [q, d] -> [i, j] : 0 <= q < nrow and 0 <= d < w and i = perm(q) and d < len(q) and j = col(q, d) }
    index perm[nrow] { range 0 <= perm(q) < nrow  property injective }
    index len[nrow] { range 0 <= len(q) <= w  property increasing }
    index col[nrow, w] { range 0 <= col(q, d) < ncol }
    value val[nrow, w] at [q, d]
}
layout by_first(nrow, ncol) {
    size nr
    relation { [q, p] -> [i, j] : 0 <= q < nr and lead(q) <= p < ncol and i = perm(q) and j = p }
    index perm[nr] { range 0 <= perm(q) < nrow  property injective }
    index lead[nr] { range 0 <= lead(q) < ncol  property increasing }
    value val[nr, ncol] at [q, p]
}
layout by_last(nrow, ncol) {
    relation { [q, p] -> [i, j] : 0 <= q < nrow and 0 <= p < stop(q) and q = place(i) and j = p }
    index place[nrow] { range 0 <= place(q) < nrow  property injective }
    index stop[nrow] { range 0 <= stop(q) <= ncol  property decreasing }
    value val[nrow, ncol] at [q, p]
}
layout plus_minus_rows(nrow, ncol) {
    relation { [r] -> [i, j] : 0 <= r < nrow and i = r and j = plus(r) and 0 <= plus(r) ;
               [r] -> [i, j] : 0 <= r < nrow and i = r and j = minus(r) and 0 <= minus(r) as -val }
    index plus[nrow] { range -1 <= plus(c) < ncol }
    index minus[nrow] { range -1 <= minus(c) < ncol  property forall c : plus(c) >= 0 => not plus(c) = minus(c) }
    value val[nrow] at [r]
}
layout edges(nrow, ncol) {
    relation { [e] -> [i, j] : 0 <= e < ncol and j = e and i = from(e) ;
               [e] -> [i, j] : 0 <= e < ncol and j = e and i = to(e) as -val }
    index from[ncol] { range 0 <= from(c) < nrow }
    index to[ncol] { range 0 <= to(c) < nrow  property forall c : from(c) < to(c) }
    value val[ncol] at [e]
}
layout two_heads(nrow, ncol) {
    relation { [c] -> [i, j] : 0 <= c < ncol and j = c and i = one(c) and 0 <= one(c)
            or 0 <= c < ncol and j = c and i = two(c) and 0 <= two(c) }
    index one[ncol] { range -1 <= one(c) < nrow }
    index two[ncol] { range -1 <= two(c) < nrow  property forall c : one(c) >= 0 or two(c) >= 0 => not one(c) =
        two(c) }
    value val[ncol] at [c]
}
layout tiles2(nrow, ncol) {
    size nnz, ntile
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and ptr(pi) <= p < ptr(pi + 1) and i = pi and j = col(floor(p/4),
        p mod 4) }
    index ptr[nrow + 1] { range 0 <= ptr(r) <= nnz  property increasing  property ptr(0) = 0  property ptr(nrow) =
        nnz  property forall r : ptr(r) <= 4*ntile }
    index col[ntile, 4] { range 0 <= col(t, s) < ncol }
    value val[ntile, 4] at [floor(p/4), p mod 4]
}
layout tiles_coo(nrow, ncol) {
    size nnz, ntile
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p mod 4, floor(p/4)) and j = col(floor(p/4), p mod 4) }
    index row[4, ntile] { range 0 <= row(s, t) < nrow }
    index col[ntile, 4] { range 0 <= col(t, s) < ncol }
    value val[ntile, 4] at [floor(p/4), p mod 4]
}
layout tile_rows_padded(nrow, ncol) {
    size ntile, nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(floor(p/2), p mod 2) }
    index row[nnz] { range 0 <= row(s) < nrow  property increasing }
    index col[ntile, 2] { range 0 <= col(t, s) < ncol }
    value val[nnz] at [p]
}
layout profile_widths(nrow, ncol) {
    size room
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and left(pi) <= p < left(pi) + width(pi) and i = pi and j = p }
    index left[nrow] { range 0 <= left(q) <= ncol }
    index width[nrow] { range 0 <= width(q) <= ncol }
    index begin[nrow] { range 0 <= begin(q) <= room  property forall p, q : p < q => begin(p) + width(p) <= begin(q)
         property forall p : begin(p) + width(p) <= room }
    value val[room] at [begin(pi) + p - left(pi)]
}
layout sell_widths(nrow, ncol) {
    size len, nc
    relation { [c, k, r] -> [i, j] : 0 <= c < nc and 0 <= k < width(c) and 0 <= r < 8 and i = 8*c + r and j =
        col(off(c) + 8*k + r) and 0 <= j }
    index width[nc] { range 0 <= width(c) <= ncol }
    index off[nc + 1] { range 0 <= off(c) <= len  property off(0) = 0  property off(nc) = len  property forall c :
        off(c + 1) = off(c) + 8*width(c) }
    index col[len] { range -1 <= col(p) < ncol }
    value val[len] at [off(c) + 8*k + r]
}
layout base_and_offset(nrow, ncol) {
    size nnz
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and ptr(pi) <= p < ptr(pi + 1) and i = pi and j = base(pi) +
        off(p) }
    index base[nrow] { range 0 <= base(r) <= ncol }
    index ptr[nrow + 1] { range 0 <= ptr(r) <= nnz  property increasing  property ptr(0) = 0  property ptr(nrow) =
        nnz }
    index off[nnz] { range 0 <= off(p) < ncol  property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout upper_skyline(nrow, ncol) {
    size room
    relation { [pj, p] -> [i, j] : 0 <= pj < ncol and top(pj) <= p <= pj and p < nrow and j = pj and i = p }
    index top[ncol] { range 0 <= top(r) <= ncol  property forall p : top(p) <= p + 1 }
    index begin[ncol + 1] { range 0 <= begin(r) <= room  property begin(0) = 0  property forall p : begin(p) + p +
        1 - top(p) <= begin(p + 1) }
    value val[room] at [begin(pj) + p - top(pj)]
}
layout interval_lengths(nrow, ncol) {
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and 0 <= p < len(pi) and i = pi and j = left(pi) + p }
    index left[nrow] { range 0 <= left(q) <= ncol }
    index len[nrow] { range 0 <= len(q) <= ncol  property forall a : left(a) + len(a) <= ncol }
    value val[nrow] at [pi]
}
layout interval_strict(nrow, ncol) {
    size nr
    relation { [q, p] -> [i, j] : 0 <= q < nr and i = row(q) and left(q) <= p < right(q) and j = p }
    index row[nr] { range 0 <= row(q) < nrow property strictly increasing }
    index left[nr] { range 0 <= left(q) <= ncol }
    index right[nr] { range 0 <= right(q) <= ncol  property forall a : left(a) < right(a) }
    value val[nr] at [q]
}
layout equal_rows(nrow, ncol) {
    size nu, nnz
    relation { [r, p] -> [i, j] : 0 <= r < nrow and ptr(which(r)) <= p < ptr(which(r) + 1) and i = r and j = col(p)
        }
    index which[nrow] { range 0 <= which(r) < nu }
    index ptr[nu + 1] { range 0 <= ptr(q) <= nnz  property increasing  property ptr(0) = 0  property ptr(nu) = nnz }
    index col[nnz] { range 0 <= col(p) < ncol  property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout runs_counts(nrow, ncol) {
    size nrun, nnz
    relation { [q, r, p] -> [i, j] : 0 <= q < nrun and first(q) <= r < first(q) + many(q) and ptr(q) <= p < ptr(q +
        1) and i = r and j = idx(p) }
    index first[nrun] { range 0 <= first(q) <= nrow  property strictly increasing }
    index many[nrun] { range 1 <= many(q) <= nrow property forall q : first(q) + many(q) <= first(q + 1) }
    index ptr[nrun + 1] { range 0 <= ptr(q) <= nnz  property increasing  property ptr(0) = 0  property ptr(nrun) =
        nnz }
    index idx[nnz] { range 0 <= idx(p) < ncol  property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout run_patterns(nrow, ncol) {
    size nrun, nnz, len
    relation { [q, r, p] -> [i, j] : 0 <= q < nrun and start(q) <= r < start(q + 1) and ptr(q) <= p < ptr(q + 1)
        and i = r and j = idx(p) }
    index start[nrun + 1] { range 0 <= start(q) <= nrow  property strictly increasing  property start(0) = 0
        property start(nrun) = nrow }
    index ptr[nrun + 1] { range 0 <= ptr(q) <= nnz  property increasing  property ptr(0) = 0  property ptr(nrun) =
        nnz }
    index idx[nnz] { range 0 <= idx(p) < ncol  property strictly increasing within ptr }
    index at[nrun] { range 0 <= at(q) <= len }
    value val[len] at [at(q) + (r - start(q))*(ptr(q + 1) - ptr(q)) + p - ptr(q)]
}
layout offset_coo(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = row(p) + off(p) }
    index row[nnz] { range 0 <= row(p) < nrow  property forall p, q : p < q and off(p) = off(q) => row(p) < row(q) }
    index off[nnz] { range -nrow < off(p) < ncol  property increasing }
    value val[nnz] at [p]
}
layout skewed(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = s(p) - col(p) and j = col(p) }
    index s[nnz] { range 0 <= s(p) < nrow + ncol  property increasing }
    index col[nnz] { range 0 <= col(p) < ncol  property forall p, q : p < q and s(p) = s(q) => col(p) < col(q) }
    value val[nnz] at [p]
}
layout ell_sorted_rows(nrow, ncol) {
    size w
    relation { [q, d] -> [i, j] : 0 <= q < nrow and 0 <= d < w and i = perm(q) and j = col(q, d) and 0 <= j }
    index perm[nrow] { range 0 <= perm(q) < nrow  property injective }
    index col[nrow, w] { range -1 <= col(q, d) < ncol  property forall q, r, d : q < r and col(r, d) >= 0 => col(q,
        d) >= 0 }
    value val[nrow, w] at [q, d]
}
layout diag_lengths(nrow, ncol) {
    size nd
    relation { [d, p] -> [i, j] : 0 <= d < nd and first(d) <= p <= last(d) and i = p and j = p + off(d) }
    index off[nd] { range -nrow < off(d) < ncol  property strictly increasing }
    index first[nd] { range 0 <= first(d) < nrow }
    index last[nd] { range 0 <= last(d) < nrow property forall d : first(d) <= last(d) }
    value val[nd, nrow] at [d, p]
}
layout three_uses(nrow, ncol) {
    relation { [e] -> [i, j] : 0 <= e < ncol and j = e and i = a(e) and 0 <= a(e)
            or 0 <= e < ncol and j = e and i = b(e) and 0 <= b(e)
            or 0 <= e < ncol and j = e and i = c(e) and 0 <= c(e) }
    index a[ncol] { range -1 <= a(e) < nrow }
    index b[ncol] { range -1 <= b(e) < nrow property forall e : a(e) >= 0 or b(e) >= 0 => not a(e) = b(e) }
    index c[ncol] { range -1 <= c(e) < nrow property forall e : a(e) >= 0 or c(e) >= 0 => not a(e) = c(e) property
        forall e : b(e) >= 0 or c(e) >= 0 => not b(e) = c(e) }
    value val[ncol] at [e]
}
layout tile_csr(nrow, ncol) {
    size nnz, nt
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and beg(pi) <= p < fin(pi) and i = pi and j = col(floor(p/3), p
        mod 3) }
    index beg[nrow] { range 0 <= beg(r) <= nnz }
    index fin[nrow] { range 0 <= fin(r) <= nnz property forall r : beg(r) <= fin(r) property forall r, s : r < s =>
        fin(r) <= beg(s)}
    index col[nt, 3] { range 0 <= col(t, s) < ncol }
    value val[nt, 3] at [floor(p/3), p mod 3]
}
layout envelope(nrow, ncol) {
    size room
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and lo(pi) <= p <= pi and p < ncol and i = pi and j = p }
    index lo[nrow] { range 0 <= lo(r) <= nrow  property forall p : lo(p) <= p + 1 property increasing }
    index ptr[nrow + 1] { range 0 <= ptr(r) <= room  property ptr(0) = 0 property ptr(nrow) = room property forall
        p : ptr(p + 1) = ptr(p) + p + 1 - lo(p) }
    value val[room] at [ptr(pi) + p - lo(pi)]
}
layout width_blocks(nrow, ncol) {
    size len
    relation { [c, k, r] -> [i, j] : 0 <= 4*c < nrow and 0 <= k < width(c) and 0 <= r < 4 and i = 4*c + r and j =
        col(off(c) + 4*k + r) and 0 <= j }
    index width[ceil(nrow/4)] { range 0 <= width(c) <= ncol }
    index off[ceil(nrow/4) + 1] { range 0 <= off(c) <= len  property off(0) = 0  property forall c : off(c + 1) =
        off(c) + 4*width(c) }
    index col[len] { range -1 <= col(p) < ncol }
    value val[len] at [off(c) + 4*k + r]
}
layout counters(nrow, ncol) {
    size nnz
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and ptr(pi) <= p < ptr(pi + 1) and i = pi and j = col(p) }
    index ptr[nrow + 1] { range 0 <= ptr(r) <= nnz  property increasing  property ptr(0) = 0  property ptr(nrow) =
        nnz }
    index many[nrow] { range 0 <= many(r) <= ncol  property forall r : many(r) = ptr(r + 1) - ptr(r) }
    index col[nnz] { range 0 <= col(p) < ncol  property strictly increasing within ptr }
    value val[nnz] at [p]
}
layout hilo(nrow, ncol) {
    size nnz
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and ptr(pi) <= p < ptr(pi + 1) and i = pi and j = 8*hi(p) + lo(p)
        }
    index ptr[nrow + 1] { range 0 <= ptr(r) <= nnz  property increasing  property ptr(0) = 0  property ptr(nrow) =
        nnz }
    index hi[nnz] { range 0 <= hi(p) <= ncol  property increasing within ptr }
    index lo[nnz] { range 0 <= lo(p) < 8 }
    value val[nnz] at [p]
}
"""
LIMITED = {"interval", "one_interval", "widths", "disjoint_intervals", "plusminus", "plus_minus_rows", "edges",
           "two_heads", "skygap", "upper_skyline", "interval_lengths", "interval_strict", "envelope",
           "three_uses"}  # fmt: skip
"""Layouts that do not hold every array."""

DENSE = np.array([[0, 4, 6, 0], [0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 2, 3]])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", names(OPEN))
def test_there_and_back(name: str) -> None:
    """Arrays of several shapes and densities, empty ones and full ones."""
    found = tried(layout(OPEN, name), 1)
    assert not found.wrong
    assert found.packed == found.count or name in LIMITED
    assert found.packed > 4


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("name", "dense", "expected"),
    [
        ("skygap", np.tril(DENSE), {"first": [1, 2, 0, 0, 2], "begin": [0, 0, 0, 3, 7]}),
        ("runs_of_rows", DENSE, {"start": [0, 1, 2, 4, 5], "ptr": [0, 2, 2, 3, 5], "val": [4, 6, 1, 2, 3]}),
        ("runs_of_columns", DENSE.T, {"start": [0, 1, 2, 4, 5], "ptr": [0, 2, 2, 3, 5], "val": [4, 6, 1, 2, 3]}),
        ("dense_runs", DENSE, {"start": [0, 1, 2, 4, 5]}),
        ("antiorder", DENSE, {"row": [0, 0, 2, 3, 4, 4], "col": [1, 2, 0, 0, 2, 3]}),
        ("jad_inverse", DENSE, {"place": [0, 4, 2, 3, 1], "len": [2, 2, 1, 1, 0], "start": [0, 4],
                                "val": [4, 2, 1, 1, 6, 3]}),
        ("sorted_csr", DENSE, {"perm": [0, 4, 2, 3, 1], "ptr": [0, 2, 4, 5, 6, 6]}),
        ("short_rows_first", DENSE, {"perm": [1, 2, 3, 0, 4], "len": [0, 1, 1, 2, 2]}),
        ("tiles", DENSE, {"ptr": [0, 2, 2, 3, 4, 6], "col": [[[1, 0], [2, 2], [0, 3]]]}),
        ("plusminus", [[5, 0], [0, 7], [-5, 0], [0, -7]], {"head": [0, 1], "tail": [2, 3], "val": [5, 7]}),
        ("sell_widths", DENSE, {"width": [2], "off": [0, 16]}),
        ("counters", DENSE, {"many": [2, 0, 1, 1, 2]}),
        ("equal_rows", DENSE, {"ptr": [0, 2, 2, 3, 4, 6]}),
        ("offset_coo", DENSE, {"off": [-3, -2, -2, -1, 1, 2], "row": [3, 2, 4, 4, 0, 0]}),
        ("staircase", DENSE[:3], {"stop": [3, 3, 3]}),
        ("falling_staircase", DENSE[:3], {"begin": [1, 1, 0]}),
        ("one_interval", [0, 5, 5, 0], {"left": [1], "right": [3], "val": [5]}),
    ],
)  # fmt: skip
def test_arrays(name: str, dense: object, expected: dict[str, object]) -> None:
    found = arrays(layout(OPEN, name), dense)
    assert {n: found[n] for n in expected} == expected


def test_no_place_is_taken_that_no_entry_needs() -> None:
    """Where a fill value is not 0, an entry may not stand at two places."""
    own = spfgen.parse(OPEN).layouts["jad_inverse"]
    for fill in (0, np.inf):
        made = spfgen.pack(np.where(DENSE, DENSE, fill), own, fill=fill)
        assert made.nse == np.count_nonzero(DENSE)
        assert np.array_equal(made.to_numpy(), np.where(DENSE, DENSE, fill))


def test_what_no_order_holds_is_refused() -> None:
    """Samples decided on the order: what breaks a property nevertheless is found in the arrays."""
    text = OPEN.replace("row(p) + col(p) <= row(q) + col(q)", "row(p) + col(p) < row(q) + col(q)")
    assert arrays(layout(text, "antiorder"), np.diag([4, 5, 6]))["val"] == [4, 5, 6]
    with pytest.raises(DataError, match=r"row\(q\) \+ col\(q\)`, but .*: packing finds no arrays for these entries"):
        arrays(layout(text, "antiorder"), [[0, 3], [4, 0]])


def test_says_what_it_tried() -> None:
    """A property that no order satisfies is named, with the first places that break it."""
    text = OPEN.replace("forall p, q : p < q => row(p) + col(p) <= row(q) + col(q)", "forall p : row(p)*row(p) = 2")
    with pytest.raises(Unsupported, match=r"none of the .* orders of the entries that packing tries satisfies") as info:
        pack(layout(text, "antiorder"), (3, 3), (np.arange(3), np.arange(3)), np.ones(3))
    assert "in ascending order: expected the array `col`" in str(info.value)


def test_what_few_samples_speak_for_is_packed_where_it_is_checked() -> None:
    """Not by C, which checks nothing."""
    text = OPEN.replace("row(p) + col(p) <= row(q) + col(q)", "row(p) + col(p) < row(q) + col(q)")
    found = layout(text, "antiorder")
    with pytest.raises(NoKey, match="was found by trying"):
        key_plan(found, key_orders(found))
    with pytest.raises(DataError, match="packing finds no arrays for these entries"):
        pack_entries(found, (9, 9), (np.array([0, 1]), np.array([1, 0])), np.ones(2), small=0)

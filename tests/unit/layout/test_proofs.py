"""Questions that are asked of a declaration alone."""

from __future__ import annotations

from spfgen.facts import answers, prove
from spfgen.lang.parse import parse_layout_use
from spfgen.lang.spec import parse_tree
from spfgen.layout.proofs import one_coordinate, places_inside
from spfgen.pipeline import layout_of

DIAGONAL_BLOCKS = """
layout diagonal_blocks(n, m) {
    size nb, len
    relation { [b, r, c] -> [i, j] :
        0 <= b < nb and cut(b) <= r < cut(b + 1) and cut(b) <= c < cut(b + 1) and i = r and j = c }
    index cut[nb + 1] {
        range 0 <= cut(b) <= n
        property strictly increasing
        property cut(0) = 0
        property cut(nb) = n
    }
    index off[nb + 1] {
        range 0 <= off(b) <= len
        property increasing
        property off(0) = 0
        property forall b : off(b + 1) = off(b) + (cut(b + 1) - cut(b))*(cut(b + 1) - cut(b))
    }
    value val[len] at [off(b) + (r - cut(b))*(cut(b + 1) - cut(b)) + c - cut(b)]
}
"""


def test_an_answer_does_not_depend_on_what_was_asked_before(monkeypatch) -> None:
    """Three questions are asked, and answered. In the context of Z3 that the first one had used, the second one took
    without end."""
    kept: list[str] = []
    monkeypatch.setattr(answers, "load", lambda key: None)
    monkeypatch.setattr(answers, "save", lambda key, verdict: kept.append(verdict.word))
    prove._verdict.cache_clear()
    declaration, settings = parse_tree(DIAGONAL_BLOCKS, "a.spf").resolve(parse_layout_use("diagonal_blocks"))
    layout = layout_of(declaration, settings)
    assert one_coordinate(layout, layout.values[0]).proved
    assert kept == ["sat", "sat", "unsat"]


INTERVALS = """
layout intervals(n) {
    size nq, nnz
    relation { [q, c] -> [i] : 0 <= q < nq and 0 <= c < len(q) and i = first(q) + c }
    index first[nq] { range 0 <= first(q) < n }
    index len[nq] {
        range 1 <= len(q) <= n
        property forall q : first(q) + len(q) <= n
        property forall p, q : p < q => first(p) + len(p) <= first(q)
    }
    index at[nq + 1] {
        range 0 <= at(q) <= nnz
        property at(0) = 0
        property increasing
        property forall q : at(q + 1) = at(q) + len(q)
    }
    value val[nnz] at [at(q) + c]
}
"""


def test_what_follows_from_a_fact_about_the_next_place() -> None:
    """`at(q + 1)` stands in a fact alone; that it is at most `at(q')` is a fact about that."""
    declaration, settings = parse_tree(INTERVALS, "a.spf").resolve(parse_layout_use("intervals"))
    layout = layout_of(declaration, settings)
    assert one_coordinate(layout, layout.values[0]).proved
    assert places_inside(layout, layout.values[0]).proved

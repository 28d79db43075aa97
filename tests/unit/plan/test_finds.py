"""Which algorithms may find: as many as the declared properties allow, each gone when what it needs is gone.

Every algorithm that is allowed is run, on data that the layout allows and that would break those that are not.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import spfgen
from spfgen.errors import SpecError
from spfgen.lang.types import FINDS
from spfgen.plan.finds import segment
from spfgen.plan.nodes import Find, Rejected, Segment
from tests.unit.plan.asking import (
    ALL,
    ALWAYS,
    SORTED,
    TABLES,
    allowed,
    entries,
    listed,
    matrix,
    of_kind,
    only,
    rows,
    run,
    stored,
    vector,
    why_not,
)

DOT = "s = x[i]*y[i]"
BACKWARDS = ALL - {"gallop"}
"""The keys rise and the array falls: sequential iteration runs from the end."""

PROPERTIES: dict[str, tuple[frozenset[str], tuple[bool, bool] | None, list[int]]] = {
    # declared -> what is allowed, (falling, unique) when it is sorted, positions that satisfy it and not much more
    "property strictly increasing": (ALL, (False, True), [1, 2, 5]),
    "property increasing": (ALL, (False, False), [1, 1, 2, 5, 5, 5]),
    "property strictly decreasing": (BACKWARDS, (True, True), [5, 2, 1]),
    "property decreasing": (BACKWARDS, (True, False), [5, 5, 2, 1, 1]),
    "property increasing property injective": (ALL, (False, True), [0, 3, 4]),
    "property decreasing property injective": (BACKWARDS, (True, True), [4, 3, 0]),
    "property injective": (ALL - SORTED, None, [5, 1, 2]),
    "": (ALL - SORTED, None, [5, 1, 5, 2]),
    # says the same as increasing, but only of neighbours: the prover makes no induction
    "property forall p : idx(p) <= idx(p + 1)": (ALL - SORTED, None, [1, 2, 2, 5]),
    "property forall p, q : p < q => idx(q) - idx(p) >= 2*(q - p)": (ALL, (False, True), [0, 2, 5]),
    # of every second position only
    "property forall p, q : p < q and p mod 2 = q mod 2 => idx(p) < idx(q)": (ALL - SORTED, None, [3, 1, 4, 2]),
    # sorted as long as it lasts
    "property forall p, q : p < q and q < 3 => idx(p) < idx(q)": (ALL - SORTED, None, [1, 3, 5, 0, 2]),
}
X = np.arange(1.0, 7.0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("properties", PROPERTIES)
def test_what_is_allowed_follows_the_properties(properties: str) -> None:
    expected, _, _ = PROPERTIES[properties]
    assert allowed(DOT, "y.p", ["i"], x="dense", y=vector(properties)) == expected


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("properties", "algorithm"), list(product(PROPERTIES, FINDS)))
def test_what_is_allowed_is_right(properties: str, algorithm: str) -> None:
    expected, order, positions = PROPERTIES[properties]
    layout = vector(properties)
    if algorithm not in expected:
        with pytest.raises(SpecError, match="proved correct"):
            spfgen.compile(DOT, order=["i"], finds={"y.p": algorithm}, x="dense", y=layout)
        return
    kernel = spfgen.compile(DOT, order=["i"], finds={"y.p": algorithm}, x="dense", y=layout)
    found = only(kernel, Find)
    if found.key is not None and order is not None:
        assert (found.key.descending, found.key.unique) == order
    val = np.arange(10.0, 10.0 + len(positions))
    wanted = sum(X[i] * v for i, v in zip(positions, val, strict=True))
    assert run(kernel, x=X, y=stored(layout, 6, positions, val)) == wanted
    assert run(kernel, x=X, y=stored(layout, 6, [], np.zeros(0))) == 0
    assert run(kernel, x=X[:0], y=stored(layout, 0, [], np.zeros(0))) == 0
    assert run(kernel, x=X, y=stored(layout, 6, positions[:1], val[:1])) == X[positions[0]] * val[0]


WRONG = {
    # what the plan takes for granted, and data of a weaker layout: algorithms that it misleads
    "property strictly increasing": ([5, 1, 5, 2], {"search", "sequential", "gallop", "hash", "array", "bitmap", "scatter"}),  # noqa: E501
    "property increasing": ([5, 1, 3, 0, 2, 4], {"search", "sequential", "gallop"}),
    "property strictly decreasing": ([1, 2, 2, 5], {"search", "sequential", "hash", "array", "bitmap", "scatter"}),
    "property decreasing": ([1, 1, 5, 0], {"search", "sequential"}),
    "property injective": ([5, 1, 5, 2], {"hash", "array", "bitmap", "scatter"}),
}  # fmt: skip


@pytest.mark.parametrize(("properties", "algorithm"), [(p, a) for p in WRONG for a in sorted(WRONG[p][1])])
@pytest.mark.sampled(12)
def test_the_data_would_break_a_wrong_choice(properties: str, algorithm: str) -> None:
    """The algorithms do need what is proved: on arrays that break it they are wrong, and only the loop is right."""
    positions, _ = WRONG[properties]
    layout = vector(properties)
    val = np.arange(10.0, 10.0 + len(positions))
    wanted = sum(X[i] * v for i, v in zip(positions, val, strict=True))
    lie = stored(layout, 6, positions, val, check=False)
    for name in (algorithm, "loop"):
        kernel = spfgen.compile(DOT, order=["i"], finds={"y.p": name}, validate="never", x="dense", y=layout)
        assert (run(kernel, x=X, y=lie) == wanted) == (name == "loop")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("properties", PROPERTIES)
def test_the_cheapest_is_right_too(properties: str) -> None:
    """Nothing is forced; then what is not allowed is not taken."""
    expected, _, positions = PROPERTIES[properties]
    layout = vector(properties)
    kernel = spfgen.compile(DOT, order=["i"], x="dense", y=layout)
    assert not set(why_not(DOT, "y.p", ["i"], x="dense", y=layout)) & expected
    val = np.arange(10.0, 10.0 + len(positions))
    wanted = sum(X[i] * v for i, v in zip(positions, val, strict=True))
    assert run(kernel, x=X, y=stored(layout, 6, positions, val)) == wanted


# --- segments of a pointer array ------------------------------------------------------------------------

PRODUCT = "C[i, j] = A[i, j]*B[i, j]"
WITHIN = {
    "property strictly increasing within ptr": ALL,
    "property increasing within ptr": ALL,
    "property strictly decreasing within ptr": ALL - {"gallop"},
    "property injective within ptr": ALL - SORTED,
    "property strictly increasing within other": ALL - SORTED,
    "property injective within other": ALL - SORTED,
    "": ALL - SORTED,
}
COLUMNS = {
    "property strictly increasing within ptr": [[1, 4], [], [0, 1, 6], [2]],
    "property increasing within ptr": [[1, 1, 4], [], [0, 6, 6, 6], [2]],
    "property strictly decreasing within ptr": [[4, 1], [], [6, 1, 0], [2]],
    "property injective within ptr": [[4, 1, 6], [], [1, 6, 0], [2]],
    "property strictly increasing within other": [[4, 1, 1], [], [6, 0, 1, 0], [2]],
    "property injective within other": [[4, 1, 1], [], [6, 0, 1, 0], [2]],
    "": [[4, 1, 1], [], [6, 0, 1, 0], [2]],
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("within", WITHIN)
def test_segments_must_be_those_that_are_searched(within: str) -> None:
    """Sorted within the segments of another array says nothing of these."""
    layout = rows(within)
    expected = WITHIN[within]
    assert allowed(PRODUCT, "B.pj", A="csr", B=layout, C="dense") == expected
    segments = COLUMNS[within]
    pointer = np.cumsum([0, *map(len, segments)])
    col = np.array([c for s in segments for c in s])
    val = np.arange(1.0, 1.0 + len(col))
    other = np.array([0, 0] if "other" in within else [0, 2], np.int32)  # segments so short that all is sorted there
    arrays = {"ptr": pointer.astype(np.int32), "other": other, "col": col.astype(np.int32), "val": val}
    tensor = spfgen.tensor(layout, shape=(4, 7), **arrays)
    b = np.zeros((4, 7))
    np.add.at(b, (np.repeat(np.arange(4), np.diff(pointer)), col), val)
    a = matrix((4, 7), 0.7)
    for algorithm in expected:
        kernel = spfgen.compile(PRODUCT, finds={"B.pj": algorithm}, A="csr", B=layout, C="dense")
        assert np.array_equal(run(kernel, 2, A=a, B=tensor), a * b), algorithm


# --- keys that are computed -----------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", sorted(ALL - {"scatter"}))
def test_blocks_are_found_by_the_quotient(algorithm: str) -> None:
    """bcsr: of the elements of a row several look for the same block; each key is j / 3."""
    kernel = spfgen.compile(PRODUCT, finds={"B.pb": algorithm}, A="csr", B="bcsr(R=2, C=3)", C="dense")
    if algorithm != "loop":
        found = only(kernel, Find)
        assert found.key is not None
        assert found.conditions == ()
    a, b = matrix((6, 9), 0.5), matrix((6, 9), 0.3, 1)
    assert np.array_equal(run(kernel, 2, A=a, B=b), a * b)


def test_a_block_has_more_than_one_value() -> None:
    assert allowed(PRODUCT, "B.pb", A="csr", B="bcsr(R=2, C=3)", C="dense") == ALL - {"scatter"}
    assert "read at B.pb" in why_not(PRODUCT, "B.pb", A="csr", B="bcsr(R=2, C=3)", C="dense")["scatter"]


# --- lists: the second key is sorted where the first is the same ------------------------------------------

FIRST = "property increasing"
SECOND = "property forall p < q : row(p) = row(q) => col(p) < col(q)"
LISTS = {
    # properties of row, col -> segments, allowed for the position; rows and columns
    (FIRST, SECOND): (1, ALL, [0, 0, 2, 2, 2], [1, 4, 0, 1, 3]),
    ("property decreasing", SECOND): (1, ALL, [2, 2, 2, 0, 0], [0, 1, 3, 1, 4]),
    (FIRST, SECOND.replace("<", "<=").replace("p <= q", "p < q")): (1, ALL, [0, 0, 2, 2, 2], [1, 1, 0, 3, 3]),
    (FIRST, SECOND.replace("< col", "> col")): (1, ALL - {"gallop"}, [0, 0, 2, 2, 2], [4, 1, 3, 1, 0]),
    # without the order of the columns only the row's positions are known
    (FIRST, ""): (1, ALL - SORTED, [0, 0, 2, 2, 2], [4, 1, 3, 0, 3]),
    # without the order of the rows there are no segments, and the columns are nowhere sorted
    ("", SECOND): (0, ALWAYS | {"array", "bitmap"}, [2, 0, 2, 0, 2], [0, 1, 1, 4, 3]),
    ("", ""): (0, ALWAYS | {"array", "bitmap"}, [2, 0, 2, 0, 2], [3, 4, 1, 1, 3]),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("properties", LISTS)
def test_the_second_key_is_sorted_because_the_list_is_sorted_by_the_first(properties: tuple[str, str]) -> None:
    segments, expected, row, col = LISTS[properties]
    layout = listed(*properties)
    kernel = spfgen.compile(PRODUCT, order=["i", "j"], A="dense", B=layout, C="dense")
    assert len({(s.start, s.end) for s in of_kind(kernel, Segment)}) == segments
    assert allowed(PRODUCT, "B.p", ["i", "j"], A="dense", B=layout, C="dense") == expected
    a = matrix((3, 5), 1)
    tensor, b = entries(layout, (3, 5), row, col)
    for algorithm in expected:
        kernel = spfgen.compile(PRODUCT, order=["i", "j"], finds={"B.p": algorithm}, A="dense", B=layout, C="dense")
        assert np.array_equal(run(kernel, 3, A=a, B=tensor), a * b), algorithm
        if not segments and algorithm != "loop":
            assert len(only(kernel, Find).conditions) == 1, "the row is found, the column must be compared"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("order", [["i", "j"], ["j", "i"]])
def test_segments_of_three_coordinates(order: list[str]) -> None:
    """coo of rank 3: the positions of a row, of a fibre in it, of an element in that."""
    text = "C[i, j] = A[i, j]*B[i, j, k]*x[k]"
    rng = np.random.default_rng(3)
    b = np.where(rng.random((4, 5, 6)) < 0.4, rng.integers(1, 9, (4, 5, 6)), 0).astype(float)
    a, x = matrix((4, 5), 0.8), np.arange(1.0, 7.0)
    layouts = {"A": "dense", "B": "coo", "x": "dense", "C": "dense"}
    for algorithm in allowed(text, "B.p", [*order, "k"], **layouts):
        kernel = spfgen.compile(text, order=[*order, "k"], finds={"B.p": algorithm}, **layouts)
        starts = {s.start for s in of_kind(kernel, Segment)}
        assert len(starts) == 2
        assert np.array_equal(run(kernel, 3, A=a, B=b, x=x), np.einsum("ij,ijk,k->ij", a, b, x)), algorithm


def test_without_a_proof_there_is_no_segment(monkeypatch) -> None:
    """As when the solver has no time: then the find looks at all positions for both keys."""
    none = Rejected("search", "no time")
    monkeypatch.setattr(segment.search, "propose", lambda query, key: [none])
    monkeypatch.setattr(segment.sequential, "propose", lambda query, key: [none])
    kernel = spfgen.compile("C[r, c] = A[r, c]*B[r, c]", order=["r", "c"], A="dense", B="coo", C="dense")
    assert not of_kind(kernel, Segment)
    a, b = matrix((4, 5), 0.8), matrix((4, 5), 0.4)
    assert np.array_equal(run(kernel, 3, A=a, B=b), a * b)


def test_nothing_needs_to_be_looked_for() -> None:
    """A position that is not looked for cannot be found by anything, and the error says so."""
    assert not of_kind(spfgen.compile("y[i] = A[i, j]*x[j]", A="csr", x="dense", y="dense"), Find)
    assert allowed("y[i] = A[i, j]*x[j]", "x.p", A="csr", x="sv", y="dense") >= TABLES

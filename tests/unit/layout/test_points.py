"""Points are compared with plain loops over a box in which the relation is evaluated as it stands."""

from itertools import product

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError
from spfgen.facts.formula import And, Compare, Not, Or, evaluate
from spfgen.lang.nodes import LayoutUse
from spfgen.lang.spec import SpecTree, builtin_names, parse_tree
from spfgen.layout import points
from spfgen.layout.nodes import SCALAR
from spfgen.layout.points import (
    Expand,
    combined,
    encode,
    enumerate_points,
    row_ranks,
    scan_of,
    sorted_order,
    to_coordinates,
)
from spfgen.pipeline import layout_of

OPERATORS = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}

OTHERS = """
layout halves(n, m) { size nnz
    relation { [p, q] -> [i, j] : 0 <= p < n and row(p) <= q < row(p + 1) and i = p and j = col(q) and j <= i ;
               [p, q] -> [i, j] : 0 <= p < n and row(p) <= q < row(p + 1) and j = p and i = col(q) and j < i }
    index row[n + 1] { range 0 <= row(p) <= nnz }
    index col[nnz] { range 0 <= col(p) < n }
    value val[nnz] at [q] }
layout strided(n) { size count
    relation { [p] -> [i] : 0 <= p < count and i = 3*place(p) + p mod 2 and floor(i/2) != 1 }
    index place[count] { range 0 <= place(p) < n }
    value val[count + 1] at [p + 1] }
layout nested(n) { size count, other
    relation { [p] -> [i] : 0 <= p < count and i = inner(outer(p)) and not (p = 1 or i = 2) }
    index outer[count] { range 0 <= outer(p) < other }
    index inner[other] { range 0 <= inner(p) < n }
    value even[count] at [p] when p mod 2 = 0
    value odd[count - 1] at [p - 1] when p mod 2 = 1 }
layout runs(n) { size count
    relation { [q, p] -> [i] : 0 <= q < count and start(q) <= p < start(q + 1) and i = p }
    index start[count + 1] { range 0 <= start(p) <= n }
    value val[count] at [q] }
"""


def all_layouts(tree: SpecTree, names):
    for name in names:
        declaration, settings = tree.resolve(LayoutUse(name))
        free = "rank" in dict(declaration.constants) and "rank" not in settings
        for rank in (1, 2, 3) if free else (None,):
            yield layout_of(declaration, {**settings, "rank": rank} if free else settings)


OWN = parse_tree(OTHERS)
LAYOUTS = [*all_layouts(OWN, [*builtin_names(), *OWN.layouts]), SCALAR]


def label(layout):
    return f"{layout.name}{layout.rank}"


class _OutsideError(Exception):
    pass


def _holds(formula, lookup, call):
    """Every part is evaluated, so that every call must be inside its array."""
    parts = [_holds(p, lookup, call) for p in formula.parts] if isinstance(formula, And | Or) else []
    match formula:
        case Compare(op, left, right):
            return OPERATORS[op](evaluate(left, lookup, call), evaluate(right, lookup, call))
        case And():
            return all(parts)
        case Or():
            return any(parts)
        case Not(part):
            return not _holds(part, lookup, call)
    raise AssertionError(formula)


def brute_force(layout, sizes, arrays, box):
    """{(positions and coordinates): places}, by trying everything in a box."""
    found = {}
    names = (*layout.positions, *layout.coordinates)
    shape = [sizes[n] for n in layout.parameters]
    for point in product(*([range(-1, box)] * len(layout.positions)), *map(range, shape)):
        known = {**sizes, **dict(zip(names, point, strict=True))}

        def call(function, arguments):
            array = arrays[function]
            if not all(0 <= a < e for a, e in zip(arguments, array.shape, strict=True)):
                raise _OutsideError
            return int(array[arguments])

        def place(value, lookup, call):
            if not _holds(value.when, lookup, call):
                return -1
            at = tuple(evaluate(p, lookup, call) for p in value.position)
            extents = tuple(max(0, evaluate(e, lookup, call)) for e in value.extents)
            inside = all(0 <= a < e for a, e in zip(at, extents, strict=True))
            return int(np.ravel_multi_index(at, extents)) if inside and at else -1 + inside

        try:
            if not _holds(layout.relation, known.__getitem__, call):
                continue
        except _OutsideError:
            continue
        places = tuple(place(v, known.__getitem__, call) for v in layout.values)
        if any(p >= 0 for p in places):
            found[point] = places
    return found


def random_arrays(layout, random):
    """Sizes and index arrays that need not satisfy anything."""
    least = int(random.random() < 0.7) + int(random.random() < 0.5)
    sizes = {n: int(random.integers(least, 5 if len(layout.positions) < 5 else 3)) for n in layout.parameters}
    sizes |= {n: int(random.integers(least, 5 if len(layout.positions) < 4 else 3)) for n in layout.sizes}
    top = max([2, *sizes.values()])
    arrays = {}
    for index in layout.indexes:
        shape = tuple(max(0, evaluate(e, sizes.__getitem__, None)) for e in index.extents)
        array = random.integers(-1 if random.random() < 0.3 else 0, top + 1, shape)
        if random.random() < 0.8:
            array.sort(axis=0)
        arrays[index.name] = array.astype(random.choice(["int32", "int64"]))
    return sizes, arrays


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_enumeration_is_what_plain_loops_find(layout):
    random = np.random.default_rng(17)
    seen = 0
    for trial in range(60):
        if seen and trial >= (12 if len(layout.positions) < 3 else 6 if len(layout.positions) < 4 else 1):
            break
        sizes, arrays = random_arrays(layout, random)
        points = enumerate_points(layout, sizes, arrays)
        names = (*layout.positions, *layout.coordinates)
        columns = [points.columns[n].tolist() for n in names]
        places = [points.places[v.name].tolist() for v in layout.values]
        rows = list(zip(*columns, strict=True)) if columns else [()] * points.count
        found = dict(zip(rows, zip(*places, strict=True), strict=True))
        assert len(found) == points.count
        small = [c for c in dict(layout.constants).values() if c <= 16]  # of larger ones the arrays hold a beginning
        assert found == brute_force(layout, sizes, arrays, max([2, *sizes.values(), *small]) + 2)
        seen += points.count
        assert all(c.dtype == np.int64 for c in points.columns.values())
    assert seen


def test_entries_come_with_their_values():
    (layout,) = all_layouts(OWN, ["csr"])
    sizes = {"nrow": 3, "ncol": 3, "nnz": 3}
    arrays = {"rowptr": np.array([0, 2, 2, 3]), "colidx": np.array([0, 2, 1])}
    coords, values = to_coordinates(layout, sizes, arrays, {"val": np.array([5.0, 6.0, 7.0])})
    assert [c.tolist() for c in coords] == [[0, 0, 2], [0, 2, 1]]
    assert values.tolist() == [5, 6, 7]


def test_entries_stored_twice_come_twice():
    (layout,) = all_layouts(OWN, ["sv"])
    coords, values = to_coordinates(
        layout, {"n": 4, "nnz": 2}, {"idx": np.array([1, 1])}, {"val": np.array([2, 3], dtype=np.int8)}
    )
    assert coords[0].tolist() == [1, 1]
    assert values.tolist() == [2, 3]
    assert values.dtype == np.int8


def test_missing_array_and_size():
    (layout,) = all_layouts(OWN, ["sv"])
    with pytest.raises(DataError, match="expected the array `idx` of layout `sv`"):
        enumerate_points(layout, {"n": 4, "nnz": 2}, {})
    with pytest.raises(DataError, match="expected the size `nnz`"):
        enumerate_points(layout, {"n": 4}, {"idx": np.array([0])})


def test_encoding_is_kept():
    assert encode(LAYOUTS[0]) is encode(LAYOUTS[0])


def test_ranks_of_rows():
    random = np.random.default_rng(3)
    for factor in (1, 2**40):
        columns = [random.integers(-3, 3, 50) * factor for _ in range(2)]
        assert (combined(columns) is None) == (factor > 1)
        order = sorted_order(columns, 50)
        rows = list(zip(*(c.tolist() for c in columns), strict=True))
        distinct = sorted(set(rows))
        ranks, first = row_ranks(columns, 50)
        assert ranks.tolist() == [distinct.index(r) for r in rows]
        assert [rows[k] for k in first] == distinct
        assert [rows[k] for k in order] == sorted(rows)
    assert sorted_order([np.arange(4)], 4) is None


def test_a_key_is_read_at_its_position():
    """Blocks of varying size: not all columns of blocks are tried for each block that is there."""
    (layout,) = [x for x in LAYOUTS if x.name == "vbr"]
    (steps,) = scan_of(layout)
    assert [s.name for s in steps if isinstance(s, Expand)] == ["b", "pb", "r", "c"]


def test_points_that_would_fill_the_memory_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a place in several arrays: the system would end the process without a word."""
    monkeypatch.setattr(points, "INSTALLED", 4_000)
    dense = np.zeros((3, 1_000))
    dense[:, [0, -1]] = 1
    with pytest.raises(DataError, match=r"expected arrays that fit in memory, but there are 3e\+03 values of `p`"):
        spfgen.pack(dense, "interval_pattern")
    with pytest.raises(DataError, match="stores together with others"):
        spfgen.pack(dense[:, ::333], "interval_pattern")

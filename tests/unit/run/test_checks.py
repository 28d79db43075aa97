"""The checks in C find what numpy finds, at the same place; and both find what trying all instances finds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from spfgen import tuning
from spfgen.errors import DataError
from spfgen.lang.nodes import LayoutUse
from spfgen.lang.spec import builtin_names, parse_tree
from spfgen.layout import validate as plain
from spfgen.layout.nodes import Layout, Property
from spfgen.pipeline import layout_of
from spfgen.run import compile, validate  # noqa: A004
from tests.unit.layout.test_validate import TREE as OTHERS
from tests.unit.layout.test_validate import _random as random_arrays

Array = np.ndarray[Any, Any]

MORE = """
layout shapes(n, m) { size nnz, rows
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index row[nnz] { range 0 <= row(p) < n }
    index col[nnz] { range 0 <= col(p) < m
        property forall p < q : row(p) = row(q) => col(p) < col(q) }
    index begin[rows] { range 0 <= begin(s) <= nnz }
    index stop[rows] { range 0 <= stop(s) <= nnz }
    index key[nnz] { range -3 <= key(p)
        property forall s, p, q : begin(s) <= p < q < stop(s) => key(p) != key(q)
        property forall p < q : p mod 2 = q mod 2 => key(p) <= key(q)
        property forall p, q, r : p < q and q < r => key(p) + key(r) >= key(q) }
    index grid[n, m, 2] { range 0 <= 3*grid(a, b, c) + c < nnz + n
        property forall a, b : exists c : grid(a, b, c) = 0
        property forall a, b, c, d : b < d and grid(a, b, c) = grid(a, d, c) => grid(a, b, c) = 0
        property grid(0, 0, 0) <= grid(n - 1, 0, 1) }
    value val[nnz] at [p] }
"""
TREE = parse_tree(MORE)


def all_layouts() -> list[Layout]:
    """Every layout of the repository, families at two ranks, and those of the tests."""
    found = []
    for tree, names in ((OTHERS, (*builtin_names(), *OTHERS.layouts)), (TREE, tuple(TREE.layouts))):
        for name in names:
            declaration, settings = tree.resolve(LayoutUse(name))
            free = "rank" in dict(declaration.constants) and "rank" not in settings
            for rank in (1, 2, 4) if free else (None,):
                found.append(layout_of(declaration, {**settings, **({"rank": rank} if rank else {})}))
    return [x for x in found if x.indexes]


LAYOUTS = all_layouts()


def label(layout: Layout) -> str:
    return f"{layout.name}{layout.rank}"


def outcome(check: Callable[..., tuple[Property, ...]], *given: Any, **more: Any) -> str:
    try:
        return str([p.text for p in check(*given, **more)])
    except DataError as error:
        return error.message


def typed(arrays: dict[str, Array]) -> dict[str, Array]:
    """int32 and int64 in turn."""
    return {n: np.ascontiguousarray(a, dtype=("int32", "int64")[k % 2]) for k, (n, a) in enumerate(arrays.items())}


_LOADED: dict[tuple[Layout, tuple[tuple[str, str], ...]], Any] = {}


def in_c(layout: Layout, sizes: dict[str, int], arrays: dict[str, Array], threads: int = 0) -> tuple[Property, ...]:
    found = validate._prepared(layout, arrays)
    if (layout, found.kinds) not in _LOADED:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compile, "build", partial(compile.build, optimise=False))  # in half the time
            _LOADED[layout, found.kinds] = validate._built.__wrapped__(layout, found.kinds)
    function = _LOADED[layout, found.kinds]
    assert validate._fits(found, sizes, arrays)
    return validate._run(found, function, sizes, arrays, threads)


def in_python(layout: Layout, sizes: dict[str, int], arrays: dict[str, Array]) -> tuple[Property, ...]:
    return validate._in_python(validate._prepared(layout, arrays), sizes, arrays)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_all_ways_find_the_same(layout: Layout) -> None:
    """C, Python and numpy the same instance; and something whenever trying all instances finds something."""
    random = np.random.default_rng(5)
    seen = set()
    for _ in range(75):
        sizes, arrays = random_arrays(layout, random)
        arrays = typed(arrays)
        wanted = outcome(plain.check_arrays, layout, sizes, arrays)
        assert outcome(in_c, layout, sizes, arrays, int(random.integers(1, 4))) == wanted, (sizes, arrays)
        assert outcome(in_python, layout, sizes, arrays) == wanted, (sizes, arrays)
        all_tried = outcome(plain.check_arrays, layout, sizes, arrays, thorough=True)
        assert (wanted == "[]") == (all_tried == "[]")
        seen.add(wanted == "[]")
    assert False in seen


WIDE = """
layout wide(n, m) { size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = 3*col(p) }
    index row[nnz] { range 0 <= row(p) < n
        property increasing }
    index col[nnz] { range 0 <= 3*col(p) < m
        property forall p < q : row(p) = row(q) => col(p) < col(q) }
    index sum[nnz] { property forall p : sum(p) + row(p) < 2*n }
    value val[nnz] at [p] }
layout padded(n, m) { size width
    relation { [a, b] -> [i, j] : 0 <= a < n and 0 <= b < width and i = a and j = col(a, b) and 0 <= j }
    index col[n, width] { range -1 <= col(a, b)
        property increasing }
    value val[n, width] at [a, b] }
"""
HUGE = 2**62


def wide(**changed: Any) -> tuple[Layout, dict[str, int], dict[str, Array]]:
    layout = layout_of(*parse_tree(WIDE).resolve(LayoutUse("wide")))
    arrays = {"row": [0, 5, 5, HUGE], "col": [7, 0, HUGE // 3, 1], "sum": [0, 1, 2, 3], **changed}
    return layout, {"n": HUGE + 1, "m": HUGE, "nnz": 4}, {n: np.array(a, np.int64) for n, a in arrays.items()}


@pytest.mark.parametrize(
    ("name", "array", "wanted"),
    [
        ("row", [0, 5, 5, HUGE + 1], f"row(3) = {HUGE + 1}"),
        ("row", [0, 5, 4, HUGE], "row(1) = 5 and row(2) = 4"),
        ("col", [7, 0, HUGE // 3 + 1, 1], f"col(2) = {HUGE // 3 + 1}"),
        ("col", [7, 0, 2**63 - 1, 1], f"col(2) = {2**63 - 1}"),  # three times that is 2^63 - 3 in 64 bits
        ("col", [7, 3, 3, 1], "col(1) = 3, col(2) = 3"),
        ("sum", [2**63 - 1, 2**63 - 1, 2, 3], f"sum(1) = {2**63 - 1}"),
        ("sum", [0, 1, 2, HUGE + 2], f"sum(3) = {HUGE + 2}"),
    ],
)
def test_numbers_beyond_64_bits(name: str, array: list[int], wanted: str) -> None:
    """Extents of 2^62, so that sums and products of what was read overflow."""
    layout, sizes, arrays = wide()
    assert validate.check_arrays(layout, sizes, arrays) == ()
    layout, sizes, arrays = wide(**{name: array})
    with pytest.raises(DataError) as caught:
        validate.check_arrays(layout, sizes, arrays)
    assert wanted in caught.value.message
    assert f"`{name}`" in caught.value.message


def test_what_does_not_fit_is_told_where_python_would_be_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "VALIDATE_EXACT", 0)
    monkeypatch.setattr(tuning, "VALIDATE_SMALL", 0)
    monkeypatch.setattr(tuning, "VALIDATE_TINY", 0)
    layout, sizes, arrays = wide()
    assert [p.text for p in validate.check_arrays(layout, sizes, arrays)] == ["forall p : sum(p) + row(p) < 2*n"]


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_large_extents_beside_empty_ones(kind: str) -> None:
    """An array of 2^40 rows without columns takes no memory, and no time."""
    layout = layout_of(*parse_tree(WIDE).resolve(LayoutUse("padded")))
    sizes, arrays = {"n": 2**40, "m": 3, "width": 0}, {"col": np.zeros((2**40, 0), kind)}
    for way in (plain.check_arrays, in_c, in_python, validate.check_arrays):
        assert way(layout, sizes, arrays) == ()


def test_large_extents_and_narrow_indices() -> None:
    """The extent of a dimension does not fit into the type of the indices, which are all below it then."""
    layout = layout_of(*TREE.resolve(LayoutUse("csr")))
    colidx = np.array([0, 2**31 - 1, 5], np.int32)
    sizes, arrays = {"nrow": 2, "ncol": 2**33, "nnz": 3}, {"rowptr": np.array([0, 2, 3]), "colidx": colidx}
    for way in (plain.check_arrays, in_c, in_python):
        assert way(layout, sizes, arrays) == ()
        with pytest.raises(DataError, match=f"colidx\\(1\\) = {2**31 - 1} and ncol = {2**31 - 1}"):
            way(layout, {**sizes, "ncol": 2**31 - 1}, arrays)
        assert way(layout, {**sizes, "ncol": 2**31}, arrays) == ()
        with pytest.raises(DataError, match=r"colidx\(0\) = 0 and ncol = 0"):
            way(layout, {**sizes, "ncol": 0}, arrays)


@pytest.mark.parametrize("extent", [40, 5000, 2**20, 2**40])
def test_no_two_alike_close_together_and_far_apart(extent: int) -> None:
    """Keys that are close together are looked for in a bitmap, others in a hash table."""
    layout, random = layout_of(*TREE.resolve(LayoutUse("sv_unsorted"))), np.random.default_rng(2)
    for count in (0, 1, 2, 40, 900):
        keys = random.permutation(extent)[:count] if extent <= 2**20 else random.integers(0, 2**38, count) * 4
        sizes = {"n": extent, "nnz": len(keys)}
        assert in_c(layout, sizes, {"idx": keys}) == ()
        for _ in range(10 if len(keys) > 1 else 0):
            places = np.sort(random.choice(len(keys), 4))
            wrong = keys.copy()
            wrong[places[2:]] = wrong[places[:2]]
            found = {outcome(way, layout, sizes, {"idx": wrong}) for way in (in_c, in_python, plain.check_arrays)}
            assert len(found) == 1
            assert ("[]" in found) == (len(np.unique(wrong)) == len(wrong))

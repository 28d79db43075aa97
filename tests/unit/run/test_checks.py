"""The checks in C find what numpy finds, at the same place; and both find what trying all instances finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spfgen.errors import DataError
from spfgen.lang.nodes import LayoutUse
from spfgen.lang.spec import builtin_names, parse_tree
from spfgen.layout import validate as plain
from spfgen.layout.nodes import Layout, Property
from spfgen.pipeline import layout_of
from spfgen.run import validate
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


def in_c(layout: Layout, sizes: dict[str, int], arrays: dict[str, Array], threads: int = 0) -> tuple[Property, ...]:
    found = validate._prepared(layout, arrays)
    function = validate._built(layout, found.kinds)
    assert function is not None
    assert validate._fits(found, sizes, arrays)
    return validate._run(found, function, sizes, arrays, threads)


def in_python(layout: Layout, sizes: dict[str, int], arrays: dict[str, Array]) -> tuple[Property, ...]:
    return validate._in_python(validate._prepared(layout, arrays), sizes, arrays)


@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_all_ways_find_the_same(layout: Layout) -> None:
    """C, Python and numpy the same instance; and something whenever trying all instances finds something."""
    random = np.random.default_rng(5)
    seen = set()
    for _ in range(150):
        sizes, arrays = random_arrays(layout, random)
        arrays = typed(arrays)
        wanted = outcome(plain.check_arrays, layout, sizes, arrays)
        assert outcome(in_c, layout, sizes, arrays, int(random.integers(1, 4))) == wanted, (sizes, arrays)
        assert outcome(in_python, layout, sizes, arrays) == wanted, (sizes, arrays)
        all_tried = outcome(plain.check_arrays, layout, sizes, arrays, thorough=True)
        assert (wanted == "[]") == (all_tried == "[]")
        seen.add(wanted == "[]")
    assert False in seen

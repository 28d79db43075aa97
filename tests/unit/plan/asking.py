"""What the tests of finds ask: which algorithms may be forced, what stands in the plan, what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np

import spfgen
from spfgen.errors import SpecError
from spfgen.ir import walk
from spfgen.lang.types import FINDS
from spfgen.plan.nodes import Find, Plan
from spfgen.run import compile as compiling
from spfgen.run.handles import LayoutHandle
from spfgen.run.tensor import Tensor, make_tensor
from tests.differential.support import eager_source

Node = TypeVar("Node", bound=Plan)
Layout = LayoutHandle | str

ALL = frozenset(FINDS)
TABLES = frozenset({"hash", "array", "bitmap", "scatter"})
SORTED = frozenset({"search", "sequential", "gallop"})
"""What needs a sorted array."""
ALWAYS = frozenset({"loop", "hash"})
"""What needs nothing, or nothing but a range that is known above a loop."""

VECTOR = """
layout vector(n) {
    size nnz
    relation { [p] -> [i] : 0 <= p < nnz and i = idx(p) }
    index idx[nnz] { range %s  %s }
    value val[nnz] at [p]
}
"""

LIST = """
layout list(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index row[nnz] { range 0 <= row(p) < nrow  %s }
    index col[nnz] { range 0 <= col(p) < ncol  %s }
    value val[nnz] at [p]
}
"""

ROWS = """
layout rows(nrow, ncol) {
    size nnz, m
    relation { [pi, pj] -> [i, j] :
        0 <= pi < nrow and ptr(pi) <= pj < ptr(pi + 1) and i = pi and j = col(pj) }
    index ptr[nrow + 1] { range 0 <= ptr(p) <= nnz  property increasing }
    index other[m] { range 0 <= other(p) <= nnz  property increasing }
    index col[nnz] { range 0 <= col(p) < ncol  %s }
    value val[nnz] at [pj]
}
"""


def vector(properties: str, bounds: str = "0 <= idx(p) < n") -> LayoutHandle:
    """A sparse vector whose coordinates are declared to have these properties."""
    return spfgen.parse(VECTOR % (bounds, properties)).layouts["vector"]


def listed(row: str, col: str) -> LayoutHandle:
    """A list of coordinates."""
    return spfgen.parse(LIST % (row, col)).layouts["list"]


def rows(col: str) -> LayoutHandle:
    """Compressed rows with a second pointer array that the relation does not use."""
    return spfgen.parse(ROWS % col).layouts["rows"]


def allowed(statement: str, place: str, order: Sequence[str] = (), **layouts: Layout) -> frozenset[str]:
    """The algorithms that may be forced for the position `place`; the others are refused with a reason."""
    named = all(isinstance(x, str) for x in layouts.values())  # others have no hash
    ask = _allowed if named else _allowed.__wrapped__
    return ask(statement, place, tuple(order), tuple(layouts.items()))


@cache
def _allowed(
    statement: str, place: str, order: tuple[str, ...], items: tuple[tuple[str, Layout], ...]
) -> frozenset[str]:
    """Many tests ask it once for each algorithm."""
    result = set()
    layouts = dict(items)
    refused: dict[str, str] | None = None
    for algorithm in FINDS:
        try:
            kernel = spfgen.compile(statement, order=order, finds={place: algorithm}, **layouts)
        except SpecError as error:
            refused = refused or why_not(statement, place, order, **layouts)
            assert algorithm in refused, f"the plan calls right what is refused: {error}"  # noqa: PT017
            assert refused[algorithm], "a refusal without a reason"
            assert refused[algorithm] in error.message  # noqa: PT017
            continue
        assert {f.algorithm for f in of_kind(kernel, Find) if f.dim == place} == {FULL[algorithm]}
        result.add(algorithm)
    return frozenset(result)


FULL = {
    "loop": "plain loop", "search": "binary search", "gallop": "galloping", "sequential": "sequential iteration",
    "hash": "hash map", "array": "position array", "bitmap": "bitmap", "scatter": "scatter",
}  # fmt: skip


def why_not(statement: str, place: str, order: Sequence[str] = (), **layouts: Layout) -> dict[str, str]:
    """What the plan that nobody forced says of the algorithms that are not provable."""
    kernel = spfgen.compile(statement, order=order, **layouts)
    refused: list[dict[str, str]] = []
    for found in of_kind(kernel, Find):
        if found.dim == place:
            right = {a for a, name in FULL.items() if name == found.algorithm}
            right |= {r.algorithm for r in found.rejected if r.why.startswith("proved correct, but")}
            refused.append({r.algorithm: r.why for r in found.rejected if r.algorithm not in right})
    assert refused, f"{place} is not looked for"
    assert all(r == refused[0] for r in refused), "the variants of one kernel do not agree about what is right"
    return refused[0]


def of_kind(kernel: spfgen.Kernel, kind: type[Node]) -> list[Node]:
    """The nodes of the kind in all plans of the kernel, outermost first."""
    return [n for plan in kernel.generated.plans for n in walk(plan) if isinstance(n, kind)]


def only(kernel: spfgen.Kernel, kind: type[Node]) -> Node:
    (found,) = of_kind(kernel, kind)
    return found


def run(kernel: spfgen.Kernel, threads: int = 1, **operands: object) -> Any:
    """The result, with C that is hardly optimised (quick to compile) and starts its threads however little there
    is to do."""
    build = compiling.build
    quick = partial(build, optimise=False)
    kernel.threads = threads
    with patch.object(compiling, "build", lambda source: quick(eager_source(source))):
        return kernel(**operands)


def stored(layout: Layout, size: int, idx: Sequence[int], val: object, check: bool = True) -> Tensor:
    """A sparse vector with these coordinates in this order; `check` its declared properties."""
    handle = spfgen.parse("").layouts[layout] if isinstance(layout, str) else layout
    found = handle.layout(1)
    (array,) = (a.name for a in found.indexes)
    return make_tensor(found, {array: np.array(idx, np.int32), "val": np.asarray(val)}, (size,), check=check)


def entries(layout: Layout, shape: tuple[int, int], row: Sequence[int], col: Sequence[int]) -> tuple[Tensor, Any]:
    """A list of coordinates with values 1, 2, ... in this order, and the same as a dense array."""
    handle = spfgen.parse("").layouts[layout] if isinstance(layout, str) else layout
    found = handle.layout(2)
    one, two = (a.name for a in found.indexes)
    val = np.arange(1.0, 1.0 + len(row))
    dense = np.zeros(shape)
    np.add.at(dense, (np.array(row, int), np.array(col, int)), val)
    arrays = {one: np.array(row, np.int32), two: np.array(col, np.int32), "val": val}
    return make_tensor(found, arrays, shape), dense


def matrix(shape: tuple[int, int], density: float, seed: int = 0) -> Any:
    """A random dense array of small whole numbers."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < density, rng.integers(1, 9, shape), 0).astype(float)


LISTED_ROWS = """
layout rows(m, n) {
    size some, stored
    relation { [p, q] -> [i, j] : 0 <= p < some and begin(p) <= q < begin(p + 1) and i = row(p) and j = col(q) }
    index row[some] { range 0 <= row(p) < m  property %s }
    index begin[some + 1] {
        range 0 <= begin(p) <= stored
        property increasing
        property begin(0) = 0
        property begin(some) = stored
    }
    index col[stored] { range 0 <= col(q) < n  property strictly increasing within begin }
    value data[stored] at [q]
}
"""
"""Rows that are listed, with a property of the list; each has its entries one after another."""

"""Properties made at random: whatever way of checking is proved to be enough finds what trying all instances finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spfgen.errors import DataError
from spfgen.lang.nodes import LayoutUse
from spfgen.lang.spec import parse_tree
from spfgen.layout import validate
from spfgen.layout.checks import CheckPart, GroupCheck, SegmentCheck, checks_of
from spfgen.layout.nodes import Layout, Property
from spfgen.pipeline import layout_of
from spfgen.run.validate import _in_python, _prepared

SPEC = """
layout made(n) {{ size m, rows
    relation {{ [p] -> [i] : 0 <= p < m and i = f(p) }}
    index f[m] {{ range 0 <= f(p) < n  {0} }}
    index g[m] {{ range 0 <= g(p) < n  {1} }}
    index ptr[rows + 1] {{ range 0 <= ptr(s) <= m  {2} }}
    index h[rows, m] {{ range -1 <= h(s, p) < n  {3} }}
    value val[m] at [p] }}
"""
CONDITIONS = (
    "p < q", "p <= q", "p > q", "p != q", "p + 1 < q", "p < q and q < 4", "p < q and p mod 2 = q mod 2",
    "f(p) = f(q)", "p < q and f(p) = f(q)", "f(p) <= f(q)", "p < q and g(p) = g(q) and f(p) = f(q)",
    "p < q and f(q) > 0",
    "p < q and floor(p/3) = floor(q/3)", "q = p + 1", "p < q and q <= p + 2",
)  # fmt: skip
CONCLUSIONS = (
    "f(p) <= f(q)", "f(p) < f(q)", "f(p) != f(q)", "f(p) = f(q)", "p = q", "f(p) + g(q) >= 2", "g(p) >= g(q)",
    "f(q) - f(p) >= q - p", "f(q) <= f(p) + 2", "f(p) < f(q) or g(p) < g(q)", "f(p) <= g(q)", "f(p) > 0",
    "(f(p) < f(q) or f(p) = f(q) and g(p) <= g(q))", "exists r : f(r) = g(p)", "forall r : f(r) <= g(p) + 2",
)  # fmt: skip
SEGMENTS = (
    "ptr(s) <= p < q < ptr(s + 1)", "ptr(s) <= p and p < q and q <= ptr(s + 1)", "ptr(s) <= p < ptr(s + 1) and p <= q",
    "ptr(s) <= p and p < q and q < ptr(s + 2)",
)  # fmt: skip
SHORT = ("increasing", "strictly increasing", "decreasing", "injective", "injective where f equal",
         "increasing within ptr", "injective within ptr", "strictly decreasing within ptr")  # fmt: skip


def formula(random: np.random.Generator, own: str) -> str:
    """A property, mostly of pairs."""
    kind = random.random()
    if kind < 0.25:
        return f"property {random.choice(SHORT if own != 'f' else [s for s in SHORT if 'where' not in s])}"
    if kind < 0.55:
        return f"property forall s, p, q : {random.choice(SEGMENTS)} => {random.choice(CONCLUSIONS)}"
    return f"property forall p, q : {random.choice(CONDITIONS)} => {random.choice(CONCLUSIONS)}"


def layout(random: np.random.Generator) -> Layout:
    f, g = (formula(random, own) if random.random() < 0.8 else "" for own in "fg")
    ptr = random.choice(["property increasing", "property increasing property ptr(0) = 0", ""])
    h = random.choice(
        ["", "property increasing", "property forall s, p, t : s < t => h(s, p) <= h(t, p)",
         "property forall s, p, q : p < q and h(s, q) >= 0 => 0 <= h(s, p) < h(s, q)", "property injective"]
    )  # fmt: skip
    return layout_of(*parse_tree(SPEC.format(f, g, ptr, h)).resolve(LayoutUse("made")))


def data(random: np.random.Generator) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    sizes = {"n": int(random.integers(1, 9)), "m": int(random.integers(0, 7)), "rows": int(random.integers(0, 4))}
    shapes = {"f": sizes["m"], "g": sizes["m"], "ptr": sizes["rows"] + 1, "h": (sizes["rows"], sizes["m"])}
    limits = {"f": sizes["n"], "g": sizes["n"], "ptr": sizes["m"] + 1, "h": sizes["n"]}
    arrays = {}
    for name, shape in shapes.items():
        array = random.integers(0, limits[name], shape)
        for axis in range(array.ndim):
            if random.random() < 0.6:
                array.sort(axis=axis)
        if random.random() < 0.3 and array.ndim == 1:
            array = np.cumsum(random.integers(0, 3, shape)) % (limits[name] + (random.random() < 0.1))
        arrays[name] = array[::-1].copy() if random.random() < 0.15 else array
    return sizes, arrays


def in_python(layout: Layout, sizes: dict[str, int], arrays: dict[str, np.ndarray]) -> tuple[Property, ...]:
    return _in_python(_prepared(layout, arrays), sizes, arrays)


def outcome(way: Callable[..., tuple[Property, ...]], *given: Any, **more: Any) -> tuple[str | None, set[Property]]:
    """(what is wrong, which properties were not checked)"""
    try:
        return None, set(way(*given, **more))
    except DataError as error:
        return error.message, set()


def run(seed: int, count: int) -> Counter[str]:
    """Compare on random data; counts the ways of checking that were found."""
    random = np.random.default_rng(seed)
    ways: Counter[str] = Counter()
    for _ in range(count):
        made = layout(random)
        for check in checks_of(made):
            ways.update([type(p).__name__ for p in check.parts] if check.is_linear else ["not linear"])
        for _ in range(60):
            sizes, arrays = data(random)
            wanted, left = outcome(validate.check_arrays, made, sizes, arrays, thorough=True)
            for way in (validate.check_arrays, in_python):
                found, unchecked = outcome(way, made, sizes, arrays)
                assert unchecked <= left
                if not left or wanted:  # a variable without bounds of its own may have some in the other loops
                    assert (found is None) == (wanted is None), (made.facts, sizes, arrays, wanted, found)
    return ways


def test_random_properties() -> None:
    ways = run(3, 9)
    assert {GroupCheck.__name__, SegmentCheck.__name__, CheckPart.__name__, "not linear"} <= set(ways)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_random_properties(seed: int) -> None:
    run(seed, 25)

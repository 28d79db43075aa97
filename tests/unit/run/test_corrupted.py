"""Arrays that satisfy a layout, then one element is wrong: it is named, whichever property it breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen import tuning
from spfgen.errors import DataError, UsageError
from spfgen.lang.nodes import LayoutUse
from spfgen.lang.spec import SpecTree, builtin_names
from spfgen.layout import validate as plain
from spfgen.layout.checks import opened
from spfgen.layout.instances import Data, broken_one_by_one
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import pack, storable
from spfgen.pipeline import layout_of
from spfgen.run import validate
from tests.unit.run.test_checks import in_c, in_python, outcome, typed

Array = np.ndarray[Any, Any]
SMALL = {1: (41,), 2: (13, 15), 3: (3, 4, 7), 4: (2, 3, 4, 5)}
LARGE = {1: (20_000,), 2: (1400, 150), 3: (150, 40, 50), 4: (60, 20, 20, 10)}
WAYS: dict[str, Callable[..., Any]] = {"numpy": plain.check_arrays, "C": in_c, "Python": in_python}


def built_in() -> Iterator[Layout]:
    tree = SpecTree()
    for name in builtin_names():
        declaration, settings = tree.resolve(LayoutUse(name))
        free = "rank" in dict(declaration.constants) and "rank" not in settings
        for rank in (1, 2, 4) if free else (None,):
            yield layout_of(declaration, {**settings, **({"rank": rank} if rank else {})})


LAYOUTS = [x for x in built_in() if x.indexes]


def label(layout: Layout) -> str:
    return f"{layout.name}{layout.rank}"


def data(
    layout: Layout, shape: tuple[int, ...], count: int, random: np.random.Generator
) -> tuple[dict[str, int], dict[str, Array]]:
    """Entries of two values at random coordinates and in two corners, those that the layout has places for."""
    coords = [np.append(random.integers(0, n, count), [0, n - 1]) for n in shape]
    places = np.unique(np.ravel_multi_index(coords, shape))
    values = random.integers(1, 3, len(places)).astype(float)
    found, values = storable(layout, shape, np.unravel_index(places, shape), values)
    made = pack(layout, shape, tuple(found), values, {a.name: "int64" for a in layout.indexes})
    return made.sizes, typed({a.name: made.arrays[a.name] for a in layout.indexes})


def corrupted(arrays: dict[str, Array], name: str, random: np.random.Generator) -> tuple[dict[str, Array], str]:
    """Another value at a random place of one array, often at an end; and how a message names the place."""
    array = arrays[name].copy()
    place = tuple(int(random.choice([0, n - 1, *random.integers(0, n, 3)])) for n in array.shape)
    around = [array.reshape(-1)[int(random.integers(0, array.size))], array[place] - 1, array[place] + 1, array.max()]
    array[place] = random.choice([-1000, -2, 1000, array.max() + 1, *around])
    return {**arrays, name: array}, f"{name}({', '.join(map(str, place))})"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_each_property_when_it_is_broken(layout: Layout) -> None:
    random = np.random.default_rng(17)
    sizes, arrays = data(layout, SMALL[layout.rank], 50, random)
    for way, check in WAYS.items():
        assert check(layout, sizes, arrays) == (), way
    names = [a.name for a in layout.indexes if arrays[a.name].size]
    facts = [(a.name, f) for a in layout.indexes for f in (*a.ranges, *a.properties)]
    wanted, seen = {(a, f.text) for a, f in facts}, set()
    attempts = 0
    while attempts < 20 * len(names) or not wanted <= seen:
        attempts += 1
        assert attempts < 1500, wanted - seen
        wrong, place = corrupted(arrays, str(random.choice(names)), random)
        broken = {(a, f.text) for a, f in facts if _is_broken(layout, sizes, wrong, f)}
        seen |= broken
        for way, check in WAYS.items():
            found = outcome(check, layout, sizes, wrong)
            assert (found == "[]") == (not broken), (way, wrong, broken)
            if broken:
                assert place in found, (way, wrong)
                assert any(f"`{f}`" in found for _, f in broken)


def _is_broken(layout: Layout, sizes: dict[str, int], arrays: dict[str, Array], fact: Any) -> bool:
    return broken_one_by_one(Data(layout, sizes, arrays), *opened(fact.formula)) is not None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_large_arrays(layout: Layout) -> None:
    """Too large for all instances: C and numpy agree, and what they say is about the place that was changed."""
    random = np.random.default_rng(3)
    sizes, arrays = data(layout, LARGE[layout.rank], 5000, random)
    assert in_c(layout, sizes, arrays, 3) == ()
    names = [a.name for a in layout.indexes if arrays[a.name].size]
    caught = 0
    for _ in range(12):
        wrong, place = corrupted(arrays, str(random.choice(names)), random)
        wanted = outcome(plain.check_arrays, layout, sizes, wrong)
        assert outcome(in_c, layout, sizes, wrong, int(random.integers(1, 4))) == wanted
        if wanted != "[]":
            caught += 1
            assert place in wanted
    assert caught


def test_a_tensor_validates_itself() -> None:
    tensor = spfgen.tensor("csr", shape=(2, 3), rowptr=[0, 1, 2], colidx=[0, 2], val=[1.0, 2.0])
    assert tensor.validate() == ()
    tensor.arrays["colidx"][1] = 3
    with pytest.raises(DataError, match=r"`colidx` .* `0 <= colidx\(p\) < ncol`, but colidx\(1\) = 3 and ncol = 3"):
        tensor.validate(threads=1)


@pytest.mark.parametrize("threads", [-1, 2**21, "two"])
def test_what_is_no_number_of_threads(threads: Any) -> None:
    """OpenMP would end the process where it cannot start as many."""
    tensor = spfgen.tensor("csr", shape=(2, 3), rowptr=[0, 1, 2], colidx=[0, 2], val=[1.0, 2.0])
    with pytest.raises(UsageError, match="threads"):
        tensor.validate(threads=threads)


PAIRS = """
layout pairs(n) { size nnz
    relation { [p] -> [i] : 0 <= p < nnz and i = idx(p) }
    index idx[nnz] { range 0 <= idx(p) < n
        property forall p, q : idx(p) + idx(q) != 7 }
    value val[nnz] at [p] }
"""


def test_what_is_not_checked_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = spfgen.parse(PAIRS).layouts["pairs"]
    monkeypatch.setattr(plain, "LIMIT", 1000)
    monkeypatch.setattr(tuning, "VALIDATE_COMPILED", 0)
    few, many = np.arange(0, 20, 2), np.arange(0, 20_000, 2)
    tensor = spfgen.tensor(layout, shape=20, idx=few, val=np.ones(10))
    assert tensor.validate() == ()
    with pytest.warns(
        UserWarning, match=r"`forall p, q : idx\(p\) \+ idx\(q\) != 7` of layout `pairs` was not checked"
    ):
        tensor = spfgen.tensor(layout, shape=20_000, idx=many, val=np.ones(10_000))
    assert tensor.validate() == ("forall p, q : idx(p) + idx(q) != 7",)
    for way in (plain.check_arrays, in_c):
        assert [p.text for p in way(layout.layout(), tensor.sizes, tensor.arrays)] == list(tensor.validate())
    with pytest.raises(DataError, match=r"idx\(p\) \+ idx\(q\) != 7`, but idx\(1\) = 2 and idx\(2\) = 5"):
        spfgen.tensor(layout, shape=20, idx=[0, 2, 5], val=np.ones(3))


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "VALIDATE_COMPILED", 0)
    monkeypatch.setattr(validate, "_KEPT", {})
    monkeypatch.setattr(validate, "_built", lambda layout, kinds: None)
    colidx = np.zeros(50_000, np.int32)
    rowptr = np.arange(50_001, dtype=np.int32)
    tensor = spfgen.tensor("csr", shape=(50_000, 1), rowptr=rowptr, colidx=colidx, val=np.ones(50_000))
    assert tensor.validate() == ()
    colidx[31_000] = 1
    with pytest.raises(DataError, match=r"colidx\(31000\) = 1"):
        tensor.validate()

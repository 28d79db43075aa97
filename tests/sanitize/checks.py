"""The checks of arrays as kernels of the driver: a C function around each, and arrays that are wrong in every way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spfgen.lang.spec import builtin_names
from spfgen.layout import check_numpy
from spfgen.layout.check_python import lists, python_check
from spfgen.layout.checks import checks_of
from spfgen.layout.instances import Broken, Data
from spfgen.layout.nodes import Layout
from spfgen.run import validate
from tests.differential.support import eager_source
from tests.sanitize.driver import Build, Call
from tests.unit.layout.test_validate import _random as random_arrays
from tests.unit.run.test_checks import LAYOUTS, typed
from tests.unit.run.test_corrupted import data as packed

Array = np.ndarray[Any, Any]

CHOSEN = ("csr2", "coo2", "csf3", "dia2", "ell2", "warp242", "bcsr2", "sv_unsorted1", "facts2", "linked1", "shapes2")
PLACES = 64
"""The length of reports."""
AROUND = """
int kernel_%(number)d(void *tensor, int threads);
int kernel_%(number)d(void *tensor, int threads) {
    int64_t *words = tensor;
    void *arrays[%(count)d];
    memcpy(arrays, words + %(sizes)d, sizeof arrays);
    (void)%(name)s(%(arguments)s, 1000000, threads, arrays[%(count)d - 1]);
    return 0;
}
"""


def chosen() -> list[Layout]:
    return [x for x in LAYOUTS if f"{x.name}{x.rank}" in CHOSEN]


def source(layout: Layout, number: int, kinds: dict[str, str]) -> str:
    """The checks, eager to use threads, and a kernel that makes them; its last array is the report."""
    sizes = len((*layout.parameters, *layout.sizes))
    count = len(layout.indexes) + 1
    given = [*(f"words[{k}]" for k in range(sizes)), *(f"arrays[{k}]" for k in range(count - 1))]
    wrapper = AROUND % {
        "number": number, "sizes": sizes, "count": count, "name": validate._name(layout), "arguments": ", ".join(given)
    }  # fmt: skip
    return eager_source(validate.c_source(layout, kinds)) + "\n#include <string.h>\n" + wrapper


def checks(threads: int, small: int = 0, large: int = 0) -> tuple[Build, list[Call]]:
    """So many calls for each layout; what the reports must hold is found by Python."""
    random = np.random.default_rng(11)
    sources, calls = {}, []
    for number, layout in enumerate(chosen()):
        for sizes, arrays in (*data(layout, small, random), *large_data(layout, large, random)):
            if number not in sources:
                sources[number] = source(layout, number, {n: a.dtype.name for n, a in arrays.items()})
            assert validate._fits(validate._prepared(layout, arrays), sizes, arrays)
            words = [sizes[n] for n in (*layout.parameters, *layout.sizes)]
            tensor = (words, [*arrays.values(), np.zeros(PLACES, np.int64)])
            wanted = {(0, len(arrays)): report(layout, sizes, arrays)}
            calls.append(Call(number, threads, (), [tensor], wanted, f"{layout.name} {sizes} {arrays}"))
    return Build(sources, dict.fromkeys(sources, (1, 0))), calls


def data(layout: Layout, count: int, random: np.random.Generator) -> Iterator[tuple[dict[str, int], dict[str, Array]]]:
    """Small arrays, of which more and more elements are any number of their type, and the largest and smallest ones."""
    for k in range(count):
        sizes, arrays = random_arrays(layout, random)
        arrays = typed(arrays)
        for array in arrays.values():
            limits = np.iinfo(array.dtype)
            extremes = [limits.min, limits.min + 1, -1, limits.max - 1, limits.max]
            wild = random.random(array.shape) < 0.5 * k / count
            array[wild] = random.choice([*extremes, *random.integers(limits.min, limits.max, 5)], int(wild.sum()))
        if k % 2:
            repair(layout, sizes, arrays, random)
        yield sizes, arrays


def repair(layout: Layout, sizes: dict[str, int], arrays: dict[str, Array], random: np.random.Generator) -> None:
    """Make most ranges hold, so that the checks that come after them are made."""
    ranges = [c for c in checks_of(layout) if any(c.fact is r for a in layout.indexes for r in a.ranges)]
    for check in ranges:
        for _ in range(100):
            found = check_numpy.run(Data(layout, sizes, arrays), check, 10**6)
            if not isinstance(found, Broken):
                break
            arrays[check.array][tuple(found.values.values())] = random.integers(-1, max(sizes.values()) + 1)


def large_data(
    layout: Layout, count: int, random: np.random.Generator
) -> Iterator[tuple[dict[str, int], dict[str, Array]]]:
    """Arrays that satisfy a layout of the repository but for some hundred elements, which all threads meet."""
    if layout.name not in builtin_names():
        return
    for k in range(count):
        sizes, arrays = packed(layout, {1: (5_000,), 2: (10_000, 90), 3: (5_000, 30, 30)}[layout.rank], 10_000, random)
        if k:
            array = arrays[layout.indexes[-1].name].reshape(-1)
            places = random.integers(0, array.size, 300)
            array[places] = array[random.integers(0, array.size, 300)]
        yield sizes, arrays


def report(layout: Layout, sizes: dict[str, int], arrays: dict[str, Array]) -> Any:
    """What C must leave in the report, masked where that is anything."""
    result = np.ma.masked_all(PLACES, np.int64)
    found = python_check(layout, checks_of(layout))(*lists(layout, sizes, arrays))
    number, values = (-1, ()) if found is None else found
    result[0] = number
    result[1 : 1 + len(values)] = values
    return result

"""Random nests of collapse, split, concat, slice, functions and reductions in all layouts, against plain numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from spfgen.errors import DataError, SpfgenError
from tests.fuzz import results, unseen
from tests.fuzz.seeds import reports_of
from tests.fuzz.views import Grower, View, meaning, show, smaller, split_sizes, tensors
from tests.papers import support

FILLS = (0.0, 0.0, 0.0, 1.0, -2.0)


def random_view(seed: int) -> View:
    rng = np.random.default_rng([seed, 21])
    grower = Grower(rng)
    shape = tuple((grower.fresh(), int(rng.integers(1, 7))) for _ in range(rng.integers(0, 4)))
    return grower.grow(shape, int(rng.integers(1, 4)))


def layout_of(tensor: str, extents: tuple[int, ...], seed: int) -> tuple[str, float]:
    """The same for each use of the tensor."""
    rng = np.random.default_rng([seed, crc32(tensor.encode()), len(extents)])
    ours = [n for n, u in unseen.ALL.items() if u.rank == len(extents)]
    layout = str(rng.choice([*support.LAYOUTS[len(extents)], *ours])) if extents else ""
    plain = "dense" in layout or not extents or layout in ours or layout == "rle"
    return layout, 0.0 if plain else float(FILLS[rng.integers(len(FILLS))])


def result_layout(rank: int, seed: int) -> str:
    return results.random_layout(np.random.default_rng([seed, 22, rank]), rank)


def problem(view: View, seed: int, level: int, simple: frozenset[str] = frozenset(), plain: bool = False) -> str:
    """What is wrong; "" where nothing is. `simple` tensors are dense, and the result where it is to be `plain`."""
    held = tensors(view)
    result = "dense" if plain else result_layout(len(view.shape), seed)
    chosen = {t: ("dense", 0.0) if t in simple and e else layout_of(t, e, seed) for t, e in held.items()}
    layouts = tuple((t, chosen[t][0]) for t, e in held.items() if e) + ((("R", result),) if view.shape else ())
    fills = tuple((t, chosen[t][1]) for t, e in held.items() if e)
    target = f"R[{', '.join(n for n, _ in view.shape)}]" if view.shape else "R"
    expected, fill = np.zeros([e for _, e in view.shape]), 0
    try:
        kernel = support.compiled(f"{target} = {show(view)}", layouts, fills, "", "", level)
        for which, density in enumerate((0.4, 0.0, 1.0)):
            given: dict[str, Any] = {}
            arrays: dict[str, np.ndarray] = {}
            for tensor, extents in held.items():
                rng = np.random.default_rng([seed, which, crc32(tensor.encode())])
                array = np.where(
                    rng.random(extents) < density, rng.integers(-3, 5, extents).astype(float), chosen[tensor][1]
                )
                if not extents:
                    given[tensor], arrays[tensor] = float(array), array
                    continue
                made = support.packed(array, chosen[tensor][0], chosen[tensor][1], seed % 5)
                if made is None:
                    return ""
                given[tensor], arrays[tensor] = made
            expected, fill = meaning(view, arrays), kernel.program.tensor("R").layout.fill
            more = {"prune": True} if seed + which & 1 else {}
            try:
                found = kernel(**given, **_sizes(view), **more)
            except DataError as error:
                if results.may_refuse(result, expected, fill, error):
                    continue
                raise
            results.check(found, expected, result, bool(more), f"{arrays}")
    except SpfgenError as error:
        if results.may_refuse(result, expected, fill, error):
            return ""
        return f"refused: {type(error).__name__}: {error}"
    except AssertionError as error:
        return f"wrong: {error}"
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"
    return ""


def _sizes(view: View) -> Mapping[str, Any]:
    sizes = split_sizes(view)
    return {"sizes": sizes} if sizes else {}


def try_one(seed: int, level: int = 1) -> str:
    view = random_view(seed)
    found = problem(view, seed, level)
    if not found:
        return ""
    kind, small, simple = found.partition(":")[0], view, frozenset[str]()
    progress = True
    while progress:
        progress = False
        for trial in smaller(small):
            if problem(trial, seed, level).startswith(kind):
                small, progress = trial, True
                break
    for tensor in tensors(small):
        if problem(small, seed, level, simple | {tensor}).startswith(kind):
            simple |= {tensor}
    plain = problem(small, seed, level, simple, True).startswith(kind)
    held = {
        t: ("dense" if t in simple else " fill ".join(map(str, layout_of(t, e, seed))), e)
        for t, e in tensors(small).items()
    }
    target = f"R[{', '.join(n for n, _ in small.shape)}]"
    message = problem(small, seed, level, simple, plain) or found
    result = "dense" if plain else result_layout(len(small.shape), seed)
    said = f"seed {seed} level {level}: {target} = {show(small)}\n  {held} R : {result} {split_sizes(small)}"
    return f"{said}\n  {message[:900]}\n  (was {show(view)})"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(8))
def test_random_views(seed: int) -> None:
    report = try_one(seed)
    assert not report, report


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_many_random_views() -> None:
    reports = reports_of(try_one)
    assert not reports, "\n\n".join(reports)

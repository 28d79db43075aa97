"""Random programs with loops, conditions, scalars, breaks and workspaces in all layouts, against plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from spfgen.errors import SpfgenError
from tests.fuzz import unseen
from tests.fuzz.loops import DTYPES, LARGEST, TYPES, Grower, Program, Tensor, bounded, shrunk, used
from tests.fuzz.seeds import reports_of
from tests.papers import support

EXTENTS = ({"n": 4, "m": 5}, {"n": 3, "m": 2}, {"n": 1, "m": 4})
DENSITIES = (0.4, 1.0, 0.0)
FILLS: Mapping[str, tuple[Any, ...]] = {"f": (0.0, 0.0, 1.5, np.inf), "i": (0, 0, 2), "b": (False, False, True)}


def random_program(seed: int) -> Program:
    rng = np.random.default_rng([seed, 33])
    tensors = [_read(rng, f"A{n}") for n in range(rng.integers(1, 4))]
    for n in range(rng.integers(1, 3)):
        tensors.append(
            Tensor(f"R{n}", str(rng.choice(["n", "m", "nm", "mn"])), str(rng.choice(list("ffib"))), "result")
        )
    if rng.random() < 0.4:
        layout = str(rng.choice(["dense", "sv", "sv_unsorted"]))
        tensors.append(Tensor("w", str(rng.choice(["n", "m"])), "f", "local", layout))
    grower = Grower(rng, tuple(tensors))
    for _ in range(20):
        steps = grower.block(3, "", {}, False)
        names = used(steps)
        if any(t.role == "result" and t.name in names for t in tensors) and any(
            t.role == "read" and t.name in names for t in tensors
        ):
            break
    return Program(tuple(tensors), steps)


def _read(rng: np.random.Generator, name: str) -> Tensor:
    axes = str(rng.choice(["n", "m", "nm", "mn", "nn"]))
    kind = str(rng.choice(list("ffib")))
    ours = [n for n, u in unseen.ALL.items() if u.rank == len(axes)]
    layout = str(rng.choice([*support.LAYOUTS[len(axes)], *ours]))
    plain = "dense" in layout or layout in ours or layout == "rle"
    fills = FILLS[kind]
    return Tensor(name, axes, kind, "read", layout, fills[0] if plain else fills[rng.integers(len(fills))])


def problem(program: Program, seed: int, level: int) -> str:
    """What is wrong; "" where nothing is, "left out" where the program is none of ours."""
    names = used(program.steps)
    tensors = [t for t in program.tensors if t.name in names]
    if not any(t.role == "result" for t in tensors) or not bounded(program.steps):
        return "left out"
    own = replace(program, tensors=tuple(tensors))
    known: dict[str, Any] = {"product": product}
    exec(own.python(), known)
    layouts = tuple((t.name, f"{t.layout}<{TYPES[t.kind]}>") for t in tensors if t.role != "local")
    fills = tuple((t.name, t.fill) for t in tensors if t.role == "read")
    local = "\n".join(f"local tensor {t.name} : {t.layout}<double>" for t in tensors if t.role == "local")
    runs = []
    for which, (extents, density) in enumerate(zip(EXTENTS, DENSITIES, strict=True)):
        rng = np.random.default_rng([seed, which])
        given, arrays = {}, {}
        for tensor in tensors:
            shape = tuple(extents[a] for a in tensor.axes)
            if tensor.role != "read":
                arrays[tensor.name] = np.zeros(shape, DTYPES[tensor.kind])
                continue
            values = {
                "f": rng.choice([-2.0, -1.0, 0.5, 1.0, 3.0], shape),
                "i": rng.integers(-3, 6, shape),
                "b": rng.random(shape) < 0.7,
            }
            array = np.where(
                rng.random(shape) < density, values[tensor.kind], np.asarray(tensor.fill).astype(DTYPES[tensor.kind])
            )
            made = support.packed(array, tensor.layout, tensor.fill, seed % 5)
            if made is None:
                return "left out"
            given[tensor.name], arrays[tensor.name] = made
        try:
            with np.errstate(all="ignore", invalid="raise"):  # Python's min and max are not numpy's where a nan is
                known["run"](extents["n"], extents["m"], **arrays)
        except (NameError, UnboundLocalError, ValueError, FloatingPointError):
            return "left out"
        for array in arrays.values():
            if array.dtype.kind == "f" and (
                np.isnan(array).any() or (np.isfinite(array) & (abs(array) > LARGEST)).any()
            ):
                return "left out"
        runs.append((extents, given, arrays))
    try:
        kernel = support.compiled(own.text(), layouts, fills, "", local, level)
        for extents, given, arrays in runs:
            results = {
                t.name: np.zeros([extents[a] for a in t.axes], DTYPES[t.kind]) for t in tensors if t.role == "result"
            }
            kernel(**given, **results)
            for name, found in results.items():
                support.compare(found, arrays[name], False, f"{name} of {given} {arrays}")
    except SpfgenError as error:
        return f"refused: {type(error).__name__}: {error}"
    except AssertionError as error:
        return f"wrong: {error}"
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"
    return ""


def try_one(seed: int, level: int = 1) -> str:
    program = random_program(seed)
    found = problem(program, seed, level)
    if not found or found == "left out":
        return ""
    kind = found[:30] if found.startswith(("refused", "crash")) else "wrong"
    small = shrunk(program, lambda trial: problem(trial, seed, level).startswith(kind))
    for n, tensor in enumerate(small.tensors):
        if tensor.role == "read" and tensor.layout != "dense":
            simple = replace(tensor, layout="dense", fill=0)
            trial = replace(small, tensors=(*small.tensors[:n], simple, *small.tensors[n + 1 :]))
            if problem(trial, seed, level).startswith(kind):
                small = trial
    names = used(small.steps)
    told = [
        f"{t.name} : {t.layout}<{t.kind}> fill {t.fill} [{t.axes}] {t.role}" for t in small.tensors if t.name in names
    ]
    return f"seed {seed} level {level}:\n{small.text()}\n  {'; '.join(told)}\n  {problem(small, seed, level)[:900]}"


@pytest.mark.parametrize("seed", range(8))
def test_random_loops(seed: int) -> None:
    report = try_one(seed)
    assert not report, report


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_many_random_loops() -> None:
    reports = reports_of(try_one)
    assert not reports, "\n\n".join(reports)

"""Every function of numbers, of every type, in any layouts with any fill values, small and large, against numpy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import spfgen
from spfgen.errors import SpfgenError
from tests.fuzz.programs import known_layouts
from tests.fuzz.scalars import FUNCTIONS, Array, Case, Skipped, alone, data, meaning, random_case
from tests.fuzz.seeds import reports_of

MANY = 4
"""So many functions of a case."""
LAYOUTS = {
    1: ["dense", "sv", "coo", "sv_unsorted"],
    2: [n for n in known_layouts(2) if n in ("dense", "dense_col", "csr", "csc", "coo", "dcsr", "ell", "bcsr(R=2, C=2)",
                                             "csr_unsorted", "bit_map", "dia", "csf", "jds", "lil")],
}  # fmt: skip


def close(found: Array, wanted: Array, exact: bool, single: bool) -> bool:
    if wanted.dtype.kind in "biu" or exact:
        return bool(np.array_equal(found, wanted, equal_nan=wanted.dtype.kind in "fc"))
    single = single or wanted.dtype in (np.float32, np.complex64)
    with np.errstate(all="ignore"):
        scale = 2e-5 if single else 1e-11
        return bool(np.allclose(found, wanted, rtol=scale, atol=scale, equal_nan=True))


def problem(case: Case, seed: int) -> str:
    """What is wrong; "" where nothing is."""
    arrays = data(seed, case)
    wanted = {}
    for k, value in enumerate(case.values):
        try:
            wanted[f"R{k}"] = meaning(value, arrays, case.shape)
        except Skipped:
            return ""
    text = "\n".join(case.text(k) for k in range(len(case.values)))
    try:
        given = {o.name: spfgen.pack(arrays[o.name], o.layout, fill=o.fill) for o in case.operands}
        out = {f"R{k}": own for k, own in enumerate(case.results)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = spfgen.evaluate(text, out=out, **given)
        found = made if isinstance(made, dict) else {"R0": made}
    except SpfgenError as error:
        return f"refused: {type(error).__name__}: {error}"
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"
    for name, own in wanted.items():
        result = found[name]
        result = result.to_numpy() if isinstance(result, spfgen.Tensor) else np.asarray(result)
        free = case.shape[:1] if case.values[int(name[1:])][0] == "reduce" else case.shape
        expected = np.broadcast_to(own.value, free)
        if result.dtype != expected.dtype:
            return f"type: {name} is {result.dtype}, not {expected.dtype}"
        if result.shape != expected.shape or not close(result, expected, own.exact, own.single):
            if result.shape == expected.shape and result.size:
                differs = ~np.isclose(result, expected, rtol=1e-5, atol=1e-5, equal_nan=True)
                at = tuple(int(k) for k in np.argwhere(differs)[0]) if differs.any() else (0,) * result.ndim
                own_values = {
                    n: a[at] if a.ndim == 2 else a[at[0]] if n == "u" else a[at[-1]] for n, a in arrays.items()
                }
                return f"wrong: {name}{at} is {result[at]}, not {expected[at]}, of {own_values}"
            return f"wrong: {name} is {result}, not {expected}"
    return ""


def try_one(seed: int, level: int = 1) -> str:
    """A report of what is wrong, of one statement where one will do; "" where nothing is."""
    rng = np.random.default_rng([seed, 2])
    names = [FUNCTIONS[k] for k in rng.integers(0, len(FUNCTIONS), MANY)]
    case = random_case(seed, names, LAYOUTS, large=seed % 4 == 3)
    found = problem(case, seed) if case is not None else ""
    if case is None or not found:
        return ""
    lone = ((own, problem(own, seed)) for own in (alone(case, k) for k in range(len(case.values))))
    case, found = next(((own, report) for own, report in lone if report), (case, found))
    told = [f"{o.name} : {o.layout} fill {o.fill!r} <{o.dtype}>" for o in case.operands]
    texts = [case.text(k) for k in range(len(case.values))]
    return (
        f"seed {seed}: {'; '.join(texts)}\n  {'; '.join(told)}; results {case.results}, {case.shape}\n  {found[:900]}"
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(8))
def test_random_functions(seed: int) -> None:
    report = try_one(seed)
    assert not report, report


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_many_random_functions() -> None:
    reports = reports_of(try_one)
    assert not reports, "\n\n".join(reports)

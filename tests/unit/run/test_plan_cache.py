"""Lazy arrays like earlier ones are computed as these were (run/arrays/plan_cache.py), and sampled products by one
kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse

import spfgen
from spfgen.run import later
from spfgen.run.arrays import lazy, plan_cache


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """For operands of any size."""
    monkeypatch.setenv(later.VARIABLE, later.WARM)


def matrix(size: int, seed: int) -> Any:
    return sparse.random_array((size, size), density=0.4, rng=np.random.default_rng(seed), format="csr")


CHAINS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "kernel": lambda a, b, v: (a * b).sum(axis=1) * v,
    "twice the same": lambda a, b, v: (a @ v - v) * v,
    "parts": lambda a, b, v: a.T @ (a @ v),
    "merges": lambda a, b, v: np.sin(a) * b + a,
    "another order": lambda a, b, v: a @ b @ v,
    "subscripts": lambda a, b, v: (a[1:, 0] + b[0, 1:]) @ v[1:],
    "a total": lambda a, b, v: a * (b @ v).sum() - a,
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_later_graphs_have_the_values_of_their_operands(chain: Callable[[Any, Any, Any], Any]) -> None:
    for seed, size in enumerate([4, 4, 7, 4]):
        first, second, v = matrix(size, seed), matrix(size, seed + 10), np.arange(1.0, size + 1)
        a, b = (spfgen.asarray(spfgen.pack(m, "csr")) for m in (first, second))
        found = chain(a, b, v).compute()
        wanted = chain(first.toarray(), second.toarray(), v)
        assert np.allclose(np.asarray(found), wanted)
        assert found.dtype == wanted.dtype


def test_a_later_graph_is_not_planned_again() -> None:
    a, v = spfgen.asarray(spfgen.pack(matrix(5, 1), "csr")), np.ones(5)
    for name in CHAINS:
        wanted = CHAINS[name](a, a, v).compute()
        with patch.object(lazy, "pieces", side_effect=AssertionError):
            assert np.array_equal(CHAINS[name](a, a, v).compute(), wanted)


def test_numbers_and_operands_that_are_the_same_tell_graphs_apart() -> None:
    first, second = matrix(5, 1), matrix(5, 2)
    a, b = (spfgen.asarray(spfgen.pack(m, "csr")) for m in (first, second))
    for t in (2, 3, 2.5, 0):
        assert np.allclose(np.asarray((a * t + b).compute()), (first * t + second).toarray())
        assert np.allclose(np.asarray(((a - t) * (b - t)).compute()), (first.toarray() - t) * (second.toarray() - t))
        assert np.allclose(np.asarray((a**t).sum(axis=0).compute()), (first.toarray() ** t).sum(axis=0))
    for one, two in ((a, b), (a, a), (b, a), (b, b)):
        wanted = one.compute().to_numpy() @ two.compute().to_numpy() @ np.ones(5)
        assert np.allclose((one @ (two @ np.ones(5))).compute(), wanted)


OF_NUMBERS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "scaled": lambda a, b, v, t: (a * t) @ v,
    "sum of two": lambda a, b, v, t: (a * t + b).sum(axis=1),
    "twice": lambda a, b, v, t: (a * t + b * 2).sum(axis=0),
    "fill": lambda a, b, v, t: (a - t) * (b - t),
    "fill that may be 0": lambda a, b, v, t: (a + t - 2) * v,
    "power": lambda a, b, v, t: (a * a) ** t + b,
    "beside an array": lambda a, b, v, t: a @ v * t - v,
    "extreme": lambda a, b, v, t: np.maximum(a, t) + b,
}
SOME = (3, 2, 2, -1, 0, 255, 256, 2**40, 2.5, 1e300, 0.0, -0.0, np.nan, np.inf, -np.inf, True, 1j)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", ["f8", "f4", "u1"])
@pytest.mark.parametrize("chain", OF_NUMBERS.values(), ids=OF_NUMBERS)
@pytest.mark.sampled(9)
def test_numbers_are_operands_of_a_plan(chain, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(later.VARIABLE, "never")
    first, second, v = (matrix(4, 1) * 9).astype(kind), (matrix(4, 2) * 9).astype(kind), np.arange(1, 5).astype(kind)
    a, b = (spfgen.pack(m, "csr") for m in (first, second))
    for t in SOME:
        try:
            wanted = chain(a, b, v, t)
        except Exception as error:
            with pytest.raises(type(error)):
                chain(spfgen.asarray(a), spfgen.asarray(b), v, t).compute()
            continue
        found = chain(spfgen.asarray(a), spfgen.asarray(b), v, t).compute()
        assert (type(found), found.dtype) == (type(wanted), wanted.dtype)
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-6)
        if isinstance(found, spfgen.Tensor):
            assert found.layout == wanted.layout


def test_another_number_is_not_planned_again() -> None:
    first, second, v = matrix(5, 1), matrix(5, 2), np.ones(5)
    a, b = (spfgen.asarray(spfgen.pack(m, "csr")) for m in (first, second))
    for name in ("scaled", "sum of two", "fill", "beside an array"):
        OF_NUMBERS[name](a, b, v, 0.5).compute()
        with patch.object(lazy, "_planned", side_effect=AssertionError):
            for t in (0.25, -1.5):
                wanted = OF_NUMBERS[name](first.toarray(), second.toarray(), v, t)
                assert np.allclose(np.asarray(OF_NUMBERS[name](a, b, v, t).compute()), wanted)


def test_sampled_products() -> None:
    """(A @ B) * M multiplies where M has entries alone; with an infinity in M it is as in numpy."""
    first, second, mask = matrix(6, 1) - 0.5 * matrix(6, 2), matrix(6, 3), matrix(6, 4)
    infinite = mask.copy()
    infinite.data[0] = np.inf
    a, b = (spfgen.asarray(spfgen.pack(m, "csr")) for m in (first, second))
    for factor in (mask, infinite, mask):
        m = spfgen.asarray(spfgen.pack(factor, "csr"))
        wanted = np.where(factor.toarray() != 0, (first @ second).toarray() * factor.toarray(), 0)
        assert np.allclose(np.asarray(((a @ b) * m).compute()), wanted, equal_nan=True)
    assert ((a @ b) * m).statement == "result[i, j] = sum(k: A[i, k] * B[k, j] * C[i, j])"
    assert ((a @ b) * spfgen.asarray(spfgen.pack(infinite, "csr"))).statement == (
        "result[i, j] = sum(k: A[i, k] * B[k, j]) * C[i, j]"
    )


def test_parts_that_have_another_type_than_before_are_planned_again() -> None:
    """Whether the sum is stored in wide numbers, which the first call does not say."""
    a, b = (spfgen.pack(matrix(5, seed), "csr") for seed in (1, 2))
    v = np.arange(5.0)

    def chain() -> Any:
        return (spfgen.asarray(a) @ spfgen.asarray(b) @ v).compute()

    wanted = chain()
    real = plan_cache.signature_of
    with patch.object(plan_cache, "signature_of", lambda value: (*real(value), "another")):
        assert np.array_equal(chain(), wanted)


def test_numbers_of_parts_are_not_taken_for_those_of_earlier_calls() -> None:
    """Truth values of numpy are one object each: which of them is which is not known by what they were."""
    seen = set()
    for values in ([0, 0], [0, 1], [1, 0], [1, 1]):
        a, b = (spfgen.asarray(spfgen.pack(np.full((2, 2), n), "csr", fill=7)) for n in values)
        one, other = (a > 0).any(), (b > 0).any()
        found = (one & ~other).compute()
        assert found == (values[0] > 0 and not values[1] > 0)
        seen.add(bool(found))
    assert seen == {False, True}


def test_an_array_that_has_another_shape_by_now_is_looked_at_again() -> None:
    a, v = spfgen.asarray(spfgen.pack(matrix(4, 1), "csr")), np.arange(4.0)
    graph = a @ v
    wanted = graph.compute()
    v.shape = (2, 2)
    with pytest.raises(spfgen.SpfgenError):
        graph.compute()
    v.shape = (4,)
    assert np.array_equal(graph.compute(), wanted)


def test_small_graphs_without_a_kernel_are_planned_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(later.VARIABLE, "never")
    monkeypatch.setattr(plan_cache, "_PLANS", {})
    a, planned = spfgen.asarray(spfgen.pack(matrix(4, 1), "csr")), []
    real = lazy.by_kernel
    monkeypatch.setattr(lazy, "by_kernel", lambda *given, **more: planned.append(more["times"]) or real(*given, **more))
    for _ in range(5 * plan_cache.AGAIN):
        (a * 3 + a).compute()
    assert planned == [plan_cache.AGAIN, 2 * plan_cache.AGAIN, 4 * plan_cache.AGAIN]


def test_a_fill_has_the_type_of_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a number which decides is bool, as all else that `logical_and` gives."""
    monkeypatch.setenv("SPFGEN_COMPILE", later.WARM)
    monkeypatch.setattr(later, "marked", lambda mark: None)
    a = spfgen.asarray(spfgen.pack(np.eye(3), "csr"))
    found = (np.logical_and(a, a) ^ -1).compute()
    wanted = np.logical_and(np.eye(3), np.eye(3)) ^ -1
    assert found.dtype == wanted.dtype
    assert np.array_equal(np.asarray(found), wanted)

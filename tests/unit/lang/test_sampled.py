"""Some places of results that are too large for dense arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from spfgen.lang.interpret import interpret, prepared
from spfgen.lang.parse import parse_statements
from spfgen.lang.sampled import Entries, can_be_sampled, entries_of, inner_points, points_of, values_at

N = 30
TEXTS = [
    "y[i] = A[i, j]*x[j]",
    "y[i] += A[i, j]*x[j]",
    "y[i] = sum(j < i: A[i, j]*x[j]) where i > 3",
    "y[i] = max(j: A[i, j])",
    "y[i] = sum(j: A[i, j])/x[i]",
    "y[i] = A[i, j]*B[j, i + 2]",
    "C[i, k] = A[i, j]*B[j, k]",
    "C[k, i] = A[i, k] + 2*B[k, i]",
    "C[i, k] = min(A[i, k], B[i, k])*x[k]",
]


def operands(rng: Any) -> dict[str, Any]:
    a, b = (sparse.random_array((N, N), density=0.2, rng=rng, format="coo") for _ in range(2))
    return {
        "A": entries_of(a.shape, a.coords, a.data, 0),
        "B": entries_of(b.shape, b.coords, b.data, 0),
        "x": rng.random(N),
        "y": rng.random(N),
        "C": rng.random((N, N)),
    }


def dense(value: Any) -> Any:
    return value[tuple(np.indices(value.shape))] if isinstance(value, Entries) else value


@pytest.mark.parametrize("text", TEXTS)
def test_the_same_values_as_everywhere(text: str) -> None:
    rng = np.random.default_rng(3)
    steps = parse_statements(text)
    given = {n: v for n, v in operands(rng).items() if f"{n}[" in text}
    fills = {n: 0 for n, v in given.items() if isinstance(v, Entries)}
    run, (step,) = prepared(steps, given, fills, {}, {n: given[n].stored for n in fills})
    assert can_be_sampled(run, [step], N * N)
    name = step.target.tensor
    places = [rng.integers(0, e, 40) for e in given[name].shape]
    wanted = interpret(steps, {n: dense(v) for n, v in given.items()}, fills)[name]
    np.testing.assert_allclose(values_at(run, step, places), wanted[tuple(places)])


def test_entries_are_subscripted_as_a_dense_array() -> None:
    found = entries_of((3, 4), (np.array([2, 0, 2]), np.array([1, 3, 1])), np.array([1.0, 5, 2]), np.inf)
    assert dense(found).tolist() == [[np.inf, np.inf, np.inf, 5], [np.inf] * 4, [np.inf, 3, np.inf, np.inf]]
    assert np.count_nonzero(dense(found.stored)) == 2


def test_what_cannot_be_sampled() -> None:
    given = {"A": np.ones((N, N)), "x": np.ones(N), "y": np.ones(N)}
    for text in ("y[i] = y[i] + x[i]", "y[i] max= x[i]", "for i { y[i] = x[i] }", "y[i] = x[i]; y[i] = 2*x[i]"):
        run, steps = prepared(parse_statements(text), given, {}, {})
        assert not can_be_sampled(run, steps, N)
    run, steps = prepared(parse_statements("y[i] = A[i, j]*x[j]"), given, {}, {})
    assert (points_of(run, steps), inner_points(run, steps[0])) == (N * N, N)
    assert not can_be_sampled(run, steps, N - 1)

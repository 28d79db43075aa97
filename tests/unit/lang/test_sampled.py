"""The oracle for large operands: sums along what is stored, and some places of results that are too large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from spfgen.lang.interpret import interpret
from spfgen.lang.oracle.values import Frame
from spfgen.lang.parse import parse_statements
from spfgen.lang.sampled import IndexedEntries, Sampled, TooManyPoints, entries_of

N = 30
TEXTS = [
    "y[i] = A[i, j]*x[j]",
    "y[i] += A[i, j]*x[j]",
    "y[i] -= A[i, j]*x[j]",
    "y[i] *= x[i]",
    "y[i] max= A[i, j]",
    "y[i] = sum(j < i: A[i, j]*x[j]) where i > 3",
    "y[i] = max(j: A[i, j])",
    "y[i] = sum(j: A[i, j])/x[i]",
    "y[i] = 2*x[i] + 3*y[i]",
    "y[i] = A[i, j]*B[j, i + 2]",
    "y[i] = sum(j: -A[i, j]/x[j]*B[i, j]) + x[i]",
    "y[i] = A[i, j]*B[j, k]*x[k]",
    "y[29 - i] = x[i]",
    "y[i(4:)] = x[i(:26)]",
    "C[i, k] = A[i, j]*B[j, k]",
    "C[k, i] = A[i, k] + 2*B[k, i]",
    "C[i, k] = min(A[i, k], B[i, k])*x[k]",
    "C[i, i] = x[i]",
    "C[3, i] = x[i]",
    "C[i, k] = A[i, k]*x[j]*x[j]",
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
    return value[tuple(np.indices(value.shape))] if isinstance(value, IndexedEntries) else value


def prepared(text: str, given: dict[str, Any]) -> tuple[Sampled, Any]:
    fills = {n: 0 for n, v in given.items() if isinstance(v, IndexedEntries)}
    run, (step,) = Sampled.prepared(parse_statements(text), given, fills, {})
    return run, step


@pytest.mark.parametrize("text", TEXTS)
def test_the_same_values_as_everywhere(text: str) -> None:
    rng = np.random.default_rng(3)
    given = {n: v for n, v in operands(rng).items() if f"{n}[" in text}
    run, step = prepared(text, given)
    name = step.target.tensor
    fills = dict.fromkeys(run.fills, 0)
    wanted = interpret(parse_statements(text), {n: dense(v) for n, v in given.items()}, fills)[name]
    places = [rng.integers(0, e, 200) for e in given[name].shape]
    found = run.values_at(step, places, given[name][tuple(places)], {})
    np.testing.assert_allclose(found, wanted[tuple(places)])
    run.step(step, Frame(), {})
    np.testing.assert_allclose(run.tensors[name], wanted)


def test_a_sum_takes_the_points_of_what_is_stored() -> None:
    """10^18 points, of which three are not 0; a driver is a factor, not a dividend."""
    big = 10**9
    coords = (np.array([3, big - 1, 70]), np.array([5, 0, 7]))
    given = {"A": entries_of((big, big), coords, np.array([2.0, 3, 4]), 0), "s": np.zeros(()), "z": np.ones(10)}
    run, step = prepared("s = A[i, j]*A[i, j]", {n: given[n] for n in "As"})
    run.step(step, Frame(), {})
    assert run.tensors["s"] == 29
    run, step = prepared("s = z[k]/A[i, j]", given)
    with pytest.raises(TooManyPoints):
        run.step(step, Frame(), {})


def test_entries_are_subscripted_as_a_dense_array() -> None:
    found = entries_of((3, 4), (np.array([2, 0, 2]), np.array([1, 3, 1])), np.array([1.0, 5, 2]), np.inf)
    assert dense(found).tolist() == [[np.inf, np.inf, np.inf, 5], [np.inf] * 4, [np.inf, 3, np.inf, np.inf]]
    assert np.count_nonzero(dense(found.stored)) == 2
    assert np.count_nonzero(dense(found.emptied().stored)) == 0


def test_shapes_beyond_64_bits() -> None:
    big = (1 << 62, 1 << 62, 1 << 62)
    last = tuple(np.array([1, e - 1]) for e in big)
    found = entries_of(big, last, np.array([1.0, 2.0]), 0)
    assert found[(last[0], last[1], last[2][::-1].copy())].tolist() == [0, 0]
    assert found[last].tolist() == [1, 2]


@pytest.mark.parametrize(
    "text", ["y[i] = y[i - 1] + x[i]", "y[i] = y[x[i]]", "y[i/2] = x[i]", "y[x[i]] = 1", "y[i] hypot= A[i, j]"]
)
def test_what_cannot_be_known_at_some_places(text: str) -> None:
    given = {"A": np.ones((N, N)), "x": np.zeros(N, np.int64), "y": np.ones(N)}
    run, step = prepared(text, {n: v for n, v in given.items() if f"{n}[" in text})
    with pytest.raises(TooManyPoints):
        run.values_at(step, [np.arange(5)], np.ones(5), {})

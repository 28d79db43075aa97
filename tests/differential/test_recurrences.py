"""Equations that read their target where other points of them write it: one meaning, whatever the operators are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.errors import Unsupported
from spfgen.lang.interpret import interpret
from spfgen.lang.parse import parse_statements

RNG = np.random.default_rng(8)
GIVEN = {
    "x": RNG.integers(-5, 6, 6).astype(float),
    "b": RNG.integers(-5, 6, 6).astype(float),
    "L": np.where(RNG.random((6, 6)) < 0.6, RNG.integers(-3, 4, (6, 6)), 0).astype(float),
    "Y": np.zeros((6, 6)),
}
TEXTS = [
    "x[i] = abs(x[i-1]) + b[i]",
    "x[i] = abs(x[i+1]) + b[i]",
    "x[i] min= x[i-1] + b[i]",
    "x[i] = sqrt(coalesce(x[i-1], 1)) + abs(b[i])",
    "x[i] = max(b[i] - sum(j<i: L[i,j]*x[j]), 0)",
    "x[i] = max(b[i] - sum(j>i: L[j,i]*x[j]), 0)",
    "x[i] = abs(x[i-1]) where i % 2 == 1",
    "x[i] = abs(x[i]) + x[i-1] where i > 1",
    "x[i] = where(i > 1, x[i-2], 1)*b[i]",
    "Y[i,j] = max(coalesce(Y[i-1,j+1], 0), L[i,j])",
    "Y[i,j] = max(coalesce(Y[i+1,j], 0), coalesce(Y[i,j-1], 0)) + L[i,j]",
    "x[i(0:6:2)] = abs(x[i(1:6:2)])",
    "x[2*i] = x[2*i+1]",
    "for k { x[i] = max(coalesce(x[i-1], 0), x[i]) + L[k,0] }",
    "x[i] = x[i] + x[i-1]*b[i]  y[i] = abs(x[i])",
]


def names(text: str) -> dict[str, Any]:
    return {n: GIVEN[n].copy() for n in GIVEN if f"{n}[" in text}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("text", TEXTS)
def test_a_recurrence_means_what_the_oracle_says(text: str, layout: str) -> None:
    wanted = interpret(parse_statements(text), names(text), {})
    given = names(text)
    if "L" in given:
        given["L"] = spfgen.pack(given["L"], layout)
    found = spfgen.evaluate(text, **given)
    for name, value in (found if isinstance(found, dict) else {next(iter(wanted)): found}).items():
        np.testing.assert_allclose(value, wanted[name])


def test_the_operators_make_no_difference() -> None:
    x, b = GIVEN["x"], np.abs(GIVEN["b"])
    plain = spfgen.evaluate("x[i] = x[i-1] + b[i]", x=x.copy(), b=b)
    assert np.array_equal(spfgen.evaluate("x[i] = abs(x[i-1]) + b[i]", x=x.copy(), b=b), plain)
    assert np.array_equal(plain, np.cumsum(b))


@pytest.mark.parametrize(
    "text",
    [
        "x[i] = x[i(::-1)]",
        "x[i] = max(b[i] - sum(j: L[i,j]*x[j]), 0)",
        "x[i] min= x[j] + L[i,j]",
        "x[i] = abs(x[at[i]])",
        "x[at[i]] = x[i]",
        "x[i] = abs(x[i-1]) + b[i] where i >= 2",
        "x[i] = x[i-1] + b[i] where i >= 2",
        "for k { Y[i,j] min= Y[i,k] + Y[k,j] }",
    ],
)
def test_what_no_order_is_proved_for_is_refused_with_the_way_out(text: str) -> None:
    given = {**names(text), **({"at": np.arange(6)} if "at[" in text else {})}
    with pytest.raises(Unsupported, match="the equation assigns at other points") as error:
        spfgen.evaluate(text, **given)
    assert "write a loop" in str(error.value)
    assert "another name" in str(error.value)

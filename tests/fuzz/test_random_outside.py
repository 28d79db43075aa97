"""Random values that read outside of tensors, within reductions and without, against the oracle: shifted, scaled,
reversed and gathered subscripts within functions, choices and other reductions, of dense and sparse tensors; targets in
which several points have one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.errors import SpfgenError
from spfgen.lang.interpret import interpret
from spfgen.lang.parse import parse_statements
from tests.fuzz.carried import by_the_interpreter
from tests.fuzz.seeds import reports_of

LAYOUTS = ("csr", "coo", "csc", "dcsr", "bcsr(R=2, C=2)", "coo_unsorted", "dense", "csr fill 1.0", "coo fill 2.0")
SUBSCRIPTS = ("{0} - 1", "{0} + 1", "{0} - 2", "2 - {0}", "2*{0} - 1", "{0}/2 + 1", "{0} + {1} - 2", "{0}", "{1}")
VALUES = (
    "exp(-abs({0}))", "cos({0})", "({0})*({1})", "({0})*({1})", "({0}) + ({1})", "({0}) - ({1})", "-({0})",
    "max({0}, {1})", "hypot({0}, {1})", "({0})/(2 + cos({1}))", "where({2} < {3}, {0}, {1})", "coalesce({0}, {1})",
    "where({i} < {j}, {0}, {1})", "where({2} < {3} and {4} > 0, {0}, {1})", "where({2} > {3} or {4} < 1, {0}, {1})",
    "({2} < {3})*({0})", "2 + ({0})", "{0}", "({0})*{4}", "where(({2} > 0) == ({3} > 0), {0}, {1})",
)  # fmt: skip
REDUCED = ("sum", "sum", "sum", "max", "min", "mean", "prod")
FORMS = (
    "y[i] = {r}(j: {v})", "y[i] = D[i,j]*({v})", "y[i] += D[i,j]*({v})", "y[i] = cos({r}(j: {v}))",
    "s = {r}(i, j: {v})",
    "y[i] = {r}(j: {v} where j >= i)", "for i {{ y[i] += {r}(j: {v}) }}", "y[i] = D[i,j]*({v}) - E[i,j]*({w})",
    "y[i] = D[i,j]/(3 + cos({v}))", "y[i] -= cos({v})*D[i,j]",
    "y[i + j] = D[i,j] + ({v})", "y[2*i + j] = abs(D[i,j])*({v})", "y[i + j] += D[i,j] + ({v})",
    "for j {{ y[i] += D[i,j] + ({v}) }}", "for i {{ let t = {r}(j: D[i,j] + ({v}))  y[i] = t }}",
    "Y[i,j] = D[i,j] + ({v})", "Y[i,j] = max(D[i,j], ({v}))", "for j {{ y[i + j] = D[i,j] + ({v}) }}",
)  # fmt: skip


@dataclass
class Writer:
    rng: np.random.Generator

    def pick(self, things: Any) -> Any:
        return things[self.rng.integers(len(things))]

    def read(self, i: str, j: str) -> str:
        """A value of a tensor."""
        one, other = (self.pick(SUBSCRIPTS).format(*self.pick(((i, j), (j, i)))) for _ in range(2))
        gathered = self.pick(("at[{0}]",) * 1 + ("{0}",) * 5).format(one)
        return str(
            self.pick((f"A[{one},{other}]", f"D[{one},{other}]", f"x[{gathered}]", f"z[{one}]", f"A[{i},{one}]"))
        )

    def value(self, depth: int, i: str, j: str) -> str:
        if depth == 0:
            return self.read(i, j)
        if self.rng.random() < 0.1 and j != "k":
            return f"{self.pick(REDUCED)}(k: ({self.value(depth - 1, j, 'k')})*D[{i},k])"
        parts = [self.value(depth - int(self.rng.integers(1, depth + 1)), i, j) for _ in range(2)]
        return str(self.pick(VALUES)).format(*parts, *(self.read(i, j) for _ in range(3)), i=i, j=j)

    def statement(self) -> str:
        v, w = (self.value(int(self.rng.integers(1, 4)), "i", "j") for _ in range(2))
        with_extents = self.pick(("({v})*D[i,j]", "{v} + D[i,j]", "max({v}, D[i,j])", "where(D[i,j] > 0, {v}, E[i,j])"))
        form = self.pick(FORMS)
        return str(form).format(r=self.pick(REDUCED), v=v if "D[" in form else with_extents.format(v=v), w=w)


def operands(rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What calls get, as arrays, and the fills."""
    n, m = (int(e) for e in rng.integers(1, 5, 2))
    fill_of = str(LAYOUTS[rng.integers(len(LAYOUTS))])
    fill = float(fill_of.partition(" fill ")[2] or 0)
    dense = np.where(rng.random((n, m)) < 0.5, rng.integers(-3, 4, (n, m)), fill).astype(float)
    arrays: dict[str, Any] = {
        "A": dense,
        "D": rng.integers(-3, 4, (n, m)).astype(float),
        "E": rng.integers(-3, 4, (n, m)).astype(float),
        "x": rng.integers(-3, 4, 3).astype(float),
        "z": rng.integers(-3, 4, m).astype(float),
        "at": rng.integers(0, 3, 4),
        "y": rng.integers(-3, 4, n).astype(float),
    }
    if "bcsr" not in fill_of:  # which stores zeros, and 0 times inf is nan for these
        arrays["z"][rng.random(m) < 0.1] = np.inf
    fills = {} if fill_of == "dense" else {"A": fill}
    return {**arrays, "A": spfgen.pack(dense, fill_of)}, arrays, fills


def try_one(seed: int, level: int = 1) -> str:
    """A report of what fails; "" where nothing does."""
    rng = np.random.default_rng([seed, 41])
    text = Writer(rng).statement()
    given, arrays, fills = operands(rng)
    target = text[0] if text[0] in "yYs" and text[1] in "[ " else "y"
    used = [n for n in arrays if f"{n}[" in (text if "+=" in text or "-=" in text else text.partition("=")[2])]
    sizes = {} if "y" in used else {"i": len(arrays["y"])}
    try:
        known = {n: arrays[n] for n in used}
        expected = interpret(parse_statements(text), known, {k: v for k, v in fills.items() if k in used}, sizes)[
            target
        ]
    except ValueError:
        return ""  # it has no meaning
    try:
        own = {n: given[n].copy() if n == "y" else given[n] for n in used}
        with by_the_interpreter():
            told = f"{text}  # {seed}"  # a kernel of the same text would be called again, and knows no plan any more
            found = np.asarray(spfgen.evaluate(told, **own, sizes=sizes if target == "y" else None))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    except (SpfgenError, AssertionError) as error:
        return (
            f"seed {seed}: {text}\n  A : {given['A'].layout}\n  {known}\n  {type(error).__name__}: {str(error)[:700]}"
        )
    return ""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(24))
def test_random_reads_outside(seed: int) -> None:
    report = try_one(seed)
    assert not report, report


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_many_random_reads_outside() -> None:
    reports = reports_of(try_one)
    assert not reports, "\n\n".join(reports)

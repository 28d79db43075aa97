"""Compiled kernels beside the oracle of the language: each construct that is compared with hand-written numpy, with
operands that are dense and with operands in layouts of all sorts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.lang.interpret import interpret
from spfgen.lang.parse import parse_statements
from tests.differential.support import Batch, Program, packed
from tests.unit.lang import test_interpret as cases
from tests.unit.lang.test_interpret import CASES, KERNELS, Means, operands_of

Array = np.ndarray[Any, Any]
LAYOUTS = {
    0: ("scalar",),
    1: ("sv", "sv_unsorted"),
    2: ("csr", "coo", "csc", "dcsr", "coo_unsorted", "ell"),
    3: ("coo3", "csf"),
}
OTHER_MEANING = {
    "function h(p) { case 0 : 7  return 1/p }  y[i] = h(b[i] - 1)": "the case contradicts the body",
}
"""What compiled kernels do otherwise, and why."""


@dataclass(frozen=True, eq=False)
class Tried:
    case: Means
    target: str
    given: dict[str, Array]
    layouts: dict[str, str]
    fills: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.case.text} {self.layouts}"


def tried(number: int, case: Means, sparse: bool) -> Tried | None:
    given, target = operands_of(case)
    if target not in given:
        wanted = np.asarray(case.numpy())
        given[target] = np.zeros(wanted.shape, wanted.dtype)
    layouts, fills = {}, {}
    for name, array in given.items():
        choices = LAYOUTS[array.ndim]
        layout = "dense"
        if array.ndim and name != target and array.dtype == float and (sparse or name in case.fills):
            layout = choices[number % len(choices)]
            fills[name] = case.fills.get(name, 0)
        fill = f" fill {fills[name]}" if fills.get(name) else ""
        layouts[name] = f"{layout if array.ndim else 'scalar'}<{array.dtype}>{fill}"
    if sparse and (not fills or "function" in case.text):
        return None
    return Tried(case, target, given, layouts, fills)


@cache
def everything() -> list[Tried]:
    plain = [c for c in CASES if c.text not in OTHER_MEANING and len(parse_statements(c.text)) == 1]
    found = [
        tried(n, c, sparse) for n, c in enumerate(plain) for sparse in ((False, True) if n % 4 == 1 else (n % 4 != 3,))
    ]
    return [t for t in found if t is not None]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", [0, 1])
def test_compiled_kernels_mean_what_the_oracle_says(part: int) -> None:
    todo = everything()[part::2]
    batch = Batch([Program(t.case.text, {n: t.layouts[n] for n in t.layouts if t.given[n].ndim}) for t in todo])
    for number, one in enumerate(todo):
        tensors = {}
        for declared in batch.generated[number].program.tensors:
            array = one.given[declared.name]
            layout = one.layouts[declared.name]
            if array.ndim:
                tensors[declared.name] = spfgen.pack(array, layout)
            else:  # the text says nothing of its type
                tensors[declared.name] = packed(declared.layout, array.astype(declared.value_type))
        batch.run(number, tensors, sizes=one.case.sizes)
        steps = parse_statements(one.case.text)
        wanted = interpret(steps, one.given, one.fills, one.case.sizes)[one.target]
        np.testing.assert_allclose(tensors[one.target].to_numpy(), wanted, rtol=1e-12, err_msg=str(one))


def test_the_kernels_of_the_language() -> None:
    right = cases.whole(1, 4, 3)
    left = cases.A
    thin = np.where(cases.f6, cases.x, 0)
    spec = spfgen.parse(cases.LANGUAGE)
    total = spec.kernels["k"].compile()(A=spfgen.pack(left, "csr"), x=spfgen.pack(thin, "sv"), B=right)
    np.testing.assert_array_equal(total, interpret(KERNELS["k"], {"A": left, "x": thin, "B": right})["C"])
    large = spec.kernels["first_large"].compile()(A=spfgen.pack(left / 9, "csr"))
    np.testing.assert_array_equal(large, interpret(KERNELS["first_large"], {"A": left / 9})["f"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "operands", "wanted"),
    [
        ("m[i] or= b[i]", {"b": cases.b - 3}, cases.b != 3),
        ("m[i] and= b[i]", {"m": cases.m, "b": cases.b - 3}, cases.m & (cases.b != 3)),
        ("y[i] |= n[i]", {"n": cases.n5}, cases.n5),
        ("y[i] max= 3*n[i]", {"n": cases.n5}, np.maximum(3 * cases.n5, 0)),
        ("function both(p, q) { return p & q  property commutative }  y[i] = both(j: M[i, j])",
         {"M": cases.A.astype(np.int64)}, np.bitwise_and.reduce(cases.A.astype(np.int64), axis=1)),
    ],
)  # fmt: skip
def test_types_of_updates_and_of_reductions_by_functions(text: str, operands: dict[str, Array], wanted: Array) -> None:
    got = spfgen.evaluate(text, **{n: a.copy() for n, a in operands.items()})
    np.testing.assert_array_equal(got, wanted)
    assert got.dtype == wanted.dtype


def test_a_property_that_does_not_hold_is_refused_when_it_would_be_used() -> None:
    text = "function less(p, q) { return p - q  property commutative }  y[i] = less(b[i], 2)"
    with pytest.raises(spfgen.errors.SpecError, match="expected `less` to be as declared"):
        spfgen.evaluate(text, b=cases.b)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["dense", "sv", "bit_map"])
@pytest.mark.parametrize("value", ["{}", "maximum({}, -100)", "exp(0*w[j])*({})"])
def test_an_index_has_one_range_in_a_statement(value: str, layout: str) -> None:
    """That of the extents where it stands alone, in all terms, whatever the value is made of."""
    rng = np.random.default_rng(3)
    c, b, w = rng.random((3, 2)), rng.random(3), rng.random(2)
    for text in ("C[i,j] + B[i + 1]*w[j]", "sum(i: C[i,j]) + sum(i: B[i + 1]*w[j])"):
        if value.startswith("exp") and text.startswith("C"):
            continue  # the sum is outermost there
        kernel = spfgen.compile(f"y[j] = {value.format(text)}", C="csr", B=layout, w="dense", y="dense")
        found = kernel(C=spfgen.pack(c, "csr"), B=spfgen.pack(b, layout), w=w)
        np.testing.assert_allclose(found, c.sum(0) + b[1:].sum() * w)
    with pytest.raises(spfgen.SpfgenError, match="extents that agree"):
        spfgen.evaluate("y[i] = max(j: A[i,j]) + B[i,j]", A=np.ones((2, 3)), B=np.ones((2, 5)))

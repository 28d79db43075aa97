"""Names that a user may take and C, its library, the solver or the generated code use too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.run.compile import find_compiler

LAYOUT = """
layout NAME(nrow, ncol) {
    size SIZE
    relation { [r, q] -> [i, j] : 0 <= r < nrow and PTR(r) <= q < PTR(r + 1) and i = r and j = COL(q) }
    index PTR[nrow + 1] { range 0 <= PTR(p) <= SIZE  property increasing }
    index COL[SIZE] { range 0 <= COL(p) < ncol }
    value VAL[SIZE] at [q]
}
"""
DENSE = np.array([[0.0, 2, 0], [1, 0, 3]])
A = csr_array(DENSE)
X = np.array([1.0, 2, 4])


def layout(text: str = LAYOUT, **names: str) -> spfgen.Layout:
    found = {"NAME": "rows", "SIZE": "nnz", "PTR": "ptr", "COL": "col", "VAL": "val", **names}
    for slot, name in found.items():
        text = text.replace(slot, name)
    return spfgen.parse(text).layouts[found["NAME"]]


def tensor(of: spfgen.Layout, ptr: str = "ptr", col: str = "col", val: str = "val") -> spfgen.Tensor:
    return spfgen.tensor(of, shape=DENSE.shape, **{ptr: A.indptr, col: A.indices, val: A.data})


MANY = {"NAME": "NAN", "SIZE": "INT64_MIN", "PTR": "as", "COL": "p", "VAL": "__LINE__"}
OTHERS = {"NAME": "free", "SIZE": "SPFGEN_OK", "PTR": "lambda", "COL": "INFINITY", "VAL": "spfgen_min"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("names", [MANY, OTHERS, {"PTR": "xor", "COL": "abs", "SIZE": "distinct"}])
def test_names_in_a_layout(names: dict[str, str]) -> None:
    """In C macros, in the solver's language words, or the name of a variable and of an array at once."""
    made = layout(**names)
    given = tensor(made, names["PTR"], names["COL"], names.get("VAL", "val"))
    assert spfgen.evaluate("y[i] = A[i, j]*x[j]", A=given, x=X).tolist() == [4, 13]
    assert np.array_equal(spfgen.pack(DENSE, made).to_numpy(), DENSE)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["UINT32_MAX", "free", "spfgen_search_int32", "spfgen_threads", "__FILE__", "malloc"])
def test_names_of_an_index_and_a_size(name: str) -> None:
    text = f"tensor A : csr  tensor x : sv  tensor y : dense  y[{name}] = A[{name}, k]*x[k]"
    sized = f"tensor A : csr  tensor x : sv  tensor y : dense  size {name}  y[i] = A[i, k]*x[k] where i < {name}"
    x = spfgen.pack(X, "sv")
    for k, given in ((text, {}), (sized, {name: 9})):
        kernel = spfgen.parse(f"kernel k {{ {k}  schedule {{ find x.p : search }} }}").kernels["k"].compile()
        assert kernel(A=A, x=x, **given).tolist() == [4, 13]


def test_names_longer_than_a_line() -> None:
    name = "n" * 300
    assert spfgen.evaluate(f"y[i] = A[i, j]*{name}[j]", A=A, **{name: X}).tolist() == [4, 13]


def test_two_layouts_of_one_name() -> None:
    """Each has a struct of its own; so has one whose struct would be called like a tensor."""
    turned = layout(LAYOUT.replace("j = COL(q)", "j = ncol - 1 - COL(q)").replace("SIZE", "count"))
    found = spfgen.evaluate("C[i, j] = A[i, j] + 10*B[i, j]", A=tensor(layout()), B=tensor(turned))
    assert np.array_equal(np.asarray(found), DENSE + 10 * DENSE[:, ::-1])
    name = "csr_f64_i32_t"
    assert np.array_equal(spfgen.evaluate(f"C[i, j] = {name}[i, j]*B[i, j]", **{name: A}, B=A), DENSE**2)


def test_a_size_that_nothing_needs_is_no_warning(tmp_path: Path) -> None:
    made = spfgen.parse("kernel k { tensor x, y : dense  size n, m  y[i] = x[i] where i < n or n <= i }").kernels["k"]
    generated = made.compile().generated
    assert generated.program.parameters == ("n", "m")
    (tmp_path / "k.c").write_text(generated.whole, encoding="utf-8")
    compiler = find_compiler()
    command = [*compiler.command, "-std=c99", "-Wall", "-Wextra", "-Werror", *compiler.openmp, "-c", "k.c"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr

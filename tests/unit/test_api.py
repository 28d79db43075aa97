"""The Python contract: load, parse, tensor, compile, call."""

from __future__ import annotations

import json
import re
import timeit
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen.errors import DataError, SpecError, UsageError

DATA = Path(__file__).resolve().parents[1] / "data"
ROWBE = """
layout rowbe(nrow, ncol) {
    size nnz
    relation { [pi, pj] -> [i, j] :
        0 <= pi < nrow and rbeg(pi) <= pj < rend(pi) and i = pi and j = colidx(pj) }
    index rbeg[nrow]  { range 0 <= rbeg(p) <= nnz }
    index rend[nrow]  { range 0 <= rend(p) <= nnz }
    index colidx[nnz] { range 0 <= colidx(p) < ncol }
    value val[nnz] at [pj]
}
kernel spmv {
    tensor A : rowbe
    tensor x, y : dense
    y[i] += A[i, j]*x[j]
}
"""
ARRAYS = {"rbeg": np.array([1, 0]), "rend": np.array([3, 1]), "colidx": np.array([2, 0, 1])}
VALUES = np.array([1.0, 2.0, 4.0])
DENSE = np.array([[2.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
X = np.array([1.0, 10.0, 100.0])


def test_the_contract(tmp_path) -> None:
    path = tmp_path / "file.spf"
    path.write_text(ROWBE)
    spec = spfgen.load(path)
    layout = spec.layouts["rowbe"]
    A = spfgen.tensor(layout, shape=(2, 3), **ARRAYS, val=VALUES)  # noqa: N806
    assert A.sizes["nnz"] == 3
    assert all(np.shares_memory(A.arrays[n], a) for n, a in ARRAYS.items())
    expected = (DENSE @ X).tolist()
    for kernel in (
        spfgen.compile("y[i] += A[i,j]*x[j]", A=layout, x="dense", y="dense"),
        spec.kernels["spmv"].compile(threads=4),
    ):
        assert kernel(A=A, x=X).tolist() == expected
        y = np.ones(2)
        assert kernel(A=A, x=X, y=y) is y
        assert y.tolist() == [e + 1 for e in expected]
        assert f"int {kernel.name}(" in kernel.source
        assert f"int {kernel.name}(" in kernel.header
        assert "iteration space" in kernel.explain()
        assert json.loads(json.dumps(kernel.explain(json=True)))["kernel"] == kernel.name
    assert spec.kernels["spmv"].compile(threads=4).threads == 4


def test_sizes_where_no_length_gives_them() -> None:
    text = "layout flag(n) { size many\n relation { [p] -> [i] : 0 <= p < n and i = p and p <= many }"
    layout = spfgen.parse(text + " value val[n] at [p] }").layouts["flag"]
    assert spfgen.tensor(layout, sizes={"many": 5}, val=[1.0, 2.0]).sizes == {"n": 2, "many": 5}
    with pytest.raises(DataError, match=r"`many`.*\n.*sizes=\{'many': ...\}"):
        spfgen.tensor(layout, val=[1.0, 2.0])


def test_representations_are_short() -> None:
    spec = spfgen.parse(ROWBE)
    assert repr(spec) == "<spfgen.Spec layouts: rowbe; kernels: spmv>"
    assert repr(spec.layouts["rowbe"]) == "<spfgen layout rowbe>"
    assert repr(spec.layouts["bcsr"](R=3)) == "<spfgen layout bcsr(R=3)>"
    assert repr(spec.kernels["spmv"]) == "<spfgen kernel spmv>"
    assert repr(spec.kernels["spmv"].compile()) == "<spfgen.Kernel spmv: y[i] += A[i, j]*x[j]>"
    assert repr(spec.layouts) == "<spfgen layouts: rowbe>"
    assert repr(spec.kernels) == "<spfgen kernels: spmv>"


def test_names_that_a_spec_does_not_define() -> None:
    spec = spfgen.parse(ROWBE)
    for table, name, hint in (
        (spec.layouts, "rowbee", "did you mean `rowbe`?"),
        (spec.layouts, "crs", "did you mean `csr`?"),
        (spec.kernels, "spvm", "did you mean `spmv`?"),
        (spec.kernels, "zzzzzz", "its kernels: spmv"),
    ):
        for kind in (SpecError, KeyError, spfgen.SpfgenError):
            with pytest.raises(kind, match=re.escape(hint)):
                table[name]
        assert name not in table
        assert table.get(name) is None
    for name in (3, "csr("):
        assert name not in spec.layouts
        with pytest.raises(KeyError):
            spec.layouts[name]
    assert list(spec.layouts) == ["rowbe"]
    assert "csr" in spec.layouts
    assert dict(spec.kernels).keys() == {"spmv"}


def test_constants_of_a_layout() -> None:
    bcsr = spfgen.parse("").layouts["bcsr"]
    assert bcsr(R=3).layout().constants == (("R", 3), ("C", 2))
    assert bcsr(R=3)(C=np.int64(5)).layout().constants == (("R", 3), ("C", 5))
    assert bcsr(R=3) == bcsr(R=3) != bcsr(R=4)
    with pytest.raises(SpecError, match="`Q`"):
        bcsr(Q=1)
    with pytest.raises(SpecError, match="positive"):
        bcsr(R=0)
    for value in ("3", 1.5, None):
        with pytest.raises(UsageError, match="integer for the constant `R`"):
            bcsr(R=value)
    dense = np.eye(6)
    assert spfgen.pack(dense, "bcsr", R=3, C=2).layout is spfgen.pack(dense, "bcsr", R=np.int64(3), C=2).layout
    for value in (3.0, [3]):
        with pytest.raises(UsageError, match="integer for the constant `R`"):
            spfgen.pack(dense, "bcsr", R=value, C=2)
    given = sp.random_array((6, 6), density=0.5, rng=np.random.default_rng(0))
    for layout in ("bcsr(R=3, C=2)", bcsr(R=3, C=2)):
        kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A=layout, x="dense", y="dense")
        assert np.allclose(kernel(A=given, x=np.ones(6)), given @ np.ones(6))


def test_the_layout_of_a_tensor_may_be_named() -> None:
    mine = spfgen.parse(
        "layout mine(n) { relation { [p] -> [i] : 0 <= p < n and i = n - 1 - p }  value val[n] at [p] }"
    )
    a, x = spfgen.pack(np.eye(6), "bcsr", R=3, C=2), spfgen.pack(np.arange(6.0), mine.layouts["mine"])
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A=a.layout, x=x.layout, y=x.layout)
    assert np.array_equal(kernel(A=a, x=x).to_numpy(), np.arange(6.0))
    assert spfgen.pack(np.eye(6), a.layout).layout == a.layout


def test_a_family_at_two_ranks() -> None:
    kernel = spfgen.compile("y[i] = B[i, j]*x[j]", B="coo", x="coo", y="dense")
    assert kernel(B=DENSE, x=X).tolist() == (DENSE @ X).tolist()
    shapes = {t.name: t.layout.rank for t in kernel.generated.program.tensors}
    assert shapes == {"B": 2, "x": 1, "y": 1}


# --- operands and results ------------------------------------------------------------------------------


def test_statements_over_several_lines() -> None:
    kernel = spfgen.compile("y[i] = A[i, j]\n    *x[j]\nz[i] = 2*y[i]\n", A="csr", x="dense", y="dense", z="dense")
    results = kernel(A=DENSE, x=X)
    assert {n: v.tolist() for n, v in results.items()} == {"y": [42, 100], "z": [84, 200]}


def test_scalars() -> None:
    dot = spfgen.compile("s += a*x[i]*y[i]", x="dense", y="dense")
    result = dot(x=X, y=X, a=2)
    assert isinstance(result, np.float64)
    assert result == 20202
    assert dot(x=X, y=X, a=np.array(2.0), s=1.0) == 20203
    total = np.array(5.0)
    assert dot(x=X, y=X, a=1.0, s=total) is total
    assert total == 10106
    total.flags.writeable = False
    with pytest.raises(DataError, match=r"`s`.*read-only"):
        dot(x=X, y=X, a=1.0, s=total)
    for wrong in ("2", [1.0, 2.0], {}):
        with pytest.raises(DataError, match="`a`"):
            dot(x=X, y=X, a=wrong)


def test_results_by_the_kind_of_layout() -> None:
    tensors = "tensor A : csr\n tensor C : csr shares A\n tensor D : dense_col\n"
    statements = "C[i, j] = 2*A[i, j]\n D[i, j] = A[i, j]\n s += A[i, j]"
    results = spfgen.parse(f"kernel f {{ {tensors} {statements} }}").kernels["f"].compile()(A=DENSE)
    assert isinstance(results["C"], spfgen.Tensor)
    assert results["C"].to_numpy().tolist() == (2 * DENSE).tolist()
    assert isinstance(results["D"], np.ndarray)
    assert results["D"].tolist() == DENSE.tolist()
    assert isinstance(results["s"], np.float64)


def test_results_are_dense_where_nothing_else_is_said() -> None:
    twice = spfgen.compile("y[i] = A[i, j]*x[j]\nfor i { z[i] = 2*y[i] }", A="csr", x="dense")
    assert {n: v.tolist() for n, v in twice(A=DENSE, x=X).items()} == {"y": [42, 100], "z": [84, 200]}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("statement", "types", "number", "result"),
    [
        ("y[i] = x[i]", ["float32"], None, "float32"),
        ("y[i] = x[i]", ["int32"], None, "int32"),
        ("y[i] = x[i]/2", ["int64"], None, "float64"),
        ("y[i] = x[i]*0.5", ["int64"], None, "float64"),
        ("y[i] = x[i]/2", ["float32"], None, "float32"),
        ("y[i] = x[i]*z[i]", ["float32", "float64"], None, "float64"),
        ("y[i] = a*x[i]", ["float32"], 2.0, "float32"),
        ("y[i] = a*x[i]", ["float32"], np.float64(2.0), "float64"),
        ("y[i] = a*x[i]", ["int8"], 2, "int8"),
        ("y[i] = a*x[i]", ["int8"], 2.5, "float64"),
        ("y[i] = a*x[i]", ["float32"], 2j, "complex64"),
    ],
)
def test_types_of_results_that_are_made(statement, types, number, result) -> None:
    given = dict(zip("xz", [np.array([3, 4]).astype(t) for t in types], strict=False))
    kernel = spfgen.compile(statement, **dict.fromkeys([*given, "y"], "dense"))
    made = kernel(**given, **({} if number is None else {"a": number}))
    assert made.dtype == result
    expected = eval(statement.removeprefix("y[i] = ").replace("[i]", ""), {**given, "a": number})
    assert np.array_equal(made, expected)


def test_sizes_as_keywords() -> None:
    kernel = spfgen.parse("kernel f { size n\n tensor x, y : dense\n y[i] = x[i] where i < n }").kernels["f"].compile()
    assert kernel(x=X, n=2).tolist() == [1, 10, 0]
    assert kernel(x=X, sizes={"n": np.int32(1)}).tolist() == [1, 0, 0]
    with pytest.raises(UsageError, match="size `n`"):
        kernel(x=X)
    for wrong in (-1, 2.5, "2", 2**63):
        with pytest.raises(DataError, match="`n`"):
            kernel(x=X, n=wrong)


def test_extents_that_only_the_caller_knows() -> None:
    ones = spfgen.compile("y[i] = a", y="dense")
    assert ones(a=1.0, sizes={"i": 3}).tolist() == [1.0] * 3
    with pytest.raises(UsageError, match=r"output `y`(.|\n)*sizes=\{'i': \.\.\.\}"):
        ones(a=1.0)
    filled = spfgen.compile("y[i, j, k] = a*x[k]", x="dense")
    with pytest.raises(UsageError, match=r"sizes=\{'i': \.\.\., 'j': \.\.\.\}"):
        filled(a=1.0, x=X)
    with pytest.raises(DataError, match=r"size given for `i` is 4 and y\.n_1 is 3"):
        ones(a=1.0, y=np.zeros(3), sizes={"i": 4})
    with pytest.raises(UsageError, match=r"`k` is neither(.|\n)*known: i"):
        ones(a=1.0, sizes={"k": 4})
    with pytest.raises(DataError, match="`y` that fits in memory"):
        ones(a=1.0, sizes={"i": 2**61})


def test_wrong_operands() -> None:
    kernel = spfgen.parse(ROWBE).kernels["spmv"].compile()
    with pytest.raises(UsageError, match=r"`B`(.|\n)*its operands: A, x, y"):
        kernel(A=DENSE, x=X, B=X)
    for missing in ({}, {"x": None}):
        with pytest.raises(UsageError, match="operand `x`, but it is missing"):
            kernel(A=DENSE, **missing)


def test_tensors_may_have_any_name() -> None:
    kernel = spfgen.compile("self[i] = layout[i]*statements[i]", self="dense", layout="dense", statements="dense")
    assert kernel(layout=X, statements=X).tolist() == (X * X).tolist()


def test_empty_data() -> None:
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A="csr", x="dense", y="dense")
    assert kernel(A=sp.csr_array((0, 0)), x=[]).shape == (0,)
    assert kernel(A=sp.csr_array((3, 0)), x=np.zeros(0)).tolist() == [0, 0, 0]
    assert kernel(A=sp.csr_array((0, 3)), x=X).shape == (0,)
    assert kernel(A=[[2.0]], x=[3.0]).tolist() == [6.0]


# --- bound kernels -------------------------------------------------------------------------------------


def test_a_bound_kernel_is_called_again_and_again() -> None:
    kernel = spfgen.compile("y[i] += A[i, j]*x[j]", A="csr", x="dense", y="dense", threads=1)
    x, y = X.copy(), np.zeros(2)
    bound = kernel.bind(A=DENSE, x=x, y=y)
    bound()
    bound()
    assert y.tolist() == (2 * DENSE @ X).tolist()
    x[:] = 0
    bound()
    assert y.tolist() == (2 * DENSE @ X).tolist()
    assert repr(bound).startswith("<spfgen.Bound kernel: A <spfgen.Tensor csr, 2 x 3")
    assert min(timeit.repeat(bound, number=200, repeat=20)) / 200 < 25e-6


def test_numbers_of_threads() -> None:
    for threads in (0, -1, 10**6, 2.5, "4"):
        with pytest.raises(UsageError, match="threads"):
            spfgen.compile("y[i] = x[i]", x="dense", y="dense", threads=threads)
    given = sp.random_array((3000, 3000), density=0.01, format="csr", rng=np.random.default_rng(0))
    for threads in (1, 2, 3):
        kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A="csr", x="dense", y="dense", threads=threads)
        assert np.allclose(kernel(A=given, x=np.ones(3000)), given.sum(axis=1))


# --- errors of compile ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statements", "options", "kind", "words"),
    [
        ("y[i] = x[i]", {"y": "dense"}, SpecError, ["<expression>:1:8", "layout for `x`", "compile(..., x=LAYOUT)"]),
        ("y[i] = x[i]", {"x": "dense", "y": "dense", "yy": "csr"}, SpecError, ["`yy`", "did you mean `y`?"]),
        ("y[i] = x[i]", {"x": "dense", "y": "denze"}, SpecError, ["`denze`", "did you mean `dense`?"]),
        ("y[i] = x[i]", {"x": "dense", "y": 3}, UsageError, ["a layout or its name", "for `y`", "an int"]),
        ("y[i] = x[i]", {"x": X}, UsageError, ["an ndarray", "`T.layout`"]),
        ("y[i] = x[i]", {"x": "dense", "optimise": 1}, UsageError, ["did you mean `optimize`?"]),
        ("y[i] = f(x[i])", {"x": "dense", "f": len}, UsageError, ["a function of numbers in `f`", "it fails"]),
        ("y[i] = x[i", {"x": "dense", "y": "dense"}, SpecError, ["<expression>:1:"]),
        ("y[i] = x[i, j]", {"x": "csc", "y": "csr"}, SpecError, ["`y`", "2 subscripts"]),
        ("", {}, SpecError, ["empty"]),
        (None, {}, UsageError, ["NoneType"]),
        ("y[i] = x[i]" + 400 * " + x[i]", {"x": "dense", "y": "dense"}, SpecError, ["<expression>:1:8", "at most 250"]),
        ("y[i] = " + 400 * "-" + "x[i]", {"x": "dense", "y": "dense"}, SpecError, ["<expression>:1:", "at most 250"]),
        ("y[i] = x[i]", {"x": "dense", "y": "dense", "name": "a b"}, UsageError, ["`a b`"]),
        ("y[i] = x[i]", {"x": "dense", "y": "dense", "order": ["q"]}, SpecError, ["`q`"]),
        ("y[i] = x[i]", {"x": "sv", "y": "dense", "finds": {"x.q": "hash"}}, SpecError, ["`x.q`", "positions: x.p"]),
        ("y[i] = x[i]", {"x": "sv", "y": "dense", "finds": {"x.p": "hsh"}}, SpecError, ["did you mean `hash`?"]),
        ("y[i] = x[i]", {"x": "sv", "y": "dense", "finds": {"x.p": 1}}, UsageError, ["'x.p': 1"]),
        ("y[i] = x[i]", {"x": "sv", "y": "dense", "finds": "x.p"}, UsageError, ["{'A.pj': 'hash'}", "str"]),
    ],
)
def test_what_cannot_be_compiled(statements, options, kind, words) -> None:
    with pytest.raises(kind) as caught:
        spfgen.compile(statements, **options)
    for word in words:
        assert word in str(caught.value)


def test_sizes_that_only_extents_have_are_operands_too() -> None:
    spec = spfgen.parse("kernel eye { size n, m\n tensor y[n, m] : dense\n y[i, j] = 1 where i = j }")
    eye = spec.kernels["eye"].compile()
    assert np.array_equal(eye(n=3, m=2), np.eye(3, 2))
    with pytest.raises(DataError, match="the size given for `n` is 3"):
        eye(n=3, y=np.zeros((4, 2)))
    with pytest.raises(UsageError, match="its operands: y, n, m"):
        eye(k=3)


def test_a_spec_that_is_no_text() -> None:
    with pytest.raises(UsageError, match="bytes"):
        spfgen.parse(b"layout")  # type: ignore[arg-type]


def test_the_order_of_loops() -> None:
    layouts = {"A": "dense", "x": "dense", "y": "dense"}
    for order in (["j", "i"], "j", ["i"]):
        kernel = spfgen.compile("y[i] += A[i, j]*x[j]", **layouts, order=order)
        assert kernel.explain(json=True)["statements"][0]["loop_order"][0] == order[0]
        assert kernel(A=DENSE, x=X).tolist() == (DENSE @ X).tolist()


def test_a_file_that_is_not_there(tmp_path) -> None:
    for path in (tmp_path / "no.spf", tmp_path):
        with pytest.raises(DataError, match=re.escape(str(path))):
            spfgen.load(path)


def test_what_there_is_is_shown() -> None:
    assert {"evaluate", "pack", "reshape", "asarray", "Tensor", "LazyArray"} <= set(dir(spfgen))
    for name in dir(spfgen):
        assert getattr(spfgen, name) is not None
    with pytest.raises(AttributeError, match="did you mean `evaluate`"):
        _ = spfgen.evalute
    with pytest.raises(AttributeError, match=r"no attribute 'qwertz'$"):
        _ = spfgen.qwertz


def test_names_of_scipy() -> None:
    tensor = spfgen.pack(np.eye(2), "csr")
    said = {"indptr": "A.arrays", "tocsc": r"convert\(", "multiply": r"A \* B"}
    for name, words in said.items():
        with pytest.raises(AttributeError, match=words):
            getattr(tensor, name)


def test_files_of_entries(tmp_path) -> None:
    (tmp_path / "a.tns").write_text("1 2 3 4.5\n2 2 2 1\n")
    tensor = spfgen.load_tensor(tmp_path / "a.tns")
    assert (tensor.shape, tensor[0, 1, 2], tensor.nse) == ((2, 2, 3), 4.5, 2)
    matrix = spfgen.load_tensor(DATA / "bcsstk09.mtx.gz")
    assert matrix.shape == (1083, 1083)
    with pytest.raises(DataError, match="but this is a text") as caught:
        spfgen.pack("a.mtx", "csr")
    assert "spfgen.load_tensor" in caught.value.notes[0]


def test_settings_of_compile_in_evaluate() -> None:
    with pytest.raises(UsageError, match="`optimize` is not one") as caught:
        spfgen.evaluate("s = x[i]", x=np.ones(2), optimize=1)
    assert "spfgen.compile" in caught.value.notes[0]


def test_names_behind_a_point() -> None:
    kernels = spfgen.parse("kernel twice { tensor x, y : dense y[i] = 2*x[i] }").kernels
    for name, words in (("twice", r"\['twice'\]"), ("twise", "did you mean `twice`"), ("other", "in brackets$")):
        with pytest.raises(AttributeError, match=words):
            getattr(kernels, name)
    assert kernels._ipython_key_completions_() == ["twice"]


def test_a_size_is_no_constant() -> None:
    with pytest.raises(SpecError, match="expected a constant of layout `bcsr`, but `nb` is not one") as caught:
        spfgen.pack(np.eye(2), "bcsr", nb=1)
    assert "`nb` is a size" in caught.value.notes[0]


def test_a_tensor_is_made_of_a_layout() -> None:
    with pytest.raises(UsageError, match="expected a layout, but this is a str"):
        spfgen.Tensor("csr", {}, {})  # type: ignore[arg-type]

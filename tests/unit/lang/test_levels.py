"""Layouts as levels: each packs, validates and computes as its relation says; built-in ones and back."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import spfgen
from spfgen.catalogue import layout_named
from spfgen.cli import run as command
from spfgen.lang.levels import declaration, parse_levels
from spfgen.lang.taco import format_of, parse_format, spec_text, statements_of
from spfgen.layout.as_levels import levels_of

LEVELS = [
    "(i) -> (i : compressed)",
    "(i, j) -> (i : dense, j : compressed)",
    "(i, j) -> (i : dense, j : compressed(nonordered))",
    "(i, j) -> (i : compressed(nonunique), j : singleton)",
    "(i, j) -> (i floordiv 2 : dense, j floordiv 3 : compressed, i mod 2 : dense, j mod 3 : dense)",
    "(i, j) -> (j - i : compressed, i : range)",
    "(i, j) -> (i : dense, j floordiv 4 : dense, j mod 4 : structured[2, 4])",
    "(i, j, k) -> (i : dense, j : dense, k : compressed)",
    "(i, j, k) -> (i : dense, j : compressed(nonunique), k : singleton)",
    "(i, j, k) -> (i : compressed, j : dense, k : compressed)",
]
COMPUTED = (LEVELS[4], LEVELS[5], LEVELS[9])
"""With these something is computed; a compilation takes longer than all the rest."""
BUILTIN = {
    "csr": "(i, j) -> (i : dense, j : compressed)",
    "csc": "(i, j) -> (j : dense, i : compressed)",
    "dcsr": "(i, j) -> (i : compressed, j : compressed)",
    "dcsc": "(i, j) -> (j : compressed, i : compressed)",
    "csr_unsorted": "(i, j) -> (i : dense, j : compressed(nonunique, nonordered))",
    "bcsr": "(i, j) -> (i floordiv 2 : dense, j floordiv 2 : compressed, i mod 2 : dense, j mod 2 : dense)",
    "coo": "(i_1, i_2) -> (i_1 : compressed(nonunique), i_2 : singleton)",
    "csf": "(i_1, i_2) -> (i_1 : compressed, i_2 : compressed)",
    "dense_col": "(i_1, i_2) -> (i_2 : dense, i_1 : dense)",
    "dia": "(i, j) -> (j - i : compressed(nonordered), j : range)",
    "sv_decreasing": "(i) -> (i : compressed(nonordered))",
    "warp24": "(i, j) -> (i : dense, j floordiv 4 : dense, j mod 4 : structured[2, 4])",
}
NO_LEVELS = {"ell": "slots", "sym_csr": "no one equation", "lower": "`a` does not run", "vbl": "`p` does not run"}


def data(rank: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    shape = (5, 6, 4)[:rank]
    return np.where(rng.random(shape) < 0.3, rng.integers(1, 9, shape), 0).astype(float)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", LEVELS)
def test_levels_are_layouts(text) -> None:
    levels = parse_levels(text)
    assert str(levels) == text
    dense = data(len(levels.dims))
    if "structured" in text:
        dense[:, 2:4] = 0
    tensor = spfgen.pack(dense, text)
    tensor.validate()
    assert (tensor.to_numpy() == dense).all()
    if text not in COMPUTED:
        return
    subscripts = ", ".join(levels.dims)
    kernel = spfgen.compile(f"R[{subscripts}] = T[{subscripts}]*U[{subscripts}]", T=text, U=text, R="dense")
    assert (kernel(T=tensor, U=tensor) == dense**2).all()


@pytest.mark.parametrize("name", BUILTIN)
def test_builtin_layouts_as_levels_and_back(name) -> None:
    """The same levels, and in arrays of the same order the same numbers."""
    levels = levels_of(layout_named(name))
    assert str(levels) == BUILTIN[name]
    spec = spfgen.parse(declaration(levels, "again"))
    assert str(levels_of(spec.layouts["again"].layout())) == BUILTIN[name]
    dense = data(len(levels.dims))
    if "structured" in BUILTIN[name]:
        dense[:, 2:4] = 0
    ours, theirs = spfgen.pack(dense, spec.layouts["again"]), spfgen.pack(dense, name)
    assert np.array_equal(ours.to_numpy(), theirs.to_numpy())
    if "nonordered" not in BUILTIN[name]:
        assert sorted(a.tolist() for a in map(np.ravel, ours.arrays.values())) == sorted(
            a.tolist() for a in map(np.ravel, theirs.arrays.values())
        )


@pytest.mark.parametrize("name", NO_LEVELS)
def test_layouts_that_are_no_levels(name) -> None:
    with pytest.raises(spfgen.SpfgenError, match=NO_LEVELS[name]):
        levels_of(layout_named(name))


def test_levels_in_a_spec_file_and_arrays_of_scipy() -> None:
    spec = spfgen.parse("""
        layout mine = (i, j) -> (i : dense, j : compressed)
        layout other = (i, j) -> (i floordiv 2 : dense, j floordiv 2 : compressed, i mod 2 : dense, j mod 2 : dense)
        kernel k { tensor A : mine  tensor x, y : dense  y[i] = A[i, j]*x[j] }
    """)
    matrix = scipy.sparse.csr_array(data(2))
    x = np.arange(6.0)
    assert np.allclose(spec.kernels["k"].compile()(A=matrix, x=x), matrix @ x)
    product = spfgen.compile("y[i] = A[i, j]*x[j]", A=spec.layouts["mine"], x="dense", y="dense")
    assert product.bind(A=matrix, x=x).tensors["A"].arrays["crd_2"] is matrix.indices
    assert list(spec.layouts) == ["mine", "other"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(i, j) -> (i : dense, j : singletons)", r"\n {30}\^{10}\n  note: did you mean `singleton`"),
        ("(i, j) -> (i : dense, j : compressed(nonuniqe))", "did you mean `nonunique`"),
        ("(i, j) -> (i : dense)", "a level for the dimension `j`"),
        ("(i, i) -> (i : dense)", "`i` is given twice"),
        ("(i) -> (i : dense, k : dense)", "`k` is not one"),
        ("(i) -> (i : singleton)", "before the first `singleton`"),
        ("(i) -> (i floordiv 0 : dense, i mod 0 : dense)", "positive number"),
        ("(i) -> (i : structured)", "structured.n, m."),
        ("(i) -> (i : dense[2, 4])", "structured.n, m."),
        ("(i) -> (i : structured[5, 4])", "1 <= n <= m"),
        ("(p_1) -> (p_1 : dense)", "another name than `p_1`"),
        ("(i, j) -> (i : dense, ", r"the text ends here\n.*\n {25}\^\n  note: for instance"),
        ("(i, j) -> (i + j : dense, i : compressed)", "would need negative places"),
        ("(i, j) -> (i : dense, j : singleton)", "a dense one is before it"),
        ("-> x", "expected levels, but found `-`"),
        ("(i, j) -> (i : dense, j compressed)", r"found `compressed`\n.*\n {28}\^{10}\n"),
    ],
)
def test_levels_that_are_wrong(text, words) -> None:
    with pytest.raises(spfgen.SpfgenError, match=words):
        spfgen.pack(np.ones((2, 2)), text)


def test_degenerate_levels() -> None:
    for shape in [(0, 0), (0, 3), (3, 0), (1, 1)]:
        tensor = spfgen.pack(np.ones(shape), "(i, j) -> (j : dense, i : compressed)")
        assert tensor.to_numpy().tolist() == np.ones(shape).tolist()


# --- TACO ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["A:ds:0,1", "A:ss:1,0", "A:dds:0,2,1", "A:ucq:0,1,2", "A:s:0", "A:d:0"])
def test_formats_of_taco_and_back(text) -> None:
    assert format_of(parse_format(text).levels) == f"-f={text}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A:dz", "`z` is not one"),
        ("A:ds:0,0", "each dimension"),
        ("A:ds:0", "each dimension"),
        ("Ads", "such as"),
        ("A:qs", "begin"),
    ],
)
def test_formats_that_are_wrong(text, words) -> None:
    with pytest.raises(spfgen.SpfgenError, match=words):
        parse_format(text)


def test_expressions_of_taco() -> None:
    assert statements_of("y(i) = (A(i,j) + B(i, j))*x(j)") == "y[i] = (A[i,j] + B[i, j])*x[j]"
    for wrong in ("y(i) = sqrt(A(i,j))", "y(i) = A(i+1)"):
        with pytest.raises(spfgen.SpfgenError, match="expected subscripts"):
            statements_of(wrong)
    formats = {n: parse_format(f).levels for n, f in {"A": "A:ds:1,0", "B": "B:ss", "C": "C:ss"}.items()}
    text = spec_text("C(i,j) = 2*A(i,j)*B(i,j)", formats, {}, "compute", "dense")
    assert "tensor C : i_compressed_j_compressed shares B" in text
    dense = data(2)
    kernel = spfgen.parse(text).kernels["compute"].compile()
    assert (kernel(A=dense, B=dense).to_numpy() == 2 * dense**2).all()
    with pytest.raises(spfgen.SpfgenError, match="pattern of no operand"):
        spec_text("C(i,j) = A(i,j)", {n: formats[n] for n in "AC"}, {}, "compute", "dense")
    three = {**formats, "D": parse_format("D:ss").levels}
    for text in ("B(i,j) + D(i,j)*A(i,j)", "(B(i,j) + D(i,j))*A(i,j)", "B(i,j) + 1 + A(i,j)*D(i,j)"):
        with pytest.raises(spfgen.SpfgenError, match="pattern of no operand"):
            spec_text(f"C(i,j) = {text}", three, {}, "compute", "dense")
    assert "shares D" in spec_text("C(i,j) = D(i,j)*(B(i,j) + A(i,j)) - 2*D(i,j)", three, {}, "compute", "dense")
    with pytest.raises(spfgen.SpfgenError, match="format of 1 levels"):
        spec_text("y(i) = A(i)", {"A": formats["A"]}, {}, "compute", "dense")


def test_the_command(tmp_path, capsys) -> None:
    path = tmp_path / "k.c"
    arguments = ["taco", "y(i)=A(i,j)*x(j)", "-f=A:ds", "-t=A:float", f"-o={path}"]
    assert command(arguments) == 0
    assert "int compute(" in path.read_text()
    assert "const float *" in path.read_text() or "float *A_val" in path.read_text()
    path.write_text("mine")
    assert command(arguments) == 2
    assert path.read_text() == "mine"
    capsys.readouterr()
    assert command(["taco", "y(i)=A(i,j)*x(j)", "-f=A:ds", "-f=A:dd"]) == 2
    assert command(["taco", "y(i)=A(i,j)*x(j)", "-f=B:ds"]) == 3
    capsys.readouterr()
    assert command(["taco", "a=x(i)*x(i)", "-f", "x:s", "--spec", "--schedule", "serial i"]) == 0
    assert "schedule { serial i }" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["csr", "--as", "levels"], 0, "(i, j) -> (i : dense, j : compressed)\n"),
        (["csc", "--as", "taco"], 0, "-f=A:ds:1,0\n"),
        (["sv", "--as", "relation"], 0, "layout sv(n) {"),
        (["(i) -> (i : compressed)", "--as", "relation"], 0, "i = crd_1(p_1)"),
        (["(i) -> (i : compressed)"], 0, "i_compressed(n_i)"),
        (["ell", "--as", "levels"], 4, "levels cannot express layout `ell`"),
        (["bcsr", "--as", "taco"], 4, "TACO cannot express the level"),
        (["--as", "taco"], 2, "expected the name"),
    ],
)
def test_layouts_in_other_notations(arguments, code, words, capsys) -> None:
    assert command(["layouts", *arguments]) == code
    captured = capsys.readouterr()
    assert words in captured.out + captured.err

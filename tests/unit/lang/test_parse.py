"""What the parser makes of right texts, and that its errors point at the right place in odd surroundings."""

from __future__ import annotations

import pytest

from spfgen.errors import Span, SpecError, SpecErrors
from spfgen.facts.formula import Bin, Num, Var, show
from spfgen.lang.expressions import Reader, did_you_mean, raise_all, word_in
from spfgen.lang.fills import fill_text
from spfgen.lang.nodes import Access, Apply, Constant, FindClause, LayoutAlias, LayoutDecl, Loop
from spfgen.lang.parse import parse_file, parse_layout_use, parse_statements
from spfgen.lang.spec import parse_tree


def test_a_file_holds_imports_layouts_aliases_and_kernels_in_order() -> None:
    spec = parse_file(
        """
        import "other.spf"
        layout vector(n; B = 2, rank) { value val[n] at [p] }
        layout wide = vector(B=8, rank=-1)
        kernel scale { doc "twice" tensor x, y : vector; y[i] = 2*x[i] }
        """
    )
    assert [i.path for i in spec.imports] == ["other.spf"]
    declaration, alias = spec.layouts
    assert isinstance(declaration, LayoutDecl)
    assert declaration.constants == (("B", 2), ("rank", None))
    assert isinstance(alias, LayoutAlias)
    assert alias.use.settings == (("B", 8), ("rank", -1))
    assert [(k.name, k.doc, [t.name for t in k.tensors]) for k in spec.kernels] == [("scale", "twice", ["x", "y"])]


def test_an_empty_file_is_a_file() -> None:
    assert parse_file("# nothing\n").kernels == ()


@pytest.mark.parametrize("text", ["a<float, int64>(R=2)", "a(R=2)<float, int64>"])
def test_types_stand_before_or_after_constants(text: str) -> None:
    use = parse_layout_use(text)
    assert (use.name, use.value_type, use.index_type, use.settings) == ("a", "float", "int64", (("R", 2),))


def test_types_of_single_arrays() -> None:
    use = parse_layout_use("a<double, ptr : int64, idx_{1} : int32>")
    assert use.array_types == (("ptr", "int64"), ("idx_1", "int32"))


def test_a_statement() -> None:
    (statement,) = parse_statements("y[i] += -2*A[i, 2j + 1]*x[j] where 0 < j")
    assert (statement.op, statement.target) == ("+=", Access("y", (Var("i"),)))
    assert isinstance(statement.value, Apply)
    left, right = statement.value.arguments
    assert right == Access("x", (Var("j"),))
    negative, access = (
        Apply("negative", (Constant(2),)),
        Access("A", (Var("i"), Bin("+", Bin("*", Num(2), Var("j")), Num(1)))),
    )
    assert left == Apply("multiply", (negative, access))
    assert statement.where is not None
    assert show(statement.where) == "0 < j"


def test_statements_are_separated_by_lines_or_semicolons() -> None:
    assert [s.op for s in parse_statements("a = b; c += d\ne = 1.5")] == ["=", "+=", "="]


def test_a_schedule_names_indices_and_positions() -> None:
    text = "kernel k { tensor A, y : v; y[i] += A[i]; schedule { order A.p_{1}, i } }"
    assert parse_file(text).kernels[0].order == (Loop("A", "p_1"), Loop(None, "i"))


def test_a_schedule_says_how_positions_are_found() -> None:
    text = """kernel k { tensor A, find : v; find[i] += A[i]
        schedule { order i find A.p_{1} : hash; find find.find:loop }
        schedule { find i : magic } }"""
    kernel = parse_file(text).kernels[0]
    assert kernel.order == (Loop(None, "i"),)
    assert kernel.finds == (
        FindClause("A", "p_1", "hash"),
        FindClause("find", "find", "loop"),
        FindClause(None, "i", "magic"),
    )
    spans = [f.span for f in kernel.finds]
    assert [(s.line, s.column, s.end_column) for s in spans if s] == [(2, 33, 47), (2, 54, 68), (3, 25, 34)]


def test_a_position_is_found_in_one_way() -> None:
    text = "kernel k { tensor A, y : v; y[i] += A[i]; schedule { find A.p : hash  find A.p : hash  find A.q : hash } }"
    with pytest.raises(SpecError, match=r"`A\.p` is given twice"):
        parse_file(text)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("y[i] = A(i)", 1, 8, "a function, but `A`"),
        ("y[i] =", 1, 7, "the text ends here"),
        ("y[i] = x[i]\n\nz[i] = $", 3, 8, "a sign of the language"),
        ("\ty[i] = x[idx(i)]", 1, 11, "is a call"),
        ("y[i] = 2*x[i]  # half\n*", 2, 2, "the text ends here"),
    ],
)
def test_errors_of_statements_have_their_place(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        parse_statements(text, "text")
    span = caught.value.span
    assert span is not None
    assert (span.file, span.line, span.column) == ("text", line, column)
    assert caught.value.notes


def test_an_empty_statement_is_refused() -> None:
    with pytest.raises(SpecError, match="the text is empty"):
        parse_statements("  ")


def test_all_mistakes_of_a_kernel_are_reported_at_once() -> None:
    text = "kernel k { size n, n; tensor x, x, z : v; x[i] = 2 where exists i : i = 3; schedule { order i, i } }"
    with pytest.raises(SpecErrors) as caught:
        parse_file(text)
    messages = [e.message for e in caught.value.errors]
    assert len(messages) == 5
    assert [m.split("`")[1] for m in messages] == ["n", "x", "i", "z", "exists"]


def test_braces_in_texts_and_comments_do_not_count() -> None:
    text = 'layout a(n) {\n    doc "{ {"  # {{\n    size m\n'
    with pytest.raises(SpecError) as caught:
        parse_file(text)
    assert caught.value.notes == ("the `{` of line 1 is not closed: is a `}` missing?",)
    assert (caught.value.span.line, caught.value.span.column) == (3, 11)  # type: ignore[union-attr]


# --- pieces -------------------------------------------------------------------------------------------


def test_word_in_finds_whole_words_only() -> None:
    text = "tensor A : abc(b=1, c=2)"
    whole = Span("f", text, 1, 12, len(text) + 1)
    found = word_in(whole, "c")
    assert found is not None
    assert (found.column, found.end_column) == (21, 22)
    assert word_in(whole, "A") == whole
    assert word_in(None, "A") is None


def test_did_you_mean_ignores_case() -> None:
    assert did_you_mean("r", ["R", "C"]) == "did you mean `R`?"
    assert did_you_mean("zzz", ["R", "C"]) == ""


def test_raise_all_says_everything_once() -> None:
    raise_all([])
    one, other = SpecError("one"), SpecError("other")
    with pytest.raises(SpecError, match="one"):
        raise_all([one, SpecError("one")])
    with pytest.raises(SpecErrors) as caught:
        raise_all([one, other, SpecError("one")])
    assert [e.message for e in caught.value.errors] == ["one", "other"]


def test_constants_stand_for_their_numbers() -> None:
    tree = parse_tree("layout a(n; R = 3) { size m_{1..R - 1} }").layouts["a"]
    assert isinstance(tree, LayoutDecl)
    clause = next(tree.tree.find_data("size"))
    names = [n for n, _ in Reader(tree.source, {"R": 3}).names(clause.children[0])]
    assert names == ["m_1", "m_2"]


def test_constants_are_set_through_aliases() -> None:
    tree = parse_tree("layout a(n; R = 1, C = 1) { } layout b = a(R=2, C=2) layout c = b(C=3)")
    declaration, settings = tree.resolve(parse_layout_use("c"))
    assert (declaration.name, settings) == ("a", {"R": 2, "C": 3})
    assert tree.resolve(parse_layout_use("c(R=9)"))[1] == {"R": 9, "C": 3}


@pytest.mark.parametrize(
    ("text", "fill"),
    [("inf", "inf"), ("-inf", "-inf"), ("nan", "nan"), ("-0.0", "-0.0"), ("-0", "0"), ("True", "1"), ("false", "0"),
     ("18446744073709551615", "18446744073709551615"), ("-2.5e3", "-2500")],
)  # fmt: skip
def test_a_use_says_the_fill_value(text: str, fill: str) -> None:
    tree = parse_tree(f"layout far = bcsr(R=3) fill {text}\nlayout farther = far\nlayout near = far fill 7")
    assert fill_text(parse_layout_use(f"csr<float>(B=2) fill {text}").fill) == fill
    assert fill_text(tree.fill_of(parse_layout_use("farther"))) == fill
    assert tree.fill_of(parse_layout_use("near")) == 7
    assert tree.fill_of(parse_layout_use("far fill 3")) == 3
    assert tree.fill_of(parse_layout_use("csr")) is None

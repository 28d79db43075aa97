"""Each complaint of the checker fires, and sensible files pass."""

from __future__ import annotations

import pytest

from spfgen.cir.tree.check import C99_KEYWORDS, check
from spfgen.cir.tree.nodes import (
    Assign,
    Bin,
    Block,
    Break,
    Call,
    Cast,
    Comment,
    Declare,
    Do,
    Expr,
    Field,
    File,
    Float,
    For,
    Function,
    If,
    Int,
    Load,
    Name,
    Param,
    Pragma,
    Return,
    Select,
    Stmt,
    Struct,
    Text,
    Un,
    While,
)
from spfgen.cir.tree.print import OPERATORS
from spfgen.errors import InternalError

PARAMS = (Param("int64_t", "n"), Param("double *", "x"))
n, x, i, t = Name("n"), Name("x"), Name("i"), Name("t")


def file(*statements: Stmt, params: tuple[Param, ...] = PARAMS, name: str = "f") -> File:
    return File("", (), (Function("void", name, params, Block(statements)),))


def loop(*body: Stmt, start: Expr = n, variable: str = "i", condition: Expr = n) -> For:
    return For("int64_t", variable, start, condition, 1, Block(body))


def test_a_sensible_file_passes() -> None:
    every = Select(Bin("<", n, Int(1)), Un("-", Load(x, n)), Cast("double", Float(1.0)))
    main = Function(
        "void",
        "f",
        PARAMS,
        Block(
            (
                Comment("text"),
                Declare("int64_t", "t", n),
                loop(Assign(Load(x, i), "+=", every), Declare("int64_t", "inner", i), condition=i),
                loop(Pragma("omp x"), Declare("int64_t", "inner", i)),  # the same names once more
                While(Bin("<", t, n), Block((Declare("int64_t", "inner"), Break()))),
                If(n, Declare("int64_t", "inner"), Declare("int64_t", "inner")),
                Do(Call("free", (x,))),
                Do(Call("malloc", (Call("sizeof", (Un("*", x),)),))),
                Assign(Field(x, "n"), "=", Name("NULL")),
                Return(Name("f")),
            )
        ),
    )
    items = (Struct("csr", (Param("int", "n"), Param("int", "m"))), Text("int ??"), main)
    check(File("", (), items, "GUARD_H"), frozenset({"NULL"}))


def test_all_binary_operators_of_the_tree_pass() -> None:
    operators = "+ - * / % < <= > >= == != && || & | ^ << >>"
    assert sorted(OPERATORS) == sorted(operators.split(" "))
    for op in OPERATORS:
        check(file(Return(Bin(op, n, n))))


@pytest.mark.parametrize(
    "wrong",
    [
        file(Return(t)),
        file(Return(Bin("+", n, Select(n, Load(x, t), n)))),
        file(Return(Call("g", (n, Un("-", Cast("int", t)))))),
        file(Assign(t, "=", n)),
        file(Assign(n, "=", t)),
        file(Do(Field(t, "n"))),
        file(If(t, Break())),
        file(If(n, Break(), Return(t))),
        file(While(t, Break())),
        file(While(n, Return(t))),
        file(loop(start=t)),
        file(loop(condition=t)),
        file(loop(Return(t))),
        file(Declare("int", "t", t)),  # not in its own value
        file(Return(t), Declare("int", "t")),  # not before
        file(If(n, Declare("int", "t")), Return(t)),  # not after the braces
        file(If(n, Declare("int", "t"), Return(t))),
        file(While(n, Declare("int", "t")), Return(t)),
        file(loop(Declare("int", "t")), Return(t)),
        file(loop(variable="t"), Return(t)),
        file(loop(start=t, variable="t")),
        file(Return(Name("NULL"))),
        File("", (), (*file(Declare("int", "t")).items, *file(Return(t), name="g").items)),
    ],
)
def test_a_name_out_of_scope(wrong: File) -> None:
    with pytest.raises(InternalError, match=r"expected a name in scope in function [fg], but '(t|NULL)' is"):
        check(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        file(Declare("int", "n")),
        file(Declare("int", "t"), Declare("int", "t")),
        file(Declare("int", "t"), If(n, Declare("int", "t"))),
        file(Declare("int", "t"), If(n, Break(), Declare("int", "t"))),
        file(Declare("int", "t"), While(n, Declare("int", "t"))),
        file(Declare("int", "t"), loop(Declare("int", "t"))),
        file(Declare("int", "t"), Block((Declare("int", "t"),))),
        file(Block((Declare("int", "t"),)), Declare("int", "t")),  # a Block in a Block has no braces
        file(loop(Declare("int", "i"))),
        file(loop(loop())),
        file(loop(variable="n")),
        file(params=(*PARAMS, Param("int", "n"))),
        file(Declare("int", "f")),
        file(Declare("int", "KNOWN")),
        File("", (), file().items * 2),
        File("", (), (Struct("s", (Param("int", "n"), Param("int", "n"))),)),
    ],
)
def test_a_name_declared_twice(wrong: File) -> None:
    with pytest.raises(InternalError, match=r"expected a new name in .*, but '.*' is declared already"):
        check(wrong, frozenset({"KNOWN"}))


NAMED = [
    lambda name: file(Declare("int", name)),
    lambda name: file(loop(variable=name)),
    lambda name: file(Return(Name(name))),
    lambda name: file(Return(Field(x, name))),
    lambda name: file(Return(Call(name, ()))),
    lambda name: file(params=(Param("int", name),)),
    lambda name: file(name=name),
    lambda name: File("", (), (Struct(name, ()),)),
    lambda name: File("", (), (Struct("s", (Param("int", name),)),)),
    lambda name: File("", (), (), name or " "),
]


@pytest.mark.parametrize("place", range(len(NAMED)))
@pytest.mark.parametrize("name", ["", "1a", "a b", "a-b", "a.b", "é", "a\n", "*a", "while", "restrict"])
def test_what_is_no_identifier(place: int, name: str) -> None:
    with pytest.raises(InternalError, match="expected a C identifier in"):
        check(NAMED[place](name))


def test_all_keywords_are_refused_and_near_misses_pass() -> None:
    assert len(C99_KEYWORDS) == 37
    for keyword in C99_KEYWORDS:
        with pytest.raises(InternalError, match="is a keyword of C99"):
            check(file(Declare("int", keyword)))
        check(file(Declare("int", f"{keyword}_")))


@pytest.mark.parametrize(
    "wrong",
    [
        file(Return(Bin("**", n, n))),
        file(Return(Bin("=", n, n))),
        file(Return(Load(x, Bin(",", n, n)))),
        file(Return(Un("+", n))),
        file(Return(Un("--", n))),
        file(Assign(n, "<<=", n)),
        file(Assign(n, "==", n)),
        file(loop(If(n, Assign(n, "/=", n)))),
    ],
)
def test_an_unknown_operator(wrong: File) -> None:
    with pytest.raises(InternalError, match=r"expected a known .* operator in function f, but got"):
        check(wrong)


@pytest.mark.parametrize("wrong", [file(Stmt()), file(Return(Expr())), File("", (), (n,))])  # type: ignore[arg-type]
def test_foreign_nodes(wrong: File) -> None:
    with pytest.raises(InternalError, match=r"expected .*, but got"):
        check(wrong)

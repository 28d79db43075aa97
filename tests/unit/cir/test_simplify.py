"""Each rule of the simplifier, and that none changes a value."""

from __future__ import annotations

import random

import pytest

from spfgen.cir.tree.check import check
from spfgen.cir.tree.nodes import (
    Assign,
    Bin,
    Block,
    Break,
    Call,
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
    Return,
    Select,
    Stmt,
    Text,
    Un,
    While,
)
from spfgen.cir.tree.print import print_expr
from spfgen.cir.tree.simplify import simplify
from spfgen.ir import walk

from .evaluate import COMPARISONS, Machine, Trees, evaluate

n, x, y = Name("n"), Name("x"), Name("y")
CALL = Call("f", (x,))
LESS = Bin("<", x, y)
EMPTY = Block(())
LARGEST, SMALLEST = 2**63 - 1, -(2**63)

RULES: list[tuple[Expr, Expr]] = [
    # constants
    (Bin("+", Int(2), Int(3)), Int(5)),
    (Bin("-", Int(2), Int(3)), Int(-1)),
    (Bin("*", Int(-2), Int(3)), Int(-6)),
    (Bin("*", Bin("+", Int(1), Int(1)), Bin("-", Int(7), Int(4))), Int(6)),
    (Bin("+", Int(LARGEST - 1), Int(1)), Int(LARGEST)),
    (Bin("-", Int(SMALLEST + 1), Int(1)), Int(SMALLEST)),
    (Bin("/", Int(7), Int(2)), Int(3)),
    (Bin("%", Int(7), Int(2)), Int(1)),
    (Bin("/", Int(0), Int(2)), Int(0)),
    (Bin("<", Int(1), Int(2)), Int(1)),
    (Bin("<", Int(2), Int(2)), Int(0)),
    (Bin("<=", Int(2), Int(2)), Int(1)),
    (Bin("<=", Int(3), Int(2)), Int(0)),
    (Bin(">", Int(2), Int(1)), Int(1)),
    (Bin(">", Int(2), Int(2)), Int(0)),
    (Bin(">=", Int(2), Int(2)), Int(1)),
    (Bin(">=", Int(1), Int(2)), Int(0)),
    (Bin("==", Int(2), Int(2)), Int(1)),
    (Bin("==", Int(2), Int(1)), Int(0)),
    (Bin("!=", Int(2), Int(1)), Int(1)),
    (Bin("!=", Int(2), Int(2)), Int(0)),
    (Un("-", Int(3)), Int(-3)),
    # neutral elements
    (Bin("+", x, Int(0)), x),
    (Bin("+", Int(0), x), x),
    (Bin("-", x, Int(0)), x),
    (Bin("*", x, Int(1)), x),
    (Bin("*", Int(1), x), x),
    (Bin("/", x, Int(1)), x),
    # sums with constants
    (Bin("+", x, Int(-3)), Bin("-", x, Int(3))),
    (Bin("-", x, Int(-3)), Bin("+", x, Int(3))),
    (Bin("-", Bin("+", n, Int(1)), Int(1)), n),
    (Bin("+", Bin("-", n, Int(1)), Int(1)), n),
    (Bin("+", Bin("+", n, Int(1)), Int(2)), Bin("+", n, Int(3))),
    (Bin("-", Bin("+", n, Int(1)), Int(3)), Bin("-", n, Int(2))),
    (Bin("-", Bin("-", n, Int(1)), Int(3)), Bin("-", n, Int(4))),
    (Bin("+", Bin("-", n, Int(1)), Int(3)), Bin("+", n, Int(2))),
    (Bin("-", Bin("+", Int(1), n), Int(1)), n),
    (Bin("-", Bin("+", Bin("+", n, Int(-2)), Int(1)), Int(-1)), n),
    (Bin("+", x, Un("-", Int(3))), Bin("-", x, Int(3))),
    # connectives
    (Un("!", Int(0)), Int(1)),
    (Un("!", Int(1)), Int(0)),
    (Bin("&&", Int(0), CALL), Int(0)),
    (Bin("&&", Int(1), LESS), LESS),
    (Bin("&&", LESS, Int(1)), LESS),
    (Bin("&&", x, Int(0)), Int(0)),
    (Bin("||", Int(1), CALL), Int(1)),
    (Bin("||", Int(0), LESS), LESS),
    (Bin("||", LESS, Int(0)), LESS),
    (Bin("||", x, Int(1)), Int(1)),
    (Bin("&&", Int(1), x), Bin("!=", x, Int(0))),
    (Bin("||", x, Int(0)), Bin("!=", x, Int(0))),
    (Bin("&&", Int(1), Un("!", x)), Un("!", x)),
    (Bin("&&", Int(1), Bin("||", x, y)), Bin("||", x, y)),
    (Bin("&&", Int(2), Int(3)), Int(1)),
    (Bin("||", Int(0), Int(3)), Int(1)),
    (Bin("&&", CALL, Int(1)), Bin("!=", CALL, Int(0))),
    # choices
    (Select(Int(1), x, CALL), x),
    (Select(Int(0), CALL, y), y),
    (Select(Bin("<", Int(0), Int(1)), Bin("+", x, Int(0)), y), x),
    # below other nodes
    (Load(x, Bin("+", n, Int(0))), Load(x, n)),
    (Field(Bin("+", x, Int(0)), "n"), Field(x, "n")),
    (Call("f", (Bin("*", n, Int(1)),)), Call("f", (n,))),
]

UNTOUCHED: list[Expr] = [
    Bin("*", x, Int(0)),
    Bin("*", Int(0), x),
    Bin("+", x, Float(0.0)),
    Bin("*", x, Float(1.0)),
    Bin("+", Float(1.0), Float(2.0)),
    Bin("-", Int(0), x),
    Bin("/", Int(1), x),
    Bin("+", Int(LARGEST), Int(1)),
    Bin("-", Int(SMALLEST), Int(1)),
    Bin("*", Int(2**40), Int(2**40)),
    Un("-", Int(SMALLEST)),
    Bin("+", x, Int(SMALLEST)),
    Bin("-", x, Int(SMALLEST)),
    Bin("+", Bin("+", x, Int(LARGEST)), Int(1)),
    Bin("-", Int(2**64 - 1), Int(2**63)),
    Bin("-", Bin("+", x, Int(2**63)), Int(1)),
    Bin("/", Int(7), Int(0)),
    Bin("%", Int(7), Int(0)),
    Bin("/", Int(-7), Int(2)),
    Bin("%", Int(7), Int(-2)),
    Bin("<<", Int(1), Int(2)),
    Bin("&", Int(1), Int(2)),
    Bin("<", x, x),
    Bin("&&", CALL, Int(0)),
    Bin("||", Un("!", CALL), Int(1)),
    Bin("&&", x, y),
    Select(x, y, y),
    Un("-", Un("-", x)),
]


@pytest.mark.parametrize(("before", "after"), RULES)
def test_rule(before: Expr, after: Expr) -> None:
    assert simplify(before) == after
    assert simplify(after) is after


@pytest.mark.parametrize("expression", UNTOUCHED)
def test_what_is_left_alone(expression: Expr) -> None:
    assert simplify(expression) is expression


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(4))
def test_values_stay_and_a_second_run_finds_nothing(seed: int) -> None:
    """Many constants, so that many rules fire; int is taken as wide as int64_t, as the rules ask for."""
    operators = ("+", "-", "+", "-", "*", "/", "%", "&&", "||", "<<", "&", *COMPARISONS)
    machine = Machine({"a": 5, "b": -3, "c": 17, "d": 0}, wide=True)
    trees = Trees(random.Random(seed), machine, constants=0.6, operators=operators)
    changed = 0
    for k in range(1500):
        before = trees.integer(1 + k % 6)
        after = simplify(before)
        assert evaluate(after, machine).number == evaluate(before, machine).number, print_expr(before)
        assert simplify(after) is after, print_expr(before)
        changed += after is not before
        assert len(list(walk(after))) <= len(list(walk(before))) + 2 * print_expr(after).count("!= 0")
    assert changed > 500


@pytest.mark.parametrize("seed", range(2))
def test_double_values_stay(seed: int) -> None:
    machine = Machine({"u": 0.1, "v": -3.75, "w": 1e300, "z": -0.0})
    trees = Trees(random.Random(seed), machine)
    for k in range(500):
        before = trees.double(1 + k % 6)
        values = [repr(evaluate(e, machine)) for e in (before, simplify(before))]
        assert values[0] == values[1], print_expr(before)


# --- statements ----------------------------------------------------------------------------------

CALLING, OTHER = Do(CALL), Do(Call("g", ()))
TRUE = Bin("<", Int(0), Int(1))


def loop(*body: Stmt, condition: Expr = LESS, start: Expr = n) -> For:
    return For("int64_t", "i", start, condition, 1, Block(body))


AGAIN = If(LESS, CALLING)
CHANGED = (
    If(LESS, Block((Assign(y, "+=", Int(1)), AGAIN))),
    If(LESS, Block((Declare("int64_t", "y", x), AGAIN))),
    If(LESS, Block((Do(Call("f", (Un("&", y),))), AGAIN))),
    If(LESS, CALLING, AGAIN),
    If(Bin("||", LESS, x), AGAIN),
    If(Bin("<", Load(x, n), y), Block((OTHER, If(Bin("<", Load(x, n), y), CALLING)))),
)
"""The same is asked again, but the answer may be another one."""
STATEMENTS: list[tuple[Stmt, Stmt]] = [
    (Return(Bin("+", n, Int(0))), Return(n)),
    (Assign(Load(x, Bin("+", n, Int(0))), "+=", Bin("*", y, Int(1))), Assign(Load(x, n), "+=", y)),
    (If(TRUE, CALLING, OTHER), CALLING),
    (If(Int(0), CALLING, OTHER), OTHER),
    (If(Int(0), CALLING), EMPTY),
    (If(x, CALLING, EMPTY), If(x, CALLING)),
    (If(x, EMPTY), EMPTY),
    (If(x, EMPTY, EMPTY), EMPTY),
    (If(x, If(y, EMPTY)), EMPTY),
    (If(CALL, EMPTY), If(CALL, EMPTY)),
    (If(x, EMPTY, CALLING), If(x, EMPTY, CALLING)),
    (If(x, Block((Comment("why"),))), If(x, Block((Comment("why"),)))),
    (If(Bin("&&", LESS, CALL), If(LESS, CALLING, OTHER)), If(Bin("&&", LESS, CALL), CALLING)),
    (If(LESS, loop(If(LESS, CALLING))), If(LESS, loop(CALLING))),
    *((s, s) for s in CHANGED),
    (loop(), EMPTY),
    (loop(If(x, EMPTY)), EMPTY),
    (loop(condition=Bin("<", CALL, y)), loop(condition=Bin("<", CALL, y))),
    (loop(start=CALL), loop(start=CALL)),
    (loop(CALLING), loop(CALLING)),
    (While(CALL, EMPTY), While(CALL, EMPTY)),
    (Block((EMPTY, CALLING, Block((OTHER, Block((Break(),)))), EMPTY)), Block((CALLING, OTHER, Break()))),
    (Block((If(TRUE, Block((CALLING, OTHER))), loop())), Block((CALLING, OTHER))),
    (Block((If(Int(1), Declare("int", "t")),)), Block((Declare("int", "t"),))),
]


@pytest.mark.parametrize(("before", "after"), STATEMENTS)
def test_statement(before: Stmt, after: Stmt) -> None:
    assert simplify(before) == after
    assert simplify(after) is after


@pytest.mark.parametrize("alive", [0, 1])
def test_braces_stay_where_names_would_clash(alive: int) -> None:
    """Both branches declare t, and one of them is always taken."""
    one = Block((Declare("int", "t", n), Return(Name("t"))))
    params = (Param("int", "n"), Param("int", "x"))
    taken = If(Int(1), one, CALLING) if alive else If(Int(0), CALLING, one)
    simple = simplify(Function("int", "f", params, Block((taken, If(n, one), Return(Int(0))))))
    assert simple.body == Block((If(Int(1), one), If(n, one), Return(Int(0))))
    assert simplify(simple) is simple
    check(File("", (), (simple,)))


def test_functions_and_files() -> None:
    before = Function("int", "f", (Param("int", "n"),), Block((Block((Return(Bin("+", n, Int(0))),)),)))
    after = Function("int", "f", (Param("int", "n"),), Block((Return(n),)))
    text = Text("#define X 1")
    assert simplify(before) == after
    assert simplify(File("c", (), (text, before), "G")) == File("c", (), (text, after), "G")
    file = File("c", (), (text, after), "G")
    assert simplify(file) is file


def test_functions_of_a_file_do_not_share_names() -> None:
    """`t` in another function is no reason to keep braces."""
    body = Block((If(Int(1), Declare("int", "t", Int(0))),))
    functions = [Function("void", name, (), body) for name in ("f", "g")]
    file = simplify(File("", (), tuple(functions)))
    assert [item.body for item in file.items if isinstance(item, Function)] == [
        Block((Declare("int", "t", Int(0)),))
    ] * 2

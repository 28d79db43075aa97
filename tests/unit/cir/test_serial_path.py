"""Loops on threads: one thread does its parts without a team."""

from __future__ import annotations

from spfgen.cir.rewrite.serial_path import with_serial_path
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import loop

PART, PARTS = c.Name("part"), c.Name("parts")
PRAGMA = "omp parallel for schedule(static, 1) num_threads(parts)"
COUNT = c.Load(c.Name("count"), PART)


def sharing(*body: c.Stmt, pragma: str = PRAGMA) -> c.Function:
    params = (c.Param("int", "parts"), c.Param("int *restrict", "count"), c.Param("int", "total"))
    return c.Function("void", "tally", params, c.Block((loop("part", c.Int(0), PARTS, body, pragma, "int"),)))


def test_what_loops_becomes_a_function() -> None:
    inner = loop("k", c.Int(0), PART, [c.Assign(COUNT, "+=", c.Call("spfgen_thread", ()))])
    part, calling = with_serial_path(sharing(inner))
    assert [(p.type, p.name) for p in part.params] == [("int", "part"), ("int", "thread"), ("int *restrict", "count")]
    (choice,) = calling.body.statements
    assert isinstance(choice, c.If)
    assert choice.condition == c.Bin(">", PARTS, c.Int(1))
    several, one = (b.statements[0] for b in (choice.then, choice.orelse) if isinstance(b, c.Block))
    assert isinstance(several, c.For)
    assert isinstance(one, c.For)
    assert (several.pragmas, one.pragmas, one.start, one.step) == ((PRAGMA,), (), c.Int(0), 1)
    assert one.body == c.Block((c.Do(c.Call("tally_part", (PART, c.Int(0), c.Name("count")))),))


def test_short_ones_are_there_twice() -> None:
    (calling,) = with_serial_path(sharing(c.Assign(COUNT, "=", c.Int(1))))
    assert isinstance(calling.body.statements[0], c.If)


def test_others_stay_as_they_are() -> None:
    """What changes a variable of all, ends early, or is said otherwise."""
    changed = c.Assign(c.Name("total"), "+=", c.Int(1))
    inner = loop("k", c.Int(0), PART, [c.Assign(COUNT, "+=", c.Int(1))])
    for function in (
        sharing(inner, changed),
        sharing(inner, c.If(COUNT, c.Block((c.Break(),)))),
        sharing(inner, pragma=f"{PRAGMA} reduction(+ : total)"),
        sharing(c.Assign(COUNT, "=", c.Call("spfgen_thread", ()))),
    ):
        assert with_serial_path(function) == [function]

"""Variables that nothing reads are left out, with what is stored in them."""

from __future__ import annotations

from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT, loop
from spfgen.cir.tree.unused import without_unused


def made(*lines: c.Stmt) -> tuple[c.Stmt, ...]:
    return without_unused(c.Function("void", "f", (), c.Block(lines))).body.statements


A, B, X = c.Name("a"), c.Name("b"), c.Load(c.Name("x"), c.Int(0))


def test_what_nothing_reads_is_left_out() -> None:
    """Also what is read by such a variable alone, and where it is stored in a loop."""
    inside = loop("i", c.Int(0), c.Int(4), [c.Assign(B, "=", A), c.Assign(X, "=", c.Int(1))])
    (found,) = made(c.Declare(INT, "a", X), c.Declare(INT, "b", c.Int(0)), inside)
    assert found == loop("i", c.Int(0), c.Int(4), [c.Assign(X, "=", c.Int(1))])


def test_what_stays() -> None:
    """What is read, what is found by a call, arrays, and what a pragma names."""
    shared = loop("i", c.Int(0), c.Int(4), [c.Assign(X, "=", c.Int(1))], "omp parallel for reduction(|: b)")
    for lines in (
        (c.Declare(INT, "a", X), c.Assign(X, "=", A)),
        (c.Declare(INT, "a", c.Call("f", ())),),
        (c.Declare(INT, "a", length=4), c.Assign(c.Load(A, c.Int(0)), "=", c.Int(1))),
        (c.Declare(INT, "a", c.Int(0)), c.Assign(A, "+=", c.Int(1))),
        (c.Declare(INT, "b", c.Int(0)), shared),
    ):
        assert made(*lines) == lines

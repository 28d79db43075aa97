"""What tables of keys have in common: their memory, and the part of them that a thread has."""

from __future__ import annotations

from collections.abc import Sequence

from spfgen.cir.checks.names import MEMORY
from spfgen.cir.checks.writer import Bounds, Writer
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import INT, loop, minus
from spfgen.layout.loops import Loop


def counted(w: Writer, over: Loop, count: str) -> Bounds:
    """The bounds of a loop, with the number of its values."""
    lines, low, high = w.bounds(over)
    return [*lines, c.Declare(f"const {INT}", count, minus(high, low))], low, high


def workspace(w: Writer, kind: str, name: str, words: c.Expr, threads: c.Expr) -> list[c.Stmt]:
    """Memory for so many words of each thread, all zero; there may be none."""
    memory = c.Call("spfgen_workspace", (words, threads, c.Call("sizeof", (c.Name(kind),))))
    missing = c.If(c.Un("!", c.Name(name)), c.Block(tuple(w.failed(MEMORY))))
    return [c.Declare(f"{kind} *", name, c.Cast(f"{kind} *", memory)), missing]


def partitioned(w: Writer, about: str, count: str, ends: tuple[str, str], body: Sequence[c.Stmt]) -> c.Stmt:
    """The body by each thread for its part of so many things, which reaches from one of the ends to the other."""
    part = w.names.of("part")
    each = c.Bin("/", c.Name(count), c.Name(w.threads))
    following = c.Bin("+", c.Name(part), c.Int(1))
    is_last = c.Bin("==", following, c.Name(w.threads))
    statements: list[c.Stmt] = [
        c.Comment(about),
        c.Declare(f"const {INT}", ends[0], c.Bin("*", each, c.Name(part))),
        c.Declare(f"const {INT}", ends[1], c.Select(is_last, c.Name(count), c.Bin("*", each, following))),
        *body,
    ]
    return loop(part, c.Int(0), c.Name(w.threads), statements, w.parallel(openmp.scheduled("static, 1")), kind="int")

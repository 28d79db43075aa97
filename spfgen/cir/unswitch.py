"""A question with one answer for all iterations of a loop is asked before it: the loop is there once for each answer.

    for i { ... if (longer) { a } else { b } ... }   ->   if (longer) { for i { ... a } } else { for i { ... b } }

That is done where both answers are loops (cir/fours.py). Compilers ask in each iteration, and share out their registers
among both, which costs a tenth where the loops inside are short.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from spfgen.cir import nodes as c
from spfgen.ir import rewrite, walk


def unswitched(function: c.Function) -> c.Function:
    """The function with such loops twice."""
    lines = function.body.statements
    flags = {s.name for s in lines if isinstance(s, c.Declare) and s.type == "const bool"}
    return replace(function, body=c.Block(tuple(_within(s, flags) for s in lines))) if flags else function


def _within(node: c.Stmt, flags: Collection[str]) -> c.Stmt:
    match node:
        case c.Block(lines):
            return c.Block(tuple(_within(s, flags) for s in lines))
        case c.For(body=body, pragmas=pragmas):
            asked = () if pragmas else tuple(_questions(body, flags))
            if len(asked) != 1:
                return replace(node, body=_within(body, flags))
            (question,) = asked
            yes, no = (_within(_answered(node, question, a), flags) for a in (question.then, question.orelse))
            return c.If(question.condition, c.Block((yes,)), c.Block((no,)))
        case c.If(then=then, orelse=otherwise):
            return replace(
                node, then=_within(then, flags), orelse=None if otherwise is None else _within(otherwise, flags)
            )
        case c.Scope(body):
            inner = _within(body, flags)
            assert isinstance(inner, c.Block)
            return c.Scope(inner)
    return node


def _questions(node: c.Stmt, flags: Collection[str]) -> Iterator[c.If]:
    """The choices between loops by a flag, but for those in loops further in."""
    match node:
        case c.Block(lines):
            for line in lines:
                yield from _questions(line, flags)
        case c.If(c.Name(flag), then, c.Block() as otherwise) if flag in flags and _loops(then) and _loops(otherwise):
            yield node
        case c.If(then=then, orelse=otherwise):
            yield from _questions(then, flags)
            if otherwise is not None:
                yield from _questions(otherwise, flags)


def _loops(node: c.Stmt) -> bool:
    return any(isinstance(n, c.For) for n in walk(node, c.Stmt))


def _answered(loop: c.For, question: c.If, answer: c.Stmt | None) -> c.Stmt:
    result: c.Stmt = rewrite(lambda n: answer if n is question else None, loop)
    return result

"""One thread needs no team: to start one of a single thread takes half a microsecond, as long as a small kernel runs.

    #pragma omp parallel num_threads(threads)         if (threads > 1) {
    for (part = ...) { ... }                   ->         #pragma ...   for (part = ...) { kernel_part(part, ...); }
                                                      } else { for (part = 0; ...) { kernel_part(part, ...); } }

What a part does becomes a function, which is there once; as a parameter an array is known to overlap no other, which
compilers forget in a loop on threads (cir/rewrite/outline_parts.py). The number of the thread is given to it: without a
team of its own a kernel that is called from a thread of somebody else's team must not go by the number of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from spfgen.cir.rewrite.outline_parts import NOINLINE
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.outline import names_in, params_for, types_of
from spfgen.ir import children, fresh, rewrite, walk


def with_serial_path(function: c.Function) -> list[c.Function]:
    """The function, behind those that do a part of its loops on threads."""
    types, taken = types_of(function), names_in(function)
    parts: list[c.Function] = []

    def rule(node: object) -> c.Stmt | None:
        team = _team(node) if isinstance(node, c.For) else None
        if team is None:
            return None
        assert isinstance(node, c.For)
        assert isinstance(node.body, c.Block)
        inside = node.body.statements
        if any(isinstance(n, c.For | c.While) for s in inside for n in walk(s)):
            thread = c.Name(fresh("thread", taken))
            lines = [rewrite(lambda n: thread if n == openmp.HERE else None, s) for s in inside]
            uses = lines != list(inside)
            params = params_for(lines, (node.variable, thread.name), types)
            if params is None:
                return None
            name = fresh(f"{function.name}_part", taken)
            taken.add(name)
            leading = [c.Param("int", node.variable), *([c.Param("int", thread.name)] if uses else [])]
            doc = "One part of a loop that threads share."
            parts.append(
                c.Function(f"{NOINLINE} void", name, (*leading, *params), c.Block(tuple(lines)), doc, static=True)
            )

            def body(number: c.Expr) -> c.Block:
                given = (c.Name(node.variable), *([number] if uses else []), *(c.Name(p.name) for p in params))
                return c.Block((c.Do(c.Call(name, given)),))

            several, one = body(openmp.HERE), body(c.Int(0))
        elif openmp.HERE in [n for s in inside for n in walk(s)]:
            return None
        else:
            several = one = node.body
        alone = replace(node, start=c.Int(0), step=1, body=one, pragmas=())
        shared = replace(node, body=several)
        return c.If(c.Bin(">", team, c.Int(1)), c.Block((shared,)), c.Block((alone,)))

    body: c.Block = rewrite(rule, function.body, c.Stmt)
    return [*parts, replace(function, body=body)]


def _team(loop: c.For) -> c.Name | None:
    """The size of the team that does the loop, if its body can be a function."""
    size = openmp.size_of_team(loop.pragmas[0]) if len(loop.pragmas) == 1 else ""
    if not size or loop.type != "int" or not isinstance(loop.body, c.Block):
        return None
    nodes = [n for s in loop.body.statements for n in walk(s)]
    local_names = {n.name for n in nodes if isinstance(n, c.Declare)} | {
        n.variable for n in nodes if isinstance(n, c.For)
    }
    changed = {n.target.name for n in nodes if isinstance(n, c.Assign) and isinstance(n.target, c.Name)}
    changed |= {n.operand.name for n in nodes if isinstance(n, c.Un) and n.op == "&" and isinstance(n.operand, c.Name)}
    if any(isinstance(n, c.Return) for n in nodes) or any(
        openmp.is_parallel(p) for n in nodes if isinstance(n, c.For) for p in n.pragmas
    ):
        return None
    return c.Name(size) if changed <= local_names and not any(_breaks(loop.body.statements)) else None


def _breaks(statements: Sequence[c.Stmt]) -> Iterator[bool]:
    """Whether the loop around ends early."""
    for statement in statements:
        if isinstance(statement, c.Break):
            yield True
        elif not isinstance(statement, c.For | c.While):
            yield from _breaks([n for n in children(statement) if isinstance(n, c.Stmt)])

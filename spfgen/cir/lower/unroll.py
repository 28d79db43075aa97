"""Unrolled loops: each iteration runs several of the given one, and a remainder loop runs the others:

    while (p_next + 4 <= end) { {p = p_next; ...} {p = p_next + 1; ...} ... p_next += 4; }
    for (p = p_next; p < end; p++) ...

The order of the iterations stays as it is; which product goes into which addition without rounding is the compiler's
choice in either form. The pragma for it would not do: gcc (12) passes over it
in the functions that it makes of parallel loops, and everywhere above a loop that has another one inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from spfgen import tuning
from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT, downwards, loop
from spfgen.cir.tree.names import Names
from spfgen.ir import walk
from spfgen.plan.nodes import Scan


def unrolled(low: Lowering, plan: Scan, scope: Scope, body: Sequence[c.Stmt], times: int) -> list[c.Stmt] | None:
    """The loop over `body`, unrolled by so many iterations; None where it cannot be written so."""
    first, end = low.fold("spfgen_max", plan.low, scope), low.fold("spfgen_min", plan.high, scope)
    return between(low.names, low.names[plan.dim], first, end, body, times, down=plan.down)


def between(
    names: Names, position: str, first: c.Expr, end: c.Expr, body: Sequence[c.Stmt], times: int, down: bool = False
) -> list[c.Stmt] | None:
    """The same of a loop from `first` to before `end`."""
    if not _may_be_written_out(body, times, {position, *_names((first, end))}):
        return None
    if isinstance(first, c.Int) and isinstance(end, c.Int) and end.value - first.value <= times:
        numbers = range(first.value, end.value)
        copies = [_iteration(position, c.Int(k), body) for k in (reversed(numbers) if down else numbers)]
        return [c.Comment(f"{position} unrolled completely"), *copies]
    lines: list[c.Stmt] = [c.Comment(f"{position} unrolled by {times}, then the remainder")]
    if not isinstance(limit := first if down else end, c.Name | c.Int):
        lines.append(c.Declare(f"const {INT}", names.new(f"{position}_{'first' if down else 'end'}"), limit))
        limit = c.Name(lines[-1].name)  # type: ignore[attr-defined]
    at, number = c.Name(names.new(f"{position}_next")), c.Int(times)
    if down:
        enough = c.Bin(">=", c.Bin("-", at, number), limit)
        places = [c.Bin("-", at, c.Int(k + 1)) for k in range(times)]
        remainder = downwards(position, limit, at, body)
    else:
        enough = c.Bin("<=", c.Bin("+", at, number), limit)
        places = [c.Bin("+", at, c.Int(k)) for k in range(times)]
        remainder = loop(position, at, limit, body)
    copies = [_iteration(position, p, body) for p in places]
    following = c.Assign(at, "-=" if down else "+=", number)
    return [
        *lines,
        c.Declare(INT, at.name, end if down else first),
        c.While(enough, c.Block((*copies, following))),
        remainder,
    ]


def _iteration(position: str, value: c.Expr, body: Sequence[c.Stmt]) -> c.Stmt:
    declared = [c.Declare(f"const {INT}", position, value)] if position in _names(body) else []
    return c.Braces(c.Block((*declared, *body)))


def _may_be_written_out(body: Sequence[c.Stmt], times: int, fixed: set[str]) -> bool:
    """Whether iterations neither end the loop nor change what it runs by, and are not too much text."""
    if any(_ends_loop(s) for s in body):
        return False
    nodes = [n for s in body for n in walk(s)]
    changed = {next(_names((n.target,)), "") for n in nodes if isinstance(n, c.Assign)}
    return changed.isdisjoint(fixed) and times * sum(isinstance(n, c.Stmt) for n in nodes) <= tuning.UNROLLED_STATEMENTS


def _ends_loop(line: c.Stmt) -> bool:
    """Whether there is a `break` that is not of a loop inside."""
    match line:
        case c.Break():
            return True
        case c.Block(lines) | c.Braces(c.Block(lines)):
            return any(map(_ends_loop, lines))
        case c.If(_, then, orelse):
            return _ends_loop(then) or (orelse is not None and _ends_loop(orelse))
    return False


def _names(parts: Iterable[c.Stmt | c.Expr]) -> Iterator[str]:
    return (n.name for p in parts for n in walk(p) if isinstance(n, c.Name))

"""Loops over a size that may be small, as the width of rows of slots is: they are written out for small ones.

    for i { for p in [0, size) { ... } }    ->    a function of the size, called with the number where that is small

Where a compiler knows how often the inner loop runs, nothing is spent on its ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from spfgen.cir import nodes as c
from spfgen.cir.alone import ALONE
from spfgen.cir.build import INT, first_of, loop
from spfgen.cir.outline import INLINE, can_move, names_in, outer_loops, params_for, types_of
from spfgen.ir import fresh, rewrite, walk

LARGEST = 8
"""The largest size that has code of its own."""
GROUPS = (2, 4)
"""Loops with these steps are sums of a few at a time (cir/sums.py), which are written out."""


def sized(function: c.Function) -> list[c.Function]:
    """The function, behind those that run its loops for each small size."""
    types, taken = types_of(function), set[str]()
    sizes = {s.name for s in function.body.statements if isinstance(s, c.Declare) and isinstance(s.value, c.Field)}
    made: list[c.Function] = []

    def rule(node: object) -> c.Stmt | None:
        size = _size(node, sizes) if isinstance(node, c.For) else None
        if size is None:
            return None
        assert isinstance(node, c.For)
        assert isinstance(node.condition, c.Bin)
        small = _for_small(node, size, function)
        params = params_for([small.body], (size.name, node.variable), types)
        if params is None:
            return None
        taken.update(names_in(function))  # most functions have no such loop
        own = {n.name for n in walk(small.body) if isinstance(n, c.Name | c.Declare)}
        limits = [fresh(f"{node.variable}_{word}", own) for word in ("begin", "end")]
        one = _one(small, size, limits, params, fresh(f"{function.name}_rows", taken))
        taken.add(one.name)
        chosen = _chosen(one, size, fresh(f"{function.name}_sizes", taken))
        taken.add(chosen.name)
        made.extend((one, chosen))
        return _called(node, _for_large(node, size, function), chosen)

    body: c.Block = rewrite(rule, function.body, c.Stmt)
    return [*made, replace(function, body=body)]


def _size(outer: c.For, sizes: set[str]) -> c.Name | None:
    """The size that the loops in this one run to, if there is one, and the loop can be in a function of its own."""
    match outer:
        case c.For(type=kind, variable=i, step=1, condition=c.Bin("<", c.Name(tested)), body=c.Block(lines)):
            pass
        case _:
            return None
    if kind != INT or tested != i or outer.pragmas or not can_move(lines, (i,)):
        return None
    zeros = [s.name for s in walk(outer.body, c.Stmt) if isinstance(s, c.Declare) and s.value == c.Int(0)]
    found = {size for n in outer_loops(lines) if (size := _end(n, zeros)) in sizes}
    return c.Name(*found) if len(found) == 1 else None


def _end(inner: c.For | c.While, zeros: Collection[str]) -> str:
    """The name of where a loop ends that takes a few at a time, from 0 on; "" where it is not such a loop."""
    match inner:
        case c.For(start=c.Int(0), condition=c.Bin("<", c.Name(), c.Name(size)), step=step) if step in GROUPS:
            return size
        case c.While(c.Bin("&&", c.Bin("<=", c.Bin("+", c.Name(at), c.Int()), c.Name(size)))) if at in zeros:
            return size
    return ""


def _one(outer: c.For, size: c.Name, limits: Sequence[str], params: Sequence[c.Param], name: str) -> c.Function:
    begin, end = limits
    assert isinstance(outer.body, c.Block)
    body = loop(outer.variable, c.Name(begin), c.Name(end), outer.body.statements)
    own = (c.Param(INT, n) for n in (size.name, begin, end))
    doc = f"The loop over {outer.variable} for a {size.name}, which may be a number."
    return c.Function(f"inline {INLINE} void", name, (*own, *params), c.Block((body,)), doc, static=True)


def _chosen(one: c.Function, size: c.Name, name: str) -> c.Function:
    def run(value: c.Expr) -> c.Block:
        return c.Block((c.Do(c.Call(one.name, (value, *(c.Name(p.name) for p in one.params[1:])))),))

    cases = ((c.Bin("==", size, c.Int(number)), run(c.Int(number))) for number in range(LARGEST))
    chain = first_of(cases, run(c.Int(LARGEST)))
    doc = f"The same, written out for each {size.name}, which is at most {LARGEST}."
    return c.Function(f"{ALONE} void", name, one.params, c.Block((chain,)), doc, static=True)


def _for_small(outer: c.For, size: c.Name, function: c.Function) -> c.For:
    """The loop for a small size, without what is done instead where it is not."""
    flags = _flags(function, size, _is_large)

    def rule(node: object) -> c.Stmt | None:
        match node:
            case c.If(c.Name(flag) | c.Bin("&&", c.Name(flag)), _, c.Block() as other) if flag in flags:
                return other
        return None

    result: c.For = rewrite(rule, outer, c.Stmt)
    return result


def _flags(function: c.Function, size: c.Name, say: Callable[[c.Expr, c.Name], bool]) -> set[str]:
    """The answers found out at the begin that say so of the size."""
    answers = (s for s in function.body.statements if isinstance(s, c.Declare) and s.type == "const bool")
    return {s.name for s in answers if s.value is not None and say(s.value, size)}


def _for_large(outer: c.For, size: c.Name, function: c.Function) -> c.For:
    """The loop for a size that is not small, without what is done only where it is."""
    flags = _flags(function, size, _is_small)

    def rule(node: object) -> c.Stmt | None:
        match node:
            case c.Block(lines):
                kept = tuple(s for s in lines if not _asks(s, flags))
                return c.Block(kept) if len(kept) < len(lines) else None
        return None

    result: c.For = rewrite(rule, outer, c.Stmt)
    return result


def _is_small(condition: c.Expr, size: c.Name) -> bool:
    """Whether the condition says so."""
    match condition:
        case c.Bin("&&", left, right):
            return _is_small(left, size) or _is_small(right, size)
        case c.Bin("<=", found, c.Int(most)):
            return found == size and most <= LARGEST
    return False


def _is_large(condition: c.Expr, size: c.Name) -> bool:
    """Whether the condition says the opposite."""
    match condition:
        case c.Bin("&&", left, right):
            return _is_large(left, size) or _is_large(right, size)
        case c.Bin(">", found, c.Int(least)):
            return found == size and least >= LARGEST
    return False


def _asks(line: c.Stmt, flags: Collection[str]) -> bool:
    match line:
        case c.If(c.Name(flag), _, None):
            return flag in flags
    return False


def _called(outer: c.For, large: c.For, chosen: c.Function) -> c.Stmt:
    """The call where the size is small, else the loop."""
    assert isinstance(outer.condition, c.Bin)
    size, _, _, *others = (c.Name(p.name) for p in chosen.params)
    call = c.Do(c.Call(chosen.name, (size, outer.start, outer.condition.right, *others)))
    return c.If(c.Bin("<=", size, c.Int(LARGEST)), c.Block((call,)), c.Block((large,)))

"""Where one segment ends the next one begins: a loop over segments reads each end once.

    for i { ... a[i] ... a[i + 1] ... }   ->   a_i = a[first];  for i { a_i_1 = a[i + 1]; ... a_i = a_i_1; }

The elements a[i] and a[i + 1] of an array that nobody writes are read in each iteration, and a[i + 1] is the a[i] of
the next one: it is kept in a variable. Nothing is read that was not: the first element only if there is an iteration,
and only what each iteration reads whatever the data are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import TypeVar

from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT
from spfgen.cir.tree.names import Names
from spfgen.ir import children, rewrite, walk


def with_scalar_replacement(statements: Sequence[c.Stmt], arrays: Collection[str], names: Names) -> list[c.Stmt]:
    """The statements with such reads of these arrays kept from one iteration to the next."""

    def within(node: c.Stmt) -> c.Stmt:
        match node:
            case c.Block(lines):
                return _changed(node, "statements", tuple(map(within, lines)))
            case c.For(body=body, pragmas=pragmas):
                inner = _changed(node, "body", within(body))
                free = not pragmas and node.step == 1 and isinstance(body, c.Block)
                rotating = _wanted(inner, arrays) if free else []
                return _rotated(inner, rotating, names) if rotating else inner
            case c.If(then=then, orelse=otherwise):
                kept = _changed(node, "then", within(then))
                return kept if otherwise is None else _changed(kept, "orelse", within(otherwise))
            case c.While(body=body) | c.Braces(body):
                return _changed(node, "body", within(body))
        return node

    # Between loops that run as one nothing may stand.
    return [s if any(map(_is_fused, _loops(s))) else within(s) for s in statements]


def _is_fused(loop: c.For) -> bool:
    return any("collapse(" in pragma for pragma in loop.pragmas)


def _loops(statement: c.Stmt) -> Iterator[c.For]:
    """All loops in it."""
    match statement:
        case c.Block(lines):
            for line in lines:
                yield from _loops(line)
        case c.For(body=body):
            yield statement
            yield from _loops(body)
        case c.If(then=then, orelse=otherwise):
            yield from _loops(then)
            if otherwise is not None:
                yield from _loops(otherwise)
        case c.While(body=body) | c.Braces(body):
            yield from _loops(body)


S = TypeVar("S", bound=c.Stmt)


def _changed(node: S, field: str, value: object) -> S:
    """The statement with another field; itself if that is the same."""
    old = getattr(node, field)
    same = all(map(is_, old, value)) if isinstance(old, tuple) and isinstance(value, tuple) else old is value
    return node if same else replace(node, **{field: value})  # type: ignore[type-var]


def _wanted(loop: c.For, arrays: Collection[str]) -> list[str]:
    """The arrays of which each iteration reads element i + 1 whatever the data are, and somewhere element i."""
    assert isinstance(loop.body, c.Block)
    always = {n for s in loop.body.statements for e in _evaluated(s) for n in _parts(e) if isinstance(n, c.Load)}
    next_read = [a for a in arrays if _element(loop, a, 1) in always]
    if not next_read:
        return []
    read = {n for n in walk(loop.body) if isinstance(n, c.Load)}
    return [a for a in next_read if _element(loop, a, 0) in read]


def _evaluated(statement: c.Stmt) -> Iterator[c.Expr]:
    """What a statement evaluates first, whatever comes out."""
    match statement:
        case c.Declare(value=value) if value is not None:
            yield value
        case c.For(start=start, condition=condition):
            yield start
            yield condition
        case c.If(condition=condition) | c.While(condition=condition):
            yield condition
        case c.Braces(body):
            yield from _evaluated(body)
        case c.Block(lines):
            for line in lines:
                yield from _evaluated(line)


def _parts(expr: c.Expr) -> Iterator[c.Expr]:
    """The parts of an expression that are evaluated whatever others are."""
    yield expr
    match expr:
        case c.Bin("&&" | "||", left, _) | c.Select(left, _, _):
            yield from _parts(left)
        case _:
            for child in children(expr):
                yield from _parts(child)


def _element(loop: c.For, array: str, further: int) -> c.Load:
    place: c.Expr = c.Name(loop.variable)
    return c.Load(c.Name(array), c.Bin("+", place, c.Int(1)) if further else place)


def _rotated(loop: c.For, arrays: Sequence[str], names: Names) -> c.Stmt:
    """The loop with the ends of segments carried over, and what must stand before it."""
    assert isinstance(loop.body, c.Block)
    body = list(loop.body.statements)
    before: list[c.Stmt] = []
    start = loop.start
    if not isinstance(start, c.Name | c.Int):
        before.append(c.Declare(f"const {INT}", names.new(f"{loop.variable}_begin"), start))
        start = c.Name(before[-1].name)  # type: ignore[attr-defined]
    first, variable = start, c.Name(loop.variable)
    some = rewrite(lambda n: first if n == variable else None, loop.condition)
    before.append(c.Comment("the end of one segment is where the next one begins: it is read once"))
    for array in arrays:
        reads = [s for s in body if any(n == _element(loop, array, 1) for n in walk(s))]
        declarations = [s for s in reads[:1] if isinstance(s, c.Declare) and s.value == _element(loop, array, 1)]
        here = names.new(f"{array}_{loop.variable}")
        end = (
            declarations[0]
            if declarations
            else c.Declare(f"const {INT}", names.new(f"{array}_{loop.variable}_1"), _element(loop, array, 1))
        )
        replaced = {_element(loop, array, k): c.Name(name) for k, name in enumerate((here, end.name))}
        body = _without(body if declarations else [end, *body], replaced, end)
        body.append(c.Assign(c.Name(here), "=", c.Name(end.name)))
        before.append(c.Declare(INT, here, c.Select(some, c.Load(c.Name(array), start), c.Int(0))))
    return c.Block((*before, replace(loop, start=start, body=c.Block(tuple(body)))))


def _without(body: Sequence[c.Stmt], by: Mapping[c.Load, c.Name], kept: c.Declare) -> list[c.Stmt]:
    """The statements with these names instead of the elements, and instead of other names for them than their own."""
    declared: dict[str, set[tuple[str, c.Expr | None]]] = {}
    for line in (n for s in body for n in walk(s) if isinstance(n, c.Declare)):
        declared.setdefault(line.name, set()).add((line.type, line.value))
    alike = {name: variants.pop() for name, variants in declared.items() if len(variants) == 1}
    known = {n: by[v] for n, (kind, v) in alike.items() if kind == f"const {INT}" and isinstance(v, c.Load) and v in by}

    def rule(node: object) -> c.Expr | c.Block | None:
        match node:
            case c.Load():
                return by.get(node)
            case c.Name(name):
                return known.get(name)
            case c.Block(lines) if any(map(copies, lines)):
                return c.Block(changed(lines))
        return None

    def copies(line: c.Stmt) -> bool:
        return isinstance(line, c.Declare) and line.name in known

    def changed(lines: Sequence[c.Stmt]) -> tuple[c.Stmt, ...]:
        return tuple(s if s == kept else rewrite(rule, s) for s in lines if s == kept or not copies(s))

    return list(changed(body))

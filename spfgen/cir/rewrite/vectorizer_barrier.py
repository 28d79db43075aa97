"""Loads under conditions, side by side: gcc (11 and 12, with AVX2 or AVX-512) must not make vectors of them.

    for (p ...) { for (q = 0; q < 4; q++) { if (col[4*p + q] == i[q]) { s[q] += val[4*p + q]; } } }

The inner loop is written out, the four loads become a vector of two registers or more, and gcc loads all of them under
the conditions of the first one: wrong sums. A call of `spfgen_branch` (rt/branch.h) in the outer loop keeps its
conditions as branches. A loop with one such load in each iteration is vectorised rightly, and stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.outline import types_of
from spfgen.errors import InternalError
from spfgen.ir import children, walk

BRANCH = c.Do(c.Call("spfgen_branch", ()))
SHORT_CIRCUITS = ("&&", "||")

_Loads = Counter[tuple[c.Load, int]]
"""How often each is loaded, and under how many conditions: those of the elements of a vector have one form."""


def with_branches(functions: Sequence[c.Function]) -> list[c.Function]:
    """The functions, where the loops that have such loads keep their branches."""
    numbers = _numbers(functions)
    result = []
    for function in functions:
        kinds = {n: 2 if "complex" in kind else 1 for n, kind in types_of(function).items()}
        body = _Branches(kinds, numbers.get(function.name, frozenset())).statement(function.body).made
        assert isinstance(body, c.Block)
        result.append(function if body is function.body else replace(function, body=body))
    return result


def _numbers(functions: Sequence[c.Function]) -> dict[str, set[str]]:
    """The parameters of each function that some call gives a number: where it is inlined, compilers know it."""
    params = {f.name: [p.name for p in f.params] for f in functions if f.static}
    numbers_given: dict[str, set[str]] = {}
    for call in (n for f in functions for n in walk(f.body) if isinstance(n, c.Call) and n.function in params):
        given = zip(params[call.function], call.arguments, strict=True)
        numbers_given.setdefault(call.function, set()).update(n for n, a in given if isinstance(a, c.Int))
    return numbers_given


class _Seen(NamedTuple):
    """A statement as it is to be, and what one run of it loads."""

    made: c.Stmt
    loads: _Loads
    endless: bool = False
    """Whether there is a loop in it of which nobody knows how often it runs: no loop around that becomes vectors."""


class _Branches:
    def __init__(self, kinds: Mapping[str, int], numbers: Set[str]) -> None:
        self.kinds, self.numbers = kinds, numbers

    def statement(self, s: c.Stmt, counted: frozenset[str] = frozenset()) -> _Seen:
        """`counted` are the variables of the loops around that compilers may write out."""
        match s:
            case c.For():
                times = _times(s, self.numbers)
                return self._loop(s, times, counted | {s.variable} if times else frozenset())
            case c.While():
                return self._loop(s, 0, frozenset())
        deeper = isinstance(s, c.If) and not _names(s.condition) <= counted | self.numbers
        statements = [n for n in children(s) if isinstance(n, c.Stmt)]
        inside = [self.statement(n, counted) for n in statements]
        expressions = [n for n in children(s) if isinstance(n, c.Expr)]
        if isinstance(s, c.Assign) and s.op == "=" and isinstance(s.target, c.Load):
            expressions = [s.target.index, s.value]
        loads = _Loads(dict.fromkeys(_loads(expressions), 1))
        for statement, part in zip(statements, inside, strict=True):
            loads_of_part = _Loads({(e, d + deeper): n for (e, d), n in part.loads.items()})
            # One text in two scopes, such as those of iterations written out, is two loads.
            loads = loads + loads_of_part if isinstance(statement, c.Braces) else loads | loads_of_part
        with_barriers = s
        if any(part.made is not n for part, n in zip(inside, statements, strict=True)):
            with_barriers = _with(s, [part.made for part in inside])
        return _Seen(with_barriers, loads, any(part.endless for part in inside))

    def _loop(self, s: c.For | c.While, times: int, counted: frozenset[str]) -> _Seen:
        """The loop, which keeps its branches if it has several such loads; 0 `times` is not known."""
        loop_body, loads, endless = self.statement(s.body, counted)
        if not endless and self._several(loads):
            loop_body = c.Block((BRANCH, *(loop_body.statements if isinstance(loop_body, c.Block) else (loop_body,))))
        moving = {n.name for n in walk(s.body, c.Stmt) if isinstance(n, c.Declare)}
        moving |= {s.variable} if isinstance(s, c.For) else set()
        again = _Loads({key: n * times if _names(key[0]) & moving else n for key, n in loads.items()})
        return _Seen(s if loop_body is s.body else replace(s, body=loop_body), again, endless or not times)

    def _several(self, loads: _Loads) -> bool:
        """Whether several elements of one array may be loaded, each under a condition of one form."""
        counts = Counter[tuple[c.Expr, int]]()
        for (e, conditions), times in loads.items():
            if conditions:
                counts[e.array, conditions] += times * self.kinds.get(getattr(e.array, "name", ""), 1)
        return any(n > 1 for n in counts.values())


def _loads(expressions: Iterable[c.Expr], conditions: int = 0) -> Iterator[tuple[c.Load, int]]:
    """What is loaded, and how many parts of the expression decide whether it is."""
    for e in expressions:
        if isinstance(e, c.Load):
            yield e, conditions
        parts = [n for n in children(e) if isinstance(n, c.Expr)]
        always = 1 if isinstance(e, c.Select) or (isinstance(e, c.Bin) and e.op in SHORT_CIRCUITS) else len(parts)
        yield from _loads(parts[:always], conditions)
        yield from _loads(parts[always:], conditions + 1)


def _names(e: c.Expr) -> set[str]:
    return {n.name for n in walk(e) if isinstance(n, c.Name)}


def _with(s: c.Stmt, parts: Sequence[c.Stmt]) -> c.Stmt:
    """The statement with others in it."""
    match s:
        case c.Block():
            return c.Block(tuple(parts))
        case c.Braces(c.Block(), outline):
            return c.Braces(c.Block(tuple(parts)), outline)
        case c.If(condition):
            return c.If(condition, *parts)
    raise InternalError(f"expected no statements within {type(s).__name__}")


def _times(s: c.For, numbers: Set[str]) -> int:
    """How often the loop runs, 2 where a compiler may find out how often; 0 where it cannot."""
    match s:
        case c.For(_, name, start, c.Bin(op, c.Name(tested), end), int(step)) if name == tested:
            terms = Counter[c.Expr]()
            length = abs(_constant(end, 1, terms) + _constant(start, -1, terms)) + op.endswith("=")
            unknown = [e for e, factor in terms.items() if factor]
            if not unknown:
                return -(-length // abs(step))
            return 2 * all(isinstance(e, c.Name) and e.name in numbers for e in unknown)
    return 0


def _constant(e: c.Expr, factor: int, terms: Counter[c.Expr]) -> int:
    """The constant of a sum; its other terms are counted."""
    match e:
        case c.Int(value):
            return factor * value
        case c.Bin("+" | "-" as op, left, right):
            return _constant(left, factor, terms) + _constant(right, factor if op == "+" else -factor, terms)
    terms[e] += factor
    return 0

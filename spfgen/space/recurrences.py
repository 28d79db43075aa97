"""Equations that read their target at places which other points of them write: loops in an order that is proved.

`x[i] = abs(x[i - 1]) + b[i]` needs the point i - 1 before the point i. The pairs of a reader and a writer are a
relation between two points, in logical coordinates; indices of reductions, and what values decide, may be any. A loop
runs upwards where no pair has its writer later, downwards where none has it earlier; what one loop does not order, the
next one may. The point itself reads the value before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from spfgen.errors import Unsupported
from spfgen.facts.formula import ZERO, Bin, Compare, Expr, Formula, Num, Var, conjuncts, rename, substitute, variables
from spfgen.ir import children, rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.blocks import with_blocks
from spfgen.lang.normalize import normalized
from spfgen.lang.uses import leaves_the_rest
from spfgen.sets.affine import Affine
from spfgen.sets.named import Constraint, Piece, Space
from spfgen.sets.uf import comparisons
from spfgen.space.conditions import negated
from spfgen.space.steps import Chosen, Equation, Gathered, Linked

Ways = Mapping[str, bool]
"""The loops, outermost first, and whether each runs downwards."""


@dataclass(frozen=True)
class _Read:
    """An access of the target, the names that are bound around it, and the conditions under which it is read."""

    access: lang.Access
    bound: tuple[str, ...] = ()
    where: tuple[Formula, ...] = ()


def in_order(step: Any, extents: Mapping[str, Expr], sums: Collection[Equation]) -> Any:
    """The step with loops for its recurrences, but for `sums` of products, whose instances are ordered. `extents` are
    those of indices. Raises Unsupported where no order is proved."""
    if isinstance(step, Equation):
        return _ordered(step, extents) if step.indices and step not in sums else step
    return with_blocks(step, lambda block: tuple(in_order(s, extents, sums) for s in block))


def _ordered(eq: Equation, extents: Mapping[str, Expr]) -> Any:
    reads = [r for r in _reads(eq, eq.value) if r.access.subscripts != eq.subscripts]
    pairs = [p for r in reads for p in [_pairs(eq, r, extents)] if any(not q.is_empty() for q in _apart(eq, p))]
    if not pairs:
        return eq
    ways = next((w for order in permutations(eq.indices) if (w := _ways(pairs, order)) is not None), None)
    whole = eq.selects or eq.updates is not None or _writes_all(eq)
    linked = any(isinstance(n, Linked | Gathered) for n in walk(eq.value))
    if ways is None or eq.at or not whole or (linked and any(ways.values())):
        raise _refused(eq, reads, ways is not None)
    turned = {i: Bin("-", Bin("-", extents[i], Num(1)), Var(i)) for i, down in ways.items() if down}
    inner: Any = replace(
        eq,
        indices=(),
        subscripts=tuple(substitute(s, turned) for s in eq.subscripts),
        value=substitute(eq.value, turned),
        where=None if eq.where is None else substitute(eq.where, turned),
    )
    return lang.For(tuple(ways), (inner,), None, eq.span)


def reads_the_rest(statement: lang.Statement, sizes: Sequence[str]) -> bool:
    """Whether an assignment may read its target at places that no point of it writes: it does not reach all of it."""
    target = statement.target
    if statement.op != "=" or leaves_the_rest(statement):
        return False
    target_indices = tuple(
        i for i in dict.fromkeys(v for s in target.subscripts for v in sorted(variables(s))) if i not in sizes
    )
    (normal,) = normalized((statement,), sizes)
    if not isinstance(normal, lang.Statement) or normal.op != "=":
        return False
    eq = Equation(target.tensor, target.subscripts, target_indices, normal.value, where=normal.where)
    if _writes_all(eq):
        return False
    extents = {s.name: Var(f"{k}#") for k, s in enumerate(target.subscripts) if isinstance(s, Var)}
    within = [Compare("<", s, Var(f"{k}#")) for k, s in enumerate(target.subscripts)]
    for read in _reads(eq, eq.value):
        limits = [Compare("<", s, Var(f"{k}#")) for k, s in enumerate(read.access.subscripts)]
        limits += [Compare("<=", ZERO, s) for s in read.access.subscripts]
        asked = replace(read, where=(*read.where, *limits, *within))
        pairs = _pairs(eq, asked, extents)
        twins = [f"{n}'" for n in target_indices]
        if not _pairs(eq, asked, extents, False).is_within_projection(pairs, twins):
            return True
    return False


def _reads(eq: Equation, value: Any, bound: tuple[str, ...] = (), where: tuple[Formula, ...] = ()) -> Iterator[_Read]:
    match value:
        case lang.Access(tensor):
            if tensor == eq.target:
                yield _Read(value, bound, where)
        case lang.Reduce(_, indices, inner, condition):
            more = () if condition is None else tuple(conjuncts(condition))
            yield from _reads(eq, inner, (*bound, *indices), (*where, *more))
        case Chosen(condition, then, otherwise):
            yield from _reads(eq, then, bound, (*where, *conjuncts(condition)))
            yield from _reads(eq, otherwise, bound, (*where, *conjuncts(negated(condition))))
        case Gathered(name, at, inner):
            yield from _reads(eq, at, bound, where)
            place_name = next((p.name for p in eq.at if p.value == at), None)
            if place_name is not None:  # the place of the target
                inner = rewrite(lambda n: Var(place_name) if n == Var(name) else None, inner)
            yield from _reads(eq, inner, (*bound, name), where)
        case Linked(link, inner):
            yield from _reads(eq, inner, (*bound, *link.inner), where)
        case _:
            for child in children(value):
                yield from _reads(eq, child, bound, where)


def _pairs(eq: Equation, read: _Read, extents: Mapping[str, Expr], written: bool = True) -> Piece:
    """Readers, and the twins of them that write what they read; all readers, if it need not be `written`."""
    written_indices = (*eq.indices, *(p.name for p in eq.at))
    twins = {n: f"{n}'" for n in written_indices}
    where = [] if eq.where is None else [*conjuncts(eq.where)]
    rules: list[Formula] = [*read.where, *where]
    writers: list[Formula] = [rename(c, twins) for c in where]
    for names, into in ((written_indices, rules), (read.bound, rules), (twins.values(), writers)):
        for name in names:
            extent = extents.get(name.rstrip("'"))
            into.append(Compare("<=", ZERO, Var(name)))
            into += [] if extent is None else [Compare("<", Var(name), extent)]
    for mine, theirs in zip(read.access.subscripts, eq.subscripts, strict=True):
        writers.append(Compare("=", mine, rename(theirs, twins)))
    others = sorted(variables(*rules, *writers) - {*written_indices, *read.bound, *twins.values()})
    space = Space(
        (*others, *written_indices, *dict.fromkeys(n for n in read.bound if n not in written_indices), *twins.values())
    )
    return space.universe().with_constraints(comparisons([*rules, *(writers if written else ())]))


def _difference(index: str, sign: int) -> Constraint:
    """The writer is later (sign 1), earlier (-1) or the same (0)."""
    distance = Affine(((f"{index}'", 1), (index, -1)))
    return Constraint(True, distance) if not sign else Constraint(False, distance.scaled(sign).plus(-1))


def _apart(eq: Equation, pairs: Piece) -> list[Piece]:
    """The pairs of two points, by the first index in which they differ."""
    pairs_apart = []
    for index in eq.indices:
        pairs_apart += [pairs.with_constraints([_difference(index, sign)]) for sign in (-1, 1)]
        pairs = pairs.with_constraints([_difference(index, 0)])
    return pairs_apart


def _ways(pairs: Sequence[Piece], order: Sequence[str]) -> Ways | None:
    """How the loops run in this order; None where one would have to run in both directions."""
    ways: dict[str, bool] = {}
    left = list(pairs)
    for index in order:
        earlier, later = (_some(left, index, sign) for sign in (-1, 1))
        if earlier and later:
            return None
        ways[index] = later
        left = [p.with_constraints([_difference(index, 0)]) for p in left]
    return ways


def _some(pairs: Sequence[Piece], index: str, sign: int) -> bool:
    return any(not p.with_constraints([_difference(index, sign)]).is_empty() for p in pairs)


def _writes_all(eq: Equation) -> bool:
    """Whether the points of the equation are all places of its target."""
    names = [s.name for s in eq.subscripts if isinstance(s, Var)]
    return eq.where is None and len(names) == len(eq.subscripts) and sorted(names) == sorted(eq.indices)


def _refused(eq: Equation, reads: Sequence[_Read], in_order: bool) -> Unsupported:
    span = next((r.access.span for r in reads if r.access.span is not None), eq.span)
    proved = "a recurrence must assign all elements of its target"
    what = proved if in_order else "no order is proved in which each is assigned before it is read"
    return Unsupported(
        f"`{eq.target}` is read at elements that the equation assigns at other points: {what}",
        span,
        (
            "write a loop, which gives the order: `for i { x[i] = max(x[i - 1], b[i]) }`",
            f"if the old values are meant, give the result another name than `{eq.target}`",
        ),
    )

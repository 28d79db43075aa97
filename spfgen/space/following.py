"""Extents that follow from larger subscripts: of results, and of indices that occur only within such subscripts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import reduce
from typing import Any

from spfgen.facts.formula import ONE, ZERO, Bin, Compare, Expr, Formula, Num, Var, conjuncts
from spfgen.ir import walk
from spfgen.sets.affine import Affine, NotAffine
from spfgen.sets.uf import linear

Ends = tuple[Expr | None, Expr | None]
"""The least and the largest value of an index; None where that is not known."""
EndsOf = Callable[[str], Ends]


def ends_of(extent: Expr | None) -> Ends:
    """Those of an index with that extent."""
    return (None, None) if extent is None else (ZERO, Bin("-", extent, ONE))


def said(index: str, conditions: Sequence[Formula], indices: Collection[str]) -> Ends:
    """What conditions say of an index without another one."""
    least: Expr | None = None
    largest: Expr | None = None
    for part in (p for c in conditions for p in conjuncts(c) if isinstance(p, Compare)):
        affine = _linear(Bin("-", part.left, part.right))
        factor = affine.coefficient(index) if affine is not None else 0
        if affine is None or abs(factor) != 1 or part.op not in ("<", "<=", ">", ">=", "="):
            continue
        bound = _summed([(a, -factor * k) for a, k in affine.terms if a != index], -factor * affine.constant, indices)
        if bound is None:
            continue
        upper = part.op == "=" or (part.op[0] == "<") == (factor > 0)
        lower = part.op == "=" or not upper
        strict = part.op in ("<", ">")
        if upper:
            value = Bin("-", bound, ONE) if strict else bound
            largest = value if largest is None else Bin("min", largest, value)
        if lower:
            value = Bin("+", bound, ONE) if strict else bound
            least = value if least is None else Bin("max", least, value)
    return least, largest


def beyond(subscript: Expr, indices: Collection[str], ends: EndsOf) -> Expr | None:
    """One more than the largest value of a subscript, at least 0; None where that is not known. What is not among the
    indices is a size."""
    if isinstance(subscript, Var) and subscript.name in indices:
        largest = ends(subscript.name)[1]
        return None if largest is None else _plus_one(largest)
    affine = _linear(subscript)
    most = None if affine is None else _extreme(affine, indices, ends, largest=True)
    return None if most is None else Bin("max", _plus_one(most), ZERO)


def last(
    index: str, subscript: Expr, extent: Expr, indices: Collection[str], ends: EndsOf, whatever: bool
) -> Expr | None:
    """One more than the largest value of the index with which the subscript lies below the extent (at or above 0 where
    the index is subtracted): `whatever` the other indices are, or for some of their values. None where that is not
    known."""
    affine = _linear(subscript)
    factor = affine.coefficient(index) if affine is not None else 0
    if affine is None or not factor:
        return None
    other_terms = Affine.of([(a, k) for a, k in affine.terms if a != index], affine.constant)
    extreme = _extreme(other_terms, indices, ends, largest=whatever == (factor > 0))
    if extreme is None:
        return None
    room = Bin("-", Bin("-", extent, ONE), extreme) if factor > 0 else extreme
    return _plus_one(room if abs(factor) == 1 else Bin("/", room, Num(abs(factor))))


def never_negative(value: Affine, indices: Collection[str], ends: EndsOf) -> bool:
    """Whether an expression of indices and sizes is 0 or more for all their values."""
    least = _extreme(value, indices, ends, largest=False)
    linear_least = None if least is None else _linear(least)
    return (
        linear_least is not None
        and linear_least.constant >= 0
        and all(isinstance(a, str) and k > 0 for a, k in linear_least.terms)
    )


def least_of(parts: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: Bin("min", a, b), dict.fromkeys(parts))


def largest_of(parts: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: Bin("max", a, b), dict.fromkeys(parts))


def _extreme(affine: Affine, indices: Collection[str], ends: EndsOf, largest: bool) -> Expr | None:
    """The largest value of an affine expression, or the least."""
    terms: list[tuple[Any, int]] = []
    result: Expr = ZERO
    for atom, k in affine.terms:
        if atom not in indices:
            terms.append((atom, k))
            continue
        end = ends(atom)[(k > 0) == largest] if isinstance(atom, str) else None
        if end is None:
            return None
        if end != ZERO:
            result = _times(k, end) if result == ZERO else Bin("+", result, _times(k, end))
    remainder = _summed(terms, affine.constant, indices)
    if remainder is None or result == ZERO:
        return remainder
    return result if remainder == ZERO else Bin("+", remainder, result)


def _summed(terms: Sequence[tuple[Any, int]], constant: int, indices: Collection[str]) -> Expr | None:
    """A sum of multiples of sizes; None where something else is in it."""
    if any(not isinstance(atom, str) or atom in indices for atom, _ in terms):
        return None
    result: Expr = Num(constant)
    for atom, k in terms:
        result = Bin("+", result, _times(k, Var(atom)))
    return result


def _linear(subscript: Expr) -> Affine | None:
    try:
        return linear(subscript)
    except NotAffine:
        return None


def _times(k: int, expr: Expr) -> Expr:
    return expr if k == 1 else Bin("*", Num(k), expr)


def _plus_one(expr: Expr) -> Expr:
    if isinstance(expr, Num):
        return Num(expr.value + 1)
    return expr.left if isinstance(expr, Bin) and expr.op == "-" and expr.right == ONE else Bin("+", expr, ONE)


def conditions_in(steps: Sequence[Any]) -> list[Formula]:
    """The conditions under which equations are computed and reductions run."""
    nodes = (n for s in steps for n in walk(s))
    return [w for n in nodes if (w := getattr(n, "where", None)) is not None]

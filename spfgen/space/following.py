"""Extents that no access gives alone: of results along larger subscripts, of indices that occur only within them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from spfgen.facts.formula import ONE, ZERO, Bin, Compare, Expr, Formula, Num, Var, conjuncts, variables
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.sets.affine import Affine, NotAffine
from spfgen.sets.uf import linear
from spfgen.space.extents import Extents, Key

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
        rest = _summed([(a, -factor * k) for a, k in affine.terms if a != index], -factor * affine.constant, indices)
        if rest is None:
            continue
        upper = part.op == "=" or (part.op[0] == "<") == (factor > 0)
        lower = part.op == "=" or not upper
        strict = part.op in ("<", ">")
        if upper:
            value = Bin("-", rest, ONE) if strict else rest
            largest = value if largest is None else Bin("min", largest, value)
        if lower:
            value = Bin("+", rest, ONE) if strict else rest
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
    others = Affine.of([(a, k) for a, k in affine.terms if a != index], affine.constant)
    rest = _extreme(others, indices, ends, largest=whatever == (factor > 0))
    if rest is None:
        return None
    room = Bin("-", Bin("-", extent, ONE), rest) if factor > 0 else rest
    return _plus_one(room if abs(factor) == 1 else Bin("/", room, Num(abs(factor))))


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
    rest = _summed(terms, affine.constant, indices)
    if rest is None or result == ZERO:
        return rest
    return result if rest == ZERO else Bin("+", rest, result)


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


class Following:
    """What calls make of the extents of results of sums of products that are not passed."""

    def __init__(self, extents: Extents, statements: Sequence[lang.Statement], made: Collection[str]) -> None:
        """`made` are the tensors that are written, not read."""
        self.extents = extents
        self.made = made
        self.targets = [s.target for s in statements]
        self.reads = [[n for n in walk(s.value) if isinstance(n, lang.Access)] for s in statements]
        self.conditions = [conditions_in([s]) for s in statements]
        members: dict[Key, list[Key]] = {}
        for key in extents.parent:
            members.setdefault(extents.find(key), []).append(key)
        self.members: Mapping[Key, Sequence[Key]] = members
        self.pending: set[Key] = set()
        """What is being looked for: extents, and indices that have none."""

    def rules(self) -> Iterator[tuple[Expr, Expr, bool]]:
        """Extents that only results have, and what they are of others: no more than what would do."""
        for root in self.members:
            if root in self.extents.names and not self.extents.is_decided(root, self.made):
                found = self.made_of(root)
                if found is not None:
                    yield Var(self.extents.names[root]), found, False

    def made_of(self, root: Key) -> Expr | None:
        """The largest for which each index that has it alone stays inside, but not less than what is written needs."""
        if root in self.pending:
            return None
        self.pending.add(root)
        try:
            indices = [k for k in self.members[root] if k[0] == "index"]
            inside = [e for k in indices for e in self.limits(k[1], k[2], whatever=True)]
            parts: list[Expr | None] = [Bin("max", least_of(inside), ZERO)] if inside else []
            parts += [
                beyond(s, self.indices(n), lambda i, n=n: self.ends(i, n))  # type: ignore[misc]
                for n, target in enumerate(self.targets)
                for k, s in enumerate(target.subscripts)
                if self.extents.find(("tensor", target.tensor, k)) == root and not self.is_index(s)
            ]
        finally:
            self.pending.discard(root)
        known = [p for p in parts if p is not None]
        return largest_of(known) if known and len(known) == len(parts) else None

    def is_index(self, subscript: Expr) -> bool:
        return isinstance(subscript, Var) and subscript.name not in self.extents.kernel.sizes

    def indices(self, number: int) -> set[str]:
        accesses = (self.targets[number], *self.reads[number])
        return {v for a in accesses for s in a.subscripts for v in variables(s)} - {*self.extents.kernel.sizes}

    def ends(self, index: str, number: int) -> Ends:
        """Of an index that has an extent, or that conditions bound, or that reads do."""
        key: Key = ("index", index, number)
        root = self.extents.find(key) if key in self.extents.parent else key
        if root in self.extents.names:
            known = self.extents.is_decided(root, self.made) or self.made_of(root) is not None
            return ends_of(self.extents.value(self.extents.names[root]) if known else None)
        least, largest = said(index, self.conditions[number], self.indices(number))
        if largest is None and key not in self.pending:
            self.pending.add(key)
            found = self.limits(index, number, whatever=False)
            self.pending.discard(key)
            largest = Bin("-", largest_of(found), ONE) if found else None
        return least, largest

    def limits(self, index: str, number: int, whatever: bool) -> list[Expr]:
        """The extents with which single reads of operands that have the index in a larger subscript lie inside."""
        found = (
            last(index, s, self.operand(a, k), self.indices(number), lambda i: self.ends(i, number), whatever)
            for a in self.reads[number]
            if a.tensor not in self.made
            for k, s in enumerate(a.subscripts)
            if index in variables(s) and not self.is_index(s)
        )
        return [e for e in found if e is not None]

    def operand(self, access: lang.Access, dimension: int) -> Expr:
        return self.extents.value(self.extents.name(("tensor", access.tensor, dimension)))


def conditions_in(steps: Sequence[Any]) -> list[Formula]:
    """The conditions under which equations are computed and reductions run."""
    nodes = (n for s in steps for n in walk(s))
    return [w for n in nodes if (w := getattr(n, "where", None)) is not None]

"""Extents that no access gives alone: of results along larger subscripts, of indices that occur only within them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce

from spfgen.facts.formula import ONE, ZERO, Bin, Expr, Num, Var, variables
from spfgen.lang import nodes as lang
from spfgen.sets.affine import Affine, NotAffine
from spfgen.sets.uf import linear
from spfgen.space.extents import Extents, Key

ExtentOf = Callable[[str], Expr | None]
"""The extent of an index; None where it is not known."""


def beyond(subscript: Expr, indices: Collection[str], extent_of: ExtentOf) -> Expr | None:
    """One more than the largest value of a subscript, at least 0; None where that is not known. What is not among the
    indices is a size."""
    if isinstance(subscript, Var) and subscript.name in indices:
        return extent_of(subscript.name)
    affine = _linear(subscript)
    if affine is None:
        return None
    result: Expr = Num(affine.constant + 1)
    for atom, k in affine.terms:
        if not isinstance(atom, str):
            return None
        if atom not in indices:
            result = Bin("+", result, _times(k, Var(atom)))
            continue
        extent = extent_of(atom)
        if extent is None:
            return None
        if k > 0:
            result = Bin("+", result, _times(k, Bin("-", extent, ONE)))
    return Bin("max", result, ZERO)


def last(index: str, subscript: Expr, extent: Expr, indices: Collection[str], extent_of: ExtentOf) -> Expr | None:
    """One more than the largest value of the index with which the subscript lies below the extent (at or above 0 where
    the index is subtracted), whatever the other indices are; None where that is not known."""
    affine = _linear(subscript)
    factor = affine.coefficient(index) if affine is not None else 0
    if affine is None or not factor:
        return None
    rest: Expr = Num(affine.constant)
    for atom, k in affine.terms:
        if not isinstance(atom, str):
            return None
        if atom == index:
            continue
        if atom not in indices:
            rest = Bin("+", rest, _times(k, Var(atom)))
        elif (k > 0) == (factor > 0):
            other = extent_of(atom)
            if other is None:
                return None
            rest = Bin("+", rest, _times(k, Bin("-", other, ONE)))
    if factor > 0:
        return Bin("+", _quotient(Bin("-", Bin("-", extent, ONE), rest), factor), ONE)
    return Bin("+", _quotient(rest, -factor), ONE)


def least(parts: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: Bin("min", a, b), dict.fromkeys(parts))


def _linear(subscript: Expr) -> Affine | None:
    try:
        return linear(subscript)
    except NotAffine:
        return None


def _times(k: int, expr: Expr) -> Expr:
    return expr if k == 1 else Bin("*", Num(k), expr)


def _quotient(expr: Expr, by: int) -> Expr:
    return expr if by == 1 else Bin("/", expr, Num(by))


class Following:
    """What calls make of the extents of results of sums of products that are not passed."""

    def __init__(
        self, extents: Extents, uses: Sequence[tuple[lang.Access, Sequence[lang.Access]]], made: Collection[str]
    ) -> None:
        """`uses` are what each statement writes and what it reads; `made` the tensors that are written, not read."""
        self.extents = extents
        self.uses = uses
        self.made = made
        self.pending: set[Key] = set()
        """The indices whose extents are being looked for, by what they share them with."""
        self.asked: set[Key] = set()
        """The extents that are being looked for."""
        members: dict[Key, list[Key]] = {}
        for key in extents.parent:
            members.setdefault(extents.find(key), []).append(key)
        self.members: Mapping[Key, Sequence[Key]] = members

    def rules(self) -> Iterator[tuple[Expr, Expr, bool]]:
        """Extents that only results have, and what they are of others: no more than what would do."""
        for root in self.members:
            if root in self.extents.names and not self.extents.is_decided(root, self.made):
                made = self.made_of(root)
                if made is not None:
                    yield Var(self.extents.names[root]), made, False

    def made_of(self, root: Key) -> Expr | None:
        """The least for which each index that has it alone stays inside, but not less than what is written needs."""
        if root in self.asked:
            return None
        self.asked.add(root)
        try:
            return self.needed(root)
        finally:
            self.asked.discard(root)

    def needed(self, root: Key) -> Expr | None:
        parts: list[Expr] = []
        inside = [e for k in self.members[root] if k[0] == "index" if (e := self.by_reads(k[1], k[2])) is not None]
        if inside:
            parts.append(least(inside))
        for number, (target, _) in enumerate(self.uses):
            for k, subscript in enumerate(target.subscripts):
                if self.extents.find(("tensor", target.tensor, k)) == root and not self.is_index(subscript):
                    most = self.beyond(subscript, number)
                    if most is None:
                        return None
                    parts.append(most)
        return reduce(lambda a, b: a if a == b else Bin("max", a, b), parts) if parts else None

    def is_index(self, subscript: Expr) -> bool:
        return isinstance(subscript, Var) and subscript.name not in self.extents.kernel.sizes

    def beyond(self, subscript: Expr, number: int) -> Expr | None:
        return beyond(subscript, self.indices(number), lambda i: self.extent_of(i, number))

    def indices(self, number: int) -> set[str]:
        target, reads = self.uses[number]
        return {v for a in (target, *reads) for s in a.subscripts for v in variables(s)} - {*self.extents.kernel.sizes}

    def extent_of(self, index: str, number: int) -> Expr | None:
        """The extent by name where it has one, else what the subscripts that it is within make it."""
        key: Key = ("index", index, number)
        root = self.extents.find(key) if key in self.extents.parent else key
        if root in self.extents.names:
            known = root in self.pending or self.extents.is_decided(root, self.made) or self.made_of(root)
            return self.extents.value(self.extents.names[root]) if known and root not in self.pending else None
        return self.by_reads(index, number)

    def by_reads(self, index: str, number: int) -> Expr | None:
        """The largest extent with which all reads of operands that have the index in a larger subscript lie inside."""
        key: Key = ("index", index, number)
        root = self.extents.find(key) if key in self.extents.parent else key
        if root in self.pending:
            return None
        self.pending.add(root)
        try:
            indices = self.indices(number)
            found = [
                last(index, s, self.operand(a, k), indices, lambda i: self.extent_of(i, number))
                for a in self.uses[number][1]
                if a.tensor not in self.made
                for k, s in enumerate(a.subscripts)
                if index in variables(s)
            ]
        finally:
            self.pending.discard(root)
        known = [e for e in found if e is not None]
        return Bin("max", least(known), ZERO) if known else None

    def operand(self, access: lang.Access, dimension: int) -> Expr:
        return self.extents.value(self.extents.name(("tensor", access.tensor, dimension)))

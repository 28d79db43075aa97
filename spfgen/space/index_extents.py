"""The extents of the indices of steps: of the tensors where an index stands alone, else what views and accesses say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from spfgen.errors import SpecError
from spfgen.facts.formula import (
    ONE,
    ZERO,
    Bin,
    Compare,
    Expr,
    Formula,
    Num,
    Var,
    conjuncts,
    substitute,
    variables,
    within,
)
from spfgen.ir import fresh, rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.sets.affine import Affine
from spfgen.space.extents import Extents, Key
from spfgen.space.following import Ends, beyond, ends_of, largest_of, last, least_of, never_negative, said
from spfgen.space.names import unbounded
from spfgen.space.normal import Joined, Normal, moved
from spfgen.space.steps import Chosen, Equation, Link, Linked, Tie


class IndexExtents:
    """The extents of all indices: those of tensors where they stand alone, else what views and accesses make them."""

    def __init__(
        self,
        kernel: lang.Kernel,
        extents: Extents,
        normal: Normal,
        uses: Sequence[lang.Access],
        results: set[str],
        local: set[str],
    ) -> None:
        self.kernel = kernel
        self.extents = extents
        self.normal = normal
        self.uses = uses
        self.made = results
        """Tensors that the kernel makes: their extents follow."""
        self.own = local
        """Those of them that nobody outside sees: nothing knows their extents."""
        self.bounding: Sequence[lang.Access] = uses
        """The accesses that lie within their tensors wherever anything is computed."""
        self.targets: Sequence[lang.Access] = ()
        """What equations write."""
        self.conditions: Sequence[Formula] = ()
        """Where equations are computed and reductions run."""
        self.found: dict[str, Expr] = {}
        self.pending: set[str] = set()
        self.computed: dict[str, Expr] = {}
        """Extents that are made of others."""
        self.asked: dict[str, Var] = {}
        """The extents of indices that a split makes and nothing decides: the caller says them. One follows from the
        whole, but not beside an empty part."""
        for link in normal.links:
            open_ = [p for p in link.parts if not self.is_decided(p)]
            for part in open_ if len(open_) > 1 or self.may_be_empty(p for p in link.parts if p not in open_) else ():
                if self.named(part) is None:
                    self.asked[part] = self.asked.get(normal.shared.get(part, part)) or self.asked_for(part)

    def asked_for(self, index: str) -> Var:
        """A name for what the caller says of an index; in another statement one that is written alike may have
        another extent."""
        name = f"{self.normal.called.get(index, index)}_extent"
        return Var(fresh(name, {e.name for e in self.asked.values()}))

    def is_decided(self, index: str) -> bool:
        named = self.named(index)
        if named is not None and named[1]:
            return True
        return (
            index in self.normal.slices
            or index in self.normal.collapsed
            or any(new == index for new, _ in self.normal.concats)
        )

    def may_be_empty(self, indices: Iterable[str]) -> bool:
        """Whether one may run over nothing, for all that is said of tensors."""
        extents = [(self.named(i) or (None,))[0] for i in indices]
        return any(not isinstance(extent, Num) or extent.value < 1 for extent in extents)

    def tensor(self, name: str, dimension: int) -> Expr:
        return self.extents.value(self.extents.name(("tensor", name, dimension)))

    def sizes(self, node: Any) -> Any:
        """With the names of extents in place."""
        values = {
            n.name: self.tensor(n.name.rpartition("#")[0], int(n.name.rpartition("#")[2]))
            for n in walk(node)
            if isinstance(n, Var) and "#" in n.name
        }
        return substitute(node, values) if values else node

    def named(self, index: str) -> tuple[Expr, bool] | None:
        """The extent where it stands alone, or one that was written alike, and whether an operand decides it."""
        index = self.normal.shared.get(index, index)
        key: Key = ("index", index, 0)
        if key not in self.extents.parent:
            return self.least(index)
        root = self.extents.find(key)
        if root not in self.extents.names:
            return self.least(index)
        return self.extents.value(self.extents.names[root]), self.extents.is_decided(root, self.made)

    def least(self, index: str) -> tuple[Expr, bool] | None:
        """Of an index that one access repeats."""
        for key, places in self.extents.repeated:
            if key[1:] == (index, 0):
                result: Expr | None = None
                for name in dict.fromkeys(self.extents.name(p) for p in places):
                    value = self.extents.value(name)
                    result = value if result is None else Bin("min", result, value)
                assert result is not None
                return result, any(p[1] not in self.made for p in places)
        return None

    def extent(self, index: str) -> Expr:
        """The extent of an index, by name. Raises SpecError where nothing bounds it."""
        extent = self.extent_of(index)
        if isinstance(extent, Var | Num):
            return extent
        name = next((n for n, e in self.computed.items() if e == extent), None)
        if name is None:
            name = f"{index}_extent"
            while name in self.computed or name in self.normal.taken:
                name = f"{name}_"
            self.computed[name] = extent
        return Var(name)

    def extent_of(self, index: str) -> Expr:
        if index not in self.found:
            named = self.named(index)
            for extent in sorted(variables(named[0])) if named is not None else ():
                self.make_own(extent)
            if named is not None and not self.is_own(named[0]):
                self.found[index] = named[0]
            else:
                computed = self.made_of(index)
                if computed is None:
                    raise self.unbounded(index)
                self.found[index] = computed
        return self.found[index]

    def is_free(self, index: str) -> bool:
        """Whether nothing but conditions, and that accesses lie within their tensors, bounds the index."""
        named = self.named(index)
        if named is not None and not self.is_own(named[0]):
            return False
        return index not in self.asked and self.viewed(index) is None and named is None

    def is_own(self, extent: Expr) -> bool:
        """Whether it is one of a tensor that nobody outside sees, and not made of others."""
        return any(self.is_own_name(v) and v not in self.computed for v in variables(extent))

    def agreements(self) -> Iterator[tuple[tuple[str, ...], ...]]:
        """Groups of extents whose least ones have to be the same, as far as calls know them."""
        for groups in self.extents.agreements():
            known = [g for g in groups if not any(map(self.is_own_name, g))]
            if len(known) > 1:
                yield tuple(known)

    def agreements_with_own(self) -> Iterator[tuple[Expr, Expr]]:
        """The others: what calls know, and what an extent that nobody outside sees is made of."""
        for groups in self.extents.agreements():
            least = [_least([self.extents.value(n) for n in g]) for g in groups]
            local = [e for e, g in zip(least, groups, strict=True) if any(map(self.is_own_name, g))]
            yield from ((e, o) for e in least for o in local if e not in local)

    def of_others(self, extent: Expr) -> Expr:
        """The extent, made of what is known outside."""
        local = {v: self.computed[v] for v in variables(extent) if self.is_own_name(v) and v in self.computed}
        if local:
            return self.of_others(substitute(extent, local))
        same: Expr = rewrite(
            lambda n: n.left if isinstance(n, Bin) and n.op == "min" and n.left == n.right else None, extent
        )
        return extent if same is extent else self.of_others(same)

    def is_own_name(self, extent: str) -> bool:
        return extent.partition(".")[0] in self.own

    def make_own(self, extent: str) -> None:
        """An extent of a tensor that nobody outside sees is one more than the largest place that equations write: where
        no index that others bound stands alone there. Nothing is made where that is not known."""
        if not self.is_own_name(extent) or extent in self.computed or extent in self.pending:
            return
        self.pending.add(extent)
        most: Expr | None = None
        for target in self.targets:
            for k, subscript in enumerate(target.subscripts):
                if self.extents.name(("tensor", target.tensor, k)) != extent:
                    continue
                beyond = self.beyond(subscript)
                if beyond is None:
                    self.pending.discard(extent)
                    return
                most = beyond if most is None or most == beyond else Bin("max", most, beyond)
        self.pending.discard(extent)
        if most is not None:
            self.computed[extent] = most

    def beyond(self, subscript: Expr) -> Expr | None:
        """One more than the largest value of a subscript; None where that is not known."""
        return beyond(self.sizes(subscript), self.normal.taken, lambda index: self.ends(index, whatever=False))

    def ends(self, index: str, whatever: bool) -> Ends:
        """Of an index that has an extent, or that conditions bound, or that reads do; with `whatever` reads bound only
        those of results."""
        named = self.named(index)
        if named is not None and not self.is_own(named[0]):
            is_known = named[1] or self.viewed(index) is not None or self.largest_inside(index) is not None
            return ends_of(named[0] if is_known or not whatever else None)
        viewed = self.viewed(index)
        if viewed is not None:
            return ends_of(viewed)
        bounds = said(index, self.conditions, self.normal.taken)
        return bounds if whatever or bounds[1] is not None else ends_of(self.made_of(index))

    def make_all_own(self) -> None:
        """All such extents. Raises SpecError where one is not known."""
        for use in self.uses:
            for k in range(len(use.subscripts) if use.tensor in self.own else 0):
                extent = self.extents.value(self.extents.name(("tensor", use.tensor, k)))
                if isinstance(extent, Var):
                    self.make_own(extent.name)
                if self.is_own(extent):
                    where = f"dimension {k + 1} of the local tensor `{use.tensor}`"
                    raise SpecError(
                        f"expected the extent of {where}, but nothing gives it",
                        use.span,
                        (f"declare it, as a number or a size: `local tensor {use.tensor}[n, ...]`",),
                    )

    def made_of(self, index: str) -> Expr | None:
        """What views and accesses make it."""
        if index in self.asked:
            return self.asked[index]
        if index in self.pending:
            return None
        self.pending.add(index)
        try:
            return self.by_slice(index) or self.by_concat(index) or self.by_link(index) or self.by_reads(index)
        finally:
            self.pending.discard(index)

    def known(self, index: str) -> Expr | None:
        """The extent, if an operand or a view decides it."""
        named = self.named(index)
        if named is not None and named[1]:
            return named[0]
        return self.made_of(index) or (named[0] if named is not None and index not in self.pending else None)

    def by_slice(self, index: str) -> Expr | None:
        if index not in self.normal.slices:
            return None
        return self.of_slice(*self.normal.slices[index])

    def of_slice(self, base: Any, start: Expr | None, stop: Expr | None, step: int) -> Expr:
        """How many places a slice of a tensor, or of an index, has."""
        whole = self.tensor(base[1], base[2]) if isinstance(base, tuple) else None
        if isinstance(base, str):
            return _length(start or ZERO, stop or ZERO, step)
        assert whole is not None
        if step > 0:
            first = ZERO if start is None else self.place(start, whole)
            last = whole if stop is None else Bin("min", self.place(stop, whole), whole)
            return _length(first, last, step)
        first = Bin("-", whole, ONE) if start is None else Bin("min", self.place(start, whole), Bin("-", whole, ONE))
        last = Num(-1) if stop is None else self.place(stop, whole)
        return _length(first, last, step)

    def place(self, expr: Expr, whole: Expr) -> Expr:
        return Bin("+", whole, expr) if isinstance(expr, Num) and expr.value < 0 else expr

    def by_link(self, index: str) -> Expr | None:
        """From a collapse or split: the product of the parts, or the whole divided by the other parts. The product is
        preferred: there is no quotient by a part of length 0."""
        for link in self.normal.links:
            if link.whole == index:
                parts = [self.known(p) for p in link.parts]
                if all(p is not None for p in parts):
                    return _product([p for p in parts if p is not None])
        for link in self.normal.links:
            if index in link.parts:
                others = [self.known(p) for p in link.parts if p != index]
                whole = self.known(link.whole)
                if whole is not None and all(p is not None for p in others):
                    return Bin("/", whole, _product([p for p in others if p is not None]))
        return None

    def by_concat(self, index: str) -> Expr | None:
        for new, old in self.normal.concats:
            if new == index:
                parts = [self.known(o) for o in old]
                if all(p is not None for p in parts):
                    result = parts[0]
                    for part in parts[1:]:
                        result = Bin("+", result, part)  # type: ignore[arg-type]
                    return result
        return None

    def by_reads(self, index: str) -> Expr | None:
        """From accesses with the index in a larger subscript: the largest range that keeps each within its tensor."""
        limits = self.limits(index, whatever=False)
        return Bin("max", largest_of(limits), ZERO) if limits else None

    def largest_inside(self, index: str) -> Expr | None:
        """The largest extent with which all of these accesses lie within their tensors."""
        if index in self.pending:
            return None
        self.pending.add(index)
        limits = self.limits(index, whatever=True)
        self.pending.discard(index)
        return Bin("max", least_of(limits), ZERO) if limits else None

    def limits(self, index: str, whatever: bool) -> list[Expr]:
        """The extents with which single accesses lie within their tensors: `whatever` other indices are, or for some of
        their values."""
        extents = (
            last(index, self.sizes(s), self.tensor(a.tensor, k), self.normal.taken, ends, whatever)
            for ends in [lambda other: self.ends(other, whatever)]
            for a in self.bounding
            if a.tensor not in self.made
            for k, s in enumerate(a.subscripts)
            if index in variables(s)
        )
        return [e for e in extents if e is not None]

    def check_bounded(self, index: str, body: Any) -> None:
        """Raises SpecError for an index that is in no subscript and in no condition."""
        spoken = any(index in variables(s) for a in self.uses for s in a.subscripts)
        if not spoken and not any(isinstance(n, Compare) and index in variables(n) for s in body for n in walk(s)):
            raise self.unbounded(index)

    def unbounded(self, index: str) -> SpecError:
        name = self.normal.called.get(index, index)
        span = next((a.span for a in self.uses if any(index in variables(s) for s in a.subscripts)), self.kernel.span)
        return unbounded(name, span)

    def derived(self) -> Iterator[tuple[Expr, Expr, bool]]:
        """What calls have to know of extents that follow from others; those that nobody outside sees are made of
        these."""
        agreed = ((known, local, True) for known, local in self.agreements_with_own())
        for one, other, is_checked in (*self.derived_by_views(), *agreed):
            if not (isinstance(one, Var) and self.is_own_name(one.name)):
                yield self.of_others(one), self.of_others(other), is_checked

    def derived_by_views(self) -> Iterator[tuple[Expr, Expr, bool]]:
        """Extents that have names, what calls make results by that have them, and whether the two have to be equal: so
        it is where a view has the extent; where reads lie within their tensors says no more than what would do."""
        for index in sorted(self.normal.taken):
            named = self.named(index)
            if named is None:
                continue
            is_part = any(index in link.parts for link in self.normal.links)
            viewed = None if is_part and named[1] else self.viewed(index)
            other = viewed or (None if named[1] else self.largest_inside(index))
            if other is not None and named[0] != other:
                yield named[0], self.sizes(other), viewed is not None and not is_part
        for index, other_slice in self.normal.further:
            one, other = self.of_slice(*self.normal.slices[index]), self.of_slice(*other_slice)
            if one != other:
                yield self.sizes(one), self.sizes(other), True
        for name, made_of in self.computed.items():
            yield Var(name), self.sizes(made_of), True
        yield from self.of_results()
        yield from self.by_links()

    def of_results(self) -> Iterator[tuple[Expr, Expr, bool]]:
        """Extents that only results have, along subscripts that are more than an index: what is written lies inside."""
        most: dict[str, list[Expr | None]] = {}
        for target in self.targets:
            for k, subscript in enumerate(target.subscripts if target.tensor in self.made - self.own else ()):
                key: Key = ("tensor", target.tensor, k)
                if not isinstance(subscript, Var) and not self.extents.is_decided(key, self.made):
                    most.setdefault(self.extents.name(key), []).append(self.beyond(subscript))
        for name, ends in most.items():
            known = [e for e in ends if e is not None]
            if len(known) == len(ends):
                yield Var(name), self.sizes(largest_of(known)), False

    def by_links(self) -> Iterator[tuple[Expr, Expr, bool]]:
        """What the wholes and the parts of links make of each other, for extents that no operand decides."""
        extents_of: dict[str, Expr] = {i: n[0] for i in sorted(self.normal.taken) if (n := self.named(i)) and not n[1]}
        for index, size in {**extents_of, **self.asked}.items():
            for link in self.normal.links:
                parts = [self.asked.get(p) or (self.named(p) or (self.viewed(p),))[0] for p in link.parts if p != index]
                known = [p for p in parts if p is not None]
                if len(known) < len(parts) or any(size in walk(p) for p in known):
                    continue
                if link.whole == index and index in self.asked:
                    yield size, self.sizes(_product(known)), False
                whole = self.beside(link) if index in link.parts else None
                if whole is not None:
                    yield size, self.sizes(Bin("/", whole, _product(known))), False

    def beside(self, link: Link) -> Expr | None:
        """The extent of the whole of a link, but for what its parts would make it."""
        links, self.normal.links = self.normal.links, [k for k in self.normal.links if k is not link]
        try:
            return self.known(link.whole)
        finally:
            self.normal.links = links

    def viewed(self, index: str) -> Expr | None:
        """The extent that a view gives the index."""
        around = set(self.pending)
        self.pending.add(index)
        try:
            return self.by_slice(index) or self.by_concat(index) or self.by_link(index)
        finally:
            self.pending = around

    def needed(self, body: Any) -> set[str]:
        """The indices over which something runs."""
        needed: set[str] = set()
        for node in (n for s in body for n in walk(s)):
            match node:
                case Equation(indices=indices) | lang.For(indices) | lang.Reduce(_, indices):
                    needed |= set(indices)
                case Linked(link):
                    needed |= set(link.names)
        return needed

    # --- nodes -----------------------------------------------------------------------------------

    def resolved(self, step: Any) -> Any:
        """With extents in links, concatenations as choices."""

        def rule(node: Any) -> Any:
            match node:
                case Linked(Link(_, parts, ()) as link):
                    return replace(node, link=replace(link, extents=tuple(self.extent(p) for p in parts)))
                case Joined():
                    return self.joined(node)
                case Var(name) if "#" in name:
                    return self.sizes(node)
            return None

        return rewrite(rule, step)

    def limits_of(self, access: lang.Access) -> list[Formula]:
        """Where an access lies within its tensor. An index that stands alone has the extent, an integer that a value is
        may be any."""
        limits: list[Formula] = []
        for k, subscript in enumerate(access.subscripts):
            if not isinstance(subscript, Var) or subscript.name not in self.found:
                limits += conjuncts(within(self.sizes(subscript), ZERO, self.tensor(access.tensor, k)))
        return limits

    def never_negative(self, value: Affine) -> bool:
        """Whether an expression of indices and sizes is 0 or more for all their values."""

        def ends(index: str) -> Ends:
            return (None, None) if index not in self.found or self.is_free(index) else ends_of(self.found[index])

        return never_negative(value, self.normal.taken, ends)

    def joined(self, node: Joined) -> Any:
        offset: Expr = ZERO
        parts: list[tuple[Expr, Any]] = []
        for old, value in zip(node.old, node.parts, strict=True):
            start: Expr = ZERO if offset == ZERO else Bin("-", ZERO, offset)
            part = moved(value, Tie(old, node.new, start, 1), node.span)
            offset = self.extent(old) if offset == ZERO else Bin("+", offset, self.extent(old))
            parts.append((offset, part))
        result = parts[-1][1]
        for end, part in reversed(parts[:-1]):
            result = Chosen(Compare("<", Var(node.new), end), part, result, node.span)
        return result


def _length(start: Expr, stop: Expr, step: int) -> Expr:
    """How many places a slice has."""
    distance = Bin("-", stop, start) if step > 0 else Bin("-", start, stop)
    match distance:
        case Bin("-", Num(a), Num(b)):
            return Num(max(0, -(-(a - b) // abs(step))))
    rounded = Bin("/", Bin("+", distance, Num(abs(step) - 1)), Num(abs(step))) if abs(step) > 1 else distance
    return Bin("max", rounded, ZERO)


def _least(parts: Sequence[Expr]) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = Bin("min", result, part)
    return result


def _product(parts: Sequence[Expr]) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = Bin("*", result, part)
    return result

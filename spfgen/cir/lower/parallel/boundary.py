"""The places of one key, to which several parts add: each has an array of its own for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from spfgen.cir.lower.finish import finished
from spfgen.cir.lower.parallel.parts import Loop, monoid_of
from spfgen.cir.lower.scope import Accumulator, Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT, joined, linear_index, loop, minus
from spfgen.facts.formula import ZERO, Bin, Expr, Var, substitute, variables
from spfgen.ir import rewrite, with_children
from spfgen.plan.nodes import Accumulate, Clear, Find, Finish, Guard, Plan, Scan, Slice, Version, Versions, chain
from spfgen.plan.transform.partition import finish_of, stored
from spfgen.plan.transform.simplify import without_unused
from spfgen.sets.affine import NotAffine, expression
from spfgen.sets.uf import linear
from spfgen.space.nodes import Monoid, Operand


@dataclass
class Boundary:
    """What several parts add to the places of one key: an array of them for each, added to the target at the end."""

    low: Lowering
    target: Operand
    slice: Slice
    scope: Scope
    guarded: bool
    """Whether conditions in the loop decide that there is such a place."""
    monoid: Monoid | None = None
    finish: Finish | None = None

    def __post_init__(self) -> None:
        self.kind = self.low.kinds[self.target.tensor]
        self.array = c.Name(self.low.names.new(f"{self.target.tensor}_part"))
        varying = [(r, e) for r, e in zip(self.slice.rest, self.slice.extents, strict=True) if r != ZERO]
        self.operand = replace(self.target, place=tuple(r for r, _ in varying), extents=tuple(e for _, e in varying))
        sizes = [self.low.expr(e, self.scope) for _, e in varying]
        self.count = joined("*", sizes) if sizes else c.Int(1)

    @property
    def single(self) -> bool:
        return not self.operand.place

    def of_row(self, plan: Plan, array: str) -> Plan | None:
        """The nest with the places of the key in an array of that name; None if it speaks of others. Clearing goes on
        in the target."""
        unknown: list[Operand] = []

        def rule(node: object) -> object | None:
            if not isinstance(node, Operand) or (node.tensor, node.array) != (self.target.tensor, self.target.array):
                return None
            place = self.rest(node)
            unknown.extend([node] if place is None else [])
            return replace(self.operand, place=place or (), array=array)

        def moved(node: Any) -> Any:
            match node:
                case Clear(body=inner):
                    return node if inner is None else replace(node, body=moved(inner))
                case Plan() | Version():
                    return with_children(moved, node)
            return rewrite(rule, node)

        result: Plan = moved(plan)
        return None if unknown else result

    def rest(self, operand: Operand) -> tuple[Expr, ...] | None:
        """Where the operand's place is among those of the key."""
        if operand.place == self.target.place:
            return self.operand.place
        offsets = []
        for place, base, offset in zip(operand.place, self.slice.base, self.slice.rest, strict=True):
            try:
                further = expression(linear(place) - linear(base))
            except NotAffine:
                return None
            if offset != ZERO:
                offsets.append(further)
            elif further != ZERO:
                return None
        return tuple(offsets)

    def start(self, scope: Scope, key: Mapping[str, Expr] | None = None) -> c.Expr:
        """Where the places of the key begin in the target."""
        low = self.low
        base = tuple(substitute(b, key or {}) for b in self.slice.base)
        first = low.place(replace(self.target, place=base), scope)
        assert isinstance(first, c.Load)
        return c.Bin("+", first.array, first.index) if first.index != c.Int(0) else first.array

    def redirected(self, plan: Plan) -> Plan:
        """The nest with its additions to these places; nothing is cleared or stored."""

        def rule(node: object) -> object | None:
            match node:
                case Clear(body=inner) if inner is not None:
                    return inner
                case Scan(between=Clear()):
                    return replace(node, between=None)
                case Accumulate(op="="):
                    return replace(node, op="+=")  # of sums alone: what is made of totals is stored
                case Versions() if not node.by_cost:
                    return node.inner
            return None

        redirected = self.of_row(rewrite(rule, plan), self.target.array)
        assert redirected is not None
        return without_unused(redirected)

    def begun(self, arrays: c.Name, number: c.Expr) -> list[c.Stmt]:
        """The places of a part, cleared."""
        name = c.Name(self.low.names.new("p"))
        start = c.Bin("+", arrays, c.Bin("*", c.Cast(INT, number), self.count) if self.count != c.Int(1) else number)
        declared = c.Declare(f"{self.kind.c} *restrict", self.array.name, start)
        nothing = self.low.nothing(self.kind, self.monoid)
        if self.single:
            return [declared, c.Assign(c.Load(self.array, c.Int(0)), "=", nothing)]
        clear = c.Assign(c.Load(self.array, name), "=", nothing)
        return [declared, loop(name.name, c.Int(0), self.count, [clear])]

    def added(self, arrays: c.Name, number: c.Expr, scope: Scope) -> list[c.Stmt]:
        """The places of a part are added to the target's."""
        low = self.low
        source: c.Expr = number
        if not self.single:
            source = c.Bin("+", c.Bin("*", c.Cast(INT, number), self.count), self.linear_rest())

        def add(place: Operand) -> c.Stmt:
            total = Accumulator(low.place(place, scope), self.kind, monoid=self.monoid)
            return low.added(total, "+=", c.Load(arrays, source), self.kind)

        return self.each(add, scope)

    def finished(self, scope: Scope) -> list[c.Stmt]:
        """What is made of the totals in the target's places."""
        assert self.finish is not None
        pairs = zip(self.counters(), (r for r in self.slice.rest if r != ZERO), strict=True)
        names = {rest.name: Var(word) for word, rest in pairs if isinstance(rest, Var)}
        finish = substitute(self.finish, names)

        def made(place: Operand) -> list[c.Stmt]:
            return finished(self.low, finish, self.low.place(place, scope), self.kind, scope, [])

        if self.single:
            return made(self.target)
        return self.each(lambda place: c.Braces(c.Block(tuple(made(place)))), scope)

    def counters(self) -> list[str]:
        return [f"{self.target.tensor} rest {k}" for k, r in enumerate(self.slice.rest) if r != ZERO]

    def linear_rest(self) -> c.Expr:
        names = [c.Name(self.low.names[n]) for n in self.counters()]
        return linear_index(names, self.operand.extents, lambda e: self.low.expr(e, self.scope))

    def each(self, do: Callable[[Operand], c.Stmt], scope: Scope) -> list[c.Stmt]:
        """A statement for each place of the key."""
        low = self.low
        place: list[Expr] = []
        loops: list[tuple[str, c.Expr]] = []
        for k, (base, offset, extent) in enumerate(
            zip(self.slice.base, self.slice.rest, self.slice.extents, strict=True)
        ):
            if offset == ZERO:
                place.append(base)
                continue
            dim = f"{self.target.tensor} rest {k}"
            name = low.names[dim]
            end = low.expr(extent, scope)
            if base != ZERO:
                left = minus(low.expr(self.target.extents[k], scope), low.expr(base, scope))
                end = c.Call("spfgen_min", (end, left))
            loops.append((name, end))
            place.append(Var(dim) if base == ZERO else Bin("+", base, Var(dim)))
        body: list[c.Stmt] = [do(replace(self.target, place=tuple(place)))]
        for name, end in reversed(loops):
            body = [loop(name, c.Int(0), end, body)]
        bases = [(b, e) for b, e in zip(self.slice.base, self.target.extents, strict=True) if variables(b)]
        if not self.guarded or not bases:
            return body
        inside = [c.Bin(">=", low.expr(b, scope), c.Int(0)) for b, _ in bases]
        inside += [c.Bin("<", low.expr(b, scope), low.expr(e, scope)) for b, e in bases]
        return [c.If(joined("&&", inside), c.Block(tuple(body)))]


def boundary_of(low: Lowering, plan: Loop, row_slice: Slice, scope: Scope) -> Boundary:
    target = stored(plan)
    for k, offset in enumerate(row_slice.rest):
        dim = f"{target.tensor} rest {k}"
        if offset != ZERO and dim not in low.names.table:
            low.names.table[dim] = low.names.new("r")
    nodes = list(chain(plan))
    guarded = any(isinstance(n, Guard | Find) for n in nodes)
    return Boundary(low, target, row_slice, scope, guarded, monoid_of(plan), finish_of(plan))

"""Segments that lie one behind the other in one loop (plan/flat.py), where they are short and of many lengths or where
most of them are empty."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.build import INT, loop, minus
from spfgen.cir.scope import Scope
from spfgen.cir.sums import pays
from spfgen.facts.formula import Call, Expr, Var, variables
from spfgen.ir import rewrite
from spfgen.plan.flat import asked_above
from spfgen.plan.nodes import Plan, Scan, chain, with_body

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering

GROUP = 128
"""Segments that are looked at together: their numbers fit in a byte."""
LOOKED_AT = 64
"""Those of a group that tell for all of it how lengths change."""
SHORT = 4
"""Positions of a segment, on average: in longer ones a processor is wrong too seldom."""
EMPTY = 2
"""Segments for each position, at least, where most are empty: marks take less time than to look at each segment."""
EVEN = 8
"""Segments for each one whose length is another than that of the one before: a processor foresees where those end."""


def flattened(low: Lowering, plan: Scan, scope: Scope) -> list[c.Stmt]:
    """The loop over segments in groups, but for those that are all of one length; or, where no position asks for its
    segment, the loop over all positions."""
    first, end = low.fold("spfgen_max", plan.low, scope), low.fold("spfgen_min", plan.high, scope)
    inner = next(n for n in chain(plan.body) if isinstance(n, Scan))
    if not asked_above(plan, inner) and plan.dim not in variables(inner.body):  # type: ignore[arg-type]
        whole = _Group(low, plan, inner, scope, first, end)
        body = [c.Comment("all segments, which lie one behind the other"), *whole.bounds, whole.positions()]
        return [c.If(c.Bin("<", first, end), c.Block(tuple(body)))]
    name = low.names[plan.dim]
    begin, stop = c.Name(low.names.new(f"{name}_group")), c.Name(low.names.new(f"{name}_last"))
    group = _Group(low, plan, inner, scope, begin, stop)
    last = c.Call("spfgen_min", (c.Bin("+", begin, c.Int(GROUP)), end))
    body = [c.Declare(f"const {INT}", stop.name, last), *group.bounds, *group.lines()]
    about = c.Comment(f"{GROUP} {name} at a time: their segments lie one behind the other")
    groups = c.For(INT, begin.name, first, c.Bin("<", begin, end), GROUP, c.Block(tuple(body)))
    return [c.If(group.are_even(first, end), group.apart(plan.low, plan.high), c.Block((about, groups)))]


@dataclass
class _Group:
    """The segments of a loop from one to before another, and their positions."""

    low: Lowering
    plan: Scan
    inner: Scan
    scope: Scope
    first: c.Expr
    last: c.Expr

    def __post_init__(self) -> None:
        names = self.low.names
        self.segment, self.position = c.Name(names[self.plan.dim]), c.Name(names[self.inner.dim])
        self.begin, self.end = (c.Name(names.new(f"{self.position.name}_{w}")) for w in ("begin", "end"))

    @property
    def bounds(self) -> list[c.Stmt]:
        """Where the first segment begins and the last one ends."""
        places = ((self.begin, self.first), (self.end, self.last))
        return [c.Declare(f"const {INT}", name.name, self.pointer(at)) for name, at in places]

    def pointer(self, at: c.Expr) -> c.Load:
        """Where a segment begins."""
        load = self.low.expr(Call(self.plan.flat, (Var(self.plan.dim),)), self.scope)
        assert isinstance(load, c.Load)
        return c.Load(load.array, at)

    def positions(self, above: tuple[c.Stmt, ...] = ()) -> c.For:
        """All positions of the segments in one loop, which begins with these lines."""
        body: Plan = self.inner.body
        for load in reversed(asked_above(self.plan, self.inner)):
            body = with_body(load, body)
        lines = self.low.plan(body, replace(self.scope, looped=True))
        return loop(self.position.name, self.begin, self.end, [*above, *lines])

    def lines(self) -> list[c.Stmt]:
        """The segments in one loop or each in its own."""
        new, one, segment = self.low.names.new, c.Int(1), self.segment
        uneven, looked_at, marked = (c.Name(new(n)) for n in ("uneven", "looked_at", "marked"))
        lengths = (
            c.Bin("-", self.pointer(c.Bin("+", segment, one)), self.pointer(segment)),
            c.Bin("-", self.pointer(segment), self.pointer(c.Bin("-", segment, one))),
        )
        count = c.Assign(uneven, "+=", c.Bin("!=", *lengths))
        length, positions = c.Bin("-", self.last, self.first), c.Bin("-", self.end, self.begin)
        empty = c.Bin("<=", c.Bin("*", c.Int(EMPTY), positions), length)
        short = c.Bin("<=", positions, c.Bin("*", c.Int(SHORT), length))
        many = c.Bin(">", c.Bin("*", c.Int(EVEN), uneven), c.Bin("-", looked_at, self.first))
        until = c.Call("spfgen_min", (c.Bin("+", self.first, c.Int(LOOKED_AT)), self.last))
        looked = [
            c.Comment("among the first ones those of another length than the one before"),
            c.Declare(f"const {INT}", looked_at.name, until),
            c.Declare("int", uneven.name, c.Int(0)),
            loop(segment.name, c.Bin("+", self.first, one), looked_at, [count]),
            c.Assign(marked, "=", many),
        ]
        first, last = (Var(f"@{e.name}") for e in (self.first, self.last) if isinstance(e, c.Name))
        self.low.names.table |= {v.name: v.name[1:] for v in (first, last)}
        return [
            c.Comment("mostly empty ones, or short ones of many lengths"),
            c.Declare("bool", marked.name, empty),
            c.If(c.Bin("&&", c.Un("!", marked), short), c.Block(tuple(looked))),
            c.If(marked, c.Block(tuple(self.together())), self.in_turn((first,), (last,))),
        ]

    def together(self) -> list[c.Stmt]:
        """Each segment is marked with its number where it begins; of empty ones the next one's takes the place."""
        marks, latest, place = (c.Name(self.low.names.new(n)) for n in ("marks", "latest", "place"))
        size = GROUP * SHORT + 1
        own = c.Cast("uint8_t", c.Bin("-", self.segment, self.first))
        mark = c.Assign(c.Load(marks, c.Bin("-", self.pointer(self.segment), self.begin)), "=", own)
        found = c.Load(marks, c.Bin("-", self.position, self.begin))
        above: tuple[c.Stmt, ...] = (
            c.Assign(latest, "=", c.Call("spfgen_max", (latest, found))),
            c.Declare(f"const {INT}", self.segment.name, c.Bin("+", self.first, latest)),
        )
        return [
            c.Comment("marks where segments begin, then all positions in one loop"),
            c.Declare("uint8_t", marks.name, length=size),
            loop(place.name, c.Int(0), c.Int(size), [c.Assign(c.Load(marks, place), "=", c.Int(0))]),
            loop(self.segment.name, self.first, self.last, [mark]),
            c.Declare(INT, latest.name, c.Int(0)),
            self.positions(above),
        ]

    def are_even(self, first: c.Expr, last: c.Expr) -> c.Expr:
        """Whether most segments have neighbours of their length, as samples say; not asked where what is fetched ahead
        counts more."""
        kind = self.low.element_type(Call(self.plan.flat, (Var(self.plan.dim),))).name
        ends = self.pointer(c.Bin("+", first, c.Int(1)))
        even = c.Call(f"spfgen_even_{kind}", (c.Bin("+", ends.array, ends.index), minus(last, first)))
        ahead = self.inner.ahead
        return even if ahead is None else c.Bin("&&", c.Un("!", pays(self.low, ahead, self.scope)), even)

    def apart(self, first: tuple[Expr, ...], last: tuple[Expr, ...], always: bool = False) -> c.Block:
        """Each segment in a loop of its own, which may fetch ahead always or never."""
        ahead = replace(self.inner.ahead, when=()) if always and self.inner.ahead is not None else None
        inner, plain = replace(self.inner, ahead=ahead), replace(self.plan, low=first, high=last, flat="")
        nest: Plan = rewrite(lambda n: inner if n is self.inner else None, plain)
        return c.Block(tuple(self.low.plan(nest, self.scope)))

    def in_turn(self, first: tuple[Expr, ...], last: tuple[Expr, ...]) -> c.Stmt:
        """Each segment in a loop of its own; whether to fetch ahead is asked for the group."""
        if self.inner.ahead is None:
            return self.apart(first, last)
        fetching = pays(self.low, self.inner.ahead, self.scope)
        return c.If(fetching, self.apart(first, last, always=True), self.apart(first, last))

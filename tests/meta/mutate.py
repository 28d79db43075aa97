"""Plans with one mistake each, of the kinds that a faulty planner or pass makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from spfgen.facts.formula import ONE, Bin, Call, Expr, Formula, Not, Var, variables
from spfgen.ir import walk
from spfgen.lang.nodes import Apply
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    Append,
    Array,
    Block,
    BoundSearch,
    Break,
    Clear,
    Define,
    Find,
    FindTable,
    Guard,
    If,
    InPlace,
    Let,
    Load,
    Plan,
    Products,
    Repeat,
    RowWorkspace,
    Scan,
    SearchState,
    Segment,
    Store,
    body,
    goes_on,
    with_body,
)
from spfgen.space.nodes import Operand, Read

BOUND, DROPPED, NEGATED = "a bound by one", "a guard dropped", "a guard negated"
SUBSCRIPT, OPERAND, OFFSET = "a subscript exchanged", "an operand exchanged", "an offset shifted"
CASE, PART = "a case of a merge lost", "a part lost"
KEPT, UNCLEARED, PARALLEL = "kept one loop too long", "a clear dropped", "parallel put on a serial loop"
PLACED = "entries placed otherwise"
KINDS = (BOUND, DROPPED, NEGATED, SUBSCRIPT, OPERAND, OFFSET, CASE, PART, KEPT, UNCLEARED, PARALLEL, PLACED)

COSTS = frozenset("ahead rejected span when additions flatten weight work".split())
"""Fields that only decide how fast something is, or when."""
LOOPS = Scan | Find | Repeat
BINDING = Let | Array | Break
"""Statements that cannot go alone: what follows needs them, or the loop would not end."""


@dataclass(frozen=True)
class Mutant:
    """What was done of which kind, and the plan then."""

    kind: str
    what: str
    plan: Plan


@dataclass(frozen=True)
class Site:
    """A node of a plan, those around it from the outside in, and what makes the whole with another one there."""

    node: Any
    around: tuple[Any, ...]
    put: Callable[[Any], Plan]

    @property
    def names(self) -> list[str]:
        """The integers that are known there."""
        found: dict[str, None] = {}
        for node in self.around:
            for name in _bound(node):
                found[name] = None
        return [*found]


def mutants(plan: Plan) -> Iterator[Mutant]:
    """All mutants of one mistake."""
    operands = [*dict.fromkeys(n for n in walk(plan) if isinstance(n, Read))]
    for site in sites(plan):
        for kind, changed in _changes(site, operands):
            whole = site.put(changed)
            if whole != plan:
                yield Mutant(kind, f"{_label(site)} becomes {_shown(changed)}", whole)


def sites(root: Plan) -> Iterator[Site]:
    yield from _sites(root, (), lambda n: n)


def _sites(node: Any, around: tuple[Any, ...], put: Callable[[Any], Plan]) -> Iterator[Site]:
    yield Site(node, around, put)
    inner = (*around, node)
    for name in (f.name for f in fields(node) if f.name not in COSTS):
        value = getattr(node, name)
        if is_dataclass(value):
            yield from _sites(value, inner, lambda n, name=name: put(replace(node, **{name: n})))
        elif type(value) is tuple:  # what is asked for is none
            for k, item in enumerate(value):
                if is_dataclass(item):
                    before = (*inner, *(value[:k] if isinstance(node, Block) else ()))
                    yield from _sites(
                        item,
                        before,
                        lambda n, name=name, k=k, v=value: put(replace(node, **{name: (*v[:k], n, *v[k + 1 :])})),
                    )


def _changes(site: Site, reads: Sequence[Read]) -> Iterator[tuple[str, Any]]:
    node = site.node
    match node:
        case Scan() | Find() | BoundSearch() | Segment() | FindTable():
            for name in ("low", "high"):
                for k, e in enumerate(getattr(node, name)):
                    for op in "+-":
                        bounds = getattr(node, name)
                        yield BOUND, replace(node, **{name: (*bounds[:k], Bin(op, e, ONE), *bounds[k + 1 :])})
    match node:
        case Guard(conditions=conditions, body=inner):
            yield DROPPED, inner
            yield from ((NEGATED, replace(node, conditions=c)) for c in _negated(conditions))
        case If(condition, then):
            yield DROPPED, then
            yield NEGATED, replace(node, condition=Apply("logical_not", (condition,)))
        case Find(conditions=conditions):
            for k in range(len(conditions)):
                yield DROPPED, replace(node, conditions=(*conditions[:k], *conditions[k + 1 :]))
            yield from ((NEGATED, replace(node, conditions=c)) for c in _negated(conditions))
            if not node.parallel:
                yield PARALLEL, replace(node, parallel=True, because="a mutant")
        case Scan():
            if not node.parallel:
                yield PARALLEL, replace(node, parallel=True, because="a mutant")
            elif node.partition is not None and node.partition.adds:
                yield PARALLEL, replace(node, partition=replace(node.partition, adds="", copies=()))
            if node.private:
                yield PARALLEL, replace(node, private=(), combined=None)
            if node.between is not None:
                yield UNCLEARED, replace(node, between=None)
            if node.partition is not None and node.partition.clears:
                yield UNCLEARED, replace(node, partition=replace(node.partition, clears=""))
        case Load(call=call):
            yield from ((k, replace(node, call=c)) for k, c in _calls(call, site.names))
        case Define(value=value):
            yield OFFSET, replace(node, value=Bin("+", value, ONE))
            yield from ((SUBSCRIPT, replace(node, value=e)) for e in _renamed(value, site.names))
        case Operand(place=place):
            yield from ((k, replace(node, place=p)) for k, p in _places(place, site.names))
        case RowWorkspace():
            yield from ((PLACED, n) for n in _gathered_otherwise(node, site.names))
        case InPlace():
            yield from ((PLACED, n) for n in _placed_otherwise(node))
        case Append(coordinates=place):
            yield from ((k, replace(node, coordinates=p)) for k, p in _places(place, site.names))
        case Apply(arguments=(first, second)):
            yield OPERAND, replace(node, arguments=(second, first))
        case Read(Operand(place=place, tensor=tensor)):
            others = [r for r in reads if r.operand.tensor != tensor and len(r.operand.place) == len(place)]
            yield from ((OPERAND, replace(r, operand=replace(r.operand, place=place))) for r in others[:2])
        case Array(fill=fill) if fill is not None:
            yield UNCLEARED, replace(node, fill=None)
        case Clear(body=inner):
            yield UNCLEARED, Block(()) if inner is None else inner
        case Accumulate(op="="):
            yield UNCLEARED, replace(node, op="+=")
        case Store(op="=") if any(isinstance(n, Products) for n in site.around):
            yield UNCLEARED, replace(node, op="+=")
        case Block(parts):
            in_merge = any(isinstance(n, Repeat) for n in site.around)
            for k, part in enumerate(parts):
                if not (isinstance(part, BINDING) or goes_on(part)) and not any(
                    isinstance(n, Break) for n in walk(part, PLANS)
                ):
                    yield CASE if in_merge else PART, replace(node, parts=(*parts[:k], *parts[k + 1 :]))
    yield from ((KEPT, n) for n in _kept_longer(node))


def _gathered_otherwise(node: RowWorkspace, names: Sequence[str]) -> Iterator[Plan]:
    """A row along another axis, a row that ends too early, another row."""
    rank = len(node.common) + 1
    yield from (replace(node, axis=k) for k in range(rank) if k != node.axis)
    yield replace(node, extent=Bin("-", node.extent, ONE))
    yield from (replace(node, common=p) for _, p in _places(node.common, names))


def _placed_otherwise(node: InPlace) -> Iterator[Plan]:
    """Groups that are not sorted, or counted by all parts together; another form; entries that are not counted, or
    counted as those of another nest."""
    yield replace(node, ordered=True)
    yield replace(node, apart=True)
    yield from (replace(node, how=how) for how in ("groups", "marks", "keys") if how != node.how)
    if isinstance(node.body, Block) and len(node.body.parts) > 1:
        first, *rest = node.body.parts
        yield Block((replace(node, body=first), *rest))
        yield Block((*rest, replace(node, body=first)))
        yield Block(tuple(replace(node, body=part) for part in node.body.parts))


def _kept_longer(node: Any) -> Iterator[Plan]:
    """What a loop begins with, before it."""
    if not isinstance(node, Scan | Find):
        return
    inner = body(node)
    match inner:
        case SearchState() | Accumulate():
            yield with_body(inner, with_body(node, inner.body))
        case Block((Let() as first, *rest)) if not variables(first.value) & {*_bound(node)}:
            yield Block((first, with_body(node, Block(tuple(rest)))))
        case Block((Block((Let() as first, *rest)), *more)) if not variables(first.value) & {*_bound(node)}:
            yield Block((first, with_body(node, Block((Block(tuple(rest)), *more)))))


def _negated(conditions: tuple[Formula, ...]) -> Iterator[tuple[Formula, ...]]:
    for k, condition in enumerate(conditions):
        yield (*conditions[:k], Not(condition), *conditions[k + 1 :])


def _calls(call: Call, names: Sequence[str]) -> Iterator[tuple[str, Call]]:
    for kind, at in _places(call.arguments, names):
        yield kind, replace(call, arguments=at)


def _places(place: tuple[Expr, ...], names: Sequence[str]) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    """Subscripts with a mistake in one of them."""
    if len(place) > 1:
        yield SUBSCRIPT, (place[1], place[0], *place[2:])
    for k, e in enumerate(place):
        yield OFFSET, (*place[:k], Bin("+", e, ONE), *place[k + 1 :])
        yield from ((SUBSCRIPT, (*place[:k], other, *place[k + 1 :])) for other in _renamed(e, names))


def _renamed(expr: Expr, names: Sequence[str]) -> Iterator[Expr]:
    """A name exchanged with another one that is known: the last ones."""
    match expr:
        case Var(name):
            yield from (Var(other) for other in names[::-1][:2] if other != name)


def _bound(node: Any) -> Iterator[str]:
    match node:
        case Find(dim, loads=loads):
            yield from (dim, *(n for n, _ in loads))
        case Scan(dim) | Load(dim) | Define(dim):
            yield dim


def _label(site: Site) -> str:
    node = next((n for n in (site.node, *reversed(site.around)) if isinstance(n, Plan)), site.node)
    return _shown(node)


def _shown(node: Any) -> str:
    return f"{type(node).__name__} {getattr(node, 'label', '')}"[:120]


__all__ = ["KINDS", "Mutant", "Store", "mutants"]

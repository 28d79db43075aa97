"""The loops that pass over all that a layout stores: the steps of layout/points.py as C."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.affine import ArrayName, ExprLowering, arguments
from spfgen.cir.tree.build import INT, folded, joined, loop
from spfgen.cir.tree.names import identifier
from spfgen.facts.formula import TRUE, ZERO, Expr, within
from spfgen.ir import fresh, rewrite, walk
from spfgen.layout.nodes import Layout
from spfgen.layout.points import (
    Assign,
    Encoded,
    Expand,
    Filter,
    Gather,
    Step,
    encode,
    lean,
    made_by,
    scan_of,
)
from spfgen.layout.proofs import places_inside, rises
from spfgen.sets.affine import Affine, NotAffine, affine, divided
from spfgen.sets.named import Constraint, Piece

Leaf = Callable[[ExprLowering, c.Expr], list[c.Stmt]]
"""What happens at an entry: given the names and the value."""


@dataclass(frozen=True)
class ArraysInC:
    """A layout to be scanned: its sizes and arrays have these names in C; `taken` are all names in use."""

    layout: Layout
    sizes: Mapping[str, str]
    arrays: Mapping[str, ArrayName]
    taken: frozenset[str]


def source_names(source: ArraysInC) -> ExprLowering:
    encoded = encode(source.layout)
    return ExprLowering(
        {n: c.Name(v) for n, v in source.sizes.items()}, source.arrays, encoded.calls, encoded.quotients
    )


def nests(source: ArraysInC, leaf: Leaf, part: str, parts: str) -> list[c.Stmt]:
    """For each piece of the relation its loops, of which this is one of some parts: the outermost loop is split."""
    encoded = encode(source.layout)
    result: list[c.Stmt] = []
    for piece, steps in zip(encoded.pieces, scan_of(source.layout), strict=True):
        nest = ScanNest(source, piece.intersect(encoded.facts), part, parts)
        lines = nest.steps(lean(encoded, steps), nest.start(encoded), partial(_values, nest, leaf))
        lines = pruned(lines)
        result += lines if len(encoded.pieces) == 1 else [c.Braces(c.Block(tuple(lines)))]
    return result


def _values(nest: ScanNest, leaf: Leaf, at: At) -> list[c.Stmt]:
    return nest.values(at.names, leaf)


@dataclass(frozen=True)
class At:
    """A point in a nest: names, C names in use, known dimensions and what the steps so far make hold of them.

    `split`: the next loop is the outermost.
    """

    names: ExprLowering
    taken: frozenset[str]
    known: frozenset[str]
    held: Piece
    split: bool


Inner = Callable[[At], list[c.Stmt]]


@dataclass(frozen=True)
class ScanNest:
    source: ArraysInC
    piece: Piece
    part: str
    parts: str

    def start(self, encoded: Encoded) -> At:
        known = frozenset(encoded.sizes)
        return At(source_names(self.source), self.source.taken, known, encoded.facts.restrict(known), True)

    def steps(self, steps: Sequence[Step], at: At, inner: Inner) -> list[c.Stmt]:
        """These steps with `inner` inside of them."""
        if not steps:
            if not at.split:
                return inner(at)
            alone = c.Bin("==", c.Name(self.part), c.Int(0))
            return [c.If(alone, c.Block(tuple(inner(replace(at, split=False)))))]
        step, later = steps[0], steps[1:]
        about = self.piece.restrict(at.known).intersect(at.held)
        names = self.natural(at.names, about)
        if isinstance(step, Filter):
            body = self.steps(later, at, inner)
            return [c.If(names.constraint(step.constraint), c.Block(tuple(body)))]
        column = fresh(identifier(step.name), at.taken)
        inside = replace(
            at,
            names=names.knowing({step.name: c.Name(column)}),
            taken=at.taken | {column},
            known=at.known | {step.name},
            held=at.held.with_constraints(made_by(step)),
        )
        match step:
            case Assign(_, numerator, divisor):
                declared = c.Declare(f"const {INT}", column, names.floor(numerator, divisor))
                return _with(declared, self.steps(later, inside, inner))
            case Gather(_, call):
                loaded = names.load(call.function, [names.affine(a) for a in arguments(call)])
                lines = _with(c.Declare(f"const {INT}", column, loaded), self.steps(later, inside, inner))
                guard = self.guard(call.function, arguments(call), names, about)
                return lines if guard is None else [c.If(guard, c.Block(tuple(lines)))]
            case Expand():
                return self.expand(step, later, replace(inside, split=False), names, at.split, inner)

    def expand(
        self, step: Expand, later: Sequence[Step], inside: At, names: ExprLowering, split: bool, inner: Inner
    ) -> list[c.Stmt]:
        """A loop; where it is the outermost one, its share of a part."""
        value = inside.names.name(step.name)
        assert isinstance(value, c.Name)
        variable = value.name
        low = folded("spfgen_max", [names.affine(divided(e, a).scaled(-1)) for a, e in step.lower])
        high = folded("spfgen_min", [names.affine(divided(e, a).plus(1)) for a, e in step.upper])
        if not split:
            return [loop(variable, low, high, self.steps(later, inside, inner))]
        limits = [fresh(f"{variable}_{w}", inside.taken) for w in ("low", "high", "end")]
        inside = replace(inside, taken=inside.taken | set(limits))
        first, last = (
            c.Call("spfgen_part", (*map(c.Name, limits[:2]), p, c.Name(self.parts)))
            for p in (c.Name(self.part), c.Bin("+", c.Name(self.part), c.Int(1)))
        )
        declared = [c.Declare(f"const {INT}", n, v) for n, v in zip(limits, (low, high, last), strict=True)]
        alone = self.joined_segments(step, later, inside, inner, first, c.Name(limits[2]))
        if alone is not None:
            return [*declared, *alone]
        return [*declared, loop(variable, first, c.Name(limits[2]), self.steps(later, inside, inner))]

    def joined_segments(
        self, step: Expand, later: Sequence[Step], inside: At, inner: Inner, first: c.Expr, end: c.Expr
    ) -> list[c.Stmt] | None:
        """One loop over the segments [f(p), f(p + 1)) of all p, where its body needs no p and f never falls."""
        number = next((k for k, s in enumerate(later) if isinstance(s, Expand)), len(later))
        gathers = [s for s in later[:number] if isinstance(s, Gather)]
        if number == len(later) or len(gathers) != 2 or any(isinstance(s, Filter) for s in later[:number]):
            return None
        low, high = (s.call for s in gathers)
        place = Affine(((step.name, 1),))
        bounds = (((1, Affine(((gathers[0].name, -1),))),), ((1, Affine(((gathers[1].name, 1),), -1)),))
        segment = later[number]
        assert isinstance(segment, Expand)
        if (arguments(low), arguments(high)) != ([place], [place.plus(1)]) or low.function != high.function:
            return None
        if (segment.lower, segment.upper) != bounds or not self.reaches(step, low.function):
            return None
        statements = self.steps(later, inside, inner)
        loops = [s for s in statements if isinstance(s, c.For)]
        if statements[-1:] != loops or not all(isinstance(s, c.Declare) for s in statements[:-1]):
            return None
        declared_names = {s.name for s in statements if isinstance(s, c.Declare)} | {_c_name(inside.names, step.name)}
        if declared_names & {n.name for n in walk(loops[0].body) if isinstance(n, c.Name)}:
            return None
        names = inside.names
        stop = fresh(
            f"{loops[0].variable}_end", inside.taken | {n.name for n in walk(loops[0]) if isinstance(n, c.Name)}
        )
        below = c.Bin("<", c.Name(loops[0].variable), c.Name(stop))
        declared = c.Declare(f"const {INT}", stop, names.load(low.function, [end]))
        return [declared, replace(loops[0], start=names.load(low.function, [first]), condition=below)]

    def reaches(self, step: Expand, function: str) -> bool:
        """Whether the array never falls, and has elements at both ends of the loop's range."""
        if not rises(self.source.layout, function).proved or (len(step.lower), len(step.upper)) != (1, 1):
            return False
        (a, low), (b, high) = step.lower[0], step.upper[0]
        sizes = encode(self.source.layout).sizes
        natural = [Constraint(False, Affine(((n, 1),))) for n in sizes]
        about = self.piece.restrict(sizes).with_constraints(natural)
        ends = [low.scaled(-1), high.plus(1)]
        names = source_names(self.source)
        return (a, b) == (1, 1) and all(
            self.missing([place], self.source.layout.index(function).extents, names, about) is None for place in ends
        )

    def natural(self, names: ExprLowering, about: Piece) -> ExprLowering:
        def is_natural(value: Affine) -> bool:
            return not value.floors() and about.implies(Constraint(False, value))

        return replace(names, is_natural=is_natural)

    def guard(self, function: str, places: list[Affine], names: ExprLowering, about: Piece) -> c.Expr | None:
        """What keeps the subscripts within the array, where it does not follow."""
        return self.missing(places, self.source.layout.index(function).extents, names, about)

    def missing(
        self, places: list[Affine], extents: Sequence[Expr], names: ExprLowering, about: Piece
    ) -> c.Expr | None:
        conditions: list[c.Expr] = []
        for place, extent in zip(places, extents, strict=True):
            if not about.implies(Constraint(False, place)):
                conditions.append(c.Bin(">=", names.affine(place), c.Int(0)))
            try:
                below = about.implies(Constraint(False, (affine(extent, _no_call) - place).plus(-1)))
            except NotAffine:
                below = False
            if not below:
                conditions.append(c.Bin("<", names.affine(place), names.expr(extent)))
        return joined("&&", conditions) if conditions else None

    def values(self, names: ExprLowering, leaf: Leaf) -> list[c.Stmt]:
        """The entry, in each value array that has a place for it."""
        result: list[c.Stmt] = []
        for value in self.source.layout.values:
            array = self.source.arrays[value.name]
            places = [names.expr(p) for p in value.position]
            lines = leaf(names, c.Load(c.Name(array.name), names.linear_index(value.extents, places)))
            conditions = [] if value.when == TRUE else [names.condition(value.when)]
            if not places_inside(self.source.layout, value).proved:
                conditions += [
                    names.condition(within(p, ZERO, e)) for p, e in zip(value.position, value.extents, strict=True)
                ]
            result += [c.If(joined("&&", conditions), c.Block(tuple(lines)))] if conditions else lines
        return result


def _c_name(names: ExprLowering, name: str) -> str:
    value = names.name(name)
    assert isinstance(value, c.Name)
    return value.name


def _no_call(call: object) -> str:
    raise NotAffine(call)  # type: ignore[arg-type]


def _with(declared: c.Declare, lines: list[c.Stmt]) -> list[c.Stmt]:
    """The lines behind a declaration that they need."""
    needed = any(isinstance(n, c.Name) and n.name == declared.name for s in lines for n in walk(s))
    return [declared, *lines] if needed else lines


def pruned(statements: Sequence[c.Stmt]) -> list[c.Stmt]:
    """Without declarations that nothing reads."""
    body: c.Stmt = c.Block(tuple(statements))
    while True:
        used = {n.name for n in walk(body) if isinstance(n, c.Name)}
        dead = {n.name for n in walk(body) if isinstance(n, c.Declare)} - used

        def rule(node: object, dead: set[str] = dead) -> c.Stmt | None:
            match node:
                case c.Declare(_, name) if name in dead:
                    return c.Block(())
            return None

        if not dead:
            assert isinstance(body, c.Block)
            return list(body.statements)
        body = rewrite(rule, body)

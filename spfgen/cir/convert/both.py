"""A conversion: its source and its target, and the names that both have in its functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spfgen.cir.nest import Source, pruned
from spfgen.cir.pack import RESERVED, Made, Types, argument_names, is_stored, made, new_name, parameters, target_names
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.affine import Names
from spfgen.cir.tree.build import INT, joined
from spfgen.facts.formula import Expr, Var
from spfgen.lang.types import KEYWORDS, TYPES
from spfgen.layout.keys import KeyPlan, Level
from spfgen.layout.nodes import Layout

WORDS = frozenset({"ahead", "at", "base", "bits", "block", "buckets", "count", "end", "entries", "entry", "factor",
                   "falls", "few", "first", "found", "group_of", "groups", "k", "keys", "last", "list", "mark", "next",
                   "number", "own", "part", "parts", "range", "room", "sample", "samples", "seen", "stop", "tag",
                   "widest", "words"})  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """A conversion: `place` is the type of counters, `without_fill` leaves out what holds the source's fill value."""

    source: Layout
    types: Types
    key: KeyPlan
    target: Types
    place: str
    without_fill: bool

    @property
    def level(self) -> Level:
        return self.key.levels[0]

    @property
    def layout(self) -> Layout:
        return self.key.plan.encoded.layout


def group_arguments(key: KeyPlan) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The arguments that say the group of the only rank, and the extents of their ranges."""
    encoded, rank = key.plan.encoded, key.levels[0].rank
    call = encoded.calls[rank.begin or rank.keys[0]]
    pairs = zip(call.arguments, encoded.layout.index(call.function).extents, strict=True)
    kept = [(a, e) for a, e in pairs if a != Var(rank.position)]
    return tuple(a for a, _ in kept), tuple(e for _, e in kept)


class Both:
    """The parameters and names of both layouts of a pair."""

    def __init__(self, pair: Pair, writes: bool) -> None:
        self.pair = pair
        self.taken = {*KEYWORDS, *RESERVED, *WORDS}
        self.source, self.params = parameters(pair.source, pair.types, self.taken, const=True)
        extents = [self.source.sizes[n] for n in pair.source.parameters]
        self.extents = dict(zip(pair.layout.parameters, extents, strict=True))
        self.arguments = list(argument_names(pair.source, pair.types))
        self.target: Source | None = None
        if writes:
            self.target, more = parameters(pair.layout, pair.target, self.taken, const=False, known=self.extents)
            self.params += more
            own = argument_names(pair.layout, pair.target)
            self.arguments += [f"to {n}" for n in own if n.removeprefix("size:") not in pair.layout.parameters]

    def names(self, at: Names) -> tuple[list[c.Stmt], Names]:
        """The target's names at an entry: computed positions and keys are declared first."""
        own = set(self.taken) | {n.name for n in at.values.values() if isinstance(n, c.Name)}
        lines: list[c.Stmt] = []

        def declared(position: str, value: c.Expr) -> c.Expr:
            if isinstance(value, c.Name):
                return value
            name = new_name(position, own)
            lines.append(c.Declare(f"const {INT}", name, value))
            return c.Name(name)

        return lines, self._known([at.name(x) for x in self.pair.source.coordinates], declared)

    def _known(self, coordinates: Sequence[c.Expr], declared: Callable[[str, c.Expr], c.Expr]) -> Names:
        names = target_names(self.pair.key, coordinates, [c.Name(n) for n in self.extents.values()])
        for rule in self.pair.key.computed:
            value = names.floor(rule.numerator, rule.divisor)
            names = names.knowing({rule.position: declared(rule.position, value)})
        if self.target is not None:
            sizes = {n: c.Name(v) for n, v in self.target.sizes.items()}
            names = Names({**names.values, **sizes}, self.target.arrays, names.calls, names.quotients, names.is_natural)
        return names

    def kept(self, value: c.Expr, lines: Sequence[c.Stmt]) -> list[c.Stmt]:
        """The lines, for entries that count."""
        lines = pruned(lines)
        if not self.pair.without_fill:
            return lines
        stored = is_stored(value, self.pair.source.fill, TYPES[self.pair.types.value])
        return [c.If(stored, c.Block(tuple(lines)))]

    def checked(self, names: Names) -> list[c.Stmt]:
        conditions = [names.constraint(x) for x in self.pair.key.checks]
        return [c.Assign(c.Name("wrong"), "|=", c.Un("!", joined("&&", conditions)))] if conditions else []

    def group(self, names: Names) -> c.Expr:
        """The number of the entry's group."""
        own, extents = group_arguments(self.pair.key)
        return names.linear_index(extents, [names.expr(a) for a in own])

    def write(self, array: str, names: Names, places: Sequence[Expr], value: c.Expr) -> c.Stmt:
        assert self.target is not None
        own = self.target.arrays[array]
        kind = dict(self.pair.target.indexes).get(array, "")
        stored = c.Cast(TYPES[kind].c, value) if kind and own.narrow else value
        return c.Assign(
            c.Load(c.Name(own.name), names.linear_index(own.extents, [names.expr(p) for p in places])), "=", stored
        )

    def write_value(self, names: Names, value: c.Expr) -> c.Stmt:
        (array,) = self.pair.layout.values
        return self.write(array.name, names, array.position, value)

    def made(
        self,
        name: str,
        result: str,
        body: list[c.Stmt],
        more: list[tuple[str, c.Param]],
        doc: str,
        collects: bool = True,
    ) -> Made:
        """`collects`: an int is whether anything is wrong, which the body finds out."""
        params = [*self.params, *(p for _, p in more)]
        whole = list(body)
        if result == "int" and collects:
            whole = [c.Declare("int", "wrong", c.Int(0)), *body, c.Return(c.Name("wrong"))]
        return made(result, name, params, whole, doc, (*self.arguments, *(w for w, _ in more)))


PARTS = ("parts", c.Param("int", "parts", "parts of the scan, side by side"))


def own_part(array: str, kind: str, length: str) -> c.Stmt:
    """The part's share of a workspace."""
    return c.Declare(f"{kind} *restrict", "own", c.Bin("+", c.Name(array), start_of_part(length)))


def start_of_part(length: str) -> c.Expr:
    return c.Bin("*", c.Name("part"), c.Name(length))


def as_type(kind: str, value: c.Expr) -> c.Expr:
    return value if kind == "int64" else c.Cast(TYPES[kind].c, value)


def declared_in(lines: Sequence[c.Stmt]) -> set[str]:
    return {s.name for s in lines if isinstance(s, c.Declare)}


def names_in(at: Names) -> set[str]:
    return {n.name for n in at.values.values() if isinstance(n, c.Name)}

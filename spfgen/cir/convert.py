"""Conversions that need no sorted keys. All have two passes over the source: count, then write.

    counted   entries of a group are numbered as they come: a counting sort (rows to columns, say). Right where they
              come in the order of their keys; a last function tests that, or sorts each group;
    table     all keys that occur are marked in a table, then numbered (diagonals);
    grouped   the source is scanned group by group; the keys that occur in one are collected and sorted (blocks).

All are for a target with one rank; layout/keys.py says what its groups and keys are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spfgen.cir import nodes as c
from spfgen.cir.affine import Names
from spfgen.cir.build import INT, joined
from spfgen.cir.nest import At, Nest, Source, grouped, nests, pruned
from spfgen.cir.pack import (
    RESERVED,
    Made,
    Types,
    argument_names,
    in_parts,
    is_stored,
    made_function,
    new_name,
    parameters,
    target_names,
)
from spfgen.facts.formula import Expr, Var, variables
from spfgen.lang.types import KEYWORDS, TYPES
from spfgen.layout.keys import KeyPlan, Level
from spfgen.layout.nodes import Layout
from spfgen.layout.order import in_order
from spfgen.layout.points import Step
from spfgen.sets.affine import Affine

WORDS = frozenset({"groups", "own", "at", "mark", "number", "base", "range", "seen", "list", "slot", "tag", "found",
                   "next", "falls", "parts", "part", "count", "k", "first", "widest", "bits"})  # fmt: skip


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


def is_counted(key: KeyPlan) -> bool:
    """Whether one rank is all there is to the layout, its groups known beforehand."""
    if len(key.levels) != 1 or key.pads or not _are_known(key):
        return False
    rank = key.levels[0].rank
    return rank.kind == "slots" or all(key.plan.encoded.calls[k].arguments == (Var(rank.position),) for k in rank.keys)


def is_sortable(key: KeyPlan) -> bool:
    """Whether the groups of a counted rank can be sorted in place: one key that rises, the value at the position."""
    level = key.levels[0]
    (value,) = key.plan.encoded.layout.values
    alone = value.position == (Var(level.rank.position),)
    return bool(level.rank.begin) and level.end == level.group + 1 and alone and not key.fields[level.group].down


def is_table(key: KeyPlan) -> bool:
    """Whether one key says the rank, whatever else a place is made of."""
    if len(key.levels) != 1:
        return False
    level = key.levels[0]
    call = key.plan.encoded.calls[level.rank.keys[0]]
    return level.group == 0 and level.end == 1 and call.arguments == (Var(level.rank.position),)


def is_grouped(key: KeyPlan) -> bool:
    """Whether there is one rank with one key in groups that follow one another."""
    return (
        len(key.levels) == 1
        and bool(key.levels[0].rank.begin)
        and len(key.levels[0].rank.keys) == 1
        and _are_known(key)
    )


def _are_known(key: KeyPlan) -> bool:
    parameters_ = set(key.plan.encoded.layout.parameters)
    return all(variables(e) <= parameters_ for e in group_arguments(key)[1])


class _Both:
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
        coordinates = [at.name(x) for x in self.pair.source.coordinates]
        names = target_names(self.pair.key, coordinates, [c.Name(n) for n in self.extents.values()])
        own = set(self.taken) | {n.name for n in at.values.values() if isinstance(n, c.Name)}
        lines: list[c.Stmt] = []
        for rule in self.pair.key.computed:
            value = names.floor(rule.numerator, rule.divisor)
            if not isinstance(value, c.Name):
                name = new_name(rule.position, own)
                lines.append(c.Declare(f"const {INT}", name, value))
                value = c.Name(name)
            names = names.knowing({rule.position: value})
        if self.target is not None:
            sizes = {n: c.Name(v) for n, v in self.target.sizes.items()}
            names = Names({**names.values, **sizes}, self.target.arrays, names.calls, names.quotients, names.is_natural)
        return lines, names

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
        return names.flat(extents, [names.expr(a) for a in own])

    def write(self, array: str, names: Names, places: Sequence[Expr], value: c.Expr) -> c.Stmt:
        assert self.target is not None
        own = self.target.arrays[array]
        kind = dict(self.pair.target.indexes).get(array, "")
        stored = c.Cast(TYPES[kind].c, value) if kind and own.narrow else value
        return c.Assign(c.Load(c.Name(own.name), names.flat(own.extents, [names.expr(p) for p in places])), "=", stored)

    def write_value(self, names: Names, value: c.Expr) -> c.Stmt:
        (array,) = self.pair.layout.values
        return self.write(array.name, names, array.position, value)

    def made(self, name: str, result: str, body: list[c.Stmt], more: list[tuple[str, c.Param]], doc: str) -> Made:
        params = [*self.params, *(p for _, p in more)]
        whole = list(body)
        if result == "int":
            whole = [c.Declare("int", "wrong", c.Int(0)), *body, c.Return(c.Name("wrong"))]
        return Made(made_function(result, name, params, whole, doc), (*self.arguments, *(w for w, _ in more)))


_PARTS = ("parts", c.Param("int", "parts", "parts of the scan, side by side"))
_GROUPS = ("groups", c.Param(INT, "groups", "groups in all"))


def _own(array: str, kind: str, length: str) -> c.Stmt:
    """The part's share of a workspace."""
    place = c.Bin("*", c.Name("part"), c.Name(length))
    return c.Declare(f"{kind} *restrict", "own", c.Bin("+", c.Name(array), place))


# --- counted -------------------------------------------------------------------------------------------------------


def counted_functions(pair: Pair) -> list[Made]:
    """Count the entries of each group; write them; test their order; write those that come in the order of groups."""
    functions = [_count_groups(pair), _write_counted(pair, in_sequence=False), _test_order(pair)]
    return [*functions, _write_counted(pair, in_sequence=True)] if pair.level.rank.begin else functions


def _count_groups(pair: Pair) -> Made:
    both = _Both(pair, writes=False)

    level, ordered = pair.level, in_order(pair.source, pair.key)
    digits = [f.name for f in pair.key.fields[: level.end]]
    last = [new_name(f"last_{d}", both.taken) for d in digits]

    def leaf(at: Names, value: c.Expr) -> list[c.Stmt]:
        lines, names = both.names(at)
        step: list[c.Stmt] = [c.Assign(c.Load(c.Name("own"), both.group(names)), "+=", c.Int(1))]
        if not ordered:
            step.append(c.Assign(c.Name("falls"), "|=", c.Un("!", _follows(pair, names, last))))
            step += [c.Assign(c.Name(n), "=", names.name(d)) for n, d in zip(last, digits, strict=True)]
        return both.kept(value, [*lines, *both.checked(names), *step])

    kind = TYPES[pair.place].c
    start: list[c.Stmt] = [_own("count", kind, "groups")]
    if not ordered:
        low = [f.down for f in pair.key.fields[: level.end]]
        ends = [c.Name("INT64_MAX" if down else "INT64_MIN") for down in low]
        start += [c.Declare(INT, n, e) for n, e in zip(last, ends, strict=True)]
    sums = " reduction(|:wrong)" if ordered else " reduction(|:wrong, falls)"
    body: list[c.Stmt] = [in_parts([*start, *nests(both.source, leaf, "part", "parts")], sums)]
    if not ordered:
        unknown = c.Bin("||", c.Name("falls"), c.Bin(">", c.Name("parts"), c.Int(1)))
        body = [c.Declare("int", "falls", c.Int(0)), *body]
        body.append(c.Assign(c.Name("wrong"), "|=", c.Select(unknown, c.Int(2), c.Int(0))))
    counts = ("count", c.Param(f"{kind} *restrict", "count", "entries of each group, for each part"))
    doc = f"Counts the entries of {pair.source.name} in each group of {pair.layout.name}; 1 when one has no place."
    doc += "" if ordered else " 2 when they may not come in the order of groups and keys."
    return both.made("spfgen_count_groups", "int", body, [_PARTS, _GROUPS, counts], doc)


def _follows(pair: Pair, names: Names, last: Sequence[str]) -> c.Expr:
    """Whether the entry comes after the last one in the order of groups and keys."""
    result: c.Expr | None = None
    for field, name in reversed(list(zip(pair.key.fields[: pair.level.end], last, strict=True))):
        own = names.name(field.name)
        rises = c.Bin("<" if field.down else ">", own, c.Name(name))
        if result is None:
            result = rises
        else:
            # Without branches: in unsorted data nobody can tell which way they go.
            result = c.Bin("|", rises, c.Bin("&", c.Bin("==", own, c.Name(name)), result))
    assert result is not None
    return result


def _write_counted(pair: Pair, in_sequence: bool) -> Made:
    """`in_sequence`: each entry comes right behind the last one, whatever its group."""
    both = _Both(pair, writes=True)
    rank = pair.level.rank
    alone = in_sequence or not group_arguments(pair.key)[0]

    def leaf(at: Names, value: c.Expr) -> list[c.Stmt]:
        lines, names = both.names(at)
        position = new_name(rank.position, {*both.taken, *_used(lines), *_named(at)})
        place = c.Name("next") if alone else c.Load(c.Name("own"), both.group(names))
        number = c.Bin("+", place, c.Int(rank.low)) if rank.low else place
        declared = c.Declare(f"const {INT}", position, number)
        names = names.knowing({rank.position: c.Name(position)})
        keys = []
        for key in rank.keys:
            call = pair.key.plan.encoded.calls[key]
            keys.append(both.write(call.function, names, call.arguments, names.name(key)))
        step = c.Assign(place, "+=", c.Int(1))
        return both.kept(value, [*lines, declared, step, *keys, both.write_value(names, value)])

    kind = TYPES[pair.place].c
    start: list[c.Stmt] = [_own("count", kind, "groups")]
    scan, stop = nests(both.source, leaf, "part", "parts"), list[c.Stmt]()
    if alone:
        first = c.Load(c.Name("own"), c.Int(0))
        start.append(c.Declare(INT, "next", first))
        stop.append(c.Assign(first, "=", c.Cast(kind, c.Name("next"))))
    body = in_parts([*start, *scan, *stop])
    counts = ("count", c.Param(f"{kind} *restrict", "count", "the next position of each group, for each part"))
    manner = "one behind the other" if in_sequence else "in each group as they come"
    doc = f"Writes the entries of {pair.source.name} to {pair.layout.name}, {manner}."
    name = "spfgen_write_in_sequence" if in_sequence else "spfgen_write_counted"
    return both.made(name, "void", [body], [_PARTS, _GROUPS, counts], doc)


def _used(lines: Sequence[c.Stmt]) -> set[str]:
    return {s.name for s in lines if isinstance(s, c.Declare)}


def _named(at: Names) -> set[str]:
    return {n.name for n in at.values.values() if isinstance(n, c.Name)}


def _test_order(pair: Pair) -> Made:
    """Whether the keys of each group come in their order, none twice."""
    taken = {*KEYWORDS, *RESERVED, *WORDS}
    target, params = parameters(pair.layout, pair.target, taken, const=False)
    encoded, rank, level = pair.key.plan.encoded, pair.level.rank, pair.level
    names = Names({n: c.Name(v) for n, v in target.sizes.items()}, target.arrays, encoded.calls, encoded.quotients)
    _, extents = group_arguments(pair.key)
    loops = [(new_name("g", taken), names.expr(e)) for e in extents]
    group = names.flat(extents, [c.Name(n) for n, _ in loops])
    first: c.Expr = c.Int(rank.low)
    last: c.Expr = c.Bin("+", c.Load(c.Name("count"), group), c.Int(rank.low))
    if rank.begin:
        at = c.Name("k")
        first = c.Select(c.Bin(">", at, c.Int(0)), c.Load(c.Name("count"), c.Bin("-", at, c.Int(1))), c.Int(0))
        last = c.Load(c.Name("count"), at)
        loops = [("k", c.Name("groups"))]
    position = new_name(rank.position, taken)

    def key(name: str, shifted: int) -> c.Expr:
        call = encoded.calls[name]
        places: list[c.Expr] = []
        outer = iter(loops)
        for argument in call.arguments:
            if argument == Var(rank.position):
                places.append(c.Bin("-", c.Name(position), c.Int(shifted)))
            else:
                places.append(c.Name(next(outer)[0]))
        array = target.arrays[call.function]
        return c.Load(c.Name(array.name), names.flat(array.extents, places))

    wrong: c.Expr = c.Int(1)
    for field in reversed(pair.key.fields[level.group : level.end]):
        here, there = key(field.name, 0), key(field.name, 1)
        rises = c.Bin("<" if field.down else ">", here, there)
        if wrong == c.Int(1):
            wrong = c.Un("!", rises)
        else:
            same = c.Bin("==", here, there)
            wrong = c.Bin("&&", c.Un("!", rises), c.Un("!", c.Bin("&&", same, c.Un("!", wrong))))
    test = c.Assign(c.Name("wrong"), "|=", wrong)
    following = c.Bin("+", first, c.Int(1))
    pragma = ("omp parallel for schedule(static) num_threads(parts) reduction(|:wrong)",)
    below = c.Bin("<", c.Name(position), last)
    nest: c.Stmt = c.For(INT, position, following, below, 1, c.Block((test,)), () if loops else pragma)
    for number, (name, extent) in reversed(list(enumerate(loops))):
        nest = c.For(
            INT, name, c.Int(0), c.Bin("<", c.Name(name), extent), 1, c.Block((nest,)), () if number else pragma
        )
    more = [_PARTS[1], _GROUPS[1], c.Param(f"const {TYPES[pair.place].c} *restrict", "count", "where each group ends")]
    whole = [c.Declare("int", "wrong", c.Int(0)), nest, c.Return(c.Name("wrong"))]
    every = [*params, *more]
    doc = f"1 when the keys in a group of {pair.layout.name} are not in their order, or one is there twice."
    function = made_function("int", "spfgen_test_order", every, whole, doc)
    arguments = tuple(f"to {n}" for n in argument_names(pair.layout, pair.target))
    return Made(function, (*arguments, "parts", "groups", "count"))


# --- table ---------------------------------------------------------------------------------------------------------


def table_functions(pair: Pair) -> list[Made]:
    """Mark the keys that occur; write the entries at the numbers of their keys."""
    return [_mark(pair), _write_marked(pair)]


def _mark(pair: Pair) -> Made:
    both = _Both(pair, writes=False)

    def leaf(at: Names, value: c.Expr) -> list[c.Stmt]:
        lines, names = both.names(at)
        place = c.Bin("-", names.name(pair.key.fields[0].name), c.Name("base"))
        mark = c.Assign(c.Load(c.Name("mark"), place), "=", c.Int(1))
        return both.kept(value, [*lines, *both.checked(names), c.Pragma("omp atomic write"), mark])

    body = in_parts(nests(both.source, leaf, "part", "parts"), " reduction(|:wrong)")
    more = [_PARTS, ("base", c.Param(INT, "base", "the least key"))]
    more.append(("mark", c.Param("uint8_t *restrict", "mark", "1 for each key that occurs")))
    doc = f"Marks the keys of {pair.layout.name} that entries of {pair.source.name} have; 1 when one has no place."
    return both.made("spfgen_mark", "int", [body], more, doc)


def _write_marked(pair: Pair) -> Made:
    both = _Both(pair, writes=True)
    rank = pair.level.rank

    def leaf(at: Names, value: c.Expr) -> list[c.Stmt]:
        lines, names = both.names(at)
        place = c.Bin("-", names.name(pair.key.fields[0].name), c.Name("base"))
        number: c.Expr = c.Load(c.Name("number"), place)
        number = c.Bin("+", number, c.Int(rank.low)) if rank.low else number
        position = new_name(rank.position, {*both.taken, *_used(lines), *_named(at)})
        names = names.knowing({rank.position: c.Name(position)})
        declared = c.Declare(f"const {INT}", position, number)
        return both.kept(value, [*lines, declared, both.write_value(names, value)])

    body = in_parts(nests(both.source, leaf, "part", "parts"))
    more = [_PARTS, ("base", c.Param(INT, "base", "the least key"))]
    more.append(("number", c.Param(f"const {INT} *restrict", "number", "the position of each key")))
    doc = f"Writes the entries of {pair.source.name} to {pair.layout.name} at the numbers of their keys."
    return both.made("spfgen_write_marked", "void", [body], more, doc)


# --- grouped -------------------------------------------------------------------------------------------------------


def grouped_functions(pair: Pair) -> list[Made] | None:
    """Count the keys of each group; collect them, then write the entries. None when the source has another order."""
    counting, writing = _count_keys(pair), _write_grouped(pair)
    return None if counting is None or writing is None else [counting, writing]


def _quotients(pair: Pair) -> dict[str, tuple[Affine, int]]:
    """What the groups are of the source's coordinates."""
    names = dict(zip(pair.layout.coordinates, pair.source.coordinates, strict=True))
    found = {}
    for number, field in enumerate(pair.key.fields[: pair.level.group]):
        terms = [(names.get(a, a) if isinstance(a, str) else a, f) for a, f in field.numerator.terms]
        found[f"group {number}"] = Affine(tuple(terms), field.numerator.constant), field.divisor
    return found


def _is_of_coordinates(pair: Pair) -> bool:
    fields = pair.key.fields[: pair.level.group]
    return all(f.numerator.names() <= set(pair.layout.coordinates) for f in fields)


def _group_at(both: _Both, at: At) -> c.Expr:
    """The number of the group whose scan this is."""
    pair = both.pair
    digits = {f.name: at.names.name(f"group {k}") for k, f in enumerate(pair.key.fields[: pair.level.group])}
    encoded = pair.key.plan.encoded
    sizes = {n: c.Name(v) for n, v in both.extents.items()}
    names = Names({**sizes, **digits}, {}, encoded.calls, encoded.quotients)
    return both.group(names)


def _key_place(both: _Both, names: Names) -> c.Expr:
    field = both.pair.key.fields[both.pair.level.group]
    value = names.name(field.name)
    return c.Bin("-", c.Name("base"), value) if field.down else c.Bin("-", value, c.Name("base"))


def _count_keys(pair: Pair) -> Made | None:
    both = _Both(pair, writes=False)
    if not _is_of_coordinates(pair):
        return None

    def inner(nest: Nest, at: At, rest: list[Step]) -> list[c.Stmt]:
        def leaf(names: Names, value: c.Expr) -> list[c.Stmt]:
            lines, target = both.names(names)
            place = c.Load(c.Name("own"), _key_place(both, target))
            step = (c.Assign(place, "=", c.Name("tag")), c.Assign(c.Name("found"), "+=", c.Int(1)))
            test = c.If(c.Bin("!=", place, c.Name("tag")), c.Block(step))
            return both.kept(value, [*lines, *both.checked(target), test])

        scan = nest.steps(rest, at, lambda inside: nest.values(inside.names, leaf))
        start = [c.Declare(f"const {INT}", "at", _group_at(both, at))]
        start.append(c.Declare("const int64_t", "tag", c.Bin("+", c.Name("at"), c.Int(1))))
        start.append(c.Declare(INT, "found", c.Int(0)))
        return [*start, *scan, c.Assign(c.Load(c.Name("count"), c.Name("at")), "=", c.Name("found"))]

    lines = grouped(both.source, _quotients(pair), inner, "part", "parts")
    if lines is None:
        return None
    body = in_parts([_own("seen", INT, "range"), *lines], " reduction(|:wrong)")
    more = [_PARTS, ("base", c.Param(INT, "base", "the first key"))]
    more.append(("range", c.Param(INT, "range", "keys that there may be")))
    more.append(("seen", c.Param(f"{INT} *restrict", "seen", "zeros, one for each key, for each part")))
    more.append(("count", c.Param(f"{TYPES[pair.place].c} *restrict", "count", "different keys in each group")))
    doc = f"Counts the keys that entries of {pair.source.name} have in each group of {pair.layout.name}."
    return both.made("spfgen_count_keys", "int", [body], more, doc)


def _write_grouped(pair: Pair) -> Made | None:
    both = _Both(pair, writes=True)
    rank = pair.level.rank
    encoded = pair.key.plan.encoded
    call = encoded.calls[rank.keys[0]]
    field = pair.key.fields[pair.level.group]

    def inner(nest: Nest, at: At, rest: list[Step]) -> list[c.Stmt]:
        def collect(names: Names, value: c.Expr) -> list[c.Stmt]:
            lines, target = both.names(names)
            own = c.Load(c.Name("own"), c.Name("k"))
            declared = c.Declare(f"const {INT}", "k", _key_place(both, target))
            noted = c.Assign(c.Load(c.Name("list"), c.Name("found")), "=", c.Cast("uint64_t", c.Name("k")))
            step = (c.Assign(own, "=", c.Name("first")), noted, c.Assign(c.Name("found"), "+=", c.Int(1)))
            test = c.If(c.Bin("<", own, c.Name("first")), c.Block(step))
            return both.kept(value, [*lines, declared, test])

        def write(names: Names, value: c.Expr) -> list[c.Stmt]:
            lines, target = both.names(names)
            position = new_name(rank.position, {*both.taken, *_used(lines), *_named(names)})
            declared = c.Declare(f"const {INT}", position, c.Load(c.Name("own"), _key_place(both, target)))
            target = target.knowing({rank.position: c.Name(position)})
            return both.kept(value, [*lines, declared, both.write_value(target, value)])

        first = c.Load(c.Name("count"), _group_at(both, at))
        keys = c.Name("list")
        number = c.Bin("+", c.Name("first"), c.Name("at"))
        key = c.Cast(INT, c.Load(keys, c.Name("at")))
        value = c.Bin("-", c.Name("base"), key) if field.down else c.Bin("+", c.Name("base"), key)
        assert both.target is not None
        sizes = {n: c.Name(v) for n, v in both.target.sizes.items()}
        known = {f.name: at.names.name(f"group {k}") for k, f in enumerate(pair.key.fields[: pair.level.group])}
        names = Names({**sizes, **known, rank.position: number}, both.target.arrays, encoded.calls, encoded.quotients)
        place = c.Load(c.Name("own"), key)
        number_them = (c.Assign(place, "=", number), both.write(call.function, names, call.arguments, value))
        below = c.Bin("<", c.Name("at"), c.Name("found"))
        return [
            c.Declare(f"const {INT}", "first", first),
            c.Declare(INT, "found", c.Int(0)),
            *nest.steps(rest, at, lambda inside: nest.values(inside.names, collect)),
            c.Do(c.Call("spfgen_sort_words", (keys, c.Name("found"), c.Name("bits")))),
            c.For(INT, "at", c.Int(0), below, 1, c.Block(number_them)),
            *nest.steps(rest, at, lambda inside: nest.values(inside.names, write)),
        ]

    lines = grouped(both.source, _quotients(pair), inner, "part", "parts")
    if lines is None:
        return None
    place = c.Bin("*", c.Name("part"), c.Name("widest"))
    kept = c.Declare("uint64_t *restrict", "list", c.Bin("+", c.Name("keys"), place))
    body = in_parts([_own("seen", INT, "range"), kept, *lines])
    more = [_PARTS, ("base", c.Param(INT, "base", "the first key"))]
    more.append(("range", c.Param(INT, "range", "keys that there may be")))
    more.append(("bits", c.Param("int", "bits", "the bits of a key")))
    more.append(("seen", c.Param(f"{INT} *restrict", "seen", "-1 for each key, for each part")))
    more.append(("widest", c.Param(INT, "widest", "the most keys in a group")))
    more.append(("keys", c.Param("uint64_t *restrict", "keys", "room for so many, for each part")))
    more.append(("count", c.Param(f"const {TYPES[pair.place].c} *restrict", "count", "where each group begins")))
    doc = f"Collects the keys of each group of {pair.layout.name}, then writes the entries of {pair.source.name}."
    return both.made("spfgen_write_grouped", "void", [body], more, doc)

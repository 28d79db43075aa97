"""Conversions that need no sorted keys. All have two passes over the source: count, then write.

    sequence  the source is one list of entries that are seen to come in the order of groups and keys: it is copied;
    counted   entries of a group are numbered as they come: a counting sort (rows to columns, say). Right where they
              come in the order of their keys; a last function tests that, or sorts each group;
    scattered the same where neighbours in the source lie far apart in the target: first each entry goes to a bucket of
              groups that fits the cache, then each bucket is put in order;
    table     all keys that occur are marked in a table, then numbered (diagonals);
    grouped   the source is scanned group by group; the keys that occur in one are collected and sorted (blocks).

All are for a target with one rank; layout/keys.py says what its groups and keys are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from spfgen import tuning
from spfgen.cir.nest import At, Nest, Source, at_place, grouped, is_list, listed, nests, pruned, source_names
from spfgen.cir.pack import (
    RESERVED,
    Made,
    Types,
    argument_names,
    in_parts,
    is_stored,
    made,
    new_name,
    parameters,
    target_names,
)
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.affine import Names
from spfgen.cir.tree.build import INT, joined, loop
from spfgen.facts.formula import Expr, Var, variables
from spfgen.ir import walk
from spfgen.lang.types import KEYWORDS, TYPES
from spfgen.layout.keys import KeyPlan, Level
from spfgen.layout.nodes import Layout
from spfgen.layout.points import Step
from spfgen.sets.affine import Affine

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
        own = set(self.taken) | {n.name for n in at.values.values() if isinstance(n, c.Name)}
        lines: list[c.Stmt] = []

        def declared(position: str, value: c.Expr) -> c.Expr:
            if isinstance(value, c.Name):
                return value
            name = new_name(position, own)
            lines.append(c.Declare(f"const {INT}", name, value))
            return c.Name(name)

        return lines, self._known([at.name(x) for x in self.pair.source.coordinates], declared)

    def inlined(self, coordinates: Sequence[c.Expr]) -> Names:
        """The target's names at an entry with these coordinates, nothing declared."""
        return self._known(coordinates, lambda position, value: value)

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

    def write_keys(self, names: Names) -> list[c.Stmt]:
        """The keys of the only rank."""
        calls = self.pair.key.plan.encoded.calls
        keys = self.pair.level.rank.keys
        return [self.write(calls[k].function, names, calls[k].arguments, names.name(k)) for k in keys]

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


_PARTS = ("parts", c.Param("int", "parts", "parts of the scan, side by side"))
_GROUPS = ("groups", c.Param(INT, "groups", "groups in all"))
_ENTRIES = ("entries", c.Param(INT, "entries", "entries in all"))
_BUCKETS = (
    ("buckets", c.Param(INT, "buckets", "buckets of groups")),
    ("factor", c.Param("uint64_t", "factor", "2^32 * buckets / groups")),
)


def _own(array: str, kind: str, length: str) -> c.Stmt:
    """The part's share of a workspace."""
    return c.Declare(f"{kind} *restrict", "own", c.Bin("+", c.Name(array), _part(length)))


def _part(length: str) -> c.Expr:
    return c.Bin("*", c.Name("part"), c.Name(length))


# --- counted -------------------------------------------------------------------------------------------------------


def counted_functions(pair: Pair) -> list[Made]:
    """Count the entries of each group; write them; test their order; see how far apart neighbours are written.

    Where it can be done, a last function writes them too, with the places of later entries fetched ahead.
    """
    made = [_count_groups(pair), _write_counted(pair), _test_order(pair), _spread(pair)]
    fetching = _write_counted(pair, fetches=True)
    return made if fetching.function.body == made[1].function.body else [*made, fetching]


def _count_groups(pair: Pair, in_buckets: bool = False) -> Made:
    """`in_buckets`: of each bucket of groups."""
    both = _Both(pair, writes=False)

    def leaf(at: Names, value: c.Expr) -> list[c.Stmt]:
        lines, names = both.names(at)
        place = _bucket(both.group(names)) if in_buckets else both.group(names)
        step = c.Assign(c.Load(c.Name("own"), place), "+=", c.Int(1))
        return both.kept(value, [*lines, *both.checked(names), step])

    kind, length = TYPES[pair.place].c, "buckets" if in_buckets else "groups"
    body = in_parts([_own("count", kind, length), *nests(both.source, leaf, "part", "parts")], " reduction(|:wrong)")
    counts = ("count", c.Param(f"{kind} *restrict", "count", f"entries of each of the {length}, for each part"))
    what = "bucket of groups" if in_buckets else "group"
    doc = f"Counts the entries of {pair.source.name} in each {what} of {pair.layout.name}; 1 when one has no place."
    sizes = [*_BUCKETS] if in_buckets else [_GROUPS]
    name = "spfgen_count_buckets" if in_buckets else "spfgen_count_groups"
    return both.made(name, "int", [body], [_PARTS, *sizes, counts], doc)


def _write_counted(pair: Pair, fetches: bool = False) -> Made:
    """`fetches`: the places of later entries are fetched, all entries being known to count."""
    both = _Both(pair, writes=True)
    rank = pair.level.rank
    alone = not group_arguments(pair.key)[0]
    ahead = _Ahead.of(both) if fetches and not alone else None

    def leaf(at: Names, value: c.Expr) -> list[c.Stmt]:
        lines, names = both.names(at)
        position = new_name(rank.position, {*both.taken, *_used(lines), *_named(at)})
        place = c.Name("next") if alone else c.Load(c.Name("own"), both.group(names))
        number = c.Bin("+", place, c.Int(rank.low)) if rank.low else place
        declared = c.Declare(f"const {INT}", position, number)
        names = names.knowing({rank.position: c.Name(position)})
        stored = [*both.write_keys(names), both.write_value(names, value)]
        fetched = ahead.fetch(stored, position, value) if ahead is not None else []
        return both.kept(value, [*fetched, *lines, declared, c.Assign(place, "+=", c.Int(1)), *stored])

    kind = TYPES[pair.place].c
    start: list[c.Stmt] = [_own("count", kind, "groups")]
    scan, stop = nests(both.source, leaf, "part", "parts"), list[c.Stmt]()
    if alone:
        first = c.Load(c.Name("own"), c.Int(0))
        start.append(c.Declare(INT, "next", first))
        stop.append(c.Assign(first, "=", c.Cast(kind, c.Name("next"))))
    body = in_parts([*start, *scan, *stop])
    counts = ("count", c.Param(f"{kind} *restrict", "count", "the next position of each group, for each part"))
    doc = f"Writes the entries of {pair.source.name} to {pair.layout.name}, in each group as they come."
    name = "spfgen_write_ahead" if fetches else "spfgen_write_counted"
    return both.made(name, "void", [body], [_PARTS, _GROUPS, counts], doc)


@dataclass(frozen=True)
class _Ahead:
    """The place of a later entry of a list is fetched: the list's loop variable, and the group of the later entry."""

    variable: str
    group: c.Expr
    count: c.Expr

    @staticmethod
    def of(both: _Both) -> _Ahead | None:
        """None where the group of a later entry does not follow from the arrays at that entry alone."""
        source = both.pair.source
        (value, *more) = source.values
        match value.position:
            case (Var(variable),) if not more:
                later = c.Bin("+", c.Name(variable), c.Int(tuning.CONVERT_AHEAD))
            case _:
                return None
        found = at_place(both.source, variable, later)
        unknown = c.Name("unknown")
        group = both.group(both.inlined([found.get(x, unknown) for x in source.coordinates]))
        return (
            None
            if unknown in walk(group)
            else _Ahead(variable, group, source_names(both.source).expr(value.extents[0]))
        )

    def fetch(self, stored: Sequence[c.Stmt], position: str, value: c.Expr) -> list[c.Stmt]:
        """Fetch the elements that the statements would write if `position` were the later one's."""
        if not isinstance(value, c.Load) or value.index != c.Name(self.variable):
            return []
        places = [s.target for s in stored if isinstance(s, c.Assign) and isinstance(s.target, c.Load)]
        if any(p.index != c.Name(position) for p in places):
            return []
        ahead = c.Declare(f"const {INT}", "ahead", c.Load(c.Name("own"), self.group))
        calls = [c.Do(c.Call("spfgen_prefetch", (c.Un("&", c.Load(p.array, c.Name("ahead"))),))) for p in places]
        near = c.Bin("<", c.Bin("+", c.Name(self.variable), c.Int(tuning.CONVERT_AHEAD)), self.count)
        return [c.If(near, c.Block((ahead, *calls)))]


# --- in sequence ---------------------------------------------------------------------------------------------------


def is_sequence(pair: Pair) -> bool:
    """Whether the source is one list of entries, each with its coordinates, and the target's groups follow on."""
    return bool(pair.level.rank.begin) and not pair.without_fill and is_list(pair.source)


def sequence_functions(pair: Pair) -> list[Made]:
    """Test whether the entries come in the order of groups and keys; copy them."""
    return [_test_sequence(pair), _write_sequence(pair)]


def _test_sequence(pair: Pair) -> Made:
    both = _Both(pair, writes=False)
    at = c.Name("entry")
    own, last = (listed(both.source, e) for e in (at, c.Bin("-", at, c.Int(1))))
    digits = pair.key.fields[: pair.level.end]
    follows: c.Expr | None = None
    names = both.inlined([own.names.name(x) for x in pair.source.coordinates])
    before = both.inlined([last.names.name(x) for x in pair.source.coordinates])
    for field in reversed(digits):
        here, there = names.name(field.name), before.name(field.name)
        rises = c.Bin("<" if field.down else ">", here, there)
        # Without branches: several entries are compared at once.
        follows = rises if follows is None else c.Bin("|", rises, c.Bin("&", c.Bin("==", here, there), follows))
    assert follows is not None

    def test(entry: c.Expr) -> list[c.Stmt]:
        here = listed(both.source, entry)
        names = both.inlined([here.names.name(x) for x in pair.source.coordinates])
        return [*(_noted(x) for x in here.conditions), *both.checked(names)]

    stop = c.Name("stop")
    start = c.Select(c.Bin(">", c.Name("block"), c.Int(0)), c.Name("block"), c.Int(1))
    each = [c.Assign(c.Name("falls"), "|=", c.Un("!", follows)), *test(at)]
    inner = [
        c.Declare(
            f"const {INT}",
            "stop",
            c.Call("spfgen_min", (c.Bin("+", c.Name("block"), c.Int(tuning.CONVERT_BLOCK)), c.Name("end"))),
        ),
        loop("entry", start, stop, each),
    ]
    going = c.Bin("&&", c.Bin("<", c.Name("block"), c.Name("end")), c.Un("!", c.Name("falls")))
    first, end = _shares()
    lines: list[c.Stmt] = [
        c.Declare(f"const {INT}", "end", end),
        c.For(INT, "block", first, going, tuning.CONVERT_BLOCK, c.Block(tuple(inner))),
    ]
    alone = c.If(
        c.Bin(">", c.Name("entries"), c.Int(0)), c.Block((c.Declare(f"const {INT}", "entry", c.Int(0)), *test(at)))
    )
    body: list[c.Stmt] = [
        c.Declare("int", "falls", c.Int(0)),
        c.Scope(c.Block((alone,))),
        in_parts(lines, " reduction(|:wrong, falls)"),
        c.Assign(c.Name("wrong"), "|=", c.Select(c.Name("falls"), c.Int(2), c.Int(0))),
    ]
    doc = f"0 when the entries of {pair.source.name} come in the order of {pair.layout.name}; 1: one may have no place."
    return both.made("spfgen_test_sequence", "int", body, [_PARTS, _ENTRIES], doc)


def _noted(condition: c.Expr) -> c.Stmt:
    return c.Assign(c.Name("wrong"), "|=", c.Un("!", condition))


def _shares() -> tuple[c.Expr, c.Expr]:
    """Where a part of the entries begins and ends."""
    part = c.Name("part")
    first, end = (
        c.Call("spfgen_part", (c.Int(0), c.Name("entries"), p, c.Name("parts")))
        for p in (part, c.Bin("+", part, c.Int(1)))
    )
    return first, end


def _write_sequence(pair: Pair) -> Made:
    """The end of a group is noted by the last part that has entries of it."""
    both = _Both(pair, writes=True)
    position = pair.level.rank.position
    low = c.Int(pair.level.rank.low)

    def at(entry: c.Expr) -> Names:
        here = listed(both.source, entry)
        return both.inlined([here.names.name(x) for x in pair.source.coordinates])

    entry, last = c.Name("entry"), c.Name("last")
    before = c.Bin("-", last, c.Int(1))
    shared = c.Bin("&&", c.Bin(">", last, c.Name("first")), c.Bin("<", last, c.Name("entries")))
    shared = c.Bin("&&", shared, c.Bin("==", both.group(at(last)), both.group(at(before))))
    ends = c.Assign(c.Load(c.Name("count"), both.group(at(entry))), "=", _as(pair.place, c.Bin("+", entry, c.Int(1))))
    place = c.Bin("+", entry, low) if pair.level.rank.low else entry
    names = at(entry).knowing({position: place})
    value = c.Load(c.Name(both.source.arrays[pair.source.values[0].name].name), entry)
    copied = [*both.write_keys(names), both.write_value(names, value)]
    first, end = _shares()
    lines: list[c.Stmt] = [
        c.Declare(f"const {INT}", "first", first),
        c.Declare(f"const {INT}", "end", end),
        c.Declare(INT, "last", c.Name("end")),
        c.While(shared, c.Block((c.Assign(last, "-=", c.Int(1)),))),
        loop("entry", c.Name("first"), last, [ends]),
        loop("entry", c.Name("first"), c.Name("end"), copied),
    ]
    counts = ("count", c.Param(f"{TYPES[pair.place].c} *restrict", "count", "zeros: where each group ends"))
    doc = f"Copies the entries of {pair.source.name} to {pair.layout.name}, whose order they have."
    return both.made("spfgen_write_sequence", "void", [in_parts(lines)], [_PARTS, _ENTRIES, counts], doc)


def _as(kind: str, value: c.Expr) -> c.Expr:
    return value if kind == "int64" else c.Cast(TYPES[kind].c, value)


# --- scattered -----------------------------------------------------------------------------------------------------


def scattered_functions(pair: Pair) -> list[Made]:
    """Count the entries of each bucket of groups; write them there, each with its group."""
    return [_count_groups(pair, in_buckets=True), _distribute(pair)]


def _bucket(group: c.Expr) -> c.Expr:
    """The bucket of a group: the product's upper half."""
    product = c.Bin("*", c.Cast("uint64_t", group), c.Name("factor"))
    return c.Cast(INT, c.Bin(">>", product, c.Int(32)))


def _spread(pair: Pair) -> Made:
    """In some small parts of the source, how many buckets their entries belong to."""
    both = _Both(pair, writes=False)

    def leaf(at: Names, value: c.Expr) -> list[c.Stmt]:
        lines, names = both.names(at)
        place = c.Load(c.Name("seen"), c.Name("k"))
        step = [
            c.Declare(f"const {INT}", "k", _bucket(both.group(names))),
            c.Assign(c.Name("found"), "+=", c.Bin("!=", place, c.Bin("+", c.Name("part"), c.Int(1)))),
            c.Assign(place, "=", c.Bin("+", c.Name("part"), c.Int(1))),
            c.Assign(c.Name("entries"), "+=", c.Int(1)),
        ]
        return both.kept(value, [*lines, *step])

    every = c.Bin("/", c.Name("parts"), c.Name("samples"))
    part = c.Declare("const int", "part", c.Bin("*", c.Name("sample"), every))
    lines = (part, *nests(both.source, leaf, "part", "parts"))
    below = c.Bin("<", c.Name("sample"), c.Name("samples"))
    body: list[c.Stmt] = [
        c.Declare(INT, "found", c.Int(0)),
        c.Declare(INT, "entries", c.Int(0)),
        c.For("int", "sample", c.Int(0), below, 1, c.Block(lines)),
        c.If(c.Bin("==", c.Name("entries"), c.Int(0)), c.Block((c.Return(c.Int(0)),))),
        c.Return(c.Cast("int", c.Bin("/", c.Bin("*", c.Int(100), c.Name("found")), c.Name("entries")))),
    ]
    more = [_PARTS, ("samples", c.Param("int", "samples", "parts that are looked at")), _BUCKETS[1]]
    more.append(("seen", c.Param("int32_t *restrict", "seen", "zeros, one for each bucket")))
    doc = f"Of 100 entries that follow one another in {pair.source.name}, how many lie far apart in {pair.layout.name}."
    return both.made("spfgen_spread", "int", body, more, doc, collects=False)


def _distribute(pair: Pair) -> Made:
    both = _Both(pair, writes=True)
    position = pair.level.rank.position

    def leaf(at: Names, value: c.Expr) -> list[c.Stmt]:
        lines, names = both.names(at)
        place = c.Load(c.Name("own"), _bucket(c.Name("at")))
        names_taken = {*both.taken, *_used(lines), *_named(at)}
        number = new_name(position, names_taken)
        names = names.knowing({position: c.Name(number)})
        step = [
            c.Declare(f"const {INT}", "at", both.group(names)),
            c.Declare(f"const {INT}", number, place),
            c.Assign(place, "+=", c.Int(1)),
            c.Assign(c.Load(c.Name("group_of"), c.Name(number)), "=", c.Cast("int32_t", c.Name("at"))),
        ]
        return both.kept(value, [*lines, *step, *both.write_keys(names), both.write_value(names, value)])

    kind = TYPES[pair.place].c
    body = in_parts([_own("count", kind, "buckets"), *nests(both.source, leaf, "part", "parts")])
    more = [_PARTS, *_BUCKETS]
    more.append(("count", c.Param(f"{kind} *restrict", "count", "the next place in each bucket, for each part")))
    more.append(("group_of", c.Param("int32_t *restrict", "group_of", "the group of the entry at each place")))
    doc = f"Writes the entries of {pair.source.name} to {pair.layout.name}, in each bucket of groups as they come."
    return both.made("spfgen_distribute", "void", [body], more, doc)


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
    group = names.linear_index(extents, [c.Name(n) for n, _ in loops])
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
        return c.Load(c.Name(array.name), names.linear_index(array.extents, places))

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
    arguments = (*(f"to {n}" for n in argument_names(pair.layout, pair.target)), "parts", "groups", "count")
    return made("int", "spfgen_test_order", every, whole, doc, arguments)


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
    """Collect the keys of each group; write the entries. None when the source has another order."""
    counting, writing = _collect_keys(pair), _write_grouped(pair)
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


def _collect_keys(pair: Pair) -> Made | None:
    """The keys of one group behind those of the one before."""
    both = _Both(pair, writes=False)
    if not _is_of_coordinates(pair):
        return None
    kind = TYPES[pair.place].c

    def inner(nest: Nest, at: At, rest: list[Step]) -> list[c.Stmt]:
        def leaf(names: Names, value: c.Expr) -> list[c.Stmt]:
            lines, target = both.names(names)
            own = c.Load(c.Name("own"), c.Name("k"))
            declared = c.Declare(f"const {INT}", "k", _key_place(both, target))
            noted = c.Assign(c.Load(c.Name("few"), c.Name("found")), "=", c.Cast("uint64_t", c.Name("k")))
            step = (c.Assign(own, "=", c.Name("tag")), noted, c.Assign(c.Name("found"), "+=", c.Int(1)))
            test = c.If(c.Bin("!=", own, c.Name("tag")), c.Block(step))
            return both.kept(value, [*lines, *both.checked(target), declared, test])

        scan = nest.steps(rest, at, lambda inside: nest.values(inside.names, leaf))
        sort = c.Do(c.Call("spfgen_sort_words", (c.Name("few"), c.Name("found"), c.Name("bits"))))
        copy = c.Assign(c.Load(c.Name("list"), c.Name("k")), "=", c.Cast(kind, c.Load(c.Name("few"), c.Name("k"))))
        return [
            c.Declare(f"const {INT}", "at", _group_at(both, at)),
            c.Declare(f"const {kind}", "tag", _as(pair.place, c.Bin("+", c.Name("at"), c.Int(1)))),
            c.Declare(INT, "found", c.Int(0)),
            *scan,
            sort,
            loop("k", c.Int(0), c.Name("found"), [copy]),
            c.Assign(c.Name("list"), "+=", c.Name("found")),
            c.Assign(c.Load(c.Name("count"), c.Name("at")), "=", _as(pair.place, c.Name("found"))),
        ]

    lines = grouped(both.source, _quotients(pair), inner, "part", "parts")
    if lines is None:
        return None
    room = c.Declare("uint64_t *restrict", "few", c.Bin("+", c.Name("words"), _part("range")))
    body = in_parts([_own("seen", kind, "range"), _list(kind), room, *lines], " reduction(|:wrong)")
    more = [*_grouped_arguments(pair, "zeros, one for each key, for each part")]
    more.append(("bits", c.Param("int", "bits", "the bits of a key")))
    more.append(("words", c.Param("uint64_t *restrict", "words", "room for a key of each kind, for each part")))
    more.append(("count", c.Param(f"{kind} *restrict", "count", "different keys in each group")))
    doc = f"Collects the keys that entries of {pair.source.name} have in each group of {pair.layout.name}, in order."
    return both.made("spfgen_collect_keys", "int", [body], more, doc)


def _list(kind: str) -> c.Stmt:
    return c.Declare(f"{kind} *restrict", "list", c.Bin("+", c.Name("keys"), _part("room")))


def _grouped_arguments(pair: Pair, seen: str) -> Iterator[tuple[str, c.Param]]:
    kind = TYPES[pair.place].c
    yield _PARTS
    yield "base", c.Param(INT, "base", "the first key")
    yield "range", c.Param(INT, "range", "keys that there may be")
    yield "seen", c.Param(f"{kind} *restrict", "seen", seen)
    yield "room", c.Param(INT, "room", "keys of a part at most")
    yield "keys", c.Param(f"{kind} *restrict", "keys", "the keys of each group in order, for each part")


def _write_grouped(pair: Pair) -> Made | None:
    both = _Both(pair, writes=True)
    rank = pair.level.rank
    encoded = pair.key.plan.encoded
    call = encoded.calls[rank.keys[0]]
    field = pair.key.fields[pair.level.group]
    kind = TYPES[pair.place].c

    def inner(nest: Nest, at: At, rest: list[Step]) -> list[c.Stmt]:
        def write(names: Names, value: c.Expr) -> list[c.Stmt]:
            lines, target = both.names(names)
            position = new_name(rank.position, {*both.taken, *_used(lines), *_named(names)})
            declared = c.Declare(f"const {INT}", position, c.Load(c.Name("own"), _key_place(both, target)))
            target = target.knowing({rank.position: c.Name(position)})
            return both.kept(value, [*lines, declared, both.write_value(target, value)])

        group = _group_at(both, at)
        key = c.Cast(INT, c.Load(c.Name("list"), c.Bin("-", c.Name("at"), c.Name("first"))))
        value = c.Bin("-", c.Name("base"), key) if field.down else c.Bin("+", c.Name("base"), key)
        assert both.target is not None
        sizes = {n: c.Name(v) for n, v in both.target.sizes.items()}
        known = {f.name: at.names.name(f"group {k}") for k, f in enumerate(pair.key.fields[: pair.level.group])}
        position = c.Bin("+", c.Name("at"), c.Int(rank.low)) if rank.low else c.Name("at")
        names = Names({**sizes, **known, rank.position: position}, both.target.arrays, encoded.calls, encoded.quotients)
        number = c.Assign(c.Load(c.Name("own"), key), "=", _as(pair.place, position))
        return [
            c.Declare(f"const {INT}", "first", c.Load(c.Name("count"), group)),
            c.Declare(f"const {INT}", "end", c.Load(c.Name("count"), c.Bin("+", group, c.Int(1)))),
            loop(
                "at", c.Name("first"), c.Name("end"), [number, both.write(call.function, names, call.arguments, value)]
            ),
            c.Assign(c.Name("list"), "+=", c.Bin("-", c.Name("end"), c.Name("first"))),
            *nest.steps(rest, at, lambda inside: nest.values(inside.names, write)),
        ]

    lines = grouped(both.source, _quotients(pair), inner, "part", "parts")
    if lines is None:
        return None
    body = in_parts([_own("seen", kind, "range"), _list(kind), *lines])
    more = [*_grouped_arguments(pair, "room for a place for each key, for each part")]
    more.append(("count", c.Param(f"const {kind} *restrict", "count", "where each group begins, and the last ends")))
    doc = f"Writes the entries of {pair.source.name} to {pair.layout.name}, group by group."
    return both.made("spfgen_write_grouped", "void", [body], more, doc)

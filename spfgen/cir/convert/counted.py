"""Entries of a group are numbered as they come: a counting sort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spfgen import tuning
from spfgen.cir.convert.both import GROUPS, PARTS, WORDS, Both, Pair, declared_in, group_arguments, names_in, own_part
from spfgen.cir.convert.groups import count_groups
from spfgen.cir.convert.scattered import spread
from spfgen.cir.nest import at_place, nests, source_names
from spfgen.cir.pack import RESERVED, Made, argument_names, in_parts, made, new_name, parameters
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.affine import Names
from spfgen.cir.tree.build import INT
from spfgen.facts.formula import Var
from spfgen.ir import walk
from spfgen.lang.types import KEYWORDS, TYPES


def counted_functions(pair: Pair) -> list[Made]:
    """Count the entries of each group; write them; test their order; see how far apart neighbours are written.

    Where it can be done, a last function writes them too, with the places of later entries fetched ahead.
    """
    made = [count_groups(pair), _write_counted(pair), _test_order(pair), spread(pair)]
    fetching = _write_counted(pair, fetches=True)
    return made if fetching.function.body == made[1].function.body else [*made, fetching]


def _write_counted(pair: Pair, fetches: bool = False) -> Made:
    """`fetches`: the places of later entries are fetched, all entries being known to count."""
    both = Both(pair, writes=True)
    rank = pair.level.rank
    alone = not group_arguments(pair.key)[0]
    ahead = _Ahead.of(both) if fetches and not alone else None

    def leaf(at: Names, value: c.Expr) -> list[c.Stmt]:
        lines, names = both.names(at)
        position = new_name(rank.position, {*both.taken, *declared_in(lines), *names_in(at)})
        place = c.Name("next") if alone else c.Load(c.Name("own"), both.group(names))
        number = c.Bin("+", place, c.Int(rank.low)) if rank.low else place
        declared = c.Declare(f"const {INT}", position, number)
        names = names.knowing({rank.position: c.Name(position)})
        stored = [*both.write_keys(names), both.write_value(names, value)]
        fetched = ahead.fetch(stored, position, value) if ahead is not None else []
        return both.kept(value, [*fetched, *lines, declared, c.Assign(place, "+=", c.Int(1)), *stored])

    kind = TYPES[pair.place].c
    start: list[c.Stmt] = [own_part("count", kind, "groups")]
    scan, stop = nests(both.source, leaf, "part", "parts"), list[c.Stmt]()
    if alone:
        first = c.Load(c.Name("own"), c.Int(0))
        start.append(c.Declare(INT, "next", first))
        stop.append(c.Assign(first, "=", c.Cast(kind, c.Name("next"))))
    body = in_parts([*start, *scan, *stop])
    counts = ("count", c.Param(f"{kind} *restrict", "count", "the next position of each group, for each part"))
    doc = f"Writes the entries of {pair.source.name} to {pair.layout.name}, in each group as they come."
    name = "spfgen_write_ahead" if fetches else "spfgen_write_counted"
    return both.made(name, "void", [body], [PARTS, GROUPS, counts], doc)


@dataclass(frozen=True)
class _Ahead:
    """The place of a later entry of a list is fetched: the list's loop variable, and the group of the later entry."""

    variable: str
    group: c.Expr
    count: c.Expr

    @staticmethod
    def of(both: Both) -> _Ahead | None:
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
    pragma = (openmp.parallel_for("parts", "static", openmp.combined("|", "wrong")),)
    below = c.Bin("<", c.Name(position), last)
    nest: c.Stmt = c.For(INT, position, following, below, 1, c.Block((test,)), () if loops else pragma)
    for number, (name, extent) in reversed(list(enumerate(loops))):
        nest = c.For(
            INT, name, c.Int(0), c.Bin("<", c.Name(name), extent), 1, c.Block((nest,)), () if number else pragma
        )
    more = [PARTS[1], GROUPS[1], c.Param(f"const {TYPES[pair.place].c} *restrict", "count", "where each group ends")]
    whole = [c.Declare("int", "wrong", c.Int(0)), nest, c.Return(c.Name("wrong"))]
    every = [*params, *more]
    doc = f"1 when the keys in a group of {pair.layout.name} are not in their order, or one is there twice."
    arguments = (*(f"to {n}" for n in argument_names(pair.layout, pair.target)), "parts", "groups", "count")
    return made("int", "spfgen_test_order", every, whole, doc, arguments)

"""The source is scanned group by group; the keys that occur in one are collected and sorted."""

from __future__ import annotations

from collections.abc import Iterator

from spfgen.cir.convert.both import PARTS, Both, Pair, as_type, declared_in, names_in, own_part, start_of_part
from spfgen.cir.nest import At, Nest, grouped
from spfgen.cir.pack import Made, in_parts, new_name
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.affine import Names
from spfgen.cir.tree.build import INT, loop
from spfgen.lang.types import TYPES
from spfgen.layout.points import Step
from spfgen.sets.affine import Affine


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


def _group_at(both: Both, at: At) -> c.Expr:
    """The number of the group whose scan this is."""
    pair = both.pair
    digits = {f.name: at.names.name(f"group {k}") for k, f in enumerate(pair.key.fields[: pair.level.group])}
    encoded = pair.key.plan.encoded
    sizes = {n: c.Name(v) for n, v in both.extents.items()}
    names = Names({**sizes, **digits}, {}, encoded.calls, encoded.quotients)
    return both.group(names)


def _key_place(both: Both, names: Names) -> c.Expr:
    field = both.pair.key.fields[both.pair.level.group]
    value = names.name(field.name)
    return c.Bin("-", c.Name("base"), value) if field.down else c.Bin("-", value, c.Name("base"))


def _collect_keys(pair: Pair) -> Made | None:
    """The keys of one group behind those of the one before."""
    both = Both(pair, writes=False)
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
            c.Declare(f"const {kind}", "tag", as_type(pair.place, c.Bin("+", c.Name("at"), c.Int(1)))),
            c.Declare(INT, "found", c.Int(0)),
            *scan,
            sort,
            loop("k", c.Int(0), c.Name("found"), [copy]),
            c.Assign(c.Name("list"), "+=", c.Name("found")),
            c.Assign(c.Load(c.Name("count"), c.Name("at")), "=", as_type(pair.place, c.Name("found"))),
        ]

    lines = grouped(both.source, _quotients(pair), inner, "part", "parts")
    if lines is None:
        return None
    room = c.Declare("uint64_t *restrict", "few", c.Bin("+", c.Name("words"), start_of_part("range")))
    body = in_parts([own_part("seen", kind, "range"), _list(kind), room, *lines], openmp.combined("|", "wrong"))
    more = [*_grouped_arguments(pair, "zeros, one for each key, for each part")]
    more.append(("bits", c.Param("int", "bits", "the bits of a key")))
    more.append(("words", c.Param("uint64_t *restrict", "words", "room for a key of each kind, for each part")))
    more.append(("count", c.Param(f"{kind} *restrict", "count", "different keys in each group")))
    doc = f"Collects the keys that entries of {pair.source.name} have in each group of {pair.layout.name}, in order."
    return both.made("spfgen_collect_keys", "int", [body], more, doc)


def _list(kind: str) -> c.Stmt:
    return c.Declare(f"{kind} *restrict", "list", c.Bin("+", c.Name("keys"), start_of_part("room")))


def _grouped_arguments(pair: Pair, seen: str) -> Iterator[tuple[str, c.Param]]:
    kind = TYPES[pair.place].c
    yield PARTS
    yield "base", c.Param(INT, "base", "the first key")
    yield "range", c.Param(INT, "range", "keys that there may be")
    yield "seen", c.Param(f"{kind} *restrict", "seen", seen)
    yield "room", c.Param(INT, "room", "keys of a part at most")
    yield "keys", c.Param(f"{kind} *restrict", "keys", "the keys of each group in order, for each part")


def _write_grouped(pair: Pair) -> Made | None:
    both = Both(pair, writes=True)
    rank = pair.level.rank
    encoded = pair.key.plan.encoded
    call = encoded.calls[rank.keys[0]]
    field = pair.key.fields[pair.level.group]
    kind = TYPES[pair.place].c

    def inner(nest: Nest, at: At, rest: list[Step]) -> list[c.Stmt]:
        def write(names: Names, value: c.Expr) -> list[c.Stmt]:
            lines, target = both.names(names)
            position = new_name(rank.position, {*both.taken, *declared_in(lines), *names_in(names)})
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
        number = c.Assign(c.Load(c.Name("own"), key), "=", as_type(pair.place, position))
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
    body = in_parts([own_part("seen", kind, "range"), _list(kind), *lines])
    more = [*_grouped_arguments(pair, "room for a place for each key, for each part")]
    more.append(("count", c.Param(f"const {kind} *restrict", "count", "where each group begins, and the last ends")))
    doc = f"Writes the entries of {pair.source.name} to {pair.layout.name}, group by group."
    return both.made("spfgen_write_grouped", "void", [body], more, doc)

"""Each entry goes to a bucket of groups that fits the cache, then each bucket is put in order."""

from __future__ import annotations

from spfgen.cir.convert.both import BUCKETS, PARTS, Both, Pair, declared_in, names_in, own_part
from spfgen.cir.convert.groups import bucket_of, count_groups
from spfgen.cir.nest import nests
from spfgen.cir.pack import Made, in_parts, new_name
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.affine import Names
from spfgen.cir.tree.build import INT
from spfgen.lang.types import TYPES


def scattered_functions(pair: Pair) -> list[Made]:
    """Count the entries of each bucket of groups; write them there, each with its group."""
    return [count_groups(pair, in_buckets=True), _distribute(pair)]


def spread(pair: Pair) -> Made:
    """In some small parts of the source, how many buckets their entries belong to."""
    both = Both(pair, writes=False)

    def leaf(at: Names, value: c.Expr) -> list[c.Stmt]:
        lines, names = both.names(at)
        place = c.Load(c.Name("seen"), c.Name("k"))
        step = [
            c.Declare(f"const {INT}", "k", bucket_of(both.group(names))),
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
    more = [PARTS, ("samples", c.Param("int", "samples", "parts that are looked at")), BUCKETS[1]]
    more.append(("seen", c.Param("int32_t *restrict", "seen", "zeros, one for each bucket")))
    doc = f"Of 100 entries that follow one another in {pair.source.name}, how many lie far apart in {pair.layout.name}."
    return both.made("spfgen_spread", "int", body, more, doc, collects=False)


def _distribute(pair: Pair) -> Made:
    both = Both(pair, writes=True)
    position = pair.level.rank.position

    def leaf(at: Names, value: c.Expr) -> list[c.Stmt]:
        lines, names = both.names(at)
        place = c.Load(c.Name("own"), bucket_of(c.Name("at")))
        names_taken = {*both.taken, *declared_in(lines), *names_in(at)}
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
    body = in_parts([own_part("count", kind, "buckets"), *nests(both.source, leaf, "part", "parts")])
    more = [PARTS, *BUCKETS]
    more.append(("count", c.Param(f"{kind} *restrict", "count", "the next place in each bucket, for each part")))
    more.append(("group_of", c.Param("int32_t *restrict", "group_of", "the group of the entry at each place")))
    doc = f"Writes the entries of {pair.source.name} to {pair.layout.name}, in each bucket of groups as they come."
    return both.made("spfgen_distribute", "void", [body], more, doc)

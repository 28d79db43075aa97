"""All keys that occur are marked in a table, then numbered."""

from __future__ import annotations

from spfgen.cir.convert.both import PARTS, Both, Pair, declared_in, names_in
from spfgen.cir.nest import nests
from spfgen.cir.pack import Made, in_parts, new_name
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.affine import Names
from spfgen.cir.tree.build import INT


def table_functions(pair: Pair) -> list[Made]:
    """Mark the keys that occur; write the entries at the numbers of their keys."""
    return [_mark(pair), _write_marked(pair)]


def _mark(pair: Pair) -> Made:
    both = Both(pair, writes=False)

    def leaf(at: Names, value: c.Expr) -> list[c.Stmt]:
        lines, names = both.names(at)
        place = c.Bin("-", names.name(pair.key.fields[0].name), c.Name("base"))
        mark = c.Assign(c.Load(c.Name("mark"), place), "=", c.Int(1))
        return both.kept(value, [*lines, *both.checked(names), openmp.ATOMIC_WRITE, mark])

    body = in_parts(nests(both.source, leaf, "part", "parts"), openmp.combined("|", "wrong"))
    more = [PARTS, ("base", c.Param(INT, "base", "the least key"))]
    more.append(("mark", c.Param("uint8_t *restrict", "mark", "1 for each key that occurs")))
    doc = f"Marks the keys of {pair.layout.name} that entries of {pair.source.name} have; 1 when one has no place."
    return both.made("spfgen_mark", "int", [body], more, doc)


def _write_marked(pair: Pair) -> Made:
    both = Both(pair, writes=True)
    rank = pair.level.rank

    def leaf(at: Names, value: c.Expr) -> list[c.Stmt]:
        lines, names = both.names(at)
        place = c.Bin("-", names.name(pair.key.fields[0].name), c.Name("base"))
        number: c.Expr = c.Load(c.Name("number"), place)
        number = c.Bin("+", number, c.Int(rank.low)) if rank.low else number
        position = new_name(rank.position, {*both.taken, *declared_in(lines), *names_in(at)})
        names = names.knowing({rank.position: c.Name(position)})
        declared = c.Declare(f"const {INT}", position, number)
        return both.kept(value, [*lines, declared, both.write_value(names, value)])

    body = in_parts(nests(both.source, leaf, "part", "parts"))
    more = [PARTS, ("base", c.Param(INT, "base", "the least key"))]
    more.append(("number", c.Param(f"const {INT} *restrict", "number", "the position of each key")))
    doc = f"Writes the entries of {pair.source.name} to {pair.layout.name} at the numbers of their keys."
    return both.made("spfgen_write_marked", "void", [body], more, doc)

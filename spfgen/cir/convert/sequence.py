"""The source is one list of entries in the order of groups and keys: it is copied."""

from __future__ import annotations

from spfgen import tuning
from spfgen.cir.convert.both import ENTRIES, PARTS, Both, Pair, as_type
from spfgen.cir.nest import is_list, listed
from spfgen.cir.pack import Made, in_parts
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.affine import Names
from spfgen.cir.tree.build import INT, loop
from spfgen.lang.types import TYPES


def is_sequence(pair: Pair) -> bool:
    """Whether the source is one list of entries, each with its coordinates, and the target's groups follow on."""
    return bool(pair.level.rank.begin) and not pair.without_fill and is_list(pair.source)


def sequence_functions(pair: Pair) -> list[Made]:
    """Test whether the entries come in the order of groups and keys; copy them."""
    return [_test_sequence(pair), _write_sequence(pair)]


def _test_sequence(pair: Pair) -> Made:
    both = Both(pair, writes=False)
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
        in_parts(lines, openmp.combined("|", "wrong", "falls")),
        c.Assign(c.Name("wrong"), "|=", c.Select(c.Name("falls"), c.Int(2), c.Int(0))),
    ]
    doc = f"0 when the entries of {pair.source.name} come in the order of {pair.layout.name}; 1: one may have no place."
    return both.made("spfgen_test_sequence", "int", body, [PARTS, ENTRIES], doc)


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
    both = Both(pair, writes=True)
    position = pair.level.rank.position
    low = c.Int(pair.level.rank.low)

    def at(entry: c.Expr) -> Names:
        here = listed(both.source, entry)
        return both.inlined([here.names.name(x) for x in pair.source.coordinates])

    entry, last = c.Name("entry"), c.Name("last")
    before = c.Bin("-", last, c.Int(1))
    shared = c.Bin("&&", c.Bin(">", last, c.Name("first")), c.Bin("<", last, c.Name("entries")))
    shared = c.Bin("&&", shared, c.Bin("==", both.group(at(last)), both.group(at(before))))
    ends = c.Assign(
        c.Load(c.Name("count"), both.group(at(entry))), "=", as_type(pair.place, c.Bin("+", entry, c.Int(1)))
    )
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
    return both.made("spfgen_write_sequence", "void", [in_parts(lines)], [PARTS, ENTRIES, counts], doc)

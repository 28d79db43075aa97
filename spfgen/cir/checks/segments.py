"""Segments: all places of an array in plain loops, whatever segment they are in.

What is wrong in a block of segments is counted without regard to segments, then between them; only where the numbers
differ is each segment looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

from spfgen.cir import nodes as c
from spfgen.cir.build import INT, joined, loop
from spfgen.cir.checks.instances import noted, search
from spfgen.cir.checks.writer import NEVER, Writer, critical
from spfgen.facts.formula import Bin, Expr
from spfgen.layout.checks import Part, Segments
from spfgen.layout.loops import Loop

BLOCK = 1024
"""So many segments are looked at together: their places stay in a near cache."""


@dataclass(frozen=True)
class Block:
    """The loop over blocks: from where to where, C names of a block's first segment and of that after its last."""

    low: c.Expr
    high: c.Expr
    first: str
    stop: str


def segments(w: Writer, part: Segments) -> list[c.Stmt]:
    outer = part.scan.loops[0]
    first, start, stop = w.names.of("first"), w.names.of("block"), w.names.of("stop")
    bounds, low, high = w.bounds(outer)
    block = Block(low, high, start, stop)
    flat = _flat(w, part, block, first)
    before, riding, after = _riding(w, part, block)
    until = c.Call("spfgen_min", (high, c.Bin("+", c.Name(start), c.Int(BLOCK))))
    body = c.Block((c.Declare(f"const {INT}", stop, until), *riding, *flat))
    more = c.Bin("<", c.Name(start), high)
    return [
        *bounds,
        c.Declare(INT, first, NEVER),
        *before,
        c.Comment(f"blocks of {BLOCK} values of {outer.variable}: {w.check.fact.text}"),
        c.For(INT, start, low, more, BLOCK, body, (w.parallel("schedule(dynamic)"),)),
        *after,
        w.failed_at(first),
    ]


def _flat(w: Writer, part: Segments, block: Block, first: str) -> list[c.Stmt]:
    """In a block: count what is wrong, less what is wrong between segments; where any is left, search it."""
    outer, inner = part.scan.loops
    variable, place = w.names.of(outer.variable), w.names.of(inner.variable)
    start, end = w.names.of(f"{inner.variable}_first"), w.names.of(f"{inner.variable}_stop")
    wrong, between = w.names.of("wrong"), w.names.of("between")
    clip_low, clip_high = w.extreme("spfgen_max", part.clip.low), w.extreme("spfgen_min", part.clip.high)

    def begin(name: str, low: c.Expr) -> c.Stmt:
        return c.Declare(f"const {INT}", name, c.Call("spfgen_max", (clip_low, low)))

    def stop(name: str, high: c.Expr) -> c.Stmt:
        return c.Declare(f"const {INT}", name, c.Call("spfgen_min", (clip_high, high)))

    def bad(counter: str) -> c.Stmt:
        with w.naming({inner.variable: c.Name(place)}):
            _, found = w.wrong(part.scan.body, ())
        return c.Assign(c.Name(counter), "+=", found)

    own, following = c.Name(variable), c.Bin("+", c.Name(variable), c.Int(1))
    last = c.Bin("-", c.Name(block.stop), c.Int(1))
    inside: list[c.Stmt]
    furthest = Bin("max", part.low, part.high)
    gap = w.names.of(f"{inner.variable}_next")
    if part.is_close:
        # Without a branch, and one by one: a place that is none is read at the first one, and does not count.
        # Several at once would have to be gathered, which takes longer.
        near, is_gap = w.names.of(f"{inner.variable}_near"), w.names.of("is_gap")
        end_of = c.Name(gap)
        above, below = (c.Bin("<", _at(w, outer, e, own), end_of) for e in (part.low, part.high))
        holds = (above, c.Bin("<", clip_low, end_of), c.Bin("<=", end_of, clip_high), below)
        with w.naming({inner.variable: c.Name(near)}):
            _, found = w.wrong(part.scan.body, ())
        inside = [
            c.Declare(f"const {INT}", gap, _at(w, outer, part.low, following)),
            c.Declare("const int", is_gap, joined("&", holds)),
            c.Declare(f"const {INT}", near, c.Select(c.Name(is_gap), c.Bin("-", end_of, c.Int(1)), clip_low)),
            c.Assign(c.Name(between), "+=", c.Bin("&", c.Name(is_gap), found)),
            c.Do(c.Call("spfgen_apart", ())),
        ]
    else:
        low = c.Call("spfgen_max", (clip_low, _at(w, outer, furthest, own)))
        inside = [stop(gap, _at(w, outer, part.low, following)), loop(place, low, c.Name(gap), [bad(between)])]
    with w.naming({outer.variable: own}):
        rows = w.loops([inner], lambda: search(w, part, outer, first))
    again = loop(variable, c.Name(block.first), c.Name(block.stop), rows)
    beyond = c.Bin(">", c.Bin("-", c.Name(end), c.Name(start)), c.Name("INT32_MAX"))
    differ = c.Bin("||", c.Bin("!=", c.Name(wrong), c.Name(between)), beyond)
    return [
        begin(start, _at(w, outer, part.low, c.Name(block.first))),
        stop(end, _at(w, outer, furthest, last)),
        c.Comment(f"how many are wrong in the block, wherever its values of {outer.variable} begin and end"),
        c.Declare("int", wrong, c.Int(0)),
        loop(place, c.Name(start), c.Name(end), [bad(wrong)]),
        c.Comment(f"how many of them are between one value of {outer.variable} and the next"),
        c.Declare("int", between, c.Int(0)),
        c.If(c.Bin("<", clip_low, clip_high), c.Block((loop(variable, c.Name(block.first), last, inside),)))
        if part.is_close
        else loop(variable, c.Name(block.first), last, inside),
        c.If(differ, critical([again])),
    ]


def _riding(w: Writer, part: Segments, block: Block) -> tuple[list[c.Stmt], list[c.Stmt], list[c.Stmt]]:
    """The range that is checked along with segments: what stands before the loop over blocks, in it, and after it.

    From the first place of a block to the first of the next; the first and the last block reach to the ends.
    """
    if not w.along:
        return [], [], []
    outer = part.scan.loops[0]
    (along,) = w.along
    (own,) = along.parts
    assert isinstance(own, Part)
    (over,) = own.scan.loops
    least, outside = w.names.of("least"), w.names.of("outside")
    place = w.names.of(over.variable)
    start, end = w.names.of("part_start"), w.names.of("part_end")
    lines, low, high = w.bounds(over)
    with w.naming({over.variable: c.Name(place)}):
        _, wrong = w.wrong(own.scan.body, ())
    with w.naming({over.variable: c.Name(least)}):
        kept = noted(w, own)

    def search(from_: c.Expr, to: c.Expr) -> c.Stmt:
        new = c.Bin("&&", c.Bin("<", c.Name(place), c.Name(least)), wrong)
        return loop(place, from_, to, [c.If(new, c.Block((c.Assign(c.Name(least), "=", c.Name(place)),)))])

    here = c.Call("spfgen_max", (low, _at(w, outer, part.low, c.Name(block.first))))
    there = c.Call("spfgen_min", (high, _at(w, outer, part.low, c.Name(block.stop))))
    is_first = c.Bin("==", c.Name(block.first), block.low)
    is_last = c.Bin("==", c.Name(block.stop), block.high)
    riding: list[c.Stmt] = [
        c.Comment(f"{along.array}: {along.fact.text}"),
        c.Declare(f"const {INT}", start, c.Select(is_first, low, here)),
        c.Declare(f"const {INT}", end, c.Select(is_last, high, there)),
        c.Declare("int", outside, c.Int(0)),
        loop(place, c.Name(start), c.Name(end), [c.Assign(c.Name(outside), "|=", wrong)]),
        c.If(c.Name(outside), critical([search(c.Name(start), c.Name(end))])),
    ]
    empty = c.If(c.Bin(">=", block.low, block.high), c.Block((search(low, high),)))
    after = c.If(c.Bin("<", c.Name(least), NEVER), c.Block((*kept, *w.failed(back=1))))
    return [*lines, c.Declare(INT, least, NEVER), empty], riding, [after]


def _at(w: Writer, outer: Loop, place: Expr, value: c.Expr) -> c.Expr:
    """A place of a segment's, of that with this value of the outer loop."""
    with w.naming({outer.variable: value}):
        return w.expr(place, True)

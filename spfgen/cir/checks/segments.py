"""Segments: all places of an array in plain loops, whatever segment they are in.

In a block of segments, pairs of neighbours that break the fact are counted twice: all of them, in one plain loop, and
those whose two places lie in different segments. Only where the counts differ is a segment wrong, and each is looked
at. Ranges of the same places are checked in the same loop, the bounds of segments before it. Each thread begins with a
block of its own; one that is done early takes another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spfgen import tuning
from spfgen.cir.checks.fused import collected, ends, first_wrong
from spfgen.cir.checks.instances import noted, search
from spfgen.cir.checks.writer import NEVER, Writer, critical
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import INT, joined, loop, minus
from spfgen.facts.formula import ONE, Bin, Expr, Var, show, substitute
from spfgen.layout.checks import Check, CheckPart, SegmentCheck
from spfgen.layout.loops import Loop
from spfgen.sets.affine import NotAffine, affine


@dataclass(frozen=True)
class LoopBlock:
    """The loop over blocks: from where to where, C names of a block's first segment and of that after its last."""

    low: c.Expr
    high: c.Expr
    first: str
    stop: str


@dataclass(frozen=True)
class Riding:
    """A range that is checked along with segments, all in C: what stands before the loop over blocks and after it;
    what a block begins with; whether the place of the counting loop is `wrong`, and what sees to the block's other
    places, given where that loop begins and ends."""

    before: tuple[c.Stmt, ...] = ()
    after: tuple[c.Stmt, ...] = ()
    begin: tuple[c.Stmt, ...] = ()
    wrong: tuple[c.Stmt, ...] = ()
    rest: Callable[[c.Expr, c.Expr], list[c.Stmt]] = lambda start, end: []


def segments(w: Writer, part: SegmentCheck) -> list[c.Stmt]:
    outer = part.scan.loops[0]
    first, start, stop = w.names.of("first"), w.names.of("block"), w.names.of("stop")
    bounds, low, high = w.bounds(outer)
    block = LoopBlock(low, high, start, stop)
    ahead = [k for k in w.along if k.array != w.check.array]
    riding = _riding(w, part, block, w.along[len(ahead) :])
    flat = [*riding.begin, *_flat(w, part, block, first, riding)]
    before, after = list(riding.before), list(riding.after)
    if ahead:
        flat, more, search_ahead = _ahead(w, ahead, outer, block, flat)
        before, after = [*before, *more], [search_ahead, *after]
    return [
        *bounds,
        c.Declare(INT, first, NEVER),
        *before,
        c.Comment(f"blocks of values of {outer.variable}: {w.check.fact.text}"),
        *_blocks(w, block, flat),
        *after,
        w.failed_at(first),
    ]


def _blocks(w: Writer, block: LoopBlock, body: Sequence[c.Stmt]) -> list[c.Stmt]:
    """The loop over blocks: of equal size, as many for each thread."""
    count, each, blocks, number, taken = (
        w.names.of(n) for n in ("count", "block_size", "blocks", "part", "parts_taken")
    )
    chunks = c.Bin(
        "+", c.Bin("/", c.Bin("/", c.Name(count), c.Int(tuning.CHECKED_SEGMENTS)), c.Name(w.threads)), c.Int(1)
    )
    above = c.Bin("/", c.Bin("+", c.Name(count), c.Bin("-", c.Name(each), c.Int(1))), c.Name(each))
    begins = c.Bin("+", block.low, c.Bin("*", c.Name(number), c.Name(each)))
    until = c.Call("spfgen_min", (block.high, c.Bin("+", c.Name(block.first), c.Name(each))))
    statements = (c.Declare(f"const {INT}", block.first, begins), c.Declare(f"const {INT}", block.stop, until), *body)
    w.is_parallel = True
    return [
        c.Declare(f"const {INT}", count, c.Call("spfgen_max", (minus(block.high, block.low), c.Int(0)))),
        c.Declare(
            f"const {INT}", each, c.Bin("+", c.Bin("/", c.Name(count), c.Bin("*", chunks, c.Name(w.threads))), c.Int(1))
        ),
        c.Declare("const int", blocks, c.Cast("int", above)),
        c.Declare("int", taken, c.Int(0)),
        c.For(
            "int",
            number,
            openmp.HERE,
            c.Bin("<", c.Name(number), c.Name(blocks)),
            c.Call("spfgen_next_part", (c.Un("&", c.Name(taken)), c.Name(blocks))),
            c.Block(statements),
            (openmp.team(w.threads),),
        ),
    ]


def _ahead(
    w: Writer, checks: Sequence[Check], outer: Loop, block: LoopBlock, body: Sequence[c.Stmt]
) -> tuple[list[c.Stmt], list[c.Stmt], c.Stmt]:
    """(the body of a block where these checks find nothing wrong, what stands before the loop over blocks, what stands
    after it)."""
    broken, unfit, variable = w.names.of("broken"), w.names.of("unfit"), w.names.of(outer.variable)
    low, high = outer.low[0], outer.high[0]
    each = [collected(w, k, variable, unfit) for k in checks]
    ending = [s for k in checks for s in ends(w, k, variable, broken, low, high)]
    mark = c.Block((openmp.ATOMIC_WRITE, c.Assign(c.Name(broken), "=", c.Int(1))))
    statements: list[c.Stmt] = [
        c.Comment("; ".join(f"{k.array}: {k.fact.text}" for k in checks)),
        c.Declare("int", unfit, c.Int(0)),
        loop(variable, c.Name(block.first), c.Name(block.stop), each),
        c.If(c.Name(unfit), mark, c.Block(tuple(body))),
    ]
    search = c.If(c.Name(broken), c.Block(tuple(first_wrong(w, k, variable) for k in checks)))
    return statements, [c.Declare("int", broken, c.Int(0)), *ending], search


def _flat(w: Writer, part: SegmentCheck, block: LoopBlock, first: str, riding: Riding) -> list[c.Stmt]:
    """In a block: count what is wrong, less what is wrong between segments; where any is left, search it."""
    outer, inner = part.scan.loops
    variable, place = w.names.of(outer.variable), w.names.of(inner.variable)
    start, end = w.names.of(f"{inner.variable}_first"), w.names.of(f"{inner.variable}_stop")
    wrong, between = w.names.of("wrong"), w.names.of("between")
    clip_low, clip_high = w.extreme("spfgen_max", part.clip.low), w.extreme("spfgen_min", part.clip.high)
    furthest = Bin("max", part.low, part.high)

    def bad(counter: str) -> c.Assign:
        with w.naming({inner.variable: c.Name(place)}):
            _, is_wrong = w.wrong(part.scan.body, ())
        return c.Assign(c.Name(counter), "+=", is_wrong)

    last = c.Bin("-", c.Name(block.stop), c.Int(1))
    with w.naming({outer.variable: c.Name(variable)}):
        rows = w.loops([inner], lambda: search(w, part, outer, first))
    again = loop(variable, c.Name(block.first), c.Name(block.stop), rows)
    beyond = c.Bin(">", c.Bin("-", c.Name(end), c.Name(start)), c.Name("INT32_MAX"))
    differ = c.Bin("||", c.Bin("!=", c.Name(wrong), c.Name(between)), beyond)
    until = c.Call("spfgen_min", (clip_high, _at(w, outer, furthest, last)))
    return [
        c.Declare(f"const {INT}", start, _not_below(clip_low, _at(w, outer, part.low, c.Name(block.first)))),
        c.Declare(f"const {INT}", end, until),
        c.Comment(f"how many are wrong in the block, wherever its values of {outer.variable} begin and end"),
        c.Declare("int", wrong, c.Int(0)),
        loop(place, c.Name(start), c.Name(end), [bad(wrong), *riding.wrong]),
        *riding.rest(c.Name(start), c.Name(end)),
        c.Comment(f"how many of them are between one value of {outer.variable} and the next"),
        c.Declare("int", between, c.Int(0)),
        *(_gaps if part.is_close else _long_gaps)(w, part, block, bad(between)),
        c.If(differ, critical([again])),
    ]


def _long_gaps(w: Writer, part: SegmentCheck, block: LoopBlock, bad: c.Assign) -> list[c.Stmt]:
    """What is wrong between segments: all places between one and the next."""
    outer, inner = part.scan.loops
    variable, place = w.names.of(outer.variable), w.names.of(inner.variable)
    gap = w.names.of(f"{inner.variable}_next")
    clip_low, clip_high = w.extreme("spfgen_max", part.clip.low), w.extreme("spfgen_min", part.clip.high)
    here, following = c.Name(variable), c.Bin("+", c.Name(variable), c.Int(1))
    low = _not_below(clip_low, _at(w, outer, Bin("max", part.low, part.high), here))
    high = c.Call("spfgen_min", (clip_high, _at(w, outer, part.low, following)))
    inside = [c.Declare(f"const {INT}", gap, high), loop(place, low, c.Name(gap), [bad])]
    return [loop(variable, c.Name(block.first), c.Bin("-", c.Name(block.stop), c.Int(1)), inside)]


def _gaps(w: Writer, part: SegmentCheck, block: LoopBlock, bad: c.Assign) -> list[c.Stmt]:
    """The same where there is at most one place between them.

    Written without a branch: a place that is none is read at the first one, and does not count.
    """
    outer, inner = part.scan.loops
    variable = w.names.of(outer.variable)
    gap, near, is_gap = w.names.of(f"{inner.variable}_next"), w.names.of(f"{inner.variable}_near"), w.names.of("is_gap")
    begun = w.names.of(f"{inner.variable}_begun")
    clip_low, clip_high = w.extreme("spfgen_max", part.clip.low), w.extreme("spfgen_min", part.clip.high)
    here, following = c.Name(variable), c.Bin("+", c.Name(variable), c.Int(1))
    end_of = c.Name(gap)
    holds = [c.Bin("<", c.Name(begun), end_of), c.Bin("<=", end_of, clip_high)]
    if not _is_below(part.high, substitute(part.low, {outer.variable: Bin("+", Var(outer.variable), ONE)})):
        holds.append(c.Bin("<", _at(w, outer, part.high, here), end_of))
    with w.naming({inner.variable: c.Name(near)}):
        _, wrong = w.wrong(part.scan.body, ())
    inside: list[c.Stmt] = [
        c.Declare(f"const {INT}", gap, _at(w, outer, part.low, following)),
        c.Declare("const int", is_gap, joined("&", holds)),
        c.Declare(f"const {INT}", near, c.Select(c.Name(is_gap), c.Bin("-", end_of, c.Int(1)), clip_low)),
        c.Assign(bad.target, "+=", c.Bin("&", c.Name(is_gap), wrong)),
        c.Assign(c.Name(begun), "=", _not_below(clip_low, end_of)),
    ]
    before = c.Declare(INT, begun, _not_below(clip_low, _at(w, outer, part.low, c.Name(block.first))))
    over = loop(variable, c.Name(block.first), c.Bin("-", c.Name(block.stop), c.Int(1)), inside)
    return [c.If(c.Bin("<", clip_low, clip_high), c.Block((before, over)))]


def _riding(w: Writer, part: SegmentCheck, block: LoopBlock, checks: Sequence[Check]) -> Riding:
    """From the first place of a block to the first of the next; the first and the last block reach to the ends.

    The counting loop may look at places of another block, too: those are searched there, and only there.
    """
    if not checks:
        return Riding()
    outer = part.scan.loops[0]
    (along,) = checks
    (along_part,) = along.parts
    assert isinstance(along_part, CheckPart)
    (over,) = along_part.scan.loops
    least, outside = w.names.of("least"), w.names.of("outside")
    place = w.names.of(over.variable)
    start, end = w.names.of("part_start"), w.names.of("part_end")
    lines, low, high = w.bounds(over)
    with w.naming({over.variable: c.Name(place)}):
        _, wrong = w.wrong(along_part.scan.body, ())
    with w.naming({over.variable: c.Name(w.names.of(part.scan.loops[1].variable))}):
        _, counted = w.wrong(along_part.scan.body, ())
    with w.naming({over.variable: c.Name(least)}):
        kept = noted(w, along_part)

    def search(from_: c.Expr, to: c.Expr) -> c.Stmt:
        new = c.Bin("&&", c.Bin("<", c.Name(place), c.Name(least)), wrong)
        return loop(place, from_, to, [c.If(new, c.Block((c.Assign(c.Name(least), "=", c.Name(place)),)))])

    def search_outside(begun: c.Expr, stopped: c.Expr) -> list[c.Stmt]:
        collect = [c.Assign(c.Name(outside), "|=", wrong)]
        return [
            loop(place, c.Name(start), c.Call("spfgen_min", (c.Name(end), begun)), collect),
            loop(place, _not_below(c.Name(start), stopped), c.Name(end), collect),
            c.If(c.Name(outside), critical([search(c.Name(start), c.Name(end))])),
        ]

    here = _not_below(low, _at(w, outer, part.low, c.Name(block.first)))
    there = c.Call("spfgen_min", (high, _at(w, outer, part.low, c.Name(block.stop))))
    is_first = c.Bin("==", c.Name(block.first), block.low)
    is_last = c.Bin("==", c.Name(block.stop), block.high)
    begin = (
        c.Comment(f"{along.array}: {along.fact.text}"),
        c.Declare(f"const {INT}", start, c.Select(is_first, low, here)),
        c.Declare(f"const {INT}", end, c.Select(is_last, high, there)),
        c.Declare("int", outside, c.Int(0)),
    )
    empty = c.If(c.Bin(">=", block.low, block.high), c.Block((search(low, high),)))
    after = c.If(c.Bin("<", c.Name(least), NEVER), c.Block((*kept, *w.failed(back=1))))
    return Riding(
        (*lines, c.Declare(INT, least, NEVER), empty),
        (after,),
        begin,
        (c.Assign(c.Name(outside), "|=", counted),),
        search_outside,
    )


def _not_below(low: c.Expr, value: c.Expr) -> c.Expr:
    return c.Call("spfgen_max", (low, value))


def _is_below(left: Expr, right: Expr) -> bool:
    """Whether that is plain: they differ by a constant."""
    try:
        difference = affine(Bin("-", right, left), show)
    except NotAffine:
        return False
    return not difference.terms and difference.constant > 0


def _at(w: Writer, outer: Loop, place: Expr, value: c.Expr) -> c.Expr:
    """A place of a segment's, of that with this value of the outer loop."""
    with w.naming({outer.variable: value}):
        return w.expr(place, True)

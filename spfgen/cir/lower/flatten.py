"""Segments that lie one behind the other in one loop (plan/transform/flatten.py)."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from spfgen import tuning
from spfgen.cir.lower import finds
from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT, joined, loop
from spfgen.facts.formula import Call, Num, Var, substitute, variables
from spfgen.plan.nodes import Define, Find, Flatten, Load, Plan, Scan, chain, with_body

MANY = 2**31 - 1
"""More keys than it is worth comparing with one by one."""


def flattened(low: Lowering, plan: Scan, flatten: Flatten, scope: Scope) -> list[c.Stmt]:
    """The C of a flattened loop; if flattening is decided at run time, both versions."""
    first, end = low.fold("spfgen_max", plan.low, scope), low.fold("spfgen_min", plan.high, scope)
    scope = replace(scope, looped=True)
    if flatten.hits:
        return _hits(low, plan, flatten, scope, first, end)
    if flatten.short is None:
        return _all(low, plan, flatten, scope, first, end)
    begins = _pointer(low, plan, flatten, c.Int(0), scope)
    foreseen = f"spfgen_predictable_{low.element_type(_call(flatten, plan)).name}"
    samples = c.Call(foreseen, (begins.array, low.expr(flatten.rows, scope), c.Float(tuning.UNEVENNESS)))
    asked = c.Bin("&&", low.condition(flatten.short, scope), c.Un("!", samples))
    why = "segments are short, on the average, and not as long as their neighbours"
    flag = low.chosen("const bool", "flatten", asked, why)
    plain = low.plan(replace(plan, flatten=None), scope)
    return [c.If(flag, c.Block(tuple(_marked(low, plan, flatten, scope, first, end))), c.Block(tuple(plain)))]


def _call(flatten: Flatten, plan: Scan) -> Call:
    return Call(flatten.pointer, (Var(plan.dim),))


def _pointer(low: Lowering, plan: Scan, flatten: Flatten, at: c.Expr, scope: Scope) -> c.Load:
    """Where a segment begins."""
    load = low.expr(_call(flatten, plan), scope)
    assert isinstance(load, c.Load)
    return c.Load(load.array, at)


def _inner(plan: Scan) -> Scan:
    return next(n for n in chain(plan.body) if isinstance(n, Scan))


def _at_position(plan: Scan) -> Plan:
    """What is done at a position, with what is looked up for its segment."""
    inner = _inner(plan)
    body: Plan = inner.body
    bounds = variables(*inner.low, *inner.high)
    for node in reversed(list(takewhile(lambda n: n is not inner, chain(plan.body)))):
        if isinstance(node, Load | Define) and node.dim not in bounds:
            body = with_body(node, body)
    return body


def _all(low: Lowering, plan: Scan, flatten: Flatten, scope: Scope, first: c.Expr, end: c.Expr) -> list[c.Stmt]:
    """Where no position needs its segment."""
    position = low.names[flatten.position]
    begin, stop = c.Name(low.names.new(f"{position}_begin")), c.Name(low.names.new(f"{position}_end"))
    limits = zip((begin, stop), (first, end), strict=True)
    lines = [c.Declare(f"const {INT}", n.name, _pointer(low, plan, flatten, at, scope)) for n, at in limits]
    body = low.plan(_at_position(plan), scope)
    about = c.Comment(f"the segments of all {low.names[plan.dim]}, which lie one behind the other")
    return [c.If(c.Bin("<", first, end), c.Block((about, *lines, loop(position, begin, stop, body))))]


def _marked(low: Lowering, plan: Scan, flatten: Flatten, scope: Scope, first: c.Expr, end: c.Expr) -> list[c.Stmt]:
    """Some segments at a time: each is marked with its number where it begins; of empty ones the next one's takes the
    place."""
    new, segment, position = low.names.new, c.Name(low.names[plan.dim]), c.Name(low.names[flatten.position])
    group, last = (c.Name(new(f"{segment.name}_{word}")) for word in ("group", "last"))
    begin, stop = (c.Name(new(f"{position.name}_{word}")) for word in ("begin", "end"))
    marks, latest, place = c.Name(new("marks")), c.Name(new("latest")), c.Name(new("place"))
    room = tuning.FLATTENED_SEGMENTS * tuning.FLATTENED_SEGMENT
    places = c.Int(room + 1)  # empty segments may begin behind the last position

    def pointer(at: c.Expr) -> c.Load:
        return _pointer(low, plan, flatten, at, scope)

    def until(place: c.Expr, lines: list[c.Stmt]) -> list[c.Stmt]:
        """The positions from the first one to where a segment begins."""
        return [c.Declare(f"const {INT}", stop.name, pointer(place)), loop(position.name, begin, stop, lines)]

    offset = c.Bin("-", pointer(last), begin)
    several = c.Bin("<", last, c.Bin("+", group, c.Int(tuning.FLATTENED_SEGMENTS)))
    fits = c.Bin("<=", c.Bin("-", pointer(c.Bin("+", last, c.Int(1))), begin), c.Int(room))
    more = joined("&&", [c.Bin("<", last, end), several, fits])
    mark = c.Assign(c.Load(marks, offset), "=", c.Cast("uint8_t", c.Bin("-", last, group)))
    further = c.Assign(last, "+=", c.Int(1))
    body = low.plan(_at_position(plan), scope)
    segment_mark = c.Load(marks, c.Bin("-", position, begin))
    told = [
        c.Assign(latest, "=", c.Call("spfgen_max", (latest, segment_mark))),
        c.Declare(f"const {INT}", segment.name, c.Bin("+", group, latest)),
    ]
    alone = (c.Declare(f"const {INT}", segment.name, group), further, *until(last, body))
    each = [
        c.Declare(f"const {INT}", begin.name, pointer(group)),
        c.Declare("uint8_t", marks.name, length=places.value),
        loop(place.name, c.Int(0), places, [c.Assign(c.Load(marks, place), "=", c.Int(0))]),
        c.Declare(INT, last.name, group),
        c.While(more, c.Block((mark, further))),
        c.If(
            c.Bin("==", last, group),
            c.Block((c.Comment("a long segment has a loop of its own"), *alone)),
            c.Block((c.Declare(INT, latest.name, c.Int(0)), *until(last, [*told, *body]))),
        ),
        c.Assign(group, "=", last),
    ]
    about = f"some {segment.name} at a time: marks say where the segment of each begins, one loop goes through them all"
    return [
        c.Comment(about),
        c.Declare(INT, group.name, first),
        c.While(c.Bin("<", group, end), c.Block(tuple(each))),
    ]


def _hits(low: Lowering, plan: Scan, flatten: Flatten, scope: Scope, first: c.Expr, end: c.Expr) -> list[c.Stmt]:
    """The positions that hit are collected, so that what they read can be on its way together, and done when there are
    enough."""
    new, row, position = low.names.new, c.Name(low.names[plan.dim]), c.Name(low.names[flatten.position])
    following, last = (c.Name(new(f"{position.name}_{word}")) for word in ("next", "end"))
    hits, count, hit = c.Name(new("hits")), c.Name(new("count")), c.Name(new("hit"))
    find = next(n for n in chain(plan.body) if isinstance(n, Find))
    keys, kind = _keys(low, plan, find, flatten, scope)
    built = scope.tables[flatten.hits]
    stored, number = finds.stored_keys(low, built, kind, scope) or (keys, c.Int(MANY))
    arguments = (built.arrays["bits"], stored, number, keys, c.Un("&", following), last, hits)
    body = low.plan(_at_position(plan), replace(scope, known=scope.known | {flatten.hits}))
    further = c.Bin("<=", _pointer(low, plan, flatten, c.Bin("+", row, c.Int(1)), scope), position)
    at_hit = (
        c.Declare(f"const {INT}", position.name, c.Load(hits, hit)),
        c.While(further, c.Block((c.Assign(row, "+=", c.Int(1)),))),
        *body,
    )
    some = c.Block(
        (
            c.Declare("const int", count.name, c.Call(f"spfgen_collect_{kind}", arguments)),
            c.For("int", hit.name, c.Int(0), c.Bin("<", hit, count), 1, c.Block(at_hit)),
        )
    )
    words = f"all positions {position.name} of the segments of {row.name} in one loop: blocks of them none of whose"
    lines = (
        c.Declare(f"const {INT}", last.name, _pointer(low, plan, flatten, end, scope)),
        c.Declare(INT, hits.name, length=tuning.COLLECTED),
        c.Declare(INT, row.name, first),
        c.Declare(INT, following.name, _pointer(low, plan, flatten, first, scope)),
        c.While(c.Bin("<", following, last), some),
    )
    return [c.Comment(f"{words} keys is in the bitmap are passed over"), c.If(c.Bin("<", first, end), c.Block(lines))]


def _keys(low: Lowering, plan: Scan, find: Find, flatten: Flatten, scope: Scope) -> tuple[c.Expr, str]:
    """The array of the keys that are asked for, with its type."""
    assert find.key is not None
    key = find.key.value
    values = {
        n.dim: n.call if isinstance(n, Load) else n.value for n in chain(plan.body) if isinstance(n, Load | Define)
    }
    while isinstance(key, Var):
        key = values[key.name]
    assert isinstance(key, Call)
    load = low.expr(substitute(key, {flatten.position: Num(0)}), scope)
    assert isinstance(load, c.Load)
    tensor, array = key.function.split(".", 1)
    return load.array, dict(low.program.tensor(tensor).index_types)[array]

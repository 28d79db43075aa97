"""Parts that begin and end within a row, or between places of one key: what they share is added after the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from spfgen.cir.lower.clearing import cleared_between
from spfgen.cir.lower.parallel.boundary import Boundary, boundary_of
from spfgen.cir.lower.parallel.parts import Parts, between, memory, number_of_parts, taken, under_name, variable
from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT, joined, loop
from spfgen.facts.formula import Bin, Call, Compare, Num, Var, substitute, variables
from spfgen.ir import rewrite, walk
from spfgen.lang.types import TYPES
from spfgen.plan.nodes import PLANS, Accumulate, Clear, Guard, Partition, Plan, Scan, Slice, with_body
from spfgen.plan.transform.simplify import without_unused
from spfgen.sets.affine import NotAffine
from spfgen.sets.uf import linear


def rows_in_parts(low: Lowering, plan: Scan, partition: Partition, row_slice: Slice, scope: Scope) -> list[c.Stmt]:
    """Each part takes whole rows, and may begin and end within one: what it has of a row that goes on in the next part
    it sums in places of its own, and the part where the row ends stores what it has itself."""
    boundary = boundary_of(low, plan, row_slice, scope)
    count = number_of_parts(low, partition, scope)
    parts = Parts(low, plan, scope, count, taken(partition))
    key = (boundary.target.tensor, f"{boundary.target.array} of a row")
    own_body = boundary.of_row(plan.body, key[1])
    if own_body is None:
        return [parts.comment(), *parts.loop([*parts.bounds, *parts.alone()])]
    row = low.names[plan.dim]
    inner = low.names[partition.row]
    words = (f"{row}_from", f"{row}_to", f"{row}_stop", f"{inner}_begin", f"{inner}_end")
    at, end, past, begin, stop = (c.Name(low.names.new(word)) for word in words)
    rows = memory(low, f"{row}_shared", INT, count, scope)
    arrays = memory(low, f"{boundary.target.tensor}_parts", boundary.kind.c, _times(count, boundary.count), scope)
    assert partition.weight is not None
    pointer, index = parts.array(partition.weight.pointer)
    goes_on = c.Bin(">", end, c.Load(pointer, parts.stop))
    limits = variable(low, begin), variable(low, stop)
    whole = Compare("<", Var(plan.dim), variable(low, parts.stop))

    def bounded(node: object) -> object | None:
        if isinstance(node, Scan) and node.dim == partition.row:
            return replace(node, low=limits[:1], high=limits[1:])
        if isinstance(node, Clear) and node.part is not None:
            return replace(node, part=Guard((whole,), node.part))
        return None

    low.array_names[key] = low.names.new(f"{boundary.target.tensor}_row")
    nest = without_unused(rewrite(bounded, own_body))

    piece = c.Name(low.names.new("piece"))
    begun, inner_scope = _partly(low, boundary, parts, at, pointer, piece)

    def lines(places: c.Expr, until: c.Expr) -> list[c.Stmt]:
        return [
            c.Declare(f"{boundary.kind.c} *", low.array_names[key], places),
            c.Declare(f"const {INT}", stop.name, until),
            *low.plan(nest, inner_scope),
            c.Assign(begin, "=", stop),
        ]

    known = end, past, pointer, piece, TYPES[index].c
    each = _in_pieces(low, plan, boundary, parts, known, _step(row_slice, plan.dim), lines)
    inside: list[c.Stmt] = [
        *parts.within(at, end, past, goes_on, ": what this part has of it is kept apart"),
        c.Assign(c.Load(rows, parts.part), "=", c.Select(goes_on, parts.stop, c.Int(-1))),
        *boundary.begun(arrays, parts.part),
        *parts.states,
        *cleared_between(low, plan, [variable(low, parts.start)], [variable(low, parts.stop)], parts.scope),
        c.Declare(INT, begin.name, at),
        *begun,
        *each,
    ]
    return [
        parts.comment(split=row),
        *parts.loop(inside),
        *_boundaries_added(low, plan, boundary, rows, arrays, count, scope),
    ]


def _partly(
    low: Lowering, boundary: Boundary, parts: Parts, at: c.Name, pointer: c.Expr, piece: c.Name
) -> tuple[list[c.Stmt], Scope]:
    """Where something is made of totals: which row the part before has begun with, and the scope that says of which
    rows a part has not all."""
    if boundary.finish is None:
        return [], parts.scope
    row = c.Name(low.names.new(f"{parts.name}_begun"))
    goes_on = c.Bin(">", at, c.Load(pointer, parts.start))
    value = c.Declare(f"const {INT}", row.name, c.Select(goes_on, parts.start, c.Int(-1)))
    here = c.Bin("==", c.Name(parts.name), row)
    return [value], replace(parts.scope, partly=c.Bin("||", piece, here))


def divided(low: Lowering, plan: Scan, partition: Partition, scope: Scope) -> list[c.Stmt]:
    """Each part may begin and end within an iteration, between two of the loop inside: all of these write different
    places."""
    parts = Parts(low, plan, scope, number_of_parts(low, partition, scope), taken(partition))
    row, inner = low.names[plan.dim], low.names[partition.row]
    words = (f"{inner}_from", f"{inner}_to", f"{row}_stop")
    at, end, past = (c.Name(low.names.new(word)) for word in words)
    first, last = variable(low, at), variable(low, end)

    def bounded(node: object) -> object | None:
        match node:
            case Scan(dim, low=begin, high=high) if dim == partition.row:
                return replace(node, low=(*begin, first), high=(*high, last))
        return None

    assert partition.weight is not None
    pointer, _ = parts.array(partition.weight.pointer)
    goes_on = c.Bin(">", end, c.Load(pointer, parts.stop))
    inside: list[c.Stmt] = [
        *parts.within(at, end, past, goes_on),
        *parts.states,
        *low.plan(rewrite(bounded, between(low, plan, parts.start, past), PLANS), parts.scope),
    ]
    return [parts.comment(split=row), *parts.loop(inside)]


def _adding(how: Mapping[str, str], node: object) -> Scan | None:
    return replace(node, partial=how[node.dim]) if isinstance(node, Scan) and node.dim in how else None


def _step(row_slice: Slice, dim: str) -> int | None:
    """How far the places of a row are from those of the row before, where that is a number."""
    if len(row_slice.base) != 1:
        return None
    try:
        place = linear(row_slice.base[0])
    except NotAffine:
        return None
    return place.coefficient(dim) if place.names() == {dim} else None


def _is_held(boundary: Boundary, dim: str) -> bool:
    """Whether a row has one place, which is what an index array holds for it."""
    match boundary.slice.base:
        case (Call(_, (Var(name),)),):
            return name == dim and boundary.single
    return False


def _in_pieces(
    low: Lowering,
    plan: Scan,
    boundary: Boundary,
    parts: Parts,
    known: tuple[c.Name, c.Name, c.Name, c.Name, str],
    step: int | None,
    lines: Callable[[c.Expr, c.Expr], list[c.Stmt]],
) -> list[c.Stmt]:
    """The rows of a part: the whole ones, then what it has of the last one. Where both have their places and their ends
    is found out once, since rows may be so short that it takes longer than what is done for them."""
    end, past, pointer, piece, index = known
    row = low.names[plan.dim]
    first, last, ends, places = (
        c.Name(low.names.new(n)) for n in (f"{row}_first", f"{row}_last", f"{row}_ends", f"{row}_places")
    )
    until = c.Name(low.names.new(f"{row}_until"))
    further = c.Bin("-", c.Name(row), first)
    after = c.Bin("+", pointer, c.Bin("+", first, c.Int(1)))
    above: list[c.Stmt] = []
    declared: list[c.Stmt] = []
    at: c.Expr = c.Select(piece, boundary.array, boundary.start(parts.scope))
    start: c.Expr
    if step is not None:
        start = boundary.start(parts.scope, {plan.dim: variable(low, first)})
        declared.append(c.Declare(f"{boundary.kind.c} *", places.name, c.Select(piece, boundary.array, start)))
        at = c.Bin("+", places, further if step == 1 else c.Bin("*", c.Int(step), further))
    elif _is_held(boundary, plan.dim):
        array, kind = parts.array(boundary.slice.base[0].function)  # type: ignore[attr-defined]
        rows, none = c.Name(low.names.new(f"{row}rows_in_parts")), c.Name(low.names.new(f"{row}_none"))
        above.append(c.Declare(f"const {TYPES[kind].c}", none.name, c.Int(0)))
        low.arrays[f"{boundary.target.tensor}.{boundary.target.array}"] = None
        start = c.Name(low.array_names[boundary.target.tensor, boundary.target.array])
        declared += [
            c.Declare(
                f"const {TYPES[kind].c} *", rows.name, c.Select(piece, c.Un("&", none), c.Bin("+", array, first))
            ),
            c.Declare(f"{boundary.kind.c} *", places.name, c.Select(piece, boundary.array, start)),
        ]
        at = c.Bin("+", places, c.Load(rows, further))
    inside = [
        c.Declare(f"const {INT}", first.name, c.Select(piece, parts.stop, parts.start)),
        c.Declare(f"const {INT}", last.name, c.Select(piece, past, parts.stop)),
        c.Declare(f"const {index} *", ends.name, c.Select(piece, c.Un("&", until), after)),
        *declared,
        loop(row, first, last, lines(at, c.Load(ends, further))),
    ]
    return [
        *above,
        c.Declare(f"const {index}", until.name, c.Cast(index, end)),
        c.Comment("whole rows, then what this part has of the last one"),
        c.For("int", piece.name, c.Int(0), c.Bin("<", piece, c.Int(2)), 1, c.Block(tuple(inside))),
    ]


def _with(declared: c.Declare, lines: list[c.Stmt]) -> list[c.Stmt]:
    """The lines after a declaration, if they need it."""
    return [declared, *lines] if c.Name(declared.name) in [n for s in lines for n in walk(s)] else lines


def _times(a: c.Expr, b: c.Expr) -> c.Expr:
    return a if b == c.Int(1) else c.Bin("*", a, b)


def _boundaries_added(
    low: Lowering, plan: Scan, boundary: Boundary, rows: c.Name, arrays: c.Name, count: c.Expr, scope: Scope
) -> list[c.Stmt]:
    """What parts have summed of rows that go on behind them is added up in order."""
    row = low.names[plan.dim]
    part = c.Name(low.names.new("part"))
    inside = _with(c.Declare(f"const {INT}", row, c.Load(rows, part)), boundary.added(arrays, part, scope))
    if boundary.finish is not None:
        following = c.Bin("+", part, c.Int(1))
        last = c.Bin("||", c.Bin("==", following, count), c.Bin("!=", c.Load(rows, following), c.Name(row)))
        inside.append(c.If(last, c.Block(tuple(boundary.finished(scope)))))
    kept_row = c.If(c.Bin(">=", c.Load(rows, part), c.Int(0)), c.Block(tuple(inside)))
    each = c.For("int", part.name, c.Int(0), c.Bin("<", part, count), 1, c.Block((kept_row,)))
    return [c.Comment(f"what parts have of an iteration over {row} that goes on in the next one, in order"), each]


def segments(low: Lowering, plan: Scan, partition: Partition, scope: Scope) -> list[c.Stmt]:
    """Each part adds to places that no other part adds to, but for those of the key that the part before ended with."""
    assert partition.slice is not None
    boundary = boundary_of(low, plan, partition.slice, scope)
    count = number_of_parts(low, partition, scope)
    parts = Parts(low, plan, scope, count, taken(partition))
    name = low.names[plan.dim]
    own_start = c.Name(low.names.new(f"{name}_own"))
    arrays = memory(low, f"{boundary.target.tensor}_parts", boundary.kind.c, _times(count, boundary.count), scope)
    keys = [b for b in partition.slice.base if plan.dim in variables(b)]

    def continues(at: c.Name, first: c.Name) -> c.Expr:
        """Whether the key is the one right before the part."""
        before = Bin("-", variable(low, first), Num(1))
        pairs = [(substitute(k, {plan.dim: variable(low, at)}), substitute(k, {plan.dim: before})) for k in keys]
        return joined("&&", [c.Bin("==", low.expr(a, scope), low.expr(b, scope)) for a, b in pairs])

    before = between(low, plan, parts.start, own_start)
    assert isinstance(before, Scan)
    piece: Plan = with_body(replace(before, segment_keys=()), boundary.redirected(plan.body))
    if boundary.single:
        inside = rewrite(partial(_adding, dict(partition.partial)), piece, PLANS)
        piece = Accumulate(boundary.operand, "+=", inside, monoid=boundary.monoid)
    with under_name(low, boundary.target, boundary.array.name):
        added = low.plan(piece, parts.scope)
    goes_on = c.Bin("&&", c.Bin("<", own_start, parts.stop), continues(own_start, parts.start))
    lines: list[c.Stmt] = [
        *parts.bounds,
        c.Declare(INT, own_start.name, parts.start),
        *parts.states,
        c.If(
            c.Bin(">", parts.start, parts.bottom),
            c.Block((
                c.Comment("the part before has begun with these places"),
                c.While(goes_on, c.Block((c.Assign(own_start, "+=", c.Int(1)),))),
                *boundary.begun(arrays, parts.part),
                *added,
            )),
        ),
        *parts.between(own_start, parts.stop, parts.scope),
    ]  # fmt: skip
    part = c.Name(low.names.new("part"))
    first = c.Name(name)
    inside = c.Bin("&&", c.Bin(">", first, parts.bottom), c.Bin("<", first, parts.top))
    after = c.For(
        "int", part.name, c.Int(1), c.Bin("<", part, count), 1,
        c.Block((
            c.Declare(f"const {INT}", name, parts.begin(part)),
            c.If(c.Bin("&&", inside, continues(first, first)), c.Block(tuple(boundary.added(arrays, part, scope)))),
        )),
    )  # fmt: skip
    comment = c.Comment("equal parts; places that go on from one part to the next are summed for each")
    later = c.Comment("what parts have added to the last places of the one before")
    return [comment, *parts.loop(lines), later, after]

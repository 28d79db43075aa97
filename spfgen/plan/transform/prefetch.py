"""Prefetching of reads that the processor does not predict.

Segments that are reached through an array:

    for p { j = idx(p); for q in [f(j), f(j + 1)) { ... g(q) ... } }

Nothing tells the processor which segment comes next, so that each would begin with a wait for memory. The loop over p
knows: the beginning of the segment of p + AHEAD is asked for now. Nothing between the loops may decide what is read:
then what is read for p + AHEAD will be read anyway.

Short segments that lie one behind the other:

    for i { for p in [f(i), f(i + 1)) { ... g(p) ... } }

Together they are one stream, but the processor sees many short loops, and with what else is read and stored per row it
loses track: a product of a csr matrix with 5 to 7 entries a row and a vector, in memory, takes 1.5 to 1.8 times as long
without this. So it is with rows of slots, for p in [0, width) { ... g(i, p) ... }. Nothing is gained where the arrays
are in the caches or the segments are long.

Rows that are stored:

    for i { for tiles of c { for p in [f(i), f(i + 1)) { ... } C[i, c] = sum[c] } }

A row of the result is as much memory as each of the few that are added up for it, but stores wait for their memory one
after the other, where reads do not: what a later row stores is fetched. With a matrix of 3 entries a row and 64 columns
that halves the time.

Iterations of levels, which are far apart in memory: what each reads first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import islice, takewhile

from spfgen import tuning
from spfgen.facts.formula import ONE, And, Bin, Call, Compare, Expr, Formula, Num, Or, Var, calls, substitute, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    Ahead,
    Append,
    Block,
    Define,
    Find,
    Guard,
    LevelLoop,
    Load,
    Plan,
    Prefetch,
    RegisterTile,
    Scan,
    Store,
    Variable,
    chain,
    is_sum,
    is_tile,
    with_body,
)
from spfgen.sets.uf import shifted
from spfgen.space.nodes import Operand, Read


def fetched_ahead(plan: Plan) -> Plan:
    """The plan with the beginnings of such segments fetched ahead."""

    def rule(node: object) -> Plan | None:
        return _ahead(node) or _stored(node) or _streamed(node) if isinstance(node, Scan) else None

    result: Plan = rewrite(rule, plan, PLANS)
    return result


def fetched_as_said(scan: Scan, ahead: int, own_sums: Collection[str] = ()) -> Plan | None:
    """The loop that fetches what the iteration `ahead` will read through index arrays; where it reads nothing so, what
    it reads at its own position. None when there is no such thing; sums that are `made` in variables are none."""
    starts: dict[str, Expr] = {}
    for node in chain(scan.body):
        if isinstance(node, Load) and variables(node.call) & {scan.dim, *_defined(scan.body)} == {scan.dim}:
            starts[node.dim] = node.call
        elif not (isinstance(node, Load | Define | Guard) or is_sum(node)):
            break
    later = Bin("+", Var(scan.dim), Num(ahead))
    body = scan.body
    positions = {p: (call, reads) for p, call in starts.items() if (reads := _reached(scan, p, own_sums))}
    for position, (call, arrays) in (
        positions or {scan.dim: (Var(scan.dim), _reached(scan, scan.dim, own_sums))}
    ).items():
        if arrays:
            start = substitute(call, {scan.dim: later})
            body = Prefetch(scan.dim, ahead, scan.high, position, start, arrays, body)
    return None if body is scan.body else with_body(scan, body)


def with_first(plan: Plan) -> Plan:
    """The plan with levels that know what their iterations read first."""

    def rule(node: object) -> Plan | None:
        return replace(node, first=_First(node.dim).of(node.body)) if isinstance(node, LevelLoop) else None

    result: Plan = rewrite(rule, plan, PLANS)
    return result


class _First:
    """What an iteration reads first: `starts` says where each position begins, `arrays` at which place each array is
    read first. Of index arrays only what every iteration reads may say where something else is."""

    def __init__(self, dim: str) -> None:
        self.starts: dict[str, Expr] = {dim: Var(dim)}
        self.loads: set[Call] = set()
        self.made: set[str] = set()
        self.arrays: dict[str, Call | Operand] = {}

    def of(self, body: Plan) -> tuple[Call | Operand, ...]:
        self.visit(body, sure=True)
        reads = tuple(self.arrays.values())
        loaded = {c for f in reads for e in places_of(f) for c in calls(e)}  # read to know where that is
        return tuple(f for f in reads if f not in loaded)

    def visit(self, plan: Plan, sure: bool) -> None:
        match plan:
            case Load(dim, call, inner):
                self.note(call)
                if sure:
                    self.starts[dim] = substitute(call, self.starts)
                    self.loads.update(calls(self.starts[dim]))
                self.visit(inner, sure)
            case Define(dim, value, inner):
                self.starts[dim] = substitute(value, self.starts)
                self.visit(inner, sure)
            case Scan(dim, (low,), body=inner):
                self.starts[dim] = substitute(low, self.starts)
                self.visit(inner, False)
            case Guard(body=inner):
                self.visit(inner, False)
            case Block(parts):
                for part in parts:
                    self.visit(part, sure)
            case Accumulate(target, "", inner, start=start):
                self.made.add(target.tensor)
                for operand in (n for n in walk(start) if isinstance(n, Operand)):
                    self.note(operand)
                self.visit(inner, sure)
            case Append(value=value):
                for operand in (n for n in walk(value) if isinstance(n, Operand)):
                    self.note(operand)
            case Store(target, value=value):
                for operand in (*(n for n in walk(value) if isinstance(n, Operand)), target):
                    self.note(operand)

    def note(self, read: Call | Operand) -> None:
        name = read.function if isinstance(read, Call) else f"{read.tensor}.{read.array}"
        if name in self.arrays or (isinstance(read, Operand) and read.tensor in self.made):
            return
        there: Call | Operand = substitute(read, self.starts)
        places = places_of(there)
        dim = next(iter(self.starts))
        known = all(variables(e) <= {dim} and self.loads.issuperset(calls(e)) for e in places)
        if known and any(variables(e) for e in places):
            self.arrays[name] = there


def places_of(read: Call | Operand) -> tuple[Expr, ...]:
    """Where in its array it is read."""
    return read.arguments if isinstance(read, Call) else read.place


def _reached(scan: Scan, position: str, own_sums: Collection[str]) -> tuple[Call | Operand, ...]:
    """What is read at a position, at the beginning of each loop inside."""
    first = {n: Num(0) for n in _defined(scan.body) - {position}}
    arrays: dict[Call | Operand, None] = {}
    for node in walk(scan.body):
        match node:
            case Load(call=Call(arguments=places) as read) | Read(operand=Operand(place=places) as read):
                kept = isinstance(read, Operand) and read.tensor in own_sums
                if any(position in variables(p) for p in places) and not kept:
                    arrays[substitute(read, first)] = None
    return tuple(arrays)


def _streamed(outer: Scan) -> Plan | None:
    """The outer loop with an inner one over [f(i), f(i + 1)) that fetches ahead."""
    loaded: dict[str, Call] = {}
    nodes: list[Plan] = []
    for node in chain(outer.body):
        match node:
            case Load(dim, call):
                loaded[dim] = call
            case Define() | Accumulate(storage=Variable()):
                pass
            case Scan(low=(low,), high=high) if shifted(low)[0] in loaded:
                begin, further = shifted(low)
                after = substitute(loaded[begin], {outer.dim: Bin("+", Var(outer.dim), ONE)})
                if not any(loaded.get(end) == after and as_far == further for end, as_far in map(shifted, high)):
                    return None
                stream = _stream(outer, node, (Var(node.dim),))
                if stream is not None and stream.ahead is not None and outer.low == (Num(0),):
                    begins = _first(loaded[begin], outer.dim)
                    stream = replace(stream, ahead=replace(stream.ahead, begins=begins))
                return _inside((outer, *nodes), stream)
            case Scan(low=(Num(0),)):
                return _inside((outer, *nodes), _stream(outer, node, (Var(outer.dim), Var(node.dim))))
            case _:
                return None
        nodes.append(node)
    return None


def _stored(outer: Scan) -> Plan | None:
    """The outer loop with a tile inside that fetches the place of a later iteration."""
    above = list(takewhile(lambda n: not is_tile(n), chain(outer.body)))
    tile = next(islice(chain(outer.body), len(above), None), None)
    if (
        not is_tile(tile)
        or not isinstance(tile.storage, RegisterTile)
        or tile.op != "="
        or not all(isinstance(n, Load | Define) for n in above)
    ):
        return None
    *rows, _ = tile.target.place
    inside = {outer.dim, *_defined(outer.body)}
    ours = [k for k, e in enumerate(rows) if variables(e) & inside]
    inner = tile.body
    if len(ours) != 1 or rows[ours[0]] != Var(outer.dim) or not isinstance(inner, Scan):
        return None
    added = {
        n.operand.extents for n in walk(inner) if isinstance(n, Read) and n.operand.place[-1:] == (Var(inner.dim),)
    }
    if len(added) != 1:
        return None
    extents = tile.target.extents
    further = reduce(partial(Bin, "*"), (Num(tuning.PREFETCH_ROWS), *extents[ours[0] + 1 :]))
    (values,) = (reduce(partial(Bin, "*"), e) for e in added)
    few = Compare("<=", values, reduce(partial(Bin, "*"), (Num(tuning.PREFETCH_FEW_TERMS), *extents[: len(rows)])))
    short = Compare("<=", extents[-1], Num(tuning.PREFETCH_TILE_WIDTHS * tile.storage.width))
    much = Compare(">", reduce(partial(Bin, "*"), extents), Num(tuning.PREFETCH_FAR_VALUES))
    fetching = replace(tile.storage, ahead=further, when=And((few, Or((short, much)))))
    return _inside((outer, *above), replace(tile, storage=fetching))


def _first(begin: Call, dim: str) -> Call | None:
    """The first element of an array whose elements are where the segments begin, one after the other."""
    return replace(begin, arguments=(Num(0),)) if begin.arguments == (Var(dim),) else None


def _inside(above: Sequence[Plan], plan: Plan | None) -> Plan | None:
    """The plan in those above it."""
    for node in reversed(above):
        plan = None if plan is None else with_body(node, plan)
    return plan


def _stream(outer: Scan, inner: Scan, place: tuple[Expr, ...]) -> Scan | None:
    """The inner loop, fetching ahead what it reads place by place, all of a line of an array where the place is of two
    numbers: so that the next iteration of the outer loop goes on where this one ends."""
    inside = list(chain(inner.body))
    if (
        not all(isinstance(n, Load | Define | Guard | Store) for n in inside)
        or len(outer.low) != 1
        or len(outer.high) != 1
    ):
        return None
    if outer.down or inner.down:
        return None
    stored = {(n.operand.extents, n.operand) for n in walk(inner.body) if isinstance(n, Read)
              and n.operand.place == place and len(n.operand.extents) == len(place)}  # fmt: skip
    if len(stored) != 1:
        return None
    ((extents, values),) = stored
    if len(place) > 1 and extents[-1] not in inner.high:
        return None
    indices = [n.call for n in inside if isinstance(n, Load) and n.call.arguments == place]
    rows = outer.high[0] if outer.low[0] == Num(0) else Bin("-", outer.high[0], outer.low[0])
    if len(place) == 1 and isinstance(rows, Num) and tuning.PREFETCH_SHORT * rows.value < tuning.PREFETCH_VALUES:
        return None  # so few rows are never short where there are many values

    def a_row(kind: str, number: int) -> Formula:
        return Compare(kind, extents[-1], Num(number) if len(place) > 1 else Bin("*", Num(number), rows))

    when = (
        Compare(">=", reduce(partial(Bin, "*"), extents), Num(tuning.PREFETCH_VALUES)),
        a_row("<=", tuning.PREFETCH_SHORT),
    )
    return replace(
        inner,
        ahead=Ahead(
            (values, *indices), tuning.PREFETCH_PLACES, when, long=a_row(">=", tuning.PREFETCH_LONG), rows=rows
        ),
    )


def _ahead(outer: Scan) -> Plan | None:
    loaded: dict[str, Expr] = {}
    for node in chain(outer.body):
        match node:
            case Load(dim, call):
                loaded[dim] = substitute(call, loaded)
            case Define(dim, value):
                loaded[dim] = substitute(value, loaded)
            case Scan(low=(Var(begin),)) if begin in loaded:
                segment = _segment(outer, node, loaded[begin], loaded)
                return None if segment is None else with_body(outer, segment)
            case Accumulate(storage=Variable()):
                pass
            case _:
                return None
    return None


def _segment(outer: Scan, inner: Scan, begin: Expr, loaded: Mapping[str, Expr]) -> Plan | None:
    """The body of the outer loop with the fetching before it, when its segments are scattered."""
    through = [c for a in begin.arguments for c in calls(a)] if isinstance(begin, Call) else []
    if not any(outer.dim in variables(c) for c in through):
        return None
    start = substitute(begin, {outer.dim: Bin("+", Var(outer.dim), Num(tuning.PREFETCH_ITERATIONS))})
    later = {n: Num(0) for n in (*_defined(inner.body), *loaded, outer.dim)}  # not known yet: the first will do
    arrays: dict[Call | Operand, None] = {}
    for node in walk(inner.body):
        match node:
            case Load(call=Call(arguments=places) as read) | (Operand(place=places) as read):
                if places[:1] == (Var(inner.dim),):
                    arrays[substitute(read, later)] = None
    if not arrays:
        return None
    return Prefetch(outer.dim, tuning.PREFETCH_ITERATIONS, outer.high, inner.dim, start, tuple(arrays), outer.body)


def _defined(plan: Plan) -> set[str]:
    """The dimensions that get their value in the plan."""
    names = {n.dim for n in walk(plan) if isinstance(n, Scan | Load | Define | Find)}
    return names | {d for n in walk(plan) if isinstance(n, Find) for d, _ in n.loads}

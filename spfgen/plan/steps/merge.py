"""Merges: co-iteration of tensors that deliver one coordinate in order.

A stream is a loop over positions along which a coordinate is proved to increase strictly. If each region of a value is
one stream, all streams advance together, whatever their number: the next point is the least coordinate; streams that
are at this coordinate have a value, all others their fill value. The size of the code is linear in the number of
streams. For two streams with little work at each point, the three cases and the two tails are written out, so that
no comparison is made twice.

A position may also store an interval of coordinates, such as a run or a block, if each is proved to end before the next
one begins. Then the merge goes from one end of an interval to the next. In between all streams stay at their
positions, and what does not depend on the coordinate is computed once (the looplets of Ahrens et al. 2023, section 5).

A slice or an offset is a stream with shifted coordinates. Coordinates out of range are skipped; if other indices are
out of range, the stream is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

from spfgen.errors import SpfgenError
from spfgen.facts.formula import (
    ONE,
    ZERO,
    And,
    Bin,
    Call,
    Compare,
    Expr,
    Formula,
    Not,
    Or,
    Var,
    conjunction,
    conjuncts,
    rename,
    substitute,
    variables,
)
from spfgen.facts.prove import implied
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.plan.analyse.depend import known_of_points
from spfgen.plan.analyse.scan import Step, sources
from spfgen.plan.build.drivers import driven
from spfgen.plan.choices import MERGES
from spfgen.plan.nodes import (
    PLANS,
    Assign,
    Block,
    BoundSearch,
    Break,
    Define,
    Find,
    Guard,
    If,
    Let,
    Load,
    Plan,
    Repeat,
    Scan,
    Segment,
    Store,
    chain,
    with_body,
)
from spfgen.plan.steps.driving import Driving
from spfgen.plan.steps.env import Env, Key, Leaf, joined, key_of, number_of
from spfgen.plan.transform.simplify import simplify
from spfgen.plan.verify.meaning import check_nest
from spfgen.sets.affine import NotAffine, expression
from spfgen.sets.uf import linear, solved_for
from spfgen.space.nodes import Instance, Operand, Read
from spfgen.space.regions import Region
from spfgen.space.typed import Holds, Scalar

LAST = 2**63 - 1
"""No coordinate: that of a stream that has run out."""


@dataclass(frozen=True)
class Stream:
    """Positions in [`low`, `high`) of a tensor, along which `coordinate` increases strictly. `before` is loaded or
    computed first. With a `stop`, a position stores all coordinates in [`coordinate`, `stop`). Positions at which
    `inside` does not hold are skipped. If `given` does not hold, the stream is empty: then `high` is a scalar, which is
    `top` if it holds."""

    access: lang.Access
    before: tuple[Plan, ...]
    position: str
    low: Expr
    high: Expr
    coordinate: Expr
    read: Read
    stop: Expr | None = None
    given: tuple[Formula, ...] = ()
    inside: tuple[Formula, ...] = ()
    top: Expr = ZERO

    @property
    def led(self) -> set[str]:
        """What says where the positions are."""
        first = [e for n in self.before for s in n.computed() for e in (*s.exprs, *s.low, *s.high)]
        return variables(*first, self.low, self.high, self.top)

    @property
    def end(self) -> Expr:
        """The first coordinate behind what the position stores."""
        return Bin("+", self.coordinate, ONE) if self.stop is None else self.stop


class Merging(Driving):
    """Merges of streams."""

    def merged(
        self,
        regions: Sequence[Region],
        indices: Sequence[str],
        conditions: Sequence[Formula],
        leaf: Leaf,
        env: Env,
        distinct: Sequence[Expr] | None,
    ) -> list[Plan] | None:
        """The leaf once at each point that one of the regions has, by a merge; None where they are no streams."""
        plain = all(r.accesses and not r.links and not r.where for r in regions)
        accesses = list({key_of(a): a for r in regions for a in r.accesses}.values())
        if not self.context.makes(MERGES) or len(accesses) < 2 or not plain or self.context.order:
            return None
        scheduled = {*self.context.named, *self.context.forced}
        if any(name.startswith(f"{a.tensor}.") for a in accesses for name in scheduled):
            return None  # a merge has no loops over positions
        alone = all(len(r.accesses) == 1 for r in regions)
        if not alone and len({frozenset(self.indices_in(a)) for a in accesses}) > 1:
            return None  # going through the shorter ones again and again may take longer than looking up
        if any(key_of(a) in env.values or key_of(a) in env.absent for a in accesses):
            return None
        for index in reversed([i for i in indices if i in self.extents]):
            outer = [i for i in indices if i != index]
            if self.steps.called.get(index, index) in scheduled:
                continue
            if env.order and env.order != (*outer, index):
                continue
            if not all(self.indices_in(a) <= env.known | {*outer, index} for a in accesses):
                continue
            here = env.knowing(outer)
            streams = self.streams(accesses, index, here)
            if streams is None or not (alone or any(s.stop is not None for s in streams)):
                continue
            if any(self.indices_in(s.access) & {*outer} - s.led for s in streams):
                continue  # all of it would be gone through for each value of an index that says nothing of where it is
            inside = [c for c in conditions if index in self.indices_of(c)]
            around = tuple(c for c in conditions if c not in inside)
            if not all(self.is_affine(c) for c in around):
                return None

            advance = partial(self.advancing, streams, () if alone else regions, index, inside, leaf)
            env = replace(env, order=tuple(outer) if env.order else ())
            if not outer and not around:
                return [advance(env)]
            return self.nests((), tuple(outer), around, advance, env, distinct)
        return None

    def streams(self, accesses: Sequence[lang.Access], index: str, env: Env) -> list[Stream] | None:
        labels = set(self.labels)
        streams: list[Stream] = []
        for access in accesses:
            stream = self.stream(access, index, env)
            if stream is None:
                self.labels = labels
                return None
            streams.append(stream)
        return streams

    def stream(self, access: lang.Access, index: str, env: Env) -> Stream | None:
        """An access as a stream of the index, the others known."""
        subscripts = [s for s in access.subscripts if index in variables(s)]
        if len(subscripts) != 1 or index in env.known or set(variables(subscripts[0])) & self.indices != {index}:
            return None
        try:
            instances = list(self.instances((access,), (index,), (), env))
        except SpfgenError:
            return None
        if len(instances) != 1 or instances[0].guards:
            return None
        instance = self.pointed(instances[0], (index,))
        steps = driven(instance, self.nest_context, bool(env.known))[0]
        scans = [s for s in steps if s.kind == "scan"]
        if not scans or scans[0].dim == index or not rises(instance, steps, scans[0].dim, index):
            return None
        arranged = simplify(self.arranged(instance, replace(env, order=()), None), (index, *sorted(env.known)))
        check_nest(instance, arranged)
        nodes = [part for node in chain(arranged) for part in opened(node)]
        loops = [k for k, n in enumerate(nodes) if isinstance(n, Scan)]
        if len(loops) != len(scans) or len(loops) > 2 or not isinstance(nodes[-1], Store):
            return None
        return self.of_nodes(access, index, nodes, loops[0])

    def of_nodes(self, access: lang.Access, index: str, nodes: Sequence[Plan], at: int) -> Stream | None:
        """The stream of a nest, whose nodes are these; the one at `at` is its loop."""
        before, scan, after, does = list(nodes[:at]), nodes[at], nodes[at + 1 : -1], nodes[-1]
        along = [n for n in after if isinstance(n, Scan)]
        given: list[Formula] = []
        while before and isinstance(outermost := before[0], Guard):
            given += outermost.conditions
            del before[0]
        plain = all(isinstance(n, Load | Define | Guard) for n in after if n not in along)
        if not plain or not all(isinstance(n, Load | Define | Segment) and not _is_kept(n) for n in before):
            return None
        values: dict[str, Expr] = {}
        inside: list[Formula] = []
        for node in after:
            if isinstance(node, Load | Define):
                values[node.dim] = substitute(node.call if isinstance(node, Load) else node.value, values)
            elif isinstance(node, Guard):
                inside += [substitute(c, values) for c in node.conditions]
        if along and inside:
            return None
        assert isinstance(scan, Scan)
        assert isinstance(does, Store)
        assert isinstance(does.value, lang.Apply)
        (coordinate,) = does.target.place
        coordinate, stop = substitute(coordinate, values), None
        read = substitute(does.value.arguments[0], values)
        if along:
            dim, offset = along[0].dim, _offset(does.target.place[0], along[0].dim, after)
            if offset is None:
                return None
            first, last = (_sum(e, offset) for e in bounded(along[0]))
            coordinate, stop = substitute(first, values), substitute(last, values)
            here: Expr = Var(index) if offset == ZERO else Bin("-", Var(index), substitute(offset, values))
            read = substitute(read, {dim: here})
        low, high = bounded(scan)
        position = scan.dim
        if position == index:  # which is to be what all streams agree on
            position = self.fresh(f"{access.tensor}_{index}")
            moved = {index: position}
            coordinate, read = rename(coordinate, moved), read if along else rename(read, moved)
            stop, inside = None if stop is None else rename(stop, moved), [rename(c, moved) for c in inside]
        stream = Stream(access, tuple(before), position, low, high, coordinate, read, stop, tuple(given), tuple(inside))
        if not given:
            return stream
        known = (coordinate, *inside, read, *(() if stop is None else (stop,)))
        if names_of(before) & {v.name for e in known for v in walk(e) if isinstance(v, Var)}:
            return None  # read where nothing may be read
        return replace(stream, high=Var(self.fresh(f"{access.tensor}_end")), top=high)

    def advancing(
        self,
        streams: Sequence[Stream],
        regions: Sequence[Region],
        index: str,
        conditions: Sequence[Formula],
        leaf: Leaf,
        env: Env,
    ) -> Plan:
        """The streams gone through together, the other indices known. Of several `regions` one has to be there."""
        outside = env
        sides = sides_of(conditions, index, {v for s in streams for v in names_of(s.before)})
        loads = {n.dim for s in streams if not s.given for n in s.before if isinstance(n, Load | Define)}
        env = replace(env, loaded=env.loaded | loads)
        if any(s.stop is not None for s in streams):
            by_intervals = self.interval_by_interval(streams, regions, index, conditions, leaf, env, sides)
            return self.around(streams, by_intervals, outside)
        restore = self.kept()
        at_point = self.at_each(index, conditions, sides, leaf, env)
        merge = self.two_way(streams, index, sides, at_point)
        if merge is None:
            restore()
            merge = self.least_first(streams, index, sides, at_point)
        return self.around(streams, merge, outside, sides.low)

    def at_each(
        self, index: str, conditions: Sequence[Formula], sides: BoundsAndRest, leaf: Leaf, env: Env
    ) -> Callable[[Mapping[Key, Any], Sequence[Stream]], Plan]:
        """What is done at a point, given the values of the streams that are there and those that are not."""

        def at_point(values: Mapping[Key, Any], absent: Sequence[Stream] = ()) -> Plan:
            known = env.knowing([index]).having(values).where(conditions)
            known = replace(known, absent=known.absent.union(key_of(s.access) for s in absent))
            return self.where(sides.rest, leaf(known))

        return at_point

    def two_way(
        self,
        streams: Sequence[Stream],
        index: str,
        sides: BoundsAndRest,
        at_point: Callable[[Mapping[Key, Any], Sequence[Stream]], Plan],
    ) -> Plan | None:
        """The merge of two streams as three cases, then what is left of either; None where they are not two, or so
        much is done at a point that it should be written once."""
        if len(streams) != 2:
            return None
        one, other = streams
        both = at_point({**_there(one), **_there(other)}, ())
        if not _is_small(both):
            return None
        alone = {s.position: at_point(_there(s), [o for o in streams if o is not s]) for s in streams}
        first, second = (Define(self.fresh(f"{s.access.tensor}_{index}"), s.coordinate) for s in streams)
        here, there = Var(first.dim), Var(second.dim)
        ends = _behind(sides)

        def case(coordinate: Expr, inner: Plan, *moved: Stream) -> Block:
            end = [If(ends(coordinate), Break(), None, "the rest is out of range")] if ends else []
            return Block((*end, Define(index, coordinate), inner, *map(_forward, moved)))

        only = If(
            Holds(Compare("<", here, there)),
            case(here, alone[one.position], one),
            case(there, alone[other.position], other),
        )
        cases = If(Holds(Compare("=", here, there)), case(here, both, one, other), only)
        together = _while(And((_left(one), _left(other))), (first, second, cases), _reason(streams, index), *streams)
        tails = [
            _while(_left(s), case(s.coordinate, alone[s.position], s).parts, f"what is left of {s.access.tensor}", s)
            for s in streams
        ]
        return Block((together, *tails))

    def least_first(
        self,
        streams: Sequence[Stream],
        index: str,
        sides: BoundsAndRest,
        at_point: Callable[[Mapping[Key, Any], Sequence[Stream]], Plan],
    ) -> Plan:
        """The merge of any number of streams: the least coordinate is next."""
        following = Scalar(self.fresh(f"{index}_next"), "int64")
        turn: list[Plan] = [Let(following.name, "int64", number_of(LAST, "int64"))]
        for s in streams:
            if s.inside:
                turn.append(_passing(s, _outside(s)))
            turn.append(If(Holds(_left(s)), _least(following, lang.Index(s.coordinate))))
        turn.append(_all_have_run_out(following, sides))
        turn.append(Define(index, Var(following.name)))
        values: dict[tuple[str, tuple[Expr, ...]], object] = {}
        steps: list[Plan] = []
        for s in streams:
            here = And((_left(s), Compare("=", s.coordinate, Var(index))))
            there, value, asked = self.asked(s, here, values)
            turn += [*asked, *value]
            steps.append(If(there, _forward(s)))
        return Repeat(Block((*turn, at_point(values, ()), *steps)), _reason(streams, index))

    def interval_by_interval(
        self,
        streams: Sequence[Stream],
        regions: Sequence[Region],
        index: str,
        conditions: Sequence[Formula],
        leaf: Leaf,
        env: Env,
        sides: BoundsAndRest,
    ) -> Plan:
        """The same where positions store intervals: from one at which a stream begins or ends to the next."""
        at, until = Scalar(self.fresh(f"{index}_from"), "int64"), Scalar(self.fresh(f"{index}_until"), "int64")
        following = Scalar(self.fresh(f"{index}_next"), "int64")
        turn: list[Plan] = [Let(following.name, "int64", number_of(LAST, "int64"))]
        for s in streams:
            passed: Formula = Compare("<=", s.end, Bin("max", Var(at.name), s.coordinate))
            turn.append(_passing(s, Or((passed, _outside(s))) if s.inside else passed))
            first = lang.Apply("maximum", (at, lang.Index(s.coordinate)))
            turn.append(If(Holds(_left(s)), _least(following, first)))
        turn += [_all_have_run_out(following, sides), Assign(at.name, "int64", following)]
        end = lang.Index(reduce(_lesser, sides.high)) if sides.high else number_of(LAST, "int64")
        turn.append(Let(until.name, "int64", end))
        values: dict[tuple[str, tuple[Expr, ...]], object] = {}
        moving: list[Plan] = []
        for s in streams:
            begun = Compare("<=", s.coordinate, Var(at.name))
            there, value, asked = self.asked(s, And((_left(s), begun)), values)
            turn += asked
            moves = any(index in variables(p) for n in walk(s.read) if isinstance(n, Operand) for p in n.place)
            (moving if moves else turn).extend(value)
            ends = If(there, _least(until, lang.Index(s.end)), _least(until, lang.Index(s.coordinate)))
            turn.append(If(Holds(_left(s)), ends))
        inner = self.where(sides.rest, leaf(env.knowing([index]).having(values).where(conditions)))
        body = Block((*moving, inner)) if moving else inner
        why = "all positions stay the same in between"
        along: Plan = Scan(index, (Var(at.name),), (Var(until.name),), body, because=why)
        if regions:
            flags = [[values[f"{a.tensor}?", a.subscripts] for a in r.accesses] for r in regions]
            along = If(joined("logical_or", [joined("logical_and", f) for f in flags]), along)
        turn += [along, Assign(at.name, "int64", until)]
        first_of_all = lang.Index(reduce(_greater, sides.low)) if sides.low else number_of(-LAST, "int64")
        start = Let(at.name, "int64", first_of_all)
        return Block((start, Repeat(Block(tuple(turn)), _reason(streams, index))))

    def asked(
        self, stream: Stream, here: Formula, values: dict[tuple[str, tuple[Expr, ...]], object]
    ) -> tuple[Scalar, list[Plan], list[Plan]]:
        """Whether a stream has something here, how its value comes about, and how it is known: `values` learns both."""
        tensor = self.tensors[stream.access.tensor]
        there = Scalar(self.fresh(f"{stream.access.tensor}_there"), "bool")
        value = Scalar(self.fresh(f"{stream.access.tensor}_value"), tensor.value_type)
        values[key_of(stream.access)] = value
        values[f"{stream.access.tensor}?", stream.access.subscripts] = there
        read: list[Plan] = [
            Let(value.name, value.type, number_of(tensor.layout.fill, value.type)),
            If(there, Assign(value.name, value.type, stream.read)),
        ]
        return there, read, [Let(there.name, there.type, Holds(here))]

    def where(self, conditions: Sequence[Formula], inner: Plan) -> Plan:
        tests = [Holds(c) for c in conditions]
        return If(joined("logical_and", tests), inner) if tests else inner

    def around(self, streams: Sequence[Stream], merge: Plan, env: Env, low: Sequence[Expr] = ()) -> Plan:
        """The merge with what is known before it. Streams begin at the first coordinate that is no less than `low`."""
        lines: list[Plan] = []
        around = [n for s in streams if not s.given for n in s.before]
        known = set(env.loaded) | {n.dim for n in around if isinstance(n, Load | Define)}
        searches: list[BoundSearch] = []
        for s in streams:
            if not s.given:
                search = self.begun(s, low)
                searches += [] if search is None else [search]
                start = s.low if search is None else Var(search.name)
                lines.append(Let(s.position, "int64", lang.Index(start)))
                lines += _up_to(s, low) if search is None else []
                continue
            assert isinstance(s.high, Var)
            lines += [Let(name, "int64", lang.Constant(0)) for name in (s.position, s.high.name)]
            first = Assign(s.position, "int64", lang.Index(s.low))
            bounds: Plan = Block((first, Assign(s.high.name, "int64", lang.Index(s.top))))
            for node in reversed(s.before):
                bounds = with_body(node, bounds)
            lines.append(If(Holds(conjunction(s.given)), _once(bounds, known)))
            lines += _up_to(s, low)
        result: Plan = Block((*lines, merge))
        for node in reversed([*around, *searches]):
            result = with_body(node, result)
        return _once(result, set(env.loaded))

    def begun(self, stream: Stream, low: Sequence[Expr]) -> BoundSearch | None:
        """The search for the first position of a stream that counts, where its coordinate is read from an array."""
        match stream.coordinate if low else None:
            case Call() as call:
                value = reduce(_greater, low)
                name = self.fresh(f"{stream.position}_from")
                holds, why = Compare(">=", call, value), f"{call.function} is increasing within these bounds"
                bounds = (stream.low,), (stream.high,)
                return BoundSearch(name, stream.position, *bounds, call, value, False, holds, Block(()), why, near=True)
        return None


@dataclass(frozen=True)
class BoundsAndRest:
    """What conditions say of an index: it is at least each of `low`, less than each of `high`, and the `rest`."""

    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    rest: tuple[Formula, ...]


def sides_of(conditions: Sequence[Formula], index: str, inside: set[str]) -> BoundsAndRest:
    """The conditions: those that bound the index by values known before the merge, and the rest."""
    low: list[Expr] = []
    high: list[Expr] = []
    others: list[Formula] = []
    for condition in (c for f in conditions for c in conjuncts(f)):
        match solved_for(condition, index):
            case (op, bound) if op != "!=" and not bound.names() & inside:
                if op in (">=", ">", "="):
                    low.append(expression(bound.plus(op == ">")))
                if op in ("<=", "<", "="):
                    high.append(expression(bound.plus(op != "<")))
            case _:
                others.append(condition)
    return BoundsAndRest(tuple(low), tuple(high), tuple(others))


def _once(plan: Plan, done: set[str]) -> Plan:
    """Without what is loaded a second time, or was further out."""
    if isinstance(plan, Load | Define):
        inner = _once(plan.body, done | {plan.dim})
        return inner if plan.dim in done else with_body(plan, inner)
    return with_body(plan, _once(plan.body, done)) if isinstance(plan, Segment) else plan


def opened(node: Plan) -> list[Plan]:
    """A find without a key as what it is: a loop over all positions, with conditions on what it loads."""
    if not isinstance(node, Find) or node.key is not None or node.miss is not None:
        return [node]
    loads: list[Plan] = [Load(n.dim, n.call, node.hit) for n in node.loads]
    return [Scan(node.dim, node.low, node.high, node.hit), *loads, Guard(node.conditions, node.hit)]


def names_of(nodes: Sequence[Plan]) -> set[str]:
    """What they read, compute and find."""
    names = {n.dim for n in nodes if isinstance(n, Load | Define | Segment)}
    return names | {name for n in nodes if isinstance(n, Segment) for name in (n.start, n.end)}


def _offset(place: Expr, dim: str, nodes: Sequence[Plan]) -> Expr | None:
    """What the place is besides the dimension, where it is their sum."""
    located: dict[str, Expr] = {}
    for node in nodes:
        if isinstance(node, Define):
            located[node.dim] = substitute(node.value, located)
    try:
        whole = linear(substitute(place, located))
    except NotAffine:
        return None
    return expression(whole.without(dim)) if whole.coefficient(dim) == 1 else None


def _sum(one: Expr, other: Expr) -> Expr:
    if ZERO in (one, other):
        return one if other == ZERO else other
    return Bin("+", one, other)


def _is_kept(node: Plan) -> bool:
    """Whether a segment goes on from where another iteration left it."""
    return isinstance(node, Segment) and bool(node.place)


def bounded(scan: Scan) -> tuple[Expr, Expr]:
    """The bounds of a loop, each as one expression."""
    return reduce(lambda a, b: Bin("max", a, b), scan.low), reduce(lambda a, b: Bin("min", a, b), scan.high)


def _forward(stream: Stream) -> Plan:
    return Assign(stream.position, "int64", lang.Apply("add", (Scalar(stream.position, "int64"), lang.Constant(1))))


def _least(scalar: Scalar, value: object) -> Plan:
    return Assign(scalar.name, scalar.type, lang.Apply("minimum", (scalar, value)))


def _all_have_run_out(following: Scalar, sides: BoundsAndRest) -> Plan:
    if sides.high:
        behind = lang.Apply("greater_equal", (following, lang.Index(reduce(_lesser, sides.high))))
        return If(behind, Break(), None, "all are exhausted, or the rest is out of range")
    return If(lang.Apply("equal", (following, number_of(LAST, "int64"))), Break(), None, "all are exhausted")


def _behind(sides: BoundsAndRest) -> Callable[[Expr], Any] | None:
    """Whether a coordinate is behind all that counts; None where nothing says so."""
    if not sides.high:
        return None
    end = reduce(_lesser, sides.high)
    return lambda coordinate: Holds(Compare(">=", coordinate, end))


def _there(stream: Stream) -> dict[Key, Any]:
    """What is known of a stream where it stores something: its value, and that it is there."""
    tensor, subscripts = key_of(stream.access)
    return {(tensor, subscripts): stream.read, (f"{tensor}?", subscripts): lang.Constant(True)}


def _while(condition: Formula, body: Sequence[Plan], why: str, *streams: Stream) -> Plan:
    """The body as long as the condition holds, once what does not belong to the streams is passed over."""
    passing = [_passing(s, _outside(s)) for s in streams if s.inside]
    end = If(lang.Apply("logical_not", (Holds(condition),)), Break())
    return Repeat(Block((*passing, end, *body)), why)


SMALL = 16
"""So many statements and operations at a point may be written out for each case of a merge."""


def _is_small(plan: Plan) -> bool:
    """Whether what is done at a point has no loop, and is short."""
    nodes = list(walk(plan, PLANS))
    loops = any(isinstance(n, Scan | Find | Repeat | BoundSearch | Segment) for n in nodes)
    return not loops and len(nodes) + sum(isinstance(n, lang.Apply) for n in walk(plan)) <= SMALL


def _up_to(stream: Stream, low: Sequence[Expr]) -> list[Plan]:
    return [_passing(stream, Compare("<", stream.coordinate, reduce(_greater, low)))] if low else []


def _greater(one: Expr, other: Expr) -> Expr:
    return Bin("max", one, other)


def _lesser(one: Expr, other: Expr) -> Expr:
    return Bin("min", one, other)


def _reason(streams: Sequence[Stream], index: str) -> str:
    names = ", ".join(s.access.tensor for s in streams)
    return f"{names} deliver {index} in order: they are merged"


def _passing(stream: Stream, over: Formula) -> Plan:
    """A loop that advances the stream while `over` holds."""
    why = f"what of {stream.access.tensor} is {'outside' if stream.inside else 'passed'}"
    return Repeat(If(Holds(And((_left(stream), over))), _forward(stream), Break()), why)


def _outside(stream: Stream) -> Formula:
    return Not(conjunction(stream.inside))


def _left(stream: Stream) -> Formula:
    return Compare("<", Var(stream.position), stream.high)


def rises(instance: Instance, steps: Sequence[Step], position: str, index: str) -> bool:
    """Whether the index is proved to rise strictly along a position."""
    near = {*sources(steps, {position, index}), *(s.dim for s in steps if s.dim)}
    names = {n: f"{n}'" for n in near - set(instance.sizes)}
    one = known_of_points(instance, steps, near)
    two = [rename(f, names) for f in one]
    if position not in names:
        return False
    later = Compare("<", Var(position), Var(names[position]))
    about = f"{index} along {position}: strictly rising"
    goal = Compare("<", Var(index), Var(names.get(index, index)))
    return implied([*one, *two, later], instance.axioms, goal, about=about).proved

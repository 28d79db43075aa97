"""Segments of equal length, one behind the other: their loops are written out for that length.

    for i { end = ends[i]; for p in [begin, end) { ... }  begin = end; }

Where segments are short, a processor is as busy with the ends of the inner loop as with what it does. If, as samples
say, most segments have neighbours of their length, a function runs the loop: where eight in a row are as long as the
first, the body is used for that length, a number that the compiler knows, as long as the length stays the same.
Elsewhere the loop is left as it is: where lengths vary, the question would cost more than it gains. So are loops over
so few segments that no samples are taken.

What is added up comes in the same order either way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from spfgen.cir import nodes as c
from spfgen.cir.alone import ALONE
from spfgen.cir.build import INT, first_of, minus
from spfgen.cir.outline import INLINE, can_move, names_in, outer_loops, params_for, types_of
from spfgen.cir.simplify import simplify
from spfgen.ir import fresh, rewrite, walk

LONGEST = 8
"""The longest segments that are written out: longer ones take long enough. rt/even.h has the same number."""
TOGETHER = 8
"""So many neighbours are of one length before the loop for that length is taken. rt/even.h has the same number."""
FEWEST = 256
"""Segments of which samples are taken. rt/even.h has the same number."""
_Over = Callable[[c.For | c.While, Sequence[c.Stmt], c.Name, c.Name], c.Name | None]
"""The position of a loop over a segment among some lines, with the begin and the end of the segment."""
_TYPES = {"const int32_t": "int32", "const int64_t": "int64"}


@dataclass(frozen=True)
class _Segments:
    """A loop over segments: the variable with the begin, the one with the end and what it is read from, those with
    a position in it, and what is done for each segment."""

    loop: c.For
    begin: c.Name
    end: c.Name
    read: c.Load
    positions: tuple[c.Name, ...]
    rest: tuple[c.Stmt, ...]

    @property
    def variable(self) -> c.Name:
        return c.Name(self.loop.variable)

    @property
    def last(self) -> c.Expr:
        assert isinstance(self.loop.condition, c.Bin)
        return self.loop.condition.right

    def at(self, place: c.Expr) -> c.Expr:
        """The end of the segment at this place."""
        found: c.Expr = simplify(_for(self.read, {self.variable: place}))
        return found


def evened(function: c.Function) -> list[c.Function]:
    """The function, behind those that run its loops over segments of equal length: those in rounds (cir/fours.py), else
    those that take four in turn (cir/sums.py)."""
    in_rounds = _evened(function, _rounds)
    return in_rounds if len(in_rounds) > 1 else _evened(function, _in_turn)


def _evened(function: c.Function, over: _Over) -> list[c.Function]:
    types, taken = types_of(function), set[str]()
    few = {s.name for s in walk(function.body, c.Stmt) if isinstance(s, c.Declare) and _is_near(s.value)}
    made: list[c.Function] = []

    def rule(node: object) -> c.Stmt | None:
        if isinstance(node, c.If):
            return _asked_once(node)
        found = _segments(node, over) if isinstance(node, c.For) else None
        if found is None or (isinstance(found.last, c.Name) and found.last.name in few):
            return None
        own = (found.loop.variable, found.begin.name, found.end.name)
        params = params_for([found.read, *found.rest], own, types)
        kind = _TYPES.get(_element(types.get(_array(found), "")))
        if kind is None or params is None:
            return None
        taken.update(names_in(function))  # most functions have no such loop
        run = _run(found, params, fresh(f"{function.name}_run", taken), taken)
        taken.add(run.name)
        several = _several(found, params, run, fresh(f"{function.name}_runs", taken), taken)
        taken.add(several.name)
        made.extend((run, several))
        return _chosen(found, several, kind)

    body: c.Block = rewrite(rule, function.body, c.Stmt)
    return [*made, replace(function, body=body)]


def _is_near(last: c.Expr | None) -> bool:
    """Whether a loop that ends there is known to be short."""
    match last:
        case c.Call("spfgen_min", (c.Bin("+", _, c.Int(count)), _)):
            return count < FEWEST
    return False


def _asked_once(asked: c.If) -> c.If | None:
    """A question that has been asked around is not asked again."""
    known = _conditions(asked.condition)
    match asked.then:
        case c.Block((*above, c.If(c.Call() as question, c.Block() as yes))) if question in known:
            return replace(asked, then=c.Block((*above, *yes.statements)))
    return None


def _conditions(condition: c.Expr) -> list[c.Expr]:
    match condition:
        case c.Bin("&&", left, right):
            return [*_conditions(left), *_conditions(right)]
    return [condition]


def _element(kind: str) -> str:
    """What a pointer points to."""
    return kind.partition("*")[0].strip() if "*" in kind else ""


def _segments(loop: c.For, over: _Over) -> _Segments | None:
    match loop:
        case c.For(
            type=kind, variable=i, step=1, pragmas=(), condition=c.Bin("<", c.Name(tested)), body=c.Block(lines)
        ):
            pass
        case _:
            return None
    if kind != INT or tested != i or not lines:
        return None
    match lines[-1]:
        case c.Assign(c.Name() as begin, "=", c.Name() as end):
            pass
        case _:
            return None
    ends = [s for s in lines if isinstance(s, c.Declare) and s.name == end.name]
    rest = tuple(s for s in lines[:-1] if s not in ends)
    places = [p for s in outer_loops(rest) if (p := over(s, rest, begin, end))]
    if len(ends) != 1 or len(places) != 1 or not can_move(rest, (begin.name,)):
        return None
    if any(isinstance(n, c.Break) for s in rest for n in walk(s)):
        return None
    read = ends[0].value
    if not isinstance(read, c.Load) or not isinstance(read.array, c.Name) or not _moves_along(read.index, c.Name(i)):
        return None
    found = _Segments(loop, begin, end, read, _positions(rest, begin), rest)
    return found if places[0] in found.positions else None


def _positions(lines: Sequence[c.Stmt], begin: c.Name) -> tuple[c.Name, ...]:
    """Variables that count through a segment: they start at its begin or at another one, and only rise."""
    nodes = [n for s in lines for n in walk(s, c.Stmt)]
    starts: dict[c.Name, list[c.Expr | None]] = {}
    for node in nodes:
        match node:
            case c.Declare(name=name, value=start, length=0) | c.For(variable=name, start=start):
                starts.setdefault(c.Name(name), []).append(start)
    jumps = {n.target for n in nodes if isinstance(n, c.Assign) and not (n.op == "+=" and isinstance(n.value, c.Int))}
    found = {begin}
    while new := {n for n, all_ in starts.items() if n not in found | jumps and all(_starts(v, found) for v in all_)}:
        found |= new
    return tuple(n for n in starts if n in found)


def _starts(value: c.Expr | None, positions: Collection[c.Expr]) -> bool:
    match value:
        case c.Bin("+", further, c.Int()):
            return _starts(further, positions)
    return value in positions


def _rounds(loop: c.For | c.While, around: Sequence[c.Stmt], begin: c.Name, end: c.Name) -> c.Name | None:
    """The position of a loop in rounds through a segment."""
    match loop:
        case c.While(body=c.Block((c.Do(), *_))):  # what is fetched in each round is not short
            return None
        case c.While(body=body) if any(map(_is_long, walk(body, c.Stmt))):  # beside that the ends of rounds are nothing
            return None
        case c.While(c.Bin("<=", c.Bin("+", c.Name(name) as position, c.Int()), last)) if last == end:
            declared = [n for s in around for n in walk(s, c.Stmt) if isinstance(n, c.Declare) and n.name == name]
            return position if [d.value for d in declared] == [begin] else None
    return None


def _is_long(line: c.Stmt) -> bool:
    """Whether it is a loop that does not end at a number."""
    match line:
        case c.For(condition=c.Bin("<", _, c.Int())):
            return False
    return isinstance(line, c.For | c.While)


def _in_turn(loop: c.For | c.While, around: Sequence[c.Stmt], begin: c.Name, end: c.Name) -> c.Name | None:
    """The position of a loop through a segment that takes four in turn."""
    match loop:
        case c.For(start=start, step=4, condition=c.Bin("<", c.Name() as position, last)):
            return position if (start, last) == (begin, end) else None
    return None


def _moves_along(index: c.Expr, variable: c.Name) -> bool:
    """Whether the index is the variable, plus or minus what does not change."""
    while index != variable:
        match index:
            case c.Bin("+" | "-", left, right) if variable not in list(walk(right)):
                index = left
            case _:
                return False
    return True


def _array(found: _Segments) -> str:
    assert isinstance(found.read.array, c.Name)
    return found.read.array.name


def _run(found: _Segments, params: list[c.Param], name: str, taken: set[str]) -> c.Function:
    """The loop while segments have some length, as the first one has: that is asked behind each, which takes compilers
    fewer jumps. Positions are counted from the begin of their segment: then compilers that know the length know when it
    is over."""
    i, begin, count = found.variable, found.begin, c.Name(fresh("count", taken))
    new: dict[c.Expr, c.Expr] = {begin: c.Int(0)}
    for position in found.positions:
        new[position] = c.Name(fresh("k", taken | {n.name for n in new.values() if isinstance(n, c.Name)}))
    last = c.Name(fresh("last", taken))

    def named(name: str) -> str:
        renamed = new.get(c.Name(name))
        return renamed.name if isinstance(renamed, c.Name) else name

    def counted(node: object) -> object | None:
        match node:
            case c.Bin("<" | "<=", left, right) if right == found.end and _starts(left, new):
                return replace(node, left=_for(left, new), right=count)
            case c.Bin("-", left, right) if left == found.end and _starts(right, new):
                return c.Bin("-", count, _for(right, new))
            case c.For(variable=variable, start=start) if c.Name(variable) in new:
                return replace(node, variable=named(variable), start=_for(start, new))
            case c.Declare(name=declared, value=c.Expr() as value) if c.Name(declared) in new:
                return replace(node, name=named(declared), value=_for(value, new))
            case c.Assign(target) if target in new:
                return replace(node, target=new[target])
        return None

    others: dict[c.Name, c.Expr] = {p: c.Bin("+", begin, new[p]) for p in found.positions}
    others[found.end] = c.Bin("+", begin, count)
    lines = [_for(rewrite(counted, s), others) for s in found.rest]
    other = c.Bin("!=", c.Bin("-", found.at(i), begin), count)
    over = c.If(c.Bin("||", c.Bin("==", i, last), other), c.Block((c.Break(),)))
    moved = (c.Assign(begin, "+=", count), c.Assign(i, "+=", c.Int(1)))
    loop = c.While(c.Name("true"), c.Block((*lines, *moved, over)))
    own = (c.Param(INT, n.name) for n in (count, i, last, begin))
    doc = f"Iterations over {i.name} that have a {count.name}, one at least; answers the first that has another."
    body = c.Block((loop, c.Return(i)))
    return c.Function(f"inline {INLINE} {INT}", name, (*own, *params), body, doc, static=True)


N = TypeVar("N", c.Expr, c.Stmt)


def _for(node: N, values: Mapping[Any, c.Expr]) -> N:
    """The same with other expressions for some names."""
    result: N = rewrite(lambda n: values.get(n) if isinstance(n, c.Name) else None, node)
    return result


def _several(found: _Segments, params: list[c.Param], run: c.Function, name: str, taken: set[str]) -> c.Function:
    """The loop, for segments many of which have neighbours of their length; answers where the last one ends."""
    i, begin = found.variable, found.begin
    last, count = c.Name(fresh("last", taken)), c.Name(fresh("count", taken))
    further = c.Int(TOGETHER - 1)
    reaches = minus(found.at(c.Bin("+", i, further)), begin)
    alike = c.Bin("==", reaches, c.Bin("*", c.Int(TOGETHER), count))
    alike = c.Bin("&&", c.Bin("<", c.Bin("+", i, further), last), alike)

    def runs(length: c.Expr) -> c.Block:
        given = (length, i, last, begin, *(c.Name(p.name) for p in params))
        return c.Block((c.Assign(i, "=", c.Call(run.name, given)),))

    # Only runs that are long enough are worth the jump to their loop, which a processor may not foresee.
    known = c.Name(fresh("known", taken))
    cases = ((c.Bin("==", known, c.Int(number)), runs(c.Int(number))) for number in range(1, LONGEST + 1))
    body = c.Block((
        c.Declare(f"const {INT}", count.name, minus(found.at(i), begin)),
        c.Comment(f"where {TOGETHER} have as many, the loop for that number, if there is one"),
        c.Declare(f"const {INT}", known.name, c.Select(alike, count, c.Int(0))),
        first_of(cases, runs(count)),
        c.Assign(begin, "=", found.at(c.Bin("-", i, c.Int(1)))),
    ))  # fmt: skip
    own = (c.Param(INT, n.name) for n in (i, last, begin))
    doc = f"Iterations over {i.name}, many of whose segments are as long as their neighbours; answers where they end."
    lines = (c.While(c.Bin("<", i, last), body), c.Return(begin))
    return c.Function(f"{ALONE} {INT}", name, (*own, *params), c.Block(lines), doc, static=True)


def _chosen(found: _Segments, several: c.Function, kind: str) -> c.Stmt:
    """The function or the loop, as samples say."""
    start = found.loop.start
    place = found.at(start)
    assert isinstance(place, c.Load)
    index = c.Int(0) if place.index == c.Bin("-", start, start) else place.index
    ends = place.array if index == c.Int(0) else c.Bin("+", place.array, index)
    given = (start, found.last, found.begin, *(c.Name(p.name) for p in several.params[3:]))
    call = c.Assign(found.begin, "=", c.Call(several.name, given))
    samples = c.Call(f"spfgen_even_{kind}", (ends, minus(found.last, start)))
    comment = c.Comment("short segments of equal length: loops that are written out for it")
    return c.If(samples, c.Block((comment, call)), c.Block((found.loop,)))

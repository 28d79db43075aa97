"""IR 3 as text: the loop nest in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from spfgen.errors import InternalError
from spfgen.facts.formula import Expr, Formula, show
from spfgen.ir import Kind, walk
from spfgen.lang.nodes import Apply, Constant, Index
from spfgen.lang.ops import SHIFTED, show_applied
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    Append,
    Array,
    Assign,
    Block,
    Bound,
    Break,
    Cheapest,
    Clear,
    Collect,
    Define,
    Do,
    Emptied,
    Entry,
    Find,
    Gather,
    Guard,
    If,
    Let,
    Levels,
    Load,
    Locate,
    Needs,
    Partition,
    Plan,
    Prefetch,
    Probe,
    Reach,
    Refuse,
    Registers,
    RegisterTile,
    Repeat,
    Row,
    Scan,
    Segment,
    Seq,
    State,
    Store,
    Table,
    Transpose,
    UnrollAndJam,
    Variable,
    Versions,
    Workspace,
)
from spfgen.space.nodes import Operand, Read
from spfgen.space.typed import Holds, Scalar

WIDTH = 64
"""Where reasons stand, when the line before them is shorter."""


def show_plan(plan: Plan) -> str:
    """A line for each node, indented as the loops are, with the reason at the end or on the next line."""
    lines: list[tuple[str, str]] = []
    _lines(plan, 0, lines)
    width = max((len(text) for text, why in lines if why and len(text) <= WIDTH), default=0)
    result = []
    for text, why in lines:
        if not why:
            result.append(text)
        elif len(text) <= width:
            result.append(f"{text:<{width}}   because {why}")
        else:
            indent = len(text) - len(text.lstrip()) + 4
            result += [text, f"{' ' * indent}because {why}"]
    return "\n".join(result)


def _lines(plan: Plan, depth: int, lines: list[tuple[str, str]]) -> None:
    pad = "  " * depth

    def add(text: str, why: str = "") -> None:
        lines.append((pad + text, why))

    match plan:
        case Seq(parts):
            for part in parts:
                _lines(part, depth, lines)
        case Clear(tensor, why, part, body):
            add(f"clear {tensor}" if part is None else f"clear a part of {tensor}", why)
            if part is not None and body is not None:
                _lines(part, depth + 1, lines)
                _lines(body, depth, lines)
        case Scan(dim, low, high, body, parallel, why, partition=partition):
            shared = _partition_text(partition) if parallel else ""
            add(f"scan {dim} in {interval(low, high)}{shared}{_marks(plan)}", why)
            for text, why in _versions(plan):
                add(f"  {text}", why)
            if plan.private:
                add(f"  each part has its own {', '.join(f'{p.name} = {show_value(p.value)}' for p in plan.private)}")
            if plan.copies:
                add(f"  each part has a copy of {', '.join(c.target.tensor for c in plan.copies)}")
            if plan.between is not None and plan.between.part is not None:
                first, past = plan.ends_of_part
                add(f"  each part, from {first} to before {past}, clears first", plan.between.because)
                _lines(plan.between.part, depth + 2, lines)
            _lines(body, depth + 1, lines)
            if plan.combined is not None:
                add("for each part")
                _lines(plan.combined, depth + 1, lines)
        case Locate(dim, value, body, why):
            add(f"locate {dim} = {show(value)}", why)
            _lines(body, depth, lines)
        case Load(dim, _, body):
            add(f"load {dim}")
            _lines(body, depth, lines)
        case Guard(conditions, body, why, ends):
            add(f"if {' and '.join(map(show, conditions))}{', else the loop ends' if ends else ''}", why)
            _lines(body, depth + 1, lines)
        case Find(dim, low, high, _, conditions, algorithm, hit, miss, parallel, why, key, partition=partition):
            wanted = [] if key is None else [f"{key.dim} = {show(key.value)}"]
            keys = " and ".join([*wanted, *map(show, conditions)])
            text = f"find {dim} in {interval(low, high)} with {keys} by {algorithm}"
            add(text + (_partition_text(partition) if parallel else ""), why)
            if miss is None:
                _lines(hit, depth + 1, lines)
            else:
                add("hit:")
                _lines(hit, depth + 1, lines)
                add("miss:")
                _lines(miss, depth + 1, lines)
        case Segment(dim, start, end, low, high, call, key, algorithm, body, why):
            which = f"with {show(call)} = {show(key.value)} by {algorithm}"
            add(f"segment [{start}, {end}) of the {dim} in {interval(low, high)} {which}", why)
            _lines(body, depth, lines)
        case Bound(name, dim, low, high, call, value, descending, _, body, why, place):
            past = f"{show(call)} {'<=' if descending else '>='} {show(value)}"
            by = ", by inverse array" if place else ", by galloping" if plan.near else ""
            add(f"let {name} be the first {dim} in {interval(low, high)} with {past}{by}", why)
            _lines(body, depth, lines)
        case Reach(dim, low, high, call, first, last, _, body, why):
            add(f"if {show(call)} for {dim} in {interval(low, high)} reaches into [{show(first)}, {show(last)})", why)
            _lines(body, depth + 1, lines)
        case State(name, low, high, backward, over, extents, body, why):
            kind = f"one for each of {', '.join(map(show, over))}" if over else "one"
            kept = "in an array" if extents else "started anew when it changes" if over else "kept in the loops inside"
            add(f"state {name}: {kind}, {kept}{', running backwards' if backward else ''}", why)
            _lines(body, depth, lines)
        case Table(_, kind, dim, low, high, call, _, _, body, because=why):
            article = "an" if kind[0] in "aeiou" else "a"
            add(f"build {article} {kind} of {dim} in {interval(low, high)} by {show(call)}", why)
            _lines(body, depth, lines)
        case Prefetch(dim, ahead, position=position, start=start, body=body):
            add(f"fetch from {position} = {show(start)} on, for {dim} + {ahead}")
            _lines(body, depth, lines)
        case Versions(versions, why) if plan.by_cost:
            for number, version in enumerate(versions, 1):
                add(f"variant {number} of {len(versions)}", why if number == 1 else "")
                _lines(version.body, depth + 1, lines)
        case Versions(versions):
            for version in versions:
                assert not isinstance(version.when, Cheapest)
                if version is versions[-1]:
                    add("elsewhere")
                else:
                    add(f"where {show_conditions(version.when)}" if version.when else "always", version.because)
                _lines(version.body, depth + 1, lines)
                if not version.when:
                    break
        case Accumulate(target, op, body, Variable(), why) if op:
            add(f"sum into {show_operand(target)} with {op}", why)
            _lines(body, depth + 1, lines)
        case Accumulate(storage=Workspace()):
            inside, targets = _temporaries(plan, Workspace)
            add(f"keep {', '.join(map(show_operand, targets))} for all places")
            _lines(inside, depth, lines)
        case Accumulate(target, op, body, Registers(dim, count), why):
            add(f"sum into {count} neighbours {show_operand(target)} with {op}, {dim} < {count}", why)
            _lines(body, depth + 1, lines)
        case Accumulate(target, op, body, RegisterTile(dim, _, _, low, high, width) as tiles, why):
            text = f"tiles of {width}, {width // 2}, ... {dim} in {interval(low, high)}"
            text += ", a piece of the loop inside at a time" if tiles.in_pieces else ""
            add(f"{text}, sums into {show_operand(target)} with {op}", why)
            _lines(body, depth + 1, lines)
        case Accumulate(target, start=start):
            if start is not None:
                add(f"take off {target.tensor}, which begins as {show_value(start)}")
            inside, targets = _temporaries(plan, Variable | Row)
            add(f"sum into {', '.join(map(show_operand, targets))}")
            parts = inside.parts if isinstance(inside, Seq) else (inside,)
            for part in parts:
                _lines(part, depth + _adds(part, {o.tensor for o in targets}), lines)
        case Levels(dim, low, high, body, inspect, down, why):
            add(f"levels of {dim} in {interval(low, high)}{', downwards' if down else ''}", why)
            add("  inspect each:")
            _lines(inspect, depth + 2, lines)
            add("  run each:")
            _lines(body, depth + 2, lines)
        case Transpose(operand, _, copy, body, why):
            add(f"copy {show_operand(operand)} to {show_operand(copy)}", why)
            _lines(body, depth, lines)
        case UnrollAndJam(start, low, high, count, several, body, why):
            add(f"{count} at once from {start} in {interval(low, high)}", why)
            _lines(several, depth + 1, lines)
            add("what is left")
            _lines(body, depth + 1, lines)
        case Needs(value):
            add(f"after {show(value)}")
        case Gather(tensor, axis, common, _, body, why):
            at = [*map(show, common[:axis]), "...", *map(show, common[axis:])]
            add(f"gather what is appended to {tensor} at ({', '.join(at)})", why)
            _lines(body, depth + 1, lines)
        case Append(tensor, coordinates, value, why, last, axis):
            at = [*map(show, coordinates)]
            if last is not None:
                at[axis] += f" to {show(last)}"
            add(f"append to {tensor} at ({', '.join(at)}) {show_value(value)}", why)
        case Do(target, op, value, why):
            add(f"do {show_operand(target)} {op} {show_value(value)}", why)
        case Block(parts, why):
            if why:
                for line in why.splitlines():
                    add(line)
            for part in parts:
                _lines(part, depth + bool(why), lines)
        case Define(dim, value):
            add(f"let {dim} = {show(value)}")
        case Let(name, kind, value, why):
            add(f"let {name} : {kind} = {show_value(value)}", why)
        case Assign(name, _, value):
            add(f"{name} = {show_value(value)}")
        case Store(target, value, why):
            add(f"store {show_operand(target)} = {show_value(value)}", why)
        case If(condition, then, otherwise, why):
            add(f"if {show_value(condition)}", why)
            _lines(then, depth + 1, lines)
            if otherwise is not None:
                add("else")
                _lines(otherwise, depth + 1, lines)
        case Repeat(body, why):
            add("repeat", why)
            _lines(body, depth + 1, lines)
        case Break():
            add("break")
        case Array(name, kind, extents, fill, why):
            filled = "" if fill is None else f", filled with {fill}"
            add(f"array {name}[{', '.join(map(show, extents))}] : {kind}{filled}", why)
        case Refuse(name):
            add(f"the call fails if {name}")
        case Collect(name, _, extents, body, why):
            add(f"hash table {name} of {len(extents)} coordinates", why)
            _lines(body, depth + 1, lines)
        case Entry(name, _, at, value, old):
            add(f"entry of {name} at ({', '.join(map(show, at))}): {old} becomes {show_value(value)}")
        case Emptied(name):
            add(f"empty {name}")
        case Probe(dim, name, at):
            add(f"let {dim} be the entry of {name} at ({', '.join(map(show, at))})", "it is looked up in a hash table")
        case _:
            raise InternalError(f"no text for {plan!r}")


def _temporaries(plan: Plan, kept: Kind) -> tuple[Plan, list[Operand]]:
    """What is inside of accumulators of one kind that the body reads, and these."""
    targets: list[Operand] = []
    while isinstance(plan, Accumulate) and not plan.op and isinstance(plan.storage, kept):
        targets.append(plan.target)
        plan = plan.body
    return plan, targets


def _adds(plan: Plan, tensors: Collection[str]) -> bool:
    """Whether something is added to one of these tensors."""
    return any(isinstance(n, Do) and n.op == "+=" and n.target.tensor in tensors for n in walk(plan, PLANS))


def _marks(scan: Scan) -> str:
    """What the schedule says of a loop."""
    fused = f", as one with the {scan.collapse - 1} inside" if scan.collapse > 1 else ""
    unrolled = f", unrolled by {scan.unroll}" if scan.unroll else ""
    return f"{fused}{', vectorized' if scan.vector else ''}{unrolled}{', downwards' if scan.down else ''}"


def _versions(scan: Scan) -> Iterator[tuple[str, str]]:
    """How a loop adds, and the versions of it among which a call chooses: the predicate of each, and the reason."""
    if scan.partial:
        yield f"adds {scan.partial}", "one addition need not wait for the other"
    if scan.unroll_when is not None:
        alike = " or neighbours are about as long" if scan.unroll_when.begins is not None else ""
        text = f"unrolled by four if {show(scan.unroll_when.long)}{alike}, else by four with guards"
        yield text, "the branch at the end of short segments of many lengths is not predicted"
    if scan.ahead is not None and scan.ahead.when:
        how_far = f"{scan.ahead.places} places ahead" if scan.ahead.places else "before it is read"
        yield f"prefetched {how_far} if {' and '.join(map(show, scan.ahead.when))}", scan.ahead.because


def _partition_text(partition: Partition | None) -> str:
    """How a parallel loop is shared out and adds."""
    words = [" parallel"]
    if partition is not None and partition.weight is not None:
        words.append(f"partitioned by {' and '.join((partition.weight.pointer, *partition.weight.deeper))}")
    if partition is not None and partition.row:
        words.append(f"a long {partition.row} loop is split")
    match partition:
        case Partition(adds="sum"):
            words.append("a sum for each part")
        case Partition(adds="segments"):
            words.append("parts meet at the places of one key")
        case Partition(adds="copies", atomic=atomic, clears=tensor):
            words.append("adding to copies" + (" or atomically" if atomic else ""))
            words += [f"clearing {tensor} with them"] if tensor else []
    if partition is not None and partition.fixed and (partition.adds or partition.row):
        words.append("in parts that do not depend on the number of threads")
    return ", ".join(words)


def interval(low: tuple[Expr, ...], high: tuple[Expr, ...]) -> str:
    a = show(low[0]) if len(low) == 1 else f"max({', '.join(map(show, low))})"
    b = show(high[0]) if len(high) == 1 else f"min({', '.join(map(show, high))})"
    return f"[{a}, {b})"


def show_operand(operand: Operand) -> str:
    if not operand.place:
        return operand.tensor
    return f"{operand.tensor}.{operand.array}[{', '.join(map(show, operand.place))}]"


def show_value(value: Any, level: int = 0) -> str:
    match value:
        case Constant(number):
            return str(number)
        case Read(operand):
            return show_operand(operand)
        case Scalar(name):
            return name
        case Index(expr):
            return show(expr)
        case Holds(condition):
            return f"({show(condition)})"
        case Apply(name, arguments) if value.function is not None:
            return f"{name}({', '.join(show_value(a) for a in arguments)})"
        case Apply(name, arguments):
            return show_applied(name, value.operator, arguments, show_value, level, SHIFTED)
    raise InternalError(f"no text for {value!r}")


def show_conditions(conditions: tuple[Formula, ...]) -> str:
    return " and ".join(map(show, conditions))

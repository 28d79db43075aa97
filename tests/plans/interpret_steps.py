"""Statements of steps carried out: one case per node, values in numpy's types. See interpret.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from spfgen.errors import DataError
from spfgen.facts.formula import Expr
from spfgen.lang import nodes as lang
from spfgen.lang.fold import applied, called, converted
from spfgen.lang.types import TYPES
from spfgen.lang.typing import kind_of, settled
from spfgen.plan.nodes import (
    STATEMENTS,
    Append,
    Array,
    Assign,
    Block,
    Break,
    Collect,
    Copy,
    Define,
    Finish,
    If,
    Let,
    Plan,
    Probe,
    Refuse,
    Repeat,
    Scan,
    Store,
    UpdateEntry,
)
from spfgen.space.local_tensors import AT, COUNT, HELD, OWN
from spfgen.space.nodes import Monoid, Read
from spfgen.space.typed import Holds, Scalar, Types
from tests.plans.memory import Memory, Number, WrongPlan

if TYPE_CHECKING:
    from tests.plans.interpret import _Interpreter

LAZY = {"logical_and": False, "logical_or": True}
"""Operators that leave the second argument alone where the first one decides: it may have no meaning there."""
NOTHING = 77
"""What memory holds before anything is stored there."""


class Broken(Exception):
    """The innermost loop ends."""


@dataclass(eq=False)
class Box:
    """A scalar variable. `born` as for Memory: how many loops were watched when it was declared."""

    name: str
    type: str
    value: Number
    born: int

    def __int__(self) -> int:
        return int(self.value)


@dataclass(eq=False)
class Entries:
    """A table of entries, in the order in which they came; as a number, how many there are."""

    name: str
    type: str
    rank: int
    born: int
    memory: Memory
    at: dict[tuple[int, ...], int] = field(default_factory=dict)

    def __int__(self) -> int:
        return len(self.at)


Env = Mapping[str, Any]
"""Integers, and boxes of scalars, by their names."""


def statement(run: _Interpreter, plan: Plan, env: Env) -> Env:
    """Carries the statement out; what is known in the rest of the block."""
    match plan:
        case Block(parts):
            inner = env
            for part in parts:
                if isinstance(part, STATEMENTS) and not isinstance(part, Block | Store):
                    inner = statement(run, part, inner)
                else:
                    run.plan(part, inner)
        case Define(dim, value, body):
            inner = named(plan, env, dim, run.number(plan, value, env))
            if body is None:
                return inner
            run.plan(body, inner)
        case Let(name, kind, value):
            return named(plan, env, name, Box(name, kind, as_type(run, plan, value, kind, env), len(run.watches)))
        case Assign(name, kind, value):
            box = env.get(name)
            if not isinstance(box, Box) or box.type != kind:
                raise WrongPlan(plan, f"there is no scalar {name} of type {kind}")
            found = as_type(run, plan, value, kind, env)
            if not is_flag(plan):  # each iteration writes the same
                run.watches.writes(box, (), adds=False)
            box.value = found
        case Store(target, value):
            place = run.place(plan, target, env)
            memory = run.memories.get((target.tensor, target.array))
            if memory is None:
                raise WrongPlan(plan, f"there is no array {target.tensor}.{target.array}")
            memory.at(plan, place)
            found = as_type(run, plan, value, memory.values.dtype.name, env)
            run.watches.writes(memory, place, adds=False)
            memory.values[place] = found
        case If(condition, then, otherwise):
            if as_type(run, plan, condition, "bool", env):
                run.plan(then, env)
            elif otherwise is not None:
                run.plan(otherwise, env)
        case Repeat(body):
            try:
                while True:
                    run.effort.iterations += 1
                    run.plan(body, env)
            except Broken:
                pass
        case Break():
            raise Broken
        case Array(name, kind, extents, fill):
            shape = tuple(run.number(plan, e, env) for e in extents)
            run.kinds[name] = kind
            number = NOTHING if fill is None else fill
            values = np.full(shape, converted(number, TYPES[kind]), kind)
            run.memories[name, OWN] = Memory(f"{name}.{OWN}", values, len(run.watches))
            run.effort.cells += 0 if fill is None else values.size
        case Refuse(name, status):
            if read_scalar(run, plan, name, env):
                if status == "PLACE":
                    raise DataError("expected the results to store all that is computed, but one does not")
                raise DataError("expected the subscripts that are values to lie within their tensors, but one does not")
        case Collect(name, kind, extents, body):
            run.kinds[name] = kind
            memory = run.memories[name, HELD] = Memory(f"{name}.{HELD}", np.empty(0, kind), len(run.watches))
            table = run.collected[name] = Entries(name, kind, len(extents), len(run.watches), memory)
            changed(run, table, memory.values)
            run.plan(body, env)
            return named(plan, env, f"{name}.{COUNT}", table if body == Block(()) else len(table.at))
        case UpdateEntry():
            entry(run, plan, env)
        case Probe(dim, name, at):
            table = table_of(run, plan, name)
            run.watches.reads(table, ())
            run.effort.probes += 1
            return named(plan, env, dim, table.at.get(coordinates(run, plan, at, table, env), -1))
        case _:
            raise WrongPlan(plan, "the interpreter does not know this statement")
    return env


def named(plan: Plan, env: Env, name: str, value: Any) -> Env:
    if name in env:
        raise WrongPlan(plan, f"{name} is defined where it has a value already")
    return {**env, name: value}


def private(run: _Interpreter, plan: Scan, env: Env, born: int) -> Env:
    """What a part of a loop knows, with the scalars that it has for itself."""
    for own in plan.private:
        env = named(plan, env, own.name, Box(own.name, own.type, as_type(run, plan, own.value, own.type, env), born))
    return env


def copies_of(plan: Scan) -> tuple[Copy, ...]:
    """The arrays that parts of a loop have copies of."""
    return () if plan.partition is None else plan.partition.copies


def copied(run: _Interpreter, plan: Scan, born: int) -> list[Memory]:
    """The arrays that a part of a loop has copies of; the part works with these."""
    whole = []
    for copy in copies_of(plan):
        key = copy.target.tensor, copy.target.array
        whole.append(run.memories[key])
        kind = whole[-1].values.dtype
        neutral = 0 if copy.monoid is None else converted(copy.monoid.neutral, TYPES[copy.monoid.type])
        values = np.full(whole[-1].values.shape, neutral, kind)
        run.memories[key] = Memory(f"a copy of {whole[-1].name}", values, born)
    return whole


def finished(run: _Interpreter, plan: Finish, total: Number, env: Env) -> None:
    """What is made of a total."""
    box = Box(plan.name, plan.type, converted(total, TYPES[plan.type])[()], len(run.watches))
    run.plan(plan.body, named(plan, env, plan.name, box))


def together(monoid: Monoid, *numbers: Number) -> Number:
    """Two numbers as one, of the monoid's type."""
    operator, kind = monoid.operator, TYPES[monoid.type]
    given = [converted(n, kind)[()] for n in numbers]
    found = applied(operator.op, given) if operator.function is None else called(operator.function, given)
    return converted(found, kind)[()]


def joined(run: _Interpreter, plan: Scan, whole: list[Memory]) -> None:
    """The copies of a part are combined with the arrays."""
    for copy, memory in zip(copies_of(plan), whole, strict=True):
        key = copy.target.tensor, copy.target.array
        own, run.memories[key] = run.memories[key], memory
        for place in np.ndindex(own.values.shape):
            numbers = memory.values[place], own.values[place]
            memory.values[place] = sum(numbers) if copy.monoid is None else together(copy.monoid, *numbers)


def is_flag(plan: Assign) -> bool:
    """Whether the statement says that something has happened: the order of such statements does not matter."""
    return plan.type == "bool" and plan.value == lang.Constant(True)


def table_of(run: _Interpreter, plan: Plan, name: str) -> Entries:
    if name not in run.collected:
        raise WrongPlan(plan, f"there is no table {name}")
    return run.collected[name]


def emptied(run: _Interpreter, table: Entries) -> None:
    run.watches.writes(table, (), adds=False)
    table.at.clear()
    changed(run, table, table.memory.values[:0])


def coordinates(run: _Interpreter, plan: Plan, at: tuple[Expr, ...], table: Entries, env: Env) -> tuple[int, ...]:
    if len(at) != table.rank:
        raise WrongPlan(plan, f"expected {table.rank} coordinates of an entry of {table.name}")
    return tuple(run.number(plan, e, env) for e in at)


def entry(run: _Interpreter, plan: UpdateEntry, env: Env) -> None:
    table = table_of(run, plan, plan.name)
    at = coordinates(run, plan, plan.at, table, env)
    place = table.at.get(at)
    fill = converted(plan.fill, TYPES[plan.type])[()]
    old = Box(plan.old, plan.type, fill if place is None else table.memory.values[place], len(run.watches))
    run.watches.writes(table, (), adds=False)
    value = as_type(run, plan, plan.value, plan.type, named(plan, env, plan.old, old))
    run.effort.probes += 1
    if place is None:
        table.at[at] = len(table.at)
        changed(run, table, np.append(table.memory.values, value).astype(plan.type))
    else:
        table.memory.values[place] = value


def changed(run: _Interpreter, table: Entries, values: Any) -> None:
    """What the table holds as the arrays of a tensor."""
    run.index[f"{table.name}.{AT}"] = np.array([*table.at], np.int64).reshape(len(table.at), table.rank)
    table.memory.values = values


def append(run: _Interpreter, plan: Append, env: Env) -> None:
    """One more entry of a result."""
    tensor = run.program.tensor(plan.tensor)
    value = as_type(run, plan, plan.value, tensor.entry_type, env)
    first = tuple(run.number(plan, e, env) for e in plan.coordinates)
    shape = [run.sizes.get(e, run.program.sizes.fixed.get(e)) for e in tensor.extents]
    last = None if plan.last is None else run.number(plan, plan.last, env)
    for at in [first] if last is None else between(first, plan.axis, last):
        if not all(n is None or 0 <= p < n for p, n in zip(at, shape, strict=True)):
            raise WrongPlan(plan, f"{plan.tensor}{[*at]} lies outside of its tensor of {shape}")
        run.appended[plan.tensor].append((at, value))


def between(first: tuple[int, ...], axis: int, last: int) -> list[tuple[int, ...]]:
    """The coordinates of an interval."""
    return [(*first[:axis], p, *first[axis + 1 :]) for p in range(first[axis], last + 1)]


# --- values ------------------------------------------------------------------------------------------


def as_type(run: _Interpreter, plan: Plan, value: Any, kind: str, env: Env) -> Number:
    """The value converted to a type."""
    return converted(number_of(run, plan, value, env), TYPES[kind])[()]


def read_scalar(run: _Interpreter, plan: Plan, name: str, env: Env) -> Number:
    box = env.get(name)
    if not isinstance(box, Box):
        raise WrongPlan(plan, f"there is no scalar {name}")
    run.watches.reads(box, ())
    return box.value


def number_of(run: _Interpreter, plan: Plan, value: Any, env: Env) -> Any:
    """A value as a number of its own type; of Python's where it is made of literals alone."""
    match value:
        case lang.Constant(number):
            return number
        case lang.Index(expr):
            return np.int64(run.number(plan, expr, env))
        case Scalar(name, kind):
            found = read_scalar(run, plan, name, env)
            if env[name].type != kind:
                raise WrongPlan(plan, f"{name} is of type {env[name].type}, but read as {kind}")
            return found
        case Holds(condition):
            return np.bool_(run.holds(plan, condition, env))
        case Read(operand):
            return run.read(plan, operand, env)
        case lang.Apply("where", (condition, then, otherwise)) if value.function is None:
            taken = then if as_type(run, plan, condition, "bool", env) else otherwise
            return as_type(run, plan, taken, type_of(run, value), env)
        case lang.Apply(op, (first, second)) if op in LAZY and value.function is None:
            decided = bool(as_type(run, plan, first, "bool", env)) is LAZY[op]
            return np.bool_(LAZY[op] if decided else as_type(run, plan, second, "bool", env))
        case lang.Apply(op, arguments):
            numbers = [number_of(run, plan, a, env) for a in arguments]
            return applied(op, numbers) if value.function is None else called(value.function, numbers)
    raise WrongPlan(plan, f"there is no value for {value!r}")


def type_of(run: _Interpreter, value: Any) -> str:
    return settled(kind_of(value, Types(run.kinds, {}).leaf)).name

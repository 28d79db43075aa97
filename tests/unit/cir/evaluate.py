"""The meaning of C expressions, written down a second time, in Python; and random expressions that have one.

Values are typed as in C on a machine with a 32-bit int. What is undefined in C raises
`UndefinedError`, also in a branch that C would not take, so that a tree that evaluates is harmless in every
part.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from spfgen.cir.tree.nodes import Bin, Call, Cast, Expr, Field, Float, Int, Load, Name, Select, Un

RANKS = {"int": 0, "int64_t": 1, "double": 2}
BITS = {"int": 32, "int64_t": 64}
COMPARISONS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


class UndefinedError(Exception):
    """C gives this expression no value."""


@dataclass(frozen=True)
class Value:
    """A number and its type in C: int, int64_t or double."""

    type: str
    number: int | float


@dataclass(frozen=True)
class Machine:
    """What the names mean. `wide` takes int for as large as int64_t, as the simplifier does."""

    variables: dict[str, int | float]
    wide: bool = False

    def integer(self, number: int, kind: str = "int") -> Value:
        kind = "int64_t" if self.wide else kind
        bits = BITS[kind]
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise UndefinedError
        return Value(kind, number)


TABLE = (7, -3, 12, 0, -9)
"""What `table` holds; `pointer` points to its entry 1; `record->first` and `->second` are entries 3 and 4."""


def evaluate(e: Expr, machine: Machine) -> Value:
    """The value of `e`; UndefinedError if C has none."""
    match e:
        case Int(number):
            return machine.integer(number, "int" if -(2**31) < number < 2**31 else "int64_t")
        case Float(number, single):
            return Value("double", float(np.float32(number)) if single else number)
        case Name(name):
            number = machine.variables[name]
            return Value("double" if isinstance(number, float) else "int64_t", number)
        case Load(Name("table"), index):
            return _entry(0, evaluate(index, machine))
        case Load(Bin("+", Name("table"), Int(start)), index):
            return _entry(start, evaluate(index, machine))
        case Field(Name("record"), name):
            return Value("int64_t", TABLE[{"first": 3, "second": 4}[name]])
        case Un("*", Name("pointer")):
            return Value("int64_t", TABLE[1])
        case Un("*", Un("&", inner)):
            return evaluate(inner, machine)
        case Un(op, operand):
            return _unary(op, evaluate(operand, machine), machine)
        case Call("twice", (argument,)):
            return machine.integer(2 * whole(evaluate(argument, machine)), "int64_t")
        case Cast(kind, operand):
            return _cast(kind, evaluate(operand, machine), machine)
        case Select(condition, yes, no):
            taken = evaluate(condition, machine)
            one, other = evaluate(yes, machine), evaluate(no, machine)
            return _convert(one if taken.number else other, _common(one, other))
        case Bin(op, left, right):
            return _binary(op, evaluate(left, machine), evaluate(right, machine), machine)
        case _:
            raise AssertionError(f"no meaning for {e}")


def whole(value: Value) -> int:
    """The number as an integer of Python."""
    assert isinstance(value.number, int)
    return value.number


def _entry(start: int, index: Value) -> Value:
    place = start + whole(index)
    if not 0 <= place < len(TABLE):
        raise UndefinedError
    return Value("int64_t", TABLE[place])


def _common(one: Value, other: Value) -> str:
    return max(one.type, other.type, key=RANKS.__getitem__)


def _convert(value: Value, kind: str) -> Value:
    return Value(kind, float(value.number)) if kind == "double" else Value(kind, value.number)


def _unary(op: str, value: Value, machine: Machine) -> Value:
    if op == "!":
        return machine.integer(int(not value.number))
    if value.type == "double":
        assert op == "-"
        return Value("double", -value.number)
    return machine.integer({"-": int.__neg__, "~": int.__invert__}[op](whole(value)), value.type)


def _cast(kind: str, value: Value, machine: Machine) -> Value:
    if kind == "double":
        return _convert(value, "double")
    if kind == "float":  # the callers cast it back to double at once
        with np.errstate(all="ignore"):
            return Value("double", float(np.float32(value.number)))
    if not math.isfinite(value.number):
        raise UndefinedError
    return machine.integer(int(value.number), kind)


def _binary(op: str, left: Value, right: Value, machine: Machine) -> Value:
    if op == "&&":
        return machine.integer(int(bool(left.number) and bool(right.number)))
    if op == "||":
        return machine.integer(int(bool(left.number) or bool(right.number)))
    if op in ("<<", ">>"):
        return _shift(op, whole(left), whole(right), left.type, machine)
    kind = _common(left, right)
    left, right = _convert(left, kind), _convert(right, kind)
    if op in COMPARISONS:
        return machine.integer(int(COMPARISONS[op](left.number, right.number)))
    if kind == "double":
        return _double(op, left.number, right.number)
    return machine.integer(_integer(op, whole(left), whole(right), kind), kind)


def _shift(op: str, a: int, count: int, kind: str, machine: Machine) -> Value:
    if not 0 <= count < BITS[kind] or a < 0:
        raise UndefinedError
    return machine.integer(a << count if op == "<<" else a >> count, kind)


def _integer(op: str, a: int, b: int, kind: str) -> int:
    if op in ("/", "%"):
        if b == 0 or (b == -1 and a == -(2 ** (BITS[kind] - 1))):
            raise UndefinedError
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if op == "/" else a - b * quotient
    return {
        "+": int.__add__,
        "-": int.__sub__,
        "*": int.__mul__,
        "&": int.__and__,
        "|": int.__or__,
        "^": int.__xor__,
    }[op](a, b)


def _double(op: str, a: float, b: float) -> Value:
    operate = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op]
    with np.errstate(all="ignore"):
        return Value("double", float(operate(np.float64(a), np.float64(b))))


# --- random expressions --------------------------------------------------------------------------

INTEGER_OPERATORS = ("<<", ">>", "&&", "||", *COMPARISONS, *"&|^", *"+-*/%", *"+-*/%")
CONSTANTS = (0, 0, 1, 1, 1, -1, -1, 2, -2, 3, 5, -7, 31, 63, 2**31 - 1, -(2**31), 2**31, 2**40, -(2**40))
EXTREMES = (-(2**63), 2**63 - 1)


@dataclass
class Trees:
    """Makes random expressions that have a value."""

    random: random.Random
    machine: Machine
    constants: float = 0.3
    """How many of the leaves are constants."""
    operators: tuple[str, ...] = INTEGER_OPERATORS

    def integer(self, depth: int) -> Expr:
        return self._defined(lambda: self._integer(depth), lambda: Name(self._names(int)[0]))

    def double(self, depth: int) -> Expr:
        return self._defined(lambda: self._double(depth), lambda: Float(1.5))

    def _defined(self, make: Callable[[], Expr], otherwise: Callable[[], Expr]) -> Expr:
        for _ in range(20):
            e = make()
            try:
                evaluate(e, self.machine)
            except UndefinedError:
                continue
            return e
        return otherwise()

    def _below(self, depth: int) -> int:
        """Mostly one less, so that the trees are deep on both sides."""
        return depth - 1 if self.random.random() < 0.6 else self.random.randrange(depth)

    def _names(self, kind: type) -> list[str]:
        return [name for name, value in self.machine.variables.items() if isinstance(value, kind)]

    def _integer_leaf(self) -> Expr:
        r = self.random
        if r.random() < self.constants:
            return Int(r.choice(EXTREMES if r.random() < 0.05 else CONSTANTS))
        leaves: Iterable[Expr] = (
            Name(r.choice(self._names(int))),
            Name(r.choice(self._names(int))),
            Name(r.choice(self._names(int))),
            Load(Name("table"), Int(r.randrange(len(TABLE)))),
            Load(Bin("+", Name("table"), Int(1)), Int(r.randrange(len(TABLE) - 1))),
            Field(Name("record"), r.choice(("first", "second"))),
            Un("*", Name("pointer")),
            Un("*", Un("&", Name(r.choice(self._names(int))))),
        )
        return r.choice(tuple(leaves))

    def _integer(self, depth: int) -> Expr:
        r = self.random
        if depth == 0 or r.random() < 0.1:
            return self._integer_leaf()
        child = lambda: self.integer(self._below(depth))  # noqa: E731
        chance = r.random()
        if chance < 0.15:
            return Un(r.choice("--!~"), child())
        if chance < 0.22:
            return Select(child(), child(), child())
        if chance < 0.26:
            return Cast(r.choice(("int64_t", "int64_t", "int")), child())
        if chance < 0.29:
            return Call("twice", (child(),))
        return Bin(r.choice(self.operators), child(), child())

    def _double(self, depth: int) -> Expr:
        r = self.random
        if depth == 0 or r.random() < 0.1:
            return self._double_leaf()
        child = lambda: self.double(self._below(depth))  # noqa: E731
        chance = r.random()
        if chance < 0.15:
            return Un("-", child())
        if chance < 0.25:
            return Select(self._condition(depth), child(), child())
        if chance < 0.3:
            return Cast("double", self._condition(depth))
        if chance < 0.35:
            return Cast("double", Cast("int64_t", child()))
        if chance < 0.4:
            return Cast("double", Cast("float", child()))
        return Bin(r.choice("+-*/"), child(), child())

    def _condition(self, depth: int) -> Expr:
        r = self.random
        if depth > 1 and r.random() < 0.4:
            inner = self._condition(depth - 1), self._condition(depth - 1)
            return r.choice((Un("!", inner[0]), Bin("&&", *inner), Bin("||", *inner)))
        return Bin(r.choice(tuple(COMPARISONS)), self.double(depth - 1), self.double(depth - 1))

    def _double_leaf(self) -> Expr:
        r = self.random
        chance = r.random()
        if chance < 0.6:
            return Name(r.choice(self._names(float)))
        if chance < 0.7:
            return Cast("double", Float(r.choice((0.1, -2.5, 1e10, 3.0)), single=True))
        if chance < 0.75:
            return Float(r.choice((math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.7976931348623157e308)))
        large = r.uniform(-1, 1) * 10.0 ** r.randrange(30)
        return Float(r.choice((r.uniform(-3, 3), float(r.randrange(-9, 9)), large)))

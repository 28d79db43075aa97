"""The operators of values: one table, from which everything that is known of them is read.

A row says how an operator is written, what it is in C and in numpy (its name there), of which type its result is, and
its algebra. The rest of the compiler asks the table; it knows no operator by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PROMOTED, QUOTIENT = "promoted", "quotient"
"""The type of a result: the promotion of the arguments' types; the same, but floating where they are whole numbers."""


@dataclass(frozen=True, slots=True)
class Operator:
    """`name` is numpy's. `symbol` stands before one argument or between two, and binds as `precedence` says (higher
    binds more). `c` is the same in C, `c_bool` that for booleans ("": there is none).

    `identity` leaves the other argument as it is, in both places unless the operator does not commute: then in the
    second. `annihilators` are (place, value): that value of that argument is the result whatever the others are.
    `distributes` are the places in which it distributes over addition. `inverse` undoes it: `a - b` is `a + (-b)`.
    """

    name: str
    arity: int
    symbol: str
    precedence: int
    c: str
    c_bool: str
    result: str = PROMOTED
    identity: int | None = None
    annihilators: tuple[tuple[int, int], ...] = ()
    distributes: tuple[int, ...] = ()
    commutative: bool = False
    associative: bool = False
    idempotent: bool = False
    inverse: str = ""


_ALL = (
    Operator("add", 2, "+", 1, "+", "||", identity=0, commutative=True, associative=True, inverse="subtract"),
    Operator("subtract", 2, "-", 1, "-", "", identity=0, inverse="add"),
    Operator(
        *("multiply", 2, "*", 2, "*", "&&"),
        identity=1,
        annihilators=((0, 0), (1, 0)),
        distributes=(0, 1),
        commutative=True,
        associative=True,
    ),
    Operator("divide", 2, "/", 2, "/", "", QUOTIENT, identity=1, annihilators=((0, 0),), distributes=(0,)),
    Operator("negative", 1, "-", 3, "-", "", annihilators=((0, 0),), distributes=(0,)),
)
OPERATORS: Mapping[str, Operator] = {o.name: o for o in _ALL}
SYMBOLS: Mapping[tuple[str, int], str] = {(o.symbol, o.arity): o.name for o in _ALL}
"""The names of operators by what is written and the number of arguments."""

"""How operators are written where the table (lang/ops.py) does not say it: updates, reductions whose result is a place.

Nodes call an operator by numpy's name; here is what stands for it in a text, for reading and for showing.
"""

from __future__ import annotations

from collections.abc import Mapping

from spfgen.lang.ops import COMPARED, OPERATORS

BINARY: Mapping[str, tuple[str, int]] = {
    o.name: (o.symbol, o.precedence) for o in OPERATORS.values() if o.symbol and o.arity == 2
}
"""The sign between two arguments and how it binds: more than those with a smaller number. As in Python."""
UNARY: Mapping[str, tuple[str, int]] = {
    o.name: (o.symbol + " " * o.symbol.isalpha(), o.precedence)
    for o in OPERATORS.values()
    if o.symbol and o.arity == 1 and o.name != "positive"
}
"""The sign before one argument; `+` is read over."""
NAMES: Mapping[str, str] = {**{sign: name for name, (sign, _) in BINARY.items()}, "mod": "remainder"}
"""The operator of a sign between two arguments."""
SIGNS: Mapping[str, str] = {sign.strip(): name for name, (sign, _) in UNARY.items()}
"""The operator of a sign before one argument."""
FOLDED = ("max", "min")
"""Functions of two arguments that may have more."""
PLACES: Mapping[str, str] = {"argmin": "less", "argmax": "greater"}
"""Reductions whose result is a place, by the operator that says which of two values is the better one."""
MEAN = "mean"
UPDATES: Mapping[str, str] = {
    "or": "logical_or",
    "and": "logical_and",
    "min": "minimum",
    "max": "maximum",
    **{sign: name for name, (sign, binds) in BINARY.items() if binds > COMPARED},
}
"""The operator of an update, by what stands before its `=`."""

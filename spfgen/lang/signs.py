"""How operators are written: signs and their precedence, names of functions, of reductions and of updates.

Nodes call an operator by numpy's name (lang/ops.py); here is what stands for it in a text, for reading and showing.
"""

from __future__ import annotations

from collections.abc import Mapping

BINARY: Mapping[str, tuple[str, int]] = {
    "logical_or": ("or", 1),
    "logical_and": ("and", 2),
    "equal": ("==", 4),
    "not_equal": ("!=", 4),
    "less": ("<", 4),
    "less_equal": ("<=", 4),
    "greater": (">", 4),
    "greater_equal": (">=", 4),
    "bitwise_or": ("|", 5),
    "bitwise_xor": ("^", 6),
    "bitwise_and": ("&", 7),
    "left_shift": ("<<", 8),
    "right_shift": (">>", 8),
    "add": ("+", 9),
    "subtract": ("-", 9),
    "multiply": ("*", 10),
    "divide": ("/", 10),
    "floor_divide": ("//", 10),
    "remainder": ("%", 10),
    "power": ("**", 12),
}
"""The sign between two arguments and how it binds: more than those with a smaller number. As in Python."""
UNARY: Mapping[str, tuple[str, int]] = {"logical_not": ("not ", 3), "negative": ("-", 11), "invert": ("~", 11)}
COMPARISONS, POWER, ATOM = 4, 12, 13

NAMES: Mapping[str, str] = {
    **{sign: name for name, (sign, _) in BINARY.items()},
    "mod": "remainder",
}
"""The operator of a sign between two arguments."""
SIGNS: Mapping[str, str] = {sign.strip(): name for name, (sign, _) in UNARY.items()}
"""The operator of a sign before one argument."""

ALIASES: Mapping[str, str] = {
    "max": "maximum",
    "min": "minimum",
    "abs": "absolute",
    "pow": "power",
    "mod": "remainder",
    "round": "rint",
    "acos": "arccos",
    "asin": "arcsin",
    "atan": "arctan",
    "atan2": "arctan2",
    "acosh": "arccosh",
    "asinh": "arcsinh",
    "atanh": "arctanh",
    "conj": "conjugate",
    "true_divide": "divide",
    "bitwise_not": "invert",
    "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "xor": "bitwise_xor",
    "neg": "negative",
}
"""Names of Python, of the array API and of C for operators that numpy calls otherwise."""
FOLDED = ("max", "min")
"""Functions of two arguments that may have more."""

REDUCTIONS: Mapping[str, str] = {
    "sum": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}
"""Names of reductions by operators."""
PLACES = ("argmin", "argmax")
"""Reductions whose result is a place."""
MEAN = "mean"

UPDATES: Mapping[str, str] = {
    "or": "logical_or",
    "and": "logical_and",
    "min": "minimum",
    "max": "maximum",
    **{sign: name for name, (sign, p) in BINARY.items() if p > COMPARISONS},
}
"""The operator of an update, by what stands before its `=`."""

"""Words with a fixed meaning: element types (what they are in C and numpy), algorithms of finds, words of C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ElementType:
    """`name` is numpy's; `kind` is one of b(ool) i(nteger) u(nsigned) f(loat) c(omplex)."""

    name: str
    c: str
    kind: str
    bytes: int


_ALL = (
    ElementType("bool", "bool", "b", 1),
    ElementType("int8", "int8_t", "i", 1),
    ElementType("int16", "int16_t", "i", 2),
    ElementType("int32", "int32_t", "i", 4),
    ElementType("int64", "int64_t", "i", 8),
    ElementType("uint8", "uint8_t", "u", 1),
    ElementType("uint16", "uint16_t", "u", 2),
    ElementType("uint32", "uint32_t", "u", 4),
    ElementType("uint64", "uint64_t", "u", 8),
    ElementType("float32", "float", "f", 4),
    ElementType("float64", "double", "f", 8),
    ElementType("complex64", "float complex", "c", 8),
    ElementType("complex128", "double complex", "c", 16),
)
TYPES = {t.name: t for t in _ALL}
ALIASES = {"float": "float32", "double": "float64", "int": "int32", "complex": "complex128"}
INDEX_TYPES = ("int32", "int64")
DEFAULT_VALUE = "float64"
DEFAULT_WHOLE = "int64"
DEFAULT_INDEX = "int32"

FINDS: Mapping[str, str] = {
    "loop": "Every position is compared.",
    "search": "Binary search among sorted keys.",
    "gallop": "From the last position found in growing steps; for sorted keys asked for in order.",
    "sequential": "From the last position found one by one; for sorted keys asked for in order.",
    "hash": "A hash map from keys to positions, built before the loops that look in it.",
    "array": "An array with the position of every possible key, built before the loops that look in it.",
    "bitmap": "A bit for every possible key, built before the loops that look in it.",
    "scatter": "The values copied to an array over all possible keys, where a key without a position has 0.",
}
"""The algorithms by which a schedule may have positions found, each in a sentence."""

KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    _Bool _Complex _Imaginary bool complex true false I NULL main threads memset
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t asm typeof linux unix""".split()
)
"""Words that mean something in the generated C: no name of ours may be one of them."""


def element_type(name: str) -> ElementType | None:
    """The type of that name (`double` is float64, `float` is float32, as in C), or None."""
    return TYPES.get(ALIASES.get(name, name))


def promoted(names: list[str]) -> ElementType:
    """The type in which values of these types are combined: numpy's promotion."""
    if not names:
        return TYPES[DEFAULT_VALUE]
    if len(set(names)) == 1:
        return TYPES[names[0]]
    import numpy as np

    return TYPES[np.result_type(*names).name]

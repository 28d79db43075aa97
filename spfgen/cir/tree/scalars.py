"""The functions of the files rt/of_*.h, one by one and for the types that are called.

A file has the definitions of one kind of numbers (whole ones have some in common), with blank lines between them. In it
TYPE is numpy's name of a type, VALUE that of C, REAL that of a part of a complex number, and UNSIGNED that of an
integer without its sign; functions of math.h are written as those of double.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files

from spfgen.lang.types import LIBRARY, TYPES, ElementType

_WHOLE = "of_whole_numbers.h"
_FILES = {
    "b": (_WHOLE, "of_naturals.h"),
    "i": (_WHOLE, "of_integers.h"),
    "u": (_WHOLE, "of_naturals.h"),
    "f": ("of_floats.h",),
    "c": ("of_complex.h",),
}
_NAME = re.compile(r"\bspfgen_\w+(?=\()")


def scalar_functions(called: Collection[str]) -> list[str]:
    """The texts of all functions of scalars among the called ones, with what they call themselves, in the order in
    which C wants them."""
    needed: dict[str, None] = {}
    for name in called:
        _add(name, needed)
    texts = {name: _texts(TYPES[t])[name] for name in needed if (t := _type(name))}
    places = {name: k for t in TYPES for k, name in enumerate(_texts(TYPES[t]))}
    return [texts[n] for n in sorted(texts, key=lambda n: (list(TYPES).index(_type(n)), places[n]))]


def headers(called: Collection[str], texts: Collection[str] = ()) -> tuple[str, ...]:
    """The headers of the C library that the called functions, and the functions with these texts, need."""
    words = {*called, *(w for t in texts for w in re.findall(r"\b[a-z]\w*(?=\()|\b[A-Z]+\b", t))}
    names = ["<complex.h>"] if any(w in _COMPLEX for w in words) or any("complex" in t for t in texts) else []
    return (*names, "<math.h>") if any(w in LIBRARY or w in _MACROS for w in words) else tuple(names)


_COMPLEX = frozenset(
    n for n in LIBRARY if re.fullmatch(r"c(a?(sin|cos|tan)h?|exp|log|pow|sqrt|abs|arg|imag|real)[fl]?", n)
)
_COMPLEX |= {"conj", "conjf"}
_MACROS = frozenset(("isnan", "isinf", "isfinite", "signbit", "NAN", "INFINITY"))


def _type(function: str) -> str:
    """The type at the end of the name of one of these functions, or ""."""
    return next((t for t in TYPES if function.endswith(f"_{t}") and function in _texts(TYPES[t])), "")


def _add(function: str, needed: dict[str, None]) -> None:
    kind = _type(function)
    if kind and function not in needed:
        needed[function] = None
        for other in _NAME.findall(_texts(TYPES[kind])[function]):
            _add(other, needed)


@cache
def _texts(kind: ElementType) -> Mapping[str, str]:
    """The functions for a type by their names."""
    folder = files("spfgen.rt")
    text = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in _FILES[kind.kind])
    real = f"float{4 * kind.bytes}" if kind.kind == "c" else kind.name
    words = {"TYPE": kind.name, "VALUE": kind.c, "REAL": TYPES[real].c}
    words["UNSIGNED"] = f"u{kind.c}" if kind.kind == "i" else kind.c
    text = re.sub(r"(?<=_)TYPE\b|\b(?:VALUE|REAL|UNSIGNED)\b", lambda m: words[m[0]], text)
    if real == "float32":
        text = re.sub(r"\b[a-z]\w*(?=\()", lambda m: f"{m[0]}f" if m[0] in LIBRARY else m[0], text)
    pieces = re.split(r"\n\n(?=/\*|static)", text.rstrip())
    texts = {}
    for piece in pieces:
        name = re.search(r"^static inline [\w ]+?(spfgen_\w+)\(", piece, re.MULTILINE)
        assert name is not None
        texts[name[1]] = piece
    return texts

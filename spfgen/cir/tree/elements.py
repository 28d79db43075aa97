"""Numbers of the element types in C."""

from __future__ import annotations

from spfgen.cir.tree import nodes as c
from spfgen.lang.types import ElementType


def zero(kind: ElementType) -> c.Expr:
    return constant(0, kind)


def constant(number: int | float, kind: ElementType) -> c.Expr:
    if kind.kind in "fc":
        return c.Float(float(number), single=kind.name in ("float32", "complex64"))
    if kind.kind == "b":
        return c.Name("true" if number else "false")
    return c.Int(int(number))


def converted(value: c.Expr, source: ElementType, wanted: ElementType) -> c.Expr:
    if source == wanted:
        return value
    if wanted.kind == "b":
        return c.Bin("!=", value, zero(source))
    return c.Cast(wanted.c, value)

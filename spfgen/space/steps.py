"""Statements of IR 2 in normal form: a tree of steps, with the loops over indices still implied.

    Step     ::= Equation | For | If | Let | Set | While | Break          (lang/nodes.py has all but the first)
    Value    ::= Constant | Index | Local | Access | Apply | Reduce | Chosen | Linked | Gathered

The names of indices are unique in a kernel. Sums are explicit; shape operators and slices have become affine
subscripts, `Chosen` (concat, coalesce) and `Linked` (collapse, split). What a reduction is of may be `Counted`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from spfgen.errors import Span
from spfgen.facts.formula import Expr, Formula
from spfgen.lang import nodes as lang


def _span() -> Any:
    return field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Link:
    """whole = (...(parts[0]*extents[1] + parts[1])*extents[2] + ...), each part within its extent: each side decides
    the other, whatever the extents are. The value inside speaks of the parts, which nothing else does; where it
    `splits`, of the whole."""

    whole: str
    parts: tuple[str, ...]
    extents: tuple[Expr, ...]
    splits: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.whole, *self.parts)

    @property
    def inner(self) -> tuple[str, ...]:
        """The names that it binds in the value inside."""
        return (self.whole,) if self.splits else self.parts


@dataclass(frozen=True, slots=True)
class Tie:
    """name = start + step*index: each side decides the other."""

    name: str
    index: str
    start: Expr
    step: int

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, self.index)

    @property
    def inner(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True, slots=True)
class Linked:
    """A value some of whose indices are decided, through the link, by others."""

    link: Link | Tie
    value: Any
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Chosen:
    """`then` where the condition on indices holds, else `otherwise`."""

    condition: Formula
    then: Any
    otherwise: Any
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Counted:
    """What a reduction is of where the truth value `asked` is true; all other points are left out."""

    asked: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Gathered:
    """The value with `name` standing for the integer that `at` is. Where it is `checked` it lies within the tensors, or
    the call fails; else the value looks at it itself."""

    name: str
    at: Any
    value: Any
    span: Span | None = _span()
    checked: bool = True


@dataclass(frozen=True, slots=True)
class GatherLink:
    """Where a region is led by a value: the index `name` of a tensor's accesses is the integer that `at` is. `checked`
    as of what is gathered."""

    name: str
    at: Any
    access: lang.Access
    checked: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True, slots=True)
class Place:
    """The index `name` is the integer that a value is."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Equation:
    """`target op value` at every point of the `indices`, which no step around binds, where the condition holds.
    `subscripts` are those of the target; one that is a value has a name in `at`. `updates`: the operator that combines
    the old value and the new one; None where it is stored. `within`: only where the target stores something. `selects`:
    what is not reached of the target stays as it is. `rest`: what it becomes else, once planning knows that."""

    target: str
    subscripts: tuple[Expr, ...]
    indices: tuple[str, ...]
    value: Any
    updates: lang.Apply | None = None
    at: tuple[Place, ...] = ()
    where: Formula | None = None
    within: bool = False
    selects: bool = False
    text: str = ""
    span: Span | None = _span()
    rest: Any = None

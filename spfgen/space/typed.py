"""The types of values in steps, and what the table of operators knows of them for these types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.fold import applied, called
from spfgen.lang.ops import Operator
from spfgen.lang.properties import is_identity_before
from spfgen.lang.signs import PLACES
from spfgen.lang.types import TYPES, ElementType
from spfgen.lang.typing import Kind, fitting, joined, kind_of, loop, reduction_type, settled
from spfgen.space.nodes import Read
from spfgen.space.steps import Chosen, Counted, Gathered, Linked


@dataclass(frozen=True, slots=True)
class Scalar:
    """A variable of the kernel, of an element type by name."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Holds:
    """A condition on indices as a value."""

    condition: Any


@dataclass(frozen=True)
class Types:
    """`tensors` are the types of their values, `scalars` those of what `let` introduces."""

    tensors: Mapping[str, str]
    scalars: Mapping[str, Kind]

    def leaf(self, value: Any) -> Kind:
        match value:
            case lang.Access(tensor):
                return TYPES[self.tensors[tensor]]
            case Read(operand):
                return TYPES[self.tensors[operand.tensor]]
            case Scalar(_, kind):
                return TYPES[kind]
            case Holds():
                return TYPES["bool"]
            case lang.Local(name):
                return self.scalars[name]
            case Chosen(_, then, otherwise):
                return joined([self.kind(then), self.kind(otherwise)])
            case Linked(_, inner) | Gathered(_, _, inner) | Counted(_, inner):
                return self.kind(inner)
        raise TypeError(f"no type of {value!r}")

    def kind(self, value: Any) -> Kind:
        return kind_of(value, self.leaf)

    def of(self, value: Any) -> ElementType:
        return settled(self.kind(value))

    def arguments(self, value: lang.Apply) -> tuple[ElementType, ...]:
        """What the operator computes with."""
        kinds = [self.kind(a) for a in value.arguments]
        if value.function is not None:
            return tuple(settled(k) for k in kinds)
        return loop(value.op, fitting(value.op, value.arguments, kinds), value.span).arguments

    def known(self, value: lang.Apply, exact: bool = False) -> tuple[tuple[int, Any, Any], ...]:
        """(place, number, result): that argument decides, whatever the others are; `exact`: not by convention."""
        operator = value.operator
        if not operator.known and not operator.annihilators and not operator.unstored:
            return ()
        kind = self.arguments(value)
        # 0 is nothing only where it is not stored: 0*x that someone writes is nan for an infinite x
        literal = {k for k, a in enumerate(value.arguments) if exact or is_literal(a)}
        absent = [k for k in operator.known_of(kind, stored=False) if k[0] not in literal]
        return (*absent, *(k for k in operator.known_of(kind) if k[0] in literal))

    def conventions(self, value: lang.Apply) -> set[int]:
        """The arguments that decide only where they are not stored: 0*x is nan for a stored 0 and an infinite x."""
        operator = value.operator
        if not operator.sparse and not operator.unstored:
            return set()
        kind = self.arguments(value)
        always = operator.known_of(kind)
        return {k[0] for k in operator.known_of(kind, stored=False) if k not in always}

    def identity(self, value: lang.Reduce) -> Any:
        """What leaves every other value of the reduction as it is, before it and behind it; None where there is
        nothing."""
        if value.op in PLACES:
            return None
        kind, operator = self.reduced(value), operator_of(value)
        if value.function is not None and operator.identity is not None and not operator.commutative:
            return operator.identity_of(kind) if is_identity_before(value.function, kind.kind) else None
        return operator.neutral_of(kind)

    def is_orderless(self, value: lang.Reduce) -> bool:
        """Whether a reduction combines its values in any order."""
        return value.op not in PLACES and operator_of(value).is_orderless(self.reduced(value))

    def reduced(self, value: lang.Reduce) -> ElementType:
        """The type of what is accumulated."""
        return reduction_type(value, self.of(value.value))

    def fold(self, value: lang.Apply, numbers: Sequence[Any]) -> Any:
        """The value of an operator of numbers, as numpy computes it in the types of the arguments."""
        import numpy as np

        typed = [np.dtype(k.name).type(n) for k, n in zip(self.arguments(value), numbers, strict=True)]
        if value.function is not None:
            return np.asarray(called(value.function, typed)).item()
        return np.asarray(applied(value.op, typed)).item()


def operator_of(value: lang.Reduce) -> Operator:
    """The operator by which a reduction combines."""
    return lang.Apply(value.op, (), function=value.function).operator


def is_literal(value: Any) -> bool:
    """Whether a value is made of numbers that someone wrote, and of nothing else."""
    return all(isinstance(node, lang.Constant | lang.Apply) for node in walk(value))

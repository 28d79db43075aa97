"""What all nodes of plans have: what they hold, bind and compute, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from spfgen.facts.formula import ONE, Bin, Expr
from spfgen.facts.reach import RangeStep
from spfgen.ir import walk
from spfgen.space.nodes import Operand, Read, Value


@dataclass(frozen=True)
class Inside:
    """What stands below the label of a node: a heading with its reason, then a plan, `depth` further in."""

    plan: Plan | None = None
    heading: str = ""
    depth: int = 1
    because: str = ""


class Plan:
    """What may stand in a plan. A node says itself what it has inside and what it computes, how it is shown, and, if it
    is there for speed, which plain plan it stands for; from that follow showing, walking, renaming, the check
    (verify/meaning.py) and the interpreter (tests/plans/interpret.py). What C has for it is said in cir/."""

    __slots__ = ()
    DEEPER = 1
    """How much further in what is inside is shown."""

    @property
    def label(self) -> str:
        """The node in words, without what is inside; empty where that says all."""
        return ""

    @property
    def reason(self) -> str:
        """Why it is there."""
        because: str = getattr(self, "because", "")
        return because

    def shown(self) -> Iterator[Inside]:
        """What is shown below the label."""
        if self.inner is not None:
            yield Inside(self.inner, depth=self.DEEPER)

    @property
    def meaning(self) -> Plan | None:
        """The plain plan that a node stands for which is there for speed; None for a plain one."""
        return None

    @property
    def inner(self) -> Plan | None:
        """The one plan inside: for a find what runs at a hit, for versions the last one; None for a leaf or a
        branching."""
        return None

    def with_inner(self, inner: Plan) -> Plan:
        """The same node with another plan inside."""
        raise TypeError(f"{type(self).__name__} has no one plan inside")

    def computed(self) -> Iterator[RangeStep]:
        """The integers that the node computes for itself, in its order, with the names that it binds to them."""
        return iter(())

    @property
    def writes(self) -> str:
        """The tensor or table that the node itself changes, or the status of the call; empty where it changes none."""
        return ""


class Nested(Plan):
    """A node with one body inside."""

    __slots__ = ()
    body: Any

    @property
    def inner(self) -> Plan | None:
        body: Plan | None = self.body
        return body

    def with_inner(self, inner: Plan) -> Plan:
        return replace(self, body=inner)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class Block(Plan):
    """Statements one after another; what one of them defines is known in those that follow."""

    parts: tuple[Plan, ...]
    because: str = ""

    def shown(self) -> Iterator[Inside]:
        yield from (Inside(heading=line) for line in self.because.splitlines())
        yield from (Inside(part, depth=bool(self.because)) for part in self.parts)

    @property
    def reason(self) -> str:
        return ""


def body(plan: Plan) -> Plan | None:
    """What a node has inside, if that is one plan."""
    return plan.inner


def with_body(plan: Plan, inner: Plan) -> Plan:
    """The node with something else inside."""
    return plan.with_inner(inner)


def chain(plan: Plan) -> Iterator[Plan]:
    """The nodes of a nest from the outside in."""
    node: Plan | None = plan
    while node is not None:
        yield node
        node = body(node)


def product(extents: Iterable[Expr]) -> Expr:
    """How many places an array of these extents has."""
    result: Expr = ONE
    for extent in extents:
        result = Bin("*", result, extent)
    return result


def operands_read(value: Value) -> list[Operand]:
    """What a value reads, in its order."""
    return [n.operand for n in walk(value) if isinstance(n, Read)]

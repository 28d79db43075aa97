"""What an algorithm offers for a find: the find as it would run, what must stand around it, and its cost."""

from __future__ import annotations

from dataclasses import dataclass

from spfgen.facts.formula import Expr
from spfgen.plan.nodes import Block, BoundSearch, Find, FindTable, Rejected, SearchState, Segment

NOTHING = Block(())
"""The body of a setup before it is put in place."""


@dataclass(frozen=True)
class Setup:
    """A node to be put directly above the loop `above`, around it."""

    above: str
    node: SearchState | FindTable | Segment


@dataclass(frozen=True)
class Proposal:
    """`name` is what a schedule calls the algorithm; `cost` is for all visits together, in nanoseconds."""

    name: str
    find: Find | BoundSearch
    cost: Expr
    setups: tuple[Setup, ...] = ()
    frugal: bool = True
    """Whether it needs no memory for each possible value of a key or of a state."""


Offer = Proposal | Rejected

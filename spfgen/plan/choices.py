"""Choices that are made while loops are planned, when there is no plan yet that a pass could rewrite.

Each has a name and a level, as passes have: what is chosen at level 0 is the scan as it is derived.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """What planning does from a `level` of optimisation on, and what it is `about`."""

    name: str
    about: str
    level: int


LEAST_WORK = Choice("least work", "the loops are in the order that promises the least work", 1)
NARROWED = Choice("narrow loops", "a loop over positions of a sorted array begins and ends where its bounds say", 1)
SEARCHES = Choice("searches", "positions are found by the cheapest algorithm that is proved right", 1)
THREADS = Choice("threads", "loops that are proved independent run on threads, whether the schedule says so or not", 1)
GATHERED = Choice("gather rows", "entries of one row are summed in a workspace and appended in order", 1)
LOOP_FISSION = Choice("loop fission", "loops of the text are taken apart where their order does not matter", 1)
GUARDED = Choice("guarded loops", "a loop of the text whose condition is seldom true runs only where it is", 1)
IN_ORDER = Choice("ordered loops", "what is stored drives a loop of the text whose order matters, in that order", 1)
MERGES = Choice("merges", "tensors that deliver one coordinate in order advance together", 1)
INVERSES = Choice("inverse gathers", "what is stored drives loops that read it at places an array names", 1)
REDUCTION_EXITS = Choice("exits of reductions", "a reduction ends once nothing can change its result", 1)
BLOCKED = Choice("blocks and slices", "a result that is gone through again and again is done block by block", 2)
TILE_ORDERS = Choice("orders for tiles", "the order of loops leaves the innermost one for register tiles", 2)
SPLIT_ROWS = Choice("split one row", "several threads share an iteration that is much longer than the others", 2)
STARTED = Choice("sums that start", "the sum of a difference starts at its first value", 2)
LOOKUP_EXITS = Choice("exits of nests", "a nest of a statement is left where its condition cannot hold any more", 2)
ONE_REDUCTION = Choice("one reduction", "what is made of one reduction at each place is planned as sums are", 1)
HASHED = Choice("hash tables", "sums that would compare all that two tensors store look entries up in a table", 1)
CHOICES = (
    LEAST_WORK, NARROWED, SEARCHES, THREADS, GATHERED, LOOP_FISSION, GUARDED, IN_ORDER, MERGES, INVERSES,
    REDUCTION_EXITS, ONE_REDUCTION, HASHED, BLOCKED, TILE_ORDERS, SPLIT_ROWS, STARTED, LOOKUP_EXITS,
)  # fmt: skip
"""All of them."""

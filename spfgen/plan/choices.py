"""Decisions of planning: those that are made before there is a plan that a pass could rewrite.

Each has a name and a level of optimisation, as passes have. At level 0 the loops are those of the scan.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """What planning does from a `level` of optimisation on; `about` says it in words."""

    name: str
    about: str
    level: int


LEAST_WORK = Decision("least work", "orders loops by the least estimated work", 1)
NARROWED = Decision(
    "narrow loops", "turns bounds on the values of a sorted array into bounds of the loop over its positions", 1
)
SEARCHES = Decision("searches", "finds positions by the cheapest algorithm that is proved correct", 1)
THREADS = Decision(
    "threads", "makes loops parallel that are proved independent, without being asked by the schedule", 1
)
GATHERED = Decision("gather rows", "sums the entries of a row in a workspace, and appends them in order", 1)
IN_PLACE = Decision("entries in place", "counts the entries of a result, then writes each where it belongs", 1)
LOOP_FISSION = Decision("loop fission", "splits loops of the program where their order does not matter", 1)
GUARDED = Decision("guarded loops", "runs a loop of the program only where its condition may be true", 1)
IN_ORDER = Decision("ordered loops", "lets stored entries drive a loop whose order matters, in that order", 1)
MERGES = Decision("merges", "co-iterates tensors that deliver a coordinate in order", 1)
INVERSES = Decision(
    "inverse gathers", "lets stored entries drive loops that read them through an array of subscripts", 1
)
REDUCTION_EXITS = Decision("exits of reductions", "ends a reduction once its result cannot change", 1)
BLOCKED = Decision("blocks and slices", "computes a result that is traversed repeatedly block by block", 2)
TILE_ORDERS = Decision("orders for tiles", "orders loops so that the innermost one can be tiled for registers", 2)
SPLIT_ROWS = Decision("split one row", "lets several threads share an iteration that is much longer than the others", 2)
STARTED = Decision("sums that start", "starts the sum of a difference at its first value", 2)
LOOKUP_EXITS = Decision("exits of nests", "leaves a nest of a statement once its condition cannot hold any more", 2)
ONE_REDUCTION = Decision("one reduction", "plans an element that is made of one reduction as a sum", 1)
HASHED = Decision("hash tables", "looks entries up in a table where a sum would compare all entries of two tensors", 1)
CHOICES = (
    LEAST_WORK, NARROWED, SEARCHES, THREADS, GATHERED, IN_PLACE, LOOP_FISSION, GUARDED, IN_ORDER, MERGES, INVERSES,
    REDUCTION_EXITS, ONE_REDUCTION, HASHED, BLOCKED, TILE_ORDERS, SPLIT_ROWS, STARTED, LOOKUP_EXITS,
)  # fmt: skip
"""All of them."""

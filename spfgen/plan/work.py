"""About how long a nest takes and how often it adds, in the sizes: enough to decide whether threads pay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spfgen.facts.formula import Expr, Num
from spfgen.plan.cost import Counts, over, plus, times
from spfgen.plan.nodes import Find, Plan, Reduce, Scan, chain

LOOKUP = 5
"""What it takes to find a position, with the algorithms that are better than comparing with all."""

STATEMENT = 3
"""What it takes to read the operands, and to add. One more iteration of a loop takes a nanosecond."""


@dataclass(frozen=True)
class Work:
    """`nanoseconds` in all; `additions` to places in memory."""

    nanoseconds: Expr
    additions: Expr


def work(counts: Counts, plan: Plan, price: Callable[[Find, Expr], Expr]) -> Work:
    """What the nest takes; `price` is that of a find among so many positions."""
    trips: list[Expr] = []
    total: list[Expr] = []
    additions: Expr | None = None
    for node in chain(plan):
        if isinstance(node, Scan):
            trips.append(counts.trips(node.low, node.high))
            total.append(times(*trips))
        elif isinstance(node, Find):
            length = counts.trips(node.low, node.high)
            total.append(times(price(node, length), *trips))
            trips.append(over(length, counts.extent(node.loads[0].dim)))
        elif isinstance(node, Reduce) and additions is None:
            additions = times(*trips)
    inside = times(*trips)
    if total and total[-1] == inside:
        total.pop()
    return Work(plus(*total, times(Num(STATEMENT), inside)), inside if additions is None else additions)


def by_algorithm(find: Find, length: Expr) -> Expr:
    """The price of a find whose algorithm is chosen."""
    return length if find.key is None else Num(LOOKUP)

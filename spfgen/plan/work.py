"""About how long a nest takes and how often it adds, in the sizes: enough to decide whether threads pay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spfgen.facts.formula import Expr, Num, substitute, variables
from spfgen.plan.cost import Counts, over, plus, times
from spfgen.plan.nodes import Do, Find, Guard, Load, Locate, Plan, Reduce, Scan, Skip, chain
from spfgen.sets.affine import NotAffine
from spfgen.sets.uf import linear

LOOKUP = 5
"""What it takes to find a position, with the algorithms that are better than comparing with all."""

STATEMENT = 3
"""What it takes to read the operands, and to add. One more iteration of a loop takes a nanosecond."""

LINE = 8
"""Numbers that lie side by side in a line of the cache."""


@dataclass(frozen=True)
class Work:
    """`nanoseconds` in all; `additions` to places in memory; `lines`: how many of them go to a line of memory that the
    ones around do not go to, at most."""

    nanoseconds: Expr
    additions: Expr
    lines: Expr


def work(counts: Counts, plan: Plan, price: Callable[[Find, Expr], Expr]) -> Work:
    """What the nest takes; `price` is that of a find among so many positions."""
    trips: list[Expr] = []
    apart: list[Expr] = []
    total: list[Expr] = []
    added: tuple[Expr, Expr] | None = None
    nodes = list(chain(plan))
    for k, node in enumerate(nodes):
        if isinstance(node, Scan):
            trips.append(counts.trips(node.low, node.high))
            total.append(times(*trips))
            if not _stays(node, trips[-1], nodes[k + 1 :]):
                apart.append(trips[-1])
        elif isinstance(node, Find):
            length = counts.trips(node.low, node.high)
            total.append(times(price(node, length), *trips))
            trips.append(over(length, counts.extent(node.loads[0].dim)))
            apart.append(trips[-1])
        elif isinstance(node, Reduce) and added is None:
            added = times(*trips), times(*apart)
    inside = times(*trips)
    if total and total[-1] == inside:
        total.pop()
    additions, lines = added or (inside, times(*apart))
    return Work(plus(*total, times(Num(STATEMENT), inside)), additions, lines)


def _stays(scan: Scan, trips: Expr, inside: Sequence[Plan]) -> bool:
    """Whether all iterations of a loop, of which there is a fixed number, add to the same line of memory: to one place,
    or to neighbours."""
    *above, last = inside
    if not isinstance(trips, Num) or not isinstance(last, Do):
        return False
    spoken, loaded, located = {scan.dim}, set[str](), dict[str, Expr]()
    for node in above:
        match node:
            case Locate(dim, value):
                located[dim] = substitute(value, located)
                spoken |= {dim} if variables(value) & spoken else set()
            case Load(dim, call) if variables(call) & spoken:
                loaded.add(dim)
            case Scan(dim, low) if any(variables(e) & spoken for e in low):
                loaded.add(dim)
            case Load() | Scan() | Guard() | Skip() | Reduce():
                pass
            case _:
                return False
        spoken |= loaded
    place = [substitute(p, located) for p in last.target.place]
    if any(variables(p) & loaded for p in place):
        return False
    try:
        steps = [linear(p).coefficient(scan.dim) for p in place]
    except NotAffine:
        return False
    return not any(steps[:-1]) and (steps[-1:] in ([], [0]) or (steps[-1] == 1 and trips.value <= LINE))


def by_algorithm(find: Find, length: Expr) -> Expr:
    """The price of a find whose algorithm is chosen."""
    return length if find.key is None else Num(LOOKUP)

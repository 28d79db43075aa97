"""About how long a nest takes and how often it adds, in the sizes: enough to decide whether threads pay."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from spfgen import tuning
from spfgen.facts.formula import ONE, Expr, Num, Var, variables
from spfgen.ir import walk
from spfgen.plan.analyse.cost import Counts, nanoseconds, over, plus, times
from spfgen.plan.nodes import Define, Find, Load, Plan, Scan, Store, chain, is_sum
from spfgen.space.nodes import Read

BY_VECTORS = nanoseconds(tuning.BY_VECTORS_TENTHS)
ITERATION_BY_VECTORS = nanoseconds(tuning.ITERATION_BY_VECTORS_TENTHS)


@dataclass(frozen=True)
class Work:
    """`nanoseconds` in all; `additions` to places in memory."""

    nanoseconds: Expr
    additions: Expr


def work(counts: Counts, plan: Plan, price: Callable[[Find, Expr], Expr], vectors: bool = False) -> Work:
    """What the nest takes; `price` is that of a find among so many positions, and `vectors` says that loops over what
    lies side by side run by them."""
    trips: list[Expr] = []
    total: list[Expr] = []
    additions: Expr | None = None
    statement: Expr = Num(tuning.STATEMENT_NS)
    iteration: Expr = ONE
    for node in chain(plan):
        if isinstance(node, Scan):
            if vectors and _stands_in_order(node):
                statement, iteration = BY_VECTORS, ITERATION_BY_VECTORS
            trips.append(counts.trips(node.low, node.high))
            total.append(times(iteration, times(*trips)))
        elif isinstance(node, Find):
            length = counts.trips(node.low, node.high)
            total.append(times(price(node, length), *trips))
            trips.append(over(length, counts.extent(node.loads[0].dim)))
        elif is_sum(node) and additions is None:
            additions = times(*trips)
    inside = times(*trips)
    if total and total[-1] == times(iteration, inside):
        total.pop()
    return Work(plus(*total, times(statement, inside)), inside if additions is None else additions)


def _stands_in_order(loop: Scan) -> bool:
    """Whether all values of the loop lie side by side or are the same for all its iterations, as is what else is done
    in them."""
    *inside, do = chain(loop.body)
    moving_dims = {loop.dim, *(n.dim for n in inside if isinstance(n, Define) and n.value == Var(loop.dim))}
    along: list[Expr] = [Var(n) for n in moving_dims]
    if not isinstance(do, Store) or not all(_same(n, moving_dims) for n in inside):
        return False
    operands = [do.target, *(n.operand for n in walk(do.value) if isinstance(n, Read))]
    moving = [o.place for o in operands if any(moving_dims & variables(p) for p in o.place)]
    return (
        bool(moving)
        and all(last in along for *_, last in moving)
        and not any(moving_dims & variables(p) for *others, _ in moving for p in others)
    )


def _same(node: Plan, moving_dims: Set[str]) -> bool:
    """Whether what is done there is the same whatever the values of these dimensions, but for copies of them."""
    match node:
        case Scan(low=low, high=high):
            return not any(moving_dims & variables(e) for e in (*low, *high))
        case Define(dim, value):
            return dim in moving_dims or not moving_dims & variables(value)
        case Load(call=call):
            return not moving_dims & variables(call)
    return is_sum(node)


def by_algorithm(find: Find, length: Expr) -> Expr:
    """The price of a find whose algorithm is chosen."""
    return length if find.key is None else Num(tuning.LOOKUP_NS)

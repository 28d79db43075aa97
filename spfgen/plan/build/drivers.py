"""Which tensor drives: orders of loops, compared by estimated work.

The order of the text comes first (order.py). Each sparse operand may drive instead, by its outermost loop or by all of
its own; and where something would be looked for at all values of an index, the innermost positions of the others come
next, of which a table is built. Another order is taken when a rough count of its work, every find for the price of one
look-up, is far below that of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from spfgen import tuning
from spfgen.errors import SpfgenError
from spfgen.facts.formula import ONE, ZERO, Compare, Expr, Num, Var, calls, other_arguments, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.analyse.comparisons import compares_all
from spfgen.plan.analyse.cost import Counts, mean_ratio, plus, times
from spfgen.plan.analyse.depend import distinct_by_facts, distinct_places
from spfgen.plan.analyse.order import scan_order
from spfgen.plan.analyse.scan import Step, scan_steps, sources, wrapped
from spfgen.plan.analyse.work import by_algorithm, work
from spfgen.plan.build.gather import row_of
from spfgen.plan.build.narrow import narrowed
from spfgen.plan.choices import LEAST_WORK
from spfgen.plan.context import Context
from spfgen.plan.finds import with_finds
from spfgen.plan.nodes import PLANS, BoundSearch, Find, Guard, Key, Plan, Scan, Store, chain
from spfgen.sets.bounds import single_value
from spfgen.sets.named import Space
from spfgen.sets.uf import comparisons
from spfgen.space.nodes import Instance, Operand

T = TypeVar("T")
_ORDERS = ("<", "<=", ">", ">=")
MOST_DIMENSIONS = 48
"""Of points with more dimensions no other driver is tried: an order of 50 takes isl three seconds (three matrices of
blocks with bit masks)."""


def driven(instance: Instance, context: Context, again: bool = False) -> list[list[Step]]:
    """The steps of the order that the schedule wants, or of the one that promises the least work; then those of the
    order of the text, should the promise not be kept. What runs `again` and again, within loops that are not the
    instance's, is not to build a table of all that a tensor stores."""
    best = first_of_all = steps_in_order(instance, _ordered(instance, context, context.order))
    if context.order or not context.makes(LEAST_WORK):
        return [best]
    sparse = [o for o in instance.reads if o.sparse]
    first = next((s.dim for s in best if s.kind == "scan"), "")
    if not sparse or (len(sparse) == 1 and context.named) or len(instance.domain.space.names) > MOST_DIMENSIONS:
        return [best]
    if len(sparse) == 1 and first in sparse[0].positions:
        owned = None if again else _owned(instance, context, best, sparse[0])
        return [best] if owned is None else [owned, best]
    orders = _Orders(instance, context, again, best)
    loops_of: dict[tuple[object, ...], tuple[str, ...]] = {}
    for operand in sparse:
        form = _form(operand)
        if not operand.positions or form in loops_of:
            continue
        led = best if first in operand.positions else orders.attempt(operand.positions[:1])
        loops_of[form] = operand.positions if led is None else _gone_through(operand, led)
        orders.attempt(loops_of[form])  # all of its loops, before those of others
    if not again and orders.sorts(orders.best):
        for wanted in _row_by_row(instance, sparse, loops_of, context):
            orders.attempt(wanted, by_bounds=True)
    if not again and _looks_everywhere(instance, orders.best, context):
        for wanted in _inside_out(sparse, loops_of, set(context.forced)):
            orders.attempt(wanted, by_bounds=True)
    candidates = [orders.best] if orders.best is first_of_all else [orders.best, first_of_all]
    for steps, price in orders.between:
        if mean_ratio(price, orders.cost, context.stored) <= tuning.DRIVER_GAIN:
            return [steps, *candidates]
    return candidates


class _Orders:
    """Orders that were tried, and the one that promises the least work; those `between` intersect intervals instead of
    what they are made of, with its price."""

    def __init__(self, instance: Instance, context: Context, again: bool, first: list[Step]) -> None:
        self.instance, self.context, self.again = instance, context, again
        self.tried = {tuple(s.dim for s in first): first}
        self.best, self.cost = first, self.price(first)
        self.between: list[tuple[list[Step], Expr]] = []
        self._intersect(first, self.cost)

    def attempt(self, wanted: Sequence[str], by_bounds: bool = False) -> list[Step] | None:
        """The steps in which these loops come first, where there are such. What is forced to be looked for is no loop.
        `by_bounds`: some are found by where the others lie."""
        try:
            dims = _ordered(self.instance, self.context, wanted)
        except SpfgenError:
            return None
        if dims in self.tried:
            return self.tried[dims]
        steps = self.tried[dims] = steps_in_order(self.instance, dims)
        if self.context.forced.keys() & {*wanted} and not by_bounds:
            return steps
        price = self.price(steps, by_bounds)
        if not by_bounds:
            self._intersect(steps, price)
        if mean_ratio(self.cost, price, self.context.stored) > tuning.DRIVER_GAIN:
            self.best, self.cost = steps, price
        return steps

    def price(self, steps: list[Step], by_bounds: bool = False) -> Expr:
        """What the order costs, and the sorting of what it delivers."""
        estimate = rough(self.instance, steps, self.again, self.context if by_bounds else None)
        if not self.sorts(steps):
            return estimate
        nest = _nest(self.instance, steps)
        if by_bounds:
            nest = narrowed(self.instance, nest, steps, self.context)
        entries = work(Counts(self.instance), with_finds(nest), by_algorithm).additions  # not all that is compared
        return plus(estimate, times(Num(tuning.SORTED_NS), entries))

    def sorts(self, steps: list[Step]) -> bool:
        """Whether what is delivered to a result whose pattern is computed has to be sorted: several iterations of the
        outermost loop deliver entries of one row."""
        place = self.instance.target.place
        if self.instance.target.tensor not in self.context.assembled or len(place) < 2:
            return False
        nodes = list(chain(with_finds(_nest(self.instance, steps))))
        row = row_of(nodes, place)
        first = next((n.dim for n in nodes if isinstance(n, Scan)), None)
        if row is None or first is None:
            return True
        common = tuple(e for k, e in enumerate(place) if k != row[1])
        target = replace(self.instance.target, place=common, extents=tuple(ONE for _ in common))
        rows = replace(self.instance, target=target)
        return not (distinct_places(rows, first) or distinct_by_facts(rows, first, steps))

    def _intersect(self, steps: list[Step], price: Expr) -> None:
        intersected = _intersected(self.instance, steps, self.context)
        if intersected is not None:
            self.between.append((intersected, price))


def least_work(candidates: Iterable[tuple[Instance, Sequence[Plan], T]], context: Context) -> T | None:
    """What the nests of one order are for: of the first in which nothing is compared with everything, unless that is
    much more work than to compare with few; where there is none, of that which is least work."""
    least: tuple[Expr, T] | None = None
    for instance, nests, result in candidates:
        compared = {n.dim for nest in nests for n in walk(nest, PLANS) if isinstance(n, Find) and n.key is None}
        compares = not compared <= set(context.forced)
        if least is None and not compares:
            return result
        price = work(Counts(instance), nests[0], by_algorithm).nanoseconds
        if least is not None and not compares:
            much = mean_ratio(price, least[0], context.stored) > tuning.DRIVER_GAIN
            return least[1] if much else result
        if least is None or mean_ratio(least[0], price, context.stored) > 1:
            least = price, result
    return None if least is None else least[1]


def _owned(instance: Instance, context: Context, usual: list[Step], operand: Operand) -> list[Step] | None:
    """The order in which an index of the result comes first and the operand's positions follow from it, where threads
    would add to copies of the result in the usual one: each has rows of its own then, which it clears just before."""
    first = next((s.dim for s in usual if s.kind == "scan"), "")
    rows = [s.name for s in instance.target.subscripts if isinstance(s, Var)]
    if instance.target.tensor in context.assembled or instance.guards or not operand.positions:
        return None
    if distinct_places(instance, first) or distinct_by_facts(instance, first, usual):
        return None
    orders = _Orders(instance, context, False, usual)
    for row in rows:
        if Var(row) in operand.subscripts or row == first:
            continue  # it would be looked for, or is the loop that there is
        steps = orders.attempt((row, *operand.positions))
        if steps is None or next(s.dim for s in steps if s.kind == "scan") != row or not distinct_places(instance, row):
            continue
        led = next((s for s in steps if s.dim == operand.positions[0] and s.kind == "scan"), None)
        if led is None or row not in {v for e in (*led.low, *led.high) for v in variables(e)}:
            continue
        if any(isinstance(n, Find) for n in chain(with_finds(_nest(instance, steps)))):
            continue
        if mean_ratio(orders.price(steps), orders.price(usual), context.stored) <= tuning.OWNED_COST:
            return steps
    return None


def _looks_everywhere(instance: Instance, steps: Sequence[Step], context: Context) -> bool:
    """Whether a loop over all values of a dimension, or all beyond another's, stands within another loop, and something
    is looked for or asked in it; or a loop over all that a tensor stores within one over what another does."""
    nest = with_finds(_nest(instance, steps))
    nodes = list(chain(nest))
    loops = [n for n in nodes if isinstance(n, Scan | Find)]
    sizes = set(instance.sizes)
    everywhere = any(
        isinstance(n, Scan) and any({v for e in end for v in variables(e)} <= sizes for end in (n.low, n.high))
        for k, n in enumerate(loops)
        if k and any(isinstance(f, Find | Guard) for f in nodes[nodes.index(n) :])
    )

    def rule(node: object) -> Plan | None:
        if not isinstance(node, Find) or not _quick(instance, node):
            return None
        return replace(node, key=Key(node.dim, ZERO))

    return everywhere or compares_all([rewrite(rule, nest, PLANS)], context.stored)


def _gone_through(operand: Operand, steps: Sequence[Step]) -> tuple[str, ...]:
    """The positions of an operand that loops go through: others follow from them."""
    loops = {s.dim for s in steps if s.kind == "scan"}
    return tuple(p for p in operand.positions if p in loops) or operand.positions


def _inside_out(
    sparse: Sequence[Operand], loops_of: Mapping[tuple[object, ...], tuple[str, ...]], forced: set[str]
) -> Iterator[tuple[str, ...]]:
    """Orders in which one operand drives by its `own` loops, and of the others the innermost position comes first: it
    can be found among all that are stored, and those around it by where it lies."""
    for operand in sparse:
        if operand.positions and not forced & {*loops_of[_form(operand)]}:
            others = [p for o in sparse if o is not operand for p in reversed(o.positions)]
            yield (*loops_of[_form(operand)], *others)


def _row_by_row(
    instance: Instance,
    sparse: Sequence[Operand],
    loops_of: Mapping[tuple[object, ...], tuple[str, ...]],
    context: Context,
) -> Iterator[tuple[str, ...]]:
    """Orders that begin with an index of the result: an operand's positions are found by it, the innermost first. Its
    extent is that of an array: where all tensors list their rows, there may be more rows than a loop can go through."""
    counts, forced = Counts(instance), {*context.forced}
    rows = [s.name for s in instance.target.subscripts if isinstance(s, Var)]
    for row in rows:
        if not set(variables(counts.extent(row))) <= context.held:
            continue
        for operand in sparse:
            positions = loops_of[_form(operand)] if operand.positions else ()
            if positions and Var(row) in operand.subscripts and not forced & {*positions}:
                others = [p for o in sparse if o is not operand and o.positions for p in loops_of[_form(o)]]
                yield (row, *reversed(positions), *others)


def _intersected(instance: Instance, steps: Sequence[Step], context: Context) -> list[Step] | None:
    """The order that intersects intervals, where this one goes along one operand's interval and looks for the positions
    of others at each of its points: those positions come first, the points that all have come last. None where the
    positions that meet the interval are not found by searches."""
    scans = [k for k, s in enumerate(steps) if s.kind == "scan"]
    positions = {p for o in instance.reads if o.sparse for p in o.positions}
    for along in reversed(scans):
        others = [steps[k].dim for k in scans if k > along and steps[k].dim in positions]
        independent = all(steps[along].dim not in _needed(steps, dim) for dim in others)
        if not others or not independent or not _is_interval(instance, steps, along) or {*others} & {*context.forced}:
            continue
        outer = [steps[k].dim for k in scans if k < along]
        try:
            reordered = steps_in_order(instance, _ordered(instance, context, (*outer, *others, steps[along].dim)))
        except SpfgenError:
            continue
        nest = narrowed(instance, _nest(instance, reordered), reordered, context)
        sought = Counter(n.dim for n in chain(nest) if isinstance(n, BoundSearch))
        if all(sought[dim] == 2 for dim in others):
            return reordered
    return None


def _is_interval(instance: Instance, steps: Sequence[Step], k: int) -> bool:
    """Whether a loop goes along coordinates from one value that is loaded to another. Those of fixed length are short:
    blocks."""
    same = [c.value.names() for c in instance.domain.hull().constraints() if c.equality and not c.value.constant]
    if steps[k].dim not in instance.indices and not any({steps[k].dim, i} in same for i in instance.indices):
        return False
    loads = {s.dim for s in steps[:k] if s.kind == "load"}
    if isinstance(Counts(instance).trips(steps[k].low, steps[k].high), Num):
        return False
    return all(any(loads & variables(e) for e in bounds) for bounds in (steps[k].low, steps[k].high))


def _needed(steps: Sequence[Step], dim: str) -> set[str]:
    """The dimensions that the bounds of a loop come from."""
    step = next(s for s in steps if s.dim == dim)
    return sources(steps, {v for e in (*step.low, *step.high) for v in variables(e)})


def _ordered(instance: Instance, context: Context, wanted: Sequence[str]) -> tuple[str, ...]:
    return scan_order(instance, wanted, context.outside, context.named)


def steps_in_order(instance: Instance, dims: tuple[str, ...]) -> list[Step]:
    """How each dimension comes to its value when they come in this order."""
    domain = instance.domain.reordered(Space((*instance.sizes, *dims)))
    return scan_steps(instance, domain, dims)


def _quick(instance: Instance, find: Find) -> bool:
    """Whether there is hope for more than a plain loop."""
    return _is_ordered(instance, find) or _has_table(instance, find)


def _is_ordered(instance: Instance, find: Find) -> bool:
    """Whether something is declared of the order of what is compared."""
    call = find.loads[0].call
    compared = (n for f in instance.axioms.formulas for n in walk(f) if isinstance(n, Compare) and n.op in _ORDERS)
    return any({c.function for c in calls(n)} == {call.function} and len(calls(n)) == 2 for n in compared)


def _has_table(instance: Instance, find: Find) -> bool:
    """Whether there is a value to look for, in a range that does not change: a table of it is built once."""
    bounds = (*find.low, *find.high, *other_arguments(find.loads[0].call, find.dim))
    if not all(variables(e) <= set(instance.sizes) for e in bounds):
        return False
    about = comparisons(find.conditions)
    return any(single_value(about, loaded.dim) is not None for loaded in find.loads)


def _form(operand: Operand) -> tuple[object, ...]:
    """What makes two operands alike: either may drive as well as the other."""
    positions = tuple(p.removeprefix(f"{operand.label}.") for p in operand.positions)
    return positions, operand.array, operand.subscripts


def rough(instance: Instance, steps: Sequence[Step], again: bool = False, context: Context | None = None) -> Expr:
    """About how many nanoseconds, whatever the algorithms of the finds are. With a context, loops over positions that
    are found by their bounds are as short as they will be."""
    body = _nest(instance, steps)
    if context is not None:
        body = narrowed(instance, body, steps, context)
    tables: list[Expr] = []

    def price(find: Find, length: Expr) -> Expr:
        if _is_ordered(instance, find):
            return Num(tuning.LOOKUP_NS)
        if again or not _has_table(instance, find):
            return length
        tables.append(times(Num(tuning.TABLE_NS), length))
        return Num(tuning.LOOKUP_NS)

    return plus(work(Counts(instance), with_finds(body), price).nanoseconds, *tables)


def _nest(instance: Instance, steps: Sequence[Step]) -> Plan:
    """The loops, with nothing said about who runs them."""
    body: Plan = Store(instance.target, instance.value, "+=")
    for step in reversed(steps):
        body = wrapped(step, body)
    return body

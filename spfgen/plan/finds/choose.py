"""Which algorithm finds: all that are proved right are offered, cost chooses among them.

Where the cheapest depends on the sizes of the call, the nest is made in a few variants (plan/analyse/cost.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spfgen import tuning
from spfgen.errors import SpecError
from spfgen.facts.formula import ONE, Bin, Expr, other_arguments, variables
from spfgen.facts.prove import Answer, recorded, smaller
from spfgen.plan.analyse.cost import Counts, cheapest, plus, times
from spfgen.plan.analyse.scan import Step, with_quotients
from spfgen.plan.choices import SEARCHES
from spfgen.plan.context import Context
from spfgen.plan.finds import inverse, loop, search, sequential, table
from spfgen.plan.finds.proposal import NOTHING, Offer, Proposal, Setup
from spfgen.plan.finds.query import Query
from spfgen.plan.finds.segment import segmented
from spfgen.plan.nodes import (
    BoundSearch,
    Cheapest,
    Find,
    FindTable,
    Plan,
    Reach,
    Rejected,
    Scan,
    SearchState,
    Version,
    chain,
    with_body,
)
from spfgen.space.nodes import ForcedFind, Instance

BY_KEY = (search, sequential, table)
"""The files of this folder that look for a key: each has `ALGORITHMS` and `propose`."""
ALGORITHMS = {loop.NAME: loop.ALGORITHM} | {n: words for found in BY_KEY for n, words in found.ALGORITHMS.items()}
"""What a schedule calls an algorithm, and what it is called in words."""
TESTED = (search.NAME, loop.NAME)
"""Algorithms that look through the whole range."""


@dataclass(frozen=True)
class _Found:
    """A find, or a bound that is looked for, with all that was offered for it; `setups` are needed whatever is
    chosen."""

    dim: str
    offers: tuple[Offer, ...]
    setups: tuple[Setup, ...]
    test: Reach | None = None

    @property
    def proposals(self) -> list[Proposal]:
        return [o for o in self.offers if isinstance(o, Proposal)]


def choose_finds(instance: Instance, plan: Plan, steps: Sequence[Step], context: Context) -> list[Version]:
    """The nest with an algorithm for each find; more than one where the sizes decide."""
    offered = _asked(instance, plan, steps, context)
    choices = [f.proposals for f in offered]
    result = []
    numbers_taken = cheapest(
        [[p.cost for p in c] for c in choices], context.stored, tuning.FIND_VARIANTS[len(offered) > 1]
    )
    for numbers in _with_frugal(choices, numbers_taken, context):
        chosen = tuple(c[n] for c, n in zip(choices, numbers, strict=True))
        result.append(Version(Cheapest(plus(*(p.cost for p in chosen))), _built(plan, offered, chosen)))
    return result


def choose_once(instance: Instance, plan: Plan, steps: Sequence[Step], context: Context) -> Plan:
    """The nest with one algorithm for each find, for callers that have no versions: the cheapest of those that need no
    memory for an extent along which no tensor has an array, which may be huge."""
    offered = _asked(instance, plan, steps, context)
    choices = [[p for p in f.proposals if _has_room(p, context)] or f.proposals for f in offered]
    (numbers,) = cheapest([[p.cost for p in c] for c in choices], context.stored, 1)
    return _built(plan, offered, tuple(c[n] for c, n in zip(choices, numbers, strict=True)))


def _has_room(proposal: Proposal, context: Context) -> bool:
    nodes = [setup.node for setup in proposal.setups]
    extents = [e for n in nodes if isinstance(n, SearchState) for e in n.extents]
    extents += [n.extent for n in nodes if isinstance(n, FindTable)]
    return proposal.frugal or variables(*extents) <= context.held


def _with_frugal(
    choices: Sequence[Sequence[Proposal]], taken: list[tuple[int, ...]], context: Context
) -> list[tuple[int, ...]]:
    """With one combination that is frugal, where there is one: extents may be huge."""
    frugal = [[n for n, p in enumerate(c) if p.frugal] for c in choices]
    if not all(frugal) or any(all(n in f for n, f in zip(numbers, frugal, strict=True)) for numbers in taken):
        return taken
    costs = [[c[n].cost for n in f] for c, f in zip(choices, frugal, strict=True)]
    (best,) = cheapest(costs, context.stored, 1)
    return [*taken[: tuning.FIND_VARIANTS[1]], tuple(f[n] for f, n in zip(frugal, best, strict=True))]


def _asked(instance: Instance, plan: Plan, steps: Sequence[Step], context: Context) -> list[_Found]:
    """What is offered for each find, outermost first."""
    counts = Counts(instance)
    names = [s.dim for s in steps]
    trips: dict[str, Expr] = {}
    single: dict[str, frozenset[str]] = {}
    defined: dict[str, frozenset[str]] = {}
    offered: list[_Found] = []
    parallel = next((n.dim for n in chain(plan) if isinstance(n, Scan) and n.parallel), "")
    bounded: dict[str, BoundSearch] = {}
    for node in chain(plan):
        if isinstance(node, BoundSearch):
            bounded.setdefault(node.dim, node)
            if node.dim not in context.forced:
                above, visits = next(iter(trips), ""), times(*trips.values())
                offers = inverse.propose(instance, node, steps, above, visits, counts)
                offered.append(_Found(node.name, tuple(offers), ()))
        if isinstance(node, Scan):
            whole = bounded.get(node.dim, node)  # at most
            trips[node.dim] = counts.trips(whole.low, whole.high)
        if not isinstance(node, Find):
            continue
        position = names.index(node.dim)
        step = steps[position]
        assert step.before is not None
        domain = instance.domain.reordered(step.before.space)
        length = counts.trips(node.low, node.high)
        query = Query(
            instance, node, tuple(steps[:position]), step.before, domain, dict(single), dict(defined), counts,
            dict(trips), length, context.types, parallel, context.falling,
        )  # fmt: skip
        query, setups = segmented(query, context) if context.makes(SEARCHES) else (query, ())
        defined |= query.defined
        item = _offers(query, setups, context)
        offered.append(item)
        keys = query.keys
        trips[node.dim] = query.matches(keys[0]) if keys else ONE
        if keys and query.order(keys[0]).unique:
            bounds = (keys[0].value, *query.find.low, *query.find.high, *other_arguments(keys[0].call, node.dim))
            single[node.dim] = frozenset(variables(*bounds) - {*instance.sizes, node.dim})
    return offered


def _offers(query: Query, setups: tuple[Setup, ...], context: Context) -> _Found:
    """All that is offered for a find; with a forced algorithm only that."""
    offers: list[Offer] = []
    forced = context.forced.get(query.find.dim)
    with recorded() as asked:
        if query.keys and (context.makes(SEARCHES) or forced is not None):
            key = query.keys[0]
            offers = [offer for algorithms in BY_KEY for offer in algorithms.propose(query, key)]
    if forced is not None or not any(isinstance(o, Proposal) for o in offers):
        offers.append(loop.propose(query))
    if forced is not None:
        names = [o.name if isinstance(o, Proposal) else o.algorithm for o in offers]
        wanted = offers[names.index(forced.algorithm)] if forced.algorithm in names else None
        if not isinstance(wanted, Proposal):
            raise _refused(query, forced, wanted, asked)
        offers = [wanted]
    return _Found(query.find.dim, tuple(offers), setups, _test(query))


def _test(query: Query) -> Reach | None:
    """Whether a key can stand in a tile of positions at all, where its array is sorted: most tiles are passed over."""
    bounds = variables(*query.find.low, *query.find.high)
    if not query.keys or not bounds & set(query.instance.made):
        return None
    key = query.keys[0]
    descending = query.order(key).descending
    if descending is None:
        return None
    value = with_quotients(key.value, query.before)
    why = f"tiles without the key are passed over, since {query.order(key).words}"
    find = query.find
    last = Bin("+", value, ONE)
    return Reach(find.dim, find.low, find.high, key.call, value, last, descending, NOTHING, why)


def _refused(query: Query, forced: ForcedFind, offer: Rejected | None, asked: Sequence[Answer]) -> SpecError:
    """Why the schedule cannot have what it wants: the reason, and the obligation that failed with values that do."""
    why = offer.why if offer is not None else "no value is known that it could look for"
    hints = []
    failed = [a for a in asked if not a.proved]
    if offer is not None and failed and offer.algorithm not in table.ALGORITHMS:
        answer = smaller(failed[-1] if offer.why != query.order(query.keys[0]).doubt else failed[0])
        hints.append(f"not proved: {answer.about}: {answer.goal}")
        values = {**dict(answer.model or ()), **dict(answer.values)}
        if values:
            hints.append(f"for example {', '.join(f'{n} = {v}' for n, v in values.items())}")
    hints.append("declare the property that it needs in the layout, or choose another algorithm")
    return SpecError(
        f"expected an algorithm that is proved correct for {query.find.dim}, but `{forced.algorithm}` is not: {why}",
        forced.span,
        tuple(hints),
    )


def _built(plan: Plan, searches: Sequence[_Found], chosen: Sequence[Proposal]) -> Plan:
    """The nest with the chosen finds, and what they need above the loops that they name."""
    finds: dict[str, Plan] = {f.dim: _noted(f, p) for f, p in zip(searches, chosen, strict=True)}
    tests = {f.dim: f.test for f, p in zip(searches, chosen, strict=True) if f.test is not None and p.name in TESTED}
    setups = [s for f, p in zip(searches, chosen, strict=True) for s in (*f.setups, *p.setups)]
    nodes = list(chain(plan))
    result = nodes[-1]
    for node in reversed(nodes[:-1]):
        position = node.name if isinstance(node, BoundSearch) else node.dim if isinstance(node, Find) else ""
        result = with_body(finds.get(position, node), result)
        if isinstance(node, Find) and node.dim in tests:
            result = with_body(tests[node.dim], result)
        if isinstance(node, Scan | Find):
            for setup in reversed([s for s in setups if s.above == node.dim]):
                result = with_body(setup.node, result)
    return result


def _noted(search: _Found, chosen: Proposal) -> Find | BoundSearch:
    """The find with what was not taken."""
    if isinstance(chosen.find, BoundSearch):
        return chosen.find
    rejected = []
    for offer in search.offers:
        if isinstance(offer, Rejected):
            rejected.append(offer)
        elif offer.name != chosen.name:
            rejected.append(Rejected(offer.name, "proved correct, but expected to be slower"))
    return replace(chosen.find, rejected=tuple(rejected))

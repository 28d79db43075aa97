"""Tables: where each value of the key's array stands, built once above the loops over which the range is invariant.

Four kinds. A hash map needs nothing of the keys. A position array and a bitmap need keys in [0, n) for an n in the
sizes; a bitmap needs besides that the array rises strictly (the position is then the number of bits before the
key's) or is backed by a position array. Equal values are chained where the layout allows them.
"""

from __future__ import annotations

from dataclasses import replace

from spfgen import tuning
from spfgen.facts.formula import ONE, ZERO, Bin, Compare, Expr, Num, Var, conjuncts, other_arguments, show, variables
from spfgen.ir import walk
from spfgen.lang.nodes import Apply
from spfgen.plan.analyse.cost import nanoseconds, plus, times
from spfgen.plan.analyse.scan import Step, with_quotients
from spfgen.plan.finds.proposal import NOTHING, Offer, Proposal, Setup
from spfgen.plan.finds.query import KnownLoad, Query
from spfgen.plan.nodes import FindTable, Key, Rejected, stores_in
from spfgen.sets.named import Constraint
from spfgen.sets.uf import comparisons, linear, with_floors
from spfgen.space.local_tensors import COUNT
from spfgen.space.nodes import Operand, Read, Value

HASH, ARRAY, BITMAP, SCATTER = "hash", "array", "bitmap", "scatter"
ALGORITHMS = {HASH: "hash map", ARRAY: "position array", BITMAP: "bitmap", SCATTER: "scatter"}


def propose(query: Query, key: KnownLoad) -> list[Offer]:
    """A hash map, a position array, a bitmap and a scatter, as far as they are right."""
    level = _level(query, key)
    if level is None:
        why = "its range changes in every iteration of the loops around it"
        return [Rejected(name, why) for name in ALGORITHMS]
    extent = query.counts.range(key.dim)
    offers: list[Offer] = [_offer(query, key, HASH, level, ZERO)]
    if extent is None:
        why = f"no range [0, n) is declared for {key.call.function}"
        return [*offers, *(Rejected(name, why) for name in (ARRAY, BITMAP, SCATTER))]
    offers += [_offer(query, key, name, level, extent) for name in (ARRAY, BITMAP)]
    operand = scattered(query, key)
    if isinstance(operand, str):
        return [*offers, Rejected(SCATTER, operand)]
    offer = _offer(query, key, SCATTER, level, extent)
    return [*offers, _copying(offer, operand)]


def _offer(query: Query, key: KnownLoad, name: str, level: str, extent: Expr) -> Proposal:
    order = query.order(key)
    kept = "unique" if order.unique else "chained" if order.descending is None else "side by side"
    find = query.find
    table = FindTable(
        f"{find.dim} {ALGORITHMS[name]}",
        ALGORITHMS[name],
        find.dim,
        find.low,
        find.high,
        key.call,
        extent,
        kept,
        NOTHING,
        rising=order.descending is False,
        because=f"[{', '.join(map(show, find.low))}, {', '.join(map(show, find.high))}) is the same in all inner loops",
    )
    wanted = Key(key.dim, with_quotients(key.value, query.before), order.descending is True, order.unique)
    words = {
        "unique": order.words,
        "side by side": f"{order.words}: equal values are adjacent",
        "chained": "equal values are chained",
    }[kept]
    sought = replace(
        find,
        algorithm=ALGORITHMS[name],
        conditions=query.remaining(key),
        key=replace(wanted, inside=name == HASH or _inside(query, key, extent)),
        parallel=False,
        because=words,
        place=table.name,
    )
    built = times(*(query.trips[d] for d in query.loops[: query.loops.index(level)]))
    build, look, hit, branch, clear = tuning.TABLE_TENTHS[name]
    ranked = name == BITMAP and order.unique and order.descending is False
    if name == BITMAP and not ranked:  # hardly better than the position array behind it
        build, look, hit, branch, clear = (c + 1 for c in tuning.TABLE_TENTHS[ARRAY])
    rate = Bin("min", query.matches(key), ONE)
    rarer = Bin("min", rate, Bin("-", ONE, rate))
    each = plus(nanoseconds(look), times(nanoseconds(hit), rate), times(nanoseconds(branch), rarer))
    memory = Bin("/", extent, Num(tuning.BITMAP_KEYS)) if ranked else times(extent, nanoseconds(clear))
    cost = plus(times(built, query.length, nanoseconds(build)), query.total(each), memory)
    return Proposal(name, sought, cost, (Setup(level, table),), frugal=name == HASH)


def _copying(offer: Proposal, operand: Operand) -> Proposal:
    (setup,) = offer.setups
    assert isinstance(setup.node, FindTable)
    table = replace(setup.node, values=operand)
    why = f"what {operand.tensor} does not store adds nothing here"
    find = replace(offer.find, because=why)
    return replace(offer, find=find, setups=(Setup(setup.above, table),))


def _inside(query: Query, key: KnownLoad, extent: Expr) -> bool:
    """Whether the key is known to lie in [0, extent) when it is looked up."""
    limit = linear(with_floors(extent)).scaled(key.divisor)
    low, high = Constraint(False, key.numerator), Constraint(False, (limit - key.numerator).plus(-1))
    return query.before.implies(low) and query.before.implies(high)


def _level(query: Query, key: KnownLoad) -> str | None:
    """The outermost loop above which the range is known and may be read."""
    exprs = (*query.find.low, *query.find.high, *other_arguments(key.call, query.find.dim))
    needed = variables(*exprs) - {query.find.dim}
    if any(n.endswith(f".{COUNT}") for n in needed):
        return None  # memory is asked for before it is known how much a table of entries holds
    for step in query.steps:
        if step.dim in query.loops and needed <= query.known_above(step.dim) and _readable(query, key, step):
            return step.dim
    return None


def _readable(query: Query, key: KnownLoad, step: Step) -> bool:
    """Whether the array may be read at every position of the range before this step."""
    assert step.before is not None
    find = query.find
    names = set(step.before.space.names)
    bounds = [Compare(">=", Var(find.dim), e) for e in find.low] + [Compare("<", Var(find.dim), e) for e in find.high]
    inside = [*bounds, *find.given]
    facts = [f for f in query.instance.facts if variables(f) <= query.known_above(step.dim)]
    known = step.before.with_constraints(c for c in comparisons([*inside, *facts]) if c.value.names() <= names)
    wanted = [part for f in query.instance.domains.get(key.dim, ()) for part in conjuncts(f)]
    return all(known.implies(c) for c in comparisons(wanted))


def scattered(query: Query, key: KnownLoad) -> Operand | str:
    """The operand whose values a scatter copies, or why that would not be right."""
    find = query.find
    find_dims = {d for d, _ in find.loads} | {find.dim}
    if find.miss is not None:
        return "something is done where nothing is found"
    if any(find_dims & variables(f) for f in query.remaining(key)):
        return "more than the key decides whether a position is meant"
    dos = list(stores_in(find.hit))
    if len(dos) != 1 or dos[0].op != "+=":
        return "the values are not only added"
    (do,) = dos
    reads = [n.operand for n in walk(do.value) if isinstance(n, Read) and n.operand.place == (Var(find.dim),)]
    if len(reads) != 1:
        return f"not exactly one value is read at {find.dim}"
    used = sum(1 for n in walk(find.hit) if isinstance(n, Var) and n.name in find_dims)
    if used != sum(1 for n in walk(reads[0]) if isinstance(n, Var) and n.name in find_dims):
        return f"{find.dim} is used for more than a value"
    kind = query.types.get(reads[0].tensor, "")
    if kind.startswith("complex"):
        return "a missing complex value cannot be told from a stored zero"
    operands = [do.target, *(n.operand for n in walk(do.value) if isinstance(n, Read))]
    if any(query.types.get(o.tensor) != kind for o in operands):
        return "the values are not all of one type"
    if not _vanishes(do.value, reads[0]):
        return f"{reads[0].tensor} is not a factor of all that is added"
    return reads[0]


def _vanishes(value: Value, operand: Operand) -> bool:
    """Whether the value is zero where the operand is, and linear in it."""
    match value:
        case Read(read_operand):
            return read_operand == operand
        case Apply(arguments=arguments):
            both = {(k, 0) for k in value.operator.distributes} & {*value.operator.annihilators}
            return any(_vanishes(arguments[k], operand) for k, _ in both)
    return False

"""The sums within a value, each with a nest of its own within the loops over the target's points, or before them.

Inside: the sum of a point is made when the point is reached. After: what a value that the statement has just written
adds to the sums of later points, which are kept for all points. Before: the sums of all points in loops of their own.
Which it is, is chosen by a rough count of the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from spfgen import tuning
from spfgen.errors import SpfgenError
from spfgen.facts.formula import Expr, rename, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.analyse.cost import mean_ratio
from spfgen.plan.analyse.injective import with_equal_positions
from spfgen.plan.analyse.order import scan_order
from spfgen.plan.analyse.recurrence import Need
from spfgen.plan.analyse.scan import Step, scan_steps, sources
from spfgen.plan.build.drivers import driven, rough
from spfgen.plan.build.nest import build_nest, known_at, stored_at
from spfgen.plan.context import Context
from spfgen.plan.finds.choose import choose_once
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    Block,
    Define,
    Find,
    FindTable,
    Guard,
    Load,
    Needs,
    Plan,
    Scan,
    SearchState,
    Segment,
    Store,
    chain,
    is_sum,
    with_body,
)
from spfgen.plan.verify.meaning import check_nest
from spfgen.sets.named import Piece, Space
from spfgen.space.nodes import Instance


@dataclass(frozen=True)
class SumNest:
    """A sum within the loops of the point: its steps (those of the point first), and its nest with finds chosen.

    `place` is inside or after; `need` is its read of the target."""

    instance: Instance
    steps: tuple[Step, ...]
    nest: Plan
    place: str = "inside"
    need: Need | None = None

    @property
    def body(self) -> Plan:
        """What the nest has inside of the point's loops."""
        return next(n.body for n in chain(self.nest) if is_sum(n))

    @property
    def does(self) -> Store:
        """What the nest does for each of its points."""
        return next(n for n in chain(self.nest) if isinstance(n, Store))

    def setups(self) -> dict[str, list[Plan]]:
        """What its finds need above the point's loops, by loop."""
        setups: dict[str, list[Plan]] = {}
        waiting: list[Plan] = []
        for node in chain(self.nest):
            match node:
                case Accumulate():
                    break
                case SearchState() | FindTable() | Segment():
                    waiting.append(node)
                case Scan(dim):
                    setups.setdefault(dim, []).extend(waiting)
                    waiting = []
        return setups

    def inspected(self, loop: str) -> Plan | None:
        """The nest's body with the iteration of the loop that each point needs, in place of what it computes there."""
        before = None if self.need is None else self.need.writer(loop)
        if before is None:
            return None
        nodes = list(chain(self.body))
        result: Plan = Needs(before)
        for node in reversed(nodes[:-1]):
            if isinstance(node, Scan | Load | Define) and node.dim not in variables(result):  # type: ignore[arg-type]
                continue  # it makes no difference
            result = with_body(node, result)
        return result


def steps_of(instance: Instance, dims: tuple[str, ...], outer: Sequence[Step] = ()) -> list[Step]:
    """The steps of these dimensions; what the domain says of the others is projected."""
    missing = [n for n in instance.domain.space.names if n not in dims and n not in instance.sizes]
    domain = instance.domain if not missing else instance.domain.project({*instance.sizes, *dims})
    return scan_steps(instance, domain.reordered(Space((*instance.sizes, *dims, *missing))), dims, outer)


def inside(instance: Instance, point: Instance, outer: Sequence[Step], context: Context) -> SumNest:
    """The sum of a point, made where the point's `outer` steps are done."""
    instance = with_equal_positions(_with_sizes(instance, point.sizes))
    first = [s.dim for s in outer if s.dim]
    dims = scan_order(instance, context.order, context.outside, context.named, first)
    return SumNest(instance, tuple(steps_of(instance, dims, outer)), Block(()))


def after(need: Need, point: Instance, outer: Sequence[Step], context: Context) -> SumNest | None:
    """What a value that is written adds to later sums: the same points, in the loops of the value that is read. None
    where it cannot be scanned so."""
    names = {**{old: f"{old} later" for old in need.twins}, **{new: old for old, new in need.twins.items()}}
    space = Space(names.get(n, n) for n in need.pairs.space.names)
    reader = need.instance
    if any(n in need.twins for n in reader.calls) or any(n in need.twins for n in reader.quotients):
        return None
    reader = renamed(reader, names)
    instance = replace(
        reader,
        domain=Piece(space, need.pairs.basic),
        sizes=tuple(dict.fromkeys((*reader.sizes, *point.sizes))),
        indices=tuple(dict.fromkeys((*reader.indices, *point.indices))),
        positions=tuple(dict.fromkeys((*reader.positions, *need.twins))),
    )
    first = [s.dim for s in outer if s.dim]
    try:
        dims = scan_order(instance, context.order, context.outside, context.named, first)
    except SpfgenError:
        return None
    return SumNest(instance, tuple(steps_of(instance, dims, outer)), Block(()), "after")


def chosen(part: SumNest, placed: Any, outer: int, context: Context) -> SumNest:
    """The part with its nest: algorithms of finds chosen, and checked. `placed` makes the node of a step."""
    instance, steps = part.instance, part.steps
    does = stored_at(instance, known_at(instance, steps), instance.op)
    total = (outer, partial(Accumulate, does.target, instance.op, monoid=instance.monoid))
    fixed = [s.dim for s in steps[:outer]] if part.need is None else None
    nest = choose_once(instance, build_nest(instance, steps, does, context, placed, total, fixed), steps, context)
    # Its sum gets all its places later where they change within it (fused.py).
    check_nest(instance, rewrite(lambda n: n.body if _is_at_changing_places(n) else None, nest, PLANS))
    if part.need is not None and context.falling:
        nest = _downwards(nest, part.need, steps)
    return replace(part, nest=nest)


def _is_at_changing_places(node: Any) -> bool:
    """Whether it is a sum of a value whose places follow from loops inside."""
    if not isinstance(node, Accumulate):
        return False
    loops = {n.dim for n in walk(node, PLANS) if isinstance(n, Scan | Find)}
    return any(variables(p) & loops for p in node.target.place)


def _downwards(nest: Plan, need: Need, steps: Sequence[Step]) -> Plan:
    """If the outer loop runs downwards, the inner loops that reach the value read run downwards, too: the newest value
    is then added last, and the additions before need not wait for it."""
    leading = sources(steps, variables(*need.read.place))
    nodes = list(chain(nest))
    first = next(k for k, n in enumerate(nodes) if is_sum(n))
    plain = (Scan, Load, Define, Guard)
    result = nodes[-1]
    is_plain = True
    for k in range(len(nodes) - 2, -1, -1):
        node = nodes[k]
        is_plain = is_plain and isinstance(node, plain)
        if isinstance(node, Scan) and k > first and is_plain and node.dim in leading:
            node = replace(node, down=True)
        result = with_body(node, result)
    return result


def cheaper(one: SumNest, two: SumNest | list[Step], context: Context) -> bool:
    """Whether the second means far less work."""
    steps = list(two.steps) if isinstance(two, SumNest) else two
    other = two.instance if isinstance(two, SumNest) else one.instance
    prices: list[Expr] = [rough(one.instance, list(one.steps)), rough(other, steps)]
    return mean_ratio(prices[0], prices[1], context.stored) > tuning.PLACEMENT_GAIN


def alone(instance: Instance, context: Context) -> list[Step]:
    """The steps of the sums of all points in loops of their own."""
    return driven(with_equal_positions(instance), context)[0]


def _with_sizes(instance: Instance, sizes: Sequence[str]) -> Instance:
    """The instance with further sizes, of which it says nothing."""
    more = [s for s in sizes if s not in instance.sizes]
    if not more:
        return instance
    space = Space((*instance.sizes, *more, *(n for n in instance.domain.space.names if n not in instance.sizes)))
    return replace(instance, sizes=(*instance.sizes, *more), domain=instance.domain.reordered(space))


def without(instance: Instance, loops: Sequence[str]) -> Instance | None:
    """The instance without loops of the point that only its target has, and what comes from them; None where another
    part of it has them too."""
    dropped = set(loops)
    constraints = instance.domain.constraints()
    grown = True
    while grown:
        grown = False
        for constraint in constraints:
            names = constraint.value.names() - set(instance.sizes)
            if constraint.equality and names & dropped and not names <= dropped:
                dropped |= names
                grown = True
    read = {n for o in instance.reads for e in (*o.place, *o.subscripts) for n in variables(e)}
    read |= variables(*instance.calls.values()) | set(instance.calls)
    mixed = any(
        (names := c.value.names() - set(instance.sizes)) & dropped and not names <= dropped for c in constraints
    )
    if mixed or dropped & read or instance.guards:
        return None
    kept = [n for n in instance.domain.space.names if n not in dropped]
    domain = instance.domain.project(kept).without(dropped)
    return replace(
        instance,
        domain=domain,
        indices=tuple(n for n in instance.indices if n not in dropped),
        positions=tuple(n for n in instance.positions if n not in dropped),
        quotients={n: q for n, q in instance.quotients.items() if n not in dropped},
        facts=tuple(f for f in instance.facts if not variables(f) & dropped),
        target=replace(instance.target, place=(), extents=(), positions=(), subscripts=()),
        made=tuple(n for n in instance.made if n not in dropped),
    )


def renamed(instance: Instance, names: Mapping[str, str]) -> Instance:
    """The same with other names for its dimensions."""

    def of(name: str) -> str:
        return names.get(name, name)

    fields = ("target", "value", "reads", "facts", "guards")
    moved: dict[str, Any] = {field: renamed_all(getattr(instance, field), names) for field in fields}
    return replace(
        instance,
        domain=Piece(Space(map(of, instance.domain.space.names)), instance.domain.basic),
        indices=tuple(map(of, instance.indices)),
        positions=tuple(map(of, instance.positions)),
        quotients={of(n): (rename(e, names), d) for n, (e, d) in instance.quotients.items()},
        calls={of(n): rename(c, names) for n, c in instance.calls.items()},
        domains={of(n): renamed_all(f, names) for n, f in instance.domains.items()},
        **moved,
    )


def renamed_all(node: Any, names: Mapping[str, str]) -> Any:
    """A node, or each of several, with other names."""
    return tuple(rename(n, names) for n in node) if isinstance(node, tuple) else rename(node, names)

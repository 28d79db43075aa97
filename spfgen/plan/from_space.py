"""Loop nests for the points of each instance: IR 2 to IR 3.

The steps of the scan (scan.py) are folded into nested nodes from the inside out; sums are kept in a variable where
the place of the target is fixed; loops that only look for a position become finds (finds/).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from spfgen.facts.formula import variables
from spfgen.ir import walk
from spfgen.lang.nodes import Apply
from spfgen.lang.types import TYPES
from spfgen.plan.analyse.cover import covers_by_segments
from spfgen.plan.analyse.depend import (
    INDEPENDENT,
    covers,
    distinct_by_facts,
    distinct_places,
    place_inside,
    sums_disjoint,
)
from spfgen.plan.analyse.injective import with_equal_positions
from spfgen.plan.analyse.order import scan_order
from spfgen.plan.analyse.scan import Step, sources, wrapped
from spfgen.plan.build.drivers import driven, least_work, steps_in_order
from spfgen.plan.build.gather import gathered
from spfgen.plan.build.nest import build_nest, finished_once, known_at, stored_at
from spfgen.plan.build.parts import steps_of
from spfgen.plan.build.slices import sliced
from spfgen.plan.choices import BLOCKED, GATHERED, ONE_REDUCTION, TILE_ORDERS
from spfgen.plan.context import Context
from spfgen.plan.finds.choose import choose_finds
from spfgen.plan.fused import plan_value
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    Append,
    Block,
    Clear,
    Find,
    Finish,
    LevelLoop,
    Plan,
    RegisterTile,
    Scan,
    Segment,
    Version,
    Versions,
    chain,
    is_tile,
)
from spfgen.plan.transform.blocks import blocked
from spfgen.plan.transform.legal import check_order, parallel_loop
from spfgen.plan.transform.passes import ENTRIES, SUM, Given, Nests, Verified, passed, passes_of
from spfgen.plan.transform.register_tile import outside, tiled
from spfgen.plan.transform.simplify import simplify
from spfgen.plan.verify import compared
from spfgen.space.nodes import Group, Instance, Monoid, Operand


def plan_group(group: Group, context: Context) -> Plan:
    """One statement: its output is cleared first, unless the first instance stores every place of it."""
    with compared.about(group):
        return _plan_group(group, context)


def _plan_group(group: Group, context: Context) -> Plan:
    if group.point is not None:
        plans = _of_one_sum(group, group.point, context)
        return plan_value(group, context, plan_instance) if plans is None else _one_behind_the_other(plans)
    if group.target in context.assembled:
        return _plan_entries(group, context)
    parts: list[Plan] = []
    clear = group.op == "="
    if clear and group.target in context.several:
        parts.append(Clear(group.target, "its values are in several arrays, and a nest stores to one"))
    for instance in group.instances:
        parts += plan_instance(instance, context, store=clear and not parts)
    if clear and not parts:
        parts.append(Clear(group.target, "nothing is added"))
    return _one_behind_the_other(parts)


def _one_behind_the_other(parts: Sequence[Plan]) -> Plan:
    return parts[0] if len(parts) == 1 else Block(tuple(parts))


def _of_one_sum(group: Group, point: Instance, context: Context) -> list[Plan] | None:
    """A value that is made of one sum, as `y[i] = sum(j: A[i,j]*x[j])/z[i]`: the nest of the sum, which stores what is
    made of it. None where it is more than that, or the nest does not come by each place once."""
    if len(group.instances) != 1 or group.op != "=" or context.named or not context.makes(ONE_REDUCTION):
        return None
    (added,) = group.instances
    if point.guards or any(o.tensor == group.target for o in (*added.reads, *point.reads)):
        return None
    total, kind = added.target.tensor, context.types[added.target.tensor]
    adding = Apply("add", ())
    monoid = Monoid(adding, kind, adding.operator.identity_of(TYPES[kind]))
    steps = steps_of(point, tuple(scan_order(point)))
    steps_of_point = [s for s in steps if s.dim not in added.domain.space.position]
    if any(s.kind != "locate" or s.guards for s in steps_of_point):
        return None
    body: Plan = stored_at(point, known_at(point, steps), "=")
    for step in reversed(steps_of_point):
        body = wrapped(step, body)
    target = replace(added.target, tensor=group.target)
    instance = replace(added, target=target, value=Apply(kind, (added.value,)), monoid=monoid, finish=total)
    return _planned(instance, context, True, Finish(total, kind, body), point)


def _plan_entries(group: Group, context: Context) -> Plan:
    """One statement whose target is a list of entries: its nests deliver them one after the other."""
    parts: list[Plan] = [Clear(group.target, f"`=` overwrites {group.target}")] if group.op == "=" else []
    nests = [p for instance in group.instances for p in plan_instance(instance, context, store=False)]
    if context.makes(GATHERED) and not context.stop_after:
        nests = gathered(nests, context.assembled[group.target], context.fixed_sizes)
    parts += nests
    return _one_behind_the_other(parts)


def plan_instance(instance: Instance, context: Context, store: bool) -> list[Plan]:
    """The loop nest of an instance. To `store`, the target is cleared first where the nest does not reach each of its
    places exactly once.

    A schedule that only says what is tiled and who runs a loop leaves everything else as it would be without, if its
    loops are there then, where it wants them.
    """
    if context.named and context.leaves_the_rest and not context.free:
        freely = plan_instance(instance, replace(context, free=True), store)
        if all(_is_as_said(context, p) for p in freely if not isinstance(p, Clear)):
            return freely
    plans = _planned(instance, context, store)
    assert plans is not None
    return plans


def plan_reduction(instance: Instance, finish: Finish, context: Context) -> list[Plan] | None:
    """The nest of a reduction that stores what is made of each total. None where it does not come by each place of the
    target exactly once, with all that is combined there."""
    return _planned(instance, context, True, finish)


def _is_as_said(context: Context, plan: Plan) -> bool:
    """Whether the plan has the loops of the schedule in all its nests of which one runs, in their order, and threads
    share those that they are to. Within a tile they cannot: its sums are in registers."""
    if isinstance(plan, Versions):
        return all(_is_as_said(context, v.body) for v in plan.versions)
    in_tiles = (n for tile in walk(plan, PLANS) if is_tile(tile) for n in walk(tile, PLANS))
    loops = [n for n in walk(plan, PLANS) if isinstance(n, Scan)]
    if any(isinstance(n, Scan) and n.parallel for n in in_tiles) or not {*context.named} <= {n.dim for n in loops}:
        return False
    for mark in context.marks:
        shared = [n.parallel for n in loops if n.dim == mark.dim]
        if (mark.word == "parallel" and not any(shared)) or (mark.word == "serial" and any(shared)):
            return False
    nodes = (n.storage if isinstance(n, Accumulate) else n for n in chain(plan))
    order = [n.dim for n in nodes if isinstance(n, Scan | Find | RegisterTile)]
    inside = dict(context.outside)
    return order[: len(context.order)] == [*context.order] and all(
        a not in inside or inside[a] == b for a, b in pairwise((*order, ""))
    )


def _planned(
    instance: Instance, context: Context, store: bool, finish: Finish | None = None, point: Instance | None = None
) -> list[Plan] | None:
    """The nest. With a `finish`, which stores the values of a `point`, None where it does not store each place once.

    Who drives and who is found how is decided by cost; where that depends on the sizes, there are variants.
    """
    best = _arranged(instance, context, store, finish)
    arranged, steps, chosen, stored = best
    if finish is not None and not stored:
        return None
    blocks = tuple(n for n in arranged.made if n not in instance.made)
    given = Given(arranged, tuple(steps), context, blocks, finished=point)
    clear = (Clear(instance.target.tensor, "not every place is reached exactly once"),)
    nests = Nests(tuple(chosen), clear if store and not stored else ())
    kind = ENTRIES if instance.target.tensor in context.assembled else SUM
    return passed(passes_of(kind), given, nests, context, Verified(given, nests)).plans


Arranged = tuple[Instance, list[Step], list[Version], bool]


def _arranged(instance: Instance, context: Context, store: bool, finish: Finish | None) -> Arranged:
    """Who drives, and the nests in which what is to be found is."""
    nests = _nests(with_equal_positions(instance), context, store, finish)
    best = least_work(((a[0], [v.body for v in a[2]], a) for a in nests), context)
    assert best is not None
    return best


def _nests(instance: Instance, context: Context, store: bool, finish: Finish | None) -> Iterator[Arranged]:
    """Those of all orders, one after another."""
    for given, for_tiles in _orders(instance, context):
        blocked_nest = (
            None
            if context.fixed or for_tiles or not context.makes(BLOCKED) or finish is not None
            else blocked(instance, given) or sliced(instance, given)
        )
        arranged, steps = (instance, given) if blocked_nest is None else blocked_nest
        check_order(arranged, steps, context)
        nest, stored = _nest(arranged, steps, store, context, finish)
        chosen = choose_finds(arranged, nest, steps, context)
        if not for_tiles or all(_has_tile(arranged, v.body, context) for v in chosen):
            yield arranged, steps, chosen, stored


def _orders(instance: Instance, context: Context) -> Iterator[tuple[list[Step], bool]]:
    """The orders to be tried, best first, and whether one is meant for register tiles."""
    for steps in driven(instance, context):
        dims = None if context.fixed or not context.makes(TILE_ORDERS) else outside(instance, steps)
        if dims is not None:
            yield steps_in_order(instance, dims), True
        yield steps, False


def _has_tile(instance: Instance, nest: Plan, context: Context) -> bool:
    return any(is_tile(n) for n in walk(tiled(simplify(nest, instance.indices), context.types)))


def _nest(
    instance: Instance, steps: list[Step], store: bool, context: Context, finish: Finish | None
) -> tuple[Plan, bool]:
    """Fold the steps from the inside out; loops that look for a position are finds, not yet chosen. Whether it stores
    each place, from a sum where there is a `finish`."""
    level = _target_level(instance, steps)
    appends = instance.target.tensor in context.assembled
    loops_below = any(s.kind == "scan" for s in steps[level:])
    loops_above = [s.dim for s in steps[:level] if s.kind == "scan"]
    known = known_at(instance, steps)
    at_target = steps[level - 1].known if level else known.space.universe()
    summed = not appends and loops_below and not instance.guards and place_inside(instance, instance.target, at_target)
    # Storing instead of adding: reached whatever the data are, and nothing below may skip it.
    always = summed or not (loops_below or instance.guards or any(s.guards for s in steps[level:]))
    stored = store and always and _data_free(instance, steps[:level]) and covers(instance, at_target, loops_above)
    stored = stored or (store and always and covers_by_segments(instance, steps[:level]))
    stored = stored and (summed or finish is None)
    does = stored_at(instance, known, "=" if stored and not summed else instance.op)
    entry = Append(does.target.tensor, does.target.place, does.value, "its place is found when all entries are there")
    parallel = _parallel_dim(instance, steps, context)
    # A stored sum must be stored whatever happens below; one that is added is best kept within the guards.
    first_loop = next((k for k in range(level, len(steps)) if steps[k].kind == "scan"), len(steps))
    reduce_above = level if stored else _sum_level(instance, steps, first_loop, parallel, context)
    if summed and reduce_above >= 0 and parallel is not None and parallel[0] in [s.dim for s in steps[reduce_above:]]:
        parallel = None  # all of its iterations add to one sum: they write different places if there is but one

    def total(body: Plan) -> Plan:
        return _reduced(instance, does.target, stored, body, finish if stored else None)

    kept = (reduce_above, total) if summed and reduce_above >= 0 else None
    placed = partial(wrapped, parallel=parallel)
    return finished_once(build_nest(instance, steps, entry if appends else does, context, placed, kept)), stored


def _data_free(instance: Instance, steps: list[Step]) -> bool:
    """Whether these steps are reached, and the place is what it is, whatever the index arrays hold."""
    needed = {v for p in instance.target.place for v in variables(p)}
    for step in steps:
        if step.kind == "scan":
            needed |= {step.dim}
        needed |= {v for g in step.guards for v in variables(g)}
    return not any(s.kind == "load" and s.dim in sources(steps, needed) for s in steps)


def _reduced(instance: Instance, target: Operand, stored: bool, body: Plan, finish: Finish | None) -> Plan:
    why = f"all loops below write one place of {target.tensor}"
    if stored:
        why += ", and every place is reached exactly once"
    op = "=" if stored else instance.op
    return Accumulate(target, op, body, because=why, monoid=instance.monoid, finish=finish)


def _sum_level(
    instance: Instance, steps: Sequence[Step], first: int, parallel: tuple[str, str] | None, context: Context
) -> int:
    """The outermost loop from the `first` one on before which a sum may begin; -1 where it may before none.

    It is added to its place whether anything was summed or not: threads must not meet there either.
    """
    shared = [] if parallel is None else [parallel[0]]
    fused = None if parallel is None else context.marked("fuse", parallel[0])
    shared += [] if fused is None else fused.inner
    for k in range(first, len(steps)):
        around = [s.dim for s in steps[:k] if s.kind == "scan" and s.dim in shared]
        if steps[k].kind == "scan" and all(sums_disjoint(instance, steps[:k], dim) for dim in around):
            return k
    return -1


def _target_level(instance: Instance, steps: list[Step]) -> int:
    """After how many steps the place of the target is fixed."""
    needed = {v for p in instance.target.place for v in variables(p)} - set(instance.sizes)
    if instance.guards:
        needed |= {v for g in instance.guards for v in variables(g)} - set(instance.sizes)
    level = 0
    for k, step in enumerate(steps):
        if step.dim in needed:
            level = k + 1
    return level


def _parallel_dim(instance: Instance, steps: list[Step], context: Context) -> tuple[str, str] | None:
    """The loop that is parallel because its iterations are proved to write distinct places, and why: the one that the
    schedule names, else the outermost."""
    text = f"its iterations write different places of {instance.target.tensor}"
    appends = instance.target.tensor in context.assembled
    wanted = parallel_loop(instance, steps, context)
    if wanted is not None:
        if appends:
            return wanted.loop, f"each thread has entries of {instance.target.tensor} of its own"
        if wanted.kind == INDEPENDENT:
            return wanted.loop, text if wanted.how == "by isl" else f"{text} ({wanted.how})"
        return None
    scans = [k for k, s in enumerate(steps) if s.kind == "scan"]
    if not scans:
        return None
    dim = steps[scans[0]].dim
    if context.is_serial(dim):
        return None
    if appends:
        return dim, f"each thread has entries of {instance.target.tensor} of its own"
    if distinct_places(instance, dim):
        return dim, text
    if distinct_by_facts(instance, dim, steps):
        return dim, f"{text} (by Z3 from the declared properties)"
    return None


def scanned(plan: Plan) -> list[str]:
    """The dimensions that are loops or looked for, outermost first."""
    clearing = [
        id(n) for c in walk(plan, PLANS) if isinstance(c, Clear) and c.part is not None for n in walk(c.part, PLANS)
    ]
    loops = [n for n in walk(plan, PLANS) if isinstance(n, Scan | Find | LevelLoop) and id(n) not in clearing]
    return list(dict.fromkeys(n.dim for n in loops))


def looked_for(plan: Plan) -> list[str]:
    """Those of them that are looked for: the others drive."""
    return list(dict.fromkeys(n.dim for n in walk(plan, PLANS) if isinstance(n, Segment | Find)))

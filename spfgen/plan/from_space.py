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
from spfgen.plan.apart import with_apart
from spfgen.plan.blocks import blocked, fetched
from spfgen.plan.check import check_nest
from spfgen.plan.clearing import cleared_before, cleared_inside
from spfgen.plan.context import Context
from spfgen.plan.cover import covers_by_segments
from spfgen.plan.depend import (
    INDEPENDENT,
    covers,
    distinct_by_facts,
    distinct_places,
    place_inside,
    sums_apart,
)
from spfgen.plan.drivers import driven, steps_in_order
from spfgen.plan.ending import with_ends
from spfgen.plan.expression import plan_expression
from spfgen.plan.finds import with_finds
from spfgen.plan.finds.choose import choose_finds
from spfgen.plan.flat import with_flat
from spfgen.plan.injective import with_equal_positions
from spfgen.plan.legal import annotated, check_order, parallel_loop
from spfgen.plan.listed import with_lists
from spfgen.plan.narrow import narrowed
from spfgen.plan.nodes import (
    PLANS,
    Choose,
    Clear,
    Copied,
    Do,
    Find,
    Guard,
    Levels,
    Plan,
    Reduce,
    Scan,
    Segment,
    Seq,
    Sums,
    Sweep,
    Tile,
    Variant,
    chain,
)
from spfgen.plan.order import scan_order
from spfgen.plan.prefetch import fetched_ahead
from spfgen.plan.prefetch_rows import rows_fetched
from spfgen.plan.runs import with_runs
from spfgen.plan.scan import Step, sources, with_quotients, wrapped
from spfgen.plan.scattered import with_scattered
from spfgen.plan.share import measured, on_threads
from spfgen.plan.simplify import simplify
from spfgen.plan.slices import sliced
from spfgen.plan.small import with_lanes, with_sums
from spfgen.plan.sweep import swept
from spfgen.plan.tile import outside, tiled
from spfgen.plan.together import one_by_one, together
from spfgen.plan.transpose import with_transposed
from spfgen.plan.window import with_windows
from spfgen.plan.work import additions
from spfgen.plan.zeros import zeros_left_out, zeros_skipped
from spfgen.sets.affine import Affine
from spfgen.sets.named import Constraint
from spfgen.space.nodes import Group, Instance, Operand


def plan_group(group: Group, context: Context) -> Plan:
    """One statement: its output is cleared first, unless the first instance stores every place of it."""
    if group.point is not None:
        return plan_expression(group, context, plan_instance)
    parts: list[Plan] = []
    clear = group.op == "="
    if clear and group.target in context.several:
        parts.append(Clear(group.target, "its values lie in several arrays, and a nest stores in one"))
    for instance in group.instances:
        parts += plan_instance(instance, context, store=clear and not parts)
    if clear and not parts:
        parts.append(Clear(group.target, "nothing is added"))
    return parts[0] if len(parts) == 1 else Seq(tuple(parts))


def plan_instance(instance: Instance, context: Context, store: bool) -> list[Plan]:
    """The loop nest of an instance. To `store`, the target is cleared first where the nest does not reach each of its
    places exactly once.

    A schedule that only says what is tiled and who runs a loop leaves everything else as it would be without, if its
    loops are there then, where it wants them.
    """
    if context.named and context.leaves_the_rest and not context.free:
        plans = plan_instance(instance, replace(context, free=True), store)
        if all(_is_as_said(context, p) for p in plans if not isinstance(p, Clear)):
            return plans
    return _planned(instance, context, store)


def _is_as_said(context: Context, plan: Plan) -> bool:
    """Whether the plan has the loops of the schedule in all its nests of which one runs, in their order, and threads
    share those that they are to. Within a tile they cannot: its sums are in registers."""
    if isinstance(plan, Choose | Copied):
        nests = [v.body for v in plan.variants] if isinstance(plan, Choose) else [plan.copied, plan.plain]
        return all(_is_as_said(context, n) for n in nests)
    in_tiles = (n for tile in walk(plan, PLANS) if isinstance(tile, Tile) for n in walk(tile, PLANS))
    loops = [n for n in walk(plan, PLANS) if isinstance(n, Scan)]
    if any(isinstance(n, Scan) and n.parallel for n in in_tiles) or not {*context.named} <= {n.dim for n in loops}:
        return False
    for mark in context.marks:
        shared = [n.parallel for n in loops if n.dim == mark.dim]
        if (mark.word == "parallel" and not any(shared)) or (mark.word == "serial" and any(shared)):
            return False
    order = [n.dim for n in chain(plan) if isinstance(n, Scan | Find | Tile)]
    inside = dict(context.outside)
    return order[: len(context.order)] == [*context.order] and all(
        a not in inside or inside[a] == b for a, b in pairwise((*order, ""))
    )


def _planned(instance: Instance, context: Context, store: bool) -> list[Plan]:
    """The nest.

    Who drives and who is found how is decided by cost; where that depends on the sizes, there are variants.
    """
    given = instance
    instance, steps, chosen, stored = _arranged(instance, context, store)
    blocks = [n for n in instance.made if n not in given.made]
    checked: set[object] = set()
    variants = [replace(v, body=_checked(instance, v.body, checked, context)) for v in chosen]
    if context.tuned:
        variants = [replace(v, body=zeros_skipped(instance, v.body, context)) for v in variants]
    copies = [zeros_left_out(instance, v.body, steps, context) if context.tuned else None for v in variants]
    variants += [replace(v, body=found[1]) for v, found in zip(variants, copies, strict=True) if found is not None]
    first: list[Plan] = []
    if store and not stored:
        clear = Clear(instance.target.tensor, "not every place is reached exactly once")
        added = additions(instance, chain(variants[0].body))  # those behind it go through lists of unknown length
        inside = [cleared_inside(instance, v.body, added) for v in variants]
        if any(inside):
            variants = [replace(v, body=nest or Seq((clear, v.body))) for v, nest in zip(variants, inside, strict=True)]
        else:
            first.append(clear)
    names = (*instance.indices, *context.named)  # a loop keeps the name that the schedule has for it
    variants = [replace(v, body=annotated(instance, simplify(v.body, names), steps, context)) for v in variants]
    marked = with_apart(instance, (v.body for v in variants), steps)
    variants = [replace(v, body=nest) for v, nest in zip(variants, marked, strict=True)]
    if not context.tuned:
        variants = [replace(v, body=cleared_before(on_threads(instance, v.body, context))) for v in variants]
        if len(variants) == 1:
            return [*first, variants[0].body]
        return [*first, Choose(tuple(variants), "which is fastest depends on the sizes")]
    if not context.fixed:
        variants = [replace(v, body=tiled(v.body, context.types)) for v in variants]
    variants = [replace(v, body=rows_fetched(fetched_ahead(v.body), context.shapes, instance.sizes)) for v in variants]
    if blocks:
        variants = [replace(v, body=fetched(v.body)) for v in variants]
    variants = [replace(v, body=cleared_before(on_threads(instance, v.body, context))) for v in variants]
    variants = [replace(v, body=with_lists(v.body)) for v in variants]
    if not context.fixed:
        apart = partial(_blocks_apart, instance, steps)
        variants = [replace(v, body=with_runs(with_sums(v.body, apart))) for v in variants]
        variants = [replace(v, body=with_lanes(instance, v.body)) for v in variants]
        variants = [replace(v, body=with_flat(instance, v.body)) for v in variants]
        variants = [replace(v, body=with_scattered(instance, v.body, context.shapes)) for v in variants]
        variants = [replace(v, body=with_windows(v.body, context.types)) for v in variants]
    variants = [replace(v, body=with_ends(instance, v.body)) for v in variants]
    variants = _with_copies(variants, [None if found is None else found[0] for found in copies], names)
    if not context.fixed:
        variants = with_transposed(instance, variants, context)
        variants = [replace(v, body=together(v.body)) for v in variants]
    if len(variants) == 1:
        return [*first, variants[0].body]
    return [*first, Choose(tuple(variants), "which is fastest depends on the sizes")]


def _with_copies(variants: list[Variant], copies: Sequence[Copied | None], names: Sequence[str]) -> list[Variant]:
    """Each variant with the nest that uses a copy, of which there is one behind the variants for each copy."""
    using = iter(variants[len(copies) :])
    result = []
    for variant, copy in zip(variants, copies, strict=False):
        if copy is not None:
            copied = next(using).body
            copy = replace(copy, pick=simplify(copy.pick, names), copied=copied, plain=variant.body)
        result.append(variant if copy is None else replace(variant, body=copy))
    return result


def _arranged(instance: Instance, context: Context, store: bool) -> tuple[Instance, list[Step], list[Variant], bool]:
    """Who drives, and the nests in which what is to be found is: the first order in which nothing has to be compared
    with everything."""
    instance = with_equal_positions(instance)
    for given, for_tiles in _orders(instance, context):
        found = (
            None
            if context.fixed or for_tiles or not context.tuned
            else blocked(instance, given) or sliced(instance, given)
        )
        instance, steps = (instance, given) if found is None else found
        check_order(instance, steps, context)
        nest, stored = _nest(instance, steps, store, context)
        chosen = choose_finds(instance, nest, steps, context)
        if for_tiles and not all(_has_tile(instance, v.body, context) for v in chosen):
            continue
        compared = {n.dim for v in chosen for n in walk(v.body, PLANS) if isinstance(n, Find) and n.key is None}
        if compared <= set(context.forced):
            break
    return instance, steps, chosen, stored


def _orders(instance: Instance, context: Context) -> Iterator[tuple[list[Step], bool]]:
    """The orders to be tried, best first, and whether one is meant for register tiles."""
    for steps in driven(instance, context):
        dims = None if context.fixed or not context.tuned else outside(instance, steps)
        if dims is not None:
            yield steps_in_order(instance, dims), True
        yield steps, False


def _has_tile(instance: Instance, nest: Plan, context: Context) -> bool:
    return any(isinstance(n, Tile) for n in walk(tiled(simplify(nest, instance.indices), context.types)))


def _checked(instance: Instance, nest: Plan, checked: set[object], context: Context) -> Plan:
    """The nest checked against the domain, its loops shared out. Nests that only differ in how they find what they
    find are checked once."""
    nest = measured(instance, nest, context)
    finds = [n for n in walk(nest, PLANS) if isinstance(n, Find)]
    enforced = tuple((f.low, f.high, f.loads, f.conditions, f.given, f.key and (f.key.dim, f.key.value)) for f in finds)
    if enforced not in checked:
        check_nest(instance, nest)
        checked.add(enforced)
    if any(isinstance(n, Scan) and n.dim in context.fixed for n in walk(nest, PLANS)):
        return nest  # the loops are those of the schedule
    return swept(instance, nest) if context.tuned else nest


def _nest(instance: Instance, steps: list[Step], store: bool, context: Context) -> tuple[Plan, bool]:
    """Fold the steps from the inside out; loops that look for a position are finds, not yet chosen."""
    level = _target_level(instance, steps)
    loops_below = any(s.kind == "scan" for s in steps[level:])
    loops_above = [s.dim for s in steps[:level] if s.kind == "scan"]
    known = steps[-1].known if steps else instance.domain.space.universe()
    at_target = steps[level - 1].known if level else known.space.universe()
    summed = loops_below and not instance.guards and place_inside(instance, instance.target, at_target)
    # Storing instead of adding: reached whatever the data are, and nothing below may skip it.
    always = summed or not (loops_below or instance.guards or any(s.guards for s in steps[level:]))
    stored = store and always and _data_free(instance, steps[:level]) and covers(instance, at_target, loops_above)
    stored = stored or (store and always and covers_by_segments(instance, steps[:level]))
    target = replace(instance.target, place=tuple(with_quotients(p, known) for p in instance.target.place))
    body: Plan = Do(target, "=" if stored and not summed else "+=", with_quotients(instance.value, known))
    if instance.guards:
        conditions = tuple(with_quotients(g, known) for g in instance.guards)
        body = Guard(conditions, body, "the place in the value array could not be proved to lie within it")
    parallel = _parallel_dim(instance, steps, context)
    # A stored sum must be stored whatever happens below; one that is added is best kept within the guards.
    first_loop = next((k for k in range(level, len(steps)) if steps[k].kind == "scan"), len(steps))
    reduce_above = level if stored else _sum_level(instance, steps, first_loop, parallel, context)
    last = max((k for k, s in enumerate(steps) if s.kind == "scan"), default=-1)
    for k in range(len(steps) - 1, -1, -1):
        body = wrapped(steps[k], body, parallel)
        if k == last and isinstance(body, Scan):
            body = replace(body, held=_held(instance, steps, k))
        if summed and k == reduce_above:
            body = _reduced(target, stored, body)
    return with_finds(narrowed(instance, body, steps) if context.level else body), stored


def _data_free(instance: Instance, steps: list[Step]) -> bool:
    """Whether these steps are reached, and the place is what it is, whatever the index arrays hold."""
    needed = {v for p in instance.target.place for v in variables(p)}
    for step in steps:
        if step.kind == "scan":
            needed |= {step.dim}
        needed |= {v for g in step.guards for v in variables(g)}
    return not any(s.kind == "load" and s.dim in sources(steps, needed) for s in steps)


def _held(instance: Instance, steps: list[Step], loop: int) -> tuple[str, ...]:
    """The accesses whose values are the same in all iterations of a loop and lie within their arrays even where the
    loop has no iteration."""
    known = steps[loop].before
    assert known is not None
    fixed = {*instance.sizes, *(s.dim for s in steps[:loop])}
    return tuple(
        o.label
        for o in instance.reads
        if o.place and {v for p in o.place for v in variables(p)} <= fixed and place_inside(instance, o, known)
    )


def _reduced(target: Operand, stored: bool, body: Plan) -> Plan:
    why = f"all loops below write one place of {target.tensor}"
    if stored:
        why += ", and every place is reached exactly once"
    return Reduce(target, "=" if stored else "+=", body, why)


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
        if steps[k].kind == "scan" and all(sums_apart(instance, steps[:k], dim) for dim in around):
            return k
    return -1


def _blocks_apart(instance: Instance, steps: Sequence[Step], sums: Sums, own: str, loop: str, above: set[str]) -> bool:
    """Whether the sums of whole small blocks go to different places in different iterations of a loop around them.
    `own` is the loop that has a sum in each iteration."""
    if own != sums.dim:
        return _slices_apart(instance, steps, own, loop, above)
    level = max((k + 1 for k, s in enumerate(steps) if s.dim in above), default=0)  # some before it are not needed
    around = steps[:level]
    step = next((s for s in steps[level:] if s.dim == sums.dim), None)
    spoken = {v for p in sums.target.place for v in variables(p)}
    if step is None or loop not in {s.dim for s in around} or not spoken <= set(instance.domain.space.names):
        return False
    at = Affine(((sums.dim, 1),))
    inside = [Constraint(False, at), Constraint(False, at.scaled(-1).plus(sums.count - 1))]
    visited = [*around, replace(step, known=around[-1].known.with_constraints(inside))]
    return sums_apart(replace(instance, target=sums.target), visited, loop)


def _slices_apart(instance: Instance, steps: Sequence[Step], own: str, loop: str, above: set[str]) -> bool:
    """The same of sums that are stored where only the loops around and `own` are known, whatever was summed: the steps
    of an order that begins with those say to what places."""
    scans = [s.dim for s in steps if s.kind == "scan"]
    around = [d for d in scans if d in above]
    first = steps_in_order(instance, scan_order(instance, (*around, own, *(d for d in scans if d not in around))))
    order = [s.dim for s in first if s.kind == "scan"]
    last = next((k for k, s in enumerate(first) if s.kind == "scan" and s.dim not in (*around, own)), len(first))
    visited = first[:last]
    if order[: len(around) + 1] != [*around, own] or loop not in around or any(s.guards for s in visited):
        return False
    if not {v for p in instance.target.place for v in variables(p)} <= {*(s.dim for s in visited), *instance.sizes}:
        return False
    return sums_apart(instance, visited, loop)


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
    wanted = parallel_loop(instance, steps, context)
    if wanted is not None:
        if wanted.kind == INDEPENDENT:
            return wanted.loop, text if wanted.how == "by isl" else f"{text} ({wanted.how})"
        return None
    scans = [k for k, s in enumerate(steps) if s.kind == "scan"]
    if not scans:
        return None
    dim = steps[scans[0]].dim
    if context.is_serial(dim):
        return None
    if distinct_places(instance, dim):
        return dim, text
    if distinct_by_facts(instance, dim, steps):
        return dim, f"{text} (by Z3 from the declared properties)"
    return None


def scanned(plan: Plan) -> list[str]:
    """The dimensions that are loops or looked for, outermost first."""
    plan = one_by_one(plan)
    clearing = [
        id(n) for c in walk(plan, PLANS) if isinstance(c, Clear) and c.part is not None for n in walk(c.part, PLANS)
    ]
    loops = [n for n in walk(plan, PLANS) if isinstance(n, Scan | Sweep | Find | Levels) and id(n) not in clearing]
    return list(dict.fromkeys(n.dim for n in loops))


def looked_for(plan: Plan) -> list[str]:
    """Those of them that are looked for: the others drive."""
    return list(dict.fromkeys(n.dim for n in walk(plan, PLANS) if isinstance(n, Segment | Find)))

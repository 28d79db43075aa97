"""What the schedule says of the loops of steps: by which names a nest knows them, and whether the plan has it so.

Steps have many nests, and rewrites behind them: whatever a clause asks for is looked for in the plan at last. What is
not there is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spfgen.errors import Span, SpecError
from spfgen.ir import children, walk
from spfgen.lang.expressions import raise_all
from spfgen.lang.nodes import Reduce
from spfgen.plan.context import Context, out_of_order
from spfgen.plan.finds.choose import ALGORITHMS
from spfgen.plan.nodes import (
    PLANS,
    Block,
    BoundSearch,
    Clear,
    Define,
    Find,
    LevelLoop,
    Load,
    Plan,
    Products,
    Scan,
    Segment,
    stores_in,
)
from spfgen.sets.affine import Affine
from spfgen.sets.named import Constraint
from spfgen.space.nodes import Instance, Mark, Steps

OTHERWISE = "leave the clause out: `explain` without it shows which loops there are, and what is found how"


def scheduled_nests(instances: Sequence[Instance], context: Context, called: Mapping[str, str]) -> Context:
    """What the schedule says of the nests of these points, by the names of their dimensions."""
    if not (context.named or context.forced):
        return context
    written = {d: name for i in instances for d, name in names_in_text(i, called).items()}
    dims: dict[str, list[str]] = {}
    for dim, name in written.items():
        dims.setdefault(name, []).append(dim)

    def meant(name: str) -> Sequence[str]:
        return (name,) if name in written else dims.get(name, ())

    marks = [replace(m, dim=dim) for m in context.marks for dim in meant(m.dim)]
    return replace(
        context,
        order=tuple(dim for name in context.order for dim in meant(name)),
        marks=tuple(marks),
        outside=tuple((outer, inner) for outer, inner in context.outside if inner in written),
        forced={d: replace(f, dim=d) for name, f in context.forced.items() for d in dims.get(name, ())},
    )


def names_in_text(instance: Instance, called: Mapping[str, str]) -> dict[str, str]:
    """What the text calls the dimensions of a nest."""
    operands = (instance.target, *instance.reads)
    positions = {p: f"{o.tensor}.{p.removeprefix(f'{o.label}.')}" for o in operands for p in o.positions}
    return {d: positions.get(d, called.get(d, d)) for d in instance.domain.space.names}


def check_clauses(plan: Plan, context: Context, written: Mapping[str, str], steps: Steps) -> None:
    """Raises SpecError(s) where the plan is not as the schedule says."""
    if not (context.named or context.forced):
        return
    nodes = [n for n in _run(plan) if isinstance(n, Plan)]
    loops = [n for n in nodes if isinstance(n, Scan | LevelLoop)]

    def named(name: str, of: Sequence[Plan]) -> list[Plan]:
        return [n for n in of if name in (n.dim, written.get(n.dim, n.dim))]  # type: ignore[attr-defined]

    searches = [n for n in nodes if isinstance(n, Find | Segment)]
    known = [n for n in nodes if isinstance(n, Load | Define)]
    ordered = _ordered(steps, written)
    errors = []
    for mark in context.marks:
        marked_loops = named(mark.dim, loops)
        looked_for = named(mark.dim, searches)
        if mark.word == "order":
            if not marked_loops and not looked_for and not named(mark.dim, known) and mark.dim not in ordered:
                errors.append(_no_loop(mark.dim, mark.span, NO_LOOP, loops, written))
        elif not marked_loops:
            name = dict(context.outside).get(mark.dim, mark.dim)
            why = SOUGHT if looked_for else KNOWN if named(name, known) else NO_LOOP
            errors.append(_no_loop(name, mark.span, why, loops, written))
        elif mark.word == "levels":
            errors += [] if any(isinstance(n, LevelLoop) for n in marked_loops) else [_no_levels(mark, marked_loops)]
        elif mark.word == "serial" and any(n.parallel for n in marked_loops if isinstance(n, Scan)):
            errors.append(SpecError(f"expected a loop over `{mark.dim}` that can be serial", mark.span, (OTHERWISE,)))
        elif mark.word == "parallel":  # of sums of products it has been asked where they were planned (legal.py)
            among = {id(n) for p in nodes if isinstance(p, Products) for n in walk(p, PLANS)}
            scans = [n for n in marked_loops if isinstance(n, Scan) and id(n) not in among]
            errors += _not_parallel(plan, scans, mark.dim, mark.span, written)
    for name, forced in context.forced.items():
        finds = [n for n in named(name, searches) if isinstance(n, Find)]
        if not finds and not named(name, [n for n in nodes if isinstance(n, Segment | BoundSearch)]):
            what = "a loop runs over it, or it is computed from what is known" if name in written.values() else ""
            what = what or "no nest of loops is about it: it is merged with others, or kept in a table"
            message = f"expected a position that is searched for, but `{name}` is not"
            way = "`explain` without the schedule shows which positions are; `order` decides which tensor drives"
            errors.append(SpecError(message, forced.span, (what, way)))
        elif others := [n.algorithm for n in finds if n.algorithm != ALGORITHMS.get(forced.algorithm, n.algorithm)]:
            message = f"expected `{name}` to be found by {forced.algorithm}, but that is not how {others[0]} is made"
            errors.append(SpecError(message, forced.span, (OTHERWISE,)))
    equal = _equal(steps, context.order)
    errors += out_of_order(plan, context, written, _second_accesses(steps, written), equal)
    raise_all(errors)


def _equal(steps: Steps, order: Sequence[str]) -> dict[str, str]:
    """Positions that always equal one of the same operand that the schedule names, as in a block on the diagonal."""
    equal: dict[str, str] = {}
    for asked in steps.sums.values():
        for instance in asked.group.instances:
            for operand in instance.reads:
                for named in {*operand.positions} & {*order}:
                    for other in (p for p in operand.positions if p not in order):
                        if instance.domain.implies(Constraint(True, Affine(((named, 1), (other, -1))))):
                            equal[other] = named
    return equal


def _second_accesses(steps: Steps, written: Mapping[str, str]) -> set[str]:
    """Positions of accesses that stand beside the first one of their tensor, which may have no loops of its own."""
    seconds: set[str] = set()
    for asked in steps.sums.values():
        for instance in asked.group.instances:
            positions = {p for o in instance.reads for p in o.positions}
            seconds |= {p for p in positions if written.get(p, p) != p and written[p] in positions}
    return seconds


def _ordered(steps: Steps, written: Mapping[str, str]) -> set[str]:
    """What an order of sums of products may speak of: some of it may be computed from the rest in the end, and a
    statement that has no points has no loops over its indices."""
    names: set[str] = set()
    for equation, asked in steps.sums.items():
        for instance in asked.group.instances:
            names |= {*names_in_text(instance, written).values()}
        if not asked.group.instances:
            inner = (i for n in walk(equation.value) if isinstance(n, Reduce) for i in n.indices)
            names |= {steps.called.get(i, i) for i in (*equation.indices, *inner)}
    return names


SOUGHT = "is looked for"
KNOWN = "has one value in each iteration of the loops around it"
NO_LOOP = "has none of its own: it is computed, or merged with others"


def _no_loop(
    name: str, span: Span | None, what: str, loops: Sequence[Scan | LevelLoop], written: Mapping[str, str]
) -> SpecError:
    known = sorted({written.get(n.dim, n.dim) for n in loops} & {*written.values()})
    hints = (f"loops: {', '.join(known) or 'none'}", f"`order {name}, ...` asks for a loop over it")
    return SpecError(f"expected a loop, but `{name}` {what}", span, hints)


def _not_parallel(
    plan: Plan, marked_loops: Sequence[Scan], name: str, span: Span | None, written: Mapping[str, str]
) -> Iterator[SpecError]:
    for outer in (n for n in _run(plan) if isinstance(n, Scan) and n.parallel):
        if any(n is inner for n in marked_loops for inner in walk(outer.body, PLANS)):
            around = written.get(outer.dim, outer.dim)
            message = f"expected a loop that is not within another parallel one, but `{name}` is within `{around}`"
            yield SpecError(message, span, (f"make the outer loop parallel, or `serial {around}; parallel {name}`",))
            return
    if not all(n.parallel for n in marked_loops):
        message = f"expected a loop whose iterations can run in any order, but that is not proved of `{name}`"
        why = "they would have to write different places, or combine values by a commutative and associative function"
        yield SpecError(message, span, (why, OTHERWISE))


def _run(plan: Any) -> Iterator[object]:
    """The nodes of a plan, but for what only clears."""
    yield plan
    inside = [plan.body] if isinstance(plan, Clear) else children(plan)
    for child in inside:
        if isinstance(child, PLANS):
            yield from _run(child)


def _no_levels(mark: Mark, marked_loops: Sequence[Plan]) -> SpecError:
    if any(map(_adds_behind, (n for scan in marked_loops for n in walk(scan, PLANS)))):
        message = f"expected a loop that reads what others have written, but `{mark.dim}` adds to what others read"
        hint = "iterations that add to one place cannot run at once: convert to a layout by rows, such as csr"
    else:
        message = f"expected a loop whose iterations need others as index arrays say, but `{mark.dim}` is not one"
        hint = "levels are for the outermost loop of statements such as `x[i] = b[i] - sum(j < i: L[i, j]*x[j])`"
    return SpecError(message, mark.span, (hint,))


def _adds_behind(node: object) -> bool:
    """Whether something is added to behind what is stored there."""
    if not isinstance(node, Block):
        return False
    ops = [[n.op for n in stores_in(part)] for part in node.parts]
    first = next((k for k, ops_of_part in enumerate(ops) if "=" in ops_of_part), len(ops))
    return any("+=" in ops_of_part for ops_of_part in ops[first + 1 :])

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
from spfgen.plan.context import Context, out_of_order
from spfgen.plan.finds.choose import ALGORITHMS
from spfgen.plan.nodes import PLANS, Bound, Clear, Define, Find, Load, Locate, Plan, Scan, Segment
from spfgen.space.nodes import Instance

OTHERWISE = "leave the clause out: `explain` without it shows which loops there are, and what is found how"


def said_of(instances: Sequence[Instance], context: Context, called: Mapping[str, str]) -> Context:
    """What the schedule says of the nests of these points, by the names of their dimensions."""
    if not (context.named or context.forced):
        return context
    written = {d: name for i in instances for d, name in written_in(i, called).items()}
    dims: dict[str, list[str]] = {}
    for dim, name in written.items():
        dims.setdefault(name, []).append(dim)
    marks = [replace(m, dim=dim) for m in context.marks for dim in dims.get(m.dim, ())]
    return replace(
        context,
        order=tuple(dim for name in context.order for dim in dims.get(name, ())),
        marks=tuple(marks),
        forced={d: replace(f, dim=d) for name, f in context.forced.items() for d in dims.get(name, ())},
    )


def written_in(instance: Instance, called: Mapping[str, str]) -> dict[str, str]:
    """What the text calls the dimensions of a nest."""
    operands = (instance.target, *instance.reads)
    positions = {p: f"{o.tensor}.{p.removeprefix(f'{o.label}.')}" for o in operands for p in o.positions}
    return {d: positions.get(d, called.get(d, d)) for d in instance.domain.space.names}


def check_said(plan: Plan, context: Context, written: Mapping[str, str]) -> None:
    """Raises SpecError(s) where the plan is not as the schedule says."""
    nodes = [n for n in _run(plan) if isinstance(n, Plan)]
    loops = [n for n in nodes if isinstance(n, Scan)]

    def named(name: str, of: Sequence[Plan]) -> list[Plan]:
        return [n for n in of if written.get(n.dim, n.dim) == name]  # type: ignore[attr-defined]

    found = [n for n in nodes if isinstance(n, Find | Segment)]
    known = [n for n in nodes if isinstance(n, Load | Locate | Define)]
    errors = []
    for mark in context.marks:
        own = [n for n in named(mark.dim, loops) if isinstance(n, Scan)]
        looked_for = named(mark.dim, found)
        if mark.word == "order":
            if not own and not looked_for and not named(mark.dim, known):
                errors.append(_no_loop(mark.dim, mark.span, False, loops, written))
        elif not own:
            errors.append(_no_loop(mark.dim, mark.span, bool(looked_for), loops, written))
        elif mark.word == "serial" and any(n.parallel for n in own):
            errors.append(SpecError(f"expected a loop over `{mark.dim}` that can be serial", mark.span, (OTHERWISE,)))
        elif mark.word == "parallel":
            errors += _not_parallel(plan, own, mark.dim, mark.span, written)
    for name, forced in context.forced.items():
        finds = [n for n in named(name, found) if isinstance(n, Find)]
        if not finds and not named(name, [n for n in nodes if isinstance(n, Segment | Bound)]):
            what = "a loop runs over it, or it is computed from what is known" if name in written.values() else ""
            what = what or "no nest of loops is about it: it is merged with others, or kept in a table"
            message = f"expected a position that is searched for, but `{name}` is not"
            errors.append(SpecError(message, forced.span, (what, OTHERWISE)))
        elif others := [n.algorithm for n in finds if n.algorithm != ALGORITHMS[forced.algorithm]]:
            message = f"expected `{name}` to be found by {forced.algorithm}, but that is not how {others[0]} is made"
            errors.append(SpecError(message, forced.span, (OTHERWISE,)))
    errors += out_of_order(plan, context, written)
    raise_all(errors)


def _no_loop(
    name: str, span: Span | None, is_found: bool, loops: Sequence[Scan], written: Mapping[str, str]
) -> SpecError:
    what = "is looked for" if is_found else "has none of its own: it follows from others, or is merged"
    known = sorted({written.get(n.dim, n.dim) for n in loops} & {*written.values()})
    hints = (f"loops: {', '.join(known) or 'none'}", f"`order {name}, ...` asks for a loop over it")
    return SpecError(f"expected a loop, but `{name}` {what}", span, hints)


def _not_parallel(
    plan: Plan, own: Sequence[Scan], name: str, span: Span | None, written: Mapping[str, str]
) -> Iterator[SpecError]:
    for outer in (n for n in _run(plan) if isinstance(n, Scan) and n.parallel):
        if any(n is inner for n in own for inner in walk(outer.body, PLANS)):
            around = written.get(outer.dim, outer.dim)
            message = f"expected a loop that is not within another parallel one, but `{name}` is within `{around}`"
            yield SpecError(message, span, (f"make the outer loop parallel, or `serial {around}; parallel {name}`",))
            return
    if not all(n.parallel for n in own):
        message = f"expected a loop whose iterations can run in any order, but that is not proved of `{name}`"
        why = "they would have to write different places, or combine values by a function of which the order is free"
        yield SpecError(message, span, (why, OTHERWISE))


def _run(plan: Any) -> Iterator[object]:
    """The nodes of a plan, but for what only clears."""
    yield plan
    if not isinstance(plan, Clear):
        for child in children(plan):
            if isinstance(child, PLANS):
                yield from _run(child)

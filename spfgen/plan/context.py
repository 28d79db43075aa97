"""What planning needs to know of the program besides the instance at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from spfgen.errors import SpecError
from spfgen.ir import walk
from spfgen.plan.nodes import Find, Plan, Segment
from spfgen.space.nodes import ForcedFind, Program


@dataclass(frozen=True)
class Context:
    """`order` and `forced` (by position) are the schedule; `types` the value types of the tensors; `stored` gives for
    each size of a layout (how much it stores) the extents of its tensor; `several` are the tensors whose values lie in
    more than one array."""

    order: tuple[str, ...] = ()
    forced: Mapping[str, ForcedFind] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    stored: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    several: frozenset[str] = frozenset()


def context_of(program: Program) -> Context:
    return Context(
        program.order,
        {f.dim: f for f in program.finds},
        {t.name: t.value_type for t in program.tensors},
        {s: t.extents for t in program.tensors for s in t.sizes},
        frozenset(t.name for t in program.tensors if len(t.layout.values) > 1),
    )


def check_met(context: Context, plans: Iterable[Plan]) -> None:
    """Raises SpecError when the schedule says how to find a position that no plan looks for."""
    met = {n.dim for plan in plans for n in walk(plan) if isinstance(n, Find | Segment)}
    wanted: dict[str, list[str]] = {}
    for dim, forced in context.forced.items():
        wanted.setdefault(forced.written, []).append(dim)
    for dims in wanted.values():
        if not met & set(dims):
            forced = context.forced[dims[0]]
            raise SpecError(
                f"expected a position that is looked for, but `{dims[0]}` is not",
                forced.span,
                (
                    "a loop runs over it, or it is computed from what is known",
                    "`explain` without the schedule shows which positions are found; `order` decides who drives",
                ),
            )

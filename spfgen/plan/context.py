"""What planning needs to know of the program besides the instance at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spfgen.space.nodes import ForcedFind, Program


@dataclass(frozen=True)
class Context:
    """`order` and `forced` (by position) are the schedule; `types` the value types of the tensors; `stored` gives for
    each size of a layout (how much it stores) the extents of its tensor."""

    order: tuple[str, ...] = ()
    forced: Mapping[str, ForcedFind] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    stored: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def context_of(program: Program) -> Context:
    return Context(
        program.order,
        {f.dim: f for f in program.finds},
        {t.name: t.value_type for t in program.tensors},
        {s: t.extents for t in program.tensors for s in t.sizes},
    )

"""Checks that all computed entries have a place in their target, a sparse tensor with a given pattern: else the call
fails.

Equations outside of loops are looked at before the call (space/pattern_overflow.py). What loops and
conditions do, and what places that are values lead to, depends on values. Where it is not proved, the kernel asks while
it runs: before it stores a value, whether the target has its place, and where not, whether the value is another than
what the target is there. An equation outside of loops is asked whole before it writes anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spfgen.lang import nodes as lang
from spfgen.lang.show import show_statement
from spfgen.plan.nodes import Assign, Block, If, Let, Plan
from spfgen.plan.steps.env import LOST, Env, cast, number_of
from spfgen.plan.steps.equations import Equations
from spfgen.space.nodes import Tensor
from spfgen.space.pattern_overflow import is_given, regions_of, same_pattern
from spfgen.space.regions import Region
from spfgen.space.steps import Equation
from spfgen.space.typed import Scalar


class OverflowChecks(Equations):
    """What loops compute has a place in its target, or the call fails."""

    def asked_for_place(self, eq: Equation, env: Env) -> list[Plan]:
        """What is done before the equation to see that all that it computes has a place."""
        target = self.tensors[eq.target]
        local = {t.name for t in self.program.temporaries}
        if eq.within or eq.target in local or eq.target in self.collected or not is_given(target) or _is_shared(target):
            return []
        access = lang.Access(eq.target, eq.subscripts, eq.span)
        value_regions = regions_of(eq, access, target, self.regions)
        regions = [r for r in [Region(())] if value_regions is None] if value_regions is None else value_regions
        regions = [r for r in regions if not self._has_place(r, access, target)]
        if not regions:
            return []

        def leaf(inner: Env) -> Plan:
            lines: list[Plan] = []
            for place in eq.at:
                more, inner = self.placed(place.name, place.value, access, inner)
                lines += more
            more, there, inner = self.looked_up(access, inner)
            if there == lang.Constant(True):
                return Block(())
            return Block((*lines, *more, If(lang.Apply("logical_not", (there,)), self._told(eq, target, inner))))

        self.loses = True
        alone = replace(env, parallel=env.parallel and not env.known, own=True)  # threads say it in one flag
        return self.passes(regions, eq.indices, self.where_it_runs(eq, access), leaf, alone)

    def is_asked(self, eq: Equation) -> bool:
        """Whether the doubt of an equation outside of loops is one that the kernel settles."""
        return any(d.asked and show_statement(d.statement) == eq.text for d in self.program.doubts)

    def _has_place(self, region: Region, access: lang.Access, target: Tensor) -> bool:
        """Whether an access of the region is the target's own pattern at the same place."""
        alike = [self.tensors[a.tensor] for a in region.accesses if a.subscripts == access.subscripts]
        return not region.links and any(t.arrays and same_pattern(t, target) for t in alike)

    def _told(self, eq: Equation, target: Tensor, env: Env) -> Plan:
        """Where the target has no place: whether the value would change it."""
        lines, value = self.point_value(eq.value, env)
        kind = target.value_type
        if eq.updates is not None:
            value = replace(eq.updates, arguments=(number_of(target.layout.fill, kind), value))
        lost = Scalar(self.fresh("lost_value"), kind)
        test: Any = self.differs(lost, target.layout.fill)
        return Block(
            (*lines, Let(lost.name, kind, cast(value, kind)), If(test, Assign(LOST, "bool", lang.Constant(True))))
        )


def _is_shared(target: Tensor) -> bool:
    """Whether its pattern is another tensor's, which says that only that is wanted."""
    return bool(target.arrays) and all(function.partition(".")[0] != target.name for _, function in target.arrays)

"""Plans that do the same, of which one runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from spfgen.facts.formula import Expr, Formula
from spfgen.facts.reach import RangeStep, compared
from spfgen.plan.nodes.base import Inside, Plan
from spfgen.plan.text import show_conditions


@dataclass(frozen=True, slots=True)
class Cheapest:
    """That no other version is expected to take less time: `cost` is a formula in the sizes, in nanoseconds
    (plan/analyse/cost.py)."""

    cost: Expr


@dataclass(frozen=True, slots=True)
class Version:
    """A plan and its predicate: that it is the cheapest, or that all of these conditions hold. Where they do it is
    known how often loops run, or what they would ask. `by_order`: Z3 has proved from the order of an index array that
    it does the same as the others, which cannot be told from the points alone (verify/meaning.py)."""

    when: tuple[Formula, ...] | Cheapest
    body: Plan
    because: str = ""
    by_order: bool = False

    @property
    def cost(self) -> Expr:
        """What it costs, if that decides."""
        assert isinstance(self.when, Cheapest)
        return self.when.cost


@dataclass(frozen=True, slots=True)
class Versions(Plan):
    """The first version whose predicate holds runs. The last one is right whatever holds."""

    versions: tuple[Version, ...]
    because: str = ""

    @property
    def by_cost(self) -> bool:
        """Whether costs decide, not conditions."""
        return isinstance(self.versions[0].when, Cheapest)

    @property
    def inner(self) -> Plan | None:
        return None if self.by_cost else self.versions[-1].body

    def with_inner(self, inner: Plan) -> Plan:
        *others, last = self.versions
        return replace(self, versions=(*others, replace(last, body=inner)))

    def computed(self) -> Iterator[RangeStep]:
        for version in self.versions:
            if not isinstance(version.when, Cheapest):
                yield RangeStep(tuple(compared(version.when)))

    @property
    def reason(self) -> str:
        return ""

    def shown(self) -> Iterator[Inside]:
        for number, version in enumerate(self.versions, 1):
            match version.when:
                case Cheapest():
                    why = self.because if number == 1 else ""
                    yield Inside(version.body, f"variant {number} of {len(self.versions)}", because=why)
                case ():
                    yield Inside(version.body, "always" if number == 1 else "elsewhere", because=version.because)
                    return
                case conditions:
                    yield Inside(version.body, f"where {show_conditions(conditions)}", because=version.because)


def specialised(when: tuple[Formula, ...], special: Plan, plan: Plan, because: str, by_order: bool = False) -> Versions:
    """A special version where the conditions hold, beside the plan."""
    return Versions((Version(when, special, because, by_order), Version((), plan)))

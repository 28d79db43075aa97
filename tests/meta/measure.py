"""How much of what is wrong with plans the verifier sees: mutants whose result differs, and those that it refuses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from spfgen.errors import InternalError
from spfgen.plan.assemble.in_place import check_in_place
from spfgen.plan.verify.compared import Compared
from spfgen.plan.verify.whole import check_plan
from tests.meta.mutate import KINDS, Mutant, mutants
from tests.meta.programs import CHOICES, STEPS, Bounded, Planned, bounded_by, same

PLANNER = "steps as planned"
"""Mutants of steps as mistakes of the planner: what the plan was before it was rewritten is not looked at."""
OF_A_KIND = 3
"""So many mutants of a kind are drawn of each plan."""
RUNS = 2
"""On so many operands a plan is carried out."""


@dataclass
class Share:
    """Of so many that differ so many are refused."""

    refused: int = 0
    differ: int = 0

    def count(self, refused: bool) -> None:
        self.refused += refused
        self.differ += 1

    def __str__(self) -> str:
        return f"{self.refused} of {self.differ}" + (f" ({self.refused / self.differ:.0%})" if self.differ else "")


@dataclass
class Measured:
    """By road and kind; `missed` are those that are not refused."""

    shares: dict[tuple[str, str], Share] = field(default_factory=lambda: defaultdict(Share))
    missed: list[tuple[Planned, Mutant]] = field(default_factory=list)
    plans: int = 0

    def total(self, road: str = "") -> Share:
        own = [s for (r, _), s in self.shares.items() if r == road or (not road and r != PLANNER)]
        return Share(sum(s.refused for s in own), sum(s.differ for s in own))

    def table(self) -> str:
        roads = sorted({r for r, _ in self.shares})
        lines = [f"{r:18} {k:32} {self.shares[r, k]}" for r in roads for k in KINDS if (r, k) in self.shares]
        return "\n".join([*lines, *(f"{r or 'all':51} {self.total(r)}" for r in (*roads, ""))])


def measured(programs: Iterable[Planned], of_a_kind: int = OF_A_KIND) -> Measured:
    found = Measured()
    for number, planned in enumerate(programs):
        found.plans += 1
        rng = np.random.default_rng([number, 48])
        before = [
            (run, choice, planned.results(planned.plans, run, choice, effort), effort)
            for run in planned.runs[:RUNS]
            for choice in CHOICES
            for effort in [Bounded()]
        ]
        if any(isinstance(b, str) and b != "refused" for _, _, b, _ in before):
            raise AssertionError(f"the plan itself is wrong: {planned.text}")
        for at, mutant in drawn(planned, rng, of_a_kind):
            plans = (*planned.plans[:at], mutant.plan, *planned.plans[at + 1 :])
            if all(same(r, planned.results(plans, run, choice, bounded_by(e))) for run, choice, r, e in before):
                continue
            seen = refuses(planned, at, mutant, planned.compared)
            found.shares[planned.road, mutant.kind].count(seen)
            if planned.road == STEPS:
                alone = replace(planned.compared, planned=[])
                found.shares[PLANNER, mutant.kind].count(refuses(planned, at, mutant, alone))
            if not seen:
                found.missed.append((planned, mutant))
    return found


def drawn(planned: Planned, rng: np.random.Generator, of_a_kind: int) -> Iterator[tuple[int, Mutant]]:
    """Some of the mutants of each kind."""
    by_kind: dict[str, list[tuple[int, Mutant]]] = defaultdict(list)
    for at, plan in enumerate(planned.plans):
        for mutant in mutants(plan):
            by_kind[mutant.kind].append((at, mutant))
    for found in by_kind.values():
        for k in sorted(rng.permutation(len(found))[:of_a_kind]):
            yield found[k]


def refuses(planned: Planned, at: int, mutant: Mutant, compared: Compared) -> bool:
    """Whether the verifier says that this plan of a statement is not what was asked for, or knows less of it than of
    the right one: what it does not know is not claimed (plan/verify/claims.py)."""
    own = planned.plans[at]
    check_in_place(own, planned.program)
    known = check_plan(own, planned.program, compared)
    try:
        check_in_place(mutant.plan, planned.program)
        return check_plan(mutant.plan, planned.program, compared).is_more_than(known)
    except InternalError:
        return True

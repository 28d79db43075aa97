"""Rewrites of the plan of a kernel's steps in their order: named passes, each a function from plan to plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from spfgen.facts.formula import Expr
from spfgen.ir import walk
from spfgen.lang.expressions import counted
from spfgen.plan.context import Context
from spfgen.plan.nodes import PLANS, Block, Plan, Products
from spfgen.plan.steps.index_sets import with_split_loops
from spfgen.plan.steps.interval_results import with_intervals
from spfgen.plan.steps.invariant import with_invariants_outside
from spfgen.plan.steps.lookups import with_lookups_outside
from spfgen.plan.steps.privatize_copies import with_copies
from spfgen.plan.steps.scalarize_tables import Apart, Grouped, streamed
from spfgen.plan.steps.unswitching import with_conditions_outside
from spfgen.plan.transform.passes import Pass, passed
from spfgen.plan.transform.whole import WHOLE
from spfgen.plan.verify.compared import note_planned, note_rewritten
from spfgen.plan.verify.meaning import Fault
from spfgen.plan.verify.unchanged import changed


@dataclass(frozen=True)
class PlannedSteps:
    """The plan of all steps: what is declared `first`, for all of them, and the `parts` behind it."""

    first: tuple[Plan, ...]
    parts: tuple[Plan, ...]

    @property
    def plan(self) -> Block:
        return Block((*self.first, *self.parts))

    def with_parts(self, change: Callable[[Plan], Plan]) -> PlannedSteps:
        """With other parts, but for sums of products, which have had all passes."""
        return replace(self, parts=tuple(p if _is_product(p) else change(p) for p in self.parts))

    def with_all(self, change: Callable[[Plan], Plan]) -> PlannedSteps:
        """The same, with others of what is declared first, too."""
        return replace(self.with_parts(change), first=tuple(map(change, self.first)))


def _is_product(part: Plan) -> bool:
    return any(isinstance(n, Products) for n in walk(part, PLANS))


@dataclass(frozen=True)
class PlannedStatement:
    """What the rewrites may ask: tables that sums are kept in, and whether two points have different places; new names;
    types of tensors, extents that are made of others, names of sizes; the axes of results that may be stored by
    intervals; which loops are to run on one thread."""

    context: Context
    tables: tuple[Grouped, ...]
    tells_apart: Apart
    fresh: Callable[[str], str]
    kinds: Mapping[str, str]
    computed: Mapping[str, Expr]
    sizes: Collection[str]
    axes: Mapping[str, int]
    is_serial: Callable[[str], bool]


def _without_tables(given: PlannedStatement, planned: PlannedSteps) -> PlannedSteps:
    whole = streamed(planned.plan, given.tables, given.tells_apart).parts
    first = tuple(p for p in whole if any(p is part for part in planned.first))
    return PlannedSteps(first, whole[len(first) :])


STEPS: tuple[Pass[PlannedStatement, PlannedSteps], ...] = (
    Pass(
        "tables as scalars",
        "makes a scalar of a table of sums that are used in the order in which they are made",
        _without_tables,
        1,
    ),
    Pass(
        "invariants",
        "moves loop-invariant steps out of loops",
        lambda _, made: made.with_parts(with_invariants_outside),
        1,
    ),
    Pass(
        "lookups",
        "moves a lookup to the outermost loop in which its key is known",
        lambda given, made: made.with_parts(lambda p: with_lookups_outside(p, given.fresh)),
        1,
    ),
    Pass(
        "unswitching",
        "moves loop-invariant conditions out of loops",
        lambda _, made: made.with_parts(with_conditions_outside),
        1,
    ),
    Pass(
        "index-set splitting",
        "splits a loop at the indices where a condition changes",
        lambda given, made: made.with_parts(lambda p: with_split_loops(p, given.sizes, given.kinds)),
        1,
    ),
    Pass(
        "interval results",
        "appends what is constant along a loop once, as an interval",
        lambda given, made: made.with_parts(lambda p: with_intervals(p, given.axes)),
        1,
    ),
    Pass(
        "copies of arrays",
        "runs a loop that only updates an array on several threads, each with a copy",
        lambda given, made: made.with_parts(
            lambda p: with_copies(p, given.kinds, given.computed, given.is_serial, given.context.deterministic)
        ),
        1,
    ),
)
"""All of them, the first one first."""
CHANGING = frozenset({"tables as scalars", "unswitching", "index-set splitting", "interval results"})
"""Those that change what nodes say; all others move them, and name what they read."""


def rewritten(given: PlannedStatement, planned: PlannedSteps, verify: Callable[[Plan], None]) -> Block:
    """The plan after all of them, each looked at by `verify`; as it is where planning ends before."""
    note_planned(planned.plan)
    if not planned.first and all(map(_is_product, planned.parts)):
        return planned.plan
    last = given.context.stop_after
    if last and last not in _names((*STEPS, *WHOLE)):
        return planned.plan
    for step in STEPS:
        planned = passed((step,), given, planned, given.context, partial(_compare, step.name, planned, verify))
        if step.name == last:
            break
    return planned.plan


def _compare(name: str, before: PlannedSteps, verify: Callable[[Plan], None], after: PlannedSteps) -> None:
    """Raises Fault where a pass changes what nodes say although it is to move them only."""
    verify(after.plan)
    number = 0 if after is before else changed(before.plan, after.plan)
    if number and name in CHANGING:
        note_rewritten(name)
    elif number:
        raise Fault(f"it has changed {counted(number, 'node')} of the plan")


def _names(passes: Iterable[Pass[PlannedStatement, PlannedSteps] | Pass[Context, Plan]]) -> set[str]:
    return {p.name for p in passes}

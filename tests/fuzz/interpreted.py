"""Carries out the plans of random programs, compiling nothing; says what differs from the reference, and after which
pass it does so first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from spfgen.errors import SpfgenError, Unsupported
from spfgen.ir import walk
from spfgen.lang.nodes import Kernel
from spfgen.pipeline import PLAN_PASSES, make_plans, resolve
from spfgen.plan.nodes import PLANS, Plan, Versions
from spfgen.space.from_lang import join
from spfgen.space.nodes import Program
from tests.fuzz import runner
from tests.fuzz.programs import OWN_NAME, Case, Data
from tests.oracle import Stored, evaluate
from tests.plans.interpret import Choices, interpret
from tests.plans.memory import WrongPlan

FINAL = ""
"""After all passes."""


def pass_names() -> tuple[str, ...]:
    """The passes of both kinds of statements, in order."""
    return PLAN_PASSES


@dataclass(frozen=True)
class Joined:
    """A program that is not planned yet."""

    case: Case
    kernel: Kernel
    program: Program


def joined(case: Case) -> Joined:
    """Raises SpfgenError when it is refused."""
    tree = case.tree(OWN_NAME)
    kernel = tree.kernels[OWN_NAME]
    return Joined(case, kernel, join(kernel, resolve(kernel, tree)))


def problem(case: Case) -> tuple[str, str]:
    """Why the program is refused, and what is wrong with its plans: with the first pass after which it is wrong."""
    try:
        found = joined(case)
        plans = make_plans(found.program)
    except Unsupported as error:
        return str(error.message), ""
    except SpfgenError as error:
        if " schedule {" in case.kernel:
            return f"of the schedule: {error.message}", ""
        return "", f"{type(error).__name__}: {error}\n\n{case.text()}"
    wrong = difference(found, plans)
    return "", f"{first_wrong(found)}: {wrong}\n\n{case.text()}" if wrong else ""


def first_wrong(found: Joined) -> str:
    """The first pass after which the plans do something else than the statements say."""
    before = "before all passes"
    for name in pass_names():
        if difference(found, make_plans(found.program, stop_after=name)):
            return f"wrong after `{name}`, {before}"
        before = f"right after `{name}`"
    return "right after each pass"


def difference(found: Joined, plans: Sequence[Plan], choices: Sequence[Choices] = ()) -> str:
    """The first difference from the reference, with any of the data and of what the plans leave open."""
    for data in found.case.data:
        before = runner.operands(found.case, found.program, data)
        sizes = {**dict(data.sizes), **dict(data.extents)}
        given = {n: o.meaning() for n, o in before.items()}
        wanted = evaluate(found.kernel, given, {n: sizes[n] for n in found.kernel.sizes})
        for choice in choices or ways(plans):
            wrong = _difference(found, plans, data, choice, before, wanted)
            if wrong:
                return f"{wrong}\nwith {data}, {choice}"
    return ""


def ways(plans: Sequence[Plan]) -> Iterator[Choices]:
    """Each variant, with what is made for some data and without it."""
    most = max(
        (len(n.versions) for p in plans for n in walk(p, PLANS) if isinstance(n, Versions) and n.by_cost), default=1
    )
    return (Choices(variant, special) for variant, special in product(range(most), (True, False)))


def _difference(
    found: Joined,
    plans: Sequence[Plan],
    data: Data,
    choice: Choices,
    before: dict[str, runner.Operand],
    wanted: dict[str, Stored | np.ndarray],
) -> str:
    sizes = {**dict(data.sizes), **dict(data.extents)}
    try:
        outputs = interpret(found.program, plans, {n: o.tensor for n, o in before.items()}, sizes, choice)
    except WrongPlan as error:
        return str(error.message)
    for name, arrays in outputs.items():
        after = before[name].copy()
        after.tensor.arrays.update(arrays)  # type: ignore[attr-defined]
        a, b = (t.values if isinstance(t, Stored) else t for t in (wanted[name], after.meaning()))
        if not np.allclose(a, b, rtol=1e-9, atol=0.0, equal_nan=True):
            return f"{name} is {b.tolist()}\nexpected {a.tolist()}\n{runner.shown(before)}"
        for wrong in runner.elsewhere(after, before[name], found.program, name):
            return wrong
    return ""

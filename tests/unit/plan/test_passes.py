"""The list of passes that rewrite plans."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from spfgen import pipeline
from spfgen.errors import UsageError
from spfgen.facts.formula import ZERO
from spfgen.ir import walk
from spfgen.lang.spec import parse_tree
from spfgen.pipeline import make_plans, resolve
from spfgen.plan.choices import CHOICES
from spfgen.plan.context import context_of
from spfgen.plan.nodes import PLANS, Cheapest, Clear, Partition, Plan, Version
from spfgen.plan.steps.rewrites import STEPS
from spfgen.plan.transform.passes import PASSES, Given, Nests, Pass
from spfgen.plan.transform.whole import WHOLE
from spfgen.space.from_lang import join
from spfgen.space.nodes import Program

STATEMENT = "tensor A : coo tensor x, y : dense y[i] = A[i, j]*x[j]"


def program(statement: str = STATEMENT) -> Program:
    tree = parse_tree(f"kernel k {{ {statement} }}")
    kernel = tree.kernels["k"]
    return join(kernel, resolve(kernel, tree))


def test_each_has_a_name_and_a_level() -> None:
    names = [p.name for p in (*PASSES, *STEPS, *WHOLE)]
    assert len({*names}) == len(names)
    assert all(p.level in (0, 1, 2) and p.about for p in pipeline.PASSES)
    assert [*names] == [p.name for p in pipeline.PASSES][: len(names)]


def test_planning_ends_after_the_one_that_is_wanted() -> None:
    whole = program()
    found = [make_plans(whole, stop_after=p.name) for p in (*PASSES, *WHOLE)]
    assert found[-1] == make_plans(whole)
    assert found[0] != found[-1]


def test_plans_of_steps_end_after_the_one_that_is_wanted() -> None:
    """The last one of the list makes what all make; each has its place in it."""
    text = "tensor A : csr tensor x, y : dense for i { y[i] = max(j: A[i, j]*x[j])*x[0] }"
    whole = make_plans(program(text))
    found = [make_plans(program(text), stop_after=p.name) for p in (*STEPS, *WHOLE)]
    assert found[-1] == whole
    assert len({repr(f) for f in found}) > 2
    with pytest.raises(UsageError, match="expected the name of a pass"):
        make_plans(program(text), stop_after="hoisting")


def test_choices_have_names_and_levels() -> None:
    assert len({c.name for c in CHOICES}) == len(CHOICES)
    assert not {c.name for c in CHOICES} & {p.name for p in pipeline.PASSES}
    serial, tuned = (context_of(replace(program(), level=level)) for level in (0, 2))
    assert not any(serial.makes(c) for c in CHOICES)
    assert all(tuned.makes(c) for c in CHOICES)


def test_marks_are_set_by_passes() -> None:
    """C asks plans who clears and how parts are taken, not how much is to be optimised."""

    def marks(level: int) -> set[bool]:
        plans = make_plans(replace(program("tensor A : csr tensor x, y : dense y[j] = A[i, j]*x[i]"), level=level))
        nodes = [n for p in plans for n in walk(p)]
        return {n.shared for n in nodes if isinstance(n, Clear)} | {n.in_turn for n in nodes if type(n) is Partition}

    assert marks(0) == {False}
    assert marks(2) == {True}


def test_a_pass_that_is_none() -> None:
    with pytest.raises(UsageError, match="expected the name of a pass, but `fuse` is not one"):
        make_plans(program(), stop_after="fuse")


@dataclass(frozen=True, slots=True)
class Unknown(Plan):
    """A node that no pass has heard of."""

    body: Plan


@pytest.mark.parametrize("step", PASSES, ids=lambda p: p.name)
def test_what_a_pass_does_not_know_it_leaves_alone(step: Pass[Given, Nests]) -> None:
    (group,) = program().groups
    (instance,) = group.instances
    (nest,) = make_plans(program(), stop_after="measure")
    unknown = Unknown(nest)
    given = Given(instance, (), context_of(program()), ())
    after = step.rewrite(given, Nests((Version(Cheapest(ZERO), unknown),)))
    assert any(isinstance(n, Unknown) for p in after.plans for n in walk(p, PLANS))

"""Rewrites of plans of steps move nodes and name what they read; what else they change is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import spfgen
from spfgen.errors import InternalError
from spfgen.facts.formula import ONE, Bin
from spfgen.ir import rewrite, walk
from spfgen.lang.nodes import Apply
from spfgen.plan import unproved_passes
from spfgen.plan.nodes import Append, Block, If, InPlace, Plan, Scan
from spfgen.plan.steps import rewrites
from spfgen.plan.transform.passes import Pass
from spfgen.plan.verify.unchanged import changed
from spfgen.plan.verify.whole import check_plan
from tests.meta.mutate import KEPT, mutants

MERGE = ("C[i,j] = maximum(A[i,j], B[i,j])", {"A": "csr", "B": "csr", "C": "csr"})
LOOKED_UP = ("R[i,j] = maximum(A[i,j]*x[j], B[i,j])", {"A": "csr", "B": "dcsr", "x": "dense", "R": "dense"})
IN_PLACE = ("C[i,j] = sqrt(A[i,j])", {"A": "csr", "C": "csr"})
HALVES = ("y[i] = max(j: where(i <= j, A[i,j], B[i,j]))", {"A": "dense", "B": "dense", "y": "dense"})


def made(text: str, layouts: dict[str, str]) -> Any:
    return spfgen.compile(text, **layouts, schedule="").generated


def _first(change: Any, node: Any, plan: Plan) -> Plan:
    """The plan with the first node of a class changed."""
    first = next(n for n in walk(plan, Plan) if isinstance(n, node))
    return rewrite(lambda n: change(n) if n is first else None, plan, Plan)


CHANGES = {
    "negated": lambda plan: _first(lambda n: replace(n, condition=Apply("logical_not", (n.condition,))), If, plan),
    "dropped": lambda plan: _first(lambda n: n.then, If, plan),
    "bound": lambda plan: _first(lambda n: replace(n, high=tuple(Bin("+", e, ONE) for e in n.high)), Scan, plan),
    "coordinate": lambda plan: _first(lambda n: replace(n, coordinates=n.coordinates[::-1]), Append, plan),
    "part": lambda plan: _first(lambda n: Block(()), Append, plan),
}


@pytest.mark.parametrize("kernel", [MERGE, LOOKED_UP])
def test_all_rewrites_keep_what_was_planned(kernel: Any) -> None:
    generated = made(*kernel)
    assert [changed(p, q) for p, q in zip(generated.compared.planned, generated.plans, strict=True)] == [0]
    assert generated.compared.planned[0] != generated.plans[0] or kernel is MERGE


def test_how_entries_get_to_their_places_is_another_matter() -> None:
    generated = made(*IN_PLACE)
    assert any(isinstance(n, InPlace) for n in walk(generated.plans[0], Plan))
    assert [changed(p, q) for p, q in zip(generated.compared.planned, generated.plans, strict=True)] == [0]


@pytest.mark.parametrize("kind", CHANGES)
def test_a_plan_that_was_not_planned_is_refused(kind: str) -> None:
    generated = made(*MERGE)
    (plan,) = generated.plans
    check_plan(plan, generated.program, generated.compared)
    with pytest.raises(InternalError):
        check_plan(CHANGES[kind](plan), generated.program, generated.compared)


@pytest.mark.parametrize("strict", [True, False])
def test_a_pass_that_changes_something_is_left_out(strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Pass("invariants", "", lambda _, m: m.with_parts(lambda p: _negated(p)), 1)
    monkeypatch.setattr(rewrites, "STEPS", (wrong, *rewrites.STEPS))
    monkeypatch.setattr(unproved_passes, "STRICT", strict)
    text, layouts = MERGE
    if strict:
        with pytest.raises(InternalError, match="after the pass `invariants`: it has changed"):
            made(f"{text} ", layouts)
    else:
        assert [p.name for p in made(f"{text}  ", layouts).left_out] == ["invariants"]


def _negated(plan: Plan) -> Plan:
    result: Plan = rewrite(
        lambda n: replace(n, condition=Apply("logical_not", (n.condition,))) if isinstance(n, If) else None, plan, Plan
    )
    return result


def test_what_passes_change_on_purpose_is_not_claimed() -> None:
    kernel = spfgen.compile(HALVES[0], **HALVES[1], schedule="", optimize=2)
    compared = kernel.generated.compared
    assert compared.rewritten == ["index-set splitting"]
    assert compared.changed
    assert f"{compared.changed} nodes that rewrites have changed (index-set splitting)" in kernel.explain()


def test_scalars_are_kept_no_longer_than_planned() -> None:
    """A total that begins before the loop around has what the last iteration left."""
    generated = made(*HALVES)
    (before,), (after,) = generated.compared.planned, generated.plans
    kept = [m.plan for m in mutants(after) if m.kind == KEPT]
    assert kept
    assert all(changed(before, plan) > changed(before, after) for plan in kept)

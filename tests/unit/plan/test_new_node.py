"""What a new node takes: one class that says what it holds, how it is shown and what it means.

C that is its own, and what passes know of it, can come later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import spfgen
from spfgen.ir import rewrite, walk
from spfgen.plan.nodes import PLANS, Nested, Plan, Scan, Store
from spfgen.plan.steps import rewrites
from spfgen.plan.steps.rewrites import Pass as StepPass
from spfgen.plan.transform import passes
from spfgen.plan.transform.passes import PASSES, Pass, of_each
from spfgen.space.nodes import Operand


@dataclass(frozen=True, slots=True)
class Timed(Nested):
    """The body, whose time somebody may want to know."""

    body: Plan
    because: str = "somebody wants to know"

    @property
    def label(self) -> str:
        return "timed"

    @property
    def meaning(self) -> Plan:
        return self.body


@dataclass(frozen=True, slots=True)
class Wrong(Nested):
    """What claims to mean something else than what was asked for."""

    body: Plan

    @property
    def meaning(self) -> Plan:
        first = next(n for n in walk(self.body, PLANS) if isinstance(n, Scan))
        return first.body


@dataclass(frozen=True, slots=True)
class Bump(Plan):
    """The value of a place becomes one more."""

    target: Operand

    @property
    def writes(self) -> str:
        return self.target.tensor

    @property
    def label(self) -> str:
        return "bump"


def with_node(kind: type[Timed] | type[Wrong], monkeypatch: pytest.MonkeyPatch, after: str) -> None:
    """The passes, with one that puts the node around each innermost loop."""

    def rule(node: object) -> Plan | None:
        inner = isinstance(node, Scan) and not any(isinstance(n, Scan) for n in walk(node.body, PLANS))
        return kind(node) if inner and isinstance(node, Scan) else None

    added = Pass("new", "a node of its own", of_each(lambda given, nest: rewrite(rule, nest, PLANS)), 0)
    at = [p.name for p in PASSES].index(after) + 1
    monkeypatch.setattr(passes, "PASSES", (*PASSES[:at], added, *PASSES[at:]))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("after", ["measure", "schedule", "initialise", PASSES[-1].name])
def test_it_is_shown_checked_and_run(monkeypatch: pytest.MonkeyPatch, after: str) -> None:
    with_node(Timed, monkeypatch, after)
    layouts = {"A": "csr", "x": "dense", "y": "dense"}
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", **layouts, threads=2)
    assert [n for p in kernel.generated.plans for n in walk(p, PLANS) if isinstance(n, Timed)]
    assert "timed" in kernel.explain()
    a, x = np.arange(12.0).reshape(3, 4) % 5, np.arange(4.0)
    assert np.array_equal(kernel(A=spfgen.pack(a, "csr"), x=x, y=np.full(3, np.nan)), a @ x)


def test_what_it_means_is_compared_with_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with_node(Wrong, monkeypatch, "simplify")
    with pytest.raises(spfgen.SpfgenError, match="after the pass `new`"):
        spfgen.compile("y[i] = A[i, j]*x[j]", A="csr", x="dense", y="dense")


def test_what_changes_something_is_refused_until_the_verifier_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(node: object) -> Plan | None:
        return Bump(node.target) if isinstance(node, Store) else None

    added = StepPass("bump", "one more", lambda _, made: made.with_parts(lambda p: rewrite(rule, p, PLANS)), 0)
    monkeypatch.setattr(rewrites, "STEPS", (added, *rewrites.STEPS))
    monkeypatch.setattr(rewrites, "CHANGING", rewrites.CHANGING | {"bump"})
    with pytest.raises(spfgen.SpfgenError, match="nothing says when it may change y"):
        spfgen.compile("for i { for j { if A[i, j] > 0 { y[i] = y[i] + 1 } } }", A="csr", y="dense")

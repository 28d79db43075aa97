"""`explain` claims what was compared with the statement, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

import spfgen
from spfgen.plan.transform import passes
from spfgen.plan.verify import meaning
from spfgen.plan.verify.claims import NESTS, POINTS, READS

CSR = {"A": "csr", "x": "dense", "y": "dense"}
PLAIN = {
    "sum": ("y[i] = A[i,j]*x[j]", CSR),
    "terms": ("C[i,j] = A[i,j] + A[j,i]", {"A": "csr", "C": "dense"}),
    "entries of rows": ("C[i,j] = A[i,k]*B[k,j]", {"A": "csr", "B": "csr", "C": "csr"}),
    "conversion": ("B[i,j] = A[i,j]", {"A": "csr", "B": "csc"}),
    "value of sums": ("y[i] = sum(j: A[i,j]*x[j])*x[i] + 2", CSR),
    "blocks": ("y[i] = A[i,j]*x[j]", CSR | {"A": "bcsr"}),
}
STEPS = {
    "merge": ("C[i,j] = maximum(A[i,j], B[i,j])", {"A": "csr", "B": "csr", "C": "csr"}, "merged"),
    "gather": ("y[i] = x[p[i]]", {"x": "dense", "y": "dense", "p": "dense<int64>"}, "what is computed"),
    "while": ("let k = 0; while k < 3 { k = k + 1 }; for i { y[i] = k*x[i] }", {"x": "dense", "y": "dense"}, "while"),
}


def claimed(text: str, layouts: dict[str, str], optimize: int | None = None) -> tuple[list[str], list[str]]:
    kernel = spfgen.compile(text, **layouts, schedule="", optimize=optimize)
    (found,) = kernel.explain(json=True)["statements"]
    shown = kernel.explain()
    for line in (*found["proved"], *found["only_tested"]):
        assert f"    - {line}" in shown
    return found["proved"], found["only_tested"]


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.sampled(8)
def test_plain_nests(kind: str, level: int) -> None:
    proved, tested = claimed(*PLAIN[kind], level)
    assert proved[:2] == [POINTS, READS]
    assert any("that the C" in line for line in tested)


@pytest.mark.parametrize("kind", STEPS)
def test_steps(kind: str) -> None:
    text, layouts, word = STEPS[kind]
    proved, tested = claimed(text, layouts)
    assert proved[0] == NESTS
    assert POINTS not in proved
    assert READS not in proved
    assert any(word in line for line in tested), tested


@pytest.mark.parametrize("what", ["comparison", "passes"])
def test_without_the_verifier(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not asked is not claimed."""

    def nothing(*_: Any) -> None:
        return None

    if what == "comparison":
        monkeypatch.setattr(meaning._Comparison, "compare", nothing)
    else:
        monkeypatch.setattr(passes, "compare", nothing)
        monkeypatch.setattr(meaning, "compare", nothing)
    for kind in ("sum", "entries of rows"):
        proved, tested = claimed(*PLAIN[kind])
        assert POINTS not in proved
        assert READS not in proved
        assert any("visit the points" in line for line in tested)
    text, layouts, _ = STEPS["gather"]
    assert NESTS not in claimed(text, layouts)[0]


def test_left_out_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement of which one term was compared is not compared."""
    usual = meaning._Comparison.compare
    seen: list[Any] = []

    def first(self: Any) -> None:
        seen.append(self.instance)
        if self.instance == seen[0]:
            usual(self)

    monkeypatch.setattr(meaning._Comparison, "compare", first)
    assert POINTS not in claimed(*PLAIN["terms"])[0]

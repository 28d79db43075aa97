"""The check after each pass: what a pass does wrong is refused, by the name of the pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.errors import InternalError
from spfgen.explain import explain_json, explain_text
from spfgen.facts.formula import Bin, Num
from spfgen.ir import rewrite, walk
from spfgen.plan import unproved_passes
from spfgen.plan.nodes import PLANS, Accumulate, Block, Clear, Find, Guard, Load, Plan, Scan, Store
from spfgen.plan.transform import passes as all_passes
from spfgen.plan.transform.passes import PASSES, SUM, VALUE, Nests, Pass
from spfgen.plan.verify.meaning import Fault, Path, _Comparison, begins, paths
from spfgen.space.nodes import Read

ONE = Num(1)
KERNELS = {
    "a guard and a search": ("C[i, j] = A[i, j]*B[i + 1, j] where j < i", {"A": "csr", "B": "csr", "C": "dense"}),
    "tiles": ("C[i, k] = A[i, j]*B[j, k]", {"A": "csr", "B": "dense", "C": "dense"}),
    "blocks": ("y[i] = A[i, j]*x[j]", {"A": "bcsr(R=2,C=2)", "x": "dense", "y": "dense"}),
    "neighbours together": (
        "C[i, j] = A[i, j]*B[i, k]*D[k, j]",
        {"A": "csr", "B": "dense", "D": "dense", "C": "dense"},
    ),
    "a transposed copy": ("C[i, k] = A[i, j]*B[j, k]", {"A": "dense", "B": "dense", "C": "dense"}),
}


def more(e: Any) -> Any:
    return Bin("+", e, ONE)


def first(kind: type, change: Callable[[Any], Any]) -> Callable[[Plan], Plan]:
    """Changes one node of a kind: the first one that is met, but in what clears, which the interpreter alone checks."""

    def sabotaged(plan: Plan) -> Plan:
        done: list[bool] = []
        clears = [c.part for c in walk(plan, PLANS) if isinstance(c, Clear) and c.part is not None]
        clearing = [n for part in clears for n in walk(part, PLANS)]

        def rule(node: object) -> object | None:
            found = change(node) if isinstance(node, kind) and not done and node not in clearing else None
            if found is not None:
                done.append(True)
            return found

        result: Plan = rewrite(rule, plan, PLANS)
        return result

    return sabotaged


def reads(do: Store) -> list[Read]:
    return [n for n in walk(do.value) if isinstance(n, Read)]


SABOTAGE: dict[str, Callable[[Plan], Plan]] = {
    "a loop goes further": first(Scan, lambda n: replace(n, high=tuple(map(more, n.high)))),
    "a loop begins later": first(Scan, lambda n: replace(n, low=tuple(map(more, n.low)))),
    "a guard is gone": first(Guard, lambda n: n.body),
    "an array is read beside": first(
        Load, lambda n: replace(n, call=replace(n.call, arguments=(*n.call.arguments[:-1], more(n.call.arguments[-1]))))
    ),
    "another key": first(Find, lambda n: replace(n, key=replace(n.key, value=more(n.key.value))) if n.key else None),
    "another place": first(
        Store,
        lambda n: (
            replace(n, target=replace(n.target, place=(more(n.target.place[0]), *n.target.place[1:])))
            if n.op == "+=" and n.target.place
            else None
        ),
    ),
    "another value": first(Store, lambda n: replace(n, value=reads(n)[0]) if n.op == "+=" else None),
}


def refused(text: str, layouts: dict[str, str]) -> str:
    """Why no kernel is made; empty where one is."""
    try:
        kernel = spfgen.compile(text, **layouts)
        return "" if kernel.generated else "nothing is made"
    except InternalError as error:
        return str(error)


def sabotaged(step: Pass[Any, Any], change: Callable[[Plan], Plan], changed: list[bool]) -> Pass[Any, Any]:
    """The pass, whose result is changed."""

    def made(given: Any, plans: Any) -> Any:
        result = step.rewrite(given, plans)
        if isinstance(result, Nests):
            wrong: Any = result.with_nests([change(n) for n in result.nests])
        else:
            wrong = change(result)
        changed.append(wrong != result)
        return wrong

    return replace(step, rewrite=made)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [p.name for p in PASSES if p.name not in ("measure",)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_what_a_pass_does_wrong_is_refused(name: str, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, layouts = KERNELS[kernel]
    for what, change in SABOTAGE.items():
        changed: list[bool] = []
        passes = tuple(sabotaged(p, change, changed) if p.name == name else p for p in PASSES)
        monkeypatch.setattr(all_passes, "PASSES", passes)
        found = refused(text, layouts)
        assert f"after the pass `{name}`" in found if any(changed) else not found, what


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [p.name for p in PASSES if VALUE in p.on])
def test_what_a_pass_of_expressions_does_wrong_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for what, change in SABOTAGE.items():
        changed: list[bool] = []
        passes = tuple(sabotaged(p, change, changed) if p.name == name else p for p in PASSES)
        monkeypatch.setattr(all_passes, "PASSES", passes)
        found = refused("y[i] = b[i] - 2*sum(j < i: A[i, j]*x[j])", {"A": "csr", **dict.fromkeys("bxy", "dense")})
        assert f"after the pass `{name}`" in found if any(changed) else not found, what


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [p.name for p in PASSES if p.level])
def test_what_is_not_proved_is_left_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no example of what a pass does wrong: the program is right without, and `explain` says so."""
    rng = np.random.default_rng(3)
    one, other = np.where(rng.random((6, 5)) < 0.5, rng.random((6, 5)), 0), rng.random((5, 4))
    left = 0
    text, layouts = KERNELS["tiles"]
    monkeypatch.setattr(unproved_passes, "STRICT", False)
    for what, change in SABOTAGE.items():
        changed: list[bool] = []
        passes = tuple(sabotaged(p, change, changed) if p.name == name else p for p in PASSES)
        monkeypatch.setattr(all_passes, "PASSES", passes)
        found = refused(text, layouts)
        if found:
            assert f"after the pass `{name}`" in found, what
            continue
        kernel = spfgen.compile(text, **layouts)
        generated = kernel.generated
        left += any(changed)
        assert [item.name for item in generated.left_out] == [name] * any(changed), what
        assert ("passes left out" in explain_text(generated)) == any(changed)
        assert [item["pass"] for item in explain_json(generated)["left_out"]] == [name] * any(changed)
        np.testing.assert_allclose(kernel(A=spfgen.pack(one, "csr"), B=other), one @ other)
    assert left


def test_what_is_needed_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unproved_passes, "STRICT", False)
    text, layouts = KERNELS["tiles"]
    for step in (p for p in PASSES if not p.level):
        wrong = tuple(sabotaged(p, SABOTAGE["another value"], []) if p is step else p for p in PASSES)
        monkeypatch.setattr(all_passes, "PASSES", wrong)
        assert f"after the pass `{step.name}`" in refused(text, layouts)


def test_an_example_is_one_that_can_be() -> None:
    """A quotient that is none, or two values in one place of an array, are no example of what a plan does wrong."""
    kernel = spfgen.compile("y[i] = A[i, j]*A[j, k]*x[k]", A="bcsr(R=2,C=2)", x="dense", y="dense")
    assert kernel.generated is not None
    instance = kernel.generated.program.groups[0].instances[0]
    plan = next(n for n in walk(kernel.generated.plans[0], PLANS) if isinstance(n, Store))
    comparison = _Comparison(instance, Path((), plan))
    (half,) = instance.quotients
    one, other = "A.bcolidx(A.pb)", "A.bcolidx(A_2.pb)"
    point = {"A.nrow": 5, half: 3, "A.pb": 1, "A_2.pb": 1, one: 2, other: 2}
    assert comparison.is_possible(point)
    assert not comparison.is_possible(point | {half: 2})
    assert not comparison.is_possible(point | {one: 1})
    assert comparison.is_possible(point | {one: 1, "A.pb": 0})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", KERNELS)
def test_what_is_cleared_stays_so(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def uncleared(node: object) -> Plan | None:
        match node:
            case Clear(body=body):
                return body or Block(())
            case Accumulate() | Store() if node.op == "=":
                return replace(node, op="+=")
        return None

    def made(given: Any, nests: Nests) -> Nests:
        return replace(nests.with_nests([rewrite(uncleared, n, PLANS) for n in nests.nests]), before=())

    text, layouts = KERNELS[name]
    for step in (p for p in PASSES if SUM in p.on):
        wrong = tuple(replace(p, rewrite=made) if p is step else p for p in PASSES)
        monkeypatch.setattr(all_passes, "PASSES", wrong)
        assert "is not cleared any more" in refused(text, layouts)


def test_a_node_that_nobody_knows() -> None:
    """A pass may make a new node once its meaning is written down; until then its plans are refused."""

    @dataclass(frozen=True)
    class Unheard(Plan):
        body: Plan

    with pytest.raises(Fault, match="what the node means is not known: Unheard"):
        list(paths(Unheard(Block(()))))
    assert not begins(Unheard(Block(())), "y")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["lower", "sym_lower", "dense", "vbr", "dia", "skyline", "sell_sigma", "jds"])
@pytest.mark.parametrize(
    "text", ["C[i, j] = A[i, j]*U[i, k]*X[k, j]", "s = A[i, j]*A[j, k]*A[k, i]", "y[i] = A[i, 0]*x[i]"]
)
def test_what_is_right_is_not_refused(layout: str, text: str) -> None:
    """Places that are not affine, dimensions that two inequalities determine, subscripts that are numbers."""
    others = {n: "dense" for n in "UXCxy" if f"{n}[" in text}
    assert not refused(text, {"A": layout, **others})

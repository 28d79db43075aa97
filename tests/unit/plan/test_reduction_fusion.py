"""Sums that ride in the loops of others: only where each of their points is reached once; a nest in which one is not is
refused. Each case was wrong in silence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.errors import InternalError
from spfgen.facts.formula import Compare, Num, Var
from spfgen.ir import rewrite, walk
from spfgen.lang.spec import SpecTree, parse_tree
from spfgen.pipeline import resolve
from spfgen.plan import fused
from spfgen.plan.build import reduction_fusion
from spfgen.plan.context import context_of
from spfgen.plan.nodes import Block, Guard, Plan, Scan, Store
from spfgen.plan.verify.meaning import Fault, compare_all
from spfgen.space.from_lang import join
from tests.fuzz import unseen


def computed(text: str, layout: str, sizes: dict[str, int], arrays: dict[str, Any], **dense: Any) -> Any:
    """What a kernel makes of an operand in a layout of the random tests; the result is dense."""
    declared = spfgen.parse(unseen.ALL[layout].text).layouts[layout]
    target = text.partition("[")[0]
    kernel = spfgen.compile(text, A=declared, **dict.fromkeys((target, *dense), "dense"))
    shape = (sizes["n"], sizes["m"])
    tensor = spfgen.tensor(declared, shape=shape, **{n: np.asarray(a) for n, a in arrays.items()})
    return np.asarray(kernel(A=tensor, **{n: np.asarray(a) for n, a in dense.items()}))


BY_COLUMNS = {"col": [0, 1, 1], "row": [0, 0, 1], "val": [1.0, 2.0, 5.0]}  # 1 2 / 0 5


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("y[i] = A[i, i]*sum(j: A[i, j])", [3, 25]),
        ("y[i] = A[i, i]*(2 + sum(j: A[i, j]))", [5, 35]),
        ("Y[i, j] = A[i, j]/(1 + sum(k: A[i, k]))", [[0.25, 0.5], [0, 5 / 6]]),
    ],
)
def test_a_sum_does_not_ride_in_a_search(text: str, right: Any) -> None:
    """That for A[i, i] passes over the rest of the row."""
    assert np.allclose(computed(text, "list_by_columns", {"n": 2, "m": 2}, BY_COLUMNS), right)


def test_each_alternative_has_its_own_condition() -> None:
    arrays = {"ptr": [0, 2], "z": [0, 1], "val": [2.0, 5.0]}  # 2 0 5
    text = "y[i] = sum(j: A[i, j]*x[j])/(1 + sum(j: A[i, j]))"
    assert np.allclose(computed(text, "from_both_sides", {"n": 1, "m": 3}, arrays, x=[1.0, 2.0, 3.0]), [17 / 8])


def test_what_carries_does_not_ride() -> None:
    """What rode in it was lost."""
    arrays = {"ptr": [0, 1, 3], "col": [0, 0, 1], "val": [8.0, 3.0, 2.0]}  # 8 3 / 3 2
    text = "y[i] = sum(j: A[i, j]*A[j, j])/(1 + A[i, i])"
    assert np.allclose(computed(text, "mirrored", {"n": 2, "m": 2}, arrays), [70 / 9, 28 / 3])


# --- the nest is read back ------------------------------------------------------------------------------


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> tuple[Plan, Any]:
    """A nest with a sum that rides, and what it is to do."""
    found: list[tuple[Plan, Any]] = []
    monkeypatch.setattr(fused, "compare_all", lambda wanted, plan, _: found.append((plan, wanted)))
    text = "kernel k { tensor A : csr  tensor x, y : dense  y[i] = sum(j: A[i, j]*x[j])/(1 + sum(j: A[i, j])) }"
    tree = SpecTree({}, parse_tree(text).kernels)
    program = join(tree.kernels["k"], resolve(tree.kernels["k"], tree))
    fused.plan_value(program.groups[0], context_of(program), lambda *_: [])
    return found[0]


def test_two_sums_share_a_loop(checked: tuple[Plan, Any]) -> None:
    plan, wanted = checked
    assert len(wanted) == 3
    assert [n.dim for n in walk(plan) if isinstance(n, Scan)] == ["i", "A.pj"]
    compare_all(wanted, plan, set())


def _conditional(does: Store) -> Plan:
    return Guard((Compare(">", Var("i"), Num(0)),), does)


CHANGES = {
    "a condition too many": (Store, _conditional),
    "something is left out": (Block, lambda n: n.parts[0]),
    "something is done twice": (Block, lambda n: Block((*n.parts, n.parts[0]))),
    "the loop is shorter": (Scan, lambda n: replace(n, low=(*n.low, Num(1)))),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_noticed(checked: tuple[Plan, Any], name: str) -> None:
    plan, wanted = checked
    kind, change = CHANGES[name]
    nodes = [n for n in walk(plan) if isinstance(n, kind)]
    assert nodes
    for node in nodes:
        changed = rewrite(lambda n, node=node: change(n) if n == node else None, plan)
        with pytest.raises(Fault):
            compare_all(wanted, changed, set())


def test_a_wrong_ride_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it taken without being read back, the whole nest would be refused."""
    monkeypatch.setattr(reduction_fusion, "compare_all", lambda *_: None)
    with pytest.raises(InternalError, match="leaves out a point"):
        computed("y[i] = A[i, i]*(2 + sum(j: A[i, j]))", "list_by_columns", {"n": 2, "m": 2}, BY_COLUMNS)

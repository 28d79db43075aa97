"""What the interpreter of plans notices: data that break what a plan relies on, and plans that are wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from spfgen.facts.formula import Num, Var
from spfgen.ir import rewrite, walk
from spfgen.lang.spec import parse_tree
from spfgen.pipeline import make_plans, resolve
from spfgen.plan.nodes import PLANS, Block, Clear, Define, Find, Load, Plan, Scan, Store, Version, is_sum
from spfgen.space.from_lang import join
from tests.plans.interpret import Choices, interpret
from tests.plans.memory import WrongPlan

Change = Callable[[object], Plan | None]
SPECIAL = Choices()

LAYOUTS = """
layout rows(nrow, ncol) {
    size nnz
    relation { [r, p] -> [i, j] : 0 <= r < nrow and ptr(r) <= p < ptr(r + 1) and i = r and j = col(p) }
    index ptr[nrow + 1] {
        range 0 <= ptr(r) <= nnz
        property increasing
    }
    index col[nnz] {
        range 0 <= col(p) < ncol
        property strictly increasing within ptr
    }
    value val[nnz] at [p]
}
layout slots(nrow, ncol) {
    size width
    relation { [r, s] -> [i, j] : 0 <= r < nrow and 0 <= s < width and i = r and j = col(r, s) and 0 <= j }
    index col[nrow, width] {
        range -1 <= col(r, s) < ncol
        property forall r, s, t : 0 <= s < t and 0 <= col(r, t) => 0 <= col(r, s)
    }
    value val[nrow, width] at [r, s]
}
layout list(nrow, ncol) {
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index row[nnz] {
        range 0 <= row(p) < nrow
        property increasing
    }
    index col[nnz] { range 0 <= col(p) < ncol }
    value val[nnz] at [p]
}
"""


@dataclass
class Operand:
    sizes: Mapping[str, int]
    arrays: Mapping[str, Any]


def vector(values: Sequence[float]) -> Operand:
    return Operand({"n_1": len(values)}, {"val": np.array(values, float)})


def rows(ptr: Sequence[int], col: Sequence[int], ncol: int = 3) -> Operand:
    sizes = {"nrow": len(ptr) - 1, "ncol": ncol, "nnz": len(col)}
    return Operand(sizes, {"ptr": np.array(ptr), "col": np.array(col), "val": np.arange(1.0, 1 + len(col))})


def run(text: str, change: Change | None = None, choices: Choices = SPECIAL, **operands: Operand) -> Any:
    """The result `y` of a kernel whose plan is changed."""
    tree = parse_tree(f"{LAYOUTS} kernel k {{ {text} }}")
    kernel = tree.kernels["k"]
    program = join(kernel, resolve(kernel, tree))
    plans = make_plans(program)
    if change is not None:
        changed = tuple(rewrite(change, p, PLANS) for p in plans)
        assert changed != plans
        plans = changed
    return interpret(program, plans, operands, {}, choices)["y"]["val"]


PRODUCT = "tensor A : rows tensor x, y : dense y[i] = A[i, j]*x[j]"
ADDED = "tensor A : list tensor x, y : dense y[i] = A[i, j]*x[j]"
X, Y = vector([1, 2, 3]), vector([np.nan, np.nan])
"""Results hold rubbish before."""


def entries(row: Sequence[int], col: Sequence[int]) -> Operand:
    sizes = {"nrow": 2, "ncol": 3, "nnz": len(row)}
    return Operand(sizes, {"row": np.array(row), "col": np.array(col), "val": np.arange(1.0, 1 + len(row))})


def test_a_product() -> None:
    assert run(PRODUCT, A=rows([0, 2, 3], [0, 2, 1]), x=X, y=Y).tolist() == [7, 6]
    assert run(ADDED, A=entries([0, 0, 1], [0, 2, 1]), x=X, y=Y).tolist() == [7, 6]


def test_operands_stay_as_they_are() -> None:
    y = vector([5, 5])
    run(PRODUCT, A=rows([0, 2, 3], [0, 2, 1]), x=X, y=y)
    assert y.arrays["val"].tolist() == [5, 5]


def test_values_outside_of_their_array() -> None:
    with pytest.raises(WrongPlan, match=r"Store y: x.val\[3\] lies outside of its array of \[3\]"):
        run(PRODUCT, A=rows([0, 2, 3], [0, 3, 1]), x=X, y=Y)


def test_indices_outside_of_their_array() -> None:
    with pytest.raises(WrongPlan, match=r"A.col\[3\] lies outside"):
        run(PRODUCT, A=rows([0, 2, 4], [0, 2, 1]), x=X, y=Y)


def test_a_place_twice() -> None:
    """Not by what is found, but by what a plan that is wrong does."""

    def twice(node: object) -> Plan | None:
        return Block((node, node)) if is_sum(node) else None

    with pytest.raises(WrongPlan, match=r"Accumulate y: y.val\[0\] is stored twice"):
        run(PRODUCT, twice, A=rows([0, 2, 3], [0, 2, 1]), x=X, y=Y)


def test_a_place_that_is_left_out() -> None:
    def later(node: object) -> Plan | None:
        first = isinstance(node, Scan) and any(map(is_sum, walk(node, PLANS)))
        return replace(node, low=(Num(1),)) if first else None  # type: ignore[type-var]

    with pytest.raises(WrongPlan, match=r"y.val\[0\] is neither cleared nor stored by `y\[i\] = A"):
        run(PRODUCT, later, A=rows([0, 2, 3], [0, 2, 1]), x=X, y=Y)


def test_a_place_that_is_never_cleared() -> None:
    def uncleared(node: object) -> Plan | None:
        return (node.body or Block(())) if isinstance(node, Clear) else None

    with pytest.raises(WrongPlan, match="added to, but never cleared"):
        run(ADDED, uncleared, A=entries([0, 0, 1], [0, 2, 1]), x=X, y=Y)


def test_a_name_that_nothing_binds() -> None:
    def unbound(node: object) -> Plan | None:
        return node.body if isinstance(node, Load) and node.call.function == "A.col" else None

    with pytest.raises(WrongPlan, match="is used before it is bound"):
        run(PRODUCT, unbound, A=rows([0, 2, 3], [0, 2, 1]), x=X, y=Y)


def test_a_name_that_is_bound_twice() -> None:
    """C would read the inner one where the outer one is meant."""

    def hidden(node: object) -> Plan | None:
        return Define("i", Var("i"), node) if isinstance(node, Store) else None

    with pytest.raises(WrongPlan, match="Define i: i is defined where it has a value already"):
        run(PRODUCT, hidden, A=rows([0, 2, 3], [0, 2, 1]), x=X, y=Y)


def test_a_parallel_loop_whose_iterations_meet() -> None:
    def parallel(node: object) -> Plan | None:
        return replace(node, parallel=True, partition=None) if isinstance(node, Scan) else None

    with pytest.raises(WrongPlan, match=r"two iterations, 1 the later one, write y.val\[0\] \(in parallel\)"):
        run(ADDED.replace("y[i] =", "y[i] +="), parallel, A=entries([0, 0, 1], [0, 2, 1]), x=X, y=vector([1, 1]))


def test_places_that_are_not_reached_in_order() -> None:
    """Threads share this loop so that two meet only where a part ends."""
    with pytest.raises(WrongPlan, match="added to again after another place was"):
        run(ADDED.replace("y[i] =", "y[i] +="), A=entries([0, 1, 0], [0, 2, 1]), x=X, y=vector([1, 1]))


FINDS = "tensor A, B : rows tensor y : dense y[i] = A[i, j]*B[i, j]"


@pytest.mark.parametrize("algorithm", ["search", "sequential", "gallop", "hash", "array", "bitmap", "scatter", "loop"])
def test_finds(algorithm: str) -> None:
    text = f"{FINDS} schedule {{ order i, A.p; find B.p : {algorithm} }}"
    one, two = rows([0, 2, 4], [0, 2, 1, 2]), rows([0, 2, 3], [1, 2, 1])
    assert run(text, A=one, B=two, y=Y).tolist() == [4, 9]


@pytest.mark.parametrize(
    ("algorithm", "wrong"),
    [
        ("search", "do not rise"),
        ("sequential", "do not rise"),
        ("gallop", "do not rise"),
        ("hash", "stands twice"),
        ("array", "stands twice"),
        ("bitmap", "stands twice"),
        ("scatter", "stands twice"),
    ],
)
def test_finds_in_what_is_not_as_declared(algorithm: str, wrong: str) -> None:
    """A row that has a column twice: no algorithm but the loop may be used."""
    text = f"{FINDS} schedule {{ order i, A.p; find B.p : {algorithm} }}"
    one, two = rows([0, 2, 4], [0, 2, 1, 2]), rows([0, 3, 4], [1, 2, 2, 1])
    with pytest.raises(WrongPlan, match=wrong):
        run(text, A=one, B=two, y=Y)


@pytest.mark.parametrize("algorithm", ["hash", "array", "bitmap", "scatter"])
def test_tables_that_nobody_asks(algorithm: str) -> None:
    """What is said of the order in a table is said where something is looked up, which may be nowhere."""
    text = f"{FINDS} schedule {{ order i, A.p; find B.p : {algorithm} }}"
    assert run(text, A=rows([0, 0, 0], []), B=rows([0, 3, 4], [1, 2, 2, 1]), y=Y).tolist() == [0, 0]


def test_a_find_that_would_have_to_go_back() -> None:
    """The keys fall where the plan says that they rise."""
    text = f"{FINDS} schedule {{ order i, A.p; find B.p : sequential }}"
    with pytest.raises(WrongPlan, match="would have to move from 1 back to 0"):
        run(text, A=rows([0, 2, 2], [2, 0]), B=rows([0, 2, 2], [0, 2]), y=Y)


def test_a_find_of_another_ones_state() -> None:
    text = f"{FINDS} schedule {{ order i, A.p; find B.p : sequential }}"

    def other(node: object) -> Plan | None:
        return replace(node, at=(Num(0),)) if isinstance(node, Find) else None

    with pytest.raises(WrongPlan, match="is not kept for each value"):
        run(text, other, A=rows([0, 2, 4], [0, 2, 1, 2]), B=rows([0, 2, 3], [1, 2, 1]), y=Y)


def test_a_loop_that_ends_too_early() -> None:
    """Places of a row that are used come first; here one comes later."""
    text = "tensor A : slots tensor x, y : dense y[i] = A[i, j]*x[j]"
    sizes = {"nrow": 2, "ncol": 3, "width": 3}
    used = Operand(sizes, {"col": np.array([[0, -1, -1], [1, 2, -1]]), "val": np.ones((2, 3))})
    assert run(text, A=used, x=X, y=Y).tolist() == [1, 5]
    late = replace(used, arrays={**used.arrays, "col": np.array([[0, -1, 2], [1, 2, -1]])})
    with pytest.raises(WrongPlan, match="the loop would have ended, but its conditions hold again"):
        run(text, choices=replace(SPECIAL, special=False), A=late, x=X, y=Y)


def test_a_sum_that_is_stored_into() -> None:
    def store(node: object) -> Plan | None:
        return replace(node, op="=") if isinstance(node, Store) else None

    with pytest.raises(WrongPlan, match="is stored within its sum"):
        run(PRODUCT, store, A=rows([0, 2, 3], [0, 2, 1]), x=X, y=Y)


BLOCKS = "tensor A : bcsr(R=2, C=2) tensor x, y : dense y[i] = A[i, j]*x[j]"
BLOCKED = Operand(
    {"nrow": 3, "ncol": 4, "nb": 2},
    {
        "browptr": np.array([0, 1, 2]),
        "bcolidx": np.array([0, 1]),
        "val": np.array([[[1.0, 2], [3, 4]], [[5, 6], [0, 0]]]),
    },
)


@pytest.mark.parametrize("special", [True, False])
def test_what_is_made_for_some_data(special: bool) -> None:
    """Whole blocks have a nest of their own; the other one does the same."""
    operands = {"A": BLOCKED, "x": vector([1, 2, 3, 4]), "y": vector([np.nan] * 3)}
    assert run(BLOCKS, choices=Choices(special=special), **operands).tolist() == [5, 11, 39]


def test_what_is_made_for_some_data_is_carried_out() -> None:
    def lost(node: object) -> Plan | None:
        return replace(node, body=Block(())) if isinstance(node, Version) and node.when else None

    operands = {"A": BLOCKED, "x": vector([1, 2, 3, 4]), "y": vector([1.0] * 3)}
    text = BLOCKS.replace("y[i] =", "y[i] +=")
    assert run(text, lost, Choices(special=False), **operands).tolist() == [6, 12, 40]
    assert run(text, lost, **operands).tolist() != [6, 12, 40]

"""Plans of steps that are spoilt after they were made are refused, with the node that is at fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from spfgen.facts.formula import ZERO, Var
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.spec import parse_tree
from spfgen.pipeline import make_plans, resolve
from spfgen.plan.nodes import (
    Append,
    Array,
    Assign,
    Block,
    Break,
    Clear,
    Collect,
    Define,
    Find,
    If,
    Let,
    Load,
    Plan,
    Probe,
    Refuse,
    Repeat,
    Scan,
    Store,
    UpdateEntry,
)
from spfgen.plan.verify.check_steps import check_steps
from spfgen.space.from_lang import join
from spfgen.space.nodes import Program, Read
from spfgen.space.typed import Scalar
from tests.plans.memory import WrongPlan

KERNELS = {
    "rows": "tensor A : csr  tensor y : dense  y[i] = max(j: A[i,j])",
    "greatest": "tensor A : csr  tensor s : dense  s = max(i, j: A[i,j])",
    "pairs": "tensor A, B : csr  tensor C : dense  C[i,j] = where(A[i,j] > 1, B[i,j], A[i,j])",
    "columns": "tensor A : csc  tensor y : dense  y[i] max= sqrt(sum(j: A[i,j]))",
    "unsorted": "tensor A : csr  tensor B : coo_unsorted  tensor C : dense  C[i,j] = where(A[i,j] > 1, B[i,j], 1)",
    "entries": "tensor A, B, C : csr  C[i,j] = A[i,j]  C[i,j] max= B[i,j]",
    "first": """tensor A : csr  tensor f : dense<int64>
        for i { let first = -1  for j { if A[i,j] > 1 { first = j  break } }  f[i] = first }""",
    "while": "tensor x : dense  let n = 0  while n < 3 { x[i] = x[i] + 1  n += 1 }",
    "gather": "tensor x, y : dense  tensor at : dense<int64>  y[i] = x[at[i]]",
    "collapse": "tensor A : csr  tensor c : dense  c[k] = collapse(A[i,j] > 1, (i,j) -> k)",
}


@cache
def planned(name: str) -> tuple[Program, Plan]:
    tree = parse_tree(f"kernel k {{ {KERNELS[name]} }}")
    kernel = tree.kernels["k"]
    from spfgen.space.assembled import with_assembled

    layouts = resolve(kernel, tree)
    program = join(with_assembled(kernel, layouts), layouts)
    (plan,) = make_plans(program)
    return program, plan


@pytest.mark.parametrize("name", KERNELS)
def test_the_plan_itself_passes(name: str) -> None:
    program, plan = planned(name)
    check_steps(plan, program)


def without(kind: type, where: Callable[[Any], bool] = lambda node: True) -> Callable[[Any], Any]:
    """The plan without these statements."""

    def rule(node: Any) -> Any:
        if isinstance(node, Block):
            return replace(node, parts=tuple(p for p in node.parts if not (isinstance(p, kind) and where(p))))
        return None

    return lambda plan: rewrite(rule, plan)


def with_(kind: type, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The plan with these nodes changed."""
    return lambda plan: rewrite(lambda n: change(n) if isinstance(n, kind) else None, plan)


def parallel(why: str = "all differ") -> Callable[[Any], Any]:
    return with_(Scan, lambda n: replace(n, parallel=True, because=why))


def last_first(plan: Any) -> Any:
    """The statements of the whole plan the other way around."""
    return replace(plan, parts=plan.parts[::-1])


SPOILT: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "a scalar that nothing declares": ("rows", without(Let), "there is no scalar"),
    "a scalar of another type": ("rows", with_(Let, lambda n: replace(n, type="int8")), "is of type int8"),
    "a scalar of another block": ("pairs", with_(Let, lambda n: Block((n,))), "there is no scalar"),
    "an assignment to nothing": ("rows", with_(Assign, lambda n: replace(n, name="nothing")), "there is no scalar"),
    "an index that nothing computes": ("collapse", without(Define), "is used before it is defined"),
    "an index that is no name": ("rows", with_(Store, lambda n: at(n, Var("nowhere"))), "nowhere is used before"),
    "a call that is not loaded": ("rows", with_(Load, lambda n: n.body), "is used before it is defined"),
    "an index array of nobody": (
        "rows", with_(Load, lambda n: replace(n, call=replace(n.call, function="A.other"))), "no index array A.other",
    ),
    "a loop within its own index": ("rows", with_(Scan, lambda n: replace(n, body=n)), "has a value already"),
    "a value of another array": ("rows", with_(Store, lambda n: into(n, "z")), "there is no array z"),
    "memory that is not there": ("columns", without(Array), "there is no array"),
    "memory that comes later": ("columns", last_first, "there is no array"),
    "memory in a loop": ("columns", with_(Scan, lambda n: replace(n, body=Block((MEMORY, n.body)))), "made once"),
    "a table that is not there": ("unsorted", without(Collect), "there is no"),
    "a table that comes later": ("entries", last_first, "is used before it is defined"),
    "a table in a loop": ("unsorted", with_(Collect, lambda n: Repeat(Block((n, Break())))), "made once"),
    "an entry of no table": (
        "entries",
        with_(UpdateEntry, lambda n: replace(n, name="other")),
        "there is no table other",
    ),
    "an emptied table of nobody": ("entries", with_(Clear, lambda n: replace(n, tensor="other")), "other is no result"),
    "a probe of no table": ("unsorted", with_(Probe, lambda n: replace(n, name="other")), "there is no table other"),
    "a result that is no list": ("entries", with_(Append, lambda n: replace(n, tensor="A")), "A is no result"),
    "a flag that nobody has": ("gather", with_(Refuse, lambda n: replace(n, name="other")), "there is no scalar"),
    "a break without a loop": ("rows", lambda plan: replace(plan, parts=(*plan.parts, Break())), "no loop"),
    "a break in a parallel loop": ("first", parallel(), "a parallel loop"),
    "a break in a find": ("pairs", with_(Find, lambda n: replace(n, hit=Break())), "a find"),
    "a loop that ends by nothing": ("while", with_(Repeat, lambda n: n.body), "no loop"),
    "parallel without a reason": ("rows", parallel(""), "without a reason"),
    "a sum of all threads": ("rows", parallel(), "in common"),
    "a total that parts do not have": (
        "greatest", with_(Scan, lambda n: replace(n, private=(), combined=None)), "there is no scalar",
    ),
    "a total of all parts": ("greatest", with_(Assign, lambda n: to(n, "most")), "in common"),
    "parts of a serial loop": ("greatest", with_(Scan, lambda n: replace(n, parallel=False)), "it has no parts"),
    "a place of all threads": (
        "columns", lambda plan: parallel()(with_(Store, lambda n: at(n, ZERO))(plan)), "store at one place",
    ),
    "a table of all threads": ("entries", parallel(), "have the table"),
    "a condition on nothing": (
        "rows", with_(If, lambda n: replace(n, condition=Scalar("other", "bool"))), "there is no scalar other",
    ),
    "a value that is none": (
        "rows", with_(Store, lambda n: replace(n, value=lang.Local("other"))), "is no value of a plan",
    ),
}  # fmt: skip
MEMORY = Array("more", "float64", (ZERO,), 0)


def to(assign: Assign, name: str) -> Assign:
    return replace(assign, name=name) if assign.name == f"{name}_part" else assign


def at(store: Store, place: Any) -> Store:
    return replace(store, target=replace(store.target, place=(place,) * len(store.target.place)))


def into(store: Store, tensor: str) -> Store:
    return replace(store, target=replace(store.target, tensor=tensor))


@pytest.mark.parametrize("case", SPOILT)
def test_what_is_spoilt_is_refused(case: str) -> None:
    name, spoil, what = SPOILT[case]
    program, plan = planned(name)
    spoilt = spoil(plan)
    assert spoilt != plan, f"nothing was changed in the plan of {name}"
    with pytest.raises(WrongPlan, match=what) as found:
        check_steps(spoilt, program)
    assert found.value.node in [*walk(spoilt)]


def test_every_plan_of_steps_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipeline does it, after each planning."""
    seen: list[Plan] = []
    monkeypatch.setattr("spfgen.plan.verify.whole.check_steps", lambda plan, program: seen.append(plan))
    program, plan = planned("rows")
    make_plans(program)
    assert seen == [plan]


def test_reads_are_of_arrays_that_are_there() -> None:
    program, plan = planned("rows")
    reads = [n for n in walk(plan) if isinstance(n, Read)]
    assert reads
    wrong = rewrite(
        lambda n: replace(n, operand=replace(n.operand, array="other")) if isinstance(n, Read) else None, plan
    )
    with pytest.raises(WrongPlan, match=r"there is no array A\.other"):
        check_steps(wrong, program)

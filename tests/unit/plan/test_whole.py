"""The whole plan, compared with what was asked for: each of these mistakes is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import spfgen
from spfgen.errors import InternalError
from spfgen.facts.formula import ONE, Bin, Compare, Expr, Var
from spfgen.ir import rewrite, walk
from spfgen.lang.nodes import Constant
from spfgen.lang.spec import parse_tree
from spfgen.pipeline import make_plans, resolve
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    Assign,
    Block,
    Clear,
    Find,
    Guard,
    Load,
    Plan,
    Products,
    RowWorkspace,
    Scan,
    Store,
)
from spfgen.plan.nodes import FindTable as Index
from spfgen.plan.nodes import SearchState as Kept
from spfgen.plan.verify import compared
from spfgen.plan.verify.compared import Compared
from spfgen.plan.verify.nests import Unknown
from spfgen.plan.verify.whole import check_plan
from spfgen.space.from_lang import join
from spfgen.space.nodes import Program

SPMV = "tensor A : csr tensor x, y : dense y[i] = A[i,j]*x[j]"
TRANSPOSED = "tensor A : csr tensor x, y : dense y[j] = A[i,j]*x[i]"
TWO = "tensor A, B : csr tensor C : dense C[i,j] = A[i,j] + B[i,j]"
FOUND = "tensor A, B : csr tensor y : dense y[i] = A[i,j]*B[i,j] schedule {{ find B.pj : {} }}"
STEPS = "tensor A : csr tensor x, C : dense C[i,j] = maximum(A[i,j], x[j])"


def planned(text: str) -> tuple[Program, Plan, Compared]:
    tree = parse_tree(f"kernel k {{ {text} }}")
    kernel = tree.kernels["k"]
    program = join(kernel, resolve(kernel, tree))
    with compared.recorded() as found:
        (plan,) = make_plans(program)
    return program, plan, found


def first(kind: type, change: Callable[[Any], Any]) -> Callable[[Plan], Plan]:
    """The first node of a kind that can be changed is."""

    def changed(plan: Plan) -> Plan:
        node, new = next((n, c) for n in walk(plan, PLANS) if isinstance(n, kind) and (c := change(n)) not in (None, n))
        done: list[bool] = []

        def rule(n: object) -> Any:
            if n is not node or done:
                return None
            done.append(True)
            return new

        result: Plan = rewrite(rule, plan, PLANS)
        return result

    return changed


def more(expr: Expr) -> Expr:
    return Bin("+", expr, ONE)


def asking(scan: Scan) -> Scan:
    return replace(scan, body=Guard((Compare("!=", Var(scan.dim), ONE),), scan.body))


def kept_longer(plan: Plan) -> Plan:
    """The state of a find around all loops."""
    state = next(n for n in walk(plan, PLANS) if isinstance(n, Kept))
    return replace(state, body=rewrite(lambda n: n.body if isinstance(n, Kept) and n == state else None, plan, PLANS))


def not_cleared(plan: Plan) -> Plan:
    result: Plan = rewrite(
        lambda n: Block(()) if isinstance(n, Clear) and n.part is None else None,
        rewrite(
            lambda n: (
                replace(n, partition=replace(n.partition, clears=""))
                if isinstance(n, Scan) and n.partition is not None and n.partition.clears
                else None
            ),
            plan,
            PLANS,
        ),
        PLANS,
    )
    return result


WRONG: dict[str, tuple[str, Callable[[Plan], Plan], str]] = {
    "a condition that nobody asked for": (SPMV, first(Scan, asking), "which was not asked for"),
    "an array read under the name of another place": (
        SPMV,
        first(Load, lambda n: replace(n, call=replace(n.call, arguments=(more(n.call.arguments[0]),)))),
        "leaves out a point",
    ),
    "a sum that is added elsewhere": (
        SPMV,
        first(Accumulate, lambda n: replace(n, target=replace(n.target, place=(more(n.target.place[0]),)))),
        "works on y at",
    ),
    "threads that meet": (
        TRANSPOSED,
        first(Scan, lambda n: replace(n, partition=replace(n.partition, adds="")) if n.partition else None),
        "write different places of y",
    ),
    "threads that share a sum": (
        SPMV,
        first(Scan, lambda n: replace(n, parallel=True, because="so") if isinstance(n.body, Load | Store) else None),
        "add to one sum|write different places",
    ),
    "nothing is cleared": (TRANSPOSED, not_cleared, "before it is cleared"),
    "a term is left out": (TWO, first(Block, lambda n: Block(n.parts[:-1])), "leaves out a part"),
    "a table of other positions": (
        FOUND.format("hash"),
        first(Index, lambda n: replace(n, low=tuple(map(more, n.low)))),
        "has other positions",
    ),
    "a table of other keys": (
        FOUND.format("hash"),
        first(Index, lambda n: replace(n, call=replace(n.call, arguments=(more(n.call.arguments[0]),)))),
        "has other keys",
    ),
    "a subscript that nothing says": (
        SPMV,
        first(Store, lambda n: replace(n, value=rewrite(lambda p: Var("nosuch") if p == Var("j") else None, n.value))),
        "which nothing around it says",
    ),
    "a state that is kept too long": (FOUND.format("sequential"), kept_longer, "is kept"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_refused(what: str) -> None:
    text, change, message = WRONG[what]
    program, plan, found = planned(text)
    wrong = change(plan)
    assert wrong != plan
    with pytest.raises(InternalError, match=message):
        check_plan(wrong, program, found)


UNKNOWN: dict[str, tuple[str, Callable[[Plan], Plan]]] = {
    "a loop that goes further": (STEPS, first(Scan, lambda n: replace(n, high=tuple(map(more, n.high))))),
    "another key": (STEPS, first(Find, lambda n: replace(n, low=tuple(map(more, n.low))))),
    "a value of another place": (
        STEPS,
        first(Assign, lambda n: rewrite(_beside, n) if not isinstance(n.value, Constant) else None),
    ),
    "nothing is stored": (STEPS, first(Store, lambda _: Block(()))),
}


def _beside(node: object) -> Any:
    place = getattr(node, "place", ())
    return replace(node, place=tuple(map(more, place))) if place else None  # type: ignore[type-var]


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_is_not_known_of_steps_is_counted(what: str) -> None:
    """A rewrite that changes it is refused; where that was planned, less is known."""
    text, change = UNKNOWN[what]
    program, plan, found = planned(text)
    assert program.beyond
    known = check_plan(plan, program, found)
    assert known == Unknown()
    with pytest.raises(InternalError, match="not those that were planned"):
        check_plan(change(plan), program, found)
    alone = replace(found, planned=[])
    assert check_plan(change(plan), program, alone).is_more_than(known)


def test_zeros_that_are_stored_are_told_from_none() -> None:
    """A stored 0 is a place cleared: no nest computes it, so nothing else would say that it is left out."""
    program, plan, known = planned("tensor y : dense y[i] = 0")
    check_plan(plan, program, known)
    cleared = next(n for n in walk(plan, PLANS) if isinstance(n, Clear) or (isinstance(n, Store) and n.op == "="))
    with pytest.raises(InternalError, match="y keeps what it held"):
        check_plan(rewrite(lambda n: Block(()) if n is cleared else None, plan, PLANS), program, known)


TOGETHER = "tensor A, B, C : csr tensor x, y : dense y[i] = A[i,j]*x[j] + B[i,j]*x[j] y[i] += C[i,j]*x[j]"


def statements() -> tuple[Program, tuple[Products, Products], Compared]:
    """Two statements that add to one tensor."""
    tree = parse_tree(f"kernel k {{ {TOGETHER} }}")
    program = join(tree.kernels["k"], resolve(tree.kernels["k"], tree))
    with compared.recorded() as found:
        one, two = make_plans(program)
    assert isinstance(one, Products)
    assert isinstance(two, Products)
    return program, (one, two), found


def test_another_statement_does_not_stand_in() -> None:
    """The nest of the second one is not what the first one asks for."""
    program, (one, two), record = statements()
    assert isinstance(one.body, Block)
    *nests, _ = one.body.parts
    check_plan(one, program, record)
    with pytest.raises(InternalError):
        check_plan(replace(one, body=Block((*nests, two.body))), program, record)


def test_what_was_compared_for_another_statement_is_not_known() -> None:
    program, (one, _), record = statements()
    first, *_ = record.of(one.asked.group)
    lost = [(g, i) for g, i in record.statements if g != one.asked.group or i is first]
    less = check_plan(one, program, replace(record, statements=lost))
    assert less.is_more_than(check_plan(one, program, record))


@pytest.mark.parametrize("change", [
    lambda n: replace(n, axis=0), lambda n: replace(n, extent=Bin("-", n.extent, ONE)),
    lambda n: replace(n, common=tuple(map(more, n.common))), lambda n: replace(n, common=()),
])  # fmt: skip
def test_rows_are_gathered_as_they_are_delivered(change: Callable[[RowWorkspace], RowWorkspace]) -> None:
    made = spfgen.compile("C[i,j] = A[i,k]*B[k,j]", A="csr", B="csr", C="csr").generated
    (plan,) = made.plans
    check_plan(plan, made.program, made.compared)
    with pytest.raises(InternalError, match="row"):
        check_plan(first(RowWorkspace, change)(plan), made.program, made.compared)

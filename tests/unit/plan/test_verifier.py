"""Translation validation fires: a plan that is changed after it was made is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spfgen.errors import InternalError
from spfgen.facts.formula import Bin, Compare, Num, Var, variables
from spfgen.ir import rewrite, walk
from spfgen.lang.spec import parse_tree
from spfgen.pipeline import resolve
from spfgen.plan.context import Context
from spfgen.plan.nodes import Define, Find, Guard, Load, Plan, Scan, Store
from spfgen.plan.verify.meaning import check_nest
from spfgen.space.from_lang import join
from spfgen.space.nodes import ForcedFind, Instance, Operand

SPEC = """
kernel k {
    tensor A : csr
    tensor B : bcsr
    tensor C : dense
    C[i, j] += A[i, j]*B[i, j] where i < 3
}
"""


@pytest.fixture(scope="module", params=["search", "sequential", "gallop", "hash", "array", "bitmap", "loop"])
def nest(request: pytest.FixtureRequest) -> tuple[Instance, Plan]:
    """The instance and its nest as it is before names are simplified, with one algorithm forced."""
    from spfgen.plan.from_space import plan_instance

    tree = parse_tree(SPEC)
    kernel = tree.kernels["k"]
    program = join(kernel, resolve(kernel, tree))
    (instance,) = program.groups[0].instances
    context = Context(forced={"B.pb": ForcedFind("B.pb", request.param)}, stop_after="measure")
    (plan,) = plan_instance(instance, context, store=False)
    return instance, plan


@pytest.mark.sampled(1)
def test_the_plan_itself_passes(nest: tuple[Instance, Plan]) -> None:
    check_nest(*nest)


def changed(plan: Plan, kind: type, change: object) -> list[Plan]:
    """One plan for each node of the kind, with that node changed."""
    count = 0

    def counting(node: object) -> None:
        nonlocal count
        count += isinstance(node, kind)

    rewrite(counting, plan)
    result = []
    for wanted in range(count):
        seen = -1

        def rule(node: object, wanted: int = wanted) -> object:
            nonlocal seen
            if isinstance(node, kind):
                seen += 1
                if seen == wanted:
                    return change(node)  # type: ignore[operator]
            return None

        result.append(rewrite(rule, plan))
    return result


def used(plan: Plan) -> set[str]:
    """The names that a plan needs; subscripts are there to be shown."""
    return variables(rewrite(lambda n: replace(n, subscripts=()) if isinstance(n, Operand) else None, plan))


CHANGES = {
    "a shorter scan": (Scan, lambda n: replace(n, high=tuple(Bin("-", e, Num(1)) for e in n.high))),
    "a longer scan": (Scan, lambda n: replace(n, high=tuple(Bin("+", e, Num(1)) for e in n.high))),
    "a scan that starts late": (Scan, lambda n: replace(n, low=tuple(Bin("+", e, Num(1)) for e in n.low))),
    "a shorter find": (Find, lambda n: replace(n, high=tuple(Bin("-", e, Num(1)) for e in n.high))),
    "a find without conditions": (Find, lambda n: replace(n, conditions=(), key=None)),
    "a find of another value": (Find, lambda n: replace(n, key=replace(n.key, value=Bin("+", n.key.value, Num(1))))),
    "a condition too many": (Store, lambda n: Guard((Compare("=", Var("i"), Num(0)),), n)),
    "another value": (Define, lambda n: replace(n, value=Bin("+", n.value, Num(1)))),
    "a value that is not defined": (Define, lambda n: n.body if n.dim in used(n.body) else None),
    "a load that is left out": (Load, lambda n: n.body),
    "a value defined twice": (Load, lambda n: Load(n.dim, n.call, n)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_noticed(nest: tuple[Instance, Plan], name: str) -> None:
    instance, plan = nest
    kind, change = CHANGES[name]
    if name == "a find of another value" and any(isinstance(n, Find) and n.key is None for n in walk(plan)):
        pytest.skip("the plain loop compares in its conditions")
    wrong = [p for p in changed(plan, kind, change) if p != plan]
    assert wrong, f"the plan has no {kind.__name__}"
    for candidate in wrong:
        with pytest.raises(InternalError):
            check_nest(instance, candidate)


QUOTIENT = """
layout fourths(n) {
    relation { [b, r] -> [i] : 0 <= 4*b < n and 0 <= r < min(4, n - 4*b) and i = 4*b + r and i = at(b) }
    index at[ceil(n/4)] { range 0 <= at(b) < n }
    value val[ceil(n/4)] at [b]
}
kernel k {
    tensor A : fourths
    tensor y : dense
    y[j] += A[i] where 0 <= i < j or i >= 4
}
"""


def test_the_extent_of_an_array_must_be_enforced() -> None:
    """It is a quotient, which is 1 where anything is done at all, but 0 where the size is."""
    from spfgen.plan.from_space import plan_instance

    positive = Compare(">", Var("A.n"), Bin("*", Num(4), Var("A.b")))  # A.b is 0 there
    tree = parse_tree(QUOTIENT)
    kernel = tree.kernels["k"]
    program = join(kernel, resolve(kernel, tree))
    seen = 0
    for instance in program.groups[0].instances:
        (plan,) = plan_instance(instance, Context(stop_after="measure"), store=False)
        for without in changed(plan, Guard, lambda n: n.body if n.conditions == (positive,) else None):
            if without != plan:
                seen += 1
                with pytest.raises(InternalError, match="outside its array"):
                    check_nest(instance, without)
    assert seen


def test_the_error_shows_a_point(nest: tuple[Instance, Plan]) -> None:
    instance, plan = nest
    kind, change = CHANGES["a condition too many"]
    with pytest.raises(InternalError, match=r"leaves out a point: \{.*'i': [1-9]"):
        check_nest(instance, changed(plan, kind, change)[0])

"""An equation that is a sum of products, among other steps: its nests are made and rewritten as if it were all of the
kernel (from_space.py), and compared with the points of its instances.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spfgen.errors import SpecError, Unsupported
from spfgen.facts.formula import Var
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.plan.analyse.comparisons import compares_all
from spfgen.plan.choices import HASHED
from spfgen.plan.from_space import plan_group
from spfgen.plan.nodes import Asked, Plan, Products
from spfgen.plan.steps.env import Env, accesses_of
from spfgen.plan.steps.said import said_of, written_in
from spfgen.space.steps import Chosen, Equation, Gathered, Linked
from spfgen.space.sums import Operands, beyond_products
from spfgen.space.terms import make_group

if TYPE_CHECKING:
    from spfgen.plan.steps.tables import Tables


def is_product(planner: Tables, step: Any) -> bool:
    """Whether a step is an equation that is a sum of products."""
    return isinstance(step, Equation) and _statement(planner, step) is not None


def as_products(planner: Tables, eq: Equation, env: Env) -> Plan | None:
    """The equation as nests of sums of products; None where it is more than that, or is better planned by regions."""
    statement = None if env.known or env.again else _statement(planner, eq)
    if statement is None:
        return None
    unknown = [*eq.indices, *(i for n in walk(eq.value) if isinstance(n, lang.Reduce) for i in n.indices)]
    labels = set(planner.labels)
    try:
        group, temporaries = make_group(statement, planner.tensors, planner.ranges(unknown, env))
        if not group.all or any(s in planner.sizes for i in group.all for s in i.sizes):
            return None  # what is chosen before all statements speaks of sizes, and of nothing that they compute
        context = said_of(group.all, planner.context, planner.steps.called)
        types = {**planner.kinds, **{t.name: t.value_type for t in temporaries}}
        body = plan_group(group, replace(context, types=types))
    except (SpecError, Unsupported):
        planner.labels = labels
        return None
    if planner.context.makes(HASHED) and compares_all((body,), planner.nest_context.stored):
        return None
    planner.named |= {d: n for i in group.all for d, n in written_in(i, planner.steps.called).items()}
    planner.tensors |= {t.name: t for t in temporaries}
    return Products(Asked(group, temporaries), body)


def _statement(planner: Tables, eq: Equation) -> lang.Statement | None:
    """The equation as a statement; None where it is more than a sum of products."""
    if eq.at or eq.selects or eq.within:
        return None
    if eq.updates is not None and (eq.updates.op != "add" or eq.updates.function is not None):
        return None
    if eq.target in planner.collected or eq.target not in {*planner.context.types}:
        return None
    if any(isinstance(n, Chosen | Gathered | Linked) for n in walk(eq.value)):
        return None
    read = [*accesses_of(eq.value)]
    kept = {*planner.tables.values(), *planner.collected, *planner.collected.values()}
    if any(a.tensor == eq.target or a.tensor in kept for a in read):
        return None
    if {*eq.indices, *planner.steps.free} & planner.steps.free & {i for a in read for i in planner.indices_in(a)}:
        return None
    is_sum = isinstance(eq.value, lang.Apply) and eq.value.op in ("add", "subtract")
    if (is_sum or eq.target in planner.assembled) and any(not isinstance(s, Var) for a in read for s in a.subscripts):
        return None  # parts that views move come in order, and are merged
    target = lang.Access(eq.target, eq.subscripts, eq.span)
    statement = lang.Statement(target, "=" if eq.updates is None else "+=", eq.value, eq.where, eq.span)
    return None if beyond_products(statement, _operands(planner)) else statement


def _operands(planner: Tables) -> Operands:
    layouts = {n: t.assembled or t.layout for n, t in planner.tensors.items()}
    return Operands(layouts, planner.kinds, planner.assembled, planner.program.parameters, bool(planner.context.named))

"""An equation that is a sum of products: its nests are made and rewritten as if it were all of the kernel
(from_space.py), and compared with the points of its instances.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spfgen.errors import SpfgenError
from spfgen.plan.from_space import plan_group
from spfgen.plan.nodes import Products
from spfgen.plan.steps.env import Env, accesses_of
from spfgen.plan.steps.schedule_clauses import names_in_text, scheduled_nests
from spfgen.space.steps import Equation

if TYPE_CHECKING:
    from spfgen.plan.steps.tables import Tables


def as_products(planner: Tables, eq: Equation, env: Env) -> Products | None:
    """The equation as nests of sums of products; None where it is more than that, or about what is kept in a table.
    Raises SpecError, Unsupported."""
    asked = planner.steps.sums.get(eq)
    if asked is None or env.known or env.again or eq.target in planner.collected:
        return None
    kept = {*planner.tables.values(), *planner.collected, *planner.collected.values()}
    if any(a.tensor in kept for a in accesses_of(eq.value)):
        return None
    points = asked.group.all
    context = scheduled_nests(points, planner.context, planner.steps.called)
    types = {**planner.kinds, **{t.name: t.value_type for t in asked.temporaries}}
    try:
        body = plan_group(asked.group, replace(context, types=types))
    except SpfgenError as error:
        error.span = error.span or eq.span
        raise
    planner.named |= {d: n for i in points for d, n in names_in_text(i, planner.steps.called).items()}
    planner.tensors |= {t.name: t for t in asked.temporaries}
    return Products(asked, body)

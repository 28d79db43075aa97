"""Versions in C. Costs are compared before memory is taken; conditions are asked where the plan has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spfgen.cir.lower.cost import cost_expr
from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import first_of
from spfgen.plan.nodes import Accumulate, Cheapest, Versions


def versions(low: Lowering, plan: Versions, scope: Scope) -> list[c.Stmt]:
    """The first version whose conditions hold runs."""
    first, *others = plan.versions
    assert not isinstance(first.when, Cheapest)
    if not first.when or not others:
        return low.plan(first.body, scope)
    branches = (low.plan(first.body, scope), versions(low, replace(plan, versions=tuple(others)), scope))
    reason = [] if isinstance(first.body, Accumulate) else [c.Comment(first.because)]  # sums say why themselves
    return [*reason, c.If(low.all(first.when, scope), *(c.Block(tuple(lines)) for lines in branches))]


def cheapest(low: Lowering, plan: Versions, scope: Scope) -> list[c.Stmt]:
    """The costs are compared before memory is taken; then the version of the least runs."""
    prices = [low.names.new(f"cost_{k + 1}") for k in range(len(plan.versions))]
    chosen = low.names.new("variant")
    low.choices.append(c.Comment(f"{plan.because}: expected nanoseconds of each variant"))
    for name, variant in zip(prices, plan.versions, strict=True):
        low.choices.append(c.Declare("const double", name, cost_expr(variant.cost, low, scope)))
    number: c.Expr = c.Int(len(prices))
    for k in range(len(prices) - 1, 0, -1):
        least = [c.Bin("<=", c.Name(prices[k - 1]), c.Name(p)) for p in prices[k:]]
        number = c.Select(all_of(least), c.Int(k), number)
    low.choices.append(c.Declare("const int", chosen, number))
    tests = [c.Bin("==", c.Name(chosen), c.Int(k + 1)) for k in range(len(prices))]
    bodies = [
        c.Block(tuple(low.plan(v.body, replace(scope, when=t)))) for v, t in zip(plan.versions, tests, strict=True)
    ]
    return [first_of(zip(tests[:-1], bodies[:-1], strict=True), bodies[-1])]


def all_of(conditions: Sequence[c.Expr]) -> c.Expr:
    result = conditions[0]
    for condition in conditions[1:]:
        result = c.Bin("&&", result, condition)
    return result

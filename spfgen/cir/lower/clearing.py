"""What is cleared in the loop that fills it, or before it: what lies between the places of its iterations."""

from __future__ import annotations

from collections.abc import Sequence

from spfgen import tuning
from spfgen.cir.lower.cost import cost_expr
from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import joined, minus
from spfgen.cir.tree.elements import zero
from spfgen.facts.formula import Expr, substitute
from spfgen.ir import rewrite, walk
from spfgen.lang.types import ElementType
from spfgen.plan.nodes import Clear, Plan, Scan


def cleared_between(
    low: Lowering, plan: Plan, first: Sequence[Expr], past: Sequence[Expr], scope: Scope
) -> list[c.Stmt]:
    """What a part of a loop clears before its iterations, from the first one on, before another."""
    if not isinstance(plan, Scan) or plan.between is None or plan.between.part is None:
        return []
    ends = dict(zip(plan.ends_of_part, (*first, *past), strict=True))
    return cleared(low, plan.between, substitute(plan.between.part, ends), scope)


def cleared(low: Lowering, clear: Clear, part: Plan, scope: Scope) -> list[c.Stmt]:
    """The part becomes zero: past the caches, where the result is more than they hold and few of its lines are added
    to."""
    lines = low.plan(part, scope)
    kind, values = low.kinds[clear.tensor], low.program.tensor(clear.tensor).layout.values
    runs = any(_run(n, kind) for line in lines for n in walk(line, c.Stmt))
    if clear.additions is not None and len(values) == 1 and runs:
        far = _far(low, clear, kind)

        def rule(node: object) -> c.Stmt | None:
            run = _run(node, kind)
            if run is None:
                return None
            return c.Do(c.Call("spfgen_clear", (*run, c.Call("sizeof", (c.Name(kind.c),)), far)))

        lines = [rewrite(rule, line, c.Stmt) for line in lines]
    return [c.Comment(f"{clear.tensor} is cleared here: {clear.because}"), *lines]


def _run(node: object, kind: ElementType) -> tuple[c.Expr, c.Expr] | None:
    """Where the neighbours begin that a loop makes zero one after another, and how many there are."""
    match node:
        case c.For(
            _, k, start, c.Bin("<", c.Name(own), end), 1, c.Block((c.Assign(c.Load(array, index), "=", value),))
        ):
            if own != k or value != zero(kind) or end == c.Int(1):
                return None
        case _:
            return None
    match index:
        case c.Name(name) if name == k:
            before: list[c.Expr] = []
        case c.Bin("+", rest, c.Name(name)) if name == k and c.Name(k) not in walk(rest):
            before = [rest]
        case _:
            return None
    return joined("+", [array, *before, *([] if start == c.Int(0) else [start])]), minus(end, start)


def _far(low: Lowering, clear: Clear, kind: ElementType) -> c.Name:
    """Whether it is more than caches hold, with few additions beside its lines."""
    assert clear.additions is not None
    (values,) = low.program.tensor(clear.tensor).layout.values
    count = joined("*", [c.Cast("double", low.layout_expr(e, clear.tensor)) for e in values.extents])
    additions = c.Bin(
        "*",
        c.Float(float(tuning.STREAMED_LINES * tuning.CACHE_LINE // kind.bytes)),
        cost_expr(clear.additions, low, Scope()),
    )
    enough = [c.Bin(">=", count, c.Float(float(tuning.STREAMED_BYTES // kind.bytes))), c.Bin("<=", additions, count)]
    why = f"{clear.tensor} is more than caches hold, and few of its lines are added to: zeros go past them"
    return low.chosen("const bool", f"{clear.tensor}_far", joined("&&", enough), why)

"""Cost formulas (plan/cost.py) in C: real numbers over the sizes."""

from __future__ import annotations

from spfgen.cir import nodes as c
from spfgen.cir.scope import Scope
from spfgen.cir.values import Values
from spfgen.errors import InternalError
from spfgen.facts.formula import Bin, Call, Expr, Num, Var


def cost_expr(cost: Expr, low: Values, scope: Scope) -> c.Expr:
    match cost:
        case Num(value):
            return c.Float(float(value))
        case Bin("/", Num(a), Num(b)):
            return c.Float(a / b)
        case Var():
            return c.Cast("double", low.expr(cost, scope))
        case Call("log2", (inner,)):
            return c.Call("spfgen_log2", (cost_expr(inner, low, scope),))
        case Bin("/" | "quot", left, right):
            return c.Call("spfgen_over", (cost_expr(left, low, scope), cost_expr(right, low, scope)))
        case Bin("min" | "max" as op, left, right):
            one, two = cost_expr(left, low, scope), cost_expr(right, low, scope)
            return c.Select(c.Bin("<" if op == "min" else ">", one, two), one, two)
        case Bin("+" | "-" | "*" as op, left, right):
            return c.Bin(op, cost_expr(left, low, scope), cost_expr(right, low, scope))
    raise InternalError(f"no C for the cost {cost!r}")

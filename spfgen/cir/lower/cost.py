"""Cost formulas (plan/analyse/cost.py) in C: real numbers over the sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.values import ValueLowering
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.names import Names
from spfgen.errors import InternalError
from spfgen.facts.formula import Bin, Call, Expr, Num, Var
from spfgen.ir import rewrite, walk


def cost_expr(cost: Expr, low: ValueLowering, scope: Scope) -> c.Expr:
    match cost:
        case Num(value):
            return c.Float(float(value))
        case Bin("/", Num(a), Num(b)):
            return c.Float(a / max(b, 1))  # as spfgen_over
        case Var():
            return c.Cast("double", low.expr(cost, scope))
        case Call("threads", ()):
            return c.Cast("double", c.Name("threads"))
        case Call("log2", (inner,)):
            return c.Call("spfgen_log2", (cost_expr(inner, low, scope),))
        case Bin("/" | "quot", left, Num(b)) if b >= 1:
            return c.Bin("/", cost_expr(left, low, scope), c.Float(float(b)))
        case Bin("/" | "quot", left, right):
            return c.Call("spfgen_over", (cost_expr(left, low, scope), cost_expr(right, low, scope)))
        case Bin("min" | "max" as op, left, right):
            name = "spfgen_least" if op == "min" else "spfgen_most"
            return c.Call(name, (cost_expr(left, low, scope), cost_expr(right, low, scope)))
        case Bin("+" | "-" | "*" as op, left, right):
            return c.Bin(op, cost_expr(left, low, scope), cost_expr(right, low, scope))
    raise InternalError(f"no C for the cost {cost!r}")


def named(lines: Sequence[c.Stmt], names: Names) -> list[c.Stmt]:
    """The lines, which weigh costs, with each ratio that they speak of several times under a name of its own."""
    before: list[c.Stmt] = []
    weighed = list(lines)
    while again := [n for n, times in Counter(_ratios(weighed)).items() if times > 1]:
        inner = min(again, key=lambda n: sum(1 for _ in walk(n)))
        name = c.Name(names.new("ratio"))
        before.append(c.Declare("const double", name.name, inner))
        weighed = [_replaced(s, inner, name) for s in weighed]
    about: list[c.Stmt] = [c.Comment("what the cost estimates depend on")] if before else []
    return [*about, *before, *weighed]


def _ratios(lines: Sequence[c.Stmt]) -> Iterator[c.Call]:
    return (n for s in lines for n in walk(s) if isinstance(n, c.Call) and n.function == "spfgen_over")


def _replaced(line: c.Stmt, one: c.Expr, by: c.Expr) -> c.Stmt:
    result: c.Stmt = rewrite(lambda n: by if n == one else None, line)
    return result

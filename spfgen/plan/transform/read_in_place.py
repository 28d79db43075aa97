"""What is used once needs no name: it is read where it is used.

    for p { j = f(p); y[i] += A[p]*x[j] }   ->   for p { y[i] += A[p]*x[f(p)] }

The node stays, so that other passes and the proofs know the dimension; it says that it is not declared. A value that a
loop further in uses is read above that loop.
"""

from __future__ import annotations

from dataclasses import replace

from spfgen.facts.formula import Var, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.nodes import PLANS, Define, Find, FindTable, Guard, Load, Plan, Scan, SearchState, Store, is_sum


def with_reads_in_place(plan: Plan) -> Plan:
    """The plan whose loads say whether they are read where they are used."""
    result: Plan = rewrite(_in_place, plan, PLANS)
    return result


def _in_place(node: object) -> Plan | None:
    match node:
        case Load(dim, body=body) if _uses(body, dim) == 1 and _is_used_here(dim, body):
            return replace(node, in_place=True)
        case Find(loads=loads, hit=hit):
            conditions = (node.meaning or node).conditions
            used = {x.dim: sum(_uses(f, x.dim) for f in conditions) for x in loads}
            loaded = tuple(
                replace(x, in_place=used[x.dim] <= 1 and x.dim not in variables(hit))  # type: ignore[arg-type]
                for x in loads
            )
            return replace(node, loads=loaded) if any(x.in_place for x in loaded) else None
    return None


def _uses(node: object, dim: str) -> int:
    return sum(1 for n in walk(node) if n == Var(dim))


def _is_used_here(dim: str, body: Plan) -> bool:
    """Whether the only use is before a loop further in."""
    node: Plan | None = body
    while node is not None:
        match node:
            case Scan(low=low, high=high) | Find(low=low, high=high):
                return any(dim in variables(e) for e in (*low, *high))
            case Load(call=call, body=inner):
                if dim in variables(call):
                    return True
                node = inner
            case Define(value=value, body=inner):
                if dim in variables(value):
                    return True
                node = inner
            case Guard(conditions, inner):
                if any(dim in variables(f) for f in conditions):
                    return True
                node = inner
            case _ if is_sum(node):
                if any(dim in variables(p) for p in node.target.place):
                    return False
                node = node.body
            case SearchState(body=inner) | FindTable(body=inner):
                node = inner
            case Store():
                return True
            case _:
                return False
    return False

"""How the iterations of a parallel loop are shared out: by the lengths of the loops inside, where an array has them."""

from __future__ import annotations

from dataclasses import replace

from spfgen.facts.formula import ONE, Bin, Call, Var, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.nodes import Find, Load, Locate, Plan, Scan


def weighted(plan: Plan) -> Plan:
    """Parallel scans over i with an inner loop over [f(i), f(i + 1)) get f as their weight."""

    def rule(node: object) -> Plan | None:
        if not isinstance(node, Scan) or not node.parallel:
            return None
        function = _lengths(node)
        return replace(node, weight=function) if function else None

    result = rewrite(rule, plan)
    assert isinstance(result, Plan)
    return result


def _lengths(scan: Scan) -> str:
    """The array whose neighbouring values bound the first inner loop that depends on the scan's own position."""
    loaded = {n.dim: n.call for n in walk(scan.body) if isinstance(n, Load)}
    own = {scan.dim, *(n.dim for n in walk(scan.body) if isinstance(n, Locate) and n.value == Var(scan.dim))}
    for node in walk(scan.body):
        if isinstance(node, Scan | Find) and len(node.low) == 1:
            low = _call(node.low[0], loaded)
            highs = [c for c in (_call(e, loaded) for e in node.high) if c is not None]
            for high in highs:
                if low is not None and _neighbours(low, high, own):
                    return low.function
            if variables(node.low[0]) & own:
                return ""
    return ""


def _call(expr: object, loaded: dict[str, Call]) -> Call | None:
    return loaded.get(expr.name) if isinstance(expr, Var) else None


def _neighbours(low: Call, high: Call, own: set[str]) -> bool:
    """f(i) and f(i + 1), for the scan's own i."""
    if low.function != high.function or len(low.arguments) != 1:
        return False
    first = low.arguments[0]
    return isinstance(first, Var) and first.name in own and high.arguments[0] == Bin("+", first, ONE)

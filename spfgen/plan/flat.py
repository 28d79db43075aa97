"""Segments that lie one behind the other, gone through in one loop.

    for i { for p in [f(i), f(i + 1)) { y[g(p)] += A[p]*x[i] } }

Where segments are short and of many lengths a processor foresees few of their ends, and begins anew after each of the
others. But all positions of some neighbouring i are one range: one loop goes through it, which needs to know where an i
begins, and nothing needs to be foreseen. Where no position needs its i, one loop goes through them all.
"""

from __future__ import annotations

from dataclasses import replace

from spfgen.facts.formula import variables
from spfgen.ir import rewrite
from spfgen.plan.nodes import PLANS, Do, Load, Locate, Plan, Scan, chain
from spfgen.plan.sweep import pointer_of, segments_rise
from spfgen.space.nodes import Instance


def with_flat(instance: Instance, plan: Plan) -> Plan:
    """The plan whose loops over such segments may do so."""
    result: Plan = rewrite(lambda n: _flat(instance, n) if isinstance(n, Scan) else None, plan, PLANS)
    return result


def _flat(instance: Instance, outer: Scan) -> Plan | None:
    above: list[Plan] = []
    inner = outer.body
    while isinstance(inner, Load):
        above.append(inner)
        inner = inner.body
    if not isinstance(inner, Scan) or not _is_plain(inner) or inner.parallel or outer.collapse or not _is_plain(outer):
        return None
    if not all(isinstance(n, Load | Locate | Do) for n in chain(inner.body)):
        return None
    pointer = pointer_of(outer, inner, above)
    if pointer is None or {v for e in (*inner.low, *inner.high) for v in variables(e)} & _used(inner):
        return None
    return replace(outer, flat=pointer) if segments_rise(instance, outer, pointer) else None


def _is_plain(scan: Scan) -> bool:
    return not (scan.down or scan.vector or scan.unroll or scan.runs)


def _used(inner: Scan) -> set[str]:
    """What the loop asks for at its positions."""
    return variables(inner.body)  # type: ignore[arg-type]


def asked_above(outer: Scan, inner: Scan) -> list[Load]:
    """What is loaded for an iteration of the outer loop and asked for at the positions of the inner one."""
    loads = []
    node = outer.body
    while isinstance(node, Load):
        loads.append(node)
        node = node.body
    used, found = _used(inner), list[Load]()
    for load in reversed(loads):
        if load.dim in used:
            found.insert(0, load)
            used |= variables(load.call)
    return found

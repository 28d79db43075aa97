"""Results in layouts of intervals, such as run-length codes: what is constant along a loop is appended once.

If the result's layout stores intervals along a coordinate, and the body of a loop over this coordinate uses it only as
the coordinate of an entry, the loop appends one interval. Then the work is proportional to the number of intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

from spfgen.facts.formula import ONE, Bin, Expr, Var, substitute
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.plan.nodes import Append, Assign, Block, Define, If, Let, Plan, Scan, goes_on
from spfgen.sets.affine import NotAffine
from spfgen.sets.uf import linear


def with_intervals(plan: Plan, axes: Mapping[str, int]) -> Plan:
    """The plan, with intervals for the results that can be packed by intervals along the given axes."""

    def rule(node: Any) -> Plan | None:
        return _appended(node, axes) if isinstance(node, Scan) and not node.private else None

    result: Plan = rewrite(rule, plan, Plan) if axes else plan
    return result


def _appended(scan: Scan, axes: Mapping[str, int]) -> Plan | None:
    """The body of a loop, executed once; None if iterations differ in more than the coordinate."""
    local_names = {n.name for n in walk(scan.body, Plan) if isinstance(n, Let)}
    if any(isinstance(n, Assign) and n.name not in local_names for n in walk(scan.body, Plan)):
        return None
    once = _once(scan.body, scan, {scan.dim: Var(scan.dim)}, axes)
    if once is None or not any(isinstance(n, Append) for n in walk(once, Plan)):
        return None
    low, high = _bounds(scan)
    some = lang.Apply("less", (lang.Index(low), lang.Index(high)))
    return If(some, once, None, f"the value is the same for all {scan.dim}: it is appended once")


def _once(plan: Plan, scan: Scan, moving: dict[str, Expr], axes: Mapping[str, int]) -> Plan | None:
    """The body, rewritten to append one interval; None if anything else in it changes with the loop. `moving`: the
    names that do, in terms of the loop's index."""
    match plan:
        case Block(parts):
            done: list[Plan] = []
            for part in parts:
                if goes_on(part) and _moves(part.value, moving):
                    moving[part.dim] = substitute(part.value, moving)
                    continue
                part_once = _once(part, scan, moving, axes)
                if part_once is None:
                    return None
                done.append(part_once)
            return replace(plan, parts=tuple(done))
        case Define(dim, value, body) if _moves(value, moving):
            return _once(body, scan, {**moving, dim: substitute(value, moving)}, axes)
        case Let(_, _, value) | Assign(_, _, value):
            return None if _moves(value, moving) else plan
        case If(condition, then, otherwise):
            inside = None if _moves(condition, moving) else _once(then, scan, moving, axes)
            otherwise_once = None if otherwise is None else _once(otherwise, scan, moving, axes)
            if inside is None or (otherwise_once is None) != (otherwise is None):
                return None
            return replace(plan, then=inside, otherwise=otherwise_once)
        case Append(tensor, _, value, last=None) if tensor in axes and not _moves(value, moving):
            return _interval(plan, scan, moving, axes[tensor])
    return None


def _interval(append: Append, scan: Scan, moving: Mapping[str, Expr], axis: int) -> Plan | None:
    if any(_moves(e, moving) for k, e in enumerate(append.coordinates) if k != axis):
        return None
    place = substitute(append.coordinates[axis], dict(moving))
    try:
        if linear(place).coefficient(scan.dim) != 1:
            return None
    except NotAffine:
        return None
    low, high = _bounds(scan)
    first = substitute(place, {scan.dim: low})
    last = substitute(place, {scan.dim: Bin("-", high, ONE)})
    coordinates = tuple(first if k == axis else e for k, e in enumerate(append.coordinates))
    return replace(append, coordinates=coordinates, last=last, axis=axis)


def _bounds(scan: Scan) -> tuple[Expr, Expr]:
    low = reduce(lambda a, b: Bin("max", a, b), scan.low)
    return low, reduce(lambda a, b: Bin("min", a, b), scan.high)


def _moves(value: Any, moving: Mapping[str, Expr]) -> bool:
    return any(isinstance(n, Var) and n.name in moving for n in walk(value))

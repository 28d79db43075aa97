"""Short loops that add to places which an array names, written out four at a time:

    for q in [f(j), f(j + 1)) { C[i, idx(q)] += A[p]*B[q] }

No compiler runs such iterations side by side, as two of the places might be one, so that each takes its own counting
and comparing: with 20 to 70 entries a segment, all in the caches, four at a time take 5 to 15 % less. The order of the
additions stays as it is. `GCC unroll` would not do: gcc 12 passes over it in the functions that it makes of parallel
loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.build import INT, loop
from spfgen.cir.scope import Scope
from spfgen.facts.formula import Num, variables
from spfgen.plan.nodes import Do, Load, Locate, Scan, chain

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering

TIMES = 4


def scatters(plan: Scan) -> bool:
    """Whether a loop over a segment has nothing inside but an addition to a place that an index array holds for each
    iteration. A loop from 0 on is as good as it is: it is long, or a part of loops that run as one."""
    if plan.parallel or plan.down or plan.vector or plan.unroll or plan.runs:
        return False
    if not all(variables(e) for e in plan.low) or any(isinstance(e, Num) for e in plan.high):
        return False
    *above, do = chain(plan.body)
    if not isinstance(do, Do) or do.op != "+=":
        return False
    moving, held = {plan.dim}, set[str]()
    for node in above:
        if not isinstance(node, Load | Locate):
            return False
        spoken = variables(node.call if isinstance(node, Load) else node.value)
        if spoken & moving:
            moving.add(node.dim)
            if isinstance(node, Load) or spoken & held:
                held.add(node.dim)
    return any(variables(e) & held for e in do.target.place)


def few_at_a_time(low: Lowering, plan: Scan, scope: Scope, body: Sequence[c.Stmt]) -> list[c.Stmt]:
    """The loop over `body`: four iterations at a time, then what is left."""
    position = low.names[plan.dim]
    first, end = low.fold("spfgen_max", plan.low, scope), low.fold("spfgen_min", plan.high, scope)
    lines: list[c.Stmt] = []
    if not isinstance(end, c.Name | c.Int):
        lines.append(c.Declare(f"const {INT}", low.names.new(f"{position}_end"), end))
        end = c.Name(lines[-1].name)  # type: ignore[attr-defined]
    at, lane = c.Name(low.names.new(f"{position}_next")), low.names.new("lane")
    lane_loop = loop(
        lane, c.Int(0), c.Int(TIMES), [c.Declare(f"const {INT}", position, c.Bin("+", at, c.Name(lane))), *body]
    )
    enough = c.Bin("<=", c.Bin("+", at, c.Int(TIMES)), end)
    return [
        *lines,
        c.Declare(INT, at.name, first),
        c.While(enough, c.Block((lane_loop, c.Assign(at, "+=", c.Int(TIMES))))),
        loop(position, at, end, body),
    ]

"""Plans of steps: IR 2 to IR 3, which tensor drives each loop, how all others are looked up.

An equation that is a sum of products has the nests of its instances (from_space.py). All others are carried out region
by region (regions.py): the accesses of one region drive a nest of loops, and at each
of its points the value is computed; what does not drive is looked up there, and is its fill where nothing is found.
A point that an earlier region has is passed over, so that each point is met once. Where the value may differ
everywhere the loops run over all points. All of it holds for any layout: nests come from the scan (scan.py), and finds
from proofs (finds/).
"""

from __future__ import annotations

from spfgen.plan.context import Context
from spfgen.plan.nodes import Block, Plan, Products
from spfgen.plan.steps.loops import Loops
from spfgen.plan.steps.schedule_clauses import check_clauses
from spfgen.space.nodes import Program


def plan_steps(program: Program, context: Context) -> tuple[Plan, ...]:
    """The plans of a kernel's statements, one for each where all are sums of products, else one for all. Raises
    SpecError, Unsupported."""
    loops = Loops(program.steps, program, context)
    plan = loops.plan()
    check_clauses(plan, context, loops.named, program.steps)
    alone = [n for p in plan.parts if isinstance(p, Block) for n in p.parts if isinstance(n, Products)]
    return tuple(alone) if len(alone) == len(plan.parts) else (plan,)

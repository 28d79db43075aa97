"""Plans of steps: which tensor drives each loop, how all others are looked up.

An equation is carried out region by region (regions.py): the accesses of one region drive a nest of loops, and at each
of its points the value is computed; what does not drive is looked up there, and is its fill where nothing is found.
A point that an earlier region has is passed over, so that each point is met once. Where the value may differ
everywhere the loops run over all points. All of it holds for any layout: nests come from the scan (scan.py), and finds
from proofs (finds/), as for sums of products.
"""

from __future__ import annotations

from spfgen.plan.context import Context
from spfgen.plan.nodes import Plan
from spfgen.plan.steps.loops import Loops
from spfgen.plan.steps.said import check_said
from spfgen.space.nodes import Program
from spfgen.space.steps import Steps


def plan_steps(steps: Steps, program: Program, context: Context) -> Plan:
    """The plan of a kernel's steps. Raises SpecError, Unsupported."""
    loops = Loops(steps, program, context)
    plan = loops.plan()
    check_said(plan, context, loops.named)
    return plan

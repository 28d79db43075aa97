"""Whether threads that share a loop add the sums of small blocks (register_blocks.py) to different places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spfgen.facts.formula import variables
from spfgen.plan.analyse.depend import sums_disjoint
from spfgen.plan.analyse.order import scan_order
from spfgen.plan.analyse.scan import Step
from spfgen.plan.build.drivers import steps_in_order
from spfgen.plan.nodes import Accumulate, Registers
from spfgen.sets.affine import Affine
from spfgen.sets.named import Constraint
from spfgen.space.nodes import Instance


def blocks_disjoint(
    instance: Instance, steps: Sequence[Step], sums: Accumulate, block_loop: str, loop: str, above: set[str]
) -> bool:
    """Whether the sums of whole small blocks go to different places in different iterations of a loop around them.
    `own` is the loop that has a sum in each iteration."""
    registers = sums.storage
    assert isinstance(registers, Registers)
    if block_loop != registers.dim:
        return _slices_disjoint(instance, steps, block_loop, loop, above)
    level = max((k + 1 for k, s in enumerate(steps) if s.dim in above), default=0)  # some before it are not needed
    around = steps[:level]
    step = next((s for s in steps[level:] if s.dim == registers.dim), None)
    spoken = variables(*sums.target.place)
    if step is None or loop not in {s.dim for s in around} or not spoken <= set(instance.domain.space.names):
        return False
    at = Affine(((registers.dim, 1),))
    inside = [Constraint(False, at), Constraint(False, at.scaled(-1).plus(registers.count - 1))]
    visited = [*around, replace(step, known=around[-1].known.with_constraints(inside))]
    return sums_disjoint(replace(instance, target=sums.target), visited, loop)


def _slices_disjoint(instance: Instance, steps: Sequence[Step], block_loop: str, loop: str, above: set[str]) -> bool:
    """The same of sums that are stored where only the loops around and `own` are known, whatever was summed: the steps
    of an order that begins with those say to what places."""
    scans = [s.dim for s in steps if s.kind == "scan"]
    around = [d for d in scans if d in above]
    first = steps_in_order(
        instance, scan_order(instance, (*around, block_loop, *(d for d in scans if d not in around)))
    )
    order = [s.dim for s in first if s.kind == "scan"]
    last = next((k for k, s in enumerate(first) if s.kind == "scan" and s.dim not in (*around, block_loop)), len(first))
    visited = first[:last]
    if order[: len(around) + 1] != [*around, block_loop] or loop not in around or any(s.guards for s in visited):
        return False
    if not variables(*instance.target.place) <= {*(s.dim for s in visited), *instance.sizes}:
        return False
    return sums_disjoint(instance, visited, loop)

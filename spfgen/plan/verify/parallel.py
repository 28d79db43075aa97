"""What threads share: iterations of a parallel loop write different places, or the loop says how they add to one.

Where a loop does not say how its threads add to one place, no two of its iterations may meet at one, and nothing that
they add to may be kept around it. That they do not meet is proved of the instance (analyse/depend.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from spfgen.ir import children, walk
from spfgen.plan.nodes import PLANS, Accumulate, Find, Plan, Scan, Version, Workspace, stores_in
from spfgen.plan.verify.meaning import Fault

Loop = Scan | Find


def check_parallel(plan: Plan, apart: Callable[[Loop, str], bool]) -> None:
    """Raises Fault; `apart` is asked whether iterations of a loop write different places of a tensor."""
    for loop, kept in _shared(plan, frozenset()):
        written = {n.target.tensor for n in stores_in(loop)}
        inside = {n.target.tensor for n in walk(loop, PLANS) if isinstance(n, Accumulate) and not n.op}
        for tensor in sorted(written - inside):
            if tensor in kept:
                raise Fault(f"threads that share {loop.dim} add to one sum of {tensor}")
            if not apart(loop, tensor):
                raise Fault(f"it is not proved that iterations of {loop.dim} write different places of {tensor}")


def shared_loops(plan: Plan) -> Iterator[Loop]:
    """The parallel loops that do not say how their threads add to one place."""
    return (n for n in walk(plan, PLANS) if isinstance(n, Loop) and _is_shared(n))


def _is_shared(loop: Loop) -> bool:
    return loop.parallel and not (loop.partition is not None and loop.partition.adds)


def _shared(node: Plan | Version, kept: frozenset[str]) -> Iterator[tuple[Loop, frozenset[str]]]:
    """Those loops, and the tensors of which there is a sum around each."""
    if isinstance(node, Accumulate) and not isinstance(node.storage, Workspace):
        kept |= {node.target.tensor}
    if isinstance(node, Loop) and _is_shared(node):
        yield node, kept
    for inner in children(node):
        if isinstance(inner, Plan | Version):
            yield from _shared(inner, kept)

"""What is added to was cleared before, or stored: in the order in which a plan runs.

Which places are cleared is compared where sets can say it: those that nests of loops clear or store, beside all that
the target's array has.
"""

from __future__ import annotations

from spfgen.ir import children
from spfgen.lang.nodes import Constant
from spfgen.plan.nodes import Accumulate, Append, Clear, Find, Plan, Scan, Store, Version, Versions
from spfgen.plan.verify.meaning import Fault


def check_cleared(plan: Plan, target: str) -> None:
    """Raises Fault where something is added to the target before it was cleared, or where what it held stays."""
    if not _cleared(plan, target, False):
        raise Fault(f"{target} keeps what it held")


def _cleared(node: Plan | Version, target: str, before: bool) -> bool:
    """Whether the target holds nothing of before once the node has run, if it did so `before`."""
    match node:
        case Clear(tensor, part=part, body=body) if tensor == target:
            if part is None or body is None:
                return True
            _check_clears(part, target)
            return _cleared(body, target, True)
        case Store(operand, op=op) if operand.tensor == target:
            if op == "+=" and not before:
                raise Fault(f"{target} is added to before it is cleared")
            return True
        case Append(tensor) if tensor == target:
            if not before:
                raise Fault(f"entries of {target} come beside those of before")
            return True
        case Accumulate(operand, op) if operand.tensor == target and op:
            if op == "+=" and not before:
                raise Fault(f"a sum is added to {target} before it is cleared")
            _cleared(node.body, target, True)
            return True
        case Versions(versions):
            cleared = [_cleared(v.body, target, before) for v in versions]  # each of them is looked at
            return all(cleared)
        case Scan(partition=partition) | Find(partition=partition):
            before = before or (partition is not None and partition.clears == target)
    for inner in children(node):
        if isinstance(inner, Plan | Version):
            before = _cleared(inner, target, before) or before
    return before


def _check_clears(part: Plan, target: str) -> None:
    """That a nest makes places of the target zero, and does nothing else."""
    does = [n for n in _leaves(part) if isinstance(n, Store)]
    if not does or not all(d.target.tensor == target and d.op == "=" and d.value == Constant(0) for d in does):
        raise Fault(f"what is to clear {target} does something else")


def _leaves(node: object) -> list[object]:
    inner = [n for n in children(node) if isinstance(n, Plan | Version)]
    return [leaf for n in inner for leaf in _leaves(n)] or [node]

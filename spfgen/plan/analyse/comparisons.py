"""Loops that compare all entries of a tensor."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from spfgen.facts.formula import calls, other_arguments, variables
from spfgen.ir import walk
from spfgen.plan.analyse.cost import CountedSize
from spfgen.plan.nodes import PLANS, Collect, Find, Load, Plan, Scan
from spfgen.space.local_tensors import COUNT


def looks_at_all(node: object, stored: Mapping[str, CountedSize]) -> bool:
    """Whether a loop goes through everything that a tensor stores, of which there are as many as one of these sizes
    says. A width is not everything, nor is the number of diagonals."""
    return _looks_at_all(node, _everything(stored))


def _everything(stored: Mapping[str, CountedSize]) -> set[str]:
    return {size for size, counted in stored.items() if not counted.each}


def _looks_at_all(node: object, stored: Collection[str]) -> bool:
    if not isinstance(node, Find | Scan):
        return False
    bounds = variables(*node.low, *node.high)
    everything = bool(bounds) and bounds <= {*stored}
    return everything and (isinstance(node, Scan) or node.key is None)


def compares_all(plans: Iterable[Plan], sizes: Mapping[str, CountedSize]) -> bool:
    """Whether such a loop stands within a loop over what another tensor stores: all is compared with all."""
    nodes = [n for p in plans for n in walk(p, PLANS)]
    stored = {*_everything(sizes), *(f"{n.name}.{COUNT}" for n in nodes if isinstance(n, Collect))}
    arrays = {n.dim: n.call.function for n in nodes if isinstance(n, Load)} | {n: n for n in stored}
    loops = [n for n in nodes if isinstance(n, Scan | Find)]
    for loop in loops:
        around = _owners(loop, arrays)
        if not around or loop.inner is None:
            continue
        inside = (n for n in walk(loop.inner, PLANS) if isinstance(n, Scan | Find) and _looks_at_all(n, stored))
        if any(_is_alone(n) and around - _owners(n, arrays) for n in inside):
            return True
    return False


def _owners(loop: Scan | Find, arrays: Mapping[str, str]) -> set[str]:
    """The tensors of which the loop goes through what they store: its bounds are sizes or elements of index arrays."""
    bounds = (*loop.low, *loop.high)
    arrays_read = {arrays[v] for e in bounds for v in variables(e) if v in arrays} | {
        c.function for e in bounds for c in calls(e)
    }
    return {n.partition(".")[0] for n in arrays_read}


def _is_alone(loop: Scan | Find) -> bool:
    """Whether what is read at its positions is said by the positions alone: it is no row of several."""
    loads = loop.loads if isinstance(loop, Find) else [n for n in walk(loop.body, PLANS) if isinstance(n, Load)]
    calls = [n.call for n in loads if loop.dim in variables(n.call)]
    return not any(variables(e) for call in calls for e in other_arguments(call, loop.dim))

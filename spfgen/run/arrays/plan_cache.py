"""How lazy arrays like earlier ones were computed: to cut a graph into kernels takes longer than small kernels run.

What is decided depends on what a graph does, on layouts, types and shapes of its operands, and on how many entries
there are, roughly (`graph.Likeness`). Numbers of Python are operands: there is no kernel where they say what the fill
value is (`pieces.for_any_numbers`). What was done is kept as a plan: a kernel that is remembered (calls/call_cache.py),
or steps, each of which is a function of values, or the plan of a part.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from spfgen.run.arrays.graph import Leaf, Node, children, identity_of, in_order, signature_of
from spfgen.run.arrays.operations import operation
from spfgen.run.arrays.text import fused, is_finite, sampled
from spfgen.run.calls.call_cache import NOTHING, called, is_known
from spfgen.run.calls.layout_signature import remember
from spfgen.run.later import mode

AGAIN = 32
"""So often a small graph goes node by node before it is asked again whether there is a kernel for it, and then twice as
often each time, up to `AGAIN_AT_MOST`."""
AGAIN_AT_MOST = 4096

Step = tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]
"""A function, the places of its operands, and those of values that nothing needs later."""


@dataclass(frozen=True)
class KernelCall:
    """`operands`: by name the place of a value among those of the graph, or an array that holds a number; `numbers`:
    the places of those of Python, with the types that they have there."""

    key: Hashable
    operands: tuple[tuple[str, Any], ...]
    numbers: tuple[tuple[str, int, np.dtype[Any]], ...]

    def run(self, given: Sequence[Any]) -> Any:
        """The value; NOTHING where the kernel does not take these operands."""
        operands = {n: given[v] if type(v) is int else v for n, v in self.operands}
        for name, place, kind in self.numbers:
            operands[name] = np.array(given[place], kind)
        return called(self.key, operands)


@dataclass
class GraphSteps:
    """Places are among the operands and the values of earlier steps. `times`: how often it is done before it is planned
    again, None for ever; so often is `left`."""

    steps: tuple[Step, ...]
    times: int | None = None
    left: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.times

    def run(self, given: Sequence[Any]) -> Any:
        """The value of the last step; NOTHING where it is to be planned again."""
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                return NOTHING
        values, value = [*given], NOTHING
        for call, places, ends in self.steps:
            value = call(*[values[p] for p in places])
            if value is NOTHING:
                return NOTHING
            values.append(value)
            for place in ends:
                values[place] = None
        return value


_PLANS: dict[Hashable, KernelCall | GraphSteps] = {}


class GraphRecord:
    """A graph with the key of its plan: what decides it."""

    def __init__(self, node: Node, samples: Hashable) -> None:
        self.key = (mode(), node.likeness, samples)
        self.values = [leaf.value for leaf in node.leaves]
        self.identities = [leaf.identity for leaf in node.leaves]

    def value(self) -> Any:
        """NOTHING where there is no plan."""
        plan = _PLANS.get(self.key)
        return NOTHING if plan is None else plan.run(self.values)

    def times(self) -> int:
        """How often to go node by node before it is planned again."""
        plan = _PLANS.get(self.key)
        known = plan.times if isinstance(plan, GraphSteps) else None
        return AGAIN if known is None else min(2 * known, AGAIN_AT_MOST)

    def kernel_key(self) -> Hashable:
        """Under which a kernel for the whole is remembered."""
        return ("plan", self.key)

    def remember_kernel(self, node: Node) -> None:
        """Of a graph over the same operands, where there is one under that key."""
        if is_known(self.kernel_key()):
            statement, places = fused(node), self._places()
            assert statement is not None
            operands = [(n, places.get(id(v), v)) for n, v in statement.operands.items()]
            numbers = [(n, places[x.identity], statement.operands[n].dtype) for n, x in statement.numbers.items()]
            remember(_PLANS, self.key, KernelCall(self.kernel_key(), tuple(operands), tuple(numbers)))

    def remember_steps(self, node: Node, times: int | None) -> None:
        """Node by node, of a graph over the same operands."""
        places = self._places()
        order = in_order(node)
        known = {id(n): places[n.identity] for n in order if isinstance(n, Leaf)}
        calls: list[tuple[Callable[..., Any], tuple[int, ...]]] = []
        for one in order:
            if children(one):
                calls.append((operation(one), tuple([known[id(c)] for c in children(one)])))
                known[id(one)] = len(self.values) + len(calls) - 1
        self._remember(calls, times)

    def remember_parts(self, parts: Sequence[Node], values: Sequence[Any]) -> None:
        """Part by part, of which the last is the whole; their leaves hold operands, and `values` of those before."""
        places = self._places() | {identity_of(v): len(self.values) + k for k, v in enumerate(values)}
        if len(places) < len(self.values) + len(values):  # a part is not known by what it was
            return
        calls: list[tuple[Callable[..., Any], tuple[int, ...]]] = []
        for part in parts:
            record = seen(part)
            if record is None or record.key not in _PLANS or (calls and part.likeness.has_samples):
                return
            at = tuple([places[x] for x in record.identities])
            checked = tuple([(k, signature_of(v)) for k, v in enumerate(record.values) if at[k] >= len(self.values)])
            calls.append((partial(_of_part, record.key, checked), at))
        self._remember(calls, None)

    def _places(self) -> dict[Hashable, int]:
        return {x: k for k, x in enumerate(self.identities)}

    def _remember(self, calls: Sequence[tuple[Callable[..., Any], tuple[int, ...]]], times: int | None) -> None:
        given = len(self.values)
        last = {place: k for k, (_, places) in enumerate(calls) for place in places if place >= given}
        ends = [tuple([p for p, at in last.items() if at == k]) for k in range(len(calls))]
        steps = tuple([(*call, end) for call, end in zip(calls, ends, strict=True)])
        remember(_PLANS, self.key, GraphSteps(steps, times))


def _of_part(key: Hashable, checked: Sequence[tuple[int, Hashable]], *values: Any) -> Any:
    """By the plan of a part; NOTHING where one of its operands, which are values of other parts, is of another kind."""
    plan = _PLANS.get(key)
    if plan is None or any(signature_of(values[k]) != wanted for k, wanted in checked):
        return NOTHING
    return plan.run(values)


def seen(node: Node) -> GraphRecord | None:
    """None for graphs that are planned each time: with masks as subscripts, or operands that kernels do not take in
    place."""
    if not node.likeness.is_known or not all(leaf.is_same() for leaf in node.leaves):
        return None
    return GraphRecord(node, tuple(_samples(node)) if node.likeness.has_samples else ())


def _samples(node: Node) -> Iterator[bool]:
    """Of what decides what a kernel is, beside the layouts: whether factors of products are finite."""
    for one in in_order(node):
        if (product := sampled(one)) is not None:
            yield is_finite(product[-1])

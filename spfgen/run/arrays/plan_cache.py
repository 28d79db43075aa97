"""How lazy arrays like earlier ones were computed: to cut a graph into kernels takes longer than small kernels run.

What is decided depends on the graph, on layouts, types and shapes of its operands, on numbers of Python, and on how
many entries there are, roughly. A plan is one of three: a kernel that is remembered (calls/call_cache.py), parts that
are computed first, or each node by itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from spfgen.run.arrays.graph import Leaf, Node, children, in_order, likeness, literal
from spfgen.run.arrays.text import fused, is_finite, sampled
from spfgen.run.calls.call_cache import NOTHING, called, is_known, signature
from spfgen.run.calls.layout_signature import remember
from spfgen.run.later import mode
from spfgen.run.tensor import Tensor

AGAIN = 32
"""So often a small graph goes node by node before it is asked again whether there is a kernel for it."""


@dataclass(frozen=True)
class _Kernel:
    """`operands`: by name the place of a value among those of the graph, or an array that holds a number."""

    key: Hashable
    operands: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class _Parts:
    """The places of the nodes that are computed first."""

    places: tuple[int, ...]


@dataclass
class _Steps:
    """Node by node; `left`: how often, None for ever."""

    left: int | None


@dataclass(frozen=True)
class _Plan:
    how: Any
    kept: tuple[object, ...]
    """Layouts, which keys have by identity."""


_PLANS: dict[Hashable, _Plan] = {}


class Seen:
    """A graph with the key of its plan: what decides it. `values` are those of its operands."""

    def __init__(self, key: Hashable, order: Sequence[Node], values: Sequence[Any]) -> None:
        self.key, self.order, self.values = key, order, values
        found = _PLANS.get(key)
        self.how = None if found is None else found.how

    def by_kernel(self) -> Any:
        """The value; NOTHING where it is not one kernel that is remembered."""
        if not isinstance(self.how, _Kernel):
            return NOTHING
        given = {n: self.values[v] if type(v) is int else v for n, v in self.how.operands}
        return called(self.how.key, given)

    def parts(self) -> list[Node]:
        """What is computed first."""
        return [self.order[k] for k in self.how.places] if isinstance(self.how, _Parts) else []

    def goes_by_steps(self) -> bool:
        if not isinstance(self.how, _Steps):
            return False
        if self.how.left is not None:
            self.how.left -= 1
        return self.how.left is None or self.how.left > 0

    def remember_steps(self, is_small: bool) -> None:
        """Where the operands are small, until a kernel may be there."""
        self._remember(_Steps(AGAIN if is_small else None))

    def remember_parts(self, parts: Sequence[Node]) -> None:
        places = {id(n): k for k, n in enumerate(self.order)}
        self._remember(_Parts(tuple([places[id(p)] for p in parts])))

    def kernel_key(self) -> Hashable:
        """Under which a kernel for the whole is remembered."""
        return ("plan", self.key)

    def remember_kernel(self) -> None:
        """Where there is one under that key."""
        if not is_known(self.kernel_key()):
            return
        said = fused(self.order[-1])
        assert said is not None
        places = {id(v): k for k, v in enumerate(self.values)}
        self._remember(_Kernel(self.kernel_key(), tuple([(n, places.get(id(v), v)) for n, v in said.operands.items()])))

    def remember_as(self, other: Seen | None) -> None:
        """The kernel of another graph of the same operands, which this one was made into."""
        if other is not None and isinstance(other.how, _Kernel) and {*map(id, other.values)} <= {*map(id, self.values)}:
            places = {id(v): k for k, v in enumerate(self.values)}
            operands = [(n, places[id(other.values[v])] if type(v) is int else v) for n, v in other.how.operands]
            self._remember(_Kernel(other.how.key, tuple(operands)))

    def _remember(self, how: Any) -> None:
        kept = tuple([v.layout for v in self.values if isinstance(v, Tensor)])
        remember(_PLANS, self.key, _Plan(how, kept))


def seen(node: Node) -> Seen | None:
    """None for graphs that are planned each time: with subscripts, or operands that kernels do not take in place."""
    order = in_order(node)
    places: dict[int, int] = {}
    values: list[Any] = []
    known: dict[int, int] = {}
    parts: list[Hashable] = [mode()]
    for own in order:
        if isinstance(own, Leaf):
            found = _operand(own, values, known)
        else:
            like = likeness(own)
            found = None if isinstance(like, int) else (*like[:-1], *[places[id(c)] for c in children(own)])
        if found is None:
            return None
        places[id(own)] = len(places)
        parts.append(found)
        if (product := sampled(own)) is not None:  # which decides what its kernel is
            parts.append(is_finite(product[-1]))
    return Seen(tuple(parts), order, values)


def _operand(leaf: Leaf, values: list[Any], known: dict[int, int]) -> tuple[Hashable, ...] | None:
    value = leaf.value
    number = literal(leaf)
    if number is not None:
        return (type(number).__name__, repr(number))
    kind = signature(value)
    if kind is None:
        return None
    if id(value) not in known:
        known[id(value)] = len(values)
        values.append(value)
    entries = value.nse.bit_length() if isinstance(value, Tensor) else 0
    return (known[id(value)], kind, value.shape, entries)

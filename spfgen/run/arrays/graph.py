"""What a lazy array is made of: a graph of functions, reductions, products and transpositions over operands.

Nothing here, or in what goes through a graph, calls itself: loops of programs make graphs thousands of nodes deep.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from spfgen.errors import ArgumentError, DataError
from spfgen.run.arrays.contract import product_labels
from spfgen.run.arrays.elementwise import broadcast_shape
from spfgen.run.arrays.entries import shape_of
from spfgen.run.arrays.reductions import axes_of, axis_of, permutation
from spfgen.run.arrays.words import in_words
from spfgen.run.calls.call_cache import signature
from spfgen.run.calls.layout_signature import remember
from spfgen.run.tensor import Tensor

NUMBERS = (bool, int, float, complex)
"""Those of Python."""

MOST_LEAVES = 64
"""What is computed of more operands is planned each time."""


class Likeness:
    """What all nodes agree in that do the same to operands of the same layouts, types, shapes and, roughly, numbers of
    entries; which of the operands are the same ones is part of it. Of numbers of Python it is their types that are, and
    which types of numpy have them. One object stands for it.

    `is_known`: whether such nodes are found to be alike; `has_samples`: whether how they are computed depends on what a
    factor holds (text.py)."""

    __slots__ = ("dtype", "has_samples", "is_known", "kept", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any, is_known: bool, has_samples: bool, kept: object) -> None:
        self.shape = shape
        self.dtype = np.dtype(np.float32) if dtype == np.float16 else np.dtype(dtype)
        self.is_known, self.has_samples = is_known, has_samples
        self.kept = kept
        """A layout, which is known by its identity."""


_KNOWN: dict[Hashable, Likeness] = {}


@dataclass(frozen=True, eq=False)
class Node:
    """`shape` and `dtype` are those of the value; `leaves` are the operands that hold arrays, each once."""

    shape: tuple[int, ...] = field(init=False)
    dtype: np.dtype[Any] = field(init=False)
    likeness: Likeness = field(init=False)
    leaves: tuple[Leaf, ...] = field(init=False)

    def __post_init__(self) -> None:
        parts, own_part = self.parts, self.said()
        leaves, places = _leaves(parts) if parts else self._own_leaves()
        key: Hashable = None
        if own_part is not None and len(leaves) <= MOST_LEAVES:
            key = (type(self), own_part, places, *[p.likeness for p in parts]) if parts else (Leaf, own_part)
        likeness = None if key is None else _KNOWN.get(key)
        if likeness is None:
            is_known = key is not None and all(p.likeness.is_known for p in parts)
            has_samples = any(p.likeness.has_samples for p in parts) or self._is_sampled()
            likeness = Likeness(*self._inferred(), is_known, has_samples, self._kept())
            if is_known:
                remember(_KNOWN, key, likeness)
        self.__dict__.update(
            shape=likeness.shape, dtype=likeness.dtype, likeness=likeness, leaves=leaves if likeness.is_known else ()
        )

    @property
    def parts(self) -> tuple[Node, ...]:
        """The operands."""
        return ()

    def said(self) -> Hashable:
        """What it does to its operands; None where that has no short name."""
        return ()

    def _inferred(self) -> tuple[tuple[int, ...], Any]:
        """The shape and the type of the value."""
        raise NotImplementedError

    def _own_leaves(self) -> tuple[tuple[Leaf, ...], tuple[int, ...]]:
        return (), ()

    def _is_sampled(self) -> bool:
        return False

    def _kept(self) -> object:
        return None


def _leaves(parts: Sequence[Node]) -> tuple[tuple[Leaf, ...], tuple[int, ...]]:
    """(those of all parts, the places there of those of the second and further ones)."""
    if len(parts) == 1:
        return parts[0].leaves, ()
    leaves, places = [*parts[0].leaves], list[int]()
    for other in parts[1:]:
        for leaf in other.leaves:
            for place, known in enumerate(leaves):
                if known.value is leaf.value or known.identity == leaf.identity:
                    places.append(place)
                    break
            else:
                places.append(len(leaves))
                leaves.append(leaf)
    return tuple(leaves), tuple(places)


@dataclass(frozen=True, eq=False)
class Leaf(Node):
    """A tensor, a numpy array, or a number (of Python: it takes the type of what it meets)."""

    value: Any
    signature: Hashable = field(init=False)
    identity: Hashable = field(init=False)

    def __post_init__(self) -> None:
        value = self.value
        of_value = self.__dict__
        of_value["signature"], of_value["identity"] = signature_of(value), identity_of(value)
        likeness = _KNOWN.get((Leaf, self.said())) if type(value) is np.ndarray else None
        if likeness is None:
            super().__post_init__()
        else:
            of_value.update(shape=likeness.shape, dtype=likeness.dtype, likeness=likeness, leaves=(self,))

    def said(self) -> Hashable:
        """None where kernels do not take the operand as it is."""
        value = self.value
        if type(value) is np.ndarray:
            return None if self.signature is None else (self.signature, value.shape)
        if type(value) in NUMBERS:
            return (type(value), _least_type(value) if type(value) is int else None)
        if self.signature is None:
            return None
        return (self.signature, value.shape, value.nse.bit_length() if isinstance(value, Tensor) else 0)

    def is_same(self) -> bool:
        """Whether an array of numpy has still the type and the shape that it had; tensors do not change."""
        own = self.value
        return type(own) is not np.ndarray or (own.shape == self.shape and signature(own) == self.signature)

    def _inferred(self) -> tuple[tuple[int, ...], Any]:
        value = self.value
        return shape_of(value), value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype

    def _own_leaves(self) -> tuple[tuple[Leaf, ...], tuple[int, ...]]:
        return (self,), ()

    def _kept(self) -> object:
        return self.value.layout if isinstance(self.value, Tensor) else None


def _least_type(number: int) -> tuple[bool, int]:
    """Which integer types of numpy have the number: whether it is below 0, how many bits it takes."""
    bits = (~number if number < 0 else number).bit_length()
    return number < 0, next((b for b in (7, 8, 15, 16, 31, 32, 63, 64) if bits <= b), 65)


def identity_of(value: Any) -> Hashable:
    """The same for the same array, or the same number of Python to the bit."""
    return (type(value), repr(value)) if type(value) in NUMBERS else id(value)


def signature_of(value: Any) -> Hashable:
    """What of an operand decides how it is computed with, beside extents and numbers of entries."""
    return (type(value),) if isinstance(value, np.generic) else signature(value)


@dataclass(frozen=True, eq=False)
class Call(Node):
    """numpy's function of single values, with its further arguments; `part` of its results."""

    function: np.ufunc
    operands: tuple[Node, ...]
    options: tuple[tuple[str, Any], ...] = ()
    part: int = 0

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.operands

    def said(self) -> Hashable:
        exponent = repr(literal(self.operands[1])) if self.function is np.power else ""  # it says what function it is
        if not self.options:
            return (self.function, self.part, exponent)
        if any(np.ndim(v) for _, v in self.options):
            return None
        return (self.function, self.part, exponent, repr(self.options))

    def _inferred(self) -> tuple[tuple[int, ...], Any]:
        trial = [np.zeros(0, o.dtype) if (n := literal(o)) is None else n for o in self.operands]
        with np.errstate(all="ignore"), in_words(self.function.__name__):
            result = self.function(*trial, **dict(self.options))
        result = result[self.part] if isinstance(result, tuple) else result
        return broadcast_shape([o.shape for o in self.operands]), np.asarray(result).dtype

    def _is_sampled(self) -> bool:
        return self.function is np.multiply and any(isinstance(o, Product) for o in self.operands)


@dataclass(frozen=True, eq=False)
class Cast(Node):
    operand: Node
    kind: np.dtype[Any]

    @property
    def parts(self) -> tuple[Node, ...]:
        return (self.operand,)

    def said(self) -> Hashable:
        return self.kind

    def _inferred(self) -> tuple[tuple[int, ...], Any]:
        return self.operand.shape, self.kind


@dataclass(frozen=True, eq=False)
class Product(Node):
    """numpy.matmul."""

    left: Node
    right: Node

    @property
    def parts(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def _inferred(self) -> tuple[tuple[int, ...], Any]:
        left_labels, right_labels, result = product_labels(self.left.shape, self.right.shape)
        extents: dict[str, int] = {}
        for label, extent in zip(left_labels + right_labels, (*self.left.shape, *self.right.shape), strict=True):
            before = extents.setdefault(label, extent)
            if before != extent and 1 not in (before, extent):
                message = f"expected shapes that fit, but they are {self.left.shape} and {self.right.shape}"
                raise DataError(message)
            extents[label] = extent if before == 1 else before
        return tuple(extents[x] for x in result), np.result_type(self.left.dtype, self.right.dtype)


@dataclass(frozen=True, eq=False)
class Reduce(Node):
    """A reduction by numpy's function of that name; `mean`, `argmax`, `argmin`, `var` and `std` are among them, of
    which the last two divide by `ddof` less than there are."""

    name: str
    operand: Node
    axis: Any
    keepdims: bool
    kind: Any = None
    ddof: Any = 0

    @property
    def parts(self) -> tuple[Node, ...]:
        return (self.operand,)

    def said(self) -> Hashable:
        if not isinstance(self.ddof, int | float):
            return None
        return (self.name, repr(self.axis), bool(self.keepdims), repr(self.kind), self.ddof)

    def _inferred(self) -> tuple[tuple[int, ...], Any]:
        axes = axes_of(self.axis, len(self.operand.shape))
        one = np.zeros(1, self.operand.dtype)
        with in_words(self.name):
            if self.name in ("argmax", "argmin"):
                dtype = np.dtype(np.int64)
            elif self.name in ("mean", "var", "std"):
                dtype = np.asarray(getattr(one, self.name)(dtype=self.kind)).dtype
            else:
                dtype = np.asarray(getattr(np, self.name).reduce(one, dtype=self.kind)).dtype
        extents = enumerate(self.operand.shape)
        return tuple(1 if d in axes else n for d, n in extents if self.keepdims or d not in axes), dtype


@dataclass(frozen=True, eq=False)
class Turn(Node):
    """numpy.transpose."""

    operand: Node
    order: tuple[int, ...]

    @property
    def parts(self) -> tuple[Node, ...]:
        return (self.operand,)

    def said(self) -> Hashable:
        return self.order

    def _inferred(self) -> tuple[tuple[int, ...], Any]:
        return tuple(self.operand.shape[d] for d in self.order), self.operand.dtype


@dataclass(frozen=True, eq=False)
class Pick(Node):
    """A subscript."""

    operand: Node
    key: Any

    @property
    def parts(self) -> tuple[Node, ...]:
        return (self.operand,)

    def said(self) -> Hashable:
        parts = self.key if isinstance(self.key, tuple) else (self.key,)
        return repr(self.key) if all(_is_plain(p) for p in parts) else None

    def _inferred(self) -> tuple[tuple[int, ...], Any]:
        virtual = np.broadcast_to(np.zeros((), self.operand.dtype), self.operand.shape)
        with in_words("ndarray"):
            shape = virtual[self.key].shape
        return shape, self.operand.dtype


def _is_plain(part: Any) -> bool:
    """Whether a part of a subscript is said by its text."""
    if isinstance(part, slice):
        return all(type(p) in (int, NoneType) for p in (part.start, part.stop, part.step))
    return type(part) in (int, bool, NoneType, EllipsisType)


@dataclass(frozen=True, eq=False)
class Choice(Node):
    """numpy.where of three."""

    operands: tuple[Node, Node, Node]

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.operands

    def _inferred(self) -> tuple[tuple[int, ...], Any]:
        trial = [np.zeros(0, o.dtype) if (n := literal(o)) is None else n for o in self.operands]
        return broadcast_shape([o.shape for o in self.operands]), np.asarray(np.where(*trial)).dtype


@dataclass(frozen=True, eq=False)
class Join(Node):
    """numpy.concatenate along an axis."""

    operands: tuple[Node, ...]
    axis: int

    def __post_init__(self) -> None:
        if not self.operands or not self.operands[0].shape:
            raise ArgumentError("expected one array or more with dimensions to concatenate")
        object.__setattr__(self, "axis", axis_of(self.axis, len(self.operands[0].shape)))
        super().__post_init__()

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.operands

    def said(self) -> Hashable:
        return self.axis

    def _inferred(self) -> tuple[tuple[int, ...], Any]:
        shapes, axis = [o.shape for o in self.operands], self.axis
        other_extents = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
        if len(other_extents) != 1 or len({len(s) for s in shapes}) != 1:
            raise DataError(f"expected arrays that agree but along axis {axis}, but the shapes are {shapes}")
        extent = sum(s[axis] for s in shapes)
        return (*shapes[0][:axis], extent, *shapes[0][axis + 1 :]), np.result_type(*[o.dtype for o in self.operands])


def literal(node: Node) -> bool | int | float | complex | None:
    """The number, if it is one of Python."""
    if isinstance(node, Leaf) and type(node.value) in NUMBERS:
        number: bool | int | float | complex = node.value
        return number
    return None


def children(node: Node) -> tuple[Node, ...]:
    return node.parts


def in_order(node: Node, ends: Collection[int] = ()) -> list[Node]:
    """The nodes of a graph, each once, after its operands; not those behind `ends`, which are identities of nodes."""
    ordered: dict[int, Node] = {}
    waiting = [(node, False)]
    while waiting:
        part, is_ready = waiting.pop()
        if is_ready:
            ordered.setdefault(id(part), part)
        elif id(part) not in ordered:
            waiting.append((part, True))
            parts = () if id(part) in ends else children(part)
            waiting += [(c, False) for c in reversed(parts) if id(c) not in ordered]
    return list(ordered.values())


def with_values(node: Node, known: Mapping[int, Node]) -> Node:
    """The graph with others in place of some of its operands, of which `known` has them by their identity."""
    replaced: dict[int, Node] = {}
    waiting = [(node, False)]
    while waiting:
        part, is_ready = waiting.pop()
        if id(part) in replaced:
            continue
        parts = children(part)
        if id(part) in known or not parts:
            replaced[id(part)] = known.get(id(part), part)
        elif not is_ready:
            waiting.append((part, True))
            waiting += [(c, False) for c in parts]
        else:
            replaced[id(part)] = _with_children(part, [replaced[id(c)] for c in parts])
    return replaced[id(node)]


def _with_children(node: Node, parts: Sequence[Node]) -> Node:
    if all(new is old for new, old in zip(parts, children(node), strict=True)):
        return node
    match node:
        case Call() | Join():
            return replace(node, operands=tuple(parts))
        case Choice():
            condition, first, second = parts
            return Choice((condition, first, second))
        case Product():
            return Product(*parts)
        case Cast() | Reduce() | Turn() | Pick():
            return replace(node, operand=parts[0])
    return node


def stored(node: Node) -> int:
    """How many numbers the operands hold, each as often as it stands."""
    counts: dict[int, int] = {}
    for part in in_order(node):
        parts = children(part)
        counts[id(part)] = sum(counts[id(c)] for c in parts) if parts else numbers_of(part)
    return counts[id(node)]


def numbers_of(leaf: Node) -> int:
    """How many numbers an operand holds."""
    return leaf.value.nse if isinstance(leaf, Leaf) and isinstance(leaf.value, Tensor) else prod(leaf.shape)


def turned(node: Node, axes: Any) -> Node:
    order = permutation(axes, len(node.shape))
    return node if order == tuple(range(len(order))) else Turn(node, order)


def joined_up(nodes: Sequence[Node]) -> list[Node]:
    """The same graphs, in which what is done twice to the same operands stands once."""
    known: dict[Hashable, Node] = {}
    joined: dict[int, Node] = {}
    for root in nodes:
        for part in in_order(root):
            new = _with_children(part, [joined[id(c)] for c in children(part)])
            joined[id(part)] = known.setdefault(_identity(new), new)
    return [joined[id(n)] for n in nodes]


def _identity(node: Node) -> Hashable:
    """What two nodes agree in that are the same: of operands that they are the same objects."""
    if isinstance(node, Leaf):
        return node.identity
    own_part = node.said()
    return id(node) if own_part is None else (type(node), own_part, *map(id, children(node)))

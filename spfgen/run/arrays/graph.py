"""What a lazy array is made of: a graph of functions, reductions, products and transpositions over operands.

Nothing here, or in what goes through a graph, calls itself: loops of programs make graphs thousands of nodes deep.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from spfgen.errors import ArgumentError, DataError
from spfgen.run.arrays.contract import product_labels
from spfgen.run.arrays.elementwise import broadcast_shape
from spfgen.run.arrays.entries import shape_of
from spfgen.run.arrays.reductions import axes_of, axis_of, permutation
from spfgen.run.arrays.words import in_words
from spfgen.run.tensor import Tensor


@dataclass(frozen=True, eq=False)
class Node:
    """`shape` and `dtype` are those of the value."""

    shape: tuple[int, ...] = field(init=False)
    dtype: np.dtype[Any] = field(init=False)

    def _is(self, shape: tuple[int, ...], dtype: Any) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", np.dtype(np.float32) if dtype == np.float16 else np.dtype(dtype))


@dataclass(frozen=True, eq=False)
class Leaf(Node):
    """A tensor, a numpy array, or a number (of Python: it takes the type of what it meets)."""

    value: Any

    def __post_init__(self) -> None:
        self._is(
            shape_of(self.value), self.value.dtype if hasattr(self.value, "dtype") else np.asarray(self.value).dtype
        )


@dataclass(frozen=True, eq=False)
class Call(Node):
    """numpy's function of single values, with its further arguments; `part` of its results."""

    function: np.ufunc
    operands: tuple[Node, ...]
    options: tuple[tuple[str, Any], ...] = ()
    part: int = 0

    def __post_init__(self) -> None:
        trial = [np.zeros(0, o.dtype) if (n := literal(o)) is None else n for o in self.operands]
        with np.errstate(all="ignore"), in_words(self.function.__name__):
            made = self.function(*trial, **dict(self.options))
        made = made[self.part] if isinstance(made, tuple) else made
        self._is(broadcast_shape([o.shape for o in self.operands]), np.asarray(made).dtype)


@dataclass(frozen=True, eq=False)
class Cast(Node):
    operand: Node
    kind: np.dtype[Any]

    def __post_init__(self) -> None:
        self._is(self.operand.shape, self.kind)


@dataclass(frozen=True, eq=False)
class Product(Node):
    """numpy.matmul."""

    left: Node
    right: Node

    def __post_init__(self) -> None:
        own, other, result = product_labels(self.left.shape, self.right.shape)
        extents: dict[str, int] = {}
        for label, extent in zip(own + other, (*self.left.shape, *self.right.shape), strict=True):
            before = extents.setdefault(label, extent)
            if before != extent and 1 not in (before, extent):
                message = f"expected shapes that fit, but they are {self.left.shape} and {self.right.shape}"
                raise DataError(message)
            extents[label] = extent if before == 1 else before
        self._is(tuple(extents[x] for x in result), np.result_type(self.left.dtype, self.right.dtype))


@dataclass(frozen=True, eq=False)
class Reduce(Node):
    """A reduction by numpy's function of that name; `mean`, `argmax`, `argmin`, `var` and `std` are among them, of
    which the last two divide by `ddof` less than there are."""

    name: str
    operand: Node
    axis: Any
    keepdims: bool
    kind: Any = None
    ddof: float = 0

    def __post_init__(self) -> None:
        axes = axes_of(self.axis, len(self.operand.shape))
        one = np.zeros(1, self.operand.dtype)
        with in_words(self.name):
            if self.name in ("argmax", "argmin"):
                dtype = np.dtype(np.int64)
            elif self.name in ("mean", "var", "std"):
                dtype = np.asarray(getattr(one, self.name)(dtype=self.kind)).dtype
            else:
                dtype = np.asarray(getattr(np, self.name).reduce(one, dtype=self.kind)).dtype
        rest = enumerate(self.operand.shape)
        self._is(tuple(1 if d in axes else n for d, n in rest if self.keepdims or d not in axes), dtype)


@dataclass(frozen=True, eq=False)
class Turn(Node):
    """numpy.transpose."""

    operand: Node
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        self._is(tuple(self.operand.shape[d] for d in self.order), self.operand.dtype)


@dataclass(frozen=True, eq=False)
class Pick(Node):
    """A subscript."""

    operand: Node
    key: Any

    def __post_init__(self) -> None:
        virtual = np.broadcast_to(np.zeros((), self.operand.dtype), self.operand.shape)
        with in_words("ndarray"):
            shape = virtual[self.key].shape
        self._is(shape, self.operand.dtype)


@dataclass(frozen=True, eq=False)
class Choice(Node):
    """numpy.where of three."""

    operands: tuple[Node, Node, Node]

    def __post_init__(self) -> None:
        trial = [np.zeros(0, o.dtype) if (n := literal(o)) is None else n for o in self.operands]
        self._is(broadcast_shape([o.shape for o in self.operands]), np.where(*trial).dtype)


@dataclass(frozen=True, eq=False)
class Join(Node):
    """numpy.concatenate along an axis."""

    operands: tuple[Node, ...]
    axis: int

    def __post_init__(self) -> None:
        shapes = [o.shape for o in self.operands]
        if not shapes or not shapes[0]:
            raise ArgumentError("expected one array or more with dimensions to concatenate")
        axis = axis_of(self.axis, len(shapes[0]))
        object.__setattr__(self, "axis", axis)
        rest = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
        if len(rest) != 1 or len({len(s) for s in shapes}) != 1:
            raise DataError(f"expected arrays that agree but along axis {axis}, but the shapes are {shapes}")
        extent = sum(s[axis] for s in shapes)
        kinds = np.result_type(*[o.dtype for o in self.operands])
        self._is((*shapes[0][:axis], extent, *shapes[0][axis + 1 :]), kinds)


def literal(node: Node) -> bool | int | float | complex | None:
    """The number, if it is one of Python."""
    if isinstance(node, Leaf) and type(node.value) in (bool, int, float, complex):
        number: bool | int | float | complex = node.value
        return number
    return None


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Call(operands=operands) | Choice(operands=operands) | Join(operands=operands):
            return operands
        case Product(left=left, right=right):
            return left, right
        case Cast(operand=operand) | Reduce(operand=operand) | Turn(operand=operand) | Pick(operand=operand):
            return (operand,)
    return ()


def in_order(node: Node, ends: Collection[int] = ()) -> list[Node]:
    """The nodes of a graph, each once, after its operands; not those behind `ends`, which are identities of nodes."""
    found: dict[int, Node] = {}
    waiting = [(node, False)]
    while waiting:
        own, is_ready = waiting.pop()
        if is_ready:
            found.setdefault(id(own), own)
        elif id(own) not in found:
            waiting.append((own, True))
            parts = () if id(own) in ends else children(own)
            waiting += [(c, False) for c in reversed(parts) if id(c) not in found]
    return list(found.values())


def with_values(node: Node, known: Mapping[int, Node]) -> Node:
    """The graph with others in place of some of its operands, of which `known` has them by their identity."""
    made: dict[int, Node] = {}
    waiting = [(node, False)]
    while waiting:
        own, is_ready = waiting.pop()
        if id(own) in made:
            continue
        parts = children(own)
        if id(own) in known or not parts:
            made[id(own)] = known.get(id(own), own)
        elif not is_ready:
            waiting.append((own, True))
            waiting += [(c, False) for c in parts]
        else:
            made[id(own)] = _with_children(own, [made[id(c)] for c in parts])
    return made[id(node)]


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
    found: dict[int, int] = {}
    for own in in_order(node):
        parts = children(own)
        found[id(own)] = sum(found[id(c)] for c in parts) if parts else numbers_of(own)
    return found[id(node)]


def numbers_of(leaf: Node) -> int:
    """How many numbers an operand holds."""
    return leaf.value.nse if isinstance(leaf, Leaf) and isinstance(leaf.value, Tensor) else prod(leaf.shape)


def turned(node: Node, axes: Any) -> Node:
    order = permutation(axes, len(node.shape))
    return node if order == tuple(range(len(order))) else Turn(node, order)


def joined_up(nodes: Sequence[Node]) -> list[Node]:
    """The same graphs, in which what is done twice to the same operands stands once."""
    known: dict[Any, Node] = {}
    made: dict[int, Node] = {}
    for root in nodes:
        for own in in_order(root):
            new = _with_children(own, [made[id(c)] for c in children(own)])
            made[id(own)] = known.setdefault(likeness(new), new)
    return [made[id(n)] for n in nodes]


def likeness(node: Node) -> Any:
    """What two nodes agree in that are the same: of operands and subscripts that they are the same objects."""
    parts = tuple([id(c) for c in children(node)])
    match node:
        case Leaf(value=value):
            number = literal(node)
            return ("leaf", type(value), repr(number)) if number is not None else ("leaf", id(value))
        case Call(function=function, options=options, part=part) if all(np.ndim(v) == 0 for _, v in options):
            return ("call", function, repr(options), part, parts)
        case Reduce(name=name, axis=axis, keepdims=keepdims, kind=kind, ddof=ddof):
            return ("reduce", name, repr(axis), keepdims, repr(kind), ddof, parts)
        case Choice():
            return ("choice", parts)
        case Join(axis=axis):
            return ("join", axis, parts)
        case Cast(kind=kind):
            return ("cast", kind, parts)
        case Turn(order=order):
            return ("turn", order, parts)
        case Product():
            return ("product", parts)
    return id(node)

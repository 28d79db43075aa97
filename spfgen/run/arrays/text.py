"""Trees of lazy arrays as one statement of index notation.

Broadcasting is a subscript 0, a transposition another order of the indices, a matrix product a sum over an index of its
own. What index notation does not say (another type than the operands', a function that is not in its table) is None:
the tree is then computed node by node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from math import isfinite, prod
from typing import Any

import numpy as np

from spfgen.lang.ops import OPERATORS
from spfgen.layout.fill import fits
from spfgen.run.arrays.contract import product_labels
from spfgen.run.arrays.graph import Call, Leaf, Node, Product, Reduce, Turn, children, literal, with_values
from spfgen.run.arrays.reductions import axes_of
from spfgen.run.tensor import Tensor

TARGET = "result"
REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_or": "any",
    "logical_and": "all",
}


@dataclass
class Fused:
    """A statement, what it is called with, and the extents of indices that no operand has. Some of the operands are
    `numbers` of Python, which are in the graph."""

    text: str = ""
    operands: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, Leaf] = field(default_factory=dict)


class _NotSaid(Exception):
    """There is no index notation for it."""


def fused(node: Node) -> Fused | None:
    """The statement for a tree; None when there is none."""
    writer = _Writer()
    subscripts = [writer.index(n) for n in node.shape]
    try:
        value = writer.value(node, subscripts)
    except _NotSaid:
        return None
    target = f"{TARGET}[{', '.join(subscripts)}]" if subscripts else TARGET
    sizes = {i: n for i, n in writer.extents.items() if i not in writer.used}
    return Fused(f"{target} = {_outermost(value)}", writer.operands, sizes, writer.numbers)


def is_said(node: Node) -> bool:
    """Whether index notation says what a node does, whatever its operands are."""
    virtual = {
        id(c): Leaf(np.broadcast_to(np.zeros((), c.dtype), c.shape)) for c in children(node) if literal(c) is None
    }
    return not children(node) or fused(with_values(node, virtual)) is not None


def _outermost(value: str) -> str:
    return value[1:-1] if value.startswith("(") and _closes(value) == len(value) - 1 else value


def _closes(value: str) -> int:
    depth = 0
    for k, letter in enumerate(value):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return k
    return -1


class _Writer:
    def __init__(self) -> None:
        self.operands: dict[str, Any] = {}
        self.names: dict[int, str] = {}
        self.numbers: dict[str, Leaf] = {}
        self.extents: dict[str, int] = {}
        self.used: set[str] = set()
        self._indices = (f"{letter}{number or ''}" for number in count() for letter in "ijklmnpqrst")
        self._tensors = (f"{letter}{number or ''}" for number in count() for letter in "ABCDEFGHJKLMNOPQRSTUVWXYZ")

    def index(self, extent: int) -> str:
        name = next(self._indices)
        self.extents[name] = extent
        return name

    def value(self, node: Node, subscripts: Sequence[str]) -> str:
        """The value of a node at subscripts."""
        match node:
            case Leaf():
                return self._access(node, subscripts)
            case Turn(operand=operand, order=order):
                return self.value(operand, [subscripts[order.index(d)] for d in range(len(order))])
            case Call():
                return self._call(node, subscripts)
            case Product(left=left, right=right) if _sums_as_numpy(node):
                return self._product(left, right, node, None, subscripts)
            case Reduce(name="mean", operand=operand, kind=None) if (
                operand.dtype == node.dtype and 0 not in operand.shape
            ):
                return self._mean(node, subscripts)
            case Reduce(name=name, operand=operand, kind=None) if name in REDUCTIONS:
                if name in ("add", "multiply") and operand.dtype != node.dtype:
                    raise _NotSaid
                return self._reduced(node, subscripts)
        raise _NotSaid

    def _access(self, node: Leaf, subscripts: Sequence[str]) -> str:
        name = self.names.get(id(node.value))
        if name is None:
            name = self.names[id(node.value)] = next(self._tensors)
            self.operands[name] = node.value
        self.used.update(subscripts)
        return f"{name}[{', '.join(subscripts)}]" if subscripts else name

    def _number(self, node: Call, place: int) -> str:
        """A number of Python, in the type that numpy computes with: an operand, so that others share the kernel."""
        leaf, value = node.operands[place], literal(node.operands[place])
        assert isinstance(leaf, Leaf)
        assert value is not None
        if is_written(node, place):
            return _literal(value)
        numbers = [literal(o) for o in node.operands]
        types: list[Any] = [
            o.dtype if n is None or isinstance(n, bool) else type(n)
            for o, n in zip(node.operands, numbers, strict=True)
        ]
        kind = node.function.resolve_dtypes((*types, *[None] * node.function.nout))[place]
        if kind == np.float16 or (type(value) is int and not fits(value, kind)):
            raise _NotSaid  # numpy compares with integers that the type does not have
        name = next(self._tensors)
        self.operands[name], self.numbers[name] = np.array(value, kind), leaf
        return name

    def _broadcast(self, node: Node, shape: Sequence[int], subscripts: Sequence[str]) -> str:
        lead = len(shape) - len(node.shape)
        pairs = zip(node.shape, shape[lead:], subscripts[lead:], strict=True)
        return self.value(node, ["0" if n == 1 and extent != 1 else i for n, extent, i in pairs])

    def _call(self, node: Call, subscripts: Sequence[str]) -> str:
        sampled = _sampled(node)
        if sampled is not None:
            return self._product(*sampled, subscripts)
        operator = OPERATORS.get(node.function.__name__)
        if operator is None or node.options or node.function.nout > 1 or len(node.operands) != operator.arity:
            raise _NotSaid
        if operator.name == "power" and node.dtype.kind == "i" and not _is_natural(node.operands[1]):
            raise _NotSaid  # numpy refuses negative exponents when it sees one
        given = [
            self._broadcast(o, node.shape, subscripts) if literal(o) is None else self._number(node, k)
            for k, o in enumerate(node.operands)
        ]
        match operator.symbol, given:
            case ("", _):
                return f"{operator.name}({', '.join(given)})"
            case symbol, [one]:
                return f"({symbol}{' ' if symbol[-1].isalpha() else ''}{one})"
            case symbol, [one, other]:
                return f"({one} {symbol} {other})"
        return f"{operator.name}({', '.join(given)})"

    def _product(
        self, left: Node, right: Node, node: Node, factor: Node | None, subscripts_of_result: Sequence[str]
    ) -> str:
        first, second, result = product_labels(left.shape, right.shape)
        index = self.index(left.shape[-1])
        at = {**dict(zip(result, subscripts_of_result, strict=True)), "k": index}
        extents = dict(zip(result, node.shape, strict=True))

        def subscripts(labels: str, part: Node) -> list[str]:
            pairs = zip(labels, part.shape, strict=True)
            return ["0" if x != "k" and n == 1 and extents[x] != 1 else at[x] for x, n in pairs]

        one, other = self.value(left, subscripts(first, left)), self.value(right, subscripts(second, right))
        if node.dtype == np.bool_:  # a product in numpy; its sum would be a number
            return f"any({index}: {one} & {other})"
        more = "" if factor is None else f" * {self.value(factor, subscripts_of_result)}"
        return f"sum({index}: {one} * {other}{more})"

    def _mean(self, node: Reduce, subscripts: Sequence[str]) -> str:
        """The sum over how many there are, which is an operand."""
        axes = axes_of(node.axis, len(node.operand.shape))
        total = self._reduced(Reduce("add", node.operand, node.axis, node.keepdims), subscripts)
        name = next(self._tensors)
        count = prod([node.operand.shape[d] for d in axes])
        self.operands[name] = np.array(count, node.dtype.type(0).real.dtype)
        return f"({total} / {name})"

    def _reduced(self, node: Reduce, subscripts: Sequence[str]) -> str:
        axes = axes_of(node.axis, len(node.operand.shape))
        outer_subscripts = [i for d, i in enumerate(subscripts) if d not in axes] if node.keepdims else list(subscripts)
        kept = iter(outer_subscripts)
        inner = [self.index(n) if d in axes else next(kept) for d, n in enumerate(node.operand.shape)]
        value = self.value(node.operand, inner)
        over = [inner[d] for d in axes]
        is_empty = any(node.operand.shape[d] == 0 for d in axes)
        if not over or (is_empty and getattr(np, node.name).identity is None):  # numpy refuses max() of nothing
            raise _NotSaid
        return f"{REDUCTIONS[node.name]}({', '.join(over)}: {_outermost(value)})"


def _sampled(node: Call) -> tuple[Node, Node, Node, Node] | None:
    """(left, right, their product, factor) of a product that is multiplied by a sparse operand, where all are sparse:
    the factor goes into the sum, of which only terms at its entries are computed. Not if it has infinities, which a sum
    of terms of both signs would make nan."""
    parts = sampled(node)
    return parts if parts is not None and is_finite(parts[-1]) else None


def sampled(node: Node) -> tuple[Node, Node, Node, Node] | None:
    """The same, whatever values the factor has."""
    if not isinstance(node, Call) or node.function is not np.multiply or node.options or node.dtype == np.bool_:
        return None
    for product, factor in (node.operands, node.operands[::-1]):
        if isinstance(product, Product) and all(_sparse(n) is not None for n in (product.left, product.right, factor)):
            alike = product.dtype == factor.dtype == node.dtype and product.shape == factor.shape
            if alike and _sums_as_numpy(product):
                return product.left, product.right, product, factor
    return None


def is_finite(factor: Node) -> bool:
    """Whether all values of a sparse operand are finite."""
    tensor = _sparse(factor)
    assert tensor is not None
    return all(bool(np.isfinite(tensor.arrays[v.name]).all()) for v in tensor.layout.values)


def _sparse(node: Node) -> Tensor | None:
    """A sparse operand, or one that is transposed."""
    leaf = node.operand if isinstance(node, Turn) else node
    value = leaf.value if isinstance(leaf, Leaf) else None
    return value if isinstance(value, Tensor) and value.layout.fill_text == "0" and value.layout.indexes else None


def _sums_as_numpy(node: Node) -> bool:
    """Whether sums in index notation have the type that numpy's have."""
    return node.dtype == np.bool_ or np.asarray(np.zeros(1, node.dtype).sum()).dtype == node.dtype


def is_written(node: Call, place: int) -> bool:
    """Whether a number of Python is part of the kernel: an exponent, which says what function it is."""
    number = literal(node.operands[place])
    return node.function is np.power and place == 1 and number is not None and _is_plain(number)


def _is_natural(node: Node) -> bool:
    number = literal(node)
    return node.dtype.kind in "bu" if number is None else isinstance(number, int) and number >= 0


def _is_plain(value: Any) -> bool:
    if isinstance(value, bool | complex):
        return False
    return isfinite(value) and (isinstance(value, float) or abs(value) < 2**31)


def _literal(value: Any) -> str:
    return f"({value!r})" if value < 0 else repr(value)

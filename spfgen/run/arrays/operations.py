"""What a node of a graph does to the values of its operands, node by node, as tensors do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from spfgen.errors import DataError, a_type
from spfgen.run.arrays import eager
from spfgen.run.arrays.elementwise import in_single
from spfgen.run.arrays.entries import in_c
from spfgen.run.arrays.functions import concatenate
from spfgen.run.arrays.graph import (
    Call,
    Cast,
    Choice,
    Join,
    Leaf,
    Node,
    Pick,
    Product,
    Reduce,
    Turn,
    children,
    in_order,
)
from spfgen.run.calls.detect_layout import tensor_of
from spfgen.run.tensor import Tensor


def by_steps(node: Node) -> Any:
    """Node by node; what stands in several places is computed once, and kept as long as something needs it."""
    order = in_order(node)
    waiting = Counter(id(c) for n in order for c in children(n))
    known: dict[int, Any] = {}
    for one in order:
        parts = children(one)
        known[id(one)] = one.value if isinstance(one, Leaf) else operation(one)(*[known[id(c)] for c in parts])
        for part in parts:
            waiting[id(part)] -= 1
            if not waiting[id(part)]:
                known.pop(id(part))
    return known[id(node)]


def operation(node: Node) -> Callable[..., Any]:
    """A function of the values of the operands, which holds none of them."""
    match node:
        case Call(function=function, options=options, part=part):
            return partial(_called, function, dict(options), part)
        case Choice():
            return eager.where
        case Join(axis=axis):
            return partial(_joined, axis)
        case Product():
            return _product
        case Cast(kind=kind):
            return partial(_cast, kind)
        case Turn(order=order):
            return partial(_turned, order)
        case Pick(key=key):
            return partial(_picked, key)
        case Reduce(name=name, axis=axis, keepdims=keepdims, kind=kind, ddof=ddof):
            return partial(_reduced, name, axis, keepdims, kind, ddof)
    raise DataError(f"expected a node of a lazy array, but this is {a_type(node)}")


def _called(function: np.ufunc, options: dict[str, Any], part: int, *operands: Any) -> Any:
    if any(isinstance(o, Tensor) for o in operands):
        result = eager.applied(function, operands, dict(options))
        return result[part] if isinstance(result, tuple) else result
    result = in_single(function, options)(*operands)
    return in_c(result[part] if isinstance(result, tuple) else result, 0)[0]


def _product(left: Any, right: Any) -> Any:
    return (
        eager.product(left, right) if isinstance(left, Tensor) or isinstance(right, Tensor) else np.matmul(left, right)
    )


def _joined(axis: int, *operands: Any) -> Any:
    if not any(isinstance(o, Tensor) for o in operands):
        return np.concatenate(operands, axis)
    return concatenate(operands, axis)


def _cast(kind: np.dtype[Any], operand: Any) -> Any:
    return operand.astype(kind)


def _turned(order: tuple[int, ...], operand: Any) -> Any:
    return operand.transpose(order)


def _picked(key: Any, operand: Any) -> Any:
    return operand[key]


def _reduced(name: str, axis: Any, keepdims: bool, kind: Any, ddof: float, operand: Any) -> Any:
    return eager.reduced(tensor_of(operand, "the operand"), name, axis, keepdims, kind, ddof=ddof)

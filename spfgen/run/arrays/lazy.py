"""Arrays that are computed when they are asked for: what is done to them is a graph until then.

`compute` makes one kernel of index notation of the whole graph where that can be and where there is enough to compute,
or one for each of its pieces (pieces.py); else it goes node by node, as tensors do (eager.py). The values are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from spfgen.errors import ConversionError
from spfgen.run.arrays import eager, tree_kernel
from spfgen.run.arrays.chains import in_best_order
from spfgen.run.arrays.entries import Entries, entries_of, own_entries
from spfgen.run.arrays.functions import AnyLayout
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
    children,
    in_order,
    joined_up,
    stored,
    turned,
    with_values,
)
from spfgen.run.arrays.made import in_layout
from spfgen.run.arrays.merges import goes_by_merges
from spfgen.run.arrays.numpy_functions import REDUCTIONS, called, needs_no_values
from spfgen.run.arrays.operations import by_steps
from spfgen.run.arrays.pieces import for_any_numbers, patterns, pieces, why_first
from spfgen.run.arrays.plan_cache import AGAIN, GraphRecord, seen
from spfgen.run.arrays.reductions import axis_of, of_groups
from spfgen.run.arrays.shapes import of_dense
from spfgen.run.arrays.text import fused
from spfgen.run.arrays.tree_kernel import by_kernel
from spfgen.run.arrays.words import in_words
from spfgen.run.calls.call_cache import NOTHING
from spfgen.run.calls.detect_layout import tensor_of
from spfgen.run.later import VARIABLE, WARM, mode
from spfgen.run.operators import Operators, unknown_attribute
from spfgen.run.tensor import Array, Tensor


class LazyArray(Operators["LazyArray", "LazyArray"]):
    """An array that is not computed yet: operators, methods and numpy's functions record what is to be done.

    `compute()` does it, and so do `numpy.asarray` and conversions to numbers. Methods have the shapes, types and fill
    values that they have on tensors, and cost nothing until then.

    >>> import numpy as np, spfgen
    >>> A = spfgen.asarray(spfgen.pack(np.array([[0.0, 0.5], [1.0, 0.0]]), "csr"))
    >>> C = A + 2j * A
    >>> (2 * A - A.T).sum(axis=1).compute()
    array([0. , 1.5])
    """

    __slots__ = ("node",)
    _inner = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, which are known before anything is computed.

        >>> (A @ A).shape
        (2, 2)
        """
        return self.node.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions.

        >>> A.sum(axis=0).ndim
        1
        """
        return len(self.node.shape)

    @property
    def size(self) -> int:
        """The number of elements: the product of the extents.

        >>> A.size
        4
        """
        return prod(self.node.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values, which is known before anything is computed.

        >>> (A > 0).dtype
        dtype('bool')
        """
        return self.node.dtype

    @property
    def statement(self) -> str | None:
        """The index notation that `compute` makes a kernel of; None where it goes step by step, or in pieces.

        >>> print((A + 1).sum(axis=0).statement)
        result[i] = sum(j: A[j, i] + B)
        """
        node, _ = in_best_order(self.node)
        if pieces(node):
            return None
        statement = fused(node)
        return None if statement is None else statement.text

    def compute(self, *, layout: Any = None) -> Any:
        """The value: a tensor where the operands and the fill say that it is sparse, or in the `layout` that is asked
        for; else a numpy array, or a number.

        Shapes: any. Types: any, which stay. Fill: that of the operations one by one, or of the `layout`. Cost: that of
        the operations, less what is fused; common parts once.

        >>> (2 * A).compute(layout="csc").layout.name
        'csc'
        """
        again = seen(self.node) if layout is None else None
        value = NOTHING if again is None else again.value()
        if value is NOTHING:
            (node,) = joined_up([self.node])
            value = _planned(in_best_order(node)[0], layout, again)
        return value

    def explain(self) -> str:
        """In which steps `compute` would go, by kernels or by numpy, and why so.

        Shapes: any. Types: any. Fill: plays no part. Cost: a pass over the operations; nothing is computed.

        >>> print(A[0].sum().explain().splitlines()[0])
        1. 2, step by step by numpy: index notation cannot express it
        """
        return explained(self.node)

    def astype(self, dtype: DTypeLike) -> LazyArray:
        """With values of another type, as numpy converts them.

        Shapes: any, which stay. Types: any that kernels have. Fill: is converted. Cost: a pass over the values.

        >>> A.astype("int8").compute().dtype
        dtype('int8')
        """
        with in_words("dtype"):
            kind = np.dtype(dtype)
        return LazyArray(Cast(self.node, kind))

    def transpose(self, *axes: Any) -> LazyArray:
        """numpy.transpose: the dimensions in another order, without `axes` in the reverse one.

        Shapes: any. Types: any, which stay. Fill: stays. Cost: none in a kernel; else that of `Tensor.transpose`.

        >>> A.transpose(1, 0)[0].compute().to_numpy()
        array([0., 1.])
        """
        return LazyArray(turned(self.node, axes))

    def __getitem__(self, key: Any) -> LazyArray:
        return LazyArray(Pick(self.node, tuple(map(_places, key)) if isinstance(key, tuple) else _places(key)))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.compute())

    def __bool__(self) -> bool:
        return eager.truth(self.compute())

    def _number(self) -> Any:
        return self.compute()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a lazy array becomes a numpy array only by a copy")
        return np.asarray(self.compute(), dtype=dtype)

    def __array_ufunc__(self, function: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        if method == "__call__" and not {"out", "where"} & set(options):
            return self._called(function, operands, options)
        if method == "reduce" and set(options) <= {"axis", "keepdims", "dtype"}:
            return self._reduced(
                function.__name__, options.get("axis", 0), options.get("keepdims", False), dtype=options.get("dtype")
            )
        given = [o.compute() if isinstance(o, LazyArray) else o for o in operands]
        return getattr(function, method)(*given, **options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        noted = self._noted_down(function, arguments, options)
        if noted is not None:
            return noted
        if function is np.transpose:
            return self.transpose(*arguments[1:], *options.values())
        if function in {getattr(np, n) for n in (*REDUCTIONS, "var", "std")} or needs_no_values(function):
            return called(function, arguments, options)
        return function(*map(_computed, arguments), **{n: _computed(v) for n, v in options.items()})

    def _noted_down(self, function: Any, arguments: Any, options: Any) -> LazyArray | None:
        """Functions of whole arrays that become a node; None for others, and for arguments that no node has."""
        if function is np.where and len(arguments) == 3 and not options:
            return LazyArray(Choice(tuple(map(_node, arguments))))  # type: ignore[arg-type]
        if function is np.concatenate and set(options) <= {"axis"} and len(arguments) in (1, 2):
            axis = arguments[1] if len(arguments) == 2 else options.get("axis", 0)
            return None if axis is None else LazyArray(Join(tuple(map(_node, arguments[0])), axis))
        if function is np.stack and set(options) <= {"axis"} and len(arguments) in (1, 2):
            axis = arguments[1] if len(arguments) == 2 else options.get("axis", 0)
            parts = [_node(a) for a in arguments[0]]
            place = axis_of(axis, len(parts[0].shape) + 1)
            return LazyArray(Join(tuple([Pick(p, (*[slice(None)] * place, None)) for p in parts]), place))
        return None

    def _called(self, function: np.ufunc, operands: Sequence[object], options: dict[str, Any]) -> Any:
        given = [_node(o) for o in operands]
        if function is np.matmul:
            return LazyArray(Product(*given))
        if function.signature is not None:
            raise ConversionError(f"expected an element-wise function, but numpy.{function.__name__} is not one")
        parts = [Call(function, tuple(given), tuple(options.items()), k) for k in range(function.nout)]
        return LazyArray(parts[0]) if len(parts) == 1 else tuple(map(LazyArray, parts))

    def _reduced(self, name: str, axis: Any, keepdims: bool, **options: Any) -> Any:
        if any(options.get(n) is not None for n in ("initial", "out")) or options.get("where", True) is not True:
            return eager.reduced(self.compute(), name, axis, keepdims, **{n: _computed(v) for n, v in options.items()})
        return LazyArray(Reduce(name, self.node, axis, keepdims, options.get("dtype"), options.get("ddof", 0)))

    def _goes_with(self, other: object) -> bool:
        return isinstance(other, LazyArray) or eager.is_operand(other)

    if not TYPE_CHECKING:  # who checks types is to see that a name is not there

        def __getattr__(self, name: str) -> Any:
            raise unknown_attribute(self, name)

    def _repr_html_(self) -> str:
        steps = f"<details><summary>steps</summary><pre>{escape(self.explain())}</pre></details>"
        return f"<div><code>{escape(repr(self)[1:-1])}</code>{steps}</div>"

    def __repr__(self) -> str:
        shape = [" x ".join(map(str, self.shape))] if self.shape else []
        shape_and_type = ", ".join([*shape, str(self.dtype)])
        statement = self.statement
        return f"<spfgen.LazyArray {shape_and_type}{'' if statement is None else f': {statement}'}>"


def leaf(value: Any) -> LazyArray:
    """An operand as a lazy array."""
    return LazyArray(_node(value))


def _node(value: Any) -> Node:
    return value.node if isinstance(value, LazyArray) else Leaf(eager.operand(value))


def _computed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_computed, value))
    return value.compute() if isinstance(value, LazyArray) else value


def _places(part: Any) -> Any:
    """A part of a subscript: the shape follows from what a mask holds."""
    part = _computed(part)
    return part.to_numpy() if isinstance(part, Tensor) else part


# --- computing ------------------------------------------------------------------------------------------------------


def computed(node: Node, layout: Any = None, is_cut: bool = False) -> Any:
    """The value of a tree, of which it may be known how one like it was computed before."""
    if isinstance(node, Leaf):
        return node.value if layout is None else _placed(node.value, layout)
    again = seen(node) if layout is None else None
    result = NOTHING if again is None else again.value()
    return _planned(node, layout, again, is_cut) if result is NOTHING else result


def _planned(node: Node, layout: Any, again: GraphRecord | None, is_cut: bool = False) -> Any:
    """The value; what was done is remembered for graphs that are seen `again`. `is_cut`: what is to be computed first
    was."""
    if isinstance(node, Leaf):
        return computed(node, layout)
    is_large = stored(node) >= tree_kernel.ENOUGH
    if is_large and layout is None and mode() != WARM and goes_by_merges(node, patterns(in_order(node))):
        if again is not None:
            again.remember_steps(node, None)
        return by_steps(node)
    first = pieces(node) if not is_cut and (is_large or mode() in (WARM, "background")) else []
    if first:
        return _in_parts(node, first, layout, again)
    key, times = (again.kernel_key(), again.times()) if again is not None else (None, AGAIN)
    value = by_kernel(node, layout, small=layout is None, times=1 if is_large else times, key=key)
    if value is not None:
        if again is not None:
            again.remember_kernel(node)
        return value
    if again is not None and not is_large:
        again.remember_steps(node, times)
    if layout is None:
        return by_steps(node)
    value = _groups(node) if node.shape else None
    return _placed(by_steps(node), layout) if value is None else in_layout(value, layout)


def _in_parts(node: Node, first: Sequence[Node], layout: Any, again: GraphRecord | None) -> Any:
    """The value, where those of parts are computed before (pieces.py)."""
    parts, values = list[Node](), list[Any]()
    known: dict[int, Node] = {}
    for piece in first:
        parts.append(with_values(piece, known))
        values.append(computed(parts[-1]))
        known[id(piece)] = Leaf(values[-1])
    parts.append(with_values(node, known))
    value = computed(parts[-1], layout, is_cut=True)
    if again is not None:
        again.remember_parts(parts, values)
    return value


def several(nodes: Sequence[Node]) -> list[Any]:
    """The values of several trees. What stands in more than one of them is computed once."""
    nodes = joined_up(nodes)
    trees = Counter(id(n) for root in {id(r): r for r in nodes}.values() for n in in_order(root) if children(n))
    uses = Counter(id(c) for root in {id(r): r for r in nodes}.values() for n in in_order(root) for c in children(n))
    roots = {id(n) for n in nodes}
    known: dict[int, Node] = {}
    for root in nodes:
        order = in_order(root)
        above = {id(c) for n in order if trees[id(n)] == 1 for c in children(n)}
        for part in order:
            is_first = id(part) in roots or (id(part) in above and uses[id(part)] > 1)
            if trees[id(part)] > 1 and id(part) not in known and is_first:
                known[id(part)] = Leaf(computed(with_values(part, known)))
    return [computed(with_values(n, known)) for n in nodes]


def explained(node: Node) -> str:
    """In which steps a tree is computed, and why so."""
    (node,) = joined_up([node])
    node, notes = in_best_order(node)
    known: dict[int, Node] = {}
    lines = [f"Factors F1, F2, ... from left to right are multiplied in the order {note}." for note in notes]
    names: dict[int, str] = {}
    above: dict[int, list[Node]] = {}
    for one in in_order(node):
        for part in children(one):
            above.setdefault(id(part), []).append(one)
    number = 0
    for number, piece in enumerate(pieces(node), start=1):
        why = why_first(piece, above[id(piece)], len(above[id(piece)]))
        lines.append(f"{number}. {_step_said(with_values(piece, known), names)}\n   first, because {why}")
        known[id(piece)] = Leaf(np.broadcast_to(np.zeros((), piece.dtype), piece.shape))
        names[id(known[id(piece)])] = f"step {number}"
    lines.append(f"{number + 1}. {_step_said(with_values(node, known), names)}")
    return "\n".join(lines)


def _step_said(node: Node, names: Mapping[int, str]) -> str:
    """How one step is computed, and why so."""
    shape = " x ".join(map(str, node.shape)) or "a number"
    statement = fused(node)
    numbers = stored(node)
    if statement is None:
        return f"{shape}, step by step by numpy: index notation cannot express it"
    values = {id(n.value): names[id(n)] for n in in_order(node) if isinstance(n, Leaf) and id(n) in names}
    meanings = [f"{n} is {values.get(id(v), _operand_said(v))}" for n, v in statement.operands.items()]
    text = f"{shape}: {statement.text}" + (f"\n   where {', '.join(meanings)}" if meanings else "")
    if numbers < tree_kernel.ENOUGH and not names:
        few = f"the operands hold {numbers} numbers, fewer than {tree_kernel.ENOUGH}"
        return f"{text}\n   by numpy until a kernel is there, because {few}"
    if not for_any_numbers(node):
        return f"{text}\n   by numpy, entry by entry, because a scalar determines the fill value"
    if goes_by_merges(node, patterns(in_order(node))):
        return f"{text}\n   node by node, because merging sorted entries takes less time than a kernel"
    return f"{text}\n   by a kernel, from {tree_kernel.ENOUGH} numbers on ({VARIABLE}={mode()})"


def _operand_said(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.layout.title} {' x '.join(map(str, value.shape))}"
    return f"dense {' x '.join(map(str, value.shape))}" if np.ndim(value) else repr(np.asarray(value).item())


def _placed(value: Any, layout: Any) -> Any:
    if isinstance(value, Tensor):
        return in_layout(own_entries(value), layout)
    return in_layout(of_dense(value, value.dtype.type(0)), layout) if np.ndim(value) else value


def _groups(node: Node) -> Entries | None:
    """A reduction as entries, where they follow from those of the operand."""
    if not isinstance(node, Reduce) or node.name in ("mean", *eager.OF_PLACES):
        return None
    operand = by_steps(node.operand)
    if not isinstance(operand, Tensor):
        return None
    return of_groups(getattr(np, node.name), entries_of(operand), node.axis, node.keepdims, node.kind)


def _tensor(value: Any) -> Tensor:
    return tensor_of(value, "the operand")


def compute(*arrays: object) -> tuple[Any, ...]:
    """The values of several lazy arrays; common subexpressions are computed once.

    Arguments that are not lazy arrays are returned as they are. Raises what `LazyArray.compute` raises.
    """
    lazy = [a for a in arrays if isinstance(a, LazyArray)]
    values = iter([lazy[0].compute()] if len(lazy) == 1 else several([a.node for a in lazy]))
    return tuple([next(values) if isinstance(a, LazyArray) else a for a in arrays])


def asarray(a: object, *, layout: AnyLayout | None = None) -> LazyArray:
    """A lazy array: operators, functions and methods are recorded, and computed together by `compute()`.

    `a` is whatever `spfgen.evaluate` accepts; with `layout` it is converted to that layout first.
    """
    if isinstance(a, LazyArray):
        return a if layout is None else leaf(a.compute(layout=layout))
    return leaf(a) if layout is None else leaf(in_layout(own_entries(_tensor(a)), layout))

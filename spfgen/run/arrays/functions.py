"""numpy's functions that change shapes, for tensors in any layout; and arrays that are computed when asked for.

Operands are tensors and whatever `spfgen.evaluate` takes. Results are tensors: in the `layout` that is asked for, else
in that of the first operand where it has places for the entries, else in one of coordinates. Elements that are not
stored keep the fill value of the first operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from spfgen.errors import ArgumentError, DataError
from spfgen.layout.nodes import Layout
from spfgen.run.arrays import indexing, segments, shapes
from spfgen.run.arrays.entries import Entries, normal, own_entries
from spfgen.run.arrays.made import in_layout, tensor_from
from spfgen.run.arrays.reductions import axis_of, permutation
from spfgen.run.arrays.words import worded
from spfgen.run.calls.detect_layout import tensor_of
from spfgen.run.coordinates import Coordinates
from spfgen.run.handles import LayoutHandle
from spfgen.run.tensor import Tensor

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator


AnyLayout = LayoutHandle | Layout | str


@worded
def reshape(a: object, shape: Any, order: str = "C", *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.reshape: `reshape(T, (6, -1))`, elements by rows ("C") or by columns ("F")."""
    return _one(a, layout, lambda e: shapes.reshape(e, shape, order))


@worded
def slice(a: object, key: Any, *, layout: AnyLayout | None = None) -> Any:  # noqa: A001
    """`a[key]` in a layout: `slice(T, np.s_[1:5:2, :], layout="csr")`; a number when nothing else is left."""
    tensor = _tensor(a)
    return _result(indexing.subscript(tensor, key), [tensor], layout)


@worded
def transpose(a: object, axes: Sequence[int] | None = None, *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.transpose."""
    tensor = _tensor(a)
    return _result(indexing.transpose(tensor, permutation((axes,), tensor.ndim)), [tensor], layout)


@worded
def flip(m: object, axis: Any = None, *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.flip: the elements in the reverse order along the axes, all of them without `axis`."""
    return _one(m, layout, lambda e: shapes.flip(e, axis))


@worded
def roll(a: object, shift: Any, axis: Any = None, *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.roll."""
    return _one(a, layout, lambda e: shapes.roll(e, shift, axis))


@worded
def pad(
    array: object,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: Any = 0,
    layout: AnyLayout | None = None,
) -> Tensor:
    """numpy.pad, with the mode "constant", "edge" or "wrap"."""
    return _one(array, layout, lambda e: shapes.pad(e, pad_width, mode, constant_values))


@worded
def tril(m: object, k: int = 0, *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.tril: what is above the k-th diagonal becomes 0."""
    return _one(m, layout, lambda e: shapes.triangle(e, k, True))


@worded
def triu(m: object, k: int = 0, *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.triu: what is below the k-th diagonal becomes 0."""
    return _one(m, layout, lambda e: shapes.triangle(e, k, False))


@worded
def diag(v: object, k: int = 0, *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.diag: the k-th diagonal of a matrix, or the matrix with that diagonal."""
    return _one(v, layout, lambda e: shapes.diag(e, k))


@worded
def diagonal(a: object, offset: int = 0, axis1: int = 0, axis2: int = 1, *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.diagonal: of a matrix, or of all matrices along two axes, as the last dimension of the result."""
    tensor = _tensor(a)
    if tensor.ndim < 2:
        raise DataError(f"expected a matrix, but it has the shape {tensor.shape}")
    first, second = axis_of(axis1, tensor.ndim), axis_of(axis2, tensor.ndim)
    if first == second:
        raise ArgumentError(f"expected two axes of a diagonal, but they are {axis1} and {axis2}")
    return _one(tensor, layout, lambda e: shapes.diagonal(e, offset, first, second))


@worded
def expand_dims(a: object, axis: Any, *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.expand_dims."""
    return _one(a, layout, lambda e: shapes.expand_dims(e, axis))


@worded
def squeeze(a: object, axis: Any = None, *, layout: AnyLayout | None = None) -> Any:
    """numpy.squeeze; a number when no dimension is left."""
    return _one(a, layout, lambda e: shapes.squeeze(e, axis))


@worded
def broadcast_to(array: object, shape: Any, *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.broadcast_to, in new arrays."""
    return _one(array, layout, lambda e: shapes.broadcast_to(e, shape))


@worded
def tile(A: object, reps: Any, *, layout: AnyLayout | None = None) -> Tensor:  # noqa: N803
    """numpy.tile."""
    return _one(A, layout, lambda e: shapes.tile(e, reps))


@worded
def repeat(a: object, repeats: Any, axis: Any = None, *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.repeat."""
    return _one(a, layout, lambda e: shapes.repeat(e, repeats, axis))


@worded
def concatenate(arrays: Sequence[object], axis: int | None = 0, *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.concatenate."""
    if axis is None:
        return _several(arrays, layout, lambda parts: shapes.concatenate(parts, None))
    return _joined(arrays, layout, lambda parts: shapes.concatenate(parts, axis), axis)


@worded
def stack(arrays: Sequence[object], axis: int = 0, *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.stack."""
    return _joined(arrays, layout, lambda parts: shapes.stack(parts, axis))


@worded
def vstack(tup: Sequence[object], *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.vstack."""
    return _joined(tup, layout, shapes.vstack, 0)


@worded
def hstack(tup: Sequence[object], *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.hstack."""
    return _joined(tup, layout, shapes.hstack, 1)


@worded
def block(arrays: Any, *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.block: `block([[A, B], [C, D]])`."""
    tensors = [_tensor(a) for a in shapes.leaves(arrays)]
    remaining = iter([own_entries(t) for t in tensors])
    return _result(shapes.block(arrays, lambda _: next(remaining)), tensors, layout)


@worded
def kron(a: object, b: object, *, layout: AnyLayout | None = None) -> Tensor:
    """numpy.kron."""
    return _several((a, b), layout, lambda parts: shapes.kron(*parts))


def aslinearoperator(a: object) -> LinearOperator:
    """A scipy.sparse.linalg.LinearOperator for a matrix in any layout, or in blocks, for scipy's solvers."""
    if hasattr(a, "rmatvec"):
        from scipy.sparse.linalg import aslinearoperator as of_scipy

        return of_scipy(a)
    from spfgen.run.arrays.solvers import linear_operator

    return linear_operator(_tensor(a))


def _tensor(value: Any) -> Tensor:
    return tensor_of(value, "the operand")


def _one(value: object, layout: AnyLayout | None, function: Callable[[Entries], Entries]) -> Tensor:
    tensor = _tensor(value)
    return _result(function(own_entries(tensor)), [tensor], layout)


def _several(
    values: Sequence[object], layout: AnyLayout | None, function: Callable[[Sequence[Entries]], Entries]
) -> Tensor:
    tensors = [_tensor(v) for v in values]
    return _result(function([own_entries(t) for t in tensors]), tensors, layout)


def _joined(
    values: Sequence[object],
    layout: AnyLayout | None,
    function: Callable[[Sequence[Any]], Any],
    axis: object = None,
) -> Tensor:
    """What a function makes of entries that it puts one after the other: they are not sorted before where their fill
    values agree, because that is done when they are packed. `axis` is that along which it puts matrices."""
    tensors = [_tensor(v) for v in values]
    if layout is None and axis in (-2, -1, 0, 1) and tensors and all(t.ndim == 2 for t in tensors):
        joined = segments.joined(tensors, axis % 2)
        if joined is not None:
            return joined
    if len({t.layout.fill_text for t in tensors}) != 1 or len({t.dtype for t in tensors}) != 1:
        return _several(tensors, layout, function)
    return _result(function([indexing.whole(t) for t in tensors]), tensors, layout)


def _result(entries: Entries | Coordinates, tensors: Sequence[Tensor], layout: AnyLayout | None) -> Tensor:
    """A tensor; a number where no dimension is left, as the functions that may leave none say."""
    tensor: Tensor
    if layout is None or not entries.shape:
        tensor = tensor_from(entries, [t.layout for t in tensors])
    else:
        if isinstance(entries, Coordinates):
            entries = normal(entries.shape, entries.coords, entries.values, entries.fill)
        tensor = in_layout(entries, layout)
    return tensor

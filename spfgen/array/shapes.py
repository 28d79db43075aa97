"""Functions that move elements: work and memory follow from what is stored, and the fill stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spfgen.array.operands import AnyArray, array_operand, as_array, dense
from spfgen.errors import ArgumentError
from spfgen.run.arrays.reductions import axes_of, axis_of
from spfgen.run.tensor import Tensor

Axes = int | tuple[int, ...] | None


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays of these shapes have together.

    Shapes: any that go together. Types: none. Fill: plays no part. Cost: none.

    >>> xp.broadcast_shapes((3, 1), (2,))
    (3, 2)
    """
    return np.broadcast_shapes(*shapes)


def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> AnyArray:
    """The array in a larger shape, in new arrays.

    Shapes: any; `shape`. Types: any, which stay. Fill: stays. Cost: an entry for each time that one is repeated.

    >>> xp.broadcast_to(A, (3, 2, 2)).nse
    6
    """
    return as_array(np.broadcast_to(array_operand(x), tuple(shape)))


def broadcast_arrays(*arrays: Any) -> list[AnyArray]:
    """All arrays in the shape that they have together.

    Shapes: any that go together. Types: any, which stay. Fill: stays. Cost: an entry for each time that one is
    repeated.

    >>> [b.shape for b in xp.broadcast_arrays(A, xp.asarray([1, 2]))]
    [(2, 2), (2, 2)]
    """
    given = [array_operand(a) for a in arrays]
    shape = np.broadcast_shapes(*[a.shape for a in given])
    return [a if a.shape == shape else broadcast_to(a, shape) for a in given]


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> AnyArray:
    """The arrays one after the other, in the type that they have together; without `axis` as lines.

    Shapes: equal but along the axis. Types: as numpy promotes them. Fill: that of the first; other ones are
    stored. Cost: a copy of what is stored.

    >>> xp.concat([A, A], axis=1).shape
    (2, 4)
    """
    given = [array_operand(a) for a in arrays]
    return as_array(np.concatenate(given, axis=axis))


def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> AnyArray:
    """The arrays along a new axis.

    Shapes: equal; one dimension more. Types: as numpy promotes them. Fill: that of the first; other ones are
    stored. Cost: a copy of what is stored.

    >>> xp.stack([A, A]).shape
    (2, 2, 2)
    """
    given = [expand_dims(a, axis=axis) for a in arrays]
    if len({g.shape for g in given}) > 1:
        raise ArgumentError(
            f"expected arrays of one shape, but they are {', '.join(str(array_operand(a).shape) for a in arrays)}"
        )
    return concat(given, axis=axis)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[AnyArray, ...]:
    """The parts along an axis.

    Shapes: one dimension or more; one less. Types: any, which stay. Fill: stays. Cost: a subscript for each part.

    >>> [r.to_numpy() for r in xp.unstack(A)]
    [array([0. , 0.5]), array([1., 0.])]
    """
    x = array_operand(x)
    along = axis_of(axis, x.ndim)
    return tuple([as_array(x[(*[slice(None)] * along, k)]) for k in range(x.shape[along])])


def expand_dims(x: Any, /, axis: int = 0) -> AnyArray:
    """A new dimension of extent 1.

    Shapes: one dimension more. Types: any, which stay. Fill: stays. Cost: a pass over what is stored.

    >>> xp.expand_dims(A, axis=1).shape
    (2, 1, 2)
    """
    return as_array(np.expand_dims(array_operand(x), axis))


def squeeze(x: Any, /, axis: int | tuple[int, ...]) -> AnyArray:
    """Without some dimensions of extent 1.

    Shapes: fewer dimensions. Types: any, which stay. Fill: stays. Cost: a pass over what is stored.

    >>> xp.squeeze(xp.zeros((3, 1)), axis=1).shape
    (3,)
    """
    return as_array(np.squeeze(array_operand(x), axis))


def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> AnyArray:
    """The elements by rows in another shape. Raises ArgumentError, a ValueError, for `copy=False` where it is another
    one: the coordinates are new.

    Shapes: `shape`, of as many elements. Types: any, which stay. Fill: stays. Cost: a pass over what is stored.

    >>> xp.reshape(A, (4,)).to_numpy()
    array([0. , 0.5, 1. , 0. ])
    """
    x = array_operand(x)
    if copy is False:
        if tuple(shape) == x.shape:
            return x
        raise ArgumentError("expected `copy` not to be False: the coordinates of another shape are new arrays")
    return as_array(np.reshape(x, shape))


def permute_dims(x: Any, /, axes: tuple[int, ...]) -> AnyArray:
    """The dimensions in another order.

    Shapes: the extents in that order. Types: any, which stay. Fill: stays. Cost: none where a layout has the
    transpose over the same arrays, else a pass over what is stored.

    >>> xp.permute_dims(A, (1, 0)).to_numpy()
    array([[0. , 1. ],
           [0.5, 0. ]])
    """
    x = array_operand(x)
    if len(axes_of(tuple(axes), x.ndim)) != x.ndim:
        raise ArgumentError(f"expected an order of {x.ndim} dimensions, but it is {axes!r}")
    return as_array(np.transpose(x, axes)) if axes else x


def moveaxis(x: Any, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> AnyArray:
    """Some dimensions elsewhere, the others in their order.

    Shapes: the extents in another order. Types: any, which stay. Fill: stays. Cost: that of `permute_dims`.

    >>> xp.moveaxis(xp.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = array_operand(x)
    sources, destinations = axes_of(source, x.ndim), axes_of(destination, x.ndim)
    if len(sources) != len(destinations):
        raise ArgumentError(f"expected as many axes to go as places, but they are {source!r} and {destination!r}")
    order = [d for d in range(x.ndim) if d not in sources]
    for place, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, axis)
    return permute_dims(x, tuple(order))


def matrix_transpose(x: Any, /) -> AnyArray:
    """The last two dimensions exchanged.

    Shapes: the last two extents exchanged. Types: any, which stay. Fill: stays. Cost: that of `permute_dims`.

    >>> xp.matrix_transpose(A).to_numpy()
    array([[0. , 1. ],
           [0.5, 0. ]])
    """
    x = array_operand(x)
    if x.ndim < 2:
        raise ArgumentError(f"expected two dimensions or more, but the shape is {x.shape}")
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def flip(x: Any, /, *, axis: Axes = None) -> AnyArray:
    """The elements in the reverse order along axes, along all without `axis`.

    Shapes: those of `x`. Types: any, which stay. Fill: stays. Cost: a pass over what is stored.

    >>> xp.flip(A, axis=1).to_numpy()
    array([[0.5, 0. ],
           [0. , 1. ]])
    """
    x = array_operand(x)
    return as_array(np.flip(x, axis)) if x.ndim else x


def roll(x: Any, /, shift: int | tuple[int, ...], *, axis: Axes = None) -> AnyArray:
    """The elements moved on, what leaves at the end comes in at the beginning.

    Shapes: those of `x`. Types: any, which stay. Fill: stays. Cost: a pass over what is stored.

    >>> xp.roll(A, 1, axis=0).to_numpy()
    array([[1. , 0. ],
           [0. , 0.5]])
    """
    return as_array(np.roll(array_operand(x), shift, axis))


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> AnyArray:
    """Each element several times.

    Shapes: longer along the axis, or a line. Types: any, which stay. Fill: stays. Cost: an entry for each time that
    one is repeated.

    >>> xp.repeat(A, 2, axis=0).shape
    (4, 2)
    """
    return as_array(np.repeat(array_operand(x), repeats if isinstance(repeats, int) else dense(repeats), axis))


def tile(x: Any, repetitions: tuple[int, ...], /) -> AnyArray:
    """The array several times along its dimensions.

    Shapes: several times as long. Types: any, which stay. Fill: stays. Cost: an entry for each time that one is
    repeated.

    >>> xp.tile(A, (1, 2)).shape
    (2, 4)
    """
    return as_array(np.tile(array_operand(x), tuple(repetitions)))


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> AnyArray:
    """What each element is more than the one before it along an axis, n times.

    Shapes: n less along the axis. Types: numbers, which stay. Fill: 0, where it is a number that less itself is 0.
    Cost: n times that of a difference.

    >>> xp.diff(A).to_numpy()
    array([[ 0.5],
           [-1. ]])
    """
    parts = [array_operand(p) for p in (prepend, x, append) if p is not None]
    along = axis_of(axis, array_operand(x).ndim)
    differences = parts[0] if len(parts) == 1 else concat(parts, axis=along)
    for _ in range(n):
        before = (slice(None),) * along
        differences = differences[(*before, slice(1, None))] - differences[(*before, slice(None, -1))]
    return as_array(differences)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> AnyArray:
    """The elements at places along an axis.

    Shapes: those of the indices in place of the axis. Types: any, which stay. Fill: stays. Cost: that of a
    subscript.

    >>> xp.take(A, xp.asarray([1, 1]), axis=0).to_numpy()
    array([[1., 0.],
           [1., 0.]])
    """
    x = array_operand(x)
    if axis is None and x.ndim != 1:
        raise ArgumentError(f"expected an axis of an array with {x.ndim} dimensions, but there is none")
    along = 0 if axis is None else axis_of(axis, x.ndim)
    return as_array(x[(*[slice(None)] * along, _places(indices))])


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> AnyArray:
    """At each place of `indices` the element of `x` along an axis that it says.

    Shapes: those of the indices, broadcast. Types: any, which stay. Fill: stays. Cost: that of a subscript.

    >>> xp.take_along_axis(A, xp.asarray([[1], [0]]), axis=1).to_numpy()
    array([[0.5],
           [1. ]])
    """
    x, places = array_operand(x), _places(indices)
    along = axis_of(axis, x.ndim)
    if places.ndim != x.ndim:
        raise ArgumentError(f"expected indices of {x.ndim} dimensions, but their shape is {places.shape}")
    others = [n if d != along else 1 for d, n in enumerate(x.shape)]
    shape = np.broadcast_shapes(tuple(others), places.shape)
    key = [np.arange(n) if x.shape[d] == n else np.zeros(n, np.int64) for d, n in enumerate(shape)]
    lines = [k.reshape([-1 if d == e else 1 for e in range(x.ndim)]) for d, k in enumerate(key)]
    return as_array(x[tuple(places if d == along else k for d, k in enumerate(lines))])


def _places(indices: Any) -> Any:
    return dense(indices) if isinstance(indices, Tensor) or hasattr(indices, "node") else np.asarray(indices)

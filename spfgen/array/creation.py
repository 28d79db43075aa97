"""Arrays from nothing: those of one number are sparse with that number as their fill, and store nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spfgen.array.operands import AnyArray, array_operand, as_array, computed, dense, on_device, sparse
from spfgen.array.shapes import broadcast_arrays, expand_dims
from spfgen.errors import ArgumentError
from spfgen.run.arrays.entries import Entries
from spfgen.run.arrays.lazy import LazyArray
from spfgen.run.arrays.made import tensor_from
from spfgen.run.calls.bind import is_pydata, is_scipy
from spfgen.run.dlpack import is_elsewhere
from spfgen.run.tensor import Tensor

Shape = int | Sequence[int]


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> AnyArray:
    """An array of a number, of nested lists, or of what `spfgen.evaluate` takes. What is sparse stays so, and a numpy
    array becomes a tensor in a dense layout, over the same memory where `copy` does not forbid it.

    Raises ArgumentError, a ValueError, where `copy=False` cannot be.

    Shapes: those of `obj`. Types: of `obj`, or `dtype`. Fill: stays. Cost: none where nothing is copied; a numpy
    array stays in place.

    >>> xp.asarray([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    on_device(device)
    if isinstance(obj, Tensor | LazyArray) or is_scipy(obj) or is_pydata(obj) or is_elsewhere(obj):
        array_of_object = array_operand(obj)
        same = dtype is None or array_of_object.dtype == np.dtype(dtype)
        if copy is False and not same:
            raise ArgumentError(f"expected the type {array_of_object.dtype} where there is no copy, but it is {dtype}")
        array_of_object = array_of_object if same else array_of_object.astype(dtype)
        return array_of_object.copy() if copy and same and isinstance(array_of_object, Tensor) else array_of_object
    array = np.array(obj, dtype=dtype, copy=copy)
    if dtype is None and array.dtype == np.float16:
        array = array.astype(np.float32)
    return as_array(array)


def full(shape: Shape, fill_value: Any, *, dtype: Any = None, device: Any = None) -> AnyArray:
    """One number everywhere: the fill of a tensor in coordinates, which stores nothing.

    Shapes: as said. Types: of the number, or `dtype`. Fill: the number. Cost: none: nothing is stored.

    >>> xp.full((1000, 1000), 7).nse
    0
    """
    on_device(device)
    extents = (int(shape),) if isinstance(shape, int | np.integer) else tuple(map(int, shape))
    value = np.asarray(fill_value if type(fill_value) in (bool, int, float, complex) else dense(fill_value))
    value = value.astype(dtype or value.dtype)
    return sparse(extents, [np.zeros(0, np.int64)] * len(extents), np.zeros(0, value.dtype), value[()])


def zeros(shape: Shape, *, dtype: Any = None, device: Any = None) -> AnyArray:
    """A tensor in coordinates that stores nothing.

    Shapes: as said. Types: float64, or `dtype`. Fill: 0. Cost: none: nothing is stored.

    >>> xp.zeros((10**6, 10**6)).nse
    0
    """
    return full(shape, 0, dtype=dtype or np.float64, device=device)


def ones(shape: Shape, *, dtype: Any = None, device: Any = None) -> AnyArray:
    """A tensor in coordinates with the fill 1 that stores nothing.

    Shapes: as said. Types: float64, or `dtype`. Fill: 1. Cost: none: nothing is stored.

    >>> xp.ones((2, 2)).sum()
    np.float64(4.0)
    """
    return full(shape, 1, dtype=dtype or np.float64, device=device)


def empty(shape: Shape, *, dtype: Any = None, device: Any = None) -> AnyArray:
    """The same as `zeros`.

    Shapes: as said. Types: float64, or `dtype`. Fill: 0. Cost: none: nothing is stored.

    >>> xp.empty((3,)).fill
    np.float64(0.0)
    """
    return zeros(shape, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> AnyArray:
    """`full` with the shape and the type of an array, in its layout where that can be.

    Shapes: those of `x`. Types: of `x`, or `dtype`. Fill: the number. Cost: none: nothing is stored.

    >>> xp.full_like(A, 3).fill
    np.float64(3.0)
    """
    x = computed(x)
    filled = full(x.shape, fill_value, dtype=dtype or x.dtype, device=device)
    if not x.shape:
        return filled
    none = np.zeros(0, np.int64)
    entries = Entries(x.shape, (none,) * x.ndim, np.zeros(0, filled.dtype), filled.fill)
    return as_array(tensor_from(entries, [x.layout]))


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> AnyArray:
    """Zeros with the shape, the type and, where that can be, the layout of an array.

    Shapes: those of `x`. Types: of `x`, or `dtype`. Fill: 0. Cost: none: nothing is stored.

    >>> xp.zeros_like(A).layout.name
    'csr'
    """
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> AnyArray:
    """Ones with the shape, the type and, where that can be, the layout of an array.

    Shapes: those of `x`. Types: of `x`, or `dtype`. Fill: 1. Cost: none: nothing is stored.

    >>> xp.ones_like(A).fill
    np.float64(1.0)
    """
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> AnyArray:
    """The same as `zeros_like`.

    Shapes: those of `x`. Types: of `x`, or `dtype`. Fill: 0. Cost: none: nothing is stored.

    >>> xp.empty_like(A).nse
    0
    """
    return zeros_like(x, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> AnyArray:
    """Ones on the k-th diagonal: a tensor in coordinates with as many entries.

    Shapes: `n_rows` x `n_cols`. Types: float64, or `dtype`. Fill: 0. Cost: an entry for each 1.

    >>> xp.eye(3, k=1).nse
    2
    """
    on_device(device)
    columns = n_rows if n_cols is None else n_cols
    k = max(-n_rows, min(k, columns))  # beyond, there is no diagonal, however far it is
    rows = np.arange(max(0, -k), max(0, -k, min(n_rows, columns - k)), dtype=np.int64)
    return sparse((n_rows, columns), (rows, rows + k), np.ones(len(rows), dtype or np.float64), 0)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> AnyArray:
    """numpy.arange, in a dense layout.

    Shapes: a line. Types: as numpy's, or `dtype`. Fill: none, it is dense. Cost: that of numpy.

    >>> xp.arange(4).to_numpy()
    array([0, 1, 2, 3])
    """
    on_device(device)
    begin, end = (0, start) if stop is None else (start, stop)
    return as_array(np.arange(begin, end, step, dtype=dtype))


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> AnyArray:
    """numpy.linspace, in a dense layout.

    Shapes: a line of `num` elements. Types: float64, or `dtype`. Fill: none, it is dense. Cost: that of numpy.

    >>> xp.linspace(0, 1, 3).to_numpy()
    array([0. , 0.5, 1. ])
    """
    on_device(device)
    return as_array(np.linspace(start, stop, num, dtype=dtype, endpoint=endpoint))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> AnyArray:
    """The dense array of another library, over its memory, as a tensor in a dense layout. Raises BufferError for a
    tensor in a sparse one.

    Shapes: those of `x`. Types: of `x`. Fill: none, it is dense. Cost: none where nothing is copied.

    >>> xp.from_dlpack(np.ones(2)).to_numpy()
    array([1., 1.])
    """
    on_device(device)
    return as_array(np.from_dlpack(x, copy=copy))


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[AnyArray]:
    """numpy.meshgrid: results are as large as the grid.

    Shapes: one dimension for each array. Types: those of the arrays. Fill: stays. Cost: all entries as often as the
    grid needs.

    >>> [g.shape for g in xp.meshgrid(xp.arange(2), xp.arange(3))]
    [(3, 2), (3, 2)]
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f'expected "xy" or "ij" as indexing, but it is {indexing!r}')
    places = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        places[:2] = [1, 0]
    lines = [array_operand(a) for a in arrays]
    return broadcast_arrays(*[_line(a, k, len(arrays)) for a, k in zip(lines, places, strict=True)])


def _line(x: Any, along: int, ndim: int) -> AnyArray:
    for d in range(ndim):
        if d != along:
            x = expand_dims(x, axis=d)
    return x


def tril(x: Any, /, *, k: int = 0) -> AnyArray:
    """What is above the k-th diagonal becomes 0, and so does the fill.

    Shapes: those of `x`, two dimensions or more. Types: any, which stay. Fill: 0. Cost: a pass over what is stored;
    all elements where the fill is not 0.

    >>> xp.tril(A).to_numpy()
    array([[0., 0.],
           [1., 0.]])
    """
    return as_array(np.tril(array_operand(x), k))


def triu(x: Any, /, *, k: int = 0) -> AnyArray:
    """What is below the k-th diagonal becomes 0, and so does the fill.

    Shapes: those of `x`, two dimensions or more. Types: any, which stay. Fill: 0. Cost: a pass over what is stored;
    all elements where the fill is not 0.

    >>> xp.triu(A).to_numpy()
    array([[0. , 0.5],
           [0. , 0. ]])
    """
    return as_array(np.triu(array_operand(x), k))

"""numpy's functions of arrays, where they are called with a tensor: `np.sum(T, axis=0)`, `np.transpose(T)`.

Those that are not here would need a dense array, and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from spfgen.errors import ConversionError, DataError
from spfgen.run.arrays import eager, functions
from spfgen.run.arrays.made import is_full, of_coordinates
from spfgen.run.operators import Operators
from spfgen.run.tensor import Tensor

REDUCTIONS = "sum prod max min amax amin any all mean argmax argmin".split()
SHAPES = """transpose reshape flip roll pad tril triu diag expand_dims squeeze broadcast_to tile repeat concatenate
    stack vstack hstack block kron""".split()
_NONE = np._NoValue


def called(function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """What numpy's function gives. Raises ConversionError, a TypeError, for those that need a dense array."""
    own = _own().get(function)
    if own is None:
        name = f"{function.__module__}.{function.__name__}"
        raise ConversionError(
            f"expected numpy arrays for {name}, but there is a tensor, which is not made dense unasked",
            None,
            ("write tensor.to_numpy() if a dense array is wanted",),
        )
    return own(*arguments, **{n: v for n, v in options.items() if v is not _NONE})


@cache
def _own() -> dict[Any, Callable[..., Any]]:
    found: dict[Any, Callable[..., Any]] = {getattr(np, n): _reduction(n) for n in REDUCTIONS}
    found |= {
        np.dot: lambda a, b, out=None: eager.applied(np.matmul, (a, b), {} if out is None else {"out": (out,)}),
        np.shape: lambda a: a.shape,
        np.ndim: lambda a: a.ndim,
        np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
        np.count_nonzero: _count_nonzero,
        np.nonzero: eager.nonzero,
        np.real: lambda a: a.real,
        np.imag: lambda a: a.imag,
        np.where: eager.where,
        np.einsum: _einsum,
        np.tensordot: _tensordot,
        np.inner: lambda a, b: a * b if not np.ndim(a) or not np.ndim(b) else _tensordot(a, b, (-1, -1)),
        np.outer: lambda a, b: _tensordot(functions.reshape(a, -1), functions.reshape(b, -1), 0),
        np.linalg.norm: _norm,
        np.trace: lambda a, offset=0: a.trace(offset),
        np.diagonal: functions.diagonal,
        np.ravel: lambda a, order="C": functions.reshape(a, -1, order),
        np.swapaxes: lambda a, axis1, axis2: a.transpose(_swapped(a.ndim, axis1, axis2)),
        np.round: lambda a, decimals=0: eager.rounded(a, decimals),
        np.copy: lambda a, **_: a.copy(),
        np.isclose: eager.near,
        np.clip: lambda a, a_min=None, a_max=None, **more: eager.clipped(a, a_min, a_max, **more),
        np.iscomplexobj: lambda x: x.dtype.kind == "c",
        np.array_equal: lambda a, b, equal_nan=False: eager.equal(a, b, equal_nan),
        np.allclose: lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: bool(
            eager.near(a, b, rtol, atol, equal_nan).all()
        ),
    }
    return found | {getattr(np, n): getattr(functions, n) for n in SHAPES}


def _reduction(name: str) -> Callable[..., Any]:
    method = {"amax": "max", "amin": "min"}.get(name, name)

    def reduction(a: Operators, axis: Any = None, *more: Any, out: Any = None, **options: Any) -> Any:
        if more:
            options["dtype"] = more[0]
        result = getattr(a, method)(axis, **{n: v for n, v in options.items() if v is not None})
        if out is None:
            return result
        np.copyto(out, result, casting="same_kind")
        return out

    return reduction


def _einsum(*arguments: Any, **options: Any) -> Any:
    from spfgen.run.calls.einsum import einsum

    return einsum(arguments, **options)


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """numpy.tensordot. Of two sparse tensors the result is sparse."""
    from spfgen.run.calls.einsum import LETTERS, einsum

    first, second = np.ndim(a), np.ndim(b)
    if isinstance(axes, int):
        axes = (range(first - axes, first), range(axes))
    own, other = (normalize_axis_tuple(k, n) for k, n in zip(axes, (first, second), strict=True))
    summed = [[np.shape(t)[k] for k in some] for t, some in ((a, own), (b, other))]
    if summed[0] != summed[1]:
        raise DataError(f"expected equal extents to sum over, but they are {summed[0]} and {summed[1]}")
    left, right = LETTERS[:first], [*LETTERS[first : first + second]]
    for k, axis in zip(own, other, strict=True):
        right[axis] = left[k]
    free = [x for k, x in enumerate(left) if k not in own]
    free += [x for x in right if x not in left]
    sparse = all(isinstance(t, Tensor) and not is_full(t.layout) and t.fill_value == 0 for t in (a, b))
    layout = of_coordinates(len(free)) if sparse and free else None
    return einsum((f"{left},{''.join(right)}->{''.join(free)}", a, b), layout=layout)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """numpy.linalg.norm of a vector, and those norms of a matrix that need no factors."""
    absolute = abs(x if x.dtype.kind in "fc" else x.astype(np.float64))
    match ord:
        case None | "fro":
            return np.sqrt((absolute**2).sum(axis, keepdims=keepdims))
        case 1 if x.ndim == 2 and axis is None and not keepdims:
            return absolute.sum(axis=0).max()
        case np.inf if x.ndim == 2 and axis is None and not keepdims:
            return absolute.sum(axis=1).max()
        case 1 if x.ndim == 1 or axis is not None:
            return absolute.sum(axis, keepdims=keepdims)
        case np.inf if x.ndim == 1 or axis is not None:
            return absolute.max(axis, keepdims=keepdims)
    raise ConversionError(
        f"expected a norm of a tensor: None, 1 or inf, but it is {ord!r}",
        None,
        ("write tensor.to_numpy() if a dense array is wanted",),
    )


def _swapped(ndim: int, first: int, second: int) -> tuple[int, ...]:
    order = list(range(ndim))
    order[first], order[second] = order[second], order[first]
    return tuple(order)


def _count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return (a != 0).sum(axis, keepdims=keepdims)

"""numpy's functions of arrays, where they are called with a tensor: `np.sum(T, axis=0)`, `np.transpose(T)`.

Those that are not here would need a dense array, and say so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from inspect import BoundArguments, Parameter
from math import prod
from typing import Any

import numpy as np

from spfgen.errors import ArgumentError, ConversionError, DataError
from spfgen.run.arrays import eager, functions
from spfgen.run.arrays.entries import Entries
from spfgen.run.arrays.made import is_full, of_coordinates, tensor_from
from spfgen.run.arrays.reductions import axes_of, axis_of
from spfgen.run.arrays.words import in_words
from spfgen.run.operators import Operators
from spfgen.run.tensor import Tensor

REDUCTIONS = "sum prod max min amax amin any all mean argmax argmin".split()
SHAPES = """transpose reshape flip roll pad tril triu diag expand_dims squeeze broadcast_to tile repeat concatenate
    stack vstack hstack block kron""".split()
TYPES = "result_type can_cast min_scalar_type common_type iscomplexobj isrealobj".split()
"""These look at types alone."""
_NONE = np._NoValue


def called(function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """What numpy's function gives. Raises ConversionError, a TypeError, for those that need a dense array, and for
    arguments that are not done."""
    if is_of_types(function):
        return function(*map(_of_type, arguments), **{n: _of_type(v) for n, v in options.items()})
    implementation = _own().get(function)
    if implementation is None:
        raise ConversionError(
            f"expected numpy arrays for {_name(function)}, but there is a tensor, which is made dense only on request",
            None,
            ("write tensor.to_numpy() if a dense array is wanted",),
        )
    with in_words(function.__name__):
        given, out = _taken(function, implementation, arguments, options)
        result = implementation(*given.args, **given.kwargs)
    return result if out is None else eager.written(result, out)


def is_of_types(function: Callable[..., Any]) -> bool:
    """Whether it looks at the types of its arguments alone."""
    return function in {getattr(np, n) for n in TYPES}


def needs_no_values(function: Callable[..., Any]) -> bool:
    """Whether it looks at the types or the shape of its arguments alone."""
    return is_of_types(function) or function in (np.shape, np.ndim, np.size)


def _of_type(value: Any) -> Any:
    """An array without elements of the type of a tensor."""
    return np.empty((0,) * len(value.shape), value.dtype) if isinstance(value, Operators) else value


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__name__}"


_IN_C: Mapping[str, Callable[..., Any]] = {
    "where": lambda condition, x=None, y=None, /: None,
    "concatenate": lambda arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind": None,
    "dot": lambda a, b, out=None: None,
    "inner": lambda a, b, /: None,
    "empty_like": lambda prototype, /, dtype=None, order="K", subok=True, shape=None, *, device=None: None,
    "array": lambda object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0, like=None: None,  # noqa: A006
    "asarray": lambda a, dtype=None, order=None, *, device=None, copy=None, like=None: None,
    "asanyarray": lambda a, dtype=None, order=None, *, device=None, copy=None, like=None: None,
}
"""The parameters of those in C, which numpy before 2.4 does not tell."""


@cache
def signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:
        return inspect.signature(_IN_C[function.__name__])


def _taken(
    function: Callable[..., Any],
    implementation: Callable[..., Any],
    arguments: Sequence[Any],
    options: Mapping[str, Any],
) -> tuple[BoundArguments, Any]:
    """The arguments for what stands for a function of numpy, and its `out`. What is left out or has numpy's default is
    not passed. Raises ConversionError for what is not taken."""
    theirs, takes = signature(function), signature(implementation).parameters
    bound = theirs.bind(*arguments, **options)
    bound.arguments.update(bound.arguments.pop("kwargs", {}))
    out = None if "out" in takes else bound.arguments.pop("out", None)
    if any(p.kind is Parameter.VAR_POSITIONAL for p in theirs.parameters.values()):
        given = dict(bound.kwargs)
        _refuse(function, [n for n in given if n not in takes])
        return signature(implementation).bind(*bound.args, **given), out
    names = [n for n, p in theirs.parameters.items() if p.kind is not Parameter.VAR_KEYWORD]
    for name, value in [*bound.arguments.items()]:
        default = theirs.parameters[name].default if name in theirs.parameters else Parameter.empty
        if value is _NONE or (name not in takes and _is_default(value, default)):
            del bound.arguments[name]
    first = [n for n, p in takes.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    renamed = dict(zip(names, first, strict=False))
    given = {renamed.get(n, n): v for n, v in bound.arguments.items()}
    _refuse(function, [n for n in given if n not in takes])
    return signature(implementation).bind(**given), out


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, int | str) and type(value) is type(default) and value == default)


def _refuse(function: Callable[..., Any], names: Sequence[str]) -> None:
    if names:
        raise ConversionError(
            f"expected {_name(function)} of a tensor without `{names[0]}`, but it is given",
            None,
            ("write tensor.to_numpy() if a dense array is wanted",),
        )


@cache
def _own() -> dict[Any, Callable[..., Any]]:
    implementations: dict[Any, Callable[..., Any]] = {getattr(np, n): _reduction(n) for n in REDUCTIONS}
    linalg = np.linalg
    implementations |= {
        np.dot: _dot,
        np.shape: lambda a: a.shape,
        np.ndim: lambda a: a.ndim,
        np.size: _size,
        np.count_nonzero: _count_nonzero,
        np.nansum: _of_numbers(np.sum, 0),
        np.nanprod: _of_numbers(np.prod, 1),
        np.nanmax: _of_most(np.fmax),
        np.nanmin: _of_most(np.fmin),
        np.nanmean: _nanmean,
        np.var: _spread("var"),
        np.std: _spread("std"),
        np.nonzero: eager.nonzero,
        np.argwhere: lambda a: np.transpose(eager.nonzero(a)),
        np.real: lambda a: a.real,
        np.imag: lambda a: a.imag,
        np.where: lambda condition, x=None, y=None: eager.where(condition, *(c for c in (x, y) if c is not None)),
        np.einsum: _einsum,
        np.tensordot: _tensordot,
        np.inner: lambda a, b: a * b if not np.ndim(a) or not np.ndim(b) else _tensordot(a, b, (-1, -1)),
        np.outer: _outer,
        np.trace: _trace,
        np.diagonal: functions.diagonal,
        np.ravel: lambda a, order="C": functions.reshape(a, -1, order),
        np.swapaxes: lambda a, axis1, axis2: a.transpose(_swapped(a.ndim, axis1, axis2)),
        np.round: lambda a, decimals=0: eager.rounded(a, decimals),
        np.copy: lambda a, order="K", subok=False: a.copy(),
        np.take: _take,
        np.array: _like,
        np.asarray: _like,
        np.asanyarray: _like,
        np.full_like: _full_like,
        np.zeros_like: lambda a, dtype=None, order="K", shape=None: _full_like(a, 0, dtype, order, shape),
        np.empty_like: lambda a, dtype=None, order="K", shape=None: _full_like(a, 0, dtype, order, shape),
        np.ones_like: lambda a, dtype=None, order="K", shape=None: _full_like(a, 1, dtype, order, shape),
        np.isclose: eager.near,
        np.clip: eager.clipped,
        np.array_equal: lambda a1, a2, equal_nan=False: eager.equal(a1, a2, equal_nan),
        np.allclose: lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: bool(
            eager.near(a, b, rtol, atol, equal_nan).all()
        ),
        linalg.norm: _norm,
        linalg.vector_norm: _vector_norm,
        linalg.matrix_norm: lambda x, keepdims=False, ord="fro": _norm(x, ord, (-2, -1), keepdims),  # noqa: A006
        linalg.matmul: lambda x1, x2: eager.applied(np.matmul, (x1, x2), {}),
        linalg.matrix_power: _matrix_power,
        linalg.matrix_transpose: lambda x: x.transpose(_swapped(x.ndim, -2, -1)),
        linalg.tensordot: _tensordot,
        linalg.outer: _outer,
        linalg.trace: lambda x, offset=0, dtype=None: _trace(x, offset, -2, -1, dtype),
        linalg.diagonal: lambda x, offset=0: functions.diagonal(x, offset, -2, -1),
        linalg.vecdot: lambda x1, x2: eager.applied(np.vecdot, (x1, x2), {}),
    }
    return implementations | {getattr(np, n): getattr(functions, n) for n in SHAPES}


def _reduction(name: str) -> Callable[..., Any]:
    method = {"amax": "max", "amin": "min"}.get(name, name)

    def reduction(
        a: Operators[Any, Any],
        axis: Any = None,
        dtype: Any = None,
        keepdims: Any = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        more = {n: v for n, v in (("dtype", dtype), ("initial", initial)) if v is not None}
        if where is not True:
            more["where"] = where
        return getattr(a, method)(axis, keepdims=bool(keepdims), **more)

    return reduction


def _spread(name: str) -> Callable[..., Any]:
    def spread(
        a: Operators[Any, Any],
        axis: Any = None,
        dtype: Any = None,
        ddof: float = 0,
        keepdims: Any = False,
        correction: Any = None,
    ) -> Any:
        less = ddof if correction is None else correction
        return getattr(a, name)(axis, dtype, ddof=less, keepdims=bool(keepdims))

    return spread


def _of_numbers(function: Callable[..., Any], instead: int) -> Callable[..., Any]:
    """A reduction in which nan counts as the number that leaves it as it is."""

    def reduction(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
        numbers = eager.where(np.isnan(a), a.dtype.type(instead), a) if a.dtype.kind in "fc" else a
        return function(numbers, axis=axis, dtype=dtype, keepdims=bool(keepdims))

    return reduction


def _of_most(function: np.ufunc) -> Callable[..., Any]:
    """numpy.nanmax and numpy.nanmin: nan only where there is nothing else."""

    def reduction(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
        if a.dtype.kind == "c":
            raise ConversionError("expected real numbers for the largest that is not nan, but they are complex")
        return function.reduce(a, axis=axis, keepdims=bool(keepdims))

    return reduction


def _nanmean(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
    """numpy.nanmean: the sum of what is not nan over how many that are."""
    if a.dtype.kind not in "fc":
        return np.mean(a, axis=axis, dtype=dtype, keepdims=bool(keepdims))
    total = np.nansum(a, axis=axis, dtype=dtype, keepdims=bool(keepdims))
    count = _size(a, axis) - np.sum(np.isnan(a), axis=axis, keepdims=bool(keepdims))
    with np.errstate(all="ignore"):
        return np.asarray(np.true_divide(total, count)).astype(np.asarray(total).dtype)[()]


def _like(object: Any, dtype: Any = None) -> Any:  # noqa: A002
    """numpy.asarray(..., like=tensor), which makes no tensor of what is none: signs and subscripts take arrays."""
    if not isinstance(object, Tensor):
        return np.asarray(object, dtype)
    return object if dtype is None else object.astype(dtype)


def _take(a: Any, indices: Any, axis: Any = None) -> Any:
    """numpy.take: a subscript in one dimension."""
    if axis is None:
        return functions.reshape(a, -1)[indices]
    return a[(*[slice(None)] * axis_of(axis, a.ndim), indices)]


def _full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", shape: Any = None) -> Any:
    """numpy.full_like: a tensor that stores nothing, in the layout of `a` where it can, with that fill value. It has no
    `order`."""
    kind = np.dtype(dtype or a.dtype)
    extents = a.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    nowhere = tuple(np.zeros(0, np.int64) for _ in extents)
    entries = Entries(extents, nowhere, np.zeros(0, kind), np.asarray(fill_value).astype(kind)[()])
    return tensor_from(entries, eager.layouts_of([a]))


def _size(a: Any, axis: Any = None) -> int:
    return prod(a.shape[d] for d in axes_of(axis, a.ndim))


def _dot(a: Any, b: Any) -> Any:
    """numpy.dot: the last dimension with the last but one."""
    if not np.ndim(a) or not np.ndim(b):
        return eager.applied(np.multiply, (a, b), {})
    if np.ndim(a) <= 2 >= np.ndim(b):
        return eager.applied(np.matmul, (a, b), {})
    return _tensordot(a, b, (-1, -2 if np.ndim(b) > 1 else -1))


def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    return functions.diagonal(a, offset, axis1, axis2).sum(-1, dtype=dtype)


def _outer(a: Any, b: Any) -> Any:
    return _tensordot(functions.reshape(a, -1), functions.reshape(b, -1), 0)


def _matrix_power(a: Any, n: Any) -> Any:
    """numpy.linalg.matrix_power, of exponents from 1 on."""
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ArgumentError(f"expected a square matrix, but the shape is {a.shape}")
    if not isinstance(n, int) or n < 1:
        message = f"expected an exponent of a matrix from 1 on, but it is {n!r}"
        raise ConversionError(message, None, ("write tensor.to_numpy() if a dense array is wanted",))
    half = a if n < 2 else _matrix_power(a, n // 2)
    return a if n < 2 else half @ half @ a if n % 2 else half @ half


def _einsum(*operands: Any, out: Any = None, dtype: Any = None, optimize: Any = False) -> Any:
    from spfgen.run.arrays.einsum import einsum

    return einsum(operands, out=out, dtype=dtype, optimize=optimize)


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """numpy.tensordot. Of two sparse tensors the result is sparse."""
    from spfgen.run.arrays.einsum import LETTERS, einsum

    first, second = np.ndim(a), np.ndim(b)
    if isinstance(axes, int):
        if not 0 <= axes <= min(first, second):
            raise ArgumentError(f"expected from 0 to {min(first, second)} axes to sum over, but it is {axes}")
        axes = (range(first - axes, first), range(axes))
    left_axes, right_axes = (
        axes_of(tuple(k) if isinstance(k, Iterable) else k, n) for k, n in zip(axes, (first, second), strict=True)
    )
    if len(left_axes) != len(right_axes):
        raise ArgumentError(f"expected as many axes of the one as of the other, but they are {axes!r}")
    summed = [[np.shape(t)[k] for k in some] for t, some in ((a, left_axes), (b, right_axes))]
    if summed[0] != summed[1]:
        raise DataError(f"expected equal extents to sum over, but they are {summed[0]} and {summed[1]}")
    left, right = LETTERS[:first], [*LETTERS[first : first + second]]
    for k, axis in zip(left_axes, right_axes, strict=True):
        right[axis] = left[k]
    free = [x for k, x in enumerate(left) if k not in left_axes]
    free += [x for x in right if x not in left]
    sparse = all(isinstance(t, Tensor) and not is_full(t.layout) and t.fill_value == 0 for t in (a, b))
    layout = of_coordinates(len(free)) if sparse and free else None
    return einsum((f"{left},{''.join(right)}->{''.join(free)}", a, b), layout=layout)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """numpy.linalg.norm of a vector, and those norms of a matrix that need no factors."""
    axes = axes_of(axis, x.ndim)
    is_matrix = len(axes) == 2 and (axis is not None or x.ndim == 2)
    if ord is None or not is_matrix:
        if ord is not None and len(axes) != 1:
            raise ArgumentError(f"expected one axis, or two, for a norm, but they are {axes}")
        return _vector_norm(x, axes, keepdims, 2 if ord is None else ord)
    absolute = _absolute(x)
    match ord:
        case "fro":
            return _vector_norm(x, axes, keepdims, 2)
        case int() | float() if abs(ord) in (1, np.inf):
            first, second = axes if abs(ord) == 1 else axes[::-1]  # sums over the first, the most along the second
            sums = np.asarray(absolute.sum(first, keepdims=True))
            most = (sums.max if ord > 0 else sums.min)(axis=second, keepdims=True)
            return most if keepdims else np.squeeze(most, axes)[()]
    raise _no_norm(ord, "None, fro, 1, -1, inf or -inf")


def _vector_norm(x: Any, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:  # noqa: A002
    """numpy.linalg.vector_norm."""
    absolute = _absolute(x)
    match ord:
        case 0:
            return (x != 0).sum(axis, keepdims=keepdims).astype(absolute.dtype)
        case np.inf:
            return absolute.max(axis, keepdims=keepdims)
        case 1:
            return absolute.sum(axis, keepdims=keepdims)
        case 2:
            return np.sqrt((absolute**2).sum(axis, keepdims=keepdims))
        case int() | float() if ord > 0:
            return (absolute**ord).sum(axis, keepdims=keepdims) ** absolute.dtype.type(1 / ord)
    raise _no_norm(ord, "a number that is not negative, or inf")


def _absolute(x: Any) -> Any:
    return abs(x if x.dtype.kind in "fc" else x.astype(np.float64))


def _no_norm(ord: Any, known: str) -> ConversionError:  # noqa: A002
    hint = "write tensor.to_numpy() if a dense array is wanted"
    return ConversionError(f"expected a norm of a tensor: {known}; but it is {ord!r}", None, (hint,))


def _swapped(ndim: int, first: int, second: int) -> tuple[int, ...]:
    order = list(range(ndim))
    first, second = axis_of(first, ndim), axis_of(second, ndim)
    order[first], order[second] = order[second], order[first]
    return tuple(order)


def _count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return (a != 0).sum(axis, keepdims=keepdims)

"""Operators, functions and subscripts on tensors, computed at once.

A function of one tensor and numbers changes its values and keeps its pattern. Products with a dense array, and sums of
many entries, are kernels of index notation; the rest goes by entries in numpy: work and memory follow from what is
stored, unless a dense result is larger.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.errors import ArgumentError, ConversionError, DataError, Unsupported, a_type, said
from spfgen.lang.fills import plain_fill
from spfgen.layout.nodes import Layout
from spfgen.public import check_import
from spfgen.run.arrays import ordered, reductions
from spfgen.run.arrays.contract import SHARE, all_of, contracted, product_labels, with_dense
from spfgen.run.arrays.elementwise import broadcast_shape, chosen, decided, elementwise, in_single, needed, single
from spfgen.run.arrays.entries import Entries, entries_of, in_c, own_entries, shape_of
from spfgen.run.arrays.graph import Call, Leaf, Product, Reduce
from spfgen.run.arrays.indexing import transpose
from spfgen.run.arrays.made import is_full, tensor_from
from spfgen.run.arrays.reductions import permutation
from spfgen.run.arrays.reversed import reversed_layout
from spfgen.run.arrays.segments import as_list, as_rows, segments_of
from spfgen.run.arrays.tree_kernel import by_kernel
from spfgen.run.arrays.words import in_words
from spfgen.run.calls.bind import converted, is_number, is_pydata, is_scipy
from spfgen.run.calls.call_cache import NOTHING, operation_called, operation_key, share_call
from spfgen.run.calls.detect_layout import NUMPY, tensor_of
from spfgen.run.calls.layout_signature import refilled
from spfgen.run.calls.validation_cache import trust
from spfgen.run.conversion import pads
from spfgen.run.coordinates import Coordinates
from spfgen.run.dlpack import is_elsewhere, own
from spfgen.run.tensor import DTYPES, Array, Tensor, check_unchanged, plain_array

_NONE = object()
_ARRAYS = (Tensor, np.ndarray)

ENOUGH = 20_000
"""Sums of fewer stored elements are not worth a compilation."""

OF_PLACES = ("argmax", "argmin", "var", "std")
"""Reductions that ask for the coordinates of all entries."""

OF_KERNELS = ("add", "maximum", "minimum")
"""Reductions along an axis that kernels do faster than numpy, and round as it does."""

LATER = 16
"""numpy reduces along an axis in two to five times what a kernel takes, other operations in far more: kernels for that
are compiled after so many times the numbers."""

MUCH = 1_000_000
"""Dense copies of fewer elements are made without a thought."""


def is_operand(value: object) -> bool:
    """Whether it is a tensor, an array, a number or a list of numbers."""
    if type(value) in _ARRAYS:
        return True
    if isinstance(value, Tensor | np.ndarray | np.generic) or is_number(value) or is_scipy(value) or is_pydata(value):
        return True
    if is_elsewhere(value):
        return True
    return isinstance(value, list | tuple) and plain_array(value, "the operand").dtype.kind in "biufc"


def applied(function: np.ufunc, operands: Sequence[object], options: dict[str, Any], exact: bool = False) -> Any:
    """numpy's function of tensors, arrays and numbers; the parts of its result, where it has several. Where it is
    `exact`, what is not stored is a number as any other (see `elementwise`)."""
    if len(operands) == 2 and not options and not exact and (found := _known(function, *operands)) is not NOTHING:
        return found
    out = options.pop("out", None)
    given = [operand(o) for o in operands]
    if function.signature is not None:
        results: Any = _of_vectors(function, given, options)
    elif options.get("where", True) is not True:
        raise ConversionError(
            f"expected numpy.{function.__name__} without `where`, but it is given",
            None,
            ("write numpy.where(condition, a, b)",),
        )
    else:
        call = in_single(function, options)
        with in_words(function.__name__):
            parts = [_mapped(function, given, _part(call, k, function.nout), exact) for k in range(function.nout)]
        results = parts[0] if function.nout == 1 else tuple(parts)
    return results if out is None else _written(results, out, options.get("casting", "same_kind"))


def _known(function: np.ufunc, left: Any, right: Any) -> Any:
    """By a kernel that is remembered for these layouts and types; NOTHING where there is none."""
    if type(left) not in _ARRAYS or type(right) not in _ARRAYS:
        return NOTHING
    return operation_called(function, _named(left, right))


def _named(left: Any, right: Any) -> dict[str, Any]:
    """Two operands by the names that they have in `operation_key`."""
    return {"A": left} if left is right else {"A": left, "B": right}


def _of_vectors(function: np.ufunc, operands: Sequence[Any], options: dict[str, Any]) -> Any:
    """numpy's functions of vectors and matrices."""
    known = _of_vectors_by_function()
    if function not in known:
        raise ConversionError(f"expected an element-wise function, but numpy.{function.__name__} is not one")
    refused = next((n for n, v in options.items() if n != "casting" and v is not None), None)
    if refused is not None:
        raise ConversionError(f"expected numpy.{function.__name__} of a tensor without `{refused}`, but it is given")
    return known[function](*operands)


_OF_VECTORS: dict[str, Callable[[Any, Any], Any]] = {
    "vecdot": lambda a, b: reduced(applied(np.multiply, (applied(np.conjugate, (a,), {}), b), {}), "add", -1, False),
    "matvec": lambda a, b: product(a, operand(b)[..., None])[..., 0],
    "vecmat": lambda a, b: product(applied(np.conjugate, (a,), {})[..., None, :], operand(b))[..., 0, :],
}


@lru_cache(maxsize=1)
def _of_vectors_by_function() -> dict[Any, Callable[[Any, Any], Any]]:
    return {np.matmul: product, **{getattr(np, n, None): f for n, f in _OF_VECTORS.items()}}


def _stored(value: Any) -> int:
    return value.nse if isinstance(value, Tensor) else int(np.size(value))


def ufunc_called(function: np.ufunc, method: str, operands: Sequence[Any], options: dict[str, Any]) -> Any:
    """What numpy asks of a tensor when one of its universal functions is called with it."""
    match method:
        case "__call__":
            other = next((o for o in operands if not is_operand(o)), _NONE)
            if other is _NONE:
                return applied(function, operands, options)
            check_import(other)
            if hasattr(other, "__array_ufunc__"):
                return NotImplemented
            raise ConversionError(f"expected arrays for numpy.{function.__name__}, but there is {said(other)}")
        case "outer" if len(operands) == 2:
            first, second = (o if isinstance(o, Tensor) else np.asarray(o) for o in operands)
            return applied(function, (first[(..., *[None] * second.ndim)], second), options)
        case "reduce" if isinstance(operands[0], Tensor):
            (out,) = options.pop("out", (None,))
            axis, keepdims = options.pop("axis", 0), options.pop("keepdims", False)
            return reduced(operands[0], function.__name__, axis, keepdims, out=out, **options)
    raise ConversionError(
        f"expected an array for numpy.{function.__name__}.{method}, but there is a tensor",
        None,
        ("write tensor.to_numpy() if a dense array is wanted",),
    )


def _part(call: Callable[..., Any], k: int, count: int) -> Callable[..., Any]:
    return call if count == 1 else lambda *values: call(*values)[k]


def operand(value: Any) -> Any:
    """A tensor, an array with dimensions, or a number."""
    if isinstance(value, Tensor):
        return value
    if type(value) is np.ndarray and value.ndim and value.dtype in DTYPES:
        return value
    if is_elsewhere(value):
        value = own(value)
    if is_scipy(value) or is_pydata(value) or isinstance(value, Coordinates):
        return tensor_of(value, "the operand")
    if is_number(value):
        return value
    check_import(value)
    array = plain_array(value, "the operand")
    if array.dtype.kind not in "biufc":
        raise ConversionError(f"expected numbers as an operand, but they are {array.dtype}")
    array, _ = in_c(array, 0)
    return array if array.ndim else array[()]


def _written(results_of_function: Any, out: tuple[Any, ...], casting: Any = "same_kind") -> Any:
    """Into the arrays of numpy's `out`."""
    results = results_of_function if isinstance(results_of_function, tuple) else (results_of_function,)
    for result, target in zip(results, out, strict=True):
        if target is not None:
            written(result, target, casting)
    return results_of_function if all(t is None for t in out) else out[0] if len(out) == 1 else out


def written(result: Any, target: Any, casting: Any = "same_kind") -> Any:
    """`target`, which is numpy's `out`, with the result in it. Raises ConversionError, ArgumentError."""
    if not isinstance(target, np.ndarray):
        raise ConversionError(f"expected a numpy array as `out`, but this is {a_type(target)}")
    values = dense_of(result) if isinstance(result, Tensor) else np.asarray(result)
    if target.shape != values.shape:
        raise ArgumentError(f"expected `out` with the shape {values.shape}, but it has {target.shape}")
    if not np.can_cast(values.dtype, target.dtype, casting):
        raise ConversionError(f"expected an `out` that takes {values.dtype}, but it is {target.dtype}")
    if not target.flags.writeable:
        raise ArgumentError("expected `out` to be writeable, but it is read-only")
    np.copyto(target, values, casting=casting)
    return target


# --- functions of single values -----------------------------------------------------------------------------------


def _mapped(function: np.ufunc, operands: Sequence[Any], call: Callable[..., Any], exact: bool) -> Any:
    tensors = [o for o in operands if isinstance(o, Tensor)]
    if len(tensors) == 1 and not any(isinstance(o, np.ndarray) for o in operands):
        (place,) = [k for k, o in enumerate(operands) if isinstance(o, Tensor)]
        mapped = with_values(
            tensors[0],
            lambda values: call(*[values if k == place else o for k, o in enumerate(operands)]),
            decided(function, operands, exact).get(place),
        )
        if mapped is not None:
            return mapped
    mapped = _merged(function, operands, call, exact)
    if mapped is not None:
        return mapped
    result = elementwise(function, [entries_of(o) if isinstance(o, Tensor) else o for o in operands], call, exact)
    if not isinstance(result, Entries):
        return in_c(result, 0)[0]
    return tensor_from(result, layouts_of(operands, function))


def _merged(function: np.ufunc, operands: Sequence[Any], call: Callable[..., Any], exact: bool) -> Tensor | None:
    """Of two tensors in one layout whose entries lie in order; None of others."""
    if len(operands) != 2 or not all(isinstance(o, Tensor) for o in operands):
        return None
    by_small: Tensor | None = _by_small_kernel(function, operands) if not exact else None
    if by_small is not None:
        return by_small
    operands = _in_one_layout(operands, function)
    deciding = decided(function, operands, exact)
    if deciding:
        fill = next(iter(deciding.values()))
    else:
        with np.errstate(all="ignore"):
            fill = np.asarray(call(*[o.fill_value for o in operands]))[()]
    merged = ordered.merged(operands[0], operands[1], needed(deciding))
    if merged is None:
        return None
    return merged.with_values(*in_c(np.asarray(call(*merged.values)), fill))


def _by_small_kernel(function: np.ufunc, operands: Sequence[Tensor]) -> Any:
    """Of few entries, once there is a kernel; None for others: merges take less time where there are many."""
    first, second = operands
    if first.shape != second.shape or _stored(first) + _stored(second) >= ENOUGH:
        return None
    left = Leaf(first)
    node = Call(function, (left, left if first is second else Leaf(second)))
    key = operation_key(function, _named(first, second))
    return by_kernel(node, sparse=True, small=True, times=1 / LATER, key=key)


def _in_one_layout(operands: Sequence[Tensor], function: np.ufunc) -> Sequence[Tensor]:
    """Two tensors of one shape in the layout of the result, where entries lie in order there: to convert takes less
    time than to go by coordinates."""
    first, second = operands
    if first.layout.name == second.layout.name or first.shape != second.shape:
        return operands
    layout = layouts_of(operands, function)[0]
    if not ordered.rises(layout):
        return operands
    if any(t.nse < ENOUGH or t.layout.is_pattern or is_full(t.layout) for t in operands):
        return operands
    with suppress(DataError, Unsupported):
        return [t if t.layout.name == layout.name else converted(refilled(layout, t.layout.fill), t) for t in operands]
    return operands


def layouts_of(operands: Sequence[Any], function: np.ufunc | None = None) -> list[Layout]:
    """The layouts for a result: first that of an operand whose fill decides the function alone, which is then only
    where that operand is; else that of a dense operand, because it is everywhere."""
    tensors = [(k, o) for k, o in enumerate(operands) if isinstance(o, Tensor)]
    deciding = decided(function, operands)
    decide = [not is_full(t.layout) and k in deciding for k, t in tensors]
    in_turn = sorted(zip(tensors, decide, strict=True), key=lambda one: (not one[1], not is_full(one[0][1].layout)))
    return [t.layout for (_, t), _ in in_turn]


def with_values(tensor: Tensor, call: Callable[[Any], Any], fill: Any = None) -> Tensor | None:
    """The same pattern with the values, and without `fill` the fill, that a function gives. None where a coordinate may
    have several entries (a function of their sum is not the sum of its values), and where a layout does not store the
    values as they are."""
    from spfgen.layout.proofs import stored_once

    if tensor.layout.value_transforms or tensor.layout.is_pattern or not stored_once(tensor.layout.unfilled).proved:
        return None
    check_unchanged(tensor)
    if fill is None:
        with np.errstate(all="ignore"):
            fill = np.asarray(call(tensor.fill_value))[()]
    names = [v.name for v in tensor.layout.values]
    values, number = dict[str, Array](), fill
    for name in names:
        computed = np.asarray(call(tensor.arrays[name]))
        values[name], number = in_c(computed, fill)
    indexes = {a.name: _kept(tensor.arrays[a.name]) for a in tensor.layout.indexes}
    layout = refilled(tensor.layout, plain_fill(number))
    arrays = {n: values[n] if n in values else indexes[n] for n in tensor.layout.arrays}
    trust(layout, dict(tensor.sizes), arrays)
    return Tensor(layout, dict(tensor.sizes), arrays)


def own_values(tensor: Tensor) -> Array | None:
    """All values that are stored, in the order of the array, where each of its places stands for one coordinate and
    no other place does; else None."""
    known = check_unchanged(tensor).known
    if "all stand" not in known:  # index arrays do not change: once for a tensor
        known["all stand"] = _all_stand(tensor)
    return tensor.arrays[tensor.layout.values[0].name].reshape(-1) if known["all stand"] else None


def _all_stand(tensor: Tensor) -> bool:
    from spfgen.layout.proofs import stored_once

    layout = tensor.layout
    if (
        layout.value_transforms
        or layout.is_pattern
        or len(layout.values) != 1
        or not stored_once(layout.unfilled).proved
    ):
        return False
    return not pads(layout) and len(tensor.to_coo().values) == tensor.arrays[layout.values[0].name].size


def _kept(array: Array) -> Array:
    """An index array that two tensors have: nobody may write to it."""
    if not array.flags.writeable:
        return array
    copied = array.copy()
    copied.flags.writeable = False
    return copied


def cast(tensor: Tensor, dtype: Any) -> Tensor:
    """numpy's astype."""
    with in_words("dtype"):
        kind = np.dtype(dtype)
    if kind not in DTYPES:
        names = ", ".join(sorted(d.name for d in DTYPES))
        raise DataError(f"expected a dtype that kernels have, but it is {kind}", None, (f"it is one of {names}",))
    in_pattern = with_values(tensor, lambda values: values.astype(kind))
    if in_pattern is not None:
        return in_pattern
    entries = entries_of(tensor)
    converted = Entries(entries.shape, entries.coords, entries.values.astype(kind), entries.fill.astype(kind))
    result: Tensor = tensor_from(converted, [tensor.layout])
    return result


def part(tensor: Tensor, name: str) -> Tensor:
    """The real or the imaginary parts."""
    in_pattern = with_values(tensor, lambda values: np.array(getattr(np.asarray(values), name)))
    if in_pattern is not None:
        return in_pattern
    entries = entries_of(tensor)
    values, fill = getattr(entries.values, name), getattr(entries.fill, name)
    parts = Entries(entries.shape, entries.coords, np.array(values), fill)
    result: Tensor = tensor_from(parts, [tensor.layout])
    return result


def in_place(tensor: Tensor) -> Array:
    """The dense array that a dense tensor is. Raises BufferError for others."""
    layout = tensor.layout
    if not tensor.shape or is_full(layout):
        (array,) = tensor.arrays.values()
        turns = {b.arrays[0][1] for b in layout.bindings if b.library == NUMPY}
        return array.T if "T" in turns else array
    raise BufferError(f"a tensor in layout `{layout.name}` is no dense array: write tensor.to_numpy()")


# --- products and reductions ---------------------------------------------------------------------------------------


def product(left: Any, right: Any) -> Any:
    """numpy.matmul. With a dense operand the result is dense, and a kernel computes it."""
    found = _known(np.matmul, left, right)
    if found is not NOTHING:
        return found
    is_plain = max(len(shape_of(left)), len(shape_of(right))) <= 2
    return _product(left, right, operation_key(np.matmul, _named(left, right)) if is_plain else None)


def _product(left: Any, right: Any, key: Hashable) -> Any:
    labels = product_labels(shape_of(left), shape_of(right))
    tensors = [o for o in (left, right) if isinstance(o, Tensor)]
    if any(t.fill_value != 0 for t in tensors):
        kernel = _product_by_kernel(left, right)
        if kernel is not None:
            return kernel
        dense = np.matmul(*[dense_of(o) if isinstance(o, Tensor) else o for o in (left, right)])
        return dense[()] if not dense.ndim else dense
    full = [t.layout for t in tensors if is_full(t.layout)]
    if len(tensors) == 2 and not full:
        kernel = _product_of_sparse(left, right, key)
        if kernel is not None:
            return kernel
        product_entries = contracted(entries_of(left), entries_of(right), labels)
        return tensor_from(product_entries, [t.layout for t in tensors])
    result = _with_dense(left, right, labels, key if len(tensors) < 2 else None)
    if len(tensors) < 2 or not np.ndim(result):
        return result[()] if isinstance(result, np.ndarray) and not result.ndim else result
    return tensor_from(all_of(result), full)


def _with_dense(left: Any, right: Any, labels: tuple[str, str, str], key: Hashable = None) -> Any:
    """A product with a dense operand: by numpy until a kernel is there (run/later.py), found by `key` then."""
    from spfgen.run.arrays.einsum import contraction
    from spfgen.run.calls.samples import ready

    text, operands = contraction(labels, (left, right))
    columns = prod(n for x, n in zip(labels[1], shape_of(right), strict=True) if x not in labels[0])
    work = min(map(_stored, (left, right))) * columns
    if ready(text, operands, {}, None, work, tuning.PRODUCT_SMALL):
        from spfgen.run.calls.evaluate import call_key, evaluate

        result = evaluate(text, operands)
        share_call(key, call_key(text, operands), operands)
        return result
    by_rows = _by_rows(left, right) if work < SHARE else None
    if by_rows is not None:
        return by_rows
    one, two = _or_entries(left), _or_entries(right)
    if isinstance(one, Entries) or isinstance(two, Entries):
        return with_dense(one, two, labels)
    return np.matmul(one, two)


def _by_rows(left: Any, right: Any) -> Any:
    """The product of rows one behind the other with an array; None of others."""
    rows = segments_of(left) if isinstance(left, Tensor) and isinstance(right, np.ndarray) else None
    if rows is None or rows.form.along != 0 or right.ndim > 2:
        return None
    return rows.times(right, np.result_type(left.dtype, right.dtype))


def _or_entries(value: Any) -> Any:
    """A dense array where it is one."""
    if not isinstance(value, Tensor):
        return value
    return in_place(value) if is_full(value.layout) else entries_of(value)


def _product_of_sparse(left: Any, right: Any, key: Hashable) -> Any:
    """By a kernel, which finds the rows of lists of entries where these begin; None where it does not pay."""
    rows = as_rows(left), as_rows(right)
    if rows[0] is left and rows[1] is right:
        return _product_by_kernel(left, right, key)
    product = _product_by_kernel(*rows)
    if not isinstance(product, Tensor) or rows[0] is left:
        return product
    listed = as_list(product, left.layout)
    return tensor_from(own_entries(product), [left.layout]) if listed is None else listed


def _product_by_kernel(left: Any, right: Any, key: Hashable = None) -> Any:
    """By a kernel where that pays; of fill values that are not 0 where a dense copy would be large."""
    filled = any(isinstance(o, Tensor) and o.fill_value != 0 for o in (left, right))
    if filled and max(t.size for t in (left, right)) < MUCH:
        return None
    first = Leaf(left)
    return by_kernel(
        Product(first, first if left is right else Leaf(right)),
        sparse=not filled,
        always=filled,
        small=True,
        key=None if filled else key,
    )


def reduced(
    tensor: Any,
    name: str,
    axis: Any,
    keepdims: bool = False,
    dtype: Any = None,
    initial: Any = None,
    where: Any = True,
    out: Any = None,
    ddof: float = 0,
) -> Any:
    """The reduction by numpy's function of that name, as a dense array or a number."""
    if out is not None:
        return written(reduced(tensor, name, axis, keepdims, dtype, initial, where, None, ddof), out)
    tensor = tensor if isinstance(tensor, Tensor) else tensor_of(tensor, "the operand")
    if where is not True:
        return _reduced_where(tensor, name, axis, keepdims, dtype, initial, where)
    by_groups = name == "mean" or (name not in OF_PLACES and reductions.is_by_groups(getattr(np, name)))
    if by_groups and initial is None and dtype is None and name != "mean":
        at_once = _at_once(tensor, name, axis, keepdims)
        if at_once is not None:
            return at_once
    entries, grouped = _to_reduce(tensor, axis) if by_groups else (entries_of(tensor), None)
    with in_words(name):
        match name:
            case "mean":
                return reductions.mean(entries, axis, keepdims, dtype, grouped)
            case "argmax" | "argmin":
                return reductions.place_of(name, entries, axis, keepdims)
            case "var":
                return reductions.variance(entries, axis, keepdims, dtype, ddof)
            case "std":
                return np.sqrt(reductions.variance(entries, axis, keepdims, dtype, ddof))
        return reductions.reduced(getattr(np, name), entries, axis, keepdims, dtype, initial, grouped)


def _at_once(tensor: Tensor, name: str, axis: Any, keepdims: bool) -> Any:
    """All values as one array, or one axis by a kernel, once there is one; None where it is neither."""
    if axis is None and not keepdims:
        values = own_values(tensor)
        function = getattr(np, name)
        return None if values is None else reductions.total(function, values, tensor.fill_value, tensor.size)
    if type(axis) is not int or tensor.ndim != 2 or name not in OF_KERNELS or is_full(tensor.layout):
        return None
    operands = {"A": tensor}
    result = operation_called((name, axis, keepdims), operands)
    if result is not NOTHING:
        return result
    key = operation_key((name, axis, keepdims), operands)
    with in_words(name):
        return by_kernel(Reduce(name, Leaf(tensor), axis, keepdims), small=True, times=1 / LATER, key=key)


def _reduced_where(tensor: Tensor, name: str, axis: Any, keepdims: bool, dtype: Any, initial: Any, mask: Any) -> Any:
    """Of the elements where a mask is true: the others become what the function leaves alone."""
    mask = operand(mask)
    if broadcast_shape([tensor.shape, shape_of(mask)]) != tensor.shape:
        raise ArgumentError(f"expected a mask of the shape {tensor.shape}, but it has {shape_of(mask)}")
    if name == "mean":
        total = _reduced_where(tensor, "add", axis, keepdims, reductions.mean_type(tensor.dtype, dtype), None, mask)
        ones = np.broadcast_to(np.ones((), bool), tensor.shape)
        count = np.sum(where(mask, ones, False), axis=axis, keepdims=keepdims)
        return reductions.quotient(total, count)
    if name in OF_PLACES:
        raise ConversionError(f"expected {name} of a tensor without `where`, but it is given")
    identity = getattr(np, name).identity
    neutral = identity if initial is None else initial
    if neutral is None:
        hint = f"expected `initial` beside `where`, because numpy.{name} has no identity, but it is not given"
        raise ArgumentError(hint)
    chosen = where(mask, tensor, tensor.dtype.type(neutral))
    return reduced(chosen, name, axis, keepdims, dtype, initial)


def _to_reduce(tensor: Tensor, axis: Any) -> tuple[Entries, Any]:
    """(the entries, without coordinates where these are not needed; what groups them where these are segments)."""
    from spfgen.layout.proofs import stored_once

    axes = reductions.axes_of(axis, tensor.ndim)
    if len(axes) == tensor.ndim:
        values = own_values(tensor)
        return (entries_of(tensor) if values is None else Entries(tensor.shape, (), values, tensor.fill_value)), None
    segments = segments_of(tensor) if len(axes) == 1 and tensor.ndim == 2 else None
    if segments is None or not stored_once(tensor.layout.unfilled).proved:
        return entries_of(tensor), None
    entries = Entries(tensor.shape, (), segments.values, tensor.fill_value)
    if axes[0] != segments.form.along:
        return entries, segments.reduced
    if segments.width > tuning.CONVERT_EMPTY_GROUPS * len(segments.values) + 2**16:
        return entries_of(tensor), None
    return entries, segments.reduced_across


# --- shapes ---------------------------------------------------------------------------------------------------------


def transposed(tensor: Tensor, axes: Sequence[Any]) -> Tensor:
    """numpy.transpose: over the same arrays where there is a layout for that, else in the same layout where that can
    be."""
    order = permutation(axes, tensor.ndim)
    if order == tuple(range(tensor.ndim))[::-1]:
        reversed_tensor = _over(tensor)
        if reversed_tensor is not None:
            return reversed_tensor
    counted = ordered.transposed(tensor, order)
    if counted is not None:
        return counted
    result: Tensor = tensor_from(transpose(tensor, order), [tensor.layout])
    return result


def _over(tensor: Tensor) -> Tensor | None:
    """The transpose over the same arrays, of which those of indices are read-only there."""
    layout_and_names = reversed_layout(tensor.layout if tensor.layout.fill_text == "0" else refilled(tensor.layout, 0))
    if layout_and_names is None:
        return None
    check_unchanged(tensor)
    layout, names = layout_and_names
    indexes = {a.name for a in tensor.layout.indexes}
    arrays = {names[n]: tensor.arrays[n].view() for n in tensor.layout.arrays}
    for name in indexes:
        arrays[names[name]].flags.writeable = False
    reversed_as, sizes = refilled(layout, tensor.layout.fill), {names[n]: size for n, size in tensor.sizes.items()}
    trust(reversed_as, sizes, arrays)
    return Tensor(reversed_as, sizes, {n: arrays[n] for n in reversed_as.arrays})


def truth(value: Any) -> bool:
    """Of the only element of a tensor, or an array of numpy. Raises ValueError, as numpy does, when there are more or
    none; but for numpy.testing.assert_equal, which asks for the truth of the comparison, that of all."""
    if np.prod(shape_of(value)) != 1 and _compared_by_numpy():
        return True
    return bool(number(value) if isinstance(value, Tensor) else value)


def _compared_by_numpy() -> bool:
    """Whether numpy.testing.assert_equal asks, and has the same elements: it compares what is none of numpy's arrays as
    two numbers. Raises AssertionError where they differ."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("spfgen."):
        frame = frame.f_back
    testing = sys.modules.get("numpy.testing")
    if testing is None or frame.f_code is not testing.assert_equal.__code__:
        return False
    arguments = frame.f_locals
    actual, desired = (a.compute() if hasattr(a, "compute") else a for a in (arguments["actual"], arguments["desired"]))
    testing.assert_array_equal(
        actual, desired, arguments["err_msg"], arguments["verbose"], strict=arguments.get("strict", False)
    )
    return True


def number(tensor: Tensor) -> Any:
    """The only element. Raises ValueError, as numpy does, when there are more or none."""
    if any(n != 1 for n in tensor.shape):
        message = f"expected a tensor with one element, but it has {tensor.size}"
        raise ValueError(f"{message}: the truth value of several is any() or all()")
    return entries_of(tensor).to_dense().reshape(-1)[0]


# --- functions of whole tensors -------------------------------------------------------------------------------------


def nonzero(tensor: Tensor) -> tuple[Array, ...]:
    """numpy.nonzero: an array of coordinates for each dimension, in row-major order."""
    entries = entries_of(tensor)
    if entries.fill == 0:
        kept = entries.values != 0
        return tuple(c[kept] for c in entries.coords)
    return tuple(np.asarray(c) for c in np.nonzero(entries.to_dense()))


def where(condition: Any, *choices: Any) -> Any:
    """numpy.where."""
    if not choices:
        return nonzero(condition)
    operands = [operand(o) for o in (condition, *choices)]
    given = [entries_of(o) if isinstance(o, Tensor) else o for o in operands]
    result = chosen(given[0], given[1:])
    return tensor_from(result, layouts_of(operands)) if isinstance(result, Entries) else in_c(result, 0)[0]


def clipped(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:  # noqa: A002
    """numpy.clip."""
    low, high, value = a_min if min is None else min, a_max if max is None else max, operand(a)
    if not is_number(value) and value.dtype.kind in "iu":  # a number of Python that the type does not have is no bound
        most = np.iinfo(value.dtype)
        low = None if type(low) is int and low <= most.min else low
        high = None if type(high) is int and high >= most.max else high
    if low is not None:
        value = applied(np.maximum, (value, low), {})
    return value if high is None else applied(np.minimum, (value, high), {})


def equal(left: Any, right: Any, equal_nan: bool) -> bool:
    """numpy.array_equal."""
    if shape_of(left) != shape_of(right):
        return False
    equals = applied(np.equal, (left, right), {})
    if equal_nan:
        both = applied(np.logical_and, (applied(np.isnan, (left,), {}), applied(np.isnan, (right,), {})), {})
        equals = applied(np.logical_or, (equals, both), {})
    return bool(equals.all())


def near(left: Any, right: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """numpy.isclose."""
    operands = [operand(o) for o in (left, right)]
    given = [entries_of(o) if isinstance(o, Tensor) else o for o in operands]
    result = elementwise(None, given, lambda a, b: np.isclose(a, b, rtol, atol, equal_nan))
    return tensor_from(result, layouts_of(operands)) if isinstance(result, Entries) else result


def rounded(tensor: Tensor, decimals: int) -> Any:
    """numpy.round."""
    with in_words("round"):
        result = elementwise(
            None, [entries_of(tensor)], lambda values: np.round(values if decimals else single(values), decimals)
        )
    assert isinstance(result, Entries)
    return tensor_from(result, [tensor.layout])


def dense_of(tensor: Tensor) -> Array:
    """A new dense array."""
    return entries_of(tensor).to_dense()

"""Functions of single values on entries, dense arrays and numbers, with numpy's broadcasting.

The result is sparse where the values outside of the entries are known to be one number: the function of the fills, or
what a fill value decides alone, as 0 does a product. Beside a dense array only the latter is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from spfgen.errors import DataError
from spfgen.lang.fills import fill_text
from spfgen.lang.ops import OPERATORS, Operator
from spfgen.lang.types import TYPES
from spfgen.layout.fill import fits
from spfgen.run.arrays.entries import Entries, computed, found_at, in_c, numbered, same, shape_of, sorting, stored_at
from spfgen.run.arrays.ordered import Side, sides
from spfgen.run.calls.layout_signature import remember
from spfgen.run.tensor import Array, Tensor

Operand = Any
"""Entries, a numpy array with dimensions, or a number."""


def elementwise(
    function: np.ufunc | None, operands: Sequence[Operand], call: Callable[..., Any], exact: bool = False
) -> Entries | Array:
    """`call` of the operands; `function` is that of numpy which it is, if it is one. Where it is `exact`, what is not
    stored is a number as any other: 0 times infinity is nan, and so is 0 by 0. Raises DataError."""
    shape = broadcast_shape([shape_of(o) for o in operands])
    sparse = [k for k, o in enumerate(operands) if isinstance(o, Entries)]
    dense = [k for k, o in enumerate(operands) if isinstance(o, np.ndarray) and o.ndim]
    deciding = decided(function, operands, exact)
    if len(sparse) == len(operands) == 2 and shape and all(o.shape == shape for o in operands):
        side_by_side = _side_by_side(operands, shape, deciding, call)
        if side_by_side is not None:
            return side_by_side
    beside = decided(function, operands) if exact and dense and sparse and not deciding else {}
    if beside:
        coords, count, fill = _beside_dense(operands, shape, beside, call)
    elif deciding:
        one = min(deciding, key=lambda k: _expansion(operands[k], shape))
        others = [operands[k] for k in deciding if k != one]
        coords, count = expanded(operands[one], shape, others[0] if others else None)
        for other in others:  # what one of them does not store is decided, whatever another stores there
            there = stored_at(other, *_own(other, shape, coords, count))
            coords, count = tuple(c[there] for c in coords), int(np.count_nonzero(there))
        fill = deciding[one]
    elif dense:
        return np.asarray(call(*[o.to_dense() if isinstance(o, Entries) else o for o in operands]))
    else:
        fill, parts = _parts(operands, sparse, shape, call)
        coords, count = _union(shape, parts)
    values = np.asarray(call(*[_values(o, shape, coords, count) for o in operands]))
    return computed(shape, coords, np.broadcast_to(values, (count,)), fill)


def _side_by_side(
    operands: Sequence[Entries], shape: tuple[int, ...], deciding: dict[int, Any], call: Callable[..., Any]
) -> Entries | None:
    """Of two of one shape, which are merged; None where they cannot be."""
    first, second = (Side(None, o.coords, o.values, o.fill) for o in operands)
    both = sides(shape, first, second, needed(deciding))
    if both is None:
        return None
    if deciding:
        fill = next(iter(deciding.values()))
    else:
        with np.errstate(all="ignore"):  # numpy speaks up where values are computed
            fill = np.asarray(call(*[o.fill for o in operands]))[()]
    values, number = in_c(np.asarray(call(*both.values)), fill)
    _, coords, values = both.without(values, number)
    return Entries(shape, tuple(coords), values, number)


def needed(deciding: Mapping[int, Any]) -> tuple[bool, bool]:
    """Whether the result of two is to be asked for where only the first, where only the second has an entry."""
    first, second = (not deciding or (k in deciding and len(deciding) == 1) for k in (0, 1))
    return first, second


def _beside_dense(
    operands: Sequence[Operand], shape: tuple[int, ...], deciding: dict[int, Any], call: Callable[..., Any]
) -> tuple[tuple[Array, ...], int, Any]:
    """(coordinates, their number, the fill): where the sparse operand has entries, and where its fill does not decide
    against what the dense one holds there."""
    ((one, fill),) = deciding.items()
    sparse, other = operands[one], operands[1 - one]
    with np.errstate(all="ignore"):
        on_fill = np.asarray(call(*[sparse.fill if k == one else other for k in (0, 1)]))
    odd = np.nonzero(~same(on_fill, fill))
    parts = [expanded(sparse, shape)]
    if odd[0].size:
        parts.append(expanded(Entries(other.shape, odd, on_fill[odd], fill), shape))
    coords, count = _union(shape, parts)
    return coords, count, fill


def chosen(condition: Operand, choices: Sequence[Operand]) -> Entries | Array:
    """numpy.where. Beside a dense condition the result is sparse where both choices have one fill value."""
    operands = [condition, *choices]
    sparse = [o for o in choices if isinstance(o, Entries)]
    if (
        not isinstance(condition, np.ndarray)
        or not sparse
        or any(isinstance(o, np.ndarray) and o.ndim for o in choices)
    ):
        return elementwise(None, operands, np.where)
    fills = [o.fill if isinstance(o, Entries) else o for o in choices]
    first, second = (np.asarray(np.where(np.array([truth]), *fills)) for truth in (True, False))
    if not same(first, second[0]).all():
        return elementwise(None, operands, np.where)
    shape = broadcast_shape([shape_of(o) for o in operands])
    coords, count = _union(shape, [expanded(o, shape) for o in sparse])
    values = np.asarray(np.where(*[_values(o, shape, coords, count) for o in operands]))
    return computed(shape, coords, np.broadcast_to(values, (count,)), first[0])


def in_single(function: np.ufunc, options: dict[str, Any]) -> Callable[..., Any]:
    """numpy's function, in float32 where numpy has float16, which C has not: of booleans and small integers."""
    if options.get("dtype") is not None and np.dtype(options["dtype"]) == np.float16:
        options = {**options, "dtype": np.float32}

    def call(*values: Any) -> Any:
        types = [type(v) if type(v) in (int, float, complex) else np.asarray(v).dtype for v in values]
        if all(isinstance(t, type) or t.itemsize > 1 for t in types) and np.float16 not in types:
            return function(*values, **options)
        try:
            resolved = function.resolve_dtypes((*types, *[None] * function.nout))
        except TypeError:  # numpy says so when it is called
            return function(*values, **options)
        if np.float16 not in resolved or {"dtype", "signature", "sig"} & set(options):
            return function(*values, **options)
        return function(*values, **options, signature=tuple(np.float32 if t == np.float16 else t for t in resolved))

    return call


def single(values: Any) -> Any:
    """Booleans as float32, for functions that make float16 of them."""
    return values.astype(np.float32) if values.dtype in (np.bool_, np.float16) else values


def decided(function: np.ufunc | None, operands: Sequence[Any], exact: bool = False) -> dict[int, Any]:
    """The places of sparse operands whose fill is known to decide the function of two values, with what it gives then.

    What is not stored is not computed with: 0 where nothing is stored, times inf, is 0, as everywhere in spfgen. It
    decides nothing against what the fills give together, as nan for 0 times inf; but a dividend does. Where it is
    `exact`, fills decide what such a number decides where it is stored.
    """
    operator = OPERATORS.get(getattr(function, "__name__", "")) if len(operands) == 2 else None
    if function is None or operator is None or not (operator.annihilators or operator.known or operator.unstored):
        return {}
    key = (function, exact, *map(_likeness, operands))
    deciding = _DECIDED.get(key)
    if deciding is None:
        deciding = _decided(function, operator, operands, exact)
        remember(_DECIDED, key, deciding)
    return deciding


_DECIDED: dict[Any, dict[int, Any]] = {}


def _likeness(operand: Any) -> Any:
    """What of an operand says whether it decides: the types, fill values, and whether a number fits."""
    if type(operand) is int:
        return operand
    if type(operand) in (float, complex):
        return type(operand)
    if isinstance(operand, Tensor):
        return operand.dtype, operand.layout.fill_text
    return (operand.dtype, fill_text(operand.fill)) if isinstance(operand, Entries) else np.asarray(operand).dtype


def _decided(function: np.ufunc, operator: Operator, operands: Sequence[Any], exact: bool) -> dict[int, Any]:
    fills = {k: f for k, o in enumerate(operands) if (f := _fill_of(o)) is not None}
    types: list[Any] = [
        type(o) if type(o) in (int, float, complex) else np.asarray(fills.get(k, o)).dtype
        for k, o in enumerate(operands)
    ]
    try:
        kinds = function.resolve_dtypes((*types, None))
    except TypeError:  # numpy has no such function: it says so when it is called
        return {}
    names = [TYPES[k.name] for k in kinds[:2] if k.name in TYPES]
    if len(names) < 2 or any(type(o) is int and not fits(o, k) for o, k in zip(operands, kinds, strict=False)):
        return {}
    deciding = {
        place: result
        for place, value, result in operator.known_of(names, stored=exact)
        if place in fills and fill_text(np.asarray(fills[place]).astype(kinds[place])) == fill_text(value)
    }
    if not deciding or len(fills) < 2 or (operator.is_quotient and not exact):
        return deciding
    with np.errstate(all="ignore"):
        whole = function(*[fills[k] for k in (0, 1)])
    return {place: result for place, result in deciding.items() if result == whole}


def _fill_of(operand: Any) -> Any:
    """The fill value of entries or a tensor."""
    return operand.fill if isinstance(operand, Entries) else getattr(operand, "fill_value", None)


def broadcast_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """numpy's rule. Raises DataError."""
    rank = max(map(len, shapes), default=0)
    shape_so_far = [1] * rank
    for shape in shapes:
        for d, extent in enumerate(shape, rank - len(shape)):
            if extent != 1 and shape_so_far[d] not in (1, extent):
                texts = ", ".join(map(str, shapes))
                raise DataError(f"expected shapes that numpy can broadcast together, but they are {texts}")
            shape_so_far[d] = extent if shape_so_far[d] == 1 else shape_so_far[d]
    return tuple(shape_so_far)


def _parts(
    operands: Sequence[Operand], sparse: Sequence[int], shape: tuple[int, ...], call: Callable[..., Any]
) -> tuple[Any, list[tuple[tuple[Array, ...], int]]]:
    """The fill of the result, and coordinates of entries that together are all where it may have another value."""
    with np.errstate(all="ignore"):  # numpy speaks up where values are computed
        fills = [o.fill if isinstance(o, Entries) else o for o in operands]
        fill = np.asarray(call(*fills))[()]
        needed = [k for k in sparse if len(sparse) != 2 or not _alone_is_fill(operands, k, fills, fill, call)]
    if len(sparse) == 2 and not needed:  # something only where both are
        one, other = sorted(sparse, key=lambda k: _expansion(operands[k], shape))
        return fill, [expanded(operands[one], shape, operands[other])]
    return fill, [expanded(operands[k], shape) for k in needed]


def _alone_is_fill(
    operands: Sequence[Operand], one: int, fills: Sequence[Any], fill: Any, call: Callable[..., Any]
) -> bool:
    """Whether the entries of one operand give the fill of the result where the others have no entry."""
    given = [operands[k].values if k == one else f for k, f in enumerate(fills)]
    return bool(np.all(same(np.asarray(call(*given)), fill)))


def _expansion(entries: Entries, shape: tuple[int, ...]) -> int:
    return max(1, len(entries.values)) * max(1, prod(shape)) // max(1, prod(entries.shape))


def expanded(entries: Entries, shape: tuple[int, ...], beside: Entries | None = None) -> tuple[tuple[Array, ...], int]:
    """The coordinates of the entries broadcast to a shape: only where `beside` has entries, dimension by dimension."""
    lead, count = len(shape) - entries.ndim, len(entries.values)
    known_columns = {d: c for d, c in enumerate(entries.coords, lead) if entries.shape[d - lead] == shape[d]}
    coords = [known_columns.get(d) for d in range(len(shape))]
    for d, extent in enumerate(shape):
        if d in known_columns:
            continue
        places = _places(extent, d - len(shape), beside)
        coords = [None if c is None else np.repeat(c, len(places)) for c in coords]
        coords[d] = np.tile(places, count)
        count *= len(places)
    return tuple(c for c in coords if c is not None), count


def _places(extent: int, dimension: int, beside: Entries | None) -> Array:
    if beside is not None and -dimension <= beside.ndim and beside.shape[dimension] == extent:
        return np.unique(beside.coords[dimension])
    try:
        return np.arange(extent)
    except (MemoryError, ValueError) as error:
        raise DataError(f"expected entries that fit in memory, but they are repeated {extent} times") from error


def _union(shape: tuple[int, ...], parts: Sequence[tuple[tuple[Array, ...], int]]) -> tuple[tuple[Array, ...], int]:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return tuple(np.zeros(0, np.int64) for _ in shape), 0
    keys = numbered(shape, [count for _, count in parts], [coords for coords, _ in parts])
    order, key = sorting(np.concatenate(keys))
    first = order[np.append(key[:1] >= 0, key[1:] != key[:-1])]
    coords = tuple(np.concatenate([c[d] for c, _ in parts])[first] for d in range(len(shape)))
    return coords, len(first)


def _values(operand: Operand, shape: tuple[int, ...], coords: tuple[Array, ...], count: int) -> Any:
    """Of an operand at coordinates of the result."""
    if not shape_of(operand) and not isinstance(operand, Entries):
        return operand
    at, count = _own(operand, shape, coords, count)
    return found_at(operand, at, count) if isinstance(operand, Entries) else operand[at]


def _own(
    operand: Entries | Array, shape: tuple[int, ...], coords: tuple[Array, ...], count: int
) -> tuple[tuple[Array, ...], int]:
    """The coordinates in an operand that is broadcast to the shape."""
    lead = len(shape) - operand.ndim
    at = (coords[d] if n == shape[d] else np.zeros(count, np.int64) for d, n in enumerate(operand.shape, lead))
    return tuple(at), count

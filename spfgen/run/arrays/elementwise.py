"""Functions of single values on entries, dense arrays and numbers, with numpy's broadcasting.

The result is sparse where the values outside of the entries are known to be one number: the function of the fills, or
what a fill value decides alone, as 0 does a product. Beside a dense array only the latter is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from spfgen.errors import DataError
from spfgen.lang.fills import fill_text
from spfgen.lang.ops import OPERATORS
from spfgen.lang.types import element_type
from spfgen.run.arrays.entries import Entries, found_at, normal, numbered, same
from spfgen.run.tensor import Array

Operand = Any
"""Entries, a numpy array with dimensions, or a number."""


def elementwise(function: np.ufunc | None, operands: Sequence[Operand], call: Callable[..., Any]) -> Entries | Array:
    """`call` of the operands; `function` is that of numpy which it is, if it is one. Raises DataError."""
    shape = broadcast_shape([np.shape(o) for o in operands])
    sparse = [k for k, o in enumerate(operands) if isinstance(o, Entries)]
    dense = [k for k, o in enumerate(operands) if isinstance(o, np.ndarray) and o.ndim]
    deciding = decided(function, operands)
    if deciding:
        one = min(deciding, key=lambda k: _expansion(operands[k], shape))
        others = [k for k in deciding if k != one]
        coords, count = expanded(operands[one], shape, operands[others[0]] if others else None)
        fill = deciding[one]
    elif dense:
        return np.asarray(call(*[o.to_dense() if isinstance(o, Entries) else o for o in operands]))
    else:
        fill, parts = _parts(operands, sparse, shape, call)
        coords, count = _union(shape, parts)
    values = np.asarray(call(*[_values(o, shape, coords, count) for o in operands]))
    return normal(shape, coords, np.broadcast_to(values, (count,)), fill, once=True)


def decided(function: np.ufunc | None, operands: Sequence[Any]) -> dict[int, Any]:
    """The places of sparse operands whose fill is known to decide the function of two values, with what it gives then.

    What is not stored is not computed with: 0 where nothing is stored, times inf, is 0, as everywhere in spfgen.
    """
    operator = None if function is None or len(operands) != 2 else OPERATORS.get(function.__name__)
    if operator is None or not (operator.annihilators or operator.known):
        return {}
    fills = {k: f for k, o in enumerate(operands) if (f := _fill_of(o)) is not None}
    types: list[Any] = [
        type(o) if type(o) in (int, float, complex) else np.asarray(fills.get(k, o)).dtype
        for k, o in enumerate(operands)
    ]
    try:
        kinds = function.resolve_dtypes((*types, None))  # type: ignore[union-attr]
    except TypeError:  # numpy has no such function: it says so when it is called
        return {}
    found: dict[int, Any] = {}
    for place, fill in fills.items():
        kind = element_type(kinds[place].name)
        for where, value, result in operator.known_of(kind, stored=False) if kind is not None else ():
            if where == place and fill_text(fill) == fill_text(value):
                found[place] = result
    return found


def _fill_of(operand: Any) -> Any:
    """The fill value of entries or a tensor."""
    return operand.fill if isinstance(operand, Entries) else getattr(operand, "fill_value", None)


def broadcast_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """numpy's rule. Raises DataError."""
    rank = max(map(len, shapes), default=0)
    found = [1] * rank
    for shape in shapes:
        for d, extent in enumerate(shape, rank - len(shape)):
            if extent != 1 and found[d] not in (1, extent):
                texts = ", ".join(map(str, shapes))
                raise DataError(f"expected shapes that numpy can broadcast together, but they are {texts}")
            found[d] = extent if found[d] == 1 else found[d]
    return tuple(found)


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
    own = {d: c for d, c in enumerate(entries.coords, lead) if entries.shape[d - lead] == shape[d]}
    coords = [own.get(d) for d in range(len(shape))]
    for d, extent in enumerate(shape):
        if d in own:
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
    _, first = np.unique(np.concatenate(keys), return_index=True)
    coords = tuple(np.concatenate([c[d] for c, _ in parts])[first] for d in range(len(shape)))
    return coords, len(first)


def _values(operand: Operand, shape: tuple[int, ...], coords: tuple[Array, ...], count: int) -> Any:
    """Of an operand at coordinates of the result."""
    own = np.shape(operand)
    if not own and not isinstance(operand, Entries):
        return operand
    lead = len(shape) - len(own)
    at = tuple(coords[d] if n == shape[d] else np.zeros(count, np.int64) for d, n in enumerate(own, lead))
    return found_at(operand, at, count) if isinstance(operand, Entries) else operand[at]

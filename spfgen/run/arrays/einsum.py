"""numpy.einsum over whatever `evaluate` takes: the subscripts become a statement of index notation.

The operands are called A, B, ... in it and the result `out`, or `result` where its layout is said. As in numpy, an
extent of 1 is stretched to what the other operands say: such a dimension gets the subscript 0.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import count
from math import prod
from typing import Any

import numpy as np

from spfgen.errors import DataError, UsageError, a_type
from spfgen.lang.expressions import counted
from spfgen.run.arrays.contract import all_of, summed
from spfgen.run.arrays.entries import entries_of, shape_of
from spfgen.run.arrays.made import in_layout, is_full
from spfgen.run.calls.bind import is_number
from spfgen.run.calls.detect_layout import tensor_of
from spfgen.run.calls.evaluate import evaluate
from spfgen.run.calls.samples import ready
from spfgen.run.later import numpy_serves
from spfgen.run.tensor import DTYPES, Tensor, plain_array

OUT, RESULT = "out", "result"
ELLIPSIS = "..."
LETTERS = string.ascii_uppercase + string.ascii_lowercase
"""Of the labels 0, 1, ... of the form with lists; in their order."""


def einsum(
    arguments: Sequence[Any],
    out: object = None,
    dtype: object = None,
    optimize: object = False,
    threads: int | None = None,
    validate: str = "once",
    layout: object = None,
) -> Any:
    """See spfgen.einsum."""
    if layout is not None and out is not None:
        raise UsageError("expected `out` or `layout`, but both are given", None, ("`out` has a layout already",))
    subscripts, given = _arguments(arguments)
    names = _names(len(given))
    tensors: list[Any] = [
        tensor_of(plain_array(v, n) if is_number(v) else v, n, validate) for n, v in zip(names, given, strict=True)
    ]
    if dtype is not None:
        wanted = _dtype(dtype)
        tensors = [_of_type(t, n, wanted) for t, n in zip(tensors, names, strict=True)]
    labels, result = _labels(subscripts, tuple([len(t.shape) for t in tensors]))
    operands_left = list(zip(labels, tensors, strict=True))
    for places in _path(subscripts, tensors, optimize):
        some = [operands_left.pop(k) for k in sorted(places, reverse=True)][::-1]
        needed = {*result, *(label for labels_of_operand, _ in operands_left for label in labels_of_operand)}
        kept = tuple(
            dict.fromkeys(label for labels_of_operand, _ in some for label in labels_of_operand if label in needed)
        )
        operands_left.append((kept, _summed(some, kept, None, threads, validate)))
    return _summed(operands_left, result, out, threads, validate, layout)


def statement_of(arguments: Sequence[Any], layout: object) -> tuple[str, dict[str, Any]]:
    """The subscripts as a statement, and the operands by their names in it: operands of any kind with shapes."""
    subscripts, given = _arguments(arguments)
    shapes = tuple([tuple(v.shape) if hasattr(v, "shape") else np.shape(v) for v in given])
    labels, result = _labels(subscripts, tuple(map(len, shapes)))
    text = _statement(labels, OUT if layout is None else RESULT, result, _stretched(labels, shapes))
    return text, dict(zip(_names(len(given)), given, strict=True))


def contraction(labels: tuple[str, str, str], operands: tuple[Any, Any]) -> tuple[str, dict[str, Any]]:
    """The statement for a product of two operands by the labels of theirs and of the result, a letter each."""
    operand_labels = (tuple(labels[0]), tuple(labels[1]))
    shapes = tuple([shape_of(o) for o in operands])
    text = _statement(operand_labels, OUT, tuple(labels[2]), _stretched(operand_labels, shapes))
    return text, dict(zip(_names(2), operands, strict=True))


def _dtype(dtype: Any) -> np.dtype[Any]:
    """Raises UsageError when it is none that kernels have."""
    wanted: np.dtype[Any] | None = None
    with suppress(TypeError, ValueError):
        wanted = np.dtype(dtype)
    if wanted is None or wanted not in DTYPES:
        hint = f"it is one of {', '.join(sorted(d.name for d in DTYPES))}"
        raise UsageError(f"expected a dtype that kernels have, but it is {dtype!r}", None, (hint,))
    return wanted


def _of_type(value: Any, name: str, wanted: np.dtype[Any]) -> Any:
    """An operand with values of that type. Raises UsageError when it cannot hold all values of the operand's type."""
    if value.dtype == wanted:
        return value
    if not np.can_cast(value.dtype, wanted, "safe"):
        hint = "convert the operand itself, if values may be rounded"
        raise UsageError(f"expected `{name}` to fit {wanted}, but it is {value.dtype}", None, (hint,))
    if not isinstance(value, Tensor):
        return value.astype(wanted)
    values = {v.name: value.arrays[v.name].astype(wanted) for v in value.layout.values}
    return replace(value, arrays={**value.arrays, **values})


def _summed(
    operands: Sequence[tuple[tuple[str, ...], Any]],
    result: tuple[str, ...],
    out: object,
    threads: int | None,
    validate: str,
    layout: object = None,
) -> Any:
    """One kernel, or numpy until it is there (run/later.py); `operands` are (indices, tensor or array)."""
    names = _names(len(operands))
    labels = tuple([labels_of_operand for labels_of_operand, _ in operands])
    shapes = tuple([np.shape(t) if isinstance(t, np.generic) else t.shape for _, t in operands])
    target = OUT if layout is None else RESULT
    text = _statement(labels, target, result, _stretched(labels, shapes))
    given: dict[str, object] = {name: tensor for name, (_, tensor) in zip(names, operands, strict=True)}
    if out is not None:
        given[OUT] = out
    elif threads is None:
        by_numpy = _by_numpy(text, given, labels, result, layout)
        if by_numpy is not None:
            return by_numpy
    return evaluate(text, given, None, threads, validate, layout)


def _by_numpy(
    text: str,
    operands: Mapping[str, Any],
    labels: tuple[tuple[str, ...], ...],
    result: tuple[str, ...],
    layout: object,
) -> Any:
    """The sum by the entries of the operands; None where the kernel is to do it."""
    given = list(operands.values())
    sparse = [o for o in given if isinstance(o, Tensor) and o.shape and not is_full(o.layout)]
    if any(isinstance(o, Tensor) and o.fill_value != 0 for o in given):
        return None
    extents = [
        dict(zip(labels_of_operand, o.shape, strict=True)) for labels_of_operand, o in zip(labels, given, strict=True)
    ]
    share = prod(o.nse / max(1, o.size) for o in sparse)
    points = prod(
        max(e.get(i, 1) for e in extents) for i in {i for labels_of_operand in labels for i in labels_of_operand}
    )
    work = int(points * share) + sum(o.nse if isinstance(o, Tensor) else o.size for o in given)
    if ready(text, operands, {}, None, work) if layout is None else not numpy_serves(work):
        return None
    parts = [
        (labels_of_operand, entries_of(o) if isinstance(o, Tensor) else all_of(o))
        for labels_of_operand, o in zip(labels, given, strict=True)
    ]
    entries = summed(parts, result)
    if layout is not None:
        return in_layout(entries, layout)
    dense = entries.to_dense()
    return dense if dense.ndim else dense[()]


def _path(subscripts: str, tensors: Sequence[Any], optimize: Any) -> Sequence[tuple[int, ...]]:
    """The contractions before the last one, each the places of operands that become one, which goes to the end."""
    if optimize is False or (len(tensors) < 3 and isinstance(optimize, bool | str)):
        return ()
    virtual = [np.broadcast_to(np.zeros((), t.dtype), t.shape) for t in tensors]
    try:
        path, _ = np.einsum_path(subscripts, *virtual, optimize=optimize)
        steps = [tuple(int(k) for k in places) for places in path[1:]]
    except (TypeError, ValueError, LookupError, RuntimeError) as error:
        hint = "it is True, False, 'greedy', 'optimal', or a path that numpy.einsum_path gives"
        raise UsageError(f"expected optimize as in numpy.einsum, but numpy says: {error}", None, (hint,)) from None
    return steps[:-1]


def _arguments(arguments: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """The subscripts as a text, and the operands. Lists of labels may stand behind the operands instead."""
    if not arguments:
        raise UsageError("expected subscripts and operands, but there are none", None, ('write einsum("ij,j", A, x)',))
    first, *others = arguments
    if isinstance(first, str):
        return first, others
    operands, lists = list(arguments[0::2]), list(arguments[1::2])
    result = None
    if len(operands) > len(lists):
        result = operands.pop()
    if not operands or not all(isinstance(labels, Sequence) and not isinstance(labels, str) for labels in lists):
        message = f"expected subscripts as a text, but this is {a_type(first)}"
        raise UsageError(message, None, ('write einsum("ij,j", A, x), or einsum(A, [0, 1], x, [1])',))
    text = ",".join(map(_written, lists))
    return (text if result is None else f"{text}->{_written(result)}"), operands


def _written(labels: Any) -> str:
    """A list of labels as subscripts."""
    text = ""
    for label in labels:
        if label is Ellipsis:
            text += ELLIPSIS
        elif isinstance(label, int) and 0 <= label < len(LETTERS):
            text += LETTERS[label]
        else:
            raise UsageError(f"expected labels from 0 to {len(LETTERS) - 1} and ..., but there is {label!r}")
    return text


def _names(number: int) -> list[str]:
    """A, B, ...; without I, which means something in C."""
    letters = [c for c in string.ascii_uppercase if c != "I"]
    return [letters[k] if k < len(letters) else f"A{k}" for k in range(number)]


@lru_cache(maxsize=1024)
def _labels(subscripts: str, ranks: tuple[int, ...]) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """The index of each dimension of each operand, and those of the result. Raises UsageError."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        message = f"expected {counted(len(parts), 'operand')} for the subscripts `{subscripts}`"
        raise UsageError(f"{message}, but there {'is' if len(ranks) == 1 else 'are'} {len(ranks)}")
    labels_of_parts = [_split(part, subscripts) for part in parts]
    hidden = [
        rank - sum(label != ELLIPSIS for label in labels) for labels, rank in zip(labels_of_parts, ranks, strict=True)
    ]
    for part, labels, missing, rank in zip(parts, labels_of_parts, hidden, ranks, strict=True):
        if missing < 0 or (missing and ELLIPSIS not in labels):
            hint = () if missing < 0 else ("write ... for dimensions without a label",)
            message = f"expected an operand that the subscripts `{part}` fit, but it has {counted(rank, 'dimension')}"
            raise DataError(message, None, hint)
    stretch = tuple(f"e_{k}" for k in range(max(hidden, default=0), 0, -1))
    indices = tuple(
        _indices(labels, stretch[len(stretch) - missing :])
        for labels, missing in zip(labels_of_parts, hidden, strict=True)
    )
    letters = [label for labels in labels_of_parts for label in labels if label != ELLIPSIS]
    if not arrow:
        once = sorted(label for label in letters if letters.count(label) == 1)
        return indices, (*stretch, *map(_index, once))
    wanted = _split(right, subscripts)
    if stretch and ELLIPSIS not in wanted:
        raise UsageError(f"expected ... in the result of `{subscripts}`, because operands have it, but it is not there")
    for label in wanted:
        if wanted.count(label) > 1 or (label != ELLIPSIS and label not in letters):
            problem = f"`{label}` stands there twice" if wanted.count(label) > 1 else f"no operand has `{label}`"
            raise UsageError(f"expected labels of the operands behind `->`, each once, but {problem}")
    return indices, _indices(wanted, stretch)


def _split(part: str, subscripts: str) -> list[str]:
    """The labels of one operand."""
    before, dots, after = part.partition(ELLIPSIS)
    labels = [*before, *([ELLIPSIS] if dots else []), *after]
    for label in labels:
        if label != ELLIPSIS and label not in LETTERS:
            hint = 'labels are letters: "ij,j->i"; dimensions without one are "..."'
            raise UsageError(f"expected subscripts for einsum, but `{subscripts}` has `{label}`", None, (hint,))
    return labels


def _indices(labels: Sequence[str], stretch: tuple[str, ...]) -> tuple[str, ...]:
    indices: list[str] = []
    for label in labels:
        indices += stretch if label == ELLIPSIS else [_index(label)]
    return tuple(indices)


def _index(label: str) -> str:
    """The name of an index; tensors have the capital letters."""
    return label if label.islower() else f"{label}_"


def _stretched(labels: tuple[tuple[str, ...], ...], shapes: tuple[tuple[int, ...], ...]) -> frozenset[tuple[int, int]]:
    """The (operand, dimension) pairs of extent 1 whose index runs further elsewhere. Raises DataError."""
    extents: dict[str, tuple[int, int]] = {}
    ones = []
    for k, (indices, shape) in enumerate(zip(labels, shapes, strict=True)):
        extents_here: dict[str, int] = {}
        for d, (index, extent) in enumerate(zip(indices, shape, strict=True)):
            if extents_here.setdefault(index, extent) != extent:
                raise _unequal(index, k, extents_here[index], k, extent)
            if extent == 1:
                ones.append((k, d, index))
                continue
            before, where = extents.setdefault(index, (extent, k))
            if before != extent:
                raise _unequal(index, where, before, k, extent)
    return frozenset((k, d) for k, d, index in ones if index in extents)


def _unequal(index: str, first: int, extent: int, second: int, other: int) -> DataError:
    label = ELLIPSIS if index.startswith("e_") else index.rstrip("_")
    places = f"{extent} in operand {first + 1} and {other} in operand {second + 1}"
    return DataError(f"expected one extent of `{label}`, but it is {places}")


@lru_cache(maxsize=1024)
def _statement(
    labels: tuple[tuple[str, ...], ...], target: str, result: tuple[str, ...], stretched: frozenset[tuple[int, int]]
) -> str:
    factors = [
        _access(name, ["0" if (k, d) in stretched else index for d, index in enumerate(indices)])
        for k, name, indices in zip(count(), _names(len(labels)), labels, strict=False)
    ]
    return f"{_access(target, result)} = {' * '.join(factors)}"


def _access(name: str, subscripts: Sequence[str]) -> str:
    return f"{name}[{', '.join(subscripts)}]" if subscripts else name

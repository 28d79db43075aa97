"""Which subscript lay outside of its tensor: looked for once a call has failed, among all values that it may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from spfgen.facts.formula import Expr, Var, evaluate
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.show import show_value
from spfgen.run.tensor import Array, Tensor


def outside(statements: Sequence[Any], tensors: Mapping[str, Tensor]) -> str:
    """`p[3]` is 17, and `x` has the places 0 to 4 there: the first such subscript in the text; "" where that is not
    found out."""
    for tensor, dimension, value in _subscripts(statements):
        first = _first(value, tensors, tensors[tensor].shape[dimension]) if tensor in tensors else None
        if first is not None:
            what, number = first
            extent = tensors[tensor].shape[dimension]
            places = f"the places 0 to {extent - 1}" if extent else "no places"
            return f"{what} is {number}, and `{tensor}` has {places} there"
    return ""


def _subscripts(statements: Sequence[Any]) -> Iterator[tuple[str, int, Any]]:
    """Tensor, dimension and value of each subscript that is a value; a `let` that stays as it is, is its value."""
    nodes = [n for s in statements for n in walk(s)]
    changed = {n.name for n in nodes if isinstance(n, lang.Set)}
    lets = {n.name: n.value for n in nodes if isinstance(n, lang.Let) and n.name not in changed}

    def known(node: Any) -> Any:
        return lets.get(node.name) if isinstance(node, lang.Local) else None

    for access in (rewrite(known, n) for n in nodes if isinstance(n, lang.Access)):
        for dimension, subscript in enumerate(access.subscripts):
            if not isinstance(subscript, Expr | lang.Range):
                yield access.tensor, dimension, subscript


def _first(value: Any, tensors: Mapping[str, Tensor], extent: int) -> tuple[str, int] | None:
    """The first value that is no place, and where it stands. It is looked at where one access stores something whose
    subscripts are indices."""
    leading = next(
        (n for n in walk(value) if isinstance(n, lang.Access) and _is_plain(n) and n.tensor in tensors), None
    )
    if leading is None:
        return None
    entries = tensors[leading.tensor].to_coo()
    at = {s.name: c for s, c in zip(leading.subscripts, entries.coords, strict=True)}
    try:
        numbers = np.broadcast_to(_value(value, leading, entries.values, at, tensors), entries.values.shape)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None
    wrong = np.flatnonzero((numbers < 0) | (numbers >= extent))
    if not wrong.size:
        return None
    place = {name: int(c[wrong[0]]) for name, c in at.items()}
    if value == leading:
        return f"`{leading.tensor}[{', '.join(map(str, place.values()))}]`", int(numbers[wrong[0]])
    where = ", ".join(f"{n} = {k}" for n, k in place.items())
    return f"`{show_value(value)}` at {where}", int(numbers[wrong[0]])


def _is_plain(access: lang.Access) -> bool:
    names = [s.name for s in access.subscripts if isinstance(s, Var)]
    return bool(names) and len(names) == len(access.subscripts) == len(set(names))


def _value(
    value: Any, leading: lang.Access, known: Array, at: Mapping[str, Array], tensors: Mapping[str, Tensor]
) -> Any:
    """The value at all places of the leading access, with numpy. Raises KeyError, IndexError, AttributeError."""

    def part_value(inner: Any) -> Any:
        return _value(inner, leading, known, at, tensors)

    match value:
        case lang.Constant(number):
            return number
        case lang.Index(expr) | (Expr() as expr):
            return evaluate(expr, at.__getitem__, lambda function, _: at[function])
        case lang.Access() if value == leading:
            return known
        case lang.Access(tensor, subscripts):
            return tensors[tensor].to_numpy()[tuple(map(part_value, subscripts))]
        case lang.Apply(op, arguments):
            return getattr(np, op)(*map(part_value, arguments))
    raise KeyError(value)

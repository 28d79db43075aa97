"""Instances of a fact over concrete arrays: whether they hold, how they are told, and all of them one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spfgen.errors import DataError
from spfgen.facts.formula import Call, Exists, Expr, Forall, Formula, calls, show, variables
from spfgen.ir import walk
from spfgen.layout.nodes import Layout, Property
from spfgen.layout.points import Array, Columns, affine_value, rows_of, truth
from spfgen.sets.affine import NotAffine, affine

CHUNK = 1 << 18
"""So many instances are looked at together."""


@dataclass(frozen=True)
class Data:
    """`arrays` are int64; `sizes` has all parameters and sizes."""

    layout: Layout
    sizes: Mapping[str, int]
    arrays: Mapping[str, Array]


@dataclass(frozen=True)
class Broken:
    """An instance that does not hold: the values of the fact's variables."""

    values: Mapping[str, int]


def error_of(data: Data, array: str, fact: Property, body: Formula, values: Mapping[str, int]) -> DataError:
    """What is wrong at an instance that does not hold: array, places, values and the property as it was written."""
    shown = _shown_calls(data, array, body, values)
    return DataError(
        f"expected the array `{array}` of layout `{data.layout.name}` to satisfy `{fact.text}`, but {shown}",
        None,
        (f"that is `{show(fact.formula)}`",) if show(fact.formula) != fact.text else (),
    )


def satisfied(data: Data, body: Formula, columns: Columns, count: int, outside: bool) -> Array:
    """Whether the formula holds in each row; bool[count]. Rows with a call outside its array get `outside`."""
    valid = np.ones(count, dtype=bool)
    everything = {**data.sizes, **columns}

    def value(expr: Expr) -> Any:
        result, good = rows_of(expr, everything, data.arrays, count)
        valid[...] &= good
        return result

    def quantified(part: Formula) -> Array:
        return _quantified(data, part, columns, count)

    holds = np.broadcast_to(np.asarray(truth(body, value, quantified)), (count,))
    return np.where(valid, holds, outside)


def _quantified(data: Data, part: Formula, columns: Columns, count: int) -> Array:
    """`forall` or `exists` inside a body: all values of its variables for each row; bool[count]."""
    assert isinstance(part, Forall | Exists)
    domain = domain_of(data, part.variables, part.body)
    if domain is None:
        raise DataError(f"cannot check `{show(part)}`: a variable in it is not the argument of an array")
    width = _grid_size(domain)
    wide = {n: np.repeat(c, width) for n, c in columns.items()}
    wide |= {n: np.tile(c, count) for n, c in _grid(domain, 0, width).items()}
    every = isinstance(part, Forall)
    holds = satisfied(data, part.body, wide, count * width, every).reshape(count, width)
    return np.asarray(holds.all(axis=1) if every else holds.any(axis=1))


def _shown_calls(data: Data, array: str, body: Formula, values: Mapping[str, int]) -> str:
    """`colidx(3) = 5 and colidx(4) = 2`: the calls of an instance with their values, the array's own first."""
    texts: list[str] = []
    columns = {**data.sizes, **values}
    for call in sorted(calls(body), key=lambda c: c.function != array):
        if any(set(variables(a)) - set(columns) for a in call.arguments):
            continue
        at = [rows_of(a, columns, data.arrays, 1)[0] for a in call.arguments]
        value, good = rows_of(call, columns, data.arrays, 1)
        text = f"{call.function}({', '.join(str(int(np.asarray(a).reshape(-1)[0])) for a in at)}) = {int(value[0])}"
        if good[0] and text not in texts:
            texts.append(text)
    if not texts:
        return "it does not hold" + (" for " + ", ".join(f"{n} = {v}" for n, v in values.items()) if values else "")
    used = sorted({v for v in variables(body) if v in data.sizes})
    texts += [f"{n} = {data.sizes[n]}" for n in used]
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]


def broken_one_by_one(data: Data, names: tuple[str, ...], body: Formula) -> Broken | bool | None:
    """The first instance of all that does not hold; None when all hold, False when a variable has no bounds."""
    domain = domain_of(data, names, body)
    if domain is None:
        return False
    grid = _grid_size(domain)
    width = max(1, CHUNK // _inner_size(data, body))
    for start in range(0, grid, width):
        count = min(width, grid - start)
        columns = _grid(domain, start, count)
        good = satisfied(data, body, columns, count, True)
        if not good.all():
            row = int(np.argmin(good))
            return Broken({n: int(c[row]) for n, c in columns.items()})
    return None


def number_of_instances(data: Data, names: tuple[str, ...], body: Formula) -> int:
    """How many instances `broken_one_by_one` looks at."""
    domain = domain_of(data, names, body)
    return 0 if domain is None else _grid_size(domain) * _inner_size(data, body)


def domain_of(data: Data, names: tuple[str, ...], body: Formula) -> dict[str, tuple[int, int]] | None:
    """For each variable the values (low, end) for which every call of it alone can be inside its array.

    None when a variable is no such argument.
    """
    result: dict[str, tuple[int, int]] = {}
    for call in calls(body):
        for argument, extent in zip(call.arguments, data.arrays[call.function].shape, strict=True):
            allowed = _allowed(argument, extent, names, data.sizes)
            if allowed is not None:
                name, low, end = allowed
                before = result.get(name, (low, end))
                result[name] = (max(low, before[0]), min(end, before[1]))
    if set(result) != set(names):
        return None
    return {n: (result[n][0], max(result[n])) for n in names}


def _allowed(
    argument: Expr, extent: int, names: tuple[str, ...], sizes: Mapping[str, int]
) -> tuple[str, int, int] | None:
    """(variable, low, end): where an affine argument of one variable is within the extent."""

    def no_call(call: Call) -> str:
        raise NotAffine(call)

    try:
        value = affine(argument, no_call)
    except NotAffine:
        return None
    used = value.names() & set(names)
    if len(used) != 1 or value.names() - used - set(sizes):
        return None
    name = used.pop()
    factor, others = value.coefficient(name), value.without(name)
    if not factor or name in others.names():
        return None
    start = int(affine_value(others, sizes))
    if factor > 0:
        return name, -(start // factor), (extent - 1 - start) // factor + 1
    return name, -((extent - 1 - start) // -factor), start // -factor + 1


def _grid_size(domain: Mapping[str, tuple[int, int]]) -> int:
    size = 1
    for low, end in domain.values():
        size *= max(0, end - low)
    return size


def _grid(domain: Mapping[str, tuple[int, int]], start: int, count: int) -> dict[str, Array]:
    """The instances start, start + 1, ... of the product of the domains, the last variable running fastest."""
    number = np.arange(start, start + count, dtype=np.int64)
    columns: dict[str, Array] = {}
    for name, (low, end) in reversed(list(domain.items())):
        number, place = np.divmod(number, max(1, end - low))
        columns[name] = place + low
    return columns


def _inner_size(data: Data, body: Formula) -> int:
    """At most so many instances of quantifiers inside the body are looked at for one row."""
    size = 1
    for node in walk(body):
        if isinstance(node, Forall | Exists):
            size *= max(1, _grid_size(domain_of(data, node.variables, node.body) or {}))
    return size

"""Whether concrete arrays satisfy what a layout declares: shapes, ranges, properties. In linear time where possible.

A property of two ordered variables, `forall p < q : ...`, is checked for neighbours; where it has conditions
`f(p) = f(q)` the neighbours are those among equal values of f. That implies the property when its conclusion is
transitive, as orders are. Small arrays are checked for all values of all variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spfgen.errors import DataError
from spfgen.facts.formula import (
    Call,
    Compare,
    Exists,
    Expr,
    Forall,
    Formula,
    Not,
    Or,
    Var,
    calls,
    conjuncts,
    rename,
    show,
    variables,
)
from spfgen.ir import walk
from spfgen.layout.nodes import IndexArray, Layout, Property, ValueArray
from spfgen.layout.points import (
    Array,
    Columns,
    affine_value,
    expanded,
    rows_of,
    shape_of,
    sorted_order,
    truth,
)
from spfgen.sets.affine import NotAffine, affine

SMALL = 2_000_000
"""So many instances of a property are always checked one by one."""

LARGE = 50_000_000
"""So many instances are checked one by one when there is no faster way."""

CHUNK = 1 << 18


@dataclass(frozen=True)
class _Data:
    """`arrays` are int64; `sizes` has all parameters and sizes."""

    layout: Layout
    sizes: Mapping[str, int]
    arrays: Mapping[str, Array]


def check_arrays(
    layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array], thorough: bool = False
) -> tuple[Property, ...]:
    """Check index arrays (integers) against extents, ranges and properties, and value arrays that are given
    against their extents. `thorough` tries all instances of every property, which can take quadratic time.

    Returns the properties that were checked for neighbours only although that may not imply them, or that were
    not checked because there are too many instances. Raises DataError with array, places, values and property.
    """
    _check_sizes(layout, sizes)
    _check_shapes(layout, sizes, arrays)
    indexes = {a.name: np.asarray(arrays[a.name]).astype(np.int64, copy=False) for a in layout.indexes}
    data = _Data(layout, sizes, indexes)
    partly: list[Property] = []
    for kind in ("ranges", "properties"):
        for index in layout.indexes:
            for fact in getattr(index, kind):
                complete = _check_fact(data, index, fact, thorough)
                if not complete:
                    partly.append(fact)
    return tuple(partly)


def violation(layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> str | None:
    """What the arrays break, with every instance tried; None when all is well."""
    try:
        check_arrays(layout, sizes, arrays, thorough=True)
    except DataError as error:
        return error.message
    return None


# --- sizes and shapes -----------------------------------------------------------------------------------


def _check_sizes(layout: Layout, sizes: Mapping[str, int]) -> None:
    for name in (*layout.parameters, *layout.sizes):
        if name not in sizes:
            raise DataError(f"expected the size `{name}` of layout `{layout.name}`, but it is missing")
        if sizes[name] < 0:
            raise DataError(f"expected a size `{name}` of at least 0, but it is {sizes[name]}")


def _check_shapes(layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> None:
    for index in layout.indexes:
        if index.name not in arrays:
            raise DataError(f"expected the array `{index.name}` of layout `{layout.name}`, but it is missing")
        array = np.asarray(arrays[index.name])
        if array.dtype.kind not in "iu":
            raise DataError(f"expected integers in the array `{index.name}`, but they are {array.dtype}")
        _check_shape(layout, index, array, sizes)
    for value in layout.values:
        if value.name in arrays:
            _check_shape(layout, value, np.asarray(arrays[value.name]), sizes)


def _check_shape(layout: Layout, declared: IndexArray | ValueArray, array: Array, sizes: Mapping[str, int]) -> None:
    wanted = shape_of(declared.extents, sizes)
    if array.shape == wanted:
        return
    text = f"{declared.name}[{', '.join(show(e) for e in declared.extents)}]"
    names = sorted({v for e in declared.extents for v in variables(e)})
    where = ", ".join(f"{n} = {sizes[n]}" for n in names)
    raise DataError(
        f"expected the array `{declared.name}` of layout `{layout.name}` with shape {wanted}, "
        f"but it has shape {array.shape}",
        None,
        (f"the layout says `{text}`" + (f" with {where}" if where else ""),),
    )


# --- facts ----------------------------------------------------------------------------------------------


def _check_fact(data: _Data, index: IndexArray, fact: Property, thorough: bool) -> bool:
    """Raises DataError for an instance that does not hold. Returns whether all of them are known to hold."""
    names, body = _opened(fact.formula)
    domain = _domain(data, names, body)
    if domain is None:
        return False
    grid = _grid_size(domain)
    linear = 2 * sum(data.arrays[f].size for f in {c.function for c in calls(body)})
    pairs = None if thorough or grid <= max(SMALL, linear) else _pairs(names, body)
    if pairs is not None:
        for columns, count in _neighbours(data, pairs, names, domain):
            _check_instances(data, index, fact, body, columns, count)
        return pairs.complete
    if grid > max(LARGE, linear) and not thorough:
        return False
    width = max(1, CHUNK // _inner_size(data, body))
    for start in range(0, grid, width):
        count = min(width, grid - start)
        _check_instances(data, index, fact, body, _grid(domain, start, count), count)
    return True


def _opened(formula: Formula) -> tuple[tuple[str, ...], Formula]:
    """The variables of the leading `forall`s, and what is below."""
    names: tuple[str, ...] = ()
    while isinstance(formula, Forall):
        names += formula.variables
        formula = formula.body
    return names, formula


def _domain(data: _Data, names: tuple[str, ...], body: Formula) -> dict[str, tuple[int, int]] | None:
    """For each variable the values (low, end) for which every call of it alone can be inside its array.

    None when a variable is no such argument.
    """
    result: dict[str, tuple[int, int]] = {}
    for call in calls(body):
        for argument, extent in zip(call.arguments, data.arrays[call.function].shape, strict=True):
            found = _allowed(argument, extent, names, data.sizes)
            if found is not None:
                name, low, end = found
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
    factor, rest = value.coefficient(name), value.without(name)
    if not factor or name in rest.names():
        return None
    start = int(affine_value(rest, sizes))
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
    rest = np.arange(start, start + count, dtype=np.int64)
    columns: dict[str, Array] = {}
    for name, (low, end) in reversed(list(domain.items())):
        rest, place = np.divmod(rest, max(1, end - low))
        columns[name] = place + low
    return columns


def _inner_size(data: _Data, body: Formula) -> int:
    """At most so many instances of quantifiers inside the body are looked at for one row."""
    size = 1
    for node in walk(body):
        if isinstance(node, Forall | Exists):
            size *= max(1, _grid_size(_domain(data, node.variables, node.body) or {}))
    return size


def _check_instances(
    data: _Data, index: IndexArray, fact: Property, body: Formula, columns: Columns, count: int
) -> None:
    good = _satisfied(data, body, columns, count, True)
    if good.all():
        return
    row = int(np.argmin(good))
    values = {n: int(c[row]) for n, c in columns.items()}
    shown = _shown_calls(data, index, body, values)
    raise DataError(
        f"expected the array `{index.name}` of layout `{data.layout.name}` to satisfy `{fact.text}`, but {shown}",
        None,
        (f"that is `{show(fact.formula)}`",) if show(fact.formula) != fact.text else (),
    )


def _satisfied(data: _Data, body: Formula, columns: Columns, count: int, outside: bool) -> Array:
    """Whether the formula holds in each row; bool[count]. Rows with a call outside its array get `outside`."""
    valid = np.ones(count, dtype=bool)
    everything = {**data.sizes, **columns}

    def value(expr: Expr) -> Any:
        result, good = rows_of(expr, everything, data.arrays, count)
        valid[...] &= good
        return result

    def quantified(part: Formula) -> Array:
        return _quantified(data, part, columns, count)

    found = np.broadcast_to(np.asarray(truth(body, value, quantified)), (count,))
    return np.where(valid, found, outside)


def _quantified(data: _Data, part: Formula, columns: Columns, count: int) -> Array:
    """`forall` or `exists` inside a body: all values of its variables for each row; bool[count]."""
    assert isinstance(part, Forall | Exists)
    domain = _domain(data, part.variables, part.body)
    if domain is None:
        raise DataError(f"cannot check `{show(part)}`: a variable in it is not the argument of an array")
    width = _grid_size(domain)
    wide = {n: np.repeat(c, width) for n, c in columns.items()}
    wide |= {n: np.tile(c, count) for n, c in _grid(domain, 0, width).items()}
    every = isinstance(part, Forall)
    found = _satisfied(data, part.body, wide, count * width, every).reshape(count, width)
    return np.asarray(found.all(axis=1) if every else found.any(axis=1))


def _shown_calls(data: _Data, index: IndexArray, body: Formula, values: Mapping[str, int]) -> str:
    """`colidx(3) = 5 and colidx(4) = 2`: the calls of an instance with their values, the array's own first."""
    texts: list[str] = []
    columns = {**data.sizes, **values}
    for call in sorted(calls(body), key=lambda c: c.function != index.name):
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


# --- pairs of neighbours --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pairs:
    """A property of `first` and `second`: where they lie, what is equal at both, and whether neighbours suffice."""

    first: str
    second: str
    ordered: bool
    reflexive: bool
    keys: tuple[Expr, ...]
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    complete: bool


def _pairs(names: tuple[str, ...], body: Formula) -> _Pairs | None:
    """Read `conditions => conclusion` of two variables that are ordered, or that are equal by the conclusion."""
    conditions, conclusions = _split(body)
    ordered = _ordered(conditions, names) or _identified(conclusions, names)
    if ordered is None:
        return None
    first, second, op = ordered
    renaming = {first: second}
    keys: list[Expr] = []
    low: list[tuple[str, Expr]] = []
    high: list[tuple[str, Expr]] = []
    other = 0
    for condition in conditions:
        match condition:
            case Compare("=", a, b) if a != b and (_moved(a, b, renaming) or _moved(b, a, renaming)):
                keys.append(a if _moved(a, b, renaming) else b)
            case Compare("<=", a, Var(n)) if n in (first, second) and not variables(a) & {first, second}:
                low.append((n, a))
            case Compare("<", Var(n), b) if n in (first, second) and not variables(b) & {first, second}:
                high.append((n, b))
            case Compare(_, Var(a), Var(b)) if {a, b} == {first, second}:
                pass
            case _:
                other += not _handed_down(condition, conclusions, first, second)
    if op == "=" and not keys:
        return None
    lows, highs = _common(low, first, second, op), _common(high, second, first, op)
    other += len(low) + len(high) - (1 if op != "=" else 2) * (len(lows) + len(highs))
    complete = not other and all(_transitive(c, first, second) for c in conclusions)
    return _Pairs(first, second, op != "=", op == "<=", tuple(keys), lows, highs, complete)


def _common(found: list[tuple[str, Expr]], nearer: str, farther: str, op: str) -> tuple[Expr, ...]:
    """Bounds of both variables: of the nearer one where they are ordered, else those that both have."""
    own = [e for n, e in found if n == nearer]
    return tuple(e for e in own if op != "=" or (farther, e) in found)


def _split(body: Formula) -> tuple[list[Formula], list[Formula]]:
    """(conditions, alternatives of the conclusion); a conclusion `a != b` is a condition `a = b`."""
    conditions: list[Formula] = []
    conclusions: list[Formula] = []
    for part in body.parts if isinstance(body, Or) else (body,):
        match part:
            case Not(inner):
                conditions += conjuncts(inner)
            case Or():
                more, rest = _split(part)
                conditions += more
                conclusions += rest
            case Compare("!=", left, right):
                conditions.append(Compare("=", left, right))
            case _:
                conclusions.append(part)
    return conditions, conclusions


def _ordered(conditions: list[Formula], names: tuple[str, ...]) -> tuple[str, str, str] | None:
    for condition in conditions:
        match condition:
            case Compare("<" | "<=" as op, Var(a), Var(b)) if a in names and b in names:
                return a, b, op
            case Compare(">" | ">=" as op, Var(a), Var(b)) if a in names and b in names:
                return b, a, "<" if op == ">" else "<="
    return None


def _identified(conclusions: list[Formula], names: tuple[str, ...]) -> tuple[str, str, str] | None:
    match conclusions:
        case [Compare("=", Var(a), Var(b))] if a in names and b in names:
            return a, b, "="
    return None


def _moved(a: Expr, b: Expr, renaming: Mapping[str, str]) -> bool:
    """Whether `b` is `a` at the second variable."""
    return bool(rename(a, renaming) == b)


def _handed_down(condition: Formula, conclusions: list[Formula], first: str, second: str) -> bool:
    """Whether a condition on the second variable is part of the conclusion for the first one.

    Then it holds step by step from a place down to all places before it.
    """
    if variables(condition) & {first, second} != {second} or len(conclusions) != 1:
        return False
    wanted = _turned(rename(condition, {second: first}))
    return any(_turned(part) == wanted for part in conjuncts(conclusions[0]))


def _turned(formula: Formula) -> Formula:
    """A comparison that says greater, turned round to say less."""
    match formula:
        case Compare(">" | ">=" as op, left, right):
            return Compare("<" if op == ">" else "<=", right, left)
    return formula


def _transitive(conclusion: Formula, first: str, second: str) -> bool:
    """Whether it holds for all pairs when it holds for neighbours."""
    for part in conjuncts(conclusion):
        if not {first, second} <= variables(part):
            continue
        match part:
            case Compare("=", Var(a), Var(b)) if {a, b} == {first, second}:
                continue
            case Compare("<" | "<=" | "=" | ">" | ">=", a, b) if _moved(a, b, {first: second}) or _moved(
                b, a, {first: second}
            ):
                continue
        return False
    return True


def _neighbours(
    data: _Data, pairs: _Pairs, names: tuple[str, ...], domain: Mapping[str, tuple[int, int]]
) -> Iterator[tuple[dict[str, Array], int]]:
    """(columns of all variables, number of rows): the instances for which it is enough to check the property."""
    others = {n: domain[n] for n in names if n not in (pairs.first, pairs.second)}
    ends = [domain[pairs.first], domain[pairs.second]]
    low, end = min(e[0] for e in ends), max(e[1] for e in ends)
    outer = _grid_size(others)
    width = outer if pairs.low or pairs.high else max(1, CHUNK * 4 // max(1, end - low))
    for start in range(0, outer, max(1, width)):
        count = min(width, outer - start)
        fixed = _grid(others, start, count)
        first, last = _segments(data, pairs, fixed, count, low, end)
        for a, b in _blocks(np.maximum(last - first, 0)):
            row, place = expanded(first[a:b], np.maximum(last[a:b] - first[a:b], 0))
            yield from _row_pairs(data, pairs, {n: c[a:b] for n, c in fixed.items()}, row, place)


def _segments(data: _Data, pairs: _Pairs, fixed: Columns, count: int, low: int, end: int) -> tuple[Array, Array]:
    """(first, end) of the places for each instance of the other variables; int64[count] each."""
    columns = {**data.sizes, **fixed}
    first = np.full(count, low, dtype=np.int64)
    last = np.full(count, end, dtype=np.int64)
    for expr in pairs.low:
        value, good = rows_of(expr, columns, data.arrays, count)
        first = np.where(good, np.maximum(first, value), last)
    for expr in pairs.high:
        value, good = rows_of(expr, columns, data.arrays, count)
        last = np.where(good, np.minimum(last, value), first)
    return first, last


def _blocks(lengths: Array) -> Iterator[tuple[int, int]]:
    """Ranges of rows that together have a bounded total length (or are a single row)."""
    total = np.concatenate([[0], np.cumsum(lengths)])
    start = 0
    while start < len(lengths):
        end = int(np.searchsorted(total, total[start] + 16 * CHUNK, side="right")) - 1
        end = max(end, start + 1)
        yield start, end
        start = end


def _row_pairs(
    data: _Data, pairs: _Pairs, fixed: Columns, row: Array, place: Array
) -> Iterator[tuple[dict[str, Array], int]]:
    count = len(place)
    columns = {n: c[row] for n, c in fixed.items()}
    at_place = {**data.sizes, **columns, pairs.first: place}
    order = None
    keys = []
    for key in pairs.keys:
        value, good = rows_of(key, at_place, data.arrays, count)
        keys += [np.broadcast_to(good.astype(np.int64), (count,)), np.broadcast_to(value, (count,))]
    if keys:
        order = sorted_order([row, *keys], count)
    if order is not None:
        row, place = row[order], place[order]
        columns = {n: c[order] for n, c in columns.items()}
    if pairs.reflexive:
        yield {**columns, pairs.first: place, pairs.second: place}, count
    same = np.flatnonzero(row[1:] == row[:-1])
    here = {n: c[same] for n, c in columns.items()}
    yield {**here, pairs.first: place[same], pairs.second: place[same + 1]}, len(same)
    if not pairs.ordered:
        yield {**here, pairs.first: place[same + 1], pairs.second: place[same]}, len(same)

"""What a kernel means, in numpy: the oracle for compiled kernels. Knows no sets, plans or C.

Statements run in order; `=` clears the target first, `+=` adds. Sums and differences are split and products
multiplied out. A term is added at its target once for every integer point (a value of each index that occurs
in the subscripts of the target or the term) for which

  - every index that stands alone as a subscript anywhere in the statement lies within that extent,
  - every subscript lies within the extent of its tensor, that of the target too,
  - the condition after `where` holds,
  - every sparse operand, and a sparse target, stores the coordinate (explicit zeros count as stored).

So what is not stored contributes nothing, even beside inf or nan. `y[i] = y[i] + ...` means `y[i] += ...`.

Extents in which one index stands alone agree; of an index that one access repeats (`A[i, i]`) the least extent counts.

Other values (with `sum`, a division by a tensor, or the target on the right) are expressions: every point of the
target gets the value of its expression, in which sums, and accesses that are not stored, are 0 where nothing is added.
`sum(j < i: ...)` runs over its own index, in each of its terms: of a term without that index it is a multiple. A
product is summed over the indices that the target does not have, and so is a quotient whose divisor has such an
index. The target at the point itself has the value from before the statement, and at any other point the one that
the statement gives it: the values are those that satisfy all these equations, found by repetition. Values (none of
whose operations numpy makes in another type) are combined in numpy's promotion of the target and all operands (and
float64, if the target is not floating and there is a division or a number with a point) and at last cast to the type
of the target. Booleans add by `or`, multiply by `and`; as in numpy they have no difference.

The points are the rows of a table, one column per index: sparse operands are joined to it one after another,
and an index that remains unknown runs, in every row, over the range that subscripts and conditions leave it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from spfgen.facts.formula import (
    TRUE,
    And,
    Bin,
    Compare,
    Expr,
    Formula,
    Not,
    Num,
    Or,
    Var,
    apply_operator,
    conjunction,
    conjuncts,
    show,
    substitute,
    variables,
    within,
)
from spfgen.facts.formula import evaluate as evaluate_expr
from spfgen.ir import walk
from spfgen.lang.nodes import Access, Apply, Constant, Kernel, Reduce, Statement, Value
from spfgen.lang.ops import ufunc
from spfgen.lang.show import show_statement

Array = npt.NDArray[Any]
CHUNK = 1 << 21
"""At most so many rows are made at a time."""


@dataclass(frozen=True, eq=False)
class Stored:
    """A list of stored coordinates, one array per dimension, and their values. The values of equal coordinates add up,
    truth values to whether one is true."""

    shape: tuple[int, ...]
    coords: tuple[Array, ...]
    values: Array


Tensor = Stored | Array


@dataclass(frozen=True, eq=False)
class _Table:
    """Points: in every row the values of the indices known so far and the entries of joined operands."""

    rows: int
    columns: Mapping[str, Array]

    def take(self, rows: Array) -> _Table:
        """The rows with these numbers, or those where the mask is true."""
        count = int(np.count_nonzero(rows)) if rows.dtype == np.bool_ else len(rows)
        return _Table(count, {n: c[rows] for n, c in self.columns.items()})

    def with_columns(self, columns: Mapping[str, Array]) -> _Table:
        return _Table(self.rows, {**self.columns, **columns})


@dataclass(frozen=True, eq=False)
class _Operand:
    """A sparse tensor that takes part in a join; its sorted keys, by the dimensions that are known then."""

    label: str
    subscripts: tuple[Expr, ...]
    tensor: Stored
    sorted: dict[tuple[int, ...], _Sorted] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Sorted:
    """`order` sorts the entries by key. `ranks` keep keys small: see `_key`."""

    extents: tuple[int, ...]
    ranks: list[Array | None]
    keys: Array
    order: Array


@dataclass(frozen=True, eq=False)
class _Run:
    """In each row, index `name` has the values `start`, ..., `start + count - 1`."""

    name: str
    start: Array
    count: Array
    total: int


Limit = Any
"""An end of an interval: a number, one number per row, or None for infinity."""


@dataclass(frozen=True)
class _Range:
    """low <= sum of coefficient*name <= high."""

    coefficients: Mapping[str, int]
    low: int | None
    high: int | None


# --- kernels and statements --------------------------------------------------------------------------


def evaluate(
    program: Kernel | Statement | Sequence[Statement],
    tensors: Mapping[str, Stored | npt.ArrayLike],
    sizes: Mapping[str, int] | None = None,
) -> dict[str, Tensor]:
    """The targets of a kernel after it has run; nothing in `tensors` is modified.

    `tensors` holds every tensor and scalar, the targets too: an array is dense, `Stored` is sparse. A sparse
    target is computed at its stored coordinates only, which come back in the same order. `sizes` are names in
    subscripts and conditions that are not indices; those in declared extents of a kernel need not be given.
    Raises ValueError where the statements have no meaning for these tensors.
    """
    statements = _statements(program)
    current: dict[str, Tensor] = {n: _checked(n, t) for n, t in tensors.items()}
    current |= {n: _added(t) for n, t in current.items() if n not in {s.target.tensor for s in statements}}
    known = _known_sizes(program, current, sizes or {})
    _check_accesses(statements, current, known)
    for statement in statements:
        current[statement.target.tensor] = _execute(statement, current, known)
    return {s.target.tensor: current[s.target.tensor] for s in statements}


def _statements(program: Kernel | Statement | Sequence[Statement]) -> tuple[Statement, ...]:
    match program:
        case Kernel():
            return program.statements
        case Statement():
            return (program,)
    return tuple(program)


def _checked(name: str, tensor: Stored | npt.ArrayLike) -> Tensor:
    """A tensor with numpy arrays throughout."""
    if not isinstance(tensor, Stored):
        return np.asarray(tensor)
    shape = tuple(int(n) for n in tensor.shape)
    coords = tuple(np.asarray(c, dtype=np.int64) for c in tensor.coords)
    values = np.asarray(tensor.values)
    if len(coords) != len(shape) or any(c.shape != values.shape for c in coords) or values.ndim != 1:
        raise ValueError(f"{name}: expected one coordinate per dimension and value, but the lengths differ")
    if any(np.any((c < 0) | (c >= n)) for c, n in zip(coords, shape, strict=True)):
        raise ValueError(f"{name}: expected coordinates within {shape}, but some are not")
    return Stored(shape, coords, values)


def _added(tensor: Tensor) -> Tensor:
    """The tensor with the truth values of a coordinate as one, true where one of them is. Numbers of a coordinate may
    be added where they are read; truth values would be counted there if they are added to numbers."""
    if not isinstance(tensor, Stored) or tensor.values.dtype != np.bool_ or not tensor.coords:
        return tensor
    coords, first = np.unique(np.stack(tensor.coords), axis=1, return_inverse=True)
    values = np.zeros(coords.shape[1], np.bool_)
    np.logical_or.at(values, first.reshape(-1), tensor.values)
    return Stored(tensor.shape, tuple(coords), values)


def _known_sizes(
    program: Kernel | Statement | Sequence[Statement], tensors: Mapping[str, Tensor], sizes: Mapping[str, int]
) -> dict[str, int]:
    """The given sizes and those that the declared extents name."""
    result = {n: int(v) for n, v in sizes.items()}
    if not isinstance(program, Kernel):
        return result
    for declaration in program.tensors:
        if declaration.extents is None or declaration.name not in tensors:
            continue
        shape = tensors[declaration.name].shape
        _check_rank(declaration.name, shape, declaration.extents)
        for extent, actual in zip(declaration.extents, shape, strict=True):
            expected = result.setdefault(extent.name, actual) if isinstance(extent, Var) else actual
            if expected != actual or (isinstance(extent, Num) and extent.value != actual):
                raise ValueError(f"{declaration.name}: expected extent {show(extent)}, not {actual}")
    missing = [n for n in program.sizes if n not in result]
    if missing:
        raise ValueError(f"expected a number for size {', '.join(missing)}")
    return result


def _check_accesses(statements: Sequence[Statement], tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> None:
    """Every tensor is there and has its rank; the extents of an index agree within a statement."""
    for statement in statements:
        for access in _all_accesses(statement):
            if access.tensor not in tensors:
                raise ValueError(f"expected tensor {access.tensor}, but it is not given")
            _check_rank(access.tensor, tensors[access.tensor].shape, access.subscripts)
        _ranges_of(statement, tensors, sizes)


def _all_accesses(statement: Statement) -> list[Access]:
    return [statement.target, *_accesses(statement.value)]


def _ranges_of(statement: Statement, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> dict[str, int]:
    """The extent of each index that stands alone as a subscript: within an access the least, and one for all."""
    found: dict[str, int] = {}
    for access in _all_accesses(statement):
        own: dict[str, int] = {}
        for subscript, extent in zip(access.subscripts, tensors[access.tensor].shape, strict=True):
            if isinstance(subscript, Var) and subscript.name not in sizes:
                own[subscript.name] = min(extent, own.get(subscript.name, extent))
        for index, extent in own.items():
            before = found.setdefault(index, extent)
            if before != extent:
                raise ValueError(f"{access.tensor}: expected extent {before} of {index}, not {extent}")
    return found


def _check_rank(name: str, shape: tuple[int, ...], subscripts: Sequence[Expr]) -> None:
    if len(shape) != len(subscripts):
        raise ValueError(f"{name}: expected {len(subscripts)} dimensions, not {len(shape)}")


def _is(node: Any, op: str) -> bool:
    return isinstance(node, Apply) and node.op == op


def _accesses(value: Value) -> list[Access]:
    return [n for n in walk(value) if isinstance(n, Access)]


def _execute(statement: Statement, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> Tensor:
    """The target after the statement."""
    if _is_expression(statement):
        return _execute_expression(statement, tensors, sizes)
    target = tensors[statement.target.tensor]
    terms = list(_terms(statement.value))
    ranges = _ranges_of(statement, tensors, sizes)
    clears = statement.op == "="
    if clears and terms.count(statement.target) == 1:
        terms.remove(statement.target)
        clears = False
    old = target.values if isinstance(target, Stored) else target
    dtype = _combined_type(statement, tensors)
    _check_signs(statement, dtype)
    result = np.zeros(old.size, dtype) if clears else old.astype(dtype).reshape(-1)
    with np.errstate(all="ignore"):
        for term in terms:
            _add_term(result, statement, term, tensors, sizes, ranges)
        new = _cast(result, old.dtype)
    return Stored(target.shape, target.coords, new) if isinstance(target, Stored) else new.reshape(old.shape)


def _is_expression(statement: Statement) -> bool:
    """Whether the value is more than a sum of products."""
    nodes = list(walk(statement.value))
    if any(isinstance(n, Reduce) for n in nodes):
        return True
    if any(a.subscripts for n in nodes if _is(n, "divide") for a in _accesses(n.arguments[1])):
        return True
    terms = list(_terms(statement.value))
    if statement.op == "=" and terms.count(statement.target) == 1:
        terms.remove(statement.target)
    return any(a.tensor == statement.target.tensor for t in terms for a in _accesses(t))


def _execute_expression(statement: Statement, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> Tensor:
    """The target after the statement: what is read of it is repeated until it does not change."""
    name, target = statement.target.tensor, tensors[statement.target.tensor]
    old = (target.values if isinstance(target, Stored) else target).reshape(-1)
    dtype = _combined_type(statement, tensors)
    _check_signs(statement, dtype)
    ranges = _ranges_of(statement, tensors, sizes)
    keeps = statement.op == "+=" or any(n == statement.target for n in walk(statement.value))
    current = old
    with np.errstate(all="ignore"):
        reached = np.zeros(old.size, np.int64)
        _add_term(reached, statement, Constant(1), tensors, sizes, ranges)
        for _ in range(old.size + 2):
            held = Stored(target.shape, target.coords, current) if isinstance(target, Stored) else current
            held = held if isinstance(held, Stored) else held.reshape(np.shape(target))
            found = _Expression(statement, {**tensors, name: held}, sizes, ranges, old.astype(dtype), dtype)
            value = found.value(statement.value)
            if statement.op == "+=":
                value = value + old.astype(dtype)
            rest = old if keeps else np.zeros_like(old)
            new = np.where(reached > 0, _cast(np.broadcast_to(value, old.shape), old.dtype), rest)
            same = np.array_equal(new, current, equal_nan=new.dtype.kind in "fc")
            current = new
            if same:
                break
        else:
            raise ValueError(f"{name}: expected values that follow from one another, but they need each other")
    return Stored(target.shape, target.coords, current) if isinstance(target, Stored) else current.reshape(target.shape)


@dataclass(frozen=True, eq=False)
class _Expression:
    """Values of a statement's parts, one for each entry of the target."""

    statement: Statement
    tensors: Mapping[str, Tensor]
    sizes: Mapping[str, int]
    ranges: Mapping[str, int]
    old: Array
    dtype: np.dtype[Any]

    def value(self, value: Value) -> Array:
        match value:
            case Constant(number):
                return np.asarray(number).astype(self.dtype)
            case Access() if value == self.statement.target:
                return self.old
            case Access() | Reduce():
                return self.total(value)
            case Apply("multiply") if self.free(value):
                return self.total(value)
            case Apply("divide", (_, divisor)) if self.free(divisor):
                return self.total(value)
            case Apply(op, arguments):
                return np.asarray(ufunc(op)(*map(self.value, arguments)))
        raise ValueError(f"no meaning for {value!r}")

    def free(self, value: Value) -> set[str]:
        """The indices over which a product or a quotient is summed."""
        own = {n for s in self.statement.target.subscripts for n in variables(s)} | set(self.sizes)
        bound = {i for n in walk(value) if isinstance(n, Reduce) for i in n.indices}
        return {n for a in _accesses(value) for s in a.subscripts for n in variables(s)} - own - bound

    def total(self, value: Value) -> Array:
        """The sum of the value's terms at each entry of the target."""
        result = np.zeros(self.old.size, self.dtype)
        for part in _conditional(value):
            own = replace(self.statement, where=conjunction(part.where) if part.where else None)
            _add_term(result, own, part.value, self.tensors, self.sizes, self.ranges, part.over)
        return result


@dataclass(frozen=True)
class _Part:
    """A term of a value with sums in it: the conditions and the indices of the sums around it."""

    value: Value
    where: tuple[Formula, ...] = ()
    over: tuple[str, ...] = ()


def _conditional(value: Value) -> Iterator[_Part]:
    """The terms of a value with sums in it."""
    match value:
        case Reduce("add", indices, inner, where):
            for part in _conditional(inner):
                conditions = part.where if where is None else (where, *part.where)
                yield _Part(part.value, conditions, (*indices, *part.over))
        case Apply("add", (left, right)):
            yield from _conditional(left)
            yield from _conditional(right)
        case Apply("subtract", (left, right)):
            yield from _conditional(left)
            yield from (replace(p, value=Apply("negative", (p.value,))) for p in _conditional(right))
        case Apply("multiply", (left, right)):
            for a, b in product(list(_conditional(left)), list(_conditional(right))):
                yield _Part(Apply("multiply", (a.value, b.value)), (*a.where, *b.where), (*a.over, *b.over))
        case Apply("divide", (left, right)):
            yield from (replace(p, value=Apply("divide", (p.value, right))) for p in _conditional(left))
        case Apply("negative", (inner,)):
            yield from (replace(p, value=Apply("negative", (p.value,))) for p in _conditional(inner))
        case _:
            yield _Part(value)


def _combined_type(statement: Statement, tensors: Mapping[str, Tensor]) -> np.dtype[Any]:
    names = {statement.target.tensor, *(a.tensor for a in _accesses(statement.value))}
    kinds = [_type(tensors[n]) for n in sorted(names)]
    fractional = any(
        n.op == "divide" if isinstance(n, Apply) else isinstance(n, Constant) and isinstance(n.value, float)
        for n in walk(statement.value)
    )
    if fractional and _type(tensors[statement.target.tensor]).kind not in "fc":
        kinds.append(np.dtype(np.float64))
    return np.result_type(*kinds)


def _check_signs(statement: Statement, dtype: np.dtype[Any]) -> None:
    if dtype.kind == "b" and any(_is(n, "subtract") or _is(n, "negative") for n in walk(statement.value)):
        raise ValueError(f"{statement.target.tensor}: booleans have no difference")


def _type(tensor: Tensor) -> np.dtype[Any]:
    return tensor.values.dtype if isinstance(tensor, Stored) else tensor.dtype


def _cast(values: Array, dtype: np.dtype[Any]) -> Array:
    """As in C: complex to real drops the imaginary part."""
    if values.dtype.kind == "c" and dtype.kind not in "cb":
        values = values.real
    return values.astype(dtype)


def _terms(value: Value) -> Iterator[Value]:
    """The additive terms, products of sums multiplied out. A divisor stays whole."""
    match value:
        case Apply("add", (left, right)):
            yield from _terms(left)
            yield from _terms(right)
        case Apply("subtract", (left, right)):
            yield from _terms(left)
            yield from (Apply("negative", (t,)) for t in _terms(right))
        case Apply("multiply", (left, right)):
            yield from (Apply("multiply", pair) for pair in product(list(_terms(left)), list(_terms(right))))
        case Apply("divide", (left, right)):
            yield from (Apply("divide", (t, right)) for t in _terms(left))
        case Apply("negative", (inner,)):
            yield from (Apply("negative", (t,)) for t in _terms(inner))
        case _:
            yield value


# --- one term ----------------------------------------------------------------------------------------


def _add_term(
    result: Array,
    statement: Statement,
    term: Value,
    tensors: Mapping[str, Tensor],
    sizes: Mapping[str, int],
    ranges: Mapping[str, int],
    over: Sequence[str] = (),
) -> None:
    """Add the term to the flat `result` at all its points; `over` are indices that it has besides those it names."""
    _check_divisors(term, tensors)
    numbers = {n: Num(v) for n, v in sizes.items()}
    target, *found = (_with_sizes(a, numbers) for a in (statement.target, *_accesses(term)))
    labelled = {"target": target, **{str(k): a for k, a in enumerate(found)}}
    operands = [
        _Operand(label, a.subscripts, tensor)
        for label, a in labelled.items()
        if isinstance(tensor := tensors[a.tensor], Stored)
    ]
    rules = [r for a in labelled.values() for r in _in_bounds(a, tensors[a.tensor].shape)]
    indices = sorted({n for r in rules for n in variables(r)} | set(over))
    rules += [within(Var(i), Num(0), Num(ranges[i])) for i in indices if i in ranges]
    rules = [part for r in rules for part in conjuncts(r)]
    rules += _conditions(statement, numbers, indices)
    intervals = _intervals(statement, indices, rules)
    goal = tensors[target.tensor]
    if isinstance(goal, Stored):
        _check_distinct(target.tensor, operands[0])
    for table in _solutions(_Table(1, {}), operands, rules, intervals):
        reads = (_read(str(k), a, tensors[a.tensor], table, result.dtype) for k, a in enumerate(found))
        value = np.broadcast_to(_value(term, reads, result.dtype), table.rows)
        if isinstance(goal, Stored):
            place = table.columns["target.entry"]
        else:
            place = _flat([_at(s, table) for s in target.subscripts], goal.shape, table.rows)
        np.add.at(result, place, value)


def _with_sizes(access: Access, numbers: Mapping[str, Expr]) -> Access:
    return Access(access.tensor, tuple(substitute(s, numbers) for s in access.subscripts))


def _in_bounds(access: Access, shape: tuple[int, ...]) -> Iterator[Formula]:
    for subscript, extent in zip(access.subscripts, shape, strict=True):
        yield Compare(">=", subscript, Num(0))
        yield Compare("<", subscript, Num(extent))


def _conditions(statement: Statement, numbers: Mapping[str, Expr], indices: Sequence[str]) -> list[Formula]:
    """The parts of the condition after `where`."""
    where: Formula = substitute(statement.where or TRUE, numbers)
    if not all(isinstance(n, Compare | And | Or | Not | Num | Var | Bin) for n in walk(where)):
        raise ValueError(f"expected a condition without calls and quantifiers: {show(where)}")
    strange = variables(where) - {*indices}
    if strange:
        raise ValueError(f"expected indices of every term: {', '.join(sorted(strange))} in {show(where)}")
    return list(conjuncts(where))


def _check_divisors(term: Value, tensors: Mapping[str, Tensor]) -> None:
    divisors = [n.arguments[1] for n in walk(term) if _is(n, "divide")]
    for access in (a for d in divisors for a in _accesses(d)):
        if isinstance(tensors[access.tensor], Stored):
            raise ValueError(f"{access.tensor}: where a sparse divisor stores nothing there is no quotient")


def _check_distinct(name: str, target: _Operand) -> None:
    keys = _sorted_by(target, tuple(range(len(target.tensor.shape)))).keys
    if np.any(keys[1:] == keys[:-1]):
        raise ValueError(f"{name}: expected a target that stores each coordinate once, but one is repeated")


def _read(label: str, access: Access, tensor: Tensor, table: _Table, dtype: np.dtype[Any]) -> Array:
    """The values of an access, one per row (one for all, of a dense scalar)."""
    if isinstance(tensor, Stored):
        return tensor.values[table.columns[f"{label}.entry"]].astype(dtype)
    if not access.subscripts:
        return tensor.astype(dtype)
    place = _flat([_at(s, table) for s in access.subscripts], tensor.shape, table.rows)
    return tensor.reshape(-1)[place].astype(dtype)


def _flat(subscripts: Sequence[Any], shape: Sequence[int], rows: int) -> Array:
    """The places in an array that is stored row after row."""
    place: Any = np.zeros(rows, np.int64)
    for subscript, extent in zip(subscripts, shape, strict=True):
        place = place * extent + subscript
    return np.asarray(place)


def _value(term: Value, reads: Iterator[Array], dtype: np.dtype[Any]) -> Array:
    match term:
        case Constant(number):
            return np.asarray(number).astype(dtype)
        case Access():
            return next(reads)
        case Apply(op, arguments):
            return np.asarray(ufunc(op)(*[_value(a, reads, dtype) for a in arguments]))
    raise ValueError(f"no value for {term!r}")


# --- points ------------------------------------------------------------------------------------------


def _solutions(
    table: _Table,
    waiting: Sequence[_Operand],
    rules: Sequence[Formula],
    intervals: Mapping[str, tuple[int, int]],
) -> Iterator[_Table]:
    """All points that extend a row of `table`: what is `waiting` is joined, the `rules` are kept."""
    table, rules = _filtered(table, rules)
    if not table.rows:
        return
    run = _shortest_run(table, rules, intervals)
    if run is not None and (run.total <= table.rows or not waiting):
        for part, values in _unrolled(table, run.start, run.count):
            yield from _solutions(part.with_columns({run.name: values}), waiting, rules, intervals)
    elif waiting:
        operand = max(waiting, key=lambda w: (_links(w, table), -len(w.tensor.values)))
        rest = [w for w in waiting if w is not operand]
        for part, equations in _joined(table, operand):
            yield from _solutions(part, rest, [*rules, *equations], intervals)
    else:
        yield table


def _filtered(table: _Table, rules: Sequence[Formula]) -> tuple[_Table, list[Formula]]:
    """The rows that keep all rules whose indices are known, and the other rules."""
    keep = np.ones(table.rows, np.bool_)
    later: list[Formula] = []
    for rule in rules:
        if variables(rule) <= table.columns.keys():
            keep &= _truth(rule, table)
        else:
            later.append(rule)
    return (table if keep.all() else table.take(keep)), later


def _truth(formula: Formula, table: _Table) -> Any:
    """True or false in each row."""
    match formula:
        case Compare(op, left, right):
            a, b = _at(left, table), _at(right, table)
            match op:
                case "=":
                    return a == b
                case "!=":
                    return a != b
                case "<":
                    return a < b
                case "<=":
                    return a <= b
                case ">":
                    return a > b
                case ">=":
                    return a >= b
        case And(parts):
            return reduce(np.logical_and, (_truth(p, table) for p in parts), True)
        case Or(parts):
            return reduce(np.logical_or, (_truth(p, table) for p in parts), False)
        case Not(part):
            return np.logical_not(_truth(part, table))
    raise ValueError(f"no truth for {show(formula)}")


def _at(expr: Expr, table: _Table) -> Any:
    """The value of an expression in each row."""

    def no_call(function: str, _: tuple[Any, ...]) -> Any:
        raise ValueError(f"expected an expression of indices, but {function} is called")

    return evaluate_expr(expr, lambda name: table.columns[name], no_call)


def _unrolled(table: _Table, start: Array, count: Array) -> Iterator[tuple[_Table, Array]]:
    """Each row `count` times, beside the numbers `start`, `start + 1`, ...; in pieces of CHUNK rows."""
    ends = np.cumsum(count)
    offsets = start - (ends - count)
    total = int(ends[-1])
    for first in range(0, total, CHUNK):
        numbers = np.arange(first, min(total, first + CHUNK), dtype=np.int64)
        rows = np.searchsorted(ends, numbers, side="right")
        yield table.take(rows), numbers + offsets[rows]


# --- joins -------------------------------------------------------------------------------------------


def _links(operand: _Operand, table: _Table) -> int:
    """How many subscripts are known from the table."""
    return sum(1 for s in operand.subscripts if variables(s) and variables(s) <= table.columns.keys())


def _joined(table: _Table, operand: _Operand) -> Iterator[tuple[_Table, list[Formula]]]:
    """Each row with every entry at its known subscripts; and what the other coordinates must equal."""
    dims = tuple(d for d, s in enumerate(operand.subscripts) if variables(s) <= table.columns.keys())
    index = _sorted_by(operand, dims)
    wanted = [np.broadcast_to(_at(operand.subscripts[d], table), table.rows) for d in dims]
    keys = _key(wanted, index.extents, index.ranks, table.rows)
    start = np.searchsorted(index.keys, keys, side="left")
    count = np.searchsorted(index.keys, keys, side="right") - start
    for part, places in _unrolled(table, start, count):
        entries = index.order[places]
        columns: dict[str, Array] = {f"{operand.label}.entry": entries}
        equations: list[Formula] = []
        for d, subscript in enumerate(operand.subscripts):
            if d in dims:
                continue
            coordinate = operand.tensor.coords[d][entries]
            if isinstance(subscript, Var) and subscript.name not in columns:
                columns[subscript.name] = coordinate
            else:
                columns[f"{operand.label}.{d}"] = coordinate
                equations.append(Compare("=", subscript, Var(f"{operand.label}.{d}")))
        yield part.with_columns(columns), equations


def _sorted_by(operand: _Operand, dims: tuple[int, ...]) -> _Sorted:
    """The entries sorted by the coordinates in these dimensions."""
    if dims not in operand.sorted:
        extents = tuple(operand.tensor.shape[d] for d in dims)
        ranks: list[Array | None] = []
        keys = _key([operand.tensor.coords[d] for d in dims], extents, ranks, len(operand.tensor.values))
        order = np.argsort(keys, kind="stable")
        operand.sorted[dims] = _Sorted(extents, ranks, keys[order], order)
    return operand.sorted[dims]


def _key(coords: Sequence[Array], extents: Sequence[int], ranks: list[Array | None], rows: int) -> Array:
    """One number per row, equal where all coordinates are; negative where no entry has them.

    Where the numbers would grow too large they are replaced by their ranks. The first call, with the
    coordinates of the entries, decides where and fills `ranks`; calls with other coordinates do the same.
    """
    deciding = not ranks
    key = np.zeros(rows, np.int64)
    reach = 1
    for k, (coord, extent) in enumerate(zip(coords, extents, strict=True)):
        if deciding:
            ranks.append(np.unique(key) if reach * extent >= 1 << 62 else None)
        rank = ranks[k]
        if rank is not None:
            place = np.minimum(np.searchsorted(rank, key), max(len(rank) - 1, 0))
            key = np.where(rank[place] == key, place, -1) if len(rank) else np.full(rows, -1)
            reach = len(rank)
        reach *= extent
        key = key * extent + coord
    return key


# --- ranges ------------------------------------------------------------------------------------------


def _shortest_run(table: _Table, rules: Sequence[Formula], intervals: Mapping[str, tuple[int, int]]) -> _Run | None:
    """Of the unknown indices, the one with the fewest values in all rows together."""
    ranges = [r for rule in rules for r in _ranges(rule)]
    best: _Run | None = None
    for name in intervals:
        if name in table.columns:
            continue
        low, high = _narrowed(name, ranges, table.columns, intervals)
        start = np.array(np.broadcast_to(low, table.rows), np.int64)
        count = np.maximum(np.broadcast_to(high, table.rows) - start + 1, 0)
        total = int(count.sum())
        if best is None or total < best.total:
            best = _Run(name, start, count, total)
    return best


def _intervals(statement: Statement, indices: Sequence[str], rules: Sequence[Formula]) -> dict[str, tuple[int, int]]:
    """Finite bounds of every index, whatever the others are."""
    ranges = [r for rule in rules for r in _ranges(rule)]
    for known in (ranges, [*ranges, *_combinations(ranges)]):
        intervals: dict[str, tuple[Limit, Limit]] = dict.fromkeys(indices, (None, None))
        for _ in range(2 * len(indices) + 1):
            for name in indices:
                intervals[name] = _narrowed(name, known, {}, intervals)
        free = [n for n in indices if None in intervals[n]]
        if not free:
            return intervals
    text = show_statement(statement)
    raise ValueError(f"expected bounded indices, but {', '.join(free)} would run for ever: {text}")


def _narrowed(
    name: str,
    ranges: Sequence[_Range],
    columns: Mapping[str, Array],
    intervals: Mapping[str, tuple[Limit, Limit]],
) -> tuple[Limit, Limit]:
    """The bounds of an index, given the known columns and intervals of the others."""
    low, high = intervals[name]
    for r in ranges:
        factor = r.coefficients.get(name, 0)
        if not factor:
            continue
        least, most = _rest(r, name, columns, intervals)
        if r.low is not None and most is not None:  # factor*name >= r.low - most
            if factor > 0:
                low = _tighter(np.maximum, low, -((most - r.low) // factor))
            else:
                high = _tighter(np.minimum, high, (r.low - most) // factor)
        if r.high is not None and least is not None:  # factor*name <= r.high - least
            if factor > 0:
                high = _tighter(np.minimum, high, (r.high - least) // factor)
            else:
                low = _tighter(np.maximum, low, -((least - r.high) // factor))
    return low, high


def _tighter(choose: Any, a: Limit, b: Limit) -> Limit:
    return b if a is None else choose(a, b)


def _rest(
    r: _Range, name: str, columns: Mapping[str, Array], intervals: Mapping[str, tuple[Limit, Limit]]
) -> tuple[Limit, Limit]:
    """The bounds of the sum without the summand of `name`."""
    least: Limit = 0
    most: Limit = 0
    for other, factor in r.coefficients.items():
        if other == name:
            continue
        ends = (columns[other], columns[other]) if other in columns else intervals[other]
        low, high = ends if factor > 0 else ends[::-1]
        least = None if least is None or low is None else least + factor * low
        most = None if most is None or high is None else most + factor * high
    return least, most


def _ranges(rule: Formula) -> list[_Range]:
    """What a comparison of affine expressions says; one side may be rounded down after a division."""
    match rule:
        case Compare(op, Bin("/", inner, Num(divisor)), right) if divisor > 0:
            low = Bin("*", Num(divisor), right)
            above = Bin("+", low, Num(divisor))
            opened = {
                "<": [Compare("<", inner, low)],
                "<=": [Compare("<", inner, above)],
                ">": [Compare(">=", inner, above)],
                ">=": [Compare(">=", inner, low)],
                "=": [Compare(">=", inner, low), Compare("<", inner, above)],
                "!=": [],
            }
            return [r for part in opened[op] for r in _ranges(part)]
        case Compare(op, left, Bin("/") as right) if _linear(left) is not None:
            mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op)
            return _ranges(Compare(mirrored, right, left)) if isinstance(right.right, Num) else []
        case Compare(op, left, right) if op != "!=":
            sums = _linear(Bin("-", left, right))
            if sums is None:
                return []
            constant = sums.pop("")
            low_end, high_end = {
                "<": (None, -1),
                "<=": (None, 0),
                ">": (1, None),
                ">=": (0, None),
                "=": (0, 0),
            }[op]
            return [
                _Range(
                    {n: c for n, c in sums.items() if c},
                    None if low_end is None else low_end - constant,
                    None if high_end is None else high_end - constant,
                )
            ]
    return []


def _linear(expr: Expr) -> dict[str, int] | None:
    """The coefficients of an affine expression, its constant under the empty name; else None."""
    match expr:
        case Num(value):
            return {"": value}
        case Var(name):
            return {"": 0, name: 1}
        case Bin(op, left, right):
            a, b = _linear(left), _linear(right)
            if a is None or b is None:
                return None
            if op in ("+", "-"):
                sign = 1 if op == "+" else -1
                return {n: a.get(n, 0) + sign * b.get(n, 0) for n in {**a, **b}}
            if op == "*" and (_is_constant(a) or _is_constant(b)):
                factor, sums = (a[""], b) if _is_constant(a) else (b[""], a)
                return {n: factor * c for n, c in sums.items()}
            if op != "*" and _is_constant(a) and _is_constant(b):
                return {"": apply_operator(op, a[""], b[""])}
    return None


def _is_constant(sums: Mapping[str, int]) -> bool:
    return not any(c for n, c in sums.items() if n)


def _combinations(ranges: Sequence[_Range]) -> Iterator[_Range]:
    """Sums and differences of ranges over the same indices: i + j and i - j together bound i."""
    both: dict[tuple[tuple[str, int], ...], _Range] = {}
    for r in ranges:
        key = tuple(sorted(r.coefficients.items()))
        old = both.get(key, r)
        lows = [x for x in (old.low, r.low) if x is not None]
        highs = [x for x in (old.high, r.high) if x is not None]
        both[key] = _Range(r.coefficients, max(lows, default=None), min(highs, default=None))
    closed = [r for r in both.values() if len(r.coefficients) > 1]
    for k, a in enumerate(closed):
        for b in closed[:k]:
            if a.coefficients.keys() == b.coefficients.keys():
                for name in a.coefficients:
                    yield _without(name, a, b)


def _without(name: str, a: _Range, b: _Range) -> _Range:
    """The combination of two ranges in which `name` does not occur."""
    of_a, of_b = b.coefficients[name], -a.coefficients[name]
    sums = {n: of_a * a.coefficients[n] + of_b * b.coefficients[n] for n in a.coefficients}
    scaled = [_scaled(r, f) for r, f in ((a, of_a), (b, of_b))]
    low, high = (None if None in ends else sum(ends) for ends in zip(*scaled, strict=True))
    return _Range({n: c for n, c in sums.items() if c}, low, high)


def _scaled(r: _Range, factor: int) -> tuple[int | None, int | None]:
    ends = (r.low, r.high) if factor > 0 else (r.high, r.low)
    low, high = (None if e is None else factor * e for e in ends)
    return low, high

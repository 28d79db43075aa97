"""What index arrays hold where no entry says it (layout/pack_fill.py), as steps."""

from __future__ import annotations

from spfgen.facts.formula import ONE, ZERO, And, Bin, Expr, Num, Var, conjunction, variables
from spfgen.layout.nodes import IndexArray
from spfgen.layout.pack_fill import Fill, comparisons_of, fills, functions_in, rooms_of
from spfgen.layout.pack_rules import KeyOrder, Rank
from spfgen.plan.assemble.nodes import (
    ROW,
    Choose,
    Into,
    Offsets,
    Running,
    SelectRows,
    at,
    compare,
    minus,
    plus,
    product,
    times,
)
from spfgen.plan.assemble.state import AssemblyBuilder, largest, least, negated, rounded_up
from spfgen.sets.affine import expression


def make_given(s: AssemblyBuilder, rank: Rank, order: KeyOrder) -> None:
    """An array of which no entry says anything: it is filled by what is declared."""
    index = s.layout.index(rank.array)
    shape = s.extents(index, [lambda: ZERO for _ in index.extents])
    low, high = declared_range(s, index)
    vector = s.copy(index.name, product(shape), low)
    s.made(index.name, vector, shape)
    written = s.copy("said", product(shape), ZERO)
    complete(s, (low, high), index.name, written, fills(s.layout, rank.array, rank.kind)[order.rest])


def complete(s: AssemblyBuilder, limits: tuple[Expr, Expr], array: str, written: str, fill: Fill) -> None:
    """Fill the places that no entry has with values within the limits; `said` are the others."""
    low, high = limits
    vector, shape = s.arrays[array]
    size = product(shape)
    if fill.kind in ("before", "behind"):
        _carry(s, array, written, fill.kind == "behind")
        vector = s.arrays[array][0]
    if fill.kind == "unused":
        _unused(s, limits, array, written)
        vector = s.arrays[array][0]
    if fill.value is not None and functions_in(fill.value) <= set(s.arrays):
        values: dict[str, Expr] = {n: Var(n) for n in s.sizes}
        values |= dict(zip(fill.places, subscripts_of_row(shape), strict=True))
        value, conditions = s.called(fill.value, values)
        clipped = Bin("min", Bin("max", value, low), Bin("max", low, high))
        free = conjunction([compare(at(written), "=", 0), *conditions])
        s.made(array, s.copy(array, size, Choose(free, clipped, at(vector))), shape)


def subscripts_of_row(shape: tuple[Expr, ...]) -> list[Expr]:
    """The subscripts of the element number ROW of an array that is read row by row."""
    result: list[Expr] = []
    for k in range(len(shape)):
        inner = product(shape[k + 1 :])
        value: Expr = ROW if inner == ONE else Bin("/", ROW, Bin("max", ONE, inner))
        result.append(value if k == 0 else Bin("%", value, Bin("max", ONE, shape[k])))
    return result


def _carry(s: AssemblyBuilder, array: str, written: str, behind: bool) -> None:
    """From the nearest place of the last dimension that an entry has."""
    vector, shape = s.arrays[array]
    size = product(shape)
    none = Num(2**62) if behind else Num(-1)
    last = s.copy("nearest", size, Choose(compare(at(written), ">", 0), ROW, none))
    s.steps.append(Running(last, size, shape[-1], behind, behind))
    s.made(array, s.copy(array, size, Choose(compare(at(last), "=", none), at(vector), at(vector, at(last)))), shape)


def _unused(s: AssemblyBuilder, limits: tuple[Expr, Expr], array: str, written: str) -> None:
    """The places that no entry has get the least values that no entry has, as far as these go."""
    low, high = limits
    vector, shape = s.arrays[array]
    size = product(shape)
    count = s.let("values", Bin("max", ZERO, minus(Bin("min", plus(high, 1), Bin("+", low, size)), low)))
    taken = s.copy("taken", count, ZERO)
    inside = And(
        (compare(at(written), ">", 0), compare(at(vector), ">=", low), compare(at(vector), "<", Bin("+", low, count)))
    )
    s.steps.append(Into(taken, size, minus(at(vector), low), ONE, "set", inside))
    free, number = s.new("free"), s.new("free count")
    s.steps.append(SelectRows(free, number, count, compare(at(taken), "=", 0)))
    turn = s.copy("turn", size, compare(at(written), "=", 0))
    s.steps.append(Offsets(turn, size, s.new("all")))
    mine = And((compare(at(written), "=", 0), compare(at(turn), "<", Var(number))))
    s.made(array, s.copy(array, size, Choose(mine, Bin("+", low, at(free, at(turn))), at(vector))), shape)


def declared_range(s: AssemblyBuilder, index: IndexArray) -> tuple[Expr, Expr]:
    """The range of an array, both ends included, as far as it is made of sizes that are known."""
    lows: list[Expr] = [ZERO]
    highs: list[Expr] = [Num(2**62)]
    for fact in index.ranges:
        for names, value, table in comparisons_of(fact.formula):
            for name, call in table.items():
                factor, others = value.coefficient(name), value.without(name)
                if call.function == index.name and not others.names() & names and others.names() <= s.sizes:
                    bound = expression(others)
                    lows += [negated(bound)] if factor == 1 else []
                    highs += [bound] if factor == -1 else []
    return largest(lows, ZERO), least(highs, ZERO)


def with_declared_room(s: AssemblyBuilder, array: str, shape: tuple[Expr, ...], room: str) -> str:
    """A vector of how far it is at least from each element to the next one by what is declared, and by `room`."""
    size = product(shape)
    for value, place, last in rooms_of(s.layout, array) if len(shape) == 1 else ():
        if functions_in(value) <= set(s.arrays) and variables(value) <= {*s.sizes, place}:
            least_room, conditions = s.called(value, {**{n: Var(n) for n in s.sizes}, place: ROW})
            mine = conjunction([*conditions, *([] if last else [compare(ROW, "<", minus(size, 1))])])
            room = s.copy("room", size, Bin("max", at(room), Choose(mine, least_room, ZERO)))
    return room


def declared_size(s: AssemblyBuilder, size: str) -> Expr | None:
    """The least value of a size with which the ranges and facts hold that compare it with elements of one array."""
    bounds: list[Expr] = []
    for fact in s.layout.facts:
        for names, value, table in comparisons_of(fact.formula, certain=True):
            factor, others = value.coefficient(size), value.without(size)
            if factor < 1 or len(table) != 1:
                continue
            ((label, call),) = table.items()
            if call.function not in s.arrays or not {n for n in others.names() if n != label} <= s.sizes | names:
                continue
            at_names = {a.name: k for k, a in enumerate(call.arguments) if isinstance(a, Var) and a.name in names}
            if len(at_names) < len(names) or not {n for n in others.names() if n != label} <= {*s.sizes, *at_names}:
                continue
            vector, shape = s.arrays[call.function]
            if len(at_names) != len(call.arguments) or list(at_names.values()) != list(range(len(shape))):
                continue
            places = dict(zip(at_names, subscripts_of_row(shape), strict=True))
            written = others.scaled(-1)
            parts: Expr = Num(written.constant)
            for atom, factor_of in written.terms:
                if not isinstance(atom, str):
                    break
                operand = at(vector) if atom == label else places.get(atom, Var(atom))
                parts = plus(parts, times(Num(factor_of), operand))
            else:
                bounds.append(rounded_up(s.fold("needed", product(shape), parts, "max", Num(0)), factor))
    return largest(bounds, ZERO) if bounds else None

"""Loops over the values of variables for which a formula says something: bounds from array extents and conditions.

A formula says nothing of values at which a call of it is outside its array, or at which a condition of it is false.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spfgen.facts.formula import (
    ZERO,
    And,
    Call,
    Compare,
    Exists,
    Expr,
    Forall,
    Formula,
    Not,
    Num,
    Or,
    calls,
    conjunction,
    conjuncts,
    show,
    substitute,
    variables,
)
from spfgen.ir import children, walk
from spfgen.sets.affine import Affine, Atom, NotAffine, affine, divided, expression

Extents = Mapping[str, tuple[Expr, ...]]
"""The declared extents of each index array."""


@dataclass(frozen=True)
class Loop:
    """`variable` runs from the largest of `low` to below the smallest of `high`; both may speak of outer loops."""

    variable: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]


@dataclass(frozen=True)
class QuantifierLoops:
    """Loops, outermost first; the values for which all `before` (known above the loops) and `guards` (innermost) hold
    are those at which all calls are inside; `before` may also say that no loop is empty. What is left to check there is
    `body`: conditions that the loops see to are gone from it.
    """

    loops: tuple[Loop, ...]
    before: tuple[Formula, ...]
    guards: tuple[Formula, ...]
    body: Formula

    @property
    def jumps(self) -> bool:
        """Whether a loop has bounds that are read from an array."""
        return any(calls(bound) for loop in self.loops for bound in (*loop.low, *loop.high))


Table = dict[str, Expr]
"""What the names of affine expressions stand for that are neither variables nor sizes: calls, products of sizes."""


Terms = tuple[tuple[Atom, int], ...]


@dataclass(frozen=True)
class _Constraint:
    """value >= 0; `of` is the condition that it is a part of, None when it keeps an argument inside its array."""

    value: Affine
    of: Formula | None
    text: Formula


@dataclass(frozen=True)
class _Guard:
    """What keeps an argument inside its array and is no affine inequality."""

    text: Formula
    value: None = None


def scan(names: Sequence[str], body: Formula, extents: Extents, some: bool = False) -> QuantifierLoops | None:
    """How to run through the values of `names` at which `body` can be false (with `some`: can be true).

    None when a variable has no bounds.
    """
    conditions, alternatives_of_conclusion = (list(conjuncts(body)), []) if some else split(body)
    table: Table = {}
    argument_constraints = list(_arguments(body, extents, table))
    nested = [c.text for c in argument_constraints if c.value is None or _calls(c.value, table)]
    constraints = [c for c in argument_constraints if c.value is not None and not _calls(c.value, table)]
    for condition in conditions:
        constraints += _of_condition(condition, table)
    order = _order(names, constraints, table)
    if order is None:
        return None
    used: set[int] = set()
    loops = []
    for depth, name in enumerate(order):
        known = [n for n in names if n not in order[depth + 1 :]]
        low, high = _bounds(name, known, names, constraints, table, used)
        loops.append(Loop(name, low, high))
    open_calls = [c for k, c in enumerate(constraints) if k not in used and c.of is None and not _certain(c.value)]
    before = [c.text for c in open_calls if not c.value.names() & set(names)]
    before += _worth(names, loops[1:])
    guards = [c.text for c in open_calls if c.value.names() & set(names)] + nested
    waiting = [c.of for k, c in enumerate(constraints) if k not in used and not _certain(c.value)]
    looped = [c.of for c in constraints]
    unscanned = [c for c in conditions if c in waiting or c not in looped]
    parts = [Not(c) for c in unscanned] + alternatives_of_conclusion
    remains = conjunction(unscanned) if some else parts[0] if len(parts) == 1 else Or(tuple(parts))
    return QuantifierLoops(tuple(loops), tuple(before), tuple(guards), solved_all(remains))


def _worth(names: Sequence[str], inner: Sequence[Loop]) -> list[Formula]:
    """That no loop inside is empty for all values of those around it: an extent of 2^40 may stand beside one of 0."""
    formulas: list[Formula] = []
    for loop in inner:
        bounds = (*loop.low, *loop.high)
        if not any(variables(b) & set(names) or calls(b) for b in bounds):
            formulas += [Compare("<", a, b) for a in loop.low for b in loop.high]
    return [f for f in formulas if not _is_true(f)]


def _is_true(formula: Formula) -> bool:
    match formula:
        case Compare("<", Num(a), Num(b)):
            return a < b
    return False


def split(body: Formula) -> tuple[list[Formula], list[Formula]]:
    """(conditions, alternatives of the conclusion): the body is false where all of the former hold, none of the latter.

    A conclusion `a != b` is a condition `a = b`.
    """
    conditions: list[Formula] = []
    conclusions: list[Formula] = []
    for part in body.parts if isinstance(body, Or) else (body,):
        match part:
            case Not(inner):
                conditions += conjuncts(inner)
            case Or():
                more, inner_conclusions = split(part)
                conditions += more
                conclusions += inner_conclusions
            case Compare("!=", left, right):
                conditions.append(Compare("=", left, right))
            case _:
                conclusions.append(part)
    return conditions, conclusions


def own_calls(node: Expr | Formula) -> list[Call]:
    """The calls outside of quantifiers inside the formula, those in arguments before the calls that need them."""
    occurring: dict[Call, None] = {}

    def visit(part: object) -> None:
        if isinstance(part, Exists | Forall):
            return
        for child in children(part):
            visit(child)
        if isinstance(part, Call):
            occurring[part] = None

    visit(node)
    return list(occurring)


# --- constraints ----------------------------------------------------------------------------------------


def read(expr: Expr, table: Table) -> Affine:
    """As an affine expression in which each call is a name of `table`. Raises NotAffine."""

    def name(call: Call) -> str:
        text = show(call)
        table[text] = call
        return text

    return affine(expr, name)


def _arguments(body: Formula, extents: Extents, table: Table) -> Iterator[_Constraint | _Guard]:
    """0 <= argument < extent for each argument of the formula's own calls, and of others if it is known here."""
    calls_here = own_calls(body)
    bound = {v for node in walk(body) if isinstance(node, Forall | Exists) for v in node.variables}
    for call in [*calls_here, *(c for c in calls(body) if c not in calls_here)]:
        for argument, extent in zip(call.arguments, extents[call.function], strict=True):
            if call not in calls_here and (variables(argument) & bound or calls(argument)):
                continue
            low, high = Compare("<=", ZERO, argument), Compare("<", argument, extent)
            try:
                place = read(argument, table)
            except NotAffine:
                yield from (_Guard(low), _Guard(high))
                continue
            yield _Constraint(place, None, low)
            yield _Constraint((_extent(extent, table) - place).plus(-1), None, high)


def _extent(extent: Expr, table: Table) -> Affine:
    """A product of sizes is a number like any other."""
    try:
        return read(extent, table)
    except NotAffine:
        table[show(extent)] = extent
        return Affine(((show(extent), 1),))


def _of_condition(condition: Formula, table: Table) -> Iterator[_Constraint]:
    """The constraints that a comparison of affine expressions is."""
    if not isinstance(condition, Compare) or condition.op == "!=":
        return
    try:
        left, right = read(condition.left, table), read(condition.right, table)
    except NotAffine:
        return
    if not all(_is_plain(c, table) for c in _calls(left - right, table)):
        return  # bounds are read only from places that loops keep inside their arrays
    less, strict = condition.op in ("<", "<=", "="), condition.op in ("<", ">")
    difference = right - left if less else left - right
    yield _Constraint(difference.plus(-1) if strict else difference, condition, condition)
    if condition.op == "=":
        yield _Constraint(difference.scaled(-1), condition, condition)


def _calls(value: Affine, table: Table) -> list[Call]:
    return [c for c in (table.get(n) for n in sorted(value.names())) if isinstance(c, Call)]


def _is_plain(call: Call, table: Table) -> bool:
    """Whether its arguments are sums of variables and sizes."""
    try:
        places = [read(a, table) for a in call.arguments]
    except NotAffine:
        return False
    return not any(_calls(p, table) or p.floors() for p in places)


def _certain(value: Affine) -> bool:
    return not value.terms and value.constant >= 0


def _direct(name: str, value: Affine) -> int:
    """The coefficient of a variable that occurs nowhere else in the value; 0 when it cannot be solved for."""
    return 0 if any(name in f.numerator.names() for f in value.floors()) else value.coefficient(name)


def _needs(value: Affine, names: Sequence[str], table: Table, but: str = "") -> set[str]:
    """The variables that occur in the value, in arguments of its calls too; not the direct occurrence of `but`."""
    inside = {v for c in _calls(value, table) for a in c.arguments for v in variables(a)} & set(names)
    return inside | {n for n in value.names() if n in names and n != but}


def _order(names: Sequence[str], constraints: Sequence[_Constraint], table: Table) -> tuple[str, ...] | None:
    """The order of the loops: as the user wrote the names, but segments are inside of the loop over the segments."""
    order: list[str] = []
    while len(order) < len(names):
        left = [n for n in names if n not in order]
        ready = [n for n in left if _is_bounded(n, order, names, constraints, table)]
        if not ready:
            return None
        free = [n for n in ready if not _waits(n, left, names, constraints, table)]
        order.append((free or ready)[0])
    return tuple(order)


def _is_bounded(
    name: str,
    order: Sequence[str],
    names: Sequence[str],
    constraints: Sequence[_Constraint],
    table: Table,
) -> bool:
    signs = {
        _direct(name, c.value) > 0
        for c in constraints
        if _direct(name, c.value) and _needs(c.value, names, table, name) <= set(order)
    }
    return len(signs) == 2


def _waits(
    name: str, left: Sequence[str], names: Sequence[str], constraints: Sequence[_Constraint], table: Table
) -> bool:
    """Whether a call of another variable bounds it."""
    return any(
        _direct(name, c.value) and _calls(c.value, table) and _needs(c.value, names, table, name) & set(left) - {name}
        for c in constraints
    )


def _bounds(
    name: str,
    known: Sequence[str],
    names: Sequence[str],
    constraints: Sequence[_Constraint],
    table: Table,
    used: set[int],
) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """(low, high) of a loop, once those in `known` have values; notes the constraints that it sees to."""
    low: dict[Terms, int] = {}
    high: dict[Terms, int] = {}
    for k, constraint in enumerate(constraints):
        factor = _direct(name, constraint.value)
        needs = _needs(constraint.value, names, table, name)
        if not factor or name in needs or not needs <= set(known) - {name}:
            continue
        others = constraint.value.without(name)
        if factor > 0:
            bound = divided(others.scaled(-1).plus(factor - 1), factor)
            low[bound.terms] = max(bound.constant, low.get(bound.terms, bound.constant))
        else:
            bound = divided(others, -factor).plus(1)
            high[bound.terms] = min(bound.constant, high.get(bound.terms, bound.constant))
        used.add(k)
    return _texts(low, table), _texts(high, table)


def _texts(bounds: Mapping[Terms, int], table: Table) -> tuple[Expr, ...]:
    return tuple(_text(Affine(terms, constant), table) for terms, constant in bounds.items())


def _text(value: Affine, table: Table) -> Expr:
    """Back to an expression with its calls."""
    result: Expr = substitute(expression(value), table)
    return result


def solved(comparison: Compare) -> Formula:
    """The comparison with a single call alone on its left, where it is about one: nothing is added to what was read.

    So it is right for every value of the array, also where the sum that the user wrote would be out of range.
    """
    table: Table = {}
    try:
        value = read(comparison.right, table) - read(comparison.left, table)
    except NotAffine:
        return comparison
    called = [n for n in sorted(value.names()) if n in table]
    if len(called) != 1 or not value.coefficient(called[0]) or comparison.op in ("=", "!="):
        return _solved_equation(comparison, value, called, table)
    factor, others = value.coefficient(called[0]), value.without(called[0])
    if any(called[0] in f.numerator.names() for f in others.floors()):
        return comparison
    op = comparison.op
    if op in (">", ">="):
        factor, others, op = -factor, others.scaled(-1), {">": "<", ">=": "<="}[op]
    call = table[called[0]]
    if abs(factor) == 1:  # as the user wrote it, with the call on the left
        sign = op if factor < 0 else {"<": ">", "<=": ">="}[op]
        return Compare(sign, call, _text(others.scaled(-factor), table))
    if op == "<":
        others = others.plus(-1)
    if factor > 0:  # factor*call + rest >= 0
        return Compare(">=", call, _text(divided(others.scaled(-1).plus(factor - 1), factor), table))
    return Compare("<=", call, _text(divided(others, -factor), table))


def _solved_equation(comparison: Compare, value: Affine, called: list[str], table: Table) -> Formula:
    if len(called) != 1 or comparison.op not in ("=", "!=") or abs(value.coefficient(called[0])) != 1:
        return comparison
    others = value.without(called[0])
    if called[0] in others.names():
        return comparison
    return Compare(comparison.op, table[called[0]], _text(others.scaled(-value.coefficient(called[0])), table))


def solved_all(formula: Formula) -> Formula:
    """`solved` for every comparison of the formula."""
    match formula:
        case Compare():
            return solved(formula)
        case And(parts):
            return And(tuple(solved_all(p) for p in parts))
        case Or(parts):
            return Or(tuple(solved_all(p) for p in parts))
        case Not(part):
            return Not(solved_all(part))
        case Forall(names, body, span):
            return Forall(names, solved_all(body), span)
        case Exists(names, body, span):
            return Exists(names, solved_all(body), span)
    return formula

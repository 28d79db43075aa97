"""Instances of declared facts at the calls that occur."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

from spfgen.facts.formula import (
    Bin,
    Call,
    Compare,
    Expr,
    Formula,
    Not,
    Num,
    Or,
    Var,
    calls,
    conjuncts,
    opened,
    show,
    sides,
    substitute,
    variables,
)


def instances(facts: Iterable[Formula], occurring: Mapping[str, Call]) -> list[Formula]:
    """Each fact for the arguments of the calls that occur, with every call replaced by its name in `occurring`.

    Only facts that are conjunctions of comparisons once their variables are gone, and whose calls all occur.
    """
    result: list[Formula] = []
    names = {(c.function, tuple(show(a) for a in c.arguments)): n for n, c in occurring.items()}
    for fact in facts:
        bound, body = opened(fact)
        parts = [side for part in conjuncts(body) for side in sides(part)]
        if not all(isinstance(p, Compare) for p in parts):
            continue
        for values in _matches(bound, calls(body), occurring):
            for part in parts:
                instance = _named(substitute(part, values), names)
                if instance is not None and instance not in result:
                    result.append(instance)
    return result


def implications(facts: Iterable[Formula], occurring: Mapping[str, Call]) -> list[tuple[list[Formula], list[Formula]]]:
    """(conditions, conclusions) of the facts that say that some comparisons follow from others, or hold anyway, for the
    arguments of the calls that occur, as in `instances`."""
    result: list[tuple[list[Formula], list[Formula]]] = []
    names = {(c.function, tuple(show(a) for a in c.arguments)): n for n, c in occurring.items()}
    for fact in facts:
        bound, body = opened(fact)
        match body:
            case Or((Not(condition), conclusion)):
                parts = [list(conjuncts(condition)), list(conjuncts(conclusion))]
            case _:
                conclusion, parts = body, [[], list(conjuncts(body))]
        if not all(isinstance(p, Compare) for part in parts for p in part):
            continue
        patterns = [*calls(body), *calls(conclusion)]
        for values in _bindings(bound, patterns, occurring):
            premises, conclusions = ([_named(substitute(p, values), names, plain=True) for p in part] for part in parts)
            if None not in premises:
                pair = [g for g in premises if g is not None], [f for f in conclusions if f is not None]
                if pair[1] and pair not in result:
                    result.append(pair)
    return result


def _bindings(bound: tuple[str, ...], patterns: list[Call], occurring: Mapping[str, Call]) -> list[dict[str, Expr]]:
    """Values of the bound variables that calls which occur give, several of them together where it takes several."""
    bindings: list[dict[str, Expr]] = [{}]
    for name in bound:
        wider: list[dict[str, Expr]] = []
        for values in bindings:
            if name in values:
                wider.append(values)
                continue
            for pattern, call in product(dict.fromkeys(patterns), occurring.values()):
                more = _match(pattern, call, bound)
                if name in more and all(values.get(n, e) == e for n, e in more.items()):
                    both = {**values, **more}
                    if both not in wider:
                        wider.append(both)
        bindings = wider
    return bindings


def _match(pattern: Call, call: Call, bound: tuple[str, ...]) -> dict[str, Expr]:
    """What the bound variables are when the pattern is this call; empty when it is another function's."""
    values: dict[str, Expr] = {}
    if pattern.function == call.function:
        for formal, actual in zip(pattern.arguments, call.arguments, strict=True):
            match formal:
                case Var(name) if name in bound:
                    values.setdefault(name, actual)
                case Bin("+", Var(name), Num(shift)) if name in bound:
                    values.setdefault(name, _shifted(actual, -shift))
    return values


def _matches(bound: tuple[str, ...], patterns: list[Call], occurring: Mapping[str, Call]) -> list[dict[str, Expr]]:
    """Values of the bound variables for which one pattern is a call that occurs."""
    if not bound:
        return [{}]
    matches: list[dict[str, Expr]] = []
    for pattern, call in product(patterns, occurring.values()):
        if pattern.function != call.function:
            continue
        values = _match(pattern, call, bound)
        if set(values) == set(bound) and values not in matches:
            matches.append(values)
    return matches


def _shifted(expr: Expr, amount: int) -> Expr:
    match expr:
        case Num(value):
            return Num(value + amount)
        case Bin("+" | "-" as sign, left, Num(value)):
            total = (value if sign == "+" else -value) + amount
            return left if total == 0 else Bin("+" if total > 0 else "-", left, Num(abs(total)))
    return Bin("+" if amount > 0 else "-", expr, Num(abs(amount))) if amount else expr


def _named(part: Formula, names: Mapping[tuple[str, tuple[str, ...]], str], plain: bool = False) -> Formula | None:
    """The comparison with calls replaced by the names of those that occur; None when one does not, and where nothing is
    compared but numbers unless `plain`."""
    from spfgen.ir import rewrite

    missing = []

    def rule(node: object) -> Expr | None:
        match node:
            case Call(function, arguments):
                key = (function, tuple(show(_folded(a)) for a in arguments))
                if key not in names:
                    missing.append(node)
                    return None
                return Var(names[key])
        return None

    result = rewrite(rule, part)
    return None if missing or not isinstance(result, Compare) or not (plain or variables(result)) else result


def _folded(expr: Expr) -> Expr:
    """`(x - 1) + 1` is x: arguments are compared by their text."""
    match expr:
        case Bin("+" | "-" as sign, left, Num(value)):
            return _shifted(_folded(left), value if sign == "+" else -value)
    return expr

"""Under which conditions on indices parts of a program are read, and where something is left to compute.

Conditions stand at equations, loops and reductions, and in values: of `where(abs(i - j) < 3, A[i,j], 0)` a choice
counts only where the condition holds, or does not; so do branches of `if`, and factors of a product with a condition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from spfgen.facts.formula import Formula, conjuncts
from spfgen.ir import children, rewrite
from spfgen.lang import nodes as lang
from spfgen.lang.fills import fill_text
from spfgen.space.conditions import condition_of, negated

Conditions = tuple[Formula, ...]
IDENTITIES: Mapping[str, Any] = {
    "add": 0, "multiply": 1, "logical_or": False, "logical_and": True, "maximum": -inf, "minimum": inf,
}  # fmt: skip
"""Of reductions, whatever the type of the values is."""
SUMS = ("add", "subtract", "negative")


def under_conditions(
    step: Any, numbers: Mapping[str, int], zeros: Collection[str]
) -> Iterator[tuple[lang.Access, Conditions]]:
    """All accesses, each with the conditions where it has to be read: elsewhere it may be left out of the range of its
    tensor. `numbers` are the values of integers, `zeros` the tensors that are 0 where nothing is stored."""
    is_equation = isinstance(step, lang.Statement) and step.op == "="
    yield from _reads(_with_numbers(step, numbers), (), zeros, 0 if is_equation else None)


def leaves(
    steps: Sequence[Any], fill: Any, numbers: Mapping[str, int], zeros: Collection[str]
) -> tuple[Conditions, ...]:
    """The conditions under which something of a value is computed, one conjunction for each part of it: where none of
    them holds there is nothing to do. `fill` is what an equation's result is where nothing is computed, None if it is
    not known."""
    conditions: list[Conditions] = []
    for step in (_with_numbers(s, numbers) for s in steps):
        is_equation = isinstance(step, lang.Statement)
        conditions += _leaves(step.value, _own(step), zeros, fill) if is_equation else _leaves(step, (), zeros, None)
    return tuple(dict.fromkeys(conditions))


def outside(
    statement: lang.Statement, fill: Any, numbers: Mapping[str, int], zeros: Collection[str]
) -> tuple[Conditions, ...]:
    """The conditions under which a result may differ from its fill value: elsewhere the equation gives it that."""
    plain = _with_numbers(statement, numbers)
    return tuple(dict.fromkeys(_leaves(plain.value, _own(plain), zeros, fill, is_strict=True)))


def _own(node: Any) -> Conditions:
    """The condition of a node that has one."""
    where = getattr(node, "where", None) if isinstance(node, lang.Statement | lang.Reduce | lang.For) else None
    return () if where is None else (where,)


def _with_numbers(step: Any, numbers: Mapping[str, int]) -> Any:
    def known(node: Any) -> Any:
        is_known = isinstance(node, lang.Access) and not node.subscripts and node.tensor in numbers
        return lang.Constant(numbers[node.tensor]) if is_known else None

    return rewrite(known, step)


def _reads(
    node: Any, around: Conditions, zeros: Collection[str], neutral: Any
) -> Iterator[tuple[lang.Access, Conditions]]:
    """`neutral` is the value that makes no difference where the node stands, None where each does: 0 in an equation,
    where sums may be implicit, and in what is added to a result."""
    if isinstance(node, lang.Access):
        yield node, around
    is_update = isinstance(node, lang.Statement) and node.op in ("+=", "subtract") and node.function is None
    kept = 0 if is_update else neutral if isinstance(node, lang.Statement) else _kept(node, neutral)
    for part, conditions in _parts(node, zeros, neutral):
        yield from _reads(part, (*around, *conditions), zeros, kept)


def _parts(node: Any, zeros: Collection[str], neutral: Any) -> Iterator[tuple[Any, Conditions]]:
    """What a node consists of, each part with the conditions under which it counts: of factors, where a 0 makes no
    difference, those under which no other one is 0."""
    match node:
        case lang.Apply("where", (condition, then, otherwise), function=None):
            yield from _branches(condition, (then,), (otherwise,))
        case lang.If(condition, then, otherwise):
            yield from _branches(condition, then, otherwise)
        case lang.Apply("multiply" | "logical_and", arguments, function=None):
            conditions = _not_zero(node, zeros) if neutral is not None and neutral == 0 else ()
            yield from ((a, conditions) for a in arguments)
        case _:
            yield from ((c, _own(node)) for c in children(node) if not isinstance(c, lang.Function))


def _branches(condition: Any, then: Sequence[Any], otherwise: Sequence[Any]) -> Iterator[tuple[Any, Conditions]]:
    formula = condition_of(condition)
    yield from [] if formula is not None else [(condition, ())]
    yield from ((part, _asked(condition)) for part in then)
    yield from ((part, () if formula is None else (negated(formula),)) for part in otherwise)


def _asked(value: Any) -> Conditions:
    """What holds where a value is true."""
    formula = condition_of(value)
    if formula is not None:
        return tuple(conjuncts(formula))
    match value:
        case lang.Apply("logical_and", arguments, function=None):
            return tuple(c for a in arguments for c in _asked(a))
    return ()


def _not_zero(value: Any, zeros: Collection[str]) -> Conditions:
    """Without which a value is a zero that decides a product: a condition that does not hold, or a choice of 0 or of
    what is not stored."""
    formula = condition_of(value)
    if formula is not None:
        return tuple(conjuncts(formula))
    match value:
        case lang.Apply("multiply" | "logical_and", arguments, function=None):
            return tuple(c for a in arguments for c in _not_zero(a, zeros))
        case lang.Apply("where", (condition, lang.Access(tensor), lang.Constant(0)), function=None) if tensor in zeros:
            return _asked(condition)
    return ()


def _leaves(
    node: Any, around: Conditions, zeros: Collection[str], neutral: Any, is_strict: bool = False
) -> Iterator[Conditions]:
    """`neutral` is the value that makes no difference where the node stands, None where each does. With `is_strict` a
    reduction without points counts, too, unless it gives that value."""
    number = _number(node)
    if neutral is not None and number is not None and fill_text(number) == fill_text(neutral):
        return
    identity = IDENTITIES.get(node.op) if isinstance(node, lang.Reduce) and node.function is None else None
    if is_strict and isinstance(node, lang.Reduce) and (identity is None or identity != neutral):
        yield around
        return
    if _is_product(node) and not (neutral is not None and neutral == 0):
        yield around  # where a factor is 0 the product is, and that counts
        return
    parts = [] if isinstance(node, lang.Access) else [*_parts(node, zeros, neutral)]
    if isinstance(node, lang.Statement):
        parts = [p for p in parts if p[0] is node.value]
    if not parts:
        yield around
    kept = _kept(node, neutral)
    for part, conditions in parts:
        yield from _leaves(part, (*around, *conditions), zeros, kept, is_strict)


def vanishes(value: Any, name: str) -> bool:
    """Whether a value, as part of a sum, adds nothing where an operand is 0: each of its terms has it as a factor."""
    match value:
        case lang.Access(tensor):
            return tensor == name
        case lang.Constant(number):
            return bool(number == 0)
        case lang.Apply("multiply", arguments, function=None):
            return any(vanishes(a, name) for a in arguments)
        case lang.Apply("add" | "subtract" | "negative", arguments, function=None):
            return all(vanishes(a, name) for a in arguments)
        case lang.Apply("divide", (dividend, _), function=None):
            return vanishes(dividend, name)
        case lang.Apply("where", (_, then, otherwise), function=None):
            return vanishes(then, name) and vanishes(otherwise, name)
        case lang.Reduce("add", _, inner, function=None):
            return vanishes(inner, name)
    return False


def _is_product(node: Any) -> bool:
    return isinstance(node, lang.Apply) and node.function is None and node.op in ("multiply", "logical_and")


def _number(node: Any) -> Any:
    match node:
        case lang.Constant(value):
            return value
        case lang.Apply("negative", (lang.Constant(value),), function=None):
            return -value
    return None


def _kept(node: Any, neutral: Any) -> Any:
    """The value that makes no difference in place of a part of a node."""
    if isinstance(node, lang.Reduce):
        return IDENTITIES.get(node.op) if node.function is None else None
    is_chosen = isinstance(node, lang.Apply) and node.function is None and node.op == "where"
    is_sum = isinstance(node, lang.Apply) and node.function is None and node.op in SUMS and neutral == 0
    return neutral if is_chosen or is_sum else None


__all__ = ["Conditions", "leaves", "outside", "under_conditions", "vanishes"]

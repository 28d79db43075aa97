"""Whether the order of a loop's iterations matters, and loop fission."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from spfgen.facts.formula import Bin, Compare, Expr, Formula, Var, conjunction, conjuncts, variables
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.blocks import blocks
from spfgen.lang.ops import OPERATORS
from spfgen.plan.steps.env import accesses_of, operator_name
from spfgen.sets.affine import expression
from spfgen.sets.uf import solved_for
from spfgen.space.conditions import negated
from spfgen.space.steps import Equation
from spfgen.space.typed import Holds
from spfgen.tuning import MOST_CUTS

PIECES = {
    "<": (("<", True), (">=", False)),
    ">=": (("<", False), (">=", True)),
    "<=": (("<=", True), (">", False)),
    ">": (("<=", False), (">", True)),
    "=": (("<", False), ("=", True), (">", False)),
    "!=": (("<", True), ("=", False), (">", True)),
}
"""The parts of a range, in its order, that a comparison with a bound makes, and whether it holds there."""


def combiner(updates: lang.Apply | None) -> str:
    """The function that an update combines values by, in any order: what is subtracted is added with another sign. ""
    for what needs its order."""
    if updates is None:
        return ""
    operator = updates.operator
    if operator.commutative and operator.associative:
        return operator.name
    other = OPERATORS.get(operator.inverse)
    return other.name if other is not None and other.commutative and other.associative else ""


def order_is_free(steps: Sequence[Any], indices: Sequence[str], written: set[str]) -> bool:
    """Whether iterations of a loop over the indices may run in any order: what they write are updates of which the
    order does not matter, or places of their own, and they read nothing of what others write."""
    inside = [n for s in steps for n in walk(s)]
    local_scalars = {n.name for n in inside if isinstance(n, lang.Let)}
    equations = [n for n in inside if isinstance(n, Equation)]
    if ends_early(steps) or any(blocks(n) and not isinstance(n, lang.For | lang.If) for n in inside):
        return False
    targets = {e.target for e in equations}
    read = [n for s in steps for n in accesses_of(s) if n.tensor in targets]
    combined: dict[str, str] = {}
    for target in targets:
        places = [e.subscripts for e in equations if e.target == target]
        reads = [n.subscripts for n in read if n.tensor == target]
        if all(any(all(p == Var(i) for p in k) for k in zip(*places, *reads, strict=True)) for i in indices):
            continue  # each iteration has places of its own
        functions = {combiner(e.updates) for e in equations if e.target == target}
        if reads or len(functions) != 1 or "" in functions:
            return False
    for step in (n for n in inside if isinstance(n, lang.Set) and n.name not in local_scalars):
        by = combiner(None if step.op == "=" else lang.Apply(operator_name(step.op), (), function=step.function))
        if not by or combined.setdefault(f"let {step.name}", by) != by:
            return False
    sets = {n.name for n in inside if isinstance(n, lang.Set) and n.name not in local_scalars}
    return not any(isinstance(n, lang.Local) and n.name in sets for n in inside)


def ends_early(body: Sequence[Any]) -> bool:
    """Whether there is a `break` of this loop in its body."""
    return any(isinstance(n, lang.Break) for s in body for n in steps_of_loop(s))


def steps_of_loop(step: Any) -> Iterator[Any]:
    """The steps that belong to the loop around, not to one further in."""
    yield step
    if isinstance(step, lang.If):
        for inner in (*step.then, *step.otherwise):
            yield from steps_of_loop(inner)


def are_independent(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two lists of steps may run in any order: neither writes what the other reads or writes."""
    writes = [changed_by(one), changed_by(other)]
    uses = [read_by(one) | writes[0], read_by(other) | writes[1]]
    return not ends_early((*one, *other)) and not writes[0] & uses[1] and not writes[1] & uses[0]


def changed_by(steps: Sequence[Any]) -> set[str]:
    """The tensors that steps write, and the scalars that they set, as `let x`."""
    inside = [n for s in steps for n in walk(s)]
    return {n.target for n in inside if isinstance(n, Equation)} | {
        f"let {n.name}" for n in inside if isinstance(n, lang.Set)
    }


def read_by(steps: Sequence[Any]) -> set[str]:
    """The same of what steps or values read."""
    inside = [n for s in steps for n in walk(s)]
    return {n.tensor for n in inside if isinstance(n, lang.Access)} | {
        f"let {n.name}" for n in inside if isinstance(n, lang.Local)
    }


def with_lets_inside(body: Sequence[Any]) -> lang.If | None:
    """A body that is a choice, after scalars of its own that only the sides speak of, as the choice alone."""
    *lets, last = body
    if not isinstance(last, lang.If) or not all(isinstance(s, lang.Let) for s in lets):
        return None
    names = {s.name for s in lets}
    if any(isinstance(n, lang.Local) and n.name in names for n in walk(last.condition)):
        return None
    sides = [_spoken_of(lets, side) for side in (last.then, last.otherwise)]
    return replace(last, then=sides[0], otherwise=sides[1] if last.otherwise else ())


def _spoken_of(lets: Sequence[Any], side: Sequence[Any]) -> tuple[Any, ...]:
    """The steps with the scalars before them that they speak of."""
    result = tuple(side)
    for let in reversed(lets):
        if any(isinstance(n, lang.Local | lang.Set) and n.name == let.name for s in result for n in walk(s)):
            result = (let, *result)
    return result


def with_gaps_asked(step: lang.For) -> lang.For:
    """A loop that asks in its body for those of its conditions that may leave gaps, as `k != 2`: as conditions of the
    loop they would be one nest for each range, in any order."""
    conditions = [] if step.where is None else [*conjuncts(step.where)]
    gaps = [c for c in conditions if not _is_one_range(c)]
    if not gaps:
        return step
    ranges = [c for c in conditions if c not in gaps]
    asked: Any = Holds(conjunction(gaps))
    return replace(
        step, body=(lang.If(asked, step.body, span=step.span),), where=conjunction(ranges) if ranges else None
    )


def _is_one_range(condition: Formula) -> bool:
    """Whether a condition certainly leaves one range of each index."""
    return (
        isinstance(condition, Compare)
        and condition.op != "!="
        and all(not isinstance(n, Bin) or n.op in "+-*/%" for n in walk(condition))
    )


def in_sides(step: lang.For, only: lang.If, condition: Formula) -> list[lang.For]:
    """A loop that does one thing where a condition on its indices holds, and another where not, as two loops."""
    around = [] if step.where is None else [*conjuncts(step.where)]
    sides = ((only.then, condition), (only.otherwise, negated(condition)))
    return [replace(step, body=body, where=conjunction([*around, *conjuncts(side)])) for body, side in sides]


def in_pieces(step: lang.For) -> list[lang.For]:
    """A loop that asks where its last index is as loops over that index, one after the other, that need not ask: the
    order of the iterations stays. [] where nothing is asked, or too much."""
    *outer, last = step.indices
    asked = list(dict.fromkeys(_asked(step.body, last)))
    if ends_early(step.body) or not 0 < len(asked) <= MOST_CUTS:
        return []  # what ends one part would have to end those behind it
    op, bound = asked[0]
    conditions = () if step.where is None else tuple(conjuncts(step.where))
    further = [c for c in conditions if outer and last not in variables(c)]
    loops = []
    for part, holds in PIECES[op]:
        body = tuple(_decided(step.body, last, asked[0], holds))
        where = [*(c for c in conditions if c not in further), Compare(part, Var(last), bound)]
        if body:
            loops.append(lang.For((last,), body, conjunction(where), step.span))
    if not outer:
        return loops
    return [lang.For(tuple(outer), tuple(loops), conjunction(further) if further else None, step.span)]


def _asked(steps: Sequence[Any], index: str) -> Iterator[tuple[str, Expr]]:
    """The conditions of the loop's body that are one comparison of the index, as (operator, bound)."""
    for step in (n for s in steps for n in steps_of_loop(s) if isinstance(n, lang.If)):
        comparison = _compared(step, index)
        if comparison is not None:
            yield comparison


def _compared(step: lang.If, index: str) -> tuple[str, Expr] | None:
    condition: Any = step.condition
    bound = solved_for(condition.condition, index) if isinstance(condition, Holds) else None
    return None if bound is None else (bound[0], expression(bound[1]))


def _decided(steps: Sequence[Any], index: str, asked: tuple[str, Expr], holds: bool) -> Iterator[Any]:
    """The steps where it is known whether the condition holds."""
    for step in steps:
        if not isinstance(step, lang.If):
            yield step
            continue
        then = tuple(_decided(step.then, index, asked, holds))
        otherwise = tuple(_decided(step.otherwise, index, asked, holds))
        if _compared(step, index) == asked:
            yield from then if holds else otherwise
        elif then or otherwise:
            yield replace(step, then=then, otherwise=otherwise)

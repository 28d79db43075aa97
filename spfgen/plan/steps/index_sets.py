"""Index-set splitting: a loop is split where conditions on its index change.

    for j in [0, n) { if i <= j { ... } else { ... } }   ->   for j in [0, i) { ... }   for j in [i, n) { ... }

Right for any body, because the parts run in the order of the loop. A condition that is an equation cuts out one
iteration. What is asked has to be known where the loop begins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spfgen.errors import InternalError
from spfgen.facts.formula import TRUE, And, Compare, Expr, Not, Num, Or, conjunction
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.types import TYPES, ElementType
from spfgen.lang.typing import kind_of, settled
from spfgen.plan.nodes import Assign, Block, Define, Guard, If, Let, Load, Plan, Probe, Scan
from spfgen.plan.steps.invariant import ends_loop
from spfgen.sets.affine import Affine, NotAffine, expression
from spfgen.sets.uf import linear, solved_for
from spfgen.space.nodes import Read
from spfgen.space.typed import Holds, Scalar
from spfgen.tuning import MOST_CUTS, SPLIT_STATEMENTS

FALSE = Or(())
YES, NO = lang.Constant(True), lang.Constant(False)


@dataclass(frozen=True)
class IndexCut:
    """The first iteration of which a condition holds; or, `alone`, the only one."""

    at: Affine
    alone: bool


def with_split_loops(plan: Plan, sizes: Collection[str], kinds: Mapping[str, str]) -> Plan:
    """The plan with its loops cut where conditions on their index begin or cease to hold. `sizes` are not negative;
    `kinds` are the element types of tensors."""
    positive = {*sizes, *_not_negative(plan)}

    def rule(node: Any) -> Plan | None:
        return _split(node, positive, kinds, MOST_CUTS) if isinstance(node, Scan) and _is_plain(node) else None

    result: Plan = rewrite(rule, plan, Plan)
    return result


def _is_plain(scan: Scan) -> bool:
    """Whether the parts of the loop are loops of the same kind."""
    special = scan.private or scan.collapse or scan.down or scan.segment_keys
    shared = scan.partition is not None and (scan.partition.slice is not None or bool(scan.partition.adds))
    return not special and not shared and not ends_loop(scan.body)


def _split(scan: Scan, positive: set[str], kinds: Mapping[str, str], most: int) -> Plan | None:
    cut = next(_cuts(scan), None) if most else None
    if cut is None or sum(1 for _ in walk(scan.body, Plan)) > SPLIT_STATEMENTS:
        return None
    first = expression(cut.at)
    after = expression(cut.at.plus(1)) if cut.alone else first
    parts = [(scan.low, _least(scan.high, first, positive), False)]
    if cut.alone:
        parts.append((_most(scan.low, first, positive), _least(scan.high, after, positive), True))
    parts.append((_most(scan.low, after, positive), scan.high, not cut.alone))
    loops: list[Plan] = []
    for low, high, holds in parts:
        if any(_at_least(one, other, positive) for one in low for other in high):
            continue  # it has no iteration
        part = replace(scan, low=low, high=high, body=_decided(scan.body, scan.dim, cut, holds, kinds))
        if not _is_empty(part.body):
            loops.append(_split(part, positive, kinds, most - 1) or part)
    return loops[0] if len(loops) == 1 else Block(tuple(loops))


def _cuts(scan: Scan) -> Iterator[IndexCut]:
    """Where the loop can be cut, by the conditions in it that speak of its index and of what is known before it."""
    bound_inside = set(_bound(scan.body))
    for node in walk(scan.body):
        if isinstance(node, Holds):
            for part in (n for n in walk(node.condition) if isinstance(n, Compare)):
                cut = _cut(part, scan.dim)
                if cut is not None and not cut[0].at.names() & bound_inside:
                    yield cut[0]


def _cut(part: Compare, dim: str) -> tuple[IndexCut, bool] | None:
    """The cut that a comparison asks for, and whether it holds from there on, or there, rather than elsewhere."""
    match solved_for(part, dim):
        case (">=" | "<") as op, bound:
            return IndexCut(_in_order(bound), False), op == ">="
        case (">" | "<=") as op, bound:
            return IndexCut(_in_order(bound.plus(1)), False), op == ">"
        case ("=" | "!=") as op, bound:
            return IndexCut(_in_order(bound), True), op == "="
    return None


def _in_order(value: Affine) -> Affine:
    return Affine(tuple(sorted(value.terms, key=str)), value.constant)


def _decided(body: Plan, dim: str, cut: IndexCut, holds: bool, kinds: Mapping[str, str]) -> Plan:
    """The body where it is known whether the cut's condition holds."""

    def leaf(value: Any) -> ElementType:
        match value:
            case Scalar(_, kind):
                return TYPES[kind]
            case Holds():
                return TYPES["bool"]
            case Read(operand):
                return TYPES[kinds[operand.tensor]]
        raise InternalError(f"no type of {value!r}")

    def typed(part: Any, whole: lang.Apply) -> Any:
        """A part of a value as the whole: it may have had another type."""
        kind = settled(kind_of(whole, leaf))
        return part if kind_of(part, leaf) == kind else lang.Apply(kind.name, (part,), whole.span)

    def rule(node: Any) -> Any:
        match node:
            case Compare():
                cut_here = _cut(node, dim)
                return None if cut_here is None or cut_here[0] != cut else TRUE if cut_here[1] == holds else FALSE
            case And(parts) if FALSE in parts:
                return FALSE
            case And(parts) if TRUE in parts:
                return conjunction([p for p in parts if p != TRUE])
            case Or(parts) if TRUE in parts:
                return TRUE
            case Or(parts) if FALSE in parts:
                return Or(tuple(p for p in parts if p != FALSE))
            case Not(inner) if inner in (TRUE, FALSE):
                return FALSE if inner == TRUE else TRUE
            case Holds(condition) if condition in (TRUE, FALSE):
                return YES if condition == TRUE else NO
            case lang.Apply("where", (condition, then, otherwise)) if condition in (YES, NO):
                return typed(then if condition == YES else otherwise, node)
            case lang.Apply("logical_not", (inner,)) if inner in (YES, NO):
                return NO if inner == YES else YES
            case lang.Apply("logical_and" | "logical_or" as op, (one, other)) if one in (YES, NO):
                return typed(other, node) if (one == YES) == (op == "logical_and") else one
            case If(condition, then, otherwise) if condition in (YES, NO):
                return then if condition == YES else otherwise or Block(())
            case Guard(conditions, inside) if TRUE in conditions or FALSE in conditions:
                left = tuple(c for c in conditions if c != TRUE)
                return Block(()) if FALSE in conditions else replace(node, conditions=left) if left else inside
            case Block(parts, because):
                return Block(_together(parts), because)
        return None

    result: Plan = rewrite(rule, body)
    return result


def _together(parts: Sequence[Plan]) -> tuple[Plan, ...]:
    """The parts of a block without those that are empty; a scalar gets its value where it is declared, if that is
    assigned before anything speaks of it."""
    nonempty: list[Plan] = [p for p in parts if not _is_empty(p)]
    for let in [p for p in nonempty if isinstance(p, Let) and isinstance(p.value, lang.Constant)]:
        start = nonempty.index(let) + 1
        place = next((k for k in range(start, len(nonempty)) if _speaks(nonempty[k], let.name)), None)
        if place is None:
            continue
        inner = nonempty[place]
        lines = _together(inner.parts) if isinstance(inner, Block) and not inner.because else (inner,)
        place_of_let = next((k for k, line in enumerate(lines) if _speaks(line, let.name)), 0)
        taken = {n for k, p in enumerate(nonempty) if k != place for n in _declared(p)}
        clash = taken.intersection(n for p in lines for n in _declared(p))
        match lines[place_of_let]:
            case Assign(name, kind, value) if name == let.name and not _speaks(value, name) and not clash:
                changed = (*lines[:place_of_let], Let(name, kind, value, let.because), *lines[place_of_let + 1 :])
                nonempty[place : place + 1] = changed
                nonempty.remove(let)
    return tuple(nonempty)


def _speaks(part: Any, name: str) -> bool:
    return any(isinstance(n, Scalar | Let | Assign) and n.name == name for n in walk(part))


def _declared(part: Plan) -> set[str]:
    """What a part of a block declares for the rest of it."""
    match part:
        case Let(name) | Define(name, body=None) | Probe(name):
            return {name}
    return set()


def _is_empty(plan: Plan | None) -> bool:
    """Whether nothing is done."""
    match plan:
        case None:
            return True
        case Block(parts):
            return all(map(_is_empty, parts))
        case If(_, then, otherwise):
            return _is_empty(then) and _is_empty(otherwise)
        case Scan(body=Plan() as body) | Load(body=body) | Define(body=Plan() as body) | Guard(body=body):
            return _is_empty(body)
    return False


def _bound(body: Plan) -> Iterator[str]:
    """The names that have a value only inside."""
    for node in walk(body, Plan):
        if isinstance(node, Let | Assign):
            yield node.name
        elif isinstance(node, Probe):
            yield node.dim
        yield from (step.name for step in node.computed() if step.name)


def _not_negative(plan: Plan) -> set[str]:
    """The indices of loops that begin at 0 or later."""
    loops = [n for n in walk(plan, Plan) if isinstance(n, Scan)]
    negative = {n.dim for n in loops if not any(isinstance(e, Num) and e.value >= 0 for e in n.low)}
    return {n.dim for n in loops} - negative


def _at_least(one: Expr, other: Expr, positive: set[str]) -> bool:
    """Whether the first is never less than the second."""
    try:
        difference = linear(one) - linear(other)
    except NotAffine:
        return False
    return difference.constant >= 0 and all(a in positive and c > 0 for a, c in difference.terms)


def _most(low: tuple[Expr, ...], new: Expr, positive: set[str]) -> tuple[Expr, ...]:
    """The lower bounds with another one, without those that are never greater than another."""
    if any(_at_least(e, new, positive) for e in low):
        return low
    return (*(e for e in low if not _at_least(new, e, positive)), new)


def _least(high: tuple[Expr, ...], new: Expr, positive: set[str]) -> tuple[Expr, ...]:
    if any(_at_least(new, e, positive) for e in high):
        return high
    return (*(e for e in high if not _at_least(e, new, positive)), new)

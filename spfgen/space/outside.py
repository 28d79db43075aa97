"""Reads outside of tensors within reductions: such points are left out.

A sum takes each of its additive terms on its own: one that reads outside is 0 at that point. Any other reduction leaves
out the point as a whole. A value that reads outside of a tensor makes all that is made of it so, but a sum, which has
its other term; `where`, `and` and `or` look at what they take. Where the question is one of indices alone, it becomes a
condition of the reduction or of the term, by which loops start and end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce
from itertools import chain, product
from operator import is_
from typing import Any

from spfgen.facts.formula import And, Compare, Expr, Formula, Or, Var, conjunction, conjuncts, variables
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.signs import PLACES
from spfgen.sets.affine import Affine, NotAffine
from spfgen.sets.uf import linear
from spfgen.space.conditions import COMPARED, negated
from spfgen.space.normal import InsideTensors
from spfgen.space.steps import Chosen, Counted, Gathered, Linked
from spfgen.space.typed import Holds, Types

WRITTEN = {sign: name for name, sign in COMPARED.items()}
YES = lang.Constant(True)
NOTHING = lang.Constant(False)
"""What a term is where it is left out: 0, in a type that leaves all others as they are."""


class Stands(Enum):
    """How a value stands in what is reduced."""

    TERM = "as a term of a sum"
    FACTOR = "in a product that is a term: where it is 0, the term is"
    WITHIN = "in another function"
    WHOLE = "in a reduction that is no sum"


@dataclass(frozen=True)
class Around:
    """What is `known` to hold where a value is asked for, the names of gathers that are `looked` at by themselves, and
    how it stands there."""

    stands: Stands
    known: frozenset[Formula] = frozenset()
    looked: frozenset[str] = frozenset()

    def where(self, condition: Formula) -> Around:
        return replace(self, known=self.known | {*conjuncts(condition)})

    def arguments(self, op: str, count: int) -> list[Around]:
        within = self if self.stands is Stands.WHOLE else replace(self, stands=Stands.WITHIN)
        factor = replace(self, stands=Stands.FACTOR)
        match self.stands, op:
            case Stands.TERM, "add" | "subtract" | "negative":
                return [self] * count
            case Stands.TERM | Stands.FACTOR, "multiply":
                return [factor] * count
            case Stands.FACTOR, "negative":
                return [factor]
            case Stands.TERM | Stands.FACTOR, "divide":
                return [factor, within]
        return [within] * count


@dataclass(frozen=True)
class Outside:
    """`limits` says where an access lies within its tensor, as far as that is a question, and `never_negative` whether
    an expression is so for all values of indices and sizes; `free` are the indices that have no extent. `absent` are
    the tensors of which nothing is stored outside, and nothing is 0: it makes products 0, whatever their other factors
    are."""

    limits: Callable[[lang.Access], list[Formula]]
    never_negative: Callable[[Affine], bool]
    free: frozenset[str]
    absent: frozenset[str]
    types: Types

    def left_out(self, step: Any) -> Any:
        """The step, with reductions that leave out what they read outside, and `coalesce` that looks where it does."""

        def rule(node: Any) -> Any:
            match node:
                case lang.Reduce():
                    reduced = self.reduced(node)
                    return None if reduced == node else reduced
                case Chosen(InsideTensors(value), then, otherwise, span):
                    _, asked = self.of(value, Around(Stands.WHOLE))
                    if isinstance(asked, Holds):
                        return replace(node, condition=asked.condition)
                    return then if asked == YES else lang.Apply("where", (asked, then, otherwise), span)
            return None

        return rewrite(rule, step)

    def reduced(self, node: lang.Reduce) -> lang.Reduce:
        """The reduction without what lies outside."""
        is_sum = node.op == "add" and node.function is None
        bounding = self.reaches(node.value, self.free & {*node.indices}, not is_sum)
        if bounding:
            node = self.under(node, bounding[0] if len(bounding) == 1 else [Or(tuple(map(conjunction, bounding)))])
        around = Around(Stands.TERM if is_sum else Stands.WHOLE)
        value, asked = self.of(node.value, around if node.where is None else around.where(node.where))
        if isinstance(asked, Holds):
            return self.under(replace(node, value=value), [*conjuncts(asked.condition)])
        if is_sum or asked == YES:
            return replace(node, value=guarded(value, asked))
        identity = None if node.op in PLACES else self.types.identity(node)
        counted: Any = Counted(asked, node.value)
        if identity is not None:  # it stands for a point that is left out
            counted = lang.Apply("where", (asked, node.value, lang.Constant(identity)), node.span)
        return replace(node, value=counted)

    def reaches(self, value: Any, free: Set[str], whole: bool) -> list[list[Formula]]:
        """What bounds indices that have no extent: that what speaks of them lies inside, all of this or, of terms and
        choices, one of them."""
        if not free:
            return []
        match value:
            case lang.Access():
                conditions = [c for c in self.limits(value) if speaks(c, free)]
                return [conditions] if conditions else []
            case lang.Apply("add" | "subtract", parts, function=None) if not whole:
                return unlike(r for p in parts for r in self.reaches(p, free, whole))
            case lang.Apply("where", (_, *parts), function=None):
                return unlike(r for p in parts for r in self.reaches(p, free, whole))
            case lang.Apply(_, arguments):
                every = [r for a in arguments if (r := self.reaches(a, free, whole))]
                return unlike([*dict.fromkeys(chain(*one))] for one in product(*every)) if every else []
        return []

    def under(self, node: lang.Reduce, conditions: Sequence[Formula]) -> lang.Reduce:
        before = () if node.where is None else conjuncts(node.where)
        return replace(node, where=conjunction(list(dict.fromkeys((*before, *conditions)))))

    def of(self, value: Any, around: Around) -> tuple[Any, Any]:
        """The value with its additive terms on their own, and the truth value that it reads nothing outside."""
        match value:
            case lang.Access():
                return value, self.inside(value, around)
            case lang.Apply("add" | "subtract", function=None) if around.stands is not Stands.WHOLE:
                return self.sum(value, around)
            case lang.Apply("where", (condition, *_), function=None):
                asked, holds = self.of(condition, within(around))
                return self.choice(value, asked, holds, around, around)
            case lang.Apply("logical_and" | "logical_or" as op, (first, second), span, None):
                (one, here), (other, there) = (self.of(a, within(around)) for a in value.arguments)
                left = opposite(one) if op == "logical_and" else one
                connective = value if one is first and other is second else lang.Apply(op, (one, other), span)
                return connective, both(here, either(left, there))
            case lang.Apply(op, arguments):
                places = around.arguments(op if value.function is None else "", len(arguments))
                parts = [self.of(a, p) for a, p in zip(arguments, places, strict=True)]
                return with_arguments(value, [v for v, _ in parts]), reduce(both, (c for _, c in parts), YES)
            case Chosen(condition):
                other = around.where(negated(condition))
                return self.choice(value, Holds(condition), YES, around.where(condition), other)
            case Gathered() | Linked():
                return self.bound(value, around)
        return value, YES

    def sum(self, value: lang.Apply, around: Around) -> tuple[Any, Any]:
        places = around.arguments(value.op, 2)
        (one, here), (other, there) = (self.of(a, p) for a, p in zip(value.arguments, places, strict=True))
        if here == there:
            return with_arguments(value, (one, other)), here
        guarded_sum = with_arguments(value, (guarded(one, here), guarded(other, there)))
        return guarded_sum, YES if around.stands is Stands.TERM else either(here, there)

    def choice(self, value: Any, asked: Any, holds: Any, first: Around, second: Around) -> tuple[Any, Any]:
        """`where`, by a condition of indices or of values: what it does not take may lie outside."""
        *_, then, otherwise = value.arguments if isinstance(value, lang.Apply) else (value.then, value.otherwise)
        (one, here), (other, there) = self.of(then, first), self.of(otherwise, second)
        if here == there:
            chosen, inside = (one, other), here
        elif first.stands is Stands.TERM:
            chosen, inside = (guarded(one, here), guarded(other, there)), YES
        else:
            chosen, inside = (one, other), either_of(asked, here, there)
        if isinstance(value, lang.Apply):
            return with_arguments(value, (asked, *chosen)), both(holds, inside)
        same = chosen[0] is then and chosen[1] is otherwise
        return value if same else replace(value, then=chosen[0], otherwise=chosen[1]), both(holds, inside)

    def bound(self, value: Gathered | Linked, around: Around) -> tuple[Any, Any]:
        """A value within which further names mean something: what is asked of them is asked there."""
        if isinstance(value, Gathered):
            return self.gathered(value, around)
        inner, here = self.of(value.value, around)
        bound_value = value if inner is value.value else replace(value, value=inner)
        if not speaks(here, {*value.link.inner}):
            return bound_value, here
        if around.stands is Stands.TERM:
            return replace(value, value=guarded(inner, here)), YES
        return bound_value, replace(value, value=here)

    def gathered(self, value: Gathered, around: Around) -> tuple[Any, Any]:
        at, holds = self.of(value.at, within(around))
        around = replace(around, looked=around.looked | {value.name}) if value.checked else around
        inner, here = self.of(value.value, around)
        if speaks(here, {value.name}):
            if around.stands is Stands.TERM:
                inner, here = guarded(inner, here), YES
            else:
                here = as_values(here, value.name, at)
        same = at is value.at and inner is value.value
        return value if same else replace(value, at=at, value=inner), both(holds, here)

    def inside(self, access: lang.Access, around: Around) -> Any:
        """That an access lies within its tensor, as far as it is not known, and decides anything."""
        if access.tensor in self.absent and around.stands in (Stands.TERM, Stands.FACTOR):
            return YES
        limits = (c for c in self.limits(access) if not variables(c) & around.looked)
        asked = [c for c in dict.fromkeys(limits) if not self.follows(c, around.known)]
        return Holds(conjunction(asked)) if asked else YES

    def follows(self, condition: Formula, known: frozenset[Formula]) -> bool:
        """Whether a condition holds by one that is known, or for all values of the indices."""
        if condition in known:
            return True
        value = slack(condition)
        facts = [f for f in map(slack, known) if f is not None]
        return value is not None and any(self.never_negative(value - f) for f in (Affine(()), *facts))


def within(around: Around) -> Around:
    """As an argument of something that is no sum and no product."""
    return around.arguments("", 1)[0]


def guarded(value: Any, asked: Any) -> Any:
    """A term, or nothing where it reads outside."""
    if asked == YES:
        return value
    if isinstance(asked, Holds):
        return Chosen(asked.condition, value, NOTHING)
    return lang.Apply("where", (asked, value, NOTHING))


def with_arguments(value: lang.Apply, arguments: Sequence[Any]) -> lang.Apply:
    return value if all(map(is_, arguments, value.arguments)) else replace(value, arguments=tuple(arguments))


def both(one: Any, other: Any) -> Any:
    match one, other:
        case (lang.Constant(True), other_side) | (other_side, lang.Constant(True)):
            return other_side
        case Holds(a), Holds(b):
            return Holds(conjunction(list(dict.fromkeys((*conjuncts(a), *conjuncts(b))))))
    return lang.Apply("logical_and", (one, other))


def either(one: Any, other: Any) -> Any:
    match one, other:
        case (lang.Constant(True), _) | (_, lang.Constant(True)):
            return YES
        case Holds(a), Holds(b):
            return Holds(Or((a, b)))
    return lang.Apply("logical_or", (one, other))


def unlike(alternatives: Iterable[list[Formula]]) -> list[list[Formula]]:
    return [*map(list, dict.fromkeys(map(tuple, alternatives)))]


def speaks(value: Any, names: Set[str]) -> bool:
    return any(isinstance(n, Var) and n.name in names for n in walk(value))


def as_values(asked: Any, name: str, at: Any) -> Any:
    """A truth value with an integer in the place of a name, which stands alone in conditions."""

    def side(expr: Expr) -> Any:
        return at if expr == Var(name) else lang.Index(expr)

    def of(condition: Formula) -> Any:
        match condition:
            case Compare(op, left, right) if speaks(condition, {name}):
                return lang.Apply(WRITTEN[op], (side(left), side(right)))
            case And(parts) | Or(parts):
                word = "logical_and" if isinstance(condition, And) else "logical_or"
                return reduce(lambda a, b: lang.Apply(word, (a, b)), map(of, parts))
        return Holds(condition)

    return rewrite(lambda n: of(n.condition) if isinstance(n, Holds) and speaks(n, {name}) else None, asked)


def opposite(value: Any) -> Any:
    return Holds(negated(value.condition)) if isinstance(value, Holds) else lang.Apply("logical_not", (value,))


def either_of(asked: Any, here: Any, there: Any) -> Any:
    """`here` where something holds, else `there`."""
    if here == YES:
        return either(asked, there)
    if there == YES:
        return either(opposite(asked), here)
    if isinstance(asked, Holds):
        return either(both(asked, here), both(opposite(asked), there))
    return lang.Apply("where", (asked, here, there))


def slack(condition: Formula) -> Affine | None:
    """What is 0 or more where a comparison holds, and nowhere else; None where it is not affine."""
    if not isinstance(condition, Compare) or condition.op not in ("<", "<=", ">", ">="):
        return None
    try:
        less, more = linear(condition.left), linear(condition.right)
    except NotAffine:
        return None
    value = more - less if condition.op[0] == "<" else less - more
    return value if condition.op[1:] else value.plus(-1)

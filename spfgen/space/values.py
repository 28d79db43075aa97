"""Values that are more than sums of products: quotients, products of sums, and those that read their own target.

Each largest sum within the value becomes a sum of products into a temporary, which has the target's places; an access
that may have nothing stored at a point is such a sum too, so that it is 0 there. What remains is an expression over
temporaries and dense values, which is stored once at each point of the target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spfgen.errors import SpecError, Unsupported
from spfgen.facts.formula import ZERO, Compare, Expr, Formula, Var, calls, conjuncts, variables
from spfgen.ir import fresh, rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.normalize import normalized
from spfgen.lang.ops import QUOTIENT
from spfgen.lang.show import show_statement
from spfgen.lang.types import TYPES, ElementType, promoted
from spfgen.lang.typing import Kind, kind_of
from spfgen.sets.named import Space
from spfgen.sets.uf import comparisons
from spfgen.space.extents import Ranges
from spfgen.space.implicit_updates import several_meet
from spfgen.space.instances import AtTarget, make_instances
from spfgen.space.names import accesses
from spfgen.space.nodes import Asked, Group, Instance, Tensor
from spfgen.space.products import Term, instances_of, linear_terms, too_many

WRAPPING = ("add", "subtract", "multiply", "negative")
MOST_BYTES = 4
"""Of integers of which float64 holds every sum that there is."""


def make_expression(statement: lang.Statement, tensors: Mapping[str, Tensor], ranges: Ranges) -> Asked:
    """A statement whose value is an expression over sums. Raises SpecError, Unsupported."""
    _check_whole(statement, tensors)
    plain = replace(statement, where=_where(statement))
    apart = _Apart(plain, tensors, ranges)
    value = apart.value(statement.value)
    if statement.op == "+=":
        value = lang.Apply("add", (AtTarget(statement.target.tensor), value))
    all_instances: list[Instance] = []
    temporaries: list[Tensor] = []
    labels: set[str] = set()
    kind = combined_type(statement, {n: t.value_type for n, t in tensors.items()})
    goal = tensors[statement.target.tensor]
    for name, terms in apart.sums.items():
        instances = instances_of(plain, terms, tensors, ranges, labels)
        if not instances:  # the condition holds nowhere
            value = _without(value, name)
            continue
        all_instances += [replace(i, target=replace(i.target, tensor=name)) for i in instances]
        temporaries.append(replace(goal, name=name, value_type=kind, is_input=False, is_output=False, shared_with=None))
    kept = any(isinstance(n, AtTarget) and n.tensor == statement.target.tensor for n in walk(value))
    points = list(make_instances(plain, value, tensors, ranges, labels))
    text, op = show_statement(statement), "+=" if kept else "="
    if not points:
        return Asked(Group(text, op, statement.target.tensor, (), None, statement.span), ())
    if len(points) > 1:
        layout = tensors[statement.target.tensor].layout.name
        raise SeveralPlaces(
            f"`{statement.target.tensor}` in layout `{layout}` has places of several kinds, which only sums can fill",
            statement.target.span,
            ("a sum of products can be stored there: write the value into another tensor first",),
        )
    if temporaries and several_meet(plain, ranges.sizes):
        raise SeveralPlaces(
            f"several points have one element of `{goal.name}`, whose value is more than a sum of products",
            statement.target.span,
            ("write the value into another tensor first, with a subscript for each index",),
        )
    group = Group(text, op, statement.target.tensor, tuple(all_instances), points[0], statement.span)
    return Asked(group, tuple(temporaries))


def _without(value: Any, name: str) -> Any:
    """The value where a temporary is 0."""
    return rewrite(lambda n: lang.Constant(0) if n == AtTarget(name) else None, value)


def _where(statement: lang.Statement) -> Formula | None:
    """The condition, which may only speak of the target's points."""
    known = variables(*statement.target.subscripts)
    inner = {n for a in accesses(statement.value) for s in a.subscripts for n in variables(s)} - known
    for part in conjuncts(statement.where) if statement.where is not None else ():
        strange = sorted(variables(part) & inner)
        if strange:
            raise SpecError(
                f"expected a condition on indices of `{statement.target.tensor}`, but `{strange[0]}` is summed over",
                getattr(part, "span", None) or statement.span,
                (f"write it in the sum: `sum({strange[0]}: ... where ...)`",),
            )
    return statement.where


def _check_whole(statement: lang.Statement, tensors: Mapping[str, Tensor]) -> None:
    """A quotient of whole numbers by 0 would be nothing that the target could hold."""
    kind = TYPES[tensors[statement.target.tensor].value_type]
    divides = [n for n in walk(statement.value) if isinstance(n, lang.Apply) and n.operator.result == QUOTIENT]
    if kind.kind in "biu" and any(not isinstance(d.arguments[1], lang.Constant) for d in divides):
        raise Unsupported(
            f"a quotient cannot be stored in `{statement.target.tensor}`, which holds {kind.name}: "
            "where the divisor is 0 it has no value",
            statement.target.span or statement.span,
            ("declare the target with float or double values",),
        )


def combined_type(statement: lang.Statement, types: Mapping[str, str]) -> str:
    """The type in which the parts of the value are combined: the promotion of all, and float64 for quotients."""
    names = [types[a.tensor] for a in (statement.target, *accesses(statement.value))]
    nodes = list(walk(statement.value))
    fractional = any(
        n.operator.result == QUOTIENT
        if isinstance(n, lang.Apply)
        else isinstance(n, lang.Constant) and isinstance(n.value, float)
        for n in nodes
    )
    target_type = TYPES[types[statement.target.tensor]]
    if fractional and target_type.kind not in "fc":
        names.append("float64")
    return promoted(sorted(set(names))).name


def converted_within(statement: lang.Statement, types: Mapping[str, str], sizes: Sequence[str]) -> Any | None:
    """The first operation of a value that numpy makes in another type than the whole is combined in: `x + a*b` of
    float64 and int8 multiplies int8. None where all are made in that one, or it makes no difference."""
    whole = TYPES[combined_type(statement, types)]
    if whole.kind in "fc" and {types[a.tensor] for a in accesses(statement.value)} <= {whole.name}:
        return None

    def leaf(value: Any) -> Kind:
        return TYPES[types[value.tensor]]

    nodes = [n for step in normalized((statement,), sizes) for n in walk(step)]
    products = [n for n in nodes if isinstance(n, lang.Apply) and n.op in ("multiply", "divide")]
    apart = all(_is_product(n) for p in products for a in p.arguments for n in walk(a))
    for node in nodes:
        if isinstance(node, lang.Apply | lang.Reduce):
            kind = kind_of(node, leaf)
            if isinstance(kind, ElementType) and kind != whole and not _is_exact(node, kind, whole, leaf):
                narrow = apart and _is_product(node) and kind.kind == whole.kind and kind.kind in "fc"
                if not narrow:  # which cir/lower/values.py makes in its own type
                    return node
    return None


def _is_product(node: Any) -> bool:
    """Whether it is no sum: it is not multiplied out."""
    if isinstance(node, lang.Apply):
        return node.op in ("multiply", "divide", "negative")
    return isinstance(node, lang.Constant | Expr | lang.Access)


def _is_exact(
    node: lang.Apply | lang.Reduce, kind: ElementType, whole: ElementType, leaf: Callable[[Any], Kind]
) -> bool:
    """Whether an operation has the same result in its own type as in that of the whole: integers wrap around alike in
    what is as wide or wider, products of truth values are 0 and 1, sums of small integers are whole numbers that
    float64 holds, and sums of floats may round less."""
    if isinstance(node, lang.Reduce):
        operand_type = kind_of(node.value, leaf)  # that of a literal where it counts
        small = kind.kind in "iu" and (isinstance(operand_type, type) or operand_type.bytes <= MOST_BYTES)
        rounds = whole.kind in "fc" and kind.kind == whole.kind
        return whole.kind in "biu" or rounds or (small and whole.name == "float64")
    if kind.kind == "b":
        return node.op == "multiply" and whole.kind in "iuf"
    return kind.kind in "iu" and whole.kind in "iu" and kind.bytes >= whole.bytes and node.op in WRAPPING


@dataclass
class _Apart:
    """Takes a value apart; `sums` are the terms of each temporary."""

    statement: lang.Statement
    tensors: Mapping[str, Tensor]
    ranges: Ranges
    sums: dict[str, list[Term]] = field(default_factory=dict)
    known: dict[lang.Value, str] = field(default_factory=dict)

    def free(self, value: lang.Value) -> set[str]:
        return free(self.statement, self.ranges, value)

    def value(self, value: lang.Value) -> Any:
        """The value over temporaries and dense accesses."""
        match value:
            case lang.Access() if value == self.statement.target:
                return AtTarget(value.tensor)
            case lang.Access() if not self.free(value) and self.is_everywhere(value):
                return value
            case lang.Access() | lang.Reduce("add"):
                return self.sum(value)
            case lang.Apply("multiply", (left, right)) if self.free(value) and not self.parts(left, right):
                return self.sum(value)
            case lang.Apply("divide", (_, right)) if self.free(right):
                return self.sum(value)
            case lang.Apply(op, arguments):
                return lang.Apply(op, tuple(map(self.value, arguments)), value.span)
        return value

    def parts(self, left: lang.Value, right: lang.Value) -> bool:
        """Whether the sums of two factors are made apart: they have no index in common, and multiplying them out would
        be long, or is not possible."""
        if self.free(left) & self.free(right):
            return False
        return linear_terms(lang.Apply("multiply", (left, right)), quotients=True) is None

    def sum(self, value: lang.Value) -> AtTarget:
        """A temporary for a sum of products."""
        if value not in self.known:
            terms = linear_terms(value, quotients=True)
            if terms is None:
                raise too_many(value, self.statement.span) or NoSumOfProducts(
                    "only sums of products and quotients are compiled here",
                    value.span or self.statement.span,
                    ("assign the value, or the sums in it, to a tensor in a statement of its own, and sum that",),
                )
            for term in terms:
                check_divisors(self.statement, term, self.tensors, self.ranges)
            name = fresh(f"{self.statement.target.tensor}_sum", {*self.tensors, *self.sums})
            self.known[value] = name
            self.sums[name] = terms
        return AtTarget(self.known[value])

    def is_everywhere(self, access: lang.Access) -> bool:
        """Whether the access has one value, in one place, at every point of the statement."""
        tensor = self.tensors[access.tensor]
        if tensor.layout.indexes or calls(tensor.layout.relation) or access.tensor == self.statement.target.tensor:
            return False
        alone = list(make_instances(self.statement, lang.Constant(1), self.tensors, self.ranges))
        both = list(make_instances(self.statement, access, self.tensors, self.ranges))
        if len(both) != 1 or len(alone) != 1 or both[0].guards:
            return False
        return _same_points(alone[0], both[0])


class SeveralPlaces(Unsupported):
    """The target has places of several kinds, or one for several points, and its value is more than a sum of products:
    steps can do that."""


class NoSumOfProducts(Unsupported):
    """Sums within a sum cannot be multiplied out: steps compute each of them."""


class UnstoredDivisor(Unsupported):
    """What is divided by may store nothing where the dividend stores something: that is no sum of products."""


def free(statement: lang.Statement, ranges: Ranges, value: lang.Value) -> set[str]:
    """The indices of a value that neither the target has nor a sum within it binds."""
    bound = variables(*statement.target.subscripts) | set(ranges.sizes)
    match value:
        case lang.Access(_, subscripts):
            return variables(*subscripts) - bound
        case lang.Reduce(_, indices, inner):
            return free(statement, ranges, inner) - set(indices)
        case lang.Apply(_, arguments):
            return set().union(*(free(statement, ranges, a) for a in arguments))
    return set()


def check_divisors(statement: lang.Statement, term: Term, tensors: Mapping[str, Tensor], ranges: Ranges) -> None:
    """Within a sum, what is divided by must be stored wherever the dividend is."""
    divisors = {n: n.arguments[1] for n in walk(term.value) if isinstance(n, lang.Apply) and n.op == "divide"}
    if not any(a.subscripts for d in divisors.values() for a in accesses(d)):
        return
    plain = rewrite(lambda n: n.arguments[0] if n in divisors else None, term.value)
    conditioned = replace(statement, where=term.where)
    indices = tuple(dict.fromkeys((*term.over, *sorted(free(statement, ranges, term.value)))))  # of the divisors, too
    alone = list(make_instances(conditioned, plain, tensors, ranges, over=indices))
    both = list(make_instances(conditioned, term.value, tensors, ranges, over=term.over))
    # The alternatives of a relation come in an order that depends on the other accesses.
    if len(alone) == len(both) and all(any(_same_points(one, other) for other in both) for one in alone):
        return
    raise UnstoredDivisor(
        "division within a sum is not compiled if the divisor may not be stored, because the quotient is undefined",
        term.value.span or statement.span,
        ("divide by a dense tensor, multiply by a tensor of reciprocals, or leave out the schedule",),
    )


def _same_points(alone: Instance, both: Instance) -> bool:
    """Whether each point of the first is one of the second for some values of the dimensions that it has more."""
    if not set(alone.domain.space.names) <= set(both.domain.space.names):
        return False
    shown = [n for n in both.domain.space.names if n in both.sizes or n in alone.domain.space.position]
    hidden = [n for n in both.domain.space.names if n not in shown]
    space = Space((*shown, *hidden))
    sizes: list[Formula] = [Compare(">=", Var(s), ZERO) for s in both.sizes]
    sizes += [f for f in both.facts if variables(f) <= set(both.sizes)]
    points = alone.domain.reordered(space).with_constraints(comparisons([*sizes, *alone.facts]))
    return points.is_within_projection(both.domain.reordered(space), hidden)

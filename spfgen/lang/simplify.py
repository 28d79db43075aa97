"""A value where some of its leaves are known: what is left of it, by the algebra of the table.

    op of constants            -> its value, in numpy's types
    op with a known result     -> that: 0*x, power(x, 0), False and x      (`known`, `annihilators` of the row)
    op with its identity       -> the other argument                       (`identity`)
    op(x, x)                   -> x                                        (`idempotent`)
    op(op(x)), op(inverse(x))  -> op(x), x                                 (`idempotent`, `inverse` of one argument)
    not x < y                  -> x >= y, where nothing is nan             (`negated`)
    where(c, x, y)             -> x or y for a known c; x where both are x
    f(x, 0)                    -> the value of that case, for a function of the user that has one

The type of the whole stays what it is: a part that had another one is converted. Only a number that is absent, the fill
of what is not stored, makes 0*x to 0 for floating x, and leaves away 0 + x, which is 0.0 and not -0.0 for x = -0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as n
from spfgen.lang.fold import applied, called, evaluated, typed
from spfgen.lang.ops import Operator
from spfgen.lang.types import TYPES, ElementType
from spfgen.lang.typing import Kind, Loop, fitting, function_type, kind_of, literal_kind, loop, settled, weak

Leaf = Callable[[Any], Kind]


@dataclass(frozen=True, slots=True)
class _Part:
    """A simplified value and its type. `absent`: it is a constant because something is not stored."""

    value: Any
    kind: Kind
    absent: bool = False

    @property
    def number(self) -> Any:
        return self.value.value if isinstance(self.value, n.Constant) else None


def simplified(value: Any, leaf: Leaf, known: Mapping[Any, Any], fills: Callable[[Any], Any] | None = None) -> Any:
    """The value where the leaves of `known` have these numbers, as what is not stored there. `leaf` says the types of
    all leaves, `fills` their fill values, which the `space` of a user's function asks for. Constants of the result that
    have a type are numbers of numpy."""
    return _Simplifier(leaf, known, fills).part(value).value


def fill_of(value: Any, leaf: Leaf, fills: Callable[[Any], Any]) -> Any:
    """What a value is where nothing is stored, as a number of numpy."""
    return evaluated(value, lambda v: typed(fills(v), settled(leaf(v))))


def repeated(operator: Operator, value: Any, count: Any, kind: ElementType) -> Any | None:
    """The value of `count` (at least 1) equal values combined, or None where the table knows none."""
    if operator.is_idempotent(kind):
        return value
    identity = operator.identity_of(kind)
    match operator.repeated:
        case "":
            return None
        case "parity" if identity is not None:
            odd = n.Apply("equal", (n.Apply("remainder", (count, n.Constant(2))), n.Constant(1)))
            return n.Apply("where", (odd, value, _constant(identity, kind)))
        case "parity":
            return None
        case "power" if kind.kind == "f":
            return n.Apply("power", (value, n.Apply(kind.name, (count,))))
    return n.Apply(kind.name, (n.Apply(operator.repeated, (value, n.Apply(kind.name, (count,)))),))


def _constant(number: Any, kind: Kind) -> n.Constant:
    """A number as a constant of the type; of a literal's it is one of Python."""
    found = typed(number, settled(kind))
    return n.Constant(found if isinstance(kind, ElementType) else found.item())


def _equal(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))


def _same(a: Any, b: Any) -> bool:
    """Whether two values are written alike: 1 is not 1.0."""
    return bool(a == b) and [type(c.value) for c in walk(a) if isinstance(c, n.Constant)] == [
        type(c.value) for c in walk(b) if isinstance(c, n.Constant)
    ]


def _as(part: _Part, wanted: Kind) -> _Part:
    """The part as one of another type."""
    if part.kind == wanted:
        return part
    if part.number is not None:
        return _Part(_constant(part.number, wanted), wanted, part.absent)
    kind = settled(wanted)
    return _Part(n.Apply(kind.name, (part.value,)), kind)


@dataclass(frozen=True)
class _Simplifier:
    leaf: Leaf
    known: Mapping[Any, Any]
    fills: Callable[[Any], Any] | None

    def part(self, value: Any) -> _Part:
        match value:
            case n.Constant(number):
                return _Part(value, literal_kind(number))
            case n.Apply(op, arguments):
                parts = [self.part(a) for a in arguments]
                if value.function is not None:
                    return self.call(value, parts)
                kinds = [p.kind for p in parts]
                found = loop(op, fitting(op, [p.value for p in parts], kinds), value.span)
                literal = op not in TYPES and all(isinstance(k, type) for k in kinds)
                result = weak(found.result) if literal else found.result
                return self.applied(n.Apply(op, tuple(p.value for p in parts), value.span), parts, found, result)
        kind = kind_of(value, self.leaf)
        if not isinstance(value, n.Reduce) and value in self.known:
            return _Part(_constant(self.known[value], kind), kind, True)
        return _Part(value, kind)

    def applied(self, value: n.Apply, parts: Sequence[_Part], found: Loop, result: Kind) -> _Part:
        if all(p.number is not None for p in parts):
            number = applied(value.op, [p.number for p in parts])
            return _Part(_constant(number, result), result, any(p.absent for p in parts))
        for rule in (_by_known, _by_identity, _twice, self.of_one, _chosen):
            simpler = rule(value, parts, found)
            if simpler is not None:
                return _as(simpler, result)
        return _Part(value, result)

    def of_one(self, value: n.Apply, parts: Sequence[_Part], found: Loop) -> _Part | None:
        """Functions of one argument, and conversions, after each other."""
        part, inner = parts[0], parts[0].value
        if value.op in TYPES and part.kind == found.result:
            return part
        if len(parts) != 1 or not isinstance(inner, n.Apply) or inner.function is not None:
            return None
        operator, kinds = value.operator, [kind_of(a, self.leaf) for a in inner.arguments]
        if inner.op == value.op and operator.is_idempotent(found.arguments[0]) and part.kind == found.result:
            return part
        if operator.inverse == inner.op and kinds == [part.kind] == [found.result]:
            return _Part(inner.arguments[0], part.kind)
        if value.op == "logical_not" and inner.operator.negated:
            compared = loop(inner.op, fitting(inner.op, inner.arguments, kinds)).arguments
            if all(k.kind in inner.operator.negates for k in compared):
                return _Part(n.Apply(inner.operator.negated, inner.arguments, value.span), part.kind)
        return None

    def call(self, value: n.Apply, parts: Sequence[_Part]) -> _Part:
        function = value.function
        assert function is not None
        kinds = [settled(p.kind) for p in parts]
        parts = [_as(p, k) for p, k in zip(parts, kinds, strict=True)]
        result = function_type(function, kinds)
        whole = n.Apply(value.op, tuple(p.value for p in parts), value.span, function)
        if all(p.number is not None for p in parts):
            number = called(function, [p.number for p in parts])
            return _Part(_constant(number, result), result, any(p.absent for p in parts))
        for case in function.cases:
            pairs = list(zip(parts, case.arguments, strict=True))
            if all(a is None or (p.number is not None and _equal(p.number, a)) for p, a in pairs):
                given = dict(zip(function.parameters, (p.value for p in parts), strict=True))
                return _as(self.part(_with_locals(case.value, given)), result)
        if self.fills is not None and function.space is not None and self.is_outside(value, parts):
            fills = self.fills
            numbers = [fill_of(a, self.leaf, fills) for a in value.arguments]
            return _Part(_constant(called(function, numbers), result), result, True)
        if len(set(kinds)) == 1:
            same = Loop(tuple(kinds), result)
            for rule in (_by_known, _by_identity, _twice):
                simpler = rule(whole, parts, same)
                if simpler is not None:
                    return _as(simpler, result)
        return _Part(whole, result)

    def is_outside(self, value: n.Apply, parts: Sequence[_Part]) -> bool:
        """Whether a point is certainly not in the `space` of the function: what is there are fills alone."""
        function, fills = value.function, self.fills
        assert function is not None
        assert fills is not None
        at_fill = {
            name: p.number is not None and _equal(p.number, fill_of(a, self.leaf, fills))
            for name, p, a in zip(function.parameters, parts, value.arguments, strict=True)
        }

        def certain(tree: Any, wanted: bool) -> bool:
            """Whether the space is certainly this."""
            match tree:
                case n.Local(name):
                    return not wanted and at_fill[name]
                case n.Apply("logical_not", (inner,)):
                    return certain(inner, not wanted)
                case n.Apply("logical_and" | "logical_or" as op, arguments):
                    some = any if (op == "logical_or") == wanted else all
                    return some(certain(a, wanted) for a in arguments)
            return False

        return certain(function.space, False)


def _with_locals(value: Any, given: Mapping[str, Any]) -> Any:
    return rewrite(lambda v: given.get(v.name) if isinstance(v, n.Local) else None, value)


def _by_known(value: n.Apply, parts: Sequence[_Part], found: Loop) -> _Part | None:
    """An argument decides the result."""
    for k, part in enumerate(parts):
        if part.number is None:
            continue
        number = typed(part.number, found.arguments[k])
        for place, wanted, result in value.operator.known_of(found.arguments, stored=not part.absent):
            if place == k and _equal(number, wanted):
                return _Part(_constant(result, found.result), found.result, part.absent)
    return None


def _by_identity(value: n.Apply, parts: Sequence[_Part], found: Loop) -> _Part | None:
    """An argument leaves the other one as it is."""
    operator, kind = value.operator, found.arguments[0]
    identity = operator.identity_of(kind) if len(parts) == 2 else None
    if identity is None:
        return None
    for k in (0, 1) if operator.is_commutative(kind) else (1,):
        part, other = parts[k], parts[1 - k]
        if part.number is None or not _equal(typed(part.number, found.arguments[k]), identity):
            continue
        if part.absent or kind.kind in "biu" or _keeps_zeros(value, part, k, found):
            return _as(other, found.arguments[1 - k])
    return None


def _keeps_zeros(value: n.Apply, part: _Part, place: int, found: Loop) -> bool:
    """Whether the identity of floating-point numbers leaves the sign of zeros, too."""
    import numpy as np

    if found.arguments[0].kind != "f" or value.function is not None:
        return False
    number = typed(part.number, found.arguments[place])
    zeros = [typed(z, found.arguments[1 - place]) for z in (0.0, -0.0)]
    results = [applied(value.op, (number, z) if place == 0 else (z, number)) for z in zeros]
    return [bool(np.signbit(r)) for r in results] == [False, True]


def _twice(value: n.Apply, parts: Sequence[_Part], found: Loop) -> _Part | None:
    if len(parts) == 2 and value.operator.is_idempotent(found.arguments[0]) and _same(parts[0].value, parts[1].value):
        return _as(parts[0], found.arguments[0])
    return None


def _chosen(value: n.Apply, parts: Sequence[_Part], found: Loop) -> _Part | None:
    if value.op != "where":
        return None
    condition, yes, no = parts
    if condition.number is not None:
        return _as(yes if condition.number else no, found.result)
    return _as(yes, found.result) if yes.kind == no.kind and _same(yes.value, no.value) else None

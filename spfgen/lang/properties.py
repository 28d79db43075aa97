"""Whether functions of the user have the properties that they declare.

For each kind of arguments that a function is called with: booleans are all tried; of integers Z3 is asked, about 64
bits, where the body has no loops; everything else is tried with numbers that are likely to show a mistake (0, -0.0,
infinities, nan, large ones) and with random ones. Sums and products of floats may round: there equal means nearly so.
Cases must say what the body says, and where `space` says that nothing can differ nothing may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import inf, nan
from typing import Any

from spfgen.errors import SpecError
from spfgen.facts.prove import decide
from spfgen.lang.nodes import Apply, Constant, Function, If, Let, Local, Return, Set, Step, Value
from spfgen.lang.show import show_value
from spfgen.lang.types import TYPES

PROVED, TRIED, SAMPLED = "proved", "all values tried", "sampled"
BITS = 64
RANDOM = 5
_KINDS = {"b": "bool", "i": "int64", "u": "uint64", "f": "float64", "c": "complex128"}
_SAMPLES: Mapping[str, tuple[Any, ...]] = {
    "b": (False, True),
    "i": (0, 1, -1, 2, 5, -7, 12, 2**62, -(2**62), 2**63 - 1),
    "u": (0, 1, 2, 5, 7, 12, 2**63, 2**64 - 1),
    "f": (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -7.25, inf, -inf, nan),
    "c": (0j, 1 + 0j, 1j, -2.5 + 1j, 3 - 4j),
}


@dataclass(frozen=True)
class Checked:
    """A property that holds, and how that is known."""

    text: str
    how: str


@lru_cache(maxsize=1024)
def check_function(function: Function, kind: str, fills: tuple[Any, ...] | None = None) -> tuple[Checked, ...]:
    """What was found of the declared properties for arguments of a kind (a letter of `ElementType.kind`); of `space`
    where `fills` are given: the fill value of each argument, None for one that has a value of its own everywhere.
    Raises SpecError where one does not hold."""
    checked = [_checked(function, claim, kind) for claim in _claims(function)]
    if function.space is not None and fills is not None:
        checked.append(_checked(function, _of_space(function, fills), kind))
    return tuple(checked)


@lru_cache(maxsize=1024)
def is_identity_before(function: Function, kind: str) -> bool:
    """Whether the declared identity leaves what stands behind it, too, as far as that is proved or found by trying."""
    number = function.operator.identity
    if not isinstance(number, bool | int | float):
        return False
    left = Apply(function.name, (Constant(number), Local("a")), function.span, function)
    try:
        _checked(function, _Claim(f"identity {number}", 1, left, Local("a")), kind)
    except SpecError:
        return False
    return True


# --- what is claimed --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Claim:
    """`left` equals `right` where `condition` holds, for all values of the first `places` of the names a, b, c ..."""

    text: str
    places: int
    left: Value
    right: Value
    condition: Value | None = None


def _claims(function: Function) -> Iterator[_Claim]:
    operator = function.operator
    names = tuple(Local(n) for n in "abcdefgh"[: max(3, len(function.parameters))])
    a, b, c, *_ = names

    def of(*arguments: Value) -> Value:
        return Apply(function.name, arguments, function.span, function)

    if operator.commutative:
        yield _Claim("commutative", 2, of(a, b), of(b, a))
    if operator.associative:
        yield _Claim("associative", 3, of(of(a, b), c), of(a, of(b, c)))
    if operator.idempotent:
        yield _Claim("idempotent", 1, of(a, a), a)
    if isinstance(operator.identity, bool | int | float):
        value = Constant(operator.identity)
        yield _Claim(f"identity {operator.identity}", 1, of(a, value), a)
        if operator.commutative:
            yield _Claim(f"identity {operator.identity}", 1, of(value, a), a)
    for place, number in operator.annihilators:
        arguments: list[Value] = list(names[: len(function.parameters)])
        arguments[place] = Constant(number)
        text = f"annihilator {number} at {place + 1}"
        yield _Claim(text, len(function.parameters), of(*arguments), Constant(number))
    for case in function.cases:
        arguments = [n if v is None else Constant(v) for n, v in zip(names, case.arguments, strict=False)]
        body = Function(function.name, function.parameters, function.body, function.operator)
        shown = ", ".join(show_value(v) for v in arguments)
        value_of_case = _substituted(case.value, dict(zip(function.parameters, arguments, strict=True)))
        plain = Apply(function.name, tuple(arguments), function.span, body)
        yield _Claim(f"case {shown}", len(function.parameters), value_of_case, plain)


def _of_space(function: Function, fills: Sequence[Any]) -> _Claim:
    """Where no argument that `space` names differs from its fill the value is that of the fills."""
    names = [Local(n) for n in "abcdefgh"[: len(function.parameters)]]
    differs_from_fill: dict[str, Value] = {
        p: Constant(True) if fill is None else Apply("not_equal", (name, Constant(fill)))
        for p, name, fill in zip(function.parameters, names, fills, strict=True)
    }
    at_fills = tuple(n if f is None else Constant(f) for n, f in zip(names, fills, strict=True))
    assert function.space is not None
    outside = Apply("logical_not", (_substituted(function.space, differs_from_fill),))
    left = Apply(function.name, tuple(names), function.span, function)
    right = Apply(function.name, at_fills, function.span, function)
    return _Claim(f"space {show_value(function.space)}", len(names), left, right, outside)


def _substituted(value: Value, values: Mapping[str, Value]) -> Value:
    match value:
        case Local(name):
            return values.get(name, value)
        case Apply(op, arguments, span, function):
            return Apply(op, tuple(_substituted(a, values) for a in arguments), span, function)
    return value


# --- whether it holds ----------------------------------------------------------------------------------------


def _checked(function: Function, claim: _Claim, kind: str) -> Checked:
    if kind in "iu":
        answer = _asked(claim, kind == "i")
        if answer is True:
            return Checked(claim.text, PROVED)
    counterexample = _counterexample(claim, kind)
    if counterexample is not None:
        raise _refused(function, claim, counterexample)
    return Checked(claim.text, TRIED if kind == "b" else SAMPLED)


def _refused(function: Function, claim: _Claim, counterexample: tuple[tuple[Any, ...], Any, Any]) -> SpecError:
    values, left, right = counterexample
    named: dict[str, Value] = {n: Constant(v) for n, v in zip("abcdefgh", values, strict=False)}
    shown = [show_value(_substituted(side, named)) for side in (claim.left, claim.right)]
    word = claim.text.split()[0]
    sides = f"{shown[0]} is {left}" if isinstance(claim.right, Constant) else ""
    sides = sides or f"{shown[0]} is {left} and {shown[1]} is {right}"
    message = f"expected `{function.name}` to be as declared (`{claim.text}`), but {sides}"
    if word == "case":
        message = f"expected the value of the body in `{claim.text}` of `{function.name}`, but {left} is not {right}"
    hint = f"leave out `{'' if word in ('case', 'space') else 'property '}{claim.text}`, or mend the function"
    return SpecError(message, function.span, (hint,))


def _samples(kind: str, places: int) -> Iterator[tuple[Any, ...]]:
    """The numbers likely to show a mistake, and random ones; the same ones each time."""
    import numpy as np

    rng = np.random.default_rng(places)
    values: list[Any] = list(_SAMPLES[kind])
    if kind == "i":
        values += [int(v) for v in rng.integers(-100, 100, RANDOM)]
    elif kind == "f":
        values += [float(v) for v in rng.integers(-64, 64, RANDOM) / 8]
    return product(values, repeat=places)


MOST_ENDLESS = 8
"""After so many samples for which a function does not come to an end it is not asked again."""


def _counterexample(claim: _Claim, kind: str) -> tuple[tuple[Any, ...], Any, Any] | None:
    """(arguments, left, right) where both sides differ. Functions that numpy has not for the kind differ nowhere."""
    import numpy as np

    from spfgen.lang.oracle.functions import Endless, evaluate_scalar

    endless = 0
    number = np.dtype(_KINDS[kind]).type
    with np.errstate(all="ignore"):
        for values in _samples(kind, claim.places):
            named = {n: number(v) for n, v in zip("abcdefgh", values, strict=False)}
            try:
                if claim.condition is not None and not evaluate_scalar(claim.condition, named):
                    continue
                left, right = (evaluate_scalar(side, named) for side in (claim.left, claim.right))
            except SpecError:
                raise
            except (TypeError, ValueError, OverflowError):
                return None
            except Endless:  # says nothing of what is declared; the function takes no such values
                endless += 1
                if endless > MOST_ENDLESS:
                    return None
                continue
            if not _equal(left, right, claim.text, kind):
                return values, left, right
    return None


def _equal(left: Any, right: Any, text: str, kind: str) -> bool:
    import numpy as np

    if left != left or right != right:
        return bool(left != left and right != right)
    if text == "associative" and kind in "fc":
        return bool(np.isclose(left, right, rtol=1e-6))
    return bool(left == right)


# --- bits ------------------------------------------------------------------------------------------------------


class _Beyond(Exception):
    """Something that has no translation to bits."""


def _asked(claim: _Claim, signed: bool) -> bool:
    """Whether Z3 proves the claim for integers."""

    def goal(z3: Any) -> Any:
        bits = _Bits(z3, signed)
        names = {n: z3.BitVec(n, BITS) for n in "abcdefgh"[: claim.places]}
        same = bits.number(bits.value(claim.left, names)) == bits.number(bits.value(claim.right, names))
        if claim.condition is None:
            return same
        return z3.Implies(bits.truth(bits.value(claim.condition, names)), same)

    try:
        return decide(goal) is True
    except _Beyond:
        return False


class _Bits:
    """Values over bit vectors; truth values are Z3's."""

    def __init__(self, z3: Any, signed: bool) -> None:
        self.z3 = z3
        self.signed = signed

    def number(self, value: Any) -> Any:
        if self.z3.is_bool(value):
            return self.z3.If(value, self.z3.BitVecVal(1, BITS), self.z3.BitVecVal(0, BITS))
        return value

    def truth(self, value: Any) -> Any:
        return value if self.z3.is_bool(value) else value != 0

    def value(self, value: Value, names: Mapping[str, Any]) -> Any:
        match value:
            case Constant(bool() as truth):
                return self.z3.BoolVal(truth)
            case Constant(int() as number):
                return self.z3.BitVecVal(number, BITS)
            case Local(name):
                return names[name]
            case Apply(op, arguments, _, function):
                operands = [self.value(a, names) for a in arguments]
                return self.apply(op, operands) if function is None else self.called(function, operands)
        raise _Beyond

    def called(self, function: Function, arguments: Sequence[Any]) -> Any:
        names = dict(zip(function.parameters, arguments, strict=True))
        result = self.run(function.body, names)
        for case in reversed(function.cases):
            wanted = [
                self.number(n) == self.value(Constant(v), {}) if not isinstance(v, bool) else self.truth(n) == v
                for n, v in zip(arguments, case.arguments, strict=True)
                if v is not None
            ]
            result = self.chosen(self.z3.And(*wanted), self.value(case.value, names), result)
        return result

    def chosen(self, condition: Any, first: Any, second: Any) -> Any:
        if self.z3.is_bool(first) != self.z3.is_bool(second):
            first, second = self.number(first), self.number(second)
        return self.z3.If(condition, first, second)

    def run(self, steps: Sequence[Step], names: dict[str, Any]) -> Any:
        """What is returned: each branch goes on to the end."""
        for place, step in enumerate(steps):
            match step:
                case Return(value):
                    return self.value(value, names)
                case Let(name, value):
                    names = {**names, name: self.value(value, names)}
                case Set(name, op, value, _, function):
                    assigned = self.value(value, names)
                    if op != "=":
                        both = [names[name], assigned]
                        plain = "add" if op == "+=" else op
                        assigned = self.apply(plain, both) if function is None else self.called(function, both)
                    names = {**names, name: assigned}
                case If(condition, then, otherwise):
                    remaining = tuple(steps[place + 1 :])
                    truth = self.truth(self.value(condition, names))
                    return self.chosen(
                        truth, self.run((*then, *remaining), names), self.run((*otherwise, *remaining), names)
                    )
                case _:
                    raise _Beyond
        raise _Beyond

    def apply(self, op: str, arguments: Sequence[Any]) -> Any:
        z3 = self.z3
        if op in ("logical_and", "logical_or", "logical_xor", "logical_not"):
            apply = {"logical_and": z3.And, "logical_or": z3.Or, "logical_xor": z3.Xor, "logical_not": z3.Not}[op]
            return apply(*map(self.truth, arguments))
        if all(z3.is_bool(a) for a in arguments) and op in ("bitwise_and", "bitwise_or", "bitwise_xor", "invert"):
            return self.apply({"invert": "logical_not"}.get(op, op.replace("bitwise", "logical")), arguments)
        if op == "where":
            return self.chosen(self.truth(arguments[0]), arguments[1], arguments[2])
        numbers = [self.number(a) for a in arguments]
        apply = self.table().get(op)
        if apply is None or all(z3.is_bool(a) for a in arguments):
            raise _Beyond
        return apply(*numbers)

    def table(self) -> Mapping[str, Callable[..., Any]]:
        z3 = self.z3
        less = (lambda a, b: a < b) if self.signed else z3.ULT
        return {
            "add": lambda a, b: a + b,
            "subtract": lambda a, b: a - b,
            "multiply": lambda a, b: a * b,
            "negative": lambda a: -a,
            "bitwise_and": lambda a, b: a & b,
            "bitwise_or": lambda a, b: a | b,
            "bitwise_xor": lambda a, b: a ^ b,
            "invert": lambda a: ~a,
            "equal": lambda a, b: a == b,
            "not_equal": lambda a, b: a != b,
            "less": less,
            "less_equal": lambda a, b: z3.Not(less(b, a)),
            "greater": lambda a, b: less(b, a),
            "greater_equal": lambda a, b: z3.Not(less(a, b)),
            "maximum": lambda a, b: z3.If(less(a, b), b, a),
            "minimum": lambda a, b: z3.If(less(b, a), b, a),
            "absolute": lambda a: z3.If(a < 0, -a, a) if self.signed else a,
        }


def kinds_of(names: Sequence[str]) -> str:
    """The kind of the type in which arguments of these types meet."""
    order = "buifc"
    return max((TYPES[n].kind for n in names), key=order.index, default="f")

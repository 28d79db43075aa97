"""What a user declares of a function is checked for the types it is used with.

First by trying it out, special values among the samples: that finds what is wrong. What holds then is proved by Z3 for
integers and booleans, where the body has no loop; for all else the samples stand, and `explain` says so. What is
computed of floating-point numbers is rounded: there a property holds up to that.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from spfgen.errors import SpecError
from spfgen.facts.prove import Answer, never, note
from spfgen.lang import bits
from spfgen.lang import nodes as n
from spfgen.lang.fold import called, evaluated, typed
from spfgen.lang.types import ElementType
from spfgen.lang.typing import Kind

SAMPLES = 150
"""So many arguments are tried for each property."""
Call = Callable[..., Any]


@dataclass(frozen=True)
class _Property:
    """Two sides that are equal for all values of the variables. They are given a way to call the function, and
    constants of a type, so that they are numbers for samples and terms for Z3."""

    text: str
    kinds: tuple[ElementType, ...]
    sides: Callable[[Call, Call, Sequence[Any]], tuple[Any, Any]]
    case: n.Case | None = None


def check_function(function: n.Function, kinds: tuple[ElementType, ...]) -> None:
    """Raise SpecError, with a counterexample, for a property that does not hold for arguments of these types."""
    for answer in _answers(function, kinds):
        note(answer)


@lru_cache(maxsize=1024)
def _answers(function: n.Function, kinds: tuple[ElementType, ...]) -> tuple[Answer, ...]:
    return tuple(_checked(function, p) for p in _properties(function, kinds))


def _properties(function: n.Function, kinds: tuple[ElementType, ...]) -> Iterator[_Property]:
    operator, f = function.operator, function.name
    one = kinds[0]
    if len(kinds) == 2 and len(set(kinds)) == 1:
        if operator.is_commutative(one):
            yield _Property(f"{f}(x, y) = {f}(y, x)", kinds, lambda call, _, v: (call(v[0], v[1]), call(v[1], v[0])))
        if operator.is_associative(one):
            yield _Property(
                *(f"{f}({f}(x, y), z) = {f}(x, {f}(y, z))", (one,) * 3),
                lambda call, _, v: (call(call(v[0], v[1]), v[2]), call(v[0], call(v[1], v[2]))),
            )
        if operator.is_idempotent(one):
            yield _Property(f"{f}(x, x) = x", (one,), lambda call, _, v: (call(v[0], v[0]), v[0]))
    identity = operator.identity_of(one) if len(kinds) == 2 else None
    if identity is not None:
        shown = identity if isinstance(operator.identity, tuple) else operator.identity
        yield _Property(
            *(f"{f}(x, {shown}) = x", (kinds[0],)),
            lambda call, typed, v: (call(v[0], typed(identity, kinds[1])), v[0]),
        )
        if operator.commutative:
            yield _Property(
                *(f"{f}({shown}, x) = x", (kinds[1],)),
                lambda call, typed, v: (call(typed(identity, kinds[0]), v[0]), v[0]),
            )
    for place, value in operator.annihilators:
        others = kinds[:place] + kinds[place + 1 :]
        names = [*"xyzuvw"[: len(others)]]
        names.insert(place, str(value))

        def fixed(call: Call, typed: Call, v: Sequence[Any], place: int = place, value: Any = value) -> tuple[Any, Any]:
            given = typed(value, kinds[place])
            return call(*v[:place], given, *v[place:]), given

        yield _Property(f"{f}({', '.join(names)}) = {value}", others, fixed)
    for case in function.cases:
        names = [p if a is None else str(a) for p, a in zip(function.parameters, case.arguments, strict=True)]
        free = tuple(k for k, a in zip(kinds, case.arguments, strict=True) if a is None)
        yield _Property(f"the case {f}({', '.join(names)})", free, lambda call, typed, v: (None, None), case=case)


def _checked(function: n.Function, one: _Property) -> Answer:
    count = 0
    for values in _samples(one.kinds):
        left, right = _of_numbers(function, one, values)
        count += 1
        if not _alike(left, right, values):
            names = "xyzuvw"
            example = ", ".join(f"{names[k]} = {v}" for k, v in enumerate(values))
            types = ", ".join(dict.fromkeys(k.name for k in one.kinds))
            what = f"of {types}" if types else "of numbers"
            where = f"for {example} they are" if example else "they are"
            raise SpecError(
                f"expected `{one.text}`, as is declared of `{function.name}`, but {where} {left} and {right}",
                one.case.span if one.case is not None else function.span,
                (f"it is used with values {what}: leave the property out, or mend the function",),
            )
    script = bits.question(lambda terms: _of_terms(function, one, terms), one.kinds)
    about = f"declared of `{function.name}`, of {', '.join(k.name for k in one.kinds) or 'numbers'}"
    if script is not None:
        answer = never(script, one.text, about)
        if answer.proved:
            return answer
        if answer.model is not None:
            found = dict(answer.model)
            at = [typed(_signed(found.get(f"x{k}", 0), kind), kind) for k, kind in enumerate(one.kinds)]
            left, right = _of_numbers(function, one, at)
            example = ", ".join(f"{'xyzuvw'[k]} = {v}" for k, v in enumerate(at))
            raise SpecError(
                f"expected `{one.text}`, as is declared of `{function.name}`, but for {example} they are {left} and "
                f"{right}",
                function.span,
                ("Z3 found it: leave the property out, or mend the function",),
            )
    return Answer(one.text, False, None, 0.0, about, sampled=count)


def _signed(value: int, kind: ElementType) -> int:
    width = bits.width(kind)
    return value - 2**width if kind.kind == "i" and value >= 2 ** (width - 1) else value


def _of_numbers(function: n.Function, one: _Property, values: Sequence[Any]) -> tuple[Any, Any]:
    def call(*arguments: Any) -> Any:
        return called(function, arguments)

    if one.case is None:
        left, right = one.sides(call, typed, values)
        return left, right
    free = iter(values)
    # the numbers of a case are of the types of what stands beside them; alone they are as they are written
    kind = one.kinds[0] if one.kinds else None
    given = [next(free) if a is None else (a if kind is None else typed(a, kind)) for a in one.case.arguments]
    named = dict(zip(function.parameters, given, strict=True))
    return call(*given), evaluated(one.case.value, lambda local: named[local.name])


def _of_terms(function: n.Function, one: _Property, terms: Sequence[bits.Term]) -> tuple[bits.Term, bits.Term]:
    def call(*arguments: bits.Term) -> bits.Term:
        return bits.called(function, arguments)

    def constant(value: Any, kind: ElementType) -> bits.Term:
        return bits.Term(bits.number(value, kind), kind)

    if one.case is None:
        left, right = one.sides(call, constant, terms)
        return left, right
    if not terms:
        raise bits.NoTermError
    free, kind = iter(terms), terms[0].kind
    given = [next(free) if a is None else constant(a, _settled(kind)) for a in one.case.arguments]
    return call(*given), bits.value(one.case.value, dict(zip(function.parameters, given, strict=True)))


def _settled(kind: Kind) -> ElementType:
    assert isinstance(kind, ElementType)
    return kind


_SPECIAL = {
    "b": (False, True),
    "i": (0, 1, -1, 2, -3, 7, 100, "least", "greatest"),
    "u": (0, 1, 2, 3, 7, 100, "greatest"),
    "f": (0.0, -0.0, 1.0, -1.0, 2.5, -3.0, float("inf"), float("-inf"), float("nan")),
    "c": (0j, 1 + 0j, -1j, 2.5 - 1j),
}


def _samples(kinds: Sequence[ElementType]) -> list[tuple[Any, ...]]:
    """All special values together where these are few, else some of them, and random ones."""
    from spfgen.lang.ops import value_of

    rng = random.Random(7)
    special = [[typed(value_of(v, k) if isinstance(v, str) else v, k) for v in _SPECIAL[k.kind]] for k in kinds]
    rows = list(itertools.product(*special))
    rows = rows if len(rows) <= SAMPLES else rng.sample(rows, SAMPLES)
    more = [tuple(_random(rng, k) for k in kinds) for _ in range(30)] if any(k.kind != "b" for k in kinds) else []
    return [*rows, *more]


def _random(rng: random.Random, kind: ElementType) -> Any:
    match kind.kind:
        case "b":
            return typed(rng.random() < 0.5, kind)
        case "i" | "u":
            bound = 2 ** (8 * kind.bytes - 1) - 1
            return typed(rng.randint(-bound if kind.kind == "i" else 0, bound), kind)
        case "f":
            return typed(rng.gauss(0, 10), kind)
    return typed(complex(rng.gauss(0, 3), rng.gauss(0, 3)), kind)


def _alike(left: Any, right: Any, values: Sequence[Any]) -> bool:
    """Whether two numbers are equal, nan and nan, or as near as rounding leaves them."""
    import numpy as np

    if left == right or (left != left and right != right):
        return True
    if np.asarray(left).dtype.kind not in "fc" or not (np.isfinite(left) and np.isfinite(right)):
        return False
    size = max(abs(left), abs(right), *(abs(v) for v in values if np.isfinite(v)))
    return bool(abs(left - right) <= 64 * np.finfo(np.asarray(left).dtype).eps * size)

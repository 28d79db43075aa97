"""Simplified values are what they were, bit by bit; what is absent is a number that the algebra knows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from spfgen.ir import walk
from spfgen.lang.fold import evaluated, typed
from spfgen.lang.nodes import Access, Apply, Case, Constant, Function, Local, Return
from spfgen.lang.ops import OPERATORS, Operator
from spfgen.lang.simplify import fill_of, repeated, simplified
from spfgen.lang.types import TYPES
from spfgen.lang.typing import _loop, kind_of, literal_kind, settled

KINDS = {"b": "bool", "i": "int8", "j": "int64", "u": "uint8", "f": "float32", "d": "float64", "c": "complex64"}
SPECIAL = {
    "b": [False, True],
    "i": [0, 1, -1, 3, "min", "max"],
    "u": [0, 1, 3, "max"],
    "f": [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan],
    "c": [0j, 1 + 0j, -2.5 + 1j],
}
SAFE = """add subtract multiply negative absolute maximum minimum fmax fmin where less equal logical_and logical_or
    logical_not bitwise_and bitwise_or bitwise_xor invert left_shift right_shift square sign gcd power""".split()


def leaf(access: Access):
    return TYPES[KINDS[access.tensor[0]]]


def of(name: str) -> Access:
    return Access(name, ())


def apply(op: str, *arguments) -> Apply:
    return Apply(op, tuple(Constant(v) if isinstance(v, bool | int | float) else v for v in arguments))


def some(rng: random.Random, kind, special: bool = True):
    limits = np.iinfo(kind.name) if kind.kind in "iu" else None
    choices = SPECIAL[kind.kind] if special else {**SPECIAL, "f": [0.0, 1.0, -2.5, 3.0]}[kind.kind]
    found = rng.choice(choices)
    return typed(getattr(limits, found) if isinstance(found, str) else found, kind)


def tree(rng: random.Random, depth: int, ops: list[str]):
    """A random value, some of whose parts are equal, and whose constants are those that the algebra knows."""
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.4:
            return Constant(rng.choice([0, 1, -1, 2, 0.0, -0.0, 1.0, 0.5, True, False, float("inf"), float("nan")]))
        return of(rng.choice("bijufdc") + rng.choice("12"))
    op = rng.choice(ops)
    arguments = [tree(rng, depth - 1, ops) for _ in range(OPERATORS[op].arity)]
    if len(arguments) > 1 and rng.random() < 0.15:
        arguments[-1] = arguments[-2]
    if len(arguments) == 1 and rng.random() < 0.3:
        arguments = [Apply(rng.choice([op, OPERATORS[op].inverse or op]), tuple(arguments))]
    return Apply(op, tuple(arguments))


def right(value) -> bool:
    """Whether numpy takes it."""
    from spfgen.errors import SpecError

    try:
        kind_of(value, leaf)
        evaluated(value, lambda a: typed(1, leaf(a)))
    except (SpecError, OverflowError):
        return False
    return not any(isinstance(n, Apply) and None is _loop(n.op, ()) for n in ())


def bits(number) -> tuple:
    number = complex(number) if np.iscomplexobj(number) else number
    parts = (number.real, number.imag) if isinstance(number, complex) else (number,)
    return tuple("nan" if p != p else (p, bool(np.signbit(p))) for p in parts)


def test_random_values_stay_what_they_are() -> None:
    rng = random.Random(5)
    names = [
        o.name for o in OPERATORS.values() if o.name not in ("power", "float_power", *TYPES) or o.name == "float64"
    ]
    shorter = 0
    for _ in range(700):
        value = tree(rng, 3, names)
        if not right(value):
            continue
        found = simplified(value, leaf, {})
        assert settled(kind_of(found, leaf)) == settled(kind_of(value, leaf))
        shorter += len(list(walk(found))) < len(list(walk(value)))
        for _ in range(6):
            numbers = {of(n): some(rng, leaf(of(n))) for n in [k + c for k in KINDS for c in "12"]}
            before, after = evaluated(value, numbers.__getitem__), evaluated(found, numbers.__getitem__)
            assert bits(before) == bits(after), (value, found, numbers)
    assert shorter > 50


def test_what_is_absent_is_its_fill() -> None:
    rng = random.Random(6)
    shorter = 0
    for _ in range(700):
        value = tree(rng, 3, SAFE)
        if not right(value) or any(isinstance(c, Constant) and not np.isfinite(c.value) for c in walk(value)):
            continue
        absent = {of(k + "1"): some(rng, leaf(of(k)), False) for k in KINDS}
        found = simplified(value, leaf, absent)
        assert not any(a in absent for a in walk(found) if isinstance(a, Access))
        assert settled(kind_of(found, leaf)) == settled(kind_of(value, leaf))
        shorter += len(list(walk(found))) < len(list(walk(value)))
        for _ in range(4):
            numbers = {**absent, **{of(k + "2"): some(rng, leaf(of(k)), False) for k in KINDS}}
            before, after = evaluated(value, numbers.__getitem__), evaluated(found, numbers.__getitem__)
            if np.isfinite(before):
                assert before == after, (value, found, numbers)
    assert shorter > 100


def test_zero_that_is_absent_and_zero_that_is_written() -> None:
    product = apply("multiply", of("d1"), of("d2"))
    assert simplified(product, leaf, {of("d1"): 0.0}) == Constant(0.0)
    written = apply("multiply", 0, of("d2"))
    assert simplified(written, leaf, {}) == written  # 0*inf is nan
    assert simplified(apply("multiply", 0, of("i2")), leaf, {}) == Constant(0)
    total = apply("add", of("d1"), of("d2"))
    assert simplified(total, leaf, {of("d1"): 0.0}) == of("d2")
    assert simplified(apply("add", of("d2"), 0), leaf, {}) != of("d2")  # -0.0 + 0 is 0.0
    assert simplified(apply("subtract", of("d2"), 0), leaf, {}) == of("d2")
    assert simplified(apply("add", of("i1"), of("d2")), leaf, {of("d2"): 0.0}) == Apply("float64", (of("i1"),))


def test_rules() -> None:
    x, y = of("j1"), of("j2")
    assert simplified(apply("maximum", x, x), leaf, {}) == x
    assert simplified(apply("logical_not", apply("less", x, y)), leaf, {}) == apply("greater_equal", x, y)
    f = of("f1")
    undecided = apply("logical_not", apply("less", f, of("f2")))
    assert simplified(undecided, leaf, {}) == undecided
    assert simplified(apply("where", True, f, x), leaf, {}) == Apply("float64", (f,))
    assert simplified(apply("minimum", x, of("d1")), leaf, {of("d1"): np.nan}).value is not None
    assert np.isnan(simplified(apply("minimum", f, of("d1")), leaf, {of("d1"): np.nan}).value)
    assert simplified(apply("fmin", of("d2"), of("d1")), leaf, {of("d1"): np.nan}) == of("d2")
    assert simplified(apply("power", f, apply("subtract", 2, 1)), leaf, {}) == f


def test_cases_and_space_of_functions() -> None:
    x, y = Local("x"), Local("y")
    operator = Operator("left", 2, "", 0, "", "")
    body = (Return(apply("where", apply("equal", y, 0), x, apply("add", apply("multiply", x, y), y))),)
    cases = (Case((None, 0), x),)
    left = Function("left", ("x", "y"), body, operator, cases, apply("logical_and", y, x))
    value = Apply("left", (of("d1"), of("d2")), None, left)
    assert simplified(value, leaf, {of("d2"): 0.0}) == of("d1")
    assert simplified(value, leaf, {of("d1"): 0.0}) == Apply("left", (Constant(0.0), of("d2")), None, left)
    with_fills = simplified(value, leaf, {of("d1"): 3.0}, {of("d1"): 3.0, of("d2"): 2.0}.__getitem__)
    assert with_fills == Constant(8.0)
    assert fill_of(value, leaf, {of("d1"): 3.0, of("d2"): 2.0}.__getitem__) == 8.0


@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "bitwise_xor", "logical_xor", "fmin", "hypot"])
@pytest.mark.parametrize("kind", [TYPES[t] for t in ("bool", "int8", "uint16", "float64")], ids=lambda k: k.name)
def test_equal_values_combined(op: str, kind) -> None:
    operator = OPERATORS[op]
    loop = _loop(op, (kind, kind))
    value = of("x")
    found = None if loop is None or loop.result != kind else repeated(operator, value, Constant(5), kind)
    if found is None:
        assert op in ("hypot", "bitwise_xor", "logical_xor")
        return
    rng = random.Random(3)
    for _ in range(20):
        number = some(rng, kind, False)
        wanted = number
        for _ in range(4):
            wanted = evaluated(apply(op, Constant(wanted), Constant(number)), None)
        result = evaluated(found, lambda _, number=number: number)
        assert literal_kind(result) == kind
        assert np.isclose(result, wanted)

"""The table of operators says nothing that numpy does not do: every property of every row, for each type it is declared
for, over special values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from spfgen.errors import SpecError
from spfgen.lang.fold import applied
from spfgen.lang.nodes import Access, Apply, Constant, Function, If, Let, Local, Reduce, Return, Set, While
from spfgen.lang.ops import FUNCTIONS, OPERATORS, REDUCTIONS, SYMBOLS, Operator, ufunc
from spfgen.lang.types import TYPES, ElementType
from spfgen.lang.typing import function_type, kind_of, result_type, type_of

FLOATS = [0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, -0.25, np.inf, -np.inf, np.nan]
VALUES = {
    "b": [False, True],
    "i": [0, 1, -1, 2, -3, 5, "min", "max"],
    "u": [0, 1, 2, 3, 5, "max"],
    "f": FLOATS,
    "c": [complex(a, b) for a in (0.0, 1.0, -2.0, np.inf, np.nan) for b in (0.0, 1.0, -1.0, np.nan)],
}


def values(kind: ElementType) -> np.ndarray:
    limits = np.iinfo(kind.name) if kind.kind in "iu" else None
    found = [getattr(limits, v) if isinstance(v, str) else v for v in VALUES[kind.kind]]
    return np.array(found, kind.name)


def pairs(kind: ElementType, count: int = 2) -> list[np.ndarray]:
    found = values(kind)[:: 1 if count < 3 else (2 if kind.kind == "c" else 1)]
    return [np.array(column, kind.name) for column in zip(*itertools.product(found, repeat=count), strict=True)]


def same(a, b, kind: ElementType) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if kind.kind == "c":
        a, b = (np.where(np.isfinite(a) & np.isfinite(b), x, np.nan) for x in (a, b))
    return bool(np.array_equal(a, b, equal_nan=kind.kind in "fc"))


def taken(operator: Operator) -> list[ElementType]:
    """The types that are arguments as they are: those that a loop of numpy is for."""
    from spfgen.lang.typing import _loop

    found = []
    for kind in TYPES.values():
        loop = _loop(operator.name, (kind,) * operator.arity)
        if loop is not None and loop.arguments[0] == kind:
            found.append(kind)
    return found


CASES = [(o, k) for o in OPERATORS.values() if o.arity == 2 and o.name not in ("ldexp",) for k in taken(o)]
SINGLE = [(o, k) for o in OPERATORS.values() if o.arity == 1 and o.name not in TYPES for k in taken(o)]


@pytest.mark.parametrize(("operator", "kind"), CASES, ids=lambda x: x.name)
def test_algebra_of_two(operator: Operator, kind: ElementType) -> None:
    name = operator.name
    a, b = pairs(kind)
    one = values(kind)
    result = applied(name, (a, b))
    truth = TYPES[result.dtype.name]
    if operator.is_commutative(kind):
        assert same(result, applied(name, (b, a)), truth)
    if operator.is_idempotent(kind):
        assert same(applied(name, (one, one)), one, kind)
    identity = operator.identity_of(kind)
    if identity is not None:
        fixed = np.full_like(one, identity)
        assert same(applied(name, (one, fixed)), one, kind)
        if operator.commutative:
            assert same(applied(name, (fixed, one)), one, kind)
    for place, value, known in operator.known_of(kind):
        fixed = np.full_like(one, value)
        found = applied(name, (fixed, one) if place == 0 else (one, fixed))
        assert same(found, np.full_like(found, known), truth), (place, value)
    if operator.is_associative(kind, exactly=True):
        a, b, c = pairs(kind, 3)
        left, right = applied(name, (applied(name, (a, b)), c)), applied(name, (a, applied(name, (b, c))))
        assert same(left, right, kind)
    for other in operator.over:
        a, b, c = pairs(kind, 3)
        left = applied(name, (a, applied(other, (b, c))))
        assert same(left, applied(other, (applied(name, (a, b)), applied(name, (a, c)))), kind)
    a, b = pairs(kind)
    if operator.converse:
        assert same(result, applied(operator.converse, (b, a)), truth)
    if operator.negated and kind.kind in operator.negates:
        assert same(result, ~applied(operator.negated, (a, b)), truth)


def test_what_is_not_declared_is_not_so() -> None:
    """Some properties that one might think of; the tests above would find them wrong."""
    f, i = TYPES["float64"], TYPES["int64"]
    assert OPERATORS["maximum"].annihilators_of(f) != OPERATORS["fmax"].annihilators_of(f)
    assert np.isnan(applied("maximum", (np.inf, np.nan)))
    assert applied("fmax", (np.inf, np.nan)) == np.inf
    assert not OPERATORS["multiply"].annihilators_of(f)
    assert OPERATORS["multiply"].annihilators_of(f, stored=False) == ((0, 0), (1, 0))
    assert OPERATORS["multiply"].annihilators_of(i) == ((0, 0), (1, 0))
    assert OPERATORS["gcd"].identity_of(i) is None
    assert OPERATORS["gcd"].identity_of(TYPES["uint8"]) == 0
    assert not OPERATORS["add"].is_associative(f, exactly=True)
    assert OPERATORS["add"].is_associative(f)


@pytest.mark.parametrize(("operator", "kind"), SINGLE, ids=lambda x: x.name)
def test_algebra_of_one(operator: Operator, kind: ElementType) -> None:
    x = values(kind)
    if operator.is_idempotent(kind):
        once = applied(operator.name, (x,))
        assert same(applied(operator.name, (once,)), once, TYPES[once.dtype.name])
    if operator.inverse and not (operator.name == "logical_not" and kind.kind != "b"):
        assert same(applied(operator.inverse, (applied(operator.name, (x,)),)), x, kind)


@pytest.mark.parametrize("operator", [o for o in OPERATORS.values() if o.identity is not None], ids=lambda o: o.name)
def test_sums_are_undone_and_repeated(operator: Operator) -> None:
    for kind in taken(operator):
        a, b = pairs(kind)
        if operator.inverse and operator.arity == 2 and kind.kind in "iu":
            assert same(applied(operator.inverse, (applied(operator.name, (a, b)), b)), a, kind)
        if operator.repeated in ("multiply", "power") and kind.kind in "iu":
            three = applied(operator.name, (applied(operator.name, (a, a)), a))
            assert same(applied(operator.repeated, (a, np.full_like(a, 3))), three, kind)
        if (
            operator.repeated == "parity"
            and kind.kind in "biu"
            and OPERATORS[operator.name].identity_of(kind) is not None
        ):
            three = applied(operator.name, (applied(operator.name, (a, a)), a))
            assert same(three, a, kind)


# --- types -------------------------------------------------------------------------------------------


def leaf(value) -> ElementType:
    return TYPES[value.tensor]


def of(name: str) -> Access:
    return Access(name, ())


@pytest.mark.parametrize(
    "op", [o.name for o in OPERATORS.values() if o.name not in TYPES and o.name not in ("where", "clip")]
)
def test_result_types_are_those_of_numpy(op: str) -> None:
    arity = OPERATORS[op].arity
    for names in itertools.product(TYPES, repeat=arity):
        arrays = [np.ones(1, name) for name in names]
        try:
            wanted = ufunc(op)(*arrays).dtype.name
            if not hasattr(np, op) and "complex" in wanted:
                raise TypeError  # of scipy, but not of C
        except TypeError:
            with pytest.raises(SpecError, match=op):
                result_type(op, [TYPES[t] for t in names])
            continue
        wanted = {"float16": "float32"}.get(wanted, wanted)
        assert result_type(op, [TYPES[t] for t in names]).name == wanted, names


@pytest.mark.parametrize("op", ["add", "divide", "maximum", "less", "power", "clip", "where", "arctan2", "ldexp"])
@pytest.mark.parametrize("literal", [2, 2.5, True])
def test_literals_are_weak(op: str, literal) -> None:
    arity = OPERATORS[op].arity
    for name in TYPES:
        value = Apply(op, (of(name), *[Constant(literal)] * (arity - 1)))
        array = np.ones(1, name)
        try:
            wanted = getattr(np, op)(array, *[literal] * (arity - 1)).dtype.name
        except TypeError:
            with pytest.raises(SpecError):
                type_of(value, leaf)
            continue
        assert type_of(value, leaf).name == {"float16": "float32"}.get(wanted, wanted), name


def test_values_of_literals_are_literals() -> None:
    half = Apply("divide", (Constant(1), Constant(2)))
    assert type_of(Apply("multiply", (half, of("float32"))), leaf).name == "float32"
    assert kind_of(Apply("maximum", (Constant(1), Constant(2))), leaf) is int
    assert type_of(half, leaf).name == "float64"
    assert applied("divide", (1, 2)) == 0.5
    assert type(applied("add", (1, 2))) is int
    assert applied("add", (np.int8(100), 100)).dtype == np.int8


def test_literals_that_do_not_fit() -> None:
    with pytest.raises(SpecError, match="int8 holds in `add`, but this is 300"):
        type_of(Apply("add", (of("int8"), Constant(300))), leaf)
    assert type_of(Apply("add", (of("int8"), Apply("negative", (Constant(128),)))), leaf).name == "int8"
    assert type_of(Apply("less", (of("int8"), Constant(300))), leaf).name == "bool"
    assert applied("less", (np.array([5, -7], np.int8), 300)).all()
    assert applied("greater", (np.array([5], np.uint64), -1)).all()


def test_types_of_reductions() -> None:
    for op, name in itertools.product(
        ("add", "multiply", "maximum", "logical_or"), ("bool", "int8", "uint16", "float32")
    ):
        wanted = getattr(np, op).reduce(np.ones(2, name)).dtype.name if (op, name) else ""
        assert type_of(Reduce(op, ("i",), of(name)), leaf).name == wanted, (op, name)
    assert type_of(Reduce("argmin", ("i",), of("float32")), leaf).name == "int64"


def test_refusals_name_the_types() -> None:
    with pytest.raises(
        SpecError, match="expected booleans or integers in `bitwise_and`, but these are float64 and int8"
    ):
        result_type("bitwise_and", [TYPES["float64"], TYPES["int8"]])
    with pytest.raises(SpecError, match="expected 2 arguments of `add`, but there are 1"):
        result_type("add", [TYPES["float64"]])


def test_types_of_functions() -> None:
    a, b, t, x, y = (Local(n) for n in "abtxy")
    body = (
        Let("a", x),
        Let("b", Apply("absolute", (y,))),
        While(
            Apply("not_equal", (a, Constant(0))),
            (Let("t", a), Set("a", "=", Apply("remainder", (b, a))), Set("b", "=", t)),
        ),
        Return(b),
    )
    gcd = Function("gcd", ("x", "y"), body, Operator("gcd", 2, "", 0, "", ""))
    assert function_type(gcd, [TYPES["int8"], TYPES["int8"]]).name == "int8"
    assert function_type(gcd, [TYPES["int8"], TYPES["float32"]]).name == "float32"
    root = Function(
        *("root", ("x",)),
        (If(Apply("less", (x, Constant(0))), (Return(Constant(0)),)), Return(Apply("sqrt", (x,)))),
        Operator("root", 1, "", 0, "", ""),
    )
    assert function_type(root, [TYPES["float32"]]).name == "float32"
    assert function_type(root, [TYPES["int64"]]).name == "float64"


# --- names -------------------------------------------------------------------------------------------


def test_names() -> None:
    assert {FUNCTIONS[n] for n in ("abs", "max", "mod", "acos", "pow", "conj", "true_divide")} == {
        *("absolute", "maximum", "remainder", "arccos", "power", "conjugate", "divide")
    }
    assert REDUCTIONS["sum"] == "add"
    assert REDUCTIONS["any"] == "logical_or"
    assert REDUCTIONS["max"] == "maximum"
    assert SYMBOLS["**", 2] == "power"
    assert SYMBOLS["-", 1] == "negative"
    assert SYMBOLS["and", 2] == "logical_and"
    for name, operator in OPERATORS.items():
        assert name in TYPES or callable(ufunc(name)), name
        assert any(operator.how(k) for k in "biufc"), name

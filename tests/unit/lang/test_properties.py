"""What is declared of functions is checked: what holds is taken, what does not is refused with a counterexample."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from spfgen.errors import SpecError
from spfgen.facts.prove import never, recorded
from spfgen.lang import bits
from spfgen.lang.fold import called, typed
from spfgen.lang.nodes import Apply, Case, Constant, Local
from spfgen.lang.properties import check_function
from spfgen.lang.trace import function
from spfgen.lang.types import TYPES

B, I8, I64, U16, F32, F64 = (TYPES[t] for t in ("bool", "int8", "int64", "uint16", "float32", "float64"))


def answers(one, *kinds) -> list[str]:
    with recorded() as found:
        check_function(one, kinds)
    return [a.word for a in found]


def test_what_holds() -> None:
    both = function(lambda x, y: x & y, commutative=True, associative=True, idempotent=True, identity=-1, annihilator=0)
    assert answers(both, I8, I8) == ["proved"] * 7
    larger = function(np.maximum, 2, commutative=True, associative=True, idempotent=True, annihilator=float("nan"))
    assert all("samples" in word for word in answers(larger, F64, F64))
    total = function(lambda x, y: x + y, commutative=True, associative=True, identity=0)
    assert answers(total, I64, I64) == ["proved"] * 4
    assert len(answers(total, F32, F32)) == 4


@pytest.mark.parametrize(
    ("f", "declared", "kind", "message"),
    [
        (lambda x, y: x - y, {"commutative": True}, I64, r"f\(x, y\) = f\(y, x\)`, as is declared"),
        (lambda x, y: x - y, {"associative": True}, F64, r"f\(f\(x, y\), z\) = f\(x, f\(y, z\)\)"),
        (lambda x, y: x + y, {"idempotent": True}, I8, r"f\(x, x\) = x"),
        (lambda x, y: x + y, {"identity": 1}, F32, r"f\(x, 1\) = x"),
        (lambda x, y: x * y, {"annihilator": 0}, F64, r"f\(0, x\) = 0.*for x = inf they are nan"),
        (np.maximum, {"annihilator": np.inf}, F64, r"for x = nan they are nan and inf"),
        (lambda x, y: np.where(x > y, x, y), {"commutative": True}, F64, "nan"),
    ],
)
def test_what_does_not_hold(f, declared, kind, message: str) -> None:
    one = function(f, 2, name="f", **declared)
    with pytest.raises(SpecError, match=message):
        check_function(one, (kind, kind))


def test_what_samples_miss() -> None:
    """Only one of all pairs of int64 is wrong: Z3 finds it."""
    secret = 1234567890123
    wrong = function(lambda x, y: np.where((x == secret) & (y == 77), 0, x + y), 2, name="f", commutative=True)
    with pytest.raises(SpecError, match="1234567890123"):
        check_function(wrong, (I64, I64))


def test_cases() -> None:
    x, y = Local("x"), Local("y")
    gcd = function(np.gcd, 2, name="g")
    right = replace(gcd, cases=(Case((None, 0), Apply("absolute", (Local(gcd.parameters[0]),))),))
    assert len(answers(right, I64, I64)) == 1
    wrong = replace(gcd, cases=(Case((0, None), Constant(1)),))
    with pytest.raises(SpecError, match=r"the case g\(0, "):
        check_function(wrong, (I64, I64))
    assert (x, y) == (Local("x"), Local("y"))


OPERATORS = [
    *("add subtract multiply maximum minimum less greater_equal equal not_equal bitwise_and bitwise_xor".split()),
    *("left_shift right_shift remainder logical_and logical_xor".split()),
]


@pytest.mark.parametrize("kind", [I8, U16, B], ids=lambda k: k.name)
def test_terms_are_what_numpy_computes(kind) -> None:
    """For given numbers Z3 proves that the term has numpy's value, and refutes another one."""
    numbers = [0, 1, -1, 3, -128, 127] if kind == I8 else [0, 1, 3, 65535] if kind == U16 else [False, True]
    for op in OPERATORS:
        one = function(lambda x, y, op=op: getattr(np, op)(x, y), 2)
        for a, b in itertools.islice(itertools.product(numbers, repeat=2), 0, None, 3):
            try:
                wanted = called(one, [typed(a, kind), typed(b, kind)])
            except SpecError:
                continue
            result = TYPES[wanted.dtype.name]

            def goal(terms, a=a, b=b, one=one, wanted=wanted, result=result):
                given = [bits.Term(bits.number(v, kind), kind) for v in (a, b)]
                return bits.called(one, given), bits.Term(bits.number(wanted, result), result)

            script = bits.question(goal, [kind])
            assert script is not None
            assert never(script, op, "").proved, (op, a, b)

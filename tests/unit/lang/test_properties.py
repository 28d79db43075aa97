"""What functions of the user declare is checked: proved for integers, tried for booleans, sampled for floats."""

from __future__ import annotations

import pytest

from spfgen.errors import SpecError
from spfgen.lang.nodes import Function
from spfgen.lang.parse import parse_file
from spfgen.lang.properties import PROVED, SAMPLED, TRIED, check_function


def function(body: str, parameters: str = "x, y", name: str = "f") -> Function:
    return parse_file(f"function {name}({parameters}) {{ {body} }}").functions[-1]


ALL = "property commutative property associative property idempotent"


@pytest.mark.parametrize(
    ("body", "kind", "how"),
    [
        (f"return x & y {ALL} property annihilator 0 property identity -1", "i", PROVED),
        (f"return x & y {ALL} property annihilator false property identity true", "b", TRIED),
        (f"return max(x, y) {ALL}", "i", PROVED),
        (f"return max(x, y) {ALL} property identity 0", "u", PROVED),
        (f"if x > y {{ return x }} return y {ALL}", "i", PROVED),
        (f"return max(x, y) {ALL} property identity -inf property annihilator inf at 1", "f", None),
        ("return x + y property commutative property associative property identity 0", "i", PROVED),
        ("return x + y property commutative property associative", "f", SAMPLED),
        ("return x + y - x*y property commutative property associative property identity 0", "i", PROVED),
        ("return x - y property identity 0", "i", PROVED),
        ("let s = x s = s ^ y return s property commutative property identity 0", "i", PROVED),
        ("return x property associative property idempotent", "f", SAMPLED),
        ("let a = abs(x) let b = abs(y) while a != 0 { let t = a a = b % a b = t } return b property commutative",
         "i", SAMPLED),
        ("case x, 0 : x  case 0, y : y  return x | y property commutative", "i", PROVED),
        ("return x or y property commutative property identity false", "b", TRIED),
    ],
)  # fmt: skip
def test_properties_that_hold(body: str, kind: str, how: str | None) -> None:
    if how is None:  # the greatest number annihilates, but for nan
        with pytest.raises(SpecError, match="annihilator inf at 1"):
            check_function(function(body), kind)
        return
    found = check_function(function(body), kind)
    assert {c.how for c in found} == {how}
    assert len(found) >= body.count("property")


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("return x - y property commutative", "i", r"`commutative`\), but f\(0, 1\) is -1 and f\(1, 0\) is 1"),
        ("return x - y property associative", "i", "`associative`"),
        ("return x + y property idempotent", "f", r"`idempotent`\), but f\(1.0, 1.0\) is 2.0 and 1.0 is 1.0"),
        ("return x*y property annihilator 0", "f", r"`annihilator 0 at 1`\), but f\(0, inf\) is nan"),
        ("return x + y property identity 1", "u", "`identity 1`"),
        ("return max(x, y) property commutative property identity 0", "i", r"f\(-1, 0\) is 0 and -1 is -1"),
        ("return x/y property commutative", "f", "`commutative`"),
        ("return x and not y property commutative", "b", r"f\(False, True\) is False and f\(True, False\) is True"),
        ("case x, 0 : 1  return x + y", "i", r"expected the value of the body in `case a, 0` of `f`"),
        ("return x + 1 property idempotent", "f", "`idempotent`"),
    ],
)
def test_properties_that_do_not_hold(body: str, kind: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        check_function(function(body), kind)
    assert caught.value.span is not None
    assert "leave out" in caught.value.notes[0]


def test_the_space_of_a_function() -> None:
    masked = function("return x*y space x and y")
    assert check_function(masked, "i", (0, 0))[0].how == PROVED
    with pytest.raises(SpecError, match="`space x and y`"):
        check_function(function("return x + y space x and y"), "i", (0, 0))
    with pytest.raises(SpecError, match="`space x and y`"):
        check_function(masked, "i", (1, 0))


def test_functions_that_a_type_does_not_have_differ_nowhere() -> None:
    (found,) = check_function(function("return x & y property commutative"), "f")
    assert found.how == SAMPLED

"""The operators of values: one table, from which everything that is known of them is read.

The rows are numpy's scalar functions under numpy's names, and a few of scipy.special. A row says how the operator is
written, what it is in C and its algebra; of which type its result is that function itself is asked (lang/typing.py).
The rest of the compiler asks the table; it knows no operator by itself.

What a row says of the algebra holds for arguments of one type, after numpy has converted them, and a test compares it
with numpy for every type, special values among the arguments. Equal means `==`, or both nan: the sign of a zero is
not looked at, and of complex numbers only finite ones are. A property may be true of some kinds of types only; `kinds`
are written as letters of `ElementType.kind` (b, i, u, f, c).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Any, TypeVar

from spfgen.lang.types import TYPES, ElementType

PROMOTED, QUOTIENT = "promoted", "quotient"
"""The type of a result: the promotion of the arguments' types; the same, but floating where they are whole numbers."""
LEAST, GREATEST, ONES = "least", "greatest", "ones"
"""Values that depend on the type: the least and the greatest of it, infinities included, and the one with all bits."""
ALL = "biufc"

Number = bool | int | float
Symbol = str


@dataclass(frozen=True, slots=True)
class DecidingArgument:
    """Where the argument at `place` is `value` the result is `result` (None: the same value), whatever the others are;
    true of the types of these kinds."""

    place: int
    value: Number | Symbol
    result: Number | Symbol | None = None
    kinds: str = ALL


@dataclass(frozen=True, slots=True)
class Operator:
    """`name` is numpy's. `symbol` stands before one argument or between two, and binds as `precedence` says (higher
    binds more). `c` is the same in C, `c_bool` that for booleans ("": there is none).

    `identity` leaves the other argument as it is, in both places unless the operator does not commute: then in the
    second; where it depends on the type it is a tuple of (kinds, value). `annihilators` are (place, value): that value
    of that argument is the result whatever the others are. In the kinds of `sparse` they are so by convention only: a 0
    that is not stored times inf is 0, while a 0 that is stored times inf is nan. `unstored` are further rows by that
    convention: an infinity that is not stored stays one, whatever is added to it. `known` are the results that depend
    on the type, or are another value than the argument.
    `distributes` are the places in which it distributes over addition; `over` are other operators over which it
    distributes in both places. `inverse` undoes it: `a - b` is `a + (-b)`; of one argument: applied to the result it
    gives the argument. `idempotent`: f(a, a) is a; of one argument: twice is as good as once.
    `commutative`, `associative`, `idempotent` are True, or the kinds for which they are. Where `rounds` has the kind,
    another order of additions (products ...) may round or overflow elsewhere: associative as everyone takes it to be.
    `repeated` says what n equal values combined are: the name of an operator of the value and n ("multiply": n*v), or
    "parity" (the value for an odd n, the identity for an even one).
    `converse` is the operator with exchanged arguments, `negated` the one that answers no where this one answers yes,
    in the kinds of `negates`.
    `code` are (kinds, how) for arguments of kinds for which `c` and `c_bool` do not say it: an operator of C, `sin()`
    for a function of the C library (`sinf` for float32), `rt` for `spfgen_NAME_TYPE` of rt/, `self` for the argument as
    it is, `0` or `1`, `cast`, or `select` for `a ? b : c`.
    """

    name: str
    arity: int
    symbol: str
    precedence: int
    c: str
    c_bool: str
    result: str = PROMOTED
    identity: Number | Symbol | tuple[tuple[str, Number | Symbol], ...] | None = None
    annihilators: tuple[tuple[int, Number], ...] = ()
    distributes: tuple[int, ...] = ()
    commutative: bool | str = False
    associative: bool | str = False
    idempotent: bool | str = False
    inverse: str = ""
    sparse: str = ""
    unstored: tuple[DecidingArgument, ...] = ()
    known: tuple[DecidingArgument, ...] = ()
    over: tuple[str, ...] = ()
    rounds: str = ""
    repeated: str = ""
    converse: str = ""
    negated: str = ""
    negates: str = ""
    code: tuple[tuple[str, str], ...] = ()
    aliases: tuple[str, ...] = ()
    begins: Number | None = None
    """What reductions begin with although it is no identity: the `hypot` of one number is its absolute value."""

    @property
    def is_quotient(self) -> bool:
        """Whether the first argument decides by convention, and the other one does not: a quotient or a remainder."""
        return bool(self.sparse) and self.annihilators == ((0, 0),)

    def is_commutative(self, kind: ElementType) -> bool:
        return _holds(self.commutative, kind)

    def is_associative(self, kind: ElementType, exactly: bool = False) -> bool:
        """Whether terms may be combined in any order; `exactly`: to the last bit."""
        return _holds(self.associative, kind) and not (exactly and kind.kind in self.rounds)

    def is_idempotent(self, kind: ElementType) -> bool:
        return _holds(self.idempotent, kind)

    def is_orderless(self, kind: ElementType, exactly: bool = False) -> bool:
        """Whether values may be combined in any order."""
        return self.is_commutative(kind) and self.is_associative(kind, exactly)

    def neutral_of(self, kind: ElementType) -> Number | None:
        """The identity, where it is one in both places: what a reduction may begin with."""
        return self.identity_of(kind) if self.is_commutative(kind) else None

    def identity_of(self, kind: ElementType) -> Number | None:
        """The identity among the values of a type."""
        identity = self.identity
        if isinstance(identity, tuple):
            identity = next((value for kinds, value in identity if kind.kind in kinds), None)
        return None if identity is None else value_of(identity, kind)

    def known_of(
        self, kinds: ElementType | Sequence[ElementType], stored: bool = True
    ) -> tuple[tuple[int, Number, Number], ...]:
        """All (place, value, result) for arguments of a type, or of these types: where they differ, as a uint64 and an
        int64 that are compared, none is the least or the greatest of both. With `stored` those that hold for all
        values, else those too that hold by convention of what is not stored."""
        kind, *others = [kinds] if isinstance(kinds, ElementType) else kinds
        alike = all(other == kind for other in others)
        rows = [
            DecidingArgument(place, value)
            for place, value in self.annihilators
            if not (stored and kind.kind in self.sparse)
        ]
        return tuple(
            (k.place, value_of(k.value, kind), value_of(k.value if k.result is None else k.result, kind))
            for k in (*rows, *self.known, *(() if stored else self.unstored))
            if kind.kind in k.kinds and (alike or not isinstance(k.value, str))
        )

    def annihilators_of(self, kind: ElementType, stored: bool = True) -> tuple[tuple[int, Number], ...]:
        """The (place, value) of `known_of` where the value is the result."""
        return tuple((p, v) for p, v, result in self.known_of(kind, stored) if v == result or v != v)

    def how(self, kind: str) -> str:
        """What it is in C for arguments of a kind; "" where there is nothing."""
        code = next((how for kinds, how in self.code if kind in kinds), "")
        return code or (self.c_bool if kind == "b" else self.c)


def _holds(property_: bool | str, kind: ElementType) -> bool:
    return property_ if isinstance(property_, bool) else kind.kind in property_


def value_of(value: Number | Symbol, kind: ElementType) -> Number:
    """A number of the table as one of the type."""
    most: int = 2 ** (8 * kind.bytes - (kind.kind == "i")) - 1
    match value, kind.kind:
        case (str(), "b"):
            return value != LEAST
        case ("least", "f"):
            return -inf
        case ("greatest", "f"):
            return inf
        case ("least", "i"):
            return -most - 1
        case ("greatest", "i"):
            return most
        case ("ones", "i"):
            return -1
        case ("least", "u"):
            return 0
        case ("greatest" | "ones", "u"):
            return most
        case (str(), _):
            raise ValueError(f"{kind.name} has no {value} value")
        case (number, "b"):
            return bool(number)
        case (number, "i" | "u"):
            return int(number)
    return float(value)


def _ends(first: Symbol, second: Symbol, result: bool, kinds: str) -> tuple[DecidingArgument, ...]:
    """Nothing is beyond the least and the greatest value; nan is not compared to them."""
    return DecidingArgument(0, first, result, kinds), DecidingArgument(1, second, result, kinds)


def _both(
    value: Number | Symbol, kinds: str = ALL, result: Number | Symbol | None = None
) -> tuple[DecidingArgument, ...]:
    return DecidingArgument(0, value, result, kinds), DecidingArgument(1, value, result, kinds)


ZEROS = ((0, 0), (1, 0))
OR, AND, NOT, COMPARED, BIT_OR, BIT_XOR, BIT_AND, SHIFTED, ADDED, MULTIPLIED, SIGNED, POWER = range(1, 13)
"""How tightly operators bind, as in Python."""


def _sums_and_products() -> list[Operator]:
    return [
        Operator(
            *("add", 2, "+", ADDED, "+", "||"),
            identity=0,
            known=_both(True, "b"),
            unstored=(*_both(inf, "f"), *_both(-inf, "f")),
            commutative=True,
            associative=True,
            idempotent="b",
            inverse="subtract",
            rounds="fc",
            repeated="multiply",
        ),
        Operator(
            *("subtract", 2, "-", ADDED, "-", ""),
            identity=0,
            inverse="add",
            unstored=tuple(DecidingArgument(p, v, v if p == 0 else -v, "f") for p in (0, 1) for v in (inf, -inf)),
        ),
        Operator(
            *("multiply", 2, "*", MULTIPLIED, "*", "&&"),
            identity=1,
            annihilators=ZEROS,
            sparse="fc",
            distributes=(0, 1),
            commutative=True,
            associative=True,
            idempotent="b",
            rounds="fc",
            repeated="power",
            code=(("c", "rt"),),
            aliases=("mul",),
        ),
    ]


def _quotients_and_remainders() -> list[Operator]:
    return [
        Operator(
            *("divide", 2, "/", MULTIPLIED, "/", "", QUOTIENT),
            identity=1,
            annihilators=((0, 0),),
            sparse="fc",
            distributes=(0,),
            code=(("c", "rt"),),
            aliases=("true_divide",),
        ),
        Operator(
            *("floor_divide", 2, "//", MULTIPLIED, "", ""),
            identity=(("iu", 1),),
            annihilators=((0, 0),),
            sparse="f",
            code=(("iuf", "rt"),),
        ),
        Operator(
            *("remainder", 2, "%", MULTIPLIED, "", ""),
            annihilators=((0, 0),),
            sparse="f",
            known=(DecidingArgument(1, 1, 0, "iu"),),
            code=(("iuf", "rt"),),
            aliases=("mod",),
        ),
        _function("fmod", 2, annihilators=((0, 0),), sparse="f", known=(DecidingArgument(1, 1, 0, "iu"),),
                  code=(("iu", "rt"), ("f", "fmod()"))),
    ]  # fmt: skip


def _powers_and_signs() -> list[Operator]:
    return [
        Operator(
            *("power", 2, "**", POWER, "", ""),
            identity=1,
            known=(DecidingArgument(1, 0, 1), DecidingArgument(0, 1, 1, "iuf")),
            code=(("iuc", "rt"), ("f", "pow()")),
            aliases=("pow",),
        ),
        _function("float_power", 2, identity=1, known=(DecidingArgument(1, 0, 1), DecidingArgument(0, 1, 1, "f")),
                  code=(("f", "pow()"), ("c", "rt"))),
        Operator("negative", 1, "-", SIGNED, "-", "", annihilators=((0, 0),), distributes=(0,), inverse="negative"),
        Operator("positive", 1, "+", SIGNED, "", "", idempotent=True, inverse="positive", code=((ALL, "self"),)),
        _function("absolute", 1, idempotent="biuf", aliases=("abs",),
                  code=(("bu", "self"), ("i", "rt"), ("f", "fabs()"), ("c", "cabs()"))),
        _function("fabs", 1, idempotent=True, code=(("f", "fabs()"),)),
        _function("sign", 1, idempotent="iuf", code=(("iufc", "rt"),)),
        _function("reciprocal", 1, code=(("iufc", "rt"),)),
        _function("square", 1, code=(("iufc", "rt"),)),
    ]  # fmt: skip


def _function(name: str, arity: int, **properties: object) -> Operator:
    """A row for what is written as a function."""
    return Operator(name, arity, "", 0, "", "", **properties)  # type: ignore[arg-type]


def _of_the_library() -> list[Operator]:
    """Functions of math.h, and of complex.h for complex numbers where numpy has them."""
    both = {
        **dict.fromkeys("sqrt exp log sin cos tan sinh cosh tanh".split()),
        **{f"arc{n}": f"a{n}" for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    }
    complex_too = [
        _function(
            name,
            1,
            code=(("f", f"{c_name or name}()"), ("c", f"c{c_name or name}()")),
            aliases=(c_name,) if c_name else (),
        )
        for name, c_name in both.items()
    ]
    by_hand = [_function(n, 1, code=(("f", f"{n}()"), ("c", "rt"))) for n in "exp2 expm1 log2 log10 log1p rint".split()]
    return [
        *complex_too,
        *by_hand,
        _function("cbrt", 1, code=(("f", "cbrt()"),)),
        _function("erf", 1, code=(("f", "erf()"),)),
        _function("arctan2", 2, code=(("f", "atan2()"),), aliases=("atan2",)),
        _function("hypot", 2, known=_both(inf) + _both(-inf, result=inf), commutative=True, associative=True,
                  rounds="f", begins=0, code=(("f", "hypot()"),)),
        _function("degrees", 1, code=(("f", "rt"),), aliases=("rad2deg",)),
        _function("radians", 1, code=(("f", "rt"),), aliases=("deg2rad",)),
        *(
            _function(n, 1, idempotent=True, code=(("biu", "self"), ("f", f"{n}()")), aliases=aliases)
            for n, aliases in (("floor", ()), ("ceil", ()), ("trunc", ("fix",)))
        ),
        _function("round", 1, idempotent=True, code=(("biu", "self"), ("f", "rint()"), ("c", "rt")),
                  aliases=("around",)),
        _function("ldexp", 2, identity=0, annihilators=((0, 0),), code=(("f", "rt"),)),
        _function("copysign", 2, idempotent=True, code=(("f", "copysign()"),)),
        _function("nextafter", 2, idempotent=True, code=(("f", "nextafter()"),)),
        _function("spacing", 1, code=(("f", "rt"),)),
        _function("heaviside", 2, code=(("f", "rt"),)),
        *(
            _function(n, 2, identity=-inf, commutative=True, associative=True, rounds="f", code=(("f", "rt"),))
            for n in ("logaddexp", "logaddexp2")
        ),
    ]  # fmt: skip


def _extremes() -> list[Operator]:
    """`maximum` and `minimum` are nan where an argument is: nan is their annihilator, and infinity is none, as
    maximum(inf, nan) is nan. To `fmax` and `fmin` nan is as good as nothing."""
    order = {"commutative": "biuf", "associative": "biuf", "idempotent": "biuf"}
    least, greatest = (("biu", LEAST), ("f", -inf)), (("biu", GREATEST), ("f", inf))
    rt = ("iufc", "rt")
    return [
        _function("maximum", 2, identity=least, known=_both(GREATEST, "biu") + _both(nan, "f"), over=("minimum",),
                  **order, code=(("b", "||"), rt), aliases=("max",)),
        _function("minimum", 2, identity=greatest, known=_both(LEAST, "biu") + _both(nan, "f"), over=("maximum",),
                  **order, code=(("b", "&&"), rt), aliases=("min",)),
        _function("fmax", 2, identity=(("biu", LEAST), ("f", nan)), known=_both(GREATEST, "biuf"), **order,
                  code=(("b", "||"), rt)),
        _function("fmin", 2, identity=(("biu", GREATEST), ("f", nan)), known=_both(LEAST, "biuf"), **order,
                  code=(("b", "&&"), rt)),
        _function("clip", 3, code=(("biufc", "rt"),)),
        _function("bitwise_count", 1, code=(("biu", "rt"),)),
    ]  # fmt: skip


def _of_integers() -> list[Operator]:
    """`lcm` does not associate: products that do not fit lose their upper bits."""
    ones = (("b", True), ("iu", ONES))
    return [
        _function("gcd", 2, identity=(("u", 0),), annihilators=((0, 1), (1, 1)), commutative=True, associative=True,
                  idempotent="u", begins=0, code=(("iu", "rt"),)),
        _function("lcm", 2, identity=(("u", 1),), annihilators=ZEROS, commutative=True, idempotent="u",
                  code=(("iu", "rt"),)),
        Operator("bitwise_and", 2, "&", BIT_AND, "&", "&&", identity=ones, annihilators=ZEROS,
                 commutative=True, associative=True, idempotent=True, over=("bitwise_or", "bitwise_xor")),
        Operator("bitwise_or", 2, "|", BIT_OR, "|", "||", identity=0, known=_both(ONES),
                 commutative=True, associative=True, idempotent=True, over=("bitwise_and",)),
        Operator("bitwise_xor", 2, "^", BIT_XOR, "^", "!=", identity=0, commutative=True, associative=True,
                 inverse="bitwise_xor", repeated="parity"),
        Operator("invert", 1, "~", SIGNED, "~", "!", inverse="invert", aliases=("bitwise_not", "bitwise_invert")),
        Operator("left_shift", 2, "<<", SHIFTED, "", "", identity=0, annihilators=((0, 0),), code=(("iu", "rt"),),
                 aliases=("bitwise_left_shift",)),
        Operator("right_shift", 2, ">>", SHIFTED, "", "", identity=0, annihilators=((0, 0),),
                 known=(DecidingArgument(0, -1, None, "i"),), code=(("iu", "rt"),), aliases=("bitwise_right_shift",)),
    ]  # fmt: skip


def _of_truth() -> list[Operator]:
    """Comparisons and logic: the result is a boolean. Complex numbers are compared as numpy does, by their real parts
    and then by their imaginary ones. Everything but 0 is true, nan too."""
    exclusive = {"identity": (("b", False),), "commutative": True, "associative": True, "repeated": "parity"}
    return [
        *(
            Operator(name, 2, sign, COMPARED, sign, sign, converse=converse, negated=negated, negates="biu",
                     known=known, code=(("c", "rt"),))
            for name, sign, converse, negated, known in (
                ("greater", ">", "less", "less_equal", _ends(LEAST, GREATEST, False, "biuf")),
                ("greater_equal", ">=", "less_equal", "less", _ends(GREATEST, LEAST, True, "biu")),
                ("less", "<", "greater", "greater_equal", _ends(GREATEST, LEAST, False, "biuf")),
                ("less_equal", "<=", "greater_equal", "greater", _ends(LEAST, GREATEST, True, "biu")),
            )
        ),
        Operator("equal", 2, "==", COMPARED, "==", "==", identity=(("b", True),), commutative=True, associative="b",
                 converse="equal", negated="not_equal", negates=ALL),
        Operator("not_equal", 2, "!=", COMPARED, "!=", "!=", identity=(("b", False),), commutative=True,
                 associative="b", converse="not_equal", negated="equal", negates=ALL),
        Operator("logical_and", 2, "and", AND, "", "&&", identity=(("b", True),), annihilators=ZEROS, commutative=True,
                 associative=True, idempotent="b", over=("logical_or", "logical_xor"), code=(("iufc", "truth &&"),)),
        Operator("logical_or", 2, "or", OR, "", "||", identity=(("b", False),), known=_both(1, ALL, True),
                 commutative=True, associative=True, idempotent="b", over=("logical_and",),
                 code=(("iufc", "truth ||"),)),
        _function("logical_xor", 2, **exclusive, code=(("b", "!="), ("iufc", "truth !="))),
        Operator("logical_not", 1, "not", NOT, "", "!", inverse="logical_not", code=(("iufc", "truth !"),)),
        _function("isnan", 1, code=(("biu", "0"), ("f", "isnan()"), ("c", "rt"))),
        _function("isinf", 1, code=(("biu", "0"), ("f", "isinf()"), ("c", "rt"))),
        _function("isfinite", 1, code=(("biu", "1"), ("f", "isfinite()"), ("c", "rt"))),
        _function("signbit", 1, code=(("f", "signbit()"),)),
        _function("where", 3, code=((ALL, "select"),)),
    ]  # fmt: skip


def _of_complex_numbers() -> list[Operator]:
    return [
        _function("conjugate", 1, inverse="conjugate", code=(("biuf", "self"), ("c", "conj()")), aliases=("conj",)),
        _function("real", 1, idempotent="biuf", code=(("biuf", "self"), ("c", "creal()"))),
        _function("imag", 1, code=(("biuf", "0"), ("c", "cimag()"))),
        _function("angle", 1, code=(("f", "rt"), ("c", "carg()"))),
    ]


def _conversions() -> list[Operator]:
    """`float32(a)`: the value as one of that type, rounded or cut as C does it. Where a number does not fit into an
    integer type the result is any."""
    return [_function(name, 1, code=((ALL, "cast"),)) for name in TYPES]


_ALL = (
    *_sums_and_products(),
    *_quotients_and_remainders(),
    *_powers_and_signs(),
    *_of_the_library(),
    *_extremes(),
    *_of_integers(),
    *_of_truth(),
    *_of_complex_numbers(),
    *_conversions(),
)
OPERATORS: Mapping[str, Operator] = {o.name: o for o in _ALL}
SYMBOLS: Mapping[tuple[str, int], str] = {(o.symbol, o.arity): o.name for o in _ALL if o.symbol}
"""The names of operators by what is written and the number of arguments."""
FUNCTIONS: Mapping[str, str] = {n: o.name for o in _ALL for n in (o.name, *o.aliases)}
"""The names of operators by all names under which they are called, as `abs`."""
REDUCTIONS: Mapping[str, str] = {
    "sum": "add",
    "prod": "multiply",
    "any": "logical_or",
    "all": "logical_and",
    "amax": "maximum",
    "amin": "minimum",
    "nanmax": "fmax",
    "nanmin": "fmin",
    **{n: name for n, name in FUNCTIONS.items() if OPERATORS[name].arity == 2},
}
"""The names of operators by all names under which they reduce, as in `max(j: A[i, j])`."""

T = TypeVar("T")


def ufunc(name: str) -> Any:
    """The function of numpy, or else of scipy.special, that an operator is named after."""
    import numpy as np

    if hasattr(np, name):
        return getattr(np, name)
    from scipy import special  # a quarter of a second, for functions that are its own

    return getattr(special, name)


def show_applied(
    name: str, operator: Operator, arguments: Sequence[T], show: Callable[[T, int], str], level: int, spaced: int
) -> str:
    """An application as text, in parentheses where it binds less than `level`; blanks stand around the signs of
    operators that bind no more than `spaced`."""
    precedence, sign = operator.precedence, operator.symbol
    if not sign or len(arguments) > 2:
        return f"{name}({', '.join(show(a, 0) for a in arguments)})"
    if len(arguments) == 1:
        text = f"{sign}{' ' * sign.isalpha()}{show(arguments[0], precedence)}"
    else:
        left, right = precedence + (precedence in (COMPARED, POWER)), precedence + 1 if precedence != POWER else SIGNED
        between = f" {sign} " if precedence <= spaced or sign.isalpha() else sign
        text = f"{show(arguments[0], left)}{between}{show(arguments[1], right)}"
    return f"({text})" if precedence < level else text

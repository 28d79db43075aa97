"""Random equations of the whole language of values, as text and as plain numpy.

A value is an array with an axis for each of the indices i, j, k, l (of extent 1 where it does not depend on the index):
numpy's broadcasting is all the meaning there is. Expressions are grown on actual data, so that what numpy leaves open
is left out: overflow, products with infinities (what is not stored annihilates them), comparisons of rounded numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
INDICES = "ijkl"
EXTENT_OF = {"i": "n", "k": "n", "j": "m", "l": "m"}
LARGEST = 2.0**24
Value = tuple[Any, ...]
"""("number", v), ("index", i), ("access", T, (i, j)), ("or", T, ((i, -1), (j, 0)), v): what lies outside is v,
("moved", T, (("{0} + {1}", i, 2), ("{0}", j, 0))): what lies outside is left out, there are such in reductions alone,
("apply", name, arguments), ("reduce", name, (j,), value, condition)"""


@dataclass(frozen=True)
class Operand:
    name: str
    axes: str
    """The name of the extent of each dimension."""
    kind: str
    fill: Any
    layout: str

    def full_layout(self) -> str:
        return self.layout


@dataclass(frozen=True)
class Equation:
    """`target[free] op value`; a target that is updated, or is a result in a layout of its own, is an operand, too."""

    operands: tuple[Operand, ...]
    free: str
    op: str
    value: Value
    result: str

    def text(self) -> str:
        target = f"R[{', '.join(self.free)}]" if self.free else "R"
        return f"{target} {self.op} {show(self.value)}"


@dataclass(frozen=True)
class Function:
    """`name` is how it is written, `{0} + {1}` for operators. `exact`: rounded arguments give rounded results, and what
    compares or rounds them takes exact ones alone. `takes` says whether numpy's result is meant for these."""

    name: str
    kinds: str
    result: str
    numpy: Callable[..., Array]
    text: str = ""
    exact: bool = True
    smooth: bool = True
    takes: Callable[..., bool] = lambda *_: True


def _finite(*arguments: Array) -> bool:
    return all(np.isfinite(a).all() for a in arguments)


def _not_zero(_: Array, divisor: Array) -> bool:
    return bool(np.isfinite(divisor).all() and (divisor != 0).all()) and _finite(_)


def _small(_: Array, shift: Array) -> bool:
    return bool(((shift >= 0) & (shift < 12)).all())


def _no_zeros(*arguments: Array) -> bool:
    """The sign of a zero is not kept."""
    return all((a != 0).all() for a in arguments)


FUNCTIONS = (
    *(
        Function(n, k * 2, k, f, f"({{0}} {s} {{1}})", takes=_finite)
        for k in "fi"
        for n, s, f in (("add", "+", np.add), ("subtract", "-", np.subtract), ("multiply", "*", np.multiply))
    ),
    *(Function(n, k * 2, k, f) for k in "fi" for n, f in (("max", np.maximum), ("min", np.minimum))),
    *(Function(n, "ff", "f", getattr(np, n)) for n in ("fmax", "fmin")),
    *(Function(n, k, k, f, t) for k in "fi" for n, f, t in (("negative", np.negative, "(-{0})"), ("abs", np.abs, ""))),
    Function("sign", "f", "f", np.sign, smooth=False),
    Function("square", "f", "f", np.square),
    Function("square", "i", "i", np.square),
    *(Function(n, "f", "f", getattr(np, n), smooth=False) for n in ("floor", "ceil", "trunc", "rint")),
    *(Function(n, "f", "f", getattr(np, n), exact=False) for n in ("sin", "cos", "arctan", "tanh", "cbrt")),
    Function("exp", "f", "f", np.exp, exact=False, takes=lambda a: bool((a < 9).all())),
    Function("sqrt", "f", "f", np.sqrt, exact=False, takes=lambda a: bool((a >= 0).all())),
    Function("log1p", "f", "f", np.log1p, exact=False, takes=lambda a: bool((a > -0.5).all())),
    Function("divide", "ff", "f", np.divide, "({0}/{1})", exact=False, takes=_not_zero),
    Function("hypot", "ff", "f", np.hypot, exact=False),
    Function("arctan2", "ff", "f", np.arctan2, exact=False, takes=_no_zeros, smooth=False),
    Function("copysign", "ff", "f", np.copysign, takes=_no_zeros, smooth=False),
    Function(
        "power",
        "fi",
        "f",
        np.power,
        "({0} ** {1})",
        takes=lambda a, b: bool((abs(a) < 9).all() and ((b >= 0) & (b < 5)).all()),
    ),
    Function("ldexp", "fi", "f", np.ldexp, takes=lambda a, b: _finite(a) and bool((abs(b) < 6).all())),
    Function("floor_divide", "ff", "f", np.floor_divide, "({0}//{1})", takes=_not_zero, smooth=False),
    Function("remainder", "ff", "f", np.remainder, "({0} % {1})", takes=lambda a, b: _not_zero(a, b), smooth=False),
    Function("floor_divide", "ii", "i", np.floor_divide, "({0}//{1})", takes=_not_zero),
    Function("remainder", "ii", "i", np.remainder, "({0} % {1})", takes=_not_zero),
    *(
        Function(n, "ii", "i", f, f"({{0}} {s} {{1}})")
        for n, s, f in (
            ("bitwise_and", "&", np.bitwise_and),
            ("bitwise_or", "|", np.bitwise_or),
            ("bitwise_xor", "^", np.bitwise_xor),
        )
    ),
    Function("invert", "i", "i", np.invert, "(~{0})"),
    Function("left_shift", "ii", "i", np.left_shift, "({0} << {1})", takes=_small),
    Function("right_shift", "ii", "i", np.right_shift, "({0} >> {1})", takes=_small),
    Function("gcd", "ii", "i", np.gcd),
    Function("lcm", "ii", "i", np.lcm),
    Function("mixed", "if", "f", np.add, "({0} + {1})", takes=_finite),
    Function("mixed", "bf", "f", np.multiply, "({0}*{1})", takes=_finite),
    Function("where", "bff", "f", np.where),
    Function("where", "bii", "i", np.where),
    Function("where", "bbb", "b", np.where),
    Function("clip", "fff", "f", np.clip, takes=lambda a, b, c: bool((b <= c).all())),
    *(
        Function(n, k * 2, "b", f, f"({{0}} {s} {{1}})", smooth=False)
        for k in "fi"
        for n, s, f in (
            ("less", "<", np.less),
            ("less_equal", "<=", np.less_equal),
            ("greater", ">", np.greater),
            ("greater_equal", ">=", np.greater_equal),
            ("equal", "==", np.equal),
            ("not_equal", "!=", np.not_equal),
        )
    ),
    *(
        Function(n, "bb", "b", f, f"({{0}} {s} {{1}})")
        for n, s, f in (
            ("logical_and", "and", np.logical_and),
            ("logical_or", "or", np.logical_or),
            ("bitwise_and", "&", np.bitwise_and),
            ("bitwise_or", "|", np.bitwise_or),
            ("bitwise_xor", "^", np.bitwise_xor),
        )
    ),
    Function("logical_xor", "bb", "b", np.logical_xor),
    Function("logical_not", "b", "b", np.logical_not, "(not {0})"),
    Function("isnan", "f", "b", np.isnan),
    Function("isinf", "f", "b", np.isinf),
)
REDUCTIONS: Mapping[str, tuple[str, Callable[..., Array], Any]] = {
    "sum": ("fi", np.sum, 0),
    "prod": ("fi", np.prod, 1),
    "max": ("fi", np.max, None),
    "min": ("fi", np.min, None),
    "any": ("b", np.any, False),
    "all": ("b", np.all, True),
    "argmin": ("fi", np.argmin, None),
    "argmax": ("fi", np.argmax, None),
}
MOVED: Mapping[str, Callable[[Array, int], Array]] = {
    "{0}": lambda i, d: i,
    "{0} - {1}": lambda i, d: i - d,
    "{0} + {1}": lambda i, d: i + d,
    "{1} - {0}": lambda i, d: d - i,
    "2*{0} - {1}": lambda i, d: 2 * i - d,
    "{0}/2 + {1}": lambda i, d: i // 2 + d,
}
"""Subscripts, of an index and a number."""
CONDITIONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "{0} < {1}": np.less,
    "{0} >= {1}": np.greater_equal,
    "{0} != {1}": np.not_equal,
    "{0} <= {1} + 1": lambda a, b: a <= b + 1,
}
BY_NAME = {(f.name, f.kinds): f for f in FUNCTIONS}


# --- text and meaning ---------------------------------------------------------------------------------


def show(value: Value) -> str:
    match value:
        case ("number", number):
            return shown(number)
        case ("index", index):
            return str(index)
        case ("access", tensor, subscripts):
            return f"{tensor}[{', '.join(subscripts)}]" if subscripts else str(tensor)
        case ("or", tensor, subscripts, number):
            inside = ", ".join(f"{i} {'+' if d > 0 else '-'} {abs(d)}" if d else i for i, d in subscripts)
            return f"coalesce({tensor}[{inside}], {shown(number)})"
        case ("moved", tensor, subscripts):
            return f"{tensor}[{', '.join(form.format(i, d) for form, i, d in subscripts)}]"
        case ("apply", (name, kinds), arguments):
            function = BY_NAME[name, kinds]
            texts = [show(a) for a in arguments]
            return function.text.format(*texts) if function.text else f"{name}({', '.join(texts)})"
        case ("reduce", name, indices, body, condition):
            where = f" where {condition[0].format(*condition[1:])}" if condition else ""
            return f"{name}({', '.join(indices)}: {show(body)}{where})"
    raise ValueError(value)


def shown(number: Any) -> str:
    return str(bool(number)).lower() if isinstance(number, bool | np.bool_) else repr(number)


@dataclass(frozen=True)
class Known:
    """One data set: arrays by tensor, extents by name."""

    arrays: Mapping[str, Array]
    extents: Mapping[str, int]

    def axis(self, index: str) -> Array:
        shape = [1] * len(INDICES)
        shape[INDICES.index(index)] = self.extents[EXTENT_OF[index]]
        return np.arange(self.extents[EXTENT_OF[index]], dtype=np.int64).reshape(shape)


def meaning(value: Value, known: Known) -> Array:
    return found_of(value, known, False)[0]


def found_of(value: Value, known: Known, whole: bool) -> tuple[Array, Array]:
    """The value, and where it has one: what reads outside has none. With `whole` a sum has none where one of its terms
    has none, else it is there that of its other terms."""
    with np.errstate(all="ignore"):
        return _found(value, known, whole)


def _found(value: Value, known: Known, whole: bool) -> tuple[Array, Array]:
    everywhere = np.array(True)
    match value:
        case ("number", number):
            return np.asarray(number).reshape([1] * len(INDICES)), everywhere
        case ("index", index):
            return known.axis(index), everywhere
        case ("access", tensor, subscripts):
            array = known.arrays[tensor]
            if not subscripts:
                return array.reshape([1] * len(INDICES)), everywhere
            return np.asarray(array[tuple(known.axis(i) for i in subscripts)]), everywhere
        case ("or", tensor, subscripts, number):
            read, inside = _read(known.arrays[tensor], [known.axis(i) + d for i, d in subscripts])
            return np.where(inside, read, number), everywhere
        case ("moved", tensor, subscripts):
            return _read(known.arrays[tensor], [MOVED[form](known.axis(i), d) for form, i, d in subscripts])
        case ("apply", key, arguments):
            return _applied(key, [_found(a, known, whole) for a in arguments], whole)
        case ("reduce", name, indices, body, condition):
            found, inside = _found(body, known, name != "sum")
            if condition:
                inside = inside & CONDITIONS[condition[0]](known.axis(condition[1]), known.axis(condition[2]))
            return _reduced(name, indices, found, inside, known), everywhere
    raise ValueError(value)


def _read(array: Array, places: Sequence[Array]) -> tuple[Array, Array]:
    inside = np.array(True)
    for place, extent in zip(places, array.shape, strict=True):
        inside = inside & (place >= 0) & (place < extent)
    if not array.size:
        return np.zeros(inside.shape, array.dtype), inside
    return array[tuple(np.clip(p, 0, n - 1) for p, n in zip(places, array.shape, strict=True))], inside


def _applied(key: tuple[str, str], arguments: Sequence[tuple[Array, Array]], whole: bool) -> tuple[Array, Array]:
    values, insides = [v for v, _ in arguments], [i for _, i in arguments]
    inside = np.logical_and.reduce(np.broadcast_arrays(*insides)) if len(insides) > 1 else insides[0]
    name = key[0]
    if not whole and (name in ("add", "subtract") or key == ("mixed", "if")):
        values = [v if i.all() else np.where(i, v, v.dtype.type(0)) for v, i in arguments]
        inside = insides[0] | insides[1]
    elif name == "where":
        inside = insides[0] & np.where(values[0], insides[1], insides[2])
    elif name in ("logical_and", "logical_or"):
        taken = values[0] if name == "logical_and" else ~values[0]
        inside = insides[0] & (insides[1] | ~taken)
    return np.asarray(BY_NAME[key].numpy(*values)), inside


def _reduced(name: str, indices: Sequence[str], found: Array, inside: Array, known: Known) -> Array:
    _, numpy, identity = REDUCTIONS[name]
    shape = list(np.broadcast_shapes(found.shape, inside.shape if inside.ndim else found.shape))
    for index in indices:
        shape[INDICES.index(index)] = known.extents[EXTENT_OF[index]]
    axes = tuple(INDICES.index(i) for i in indices)
    if not inside.all():
        if identity is None:  # there is something to take, as `grow` sees to
            ends = (-np.inf, np.inf) if found.dtype.kind == "f" else (-(2**62), 2**62)
            identity = ends[name.endswith("min")]
        found = np.where(inside, found, np.asarray(identity).astype(found.dtype))
    found = np.broadcast_to(found, shape)
    return np.asarray(numpy(found, axis=axes[0] if name.startswith("arg") else axes, keepdims=True))


def result_of(equation: Equation, known: Known, before: Array | None) -> Array:
    """What the target holds at last."""
    found = meaning(equation.value, known)
    shape = tuple(known.extents[EXTENT_OF[i]] if i in equation.free else 1 for i in INDICES)
    found = np.broadcast_to(found, shape)
    order = [INDICES.index(i) for i in equation.free]
    rest = [a for a in range(len(INDICES)) if a not in order]
    found = found.transpose(*order, *rest).reshape([shape[a] for a in order])
    if before is None:
        return found
    functions = {"+=": np.add, "-=": np.subtract, "*=": np.multiply, "min=": np.minimum, "max=": np.maximum,
                 "or=": np.logical_or, "and=": np.logical_and}  # fmt: skip
    with np.errstate(all="ignore"):
        return np.asarray(functions[equation.op](before, found))


# --- growing ------------------------------------------------------------------------------------------


@dataclass
class Grower:
    rng: np.random.Generator
    operands: tuple[Operand, ...]
    known: Sequence[Known]
    reducing: int = 0
    """How many reductions what is grown stands in."""

    def pick(self, things: Sequence[Any]) -> Any:
        return things[self.rng.integers(len(things))]

    def grow(self, kind: str, depth: int, indices: str, bound: str = "") -> tuple[Value, bool]:
        """A value of the kind over some of the indices; whether it is exact. `bound` are indices that mean something:
        no reduction in it may bind them."""
        for _ in range(30):
            found = self._trial(kind, depth, indices, bound or indices)
            if found is not None:
                return found
        return self._leaf(kind, indices), True

    def _trial(self, kind: str, depth: int, indices: str, bound: str) -> tuple[Value, bool] | None:
        if depth == 0 or self.rng.random() < 0.05:
            return self._leaf(kind, indices), True
        free = [i for i in INDICES if i not in bound]
        if free and self.rng.random() < 0.25:
            return self._reduction(kind, depth, indices, bound, free)
        function = self.pick([f for f in FUNCTIONS if f.result == kind])
        grown = [self.grow(k, depth - 1, indices, bound) for k in function.kinds]
        exact = all(e for _, e in grown)
        if not (exact or function.smooth):
            return None
        value = ("apply", (function.name, function.kinds), tuple(v for v, _ in grown))
        for known in self.known:
            arguments = [meaning(v, known) for v, _ in grown]
            if not function.takes(*arguments) or not _fits(meaning(value, known)):
                return None
        return value, exact and function.exact

    def _reduction(self, kind: str, depth: int, indices: str, bound: str, free: list[str]) -> tuple[Value, bool] | None:
        name = self.pick(
            [n for n, (kinds, _, _) in REDUCTIONS.items() if kind in kinds and (n[:3] != "arg" or kind == "i")]
        )
        of = self.pick("fi") if name.startswith("arg") else kind
        count = 1 if name.startswith("arg") or len(free) < 2 else int(self.rng.integers(1, 3))
        chosen = [str(i) for i in self.rng.permutation(free)[:count]]
        self.reducing += 1
        body, exact = self.grow(of, depth - 1, indices + "".join(chosen), bound + "".join(chosen))
        self.reducing -= 1
        if not set(chosen) <= alone(body) or (name.startswith("arg") and not exact):
            return None
        condition = None
        if REDUCTIONS[name][2] is not None and indices and self.rng.random() < 0.3:
            condition = (self.pick(list(CONDITIONS)), chosen[0], self.pick(indices))
        value = ("reduce", name, tuple(chosen), body, condition)
        for known in self.known:
            found, inside = found_of(body, known, name != "sum")
            if name in ("sum", "prod", "argmin", "argmax") and not _finite(found):
                return None
            if REDUCTIONS[name][2] is None and not self._has_some(inside, chosen, known):
                return None
            if not _fits(meaning(value, known)):
                return None
        return value, exact

    @staticmethod
    def _has_some(inside: Array, indices: Sequence[str], known: Known) -> bool:
        """Whether a reduction has something everywhere."""
        if not inside.ndim:
            return True
        own = tuple(INDICES.index(i) for i in indices)
        return bool(inside.any(axis=own).all()) and all(known.extents[EXTENT_OF[i]] for i in indices)

    def _mask(self, indices: str) -> Value:
        """A condition on indices alone."""
        one = ("index", self.pick(indices))
        other = self.pick([("index", i) for i in indices] + [("number", int(self.rng.integers(0, 4)))])
        if self.rng.random() < 0.3:
            near = ("apply", ("abs", "i"), (("apply", ("subtract", "ii"), (one, other)),))
            return ("apply", (self.pick(("less", "less_equal", "greater")), "ii"), (near, ("number", 1)))
        name = self.pick(("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"))
        return ("apply", (name, "ii"), (one, other))

    def _leaf(self, kind: str, indices: str) -> Value:
        if kind == "b" and indices and self.rng.random() < 0.3:
            return self._mask(indices)
        fitting = [o for o in self.operands if o.kind == kind and self._accesses(o, indices)]
        if fitting and self.rng.random() < 0.85:
            operand = self.pick(fitting)
            subscripts = self.pick(self._accesses(operand, indices))
            if subscripts and self.rng.random() < 0.1:
                shifts = tuple((i, int(self.rng.integers(-1, 2))) for i in subscripts)
                if any(d for _, d in shifts):
                    return ("or", operand.name, shifts, self.number(kind))
            if subscripts and self.reducing and self.rng.random() < 0.4:
                forms = [self.pick(list(MOVED)) for _ in subscripts]
                if any(form != "{0}" for form in forms):
                    places = zip(forms, subscripts, self.rng.integers(0, 5, len(forms)), strict=True)
                    return ("moved", operand.name, tuple((f, i, int(d)) for f, i, d in places))
            return ("access", operand.name, subscripts)
        others = [o for o in self.operands if o.kind != kind and self._accesses(o, indices)]
        if others and kind != "i" and self.rng.random() < 0.8:
            operand = self.pick(others)
            return self._converted(
                kind, operand.kind, ("access", operand.name, self.pick(self._accesses(operand, indices)))
            )
        if kind == "i" and indices and self.rng.random() < 0.4:
            return ("index", self.pick(indices))
        return ("number", self.number(kind))

    def _converted(self, kind: str, own: str, value: Value) -> Value:
        if kind == "b":
            return ("apply", ("less", own * 2), (("number", self.number(own)), value))
        if own == "b":
            return ("apply", ("where", "bff"), (value, ("number", self.number("f")), ("number", self.number("f"))))
        return ("apply", ("mixed", "if"), (value, ("number", self.number("f"))))

    def number(self, kind: str) -> Any:
        if kind == "b":
            return bool(self.rng.integers(2))
        number = int(self.rng.integers(0, 5))
        return number if kind == "i" else float(number) + float(self.pick((0, 0.5)))

    @staticmethod
    def _accesses(operand: Operand, indices: str) -> list[tuple[str, ...]]:
        rank = len(operand.axes)
        return [
            p
            for p in permutations(indices, rank)
            if all(EXTENT_OF[i] == e for i, e in zip(p, operand.axes, strict=True))
        ]


def _fits(array: Array) -> bool:
    if array.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return bool((np.isnan(array) | np.isinf(array) | (abs(array) < LARGEST)).all())
    return array.dtype.kind == "b" or bool((abs(array) < LARGEST).all())


def alone(value: Value) -> set[str]:
    """The indices that stand alone in a subscript, which says their extent."""
    match value:
        case ("access", _, subscripts):
            return set(subscripts)
        case ("or", _, subscripts, _):
            return {i for i, d in subscripts if not d}
        case ("moved", _, subscripts):
            return {i for form, i, _ in subscripts if form == "{0}"}
        case ("apply", _, arguments):
            return {i for a in arguments for i in alone(a)}
        case ("reduce", _, _, body, _):
            return alone(body)
    return set()


def accessed(value: Value) -> set[str]:
    match value:
        case ("access" | "or" | "moved", tensor, *_):
            return {str(tensor)}
        case ("apply", _, arguments):
            return {t for a in arguments for t in accessed(a)}
        case ("reduce", _, _, body, _):
            return accessed(body)
    return set()


# --- shrinking ----------------------------------------------------------------------------------------


def smaller(value: Value) -> Iterator[Value]:
    """Values in its place, each with less in it; kinds are kept."""
    match value:
        case ("apply", (name, kinds), arguments):
            result = BY_NAME[name, kinds].result
            for kind, argument in zip(kinds, arguments, strict=True):
                if kind == result:
                    yield argument
            for n, argument in enumerate(arguments):
                for one in smaller(argument):
                    yield ("apply", (name, kinds), (*arguments[:n], one, *arguments[n + 1 :]))
                if argument[0] in ("apply", "reduce", "or", "moved", "index"):
                    number: Any = {"f": 2.0, "i": 2, "b": True}[kinds[n]]
                    yield ("apply", (name, kinds), (*arguments[:n], ("number", number), *arguments[n + 1 :]))
        case ("reduce", name, indices, body, condition):
            if condition:
                yield ("reduce", name, indices, body, None)
            for one in smaller(body):
                if set(indices) <= alone(one):
                    yield ("reduce", name, indices, one, condition)


def shrunk(equation: Equation, fails: Callable[[Equation], bool]) -> Equation:
    """The smallest that still fails, by steps."""
    while True:
        for value in smaller(equation.value):
            trial = replace(equation, value=value)
            if fails(trial):
                equation = trial
                break
        else:
            for n, operand in enumerate(equation.operands):
                if operand.layout != "dense" and operand.axes:
                    simple = replace(operand, layout="dense")
                    trial = replace(equation, operands=(*equation.operands[:n], simple, *equation.operands[n + 1 :]))
                    if fails(trial):
                        equation = trial
            return equation

"""Every function of numbers, of every type, over tensors in any layout with any fill value, small and large.

The meaning is numpy's on dense arrays, by functions of numpy that this file names itself: nothing of it is read from
the compiler's table. What numpy leaves to the machine is left out: numbers that do not fit where they are converted to
integers, complex functions of what is not finite, comparisons of rounded numbers; and what is not stored decides a
product, so that products take finite numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

Array = np.ndarray[Any, Any]
Node = tuple[Any, ...]
"""("access", tensor, subscripts), ("number", value), ("apply", function, arguments, whether it is written as a sign),
("reduce", function, index, body)"""

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float32", "float64", "complex64", "complex128")  # fmt: skip
UNARY = """negative positive absolute fabs sign reciprocal square sqrt exp log sin cos tan sinh cosh tanh arcsin arccos
    arctan arcsinh arccosh arctanh exp2 expm1 log2 log10 log1p rint cbrt degrees radians floor ceil trunc round spacing
    bitwise_count invert logical_not isnan isinf isfinite signbit conjugate real imag angle erf""".split()
BINARY = """add subtract multiply divide floor_divide remainder fmod power float_power arctan2 hypot ldexp copysign
    nextafter heaviside logaddexp logaddexp2 maximum minimum fmax fmin gcd lcm bitwise_and bitwise_or bitwise_xor
    left_shift right_shift greater greater_equal less less_equal equal not_equal logical_and logical_or
    logical_xor""".split()
TERNARY = ["where", "clip"]
FUNCTIONS = [*UNARY, *BINARY, *TERNARY, *DTYPES]
SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%",
         "power": "**", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "left_shift": "<<",
         "right_shift": ">>", "greater": ">", "greater_equal": ">=", "less": "<", "less_equal": "<=", "equal": "==",
         "not_equal": "!=", "logical_and": "and", "logical_or": "or"}  # fmt: skip
FINITE = {
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "fmod",
    "power",
    "float_power",
    "square",
}
"""Of which what is not stored decides by convention, or of which infinities are told apart from numpy's by it."""
OF_SIGNS = {"copysign", "signbit", "arctan2", "reciprocal", "divide", "floor_divide", "remainder", "fmod", "angle",
            "float_power", "power", "nextafter"}  # fmt: skip
"""Of which the result tells 0 from -0."""
STEPS = {"sign", "rint", "floor", "ceil", "trunc", "round", "spacing", "floor_divide", "remainder", "fmod", "copysign",
         "nextafter", "heaviside", "gcd", "lcm", "signbit", "logical_not", "logical_and", "logical_or", "logical_xor",
         "where", "isnan", "isinf", "isfinite", "angle", "arctan2", *(n for n, s in SIGNS.items() if s[0] in "<>=!"),
         *DTYPES[:9]}  # fmt: skip
"""Of which a rounded argument may make another result."""
EXACT = {"negative", "positive", "absolute", "fabs", "sign", "rint", "floor", "ceil", "trunc", "round", "conjugate",
         "real", "imag", "maximum", "minimum", "fmax", "fmin", "where", "clip", "copysign", "heaviside", "spacing",
         "nextafter", "floor_divide", "fmod", "float32", "complex64"}  # fmt: skip
REDUCTIONS: Mapping[str, Callable[..., Array]] = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "any": np.any, "all": np.all,
}  # fmt: skip


class Skipped(Exception):
    """What numpy leaves open, or has not."""


@dataclass(frozen=True)
class Operand:
    name: str
    rank: int
    dtype: str
    fill: Any
    layout: str


@dataclass(frozen=True)
class Case:
    """Statements over the same operands."""

    operands: tuple[Operand, ...]
    values: tuple[Node, ...]
    results: tuple[str, ...]
    shape: tuple[int, int]
    tame: bool

    def text(self, which: int) -> str:
        free = "i" if self.values[which][0] == "reduce" else "i, j"
        return f"R{which}[{free}] = {show(self.values[which])}"


# --- text and meaning ------------------------------------------------------------------------------------


def show(node: Node) -> str:
    match node:
        case ("access", tensor, subscripts):
            return f"{tensor}[{', '.join(subscripts)}]"
        case ("number", number):
            return str(number).lower() if isinstance(number, bool) else repr(number)
        case ("apply", name, arguments, as_sign):
            texts = [show(a) for a in arguments]
            return f"({f' {SIGNS[name]} '.join(texts)})" if as_sign else f"{name}({', '.join(texts)})"
        case ("reduce", name, index, body):
            return f"{name}({index}: {show(body)})"
    raise ValueError(node)


@dataclass(frozen=True)
class Found:
    """`exact`: no rounding; `plain`: zeros have the sign that numpy gives them; `single`: something was rounded to
    float32."""

    value: Any
    exact: bool = True
    plain: bool = True
    single: bool = False


def meaning(node: Node, arrays: Mapping[str, Array], shape: tuple[int, int]) -> Found:
    """Raises Skipped."""
    match node:
        case ("access", tensor, subscripts):
            array = arrays[tensor]
            if len(subscripts) == 2:
                return Found(array if subscripts == ("i", "j") else array.T)
            return Found(array[:, None] if subscripts == ("i",) else array[None, :])
        case ("number", number):
            return Found(number)
        case ("apply", name, arguments, _):
            return applied(name, [meaning(a, arrays, shape) for a in arguments])
        case ("reduce", name, _, body):
            inner = meaning(body, arrays, shape)
            found = np.broadcast_to(inner.value, shape)
            if name in ("sum", "prod") and not (np.isfinite(found).all() and found.dtype.kind in "biu"):
                raise Skipped
            if name in ("any", "all", "max", "min") and not (inner.exact and found.dtype.kind != "c"):
                raise Skipped
            if name in ("max", "min") and (not shape[1] or found.dtype == bool):
                raise Skipped
            return Found(REDUCTIONS[name](found, axis=1), inner.exact, False, inner.single)
    raise ValueError(node)


def applied(name: str, arguments: Sequence[Found]) -> Found:
    """What numpy says. Raises Skipped."""
    values = [a.value for a in arguments]
    kinds = [np.asarray(v).dtype.kind for v in values]
    exact = all(a.exact for a in arguments)
    if name in STEPS and not exact:
        raise Skipped
    if (name in FINITE or (name in UNARY and "c" in kinds)) and not all(np.isfinite(v).all() for v in values):
        raise Skipped
    if name in OF_SIGNS and not all(a.plain for a in arguments):
        raise Skipped
    _take(name, values, kinds)
    with np.errstate(all="ignore"):
        found = _computed(name, values)
    if found.dtype.kind not in "biufc" or found.dtype.name not in DTYPES:
        raise Skipped
    if found.dtype.kind == "c" and not np.isfinite(found).all():
        raise Skipped
    if found.dtype.kind in "fc" and name not in EXACT | {"absolute"}:
        exact = False
    if name == "absolute" and "c" in kinds:
        exact = False
    single = any(a.single for a in arguments) or (not exact and found.dtype in (np.float32, np.complex64))
    return Found(found, exact, False, single)


def _take(name: str, values: Sequence[Any], kinds: Sequence[str]) -> None:
    """Raises Skipped for arguments that are not meant."""
    first = np.asarray(values[0])
    if name in ("ldexp", "gcd", "lcm", "left_shift", "right_shift") and "c" in kinds:
        raise Skipped
    if name in DTYPES and not _fits(first, name):
        raise Skipped
    whole = np.result_type(*values).kind in "biu"  # uint64 and int64 meet in float64
    divides = name == "divide" or (name in ("floor_divide", "remainder", "fmod") and not whole)
    if divides and np.any(np.asarray(values[1]) == 0):
        raise Skipped  # a 0 that is not stored is the result, whatever divides it
    if name == "reciprocal" and kinds[0] in "iu" and np.any(first == 0):
        raise Skipped
    if name == "erf" and kinds[0] == "c":
        raise Skipped  # scipy has it, the language has not
    if name == "clip" and kinds[0] == "b":
        raise Skipped  # beside numbers the types of least and greatest are others
    if name in ("clip",) and not bool(np.all(np.asarray(values[1]) <= np.asarray(values[2]))):
        raise Skipped
    if name in ("power",) and kinds[1] in "iu" and kinds[0] in "iu" and np.any(np.asarray(values[1]) < 0):
        raise Skipped  # an error of numpy
    if name in ("power", "float_power") and "c" in kinds:
        raise Skipped  # rounded by several roads
    if name == "ldexp" and np.any(abs(np.asarray(values[1]).astype(float)) > 60):
        raise Skipped
    if name in ("gcd", "lcm") and any(np.any(abs(np.asarray(v).astype(float)) > 1000) for v in values):
        raise Skipped
    if name in ("left_shift", "right_shift") and np.any(np.asarray(values[1]).astype(float) < 0):
        raise Skipped
    if name in ("sin", "cos", "tan", "exp", "sinh", "cosh", "exp2", "expm1") and np.any(
        np.isfinite(first) & (abs(first) > 40)
    ):
        raise Skipped  # rounded arguments
    cuts = ("arccosh", "arcsin", "arccos", "arctanh", "log", "log10", "log2", "log1p", "sqrt")
    if name in cuts and "c" in kinds and np.any(first.imag == 0):
        raise Skipped  # on a cut the sign of a zero decides


def _fits(values: Array, dtype: str) -> bool:
    kind = np.dtype(dtype)
    if values.dtype.kind == "c":
        return kind.kind == "c"
    if kind.kind not in "iu":
        return True
    if not np.isfinite(values).all():
        return False
    info = np.iinfo(kind)
    whole = np.trunc(values.astype(np.float64))
    return bool((whole >= info.min).all() and (whole <= info.max).all() and (abs(whole) < 2.0**52).all())


def _computed(name: str, values: Sequence[Any]) -> Array:
    if name in DTYPES:
        return np.asarray(values[0]).astype(name)
    function = getattr(np, name, None) or getattr(special, name)
    if name == "clip":  # which makes an array of its first argument: a number has a type of its own then
        function = lambda value, least, most: np.minimum(np.maximum(value, least), most)  # noqa: E731
    try:
        found = np.asarray(function(*values))
        if found.dtype == np.float16:  # of small integers: computed in float32
            small = [np.asarray(v).astype(np.float32) if np.asarray(v).dtype.itemsize == 1 else v for v in values]
            found = np.asarray(function(*small))
    except (TypeError, ValueError, OverflowError):
        raise Skipped from None
    return found


# --- growing ---------------------------------------------------------------------------------------------


SPECIAL: Mapping[str, Sequence[Any]] = {
    "b": (False, True),
    "i": (0, 0, 1, -1, 2, 3, -5, 7, 100, "least", "greatest"),
    "u": (0, 0, 1, 2, 3, 7, 100, "greatest"),
    "f": (0.0, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.5, 7.25, 30.0, np.inf, -np.inf, np.nan),
    "c": (0j, 1 + 0j, -1.0 + 0j, 1j, 2 - 1j, -0.5 + 0.25j, 3 + 4j),
}
TAME: Mapping[str, Sequence[Any]] = {
    **SPECIAL,
    "i": (0, 0, 1, -1, 2, 3, -5, 7, 100),
    "u": (0, 0, 1, 2, 3, 7, 100),
    "f": (0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.5, 7.25, 30.0),
}


def element(rng: np.random.Generator, dtype: str, tame: bool) -> Any:
    kind = np.dtype(dtype)
    choices = (TAME if tame else SPECIAL)[kind.kind]
    value = choices[rng.integers(len(choices))]
    if isinstance(value, str):
        value = np.iinfo(kind).min if value == "least" else np.iinfo(kind).max
    return value


def array(rng: np.random.Generator, operand: Operand, shape: Sequence[int], tame: bool) -> Array:
    """Elements that are the fill value, mostly."""
    density = (0.0, 0.1, 0.4, 1.0)[rng.integers(4)]
    found = np.full(shape, operand.fill, dtype=operand.dtype)
    stored = np.flatnonzero(rng.random(found.size) < density)
    pool = np.array([element(rng, operand.dtype, tame) for _ in range(16)], dtype=operand.dtype)
    found.reshape(-1)[stored] = pool[rng.integers(0, len(pool), len(stored))]
    return found


@dataclass
class Grower:
    rng: np.random.Generator
    operands: tuple[Operand, ...]
    arrays: Mapping[str, Array]
    shape: tuple[int, int]

    def pick(self, things: Sequence[Any]) -> Any:
        return things[int(self.rng.integers(len(things)))]

    def value(self, name: str, depth: int) -> Node | None:
        """A value whose outermost function has that name; None where the operands do not suit it."""
        for _ in range(12):
            found = self._apply(name, depth)
            try:
                meaning(found, self.arrays, self.shape)
            except Skipped:
                continue
            return found
        return None

    def _apply(self, name: str, depth: int) -> Node:
        arity = 1 if name in UNARY or name in DTYPES else 3 if name in TERNARY else 2
        arguments = [self._argument(depth - 1) for _ in range(arity)]
        if all(a[0] == "number" for a in arguments):
            arguments[0] = self._leaf()
        return ("apply", name, tuple(arguments), name in SIGNS and bool(self.rng.integers(2)))

    def _argument(self, depth: int) -> Node:
        if depth < 1 or self.rng.random() < 0.3:
            return self._leaf() if self.rng.random() < 0.85 else ("number", self._number())
        return self._apply(self.pick(FUNCTIONS), depth)

    def _leaf(self) -> Node:
        operand = self.pick(self.operands)
        if operand.rank == 2:
            turned = self.shape[0] == self.shape[1] and self.rng.random() < 0.2
            return ("access", operand.name, ("j", "i") if turned else ("i", "j"))
        return ("access", operand.name, ("i",) if operand.name.startswith("u") else ("j",))

    def _number(self) -> Any:
        return self.pick((0, 1, 2, 3, 5, 0.5, 2.0, 1.5, True))


def random_case(seed: int, names: Sequence[str], layouts: Mapping[int, Sequence[str]], large: bool) -> Case | None:
    """A case with a statement for each of the functions that suits its operands."""
    rng = np.random.default_rng(seed)
    low, high = (150, 400) if large else (0, 7)
    rows, columns = (int(n) for n in rng.integers(low, high, 2))
    shape = (rows, rows if rng.random() < 0.4 else columns)
    tame = bool(rng.integers(2))
    operands = []
    for name, rank in (("A", 2), ("B", 2), ("u", 1), ("v", 1)):
        dtype = DTYPES[rng.integers(len(DTYPES))]
        fill = element(rng, dtype, tame) if rng.random() < 0.5 else np.dtype(dtype).type(0).item()
        options = layouts[rank]
        operands.append(Operand(name, rank, dtype, fill, options[rng.integers(len(options))]))
    arrays = _arrays(seed, operands, shape, tame)
    grower = Grower(rng, tuple(operands), arrays, shape)
    values = []
    for name in names:
        found = grower.value(name, 1 + int(rng.integers(3)) // 2)
        if found is not None and rng.random() < 0.15:
            reduced: Node = ("reduce", grower.pick(list(REDUCTIONS)), "j", found)
            try:
                meaning(reduced, arrays, shape)
                found = reduced if uses(found, "j") and uses(found, "i") else found
            except Skipped:
                pass
        if found is not None and (found[0] == "reduce" or (uses(found, "i") and uses(found, "j"))):
            values.append(found)
    if not values:
        return None
    results = tuple("dense" if v[0] == "reduce" else str(grower.pick(("dense", "dense", "csr", "coo"))) for v in values)
    named = {t for v in values for t in tensors(v)}
    return Case(tuple(o for o in operands if o.name in named), tuple(values), results, (shape[0], shape[1]), tame)


def data(seed: int, case: Case) -> dict[str, Array]:
    """The dense arrays of a case."""
    return _arrays(seed, case.operands, case.shape, case.tame)


def _arrays(seed: int, operands: Sequence[Operand], shape: Sequence[int], tame: bool) -> dict[str, Array]:
    """The same for an operand whatever others there are."""
    shapes = {"A": tuple(shape), "B": tuple(shape), "u": (shape[0],), "v": (shape[1],)}
    return {o.name: array(np.random.default_rng([seed, ord(o.name)]), o, shapes[o.name], tame) for o in operands}


def uses(node: Node, index: str) -> bool:
    match node:
        case ("access", _, subscripts):
            return index in subscripts
        case ("apply", _, arguments, _):
            return any(uses(a, index) for a in arguments)
        case ("reduce", _, _, body):
            return uses(body, index)
    return False


def tensors(node: Node) -> set[str]:
    match node:
        case ("access", tensor, _):
            return {tensor}
        case ("apply", _, arguments, _):
            return {t for a in arguments for t in tensors(a)}
        case ("reduce", _, _, body):
            return tensors(body)
    return set()


def alone(case: Case, which: int) -> Case:
    """The case with one of its statements."""
    value = case.values[which]
    own = tuple(o for o in case.operands if o.name in tensors(value))
    return replace(case, operands=own, values=(value,), results=(case.results[which],))

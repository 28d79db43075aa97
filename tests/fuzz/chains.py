"""Random chains of operations on arrays: what spfgen gives of each step, at once and lazily, beside what numpy gives.

A chain is drawn with numpy alone, step by step; a step that numpy refuses is drawn anew. Values are small binary
fractions, so that sums of them have no rounding: what is not exact any more (`exp`, a mean) goes on with steps that
change little where an operand changes little.

Left out is what docs/arrays.md says is otherwise than in numpy: products and quotients of what is not finite, or by 0,
which the fill value decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import spfgen

Array = Any
LAYOUTS = ("csr", "coo", "dcsr", "csc", "bcsr(R=2, C=3)", "ell", "dia", "csf", "csr_unsorted", "dense")
KINDS = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64 float64 complex64 complex128".split()
BOUND = 1e5
"""Binary fractions below it are exact, and so are sums of them in float32."""


@dataclass(frozen=True)
class Value:
    """What numpy has: an array or a number of numpy. `fill` is what it is where no operand stores anything, None where
    it is dense. `slack` is how much it may be off; 0 where it is exact."""

    dense: Array
    fill: Any = None
    slack: float = 0.0

    @property
    def most(self) -> float:
        with np.errstate(all="ignore"):
            finite = np.abs(np.asarray(self.dense, np.complex128))
        finite = finite[np.isfinite(finite)]
        return float(finite.max()) if finite.size else 0.0

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.dense).all()) and (self.fill is None or bool(np.isfinite(self.fill)))

    @property
    def is_dyadic(self) -> bool:
        """Whether sums and products of it have no rounding."""
        if np.asarray(self.dense).dtype.kind in "biu":
            return True
        parts = np.asarray(self.dense).ravel().astype(np.complex128)
        parts = np.concatenate([parts.real, parts.imag]) * 16
        with np.errstate(all="ignore"):
            return bool((np.isfinite(parts) & (np.floor(parts) == parts) & (np.abs(parts) < 16 * BOUND)).all())


@dataclass(frozen=True)
class Step:
    """`call` of the values at `places`, as `text` says it."""

    text: str
    call: Callable[..., Any]
    places: tuple[int, ...]
    wanted: Value


@dataclass
class Chain:
    """Operands, each with its layout, and steps: each appends a value."""

    seed: int
    operands: list[tuple[Array, Array, Any, str]] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def text(self) -> str:
        lines = [
            f"v{k} = {layout} {dense.shape} {dense.dtype} fill {fill!r}"
            for k, (dense, _, fill, layout) in enumerate(self.operands)
        ]
        lines += [f"v{k} = {s.text}" for k, s in enumerate(self.steps, len(self.operands))]
        return "\n".join([f"seed {self.seed}", *lines])


def chain_of(seed: int, large: bool = False) -> Chain:
    random = np.random.default_rng([seed, 50])
    found = Chain(seed)
    shape = (160, 175) if large else tuple(int(n) for n in random.integers(1, 7, 2))
    for _ in range(int(random.integers(1, 4))):
        own = shape if random.random() < 0.8 else shape[::-1] if random.random() < 0.5 else (shape[0], shape[0])
        _add_operand(found, random, own)
    tries = 0
    while len(found.steps) < random.integers(2, 9) and tries < 60:
        tries += 1
        step = _drawn(found, random)
        if step is not None:
            found.steps.append(step)
            found.values.append(step.wanted)
    return found


def _add_operand(chain: Chain, random: np.random.Generator, shape: tuple[int, ...]) -> None:
    kind, layout = np.dtype(str(random.choice(KINDS))), str(random.choice(LAYOUTS))
    special = random.random() < 0.15
    values = random.integers(0 if kind.kind in "ub" else -3, 4, shape).astype(float)
    if kind.kind in "fc":
        values = values / random.choice([1, 2, 4])
        values = np.where(random.random(shape) < 0.05, -0.0, values)
        if special:
            values = np.where(random.random(shape) < 0.05, random.choice([np.nan, np.inf, -np.inf]), values)
    if kind.kind == "c":
        values = values + 1j * random.integers(-2, 3, shape)
    stored = random.random(shape) < (0.9 if shape[0] > 100 else random.choice([0.0, 0.3, 0.7]))
    fill = 0 if random.random() < 0.7 else _fill(kind, random)
    if layout == "dense":
        stored = np.ones(shape, bool)
    if layout == "dia" and shape[0] > 100:
        layout = "csr"
    with np.errstate(all="ignore"):
        dense = np.where(stored, values.astype(kind), np.asarray(fill).astype(kind))
    chain.operands.append((dense, stored, fill, layout))
    chain.values.append(Value(dense, None if layout == "dense" else np.asarray(fill).astype(kind)[()]))


def _fill(kind: np.dtype[Any], random: np.random.Generator) -> Any:
    match kind.kind:
        case "b":
            return True
        case "u":
            return (1, int(np.iinfo(kind).max))[random.integers(2)]
        case "i":
            return (-1, 2, int(np.iinfo(kind).min))[random.integers(3)]
        case "f":
            return float(random.choice([1.0, -2.5, np.inf, np.nan]))
    return 1 + 2j


# --- steps ----------------------------------------------------------------------------------------------------------

EXACT = "negative absolute positive conjugate square sign floor ceil trunc rint logical_not isnan isfinite isinf \
signbit invert fabs".split()
ROUGH = "exp expm1 sin cos sqrt cbrt arctan tanh log1p arcsinh sinc exp2".split()
STEADY = {"negative", "absolute", "positive", "conjugate", "square", "fabs", "sin", "cos", "arctan", "tanh", "arcsinh"}
"""They change little where the operand does."""
BINARY = "add subtract multiply maximum minimum fmax fmin greater greater_equal less less_equal equal not_equal \
logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor divide floor_divide remainder fmod hypot \
left_shift gcd lcm".split()
BINARY_STEADY = {"add", "subtract", "multiply", "maximum", "minimum", "fmax", "fmin"}
SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "greater": ">", "less": "<", "equal": "==",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "remainder": "%", "floor_divide": "//",
}  # fmt: skip
REDUCED = "sum sum sum max min any all mean prod argmax argmin count_nonzero var std".split()
WHERE_FILL_DECIDES = {"multiply", "divide", "floor_divide", "remainder", "fmod"}


def _drawn(chain: Chain, random: np.random.Generator) -> Step | None:
    place = int(random.integers(len(chain.values))) if random.random() < 0.4 else len(chain.values) - 1
    own = chain.values[place]
    if not np.ndim(own.dense) and random.random() < 0.8:
        place = int(random.integers(len(chain.operands)))
        own = chain.values[place]
    makers = (_unary, _binary, _binary, _binary, _reduction, _moved, _moved, _picked, _cast, _joined, _product, _where)
    try:
        with np.errstate(all="ignore"):
            step = makers[random.integers(len(makers))](chain, random, place, own)
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
    if step is None:
        return None
    dense, slack = step.wanted.dense, step.wanted.slack
    if np.asarray(dense).size > 200_000 or np.ndim(dense) > 5 or np.asarray(dense).dtype == np.float16:
        return None
    single = np.asarray(dense).dtype.name in ("float32", "complex64")
    return None if slack > (1e-2 if single else 1e-4) or not np.isfinite(slack) else step


def _eps(dense: Array) -> float:
    return 4e-6 if np.asarray(dense).dtype.name in ("float32", "complex64") else 1e-13


def _rounded(dense: Array, fill: Any, slack: float) -> Value:
    """What was rounded once more."""
    if np.asarray(dense).dtype.kind not in "fc":
        return Value(dense, fill)
    made = Value(dense, fill, slack)
    return replace(made, slack=slack + _eps(dense) * max(1.0, made.most))


def _no_sign(fill: Any) -> Any:
    """The zero of a fill value that is computed has no sign."""
    fill = np.asarray(fill)[()]
    return fill.dtype.type(0) if fill == 0 else fill


def _unary(chain: Chain, random: np.random.Generator, place: int, own: Value) -> Step | None:
    name = str(random.choice(EXACT if random.random() < 0.7 else ROUGH))
    function = getattr(np, name)
    if not isinstance(function, np.ufunc) or (own.slack and name not in STEADY):
        return None
    if name == "signbit" and place >= len(chain.operands) and np.any(np.asarray(own.dense) == 0):
        return None  # what is not stored is not added: a sum of zeros may have another sign
    if name in ROUGH and (own.most > 20 or not own.is_finite):
        return None
    if name in ("cbrt", "log1p", "sqrt") and own.dense.dtype.kind != "c" and np.any(np.asarray(own.dense) < 0):
        return None
    if own.dense.dtype.kind == "c" and name in ("sign", "sqrt", "log1p", "arctan", "arcsinh", "tanh"):
        return None  # branch cuts at zeros with signs
    dense = function(own.dense)
    fill = None if own.fill is None else _no_sign(function(own.fill))
    own_slack = own.slack * (2 * own.most + 1 if name == "square" else 1)
    rough = name in ROUGH or own.slack or (name == "square" and not own.is_dyadic) or own.dense.dtype.kind == "c"
    wanted = _rounded(dense, fill, own_slack) if rough else Value(dense, fill)
    return Step(f"np.{name}(v{place})", function, (place,), wanted)


def _other(chain: Chain, random: np.random.Generator, own: Value) -> tuple[str, Any, int | None, Value] | None:
    """Another operand: (its text, the operand or None, its place, what it is)."""
    choice = random.random()
    if choice < 0.5:
        fitting = [k for k, v in enumerate(chain.values) if _fits(v.dense, own.dense)]
        place = int(random.choice(fitting))
        return f"v{place}", None, place, chain.values[place]
    if choice < 0.75:
        number = [0, 1, 2, 3, -1, 0.5, 2.5, True][random.integers(8)]
        return repr(number), number, None, Value(np.asarray(number)[()])
    if choice < 0.85:
        kind = np.dtype(str(random.choice(KINDS)))
        numpy_number = random.integers(0, 4, ()).astype(kind)[()]
        return f"np.{kind}({numpy_number})", numpy_number, None, Value(numpy_number)
    shape = np.shape(own.dense)
    if not shape:
        return None
    kind = np.dtype(str(random.choice(KINDS)))
    cut = shape[-1:] if random.random() < 0.4 else shape if random.random() < 0.6 else (*shape[:-1], 1)
    array = random.integers(0 if kind.kind in "ub" else -2, 4, cut).astype(kind)
    return f"dense{array.shape} {kind}", array, None, Value(array)


def _fits(one: Array, other: Array) -> bool:
    try:
        return bool(np.prod(np.broadcast_shapes(np.shape(one), np.shape(other))) <= 200_000)
    except ValueError:
        return False


def _binary(chain: Chain, random: np.random.Generator, place: int, own: Value) -> Step | None:
    name = str(random.choice(BINARY))
    given = _other(chain, random, own)
    if given is None:
        return None
    text, constant, second, two = given
    function = getattr(np, name)
    turned = random.random() < 0.3
    if name == "left_shift" and (two.most > 5 or own.most > 5):
        return None
    if (own.slack or two.slack) and (name not in BINARY_STEADY or own.dense.dtype.kind == "c" != name):
        return None
    first, last = (two, own) if turned else (own, two)
    if name in WHERE_FILL_DECIDES:
        if not (own.is_finite and two.is_finite) or _overflows(function, first, last):
            return None
        if name != "multiply" and (np.any(np.asarray(last.dense) == 0) or (last.fill is not None and last.fill == 0)):
            return None
    python = type(constant) in (bool, int, float)
    operands = [v.dense if v is own or not python else constant for v in (first, last)]
    if own is two:
        operands = [own.dense, own.dense]
    with np.errstate(all="ignore"):
        dense = function(*operands)
        fill = _fill_of(function, name, first, last, operands, np.shape(dense))
    slack = own.slack + two.slack
    if name == "multiply":
        slack = own.slack * max(1.0, two.most) + two.slack * max(1.0, own.most)
    kinds = {first.dense.dtype.kind, last.dense.dtype.kind}
    exact = not slack and (name != "multiply" or Value(dense).is_dyadic) and name not in ("hypot", "divide")
    exact = exact and (name not in ("fmod", "remainder", "floor_divide") or (own.is_dyadic and two.is_dyadic))
    if not exact and name in ("floor_divide", "remainder", "fmod"):
        return None
    if "c" in kinds and name in ("maximum", "minimum", "fmax", "fmin") and slack:
        return None
    wanted = Value(dense, fill) if exact else _rounded(dense, fill, slack)
    if constant is None:
        places = (second, place) if turned else (place, second)
        return Step(_said(name, *(f"v{p}" for p in places)), _function(name, random), places, wanted)  # type: ignore[arg-type]
    base = _function(name, random)
    call = (lambda a: base(constant, a)) if turned else (lambda a: base(a, constant))
    return Step(_said(name, *((text, f"v{place}") if turned else (f"v{place}", text))), call, (place,), wanted)


def _said(name: str, *operands: str) -> str:
    return f" {SIGNS[name]} ".join(operands) if name in SIGNS else f"np.{name}({', '.join(operands)})"


def _function(name: str, random: np.random.Generator) -> Callable[..., Any]:
    return getattr(np, name)  # signs call it


def _overflows(function: np.ufunc, first: Value, last: Value) -> bool:
    found = np.asarray(function(first.dense, last.dense))
    return found.dtype.kind in "fc" and not np.isfinite(found).all()


def _fill_of(
    function: np.ufunc, name: str, first: Value, last: Value, operands: list[Any], shape: tuple[int, ...]
) -> Any:
    """The fill of a result: of the fills, or what a fill decides beside a dense operand. None where it is dense."""
    fills = [
        v.fill if v.fill is not None else None if np.ndim(o) else o
        for v, o in zip((first, last), operands, strict=True)
    ]
    if all(f is not None for f in fills):
        return _no_sign(function(*fills))
    return None


def _reduction(chain: Chain, random: np.random.Generator, place: int, own: Value) -> Step | None:
    name = str(random.choice(REDUCED))
    rank = np.ndim(own.dense)
    if not rank:
        return None
    axes: list[Any] = [None, *range(-rank, rank), *([(0, 1), (1, 0)] if rank > 1 else [])]
    axis = axes[random.integers(len(axes))]
    options: dict[str, Any] = {"axis": axis}
    if random.random() < 0.3 and name != "count_nonzero":
        options["keepdims"] = True
    if name in ("argmax", "argmin") and isinstance(axis, tuple):
        return None
    if random.random() < 0.15 and name in ("sum", "prod", "mean"):
        options["dtype"] = str(random.choice(["float64", "int64", "complex128", "float32", "uint8"]))
    if own.slack and name not in ("sum", "max", "min", "mean"):
        return None
    if name in ("var", "std", "mean", "prod") and (not own.is_finite or own.most > 1e6):
        return None
    if own.dense.dtype.kind == "c" and (own.slack or not own.is_finite) and name in ("max", "min"):
        return None
    if not own.is_finite and name in ("sum",) and own.dense.dtype.kind == "c":
        return None
    function = getattr(np, name)
    dense = function(own.dense, **options)
    if np.asarray(dense).dtype == np.float16:
        return None
    count = max(1, own.dense.size // max(1, np.asarray(dense).size))
    slack = own.slack * (count if name == "sum" else 1)
    is_exact = own.is_dyadic and not own.slack
    is_sum = name in ("sum", "prod")
    exact = (is_exact and is_sum and Value(dense).is_dyadic) or (
        not own.slack and not is_sum and name not in ("mean", "var", "std")
    )
    if name == "prod" and not exact and np.asarray(dense).dtype.kind in "fc":
        return None
    if options.get("dtype") == "uint8" and own.dense.dtype.kind in "fc":
        return None
    if np.asarray(dense).dtype.kind not in "fc":
        exact = True
    wanted = Value(dense, None) if exact else _rounded(dense, None, slack + _eps(dense) * own.most * count)
    said = ", ".join(f"{n}={v!r}" for n, v in options.items())
    return Step(f"np.{name}(v{place}, {said})", lambda a: function(a, **options), (place,), wanted)


def _moved(chain: Chain, random: np.random.Generator, place: int, own: Value) -> Step | None:
    shape, rank = np.shape(own.dense), np.ndim(own.dense)
    if not rank:
        return None
    axis = int(random.integers(rank))
    shift = int(random.integers(-3, 4))
    order = tuple(int(k) for k in random.permutation(rank))
    choices: list[tuple[str, Callable[..., Any]]] = [
        ("{}.T", lambda a: a.T),
        (f"np.transpose({{}}, {order})", lambda a: np.transpose(a, order)),
        ("np.reshape({}, -1)", lambda a: np.reshape(a, -1)),
        (f"np.reshape({{}}, {shape[::-1]})", lambda a: np.reshape(a, shape[::-1])),
        (f"np.flip({{}}, {axis})", lambda a: np.flip(a, axis)),
        (f"np.roll({{}}, {shift}, {axis})", lambda a: np.roll(a, shift, axis)),
        (f"np.expand_dims({{}}, {axis})", lambda a: np.expand_dims(a, axis)),
        ("np.squeeze({})", lambda a: np.squeeze(a)),
        (f"np.repeat({{}}, 2, {axis})", lambda a: np.repeat(a, 2, axis)),
        (f"np.broadcast_to({{}}, {(2, *shape)})", lambda a: np.broadcast_to(a, (2, *shape))),
    ]
    if rank == 2:
        choices += [
            (f"np.diagonal({{}}, {shift})", lambda a: np.diagonal(a, shift)),
            (f"np.tril({{}}, {shift})", lambda a: np.tril(a, shift)),
            (f"np.triu({{}}, {shift})", lambda a: np.triu(a, shift)),
            (f"np.pad({{}}, {abs(shift)})", lambda a: np.pad(a, abs(shift))),
        ]
    text, call = choices[random.integers(len(choices))]
    fill = own.fill
    if text.startswith(("np.tril", "np.triu")) and fill is not None:
        fill = np.zeros((), own.dense.dtype)[()]
    dense = call(own.dense)
    wanted = Value(np.asarray(dense)[()] if np.ndim(dense) == 0 else dense, fill if np.ndim(dense) else None, own.slack)
    return Step(text.format(f"v{place}"), call, (place,), wanted)


def _picked(chain: Chain, random: np.random.Generator, place: int, own: Value) -> Step | None:
    shape, rank = np.shape(own.dense), np.ndim(own.dense)
    if not rank:
        return None
    if random.random() < 0.1 and not own.slack:
        mask = random.random(shape) < 0.4
        fill = own.fill
        return Step(f"v{place}[mask]", lambda a: a[mask], (place,), Value(own.dense[mask], fill, own.slack))
    key = tuple(_part(int(n), random) for n in shape[: int(random.integers(1, rank + 1))])
    if random.random() < 0.15:
        key = (..., *key)
    if random.random() < 0.15:
        at = int(random.integers(len(key) + 1))
        key = (*key[:at], None, *key[at:])
    dense = own.dense[key]
    fill = own.fill if np.ndim(dense) else None
    return Step(f"v{place}[{key}]", lambda a: a[key], (place,), Value(dense, fill, own.slack))


def _part(extent: int, random: np.random.Generator) -> Any:
    match random.integers(6):
        case 0:
            return int(random.integers(-extent, extent))
        case 1:
            return [int(k) for k in random.integers(-extent, extent, random.integers(1, 4))]
        case 2:
            return slice(None)
        case 3:
            return slice(None, None, -1)
    low, high = sorted(int(k) for k in random.integers(0, extent + 1, 2))
    return slice(low, high, int(random.integers(1, 3)))


def _cast(chain: Chain, random: np.random.Generator, place: int, own: Value) -> Step | None:
    kind = np.dtype(str(random.choice(KINDS)))
    if own.slack and kind.kind not in "fc":
        return None
    if own.dense.dtype.kind == "c" and kind.kind != "c":
        return None
    if kind.kind in "iu" and own.dense.dtype.kind in "fc":  # C leaves what does not fit to the machine
        low, high = (0, 100)
        values = [own.dense, *([own.fill] if own.fill is not None else [])]
        if any(not bool(np.all((np.asarray(v) >= low) & (np.asarray(v) <= high))) for v in values):
            return None
    dense = own.dense.astype(kind)
    fill = None if own.fill is None else own.fill.astype(kind)
    if not np.ndim(dense):
        return None
    exact = own.is_dyadic and not own.slack
    wanted = Value(dense, fill) if exact or not own.slack else _rounded(dense, fill, own.slack)
    return Step(f"v{place}.astype({kind})", lambda a: a.astype(kind), (place,), wanted)


def _joined(chain: Chain, random: np.random.Generator, place: int, own: Value) -> Step | None:
    rank = np.ndim(own.dense)
    if not rank:
        return None
    axis = int(random.integers(rank))
    second = int(random.integers(len(chain.values)))
    two = chain.values[second]
    name = str(random.choice(["concatenate", "stack"]))
    function = getattr(np, name)
    dense = function([own.dense, two.dense], axis=axis)
    fill = None
    if own.fill is not None and two.fill is not None:
        fills = [v.fill.astype(dense.dtype) for v in (own, two)]
        fill = fills[0] if np.array_equal(*fills, equal_nan=dense.dtype.kind in "fc") else None
    wanted = Value(dense, fill, own.slack + two.slack)
    text = f"np.{name}([v{place}, v{second}], {axis})"
    return Step(text, lambda a, b: function([a, b], axis=axis), (place, second), wanted)


def _product(chain: Chain, random: np.random.Generator, place: int, own: Value) -> Step | None:
    if not np.ndim(own.dense) or not own.is_finite or own.most > 1e3:
        return None
    count = np.shape(own.dense)[-1]
    if random.random() < 0.4:
        kind = np.dtype(str(random.choice(KINDS)))
        array = random.integers(0, 3, count if random.random() < 0.5 else (count, 2)).astype(kind)
        dense = own.dense @ array
        return Step(
            f"v{place} @ dense{array.shape} {kind}",
            lambda a: a @ array,
            (place,),
            _summed(dense, None, own, Value(array)),
        )
    fitting = [
        k for k, v in enumerate(chain.values)
        if np.ndim(v.dense) and np.shape(v.dense)[-2 if np.ndim(v.dense) > 1 else -1] == count
    ]  # fmt: skip
    if not fitting:
        return None
    second = int(random.choice(fitting))
    two = chain.values[second]
    if not two.is_finite or two.most > 1e3 or (own.dense.size * two.dense.size > 10**9):
        return None
    dense = own.dense @ two.dense
    sparse = own.fill is not None and two.fill is not None and own.fill == 0 == two.fill and np.ndim(dense) > 0
    fill = np.asarray(dense).dtype.type(0) if sparse else None
    return Step(f"v{place} @ v{second}", lambda a, b: a @ b, (place, second), _summed(dense, fill, own, two))


def _summed(dense: Array, fill: Any, own: Value, two: Value) -> Value:
    exact = own.is_dyadic and two.is_dyadic and not own.slack and not two.slack and Value(dense).is_dyadic
    if exact or np.asarray(dense).dtype.kind not in "fc":
        return Value(dense, fill)
    count = np.shape(own.dense)[-1]
    slack = count * (own.slack * max(1.0, two.most) + two.slack * max(1.0, own.most))
    return _rounded(dense, fill, slack + _eps(dense) * count * max(1.0, own.most) * max(1.0, two.most))


def _where(chain: Chain, random: np.random.Generator, place: int, own: Value) -> Step | None:
    if own.slack or own.dense.dtype.kind == "c" or not np.ndim(own.dense):
        return None
    given = _other(chain, random, own)
    if given is None:
        return None
    text, constant, second, two = given
    bound = int(random.integers(0, 3))
    if constant is None:
        dense = np.where(own.dense > bound, own.dense, two.dense)
        both = own.fill is not None and two.fill is not None
        fill = np.where(own.fill > bound, own.fill, two.fill)[()] if both else None
        wanted = Value(dense, None if fill is None else _no_sign(fill), two.slack)
        call: Callable[..., Any] = lambda a, b: np.where(a > bound, a, b)  # noqa: E731
        return Step(f"np.where(v{place} > {bound}, v{place}, {text})", call, (place, second), wanted)  # type: ignore[arg-type]
    if np.ndim(constant):
        return None
    dense = np.where(own.dense > bound, own.dense, constant)
    fill = None if own.fill is None else _no_sign(np.where(own.fill > bound, own.fill, constant))
    return Step(
        f"np.where(v{place} > {bound}, v{place}, {text})", lambda a: np.where(a > bound, a, constant), (place,),
        Value(dense, fill),
    )  # fmt: skip


# --- running --------------------------------------------------------------------------------------------------------


def tensors(chain: Chain) -> list[Any]:
    """The operands; stored is what is to be, also where it is the fill value."""
    found = []
    for dense, stored, fill, layout in chain.operands:
        if layout == "dense":
            found.append(spfgen.pack(dense, layout))
            continue
        at = np.nonzero(stored)
        try:
            found.append(spfgen.pack((at, dense[at]), layout, shape=dense.shape, fill=fill))
        except spfgen.SpfgenError:  # a layout that has no place for these
            found.append(spfgen.pack((at, dense[at]), "coo", shape=dense.shape, fill=fill))
    return found


def problem(chain: Chain, lazy: bool) -> str:
    """What is wrong; "" where nothing is. Lazily: of several at once, and of each, as it is computed the first time and
    again, when what was done is remembered."""
    operands: list[Any] = tensors(chain)
    if not lazy:
        return _applied(chain, operands)[1]
    for several in (True, False, False):
        values, report = _applied(chain, [spfgen.asarray(v) for v in operands], look=False)
        if report:
            return report
        first = max(len(operands), len(values) - 2)
        try:
            with np.errstate(all="ignore"):
                made = spfgen.compute(*values[first:]) if several else [spfgen.compute(v)[0] for v in values[first:]]
        except Exception as error:
            return f"compute: {type(error).__name__}: {error}"
        for number, value in enumerate(made, first):
            report = differs(value, chain.steps[number - len(chain.operands)].wanted)
            if report:
                return f"v{number} lazy{'' if several else ', alone'}: {report}"
    return ""


def _applied(chain: Chain, values: list[Any], look: bool = True) -> tuple[list[Any], str]:
    """(the values of all steps, what is wrong): what `look` says is compared on the way."""
    values = [*values]
    for number, step in enumerate(chain.steps, len(values)):
        try:
            with np.errstate(all="ignore"):
                values.append(step.call(*[values[p] for p in step.places]))
        except Exception as error:
            return values, f"v{number}: {type(error).__name__}: {error}"
        report = differs(values[-1], step.wanted) if look else ""
        if report:
            return values, f"v{number}: {report}"
    return values, ""


def differs(found: Any, wanted: Value) -> str:
    dense = np.asarray(wanted.dense)
    got = np.asarray(found)
    if got.shape != dense.shape:
        return f"the shape is {got.shape}, not {dense.shape}"
    if got.dtype != dense.dtype:
        return f"the type is {got.dtype}, not {dense.dtype}"
    if wanted.fill is not None and isinstance(found, spfgen.Tensor) and not _same(found.fill_value, wanted):
        numpy_is = any(b.library == "numpy" for b in found.layout.bindings)
        if not numpy_is:
            return f"the fill is {found.fill_value!r}, not {wanted.fill!r}"
    if wanted.slack:
        close = np.isclose(got, dense, rtol=_eps(dense) * 10, atol=wanted.slack, equal_nan=True)
    elif dense.dtype.kind == "c":
        nans = np.isnan(got) & np.isnan(dense)
        close = nans | (got == dense)
    else:
        close = (got == dense) | ((got != got) & (dense != dense))
    if np.all(close):
        return ""
    at = tuple(int(k) for k in np.argwhere(~np.atleast_1d(close))[0])
    return f"at {at} it is {np.atleast_1d(got)[at]!r}, not {np.atleast_1d(dense)[at]!r} (slack {wanted.slack:.1e})"


def _same(found: Any, wanted: Value) -> bool:
    if wanted.slack:
        return bool(np.isclose(found, wanted.fill, rtol=_eps(found) * 10, atol=wanted.slack, equal_nan=True))
    return bool(found == wanted.fill or (found != found and wanted.fill != wanted.fill))

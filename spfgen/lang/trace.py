"""Functions of Python as functions of the language: called once with symbols, which write down what is computed.

    spfgen.function(lambda x, y: np.maximum(x, 0) - y)

What numpy's functions and Python's signs do to a symbol is a row of the table. What is used twice is computed once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from spfgen.errors import UsageError, a_type
from spfgen.ir import walk
from spfgen.lang import nodes as n
from spfgen.lang.ops import FUNCTIONS, OPERATORS, Operator
from spfgen.lang.types import has_meaning_in_c


def function(
    f: Callable[..., Any],
    nin: int | None = None,
    *,
    name: str | None = None,
    commutative: bool = False,
    associative: bool = False,
    idempotent: bool = False,
    identity: bool | int | float | None = None,
    annihilator: bool | int | float | None = None,
) -> n.Function:
    """A function of `nin` numbers that statements can call under its name.

    It is called once with symbols. Where it depends on values, write `np.where(x > 0, x, 0)`: for `if x > 0`,
    UsageError is raised. Declared properties are checked when it is used.
    """
    if not callable(f):
        raise UsageError(f"expected a function of Python or of numpy, but this is {a_type(f)}")
    called = str(name or getattr(f, "__name__", ""))
    if not called.isidentifier():
        called = "function" if called in ("", "<lambda>") else called.strip("<>")
    parameters = _parameters(f, nin, called)
    symbols = [_Symbol(called, local=p) for p in parameters]
    try:
        traced = f(*symbols)
    except UsageError:
        raise
    except Exception as error:
        message = f"expected a function of numbers in `{called}`, but with names in their place it fails: {error}"
        raise UsageError(message, notes=(_KNOWN,)) from error
    if not isinstance(traced, _Symbol) and not _is_number(traced):
        raise UsageError(
            f"expected a number from `{called}`, but it returns {type(traced).__name__}",
            notes=("a function of the language has one result",),
        )
    operator = Operator(
        *(called, len(parameters), "", 0, "", ""),
        commutative=commutative,
        associative=associative,
        idempotent=idempotent,
        identity=identity,
        annihilators=() if annihilator is None else tuple((k, annihilator) for k in range(len(parameters))),
    )
    return n.Function(called, parameters, _body(traced, parameters), operator)


Functions = tuple[tuple[str, n.Function], ...]


def among(named: Mapping[str, Any]) -> tuple[Functions, dict[str, Any]]:
    """The functions among what is passed by name, those of Python traced, and all else."""
    functions = {k: v for k, v in named.items() if isinstance(v, n.Function) or _is_python(v)}
    traced = ((k, _named(v, k) if isinstance(v, n.Function) else function(v, name=k)) for k, v in functions.items())
    return tuple(traced), {k: v for k, v in named.items() if k not in functions}


def _named(one: n.Function, name: str) -> n.Function:
    return one if one.name == name else replace(one, name=name, operator=replace(one.operator, name=name))


def _is_python(value: Any) -> bool:
    """Whether it is a function of Python, or one of numpy."""
    return inspect.isroutine(value) or type(value).__name__ == "ufunc"


def check_used(functions: Functions, steps: Sequence[Any]) -> None:
    """Raise UsageError for a function that the statements do not call."""
    nodes = (v for s in (steps if functions else ()) for v in walk(s))
    called = {v.function.name for v in nodes if getattr(v, "function", None) is not None}
    for name, one in functions:
        if one.name not in called:
            known = ", ".join(sorted(called)) or "none"
            message = f"expected a function that the statements call, but `{name}` is not one"
            raise UsageError(message, None, (f"functions that they call: {known}",))


def _parameters(f: Callable[..., Any], nin: int | None, called: str) -> tuple[str, ...]:
    try:
        given = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        given = []
    names = [p.name for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty and p.name in names for p in given)
    nin = getattr(f, "nin", needed) if nin is None else nin  # of numpy's functions
    if not nin:
        raise UsageError(
            f"expected the number of arguments of `{called}`, but it cannot be read off it",
            notes=("say it: `spfgen.function(f, 2)`",),
        )
    names = names[:nin] if len(names) >= nin else [f"x{k}" for k in range(nin)]
    return tuple(p if not has_meaning_in_c(p) else f"{p}_" for p in names)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex) or (
        hasattr(value, "dtype") and not getattr(value, "shape", 1)
    )


class _Symbol:
    """A number that is not known yet: a parameter, or an operator of others."""

    __hash__ = object.__hash__

    def __init__(self, owner: str, op: str = "", arguments: Sequence[Any] = (), local: str = "") -> None:
        self.owner, self.op, self.arguments, self.local = owner, op, tuple(arguments), local

    def apply(self, op: str, *arguments: Any) -> Any:
        for argument in arguments:
            if not isinstance(argument, _Symbol) and not _is_number(argument):
                self.refuse(f"`{op}` of {type(argument).__name__}", "its arguments are numbers")
        return _Symbol(self.owner, op, arguments)

    def refuse(self, what: str, hint: str) -> NoReturn:
        raise UsageError(f"expected a function of numbers in `{self.owner}`, but it uses {what}", notes=(hint,))

    # --- numpy -----------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = FUNCTIONS.get(ufunc.__name__)
        if method != "__call__" or options or name is None:
            called = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
            self.refuse(f"numpy.{called}" + (f" with {', '.join(options)}" if options else ""), _KNOWN)
        return self.apply(name, *inputs)

    def __array_function__(self, called: Any, types: Any, arguments: Sequence[Any], options: Any) -> Any:
        name = FUNCTIONS.get(called.__name__)
        if name is None or options or len(arguments) != OPERATORS[name].arity:
            self.refuse(f"numpy.{called.__name__}", _KNOWN)
        return self.apply(name, *arguments)

    # --- what needs the number itself ----------------------------------------------------------------

    def __bool__(self) -> bool:
        self.refuse(
            "a value as a condition (`if`, `while`, `and`, `or`, `not`, `max`, `min`)",
            "use numpy.where, numpy.logical_and, numpy.maximum ..., or write the function in the language",
        )

    def __float__(self) -> float:
        self.refuse("a function of Python's numbers", "use that of numpy, as numpy.sqrt for math.sqrt")

    __int__ = __index__ = __complex__ = __float__

    def __iter__(self) -> Any:
        self.refuse("a value as a sequence", "its arguments are numbers")

    # --- Python's own --------------------------------------------------------------------------------

    def __abs__(self) -> Any:
        return self.apply("absolute", self)

    def __round__(self, digits: int = 0) -> Any:
        if digits:
            self.refuse("round to digits", "round(x) is known")
        return self.apply("round", self)

    def __floor__(self) -> Any:
        return self.apply("floor", self)

    def __ceil__(self) -> Any:
        return self.apply("ceil", self)

    def __trunc__(self) -> Any:
        return self.apply("trunc", self)

    def conjugate(self) -> Any:
        return self.apply("conjugate", self)

    @property
    def real(self) -> Any:
        return self.apply("real", self)

    @property
    def imag(self) -> Any:
        return self.apply("imag", self)

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            self.refuse("pow with a modulus", "write (x ** n) % m")
        return self.apply("power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return self.apply("power", other, self)


_KNOWN = "numpy's functions of single numbers are known, as numpy.hypot"
_SIGNS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
_COMPARED = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
_ALONE = {"neg": "negative", "pos": "positive", "invert": "invert"}


def _define() -> None:
    def two(op: str) -> Callable[[Any, Any], Any]:
        return lambda self, other: self.apply(op, self, other)

    def turned(op: str) -> Callable[[Any, Any], Any]:
        return lambda self, other: self.apply(op, other, self)

    def one(op: str) -> Callable[[Any], Any]:
        return lambda self: self.apply(op, self)

    for word, op in {**_SIGNS, **_COMPARED}.items():
        setattr(_Symbol, f"__{word}__", two(op))
    for word, op in _SIGNS.items():
        setattr(_Symbol, f"__r{word}__", turned(op))
    for word, op in _ALONE.items():
        setattr(_Symbol, f"__{word}__", one(op))


_define()


def _body(result: Any, parameters: Sequence[str]) -> tuple[Any, ...]:
    """The steps: a `let` for what is used more than once."""
    if not isinstance(result, _Symbol):
        return (n.Return(n.Constant(result)),)
    uses: dict[_Symbol, int] = {}
    order: list[_Symbol] = []
    waiting = [(result, False)]
    while waiting:
        symbol, done = waiting.pop()
        if done:
            order.append(symbol)
            continue
        uses[symbol] = uses.get(symbol, 0) + 1
        if uses[symbol] == 1:
            waiting.append((symbol, True))
            waiting += [(a, False) for a in symbol.arguments if isinstance(a, _Symbol)]
    values: dict[_Symbol, Any] = {}
    steps: list[Any] = []
    for symbol in order:
        if symbol.local:
            values[symbol] = n.Local(symbol.local)
            continue
        given = (values[a] if isinstance(a, _Symbol) else n.Constant(a) for a in symbol.arguments)
        values[symbol] = n.Apply(symbol.op, tuple(given))
        if uses[symbol] > 1:
            name = next(m for k in range(len(steps) + 1) if (m := f"t{len(steps) + k}") not in parameters)
            steps.append(n.Let(name, values[symbol]))
            values[symbol] = n.Local(name)
    return (*steps, n.Return(values[result]))

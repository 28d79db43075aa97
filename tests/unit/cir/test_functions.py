"""Functions of the user: what C computes, what is folded while compiling, and numpy give the same."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

from spfgen.cir.lower.files import plain_file
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import loop
from spfgen.cir.tree.check import check
from spfgen.cir.tree.functions import Functions
from spfgen.cir.tree.operators import value
from spfgen.cir.tree.print import print_file
from spfgen.errors import SpecError
from spfgen.lang.fold import called
from spfgen.lang.nodes import Access, Apply, Break, Constant, Function, If, Let, Local, Return, Set, While
from spfgen.lang.ops import Operator
from spfgen.lang.types import TYPES
from spfgen.lang.typing import function_type
from spfgen.run.compile import build, load

a, b, t, x, y, double, s, k = (Local(n) for n in ("a", "b", "t", "x", "y", "double", "s", "k"))


def apply(op: str, *arguments) -> Apply:
    return Apply(op, tuple(v if not isinstance(v, bool | int | float) else Constant(v) for v in arguments))


def function(name: str, parameters: str, *body) -> Function:
    return Function(name, tuple(parameters), body, Operator(name, len(parameters), "", 0, "", ""))


GCD = function(
    *("gcd", "xy"),
    Let("a", apply("absolute", x)),
    Let("b", apply("absolute", y)),
    While(apply("not_equal", a, 0), (Let("t", a), Set("a", "=", apply("remainder", b, a)), Set("b", "=", t))),
    Return(b),
)
HALF = function("half", "x", Let("double", Constant(0.5)), Return(apply("multiply", double, x)))
CHOSEN = function(
    *("int", "xy"),
    If(apply("less", x, y), (Return(apply("sqrt", apply("absolute", x))),), (Set("x", "+=", Constant(1)),)),
    If(apply("equal", x, 3), (Return(Constant(7)),), (Return(apply("add", x, y)),)),
)
CUBES = function(
    *("cubes", "x"),
    Let("s", Constant(0)),
    Let("k", Constant(0)),
    While(
        Constant(True),
        (
            If(apply("greater_equal", k, 5), (Break(),)),
            Set("s", "+=", apply("multiply", x, k)),
            Set("k", "+=", Constant(1)),
        ),
    ),
    Return(s),
)
WIDENS = function("widens", "x", Set("x", "=", apply("divide", x, 2)), Return(x))
BOTH = function(
    *("both", "xy"), Return(Apply("add", (Apply("half", (x,), None, HALF), Apply("gcd", (x, y), None, GCD))))
)
NUMPY = {
    "gcd": lambda x, y: y * 0 + abs(int(y)) if x == 0 else np.gcd(x, y),
    "half": lambda x: 0.5 * x,
    "cubes": lambda x: 10 * x,
    "widens": lambda x: x / 2,
}
CASES = [
    *((GCD, (s, t)) for s, t in itertools.product(("int8", "int64", "uint16"), repeat=2)),
    *((HALF, (s,)) for s in ("float32", "float64", "int8", "complex64")),
    *((CHOSEN, pair) for pair in itertools.product(("int16", "float32", "float64", "uint8"), repeat=2)),
    *((CUBES, (s,)) for s in ("int32", "float32", "float64")),
    *((WIDENS, (s,)) for s in ("int32", "float32")),
    *((BOTH, pair) for pair in (("int8", "int8"), ("float32", "int32"))),
]


@pytest.fixture(scope="module")
def library():
    functions = Functions()
    made = []
    for number, (one, kinds) in enumerate(CASES):
        names = [f"x{n}" for n in range(len(kinds))]
        tree = Apply(one.name, tuple(Access(n, ()) for n in names), None, one)

        def leaf(node, kinds=kinds):
            return c.Load(c.Name(node.tensor), c.Name("i")), TYPES[kinds[int(node.tensor[1:])]]

        found, kind = value(tree, leaf, functions.call)
        params = [c.Param(f"const {TYPES[t].c} *", n) for n, t in zip(names, kinds, strict=True)]
        params += [c.Param(f"{kind.c} *", "result"), c.Param("int64_t", "count")]
        store = c.Assign(c.Load(c.Name("result"), c.Name("i")), "=", found)
        body = c.Block((loop("i", c.Int(0), c.Name("count"), [store]),))
        made.append(c.Function("void", f"f{number}", tuple(params), body))
    file = plain_file([*functions.made, *made], "functions")
    check(file, frozenset(("true", "false")))
    return load(build(print_file(file), optimise=False, extra_flags=("-Wall", "-Wextra", "-Werror")))


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: "-".join([CASES[n][0].name, *CASES[n][1]]))
def test_the_same_as_in_numpy(library, number: int) -> None:
    one, kinds = CASES[number]
    choices = {"u": [0, 1, 3, 6, 200], "i": [0, 1, 2, 3, -4, 100], "f": [0.0, 2.0, -3.5, 1.25], "c": [1 + 2j, -1j]}
    rows = list(itertools.product(*(choices[TYPES[t].kind] for t in kinds)))
    given = [np.array(column, t) for column, t in zip(zip(*rows, strict=True), kinds, strict=True)]
    kind = function_type(one, [TYPES[t] for t in kinds])
    result = np.zeros(len(rows), kind.name)
    call = getattr(library, f"f{number}")
    call.restype, call.argtypes = None, [*[ctypes.c_void_p] * (len(given) + 1), ctypes.c_int64]
    call(*[g.ctypes.data for g in given], result.ctypes.data, len(rows))
    folded = [called(one, [g[r] for g in given]) for r in range(len(rows))]
    assert {f.dtype.name for f in folded} == {kind.name}
    assert np.array_equal(result, np.array(folded))
    wanted = NUMPY.get(one.name)
    if wanted is not None:
        with np.errstate(all="ignore"):
            expected = [wanted(*[g[r] for g in given]) for r in range(len(rows))]
        assert np.array_equal(result, np.array(expected).astype(kind.name))


def test_a_function_without_end() -> None:
    endless = function("endless", "x", While(Constant(True), (Set("x", "+=", Constant(1)),)), Return(x))
    with pytest.raises(SpecError, match="expected `endless` to end"):
        called(endless, [np.int8(1)])

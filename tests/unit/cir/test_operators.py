"""Every operator in C gives what numpy gives, for all types: special values and random ones, in one file of C."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from spfgen.cir.lower.files import plain_file
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import loop
from spfgen.cir.tree.check import check
from spfgen.cir.tree.operators import value
from spfgen.cir.tree.print import print_file
from spfgen.cir.tree.simplify import simplify
from spfgen.errors import SpecError
from spfgen.lang.fold import applied
from spfgen.lang.nodes import Access, Apply, Constant
from spfgen.lang.ops import OPERATORS
from spfgen.lang.types import TYPES, ElementType
from spfgen.lang.typing import _loop, type_of
from spfgen.run.compile import build, find_compiler, load

KNOWN = frozenset(("true", "false"))
WARNINGS = (
    *("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"),
    *("-Wno-unused-parameter", "-Wno-type-limits"),  # of what these cases ask: `imag` of integers, int8 < 300
)
MIXED = [
    *(("add", a, b) for a, b in itertools.permutations(TYPES, 2) if (len(a) + len(b)) % 3 == 0),
    *((op, a, b) for op in ("less", "greater_equal", "equal", "not_equal", "less_equal", "greater", "maximum", "divide")
      for a, b in (("int64", "uint64"), ("uint64", "int8"), ("int8", "uint8"), ("float32", "int32"), ("bool", "int16"),
                   ("complex64", "float64"))),
    *(("ldexp", a, b) for a in ("float32", "float64", "int8", "uint32") for b in ("int8", "int32", "int64", "bool")),
    *((op, a, b) for op in ("power", "floor_divide", "left_shift", "remainder")
      for a, b in (("int8", "uint8"), ("bool", "bool"), ("uint16", "int8"))),
    *(("logical_and", a, b) for a, b in (("float32", "bool"), ("complex64", "uint8"))),
]  # fmt: skip
LITERALS = [
    *(("add", t, k) for t in ("int8", "uint32", "int32", "float32", "complex64") for k in (1, 100)),
    *(("add", t, 0.1) for t in ("int8", "float32", "complex64")),
    *(
        ("less", t, k)
        for t, k in (("int8", 300), ("uint64", -1), ("int64", 2**63), ("uint32", 2**31), ("int32", 2**31))
    ),
    *(("subtract", t, 2**31) for t in ("uint32", "int64", "uint64")),
    *(("power", t, k) for t, k in (("int8", 3), ("float32", 2), ("float64", 0.5), ("complex128", 7), ("int64", -1))),
    *(("multiply", "int32", k) for k in (-(2**31), 2**31 - 1)),
    *(("maximum", t, k) for t, k in (("float32", float("nan")), ("int8", -5), ("float64", float("inf")))),
]
SAME = [
    (o.name, *(t,) * o.arity)
    for o in OPERATORS.values()
    for t in TYPES
    if _loop(o.name, (TYPES[t],) * o.arity) is not None
    and (_loop(o.name, (TYPES[t],) * o.arity).arguments[-1].name == t)
]
WHERE = [("where", "float64", a, b) for a, b in (("int8", "float32"), ("bool", "int64"), ("complex64", "int16"))]
CASTS = [(t, s) for t in TYPES for s in TYPES]
CASES = [*SAME, *MIXED, *LITERALS, *WHERE, *CASTS]


def special(kind: ElementType) -> list:
    floats = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -2.5, 3.5, 1e-320, -7.0, np.inf, -np.inf, np.nan]
    match kind.kind:
        case "b":
            return [False, True]
        case "i" | "u":
            limits = np.iinfo(kind.name)
            found = [0, 1, 2, 3, 5, 7, 8, 31, 63, 64, limits.max, limits.max - 1, limits.min, -1, -2, -3, -7]
            return [v for v in found if limits.min <= v <= limits.max]
        case "f":
            return [*floats, np.finfo(kind.name).max, np.finfo(kind.name).tiny]
    parts = [0.0, -0.0, 1.0, -2.5, np.inf, np.nan]
    return [complex(a, b) for a in parts for b in parts]


def columns(kinds: Sequence[ElementType]) -> list[np.ndarray]:
    """All tuples of special values (for many arguments some), and random ones."""
    rng = random.Random(str(kinds))
    rows = list(itertools.product(*map(special, kinds)))
    rows = rng.sample(rows, min(len(rows), 600))

    def some(kind: ElementType):
        match kind.kind:
            case "b":
                return rng.random() < 0.5
            case "i" | "u":
                limits = np.iinfo(kind.name)
                return max(limits.min, min(limits.max, int(rng.gauss(0, 1) * 10 ** rng.randint(0, 19))))
            case "f":
                return rng.gauss(0, 1) * 10 ** rng.randint(-3, 3)
        return complex(rng.gauss(0, 3), rng.gauss(0, 3))

    rows += [tuple(map(some, kinds)) for _ in range(100)]
    with np.errstate(over="ignore"):
        return [np.array(column, k.name) for column, k in zip(zip(*rows, strict=True), kinds, strict=True)]


@dataclass(frozen=True)
class Case:
    """An operator over arrays and literals."""

    op: str
    arguments: tuple

    @property
    def kinds(self) -> list[ElementType]:
        return [TYPES[a] for a in self.arguments if isinstance(a, str)]

    @property
    def tree(self) -> Apply:
        return Apply(
            self.op, tuple(Access(f"{a}{k}", ()) if isinstance(a, str) else Constant(a) for k, a in self.named)
        )

    @property
    def named(self):
        return list(enumerate(self.arguments))

    def leaf(self, node: Access) -> tuple[c.Expr, ElementType]:
        return c.Load(c.Name(f"x{node.tensor[-1]}"), c.Name("i")), TYPES[node.tensor[:-1]]

    def function(self, name: str) -> c.Function:
        expression, kind = value(self.tree, self.leaf)
        assert kind == type_of(self.tree, lambda a: self.leaf(a)[1])
        params = [c.Param(f"const {TYPES[a].c} *restrict", f"x{k}") for k, a in self.named if isinstance(a, str)]
        params += [c.Param(f"{kind.c} *restrict", "y"), c.Param("int64_t", "n")]
        store = c.Assign(c.Load(c.Name("y"), c.Name("i")), "=", expression)
        body = c.Block((loop("i", c.Int(0), c.Name("n"), [store]),))
        return simplify(c.Function("void", name, tuple(params), body))


def case(row: tuple) -> Case:
    return Case(row[0], row[1:])


@pytest.fixture(scope="module")
def library():
    functions = [case(row).function(f"f{k}") for k, row in enumerate(CASES)]
    file = plain_file(functions, "operators")
    check(file, KNOWN)
    flags = () if "clang" in find_compiler().version else WARNINGS
    return load(build(print_file(file), optimise=False, extra_flags=flags))


def computed(library, k: int, made: Case, given: list[np.ndarray], kind: ElementType) -> np.ndarray:
    import ctypes

    result = np.zeros(len(given[0]), kind.name)
    call = getattr(library, f"f{k}")
    call.restype = None
    call.argtypes = [*[ctypes.c_void_p] * (len(given) + 1), ctypes.c_int64]
    call(*[a.ctypes.data for a in given], result.ctypes.data, len(result))
    return result


def wanted(made: Case, given: list[np.ndarray]) -> np.ndarray:
    arrays = iter(given)
    return np.broadcast_to(
        applied(made.op, [next(arrays) if isinstance(a, str) else a for a in made.arguments]), len(given[0])
    )


def close(found: np.ndarray, expected: np.ndarray, kind: ElementType, ulp: int) -> np.ndarray:
    """Where they are equal (nan is nan), or not further apart than so many last bits."""
    if kind.kind == "c":
        size = np.abs(expected) if ulp else 0
        return part_close(found.real, expected.real, ulp, size) & part_close(found.imag, expected.imag, ulp, size)
    return part_close(found, expected, ulp) if kind.kind == "f" else found == expected


def part_close(found: np.ndarray, expected: np.ndarray, ulp: int, size=0) -> np.ndarray:
    with np.errstate(all="ignore"):
        step = np.spacing(np.maximum(np.abs(expected), size).astype(expected.dtype))
        near = np.abs(found - expected) <= ulp * step
    return (found == expected) | (np.isnan(found) & np.isnan(expected)) | near


def out_of_range(made: Case, given: list[np.ndarray]) -> np.ndarray:
    """Where C leaves it open what a conversion to an integer gives, and numpy too."""
    result = np.zeros(len(given[0]), bool)
    if made.op in TYPES and TYPES[made.op].kind in "iu" and made.kinds[0].kind in "fc":
        with np.errstate(all="ignore"):
            limits, real = np.iinfo(made.op), given[0].real.astype(np.float64)
            result = ~((real > limits.min - 1.0) & (real < float(limits.max)))
    return result


def test_all_operators(library) -> None:
    wrong = []
    for k, row in enumerate(CASES):
        made = case(row)
        given = columns(made.kinds)
        expected = wanted(made, given)
        kind = TYPES[expected.dtype.name]
        found = computed(library, k, made, given, kind)
        how = OPERATORS[made.op].how(kind.kind)
        exact = kind.kind in "biu" or (made.op in EXACT and made.kinds[0].kind != "c")
        same = close(found, expected, kind, 0 if exact else 4) | out_of_range(made, given)
        if not same.all():
            at = np.flatnonzero(~same)
            wrong.append((row, len(at), [a[at[0]] for a in given], found[at[0]], expected[at[0]], how))
    assert not wrong, "\n".join(map(str, wrong))


EXACT = frozenset(
    """add subtract multiply divide negative positive absolute fabs sign square sqrt maximum minimum fmax fmin clip
    where floor ceil trunc rint round floor_divide remainder fmod copysign nextafter heaviside ldexp conjugate real imag
    spacing""".split()
) | frozenset(TYPES)


def test_refused() -> None:
    with pytest.raises(SpecError, match="left_shift"):
        case(("left_shift", "float64", "int8")).function("f")

"""What plans are expected to cost: the formulas, their two readings (Python and C), and who wins."""

from __future__ import annotations

import ctypes
import math
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen import tuning
from spfgen.cir.lower.cost import cost_expr
from spfgen.cir.lower.files import runtime
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.print import print_expr
from spfgen.facts.formula import ONE, ZERO, Bin, Call, Expr, Num, Var, show
from spfgen.ir import walk
from spfgen.plan.analyse.cost import (
    CountedSize,
    Counts,
    _compiled,
    _samples,
    log2,
    mean_ratio,
    names,
    nanoseconds,
    over,
    plus,
    times,
)
from spfgen.plan.analyse.cost import (
    cheapest as cheapest_of,
)
from spfgen.plan.context import context_of
from spfgen.plan.nodes import PLANS, Find, Scan, Versions
from spfgen.run import compile as compiling
from tests.unit.plan.asking import of_kind

N, M, P = Var("A.n"), Var("A.nnz"), Var("x.nnz")
PIECES = ("log2.h", "over.h", "least.h", "most.h")


def value(cost: Expr, **sizes: float) -> float:
    """The formula at these sizes; `__` stands for the point of a name."""
    known = {name.replace("__", "."): number for name, number in sizes.items()}
    wanted = names([cost])
    return _compiled(cost, wanted)(*(known[n] for n in wanted))


# --- formulas ---------------------------------------------------------------------------------------------


def plain(rng: random.Random, depth: int) -> tuple[Expr, Any]:
    """A random formula made by the functions that simplify, and the same as a function of the sizes."""
    kind = rng.randrange(7) if depth else rng.randrange(2)
    if kind == 0:
        number = rng.choice([0, 1, 2, 7, 25])
        return Num(number), lambda s: float(number)
    if kind == 1:
        name = rng.choice([N, M, P])
        return name, lambda s: s[name.name]
    (a, f), (b, g) = plain(rng, depth - 1), plain(rng, depth - 1)
    match kind:
        case 2 | 3:
            return plus(a, b), lambda s: f(s) + g(s)
        case 4:
            return times(a, b), lambda s: f(s) * g(s)
        case 5:
            divisor = rng.choice([N, M, P, Num(3), ONE])
            d = (lambda s: s[divisor.name]) if isinstance(divisor, Var) else (lambda s: float(divisor.value))
            return over(a, divisor), lambda s: f(s) / max(d(s), 1.0)
    return log2(a), lambda s: math.log2(f(s) + 2)


def test_simplifying_keeps_the_value() -> None:
    rng = random.Random(4)
    for _ in range(400):
        cost, meant = plain(rng, 4)
        sizes = {n.name: float(rng.choice([1, 2, 3, 17, 1000, 10**6])) for n in (N, M, P)}
        wanted = names([cost])
        assert _compiled(cost, wanted)(*(sizes[n] for n in wanted)) == pytest.approx(meant(sizes), rel=1e-9), cost


def test_what_is_nothing_and_what_is_one() -> None:
    assert times(N, ZERO, M) == ZERO
    assert times(ONE, N, ONE) == N
    assert times() == ONE
    assert plus() == ZERO
    assert plus(ZERO, N, ZERO) == N
    assert times(Num(3), Num(4)) == Num(12)
    assert plus(Num(3), Num(4)) == Num(7)
    assert times(N, over(M, N)) == M, "n rows of nnz/n elements are nnz elements"
    assert times(over(M, N), N) == M
    assert over(N, N) == ONE
    assert over(ZERO, N) == ZERO
    assert value(nanoseconds(25)) == 2.5
    assert value(nanoseconds(30)) == 3
    assert value(log2(Num(0))) == 1


# --- the two readings ---------------------------------------------------------------------------------------

KERNELS: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "spmspv": ("y[i] = A[i, j]*x[j]", {"A": "csr", "x": "sv", "y": "dense"}, []),
    "dot": ("s = x[i]*y[i]", {"x": "sv", "y": "sv"}, []),
    "list": ("y[i] = A[i, j]*x[j]", {"A": "coo", "x": "sv", "y": "dense"}, []),
    "product": ("C[i, j] = A[i, j]*B[i, j]", {"A": "csr", "B": "csr", "C": "dense"}, []),
    "two finds": ("C[i, j] = A[i, j]*B[i, j]", {"A": "csr", "B": "dcsr", "C": "dense"}, []),
    "columns": ("C[i, j] = A[i, j]*B[i, j]", {"A": "csr", "B": "csc", "C": "dense"}, []),
    "blocks": ("C[i, j] = A[i, j]*B[i, j]", {"A": "bcsr", "B": "bcsr(R=3, C=2)", "C": "dense"}, []),
    "three": ("s = x[i]*A[i, j]*y[j]", {"x": "sv", "A": "csr", "y": "sv"}, []),
    "sparse result": ("C[i, k] = A[i, j]*B[j, k] within C", {"A": "csr", "B": "csr", "C": "csr"}, []),
}


def choices(name: str) -> tuple[spfgen.Kernel, list[tuple[Expr, tuple[str, ...]]]]:
    """The kernel, and the cost and algorithms of each of its variants."""
    text, layouts, order = KERNELS[name]
    kernel = spfgen.compile(text, order=order, **layouts)
    (choose,) = [n for n in of_kind(kernel, Versions) if n.by_cost]
    return kernel, [(v.cost, tuple(n.algorithm for n in walk(v.body) if isinstance(n, Find))) for v in choose.versions]


def compiled(costs: Sequence[Expr]) -> Any:
    """The formulas as C functions f0, f1, ... of all sizes in alphabetical order."""

    class Lowering:
        """As much of it as costs need."""

        def expr(self, expr: Expr, scope: object) -> c.Expr:
            assert isinstance(expr, Var)
            return c.Name(f"s_{names(costs).index(expr.name)}")

    parameters = ", ".join(f"int64_t s_{k}" for k in range(len(names(costs))))
    unused = " ".join(f"(void)s_{k};" for k in range(len(names(costs))))
    functions = [
        f"double f{k}({parameters}) {{ {unused} return {print_expr(cost_expr(cost, Lowering(), None))}; }}"  # type: ignore[arg-type]
        for k, cost in enumerate(costs)
    ]
    pieces = ["#include <stdint.h>", *map(runtime, PIECES), *functions]
    library = compiling.load(compiling.build("\n".join(pieces), optimise=False))
    found = [getattr(library, f"f{k}") for k in range(len(costs))]
    for function in found:
        function.restype = ctypes.c_double
        function.argtypes = [ctypes.c_int64] * len(names(costs))
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", KERNELS)
def test_c_and_python_agree(name: str) -> None:
    """Up to log2, which C takes linear between powers of two: at most 9 percent below."""
    _, variants = choices(name)
    costs = [cost for cost, _ in variants]
    wanted = names(costs)
    in_c = compiled(costs)
    in_python = [_compiled(cost, wanted) for cost in costs]
    rng = random.Random(3)
    agreed = 0
    for k in range(300):
        sizes = [rng.choice([0, 1, 2, 3]) if k < 40 else int(10 ** rng.uniform(0, 9)) for _ in wanted]
        found, meant = [f(*sizes) for f in in_c], [f(*sizes) for f in in_python]
        np.testing.assert_allclose(
            found, meant, rtol=0.1, atol=1e-6, err_msg=f"{dict(zip(wanted, sizes, strict=True))}"
        )
        least = sorted(meant)
        if len(least) > 1 and least[1] > 1.3 * least[0]:
            agreed += 1
            assert min(range(len(found)), key=found.__getitem__) == min(range(len(meant)), key=meant.__getitem__)
    assert agreed > 30 or len(costs) == 1


def test_log2_in_c() -> None:
    (function,) = compiled([Call("log2", (N,))])
    for k in range(60):
        assert function(2**k) == k
    for n in [0, 1, 3, 5, 6, 7, 100, 12345, 10**15 + 1]:
        exact = math.log2(max(n, 1))
        assert exact - 0.09 <= function(n) <= exact + 1e-9


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", KERNELS)
def test_the_variant_that_runs_is_the_cheapest(name: str, tmp_path: Path) -> None:
    """The choice as it stands in the kernel: its statements, compiled alone."""
    kernel, variants = choices(name)
    costs = [cost for cost, _ in variants]
    wanted = names(costs)
    text = kernel.source
    begin = text.index("const double cost_1")
    end = text.index(";", text.index("const int variant")) + 1
    generated = text[begin:end]
    for line in reversed(text[:begin].splitlines()):  # parts of several costs stand before
        declared = re.match(r" +const double (\w+) = .*;$", line)
        if declared and re.search(rf"\b{declared[1]}\b", generated):
            generated = f"{line}\n{generated}"
    sizes = {}
    for line in text[:begin].splitlines():
        if "const int64_t " in line and "->" in line:
            own, _, read = line.strip().removeprefix("const int64_t ").rstrip(";").partition(" = ")
            sizes[own] = read.replace("->", ".")
    used = [n for n in sizes if re.search(rf"\b{n}\b", generated)]
    assert sorted(sizes[n] for n in used) == wanted
    function = f"int chosen({', '.join(f'int64_t {n}' for n in used)}) {{ {generated} return variant; }}"
    pieces = ["#include <stdint.h>", *map(runtime, PIECES), function]
    run = compiling.load(compiling.build("\n".join(pieces), optimise=False)).chosen
    run.argtypes = [ctypes.c_int64] * len(used)
    rng = random.Random(5)
    seen = set()
    for _ in range(400):
        known = {n: int(10 ** rng.uniform(0, 8)) for n in wanted}
        prices = [_compiled(cost, wanted)(*known.values()) for cost in costs]
        number = run(*(known[sizes[n]] for n in used))
        assert 1 <= number <= len(costs)
        assert prices[number - 1] <= 1.2 * min(prices)
        seen.add(number)
    assert len(seen) > 1, "one variant never runs"


# --- who wins -----------------------------------------------------------------------------------------------


def winner(name: str, **sizes: float) -> tuple[str, ...]:
    """The algorithms of the variant that is expected to be the fastest."""
    _, variants = choices(name)
    known = {n.replace("__", "."): v for n, v in sizes.items()}
    assert set(names([c for c, _ in variants])) <= set(known)
    return min(variants, key=lambda v: value(v[0], **{n.replace(".", "__"): s for n, s in known.items()}))[1]


MANY, FEW = 10.0**8, 10.0**3
OBVIOUS = [
    # a table pays when it is asked often, and does not when it has more places than there are questions
    ("spmspv", {"A__ncol": 1e6, "A__nnz": MANY, "x__nnz": 1e5, "A__nrow": 1e6}, {"bitmap", "scatter", "position array"}),  # noqa: E501
    ("spmspv", {"A__ncol": 1e9, "A__nnz": FEW, "x__nnz": 1e5, "A__nrow": 1e2}, {"binary search", "hash map"}),
    ("spmspv", {"A__ncol": 1e7, "A__nnz": 10, "x__nnz": 1e6, "A__nrow": 10}, {"binary search"}),
    # two long vectors of one length are walked through; a short one jumps through a long one
    ("dot", {"x__n": 1e12, "x__nnz": 1e6, "y__nnz": 1e6}, {"sequential iteration", "galloping"}),
    ("dot", {"x__n": 1e12, "x__nnz": 10, "y__nnz": 1e8}, {"galloping", "binary search"}),
    ("columns", {"A__ncol": 1e4, "A__nnz": 1e4, "B__nnz": 1e8, "A__nrow": 1e4}, {"binary search"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "sizes", "expected"), OBVIOUS)
def test_the_obvious_winner(name: str, sizes: dict[str, float], expected: set[str]) -> None:
    assert set(winner(name, **sizes)) <= expected


# --- cheapest -----------------------------------------------------------------------------------------------

LIMIT = 3


def cheapest(costs: list[list[Expr]], stored: dict[str, CountedSize], limit: int = LIMIT) -> list[tuple[int, ...]]:
    return cheapest_of(costs, stored, limit)


STORED = {"A.nnz": CountedSize(("A.n",)), "x.nnz": CountedSize(("A.n",))}


def test_nothing_to_choose() -> None:
    assert cheapest([[N], [M]], STORED) == [(0, 0)]
    assert cheapest([], STORED) == [()]


def test_one_that_is_always_best() -> None:
    assert cheapest([[times(Num(10), N), N, times(Num(3), N)]], STORED) == [(1,)]
    assert cheapest([[plus(N, ONE), N], [M, times(Num(5), M)]], STORED) == [(1, 0)]


def test_each_has_its_sizes() -> None:
    """n*n is best for small n only, so both are made; what is best nowhere is not."""
    crossing = [[times(N, N), times(Num(10000), N), plus(times(N, N), times(Num(10000), N))]]
    assert set(cheapest(crossing, {})) == {(0,), (1,)}


def test_variants_that_are_nearly_as_good_are_not_worth_their_code() -> None:
    close = [[N, plus(Num(2), over(N, Num(2)))]]
    assert tuning.VARIANT_GAIN > 1
    assert len(cheapest(close, {})) == 1
    assert len(cheapest([[N, plus(Num(2), over(N, Num(20)))], [ONE]], {})) <= 2


def test_no_more_than_the_limit() -> None:
    crossing = [[times(Num(10**k), *[N] * (4 - k)) for k in range(5)]]
    for limit in (1, 2, 3):
        assert 1 <= len(cheapest(crossing, {}, limit)) <= limit


def test_several_finds_are_chosen_together() -> None:
    """At every sample the best of each: combinations that are best nowhere are not made."""
    one, two = [times(N, N), times(Num(10000), N)], [times(Num(7), N, N), times(Num(70000), N)]
    assert set(cheapest([one, two], {})) == {(0, 0), (1, 1)}


def test_costs_of_nothing() -> None:
    """A find that is never reached costs nothing however it is done (a fuzzer's program did that)."""
    assert cheapest([[ZERO, N], [N, ZERO]], STORED, 1) == [(0, 1)]
    assert len(cheapest([[ZERO, ZERO]], STORED, 1)) == 1
    nothing = Bin("min", ZERO, M)
    assert len(cheapest([[times(N, nothing), nothing]], STORED)) == 1
    assert cheapest([[plus(N, M), nothing], [M, N]], STORED, 1)[0][0] == 1


def test_samples_are_sizes_that_occur() -> None:
    wanted = ["A.n", "A.nnz", "x.nnz"]
    samples = _samples(wanted, STORED)
    assert len(samples) == tuning.SAMPLED_SIZES
    assert samples == _samples(wanted, STORED), "the same each time"
    for n, nnz, other in samples:
        assert 1 <= n <= 1e8
        assert 1 <= nnz <= n
        assert 1 <= other <= n
    sizes = np.log10(np.array(samples))
    assert sizes[:, 0].max() - sizes[:, 0].min() > 5, "few and many"
    full = sizes[:, 0] - sizes[:, 1]
    assert full.min() < 0.3, "full"
    assert full.max() > 3, "nearly empty"
    assert abs(np.corrcoef(sizes[:, 1], sizes[:, 2])[0, 1]) < 0.95, "one need not be as full as the other"


def test_the_mean_ratio_leaves_out_sizes_with_which_loops_are_empty() -> None:
    """Of a size that is no extent more may be taken away than there is: that is no time less than nothing."""
    shifted = Bin("-", N, Var("s"))
    assert mean_ratio(times(Num(8), shifted), shifted, {}) == pytest.approx(8)
    assert mean_ratio(times(Num(8), Bin("min", N, shifted)), N, {}) > 1 / 8


def test_a_shifted_product_goes_from_row_to_row() -> None:
    kernel = spfgen.parse("kernel k { size s tensor A, B, C : csr  C[i,j] = A[i,k]*B[k-s,j] }").kernels["k"].compile()
    scans = [n.dim for p in kernel.generated.plans for n in walk(p, PLANS) if isinstance(n, Scan)]
    assert scans[0] in ("i", "A.pi")


def test_the_mean_ratio() -> None:
    assert mean_ratio(times(Num(8), N), N, {}) == pytest.approx(8)
    assert mean_ratio(N, times(Num(8), N), {}) == pytest.approx(1 / 8)
    assert mean_ratio(N, N, STORED) == 1


def test_sizes_of_layouts_are_known_as_such() -> None:
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A="csr", x="sv", y="dense")
    stored = context_of(kernel.generated.program).stored
    assert set(stored["A.nnz"].extents) == set(kernel.generated.program.tensor("A").extents)
    assert "A.nrow" not in stored


@pytest.mark.parametrize(
    "fact",
    ["off(c + 1) = off(c) + 8*width(c)", "off(c) + 8*width(c) <= off(c + 1)", "8*width(c) = off(c + 1) - off(c)"],
)
def test_widths_of_which_facts_say_the_total(fact: str) -> None:
    """Not half of the extent that their range allows: threads would start for nothing."""
    text = f"""
    layout chunks(nrow, ncol) {{
        size nch, nval
        relation {{ [c, k, r] -> [i, j] : 0 <= c < nch and 0 <= k < width(c) and 0 <= r < 8 and i = 8*c + r
                    and 0 <= i < nrow and j = col(off(c) + 8*k + r) and 0 <= j < ncol }}
        index width[nch] {{ range 0 <= width(c) <= ncol }}
        index off[nch + 1] {{ range 0 <= off(c) <= nval  property forall c : {fact} }}
        index col[nval] {{ range -1 <= col(p) < ncol }}
        value val[nval] at [off(c) + 8*k + r]
    }}
    kernel mv {{ tensor A : chunks  tensor x, y : dense  y[i] = A[i, j]*x[j] }}
    """
    ((instance,),) = (g.instances for g in spfgen.parse(text).kernels["mv"].compile().generated.program.groups)
    width = next(n for n, call in instance.calls.items() if call.function == "A.width")
    assert show(Counts(instance).typical(Var(width))) == "floor(A.nval/(8*A.nch))"

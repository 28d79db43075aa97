# ruff: noqa: N803, SIM300  (tensors have capital names, and stand where they stand in the statements)
"""How much more work ten times as much is (tests/growth.py): programs that once were quadratic, and those that are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.plan.analyse.growth import excesses
from tests import growth

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A text of one result; the layouts of its tensors; the ranks of its operands, sparse ones as the pattern says;
    what it means; those of its operands that are positions, or true and false."""

    text: str
    layouts: Mapping[str, str]
    ranks: Mapping[str, int]
    expected: Callable[..., Array]
    positions: tuple[str, ...] = ()
    bools: tuple[str, ...] = ()
    fill: float = 0
    sizes: tuple[str, ...] = ()

    def operands(self, scale: growth.Scale) -> dict[str, Array]:
        rng = np.random.default_rng(3)
        result = {}
        for name, rank in self.ranks.items():
            shape = (scale.extent,) * rank
            if name in self.positions:
                result[name] = rng.permutation(scale.extent)
                continue
            made = rng.integers(1, 5, shape).astype(float)
            if self.layouts[name].partition("<")[0] != "dense":
                made = np.where(growth.pattern(shape, scale.used), made, self.fill)
            result[name] = made != 0 if name in self.bools else made
        return result


def counted(case: Case) -> tuple[list[str], list[tuple[int, int]], Any]:
    """What grows too fast, the counts, and the kernel; results are what numpy has."""
    counts = []
    with growth.counting() as count:
        kernel = compiled(case)
        for scale in growth.scales(2):
            dense = case.operands(scale)
            given = {n: spfgen.pack(a, case.layouts[n].partition("<")[0]) for n, a in dense.items()}
            more = {"sizes": dict.fromkeys(case.sizes, scale.extent)} if case.sizes else {}
            work, found = growth.work_of(lambda given=given, more=more: kernel(**given, **more), count)
            counts.append((work, growth.size_of(given) + growth.size_of(found)))
            value = found.to_numpy() if hasattr(found, "to_numpy") else np.asarray(found)
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(value, case.expected(*dense.values()), rtol=1e-12)
    return growth.too_much(counts), counts, kernel


def compiled(case: Case) -> Any:
    if "for " not in case.text:
        return spfgen.compile(case.text, **case.layouts)
    declared = " ".join(f"tensor {n} : {layout}" for n, layout in case.layouts.items())
    return spfgen.parse(f"kernel k {{ {declared} {case.text} }}").kernels["k"].compile()


def product(a: str, b: str, c: str) -> Case:
    layouts = {"A": a, "B": b, "C": c}
    return Case("C[i, j] = A[i, k]*B[k, j]", layouts, {"A": 2, "B": 2}, np.matmul)


BOTH = ("csr", "csc", "dcsr", "dcsc", "coo", "coo_unsorted", "ell", "jds")
PRODUCTS = {f"{a} {b} {c}": product(a, b, c) for a in BOTH for b in BOTH for c in ("csr", "dcsr")}
ONCE_QUADRATIC = ("dcsr dcsr csr", "ell csc csr")


@pytest.mark.parametrize("name", [*ONCE_QUADRATIC])
def test_products_that_were_quadratic(name: str) -> None:
    told, counts, _ = counted(PRODUCTS[name])
    assert not told, counts


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [n for n in PRODUCTS if n not in ONCE_QUADRATIC])
def test_products(name: str) -> None:
    told, counts, _ = counted(PRODUCTS[name])
    assert not told, counts


@pytest.mark.parametrize("layout", ["dcsr", "coo"])
@pytest.mark.exhaustive
def test_a_product_goes_through_no_extent_that_nothing_has(layout: str) -> None:
    """Not even once: 2^40 rows."""
    n, rows = 1 << 40, np.arange(20, dtype=np.int64) << 30
    matrix = spfgen.pack(((rows, rows[::-1].copy()), np.ones(20)), layout, shape=(n, n))
    product = spfgen.compile("C[i, j] = A[i, k]*B[k, j]", A=layout, B=layout, C="dcsr")(A=matrix, B=matrix)
    assert product.nnz == 20


def top(A: Array, most: int) -> Array:
    return np.where(A >= np.sort(A)[:, -most:][:, :1], A, 0)


SPARSE_BY_CHOICE = {
    "choices that agree": (
        "C[i,j] = where(A[i,j] > u[j], A[i,j], 0)", "csr", lambda A, u: np.where(A > u, A, 0),
    ),
    "nested choices": (
        "C[i,j] = where(A[i,j] > u[j], A[i,j], where(A[j,i] > u[i], -A[j,i], 0))", "csr",
        lambda A, u: np.where(A > u, A, np.where(A.T > u[:, None], -A.T, 0)),
    ),
    "within functions": (
        "C[i,j] = abs(max(where(A[i,j] > u[j], A[i,j], 0), 0))*2", "csr", lambda A, u: np.where(A > u, A, 0) * 2,
    ),
    "a mask that multiplies": ("C[i,j] = A[i,j]*(A[i,j] > u[j])", "csr", lambda A, u: A * (A > u)),
    "a sum of choices": (
        "y[i] = sum(j: where(not (A[i,j] <= u[j]), A[i,j], 0))", "dense", lambda A, u: np.where(A > u, A, 0).sum(1),
    ),
    "the rest is a number": ("y[i] = min(j: where(A[i,j] != 0, u[j], 1000))", "dense",
        lambda A, u: np.where(A != 0, u, 1000).min(1)),
    "the rest is a value": ("y[i] = max(j: where(A[i,j] != 0, A[i,j], u[i]))", "dense",
        lambda A, u: np.where(A != 0, A, u[:, None]).max(1)),
    "the rest counts": ("y[i] = sum(j: A[i,j] < u[i])", "dense", lambda A, u: (A < u[:, None]).sum(1)),
    "in a loop": ("for i, j { if A[i,j] > u[j] { C[i,j] = A[i,j] } }", "csr", lambda A, u: np.where(A > u, A, 0)),
    "the largest of each row": (
        "C[i,j] = where(sum(k: A[i,k] > A[i,j]) < 2, A[i,j]*(u[j] != 0), 0)", "csr", lambda A, u: top(A, 2),
    ),
    "the largest, as a product": (
        "C[i,j] = A[i,j]*(sum(k: where(A[i,k] > A[i,j], 1, 0)) < 2)*(u[j] != 0)", "csr", lambda A, u: top(A, 2),
    ),
    "the largest, by loops": (
        """for i { for j { if A[i,j] != 0 { let c = 0  for k { if A[i,k] > A[i,j] { c += 1 } }
        if c < 2 { C[i,j] = A[i,j]*(u[j] != 0) } } } }""", "csr", lambda A, u: top(A, 2),
    ),
}  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SPARSE_BY_CHOICE)
def test_what_is_the_same_wherever_nothing_is_stored(name: str) -> None:
    text, layout, expected = SPARSE_BY_CHOICE[name]
    layouts = {"A": "csr", "u": "dense", "C" if "C[" in text else "y": layout}
    told, counts, _ = counted(Case(text, layouts, {"A": 2, "u": 1}, expected))
    assert not told, counts


def of(text: str, expected: Callable[..., Array], ranks: Mapping[str, int], **more: Any) -> Case:
    """A text with operands of these ranks, `layouts` of all."""
    layouts = more.pop("layouts")
    return Case(text, dict(pair.split(":") for pair in layouts.split()), ranks, expected, **more)


GATHERS = {
    "a quotient of gathers": of(
        "C[a, j] = S[i, a]*R[i, j]/(n[ch[a]]*n[j])",
        lambda s, r, n, ch: s.T @ r / (n[ch][:, None] * n),
        {"S": 2, "R": 2, "n": 1, "ch": 1},
        positions=("ch",),
        layouts="S:csr R:csr n:dense ch:dense<int64> C:dense",
    ),
    "rows that are read": of(
        "C[a, k] = A[q[a], j]*B[j, k]",
        lambda a, b, q: a[q] @ b,
        {"A": 2, "B": 2, "q": 1},
        positions=("q",),
        layouts="A:csr B:csr q:dense<int64> C:csr",
    ),
    "a row that is read, in a loop": of(
        "for r { for j { if A[u[r], j] != 0 { y[r] += A[u[r], j] } } }",
        lambda a, u: a[u].sum(1),
        {"A": 2, "u": 1},
        positions=("u",),
        layouts="A:csr u:dense<int64> y:dense",
    ),
    "a row that a scalar says": of(
        "for r { let h = u[r] for j { if A[h, j] > 2 { y[r] += 1 } } }",
        lambda a, u: (a[u] > 2).sum(1),
        {"A": 2, "u": 1},
        positions=("u",),
        layouts="A:csr u:dense<int64> y:dense",
    ),
}


PERMUTED = {
    "rows and columns": ("B[i, j] = A[p[i], p[j]]", lambda A, p: A[np.ix_(p, p)], ()),
    "columns": ("B[i, j] = A[i, p[j]]", lambda A, p: A[:, p], ()),
    "rows": ("B[i, j] = A[p[i], j]", lambda A, p: A[p], ()),
    "sums": ("y[i] = sum(j: A[p[i], p[j]])", lambda A, p: A[np.ix_(p, p)].sum(1), ()),
    "written": ("B[p[i], p[j]] = A[i, j]", lambda A, p: A[np.ix_(np.argsort(p), np.argsort(p))], ("B.nrow", "B.ncol")),
    "added": ("B[p[i], p[j]] += A[i, j]", lambda A, p: A[np.ix_(np.argsort(p), np.argsort(p))], ("B.nrow", "B.ncol")),
    "columns written": ("B[i, p[j]] = A[i, j]", lambda A, p: A[:, np.argsort(p)], ("B.ncol",)),
    "rows written": ("B[p[i], j] = A[i, j]", lambda A, p: A[np.argsort(p)], ("B.nrow",)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "dcsr"])
@pytest.mark.parametrize("name", PERMUTED)
def test_permutations(name: str, layout: str) -> None:
    text, expected, sizes = PERMUTED[name]
    layouts = {"A": layout, "p": "dense<int64>", **({"y": "dense"} if "y[" in text else {"B": "csr"})}
    case = Case(text, layouts, {"A": 2, "p": 1}, expected, positions=("p",), sizes=sizes)
    told, counts, _ = counted(case)
    assert not told, counts


MASKED = {
    f"{layout} {result}": of(
        "C[i, j] = S[i, j]*sum(k: A[i, k]*B[k, j])",
        lambda s, a, b: s * (a @ b),
        {"S": 2, "A": 2, "B": 2},
        layouts=f"S:{layout} A:dense B:dense C:{result}",
    )
    for layout in ("csr", "coo", "csc")
    for result in ("dense", "csr")
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", MASKED)
def test_a_sum_is_made_where_its_factor_is_stored(name: str) -> None:
    told, counts, _ = counted(MASKED[name])
    assert not told, counts
    assert counts[1][0] < counts[1][1], "not a product of matrices"


@pytest.mark.parametrize("name", GATHERS)
def test_a_gather_does_not_turn_a_loop_dense(name: str) -> None:
    told, counts, _ = counted(GATHERS[name])
    assert not told, counts


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("let h = u[1] for j { if h >= 0 { if A[h, j] != 0 { y[j] = 1 } } }", [0, 0, 0]),  # where it is no row
        ("for j { if A[q[0], j] != 0 { q[0] = 0  y[j] = 1 } }", [1, 1, 0]),  # the loop changes which row
        ("let h = 0 for j { if A[u[h], j] != 0 { h = 2  y[j] = 1 } }", [1, 1, 0]),
    ],
)
def test_a_row_that_the_loop_decides_is_read_there(text: str, value: list[int]) -> None:
    A = np.array([[5.0, 1, 0], [0, 0, 0], [2, 0, 3]])  # noqa: N806
    u = np.array([2, -1, 0], np.int64)
    name = "q" if "q[" in text else "u"
    kernel = spfgen.parse(f"kernel k {{ tensor A : csr  tensor {name} : dense<int64>  tensor y : dense {text} }}")
    found = kernel.kernels["k"].compile()(**{"A": spfgen.pack(A, "csr"), name: u})
    assert np.asarray(found["y"] if isinstance(found, dict) else found).tolist() == value


def test_what_grows_faster_is_said() -> None:
    text = "for j { let t = x[j]  for i { let a = A[i, j]  y[i] += t*a  z[j] += a*x[i] } }"
    declared = "tensor A : csr  tensor x, y, z : dense"
    kernel = spfgen.parse(f"kernel k {{ {declared} {text} }}").kernels["k"].compile()
    (excess,) = excesses(kernel.generated.plans, kernel.generated.program)
    assert (excess.loop, excess.extent, excess.around, excess.sought) == ("i", "A.nrow", ("j",), ("A",))
    assert "grows faster than what is stored" in kernel.explain()
    quick = spfgen.compile("y[i] = A[i, j]*x[j]", A="csr", x="dense", y="dense")
    assert "grows faster" not in quick.explain()


def softmax(a: Array) -> Array:
    rows = (a > -np.inf).any(1)
    made = np.zeros_like(a)
    made[rows] = np.exp(a[rows] - a[rows].max(1, keepdims=True))
    made[rows] /= made[rows].sum(1, keepdims=True)
    return made


ONE_LINE = "P[i, j] = exp(A[i, j] - max(k: A[i, k]))/sum(k: exp(A[i, k] - max(l: A[i, l])))"
STATEMENTS = "m[i] = max(j: A[i, j])  P[i, j] = exp(A[i, j] - m[i])  s[i] = sum(j: P[i, j])  Q[i, j] = P[i, j]/s[i]"


@pytest.mark.parametrize(
    ("text", "layout"),
    [(ONE_LINE, "csr"), (STATEMENTS, "csr"), pytest.param(STATEMENTS, "csc", marks=pytest.mark.exhaustive)],
)
def test_softmax_of_what_is_stored(text: str, layout: str) -> None:
    """Results that share the pattern of an operand lie beside it: nothing is looked for. (By columns and in one line
    the largest of each row is looked for again within the sum.)"""
    more = "" if text == ONE_LINE else "tensor Q : {0} shares A  tensor m, s : dense"
    declared = f"tensor A : {layout} fill -inf  tensor P : {layout} shares A {more.format(layout)}"
    kernel = spfgen.parse(f"kernel k {{ {declared} {text} }}").kernels["k"].compile()
    rng = np.random.default_rng(1)
    a = np.where(rng.random((9, 7)) < 0.4, rng.integers(-3, 4, (9, 7)), -np.inf)
    found = kernel(A=spfgen.pack(a, layout, fill=-np.inf))
    result = found if text == ONE_LINE else found["Q"]
    np.testing.assert_allclose(result.to_numpy(), softmax(a))
    assert not excesses(kernel.generated.plans, kernel.generated.program)
    assert "binary search" not in kernel.explain() or layout != "csr"


ASKED_OUTSIDE = ("y[j] = any(i: f[i] and A[i, j] > 0)", "y[i] = any(j: f[i] and g[i] and A[i, j] > 0)")


@pytest.mark.parametrize("layout", ["csr", "csc", pytest.param("dcsr", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    "text", ["y[j] = any(i: f[i] and A[i, j] > 0)", "y[i] = any(j: f[i] and g[i] and A[i, j] > 0)"]
)
def test_a_condition_that_an_outer_loop_decides_is_asked_there(text: str, layout: str) -> None:
    rng = np.random.default_rng(2)
    a = np.where(rng.random((60, 60)) < 0.5, rng.integers(-3, 4, (60, 60)), 0).astype(float)
    words = {n: rng.random(60) < 0.5 for n in ("f", "g")}
    nothing, works = np.zeros(60, bool), []
    with growth.counting() as count:
        more = {"g": "dense<bool>"} if "g[" in text else {}
        kernel = spfgen.compile(text, A=layout, f="dense<bool>", y="dense<bool>", **more)
        for f in (nothing, ~nothing, words["f"]):
            given = {"A": spfgen.pack(a, layout), "f": f, **{n: words[n] for n in more}}
            work, found = growth.work_of(lambda given=given: kernel(**given), count)
            works.append(work)
            both = f & words["g"] if more else f
            expected = ((a > 0) & both[:, None]).any(0 if text.startswith("y[j]") else 1)
            np.testing.assert_array_equal(np.asarray(found), expected)
    if layout == "csr":
        assert works[0] < works[1] / 4


@pytest.mark.parametrize("text", ["C[i,j] = where(A[i,j] > 2, B[i,j], 0)", "C[i,j] = B[i,j]*(A[i,j] > 2)"])
def test_no_table_is_as_long_as_an_extent_that_no_array_has(text: str) -> None:
    """It would not fit: the rows are short, but there are 2^40 columns."""
    rows, columns = np.array([0, 0, 1, 3]), np.array([5, 2**40 - 1, 7, 2**39])
    given = {n: spfgen.pack(((rows, columns), np.array(v)), "csr", shape=(4, 2**40))
             for n, v in (("A", [3.0, 1, 4, 5]), ("B", [1.0, 2, 3, 4]))}  # fmt: skip
    found = spfgen.evaluate(text, out="csr", prune=True, **given).to_coo()
    assert (found.coords[1].tolist(), found.values.tolist()) == ([5, 7, 2**39], [1, 3, 4])

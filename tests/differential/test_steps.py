# ruff: noqa: N803, E741  (tensors have capital names, as in the statements)
"""Statements and kernels that are more than sums of products, in plain numpy beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array

import spfgen
from spfgen.errors import DataError, SpecError, UsageError

RNG = np.random.default_rng(11)


def sparse(*shape: int, fill: float = 0.0, whole: bool = False) -> np.ndarray[Any, Any]:
    values = RNG.integers(1, 9, shape) if whole else np.round(RNG.normal(size=shape), 2)
    kept = RNG.random(shape) < 0.4
    return np.where(kept, values, np.asarray(fill, values.dtype))


A, B = sparse(6, 7), sparse(6, 7)
A[2] = B[4] = 0
S, T = sparse(6, 6), sparse(6, 6)
I, J = sparse(6, 7, whole=True), sparse(6, 7, whole=True)
W = sparse(6, 7, fill=np.inf)
X, Y = RNG.normal(size=7), RNG.normal(size=6)
BAND = np.where(abs(np.arange(7) - np.arange(6)[:, None]) < 3, np.arange(6)[:, None] / 9, 0)
MASK = RNG.random(6) < 0.5
AT = np.array([3, 1, 1, 0])
GREY = np.array([[3, 40], [17, 16]])

Case = tuple[str, dict[str, Any], dict[str, str], Callable[..., Any]]
EQUATIONS: dict[str, Case] = {
    "exclusive or": (
        "C[i,j] = logical_xor(A[i,j], B[i,j])", {"A": A, "B": B}, {"A": "csr", "B": "csc"}, np.logical_xor,
    ),
    "a comparison that holds of the fill": ("C[i,j] = A[i,j] < 0.5", {"A": A}, {"A": "csr"}, lambda A: A < 0.5),
    "a choice": (
        "C[i,j] = where(A[i,j] > 0, B[i,j], 3)", {"A": A, "B": B}, {"A": "csr", "B": "coo"},
        lambda A, B: np.where(A > 0, B, 3),
    ),
    "shifts": ("C[i,j] = I[i,j] << J[i,j]", {"I": I, "J": J}, {"I": "csr", "J": "dcsr"}, lambda I, J: I << J),
    "an index as a value": (
        "C[i,j] = where(A[i,j] != 0, j + 1, 0)", {"A": A}, {"A": "csc"},
        lambda A: np.where(A != 0, np.arange(1, 8), 0),
    ),
    "three at once": (
        "C[i,j] = (A[i,j] != 0) & (B[i,j] != 0) ^ (A[i,j] > 0.3)", {"A": A, "B": B}, {"A": "csr", "B": "csr"},
        lambda A, B: (A != 0) & (B != 0) ^ (A > 0.3),
    ),
    "the greatest of rows": ("y[i] = max(j: A[i,j])", {"A": A}, {"A": "csr"}, lambda A: A.max(1)),
    "the greatest of columns": ("y[j] = max(i: A[i,j])", {"A": A}, {"A": "csr"}, lambda A: A.max(0)),
    "its place": ("y[i] = argmax(j: A[i,j])", {"A": A}, {"A": "csr"}, lambda A: A.argmax(1)),
    "the place of the least": ("y[j] = argmin(i: A[i,j])", {"A": A}, {"A": "coo_unsorted"}, lambda A: A.argmin(0)),
    "fills that count": ("y[i] = sum(j: cos(A[i,j]))", {"A": A}, {"A": "csr"}, lambda A: np.cos(A).sum(1)),
    "a root of a sum": (
        "y[i] = sqrt(sum(j: A[i,j]*A[i,j]))", {"A": A}, {"A": "csc"}, lambda A: np.sqrt((A * A).sum(1)),
    ),
    "runs": (
        "y[i] = sum(j: sqrt(abs(A[i,j]))) + max(j: A[i,j])", {"A": np.repeat(A, 3, axis=1)}, {"A": "csr_rle"},
        lambda A: np.sqrt(abs(A)).sum(1) + A.max(1),
    ),
    "a question that is settled early": (
        "y[i] = any(j: A[i,j] > 0.1)", {"A": A}, {"A": "csr"}, lambda A: (A > 0.1).any(1),
    ),
    "a semiring with a mask": (
        "y[i] = where(m[i], 0, min(j: W[i,j] + x[j]))", {"W": W, "x": X, "m": MASK}, {"W": "csr fill inf"},
        lambda W, x, m: np.where(m, 0, (W + x).min(1)),
    ),
    "an update by a function": (
        "D[i] min= d[j] + W[i,j]", {"D": np.full(6, 0.5), "d": X, "W": W}, {"W": "csr fill inf"},
        lambda D, d, W: np.minimum(D, (W + d).min(1)),
    ),
    "a slice": ("C[i,j] = A[i(1:5:2), j(2:6:2)]", {"A": A}, {"A": "csr"}, lambda A: A[1:5:2, 2:6:2]),
    "a slice downwards": ("y[i] = x[i(::-1)]", {"x": X}, {}, lambda x: x[::-1]),
    "a whole matrix in a row": ("c[k] = collapse(A[i,j], (i,j) -> k)", {"A": A}, {"A": "csr"}, np.ravel),
    "by columns": ("c[k] = collapse(A[i,j], (j,i) -> k)", {"A": A}, {"A": "csr"}, lambda A: A.T.ravel()),
    "an outer product in a row": (
        "c[k] = collapse(a[i]*b[j], (i,j) -> k)", {"a": A[0], "b": B[1]}, {"a": "sv", "b": "sv"},
        lambda a, b: np.outer(a, b).ravel(),
    ),
    "one above the other": (
        "C[l,j] = concat((A[i,j], B[k,j]), (i,k) -> l)", {"A": A, "B": B}, {"A": "csr", "B": "coo"},
        lambda A, B: np.vstack([A, B]),
    ),
    "and times a vector": (
        "y[l] = sum(k: concat((A[i,k], B[j,k]), (i,j) -> l)*x[k])", {"A": A, "B": B, "x": X}, {"A": "csr", "B": "csr"},
        lambda A, B, x: np.vstack([A, B]) @ x,
    ),
    "what lies outside": (
        "y[i] = coalesce(x[i-1], 1) + x[i]", {"x": X}, {}, lambda x: np.r_[1, x[:-1]] + x,
    ),
    "a gather": ("y[i] = x[at[i]]", {"x": X, "at": AT}, {}, lambda x, at: x[at]),
    "a histogram": (
        "h[g[r,c]/16] += 1", {"g": GREY, "h": np.zeros(3, int)}, {}, lambda g, h: np.bincount(g.ravel() // 16),
    ),
    "a merge of positions that are the index": (
        "y[i] = sum(j: where(A[i,j] > 0.3, 1, sqrt(B[i,j])))",
        {"A": BAND, "B": abs(B)}, {"A": "row_interval", "B": "csr"},
        lambda A, B: np.where(A > 0.3, 1, np.sqrt(B)).sum(1),
    ),
    "the target before the statement": ("x[i(::2)] = x[i(1::2)]", {"x": X[:4]}, {}, lambda x: x[[1, 1, 3, 3]]),
}  # fmt: skip


def packed(operands: dict[str, Any], layouts: dict[str, str]) -> dict[str, Any]:
    return {n: spfgen.pack(v, layouts[n]) if n in layouts else v.copy() for n, v in operands.items()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("case", EQUATIONS)
def test_equations(case: str, level: int) -> None:
    text, operands, layouts, meaning = EQUATIONS[case]
    names = {t.split("[")[0].strip() for t in text.replace("(", " ").replace(",", " ").split() if "[" in t}
    dense = dict.fromkeys([*names, *operands], "dense")
    known = {n: layouts.get(n, d) for n, d in dense.items() if n.isidentifier()}
    kernel = spfgen.compile(text, optimize=level, **known)
    found = kernel(**packed(operands, layouts))
    expected = np.asarray(meaning(**operands) if isinstance(meaning, type(lambda: 0)) else meaning(*operands.values()))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape


def first_of_all(found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The first column, from 1 on, in the first row that has any; 0 in the other rows."""
    at = np.argwhere(found)[0]
    return np.where(np.arange(len(found)) == at[0], at[1] + 1, 0)


def several_roots(A: np.ndarray[Any, Any], x: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    for _ in range(count):
        x = np.sqrt(A @ x)
    return x


KERNELS: dict[str, Case] = {
    "a loop that a sum decides on": (
        """tensor A : csr  tensor x : sv  tensor B, C : dense
        for i { let s = sum(j: A[i,j]*x[j])  if s != 0 { for k { C[i,k] = s*B[i,k] } } }""",
        {"A": A, "x": A[0], "B": B}, {"A": "csr", "x": "sv"},
        lambda A, x, B: {"C": np.where((A @ x != 0)[:, None], (A @ x)[:, None] * B, 0)},
    ),
    "columns in a workspace": (
        """tensor A, B : csc  tensor C : dense  local tensor w : sv_unsorted
        for j { w[i] = 0  for k, i { w[i] += A[i,k]*B[k,j] }  for i { C[i,j] = w[i] } }""",
        {"A": S, "B": T}, {"A": "csc", "B": "csc"}, lambda A, B: {"C": A @ B},
    ),
    "the first one": (
        """tensor A : csr  tensor f : dense<int64>
        for i { let first = -1  for j { if A[i,j] > 0.3 { first = j  break } }  f[i] = first }""",
        {"A": A}, {"A": "csr"},
        lambda A: {"f": np.array([next((j for j in range(7) if r[j] > 0.3), -1) for r in A])},
    ),
    "the first one of all": (
        """tensor A : csr  tensor f : dense<int64>
        for i, j { if A[i,j] > 0.3 { f[i] = j + 1  break } }""",
        {"A": A}, {"A": "csr"}, lambda A: {"f": first_of_all(A > 0.3)},
    ),
    "while": (
        """tensor x, y : dense
        for i { let c = 0  let v = abs(x[i]) + 1  while v < 100 { v = v*2  c += 1 }  y[i] = c }""",
        {"x": X}, {}, lambda x: {"y": np.ceil(np.log2(100 / (abs(x) + 1))).astype(int)},
    ),
    "again and again, by columns": (
        """tensor A : csc  tensor x, y : dense
        let n = 0  while n < 3 { y[i] = sqrt(sum(j: A[i,j]*x[j]))  x[i] = y[i]  n += 1 }""",
        {"A": abs(S), "x": np.ones(6)}, {"A": "csc"}, lambda A, x: {"y": several_roots(A, x, 3)},
    ),
    "a loop whose iterations read their own columns": (
        """tensor x : dense
        for i { for l, j { x[l,i] min= x[j,i] } }""",
        {"x": S.copy()}, {}, lambda x: {"x": np.broadcast_to(x.min(0), x.shape)},
    ),
    "a loop that ends what was read before it": (
        """tensor A : csr  tensor y : dense
        for j { let n = 0  for i { y[i] += n*A[i,j] + 1 }  while n < 3 { n += 1 } }""",
        {"A": A}, {"A": "csr"}, lambda A: {"y": np.full(6, 7.0)},
    ),
    "a merge within one": (
        """tensor A, B : csr  tensor y : dense
        for k { for j, i { if A[i,j] != B[k,j] { y[k] += min(l: A[i,l]) } } }""",
        {"A": S, "B": T}, {"A": "csr", "B": "csr"},
        lambda A, B: {"y": ((A[:, None] != B[None]).sum(2) * A.min(1)[:, None]).sum(0)},
    ),
    "a sparse result again and again": (
        """tensor A, B : csr  tensor x : dense
        let n = 0  while n < 3 { B[i,k] = sqrt(sum(j: A[i,j]*A[j,k]))*x[i]  x[i] = x[i] + 1  n += 1 }""",
        {"A": abs(S), "x": abs(Y)}, {"A": "csr"}, lambda A, x: {"B": np.sqrt(A @ A)*(x + 2)[:, None]},
    ),
    "edges that are relaxed": (
        """tensor A : csc fill inf  tensor d, e : dense  tensor f, g : dense<bool>
        for j { if f[j] { for i { let n = d[j] + A[i,j]  e[i] min= n  g[i] or= n < d[i] } } }""",
        {"A": W[:, :6], "d": abs(Y), "e": abs(Y), "f": MASK, "g": np.zeros(6, bool)}, {"A": "csc fill inf"},
        lambda A, d, e, f, g: {
            "e": np.minimum(e, np.where(f, d + A, np.inf).min(1)),
            "g": (np.where(f, d + A, np.inf) < d[:, None]).any(1),
        },
    ),
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("case", KERNELS)
def test_kernels(case: str, level: int) -> None:
    text, operands, layouts, meaning = KERNELS[case]
    kernel = spfgen.parse(f"kernel k {{ {text} }}").kernels["k"].compile(optimize=level)
    found = kernel(**packed(operands, layouts))
    for name, expected in meaning(**operands).items():
        result = found[name] if isinstance(found, dict) else found
        dense = result.to_numpy() if hasattr(result, "to_numpy") else result
        np.testing.assert_allclose(dense, expected, rtol=1e-12)


def test_functions_of_the_user() -> None:
    text = """function divisor(x, y) {
        let a = abs(x)  let b = abs(y)
        while b != 0 { let t = a % b  a = b  b = t }
        return a
    }
    kernel k { tensor P, Q : csr<int64>  tensor C : dense<int64>  C[i,j] = divisor(P[i,j], Q[i,j]) }"""
    kernel = spfgen.parse(text).kernels["k"].compile()
    np.testing.assert_array_equal(kernel(P=spfgen.pack(I, "csr"), Q=spfgen.pack(J, "csr")), np.gcd(I, J))


def test_coordinates_that_are_stored_several_times() -> None:
    rows, columns = RNG.integers(0, 5, 30), RNG.integers(0, 6, 30)
    values = np.round(RNG.normal(size=30), 1)
    dense = np.zeros((5, 6))
    np.add.at(dense, (rows, columns), values)
    tensor = coo_array((values, (rows, columns)), shape=(5, 6))
    for text, expected in (
        ("C[i,j] = sqrt(abs(A[i,j]))", np.sqrt(abs(dense))),
        ("C[i] = max(j: A[i,j])", dense.max(1)),
        ("C[i,j] = where(B[i,j] > 0, A[i,j], 1)", np.where(np.eye(5, 6) > 0, dense, 1)),
    ):
        operands = {"A": tensor, **({"B": np.eye(5, 6)} if "B" in text else {})}
        np.testing.assert_allclose(spfgen.evaluate(text, **operands), expected, atol=1e-12)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["sv_unsorted", "sv", "dense"])
def test_a_place_that_only_one_entry_writes(layout: str) -> None:
    """The neighbour on the right counts at the first place alone: all iterations of that loop have one place."""
    for x in (np.array([5.0, 7, 0, 2]), np.array([5.0]), np.zeros(0)):
        kernel = spfgen.compile("y[i] = coalesce(x[i - 1], x[i + 1], 0)", x=layout, y="dense")
        y = np.asarray(kernel(x=spfgen.pack(x, layout), y=np.full(x.size, -1.0)))
        wanted = [x[i - 1] if i else (x[1] if x.size > 1 else 0) for i in range(x.size)]
        assert np.array_equal(y, wanted)


@pytest.mark.parametrize("at", [[3, 7], [0, -1]])
def test_places_outside_are_refused(at: list[int]) -> None:
    kernel = spfgen.compile("y[i] = x[at[i]]", x="dense", at="dense", y="dense")
    with pytest.raises(DataError, match="subscripts"):
        kernel(x=X, at=np.array(at))


def test_the_choice_goes_with_the_property() -> None:
    """A lookup is by binary search where the indices are sorted, in a hash table where they are not."""
    text = "C[i,j] = where(A[i,j] > 0, B[i,j], A[i,j])"
    sorted_ = spfgen.compile(text, A="csr", B="csr", C="dense").explain()
    unsorted = spfgen.compile(text, A="csr", B="csr_unsorted", C="dense").explain()
    assert "by binary search" in sorted_
    assert "hash table" not in sorted_
    assert "hash table" in unsorted or "plain loop" in unsorted
    assert "by binary search" not in unsorted


SLICED = {
    "rows": ("1:7", "", "2:8", ""),
    "windows": ("2:6", "1:7", "3:7", "3:9"),
    "strides": ("0:8:2", "1:10:3", "1:9:2", "0:9:3"),
    "strides that reach the end": ("::3", "::4", "::3", "::4"),
    "the last ones": ("-3:", "-4:", "-3:", "2:6"),
    "of whole rows": ("", "1:", "", ":-1"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SLICED)
@pytest.mark.parametrize("operator", ["+", "max"])
def test_slices_are_merged(name: str, operator: str) -> None:
    """Moved coordinates are in order, too; what is outside is passed over, and rows that are outside are empty."""
    rng = np.random.default_rng(17)
    a, b = (np.where(rng.random((8, 10)) < 0.5, rng.integers(-5, 5, (8, 10)), 0) * 1.0 for _ in range(2))
    own = [f"{index}({part})" if part else index for index, part in zip("ijij", SLICED[name], strict=True)]
    first, second = f"A[{own[0]}, {own[1]}]", f"B[{own[2]}, {own[3]}]"
    text = f"C[i, j] = {first} + {second}" if operator == "+" else f"C[i, j] = max({first}, {second})"
    parts = [slice(*(int(n) if n else None for n in p.split(":"))) if p else slice(None) for p in SLICED[name]]
    x, y = a[parts[0], parts[1]], b[parts[2], parts[3]]
    for out in ("csr", "dense"):
        kernel = spfgen.compile(text, A="csr", B="csr", C=out)
        assert "they are merged" in kernel.explain()
        found = kernel(A=spfgen.pack(a, "csr"), B=spfgen.pack(b, "csr"))
        wanted = x + y if operator == "+" else np.maximum(x, y)
        np.testing.assert_array_equal(found.to_numpy() if out == "csr" else found, wanted)
    assert "they are merged" not in spfgen.compile(text, A="csr", B="csr_unsorted", C="dense").explain()


TWO_ROWS = {
    "equal": ([1, 3, 4], [1, 3, 4]),
    "apart": ([0, 2], [5, 7]),
    "one ends first": ([0, 6, 7], [0, 1, 2]),
    "in turn": ([0, 2, 4, 6], [1, 3, 5, 7]),
    "one empty": ([], [0, 3, 7]),
    "the other empty": ([4], []),
    "both empty": ([], []),
}


COLUMN = np.arange(8)
MERGES: dict[str, Callable[..., Any]] = {
    "C[i, j] = A[i, j] + B[i, j]": lambda a, b: a + b,
    "C[i, j] = max(A[i, j], -B[i, j]) where j >= 2 and j < 6": (
        lambda a, b: np.where((COLUMN >= 2) & (COLUMN < 6), np.maximum(a, -b), 0)
    ),
    "C[i, j] = where(A[i, j] > B[i, j], A[i, j], 2*B[i, j])": lambda a, b: np.where(a > b, a, 2 * b),
    "C[i, j] = abs(A[i, j])*max(A[i, j], B[i, j])*A[i, j] - sqrt(abs(B[i, j]))*min(A[i, j], B[i, j])*abs(B[i, j])": (
        lambda a, b: abs(a) * np.maximum(a, b) * a - np.sqrt(abs(b)) * np.minimum(a, b) * abs(b)
    ),
    "C[i, j] = max(r: max(A[i, j], B[i, j])*x[r])": lambda a, b, x: (np.maximum(a, b)[..., None] * x).max(-1),
}


@pytest.mark.parametrize("text", MERGES)
@pytest.mark.sampled(3)
def test_two_rows_are_merged_however_they_lie(text: str) -> None:
    """Little is done at each point, or much, or a loop stands there: the cases are written out, or are not."""
    one, other = np.zeros((2, len(TWO_ROWS), 8))
    for row, (first, second) in enumerate(TWO_ROWS.values()):
        one[row, first], other[row, second] = np.arange(len(first)) + 1.5, -np.arange(len(second)) - 0.5
    given = {"A": one, "B": other, "x": np.array([-1.0, 2.0])}
    given = {name: array for name, array in given.items() if f"{name}[" in text}
    wanted = MERGES[text](*given.values())
    for out in ("csr", "dense"):
        kernel = spfgen.compile(text, A="csr", B="csr", C=out, **({"x": "dense"} if "x" in given else {}))
        assert out == "dense" or "x" in given or "they are merged" in kernel.explain()
        found = kernel(**{k: spfgen.pack(v, "csr") if v.ndim == 2 else v for k, v in given.items()})
        np.testing.assert_array_equal(found.to_numpy() if out == "csr" else found, wanted)


@pytest.mark.parametrize("layout", ["csr_rle", "vbl"])
@pytest.mark.parametrize("out", ["csr_rle", "dense"])
def test_rows_of_intervals_above_and_below_are_merged(layout: str, out: str) -> None:
    """A row outside of the tensor has no intervals. What is constant along an interval is stored once."""
    rng = np.random.default_rng(8)
    a = np.repeat(rng.integers(0, 3, (6, 5)), 4, axis=1) * 1.0
    a[2] = 0
    kernel = spfgen.compile("c[i, j] = max(a[i, j], max(a[i + 1, j], a[i - 2, j + 1]))", a=layout, c=out)
    assert "they are merged" in kernel.explain()
    b = np.pad(a, ((2, 1), (0, 1)))
    wanted = np.maximum(a, np.maximum(b[3:, :-1], b[:-3, 1:]))
    found = kernel(a=spfgen.pack(a, layout))
    np.testing.assert_array_equal(found if out == "dense" else found.to_numpy(), wanted)
    if out == layout:
        assert found.arrays["val"].size <= 6 * 11  # and not 6 * 20


def test_a_slice_that_runs_down_is_not_merged() -> None:
    text = "c[i] = a[i(::-1)] + b[i]"
    kernel = spfgen.compile(text, a="sv", b="sv", c="dense")
    assert "they are merged" not in kernel.explain()
    a, b = np.array([1.0, 0, 2, 3]), np.array([0.0, 4, 5, 0])
    np.testing.assert_array_equal(kernel(a=spfgen.pack(a, "sv"), b=spfgen.pack(b, "sv")), a[::-1] + b)


def test_merges_go_with_the_order() -> None:
    """Rows that are proved to be sorted are merged, others are looked for one in the other."""
    text = "C[i,j] = maximum(A[i,j], B[i,j])"
    assert "merged" in spfgen.compile(text, A="csr", B="csr", C="csr").explain()
    for layout in ("csr_unsorted", "csc"):
        assert "merged" not in spfgen.compile(text, A="csr", B=layout, C="csr").explain()


STREAMS: dict[str, tuple[str, Callable[..., np.ndarray[Any, Any]]]] = {
    "shifted": ("C[i,j] = maximum(A[i,j], A[i,j+1])", lambda a, b: np.maximum(a, np.pad(a[:, 1:], ((0, 0), (0, 1))))),
    "shifted and left out": ("C[i,j] = minimum(A[i,j(:-1)], B[i,j(1:)])", lambda a, b: np.minimum(a[:, :-1], b[:, 1:])),
    "one in two": ("C[i,j] = maximum(A[i,j(::2)], B[i,j(1::2)])", lambda a, b: np.maximum(a[:, ::2], b[:, 1::2])),
    "backwards": ("C[i,j] = maximum(A[i,j(::-1)], B[i,j])", lambda a, b: np.maximum(a[:, ::-1], b)),
    "side by side": ("C[i,j] = maximum(A[i,j], B[i,j])", np.maximum),
    "three": ("C[i,j] = maximum(A[i,j], maximum(B[i,j], A[i,j+2]))", lambda a, b: np.maximum(
        np.maximum(a, b), np.pad(a[:, 2:], ((0, 0), (0, 2))))),
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("layouts", ["csr csr", "bcsr(R=2,C=2) csr", "vbl bcsr(R=1,C=3)", "csr_rle vbl", "dcsr csf"])
@pytest.mark.parametrize("case", STREAMS)
def test_streams(case: str, layouts: str, level: int) -> None:
    """Rows of entries, blocks and runs that advance together, also where a slice moves them or leaves some out."""
    text, meaning = STREAMS[case]
    a, b = sparse(6, 8, whole=True), sparse(6, 8, whole=True)
    a[:, 5] = b[1] = a[3] = 0
    names = dict(zip("AB", layouts.split(), strict=True))
    names = {n: layout for n, layout in names.items() if n in text}
    kernel = spfgen.compile(text, C="dense", optimize=level, **names)
    found = kernel(**{n: spfgen.pack({"A": a, "B": b}[n].astype(float), layout) for n, layout in names.items()})
    np.testing.assert_array_equal(found, meaning(a, b))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("case", "merges"), [(c, c != "backwards") for c in STREAMS])
def test_which_streams_are_merged(case: str, merges: bool) -> None:
    """Those whose coordinate is proved to rise, in blocks too; none of them where rows are in no order."""
    blocks = [("bcsr(R=2,C=2) csr", True)] if case == "side by side" else []
    for layouts, sorted_ in (("csr csr", True), ("csr_unsorted csr_unsorted", False), *blocks):
        names = dict(zip("AB", layouts.split(), strict=True))
        names = {n: layout for n, layout in names.items() if n in STREAMS[case][0]}
        told = spfgen.compile(STREAMS[case][0], C="dense", **names).explain()
        assert ("they are merged" in told) == (merges and sorted_), layouts


@pytest.mark.sampled(1)
@pytest.mark.parametrize("result", ["dense", "csr", "coo"])
@pytest.mark.parametrize("layouts", [("csr", "csr", "csr"), ("dcsr", "coo", "csr"), ("csr", "csr_unsorted", "bcsr2")])
def test_three_matrices_at_once(layouts: tuple[str, str, str], result: str) -> None:
    text = "D[i,j] = where(A[i,j] > 0, maximum(A[i,j], B[i,j]), C[i,j] - B[i,j])"
    operands = {"A": A, "B": B, "C": sparse(6, 7)}
    kernel = spfgen.compile(text, D=result, **dict(zip("ABC", layouts, strict=True)))
    found = kernel(**packed(operands, dict(zip("ABC", layouts, strict=True))))
    expected = np.where(A > 0, np.maximum(A, B), operands["C"] - B)
    np.testing.assert_allclose(found if result == "dense" else found.to_numpy(), expected, rtol=1e-12)


SELF = np.where(np.random.default_rng(6).random((7, 7)) < 0.4, np.arange(1.0, 50.0).reshape(7, 7), 0)
READ_AGAIN: list[tuple[str, np.ndarray]] = [
    ("C[i,j] = A[i,j]  C[i,j] = 2*C[i,j]", 2 * SELF),
    ("C[i,j] = A[i,j]  C[i,j] += C[i,j]*C[i,j]", SELF + SELF**2),
    ("C[i,j] = A[i,j]  for i, j { C[i,j] = 2*C[i,j] + A[i,j] }", 3 * SELF),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["dense", "csr", "coo_unsorted", "dcsr", "hash_pairs"])
@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize(("text", "wanted"), READ_AGAIN, ids=[t for t, _ in READ_AGAIN])
def test_a_statement_that_reads_its_target(text: str, wanted: np.ndarray, layout: str, local: bool) -> None:
    """What is read is the target before the statement, in any layout, of results and of tensors of the kernel's own."""
    given: dict[str, Any] = {"A": coo_array(SELF).tocsr()}
    declared = "tensor A : csr"
    if local:
        declared = f"{declared}  tensor y : dense  local tensor C : {layout}"
        text = f"{text}  y[i,j] = C[i,j]"
    else:
        declared = f"{declared}  tensor C : {layout}"
    result = spfgen.parse(f"kernel k {{ {declared}  {text} }}").kernels["k"].compile()(**given)
    np.testing.assert_allclose(result if isinstance(result, np.ndarray) else result.to_numpy(), wanted)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("y[i, i] = max(x[i], 0)", np.s_[[0, 1, 2], [0, 1, 2]]),
        ("y[i, 0] = max(x[i], 0)", np.s_[:, 0]),
        ("y[2 - i, i] = max(x[i], 0)", np.s_[[2, 1, 0], [0, 1, 2]]),
    ],
)
@pytest.mark.parametrize("layout", ["dense", "csr", "csc", "hash_pairs"])
def test_what_an_equation_does_not_reach_is_empty(text, at, layout) -> None:
    """As of a sum of products, whatever the target held before."""
    x, y = np.array([1.0, 2.0, 3.0]), np.full((3, 3), 0.5)
    wanted = np.zeros((3, 3))
    wanted[at] = x
    found = spfgen.compile(text, x="dense", y=layout)(x=x, y=y if layout == "dense" else spfgen.pack(y, layout))
    np.testing.assert_array_equal(found if layout == "dense" else found.to_numpy(), wanted)


def test_a_slice_leaves_the_rest() -> None:
    y = spfgen.compile("y[i(0:4:2)] = max(x[i], 0)", x="dense", y="dense")(x=np.ones(2), y=np.full(4, 9.0))
    assert y.tolist() == [1, 9, 1, 9]


def test_views_of_views_of_views() -> None:
    """The condition of a region may speak of what a link decides; a collapse decides the extent of its index."""
    three = RNG.normal(size=(2, 7, 3))
    kernel = spfgen.compile(
        "R[i,j,k] = concat((split(concat((S[q,i], T[r,i]), (q, r) -> p), p -> (l, k)), L[m,i,k]), (l, m) -> j)",
        S="csr", T="csr", L="csf", R="dense",
    )  # fmt: skip
    found = kernel(S=spfgen.pack(A, "csr"), T=spfgen.pack(B, "csr"), L=spfgen.pack(three, "csf"))
    above = np.concatenate([A, B]).reshape(4, 3, 7)
    np.testing.assert_allclose(found, np.concatenate([above.transpose(2, 0, 1), three.transpose(1, 0, 2)], 1))
    kernel = spfgen.compile(
        "c[k] = collapse(collapse(split(A[m,o], o -> (n, l)), (m, n) -> j), (j, l) -> k)", A="csr", c="dense"
    )
    np.testing.assert_allclose(kernel(A=spfgen.pack(S, "csr"), sizes={"l": 2}), S.ravel())


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "sizes", "array", "wanted"),
    [
        ("min(j: split(collapse(A[m,l], (l, m) -> k), k -> (j, i)))", {"i": 2}, (2, 3),
         lambda a: a.T.reshape(3, 2).min(0)),
        ("collapse(split(split(A[o], o -> (n, j)), n -> (l, m)), (l, m) -> i)", {"m": 2, "j": 2}, (12,),
         lambda a: a.reshape(6, 2)),
        ("collapse(split(collapse(A[l,o,n], (n, o) -> m), m -> (k, j)), (k, l) -> i)", {"j": 2}, (4, 3, 2),
         lambda a: a.transpose(2, 1, 0).reshape(3, 2, 4).transpose(0, 2, 1).reshape(12, 2)),
        ("split(split(collapse(A[n,o], (n, o) -> m), m -> (l, k)), l -> (i, j))", {"j": 2, "k": 3}, (6, 2),
         lambda a: a.reshape(2, 2, 3)),
    ],
)  # fmt: skip
def test_extents_follow_through_views(text, sizes, array, wanted) -> None:
    """From the operands and the sizes that a call says, whatever is in between."""
    a = np.arange(np.prod(array), dtype=float).reshape(array)
    expected = wanted(a)
    kernel = spfgen.compile(f"R[{', '.join('ijk'[: expected.ndim])}] = {text}", A="dense", R="dense")
    np.testing.assert_array_equal(kernel(A=a, sizes=sizes), expected)


def test_what_a_link_decides_in_one_region_another_finds() -> None:
    text = "R[i,j] = min(k: split(A[l,k], l -> (j, i)) + B[k,i,j])"
    three = np.where(RNG.random((7, 2, 3)) < 0.4, RNG.normal(size=(7, 2, 3)), 1)
    kernel = spfgen.compile(text, A="csr fill 1", B="coo_unsorted fill 1", R="dense")
    a = np.where(A == 0, 1, A)
    found = kernel(A=spfgen.pack(a, "csr fill 1"), B=spfgen.pack(three, "coo_unsorted fill 1"))
    np.testing.assert_allclose(found, (a.reshape(3, 2, 7).transpose(2, 1, 0) + three).min(0))


@pytest.mark.parametrize("level", [0, 2])
def test_a_reduction_that_speaks_of_an_index_without_an_extent(level: int) -> None:
    """The places of the target bound it; what lies outside of the operand is not combined."""
    kernel = spfgen.compile("y[k, j + 1] = max(i: A[i, j + 2])", A="dense", optimize=level)
    found = kernel(A=A[:, :3], y=np.empty((2, 4)))
    assert found[:, :2].tolist() == [[A[:, 1].max(), A[:, 2].max()]] * 2
    assert np.isneginf(found[:, 2:]).all()


def test_a_concatenation_says_its_extent_where_a_quotient_does_not() -> None:
    """Of parts of length 0, any number makes an empty whole."""
    text = (
        "concat((split(E[n,i], n -> (j, l)), split(concat((A[p,i], A[q,i]), (p, q) -> o), o -> (j, m))), (l, m) -> k)"
    )
    kernel = spfgen.compile(f"R[i,j,k] = {text}", E="dense", A="csr", R="dense")
    found = kernel(E=np.zeros((0, 7)), A=spfgen.pack(A, "csr"), sizes={"l": 0, "m": 2})
    np.testing.assert_array_equal(found, np.concatenate([A, A]).reshape(6, 2, 7).transpose(2, 0, 1))


def test_a_product_says_an_extent_where_a_quotient_does_not() -> None:
    first = "split(A[n], n -> (i, k))*collapse(B[o,k,p], (o, p) -> i)"
    text = f"R[i,j] = concat(({first}, split(C[q], q -> (i, l))), (k, l) -> j)"
    kernel = spfgen.compile(text, A="dense", B="dense", C="dense")
    last = np.arange(20.0)
    found = kernel(A=np.zeros(0), B=np.zeros((2, 0, 2)), C=last, sizes={"k": 0, "l": 5})
    np.testing.assert_array_equal(found, last.reshape(4, 5))


def test_an_extent_that_the_text_says_may_be_said_again() -> None:
    text = "R[i,q,k] = concat((slice(A[i,j], j -> m, (1, 4, 2)), split(B[i,n], n -> (q, l))), (m, l) -> k)"
    kernel = spfgen.compile(text, A="dense", B="dense")
    found = kernel(A=A, B=B[:, :6], sizes={"m": 2, "l": 3})
    above = np.broadcast_to(A[:, None, 1:4:2], (6, 2, 2))
    np.testing.assert_array_equal(found, np.concatenate([above, B[:, :6].reshape(6, 2, 3)], 2))
    with pytest.raises(DataError, match="expected 2 for `m`, which the text says, but it is 3"):
        kernel(A=A, B=B[:, :6], sizes={"m": 3, "l": 3})


def test_an_extent_that_nothing_says() -> None:
    """Any number of parts of length 0 makes an empty whole."""
    kernel = spfgen.compile("y[j] = sum(l: split(x[m], m -> (l, j)))", x="dense")
    with pytest.raises(UsageError, match=r"expected the extent of `l`.*\n.*pass sizes={'l': ...}"):
        kernel(x=np.zeros(0), sizes={"j": 0})
    assert kernel(x=np.zeros(0), sizes={"j": 0, "l": 5}).shape == (0,)


def test_a_reduction_within_one_that_has_a_single_point() -> None:
    """Whose parts are those of the inner one."""
    kernel = spfgen.compile("s = sum(i: slice(sum(k: A[k,j]), j -> i, (0, 1, 2)))", A="dense")
    assert kernel(A=S) == pytest.approx(S[:, 0].sum())


def test_what_a_find_has_read_is_not_read_again() -> None:
    spec = spfgen.parse("""
        layout classes(n, m) {
            size na, nb
            relation { [a, b] -> [i, j] :
                0 <= a < na and 0 <= b < nb and 0 <= i < n and 0 <= j < m and r(i) = a and c(j) = b }
            index r[n] { range 0 <= r(i) < na }
            index c[m] { range 0 <= c(j) < nb }
            value val[na, nb] at [a, b]
        }
        kernel k { tensor A : classes  tensor R : dense  R[i,j] = concat((A[j,k], A[j,l]), (k, l) -> i) }
    """)
    rows, columns, values = np.array([1, 0, 1]), np.array([0, 1, 1, 0]), RNG.normal(size=(2, 2))
    tensor = spfgen.tensor(spec.layouts["classes"], shape=(3, 4), r=rows, c=columns, val=values)
    dense = values[rows][:, columns]
    np.testing.assert_allclose(spec.kernels["k"].compile()(A=tensor), np.concatenate([dense.T, dense.T]))


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize(
    ("rank", "body", "wanted"),
    [
        (2, "for k { w[k,k] += x[k] } for k { y[k] = w[k,k] }", Y),
        (1, "for k { w[2*k+1] += x[k] } for k { y[k] = w[2*k+1] }", Y),
        (2, "for k { w[k,5-k] += x[k] } for k { y[k] = w[k,5-k] }", Y),
        (2, "w[k,k] = x[k]  y[i] = w[i,i]", Y),
        (2, "for k { w[k,k] = x[k] } y[i] = sum(k: w[k,k]*x[i])", Y * Y.sum()),
        (1, "w[2] = 3  for k { y[k] = w[2]*x[k] }", 3 * Y),
    ],
)
@pytest.mark.sampled(5)
def test_extents_of_local_tensors(rank: int, body: str, wanted: np.ndarray, layout: str) -> None:
    """Where no index that others bound stands alone there: one more than the largest place that is written."""
    layout = "sv" if layout == "csr" and rank == 1 else layout
    text = f"kernel k {{ tensor x, y : dense  local tensor w : {layout}  {body} }}"
    np.testing.assert_allclose(spfgen.parse(text).kernels["k"].compile(optimize=1)(x=Y), wanted)


def test_extents_of_local_tensors_that_nothing_gives() -> None:
    text = "kernel k {{ size n  tensor x, y, p : dense<int64>  local tensor w{} : dense  {} }}"
    body = "for k { w[p[k]] += x[k] } for k { y[k] = w[p[k]] }"
    with pytest.raises(SpecError, match=r"(?s)dimension 1 of the local tensor `w`.*local tensor w\[n"):
        spfgen.parse(text.format("", body)).kernels["k"].compile()
    kernel = spfgen.parse(text.format("[n]", body)).kernels["k"].compile()
    assert kernel(x=AT, p=np.array([3, 0, 2, 1]), sizes={"n": 4}).tolist() == AT.tolist()
    kernel = spfgen.parse("kernel k { tensor x, y : dense  local tensor w : dense  w[k,k] = x[k]  y[i] = w[i,i] }")
    with pytest.raises(DataError, match=r"y.n_1 is 9 and x.n_1 is 6"):
        kernel.kernels["k"].compile()(x=Y, y=np.zeros(9))


def test_a_split_that_stands_twice() -> None:
    one = "min(j: split(T[k], k -> (j, i)))"
    array, wanted = np.array([3.0, 1, 2, 5, 4, 9]), np.array([3.0, 1, 2])
    twice = spfgen.compile(f"Y[i] = {one} + max(j: split(T[k], k -> (j, i)))", T="dense", Y="dense")
    np.testing.assert_array_equal(twice(T=array, sizes={"i": 3}), wanted + array[3:])
    text = f"Y[i] = {one}\nZ[i] = max(j: split(U[k], k -> (j, i)))"
    given = {"T": array, "U": 2 * np.r_[array, array], "sizes": {"j": 2}}
    found = spfgen.compile(text, T="dense", U="dense", Y="dense", Z="dense")(**given)
    np.testing.assert_array_equal(found["Y"], wanted)
    np.testing.assert_array_equal(found["Z"], 2 * array)


BLOCKS = """
layout lists(nrow, ncol; R = 3, C = 2) {
    size nbrow, nb
    relation { [b, pb, r, c] -> [i, j] :
        0 <= b < nbrow and ptr(b) <= pb < ptr(b + 1) and 0 <= r < R and 0 <= c < C
        and i = R*brow(b) + r and j = C*bcol(pb) + c }
    index brow[nbrow] { range 0 <= R*brow(b) < nrow  property strictly increasing }
    index ptr[nbrow + 1] { range 0 <= ptr(b) <= nb  property increasing  property ptr(0) = 0  property ptr(nbrow) = nb }
    index bcol[nb] { range 0 <= C*bcol(p) < ncol  property strictly increasing within ptr }
    value val[nb, R, C] at [pb, r, c]
}
layout zorder(nrow, ncol) {
    size nnz
    relation { [bi, bj, p] -> [i, j] : 0 <= 4*bi < nrow and 0 <= 4*bj < ncol and ptr(bi, bj) <= p < fin(bi, bj)
        and i = 4*bi + 2*floor(z(p)/8) + floor(z(p)/2) mod 2 and j = 4*bj + 2*(floor(z(p)/4) mod 2) + z(p) mod 2 }
    index ptr[ceil(nrow/4), ceil(ncol/4)] { range 0 <= ptr(a, b) <= nnz }
    index fin[ceil(nrow/4), ceil(ncol/4)] { range 0 <= fin(a, b) <= nnz  property forall a, b : ptr(a, b) <= fin(a, b)
        property forall a, b, c, d : a < c => fin(a, b) <= ptr(c, d)
        property forall a, b, d : b < d => fin(a, b) <= ptr(a, d) }
    index z[nnz] { range 0 <= z(p) < 16  property forall a, b, p, q : ptr(a, b) <= p < q < fin(a, b) => z(p) < z(q) }
    value val[nnz] at [p]
}
"""


def test_what_a_find_has_read_is_known_where_it_was_moved_away() -> None:
    """A lookup that is made before a loop, in a list of blocks."""
    layout = spfgen.parse(BLOCKS).layouts["lists"]
    kernel = spfgen.compile("C[i,j] = A[i,j]", A=layout, C="csr fill 1", optimize=1)
    np.testing.assert_array_equal(kernel(A=spfgen.pack(S, layout)).to_numpy(), S)


def test_a_dimension_that_only_others_together_bound() -> None:
    """The diagonal, of entries within blocks that are numbered by a Z-order curve."""
    layout = spfgen.parse(BLOCKS).layouts["zorder"]
    kernel = spfgen.compile("y[i] = A[i,i]", A=layout, y="sv fill 1", optimize=1)
    np.testing.assert_array_equal(kernel(A=spfgen.pack(S, layout)).to_numpy(), np.diag(S))


def test_an_index_that_only_an_inner_reduction_speaks_of() -> None:
    with pytest.raises(SpecError, match=r"bounds for `r`, but nothing bounds it"):
        spfgen.compile("p[i] = max(r: max(s: x[2*i+r+s]))", x="dense", p="dense")
    said = spfgen.compile("p[i] = max(r: max(s: x[2*i+r+s]) where 0 <= r and r < 3)", x="dense", p="dense")
    assert said(x=np.arange(9.0)[::-1].copy(), sizes={"i": 3}).tolist() == [8.0] * 3


def test_one_place_is_read_before_it_is_written_without_a_copy() -> None:
    text = "kernel k { tensor u, lev : dense<int64>  for j { if u[j] >= 0 { lev[j] = lev[u[j]] + 1 } } }"
    kernel = spfgen.parse(text).kernels["k"].compile(optimize=1)
    parents = np.array([-1, 0, 0, 2, 3, 1])
    assert kernel(u=parents, lev=np.zeros(6, int)).tolist() == [0, 1, 1, 2, 3, 2]
    assert "lev_before" not in kernel.source

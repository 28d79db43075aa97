"""The oracle of the language beside hand-written numpy, construct by construct."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from spfgen.lang.interpret import interpret
from spfgen.lang.parse import parse_file, parse_statements
from tests.unit.lang.test_language import LANGUAGE

Array = np.ndarray[Any, Any]
inf, nan = np.inf, np.nan


def whole(seed: int, *shape: int, low: int = 0, high: int = 9) -> Array:
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(float)


A, B, C = whole(1, 4, 6), whole(2, 4, 6), whole(3, 6, 5)
T = whole(4, 3, 4, 5)
b, x, z = whole(5, 4, low=1), whole(6, 6, low=1), whole(7, 9)
S = whole(8, 5, 5)
at, img = np.array([3, 0, 5, 3]), np.random.default_rng(9).integers(0, 64, (5, 5))
m, f6 = np.array([True, False, True, False]), np.array([1, 0, 1, 1, 0, 1], bool)
W = np.where(whole(10, 4, 4) < 4, whole(11, 4, 4), inf)
i8 = np.array([100, -100, 7, 0], np.int8)
n5 = np.array([5, -7, 3, 0])


@dataclass(frozen=True)
class Means:
    """The text over the arrays above, and `given`; the results not among them are made."""

    text: str
    numpy: Callable[[], Any]
    given: dict[str, Any] = field(default_factory=dict)
    fills: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    target: str = ""

    def __str__(self) -> str:
        return self.text


def recurred(follow: Callable[[float, float], float], array: Array) -> Array:
    """Each value of the one before it, and of its own; the first has the sum of its other terms."""
    found = [-float(array[0])]
    for own in array[1:]:
        found.append(follow(found[-1], own))
    return np.array(found)


def before(array: Array) -> Array:
    """The values one place before; the first has none."""
    return np.r_[0.0, array[:-1]]


CASES = [
    # values
    Means("y[i] = max(b[i], 3)", lambda: np.maximum(b, 3)),
    Means("y[i] = max(b[i], 3, c[i])", lambda: np.maximum(np.maximum(b, 3), b[::-1]), {"c": b[::-1]}),
    Means("y[i] = where(m[i], b[i], -1)", lambda: np.where(m, b, -1)),
    Means("y[i] = sqrt(b[i])**2 - b[i]/2 + b[i]//2 % 3", lambda: np.sqrt(b) ** 2 - b / 2 + b // 2 % 3),
    Means("y[i] = n[i] & 6 | n[i] ^ 1", lambda: n5 & 6 | n5 ^ 1, {"n": n5}),
    Means("y[i] = ~n[i] << 2", lambda: ~n5 << 2, {"n": n5}),
    Means("y[i] = 2 < b[i] <= 5 and not m[i]", lambda: (b > 2) & (b <= 5) & ~m),
    Means("y[i] = logical_xor(b[i], m[i])", lambda: np.logical_xor(b, m)),
    Means("y[i] = clip(b[i], 2, 5)", lambda: np.clip(b, 2, 5)),
    Means("y[i] = b[i]*i + 1", lambda: b * np.arange(4) + 1),
    Means("C[i, j] = i > j and A[i, j] != 0", lambda: (np.arange(4)[:, None] > np.arange(6)) & (A != 0)),
    Means("y[i] = n[i]//0 + n[i] % 0", lambda: np.zeros(4, np.int64), {"n": n5}),
    Means("y[i] = a[i] + 1 - a[i]*3", lambda: i8 + np.int8(1) - i8 * np.int8(3), {"a": i8}),
    Means("y[i] = a[i] + 0.5", lambda: i8 + 0.5, {"a": i8}),
    Means("y[i] = sqrt(a[i])", lambda: np.sqrt(np.abs(i8).astype(np.float32)), {"a": np.abs(i8)}),
    Means("y[i] = h[i]*2.5*2", lambda: b.astype(np.float32) * np.float32(5), {"h": b.astype(np.float32)}),
    Means("y[i] = float32(b[i])/3", lambda: b.astype(np.float32) / np.float32(3)),
    Means("y[i] = true", lambda: np.ones(4, bool), {"y": np.zeros(4, bool)}),
    # sums that are not written
    Means("y[i] = A[i, j]*x[j] + b[i]", lambda: A @ x + b),
    Means("y[i] = b[i] - A[i, j]*x[j]", lambda: b - A @ x),
    Means("y[i] = (b[i] + x[j])*b[i]", lambda: b * b + x.sum() * b),
    Means("y[i] = A[i, j]*(x[j] + 1)", lambda: A @ (x + 1)),
    Means("y[i] = A[i, j]/x[j]", lambda: (A / x).sum(axis=1)),
    Means("y[i] = max(A[i, j], x[j])", lambda: np.maximum(A, x).sum(axis=1)),
    Means("s = A[i, j]*B[i, j]", lambda: (A * B).sum()),
    Means("y[i] = A[i, j] where j < i", lambda: np.tril(A, -1).sum(axis=1)),
    Means("y[i] = A[i, j] + x[j]*b[i] where j < i and i < 3",
          lambda: np.r_[(np.tril(A, -1).sum(axis=1) + b * np.r_[0, np.cumsum(x)[:3]])[:3], 0]),
    Means("D[i, k] = A[i, j]*C[j, k]", lambda: A @ C),
    Means("y[i] = S[i, i]", lambda: np.diag(S)),
    Means("y[i] = A[i, i]", lambda: np.diag(A)),
    # reductions
    Means("y[i] = max(j: A[i, j])", lambda: A.max(axis=1)),
    Means("y[i] = min(j: A[i, j] + x[j])", lambda: (A + x).min(axis=1)),
    Means("y[i] = prod(j: A[i, j])", lambda: A.prod(axis=1)),
    Means("y[i] = any(j: A[i, j] > 7)", lambda: (A > 7).any(axis=1)),
    Means("y[i] = all(j: A[i, j] > 0)", lambda: (A > 0).all(axis=1)),
    Means("y[i] = any(j: A[i, j])", lambda: A.any(axis=1)),
    Means("y[i] = sum(j: A[i, j] > 3)", lambda: (A > 3).sum(axis=1)),
    Means("y[i] = mean(j: A[i, j])", lambda: A.mean(axis=1)),
    Means("y[i] = argmin(j: A[i, j])", lambda: A.argmin(axis=1)),
    Means("y[i] = argmax(j: A[i, j])", lambda: A.argmax(axis=1)),
    Means("y[i] = argmax(j: v[i, j])", lambda: np.array([1, 0]), {"v": np.array([[1, nan, 3, nan], [2, 2, 1, 0]])}),
    Means("y[i] = max(j: v[i, j])", lambda: np.array([nan, 2]), {"v": np.array([[1, nan, 3, nan], [2, 2, 1, 0]])}),
    Means("y[i] = fmax(j: v[i, j])", lambda: np.array([3.0, 2]), {"v": np.array([[1, nan, 3, nan], [2, 2, 1, 0]])}),
    Means("y[i] = max(j: v[i, j])", lambda: np.zeros(0), {"v": np.zeros((0, 3))}),
    Means("y[i] = argmax(j: v[i, j])", lambda: np.zeros(0, np.int64), {"v": np.zeros((0, 3))}),
    Means("y[i] = max(j: v[i, j])", lambda: np.array([-inf, -inf]), {"v": np.zeros((2, 0))}),
    Means("s = max(i: min(j: A[i, j]))", lambda: A.min(axis=1).max()),
    Means("y[i] = max(j < i: A[i, j])", lambda: np.array([-inf, *(A[i, :i].max() for i in range(1, 4))])),
    Means("y[i] = prod(j < i: A[i, j])", lambda: np.array([A[i, :i].prod() for i in range(4)])),
    Means("y[i] = sum(j: A[i, j]*max(k: C[j, k]))", lambda: A @ C.max(axis=1)),
    Means("y[i] = logical_xor(j: A[i, j] > 4)", lambda: np.logical_xor.reduce(A > 4, axis=1)),
    Means("y[i] = bitwise_and(j: M[i, j])", lambda: np.bitwise_and.reduce(A.astype(int), axis=1), {"M": A.astype(int)}),
    Means("y[i] = hypot(j: A[i, j])", lambda: np.hypot.reduce(A, axis=1)),
    Means("s = sum(i: a[i])", lambda: i8.sum(), {"a": i8}),
    Means("s = sum(i, j: A[i, j] where i = j)", lambda: np.trace(A)),
    # slices
    Means("D[i, j] = A[i(1:4:2), j(2:6:2)]", lambda: A[1:4:2, 2:6:2]),
    Means("D[i, j] = A[i(::-1), j(4:0:-2)]", lambda: A[::-1, 4:0:-2]),
    Means("D[i, j] = A[i(:2), j(-3:)]", lambda: A[:2, -3:]),
    Means("y[k] = T[1, k, 2]", lambda: T[1, :, 2]),
    Means("D[i(0:6:2)] = w[i]", lambda: np.array([8.0, 1, 7, 1, 6, 1]), {"w": np.array([8.0, 7, 6]), "D": np.ones(6)}),
    Means("D[i(::-1)] += x[i]", lambda: 1 + x[::-1], {"D": np.ones(6)}),
    # shape operators
    Means("c[k] = collapse(A[i, j], (i, j) -> k)", lambda: A.reshape(-1)),
    Means("c[k] = collapse(A[i, j], (j, i) -> k)", lambda: A.T.reshape(-1)),
    Means("c[l, k] = collapse(T[i, j, k], (i, j) -> l)", lambda: T.reshape(12, 5)),
    Means("D[i, j] = split(x[k], k -> (i, j))", lambda: x.reshape(2, 3), sizes={"j": 3}),
    Means("D[i, j] = split(x[k], k -> (i, j))*w[j]", lambda: x.reshape(3, 2) * [2, 3], {"w": np.array([2.0, 3])}),
    Means("D[i, j, k] = split(c[l], l -> (i, j, k)) + T[i, j, k]", lambda: 2 * T, {"c": T.reshape(-1)}),
    Means("y[l] = concat((x[i], b[i]), (i, i) -> l)", lambda: np.concatenate([x, b])),
    Means("y[l] = concat((x[i], b[k], x[j]), (i, k, j) -> l)", lambda: np.concatenate([x, b, x])),
    Means("D[l, j] = concat((A[i, j], B[k, j]), (i, k) -> l)", lambda: np.vstack([A, B])),
    Means("D[i, k] = slice(A[i, j], j -> k, (1, 6, 3))", lambda: A[:, 1:6:3]),
    Means("D[i, k] = slice(A[i, j], j -> k, (5, 0, -2))", lambda: A[:, 5:0:-2]),
    Means("d[k] = slice(a[l], l -> k, (3, 99, 4)) + collapse(b[i]*x[j], (i, j) -> k)",
          lambda: np.arange(99.0)[3:99:4] + np.outer(b, x).reshape(-1), {"a": np.arange(99.0)}),
    Means("y[l] = sum(k: concat((A[i, k], B[j, k]), (i, j) -> l)*x[k])", lambda: np.vstack([A, B]) @ x),
    Means("y[l] = sum(k: concat((A[i, k], B[j, k]), (i, j) -> l)*C[k, 0])", lambda: np.vstack([A, B]) @ C[:, 0]),
    Means("c[k] = slice(collapse(A[i, j], (i, j) -> l), l -> k, (0, 24, 5))", lambda: A.reshape(-1)[::5]),
    # outside
    Means("y[i] = coalesce(x[i - 1], 7)", lambda: np.r_[7, x[:-1]], {"y": np.zeros(6)}),
    Means("y[i] = coalesce(x[i - 1], x[i + 1], 0)", lambda: np.r_[x[1], x[:-1]], {"y": np.zeros(6)}),
    Means("y[i] = coalesce(x[i - 1] + x[i + 1], 0)", lambda: np.r_[0, x[:-2] + x[2:], 0], {"y": np.zeros(6)}),
    Means("y[i] = x[i - 1] + x[i + 1]", lambda: before(x) + before(x[::-1])[::-1], {"y": np.zeros(6)}),
    Means("y[i] = x[i - 1]*x[i + 1]", lambda: np.r_[0, x[:-2] * x[2:], 0], {"y": np.ones(6)}),
    Means("y[i] = max(x[i - 1], 1)", lambda: np.r_[1, np.maximum(x[:-1], 1)], {"y": np.ones(6)}),
    Means("y[i + r] = b[i]*w[r]", lambda: np.convolve(b, [1, 2]), {"w": np.array([1.0, 2]), "y": np.ones(5)}),
    Means("y[i] = 2 where i < 3", lambda: np.r_[2, 2, 2, 0], {"y": np.ones(4)}),
    Means("y[i] = where(i > 0, x[i - 1], -5)", lambda: np.r_[-5, x[:-1]], {"y": np.ones(6)}),
    Means("y[i] = sum(j: z[i + j]*w[j])", lambda: np.convolve(z, [3, 2, 1], "valid"),
          {"w": np.array([1.0, 2, 3]), "y": np.zeros(7)}),
    Means("y[i] = sum(j: z[i + j] + w[j])",
          lambda: np.array([sum(z[i + j] + w for j, w in enumerate([1, 2, 3])) for i in range(7)]),
          {"w": np.array([1.0, 2, 3]), "y": np.zeros(7)}),
    Means("y[i] = max(j: z[i + j] where -1 <= j and j <= 1)",
          lambda: np.array([z[max(i - 1, 0) : i + 2].max() for i in range(9)]), {"y": np.zeros(9)}),
    Means("y[i] = max(j: x[i - j]*w[j])",
          lambda: np.array([max(x[i - j] * w for j, w in enumerate([1, 2, 3]) if i >= j) for i in range(6)]),
          {"w": np.array([1.0, 2, 3]), "y": np.zeros(6)}),
    Means("y[i] = coalesce(x[i - 1], 7)", lambda: np.r_[7, x]),
    Means("y[i + 1] = b[i]", lambda: np.r_[0, b]),
    # subscripts that are values
    Means("y[i] = x[at[i]]", lambda: x[at]),
    Means("y[i] = x[at[i]/2 + 1]*b[i]", lambda: x[at // 2 + 1] * b),
    Means("y[i] = coalesce(x[at[i] + 2], -1)", lambda: np.array([x[5], x[2], -1, x[5]])),
    Means("y[i] = x[clip(at[i] + 2, 0, 5)]", lambda: x[np.clip(at + 2, 0, 5)]),
    Means("D[i, j] = A[i, o[j]]", lambda: A[:, [5, 0, 0]], {"o": np.array([5, 0, 0])}),
    Means("h[img[r, c]/16] += 1", lambda: np.bincount((img // 16).reshape(-1), minlength=4), {"h": np.zeros(4, int)}),
    Means("v[at[i]] = b[i]", lambda: np.r_[b[1], 0, 0, b[3], 0, b[2]], {"v": np.full(6, 9.0)}),
    Means("y[i] = coalesce(x[at[at[i]]], -1)", lambda: np.array([x[3], x[3], -1, x[3]])),
    Means("y[i] = coalesce(x[at[i - 1]], -1)", lambda: np.r_[-1, x[at]], {"y": np.zeros(5)}),
    Means("v[at[i]] max= b[i]", lambda: np.maximum([0, 0, 0, 0, 0, 0], [b[1], 0, 0, max(b[0], b[3]), 0, b[2]]),
          {"v": np.zeros(6)}),
    # updates
    Means("b[i] min= A[i, j] + x[j]", lambda: np.minimum(b, (A + x).min(axis=1)), target="b"),
    Means("b[i] *= 3", lambda: b * 3, target="b"),
    Means("b[i] /= A[i, j] + 1", lambda: b / (A + 1).prod(axis=1), target="b"),
    Means("b[i] -= A[i, j]*x[j]", lambda: b - A @ x, target="b"),
    Means("m[i] or= A[i, j] > 7", lambda: m | (A > 7).any(axis=1), target="m"),
    Means("m[i] and= b[i]", lambda: m & (b != 0), target="m"),
    Means("n[i] ^= 5", lambda: n5 ^ 5, {"n": n5}),
    Means("n[i] += b[i]/2 where i < 2", lambda: np.r_[(n5[:2] + b[:2] / 2).astype(int), n5[2:]], {"n": n5}),
    Means("x[i] = x[i - 1]", lambda: np.zeros_like(x), target="x"),
    Means("x[i] = abs(x[i - 1]) - x[i]", lambda: recurred(lambda old, own: abs(old) - own, x), target="x"),
    Means("a = 3  y[i] = a*b[i]", lambda: 3 * b),
    # fills
    Means("y[i] = min(j: W[i, j] + d[j])", lambda: (W + b).min(axis=1), {"d": b}, {"W": inf}),
    Means("y[i] = sum(j: P[i, j])", lambda: np.where(A > 5, A, 1).sum(axis=1), {"P": np.where(A > 5, A, 1)}, {"P": 1}),
    Means("y[i] = q[i]*r[i]", lambda: np.array([0, nan, 0, 6]),
          {"q": np.array([0, 2, 0, 2]), "r": np.array([inf, nan, nan, 3])}, {"q": 0}),
    Means("y[i] = q[i]*r[i]", lambda: np.array([nan, nan, nan, 6]),
          {"q": np.array([0, 2, 0, 2]), "r": np.array([inf, nan, nan, 3])}),
    Means("y[i] = q[i]/r[i]", lambda: np.array([nan, 1, nan, inf]),
          {"q": np.array([0.0, 2, 0, 2]), "r": np.array([0.0, 2, nan, 0])}, {"q": 0}),
    Means("y = sum(i: q[i]/r[i])", lambda: np.array(1.0),
          {"q": np.array([0.0, 2, 0, 0]), "r": np.array([0.0, 2, nan, 0])}, {"q": 0}),
    Means("y[i] = 2*g[i - 1]", lambda: np.r_[6, 2 * x[:-1]], {"g": x, "y": np.zeros(6)}, {"g": 3}),
    Means("y[i] = max(g[i], 4) where i > 0", lambda: np.r_[4, np.maximum(x[1:], 4)], {"g": x}, {"g": 3}),
    Means("y[i] = max(x[i], 4) where i > 0", lambda: np.r_[0, np.maximum(x[1:], 4)]),
    Means("y[i] = g[i] + 4 where i > 0", lambda: np.r_[0, x[1:] + 4], {"g": x}, {"g": 0}),
    Means("y[i] = coalesce(g[i - 1], 0)", lambda: before(x), {"g": x, "y": np.zeros(6)}, {"g": 3}),
    Means("y[i] = x[i] within y", lambda: np.array([x[0], 0, x[2], 0, 0, x[5]]),
          {"y": np.array([1.0, 0, 2, 0, 0, 3])}, {"y": 0}),
    # functions
    Means("function both(p, q) { return p & q }  y[i] = both(j: M[i, j])",
          lambda: np.bitwise_and.reduce(A.astype(int), axis=1), {"M": A.astype(int)}),
    Means("function far(p, q) { if p > q { return p - q } else { return q - p } }  y[i] = far(b[i], 4)",
          lambda: np.abs(b - 4)),
    Means("function g(p, q) { let a = abs(p) let c = abs(q) while a != 0 { let t = a a = c % a c = t } return c }"
          "  y[i] = g(n[i], 15)", lambda: np.gcd(n5, 15), {"n": n5}),
    Means("function h(p) { case 0 : 7  return 1/p }  y[i] = h(b[i] - 1)",
          lambda: np.where(b == 1, 7, 1 / np.where(b == 1, 1, b - 1))),
    Means("function upto(p) { let k = 0 while true { if k >= p { break } k += 2 } return k }  y[i] = upto(b[i])",
          lambda: 2 * np.ceil(b / 2).astype(int)),
    Means("function late(p, q) { return 2*p + q }  s late= b[i]",
          lambda: 2 * (2 * (2 * (2 * 1 + b[0]) + b[1]) + b[2]) + b[3], {"s": np.array(1.0)}),
    Means("y[i] = subtract(j: A[i,j])", lambda: np.subtract.reduce(A, axis=1)),
    Means("y[i] = power(j: A[i,j]/9)", lambda: np.power.accumulate(A / 9, axis=1)[:, -1]),
    Means("y[i] = gcd(j: at[i] - 5 where j < 1)", lambda: np.gcd(0, at - 5), sizes={"j": 3}),
    Means("function half(p, q) { return (p + q)/2 }  s = half(i: at[i])",
          lambda: (((at[0] + at[1])/2 + at[2])/2 + at[3])/2),
]  # fmt: skip


def operands_of(case: Means) -> tuple[dict[str, Array], str]:
    """What is given to a case, and its target."""
    steps = parse_statements(case.text)
    names = {"A": A, "B": B, "C": C, "T": T, "b": b, "x": x, "z": z, "S": S, "at": at, "img": img, "m": m, "W": W}
    kernel_names = {a for s in steps for a in _tensors(s)}
    target = case.target or steps[-1].target.tensor
    given = {n: v for n, v in {**names, **case.given}.items() if n in kernel_names}
    if target not in case.given and target != case.target:
        given.pop(target, None)
    return {n: np.array(v) for n, v in given.items()}, target


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_a_statement_means(case: Means) -> None:
    steps = parse_statements(case.text)
    given, target = operands_of(case)
    copies = {n: np.array(v) for n, v in given.items()}
    found = interpret(steps, given, case.fills, case.sizes)[target]
    wanted = np.asarray(case.numpy())
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    assert target in given or found.dtype == wanted.dtype
    assert all(np.array_equal(copies[n], given[n], equal_nan=copies[n].dtype.kind == "f") for n in copies)


def _tensors(step: Any) -> set[str]:
    from spfgen.ir import walk
    from spfgen.lang.nodes import Access

    return {n.tensor for n in walk(step) if isinstance(n, Access)}


KERNELS = {k.name: k for k in parse_file(LANGUAGE).kernels}


def test_a_sum_that_is_needed_twice() -> None:
    right = whole(1, 4, 3)
    found = interpret(KERNELS["k"], {"A": A, "x": np.where(f6, x, 0), "B": right}, {"A": 0, "x": 0})
    total = A @ np.where(f6, x, 0)
    np.testing.assert_array_equal(found["C"], total[:, None] * right)
    assert set(found) == {"C"}


def test_an_index_that_a_subscript_names_twice() -> None:
    """Its range is that of 2*i, and of what else names it."""
    (y,) = interpret(parse_statements("y[j] = A[j, i + i]*x[i + 2]"), {"A": A, "x": x}).values()
    np.testing.assert_array_equal(y, A[:, 0:6:2] @ x[2:5])
    (y,) = interpret(parse_statements("y[j] = A[j, 3 - i - i]"), {"A": A}).values()
    np.testing.assert_array_equal(y, A[:, 3] + A[:, 1] + A[:, 5])


def test_indices_that_wait_for_each_other() -> None:
    """k + i bounds neither of them, but the target does."""
    (y,) = interpret(parse_statements("y[i + 1, 3 - k] += A[k, k + i]"), {"A": A, "y": np.zeros((5, 5))}).values()
    wanted = np.zeros((5, 5))
    for i in range(-1, 4):
        for k in range(-1, 4):
            if 0 <= k + i < 6 and k >= 0:
                wanted[i + 1, 3 - k] += A[k, k + i]
    np.testing.assert_array_equal(y, wanted)


def test_a_workspace() -> None:
    found = interpret(KERNELS["product_by_columns"], {"A": A, "B": C}, {"A": 0, "B": 0, "C": 0, "w": 0})
    np.testing.assert_array_equal(found["C"], A @ C)
    assert set(found) == {"C"}


def test_a_loop_that_ends_early() -> None:
    small = A / 9
    found = interpret(KERNELS["first_large"], {"A": small})
    large = small > 0.8
    np.testing.assert_array_equal(found["f"], np.where(large.any(axis=1), large.argmax(axis=1), -1))
    assert found["f"].dtype == np.int64


def test_relaxing_from_a_frontier() -> None:
    d, f = np.array([0.0, 9, 9, 9]), np.array([True, False, True, False])
    tensors = {"A": W, "d": d, "e": d, "f": f, "g": np.zeros(4, bool)}
    found = interpret(KERNELS["relax"], tensors, {"A": inf})
    reached = np.where(f, d + W, inf)
    np.testing.assert_array_equal(found["e"], np.minimum(d, reached.min(axis=1)))
    np.testing.assert_array_equal(found["g"], (reached < d[:, None]).any(axis=1))


@pytest.mark.parametrize(
    ("text", "numpy"),
    [
        ("for i { if m[i] { y[i] = b[i] } else if b[i] > 4 { y[i] = -1 } else { y[i] = 0 } }",
         lambda: np.where(m, b, np.where(b > 4, -1, 0))),
        ("for i where i > 1 { y[i] = b[i] }", lambda: np.r_[0, 0, b[2:]]),
        ("for i { for j where j < i { if A[i, j] > 4 { break }  y[i] = j + 1 } }",
         lambda: np.array([next((j for j in range(i) if A[i, j] > 4), i) for i in range(4)])),
        ("let n = 0  while n < 3 { y[n] = n  n += 1 }", lambda: np.array([0, 1, 2, 0])),
        ("let n = 0  while n < 4 { let k = n  y[k] += k*k  n += 1 }", lambda: np.array([0, 1, 4, 9])),
        ("for i { let s = A[i, j]*x[j]  y[i] = s }", lambda: A @ x),
        ("for i { let s = 1  for j { if A[i, j] > 4 { s *= 2 } }  y[i] = s }", lambda: 2 ** (A > 4).sum(axis=1)),
        ("for i { let s = -inf  for j { s max= A[i, j] }  y[i] = s }", lambda: A.max(axis=1)),
        ("for i { y[at[i] - 2] = b[i] where i = 2 }", lambda: np.array([0, 0, 0, b[2]])),
        ("for i { y[i] = x[i - 1] }", lambda: before(x)[:4]),
        ("for i where i > 0 { y[i] = y[i - 1] + b[i] }", lambda: np.r_[0, np.cumsum(b[1:])]),
    ],
)  # fmt: skip
def test_steps(text: str, numpy: Callable[[], Array]) -> None:
    names = {"A": A, "b": b, "x": x, "m": m, "at": at}
    steps = parse_statements(text)
    used = {t for s in steps for t in _tensors(s)}
    found = interpret(steps, {**{n: v for n, v in names.items() if n in used}, "y": np.zeros(4)})
    np.testing.assert_allclose(found["y"], numpy())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y[i] = A[i, j] where j < 2", lambda: A[:, :2].sum(axis=1)),
        ("y[i] = A[i, j]*(j < 2)", lambda: A[:, :2].sum(axis=1)),
        ("y[i] = A[i, j] + 2*j", lambda: (A + 2 * np.arange(6)).sum(axis=1)),
    ],
)
def test_the_extent_of_a_summed_index(text: str, expected: Callable[[], np.ndarray]) -> None:
    """It is given as that of any other index is; a number is only what the kernel declares as a size."""
    made = parse_file(f"kernel k {{ tensor A, y : dense\n {text} }}").kernels[0]
    for program in (made, made.statements):
        np.testing.assert_array_equal(interpret(program, {"A": A}, sizes={"j": 6})["y"], expected())


def test_sizes_and_declared_extents() -> None:
    (kernel,) = parse_file("kernel k { size n  tensor x[n] : dense  tensor y : dense  y[i] = n*x[n - 1 - i] }").kernels
    found = interpret(kernel, {"x": x, "y": np.zeros(6)})
    np.testing.assert_array_equal(found["y"], 6 * x[::-1])
    (made,) = parse_file("kernel k { size n  tensor x : dense  tensor y[n] : dense  y[i] = x[i] }").kernels
    np.testing.assert_array_equal(interpret(made, {"x": x}, sizes={"n": 6})["y"], x)


def test_results_that_are_made_have_their_fill_and_type() -> None:
    (kernel,) = parse_file("kernel k { tensor x, y : dense<float> fill inf  y[i] min= x[i] where i > 1 }").kernels
    found = interpret(kernel, {"x": x})["y"]
    np.testing.assert_array_equal(found, np.r_[inf, inf, x[2:]])
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    ("text", "tensors", "message"),
    [
        ("y[i] = b[i] + x[i]", {"b": b, "x": x}, "one extent of i"),
        ("y[i] = x[at[i]]", {"x": b, "at": at}, "within its extent 4"),
        ("v[at[i]] = 1", {"v": np.zeros(4), "at": at}, "within its extent 4"),
        ("y[i] = x[b[i]]", {"x": x, "b": b}, "integers as subscripts"),
        ("y[i] = 1", {}, "extents do not follow"),
        ("y[i] = sum(j: 1)*b[i]", {"b": b}, "nothing bounds it"),
        ("y[i] = x[i, i]", {"x": x}, "dimensions"),
        ("y[i] = w[i]", {"y": b}, "w, but it is not given"),
        ("D[i, j] = split(x[k], k -> (i, j))*w[j]", {"x": x, "w": b}, "4 divides"),
    ],
)
def test_what_has_no_meaning(text: str, tensors: dict[str, Array], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        interpret(parse_statements(text), tensors)


def test_what_is_stored_can_be_said() -> None:
    q, r = np.array([0.0, 0, 2]), np.array([inf, inf, 3])
    steps = parse_statements("y[i] = q[i]*r[i]")
    stored = {"q": np.array([True, False, True])}
    np.testing.assert_array_equal(interpret(steps, {"q": q, "r": r}, {"q": 0}, stored=stored)["y"], [nan, 0, 6])

"""What is long when it is written out: shared, done in another way, or refused with the number, never minutes."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen import limits
from spfgen.cir.tree.nodes import File
from spfgen.cir.tree.print import print_file
from spfgen.errors import TooManyCases, Unsupported

RANDOM = np.random.default_rng(3)
NAMES = "ABDEFGHKLMNO"


def sparse(n: int = 6) -> np.ndarray:
    return RANDOM.integers(1, 4, (n, n)) * (RANDOM.random((n, n)) < 0.4) * 1.0


def lines(text: str, layout: object, **layouts: object) -> int:
    used = dict.fromkeys((n for n in NAMES if f"{n}[" in text), layout)
    loops = spfgen.compile(text, **{**used, **layouts}).generated.function  # without what makes results of entries
    return print_file(File("", (), (loops,))).count("\n")


@pytest.mark.parametrize("factors", [6, 3], ids=["one sum six times", "three sums"])
def test_element_wise_products_of_sums_are_not_multiplied_out(factors: int) -> None:
    pairs = [(NAMES[0], NAMES[1]) if factors == 6 else (NAMES[2 * k], NAMES[2 * k + 1]) for k in range(factors)]
    text = "C[i, j] = " + "*".join(f"({a}[i, j] + {b}[i, j])" for a, b in pairs)
    assert lines(text, "csr", C="csr") < 300  # 64 products of six would be 20,000 lines
    given = {n: sparse() for pair in pairs for n in pair}
    tensors = {n: spfgen.pack(v, "csr") for n, v in given.items()}
    expected = np.prod([given[a] + given[b] for a, b in pairs], axis=0)
    np.testing.assert_array_equal(spfgen.evaluate(text, out="csr", **tensors).to_numpy(), expected)


def test_products_of_sums_that_are_too_long_are_refused_with_the_number() -> None:
    sums = "(A[i, k] + B[i, k] + D[i, k])*(E[k, l] + F[k, l] + G[k, l])*(H[l, j] + K[l, j])"
    with pytest.raises(Unsupported, match=r"makes 18 products .* no more than 16") as caught:
        lines(f"C[i, j] = {sums}", "csr", C="csr")
    assert "compute the sums first" in caught.value.notes[0]


LAYOUTS = spfgen.parse("""
layout selfloops(nedge, nvertex) {
    relation { [e, s] -> [i, j] :
        0 <= e < nedge and i = e and (s = 0 and j = tail(e) or s = 1 and j = head(e) and not head(e) = tail(e)) }
    index head[nedge] { range 0 <= head(e) < nvertex }
    index tail[nedge] { range 0 <= tail(e) < nvertex }
    value val[nedge] at [e]
}
layout hyb(nrow, ncol; K = 2) {
    size nl
    relation {
        [part, a, k] -> [i, j] : part = 0 and 0 <= a < nrow and 0 <= k < K and i = a and j = col(a, k) and 0 <= j ;
        [part, a, k] -> [i, j] : part = 1 and 0 <= a < nl and k = 0 and i = lrow(a) and j = lcol(a) }
    index col[nrow, K] { range -1 <= col(a, k) < ncol }
    index lrow[nl] { range 0 <= lrow(p) < nrow  property increasing }
    index lcol[nl] { range 0 <= lcol(p) < ncol  property strictly increasing where lrow equal }
    value slot[nrow, K] at [a, k] when part = 0
    value rest[nl] at [a] when part = 1
}
layout either(n_{1..rank}; rank) {
    size nnz
    relation { [p, s_{1..rank}] -> [i_{1..rank}] : 0 <= p < nnz and (each k in 1..rank :
        (s_{k} = 0 and i_{k} = a_{k}(p) or s_{k} = 1 and i_{k} = b_{k}(p) and not a_{k}(p) = b_{k}(p))) }
    each k in 1..rank {
        index a_{k}[nnz] { range 0 <= a_{k}(p) < n_{k} }
        index b_{k}[nnz] { range 0 <= b_{k}(p) < n_{k} }
    }
    value val[nnz] at [p]
}
""").layouts
CYCLES = {
    "sym_csr": ("s = A[i, j]*B[j, k]*D[k, l]*E[l, m]*F[m, i]", "sym_csr", 32),
    "selfloops": ("s = A[i, j]*B[k, j]*D[k, l]*E[i, l]", "selfloops", 81),
    "hyb": ("C[i, j] = A[i, j]*B[i, j]*D[i, j]*E[i, j]*F[i, j]*G[i, j]", "hyb", 64),
}


@pytest.mark.parametrize("name", CYCLES)
def test_products_in_layouts_of_alternatives_are_refused_with_the_number(name: str) -> None:
    text, layout, count = CYCLES[name]
    with pytest.raises(TooManyCases, match=f"more than the 24 cases .* makes {count} or more") as caught:
        lines(text, LAYOUTS.get(layout, layout), **({"C": "csr"} if "C[" in text else {}))
    assert "A.convert('csr')" in caught.value.notes[0]


def test_cases_that_cannot_be_do_not_count() -> None:
    """Entries of a triangle meet entries of the same triangle only: two cases, not 32."""
    text = "s = A[i, j]*B[i, j]*D[i, j]*E[i, j]*F[i, j]"
    assert lines(text, "sym_csr") < 2000


def test_evaluate_converts_operands_that_are_stored_in_too_many_ways(monkeypatch) -> None:
    monkeypatch.setattr(limits, "CASES", 4)
    given = {n: sparse() for n in "ABD"}
    given = {n: v + v.T for n, v in given.items()}
    tensors = {n: spfgen.pack(v, "sym_csr") for n, v in given.items()}
    expected = np.trace(np.linalg.multi_dot([*given.values()]))
    for _ in range(2):
        assert spfgen.evaluate("s = A[i, j]*B[j, k]*D[k, i]", **tensors) == expected
    assert spfgen.einsum("ij,jk,ki", *tensors.values()) == expected
    with pytest.raises(TooManyCases, match="which makes 8 or more"):
        spfgen.compile("s = A[i, j]*B[j, k]*D[k, i]", **dict.fromkeys("ABD", "sym_csr"))


def test_a_layout_of_many_alternatives_is_refused() -> None:
    with pytest.raises(Unsupported, match="`either` make more than 32 pieces when they are expanded") as caught:
        spfgen.pack(np.ones((2,) * 7), LAYOUTS["either"])
    assert "k of them make 2^k pieces" in caught.value.notes[0]


def nested(count: int) -> str:
    sums = "".join(f"sum(i{k}: A[i{k}, i{k - 1}] + " if k else "sum(i0: A[0, i0] + " for k in range(count))
    return f"s = {sums}1{')' * count}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("C[i, j] = " + "*".join(["A[i, j]"] * 30), "with 30 factors that store coordinates .* at most 24"),
        ("C[i, j] = " + " + ".join(["A[i, j]"] * 120), "with 120 operands that store coordinates .* at most 100"),
        ("\n".join(f"C{k}[i, j] = A[i, j]" for k in range(200)), "a kernel of 200 statements .* at most 150"),
        (nested(14), "with 14 sums one in another .* at most 12"),
    ],
    ids=["factors", "operands", "statements", "sums"],
)
def test_how_long_a_kernel_may_be(text: str, message: str) -> None:
    with pytest.raises(Unsupported, match=message) as caught:
        spfgen.compile(text, A="csr")
    assert caught.value.notes


@pytest.mark.parametrize(
    "text",
    [
        "y[i] = " + "(" * 3000 + "x[i]" + ")" * 3000,
        "y[i] = x[" + "(" * 1000 + "i" + ")" * 1000 + "]",
        "y[i] = x[i] where " + " and ".join(["i >= 0"] * 1000),
    ],
    ids=["parentheses", "in a subscript", "conditions"],
)
def test_long_texts(text: str) -> None:
    x = np.arange(4.0)
    np.testing.assert_array_equal(spfgen.evaluate(text, x=x), x)

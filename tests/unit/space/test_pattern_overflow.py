"""What may have no place in its target is known when a kernel is compiled; calls find out whether it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import spfgen
from spfgen.errors import DataError
from spfgen.lang.parse import parse_statements
from spfgen.lang.show import show_statement, show_value
from spfgen.space.pattern_overflow import holds_all


def doubted(text: str, **layouts: Any) -> list[list[str]]:
    """The factors of what is in doubt where the target is given."""
    program = spfgen.compile(text, **layouts).with_given(["C"]).program
    return [[show_value(f) for f in d.factors] for d in program.doubts]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "layouts"),
    [
        ("C[i, j] = A[i, j] + B[i, j] within C", {"A": "csr", "B": "csr", "C": "csr"}),
        ("C[i, j] = A[i, j] + x[i]", {"A": "csr", "x": "dense", "C": "dense"}),
        ("C[i, j] = C[i, j]*x[i]", {"x": "dense", "C": "csr"}),
        ("C[i, j] += C[i, j]*x[i] - C[i, j]/x[j]", {"x": "dense", "C": "csr"}),
        ("C[i, j] = 0", {"C": "csr"}),
        ("C[i, j] = A[i, j] where j <= i", {"A": "csr", "C": "lower"}),
        ("C[i, j] = A[i, j]", {"A": "diagonal", "C": "lower"}),
        ("C[i, i] = x[i]", {"x": "dense", "C": "diagonal"}),
        ("C[i, j] = x[i]*sum(k: A[i, k]) where i = j", {"A": "csr", "x": "dense", "C": "diagonal"}),
    ],
)
def test_what_has_a_place_for_sure(text: str, layouts: dict[str, str]) -> None:
    assert doubted(text, **layouts) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "layouts", "factors"),
    [
        ("C[i, j] = A[i, j] + B[i, j]", {"A": "csr", "B": "csr", "C": "csr"}, [["A[i, j]"], ["B[i, j]"]]),
        ("C[i, j] = A[i, j]", {"A": "csr", "C": "lower"}, [["A[i, j]"]]),
        ("C[i, j] = A[i, j] where j <= i + 1", {"A": "csr", "C": "lower"}, [["A[i, j]"]]),
        ("C[i, j] = A[j, i]", {"A": "csr", "C": "csr"}, [["A[j, i]"]]),
        ("C[i, j] = C[i, j] - 2", {"C": "csr"}, [[]]),
        ("C[i, j] = A[i, j]/x[i]", {"A": "csr", "x": "dense", "C": "csr"}, [["A[i, j]"]]),
        ("C[i, j] = x[i]*y[j]", {"x": "dense", "y": "dense", "C": "diagonal"}, [["x[i]", "y[j]"]]),
        (
            "C[i, j] = sum(k: A[i, k])*sum(k: B[k, j])",
            {"A": "csr", "B": "csr", "C": "csr"},
            [["A[i, k]", "B[k, j]"], ["A[i, k]", "B[k_2, j]"]],  # of the statement where sums are empty; of the points
        ),
    ],
)
def test_what_is_in_doubt(text: str, layouts: dict[str, str], factors: list[list[str]]) -> None:
    assert doubted(text, **layouts) == factors


FIBRES = """
layout fibre_rows(n_1, n_2, n_3) {
    size nnz_1, nnz_2
    relation { [p_1, p_2, r] -> [i, j, l] : 0 <= p_1 < nnz_1 and ptr_2(p_1) <= p_2 < ptr_2(p_1 + 1)
        and 0 <= r < LAST and i = idx_1(p_1) and j = idx_2(p_2) and l = r }
    index idx_1[nnz_1] { range 0 <= idx_1(p) < n_1  property strictly increasing }
    index ptr_2[nnz_1 + 1] { range 0 <= ptr_2(p) <= nnz_2  property increasing }
    index idx_2[nnz_2] { range 0 <= idx_2(p) < n_2  property strictly increasing within ptr_2 }
    value val[nnz_2, n_3] at [p_2, r]
}
kernel ttm {
    tensor A : csf3  tensor B : dense  tensor C : fibre_rows shares A on i, j
    C[i, j, l] = A[ORDER, k]*B[k, l]
}"""


@pytest.mark.parametrize(
    ("last", "order", "count"), [("n_3", "i, j", 0), ("n_3 - 1", "i, j", 1), ("n_3", "j, i", 1)], ids=str
)
def test_the_fibres_of_another_tensor(last: str, order: str, count: int) -> None:
    """Each fibre of the operand is one of the result, and has all of the last coordinates, or not."""
    kernels = spfgen.parse(FIBRES.replace("LAST", last).replace("ORDER", order)).kernels
    assert len(kernels["ttm"].compile().program.doubts) == count


def test_a_pattern_that_is_said_to_be_shared_is_asked_for() -> None:
    kernels = spfgen.parse("""
    kernel asked { tensor A : csr  tensor x : dense  tensor C : csr shares A  C[i, j] = A[i, j] + x[i] }
    kernel partly {
        tensor A : csf3  tensor B : dense  tensor C : csf3 shares A on i, j
        C[i, j, l] = A[i, j, k]*B[k, l]
    }""").kernels
    assert not kernels["asked"].compile().program.doubts
    assert len(kernels["partly"].compile().program.doubts) == 1


def test_the_clause_stands_behind_the_condition() -> None:
    text = "C[i, j] = A[i, j] + B[i, j] where j <= i within C"
    (statement,) = parse_statements(text)
    assert statement.within
    assert show_statement(statement) == text
    first, second = parse_statements("C[i] = a[i] within C\nC[i] += b[i]")
    assert (first.within, second.within) == (True, False)


def test_layouts_that_have_a_place_for_every_coordinate() -> None:
    spec = spfgen.parse("""
    layout blocks(n, m; R = 2) {
        relation { [a, b, r] -> [i, j] : 0 <= R*a < n and 0 <= b < m and 0 <= r < R and i = R*a + r and j = b }
        value val[ceil(n/R), m, R] at [a, b, r]
    }
    layout gap(n) { relation { [p] -> [i] : 0 <= p < n and i = p and p != 3 }  value val[n] at [p] }
    layout short(n) { relation { [p] -> [i] : 0 <= p < n and i = p }  value val[n - 1] at [p] }
    layout halves(n) {
        relation { [p] -> [i] : 0 <= 2*p < n and i = 2*p }
        value val[ceil(n/2)] at [p]
    }""").layouts
    assert holds_all(spec["blocks"].layout(2))
    assert holds_all(spfgen.compile("y[i, j] = 0", y="dense").layouts["y"])
    assert not any(holds_all(spec[n].layout(1)) for n in ("gap", "short", "halves"))


# --- calls -------------------------------------------------------------------------------------------

RNG = np.random.default_rng(11)


def matrix(shape: tuple[int, ...], density: float = 0.4) -> np.ndarray:
    return np.where(RNG.random(shape) < density, RNG.integers(1, 9, shape), 0).astype(float)


def csr(dense: np.ndarray) -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array(dense)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["csr", "csc", "dcsr", "coo", "bcsr(R=2, C=3)", "dia", "ell", "lower", "diagonal"])
def test_what_has_no_place_is_refused_and_what_has_is_computed(layout: str) -> None:
    """A product of two sparse matrices into a pattern that lacks an entry, and into one that has all."""
    a, b = matrix((6, 4)), matrix((4, 6))
    if layout in ("lower", "diagonal"):
        a, b = np.tril(matrix((6, 4))), np.diag(np.ones(6))[:4]
        if layout == "diagonal":
            a = np.diag(np.arange(1.0, 7.0))[:, :4]
    product = a @ b
    where = np.argwhere(product)
    assert len(where)
    kernel = spfgen.compile("C[i, k] = A[i, j]*B[j, k]", A="csr", B="csr", C=layout)
    full = spfgen.pack(product, layout)
    np.testing.assert_array_equal(kernel(A=csr(a), B=csr(b), C=full).to_numpy(), product)
    if layout == "diagonal":
        b[0, 3] = 5.0
        product, less = a @ b, full
    elif layout == "lower":
        b[0, 5] = 1.0
        product, less = a @ b, full
    else:
        less = product.copy()
        less[tuple(where[-1])] = 0
        less = spfgen.pack(less, layout)
    stored = np.zeros(product.shape, bool)
    stored[less.to_coo().coords] = True
    lost = np.argwhere((product != 0) & ~stored)
    if not len(lost):
        assert layout in ("bcsr(R=2, C=3)", "dia", "ell")  # they store more than was packed
        return
    with pytest.raises(DataError, match=rf"stores nothing at \[{lost[0][0]}, {lost[0][1]}\]") as caught:
        kernel(A=csr(a), B=csr(b), C=less)
    assert any("`within C`" in note for note in caught.value.notes)


def test_dense_operands_store_everything() -> None:
    pattern = csr(np.eye(4))
    with pytest.raises(DataError, match=r"stores nothing at \[0, 1\]"):
        spfgen.evaluate("C[i, j] = x[i]*y[j]", x=np.ones(4), y=np.ones(4), C=pattern)
    spfgen.evaluate("C[i, j] = x[i]*y[j] within C", x=np.ones(4), y=np.full(4, 2.0), C=pattern)
    assert pattern.toarray().tolist() == (2 * np.eye(4)).tolist()
    spfgen.evaluate("C[i, j] = x[i]*y[j]", x=np.ones(4), y=np.ones(4), C=(full := csr(np.ones((4, 4)))))
    assert full.toarray().tolist() == np.ones((4, 4)).tolist()


def test_what_is_stored_counts_whatever_its_value() -> None:
    zero = csr(np.eye(3))
    zero.data[:] = 0
    with pytest.raises(DataError, match=r"stores nothing at \[0, 0\]"):
        spfgen.evaluate("C[i, j] = A[i, j]", A=zero, C=csr(np.eye(3)[::-1].copy()))


def test_an_equal_pattern_needs_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampled product into the pattern of the samples, in arrays of its own."""
    from spfgen.run.calls import pattern_overflow

    monkeypatch.setattr(pattern_overflow._Count, "first_lost", None)
    samples, b, d = csr(matrix((5, 6))), matrix((5, 3), 1), matrix((3, 6), 1)
    found = spfgen.evaluate("C[i, j] = S[i, j]*B[i, k]*D[k, j]", S=samples, B=b, D=d, C=samples.copy())
    np.testing.assert_array_equal(found.toarray(), samples.toarray() * (b @ d))


def test_patterns_are_looked_at_when_they_are_new() -> None:
    """Not again while they stay as they are; again when an operand or the target is another one, or has changed."""
    kernel = spfgen.compile("C[i, j] = A[i, j] + B[i, j]", A="csr", B="csr", C="csr").with_given(["C"])
    ones, few = csr(np.ones((3, 3))), csr(np.eye(3))
    kernel(A=ones, B=few, C=csr(np.ones((3, 3))))
    held = csr(np.eye(3))
    kernel(A=few, B=few, C=held)
    counted = kernel._known().places
    assert counted is not None
    seen = dict(counted.seen)
    kernel(A=few, B=few, C=held)
    assert counted.seen == seen
    with pytest.raises(DataError, match="stores nothing"):
        kernel(A=ones, B=few, C=held)
    moved = csr(np.eye(3)[[1, 0, 2]])
    mine = csr(np.eye(3))
    kernel(A=mine, B=few, C=held)
    mine.indices[:] = moved.indices
    with pytest.raises(DataError, match="stores nothing"):
        kernel(A=mine, B=few, C=held)


def test_huge_extents() -> None:
    n = 2**40
    places = np.array([[3, 2**39], [7, 5]])
    a = spfgen.pack((places, np.ones(2)), "coo", shape=(n, n))
    less = spfgen.pack((places[:, :1], np.ones(1)), "coo", shape=(n, n))
    with pytest.raises(DataError, match=r"stores nothing at \[549755813888, 5\]"):
        spfgen.evaluate("C[i, j] = A[i, j]*x", A=a, x=2.0, C=less)


def test_what_is_dense_is_not_looped_over() -> None:
    """2^80 points, which no loop could go through: the extents say how many there are."""
    n = 2**40
    a = spfgen.pack((np.array([[3], [7]]), np.ones(1)), "coo", shape=(n, n))
    less = spfgen.pack((np.array([[3], [7]]), np.ones(1)), "coo", shape=(n, n))
    with pytest.raises(DataError, match=r"stores nothing at \[0, 0\]"):
        spfgen.evaluate("C[i, j] = A[i, j] + 2", A=a, C=less)
    with pytest.raises(DataError, match=r"stores nothing at \[3, 0\]"):
        spfgen.evaluate("C[i, j] = A[i, k]", A=a, C=less)
    row = spfgen.pack((np.array([[3] * 5, range(5)]), np.ones(5)), "coo", shape=(n, 5))
    x = np.arange(5.0)
    spfgen.evaluate("C[i, j] = A[i, k]*x[j]", A=a, x=x, C=row)
    assert row.to_coo().values.tolist() == x.tolist()


def test_extents_that_contradict_are_said_first() -> None:
    with pytest.raises(DataError, match="extents that agree"):
        spfgen.evaluate("C[i, j] = x[i]*y[j]", x=np.ones(3), y=np.ones(4), C=csr(np.eye(4)))


def test_names_that_the_count_has_too() -> None:
    layouts = dict.fromkeys(("anywhere", "all_points", "count_points"), "csr")
    text = "count_points[i, j] = anywhere[i, j] + all_points[i, j]"
    few, ones = csr(np.eye(3)), csr(np.ones((3, 3)))
    kernel = spfgen.compile(text, **layouts)
    kernel(anywhere=few, all_points=few, count_points=csr(np.ones((3, 3))))
    with pytest.raises(DataError, match=r"stores nothing at \[0, 1\]"):
        kernel(anywhere=few, all_points=ones, count_points=few.copy())


def test_always_means_always() -> None:
    few = csr(np.eye(3))
    large = csr(np.ones((300, 300)))
    kernel = spfgen.compile("C[i, j] = A[j, i]", A="csr", C="csr", validate="always")
    kernel(A=few, C=few.copy())
    mine = csr(np.triu(np.ones((300, 300))))
    wanted = csr(np.tril(np.ones((300, 300))))
    kernel(A=mine, C=wanted)
    assert large.nnz > 2 * 4096  # a change between the samples
    row = slice(mine.indptr[150], mine.indptr[151])
    mine.indices[row] -= 1
    with pytest.raises(DataError, match=r"stores nothing at \[149, 150\]"):
        kernel(A=mine, C=wanted)


def test_sizes_and_conditions_count() -> None:
    spec = spfgen.parse("""kernel band {
        tensor A, C : csr  size n
        C[i, j] = A[i, j] where j <= i + n
    }""")
    kernel = spec.kernels["band"].compile()
    lower = csr(np.tril(np.ones((4, 4))))
    kernel(A=csr(np.ones((4, 4))), C=lower, n=0)
    assert lower.toarray().tolist() == np.tril(np.ones((4, 4))).tolist()
    with pytest.raises(DataError, match=r"stores nothing at \[0, 1\]"):
        kernel(A=csr(np.ones((4, 4))), C=lower, n=1)

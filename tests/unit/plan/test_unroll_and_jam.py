"""Several iterations of a loop together: where, and that the sums are right."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Do, UnrollAndJam, is_sum
from spfgen.tuning import JAMMED_ITERATIONS

PRODUCT = "C[i, j] = A[i, j]*B[i, k]*D[k, j]"
SDDMM = f"""kernel k {{{{ tensor A : csr tensor B : dense tensor D : {{second}} tensor C : csr shares A
{PRODUCT} {{schedule}} }}}}"""


def kernel(text: str) -> spfgen.Kernel:
    return spfgen.parse(text).kernels["k"].compile(threads=2)


def groups(made: spfgen.Kernel) -> list[UnrollAndJam]:
    return [n for plan in made.generated.plans for n in walk(plan) if isinstance(n, UnrollAndJam)]


@pytest.fixture(scope="module")
def sddmm() -> spfgen.Kernel:
    return kernel(SDDMM.format(second="dense", schedule=""))


def test_sums_of_a_group(sddmm: spfgen.Kernel) -> None:
    """Each has its own place; the first is stored first, so it is the innermost."""
    found = groups(sddmm)
    assert ["across" in g.because for g in found] == [True, False], "D as it is, and a copy along which sums run"
    for group in found:
        inside = list(walk(group.several))
        assert len([n for n in inside if isinstance(n, Do)]) == JAMMED_ITERATIONS
        places = [n.target.place for n in inside if is_sum(n)]
        assert len(set(places)) == JAMMED_ITERATIONS
        assert [n.target.place for n in inside if isinstance(n, Do)] == places[::-1]


def test_loops_around_others_are_not_written_out_for_each_length(sddmm: spfgen.Kernel) -> None:
    """Beside the sums of a group it takes no time to find the end of a row."""
    assert "spfgen_even" not in sddmm.source


def test_people_are_told_once(sddmm: spfgen.Kernel) -> None:
    told = sddmm.explain()
    assert "loop order: i, A.pj, k" in told
    assert told.count("is stored, C is not cleared") == 1


@pytest.mark.parametrize("entries", range(2 * JAMMED_ITERATIONS + 2))
@pytest.mark.parametrize("terms", [0, 1, 6])
def test_rows_of_each_length(sddmm: spfgen.Kernel, entries: int, terms: int) -> None:
    """Whole groups, what is left of one, no entries at all, and empty rows around them."""
    random = np.random.default_rng(entries)
    a = np.zeros((5, 4096))  # so many columns that D is read as it is
    for row in (1, 3):
        a[row, random.choice(4096, entries, replace=False)] = random.integers(1, 9, entries)
    b, d = random.integers(-3, 4, (5, terms)).astype(float), random.integers(-3, 4, (terms, 4096)).astype(float)
    assert np.array_equal(sddmm(A=spfgen.pack(a, "csr"), B=b, D=d).to_numpy(), a * (b @ d))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["float64", "float32", "complex128", "int64", "int8"])
def test_sums_along_what_lies_side_by_side(kind: str) -> None:
    """Rows of each length; sums that vectors go into, and others."""
    random = np.random.default_rng(4)
    a = np.tril(random.integers(1, 4, (11, 11)), -1).astype(kind)
    declared = kernel(SDDMM.format(second="dense_col", schedule=""))
    (found,) = groups(declared)
    assert "share" in found.because
    for terms in (0, 1, 3, 4, 7, 16, 33, 40):
        b, d = random.integers(-2, 3, (11, terms)).astype(kind), random.integers(-2, 3, (terms, 11)).astype(kind)
        assert np.array_equal(declared(A=spfgen.pack(a, "csr"), B=b, D=np.asfortranarray(d)).to_numpy(), a * (b @ d))


def test_what_is_no_number_stays_with_its_entry(sddmm: spfgen.Kernel) -> None:
    a, b, d = np.zeros((2, 4096)), np.ones((2, 3)), np.ones((3, 4096))
    a[0, :9] = 1.0
    d[1, 2], d[2, 5] = np.nan, np.inf
    found = sddmm(A=spfgen.pack(a, "csr"), B=b, D=d).to_numpy()[0, :9]
    assert np.array_equal(found, [3, 3, np.nan, 3, 3, np.inf, 3, 3, 3], equal_nan=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("layouts", "statement"),
    [
        ({"A": "csr", "D": "dense"}, "C[i, j] += A[i, j]*B[i, k]*D[k, j]"),  # added to what was there
        ({"A": "ell", "D": "dense"}, PRODUCT),
        ({"A": "coo", "D": "dense"}, PRODUCT),
        ({"A": "bcsr", "D": "dense"}, PRODUCT),
    ],
)
def test_other_layouts(layouts: dict[str, str], statement: str) -> None:
    """A dense result, entries that may meet at one place, blocks."""
    made = spfgen.compile(statement, B="dense", C="dense", threads=2, **layouts)
    random = np.random.default_rng(3)
    a = random.integers(1, 9, (12, 30)) * (random.random((12, 30)) < 0.4).astype(float)
    b, d = random.integers(-3, 4, (12, 7)).astype(float), random.integers(-3, 4, (7, 30)).astype(float)
    c = random.integers(0, 5, a.shape).astype(float)
    expected = a * (b @ d) + (c if "+=" in statement else 0)
    own = {"C": c} if "+=" in statement else {}
    found = made(A=spfgen.pack(a, layouts["A"]), B=b, D=d, **own)
    assert np.array_equal(np.asarray(found), expected)


def test_a_scalar_is_a_factor_too() -> None:
    """Columns of a result beside each other, a number in each term (found by fuzzing: it has no place)."""
    made = spfgen.compile("C[j, i] = s*A[i, j]*D[k, j]", A="vbl", D="dense_col", C="dense", threads=2)
    random = np.random.default_rng(5)
    a, d = random.integers(1, 9, (7, 30)).astype(float), random.integers(-3, 4, (20, 30)).astype(float)
    found = made(s=2.0, A=spfgen.pack(a, "vbl"), D=np.asfortranarray(d))
    assert np.array_equal(np.asarray(found), (2 * a * d.sum(axis=0)).T)


@pytest.mark.parametrize(
    "text",
    [
        "kernel k { tensor A, D : dense tensor C : dense C[i, j] = A[i, j, k]*D[i, j, k] }",  # nothing is shared
        "kernel k { size n tensor A : csr tensor B[n, 8] : dense tensor D[n, 8] : dense tensor C : dense"
        " C[i, j] = A[i, j]*B[i, k]*D[j, k] }",  # short sums
        SDDMM.format(second="dense", schedule="schedule { order i, A.pj, k; vectorize k }"),
        "kernel k { tensor A : csr tensor x, y : dense y[i] = A[i, j]*x[j] }",
    ],
)
def test_one_by_one(text: str) -> None:
    assert not groups(kernel(text))


def test_sums_within_a_block_are_left_alone() -> None:
    """Each place of a block has a sum of its own already, and a block has fewer than are taken together."""
    text = """
    layout tiled(nrow, ncol; R = 2, C = 3) {
        relation { [a, b, r, c] -> [i, j] :
            0 <= a < ceil(nrow/R) and 0 <= b < ceil(ncol/C) and 0 <= r < R and 0 <= c < C
            and i = R*a + r and j = C*b + c }
        value val[ceil(nrow/R), ceil(ncol/C), R, C] at [a, b, r, c]
    }
    kernel k { tensor A : tiled tensor D : dense tensor B : bcsr(R=3, C=2)
        D[0, k, k] += B[3 - i, k]*B[j, k]
        s = A[i, j] }
    """
    made = kernel(text)
    assert not groups(made)
    b = np.array([[1, 0], [2, 3], [0, 0], [4, 5]], float)
    d = np.zeros((1, 2, 2))
    spec = spfgen.parse(text)
    made(A=spfgen.pack(np.ones((4, 4)), spec.layouts["tiled"]), B=spfgen.pack(b, "bcsr(R=3, C=2)"), D=d)
    wanted = b[::-1].sum(0) * b.sum(0)
    assert np.array_equal(d[0].diagonal(), wanted)

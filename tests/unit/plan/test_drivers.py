"""Who drives: the schedule, then the text, then another sparse operand that means far less work."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Append, Find, Plan, RowWorkspace, Scan, Versions
from tests.unit.plan.asking import Layout, matrix, of_kind, run


def nests_of(kernel: spfgen.Kernel) -> list[Plan]:
    """The variants among which costs decide, or the plans."""
    by_cost = [v.body for n in of_kind(kernel, Versions) if n.by_cost for v in n.versions]
    return by_cost or list(kernel.generated.plans)


def loops(kernel: spfgen.Kernel) -> list[list[str]]:
    """The dimensions that are passed one by one, outermost first, of each variant."""
    nests = nests_of(kernel)
    result = []
    for nest in nests:
        nodes = list(walk(nest))
        result.append([n.dim for n in nodes if isinstance(n, Scan) or (isinstance(n, Find) and n.key is None)])
    return result


def found(kernel: spfgen.Kernel) -> set[str]:
    return {f.dim for f in of_kind(kernel, Find)}


SPMV = "y[i] = A[i, j]*x[j]"
PRODUCT = "C[i, j] = A[i, j]*B[i, j]"
DRIVES = [
    # statement, layouts -> the first position that is passed one by one, and what is looked for
    (SPMV, {"A": "csr", "x": "dense"}, "A.pj", set()),
    (SPMV, {"A": "csr", "x": "sv"}, "A.pj", {"x.p"}),
    (SPMV, {"A": "csc", "x": "sv"}, "x.p", set()),
    (SPMV, {"A": "dense", "x": "sv"}, "x.p", set()),
    (SPMV, {"A": "vbr", "x": "dense"}, "A.b", set()),  # its k, declared before pb, is read at pb
    ("y[i] = A[j, i]*x[j]", {"A": "csr", "x": "sv"}, "x.p", set()),
    ("y[i] = A[j, i]*x[j]", {"A": "csc", "x": "sv"}, "A.pi", {"x.p"}),
    ("s = x[i]*y[i]", {"x": "dense", "y": "sv"}, "y.p", set()),
    ("s = x[i]*y[i]", {"x": "sv", "y": "dense"}, "x.p", set()),
    (PRODUCT, {"A": "csr", "B": "coo_unsorted"}, "B.p", {"A.pj"}),
    (PRODUCT, {"A": "coo_unsorted", "B": "csr"}, "A.p", {"B.pj"}),
    (PRODUCT, {"A": "dense", "B": "csr"}, "B.pj", set()),
    ("C[i, k] = A[i, j]*B[j, k]", {"A": "csr", "B": "csr"}, "A.pj", set()),
    ("C[i, k] = A[i, j]*B[j, k]", {"A": "csc", "B": "csr"}, "A.pi", set()),
]  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("text", "layouts", "driver", "looked_for"), DRIVES)
def test_who_drives(text: str, layouts: dict[str, Layout], driver: str, looked_for: set[str]) -> None:
    target = text[0]
    kernel = spfgen.compile(text, **layouts, **({target: "dense"} if target != "s" else {}))
    assert found(kernel) == looked_for
    for nest in loops(kernel):
        assert next(d for d in nest if "." in d) == driver


ORDERS = [
    (PRODUCT, {"A": "csr", "B": "csr", "C": "dense"}, ["i", "A.pj"], ["i", "B.pj"]),
    (PRODUCT, {"A": "csr", "B": "coo_unsorted", "C": "dense"}, ["A.pi", "A.pj"], ["B.p"]),
    (SPMV, {"A": "csr", "x": "sv", "y": "dense"}, ["i", "A.pj"], ["x.p", "i"]),
    (SPMV, {"A": "csc", "x": "sv", "y": "dense"}, ["A.pj", "A.pi"], ["x.p", "A.pi"]),
    ("s = x[i]*y[i]", {"x": "sv", "y": "sv_unsorted"}, ["x.p"], ["y.p"]),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("text", "layouts", "one", "two"), ORDERS)
def test_the_schedule_decides(text: str, layouts: dict[str, str], one: list[str], two: list[str]) -> None:
    """In either order the same result, and the first loop is the one that the schedule names."""
    rng = np.random.default_rng(1)
    operands = {}
    for name, layout in layouts.items():
        if name in "yC" and layout == "dense":
            continue
        shape = (13, 13) if name in "AB" else (13,)
        operands[name] = np.where(rng.random(shape) < 0.4, rng.integers(1, 9, shape), 0).astype(float)
    results = []
    for order in (one, two, []):
        kernel = spfgen.compile(text, order=order, **layouts)
        if order:
            for nest in loops(kernel):
                assert [d for d in nest if d in order] == [d for d in order if d in nest]
                assert {d.partition(".")[0] for d in nest if "." in d} == {
                    d.partition(".")[0] for d in order if "." in d
                }
        results.append(run(kernel, 2, **operands))
    assert all(np.array_equal(r, results[0]) for r in results)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("order", list(permutations(["A.pi", "B.pi", "x.p"])))
def test_every_order_of_three(order: tuple[str, ...]) -> None:
    text = "s = x[i]*A[i, j]*B[i, j]"
    a, b, x = matrix((9, 8), 0.5, 1), matrix((9, 8), 0.5, 2), matrix((9, 1), 0.6, 3)[:, 0]
    kernel = spfgen.compile(text, order=order, A="dcsr", B="dcsr", x="sv")
    assert all(nest[0] == order[0] for nest in loops(kernel))
    assert run(kernel, A=a, B=b, x=x) == np.einsum("i,ij,ij->", x, a, b)


def test_what_is_forced_to_be_found_does_not_drive() -> None:
    """csc x sv: without a schedule x drives; then x.p cannot be found, so A does."""
    free = spfgen.compile(SPMV, A="csc", x="sv", y="dense")
    assert found(free) == set()
    forced = spfgen.compile(SPMV, finds={"x.p": "hash"}, A="csc", x="sv", y="dense")
    assert found(forced) == {"x.p"}
    a, x = matrix((9, 8), 0.5, 1), matrix((8, 1), 0.5, 2)[:, 0]
    assert np.array_equal(run(forced, A=a, x=x), run(free, A=a, x=x))
    assert np.array_equal(run(forced, A=a, x=x), a @ x)


def test_a_row_that_must_be_searched_from_end_to_end_is_no_look_up() -> None:
    """ell rows are not proved sorted: with x driving, all of A is compared once for every element of x."""
    kernel = spfgen.compile(SPMV, A="ell", x="sv", y="dense")
    assert found(kernel) == {"x.p"}


def test_one_access_that_is_looked_for_is_enough() -> None:
    """y is read twice, at one position: it is looked for once."""
    text = "s = x[i]*y[i]*y[i]"
    written = spfgen.parse(
        f"kernel k {{ tensor x : dense tensor y : sv {text} schedule {{ order i find y.p : hash }} }}"
    )
    x, y = np.arange(5.0), np.array([1.0, 0.0, 2.0, 0.0, 3.0])
    assert run(written.kernels["k"].compile(), x=x, y=y) == (x * y * y).sum()
    assert (
        run(spfgen.compile(text, order=["i"], finds={"y.p": "hash"}, x="dense", y="sv"), x=x, y=y) == (x * y * y).sum()
    )


# --- results whose pattern is computed ---------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("statement", "layouts"),
    [
        ("C[j, k] = sum(i: A[i, j]*B[i, k])", {"A": "csr", "B": "csr"}),
        ("C[i, j] = sum(k: A[i, k]*B[k, j])", {"A": "csc", "B": "csr"}),
        ("C[i, j] = sum(k: A[i, k]*B[k, j])", {"A": "coo_unsorted", "B": "dcsr"}),
        ("C[i, k] = sum(j: A[j, i]*d[j]*B[j, k])", {"A": "csr", "B": "csr", "d": "dense"}),
    ],
)
def test_products_come_row_by_row(statement: str, layouts: dict[str, str]) -> None:
    """All entries of a row are summed before the next one, or there would be one for each product, to be sorted."""
    kernel = spfgen.compile(statement, C="csr", **layouts)
    nests = nests_of(kernel)
    for nest in nests:
        gathers = [n for n in walk(nest) if isinstance(n, RowWorkspace)]
        inside = [n for g in gathers for n in walk(g) if isinstance(n, Append)]
        assert inside
        assert len(inside) == sum(isinstance(n, Append) for n in walk(nest))
    rng = np.random.default_rng(2)
    a, b = (np.where(rng.random((9, 9)) < 0.3, rng.integers(1, 9, (9, 9)), 0).astype(float) for _ in range(2))
    d = np.arange(9.0)
    given = {n: d if n == "d" else spfgen.pack(a if n == "A" else b, own) for n, own in layouts.items()}
    left = a.T if "A[i, j]*B[i" in statement else a.T * d if "d[j]" in statement else a
    assert np.array_equal(kernel(**given).to_numpy(), left @ b)

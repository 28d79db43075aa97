"""spfgen.einsum is numpy.einsum, on dense and on sparse operands."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import spfgen
from spfgen.errors import DataError, UsageError

FORMS = ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")


def same(found: object, wanted: object) -> None:
    """Equal values, type and shape; integers and bool exactly."""
    assert isinstance(found, np.ndarray) == isinstance(wanted, np.ndarray)
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    assert np.allclose(found, wanted, rtol=1e-5) if found.dtype.kind in "fc" else np.array_equal(found, wanted)


def dense(seed: int, *shape: int, kind: str = "float64") -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, shape) * (rng.random(shape) < 0.6)
    return (values + 1j * rng.integers(-3, 4, shape)).astype(kind) if kind[0] == "c" else values.astype(kind)


# --- subscripts ----------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,j->i", [(3, 4), (4,)]),
        ("ij,j", [(3, 4), (4,)]),
        ("ba", [(2, 3)]),
        ("Ba", [(2, 3)]),
        ("aI,I->", [(2, 3), (3,)]),
        ("i j , j -> i", [(3, 4), (4,)]),
        ("ij,jk", [(3, 1), (4, 5)]),
        ("ij,jk", [(1, 4), (1, 1)]),
        ("i,i", [(1,), (0,)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("iij->j", [(2, 2, 3)]),
        ("...ij,...jk", [(2, 3, 4), (5, 1, 4, 2)]),
        ("i...j,j->...i", [(2, 3, 4), (4,)]),
        ("...,...", [(3,), (2, 1)]),
        ("...i->...", [(2, 3)]),
        ("...i->i", [(3,)]),
        ("...", [()]),
        ("i,j", [(2,), (3,)]),
        (",i", [(), (3,)]),
        ("", [()]),
        ("->", [()]),
        ("ij->", [(0, 3)]),
        ("ij,jk,kl", [(2, 3), (3, 2), (2, 4)]),
    ],
)
def test_subscripts(subscripts, shapes) -> None:
    operands = [dense(k, *shape) for k, shape in enumerate(shapes)]
    same(spfgen.einsum(subscripts, *operands, threads=1), np.einsum(subscripts, *operands))


def test_labels_in_lists() -> None:
    a, x = dense(0, 3, 4), dense(1, 4)
    for arguments in (
        (a, [0, 1], x, [1], [0]),
        (a, [0, 1], x, [1]),
        (a, [30, 2]),
        (a, [..., 1], x, [1], [...]),
    ):
        same(spfgen.einsum(*arguments), np.einsum(*arguments))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("optimize", [True, "greedy", "optimal", ["einsum_path", (1, 2), (0, 1)], False])
@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("ij,jk,ik", [(2, 3), (1, 4), (2, 4)]),
        ("...ij,j...,i->...", [(2, 1, 3), (3, 1), (1,)]),
        ("i,i,i->", [(3,), (3,), (1,)]),
    ],
)
def test_one_after_another(subscripts, shapes, optimize) -> None:
    operands = [dense(k, *shape) for k, shape in enumerate(shapes)]
    wanted = np.einsum(subscripts, *operands)
    sparse = [sp.csr_array(operands[0]) if operands[0].ndim == 2 else operands[0], *operands[1:]]
    same(spfgen.einsum(subscripts, *sparse, optimize=optimize, threads=1), wanted)


def test_paths_that_are_none() -> None:
    for wrong in ("best", 3, ["einsum_path", (0, 7), (0, 1)], ["einsum_path"]):
        with pytest.raises(UsageError, match="optimize"):
            spfgen.einsum("i,i,i", *[np.ones(2)] * 3, optimize=wrong)


def test_many_operands() -> None:
    vectors = [np.arange(2.0) + k for k in range(27)]
    same(spfgen.einsum(",".join("i" * 27), *vectors), np.prod(vectors, axis=0).sum())


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ((), UsageError, ["none", 'einsum("ij,j", A, x)']),
        (("ij,j", np.eye(2)), UsageError, ["2 operands", "there is 1"]),
        (("i->ii", np.ones(2)), UsageError, ["`i`", "twice"]),
        (("i->j", np.ones(2)), UsageError, ["`j`", "no operand"]),
        (("i->i->i", np.ones(2)), UsageError, ["`-`", "letters"]),
        (("..i", np.ones(2)), UsageError, ["`.`"]),
        (("...i...", np.ones((2, 2))), UsageError, ["`.`"]),
        (("i1", np.eye(2)), UsageError, ["`1`"]),
        (("i", np.eye(2)), DataError, ["`i`", "2 dimensions", "..."]),
        (("ijk", np.eye(2)), DataError, ["`ijk`", "2 dimensions"]),
        (("...i->i", np.eye(2)), UsageError, ["..."]),
        (("ii", np.ones((1, 3))), DataError, ["`i`", "1 in operand 1 and 3 in operand 1"]),
        (("ij,jk", np.ones((2, 3)), np.ones((4, 5))), DataError, ["`j`", "3 in operand 1 and 4 in operand 2"]),
        (("...,...", np.ones(2), np.ones(3)), DataError, ["`...`", "2 in operand 1 and 3 in operand 2"]),
        ((np.eye(2), "ij"), UsageError, ["text", "ndarray"]),
        ((np.eye(2), [0, 99]), UsageError, ["51", "99"]),
        ((b"ij", np.eye(2)), UsageError, ["bytes"]),
        (("i", np.ones(2, np.float16)), DataError, ["`A`", "float16", "complex128"]),
        (("i", np.array(["a"])), DataError, ["`A`"]),
        (("i", np.array([None])), DataError, ["`A`", "object"]),
    ],
)
def test_what_is_refused(arguments, kind, words) -> None:
    with pytest.raises(kind) as caught:
        spfgen.einsum(*arguments)
    for word in words:
        assert word in str(caught.value)


# --- results -------------------------------------------------------------------------------------------


def test_an_output_in_place() -> None:
    a, x = sp.csr_array(dense(0, 3, 4)), dense(1, 4)
    out = np.full(3, 9.0)
    assert spfgen.einsum("ij,j->i", a, x, out=out) is out
    same(out, a @ x)
    turned = np.zeros((4, 3)).T
    assert spfgen.einsum("ij->ij", a, out=turned) is turned
    same(turned, a.toarray())
    for wrong in (np.zeros(4), np.zeros(3, np.int64), np.zeros(6)[::2], [0.0] * 3, x):
        with pytest.raises(DataError, match="out"):
            spfgen.einsum("ij,j->i", a, x, out=wrong)


def test_a_result_of_one_operand_is_new() -> None:
    a = dense(0, 3, 4)
    assert not np.shares_memory(spfgen.einsum("ij->ij", a), a)


def test_numbers() -> None:
    for number in (2, 2.5, 2j, True, np.float32(2.5)):
        x = np.array([1, 2], np.int8)
        same(spfgen.einsum("i,->i", x, number), np.einsum("i,->i", x, number))


def test_what_is_not_stored_contributes_nothing() -> None:
    a = sp.csr_array(np.array([[0.0, 2.0]]))
    assert spfgen.einsum("ij,j->i", a, np.array([np.inf, 1.0])).tolist() == [2.0]
    assert np.isnan(np.einsum("ij,j->i", a.toarray(), np.array([np.inf, 1.0]))).tolist() == [True]


# --- types and formats ---------------------------------------------------------------------------------

KINDS = ["bool", "int8", "uint8", "int32", "uint16", "int64", "uint64", "float32", "float64", "complex64", "complex128"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", KINDS)
def test_types(kind) -> None:
    """Sums of small integers overflow as numpy's do."""
    a, x = dense(3, 6, 7, kind=kind), dense(4, 7, kind=kind)
    if a.dtype.kind in "iu":
        a, x = a * np.array(57).astype(kind), x * np.array(41).astype(kind)
    for operand in (a, sp.csr_array(a)):
        same(spfgen.einsum("ij,j->i", operand, x, threads=1), np.einsum("ij,j->i", a, x))


@pytest.mark.filterwarnings("ignore::spfgen.CopyWarning")  # scipy's diagonals end with their last entry
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(["ij,j->i", "ij,ij->i", "ij,jk->ik"]),
    st.tuples(*[st.sampled_from((0, 1, 2, 5))] * 3),
    st.sampled_from(FORMS),
    st.sampled_from(("csr", "coo", "dense")),
    st.integers(0, 99),
)
def test_random_operands(subscripts, extents, first, second, seed) -> None:
    sizes = dict(zip("ijk", extents, strict=True))
    left, right = subscripts.partition("->")[0].split(",")
    a, b = (dense(seed + k, *[sizes[c] for c in part]) for k, part in enumerate((left, right)))
    if first == "bsr" and 0 in a.shape:
        first = "csr"
    operands = [
        sp.coo_array(a).asformat(first),
        b if second == "dense" or b.ndim == 1 else sp.coo_array(b).asformat(second),
    ]
    same(spfgen.einsum(subscripts, *operands, threads=1), np.einsum(subscripts, a, b))


def test_type_of_the_calculation():
    """As numpy's `dtype`: operands are brought to it where it holds them."""
    matrix = np.array([[200, 100], [100, 250]], np.uint8)
    sparse = spfgen.pack(matrix, "csr")
    for kind in ("uint16", "int64", "float32", "complex128", "uint8"):
        found = spfgen.einsum("ij,j->i", sparse, matrix[0], dtype=kind)
        expected = np.einsum("ij,j->i", matrix, matrix[0], dtype=kind)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    assert sparse.dtype == "uint8"
    with pytest.raises(UsageError, match="expected `A` to fit int8, but it is uint8"):
        spfgen.einsum("ij,j", sparse, matrix[0], dtype="int8")
    for wrong in ("nonsense", "float16", 3, object):
        with pytest.raises(UsageError, match="expected a dtype that kernels have"):
            spfgen.einsum("ij,j", sparse, matrix[0], dtype=wrong)


def test_a_result_in_a_layout() -> None:
    matrix = dense(1, 6, 6)
    a, b = spfgen.pack(matrix, "csr"), spfgen.pack(matrix, "csc")
    found = spfgen.einsum("ij,jk,kl->il", a, b, a, layout="csc", optimize=True)
    assert found.layout.name == "csc"
    same(found.to_numpy(), np.linalg.matrix_power(matrix, 3))
    with pytest.raises(UsageError, match="`out` or `layout`"):
        spfgen.einsum("ij,jk->ik", a, b, out=np.zeros((6, 6)), layout="csr")
    with pytest.raises(UsageError, match="a layout of 1 dimension"):
        spfgen.einsum("ij->i", a, layout="csr")

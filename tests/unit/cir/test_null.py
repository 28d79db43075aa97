"""What C callers may get wrong: null pointers are an error code, unless the array has no elements."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_double, c_int32, c_int64

import pytest

import spfgen
from spfgen.run.compile import build, load

OK, NULL, SHAPE = 0, 1, 2


class Csr(ctypes.Structure):
    _fields_ = [
        *((n, c_int64) for n in ("nrow", "ncol", "nnz")),
        ("rowptr", POINTER(c_int32)),
        ("colidx", POINTER(c_int32)),
        ("val", POINTER(c_double)),
    ]


class Vector(ctypes.Structure):
    _fields_ = [("n_1", c_int64), ("val", POINTER(c_double))]


KERNEL = spfgen.compile("y[i] = A[i,j]*x[j]", A="csr", x="dense", y="dense", name="product_with_checks")


@pytest.mark.parametrize(
    ("missing", "nnz", "status"),
    [
        ("", 2, OK),
        ("A.rowptr", 2, NULL),
        ("A.colidx", 2, NULL),
        ("A.val", 2, NULL),
        ("x.val", 2, NULL),
        ("y.val", 2, NULL),
        ("A.colidx", 0, OK),  # it has no elements
        ("A.rowptr", 0, NULL),  # it has
    ],
)
def test_null_pointers_in_structs(missing: str, nnz: int, status: int) -> None:
    library = load(build(KERNEL.generated.whole, optimise=False))
    pointers = (c_int32 * 3)(0, nnz, nnz), (c_int32 * 2)(0, 1), (c_double * 2)(5, 6)
    results = (c_double * 2)(7, 7)
    given = {
        "A": Csr(2, 2, nnz, *pointers),
        "x": Vector(2, (c_double * 2)(1, 10)),
        "y": Vector(2, results),
    }
    tensor, _, field = missing.partition(".")
    if missing:
        setattr(given[tensor], field, None)
    found = library.product_with_checks(*(byref(t) for t in given.values()), 1)
    assert found == status
    assert list(results) == ([65.0 if nnz else 0.0, 0.0] if status == OK else [7, 7])


def test_headers_say_what_is_asked_of_arrays() -> None:
    header = " ".join(KERNEL.header.split())
    for words in ("must not overlap", "Index arrays are trusted", "a kernel frees none of them"):
        assert words in header

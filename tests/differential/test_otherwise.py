"""Results that the C cannot make: what words the error updates nothing a second time."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError

UPPER = np.triu(np.ones((4, 4)))


def test_what_a_failed_call_updates_is_updated_once() -> None:
    kernel = spfgen.compile("y[i] += A[i,j]\nR[i,j] = A[i,j]*2", A="csr", R="sym_csr", y="dense")
    y = np.zeros(4)
    with pytest.raises(DataError, match="R"):
        kernel(A=spfgen.pack(UPPER, "csr"), y=y)
    np.testing.assert_array_equal(y, UPPER.sum(axis=1))

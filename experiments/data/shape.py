"""The one form in which all experiments get their matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array


def as_csr(matrix: Any) -> csr_array:
    """csr_array with float64 values, int32 indices, sorted, no place twice; stored zeros stay."""
    csr = csr_array(matrix)
    csr.sum_duplicates()
    if csr.nnz > np.iinfo(np.int32).max:
        raise ValueError("expected fewer than 2**31 entries")
    parts = (csr.data.astype(np.float64), csr.indices.astype(np.int32), csr.indptr.astype(np.int32))
    return csr_array(parts, shape=csr.shape)

"""Arrays of torch and jax as arrays of numpy and entries, and back; neither is imported before one of them is there.
Sparse columns of pandas as entries.

Dense arrays are shared where they lie in memory of the processor, by DLPack; sparse ones become tensors over the same
arrays where a layout has them, else entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spfgen.errors import DataError
from spfgen.public import check_import
from spfgen.run.coordinates import Coordinates

if TYPE_CHECKING:
    pass


LAZY = "spfgen.run.arrays.lazy"


def is_elsewhere(value: object) -> bool:
    """Whether it is an array of torch or jax, or sparse columns of pandas."""
    package = type(value).__module__.partition(".")[0]
    return (package in ("torch", "jax", "jaxlib") and hasattr(value, "dtype")) or (
        package == "pandas" and _is_sparse(value)
    )


def is_lazy(value: object) -> bool:
    """Whether it is an array of spfgen that is to be computed."""
    return type(value).__module__ == LAZY and hasattr(value, "compute")


def settled(value: Any) -> Any:
    """What an operand stands for: lazy arrays are computed, arrays of torch and jax and sparse columns of pandas are
    brought into numpy's or scipy's form, or become entries. Raises DataError, UsageError."""
    check_import(value)
    if is_lazy(value):
        value = value.compute()
    return own(value) if is_elsewhere(value) else value


def own(value: Any) -> Any:
    """What `is_elsewhere` in numpy's or scipy's form, or its entries."""
    match type(value).__module__.partition(".")[0]:
        case "torch":
            return _of_torch(value)
        case "pandas":
            return _of_pandas(value)
    return _of_jax(value)


def _is_sparse(value: Any) -> bool:
    """Whether it is a DataFrame of sparse columns, or a Series or an array of pandas that is one."""
    types = [*value.dtypes] if hasattr(value, "columns") else [getattr(value, "dtype", None)]
    return bool(types) and all(hasattr(t, "subtype") and hasattr(t, "fill_value") for t in types)


def _of_pandas(value: Any) -> Any:
    """Sparse columns as entries; a dense array where their fill values differ, because a tensor has one."""
    columns = [c.array for _, c in value.items()] if hasattr(value, "columns") else [getattr(value, "array", value)]
    fills = np.asarray([c.fill_value for c in columns])
    if fills.dtype == object or not ((fills == fills[0]) | ((fills != fills) & (fills[0] != fills[0]))).all():
        return np.stack([np.asarray(c) for c in columns], axis=-1)
    rows = [c.sp_index.to_int_index().indices.astype(np.int64) for c in columns]
    kind = np.result_type(*[c.sp_values.dtype for c in columns])
    values = np.concatenate([c.sp_values.astype(kind) for c in columns])
    if np.ndim(value) == 1:
        return Coordinates((len(value),), (rows[0],), values, fills[0])
    places = np.repeat(np.arange(len(columns)), [len(r) for r in rows])
    return Coordinates(tuple(map(int, value.shape)), (np.concatenate(rows), places), values, fills[0])


def _of_torch(value: Any) -> Any:
    if value.requires_grad:
        hint = "gradients do not pass through a kernel: pass tensor.detach()"
        raise DataError("expected a tensor of torch without gradients, but it requires them", None, (hint,))
    if value.device.type != "cpu":
        raise DataError(
            f"expected a tensor of torch on the CPU, but it is on {value.device}", None, ("pass tensor.cpu()",)
        )
    import torch

    match value.layout:
        case torch.strided:
            return value.resolve_conj().resolve_neg().numpy()
        case torch.sparse_coo:
            coords = tuple(c.numpy().astype(np.int64) for c in value._indices())
            return Coordinates(tuple(value.shape), coords, value._values().numpy())
        case torch.sparse_csr | torch.sparse_csc if value.ndim == 2 and value.values().ndim == 1:
            from scipy import sparse

            is_rows = value.layout is torch.sparse_csr
            pointers = value.crow_indices() if is_rows else value.ccol_indices()
            indices = value.col_indices() if is_rows else value.row_indices()
            kind = sparse.csr_array if is_rows else sparse.csc_array
            return kind((value.values().numpy(), indices.numpy(), pointers.numpy()), shape=tuple(value.shape))
    hint = "pass tensor.to_sparse_coo().coalesce()"
    raise DataError(
        f"expected a tensor of torch that is dense, coo, csr or csc, but it is {value.layout}", None, (hint,)
    )


def _of_jax(value: Any) -> Any:
    if hasattr(value, "indices") and hasattr(value, "data"):  # a BCOO or BCSR of jax.experimental.sparse
        kind = type(value).__name__
        if getattr(value, "n_batch", 0) or getattr(value, "n_dense", 0):
            hint = f"make it so: {kind}.fromdense(A.todense())"
            message = f"expected a {kind} array of jax without batch and dense dimensions, but it has some"
            raise DataError(message, None, (hint,))
        coords, values = _of_tracer(value.indices), _of_tracer(value.data)
        if hasattr(value, "indptr"):
            pointers = _of_tracer(value.indptr)
            rows = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
            coords, values = np.stack([rows, coords[: len(rows)]], axis=1), values[: len(rows)]
        inside = (coords < np.asarray(value.shape)).all(axis=1)  # jax pads with coordinates outside
        columns = tuple(c.astype(np.int64) for c in coords[inside].T)
        return Coordinates(tuple(value.shape), columns, values[inside])
    return _of_tracer(value)


def _of_tracer(value: Any) -> Any:
    """An array of numpy. Raises DataError for one that jax has no values of yet."""
    try:
        return np.asarray(value)
    except TypeError:
        hint = "call it outside of jax.jit, or by jax.pure_callback"
        raise DataError("expected an array of jax with values, but jax traces it: it has none", None, (hint,)) from None

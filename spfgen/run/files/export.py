"""A tensor as an array of scipy.sparse: over the same arrays where scipy has its layout, else by coordinates."""

from __future__ import annotations

from typing import Any

from spfgen.errors import DataError, UsageError
from spfgen.lang.expressions import counted, did_you_mean
from spfgen.layout.nodes import Binding
from spfgen.run.tensor import Tensor, check_unchanged

CONSTRUCTORS = (("data", "indices", "indptr"), ("data", "offsets"), ("data", "coords"))
"""The attributes of scipy's arrays in the order in which its constructors take them."""
FORMATS = tuple("bsr coo csc csr dia dok lil".split())
"""Of scipy.sparse, by its own names."""


def to_scipy(tensor: Tensor, form: str | None) -> Any:
    """See Tensor.to_scipy."""
    if form is not None and form not in FORMATS:
        message = f"expected a format of scipy.sparse, but `{form}` is not one"
        raise UsageError(message, None, (did_you_mean(str(form), FORMATS) or f"its formats: {', '.join(FORMATS)}",))
    if tensor.layout.fill_text != "0":
        message = f"expected the fill value 0, which arrays of scipy.sparse have, but it is {tensor.layout.fill_text}"
        hints = ("`tensor.convert(layout, fill=0)` stores what holds it, `tensor.to_coo()` has the entries alone",)
        raise DataError(message, None, hints)
    if not tensor.shape:
        raise DataError("expected a tensor with dimensions, but this is a number")
    check_unchanged(tensor)
    matrix = next((a for b in tensor.layout.bindings if (a := _in_place(tensor, b)) is not None), None)
    if matrix is None:
        matrix = _by_coordinates(tensor)
    if form is None or matrix.format == form:
        return matrix
    try:
        return matrix.asformat(form)
    except (ValueError, NotImplementedError) as error:
        raise DataError(f"expected a tensor that scipy.sparse has in format {form}, but {error}") from None


def _in_place(tensor: Tensor, binding: Binding) -> Any | None:
    """The scipy array over the arrays of the tensor; None where scipy has no such arrays."""
    from scipy import sparse

    if binding.library != "scipy" or len(binding.arrays) != len(tensor.layout.arrays):
        return None
    parts: dict[str, Any] = {}
    for array, attribute, part in binding.arrays:
        if part is None:
            parts[attribute] = tensor.arrays[array]
        else:
            parts.setdefault(attribute, {})[part] = tensor.arrays[array]
    parts = {n: tuple(a[k] for k in sorted(a)) if isinstance(a, dict) else a for n, a in parts.items()}
    order = next((names for names in CONSTRUCTORS if set(names) == set(parts)), None)
    kind = getattr(sparse, f"{binding.format}_array", None)
    if order is None or kind is None:
        return None
    try:
        return kind(tuple(parts[n] for n in order), shape=tensor.shape)
    except (ValueError, TypeError):  # such as blocks that do not divide the shape
        return None


def _by_coordinates(tensor: Tensor) -> Any:
    from scipy import sparse

    entries = tensor.to_coo()
    try:
        return sparse.coo_array((entries.values, entries.coords), shape=entries.shape)
    except (ValueError, TypeError) as error:
        rank = counted(len(entries.shape), "dimension")
        raise DataError(f"expected a tensor that scipy.sparse has, but with {rank}: {error}") from None

"""Terms of sparse sums: dask adds the products of chunks by putting them along an axis and summing over it."""

from __future__ import annotations

from typing import Any

import numpy as np

from spfgen.layout.nodes import Layout
from spfgen.run.arrays.entries import entries_of, normal
from spfgen.run.arrays.made import tensor_from
from spfgen.run.arrays.reductions import axes_of
from spfgen.run.calls.layout_signature import canonical
from spfgen.run.tensor import Array, Tensor


class ProductTerm(Tensor):
    """The product of two chunks, with an axis of extent 1 for each index that is summed.

    Its sum is sparse, where that of another tensor is dense: what is added are matrices, not the elements of one. With
    `keepdims` the sum is a term again, without it is the result, a plain tensor or a number.
    """

    def __getitem__(self, key: Any) -> Any:
        return as_term(super().__getitem__(key))

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        return as_term(super().reshape(*shape, order=order))

    def _reduced(self, name: str, axis: Any, keepdims: bool, **options: Any) -> Any:
        axes = axes_of(axis, self.ndim)
        if name != "add" or (len(axes) == self.ndim and not keepdims):
            return super()._reduced(name, axis, keepdims, **options)
        entries, kind = entries_of(self), np.dtype(options.get("dtype") or self.dtype)
        dimensions = [d for d in range(self.ndim) if keepdims or d not in axes]
        shape = tuple(1 if d in axes else entries.shape[d] for d in dimensions)
        columns = [np.zeros_like(entries.coords[d]) if d in axes else entries.coords[d] for d in dimensions]
        summed = normal(shape, columns, entries.values.astype(kind, copy=False), kind.type(0))
        result = tensor_from(summed, [self.layout])
        return as_term(result) if keepdims else result

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.layout, dict(self.sizes), dict(self.arrays))


def _rebuilt(layout: Layout, sizes: dict[str, int], arrays: dict[str, Array]) -> ProductTerm:
    return ProductTerm(canonical(layout), sizes, arrays)


def as_term(value: Any) -> Any:
    """What a function of chunks gives, as a term of the sum where it is a sparse tensor with the fill value 0."""
    is_sparse = isinstance(value, Tensor) and value.layout.fill_text == "0"
    return ProductTerm(value.layout, value.sizes, value.arrays) if is_sparse else value

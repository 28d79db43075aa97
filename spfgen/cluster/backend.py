"""What dask asks of a type of chunks: sizes in memory, names of contents, and functions that join and multiply chunks.

Most functions of dask.array call numpy's, which call ours. Those here are the ones where that is not enough.
`register_sizes` is the entry point that dask loads by itself; `register` completes it once dask.array is there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spfgen.run.tensor import Tensor

PACKAGE = "spfgen"


def register_sizes(sizeof: Any) -> None:
    """dask's entry point `dask.sizeof`, called while dask is imported: nothing of ours, nor of dask.array, is imported
    before dask asks for the size of a tensor."""

    def sizes() -> None:
        from spfgen.run.tensor import Tensor

        sizeof.register(Tensor, sys.getsizeof)
        if "dask.array" in sys.modules:
            register()

    sizeof.register_lazy(PACKAGE, sizes)


@cache
def register() -> None:
    """Make tensors chunks of dask.array. To do so again changes nothing."""
    from dask.array import dispatch, register_chunk_type
    from dask.sizeof import sizeof

    from spfgen.run.tensor import Tensor

    sizeof.register(Tensor, sys.getsizeof)
    register_chunk_type(Tensor)
    dispatch.concatenate_lookup.register(Tensor, joined)
    dispatch.tensordot_lookup.register(Tensor, tensordot)
    dispatch.einsum_lookup.register(Tensor, einsum)
    dispatch.to_numpy_dispatch.register(Tensor, to_numpy)


def token(tensor: Tensor) -> tuple[object, ...]:
    """What names the contents of a tensor for dask: equal tensors have equal ones, in every process."""
    from dask.base import normalize_token

    layout = tensor.layout
    parts = (layout.title, layout.parameters, layout.relation, layout.indexes, layout.values, layout.fill_text)
    written = "\n".join(map(repr, parts))
    return "spfgen.Tensor", written, sorted(tensor.sizes.items()), normalize_token(dict(tensor.arrays))


def to_numpy(data: Tensor, **_: object) -> Any:
    """What `to_backend("numpy")` makes of a chunk."""
    return data.to_numpy()


def joined(chunks: Sequence[Any], axis: int = 0) -> Any:
    """numpy.concatenate; of terms of a sum it is one, too."""
    import numpy as np

    from spfgen.cluster.terms import ProductTerm, as_term

    whole = np.concatenate(chunks, axis=axis)
    return as_term(whole) if all(isinstance(c, ProductTerm) for c in chunks) else whole


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """numpy.tensordot. Of sparse chunks it is the term of a sparse sum."""
    import numpy as np

    from spfgen.cluster.terms import as_term

    return as_term(np.tensordot(a, b, axes))


def einsum(*operands: Any, **options: Any) -> Any:
    """numpy.einsum. Of sparse chunks it is the term of a sparse sum."""
    from spfgen.cluster.terms import as_term
    from spfgen.run.arrays.einsum import einsum as tensor_einsum
    from spfgen.run.arrays.made import is_full, of_coordinates
    from spfgen.run.tensor import Tensor

    labels, _, result = operands[0].partition("->")
    sparse = all(isinstance(c, Tensor) and not is_full(c.layout) and c.fill_value == 0 for c in operands[1:])
    layout = of_coordinates(len(result)) if sparse and result else None
    chosen = {n: options[n] for n in ("dtype", "optimize") if n in options}  # order and casting have no meaning here
    product = tensor_einsum(operands, **chosen, layout=layout)
    return product if set(labels) <= {*result, ","} else as_term(product)

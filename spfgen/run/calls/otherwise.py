"""Results that the C could not make as asked: with wide index arrays instead, or in coordinates that numpy packs."""

from __future__ import annotations

from collections.abc import Mapping

from spfgen.errors import DataError
from spfgen.run.assembly import is_pending
from spfgen.run.calls.call import INDEX
from spfgen.run.calls.kernels import BoundKernel, CompiledKernel
from spfgen.run.tensor import Tensor


def otherwise(
    kernel: CompiledKernel,
    tensors: Mapping[str, Tensor],
    sizes: Mapping[str, int],
    threads: int,
    pruned: bool,
    wide: bool,
    status: int,
) -> Mapping[str, Tensor]:
    """The results of a call that ended with this status. Raises DataError, which says what has no place."""
    names = [n for n, t in tensors.items() if is_pending(t)]
    outputs = {t.name for t in kernel.program.tensors if t.is_output} - set(names)
    # The call that failed has updated these, so that this one gets copies of them.
    tensors = {n: t.copy() if n in outputs else t for n, t in tensors.items()}
    given = {n: t for n, t in tensors.items() if n not in names}
    updated = [t.name for t in kernel.program.tensors if t.is_output and t.is_input]
    if status == INDEX and not wide and not updated:
        bound = kernel.placed(tensors, sizes, threads, tensors, "never", pruned, wide=True)
        return _results(bound, names)
    listed = kernel.in_coordinates()
    bound = listed.bound(given, sizes, threads, "never", prune=pruned)
    results = _results(bound, names)
    if updated:
        told = " and ".join(f"`{n}`" for n in names)
        raise DataError(
            f"expected {told} in index arrays of {kernel.name} as the kernel declares them, but they are too narrow",
            None,
            ("declare wide ones, such as csr<double, int64>", f"{updated[0]} holds what the call has made of it"),
        )
    return results


def _results(bound: BoundKernel, names: list[str]) -> Mapping[str, Tensor]:
    bound()
    return {n: bound.tensors[n] for n in names}

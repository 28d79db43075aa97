"""Patterns that are computed once: results that are filled again with the values of other operands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spfgen.errors import UsageError
from spfgen.public import Public

if TYPE_CHECKING:
    from spfgen.run.calls.kernels import BoundKernel, CompiledKernel
    from spfgen.run.tensor import Tensor


class Symbolic(Public):
    """Results of a kernel with their patterns: `numeric` computes their values again, in place.

    `results` are the tensors by name; `result` is the only one.
    """

    def __init__(self, kernel: CompiledKernel, operands: Mapping[str, object], sizes: Mapping[str, int] | None) -> None:
        names = sorted(kernel.assembled)
        if not names:
            message = f"expected a result of `{kernel.name}` whose pattern is computed, but there is none"
            raise UsageError(message, None, ("declare it in a sparse layout, and do not pass it",))
        for name in names:
            if operands.get(name) is not None:
                raise UsageError(f"expected a pattern to compute, but `{name}` is given", None, (f"leave out {name}",))
        bound = kernel.bind(sizes=sizes, **operands)
        bound()
        self.results: dict[str, Tensor] = {name: bound.tensors[name] for name in names}
        self._kernel = kernel.with_given(names)
        self._sizes = sizes
        self._operands = dict(operands)
        self._bound: BoundKernel | None = None

    @property
    def result(self) -> Tensor:
        if len(self.results) != 1:
            raise UsageError(f"expected one result, but there are {', '.join(self.results)}", None, ("use `results`",))
        return next(iter(self.results.values()))

    def numeric(self, **operands: object) -> Any:
        """The results with the values that these operands give; those that are not named are the ones of before, with
        the values that they have now. Nothing is allocated but what the kernel needs for itself; operands in the same
        arrays are not looked at again. Raises DataError for a value that the patterns have no place for."""
        for name in operands:
            if name in self.results:
                raise UsageError(f"expected operands, but `{name}` is a result, which is written in place")
        bound, wanted = self._bound, {**self._operands, **operands}
        if bound is None or any(self._operands.get(n) is not v for n, v in operands.items()):
            bound = self._kernel.bind(sizes=self._sizes, **{**wanted, **self.results})
        bound()
        self._bound, self._operands = bound, wanted
        return self._kernel.results(bound, self.results)

    def __repr__(self) -> str:
        return f"<spfgen.Symbolic {self._kernel.name}: {', '.join(f'{n} {t!r}' for n, t in self.results.items())}>"

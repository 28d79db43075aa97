"""What modules below kernel.py ask of a kernel: conversion, packing and checks of calls make kernels themselves.

They get them by the late import `MAKER`, because a kernel converts, packs and checks its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Protocol

from spfgen.lang import nodes as lang
from spfgen.late_imports import LateImport
from spfgen.layout.nodes import Layout
from spfgen.run.tensor import Tensor
from spfgen.space.nodes import Program


class BoundKernel(Protocol):
    """A kernel with its operands (calls/call.py)."""

    tensors: dict[str, Tensor]
    otherwise: Callable[[int], Mapping[str, Tensor]] | None

    def __call__(self) -> None: ...


class CompiledKernel(Protocol):
    """A kernel (kernel.py)."""

    assembled: frozenset[str]

    @property
    def name(self) -> str: ...

    @property
    def program(self) -> Program: ...

    @property
    def parsed(self) -> lang.Kernel: ...

    @property
    def layouts(self) -> Mapping[str, Layout]: ...

    def __call__(self, /, *, sizes: Mapping[str, int] | None = None, **operands: object) -> Any: ...

    def bind(self, /, *, sizes: Mapping[str, int] | None = None, **operands: object) -> BoundKernel: ...

    def bound(
        self,
        operands: Mapping[str, object],
        sizes: Mapping[str, int] | None,
        threads: int | None,
        validate: str,
        checked: Container[str] = (),
        prune: bool | None = None,
    ) -> BoundKernel: ...

    def placed(
        self,
        tensors: Mapping[str, Tensor],
        sizes: Mapping[str, int],
        threads: int,
        results: Container[str],
        validate: str,
        pruned: bool,
        wide: bool = False,
    ) -> BoundKernel: ...

    def in_coordinates(self) -> CompiledKernel: ...

    def with_text(self, kernel: lang.Kernel) -> CompiledKernel: ...

    def with_given(self, names: Iterable[str]) -> CompiledKernel: ...

    def results(self, bound: Any, operands: Mapping[str, object]) -> Any: ...

    def build(self) -> None: ...


class Maker(Protocol):
    """The module of kernels."""

    def kept_kernel(self, kernel: lang.Kernel, layouts: Mapping[str, Layout], /) -> CompiledKernel: ...


MAKER: LateImport[Maker] = LateImport("kernels")

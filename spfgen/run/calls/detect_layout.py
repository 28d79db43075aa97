"""The layout that an object of numpy, scipy or PyData/Sparse is in: one that its arrays satisfy, where there is one.

Layouts say which arrays of which library are theirs (`binds`). Of those that bind an object, the one with the most
declared facts that the arrays satisfy is taken, so that sorted rows are known to be sorted, and others are used in
place all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from spfgen.errors import DataError
from spfgen.facts.formula import Var
from spfgen.lang.nodes import LayoutDecl
from spfgen.lang.spec import SOLVED, builtin, builtins_binding
from spfgen.layout.from_lang import extents_as_written
from spfgen.layout.nodes import SCALAR, Binding, Layout
from spfgen.run.calls.bind import attribute, coordinates, is_pydata, is_scipy, packed, warn_copied
from spfgen.run.calls.layout_signature import refilled
from spfgen.run.calls.validation_cache import broken
from spfgen.run.coordinates import Coordinates
from spfgen.run.dlpack import settled
from spfgen.run.tensor import Array, Tensor, check_unchanged, make_tensor, named, plain_array

NUMPY = "numpy"


@dataclass(frozen=True)
class BindingCandidate:
    """A layout that binds a kind of object. `solved`: constants that are extents of arrays, as (array, dimension)."""

    declaration: LayoutDecl
    settings: tuple[tuple[str, int], ...]
    solved: tuple[tuple[str, str, int], ...]
    binding: Binding
    facts: int

    def tensor(self, value: Any, shape: tuple[int, ...]) -> Tensor:
        """The object's arrays in this layout, unchecked. Raises DataError when types or lengths do not fit."""
        arrays = {array_name: attribute(value, name, part) for array_name, name, part in self.binding.arrays}
        layout = self.layout({name: np.shape(arrays[array])[d] for name, array, d in self.solved})
        return make_tensor(layout, arrays, shape, check=False)

    def layout(self, constants: Mapping[str, int] | None = None) -> Layout:
        from spfgen.layout.checked import layout_of

        return layout_of(self.declaration, {**dict(self.settings), **(constants or {})})


@lru_cache(maxsize=256)
def candidates(form: str, rank: int) -> tuple[BindingCandidate, ...]:
    """The layouts of that rank that bind `numpy` or such as `scipy.FORMAT`, those with the most facts first."""
    known = []
    for name in builtins_binding(form):
        declaration = builtin(name)
        if isinstance(declaration, LayoutDecl):
            known += list(_candidates(declaration, form, rank))
    return tuple(sorted(known, key=lambda c: -c.facts))


def _candidates(declaration: LayoutDecl, form: str, rank: int) -> Iterator[BindingCandidate]:
    from spfgen.layout.checked import layout_of

    constants = dict(declaration.constants)
    settings = {SOLVED: rank} if SOLVED in constants else {}
    unset = {n: 1 for n, default in constants.items() if default is None and n not in settings}
    sample = layout_of(declaration, {**unset, **settings})
    if sample.rank != rank:
        return
    solved: dict[str, tuple[str, str, int]] = {}
    for array, extents in extents_as_written(declaration, settings).items():
        for dimension, extent in enumerate(extents):
            if isinstance(extent, Var) and extent.name in constants:
                solved.setdefault(extent.name, (extent.name, array, dimension))
    for binding in sample.bindings:
        if form == (f"{binding.library}.{binding.format}" if binding.format else binding.library):
            yield BindingCandidate(
                declaration, tuple(settings.items()), tuple(solved.values()), binding, len(sample.facts)
            )


def dense_layout(rank: int) -> Layout:
    """The layout of the numpy arrays that kernels make."""
    return candidates(NUMPY, rank)[0].layout() if rank else SCALAR


def tensor_of(value: object, name: str, validate: str = "once") -> Tensor:
    """The operand `name` in a layout that its arrays satisfy; `validate` says when index arrays are looked at.

    In place where the arrays are a layout's own. Copied: arrays that are not contiguous or in another byte order,
    formats that no layout binds (dok, lil), and arrays that break every layout; of the last a CopyWarning tells.
    Raises DataError for what is no tensor, and for index arrays out of their ranges.
    """
    try:
        if not isinstance(value, Tensor):
            value = settled(value)
        if isinstance(value, Tensor):
            check_unchanged(value, validate)
            return value
        if is_scipy(value):
            return _of_scipy(value, name, validate)
        if isinstance(value, Coordinates) or is_pydata(value):
            return _of_entries(coordinates(value, name))
        return _of_numpy(plain_array(value, name))
    except DataError as error:
        raise named(error, name) from error


def layout_for_output(value: object, rank: int) -> Layout:
    """The layout in which an output that is given is written in place, if it can be."""
    if isinstance(value, Tensor):
        return value.layout
    if is_scipy(value):
        for candidate in candidates(f"scipy.{value.format}", rank):  # type: ignore[attr-defined]
            sizes = {n: np.shape(attribute(value, *_bound(candidate, a)))[d] for n, a, d in candidate.solved}
            return candidate.layout(sizes)
    if isinstance(value, np.ndarray) and value.ndim == rank and rank:
        return _numpy_candidate(value).layout()
    return dense_layout(rank)


def _bound(candidate: BindingCandidate, array: str) -> tuple[str, int | None]:
    return next((name, part) for bound_array, name, part in candidate.binding.arrays if bound_array == array)


def _of_numpy(array: Array) -> Tensor:
    if array.ndim == 0:
        return make_tensor(SCALAR, {SCALAR.values[0].name: array})
    return _numpy_candidate(array).tensor(array, array.shape)


def _numpy_candidate(array: Array) -> BindingCandidate:
    """The layout in whose order the array is; the first one for an array that is in none."""
    known = candidates(NUMPY, array.ndim)
    for candidate in known:
        ((_, name, part),) = candidate.binding.arrays
        if attribute(array, name, part).flags.c_contiguous:
            return candidate
    return known[0]


def _of_scipy(value: Any, name: str, validate: str) -> Tensor:
    shape = tuple(map(int, value.shape))
    possible = candidates(f"scipy.{value.format}", len(shape))
    if not possible:
        value = _turned(value, name)
        possible = candidates(f"scipy.{value.format}", len(shape))
    problem: DataError | None = None
    for candidate in possible:
        try:
            tensor = candidate.tensor(value, shape)
        except DataError as error:
            problem = error
            continue
        problem = broken(tensor.layout, tensor.sizes, tensor.arrays, validate)
        if problem is None:
            return tensor
    packed_copy = _of_entries(coordinates(value, name), possible)
    if problem is not None:
        warn_copied(value, name, problem)
    return packed_copy


def _turned(value: Any, name: str) -> Any:
    """A format that no layout binds, in one that has arrays."""
    try:
        return value.tocsr() if len(value.shape) == 2 else value.tocoo()
    except (ValueError, IndexError, TypeError, AttributeError) as error:
        raise DataError(f"expected `{name}` to be a valid scipy {value.format} matrix, but {error}") from None


def _of_entries(entries: Coordinates, possible: Sequence[BindingCandidate] = ()) -> Tensor:
    """Packed into the layout with the most facts of those that bind its format, or of those of coordinates."""
    closed = [c for c in possible if not c.solved] or candidates("scipy.coo", len(entries.shape))
    return packed(refilled(closed[0].layout(), entries.fill), entries)

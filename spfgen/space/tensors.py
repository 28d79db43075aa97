"""The tensors of a kernel: element types, size dimensions, index arrays that are shared."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from spfgen.errors import DataError, SpecError
from spfgen.facts.formula import (
    Var,
    calls,
    conjuncts,
    variables,
)
from spfgen.lang import nodes as lang
from spfgen.lang.expressions import did_you_mean, word_in
from spfgen.lang.types import DEFAULT_VALUE, element_type
from spfgen.layout.fill import typed_fill
from spfgen.layout.nodes import Layout
from spfgen.space.extents import Extents
from spfgen.space.names import accesses
from spfgen.space.nodes import (
    Tensor,
)


def make_tensors(
    kernel: lang.Kernel,
    declared: Sequence[lang.TensorDecl],
    layouts: Mapping[str, Layout],
    extents: Extents,
    inputs: Collection[str],
    outputs: Collection[str],
) -> tuple[Tensor, ...]:
    result: dict[str, Tensor] = {}
    pending = list(declared)
    while pending:
        ready = [d for d in pending if d.shares is None or d.shares.tensor in result]
        if not ready:
            last = pending[-1]
            raise SpecError(
                f"expected `shares` without a cycle, but `{last.name}` is in one",
                last.shares.span if last.shares is not None else last.span,
                ("one of the tensors must own its arrays: leave out its `shares`",),
            )
        for d in ready:
            layout = layouts[d.name]
            arrays = {a.name: f"{d.name}.{a.name}" for a in layout.indexes}
            sizes = {s: f"{d.name}.{s}" for s in layout.sizes}
            if d.shares is not None:
                owner = result[d.shares.tensor]
                shared = _shared(kernel, d, layout, owner)
                owned = dict(owner.arrays)
                arrays |= {a: owned[a] for a in shared if a in arrays}
                owned = dict(zip(owner.layout.sizes, owner.sizes, strict=True))
                sizes |= {s: owned[s] for s in shared if s in sizes and s in owned}
            value_type, index_types = types_of(d.use, layout)
            result[d.name] = Tensor(
                d.name,
                layout,
                value_type,
                index_types,
                extents.of_tensor(d.name),
                tuple(sizes.values()),
                tuple(arrays.items()),
                d.name in inputs,
                d.name in outputs,
                None if d.shares is None else d.shares.tensor,
                d.use.value_type is not None or d.use.index_type is not None or bool(d.use.array_types),
                d.span,
                copied=d.assembled and d.shares is not None,
            )
            pending.remove(d)
    return tuple(result[d.name] for d in declared)


def types_of(use: lang.LayoutUse, layout: Layout) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The element types of values and of index arrays that a use says, or that go without saying. Raises SpecError."""
    value = element_type(use.value_type or DEFAULT_VALUE)
    if value is None:
        raise SpecError(
            f"expected an element type, but `{use.value_type}` is not one",
            word_in(use.span, use.value_type or ""),
            ("known: bool, int8 to int64, uint8 to uint64, float, double, complex64, complex128",),
        )
    if use.value_type is not None and use.fill is not None:
        try:
            typed_fill(use.fill, value.name)
        except DataError as error:
            raise SpecError(error.message, use.span, error.notes) from None
    stated = dict(use.array_types)
    for array in stated:
        if array not in {a.name for a in layout.indexes}:
            known = [a.name for a in layout.indexes]
            listed = f"its index arrays: {', '.join(known)}" if known else "it has no index arrays"
            raise SpecError(
                f"expected an index array of `{layout.name}`, but `{array}` is not one",
                word_in(use.span, array),
                (did_you_mean(array, known) or listed,),
            )
    result = []
    for index in layout.indexes:
        wanted = stated.get(index.name, use.index_type or index.types[0])
        kind = element_type(wanted)
        if kind is None or kind.name not in index.types:
            raise SpecError(
                f"expected an index type, but `{wanted}` is not one",
                word_in(use.span, wanted),
                (f"known: {', '.join(index.types)}",),
            )
        result.append((index.name, kind.name))
    return value.name, tuple(result)


def _shared(kernel: lang.Kernel, declaration: lang.TensorDecl, layout: Layout, owner: Tensor) -> set[str]:
    """The arrays and sizes that locate the shared coordinates: those in constraints on their positions alone, and
    everything where all coordinates are shared, as a size that only the extent of a value array has."""
    shares = declaration.shares
    assert shares is not None
    coordinates = _coordinates(kernel, declaration, layout)
    relation = list(conjuncts(layout.relation))
    located = {p for c in relation if variables(c) & coordinates for p in variables(c) if p in layout.positions}
    before = {p: set(layout.positions[: k + 1]) for k, p in enumerate(layout.positions)}
    grown = True
    while grown:
        grown = False
        for part in relation:
            positions = variables(part) & set(layout.positions)
            latest = max(positions, key=layout.positions.index) if positions else None
            if latest in located and positions <= before[latest] and not positions <= located:
                located |= positions
                grown = True
    shared: set[str] = set()
    for part in relation:
        unknown = variables(part) & (set(layout.positions) | set(layout.coordinates))
        if unknown <= located | coordinates:
            shared |= {c.function for c in calls(part)}
            shared |= variables(part) & set(layout.sizes)
    if not shares.indices:
        shared |= {a.name for a in layout.indexes} | set(layout.sizes)
    for index in layout.indexes:
        if index.name in shared:
            for extent in index.extents:
                shared |= variables(extent) & set(layout.sizes)
    for name in sorted(shared):
        if name in {a.name for a in layout.indexes} and name not in dict(owner.arrays):
            raise SpecError(
                f"expected `{owner.name}` to have an index array `{name}` to share, but it has none",
                shares.span,
                (f"its layout is `{owner.layout.name}`",),
            )
    return shared


def _coordinates(kernel: lang.Kernel, declaration: lang.TensorDecl, layout: Layout) -> set[str]:
    """The coordinates of the layout that stand for the indices named in `shares ... on`."""
    shares = declaration.shares
    assert shares is not None
    if not shares.indices:
        return set(layout.coordinates)
    coordinate_of: dict[str, str] = dict(zip(layout.coordinates, layout.coordinates, strict=True))
    for statement in kernel.statements:
        for access in (statement.target, *accesses(statement.value)):
            if access.tensor == declaration.name:
                for subscript, coordinate in zip(access.subscripts, layout.coordinates, strict=True):
                    if isinstance(subscript, Var):
                        coordinate_of[subscript.name] = coordinate
    for index in shares.indices:
        if index not in coordinate_of:
            raise SpecError(
                f"expected an index of `{declaration.name}`, but `{index}` is not one",
                word_in(shares.span, index),
                (f"its indices: {', '.join(coordinate_of)}",),
            )
    return {coordinate_of[i] for i in shares.indices}

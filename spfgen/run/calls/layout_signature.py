"""What the checks of every call ask of a layout: names, shapes of arrays for given sizes. Found out once a layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spfgen.errors import DataError
from spfgen.facts.formula import Expr, Var, evaluate
from spfgen.lang.fills import fill_text
from spfgen.layout.nodes import Layout

REMEMBERED = 4096
"""So many results are kept for each question and layout."""


class LayoutSignature:
    """`indexes`, `values`: names of arrays; `sizes`: names of parameters and sizes, in the order of the C struct."""

    def __init__(self, layout: Layout) -> None:
        import numpy as np  # not above: making a kernel imports this module, and generating C needs no numpy

        self.layout = layout
        self.indexes = tuple(a.name for a in layout.indexes)
        self.types = {a.name: frozenset(np.dtype(t) for t in a.types) for a in layout.indexes}
        """The element types that index arrays may have."""
        self.values = tuple(v.name for v in layout.values)
        self.arrays = layout.arrays
        self.sizes = (*layout.parameters, *layout.sizes)
        self.given = _words(self)
        """What `run.functions.Function` calls the sizes and the arrays."""
        self.extents = {name: layout.extents(name) for name in self.arrays}
        self.solved: dict[Any, Any] = {}
        """For callers that solve sizes: their results by shapes of arrays."""
        self.first: Layout | None = None
        """See `canonical`."""
        self.fills: dict[Any, Any] = {}
        """The fill value as a number of each type that was asked for."""
        self.refills: dict[str, Layout] = {}
        """See `refilled`."""
        self.pads: bool | None = None
        """See `conversion.pads`."""
        self.table: Any = False
        """See `packing_interpreter.table`."""
        self.form: Any = False
        """See `arrays.ordered.form_of`."""
        self.rises: bool | None = None
        """See `arrays.ordered.rises`."""
        self.said: Any = None
        """See `store.pickled`."""
        self.in_order = 0
        """How many entries a table packed because they came in order, see `pack.pack_entries`."""
        self._shapes: dict[Any, tuple[int, ...]] = {}

    def shape(self, array: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape that the layout declares for one of its arrays."""
        extents = self.extents[array]
        plain = [e.name for e in extents if isinstance(e, Var)]
        if len(plain) == len(extents):
            return tuple([sizes[n] for n in plain])
        key = (array, *[sizes[n] for n in self.sizes])
        extents_of_array = self._shapes.get(key)
        if extents_of_array is None:
            extents_of_array = tuple(max(0, _number(e, sizes)) for e in extents)
            remember(self._shapes, key, extents_of_array)
        return extents_of_array


def _words(form: LayoutSignature) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple([f"size:{n}" for n in form.sizes]), tuple([f"array:{n}" for n in form.arrays])


def remember(table: dict[Any, Any], key: Any, value: Any) -> None:
    """Put into a table that forgets everything when it is full."""
    if len(table) >= REMEMBERED:
        table.clear()
    table[key] = value


_FORMS: dict[int, LayoutSignature] = {}


def form_of(layout: Layout) -> LayoutSignature:
    """By identity, because to compare layouts is to compare formulas; a form keeps its layout alive."""
    form = _FORMS.get(id(layout))
    if form is None or form.layout is not layout:
        form = LayoutSignature(layout)
        remember(_FORMS, id(layout), form)
    return form


_FIRST: dict[Layout, Layout] = {}


def canonical(layout: Layout) -> Layout:
    """The first layout seen that is equal: what is kept for a layout by identity serves those that were read again."""
    form = form_of(layout)
    if form.first is None:
        if layout not in _FIRST:
            if len(_FIRST) >= REMEMBERED:
                _FORMS.clear()  # they would go on to speak of layouts that are forgotten here
            remember(_FIRST, layout, layout)
        form.first = _FIRST[layout]
    return form.first


def refilled(layout: Layout, fill: Any) -> Layout:
    """The layout with that fill value: one object for each."""
    text = fill_text(fill)
    if layout.fill_text == text:
        return layout
    unfilled = canonical(layout.unfilled)
    known = form_of(unfilled).refills
    if text not in known:
        remember(known, text, unfilled if text == "0" else canonical(unfilled.refilled(fill)))
    return known[text]


def _number(extent: Expr, sizes: Mapping[str, int]) -> int:
    return int(evaluate(extent, lambda n: sizes[n], no_call))


def no_call(function: str, arguments: tuple[object, ...]) -> int:
    raise DataError(f"expected an extent made of sizes, but it calls `{function}`")

"""The layout in which the arrays of a tensor are those of its transpose: compressed columns for compressed rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from spfgen.facts.formula import conjuncts
from spfgen.lang.spec import bound_formats
from spfgen.layout.nodes import Layout
from spfgen.run.calls.detect_layout import candidates

_NAME = re.compile(r"'([^']*)'")
_TEXT = re.compile(r", text='(?:[^'\\]|\\.)*'|, text=\"[^\"]*\"")


@lru_cache(maxsize=256)
def reversed_layout(layout: Layout) -> tuple[Layout, Mapping[str, str]] | None:
    """The layout with the dimensions the other way round, and the names there of the sizes and arrays here; None where
    none of those that come with spfgen is proved to be it: it says the same in other names."""
    if layout.constants or layout.value_transforms or layout.is_pattern:
        return None
    for form in [f for library in sorted({b.library for b in layout.bindings}) for f in bound_formats(library)]:
        for candidate in candidates(form, layout.rank):
            other = layout if candidate.solved else candidate.layout()
            known = _renamed(layout, other)
            if known is not None and not other.constants and _said(layout, known) == _said(other, {}):
                return other, known
    return None


def _renamed(layout: Layout, other: Layout) -> dict[str, str] | None:
    """The names of the one by those of the other; None where they have not as many."""
    pairs = [
        (layout.parameters, other.parameters[::-1]),
        (layout.coordinates, other.coordinates[::-1]),
        *((getattr(layout, n), getattr(other, n)) for n in ("sizes", "positions", "arrays")),
    ]
    if any(len(names) != len(theirs) for names, theirs in pairs):
        return None
    return {a: b for names, theirs in pairs for a, b in zip(names, theirs, strict=True)}


def _said(layout: Layout, names: Mapping[str, str]) -> tuple[object, ...]:
    """All that a layout says of its arrays, in other names; not in which order it says it."""

    def text(part: object) -> str:
        plain = _TEXT.sub("", repr(part))
        return _NAME.sub(lambda match: f"'{names.get(match[1], match[1])}'", plain)

    relation = tuple(sorted(map(text, conjuncts(layout.relation))))
    indexes = [(text(i.name), text(i.extents), *sorted(map(text, (*i.ranges, *i.properties)))) for i in layout.indexes]
    return relation, sorted(indexes), sorted(map(text, layout.values)), layout.hints

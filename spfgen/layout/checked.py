"""Layouts that passed their checks: once in a process for each choice of constants and fill value, and once on disk.

On disk a check is named by a hash of all that determines it: the layout, and the files of spfgen, isl and Z3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spfgen import folder
from spfgen.errors import our_bugs
from spfgen.lang.fills import fill_text
from spfgen.lang.nodes import LayoutDecl
from spfgen.layout.from_lang import instantiate
from spfgen.layout.nodes import Layout

LAYOUTS = "layouts"
_LAYOUTS: dict[tuple[int, tuple[tuple[str, int], ...], str | None], tuple[object, Layout]] = {}


def layout_of(declaration: LayoutDecl, settings: Mapping[str, int], fill: Any = None) -> Layout:
    """The checked layout of a declaration; read once for each choice of constants and fill value (None: the
    declaration's own). Raises SpecError."""
    if fill is not None:
        own = layout_of(declaration, settings)
        return own if own.fill_text == fill_text(fill) else _filled(declaration, own, fill)
    defaults = {n: v for n, v in declaration.constants if v is not None}
    key = (id(declaration), tuple(sorted((defaults | dict(settings)).items())), None)
    found = _LAYOUTS.get(key)
    if found is None or found[0] is not declaration:
        asked = (f"please report it with the text of the layout `{declaration.name}`",)
        with our_bugs(f"reading `{declaration.name}`", lambda: asked):
            layout = instantiate(declaration, settings)
            _check(layout)
        found = _LAYOUTS[key] = (declaration, layout)
    return found[1]


def _filled(declaration: LayoutDecl, own: Layout, fill: Any) -> Layout:
    """The layout with another fill value, one object for each: nothing that is checked of a layout depends on it."""
    key = (id(declaration), own.constants, fill_text(fill))
    found = _LAYOUTS.get(key)
    if found is None or found[0] is not declaration:
        found = _LAYOUTS[key] = (declaration, replace(own, fill=fill))
    return found[1]


def _check(layout: Layout) -> None:
    key = folder.hash_of(layout.structure, folder.fingerprint())
    if folder.load(LAYOUTS, key) is None:
        from spfgen.layout.check import check_layout

        check_layout(layout)
        folder.save(LAYOUTS, key, b"checked")

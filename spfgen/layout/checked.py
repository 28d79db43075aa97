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
        plain = layout_of(declaration, settings)
        return plain if plain.fill_text == fill_text(fill) else _filled(declaration, plain, fill)
    defaults = {n: v for n, v in declaration.constants if v is not None}
    key = (id(declaration), tuple(sorted((defaults | dict(settings)).items())), None)
    entry = _LAYOUTS.get(key)
    if entry is None or entry[0] is not declaration:
        asked = (f"please report it with the text of the layout `{declaration.name}`",)
        with our_bugs(f"reading `{declaration.name}`", lambda: asked):
            layout = instantiate(declaration, settings)
            _check(layout)
        entry = _LAYOUTS[key] = (declaration, layout)
    return entry[1]


def _filled(declaration: LayoutDecl, plain: Layout, fill: Any) -> Layout:
    """The layout with another fill value, one object for each: nothing that is checked of a layout depends on it."""
    key = (id(declaration), plain.constants, fill_text(fill))
    entry = _LAYOUTS.get(key)
    if entry is None or entry[0] is not declaration:
        entry = _LAYOUTS[key] = (declaration, replace(plain, fill=fill))
    return entry[1]


def _check(layout: Layout) -> None:
    key = folder.hash_of(layout.structure, folder.fingerprint())
    if folder.load(LAYOUTS, key) is None:
        from spfgen.layout.check import check_layout

        check_layout(layout)
        folder.save(LAYOUTS, key, b"checked")

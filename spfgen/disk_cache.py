"""What is remembered on disk between processes, so that a call made before needs neither isl nor Z3 nor the compiler.

Two things: that a layout passed its checks, and the C of a kernel with what its calls must know of the program. Names
in the cache are hashes of all that determines them: texts, types, and the files of spfgen, isl and Z3. The folder is
ours alone (folder.py); where nothing can be kept, everything is made anew.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spfgen import folder
from spfgen.errors import our_bugs
from spfgen.folder import fingerprint
from spfgen.lang.fills import fill_text
from spfgen.lang.nodes import Kernel, LayoutDecl
from spfgen.layout.from_lang import instantiate
from spfgen.layout.nodes import SCALAR, Layout, as_entries

if TYPE_CHECKING:
    from spfgen.pipeline import Generated
    from spfgen.space.nodes import Program, Tensor

LAYOUTS, KERNELS = "layouts", "kernels"


@dataclass(frozen=True)
class Compiled:
    """C, and the program that calls need: names, layouts and types of tensors, sizes and where they stand. From the
    disk it comes without statements.

    `whole` is one self-contained text of `source` and `header`.
    """

    program: Program
    source: str
    header: str
    whole: str


def compiled_of(generated: Generated) -> Compiled:
    """What calls need of all that the passes made."""
    return Compiled(generated.program, generated.source, generated.header, generated.whole)


def compiled(kernel: Kernel, layouts: Mapping[str, Layout]) -> Compiled:
    """The C of a kernel, generated when it was not before. Raises SpecError, Unsupported."""
    parts = [f"{name}: {layout!r}" for name, layout in sorted(layouts.items())]
    key = folder.hash_of(repr(kernel), *parts, fingerprint())
    data = folder.load(KERNELS, key)
    if data is not None:
        with suppress(Exception):  # what cannot be read was written by another Python: it is made anew
            found = pickle.loads(data)
            if isinstance(found, Compiled):
                return _with_layouts(found, layouts)
    from spfgen.pipeline import generate

    made = compiled_of(generate(kernel, layouts))
    made = replace(made, program=replace(made.program, groups=(), finds=(), marks=()))
    folder.save(KERNELS, key, pickle.dumps(made))
    return made


def _with_layouts(found: Compiled, layouts: Mapping[str, Layout]) -> Compiled:
    """The same with the layouts of this process, which calls tell by identity."""
    tensors = tuple(_with_layout(t, layouts.get(t.name, SCALAR)) for t in found.program.tensors)
    return replace(found, program=replace(found.program, tensors=tensors))


def _with_layout(tensor: Tensor, layout: Layout) -> Tensor:
    if tensor.assembled is not None:
        if tensor.layout.fill_text != layout.fill_text:  # a fill value that was computed
            layout = replace(layout, fill=tensor.layout.fill)
        return replace(tensor, layout=as_entries(layout), assembled=layout)
    return replace(tensor, layout=layout)


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
    key = folder.hash_of(repr(layout), fingerprint())
    if folder.load(LAYOUTS, key) is None:
        from spfgen.layout.check import check_layout

        check_layout(layout)
        folder.save(LAYOUTS, key, b"checked")

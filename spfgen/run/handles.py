"""Layouts by name: what stands for a layout in calls, with its constants, types and fill value."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from spfgen.errors import SpfgenError, Unsupported, UsageError, a_type
from spfgen.lang import nodes as lang
from spfgen.lang.fills import fill_text, plain_fill
from spfgen.lang.nodes import LayoutDecl
from spfgen.lang.parse import parse_file, parse_layout_use
from spfgen.lang.spec import SOLVED, SpecTree, meant, parse_tree
from spfgen.late_imports import LateImport
from spfgen.layout.checked import layout_of
from spfgen.layout.nodes import Layout
from spfgen.public import Public, check_import


class Drawings(Protocol):
    """run/drawings/drawing.py"""

    def of_example(self, of_rank: Callable[[int], Layout], /) -> str: ...


DRAWINGS: LateImport[Drawings] = LateImport("drawings")


@dataclass(frozen=True, repr=False)
class LayoutHandle(Public):
    """A layout by name, with element types and constants; call it to set constants: `bcsr(R=4, C=4)`."""

    _public = ("layout", "name")
    tree: SpecTree
    use: lang.LayoutUse

    def __call__(self, **constants: int) -> LayoutHandle:
        settings = dict(self.use.settings)
        for name, value in constants.items():
            try:
                settings[name] = operator.index(value)
            except TypeError:
                raise UsageError(f"expected an integer for the constant `{name}`, but it is {value!r}") from None
        text = f"{self.use.name}({', '.join(f'{n}={v}' for n, v in settings.items())})"
        span = parse_layout_use(text).span
        handle = LayoutHandle(self.tree, replace(self.use, settings=tuple(settings.items()), span=span))
        self.tree.resolve(handle.use)
        return handle

    @property
    def name(self) -> str:
        return self.use.name

    def layout(self, rank: int | None = None) -> Layout:
        """The layout itself; a family needs its rank."""
        known: dict[int | None, Layout] = self.__dict__.setdefault("known", {})
        if rank not in known:
            known[rank] = self._layout(rank)
        return known[rank]

    def _layout(self, rank: int | None) -> Layout:
        declaration, settings = self.tree.resolve(self.use)
        if SOLVED in dict(declaration.constants) and SOLVED not in settings:
            if rank is None:
                raise UsageError(
                    f"expected the rank of layout `{self.name}`, but it is not given",
                    None,
                    (f"write {self.name}(rank=2), or give the shape",),
                )
            settings[SOLVED] = rank
        return layout_of(declaration, settings, self.tree.fill_of(self.use))

    @property
    def is_open(self) -> bool:
        """Whether it is a family that waits for its rank."""
        declaration, settings = self.tree.resolve(self.use)
        return SOLVED in dict(declaration.constants) and SOLVED not in settings

    def _repr_svg_(self) -> str | None:
        """What a notebook shows: a small example, families as a matrix; None where none is found."""
        try:
            return DRAWINGS().of_example(self.layout)
        except SpfgenError:
            return None

    def __repr__(self) -> str:
        constants = ", ".join(f"{n}={v}" for n, v in self.use.settings)
        fill = "" if self.use.fill is None else f" fill {fill_text(self.use.fill)}"
        return f"<spfgen layout {self.name}{f'({constants})' if constants else ''}{fill}>"


def handle_of(layout: LayoutHandle | Layout | str, constants: Mapping[str, int] | None = None) -> LayoutHandle:
    """The layout that is meant, that of a tensor among them, with these constants. Raises UsageError, SpecError."""
    constants = constants or {}
    if isinstance(layout, str) and all(type(v) is int for v in constants.values()):
        return _named(layout, **constants)
    if isinstance(layout, Layout):
        layout = _of(layout)
    if not isinstance(layout, str | LayoutHandle):
        raise _no_layout(layout)
    handle = _named(layout) if isinstance(layout, str) else layout
    return handle(**constants) if constants else handle


def _no_layout(value: object) -> UsageError:

    check_import(value)
    return UsageError(f"expected a layout or its name, but this is {a_type(value)}")


def filled(handle: LayoutHandle, fill: object) -> LayoutHandle:
    """The same with another fill value: any number. Raises UsageError."""
    try:
        number = plain_fill(fill)
    except (TypeError, ValueError):
        raise UsageError(f"expected a number as the fill value, but it is {fill!r}") from None
    return LayoutHandle(handle.tree, replace(handle.use, fill=number))


@lru_cache(maxsize=256)
def _of(layout: Layout) -> LayoutHandle:
    """The layout that a tensor has, to be used for others."""

    if layout.fill_text != "0":  # its text is read once for all fill values
        return filled(_of(replace(layout, fill=0)), layout.fill)
    handle = LayoutHandle(parse_tree(text_of(layout)), parse_layout_use(layout.name))(**dict(layout.constants))
    return filled(handle, layout.fill)


@lru_cache(maxsize=256)
def _named(text: str, /, **constants: int) -> LayoutHandle:
    """One of those that come with spfgen, or levels; to parse its text takes longer than a small conversion."""
    tree, use = meant(text, SpecTree())
    tree.find(use.name, use.span)
    handle = LayoutHandle(tree, use)
    return handle(**constants) if constants else handle


def text_of(layout: Layout) -> str:
    """The declaration, cut out of the text in which it stands. Raises Unsupported where there is no text."""
    if layout.span is not None:
        for item in parse_file(layout.span.text, layout.span.file).layouts:
            if isinstance(item, LayoutDecl) and item.name == layout.name:
                meta = item.tree.meta
                return item.source.text[meta.start_pos : meta.end_pos] + "\n"
    raise Unsupported(f"there is no text that declares layout `{layout.name}`: it can be neither saved nor named")

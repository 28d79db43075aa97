"""Spec files with what they import, and the layouts that come with spfgen, by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from spfgen.errors import DataError, Span, SpecError
from spfgen.lang.expressions import did_you_mean, word_in
from spfgen.lang.levels import is_levels, parse_levels
from spfgen.lang.nodes import Function, Import, Kernel, LayoutAlias, LayoutDecl, LayoutUse
from spfgen.lang.parse import parse_file, parse_layout_use, parse_leveled

Declaration = LayoutDecl | LayoutAlias
Item = TypeVar("Item", LayoutDecl | LayoutAlias, Kernel, Function)
SOLVED = "rank"
"""The constant that need not be set: the number of subscripts gives it."""


@dataclass(frozen=True)
class SpecTree:
    """What a spec file and its imports define."""

    layouts: Mapping[str, Declaration] = field(default_factory=dict)
    kernels: Mapping[str, Kernel] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)

    def find(self, name: str, span: Span | None = None) -> Declaration:
        """The layout of that name: from the spec, else one that comes with spfgen. Raises SpecError."""
        declaration = self.layouts.get(name) or builtin(name)
        if declaration is None:
            known = sorted({*self.layouts, *builtin_names()})
            plain = name.lower().removesuffix("_matrix").removesuffix("_array")  # as scipy calls its classes
            note = did_you_mean(plain, known) or did_you_mean(name, known) or "known layouts: " + ", ".join(known)
            raise SpecError(f"expected a layout, but `{name}` is not known", word_in(span, name), (note,))
        return declaration

    def resolve(self, use: LayoutUse) -> tuple[LayoutDecl, dict[str, int]]:
        """The declaration behind a use (through aliases) and the constants that are set on the way."""
        settings: dict[str, int] = {}
        uses = list(self._uses(use))
        declaration = self.find(uses[-1].name, uses[-1].span)
        assert isinstance(declaration, LayoutDecl)
        for one in reversed(uses):
            _check_settings(declaration, one)
            settings |= dict(one.settings)
        for name, default in declaration.constants:
            if default is None and name not in settings and name != SOLVED:
                message = f"expected a value for the constant `{name}` of layout `{declaration.name}`"
                hint = f"write `{use.name}({name}=...)`"
                raise SpecError(f"{message}, but there is none", word_in(use.span, use.name), (hint,))
        return declaration, settings

    def fill_of(self, use: LayoutUse) -> complex | None:
        """The fill value that the use, or an alias on the way, says; None where the layout's own holds."""
        return next((one.fill for one in self._uses(use) if one.fill is not None), None)

    def _uses(self, use: LayoutUse) -> Iterator[LayoutUse]:
        """The use and those behind it, through aliases to a declaration."""
        seen = [use.name]
        yield use
        declaration = self.find(use.name, use.span)
        while isinstance(declaration, LayoutAlias):
            if declaration.use.name in seen:
                circle = " = ".join(f"`{n}`" for n in (*seen, declaration.use.name))
                raise SpecError(
                    f"expected a layout, but `{declaration.name}` is defined by itself",
                    declaration.span,
                    (f"{circle}: one of them must be a layout with arrays and a relation",),
                )
            seen.append(declaration.use.name)
            yield declaration.use
            declaration = self.find(declaration.use.name, declaration.use.span)


def _check_settings(declaration: LayoutDecl, use: LayoutUse) -> None:
    """The constants that a use sets are the layout's, and positive where the layout divides by them."""
    known = [name for name, _ in declaration.constants]
    for name, value in use.settings:
        span = word_in(use.span, name)
        if name not in known:
            listed = f"its constants: {', '.join(sorted(known))}" if known else "it has no constants"
            message = f"expected a constant of layout `{declaration.name}`, but `{name}` is not one"
            if name in _sizes(declaration):
                listed = f"`{name}` is a size: it follows from the entries, or from the arrays"
            raise SpecError(message, span, (did_you_mean(name, known) or listed,))
        if value < 1 and name in _divisors(declaration):
            message = f"expected a positive number for `{name}`, but it is {value}"
            raise SpecError(message, span, (f"layout `{declaration.name}` divides by `{name}`",))
        if value < 0 and name == SOLVED:
            message = f"expected a rank of at least 0, but it is {value}"
            raise SpecError(message, span, ("leave it out: the number of subscripts gives it",))


def _sizes(declaration: LayoutDecl) -> set[str]:
    """The sizes that the text of a layout declares."""
    return {str(n) for tree in declaration.tree.find_data("size") for n in tree.scan_values(lambda _: True)}


def _divisors(declaration: LayoutDecl) -> set[str]:
    """The names that stand as divisors in the text of a layout."""
    names = set()
    for tree in declaration.tree.find_data("product"):
        for operator, operand in zip(tree.children[1::2], tree.children[2::2], strict=True):
            if operator in ("/", "%", "mod") and operand.data == "name":
                names.add(str(operand.children[0]))
    return names


def meant(text: str, tree: SpecTree) -> tuple[SpecTree, LayoutUse]:
    """What stands for a layout, and where it is declared: `bcsr(R=4, C=4)`, or levels such as
    `(i, j) -> (i : dense, j : compressed)`. Raises SpecError, Unsupported."""
    if not is_levels(text):
        return tree, parse_layout_use(text)
    levels, fill = re.fullmatch(r"(.*?)(\sfill\s[^()]*)?", text, re.DOTALL).groups()  # type: ignore[union-attr]
    tree, use = _leveled(levels)
    return tree, use if fill is None else replace(use, fill=parse_layout_use(f"{use.name}{fill}").fill)


@cache
def _leveled(text: str) -> tuple[SpecTree, LayoutUse]:
    levels = parse_levels(text)
    return SpecTree({levels.name: parse_leveled(levels, levels.name)}), LayoutUse(levels.name)


def load_tree(path: str | Path) -> SpecTree:
    """Read a spec file and what it imports. Raises SpecError; DataError when a file cannot be read."""
    loader = _Loader()
    loader.load(Path(path), None)
    return loader.tree()


def parse_tree(text: str, file: str = "<text>") -> SpecTree:
    """Read a spec text; imports are relative to the current folder."""
    loader = _Loader()
    loader.add(text, file, Path.cwd(), ())
    return loader.tree()


class _Loader:
    def __init__(self) -> None:
        self.layouts: dict[str, Declaration] = {}
        self.kernels: dict[str, Kernel] = {}
        self.functions: dict[str, Function] = {}
        self.done: set[Path] = set()

    def tree(self) -> SpecTree:
        return SpecTree(self.layouts, self.kernels, self.functions)

    def load(self, path: Path, span: Span | None, stack: tuple[Path, ...] = ()) -> None:
        real = path.resolve()
        if real in stack:
            names = " -> ".join(p.name for p in (*stack[stack.index(real) :], real))
            hint = "put what both files need into a third one"
            raise SpecError(f"expected imports without a cycle, but {names}", span, (hint,))
        if real in self.done:
            return
        self.done.add(real)
        try:
            text = path.read_text(encoding="utf-8-sig")  # editors on Windows write a byte order mark
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a text in UTF-8"
            if span is not None:
                message = f"expected a spec file, but {path} cannot be read: {reason}"
                hint = "the path is relative to the folder of the file that imports it"
                raise SpecError(message, span, (hint,)) from None
            raise DataError(f"{path} cannot be read: {reason}") from None
        self.add(text, str(path), path.parent, (*stack, real))

    def add(self, text: str, file: str, folder: Path, stack: tuple[Path, ...]) -> None:
        """What a text and its imports define; functions of imports are known in all of the text."""

        def imported(item: Import) -> Mapping[str, Function]:
            self.load(folder / item.path, item.span, stack)
            return self.functions

        spec = parse_file(text, file, self.functions, imported)
        for function in spec.functions:
            self.define(self.functions, function.name, function, "function")
        for layout in spec.layouts:
            self.define(self.layouts, layout.name, layout, "layout")
        for kernel in spec.kernels:
            self.define(self.kernels, kernel.name, kernel, "kernel")

    @staticmethod
    def define(table: MutableMapping[str, Item], name: str, item: Item, kind: str) -> None:
        if name in table:
            first = getattr(table[name], "span", None)
            where = f"{first.file}:{first.line}" if first else "an earlier place"
            hint = f"the first one is at {where}; rename one of them"
            raise SpecError(f"expected one {kind} `{name}`, but there are two", item.span, (hint,))
        table[name] = item


# --- layouts that come with spfgen --------------------------------------------------------------------


def _folder() -> object:
    """The installed layouts; in a source tree, the folder beside the package."""
    beside = Path(__file__).resolve().parents[2] / "layouts"
    if beside.is_dir():
        return beside
    return files("spfgen.layouts")


@lru_cache(maxsize=1)
def _catalogue() -> dict[str, tuple[str, str]]:
    """Name of a layout -> (file name, text), without parsing anything.

    The text is that of the layout alone, on the lines where it stands in the file.
    """
    layouts = {}
    for entry in sorted(_folder().iterdir(), key=lambda e: e.name):  # type: ignore[attr-defined]
        if entry.name.endswith(".spf"):
            text = entry.read_text(encoding="utf-8")
            starts = [m.start() for m in re.finditer(r"^layout ", text, re.MULTILINE)]
            for start, end in pairwise([*starts, len(text)]):
                name = text[start:end].split(maxsplit=2)[1].partition("(")[0]
                layouts[name] = (entry.name, "\n" * text.count("\n", 0, start) + text[start:end])
    return layouts


@cache
def _builtin(file: str, text: str) -> Declaration:
    (layout,) = parse_file(text, f"layouts/{file}").layouts
    return layout


def builtin_names() -> list[str]:
    return sorted(_catalogue())


def builtins_binding(form: str) -> list[str]:
    """The names of those that say `binds FORM :`, without parsing anything."""
    clause = re.compile(rf"\bbinds\s+{re.escape(form)}\s*:")
    return [name for name, (_, text) in sorted(_catalogue().items()) if clause.search(text)]


def bound_formats(library: str) -> list[str]:
    """The formats of a library that they bind, without parsing anything."""
    clause = re.compile(rf"\bbinds\s+({re.escape(library)}\.\w+)\s*:")
    return sorted({format_name for _, text in _catalogue().values() for format_name in clause.findall(text)})


def builtin(name: str) -> Declaration | None:
    """A layout that comes with spfgen, or None."""
    file_and_text = _catalogue().get(name)
    return _builtin(*file_and_text) if file_and_text is not None else None

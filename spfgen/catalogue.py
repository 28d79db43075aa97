"""Lists and describes layouts, for `spfgen layouts`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spfgen.errors import SpecError, UsageError
from spfgen.facts.formula import show
from spfgen.lang.expressions import counted
from spfgen.lang.nodes import LayoutAlias
from spfgen.lang.spec import SOLVED, SpecTree, builtin_names, load_tree, meant
from spfgen.layout.checks import ONE_BY_ONE, checks_of
from spfgen.layout.nodes import Binding, Layout

RELATION, LEVELS, TACO = "relation", "levels", "taco"
"""The forms in which a layout can be shown."""
SHOWN_RANK = 2
"""Families are shown for matrices."""


MOST_DRAWN, DRAWN = 16, 4
"""Constants of a layout that are larger than the one are drawn as the other: blocks and slices that one can see."""


def layout_named(text: str, file: str | None = None, rank: int = SHOWN_RANK, *, to_draw: bool = False) -> Layout:
    """The layout of a use such as `bcsr(R=4, C=4)`, from the spec file or of those that come with spfgen; a family with
    the rank that is shown. `to_draw` makes large constants small that the text
    leaves as they are. Raises SpecError, UsageError; DataError for the file."""
    from spfgen.pipeline import layout_of

    if text.endswith(".spf"):
        message = f"expected the name of a layout, but {text} is a file"
        raise UsageError(message, None, (f"name a layout of the file: NAME -s {text}",))
    tree, use = meant(text, SpecTree() if file is None else load_tree(file))
    try:
        declaration, settings = tree.resolve(use)
    except SpecError as error:
        if file is None:
            error.notes = (*error.notes, "a layout of your own is found in its file: -s FILE.spf")
        raise
    if SOLVED in dict(declaration.constants):
        settings.setdefault(SOLVED, rank)
    for name, default in declaration.constants if to_draw else ():
        if name != SOLVED and default is not None and default > MOST_DRAWN:
            settings.setdefault(name, DRAWN)
    return layout_of(declaration, settings, tree.fill_of(use))


def catalogue(file: str | None = None) -> list[tuple[str, str]]:
    """(name, first sentence) of each that comes with spfgen, or that the spec file declares. Raises as
    `layout_named`."""
    rows = []
    tree = SpecTree() if file is None else load_tree(file)
    for name in builtin_names() if file is None else tree.layouts:
        declaration = tree.find(name)
        if isinstance(declaration, LayoutAlias):
            settings = ", ".join(f"{k}={v}" for k, v in declaration.use.settings)
            rows.append((name, f"{declaration.use.name}({settings})"))
        elif any(default is None and n != SOLVED for n, default in declaration.constants):
            rows.append((name, f"needs {', '.join(n for n, default in declaration.constants if default is None)}"))
        else:
            rows.append((name, layout_named(name, file).doc.split("\n")[0]))
    return rows


def layouts_of_rank(rank: int, file: str | None = None, more: Sequence[str] = ()) -> dict[str, Layout]:
    """The layouts of tensors of that rank by name and constants: those that come with spfgen, those of a spec file, and
    `more`. Each once; families in that rank.

    Raises SpecError, DataError for the file; UsageError when one of `more` is of another rank.
    """
    layouts: dict[str, Layout] = {}

    def add(tree: SpecTree, text: str, *, wanted: bool = False) -> None:
        declared, use = meant(text, tree)
        declaration, settings = declared.resolve(use)
        if RANK in dict(declaration.constants):
            settings.setdefault(RANK, max(1, rank))
        layout = layout_of(declaration, settings, declared.fill_of(use))
        if layout.rank == rank and layout not in layouts.values():
            layouts[_text(layout)] = layout
        elif layout.rank != rank and wanted:
            raise UsageError(f"expected a layout of {counted(rank, 'dimension')}, but `{text}` is not one")

    from spfgen.pipeline import RANK, layout_of

    tree = SpecTree() if file is None else load_tree(file)
    for text in (*builtin_names(), *tree.layouts):
        add(tree, text)
    for text in more:
        add(tree, text, wanted=True)
    return layouts


def _text(layout: Layout) -> str:
    """The name with the constants but the rank: `name(R=2, C=2)`."""
    from spfgen.pipeline import RANK

    constants = ", ".join(f"{n}={v}" for n, v in layout.constants if n != RANK)
    return f"{layout.name}({constants})" if constants else layout.name


def describe(name: str, file: str | None = None) -> str:
    """Everything that is declared of a layout, facts with their formulas and how they are checked."""
    layout = layout_named(name, file)
    checked = {check.fact: check.because for check in checks_of(layout)}
    constants = "".join(f"; {n} = {v}" for n, v in layout.constants)
    lines = [f"{layout.name}({', '.join(layout.parameters)}{constants})", "", layout.doc, ""]
    if layout.sizes:
        lines.append(f"sizes     {', '.join(layout.sizes)}")
    lines.append(f"relation  {_relation(layout)}")
    for index in layout.indexes:
        lines.append(f"index     {index.name}{''.join(f'[{show(e)}]' for e in index.extents)}")
        for fact in (*index.ranges, *index.properties):
            formula = show(fact.formula)
            lines.append(f"            {formula}" + (f"    ({fact.text})" if fact.text != formula else ""))
            if checked[fact] != ONE_BY_ONE:
                lines.append(f"                {checked[fact]}")
    if layout.is_pattern:
        lines.append("value     none is stored: 1 (True)")
    for value in (v for v in layout.values if not v.implied):
        extents = "".join(f"[{show(e)}]" for e in value.extents)
        lines.append(f"value     {value.name}{extents} at [{', '.join(map(show, value.position))}]")
    lines += [f"binds     {_form(b)} : {_bound(b)}" for b in layout.bindings]
    return "\n".join(lines)


def written_as(text: str, form: str, file: str | None = None) -> str:
    """A layout as the text of its `relation`, as `levels`, or as `taco` writes its format.

    Raises Unsupported when levels cannot say it.
    """
    from spfgen.lang.taco import format_of
    from spfgen.layout.as_levels import levels_of

    if form == RELATION:
        return source_text(text, file)
    levels = levels_of(layout_named(text, file))
    return str(levels) if form == LEVELS else format_of(levels)


def source_text(text: str, file: str | None = None) -> str:
    """The declaration of a layout, as it stands in its file or is made of levels."""
    tree, use = meant(text, SpecTree() if file is None else load_tree(file))
    declaration, _ = tree.resolve(use)
    source = declaration.source.text
    tree_meta = declaration.tree.meta
    return source[tree_meta.start_pos : tree_meta.end_pos]


def details(name: str, file: str | None = None) -> dict[str, Any]:
    """The same for programs."""
    layout = layout_named(name, file)
    checked = {check.fact: check.because for check in checks_of(layout)}
    return {
        "name": layout.name,
        "doc": layout.doc,
        "parameters": list(layout.parameters),
        "constants": dict(layout.constants),
        "sizes": list(layout.sizes),
        "relation": _relation(layout),
        "index": {
            a.name: {
                "extents": [show(e) for e in a.extents],
                "facts": {fact.text: show(fact.formula) for fact in (*a.ranges, *a.properties)},
                "checks": {fact.text: checked[fact] for fact in (*a.ranges, *a.properties)},
            }
            for a in layout.indexes
        },
        "value": {
            v.name: {"extents": [show(e) for e in v.extents], "at": [show(e) for e in v.position]}
            for v in layout.values
        },
        "binds": {_form(b): _bound(b) for b in layout.bindings},
    }


def _relation(layout: Layout) -> str:
    tuples = f"[{', '.join(layout.positions)}] -> [{', '.join(layout.coordinates)}]"
    name = layout.values[0].name
    parts = [f"{tuples} : {show(a.relation)}{_turned(a.operators, name)}" for a in layout.alternatives]
    return f"{{ {' ; '.join(parts)} }}"


def _turned(operators: Sequence[str], name: str) -> str:
    """What an alternative does to the stored value, as the text says it."""
    value = f"conj({name})" if "conjugate" in operators else name
    return f" as {'-' if 'negative' in operators else ''}{value}" if operators else ""


def _form(binding: Binding) -> str:
    return f"{binding.library}.{binding.format}" if binding.format else binding.library


def _bound(binding: Binding) -> str:
    return ", ".join(f"{n} = {a}" + (f"[{k}]" if k is not None else "") for n, a, k in binding.arrays)

"""A kernel and its layouts as the text of a spec file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from spfgen.facts.formula import TRUE, show
from spfgen.ir import walk
from spfgen.lang.nodes import Directive, Function, Kernel, LoopsRelation, TensorDecl
from spfgen.lang.schedule import show_loop
from spfgen.lang.show import show_function, show_statement
from spfgen.layout.nodes import SCALAR, Layout
from spfgen.run.handles import text_of
from spfgen.run.tuners.tune_layouts import use_text


class NoText(Exception):
    """A kernel that no text says."""


def text_of_kernel(kernel: Kernel, layouts: Mapping[str, Layout]) -> str:
    """Raises NoText where two layouts have one name; Unsupported where a layout has no text."""
    lines = [f"    {line}" for line in _lines(kernel, layouts)]
    return "\n".join([*_layouts(layouts), *_functions(kernel), f"kernel {kernel.name} {{", *lines, "}\n"])


def _layouts(layouts: Mapping[str, Layout]) -> Iterable[str]:
    found: dict[str, str] = {}
    for layout in layouts.values():
        if layout.name != SCALAR.name:
            text = text_of(layout).strip()
            if found.setdefault(layout.name, text) != text:
                raise NoText(f"two layouts are called {layout.name}")
    return [found[name] for name in sorted(found)]


def _functions(kernel: Kernel) -> Iterable[str]:
    """Those that are called stand in front of those that call them."""
    found: dict[str, Function] = {}

    def add(nodes: Iterable[object]) -> None:
        for node in (inner for outer in nodes for inner in walk(outer)):
            own = getattr(node, "function", None)
            if isinstance(own, Function) and own.name not in found:
                add((*own.body, *own.cases))
                found[own.name] = own

    add(kernel.statements)
    return [show_function(f) for f in found.values()]


def _lines(kernel: Kernel, layouts: Mapping[str, Layout]) -> Iterator[str]:
    if kernel.sizes:
        yield f"size {', '.join(kernel.sizes)}"
    for declared in kernel.tensors:
        yield _declaration(declared, layouts[declared.name])
    yield from (show_statement(s) for s in kernel.statements)
    clauses = [*_clauses(kernel)]
    if clauses:
        yield f"schedule {{ {'; '.join(clauses)} }}"


def _declaration(declared: TensorDecl, layout: Layout) -> str:
    use = replace(declared.use, name=layout.name, settings=layout.constants)
    extents = "" if declared.extents is None else f"[{', '.join(show(e) for e in declared.extents)}]"
    shares = ""
    if declared.shares is not None and not declared.assembled:
        on = f" on {', '.join(declared.shares.indices)}" if declared.shares.indices else ""
        shares = f" shares {declared.shares.tensor}{on}"
    local = "local " if declared.local else ""
    return f"{local}tensor {declared.name}{extents} : {use_text(use)}{shares}"


def _clauses(kernel: Kernel) -> Iterator[str]:
    if kernel.order:
        yield f"order {', '.join(map(show_loop, kernel.order))}"
    yield from (f"find {show_loop(f)} : {f.algorithm}" for f in kernel.finds)
    yield from map(_directive, kernel.directives)
    if kernel.deterministic:
        yield "deterministic"


def _directive(directive: Directive | LoopsRelation) -> str:
    if isinstance(directive, LoopsRelation):
        if any(loop.tensor for loop in (*directive.old, *directive.new)):
            raise NoText("a relation of positions")
        old, new = (f"[{', '.join(map(show_loop, loops))}]" for loops in (directive.old, directive.new))
        condition = "" if directive.condition == TRUE else f" : {show(directive.condition)}"
        return f"relation {{ {old} -> {new}{condition} }}"
    number = "" if directive.number is None else f" by {directive.number}"
    name = "" if directive.name is None else f" as {directive.name}"
    return f"{directive.word} {', '.join(map(show_loop, directive.loops))}{number}{name}"

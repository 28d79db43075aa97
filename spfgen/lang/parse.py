"""Text to IR 1. Every mistake is a SpecError with its place, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lark import Token, Tree

from spfgen.errors import Span, SpecError
from spfgen.facts.formula import Num, Var
from spfgen.ir import walk
from spfgen.lang.expressions import Reader, raise_all, rebound
from spfgen.lang.fills import fill_number
from spfgen.lang.functions import read_function
from spfgen.lang.levels import Levels, declaration, parse_levels
from spfgen.lang.nodes import (
    Access,
    For,
    Function,
    If,
    Import,
    Kernel,
    LayoutAlias,
    LayoutDecl,
    LayoutUse,
    Let,
    Shares,
    Source,
    SpecFile,
    Statement,
    TensorDecl,
    While,
)
from spfgen.lang.schedule import Schedule, doubled, read_schedule, with_schedule
from spfgen.lang.statements import STEPS, read_steps
from spfgen.lang.syntax import tree_of
from spfgen.lang.values import LexicalScope, indices_of


def parse_file(
    text: str,
    file: str = "<text>",
    functions: Mapping[str, Function] | None = None,
    load: Callable[[Import], Mapping[str, Function]] = lambda _: {},
) -> SpecFile:
    """Read a whole .spf text. `functions` are known already; `load` gives those of an imported file."""
    source = Source(file, text)
    tree = tree_of(source, "start")
    reader = Reader(source)
    items: dict[str, list[Tree[Any]]] = {}
    for item in tree.children:
        assert isinstance(item, Tree)
        items.setdefault(item.data, []).append(item)
    paths = [i.children[0] for i in items.get("import_file", ())]
    imports = [Import(str(p)[1:-1], reader.span(p)) for p in paths]
    known = dict(functions or {})
    for one in imports:
        known |= load(one)
    declared = _functions(reader, items.get("function", ()), known)
    layouts: list[LayoutDecl | LayoutAlias] = []
    kernels: list[Kernel] = []
    for item in tree.children:
        assert isinstance(item, Tree)
        match item.data:
            case "layout":
                layouts.append(_layout(reader, item))
            case "alias":
                layouts.append(_leveled(reader, item) or _alias(reader, item))
            case "kernel":
                kernels.append(_kernel(reader, item, {**known, **declared}))
    return SpecFile(source, tuple(layouts), tuple(kernels), tuple(imports), tuple(declared.values()))


def _functions(reader: Reader, trees: Iterable[Tree[Any]], known: Mapping[str, Function]) -> dict[str, Function]:
    """The functions that are declared; each may call those before it."""
    functions: dict[str, Function] = {}
    for tree in trees:
        function = read_function(reader, tree, {**known, **functions})
        functions[function.name] = function
    return functions


def parse_leveled(levels: Levels, name: str, span: Span | None = None) -> LayoutDecl:
    """The layout of levels such as `(i, j) -> (i : dense, j : compressed)`. Raises Unsupported."""
    layout = parse_file(declaration(levels, name), f"<{name}>").layouts[0]
    assert isinstance(layout, LayoutDecl)
    return replace(layout, span=span or layout.span)


def parse_statements(
    text: str, file: str = "<expression>", functions: Mapping[str, Function] | None = None
) -> tuple[Any, ...]:
    """Read statements alone: `y[i] += A[i, j]*x[j]`, separated by new lines or semicolons; functions may stand among
    them. `functions` are known already."""
    reader = Reader(Source(file, text))
    tree = tree_of(reader.source, "program")
    trees = [t for t in tree.children if isinstance(t, Tree)]
    declared = _functions(reader, [t for t in trees if t.data == "function"], functions or {})
    scope = LexicalScope(reader, {**(functions or {}), **declared})
    steps = read_steps(scope, [t for t in trees if t.data != "function"])
    if not steps:
        raise SpecError("expected a statement such as `y[i] = A[i, j]*x[j]`, but the text is empty")
    return steps


def parse_layout_use(text: str, file: str = "<layout>") -> LayoutUse:
    """Read a layout with its types, constants and fill value: `bcsr<float>(R=4, C=4) fill inf`."""
    reader = Reader(Source(file, text))
    return _layout_use(reader, tree_of(reader.source, "layout_use"))


def parse_schedule(text: str, file: str = "<schedule>") -> Schedule:
    """Read the clauses of a schedule: `tile i by 32; order i, j`."""
    reader = Reader(Source(file, text))
    schedule = read_schedule(reader, tree_of(reader.source, "schedule_text").children)
    raise_all([*doubled(schedule)])
    return schedule


# --- layouts -----------------------------------------------------------------------------------------


def _layout(reader: Reader, tree: Tree[Any]) -> LayoutDecl:
    name = tree.children[0]
    constants = []
    for child in tree.children:
        if isinstance(child, Tree) and child.data == "constant":
            key, value = child.children[0], child.children[-1]
            constants.append((str(key), None if value is None or value is key else reader.number(value)))
    return LayoutDecl(str(name), tree, reader.source, tuple(constants), reader.span(name))


def _leveled(reader: Reader, tree: Tree[Any]) -> LayoutDecl | None:
    """A layout that is written as levels; None for the other name of a layout."""
    name, _, levels = tree.children
    if isinstance(levels, Tree):
        return None
    span = reader.span(levels)
    return parse_leveled(parse_levels(str(levels), span), str(name), reader.span(name))


def _alias(reader: Reader, tree: Tree[Any]) -> LayoutAlias:
    name, _, use_tree = tree.children
    use = _layout_use(reader, use_tree)
    for types in use_tree.find_data("types"):
        raise reader.fail(
            f"expected constants of `{use.name}`, but these are element types",
            types,
            f"types are given where a tensor is declared: `tensor A : {name}<float>`",
        )
    return LayoutAlias(str(name), use, reader.span(name))


def _layout_use(reader: Reader, tree: Tree[Any]) -> LayoutUse:
    value_type: str | None = None
    index_type: str | None = None
    arrays: list[tuple[str, str]] = []
    settings: list[tuple[str, int]] = []
    children = [c for c in tree.children[1:] if c is not None]
    fill = read_fill(children.pop()) if children and children[-1].data == "fill" else None
    if [c.data for c in children].count("types") > 1:
        hint = "write them once, before or after the constants: `LAYOUT<float>(R=2)`"
        raise reader.fail("expected the element types once, but they are given twice", children[-1], hint)
    for child in children:
        if child.data == "settings":
            settings = _settings(reader, child)
            continue
        for position, entry in enumerate(child.children):
            array, kind = entry.children
            if array is not None:
                if reader.name(array) in dict(arrays):
                    hint = "an index array has one type"
                    raise reader.fail(f"expected `{reader.name(array)}` once, but it is given twice", entry, hint)
                arrays.append((reader.name(array), str(kind)))
            elif position == 0:
                value_type = str(kind)
            elif position == 1 and index_type is None:
                index_type = str(kind)
            else:
                raise reader.fail(
                    "expected at most two unnamed types, that of the values and that of the index arrays",
                    entry,
                    "give one array its own type with `name : type`",
                )
    span = reader.span(tree)
    return LayoutUse(str(tree.children[0]), value_type, index_type, tuple(arrays), tuple(settings), span, fill)


def read_fill(tree: Tree[Any]) -> bool | int | float | complex:
    """The number of a `fill` clause: `fill -0.0`, `fill inf`, `fill True`, `fill 1+2j`."""
    (number,) = tree.children
    if isinstance(number, Token):
        return str(number).lower() == "true"
    return fill_number("".join(map(str, number.scan_values(lambda token: isinstance(token, Token)))))


def _settings(reader: Reader, tree: Tree[Any]) -> list[tuple[str, int]]:
    """The constants of a use, each set once."""
    constants: dict[str, int] = {}
    for setting in (c for c in tree.children if c is not None):
        key, _, sign, number = setting.children
        if str(key) in constants:
            raise reader.fail(f"expected `{key}` once, but it is set twice", setting, "leave one of them out")
        constants[str(key)] = -reader.number(number) if sign == "-" else reader.number(number)
    return list(constants.items())


# --- kernels -----------------------------------------------------------------------------------------


def _kernel(reader: Reader, tree: Tree[Any], functions: Mapping[str, Function]) -> Kernel:
    name, *items = tree.children
    tensors: list[TensorDecl] = []
    sizes: list[Any] = []
    steps: list[Any] = []
    clauses: list[Any] = []
    doc = ""
    for item in items:
        match item.data:
            case "doc":
                doc = str(item.children[0]).strip('"')
            case "tensor":
                tensors += _tensors(reader, item)
            case "kernel_size":
                sizes += item.children
            case "schedule":
                clauses += item.children
            case kind if kind in STEPS:
                steps.append(item)
    names = tuple(str(s) for s in sizes)
    read = read_steps(LexicalScope(reader, functions, frozenset(names)), steps)
    kernel = Kernel(str(name), tuple(tensors), names, read, doc=doc, span=reader.span(name))
    kernel = with_schedule(kernel, read_schedule(reader, clauses))
    raise_all([*_doubled(reader, kernel, sizes), *_fixed(kernel), *_unused(kernel), *_rebound(kernel)])
    return kernel


def _doubled(reader: Reader, kernel: Kernel, sizes: Sequence[Any]) -> Iterator[SpecError]:
    """Names of sizes, tensors, scalars, loops and finds that stand twice."""
    seen: dict[str, Span | None] = {}
    for name, span in [*((str(s), reader.span(s)) for s in sizes), *((t.name, t.span) for t in kernel.tensors)]:
        if name in seen:
            first = seen[name]
            hint = f"the first one is in line {first.line}" if first else "give it another name"
            yield SpecError(f"expected a new name, but `{name}` is defined already", span, (hint,))
        seen.setdefault(name, span)
    for let in (n for n in _lets_of(kernel.statements) if n.name in seen):
        hint = f"`{let.name}` is a tensor of the kernel: give the scalar another name"
        yield SpecError(f"expected a new name, but `{let.name}` is defined already", let.span, (hint,))
    yield from doubled(Schedule(kernel.order, kernel.finds, kernel.directives))


def _nodes_of(kernel: Kernel) -> Iterator[Any]:
    """All nodes of the kernel's steps."""
    return (n for step in kernel.statements for n in walk(step))


def _lets_of(steps: Sequence[Any]) -> Iterator[Let]:
    """The scalars of the kernel's own steps; those of functions have names of their own."""
    for step in steps:
        match step:
            case Let():
                yield step
            case If(_, then, otherwise):
                yield from _lets_of((*then, *otherwise))
            case For(_, body) | While(_, body):
                yield from _lets_of(body)


def _statements_of(kernel: Kernel) -> Iterator[Statement]:
    return (n for n in _nodes_of(kernel) if isinstance(n, Statement))


def _fixed(kernel: Kernel) -> Iterator[SpecError]:
    """Sizes as subscripts of a target: one place of it would be written, where all of them are meant."""
    for target in (s.target for s in _statements_of(kernel)):
        for subscript in target.subscripts:
            if isinstance(subscript, Var) and subscript.name in kernel.sizes:
                hint = f"indices are not declared: leave out `size {subscript.name}`, or give the size another name"
                message = f"expected an index of `{target.tensor}`, but `{subscript.name}` is a size of the kernel"
                yield SpecError(message, subscript.span or target.span, (hint,))


def _unused(kernel: Kernel) -> Iterator[SpecError]:
    """Tensors that no statement accesses; the pattern that another one shares may be of such a tensor."""
    if not kernel.statements:
        message = f"expected a statement in kernel `{kernel.name}`, but there is none"
        yield SpecError(message, kernel.span, ("for instance `y[i] += A[i, j]*x[j]`",))
        return
    used = {n.tensor for n in _nodes_of(kernel) if isinstance(n, Access)}
    patterns = {t.shares.tensor for t in kernel.tensors if t.shares is not None}
    strangers = used - {t.name for t in kernel.tensors}
    for tensor in kernel.tensors:
        pattern = tensor.name in patterns
        if tensor.name not in used and (not pattern or tensor.extents is None):
            accesses = (n for n in _nodes_of(kernel) if isinstance(n, Access))
            other = next((a for a in accesses if a.subscripts and a.tensor in strangers), None)
            if other is not None:  # the cause of both is probably one misspelt name
                hint = f"is `{tensor.name}` meant, which nothing uses? else declare it: `tensor {other.tensor} : dense`"
                yield SpecError(f"expected a tensor, but `{other.tensor}` is not declared", other.span, (hint,))
                return
            hint = f"leave out its declaration, or use it: `{tensor.name}[i]`"
            if pattern:
                hint = f"state its extents, if it is only a pattern to share: `tensor {tensor.name}[m, n] : ...`"
            message = f"expected `{tensor.name}` to be used, but no statement accesses it"
            if any(tensor.name in indices_of(n) for n in _nodes_of(kernel) if isinstance(n, Access)):
                message = f"expected `{tensor.name}` to be accessed as a tensor, but it is used as an index"
                hint = f"rename the index or the tensor, or give the tensor subscripts: `{tensor.name}[i]`"
            numbers = sorted(strangers - {s.target.tensor for s in _statements_of(kernel)})
            also = f"`{numbers[0]}` is not declared, so it is a number: is `{tensor.name}` meant?" if numbers else ""
            yield SpecError(message, tensor.span, (also, hint) if also else (hint,))


def _rebound(kernel: Kernel) -> Iterator[SpecError]:
    """Quantified variables of a condition that are indices or sizes already."""
    for statement in _statements_of(kernel):
        known = {v for n in walk(statement) if isinstance(n, Access) for v in indices_of(n)}
        if statement.where is not None:
            yield from rebound(statement.where, known | set(kernel.sizes))


def _tensors(reader: Reader, tree: Tree[Any]) -> list[TensorDecl]:
    is_local, *names = (c for c in tree.children if c is None or isinstance(c, Token))
    names = [n for n in names if n is not None]
    clauses = {c.data: c for c in tree.children if isinstance(c, Tree)}
    use = _layout_use(reader, clauses["layout_use"])
    extents = reader.exprs(clauses["extents"].children[0]) if "extents" in clauses else None
    for extent in extents or ():
        if isinstance(extent, Num) and extent.value < 0:
            hint = "an extent is a number or a `size` of the kernel"
            raise SpecError(f"expected an extent of at least 0, but this is {extent.value}", extent.span, (hint,))
    shares = None
    if "shares" in clauses:
        other, *indices = clauses["shares"].children
        kept = tuple(str(i) for i in indices if i is not None)
        shares = Shares(str(other), kept, reader.span(clauses["shares"]))
    local = is_local is not None
    return [TensorDecl(str(n), use, extents, shares, reader.span(n), local) for n in names]

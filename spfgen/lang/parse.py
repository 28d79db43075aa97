"""Text to IR 1. Every mistake is a SpecError with its place, what was expected and what to do."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from spfgen.errors import Span, SpecError
from spfgen.facts.formula import Expr
from spfgen.lang.expressions import Reader
from spfgen.lang.nodes import (
    Access,
    Binary,
    Constant,
    Import,
    Kernel,
    LayoutAlias,
    LayoutDecl,
    LayoutUse,
    Loop,
    Negate,
    Shares,
    Source,
    SpecFile,
    Statement,
    TensorDecl,
    Value,
)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = files("spfgen.lang").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, start=["start", "program", "layout_use"])


def parse_file(text: str, file: str = "<text>") -> SpecFile:
    """Read a whole .spf text."""
    source = Source(file, text)
    tree = _tree(source, "start")
    reader = Reader(source)
    layouts: list[LayoutDecl | LayoutAlias] = []
    kernels: list[Kernel] = []
    imports: list[Import] = []
    for item in tree.children:
        assert isinstance(item, Tree)
        match item.data:
            case "layout":
                layouts.append(_layout(reader, item))
            case "alias":
                name, _, use = item.children
                layouts.append(LayoutAlias(str(name), _layout_use(reader, use), reader.span(name)))
            case "kernel":
                kernels.append(_kernel(reader, item))
            case "import_file":
                path = item.children[0]
                imports.append(Import(str(path)[1:-1], reader.span(path)))
    return SpecFile(source, tuple(layouts), tuple(kernels), tuple(imports))


def parse_statements(text: str, file: str = "<expression>") -> tuple[Statement, ...]:
    """Read statements alone: `y[i] += A[i, j]*x[j]`, separated by new lines or semicolons."""
    reader = Reader(Source(file, text))
    tree = _tree(reader.source, "program")
    statements = tuple(_statement(reader, s) for s in tree.children if isinstance(s, Tree))
    if not statements:
        raise SpecError("expected a statement such as `y[i] = A[i, j]*x[j]`, but the text is empty")
    return statements


def parse_layout_use(text: str, file: str = "<layout>") -> LayoutUse:
    """Read a layout with its types and constants: `bcsr<float>(R=4, C=4)`."""
    reader = Reader(Source(file, text))
    return _layout_use(reader, _tree(reader.source, "layout_use"))


# --- syntax errors -----------------------------------------------------------------------------------

_WORDS = {
    "NAME": "a name",
    "INT": "a number",
    "FLOAT": "a number",
    "SPECIAL": "a number",
    "COEFFICIENT": "a number",
    "STRING": 'a text in "quotes"',
    "LONG_STRING": 'a text in """quotes"""',
    "STEM": "a name",
    "$END": "the end of the file",
    "FUNCTION": "an expression",
    "TRUTH": "a condition",
    "QUANTIFIER": "`forall`",
    "ADD": "`+`",
    "MULTIPLY": "`*`",
    "COMPARE": "`<=`",
    "EQUAL": "`=`",
    "PLUS_ASSIGN": "`+=`",
    "IMPLIES": "`=>`",
    "DIRECTION": "`increasing`",
    "STRICTLY": "`strictly`",
    "INJECTIVE": "`injective`",
}


def _tree(source: Source, start: str) -> Tree[Any]:
    try:
        return _parser().parse(source.text, start=start)
    except UnexpectedInput as error:
        raise _syntax_error(source, error) from None


def _syntax_error(source: Source, error: UnexpectedInput) -> SpecError:
    lines = source.text.splitlines() or [""]
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        token = error.token
        end = token.end_column if token.end_line == token.line and token.end_column else token.column + 1  # type: ignore[operator]
        span = Span(source.file, source.text, token.line or 1, token.column or 1, end)
        found = f"`{token.splitlines()[0] if str(token) else token}`"
    elif isinstance(error, UnexpectedCharacters):
        span = Span(source.file, source.text, error.line, error.column, error.column + 1)
        found = f"`{source.text[error.pos_in_stream or 0]}`"
    else:
        line = len(lines)
        span = Span(source.file, source.text, line, len(lines[-1]) + 1, len(lines[-1]) + 2)
        found = "the text ends here"
    return SpecError(f"expected {_expected(error)}, but found {found}", span, _hints(error))


def _expected(error: UnexpectedInput) -> str:
    names: set[str] = set()
    if isinstance(error, UnexpectedToken):
        names = set(error.accepts or error.expected)
    elif isinstance(error, UnexpectedCharacters):
        names = set(error.allowed or ())
    elif isinstance(error, UnexpectedEOF):
        names = set(error.expected)
    words: list[str] = []
    for name in sorted(names):
        word = _WORDS.get(name) or _literal(name)
        if word not in words:
            words.append(word)
    words.sort(key=lambda w: (w.startswith("`"), w))
    if len(words) > 8:
        words = [*words[:7], "..."]
    return " or ".join(words) if len(words) <= 2 else ", ".join(words[:-1]) + f" or {words[-1]}"


def _literal(name: str) -> str:
    """The text of an anonymous token: RPAR is `)`, RELATION is `relation`."""
    for terminal in _parser().terminals:
        if terminal.name == name and terminal.pattern.type == "str":
            return f"`{terminal.pattern.value}`"
    return f"`{name.lower()}`"


def _hints(error: UnexpectedInput) -> tuple[str, ...]:
    token = getattr(error, "token", None)
    if isinstance(token, Token):
        if token.type == "$END":
            return ("is a closing `}` missing?",)
        if token in ("(",) and "LSQB" in (getattr(error, "accepts", None) or ()):
            return ("a tensor is accessed with square brackets: `A[i, j]`",)
        if token.type == "NAME" and str(token) in ("relation", "index", "value", "size", "property", "range"):
            return (f"`{token}` starts a clause; is something before it unfinished?",)
    return ("the language is described in README.md, section «The spec file»",)


# --- layouts -----------------------------------------------------------------------------------------


def _layout(reader: Reader, tree: Tree[Any]) -> LayoutDecl:
    name = tree.children[0]
    constants = []
    for child in tree.children:
        if isinstance(child, Tree) and child.data == "constant":
            key, value = child.children[0], child.children[-1]
            constants.append((str(key), None if len(child.children) < 3 or value is None else int(value)))
    return LayoutDecl(str(name), tree, reader.source, tuple(constants), reader.span(name))


def _layout_use(reader: Reader, tree: Tree[Any]) -> LayoutUse:
    value_type: str | None = None
    index_type: str | None = None
    arrays: list[tuple[str, str]] = []
    settings: list[tuple[str, int]] = []
    for child in tree.children[1:]:
        if child is None:
            continue
        if child.data == "settings":
            for setting in (c for c in child.children if c is not None):
                key, _, sign, number = setting.children
                settings.append((str(key), -int(number) if sign == "-" else int(number)))
            continue
        for position, entry in enumerate(child.children):
            array, kind = entry.children
            if array is not None:
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
    return LayoutUse(
        str(tree.children[0]), value_type, index_type, tuple(arrays), tuple(settings), reader.span(tree)
    )


# --- kernels -----------------------------------------------------------------------------------------


def _kernel(reader: Reader, tree: Tree[Any]) -> Kernel:
    name, *items = tree.children
    tensors: list[TensorDecl] = []
    sizes: list[str] = []
    statements: list[Statement] = []
    order: list[Loop] = []
    doc = ""
    for item in items:
        match item.data:
            case "doc":
                doc = str(item.children[0]).strip('"')
            case "tensor":
                tensors += _tensors(reader, item)
            case "kernel_size":
                sizes += [str(c) for c in item.children]
            case "statement":
                statements.append(_statement(reader, item))
            case "schedule":
                order += _order(reader, item)
    return Kernel(str(name), tuple(tensors), tuple(sizes), tuple(statements), tuple(order), doc, reader.span(name))


def _tensors(reader: Reader, tree: Tree[Any]) -> list[TensorDecl]:
    names = [c for c in tree.children if isinstance(c, Token)]
    rest = {c.data: c for c in tree.children if isinstance(c, Tree)}
    use = _layout_use(reader, rest["layout_use"])
    extents = reader.exprs(rest["extents"].children[0]) if "extents" in rest else None
    shares = None
    if "shares" in rest:
        other, *indices = rest["shares"].children
        kept = tuple(str(i) for i in indices if i is not None)
        shares = Shares(str(other), kept, reader.span(rest["shares"]))
    return [TensorDecl(str(n), use, extents, shares, reader.span(n)) for n in names]


def _order(reader: Reader, tree: Tree[Any]) -> list[Loop]:
    loops = []
    for directive in tree.children:
        for loop in directive.children:
            first, second = loop.children[0], loop.children[1] if len(loop.children) > 1 else None
            if second is None:
                loops.append(Loop(None, str(first), reader.span(loop)))
            else:
                loops.append(Loop(str(first), reader.name(second), reader.span(loop)))
    return loops


def _statement(reader: Reader, tree: Tree[Any]) -> Statement:
    target, op, value, where = tree.children
    return Statement(
        _access(reader, target),
        str(op),
        _value(reader, value),
        None if where is None else reader.formula(where),
        reader.span(tree),
    )


def _access(reader: Reader, tree: Tree[Any]) -> Access:
    name, subscripts = tree.children
    found: tuple[Expr, ...] = () if subscripts is None else reader.exprs(subscripts.children[0])
    return Access(str(name), found, reader.span(tree))


def _value(reader: Reader, tree: Tree[Any]) -> Value:
    span = reader.span(tree)
    match tree.data:
        case "value_number":
            text = str(tree.children[0].children[0])
            return Constant(int(text) if text.isdigit() else float(text), span)
        case "access":
            return _access(reader, tree)
        case "value_sign":
            sign, value = tree.children
            return Negate(_value(reader, value), span) if sign == "-" else _value(reader, value)
        case "value_call":
            raise reader.fail(
                f"expected a tensor, a number or an operator, but `{tree.children[0]}(...)` is a function call",
                tree,
                "tensors are accessed with square brackets; functions of values are not compiled yet",
            )
        case "value_sum" | "value_product":
            result = _value(reader, tree.children[0])
            for op, right in zip(tree.children[1::2], tree.children[2::2], strict=True):
                if op in ("%", "mod"):
                    raise reader.fail("expected `*` or `/`, but values have no remainder", tree)
                result = Binary(str(op), result, _value(reader, right), span)
            return result
    raise reader.fail("expected a value", tree)

"""Text to IR 1. Every mistake is a SpecError with its place, what was expected and what to do."""

from __future__ import annotations

import difflib
import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

import lark
from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from spfgen import folder
from spfgen.errors import Span, SpecError
from spfgen.facts.formula import Expr, Num, Var, calls, conjunction, show, variables
from spfgen.ir import walk
from spfgen.lang.expressions import Reader, raise_all, rebound
from spfgen.lang.levels import Levels, declaration, parse_levels
from spfgen.lang.nodes import (
    Access,
    Apply,
    Constant,
    Import,
    Kernel,
    LayoutAlias,
    LayoutDecl,
    LayoutUse,
    Reduce,
    Shares,
    Source,
    SpecFile,
    Statement,
    TensorDecl,
    Value,
)
from spfgen.lang.ops import SYMBOLS
from spfgen.lang.schedule import Schedule, doubled, read_schedule, with_schedule

OPTIONS = {"parser": "lalr", "propagate_positions": True, "start": ["start", "program", "layout_use", "schedule_text"]}


DEEPEST = 250
"""So many operations may stand one in another: a sum has one for each sign. All passes walk trees by recursion."""
CHAINS = ("value_sum", "value_product", "sum", "product")


@lru_cache(maxsize=1)
def _parser() -> Lark:
    """The parser of the grammar. Its tables are kept on disk: to read them takes a tenth of the time to make them."""
    grammar = files("spfgen.lang").joinpath("grammar.lark").read_text(encoding="utf-8")
    key = folder.hash_of(grammar, repr(OPTIONS), lark.__version__, sys.version)
    tables = folder.load("grammar", key)
    if tables is not None:
        return Lark.load(io.BytesIO(tables))
    parser = Lark(grammar, **OPTIONS)
    stream = io.BytesIO()
    parser.save(stream)
    folder.save("grammar", key, stream.getvalue())
    return parser


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
                layouts.append(_leveled(reader, item) or _alias(reader, item))
            case "kernel":
                kernels.append(_kernel(reader, item))
            case "import_file":
                path = item.children[0]
                imports.append(Import(str(path)[1:-1], reader.span(path)))
    return SpecFile(source, tuple(layouts), tuple(kernels), tuple(imports))


def parse_leveled(levels: Levels, name: str, span: Span | None = None) -> LayoutDecl:
    """The layout of levels such as `(i, j) -> (i : dense, j : compressed)`. Raises Unsupported."""
    made = parse_file(declaration(levels, name), f"<{name}>").layouts[0]
    assert isinstance(made, LayoutDecl)
    return replace(made, span=span or made.span)


def parse_statements(text: str, file: str = "<expression>") -> tuple[Statement, ...]:
    """Read statements alone: `y[i] += A[i, j]*x[j]`, separated by new lines or semicolons."""
    reader = Reader(Source(file, text))
    tree = _tree(reader.source, "program")
    statements = tuple(_statement(reader, s) for s in tree.children if isinstance(s, Tree))
    if not statements:
        raise SpecError("expected a statement such as `y[i] = A[i, j]*x[j]`, but the text is empty")
    return statements


def parse_layout_use(text: str, file: str = "<layout>") -> LayoutUse:
    """Read a layout with its types, constants and fill value: `bcsr<float>(R=4, C=4) fill inf`."""
    reader = Reader(Source(file, text))
    return _layout_use(reader, _tree(reader.source, "layout_use"))


def parse_schedule(text: str, file: str = "<schedule>") -> Schedule:
    """Read the clauses of a schedule: `tile i by 32; order i, j`."""
    reader = Reader(Source(file, text))
    schedule = read_schedule(reader, _tree(reader.source, "schedule_text").children)
    raise_all([*doubled(schedule)])
    return schedule


# --- syntax errors -----------------------------------------------------------------------------------

_WORDS = {
    "NAME": "a name",
    "LEVELS": "levels such as `(i, j) -> (i : dense, j : compressed)`",
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
    "SUM": "`sum`",
}


_FORMS = {
    "import": 'import "layouts.spf"',
    "layout": "layout vector(n) { ... }",
    "doc": 'doc "what the layout is"',
    "size": "size nnz",
    "relation": "relation { [p] -> [i] : 0 <= p < nnz and i = idx(p) }",
    "index": "index idx[nnz] { range 0 <= idx(p) < n }",
    "range": "range 0 <= idx(p) < n",
    "property": "property strictly increasing",
    "value": "value val[nnz] at [p]",
    "each": "each k in 1..rank { ... }",
    "fill": "fill 0",
    "binds": "binds numpy : val = self",
    "pack": "pack q by -count(i), i",
    "kernel": "kernel spmv { tensor A, x, y : LAYOUT; y[i] += A[i, j]*x[j] }",
    "tensor": "tensor A, B : LAYOUT<float>",
    "shares": "tensor C : LAYOUT shares A",
    "schedule": "schedule { order i, A.pj }",
    "order": "schedule { order i, A.pj }",
    "find": "schedule { find A.pj : search  find B.p : hash }",
    "tile": "schedule { tile i by 32, A.pj by 256 as block }",
    "split": "schedule { split j by 8 as block }",
    "fuse": "schedule { fuse i, j }",
    "parallel": "schedule { parallel i }",
    "levels": "schedule { levels i }",
    "serial": "schedule { serial i }",
    "vectorize": "schedule { vectorize j }",
    "unroll": "schedule { unroll k by 4 }",
    "prefetch": "schedule { prefetch A.pj by 16 }",
    "deterministic": "schedule { deterministic }",
}
"""A word that starts a clause, and the clause as it should look."""
_IN_LAYOUTS = ("size", "relation", "index", "range", "property", "value", "fill", "binds", "pack", "each")
_IN_SCHEDULES = (
    "order", "find", "tile", "split", "fuse", "parallel", "serial", "levels", "vectorize", "unroll", "prefetch",
    "deterministic",
)  # fmt: skip
_IN_KERNELS = ("tensor", "schedule", *_IN_SCHEDULES, "shares")

_WORDS_WITHIN = ("where", "when", "within", "equal", "shares", "and")

_SIGNS = (
    (r"&&?|∧", "write `and`"),
    (r"\|\|?|∨", "write `or`"),
    (r"!(?!=)|¬", "write `not`"),
    (r"≤", "write `<=`"),
    (r"≥", "write `>=`"),
    (r"≠", "write `!=`"),
    (r"∀", "write `forall`"),
    (r"∃", "write `exists`"),
    (r"→|->", "`->` stands between the tuples of a relation, `[p] -> [i]`; that one thing implies another is `=>`"),
    (r"\.T\b", "for the transposed the subscripts change places: `A[j, i]`"),
    (r"[×·⋅]", "write `*`"),
    (r"//|/\*", "a comment starts with `#`"),
    (r"\*\*|\^", "there are no powers: write a product, `x*x`"),
    (r"<<|>>", "there are no shifts; comparisons are `<`, `<=`, `=`, `!=`, `>=`, `>`"),
    (r":=", "an assignment is written `=`"),
    (r"-=", "write `y[i] += -(...)`"),
    (r"[*/]=", "a statement assigns with `=` or adds with `+=`"),
    (r"\"", "the text is not closed: it ends with the same quotes on its line, or stands in three on each side"),
    (r"['`“”‘’«»]", 'a text stands in double quotes: "..."'),
)
"""What people write out of habit, and what is meant here."""


def _tree(source: Source, start: str) -> Tree[Any]:
    try:
        tree = _parser().parse(source.text, start=start)
        _check_depth(source, tree)
        return tree
    except UnexpectedInput as error:
        raise _SyntaxMistake(source, error).as_error() from None


def _check_depth(source: Source, tree: Tree[Any]) -> None:
    """The operands of one sum count like what stands one in another: values are trees of two operands."""
    level = [(tree, 0)]
    while level:
        deepest, most = max(level, key=lambda item: item[1])
        if most > DEEPEST:
            message = f"expected at most {DEEPEST} operations one in another, but there are more"
            hint = "make several statements of it: `y[i] = ...`, then `y[i] += ...`"
            raise Reader(source).fail(message, deepest, hint)
        level = [(c, n + _operations(t)) for t, n in level for c in t.children if isinstance(c, Tree)]


def _operations(tree: Tree[Any]) -> int:
    return max(1, len(tree.children) // 2) if tree.data in CHAINS else 1


class _SyntaxMistake:
    """Where the text stops making sense, and what was probably meant."""

    def __init__(self, source: Source, error: UnexpectedInput) -> None:
        self.source = source
        self.text = source.text
        token = getattr(error, "token", None)
        self.names: set[str] = set()
        if isinstance(error, UnexpectedToken):
            self.names = set(error.accepts or error.expected)
        self.at_end = isinstance(error, UnexpectedEOF) or (token is not None and token.type == "$END")
        self.unknown_sign = isinstance(error, UnexpectedCharacters)
        position = len(self.text) if self.at_end else error.pos_in_stream
        self.start = len(self.text) if position is None else position
        # of levels in a wrong place the bracket is shown
        length = len(token) if isinstance(token, Token) and token.type != "LEVELS" and not self.at_end else 1
        self.end = self.start + length
        self.widened = self._widen()
        self.before = _blanked(self.text[: self.start])

    def _widen(self) -> bool:
        """A piece of a word becomes the word, a part of a number the number; an open text starts at its quotes."""
        for pattern in (r"[0-9]+\.[0-9]+|\w+", r'"{1,3}'):
            for found in re.finditer(pattern, self.text):
                if found.start() <= self.start < found.end() and not self.at_end:
                    grown = found.start() < self.start
                    self.start, self.end = found.span()
                    return grown
        return False

    def as_error(self) -> SpecError:
        misspelt = self.misspelt()
        if misspelt is not None:
            word, near, start = misspelt
            message = f"expected `{near}`, but found `{word}`"
            return SpecError(message, self.span(start, start + len(word)), (f"did you mean `{near}`?",))
        if self.unknown_sign:
            message = f"expected a sign of the language, but found `{self.found()}`"
        else:
            but = "the text ends here" if self.at_end else f"found `{self.found()}`"
            message = f"expected {_expected(self.names)}, but {but}"
        return SpecError(message, self.span(self.start, self.end), (self.hint(),))

    def found(self) -> str:
        return self.text[self.start : self.end].split("\n")[0]

    def span(self, start: int, end: int) -> Span:
        """The place of a piece of the text; the end of the text is after its last sign."""
        if self.at_end and start >= len(self.text.rstrip()):
            start = len(self.text.rstrip())
        line = self.text.count("\n", 0, start) + 1
        column = start - (self.text.rfind("\n", 0, start) + 1) + 1
        last = self.text.find("\n", start)
        end = min(end, len(self.text) if last < 0 else last)
        return Span(self.source.file, self.text, line, column, max(column + 1, column + end - start))

    # --- what was meant --------------------------------------------------------------------------

    def misspelt(self) -> tuple[str, str, int] | None:
        """(word, the word of the language that it resembles, its place): the word found, or the one before it."""
        word = self.found()
        expected = [_literal(n).strip("`") for n in self.names] + self._short_forms()
        near = _nearest(word, [*expected, *_FORMS] if self.widened else expected)
        if near:
            return word, near, self.start
        previous = re.search(r"([\n{};]?)[ \t]*(\w+)[ \t]*$", self.before)
        if previous and not self.at_end and not self.unknown_sign:
            first = bool(previous[1]) or not previous.start()
            near = _nearest(previous[2], self._words_here() if first else _WORDS_WITHIN)
            if near and previous[2] not in _FORMS:
                return previous[2], near, previous.start(2)
        return None

    def _short_forms(self) -> list[str]:
        return ["increasing", "decreasing"] if "DIRECTION" in self.names else []

    def _words_here(self) -> tuple[str, ...]:
        """The words that start a clause in the item that is open."""
        opened = self.item()
        return ("layout", "kernel", "import") if not opened else _IN_KERNELS if opened == "kernel" else _IN_LAYOUTS

    def item(self) -> str:
        """`layout` or `kernel` when one is open, else nothing."""
        if not self.braces():
            return ""
        found = re.findall(r"^\s*(layout|kernel)\b", self.before, re.MULTILINE)
        return str(found[-1]) if found else ""

    def braces(self) -> list[int]:
        """The places of the `{` that are open."""
        result: list[int] = []
        for found in re.finditer("[{}]", self.before):
            if found[0] == "{":
                result.append(found.start())
            elif result:
                result.pop()
        return result

    def hint(self) -> str:
        rules = (self.sign, self.habit, self.brace, self.bracket, self.number, self.elsewhere)
        for rule in (*rules, self.statement, self.extents):
            hint = rule()
            if hint:
                return hint
        return self.form()

    def form(self) -> str:
        """The clause that is being read, as it should look."""
        found = re.findall(rf"\b({'|'.join(_FORMS)})\b|(\]\s*\+?=|^\s*\w+\s*\+?=)", self.before, re.MULTILINE)
        if not found:
            return "a file holds imports, layouts and kernels"
        word = found[-1][0]
        if word == "relation" and self.item() != "layout":
            return "for instance `schedule { relation { [i, j] -> [t, j] : t = i + j } }`"
        return f"for instance `{_FORMS[word]}`" if word else "for instance `y[i] += 2*A[i, j]*x[j]`"

    def sign(self) -> str:
        for pattern, hint in _SIGNS:
            for found in re.finditer(pattern, self.text[max(0, self.start - 1) : self.start + 3]):
                first = found.start() + max(0, self.start - 1)
                if first <= self.start < first + len(found[0]):
                    return hint
        return ""

    def habit(self) -> str:
        """What is said with a word elsewhere."""
        if self.found() == "all" and re.search(r"\bfor\s+$", self.before):
            return "write `forall p : ...`"
        if self.found() == "@" and self.item() != "layout":
            return "products and sums are written with indices: `y[i] = A[i, j]*x[j]` sums over j"
        if self.found() == "in" and "IN" not in self.names:
            return "what something lies between is a comparison: `0 <= p < n`"
        if re.search(r"\bsum\(\s*\w+\s*,[^;{}\n]*$", self.before):
            return "write `sum(j: ...)`; indices that stand only on the right are summed over without being asked"
        return ""

    def brace(self) -> str:
        """A clause that starts while braces are open that cannot hold it, or the end of the text."""
        opened, word = self.braces(), self.found()
        inner = len(opened) > 1 and word in _FORMS and word not in _IN_SCHEDULES
        if opened and (self.at_end or inner or word in ("layout", "kernel", "import")):
            return f"the `{{` of line {self._line(opened[-1])} is not closed: is a `}}` missing?"
        if word == "}" and not opened:
            return "there is one `}` more than `{` before it"
        return ""

    def _line(self, place: int) -> int:
        return self.text.count("\n", 0, place) + 1

    def bracket(self) -> str:
        found, before = self.found(), self.before.rstrip()
        if found == "(" and "LSQB" in self.names:
            if self.item() == "layout":
                return "tuples and extents stand in square brackets: `[p] -> [i]`"
            return "a tensor is accessed with square brackets: `A[i, j]`"
        if found == "[" and before.endswith("]") and self.item() != "layout":
            return "all subscripts stand in one pair of brackets: `A[i, j]`"
        if found == "[" and "LPAR" in self.names and self.item() == "layout":
            return "the value of an index array is written with round brackets: `idx(p)`"
        if found == "[" and re.search(r":[ \t]*\w+$", before):
            return "element types stand in `<...>`, constants in `(...)`: `LAYOUT<float>(R=2)`"
        if "RSQB" in self.names and "COMMA" in self.names:
            return "subscripts are separated by commas and closed by `]`: `A[i, j]`"
        return ""

    def number(self) -> str:
        if not re.fullmatch(r"[0-9]+\.[0-9]+", self.found()):
            return ""
        return "layouts, subscripts and constants are made of integers; a half of n is `n/2`, rounded down"

    def statement(self) -> str:
        if {"EQUAL", "PLUS_ASSIGN"} <= self.names or ("TENSOR" in self.names and self.found() not in _FORMS):
            return "a statement is `y[i] = ...` or `y[i] += ...`; factors are joined by `*`"
        return ""

    def elsewhere(self) -> str:
        word, item = self.found(), self.item()
        if word == "{":
            word = re.findall(r"\w+", self.before)[-1:][0] if re.search(r"\w\s*$", self.before) else word
        before = re.search(rf"\b({'|'.join(_IN_SCHEDULES)})[ \t]+$", self.before)
        if before and item == "kernel" and "EQUAL" in self.names:
            return f"`{before[1]}` stands within a schedule: `{_FORMS[before[1]]}`"
        if word in _IN_KERNELS and item != "kernel":
            return f"`{word}` stands within a kernel: `kernel spmv {{ {_FORMS[word]} ... }}`"
        if word in _IN_LAYOUTS and item != "layout":
            return f"`{word}` stands within a layout: `layout vector(n) {{ {_FORMS[word]} ... }}`"
        return ""

    def extents(self) -> str:
        if self.found() == "," and self.names == {"COLON"}:
            return "extents follow the last name and hold for all: declare tensors of different extents one by one"
        return ""


def _blanked(text: str) -> str:
    """The text with spaces in place of what comments and texts hold."""
    pattern = r'"""[\s\S]*?"""|"[^"\n]*"|#[^\n]*'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def _nearest(word: str, words: Sequence[str]) -> str:
    """The word of the language that a misspelt one resembles, or nothing."""
    if len(word) < 3 or not word.isidentifier() or word in words:
        return ""
    found = difflib.get_close_matches(word, [w for w in words if len(w) > 2 and w.isidentifier()], 1, 0.75)
    return found[0] if found else ""


def _expected(names: set[str]) -> str:
    """What could stand here, in words."""
    words = sorted({_WORDS.get(n) or _literal(n) for n in names}, key=lambda w: (w.startswith("`"), w))
    if len(words) > 8:
        return ", ".join(words[:7]) + ", ..."
    return " or ".join(words) if len(words) <= 2 else ", ".join(words[:-1]) + f" or {words[-1]}"


def _literal(name: str) -> str:
    """The text of an anonymous token: RPAR is `)`, RELATION is `relation`."""
    for terminal in _parser().terminals:
        if terminal.name == name and terminal.pattern.type == "str":
            return f"`{terminal.pattern.value}`"
    return f"`{name.lower()}`"


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
        raise reader.fail("expected the element types once, but they stand twice", children[-1], hint)
    for child in children:
        if child.data == "settings":
            settings = _settings(reader, child)
            continue
        for position, entry in enumerate(child.children):
            array, kind = entry.children
            if array is not None:
                if reader.name(array) in dict(arrays):
                    hint = "an index array has one type"
                    raise reader.fail(f"expected `{reader.name(array)}` once, but it stands twice", entry, hint)
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


def read_fill(tree: Tree[Any]) -> bool | int | float:
    """The number of a `fill` clause: `fill -0.0`, `fill inf`, `fill True`."""
    *sign, number = tree.children
    if isinstance(number, Token):
        return str(number).lower() == "true"
    text = str(number.children[0])
    value: int | float = int(text) if text.isdigit() else float(text)
    return -value if sign and sign[0] == "-" else value


def _settings(reader: Reader, tree: Tree[Any]) -> list[tuple[str, int]]:
    """The constants of a use, each set once."""
    found: dict[str, int] = {}
    for setting in (c for c in tree.children if c is not None):
        key, _, sign, number = setting.children
        if str(key) in found:
            raise reader.fail(f"expected `{key}` once, but it is set twice", setting, "leave one of them out")
        found[str(key)] = -reader.number(number) if sign == "-" else reader.number(number)
    return list(found.items())


# --- kernels -----------------------------------------------------------------------------------------


def _kernel(reader: Reader, tree: Tree[Any]) -> Kernel:
    name, *items = tree.children
    tensors: list[TensorDecl] = []
    sizes: list[Any] = []
    statements: list[Any] = []
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
            case "statement":
                statements.append(item)
            case "schedule":
                clauses += item.children
    names = tuple(str(s) for s in sizes)
    read = tuple(_statement(reader, s, names) for s in statements)
    kernel = Kernel(str(name), tuple(tensors), names, read, doc=doc, span=reader.span(name))
    kernel = with_schedule(kernel, read_schedule(reader, clauses))
    raise_all([*_doubled(reader, kernel, sizes), *_fixed(kernel), *_unused(kernel), *_rebound(kernel)])
    return kernel


def _doubled(reader: Reader, kernel: Kernel, sizes: Sequence[Any]) -> Iterator[SpecError]:
    """Names of sizes, tensors, loops and finds that stand twice."""
    seen: dict[str, Span | None] = {}
    for name, span in [*((str(s), reader.span(s)) for s in sizes), *((t.name, t.span) for t in kernel.tensors)]:
        if name in seen:
            first = seen[name]
            hint = f"the first one is in line {first.line}" if first else "give it another name"
            yield SpecError(f"expected a new name, but `{name}` is defined already", span, (hint,))
        seen.setdefault(name, span)
    yield from doubled(Schedule(kernel.order, kernel.finds, kernel.directives))


def _fixed(kernel: Kernel) -> Iterator[SpecError]:
    """Sizes as subscripts of a target: one place of it would be written, where all of them are meant."""
    for target in (s.target for s in kernel.statements):
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
    used = {a.tensor for s in kernel.statements for a in _accesses_of(s)}
    patterns = {t.shares.tensor for t in kernel.tensors if t.shares is not None}
    for tensor in kernel.tensors:
        pattern = tensor.name in patterns
        if tensor.name not in used and (not pattern or tensor.extents is None):
            hint = f"leave out its declaration, or use it: `{tensor.name}[i]`"
            if pattern:
                hint = f"state its extents, if it is only a pattern to share: `tensor {tensor.name}[m, n] : ...`"
            message = f"expected `{tensor.name}` to be used, but no statement accesses it"
            yield SpecError(message, tensor.span, (hint,))


def _rebound(kernel: Kernel) -> Iterator[SpecError]:
    """Quantified variables of a condition that are indices or sizes already."""
    for statement in kernel.statements:
        known = {v for a in _accesses_of(statement) for s in a.subscripts for v in variables(s)}
        if statement.where is not None:
            yield from rebound(statement.where, known | set(kernel.sizes))


def _accesses_of(statement: Statement) -> Iterable[Access]:
    return (n for n in walk(statement) if isinstance(n, Access))


def _tensors(reader: Reader, tree: Tree[Any]) -> list[TensorDecl]:
    names = [c for c in tree.children if isinstance(c, Token)]
    rest = {c.data: c for c in tree.children if isinstance(c, Tree)}
    use = _layout_use(reader, rest["layout_use"])
    extents = reader.exprs(rest["extents"].children[0]) if "extents" in rest else None
    for extent in extents or ():
        if isinstance(extent, Num) and extent.value < 0:
            hint = "an extent is a number or a `size` of the kernel"
            raise SpecError(f"expected an extent of at least 0, but this is {extent.value}", extent.span, (hint,))
    shares = None
    if "shares" in rest:
        other, *indices = rest["shares"].children
        kept = tuple(str(i) for i in indices if i is not None)
        shares = Shares(str(other), kept, reader.span(rest["shares"]))
    return [TensorDecl(str(n), use, extents, shares, reader.span(n)) for n in names]


def _statement(reader: Reader, tree: Tree[Any], sizes: Iterable[str] = ()) -> Statement:
    target, op, value, where, within = tree.children
    access = _access(reader, target)
    if within is not None and within != access.tensor:
        hint = f"`within {access.tensor}` says that `{access.tensor}` is computed only where it stores something"
        raise reader.fail(f"expected the target `{access.tensor}` of the statement, but found `{within}`", within, hint)
    known = frozenset({*sizes, *(n for s in access.subscripts for n in variables(s))})
    return Statement(
        access,
        str(op),
        _value(reader, value, known),
        None if where is None else reader.formula(where),
        reader.span(tree),
        within is not None,
    )


def _access(reader: Reader, tree: Tree[Any]) -> Access:
    name, subscripts = tree.children
    found: tuple[Expr, ...] = () if subscripts is None else reader.exprs(subscripts.children[0])
    for call in (c for s in found for c in calls(s)):
        raise SpecError(
            f"expected a subscript made of indices and numbers, but `{show(call)}` is a call",
            call.span,
            ("index arrays belong to layouts: declare a layout whose relation holds the call",),
        )
    return Access(str(name), found, reader.span(tree))


def _value(reader: Reader, tree: Tree[Any], known: frozenset[str]) -> Value:
    """`known` are the names that mean something around it: sizes, indices of the target and of sums outside."""
    span = reader.span(tree)
    match tree.data:
        case "value_number":
            token: Any = tree.children[0].children[0]
            return Constant(reader.number(token) if token.isdigit() else float(token), span)
        case "access":
            return _access(reader, tree)
        case "value_sign":
            sign, value = tree.children
            found = _value(reader, value, known)
            return found if sign == "+" else Apply(SYMBOLS[str(sign), 1], (found,), span)
        case "value_total":
            return _total(reader, tree, known)
        case "value_call":
            raise reader.fail(
                f"expected a tensor, a number or an operator, but `{tree.children[0]}(...)` is a function call",
                tree,
                f"a tensor is accessed with square brackets, `{tree.children[0]}[...]`; "
                "functions of values are not compiled yet",
            )
        case "value_sum" | "value_product":
            result = _value(reader, tree.children[0], known)
            for op, right in zip(tree.children[1::2], tree.children[2::2], strict=True):
                if op in ("%", "mod"):
                    hint = "remainders are for subscripts and conditions"
                    raise reader.fail(f"expected `*` or `/`, but `{op}` is not for values", op, hint)
                factor = _value(reader, right, known)
                if op == "/" and isinstance(factor, Constant) and factor.value == 0:
                    raise reader.fail("expected a divisor that is not 0, but it is", right, "divide by another number")
                result = Apply(SYMBOLS[str(op), 2], (result, factor), span)
            return result
    raise reader.fail("expected a value", tree)


def _total(reader: Reader, tree: Tree[Any], known: frozenset[str]) -> Reduce:
    """`sum(j: value)`, `sum(i, j: value)`, `sum(j < i: value)`: the names that are new here are summed over."""
    _, head, value, where = tree.children
    sides = [head] if head.data != "comparison" else head.children[::2]
    items = [i for s in sides for i in (s.children if s.data == "expressions_" else [s])]
    plain = [reader.name(i) for i in items if i.data == "name"]
    indices = tuple(n for n in dict.fromkeys(plain) if n not in known and n not in reader.constants)
    if not indices or (head.data != "comparison" and len(indices) < len(items)):
        found = f"`{plain[0]}` means something already" if plain else "this names none"
        raise reader.fail(
            f"expected an index to sum over, but {found}",
            head,
            "write `sum(j: ...)` with an index of its own, or with a condition on it, `sum(j < i: ...)`",
        )
    conditions = [reader.formula(head)] if head.data == "comparison" else []
    conditions += [] if where is None else [reader.formula(where)]
    inner = _value(reader, value, known | set(indices))
    return Reduce("add", indices, inner, conjunction(conditions) if conditions else None, reader.span(tree))

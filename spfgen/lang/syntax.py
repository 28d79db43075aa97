"""From text to parse trees; where the text is wrong, what was expected there and what was probably meant."""

from __future__ import annotations

import difflib
import io
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

import lark
from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from spfgen import folder
from spfgen.errors import UNPRINTABLE, Span, SpecError
from spfgen.lang.expressions import Reader
from spfgen.lang.nodes import Source

OPTIONS = {"parser": "lalr", "propagate_positions": True, "start": ["start", "program", "layout_use", "schedule_text"]}


DEEPEST = 250
"""So many operations may stand one in another: a sum has one for each sign. All passes walk trees by recursion."""
CHAINS = (
    "value_or", "value_and", "value_comparison", "value_bits", "value_xor", "value_both", "value_shift", "value_sum",
    "value_product", "sum", "product",
)  # fmt: skip


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


_WORDS = {
    "NAME": "a name",
    "LEVELS": "levels such as `(i, j) -> (i : dense, j : compressed)`",
    "INT": "a number",
    "FLOAT": "a number",
    "SPECIAL": "a number",
    "IMAGINARY": "an imaginary number such as `2j`",
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
    "UPDATE": "`+=`",
    "LOCAL": "`local`",
    "POWER": "`**`",
    "FLOOR": "`*`",
    "SHIFT": "`<<`",
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
    "fill": "fill inf",
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
_STEPS = {
    "for": "for i { y[i] = x[i] }",
    "if": "if x[i] > 0 { y[i] = x[i] } else { y[i] = 0 }",
    "while": "while v > 1 { v = v/2 }",
    "let": "let s = 0.0",
}
"""The same of what stands among the statements of a kernel."""
_WHOLE = {
    "start": "a file holds imports, layouts, functions and kernels",
    "program": "a statement is `y[i] = ...`; a text with kernels or layouts is read by spfgen.parse",
    "layout_use": "for instance `csr`, `csr<float, int64>` or `bcsr(R=4, C=4)`",
    "schedule_text": "for instance `tile i by 32; parallel i_tile`",
}
"""What is read, as it should look."""
_IN_LAYOUTS = ("size", "relation", "index", "range", "property", "value", "fill", "binds", "pack", "each")
_IN_SCHEDULES = (
    "order", "find", "tile", "split", "fuse", "parallel", "serial", "levels", "vectorize", "unroll", "prefetch",
    "deterministic",
)  # fmt: skip
_IN_KERNELS = ("tensor", "schedule", *_IN_SCHEDULES, "shares")

_WORDS_WITHIN = ("where", "when", "within", "equal", "shares", "and")

_SIGNS = (
    (r"&&?|∧", "write `and`; `&` joins the bits of values"),
    (r"\|\|?|∨", "write `or`; `|` joins the bits of values"),
    (r"!(?!=)|¬", "write `not`"),
    (r"≤", "write `<=`"),
    (r"≥", "write `>=`"),
    (r"≠", "write `!=`"),
    (r"∀", "write `forall`"),
    (r"∃", "write `exists`"),
    (r"→|->", "`->` separates the tuples of a relation, `[p] -> [i]`; implication is `=>`"),
    (r"\.T\b", "to transpose, exchange the subscripts: `A[j, i]`"),
    (r"[×·⋅]", "write `*`"),
    (r"//|/\*", "a comment starts with `#`"),
    (r"\*\*|\^", "conditions and layouts have no powers: write a product, `x*x`"),
    (r"<<|>>", "conditions and layouts have no shifts; comparisons are `<`, `<=`, `=`, `!=`, `>=`, `>`"),
    (r"\?", "a choice between two values is `where(x[i] > 0, x[i], 0)`"),
    (r":=", "an assignment is written `=`"),
    (r"\"", "the text is not closed: end it with the same quotes on its line, or put three quotes on each side"),
    (r"['`“”‘’«»]", 'a text is written in double quotes: "..."'),
)
"""What people write out of habit, and what is meant here."""


def tree_of(source: Source, start: str) -> Tree[Any]:
    try:
        tree = _parser().parse(source.text, start=start)
        _check_depth(source, tree)
        return tree
    except UnexpectedInput as error:
        raise _SyntaxMistake(source, error, start).as_error() from None


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

    def __init__(self, source: Source, error: UnexpectedInput, start: str) -> None:
        self.source = source
        self.text = source.text
        self.whole = start
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
        self.names = self.names or self._possible()
        self.widened = self._widen()
        self.before = _blanked(self.text[: self.start])

    def _possible(self) -> set[str]:
        """What may follow what is right: lark does not say where no token at all fits its state."""
        reading: Any = _parser().parse_interactive(self.text[: self.start], start=self.whole)
        try:
            reading.exhaust_lexer()
        except UnexpectedInput:
            return set()
        return set(reading.accepts())

    def _widen(self) -> bool:
        """A piece of a word becomes the word, a part of a number the number; an open text starts at its quotes."""
        for pattern in (r"[0-9]+\.[0-9]+|\w+", r'"{1,3}'):
            for match in re.finditer(pattern, self.text):
                if match.start() <= self.start < match.end() and not self.at_end:
                    grown = match.start() < self.start
                    self.start, self.end = match.span()
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
            if self._value_in_where():
                message = "expected indices and sizes behind `where`, but found a value that is read"
            if self.whole != "start":
                message = message.replace("the end of the file", "the end of the text")
        return SpecError(message, self.span(self.start, self.end), (self.hint(),))

    def _value_in_where(self) -> bool:
        return self.found() == "[" and re.search(r"\bwhere\b[^;{}\n]*$", self.before.rstrip()) is not None

    def found(self) -> str:
        text = self.text[self.start : self.end].split("\n")[0]
        return text if text.isprintable() else UNPRINTABLE

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
        headings = re.findall(r"^\s*(layout|kernel)\b", self.before, re.MULTILINE)
        return str(headings[-1]) if headings else ""

    def braces(self) -> list[int]:
        """The places of the `{` that are open."""
        result: list[int] = []
        for match in re.finditer("[{}]", self.before):
            if match[0] == "{":
                result.append(match.start())
            elif result:
                result.pop()
        return result

    def hint(self) -> str:
        rules = (self.sign, self.habit, self.unclosed, self.brace, self.bracket, self.number, self.elsewhere)
        for rule in (*rules, self.statement, self.extents):
            hint = rule()
            if hint:
                return hint
        return self.form()

    def form(self) -> str:
        """The clause that is being read, as it should look."""
        words = "|".join({**_FORMS, **_STEPS})
        assigned = r"\s*(?:[a-z]\w*|\*\*|//|<<|>>|[-+*/%|&^])?="
        clauses = re.findall(rf"\b({words})\b|(\]{assigned}|^\s*\w+{assigned})", self.before, re.MULTILINE)
        if not clauses:
            return _WHOLE[self.whole]
        word = clauses[-1][0]
        if word in _STEPS:
            return f"for instance `{_STEPS[word]}`"
        if word == "relation" and self.item() != "layout":
            return "for instance `schedule { relation { [i, j] -> [t, j] : t = i + j } }`"
        return f"for instance `{_FORMS[word]}`" if word else "for instance `y[i] += 2*A[i, j]*x[j]`"

    def sign(self) -> str:
        if re.match(r'"[^"\n]+"', self.text[self.start :]):
            return "texts occur after `doc` and `import` only; values are numbers"
        for pattern, hint in _SIGNS:
            for match in re.finditer(pattern, self.text[max(0, self.start - 1) : self.start + 3]):
                first = match.start() + max(0, self.start - 1)
                if first <= self.start < first + len(match[0]):
                    return hint
        return ""

    def habit(self) -> str:
        """What is said with a word elsewhere."""
        if self.found() == "all" and re.search(r"\bfor\s+$", self.before):
            return "write `forall p : ...`"
        if self.found() in ("or", "union", "|") and re.search(r"\brelation\s*\{[^{}]*\}\s*$", self.before):
            return "write alternatives in one relation, separated by `;`: `{ [p] -> [i] : ...; [q] -> [i] : ... }`"
        if self.found() == "@" and self.item() != "layout":
            return "products and sums are written with indices: `y[i] = A[i, j]*x[j]` sums over j"
        if self.item() != "layout" and re.search(r"\bfor\s*(\w+\s*)?$", self.before):
            return "`for i { ... }` visits the extent of `i`, `for i where 2 <= i < 8 { ... }` a part of it"
        if self.found() == "=" and self.before.endswith("=") and self.item() != "layout":
            return "an equation has one `=`; two compare values: `B[i] = x[i] == y[i]`"
        if self.found() == "for" and "RPAR" in self.names:
            return "the index comes first: `sum(j: A[i, j])`"
        if self.found().isdigit() and re.search(r"\btensor\b[^:]*:\s*\w+\s*(<[^<>]*>)?\s*\($", self.before):
            return "constants have names: `bcsr(R=2, C=2)`"
        if "LBRACE" in self.names and re.search(r"[\])\w]\s+if\b[^{};\n]*$", self.before):
            return "`if` comes first: `if x[i] > 0 { y[i] = x[i] }`; a choice between values is `where(c, a, b)`"
        if self.found() == "in" and "IN" not in self.names:
            return "a range is written as a comparison: `0 <= p < n`"
        if re.search(r"\bsum\(\s*\w+\s*,[^;{}\n]*$", self.before):
            return "write `sum(j: ...)`; indices that occur only on the right are summed over implicitly"
        return ""

    def unclosed(self) -> str:
        """A round or square bracket that is still open where the next line begins, or the text ends."""
        opened = list[int]()
        for match in re.finditer(r'#[^\n]*|"[^"\n]*"|[][(){}]', self.before):
            if match[0] in ("(", "["):
                opened.append(match.start())
            elif match[0] in (")", "]"):
                opened = opened[:-1]
            elif match[0] in ("{", "}"):
                opened = []
        first = self.at_end or self.found() == "}" or self.before.rstrip(" \t").endswith("\n")
        if not opened or not first or not {"RPAR", "RSQB"} & self.names:
            return ""
        place = opened[-1]
        where = f"line {self._line(place)}, column {place - self.text.rfind(chr(10), 0, place)}"
        sign = self.text[place]
        return f"the `{sign}` of {where} is not closed: is a `{')' if sign == '(' else ']'}` missing?"

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
        token, before = self.found(), self.before.rstrip()
        if token == "(" and "LSQB" in self.names:
            if self.item() == "layout":
                return "write tuples and extents in square brackets: `[p] -> [i]`"
            return "a tensor is accessed with square brackets: `A[i, j]`"
        if token == "[" and before.endswith("]") and self.item() != "layout":
            return "write all subscripts in one pair of brackets: `A[i, j]`"
        if token == "[" and "LPAR" in self.names and self.item() == "layout":
            return "the value of an index array is written with round brackets: `idx(p)`"
        if self._value_in_where():
            return (
                "`where` after a statement compares indices and sizes; values are compared in the value: "
                "`where(x[j] > 0, A[i, j], 0)`"
            )
        if token == "[" and re.search(r":[ \t]*\w+$", before):
            return "write element types in `<...>`, constants in `(...)`: `LAYOUT<float>(R=2)`"
        if token == ":" and self.item() != "layout" and re.search(r"\[[^\[\]]*$", before):
            return "a slice keeps its index, `x[i(1:8:2)]`; an index alone runs over the whole extent"
        if token == "," and re.search(r"\btensor\b[^:;{}\n]*:[^:;{},\n]*$", before):
            return "behind each layout comes a `tensor` of its own: `tensor A : csr  tensor x, y : dense`"
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
            return f"`{before[1]}` belongs in a schedule: `{_FORMS[before[1]]}`"
        if word in _IN_KERNELS and item != "kernel":
            return f"`{word}` belongs in a kernel: `kernel spmv {{ {_FORMS[word]} ... }}`"
        if word in _IN_LAYOUTS and item != "layout":
            return f"`{word}` belongs in a layout: `layout vector(n) {{ {_FORMS[word]} ... }}`"
        return ""

    def extents(self) -> str:
        if self.found() == "," and self.names == {"COLON"}:
            return (
                "extents follow the last name and apply to all names: declare tensors with different extents one by one"
            )
        return ""


def _blanked(text: str) -> str:
    """The text with spaces in place of what comments and texts hold."""
    pattern = r'"""[\s\S]*?"""|"[^"\n]*"|#[^\n]*'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def _nearest(word: str, words: Sequence[str]) -> str:
    """The word of the language that a misspelt one resembles, or nothing."""
    if len(word) < 3 or not word.isidentifier() or word in words:
        return ""
    matches = difflib.get_close_matches(word, [w for w in words if len(w) > 2 and w.isidentifier()], 1, 0.75)
    return matches[0] if matches else ""


_OF_STEPS = {"LET", "FOR", "IF", "WHILE", "BREAK", "RETURN", "LOCAL"}
"""Words that start a step: a list of what could stand somewhere names the assignment alone."""
_SIGNS_OF_VALUES = {"POWER", "FLOOR", "SHIFT", "BAR", "CARET", "AMPERSAND", "COMPARE", "EQUAL", "AND", "OR"}
_STARTS_OF_VALUES = {"TRUTH", "TILDE", "NOT"}
"""What is left out beside `+` and `*`, and beside numbers."""


def _expected(names: set[str]) -> str:
    """What could stand here, in words."""
    names = names - _OF_STEPS if "LET" in names and names - _OF_STEPS else names
    names = names - _SIGNS_OF_VALUES if "BAR" in names else names
    names = names - _STARTS_OF_VALUES if "FLOAT" in names else names
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

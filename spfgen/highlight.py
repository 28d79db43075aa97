"""Colours for spec files: a lexer for Pygments, which finds it by the name `spf`."""

from __future__ import annotations

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

from spfgen.lang.signs import PLACES

CLAUSES = (
    "layout kernel function import doc size relation index range property value each fill binds pack tensor local "
    "shares schedule order find tile split fuse parallel levels serial vectorize unroll prefetch deterministic "
    "at when by as for if else while let break return case space"
)
LOGIC = (
    "where within and or not forall exists mod in increasing decreasing strictly injective equal commutative "
    "associative idempotent annihilator identity"
)
FUNCTIONS = (
    f"sum prod max min any all {' '.join(PLACES)} floor ceil abs sqrt exp log power coalesce collapse split concat "
    "slice count pattern"
)


class SpfLexer(RegexLexer):  # type: ignore[misc]
    """Spec files of spfgen."""

    name = "spfgen spec"
    aliases = ["spf"]  # noqa: RUF012 - as pygments has it
    filenames = ["*.spf"]  # noqa: RUF012
    tokens = {  # noqa: RUF012
        "root": [
            (r"#[^\n]*", Comment.Single),
            (r'"""[\s\S]*?"""|"[^"\n]*"', String),
            (words(CLAUSES.split(), prefix=r"\b", suffix=r"\b"), Keyword),
            (words(LOGIC.split(), prefix=r"\b", suffix=r"\b"), Operator.Word),
            (words(FUNCTIONS.split(), prefix=r"\b", suffix=r"\b(?=\()"), Name.Builtin),
            (r"\b(bool|u?int(8|16|32|64)?|float(32|64)?|double|complex(64|128))\b", Keyword.Type),
            (r"\d+(\.\d+)?([eE][-+]?\d+)?", Number),
            (r"[A-Za-z_]\w*(?=\()", Name.Function),
            (r"[A-Za-z_]\w*", Name),
            (r"->|=>|\+=|[<>=!]=|[-+*/%&|^<>=]", Operator),
            (r"[\[\](){},.;:]", Punctuation),
            (r"\s+", Text.Whitespace),
            (r".", Text),
        ]
    }

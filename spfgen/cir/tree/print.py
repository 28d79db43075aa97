"""The C tree as text: readable C99, 4 columns per level, braces always, about 100 columns wide.

Parentheses stand where C needs them and where a reader (or gcc -Wall) would ask for them, nowhere else.
What decides is one table, `OPERATORS`: how tightly an operator binds, whether it may be regrouped, and which
operators may stand inside it without parentheses.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from spfgen.cir.tree.nodes import (
    Assign,
    Bin,
    Block,
    Braces,
    Break,
    Call,
    Cast,
    Comment,
    Declare,
    Do,
    Expr,
    Field,
    File,
    Float,
    For,
    Function,
    If,
    Int,
    Load,
    Name,
    Param,
    Pragma,
    Return,
    Select,
    Stmt,
    Struct,
    Text,
    Un,
    While,
)
from spfgen.errors import InternalError

WIDTH = 100
_STEP = "    "

# --- operators -----------------------------------------------------------------------------------

POSTFIX = 15  # also names and non-negative constants
UNARY = 14
SELECT = 3

_ARITHMETIC = frozenset("+-*/%")
_COMPARISON = frozenset({"<", "<=", ">", ">=", "==", "!="})
_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BinaryOperator:
    """How a binary operator binds.

    All binary operators of C group to the left. `regroup` says that `a op (b op c)` always equals
    `(a op b) op c`, so that the parentheses may go: true of && and || only, as + and * round or overflow, and
    the bit operators convert their operands two at a time. `bare` holds the operators that may stand directly
    inside this one without parentheses, if their precedence allows it; all others get them for the reader.
    """

    precedence: int
    bare: frozenset[str]
    regroup: bool = False


OPERATORS: dict[str, BinaryOperator] = {
    "*": BinaryOperator(13, frozenset("*")),
    "/": BinaryOperator(13, _NOTHING),
    "%": BinaryOperator(13, _NOTHING),
    "+": BinaryOperator(12, _ARITHMETIC),
    "-": BinaryOperator(12, _ARITHMETIC),
    "<<": BinaryOperator(11, _NOTHING),
    ">>": BinaryOperator(11, _NOTHING),
    "<": BinaryOperator(10, _ARITHMETIC),
    "<=": BinaryOperator(10, _ARITHMETIC),
    ">": BinaryOperator(10, _ARITHMETIC),
    ">=": BinaryOperator(10, _ARITHMETIC),
    "==": BinaryOperator(9, _ARITHMETIC),
    "!=": BinaryOperator(9, _ARITHMETIC),
    "&": BinaryOperator(8, frozenset("&")),
    "^": BinaryOperator(7, frozenset("^")),
    "|": BinaryOperator(6, frozenset("|")),
    "&&": BinaryOperator(5, _ARITHMETIC | _COMPARISON | {"&&"}, regroup=True),
    "||": BinaryOperator(4, _ARITHMETIC | _COMPARISON | {"||"}, regroup=True),
}
UNARY_OPERATORS = frozenset("-!~&*")
ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "|=", "&="})

# --- expressions ---------------------------------------------------------------------------------


def print_expr(e: Expr) -> str:
    """The expression on one line, without parentheses around the whole."""
    return _expr(e)[0]


def _expr(e: Expr) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    match e:
        case Int(value):
            return _int(value)
        case Float():
            return _float(e)
        case Name(name):
            return name, POSTFIX
        case Load(array, index):
            return f"{_at_least(POSTFIX, array)}[{print_expr(index)}]", POSTFIX
        case Field(pointer, name):
            return f"{_at_least(POSTFIX, pointer)}->{name}", POSTFIX
        case Call(function, arguments):
            return f"{function}({', '.join(print_expr(a) for a in arguments)})", POSTFIX
        case Cast(type_name, operand):
            return f"({type_name}){_at_least(UNARY, operand)}", UNARY
        case Un():
            return _unary(e), UNARY
        case Bin():
            return _binary(e), _operator(e.op).precedence
        case Select():
            return _select(e), SELECT
        case _:
            raise InternalError(f"expected an expression of the C tree, but got {type(e).__name__}")


def _at_least(precedence: int, e: Expr) -> str:
    text, binding = _expr(e)
    return text if binding >= precedence else f"({text})"


def _operator(op: str) -> BinaryOperator:
    if op not in OPERATORS:
        raise InternalError(f"expected a binary operator of C, but got {op!r}")
    return OPERATORS[op]


def _int(value: int) -> tuple[str, int]:
    if value == -(2**63):
        return "INT64_MIN", POSTFIX  # its digits alone do not fit into int64_t
    if value < 0:
        return f"-{_int(-value)[0]}", UNARY
    if value < 2**31:
        return str(value), POSTFIX
    if value < 2**63:
        return f"INT64_C({value})", POSTFIX
    if value < 2**64:
        return f"UINT64_C({value})", POSTFIX
    raise InternalError(f"expected an integer of at most 64 bits, but got {value}")


def _float(e: Float) -> tuple[str, int]:
    if math.isnan(e.value):
        return "NAN", POSTFIX
    precedence = UNARY if math.copysign(1.0, e.value) < 0 else POSTFIX
    if math.isinf(e.value):
        return ("INFINITY" if e.value > 0 else "-INFINITY"), precedence
    # repr is the shortest text that reads back exactly; it has a point or an exponent, as C wants.
    return repr(float(e.value)) + ("f" if e.single else ""), precedence


def _unary(e: Un) -> str:
    if e.op not in UNARY_OPERATORS:
        raise InternalError(f"expected a unary operator of C, but got {e.op!r}")
    text = _at_least(UNARY, e.operand)
    if e.op in "-&" and text.startswith(e.op):
        return f"{e.op}({text})"  # `--a` and `&&a` would be other operators
    return e.op + text


def _binary(e: Bin) -> str:
    operator = _operator(e.op)
    left_needs = operator.precedence
    same = isinstance(e.right, Bin) and e.right.op == e.op
    right_needs = operator.precedence + (0 if operator.regroup and same else 1)
    # The blanks keep `a - -b`, `a & &b` and `a / *p` apart.
    return f"{_inside(e.op, e.left, left_needs)} {e.op} {_inside(e.op, e.right, right_needs)}"


def _inside(op: str, operand: Expr, needed: int) -> str:
    """An operand of the binary operator `op`, in parentheses if C or the reader needs them."""
    text, binding = _expr(operand)
    return text if binding >= needed and _is_clear(op, operand) else f"({text})"


def _is_clear(op: str, operand: Expr) -> bool:
    match operand:
        case Bin(inner):
            return inner in _operator(op).bare
        case Un("!"):
            return op in ("&&", "||")  # in `!a < b` one wonders how far the `!` reaches
        case _:
            return True


def _select(e: Select) -> str:
    return f"{_condition(e.condition)} ? {_at_least(SELECT + 1, e.yes)} : {_at_least(SELECT, e.no)}"


def _condition(e: Expr) -> str:
    """The condition of a Select: bare if it looks like one."""
    text, binding = _expr(e)
    clear = not isinstance(e, Bin) or e.op in _COMPARISON or e.op in ("&&", "||")
    return text if binding > SELECT and clear else f"({text})"


# --- statements ----------------------------------------------------------------------------------


def print_stmt(s: Stmt, indent: int = 0) -> list[str]:
    """The lines of a statement at `indent` levels."""
    match s:
        case Braces(body):
            return [*_lines("{", indent), *print_stmt(body, indent + 1), *_lines("}", indent)]
        case Block(statements):
            return [line for inner in statements for line in print_stmt(inner, indent)]
        case Declare(type_name, name, None, length, width):
            size = "".join(f"[{n}]" for n in (length, width) if n)
            return _lines(f"{_declared(type_name, name)}{size};", indent)
        case Declare(type_name, name, Expr() as value):
            return _lines(f"{_declared(type_name, name)} = {print_expr(value)};", indent)
        case Assign():
            return _lines(_assign(s), indent)
        case For():
            head = _lines(f"for ({_for_head(s)}) {{", indent)
            return _pragmas(s.pragmas, indent) + head + _body(s.body, indent)
        case While(condition, body):
            return _lines(f"while ({print_expr(condition)}) {{", indent) + _body(body, indent)
        case If():
            return _if(s, indent)
        case Return(None):
            return _lines("return;", indent)
        case Return(Expr() as value):
            return _lines(f"return {print_expr(value)};", indent)
        case Do(expression):
            return _lines(f"{print_expr(expression)};", indent)
        case Break():
            return _lines("break;", indent)
        case Comment(text):
            return _comment(text, indent)
        case Pragma(text):
            return _pragmas((text,), indent)
        case _:
            raise InternalError(f"expected a statement of the C tree, but got {type(s).__name__}")


def _declared(type_name: str, name: str) -> str:
    return f"{type_name}{name}" if type_name.endswith("*") else f"{type_name} {name}"


def _assign(s: Assign) -> str:
    if s.op not in ASSIGNMENTS:
        raise InternalError(f"expected an assignment operator, but got {s.op!r}")
    if s.op == "+=" and s.value == Int(1):
        return f"{_at_least(POSTFIX, s.target)}++;"  # `*p++` would step the pointer
    return f"{print_expr(s.target)} {s.op} {print_expr(s.value)};"


def _for_head(s: For) -> str:
    start = f"{_declared(s.type, s.variable)} = {print_expr(s.start)}"
    return f"{start}; {print_expr(s.condition)}; {_step(s.variable, s.step)}"


def _step(variable: str, step: int | Expr) -> str:
    if isinstance(step, Expr):
        return f"{variable} = {print_expr(step)}"
    if step == 0:
        raise InternalError(f"expected a loop that moves, but the step of {variable} is 0")
    if abs(step) == 1:
        return variable + ("++" if step > 0 else "--")
    return f"{variable} {'+=' if step > 0 else '-='} {print_expr(Int(abs(step)))}"


def _body(body: Stmt, indent: int) -> list[str]:
    """What stands after the opening brace, and the closing one."""
    return [*print_stmt(body, indent + 1), f"{_STEP * indent}}}"]


def _if(s: If, indent: int) -> list[str]:
    lines = _lines(f"if ({print_expr(s.condition)}) {{", indent) + _body(s.then, indent)
    otherwise = _only(s.orelse)
    while isinstance(otherwise, If):
        lines[-1:] = _lines(f"}} else if ({print_expr(otherwise.condition)}) {{", indent)
        lines += _body(otherwise.then, indent)
        otherwise = _only(otherwise.orelse)
    if otherwise is not None and otherwise != Block(()):
        lines[-1:] = [f"{_STEP * indent}}} else {{", *_body(otherwise, indent)]
    return lines


def _only(s: Stmt | None) -> Stmt | None:
    """The one statement of a Block of one, at any depth; otherwise `s`."""
    while isinstance(s, Block) and len(s.statements) == 1:
        s = s.statements[0]
    return s


def _pragmas(texts: Iterable[str], indent: int) -> list[str]:
    return [f"{_STEP * indent}#pragma {_one_line(text)}" for text in texts]


def _one_line(text: str) -> str:
    if "\n" in text:
        raise InternalError(f"expected a pragma of one line, but got {text!r}")
    return text


# --- lines ---------------------------------------------------------------------------------------

_BREAKS = re.compile(r"(?<=[,;]) | (?=(?:&&|\|\||[-+?:]) )|(?<= =) ")


def _lines(code: str, indent: int) -> list[str]:
    """A line of code at `indent` levels; too long a one continues two levels deeper."""
    lines = []
    margin = _STEP * indent
    while (place := _break(code, WIDTH - len(margin))) is not None:
        lines.append(margin + code[:place])
        code = code[place + 1 :]
        margin = _STEP * (indent + 2)
    return [*lines, margin + code]


def _break(code: str, room: int) -> int | None:
    """The blank at which to break a line: the last that fits, of those inside the fewest brackets."""
    if len(code) <= room:
        return None
    best: tuple[int, int] | None = None
    for blank in _BREAKS.finditer(code):
        if blank.start() > room:
            break
        before = code[: blank.start()]
        depth = sum(before.count(c) for c in "([") - sum(before.count(c) for c in ")]")
        if before and (best is None or depth <= best[0]):
            best = depth, blank.start()
    return None if best is None else best[1]


def _comment(text: str, indent: int) -> list[str]:
    """A comment: on one line if it fits, otherwise wrapped. Its line ends are kept."""
    margin = _STEP * indent
    room = max(WIDTH - len(margin) - 6, 30)
    lines = [piece for line in _harmless(text).strip().splitlines() for piece in _wrapped(line, room)]
    if len(lines) <= 1:
        return [" ".join([f"{margin}/*", *lines, "*/"])]
    return [f"{margin}/*", *(f"{margin} * {line}".rstrip() for line in lines), f"{margin} */"]


def _harmless(text: str) -> str:
    """Text that neither ends a comment nor seems to start one (gcc -Wall warns of that)."""
    return text.replace("*/", "* /").replace("/*", "/ *")


def _wrapped(line: str, room: int) -> list[str]:
    """A line of text cut into pieces that fit; the pieces keep its margin."""
    margin = line[: len(line) - len(line.lstrip())]
    wrapper = textwrap.TextWrapper(room, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(line) or [""]


# --- functions and structs -----------------------------------------------------------------------


def prototype(function: Function) -> str:
    """`result name(parameters);`.

    Without `restrict` on the parameters: it is no part of a function's type, and C++ does not know the word.
    """
    return _signature(function, tuple(_unrestricted(p) for p in function.params)) + ";"


def print_function(function: Function) -> str:
    """The definition. The header says what its parameters are and what it returns; here stands what it is for."""
    first = function.doc.strip().partition("\n\n")[0]
    head = [*(_comment(first, 0) if first else []), _signature(function, function.params), "{"]
    return "\n".join([*head, *_body(function.body, 0)])


def _signature(function: Function, params: tuple[Param, ...]) -> str:
    head = ("static " if function.static else "") + _declared(function.result, function.name)
    shown = [_declared(p.type, p.name) for p in params] or ["void"]
    line = f"{head}({', '.join(shown)})"
    if len(line) < WIDTH:
        return line
    if not function.static:
        return f"{head}(\n" + ",\n".join(_STEP + p for p in shown) + ")"
    lines = [f"{head}("]
    for param in [f"{p}," for p in shown[:-1]] + [f"{shown[-1]})"]:
        room = len(lines) > 1 and len(lines[-1]) + 1 + len(param) <= WIDTH
        lines[-1:] = [f"{lines[-1]} {param}"] if room else [lines[-1], _STEP + param]
    return "\n".join(lines)


def _unrestricted(param: Param) -> Param:
    """The parameter or field without `restrict` on its outermost pointer."""
    before, star, after = param.type.rpartition("*")
    words = [word for word in after.split() if word != "restrict"]
    return Param(before + star + " ".join(words), param.name, param.doc) if star else param


def _doc(text: str, params: tuple[Param, ...]) -> list[str]:
    """The comment above a function: its text, then the parameters that have one, in a column."""
    documented = [p for p in params if p.doc]
    wide = max((len(p.name) for p in documented), default=0)
    rows = [row for p in documented for row in _doc_row(p, wide)]
    parts = [part for part in (text.strip(), "\n".join(rows)) if part]
    return _comment("\n\n".join(parts), 0) if parts else []


def _doc_row(param: Param, wide: int) -> list[str]:
    first = f"{param.name:{wide}}  "
    room = max(WIDTH - 6 - len(first), 20)  # names may be longer than a line
    pieces = textwrap.wrap(param.doc, room, break_long_words=False, break_on_hyphens=False)
    return [(first if k == 0 else " " * len(first)) + piece for k, piece in enumerate(pieces)]


def _struct(struct: Struct) -> str:
    macro = f"SPFGEN_STRUCT_{struct.name}"
    fields = [_unrestricted(f) for f in struct.fields]
    shown = [f"{_STEP}{_declared(f.type, f.name)};" for f in fields]
    wide = max((len(line) for line in shown), default=0)
    lines = [f"#ifndef {macro}", f"#define {macro}", *_doc(struct.doc, ())]
    lines.append(f"typedef struct {struct.name} {{")
    for line, field in zip(shown, fields, strict=True):
        lines += _field(line, field.doc, wide)
    return "\n".join([*lines, f"}} {struct.name};", "#endif"])


def _field(line: str, doc: str, wide: int) -> list[str]:
    """A field with its comment beside it, or above it if it is too long for that."""
    if not doc:
        return [line]
    comment = _comment(" ".join(doc.split()), 1)
    beside = f"{line:{wide}}  {comment[0].strip()}"
    return [beside] if len(comment) == 1 and len(beside) <= WIDTH else [*comment, line]


# --- files ---------------------------------------------------------------------------------------


def print_file(file: File) -> str:
    """The whole text of a .c file, or of a .h file if the file has a guard."""
    comment = "\n".join(_comment(file.comment, 0)) if file.comment else ""
    includes = "\n".join(_include(i) for i in file.includes)
    items = [_item(item, bool(file.guard)) for item in file.items]
    if file.guard:
        parts = [comment, f"#ifndef {file.guard}\n#define {file.guard}", includes]
        parts += [_EXTERN_OPEN, *items, _EXTERN_CLOSE, f"#endif /* {file.guard} */"]
    else:
        words = {word for item in items for word in _WORD.findall(item)}
        parts = [comment, includes, *(lines for word, lines in _FOR_CPP.items() if word in words), *items]
    return "\n\n".join(part for part in parts if part) + "\n"


_EXTERN_OPEN = '#ifdef __cplusplus\nextern "C" {\n#endif'
_EXTERN_CLOSE = "#ifdef __cplusplus\n}\n#endif"
_WORD = re.compile(r"\b(?:restrict|_Complex)\b")
_FOR_CPP = {
    "_Complex": '#ifdef __cplusplus\n#error "complex numbers: compile this as C99; the header is for C++, too"\n#endif',
    "restrict": "#ifdef __cplusplus\n#define restrict __restrict\n#endif",
}
"""What a C file with one of these words tells a compiler of C++."""


def _include(name: str) -> str:
    """`stdint.h` stands for `<stdint.h>`; a name that brings its own quotes keeps them."""
    return f"#include {name}" if name.startswith(("<", '"')) else f"#include <{name}>"


def _item(item: Struct | Function | Text, header: bool) -> str:
    match item:
        case Struct():
            return _struct(item)
        case Function(static=True) if header:
            return ""  # no business of those who include the header
        case Function() if header:
            return "\n".join([*_doc(item.doc, item.params), prototype(item)])
        case Function():
            return print_function(item)
        case Text(text):
            return text.strip("\n")
        case _:
            raise InternalError(f"expected a struct, function or text, but got {type(item).__name__}")

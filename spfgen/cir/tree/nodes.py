"""IR 4: C as a tree. It knows nothing sparse.

    File      ::= comment, includes, items                     one .c or .h file
    Struct    ::= name, fields, doc
    Function  ::= result, name, params, body, doc
    Statement ::= Block | Braces | Declare | Assign | For | While | If | Return | Do | Comment | Pragma | Break
    Expr      ::= Int | Float | Name | Load | Field | Bin | Un | Select | Cast | Call

Types are written as C writes them ("int64_t", "const double *restrict"). Every node is immutable;
children are tuples. Names are C identifiers, unique within their function.
"""

from __future__ import annotations

from dataclasses import dataclass

# --- expressions ---------------------------------------------------------------------------------


class Expr:
    """What may stand for a value."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Int(Expr):
    """An integer constant; printed with the suffix that its size needs."""

    value: int


@dataclass(frozen=True, slots=True)
class Float(Expr):
    """A floating constant of type double (or float when `single`); infinities and NaN allowed."""

    value: float
    single: bool = False


@dataclass(frozen=True, slots=True)
class Name(Expr):
    """A variable, parameter or constant."""

    name: str


@dataclass(frozen=True, slots=True)
class Load(Expr):
    """`array[index]`."""

    array: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Field(Expr):
    """`pointer->name`."""

    pointer: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Bin(Expr):
    """`left op right` with op one of + - * / % < <= > >= == != && || & | ^ << >>."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Un(Expr):
    """`op operand` with op one of - ! ~ &  (address) * (contents)."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Select(Expr):
    """`condition ? yes : no`."""

    condition: Expr
    yes: Expr
    no: Expr


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """`(type)operand`."""

    type: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """`function(arguments)`."""

    function: str
    arguments: tuple[Expr, ...]


# --- statements ----------------------------------------------------------------------------------


class Stmt:
    """What may stand in a body."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Block(Stmt):
    """Statements one after another; braces only where the surrounding statement needs them."""

    statements: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Braces(Stmt):
    """Statements in braces of their own: what they declare is not known after them. `outline`: the last word in the
    name of a function of their own, which they are where that can be; the first one is a comment then."""

    body: Block
    outline: str = ""


@dataclass(frozen=True, slots=True)
class Declare(Stmt):
    """`type name = value;` (without `= value` when there is none), or `type name[length];`, or
    `type name[length][width];`."""

    type: str
    name: str
    value: Expr | None = None
    length: int = 0
    width: int = 0


@dataclass(frozen=True, slots=True)
class Assign(Stmt):
    """`target op value;` with op one of = += -= *= |= &=. A `+= 1` on an integer is printed as `target++`."""

    target: Expr
    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class For(Stmt):
    """`for (type variable = start; condition; variable += step) body`; pragmas stand on the lines above.

    A step that is an expression is the next value itself: `variable = step`.
    """

    type: str
    variable: str
    start: Expr
    condition: Expr
    step: int | Expr
    body: Stmt
    pragmas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class While(Stmt):
    condition: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class If(Stmt):
    condition: Expr
    then: Stmt
    orelse: Stmt | None = None


@dataclass(frozen=True, slots=True)
class Return(Stmt):
    value: Expr | None = None


@dataclass(frozen=True, slots=True)
class Do(Stmt):
    """An expression for its effect: a call."""

    expression: Expr


@dataclass(frozen=True, slots=True)
class Break(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class Comment(Stmt):
    """A comment on lines of its own; long text is wrapped."""

    text: str


@dataclass(frozen=True, slots=True)
class Pragma(Stmt):
    """`#pragma text` on a line of its own."""

    text: str


# --- files ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a function, or one field of a struct: `type name`, with a sentence on what it holds."""

    type: str
    name: str
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Struct:
    """`typedef struct name { fields } name;`, documented, guarded so that two headers may both hold it."""

    name: str
    fields: tuple[Param, ...]
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Function:
    """A function definition; its prototype is what the header shows."""

    result: str
    name: str
    params: tuple[Param, ...]
    body: Block
    doc: str = ""
    static: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """Fixed C text: a piece of rt/, a #define, an enum."""

    text: str


@dataclass(frozen=True, slots=True)
class File:
    """One .c or .h file. `guard` makes it a header: include guard and extern "C"."""

    comment: str
    includes: tuple[str, ...]
    items: tuple[Struct | Function | Text, ...]
    guard: str = ""

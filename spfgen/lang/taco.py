"""TACO's notation: formats such as `A:ds:0,1`, expressions such as `y(i) = A(i,j)*x(j)`, as a spec."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from spfgen.errors import Span, SpecError, Unsupported
from spfgen.lang.levels import COMPRESSED, DENSE, SINGLETON, Level, Levels, LevelTerm, declaration
from spfgen.lang.nodes import Access, Apply, Reduce, Statement, Value
from spfgen.lang.parse import parse_statements

DIMS = "ijklmnopqrstuvwxyz"
LETTERS = {
    "d": (DENSE, True),
    "s": (COMPRESSED, True),
    "u": (COMPRESSED, False),
    "q": (SINGLETON, True),
    "c": (SINGLETON, False),
}
"""Of a level: its kind, and whether its coordinates are unique."""
ACCESS = re.compile(r"([A-Za-z_]\w*)\s*\(\s*([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)\s*\)")


@dataclass(frozen=True)
class Format:
    """A tensor's name and levels."""

    tensor: str
    levels: Levels


def parse_format(text: str) -> Format:
    """Read `A:ds` or `A:ds:1,0`, the levels' dimensions in their order. Raises SpecError."""
    match = re.fullmatch(r"\s*([A-Za-z_]\w*):([a-z]*)(?::(\d+(?:,\d+)*))?\s*", text)
    if not match:
        raise SpecError(f"expected a format such as `A:ds` or `A:ds:1,0`, but it is `{text}`")
    tensor, letters = match[1], match[2]
    for letter in letters:
        if letter not in LETTERS:
            known = ", ".join(f"`{n}` {k}{'' if u else ' not unique'}" for n, (k, u) in LETTERS.items())
            raise SpecError(f"expected the letters of levels, but `{letter}` is not one", None, (known,))
    order = [int(k) for k in match[3].split(",")] if match[3] else list(range(len(letters)))
    if sorted(order) != list(range(len(letters))):
        message = (
            f"expected each dimension of `{tensor}` once, from 0 to {len(letters) - 1}, but the order is {match[3]}"
        )
        raise SpecError(message)
    dims = tuple(DIMS[: len(letters)])
    levels = [
        Level((LevelTerm(dims[k]),), LETTERS[letter][0], LETTERS[letter][1])
        for k, letter in zip(order, letters, strict=True)
    ]
    if levels and levels[0].kind == SINGLETON:
        raise SpecError(
            f"expected `{tensor}` to begin with `d`, `s` or `u`, but a singleton has no positions of its own"
        )
    return Format(tensor, Levels(dims, tuple(levels)))


def format_of(levels: Levels, tensor: str = "A") -> str:
    """The levels as TACO writes them. Raises Unsupported for what it has no letter for."""
    letters, order = "", []
    for level in levels.levels:
        term = level.single
        letter = next((n for n, kind in LETTERS.items() if kind == (level.kind, level.unique)), None)
        if level.kind == DENSE:
            letter = "d"
        if term is None or term.op or letter is None or not level.ordered:
            raise Unsupported(
                f"TACO cannot express the level `{level}`: it has {', '.join(LETTERS)} of whole dimensions"
            )
        letters += letter
        order.append(levels.dims.index(term.dim))
    return f"-f={tensor}:{letters}:{','.join(map(str, order))}"


def statements_of(expression: str) -> str:
    """`y(i) = A(i,j)*x(j)` in the notation of spec files. Raises SpecError."""
    for called in re.finditer(r"([A-Za-z_]\w*)\s*\(", expression):
        if not ACCESS.match(expression, called.start()):
            hint = "subscripts are names of indices, separated by commas: `A(i,j)`; there are no functions"
            span = Span("<expression>", expression, 1, called.start() + 1, called.end() + 1)
            raise SpecError(f"expected subscripts and `)` after `{called[0]}`", span, (hint,))
    return ACCESS.sub(r"\1[\2]", expression)


def spec_text(
    expression: str, formats: Mapping[str, Levels], types: Mapping[str, str], name: str, plain: str, schedule: str = ""
) -> str:
    """A spec file with the layouts and the kernel. Tensors without a format are dense: in layout `plain`.

    A sparse result shares the pattern of an operand in the same format with the same subscripts, where it is that of
    the result. Raises SpecError, Unsupported.
    """
    text = statements_of(expression)
    statements = parse_statements(text, "<expression>")
    ranks = {a.tensor: len(a.subscripts) for s in statements for a in _accesses(s)}
    for tensor in (*formats, *types):
        if tensor not in ranks:
            raise SpecError(f"expected a tensor of the expression, but `{tensor}` is not one of {', '.join(ranks)}")
    layouts, lines = dict[str, str](), list[str]()
    for tensor, rank in ranks.items():
        levels = formats.get(tensor)
        if levels is not None and len(levels.dims) != rank:
            raise SpecError(f"expected a format of {rank} levels for `{tensor}`, but it has {len(levels.dims)}")
        if not rank and tensor not in types:
            continue
        layout = plain if levels is None or not rank else levels.name
        if levels is not None and rank:
            layouts[levels.name] = declaration(levels, levels.name)
        kind = f"<{types[tensor]}>" if tensor in types else ""
        shares = _shared(statements, tensor, formats)
        lines.append(f"    tensor {tensor} : {layout}{kind}{f' shares {shares}' if shares else ''}")
    body = [*lines, *(f"    {line}" for line in text.splitlines())]
    clauses = [f"    schedule {{ {schedule} }}"] if schedule else []
    return "\n".join([*layouts.values(), f"kernel {name} {{", *body, *clauses, "}", ""])


def _shared(statements: tuple[Statement, ...], tensor: str, formats: Mapping[str, Levels]) -> str:
    """The operand whose pattern a sparse result has; empty for others. Raises Unsupported when there is none."""
    levels = formats.get(tensor)
    for statement in statements:
        if statement.target.tensor != tensor or levels is None or all(x.kind == DENSE for x in levels.levels):
            continue
        for access in _accesses(statement)[1:]:
            same = access.tensor != tensor and access.subscripts == statement.target.subscripts
            if same and formats.get(access.tensor) == levels and _is_stored(statement.value, access):
                return access.tensor
        raise Unsupported(
            f"the sparse result `{tensor}` has the pattern of no operand",
            None,
            ("give it the format and subscripts of an operand, or make it dense",),
        )
    return ""


def _is_stored(value: Value, access: Access) -> bool:
    """Whether the value is 0 wherever the tensor of the access stores nothing."""
    match value:
        case Access():
            return value == access
        case Apply("add" | "subtract", (left, right)):
            return _is_stored(left, access) and _is_stored(right, access)
        case Apply("multiply", (left, right)):
            return _is_stored(left, access) or _is_stored(right, access)
        case Apply("divide", (inner, _)) | Apply("negative", (inner,)) | Reduce(value=inner):
            return _is_stored(inner, access)
    return False


def _accesses(statement: Statement) -> list[Access]:
    from spfgen.ir import walk

    return [statement.target, *(n for n in walk(statement.value) if isinstance(n, Access))]

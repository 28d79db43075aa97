"""Checks as a function of Python over lists: for small arrays, where numpy's calls cost more than their elements.

Python's integers do not overflow, so that this is right for all sizes and values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spfgen.errors import InternalError
from spfgen.facts.formula import (
    And,
    Bin,
    Call,
    Compare,
    Exists,
    Expr,
    Forall,
    Formula,
    Not,
    Num,
    Or,
    Var,
    conjunction,
)
from spfgen.ir import walk
from spfgen.layout.checks import Check, CheckPart, GroupCheck
from spfgen.layout.loops import Extents, Loop, scan
from spfgen.layout.nodes import Layout

Found = tuple[int, tuple[int, ...]] | None
"""The number of a check and the values of its variables at the first instance that does not hold."""

_STEP = "    "


def python_check(layout: Layout, checks: Sequence[Check]) -> Callable[..., Found]:
    """A function of the sizes, then of the index arrays as (nested) lists of their declared shapes."""
    writer = _Writer(layout)
    names = [*writer.sizes.values(), *writer.arrays.values()]
    lines = [f"def check({', '.join(names)}):"]
    for number, check in enumerate(checks):
        lines += writer.check(number, check)
    lines.append(f"{_STEP}return None")
    scope: dict[str, Any] = {}
    exec("\n".join(lines), scope)
    compiled: Callable[..., Found] = scope["check"]
    return compiled


class _Writer:
    """Names of the spec are numbered, so that none is a word of Python."""

    def __init__(self, layout: Layout) -> None:
        self.extents: Extents = {a.name: a.extents for a in layout.indexes}
        self.sizes = {n: f"n{k}" for k, n in enumerate((*layout.parameters, *layout.sizes))}
        self.arrays = {a.name: f"a{k}" for k, a in enumerate(layout.indexes)}
        self.variables: dict[str, str] = {}

    def check(self, number: int, check: Check) -> list[str]:
        bound = [*check.names, *(v for n in walk(check.body) if isinstance(n, Exists | Forall) for v in n.variables)]
        self.variables = {n: f"v{k}" for k, n in enumerate(dict.fromkeys(bound))}
        lines: list[str] = []
        for part in check.parts:
            lines += self.groups(number, check, part) if isinstance(part, GroupCheck) else self.part(number, part)
        return lines

    def part(self, number: int, part: CheckPart) -> list[str]:
        values = "".join(f"{self.expr(e)}, " for _, e in part.values)
        holds = self.formula(part.scan.body)
        if part.scan.guards:
            holds = f"not {self.formula(conjunction(part.scan.guards))} or {holds}"
        body = [f"if not ({holds}):", f"{_STEP}return {number}, ({values})"]
        return self.nest(part.scan.before, part.scan.loops, body)

    def groups(self, number: int, check: Check, part: GroupCheck) -> list[str]:
        """The last place with the same keys is kept in a dict."""
        *outer, loop = part.scan.loops
        first, second = self.variables[part.first], self.variables[part.second]
        values = "".join(f"{self.variables[n]}, " for n in check.names)
        keys = "".join(f"{self.expr(k)}, " for k in part.keys)
        holds = f"not {self.formula(conjunction(part.inside))} or {self.formula(part.body)}"
        low, high = self.bounds(loop)
        body = [
            "last = {}",
            f"for place in range({low}, {high}):",
            f"{_STEP}{first} = place",
            f"{_STEP}key = ({keys})",
            f"{_STEP}if key in last:",
            f"{_STEP * 2}{first}, {second} = last[key], place",
            f"{_STEP * 2}if not ({holds}):",
            f"{_STEP * 3}return {number}, ({values})",
            f"{_STEP}last[key] = place",
        ]
        return self.nest(part.scan.before, outer, body)

    def nest(self, before: tuple[Formula, ...], loops: Sequence[Loop], body: list[str]) -> list[str]:
        lines: list[str] = []
        depth = 1
        if before:
            lines.append(f"{_STEP}if {self.formula(conjunction(before))}:")
            depth += 1
        for loop in loops:
            low, high = self.bounds(loop)
            lines.append(f"{_STEP * depth}for {self.variables[loop.variable]} in range({low}, {high}):")
            depth += 1
        return [*lines, *(f"{_STEP * depth}{line}" for line in body)]

    def bounds(self, loop: Loop) -> tuple[str, str]:
        low = [self.expr(e) for e in loop.low]
        high = [self.expr(e) for e in loop.high]
        return (
            low[0] if len(low) == 1 else f"max({', '.join(low)})",
            high[0] if len(high) == 1 else f"min({', '.join(high)})",
        )

    def formula(self, formula: Formula) -> str:
        match formula:
            case Compare(op, left, right):
                return f"({self.expr(left)} {'==' if op == '=' else op} {self.expr(right)})"
            case And(parts):
                return f"({' and '.join(map(self.formula, parts))})" if parts else "True"
            case Or(parts):
                return f"({' or '.join(map(self.formula, parts))})" if parts else "False"
            case Not(part):
                return f"(not {self.formula(part)})"
            case Forall() | Exists():
                return self.quantified(formula)
        raise InternalError(f"no Python for {formula!r}")

    def quantified(self, formula: Forall | Exists) -> str:
        some = isinstance(formula, Exists)
        scanned = scan(formula.variables, formula.body, self.extents, some=some)
        if scanned is None:
            raise InternalError(f"no bounds for {formula!r}")
        loops = " ".join(
            f"for {self.variables[loop.variable]} in range({', '.join(self.bounds(loop))})" for loop in scanned.loops
        )
        guards = f" if {self.formula(conjunction(scanned.guards))}" if scanned.guards else ""
        text = f"{'any' if some else 'all'}({self.formula(scanned.body)} {loops}{guards})"
        before = self.formula(conjunction(scanned.before))
        return f"({before} and {text})" if some else f"(not {before} or {text})"

    def expr(self, expr: Expr) -> str:
        match expr:
            case Num(value):
                return str(value) if value >= 0 else f"({value})"
            case Var(name):
                return self.variables.get(name) or self.sizes[name]
            case Call(function, arguments):
                return self.arrays[function] + "".join(f"[{self.expr(a)}]" for a in arguments)
            case Bin("min" | "max" as op, left, right):
                return f"{op}({self.expr(left)}, {self.expr(right)})"
            case Bin(op, left, right):
                sign = {"/": "//", "quot": "//", "rem": "%"}.get(op, op)
                text = f"{self.expr(left)} {sign} {self.expr(right)}"
                if sign in ("//", "%") and not (isinstance(right, Num) and right.value > 0):
                    text += f" if {self.expr(right)} > 0 else 0"
                return f"({text})"
        raise InternalError(f"no Python for {expr!r}")


def lists(layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> list[Any]:
    """The arguments of such a function."""
    indexes = [arrays[a.name] for a in layout.indexes]
    # What has no elements is never read, and may have 2^40 rows.
    return [
        *[sizes[n] for n in (*layout.parameters, *layout.sizes)],
        *[a.tolist() if a.size else [] for a in indexes],
    ]

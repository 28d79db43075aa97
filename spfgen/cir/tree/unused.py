"""Variables that nothing reads, with what is stored in them, and functions that nothing calls are left out: compilers
warn of them.

Passes leave some behind, such as where a segment ends when no iteration needs where the next one begins, or what only
another copy of a loop's body reads.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from spfgen.cir.tree import nodes as c
from spfgen.ir import rewrite, walk

T = TypeVar("T")

Scope = Mapping[str, int]
"""The variables that are known somewhere, each by the number of its declaration."""


DEFINED = re.compile(
    r"^(?:/\*(?:[^*]|\*(?!/))*\*/\n)?static [^;{}#]*?\b(\w+)\([^;{}]*\) \{\n(?:.*\n)*?\}(?:\n|\Z)", re.MULTILINE
)
"""A static function, with the comment above it."""


def without_unused_functions(texts: Sequence[str], called: Collection[str]) -> list[str]:
    """Texts of C without the static functions of which neither the texts nor `called` speak."""
    kept = list(texts)
    while True:
        words = Counter(w for text in kept for w in _words(text))
        defined = {m[1]: m[0] for text in kept for m in DEFINED.finditer(text)}
        unused = {n for n, text in defined.items() if n not in called and words[n] == _words(text).count(n)}
        if not unused:
            return kept
        kept = [DEFINED.sub(lambda m: "" if m[1] in unused else m[0], text) for text in kept]  # noqa: B023


def _words(text: str) -> list[str]:
    """The words of C, without those of comments."""
    return re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))


def cleaned(functions: Sequence[c.Function]) -> list[c.Function]:
    """The functions without unused variables, and without parameters of static ones that these do not read."""
    while True:
        functions = [without_unused(f) for f in functions]
        calls = [n for f in functions for n in walk(f.body) if isinstance(n, c.Call)]
        gone: dict[str, set[int]] = {}
        for function in (f for f in functions if f.static):
            uses = _Uses()
            uses.statement(function.body, {p.name: -1 - k for k, p in enumerate(function.params)})
            argument_lists = [n.arguments for n in calls if n.function == function.name]
            read = {-1 - number for number in uses.used if number < 0}
            read |= {k for given in argument_lists for k, argument in enumerate(given) if _calls(argument)}
            written = {n.target for n in walk(function.body) if isinstance(n, c.Assign)}
            read |= {k for k, p in enumerate(function.params) if c.Name(p.name) in written}
            gone[function.name] = set(range(len(function.params))) - read
        if not any(gone.values()):
            return list(functions)

        def rule(node: object, gone: Mapping[str, set[int]] = gone) -> c.Expr | None:
            if not isinstance(node, c.Call) or not gone.get(node.function):
                return None
            return replace(node, arguments=_kept(node.arguments, gone[node.function]))

        functions = [
            replace(f, body=rewrite(rule, f.body), params=_kept(f.params, gone.get(f.name, set()))) for f in functions
        ]


def _kept(parts: tuple[T, ...], gone: Collection[int]) -> tuple[T, ...]:
    return tuple(p for k, p in enumerate(parts) if k not in gone)


def without_unused(function: c.Function) -> c.Function:
    """The function without them; what calls something stays."""
    while True:
        uses = _Uses()
        uses.statement(function.body, {})
        unused = set(range(uses.count)) - uses.used
        if not unused:
            return function
        function = replace(function, body=_Uses(unused).block(function.body, {})[0])


@dataclass
class _Uses:
    """Goes through statements: which variables are `used`, of the `count` that are declared, by the numbers of their
    declarations, and the statements without those that are `dropped`."""

    dropped: set[int] = field(default_factory=set)
    used: set[int] = field(default_factory=set)
    count: int = 0

    def statement(self, s: c.Stmt, scope: Scope) -> tuple[c.Stmt, Scope]:
        """The statement, and what is known after it."""
        match s:
            case c.Block():
                return self.block(s, scope)
            case c.Declare(_, name, value, length):
                self.read(value, scope)
                scope = {**scope, name: self.count}
                if length or _calls(value):
                    self.used.add(self.count)
                self.count += 1
            case c.Assign(c.Name(name), "=", value):
                self.read(value, scope)
                if name in scope and _calls(value):
                    self.used.add(scope[name])
            case c.For():
                for pragma in s.pragmas:
                    self.named(pragma, scope)
                self.read(s.start, scope)
                inside = {**scope, s.variable: self.count}
                self.used.add(self.count)
                self.count += 1
                self.read(s.condition, inside)
                self.read(s.step if isinstance(s.step, c.Expr) else None, inside)
                body, _ = self.statement(s.body, inside)
                return (s if body is s.body else replace(s, body=body)), scope
            case c.Braces(body):
                whole, _ = self.block(body, scope)
                return (s if whole is body else replace(s, body=whole)), scope
            case c.While(condition, inner):
                self.read(condition, scope)
                changed, _ = self.statement(inner, scope)
                return (s if changed is inner else replace(s, body=changed)), scope
            case c.If(condition, then, orelse):
                self.read(condition, scope)
                then, _ = self.statement(then, scope)
                if orelse is not None:
                    orelse, _ = self.statement(orelse, scope)
                return (s if then is s.then and orelse is s.orelse else replace(s, then=then, orelse=orelse)), scope
            case c.Pragma(text):
                self.named(text, scope)
            case _:
                self.read(s, scope)
        return s, scope

    def block(self, block: c.Block, scope: Scope) -> tuple[c.Block, Scope]:
        kept: list[c.Stmt] = []
        for inner in block.statements:
            statement, scope = self.statement(inner, scope)
            kept += [] if self.stored_in(inner, scope) in self.dropped else [statement]
        if len(kept) == len(block.statements) and all(a is b for a, b in zip(kept, block.statements, strict=True)):
            return block, scope
        return c.Block(tuple(kept)), scope

    def stored_in(self, s: c.Stmt, after: Scope) -> int | None:
        """The variable that a statement declares, or gives its value."""
        match s:
            case c.Declare(_, name) | c.Assign(c.Name(name), "="):
                return after.get(name)
        return None

    def read(self, node: c.Stmt | c.Expr | None, scope: Scope) -> None:
        if node is not None:
            self.used |= {scope[n.name] for n in walk(node) if isinstance(n, c.Name) and n.name in scope}

    def named(self, pragma: str, scope: Scope) -> None:
        """What a pragma speaks of."""
        self.used |= {scope[w] for w in re.findall(r"\w+", pragma) if w in scope}


def _calls(value: c.Expr | None) -> bool:
    return value is not None and any(isinstance(n, c.Call) for n in walk(value))

"""Functions of the user as C: one function for each and the types of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.operators import Typed, cast, truth, value
from spfgen.errors import InternalError
from spfgen.ir import fresh
from spfgen.lang import nodes as n
from spfgen.lang.types import KEYWORDS, LIBRARY, ElementType
from spfgen.lang.typing import Kind, function_scalars, function_type, settled, updated


class Functions:
    """The functions that values call. `new` makes a name that nothing else in the file has."""

    def __init__(self, new: Callable[[str], str] | None = None) -> None:
        self._new = new
        self._taken = {*KEYWORDS, *LIBRARY}
        self._names: dict[tuple[n.Function, tuple[str, ...]], str] = {}
        self.made: list[c.Function] = []
        """Their definitions, each after those that it calls."""

    def call(self, function: n.Function, arguments: Sequence[tuple[c.Expr, ElementType]]) -> tuple[c.Expr, ElementType]:
        """A call as C, and the type of its result."""
        kinds = [kind for _, kind in arguments]
        result = function_type(function, kinds)
        key = function, tuple(k.name for k in kinds)
        if key not in self._names:
            definition = self._defined(function, kinds, result)
            self._names[key] = definition.name
            self.made.append(definition)
        return c.Call(self._names[key], tuple(e for e, _ in arguments)), result

    def _defined(self, function: n.Function, kinds: Sequence[ElementType], result: ElementType) -> c.Function:
        types = dict.fromkeys(k.name for k in kinds)
        wanted = "_".join([function.name, *(types if len(types) == 1 else [k.name for k in kinds])])
        body = _Body(function, kinds, result, self)
        lines = body.block(function.body, frozenset(function.parameters))
        name = self.fresh(wanted)
        params = [c.Param(k.c, body.given[p]) for p, k in zip(function.parameters, kinds, strict=True)]
        doc = f"The function `{function.name}` of {', '.join(k.name for k in kinds)}."
        return c.Function(f"inline {result.c}", name, tuple(params), c.Block((*body.before, *lines)), doc, static=True)

    def fresh(self, wanted: str) -> str:
        if self._new is not None:
            return self._new(wanted)
        name = fresh(wanted, self._taken)
        self._taken.add(name)
        return name


class _Body:
    """The body of a function for the types of its arguments."""

    def __init__(
        self, function: n.Function, kinds: Sequence[ElementType], result: ElementType, functions: Functions
    ) -> None:
        self.function, self.result, self.functions = function, result, functions
        self.kinds = function_scalars(function, kinds)
        self.names: dict[str, str] = {}
        self.before: list[c.Stmt] = []
        taken = {*KEYWORDS, *LIBRARY}
        for name in self.kinds:
            self.names[name] = fresh(name if name not in taken else f"{name}_", taken)
            taken.add(self.names[name])
        self.given: dict[str, str] = {}
        for parameter, kind in zip(function.parameters, kinds, strict=True):
            self.given[parameter] = self.names[parameter]
            kind_in_body = settled(self.kinds[parameter])
            if kind_in_body != kind:  # it is assigned what its type does not hold
                self.given[parameter] = fresh(f"{parameter}_given", taken)
                taken.add(self.given[parameter])
                value = cast(c.Name(self.given[parameter]), kind, kind_in_body)
                self.before.append(c.Declare(kind_in_body.c, self.names[parameter], value))

    def leaf(self, tree: Any) -> Typed:
        if not isinstance(tree, n.Local):
            raise InternalError(f"no C for {tree!r} in function {self.function.name}")
        return c.Name(self.names[tree.name]), self.kinds[tree.name]

    def value(self, tree: Any, wanted: Kind) -> c.Expr:
        expression, kind = value(tree, self.leaf, self.functions.call)
        return cast(expression, kind, settled(wanted))

    def condition(self, tree: Any) -> c.Expr:
        return truth(*value(tree, self.leaf, self.functions.call))

    def block(self, steps: Sequence[Any], known: frozenset[str]) -> list[c.Stmt]:
        """The steps as C, where these scalars are declared already."""
        lines: list[c.Stmt] = []
        for step in steps:
            match step:
                case n.Let(name, tree) if name not in known:
                    kind = settled(self.kinds[name])
                    lines.append(c.Declare(kind.c, self.names[name], self.value(tree, kind)))
                    known |= {name}
                case n.Let(name, tree):
                    lines.append(self.stored(name, tree))
                case n.Set(name, op, tree):
                    lines.append(self.stored(name, tree if op == "=" else updated(step)))
                case n.If(condition, then, otherwise):
                    no = c.Block(tuple(self.block(otherwise, known))) if otherwise else None
                    lines.append(c.If(self.condition(condition), c.Block(tuple(self.block(then, known))), no))
                case n.While(condition, body):
                    lines.append(c.While(self.condition(condition), c.Block(tuple(self.block(body, known)))))
                case n.Break():
                    lines.append(c.Break())
                case n.Return(tree):
                    lines.append(c.Return(self.value(tree, self.result)))
                case _:
                    raise InternalError(f"no C for {step!r} in function {self.function.name}")
        return lines

    def stored(self, name: str, tree: Any) -> c.Stmt:
        return c.Assign(c.Name(self.names[name]), "=", self.value(tree, self.kinds[name]))

"""Outlining: statements of a function that become a function of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.ir import fresh, rewrite, walk

INLINE = "SPFGEN_INLINE"
"""Before the type of a function that is put into its callers: rt/inline.h."""
AS_IS = "SPFGEN_AS_IS"
"""Before the type of a function that is compiled as it would be by itself: rt/as_is.h."""


def types_of(function: c.Function) -> dict[str, str]:
    """The types of all variables, as parameters have them; "" where they are arrays, or there are two of one name with
    different types."""
    types = {p.name: _given(p.type) for p in function.params}
    for node in walk(function.body, c.Stmt):
        match node:
            case c.Declare(kind, name, length=length):
                types[name] = _given(kind) if not length and types.get(name, _given(kind)) == _given(kind) else ""
            case c.For(kind, name):
                types[name] = kind if types.get(name, kind) == kind else ""
    return types


def _given(kind: str) -> str:
    return kind if "*" in kind else kind.removeprefix("const ")


def names_in(function: c.Function) -> set[str]:
    """All names that are taken."""
    return {function.name, *types_of(function), *(n.name for n in walk(function) if isinstance(n, c.Name))}


def params_for(
    parts: Sequence[c.Stmt | c.Expr], declared_names: Iterable[str], types: Mapping[str, str]
) -> list[c.Param] | None:
    """What the parts need of what is declared outside of them, but for `own`; None where that cannot be passed."""
    nodes = [n for p in parts for n in walk(p)]
    declared = {*declared_names, *(n.name for n in nodes if isinstance(n, c.Declare))}
    declared |= {n.variable for n in nodes if isinstance(n, c.For)}
    names = dict.fromkeys(n.name for n in nodes if isinstance(n, c.Name) and n.name not in declared)
    wanted = [n for n in names if n in types]
    if any(not types[n] for n in wanted):
        return None
    return [c.Param(types[n], n) for n in wanted]


def can_move(statements: Sequence[c.Stmt], given: Iterable[str] = ()) -> bool:
    """Whether they change no variable of others, or whose value is `given`, and run on one thread to their end."""
    nodes = [n for s in statements for n in walk(s)]
    if any(isinstance(n, c.Return | c.Pragma) for n in nodes):
        return False
    if any(not openmp.stays_on_one_thread(p) for n in nodes if isinstance(n, c.For) for p in n.pragmas):
        return False
    local_names = {n.name for n in nodes if isinstance(n, c.Declare)}
    changed = {n.target.name for n in nodes if isinstance(n, c.Assign) and isinstance(n.target, c.Name)}
    return (
        changed <= local_names
        and local_names.isdisjoint(given)
        and not any(isinstance(n, c.Un) and n.op == "&" for n in nodes)
    )


def outlined(function: c.Function) -> list[c.Function]:
    """The function, behind those of the statements that are to be outlined, where they can."""
    types, taken = types_of(function), names_in(function)
    functions: list[c.Function] = []

    def rule(node: object) -> c.Stmt | None:
        match node:
            case c.Braces(c.Block((c.Comment(about), *lines)), outline=word) if word:
                params = params_for(lines, (), types) if can_move(lines) else None
                if params is None:
                    return node.body
                name = fresh(f"{function.name}_{word}", taken)
                taken.add(name)
                doc = f"{function.name}, {about}."
                functions.append(
                    c.Function(f"{AS_IS} void", name, tuple(params), c.Block(tuple(lines)), doc, static=True)
                )
                return c.Do(c.Call(name, tuple(c.Name(p.name) for p in params)))
        return None

    body: c.Block = rewrite(rule, function.body, c.Stmt)
    return [*functions, replace(function, body=body)]

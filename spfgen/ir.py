"""What all IRs share: children of a node, walking, rewriting, fresh names.

Nodes are frozen dataclasses; their children are the fields that hold dataclass instances or tuples of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from operator import is_not
from types import UnionType
from typing import Any

Kind = type | UnionType
"""A class, or several."""
_WORDS = {"str", "int", "bool", "float", "int | float", "str | None", "tuple[str, ...]"}
"""Types of fields, as they are written, that hold no nodes."""


class _Fields(dict[type, tuple[str, ...] | None]):
    """The fields of each class of nodes that may hold children; None for what is no node, or none `within` a class."""

    def __init__(self, within: Kind) -> None:
        self.within = within

    def __missing__(self, kind: type) -> tuple[str, ...] | None:
        names = None
        if is_dataclass(kind) and issubclass(kind, self.within):
            names = tuple(f.name for f in fields(kind) if f.init and f.name != "span" and f.type not in _WORDS)
        self[kind] = names
        return names


class _Made(dict[type, tuple[str, ...]]):
    """The fields that a node of each class is made of."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        names = self[kind] = tuple(f.name for f in fields(kind) if f.init)
        return names


class _Within(dict[Kind, _Fields]):
    """The fields of the nodes within each class."""

    def __missing__(self, within: Kind) -> _Fields:
        names = self[within] = _Fields(within)
        return names


_WITHIN = _Within()
_FIELDS = _WITHIN[object]
_MADE = _Made()


def children(node: Any) -> list[Any]:
    """The nodes directly below `node`, in the order of its fields."""
    nodes: list[Any] = []
    for name in _FIELDS[type(node)] or ():
        value = getattr(node, name)
        if type(value) is tuple:
            nodes += [item for item in value if _FIELDS[type(item)] is not None]
        elif _FIELDS[type(value)] is not None:
            nodes.append(value)
    return nodes


def walk(node: Any, within: Kind = object) -> Iterator[Any]:
    """`node` and all below it, parents first, left to right; `within` a class those that only such nodes are around,
    as statements without what is in their expressions: the nodes that are looked for must be of that class."""
    fields_of = _WITHIN[within]
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        for name in reversed(fields_of[type(current)] or ()):
            value = getattr(current, name)
            if type(value) is tuple:
                stack += [item for item in reversed(value) if fields_of[type(item)] is not None]
            elif fields_of[type(value)] is not None:
                stack.append(value)


def rewrite(rule: Callable[[Any], Any | None], node: Any, within: Kind = object) -> Any:
    """Apply `rule` bottom-up. A rule answers None for «leave it», so untouched trees come back as themselves.

    `within` a class it is applied to the nodes that `walk` finds: for rules that leave all others alone.
    """
    return _rewritten(rule, node, _WITHIN[within])


def _rewritten(rule: Callable[[Any], Any | None], node: Any, fields_of: _Fields) -> Any:
    names = fields_of[type(node)]
    if names:
        changes: dict[str, Any] = {}
        for name in names:
            value = getattr(node, name)
            if type(value) is tuple:
                new: Any = [_rewritten(rule, v, fields_of) if fields_of[type(v)] is not None else v for v in value]
                if any(map(is_not, new, value)):
                    changes[name] = tuple(new)
            elif fields_of[type(value)] is not None:
                new = _rewritten(rule, value, fields_of)
                if new is not value:
                    changes[name] = new
        if changes:
            kind = type(node)
            node = kind(**{name: changes[name] if name in changes else getattr(node, name) for name in _MADE[kind]})
    result = rule(node)
    return node if result is None else result


def with_children(change: Callable[[Any], Any], node: Any, within: Kind = object) -> Any:
    """The node with what `change` makes of each of its children; `within` a class of those of that class."""
    changes: dict[str, Any] = {}
    fields_of = _WITHIN[within]
    for name in fields_of[type(node)] or ():
        value = getattr(node, name)
        if type(value) is tuple:
            new: Any = tuple(change(v) if fields_of[type(v)] is not None else v for v in value)
            if any(map(is_not, new, value)):
                changes[name] = new
        elif fields_of[type(value)] is not None:
            new = change(value)
            if new is not value:
                changes[name] = new
    return replace(node, **changes) if changes else node


def fresh(wanted: str, taken: set[str] | frozenset[str]) -> str:
    """`wanted`, or `wanted_2`, `wanted_3`, ... if it is taken."""
    if wanted not in taken:
        return wanted
    number = 2
    while f"{wanted}_{number}" in taken:
        number += 1
    return f"{wanted}_{number}"

"""What all IRs share: children of a node, walking, rewriting, fresh names.

Nodes are frozen dataclasses; their children are the fields that hold dataclass instances or tuples of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from operator import is_not
from typing import Any

_WORDS = {"str", "int", "bool", "float", "int | float", "str | None", "tuple[str, ...]"}
"""Types of fields, as they are written, that hold no nodes."""


class _Fields(dict[type, tuple[str, ...] | None]):
    """The fields of each class of nodes that may hold children; None for what is no node."""

    def __missing__(self, kind: type) -> tuple[str, ...] | None:
        found = None
        if is_dataclass(kind):
            found = tuple(f.name for f in fields(kind) if f.name != "span" and f.type not in _WORDS)
        self[kind] = found
        return found


_FIELDS = _Fields()


def children(node: Any) -> list[Any]:
    """The nodes directly below `node`, in the order of its fields."""
    found: list[Any] = []
    for name in _FIELDS[type(node)] or ():
        value = getattr(node, name)
        if type(value) is tuple:
            found += [item for item in value if _FIELDS[type(item)] is not None]
        elif _FIELDS[type(value)] is not None:
            found.append(value)
    return found


def walk(node: Any) -> Iterator[Any]:
    """`node` and all below it, parents first, left to right."""
    fields_of = _FIELDS
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


def rewrite(rule: Callable[[Any], Any | None], node: Any) -> Any:
    """Apply `rule` bottom-up. A rule answers None for «leave it», so untouched trees come back as themselves."""
    changes: dict[str, Any] = {}
    for name in _FIELDS[type(node)] or ():
        value = getattr(node, name)
        if type(value) is tuple:
            new: Any = [rewrite(rule, v) if _FIELDS[type(v)] is not None else v for v in value]
            if any(map(is_not, new, value)):
                changes[name] = tuple(new)
        elif _FIELDS[type(value)] is not None:
            new = rewrite(rule, value)
            if new is not value:
                changes[name] = new
    if changes:
        node = replace(node, **changes)
    result = rule(node)
    return node if result is None else result


def fresh(wanted: str, taken: set[str] | frozenset[str]) -> str:
    """`wanted`, or `wanted_2`, `wanted_3`, ... if it is taken."""
    if wanted not in taken:
        return wanted
    number = 2
    while f"{wanted}_{number}" in taken:
        number += 1
    return f"{wanted}_{number}"

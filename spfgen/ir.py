"""What all IRs share: children of a node, walking, rewriting, fresh names.

Nodes are frozen dataclasses; their children are the fields that hold dataclass instances or tuples of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from operator import attrgetter, is_not
from typing import Any

_WORDS = {"str", "int", "bool", "float", "int | float", "str | None", "tuple[str, ...]"}
"""Types of fields, as they are written, that hold no nodes."""


@dataclass(frozen=True, slots=True)
class _Class:
    """What a class of nodes holds: the values of the fields that may be children, and those of all fields, each with
    its place among those of the constructor."""

    children: Callable[[Any], tuple[Any, ...]]
    places: tuple[int, ...]
    everything: Callable[[Any], tuple[Any, ...]]


class _Classes(dict[type, _Class | None]):
    """What each class of nodes holds; None for what is no node."""

    def __missing__(self, kind: type) -> _Class | None:
        found = None
        if is_dataclass(kind):
            names = [f.name for f in fields(kind)]
            places = [k for k, f in enumerate(fields(kind)) if f.name != "span" and f.type not in _WORDS]
            found = _Class(_values([names[k] for k in places]), tuple(places), _values(names))
        self[kind] = found
        return found


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """The values of these attributes, all in one call."""
    if not names:
        return lambda node: ()
    found = attrgetter(*names)
    return found if len(names) > 1 else lambda node: (found(node),)


_CLASSES = _Classes()


def children(node: Any) -> list[Any]:
    """The nodes directly below `node`, in the order of its fields."""
    own = _CLASSES[type(node)]
    found: list[Any] = []
    for value in own.children(node) if own is not None else ():
        if type(value) is tuple:
            found += [item for item in value if _CLASSES[type(item)] is not None]
        elif _CLASSES[type(value)] is not None:
            found.append(value)
    return found


def walk(node: Any) -> Iterator[Any]:
    """`node` and all below it, parents first, left to right."""
    classes = _CLASSES
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        own = classes[type(current)]
        if own is None:
            continue
        for value in reversed(own.children(current)):
            if type(value) is tuple:
                stack += [item for item in reversed(value) if classes[type(item)] is not None]
            elif classes[type(value)] is not None:
                stack.append(value)


def rewrite(rule: Callable[[Any], Any | None], node: Any) -> Any:
    """Apply `rule` bottom-up. A rule answers None for «leave it», so untouched trees come back as themselves."""
    classes = _CLASSES
    own = classes[type(node)]
    if own is not None:
        changes: dict[int, Any] = {}
        for place, value in zip(own.places, own.children(node), strict=True):
            if type(value) is tuple:
                new: Any = [rewrite(rule, v) if classes[type(v)] is not None else v for v in value]
                if any(map(is_not, new, value)):
                    changes[place] = tuple(new)
            elif classes[type(value)] is not None:
                new = rewrite(rule, value)
                if new is not value:
                    changes[place] = new
        if changes:
            held = list(own.everything(node))
            for place, value in changes.items():
                held[place] = value
            node = type(node)(*held)
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

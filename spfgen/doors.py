"""What modules ask of others that stand above them: methods of tensors, layouts and kernels.

Whoever holds a tensor finds there all that can be done with it, but what is done stands above the tensor: it makes
kernels, which take tensors. So a class asks a door. A protocol beside it says what is behind the door, and the package
(`spfgen/__init__.py`), which stands above all, which module that is. It is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")
_MODULES: dict[str, str] = {}


def lead(modules: dict[str, str]) -> None:
    """What is behind each door."""
    _MODULES.update(modules)


class Door(Generic[T]):
    """The module behind it, called by the door's name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.behind: Any = None

    def __call__(self) -> T:
        if self.behind is None:
            self.behind = import_module(_MODULES[self.name])
        return cast(T, self.behind)

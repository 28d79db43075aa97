"""Late imports: how a class calls modules that stand above it.

Whoever holds a tensor finds there all that can be done with it. What is done stands above the tensor: it makes kernels,
which take tensors. So the class declares a protocol and a late import of that protocol; the package
(`spfgen/__init__.py`), which stands above all, names the module. It is imported at the first call.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")
_MODULES: dict[str, str] = {}


def register(modules: dict[str, str]) -> None:
    """The module of each late import, by the name of the import."""
    _MODULES.update(modules)


class LateImport(Generic[T]):
    """Called, it is the module that is registered by this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module: Any = None

    def __call__(self) -> T:
        if self.module is None:
            self.module = import_module(_MODULES[self.name])
        return cast(T, self.module)

"""What `dir()` and the completion of editors show of public objects: the names that the pages describe, no others."""

from __future__ import annotations

import sys
from typing import ClassVar

from spfgen.errors import UsageError


class Public:
    """`dir()` gives the names of `_public`; where a class has none, those that do not begin with `_`, without
    `_inner`."""

    __slots__ = ()
    _public: ClassVar[tuple[str, ...]] = ()
    _inner: ClassVar[tuple[str, ...]] = ()

    def __dir__(self) -> list[str]:
        every = (n for n in object.__dir__(self) if not n.startswith("_") and n not in self._inner)
        return sorted(self._public or every)


def check_import(value: object) -> None:
    """That an object of spfgen is one of the modules that are there now. Raises UsageError."""
    kind = type(value)
    if kind.__module__.startswith("spfgen.") and kind.__module__ in sys.modules:
        if getattr(sys.modules[kind.__module__], kind.__name__, kind) is kind:
            return
        raise UsageError(
            f"expected a {kind.__name__} of this import of spfgen, but it is of an earlier one",
            None,
            ("spfgen was imported again since: make the object anew, or restart Python",),
        )

"""What `dir()` and the completion of editors show of public objects: the names that the pages describe, no others."""

from __future__ import annotations

from typing import ClassVar


class Public:
    """`dir()` gives the names of `_public`; where a class has none, those that do not begin with `_`, without
    `_inner`."""

    __slots__ = ()
    _public: ClassVar[tuple[str, ...]] = ()
    _inner: ClassVar[tuple[str, ...]] = ()

    def __dir__(self) -> list[str]:
        every = (n for n in object.__dir__(self) if not n.startswith("_") and n not in self._inner)
        return sorted(self._public or every)

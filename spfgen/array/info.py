"""What the namespace can do, by the standard's inspection."""

from __future__ import annotations

from typing import Any

from spfgen.array.dtypes import DTYPES
from spfgen.array.operands import on_device
from spfgen.errors import ArgumentError

_KINDS = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}


class Info:
    """What `__array_namespace_info__()` gives."""

    def capabilities(self) -> dict[str, Any]:
        """Masks and shapes that depend on data are there; arrays of many dimensions have no limit of ours."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The processor."""
        return "cpu"

    def devices(self) -> list[str]:
        """The processor alone."""
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The types of arrays for which none is given."""
        on_device(device)
        last = {name: kinds[-1] for name, kinds in DTYPES.items()}
        integer = last["signed integer"]
        return {
            "real floating": last["real floating"],
            "complex floating": last["complex floating"],
            "integral": integer,
            "indexing": integer,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The types by name, all or those of a kind or of several."""
        on_device(device)
        wanted = tuple(DTYPES) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        names = [n for k in wanted for n in _KINDS.get(k, (k,))]
        unknown = next((n for n in names if n not in DTYPES), None)
        if unknown is not None:
            raise ArgumentError(
                f"expected a kind of types, one of {', '.join([*DTYPES, *_KINDS])}, but it is {unknown!r}"
            )
        return {d.name: d for n in names for d in DTYPES[n]}


def __array_namespace_info__() -> Info:  # noqa: N807
    """The standard's inspection of the namespace.

    Shapes: none. Types: none. Fill: plays no part. Cost: none.

    >>> xp.__array_namespace_info__().default_device()
    'cpu'
    """
    return Info()

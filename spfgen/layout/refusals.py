"""Why a layout has no place for a coordinate, and what to do with a layout that cannot be packed: notes of errors."""

from __future__ import annotations

from collections.abc import Mapping

from spfgen.errors import DataError, SpfgenError
from spfgen.facts.formula import Formula, Num, Or, conjuncts, show, substitute
from spfgen.facts.prove import Facts, implied
from spfgen.layout.nodes import Layout

NOTHING = Facts((), {})


class NoPlace(DataError):
    """An entry that the layout cannot store. Why is found out when the error is shown to someone, not before."""

    def __init__(self, message: str, layout: Layout, sizes: Mapping[str, int], coordinate: tuple[int, ...]) -> None:
        super().__init__(message)
        self.layout, self.sizes, self.coordinate = layout, dict(sizes), coordinate

    def explained(self) -> NoPlace:
        """With a note that says why, where the relation alone tells."""
        self.notes = self.notes or _why(self.layout, self.sizes, self.coordinate)
        return self


def _why(layout: Layout, sizes: Mapping[str, int], coordinate: tuple[int, ...]) -> tuple[str, ...]:
    """The fewest conditions of the relation that no position satisfies at this coordinate, or at any with these
    extents."""
    extents = {n: sizes[n] for n in layout.parameters}
    known = extents | dict(zip(layout.coordinates, coordinate, strict=True))
    needed = list(conjuncts(layout.relation))
    if _contradict(needed, extents):
        known = extents
    elif not _contradict(needed, known):
        return ()
    for part in tuple(needed):
        fewer = [p for p in needed if p is not part]
        if _contradict(fewer, known):
            needed = fewer
    unnamed = {n: Num(v) for n, v in zip(layout.coordinates, coordinate, strict=True) if layout.written[n] != n}
    needed = [substitute(p, unnamed) for p in needed]
    text = " and ".join(f"({show(p)})" if isinstance(p, Or) else show(p) for p in needed)
    values = ", ".join(f"{n} = {v}" for n, v in known.items() if n not in unnamed)
    why = f"for {values} no position satisfies the relation's `{text}`"
    return (f"{why}: with these extents nothing can be stored" if known is extents else why,)


def _contradict(parts: list[Formula], known: Mapping[str, int]) -> bool:
    values = {n: Num(v) for n, v in known.items()}
    return implied([substitute(p, values) for p in parts], NOTHING, Or(())).proved


def with_remedy(error: SpfgenError, layout: Layout) -> SpfgenError:
    """The error of a layout that cannot be packed, with what can be done without packing."""
    arrays = ", ".join(f"{name}=..." for name in layout.arrays)
    remedy = (
        "packing makes the arrays from entries; if you have the arrays, give them by name: "
        f"spfgen.tensor(layout, shape=..., {arrays})"
    )
    if remedy not in error.notes:
        error.notes = (*error.notes, remedy)
    return error

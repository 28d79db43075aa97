"""Random nests of shape operators and functions, as text and as plain numpy.

Grown from the result: a value of given indices and extents is an access of a tensor, or an operator of values whose
extents follow. Every part can be replaced by a tensor of its own, so failures shrink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[tuple[str, int], ...]
"""Index names with their extents."""
BINARY: Mapping[str, tuple[str, Callable[..., Array]]] = {
    "add": ("({0} + {1})", np.add),
    "subtract": ("({0} - {1})", np.subtract),
    "multiply": ("({0}*{1})", np.multiply),
    "max": ("max({0}, {1})", np.maximum),
    "min": ("min({0}, {1})", np.minimum),
    "where": ("where({0} > 0, {1}, 2)", lambda a, b: np.where(a > 0, b, 2)),
}
REDUCED: Mapping[str, Callable[..., Array]] = {"sum": np.sum, "max": np.max, "min": np.min}


@dataclass(frozen=True)
class View:
    """`op` of `parts`; `shape` are the indices of the value, in the order of its array's axes."""

    op: str
    shape: Shape
    parts: tuple[View, ...] = ()
    tensor: str = ""
    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()

    def extent(self, index: str) -> int:
        return dict(self.shape)[index]

    def at(self, index: str) -> int:
        return [n for n, _ in self.shape].index(index)


@dataclass
class Grower:
    rng: np.random.Generator
    names: Iterator[str] = field(default_factory=lambda: (f"{c}{n or ''}" for n in count() for c in "ijklmnopq"))
    tensors: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def fresh(self) -> str:
        return next(self.names)

    def leaf(self, shape: Shape) -> View:
        extents = tuple(e for _, e in shape)
        same = [t for t, e in self.tensors.items() if sorted(e) == sorted(extents) and len(set(e)) == len(e)]
        if same and self.rng.random() < 0.4:
            tensor = same[0]
            ordered = tuple(next(s for s in shape if s[1] == e) for e in self.tensors[tensor])
            return View("access", ordered, tensor=tensor)
        order = [shape[int(p)] for p in self.rng.permutation(len(shape))]
        tensor = f"T{len(self.tensors)}"
        self.tensors[tensor] = tuple(e for _, e in order)
        return View("access", tuple(order), tensor=tensor)

    def grow(self, shape: Shape, depth: int) -> View:
        if depth > 0:
            for _ in range(8):
                name = str(self.rng.choice(["collapse", "split", "concat", "slice", "range", "apply", "reduce"]))
                found: View | None = getattr(self, name)(shape, depth - 1)
                if found is not None:
                    return found
        return self.leaf(shape)

    def one(self, shape: Shape) -> tuple[str, int]:
        return shape[int(self.rng.integers(len(shape)))]

    def collapse(self, shape: Shape, depth: int) -> View | None:
        if not shape or len(shape) > 2:
            return None
        name, extent = self.one(shape)
        factors = [d for d in range(1, extent + 1) if extent % d == 0]
        if not factors:
            return None
        outer = factors[int(self.rng.integers(len(factors)))]
        i, j = (self.fresh(), outer), (self.fresh(), extent // outer)
        part = self.grow((i, j, *(s for s in shape if s[0] != name)), depth)
        return View("collapse", shape, (part,), old=(i[0], j[0]), new=(name,))

    def split(self, shape: Shape, depth: int) -> View | None:
        if len(shape) < 2:
            return None
        i, j = (shape[int(p)] for p in self.rng.permutation(len(shape))[:2])
        whole = (self.fresh(), i[1] * j[1])
        part = self.grow((whole, *(s for s in shape if s not in (i, j))), depth)
        return View("split", shape, (part,), old=(whole[0],), new=(i[0], j[0]))

    def concat(self, shape: Shape, depth: int) -> View | None:
        if not shape:
            return None
        name, extent = self.one(shape)
        cut = int(self.rng.integers(0, extent + 1))
        pieces = [(self.fresh(), cut), (self.fresh(), extent - cut)]
        rest = tuple(s for s in shape if s[0] != name)
        parts = tuple(self.grow((piece, *rest), depth) for piece in pieces)
        return View("concat", shape, parts, old=tuple(p[0] for p in pieces), new=(name,))

    def _sliced(self, shape: Shape) -> tuple[str, tuple[str, int], tuple[int, int, int]] | None:
        if not shape:
            return None
        name, extent = self.one(shape)
        step, low, more = (
            int(self.rng.choice([1, 1, 2, 3, -1, -2])),
            int(self.rng.integers(0, 3)),
            int(self.rng.integers(0, 3)),
        )
        if extent == 0:
            return None
        length = low + abs(step) * (extent - 1) + 1
        numbers = (low, length, step) if step > 0 else (length - 1, low - 1, step)
        return name, (self.fresh(), length + more), numbers

    def slice(self, shape: Shape, depth: int) -> View | None:
        found = self._sliced(shape)
        if found is None or found[2][1] < 0:
            return None
        name, old, numbers = found
        part = self.grow((old, *(s for s in shape if s[0] != name)), depth)
        return View("slice", shape, (part,), old=(old[0],), new=(name,), numbers=numbers)

    def range(self, shape: Shape, depth: int) -> View | None:
        found = self._sliced(shape)
        if found is None or found[2][1] < 0 or self.rng.random() < 0.5:
            return None
        name, old, numbers = found
        part = self.leaf((old, *(s for s in shape if s[0] != name)))
        return View("range", shape, (part,), old=(old[0],), new=(name,), numbers=numbers)

    def apply(self, shape: Shape, depth: int) -> View | None:
        name = str(self.rng.choice(list(BINARY)))
        return View("apply", shape, (self.grow(shape, depth), self.grow(shape, depth)), new=(name,))

    def reduce(self, shape: Shape, depth: int) -> View | None:
        if len(shape) > 2:
            return None
        index = (self.fresh(), int(self.rng.integers(1, 5)))
        part = self.grow((index, *shape), depth)
        return View("reduce", shape, (part,), old=(index[0],), new=(str(self.rng.choice(list(REDUCED))),))


def show(view: View) -> str:
    parts = [show(p) for p in view.parts]
    old, new = ", ".join(view.old), ", ".join(view.new)
    match view.op:
        case "access":
            return f"{view.tensor}[{', '.join(n for n, _ in view.shape)}]" if view.shape else view.tensor
        case "collapse":
            return f"collapse({parts[0]}, ({old}) -> {new})"
        case "split":
            return f"split({parts[0]}, {old} -> ({new}))"
        case "concat":
            return f"concat(({', '.join(parts)}), ({old}) -> {new})"
        case "slice":
            return f"slice({parts[0]}, {old} -> {new}, ({', '.join(map(str, view.numbers))}))"
        case "range":
            a, b, step = view.numbers
            inside = (f"{new}({a}:{b}:{step})" if n == old else n for n, _ in view.parts[0].shape)
            return f"{view.parts[0].tensor}[{', '.join(inside)}]"
        case "apply":
            return BINARY[new][0].format(*parts)
        case "reduce":
            return f"{new}({old}: {parts[0]})"
    raise ValueError(view)


def meaning(view: View, arrays: Mapping[str, Array]) -> Array:
    """The array, its axes as `shape` says."""
    if view.op == "access":
        return arrays[view.tensor]
    found = [meaning(p, arrays) for p in view.parts]
    first = view.parts[0]
    names = [n for n, _ in view.shape]
    match view.op:
        case "collapse":
            i, j = first.at(view.old[0]), first.at(view.old[1])
            array = np.moveaxis(found[0], (i, j), (0, 1))
            array = array.reshape(array.shape[0] * array.shape[1], *array.shape[2:])
            own = [view.new[0], *(n for n, _ in first.shape if n not in view.old)]
        case "split":
            array = np.moveaxis(found[0], first.at(view.old[0]), 0)
            array = array.reshape(view.extent(view.new[0]), view.extent(view.new[1]), *array.shape[1:])
            own = [*view.new, *(n for n, _ in first.shape if n not in view.old)]
        case "concat":
            moved = []
            rest = [n for n in names if n != view.new[0]]
            for part, array, old in zip(view.parts, found, view.old, strict=True):
                moved.append(array.transpose([part.at(old), *(part.at(n) for n in rest)]))
            array, own = np.concatenate(moved), [view.new[0], *rest]
        case "slice" | "range":
            at = first.at(view.old[0])
            a, b, step = view.numbers
            array = found[0][(*[slice(None)] * at, slice(a, None if b < 0 else b, step))]
            own = [view.new[0] if n == view.old[0] else n for n, _ in first.shape]
        case "apply":
            ordered = [a.transpose([p.at(n) for n in names]) for p, a in zip(view.parts, found, strict=True)]
            array, own = BINARY[view.new[0]][1](*ordered), names
        case "reduce":
            array = REDUCED[view.new[0]](found[0], axis=first.at(view.old[0]))
            own = [n for n, _ in first.shape if n not in view.old]
    return np.asarray(array).transpose([own.index(n) for n in names])


def tensors(view: View) -> dict[str, tuple[int, ...]]:
    if view.op == "access":
        return {view.tensor: tuple(e for _, e in view.shape)}
    return {t: e for p in view.parts for t, e in tensors(p).items()}


def split_sizes(view: View) -> dict[str, int]:
    """One of the new extents of each split: the other follows, unless this one is 0."""
    said = view.new[1:] if view.op == "split" and view.extent(view.new[1]) else view.new
    own = {n: view.extent(n) for n in said} if view.op == "split" else {}
    return own | {n: e for p in view.parts for n, e in split_sizes(p).items()}


def smaller(view: View) -> Iterator[View]:
    """With a tensor in place of a part, the largest parts first."""
    for n, part in enumerate(view.parts):
        for one in [View("access", part.shape, tensor=f"L{abs(hash(part)) % 997}")] if part.op != "access" else []:
            if view.op != "range":
                yield replace(view, parts=(*view.parts[:n], one, *view.parts[n + 1 :]))
    for n, part in enumerate(view.parts):
        if part.op != "access" and part.shape == view.shape:
            yield part
        for one in smaller(part):
            yield replace(view, parts=(*view.parts[:n], one, *view.parts[n + 1 :]))

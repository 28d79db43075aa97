"""Which extents are the same: of tensors along one index of a statement, named sizes, numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spfgen.errors import SpecError
from spfgen.facts.formula import (
    ZERO,
    Compare,
    Expr,
    Formula,
    Num,
    Var,
    show,
    within,
)
from spfgen.lang import nodes as lang
from spfgen.layout.nodes import Layout
from spfgen.space.nodes import (
    Tensor,
    extent_value,
)

Key = tuple[str, str, int]
"""A dimension of a tensor, a size of the kernel, an index of a statement (its name, the number of the statement), or a
number."""


@dataclass(frozen=True)
class Ranges:
    """What one statement knows of extents.

    `sizes` are the names of the kernel's sizes, `fixed` the extents that are numbers. `limits` has for each index that
    stands alone as a subscript, anywhere in the statement, the extents that it lies within; `facts` say which of them
    are the least, where an access repeats an index. `signed` are those of `sizes` that may be negative, `around` those
    that are indices of loops around.
    """

    sizes: tuple[str, ...]
    fixed: Mapping[str, int]
    limits: Mapping[str, tuple[Expr, ...]]
    facts: tuple[Formula, ...] = ()
    signed: frozenset[str] = frozenset()
    around: frozenset[str] = frozenset()

    def of(self, index: str) -> list[Formula]:
        """That the index lies in its range."""
        return [within(Var(index), ZERO, limit) for limit in self.limits.get(index, ())]


class Extents:
    """Which extents are the same: of tensors along an index of a statement, sizes, numbers. A union-find over keys.

    An index that one access repeats, `A[i, i]`, does not make these extents the same: the least of them counts.
    """

    def __init__(
        self,
        kernel: lang.Kernel,
        declared: Sequence[lang.TensorDecl],
        layouts: Mapping[str, Layout],
        uses: Sequence[Sequence[lang.Access]],
        outputs: Collection[str],
    ) -> None:
        """`uses` are the accesses in each statement; `outputs` the tensors that are written: others name extents
        first."""
        self.parent: dict[Key, Key] = {}
        self.kernel = kernel
        self.layouts = layouts
        for declaration in declared:
            for k in range(layouts[declaration.name].rank):
                self.find(("tensor", declaration.name, k))
        for name in kernel.sizes:
            self.find(("size", name, 0))
        for declaration in declared:
            for k, extent in enumerate(declaration.extents or ()):
                self.declared_extent(declaration, k, extent)
        self.repeated: dict[tuple[Key, tuple[Key, ...]], None] = {}
        for number, accesses_here in enumerate(uses):
            for access in accesses_here:
                for name, places in self.alone(access).items():
                    index: Key = ("index", name, number)
                    self.find(index)
                    if len(places) == 1:
                        self.unite(places[0], index, access)
                    else:
                        self.repeated[index, tuple(places)] = None
        self.names: dict[Key, str] = {}
        self.fixed: dict[str, int] = {}
        ordered = sorted(declared, key=lambda d: d.name in outputs)
        for key in [
            *(("size", n, 0) for n in kernel.sizes),
            *(("tensor", d.name, k) for d in ordered for k in range(layouts[d.name].rank)),
        ]:
            name = key[1] if key[0] == "size" else f"{key[1]}.{layouts[key[1]].parameters[key[2]]}"
            root = self.find(key)
            self.names.setdefault(root, name)
            if root[0] == "number":
                self.fixed[self.names[root]] = root[2]

    def alone(self, access: lang.Access) -> dict[str, list[Key]]:
        """The indices that are subscripts of an access by themselves, and where."""
        places: dict[str, list[Key]] = {}
        for k, subscript in enumerate(access.subscripts):
            if isinstance(subscript, Var) and subscript.name not in self.kernel.sizes:
                places.setdefault(subscript.name, []).append(("tensor", access.tensor, k))
        return places

    def find(self, key: Key) -> Key:
        self.parent.setdefault(key, key)
        while self.parent[key] != key:
            key = self.parent[key]
        return key

    def unite(self, a: Key, b: Key, at: lang.Access | lang.TensorDecl) -> None:
        a, b = self.find(a), self.find(b)
        if a == b:
            return
        if a[0] == "number" and b[0] == "number":
            raise SpecError(
                f"expected extents that agree, but {a[2]} and {b[2]} are extents of one index",
                at.span,
                ("dimensions of tensors with the same index have the same extent",),
            )
        if a[0] == "number":
            a, b = b, a
        self.parent[a] = b

    def declared_extent(self, declaration: lang.TensorDecl, k: int, extent: Expr) -> None:
        key: Key = ("tensor", declaration.name, k)
        match extent:
            case Num(value):
                self.unite(key, ("number", "", value), declaration)
            case Var(name) if name in self.kernel.sizes:
                self.unite(key, ("size", name, 0), declaration)
            case _:
                raise SpecError(
                    f"expected a number or a size of the kernel, but `{show(extent)}` is neither",
                    getattr(extent, "span", None) or declaration.span,
                    (f"declare it: `size {show(extent)}`",)
                    if isinstance(extent, Var)
                    else ("declare a `size` of its own for it",),
                )

    def is_decided(self, key: Key, results: Collection[str]) -> bool:
        """Whether a size, a number or a tensor has this extent that is not one of the results that a call makes."""
        root = self.find(key)
        members = [k for k in self.parent if self.find(k) == root]
        return any(k[0] in ("size", "number") or (k[0] == "tensor" and k[1] not in results) for k in members)

    def name(self, key: Key) -> str:
        return self.names[self.find(key)]

    def of_tensor(self, tensor: str) -> tuple[str, ...]:
        return tuple(self.name(("tensor", tensor, k)) for k in range(self.layouts[tensor].rank))

    def ranges(self, number: int) -> Ranges:
        """What the statement of that number knows of its indices."""
        limits: dict[str, dict[Expr, None]] = {}
        facts: dict[Formula, None] = {}
        for key in [k for k in self.parent if k[0] == "index" and k[2] == number]:
            if self.find(key) in self.names:
                limits[key[1]] = {self.value(self.name(key)): None}
        for index, places in self.repeated:
            if index[2] == number:
                least = [self.value(self.name(p)) for p in places]
                facts |= {Compare("<=", limit, other): None for limit in limits.get(index[1], ()) for other in least}
                if index[1] not in limits:
                    limits[index[1]] = dict.fromkeys(least)
        known = {f for f in facts if isinstance(f, Compare) and f.left == f.right}
        return Ranges(
            self.kernel.sizes,
            self.fixed,
            {index: tuple(ends) for index, ends in limits.items()},
            tuple(f for f in facts if f not in known),
        )

    def value(self, name: str) -> Expr:
        """An extent: a size dimension or a number."""
        return extent_value(name, self.fixed)

    def agreements(self) -> Iterator[tuple[tuple[str, ...], ...]]:
        """Groups of extents whose least ones must be the same: of an index, and of each access that repeats it."""
        groups_of: dict[Key, dict[tuple[str, ...], None]] = {}
        for index, places in self.repeated:
            groups = groups_of.setdefault(index, {})
            if self.find(index) in self.names:
                groups[(self.name(index),)] = None
            groups[tuple(dict.fromkeys(self.name(p) for p in places))] = None
        yield from dict.fromkeys(tuple(groups) for groups in groups_of.values() if len(groups) > 1)

    def parameters(self, local: Collection[str] = ()) -> tuple[str, ...]:
        """Named sizes that no tensor's extent gives, but for the kernel's `own` tensors: the caller passes them."""
        given = {t: layout.rank for t, layout in self.layouts.items() if t not in local}
        known = {self.find(("tensor", t, k)) for t, rank in given.items() for k in range(rank)}
        return tuple(n for n in self.kernel.sizes if self.find(("size", n, 0)) not in known)

    def readings(self, tensors: Sequence[Tensor]) -> dict[str, tuple[tuple[str, str], ...]]:
        """For each size dimension, the (tensor, parameter or size) pairs where its value stands."""
        readings: dict[str, list[tuple[str, str]]] = {n: [] for n in self.kernel.sizes}
        for tensor in tensors:
            for name, field in zip(
                (*tensor.extents, *tensor.sizes), (*tensor.layout.parameters, *tensor.layout.sizes), strict=True
            ):
                readings.setdefault(name, []).append((tensor.name, field))
        return {n: tuple(p) for n, p in readings.items()}

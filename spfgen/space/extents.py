"""Which extents are the same: of tensors along one index, named sizes, numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spfgen.errors import SpecError
from spfgen.facts.formula import (
    Expr,
    Num,
    Var,
    show,
)
from spfgen.lang import nodes as lang
from spfgen.layout.nodes import Layout
from spfgen.space.names import accesses
from spfgen.space.nodes import (
    Tensor,
)

Key = tuple[str, str, int]


class Extents:
    """Which extents are the same: of tensors along an index, named sizes, numbers. A union-find over keys."""

    def __init__(self, kernel: lang.Kernel, declared: Sequence[lang.TensorDecl], layouts: Mapping[str, Layout]) -> None:
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
        for statement in kernel.statements:
            for access in (statement.target, *accesses(statement.value)):
                for k, subscript in enumerate(access.subscripts):
                    if isinstance(subscript, Var) and subscript.name not in kernel.sizes:
                        self.unite(("tensor", access.tensor, k), ("index", subscript.name, 0), access)
        self.names: dict[Key, str] = {}
        self.fixed: dict[str, int] = {}
        outputs = {s.target.tensor for s in kernel.statements}
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
                f"expected extents that agree, but {a[2]} and {b[2]} must be the same here",
                at.span,
                ("the extents of tensors with one index in common are equal",),
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

    def name(self, key: Key) -> str:
        return self.names[self.find(key)]

    def of_tensor(self, tensor: str) -> tuple[str, ...]:
        return tuple(self.name(("tensor", tensor, k)) for k in range(self.layouts[tensor].rank))

    def of_indices(self) -> dict[str, str]:
        keys = [k for k in self.parent if k[0] == "index"]
        return {k[1]: self.name(k) for k in keys if self.find(k) in self.names}

    def parameters(self) -> tuple[str, ...]:
        """Named sizes that no tensor's extent gives: the caller passes them."""
        known = {self.find(("tensor", t, k)) for t, layout in self.layouts.items() for k in range(layout.rank)}
        return tuple(n for n in self.kernel.sizes if self.find(("size", n, 0)) not in known)

    def readings(self, tensors: Sequence[Tensor]) -> dict[str, tuple[tuple[str, str], ...]]:
        """For each size dimension, the (tensor, parameter or size) pairs where its value stands."""
        found: dict[str, list[tuple[str, str]]] = {n: [] for n in self.kernel.sizes}
        for tensor in tensors:
            for name, field in zip(
                (*tensor.extents, *tensor.sizes), (*tensor.layout.parameters, *tensor.layout.sizes), strict=True
            ):
                found.setdefault(name, []).append((tensor.name, field))
        return {n: tuple(p) for n, p in found.items()}

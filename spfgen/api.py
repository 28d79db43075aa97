"""The Python door: load a spec, make tensors, compile and call kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spfgen.errors import DataError, SpecError, UsageError
from spfgen.lang import nodes as lang
from spfgen.lang.parse import parse_layout_use, parse_statements
from spfgen.lang.spec import SpecTree, load_tree, parse_tree
from spfgen.lang.types import DEFAULT_INDEX
from spfgen.layout.nodes import SCALAR, Layout

if TYPE_CHECKING:
    from spfgen.pipeline import Generated
    from spfgen.run.call import Bound
    from spfgen.run.tensor import Tensor
    from spfgen.space.nodes import Program
else:

    def __getattr__(name: str) -> Any:
        if name == "Tensor":
            from spfgen.run.tensor import Tensor

            return Tensor
        raise AttributeError(name)


@dataclass(frozen=True)
class LayoutHandle:
    """A layout by name, with element types and constants; call it to set constants: `bcsr(R=4, C=4)`."""

    tree: SpecTree
    use: lang.LayoutUse

    def __call__(self, **constants: int) -> LayoutHandle:
        settings = {**dict(self.use.settings), **constants}
        return LayoutHandle(self.tree, replace(self.use, settings=tuple(settings.items())))

    @property
    def name(self) -> str:
        return self.use.name

    def layout(self, rank: int | None = None) -> Layout:
        """The layout itself; a family needs its rank."""
        from spfgen.pipeline import RANK, layout_of

        declaration, settings = self.tree.resolve(self.use)
        if rank is not None and RANK in dict(declaration.constants):
            settings.setdefault(RANK, rank)
        return layout_of(declaration, settings)

    def __repr__(self) -> str:
        return f"<spfgen layout {self.name}>"


class _Layouts(Mapping[str, LayoutHandle]):
    """The layouts of a spec by name; those that come with spfgen are found too."""

    def __init__(self, tree: SpecTree) -> None:
        self._tree = tree

    def __getitem__(self, name: str) -> LayoutHandle:
        use = parse_layout_use(name)
        self._tree.find(use.name)
        return LayoutHandle(self._tree, use)

    def __contains__(self, name: object) -> bool:
        return name in self._tree.layouts

    def __iter__(self) -> Iterator[str]:
        return iter(self._tree.layouts)

    def __len__(self) -> int:
        return len(self._tree.layouts)


@dataclass(frozen=True)
class KernelSpec:
    """A kernel of a spec file, to be compiled."""

    tree: SpecTree
    kernel: lang.Kernel

    def compile(self, threads: int | None = None) -> Kernel:
        from spfgen.pipeline import resolve

        return Kernel(self.kernel, resolve(self.kernel, self.tree), threads)

    def __repr__(self) -> str:
        return f"<spfgen kernel {self.kernel.name}>"


class Spec:
    """A spec file: `layouts` and `kernels` by name."""

    def __init__(self, tree: SpecTree) -> None:
        self.layouts = _Layouts(tree)
        self.kernels = {name: KernelSpec(tree, kernel) for name, kernel in tree.kernels.items()}

    def __repr__(self) -> str:
        return f"<spfgen.Spec layouts: {', '.join(self.layouts)}; kernels: {', '.join(self.kernels)}>"


def load(path: str | Path) -> Spec:
    """Read a spec file with its imports. Raises SpecError, DataError when it cannot be read."""
    return Spec(load_tree(path))


def parse(text: str, file: str = "<text>") -> Spec:
    """Read a spec from a text. Raises SpecError."""
    return Spec(parse_tree(text, file))


def tensor(
    layout: LayoutHandle | str,
    *,
    shape: Sequence[int] | None = None,
    sizes: Mapping[str, int] | None = None,
    **arrays: object,
) -> Tensor:
    """A tensor over your own arrays, under the names of the layout.

    The arrays are used in place when they are contiguous. Sizes are solved from `shape`, `sizes` and the arrays'
    lengths. Index arrays are int32 or int64. Raises DataError when something does not fit.
    """
    from spfgen.run.tensor import make_tensor

    handle = _handle(layout)
    rank = len(shape) if shape is not None else None
    return make_tensor(handle.layout(rank), arrays, shape, sizes)


def compile(  # noqa: A001
    statements: str,
    *,
    threads: int | None = None,
    name: str = "kernel",
    order: Sequence[str] = (),
    **layouts: LayoutHandle | str,
) -> Kernel:
    """A kernel from index notation: `compile("y[i] += A[i,j]*x[j]", A=layout, x="dense", y="dense")`.

    Names without subscripts need no layout: they are scalars. `order` names loops (`"i"`, `"A.pj"`). `threads`
    fixes the number of threads; without it OMP_NUM_THREADS decides. Raises SpecError, Unsupported.
    """
    from spfgen.pipeline import resolve

    parsed = parse_statements(statements)
    handles = {n: _handle(h) for n, h in layouts.items()}
    loops = []
    for loop in order:
        owner, _, own = loop.rpartition(".")
        loops.append(lang.Loop(owner or None, own))
    found: dict[str, Layout] = {}
    declared = tuple(lang.TensorDecl(n, h.use) for n, h in handles.items())
    kernel = lang.Kernel(name, declared, (), parsed, tuple(loops))
    for declaration in declared:
        one = replace(kernel, tensors=(declaration,))
        found |= resolve(one, handles[declaration.name].tree)
    return Kernel(kernel, found, threads)


def _handle(layout: LayoutHandle | str) -> LayoutHandle:
    if isinstance(layout, LayoutHandle):
        return layout
    if not isinstance(layout, str):
        raise UsageError(f"expected a layout or its name, but this is a {type(layout).__name__}")
    use = parse_layout_use(layout)
    SpecTree().find(use.name, use.span)
    return LayoutHandle(SpecTree(), use)


class Kernel:
    """A compiled kernel. Call it with its operands by name; outputs are made when not given.

    The element types are those of the operands of each call, unless the kernel declares them; for each choice of
    types C is generated and compiled once. `source` and `header` are the C for the declared (or default) types.
    """

    def __init__(self, kernel: lang.Kernel, layouts: Mapping[str, Layout], threads: int | None = None) -> None:
        from spfgen.pipeline import generate

        self._kernel = kernel
        self._layouts = dict(layouts)
        self.threads = threads
        self._variants: dict[tuple[object, ...], tuple[Generated, Any]] = {}
        self._declared = generate(kernel, layouts)

    @property
    def name(self) -> str:
        return self._kernel.name

    @property
    def source(self) -> str:
        """NAME.c"""
        return self._declared.source

    @property
    def header(self) -> str:
        """NAME.h"""
        return self._declared.header

    @property
    def generated(self) -> Generated:
        """What each pass of the compiler made."""
        return self._declared

    def explain(self, json: bool = False) -> Any:
        """The iteration spaces, the loops with the reason for each, and what was proved; as text or as a dict."""
        from spfgen.explain import explain_json, explain_text

        return explain_json(self._declared) if json else explain_text(self._declared)

    def __repr__(self) -> str:
        statements = "; ".join(g.text for g in self._declared.program.groups)
        return f"<spfgen.Kernel {self.name}: {statements}>"

    def __call__(self, *, sizes: Mapping[str, int] | None = None, **operands: object) -> Any:
        """Run once and return the output (a dict of them when there are several).

        Operands are numpy arrays, scipy sparse arrays, numbers or spfgen tensors; an output that is given is
        written in place. Named sizes of the kernel are operands too. Raises DataError, UsageError.
        """
        bound = self.bind(sizes=sizes, **operands)
        bound()
        return self.results(bound, operands)

    def results(self, bound: Bound, operands: Mapping[str, object]) -> Any:
        """The outputs of a call: the objects that were given, numpy arrays where the layout is numpy's own."""
        results = {
            t.name: operands[t.name] if t.name in operands and t.layout is not SCALAR else _natural(bound.tensors[t.name])
            for t in bound.program.tensors
            if t.is_output
        }
        return next(iter(results.values())) if len(results) == 1 else results

    def bind(self, *, sizes: Mapping[str, int] | None = None, **operands: object) -> Bound:
        """Check the operands and put them in place; the result runs the kernel each time it is called."""
        from spfgen.run.bind import bind
        from spfgen.run.call import Bound, made_output

        program = self._declared.program
        known_sizes = dict(sizes or {})
        for name in program.parameters:
            if name in operands:
                known_sizes[name] = operands.pop(name)  # type: ignore[assignment]
            if name not in known_sizes:
                raise UsageError(f"expected the size `{name}`, but it is missing", None, (f"pass {name}=...",))
        self._check_names(program, operands)
        tensors: dict[str, Tensor] = {}
        for declared in program.tensors:
            if operands.get(declared.name) is not None:
                types = {n: k if declared.typed else DEFAULT_INDEX for n, k in declared.index_types}
                tensors[declared.name] = bind(
                    declared.layout, operands[declared.name], declared.name, types, output=declared.is_output
                )
        dtype = _result_dtype(list(tensors.values()))
        for declared in program.tensors:
            if declared.name in tensors:
                continue
            if declared.is_input and not declared.is_output:
                raise UsageError(f"expected the operand `{declared.name}`, but it is missing", None, (f"pass {declared.name}=...",))
            kind = declared.value_type if declared.typed else dtype
            made = made_output(program, declared, tensors, known_sizes, kind)
            if made is None:
                raise UsageError(
                    f"expected the output `{declared.name}`, because its extents or its pattern do not follow from "
                    "the other operands",
                    None,
                    ("pass it (values are overwritten), or its extents with sizes={...}",),
                )
            tensors[declared.name] = made
        generated, function = self._variant(tensors)
        return Bound(generated.program, function, tensors, known_sizes, self.threads or 0)

    def _check_names(self, program: Program, operands: Mapping[str, object]) -> None:
        names = {t.name for t in program.tensors}
        for name in operands:
            if name not in names:
                raise UsageError(
                    f"expected an operand of `{self.name}`, but `{name}` is not one",
                    None,
                    (f"its operands: {', '.join(sorted(names))}",),
                )

    def _variant(self, tensors: Mapping[str, Tensor]) -> tuple[Generated, Any]:
        """The generated and loaded kernel for these element types."""
        uses = {}
        for declared in self._declared.program.tensors:
            found = tensors[declared.name]
            value = found.dtype.name
            kinds = tuple((a.name, found.arrays[a.name].dtype.name) for a in declared.layout.indexes)
            if declared.typed and (value != declared.value_type or kinds != declared.index_types):
                raise DataError(
                    f"expected `{declared.name}` with {_types_text(declared.value_type, declared.index_types)}, "
                    f"but it has {_types_text(value, kinds)}",
                    None,
                    ("convert it, or leave the types out of the kernel: they are then taken from the operands",),
                )
            uses[declared.name] = (value, kinds)
        key = tuple(uses.items())
        if key not in self._variants:
            self._variants[key] = self._built(uses)
        return self._variants[key]

    def _built(self, uses: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]]) -> tuple[Generated, Any]:
        from spfgen.pipeline import generate
        from spfgen.run.compile import build, load

        tensors = []
        declared = {d.name for d in self._kernel.tensors}
        scalars = tuple(
            lang.TensorDecl(n, lang.LayoutUse(SCALAR.name)) for n in uses if n not in declared
        )
        for declaration in (*self._kernel.tensors, *scalars):
            value, kinds = uses[declaration.name]
            use = replace(declaration.use, value_type=value, index_type=None, array_types=kinds)
            tensors.append(replace(declaration, use=use))
        generated = generate(replace(self._kernel, tensors=tuple(tensors)), self._layouts)
        library = load(build(generated.whole))
        return generated, getattr(library, self._kernel.name)


def _types_text(value: str, kinds: Sequence[tuple[str, str]]) -> str:
    return ", ".join([f"{value} values", *(f"{n} : {k}" for n, k in kinds)])


def _result_dtype(tensors: Sequence[Tensor]) -> str:
    from spfgen.lang.types import promoted

    return promoted([t.dtype.name for t in tensors]).name


def _natural(tensor: Tensor) -> Any:
    """A numpy array where the layout is numpy's own, a number for a scalar, else the tensor."""
    if tensor.layout.rank == 0:
        return tensor.arrays[tensor.layout.values[0].name][()]
    for binding in tensor.layout.bindings:
        if binding.library == "numpy":
            own, attribute, _ = binding.arrays[0]
            return tensor.arrays[own].T if attribute == "T" else tensor.arrays[own]
    return tensor


def kernel_name(text: str) -> bool:
    """Whether it can name a C function."""
    return bool(re.fullmatch(r"[A-Za-z_]\w*", text))


__all__ = ["Kernel", "KernelSpec", "LayoutHandle", "Spec", "SpecError", "compile", "load", "parse", "tensor"]

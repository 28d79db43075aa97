"""The Python door: load a spec, make tensors, compile and call kernels."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from spfgen.errors import SpecError, UsageError, a_type
from spfgen.kernel import Kernel, checked_prune, in_blocks, made
from spfgen.kernel_spec import KernelSpec, loops, scheduled, with_finds
from spfgen.lang import nodes as lang
from spfgen.lang.expressions import did_you_mean
from spfgen.lang.optimization import level_of
from spfgen.lang.parse import parse_layout_use, parse_statements
from spfgen.lang.spec import SpecTree, load_tree, parse_tree
from spfgen.lang.trace import among, check_used, function
from spfgen.lang.uses import accesses_in, statements_in
from spfgen.layout.checked import layout_of
from spfgen.layout.nodes import Layout
from spfgen.public import Public
from spfgen.run.handles import LayoutHandle, filled, handle_of
from spfgen.run.threads import checked_threads

if TYPE_CHECKING:
    from numpy import ndarray

    from spfgen.cluster.blocked import Blocked
    from spfgen.run.tensor import Shape, Tensor
    from spfgen.run.tuners.tune_layouts import LayoutTuning

HIGHEST_SOLVED = 8
"""A family whose rank is not said is tried up to this one."""


class UnknownNameError(SpecError, KeyError):
    """A name that a spec does not define: a SpecError with a hint, and what a mapping raises."""

    __str__ = SpecError.__str__


class _Named:
    """What has names in brackets: who writes them behind a point is told; IPython completes them."""

    def __getattr__(self, name: str) -> Any:
        known = [] if name.startswith("_") else self._ipython_key_completions_()
        hint = f", [{name!r}]" if name in known else f"; {did_you_mean(name, known)}".rstrip("; ")
        raise AttributeError(f"no attribute {name!r}: names are written in brackets{hint}")

    def _ipython_key_completions_(self) -> list[str]:
        return list(self) if isinstance(self, Mapping) else []


class _Layouts(_Named, Mapping[str, LayoutHandle]):
    """The layouts of a spec by name; those that come with spfgen are found too, but not listed."""

    def __init__(self, tree: SpecTree) -> None:
        self._tree = tree

    def __getitem__(self, name: str) -> LayoutHandle:
        if not isinstance(name, str):
            raise UnknownNameError(f"expected the name of a layout, but this is {a_type(name)}")
        try:
            use = parse_layout_use(name)
            self._tree.find(use.name)
        except SpecError as error:
            raise UnknownNameError(error.message, error.span, error.notes) from None
        return LayoutHandle(self._tree, use)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tree.layouts)

    def __len__(self) -> int:
        return len(self._tree.layouts)

    def __repr__(self) -> str:
        return f"<spfgen layouts: {', '.join(self) or 'those that come with spfgen'}>"


class _Kernels(_Named, Mapping[str, "KernelSpec"]):
    """The kernels of a spec by name."""

    def __init__(self, tree: SpecTree) -> None:
        self._kernels = {name: KernelSpec(tree, kernel) for name, kernel in tree.kernels.items()}

    def __getitem__(self, name: str) -> KernelSpec:
        if name not in self._kernels:
            known = f"its kernels: {', '.join(self._kernels) or 'none'}"
            hint = did_you_mean(str(name), self._kernels)
            raise UnknownNameError(f"expected a kernel of the spec, but `{name}` is not one", None, (hint or known,))
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __repr__(self) -> str:
        return f"<spfgen kernels: {', '.join(self) or 'none'}>"


class Spec(Public):
    """A spec file: `layouts` and `kernels` by name."""

    def __init__(self, tree: SpecTree) -> None:
        self.layouts = _Layouts(tree)
        self.kernels = _Kernels(tree)

    def __repr__(self) -> str:
        layouts, kernels = ", ".join(self.layouts) or "none", ", ".join(self.kernels) or "none"
        return f"<spfgen.Spec layouts: {layouts}; kernels: {kernels}>"


def load(path: str | Path) -> Spec:
    """Read a spec file with its imports. Raises SpecError, DataError when it cannot be read."""
    return Spec(load_tree(path))


def parse(text: str, file: str = "<text>") -> Spec:
    """Read a spec from a text. Raises SpecError."""
    if not isinstance(text, str):
        raise UsageError(f"expected the text of a spec, but this is {a_type(text)}")
    return Spec(parse_tree(text, file))


def tensor(
    layout: LayoutHandle | Layout | str,
    /,
    *,
    shape: Sequence[int] | int | None = None,
    sizes: Mapping[str, int] | None = None,
    fill: object = None,
    **arrays: object,
) -> Tensor:
    """A tensor over your own arrays, passed by their names in the layout; `fill` is the value of elements that are not
    stored.

    Contiguous arrays are used in place. Sizes are inferred from `shape`, `sizes` and the lengths of arrays. Index
    arrays are int32 or int64. Raises DataError if arrays do not fit the layout.
    """
    from spfgen.run.tensor import make_tensor

    handle = handle_of(layout) if fill is None else filled(handle_of(layout), fill)
    if shape is not None and not isinstance(shape, Iterable):
        shape = (shape,)
    rank = len(shape) if shape is not None else _rank(handle, arrays)
    return make_tensor(handle.layout(rank), arrays, shape, sizes)


@overload
def pack(
    obj: Tensor[Shape] | ndarray[Shape, Any],
    layout: LayoutHandle | Layout | str,
    /,
    *,
    shape: None = None,
    duplicates: str | Callable[[Any, Any], Any] = "sum",
    fill: object = None,
    signed_zeros: bool = True,
    **constants: int,
) -> Tensor[Shape]: ...
@overload
def pack(
    obj: object,
    layout: LayoutHandle | Layout | str,
    /,
    *,
    shape: Sequence[int] | int | None = None,
    duplicates: str | Callable[[Any, Any], Any] = "sum",
    fill: object = None,
    signed_zeros: bool = True,
    **constants: int,
) -> Tensor: ...
def pack(
    obj: object,
    layout: LayoutHandle | Layout | str,
    /,
    *,
    shape: Sequence[int] | int | None = None,
    duplicates: str | Callable[[Any, Any], Any] = "sum",
    fill: object = None,
    signed_zeros: bool = True,
    **constants: int,
) -> Tensor:
    """Store entries in a layout, in new arrays: `pack(A, "bcsr", R=4, C=4)`, `pack(A, "csr fill inf")`.

    `obj` is a numpy array (its elements other than the fill value), a sparse array or matrix of scipy or PyData/Sparse,
    a tuple (coordinates, values), or a tensor. Coordinates are an integer array for each dimension, or one array of
    shape [rank, n]; without `shape`, extents are the largest coordinates plus 1.

    - `duplicates`: how values with equal coordinates are combined: "sum", "last", "first", "error", or a function of
      two values such as numpy.maximum.
    - `fill`: the value of elements that are not stored (default: the layout's own, in general 0). nan equals nan.
    - `signed_zeros`: whether -0.0 differs from 0 and is stored. Pass False for weights multiplied by a mask, for
      example.

    Values keep their type; index arrays are int32 if that suffices. A layout with types, such as
    `"csr<float, int64>"`, sets both.

    Raises DataError for coordinates outside of the shape and for entries that the layout cannot store, Unsupported for
    a layout that cannot be packed.
    """
    from spfgen.run.calls.entries import pack as packed

    return packed(obj, layout, shape, constants=constants, duplicates=duplicates, fill=fill, signed_zeros=signed_zeros)


def load_tensor(path: str | Path) -> Tensor:
    """Read a tensor from a file.

    An .npz of `Tensor.save` gives a tensor in its layout; .mtx and .tns files (also .gz, .xz, .bz2) give one in `coo`.
    Raises DataError for files that cannot be read, are damaged, or have another format.
    """
    from spfgen.run.store import load_tensor as loaded

    if re.search(r"\.(mtx|tns)(\.(gz|xz|bz2))?$", str(path), re.IGNORECASE):
        from spfgen.run.arrays.made import of_coordinates
        from spfgen.run.calls.entries import pack_object
        from spfgen.run.files.read import read

        entries = read(str(path))
        return pack_object(handle_of(of_coordinates(len(entries.shape))), entries, None, "sum")
    return loaded(path)


def blocks(
    source: object,
    cuts: Mapping[str | int, Any] | None = None,
    /,
    *,
    count: Mapping[str | int, int] | None = None,
    balance: Mapping[str | int, int] | None = None,
    layout: LayoutHandle | Layout | str | None = None,
    shape: Sequence[int] | None = None,
) -> Blocked:
    """Cut a tensor into blocks, as a lazy collection of dask: `blocks(A, {"i": 100_000}, layout="csr")`.

    `source` is what `pack` takes; a dask array, with a block for each chunk; a dask bag of coordinates and values,
    `((i, j), a)`; or a function that returns the block with given bounds, `((0, 100), (0, 50))`. `shape` is the shape
    of the whole, for sources that do not have it.

    Axes are given by number, or by name: of the layout's coordinates, without a layout i, j, k, ... Axes that are not
    named are not cut.

    - `cuts`: the extent of the blocks along an axis, or all their extents.
    - `count`: the number of blocks along an axis.
    - `balance`: the number of blocks along an axis, which get about equal numbers of entries.
    - `layout`: the layout of the blocks; "auto" chooses the one with the least memory for each block, among those that
      other libraries have. By default, numpy arrays stay numpy arrays, and tensors keep their layout, or are stored in
      coordinates if it cannot store a block.

    The result is an operand of `evaluate`, `einsum` and operators, whose results are blocked, too. `compute()` returns
    one tensor or array; `persist()` leaves blocks on the workers. Needs `pip install 'spfgen[cluster]'`. Raises
    UsageError, DataError.
    """
    with _needs_dask():
        from spfgen.cluster.construction import blocks as made_of
    return made_of(source, cuts, count, balance, layout, shape)


def read_blocks(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    cuts: Mapping[str | int, Any] | None = None,
    /,
    *,
    count: Mapping[str | int, int] | None = None,
    layout: LayoutHandle | Layout | str | None = None,
    shape: Sequence[int] | None = None,
    size: int = 2**26,
) -> Blocked:
    """A blocked tensor from files, each read when it is needed: `read_blocks("A-*.npz")`.

    `path` is a pattern or a list of .npz files, a Zarr folder, or one .mtx or .tns file, which is read in ranges of
    about `size` bytes. `cuts` and `count` are those of `blocks`; by default blocks are those of the files. `layout` is
    the layout of the blocks; by default that of the files, or coordinates for text files. `shape` is needed for a .tns
    file that does not state it. Arrays are checked, and nothing is unpickled. Raises DataError, UsageError.
    """
    with _needs_dask():
        from spfgen.cluster.store import read_blocks as read
    return read(path, cuts, count, layout, shape, size)


@contextmanager
def _needs_dask() -> Iterator[None]:
    try:
        import dask  # noqa: F401

        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("dask", "distributed"):
            raise
        hint = ("pip install 'spfgen[cluster]'",)
        raise UsageError("expected dask to be installed, but it is not", None, hint) from None


def _rank(handle: LayoutHandle, arrays: Mapping[str, object]) -> int | None:
    """The rank at which a family has these arrays with these numbers of dimensions, when there is one."""
    if not handle.is_open:
        return None
    from spfgen.run.tensor import plain_array

    given = {name: plain_array(array, name).ndim for name, array in arrays.items()}
    for rank in range(1, HIGHEST_SOLVED + 1):
        layout = handle.layout(rank)
        if given == {name: len(layout.extents(name)) for name in layout.arrays}:
            return rank
    return None


def compile(  # noqa: A001
    statements: str,
    /,
    *positional: object,
    threads: int | None = None,
    name: str = "kernel",
    schedule: str | None = None,
    order: Sequence[str] = (),
    finds: Mapping[str, str] | None = None,
    deterministic: bool = False,
    optimize: int | None = None,
    validate: str = "once",
    prune: bool = False,
    max_workspace: int | None = None,
    **layouts: Any,
) -> Kernel:
    """Compile a kernel from index notation: `compile("y[i] += A[i,j]*x[j]", A=layout, x="dense", y="dense")`.

    Tensors get their layouts by name. Names without subscripts are scalars and need none; results without a layout are
    dense. A function of Python or numpy in place of a layout can be called by the statements (see `function`).

    - `schedule`: clauses as in a spec file (`"tile i by 32; parallel i_tile"`). `order` names loops (`"i"`, `"A.pj"`)
      and `finds` search algorithms (`{"A.pj": "hash"}`); they replace those of the schedule. Without any of the three,
      the schedule that `spfgen tune` has stored for these statements and layouts is used; `schedule=""` ignores it.
    - `deterministic`: results are bitwise the same for any number of threads.
    - `optimize`: the level of optimisation, 0 to 2 (default: SPFGEN_OPT, or 2).
    - `threads`: the number of threads (default: OMP_NUM_THREADS).
    - `validate`: when index arrays of operands are checked: at their first use and when they have changed ("once"), at
      every call ("always"), or not at all ("never").
    - `prune`: a sparse result whose pattern is computed does not store values that equal its fill value.
    - `max_workspace`: the limit of bytes for the entries of such a result, and for workspaces.

    Raises SpecError, UsageError, Unsupported.
    """
    from spfgen.run.calls.detect_layout import dense_layout
    from spfgen.space.assembled import with_assembled

    _check_arguments(statements, positional, name)
    functions, layouts = among(layouts)
    parsed = parse_statements(statements, functions=dict(functions))
    check_used(functions, parsed)
    handles = {n: _layout_for(n, h) for n, h in layouts.items()}
    for target in (s.target for s in statements_in(parsed)):
        if target.subscripts:
            handles.setdefault(target.tensor, handle_of(dense_layout(len(target.subscripts)).name))
    _check_layouts(parsed, handles)
    declared = tuple(lang.TensorDecl(n, h.use) for n, h in handles.items())
    kernel = scheduled(lang.Kernel(name, declared, (), parsed), schedule)
    kernel = with_finds(replace(kernel, order=tuple(loops(order)) or kernel.order), finds, deterministic)
    kernel = replace(kernel, level=level_of(optimize))
    resolved = _resolved(kernel, handles)
    build = made if schedule is None else Kernel
    whole = with_assembled(kernel, resolved)
    return build(whole, resolved, threads, validate, prune=prune, max_workspace=max_workspace)


def _check_arguments(statements: object, positional: Sequence[object], name: str) -> None:
    """Raises UsageError for arguments that `compile` does not take."""
    if not isinstance(statements, str):
        raise UsageError(f"expected statements as a text, but this is {a_type(statements)}")
    if positional:
        raise UsageError("expected layouts by name, but some are given by position", None, ("write x=LAYOUT",))
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise UsageError(f"expected a name that C can have, but it is `{name}`")


def _resolved(kernel: lang.Kernel, handles: Mapping[str, LayoutHandle]) -> dict[str, Layout]:
    """The layout of each declared tensor; each is looked up where its name is defined."""
    from spfgen.pipeline import resolve

    layouts: dict[str, Layout] = {}
    for declaration in kernel.tensors:
        layouts |= resolve(replace(kernel, tensors=(declaration,)), handles[declaration.name].tree)
    return layouts


def evaluate(
    statements: str,
    /,
    *positional: object,
    sizes: Mapping[str, int] | None = None,
    threads: int | None = None,
    validate: str = "once",
    out: object = None,
    prune: object = None,
    deterministic: bool = False,
    **operands: object,
) -> Any:
    """Compute statements in index notation: `evaluate("y[i] = A[i,j]*x[j]", A=A, x=x)`.

    Operands are numpy arrays, sparse arrays and matrices of scipy or PyData/Sparse, numbers, and spfgen tensors. Their
    layouts are recognized from their arrays, which are used in place if possible. Unsorted indices and duplicates,
    which scipy allows, have layouts of their own; duplicates are added up. Arrays that fit no layout are copied, with a
    CopyWarning. dok, lil, PyData/Sparse, and numpy arrays that are not contiguous are copied.

    Results are numpy arrays and numbers, in a dict if there are several. An output that is passed is written in place.
    Types follow numpy's promotion; for bool, `+` is `or` and `*` is `and`. Elements that a sparse operand does not
    store contribute nothing.

    - `out`: the layout of the results that are not passed (`out="csr"`; if there are several, a dict of layouts by
      name). They are then tensors, with an entry at each coordinate at which all factors of a term are stored.
    - `prune`: such a result does not store values that equal its fill value.
    - `sizes`: extents that no operand has.
    - A function of Python or numpy among the operands, as `f=numpy.hypot`, can be called by the statements (see
      `function`).
    - `validate`: when index arrays are checked: at their first use and when they have changed ("once"), at every call
      ("always"), or not at all ("never": arrays that violate the layout may crash the process).
    - `deterministic`: results are bitwise the same for any number of threads.

    A kernel is compiled once for each text and each choice of layouts and types, and stored on disk. Raises SpecError,
    UsageError, DataError, Unsupported.
    """
    from spfgen.run.calls.evaluate import evaluate as evaluated

    if in_blocks(operands.values()):
        from spfgen.cluster.program import evaluate as evaluate_blocks

        if positional:
            raise UsageError("expected operands by name, but some are given by position", None, ("write x=ARRAY",))
        return evaluate_blocks(
            statements, operands, sizes, threads, out, validate, deterministic, bool(checked_prune(prune))
        )
    if positional:
        raise UsageError("expected operands by name, but some are given by position", None, ("write x=ARRAY",))
    return evaluated(statements, operands, sizes, threads, validate, out, prune, deterministic)


def einsum(
    *arguments: object,
    out: object = None,
    dtype: object = None,
    optimize: object = False,
    threads: int | None = None,
    validate: str = "once",
    layout: LayoutHandle | Layout | str | None = None,
) -> Any:
    """numpy.einsum for sparse and dense operands: `einsum("ij,j->i", A, x)`, or `einsum(A, [0, 1], x, [1], [0])`.

    Subscripts, shapes and types are those of numpy.einsum: implicit results, repeated labels (diagonals), `...`,
    broadcasting of extent 1; for bool, `+` is `or` and `*` is `and`. Operands, `threads` and `validate` are those of
    `evaluate`; messages call the operands A, B, ... The result is a new numpy array or a number, or `out`, which is
    written in place; with `layout` it is a tensor in that layout, whose pattern is computed. With `dtype`, the values
    of all operands are first converted to that type, which must hold them, as in numpy. In one respect the result
    differs from numpy's: elements that sparse operands do not store contribute nothing, even next to infinities.

    All operands are computed by one kernel. With `optimize` (True, "greedy", "optimal" or a path, as in numpy), they
    are contracted one after another, with dense arrays in between. Raises UsageError, DataError.
    """
    from spfgen.run.arrays.einsum import einsum as summed
    from spfgen.run.arrays.einsum import statement_of

    if in_blocks(arguments):
        from spfgen.cluster.program import evaluate as evaluate_blocks

        if out is not None or dtype is not None:
            raise UsageError(
                "expected neither `out` nor `dtype`, because operands are in blocks: results are new tensors"
            )
        return evaluate_blocks(*statement_of(arguments, layout), None, threads, layout, validate)
    return summed(arguments, out, dtype, optimize, threads, validate, layout)


def tune_layouts(
    kernel: str | Kernel | KernelSpec,
    /,
    *names: str,
    layouts: Sequence[LayoutHandle | Layout | str] | None = None,
    sizes: Mapping[str, int] | None = None,
    threads: int | None = None,
    seconds: float = 60.0,
    **operands: object,
) -> LayoutTuning:
    """Find the layouts of operands in which a kernel is fastest: `tune_layouts("y[i] = A[i,j]*x[j]", "A", A=A, x=x)`.

    `kernel` is index notation, a compiled kernel, or a kernel of a spec file; operands are those of `evaluate`. `names`
    are the operands whose layout may change; they are optimized one after the other. An operand is converted to every
    layout, of those that come with spfgen and those of the spec file, that can hold it in at most four times its
    present memory, with several sizes of blocks and slices; or only to the given `layouts`. Each is measured
    alternately with the best so far, and its results are compared with those of the original kernel. The search ends
    after `seconds`.

    The result has `layouts` (as in a spec file), `operands` (the converted tensors) and `kernel`, to be called with
    them: `found.kernel(x=x, **found.operands)`. `trials`, `conversion` and `repaid` are the times of all layouts, the
    time of the conversion, and the number of calls that repay it; `print(found.text())` shows them.

    Raises UsageError for names that are not operands or are results, DataError, SpecError.
    """
    from spfgen.run.tuners.tune_layouts import tune_layouts as tuned

    return tuned(kernel, names, operands, sizes, threads, seconds, layouts)


def _check_layouts(statements: Sequence[lang.Statement], handles: Mapping[str, LayoutHandle]) -> None:
    """Every layout is for a tensor of the statements, and every tensor with subscripts has one."""

    used = [*accesses_in(statements)]
    for access in used:
        if access.subscripts and access.tensor not in handles:
            message = f"expected a layout for `{access.tensor}`, but there is none"
            hint = f"pass it by name: compile(..., {access.tensor}=LAYOUT)"
            if access.tensor in inspect.signature(compile).parameters:
                hint = f"`{access.tensor}` is a setting of compile: give the tensor another name, or use a spec file"
            raise SpecError(message, access.span, (hint,))
    names = {a.tensor for a in used}
    for name in handles:
        if name not in names:
            known = f"the statements use: {', '.join(sorted(names))}"
            message = f"expected a tensor of the statements, but `{name}` is not one"
            raise SpecError(message, None, (did_you_mean(name, names) or known,))


def _layout_for(name: str, layout: Any) -> LayoutHandle:
    """What `compile` is passed by name. Raises UsageError, SpecError."""
    if isinstance(layout, str | LayoutHandle | Layout):
        return handle_of(layout)
    near = did_you_mean(name, inspect.signature(compile).parameters)
    hint = near or "the layout of a tensor `T` is `T.layout`; spfgen.evaluate takes operands"
    raise UsageError(f"expected a layout or its name for `{name}`, but this is {a_type(layout)}", None, (hint,))


__all__ = [
    "Kernel",
    "KernelSpec",
    "LayoutHandle",
    "Spec",
    "blocks",
    "checked_threads",
    "compile",
    "einsum",
    "evaluate",
    "function",
    "layout_of",
    "load",
    "load_tensor",
    "made",
    "pack",
    "parse",
    "tensor",
    "tune_layouts",
]

"""Tensors in blocks, as a collection of dask: nothing is computed before it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from operator import methodcaller
from os import PathLike
from typing import Any, Protocol

import numpy as np
from dask.base import DaskMethodsMixin, tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.threaded import get as threaded_get

from spfgen.cluster.cuts import Bounds, boxes, meeting
from spfgen.cluster.tasks import BLOCK, ApplyFunction, JoinBlocks, TakeBox, joined
from spfgen.errors import ConversionError, UsageError
from spfgen.lang.signs import PLACES
from spfgen.late_imports import LateImport
from spfgen.run.operators import Operators

Key = tuple[Any, ...]


class Programs(Protocol):
    """cluster/methods.py"""

    def blocks(
        self, source: Any, cuts: Any, count: Any, balance: Any, layout: Any, shape: Sequence[int] | None, /
    ) -> Blocked: ...
    def blocks_like(self, value: Any, bounds: Sequence[Bounds], /) -> Blocked: ...
    def evaluate(self, text: str, operands: Mapping[str, Any], sizes: None, threads: None, out: Any, /) -> Any: ...
    def to_npz(self, tensor: Blocked, path: str | PathLike[str], /, *, force: bool) -> list[str]: ...
    def to_zarr(self, tensor: Blocked, path: str | PathLike[str], /, *, force: bool) -> str: ...


PROGRAMS: LateImport[Programs] = LateImport("blocks")


@dataclass(frozen=True, repr=False, eq=False)
class Blocked(Operators[Any, Any], DaskMethodsMixin):  # type: ignore[misc]
    """A tensor in blocks. `bounds` are those of each axis; the key of a block is `name` and its place along each axis.

    `compute()` gives one tensor in `layout`, or in that of the first block (numpy arrays where blocks are those);
    `persist()` keeps the blocks on the workers. Signs and numpy's functions of single values work block by block, `@`
    and reductions as programs over blocks do. `nbytes` is the memory of all blocks, None where it is not known before.
    """

    _inner = (
        "graph",
        "name",
        "kind",
        "told",
        "known",
        "expected",
        "weights",
        "stored",
        "placed",
        "example",
        "part",
        "map",
        "rechunk",
    )
    graph: Any
    name: str
    bounds: tuple[Bounds, ...]
    kind: Callable[[], Any]
    """Gives an example of a block: its dtype, and whether it is a tensor."""
    layout: Any = None
    nbytes: int | None = None
    told: str = ""
    known: dict[str, Any] = field(default_factory=dict)
    expected: int | None = None
    """Bytes that planners count with where the memory is not known."""
    weights: Mapping[tuple[int, ...], int] | None = None
    """Bytes of each block, by its place, where they are known."""
    stored: Mapping[tuple[int, ...], tuple[tuple[int, int], ...]] | None = None
    """The part of each block in which all its entries lie, by its place, where that is known."""
    placed: bool = False
    """Whether the blocks are meant for the workers that placement.py says."""

    # --- what it is ---

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(b[-1] for b in self.bounds)

    @property
    def ndim(self) -> int:
        return len(self.bounds)

    @property
    def blocks(self) -> tuple[int, ...]:
        """The number of blocks along each axis."""
        return tuple(len(b) - 1 for b in self.bounds)

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """The extents of the blocks along each axis, as dask's `chunks`."""
        return tuple(tuple(np.diff(b).tolist()) for b in self.bounds)

    @property
    def npartitions(self) -> int:
        """The number of blocks."""
        return int(np.prod(self.blocks))

    def example(self) -> Any:
        """A small block of the same kind: a tensor in its layout or a numpy array, or a number."""
        if "example" not in self.known:
            self.known["example"] = self.kind()
        return self.known["example"]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values. Of a result it is found when it is first asked for: its kernel is compiled then."""
        dtype: np.dtype[Any] = np.dtype(self.example().dtype)
        return dtype

    def __iter__(self) -> Iterator[Blocked]:
        return (self[k] for k in range(len(self)))

    def __len__(self) -> int:
        if not self.bounds:
            raise TypeError("len() of a number")
        return self.shape[0]

    def __repr__(self) -> str:
        blocks = " x ".join(map(str, self.blocks)) or "1"
        stored = "" if self.layout is None else f", {getattr(self.layout, 'name', self.layout)}"
        memory = "" if self.nbytes is None else f", {self.nbytes:,} bytes"
        kind = f", {self.dtype}" if "example" in self.known else ""
        return f"<spfgen.Blocked shape {self.shape}{kind}{stored}, {blocks} blocks{memory}>"

    def explain(self) -> str:
        """How it comes about: which indices were cut, what is sent, how results meet, and what is known of that."""
        return self.told or f"{self!r}: blocks as they are"

    # --- what dask asks ---

    def __dask_graph__(self) -> Any:
        return self.graph

    def __dask_keys__(self) -> Any:
        return self._keys(())

    def _keys(self, place: tuple[int, ...]) -> Any:
        if len(place) == len(self.bounds):
            return (self.name, *place) if place else [(self.name,)]
        return [self._keys((*place, k)) for k in range(self.blocks[len(place)])]

    def __dask_layers__(self) -> tuple[str, ...]:
        return (self.name,)

    def __dask_tokenize__(self) -> Any:
        return (self.name, self.bounds)

    @staticmethod
    def __dask_optimize__(graph: Any, keys: Any, **options: Any) -> Any:
        layered = graph if isinstance(graph, HighLevelGraph) else HighLevelGraph.from_collections("all", graph)
        return layered.cull(set(_flat_keys(keys)))

    __dask_scheduler__ = staticmethod(threaded_get)

    def __dask_postcompute__(self) -> Any:
        return joined, (self.bounds, self.layout)

    def __dask_postpersist__(self) -> Any:
        return self._rebuilt, ()

    def _rebuilt(self, graph: Any, *, rename: Mapping[str, str] | None = None) -> Blocked:
        name = (rename or {}).get(self.name, self.name)
        return replace(self, graph=graph, name=name)

    # --- other blocks ---

    def rechunk(self, bounds: Sequence[Bounds]) -> Blocked:
        """The same tensor with other bounds."""
        wanted = tuple(tuple(b) for b in bounds)
        if wanted == self.bounds:
            return self
        name = f"recut-{tokenize(self.name, wanted)}"
        layer: dict[Any, Any] = {}
        for place, box in boxes(wanted).items():
            layer[(name, *place)] = self.part(box, layer)
        graph = HighLevelGraph.from_collections(name, layer, dependencies=[self])
        return replace(self, graph=graph, name=name, bounds=wanted, weights=None, stored=None)

    def part(self, box: Any, layer: dict[Any, Any]) -> Key:
        """The key of what lies in a box, in coordinates that begin there: of a block, or of tasks that are put into the
        layer. Only what is needed of a block leaves its worker."""
        meet = [meeting(b, *side) or [_at(b, side[0])] for b, side in zip(self.bounds, box, strict=True)]
        keys: list[Key] = []
        starts: list[tuple[int, ...]] = []
        for place in product(*meet):
            block_box = tuple((b[k], b[k + 1]) for b, k in zip(self.bounds, place, strict=True))
            both = [(max(a, low), min(b, high)) for (a, b), (low, high) in zip(block_box, box, strict=True)]
            both = [(a, max(a, b)) for a, b in both]
            starts.append(tuple(a - low for (a, _), (low, _) in zip(both, box, strict=True)))
            keys.append(self._cut((self.name, *place), block_box, both, layer))
        if len(keys) == 1:
            return keys[0]
        shape = tuple(high - low for low, high in box)
        key = (f"part-{self.name}", *(n for side in box for n in side))
        layer[key] = (JoinBlocks(shape, tuple(starts)), *keys)
        return key

    def _cut(self, key: Key, block_box: Any, box: Any, layer: dict[Any, Any]) -> Key:
        """What lies in a box of a block."""
        if tuple(block_box) == tuple(box):
            return key
        part_key = (f"cut-{self.name}", *key[1:], *(n for side in box for n in side))
        layer[part_key] = (
            TakeBox(tuple((a - low, b - low) for (a, b), (low, _) in zip(box, block_box, strict=True))),
            key,
        )
        return part_key

    def map(self, function: Callable[..., Any], *others: Any, **options: Any) -> Blocked:
        """A function of blocks that keeps their shapes, block by block; other operands in blocks are cut alike."""
        return mapped(function, (self, *others), options)

    def to_dask_array(self) -> Any:
        """The same blocks as the chunks of a dask array, in the same keys."""
        import dask.array as da

        return da.Array(self.graph, self.name, chunks=self.sizes, meta=self.example(), dtype=self.dtype)

    def to_npz(self, path: str | PathLike[str], *, force: bool = False) -> list[str]:
        """Write each block to a file, where it is: `A.to_npz("A-*.npz")`, which `spfgen.read_blocks` reads again. Gives
        the names of the files. Raises UsageError."""
        return PROGRAMS().to_npz(self, path, force=force)

    def to_zarr(self, path: str | PathLike[str], *, force: bool = False) -> str:
        """Write each block to a group of a folder of Zarr, where it is. Raises UsageError."""
        return PROGRAMS().to_zarr(self, path, force=force)

    # --- signs and functions of numpy ---

    def _goes_with(self, other: object) -> bool:
        return isinstance(other, Blocked | np.ndarray | np.generic | int | float | complex) or hasattr(other, "shape")

    def _called(self, function: np.ufunc, operands: Sequence[object], options: dict[str, Any]) -> Any:
        if function is np.matmul:
            return product_of(*operands)
        return mapped(function, tuple(operands), options)

    def __array_ufunc__(self, function: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        if method != "__call__" or options.get("out") is not None or function.nout != 1:
            return NotImplemented
        return self._called(function, operands, options)

    def _reduced(self, name: str, axis: Any, keepdims: bool, **options: Any) -> Any:
        axes = range(self.ndim) if axis is None else [a % self.ndim for a in np.atleast_1d(axis)]
        if any(v is not None and v is not True for v in options.values()) or keepdims:
            hint = 'write it as a program: spfgen.evaluate("y[i] = sum(j: A[i, j])/n", A=A, n=n)'
            raise UsageError(f"expected a reduction `{name}` with an axis alone, but it has more", None, (hint,))
        if name == "mean":
            return self._reduced("add", axis, keepdims) / np.prod([self.shape[a] for a in axes], dtype=np.int64)
        if name in PLACES and len(axes) > 1:
            hint = f"write A.{name}(axis=...), or find the place in the result of a smaller one"
            raise UsageError(f"expected an axis for `{name}` of a tensor in blocks", None, (hint,))
        indices = [f"i{k}" for k in range(self.ndim)]
        kept = [i for k, i in enumerate(indices) if k not in set(axes)]
        word = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}.get(name, name.partition("_")[2])
        word = {"or": "any", "and": "all"}.get(word, word or name)
        over = ", ".join(indices[a] for a in axes)
        target = f"result[{', '.join(kept)}]" if kept else "result"
        return _evaluated(f"{target} = {word}({over}: A[{', '.join(indices)}])", {"A": self})

    def transpose(self, *axes: Any) -> Blocked:
        """The axes in another order, the reverse one by default."""
        order = [int(a) for a in (axes[0] if len(axes) == 1 and np.iterable(axes[0]) else axes)]
        order = order or list(range(self.ndim))[::-1]
        name = f"transpose-{tokenize(self.name, order)}"
        turn = ApplyFunction(np.transpose, (BLOCK, tuple(order)))
        layer = {(name, *[k[a] for a in order]): (replace(turn, box=box), (self.name, *k))
                 for k, box in boxes(self.bounds).items()}  # fmt: skip
        graph = HighLevelGraph.from_collections(name, layer, dependencies=[self])
        bounds = tuple(self.bounds[a] for a in order)
        return Blocked(graph, name, bounds, lambda: turn(self.example()), None, self.nbytes)

    def astype(self, dtype: Any) -> Blocked:
        """The same values in another type."""
        return self.map(methodcaller("astype", np.dtype(dtype)))

    def __getitem__(self, key: Any) -> Blocked:
        """What a subscript of numbers and slices takes, in blocks: as of an array of dask, whose chunks they are."""
        return PROGRAMS().blocks(self.to_dask_array()[key], None, None, None, None, None)

    def __getattr__(self, name: str) -> Any:
        """What one tensor has, blocks have not: the message says how to get one."""
        from spfgen.run.tensor import Tensor

        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        if not name.startswith("_") and hasattr(Tensor, name):
            message += f": the tensor that A.compute() makes of its blocks has `{name}`"
        raise AttributeError(message)

    def _number(self) -> Any:
        if self.ndim:
            raise UsageError("expected one number, but this is a tensor in blocks", None, ("write .compute()",))
        return self.compute()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        hint = (
            "spfgen.evaluate, spfgen.einsum and operators take blocks; where a matrix M of scipy is on the left, write "
            "spfgen.pack(M) @ A; A.compute() makes one tensor or array of the blocks"
        )
        raise ConversionError("expected one array or tensor, but this one is in blocks", None, (hint,))

    def __bool__(self) -> bool:
        return bool(self._number())

    # --- what solvers of scipy ask ---

    def matvec(self, x: Any) -> Any:
        """The product with a vector, computed: `scipy.sparse.linalg.aslinearoperator(A)` takes it."""
        return (self @ np.ravel(x)).compute()

    def rmatvec(self, x: Any) -> Any:
        """The product of the conjugate transpose with a vector, computed."""
        product: Any = np.conjugate(np.ravel(x)) @ self
        return np.conjugate(product.compute())


def _flat_keys(keys: Any) -> Any:
    for key in keys if isinstance(keys, list) else [keys]:
        if isinstance(key, list):
            yield from _flat_keys(key)
        else:
            yield key


def _at(bounds: Bounds, low: int) -> int:
    """A block for an empty range."""
    return min(int(np.searchsorted(bounds, low, "right")) - 1, len(bounds) - 2)


def _evaluated(text: str, operands: Mapping[str, Any], out: Any = None) -> Any:
    return PROGRAMS().evaluate(text, operands, None, None, out)


def product_of(a: Any, b: Any) -> Any:
    """`a @ b` of matrices and vectors, as a program over blocks; sparse where both are tensors of two dimensions."""
    ranks = (a.ndim, b.ndim)
    texts = {(2, 1): "y[i] = A[i, k]*B[k]", (1, 2): "y[j] = A[k]*B[k, j]", (2, 2): "C[i, j] = A[i, k]*B[k, j]",
             (1, 1): "s = A[k]*B[k]"}  # fmt: skip
    if ranks not in texts:
        raise UsageError(f"expected matrices or vectors, but they have {ranks[0]} and {ranks[1]} dimensions")
    if a.shape[-1] != b.shape[0]:
        raise UsageError(f"expected shapes that fit for `@`, but they are {a.shape} and {b.shape}")
    out = None
    if ranks == (2, 2) and not any(isinstance(_kind_of(v), np.ndarray) for v in (a, b)):
        out = getattr(_kind_of(a), "layout", None)
    return _evaluated(texts[ranks], {"A": a, "B": b}, out)


def _kind_of(value: Any) -> Any:
    return value.example() if isinstance(value, Blocked) else value


def mapped(function: Any, operands: Sequence[Any], options: Mapping[str, Any]) -> Blocked:
    """A function of single values, block by block. The bounds are those of the first operand that is in blocks; an axis
    of extent 1 is stretched. Raises UsageError for shapes that do not fit."""
    shape = _stretched([o.shape for o in operands if hasattr(o, "shape")])
    bounds = [next((b for o in operands if isinstance(o, Blocked) for b in [_own(o, d, shape)] if b), (0, n))
              for d, n in enumerate(shape)]  # fmt: skip
    like = PROGRAMS().blocks_like
    given = [o if not getattr(o, "shape", ()) else like(o, _fitting(o, bounds, shape)) for o in operands]
    cut = [o for o in given if isinstance(o, Blocked)]
    call = ApplyFunction(function, tuple(BLOCK if isinstance(o, Blocked) else o for o in given), tuple(options.items()))
    name = f"{getattr(function, '__name__', 'map')}-{tokenize(function, *given, dict(options))}"
    layer = {(name, *k): (replace(call, box=box), *[(o.name, *_place(o, k)) for o in cut])
             for k, box in boxes(bounds).items()}  # fmt: skip
    graph = HighLevelGraph.from_collections(name, layer, dependencies=cut)
    return Blocked(graph, name, tuple(bounds), lambda: call(*[o.example() for o in cut]))


def _stretched(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise UsageError(f"expected shapes that fit, but they are {', '.join(map(str, shapes))}") from None


def _own(blocked: Blocked, axis: int, shape: tuple[int, ...]) -> Bounds | None:
    """The bounds that an operand has along an axis of the result."""
    operand_axis = axis - len(shape) + blocked.ndim
    return blocked.bounds[operand_axis] if operand_axis >= 0 and blocked.shape[operand_axis] == shape[axis] else None


def _fitting(operand: Any, bounds: Sequence[Bounds], shape: tuple[int, ...]) -> list[Bounds]:
    skipped = len(shape) - len(operand.shape)
    return [b if n == b[-1] else (0, n) for n, b in zip(operand.shape, bounds[skipped:], strict=True)]


def _place(operand: Blocked, place: tuple[int, ...]) -> tuple[int, ...]:
    operand_place = place[len(place) - operand.ndim :]
    return tuple(k if n > 1 else 0 for k, n in zip(operand_place, operand.blocks, strict=True))

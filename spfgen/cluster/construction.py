"""Tensors in blocks from what there is: tensors, matrices and arrays, arrays of dask, functions of a block's bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from spfgen.cluster import cuts
from spfgen.cluster.blocked import Blocked
from spfgen.cluster.placement import placed
from spfgen.cluster.stored_boxes import stored_box
from spfgen.cluster.tasks import AUTO, Empty, GatherPairs, MakeBlock, PickPart, SplitPairs, fill_in, packed, parts_of
from spfgen.cluster.workers import workers
from spfgen.errors import UsageError
from spfgen.run.calls.detect_layout import tensor_of
from spfgen.run.calls.entries import own_entries
from spfgen.run.coordinates import Coordinates
from spfgen.run.tensor import Tensor


def blocks(
    source: Any,
    asked: Mapping[Any, Any] | None,
    count: Mapping[Any, int] | None,
    balance: Mapping[Any, int] | None,
    layout: Any,
    shape: Sequence[int] | None,
) -> Blocked:
    """See spfgen.blocks."""
    workers()  # those of another version are said before anything is sent
    if isinstance(source, Blocked):
        return source.rechunk(bounds_for(source.shape, None, source.layout, asked, count, balance))
    if hasattr(source, "__dask_graph__") and hasattr(source, "chunks"):
        blocked = _of_dask(source, layout)
        return (
            blocked.rechunk(bounds_for(blocked.shape, None, layout, asked, count, balance))
            if asked or count
            else blocked
        )
    if hasattr(source, "__dask_graph__") and hasattr(source, "npartitions"):
        return _of_bag(source, bounds_for(_said(shape, "a bag"), None, layout, asked, count, balance), layout)
    if callable(source) and not hasattr(source, "shape"):
        stated_shape = _said(shape, "a function of bounds")
        return _of_function(source, bounds_for(stated_shape, None, layout, asked, count, balance), layout)
    if isinstance(source, tuple):
        from spfgen.run.arrays.made import of_coordinates
        from spfgen.run.calls.entries import pack

        rank = len(np.atleast_2d(source[0]))
        source = pack(source, of_coordinates(rank), shape=shape, fill=fill_in(layout, rank))
    if isinstance(source, np.ndarray) and layout is None:
        return of_array(source, bounds_for(source.shape, lambda: tensor_of(source, "A"), None, asked, count, balance))
    tensor = tensor_of(source, "the operand")
    bounds = bounds_for(tensor.shape, lambda: tensor, layout or tensor.layout, asked, count, balance)
    return of_tensor(tensor, bounds, layout)


def _said(shape: Sequence[int] | None, what: str) -> tuple[int, ...]:
    if shape is None:
        message = f"expected the shape of the whole beside {what}, but it is not given"
        raise UsageError(message, None, ("write shape=(n, m)",))
    return tuple(int(n) for n in shape)


def bounds_for(
    shape: tuple[int, ...], entries: Any, layout: Any, asked: Any, count: Any, balance: Any
) -> list[cuts.Bounds]:
    """Where a person wants the axes cut. Raises UsageError."""
    names = _names(layout, len(shape))
    bounds: list[cuts.Bounds] = [(0, n) for n in shape]
    cut_axes = [axis for how in (asked, count, balance) for axis in cuts.by_name(how, names)]
    for axis in cut_axes:
        if cut_axes.count(axis) > 1:
            message = f"expected one way to cut `{names[axis]}`, but there are several"
            raise UsageError(message, None, ("extents, `count` and `balance` exclude each other along an axis",))
    for axis, how in cuts.by_name(asked, names).items():
        bounds[axis] = cuts.cut(shape[axis], how, names[axis])
    for axis, how in cuts.by_name(count, names).items():
        bounds[axis] = cuts.by_count(shape[axis], cuts.checked_count(how, names[axis]))
    wanted = cuts.by_name(balance, names)
    if wanted and entries is None:
        raise UsageError("expected `count`, because entries that are not here cannot be counted for `balance`")
    stored = own_entries(entries()) if wanted else None
    for axis, how in wanted.items():
        assert stored is not None
        bounds[axis] = cuts.by_entries(stored.coords[axis], shape[axis], cuts.checked_count(how, names[axis]))
    return bounds


def _names(layout: Any, rank: int) -> list[str]:
    """What axes are called: as the layout does, else i, j, k, ..."""
    from spfgen.run.handles import handle_of

    plain = ["i", "j", "k", "l", "m", "n"][:rank] if rank <= 6 else [f"i{k}" for k in range(rank)]
    if layout is None or layout == AUTO or rank > 6:
        return plain
    chosen = handle_of(layout).layout(rank) if not hasattr(layout, "parameters") else layout
    return list(chosen.coordinates) if len(chosen.coordinates) == rank else plain


def _keyed(source: Any, bounds: Sequence[cuts.Bounds], layout: Any) -> str:
    return f"blocks-{tokenize(source, tuple(bounds), str(layout))}"


def of_array(array: np.ndarray[Any, Any], bounds: Sequence[cuts.Bounds]) -> Blocked:
    """A numpy array in blocks, which are numpy arrays."""
    name = _keyed(array, bounds, None)
    box_of = cuts.boxes(bounds)
    layer = {(name, *k): np.ascontiguousarray(array[tuple(slice(*s) for s in box)]) for k, box in box_of.items()}
    meant, is_placed = placed(layer, [len(b) - 1 for b in bounds])
    graph = HighLevelGraph.from_collections(name, meant)
    example = one_of(array.ndim, array.dtype)
    return Blocked(graph, name, tuple(bounds), lambda: example, None, array.nbytes, placed=is_placed)


def of_tensor(tensor: Tensor, bounds: Sequence[cuts.Bounds], layout: Any = None) -> Blocked:
    """A tensor in blocks in a layout, or in its own where that has places for a block."""
    some = parts_of(tensor, bounds, layout)
    name = _keyed(tensor, bounds, layout)
    layer, is_placed = placed({(name, *k): block for k, block in some.items()}, [len(b) - 1 for b in bounds])
    graph = HighLevelGraph.from_collections(name, layer)
    weights = {place: block.nbytes for place, block in some.items()}
    boxes = cuts.boxes(bounds)
    stored = {place: stored_box(block, boxes[place]) for place, block in some.items()} if len(some) > 1 else None
    used = layout or tensor.layout

    def example() -> Any:
        return packed(_without_entries(own_entries(next(iter(some.values())))), used, False)

    memory = sum(weights.values())
    return Blocked(graph, name, tuple(bounds), example, used, memory, weights=weights, stored=stored, placed=is_placed)


def _of_dask(array: Any, layout: Any) -> Blocked:
    """An array of dask: each chunk is a block."""
    if any(np.isnan(n) for sizes in array.chunks for n in sizes):
        raise UsageError("expected chunks of known sizes", None, ("array.compute_chunk_sizes() finds them",))
    bounds = tuple((0, *np.cumsum(sizes, dtype=np.int64).tolist()) for sizes in array.chunks)
    name = _keyed(array.name, bounds, layout)
    layer = {(name, *k): (MakeBlock(layout, tuple(h - w for w, h in box), None, box), (array.name, *k))
             for k, box in cuts.boxes(bounds).items()}  # fmt: skip
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[array])
    block_of = MakeBlock(layout, (1,) * array.ndim)
    return Blocked(graph, name, bounds, lambda: block_of(_of_meta(array)), layout)


def _of_bag(bag: Any, bounds: Sequence[cuts.Bounds], layout: Any) -> Blocked:
    """A bag of pairs of coordinates and values: what each partition has for a block goes there. Those at one coordinate
    add up."""
    from spfgen.run.arrays.made import of_coordinates

    wanted = of_coordinates(len(bounds)) if layout is None else layout
    name = _keyed(bag.name, bounds, wanted)
    keys = bag.__dask_keys__()
    layer: dict[Any, Any] = {(f"pairs-{name}", k): (SplitPairs(tuple(bounds)), key) for k, key in enumerate(keys)}
    for place in cuts.boxes(bounds):
        parts = []
        for k in range(len(keys)):
            parts.append((f"pairs_of-{name}", k, *place))
            layer[parts[-1]] = (PickPart(place), (f"pairs-{name}", k))
        layer[(name, *place)] = (GatherPairs(place, wanted), parts)
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[bag])
    blocked: list[Blocked] = []

    def example() -> Any:
        first = next(iter(cuts.boxes(bounds)))
        return small(blocked[0].__dask_scheduler__(dict(blocked[0].graph), (name, *first)))

    blocked.append(Blocked(graph, name, tuple(bounds), example, wanted))
    return blocked[0]


def _of_meta(array: Any) -> Any:
    """An example of a chunk, as dask knows of what kind chunks are."""
    meta = array._meta
    return small(meta) if isinstance(meta, Tensor) else one_of(array.ndim, array.dtype)


def _of_function(function: Any, bounds: Sequence[cuts.Bounds], layout: Any) -> Blocked:
    """Blocks that a function of their bounds makes where they are needed."""
    name = _keyed(function, bounds, layout)
    box_of = cuts.boxes(bounds)
    maker_of = {k: MakeBlock(layout, tuple(h - w for w, h in box), function, box) for k, box in box_of.items()}
    layer, is_placed = placed({(name, *k): (one,) for k, one in maker_of.items()}, [len(b) - 1 for b in bounds])
    graph = HighLevelGraph.from_collections(name, layer)
    first = next(iter(maker_of.values()))
    return Blocked(graph, name, tuple(bounds), lambda: small(first()), layout, placed=is_placed)


def one_of(rank: int, dtype: Any) -> Any:
    """An array of one number, which is a subscript of one place where it is an integer."""
    kind = np.dtype(dtype)
    return np.zeros((1,) * rank, kind) if kind.kind in "biu" else np.ones((1,) * rank, kind)


def _without_entries(entries: Coordinates, extent: int = 1) -> Coordinates:
    columns = tuple(c[:0] for c in entries.coords)
    return replace(entries, shape=(extent,) * len(columns), values=entries.values[:0], coords=columns)


def example_of(rank: int, dtype: Any, layout: Any) -> Any:
    """A small block of a result: an array, or a tensor that stores nothing."""
    return np.ones((1,) * rank, dtype) if layout is None else Empty((1,) * rank, dtype, layout)()


def small(value: Any, extent: int = 1) -> Any:
    """One of that extent along each axis, of the same kind, that stores nothing."""
    if isinstance(value, Blocked):
        value = value.example()
    elif not isinstance(value, Tensor | np.ndarray):
        value = tensor_of(value, "the operand")
    if isinstance(value, Tensor):
        return packed(_without_entries(own_entries(value), extent), value.layout, False)
    one = one_of(value.ndim, value.dtype)
    return one if extent else np.empty((0,) * value.ndim, value.dtype)


def blocks_like(value: Any, bounds: Sequence[cuts.Bounds]) -> Blocked:
    """A value with these bounds: in blocks already, or whole."""
    if isinstance(value, Blocked):
        return value.rechunk(bounds)
    if isinstance(value, np.ndarray):
        return of_array(value, bounds)
    if hasattr(value, "__dask_graph__") and hasattr(value, "chunks"):
        return _of_dask(value, None).rechunk(bounds)
    return of_tensor(tensor_of(value, "the operand"), bounds)

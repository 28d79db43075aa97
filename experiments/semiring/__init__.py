"""Products over other semirings, masks, and algorithms on graphs written in Python over generated kernels.

y = A min.+ x; a boolean product under a complemented mask, by rows and from a sparse vector; BFS, SSSP, PageRank and
the count of triangles as in `graphs.py`, and Bellman and Ford's algorithm in steps: only edges from vertices whose
distance has changed are looked at. A graph with a few large vertices (R-MAT) and one like roads. scipy has no
semirings: its contestants compute the same with products of numbers, numpy's with `minimum.reduceat`. GraphBLAS,
networkx and scipy.sparse.csgraph stand beside the algorithms where they are installed; plain programs check all of them
in the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from experiments.data import stored
from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Missing, Runner
from experiments.harness.check import compare
from experiments.harness.pace import Pace
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers import graphblas
from experiments.peers.kernels import measured, returning, same
from experiments.semiring import graphs
from experiments.semiring.graphs import Graph, Ours

Array = np.ndarray[Any, Any]

CALL_SECONDS, TOTAL_SECONDS = 30.0, 5.0
NEAR = 1e-12
"""How far ranks may be apart, which are sums in another order."""
TARGETS = (
    Target("GraphBLAS, products", ("graphblas",), 1.3, part="product"),
    Target("GraphBLAS, algorithms", ("graphblas",), part="algorithm"),
    Target("networkx, algorithms", ("networkx",), part="algorithm"),
    Target("scipy", ("scipy",)),
)
LEAST_ENTRIES = 1_000_000
MOST_RELAXED = 10_000
"""Vertices up to which networkx and scipy take part in Bellman and Ford's algorithm: beyond, one call takes minutes."""


@dataclass(frozen=True)
class Operands:
    """A graph with vectors for its products: numbers, a frontier, and what has been seen."""

    graph: Graph
    x: Array
    frontier: Array
    seen: Array


@dataclass(frozen=True)
class Task:
    """A computation: how each takes part, and how its reference is computed."""

    name: str
    ours: Callable[[Operands, int], Runner]
    reference: Callable[[Operands], Any]
    peers: Mapping[str, Callable[[Operands, int], Runner]]
    is_exact: bool = True


def cases(quick: bool, threads: int) -> list[Case]:
    """Each task on each graph, with one thread and with all."""
    return [
        case(task, label, make, count)
        for count in sorted({1, threads})
        for label, make in makers(quick)
        for task in TASKS
    ]


def makers(quick: bool) -> list[tuple[str, Callable[[], Graph]]]:
    """Labels and makers of graphs; then real ones, where there are any."""
    if quick:
        return [("R-MAT 2^8", partial(graphs.rmat, 8)), ("road 20x20", partial(graphs.road, 20))]
    real = [
        (m.name, partial(from_stored, m)) for m in stored.shared_matrices(LEAST_ENTRIES)[-2:]
    ]  # those with the fewest entries of the large ones
    return [("R-MAT 2^16", partial(graphs.rmat, 16)), ("road 300x300", partial(graphs.road, 300)), *real]


def from_stored(matrix: stored.StoredMatrix) -> Graph:
    """The leading square part of a matrix as a graph."""
    read = matrix.load()
    size = min(read.shape)
    return graphs.from_matrix(read[:size, :size])


def case(task: Task, label: str, make: Callable[[], Graph], threads: int) -> Case:
    """One task on one graph."""

    def check(data: Operands) -> Callable[[Any], str]:
        expected = np.asarray(task.reference(data))
        return same(expected) if task.is_exact else lambda found: compare(found, expected, NEAR)

    return Case(
        label=f"{task.name}, {label}, {threads} thread{'s' if threads > 1 else ''}",
        data=partial(operands, make),
        ours=partial(task.ours, threads=threads),
        peers=tuple(Contestant(name, partial(prepare, threads=threads)) for name, prepare in task.peers.items()),
        check=check,
        facts=lambda data: {"vertices": data.graph.size, "edges": int(data.graph.lengths.nnz)},
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


@lru_cache(maxsize=1)
def operands(make: Callable[[], Graph]) -> Operands:
    """Tasks on one graph come one after the other."""
    graph = make()
    random = np.random.default_rng(31)
    frontier, seen = random.random(graph.size) < 1 / 16, random.random(graph.size) < 1 / 4
    return Operands(graph, random.integers(0, 100, graph.size).astype(float), frontier, seen)


# --- products ------------------------------------------------------------------------------------------

MIN_PLUS = "y[i] = min(j: A[i,j] + x[j])"
MASKED = "y[i] = not v[i] and any(j: A[i,j] and f[j])"


def ours_min_plus(data: Operands, threads: int) -> Runner:
    """A kernel over a csr whose fill value is inf."""
    layouts = {"A": "csr fill inf", "x": "dense", "y": "dense"}
    matrix = graphs.pack_lengths(data.graph, "csr fill inf")
    return returning(MIN_PLUS, layouts, {"A": matrix, "x": data.x}, threads)


def numpy_min_plus(data: Operands, threads: int) -> Runner:
    """All sums, then `minimum.reduceat`, which cannot do with empty rows: they are set afterwards. One thread."""
    a, x = data.graph.lengths, data.x
    empty = np.diff(a.indptr) == 0
    starts = np.minimum(a.indptr[:-1], a.nnz - 1)

    def call() -> Array:
        y = np.minimum.reduceat(a.data + x[a.indices], starts)
        y[empty] = np.inf
        return y

    return measured(call)


def graphblas_min_plus(data: Operands, threads: int) -> Runner:
    """SuiteSparse:GraphBLAS over its semiring of that name."""
    module = graphblas.module()
    module.ss.config["nthreads"] = threads
    a, x = module.io.from_scipy_sparse(data.graph.lengths), module.Vector.from_dense(data.x)
    y = module.Vector(float, size=data.graph.size)

    def call() -> None:
        y << a.mxv(x, module.semiring.min_plus)

    return Runner(call, lambda: y.to_dense(fill_value=np.inf))


def min_plus(data: Operands) -> Array:
    """Entry by entry with numpy."""
    coo = data.graph.lengths.tocoo()
    y = np.full(data.graph.size, np.inf)
    np.minimum.at(y, coo.row, coo.data + data.x[coo.col])
    return y


def ours_masked(data: Operands, threads: int) -> Runner:
    """Rows that the mask leaves out are not looked at; a row ends at the first hit."""
    layouts = {"A": "csr", "f": "dense", "v": "dense", "y": "dense"}
    return returning(MASKED, layouts, {"A": data.graph.edges, "f": data.frontier, "v": data.seen}, threads)


def ours_pushed(data: Operands, threads: int) -> Runner:
    """From a sparse vector along its edges to a sparse vector, without what the mask holds."""
    layouts = {"A": "csr", "f": "sv", "v": "dense", "g": "sv"}
    return returning(graphs.PUSH, layouts, {"A": data.graph.edges, "f": data.frontier, "v": data.seen}, threads)


def scipy_masked(data: Operands, threads: int, transposed: bool = False) -> Runner:
    """The product of numbers, then the mask. One thread."""
    edges = data.graph.edges.T.tocsr() if transposed else data.graph.edges
    counts, f, seen = edges.astype(np.int64), data.frontier.astype(np.int64), data.seen
    return measured(lambda: (counts @ f > 0) & ~seen)


def graphblas_masked(data: Operands, threads: int, is_pushed: bool = False) -> Runner:
    """A complemented mask, the semiring any.pair of patterns."""
    module = graphblas.module()
    module.ss.config["nthreads"] = threads
    a = module.io.from_scipy_sparse(data.graph.edges)
    f = module.Vector.from_coo(np.flatnonzero(data.frontier), True, size=data.graph.size)
    seen = module.Vector.from_coo(np.flatnonzero(data.seen), True, size=data.graph.size)
    y = module.Vector(bool, size=data.graph.size)
    semiring = module.semiring.any_pair[bool]

    def call() -> None:
        y(~seen.S, replace=True) << (f.vxm(a, semiring) if is_pushed else a.mxv(f, semiring))

    return Runner(call, lambda: y.to_dense(fill_value=False))


def masked(data: Operands, transposed: bool = False) -> Array:
    """Edge by edge with numpy."""
    coo = data.graph.edges.tocoo()
    y = np.zeros(data.graph.size, bool)
    ends, starts = (coo.row, coo.col) if transposed else (coo.col, coo.row)
    y[starts[data.frontier[ends]]] = True
    return y & ~data.seen


# --- algorithms ----------------------------------------------------------------------------------------


def ours_algorithm(data: Operands, threads: int, name: str) -> Runner:
    """The program over kernels; the graph is packed, and kernels compiled, beforehand."""
    return measured(getattr(Ours(data.graph, threads), name))


def _relaxed_in_time(name: str, size: int) -> None:
    if name == "bellman_ford" and size > MOST_RELAXED:
        raise Missing(f"a call on {size:,} vertices takes minutes")


def networkx_algorithm(data: Operands, threads: int, name: str) -> Runner:
    """networkx, in Python; the graph is made beforehand. One thread."""
    try:
        import networkx
    except ImportError as error:
        raise Missing(f"{error}; pip install networkx") from error
    graph, size, source = data.graph, data.graph.size, data.graph.source
    _relaxed_in_time(name, size)
    own = networkx.from_scipy_sparse_array(graph.lengths, create_using=networkx.DiGraph)

    def spread(found: Mapping[int, Any], missing: Any) -> Array:
        result = np.full(size, missing)
        result[list(found)] = list(found.values())
        return result

    def bfs() -> Array:
        return spread(networkx.single_source_shortest_path_length(own, source), -1)

    def sssp() -> Array:
        return spread(networkx.single_source_dijkstra_path_length(own, source), np.inf)

    def triangles() -> int:
        return sum(networkx.triangles(without).values()) // 3

    without = own.to_undirected()

    def bellman_ford() -> Array:
        return spread(networkx.single_source_bellman_ford_path_length(own, source), np.inf)

    return Runner({"bfs": bfs, "sssp": sssp, "bellman_ford": bellman_ford, "triangles": triangles}[name])


def graphblas_algorithm(data: Operands, threads: int, name: str) -> Runner:
    """SuiteSparse:GraphBLAS; the graph is made beforehand."""
    module = graphblas.module()
    module.ss.config["nthreads"] = threads
    graph, size, source = data.graph, data.graph.size, data.graph.source
    edges, lengths, below = map(module.io.from_scipy_sparse, (graph.edges, graph.lengths, graph.below))
    semiring = module.semiring

    def bfs() -> Array:
        levels = module.Vector(int, size=size)
        frontier = module.Vector(bool, size=size)
        frontier[source] = True
        level = 0
        while frontier.nvals:
            levels(frontier.S)[:] = level
            frontier(~levels.S, replace=True) << frontier.vxm(edges, semiring.any_pair[bool])
            level += 1
        return np.asarray(levels.to_dense(fill_value=-1))

    def bellman_ford() -> Array:
        distance = module.Vector(float, size=size)
        distance[source] = 0.0
        changed = distance.dup()
        while changed.nvals:
            reached = changed.vxm(lengths, semiring.min_plus).new()
            shorter = reached.ewise_union(distance, module.binary.lt, np.inf, np.inf).new()
            changed = reached.dup(mask=shorter.V)
            distance(module.binary.min) << changed
        return np.asarray(distance.to_dense(fill_value=np.inf))

    def triangles() -> int:
        counts = below.mxm(below.T, semiring.plus_pair[int]).new(mask=below.S)
        return int(counts.reduce_scalar().new().value or 0)

    return Runner({"bfs": bfs, "bellman_ford": bellman_ford, "triangles": triangles}[name])


def scipy_algorithm(data: Operands, threads: int, name: str) -> Runner:
    """scipy.sparse.csgraph, or products of scipy where that has nothing. One thread."""
    from scipy.sparse import csgraph

    graph = data.graph
    if name == "sssp":
        return Runner(lambda: csgraph.dijkstra(graph.lengths, indices=graph.source))
    if name == "bellman_ford":
        _relaxed_in_time(name, graph.size)
        return Runner(lambda: csgraph.bellman_ford(graph.lengths, indices=graph.source))
    plain = {"bfs": graphs.plain_bfs, "pagerank": graphs.plain_pagerank, "triangles": graphs.plain_triangles}
    return Runner(lambda: plain[name](graph))


def algorithm(name: str, reference: Callable[[Graph], Any], *, is_exact: bool = True, peers: Sequence[str]) -> Task:
    """A task of `graphs.Ours`."""
    known = {"graphblas": graphblas_algorithm, "networkx": networkx_algorithm, "scipy": scipy_algorithm}
    return Task(
        f"algorithm {name}",
        partial(ours_algorithm, name=name),
        lambda data: reference(data.graph),
        {peer: partial(known[peer], name=name) for peer in peers},
        is_exact,
    )


TASKS = (
    Task("product min.+", ours_min_plus, min_plus, {"numpy": numpy_min_plus, "graphblas": graphblas_min_plus}),
    Task("product masked by rows", ours_masked, masked, {"scipy": scipy_masked, "graphblas": graphblas_masked}),
    Task(
        "product masked, pushed",
        ours_pushed,
        partial(masked, transposed=True),
        {
            "scipy": partial(scipy_masked, transposed=True),
            "graphblas": partial(graphblas_masked, is_pushed=True),
        },
    ),
    algorithm("bfs", graphs.plain_bfs, peers=("graphblas", "networkx", "scipy")),
    algorithm("sssp", graphs.plain_sssp, peers=("networkx", "scipy")),
    algorithm("bellman_ford", graphs.plain_sssp, peers=("graphblas", "networkx", "scipy")),
    algorithm("pagerank", graphs.plain_pagerank, is_exact=False, peers=("scipy",)),
    algorithm("triangles", graphs.plain_triangles, peers=("graphblas", "networkx", "scipy")),
)


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)

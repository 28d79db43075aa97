"""Algorithms on graphs as programs of Python over generated kernels: each step is one kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, tril

from experiments.data import made
from experiments.data.shape import as_csr
from experiments.peers.kernels import compiled
from experiments.peers.spfgen import module_or_missing

Array = np.ndarray[Any, Any]

DAMPING, STEPS = 0.85, 20
PUSH = "g[j] = any(i: f[i] and A[i,j]) and not v[j]"
PULL = "g[j] = not v[j] and any(i: A[i,j] and f[i])"
RELAX = "e[j] = min(d[j], min(i: d[i] + A[i,j]))"
CHANGED = "for i { if f[i] { for j { let n = d[i] + A[i,j]  e[j] min= n  g[j] or= n < d[j] } } }"
FLOW = "y[j] = a + b*sum(i: A[i,j]*x[i])"
TRIANGLES = "t = sum(i, j, k: L[i,j]*L[i,k]*L[j,k])"


@dataclass(frozen=True)
class Graph:
    """The edges i -> j of a graph as a matrix, with their lengths: small whole numbers, so that all sums are exact."""

    lengths: csr_array

    @property
    def size(self) -> int:
        """The number of vertices."""
        return int(self.lengths.shape[0])

    @cached_property
    def edges(self) -> csr_array:
        """True at each edge."""
        a = self.lengths
        return csr_array((np.ones(a.nnz, bool), a.indices, a.indptr), shape=a.shape)

    @cached_property
    def source(self) -> int:
        """The vertex with the most edges."""
        return int(np.argmax(np.diff(self.lengths.indptr)))

    @cached_property
    def below(self) -> csr_array:
        """The edges of the graph without directions, each once: a strictly lower triangle of ones."""
        both = (self.edges + self.edges.T).astype(np.int64)
        return csr_array(tril((both != 0).astype(np.int64), k=-1))

    @cached_property
    def shares(self) -> csr_array:
        """What part of its rank a vertex gives to each neighbour; dangling ones give nothing."""
        degrees = np.diff(self.lengths.indptr)
        values = np.repeat(1.0 / np.maximum(degrees, 1), degrees)
        return csr_array((values, self.lengths.indices, self.lengths.indptr), shape=self.lengths.shape)


def from_matrix(matrix: csr_array, seed: int = 30) -> Graph:
    """A graph with the pattern of a matrix, without loops."""
    coo = matrix.tocoo()
    keep = coo.row != coo.col
    lengths = np.random.default_rng(seed).integers(1, 10, int(keep.sum())).astype(float)
    return Graph(as_csr(csr_array((lengths, (coo.row[keep], coo.col[keep])), shape=matrix.shape)))


def rmat(scale: int) -> Graph:
    """A few vertices have most edges."""
    return from_matrix(made.power_law(scale, 8))


def road(k: int) -> Graph:
    """A grid of k*k crossings: all have few edges, and the way through is long."""
    return from_matrix(made.stencil(k))


class Ours:
    """A graph with all that the kernels need, packed once; each method is an algorithm."""

    def __init__(self, graph: Graph, threads: int) -> None:
        pack = module_or_missing("spfgen").pack
        self.graph, self.threads = graph, threads
        self.by_row, self.by_column = pack(graph.edges, "csr"), pack(graph.edges, "csc")
        self.lengths = pack_lengths(graph)
        self.lengths_by_row = pack_lengths(graph, "csr fill inf")
        self.shares = pack(graph.shares, "csc")
        self.below = pack(graph.below, "csr")

    def bfs(self) -> Array:
        """The least number of edges from the source; -1 where there is no way. A small frontier pushes along its
        edges, a large one is pulled by the vertices not seen yet."""
        push, pull = self._kernel(PUSH, A="csr", f="sv", g="sv"), self._kernel(PULL, A="csc")
        spfgen = module_or_missing("spfgen")
        size, source = self.graph.size, self.graph.source
        levels = np.full(size, -1)
        seen = np.zeros(size, bool)
        frontier = np.array([source])
        level = 0
        while frontier.size:
            levels[frontier], seen[frontier] = level, True
            now = np.zeros(size, bool)
            now[frontier] = True
            if 16 * frontier.size < size:
                found = push(A=self.by_row, f=spfgen.pack(now, "sv"), v=seen)
                frontier = np.asarray(found.nonzero()[0])
            else:
                frontier = np.flatnonzero(pull(A=self.by_column, f=now, v=seen))
            level += 1
        return levels

    def sssp(self) -> Array:
        """The least length of a way from the source (Bellman and Ford); inf where there is none."""
        relax = self._kernel(RELAX, A="csc fill inf")
        distance = np.full(self.graph.size, np.inf)
        distance[self.graph.source] = 0.0
        while True:
            shorter = relax(A=self.lengths, d=distance)
            if np.array_equal(shorter, distance):
                return distance
            distance = shorter

    def bellman_ford(self) -> Array:
        """The same by the edges from vertices whose distance has changed."""
        step = self._kernel(CHANGED, A="csr fill inf", f="sv", g="dense<bool>")
        spfgen, size = module_or_missing("spfgen"), self.graph.size
        distance = np.full(size, np.inf)
        distance[self.graph.source] = 0.0
        changed = distance == 0
        while changed.any():
            found = step(
                A=self.lengths_by_row,
                d=distance,
                e=distance.copy(),
                f=spfgen.pack(changed, "sv"),
                g=np.zeros(size, bool),
            )
            distance, changed = found["e"], found["g"]
        return distance

    def pagerank(self) -> Array:
        """Ranks after a fixed number of steps."""
        flow = self._kernel(FLOW, A="csc", x="dense")
        size = self.graph.size
        dangling = np.diff(self.graph.lengths.indptr) == 0
        x = np.full(size, 1.0 / size)
        for _ in range(STEPS):
            a = (1.0 - DAMPING + DAMPING * float(x[dangling].sum())) / size
            x = flow(A=self.shares, x=x, a=a, b=DAMPING)
        return x

    def triangles(self) -> int:
        """How many triples of vertices are all neighbours, directions left aside."""
        return int(np.asarray(self._kernel(TRIANGLES, L="csr")(L=self.below)))

    def _kernel(self, text: str, **layouts: str) -> Any:
        dense = {name: "dense" for name in names_of(text) if name not in layouts}
        return compiled(text, tuple({**dense, **layouts}.items()), self.threads)


def pack_lengths(graph: Graph, layout: str = "csc fill inf") -> Any:
    """Lengths where there are edges, inf elsewhere."""
    spfgen = module_or_missing("spfgen")
    coo = graph.lengths.tocoo()
    return spfgen.pack(((coo.row, coo.col), coo.data), layout, shape=coo.shape)


def names_of(text: str) -> set[str]:
    """The names with subscripts in a text."""
    return {text[at - 1] for at, letter in enumerate(text) if letter == "[" and at}


# --- plain programs, the reference ---------------------------------------------------------------------


def plain_bfs(graph: Graph) -> Array:
    """Level by level with scipy's product."""
    size = graph.size
    levels = np.full(size, -1)
    now = np.zeros(size, bool)
    now[graph.source] = True
    transposed = graph.edges.T.tocsr().astype(np.int64)
    level = 0
    while now.any():
        levels[now] = level
        now = (transposed @ now.astype(np.int64) > 0) & (levels < 0)
        level += 1
    return levels


def plain_sssp(graph: Graph) -> Array:
    """All edges again and again, with numpy."""
    coo = graph.lengths.tocoo()
    distance = np.full(graph.size, np.inf)
    distance[graph.source] = 0.0
    while True:
        shorter = distance.copy()
        np.minimum.at(shorter, coo.col, distance[coo.row] + coo.data)
        if np.array_equal(shorter, distance):
            return distance
        distance = shorter


def plain_pagerank(graph: Graph) -> Array:
    """The same steps with scipy's product."""
    size = graph.size
    transposed = graph.shares.T.tocsr()
    dangling = np.diff(graph.lengths.indptr) == 0
    x = np.full(size, 1.0 / size)
    for _ in range(STEPS):
        x = (1.0 - DAMPING + DAMPING * x[dangling].sum()) / size + DAMPING * (transposed @ x)
    return x


def plain_triangles(graph: Graph) -> int:
    """The sum of (L L') where L has an edge."""
    below = graph.below
    return int((below @ below.T).multiply(below).sum())

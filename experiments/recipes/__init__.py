"""The recipes of the documentation at sizes where time counts, each beside what one would write without spfgen.

Labels begin with the page of the recipe. The usual way is that of numpy, scipy.sparse or scipy.sparse.csgraph,
whichever is shortest to write and has no loop in Python over rows; one thread for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.check import compare
from experiments.harness.pace import Pace
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers.kernels import compiled, dense, packed

Array = np.ndarray[Any, Any]
Operands = Mapping[str, Any]

CALL_SECONDS, TOTAL_SECONDS = 20.0, 4.0
NEAR = 1e-9
USUAL = ("numpy", "scipy", "csgraph")
TARGETS = (Target("the usual library", USUAL),)
TOP = "C[i, j] = where(sum(k: A[i, k] > A[i, j]) < 5, A[i, j], 0)"
AROUND = ("u[i-1, j]", "u[i+1, j]", "u[i, j-1]", "u[i, j+1]")
STENCIL = "r[i, j] = 4*u[i, j]" + "".join(f" - coalesce({part}, 0)" for part in AROUND)
SQUARE = [f"x[i + {r}, j + {s}]" for r in range(3) for s in range(3)]
ERODE = f"e[i, j] = {reduce(lambda a, b: f'min({a}, {b})', SQUARE)}"
RELAX = "new[j] = min(d[j], min(i: d[i] + W[i, j]))"
FLOW = "r[j] = a + b*sum(i: P[i, j]*x[i])"
LABEL = "m[i] = min(p[i], min(j: where(G[i, j] != 0, p[j], p[i])))"
STEP = "next[j] = any(i: f[i] and G[i, j] != 0) and level[j] < 0"
RANK_STEPS = 20


@dataclass(frozen=True)
class Task:
    """A recipe: its data for a size, and two ways to compute it."""

    label: str
    sizes: tuple[int, int]
    """Of `--quick`, and in full."""
    data: Callable[[int], Operands]
    ours: Callable[[Operands], Callable[[], Any]]
    usual: Callable[[Operands], Any]
    library: str = "scipy"


def kernel(text: str, *names: str, **layouts: str) -> Callable[[Operands], Callable[[], Any]]:
    """A recipe that is one kernel; operands are those of `names`, or of the layouts."""

    def prepare(data: Operands) -> Callable[[], Any]:
        known = {n: ("csr" if sp.issparse(data[n]) else "dense") for n in names}
        made = compiled(text, tuple({**known, **layouts}.items()), 1)
        held = packed({**known, **layouts}, {n: data[n] for n in (*known, *layouts) if n in data})
        return lambda: made(**held)

    return prepare


# --- data ----------------------------------------------------------------------------------------------


def rows(n: int) -> Operands:
    """20 entries in a row on the average, none empty."""
    rng = np.random.default_rng(5)
    a = sp.random_array((n, n), density=20 / n, format="csr", rng=rng) + sp.eye_array(n, format="csr")
    return {"A": sp.csr_array(a), "n": np.diff(a.indptr).astype(float)}


def thin(n: int) -> Operands:
    """A hundred times fewer columns: rows that share some."""
    a = sp.random_array((n, 100 * n), density=10 / (100 * n), format="csr", rng=np.random.default_rng(6))
    a = sp.csr_array(a + sp.csr_array((np.ones(n), (np.arange(n), np.arange(n))), shape=a.shape))
    return {"A": a, "l": np.sqrt(np.asarray((a * a).sum(axis=1)))}


def labels(n: int) -> Operands:
    """Rows of 16 numbers in a thousand groups."""
    rng = np.random.default_rng(7)
    return {"label": rng.integers(0, 1000, n), "x": rng.random((n, 16)), "t": np.zeros((1000, 16))}


def graph(n: int) -> Operands:
    """An undirected graph of about 8 edges at a vertex, connected."""
    rng = np.random.default_rng(8)
    g = sp.random_array((n, n), density=8 / n, format="csr", rng=rng) + sp.diags_array(np.ones(n - 1), offsets=1)
    g = sp.csr_array(abs(g) + abs(g).T)
    g.setdiag(0)
    g.eliminate_zeros()
    lower = sp.csr_array(sp.tril(g != 0, -1).astype(float))
    return {"G": g, "L": lower, "degree": np.maximum(np.diff(g.indptr), 1)}


def elements(n: int) -> Operands:
    """Elements of four nodes, and the pattern of their matrix."""
    rng = np.random.default_rng(9)
    cells = rng.integers(0, n - 30, (2 * n, 1)) + rng.permuted(np.tile(np.arange(30), (2 * n, 1)), axis=1)[:, :4]
    r, c = cells.repeat(4, 1).ravel(), np.tile(cells, 4).ravel()
    pattern = sp.coo_array((np.ones(r.size), (r, c)), shape=(n, n)).tocsr()
    pattern.data[:] = 0
    return {"K": pattern, "at": cells, "E": rng.random((2 * n, 4, 4)), "rows": r, "columns": c}


def grid(n: int) -> Operands:
    """Numbers on a square grid, and the matrix of the stencil of five points."""
    u = np.random.default_rng(10).random((n, n))
    line = sp.diags_array([-np.ones(n - 1), np.full(n, 2.0), -np.ones(n - 1)], offsets=[-1, 0, 1])
    return {"u": u, "M": sp.csr_array(sp.kronsum(line, line))}


def transfer(n: int) -> Operands:
    """Poisson's equation on a grid, and interpolation from one of half the width."""
    line = sp.diags_array([-np.ones(n - 1), np.full(n, 2.0), -np.ones(n - 1)], offsets=[-1, 0, 1])
    half = np.maximum(0, 1 - abs(np.arange(n)[:, None] - 2 * np.arange(n // 2) - 1) / 2)
    return {"A": sp.csr_array(sp.kronsum(line, line)), "P": sp.csr_array(sp.kron(sp.csr_array(half), half))}


def weights(n: int) -> Operands:
    """Weights in blocks of 8 x 8, of which a tenth is there, and 64 inputs."""
    rng = np.random.default_rng(11)
    w = np.kron(rng.random((n // 8, n // 8)) < 0.1, np.ones((8, 8))) * rng.normal(size=(n, n))
    kept = np.argsort(rng.random((n, n // 4, 4)), axis=-1) < 2
    two = np.where(kept, rng.normal(size=(n, n // 4, 4)), 0).reshape(n, n)
    return {"W": w, "x": rng.normal(size=(n, 64)), "c": rng.normal(size=n), "V": two}


def image(n: int) -> Operands:
    """A drawing: squares of 16 pixels, a third of them dark; a fifth of the pixels of another picture."""
    rng = np.random.default_rng(12)
    drawing = np.kron(rng.random((n // 16, n // 16)) < 0.3, np.ones((16, 16), bool))
    dots = np.where(rng.random((n, n)) < 0.02, rng.random((n, n)), 0)
    return {"x": drawing.astype(float), "mask": drawing, "grey": rng.random((n, n)), "image": sp.csr_array(dots),
            "w": rng.random((3, 3))}  # fmt: skip


# --- ours, where it is more than one kernel ------------------------------------------------------------


def until_same(text: str, given: Callable[[Operands], tuple[dict[str, str], dict[str, Any], str, Array]]) -> Any:
    """A kernel again and again until its result does not change."""

    def prepare(data: Operands) -> Callable[[], Any]:
        layouts, operands, name, start = given(data)
        made, held = compiled(text, tuple(layouts.items()), 1), packed(layouts, operands)

        def call() -> Array:
            now = start
            while not np.array_equal(now, new := made(**held, **{name: now})):
                now = new
            return now

        return call

    return prepare


def far(data: Operands) -> tuple[dict[str, str], dict[str, Any], str, Array]:
    """What the shortest paths begin with."""
    start = np.full(data["G"].shape[0], np.inf)
    start[0] = 0
    return {"W": "csr fill inf", "d": "dense"}, {"W": data["G"]}, "d", start


def alone(data: Operands) -> tuple[dict[str, str], dict[str, Any], str, Array]:
    """What the components begin with."""
    return {"G": "csr", "p": "dense"}, {"G": data["G"]}, "p", np.arange(data["G"].shape[0])


def levels(data: Operands) -> Callable[[], Any]:
    """Breadth first, a level in each step."""
    made = compiled(STEP, (("G", "csr"), ("f", "dense"), ("level", "dense")), 1)
    held, n = packed({"G": "csr"}, {"G": data["G"]}), data["G"].shape[0]

    def call() -> Array:
        level, front = np.full(n, -1), np.zeros(n, bool)
        level[0], front[0], depth = 0, True, 0
        while front.any():
            depth += 1
            front = made(**held, f=front, level=level)
            level[front] = depth
        return level

    return call


def flow(data: Operands) -> Callable[[], Any]:
    """PageRank; what a vertex gives is divided before."""
    made = compiled(FLOW, (("P", "csr"), ("x", "dense"), ("r", "dense")), 1)
    held = packed({"P": "csr"}, {"P": data["L"]})
    n = data["L"].shape[0]

    def call() -> Array:
        rank = np.full(n, 1 / n)
        for _ in range(RANK_STEPS):
            rank = made(**held, a=0.15 / n, b=0.85, x=rank / data["degree"])
        return rank

    return call


def softmax(data: Operands) -> Callable[[], Any]:
    """Three kernels: greatest values, sums, quotients."""
    layouts = {"L": "csr fill -inf"}
    held = packed(layouts, {"L": data["A"]})
    most = compiled("m[i] = max(j: L[i, j])", (("L", "csr fill -inf"),), 1)
    total = compiled("s[i] = sum(j: exp(L[i, j] - m[i]))", (("L", "csr fill -inf"), ("m", "dense")), 1)
    text = "S[i, j] = exp(L[i, j] - m[i])/s[i]"
    share = compiled(text, (("L", "csr fill -inf"), ("m", "dense"), ("s", "dense"), ("S", "csr")), 1)

    def call() -> Any:
        m = most(**held)
        return share(**held, m=m, s=total(**held, m=m))

    return call


def grouped(data: Operands) -> Callable[[], Any]:
    """Into zeros."""
    made = compiled("s[label[i], k] += x[i, k]", (("s", "dense"), ("label", "dense"), ("x", "dense")), 1)
    return lambda: made(s=np.zeros_like(data["t"]), label=data["label"], x=data["x"])


def assemble(data: Operands) -> Callable[[], Any]:
    """Into a pattern that is there, which is cleared first."""
    made = compiled("K[at[e, a], at[e, b]] += E[e, a, b]", (("K", "csr"), ("at", "dense"), ("E", "dense")), 1)
    held = packed({"K": "csr"}, {"K": data["K"].copy()})

    def call() -> Any:
        held["K"].arrays["val"][:] = 0
        return made(**held, at=data["at"], E=data["E"])

    return call


# --- the usual way -------------------------------------------------------------------------------------


def by_rows(function: np.ufunc, a: Any, values: Array | None = None) -> Array:
    """What numpy reduces of each row; no row is empty."""
    return np.asarray(function.reduceat(a.data if values is None else values, a.indptr[:-1]))


def usual_top(data: Operands) -> Any:
    """Sorted by row and value; the first five of each row."""
    a = data["A"]
    row = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
    order = np.lexsort((-a.data, row))
    kept = order[np.arange(a.nnz) - np.repeat(a.indptr[:-1], np.diff(a.indptr)) < 5]
    return sp.csr_array((a.data[kept], (row[kept], a.indices[kept])), shape=a.shape)


def usual_softmax(data: Operands) -> Any:
    """On the array of values."""
    a = data["A"]
    count = np.diff(a.indptr)
    e = np.exp(a.data - np.repeat(by_rows(np.maximum, a), count))
    return sp.csr_array((e / np.repeat(by_rows(np.add, a, e), count), a.indices, a.indptr), shape=a.shape)


def usual_variance(data: Operands) -> Array:
    """From the sums of values and of squares."""
    a, n = data["A"], data["n"]
    return by_rows(np.add, a, a.data**2) / n - (by_rows(np.add, a) / n) ** 2


def usual_levels(data: Operands) -> Array:
    """csgraph's."""
    found = csgraph.shortest_path(data["G"], unweighted=True, indices=0)
    return np.where(np.isinf(found), -1, found).astype(int)


def usual_ranks(data: Operands) -> Array:
    """scipy's product with the transposed matrix."""
    turned, n = data["L"].T.tocsr(), data["L"].shape[0]
    rank = np.full(n, 1 / n)
    for _ in range(RANK_STEPS):
        rank = 0.15 / n + 0.85 * (turned @ (rank / data["degree"]))
    return rank


def usual_components(data: Operands) -> Array:
    """csgraph's labels, as the least vertex of each component."""
    _, label = csgraph.connected_components(data["G"], directed=False)
    first = np.unique(label, return_index=True)[1]
    return np.asarray(first[label])


def usual_groups(data: Operands) -> Array:
    """The product with a one-hot matrix."""
    n = data["label"].size
    return np.asarray(sp.csr_array((np.ones(n), (data["label"], np.arange(n))), shape=(1000, n)) @ data["x"])


def usual_assembly(data: Operands) -> Any:
    """coo to csr."""
    return sp.coo_array((data["E"].ravel(), (data["rows"], data["columns"])), shape=data["K"].shape).tocsr()


def usual_erosion(data: Operands) -> Array:
    """numpy, shifted nine times."""
    x, n = data["x"], data["x"].shape[0] - 2
    found = x[:n, :n]
    for r in range(3):
        for s in range(3):
            found = np.minimum(found, x[r : r + n, s : s + n])
    return found


def usual_convolution(data: Operands) -> Array:
    """numpy on the dense image, every second pixel."""
    x = data["image"].toarray()
    n = (x.shape[0] - 3) // 2 + 1
    out = np.zeros((n, n))
    for r in range(3):
        for s in range(3):
            out += data["w"][r, s] * x[r : r + 2 * n - 1 : 2, s : s + 2 * n - 1 : 2]
    return out


TASKS = (
    Task("rows: the 5 greatest of each row", (200, 50_000), rows, kernel(TOP, "A", C="csr"), usual_top, "numpy"),
    Task("rows: variance of what is stored", (200, 50_000), rows,
         kernel("v[i] = sum(j: A[i, j]*A[i, j])/n[i] - (sum(j: A[i, j])/n[i])**2", "A", "n"), usual_variance, "numpy"),
    Task("rows: softmax of what is stored", (200, 50_000), rows, softmax, usual_softmax, "numpy"),
    Task("rows: cosine similarities", (50, 5_000), thin,
         kernel("C[i, k] = A[i, j]*A[k, j]/(l[i]*l[k])", "A", "l", C="csr"),
         lambda d: (w := sp.diags_array(1 / d["l"]) @ d["A"]) @ w.T),
    Task("rows: what lies above a threshold of its column", (200, 50_000), rows,
         kernel("y[i] = sum(j: where(A[i, j] > n[j]/40, A[i, j], 0))", "A", "n"),
         lambda d: by_rows(np.add, d["A"], np.where(d["A"].data > d["n"][d["A"].indices] / 40, d["A"].data, 0)),
         "numpy"),
    Task("groups: sums by label", (500, 200_000), labels,
         grouped, usual_groups),
    Task("graphs: breadth-first search", (100, 50_000), graph, levels, usual_levels, "csgraph"),
    Task("graphs: shortest paths", (100, 50_000), graph, until_same(RELAX, far),
         lambda d: csgraph.dijkstra(d["G"], indices=0), "csgraph"),
    Task("graphs: PageRank, 20 steps", (100, 50_000), graph, flow, usual_ranks),
    Task("graphs: connected components", (100, 50_000), graph, until_same(LABEL, alone), usual_components, "csgraph"),
    Task("graphs: triangles", (100, 50_000), graph, kernel("t = L[i, j]*L[j, k]*L[i, k]", "L"),
         lambda d: (d["L"] @ d["L"]).multiply(d["L"]).sum()),
    Task("assembly: elements into a fixed pattern", (100, 50_000), elements, assemble, usual_assembly),
    Task("assembly: a stencil without a matrix", (20, 1000), grid,
         kernel(STENCIL, "u"),
         lambda d: (d["M"] @ d["u"].ravel()).reshape(d["u"].shape)),
    Task("assembly: Galerkin product of multigrid", (15, 255), transfer,
         kernel("C[i, l] = P[j, i]*A[j, k]*P[k, l]", "A", "P", C="csr"), lambda d: d["P"].T @ d["A"] @ d["P"]),
    Task("networks: weights in blocks", (64, 2048), weights,
         kernel("y[i, b] = max(sum(j: W[i, j]*x[j, b]) + c[i], 0)", "x", "c", W="bcsr(R=8, C=8)"),
         lambda d: np.maximum(d["W"] @ d["x"] + d["c"][:, None], 0), "numpy"),
    Task("networks: weights of which two in four are stored", (64, 2048), weights,
         kernel("y[i, b] = V[i, j]*x[j, b]", "x", V="warp24"), lambda d: d["V"] @ d["x"], "numpy"),
    Task("networks: convolution with a stride of 2", (32, 2048), image,
         kernel("o[i, j] = image[2*i + r, 2*j + s]*w[r, s]", "image", "w"), usual_convolution, "numpy"),
    Task("networks: erosion of runs", (32, 2048), image,
         kernel(ERODE, x="csr_rle", e="csr_rle"), usual_erosion, "numpy"),
    Task("networks: the mean under a mask of bits", (32, 2048), image,
         kernel("s = sum(i: sum(j: where(mask[i, j], grey[i, j], 0)))", "grey", mask="bit_map"),
         lambda d: d["grey"][d["mask"]].sum(), "numpy"),
)  # fmt: skip


def cases(quick: bool, threads: int) -> list[Case]:
    """Each recipe once."""
    return [case(task, task.sizes[0 if quick else 1]) for task in TASKS]


def case(task: Task, size: int) -> Case:
    """One recipe."""

    def ours(data: Operands) -> Runner:
        call = task.ours(data)
        call()
        return Runner(call)

    def check(data: Operands) -> Callable[[Any], str]:
        usual = task.usual(data)

        def checked(found: Any) -> str:
            stored = getattr(found, "ndim", 0) == 2 and not isinstance(found, np.ndarray)
            expected = sp.csr_array(usual) if stored and isinstance(usual, np.ndarray) else usual
            return compare(dense_of(found), dense_of(expected), NEAR)

        return checked

    return Case(
        label=task.label,
        data=partial(task.data, size),
        ours=ours,
        peers=(Contestant(task.library, lambda data: Runner(partial(task.usual, data)), "1 thread"),),
        check=check,
        threads=1,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


def dense_of(found: Any) -> Array:
    """A result as numbers that can be compared: large sparse ones by their entries, summed by a random vector."""
    if getattr(found, "ndim", 0) == 2 and not isinstance(found, np.ndarray):
        matrix = found if sp.issparse(found) else found.to_scipy()
        return np.asarray(matrix @ np.random.default_rng(1).random(matrix.shape[1]))
    return np.atleast_1d(dense(found)).astype(float)


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)

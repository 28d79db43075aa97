"""Programs over blocks on a cluster of one machine, two workers of one thread, beside dask.array with other chunks.

Operands are persisted on the workers in as many blocks as each label says, the result is left there. `spfgen-one` is
the same with one worker, so its ratio is the speedup that the second worker brings; `spfgen-threads` is the kernel of
one process with two threads, and no cluster at all. `dask-scipy` and `dask-sparse` are dask.array with chunks of scipy
and of PyData/Sparse, on the same workers and in the same blocks. Of each case the facts say the bytes that went from
worker to worker, by the log of the workers' transfers, beside those that `explain` expected. The case `tasks` has
blocks without work: its time is that of tasks, ours beside those of dask that do nothing. The harness calls all samples
disturbed, because workers and scheduler are other processes.

`python -m experiments.cluster.simulate` goes on to 1,000 workers without data.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from experiments.data.made import power_law, stencil, vector
from experiments.data.matrices import factor
from experiments.harness.case import Case, Contestant, Missing, Runner
from experiments.harness.check import compare
from experiments.peers.spfgen import module_or_missing

PROGRAMS = {
    "spmv": "y[i] = A[i,j]*x[j]",
    "spmm": "C[i,r] = A[i,j]*B[j,r]",
    "spgemm": "C[i,j] = A[i,k]*A2[k,j]",
    "sddmm": "C[i,j] = A[i,j]*U[i,r]*V[j,r]",
    "mttkrp": "M[i,r] = T[i,j,k]*B[j,r]*C[k,r]",
    "pagerank": "y[i] = A[i,j]*x[j]/d[j]",
}
SPARSE = ("spgemm", "sddmm")
"""Programs whose results are in csr."""
COLUMNS, BLOCKS = 16, 8


@dataclass(frozen=True)
class Data:
    """The operands of a program, whole: the first one is cut by rows so that blocks weigh the same."""

    program: str
    operands: Mapping[str, Any]
    blocks: int = BLOCKS

    @property
    def text(self) -> str:
        return PROGRAMS[self.program]

    @property
    def out(self) -> str | None:
        return "csr" if self.program in SPARSE else None


def cases(quick: bool, threads: int) -> list[Case]:
    """Each program on R-MAT and on a stencil; MTTKRP on random tensors of these sizes; then tasks alone."""
    scale, side, step = (13, 150, 40_000) if quick else (18, 1000, 3_000_000)
    makers: dict[str, Callable[[], Any]] = {
        f"R-MAT 2^{scale}": partial(power_law, scale, 16),
        f"stencil {side}x{side}": partial(stencil, side),
    }
    found = []
    for name, maker in makers.items():
        for program in PROGRAMS:
            if program != "mttkrp":
                found.append(_case(f"{program}, {name}", partial(matrices, program, maker)))
    found.append(_case(f"mttkrp, random {step} entries", partial(tensors, step)))
    found.append(_tasks())
    return found


def _case(label: str, data: Callable[[], Data]) -> Case:
    own = [
        Contestant("spfgen-one", partial(prepare_ours, workers=1)),
        Contestant("spfgen-threads", prepare_threads),
        Contestant("dask-scipy", partial(prepare_dask, kind="scipy")),
        Contestant("dask-sparse", partial(prepare_dask, kind="sparse")),
    ]
    return Case(f"{label}, {BLOCKS} blocks", data, partial(prepare_ours, workers=2), tuple(own), check, facts=facts)


def matrices(program: str, maker: Callable[[], Any]) -> Data:
    """A square matrix and what the program has beside it."""
    matrix = maker().tocsr()
    n = matrix.shape[0]
    beside: dict[str, Any] = {
        "spmv": {"x": vector(n)},
        "spmm": {"B": factor(n, COLUMNS)},
        "spgemm": {"A2": matrix},
        "sddmm": {"U": factor(n, COLUMNS), "V": factor(n, COLUMNS, seed=11)},
        "pagerank": {"x": vector(n), "d": np.maximum(abs(matrix).sum(0), 1.0)},
    }[program]
    return Data(program, {"A": matrix, **beside})


def tensors(count: int) -> Data:
    """Entries of a tensor of three dimensions, as coordinates."""
    rng = np.random.default_rng(5)
    shape = (count // 20, 500, 400)
    flat = np.unique(rng.integers(0, np.prod(shape), count))
    tensor = (rng.random(len(flat)), np.unravel_index(flat, shape))
    return Data("mttkrp", {"T": (*tensor, shape), "B": factor(500, COLUMNS), "C": factor(400, COLUMNS, seed=11)})


# --- who takes part ------------------------------------------------------------------------------------


@cache
def client_of(workers: int, moves: bool = True) -> Any:
    """A cluster that ends with this process; `moves`: whether its scheduler moves work to those that have less."""
    try:
        dask, distributed = importlib.import_module("dask"), importlib.import_module("distributed")
    except ImportError as error:
        raise Missing("pip install 'spfgen[cluster]'") from error
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with dask.config.set({"distributed.scheduler.work-stealing": moves}):
        return distributed.Client(distributed.LocalCluster(**options), set_as_default=False)


def _whole(data: Data) -> dict[str, Any]:
    """The operands as one process takes them."""
    spfgen = module_or_missing("spfgen")
    found = dict(data.operands)
    if data.program == "mttkrp":
        values, places, shape = found["T"]
        found["T"] = spfgen.pack((places, values), "csf3", shape=shape)
    return found


def program_of(data: Data) -> Any:
    """The program over blocks, not computed, of operands that lie on the workers of the client that is chosen."""
    spfgen = module_or_missing("spfgen")
    first, *others = _whole(data).items()
    name, value = first
    layout = "csf3" if data.program == "mttkrp" else "csr"
    operands = {name: spfgen.blocks(value, balance={0: data.blocks}, layout=layout).persist(), **dict(others)}
    if data.program == "spgemm":  # the second one is cut where the first one is
        bounds = operands[name].sizes[0]
        operands["A2"] = spfgen.blocks(operands["A2"], {0: bounds}, layout="csr").persist()
    for other, matrix in operands.items():
        if isinstance(matrix, np.ndarray) and data.program in ("spmv", "pagerank", "spmm", "sddmm"):
            operands[other] = spfgen.blocks(matrix, {0: operands[name].sizes[0]}).persist()
    return spfgen.evaluate(data.text, **operands, out=data.out)


def prepare_ours(data: Data, workers: int) -> Runner:
    """The same tasks on one worker or two, the result stays there."""
    distributed = importlib.import_module("distributed")
    client = client_of(workers)
    with client.as_current():
        made = program_of(data)

    def call() -> Any:
        with client.as_current():
            found = made.persist()
            distributed.wait(found)
        return found

    return Runner(lambda: _ended(call), lambda: _gathered(client, call), (made,))


def _ended(call: Callable[[], Any]) -> None:
    """What is computed goes at once: the next call computes it again."""
    call()


def _gathered(client: Any, call: Callable[[], Any]) -> Any:
    with client.as_current():
        return _plain(call().compute())


def _plain(found: Any) -> Any:
    return found.to_scipy().tocsr() if hasattr(found, "to_scipy") else np.asarray(found)


def prepare_threads(data: Data) -> Runner:
    """The kernel of one process, two threads."""
    spfgen = module_or_missing("spfgen")
    operands = _whole(data)
    operands |= {n: spfgen.pack(v, "csr") for n, v in operands.items() if hasattr(v, "tocsr")}
    held: list[Any] = []

    def call() -> None:
        held[:] = [spfgen.evaluate(data.text, **operands, out=data.out, threads=2)]

    return Runner(call, lambda: _plain(held[0]))


def prepare_dask(data: Data, kind: str) -> Runner:
    """dask.array, with the same rows in each chunk."""
    if data.program in ("mttkrp", "sddmm"):
        raise Missing("neither scipy's nor PyData's chunks have an einsum that keeps them sparse in dask.array")
    da, distributed = (importlib.import_module(n) for n in ("dask.array", "distributed"))
    client, matrix = client_of(2), data.operands["A"]
    with client.as_current():
        made = importlib.import_module("spfgen").blocks(matrix, balance={0: data.blocks}).sizes[0]
        ends = np.cumsum(made)
        rows = [matrix[e - s : e] for s, e in zip(made, ends, strict=True)]
        chunks = [_chunk(r, kind, data.program) for r in rows]
        a = da.concatenate([da.from_array(c, chunks=c.shape, asarray=False) for c in chunks]).persist()
        if data.program == "spgemm":
            other = da.concatenate([da.from_array(c, chunks=c.shape, asarray=False) for c in chunks]).persist()
        else:
            dense = {n: da.from_array(v, chunks=(made, *v.shape[1:])) for n, v in data.operands.items() if n != "A"}
            dense = {n: v.persist() for n, v in dense.items()}
            other = dense["x"] / dense["d"] if data.program == "pagerank" else next(iter(dense.values()))
        if kind == "scipy" and other.ndim == 1:
            other = other[:, None]  # dask multiplies matrices of scipy by matrices alone
        product = da.dot(a, other) if kind == "scipy" else a @ other  # numpy.matmul takes no matrices of scipy

    def call() -> Any:
        with client.as_current():
            found = product.persist()
            distributed.wait(found)
        return found

    return Runner(lambda: _ended(call), lambda: _dask_gathered(client, call), (product,))


def _dask_gathered(client: Any, call: Callable[[], Any]) -> Any:
    with client.as_current():
        found = call().compute()
    if hasattr(found, "to_scipy_sparse"):
        found = found.to_scipy_sparse()
    if hasattr(found, "tocsr"):
        return found.tocsr()
    return np.ravel(found) if found.shape[1:] == (1,) else np.asarray(found)


def _chunk(rows: Any, kind: str, program: str) -> Any:
    if kind == "scipy":
        return csr_matrix(rows)  # dask knows no csr_array
    try:
        sparse = importlib.import_module("sparse")
        if program == "spgemm":  # dask asks for `squeeze`, which GCXS does not have
            return sparse.COO.from_scipy_sparse(rows)
        return sparse.GCXS.from_scipy_sparse(rows)
    except ImportError as error:
        raise Missing("pip install sparse") from error


# --- tasks alone ---------------------------------------------------------------------------------------


def _tasks() -> Case:
    """A vector in 200 blocks of one number, each one added to itself."""
    count = 200
    return Case(
        f"tasks, {count} blocks of one number",
        lambda: np.ones(count),
        partial(prepare_tasks, ours=True),
        (Contestant("dask-tasks", partial(prepare_tasks, ours=False)),),
        lambda data: lambda found: compare(found, data + data, 0.0),
        facts=lambda data: {"tasks": count},
    )


def prepare_tasks(data: Any, ours: bool) -> Runner:
    """A program over blocks; or dask's array, whose tasks add numpy arrays."""
    distributed, client = importlib.import_module("distributed"), client_of(2)
    with client.as_current():
        if ours:
            spfgen = module_or_missing("spfgen")
            made = spfgen.evaluate("y[i] = x[i] + x[i]", x=spfgen.blocks(data, {0: 1}).persist())
        else:
            x = importlib.import_module("dask.array").from_array(data, chunks=1).persist()
            made = x.map_blocks(lambda a: a + a)

    def call() -> Any:
        with client.as_current():
            found = made.persist()
            distributed.wait(found)
        return found

    return Runner(lambda: _ended(call), lambda: _dask_gathered(client, call), (made,))


# --- what is right, and what is sent -------------------------------------------------------------------


def check(data: Data) -> Callable[[Any], str]:
    """scipy and numpy, whole; 1e-12 of the largest value is let pass, because sums are in another order."""
    expected = _expected(data)
    if hasattr(expected, "tocsr"):
        scale = abs(expected).max()
        return lambda found: "" if abs(found - expected).max() <= 1e-12 * scale else "entries differ"
    return lambda found: compare(found, expected, 1e-12 * abs(expected).max())


def _expected(data: Data) -> Any:
    o = data.operands
    if data.program == "mttkrp":
        values, (i, j, k), shape = o["T"]
        terms = values[:, None] * o["B"][j] * o["C"][k]
        return np.stack([np.bincount(i, terms[:, r], shape[0]) for r in range(terms.shape[1])], axis=1)
    matrix = o["A"]
    if data.program == "sddmm":
        pattern = matrix.tocoo()
        pattern.data = pattern.data * np.einsum("nr,nr->n", o["U"][pattern.row], o["V"][pattern.col])
        return pattern.tocsr()
    return matrix @ {"spmv": lambda: o["x"], "spmm": lambda: o["B"], "spgemm": lambda: o["A2"],
                     "pagerank": lambda: o["x"] / o["d"]}[data.program]()  # fmt: skip


def facts(data: Data) -> Mapping[str, int]:
    """Bytes between two workers in one computation, and what was expected of them, which is without what a scheduler
    moves to others because of their load."""
    distributed, client = importlib.import_module("distributed"), client_of(2, moves=False)
    with client.as_current():
        made = program_of(data)
        before = sum(client.run(received).values())
        found = made.persist()
        distributed.wait(found)
        sent = sum(client.run(received).values()) - before
    said = re.search(r"([\d,]+) bytes sent", made.explain())
    first = next(iter(data.operands.values()))
    entries = len(first[0]) if isinstance(first, tuple) else first.nnz
    return {"entries": entries, "bytes_sent": sent, "bytes_expected": int(said[1].replace(",", "")) if said else 0}


def received(dask_worker: Any) -> int:
    """The bytes that a worker has had from others."""
    return int(sum(one["total"] for one in dask_worker.transfer_incoming_log))

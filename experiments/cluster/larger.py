"""A product of two matrices that are larger than memory: `python -m experiments.cluster.larger [--gigabytes 10]`.

Two workers of one thread have a limit of memory each. Blocks of two band matrices of that size are made by a function
of their bounds and written to Zarr; the blocks of the product are computed from those files and written, and none is
ever gathered. The condition of the program says what the matrices are, so that a block of rows of the product needs
only the rows of B that its band meets. Then C is compared with A and B, from their files: C x with A (B x) for a vector
x, which are equal to the last bit; and rows of C with what numpy computes from the formula of the entries.

Printed are the bytes of the files, the seconds of each step, and the most memory that each worker held, beside its
limit.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from experiments.harness.log import say, show

REACH = 4
"""Entries of a row lie so far from the diagonal, at most."""
PER_ROW = 2 * REACH + 1
ROW = 12 * PER_ROW + 4
"""Bytes of a row in csr."""
TEXT = f"C[i,j] = sum(k: A[i,k]*B[k,j] where abs(i - k) <= {REACH})"
GB = 1e9


def value(seed: int, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
    """An entry of 16 bits, so that products and sums are exact, which look random: files do not shrink to nothing."""
    mixed = (rows * 0x9E3779B1 + columns * 0x85EBCA77 + seed) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    return ((mixed >> 12) % 2**16 + 1) / 2**8


class Made:
    """The entries of a block of rows, as dask asks for them."""

    def __init__(self, seed: int, extent: int) -> None:
        self.seed, self.extent = seed, extent

    def __call__(self, box: tuple[tuple[int, int], ...]) -> csr_array:
        rows = np.arange(*box[0])
        low = np.clip(rows - REACH, 0, self.extent)
        ends = np.concatenate([[0], np.cumsum(np.minimum(rows + REACH + 1, self.extent) - low)])
        columns = (np.arange(ends[-1]) + np.repeat(low - ends[:-1], np.diff(ends))).astype(np.int32)
        values = value(self.seed, np.repeat(rows, np.diff(ends)), columns.astype(np.int64))
        return csr_array((values, columns, ends.astype(np.int32)), shape=(len(rows), self.extent))


def row(number: int, extent: int) -> dict[int, float]:
    """A row of the product, by numpy."""
    found: dict[int, float] = {}
    for k in range(max(0, number - REACH), min(extent, number + REACH + 1)):
        columns = np.arange(max(0, k - REACH), min(extent, k + REACH + 1))
        first = value(0, np.array([number]), np.array([k]))[0]
        for j, second in zip(columns.tolist(), value(5, np.array([k]), columns).tolist(), strict=True):
            found[j] = found.get(j, 0.0) + first * second
    return found


def check(path: Path, extent: int) -> int:
    """Compare some rows of each tenth of the blocks of the result with numpy; their number. Raises ValueError."""
    spfgen = importlib.import_module("spfgen")
    made, rng, seen = spfgen.read_blocks(path), np.random.default_rng(0), 0
    graph = dict(made.graph)
    for place in range(0, made.blocks[0], max(1, made.blocks[0] // 10)):
        low, high = made.bounds[0][place : place + 2]
        block = _block(graph, (made.name, place, 0)).to_scipy().tocsr()
        for at in {low, high - 1, *rng.integers(low, high, 20).tolist()}:
            own = block[[at - low]].tocoo()
            if dict(zip(own.col.tolist(), own.data.tolist(), strict=True)) != row(at, extent):
                raise ValueError(f"row {at} of the product is wrong")
            seen += 1
    return seen


def _block(graph: dict[Any, Any], key: Any) -> Any:
    return importlib.import_module("dask").get(graph, key)


def size(path: Path) -> float:
    """Bytes of all files of a folder."""
    return float(sum(f.stat().st_size for f in path.rglob("*") if f.is_file()))


def peak() -> int:
    """The most memory that a worker has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def vector(box: tuple[tuple[int, int], ...]) -> NDArray[np.float64]:
    """A block of the vector of the comparison."""
    return np.random.default_rng(box[0][0]).integers(1, 9, box[0][1] - box[0][0]).astype(float)


def distance(folder: Path, rows: int) -> float:
    """The largest difference between C x and A (B x)."""
    spfgen = importlib.import_module("spfgen")
    a, b, c = (spfgen.read_blocks(folder / name) for name in "ABC")
    x = spfgen.blocks(vector, {0: rows}, shape=(a.shape[0],))
    text = "y[i] = sum(j: M[i,j]*v[j] where abs(i - j) <= {})"
    z = spfgen.evaluate(text.format(REACH), M=b, v=x)
    first = spfgen.evaluate(text.format(REACH), M=a, v=z)
    second = spfgen.evaluate(text.format(2 * REACH), M=c, v=x)
    return float(spfgen.evaluate("d = max(i: abs(y[i] - z[i]))", y=first, z=second).compute())


def product(folder: Path, gigabytes: float, limit: float, blocks: int) -> str:
    """Make, multiply, write, check; a table of what it took."""
    spfgen, distributed = importlib.import_module("spfgen"), importlib.import_module("distributed")
    extent = int(gigabytes * GB / ROW)
    rows, took = -(-extent // blocks), {}
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": int(limit * GB), "dashboard_address": None}
    with (
        distributed.LocalCluster(**options, local_directory=str(folder)) as cluster,
        distributed.Client(cluster) as client,
    ):
        for name, seed in (("A", 0), ("B", 5)):
            start = time.perf_counter()
            made = spfgen.blocks(Made(seed, extent), {"i": rows}, shape=(extent, extent), layout="csr")
            made.to_zarr(folder / name)
            took[f"{name} made and written"] = time.perf_counter() - start
            say(f"{name}: {size(folder / name) / GB:.1f} GB in {took[f'{name} made and written']:.0f} s")
        first, second = (spfgen.read_blocks(folder / name) for name in "AB")
        start = time.perf_counter()
        found = spfgen.evaluate(TEXT, A=first, B=second, out="csr")
        say(found.explain())
        found.to_zarr(folder / "C")
        took["A times B computed and written"] = time.perf_counter() - start
        start = time.perf_counter()
        far = distance(folder, rows)
        took["C x and A (B x)"] = time.perf_counter() - start
        peaks = sorted(client.run(peak).values())
    seen = check(folder / "C", extent)
    memory, of_result = extent * ROW / GB, extent * (12 * (4 * REACH + 1) + 4) / GB
    lines = [f"{extent:,} rows; A and B take {memory:.1f} GB of memory each, C {of_result:.1f} GB",
             *(f"{what}: {seconds:.0f} s" for what, seconds in took.items()),
             f"files: {', '.join(f'{n} {size(folder / n) / GB:.1f} GB' for n in 'ABC')}",
             f"most memory of a worker: {', '.join(f'{p / GB:.2f} GB' for p in peaks)} under a limit of {limit:.1f} GB",
             f"the largest difference between C x and A (B x): {far:g}",
             f"{seen} rows compared with numpy: equal"]  # fmt: skip
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run it in a folder of its own, which goes in the end."""
    parser = argparse.ArgumentParser(prog="python -m experiments.cluster.larger", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10.0, help="of each matrix (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=4.0, help="gigabytes of a worker (default: %(default)s)")
    parser.add_argument("--blocks", type=int, default=32, help="of each matrix (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where files go for a while (default: that of temporary ones)")
    chosen = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="spfgen-larger-", dir=chosen.folder))
    try:
        show(product(folder, chosen.gigabytes, chosen.limit, chosen.blocks))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

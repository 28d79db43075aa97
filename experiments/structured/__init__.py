"""Data with structure: y = A x by layout, images, similarity of images, triangles, SDDMM and fused chains.

What Ahrens et al. 2024 measure of Finch, each beside who does it elsewhere: SciPy and numpy (which work on csr and
dense arrays, with one thread), OpenCV, DuckDB, PyData/Sparse and finch-tensor-lite. BFS and Bellman-Ford are in
`semiring`.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments.harness import targets
from experiments.harness.case import Case
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.structured import formats, fused, pictures
from experiments.structured.task import case

TASKS = (*formats.TASKS, *pictures.TASKS, *fused.TASKS)
TARGETS = (
    Target("scipy, SpMV", ("scipy",), part="SpMV"),
    Target("our csr, SpMV", ("ours-csr",), part="SpMV"),
    Target("numpy, runs", ("numpy",), part="runs"),
    Target("OpenCV, erosion", ("opencv",), 19.5, part="erosion"),
    Target("OpenCV, histogram", ("opencv",), 20.0, part="histogram"),
    Target("OpenCV, other images", ("opencv",), part="image"),
    Target("numpy, similarity", ("numpy",), part="similarity"),
    Target("DuckDB, fused", ("duckdb",), 1.2, part="fused", each=True),
    Target("PyData/Sparse, fused", ("sparse",), part="fused"),
    Target("finch-tensor-lite, fused", ("finch",), part="fused"),
)


def cases(quick: bool, threads: int) -> list[Case]:
    """Each task, with one thread and with all."""
    return [case(task, quick, count) for count in sorted({1, threads}) for task in TASKS]


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)

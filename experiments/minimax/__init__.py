"""The value of a game: the greatest of the least of the greatest ... over a sparse tree, as in Henry et al. 2021.

A tensor of order 3, 5 or 7 holds the leaves that were looked at; those that were pruned count as 0. ours is the nested
reductions as they are written, `ours-steps` says what is done level by level: the best of the nodes that are there, how
many they are, and 0 where some are missing. PyData/Sparse has one thread; numpy takes part where the tensor fits into
memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.pace import Pace
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers import pydata
from experiments.peers.kernels import measured, returning, same
from experiments.peers.spfgen import module_or_missing

Array = np.ndarray[Any, Any]

CALL_SECONDS, TOTAL_SECONDS = 20.0, 5.0
FIRST, LATER = 20, 43
"""Moves of chess: 20 at first for each player, then 43 on average."""
INDICES = "ijklmno"
MOST_DENSE = 100_000
TARGETS = (
    Target("PyData/Sparse", ("sparse",), 20.0),
    Target("numpy, dense arrays", ("numpy",)),
)


@dataclass(frozen=True)
class Tree:
    """Leaves by coordinates, sorted, each once."""

    shape: tuple[int, ...]
    places: Array
    values: Array

    @property
    def order(self) -> int:
        """The number of moves."""
        return len(self.shape)

    @property
    def sizes(self) -> dict[str, int]:
        """How many moves there are at each level, by the names in the steps."""
        return {f"n{depth}": size for depth, size in enumerate(self.shape)}


def tree(order: int, leaves: int) -> Tree:
    """Leaves at random places; small whole numbers."""
    random = np.random.default_rng(80)
    shape = (FIRST, FIRST, *(LATER,) * (order - 2))
    places = np.unique(random.integers(0, math.prod(shape), leaves))
    values = random.integers(-50, 50, places.size).astype(float)
    return Tree(shape, np.stack(np.unravel_index(places, shape)), values)


def player(depth: int) -> str:
    """Whose turn it is: the first player wants much."""
    return "min" if depth % 2 else "max"


def nested(order: int) -> str:
    """The reductions in each other."""
    text = f"A[{','.join(INDICES[:order])}]"
    for depth in reversed(range(order)):
        text = f"{player(depth)}({INDICES[depth]}: {text})"
    return f"opt = {text}"


def steps(order: int) -> str:
    """Level by level from the leaves: best values and counts of what is there, in workspaces."""
    lines = [f"size n{depth}" for depth in range(order)]
    for depth in range(1, order):
        worst = "inf" if depth % 2 else "-inf"
        lines.append(f"local tensor m{depth} : coo fill {worst}  local tensor c{depth} : coo<int64>")
    for depth in reversed(range(order)):
        node, child = ",".join(INDICES[:depth]), ",".join(INDICES[: depth + 1])
        best, count = (f"m{depth}[{node}]", f"c{depth}[{node}]") if depth else ("m0", "c0")
        if not depth:
            lines.append("let m0 = -inf  let c0 = 0")
        if depth == order - 1:
            there, found = f"A[{child}] != 0", f"let v = A[{child}]"
        else:
            below = depth + 1
            there = f"c{below}[{child}] != 0"
            found = f"let v = m{below}[{child}]  if c{below}[{child}] < n{below} {{ v {player(below)}= 0 }}"
        loops = f"for {child} {{ if {there} {{ {found}  {best} {player(depth)}= v  {count} += 1 }} }}"
        lines.append(loops)
    return "\n".join([*lines, "if c0 < n0 { m0 max= 0 }", "opt = m0"])


def cases(quick: bool, threads: int) -> list[Case]:
    """Each order with one thread and with all."""
    sizes = {3: 2_000, 5: 5_000, 7: 5_000} if quick else {3: 8_000, 5: 500_000, 7: 500_000}
    return [case(order, leaves, count) for count in sorted({1, threads}) for order, leaves in sizes.items()]


def case(order: int, leaves: int, threads: int) -> Case:
    """One tree."""
    shape = (FIRST, FIRST, *(LATER,) * (order - 2))
    peers = [Contestant("sparse", prepare_sparse, "1 thread")]
    if math.prod(shape) <= MOST_DENSE:
        peers.append(Contestant("numpy", prepare_numpy, "1 thread"))
    peers.insert(0, Contestant("ours-steps", partial(prepare_ours, text=steps(order), threads=threads)))
    return Case(
        label=f"order {order}, {leaves:,} leaves, {threads} thread{'s' if threads > 1 else ''}",
        data=partial(tree, order, leaves),
        ours=partial(prepare_ours, text=nested(order), threads=threads),
        peers=tuple(peers),
        check=lambda data: same(np.asarray(value(data))),
        facts=lambda data: {"leaves": data.values.size},
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


def prepare_ours(data: Tree, text: str, threads: int) -> Runner:
    """spfgen's kernel; the leaves in fibres."""
    held = module_or_missing("spfgen").pack((tuple(data.places), data.values), "csf", shape=data.shape)
    return returning(text, {"A": "csf"}, {"A": held}, threads, data.sizes if text.startswith("size") else None)


def prepare_sparse(data: Tree) -> Runner:
    """PyData/Sparse, level by level."""
    leaves = pydata.module().COO(data.places, data.values, shape=data.shape)

    def call() -> Any:
        found = leaves
        for depth in reversed(range(data.order)):
            found = getattr(found, player(depth))(axis=depth)
        return found

    return measured(call)


def prepare_numpy(data: Tree) -> Runner:
    """numpy, level by level."""
    leaves = np.zeros(data.shape)
    leaves[tuple(data.places)] = data.values

    def call() -> Any:
        found = leaves
        for depth in reversed(range(data.order)):
            found = getattr(found, player(depth))(axis=depth)
        return found

    return measured(call)


def value(data: Tree) -> float:
    """Level by level, by runs of leaves with one parent."""
    keys, values = np.ravel_multi_index(tuple(data.places), data.shape), data.values
    for depth in reversed(range(data.order)):
        keys, starts, counts = np.unique(keys // data.shape[depth], return_index=True, return_counts=True)
        best = np.minimum if depth % 2 else np.maximum
        values = best.reduceat(values, starts)
        values = np.where(counts < data.shape[depth], best(values, 0.0), values)
    return float(values[0])


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)

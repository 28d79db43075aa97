"""Every kernel in every combination of layouts equals dense numpy, on random and degenerate data.

Kernels with up to LARGE combinations run in all of them; the others (3375 for SDDMM alone) in a sample that still
pairs every layout with every other in every two places. `-m exhaustive` runs them all. Which algorithm finds is left
to the compiler here; test_forced.py takes each in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tests.differential.kernels import CASES, DENSITIES, FEW, SHAPES, Case, choices, layouts_of_rank
from tests.differential.support import Batch, Program, batches, operand, zeros_like

LARGE = 300
"""More combinations than this are sampled."""
UNOPTIMISED = ("-O0",)
"""The kernels are compiled once and run fifteen times on a handful of numbers."""


def pairwise_cover(lists: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Few combinations in which every two values of different lists meet (greedy)."""
    places = list(itertools.combinations(range(len(lists)), 2))
    missing = {(a, b, x, y) for a, b in places for x in lists[a] for y in lists[b]}
    rng = np.random.default_rng(0)
    cover = []
    while missing:
        best: tuple[str, ...] = ()
        best_new: set[tuple[int, int, str, str]] = set()
        a, b, x, y = min(missing)
        for _ in range(30):
            row = [str(rng.choice(list(values))) for values in lists]
            row[a], row[b] = x, y
            new = {(p, q, row[p], row[q]) for p, q in places} & missing
            if len(new) > len(best_new) or not best:
                best, best_new = tuple(row), new
        cover.append(best)
        missing -= best_new
    return cover


def programs(case: Case, everything: bool) -> list[Program]:
    """The case with a dense result, in all or in some combinations of its operands' layouts."""
    lists = choices(case, case.operands, everything)
    count = int(np.prod([len(v) for v in lists.values()]))
    rows: list[tuple[str, ...]]
    if everything or count <= LARGE:
        rows = list(itertools.product(*lists.values()))
    else:
        rows = pairwise_cover(list(lists.values()))
    output = {case.output: "dense"} if case.subscripts[case.output] else {}
    return [Program(case.text, {**output, **dict(zip(lists, row, strict=True))}) for row in rows]


def check(case: Case, batch: Batch) -> Iterator[str]:
    """Run every kernel of a batch on all shapes and densities; yields what went wrong."""
    for number, program in enumerate(batch.programs):
        for (variant, shape), density in itertools.product(enumerate(SHAPES), DENSITIES):
            made = batch.generated[number]
            tensors = {}
            dense = []
            for place, name in enumerate(case.operands):
                extents = tuple(shape[i] for i in case.subscripts[name])
                tensor, array = operand(made.program.tensor(name).layout, extents, density, 10 * variant + place)
                tensors[name] = tensor
                dense.append(array)
            expected = case.meaning(*dense)
            tensors[case.output] = zeros_like(made, case.output, tensors, expected.shape)
            batch.run(number, tensors)
            found = tensors[case.output].to_numpy()
            if not np.array_equal(found, expected):
                yield f"{program} shape {shape} density {density}:\n{found}\nexpected\n{expected}"


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_combinations(case: Case) -> None:
    for batch in batches(programs(case, everything=False), flags=UNOPTIMISED):
        problems = list(itertools.islice(check(case, batch), 3))
        assert not problems, "\n".join(problems)


FEW_WITH = {1: ("dense", "sv", "rle"), 2: ("dense", "csr", "ell")}
"""What layouts that are not combined with all others meet, beside themselves."""


@pytest.mark.parametrize("name", sorted(FEW))
def test_few_combinations(name: str) -> None:
    """In the first place of each kernel that has one for it; what else occurs is dense, sparse and of its own kind."""
    for case in CASES:
        first, *others = case.operands
        rank = len(case.subscripts[first])
        if name not in layouts_of_rank(rank) or len(others) > 1:
            continue
        output = {case.output: "dense"} if case.subscripts[case.output] else {}
        ranks = [len(case.subscripts[n]) for n in others]
        rows = itertools.product(*((*FEW_WITH[r], name) if r == rank else FEW_WITH[r] for r in ranks))
        made = [Program(case.text, {**output, first: name, **dict(zip(others, row, strict=True))}) for row in rows]
        for batch in batches(made, flags=UNOPTIMISED):
            problems = list(itertools.islice(check(case, batch), 3))
            assert not problems, "\n".join(problems)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_all_combinations(case: Case) -> None:
    for batch in batches(programs(case, everything=True), flags=UNOPTIMISED):
        problems = list(itertools.islice(check(case, batch), 3))
        assert not problems, "\n".join(problems)

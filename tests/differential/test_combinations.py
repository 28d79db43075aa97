"""Every kernel in every combination of layouts equals dense numpy, on random and degenerate data.

Kernels with up to LARGE combinations run in all of them; the others (twenty thousand for SDDMM alone) in a sample that
has each layout in each place, of which one in SHARE is taken, another one of each kernel: each layout is met in several
kernels. `-m exhaustive` has each two layouts of two operands meet. Which algorithm finds is left
to the compiler here; test_forced.py takes each in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from tests.differential.kernels import CASES, DENSITIES, SHAPES, Case, choices, paired, sampled
from tests.differential.support import Batch, Program, batches, operand, zeros_like

LARGE = 50
"""More combinations than this are sampled."""
SHARE = 4


def programs(case: Case, pairs: bool) -> list[Program]:
    """The case with a dense result, in all or in some combinations of its operands' layouts."""
    lists = choices(case, case.operands)
    count = int(np.prod([len(v) for v in lists.values()]))
    rows: list[tuple[str, ...]]
    if count <= LARGE:
        rows = list(itertools.product(*lists.values()))
    else:
        rows = paired(list(lists.values())) if pairs else sampled(list(lists.values()), 1)
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


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_combinations(case: Case) -> None:
    for batch in batches(programs(case, pairs=False)[CASES.index(case) % SHARE :: SHARE]):
        problems = list(itertools.islice(check(case, batch), 3))
        assert not problems, "\n".join(problems)


@pytest.mark.exhaustive
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_all_pairs(case: Case) -> None:
    for batch in batches(programs(case, pairs=True)):
        problems = list(itertools.islice(check(case, batch), 3))
        assert not problems, "\n".join(problems)


@pytest.mark.parametrize("lengths", [(3,), (4, 2), (2, 5, 3), (3, 3, 3)])
def test_each_two_values_meet(lengths: tuple[int, ...]) -> None:
    lists = [[f"{name}{k}" for k in range(n)] for name, n in zip("abc", lengths, strict=False)]
    rows = paired(lists)
    assert set(rows) <= set(itertools.product(*lists))
    assert {row[0] for row in rows} == set(lists[0])
    for a, b in itertools.combinations(range(len(lists)), 2):
        assert {(row[a], row[b]) for row in rows} == set(itertools.product(lists[a], lists[b]))

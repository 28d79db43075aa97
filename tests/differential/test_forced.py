"""Every algorithm that is proved right is right: each in turn is forced wherever it is provable, in parallel.

By default each layout meets all algorithms in some kernel of several operands, and in all of one; `-m exhaustive` has
each two layouts of two operands meet in every kernel. Layouts that spfgen does not have, with data that
packing never makes, are in tests/fuzz/test_forced.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from spfgen.errors import SpfgenError
from spfgen.pipeline import Generated
from tests.differential.kernels import CASES, DENSITIES, SHAPES, Array, Case, choices, einsum, paired, sampled
from tests.differential.support import Batch, Program, each_forced, operand, provable, zeros_like

THREADS = 3
MOST = {1: 50, 2: 8, 3: 4}
"""As many combinations are tried of kernels with so many operands, others in each kernel; `-m exhaustive` tries each
layout in each place."""
OPTIMISED = ("spmv", "product")
"""Cases whose kernels are optimised: compiling them takes twice the time."""
LARGER = {"i": 61, "j": 47, "k": 23, "l": 5}
"""Enough for threads to meet."""


def shifted(x: Array, y: Array) -> Array:
    return np.asarray(x[:-1] @ y[1:])


def column(a: Array, x: Array) -> Array:
    return np.asarray(a[:, 0] * x) if a.shape[1] else np.zeros(a.shape[0])


MORE = (
    Case("shifted", "s = x[i]*y[i + 1]", {"s": "", "x": "i", "y": "i"}, shifted),
    Case("shifted_back", "s = x[i]*y[i - 1]", {"s": "", "x": "i", "y": "i"}, lambda x, y: shifted(y, x)),
    Case("column", "y[i] = A[i, 0]*x[i]", {"y": "i", "A": "ij", "x": "i"}, column),
    Case("rows", "y[i] = A[i, j]*B[i, j]", {"y": "i", "A": "ij", "B": "ij"}, einsum("ij,ij->i")),
    Case("scaled_rows", "C[i, j] = x[i]*A[i, j]*B[i, j]", {"C": "ij", "x": "i", "A": "ij", "B": "ij"},
         einsum("i,ij,ij->ij")),
    Case("transposed", "C[i, j] = A[i, j]*B[j, i]", {"C": "ij", "A": "ij", "B": "ji"}, einsum("ij,ji->ij")),
)  # fmt: skip
"""Keys outside of the range, constant subscripts, rows that are summed, several finds in one row."""
EVERY_CASE = (*CASES, *MORE)


def forced_batches(case: Case, pairs: bool) -> Iterator[Batch]:
    """The case in combinations of layouts, with each provable algorithm forced."""
    lists = choices(case, case.operands)
    every = sampled(list(lists.values()), 1)
    before = sum(MOST[len(c.operands)] for c in EVERY_CASE[: EVERY_CASE.index(case)])
    few = [every[(before + k) % len(every)] for k in range(min(MOST[len(lists)], len(every)))]
    rows = paired(list(lists.values())) if pairs else few
    output = {case.output: "dense"} if case.subscripts[case.output] else {}
    flags = ("-O1" if case.name in OPTIMISED or pairs else "-O0",)
    todo: dict[Program, Generated] = {}
    for number, row in enumerate(rows):
        program = Program(case.text, {**output, **dict(zip(lists, row, strict=True))})
        todo |= each_forced(program, f"kernel_{number}")
        if len(todo) > 60:
            yield Batch(list(todo), flags, eager=True, generated=list(todo.values()))
            todo = {}
    if todo:
        yield Batch(list(todo), flags, eager=True, generated=list(todo.values()))


def check(case: Case, batch: Batch) -> Iterator[str]:
    """Run every kernel of a batch on all shapes and densities; yields what went wrong."""
    data = [(shape, density, 10 * n) for n, shape in enumerate(SHAPES) for density in DENSITIES]
    data.append((LARGER, 0.3, 1))
    for number, program in enumerate(batch.programs):
        made = batch.generated[number]
        for shape, density, seed in data:
            tensors, dense = {}, []
            for place, name in enumerate(case.operands):
                extents = tuple(shape[i] for i in case.subscripts[name])
                tensor, array = operand(made.program.tensor(name).layout, extents, density, seed + place)
                tensors[name] = tensor
                dense.append(array)
            expected = case.meaning(*dense)
            tensors[case.output] = zeros_like(made, case.output, tensors, expected.shape)
            for _ in range(3 if shape is LARGER else 1):
                try:
                    batch.run(number, tensors, THREADS)
                except SpfgenError as error:
                    yield f"{program} shape {shape} density {density}: {error}"
                    break
                found = tensors[case.output].to_numpy()
                if not np.array_equal(found, expected):
                    yield f"{program} shape {shape} density {density}:\n{found}\nexpected\n{expected}"
                    break


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", EVERY_CASE, ids=lambda c: c.name)
def test_every_provable_algorithm(case: Case) -> None:
    count = 0
    for batch in forced_batches(case, pairs=False):
        count += len(batch.programs)
        problems = list(itertools.islice(check(case, batch), 3))
        assert not problems, "\n".join(problems)
    assert count or case.name == "lower_sum", "nothing was looked for"


@pytest.mark.exhaustive
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("case", EVERY_CASE, ids=lambda c: c.name)
def test_every_provable_algorithm_in_all_pairs(case: Case) -> None:
    for batch in forced_batches(case, pairs=True):
        problems = list(itertools.islice(check(case, batch), 3))
        assert not problems, "\n".join(problems)


def test_forcing_means_something() -> None:
    """What is forced is what the plan has, and there is more than one algorithm to force in a kernel with a find."""
    program = Program("C[i, j] = A[i, j]*B[i, j]", {"C": "dense", "A": "csr", "B": "csr"})
    forced = each_forced(program, "kernel")
    assert len(forced) == 8
    for one, made in forced.items():
        (wanted,) = set(one.finds.values())
        assert provable(made) == {"B.pj": {wanted, "loop"}}

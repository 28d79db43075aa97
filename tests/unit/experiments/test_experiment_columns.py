"""The experiments on kernels with dense factors and on products of sparse matrices: on tiny data everyone is right."""

from __future__ import annotations

import shutil
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from experiments import add, mttkrp, sddmm, spgemm, spmm, spmspm, ttm
from experiments.data import made, tensors
from experiments.harness.case import OURS, Case
from experiments.harness.race import MISSING, RIGHT, Entry, Outcome, run_case
from experiments.harness.targets import Target, closing
from experiments.harness.timing import Timing
from experiments.peers import taco_kernel

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

MATRIX = partial(made.uniform, 30, 20, 4)
TREE = partial(tensors.long_fibres, (6, 7, 40), 12, 5)
CASES = {
    "spmm": spmm.case("small", MATRIX, 19, 2),
    "ttm": ttm.case("small", TREE, 19, 2),
    "sddmm by rows": sddmm.case("small", MATRIX, "by rows", 19, 2),
    "sddmm by columns": sddmm.case("small", MATRIX, "by columns", 19, 2),
    "mttkrp": mttkrp.case("small", TREE, 19, 2),
    "spmspm": spmspm.case("small", partial(made.uniform, 30, 30, 4), "csr", "csr", 2),
    "spgemm": spgemm.case("small", partial(spgemm.gram, MATRIX), 2),
    "add": add.case("small", partial(add.pair, made.uniform, 30, 20, 4), 2),
    "spmspm, lists": spmspm.case("small", partial(made.uniform, 30, 30, 4), "coo", "dcsr", 2),
    "spmspm, blocks": spmspm.case("small", partial(made.uniform, 30, 30, 4), "coo", "bcsr", 2),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CASES)
def test_everyone_is_right_or_missing(name: str) -> None:
    case: Case = CASES[name]
    outcome = run_case(case, rounds=1, between=lambda: None, waited=lambda: 0)
    assert outcome.entries[0].name == OURS
    assert outcome.entries[0].status == RIGHT, outcome.entries[0].reason
    assert all(entry.status in (RIGHT, MISSING) for entry in outcome.entries), outcome.entries


def test_fibres_of_coordinates() -> None:
    places = np.array([[2, 1, 3], [0, 5, 0], [2, 1, 0], [2, 0, 1], [2, 1, 3]])
    tree = tensors.fibres((4, 6, 5), places, np.array([1.0, 2, 4, 8, 16]))
    assert [tree.idx_1.tolist(), tree.ptr_2.tolist(), tree.idx_2.tolist()] == [[0, 2], [0, 1, 3], [5, 0, 1]]
    assert [tree.ptr_3.tolist(), tree.idx_3.tolist(), tree.val.tolist()] == [[0, 1, 2, 4], [0, 1, 0, 3], [2, 8, 4, 17]]
    assert tree.slice_of_fibre.tolist() == [0, 1, 1]
    assert tree.flat.toarray()[2].tolist() == [4, 0, 0, 17, 0]


def test_matrices_as_taco_stores_them() -> None:
    matrix = csr_array(np.array([[0.0, 5, 6], [0, 0, 0], [7, 0, 0]]))
    filled = [[a.tolist() for a in level] for level in taco_kernel.filled_rows(matrix).levels]
    assert filled == [[[0, 2], [0, 2]], [[0, 2, 3], [1, 2, 0]]]
    (root, rows), (_, columns) = taco_kernel.coordinates(matrix).levels
    assert (root.tolist(), rows.tolist(), columns.tolist()) == ([0, 3], [0, 0, 2], [1, 2, 0])


def test_taco_takes_part_in_its_nine_pairs() -> None:
    cases = spmspm.cases(quick=True, threads=1)
    assert sum("taco" in {peer.name for peer in case.peers} for case in cases) == 9


@pytest.mark.parametrize(("ours", "word"), [(1.0, "target 2: met"), (9.0, "target 2: NOT met")])
def test_targets_compare_with_the_best_setting_of_each_peer(ours: float, word: str) -> None:
    entries = (
        Entry(OURS, "", RIGHT, timing=Timing((ours,), 1), ratio=1.0),
        Entry("mkl", "a", RIGHT, timing=Timing((9.0,), 1), ratio=9 / ours),
        Entry("mkl", "b", RIGHT, timing=Timing((4.0,), 1), ratio=4 / ours),
    )
    text = closing([Outcome("x, 1 thread", {}, None, None, entries, 1)], [Target("mkl", ("mkl",), 2.0)])
    assert word in text
    assert f"geometric mean {4 / ours:.3f} over 1" in text

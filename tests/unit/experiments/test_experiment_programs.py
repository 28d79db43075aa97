"""The experiments of programs that are more than sums of products: what takes part computes what it should."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from experiments import add, conv, minimax, mri, recipes, semiring, shape, slicing, structured, ufunc
from experiments.data import images
from experiments.harness.case import Case, Missing
from experiments.harness.memory import LEAST_SEEN, peak_bytes
from experiments.peers import duckdb, finch, opencv, pydata
from experiments.peers.kernels import in_csr, returning, same
from experiments.structured import pictures

THREADS = 1
EVERY: Sequence[tuple[ModuleType, str]] = (
    (ufunc, "sparse result"),
    (semiring, "R-MAT"),
    (shape, "csr"),
    (conv, "9"),
    (add, "eight"),
    (slicing, ""),
    (mri, "slice"),
    (minimax, ""),
    (structured, ""),
    (recipes, ""),
)
"""Experiments, and which of their small cases are tried here: those whose label has the text."""
CASES = [c for experiment, part in EVERY for c in experiment.cases(quick=True, threads=THREADS) if part in c.label]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.label)
def test_whoever_takes_part_is_right(case: Case) -> None:
    data = case.data()
    complaint = case.check(data)
    for contestant in (case.contestants[0], *case.peers):
        if contestant.name.startswith("ours-"):
            continue  # other layouts, which cost the time to compile
        try:
            runner = contestant.prepare(data)
        except Missing:
            assert contestant.name != "ours"
            continue
        found = runner.call()
        assert complaint(found if runner.result is None else runner.result()) == "", contestant.title


@pytest.mark.sampled(1)
@pytest.mark.parametrize("leaves", [0.1, 0.6, 1.0])
def test_a_game_level_by_level(leaves: float) -> None:
    """Pruned leaves count as 0, whole nodes of them, too; what is computed level by level is what numpy computes."""
    random = np.random.default_rng(3)
    shape = (3, 2, 2, 3, 2)
    for _ in range(4):
        dense = random.integers(-9, 9, shape) * (random.random(shape) < leaves).astype(float)
        places = np.argwhere(dense).T
        tree = minimax.Tree(shape, places, dense[tuple(places)])
        expected = dense.max(axis=4).min(axis=3).max(axis=2).min(axis=1).max(axis=0)
        if tree.values.size:
            assert minimax.value(tree) == expected
        found = minimax.prepare_ours(tree, minimax.steps(5), THREADS).call()
        assert float(np.asarray(found)) == expected


def test_parts_of_a_matrix() -> None:
    matrix = slicing.pair(40, 8)[0]
    for part in ((slice(3, 30), slice(None)), (slice(0, 40, 3), slice(5, 40, 4))):
        assert np.array_equal(slicing.part_of(matrix, part).toarray(), matrix.toarray()[part])


def test_pixels_of_words() -> None:
    image = np.random.default_rng(5).random((3, 2 * pictures.WORD)) < 0.5
    packed = pictures.words({"p": image})["p"]
    assert (packed.shape, int(packed[1, 1]) & 1) == ((3, 2), int(image[1, pictures.WORD]))
    assert np.array_equal(pictures.pixels(packed, {}), image)


def test_eroded_ink_has_ink_around_it() -> None:
    image = np.ones((4, 5), bool)
    image[1, 3] = False
    expected = np.array([[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]], bool)
    assert np.array_equal(pictures.eroded(image), expected)


def test_made_images() -> None:
    assert np.array_equal(images.drawings(2, 30), images.drawings(2, 30))
    assert 0 < images.drawings(2, 30).mean() < 0.5
    assert np.array_equal(images.magnified(np.array([[1, 2]]), 2), [[1, 1, 2, 2], [1, 1, 2, 2]])
    head = images.head(6, 20, 24)
    assert (head.dtype, head[0].max()) == (np.uint8, 0)
    assert head[3].max() > head[3].mean() > 0


PEERS = {
    "cv2": lambda: opencv.prepare(lambda cv2: None, 1),
    "duckdb": lambda: duckdb.prepare("SELECT 1", {}, 1),
    "finchlite": lambda: finch.prepare(lambda f: None),
    "sparse": pydata.module,
}


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_that_is_not_installed_is_missing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Missing, match="pip install"):
        PEERS[name]()


def test_results_in_csr() -> None:
    expected = np.array([[0.0, 2.0], [3.0, 0.0]])
    for found in (expected, csr_array(expected), spfgen.pack(expected, "coo")):
        assert np.array_equal(in_csr(found).toarray(), expected)
    assert in_csr(spfgen.pack(expected[0], "sv")).shape == (1, 2)


def test_a_text_with_workspaces_is_a_kernel() -> None:
    text = "size d\nlocal tensor t : dense\nt[i] = x[i]*d\ny[i] = t[i] + 1"
    call = returning(text, {"x": "dense", "y": "dense"}, {"x": np.arange(3.0)}, THREADS, {"d": 2}).call
    assert np.array_equal(call(), [1, 3, 5])


def test_exact_comparison_sees_shapes_and_single_elements() -> None:
    expected = np.array([[0.0, np.nan], [2.0, 3.0]])
    complain = same(expected)
    assert complain(expected.copy()) == ""
    assert "shape" in complain(expected[:1])
    wrong = expected.copy()
    wrong[1, 0] = 2.5
    assert "(1, 0)" in complain(wrong)
    wrong = np.nan_to_num(expected)
    assert "(0, 1)" in complain(wrong)


def test_the_peak_of_a_call_is_seen() -> None:
    size = 64 * LEAST_SEEN
    found = peak_bytes(lambda: np.ones(size // 8))
    assert found is None or found > size // 2

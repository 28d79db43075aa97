"""The experiment conversion: each task on a small matrix, right and noticed when wrong; what the figures come to."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from experiments.conversion import TASKS, case, suits
from experiments.conversion.data import Entries, Source, check, of_matrix, random_tensor
from experiments.conversion.targets import closing
from experiments.harness.race import RIGHT, Entry, Outcome, run_case
from experiments.harness.timing import Timing

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def small() -> csr_array:
    return csr_array(random_array((42, 31), density=0.2, rng=np.random.default_rng(1)))


def test_entries_of_a_matrix() -> None:
    made = of_matrix(small())
    assert made.shape == (40, 28)
    dense = np.zeros(made.shape)
    dense[made.coords] = made.values
    assert np.array_equal(dense, small().toarray()[:40, :28])
    coords, values = made.sorted
    assert np.array_equal(np.stack(coords), np.stack(np.nonzero(dense)))
    assert np.array_equal(values, dense[coords])


@pytest.mark.sampled(1)
@needs_compiler
@pytest.mark.parametrize("task", TASKS)
def test_each_task(task: str) -> None:
    made = random_tensor((9, 8, 7), 60) if task == "coo3-csf" else of_matrix(small())
    assert suits(task, made) or task in ("csr-ell", "csr-dia", "csr-bcsr")
    outcome = run_case(
        case(task, Source(task, lambda: made), 1), 1, ("scipy", "scipy-sorted"), between=lambda: None, waited=lambda: 0
    )
    assert [e.status for e in outcome.entries] == [RIGHT] * len(outcome.entries)


def test_a_wrong_result_is_noticed() -> None:
    made = of_matrix(small())
    complain = check("csr-csc", made)
    assert complain((made.coords, made.values)) == ""
    assert "values differ" in complain((made.coords, made.values + 1))
    assert "entries instead" in complain((tuple(c[1:] for c in made.coords), made.values[1:]))
    assert "coordinates differ" in complain((made.coords[::-1], made.values))


def test_tensors_are_no_matrices() -> None:
    tensor = random_tensor((9, 8, 7), 60)
    assert isinstance(tensor, Entries)
    assert [t for t in TASKS if suits(t, tensor)] == ["coo3-csf"]


def test_closing() -> None:
    entries = (Entry("ours", "", RIGHT, timing=Timing((1.0,), 1), ratio=1.0),
               Entry("scipy", "", RIGHT, timing=Timing((2.0,), 1), ratio=2.0))  # fmt: skip
    text = closing([Outcome("csr-csc, small, 1 thread", {}, None, None, entries, 1)])
    assert "geometric mean 2.00 over 1 cases, target 1.5: met" in text
    assert "least 2.00 (csr-csc, small, 1 thread), target 0.9: met" in text

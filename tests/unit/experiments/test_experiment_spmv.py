"""The experiment spmv: its data, the peers on tiny matrices, and what it makes of the figures."""

from __future__ import annotations

import shutil
from functools import partial

import numpy as np
import pytest

from experiments import spmv
from experiments.data import made
from experiments.harness.case import OURS
from experiments.harness.race import MISSING, RIGHT, Entry, Outcome, first_result, run_case
from experiments.harness.timing import Timing
from experiments.spmv import contestants, data
from experiments.spmv.targets import closing

SMALL = partial(made.uniform, 30, 20, 4)

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def run(case: spmv.Case, *peers: str) -> list[Entry]:
    outcome = run_case(case, rounds=1, peers=peers, between=lambda: None, waited=lambda: 0)
    return [entry for entry in outcome.entries if entry.name != OURS]


@needs_compiler
def test_hand_written_spmv_is_right() -> None:
    entries = run(spmv.csr_case("small", partial(made.empty_rows, 40, 3, 4), threads=2), "hand-c", "scipy")
    assert [entry.status for entry in entries] == [RIGHT, RIGHT, RIGHT]


@needs_compiler
def test_how_evenly_threads_are_at_work() -> None:
    """A share of the time of the busiest; nothing is said of a product so small that it has one thread."""
    found = data.product(partial(made.power_law, 12, 8), "csr", 1, "float64", "int32")
    remark = contestants.prepare_ours(found, 2).remark
    assert remark.startswith(contestants.BUSY)
    assert 0 < float(remark.removeprefix(contestants.BUSY)) <= 1
    assert contestants.prepare_ours(data.product(SMALL, "csr", 1, "float64", "int32"), 2).remark == ""
    assert contestants.prepare_ours(found, 1).remark == ""


@needs_compiler
def test_the_layout_chosen_for_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, with what the choice and the conversion took."""
    monkeypatch.setattr(contestants, "CHOICE_SECONDS", 0.0)
    (entry,) = run(spmv.csr_case("small", SMALL, 1), "ours-chosen")
    assert entry.status == RIGHT
    assert entry.remark.startswith("csr, chosen in ")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("types", [("float64", "int32"), ("float32", "int64")])
@pytest.mark.parametrize("name", ["mkl", "mkl-ie", "eigen", "graphblas", "taco", "taco-best"])
def test_optional_peers_are_right_or_missing(name: str, types: tuple[str, str]) -> None:
    entries = run(spmv.csr_case("small", SMALL, 2, *types), name)
    assert all(entry.status in (RIGHT, MISSING) for entry in entries)
    assert entries or types != spmv.USUAL


@pytest.mark.sampled(1)
@needs_compiler
@pytest.mark.parametrize(
    ("layout", "block"), [("bcsr", 2), ("dia", 1), ("ell", 1), ("coo", 1), ("csc", 1), ("dcsr", 1)]
)
def test_layouts(layout: str, block: int) -> None:
    """Ours in the layout, ours in csr and those who have it: all of them right, or not there."""
    case = spmv.layout_case(layout, "small", SMALL, block, 1)
    entries = run_case(case, rounds=1, between=lambda: None, waited=lambda: 0).entries
    status = {entry.name: entry.status for entry in entries}
    assert (status.pop(OURS), status.pop("ours-csr"), status.pop("scipy", RIGHT)) == (RIGHT, RIGHT, RIGHT)
    assert set(status.values()) <= {RIGHT, MISSING}


@pytest.mark.parametrize("layout", ["csr", "bcsr", "dia", "coo", "ell"])
def test_bytes(layout: str) -> None:
    found = data.product(SMALL, layout, 2, "float32", "int64")
    vectors = 4 * (30 + 20)
    entries, rows = found.matrix.nnz, 30
    if layout == "csr":
        assert data.bytes_moved(found) == entries * (4 + 8) + (rows + 1) * 8 + vectors
    elif layout == "coo":
        assert data.bytes_moved(found) == entries * (4 + 8 + 8) + vectors
    elif layout == "bcsr":
        blocks = found.natural.indices.size
        index = found.natural.indices.itemsize
        assert data.bytes_moved(found) == blocks * (4 * 4 + index) + (rows // 2 + 1) * index + vectors
    else:
        assert data.bytes_moved(found) > entries * 4 + vectors


def test_the_reference_finds_a_wrong_element() -> None:
    found = data.product(SMALL, "csr", 1, "float64", "int32")
    result = first_result(contestants.prepare_scipy(found))
    complain = data.check(found)
    assert complain(result) == ""
    result[7] *= 1 + 1e-10
    assert "1 of 30 elements differ; first at (7,)" in complain(result)


def test_grids_and_blocks() -> None:
    assert [made.grid(3, points).nnz for points in (7, 27)] == [27 + 2 * 54, 343]
    grown = made.blocks(made.stencil(3), 2)
    assert grown.nnz == 4 * made.stencil(3).nnz
    assert np.array_equal(grown.tobsr((2, 2)).indices, made.stencil(3).indices)


def test_every_layout_has_cases() -> None:
    labels = [case.label for case in spmv.cases(quick=True, threads=2)]
    assert {label.partition(",")[0] for label in labels} == set("csr bcsr dia ell coo csc dcsr lower".split())
    assert len(set(labels)) == len(labels)


def test_closing() -> None:
    """Means of each layout and thread count, and what is asked of them."""
    entries = (
        Entry("ours", "", RIGHT, ratio=1.0),
        Entry("mkl", "", RIGHT, ratio=1.21),
        Entry("scipy", "", RIGHT, ratio=0.8),
        Entry("ours-csr", "", RIGHT, ratio=2.0),
        Entry("mkl-ie", "", RIGHT, ratio=0.9),
        Entry("ours-chosen", "", RIGHT, ratio=0.5),
    )
    outcomes = [Outcome(f"{layout}, a, 1 thread", {}, None, None, entries, 1) for layout in ("csr", "dia")]
    text = closing(outcomes)
    assert "A in csr, 1 thread, 1 cases" in text
    assert "mkl           geometric mean 1.210, target 1: met" in text
    assert "scipy         geometric mean 0.800, target 1.2: NOT met" in text
    assert "mkl-ie/chosen geometric mean 1.800, target 1: met" in text
    assert "ours in csr   geometric mean 2.000, target 1: met" in text


def test_a_layout_is_to_be_faster_than_csr_where_it_has_the_structure() -> None:
    def outcome(label: str, ratio: float) -> Outcome:
        own = Entry("ours", "", RIGHT, ratio=1.0), Entry("ours-csr", "", RIGHT, ratio=ratio)
        return Outcome(f"coo, {label}, 1 thread", {}, None, None, own, 1)

    text = closing([outcome("empty rows 20000", 2.0), outcome("power law 2^12", 0.5)])
    assert "ours in csr   geometric mean 2.000, target 1: met" in text
    assert "  plain       geometric mean 0.500; least 0.500" in text


def test_threads_are_to_be_at_work_evenly_where_rows_are_long() -> None:
    def outcome(label: str, share: float) -> Outcome:
        entry = Entry("ours", "", RIGHT, ratio=1.0, remark=f"{contestants.BUSY}{share}")
        return Outcome(f"csr, {label}, 2 threads", {}, None, None, (entry,), 2)

    text = closing([outcome("stencil", 0.1), outcome("power law 2^12", 0.95), outcome("power law 2^14", 0.85)])
    assert "least 0.850 (csr, power law 2^14, 2 threads), target 0.9: NOT met" in text
    assert "target 0.9: met" in closing([outcome("power law 2^12", 0.95)])


def test_stencils_in_memory_are_to_be_near_the_bandwidth() -> None:
    def outcome(label: str, nanoseconds: float, *roofs: float) -> Outcome:
        entry = Entry("ours", "", RIGHT, ratio=1.0, timing=Timing((nanoseconds,), 1))
        return Outcome(f"csr, {label}, 1 thread", {}, 1000, None, (entry,), 1, roofs)

    near, far = outcome("stencil 1500x1500", 1000.0, 1.1e9), outcome("stencil 300x300", 1000.0, 1.25e9)
    others = outcome("power law 2^19", 1000.0, 4e9), outcome("stencil 100x100", 1.0)  # scattered; in the caches
    assert "least 0.909 (csr, stencil 1500x1500, 1 thread), target 0.85: met" in closing([near, *others])
    assert "least 0.800 (csr, stencil 300x300, 1 thread), target 0.85: NOT met" in closing([near, far, *others])

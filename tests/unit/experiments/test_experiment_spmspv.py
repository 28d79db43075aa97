"""The experiment spmspv: its data, the peers on a tiny matrix, and what it makes of the figures."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array

from experiments import spmspv
from experiments.harness.case import OURS, Missing, Refused
from experiments.harness.pace import Pace
from experiments.harness.race import MISSING, REFUSED, RIGHT, SKIPPED, Entry, Outcome, first_result, run_case
from experiments.harness.timing import Timing
from experiments.peers import eigen
from experiments.spmspv import contestants, data
from experiments.spmspv.point import Point
from experiments.spmspv.targets import closing

TINY = data.RMat(5, 4)

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "cache_folder", lambda: tmp_path)


def run(layout: str, threads: int, density: float, *peers: str) -> dict[str, Entry]:
    case = spmspv.case(TINY, Point(TINY.name, layout, density, threads), Pace(30.0, 0.1))
    outcome = run_case(case, rounds=1, peers=peers, between=lambda: None, waited=lambda: 0)
    return {entry.title: entry for entry in outcome.entries if entry.name != OURS}


def test_rmat_is_skewed_square_and_the_same_out_of_its_file(tmp_path: Path) -> None:
    made = data.RMat(10, 16)
    one = made.load()
    assert len(list(tmp_path.glob("rmat-*.npz"))) == 1
    two = made.load()
    assert one.shape == two.shape == (1024, 1024)
    assert 0.6 * 16 * 1024 < one.nnz < 16 * 1024
    assert one.has_canonical_format
    assert np.diff(one.indptr).max() > 10 * one.nnz / 1024
    for part in data.PARTS:
        assert getattr(one, part).dtype == getattr(two, part).dtype
        assert np.array_equal(getattr(one, part), getattr(two, part))


def test_quadrants_of_rmat_have_their_shares() -> None:
    matrix = data.RMat(10, 16).load()
    upper, left = matrix[:512], matrix[:, :512]
    # Before duplicates went it was 0.76 of all; most of them lie where it is crowded.
    assert 0.65 < upper.nnz / matrix.nnz < 0.76
    assert 0.65 < left.nnz / matrix.nnz < 0.76


@pytest.mark.parametrize(("density", "count"), [(1e-5, 1), (1e-3, 2), (0.1, 200), (0.5, 1000), (1.0, 2000)])
def test_vector_has_distinct_rising_places(density: float, count: int) -> None:
    index, value = data.sparse_vector(2000, density)
    assert index.size == value.size == count
    assert (index.dtype, value.dtype) == (np.int32, np.float64)
    assert np.all(np.diff(index) > 0)
    assert index[0] >= 0
    assert index[-1] < 2000
    assert np.array_equal(index, data.sparse_vector(2000, density)[0])


def test_both_layouts_are_one_matrix() -> None:
    rows, columns = data.product(TINY, 0.3, False), data.product(TINY, 0.3, True)
    assert isinstance(rows.matrix, csr_array)
    assert isinstance(columns.matrix, csc_array)
    assert columns.matrix.indices.dtype == columns.matrix.indptr.dtype == np.int32
    assert np.array_equal(rows.matrix.toarray(), columns.matrix.toarray())
    assert np.array_equal(rows.hits, columns.hits)
    assert rows.products == np.count_nonzero(rows.matrix.toarray()[:, rows.index])


@pytest.mark.sampled(1)
@needs_compiler
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("density", [1e-5, 0.3, 1.0])
def test_loops_written_by_hand_are_right(threads: int, density: float) -> None:
    found = run("csr", threads, density, "merge", "scatter") | run("csc", threads, density, "columns")
    assert len(found) == (3 if threads == 1 else 5)
    assert {entry.status for entry in found.values()} == {RIGHT}


@pytest.mark.sampled(1)
@needs_compiler
@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize("threads", [1, 2])
def test_libraries_are_right_or_missing(layout: str, threads: int) -> None:
    names = ("scipy", "taco", "eigen", "eigen-dense", "eigen-rows", "graphblas", "graphblas-bitmap")
    found = run(layout, threads, 0.3, *names)
    assert {entry.status for entry in found.values()} <= {RIGHT, MISSING}
    if layout == "csr":
        assert {entry.name for entry in found.values()} == set(names)
        assert found["scipy [1 thread]"].status == RIGHT


def test_a_wrong_element_is_found() -> None:
    product = data.product(TINY, 0.3, False)
    result = first_result(contestants.prepare_scipy(product))
    complain = data.check(product)
    assert complain(result) == ""
    place = int(np.flatnonzero(result)[0])
    result[place] *= 1 + 1e-10
    assert "1 of 32 elements differ" in complain(result)


def test_missing_headers_of_eigen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(eigen, "USUAL_FOLDERS", ())
    monkeypatch.setattr(eigen, "_from_pkg_config", list)
    monkeypatch.setenv("EIGEN3_INCLUDE_DIR", str(tmp_path))
    with pytest.raises(Missing, match="no headers of Eigen 3"):
        eigen.headers()
    (tmp_path / "Eigen").mkdir()
    (tmp_path / "Eigen" / "SparseCore").touch()
    assert eigen.headers() == tmp_path


def test_an_algorithm_that_spfgen_does_not_know_is_refused() -> None:
    product = data.product(TINY, 0.3, False)
    with pytest.raises(Refused):
        contestants.prepare_forced(product, 1, "no_such_way")


def test_a_bug_of_spfgen_is_not_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    from spfgen.errors import InternalError

    def broken(*_: object) -> None:
        raise InternalError("oops")

    monkeypatch.setattr(contestants, "prepare_ours", broken)
    with pytest.raises(InternalError):
        contestants.prepare_forced(data.product(TINY, 0.3, False), 1, "search")


def test_the_loop_over_all_pairs_is_only_for_small_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contestants, "MOST_PAIRS", 10)
    found = run("csr", 1, 0.3, "spfgen-loop")
    assert found["spfgen-loop"].status == REFUSED
    assert "pairs" in found["spfgen-loop"].reason


def test_the_texts_of_the_kernels_differ_in_one_line() -> None:
    plain, forced = contestants.kernel_text("csr"), contestants.kernel_text("csr", "search")
    (line,) = set(forced.splitlines()) - set(plain.splitlines())
    assert line.strip() == "schedule { find x.p : search }"
    assert "tensor A : csc" in contestants.kernel_text("csc")


def test_bytes_that_must_move() -> None:
    matrix = csr_array(np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 4.0]]))
    product = data.Product(matrix, np.array([1], np.int32), np.array([5.0]))
    assert product.hits.tolist() == [1, 1]
    # columns; values of two products; three row starts; an entry of x; y
    assert data.bytes_of_rows(product) == 4 * 4 + 2 * 8 + 3 * 4 + 12 + 2 * 8
    # two entries of the column; where it starts and ends and an entry of x; y
    assert data.bytes_of_columns(product) == 2 * 12 + 8 + 12 + 2 * 8


def test_cases_go_through_all_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPFGEN_DATA", raising=False)
    assert len(spmspv.cases(quick=False, threads=4)) == 2 * 2 * len(spmspv.DENSITIES)
    points = [Point.of(case.label) for case in spmspv.cases(quick=True, threads=4)]
    assert len(set(points)) == len(points) == 2 * 2 * len(spmspv.QUICK_DENSITIES)
    assert {point.threads for point in points} == {1, 4}
    assert {point.threads for point in (Point.of(c.label) for c in spmspv.cases(quick=True, threads=1))} == {1}


def test_labels_can_be_read_back() -> None:
    for point in (Point("R-MAT 2^20", "csr", 1e-5, 1), Point("a, b", "csc", 0.5, 16)):
        assert Point.of(point.label) == point


def outcome(layout: str, threads: int, **ratios: float) -> Outcome:
    entries = [
        Entry(name.replace("_", "-"), "", RIGHT, "", Timing((ratio,), 1), ratio)
        for name, ratio in {"ours": 1.0, **ratios}.items()
    ]
    return Outcome(Point("m", layout, 0.1, threads).label, {}, None, None, tuple(entries), threads)


def test_targets_that_are_met() -> None:
    text = closing(
        [
            outcome("csr", 1, merge=30.0, spfgen_sequential=10.0, taco=40.0, scipy=4.0, graphblas=3.0),
            outcome("csr", 1, merge=30.0, spfgen_sequential=10.0, taco=40.0, scipy=4.0, graphblas=12.0),
            outcome("csc", 1, taco=1.1, eigen=1.2, graphblas=7.0),
        ]
    )
    assert "merge / ours                geometric mean 30.000 over 2 cases, target 20: met" in text
    assert "merge / spfgen-sequential   geometric mean 3.000 over 2 cases, target 1.6: met" in text
    assert "best library / ours         geometric mean 3.464 over 2 cases, target 2.5: met" in text
    assert "least of any library / ours 3.000 (graphblas: m, csr, x 0.1, 1 thread), target 0.95: met" in text
    assert "best library / ours         geometric mean 1.100 over 1 cases, target 1: met" in text
    assert "NOT" not in text


def test_targets_that_are_not_met() -> None:
    lines = closing([outcome("csr", 2, merge=4.0, graphblas=0.5, graphblas_bitmap=0.25)]).splitlines()
    assert lines[0] == "A in csr, 2 threads, 1 cases"
    verdicts = [line for line in lines if "target" in line and not line.startswith("note")]
    assert len(verdicts) == 6
    assert all("not met" in line.lower() for line in verdicts)
    assert any(line.startswith("  least, with bitmap          0.250") for line in verdicts)


def test_csc_with_several_threads_has_no_target() -> None:
    text = closing([outcome("csc", 4, graphblas=0.5)])
    assert "target" not in "".join(line for line in text.splitlines() if not line.startswith("note"))


def test_who_was_skipped_is_named() -> None:
    entries = (Entry("merge", "static", SKIPPED, "a call takes about 99 s"),)
    text = closing([Outcome(Point("m", "csr", 0.5, 1).label, {}, None, None, entries)])
    assert "skipped: m, csr, x 0.5, 1 thread: merge [static]: a call takes about 99 s" in text

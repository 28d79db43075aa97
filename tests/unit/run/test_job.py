"""`spfgen run` below the command line: operands from files and at random, the check, results in files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen.errors import DataError, UsageError
from spfgen.lang.spec import builtin_names
from spfgen.layout.pack import pack
from spfgen.run.calls import call
from spfgen.run.calls.operands import operands, storable
from spfgen.run.calls.requests import Job
from spfgen.run.coordinates import Coordinates
from spfgen.run.files.read import random_data, read
from spfgen.run.job import run_job
from spfgen.run.tensor import Tensor
from spfgen.run.tuners.compare import verdict

JOB = Job(data={}, sizes={}, outputs={}, repeat=1, seed=0, check=True, force=False)


def kernel(statement: str = "y[i] = A[i, j]*x[j]", **layouts: str) -> spfgen.Kernel:
    return spfgen.compile(statement, threads=1, **(layouts or {"A": "csr", "x": "dense", "y": "dense"}))


@pytest.fixture(scope="module")
def spmv() -> spfgen.Kernel:
    return kernel()


# --- random operands -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", builtin_names())
@pytest.mark.parametrize("density", [0.1, 0.7])
def test_random_entries_can_be_stored_and_are_not_all_lost(name, density) -> None:
    handle = spfgen.parse("").layouts[name]
    rank = 2 if handle.is_open else handle.layout().rank
    layout = handle.layout(rank)
    shape = (12, 9, 7)[:rank]
    entries = storable(layout, random_data(shape, density, 3))
    made = pack(layout, shape, entries.coords, entries.values)
    back = Tensor(layout, made.sizes, made.arrays).to_coo()
    assert np.array_equal(back.to_dense(), entries.to_dense())
    assert np.count_nonzero(entries.values)


def test_random_entries_of_shared_storage() -> None:
    """Where one value is two entries, both are there and equal."""
    text = """layout mirrored(n, m) { size nnz
        relation { [pi, pj] -> [i, j] : 0 <= pi < n and ptr(pi) <= pj < ptr(pi + 1) and i = pi and j = col(pj)
                                        and j <= i ;
                   [pi, pj] -> [i, j] : 0 <= pi < n and ptr(pi) <= pj < ptr(pi + 1) and j = pi and i = col(pj)
                                        and i < j }
        index ptr[n + 1] { range 0 <= ptr(p) <= nnz property increasing }
        index col[nnz] { range 0 <= col(p) < n property strictly increasing within ptr }
        value val[nnz] at [pj] }"""
    layout = spfgen.parse(text).layouts["mirrored"].layout()
    dense = storable(layout, random_data((9, 9), 0.3, 3)).to_dense()
    assert np.count_nonzero(dense)
    assert np.array_equal(dense, dense.T)


def test_a_random_triangle_is_full_without_a_density() -> None:
    report = run_job(
        kernel(A="lower", x="dense", y="dense"),
        replace(JOB, data={"A": "random", "x": "random"}, sizes={"i": 5, "j": 5}),
    )
    assert report.operands["A"] == "operand lower, 5 x 5, 15 stored, float64"
    assert report.operations == 30
    assert report.failure is None


def test_the_seed_decides(spmv, tmp_path) -> None:
    results = []
    for number, seed in enumerate((1, 1, 2)):
        path = str(tmp_path / f"{number}.npy")
        data = {"A": "random:0.5", "x": "random"}
        run_job(spmv, replace(JOB, data=data, sizes={"i": 9, "j": 8}, seed=seed, outputs={"y": path}))
        results.append(np.load(path))
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


# --- operands from files -------------------------------------------------------------------------------


def test_files_give_the_extents_and_numbers_the_scalars(tmp_path) -> None:
    matrix = sp.random_array((6, 4), density=0.5, format="csr", rng=np.random.default_rng(0))
    sp.save_npz(tmp_path / "A.npz", matrix)
    np.save(tmp_path / "x.npy", np.arange(4.0))
    data = {"A": str(tmp_path / "A.npz"), "x": str(tmp_path / "x.npy"), "a": "2.5"}
    target = str(tmp_path / "y.npy")
    scaled = kernel("y[i] = a*A[i, j]*x[j]", A="csr", x="dense", y="dense")
    report = run_job(scaled, replace(JOB, data=data, outputs={"y": target}))
    assert np.allclose(np.load(target), 2.5 * (matrix @ np.arange(4.0)))
    assert report.written == (target,)
    assert report.operations == 3 * matrix.nnz


def test_results_whose_pattern_is_computed(tmp_path) -> None:
    """Their operations are counted without storing them."""
    data = {"A": "random:0.5", "B": "random:0.5"}
    job = replace(JOB, data=data, sizes={"i": 6, "j": 7}, check=True, outputs={"C": str(tmp_path / "C.npz")})
    report = run_job(kernel("C[i, j] = A[i, j]*B[i, j]", A="csr", B="csr", C="csr"), job)
    assert report.failure is None
    assert report.operations == 2 * sp.load_npz(tmp_path / "C.npz").nnz


def test_what_a_file_does_not_list_is_the_fill_value(tmp_path) -> None:
    """An edge that is not there has length inf, from a file and at random."""
    path = tmp_path / "A.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 3.0\n1 2 0.5\n")
    np.save(tmp_path / "d.npy", np.array([1.0, 2.0]))
    text = "kernel k { tensor A : csr fill inf  tensor d, e : dense  e[i] = min(j: d[j] + A[i, j]) }"
    shortest = spfgen.parse(text).kernels["k"].compile()
    target = str(tmp_path / "e.npy")
    data = {"A": str(path), "d": str(tmp_path / "d.npy")}
    assert run_job(shortest, replace(JOB, data=data, outputs={"e": target}, check=True)).failure is None
    assert np.load(target).tolist() == [2.5, np.inf]
    data = {"A": "random:0.2", "d": "random"}
    assert run_job(shortest, replace(JOB, data=data, sizes={"i": 5, "j": 5}, check=True)).failure is None


HUGE = "%%MatrixMarket matrix coordinate real general\n4000000000 4000000000 2\n1 7 3.0\n4000000000 2 0.5\n"


def huge(tmp_path, text: str, **layouts: str):
    (tmp_path / "A.mtx").write_text(HUGE)
    data = {n: str(tmp_path / "A.mtx") for n in "AB" if n in layouts}
    return run_job(kernel(text, **layouts), replace(JOB, data=data, check=True))


def test_some_places_of_a_large_result_are_compared(tmp_path) -> None:
    """Of 2^64 places and more; sums go along what is stored."""
    report = huge(tmp_path, "C[i, j] = A[i, j] + B[i, j]", A="coo", B="coo", C="coo")
    assert report.failure is None
    assert report.as_dict()["passed"]
    assert "at 502 of 16000000000000000000 places" in report.check
    report = huge(tmp_path, "s = A[i, j]*B[i, j]", A="coo", B="coo")
    assert report.failure is None
    assert report.check.startswith("ok")


def test_a_check_that_is_not_possible_is_no_success(tmp_path) -> None:
    report = huge(tmp_path, "s = max(i, j: A[i, j])", A="coo")
    assert report.check.startswith("not compared: 16000000000000000000 points")
    assert report.failure.exit_code == 4
    assert report.as_dict()["passed"] is None


def test_a_wrong_value_among_many_is_found(tmp_path) -> None:
    (tmp_path / "A.mtx").write_text(HUGE)
    made = kernel("C[i, j] = 2*A[i, j]", A="coo", C="coo")
    data = {"A": str(tmp_path / "A.mtx")}
    bound = made.bind(**operands(made.program, replace(JOB, data=data)))
    bound()
    for array in bound.tensors["C"].arrays.values():
        if array.dtype == np.float64:
            array[1] = 7
    found = verdict(made, bound.tensors, {}, {"C": {}})
    assert found.failure.message.startswith("`C` differs from the reference: C[3999999999, 1] is 7.0, but 1.0 is right")


def test_operations_that_values_decide_are_not_counted() -> None:
    text = "kernel k { tensor x, y : dense for i { let v = x[i]  while v > 0.5 { v = v/2 } y[i] = v } }"
    halved = spfgen.parse(text).kernels["k"].compile()
    report = run_job(halved, replace(JOB, data={"x": "random"}, sizes={"i": 6}, check=True))
    assert (report.failure, report.operations, report.as_dict()["gflops"]) == (None, None, None)
    assert "GFLOP" not in report.text()


@pytest.mark.parametrize("shape", [(4, 1), (1, 4)])
@pytest.mark.parametrize("form", ["array", "coordinate"])
def test_a_vector_in_a_matrix_file(spmv, tmp_path, shape, form) -> None:
    from scipy.io import mmwrite

    vector = np.arange(4.0).reshape(shape)
    mmwrite(tmp_path / "x.mtx", vector if form == "array" else sp.coo_array(vector))
    report = run_job(spmv, replace(JOB, data={"A": "random", "x": str(tmp_path / "x.mtx")}, sizes={"i": 3}))
    assert report.operands["x"] == "operand dense(rank=1), 4, 4 stored, float64"


def test_a_list_of_coordinates_takes_the_sizes(spmv, tmp_path) -> None:
    path = tmp_path / "A.tns"
    path.write_text("1 2 5.0\n")
    job = replace(JOB, data={"A": str(path), "x": "random"})
    assert "csr, 1 x 2," in run_job(spmv, job).operands["A"]
    assert "csr, 7 x 9," in run_job(spmv, replace(job, sizes={"i": 7, "j": 9})).operands["A"]
    assert "csr, 1 x 9," in run_job(spmv, replace(job, sizes={"j": 9})).operands["A"]
    with pytest.raises(DataError, match=r"A\.tns"):
        run_job(spmv, replace(job, sizes={"i": 7, "j": 1}))


def test_shapes_are_given(spmv, tmp_path) -> None:
    path = tmp_path / "A.tns"
    path.write_text("1 2 5.0\n")
    job = replace(JOB, data={"A": str(path), "x": "random"}, shapes={"A": (7, 9)})
    assert "csr, 7 x 9," in run_job(spmv, job).operands["A"]
    drawn = replace(JOB, data={"A": "random", "x": "random"}, shapes={"A": (7, 9)})
    assert "csr, 7 x 9," in run_job(spmv, drawn).operands["A"]
    with pytest.raises(DataError, match=r"A\.tns:1: expected coordinate 2 from 1 to 1"):
        run_job(spmv, replace(job, shapes={"A": (7, 1)}))
    with pytest.raises(UsageError, match="expected 2 extents for `A`"):
        run_job(spmv, replace(job, shapes={"A": (7,)}))
    with pytest.raises(UsageError, match="`B` is not one"):
        run_job(spmv, replace(job, shapes={"B": (7,)}))
    with pytest.raises(UsageError, match="dimension 1 of `x` is 8, and it is 9 elsewhere"):
        run_job(spmv, replace(drawn, shapes={"A": (7, 9), "x": (8,)}))
    with pytest.raises(UsageError, match="dimension 2 of `A` is 9, and it is 8 elsewhere"):
        run_job(spmv, replace(drawn, sizes={"j": 8}))
    np.save(tmp_path / "x.npy", np.ones(9))
    files = replace(job, data={"A": str(path), "x": str(tmp_path / "x.npy")})
    run_job(spmv, replace(files, shapes={"A": (7, 9), "x": (9,)}))
    with pytest.raises(DataError, match=r"`x` of the extents of its --shape, but .*x\.npy has 9"):
        run_job(spmv, replace(files, shapes={"x": (8,)}))


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (np.ones(3) * 1j, "double", ["`x`", "complex"]),
        (np.array([0.5]), "int32", ["`x`", "int32"]),
        (np.array([np.nan]), "int32", ["`x`", "int32"]),
        (np.array([2.0**40]), "int32", ["`x`", "int32"]),
        (np.array(["a"]), "double", ["x.npy", "numbers"]),
        (np.ones((2, 2)), "double", ["`x` with 1 dimension", "has 2"]),
    ],
)
def test_numbers_that_the_kernel_does_not_hold(tmp_path, content, kind, words) -> None:
    np.save(tmp_path / "x.npy", content)
    made = spfgen.parse(f"kernel f {{ tensor x : dense<{kind}>\n s += x[i] }}").kernels["f"].compile()
    with pytest.raises(DataError) as caught:
        run_job(made, replace(JOB, data={"x": str(tmp_path / "x.npy")}))
    for word in words:
        assert word in str(caught.value)


def test_entries_that_the_layout_cannot_store_name_the_operand(tmp_path) -> None:
    np.save(tmp_path / "A.npy", np.ones((3, 3)))
    diagonal = kernel(A="diagonal", x="dense", y="dense")
    with pytest.raises(DataError, match=r"`A`: .*no place"):
        run_job(diagonal, replace(JOB, data={"A": str(tmp_path / "A.npy"), "x": "random"}))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"data": {"A": "random"}}, UsageError, ["`x`", "--data x="]),
        ({"data": {"A": "random", "x": "random", "z": "random"}}, UsageError, ["`z`", "A, x, y"]),
        ({"sizes": {"i": 3}}, UsageError, ["extent of `j`", "--size j=N"]),
        ({"sizes": {"i": 3, "k": 3}}, UsageError, ["`k`", "known: i, j"]),
        ({"data": {"A": "random:1.5", "x": "random"}}, UsageError, ["density", "1.5"]),
        ({"data": {"A": "random:nan", "x": "random"}}, UsageError, ["density", "nan"]),
        ({"data": {"A": "random:", "x": "random"}}, UsageError, ["density"]),
        ({"data": {"A": "randomly", "x": "random"}}, UsageError, ["randomly", "did you mean `random`?"]),
        ({"data": {"A": "no.mtx", "x": "random"}}, DataError, ["no.mtx"]),
        ({"outputs": {"x": "x.npy"}}, UsageError, ["`x` is an operand"]),
        ({"outputs": {"q": "x.npy"}}, UsageError, ["`q`", "A, x, y"]),
        ({"outputs": {"y": "y.txt"}}, UsageError, ["y.txt", ".npy"]),
        ({"outputs": {"y": "no/y.npy"}}, UsageError, ["no/y.npy"]),
        ({"outputs": {"y": "."}}, UsageError, ["something else"]),
    ],
)
def test_calls_that_are_wrong(spmv, monkeypatch, change, error, words) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the kernel ran")

    monkeypatch.setattr(call.Bound, "__call__", never)
    job = replace(JOB, data={"A": "random", "x": "random"}, sizes={"i": 3, "j": 4})
    with pytest.raises(error) as caught:
        run_job(spmv, replace(job, **change))
    for word in words:
        assert word in str(caught.value)


# --- results -------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ending", ["npy", "npz", "mtx", "mtx.gz", "tns", "tns.gz"])
def test_a_vector_in_every_kind_of_file(spmv, tmp_path, ending) -> None:
    path = tmp_path / f"y.{ending}"
    job = replace(JOB, data={"A": "random:0.5", "x": "random"}, sizes={"i": 5, "j": 4}, outputs={"y": str(path)})
    run_job(spmv, job)
    found = read(str(path))
    dense = found.to_dense() if isinstance(found, Coordinates) else found
    run_job(spmv, replace(job, outputs={"y": str(tmp_path / "same.npy")}))
    assert np.array_equal(dense.reshape(-1), np.load(tmp_path / "same.npy"))
    with pytest.raises(UsageError, match=f"y.{ending} exists"):
        run_job(spmv, job)
    path.write_bytes(b"other")
    run_job(spmv, replace(job, force=True))
    assert path.read_bytes() != b"other"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ending", ["npz", "mtx", "tns"])
def test_a_sparse_matrix_in_a_file(tmp_path, ending) -> None:
    text = "kernel f { tensor A : csr\n tensor C : csr shares A\n C[i, j] = 2*A[i, j] }"
    twice = spfgen.parse(text).kernels["f"].compile(threads=1)
    np.save(tmp_path / "A.npy", np.arange(6.0).reshape(2, 3))
    job = replace(JOB, data={"A": str(tmp_path / "A.npy")}, outputs={"C": str(tmp_path / f"C.{ending}")})
    run_job(twice, job)
    found = read(str(tmp_path / f"C.{ending}"))
    assert isinstance(found, Coordinates)
    assert found.to_dense().tolist() == [[0, 2, 4], [6, 8, 10]]
    with pytest.raises(UsageError, match="expected a dense array to write"):
        run_job(twice, replace(job, outputs={"C": str(tmp_path / "C.npy")}))


def test_two_results_in_one_file(tmp_path) -> None:
    both = kernel("y[i] = x[i]\nz[i] = x[i]", x="dense", y="dense", z="dense")
    target = str(tmp_path / "r.npy")
    with pytest.raises(UsageError, match="is given twice"):
        run_job(both, replace(JOB, data={"x": "random"}, sizes={"i": 3}, outputs={"y": target, "z": target}))


# --- the check -----------------------------------------------------------------------------------------


def test_sizes_are_not_taken_for_the_indices_by_the_reference(spmv) -> None:
    report = run_job(spmv, replace(JOB, data={"A": "random:0.3", "x": "random"}, sizes={"i": 20, "j": 10}))
    assert report.check is not None
    assert report.check.startswith("ok: y equals")
    assert report.operations == 2 * 60


def test_values_that_are_no_numbers_are_compared_without_a_warning(spmv, tmp_path, recwarn) -> None:
    np.save(tmp_path / "A.npy", np.array([[np.inf, 0], [np.nan, 0], [-np.inf, 1]]))
    report = run_job(spmv, replace(JOB, data={"A": str(tmp_path / "A.npy"), "x": "random"}))
    assert report.check is not None
    assert report.check.startswith("ok: y equals")
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


def test_a_wrong_result_fails_the_check_and_is_not_written(spmv, tmp_path, monkeypatch) -> None:
    right = call.Bound.__call__

    def wrong(self: call.Bound) -> None:
        right(self)
        if "y" in self.tensors:
            self.tensors["y"].arrays["val"][2] += 1e-3

    monkeypatch.setattr(call.Bound, "__call__", wrong)
    target = tmp_path / "y.npy"
    job = replace(JOB, data={"A": "random:0.5", "x": "random"}, sizes={"i": 5, "j": 4}, outputs={"y": str(target)})
    report = run_job(spmv, job)
    assert report.failure is not None
    assert report.failure.exit_code == 1
    assert "value 2 is" in str(report.failure)
    assert report.as_dict()["passed"] is False
    assert "failed: `y` differs" in report.text()
    assert not target.exists()
    assert run_job(spmv, replace(job, check=False)).as_dict()["passed"] is None


def test_accumulation_starts_anew_for_every_run() -> None:
    add = kernel("y[i] += x[i]", x="dense", y="dense")
    report = run_job(add, replace(JOB, data={"x": "random", "y": "random"}, sizes={"i": 50}, repeat=4))
    assert report.failure is None
    assert len(report.seconds) == 4


def test_nothing_to_compute(spmv) -> None:
    report = run_job(spmv, replace(JOB, data={"A": "random", "x": "random"}, sizes={"i": 0, "j": 0}))
    assert report.check == "ok: y is empty"
    assert report.as_dict()["gflops"] == 0


# --- the speed -----------------------------------------------------------------------------------------


def test_a_report_says_whether_the_speed_is_good(spmv: spfgen.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    few = run_job(spmv, replace(JOB, data={"A": "random:0.5", "x": "random"}, sizes={"i": 20, "j": 20}))
    assert few.share is None
    assert "not measured" in few.text()
    many = run_job(spmv, replace(JOB, data={"A": "random:0.5", "x": "random"}, sizes={"i": 200, "j": 200}))
    assert many.read_rate > 0
    assert many.as_dict()["share_of_bandwidth"] == many.share > 0
    speed = many.moved_bytes / min(many.seconds)
    for factor, word in {1.2: "good", 2: "fair", 10: "low", 0.5: "good"}.items():
        assert f": {word}" in replace(many, read_rate=factor * speed).text()
    dense = replace(many, read_rate=10 * speed, operations=5 * many.moved_bytes)
    assert "arithmetic is the limit" in dense.text()

"""Layouts chosen for the data: what is tried, which one wins, and that results stay what they are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import spfgen
from spfgen import cli
from spfgen.errors import CheckFailed, UsageError
from spfgen.lang.spec import SpecTree
from spfgen.run.coordinates import Coordinates
from spfgen.run.drawings.inspect import distinct
from spfgen.run.tuners import layout_candidates
from spfgen.run.tuners import tune_layouts as tuning
from spfgen.run.tuners.layout_candidates import LayoutCandidate, beginning, candidates, families

SPMV = "y[i] = A[i, j]*x[j]"
TEXT = """
layout mine(nrow, ncol) {
    doc "Triples in any order."
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index row[nnz] { range 0 <= row(p) < nrow }
    index col[nnz] { range 0 <= col(p) < ncol }
    value val[nnz] at [p]
}
kernel spmv {
  tensor A : csr<float>
  tensor x, y : dense<float>
  y[i] = A[i, j]*x[j]
}
kernel shared {
  tensor A : csr
  tensor C : csr shares A
  C[i, j] = 2*A[i, j]
}
kernel ordered {
  tensor A : csr
  tensor x, y : dense
  schedule { serial i }
  y[i] = A[i, j]*x[j]
}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path / "cache"))


def matrix(rows: int = 12, columns: int = 9, density: float = 0.3) -> Any:
    return scipy.sparse.random_array((rows, columns), density=density, format="csr", rng=np.random.default_rng(1))


def faster(*wanted: str) -> Callable[[Any, Any], tuple[float, float]]:
    """A clock for which A takes half the time in these layouts."""

    def measured(best: Any, other: Any) -> tuple[float, float]:
        is_wanted, was_wanted = (r.bound.tensors["A"].layout.name in wanted for r in (other, best))
        return (0.5, 1.0) if is_wanted and not was_wanted else (1.0, 1.0)

    return measured


def entries_of(dense: Any) -> Coordinates:
    found = np.nonzero(dense)
    return distinct(Coordinates(dense.shape, found, dense[found]))


@pytest.fixture
def few_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """All take seconds."""
    names = ["bcsr", "bcsr2", "csr", "csr_unsorted", "dense", "diagonal", "ell", "sv", "sym_csr", "band"]
    monkeypatch.setattr("spfgen.run.tuners.layout_candidates.builtin_names", lambda: names)


def tried(dense: Any, most: float = 4.0) -> tuple[list[LayoutCandidate], dict[str, str]]:
    entries = entries_of(dense)
    return candidates(families(SpecTree(), entries), entries, most)


@pytest.mark.usefixtures("few_layouts")
def test_candidates_are_all_layouts_that_hold_the_entries() -> None:
    dense = np.zeros((12, 12))
    dense[3:6, 6:9] = dense[0:3, 0:3] = 2.0 + np.arange(9).reshape(3, 3)
    found, refused = tried(dense)
    texts = [c.text for c in found]
    assert {"csr", "ell", "bcsr(R=3, C=3)", "bcsr(R=2, C=2)", "bcsr2"} <= set(texts)
    assert len(texts) == len(set(texts))
    assert "csr_unsorted" not in texts  # the same arrays, of which less is known
    assert [c.share for c in found] == sorted(c.share for c in found)
    assert "no place" in refused["diagonal"]
    assert "equal values" in refused["sym_csr"]
    assert "sv" not in {*texts, *refused}


def test_bandwidths_are_constants_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spfgen.run.tuners.layout_candidates.builtin_names", lambda: ["band", "dense"])
    dense = np.tril(np.triu(np.ones((60, 60)), -5), 7)
    found, refused = tried(dense, 1.0)
    assert "band(kl=5, ku=7)" in [c.text for c in found]
    assert "memory" in refused["dense"]


@pytest.mark.usefixtures("few_layouts")
@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (4, 5)])
def test_candidates_without_entries(shape: tuple[int, int]) -> None:
    assert "csr" in [c.text for c in tried(np.zeros(shape), 1000.0)[0]]


def test_a_part_of_the_entries_is_as_wide_as_the_whole() -> None:
    dense = np.tril(np.triu(np.ones((300, 100)), -4), 4)
    entries = entries_of(dense)
    part = beginning(entries, 90)
    assert 90 <= len(part.values) < len(entries.values)
    assert part.shape[0] == pytest.approx(3 * part.shape[1], abs=3)
    assert all(int(c.max()) < n for c, n in zip(part.coords, part.shape, strict=True))
    assert beginning(entries, 10**6) is entries


def test_the_winner_comes_back_as_a_tensor_and_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "measured", faster("ell"))
    a, x, y = matrix(), np.ones(9), np.full(12, 7.0)
    found = spfgen.tune_layouts(SPMV, "A", A=a, x=x, y=y, layouts=["coo", "ell", "diagonal"], threads=1)
    assert found.layouts == {"A": "ell"}
    assert found.operands["A"].layout.name == "ell"
    assert np.all(y == 7)
    assert np.allclose(found.kernel(x=x, **found.operands), a @ x)
    assert found.kernel.threads == 1
    assert (found.gain, found.complete) == (2.0, True)
    assert found.conversion > 0
    assert found.repaid == found.conversion / (found.before - found.after)
    assert [t.layout for t in found.trials] == ["csr", "diagonal", "coo", "ell"]
    assert "no place" in found.trials[1].verdict
    assert "tensor A : ell" in found.text()
    json.dumps(found.as_dict())


def test_nothing_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "measured", faster())
    kernel = spfgen.compile(SPMV, A="csr", x="dense", y="dense")
    found = spfgen.tune_layouts(kernel, "A", A=matrix(), x=np.ones(9), layouts=["coo"])
    assert found.kernel is kernel
    assert found.layouts == {"A": "csr"}
    assert (found.gain, found.conversion, found.repaid) == (1.0, 0.0, None)
    assert "nothing is faster" in found.text()


def test_narrow_indices_are_a_layout_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layout that is there, in int32, where the operand has int64."""
    a = matrix()
    a = scipy.sparse.csr_array((a.data, a.indices.astype("int64"), a.indptr.astype("int64")), shape=a.shape)
    found = spfgen.tune_layouts(SPMV, "A", A=a, x=np.ones(9), layouts=["csr"])
    assert [t.bytes for t in found.trials] == [a.nnz * 16 + 13 * 8, a.nnz * 12 + 13 * 4]


@pytest.mark.exhaustive
def test_constants_near_the_best_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(best: Any, other: Any) -> tuple[float, float]:
        now, near = (abs(dict(r.bound.tensors["A"].layout.constants).get("C", 100) - 3) for r in (best, other))
        return (0.5 if near < now else 2.0), 1e-9 * (5 + near)

    monkeypatch.setattr(tuning, "measured", measured)
    monkeypatch.setattr(tuning, "families", lambda tree, entries: [f for f in families(tree, entries) if named(f)])

    def named(family: Any) -> bool:
        return bool(family.handle.name == "sell")

    found = spfgen.tune_layouts(SPMV, "A", A=matrix(), x=np.ones(9))
    assert found.layouts == {"A": "sell(C=3)"}
    assert np.allclose(found.kernel(x=np.ones(9), **found.operands), matrix() @ np.ones(9))


def test_layouts_and_types_of_a_spec_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tuning, "measured", faster("mine"))
    monkeypatch.setattr("spfgen.run.tuners.layout_candidates.builtin_names", lambda: ["csr"])
    spec = spfgen.parse(TEXT)
    a, x = matrix().astype("float32"), np.ones(9, "float32")
    found = spfgen.tune_layouts(spec.kernels["spmv"], "A", A=a, x=x)
    assert found.layouts == {"A": "mine<float>"}
    assert found.kernel(x=x, **found.operands).dtype == np.float32


def test_sparse_results_are_compared_by_places() -> None:
    found = spfgen.tune_layouts(
        "C[i, j] = A[i, j]*B[i, j]", "A", "B", A=matrix(), B=matrix(density=0.5), layouts=["coo"]
    )
    assert list(found.layouts) == ["A", "B"]
    got, expected = (
        tuning.Coordinates((4,), (np.array(places),), np.array(values))
        for places, values in (([0, 2, 2], [1.0, 2.0, 3.0]), ([2, 0, 3], [5.0, 1.0, 0.0]))
    )
    assert np.array_equal(*tuning._side_by_side(got, expected))


def test_a_wrong_result_is_no_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tuning.compare
    monkeypatch.setattr(tuning, "compare", lambda name, got, expected: real(name, got + 1, expected))
    a, x = matrix(), np.ones(9)
    with pytest.raises(CheckFailed, match="the same results with `coo`"):
        spfgen.tune_layouts(SPMV, "A", A=a, x=x, layouts=["coo"])
    x[0] = np.inf  # zeros that a layout stores may meet it
    found = spfgen.tune_layouts(SPMV, "A", A=a, x=x, layouts=["coo"])
    assert "not finite" in found.trials[1].verdict


def test_a_mistake_of_ours_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the conversion to a layout, or when it is measured: the others are tried all the same."""
    real = tuning._converted

    def converted(handle: Any, source: Any) -> Any:
        assert handle.name != "coo", "oops"
        return real(handle, source)

    monkeypatch.setattr(tuning, "_converted", converted)
    monkeypatch.setattr("spfgen.run.tuners.layout_candidates.share_of", one_failure("ell", layout_candidates.share_of))
    with pytest.warns(UserWarning, match="bug in spfgen") as told:
        found = spfgen.tune_layouts(SPMV, "A", A=matrix(), x=np.ones(9), layouts=["ell", "coo", "csc"])
    said = sorted(str(w.message) for w in told)
    assert len(said) == 2
    assert re.search(r"tensor A : coo\S*: trying `coo.*` failed in .*:\d+: AssertionError \(oops", said[1])
    assert re.search("bug in spfgen: ell: measuring `ell` failed in .*: AssertionError", said[0])
    assert "csc" in {t.layout for t in found.trials if t.seconds is not None}


def one_failure(name: str, real: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def share_of(layout: Any, entries: Any) -> Any:
        assert layout.name != name
        return real(layout, entries)

    return share_of


def test_what_cannot_be_stored_otherwise() -> None:
    spec = spfgen.parse(TEXT)
    a, x = matrix(), np.ones(9)
    with pytest.raises(UsageError, match="`y` is a result"):
        spfgen.tune_layouts(SPMV, "y", A=a, x=x)
    with pytest.raises(UsageError, match="`B` is not one"):
        spfgen.tune_layouts(SPMV, "B", A=a, x=x)
    with pytest.raises(UsageError, match="there are none"):
        spfgen.tune_layouts(SPMV, A=a, x=x)
    with pytest.raises(UsageError, match="twice"):
        spfgen.tune_layouts(SPMV, "A", "A", A=a, x=x)
    with pytest.raises(UsageError, match="shares the pattern"):
        spfgen.tune_layouts(spec.kernels["shared"], "A", A=a)
    with pytest.raises(UsageError, match="without a schedule"):
        spfgen.tune_layouts(spec.kernels["ordered"], "A", A=a, x=x)
    with pytest.raises(UsageError, match="expected a kernel"):
        spfgen.tune_layouts(3, "A", A=a, x=x)  # type: ignore[arg-type]


def test_a_kernel_is_bound_to_what_it_stored_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "measured", faster("ell"))
    monkeypatch.setattr("spfgen.run.tuners.layout_candidates.builtin_names", lambda: ["coo", "ell"])
    kernel = spfgen.compile(SPMV, A="csr", x="dense", y="dense")
    a, x, y = matrix(), np.ones(9), np.full(12, 7.0)
    bound = kernel.optimize("A", expected_calls=10**9, A=a, x=x, y=y)
    assert bound.tensors["A"].layout.name == "ell"
    assert np.all(y == 7)
    x[:] = np.arange(9)
    bound()
    assert np.allclose(y, a @ x)
    few = kernel.optimize("A", expected_calls=0, A=a, x=x, y=y)
    assert few.tensors["A"].arrays["val"] is a.data
    few()
    assert np.allclose(y, a @ x)


@pytest.mark.parametrize("names", [("B",), ("A", "A"), ("y",), (3,), ()])
def test_what_cannot_be_optimized(names: Any) -> None:
    kernel = spfgen.compile(SPMV, A="csr", x="dense", y="dense")
    with pytest.raises(UsageError, match="expected"):
        kernel.optimize(*names, A=matrix(), x=np.ones(9))


@pytest.mark.parametrize("calls", [-1, 2.5, "many", True])
def test_what_is_no_number_of_calls(calls: Any) -> None:
    kernel = spfgen.compile(SPMV, A="csr", x="dense", y="dense")
    with pytest.raises(UsageError, match="expected a number of calls"):
        kernel.optimize("A", expected_calls=calls, A=matrix(), x=np.ones(9))


def test_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "measured", faster("mine"))
    monkeypatch.setattr("spfgen.run.tuners.layout_candidates.builtin_names", list)
    file, target = tmp_path / "k.spf", tmp_path / "a.npz"
    file.write_text(TEXT)
    call = ["tune", str(file), "-k", "spmv", "--layouts", "A", "--data", "A=random", "--data", "x=random"]
    call += ["--size", "i=6", "--size", "j=5", "--threads", "1"]
    assert cli.run([*call, "--save", f"A={target}"]) == 0
    assert "tensor A : mine<float>" in capsys.readouterr().out
    assert spfgen.load_tensor(target).layout.name == "mine"
    assert cli.run([*call, "--seconds", "0", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["complete"], report["layouts"]) == (False, {"A": "csr<float>"})
    for save, message in ((f"A={target}", "exists"), ("x=x.npz", "--layouts x"), ("A=a.txt", ".npz")):
        assert cli.run([*call, "--save", save]) == UsageError.exit_code
        assert message in capsys.readouterr().err

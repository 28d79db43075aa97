"""The data of the experiments, and the options of the command."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from scipy.io import mmwrite
from scipy.sparse import coo_array

from experiments import __main__ as command
from experiments.data import images, made, stored

MAKERS = {
    "stencil": lambda: made.stencil(7),
    "banded": lambda: made.banded(30, 3),
    "uniform": lambda: made.uniform(30, 20, 4),
    "power_law": lambda: made.power_law(6, 8),
    "long_rows": lambda: made.long_rows(50, 2, 3, 40),
    "empty_rows": lambda: made.empty_rows(40, 5, 3),
}


@pytest.mark.parametrize("name", MAKERS)
def test_made_matrices_are_canonical_and_always_the_same(name: str) -> None:
    one, two = MAKERS[name](), MAKERS[name]()
    assert (one.data.dtype, one.indices.dtype, one.indptr.dtype) == (np.float64, np.int32, np.int32)
    assert one.has_canonical_format
    for part in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(one, part), getattr(two, part))


def test_stencil_has_the_neighbours_on_the_grid() -> None:
    dense = made.stencil(3).toarray()
    assert np.array_equal(dense, dense.T)
    assert dense.sum(axis=1).tolist() == [2, 1, 2, 1, 0, 1, 2, 1, 2]


def test_skewed_matrices_are_skewed() -> None:
    assert np.diff(made.long_rows(50, 2, 3, 40).indptr).max() > 15
    assert np.count_nonzero(np.diff(made.empty_rows(40, 5, 3).indptr)) == 8
    lengths = np.diff(made.power_law(8, 8).indptr)
    assert lengths.max() > 5 * lengths.mean()


def test_only_the_open_group_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    mmwrite(stream, coo_array(([2.0, 3.0], ([0, 1], [0, 0])), shape=(2, 2)))
    (tmp_path / "small.mtx.gz").write_bytes(gzip.compress(stream.getvalue()))
    lines = ["name group path kind dims nnz field"]
    lines += ["small open small.mtx.gz matrix 2x2 2 real", "other acceptance other.mtx.gz matrix 2x2 9 real"]
    lines += ["waves open waves.mtx.gz matrix 2x2 9 complex", "cube open cube.tns.gz tensor 2x2x2 9 real"]
    (tmp_path / "MANIFEST.tsv").write_text("\n".join(line.replace(" ", "\t") for line in lines) + "\n")
    monkeypatch.setenv("SPFGEN_DATA", str(tmp_path))
    (found,) = stored.shared_matrices()
    assert found.name == "small"
    assert found.load().toarray().tolist() == [[2, 0], [3, 0]]
    assert stored.shared_matrices(least_entries=3) == []


def test_stored_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    np.savez(tmp_path / "mri_a.npz", images=expected, labels=np.arange(2))
    lines = ["name group path kind", "mri_a open mri_a.npz images", "mri_b acceptance mri_b.npz images"]
    lines += ["mri_c open mri_c.mtx.gz matrix", "other open other.npz images"]
    (tmp_path / "MANIFEST.tsv").write_text("\n".join(line.replace(" ", "\t") for line in lines) + "\n")
    monkeypatch.setenv("SPFGEN_DATA", str(tmp_path))
    (found,) = images.shared_images("mri_")
    assert np.array_equal(found.load(), expected)
    monkeypatch.delenv("SPFGEN_DATA")
    assert images.shared_images("mri_") == []


def test_no_folder_of_data_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPFGEN_DATA", raising=False)
    assert stored.shared_matrices() == []


def test_options() -> None:
    options = command.parse(["spmv", "--quick", "--peers", "scipy, mkl", "--threads", "3"])
    assert (options.peers, options.threads, options.rounds) == (("scipy", "mkl"), 3, 5)
    assert options.json.parts[-3:] == ("experiments", "results", "spmv.json")
    assert {"spmv", "codegen_time"} <= set(command.names())
    with pytest.raises(SystemExit):
        command.parse(["spmv", "--threads", "0"])

"""What one process has compiled, another one calls without isl and Z3; whatever is wrong with the disk, it works."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen import disk_cache, folder
from spfgen.lang import nodes as lang
from spfgen.lang.parse import parse_statements
from spfgen.pipeline import generate
from spfgen.run.calls import evaluate

CODE = """
import sys
import numpy as np, scipy.sparse as sp, spfgen
A, x = sp.csr_array(np.eye(3)), np.arange(3.0)
spfgen.pack(np.eye(3), "bcsr")
T = spfgen.tensor("coo", shape=(3, 3), idx_1=[0, 2], idx_2=[1, 1], val=[1.0, 2.0])
print(spfgen.evaluate("y[i] = A[i, j]*B[i, j]*x[j] + T[i, j]", A=A, B=A.tocoo(), x=x, T=T).tolist())
print(spfgen.einsum("ij,j", A.tocsc(), x.astype(np.float32)).tolist())
print(spfgen.evaluate("C[i, j] = A[i, k]*B[k, j]", A=A, B=A, out="bcsr").arrays["val"].tolist())
print([m for m in ("islpy", "z3", "sympy") if m in sys.modules])
"""


def run(cache: Path) -> list[str]:
    variables = {**os.environ, "SPFGEN_CACHE_DIR": str(cache)}
    result = subprocess.run([sys.executable, "-c", CODE], env=variables, capture_output=True, text=True, check=True)
    return result.stdout.splitlines()


RESULTS = ["[1.0, 1.0, 4.0]", "[0.0, 1.0, 2.0]", "[[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]]"]


@pytest.mark.exhaustive
def test_a_second_process_needs_no_solver(tmp_path) -> None:
    first = run(tmp_path)
    assert first[:-1] == RESULTS
    assert "islpy" in first[-1]
    assert run(tmp_path) == [*RESULTS, "[]"]
    for file in [f for kind in ("kernels", "layouts", "packing") for f in (tmp_path / kind).iterdir()]:
        file.write_bytes(file.read_bytes()[:-3])
    damaged = run(tmp_path)
    assert damaged[:-1] == RESULTS
    assert "islpy" in damaged[-1]


# --- one kernel ----------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path))
    return tmp_path


def example(text: str = "y[i] = A[i, j]*x[j]", value: str | None = None) -> tuple[lang.Kernel, dict]:
    layouts = {
        n: spfgen.parse("").layouts[u].layout(r) for n, u, r in (("A", "csr", 2), ("x", "dense", 1), ("y", "dense", 1))
    }
    tensors = tuple(lang.TensorDecl(n, lang.LayoutUse(found.name, value)) for n, found in layouts.items())
    return lang.Kernel("kernel", tensors, (), parse_statements(text)), layouts


def entries(cache: Path) -> list[Path]:
    return sorted((cache / "kernels").iterdir()) if (cache / "kernels").is_dir() else []


def test_the_same_text_as_without(cache) -> None:
    kernel, layouts = example()
    generated = generate(kernel, layouts)
    for _ in range(2):
        found = disk_cache.compiled(kernel, layouts)
        assert (found.source, found.header, found.whole) == (generated.source, generated.header, generated.whole)
        assert found.program.tensors == generated.program.tensors
        assert found.program.sizes.readings == generated.program.sizes.readings
        assert found.program.groups == ()
        assert all(t.layout is layouts[t.name] for t in found.program.tensors)
        assert len(entries(cache)) == 1


def test_what_makes_another_entry(cache, monkeypatch) -> None:
    """The statements, the types, the layouts, and the files of spfgen and of the solvers."""
    disk_cache.compiled(*example())
    disk_cache.compiled(*example("y[i] = 2*A[i, j]*x[j]"))
    disk_cache.compiled(*example(value="float32"))
    kernel, layouts = example()
    disk_cache.compiled(kernel, {**layouts, "A": spfgen.parse("").layouts["csr_unsorted"].layout(2)})
    assert len(entries(cache)) == 4
    disk_cache.compiled(*example())
    assert len(entries(cache)) == 4
    before = folder.fingerprint()
    monkeypatch.setattr(folder, "_stamp", lambda file: "another")
    folder.fingerprint.cache_clear()
    assert folder.fingerprint() != before
    disk_cache.compiled(*example())
    assert len(entries(cache)) == 5
    monkeypatch.undo()
    folder.fingerprint.cache_clear()
    assert folder.fingerprint() == before


@pytest.mark.sampled(1)
@pytest.mark.parametrize("content", [b"", b"nonsense", pickle.dumps(3), pickle.dumps(object)])
def test_an_entry_that_holds_something_else(cache, content) -> None:
    kernel, layouts = example()
    wanted = disk_cache.compiled(kernel, layouts)
    (entry,) = entries(cache)
    folder.save(disk_cache.KERNELS, entry.name, content)
    assert disk_cache.compiled(kernel, layouts).whole == wanted.whole
    assert pickle.loads(folder.load(disk_cache.KERNELS, entry.name)).whole == wanted.whole


def test_a_layout_that_is_wrong_is_never_taken_for_checked(cache) -> None:
    text = "layout f(n) { relation { [p, q] -> [i] : i = p and q >= 0 } value val[n] at [p] }"
    for _ in range(2):
        with pytest.raises(spfgen.SpfgenError, match="bound"):
            spfgen.parse(text).layouts["f"].layout()


def test_a_kernel_from_the_disk_explains_itself(cache) -> None:
    kernel, layouts = example()
    for _ in range(2):
        made = spfgen.Kernel(kernel, layouts, kept=True)
        given = sp.csr_array(np.eye(3))
        assert made(A=given, x=np.ones(3)).tolist() == [1, 1, 1]
        assert made(A=given.astype(np.float32), x=np.ones(3, np.float32)).dtype == np.float32
        assert repr(made) == "<spfgen.Kernel kernel: y[i] = A[i, j]*x[j]>"
        assert "iteration space" in made.explain()
        assert made.source == made.generated.source


def test_a_fill_value_that_was_computed_is_kept(cache) -> None:
    """The result is declared in csr, and where nothing is stored it is True."""
    dense = np.array([[0, 2.0, 1], [1, 0, 0]])
    given = {"A": spfgen.pack(dense, "csr"), "B": spfgen.pack(dense[:, ::-1], "csr")}
    for _ in range(2):
        evaluate._KERNELS.clear()
        found = spfgen.evaluate("C[i, j] = A[i, j] == B[i, j]", **given, out="csr")
        assert found.fill
        assert np.array_equal(found.to_numpy(), dense == dense[:, ::-1])
    assert len(entries(cache)) == 1


LAYOUT = """
layout v(n) {
    size nnz
    relation { [p] -> [i] : 0 <= p < nnz and i = idx(p) }
    index idx[nnz] { range 0 <= idx(p) < n  property ORDER }
    value val[nnz] at [p]
}
"""


def test_layouts_of_one_name_do_not_share_what_is_kept(cache) -> None:
    """Packing, checks and C are kept by all that a layout says."""
    dense = np.array([1.0, 0, 2, 3])
    for order in ("strictly increasing", "strictly decreasing", "injective", "strictly increasing"):
        layout = spfgen.parse(LAYOUT.replace("ORDER", order)).layouts["v"]
        packed = spfgen.pack(dense, layout)
        if order != "injective":
            assert packed.arrays["idx"].tolist() == ([0, 2, 3] if "incr" in order else [3, 2, 0])
        assert spfgen.evaluate("s = A[i]*B[i]", A=packed, B=packed) == 14
    kept = {kind: len(list((cache / kind).iterdir())) for kind in ("kernels", "packing")}
    assert kept == {"kernels": 3, "packing": 3}
    wrong = LAYOUT.replace("0 <= p < nnz", "0 <= p").replace("ORDER", "strictly increasing")
    with pytest.raises(spfgen.SpfgenError, match="p"):
        spfgen.compile("s = A[i]", A=spfgen.parse(wrong).layouts["v"])

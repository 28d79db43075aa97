"""What is compiled for operations on arrays, and when: compilations are counted, not timed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import spfgen
from spfgen import tuning
from spfgen.errors import UsageError
from spfgen.run import compile as compiling
from spfgen.run import later
from spfgen.run.arrays import plan_cache
from spfgen.run.calls import call_cache, evaluate

rng = np.random.default_rng(5)
D = np.round(rng.random((30, 40)), 1) * (rng.random((30, 40)) < 0.2)
F = np.round(rng.random((30, 40)), 1) * (rng.random((30, 40)) < 0.2)
X = rng.random(40)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that this process compiled."""
    found: list[str] = []
    real = compiling.build

    def build(source: str, **options: object) -> Path:
        found.append(source)
        return real(source, **options)  # type: ignore[arg-type]

    import spfgen.run.calls.functions as functions

    monkeypatch.setattr(compiling, "build", build)
    monkeypatch.setattr(functions, "build", build)
    return found


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """Nothing is known of what was compiled before."""
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(later, "_STATES", {})
    monkeypatch.setattr(later, "_WORKERS", [])
    monkeypatch.setattr(evaluate, "_KERNELS", {})
    monkeypatch.setattr(call_cache, "_CALLS", {})
    monkeypatch.setattr(plan_cache, "_PLANS", {})
    yield monkeypatch
    for worker in later._WORKERS:
        worker.end()


SESSION = {
    "pack": lambda a, b: a,
    "sum of two": lambda a, b: a + b,
    "product": lambda a, b: a * b,
    "scaled": lambda a, b: 2 * a,
    "vector": lambda a, b: a @ X,
    "matrix": lambda a, b: a @ D.T,
    "from the left": lambda a, b: X @ b.T,
    "sparse product": lambda a, b: a.T @ b,
    "total": lambda a, b: a.sum(),
    "columns": lambda a, b: a.sum(axis=0),
    "mean": lambda a, b: a.mean(axis=1),
    "largest": lambda a, b: a.max(axis=0),
    "place": lambda a, b: a.argmax(axis=1),
    "transpose": lambda a, b: a.T,
    "row": lambda a, b: a[1],
    "element": lambda a, b: a[1, 2],
    "rows": lambda a, b: a[1:5],
    "some rows": lambda a, b: a[[3, 1]],
    "mask": lambda a, b: a[a > 0.5],
    "sine": lambda a, b: np.sin(a),
    "compare": lambda a, b: a > 0.5,
    "where": lambda a, b: np.where(a > 0.5, a, 0),
    "side by side": lambda a, b: np.concatenate([a, b]),
    "reshape": lambda a, b: a.reshape(-1),
    "centred": lambda a, b: a - a.mean(axis=0),
    "einsum": lambda a, b: np.einsum("ij,ij->i", a, b),
    "three": lambda a, b: np.einsum("ij,kj,kl->il", a, b, D),
    "diagonal": lambda a, b: np.einsum("ii->i", a[:30, :30]),
    "norm": lambda a, b: np.linalg.norm(a),
    "quotient": lambda a, b: a / (D + 1),
    "tensordot": lambda a, b: np.tensordot(a, b, axes=([1], [1])),
    "shifted": lambda a, b: (a - 0.3) * (b - 0.3),
}


def test_a_session_of_small_operations_compiles_nothing(fresh, compilations) -> None:
    fresh.setenv("SPFGEN_COMPILE", "background")
    a, b = spfgen.pack(D, "csr"), spfgen.pack(F, "coo")
    for name, do in SESSION.items():
        assert np.allclose(np.asarray(do(a, b)), do(D, F)), name
    one, two = spfgen.asarray(a), spfgen.asarray(b)
    assert np.isclose(((one + two) * one).sum().compute(), ((D + F) * D).sum())
    assert spfgen.pack(D, "csc").convert("bcsr", R=2, C=2).shape == D.shape
    assert compilations == []
    assert not later._WORKERS


def _lazy(a: spfgen.Tensor, b: spfgen.Tensor, t: float) -> object:
    return (spfgen.asarray(a) * t + b).compute()


NUMBERS = {
    "shifted": (lambda a, b, t: (a - t) * (b - t), lambda a, b, t: (a - t) * (b - t)),
    "larger": (lambda a, b, t: np.maximum(a, t) + b, lambda a, b, t: np.maximum(a, t) + b),
    "lazy": (_lazy, lambda a, b, t: a * t + b),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_and_fill_values_are_arguments(name, compilations, monkeypatch) -> None:
    monkeypatch.setattr("spfgen.run.arrays.tree_kernel.ENOUGH", 0)
    a, b = spfgen.pack(D, "csr"), spfgen.pack(F, "csr")
    ours, numpys = NUMBERS[name]
    for t in (0.1, -0.1):  # of the larger one the fill value is 0, which kernels know
        assert np.array_equal(np.asarray(ours(a, b, t)), numpys(D, F, t))
    del compilations[:]
    for t in (0.2, -1.5, 3.0, 1e100, 2):
        found = ours(a, b, t)
        assert np.array_equal(np.asarray(found), numpys(D, F, t))
        assert found.fill == numpys(np.zeros(1), np.zeros(1), t)[0]
    assert compilations == []


def test_a_number_has_the_type_of_what_it_meets(monkeypatch) -> None:
    monkeypatch.setattr("spfgen.run.arrays.tree_kernel.ENOUGH", 0)
    narrow, wide = D.astype(np.float32), F
    found = (spfgen.asarray(spfgen.pack(narrow, "csr")) * 0.1 + spfgen.pack(wide, "csr")).compute()
    assert np.array_equal(np.asarray(found), narrow * 0.1 + wide)


def test_the_same_kernel_for_other_names_of_operands(compilations, monkeypatch) -> None:
    monkeypatch.setattr("spfgen.run.arrays.tree_kernel.ENOUGH", 0)
    tensors = [spfgen.pack(D, "csr"), spfgen.pack(F, "csr"), spfgen.pack(D * F, "csr")]
    for one, other in ((0, 1), (1, 0), (2, 1), (0, 0)):
        a, b = spfgen.asarray(tensors[one]), spfgen.asarray(tensors[other].copy())
        found = (a * b * 0.5).compute()
        assert np.allclose(np.asarray(found), np.asarray(tensors[one]) * np.asarray(tensors[other]) * 0.5)
        if (one, other) == (0, 1):
            del compilations[:]
    assert compilations == []


def test_another_process_compiles_what_numpy_did_often(fresh, compilations) -> None:
    fresh.setenv("SPFGEN_COMPILE", "background")
    fresh.setattr(tuning, "LATER_WORK", 5_000)
    fresh.setattr(tuning, "PRODUCT_SMALL", 0)
    a = spfgen.pack(D, "csr")
    before = [a @ X for _ in range(8)]
    assert later.wait()
    assert compilations == []
    after = a @ X
    assert len(compilations) == 1
    for found in (*before, after):
        assert found.dtype == np.float64
        assert np.allclose(found, D @ X)
    fresh.setattr(later, "_STATES", {})  # as in a new process: it finds the mark
    fresh.setattr(call_cache, "_CALLS", {})
    spfgen.pack(F, "csr") @ X
    assert any(state.is_ready for state in later._STATES.values())


def test_a_process_that_loses_the_signal_to_end_ends(fresh) -> None:
    code = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); sys.stdin.read()"
    worker = later._Worker()
    worker.process = compiling.companion(code, {})
    worker.process.stdout.readline()
    ending = threading.Thread(target=worker.end, daemon=True)
    ending.start()
    ending.join(5)
    is_ended = not ending.is_alive()
    worker.process.kill()
    assert is_ended


def test_never_compiles_nothing(fresh, compilations) -> None:
    fresh.setenv("SPFGEN_COMPILE", "never")
    fresh.setattr(tuning, "LATER_AT_ONCE", 1)
    a, b = spfgen.pack(D, "csr"), spfgen.pack(F, "csc")
    assert np.allclose(a @ X, D @ X)
    assert np.allclose(np.asarray(a @ b.T), D @ F.T)
    assert np.isclose((spfgen.asarray(a) * b).sum().compute(), (D * F).sum())
    assert compilations == []
    assert not later._WORKERS


def test_what_the_variable_says_is_one_of_three(monkeypatch) -> None:
    monkeypatch.setenv("SPFGEN_COMPILE", "sometimes")
    monkeypatch.setattr(later, "_STATES", {})
    with pytest.raises(UsageError, match="background, eager, never"):
        spfgen.pack(D, "csr") @ X


@pytest.mark.timeout(120)
def test_warm_compiles_what_a_program_needs(tmp_path: Path) -> None:
    program = tmp_path / "service.py"
    program.write_text(
        textwrap.dedent("""
        import sys, numpy as np, spfgen
        from spfgen.run import compile as compiling
        real, count = compiling._compile, []
        compiling._compile = lambda *given: (count.append(1), real(*given))
        A = spfgen.pack(np.eye(4), "csr")
        assert np.allclose(A @ np.ones(4), 1)
        print(len(count), sys.argv[1:])
        """)
    )
    environment = {**os.environ, "SPFGEN_CACHE_DIR": str(tmp_path / "cache"), "SPFGEN_COMPILE": "never"}
    folder = str(Path(spfgen.__file__).parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join([folder, environment.get("PYTHONPATH", "")])

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)

    made = run("-m", "spfgen", "warm", str(program), "a")
    assert made.returncode == 0, made.stderr
    assert "compiled" in made.stderr
    assert "['a']" in made.stdout
    again = run(str(program))
    assert (again.returncode, again.stdout.split()[0]) == (0, "0"), again.stderr
    wrong = run("-m", "spfgen", "warm", str(tmp_path / "none.py"))
    assert wrong.returncode == 6

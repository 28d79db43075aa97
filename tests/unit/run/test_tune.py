"""`spfgen tune`: what is near a schedule, which one wins, and where the winner is used."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen import cli, tuned
from spfgen.errors import CheckFailed, UsageError
from spfgen.run.job import Job
from spfgen.run.tuners import tune as tuning
from spfgen.run.tuners.candidates import Schedule, loops_of, near
from spfgen.run.tuners.tune import tune

TEXT = """
kernel spmm {
  tensor A : csr
  tensor B, C : dense
  C[i, k] = A[i, j]*B[j, k]
}
kernel product {
  tensor A : csr
  tensor B : bcsr
  tensor y : dense
  y[i] = A[i, j]*B[i, j]
}
kernel ordered {
  tensor A : csr
  tensor x, y : dense
  schedule { order i }
  y[i] = A[i, j]*x[j]
}
"""
JOB = Job({"A": "random:0.3", "B": "random"}, {"i": 6, "j": 5, "k": 3})


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path / "cache"))


def faster(wanted: Callable[[Schedule], bool]) -> Callable[[Any, Any], tuple[float, float]]:
    """A clock for which each schedule that is wanted takes half the time."""

    def measured(best: Any, other: Any) -> tuple[float, float]:
        better = wanted(other.schedule) and not wanted(best.schedule)
        return (0.5, 1.0) if better else (1.0, 1.0)

    return measured


def kernel(name: str = "spmm") -> Any:
    return spfgen.parse(TEXT).kernels[name]


def say_nothing(_: str) -> None:
    pass


@pytest.mark.parametrize("name", ["spmm", "product"])
def test_schedules_near_one_differ_from_it_and_from_each_other(name: str) -> None:
    made = kernel(name).compile()
    loops = loops_of(made.generated)
    found = [s.text for s in near(Schedule(), loops, ("i", "j", "A.pi", "A.pj"))]
    assert len(found) == len(set(found))
    assert "" not in found
    words = {word for text in found for word in text.replace(";", "").split()}
    assert {"order", "tile", "serial", "unroll" if name == "spmm" else "find"} <= words


def test_every_schedule_near_one_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are accepted: the report says which are not, and why."""
    monkeypatch.setattr(tuning, "measured", faster(lambda _: False))
    report = tune(kernel(), JOB, 2, 600, say_nothing)
    assert report.complete
    measured = [t for t in report.trials if t.seconds is not None]
    assert len(measured) > 10
    assert all(t.verdict for t in report.trials if t.seconds is None)
    assert report.tuned.schedule == ""
    assert kernel().compile(2).tuned is None
    assert "nothing is faster" in report.text()


def test_the_winner_is_used_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "measured", faster(lambda s: s.order[:1] == ("k",)))
    report = tune(kernel(), JOB, 2, 600, say_nothing)
    assert report.tuned.schedule.startswith("order k")
    assert report.tuned.gain == 2

    plain = kernel().compile(2, schedule="")
    found = kernel().compile(2)
    assert found.source == kernel().compile(2, schedule=report.tuned.schedule).source != plain.source
    assert "tune" in found.explain()
    assert found.explain(json=True)["tuned"]["schedule"] == report.tuned.schedule
    # for another number of threads, other layouts, or with a schedule of its own, nothing was found
    assert kernel().compile(3).source == plain.source
    assert spfgen.compile("C[i, k] = A[i, j]*B[j, k]", A="coo", B="dense", C="dense", threads=2).tuned is None
    assert spfgen.compile("C[i, k] = A[i, j]*B[j, k]", A="csr", B="dense", C="dense", threads=2).tuned is not None
    with monkeypatch.context() as patch:
        patch.setenv("SPFGEN_TUNED", "off")
        assert kernel().compile(2).source == plain.source
        patch.setenv("SPFGEN_TUNED", "perhaps")
        with pytest.raises(UsageError, match="SPFGEN_TUNED"):
            kernel().compile(2)
    assert tuning.forget(kernel(), 2) == report.tuned
    assert kernel().compile(2).source == plain.source


def test_evaluate_uses_the_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    key = tuned.key_of(kernel().kernel, kernel().compile(schedule="").layouts, 2)
    tuned.save(key, tuned.Tuned("order k", 2.0, 1.0, {}, 2, "2026-01-01"))
    loaded: list[object] = []
    real = tuned.load
    monkeypatch.setattr(tuned, "load", lambda key: loaded.append(found := real(key)) or found)
    matrix, other = np.eye(4, 3), np.arange(6.0).reshape(3, 2)
    operand = spfgen.pack(matrix, "csr")
    got = spfgen.evaluate("C[i, k] = A[i, j]*B[j, k]", A=operand, B=other, threads=2)
    assert np.array_equal(got, matrix @ other)
    assert len(loaded) == 1


def test_a_wrong_result_is_no_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tuning.compare

    def wrong(name: str, got: Any, expected: Any) -> str:
        return real(name, got + 1, expected)

    monkeypatch.setattr(tuning, "compare", wrong)
    with pytest.raises(CheckFailed, match="the same results from the schedule"):
        tune(kernel(), JOB, 1, 600, say_nothing)


def test_a_schedule_that_is_no_longer_accepted_is_left_out() -> None:
    plain = kernel().compile(schedule="")
    key = tuned.key_of(kernel().kernel, plain.layouts, 2)
    tuned.save(key, tuned.Tuned("order nothing", 2.0, 1.0, {}, 2, "2026-01-01"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert kernel().compile(2).source == plain.source
    assert any("tune again" in str(w.message) for w in caught)


def test_a_kernel_with_a_schedule_is_refused() -> None:
    with pytest.raises(UsageError, match="without a schedule"):
        tune(kernel("ordered"), replace(JOB, data={"A": "random", "x": "random"}), None, 1, say_nothing)


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.spf"
    file.write_text(TEXT)
    call = ["tune", str(file), "-k", "spmm", "--data", "A=random", "--data", "B=random", "--threads", "1"]
    sizes = ["--size", "i=3", "--size", "j=4", "--size", "k=2"]
    assert cli.run([*call, *sizes, "--seconds", "0"]) == 0
    assert "the time was up" in capsys.readouterr().out
    assert cli.run([*call, *sizes, "--seconds", "0", "--json"]) == 0
    assert '"complete": false' in capsys.readouterr().out
    assert cli.run(["tune", str(file), "-k", "spmm", "--threads", "1", "--forget"]) == 0
    assert "dropped the schedule of the compiler, the fastest that was tried on A=random" in capsys.readouterr().err
    assert cli.run(["tune", str(file), "-k", "spmm", "--threads", "1", "--forget"]) == 0
    assert "nothing was found before" in capsys.readouterr().err
    assert cli.run(["tune", str(file), "-k", "spmm"]) == UsageError.exit_code

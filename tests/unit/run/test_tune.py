"""`spfgen tune`: what is near a schedule, which one wins, and where the winner is used."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen import cli, tuned
from spfgen.errors import CheckFailed, UsageError
from spfgen.run.calls.evaluate import prepared
from spfgen.run.calls.requests import Job
from spfgen.run.tuners import tune as tuning
from spfgen.run.tuners.apart import Overrun, apart
from spfgen.run.tuners.candidates import CandidateSchedule, loops_of, near
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
PRODUCT = """
kernel scaled {
  tensor A, C : csr
  tensor x : dense
  C[i, j] = A[i, j]*x[j]
}
"""
JOB = Job({"A": "random:0.3", "B": "random"}, {"i": 6, "j": 5, "k": 3})


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path / "cache"))


def faster(wanted: Callable[[CandidateSchedule], bool]) -> Callable[[Any, Any], tuple[float, float]]:
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
    found = [s.text for s in near(CandidateSchedule(), loops, ("i", "j", "A.pi", "A.pj"))]
    assert len(found) == len(set(found))
    assert "" not in found
    words = {word for text in found for word in text.replace(";", "").split()}
    assert {"order", "tile", "serial", "unroll" if name == "spmm" else "find"} <= words


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
def test_every_process_finds_the_winner(tmp_path: Path) -> None:
    """What it is kept under does not depend on hashes of texts, nor on what a result is made of."""
    made = spfgen.parse(TEXT + PRODUCT).kernels["scaled"].compile(2, schedule="")
    key = tuned.key_of(made.parsed, made.layouts, 2)
    tuned.save(key, tuned.Tuned("serial i", 2.0, 1.0, {}, 2, "2026-01-01"))
    for layout in made.layouts.values():
        hash(layout)
    assert key == tuned.key_of(made.parsed, made.layouts, 2)
    assert spfgen.compile("C[i, j] = A[i, j]*x[j]", A="csr", x="dense", C="csr", threads=2).tuned is not None
    operands = {"A": spfgen.pack(np.eye(3), "csr"), "x": np.ones(3)}
    assert prepared("C[i, j] = A[i, j]*x[j]", operands, 2, "once", out="csr")[0].tuned is not None
    file = tmp_path / "k.spf"
    file.write_text(PRODUCT)
    call = [sys.executable, "-m", "spfgen", "explain", str(file)]
    shown = subprocess.run(call, env={**os.environ, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "2"}, capture_output=True)
    assert b"schedule found by `spfgen tune`: `serial i`" in shown.stdout, shown


def only(*schedules: CandidateSchedule) -> Callable[..., Iterator[CandidateSchedule]]:
    return lambda *_: iter(schedules)


def test_what_cannot_win_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop over all entries around one over all rows; the same where nothing is known of it beforehand."""
    monkeypatch.setattr(tuning, "near", only(CandidateSchedule(order=("A.pj", "i"))))
    spec = spfgen.parse(TEXT.replace("schedule { order i }", "")).kernels["ordered"]
    job = Job({"A": "random:0.1", "x": "random"}, {"i": 400, "j": 50})
    report = tune(spec, job, 1, 600, say_nothing)
    assert [t.verdict.split(":")[0] for t in report.trials] == ["", "not started"]
    assert report.complete
    monkeypatch.setattr(tuning, "forecast", lambda *_: None)
    monkeypatch.setattr(tuning, "FIRST_CALL_AT_LEAST", -1e3)
    report = tune(spec, job, 1, 600, say_nothing)
    assert [t.verdict.split(":")[0] for t in report.trials] == ["", "ended"]


def test_an_interrupt_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(best: CandidateSchedule, *_: Any) -> Iterator[CandidateSchedule]:
        if best.order:
            raise KeyboardInterrupt
        yield CandidateSchedule(order=("k", "i", "A.pj"))

    monkeypatch.setattr(tuning, "near", interrupted)
    monkeypatch.setattr(tuning, "measured", faster(lambda s: bool(s.order)))
    report = tune(kernel(), JOB, 2, 600, say_nothing)
    assert report.interrupted
    assert not report.complete
    assert report.tuned.schedule.startswith("order k")
    assert kernel().compile(2).tuned == report.tuned


def sleeping(begun: Callable[[], None]) -> None:
    """In C, which nothing interrupts."""
    ctypes.CDLL(None).sleep(60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked")
def test_calls_are_ended() -> None:
    start = time.monotonic()
    with pytest.raises(Overrun):
        apart(sleeping, 0.1)

    def later(begun: Callable[[], None]) -> None:
        begun()
        sleeping(begun)

    with pytest.raises(Overrun):
        apart(later, 30, 0.1)
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        apart(sleeping)
    with pytest.raises(UsageError, match="as it was"):
        apart(refused)
    assert apart(lambda _: np.arange(3.0)).tolist() == [0, 1, 2]
    assert time.monotonic() - start < 20


def refused(_: Callable[[], None]) -> None:
    raise UsageError("as it was")


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
    assert "the time limit was reached" in capsys.readouterr().out
    assert cli.run([*call, *sizes, "--seconds", "0", "--json"]) == 0
    assert '"complete": false' in capsys.readouterr().out
    assert cli.run(["tune", str(file), "-k", "spmm", "--threads", "1", "--forget"]) == 0
    assert "dropped the schedule of the compiler, the fastest that was tried on A=random" in capsys.readouterr().err
    assert cli.run(["tune", str(file), "-k", "spmm", "--threads", "1", "--forget"]) == 0
    assert "no schedule is stored" in capsys.readouterr().err
    assert cli.run(["tune", str(file), "-k", "spmm"]) == UsageError.exit_code

"""What the command line says besides results: quiet and verbose, hints as options, progress, and after Ctrl-C."""

from __future__ import annotations

import io
import itertools
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen import cli, messages, progress
from spfgen.run.calls.requests import Job
from spfgen.run.tuners import tune as tuning
from spfgen.run.tuners.tune import tune

SPMV = "kernel spmv { tensor A : LAYOUT  tensor x, y : dense\n y[i] = A[i, j]*x[j] }"
# The diagonal and the rest as LAPACK and SPARSKIT users know it: one array for bounds and columns, so not packable.
MSR = """
layout msr(n, m) {
    size nnz
    relation { [p, q] -> [i, j] : 0 <= p < n and q = 0 and i = p and j = p ;
               [p, q] -> [i, j] : 0 <= p < n and n < ja(p) <= q < ja(p + 1) and i = p and j = ja(q) }
    index ja[nnz] { range 0 <= ja(p) <= nnz }
    value a[nnz] at [p] when q = 0
    value b[nnz] at [q] when q > 0
}
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def spec(folder: Path, layout: str, more: str = "") -> str:
    path = folder / "k.spf"
    path.write_text(more + SPMV.replace("LAYOUT", layout))
    return str(path)


def test_a_single_file_of_c(run: Any, tmp_path: Path) -> None:
    kernel = spfgen.load(spec(tmp_path, "csr")).kernels["spmv"].compile()
    assert run("generate", str(tmp_path / "k.spf"), "-o", str(tmp_path / "deep" / "a.c"))[0] == 0
    assert (tmp_path / "deep" / "a.c").read_text() == kernel.generated.whole
    assert run("generate", str(tmp_path / "k.spf"), "-o", str(tmp_path / "a.h"))[0] == 0
    assert (tmp_path / "a.h").read_text() == kernel.header
    assert {p.name for p in tmp_path.rglob("*.[ch]")} == {"a.c", "a.h"}


def test_quiet_and_verbose(run: Any, tmp_path: Path) -> None:
    path = spec(tmp_path, "csr")
    for words in (("-q", "generate", path), ("generate", "--quiet", path)):
        assert run(*words, "-o", str(tmp_path / "new")) == (0, "", "")
        (tmp_path / "new" / "spmv.c").unlink()
    code, out, err = run(
        "run", path, "-v", "--data", "A=random", "--data", "x=random", "--size", "i=5", "--size", "j=5"
    )
    assert code == 0
    assert "time" in out
    assert "spfgen: debug: " in err
    code, _, err = run("generate", "-q", path, "-k", "none")
    assert code == 2
    assert "usage" in err
    assert not logging.getLogger("spfgen").handlers, "they are there for the command only"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["csr", "bcsr(R=2, C=2)", "jds"])
def test_tensors_in_files_are_used_as_they_are(run: Any, tmp_path: Path, layout: str) -> None:
    dense = np.triu(np.arange(30.0).reshape(5, 6))
    spfgen.pack(dense, layout).save(tmp_path / "a.npz")
    np.save(tmp_path / "x.npy", np.arange(6.0))
    command = (
        "--data",
        f"A={tmp_path / 'a.npz'}",
        "--data",
        f"x={tmp_path / 'x.npy'}",
        "-o",
        f"y={tmp_path / 'y.npy'}",
    )
    assert run("run", spec(tmp_path, layout), *command)[0] == 0
    assert np.allclose(np.load(tmp_path / "y.npy"), dense @ np.arange(6.0))


def test_arrays_by_name_of_what_cannot_be_packed(run: Any, tmp_path: Path) -> None:
    path = spec(tmp_path, "msr", MSR)
    dense = np.array([[1.0, 0, 2], [0, 3, 0], [4, 0, 5]])
    arrays = {
        "ja": np.array([4, 5, 5, 6, 2, 0], dtype=np.int32),
        "a": np.array([1.0, 3, 5, 0, 0, 0]),
        "b": np.array([0, 0, 0, 0, 2.0, 4]),
    }
    np.save(tmp_path / "x.npy", np.array([1.0, 10, 100]))
    result = ("--data", f"x={tmp_path / 'x.npy'}", "-o", f"y={tmp_path / 'y.npy'}", "--force", "--check")
    np.savez(tmp_path / "a.npz", shape=np.array([3, 3]), **arrays)
    assert run("run", path, "--data", f"A={tmp_path / 'a.npz'}", *result)[0] == 0
    assert np.allclose(np.load(tmp_path / "y.npy"), dense @ [1, 10, 100])
    np.savez(tmp_path / "b.npz", **arrays)
    assert run("run", path, "--data", f"A={tmp_path / 'b.npz'}", "--shape", "A=3x3", *result)[0] == 0
    layout = spfgen.load(path).layouts["msr"]
    spfgen.tensor(layout, shape=(3, 3), **arrays).save(tmp_path / "c.npz")
    assert run("run", path, "--data", f"A={tmp_path / 'c.npz'}", *result)[0] == 0

    code, _, err = run("run", path, "--data", f"A={tmp_path / 'b.npz'}", *result)
    assert code == 6
    assert "--shape" in err
    assert "sizes=" not in err
    code, _, err = run("run", path, "--data", "A=random", "--shape", "A=3x3", *result)
    assert code == 4
    assert "--data NAME=FILE.npz, which numpy.savez wrote with ja, a, b" in err
    assert "spfgen.tensor" not in err


def test_extents_of_a_result_are_asked_for_by_name(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "k.spf"
    path.write_text("kernel k { tensor A : csr tensor w, y : dense  y[i, j] = A[i + j, p + q]*w[p, q] }")
    np.save(tmp_path / "w.npy", np.ones((2, 2)))
    given = ("--data", f"A={tmp_path / 'w.npy'}", "--data", f"w={tmp_path / 'w.npy'}")
    code, _, err = run("run", str(path), *given)
    assert code == 2
    assert "with --size i=N --size j=N" in err


def test_random_misspelt(run: Any, tmp_path: Path) -> None:
    for source in ("rnadom", "randm:0.1", "Random"):
        code, _, err = run("run", spec(tmp_path, "csr"), "--data", f"A={source}", "--data", "x=random")
        assert code == 2
        assert "did you mean `random`?" in err


def test_check_ends_as_generate_does(run: Any, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.spf"
    for text, expected in (
        ("kernel k { tensor x, y : dense\n y[i] = z[i] + x[i] }", 3),
        (
            "kernel k { tensor A : csr tensor B : csr_unsorted tensor C : dense\n C[i, j] = A[i, j]*B[i, j]\n"
            " schedule { find B.pj : search } }",
            3,
        ),
        ("kernel k { tensor A, B : csr\n B[i, j] += A[i, j]*B[j, i] }", 4),
    ):
        wrong.write_text(text)
        codes = {run(command, str(wrong), *more)[0] for command, *more in (("check",), ("generate", "-o", "-"))}
        assert codes == {expected}


def test_what_is_faster_once_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two measurements the worse one counts."""
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path))
    ratios = itertools.cycle((0.5, 1.1))  # in the child process of each schedule: first one, then the other
    monkeypatch.setattr(tuning, "measured", lambda best, other: (next(ratios), 1.0))
    kernel = spfgen.parse(SPMV.replace("LAYOUT", "csr")).kernels["spmv"]
    report = tune(kernel, Job({"A": "random", "x": "random"}, {"i": 9, "j": 9}), 1, 2, lambda _: None)
    assert len(report.trials) > 1
    assert report.tuned.schedule == ""


def test_the_files_of_the_pages(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("example", str(tmp_path / "new"))[0] == 0
    monkeypatch.chdir(tmp_path / "new")
    assert sorted(p.name for p in Path.cwd().iterdir()) == ["kernels.spf", "matrix.mtx.gz", "mine.spf"]
    code, out, _ = run("run", "mine.spf", "-k", "product", "--data", "A=matrix.mtx.gz", "--data", "x=random", "--check")
    assert code == 0
    assert "ok: y equals" in out
    assert "up to date" in run("example")[2]
    (tmp_path / "new" / "mine.spf").write_text("mine")
    assert run("example")[0] == 2
    assert (tmp_path / "new" / "mine.spf").read_text() == "mine"


def test_colours_of_specs() -> None:
    pygments = pytest.importorskip("pygments")
    from pygments.token import Error, Keyword

    from spfgen.example_files import example_files
    from spfgen.highlight import SpfLexer

    text = example_files()["mine.spf"].decode()
    tokens = list(pygments.lex(text, SpfLexer()))
    assert "".join(word for _, word in tokens) == text
    assert {"layout", "kernel", "relation", "tensor"} <= {word for kind, word in tokens if kind is Keyword}
    assert all(kind is not Error for kind, _ in tokens)


QUIET = ("NO_COLOR", "CI", "TERM")


# --- progress ------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    for name in QUIET:
        monkeypatch.delenv(name, raising=False)
    with progress.shows(lambda: True), progress.task("measuring", 3) as step:
        progress._line.timer.join()
        for number, name in enumerate(("one", "two", "three")):
            step(number, name)
            with progress.task("inner") as inner:
                inner(0, "not seen")
        messages.message("a message between")
    text = terminal.getvalue()
    assert "measuring" in text
    assert f"[{'#' * 16}{'.' * 8}] 2 of 3" in text
    assert "three" in text
    assert "not seen" not in text
    assert "a message between\n" in text
    assert progress._line is None


def test_no_progress_elsewhere(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with progress.shows(lambda: True), progress.task("measuring", 3) as step:
        step(1, "one")
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    with progress.shows(lambda: False), progress.task("measuring", 3) as step:  # quiet
        step(1, "one")
    for name in QUIET:
        with monkeypatch.context() as patched:
            for other in QUIET:
                patched.delenv(other, raising=False)
            patched.setenv(name, "dumb" if name == "TERM" else "1")
            with progress.shows(lambda: True), progress.task("measuring", 3) as step:
                assert progress._line is None
                step(1, "one")
    assert terminal.getvalue() == ""
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (("--data", "m.mtx"), "--data A=matrix.mtx"),
        (("--data", "A="), "for instance --data A=matrix.mtx"),
        (("--find", "A.pj"), "--find A.pj=search"),
        (("--size", "5"), "--size i=100"),
    ],
)
def test_options_of_the_form_name_value(run: Any, tmp_path: Path, given: tuple[str, ...], hint: str) -> None:
    code, _, err = run("run", spec(tmp_path, "csr"), *given)
    assert code == 2
    assert "NAME=VALUE" in err
    assert hint in err


def test_files_that_are_not_what_the_options_say(run: Any, tmp_path: Path) -> None:
    path = spec(tmp_path, "csr")
    for output in (tmp_path / "k.cpp", path):  # neither becomes a folder, nor is the spec file lost
        code, _, said = run("generate", path, "-o", str(output))
        assert (code, "expected a folder, or a file ending in .c or .h" in said) == (2, True)
    assert [p.name for p in tmp_path.iterdir()] == ["k.spf"]
    saved = str(tmp_path / "t.npz")
    spfgen.pack(np.eye(3), "csr").save(saved)
    code, _, said = run("run", path, "--data", f"A={saved}", "--shape", "A=4x4", "--data", "x=random")
    assert (code, f"expected extents of 4 x 4, as --shape says, but {saved} holds 3 x 3" in said) == (6, True)
    (tmp_path / "none.spf").write_bytes(b"\xef\xbb\xbf# only a byte order mark and a comment\n")
    code, _, said = run("generate", str(tmp_path / "none.spf"))
    assert (code, "note: write one, for instance `kernel product {" in said) == (2, True)


def test_an_open_bracket_in_an_expression_of_taco(run: Any) -> None:
    code, _, said = run("taco", "y(i) = A(i,j)*x(j", "-f=A:ds")
    assert code == 3
    assert "<expression>:1:15: expected subscripts and `)` after `x(`" in said
    assert f"{' ' * 18}^^\n" in said

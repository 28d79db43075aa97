"""The command line: what it prints and where, its exit codes, and how it treats files and other programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import click
import numpy as np
import pytest

import spfgen
from spfgen import cli
from spfgen.folder import human_bytes
from spfgen.lang.types import FINDS
from spfgen.run import cache
from spfgen.run import compile as compiler
from spfgen.run.calls import call

DATA = Path(__file__).resolve().parents[1] / "data"
KERNELS = str(DATA / "kernels.spf")
MATRIX = str(DATA / "bcsstk09.mtx.gz")
SMALL = ["run", KERNELS, "-k", "spmv", "--data", "A=random", "--data", "x=random", "--size", "i=9", "--size", "j=8"]


@pytest.fixture
def run(capsys):
    """Run a command in this process: (exit code, stdout, stderr)."""

    def call_it(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(list(arguments))
        captured = capsys.readouterr()
        assert "\x1b" not in captured.out + captured.err, "no colours where there is no terminal"
        return code, captured.out, captured.err

    return call_it


def process(*arguments: str, **environment: str | None) -> subprocess.Popen[str]:
    """The same in a process of its own, with other environment variables (None: without it)."""
    merged = {**os.environ, **environment}
    return subprocess.Popen(
        [sys.executable, "-m", "spfgen", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in merged.items() if value is not None},
    )


# --- help and usage ------------------------------------------------------------------------------------


def test_version_and_help(run) -> None:
    assert run("--version") == (0, f"spfgen, version {spfgen.__version__}\n", "")
    for flag in ("-h", "--help"):
        code, out, err = run(flag)
        assert (code, err) == (0, "")
        assert "Exit codes: 0 fine, 1 check failed" in out
    for name in cli.command.list_commands(click.Context(cli.command)):
        code, out, err = run(name, "-h")
        assert (code, err) == (0, "")
        assert f"\n  spfgen {name}" in out, "each command shows an example"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Usage: spfgen"),
        (["generat"], "No such command 'generat'"),
        (["run", "--nonsense"], "No such option '--nonsense'"),
        (["generate"], "Missing argument 'FILE.spf'"),
        (["generate", KERNELS], "choose: -k spmv | -k csr_times_bcsr | -k sddmm"),
        (["generate", KERNELS, "-k", "spvm"], "did you mean `spmv`?"),
        (["generate", KERNELS, "-k", "zzz"], "its kernels: spmv, csr_times_bcsr, sddmm"),
        ([*SMALL, "--repeat", "0"], "--repeat"),
        ([*SMALL, "--threads", "0"], "--threads"),
        ([*SMALL, "--threads", "99999999"], "threads"),
        ([*SMALL, "--seed", "-1"], "--seed"),
        ([*SMALL, "--find", "A.pj"], "expected --find NAME=VALUE, but it is `A.pj`"),
        ([*SMALL, "--data", "x"], "expected --data NAME=VALUE, but it is `x`"),
        ([*SMALL, "--data", "x=random"], "once for `x`"),
        ([*SMALL, "--size", "i=9"], "once for `i`"),
        ([*SMALL[:-1], "j=-8"], "--size j"),
        ([*SMALL[:-1], "j=²"], "--size j"),
        ([*SMALL[:-1], f"j={2**63}"], "--size j"),
        ([*SMALL, "--size", "k=8"], "`k` is neither"),
    ],
)
def test_wrong_usage(run, arguments, words) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("kernel f { tensor x, y : dense\n y[i] = x[i }", 3, "^"),
        ("kernel f { tensor x, y : denze\n y[i] = x[i] }", 3, "did you mean `dense`?"),
        ("layout l(n) { relation { [p] -> [i] : 0 <= p < n and i = p } value val[n] at [p] }", 2, "expected a kernel"),
        (None, 6, "bad.spf"),
    ],
)
def test_wrong_specs(run, tmp_path, text, code, words) -> None:
    path = tmp_path / "bad.spf"
    if text is not None:
        path.write_text(text)
    for command in ("generate", "explain", "run"):
        found, out, err = run(command, str(path))
        assert (found, out) == (code, "")
        assert words in err
        assert "Traceback" not in err


# --- generate, explain, layouts, doctor ----------------------------------------------------------------


def test_generate_to_a_folder(run, tmp_path) -> None:
    folder = tmp_path / "a" / "b"
    kernel = spfgen.load(KERNELS).kernels["spmv"].compile()
    command = ("generate", KERNELS, "-k", "spmv", "-o", str(folder))
    code, out, err = run(*command)
    assert (code, out) == (0, "")
    assert err.count("wrote") == 2
    assert (folder / "spmv.c").read_text() == kernel.source
    assert (folder / "spmv.h").read_text() == kernel.header
    assert "up to date" in run(*command)[2]
    (folder / "spmv.h").write_text("mine")
    code, _, err = run(*command)
    assert code == 2
    assert "spmv.h exists and differs" in err
    assert (folder / "spmv.h").read_text() == "mine"
    assert run(*command, "--force")[0] == 0
    assert (folder / "spmv.h").read_text() == kernel.header


def test_generate_in_two_phases(run, tmp_path) -> None:
    spec = tmp_path / "product.spf"
    spec.write_text("kernel product { tensor A, B, C : csr  C[i, j] = A[i, k]*B[k, j] }")
    code, _, err = run("generate", str(spec), "--phases", "-o", str(tmp_path / "made"))
    assert code == 0, err
    names = [f"product_{phase}.{end}" for phase in ("numeric", "symbolic") for end in ("c", "h")]
    assert sorted(p.name for p in (tmp_path / "made").iterdir()) == names
    for given, words in {("-o", "-"): "expected a folder", ("-o", str(tmp_path / "a.c")): "expected a folder"}.items():
        code, _, err = run("generate", str(spec), "--phases", *given)
        assert code == 2
        assert words in err
    code, _, err = run("generate", KERNELS, "-k", "spmv", "--phases", "-o", str(tmp_path))
    assert code == 2
    assert "expected a result of `spmv` whose pattern is computed, but there is none" in err


def test_generate_where_nothing_can_be_written(run, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "spmv.c").mkdir(parents=True)
    said = {"file": "expected a folder", "file/below": "cannot be written", "folder": "cannot be written"}
    for folder, words in said.items():
        for force in ([], ["--force"]):
            code, _, err = run("generate", KERNELS, "-k", "spmv", "-o", str(tmp_path / folder), *force)
            assert code == 2
            assert words in err


def test_generate_to_stdout_compiles(run, tmp_path) -> None:
    code, out, err = run("generate", KERNELS, "-k", "spmv", "-o", "-")
    assert (code, err) == (0, "")
    path = tmp_path / "spmv.c"
    path.write_text(out)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror", "-fopenmp"]
    compiled = [compiler.find_compiler().path, *strict, "-c", str(path), "-o", str(tmp_path / "spmv.o")]
    subprocess.run(compiled, check=True)


def test_explain(run) -> None:
    code, out, err = run("explain", KERNELS, "-k", "spmv")
    assert (code, err) == (0, "")
    assert "iteration space" in out
    code, out, err = run("explain", KERNELS, "-k", "spmv", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["kernel"] == "spmv"


@pytest.fixture
def asking(tmp_path) -> str:
    """A kernel for which Z3 is asked: one thing that is so, one that is not."""
    path = tmp_path / "asking.spf"
    path.write_text("kernel k { tensor A : csr  tensor B : coo  tensor C : dense  C[i, k] += A[i, j]*B[j, k] }")
    return str(path)


def test_explain_obligations(run, asking) -> None:
    """The text is the same each time; times and counterexamples come with --details and in JSON."""
    code, plain, _ = run("explain", asking)
    assert code == 0
    assert run("explain", asking)[1] == plain
    section = plain.partition("\nobligations (asked of Z3):\n")[2]
    assert ": proved" in section
    assert ": refuted" in section
    assert " ms" not in section
    detailed = run("explain", asking, "--details")[1].partition("\nobligations (asked of Z3):\n")[2]
    assert " ms" in detailed
    assert "refuted in" in detailed
    assert ", for example" in detailed
    listed = json.loads(run("explain", asking, "--json")[1])["obligations"]
    assert {o["answer"] for o in listed} >= {"proved", "refuted"}
    for one in listed:
        assert one["seconds"] > 0
        assert one["smt"].endswith("(check-sat)\n")
        assert bool(one["counterexample"]) == (one["answer"] == "refuted")
        assert one["goal"] in detailed.replace("\n      ", " ") or one["goal"] == "false"


def test_find(run, tmp_path) -> None:
    """How a position is found, for each command that compiles."""
    for name, words in {"loop": "plain loop", "search": "binary search"}.items():
        options = (KERNELS, "-k", "csr_times_bcsr", "--find", f"B.pb={name}")
        assert f"by {words}" in run("explain", *options)[1]
        assert f"by {words}" in run("generate", *options, "-o", "-")[1]
        data = "--data A=random --data B=random --size i=8 --size j=8 --repeat 1 --check"
        assert run("run", *options, *data.split())[0] == 0
    code, out, err = run("explain", KERNELS, "-k", "csr_times_bcsr", "--find", "B.pb=lop")
    assert (code, out) == (3, "")
    assert "did you mean `loop`?" in err
    assert all(name in run("explain", "-h")[1] for name in FINDS)


def test_schedule(run) -> None:
    """Clauses in place of the kernel's own, for each command that compiles."""
    options = (KERNELS, "-k", "spmv", "--schedule", "tile i by 4 as it; serial it")
    assert "scan it in [0, " in run("explain", *options)[1]
    assert "it < (nrow + 3) / 4" in run("generate", *options, "-o", "-")[1]
    data = "--data A=random --data x=random --size i=9 --size j=8 --repeat 1 --check"
    assert run("run", *options, *data.split())[0] == 0
    code, out, err = run("explain", KERNELS, "-k", "spmv", "--schedule", "vectorize i")
    assert (code, out) == (3, "")
    assert "<schedule>:1:11: expected the innermost loop" in err


def test_explain_without_obligations(run) -> None:
    assert "obligations" not in run("explain", KERNELS, "-k", "spmv")[1]
    assert json.loads(run("explain", KERNELS, "-k", "spmv", "--json")[1])["obligations"] == []


def test_explain_writes_obligations(run, asking, tmp_path) -> None:
    import z3

    folder = tmp_path / "a" / "proofs"
    command = ("explain", asking, "--smt", str(folder))
    code, out, err = run(*command)
    assert code == 0
    assert "loops:" in out
    listed = json.loads(run("explain", asking, "--json")[1])["obligations"]
    files = sorted(folder.iterdir())
    assert [f.name for f in files] == [f"{n:03}.smt2" for n in range(1, len(listed) + 1)]
    assert f"{len(files)} files written" in err
    for file, one in zip(files, listed, strict=True):
        text = file.read_text()
        assert text.startswith("; ")
        assert f"\n; goal: {one['goal']}\n" in text
        assert text.endswith(one["smt"])
        context = z3.Context()
        word = z3.Z3_eval_smtlib2_string(context.ref(), text).strip()
        assert word == {"proved": "unsat", "refuted": "sat", "unknown": "unknown"}[one["answer"]]
        assert f"; answer: {word}" in text
    assert " 0 files written" in run(*command)[2]
    files[0].write_text("mine")
    code, out, err = run(*command)
    assert (code, out) == (2, "")
    assert "001.smt2 exists and differs" in err
    assert files[0].read_text() == "mine"
    assert run(*command, "--force")[0] == 0
    assert files[0].read_text().endswith(listed[0]["smt"])
    assert run("explain", asking, "--smt", f"{asking}/below")[0] == 2


def test_layouts(run) -> None:
    code, out, err = run("layouts")
    assert (code, err) == (0, "")
    names = [line.split()[0] for line in out.splitlines()]
    assert {"csr", "dense", "coo3"} <= set(names)
    assert list(json.loads(run("layouts", "--json")[1])) == names
    for name in names:
        code, out, err = run("layouts", name)
        assert (code, err) == (0, "")
        assert "relation  {" in out
        details = json.loads(run("layouts", name, "--json")[1])
        assert details["value"]
        assert details["doc"].split("\n")[0] in out
    assert json.loads(run("layouts", "bcsr(R=4)", "--json")[1])["constants"] == {"R": 4, "C": 2}
    for wrong, words in (("crs", "did you mean `csr`?"), ("csr(", "layout"), ("csr(R=1)", "`R`")):
        code, out, err = run("layouts", wrong)
        assert (code, out) == (3, "")
        assert words in err


def test_doctor(run) -> None:
    code, out, err = run("doctor")
    assert (code, err) == (0, "")
    for topic in ("spfgen", "compiler", "OpenMP", "cache", "numpy"):
        assert f"\n{topic}" in "\n" + out
    assert json.loads(run("doctor", "--json")[1])["spfgen"] == spfgen.__version__


# --- run -----------------------------------------------------------------------------------------------


def test_run_a_real_matrix(run, tmp_path) -> None:
    target = tmp_path / "y.npy"
    command = ("run", KERNELS, "-k", "spmv", "--data", f"A={MATRIX}", "--data", "x=random", "--check", "--threads", "2")
    code, out, err = run(*command, "-o", f"y={target}")
    assert (code, err) == (0, "")
    assert "csr, 1083 x 1083, 18437 stored" in out
    assert "threads: 2" in out
    assert "ok: y equals the numpy reference" in out
    assert np.load(target).shape == (1083,)
    code, out, err = run(*command, "--json", "--repeat", "2", "-o", f"y={target}", "--force")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report["operations"] == 2 * 18437
    assert report["passed"] is True
    assert report["written"] == [str(target)]


def test_an_output_that_exists_is_refused_before_any_work(run, tmp_path, monkeypatch) -> None:
    target = tmp_path / "y.npy"
    target.write_text("mine")
    monkeypatch.setattr(call.Bound, "__call__", lambda _: pytest.fail("the kernel ran"))
    code, out, err = run(*SMALL, "-o", f"y={target}")
    assert (code, out) == (2, "")
    assert "--force" in err
    assert target.read_text() == "mine"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.npy", b"\x93NUMPY", "x.npy"),
        ("x.npz", b"PK\x03\x04", "x.npz"),
        ("x.mtx", b"no matrix", "x.mtx:1"),
        ("x.mtx.gz", b"\x1f\x8b\x08\x00", "x.mtx.gz"),
        ("x.tns", b"1 a\n", "x.tns:1"),
        ("x.txt", b"1", "x.txt"),
        ("x.npy", None, "x.npy"),
        ("folder.npy", ..., "folder.npy"),
    ],
)
def test_bad_files(run, tmp_path, name, content, words) -> None:
    path = tmp_path / name
    if content is ...:
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    code, out, err = run("run", KERNELS, "-k", "spmv", "--data", f"A={MATRIX}", "--data", f"x={path}")
    assert (code, out) == (6, "")
    assert words in err
    assert "Traceback" not in err


def test_a_truncated_archive(run, tmp_path) -> None:
    path = tmp_path / "A.mtx.gz"
    path.write_bytes(Path(MATRIX).read_bytes()[:1000])
    code, _, err = run("run", KERNELS, "-k", "spmv", "--data", f"A={path}", "--data", "x=random")
    assert code == 6
    assert "A.mtx.gz" in err


def test_data_that_contradict(run) -> None:
    code, _, err = run("run", KERNELS, "-k", "spmv", "--data", f"A={MATRIX}", "--data", "x=random", "--size", "j=7")
    assert code == 6
    assert "the size given for `j` is 7 and A.ncol is 1083" in err
    code, _, err = run("run", KERNELS, "-k", "spmv", "--data", f"A={DATA}/hermitian.mtx", "--data", "x=random")
    assert code == 6
    assert "`A` to hold float64, but the file holds complex" in err


# --- exit codes that need help -------------------------------------------------------------------------


def test_a_failed_check(run, monkeypatch) -> None:
    right = call.Bound.__call__

    def wrong(self: call.Bound) -> None:
        right(self)
        if "y" in self.tensors:
            self.tensors["y"].arrays["val"][...] += 1

    monkeypatch.setattr(call.Bound, "__call__", wrong)
    code, out, err = run(*SMALL, "--check")
    assert code == 1
    assert "check    failed: `y` differs" in out
    assert "spfgen: check failed: `y` differs" in err
    code, out, _ = run(*SMALL, "--check", "--json")
    assert (code, json.loads(out)["passed"]) == (1, False)


def test_our_own_bug(run, monkeypatch) -> None:
    monkeypatch.setattr(call.Bound, "__call__", lambda _: 1 / 0)
    code, out, err = run(*SMALL)
    assert (code, out) == (70, "")
    assert "internal error (please report this)" in err
    assert "ZeroDivisionError" in err
    monkeypatch.setenv("SPFGEN_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli.run(SMALL)


def test_what_is_not_supported(run, tmp_path) -> None:
    path = tmp_path / "far.spf"
    path.write_text(
        "layout odd(n) { size nnz relation { [p] -> [i] : 0 <= p < nnz and i = a(p) and i = b(p) }"
        " index a[nnz] { range 0 <= a(p) < n property increasing property strictly decreasing }"
        " index b[nnz] { range 0 <= b(p) < n } value val[nnz] at [p] }"
        " kernel f { tensor x : odd\n s += x[i] }"
    )
    code, _, err = run("run", str(path), "--data", "x=random:0.9", "--size", "i=9")
    assert code == 4
    assert "cannot be packed" in err


def test_no_memory(run, monkeypatch) -> None:
    def greedy(_: call.Bound) -> None:
        raise MemoryError("Unable to allocate 1 PiB")

    monkeypatch.setattr(call.Bound, "__call__", greedy)
    code, _, err = run(*SMALL)
    assert code == 6
    assert "1 PiB" in err


def test_no_compiler(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("SPFGEN_CC", raising=False)
    code, out, err = run(*SMALL)
    assert (code, out) == (5, "")
    assert "apt-get install gcc" in err
    assert run("explain", KERNELS, "-k", "spmv")[0] == 0
    assert run("generate", KERNELS, "-k", "spmv", "-o", "-")[0] == 0
    code, out, _ = run("doctor")
    assert code == 0
    assert "no C compiler found" in out


@pytest.mark.usefixtures("as_users_have_it")
def test_a_compiler_that_fails(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SPFGEN_CC", "/bin/false")
    code, _, err = run(*SMALL)
    assert code == 5
    assert "/bin/false" in err
    script = tmp_path / "cc"
    script.write_text(f'#!/bin/sh\ncase "$*" in *-O3*) echo broken >&2; exit 3;; esac\nexec {_path()} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("SPFGEN_CC", str(script))
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path / "cache"))
    code, _, err = run(*SMALL)
    assert code == 5
    assert "code 3" in err
    assert "broken" in err


def _path() -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SPFGEN_CC")
        return compiler.find_compiler().path


def test_a_compiler_without_openmp_is_a_warning_in_one_line(run, monkeypatch) -> None:
    import warnings

    monkeypatch.setattr(call.Bound, "__call__", lambda _: warnings.warn("no OpenMP", stacklevel=1))
    code, _, err = run(*SMALL)
    assert code == 0
    assert err.splitlines()[0] == "spfgen: warning: no OpenMP"


# --- other programs ------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("arguments", [["layouts"], ["-h"], ["explain", KERNELS, "-k", "spmv"]])
def test_a_reader_that_goes_away(arguments) -> None:
    one = process(*arguments)
    assert one.stdout is not None
    one.stdout.close()
    assert one.stderr is not None
    assert one.stderr.read() == ""
    assert one.wait() == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk() -> None:
    command = [sys.executable, "-m", "spfgen", "layouts"]
    with Path("/dev/full").open("w") as full:
        one = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert one.returncode == 2
    assert one.stderr == "spfgen: usage: expected to write to stdout, but No space left on device\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("moment", [0.05, 0.2, 0.35, 0.5, 0.8])
def test_interrupted(moment: float) -> None:
    code = f"""
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # which what runs in the background ignores
from spfgen.cli import run
threading.Timer({moment}, os.kill, (os.getpid(), signal.SIGINT)).start()
sizes = ["--size=i=2000", "--size=j=2000", "--size=k=2000"]
data = ["--data=A=random:0.3", "--data=B=random", "--data=D=random"]
sys.exit(run(["run", {KERNELS!r}, "-k", "sddmm", *data, *sizes]))
"""
    one = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (one.returncode, one.stdout) == (130, ""), one.stderr
    assert one.stderr.strip().endswith("spfgen: interrupted")


def test_an_interrupt_in_a_finaliser_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python drops exceptions there: the command must still end."""

    class Finalised:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    def chosen(*_: object) -> None:
        Finalised()
        time.sleep(20)

    monkeypatch.setattr(cli, "chosen", chosen)
    assert cli.run(["run", str(KERNELS), "-k", "sddmm"]) == 130


@pytest.mark.parametrize(("variable", "coloured"), [(None, True), ("1", False)])
def test_colours_only_on_a_terminal(monkeypatch, capsys, variable, coloured) -> None:
    if variable is None:
        monkeypatch.delenv("NO_COLOR", raising=False)
    else:
        monkeypatch.setenv("NO_COLOR", variable)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    cli.message("text", "title")
    assert ("\x1b[31m" in capsys.readouterr().err) is coloured


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = f"""
import sys
from spfgen.cli import run
heavy = ["islpy", "z3", "sympy", "scipy", "numpy"]
run(["--help"])
early = [m for m in heavy if m in sys.modules]
from spfgen import folder
folder.save(folder.MEASURED, "something", b"{{}}")
run(["generate", {KERNELS!r}, "-k", "spmv", "-o", "-"])
print(early, [m for m in ("z3", "scipy", "numpy") if m in sys.modules], file=sys.stderr)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "[] []"


# --- cache ---------------------------------------------------------------------------------------------


@pytest.fixture
def cache_of_two(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(folder))
    monkeypatch.delenv("SPFGEN_CACHE", raising=False)
    for name, size in (("first", 1500), ("second", 20)):
        cache.fetch(cache.key(name), lambda target, size=size: target.write_bytes(b"x" * size), about=name)  # type: ignore[misc]
    os.utime(folder / f"{cache.key('first')}.so", (0, 0))
    return folder


def test_cache_ls(run, cache_of_two) -> None:
    code, out, err = run("cache", "ls")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].endswith(f"20 B  {cache.key('second')[:12]}  second")
    assert lines[1].startswith("1970-01-01 ") or lines[1].startswith("1969-12-31 ")
    assert lines[1].endswith(f"1.5 kB  {cache.key('first')[:12]}  first")
    assert lines[2:] == [f"2 compiled, 1.52 kB, in {cache_of_two}"]
    code, out, err = run("cache", "ls", "--json")
    data = json.loads(out)
    assert (code, data["path"], data["bytes"]) == (0, str(cache_of_two), 1520)
    assert [(k["key"], k["about"], k["bytes"]) for k in data["kernels"]] == [
        (cache.key("second"), "second", 20),
        (cache.key("first"), "first", 1500),
    ]
    assert datetime.fromisoformat(data["kernels"][1]["made"]).timestamp() == 0


def test_cache_path_and_clear(run, cache_of_two) -> None:
    (cache_of_two / "mine.txt").write_text("mine")
    assert run("cache", "path") == (0, f"{cache_of_two}\n", "")
    assert run("cache", "clear") == (0, "", f"spfgen: 2 compiled kernels removed from {cache_of_two}\n")
    assert [f.name for f in cache_of_two.iterdir()] == ["mine.txt"]
    assert run("cache", "ls")[1] == f"0 compiled, 0 B, in {cache_of_two}\n"


def test_cache_that_is_off_or_cannot_be_used(run, monkeypatch, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    for command in ("ls", "path", "clear"):
        monkeypatch.setenv("SPFGEN_CACHE", "off")
        code, out, err = run("cache", command)
        assert (code, out) == (2, "")
        assert "SPFGEN_CACHE is off" in err
        monkeypatch.setenv("SPFGEN_CACHE", "on")
        monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path / "file" / "below"))
        code, out, err = run("cache", command)
        assert (code, out) == (5, "")
        assert "cannot be made" in err


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_600, "1 MB"), (5 * 10**21, "5e+03 EB")]
)
def test_bytes_for_people(count, text) -> None:
    assert human_bytes(count) == text


# --- inspect -------------------------------------------------------------------------------------------


def test_inspect(run) -> None:
    code, out, err = run("inspect", MATRIX, "-l", "bcsr(R=3, C=3)")
    assert (code, err) == (0, "")
    assert out.startswith("shape       1083 x 1083\nentries     18437 stored, density 0.0157\n")
    assert "\nsymmetry    symmetric; 100 % of the pattern is mirrored\n" in out
    assert "bcsr(R=3, C=3) 12.5 B 231 kB nb = 3025".split() in [line.split() for line in out.splitlines()]
    code, out, err = run("inspect", MATRIX, "--json")
    data = json.loads(out)
    assert (code, err, data["file"], data["shape"]) == (0, "", MATRIX, [1083, 1083])
    assert data["memory"]["csr"]["bytes"] == 4 * 1084 + 12 * 18437
    assert data["diagonals"]["count"] == 31
    assert "no place" in data["memory"]["lower"]["reason"]


def test_inspect_with_own_layouts_and_shape(run, tmp_path) -> None:
    spec = tmp_path / "mine.spf"
    spec.write_text(
        "layout pairs(n, m, k) { size c relation { [p] -> [i, j, l] : 0 <= p < c and i = a(p) and j = b(p) "
        "and l = d(p) } index a[c] { range 0 <= a(p) < n } index b[c] { range 0 <= b(p) < m } "
        "index d[c] { range 0 <= d(p) < k } value val[c] at [p] }"
    )
    fibres = str(DATA / "fibres.tns")
    code, out, err = run("inspect", fibres, "-s", str(spec), "--shape", "20x3,4", "--json")
    data = json.loads(out)
    assert (code, err, data["shape"]) == (0, "", [20, 3, 4])
    assert data["memory"]["pairs"]["bytes"] == 4 * (3 * 4 + 8)
    assert run("inspect", fibres, "--shape", "1x3x4")[0] == 6
    code, _, err = run("inspect", fibres, "-l", "csr")
    assert code == 2
    assert "expected a layout of 3 dimensions, but `csr` is not one" in err


def test_layouts_of_a_file(run, tmp_path) -> None:
    spec = tmp_path / "mine.spf"
    spec.write_text(
        'layout v(n; B) { doc "Blocks." relation { [p, r] -> [i] : 0 <= r < B and 0 <= p and i = B*p + r } '
        "value val[ceil(n/B), B] at [p, r] } layout w = v(B=3) layout u(n; B = 2) "
        '{ doc "Pairs." relation { [p] -> [i] : 0 <= p < n and i = p } value val[n] at [p] }'
    )
    code, out, err = run("layouts", "-s", str(spec))
    assert (code, out.splitlines(), err) == (0, ["v  needs B", "w  v(B=3)", "u  Pairs."], "")
    code, _, err = run("draw", str(spec))
    assert code == 2
    assert f"NAME -s {spec}" in err
    code, _, err = run("draw", "w")
    assert code == 3
    assert "a layout of your own is found in its file: -s FILE.spf" in err


def test_inspect_says_which_layouts_cannot_be_packed(run, tmp_path) -> None:
    spec = tmp_path / "odd.spf"
    array = "index {0}[nnz] {{ range 0 <= {0}(p) < n }}"
    spec.write_text(
        "layout odd(n) { size nnz relation { [p] -> [i] : 0 <= p < nnz and i = a(p) + b(p) } "
        f"{array.format('a')} {array.format('b')} value val[nnz] at [p] }}"
    )
    np.save(tmp_path / "x.npy", np.array([0, 1.0]))
    code, out, err = run("inspect", str(tmp_path / "x.npy"), "-s", str(spec))
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].split()[:6] == ["odd", "-", "-", "layout", "`odd`", "cannot"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere.mtx"], 6, "there is no nowhere.mtx"),
        (["x.txt"], 6, "expected a file ending in"),
        ([MATRIX, "-l", "cssr"], 3, "did you mean"),
        ([MATRIX, "-s", "nowhere.spf"], 6, "nowhere.spf"),
        ([MATRIX, "--shape", "3x"], 2, "expected extents such as 30x40 for --shape, but it is `3x`"),
        ([MATRIX, "--shape", ""], 2, "expected extents such as 30x40"),
        ([MATRIX, "--shape", "3xa"], 2, "for --shape, but it is `a`"),
        ([MATRIX, "--shape", "3x99999999999999999999"], 2, "from 0 to 2^63 - 1"),
        ([MATRIX, "--shape", "3x-4"], 2, "--shape"),
        ([MATRIX, "--shape", "3x4"], 6, "expected the shape 3 x 4"),
        ([MATRIX, "--draw", "x.jpeg"], 2, "expected a picture ending in .png, .pdf, .svg"),
        ([MATRIX, "--draw", str(DATA)], 2, "expected a picture"),
        ([MATRIX, "--draw", "/nowhere/x.png"], 2, "expected a folder"),
    ],
)
def test_inspect_of_what_is_wrong(run, arguments, code, words) -> None:
    found, out, err = run("inspect", *arguments)
    assert (found, out) == (code, "")
    assert words in err


def test_pictures_need_matplotlib_and_overwrite_nothing(run, tmp_path, monkeypatch) -> None:
    path = tmp_path / "x.png"
    path.write_text("mine")
    code, _, err = run("inspect", MATRIX, "--draw", str(path))
    assert code == 2
    assert "overwrite it with --force" in err
    assert path.read_text() == "mine"
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = run("inspect", MATRIX, "--draw", str(path), "--force")
    assert code == 2
    assert "pip install 'spfgen[draw]'" in err
    assert path.read_text() == "mine"


def test_pictures(run, tmp_path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "x.png"
    path.write_text("old")
    assert run("inspect", MATRIX, "--draw", str(path), "--force")[0] == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_draw(run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("draw", "csr")[0] == 0
    path = tmp_path / "csr.svg"
    assert path.read_text().startswith("<svg ")
    path.write_text("mine")
    code, _, err = run("draw", "csr")
    assert (code, path.read_text()) == (2, "mine")
    assert "--force" in err
    assert run("draw", "csr", "--force")[0] == 0
    code, out, _ = run("draw", "csr", "-o", "-")
    assert (code, out.strip()) == (0, path.read_text())


def test_draw_data_in_a_layout_of_ones_own(run, tmp_path) -> None:
    spec, data = tmp_path / "own.spf", tmp_path / "m.mtx"
    spec.write_text("layout own(n, m) { relation { [a, b] -> [i, j] : 0 <= a < n and 0 <= b < m and i = a and j = b }"
                    " value cells[n, m] at [a, b] }")  # fmt: skip
    data.write_text("%%MatrixMarket matrix coordinate integer general\n2 2 1\n2 1 77\n")
    code, out, _ = run("draw", "own", "-s", str(spec), "--data", f"A={data}", "-o", "-")
    assert code == 0
    assert out.count(">77<") == 2
    assert ">cells[a, b]<" in out


PYRAMID = """layout pyramid(n, m) {
    size kl
    relation { [r, j] -> [i, j] : 0 <= r <= kl and 0 <= j < m and i = j + r }
    index shift[m] { range 0 <= shift(j) <= kl }
    value cells[kl + 1, m] at [r, j] }
kernel k { tensor A : pyramid tensor x, y : dense y[i] = A[i, j]*x[j] }"""


def test_a_tensor_that_cannot_be_packed(run, tmp_path) -> None:
    """It is drawn and run with as it is, from arrays by name or from Tensor.save."""
    spec, arrays, saved = tmp_path / "own.spf", tmp_path / "arrays.npz", tmp_path / "saved.npz"
    spec.write_text(PYRAMID)
    made = {"cells": np.array([[1.0, 2.0], [3.0, 77.0]]), "shift": np.zeros(2, np.int32)}
    np.savez(arrays, shape=(3, 2), kl=1, **made)
    spfgen.tensor(spfgen.load(spec).layouts["pyramid"], shape=(3, 2), **made).save(saved)
    assert run("draw", "pyramid", "-s", str(spec), "--data", MATRIX, "-o", "-")[0] == 6
    for path in (arrays, saved):
        code, out, _ = run("draw", "pyramid", "-s", str(spec), "--data", str(path), "-o", "-")
        assert (code, out.count(">77<")) == (0, 2)
        code, out, _ = run("run", str(spec), "--data", f"A={path}", "--data", "x=random", "--check")
        assert code == 0


def test_arrays_by_name_of_a_layout_without_index_arrays(run, tmp_path) -> None:
    spec, path = tmp_path / "own.spf", tmp_path / "arrays.npz"
    spec.write_text(PYRAMID.replace("    index shift[m] { range 0 <= shift(j) <= kl }\n", ""))
    np.savez(path, cells=np.array([[1.0, 2.0], [3.0, 4.0]]), shape=(3, 2))
    target = str(tmp_path / "y.npy")
    np.save(tmp_path / "x.npy", np.array([1.0, 10.0]))
    given = ["--data", f"A={path}", "--data", f"x={tmp_path / 'x.npy'}", "-o", f"y={target}"]
    assert run("run", str(spec), *given)[0] == 0
    assert np.load(target).tolist() == [1, 23, 40]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nope"], 3, "`nope` is not known"),
        (["csr", "-o", "x.png"], 2, "ending in .svg"),
        (["csr", "--shape", "3x4"], 2, "with --data"),
        (["sv", "--data", MATRIX], 2, "data of 1 dimension "),
        (["csr", "--data", MATRIX], 2, "at most 600 elements"),
        (["csr", "--data", "nowhere.mtx"], 6, "there is no nowhere.mtx"),
    ],
)
def test_draw_what_is_wrong(run, arguments, code, words) -> None:
    found, out, err = run("draw", *arguments)
    assert (found, out) == (code, "")
    assert words in err


# --- completion ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "items"),
    [
        (["gen"], ["plain,generate"]),
        (["cache", ""], ["plain,clear", "plain,ls", "plain,path"]),
        (["generate", "ker"], ["file,ker"]),
        (["inspect", ""], ["file,"]),
        (["inspect", "x.mtx", "--spec", "x"], ["file,x"]),
        (["run", KERNELS, "-k", "sp"], ["plain,spmv"]),
        (["run", "nowhere.spf", "-k", "s"], []),
        (["layouts", "dcs"], ["plain,dcsc", "plain,dcsr"]),
        (["inspect", "x.mtx", "-l", "bcs"], ["plain,bcsr", "plain,bcsr2", "plain,bcsr_unsorted"]),
        (["run", "--thr"], ["plain,--threads"]),
    ],
)
def test_completion(run, monkeypatch, words, items) -> None:
    monkeypatch.setenv("_SPFGEN_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["spfgen", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    code, out, err = run()
    assert (code, err) == (0, "")
    assert out.split() == items


def test_layouts_tell_how_facts_are_checked(run) -> None:
    _, out, _ = run("layouts", "csr")
    assert out.count("checked for neighbours: proved to imply it for all p, q") == 2
    checks = json.loads(run("layouts", "sv_unsorted", "--json")[1])["index"]["idx"]["checks"]
    assert checks["0 <= idx(p) < n"] == "checked one by one"
    assert checks["injective"].startswith("checked for pairs that follow one another among equal keys: proved")


def test_an_error_that_an_interrupt_made_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of a library whose import was interrupted."""

    def main(*_: object, **more: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise ImportError("half a library") from None

    monkeypatch.setattr(cli.command, "main", main)
    assert cli.run(["layouts"]) == 130
    assert capsys.readouterr().err == "spfgen: interrupted\n"

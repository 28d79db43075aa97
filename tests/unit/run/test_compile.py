import ctypes
import os
import re
import shlex
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

import spfgen
from spfgen.errors import ToolError
from spfgen.run import cache, compile  # noqa: A004

SUM = """
#include <stdint.h>
double total(const double *restrict x, int64_t n) {
    double s = 0;
#pragma omp parallel for reduction(+ : s)
    for (int64_t i = 0; i < n; i++) s += x[i];
    return s;
}
"""


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """No compiler chosen from outside, nothing remembered, a cache of its own."""
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path / "kernels"))
    for name in ("SPFGEN_CC", "CC", "SPFGEN_CACHE"):
        monkeypatch.delenv(name, raising=False)
    compile._find_compiler.cache_clear()
    compile._native_flags.cache_clear()
    yield
    compile._find_compiler.cache_clear()
    compile._native_flags.cache_clear()


@pytest.fixture
def real():
    """The path of a compiler that works."""
    return compile.find_compiler().path


@pytest.fixture
def wrapper(tmp_path, real):
    """Make a shell script that stands before the real compiler, and logs its arguments."""

    def write(name, script=""):
        file = tmp_path / "bin" / name
        file.parent.mkdir(exist_ok=True)
        log = shlex.quote(str(tmp_path / "log"))
        file.write_text(f'#!/bin/sh\necho {name} "$@" >> {log}\n{script}\nexec {shlex.quote(real)} "$@"\n')
        file.chmod(0o755)
        return file

    return write


def logged(tmp_path):
    file = tmp_path / "log"
    return file.read_text().splitlines() if file.exists() else []


def compilations(tmp_path):
    return [line for line in logged(tmp_path) if "kernel.c" in line]


def call_total(path):
    function = compile.load(path).total
    function.restype = ctypes.c_double
    return function((ctypes.c_double * 4)(1, 2, 3, 4.5), ctypes.c_int64(4))


@pytest.mark.parametrize("optimise", [False, True])
def test_build_load_and_call(optimise):
    assert call_total(compile.build(SUM, optimise=optimise)) == 10.5


def test_compiler_says_what_it_is(real):
    compiler = compile.find_compiler()
    shown = subprocess.run([real, "--version"], capture_output=True, text=True).stdout
    assert compiler.version == shown.splitlines()[0]
    machine = subprocess.run([real, "-dumpmachine"], capture_output=True, text=True).stdout
    assert compiler.target == machine.strip()


def test_openmp_flags_turn_openmp_on():
    if not compile.find_compiler().openmp:
        pytest.skip("this compiler has no OpenMP")
    library = compile.load(compile.build("#include <omp.h>\nint f(void) { return _OPENMP; }", optimise=False))
    assert library.f() >= 199810


def test_second_build_starts_no_compiler(tmp_path, monkeypatch, wrapper):
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc")))
    first = compile.build(SUM)
    before = compilations(tmp_path)
    compile._find_compiler.cache_clear()  # as in another process
    compile._native_flags.cache_clear()
    assert compile.build(SUM) == first
    assert compilations(tmp_path) == before


ONE_OF_MANY = """
import sys, time
from spfgen.run import compile  # noqa: A004
while time.time() < float(sys.argv[2]):
    pass
compile.load(compile.build(sys.argv[1])).total
"""


@pytest.mark.exhaustive
def test_sixteen_processes_compile_once(tmp_path, monkeypatch, wrapper):
    """Each command line of the compiler that makes something is seen once, whoever comes first."""
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc", "sleep 0.2")))
    before = set((tmp_path / "kernels").glob("*.so"))
    start = str(time.time() + 1)
    processes = [subprocess.Popen([sys.executable, "-c", ONE_OF_MANY, SUM, start]) for _ in range(16)]
    assert [process.wait() for process in processes] == [0] * 16
    made = compilations(tmp_path)
    fixed = [re.sub(r"\S*(kernel\.c|/kernels/)\S*", "", line) for line in made]
    assert any("-O3" in line for line in fixed)
    assert len(fixed) == len(set(fixed)), made
    assert len(fixed) == len(set((tmp_path / "kernels").glob("*.so")) - before)
    assert not list((tmp_path / "kernels").glob("*.tmp"))


def test_entries_say_what_they_are():
    compile.build("/* total, made for a test. Adds. */\n" + SUM, optimise=False)
    compile.build("int f(void) { return 1; }", optimise=False)
    said = {entry.about for entry in cache.entries(cache.kept())}
    assert {"total, made for a test", ""} <= said
    assert all(not text or text.startswith(("total", "whether the compiler takes")) for text in said)


@pytest.mark.usefixtures("as_users_have_it")
def test_flags(tmp_path, monkeypatch, wrapper):
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc")))
    compile.build(SUM, extra_flags=("-DEXTRA=1",))
    fast = compilations(tmp_path)[-1].split()
    for flag in ("-std=c99", "-O3", "-ffp-contract=fast", "-fwrapv", "-fPIC", "-shared", "-DEXTRA=1"):
        assert flag in fast
    assert fast[-1] == "-lm"
    compile.build(SUM, optimise=False)
    slow = compilations(tmp_path)[-1].split()
    assert "-O1" in slow
    assert "-march=native" not in slow
    assert not any("fast-math" in word or word == "-Ofast" for word in fast + slow)


@pytest.mark.usefixtures("as_users_have_it")
def test_everything_that_matters_is_in_the_key(monkeypatch, wrapper):
    paths = [compile.build(SUM, optimise=False)]
    paths.append(compile.build(SUM + "\n", optimise=False))
    paths.append(compile.build(SUM, optimise=False, extra_flags=("-DA",)))
    paths.append(compile.build(SUM))
    monkeypatch.setattr(compile, "_processor", lambda: "another processor")
    paths.append(compile.build(SUM))
    monkeypatch.setattr("spfgen.version.__version__", "0.0.0")
    paths.append(compile.build(SUM, optimise=False))
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc")))
    paths.append(compile.build(SUM, optimise=False))
    version = 'case "$1" in --version) echo "mycc 99"; exit 0;; esac'
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc", version)))
    compile._find_compiler.cache_clear()
    paths.append(compile.build(SUM, optimise=False))
    assert compile.find_compiler().version == "mycc 99"
    # The same words to a compiler of the same name and version, which was edited, and one that stands elsewhere.
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc", version + "\n# edited")))
    paths.append(compile.build(SUM, optimise=False))
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc2", version)))
    paths.append(compile.build(SUM, optimise=False))
    monkeypatch.setenv("CPATH", "/nowhere")
    paths.append(compile.build(SUM, optimise=False))
    # -march=native may not exist here; then the processor does not matter and two of them agree.
    native = bool(compile._native_flags(compile.find_compiler(), compile.TUNED))
    assert len(set(paths)) == len(paths) - (not native)


@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast", "-funsafe-math-optimizations"])
def test_flags_that_relax_arithmetic_are_refused(monkeypatch, real, flag):
    with pytest.raises(ToolError, match=f"expected flags that keep IEEE arithmetic, but .* has {flag}"):
        compile.build(SUM, extra_flags=(flag,))
    monkeypatch.setenv("SPFGEN_CC", f"{shlex.quote(real)} {flag}")
    with pytest.raises(ToolError, match=f"SPFGEN_CC has {flag}"):
        compile.find_compiler()


def test_wrong_source_shows_command_and_output(tmp_path, real):
    with pytest.raises(ToolError) as caught:
        compile.build("int f(void) { return lost; }", optimise=False)
    text = str(caught.value)
    assert text.startswith("expected the compiler to accept the C text, but it ended with code 1\n")
    assert real in text
    assert "-std=c99" in text
    assert "lost" in text
    assert "error:" in text
    assert compilations(tmp_path) == []


def test_long_output_is_cut():
    source = "".join(f"int f{i}(void) {{ return lost{i}; }}\n" for i in range(100))
    with pytest.raises(ToolError, match=r"\.\.\. \(\d+ more lines\)") as caught:
        compile.build(source, optimise=False)
    assert len(str(caught.value).splitlines()) < 30


def test_order_of_the_names(monkeypatch, wrapper, real):
    one, two, cc = wrapper("one"), wrapper("two"), wrapper("cc")
    monkeypatch.setenv("PATH", str(cc.parent), prepend=os.pathsep)
    assert compile.find_compiler().path == str(cc)
    monkeypatch.setenv("CC", str(two))
    assert compile.find_compiler().path == str(two)
    monkeypatch.setenv("SPFGEN_CC", str(one))
    assert compile.find_compiler().path == str(one)
    monkeypatch.delenv("SPFGEN_CC")
    monkeypatch.setenv("CC", "there-is-no-such-compiler")  # not ours, so passed over
    assert compile.find_compiler().path == str(cc)
    cc.write_text("#!/bin/sh\nexit 1\n")  # as the stub of macOS
    compile._find_compiler.cache_clear()
    assert compile.find_compiler().path != str(cc)


def test_compiler_is_asked_once_per_environment(tmp_path, monkeypatch, wrapper):
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc")))
    assert compile.find_compiler() is compile.find_compiler()
    assert sum("--version" in line for line in logged(tmp_path)) == 1


def test_flags_in_the_variable_reach_the_compiler(monkeypatch, real):
    monkeypatch.setenv("SPFGEN_CC", f"{shlex.quote(real)} '-DANSWER=40 + 2'")
    library = compile.load(compile.build("int f(void) { return ANSWER; }", optimise=False))
    assert library.f() == 42


@pytest.mark.parametrize("value", ["there-is-no-such-compiler", "false"])
def test_wrong_choice_is_an_error(monkeypatch, value):
    monkeypatch.setenv("SPFGEN_CC", value)
    with pytest.raises(ToolError, match=f"in the environment variable SPFGEN_CC, but '{value}' is not one"):
        compile.find_compiler()


def test_unbalanced_quote(monkeypatch):
    monkeypatch.setenv("SPFGEN_CC", "gcc '-O")
    with pytest.raises(ToolError, match="expected a command line in SPFGEN_CC"):
        compile.find_compiler()


def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"^no C compiler found") as caught:
        compile.build(SUM)
    notes = "\n".join(caught.value.notes)
    for remedy in ("apt-get install gcc", "xcode-select --install", "SPFGEN_CC", "generate and explain work"):
        assert remedy in notes


def test_without_openmp_one_warning_and_one_thread(monkeypatch, wrapper):
    refuse = 'case "$*" in *-fopenmp*) echo "no openmp" >&2; exit 1;; esac'
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc", refuse)))
    with pytest.warns(UserWarning, match="compiles without OpenMP, so kernels use one thread"):
        path = compile.build(SUM, optimise=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        compile.build(SUM + "\n", optimise=False)
    assert compile.find_compiler().openmp == ()
    assert call_total(path) == 10.5


def test_spelling_of_apple(monkeypatch, wrapper):
    # Refuses -fopenmp alone; with -Xpreprocessor it compiles as the real one does with -fopenmp.
    script = """
case "$*" in
  *"-Xpreprocessor -fopenmp -lomp"*)
    exec REAL -fopenmp $(echo "$*" | sed 's/-Xpreprocessor -fopenmp -lomp//');;
  *-fopenmp*) exit 1;;
esac"""
    real = compile.find_compiler()
    if real.openmp != ("-fopenmp",):
        pytest.skip("this compiler has no -fopenmp")
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc", script.replace("REAL", shlex.quote(real.path)))))
    assert compile.find_compiler().openmp == ("-Xpreprocessor", "-fopenmp", "-lomp")
    assert call_total(compile.build(SUM, optimise=False)) == 10.5


@pytest.mark.usefixtures("as_users_have_it")
def test_without_march_native(tmp_path, monkeypatch, wrapper):
    refuse = 'case "$*" in *march=native*) echo "unknown -march" >&2; exit 1;; esac'
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc", refuse)))
    assert call_total(compile.build(SUM)) == 10.5
    assert "-O3" in compilations(tmp_path)[-1]
    assert "-march=native" not in compilations(tmp_path)[-1]


def test_compiler_that_writes_nothing(monkeypatch, wrapper):
    silent = 'case "$*" in *kernel.c*) exit 0;; esac'
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc", silent)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ToolError, match="expected a shared object from the compiler, but it wrote none"):
            compile.build(SUM, optimise=False)


def test_endless_compiler_is_killed_with_its_children(tmp_path, monkeypatch, wrapper):
    # The child of the script holds the pipe open, as cc1 does when only the driver gcc is killed.
    hang = f'case "$*" in *-DHANG*) sleep 300 & echo $! > {tmp_path}/pid; wait;; esac'
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc", hang)))
    monkeypatch.setattr(compile, "TIMEOUT", 1.0)
    compile.find_compiler()
    began = time.monotonic()
    with pytest.raises(ToolError, match="expected the compiler to finish within 1 seconds"):
        compile.build(SUM, extra_flags=("-DHANG",), optimise=False)
    assert time.monotonic() - began < 20
    child = int((tmp_path / "pid").read_text())
    for _ in range(50):
        if not alive(child):
            break
        time.sleep(0.1)
    assert not alive(child)


def alive(process):
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True).stdout
    return bool(state.strip()) and not state.startswith("Z")


def test_load_refuses_what_is_no_library(tmp_path):
    file = tmp_path / "x.so"
    file.write_text("hello")
    with pytest.raises(ToolError, match=r"expected to load .*x\.so, but"):
        compile.load(file)


def test_load_takes_a_relative_path(tmp_path, monkeypatch):
    path = compile.build("int f(void) { return 3; }", optimise=False)
    monkeypatch.chdir(path.parent)
    assert compile.load(path.name).f() == 3


def test_doctor(tmp_path, real):
    report = compile.doctor()
    assert report["compiler"] == real
    assert report["target"] == compile.find_compiler().target
    assert report["OpenMP"].split(",")[0] in ("yes", "no")
    assert report["cache"] == f"{tmp_path / 'kernels'}, writable"
    assert report["python"].startswith(sys.version.split()[0])
    for name in ("numpy", "scipy", "islpy", "z3-solver", "sympy", "lark", "click"):
        assert report[name][0].isdigit()
    assert all(isinstance(answer, str) for answer in report.values())


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("gcc (Debian 12.2.0-14+deb12u1) 12.2.0", True),
        ("cc (Debian 12.2.0-14+deb12u1) 12.2.0", True),
        ("x86_64-linux-gnu-gcc-11 (Debian 11.3.0-12) 11.3.0", True),
        ("Debian clang version 14.0.6", True),
        ("gcc (GCC) 13.2.1 20230801 (Red Hat 13.2.1-1)", False),
        ("gcc (GCC) 12.2.1 20221121 (Red Hat 12.2.1-4)", True),
        ("Ubuntu clang version 18.1.3 (1ubuntu1)", False),
        ("Apple clang version 14.0.3 (clang-1403.0.22.14.1)", False),
        ("tcc version 0.9.27 (x86_64 Linux)", False),
        ("", False),
    ],
)
def test_doctor_tells_which_compilers_were_tried(version, known, monkeypatch):
    monkeypatch.setattr(compile, "find_compiler", lambda: compile.Compiler("cc", version, "", ()))
    told = compile.doctor()["compilers tried"]
    assert told.startswith("gcc 11.3, gcc 12.2, clang 14.0; this is ")
    assert ("this is one of them" in told) == known
    assert ("`spfgen check FILE`" in told) != known


def test_doctor_reports_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path / "file" / "x"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = compile.doctor()
    assert report["compiler"] == "none: no C compiler found"
    assert "not used: the cache folder" in report["cache"]
    assert str(cache.where().path) in report["cache"]


def test_doctor_imports_nothing_heavy():
    code = """
import sys
from spfgen.run import compile  # noqa: A004
compile.doctor()
sys.exit(bool({"numpy", "scipy", "islpy", "z3", "sympy", "lark"} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("inverse", ["arctan", "arcsin", "arccos"])
def test_functions_of_inverse_functions_keep_nan(inverse: str, dtype: str) -> None:
    """Compilers know identities for them that need not hold for nan and infinity."""
    x = np.array([np.nan, np.inf, -np.inf, 0.0, 0.5, -3.0], dtype)
    functions = ("sin", "cos", "tan", "sinh", "cosh", "exp", "log")
    text = "\n".join(f"y{n}[i] = {f}({inverse}(x[i]))" for n, f in enumerate(functions))
    kernel = spfgen.compile(text, x=f"dense <{dtype}>")
    with np.errstate(all="ignore"):
        for found, function in zip(kernel(x=x).values(), functions, strict=True):
            expected = getattr(np, function)(getattr(np, inverse)(x))
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_libomp_in_a_folder_of_its_own(monkeypatch, wrapper, tmp_path):
    """As Homebrew puts it: the compiler finds neither header nor library by itself."""
    script = """
case "$*" in
  *"-Xpreprocessor -fopenmp -I"*" -lomp"*)
    exec REAL -fopenmp $(echo "$*" | sed 's/-Xpreprocessor -fopenmp//; s/-lomp//');;
  *-fopenmp*) exit 1;;
esac"""
    real = compile.find_compiler()
    if real.openmp != ("-fopenmp",):
        pytest.skip("this compiler has no -fopenmp")
    brew = tmp_path / "libomp"
    (brew / "include").mkdir(parents=True)
    (brew / "include" / "omp.h").touch()
    monkeypatch.setattr(compile, "LIBOMP_FOLDERS", (str(tmp_path / "nothing"), str(brew)))
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc", script.replace("REAL", shlex.quote(real.path)))))
    lib = brew / "lib"
    wanted = (f"-I{brew / 'include'}", f"-L{lib}", f"-Wl,-rpath,{lib}", "-lomp")
    assert compile.find_compiler().openmp == ("-Xpreprocessor", "-fopenmp", *wanted)


def test_a_compiler_that_spells_this_processor_otherwise(monkeypatch, wrapper):
    script = """
case "$*" in
  *-march=native*) exit 1;;
  *-mcpu=native*) exec REAL $(echo "$*" | sed 's/-mcpu=native//');;
esac"""
    real = compile.find_compiler()
    monkeypatch.setenv("SPFGEN_CC", str(wrapper("mycc", script.replace("REAL", shlex.quote(real.path)))))
    assert compile._native_flags(compile.find_compiler(), ("-march=native",)) == ("-mcpu=native",)

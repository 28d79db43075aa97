"""Find a C compiler, make shared objects with it, load them. The only user of subprocess in the project.

No flag here relaxes arithmetic: -ffast-math also changes the floating-point mode of the whole process when it
reaches the linker. `-ffp-contract=fast` fuses a multiplication with an addition and leaves the rest alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spfgen import tuning
from spfgen.errors import ToolError
from spfgen.progress import task
from spfgen.run import cache

LOGGER = logging.getLogger(__name__)
TIMEOUT = 600.0  # seconds for one compilation; generated code that needs longer is a bug worth hearing about
QUESTION_TIMEOUT = 60.0  # seconds for --version and the like
SHOWN_LINES = 20

OPTIMISED = "-O3"
QUICK = "-O1"
ARCTAN_AS_CALLED = ("-fno-builtin-atan", "-fno-builtin-atanf")
BASE_FLAGS = ("-std=c99", "-ffp-contract=fast", "-fno-math-errno", *ARCTAN_AS_CALLED, "-fwrapv", "-fPIC", "-shared")
"""Nobody reads errno, for which compilers would call sqrt in place of its instruction. Without errno gcc takes
sin(atan(x)) for x/sqrt(x*x + 1), and nan, which is not less than a large number, for a large one: that would be 1."""
TUNED = ("-march=native", "-falign-loops=64")
OTHERWISE = {"-march=native": "-mcpu=native"}
"""As clang on arm64 may spell it."""
LIBRARIES = ("-lm",)
FAST_MATH = (
    "-ffast-math",
    "-Ofast",
    "-funsafe-math-optimizations",
    "-ffinite-math-only",
    "-fassociative-math",
    "-freciprocal-math",
    "-fno-signed-zeros",
    "-ffp-model=fast",
    "-mdaz-ftz",
)
# The second spelling is the one of AppleClang, which has OpenMP but not the driver option.
OPENMP_SPELLINGS = (("-fopenmp",), ("-Xpreprocessor", "-fopenmp", "-lomp"))
LIBOMP_FOLDERS = ("/opt/homebrew/opt/libomp", "/usr/local/opt/libomp", "/opt/local", sys.prefix)
"""Where libomp may be that no compiler looks at by itself: Homebrew on arm64 and on x86-64, MacPorts, conda."""
OPENMP_TEST = """\
#include <omp.h>
#ifndef _OPENMP
#error "no OpenMP"
#endif
int spfgen_probe(void) {
    int count = 0;
#pragma omp parallel for reduction(+ : count)
    for (int i = 0; i < 8; i++) count += omp_get_max_threads() > 0;
    return count;
}
"""
NATIVE_TEST = "int spfgen_probe(void) { return 1; }\n"
ABOUT = 72  # so many characters say what a cached object is
# What compilers read besides their command line; each changes which headers, libraries or tools they take.
ENVIRONMENT = (
    "CPATH",
    "C_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "CCC_OVERRIDE_OPTIONS",
    "SDKROOT",
    "MACOSX_DEPLOYMENT_TARGET",
)
TRIED = ("gcc 11.3", "gcc 12.2", "clang 14.0")
"""Compilers with which tests have passed, on x86-64; all of them with gcc 12.2."""
DEPENDENCIES = ("numpy", "scipy", "islpy", "z3-solver", "sympy", "lark", "click")


@dataclass(frozen=True)
class Compiler:
    """A C compiler that answers. `flags` are those that SPFGEN_CC or CC hold after the name."""

    path: str
    version: str
    """The first line of --version."""
    target: str
    """The answer to -dumpmachine, such as x86_64-linux-gnu."""
    openmp: tuple[str, ...]
    """The flags that turn OpenMP on; () when it does not work."""
    flags: tuple[str, ...] = ()

    @property
    def command(self) -> tuple[str, ...]:
        """The first words of every command line."""
        return (self.path, *self.flags)

    @property
    def identity(self) -> tuple[str, ...]:
        """What two compilers that make different objects of one text and one command line differ in.

        A wrapper can be edited and a compiler exchanged without another version: the file's size and time tell.
        """
        try:
            status = Path(self.path).stat()
            file = f"{status.st_size} {status.st_mtime_ns}"
        except OSError:
            file = ""
        environment = (f"{name}={os.environ[name]}" for name in ENVIRONMENT if os.environ.get(name))
        return (self.path, self.version, self.target, file, *environment)


def find_compiler() -> Compiler:
    """The compiler to use: SPFGEN_CC, CC, cc, gcc, clang, the first that is there and answers.

    Asked once per value of the environment. Warns when OpenMP does not work. Raises ToolError when there is
    no compiler, or when SPFGEN_CC names none (a choice made for spfgen alone is not passed over in silence).
    """
    spfgen_cc, cc, search_path = (os.environ.get(name, "").strip() for name in ("SPFGEN_CC", "CC", "PATH"))
    return _find_compiler(spfgen_cc, cc, search_path)


def build(source: str, *, extra_flags: tuple[str, ...] = (), optimise: bool = True) -> Path:
    """Compile C99 text to a shared object, or take it from the cache; returns its path.

    `optimise=False` compiles fast (-O1, for any processor of this kind). Raises ToolError when there is no
    compiler, when a flag would relax arithmetic, when the compiler refuses the text (with its command line
    and the first lines of its output), or when it does not come to an end.
    """
    identity, before, after = _command_of(source, extra_flags, optimise)
    return cache.fetch(identity, functools.partial(_compile, source, before, after), _about(source))


def _command_of(
    source: str, extra_flags: tuple[str, ...], optimise: bool
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """(the name in the cache, the command line before the file, the rest of it)."""
    _refuse_fast_math(extra_flags, "the flags of the kernel")
    compiler = find_compiler()
    flags: tuple[str, ...] = (QUICK, *BASE_FLAGS)
    processor = ""
    if optimise:
        native = _native_flags(compiler, TUNED)
        flags = (OPTIMISED, *native, *BASE_FLAGS)
        processor = _processor() if native else ""
    from spfgen import version

    before = (*compiler.command, *flags, *extra_flags)
    # Libraries come after the file that needs them.
    after = (*compiler.openmp, *LIBRARIES)
    identity = cache.key(
        source,
        *compiler.identity,
        shlex.join(before),
        shlex.join(after),
        processor,
        version.__version__,
    )
    return identity, before, after


def companion(code: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Another process of this Python, which is told what to do, and answers. Raises OSError."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
        start_new_session=True,
    )


def end_companion(process: subprocess.Popen[bytes]) -> None:
    """Tell it to end, and wait until it has. One that loses the signal, as what is raised in a finalizer is lost, ends
    because nothing more comes."""
    with contextlib.suppress(OSError):
        process.terminate()
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(tuning.LATER_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _about(source: str) -> str:
    """What a C text says of itself: the first sentence of the comment that it begins with."""
    match = re.match(r"/\*\s*(.+?)\s*(?:\.\s|\*/|\n|$)", source)
    return match[1][:ABOUT] if match else ""


def load(path: str | os.PathLike[str]) -> ctypes.CDLL:
    """Load a shared object into the process. Calls into it release the interpreter lock.

    Raises ToolError when the system refuses it.
    """
    file = Path(path).absolute()  # a bare name would be searched for in the system's folders
    try:
        return ctypes.CDLL(str(file))
    except OSError as error:
        raise ToolError(
            f"expected to load {file}, but {error}",
            notes=["a cache folder on a file system mounted with noexec does not work; set SPFGEN_CACHE_DIR"],
        ) from error


def doctor() -> dict[str, str]:
    """What a bug report needs to say about this machine: topic to answer. Never raises for what it finds."""
    report: dict[str, str] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the answers below say it
            compiler = find_compiler()
    except ToolError as error:
        report["compiler"] = f"none: {error.message}"
    else:
        report["compiler"] = shlex.join(compiler.command)
        report["compiler version"] = compiler.version
        report["compilers tried"] = _tried(compiler.version)
        report["target"] = compiler.target or "unknown"
        report["OpenMP"] = f"yes, {shlex.join(compiler.openmp)}" if compiler.openmp else "no"
    report["cache"] = _describe_cache()
    report["python"] = f"{platform.python_version()} ({sys.executable}) on {platform.platform()}"
    from importlib.metadata import PackageNotFoundError, version

    for name in DEPENDENCIES:
        try:
            report[name] = version(name)
        except PackageNotFoundError:
            report[name] = "not installed"
    return report


def _tried(version: str) -> str:
    """With which compilers tests passed, and what to do where this is another one."""
    match = re.search(r"(?<!Apple )clang version (\d+\.\d+)", version)
    name = f"clang {match[1]}" if match else ""
    if not match and (match := re.fullmatch(r"\S*cc\S* \(.*\) (\d+\.\d+)\S*.*", version)):
        name = f"gcc {match[1]}"
    known = ", ".join(TRIED)
    if name in TRIED:
        return f"{known}; this is one of them"
    return f"{known}; this is another one: `spfgen check FILE` compares the results of compiled kernels with numpy's"


def _describe_cache() -> str:
    from spfgen.errors import UsageError

    try:
        folder = cache.where()
    except UsageError as error:
        return error.message
    if folder.problem:
        return f"{folder.wanted}, not used: {folder.problem}; temporary folder {folder.path}"
    if folder.wanted is None:
        return f"off; temporary folder {folder.path}"
    return f"{folder.path}, writable"


@functools.cache
def _find_compiler(spfgen_cc: str, cc: str, _search_path: str) -> Compiler:
    if spfgen_cc:
        compiler = _ask(spfgen_cc, "SPFGEN_CC")
        if compiler is None:
            raise ToolError(
                f"expected a C compiler in the environment variable SPFGEN_CC, but {spfgen_cc!r} is not one",
                notes=["it must be found and answer --version; unset it to have cc, gcc or clang taken"],
            )
        return compiler
    for text, origin in ((cc, "CC"), ("cc", "cc"), ("gcc", "gcc"), ("clang", "clang")):
        compiler = _ask(text, origin) if text else None
        if compiler is not None:
            return compiler
    raise ToolError(
        "no C compiler found",
        notes=[
            "Debian, Ubuntu: apt-get install gcc; macOS: xcode-select --install",
            "if there is one under another name, set the environment variable SPFGEN_CC to it",
            "generate and explain work without a compiler",
        ],
    )


def _ask(text: str, origin: str) -> Compiler | None:
    """The compiler that `text` names, with flags if it has some; None when nothing answers to it."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ToolError(f"expected a command line in {origin}, but {text!r}: {error}") from error
    program = shutil.which(words[0]) if words else None
    if program is None:
        return None
    command = (program, *words[1:])
    _refuse_fast_math(command[1:], origin)
    try:
        code, answer = _run((*command, "--version"), QUESTION_TIMEOUT)
        if code != 0:  # such as the stub of macOS, which only says where to get the compiler
            return None
        code, machine = _run((*command, "-dumpmachine"), QUESTION_TIMEOUT)
    except ToolError:
        return None
    version = next(iter(answer.splitlines()), "")
    target = machine.strip() if code == 0 else ""
    bare = Compiler(program, version, target, (), command[1:])
    openmp = next((flags for flags in _openmp_spellings() if _accepts(bare, flags, OPENMP_TEST)), ())
    if not openmp:
        warnings.warn(
            f"{text} compiles without OpenMP, so kernels use one thread "
            "(Debian: apt-get install gcc, or libomp-dev for clang; macOS: brew install libomp)",
            stacklevel=4,
        )
    return Compiler(program, version, target, openmp, command[1:])


def _openmp_spellings() -> tuple[tuple[str, ...], ...]:
    """The flags to try; those that name a folder, where libomp is there."""
    places = []
    for folder in (Path(name) for name in LIBOMP_FOLDERS):
        include = next(
            (f for f in (folder / "include", folder / "include" / "libomp") if (f / "omp.h").is_file()), None
        )
        if include is not None:
            library = folder / "lib" / "libomp" if include.name == "libomp" else folder / "lib"
            linked = (f"-I{include}", f"-L{library}", f"-Wl,-rpath,{library}", "-lomp")
            places.append(("-Xpreprocessor", "-fopenmp", *linked))
    return (*OPENMP_SPELLINGS, *places)


@functools.cache
def _native_flags(compiler: Compiler, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """This processor's instructions; and loops that start at a line of 64 bytes: an inner loop of a sparse kernel is
    shorter, and one that lies across two lines was measured 15 % slower. At multiples of 32 bytes, the place of the
    function decided whether a short solve took 2.7 or 3.6 microseconds."""
    accepted = (
        next((s for s in (f, OTHERWISE.get(f)) if s and _accepts(compiler, (s,), NATIVE_TEST)), "") for f in wanted
    )
    return tuple(filter(None, accepted))


def _accepts(compiler: Compiler, flags: tuple[str, ...], source: str) -> bool:
    """Whether the compiler makes a shared object of the source with these flags.

    The object goes through the cache like any other, so that the question is asked once per machine and a
    process that finds all its kernels compiled starts no compiler for it.
    """
    before = (*compiler.command, "-std=c99", "-fPIC", "-shared")
    identity = cache.key(
        "probe",
        source,
        *compiler.identity,
        shlex.join(before),
        shlex.join(flags),
        _processor(),
    )
    about = f"whether the compiler takes {shlex.join(flags)}"
    try:
        cache.fetch(identity, functools.partial(_compile, source, before, flags), about)
    except ToolError:
        return False
    return True


def _compile(source: str, before: tuple[str, ...], after: tuple[str, ...], target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="spfgen-") as folder:
        file = Path(folder) / "kernel.c"
        file.write_text(source, encoding="utf-8")
        command = (*before, str(file), "-o", str(target), *after)
        start = time.perf_counter()
        with task(f"running {Path(command[0]).name}"):
            code, output = _run(command, TIMEOUT)
        LOGGER.debug("%.2f s: %s", time.perf_counter() - start, shlex.join(command))
    if code != 0:
        raise ToolError(
            f"expected the compiler to accept the C text, but it ended with code {code}\n" + _shown(command, output),
            notes=["`doctor` tells which compiler is used and why; SPFGEN_CC chooses another one"],
        )
    if not target.is_file() or target.stat().st_size == 0:
        raise ToolError(
            f"expected a shared object from the compiler, but it wrote none\n{_shown(command, output)}",
            notes=["is SPFGEN_CC or CC a C compiler?"],
        )


def _shown(command: tuple[str, ...], output: str) -> str:
    lines = output.splitlines()
    shown = [f"    {line}" for line in (shlex.join(command), *lines[:SHOWN_LINES])]
    if len(lines) > SHOWN_LINES:
        shown.append(f"    ... ({len(lines) - SHOWN_LINES} more lines)")
    return "\n".join(shown)


def run_program(command: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Exit code and both streams of a command. Raises ToolError when it cannot start or never ends."""
    return _run(tuple(command), TIMEOUT, environment or {}, "program")


def _run(
    command: tuple[str, ...], timeout: float, environment: Mapping[str, str] | None = None, what: str = "compiler"
) -> tuple[int, str]:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C", **(environment or {})},
            # A driver such as gcc starts further processes; a group of their own lets us end all of them.
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"expected to run {command[0]}, but {error.strerror or error}") from error
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        _kill(process)
        raise ToolError(
            f"expected the {what} to finish within {timeout:g} seconds, but it did not\n" + _shown(command, "")
        ) from error
    except BaseException:  # Ctrl-C reaches us only, not the group of the compiler
        _kill(process)
        raise
    return process.returncode, output.decode("utf-8", "replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.communicate()


def _refuse_fast_math(flags: tuple[str, ...], origin: str) -> None:
    for flag in flags:
        if flag in FAST_MATH:
            raise ToolError(
                f"expected flags that keep IEEE arithmetic, but {origin} has {flag}",
                notes=[
                    "it would change results, and at link time the floating-point mode of the whole process",
                    "sums are vectorised without it",
                ],
            )


@functools.cache
def _processor() -> str:
    """What -march=native depends on: model and features of the processor."""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        topics = ("model name", "flags", "Features", "CPU implementer", "CPU part", "isa")
        # The first processor of each kind; all the others repeat it (and the clock rates in between change).
        lines = dict.fromkeys(line for line in text.splitlines() if line.partition(":")[0].strip() in topics)
        if lines:
            return "\n".join(lines)
    return platform.processor() or platform.machine()

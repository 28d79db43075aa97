"""The command line. Data go to stdout, messages to stderr; the exit code says who must act (errors.py)."""

from __future__ import annotations

import contextlib
import gc
import json as json_module
import logging
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from spfgen import progress
from spfgen.errors import CheckFailed, DataError, InternalError, SpfgenError, UsageError
from spfgen.lang.optimization import LEVELS
from spfgen.lang.types import FINDS
from spfgen.messages import LOGGER, in_options, logged, message
from spfgen.version import __version__

EPILOG = "Exit codes: 0 fine, 1 check failed, 2 usage, 3 spec, 4 unsupported, 5 C compiler, 6 data, 70 a bug in spfgen."
INTERRUPTED = 130
COMPLETION = "_SPFGEN_COMPLETE"
"""The shell sets it when it asks click for completions."""
LARGEST = 2**63 - 1
SHORT_KEY = 12
"""So many digits of a key are shown to people."""
LIVING = 100_000
"""After how many new objects Python looks for garbage."""


def _louder(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        LOGGER.setLevel(logging.DEBUG if parameter.name == "verbose" else logging.ERROR)


class Command(click.Command):
    """A command with -q and -v."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        texts = {"quiet": "Print errors only.", "verbose": "Print what is compiled, read and cached."}
        for name, text in texts.items():
            option = click.Option(
                [f"-{name[0]}", f"--{name}"], is_flag=True, expose_value=False, callback=_louder, help=text
            )
            self.params.append(option)


class Group(Command, click.Group):
    command_class = Command
    group_class = type


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(__version__, prog_name="spfgen")
def command() -> None:
    """Declare a sparse layout as a relation, and get fast parallel C.

    \b
    spfgen run kernels.spf -k spmv --data A=matrix.mtx --data x=random --check
    spfgen generate kernels.spf -k spmv -o build/
    spfgen explain kernels.spf -k spmv
    """


def main() -> None:
    """The console script."""
    # A command makes many objects that live as long as the process: looking for garbage among them while it runs,
    # and when it ends, would take a tenth of the time.
    gc.set_threshold(LIVING)
    code = run(sys.argv[1:])
    gc.freeze()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    with warnings.catch_warnings(), logged(), progress.shows(lambda: LOGGER.isEnabledFor(logging.INFO)):
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        dropped, sys.unraisablehook = sys.unraisablehook, _not_lost
        try:
            result = command.main(arguments, prog_name="spfgen", complete_var=COMPLETION, standalone_mode=False)
            return result if isinstance(result, int) else 0
        except click.ClickException as error:
            error.show()
            return UsageError.exit_code
        except SpfgenError as error:
            if isinstance(error, InternalError):
                return _our_bug(str(error))
            message(in_options(str(error)), error.title)
            return error.exit_code
        except (click.exceptions.Abort, KeyboardInterrupt) as error:
            message("interrupted")
            _drop_half_made(error)
            return INTERRUPTED
        except SystemExit as error:  # click's way out after completing words, and when the reader of stdout has gone
            return int(error.code or 0) if COMPLETION in os.environ else _quiet()
        except MemoryError as error:
            message(f"expected data that fit in memory, but {error or 'they do not'}", DataError.title)
            return DataError.exit_code
        except Exception as error:
            if not _is_of_interrupt(error):
                return _our_bug()
            message("interrupted")
            _drop_half_made(error)
            return INTERRUPTED
        finally:
            sys.unraisablehook = dropped


def _is_of_interrupt(error: BaseException) -> bool:
    """Whether an error came of an interrupt: a library that is being imported may raise another one."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def _not_lost(lost: sys.UnraisableHookArgs) -> None:
    """An interrupt that fell into a finaliser, where Python drops exceptions, comes again a moment later."""
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    while True:
        again = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        # On a busy machine it comes while we are here, where it would be dropped once more.
        with contextlib.suppress(KeyboardInterrupt):
            again.start()
            return


def _drop_half_made(error: BaseException) -> None:
    """Objects whose making was interrupted may fail when they go: let them go now, in silence."""
    import traceback

    sys.unraisablehook = _say_nothing
    cause: BaseException | None = error
    while cause is not None:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__cause__ or cause.__context__


def _say_nothing(_: sys.UnraisableHookArgs) -> None:
    pass


def _quiet() -> int:
    """The reader of stdout has gone, as `head` does: there is nothing more to say, at the end of the process either."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - lives as long as the process
    return 0


def _our_bug(text: str = "") -> int:
    """Called while an exception is handled: where nothing better is known of it, its traceback is shown."""
    if os.environ.get("SPFGEN_DEBUG"):
        raise
    import traceback

    message(text or traceback.format_exc(), InternalError.title)
    return InternalError.exit_code


def _show_warning(warning: Warning | str, *_: Any, **__: Any) -> None:
    LOGGER.warning("%s", in_options(str(warning)))


def note(text: str) -> None:
    """What was done: on stderr, unless it is to be quiet."""
    LOGGER.info("%s", text)


def show(text: str, *, newline: bool = True) -> None:
    """Data on stdout, complete when this returns."""
    progress.hide()
    try:
        click.echo(text, nl=newline)
    except BrokenPipeError:
        raise
    except OSError as error:
        _quiet()
        raise UsageError(f"expected to write to stdout, but {error.strerror or error}") from None


def show_json(data: object) -> None:
    show(json_module.dumps(data, indent=2))


def files(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Completion: the shell knows the files."""
    return [CompletionItem(begun, type="file")]


def kernels(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Completion: the kernels of the file that stands before."""
    import spfgen

    # click loses the arguments before an option that has no value yet.
    words = os.environ.get("COMP_WORDS", "").split()
    names = []
    with contextlib.suppress(Exception):  # whatever is wrong with the file is said when the command runs
        names = [k for w in words if w.endswith(".spf") for k in spfgen.load(w).kernels]
    return [CompletionItem(k) for k in names if k.startswith(begun)]


def layout_names(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Completion: the layouts that come with spfgen."""
    from spfgen.lang.spec import builtin_names

    return [CompletionItem(name) for name in builtin_names() if name.startswith(begun)]


def kernel_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """FILE.spf, -k, --schedule, --find and -O."""
    how = f"The search algorithm for a position, in place of the schedule's: `A.pj=hash`. One of {', '.join(FINDS)}."
    find = click.option("--find", multiple=True, metavar="POSITION=NAME", help=how)
    which = "The kernel, if the file has several."
    option = click.option("-k", "--kernel", "kernel_name", metavar="KERNEL", help=which, shell_complete=kernels)
    clauses = "A schedule to use instead of the kernel's own: `tile i by 32; parallel i_tile`."
    schedule = click.option("--schedule", metavar="CLAUSES", help=clauses)
    levels = " ".join(f"{k}: {text}" for k, text in LEVELS.items())
    how_much = f"The level of optimisation (default: SPFGEN_OPT, or 2). {levels}"
    level = click.option("-O", "--optimize", type=click.IntRange(0, 2), metavar="LEVEL", help=how_much)
    return click.argument("file", metavar="FILE.spf", shell_complete=files)(option(schedule(find(level(function)))))


def data_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """What the operands are: --data, --size, --shape, --seed; and --threads."""
    options = [
        click.option(
            "--data", multiple=True, metavar="NAME=SOURCE", help="A file, a number, `random` or `random:DENSITY`."
        ),
        click.option(
            "--size",
            multiple=True,
            metavar="NAME=N",
            help="The extent of an index, or the value of a size of the kernel.",
        ),
        click.option(
            "--shape", multiple=True, metavar="NAME=NxM", help="The extents of an operand, such as those of a .tns."
        ),
        click.option(
            "--threads", type=click.IntRange(min=1), metavar="N", help="Number of threads (default: OMP_NUM_THREADS)."
        ),
        click.option(
            "--seed",
            type=click.IntRange(min=0),
            default=0,
            show_default=True,
            metavar="N",
            help="Seed for random data.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def chosen(file: str, kernel_name: str | None) -> Any:
    """The kernel of the file that is meant. Raises UsageError when that is not clear."""
    import spfgen
    from spfgen.lang.expressions import did_you_mean

    kernels = spfgen.load(file).kernels
    names = list(kernels)
    if kernel_name is None and len(names) == 1:
        return kernels[names[0]]
    if not names:
        hint = "write one, for instance `kernel product { tensor A : csr  tensor x, y : dense  y[i] = A[i, j]*x[j] }`"
        raise UsageError(f"expected a kernel in {file}, but there is none", None, (hint,))
    if kernel_name is None:
        choices = (f"choose: -k {' | -k '.join(names)}",)
        raise UsageError(f"expected one kernel, but {file} has {len(names)}", None, choices)
    if kernel_name not in kernels:
        hint = did_you_mean(kernel_name, names) or f"its kernels: {', '.join(names)}"
        raise UsageError(f"expected a kernel of {file}, but `{kernel_name}` is not one", None, (hint,))
    return kernels[kernel_name]


NO_FOLDERS = frozenset((".cc", ".cpp", ".cu", ".cxx", ".hh", ".hpp", ".o", ".py", ".so", ".spf", ".txt"))
"""Endings by which a file is meant, but none that `generate` writes."""


@command.command()
@kernel_arguments
@click.option(
    "-o",
    "--output",
    metavar="DIR|FILE",
    default=".",
    shell_complete=files,
    help="A folder, for KERNEL.c and KERNEL.h; or a file: FILE.c gets all the code, FILE.h the header; `-` is stdout.",
)
@click.option(
    "--stop-after", metavar="PASS", default="", help="Skip the passes after this one: same results, less speed."
)
@click.option(
    "--phases",
    is_flag=True,
    help="Two functions: KERNEL_symbolic makes the results, KERNEL_numeric recomputes their values.",
)
@click.option("--force", is_flag=True, help="Overwrite existing files that differ.")
def generate(
    file: str,
    kernel_name: str | None,
    schedule: str | None,
    find: tuple[str, ...],
    optimize: int | None,
    output: str,
    stop_after: str,
    phases: bool,
    force: bool,
) -> None:
    """Generate the C of a kernel, with a header.

    \b
    spfgen generate kernels.spf -k spmv -o build/
    spfgen generate kernels.spf -k spmv -o spmv.c
    spfgen generate kernels.spf -k spmv -O1 -o -
    spfgen generate kernels.spf -k spmv -o - | gcc -std=c99 -O3 -fopenmp -c -x c - -o spmv.o
    """
    kernel = chosen(file, kernel_name).compile(schedule=schedule, finds=pairs(find, "--find"), optimize=optimize)
    target = Path(output)
    is_file = target.suffix in (".c", ".h") and not target.is_dir()
    if phases and (is_file or output == "-"):
        raise UsageError(
            f"expected a folder for the two phases, but it is {output}", None, ("leave out -o, or -o build/",)
        )
    other = target.suffix in NO_FOLDERS and not target.is_dir()
    if other or (target.is_file() and not is_file):
        hint = f"the C is C99: -o {target.with_suffix('.c').name}"
        raise UsageError(f"expected a folder, or a file ending in .c or .h, but it is {output}", None, (hint,))
    texts: dict[str, str] = {}
    for one in kernel.phases() if phases else (kernel,):
        generated = one.stopped_after(stop_after) if stop_after else one.generated
        if generated.refused is not None:
            raise generated.refused
        if output == "-":
            show(generated.whole, newline=False)
            return
        if is_file:
            target, texts = target.parent, {target.name: generated.whole if target.suffix == ".c" else generated.header}
        else:
            texts |= {f"{one.name}.c": generated.source, f"{one.name}.h": generated.header}
    for path, changed in write_files(target, texts, force).items():
        note(f"wrote {path}" if changed else f"{path} is up to date")


def write_files(folder: Path, texts: Mapping[str, str | bytes], force: bool) -> dict[Path, bool]:
    """Write texts or bytes under their names; says for each whether it had to be. Raises UsageError before any."""
    targets = {folder / n: t if isinstance(t, bytes) else t.encode() for n, t in texts.items()}
    try:
        changed = {path: text for path, text in targets.items() if _differs(path, text, force)}
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in changed.items():
            path.write_bytes(text)
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be written: {error.strerror}") from None
    return {path: path in changed for path in targets}


def _differs(path: Path, content: bytes, force: bool) -> bool:
    """Whether the file must be written. Raises UsageError when that would lose something."""
    if not path.exists():
        return True
    if path.read_bytes() == content:
        return False
    if not force:
        hints = ("write elsewhere with -o, or overwrite it with --force",)
        raise UsageError(f"{path} exists and differs", None, hints)
    return True


@command.command()
@kernel_arguments
@click.option("--json", "as_json", is_flag=True, help="Output as JSON.")
@click.option("--details", is_flag=True, help="Add times of proofs, and counterexamples.")
@click.option("--html", metavar="FILE.html", shell_complete=files, help="Write a web page of it, with the C.")
@click.option(
    "--smt", metavar="DIR", shell_complete=files, help="Write the queries to Z3 to this folder, as SMT-LIB files."
)
@click.option("--force", is_flag=True, help="Overwrite existing files that differ.")
def explain(
    file: str,
    kernel_name: str | None,
    schedule: str | None,
    find: tuple[str, ...],
    optimize: int | None,
    as_json: bool,
    details: bool,
    html: str | None,
    smt: str | None,
    force: bool,
) -> None:
    """Show iteration spaces, loops and proofs.

    \b
    spfgen explain kernels.spf -k spmv
    spfgen explain kernels.spf -k spmv --json
    spfgen explain kernels.spf -k spmv --html spmv.html
    spfgen explain kernels.spf -k spmv --smt proofs/
    spfgen explain kernels.spf -k csr_times_bcsr --find B.pb=loop
    """
    kernel = chosen(file, kernel_name).compile(schedule=schedule, finds=pairs(find, "--find"), optimize=optimize)
    if smt is not None:
        from spfgen.explain import smt_files

        files = smt_files(kernel.generated)
        changed = write_files(Path(smt), files, force) if files else {}
        note(f"{len(files)} obligations, {sum(changed.values())} files written to {smt}")
    if html is not None:
        from spfgen.explain_html import explain_html

        target = Path(html)
        for path, written in write_files(target.parent, {target.name: explain_html(kernel.generated)}, force).items():
            note(f"wrote {path}" if written else f"{path} is up to date")
        if not as_json:
            return
    if as_json:
        show_json(kernel.explain(json=True))
    else:
        show(kernel.explain(details=details))


@command.command(name="run")
@kernel_arguments
@data_arguments
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Number of timed runs; their median is reported.",
)
@click.option("--check", is_flag=True, help="Compare with numpy; exit code 4 if that is impossible.")
@click.option("-o", "--output", multiple=True, metavar="NAME=FILE", help="Write a result: .npy .npz .mtx .tns (.gz).")
@click.option("--force", is_flag=True, help="Overwrite existing output files.")
@click.option("--json", "as_json", is_flag=True, help="Output as JSON.")
def run_command(
    file: str,
    kernel_name: str | None,
    schedule: str | None,
    find: tuple[str, ...],
    optimize: int | None,
    data: tuple[str, ...],
    size: tuple[str, ...],
    shape: tuple[str, ...],
    threads: int | None,
    repeat: int,
    seed: int,
    check: bool,
    output: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Compile a kernel and run it on data.

    Data files: .mtx and .tns (also .gz, .xz, .bz2), .npy, and .npz as written by scipy, Tensor.save or numpy (one array
    of several: file.npz:NAME). Elements that a file does not list have the fill value.

    \b
    spfgen run kernels.spf -k spmv --data A=matrix.mtx --data x=random --check
    spfgen run kernels.spf -k spmv --data A=random:0.01 --data x=random --size i=1000 --size j=1000
    spfgen run kernels.spf -k spmv --data A=matrix.mtx --data x=x.npy -o y=y.npy --threads 4
    """
    spec = chosen(file, kernel_name)
    kernel = spec.compile(threads, schedule=schedule, finds=pairs(find, "--find"), optimize=optimize)
    from spfgen.run.calls.requests import Job
    from spfgen.run.job import run_job

    targets = pairs(output, "-o")
    given = sources(data, size, shape)
    report = run_job(kernel, Job(**given, seed=seed, outputs=targets, repeat=repeat, check=check, force=force))
    if as_json:
        show_json(report.as_dict())
    else:
        show(report.text())
    if report.failure is not None:
        raise report.failure


@command.command(name="tune")
@click.argument("file", metavar="FILE.spf", shell_complete=files)
@click.option(
    "-k", "--kernel", "kernel_name", metavar="KERNEL", help="The kernel, if the file has several.",
    shell_complete=kernels,
)  # fmt: skip
@data_arguments
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="N",
    help="Time limit of the search, in seconds.",
)
@click.option("--forget", is_flag=True, help="Delete the stored schedule, and measure nothing.")
@click.option(
    "--layouts", multiple=True, metavar="NAME", help="Search for the best layout of this operand, not for a schedule."
)
@click.option("--save", multiple=True, metavar="NAME=FILE.npz", help="Write the converted operand.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--json", "as_json", is_flag=True, help="Output as JSON.")
def tune_command(
    file: str,
    kernel_name: str | None,
    data: tuple[str, ...],
    size: tuple[str, ...],
    shape: tuple[str, ...],
    threads: int | None,
    seed: int,
    seconds: float,
    forget: bool,
    layouts: tuple[str, ...],
    save: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Measure schedules of a kernel, and store the fastest.

    `run`, `generate` and Python use the stored schedule for kernels with the same statements, layouts and number of
    threads that have no schedule of their own. SPFGEN_TUNED=off ignores it. Ctrl-C ends the search and stores the best
    so far.

    With --layouts, the operand is converted to every layout that can hold it in at most four times its memory, and the
    kernel is measured with each. The report ends with lines for the spec file. --save writes the converted operand, for
    `--data A=a.npz`.

    \b
    spfgen tune kernels.spf -k spmv --data A=matrix.mtx --data x=random
    spfgen tune kernels.spf -k spmv --data A=matrix.mtx --data x=random --threads 1 --seconds 300
    spfgen tune kernels.spf -k spmv --forget
    spfgen tune kernels.spf -k spmv --layouts A --data A=matrix.mtx --data x=random --save A=a.npz
    """
    from spfgen.run.calls.requests import Job
    from spfgen.run.tuners.tune import forget as forget_found
    from spfgen.run.tuners.tune import tune

    kernel = chosen(file, kernel_name)
    targets = checked_targets(layouts, pairs(save, "--save"), force)
    if layouts:
        from spfgen.run.tuners.tune_layouts import tune_layouts_of

        job = Job(**sources(data, size, shape), seed=seed)
        chosen_layouts = tune_layouts_of(kernel, layouts, job, threads, seconds, note)
        if as_json:
            show_json(chosen_layouts.as_dict())
        else:
            show(chosen_layouts.text())
        for name, target in targets.items():
            chosen_layouts.operands[name].save(target, force=force)
            note(f"wrote {target}")
        return
    if forget:
        forgotten = forget_found(kernel, threads)
        note(f"dropped {forgotten}" if forgotten else "no schedule is stored")
        return
    report = tune(kernel, Job(**sources(data, size, shape), seed=seed), threads, seconds, note)
    if as_json:
        show_json(report.as_dict())
    else:
        show(report.text())


def checked_targets(layouts: tuple[str, ...], targets: dict[str, str], force: bool) -> dict[str, str]:
    """What --save says, before anything is measured. Raises UsageError for what could not be written then."""
    for name, target in targets.items():
        if name not in layouts:
            hint = f"add --layouts {name}, to search for its layout"
            raise UsageError(f"expected --save for an operand of --layouts, but `{name}` is not one", None, (hint,))
        if not target.endswith(".npz"):
            raise UsageError(f"expected a file ending in .npz for --save, but it is {target}")
        if Path(target).exists() and not force:
            raise UsageError(f"{target} exists", None, ("write elsewhere, or overwrite it with --force",))
    return targets


def sources(data: tuple[str, ...], size: tuple[str, ...], shape: tuple[str, ...]) -> dict[str, Any]:
    """--data, --size and --shape as a job has them."""
    numbers = {name: whole_number(f"--size {name}", text) for name, text in pairs(size, "--size").items()}
    shapes = {name: extents(f"--shape {name}", text) for name, text in pairs(shape, "--shape").items()}
    return {"data": pairs(data, "--data"), "sizes": numbers, "shapes": shapes}


_EXAMPLES = {
    "--data": "A=matrix.mtx",
    "--size": "i=100",
    "--shape": "A=30x40",
    "--find": "A.pj=search",
    "--save": "A=a.npz",
    "-o": "y=y.npy",
}


def pairs(items: tuple[str, ...], option: str) -> dict[str, str]:
    """NAME=VALUE options as a dict."""
    result: dict[str, str] = {}
    for item in items:
        name, equal, value = item.partition("=")
        if not equal or not name or not value:
            example = _EXAMPLES.get(option, "NAME=VALUE")
            hint = f"for instance {option} {example}" if equal else f"add the name: {option} {example}"
            raise UsageError(f"expected {option} NAME=VALUE, but it is `{item}`", None, (hint,))
        if name in result:
            raise UsageError(f"expected {option} once for `{name}`, but it is given twice")
        result[name] = value
    return result


def whole_number(option: str, text: str) -> int:
    """A number of an option."""
    digits = text.lstrip("0") or "0"
    if not (text.isascii() and text.isdigit()) or len(digits) > len(str(LARGEST)) or int(digits) > LARGEST:
        raise UsageError(f"expected a number from 0 to 2^63 - 1 for {option}, but it is `{text}`")
    return int(digits)


@command.command()
@click.argument("file", metavar="FILE.spf", shell_complete=files)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed for random data."
)
@click.option("--json", "as_json", is_flag=True, help="Output as JSON.")
def check(file: str, seed: int, as_json: bool) -> None:
    """Check the layouts and kernels of a file.

    For layouts: whether properties contradict each other, whether a coordinate may be stored twice, whether data can be
    packed, and what is unused. Then the C runs on random data, under sanitizers if the compiler has them, and results
    are compared with numpy. The exit code is 1 if something FAILED; if a kernel cannot be compiled, it is that of
    `generate`.

    \b
    spfgen check mine.spf
    spfgen check mine.spf --json
    """
    import spfgen
    from spfgen.run.examining.examine import examine

    sections = []
    for section in examine(spfgen.load(file), seed):
        sections.append(section)
        if not as_json:
            show(section.text())
    if not sections:
        raise UsageError(f"expected a layout or a kernel in {file}, but there is none")
    if as_json:
        show_json([section.as_dict() for section in sections])
    failed = [section for section in sections if section.failed]
    if failed:
        titles = ", ".join(section.title for section in failed)
        error = CheckFailed(f"expected {file} to pass, but there is something wrong with {titles}")
        error.exit_code = failed[0].exit_code
        raise error


@command.command()
@click.argument("name", required=False, shell_complete=layout_names)
@click.option("-s", "--spec", metavar="FILE.spf", shell_complete=files, help="The spec file that declares the layout.")
@click.option(
    "--as", "form", type=click.Choice(["relation", "levels", "taco"]), help="Show the layout in this notation."
)
@click.option("--json", "as_json", is_flag=True, help="Output as JSON.")
def layouts(name: str | None, spec: str | None, form: str | None, as_json: bool) -> None:
    """List layouts, or show one.

    Lists the layouts that come with spfgen, or those of a file. NAME may also be written as levels, as in MLIR.

    \b
    spfgen layouts
    spfgen layouts csr
    spfgen layouts csr --as levels
    spfgen layouts '(i, j) -> (i : compressed(nonunique), j : singleton)' --as relation
    spfgen layouts 'bcsr(R=4, C=4)' --json
    """
    from spfgen.catalogue import catalogue, describe, details, written_as

    if name is None and form is not None:
        raise UsageError("expected the name of a layout for --as, but there is none")
    if name is not None and form is not None:
        written = written_as(name, form, spec)
        show_json({"name": name, form: written}) if as_json else show(written)
    elif name is not None and as_json:
        show_json(details(name, spec))
    elif name is not None:
        show(describe(name, spec))
    elif as_json:
        show_json(dict(catalogue(spec)))
    else:
        rows = catalogue(spec)
        width = max((len(n) for n, _ in rows), default=0)
        show("\n".join(f"{layout:<{width}}  {sentence}" for layout, sentence in rows))


@command.command()
@click.argument("expression")
@click.option(
    "-f", "formats", multiple=True, metavar="A:ds[:0,1]", help="Level formats of a tensor, as in TACO: d, s, u, q, c."
)
@click.option("-t", "types", multiple=True, metavar="A:float", help="The element type of a tensor (default: double).")
@click.option("-o", "output", metavar="FILE.c", shell_complete=files, help="The file for the C (default: stdout).")
@click.option("--schedule", metavar="CLAUSES", default="", help="A schedule: `tile i by 32; parallel i_tile`.")
@click.option("--name", default="compute", show_default=True, help="The name of the function.")
@click.option("--spec", "as_spec", is_flag=True, help="Print an equivalent spec file in place of C.")
@click.option("--force", is_flag=True, help="Overwrite an existing file that differs.")
def taco(
    expression: str,
    formats: tuple[str, ...],
    types: tuple[str, ...],
    output: str | None,
    schedule: str,
    name: str,
    as_spec: bool,
    force: bool,
) -> None:
    """Generate C from an expression in TACO's notation.

    \b
    spfgen taco "y(i) = A(i,j)*x(j)" -f=A:ds -o=spmv.c
    spfgen taco "C(i,j) = A(i,j)*B(i,j)" -f=A:ds -f=B:ds:1,0 --spec
    """
    import spfgen
    from spfgen.lang.spec import builtins_binding
    from spfgen.lang.taco import parse_format, spec_text

    read = [parse_format(text.removeprefix("=")) for text in formats]
    if len({f.tensor for f in read}) < len(read):
        raise UsageError("expected one format for a tensor, but one has two")
    kinds = dict(text.removeprefix("=").partition(":")[::2] for text in types)
    plain = builtins_binding("numpy")[0]
    text = spec_text(expression, {f.tensor: f.levels for f in read}, kinds, name, plain, schedule)
    text_of_file = text if as_spec else spfgen.parse(text, "<taco>").kernels[name].compile().generated.whole
    if output is None:
        show(text_of_file, newline=False)
        return
    target = Path(output.removeprefix("="))
    for path, changed in write_files(target.parent, {target.name: text_of_file}, force).items():
        note(f"wrote {path}" if changed else f"{path} is up to date")


@command.command()
@click.argument("folder", metavar="[DIR]", default=".", shell_complete=files)
@click.option("--force", is_flag=True, help="Overwrite existing files that differ.")
def example(folder: str, force: bool) -> None:
    """Write the example files of the documentation.

    kernels.spf has kernels for layouts that come with spfgen, mine.spf declares a layout; matrix.mtx.gz is
    HB/bcsstk09 of the SuiteSparse Matrix Collection (J. Lewis, 1982; CC-BY 4.0).

    \b
    spfgen example
    spfgen example trial/
    """
    from spfgen.example_files import example_files

    for path, changed in write_files(Path(folder), example_files(), force).items():
        note(f"wrote {path}" if changed else f"{path} is up to date")


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Output as JSON.")
def doctor(as_json: bool) -> None:
    """Show versions, the C compiler, OpenMP and the cache.

    Please add the output to bug reports.

    \b
    spfgen doctor
    SPFGEN_CC=clang spfgen doctor
    """
    from spfgen.run.compile import doctor as examine

    report = {"spfgen": __version__, **examine()}
    if as_json:
        show_json(report)
        return
    width = max(map(len, report))
    show("\n".join(f"{key:<{width}}  {value}" for key, value in report.items()))


@command.group()
def cache() -> None:
    """Manage the cache of compiled kernels.

    SPFGEN_CACHE_DIR sets the folder of the cache; SPFGEN_CACHE=off switches it off.

    \b
    spfgen cache ls
    spfgen cache path
    spfgen cache clear
    """


@cache.command()
@click.option("--json", "as_json", is_flag=True, help="Output as JSON.")
def ls(as_json: bool) -> None:
    """List the contents of the cache, newest first.

    Each line has the time, the size, the beginning of the key, and a description.

    \b
    spfgen cache ls
    spfgen cache ls --json
    """
    from datetime import datetime

    from spfgen.folder import human_bytes, small_files
    from spfgen.run.cache import entries as entries_in
    from spfgen.run.cache import kept

    folder = kept()
    entries, small = entries_in(folder), small_files(folder)
    total = sum(e.bytes for e in entries)
    times = [datetime.fromtimestamp(e.made).astimezone() for e in entries]
    if as_json:
        kernels = [
            {"key": e.key, "about": e.about, "bytes": e.bytes, "made": t.isoformat(timespec="seconds")}
            for e, t in zip(entries, times, strict=True)
        ]
        others = {kind: {"files": count, "bytes": size} for kind, (count, size) in small.items()}
        show_json({"path": str(folder), "kernels": kernels, "bytes": total, "others": others})
        return
    lines = [
        f"{t:%Y-%m-%d %H:%M}  {human_bytes(e.bytes):>8}  {e.key[:SHORT_KEY]}  {e.about}".rstrip()
        for e, t in zip(entries, times, strict=True)
    ]
    lines.append(f"{len(entries)} compiled, {human_bytes(total)}, in {folder}")
    lines += [f"{count} {kind}, {human_bytes(size)}" for kind, (count, size) in small.items() if count]
    show("\n".join(lines))


@cache.command(name="path")
def cache_path() -> None:
    """Print the folder of the cache.

    \b
    spfgen cache path
    """
    from spfgen.run.cache import kept

    show(str(kept()))


@cache.command()
@click.option("--tuned", is_flag=True, help="Delete the schedules that `tune` has stored, too.")
def clear(tuned: bool) -> None:
    """Delete the contents of the cache. Kernels in use keep working.

    \b
    spfgen cache clear
    spfgen cache clear --tuned
    """
    from spfgen.run.cache import clear as clear_folder
    from spfgen.run.cache import kept

    folder = kept()
    message(f"{clear_folder(tuned=tuned)} compiled kernels removed from {folder}")


@command.command()
@click.argument("file", metavar="FILE.py|FILE.spf", shell_complete=files)
@click.argument("arguments", nargs=-1)
def warm(file: str, arguments: tuple[str, ...]) -> None:
    """Compile the kernels of a program in advance.

    A Python program is run, with its arguments, and kernels are compiled for all its operations on arrays, for operands
    of any size. Of a spec file, all kernels are compiled. The kernels are kept in the cache. With SPFGEN_COMPILE=never,
    programs use these kernels, and compile none for operations on arrays.

    \b
    spfgen warm service.py
    spfgen warm kernels.spf
    """
    from spfgen.run.warm import warm as compile_ahead

    message(f"{compile_ahead(file, arguments)} compiled")


@command.command()
@click.argument("file", metavar="DATA", shell_complete=files)
@click.option("-s", "--spec", metavar="FILE.spf", shell_complete=files, help="A spec file with further layouts.")
@click.option(
    "-l", "--layout", multiple=True, metavar="LAYOUT", shell_complete=layout_names,
    help="A further layout: `-l 'bcsr(R=4, C=4)'`.",
)  # fmt: skip
@click.option("--shape", metavar="NxM", help="The extents, for a .tns that does not state them: `--shape 30x40x50`.")
@click.option(
    "--draw", metavar="PICTURE", shell_complete=files, help="Draw the pattern: .png .pdf .svg (needs matplotlib)."
)
@click.option("--force", is_flag=True, help="Overwrite an existing picture.")
@click.option("--json", "as_json", is_flag=True, help="Output as JSON.")
def inspect(
    file: str,
    spec: str | None,
    layout: tuple[str, ...],
    shape: str | None,
    draw: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Show facts about a matrix or tensor.

    One of them is the memory that it needs in each layout.

    Data files: .mtx and .tns (also .gz, .xz, .bz2), .npy, and .npz as written by scipy, Tensor.save or numpy (one array
    of several: file.npz:NAME).

    \b
    spfgen inspect matrix.mtx
    spfgen inspect tensor.tns --shape 30x40x50 --json
    spfgen inspect matrix.mtx -s mine.spf -l 'bcsr(R=4, C=4)' --draw matrix.png
    """
    from spfgen.catalogue import layouts_of_rank
    from spfgen.run.drawings.draw import check_picture, draw_entries
    from spfgen.run.drawings.inspect import as_dict, as_text, costs, distinct, entries_of, facts_of
    from spfgen.run.files.read import read

    if draw is not None:
        check_picture(draw, force)
    entries = entries_of(read(file, shape=None if shape is None else extents("--shape", shape)))
    known = layouts_of_rank(len(entries.shape), spec, layout)
    single = distinct(entries)
    facts, memory = facts_of(entries, single), costs(single, known)
    if draw is not None:
        draw_entries(draw, single, Path(file).name, force)
    if as_json:
        show_json({"file": file, **as_dict(facts, memory)})
    else:
        show(as_text(facts, memory))


@command.command()
@click.argument("layout", shell_complete=layout_names)
@click.option("-s", "--spec", metavar="FILE.spf", shell_complete=files, help="The spec file that declares the layout.")
@click.option(
    "--data", metavar="[NAME=]FILE", shell_complete=files, help="The data to draw (default: a small example)."
)
@click.option("--shape", metavar="NxM", help="The extents, for a .tns that does not state them.")
@click.option("-o", "--output", metavar="FILE.svg", shell_complete=files, help="Default: LAYOUT.svg; `-` is stdout.")
@click.option("--force", is_flag=True, help="Overwrite an existing picture.")
def draw(layout: str, spec: str | None, data: str | None, shape: str | None, output: str | None, force: bool) -> None:
    """Draw the arrays of a layout.

    An arrow leads from each stored value to its place in the tensor. The picture is derived from the relation. Without
    data, a small example is drawn.

    \b
    spfgen draw csr
    spfgen draw 'bcsr(R=2, C=3)' --data A=matrix.mtx -o blocks.svg
    spfgen draw mine -s mine.spf -o - > mine.svg
    """
    from spfgen.catalogue import layout_named
    from spfgen.lang.levels import is_levels, parse_levels
    from spfgen.run.drawings.drawing import drawn

    name = parse_levels(layout).name if is_levels(layout) else layout.partition("(")[0].strip()
    target = Path(output or f"{name}.svg")
    if output != "-" and target.suffix.lower() != ".svg":
        raise UsageError(f"expected a picture ending in .svg, but it is {output}")
    given = None if shape is None else extents("--shape", shape)
    picture = drawn(lambda rank, small: layout_named(layout, spec, rank, to_draw=small), data, given)
    if output == "-":
        show(picture)
        return
    for path, changed in write_files(target.parent, {target.name: picture}, force).items():
        note(f"wrote {path}" if changed else f"{path} is up to date")


def extents(option: str, text: str) -> tuple[int, ...]:
    """The value of --shape."""
    if not re.fullmatch(r"\w+([x,]\w+)*", text, re.ASCII) or text.endswith("x"):
        raise UsageError(f"expected extents such as 30x40 for {option}, but it is `{text}`")
    return tuple(whole_number(option, part) for part in text.lower().replace(",", "x").split("x"))

"""The command line. Data go to stdout, messages to stderr; the exit code says who must act (errors.py)."""

from __future__ import annotations

import json as json_module
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from spfgen import __version__
from spfgen.errors import InternalError, SpfgenError, UsageError

EPILOG = "Exit codes: 0 fine, 1 check failed, 2 usage, 3 spec, 4 unsupported, 5 C compiler, 6 data, 70 our bug."


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(__version__, prog_name="spfgen")
def command() -> None:
    """Declare a sparse layout as a relation; get fast parallel C.

    \b
    spfgen run kernels.spf -k spmv --data A=matrix.mtx --data x=random --check
    spfgen generate kernels.spf -k spmv -o build/
    spfgen explain kernels.spf -k spmv
    """


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        result = command.main(arguments, prog_name="spfgen", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Abort:
        message("interrupted")
        return 130
    except click.ClickException as error:
        error.show()
        return UsageError.exit_code
    except SpfgenError as error:
        message(str(error), error.title)
        return error.exit_code
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - the reader of stdout has gone; nothing more to say
        return 0
    except KeyboardInterrupt:
        message("interrupted")
        return 130
    except Exception:
        if os.environ.get("SPFGEN_DEBUG"):
            raise
        import traceback

        message(traceback.format_exc(), InternalError.title)
        return InternalError.exit_code


def message(text: str, title: str = "") -> None:
    """A line on stderr, in colour on a terminal."""
    prefix = f"spfgen: {title}: " if title else "spfgen: "
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        prefix = click.style(prefix, fg="red", bold=True)
    click.echo(f"{prefix}{text}", err=True)


def kernel_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """FILE and -k, resolved to the kernel specs meant."""

    @click.argument("file", metavar="FILE.spf")
    @click.option("-k", "--kernel", "kernel_name", metavar="KERNEL", help="The kernel, when the file has several.")
    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapped


def chosen(file: str, kernel_name: str | None) -> Any:
    """The kernel of the file that is meant. Raises UsageError when that is not clear."""
    import spfgen

    spec = spfgen.load(file)
    if kernel_name is None:
        if len(spec.kernels) == 1:
            return next(iter(spec.kernels.values()))
        if not spec.kernels:
            raise UsageError(f"expected a kernel in {file}, but there is none")
        raise UsageError(f"expected one kernel, but {file} has {len(spec.kernels)}", None, (f"choose: -k {' | -k '.join(spec.kernels)}",))
    if kernel_name not in spec.kernels:
        raise UsageError(
            f"expected a kernel of {file}, but `{kernel_name}` is not one",
            None,
            (f"its kernels: {', '.join(spec.kernels) or 'none'}",),
        )
    return spec.kernels[kernel_name]


@command.command()
@kernel_option
@click.option("-o", "--output", metavar="DIR", default=".", help="Where NAME.c and NAME.h go; `-` is stdout.")
@click.option("--force", is_flag=True, help="Overwrite files that exist and differ.")
def generate(file: str, kernel_name: str | None, output: str, force: bool) -> None:
    """Write the C and the header of a kernel."""
    kernel = chosen(file, kernel_name).compile()
    if output == "-":
        click.echo(kernel.generated.whole, nl=False)
        return
    folder = Path(output)
    targets = {folder / f"{kernel.name}.c": kernel.source, folder / f"{kernel.name}.h": kernel.header}
    for path, text in targets.items():
        if path.exists() and not force and path.read_text(encoding="utf-8", errors="replace") != text:
            raise UsageError(f"{path} exists and differs", None, ("write elsewhere with -o, or overwrite it with --force",))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in targets.items():
            path.write_text(text, encoding="utf-8")
            message(f"wrote {path}")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from None


@command.command()
@kernel_option
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def explain(file: str, kernel_name: str | None, as_json: bool) -> None:
    """Show iteration spaces, loops, and what was proved."""
    kernel = chosen(file, kernel_name).compile()
    if as_json:
        click.echo(json_module.dumps(kernel.explain(json=True), indent=2))
    else:
        click.echo(kernel.explain())


@command.command(name="run")
@kernel_option
@click.option("--data", multiple=True, metavar="NAME=SOURCE", help="A file, `random`, or `random:DENSITY`.")
@click.option("--size", multiple=True, metavar="NAME=N", help="The extent of an index, or a size of the kernel.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads (default: OMP_NUM_THREADS).")
@click.option("--repeat", type=click.IntRange(min=1), default=5, show_default=True, help="Timed runs; the median is shown.")
@click.option("--seed", type=int, default=0, show_default=True, help="For random data.")
@click.option("--check", is_flag=True, help="Compare with a numpy computation.")
@click.option("-o", "--output", multiple=True, metavar="NAME=FILE", help="Write a result: .npy, .npz, .mtx or .tns.")
@click.option("--force", is_flag=True, help="Overwrite output files that exist.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
def run_command(
    file: str,
    kernel_name: str | None,
    data: tuple[str, ...],
    size: tuple[str, ...],
    threads: int | None,
    repeat: int,
    seed: int,
    check: bool,
    output: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Compile a kernel and run it on data."""
    from spfgen.run.job import Job, run_job

    kernel = chosen(file, kernel_name).compile(threads=threads)
    job = Job(
        pairs(data, "--data"),
        {n: positive(n, v) for n, v in pairs(size, "--size").items()},
        pairs(output, "-o"),
        repeat,
        seed,
        check,
        force,
    )
    report = run_job(kernel, job)
    click.echo(json_module.dumps(report.as_dict(), indent=2) if as_json else report.text())


def pairs(items: tuple[str, ...], option: str) -> dict[str, str]:
    """NAME=VALUE options as a dict."""
    result: dict[str, str] = {}
    for item in items:
        name, equal, value = item.partition("=")
        if not equal or not name or not value:
            raise UsageError(f"expected {option} NAME=VALUE, but it is `{item}`")
        if name in result:
            raise UsageError(f"expected {option} once for `{name}`, but it stands twice")
        result[name] = value
    return result


def positive(name: str, text: str) -> int:
    if not text.isdigit():
        raise UsageError(f"expected a number for --size {name}, but it is `{text}`")
    return int(text)


@command.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def layouts(name: str | None, as_json: bool) -> None:
    """List the layouts that come with spfgen, or show one."""
    from spfgen.catalogue import catalogue, describe

    if name is None:
        rows = catalogue()
        if as_json:
            click.echo(json_module.dumps(dict(rows), indent=2))
            return
        width = max(len(n) for n, _ in rows)
        for own, sentence in rows:
            click.echo(f"{own:<{width}}  {sentence}")
        return
    text = describe(name)
    click.echo(json_module.dumps({name: text}) if as_json else text)


@command.command()
def doctor() -> None:
    """Show versions, the C compiler, OpenMP and the cache folder: what a bug report needs."""
    from spfgen.run.compile import doctor as examine

    found = examine()
    width = max(map(len, found))
    for key, value in found.items():
        click.echo(f"{key:<{width}}  {value}")

"""`python -m experiments NAME`: read the options, fix the thread count, then run; `all`, then the `report`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from experiments.harness.machine import usable_cores
from experiments.harness.options import Options

HERE = Path(__file__).resolve().parent
SHARED = {"harness", "data", "peers", "results"}
ALL, REPORT = "all", "report"


def names() -> list[str]:
    """The experiments: the sub-packages that are not shared ones."""
    return sorted(p.parent.name for p in HERE.glob("*/__init__.py") if p.parent.name not in SHARED)


def positive(text: str) -> int:
    """An integer of at least one."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("expected a number of at least 1")
    return number


def words(text: str) -> tuple[str, ...]:
    """The words between commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def parse(arguments: list[str]) -> Options:
    """The options of one run."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    what = f"the experiment; `{ALL}` of them, then the report; or the `{REPORT}` alone"
    parser.add_argument("name", choices=[*names(), ALL, REPORT], help=what)
    parser.add_argument("--quick", action="store_true", help="small data and few rounds")
    parser.add_argument("--peers", metavar="A,B", help="only these peers (default: all)")
    parser.add_argument("--cases", metavar="TEXT", default="", help="only cases whose label has this text")
    parser.add_argument("--threads", type=positive, default=usable_cores(), help="default: %(default)s")
    parser.add_argument("--repeat", type=positive, help="rounds (default: 21, with --quick 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="default: experiments/results/NAME.json")
    parser.add_argument("--resume", action="store_true", help="keep the cases that the file has, run the others")
    chosen = parser.parse_args(arguments)
    return Options(
        name=chosen.name,
        quick=chosen.quick,
        peers=None if chosen.peers is None else words(chosen.peers),
        threads=chosen.threads,
        rounds=chosen.repeat or (5 if chosen.quick else 21),
        json=chosen.json or HERE / "results" / f"{chosen.name}.json",
        label_part=chosen.cases,
        resume=chosen.resume,
    )


def fix_threads(threads: int) -> None:
    """Tell every threaded library the thread count; it must be done before any of them is loaded."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(threads)
    os.environ["OMP_DYNAMIC"] = "false"
    # MKL on the same OpenMP runtime as the C kernels: a second pool of threads would keep spinning after
    # MKL's turn and take the cores from the next contestant.
    os.environ["MKL_THREADING_LAYER"] = "GNU"


def run_all(arguments: list[str]) -> int:
    """Each experiment in a process of its own, then the report; the exit code is 1 when one of them failed."""
    codes = []
    for name in names():
        own = [name if word == ALL else word for word in arguments]
        codes.append(
            subprocess.run([sys.executable, "-m", "experiments", *own], cwd=HERE.parent, check=False).returncode
        )
    from experiments.report import main as report

    return report() or int(any(codes))


def main(arguments: list[str]) -> int:
    """Run one experiment; the exit code is 1 when a result was wrong or ours did not take part."""
    options = parse(arguments)
    if options.name == REPORT:
        from experiments.report import main as report

        return report()
    if options.name == ALL:
        return run_all(arguments)
    fix_threads(options.threads)
    from experiments.harness.session import run  # only now: it loads numpy and, with it, thread pools

    return run(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

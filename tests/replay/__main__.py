"""`python -m tests.replay --record CORPUS [pytest's arguments]`: add the kernels of these tests to a corpus, with what
this tree makes of them. `python -m tests.replay CORPUS`: say where this tree makes something else of them."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.replay.corpus import Json, Program, as_json, joined, of_json, read, write
from tests.replay.outcome import as_in_tests, differences, kernel_of
from tests.replay.processes import outcomes

RUN = """
import runpy, sys, tests.replay.recorder
sys.argv.pop(0)
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""Runs the module that is the first argument, recorded."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replay", description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--record", action="store_true", help="run tests and add their kernels")
    parser.add_argument("--module", metavar="NAME", default="pytest", help="with --record: run this one, not pytest")
    parser.add_argument("--c", action="store_true", help="the C must be the same, too")
    parser.add_argument("--no-calls", action="store_true", help="generate C, but compile and call nothing")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th program")
    parser.add_argument("--grep", default="", metavar="TEXT", help="only programs whose text has this")
    parser.add_argument("--key", default="", help="only the program with this key; its text is printed")
    parser.add_argument("--sources", type=Path, metavar="FOLDER", help="write each kernel's C there, to be compared")
    parser.add_argument("--write", type=Path, metavar="CORPUS", help="write what this tree makes of the programs")
    parser.add_argument("-j", type=int, default=2, metavar="N", help="processes (default: 2)")
    chosen, others = parser.parse_known_args(arguments)
    if chosen.record:
        return record(chosen.corpus, chosen.module, others, chosen.j)
    if others:
        parser.error(f"unknown: {' '.join(others)}")
    return replay(chosen)


def record(path: Path, module: str, arguments: Sequence[str], processes: int) -> int:
    """Add the kernels that a module makes when it runs with these arguments."""
    lines = read(path)[1] if path.exists() else []
    known = {program.key: (program, line["outcome"]) for program, line in ((of_json(o), o) for o in lines)}
    with tempfile.TemporaryDirectory() as folder:
        plugin = ["-p", "tests.replay.recorder"] if module == "pytest" else []
        command = [sys.executable, "-m", module, *plugin] if plugin else [sys.executable, "-c", RUN, module]
        environment = {**os.environ, "SPFGEN_REPLAY": folder}
        code = subprocess.run([*command, *arguments], env=environment, check=False).returncode
        parts = [line for part in sorted(Path(folder).glob("*.jsonl")) for line in part.read_text("utf-8").splitlines()]
    found = joined([*(p for p, _ in known.values()), *(of_json(json.loads(line)) for line in parts)])
    new = [p for p in found if p.key not in known or len(p.calls) > len(known[p.key][0].calls)]
    made = dict(outcomes(new, processes))
    both = [(p, made[p.key] if p.key in made else known[p.key][1]) for p in found]
    save(path, both)
    say(f"{len(found)} programs, {len(new)} of them new or called in new ways: {path}")
    return code


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def save(path: Path, programs: Sequence[tuple[Program, Json]]) -> None:
    lines = [{**as_json(program), "outcome": outcome} for program, outcome in programs]
    write(path, {"commit": commit(), "programs": len(lines)}, lines)


def commit() -> str:
    found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def replay(chosen: argparse.Namespace) -> int:
    """1 where something differs."""
    header, lines = read(chosen.corpus)
    lines = [o for o in lines if chosen.grep in o["text"]]
    programs = [(of_json(o), o["outcome"]) for o in lines][:: chosen.every]
    programs = [(p, o) for p, o in programs if not chosen.key or p.key == chosen.key]
    if chosen.key:
        say("\n".join(p.text for p, _ in programs))
    if chosen.sources:
        return sources([p for p, _ in programs], chosen.sources)
    old = {p.key: (p, outcome) for p, outcome in programs}
    made: dict[str, Json] = {}
    different = 0
    for key, outcome in outcomes([p for p, _ in programs], chosen.j, calls=not chosen.no_calls):
        made[key] = outcome
        program, before = old[key]
        found = [*differences(before, outcome, c=chosen.c)]
        different += bool(found)
        for text in found:
            say(f"{key} {summary(program)}\n    {text}")
    say(f"{len(made)} programs of {header['commit']}: {different} differ")
    if chosen.write:
        save(chosen.write, [(p, made[p.key]) for p, _ in programs])
    return int(different > 0)


def summary(program: Program) -> str:
    """The statements, without what is declared."""
    lines = [line.strip() for line in program.text.partition(f"kernel {program.kernel} {{")[2].splitlines()]
    own = [line for line in lines if line not in ("", "}")]
    return f"[level {program.level}] {'; '.join(own)}"[:240] if program.kernel else program.text.strip()[:120]


def sources(programs: Sequence[Program], folder: Path) -> int:
    """The C of each program as a file with the key as its name."""
    as_in_tests()
    folder.mkdir(parents=True, exist_ok=True)
    for program in programs:
        try:
            text = kernel_of(program).source
        except Exception as error:
            text = f"{type(error).__name__}: {error}\n"
        (folder / f"{program.key}.c").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A C program that calls kernels on data from a file (run/examining/sanitized.py), for a sanitizer to see."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spfgen.run.examining.sanitized import main_source, write_calls
from tests.differential.support import eager_source, one_file
from tests.fuzz import runner
from tests.fuzz.operands import Operand
from tests.fuzz.programs import Case, Data
from tests.oracle import Stored, evaluate

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Call:
    """One call of a kernel: sizes and arrays of each tensor in the order of its struct; the arrays wanted after."""

    kernel: int
    threads: int
    parameters: Sequence[int]
    tensors: Sequence[tuple[Sequence[int], Sequence[Array]]]
    wanted: Mapping[tuple[int, int], Array]
    about: str


@dataclass(frozen=True)
class Build:
    """Sources by number, the number of tensors and parameters of each."""

    sources: Mapping[int, str]
    arguments: Mapping[int, tuple[int, int]]
    together: bool = False
    """Whether the sources may stand in one file: kernels, which have no function in common but those of spfgen_..."""


def prepared(cases: Sequence[Case], threads: int = 2) -> tuple[Build, list[Call]]:
    """The C of all cases that spfgen compiles, eager to use threads, and a call for each of their data."""
    build, outcomes = generated(cases)
    eager = {n: eager_source(text) for n, text in build.sources.items()}
    calls = [_call(o, n, data, threads) for n, o in outcomes.items() for data in o.case.data]
    return Build(eager, build.arguments, together=True), calls


def generated(cases: Sequence[Case]) -> tuple[Build, dict[int, runner.Outcome]]:
    """The C of all cases that spfgen compiles."""
    sources, arguments, outcomes = {}, {}, {}
    for number, case in enumerate(cases):
        outcome = runner._generated(case, f"kernel_{number}")
        assert not outcome.problem, outcome.report()
        if outcome.refused or outcome.made is None:
            continue
        sources[number] = outcome.made.whole
        arguments[number] = len(outcome.made.program.tensors), len(outcome.made.program.parameters)
        outcomes[number] = outcome
    return Build(sources, arguments), outcomes


def _call(outcome: runner.Outcome, number: int, data: Data, threads: int) -> Call:
    made, kernel = outcome.made, outcome.kernel
    assert made is not None
    assert kernel is not None
    operands = runner.operands(outcome.case, made.program, data)
    sizes = {**dict(data.sizes), **dict(data.extents)}
    results = evaluate(kernel, {n: o.meaning() for n, o in operands.items()}, {n: sizes[n] for n in kernel.sizes})
    tensors, wanted = [], {}
    for t, declared in enumerate(made.program.tensors):
        operand = operands[declared.name]
        layout, tensor = declared.layout, operand.tensor
        names = list(layout.arrays)
        tensors.append(
            ([tensor.sizes[n] for n in (*layout.parameters, *layout.sizes)], [tensor.arrays[a] for a in names])
        )
        if declared.name in results:
            after = _expected(operand, results[declared.name])
            wanted |= {(t, names.index(v.name)): after[v.name] for v in layout.values}
    parameters = [sizes[n] for n in made.program.parameters]
    return Call(number, threads, parameters, tensors, wanted, f"{outcome.case.text()}\n{data}")


def _expected(operand: Operand, result: Any) -> dict[str, Array]:
    """The value arrays after the call; masked where a place stands for no coordinate."""
    arrays = {}
    for value in operand.layout.values:
        array = operand.tensor.arrays[value.name]
        arrays[value.name] = np.ma.masked_all(array.shape, array.dtype)
    values = result.values if isinstance(result, Stored) else [result[e.coordinate] for e in operand.entries]
    for entry, value in zip(operand.entries, values, strict=True):
        arrays[entry.array][entry.place] = value
    return arrays


def differences(calls: Sequence[Call], path: Path) -> list[str]:
    """What the program left in the arrays, compared with what is wanted."""
    data = path.read_bytes()
    at, problems = 0, []
    for call in calls:
        for t, (_, arrays) in enumerate(call.tensors):
            for k, array in enumerate(arrays):
                found = np.frombuffer(data[at : at + array.nbytes], array.dtype).reshape(array.shape)
                at += array.nbytes
                wanted = call.wanted.get((t, k))
                if wanted is None:
                    same = found.tobytes() == array.tobytes()
                else:
                    free = np.ma.getmaskarray(wanted)
                    same = np.array_equal(found[~free], np.ma.getdata(wanted)[~free])
                if not same:
                    problems.append(f"tensor {t} array {k} is\n{found}\nexpected\n{wanted}\n{call.about}")
    assert at == len(data)
    return problems


def compile_program(build: Build, command: Sequence[str], folder: Path, jobs: int = 2) -> Path:
    """The program; kernels that may not stand together are files of their own."""
    names = {number: (f"kernel_{number}", *counts) for number, counts in build.arguments.items()}
    (folder / "main.c").write_text(main_source(names), encoding="utf-8")
    texts = {f"kernel_{number}.c": source for number, source in build.sources.items()}
    if build.together:
        texts = {f"kernels_{k}.c": one_file(dict(list(texts.items())[k::jobs])) for k in range(jobs)}
    files = ["main.c", *texts]
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    parts = [files[k::jobs] for k in range(jobs)]
    running = [
        subprocess.Popen([*command, "-c", *p], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for p in parts
        if p
    ]
    for process in running:
        output, _ = process.communicate()
        assert process.returncode == 0, output
    objects = [f"{Path(f).stem}.o" for f in files]
    link = subprocess.run([*command, *objects, "-lm", "-o", "program"], cwd=folder, capture_output=True, text=True)
    assert link.returncode == 0, link.stderr
    return folder / "program"


def run(program: Path, calls: Sequence[Call], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Exit code and what the sanitizer says."""
    write_calls(folder / "data", [(c.kernel, c.threads, c.parameters, c.tensors) for c in calls])
    result = subprocess.run(
        [str(program), str(folder / "data"), str(folder / "results")],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return result.returncode, result.stderr


def told(calls: Sequence[Call], output: str) -> str:
    """The sanitizer's report with the text of the kernel it is about."""
    lines = output.splitlines()
    numbers = [int(line.split()[1]) for line in lines if line.startswith("call ")]
    report = "\n".join(line for line in lines if not line.startswith("call "))[:4000]
    return f"{report}\n{calls[numbers[-1]].about if numbers else ''}"

"""A C program that calls kernels on data from a file, so that a sanitizer sees every instruction of the process.

A tensor's struct is a row of 64-bit words: its sizes, then pointers to its arrays. The program allocates each array
with malloc at its exact size (redzones begin where the array ends), and writes them all to a file after the call.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spfgen.lang.reference import Stored, evaluate
from tests.differential.support import eager_source
from tests.fuzz import runner
from tests.fuzz.operands import Operand
from tests.fuzz.programs import Case, Data

Array = np.ndarray[Any, Any]

MAIN = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

%(prototypes)s

static int call(int64_t kernel, void **t, int64_t *sizes, int threads) {
    switch (kernel) {
%(cases)s
    }
    (void)t;
    (void)sizes;
    (void)threads;
    return -1;
}

static int64_t word(FILE *in) {
    int64_t value = 0;
    if (fread(&value, sizeof value, 1, in) != 1) {
        exit(90);
    }
    return value;
}

int main(int count, char **words) {
    FILE *in = fopen(words[1], "rb");
    FILE *out = fopen(words[2], "wb");
    if (count != 3 || !in || !out) {
        return 91;
    }
    const int64_t calls = word(in);
    for (int64_t number = 0; number < calls; number++) {
        const int64_t kernel = word(in), threads = word(in);
        int64_t sizes[16], *tensors[32], *bytes[32], arrays[32], skipped[32];
        const int64_t parameters = word(in);
        for (int64_t k = 0; k < parameters; k++) {
            sizes[k] = word(in);
        }
        const int64_t given = word(in);
        for (int64_t t = 0; t < given; t++) {
            skipped[t] = word(in);
            arrays[t] = word(in);
            tensors[t] = malloc((size_t)(skipped[t] + arrays[t]) * 8);
            bytes[t] = malloc((size_t)arrays[t] * 8);
            for (int64_t k = 0; k < skipped[t]; k++) {
                tensors[t][k] = word(in);
            }
            for (int64_t k = 0; k < arrays[t]; k++) {
                bytes[t][k] = word(in);
                char *array = malloc((size_t)bytes[t][k]);
                if (bytes[t][k] && fread(array, (size_t)bytes[t][k], 1, in) != 1) {
                    return 92;
                }
                memcpy(&tensors[t][skipped[t] + k], &array, sizeof array);
            }
        }
        fprintf(stderr, "call %%lld of kernel_%%lld\\n", (long long)number, (long long)kernel);
        const int status = call(kernel, (void **)tensors, sizes, (int)threads);
        if (status) {
            fprintf(stderr, "status %%d\\n", status);
            return 93;
        }
        for (int64_t t = 0; t < given; t++) {
            for (int64_t k = 0; k < arrays[t]; k++) {
                char *array;
                memcpy(&array, &tensors[t][skipped[t] + k], sizeof array);
                fwrite(array, 1, (size_t)bytes[t][k], out);
                free(array);
            }
            free(tensors[t]);
            free(bytes[t]);
        }
    }
    fclose(in);
    return fclose(out);
}
"""


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


def prepared(cases: Sequence[Case], threads: int = 2) -> tuple[Build, list[Call]]:
    """The C of all cases that spfgen compiles, eager to use threads, and a call for each of their data."""
    build, outcomes = generated(cases)
    eager = {n: eager_source(text) for n, text in build.sources.items()}
    calls = [_call(o, n, data, threads) for n, o in outcomes.items() for data in o.case.data]
    return Build(eager, build.arguments), calls


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
    operands = runner.operands(outcome.case, made, data)
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


def write(calls: Sequence[Call], path: Path) -> None:
    with path.open("wb") as out:

        def words(*values: int) -> None:
            out.write(np.array(values, np.int64).tobytes())

        words(len(calls))
        for call in calls:
            words(call.kernel, call.threads, len(call.parameters), *call.parameters, len(call.tensors))
            for sizes, arrays in call.tensors:
                words(len(sizes), len(arrays), *sizes)
                for array in arrays:
                    words(array.nbytes)
                    out.write(array.tobytes())


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
    """The program, each kernel a file of its own."""
    prototypes, cases = [], []
    for number, (tensors, parameters) in build.arguments.items():
        types = ["void *"] * tensors + ["int64_t"] * parameters + ["int"]
        prototypes.append(f"int kernel_{number}({', '.join(types)});")
        given = [*(f"t[{k}]" for k in range(tensors)), *(f"sizes[{k}]" for k in range(parameters)), "threads"]
        cases.append(f"    case {number}: return kernel_{number}({', '.join(given)});")
    (folder / "main.c").write_text(MAIN % {"prototypes": "\n".join(prototypes), "cases": "\n".join(cases)})
    files = ["main.c"]
    for number, source in build.sources.items():
        files.append(f"kernel_{number}.c")
        (folder / files[-1]).write_text(source, encoding="utf-8")
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
    write(calls, folder / "data")
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

"""Calls of kernels in a program of their own, made with the address and undefined-behaviour sanitizers.

A tensor's struct is a row of 64-bit words: its sizes, then pointers to its arrays. The program reads the calls from a
file, allocates each array with malloc at its exact size (an access beyond its end is noticed), and writes all arrays to
a file after each call.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from spfgen.errors import ToolError
from spfgen.run.compile import find_compiler, run_program
from spfgen.run.tensor import Array

FLAGS = ("-std=c99", "-O1", "-g1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover")
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
DOOR = "spfgen_checked_kernel"
SHOWN = 12
"""So many lines of a sanitizer's report are shown."""

MAIN = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

%(prototypes)s

FILE *spfgen_results;

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
    FILE *out = spfgen_results = fopen(words[2], "wb");
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

Tensors = Sequence[tuple[Sequence[int], Sequence[Array]]]
"""The sizes and arrays of each tensor of a call, in the order of its struct."""


def main_source(names: Mapping[int, tuple[str, int, int]]) -> str:
    """The program that calls kernels by number: of each its name and how many tensors and parameters it takes."""
    prototypes, cases = [], []
    for number, (name, tensors, parameters) in names.items():
        types = ["void *"] * tensors + ["int64_t"] * parameters + ["int"]
        prototypes.append(f"int {name}({', '.join(types)});")
        given = [*(f"t[{k}]" for k in range(tensors)), *(f"sizes[{k}]" for k in range(parameters)), "threads"]
        cases.append(f"    case {number}: return {name}({', '.join(given)});")
    return MAIN % {"prototypes": "\n".join(prototypes), "cases": "\n".join(cases)}


def write_calls(path: Path, calls: Sequence[tuple[int, int, Sequence[int], Tensors]]) -> None:
    """Write calls as the program reads them: kernel, threads, parameters and tensors of each."""
    with path.open("wb") as out:

        def words(*values: int) -> None:
            out.write(np.array(values, np.int64).tobytes())

        words(len(calls))
        for kernel, threads, parameters, tensors in calls:
            words(kernel, threads, len(parameters), *parameters, len(tensors))
            for sizes, arrays in tensors:
                words(len(sizes), len(arrays), *sizes)
                for array in arrays:
                    words(array.nbytes)
                    out.write(np.ascontiguousarray(array).tobytes())


@dataclass(frozen=True)
class ResultStruct:
    """A tensor that the kernel makes: its struct, the fields of its sizes, those of its arrays with their types. The
    program writes all of it to the results, before the arrays of other tensors."""

    struct: str
    sizes: tuple[str, ...]
    arrays: Mapping[str, np.dtype[Any]]


ALLOCATOR = """
extern FILE *spfgen_results;
static struct { void *at; int64_t bytes; } spfgen_blocks[256];
static int spfgen_block_count;
static void *spfgen_allocated(void *context, size_t bytes) {
    (void)context;
    spfgen_blocks[spfgen_block_count].bytes = (int64_t)bytes;
    return spfgen_blocks[spfgen_block_count++].at = malloc(bytes);
}
static void spfgen_released(void *context, void *block) {
    (void)context;
    free(block);
}
static void spfgen_write_block(void *block) {
    int found = spfgen_block_count - 1;
    while (spfgen_blocks[found].at != block) {
        found--;
    }
    fwrite(&spfgen_blocks[found].bytes, 8, 1, spfgen_results);
    fwrite(block, 1, (size_t)spfgen_blocks[found].bytes, spfgen_results);
    free(block);
}
"""


def _door(name: str, tensors: int, parameters: int, results: Mapping[int, ResultStruct], levels: int) -> str:
    """A function with a name that is free in the program, whatever the kernel is called."""
    words = [f"spfgen_{k}" for k in range(tensors + parameters)]
    types = ["void *"] * tensors + ["int64_t "] * parameters
    given = ", ".join([*(t + w for t, w in zip(types, words, strict=True)), "int spfgen_threads_"])
    before = [f"{one.struct} *spfgen_made_{k} = (void *)spfgen_{k};" for k, one in results.items()]
    after = [line for k, one in results.items() for line in _written(k, one)]
    passed = [f"spfgen_made_{k}" if k in results else word for k, word in enumerate(words)]
    passed.append("spfgen_threads_")
    if levels:
        passed.append("spfgen_orders_")
        before.append(f"spfgen_levels spfgen_orders_[{levels}] = {{{{0}}}};")
        after += [f"spfgen_levels_free(&spfgen_orders_[{k}]);" for k in range(levels)]
    if results:
        passed.append("&spfgen_memory_")
        before += [
            "spfgen_allocator spfgen_memory_ = {spfgen_allocated, NULL, spfgen_released, NULL, 0};",
            "spfgen_block_count = 0;",
        ]
        name = f"{name}_in"
    call = f"const int spfgen_status_ = {name}({', '.join(passed)});"
    body = "\n".join(f"    {line}" for line in (*before, call, *after, "return spfgen_status_;"))
    return f"{ALLOCATOR if results else ''}\nint {DOOR}({given});\nint {DOOR}({given}) {{\n{body}\n}}\n"


def _written(number: int, one: ResultStruct) -> list[str]:
    """The sizes and arrays of a result go to the file."""
    pointer = f"spfgen_made_{number}"
    lines = ["if (!spfgen_status_) {"]
    lines += [f"    fwrite(&{pointer}->{size}, 8, 1, spfgen_results);" for size in one.sizes]
    lines += [f"    spfgen_write_block((void *){pointer}->{array});" for array in one.arrays]
    return [*lines, "}"]


@cache
def available() -> bool:
    """Whether the C compiler makes programs with sanitizers that run here."""
    with tempfile.TemporaryDirectory(prefix="spfgen-") as name:
        try:
            return not _run(Path(name), "", main_source({}), [])[0]
        except ToolError:
            return False


def called(
    source: str,
    name: str,
    calls: Sequence[tuple[Sequence[int], Tensors]],
    threads: int,
    results: Mapping[int, ResultStruct] = MappingProxyType({}),
    levels: int = 0,
) -> tuple[list[list[list[Array]]], str]:
    """Call a kernel with parameters and tensors, several times. `made` are the tensors that it makes, of which sizes
    are given; `levels` is how many orders of loops it keeps.

    Returns (for each call and tensor its arrays afterwards, for one that is made its sizes, then the elements of its
    arrays; what a sanitizer said: nothing when all is well).

    Raises ToolError when the compiler has no sanitizers.
    """
    counts = len(calls[0][1]), len(calls[0][0])
    main = main_source({0: (DOOR, *counts)})
    source = f"#include <stdio.h>\n{source}{_door(name, *counts, results, levels)}"
    with tempfile.TemporaryDirectory(prefix="spfgen-") as folder:
        code, output, data = _run(Path(folder), source, main, [(0, threads, p, t) for p, t in calls])
    if code:
        report = [line for line in output.splitlines() if line and not line.startswith("call ")]
        return [], "\n".join(report[:SHOWN]) or f"the program ended with code {code}"
    blocks, at = [], 0
    for _, tensors in calls:
        blocks.append([list[Array]() for _ in tensors])
        for number, one in results.items():
            end = at + 8 * len(one.sizes)
            blocks[-1][number].append(np.frombuffer(data[at:end], np.int64))
            for dtype in one.arrays.values():
                at, end = end + 8, end + 8 + int.from_bytes(data[end : end + 8], "little")
                whole = at + (end - at) // dtype.itemsize * dtype.itemsize  # no element may take a byte
                blocks[-1][number].append(np.frombuffer(data[at:whole], dtype))
            at = end
        for blocks_of_tensor, (_, arrays) in zip(blocks[-1], tensors, strict=True):
            for array in arrays:
                blocks_of_tensor.append(np.frombuffer(data[at : at + array.nbytes], array.dtype).reshape(array.shape))
                at += array.nbytes
    return blocks, ""


def _run(
    folder: Path, source: str, main: str, calls: Sequence[tuple[int, int, Sequence[int], Tensors]]
) -> tuple[int, str, bytes]:
    """Compile and run: exit code, output, results."""
    (folder / "main.c").write_text(main, encoding="utf-8")
    files = [folder / "main.c"]
    if source:
        (folder / "kernel.c").write_text(source, encoding="utf-8")
        files.append(folder / "kernel.c")
    compiler = find_compiler()
    program = folder / "program"
    command = [*compiler.command, *FLAGS, *compiler.openmp, *map(str, files), "-lm", "-o", str(program)]
    code, output = run_program(command)
    if code:
        raise ToolError(f"expected the compiler to make a program with sanitizers, but it ended with code {code}", None,
                        output.splitlines()[:SHOWN])  # fmt: skip
    write_calls(folder / "data", calls)
    code, output = run_program([str(program), str(folder / "data"), str(folder / "results")], ENVIRONMENT)
    results = folder / "results"
    return code, output, results.read_bytes() if results.exists() else b""

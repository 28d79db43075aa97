"""Results that the C function alone makes: called from a program in C, without Python's packer.

The program calls each kernel with each data set and writes what the struct of the result holds. Then it calls it again
with one allocation more each time, from none at all, until there is enough: a call that fails says that there is no
memory, leaves the struct as it was and gives all memory back. What was written is validated and compared with numpy.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

import spfgen
from spfgen.cir.lower.layout import field_name, final_structs, finished, free_name
from spfgen.errors import DataError, SpfgenError, UsageError
from spfgen.run.examining.examine import _words as words_of
from spfgen.run.examining.sanitized import main_source, write_calls
from spfgen.run.job import passed
from spfgen.run.tensor import Tensor, extents_of
from spfgen.space.nodes import Tensor as Declared
from tests.differential.support import eager_source
from tests.fuzz import results
from tests.fuzz.c_programs import Trial

Array = np.ndarray[Any, Any]
OK, MEMORY, RANGE, PLACE, INDEX = 0, 3, 4, 5, 6
THREADS = (1, 2, 3)
COUNTED = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <malloc.h>
extern FILE *spfgen_results;
static int64_t allowed, live;
static int may_allocate(void) { return __atomic_fetch_sub(&allowed, 1, __ATOMIC_RELAXED) > 0; }
static void *lived(void *memory) {
    __atomic_fetch_add(&live, memory != NULL, __ATOMIC_RELAXED);
    return memory;
}
static inline void *counted_calloc(size_t count, size_t size) {
    return may_allocate() ? lived(calloc(count, size)) : NULL;
}
static inline void *counted_malloc(size_t size) { return may_allocate() ? lived(malloc(size)) : NULL; }
static inline void *counted_realloc(void *old, size_t size) {
    void *memory = may_allocate() ? realloc(old, size) : NULL;
    return old ? memory : lived(memory);
}
static inline void counted_free(void *memory) {
    __atomic_fetch_sub(&live, memory != NULL, __ATOMIC_RELAXED);
    free(memory);
}
"""
DOOR = """
int %(door)s(%(types)s);
int %(door)s(%(types)s) {
    %(declared)s
    allowed = INT64_MAX, live = 0;
    const int64_t status = %(call)s;
    fwrite(&status, 8, 1, spfgen_results);
    if (status) {
        return live || %(changed)s ? 101 : 0;
    }
    %(written)s
    %(freed)s
    if (live) {
        fprintf(stderr, "%%lld blocks are not given back", (long long)live);
        return 102;
    }
    for (int64_t most = 0;; most++) {
        %(again)s
        allowed = most;
        const int failing = %(call)s;
        if (!failing) {
            %(freed)s
        }
        if (live || (failing && (failing != 3 || %(changed)s))) {
            fprintf(stderr, "with %%lld allocations: status %%d, %%lld blocks left\\n", (long long)most, failing,
                (long long)live);
            return 103;
        }
        if (!failing) {
            return 0;
        }
    }
}
"""
"""The results are written, then made again with more and more allocations."""
WRITTEN = """{
        const int64_t bytes = (int64_t)malloc_usable_size((void *)(uintptr_t)%(result)s->%(array)s);
        fwrite(&bytes, 8, 1, spfgen_results);
        fwrite(%(result)s->%(array)s, 1, (size_t)bytes, spfgen_results);
    }"""


# --- the program in C ---------------------------------------------------------------------------------


def made_of(trial: Trial) -> dict[int, Declared]:
    """The results that the C makes, as they are declared at last, by their numbers among the tensors."""
    tensors = trial.kernel.generated.program.tensors
    bare = trial.kernel.generated.bare
    return {k: finished(t) for k, t in enumerate(tensors) if t.is_made or t.name in bare}


def words(trial: Trial, declared: Declared, tensor: Tensor) -> tuple[list[int], list[Array]]:
    """The struct that the program is given; a result that the C can make comes without arrays."""
    if declared.name not in trial.kernel.generated.bare:
        return words_of(declared, tensor)
    layout = declared.layout
    return [*(tensor.sizes[n] or -1 for n in layout.parameters), *[0] * len((*layout.sizes, *layout.arrays))], []


def source(trial: Trial, number: int) -> str:
    """The C of a kernel with a function `door_N` that calls it."""
    program = trial.kernel.generated.program
    whole = eager_source(trial.whole)
    whole = re.sub(r"\b(malloc|calloc|realloc|free)\(", r"counted_\1(", whole)
    own = f"kernel_{number}"
    renamed = f"#define {program.name} {own}\n#define {program.name}_in {own}_in\n"
    kinds = ["void *"] * len(program.tensors) + ["int64_t "] * len(program.parameters)
    passed_words = [f"word_{k}" for k in range(len(kinds))]
    made, structs = made_of(trial), final_structs(program)
    given = [f"result_{k}" if k in made else w for k, w in enumerate(passed_words)]
    declared, written, freed, again, changed = [], [], [], [], []
    for k, tensor in made.items():
        struct, result = structs[tensor.name], f"result_{k}"
        declared += [
            f"{struct.name} *{result} = ({struct.name} *)word_{k};",
            f"const {struct.name} before_{k} = *{result};",
        ]
        sizes = [field_name(n) for n in (*tensor.layout.parameters, *tensor.layout.sizes)]
        written += [f"fwrite(&{result}->{n}, 8, 1, spfgen_results);" for n in sizes]
        written += [WRITTEN % {"result": result, "array": field_name(a)} for a in tensor.layout.arrays]
        freed.append(f"{free_name(struct)}({result});")
        again.append(f"*{result} = before_{k};")
        changed.append(f"memcmp({result}, &before_{k}, sizeof before_{k})")
    parts = {
        "door": f"door_{number}",
        "types": ", ".join([*(k + w for k, w in zip(kinds, passed_words, strict=True)), "int threads"]),
        "call": f"{program.name}({', '.join([*given, 'threads'])})",
        "declared": "\n    ".join(declared),
        "written": "\n    ".join(written),
        "freed": " ".join(freed),
        "again": " ".join(again),
        "changed": f"({' || '.join(changed)})",
    }
    return COUNTED + renamed + whole + "\n#include <string.h>\n" + DOOR % parts


def built(trials: Sequence[Trial], command: Sequence[str], folder: Path) -> Path:
    """One program of all. Raises AssertionError with what the compiler says."""
    texts = {"main": main_source({
        k: (f"door_{k}", len(t.kernel.generated.program.tensors), len(t.kernel.generated.program.parameters))
        for k, t in enumerate(trials)
    })}  # fmt: skip
    texts |= {f"kernel_{k}": source(t, k) for k, t in enumerate(trials)}

    def compiled(name: str) -> str:
        (folder / f"{name}.c").write_text(texts[name], encoding="utf-8")
        words = [*command, "-c", f"{name}.c"]
        return subprocess.run(words, cwd=folder, capture_output=True, text=True).stderr if words else ""

    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(compiled, texts))
    objects = [f"{name}.o" for name in texts]
    linked = subprocess.run([*command, *objects, "-lm", "-o", "program"], cwd=folder, capture_output=True, text=True)
    assert linked.returncode == 0, "\n".join([*said, linked.stderr])[:3000]
    return folder / "program"


@dataclass
class Call:
    trial: Trial
    number: int
    bound: Any
    threads: int
    expected: Mapping[str, Array]


def calls_of(trials: Sequence[Trial]) -> list[Call]:
    found = []
    for number, trial in enumerate(trials):
        for threads, (given, sizes), expected in zip(cycle(THREADS), trial.given, trial.expected, strict=False):
            try:
                bound = trial.kernel.bind(sizes=sizes, **given)
            except (DataError, UsageError):
                continue  # extents that no result has
            found.append(Call(trial, number, bound, threads, expected))
    return found


def reports(
    trials: Sequence[Trial], command: Sequence[str], environment: Mapping[str, str], tally: dict[str, int]
) -> list[str]:
    """What is wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            program = built(trials, command, folder)
        except AssertionError as error:
            return [f"{error}\n" + "\n\n".join(t.told for t in trials)]
        calls, found = calls_of(trials), list[str]()
        tally["calls"] = tally.get("calls", 0) + len(calls)
        while calls:
            rest = _ran(calls, program, folder, environment, found, tally)
            calls = calls[len(calls) - rest :]
        return found


def _ran(
    calls: Sequence[Call],
    program: Path,
    folder: Path,
    environment: Mapping[str, str],
    found: list[str],
    tally: dict[str, int],
) -> int:
    """Run all calls; how many are left after one that failed."""
    data = []
    for call in calls:
        tensors = call.trial.kernel.generated.program.tensors
        given = [words(call.trial, t, call.bound.tensors[t.name]) for t in tensors]
        data.append((call.number, call.threads, [*passed(call.bound).values()], given))
    write_calls(folder / "data", data)
    told = subprocess.run(
        [str(program), str(folder / "data"), str(folder / "results")],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, errors="replace",
    )  # fmt: skip
    lines = told.stderr.splitlines()
    begun = sum(line.startswith("call ") for line in lines)
    failed = told.returncode != 0
    read = _Read((folder / "results").read_bytes())
    for call in calls[: begun - failed]:
        problem = _problem(call, read, tally)
        if problem:
            found.append(f"{problem[:1500]}\n{call.trial.told}\n{shown(call)}")
    if failed:
        call = calls[begun - 1]
        said = [line for line in lines if not line.startswith("call ")][:40]
        found.append(f"code {told.returncode}\n" + "\n".join(said) + f"\n{call.trial.told}\n{shown(call)}")
    return len(calls) - begun if failed else 0


def shown(call: Call) -> str:
    outputs = {t.name for t in call.trial.kernel.generated.program.tensors if t.is_output}
    given = {n: t for n, t in call.bound.tensors.items() if n not in outputs}
    told = [f"{n} = {t.to_numpy().tolist()}" for n, t in given.items()]
    return "\n".join([f"{call.threads} threads", *told])[:1500]


@dataclass
class _Read:
    data: bytes
    at: int = 0

    def word(self) -> int:
        self.at += 8
        return int.from_bytes(self.data[self.at - 8 : self.at], "little", signed=True)

    def array(self, like: Array) -> Array:
        """One with the type and the shape of another."""
        self.at += like.nbytes
        return np.frombuffer(self.data[self.at - like.nbytes : self.at], like.dtype).reshape(like.shape)

    def block(self) -> bytes:
        count = self.word()
        self.at += count
        return self.data[self.at - count : self.at]


def _problem(call: Call, read: _Read, tally: dict[str, int]) -> str:
    """What is wrong with the results; one has no place for what is computed where packing says so, too."""
    made, status = made_of(call.trial), read.word()
    tally[f"status {status}"] = tally.get(f"status {status}", 0) + 1
    found = {} if status else {t.name: _tensor(t, read) for t in made.values()}
    for number, tensor in enumerate(call.trial.kernel.generated.program.tensors):
        bound = call.bound.tensors[tensor.name]
        if tensor.is_output and number not in made:
            arrays = {n: read.array(a) for n, a in bound.arrays.items()}
            found |= {} if status else {tensor.name: replace(bound, arrays=arrays)}
        elif not tensor.is_output:
            read.at += sum(a.nbytes for a in words(call.trial, tensor, bound)[1])
    if status in (RANGE, PLACE, INDEX):
        return _refused(call, status, made)
    if status:
        return f"status {status}"
    return next(filter(None, (_wrong(call, n, t) for n, t in found.items())), "")


def _refused(call: Call, status: int, made: Mapping[int, Declared]) -> str:
    """Why that is wrong."""
    for tensor in made.values():
        try:
            spfgen.pack(call.expected[tensor.name], tensor.layout)
        except SpfgenError:
            return ""
    if any(not t.layout.indexes for t in made.values()):
        return ""  # places follow from the extents: all that may be computed has to have one
    return f"status {status}, but it can be packed: {[a.tolist() for a in call.expected.values()]}"


def _wrong(call: Call, name: str, found: Tensor) -> str:
    told = f"{name}: {found.sizes} {found.arrays}"
    try:
        found.validate()
    except DataError as error:
        return f"does not pass validate: {error}\n{told}"
    expected = call.expected[name]
    if found.layout.is_pattern:  # it says where something is stored, not what
        stored = np.zeros(found.shape, bool)
        stored[tuple(found.to_coo().coords)] = True
        return f"not stored: {told}" if ((expected != found.layout.fill) & ~stored).any() else ""
    try:
        results.check(found, expected, call.trial.layouts[name], False, told)
    except AssertionError as error:
        return f"wrong: {error}"
    return ""


def _tensor(declared: Declared, read: _Read) -> Tensor:
    layout = declared.layout
    kinds = dict(declared.index_types) | {v.name: declared.value_type for v in layout.values}
    sizes = {n: read.word() for n in (*layout.parameters, *layout.sizes)}
    arrays = {}
    for name in layout.arrays:
        block, shape, kind = read.block(), extents_of(layout, name, sizes), np.dtype(kinds[name])
        count = int(np.prod(shape, dtype=np.int64))
        assert len(block) >= count * kind.itemsize, f"{name} has {len(block)} bytes for {shape} of {kind}"
        arrays[name] = np.frombuffer(block, kind, count).reshape(shape)
    return Tensor(layout, sizes, arrays)

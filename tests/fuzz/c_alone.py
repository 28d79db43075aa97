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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen import tuning
from spfgen.cir.lower import files
from spfgen.cir.lower.layout import field_name, final_structs, finished
from spfgen.errors import DataError, SpfgenError, Unsupported, UsageError
from spfgen.kernel import Kernel
from spfgen.lang import nodes as lang
from spfgen.layout.nodes import SCALAR
from spfgen.run.examining.examine import _words as words_of
from spfgen.run.examining.sanitized import main_source, write_calls
from spfgen.run.job import passed
from spfgen.run.tensor import Tensor, extents_of
from spfgen.space.nodes import Tensor as Declared
from tests.differential.support import eager_source
from tests.fuzz import results, trees, unseen
from tests.fuzz.expressions import EXTENT_OF, alone, result_of
from tests.fuzz.programs import known_layouts
from tests.fuzz.test_random_expressions import Skipped, random_equation
from tests.papers import support

Array = np.ndarray[Any, Any]
OK, MEMORY, RANGE, PLACE, INDEX = 0, 3, 4, 5, 6
THREADS = 2
FAR = {"CONVERT_FAR_BYTES": 0, "CONVERT_BUCKET": 5, "CONVERT_MANY_APART": 0}
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
    %(struct)s *result = (%(struct)s *)word_%(result)d;
    const %(struct)s before = *result;
    allowed = INT64_MAX, live = 0;
    const int64_t status = %(call)s;
    fwrite(&status, 8, 1, spfgen_results);
    if (status) {
        return live || memcmp(result, &before, sizeof before) ? 101 : 0;
    }
    %(written)s
    %(free)s(result);
    if (live) {
        fprintf(stderr, "%%lld blocks are not given back", (long long)live);
        return 102;
    }
    for (int64_t most = 0;; most++) {
        *result = before;
        allowed = most;
        const int failing = %(call)s;
        if (!failing) {
            %(free)s(result);
        }
        if (live || (failing && (failing != 3 || memcmp(result, &before, sizeof before)))) {
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
"""A result is written, then made again with more and more allocations."""
WRITTEN = """{
        const int64_t bytes = (int64_t)malloc_usable_size((void *)(uintptr_t)result->%(array)s);
        fwrite(&bytes, 8, 1, spfgen_results);
        fwrite(result->%(array)s, 1, (size_t)bytes, spfgen_results);
    }"""


@dataclass
class Trial:
    """A kernel, its data sets and what is expected of each."""

    told: str
    layout: str
    kernel: Kernel
    whole: str
    """Its C."""
    given: Sequence[tuple[Mapping[str, Any], Mapping[str, int]]]
    expected: Sequence[Array]


# --- programs -----------------------------------------------------------------------------------------

COPIES = {
    "R[i,j] = A[i,j]": lambda a, b: a,
    "R[j,i] = A[i,j]": lambda a, b: a.T,
    "R[i,j] = 2*A[i,j] + B[i,j]": lambda a, b: 2 * a + b,
    "R[i,j] = A[i,j]*B[i,j]": lambda a, b: a * b,
    "R[i,j] = max(A[i,j], B[i,j])": np.maximum,
    "R[i,j] = A[i,k]*B[k,j]": lambda a, b: a @ b,
    "R[i,j] = A[k,i]*B[k,j]": lambda a, b: a.T @ b,
    "R[i,j] = A[i,j] where j <= i": lambda a, b: np.tril(a),
    "R[i,j] = A[i,j+1] - A[i,j]": lambda a, b: np.hstack([a[:, 1:], 0 * a[:, :1]]) - a,
    "R[i,j] = A[i,j]; R[i,j] *= B[i,j]": lambda a, b: a * b,
    "R[i,j] = A[i,j]; R[i,j] max= B[i,j]": np.maximum,
    "R[l,j] = concat((A[i,j], B[k,j]), (i, k) -> l)": lambda a, b: np.vstack([a, b]),
    "R[i,l] = concat((A[i,j], B[i,k]), (j, k) -> l)": lambda a, b: np.hstack([a, b]),
    "r[k] = collapse(A[i,j], (i, j) -> k)": lambda a, b: a.ravel(),
    "r[i] = A[i,j]*B[i,j]": lambda a, b: (a * b).sum(1),
    "R[i,j,k] = A[i,j]*B[j,k]": lambda a, b: a[:, :, None] * b[None],
    "R[k,i,j] = A[i,k]*B[k,j]": lambda a, b: np.einsum("ik,kj->kij", a, b),
}
SQUARE = ((0, 0), (1, 1), (4, 4), (7, 7), (30, 30))
OPERANDS = ("csr", "csr", "csc", "coo", "coo_unsorted", "csr_unsorted", "dcsr", "bcsr(R=2, C=3)", "ell", "dia", "dense",
            "csf", "jds", "csr_rle")  # fmt: skip


def layout_of_result(rng: np.random.Generator, rank: int) -> tuple[str, str]:
    """A layout and the text that declares it: one that comes with spfgen, one of the tests, or one made at random."""
    choice = rng.random()
    if choice < 0.4 or (choice < 0.6 and rank > 3):
        return str(rng.choice(known_layouts(rank) if rank < 4 else support.SPARSE[rank])), ""
    if choice < 0.6:
        name = str(rng.choice([n for n, u in unseen.ALL.items() if u.rank == rank]))
        return name, unseen.ALL[name].text
    return "random_tree", trees.random_tree(rng, rank, "random_tree")


def random_trial(seed: int, level: int) -> Trial | None:
    """None where the kernel is refused, or its result is dense."""
    rng = np.random.default_rng([seed, 49])
    return _copy(rng, seed, level) if rng.random() < 0.7 else _equation(rng, seed, level)


def _copy(rng: np.random.Generator, seed: int, level: int) -> Trial | None:
    text = str(rng.choice(list(COPIES)))
    name = "R" if "R[" in text else "r"
    result, declared = layout_of_result(rng, 1 if name == "r" else text.partition("]")[0].count(",") + 1)
    layouts = {n: str(rng.choice(OPERANDS)) for n in "AB" if f"{n}[" in text}
    given, expected = [], []
    for shape in SQUARE:
        tensors, arrays = {}, {"A": np.zeros(shape), "B": np.zeros(shape)}
        for operand, layout in layouts.items():
            kept = rng.random(shape) < rng.choice([0.1, 0.4, 1.0])
            values = np.where(kept, rng.integers(-3, 9, shape), 0).astype(float)
            made = support.packed(values, layout, 0, seed % 5)
            if made is None:
                return None
            tensors[operand], arrays[operand] = made
        given.append((tensors, dict[str, int]()))
        expected.append(COPIES[text](arrays["A"], arrays["B"]))
    declarations = "  ".join(f"tensor {n} : {layout}" for n, layout in (*layouts.items(), (name, result)))
    return _trial(f"{declared}\nkernel made {{ {declarations}\n  {text} }}", seed, level, given, expected)


def _equation(rng: np.random.Generator, seed: int, level: int) -> Trial | None:
    try:
        equation, sets = random_equation(seed, 2)
    except Skipped:
        return None
    if not equation.free:
        return None
    result, declared = layout_of_result(rng, len(equation.free))
    said = alone(equation.value)
    names = {o.name for o in equation.operands}
    given, expected = [], []
    for tensors, known in sets:
        sizes = {i: known.extents[EXTENT_OF[i]] for i in equation.free if i not in said}
        given.append(({n: v for n, v in tensors.items() if n in names}, sizes))
        expected.append(result_of(equation, known, None))
    ours = [unseen.ALL[o.layout].text for o in equation.operands if o.layout in unseen.ALL]
    texts = "\n".join(dict.fromkeys([*ours, declared]))
    lines = [f"tensor {o.name} : {support.with_fill(o.layout, o.fill)}" for o in equation.operands if o.axes]
    lines += [f"tensor R : {result}", equation.text()]
    return _trial(f"{texts}\nkernel made {{ {'  '.join(lines[:-1])}\n {lines[-1]} }}", seed, level, given, expected)


def _trial(text: str, seed: int, level: int, given: Any, expected: Any) -> Trial | None:
    told = f"seed {seed} level {level}:\n{text}"
    layout = re.findall(r"tensor [Rr] : (\w+(?:\([^)]*\))?)", text)[-1]
    try:
        kernel = spfgen.parse(text).kernels["made"].compile(optimize=level, threads=THREADS)
        with far_apart(seed % 2 == 1):
            kernel = typed(kernel, kernel.bind(sizes=given[0][1], **given[0][0]).tensors)
            whole = kernel.generated.whole if kernel.generated.refused is None else ""
    except (Unsupported, DataError, UsageError):
        return None
    if not whole:
        return None  # there is no C
    program = kernel.generated.program
    if program.levels or [t.assembled is not None for t in program.tensors if t.is_output] != [True]:
        return None  # a dense result, or one that has a fixed pattern
    return Trial(told, layout, kernel, whole, given, expected)


@contextmanager
def far_apart(wanted: bool) -> Iterator[None]:
    """Buckets of few entries are made, whatever fits the cache: what large data has."""
    with pytest.MonkeyPatch.context() as patch:
        for name, number in (FAR if wanted else {}).items():
            patch.setattr(tuning, name, number)
        files.runtime.cache_clear()
        yield
    files.runtime.cache_clear()


def typed(kernel: Kernel, tensors: Mapping[str, Tensor]) -> Kernel:
    """The kernel for the types of these tensors, as a call makes it."""
    declared = {d.name: d for d in kernel.parsed.tensors}
    declarations = []
    for name, tensor in tensors.items():
        own = declared.get(name, lang.TensorDecl(name, lang.LayoutUse(SCALAR.name)))
        made = kernel.generated.program.tensor(name).is_output
        kinds = () if made else tuple((a.name, tensor.arrays[a.name].dtype.name) for a in tensor.layout.indexes)
        use = replace(own.use, value_type=tensor.dtype.name, index_type=None, array_types=kinds)
        declarations.append(replace(own, use=use))
    local = [d for d in kernel.parsed.tensors if d.name not in tensors]
    parsed = replace(kernel.parsed, tensors=(*declarations, *local))
    return Kernel(parsed, kernel.layouts, THREADS)


# --- the program in C ---------------------------------------------------------------------------------


def made_of(trial: Trial) -> Declared:
    """The result as it is declared at last."""
    return next(finished(t) for t in trial.kernel.generated.program.tensors if t.is_output)


def source(trial: Trial, number: int) -> str:
    """The C of a kernel with a function `door_N` that calls it."""
    program = trial.kernel.generated.program
    whole = eager_source(trial.whole)
    whole = re.sub(r"\b(malloc|calloc|realloc|free)\(", r"counted_\1(", whole)
    own = f"kernel_{number}"
    renamed = f"#define {program.name} {own}\n#define {program.name}_in {own}_in\n"
    struct = final_structs(program)[made_of(trial).name].name
    kinds = ["void *"] * len(program.tensors) + ["int64_t "] * len(program.parameters)
    words = [f"word_{k}" for k in range(len(kinds))]
    declared = made_of(trial)
    result = [t.name for t in program.tensors].index(declared.name)
    passed_words = ["result" if k == result else w for k, w in enumerate(words)]
    sizes = [field_name(n) for n in (*declared.layout.parameters, *declared.layout.sizes)]
    written = [f"fwrite(&result->{n}, 8, 1, spfgen_results);" for n in sizes]
    written += [WRITTEN % {"array": field_name(a)} for a in declared.layout.arrays]
    return (
        COUNTED
        + renamed
        + whole
        + "\n#include <string.h>\n"
        + DOOR
        % {
            "door": f"door_{number}",
            "types": ", ".join([*(k + w for k, w in zip(kinds, words, strict=True)), "int threads"]),
            "struct": struct,
            "result": result,
            "call": f"{program.name}({', '.join([*passed_words, 'threads'])})",
            "free": struct.removesuffix("_t") + "_free",
            "written": "\n    ".join(written),
        }
    )


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
    expected: Array


def calls_of(trials: Sequence[Trial]) -> list[Call]:
    found = []
    for number, trial in enumerate(trials):
        for (given, sizes), expected in zip(trial.given, trial.expected, strict=True):
            try:
                bound = trial.kernel.bind(sizes=sizes, **given)
            except (DataError, UsageError):
                continue  # extents that no result has
            found.append(Call(trial, number, bound, expected))
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
        given = [words_of(t, call.bound.tensors[t.name]) for t in tensors]
        data.append((call.number, THREADS, [*passed(call.bound).values()], given))
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
    given = {n: t for n, t in call.bound.tensors.items() if n != made_of(call.trial).name}
    return "\n".join(f"{n} = {t.to_numpy().tolist()}" for n, t in given.items())[:1500]


@dataclass
class _Read:
    data: bytes
    at: int = 0

    def word(self) -> int:
        self.at += 8
        return int.from_bytes(self.data[self.at - 8 : self.at], "little", signed=True)

    def block(self) -> bytes:
        count = self.word()
        self.at += count
        return self.data[self.at - count : self.at]


def _problem(call: Call, read: _Read, tally: dict[str, int]) -> str:
    """What is wrong with a result; that it has no place for what is computed is right where packing says so, too."""
    declared = made_of(call.trial)
    layout, status = declared.layout, read.word()
    tally[f"status {status}"] = tally.get(f"status {status}", 0) + 1
    made = None if status else _tensor(declared, read)
    for tensor in call.trial.kernel.generated.program.tensors:
        if not tensor.is_output:
            read.at += sum(a.nbytes for a in words_of(tensor, call.bound.tensors[tensor.name])[1])
    if status in (RANGE, PLACE, INDEX):
        try:
            spfgen.pack(call.expected, layout)
        except SpfgenError:
            return ""
        return "" if not layout.indexes else f"status {status}, but it can be packed: {call.expected.tolist()}"
    if made is None:
        return f"status {status}"
    try:
        made.validate()
    except DataError as error:
        return f"does not pass validate: {error}\n{made.sizes} {made.arrays}"
    expected = call.expected
    if layout.is_pattern:  # it says where something is stored, zeros too
        expected = (expected != 0) | (made.to_numpy() != 0)
    try:
        results.check(made, expected, call.trial.layout, False, f"{made.sizes} {made.arrays}")
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


def batches(seed: int, size: int) -> Iterator[list[Trial]]:
    """Lists of so many programs, without end."""
    while True:
        trials: list[Trial] = []
        while len(trials) < size:
            trial = random_trial(seed, seed % 3)
            trials += [trial] if trial is not None else []
            seed += 1
        yield trials

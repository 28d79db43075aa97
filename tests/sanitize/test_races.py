"""Parallel kernels under the thread sanitizer (clang, libomp and archer, which tells it what OpenMP orders)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import spfgen
from spfgen.cir.lower.layout import field_name
from spfgen.cir.lower.layout import structs as made_structs
from spfgen.pipeline import Generated
from tests.differential.support import eager_source
from tests.differential.test_levels import doubled, keen, listed
from tests.fuzz.programs import SPARSE_OUTPUTS, Case, Data, known_layouts, unseen_layouts
from tests.sanitize.checks import checks
from tests.sanitize.driver import Build, Call, compile_program, differences, prepared, run, told
from tests.sanitize.kernels import PARTNERS, case, every_find, every_product

FLAGS = ("-std=c99", "-O0", "-g1", "-fopenmp", "-fsanitize=thread")
DATA = (Data((("n0", 13), ("n1", 12), ("n2", 7)), (("w", 2),), 0.5, 1),)

RACE = """
#include <stdint.h>
struct vector { int64_t n; double *x; };
int kernel_0(struct vector *t, int threads) {
    double *x = t->x;
    const int64_t n = t->n;
    #pragma omp parallel for num_threads(threads)
    for (int64_t i = 0; i < n; i++) {
        x[%s] += 1.0;
    }
    return 0;
}
"""


LEVELLED = """
#include <math.h>
#include <stdio.h>
#include "{name}.h"
{arrays}
int main(void) {{
    {structs}
    spfgen_levels levels = {{0}};
    int together = 0;
    for (int call = 0; call < 8; call++) {{
        for (int i = 0; i < {count}; i++) {{
            x_val[i] = NAN;
        }}
        if ({name}({arguments}, 3, &levels)) {{
            return 1;
        }}
        together += levels.way <= 1;
        for (int i = 0; i < {count}; i++) {{
            if (!(fabs(x_val[i] - wanted[i]) <= 1e-9)) {{
                return 2;
            }}
        }}
    }}
    printf("%d %d %d %d\\n", (int)levels.levels, (int)levels.listed, levels.other != NULL, together);
    spfgen_levels_free(&levels);
    return 0;
}}
"""


@cache
def archer() -> str:
    """The path of libarcher beside clang's own libraries."""
    clang = shutil.which("clang")
    if clang is None:
        return ""
    folders = [Path(clang).resolve().parents[1] / "lib"]
    answer = subprocess.run([clang, "-print-file-name=libarcher.so"], capture_output=True, text=True).stdout.strip()
    found = [p for p in (Path(answer), *(f / "libarcher.so" for f in folders)) if p.is_absolute() and p.exists()]
    return str(found[0]) if found else ""


def environment() -> dict[str, str]:
    options = "ignore_noninstrumented_modules=1 exitcode=66"
    return {"OMP_TOOL_LIBRARIES": archer(), "TSAN_OPTIONS": options, "OMP_NUM_THREADS": "3"}


def command() -> list[str]:
    return [shutil.which("clang") or "clang", *FLAGS]


def program(subscript: str, folder: Path) -> tuple[int, str, list[Call]]:
    """A loop written here that writes x[subscript]."""
    built = compile_program(Build({0: RACE % subscript}, {0: (1, 0)}), command(), folder)
    wanted = np.ones(300)
    calls = [Call(0, 3, (), [((300,), [np.zeros(300)])], {(0, 0): wanted}, "")]
    return *run(built, calls, folder, environment()), calls


@pytest.fixture(scope="module", autouse=True)
def thread_sanitizer(tmp_path_factory: pytest.TempPathFactory) -> None:
    if shutil.which("clang") is None:
        pytest.skip("clang is not on PATH")
    if not archer():
        pytest.skip("clang is here, but libarcher is not (Debian: libomp-dev)")
    try:
        _, output, _ = program("i", tmp_path_factory.mktemp("probe"))
    except AssertionError as error:
        pytest.skip(f"clang does not link OpenMP with the thread sanitizer: {str(error)[:200]}")
    if "unexpected memory mapping" in output or "FATAL" in output:
        pytest.skip(f"the thread sanitizer does not run here: {output[:200]}")


def test_a_loop_without_a_race_passes(tmp_path: Path) -> None:
    code, output, calls = program("i", tmp_path)
    assert code == 0, output
    assert not differences(calls, tmp_path / "results")


def test_a_race_is_seen(tmp_path: Path) -> None:
    code, output, _ = program("i % 7", tmp_path)
    assert code == 66
    assert "data race" in output


def cases() -> list[Case]:
    """Every layout as operand, every layout that can be one as output, statements after one another."""
    found = []
    texts = {1: "y[i] = A[i]*x[i]", 2: "y[i] = A[i, j]*x[j]", 3: "C[i, j] = A[i, j, k]*t[k]"}
    for rank, text in texts.items():
        for name in [*known_layouts(rank), *unseen_layouts(rank)[::6]]:
            found.append(case(text, {"A": name}, rank, DATA))
    for rank, names in SPARSE_OUTPUTS.items():
        subscripts = ", ".join("ijk"[:rank])
        for name in names:
            found.append(case(f"Y[{subscripts}] = A[{subscripts}]", {"Y": name, "A": PARTNERS[rank]}, rank, DATA))
    several = "z[j] = A[i, j]*y[i]; C[i, j] += A[i, j]*z[j]; z[j] += C[i, j] where i < j"
    found.append(case(several, {"A": "csr"}, 2, DATA))
    # Each j belongs to one place in its block, but the loop over j comes to all of them.
    apart = "z[j] = A[i, j]*y[i] schedule { order A.c, j, A.bi, A.pb, A.r }"
    found.append(case(apart, {"A": "bcsr"}, 2, DATA))
    # Places come in order of i, but those of one i go on where those of the next one begin.
    found.append(case("z[i + j] = A[i, j]*y[i]", {"A": "dense"}, 2, DATA))
    # Sums over l run across B: threads make a transposed copy of it together, then all read it.
    full = tuple(replace(d, density=1.0) for d in DATA)
    found.append(case("y[i] = A[i, j]*B[i, l]*x[l]", {"A": "csr", "B": "dense_col"}, 2, full))
    # Several j at once, each with a sum over l of its own.
    found.append(case("Y[i, j] = A[i, j]*B[l, j]*y[l]", {"A": "csr", "Y": "csr shares A"}, 2, DATA))
    return [*found, *every_product()]


def finds() -> list[Case]:
    """Every other provable algorithm in turn in loops that are parallel: test_memory.py has all of them."""
    return [*every_find(DATA)][::2]


@pytest.mark.parametrize(
    "made",
    [pytest.param(cases, id="layouts"), pytest.param(finds, id="finds", marks=pytest.mark.exhaustive)],
)
def test_parallel_kernels_have_no_races(made: Callable[[], list[Case]], tmp_path: Path) -> None:
    build, calls = prepared(made(), threads=3)
    parallel = [n for n, text in build.sources.items() if "#pragma omp parallel" in text]
    assert len(parallel) > 30
    if made is cases:
        assert any("#pragma omp atomic" in text for text in build.sources.values())
    built = compile_program(build, command(), tmp_path)
    code, output = run(built, calls, tmp_path, environment())
    assert code == 0, told(calls, output)
    problems = differences(calls, tmp_path / "results")
    assert not problems, "\n".join(problems[:3])


FUNCTIONS = {
    "s = max(i, j: A[i,j]*x[j])": ("csr", "csc", "coo_unsorted", "bcsr(R=2, C=2)", "csr_rle"),
    "s = sum(i, j: abs(A[i,j]))": ("csr", "csc", "dia"),
    "y[j] = max(i: A[i,j])": ("csr", "csc", "coo_unsorted", "ell"),
    "z[i] = max(j: A[i,j] - x[j])": ("csr", "csc", "dcsr"),
    "C[i,j] = max(A[i,j], A[i,j+1])": ("csr", "bcsr(R=2, C=2)", "coo"),
    "C[i,j] = (1 + A[i,j])/sum(k: 1 + abs(A[i,k]))": ("csr", "csc"),
    "s = max(i: min(j: A[i,j]))": ("dcsr", "coo"),
}
"""Totals and copies of arrays for each thread, merges, lookups, tables."""


def functions() -> tuple[Build, list[Call]]:
    """Values that are more than sums of products; what comes out is what the serial kernel of level 0 gives."""
    rng = np.random.default_rng(4)
    a = np.where(rng.random((13, 12)) < 0.4, rng.integers(1, 9, (13, 12)), 0).astype(float)
    sources, arguments, calls = {}, {}, []
    for text, layouts in FUNCTIONS.items():
        for layout in layouts:
            number = len(sources)
            packed = a if layout != "csr_rle" else np.repeat(a[:, ::3], 3, 1)
            names = {"A": layout, **{n: "dense" for n in "xyzCs" if f"{n}[" in text or text.startswith(f"{n} ")}}
            given = {"A": spfgen.pack(packed, layout), **({"x": np.arange(12.0)} if "x" in names else {})}
            declared = " ".join(f"tensor {n} : {own}" for n, own in names.items())
            kernel = spfgen.parse(f"kernel kernel_{number} {{ {declared} {text} }}").kernels[f"kernel_{number}"]
            wanted = np.asarray(kernel.compile(optimize=0)(**given))
            program = kernel.compile(threads=3)
            tensors, expected = [], {}
            for k, own in enumerate(program.generated.program.tensors):
                held = given.get(own.name, np.zeros_like(wanted))
                tensor = held if own.name == "A" else spfgen.pack(held, f"dense(rank={own.layout.rank})")
                sizes = [tensor.sizes[n] for n in (*own.layout.parameters, *own.layout.sizes)]
                tensors.append((sizes, [tensor.arrays[n] for n in own.layout.arrays]))
                if own.is_output:
                    expected[k, 0] = wanted
            sources[number] = eager_source(program.generated.whole).replace("work < 12.0 * (double)places", "work < 0")
            arguments[number] = len(tensors), 0
            calls.append(Call(number, 3, (), tensors, expected, f"{text} of {layout}"))
    return Build(sources, arguments, together=True), calls


@pytest.mark.exhaustive
def test_functions_have_no_races(tmp_path: Path) -> None:
    build, calls = functions()
    assert sum("#pragma omp parallel" in text for text in build.sources.values()) > 15
    built = compile_program(build, command(), tmp_path)
    code, output = run(built, calls, tmp_path, environment())
    assert code == 0, told(calls, output)
    problems = differences(calls, tmp_path / "results")
    assert not problems, "\n".join(problems[:3])


@pytest.mark.exhaustive
def test_checks_have_no_races(tmp_path: Path) -> None:
    """The first instance that does not hold is found whichever thread meets it."""
    build, calls = checks(threads=4, small=10, large=3)
    built = compile_program(build, command(), tmp_path)
    code, output = run(built, calls, tmp_path, environment())
    assert code == 0, told(calls, output)
    problems = differences(calls, tmp_path / "results")
    assert not problems, "\n".join(problems[:3])


@pytest.mark.parametrize(("way", "schedule"), [(keen, "levels i"), (listed, ""), (doubled, "")])
@pytest.mark.parametrize("layout", ["csr", "coo", "bcsr(R=2, C=2)", "jds"])
@pytest.mark.sampled(7)
def test_levels_have_no_races(
    layout: str, way: Callable[[Generated], Generated], schedule: str, tmp_path: Path
) -> None:
    """A triangular solve on three threads, level by level, by lists, or both; calls use what the first one made."""
    rng = np.random.default_rng(5)
    dense = np.tril(np.where(rng.random((60, 60)) < 0.05, rng.random((60, 60)), 0), -1) + 2 * np.eye(60)
    given = {"L": spfgen.pack(dense, layout), "b": spfgen.pack(rng.random(60), "dense")}
    tensors = {**given, "x": spfgen.pack(np.zeros(60), "dense")}
    text = "x[i] = (b[i] - sum(j < i: L[i, j]*x[j]))/L[i, i]"
    kernel = spfgen.compile(text, **{n: t.layout for n, t in tensors.items()}, schedule=schedule)
    made = way(kernel.generated)
    made = replace(made, source=eager_source(made.source))
    declared = {t.name: t for t in made.program.tensors}
    arrays, structs = [], []
    for name, tensor in tensors.items():
        for array, held in tensor.arrays.items():
            kind = {"f": "double", "i": f"int{held.itemsize * 8}_t"}[held.dtype.kind]
            arrays.append(f"static {kind} {name}_{array}[] = {{{', '.join(map(repr, held.ravel().tolist()))}}};")
        fields = [f".{field_name(n)} = {v}" for n, v in tensor.sizes.items()]
        fields += [f".{field_name(a)} = {name}_{a}" for a in tensor.arrays]
        structs.append(f"{made_structs(made.program)[name].name} {name} = {{{', '.join(fields)}}};")
    solved = np.linalg.solve(dense, given["b"].to_numpy())
    arrays.append(f"static const double wanted[] = {{{', '.join(map(repr, solved.tolist()))}}};")
    (tmp_path / f"{made.program.name}.h").write_text(made.header)
    (tmp_path / "kernel.c").write_text(made.source)
    main = LEVELLED.format(
        name=made.program.name,
        arrays="\n".join(arrays),
        structs="\n    ".join(structs),
        count=60,
        arguments=", ".join(f"&{n}" for n in declared),
    )
    (tmp_path / "main.c").write_text(main)
    options = {"cwd": tmp_path, "capture_output": True, "text": True}
    built = subprocess.run([*command(), "main.c", "kernel.c", "-lm", "-o", "program"], **options)
    assert built.returncode == 0, built.stderr
    result = subprocess.run([tmp_path / "program"], env={**os.environ, **environment()}, timeout=60, **options)
    assert result.returncode == 0, result.stderr
    levels, lists, both, together = map(int, result.stdout.split())
    assert (levels > 3, lists, both, together > 0) == (True, way is listed, way is doubled, True)

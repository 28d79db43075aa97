"""Generated C gives no warning, with and without OpenMP, from gcc and from clang."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import spfgen
from spfgen.lang.types import INDEX_TYPES
from spfgen.run.validate import c_source
from tests.differential.support import one_file
from tests.fuzz.programs import known_layouts
from tests.sanitize.checks import chosen
from tests.sanitize.driver import generated
from tests.sanitize.kernels import FINDS, case, every_find, every_output, every_schedule, every_type

FLAGS = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror", "-c")
COMPILERS = (("gcc",), ("clang", "-fsyntax-only"))
"""gcc finds some of what it warns of where it optimises, clang while it reads."""
JOBS = 2
FILES = 4
"""So many hold all kernels."""


def sources(folder: Path, part: int) -> list[str]:
    """Files with many kernels: a product with every layout, all element types and mixes, sparse outputs, conditions."""
    layouts = {"A": "csr", "B": "bcsr"}
    conditions = [
        case("y[i] = A[i, j]*x[j] where (i mod 2 = 0 or floor(j/3) < i) and i + j != 4", layouts, 2),
        case("s = A[i, j]*B[i, j] - 2.5*A[j, i]/s2", layouts, 2),
        case("C[i, j] += A[2*i, j - 1]", {"A": "tiled"}, 2),
    ]
    products = [case("y[i] = A[i, j]*x[j]", {"A": name}, 2) for name in known_layouts(2)]
    build, _ = generated(
        [
            *products[3 * part :: 12],
            *[*every_type(("csr", "hyb"))][part::4],
            *[*every_output()][part % 2 :: 2],
            *[*every_find(statements=FINDS[part::4])][::6],
            *[*every_schedule()][2 * part :: 8],
            *conditions,
        ]
    )
    kernels = {f"kernel_{number}.c": text for number, text in build.sources.items()}
    texts = [one_file(dict(list(kernels.items())[k::FILES])) for k in range(FILES)]
    paths = []
    validators = [c_source(x, {a.name: INDEX_TYPES[k % 2] for k, a in enumerate(x.indexes)}) for x in chosen()]
    for number, source in enumerate([*texts, *validators[part % 2 :: 2]]):
        paths.append(str(folder / f"file_{number}.c"))
        Path(paths[-1]).write_text(source, encoding="utf-8")
    return paths


def has_openmp(compiler: str) -> bool:
    """Whether there is the header of OpenMP, which clang has in a package of its own."""
    asked = [compiler, "-fopenmp", "-fsyntax-only", "-x", "c", "-"]
    return subprocess.run(asked, input="#include <omp.h>\n", capture_output=True, text=True).returncode == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(4))
def test_no_warnings(tmp_path: Path, part: int) -> None:
    """All compilers in one test: to write the kernels takes as long as to compile them."""
    files = sources(tmp_path, part)
    compilers = [c for c in COMPILERS if shutil.which(c[0])]
    if not compilers:
        pytest.skip("neither gcc nor clang is on PATH")
    for compiler in compilers:
        for openmp, some in (
            (["-fopenmp"], files),
            ([], files[::3]),
        ):  # without: what differs is in rt/, in all of them
            if openmp and not has_openmp(compiler[0]):
                continue
            command = [*compiler, *FLAGS, *openmp]
            running = [
                subprocess.Popen(
                    [*command, *some[k::JOBS]],
                    cwd=tmp_path,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
                for k in range(JOBS)
            ]
            output = "".join(p.communicate()[0] for p in running)
            assert all(p.returncode == 0 for p in running), f"{' '.join(command)}\n{output[:4000]}"


def test_a_warning_would_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "narrow.c"
    path.write_text("float f(double x);\nfloat f(double x) { return x; }\n")
    result = subprocess.run(["cc", *FLAGS, str(path)], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode != 0
    assert "float-conversion" in result.stderr


STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
ROTATED = """layout rotated(nrow, ncol) {
    relation { [u, v] -> [i, j] : 0 <= u < nrow + ncol and 0 <= v < nrow + ncol
        and u = i + j and v = ncol - 1 + i - j and 0 <= i < nrow and 0 <= j < ncol }
    value val[nrow + ncol, nrow + ncol] at [u, v]
}
function sat(x, y) { let s = x + y  if s > 50 { return 50 } else { return s } }
"""
STEPS = {
    "a layout of sums and differences": "tensor A : rotated  tensor B : csr  tensor Y : dense  Y[i,j] = A[i,j]*B[i,j]",
    "a result that is written twice": "tensor A, B, C : csr  for i, j { C[i,j] = B[i,j]  C[i,j] sat= A[i,j] }",
    "a workspace": "tensor A, B, C : csc  local tensor w : sv_unsorted  for j { w[i] = 0  "
    "for k, i { w[i] += A[i,k]*B[k,j] }  for i { C[i,j] = w[i] } }",
    "a product of complex numbers": "tensor A : csr<complex64>  tensor y : dense<complex64>  y[i] = prod(j: A[i,j])",
    "small integers": "tensor x : dense<uint8>  tensor y : dense<int16>  "
    "y[i] = sum(j: x[j] where j <= i)/3 + x[i]**2 % 7",
    "a solve": "tensor A : csr  tensor x, y : dense  y[i] = (x[i] - sum(j: A[i,j]*y[j] where j < i))/A[i,i]",
    "entries": "tensor A : bit_map  tensor B, C : csr  C[i,j] = max(A[i,j], B[i,j])",
    "names of C++": "size template  tensor this : csr  tensor new, class : dense  class[operator] = "
    "this[operator, typename]*new[typename]*template",
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.sampled(5)
def test_steps_give_no_warnings_and_headers_are_for_cpp(tmp_path: Path, name: str) -> None:
    kernel = spfgen.parse(f"{ROTATED} kernel k {{ {STEPS[name]} }}").kernels["k"].compile()
    (tmp_path / "k.h").write_text(kernel.header)
    (tmp_path / "k.c").write_text(kernel.source)
    (tmp_path / "whole.c").write_text(kernel.source.replace('#include "k.h"', kernel.header, 1))
    (tmp_path / "user.cpp").write_text('#include "k.h"\n')
    for compiler, *flags, file in (
        ("gcc", "-std=c99", "-O1", "-fopenmp", "-c", "-o", "k.o", "k.c"),
        ("gcc", "-std=c99", "-fsyntax-only", "k.c"),
        ("clang", "-std=c99", "-fsyntax-only", "k.c"),
        ("clang", "-std=c99", "-fsyntax-only", "whole.c"),
        ("g++", "-std=c++17", "-fsyntax-only", "user.cpp"),
        ("clang++", "-std=c++17", "-fsyntax-only", "user.cpp"),
    ):
        if shutil.which(compiler):
            command = [compiler, *STRICT, *flags, file]
            result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
            assert result.returncode == 0, f"{' '.join(command)}\n{result.stderr[:3000]}"
    linked = ("-fopenmp", "-fPIC", "-shared", "-Wl,--no-undefined", "-o", "k.so")
    for compiler, *flags in (("g++", *linked), ("clang++", "-fsyntax-only")):
        if shutil.which(compiler):
            command = [compiler, "-std=c++17", "-x", "c++", "-Wall", "-Werror", *flags, "k.c"]
            result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
            if "_Complex" in kernel.source:
                assert "complex numbers: compile this as C99" in result.stderr
            else:
                assert result.returncode == 0, f"{' '.join(command)}\n{result.stderr[:3000]}"


def read_only(text: str, header: str) -> str:
    """The same, but operands are structs whose arrays are all `const`: C refuses what would write to one."""
    for whole, name, fields in re.findall(r"(typedef struct ((?!spfgen)\w+) \{(.*?)\n\} \2;)", header, re.DOTALL):
        constant = re.sub(r"^    (?!const )(\w[\w ]*)\*", r"    const \1*", fields, flags=re.MULTILINE)
        text = text.replace(whole, f"{whole}\ntypedef struct {{{constant}\n}} {name}_read;")
        text = text.replace(f"const {name} *", f"const {name}_read *")
    return text


@pytest.mark.parametrize("written", [False, True])
def test_arrays_of_operands_are_only_read(tmp_path: Path, written: bool) -> None:
    for number, steps in enumerate((*STEPS.values(), "tensor x, y : dense  y[i] = max(x[i], y[i])")):
        kernel = spfgen.parse(f"{ROTATED} kernel k {{ {steps} }}").kernels["k"].compile()
        source = kernel.source.replace("const double *restrict", "double *restrict") if written else kernel.source
        folder = tmp_path / f"{number}_{written}"
        folder.mkdir()
        (folder / "k.h").write_text(read_only(kernel.header, kernel.header))
        (folder / "k.c").write_text(read_only(source, kernel.header))
        command = ["cc", "-std=c99", "-fsyntax-only", "-Wcast-qual", "-Werror", "-Wno-unknown-pragmas", "k.c"]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        noticed = "discards" in result.stderr
        assert noticed == (source != kernel.source), f"{steps}\n{result.stderr[:3000]}"
        assert result.returncode == noticed, f"{steps}\n{result.stderr[:3000]}"

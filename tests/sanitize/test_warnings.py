"""Generated C gives no warning, with and without OpenMP, from gcc and from clang."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from spfgen.lang.types import INDEX_TYPES
from spfgen.run.validate import c_source
from tests.differential.support import one_file
from tests.fuzz.programs import known_layouts
from tests.sanitize.checks import chosen
from tests.sanitize.driver import generated
from tests.sanitize.kernels import FINDS, case, every_find, every_output, every_schedule, every_type

FLAGS = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror", "-c")
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

"""The experiments themselves, as far as they run without spfgen: C and scipy against the reference."""

from __future__ import annotations

import shutil
import sys
from functools import cache
from types import ModuleType

import numpy as np
import pytest

from experiments import codegen_time, spmv_csr
from experiments.data import made
from experiments.harness.race import MISSING, RIGHT, first_result, run_case
from experiments.peers.spfgen import forgetters

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@needs_compiler
def test_hand_written_spmv_is_right() -> None:
    case = spmv_csr.case("small", lambda: made.empty_rows(40, 3, 4), threads=2)
    outcome = run_case(case, rounds=1, peers=("hand-c", "scipy"), between=lambda: None, waited=lambda: 0)
    peers = [entry for entry in outcome.entries if entry.name != "ours"]
    assert [entry.status for entry in peers] == [RIGHT, RIGHT, RIGHT]


@pytest.mark.parametrize("name", ["mkl", "mkl-ie", "graphblas", "taco"])
def test_optional_peers_are_right_or_missing(name: str) -> None:
    case = spmv_csr.case("small", lambda: made.uniform(30, 20, 4), threads=2)
    outcome = run_case(case, rounds=1, peers=(name,), between=lambda: None, waited=lambda: 0)
    assert outcome.entries[-1].status in (RIGHT, MISSING)


def test_bytes_of_csr() -> None:
    matrix = made.uniform(30, 20, 4)
    data = spmv_csr.Product(matrix, np.ones(20))
    arrays = (matrix.data, matrix.indices, matrix.indptr, data.x, np.empty(30))
    assert spmv_csr.bytes_moved(data) == sum(array.nbytes for array in arrays)


def test_the_reference_finds_a_wrong_element() -> None:
    data = spmv_csr.product(lambda: made.uniform(30, 20, 4))
    result = first_result(spmv_csr.prepare_scipy(data))
    complain = spmv_csr.check(data)
    assert complain(result) == ""
    result[7] *= 1 + 1e-10
    assert "1 of 30 elements differ; first at (7,)" in complain(result)


def test_the_spec_of_a_program() -> None:
    lines = codegen_time.spec(codegen_time.SPMV.text, **codegen_time.SPMV.layouts).splitlines()
    assert [line.strip() for line in lines[1:4]] == ["tensor A: csr", "tensor x: dense", "tensor y: dense"]


def test_remembered_results_are_found_and_tools_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("spfgen.of_this_test")
    module.result, module.tool = cache(lambda text: text), cache(lambda: "parser")
    monkeypatch.setitem(sys.modules, "spfgen.of_this_test", module)
    module.result("a"), module.tool()
    for forget in forgetters(spec_files=True):
        forget()
    assert (module.result.cache_info().currsize, module.tool.cache_info().currsize) == (0, 1)

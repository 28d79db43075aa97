"""The experiments themselves, as far as they run without spfgen: C and scipy against the reference."""

from __future__ import annotations

import shutil
import sys
from functools import cache
from types import ModuleType

import pytest

from experiments import codegen_time
from experiments.peers.spfgen import forgetters

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


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

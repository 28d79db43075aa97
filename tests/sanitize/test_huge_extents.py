"""Extents beyond 2^31 under the sanitizers: the right results, no overflow, no step outside an array."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.sanitize.driver import Build, Call, compile_program, differences, run, told
from tests.sanitize.huge import cases, compiled, operands
from tests.sanitize.test_memory import ENVIRONMENT, command, sanitizers  # noqa: F401 - a fixture

CASES = cases()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", [0, 1])
def test_no_overflow(tmp_path: Path, part: int) -> None:
    sources, arguments, calls = {}, {}, []
    for number, case in enumerate(CASES[part::2]):
        made = compiled(case, f"kernel_{number}").generated
        sources[number] = made.whole
        arguments[number] = len(made.program.tensors), 0
        found, tensors, wanted = operands(case, made), [], {}
        for t, declared in enumerate(made.program.tensors):
            layout, tensor = declared.layout, found[declared.name]
            sizes = [tensor.sizes[n] for n in (*layout.parameters, *layout.sizes)]
            tensors.append((sizes, [tensor.arrays[a] for a in layout.arrays]))
            if declared.is_output:
                wanted[t, 0] = np.asarray(case.wanted())
        calls.append(Call(number, 1, (), tensors, wanted, str(case)))
    program = compile_program(Build(sources, arguments), command(), tmp_path)
    code, output = run(program, calls, tmp_path, ENVIRONMENT)
    assert code == 0, told(calls, output)
    assert not differences(calls, tmp_path / "results")

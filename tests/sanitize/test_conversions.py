"""Packing and converting under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spfgen.run.examining.sanitized import ENVIRONMENT

ROOT = Path(__file__).parents[2]


def libraries() -> str:
    """What must be loaded before Python, which itself is not compiled with sanitizers."""
    compiler = shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("the libraries of gcc's sanitizers are loaded before others, on Linux")
    names = [f"lib{kind}.so" for kind in ("asan", "ubsan")]
    paths = [subprocess.check_output([compiler, f"-print-file-name={n}"], text=True).strip() for n in names]
    if not all(map(os.path.isabs, paths)):
        pytest.skip("gcc has no sanitizers")
    return " ".join(paths)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", [0, 1])
def test_conversions_stay_within_their_arrays(part: int) -> None:
    environment = {**os.environ, **ENVIRONMENT, "LD_PRELOAD": libraries(), "SPFGEN_CC": "gcc"}
    command = [sys.executable, "-m", "tests.sanitize.conversions", str(part)]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert result.stdout == "done\n", result.stderr[-3000:]
    assert result.returncode == 0

"""array-api-tests on `spfgen.array`. The suite is fetched by who runs it:

git clone --recurse-submodules --branch 2026.02.26 https://github.com/data-apis/array-api-tests
pip install -r array-api-tests/requirements.txt
ARRAY_API_TESTS=array-api-tests python -m tests.peers array-api
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FACTORS = "cholesky det eigh eigvalsh inv matrix_rank pinv qr slogdet solve svd svdvals".split()
WRITES = "results of a computation are not written to: tensors have no __setitem__"
DECIDES = "the fill value alone decides where nothing is stored: 0 * inf, 0 / 0 and 0 ** 0 by a stored operand"

SKIPS = {
    **{f"array_api_tests/test_has_names.py::test_has_names[linalg-{n}]": "factors are not sparse" for n in FACTORS},
    **{
        f"array_api_tests/test_signatures.py::test_extension_func_signature[linalg.{n}]": "factors are not sparse"
        for n in FACTORS
    },
    **{f"array_api_tests/test_linalg.py::test_{n}": "factors are not sparse" for n in FACTORS},
    "array_api_tests/test_has_names.py::test_has_names[array_method-__setitem__]": WRITES,
    "array_api_tests/test_signatures.py::test_array_method_signature[__setitem__]": WRITES,
    "array_api_tests/test_array_object.py::test_setitem": WRITES,
    "array_api_tests/test_array_object.py::test_setitem_masking": WRITES,
}
"""Tests of the suite that are not run, one by one, each with the reason."""


def run(options: list[str]) -> int:
    """Run the suite that the environment variable ARRAY_API_TESTS names; `options` go to pytest. Returns its status."""
    folder = Path(os.environ.get("ARRAY_API_TESTS", "array-api-tests"))
    if not (folder / "array_api_tests").is_dir():
        sys.stderr.write(f"expected array-api-tests in `{folder}`, but it is not there\n{__doc__}")
        return 2
    setting = {"ARRAY_API_TESTS_MODULE": "spfgen.array", "ARRAY_API_TESTS_VERSION": "2024.12"}
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    with tempfile.TemporaryDirectory() as own:
        skips = Path(own) / "skips.txt"
        skips.write_text("".join(f"# {why}\n{test}\n" for test, why in SKIPS.items()), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "array_api_tests", "--disable-extension", "fft"]
        command += ["--disable-deadline", "--skips-file", str(skips), "-q", "-p", "no:cacheprovider", *options]
        return subprocess.run(command, cwd=folder, env={**os.environ, **setting, "PYTHONPATH": paths}).returncode

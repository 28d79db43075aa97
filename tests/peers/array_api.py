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
FFT = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift".split()
WRITES = "results of a computation are not written to: tensors have no __setitem__"
DENSE = "a tensor in a sparse layout is no dense array in memory"
NUMPY = "it is as in numpy, which says another thing than the standard"
ONE = (
    "expm1((real(x_i) is +0 or real(x_i) == -0) and imag(x_i) is +0) -> 0 + 0j",
    "expm1(real(x_i) is +infinity and imag(x_i) is +0) -> +infinity + 0j",
    "expm1(real(x_i) is -infinity and imag(x_i) is +infinity) -> -1 + 0j",
    "expm1(real(x_i) is +infinity and imag(x_i) is +infinity) -> infinity + NaN j",
    "expm1(real(x_i) is -infinity and imag(x_i) is NaN) -> -1 + 0j",
    "expm1(real(x_i) is +infinity and imag(x_i) is NaN) -> infinity + NaN j",
    "expm1(real(x_i) is NaN and imag(x_i) is +0) -> NaN + 0j",
    "tanh(real(x_i) is +infinity and isfinite(imag(x_i)) and imag(x_i) > 0) -> 1 + 0j",
)
FLOORS = (
    "x1_i is +infinity and isfinite(x2_i) and x2_i > 0) -> +infinity",
    "x1_i is +infinity and isfinite(x2_i) and x2_i < 0) -> -infinity",
    "x1_i is -infinity and isfinite(x2_i) and x2_i > 0) -> -infinity",
    "x1_i is -infinity and isfinite(x2_i) and x2_i < 0) -> +infinity",
    "isfinite(x1_i) and x1_i > 0 and x2_i is -infinity) -> -0",
    "isfinite(x1_i) and x1_i < 0 and x2_i is +infinity) -> -0",
)


def floor_divisions() -> list[str]:
    """The tests of quotients rounded down, of the function and of its signs."""
    kinds = (("binary", "floor_divide"), ("binary", "__floordiv__"), ("iop", "__ifloordiv__"))
    return [f"{test}[{name}({case}]" for test, name in kinds for case in FLOORS]


SKIPS = {
    **{f"array_api_tests/test_has_names.py::test_has_names[linalg-{n}]": "factors are not sparse" for n in FACTORS},
    **{
        f"array_api_tests/test_signatures.py::test_extension_func_signature[linalg.{n}]": "factors are not sparse"
        for n in FACTORS
    },
    **{f"array_api_tests/test_linalg.py::test_{n}": "factors are not sparse" for n in FACTORS},
    "array_api_tests/test_has_names.py::test_has_names[array_method-__setitem__]": WRITES,
    "array_api_tests/test_signatures.py::test_array_method_signature[__setitem__]": WRITES,
    "array_api_tests/test_array_object.py::test_getitem_masking": "masks of no dimensions are refused",
    "array_api_tests/test_array_object.py::test_setitem": WRITES,
    "array_api_tests/test_data_type_functions.py::test_can_cast": "the suite takes None for float64: numpy says so",
    "array_api_tests/test_array_object.py::test_setitem_masking": WRITES,
    **{
        f"array_api_tests/test_has_names.py::test_has_names[fft-{n}]": "fft is an extension that is not there"
        for n in FFT
    },
    **{
        f"array_api_tests/test_dlpack.py::{n}": DENSE
        for n in ("test_dlpack_device", "test_dunder_dlpack", "test_from_dlpack")
    },
    "array_api_tests/test_creation_functions.py::test_asarray_arrays": WRITES,
    "array_api_tests/test_linalg.py::test_matrix_norm": "the orders 2, -2 and nuc need singular values",
    "array_api_tests/test_linalg.py::test_matrix_power": "negative powers need inverses",
    **{f"array_api_tests/test_special_cases.py::test_unary[{c}]": NUMPY for c in ONE},
    **{f"array_api_tests/test_special_cases.py::test_{c}": NUMPY for c in floor_divisions()},
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

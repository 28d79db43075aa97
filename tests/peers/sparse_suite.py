"""The tests of PyData/Sparse, as they are installed, on tensors: `python -m tests.peers sparse`."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from tests.peers.suite import run as run_files

FILES = "test_coo test_elemwise test_dot test_einsum test_array_function test_conversion test_dask_interop".split()
IMPORTS = {
    r"^import sparse$": "from tests.peers import sparse_names as sparse",
    r"^from sparse import": "from tests.peers.sparse_names import",
    r"^( *)from sparse\.numba_backend(\._utils|\._compressed|\._coo)? import": r"\1from tests.peers.sparse_names "
    "import",
    r"\b(\w+)\.todense\(\)": r"__import__('numpy').asarray(\1)",
}


def run(options: list[str]) -> int:
    """The folder that SPARSE_TESTS names, or the tests of the installed package."""
    found = importlib.util.find_spec("sparse")
    if found is None or found.origin is None:
        sys.stderr.write("expected the package `sparse`, but it is not installed: pip install sparse\n")
        return 2
    folder = Path(os.environ.get("SPARSE_TESTS", Path(found.origin).parent / "numba_backend" / "tests"))
    if not (folder / "test_coo.py").is_file():
        sys.stderr.write(f"expected the tests of PyData/Sparse in `{folder}`: SPARSE_TESTS names another folder\n")
        return 2
    return run_files([folder / f"{n}.py" for n in FILES], "tests.peers.sparse_names", options, IMPORTS)

"""The tests of scipy.sparse, as they are installed, on tensors: `python -m tests.peers scipy`."""

from __future__ import annotations

from pathlib import Path

import scipy.sparse

from tests.peers.suite import run as run_files

FILES = "test_base test_coo test_common1d test_arithmetic1d test_indexing1d test_minmax1d test_array_api".split()

IMPORTS = {
    r"^from scipy\.sparse(\._csr)? import": "from tests.peers.scipy_names import",
    r"^import scipy\.sparse as sparse$": "import tests.peers.scipy_names as sparse",
    r"\bgetattr\(scipy\.sparse,": "getattr(__import__('tests.peers.scipy_names').peers.scipy_names,",
    r"^from \.\._coo import": "from scipy.sparse._coo import",
    r"^from \.test_arithmetic1d import": "from test_arithmetic1d import",
}


def run(options: list[str]) -> int:
    folder = Path(scipy.sparse.__file__).parent / "tests"
    return run_files([folder / f"{n}.py" for n in FILES], "tests.peers.scipy_names", options, IMPORTS)

"""The files that the pages of the documentation use: `spfgen example` writes them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

FILES = {"kernels.spf": "kernels.spf", "mine.spf": "mine.spf", "matrix.mtx.gz": "bcsstk09.mtx.gz"}
"""The name that the pages use, and that of the file which comes with spfgen."""


def example_files() -> dict[str, bytes]:
    """Contents by name."""
    folder = _folder()
    return {name: folder.joinpath(file_name).read_bytes() for name, file_name in FILES.items()}


def _folder() -> Any:
    """In a source tree, the data of the tests; those are installed with spfgen, too."""
    beside = Path(__file__).resolve().parents[1] / "tests" / "data"
    return beside if beside.is_dir() else files("spfgen.example")

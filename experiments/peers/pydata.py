"""PyData/Sparse."""

from __future__ import annotations

from typing import Any

from experiments.harness.case import Missing


def module() -> Any:
    """The package `sparse`."""
    try:
        import sparse
    except ImportError as error:
        raise Missing(f"{error}; pip install sparse") from error
    return sparse

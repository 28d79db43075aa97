"""spfgen: declare a sparse layout as a relation, get fast parallel C for any contraction over it.

The public names are here; `pipeline.py` is the table of contents of the compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from spfgen.api import (
        Kernel,
        Spec,
        compile,  # noqa: A004
        einsum,
        evaluate,
        function,
        load,
        load_tensor,
        pack,
        parse,
        tensor,
        tune_layouts,
    )
    from spfgen.errors import CopyWarning, SpfgenError
    from spfgen.run.tensor import Tensor

__all__ = [
    "CopyWarning",
    "Kernel",
    "Spec",
    "SpfgenError",
    "Tensor",
    "compile",
    "einsum",
    "evaluate",
    "function",
    "load",
    "load_tensor",
    "pack",
    "parse",
    "tensor",
    "tune_layouts",
]


def __getattr__(name: str) -> Any:
    """Import on first use, so that `import spfgen` costs nothing (no islpy, numpy, scipy until needed)."""
    if name not in __all__:
        raise AttributeError(f"module 'spfgen' has no attribute {name!r}")
    import importlib

    elsewhere = {"CopyWarning": "spfgen.errors", "SpfgenError": "spfgen.errors", "Tensor": "spfgen.run.tensor"}
    module = elsewhere.get(name, "spfgen.api")
    return getattr(importlib.import_module(module), name)

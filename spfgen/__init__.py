"""spfgen: declare a sparse layout as a relation, get fast parallel C for any contraction over it.

The public names are here; `pipeline.py` is the table of contents of the compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spfgen.late_imports import register
from spfgen.version import __version__ as __version__

register(
    {
        "array functions": "spfgen.run.arrays.methods",
        "blocks": "spfgen.cluster.methods",
        "chunks": "spfgen.cluster.backend",
        "drawings": "spfgen.run.drawings.drawing",
        "exchange": "spfgen.run.exchange",
        "kernels": "spfgen.kernel",
        "namespace": "spfgen.array",
        "notebook": "spfgen.explain_html",
        "pictures": "spfgen.run.drawings.picture",
        "tuner": "spfgen.run.tuners.tune_layouts",
    }
)

if TYPE_CHECKING:
    from spfgen.api import (
        Kernel,
        Spec,
        blocks,
        compile,  # noqa: A004
        einsum,
        evaluate,
        function,
        load,
        load_tensor,
        pack,
        parse,
        read_blocks,
        tensor,
        tune_layouts,
    )
    from spfgen.errors import CopyWarning, DenseResultWarning, SpfgenError
    from spfgen.run.arrays.functions import (
        aslinearoperator,
        block,
        broadcast_to,
        concatenate,
        diag,
        expand_dims,
        flip,
        hstack,
        kron,
        pad,
        repeat,
        reshape,
        roll,
        slice,  # noqa: A004
        squeeze,
        stack,
        tile,
        transpose,
        tril,
        triu,
        vstack,
    )
    from spfgen.run.arrays.lazy import LazyArray, asarray, compute
    from spfgen.run.tensor import Tensor

__all__ = [
    "CopyWarning",
    "DenseResultWarning",
    "Kernel",
    "LazyArray",
    "Spec",
    "SpfgenError",
    "Tensor",
    "asarray",
    "aslinearoperator",
    "block",
    "blocks",
    "broadcast_to",
    "compile",
    "compute",
    "concatenate",
    "diag",
    "einsum",
    "evaluate",
    "expand_dims",
    "flip",
    "function",
    "hstack",
    "kron",
    "load",
    "load_tensor",
    "pack",
    "pad",
    "parse",
    "read_blocks",
    "repeat",
    "reshape",
    "roll",
    "slice",
    "squeeze",
    "stack",
    "tensor",
    "tile",
    "transpose",
    "tril",
    "triu",
    "tune_layouts",
    "vstack",
]

_ARRAYS = frozenset(
    """aslinearoperator block broadcast_to concatenate diag expand_dims flip hstack kron pad repeat
    reshape roll slice squeeze stack tile transpose tril triu vstack""".split()
)
_ELSEWHERE = {
    "CopyWarning": "spfgen.errors",
    "DenseResultWarning": "spfgen.errors",
    "SpfgenError": "spfgen.errors",
    "Tensor": "spfgen.run.tensor",
    **dict.fromkeys(("LazyArray", "asarray", "compute"), "spfgen.run.arrays.lazy"),
    **dict.fromkeys(_ARRAYS, "spfgen.run.arrays.functions"),
}


if not TYPE_CHECKING:  # where mypy saw this function, every name would be there for it

    def __getattr__(name: str) -> Any:
        """Import on first use, so that `import spfgen` costs nothing (no islpy, numpy, scipy until needed)."""
        import importlib

        if name == "array":  # the namespace of the array API standard
            return importlib.import_module("spfgen.array")
        if name not in __all__:
            import difflib

            near = difflib.get_close_matches(name, __all__, 1)
            hint = f": did you mean `{near[0]}`?" if near else ""
            raise AttributeError(f"module 'spfgen' has no attribute {name!r}{hint}", name=name)
        attribute = getattr(importlib.import_module(_ELSEWHERE.get(name, "spfgen.api")), name)
        globals()[name] = attribute  # the next time Python finds it itself
        return attribute


def __dir__() -> list[str]:
    """The public names: what completion shows."""
    return [*__all__, "__version__", "array"]

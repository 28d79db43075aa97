"""Compile ahead what a program needs: `spfgen warm FILE`, for servers and tests that are not to wait for it."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from unittest.mock import patch

from spfgen.errors import DataError, SpfgenError, UsageError
from spfgen.kernel_spec import KernelSpec
from spfgen.lang.spec import load_tree
from spfgen.run import cache
from spfgen.run.later import VARIABLE, WARM


def warm(file: str, arguments: tuple[str, ...] = ()) -> int:
    """How many objects were compiled: for the kernels of a spec file, or for all that a program of Python does. That is
    run with these arguments, and with kernels for operands of any size.

    Raises UsageError for another file and where the program fails, DataError where there is no file, SpecError.
    """
    path = Path(file)
    if not path.is_file():
        raise DataError(f"expected a file, but there is no {file}")
    folder = cache.kept()
    before = len(cache.entries(folder))
    if path.suffix == ".py":
        _run(path, arguments)
    elif path.suffix == ".spf" and not arguments:
        tree = load_tree(file)
        for kernel in tree.kernels.values():
            KernelSpec(tree, kernel).compile().build()
    else:
        hint = "a program is run, with kernels for all of its operations; the kernels of a spec file are compiled"
        raise UsageError(f"expected a program of Python (.py) or a spec file (.spf), but it is {file}", None, (hint,))
    return len(cache.entries(folder)) - before


def _run(path: Path, arguments: tuple[str, ...]) -> None:
    with patch.dict(os.environ, {VARIABLE: WARM}), patch.object(sys, "argv", [str(path), *arguments]):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                raise UsageError(f"expected {path} to run to its end, but it ended with {end.code}") from None
        except SpfgenError:
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise UsageError(f"expected {path} to run to its end, but it raised {what}") from error

"""spfgen itself, seen from the experiments."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

from experiments.harness.case import Missing


def module_or_missing(name: str) -> Any:
    """A module of spfgen."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Missing(str(error)) from error


def forgetters(spec_files: bool) -> list[Callable[[], None]]:
    """What clears the results that the loaded modules of spfgen remember; with `spec_files` the layouts read too.

    Functions without parameters are left alone: they hold tools of the process (the parser made from the
    grammar, the texts of the layouts), not results.
    """
    found: dict[int, Callable[[], None]] = {}
    for name, module in list(sys.modules.items()):
        if not spec_files and name.startswith(("spfgen.lang", "spfgen.layout")):
            continue
        if name == "spfgen" or name.startswith("spfgen."):
            for item in vars(module).values():
                if hasattr(item, "cache_clear") and inspect.signature(item).parameters:
                    found[id(item)] = item.cache_clear
    layouts = getattr(sys.modules.get("spfgen.pipeline"), "_LAYOUTS", None)
    if layouts is not None and spec_files:
        found[id(layouts)] = layouts.clear
    return list(found.values())

"""The types of results of programs over blocks, before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spfgen.lang import nodes as lang
from spfgen.lang.types import ALIASES, TYPES
from spfgen.space.result_types import result_types


def types_of(
    steps: Sequence[Any],
    operands: Mapping[str, Any],
    kept: Mapping[str, Any],
    layouts: Mapping[str, Any],
    named: Mapping[str, int],
) -> dict[str, np.dtype[Any]]:
    """As a call would give them: declared types first, then those of what is given, else what numpy computes. Numbers
    of Python take the type of the arrays that they meet."""
    arrays = {n: dtype_of(v) for n, v in operands.items() if hasattr(v, "dtype") or hasattr(v, "shape")}
    numbers = {n: v for n, v in operands.items() if n not in arrays}
    known = {n: d.name for n, d in arrays.items()}
    for name, value in numbers.items():
        known[name] = np.result_type(*arrays.values(), value).name if arrays else np.asarray(value).dtype.name
    given = {n: dtype_of(v).name for n, v in kept.items()}
    stated = {n: getattr(getattr(layout, "use", None), "value_type", None) for n, layout in layouts.items()}
    declared = {n: ALIASES.get(kind, kind) for n, kind in stated.items() if kind}
    kernel = lang.Kernel("kernel", (), tuple(named), tuple(steps))
    types = {**declared, **result_types(kernel, {**declared, **known}, given)}
    return {n: np.dtype(given.get(n, types[n] if types[n] in TYPES else "float64")) for n in layouts}


def dtype_of(value: Any) -> np.dtype[Any]:
    """The type of the values of an operand of any kind."""
    return np.dtype(value.dtype) if hasattr(value, "dtype") else np.asarray(value).dtype

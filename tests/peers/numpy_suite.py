"""numpy's documented examples on tensors: `python -m tests.peers numpy`.

The examples of the docstrings of all functions that spfgen.array and numpy's functions on tensors have are run twice,
with numpy's arrays and with tensors in their place: what numpy's functions are given as a list or an array of numbers
is packed. Each result is compared with that of numpy in value, shape and type.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import spfgen
from spfgen.errors import ArgumentError, ConversionError, SpfgenError
from spfgen.run.arrays.numpy_functions import REDUCTIONS, SHAPES, TYPES, _own

SKIPS = {
    "array": "makes an array of numpy of what is none",
    "asarray": "makes an array of numpy of what is none",
    "asanyarray": "makes an array of numpy of what is none",
    "empty_like": "values that are not set",
    "block": "lists in lists are not taken apart by these tests",
}
"""Functions that are not tried, each with the reason."""
ZERO = "0 by 0 is 0 where nothing is stored, as docs/arrays.md says"
LAYOUTS = {1: "sv", 2: "csr"}


def names() -> list[str]:
    """Functions of numpy that take tensors."""
    ufuncs = {n for n in dir(np) if isinstance(getattr(np, n), np.ufunc)}
    own = {f"linalg.{f.__name__}" if "linalg" in f.__module__ else f.__name__ for f in _own()}
    return sorted((ufuncs | own | {*REDUCTIONS, *SHAPES, *TYPES}) - {*SKIPS})


def packed(value: Any) -> Any:
    """An array of numbers as a tensor; anything else as it is."""
    if isinstance(value, list | tuple):
        with contextlib.suppress(ValueError, TypeError):
            value = np.asarray(value)
    if type(value) is not np.ndarray or value.dtype.kind not in "biufc" or not value.ndim or value.dtype.itemsize > 16:
        return value
    if value.dtype in (np.float16, np.longdouble):
        return value
    return spfgen.pack(value, LAYOUTS.get(value.ndim, "coo"))


class Beside:
    """Stands for a function of numpy: it gives what numpy gives, and notes where tensors give something else."""

    def __init__(self, name: str, function: Callable[..., Any], found: Counter[str], wrong: list[str]) -> None:
        self.name, self.function, self.found, self.wrong = name, function, found, wrong

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)

    def __call__(self, *given: Any, **options: Any) -> Any:
        before = [np.array(g) if isinstance(g, np.ndarray) else g for g in given]
        wanted = self.function(*given, **options)
        if any(np.asarray(g).dtype.kind not in "biufc" for g in before if isinstance(g, np.ndarray)):
            self.found["of dates, texts and objects"] += 1
            return wanted
        if "out" in options or any(isinstance(g, np.ma.MaskedArray) for g in _inside(list(given))):
            self.found["with `out` or masks"] += 1
            return wanted
        own = _taken(self.name, before)
        if not any(isinstance(o, spfgen.Tensor) for o in _inside(own)):
            self.found["without an array"] += 1
            return wanted
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got = self.function(*own, **options)
        except (ConversionError, ArgumentError) as error:
            self.found[f"refused: {str(error).splitlines()[0]}"] += 1
            return wanted
        except (SpfgenError, Exception) as error:
            self.wrong.append(f"{self.name}: {type(error).__name__}: {error} of {before}")
            return wanted
        report = differs(got, wanted)
        is_quotient = self.name in ("divide", "true_divide")
        if report and is_quotient and not differs(np.nan_to_num(np.asarray(got)), np.nan_to_num(wanted)):
            self.found[ZERO] += 1
            return wanted
        self.found["right" if not report else "wrong"] += 1
        if report:
            self.wrong.append(f"{self.name}{tuple(before)} {options}: {report}")
        return wanted


def _inside(own: Any) -> Iterator[Any]:
    for value in own:
        if isinstance(value, list | tuple):
            yield from _inside(list(value))
        else:
            yield value


SEVERAL = ("concatenate", "stack", "vstack", "hstack")


def _taken(name: str, given: list[Any]) -> list[Any]:
    """The arguments with tensors: all of a universal function, the first of others, each of a list of arrays."""
    function = getattr(np, name, None)
    if isinstance(function, np.ufunc) or name in ("dot", "inner", "outer", "tensordot", "kron", "vecdot", "where"):
        return [packed(g) for g in given]
    if name in SEVERAL:
        return [[packed(g) for g in given[0]], *given[1:]]
    return [packed(given[0]), *given[1:]] if given else given


def differs(got: Any, wanted: Any) -> str:
    """What differs; "" where nothing does."""
    if isinstance(wanted, tuple | list) and not isinstance(wanted, np.ndarray):
        parts = [differs(g, w) for g, w in zip(got, wanted, strict=True)]
        return next((p for p in parts if p), "")
    own, right = np.asarray(got), np.asarray(wanted)
    if own.shape != right.shape:
        return f"the shape is {own.shape}, not {right.shape}"
    if own.dtype != right.dtype and right.dtype != np.float16:
        return f"the type is {own.dtype}, not {right.dtype}"
    if right.dtype.kind not in "biufc":
        return "" if bool(np.all(own == right)) else f"it is {own}, not {right}"
    rough = 1e-5 if right.dtype.name in ("float16", "float32", "complex64") else 1e-11
    return "" if np.allclose(own, right, rtol=rough, atol=rough, equal_nan=True) else f"it is {own}, not {right}"


class Stand:
    """numpy with functions that stand beside."""

    def __init__(self, place: Any, known: dict[str, Beside], prefix: str = "") -> None:
        self.place, self.known, self.prefix = place, known, prefix

    def __getattr__(self, name: str) -> Any:
        if self.prefix + name in self.known:
            return self.known[self.prefix + name]
        found = getattr(self.place, name)
        return Stand(found, self.known, "linalg.") if name == "linalg" and not self.prefix else found


def run(options: list[str]) -> int:
    found: Counter[str] = Counter()
    wrong: list[str] = []
    chosen = [n for n in names() if not options or n in options]
    known = {n: Beside(n, _function(n), found, wrong) for n in chosen}
    examples, none = 0, []
    for name in chosen:
        tests = doctest.DocTestFinder(recurse=False).find(
            _function(name), name, module=np, globs={"np": Stand(np, known)}
        )
        if not any(t.examples for t in tests):
            none.append(name)
        for test in tests:
            examples += len(test.examples)
            for example in test.examples:
                example.source = re.sub(r"^import numpy as np$", "pass", example.source, flags=re.MULTILINE)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                runner.run(test, out=lambda text: None)
    for report in wrong:
        sys.stdout.write(f"WRONG {report}\n")
    for reason, count in sorted(found.items()):
        if reason.startswith("refused"):
            sys.stdout.write(f"SKIPPED [{count}] {reason}\n")
    for name, reason in SKIPS.items():
        sys.stdout.write(f"SKIPPED {name}: {reason}\n")
    sys.stdout.write(f"SKIPPED [{len(none)}] without an example: {', '.join(none)}\n")
    rest = {r: n for r, n in found.items() if not r.startswith("refused")}
    told = ", ".join(f"{n} {r}" for r, n in sorted(rest.items()))
    sys.stdout.write(f"{len(chosen)} functions, {examples} examples; calls: {told}\n")
    skipped = sum(found.values()) - found["right"] - found["wrong"]
    sys.stdout.write(f"{found['right']} passed, {len(wrong)} failed, {skipped} skipped\n")
    return 1 if wrong else 0


def _function(name: str) -> Any:
    place: Any = np
    for part in name.split("."):
        place = getattr(place, part)
    return place

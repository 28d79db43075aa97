"""What a tree makes of a recorded program: its C, and what calls give; or how it is refused."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np

from spfgen import api
from spfgen.errors import SpfgenError
from spfgen.kernel import Kernel
from spfgen.pipeline import resolve
from spfgen.run.tensor import Tensor
from spfgen.space.assembled import with_assembled, with_given
from tests.replay.corpus import Call, Json, Program, packed, unpacked_array

THREADS = 2
TOLERANCE = {"float16": 1e-2, "float32": 1e-4, "complex64": 1e-4, "float64": 1e-9, "complex128": 1e-9}
"""Of the largest value of a result: sums may be in another order."""


def as_in_tests() -> None:
    """The settings of tests/conftest.py, for this process."""
    from spfgen.plan import unproved_passes
    from spfgen.run import compile as compiler
    from tests.conftest import quick_settings

    os.environ["OMP_NUM_THREADS"] = str(THREADS)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    for name, value in quick_settings().items():
        setattr(compiler, name, value)
    unproved_passes.STRICT = True


def kernel_of(program: Program) -> Kernel:
    """Raises SpfgenError."""
    spec = api.parse(program.text, "replay.spf").kernels[program.kernel]
    kernel = replace(spec.kernel, level=program.level)
    layouts = resolve(kernel, spec.tree)
    made = with_given(with_assembled(kernel, layouts), program.given)
    return Kernel(made, layouts, THREADS, prune=program.prune, kept=False)


def outcome_of(program: Program, *, calls: bool = True) -> Json:
    """The hashes of the C, with and without comments, and what each call gives; or the refusal."""
    try:
        if not program.kernel:
            api.parse(program.text, "replay.spf")
            return {"read": True}
        kernel = kernel_of(program)
    except Exception as error:  # an InternalError, or none of spfgen's, is an outcome too
        return {"refused": _told(error)}
    found: Json = {"c": _hash(kernel.source + kernel.header), "code": _hash(bare(kernel.source + kernel.header))}
    return {**found, "calls": [_called(kernel, call) for call in program.calls]} if calls else found


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


def bare(source: str) -> str:
    """C without comments."""
    return re.sub(r"\s*/\*.*?\*/|\s*//[^\n]*", "", source, flags=re.DOTALL)


def _told(error: Exception) -> Json:
    message = error.message if isinstance(error, SpfgenError) else str(error)
    return {"class": type(error).__name__, "message": message[:400]}


def _called(kernel: Kernel, call: Call) -> Json:
    try:
        operands = {name: _tensor(kernel, name, data) for name, data in call.operands.items()}
        bound = kernel.bound(operands, call.sizes, THREADS, "always", prune=call.prune)
        bound()
    except Exception as error:
        return {"refused": _told(error)}
    written = [t.name for t in bound.program.tensors if t.is_output]
    return {"results": {name: packed(bound.tensors[name]) for name in written}}


def _tensor(kernel: Kernel, name: str, data: Mapping[str, Any]) -> Tensor:
    layout = kernel.layouts.get(name) or kernel.program.tensor(name).layout
    return Tensor(layout, data["sizes"], {n: unpacked_array(a) for n, a in data["arrays"].items()})


def differences(old: Json, new: Json, *, c: bool) -> Iterator[str]:
    """What differs, most important first; `c`: of the C, too."""
    if _kind(old) != _kind(new):
        yield f"{_class(old)} -> {_class(new)}"
        return
    if old.get("refused") != new.get("refused"):
        yield f"message: {old['refused']['message']!r} -> {new['refused']['message']!r}"
    for number, (one, other) in enumerate(zip(old.get("calls", ()), new.get("calls", ()), strict=False)):
        yield from (f"call {number}: {text}" for text in _of_calls(one, other))
    if c and old.get("code") != new.get("code"):
        yield "C"
    elif c and old.get("c") != new.get("c"):
        yield "C: comments only"


def _class(outcome: Json) -> str:
    refused = outcome.get("refused")
    return "accepted" if refused is None else f"{refused['class']} ({refused['message'][:160]})".split("\n")[0]


def _of_calls(old: Json, new: Json) -> Iterator[str]:
    if _kind(old) != _kind(new):
        yield f"{_class(old)} -> {_class(new)}"
    elif "refused" in old:
        if old["refused"] != new["refused"]:
            yield f"message: {old['refused']['message']!r} -> {new['refused']['message']!r}"
    elif old["results"].keys() != new["results"].keys():
        yield f"results: {', '.join(old['results'])} -> {', '.join(new['results'])}"
    else:
        for name, result in old["results"].items():
            yield from (f"{name}: {text}" for text in _of_results(result, new["results"][name]))


def _kind(outcome: Json) -> str:
    return str(outcome["refused"]["class"]) if "refused" in outcome else "accepted"


def _of_results(old: Json, new: Json) -> Iterator[str]:
    if old["sizes"] != new["sizes"]:
        yield f"sizes {old['sizes']} -> {new['sizes']}"
        return
    for name, array in old["arrays"].items():
        other = new["arrays"].get(name)
        if other is None or (array["type"], array["shape"]) != (other["type"], other["shape"]):
            found = "nothing" if other is None else f"{other['type']}{other['shape']}"
            yield f"{name}: {array['type']}{array['shape']} -> {found}"
        elif not _equal(unpacked_array(array), unpacked_array(other)):
            yield f"{name}: {str(array['data'])[:100]} -> {str(other['data'])[:100]}"


def _equal(old: Any, new: Any) -> bool:
    tolerance = TOLERANCE.get(old.dtype.name)
    if tolerance is None:
        return bool(np.array_equal(old, new))
    finite = np.abs(old[np.isfinite(old)])
    scale = float(finite.max(initial=0.0))
    with np.errstate(all="ignore"):
        return bool(np.allclose(old, new, rtol=tolerance, atol=tolerance * scale, equal_nan=True))

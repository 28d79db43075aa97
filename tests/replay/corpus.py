"""Programs with operands, as JSON: what is recorded, and what stands in the file of a corpus."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from spfgen.run.tensor import Tensor

Json = dict[str, Any]
MOST = 400
"""Numbers in the arrays of one call: larger ones are not recorded."""
CALLS, ALIKE = 4, 2
"""At most so many calls of a kernel are kept, and of those whose arrays have the same types."""
GRID = 16
"""Values are recorded as multiples of 1/16, which takes few bytes."""


@dataclass(frozen=True)
class Call:
    """One call of a kernel: the operands that were given, and the sizes."""

    operands: Json
    sizes: dict[str, int]
    prune: bool | None = None

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types of all arrays: of calls with the same ones a few are kept."""
        found = [(n, *((a, v["type"]) for a, v in sorted(t["arrays"].items()))) for n, t in self.operands.items()]
        return (*sorted(found), self.prune)


@dataclass(frozen=True)
class Program:
    """A spec text; `kernel` is the one that is meant, "" where the text is refused before there is one. `given` are
    results that would have a computed pattern if their layouts alone decided."""

    text: str
    kernel: str = ""
    level: int = 2
    given: tuple[str, ...] = ()
    prune: bool = False
    calls: list[Call] = field(default_factory=list)

    @property
    def key(self) -> str:
        what = self.text, self.kernel, self.level, self.given, self.prune
        return sha256(repr(what).encode()).hexdigest()[:12]


def packed(tensor: Tensor) -> Json:
    """A tensor as JSON; of which layout it is, the kernel says."""
    return {"sizes": dict(tensor.sizes), "arrays": {n: packed_array(a) for n, a in tensor.arrays.items()}}


def packed_array(array: Any) -> Json:
    values = np.asarray(array)
    flat = values.ravel()
    if values.dtype.kind == "c":
        flat = np.stack([flat.real, flat.imag], axis=1).ravel()
    return {"type": values.dtype.name, "shape": list(values.shape), "data": flat.tolist()}


def rounded(array: Any) -> Any:
    """What is recorded of the values of an operand."""
    values = np.asarray(array)
    if values.dtype.kind not in "fc":
        return values
    with np.errstate(all="ignore"):
        near = np.round(values * GRID) / GRID
    return np.where(np.isfinite(near), near, values).astype(values.dtype)


def unpacked_array(data: Json) -> Any:
    kind = np.dtype(data["type"])
    flat = np.array(data["data"], dtype=kind if kind.kind != "c" else np.float64)
    if kind.kind == "c":
        flat = (flat[0::2] + 1j * flat[1::2]).astype(kind)
    return flat.reshape(data["shape"]).copy()


def write(path: Path, header: Json, lines: Iterable[Json]) -> None:
    with lzma.open(path, "wt", preset=6, encoding="utf-8") as file:
        for line in (header, *lines):
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def read(path: Path) -> tuple[Json, list[Json]]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        header, *lines = map(json.loads, file)
    return header, lines


def joined(programs: Iterable[Program]) -> list[Program]:
    """Each program once, with the calls of all of its equals, as far as they are wanted."""
    found: dict[str, Program] = {}
    for program in programs:
        known = found.setdefault(program.key, replace(program, calls=[]))
        for call in program.calls:
            alike = sum(call.kinds == other.kinds for other in known.calls)
            if len(known.calls) < CALLS and alike < ALIKE and call not in known.calls:
                known.calls.append(call)
    return [*found.values()]


def as_json(program: Program) -> Json:
    return asdict(program)


def of_json(line: Mapping[str, Any]) -> Program:
    own = {name: value for name, value in line.items() if name != "outcome"}
    return Program(**{**own, "given": tuple(own["given"]), "calls": [Call(**call) for call in own["calls"]]})

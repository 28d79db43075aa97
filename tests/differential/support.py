"""Random operands for any layout, and many kernels compiled at once.

Nothing here knows a layout: what a layout can store is learnt by packing entries one after another.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from spfgen.errors import SpecError, SpfgenError, Unsupported
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.parse import parse_layout_use, parse_schedule, parse_statements
from spfgen.lang.schedule import with_schedule
from spfgen.lang.spec import SpecTree
from spfgen.lang.types import FINDS
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import pack
from spfgen.layout.refusals import NoPlace
from spfgen.pipeline import Generated, generate, resolve
from spfgen.plan.nodes import Block, Clear, Find, Plan, Scan, Versions
from spfgen.run.calls.call import Bound
from spfgen.run.compile import find_compiler
from spfgen.run.tensor import Tensor

Array = np.ndarray[Any, Any]
LEVEL = int(os.environ.get("SPFGEN_OPT", "2"))
"""The level of optimisation of kernels that are not compiled by the public interface, which reads it there too."""


@dataclass(frozen=True, eq=False)
class Program:
    """Statements with a layout for every tensor; `schedule` holds clauses, `order` and `finds` come in addition."""

    text: str
    layouts: Mapping[str, str]
    tree: SpecTree = SpecTree()
    shares: Mapping[str, str] | None = None
    order: tuple[str, ...] = ()
    finds: Mapping[str, str] = field(default_factory=dict)
    schedule: str = ""
    sizes: tuple[str, ...] = ()
    level: int = LEVEL

    def kernel(self, name: str) -> lang.Kernel:
        declarations = []
        for tensor, layout in self.layouts.items():
            shared = (self.shares or {}).get(tensor)
            shares = lang.Shares(shared, ()) if shared else None
            declarations.append(lang.TensorDecl(tensor, parse_layout_use(layout), None, shares))
        loops = []
        for loop in self.order:
            owner, _, own = loop.rpartition(".")
            loops.append(lang.Loop(owner or None, own))
        finds = []
        for place, algorithm in self.finds.items():
            tensor, _, position = place.rpartition(".")
            finds.append(lang.FindClause(tensor, position, algorithm))
        statements = parse_statements(self.text)
        kernel = with_schedule(
            lang.Kernel(name, tuple(declarations), self.sizes, statements), parse_schedule(self.schedule)
        )
        return replace(kernel, order=(*kernel.order, *loops), finds=(*kernel.finds, *finds), level=self.level)

    def generated(self, name: str) -> Generated:
        kernel = self.kernel(name)
        return generate(kernel, resolve(kernel, self.tree))

    def __str__(self) -> str:
        more = [str(dict(self.finds))] if self.finds else []
        more += [f"schedule {{ {self.schedule} }}"] if self.schedule else []
        return " ".join([self.text, str(dict(self.layouts)), *more])


SHORT = {
    "plain loop": "loop",
    "binary search": "search",
    "galloping": "gallop",
    "sequential iteration": "sequential",
    "hash map": "hash",
    "position array": "array",
    "bitmap": "bitmap",
    "scatter": "scatter",
}
"""What schedules call the algorithms of plans."""


def provable(made: Generated) -> dict[str, set[str]]:
    """For each position that is looked for, the algorithms that the plan says are proved right wherever it is."""
    result: dict[str, set[str]] = {}
    for plan in made.plans:
        for node in walk(plan):
            if isinstance(node, Find):
                others = {r.algorithm for r in node.rejected if r.why.startswith("proved correct, but")}
                known = {"loop", SHORT[node.algorithm]} | others
                result[node.dim] = result.get(node.dim, known) & known
    return result


def places(made: Generated) -> dict[str, set[str]]:
    """The same by tensor and position, for all accesses of the tensor: what a schedule speaks of."""
    owners = {
        p: o.tensor for g in made.program.groups for i in g.instances for o in (i.target, *i.reads) for p in o.positions
    }
    result: dict[str, set[str]] = {}
    for dim, known in provable(made).items():
        if dim in owners:
            place = f"{owners[dim]}.{dim.partition('.')[2]}"
            result[place] = result.get(place, known) & known
    return result


NOT_THERE = re.compile("a position that is searched for|an algorithm that is proved correct")
"""What a schedule that forces the algorithm of a find is refused with where other tensors drive."""


def each_forced(program: Program, name: str) -> dict[Program, Generated]:
    """The program with each algorithm in turn wherever it is provable, each under its own name; with the driver that
    it had before where what is forced would change that."""
    made = program.generated(name)
    possible = places(made)
    result: dict[Program, Generated] = {}
    for algorithm in FINDS:
        finds = {place: algorithm for place, known in possible.items() if algorithm in known}
        if not finds:
            continue
        forced = replace(program, finds=finds)
        own = f"{name}_{algorithm}"
        try:
            result[forced] = forced.generated(own)
        except SpecError as error:
            # Another driver has other positions to look for, or other keys to look for them by.
            assert NOT_THERE.search(str(error))  # noqa: PT017
            loops = {d for plan in made.plans for d in drivers(plan)}
            if len(loops) > 1:
                continue  # a schedule orders the loops of all nests alike
            forced = replace(forced, order=(*loops,))
            try:
                result[forced] = forced.generated(own)
            except Unsupported:
                continue  # another mapping of the relation may not have that order
            except SpecError as error:
                assert NOT_THERE.search(str(error))  # noqa: PT017 - others may drive the loops within that one
    return result


def drivers(plan: Plan) -> set[str]:
    """The outermost loop of each nest, of the first of its variants; but for those that clear a result: a schedule has
    no name for them."""
    match plan:
        case Block(parts):
            return {d for part in parts for d in drivers(part)}
        case Versions(versions):
            return drivers(versions[0].body)
        case Clear():
            return set()
    first = next((n.dim for n in walk(plan) if isinstance(n, Scan)), None)
    return set() if first is None else {first}


# --- operands ----------------------------------------------------------------------------------------


def packed(layout: Layout, dense: Array) -> Tensor:
    """The tensor of a dense array's non-zeros."""
    coords = np.nonzero(dense) if dense.ndim else ()
    values = dense[coords] if dense.ndim else dense.reshape(1)
    made = pack(layout, dense.shape, tuple(c.astype(np.int64) for c in coords), np.atleast_1d(values))
    return Tensor(layout, made.sizes, made.arrays)


@cache
def storable_pattern(layout: Layout, shape: tuple[int, ...], density: float, seed: int) -> Array:
    """A random pattern that the layout can store: random coordinates are taken while packing allows it, many at once
    where it allows many."""
    rng = np.random.default_rng([seed, *shape])
    wanted = rng.random(shape) < density
    for trial in (wanted, mirrored(wanted)):
        if _can_store(layout, trial):
            return trial
    pattern = np.zeros(shape, dtype=bool)
    places = np.argwhere(wanted)
    rng.shuffle(places)
    waiting = [places]
    while waiting:
        some = waiting.pop()
        trial = pattern.copy()
        trial[tuple(some.T)] = True
        if _can_store(layout, trial):
            pattern = trial
        elif len(some) > 1:
            waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
    return pattern


def mirrored(array: Array) -> Array:
    """A matrix made symmetric, with nothing outside of its largest square; other tensors as they are."""
    if array.ndim != 2:
        return array
    size = min(array.shape)
    square = array[:size, :size]
    result = np.zeros_like(array)
    result[:size, :size] = np.maximum(square, square.T)
    return result


def _can_store(layout: Layout, pattern: Array) -> bool:
    with patch.object(NoPlace, "explained", lambda error: error):  # nobody reads why not
        try:
            packed(layout, pattern.astype(np.float64))
        except SpfgenError:
            return False
    return True


@cache
def operand(layout: Layout, shape: tuple[int, ...], density: float, seed: int) -> tuple[Tensor, Array]:
    """A random tensor in the layout, and the same as a dense array (small integers: sums are exact).

    Made once: nothing can be written to its arrays.
    """
    rng = np.random.default_rng([seed, 7, *shape])
    pattern = storable_pattern(layout, shape, density, seed)
    dense = np.where(pattern, rng.integers(1, 10, shape), 0).astype(np.float64)
    for trial in (dense, mirrored(dense), pattern.astype(np.float64)):
        with suppress(SpfgenError):  # several coordinates share a value, or all do
            made, dense = packed(layout, trial), trial
            break
    for array in (*made.arrays.values(), dense):
        array.flags.writeable = False
    return made, dense


# --- many kernels at once ----------------------------------------------------------------------------


class Batch:
    """Kernels compiled into one shared object, not optimised if not told so: compiling is much of the time.

    `eager` kernels start their threads however little there is to do. What is `generated` already has names of its own.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        flags: Sequence[str] = ("-O0",),
        eager: bool = False,
        generated: Sequence[Generated] | None = None,
    ) -> None:
        self.programs = list(programs)
        self.generated = list(generated or [p.generated(f"kernel_{n}") for n, p in enumerate(self.programs)])
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        texts = [eager_source(made.whole) if eager else made.whole for made in self.generated]
        source = folder / "kernels.c"
        source.write_text(one_file({f"kernel_{n}.c": text for n, text in enumerate(texts)}), encoding="utf-8")
        compiler = find_compiler()
        target = folder / "kernels.so"
        command = [*compiler.command, "-std=c99", *flags, "-fPIC", "-shared", *compiler.openmp, str(source)]
        result = subprocess.run([*command, "-lm", "-o", str(target)], capture_output=True, text=True, cwd=folder)
        assert result.returncode == 0, result.stderr
        self.library = ctypes.CDLL(str(target))

    def run(
        self, number: int, tensors: Mapping[str, Tensor], threads: int = 2, sizes: Mapping[str, int] | None = None
    ) -> None:
        function = getattr(self.library, self.generated[number].program.name)
        Bound(self.generated[number].program, function, tensors, sizes or {}, threads)()


def eager_source(text: str) -> str:
    """The C of a kernel that starts its threads however little there is to do, gives each several parts, and lets them
    add to copies where these are a few times smaller than the work, else atomically."""
    changes = {
        "copies": (r"work < \d+\.0 \* \(double\)places \+ \d+\.0", "work < 12.0 * (double)places"),
        "threads": (r"if \(work < \(wanted > 0 \? \d+ : \d+\)\)", "if (work < 0)"),
        "atomically": (r"places >= \d+", "places >= 0"),
        "chunks": (r"work / \d+\.0 / threads", "3.0 + 0.0 * work"),
    }
    for name, (pattern, changed) in changes.items():
        text, count = re.subn(pattern, changed, text)
        assert count == len(re.findall(rf"static inline \w+ spfgen_{name}\(", text)), f"spfgen_{name} is not as it was"
    return text


def one_file(texts: Mapping[str, str]) -> str:
    """Many kernels as one text, in which compilers find what is called spfgen_... and several of them use once; they
    name the file that a line comes from."""
    seen: set[str] = set()
    parts = []
    for number, (file, text) in enumerate(texts.items()):
        # One guard for each: kernels that were made under one name and then got others share theirs.
        guard = re.search(r"#ifndef (SPFGEN_\w+_H)\n#define", text)
        text = text.replace(guard[1], f"{guard[1]}_{number}") if guard else text
        for line, part in top_level(text):
            if part not in seen:
                parts.append(f'#line {line} "{file}"\n{part}')
            if re.search(r"^(static .*\bspfgen_\w+\(|(typedef )?struct spfgen_\w+ \{|enum \{)", part, re.MULTILINE):
                seen.add(part)
    return "\n".join(parts)


def top_level(text: str) -> Iterator[tuple[int, str]]:
    """The parts of C that empty lines divide, outside of functions and conditions, with the lines they begin in."""
    part: list[str] = []
    depth = 0
    for number, line in enumerate(text.split("\n"), 1):
        depth += line.count("{") - line.count("}") + line.startswith("#if") - line.startswith("#endif")
        if line or depth:
            part.append(line)
        elif part:
            yield number - len(part), "\n".join(part)
            part = []
    yield text.count("\n") + 1 - len(part), "\n".join(part)


def batches(programs: Iterable[Program], size: int = 60, flags: Sequence[str] = ("-O0",)) -> Iterable[Batch]:
    todo = list(programs)
    for start in range(0, len(todo), size):
        yield Batch(todo[start : start + size], flags)


def zeros_like(generated: Generated, name: str, tensors: Mapping[str, Tensor], shape: tuple[int, ...]) -> Tensor:
    """A dense output full of rubbish, so that what is not written shows."""
    tensor = packed(generated.program.tensor(name).layout, np.ones(shape))
    for value in tensor.layout.values:
        tensor.arrays[value.name][...] = np.nan
    return tensor

"""Writes down the kernels that a process makes and calls: `pytest -p tests.replay.recorder`, with a folder in
SPFGEN_REPLAY. What becomes of them is found out afterwards (outcome.py), so that all are recorded under one setting."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import wraps
from pathlib import Path
from threading import local
from typing import Any

from spfgen import api, pipeline
from spfgen.errors import SpecError, SpfgenError
from spfgen.kernel import Kernel
from spfgen.run.calls import pattern_overflow
from spfgen.run.tensor import Tensor
from spfgen.space.assembled import may_be_assembled
from tests.replay.corpus import ALIKE, CALLS, MOST, Call, Program, as_json, packed, rounded
from tests.replay.program import NoText, text_of_kernel

FOLDER = "SPFGEN_REPLAY"


class Recorder:
    """What a process has recorded. Kernels that spfgen makes for itself within a call are not."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{os.getpid()}.jsonl"
        self.seen: set[str] = set()
        self.calls: Counter[tuple[Any, ...]] = Counter()
        self.state = local()

    @contextmanager
    def within(self) -> Iterator[bool]:
        """Whether this is the outermost."""
        depth = getattr(self.state, "depth", 0)
        self.state.depth = depth + 1
        try:
            yield depth == 0
        finally:
            self.state.depth = depth

    def add(self, program: Program, call: Call | None = None) -> None:
        if call is None and program.key in self.seen:
            return
        self.seen.add(program.key)
        if call is not None:
            program = replace(program, calls=[call])
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(as_json(program)) + "\n")

    @contextmanager
    def refused(self, program: Callable[[], Program]) -> Iterator[None]:
        """Records a text if it is refused."""
        try:
            yield
        except SpecError:
            if program().text:
                self.add(program())
            raise

    def wanted(self, key: str, call: Call) -> bool:
        self.calls[key,] += 1
        self.calls[key, call.kinds] += 1
        return self.calls[key,] <= CALLS and self.calls[key, call.kinds] <= ALIKE


def install(folder: Path) -> None:
    """From now on, all that this process makes is recorded."""
    recorder = Recorder(folder)
    _kernels(recorder)
    _calls(recorder)
    _texts(recorder)


def _kernels(recorder: Recorder) -> None:
    made = Kernel.__init__

    @wraps(made)
    def init(self: Kernel, kernel: Any, layouts: Any, *args: Any, **settings: Any) -> None:
        with recorder.within() as outermost:
            if outermost:
                with suppress(SpfgenError, NoText):
                    own = {d.name for d in kernel.tensors if d.assembled}
                    given = tuple(sorted(may_be_assembled(kernel, layouts) - own))
                    text = text_of_kernel(kernel, layouts)
                    program = Program(text, kernel.name, kernel.level, given, bool(settings.get("prune")))
                    self.recorded = program  # type: ignore[attr-defined]
                    recorder.add(program)
            made(self, kernel, layouts, *args, **settings)

    Kernel.__init__ = init  # type: ignore[method-assign]
    looked = pattern_overflow.PatternOverflow.look

    @wraps(looked)
    def look(self: pattern_overflow.PatternOverflow, *args: Any) -> None:
        with recorder.within():
            looked(self, *args)

    pattern_overflow.PatternOverflow.look = look  # type: ignore[method-assign, assignment]


def _calls(recorder: Recorder) -> None:
    bind = Kernel.bound

    @wraps(bind)
    def bound(self: Kernel, operands: Mapping[str, object], sizes: Any, *args: Any, **settings: Any) -> Any:
        given = {n: v for n, v in operands.items() if v is not None}
        with recorder.within() as outermost:
            found: Mapping[str, object] = given
            try:
                result = bind(self, operands, sizes, *args, **settings)
                found = {**given, **{n: t for n, t in result.tensors.items() if n in given}}
                return result
            finally:
                program = getattr(self, "recorded", None)
                if outermost and program is not None:
                    with suppress(SpfgenError, TypeError, ValueError, AttributeError):
                        call = _call(self, found, sizes or {}, settings.get("prune"))
                        if call is not None and recorder.wanted(program.key, call):
                            recorder.add(program, call)

    Kernel.bound = bound  # type: ignore[method-assign]


def _call(kernel: Kernel, given: Mapping[str, Any], sizes: Mapping[str, Any], prune: Any) -> Call | None:
    """None where the operands are many numbers, or not tensors of the kernel's layouts."""
    tensors = {t.name: t for t in kernel.program.tensors}
    own = {n: int(v) for n, v in {**sizes, **{n: v for n, v in given.items() if n not in tensors}}.items()}
    packed_ones = {}
    count = 0
    for name in tensors.keys() & given.keys():
        tensor = given[name]
        layout = kernel.layouts.get(name, tensors[name].layout)
        if not isinstance(tensor, Tensor) or tensor.layout != layout:
            return None
        count += sum(a.size for a in tensor.arrays.values())
        if count > MOST:
            return None
        indexes = {a.name for a in layout.indexes}
        arrays = {n: a if n in indexes else rounded(a) for n, a in tensor.arrays.items()}
        packed_ones[name] = packed(Tensor(layout, tensor.sizes, arrays))
    return Call(dict(sorted(packed_ones.items())), own, prune)


def _texts(recorder: Recorder) -> None:
    """Texts that are refused before there is a kernel."""
    parse: Callable[..., Any] = api.parse_tree  # type: ignore[attr-defined]
    statements: Callable[..., Any] = api.parse_statements  # type: ignore[attr-defined]
    layouts_of: Callable[..., Any] = pipeline.resolve

    @wraps(parse)
    def parse_tree(text: str, *args: Any) -> Any:
        with recorder.refused(lambda: Program(text)):
            return parse(text, *args)

    @wraps(statements)
    def parse_statements(text: str, *args: Any, **settings: Any) -> Any:
        with recorder.refused(lambda: Program(f"kernel k {{\n{text}\n}}")):
            return statements(text, *args, **settings)

    @wraps(layouts_of)
    def resolve(kernel: Any, tree: Any) -> Any:
        text = "" if kernel.span is None else kernel.span.text
        with recorder.refused(lambda: Program(text, kernel.name, kernel.level)):
            return layouts_of(kernel, tree)

    api.parse_tree = parse_tree  # type: ignore[assignment, attr-defined]
    api.parse_statements = parse_statements  # type: ignore[attr-defined]
    pipeline.resolve = resolve


if os.environ.get(FOLDER):
    install(Path(os.environ[FOLDER]))

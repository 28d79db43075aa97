"""Kernels that are called as always, but whose plans are carried out by the interpreter: nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from spfgen.disk_cache import compiled_of
from spfgen.errors import DataError
from spfgen.kernel import Kernel
from spfgen.layout.nodes import ENTRIES
from spfgen.pipeline import Generated, generate
from spfgen.run.calls.call import RANGE, Bound
from spfgen.run.coordinates import Coordinates
from spfgen.space.local_tensors import AT
from tests.plans.effort import Effort
from tests.plans.interpret import Choices, interpret


@contextmanager
def by_the_interpreter(
    effort: Effort | None = None, watch: Callable[[Generated, Bound], object] = lambda made, call: None
) -> Iterator[list[Generated]]:
    """All kernels that are made and called meanwhile; what they do is added to `effort`. What was made of the
    kernels whose plans were carried out. `watch` is told of each call before."""
    plans: dict[int, Any] = {}
    ran: list[Generated] = []
    usual = Kernel.bound

    def compiled(self: Kernel, kernel: Any) -> Any:
        made = generate(kernel, self.layouts)
        plans[id(made.program)] = made
        if kernel is self.parsed:
            self._generated = made
        return compiled_of(made)

    def bound(self: Kernel, *args: Any, **more: Any) -> Bound:
        found = usual(self, *args, **more)
        own = plans.get(id(found.program))
        if own is not None:
            found._function = lambda *_: carried(found, own, ran)
        return found

    def carried(found: Bound, own: Any, ran: list[Generated]) -> int:
        ran.append(own)
        watch(own, found)
        try:
            results = interpret(own.program, own.plans, found.tensors, found.sizes, Choices(), effort)
        except DataError:
            return RANGE
        waiting = {a.name: a.pending for a in found._assembled}
        made: dict[str, Coordinates] = {}
        for name, arrays in results.items():
            if name in waiting:
                values, shape = arrays[ENTRIES], waiting[name].shape
                at = arrays.get(AT, np.argwhere(values))
                stored = values if AT in arrays else values[values != 0]
                made[name] = Coordinates(shape, tuple(at.T), stored.astype(waiting[name].dtype))
            else:
                for array, values in arrays.items():
                    found.tensors[name].arrays[array][...] = values

        def take(own: Any) -> None:
            packed = own.assembly.packed(own.name, made[own.name], 1)
            found.tensors[own.name] = own.assembly.finished(own.name, packed, 1)

        found._take = take  # type: ignore[method-assign]
        return 0

    with ExitStack() as stack:
        enter: Callable[[Any], Any] = stack.enter_context
        enter(patch.object(Kernel, "_compiled", compiled))
        enter(patch.object(Kernel, "bound", bound))
        enter(patch.object(Kernel, "_function", lambda self, made: None))
        enter(patch("spfgen.run.calls.evaluate.remember_call", lambda *_: None))  # there is no C to call again
        yield ran

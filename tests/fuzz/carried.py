"""Kernels that are called as always, but whose plans are carried out by the interpreter: nothing is compiled."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from spfgen.cir.lower.layout import FIELD
from spfgen.disk_cache import compiled_of
from spfgen.errors import DataError
from spfgen.kernel import Kernel
from spfgen.layout.nodes import ENTRIES
from spfgen.pipeline import Generated, generate
from spfgen.run.calls.call import RANGE, Bound
from spfgen.space.own import AT
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
        structs = {a.name: a.struct for a in found._assembled}
        for name, arrays in results.items():
            if name in structs:
                values = arrays[ENTRIES]
                at = arrays.get(AT, np.argwhere(values))
                axis = own.program.tensor(name).axis
                if axis is not None:  # intervals of one coordinate each
                    at = np.column_stack([at, at[:, axis]])
                delivered(getattr(structs[name], FIELD), at, values if AT in arrays else values[values != 0])
            else:
                for array, values in arrays.items():
                    found.tensors[name].arrays[array][...] = values
        return 0

    with ExitStack() as stack:
        enter: Callable[[Any], Any] = stack.enter_context
        enter(patch.object(Kernel, "_compiled", compiled))
        enter(patch.object(Kernel, "bound", bound))
        enter(patch.object(Kernel, "_function", lambda self, made: None))
        yield ran


def delivered(struct: Any, at: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
    """The entries in memory that the caller gives back, as C hands them over."""
    struct.count = struct.capacity = len(values)
    for k in range(at.shape[1]):
        struct.at[k] = copied(np.ascontiguousarray(at[:, k], dtype=np.int32 if struct.narrow else np.int64))
    struct.values = copied(values)


def copied(array: np.ndarray[Any, Any]) -> int | None:
    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    place: int | None = library.malloc(max(1, array.nbytes))
    assert place is not None
    ctypes.memmove(place, array.ctypes.data, array.nbytes)
    return place

"""What was compared with what was asked for while a kernel was made, and found the same. `explain` claims no more."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from spfgen.space.nodes import Instance


@dataclass
class Compared:
    """`paths` through plans that do what is asked for at the points of these instances, each exactly once. `nests`: of
    each nest of loops that was made for steps, whether all its paths are among them."""

    paths: dict[Hashable, list[Instance]] = field(default_factory=dict)
    nests: list[bool] = field(default_factory=list)

    @property
    def instances(self) -> list[Instance]:
        """All of them, each once."""
        return [*{id(i): i for found in self.paths.values() for i in found}.values()]


_RECORDS: ContextVar[tuple[Compared, ...]] = ContextVar("_RECORDS", default=())


@contextmanager
def recorded() -> Iterator[Compared]:
    """All that is compared meanwhile in this thread."""
    found = Compared()
    token = _RECORDS.set((*_RECORDS.get(), found))
    try:
        yield found
    finally:
        _RECORDS.reset(token)


def note(path: Hashable, instance: Instance) -> None:
    """A path that was compared with an instance, and is the same."""
    for record in _RECORDS.get():
        known = record.paths.setdefault(path, [])
        if instance not in known:
            known.append(instance)


def note_nest(paths: list[Hashable]) -> None:
    """A nest of steps, by its paths."""
    for record in _RECORDS.get():
        record.nests.append(bool(paths) and all(p in record.paths for p in paths))

"""What was compared with what was asked for while a kernel was made, and found the same. `explain` claims no more."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from spfgen.plan.nodes import Plan
from spfgen.space.nodes import Group, Instance, Operand


@dataclass(frozen=True)
class MadeNest:
    """A nest of loops for steps: its nodes from the outside in, each without its body, and what it reads at its points:
    each value where the layout has it. `is_known`: it was compared with its region."""

    nodes: tuple[Hashable, ...]
    reads: tuple[Operand, ...]
    is_known: bool


@dataclass
class Compared:
    """`paths` through plans that do what is asked for at the points of these instances, each exactly once. `nests`: of
    each nest of loops that was made for steps, whether all its paths are among them; `made`: these nests, as what is
    done at their points was put into them. `apart`: loops whose iterations write different places of the target.
    `statements`: which of the instances were compared while the nests of which sum of products were made.
    `unknown`: how many statements and values of whole plans are not where these say."""

    paths: dict[Hashable, list[Instance]] = field(default_factory=dict)
    nests: list[bool] = field(default_factory=list)
    made: list[MadeNest] = field(default_factory=list)
    apart: list[tuple[Instance, str]] = field(default_factory=list)
    statements: list[tuple[Group, Instance]] = field(default_factory=list)
    unknown: int = 0
    planned: list[Plan] = field(default_factory=list)
    """Plans of steps before they were rewritten."""
    rewritten: list[str] = field(default_factory=list)
    """The passes that have changed what their nodes say, and `changed`: how many nodes differ in the end."""
    changed: int = 0

    @property
    def instances(self) -> list[Instance]:
        """All of them, each once."""
        return [*{id(i): i for compared in self.paths.values() for i in compared}.values()]

    def of(self, group: Group) -> list[Instance]:
        """Those of one statement: what was compared for another one does not stand in."""
        return [i for statement, i in self.statements if statement == group]


_RECORDS: ContextVar[tuple[Compared, ...]] = ContextVar("_RECORDS", default=())


_STATEMENT: ContextVar[Group | None] = ContextVar("_STATEMENT", default=None)


@contextmanager
def about(group: Group) -> Iterator[None]:
    """What is compared meanwhile in this thread is about nests of this statement."""
    token = _STATEMENT.set(group)
    try:
        yield
    finally:
        _STATEMENT.reset(token)


@contextmanager
def recorded() -> Iterator[Compared]:
    """All that is compared meanwhile in this thread."""
    record = Compared()
    token = _RECORDS.set((*_RECORDS.get(), record))
    try:
        yield record
    finally:
        _RECORDS.reset(token)


def note(path: Hashable, instance: Instance) -> None:
    """A path that was compared with an instance, and is the same."""
    group = _STATEMENT.get()
    for record in _RECORDS.get():
        if group is not None and not any(g is group and i is instance for g, i in record.statements):
            record.statements.append((group, instance))
        known = record.paths.setdefault(path, [])
        if instance not in known:
            known.append(instance)


def note_nest(paths: list[Hashable], nest: MadeNest) -> None:
    """A nest of steps, by its paths, and how it is used."""
    for record in _RECORDS.get():
        known = bool(paths) and all(p in record.paths for p in paths)
        record.nests.append(known)
        record.made.append(replace(nest, is_known=known))


def note_apart(instance: Instance, loop: str) -> None:
    """A loop whose iterations are proved to write different places of the target."""
    for record in _RECORDS.get():
        record.apart.append((instance, loop))


def note_planned(plan: Plan) -> None:
    """A plan of steps that is to be rewritten."""
    for record in _RECORDS.get():
        record.planned.append(plan)


def note_rewritten(name: str) -> None:
    """A pass that has changed what nodes of a plan of steps say."""
    for record in _RECORDS.get():
        record.rewritten.append(name)


def note_unknown(number: int, changed: int) -> None:
    """What nothing is known of in a whole plan, and nodes that rewrites have changed."""
    for record in _RECORDS.get():
        record.unknown += number
        record.changed += changed

"""Kernels of a spec file, and what calls say of a schedule in place of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spfgen.errors import UsageError, a_type
from spfgen.kernel import Kernel, made
from spfgen.lang import nodes as lang
from spfgen.lang.optimization import level_of
from spfgen.lang.parse import parse_schedule
from spfgen.lang.schedule import with_schedule
from spfgen.lang.spec import SpecTree
from spfgen.public import Public


@dataclass(frozen=True, repr=False)
class KernelSpec(Public):
    """A kernel of a spec file, to be compiled."""

    _public = ("compile", "name")
    tree: SpecTree
    kernel: lang.Kernel

    @property
    def name(self) -> str:
        return self.kernel.name

    def compile(
        self,
        threads: int | None = None,
        *,
        schedule: str | None = None,
        finds: Mapping[str, str] | None = None,
        deterministic: bool = False,
        optimize: int | None = None,
        validate: str = "once",
        prune: bool = False,
        max_workspace: int | None = None,
    ) -> Kernel:
        """`schedule` holds clauses that take the place of the kernel's own schedule: `"tile i by 32; parallel i_tile"`.
        `finds` says how positions are found, in place of what the schedule says of them: `{"A.pj": "hash"}`. A kernel
        without a schedule gets what `spfgen tune` found for it; `schedule=""` leaves that out. `deterministic`: results
        are the same to the last bit for any number of threads, as the clause of that name says. `optimize` is the
        level: 0 is the scan as it is derived, 1 has proved finds and parallel loops, 2 (the default, or what
        SPFGEN_OPT says) versions tuned for sizes and processors besides.

        `validate` is when index arrays of operands are checked: "once", "always" or "never". `prune`: results whose
        pattern is computed do not store what equals their fill value. `max_workspace`: so many bytes may their entries,
        and the workspaces of rows, take until they are packed.

        Raises SpecError, UsageError, Unsupported.
        """
        from spfgen.pipeline import resolve
        from spfgen.space.assembled import with_assembled

        kernel = with_finds(scheduled(self.kernel, schedule), finds, deterministic)
        kernel = replace(kernel, level=level_of(optimize))
        layouts = resolve(kernel, self.tree)
        build = made if schedule is None else Kernel
        return build(
            with_assembled(kernel, layouts), layouts, threads, validate, prune=prune, max_workspace=max_workspace
        )

    def __repr__(self) -> str:
        return f"<spfgen kernel {self.name}>"


def scheduled(kernel: lang.Kernel, schedule: str | None) -> lang.Kernel:
    """The kernel with these clauses as its schedule. Raises SpecError, UsageError."""
    if schedule is None:
        return kernel
    if not isinstance(schedule, str):
        raise UsageError(f"expected the clauses of a schedule as a text, but this is {a_type(schedule)}")
    return with_schedule(kernel, parse_schedule(schedule))


def with_finds(kernel: lang.Kernel, finds: Mapping[str, str] | None, deterministic: bool) -> lang.Kernel:
    """The kernel with these finds in place of what its schedule says of them, and deterministic where that is asked."""
    forced = _forced(finds)
    asked = {(f.tensor, f.position) for f in forced}
    kept = (f for f in kernel.finds if (f.tensor, f.position) not in asked)
    return replace(kernel, finds=(*kept, *forced), deterministic=kernel.deterministic or bool(deterministic))


def loops(order: Sequence[str]) -> Iterator[lang.Loop]:
    for loop in (order,) if isinstance(order, str) else order:
        owner, _, index = loop.rpartition(".")
        yield lang.Loop(owner or None, index)


def _forced(finds: Mapping[str, str] | None) -> tuple[lang.FindClause, ...]:
    """Raises UsageError when it does not say for positions how they are found."""
    if finds is not None and not isinstance(finds, Mapping):
        raise UsageError(f"expected finds such as {{'A.pj': 'hash'}}, but this is {a_type(finds)}")
    result = []
    for place, algorithm in (finds or {}).items():
        if not isinstance(place, str) or not isinstance(algorithm, str):
            raise UsageError(f"expected finds such as {{'A.pj': 'hash'}}, but there is {place!r}: {algorithm!r}")
        owner, _, position = place.rpartition(".")
        result.append(lang.FindClause(owner or None, position, algorithm))
    return tuple(result)

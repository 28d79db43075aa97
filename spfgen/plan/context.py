"""What planning needs to know of the program besides the instance at hand."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from spfgen.errors import SpecError
from spfgen.facts.formula import Expr, substitute, variables
from spfgen.ir import children
from spfgen.plan.analyse.cost import CountedSize
from spfgen.plan.choices import THREADS, Decision
from spfgen.plan.nodes import PLANS, Clear, Find, Plan, Scan
from spfgen.space.nodes import ForcedFind, Mark, Program, Tensor, size_values


@dataclass(frozen=True)
class Context:
    """Schedule, types, sizes and level of optimisation of a program."""

    order: tuple[str, ...] = ()
    """Of the schedule: the loops that come first, the outermost first."""
    forced: Mapping[str, ForcedFind] = field(default_factory=dict)
    """Of the schedule: search algorithms, by position."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The value types of the tensors."""
    stored: Mapping[str, CountedSize] = field(default_factory=dict)
    """What each size of a layout counts."""
    several: frozenset[str] = frozenset()
    """Tensors with values in more than one array."""
    marks: tuple[Mark, ...] = ()
    """Of the schedule: clauses on loops."""
    outside: tuple[tuple[str, str], ...] = ()
    """Of the schedule: (outer, inner) loops, one directly around the other."""
    falling: frozenset[str] = frozenset()
    """Loops that run downwards."""
    deterministic: bool = False
    """Results may not depend on the number of threads."""
    shapes: Mapping[str, tuple[Expr, ...]] = field(default_factory=dict)
    """The extents of the index arrays."""
    free: bool = False
    """Loops that the schedule names may be changed nevertheless."""
    level: int = 2
    """Of optimisation."""
    stop_after: str = ""
    """The name of the last pass that rewrites plans, if not all do."""
    assembled: Mapping[str, Tensor] = field(default_factory=dict)
    """Tensors whose pattern is computed."""
    fixed_sizes: Mapping[str, int] = field(default_factory=dict)
    """Extents that are numbers."""
    outputs: frozenset[str] = frozenset()
    """Tensors that are stored."""
    arrays: tuple[tuple[str, ...], ...] = ()
    """The extents of all arrays of tensors, assembled ones included, as sizes."""

    @property
    def held(self) -> frozenset[str]:
        """The sizes along which some tensor has an array."""
        return frozenset(size for array in self.arrays for size in array)

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The loops that the schedule speaks of."""
        inside = (inner for _, inner in self.outside)
        return tuple(dict.fromkeys((*self.order, *(d for m in self.marks for d in (m.dim, *m.inner)), *inside)))

    @property
    def fixed(self) -> tuple[str, ...]:
        """The loops that are to be as the schedule has them, with all others around and inside."""
        return () if self.free else self.named

    @property
    def leaves_the_rest(self) -> bool:
        """Whether all that the schedule says is which loops threads share or do not, and what is tiled."""
        tiles = {m.dim for m in self.marks if m.word == "tile"}
        words = {m.word for m in self.marks if m.word != "order" or m.dim not in tiles}
        return words <= {"parallel", "serial", "tile", "split"} and {*self.order} <= tiles and not self.forced

    def makes(self, choice: Decision) -> bool:
        """Whether a choice is made at this level."""
        return choice.level <= self.level

    def is_serial(self, dim: str) -> bool:
        """Whether the iterations of a loop run on one thread, whatever is proved of them."""
        if self.marked("serial", dim) is not None:
            return True
        return not self.makes(THREADS) and self.marked("parallel", dim) is None

    def marked(self, word: str, dim: str) -> Mark | None:
        """What the schedule says of a loop in this word."""
        return next((m for m in self.marks if m.word == word and m.dim == dim), None)


def context_of(program: Program) -> Context:
    schedule = program.schedule
    return Context(
        schedule.order,
        {f.dim: f for f in schedule.finds},
        {t.name: t.value_type for t in program.every_tensor},
        {
            s: CountedSize(t.extents, _each(t, size))
            for t in program.tensors
            for size, s in zip(t.layout.sizes, t.sizes, strict=True)
        },
        frozenset(t.name for t in program.tensors if len(t.layout.values) > 1),
        schedule.marks,
        schedule.outside,
        deterministic=program.deterministic,
        level=program.level,
        shapes=dict(_shapes(program)),
        assembled={t.name: t for t in program.tensors if t.assembled is not None},
        fixed_sizes=program.sizes.fixed,
        outputs=frozenset(t.name for t in program.tensors if t.is_output),
        arrays=tuple(_arrays(program)),
    )


def _each(tensor: Tensor, size: str) -> tuple[str, ...]:
    """The extents along which each position has as many values as the size says: those of the rows, for a width."""
    names = dict(zip(tensor.layout.parameters, tensor.extents, strict=True))
    inside = [variables(*array.extents) for array in tensor.layout.values]
    return tuple(names[p] for p in tensor.layout.parameters if any({size, p} <= names_in for names_in in inside))


def _arrays(program: Program) -> Iterator[tuple[str, ...]]:
    for tensor in program.tensors:
        layout = tensor.final_layout
        names = dict(zip(layout.parameters, tensor.extents, strict=True))
        names |= dict(zip(tensor.layout.sizes, tensor.sizes, strict=True))
        extents = [*(a.extents for a in layout.indexes), *(a.extents for a in layout.values)]
        for array in extents:
            yield tuple(names[v] for e in array for v in sorted(variables(e)) if v in names)


def _shapes(program: Program) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    for tensor in program.tensors:
        sizes = size_values(tensor, program.sizes.fixed)
        for array, function in tensor.arrays:
            yield function, tuple(substitute(e, sizes) for e in tensor.layout.extents(array))


def out_of_order(
    plan: Plan, context: Context, written: Mapping[str, str], second: Collection[str], equal: Mapping[str, str]
) -> Iterator[SpecError]:
    """Loops that stand within others that the schedule has inside of them, or does not speak of. `written` is what the
    text calls the loops that it knows; `second` are positions of an access beside the first one of the same tensor,
    `equal` those that are equal to one that the schedule names."""
    spans = {m.dim: m.span for m in context.marks if m.word == "order"}
    place = {name: k for k, name in enumerate(context.order)}
    place |= {name: place[other] for name, other in equal.items() if name not in place}
    for dims in _paths(plan) if spans else ():
        known_names = {*spans, *second}
        path = [_called(d, dims, known_names, written) for d, is_loop in dims.items() if is_loop and d in written]
        for k, name in enumerate(path):
            wrong = next((o for o in path[:k] if name in spans and place.get(o, len(place)) > place[name]), None)
            if wrong is not None:
                message = (
                    f"expected the loop over `{name}` to be outside of the loop over `{wrong}`, but it must be inside"
                )
                why = f"each iteration of `{wrong}` has a loop over `{name}` of its own"
                yield SpecError(message, spans[name], (why, "leave the order of these loops to spfgen"))
                return


def _called(dim: str, others: Mapping[str, Any], known_names: Collection[str], written: Mapping[str, str]) -> str:
    """What the text calls a loop: `A.p`, and a second access of `A` beside it `A_2.p`. `own` are called as they are."""
    name = written[dim]
    return dim if dim in known_names or name in others else name


def _paths(node: Any, outer: Mapping[str, bool] | None = None) -> Iterator[dict[str, bool]]:
    """The dimensions from the outside in, for each innermost loop, and whether each is a loop; not those that only
    clear."""
    dims = dict(outer or {})
    if (dim := getattr(node, "dim", None)) is not None:
        dims[dim] = dims.pop(dim, False) or isinstance(node, Scan | Find)  # last, where its loop is
    inside = [node.body] if isinstance(node, Clear) else children(node)
    below = [c for c in inside if isinstance(c, PLANS)]
    yield from [path for c in below for path in _paths(c, dims)] or [dims]

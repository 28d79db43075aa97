"""What planning needs to know of the program besides the instance at hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from spfgen.errors import SpecError
from spfgen.facts.formula import Expr, substitute, variables
from spfgen.ir import children, walk
from spfgen.lang.expressions import raise_all
from spfgen.plan.analyse.cost import Stored
from spfgen.plan.choices import THREADS, Choice
from spfgen.plan.nodes import PLANS, Bound, Clear, Do, Find, Levels, Plan, Scan, Segment, Seq
from spfgen.space.nodes import ForcedFind, Mark, Program, Tensor, size_values


@dataclass(frozen=True)
class Context:
    """`order`, `forced` (by position), `marks` and `outside` are the schedule; `types` the value types of the tensors;
    `stored` says of each size of a layout what it counts; `several` are the tensors
    whose values lie in more than one array; `shapes` are the extents of the index arrays; `falling` are loops that run
    downwards; `deterministic`: results may not depend on the number of threads; `free`: loops that the schedule speaks
    of may be changed all the same; `level`: how much the program is optimised; `stop_after` is the name of the last
    pass that rewrites plans, if not all do; `assembled` are the tensors whose pattern is computed; `fixed_sizes`
    extents that are numbers; `outputs` are the tensors that are stored; `arrays` are the extents of all arrays of
    tensors, those of results whose pattern is computed among them, as sizes."""

    order: tuple[str, ...] = ()
    forced: Mapping[str, ForcedFind] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    stored: Mapping[str, Stored] = field(default_factory=dict)
    several: frozenset[str] = frozenset()
    marks: tuple[Mark, ...] = ()
    outside: tuple[tuple[str, str], ...] = ()
    falling: frozenset[str] = frozenset()
    deterministic: bool = False
    shapes: Mapping[str, tuple[Expr, ...]] = field(default_factory=dict)
    free: bool = False
    level: int = 2
    stop_after: str = ""
    assembled: Mapping[str, Tensor] = field(default_factory=dict)
    fixed_sizes: Mapping[str, int] = field(default_factory=dict)
    outputs: frozenset[str] = frozenset()
    arrays: tuple[tuple[str, ...], ...] = ()

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

    def makes(self, choice: Choice) -> bool:
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
    return Context(
        program.order,
        {f.dim: f for f in program.finds},
        {t.name: t.value_type for t in (*program.tensors, *program.temporaries)},
        {
            s: Stored(t.extents, _each(t, own))
            for t in program.tensors
            for own, s in zip(t.layout.sizes, t.sizes, strict=True)
        },
        frozenset(t.name for t in program.tensors if len(t.layout.values) > 1),
        program.marks,
        program.outside,
        deterministic=program.deterministic,
        level=program.level,
        shapes=dict(_shapes(program)),
        assembled={t.name: t for t in program.tensors if t.assembled is not None},
        fixed_sizes=program.fixed,
        outputs=frozenset(t.name for t in program.tensors if t.is_output),
        arrays=tuple(_arrays(program)),
    )


def _each(tensor: Tensor, size: str) -> tuple[str, ...]:
    """The extents along which each position has as many values as the size says: those of the rows, for a width."""
    names = dict(zip(tensor.layout.parameters, tensor.extents, strict=True))
    inside = [{v for e in array.extents for v in variables(e)} for array in tensor.layout.values]
    return tuple(names[p] for p in tensor.layout.parameters if any({size, p} <= names_in for names_in in inside))


def _arrays(program: Program) -> Iterator[tuple[str, ...]]:
    for tensor in program.tensors:
        layout = tensor.assembled or tensor.layout
        names = dict(zip(layout.parameters, tensor.extents, strict=True))
        names |= dict(zip(tensor.layout.sizes, tensor.sizes, strict=True))
        extents = [*(a.extents for a in layout.indexes), *(a.extents for a in layout.values)]
        for array in extents:
            yield tuple(names[v] for e in array for v in sorted(variables(e)) if v in names)


def _shapes(program: Program) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    for tensor in program.tensors:
        sizes = size_values(tensor, program.fixed)
        for own, function in tensor.arrays:
            yield function, tuple(substitute(e, sizes) for e in tensor.layout.extents(own))


def check_met(context: Context, plans: Iterable[Plan]) -> None:
    """Raises SpecError when the schedule speaks of a loop that no plan has, or says how to find a position that no plan
    looks for."""
    plans = list(plans)
    _check_loops(context, plans)
    raise_all([e for plan in plans for e in out_of_order(plan, context)])
    met = {n.dim for plan in plans for n in walk(plan, PLANS) if isinstance(n, Find | Segment | Bound)}
    wanted: dict[str, list[str]] = {}
    for dim, forced in context.forced.items():
        wanted.setdefault(forced.written, []).append(dim)
    for dims in wanted.values():
        if not met & set(dims):
            forced = context.forced[dims[0]]
            raise SpecError(
                f"expected a position that is searched for, but `{dims[0]}` is not",
                forced.span,
                (
                    "a loop runs over it, or it is computed from what is known",
                    "`explain` without the schedule shows which positions are; `order` decides which tensor drives",
                ),
            )


def out_of_order(plan: Plan, context: Context, written: Mapping[str, str] | None = None) -> Iterator[SpecError]:
    """Loops that stand within others that the schedule has inside of them, or does not speak of. `written` is what the
    text calls the loops that it knows; without it they are called what they are."""
    said = {m.dim: m.span for m in context.marks if m.word == "order"}
    place = {name: k for k, name in enumerate(context.order)}
    for path in _paths(plan, written) if said else ():
        for k, name in enumerate(path):
            wrong = next((o for o in path[:k] if name in said and place.get(o, len(place)) > place[name]), None)
            if wrong is not None:
                message = (
                    f"expected the loop over `{name}` to be outside of the loop over `{wrong}`, but it must be inside"
                )
                why = f"each iteration of `{wrong}` has a loop over `{name}` of its own"
                yield SpecError(message, said[name], (why, "leave the order of these loops to spfgen"))
                return


def _paths(node: Any, written: Mapping[str, str] | None, outer: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The loops from the outside in, for each innermost one; not those that only clear."""
    own = outer
    if isinstance(node, Scan | Find) and (written is None or node.dim in written):
        own = (*outer, node.dim if written is None else written[node.dim])
    below = [] if isinstance(node, Clear) else [c for c in children(node) if isinstance(c, PLANS)]
    yield from dict.fromkeys([path for c in below for path in _paths(c, written, own)] or [own])


def _check_loops(context: Context, plans: Sequence[Plan]) -> None:
    clearing = {
        id(n) for p in plans for c in walk(p, PLANS) if isinstance(c, Clear) and c.part for n in walk(c.part, PLANS)
    }
    nodes = [n for plan in plans for n in walk(plan, PLANS) if id(n) not in clearing]
    leveled = {n.dim for n in nodes if isinstance(n, Levels)}
    loops = leveled | {n.dim for n in nodes if isinstance(n, Scan)}
    found = {n.dim for n in nodes if isinstance(n, Find | Segment)} - loops
    errors = []
    for mark in (m for m in context.marks if m.word != "order"):
        if mark.dim not in loops:
            what = "is looked for" if mark.dim in found else "has one value in each iteration of the loops around it"
            name = dict(context.outside).get(mark.dim, mark.dim)
            message = f"expected a loop, but `{name}` {what}"
            hints = (f"loops: {', '.join(sorted(loops)) or 'none'}", f"`order {name}, ...` asks for a loop over it")
            errors.append(SpecError(message, mark.span, hints))
        elif mark.word == "levels" and mark.dim not in leveled:
            errors.append(_no_levels(mark, nodes))
    raise_all(errors)


def _no_levels(mark: Mark, nodes: Sequence[object]) -> SpecError:
    own = [n for n in nodes if isinstance(n, Scan) and n.dim == mark.dim]
    if any(map(_adds_behind, (n for scan in own for n in walk(scan, PLANS)))):
        message = f"expected a loop that reads what others have written, but `{mark.dim}` adds to what others read"
        hint = "iterations that add to one place cannot run at once: convert to a layout by rows, such as csr"
    else:
        message = f"expected a loop whose iterations need others as index arrays say, but `{mark.dim}` is not one"
        hint = "levels are for the outermost loop of statements such as `x[i] = b[i] - sum(j < i: L[i, j]*x[j])`"
    return SpecError(message, mark.span, (hint,))


def _adds_behind(node: object) -> bool:
    """Whether something is added to behind what is stored there."""
    if not isinstance(node, Seq):
        return False
    ops = [[n.op for n in walk(part, PLANS) if isinstance(n, Do)] for part in node.parts]
    first = next((k for k, found in enumerate(ops) if "=" in found), len(ops))
    return any("+=" in found for found in ops[first + 1 :])

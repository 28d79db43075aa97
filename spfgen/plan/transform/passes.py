"""Rewrites of plans in their order: named passes, each a plain function from the nests of an instance to such nests.

The nests come from the scan, with what is looked for found (from_space.py). Each pass leaves them meaning the same, and
leaves alone what it does not know. The context's `stop_after` ends the list early: a difference is bisected by pass.
Nests are of sums, of values that are expressions over sums (fused.py), or deliver entries: a pass says which of them it
is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from spfgen.errors import InternalError, Unsupported
from spfgen.facts.formula import Formula
from spfgen.facts.prove import Facts
from spfgen.ir import walk
from spfgen.plan import unproved_passes
from spfgen.plan.analyse.depend import is_apart
from spfgen.plan.analyse.scan import Step
from spfgen.plan.context import Context
from spfgen.plan.nodes import Block, Find, Plan, Scan, Version, Versions
from spfgen.plan.transform.blocks import fetched
from spfgen.plan.transform.blocks_disjoint import blocks_disjoint
from spfgen.plan.transform.clearing import initialised
from spfgen.plan.transform.distinct_places import with_distinct_places
from spfgen.plan.transform.early_exit import with_early_exits
from spfgen.plan.transform.flatten import flattened, with_flattened_searches
from spfgen.plan.transform.full_segments import with_full_segments
from spfgen.plan.transform.guard_hoisting import with_hoisted_guards
from spfgen.plan.transform.legal import Sharing, annotated, annotated_by
from spfgen.plan.transform.partial_sums import with_partial_sums
from spfgen.plan.transform.partition import measured, on_threads, partitioned, with_split_rows
from spfgen.plan.transform.prefetch import fetched_ahead, with_first
from spfgen.plan.transform.register_blocks import with_sums
from spfgen.plan.transform.register_tile import tiled, tiled_in_pieces
from spfgen.plan.transform.segmented_reduction import with_segmented_reductions
from spfgen.plan.transform.simplify import simplify
from spfgen.plan.transform.skip_zeros import without_zeros
from spfgen.plan.transform.transpose import with_transposed
from spfgen.plan.transform.vector_sums import with_vector_sums
from spfgen.plan.verify import compared
from spfgen.plan.verify.meaning import Difference, Fault, Path, begins, compare, compare_finished
from spfgen.plan.verify.parallel import check_parallel, shared_loops
from spfgen.space.nodes import Instance

SUM, VALUE, ENTRIES = "sum", "value", "entries"
"""Kinds of nests: they add to places of the target; they store a value that is an expression over sums, which are made
inside; they deliver entries, and know no places in memory."""


@dataclass(frozen=True)
class Within:
    """What passes may ask of a value and the sums within it: the indices of all of them, what their tensors declare,
    that sizes are not negative, what iterations of a loop share, and the tensors that the sums are."""

    indices: tuple[str, ...]
    facts: Facts
    sizes: tuple[Formula, ...]
    sharing: Sharing
    sums: frozenset[str]


@dataclass(frozen=True)
class Given:
    """What the passes may ask: the points, the steps of the scan, the schedule and the types; `blocks` are dimensions
    that the plan itself has made; what is `within` a value that is more than one sum; what is stored where a value is
    made of one sum, `finished`."""

    instance: Instance
    steps: tuple[Step, ...]
    context: Context
    blocks: tuple[str, ...] = ()
    within: Within | None = None
    finished: Instance | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Loops that keep their names."""
        indices = self.instance.indices if self.within is None else self.within.indices
        return *indices, *self.context.named


@dataclass(frozen=True)
class Nests:
    """The nests of an instance, of which one runs, and what is cleared before."""

    variants: tuple[Version, ...]
    before: tuple[Plan, ...] = ()

    @property
    def plans(self) -> list[Plan]:
        if len(self.variants) == 1:
            return [*self.before, self.variants[0].body]
        return [*self.before, Versions(self.variants, "which is fastest depends on the sizes")]

    @property
    def nests(self) -> list[Plan]:
        return [v.body for v in self.variants]

    def with_nests(self, nests: list[Plan]) -> Nests:
        """The same with these in their places."""
        variants = (replace(v, body=nest) for v, nest in zip(self.variants, nests, strict=True))
        return replace(self, variants=tuple(variants))


Asked = TypeVar("Asked")
Rewritten = TypeVar("Rewritten")


@dataclass(frozen=True)
class Pass(Generic[Asked, Rewritten]):
    """A rewrite, which may ask what is known; what it is `about`. `level`: 0 is needed for a right result, or does what
    the schedule says; 1 makes it the program that a person would write; 2 is for speed alone. What is not for `fixed`
    loops is left out where the schedule says how all loops run; `on` which kinds of nests it is for."""

    name: str
    about: str
    rewrite: Callable[[Asked, Rewritten], Rewritten]
    level: int
    fixed: bool = True
    on: tuple[str, ...] = (SUM,)


def passed(
    passes: Iterable[Pass[Asked, Rewritten]],
    given: Asked,
    plans: Rewritten,
    context: Context,
    verify: Callable[[Rewritten], None],
) -> Rewritten:
    """The plans after all passes of the context's level, or after those up to the one that is to be the last.
    After each pass, `verify` raises Fault where it is not proved that they do what is asked for: a pass that need not
    be is left out then. Where there is an example of what they do wrong (Difference), that is an InternalError."""
    for step in passes:
        if step.level <= context.level and (step.fixed or not context.fixed):
            rewritten = step.rewrite(given, plans)
            try:
                verify(rewritten)
                plans = rewritten
            except Fault as fault:
                if step.level == 0 or isinstance(fault, Difference) or unproved_passes.STRICT:
                    raise InternalError(f"after the pass `{step.name}`: {fault}") from None
                unproved_passes.note(step.name, str(fault))
        if step.name == context.stop_after:
            break
    return plans


def of_each(rewrite: Callable[[Given, Plan], Plan]) -> Callable[[Given, Nests], Nests]:
    """A pass that does the same with each nest."""
    return lambda given, nests: nests.with_nests([rewrite(given, nest) for nest in nests.nests])


class Verified:
    """The check after each pass: what a nest does is compared with what is asked for, unless it has been already. What
    is cleared or stored at first stays so."""

    def __init__(self, given: Given, nests: Nests) -> None:
        self.instance = given.instance
        self.given = given
        self.known: set[Path] = set()
        self.separate: dict[str, bool] = {}
        self.shared: set[tuple[str, ...]] = set()
        self.starts = self.begins(nests)

    def begins(self, nests: Nests) -> bool:
        """Whether each nest begins with places that hold nothing of before."""
        tensor = self.instance.target.tensor
        return bool(nests.before) or all(begins(n, tensor) for n in nests.nests)

    def __call__(self, nests: Nests) -> None:
        if self.starts and not self.begins(nests):
            raise Fault(f"{self.instance.target.tensor} is not cleared any more")
        for nest in nests.nests:
            compare(self.instance, nest, self.known)
            if self.given.finished is not None:
                compare_finished(self.given.finished, nest, self.known)
            loops = tuple(loop.dim for loop in shared_loops(nest))
            if loops not in self.shared:
                check_parallel(nest, self.apart)
                self.shared.add(loops)

    def apart(self, loop: Scan | Find, tensor: str) -> bool:
        """Whether iterations of a loop write different places of the target."""
        if tensor == self.instance.target.tensor and loop.dim not in self.separate:
            self.separate[loop.dim] = is_apart(self.instance, self.given.steps, loop.dim)
            if self.separate[loop.dim]:
                compared.note_apart(self.instance, loop.dim)
        return tensor == self.instance.target.tensor and self.separate[loop.dim]


def _initialised(given: Given, nests: Nests) -> Nests:
    """What is cleared first is cleared in the nests, if any of them can."""
    if not nests.before:
        return nests
    copies = len(nests.variants) == 1 and given.instance.target.tensor not in given.context.several
    inside = [initialised(given.instance, nest, copies) for nest in nests.nests]
    if not any(inside):
        return nests
    done = [cleared or Block((*nests.before, nest)) for cleared, nest in zip(inside, nests.nests, strict=True)]
    return replace(nests.with_nests(done), before=())


def _with_sums(given: Given, nest: Plan) -> Plan:
    return with_sums(nest, partial(blocks_disjoint, given.instance, given.steps))


def _transposed(given: Given, nests: Nests) -> Nests:
    return replace(nests, variants=tuple(with_transposed(given.instance, nests.variants, given.context)))


def _as_said(given: Given, nest: Plan) -> Plan:
    """The nest with what the schedule says. Raises Unsupported when it wants a loop of a value parallel that is not."""
    if given.within is None:
        return annotated(given.instance, nest, given.steps, given.context)
    nest = annotated_by(given.within.sharing, nest, given.context, given.within.sums)
    for scan in (n for n in walk(nest) if isinstance(n, Scan) and not n.parallel):
        mark = given.context.marked("parallel", scan.dim)
        if mark is not None:
            raise Unsupported(
                f"`{scan.dim}` cannot be parallel within a value that is more than a sum of products",
                mark.span,
                ("make a loop over points of the result parallel", "or write the sum in a statement of its own"),
            )
    return nest


def _on_threads(given: Given, nest: Plan) -> Plan:
    if given.within is None:
        return on_threads(given.instance, nest, given.context)
    return partitioned(replace(given.instance, axioms=given.within.facts), nest)


def _with_hoisted_guards(given: Given, nest: Plan) -> Plan:
    return nest if given.within is None else with_hoisted_guards(nest, given.within.facts, given.within.sizes)


EVERY = (SUM, VALUE, ENTRIES)
PASSES: tuple[Pass[Given, Nests], ...] = (
    Pass(
        "measure",
        "estimates the time of a loop that may be parallel, and the cost of its iterations",
        of_each(lambda given, nest: measured(given.instance, nest, given.context)),
        0,
        on=(SUM, ENTRIES),
    ),
    Pass(
        "simplify",
        "removes copies of dimensions and unused ones; dimensions get the names of the statement's indices",
        of_each(lambda given, nest: simplify(nest, given.names)),
        1,
        on=EVERY,
    ),
    Pass(
        "schedule",
        "applies what the schedule says of loops (vectorize, unroll, fuse, prefetch) if it is proved legal",
        of_each(_as_said),
        0,
        on=EVERY,
    ),
    Pass(
        "register tile",
        "sums neighbouring elements of a row in registers, tile by tile",
        of_each(lambda given, nest: tiled(nest, given.context.types)),
        2,
        fixed=False,
    ),
    Pass(
        "prefetch",
        "prefetches reads that the processor does not predict",
        of_each(lambda given, nest: fetched_ahead(nest)),
        2,
        on=(SUM, ENTRIES),
    ),
    Pass(
        "prefetch first reads",
        "in a loop by levels, prefetches the first reads of a later iteration",
        of_each(lambda given, nest: with_first(nest)),
        2,
        on=(VALUE,),
    ),
    Pass(
        "prefetch blocks",
        "prefetches what is read once for each block of the result",
        of_each(lambda given, nest: fetched(nest) if given.blocks else nest),
        2,
    ),
    Pass(
        "work partition",
        "chooses the loop that threads share, and how threads add to one element",
        of_each(_on_threads),
        0,
        on=EVERY,
    ),
    Pass(
        "initialise",
        "clears a result in the loop that adds to it, if that is proved correct",
        _initialised,
        1,
    ),
    Pass(
        "split rows",
        "adds clearing to the cost of iterations; several threads split a long iteration",
        of_each(lambda given, nest: with_split_rows(given.instance, nest, given.context)),
        0,
        on=(SUM, ENTRIES),
    ),
    Pass(
        "skip zeros",
        "skips the zeros that small dense blocks store",
        of_each(lambda given, nest: without_zeros(nest, given.context)),
        2,
        fixed=False,
    ),
    Pass(
        "flatten searches",
        "makes one loop over all segments whose keys are looked up in a bitmap",
        of_each(lambda given, nest: with_flattened_searches(given.instance, nest)),
        2,
        fixed=False,
    ),
    Pass(
        "register blocks",
        "sums small dense blocks in registers; full blocks have constant trip counts",
        of_each(_with_sums),
        2,
        fixed=False,
    ),
    Pass(
        "vector sums",
        "makes vectors of these sums if a size implies that all blocks are full",
        of_each(lambda given, nest: with_vector_sums(given.instance, nest)),
        2,
        fixed=False,
    ),
    Pass(
        "segmented reduction",
        "sums adjacent entries of one element before they are added to it",
        of_each(lambda given, nest: with_segmented_reductions(nest)),
        2,
        fixed=False,
    ),
    Pass(
        "early exit",
        "leaves a loop once its condition is proved to fail for the rest",
        of_each(lambda given, nest: with_early_exits(given.instance, nest)),
        2,
        on=(SUM, ENTRIES),
    ),
    Pass(
        "full segments",
        "tests the last slot of a row first: if the condition holds there, it holds at all others",
        of_each(lambda given, nest: with_full_segments(nest)),
        2,
    ),
    Pass(
        "transpose",
        "reads an operand whose storage order does not suit from a transposed copy, if that pays",
        _transposed,
        2,
        fixed=False,
    ),
    Pass(
        "tiles in pieces",
        "runs all tiles of a row over one piece of the inner loop, then over the next piece",
        of_each(lambda given, nest: tiled_in_pieces(nest, given.context.types)),
        2,
        fixed=False,
    ),
    Pass(
        "flatten",
        "makes one loop over short segments that are adjacent",
        of_each(lambda given, nest: flattened(given.instance, nest)),
        2,
        fixed=False,
    ),
    Pass(
        "distinct places",
        "updates four elements of a scatter-add at a time, if they are different ones",
        of_each(lambda given, nest: with_distinct_places(given.instance, nest)),
        2,
    ),
    Pass(
        "guard hoisting",
        "tests the end of a segment once instead of each of its positions",
        of_each(_with_hoisted_guards),
        2,
        on=(VALUE,),
    ),
    Pass(
        "partial sums",
        "sums into several accumulators, so that additions need not wait for each other",
        of_each(lambda given, nest: with_partial_sums(nest, given.context.types)),
        2,
        on=(SUM, VALUE),
    ),
)
"""All passes, the first one first."""


def passes_of(kind: str) -> Iterator[Pass[Given, Nests]]:
    """All of them, of which those that are not for this kind of nests do nothing."""
    return (p if kind in p.on else replace(p, rewrite=lambda _, nests: nests) for p in PASSES)

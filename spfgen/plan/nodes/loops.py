"""Loops, what is known above them, and what is done beside their iterations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from spfgen.facts.formula import ONE, Call, Compare, Expr, Formula, Var, conjunction, show
from spfgen.facts.reach import RangeStep, compared
from spfgen.ir import rewrite
from spfgen.plan.nodes.base import Block, Inside, Nested, Plan
from spfgen.plan.nodes.statements import Define, Let
from spfgen.plan.text import interval, show_conditions, show_operand, show_value
from spfgen.space.nodes import Monoid, Operand


@dataclass(frozen=True, slots=True)
class Clear(Nested):
    """All values of an output become zero, a table has no entries any more; or the values become zero that the nest
    `part` goes through, and then `body` runs. `shared`: threads clear all of it together."""

    tensor: str
    because: str = ""
    part: Plan | None = None
    body: Plan | None = None
    shared: bool = False

    @property
    def writes(self) -> str:
        return self.tensor

    @property
    def label(self) -> str:
        return f"clear {self.tensor}" if self.part is None else f"clear a part of {self.tensor}"

    def shown(self) -> Iterator[Inside]:
        if self.part is not None and self.body is not None:
            yield Inside(self.part)
            yield Inside(self.body, depth=0)

    @property
    def meaning(self) -> Plan | None:
        return Block(()) if self.body is None else self.body


@dataclass(frozen=True, slots=True)
class Ahead:
    """Arrays that a loop reads place by place: what lies `places` further is fetched before each run, if the conditions
    hold: on how much there is, then on how short the runs are. What lies there for the first place of the run; or, with
    `each`, for one place out of so many. `long` says when the `rows` runs are long, on the average; `begins` is the
    first element of the array that says where they begin, if there is one. `because` says what the conditions mean,
    `name` in a word."""

    arrays: tuple[Call | Operand, ...]
    places: int
    when: tuple[Formula, ...]
    each: int = 0
    long: Formula | None = None
    rows: Expr = ONE
    begins: Call | None = None
    because: str = "the segments are short, and all together exceed the caches: later reads are prefetched"
    name: str = "far"

    @property
    def label(self) -> str:
        how_far = f"{self.places} places ahead" if self.places else "before it is read"
        return f"prefetched {how_far} if {show_conditions(self.when)}"


@dataclass(frozen=True, slots=True)
class Flatten:
    """How one loop goes through the positions of all segments [f(i), f(i + 1)) of a loop over i: f is the array
    `pointer`, and a segment never ends before it begins. Marks say which i a position belongs to, where the segments of
    the `rows` are `short`, and samples say that neighbours are of many lengths. With `hits`, the name of a bitmap, the
    i is only looked for where a key is found in it. With neither, no position needs its i."""

    pointer: str
    position: str
    short: Formula | None = None
    rows: Expr = ONE
    hits: str = ""

    @property
    def label(self) -> str:
        if self.hits:
            return f"one loop over all {self.position}: blocks without a hit are passed over"
        when = f" if {show(self.short)} and neighbours differ in length" if self.short is not None else ""
        return f"one loop over all {self.position}{when}"


@dataclass(frozen=True, slots=True)
class Weight:
    """What an iteration i of a loop costs: f(i + 1) - f(i) for the array `pointer`, which are the iterations of the
    loop inside, and `each` more. `deeper` are arrays g such that the loop inside p runs over [g(p), g(p + 1)), and so
    on: then these count. `price` is how long one of them takes, in nanoseconds."""

    pointer: str
    deeper: tuple[str, ...] = ()
    each: Expr = ONE
    price: Expr = ONE


@dataclass(frozen=True, slots=True)
class Slice:
    """The places of a target that one key (or row) has: each subscript is `base + rest`. The key alone decides `base`;
    `rest` runs over [0, extents), whatever the key is."""

    base: tuple[Expr, ...]
    rest: tuple[Expr, ...]
    extents: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """An array that the iterations of a loop only update: each part but the first has a copy of it, which starts with
    what is neutral, and after the loop the copies are combined with it, place by place, by the `monoid`; without one
    they are added."""

    target: Operand
    monoid: Monoid | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """How a parallel loop runs on several threads, and what is known of its work."""

    work: Expr | None
    """How long the loop takes in nanoseconds; None: not known."""
    weight: Weight | None = None
    """What an iteration costs, where an array tells."""
    uneven: bool = False
    """Iterations differ, but no array tells."""
    adds: str = ""
    """How threads add to one place: not at all (""), all into one variable ("sum"), to copies of arrays ("copies"), or
    place after place in order ("segments"): then two threads meet at one place only where a part ends."""
    atomic: bool = False
    """Additions are atomic where the copies would be too large."""
    copies: tuple[Copy, ...] = ()
    slice: Slice | None = None
    """The places of one key: those of an iteration that two threads share, where both add to them."""
    row: str = ""
    """The loop inside that is split where one iteration takes long."""
    fixed: bool = False
    """The parts do not depend on the number of threads."""
    clears: str = ""
    """The target, where it is to be cleared and threads do so as they clear their copies of it."""
    additions: Expr | None = None
    """How many there are to places in memory."""
    partial: tuple[tuple[str, str], ...] = ()
    """Where two threads share a place, a part sums what it has of it apart: how the loops, by their dimensions, add to
    that sum, as for a Scan."""
    in_turn: bool = False
    """A thread that is done takes the next part, of which there are more than threads."""

    @property
    def label(self) -> str:
        """How a loop is shared out and adds."""
        words = [" parallel"]
        if self.weight is not None:
            words.append(f"partitioned by {' and '.join((self.weight.pointer, *self.weight.deeper))}")
        if self.row:
            words.append(f"a long {self.row} loop is split")
        match self.adds:
            case "sum":
                words.append("a sum for each part")
            case "segments":
                words.append("parts meet at the places of one key")
            case "copies":
                words.append("adding to copies" + (" or atomically" if self.atomic else ""))
                words += [f"clearing {self.clears} with them"] if self.clears else []
        if self.fixed and (self.adds or self.row):
            words.append("in parts that do not depend on the number of threads")
        return ", ".join(words)


ACROSS, IN_TURN, SEVERAL = "to a vector of partial sums", "to partial sums in turn", "to a vector of sums for each"
EACH = "to several sums, one iteration after the other"
LEFT, FEW_LEFT = "to partial sums, the last ones in order", "to a sum of its own"
"""How a loop adds up (transform/partial_sums.py)."""
WAITS, APART = "the additions are then independent", "compilers would merge iterations of the loop around"
DISTINCT = "to four places at a time, which all differ"
"""How a loop adds to memory (transform/distinct_places.py)."""


@dataclass(frozen=True, slots=True)
class Scan(Nested):
    """A loop over a dimension."""

    dim: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    body: Plan
    parallel: bool = False
    because: str = ""
    vector: bool = False
    """Its iterations run as vectors."""
    unroll: int = 0
    """This many iterations are written out."""
    pieces: tuple[int, ...] = ()
    """It is this many loops, each with this number of iterations."""
    collapse: int = 0
    """It and the loops directly inside, this many together, run as one; 1: it is one of those inside."""
    down: bool = False
    """It runs downwards."""
    ahead: Ahead | None = None
    """What it prefetches."""
    partition: Partition | None = None
    """How threads share it, if it is `parallel`."""
    segment_keys: tuple[Call, ...] = ()
    """While these calls keep their values, the target's element stays the same: terms are summed before they are
    added to it."""
    chained: bool = False
    """Index arrays determine on which earlier iterations one depends."""
    private: tuple[Let, ...] = ()
    """Scalars that iterations change; each part of a parallel loop has its own."""
    combined: Plan | None = None
    """Runs once for each part after the loop, in order, with the part's scalars."""
    partial: str = ""
    """If it only adds to sums: how it adds to partial sums."""
    between: Clear | None = None
    """Each part first clears what lies between the elements of its iterations (see `ends_of_part`)."""
    flatten: Flatten | None = None
    """How it and the inner loop run as one."""

    @property
    def has_iterations(self) -> Formula:
        """That it runs at all."""
        return conjunction([Compare("<", low, high) for low in self.low for high in self.high])

    @property
    def ends_of_part(self) -> tuple[str, str]:
        """What `between` calls the first iteration of a part, and the one behind its last."""
        return f"{self.dim}_first", f"{self.dim}_past"

    def computed(self) -> Iterator[RangeStep]:
        yield RangeStep((), self.dim, self.low, self.high)

    @property
    def label(self) -> str:
        shared = partition_text(self.partition) if self.parallel else ""
        fused = f", as one with the {self.collapse - 1} inside" if self.collapse > 1 else ""
        unrolled = f", unrolled by {self.unroll}" if self.unroll else ""
        pieces = f" in pieces of {', '.join(map(str, self.pieces))}" if len(self.pieces) > 1 else ""
        marks = f"{fused}{', vectorized' if self.vector else ''}{pieces}{unrolled}{', downwards' if self.down else ''}"
        return f"scan {self.dim} in {interval(self.low, self.high)}{shared}{marks}"

    def shown(self) -> Iterator[Inside]:
        if self.partial:
            why = {DISTINCT: "no iteration reads what another one stores", EACH: APART}.get(self.partial, WAITS)
            yield Inside(heading=f"  adds {self.partial}", because=why)
        if self.flatten is not None:
            why = "the ends of short segments of many lengths are not predicted"
            yield Inside(heading=f"  {self.flatten.label}", because=why)
        if self.ahead is not None and self.ahead.when:
            yield Inside(heading=f"  {self.ahead.label}", because=self.ahead.because)
        if self.private:
            scalars = ", ".join(f"{p.name} = {show_value(p.value)}" for p in self.private)
            yield Inside(heading=f"  each part has its own {scalars}")
        if self.between is not None:
            heading = f"  each part, from {' to before '.join(self.ends_of_part)}, clears first"
            yield Inside(self.between.part, heading, 2, self.between.because)
        yield Inside(self.body)
        if self.combined is not None:
            yield Inside(self.combined, "for each part")


def partition_text(partition: Partition | None) -> str:
    """What is said of a parallel loop."""
    return " parallel" if partition is None else partition.label


def without_ends(plan: Plan, start: str, low: tuple[Expr, ...], end: str = "", high: tuple[Expr, ...] = ()) -> Plan:
    """The plan whose loops from a name on begin (and end) where all of them together do."""

    def rule(node: object) -> Plan | None:
        if not isinstance(node, Scan) or node.low != (Var(start),):
            return None
        return replace(node, low=low, high=high if node.high == (Var(end),) else node.high)

    result: Plan = rewrite(rule, plan)
    return result


@dataclass(frozen=True, slots=True)
class Load(Nested):
    """`in_place`: it is read where it is used, and not declared."""

    DEEPER = 0

    dim: str
    call: Call
    body: Plan
    in_place: bool = False

    def computed(self) -> Iterator[RangeStep]:
        yield RangeStep((self.call,), self.dim)

    @property
    def label(self) -> str:
        return f"load {self.dim}"


def lookups_of(plan: Plan) -> tuple[list[Load | Define], Plan]:
    """What is looked up and defined at the top of a plan, and the plan inside."""
    lookups: list[Load | Define] = []
    while isinstance(plan, Load | Define):
        lookups.append(plan)
        plan = plan.body
    return lookups, plan


@dataclass(frozen=True, slots=True)
class Guard(Nested):
    """`exits`: where the conditions do not hold, they do not hold later in the loop around it either, which ends."""

    conditions: tuple[Formula, ...]
    body: Plan
    because: str = ""
    exits: bool = False

    def computed(self) -> Iterator[RangeStep]:
        yield RangeStep(tuple(compared(self.conditions)))

    @property
    def label(self) -> str:
        return f"if {show_conditions(self.conditions)}{', else the loop ends' if self.exits else ''}"


@dataclass(frozen=True, slots=True)
class LevelLoop(Nested):
    """A loop whose iterations need earlier ones: `inspect`, run for each, says which. With the levels that come of it
    those of one level run at once; without, one after another, downwards if `down`. The levels are used when they are
    expected to be faster, and prove to be, or when the schedule asks for them (`wanted`). `first` is what an iteration
    reads or stores first in each array, as far as `dim` and a pointer array say where that is."""

    dim: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    body: Plan
    inspect: Plan
    down: bool = False
    because: str = ""
    wanted: bool = False
    first: tuple[Call | Operand, ...] = ()

    def computed(self) -> Iterator[RangeStep]:
        yield RangeStep((), self.dim, self.low, self.high)

    @property
    def label(self) -> str:
        return f"levels of {self.dim} in {interval(self.low, self.high)}{', downwards' if self.down else ''}"

    def shown(self) -> Iterator[Inside]:
        yield Inside(self.inspect, "  inspect each:", 2)
        yield Inside(self.body, "  run each:", 2)

    @property
    def meaning(self) -> Plan | None:
        return Scan(self.dim, self.low, self.high, self.body)


@dataclass(frozen=True, slots=True)
class Needs(Plan):
    """This iteration needs the iteration `value` of the levels around it."""

    value: Expr

    def computed(self) -> Iterator[RangeStep]:
        yield RangeStep((self.value,))

    @property
    def label(self) -> str:
        return f"after {show(self.value)}"


@dataclass(frozen=True, slots=True)
class Prefetch(Nested):
    """What iteration `dim` + `ahead` will read of `arrays` at its first `position`, which is `start`, is fetched, if
    there is such an iteration: one below all of `high`."""

    DEEPER = 0

    dim: str
    ahead: int
    high: tuple[Expr, ...]
    position: str
    start: Expr
    arrays: tuple[Call | Operand, ...]
    body: Plan

    @property
    def label(self) -> str:
        return f"fetch from {self.position} = {show(self.start)} on, for {self.dim} + {self.ahead}"

    @property
    def meaning(self) -> Plan | None:
        return self.body


@dataclass(frozen=True, slots=True)
class Transpose(Nested):
    """The array of `operand` is copied to one in which its subscript `axis` is the last, the fastest-running one; the
    body reads it as `copy`."""

    DEEPER = 0

    operand: Operand
    axis: int
    copy: Operand
    body: Plan
    because: str = ""

    @property
    def label(self) -> str:
        return f"copy {show_operand(self.operand)} to {show_operand(self.copy)}"

    @property
    def meaning(self) -> Plan | None:
        operand, copy = self.operand, self.copy
        order = [k for k in range(len(operand.place)) if k != self.axis] + [self.axis]

        def rule(node: object) -> Operand | None:
            if not isinstance(node, Operand) or (node.tensor, node.array) != (copy.tensor, copy.array):
                return None
            place = tuple(p for _, p in sorted(zip(order, node.place, strict=True), key=lambda item: item[0]))
            return replace(node, array=operand.array, place=place, extents=operand.extents)

        result: Plan = rewrite(rule, self.body)
        return result

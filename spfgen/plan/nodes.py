"""IR 3: in what order the points run, and how each dimension is found.

    Plan ::= Seq(parts)            one after another
           | Clear(tensor)         all values of an output become 0, or those that a nest of loops goes through
           | Scan(dim, low, high)  dim runs over max(low) <= dim < min(high)
           | Locate(dim, value)    dim has one value, computed
           | Load(dim, call)       dim is read from an index array
           | Guard(conditions)     the body runs where they hold
           | Find(dim, low, high, loads, conditions, algorithm, hit, miss)
           | Segment(start, end)   the positions of one key lie side by side, in [start, end)
           | Bound(name)           the first position from which on a sorted index array holds a value or one behind it
           | Reach(dim, low, high)  the body runs if a sorted index array has values there that lie within bounds
           | State(name)           where a find by sequential iteration stands, kept over the loops inside
           | Table(name)           where each value of an index array stands, for the finds inside
           | Prefetch(dim)         the beginning of a later iteration's segment is fetched
           | Accumulate(target, op, body, storage) what the body adds to the target is kept in an accumulator
           | Levels(dim, low, high, body, inspect) dim runs level by level, where the inspector finds levels
           | Needs(value)          this iteration of the levels needs that one
           | Transpose(operand, copy, body)  a copy of an operand in another order, which the body reads
           | UnrollAndJam(start, several, body)  several neighbouring iterations of a loop at once, then what is left
           | Versions(versions)    one of several plans that do the same: the first whose predicate holds in the call
           | Do(target, value)     one value is added to (or stored in) the target
           | Append(tensor, coordinates, value) one entry of a result whose pattern is computed is delivered
           | Gather(tensor, body)  what the body appends, each coordinate once and in order
           | Block(parts)          statements of one scope, one after another
           | Define(dim, value)    dim has one value in the rest of the block
           | Let(name, type, value) a scalar for the rest of the block
           | Assign(name, value)   the scalar has another value
           | Store(target, value)  one value is stored
           | If(condition, then, otherwise)
           | Repeat(body)          until something in it breaks
           | Break()               the innermost loop ends
           | Array(name, type, extents, fill)   memory of the kernel, all of it `fill`
           | Refuse(name)          the call fails if the scalar is true
           | Collect(name, body)   entries in a hash table
           | Entry(name, at, value) one of them
           | Emptied(name)         the table has none any more
           | Probe(dim, name, at)  dim is the entry at these coordinates, or -1

Expressions are those of facts/formula.py over dimension names. Every decision says why in `because`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from spfgen.facts.formula import ONE, ZERO, Bin, Call, Expr, Formula, Num
from spfgen.facts.reach import Step, compared
from spfgen.ir import walk
from spfgen.layout.nodes import ENTRIES
from spfgen.space.nodes import Operand, Read, Value


class Plan:
    """What may stand in a plan. A node says itself what it has inside and what it computes; what it means is said in
    meaning.py and interpret.py, how it is shown in show.py, and its C in cir/."""

    __slots__ = ()

    @property
    def inner(self) -> Plan | None:
        """The one plan inside: for a find what runs at a hit, for versions the last one; None for a leaf or a
        branching."""
        return None

    def with_inner(self, inner: Plan) -> Plan:
        """The same node with another plan inside."""
        raise TypeError(f"{type(self).__name__} has no one plan inside")

    def computed(self) -> Iterator[Step]:
        """The integers that the node computes for itself, in its order, with the names that it binds to them."""
        return iter(())


class Nested(Plan):
    """A node with one body inside."""

    __slots__ = ()
    body: Any

    @property
    def inner(self) -> Plan | None:
        found: Plan | None = self.body
        return found

    def with_inner(self, inner: Plan) -> Plan:
        return replace(self, body=inner)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class Seq(Plan):
    parts: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class Clear(Nested):
    """All values of an output become zero; or those that the nest `part` goes through, and then `body` runs.
    `additions`: how many there are to all places, where that is known."""

    tensor: str
    because: str = ""
    part: Plan | None = None
    body: Plan | None = None
    additions: Expr | None = None


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
    because: str = "many short segments, more than caches hold: what comes later is fetched"
    name: str = "far"


@dataclass(frozen=True, slots=True)
class UnrollWhen:
    """A loop over segments is unrolled by four where the `rows` segments are `long`, or samples of where
    they begin (`begins` is the first element of that array, if there is one) say that neighbours are about as long;
    else the four are guarded: any may be the last. `very_short`: then nearly all have to be of one length."""

    long: Formula
    begins: Call | None
    rows: Expr
    very_short: Formula


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
class Partition:
    """How a parallel loop runs on several threads, and what is known of its work.

    `weight` is what an iteration costs, where an array tells; `uneven`: iterations differ, but no array tells.
    `adds` says how threads add to one place: not at all (""), all into one variable ("sum"), to copies of the target
    ("copies", or atomic additions where `atomic` and the copies would be too large), or place after place in order, so
    that two threads meet at one place only where a part ends ("segments"). `row` is the loop inside that is split where
    one iteration takes long; `slice` are the places of one key: those of an iteration that two threads share, where
    both add to them. `work` is how long the loop takes in nanoseconds (None: not known), and `additions` how many there
    are to places in memory.
    `fixed`: the parts do not depend on the number of threads. `clears` is the target, where it is to be cleared and
    threads do so as they clear their copies of it.
    """

    work: Expr | None
    weight: Weight | None = None
    uneven: bool = False
    adds: str = ""
    atomic: bool = False
    slice: Slice | None = None
    row: str = ""
    fixed: bool = False
    clears: str = ""
    additions: Expr | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """An array of `extents`, the target's, of which each part of a loop has a copy that starts with `neutral` values;
    after the loop the copies are combined with it, place by place, by the operator."""

    target: Operand
    type: str
    neutral: Any
    operator: Any


ACROSS, IN_TURN, SEVERAL = "to a vector of partial sums", "to partial sums in turn", "to a vector of sums for each"
LEFT, FEW_LEFT = "to partial sums, the last ones in order", "to a sum of its own"
"""How a loop adds up (transform/partial_sums.py)."""


@dataclass(frozen=True, slots=True)
class Scan(Nested):
    """A loop. `partition` says how it runs on threads when it is `parallel`. `held` are the labels of accesses whose
    values may be read above the loop: they lie within their arrays even where it has no iteration. `ahead` is what is
    fetched ahead in it. `vector`: its iterations run side by side; `unroll`: so many in each round; `collapse`: it and
    the loops directly inside, so many together, are shared out as one (1: it is one of those inside); `down`: it runs
    downwards; `segment_keys`: while these calls stay the same, so does the place of the target, and what is added to it
    is summed first; `chained`: index arrays say which earlier iterations one needs; `unroll_when`: when it is unrolled
    by four; `partial`: how it adds to sums, in partial ones, if it only does that. Each part of a parallel loop has
    scalars of its own, `private`, that its iterations change; after the loop
    `combined` runs once for each part, in order, and knows what the scalars of the part hold. `copies` are arrays that
    it only updates, of which parts have copies. `between`: each part clears what lies between the places of its
    iterations, before they run; the first of them and the one behind the last are `ends_of_part`."""

    dim: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    body: Plan
    parallel: bool = False
    because: str = ""
    held: tuple[str, ...] = ()
    vector: bool = False
    unroll: int = 0
    collapse: int = 0
    down: bool = False
    ahead: Ahead | None = None
    partition: Partition | None = None
    segment_keys: tuple[Call, ...] = ()
    chained: bool = False
    unroll_when: UnrollWhen | None = None
    private: tuple[Let, ...] = ()
    combined: Plan | None = None
    copies: tuple[Copy, ...] = ()
    partial: str = ""
    between: Clear | None = None

    @property
    def ends_of_part(self) -> tuple[str, str]:
        """What `between` calls the first iteration of a part, and the one behind its last."""
        return f"{self.dim}_first", f"{self.dim}_past"

    def computed(self) -> Iterator[Step]:
        yield Step((), self.dim, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Locate(Nested):
    dim: str
    value: Expr
    body: Plan
    because: str = ""

    def computed(self) -> Iterator[Step]:
        yield Step((self.value,), self.dim)


@dataclass(frozen=True, slots=True)
class Load(Nested):
    dim: str
    call: Call
    body: Plan

    def computed(self) -> Iterator[Step]:
        yield Step((self.call,), self.dim)


@dataclass(frozen=True, slots=True)
class Guard(Nested):
    """`exits`: where the conditions do not hold, they do not hold later in the loop around it either, which ends."""

    conditions: tuple[Formula, ...]
    body: Plan
    because: str = ""
    exits: bool = False

    def computed(self) -> Iterator[Step]:
        yield Step(tuple(compared(self.conditions)))


@dataclass(frozen=True, slots=True)
class Loaded:
    """A call that a find loads at each position; unpacks to (dimension, call)."""

    dim: str
    call: Call

    def __iter__(self) -> Iterator[Any]:
        yield self.dim
        yield self.call


@dataclass(frozen=True, slots=True)
class Key:
    """What a find looks for: the loaded call `dim` equals `value`.

    `descending`: the array falls along the positions (else it rises); `unique`: no two positions hold one value;
    `backward`: a sequential find runs from the end to the start; `inside`: the value is known to be one that a table
    has a place for.
    """

    dim: str
    value: Expr
    descending: bool = False
    unique: bool = False
    backward: bool = False
    inside: bool = True


@dataclass(frozen=True, slots=True)
class Rejected:
    """An algorithm that was not taken, and why."""

    algorithm: str
    why: str


@dataclass(frozen=True, slots=True)
class Find(Plan):
    """The positions `dim` in [low, high) at which the loaded calls satisfy the key and the conditions.

    `hit` runs for each of them; `miss` (when it is there) runs once if there is none. Without a key (the plain loop)
    the conditions say everything. `given` holds of every position in [low, high) because a segment says so. `place`
    names the state or the table that the algorithm uses; `at` are the subscripts of that state here.
    `rejected` are the algorithms that were not taken. `held` as for a Scan.
    """

    dim: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    loads: tuple[Loaded, ...]
    conditions: tuple[Formula, ...]
    algorithm: str
    hit: Plan
    miss: Plan | None = None
    parallel: bool = False
    because: str = ""
    key: Key | None = None
    given: tuple[Formula, ...] = ()
    place: str = ""
    at: tuple[Expr, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    partition: Partition | None = None
    held: tuple[str, ...] = ()

    def calls(self) -> dict[str, Call]:
        """The loaded calls by their dimensions."""
        return {loaded.dim: loaded.call for loaded in self.loads}

    @property
    def inner(self) -> Plan:
        return self.hit

    def with_inner(self, inner: Plan) -> Plan:
        return replace(self, hit=inner)

    def computed(self) -> Iterator[Step]:
        yield Step((() if self.key is None else (self.key.value,)) + self.at)
        yield Step((), self.dim, self.low, self.high)
        yield from (Step((loaded.call,), loaded.dim) for loaded in self.loads)
        yield Step(tuple(compared(self.conditions)))


@dataclass(frozen=True, slots=True)
class Segment(Nested):
    """`start` and `end` bound the positions `dim` of [low, high) at which `call` equals the key's value.

    The call is sorted there. Found by binary search, or from the state `place` on.
    """

    dim: str
    start: str
    end: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    call: Call
    key: Key
    algorithm: str
    body: Plan
    because: str = ""
    place: str = ""
    at: tuple[Expr, ...] = ()
    rejected: tuple[Rejected, ...] = ()

    def computed(self) -> Iterator[Step]:
        yield Step((self.key.value, *self.at))
        yield from (Step((), n, self.low, self.high, end=n != self.dim) for n in (self.dim, self.start, self.end))
        yield Step((self.call,))


@dataclass(frozen=True, slots=True)
class Bound(Nested):
    """`name` is the first position `dim` of [low, high) at which `call`, which rises there (falls: `descending`), is no
    longer before `value`; the end when there is none. `condition` holds of all positions on the side that is taken.

    Found by a search, which begins at the first position where it is `near`, or in the table `place`; `inside`: the
    value is one that the table has a place for.
    """

    name: str
    dim: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    call: Call
    value: Expr
    descending: bool
    condition: Formula
    body: Plan
    because: str = ""
    place: str = ""
    inside: bool = False
    near: bool = False

    def computed(self) -> Iterator[Step]:
        yield from (Step((), n, self.low, self.high, end=n != self.dim) for n in (self.dim, self.name))
        yield Step((self.call, self.value))


@dataclass(frozen=True, slots=True)
class Reach(Nested):
    """The body runs if the values that `call` holds at the positions `dim` of [low, high) reach into [first, last): the
    first and the last of them say so, since it rises there (falls: `descending`)."""

    dim: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    call: Call
    first: Expr
    last: Expr
    descending: bool
    body: Plan
    because: str = ""

    def computed(self) -> Iterator[Step]:
        yield Step((), self.dim, self.low, self.high)
        yield Step((self.call, self.first, self.last))


@dataclass(frozen=True, slots=True)
class State(Nested):
    """A position that a sequential find keeps from one iteration of the loops inside to the next.

    One for each value of `over` (none: a scalar). With `extents` it is an array over those values; without, it starts
    anew whenever they change. It starts at `low` (`high` when it runs backwards), or by a search at its first use
    when `low` is empty.
    """

    name: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    backward: bool
    over: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    body: Plan
    because: str = ""

    def computed(self) -> Iterator[Step]:
        yield Step((*self.low, *self.high, *self.over, *self.extents, product(self.extents)))


@dataclass(frozen=True, slots=True)
class Table(Nested):
    """An index of the positions `dim` in [low, high) by what `calls` hold there, built here and used inside.

    `extent`: the values of the call lie in [0, extent). `order` says how positions of one key are kept: "unique" (at
    most one), "side by side", or "chained"; an inverse array keeps the "first" whose key is no longer below. `rising`
    says that the keys rise: so it is wherever a find asks the table, not where none ever does. `values` is the operand
    that a scatter copies.
    """

    name: str
    kind: str
    dim: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    call: Call
    extent: Expr
    order: str
    body: Plan
    values: Operand | None = None
    rising: bool = False
    because: str = ""

    def computed(self) -> Iterator[Step]:
        yield Step((), self.dim, self.low, self.high)
        yield Step((self.call, self.extent))


@dataclass(frozen=True, slots=True)
class Prefetch(Nested):
    """What iteration `dim` + `ahead` will read of `arrays` at its first `position`, which is `start`, is fetched, if
    there is such an iteration: one below all of `high`."""

    dim: str
    ahead: int
    high: tuple[Expr, ...]
    position: str
    start: Expr
    arrays: tuple[Call | Operand, ...]
    body: Plan


@dataclass(frozen=True, slots=True)
class Cheapest:
    """That no other version is expected to take less time: `cost` is a formula in the sizes, in nanoseconds
    (plan/analyse/cost.py)."""

    cost: Expr


@dataclass(frozen=True, slots=True)
class Version:
    """A plan and its predicate: that it is the cheapest, or that all of these conditions hold. Where they do it is
    known how often loops run, or what they would ask. `by_order`: Z3 has proved from the order of an index array that
    it does the same as the others, which cannot be told from the points alone (verify/meaning.py)."""

    when: tuple[Formula, ...] | Cheapest
    body: Plan
    because: str = ""
    by_order: bool = False

    @property
    def cost(self) -> Expr:
        """What it costs, if that decides."""
        assert isinstance(self.when, Cheapest)
        return self.when.cost


@dataclass(frozen=True, slots=True)
class Versions(Plan):
    """The first version whose predicate holds runs. The last one is right whatever holds."""

    versions: tuple[Version, ...]
    because: str = ""

    @property
    def by_cost(self) -> bool:
        """Whether costs decide, not conditions."""
        return isinstance(self.versions[0].when, Cheapest)

    @property
    def inner(self) -> Plan | None:
        return None if self.by_cost else self.versions[-1].body

    def with_inner(self, inner: Plan) -> Plan:
        *others, last = self.versions
        return replace(self, versions=(*others, replace(last, body=inner)))

    def computed(self) -> Iterator[Step]:
        for version in self.versions:
            if not isinstance(version.when, Cheapest):
                yield Step(tuple(compared(version.when)))


def specialised(when: tuple[Formula, ...], special: Plan, plan: Plan, because: str, by_order: bool = False) -> Versions:
    """A special version where the conditions hold, beside the plan."""
    return Versions((Version(when, special, because, by_order), Version((), plan)))


@dataclass(frozen=True, slots=True)
class Variable:
    """The accumulator is a scalar variable."""


@dataclass(frozen=True, slots=True)
class Registers:
    """It has a place for each 0 <= dim < `count`, a number, so that compilers keep it in registers: the body adds to
    (dim) of `added`. Those for dim < min(high) are stored; the target is in terms of `dim` and of the dimensions
    outside."""

    dim: str
    count: int
    high: tuple[Expr, ...]
    added: Operand


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """It has the places of a tile of max(low) <= dim < min(high), the fastest-running subscript of the target, and the
    body runs once for each tile, from `start` to before `end`, names that the loop over `dim` in it speaks of. A tile
    is `width` wide, a power of two, or half, a quarter, ... of it where no more is left. What lies `ahead` places
    further is fetched, to be stored soon, if `when` holds. `in_pieces`: all tiles take a few iterations of the loop
    inside, then the next few; between two pieces the sums are where they are stored in the end."""

    dim: str
    start: str
    end: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    width: int
    ahead: Expr | None = None
    when: Formula | None = None
    in_pieces: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """It has the places of the target's extents, an array for each thread."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """It has all places of the target, an array for all threads."""


Storage = Variable | Registers | RegisterTile | Row | Workspace
VARIABLE = Variable()


@dataclass(frozen=True, slots=True)
class Accumulate(Nested):
    """What the body adds to `target` goes to an accumulator that starts at 0, and comes to its place with `op` (= or
    +=) when the body is through. A temporary has no place besides (no `op`): later parts of the body read it. With
    `start` it starts at this value, and what is added is taken off it."""

    target: Operand
    op: str
    body: Plan
    storage: Storage = VARIABLE
    because: str = ""
    start: Value | None = None

    def computed(self) -> Iterator[Step]:
        match self.storage:
            case Workspace():
                yield Step((product(self.target.extents),))
            case Registers(dim, count, high):
                yield Step(high)
                yield Step((), dim, (ZERO,), (Num(count),))
            case RegisterTile(dim, start, end, low, high):
                yield from (Step((), n, low, high, end=n != dim) for n in (dim, start, end))


@dataclass(frozen=True, slots=True)
class Levels(Nested):
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

    def computed(self) -> Iterator[Step]:
        yield Step((), self.dim, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Needs(Plan):
    """This iteration needs the iteration `value` of the levels around it."""

    value: Expr

    def computed(self) -> Iterator[Step]:
        yield Step((self.value,))


@dataclass(frozen=True, slots=True)
class Transpose(Nested):
    """The array of `operand` is copied to one in which its subscript `axis` is the last, the fastest-running one; the
    body reads it as `copy`."""

    operand: Operand
    axis: int
    copy: Operand
    body: Plan
    because: str = ""


@dataclass(frozen=True, slots=True)
class UnrollAndJam(Nested):
    """A loop from max(low) to before min(high), `count` iterations at once while there are so many: `several` does
    those from `start` on, a name. The body is the loop over what is left, which begins at `start` too."""

    start: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    count: int
    several: Plan
    body: Plan
    because: str = ""

    def computed(self) -> Iterator[Step]:
        yield Step((), self.start, self.low, self.high, end=True)


@dataclass(frozen=True, slots=True)
class Do(Plan):
    target: Operand
    op: str
    value: Value
    because: str = ""

    def computed(self) -> Iterator[Step]:
        yield Step(tuple(e for o in (self.target, *operands_read(self.value)) for e in o.place))


@dataclass(frozen=True, slots=True)
class Append(Plan):
    """The tensor gets an entry with this value at these coordinates, in any order; entries at one place add up when the
    tensor is packed. A leaf, as Do is, of a tensor that the program has as a list of entries. With `last` it gets an
    entry for each value of the coordinate number `axis` from the one given to this one."""

    tensor: str
    coordinates: tuple[Expr, ...]
    value: Any
    because: str = ""
    last: Expr | None = None
    axis: int = 0

    @property
    def as_do(self) -> Do:
        """What it means: the value is added at the coordinates of a tensor that is 0 before."""
        target = Operand(self.tensor, self.tensor, ENTRIES, self.coordinates, (), (), self.coordinates, False)
        return Do(target, "+=", self.value, self.because)

    def computed(self) -> Iterator[Step]:
        last = () if self.last is None else (self.last,)
        yield Step((*self.coordinates, *last, *(e for o in operands_read(self.value) for e in o.place)))


@dataclass(frozen=True, slots=True)
class Gather(Nested):
    """What the body appends to the tensor has all coordinates but that of `axis` in `common`: it is added up in a
    workspace, and appended once, by rising coordinates along the axis, which are below `extent`."""

    tensor: str
    axis: int
    common: tuple[Expr, ...]
    extent: Expr
    body: Plan
    because: str = ""

    def computed(self) -> Iterator[Step]:
        yield Step((*self.common, self.extent))


@dataclass(frozen=True, slots=True)
class Block(Plan):
    """Statements one after another; what one of them defines is known in those that follow."""

    parts: tuple[Plan, ...]
    because: str = ""


@dataclass(frozen=True, slots=True)
class Define(Plan):
    """`dim` is the integer `value` in the rest of the block."""

    dim: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Let(Plan):
    """A scalar variable of an element type, in the rest of the block."""

    name: str
    type: str
    value: Any
    because: str = ""


@dataclass(frozen=True, slots=True)
class Assign(Plan):
    """The scalar `name` gets the value."""

    name: str
    type: str
    value: Any


@dataclass(frozen=True, slots=True)
class Store(Plan):
    """The value becomes that of a place, converted to its type."""

    target: Operand
    value: Any
    because: str = ""


@dataclass(frozen=True, slots=True)
class If(Plan):
    """`condition` is a value; what is not 0 is true."""

    condition: Any
    then: Plan
    otherwise: Plan | None = None
    because: str = ""


@dataclass(frozen=True, slots=True)
class Repeat(Plan):
    """The body again and again, until it breaks."""

    body: Plan
    because: str = ""


@dataclass(frozen=True, slots=True)
class Break(Plan):
    """The innermost loop ends."""


@dataclass(frozen=True, slots=True)
class Array(Plan):
    """The values of a tensor that the kernel has for itself, as long as it runs: each of them is `fill` at first."""

    name: str
    type: str
    extents: tuple[Expr, ...]
    fill: Any = None
    because: str = ""

    def computed(self) -> Iterator[Step]:
        yield Step((product(self.extents),))


@dataclass(frozen=True, slots=True)
class Refuse(Plan):
    """The kernel ends with an error if the scalar is true. `status` is RANGE: a place that is a value lay outside of
    its tensor; or PLACE: something was computed that has no place in its target."""

    name: str
    status: str


@dataclass(frozen=True, slots=True)
class Collect(Plan):
    """The entries that the body makes are kept in a hash table, under the name of a tensor: one at each coordinate
    within the extents. With an empty body it begins empty, and entries come and go."""

    name: str
    type: str
    extents: tuple[Expr, ...]
    body: Plan
    because: str = ""


@dataclass(frozen=True, slots=True)
class Entry(Plan):
    """The entry `at` these coordinates of the table of that name gets a value, which may be made of the one that it
    had, the scalar `old`: `fill` where there was none."""

    name: str
    type: str
    at: tuple[Expr, ...]
    value: Any
    old: str
    fill: Any


@dataclass(frozen=True, slots=True)
class Emptied(Plan):
    """The table has no entries any more."""

    name: str


@dataclass(frozen=True, slots=True)
class Probe(Plan):
    """`dim` is the entry of a table at these coordinates, or -1, in the rest of the block."""

    dim: str
    name: str
    at: tuple[Expr, ...]


def product(extents: Iterable[Expr]) -> Expr:
    """How many places an array of these extents has."""
    result: Expr = ONE
    for extent in extents:
        result = Bin("*", result, extent)
    return result


def operands_read(value: Value) -> list[Operand]:
    """What a value reads, in its order."""
    return [n.operand for n in walk(value) if isinstance(n, Read)]


STATEMENTS = (
    Block | Define | Let | Assign | Store | If | Repeat | Break | Array | Refuse | Collect | Entry | Emptied | Probe
)
"""The statements of steps: what is lowered and carried out beside the nests."""
PLANS = Plan | Version
"""What plans consist of, but for their expressions: `walk` and `rewrite` pass these over when told so."""


def is_sum(node: object) -> TypeGuard[Accumulate]:
    """Whether it is the sum of one place, in a variable."""
    return isinstance(node, Accumulate) and bool(node.op) and isinstance(node.storage, Variable)


def is_tile(node: object) -> TypeGuard[Accumulate]:
    """Whether it is sums in register tiles."""
    return isinstance(node, Accumulate) and isinstance(node.storage, RegisterTile)


def is_temporary(node: object) -> TypeGuard[Accumulate]:
    """Whether it is an accumulator that the body itself reads."""
    return isinstance(node, Accumulate) and not node.op


def body(plan: Plan) -> Plan | None:
    """What a node has inside, if that is one plan."""
    return plan.inner


def with_body(plan: Plan, inner: Plan) -> Plan:
    """The node with something else inside."""
    return plan.with_inner(inner)


def chain(plan: Plan) -> Iterator[Plan]:
    """The nodes of a nest from the outside in."""
    node: Plan | None = plan
    while node is not None:
        yield node
        node = body(node)

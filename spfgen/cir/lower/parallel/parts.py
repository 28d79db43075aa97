"""The parts of a loop that threads take: how many, where each begins and ends, memory for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from spfgen import tuning
from spfgen.cir.lower.cost import cost_expr
from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.lower.workspaces import WorkspaceArray
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import INT
from spfgen.facts.formula import ONE, Num, Var
from spfgen.plan.nodes import Find, Partition, Plan, Scan, Store, Weight, chain
from spfgen.space.nodes import Monoid, Operand

THREADS = c.Name("threads")
Loop = Scan | Find


@dataclass
class Parts:
    """A loop over parts: where each begins and ends."""

    low: Lowering
    plan: Loop
    outside: Scope
    count: c.Expr
    pragma: str
    cost: c.Name | None = None

    def __post_init__(self) -> None:
        low, plan = self.low, self.plan
        names = low.names
        name = names[plan.dim]
        self.part = c.Name(names.new("part"))
        self.start, self.stop = c.Name(names.new(f"{name}_begin")), c.Name(names.new(f"{name}_end"))
        self.name = name
        self.bottom = low.fold("spfgen_max", plan.low, self.outside)
        self.top = low.fold("spfgen_min", plan.high, self.outside)
        self.following = c.Bin("+", self.part, c.Int(1))
        thread = self.part if self.pragma != openmp.IN_TURN else openmp.HERE
        self.states, self.scope = low.started(replace(self.outside, thread=thread, looped=True))

    @property
    def bounds(self) -> list[c.Stmt]:
        """Where the part begins and ends."""
        kind = f"const {INT}"
        return [
            c.Declare(kind, self.start.name, self.begin(self.part)),
            c.Declare(kind, self.stop.name, self.begin(self.following)),
        ]

    def alone(self, scope: Scope | None = None) -> list[c.Stmt]:
        """The iterations of one part."""
        return [*self.states, *self.between(self.start, self.stop, scope or self.scope)]

    def between(self, start: c.Name, stop: c.Name, scope: Scope) -> list[c.Stmt]:
        """The iterations from one variable to another."""
        return self.low.plan(between(self.low, self.plan, start, stop), scope)

    @property
    def weight(self) -> Weight | None:
        """What an iteration costs, where an array tells."""
        return None if self.plan.partition is None else self.plan.partition.weight

    def comment(self, split: str = "") -> c.Stmt:
        """How iterations are divided; `split` is the loop of which several threads share an iteration that is long."""
        weight = self.weight
        if weight is None:
            return c.Comment("the iterations in equal parts")
        text = f"work partition: parts of about the same number of entries, by {self.array(weight.pointer)[0].name}"
        if weight.deeper:
            text += f", measured by {self.array(weight.deeper[-1])[0].name}"
        return c.Comment(f"{text}; a long {split} is split" if split else text)

    def array(self, function: str) -> tuple[c.Name, str]:
        """An index array and its type."""
        tensor, array = function.split(".", 1)
        self.low.arrays[function] = None
        kind = dict(self.low.program.tensor(tensor).index_types)[array]
        return c.Name(self.low.array_names[tensor, array]), kind

    def begin(self, part: c.Expr) -> c.Expr:
        """Where a part begins."""
        weight = self.weight
        if weight is None:
            return c.Call("spfgen_part", (self.bottom, self.top, part, self.count))
        array, kind = self.array(weight.pointer)
        if not weight.deeper:
            arguments = (array, self.bottom, self.top, self.each(), part, self.count)
            return c.Call(f"spfgen_partition_{kind}", arguments)
        position = self.position(part)
        return c.Call(f"spfgen_outer_{kind}", (array, self.bottom, self.top, position, part, self.count))

    def split(self, part: c.Expr, at: c.Name) -> c.Expr:
        """The same; the part may begin within an iteration, at `at`."""
        weight = self.weight
        assert weight is not None
        array, kind = self.array(weight.pointer)
        place = c.Un("&", at)
        if not weight.deeper:
            arguments = (array, self.bottom, self.top, self.each(), part, self.count, place)
            return c.Call(f"spfgen_split_{kind}", arguments)
        position = self.position(part)
        return c.Call(f"spfgen_outer_split_{kind}", (array, self.bottom, self.top, position, part, self.count, place))

    def within(self, at: c.Name, end: c.Name, past: c.Name, goes_on: c.Expr, then: str = "") -> list[c.Stmt]:
        """Where the part begins and ends, within an iteration each; `past` is behind the last one it has any of."""
        return [
            c.Declare(INT, at.name),
            c.Declare(INT, end.name),
            c.Declare(f"const {INT}", self.start.name, self.split(self.part, at)),
            c.Declare(f"const {INT}", self.stop.name, self.split(self.following, end)),
            c.Comment(f"the last {self.name} may go on in the next part{then}"),
            c.Declare(f"const {INT}", past.name, c.Select(goes_on, c.Bin("+", self.stop, c.Int(1)), self.stop)),
        ]

    def position(self, part: c.Expr) -> c.Expr:
        """Where a part begins among the positions of the loop inside, by the lengths of the loops in that."""
        weight = self.weight
        assert weight is not None
        functions = (weight.pointer, *weight.deeper)
        ends = [(self.bottom, self.top)]
        for function in functions[:-1]:
            array, _ = self.array(function)
            ends.append((c.Load(array, ends[-1][0]), c.Load(array, ends[-1][1])))
        array, kind = self.array(functions[-1])
        begin: c.Expr = c.Call(f"spfgen_partition_{kind}", (array, *ends[-1], c.Int(1), part, self.count))
        for function, (bottom, top) in zip(functions[-2:0:-1], ends[-2:0:-1], strict=True):
            array, kind = self.array(function)
            begin = c.Call(f"spfgen_outer_{kind}", (array, bottom, top, begin, part, self.count))
        return begin

    def each(self) -> c.Expr:
        weight = self.weight
        assert weight is not None
        if isinstance(weight.each, Num):
            return c.Int(weight.each.value)
        if self.cost is None:
            value = c.Cast(INT, cost_expr(weight.each, self.low, self.outside))
            comment = "what an iteration clears, in iterations of the loop inside"
            self.cost = self.low.chosen(f"const {INT}", f"{self.name}_cost", value, comment)
        return self.cost

    def loop(self, body: list[c.Stmt]) -> list[c.Stmt]:
        more, lines = c.Bin("<", self.part, self.count), c.Block(tuple(body))
        return [c.For("int", self.part.name, c.Int(0), more, 1, lines, (self.pragma,))]


def between(low: Lowering, plan: Loop, start: c.Name, stop: c.Name) -> Loop:
    """The loop from one variable to another, on one thread."""
    if isinstance(plan, Scan):
        plan = replace(plan, private=(), combined=None)
    return replace(
        plan, low=(variable(low, start),), high=(variable(low, stop),), parallel=False, because="", partition=None
    )


def variable(low: Lowering, name: c.Name) -> Var:
    """A variable of the C in expressions of the plan."""
    low.names.table[f"@{name.name}"] = name.name
    return Var(f"@{name.name}")


def taken(partition: Partition) -> str:
    """How threads take parts: in turn, or one each."""
    return openmp.IN_TURN if partition.in_turn else openmp.one_each(THREADS.name)


def number_of_parts(low: Lowering, partition: Partition, scope: Scope, most: int = tuning.FIXED_PARTS) -> c.Expr:
    """How many parts there are."""
    if not partition.fixed and not partition.in_turn:
        return THREADS
    if not partition.fixed:
        several: c.Expr = c.Select(
            c.Bin(">", THREADS, c.Int(1)), c.Bin("*", c.Int(tuning.CHUNKS_PER_THREAD), THREADS), c.Int(1)
        )
        if partition.work is not None:
            several = c.Call(
                "spfgen_chunks", (THREADS, cost_expr(partition.work, low, scope), c.Int(tuning.CHUNKS_PER_THREAD))
            )
        comment = "more parts than threads: one that is done early takes another"
        return low.chosen("const int", "parts", several, comment)
    value = c.Call("spfgen_parts", (cost_expr(partition.work or ONE, low, scope), c.Int(most)))
    comment = "parts that do not depend on the number of threads: sums are always the same"
    return low.chosen("const int", "parts", value, comment)


def monoid_of(plan: Plan) -> Monoid | None:
    """How a nest combines values, if it does not add them."""
    return next((n.monoid for n in chain(plan) if isinstance(n, Store)), None)


def memory(low: Lowering, name: str, kind: str, count: c.Expr, scope: Scope, each_thread: bool = False) -> c.Name:
    """Memory that need not be cleared."""
    array = low.names.new(name)
    low.workspaces.append(WorkspaceArray(array, kind, count, each_thread=each_thread, cleared=False, when=scope.when))
    return c.Name(array)


@contextmanager
def under_name(low: Lowering, target: Operand, name: str) -> Iterator[None]:
    """While this is open, stores to the target's array are printed with this name."""
    key = (target.tensor, target.array)
    before = low.array_names[key]
    low.array_names[key] = name
    try:
        yield
    finally:
        low.array_names[key] = before

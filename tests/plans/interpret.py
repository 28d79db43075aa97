"""Plans carried out over numpy arrays, slowly and obviously: what the nodes of a plan mean, for tests.

Each node does what nodes.py says of it, the optimised ones as the plain nests that they stand for: a position is found
by looking at all of them, a state and a table only check that what the find relies on holds. What a plan leaves open
is chosen by `Choices`. An error names the node whose claim does not hold on the data.

This knows no C, no sets and no prover.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from spfgen.facts.formula import (
    ONE,
    ZERO,
    And,
    Bin,
    Call,
    Compare,
    Expr,
    Formula,
    Not,
    Num,
    Or,
    Var,
    apply_operator,
    evaluate,
    variables,
)
from spfgen.ir import walk
from spfgen.lang.nodes import Apply, Constant
from spfgen.lang.ops import QUOTIENT, ufunc
from spfgen.lang.types import TYPES, promoted
from spfgen.layout.nodes import ENTRIES
from spfgen.layout.points import affine_value
from spfgen.plan.assemble.forms import Groups, form_of
from spfgen.plan.nodes import (
    PLANS,
    STATEMENTS,
    Accumulate,
    Append,
    BoundSearch,
    Cheapest,
    Clear,
    Define,
    Find,
    FindTable,
    Flatten,
    Guard,
    InPlace,
    Key,
    LevelLoop,
    Load,
    Needs,
    Partition,
    Plan,
    Prefetch,
    Products,
    Reach,
    Registers,
    RegisterTile,
    Row,
    RowWorkspace,
    Scan,
    SearchState,
    Segment,
    Store,
    Transpose,
    Variable,
    Version,
    Versions,
    Workspace,
    stores_in,
)
from spfgen.space.local_tensors import AT
from spfgen.space.nodes import Group, Monoid, Operand, Program, Read, Tensor, Value, size_values
from tests.plans import interpret_steps as steps
from tests.plans.effort import Effort
from tests.plans.memory import ADDED, CLEARED, STORED, Array, Memory, Number, Sums, Watch, Watches, WrongPlan

Env = Mapping[str, Any]
MOVING = frozenset({"sequential iteration", "galloping"})
"""Algorithms that keep a state."""
TABLES = frozenset({"hash map", "position array", "bitmap", "scatter"})
"""Those that look the key up in a table: all others need a sorted array."""


class Held(Protocol):
    """An operand: what its parameters and sizes are, and its arrays by name."""

    @property
    def sizes(self) -> Mapping[str, int]: ...

    @property
    def arrays(self) -> Mapping[str, Array]: ...


@dataclass(frozen=True)
class Choices:
    """What a plan leaves open: which `variant` runs (the last one, where there are not so many); with `special`, what
    is made for some data does its work where it may: whole blocks, copies without zeros, several iterations at once,
    levels, parts of a loop. Without, the plain nests do all of it."""

    variant: int = 0
    special: bool = True


def interpret(
    program: Program,
    plans: Sequence[Plan],
    operands: Mapping[str, Held],
    sizes: Mapping[str, int],
    choices: Choices = Choices(),
    effort: Effort | None = None,
) -> dict[str, dict[str, Array]]:
    """The value arrays of the outputs after the plans, one for each statement; nothing in `operands` is changed.
    `sizes` are those that a call passes. What the plans do is added to `effort`. The entries of a result whose pattern
    is computed are their values, under ENTRIES, and their coordinates, a row for each, under AT: for steps; for sums of
    products they are in a dense array. Raises WrongPlan, and DataError where a plan refuses the data."""
    all_products = all(isinstance(p, Products) for p in plans)
    return _Interpreter(program, operands, sizes, choices, effort or Effort(), all_products).run(plans)


@dataclass(eq=False)
class _Kept:
    """Where the finds of a state stand, by the values that it depends on, and within which bounds."""

    node: SearchState
    start: int | None
    at: dict[tuple[int, ...], tuple[int, tuple[Any, ...]]] = field(default_factory=dict)


@dataclass(eq=False)
class _Table:
    """A table as it was built: the positions of each key, and what is wrong with their order, if anything is."""

    node: FindTable
    extent: int
    positions: Mapping[int, list[int]]
    wrong: str


@dataclass(eq=False)
class _Variable:
    """A sum within a value, in a variable; `falling`: it holds what is left when sums are taken off it."""

    sums: Sums
    falling: bool


class _Interpreter:
    def __init__(
        self,
        program: Program,
        operands: Mapping[str, Held],
        sizes: Mapping[str, int],
        choices: Choices,
        effort: Effort,
        all_products: bool,
    ) -> None:
        self.program = program
        self.choices = choices
        self.effort = effort
        self.sizes = _sizes(program, operands, sizes)
        self.kinds = {t.name: TYPES[t.entry_type].name for t in (*program.tensors, *program.temporaries)}
        self.watches = Watches()
        self.memories: dict[tuple[str, str], Memory] = {}
        self.index: dict[str, Array] = {}
        self.sums: list[Sums] = []
        self.variables: dict[str, _Variable] = {}
        self.states: dict[str, _Kept] = {}
        self.tables: dict[str, _Table] = {}
        self.common: dict[str, tuple[RowWorkspace, tuple[int, ...]]] = {}
        self.needs: dict[int, set[int]] | None = None
        self.iteration = 0
        self.ended: list[dict[int, bool]] = []
        self.done = 0
        self.collected: dict[str, steps.Entries] = {}
        self.appended: dict[str, list[tuple[tuple[int, ...], Number]]] = {}
        self.delivered: set[str] = set()
        self.placed: set[str] = set()
        self.shared: dict[str, int] = {}
        self.owners: list[dict[str, int]] = []
        self.counted: list[tuple[int, ...]] | None = None
        self.counts = False
        self.products = False
        """Whether a sum of products runs: values are computed as those are."""
        for tensor in program.tensors:
            own = size_values(tensor, program.sizes.fixed)
            if tensor.assembled is not None and not all_products:
                self.appended[tensor.name] = []
                continue
            if tensor.assembled is not None:
                extents = [_extent(e, own, self.sizes) for e in tensor.layout.values[0].extents]
                values = np.zeros(extents, TYPES[tensor.entry_type].name)
                self.memories[tensor.name, ENTRIES] = Memory(f"{tensor.name}.{ENTRIES}", values)
                continue
            held = operands[tensor.name].arrays
            for index in tensor.layout.indexes:
                self.index[f"{tensor.name}.{index.name}"] = self.shaped(held[index.name], index.extents, own)
            for value in tensor.layout.values:
                name, values = f"{tensor.name}.{value.name}", self.shaped(held[value.name], value.extents, own)
                self.memories[tensor.name, value.name] = Memory(name, values.copy())

    def shaped(self, array: Array, extents: Sequence[Expr], own: Mapping[str, Expr]) -> Array:
        """The array with the extents that its layout says."""
        return np.asarray(array).reshape([_extent(e, own, self.sizes) for e in extents])

    # --- statements ------------------------------------------------------------------------------

    def run(self, plans: Sequence[Plan]) -> dict[str, dict[str, Array]]:
        with np.errstate(all="ignore"):
            for plan in plans:
                self.plan(plan, self.sizes)
        return {t.name: self.result(t) for t in self.program.tensors if t.is_output}

    def result(self, tensor: Tensor) -> dict[str, Array]:
        if tensor.name not in self.appended:
            return {v.name: self.memories[tensor.name, v.name].values for v in tensor.layout.values}
        entries = self.appended[tensor.name]
        at = np.array([a for a, _ in entries], np.int64).reshape(len(entries), tensor.layout.rank)
        return {AT: at, ENTRIES: np.array([v for _, v in entries], tensor.entry_type)}

    def statement(self, group: Group, plan: Plan, env: Env) -> None:
        """Where the target cannot hold what is added to it, the sums are made in a type that can, and cast at last."""
        own = self.kinds[group.target]
        dos = [n for n in stores_in(plan) if n.target.tensor == group.target]
        self.kinds[group.target] = _wide(own, [self.kind(d.value, own) for d in dos])
        targets = [m for (tensor, _), m in self.memories.items() if tensor == group.target]
        for memory in targets:
            memory.values = memory.values.astype(self.kinds[group.target])
            memory.begin(group.op == "=")
        self.plan(plan, env)
        for memory in targets:
            missed = memory.end()
            if missed is not None:
                raise WrongPlan(plan, f"{memory.name}{[*missed]} is neither cleared nor stored by `{group.text}`")
            memory.values = memory.values.astype(own)
        self.kinds[group.target] = own

    def plan(self, plan: Plan, env: Env) -> None:
        match plan:
            case Clear():
                self.clear(plan, env)
            case Scan():
                self.scan(plan, env)
            case Load(dim, call, body):
                self.plan(body, _bound(plan, env, dim, self.number(plan, call, env)))
            case Guard():
                self.guard(plan, env)
            case Find():
                self.find(plan, env)
            case Segment():
                self.segment(plan, env)
            case BoundSearch():
                self.bound(plan, env)
            case Reach():
                self.reach(plan, env)
            case SearchState(name, low, high, backward, body=body):
                bounds = high if backward else low
                start = self.fold(plan, bounds, env, min if backward else max) if bounds else None
                with _entry(self.states, name, _Kept(plan, start)):
                    self.plan(body, env)
            case FindTable():
                self.table(plan, env)
            case Prefetch(dim, ahead, high, _, start, body=body):
                if env[dim] + ahead < self.fold(plan, high, env, min):
                    self.number(plan, start, env)
                self.plan(body, env)
            case Versions(versions):
                self.plan(self.version(plan, versions, env).body, env)
            case Accumulate():
                self.accumulate(plan, env)
            case LevelLoop():
                self.levels(plan, env)
            case Needs(value):
                assert self.needs is not None
                self.needs.setdefault(self.iteration, set()).add(self.number(plan, value, env))
            case Transpose(operand, axis, copy, body):
                given = self.memories[operand.tensor, operand.array].values
                moved = np.moveaxis(given, axis, -1).copy()
                with self.made({(copy.tensor, copy.array): moved}):
                    self.plan(body, env)
            case RowWorkspace(body=body):
                self.gathered(plan, body, env)
            case InPlace():
                self.in_place(plan, env)
            case Append():
                self.append(plan, env)
            case Products(asked, body):
                self.kinds |= {t.name: t.value_type for t in asked.temporaries}
                self.products = True
                self.statement(asked.group, body, env)
                self.products = False
            case Store(op=op, monoid=monoid) if self.products or op == "+=" or monoid is not None:
                self.do(plan, env)
            case _ if isinstance(plan, STATEMENTS):
                steps.statement(self, plan, env)
            case _ if plan.meaning is not None:
                self.plan(plan.meaning, env)
            case _:
                raise WrongPlan(plan, "the interpreter does not know this node")

    # --- loops -----------------------------------------------------------------------------------

    def scan(self, plan: Scan, env: Env) -> None:
        if plan.partition is not None and plan.partition.clears:
            self.clear(Clear(plan.partition.clears), env)
        low, high = self.fold(plan, plan.low, env, max), self.fold(plan, plan.high, env, min)
        if plan.pieces and (low, high) != (0, sum(plan.pieces)):
            raise WrongPlan(plan, f"its pieces are {plan.pieces}, the loop runs from {low} to {high}")
        watches = _claims(plan, plan.parallel or plan.collapse == 1, plan.partition)
        if plan.vector:
            watches.append(Watch(plan, "vector", disjoint=False))
        between = plan.between if low < high else None
        ran: dict[tuple[int, ...], tuple[int, ...]] = {}
        for first, past in self.parts(low, high, between is not None or bool(plan.private or steps.copies_of(plan))):
            own = steps.private(self, plan, env, len(self.watches) + len(watches))
            copied = steps.copied(self, plan, len(self.watches) + len(watches))
            if between is not None and between.part is not None:
                self.clearing(between.part, {**env, **dict(zip(plan.ends_of_part, (first, past), strict=True))})
            values = range(first, past)
            with self.watched(watches), self.loop():
                for value in reversed(values) if plan.down else values:
                    self.effort.iterations += 1
                    inside = _bound(plan, own, plan.dim, value)
                    for watch in watches:
                        watch.starts(value)
                    if plan.parallel:
                        self.shared[plan.dim] = value
                    if plan.segment_keys:
                        self.one_place(plan, inside, ran)
                    if plan.flatten is not None:
                        self.in_order(plan, plan.flatten, inside)
                    self.plan(plan.body, inside)
            self.shared.pop(plan.dim, None)
            steps.joined(self, plan, copied)
            if plan.combined is not None:
                self.plan(plan.combined, own)

    def parts(self, low: int, high: int, apart: bool) -> list[tuple[int, int]]:
        """The loop as the threads may share it, where each clears what lies between the places of its part, or has
        scalars of its own."""
        middle = (low + high) // 2
        return [(low, middle), (middle, high)] if apart and self.choices.special else [(low, high)]

    def rises(self, plan: Plan, function: str, low: int, high: int) -> None:
        values = [self.load(plan, function, (i,)) for i in range(low, high + 1)] if low < high else []
        if any(a > b for a, b in pairwise(values)):
            raise WrongPlan(plan, f"{function} falls in {values}")

    def in_order(self, plan: Scan, flatten: Flatten, env: Env) -> None:
        """A segment does not end before it begins."""
        own = Var(plan.dim)
        ends = [self.number(plan, Call(flatten.pointer, (at,)), env) for at in (own, Bin("+", own, ONE))]
        if ends[0] > ends[1]:
            raise WrongPlan(plan, f"a segment of {flatten.pointer} begins at {ends[0]} and ends at {ends[1]}")

    def one_place(self, plan: Scan, env: Env, ran: dict[tuple[int, ...], tuple[int, ...]]) -> None:
        """Where the calls of its runs stay the same, so does the place of the target."""
        key = tuple(self.number(plan, c, env) for c in plan.segment_keys)
        inside: Env = env
        node = plan.body
        while isinstance(node, Load | Define):
            value = node.call if isinstance(node, Load) else node.value
            inside = {**inside, node.dim: self.number(node, value, inside)}
            node = node.body
        if isinstance(node, Store) and ran.setdefault(key, place := self.place(node, node.target, inside)) != place:
            raise WrongPlan(plan, f"its place changes from {ran[key]} to {place} where {key} stay the same")

    @contextmanager
    def watched(self, watches: Sequence[Watch]) -> Iterator[None]:
        before = len(self.watches)
        self.watches.loops += watches
        try:
            yield
        finally:
            del self.watches.loops[before:]

    @contextmanager
    def loop(self) -> Iterator[None]:
        """What is inside may break."""
        self.ended.append({})
        try:
            yield
        except steps.Broken:
            pass
        finally:
            self.ended.pop()

    def guard(self, plan: Guard, env: Env) -> None:
        """A condition that ends the loop does not hold again in it."""
        holds = self.all(plan, plan.conditions, env)
        if plan.exits:
            if holds and self.ended[-1].get(id(plan)):
                raise WrongPlan(plan, f"the loop would have ended, but its conditions hold again with {_names(env)}")
            if self.ended[-1].get(id(plan)):
                self.effort.iterations -= 1  # the loop has ended
            self.ended[-1][id(plan)] = not holds
        if holds:
            self.plan(plan.body, env)

    def levels(self, plan: LevelLoop, env: Env) -> None:
        """One iteration after another; or level by level, those of a level in any order, here the other one."""
        low, high = self.fold(plan, plan.low, env, max), self.fold(plan, plan.high, env, min)
        order = [*reversed(range(low, high))] if plan.down else [*range(low, high)]
        outer, self.needs = self.needs, {}
        for value in order:
            self.iteration = value
            self.plan(plan.inspect, {**env, plan.dim: value})
        needs, self.needs = self.needs, outer
        level: dict[int, int] = {}
        for value in order:
            needed = needs.get(value, set())
            if not needed <= level.keys():
                raise WrongPlan(plan, f"iteration {value} needs {sorted(needed - level.keys())}, which come later")
            level[value] = 1 + max((level[n] for n in needed), default=-1)
        if self.choices.special:
            order.reverse()
            order.sort(key=lambda v: level[v])
        kinds = [Watch(plan, "one level", disjoint=False)]
        for number in sorted(set(level.values())) if self.choices.special else [None]:
            with self.watched(kinds if number is not None else []), self.loop():
                for value in (v for v in order if number is None or level[v] == number):
                    kinds[0].starts(value)
                    anew = {} if number is None else {n: _Kept(k.node, None) for n, k in self.states.items()}
                    with _entries(self.states, anew):  # finds stand nowhere when a thread begins
                        self.plan(plan.body, {**env, plan.dim: value})
            kinds = [Watch(plan, "one level", disjoint=False)]

    # --- what is looked for ----------------------------------------------------------------------

    def find(self, plan: Find, env: Env) -> None:
        if plan.partition is not None and plan.partition.clears:
            self.clear(Clear(plan.partition.clears), env)
        low, high = self.fold(plan, plan.low, env, max), self.fold(plan, plan.high, env, min)
        positions = [*range(low, high)]
        calls = plan.calls()
        if plan.key is not None:
            self.effort.finds += 1
            positions = self.keyed(plan, plan.key, calls[plan.key.dim], positions, env)
        self.given(plan, [*range(low, high)], env)
        kinds = _claims(plan, plan.parallel, plan.partition)
        found = False
        with self.watched(kinds), self.loop():
            for position in positions:
                self.effort.iterations += 1
                inside = _bound(plan, env, plan.dim, position)
                for watch in kinds:
                    watch.starts(position)
                for dim, call in plan.loads:
                    inside = _bound(plan, inside, dim, self.number(plan, call, inside))
                if self.all(plan, plan.conditions, inside):
                    found = True
                    self.plan(plan.hit, inside)
        if not found and plan.miss is not None:
            self.plan(plan.miss, env)

    def given(self, plan: Find, positions: Iterable[int], env: Env) -> None:
        """What a segment says of all positions."""
        spoken = {v for f in plan.given for v in variables(f)}
        for position in positions if plan.given else ():
            inside = {**env, plan.dim: position}
            for dim, call in plan.loads:
                if dim in spoken:
                    inside[dim] = self.number(plan, call, inside)
            if not self.all(plan, plan.given, inside):
                raise WrongPlan(plan, f"position {position} has not the key of its segment")

    def keyed(self, plan: Find, key: Key, call: Call, positions: list[int], env: Env) -> list[int]:
        """The positions that hold the key, by looking at all of them; what the algorithm relies on is checked."""
        value = self.number(plan, key.value, env)
        values = [self.number(plan, call, {**env, plan.dim: p}) for p in positions]
        found = [p for p, v in zip(positions, values, strict=True) if v == value]
        if plan.algorithm not in TABLES:
            self.sorted(plan, values, key.descending, key.unique)
        elif key.unique and len(found) > 1:
            raise WrongPlan(plan, f"{value} stands at {found}, but each value stands once")
        if plan.algorithm in MOVING:
            self.moved(plan, key, value, values, positions, env)
        if plan.algorithm in TABLES:
            self.looked_up(plan, key, value, found)
        return found

    def sorted(self, plan: Plan, values: Sequence[int], descending: bool, unique: bool = False) -> None:
        for a, b in pairwise(values):
            if (a < b if descending else a > b) or (unique and a == b):
                raise WrongPlan(plan, f"{[*values]} do not {'fall' if descending else 'rise'}, or not strictly")

    def moved(
        self, plan: Find | Segment, key: Key, value: int, values: Sequence[int], positions: Sequence[int], env: Env
    ) -> None:
        """The state only moves one way, within the same bounds."""
        kept = self.states.get(plan.place)
        if kept is None:
            raise WrongPlan(plan, f"there is no state {plan.place} around it")
        bounds = (self.fold(plan, plan.low, env, max), self.fold(plan, plan.high, env, min))
        before = [v > value if key.descending else v < value for v in values]
        upto = [v >= value if key.descending else v <= value for v in values]
        now = bounds[0] + sum(upto if key.backward else before) if positions else bounds[0]
        at = tuple(self.number(plan, e, env) for e in plan.at)
        if len(at) != len(kept.node.over):
            raise WrongPlan(plan, f"its state {plan.place} is not kept for each value of what it is asked for")
        if kept.node.extents:
            extents = [self.number(plan, e, env) for e in kept.node.extents]
            if not all(0 <= k < n for k, n in zip(at, extents, strict=True)):
                raise WrongPlan(plan, f"there is no state of {[*at]}, of which there are {extents}")
        if kept.node.over and not kept.node.extents:
            kept.at = {k: v for k, v in kept.at.items() if k == at}  # it starts anew when these change
        if positions and kept.start is not None and kept.start != bounds[1 if key.backward else 0]:
            raise WrongPlan(plan, f"its state starts at {kept.start}, but the positions are those of {bounds}")
        last = kept.at.get(at)
        if last is not None and positions:
            if last[1] != bounds:
                raise WrongPlan(plan, f"its bounds changed from {last[1]} to {bounds} while its state was kept")
            if now > last[0] if key.backward else now < last[0]:
                raise WrongPlan(plan, f"its state would have to move from {last[0]} back to {now}")
        if positions:
            kept.at[at] = (now, bounds)

    def looked_up(self, plan: Find, key: Key, value: int, found: list[int]) -> None:
        """The table says the same."""
        table = self.tables.get(plan.place)
        if table is None:
            raise WrongPlan(plan, f"there is no table {plan.place} around it")
        if table.wrong:
            raise WrongPlan(table.node, table.wrong)
        if key.inside and table.node.kind != "hash map" and not 0 <= value < table.extent:
            raise WrongPlan(plan, f"{value} is looked for without a question, but the table ends at {table.extent}")
        if table.positions.get(value, []) != found:
            raise WrongPlan(plan, f"{value} stands at {found}, but the table says {table.positions.get(value, [])}")

    def table(self, plan: FindTable, env: Env) -> None:
        low, high = self.fold(plan, plan.low, env, max), self.fold(plan, plan.high, env, min)
        extent = self.number(plan, plan.extent, env)
        self.effort.cells += max(0, high - low) + (0 if plan.kind == "hash map" else extent)
        keys = [self.number(plan, plan.call, {**env, plan.dim: p}) for p in range(low, high)]
        positions: dict[int, list[int]] = {}
        for position, key in zip(range(low, high), keys, strict=True):
            if plan.kind != "hash map" and not 0 <= key < extent:
                raise WrongPlan(plan, f"{key} at {position} does not lie below {extent}")
            positions.setdefault(key, []).append(position)
        wrong = ""
        if plan.order == "unique" and any(len(p) > 1 for p in positions.values()):
            wrong = f"a key stands twice in {keys}"
        elif plan.order == "side by side" and any(b > a + 1 for p in positions.values() for a, b in pairwise(p)):
            wrong = f"equal keys are not side by side in {keys}"
        elif plan.rising and any(a > b for a, b in pairwise(keys)):
            wrong = f"{keys} do not rise"
        for position in range(low, high) if plan.values is not None else ():
            assert plan.values is not None
            self.read(plan, plan.values, {**env, plan.dim: position})
        with _entry(self.tables, plan.name, _Table(plan, extent, positions, wrong)):
            self.plan(plan.body, env)

    def segment(self, plan: Segment, env: Env) -> None:
        low, high = self.fold(plan, plan.low, env, max), self.fold(plan, plan.high, env, min)
        value = self.number(plan, plan.key.value, env)
        self.effort.finds += 1
        positions = [*range(low, high)]
        values = [self.number(plan, plan.call, {**env, plan.dim: p}) for p in positions]
        self.sorted(plan, values, plan.key.descending, plan.key.unique)
        if plan.place:
            self.moved(plan, plan.key, value, values, positions, env)
        found = [p for p, v in zip(positions, values, strict=True) if v == value]
        start, end = (found[0], found[-1] + 1) if found else (low, low)
        self.plan(plan.body, {**env, plan.start: start, plan.end: end})

    def bound(self, plan: BoundSearch, env: Env) -> None:
        low, high = self.fold(plan, plan.low, env, max), self.fold(plan, plan.high, env, min)
        value = self.number(plan, plan.value, env)
        self.effort.finds += 1
        values = [self.number(plan, plan.call, {**env, plan.dim: p}) for p in range(low, high)]
        self.sorted(plan, values, plan.descending)
        if plan.place:
            self.inverse(plan, value, dict(zip(range(low, high), values, strict=True)))
        there = (
            p for p, v in zip(range(low, high), values, strict=True) if (v <= value if plan.descending else v >= value)
        )
        self.plan(plan.body, {**env, plan.name: next(there, max(low, high))})

    def inverse(self, plan: BoundSearch, value: int, values: Mapping[int, int]) -> None:
        """A bound that is looked up: its table speaks of the same positions, and has a place for the value."""
        table = self.tables.get(plan.place)
        if table is None:
            raise WrongPlan(plan, f"there is no table {plan.place} around it")
        if table.wrong:
            raise WrongPlan(plan, table.wrong)
        if {p: key for key, positions in table.positions.items() for p in positions} != dict(values):
            raise WrongPlan(plan, f"it is among {values}, but the table holds {table.positions}")
        if plan.inside and not 0 <= value < table.extent:
            raise WrongPlan(plan, f"{value} is looked for without a question, but the table ends at {table.extent}")

    def reach(self, plan: Reach, env: Env) -> None:
        low, high = self.fold(plan, plan.low, env, max), self.fold(plan, plan.high, env, min)
        first, last = self.number(plan, plan.first, env), self.number(plan, plan.last, env)
        values = [self.number(plan, plan.call, {**env, plan.dim: p}) for p in range(low, high)]
        self.sorted(plan, values, plan.descending)
        if values and max(values) >= first and min(values) < last:
            self.plan(plan.body, env)

    # --- sums ------------------------------------------------------------------------------------

    def summed(self, plan: Accumulate, places: Mapping[tuple[int, ...], Env], env: Env) -> None:
        """What the body adds to these places, then stored: what the dimensions are at each of them."""
        tensor, array = plan.target.tensor, plan.target.array
        sums = Sums((tensor, array), dict.fromkeys(places, self.nothing(plan)), len(self.watches))
        self.sums.append(sums)
        self.plan(plan.body, env)
        self.sums.pop()
        for place, there in places.items():
            total = sums.places[place]
            if plan.finish is None:
                self.put(plan, plan.target, place, plan.op, total, monoid=plan.monoid)
                continue
            known = Sums((plan.finish.name, ""), {(): total}, len(self.watches))
            with _entry(self.variables, plan.finish.name, _Variable(known, False)):
                steps.finished(self, plan.finish, total, there)

    def nothing(self, plan: Accumulate) -> Number:
        """What totals begin with."""
        return (
            self.zero(plan.target.tensor) if plan.monoid is None else _converted(plan.monoid.neutral, plan.monoid.type)
        )

    def accumulate(self, plan: Accumulate, env: Env) -> None:
        match plan.storage:
            case Variable() if plan.op:
                self.summed(plan, {self.place(plan, plan.target, env): env}, env)
            case Variable():
                self.variable(plan, env)
            case Row() | Workspace():
                self.kept(plan, env)
            case RegisterTile() as tile:
                self.tile(plan, tile, env)
            case Registers() as registers:
                self.registers(plan, registers, env)

    def kept(self, plan: Accumulate, env: Env) -> None:
        """Totals in memory, which the body reads."""
        if plan.monoid is not None:
            self.kinds[plan.target.tensor] = plan.monoid.type
        totals = self.zeros(plan, plan.target, env)
        totals[...] = self.nothing(plan)
        with self.made({(plan.target.tensor, plan.target.array): totals}):
            self.plan(plan.body, env)

    def tile(self, plan: Accumulate, tile: RegisterTile, env: Env) -> None:
        """Tiles of each width, one after another, or one of all."""
        at, end = self.fold(plan, tile.low, env, max), self.fold(plan, tile.high, env, min)
        width = tile.width if self.choices.special else max(end - at, 1)
        while at < end:
            if at + width > end:
                width //= 2
                continue
            inside = {**env, tile.start: at, tile.end: at + width}
            along = ({**env, tile.dim: v} for v in range(at, at + width))
            self.summed(plan, {self.place(plan, plan.target, there): there for there in along}, inside)
            at += width

    def registers(self, plan: Accumulate, kept: Registers, env: Env) -> None:
        lanes = [(lane,) if kept.lane else () for lane in range(kept.lanes)]
        nothing = self.nothing(plan)
        numbers: dict[tuple[int, ...], Number] = {(d, *lane): nothing for d in range(kept.count) for lane in lanes}
        sums = Sums((kept.added.tensor, kept.added.array), numbers, len(self.watches))
        self.sums.append(sums)
        self.plan(plan.body, env)
        self.sums.pop()
        for dim in range(min(self.fold(plan, kept.high, env, min), kept.count)):
            place = self.place(plan, plan.target, {**env, kept.dim: dim})
            total = nothing
            for lane in lanes:
                own = sums.places[dim, *lane]
                total = total + own if plan.monoid is None else steps.together(plan.monoid, total, own)
            self.put(plan, plan.target, place, plan.op, total, monoid=plan.monoid)

    def variable(self, plan: Accumulate, env: Env) -> None:
        """A temporary: the body reads what it has added."""
        tensor, start = plan.target.tensor, plan.start
        if plan.monoid is not None:
            self.kinds[tensor] = plan.monoid.type
        first = self.nothing(plan) if start is None else self.value(plan, start, self.kinds[tensor], env)
        sums = Sums((tensor, ""), {(): first}, len(self.watches))
        with _entry(self.variables, tensor, _Variable(sums, start is not None)):
            self.plan(plan.body, env)

    # --- what is made for some data --------------------------------------------------------------

    def version(self, plan: Versions, versions: Sequence[Version], env: Env) -> Version:
        """The version that runs: where costs decide, the one that is chosen."""
        if plan.by_cost:
            return versions[min(self.choices.variant, len(versions) - 1)]
        for version in versions:
            assert not isinstance(version.when, Cheapest)
            if not version.when or (self.choices.special and self.all(plan, version.when, env)):
                return version
        raise WrongPlan(plan, "no version is right whatever holds")

    # --- memory ----------------------------------------------------------------------------------

    def clear(self, plan: Clear, env: Env) -> None:
        part, body = plan.part, plan.body
        if part is None and plan.tensor in self.collected:
            steps.emptied(self, self.collected[plan.tensor])
            return
        if part is None:
            self.delivered.discard(plan.tensor)
            if plan.tensor in self.appended:
                self.appended[plan.tensor].clear()
            for (tensor, _), memory in self.memories.items():
                if tensor == plan.tensor:
                    for place in np.ndindex(memory.values.shape):
                        memory.note(plan, place, CLEARED)
                    memory.values[...] = self.zero(tensor)
                    self.effort.cells += memory.values.size
            return
        if body is None:
            raise WrongPlan(plan, "it clears a part for nothing")
        self.clearing(part, env)
        self.plan(body, env)

    def clearing(self, part: Plan, env: Env) -> None:
        """A nest that makes places zero."""
        for node in walk(part, PLANS):
            if isinstance(node, Store) and (node.op != "=" or node.value != Constant(0)):
                raise WrongPlan(node, "a nest that clears does something else")
        self.plan(part, env)

    def do(self, plan: Store, env: Env) -> None:
        self.done += 1
        own = self.kinds[plan.target.tensor]
        if plan.monoid is not None:
            combined = steps.as_type(self, plan, plan.value, plan.monoid.type, env)
            self.put(plan, plan.target, self.place(plan, plan.target, env), plan.op, combined, monoid=plan.monoid)
            return
        value = self.value(plan, plan.value, self.kind(plan.value, own), env)
        clears = plan.op == "=" and plan.value == Constant(0)
        updates = any(isinstance(n, Read) and n.operand == plan.target for n in walk(plan.value))
        self.put(plan, plan.target, self.place(plan, plan.target, env), plan.op, value, clears, updates=updates)

    def gathered(self, plan: RowWorkspace, body: Plan, env: Env) -> None:
        """What the body appends has these coordinates."""
        before = self.common
        self.common = {**before, plan.tensor: (plan, tuple(self.number(plan, e, env) for e in plan.common))}
        self.plan(body, env)
        self.common = before

    def in_place(self, plan: InPlace, env: Env) -> None:
        """The first run counts entries, the second one delivers the same, in the order that it says."""
        if form_of(self.program.tensor(plan.tensor), plan.how) is None:
            raise WrongPlan(plan, f"entries have no {plan.how}")
        if plan.tensor in self.delivered:
            raise WrongPlan(plan, "entries come before those that are counted")
        self.placed.add(plan.tensor)
        self.counted, self.counts, self.owners = [], True, []
        self.plan(plan.body, env)
        if plan.apart and not self.has_own_groups(plan):
            raise WrongPlan(plan, "two iterations of a parallel loop have entries of one group")
        first, self.counted, self.counts = self.counted, [], False
        self.plan(plan.body, env)
        if sorted(first) != sorted(self.counted):
            raise WrongPlan(plan, f"{len(first)} entries are counted, {len(self.counted)} or others delivered")
        if plan.how == "groups" and plan.ordered and not _in_order(self.program.tensor(plan.tensor), first, self.sizes):
            raise WrongPlan(plan, "entries of a group are not in order")
        if plan.how == "marks" and len({*first}) < len(first):
            raise WrongPlan(plan, "two entries have one place")
        self.counted = None

    def has_own_groups(self, plan: InPlace) -> bool:
        """Whether no two iterations of parallel loops have entries of one group."""
        assert self.counted is not None
        if plan.how != "groups":
            return not any(self.owners)
        groups = [g for g, _ in _digits(self.program.tensor(plan.tensor), self.counted, self.sizes)]
        owner: dict[tuple[int, ...], dict[str, int]] = {}
        return all(owner.setdefault(g, own) == own for g, own in zip(groups, self.owners, strict=True))

    def append(self, plan: Append, env: Env) -> None:
        """An entry, by any thread; those at one place add up."""
        self.done += 1
        self.delivered.add(plan.tensor)
        if self.counted is not None:
            self.counted.append(tuple(self.number(plan, e, env) for e in plan.coordinates))
            self.owners.append({**self.shared})
        elif plan.tensor in self.placed:
            raise WrongPlan(plan, "an entry is delivered that is not counted")
        if self.counts:
            return
        assert not plan.without_fill  # conversions alone do that
        if plan.tensor in self.appended:
            steps.append(self, plan, env)
            return
        does = plan.as_store
        own = self.kinds[plan.tensor]
        value = self.value(plan, does.value, self.kind(does.value, own), env)
        place = self.place(plan, does.target, env)
        memory = self.memories[plan.tensor, ENTRIES]
        memory.at(plan, place)
        if plan.tensor in self.common:
            around, common = self.common[plan.tensor]
            if (*place[: around.axis], *place[around.axis + 1 :]) != common:
                raise WrongPlan(around, f"an entry at {[*place]} is not one of the row at {[*common]}")
            if place[around.axis] >= self.number(around, around.extent, env):
                raise WrongPlan(around, f"an entry at {[*place]} lies behind the end of its row")
        memory.values[place] = _converted(memory.values[place] + value, own)

    def put(
        self,
        plan: Plan,
        target: Operand,
        place: tuple[int, ...],
        op: str,
        value: Number,
        clears: bool = False,
        monoid: Monoid | None = None,
        updates: bool = False,
    ) -> None:
        """Store or add: to the innermost sum of the place, or to memory. What is stored `updates` what was there."""

        def together(old: Number) -> Number:
            return old + value if monoid is None else steps.together(monoid, old, value)

        for sums in reversed(self.sums):
            if sums.of == (target.tensor, target.array) and place in sums.places:
                if op == "=":
                    raise WrongPlan(plan, f"{target.tensor}{[*place]} is stored within its sum")
                self.watches.writes(sums, place, adds=True)
                sums.places[place] = together(sums.places[place])
                return
        variable = self.variables.get(target.tensor)
        if variable is not None:
            self.watches.writes(variable.sums, (), adds=True)
            kept = variable.sums.places[()]
            total = kept - value if variable.falling else kept + value
            variable.sums.places[()] = _converted(total, self.kinds[target.tensor])
            return
        memory = self.memories.get((target.tensor, target.array))
        if memory is None:
            raise WrongPlan(plan, f"there is no array {target.tensor}.{target.array}, or no sum of {[*place]}")
        memory.at(plan, place)
        self.watches.writes(memory, place, op != "=")
        if op == "=" and clears and memory.seen[place] <= CLEARED:
            memory.note(plan, place, CLEARED)
        else:
            memory.note(plan, place, STORED if op == "=" and not updates else ADDED)
        memory.values[place] = _converted(value if op == "=" else together(memory.values[place]), memory.values.dtype)

    def read(self, plan: Plan, operand: Operand, env: Env) -> Number:
        if operand.tensor in self.variables:
            return self.variables[operand.tensor].sums.places[()]
        memory = self.memories.get((operand.tensor, operand.array))
        if memory is None:
            raise WrongPlan(plan, f"there is no array {operand.tensor}.{operand.array}")
        place = memory.at(plan, self.place(plan, operand, env))
        self.watches.reads(memory, place)
        return memory.values[place]

    def place(self, plan: Plan, operand: Operand, env: Env) -> tuple[int, ...]:
        return tuple(self.number(plan, p, env) for p in operand.place)

    def zero(self, tensor: str) -> Number:
        return np.dtype(self.kinds[tensor]).type(0)

    def zeros(self, plan: Plan, operand: Operand, env: Env) -> Array:
        return np.zeros(tuple(self.number(plan, e, env) for e in operand.extents), self.kinds[operand.tensor])

    @contextmanager
    def made(self, arrays: Mapping[tuple[str, str], Array]) -> Iterator[None]:
        """Arrays of values that are there for a while."""
        born = len(self.watches)
        with _entries(self.memories, {k: Memory(".".join(k), a, born) for k, a in arrays.items()}):
            yield

    # --- values, numbers and conditions ----------------------------------------------------------

    def kind(self, value: Value, own: str) -> str:
        """Values are combined in the widest of their types and that of the target."""
        kinds = {own}
        for node in walk(value):
            match node:
                case Read(operand):
                    kinds.add(self.kinds[operand.tensor])
                case Constant(number) if isinstance(number, float):
                    kinds |= set() if TYPES[own].kind in "fc" else {"float64"}
                case Apply() if node.operator.result == QUOTIENT:
                    kinds |= set() if TYPES[own].kind in "fc" else {"float64"}
        return promoted(sorted(kinds)).name

    def value(self, plan: Plan, value: Value, kind: str, env: Env) -> Number:
        match value:
            case Constant(number):
                return _converted(number, kind)
            case Read(operand) if operand.tensor in self.variables:
                return _converted(self.read(plan, operand, env), kind)
            case Read(operand):
                return _converted(self.read(plan, operand, env), kind)
            case Apply(op, arguments):
                return ufunc(op)(*[self.value(plan, a, kind, env) for a in arguments])
        raise WrongPlan(plan, f"there is no value for {value!r}")

    def fold(self, plan: Plan, values: Sequence[Expr], env: Env, way: Any) -> int:
        return int(way(self.number(plan, v, env) for v in values))

    def number(self, plan: Plan, expr: Expr, env: Env) -> int:
        match expr:
            case Num(value):
                return value
            case Var(name):
                if name not in env:
                    raise WrongPlan(plan, f"{name} is used before it is bound")
                if isinstance(env[name], steps.Box):
                    return int(steps.read_scalar(self, plan, name, env))
                return int(env[name])
            case Call(function, arguments):
                return self.load(plan, function, tuple(self.number(plan, a, env) for a in arguments))
            case Bin(op, left, right):
                a, b = self.number(plan, left, env), self.number(plan, right, env)
                if op in ("/", "%", "quot", "rem") and b <= 0:
                    return 0  # as in rt/quotient.h: of a coordinate of nothing, which is stored nowhere
                if op in ("quot", "rem") and a < 0:
                    raise WrongPlan(plan, f"{a} is negative where the plan says that it is not")
                return int(apply_operator(op, a, b))
        raise WrongPlan(plan, f"there is no number for {expr!r}")

    def load(self, plan: Plan, function: str, at: tuple[int, ...]) -> int:
        values = self.index.get(function)
        if values is None:
            raise WrongPlan(plan, f"there is no index array {function}")
        if len(at) != values.ndim or not all(0 <= p < n for p, n in zip(at, values.shape, strict=True)):
            raise WrongPlan(plan, f"{function}{[*at]} lies outside of its array of {[*values.shape]}")
        return int(values[at])

    def all(self, plan: Plan, conditions: Sequence[Formula], env: Env) -> bool:
        return all(self.holds(plan, f, env) for f in conditions)

    def holds(self, plan: Plan, formula: Formula, env: Env) -> bool:
        match formula:
            case Compare(op, left, right):
                a, b = self.number(plan, left, env), self.number(plan, right, env)
                return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]
            case And(parts):
                return all(self.holds(plan, p, env) for p in parts)
            case Or(parts):
                return any(self.holds(plan, p, env) for p in parts)
            case Not(part):
                return not self.holds(plan, part, env)
        raise WrongPlan(plan, f"it cannot be told whether {formula!r} holds")


def _digits(
    tensor: Tensor, entries: Sequence[tuple[int, ...]], sizes: Mapping[str, int]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The group and the keys of each entry."""
    found = form_of(tensor, "groups")
    assert isinstance(found, Groups)
    key = found.key.key
    layout = key.plan.encoded.layout
    extents = {p: sizes[e] for p, e in zip(layout.parameters, tensor.extents, strict=True) if e in sizes}
    for entry in entries:
        at = extents | dict(zip(layout.coordinates, entry, strict=True))
        digits = tuple((-1) ** f.down * (int(affine_value(f.numerator, at)) // f.divisor) for f in key.fields)
        yield digits[: key.levels[0].group], digits[key.levels[0].group :]


def _in_order(tensor: Tensor, entries: Sequence[tuple[int, ...]], sizes: Mapping[str, int]) -> bool:
    """Whether entries with equal groups, in the order in which they come, have rising keys."""
    last: dict[tuple[int, ...], tuple[int, ...]] = {}
    for group, own in _digits(tensor, entries, sizes):
        if group in last and last[group] >= own:
            return False
        last[group] = own
    return True


def _claims(plan: Plan, is_parallel: bool, partition: Partition | None) -> list[Watch]:
    """What a loop says of its iterations, watched."""
    found = []
    if is_parallel and partition is not None and partition.adds == "segments":
        rows = None if partition.slice is None else tuple(k for k, e in enumerate(partition.slice.rest) if e == ZERO)
        found.append(Watch(plan, "in parallel", disjoint=False, in_order=True, rows=rows))
    elif is_parallel:
        own = isinstance(plan, Scan) and partition is not None and bool(partition.copies)  # which it works with
        found.append(Watch(plan, "in parallel", disjoint=partition is None or not partition.adds or own))
    return found


def _sizes(program: Program, operands: Mapping[str, Held], given: Mapping[str, int]) -> dict[str, int]:
    """The sizes by their dimensions: fixed, passed, or those of the operands, which agree."""
    result: dict[str, int] = {}
    for size, places in program.sizes.readings.items():
        values = {int(operands[t].sizes[f]) for t, f in places}
        if size in program.sizes.fixed:
            values.add(program.sizes.fixed[size])
        if not values:
            values.add(int(given[size]))
        if len(values) != 1:
            raise ValueError(f"the operands have several values for {size}: {sorted(values)}")
        (result[size],) = values
    return result


def _extent(expr: Expr, own: Mapping[str, Expr], sizes: Env) -> int:
    """An extent in a layout's own sizes, which are `own` ones in the kernel."""
    return int(evaluate(expr, lambda n: evaluate(own[n], sizes.__getitem__, _no_call), _no_call))


def _no_call(function: str, _: tuple[Any, ...]) -> int:
    raise ValueError(f"expected an extent that speaks of sizes, but it reads {function}")


def _wide(own: str, kinds: Sequence[str]) -> str:
    """A type that holds what is added to a target: fractions beside whole numbers, numbers beside booleans."""
    kind = promoted(sorted({own, *kinds}))
    first = TYPES[own].kind
    lossy = kind.kind != "b" if first == "b" else first in "iu" and kind.kind in "fc"
    return kind.name if lossy else own


def _converted(value: Number, kind: Any) -> Number:
    return np.asarray(value).astype(kind)[()]


def _bound(plan: Plan, env: Env, dim: str, value: int) -> Env:
    """What is known with a value more: nothing may be hidden, or C would read the one where the other is meant."""
    if dim in env:
        raise WrongPlan(plan, f"{dim} is bound where it has a value already")
    return {**env, dim: value}


def _names(env: Env) -> str:
    return ", ".join(f"{n} = {v}" for n, v in env.items())


@contextmanager
def _entry(table: dict[str, Any], name: str, value: Any) -> Iterator[None]:
    with _entries(table, {name: value}):
        yield


@contextmanager
def _entries(table: dict[Any, Any], values: Mapping[Any, Any]) -> Iterator[None]:
    """Entries that are there for a while."""
    before = {k: table[k] for k in values if k in table}
    table.update(values)
    try:
        yield
    finally:
        for key in values:
            del table[key]
        table.update(before)

"""Consistency checks of plans of steps, made before there is any C: a fault is a bug of spfgen.

A name is used where it is defined, a scalar as what it was declared as, an array and a table after they exist; they
exist once, above all loops. `break` ends a loop that C has. Iterations of a parallel loop change scalars, tables and
places of their own alone: a place depends on the loop's index, and the loop says why two of them differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from spfgen.errors import InternalError
from spfgen.facts.formula import Compare, Expr, Formula, Var, calls, conjuncts, variables
from spfgen.ir import children
from spfgen.lang import nodes as lang
from spfgen.plan.nodes import (
    Accumulate,
    Append,
    Array,
    Assign,
    Block,
    BoundSearch,
    Break,
    Clear,
    Collect,
    Define,
    Find,
    FindTable,
    Finish,
    Guard,
    If,
    Let,
    Load,
    Plan,
    Prefetch,
    Probe,
    Products,
    Reach,
    Refuse,
    RegisterTile,
    Repeat,
    Scan,
    SearchState,
    Segment,
    Store,
    UpdateEntry,
    Workspace,
)
from spfgen.space.local_tensors import AT, COUNT, HELD, OWN
from spfgen.space.nodes import Operand, Program, Read
from spfgen.space.typed import Holds, Scalar


class WrongPlan(InternalError):
    """A plan that does what it must not, or claims what does not hold on the data. `node` is the one at fault."""

    def __init__(self, node: Plan, what: str) -> None:
        super().__init__(f"{title(node)}: {what}")
        self.node = node


def title(node: Plan) -> str:
    """The kind of a node, and what it is about."""
    for name in ("dim", "name", "tensor", "row", "start"):
        subject = getattr(node, name, None)
        if isinstance(subject, str):
            return f"{type(node).__name__} {subject}"
    target = getattr(node, "target", None)
    return type(node).__name__ if target is None else f"{type(node).__name__} {target.tensor}"


SEARCHED = "a find"
"""Stands for a loop that C may not have."""


@dataclass(frozen=True)
class PlanScope:
    """What is known at one node of a plan."""

    names: frozenset[str]
    """Dimensions and sizes with a value here."""
    arrays: frozenset[tuple[str, str]]
    """Value arrays that exist, as (tensor, array)."""
    functions: frozenset[str]
    """Index arrays that exist."""
    scalars: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Each scalar with its type and the number of parallel loops around its declaration."""
    tables: Mapping[str, int] = field(default_factory=dict)
    """Each hash table with the number of parallel loops around it."""
    places: frozenset[str] = frozenset()
    """States and tables of finds."""
    loop: Plan | str | None = None
    """The innermost loop."""
    parallel: tuple[Plan, ...] = ()
    """The parallel loops around, the outermost first."""
    varies: frozenset[str] = frozenset()
    """Names whose value depends on the index of the innermost parallel loop."""
    alone: bool = False
    """At most one iteration of the innermost parallel loop comes here."""
    copied: frozenset[tuple[str, str]] = frozenset()
    """Arrays of which each thread has a copy."""
    totals: Mapping[str, int] = field(default_factory=dict)
    """Tensors that a nest accumulates in variables, with the number of parallel loops around."""

    def knowing(self, names: Iterable[str], of: Iterable[Any] = ()) -> PlanScope:
        """With names that are made of these expressions."""
        new = frozenset(names)
        moves = any(variables(e) & self.varies for e in of)
        return replace(self, names=self.names | new, varies=self.varies | new if moves else self.varies - new)

    def within(self, loop: Plan | str, is_parallel: bool = False) -> PlanScope:
        if not is_parallel:
            return replace(self, loop=loop)
        assert isinstance(loop, Plan)
        return replace(self, loop=loop, parallel=(*self.parallel, loop), varies=frozenset(), alone=False)

    def where(self, *conditions: Any) -> PlanScope:
        """Where these hold. One that says which iteration of the innermost parallel loop it is leaves that alone."""
        loop = self.parallel[-1].dim if self.parallel else None  # type: ignore[attr-defined]
        sides = [s for c in _compared(conditions) if c.op == "=" for s in ((c.left, c.right), (c.right, c.left))]
        is_one_iteration = any(one == Var(loop) and not variables(other) & self.varies for one, other in sides if loop)
        return replace(self, alone=True) if is_one_iteration else self


def _compared(conditions: Iterable[Any]) -> Iterator[Compare]:
    """The comparisons that all hold where these conditions do."""
    for condition in conditions:
        match condition:
            case Holds(formula):
                yield from _compared([formula])
            case lang.Apply("logical_and", parts):
                yield from _compared(parts)
            case Formula():
                yield from (c for c in conjuncts(condition) if isinstance(c, Compare))


def check_steps(plan: Plan, program: Program) -> None:
    """Raises InternalError with the node that is at fault."""
    tensors = [t for t in program.tensors if t.assembled is None]
    scope = PlanScope(
        frozenset((*program.size_names, *program.sizes.fixed)),
        frozenset((t.name, v.name) for t in tensors for v in t.layout.values),
        frozenset(function for t in tensors for _, function in t.arrays),
    )
    _Checker(program).statement(plan, scope)


class _Checker:
    def __init__(self, program: Program) -> None:
        self.assembled = {t.name for t in program.tensors if t.assembled is not None}
        self.outputs = {t.name for t in program.tensors if t.is_output}

    def statement(self, plan: Plan, scope: PlanScope) -> PlanScope:
        """What is known in the rest of the block."""
        known = self.block(plan, scope)
        if known is not None:
            return known
        match plan:
            case Assign() | Store() | Finish() | Append() | Clear(part=None):
                self.stores(plan, scope)
            case Break() | Refuse() | UpdateEntry():
                self.effect(plan, scope)
            case _:
                return self.made(scope, self.nest(plan, scope))
        return scope

    def block(self, plan: Plan, scope: PlanScope) -> PlanScope | None:
        """What is known behind a block, and behind what gives the rest of a block a name; None for all else."""
        match plan:
            case Block(parts):
                inner = scope
                for part in parts:
                    inner = self.statement(part, inner)
                return replace(scope, arrays=inner.arrays, functions=inner.functions, tables=inner.tables)
            case Define(dim, value, body):
                self.known(plan, scope, value)
                inner = self.new(plan, scope, [dim], [value])
                return inner if body is None else self.made(scope, self.statement(body, inner))
            case Let(name, kind, value):
                self.value(plan, scope, value)
                scalars = {**scope.scalars, name: (kind, len(scope.parallel))}
                return replace(self.new(plan, scope, [name]), scalars=scalars)
            case If(condition, then, otherwise):
                self.value(plan, scope, condition)
                behind = replace(self.statement(then, scope.where(condition)), alone=scope.alone)
                return self.made(scope, behind if otherwise is None else self.statement(otherwise, behind))
            case Repeat(body):
                return self.made(scope, self.statement(body, scope.within(plan)))
            case Array(name, _, extents):
                self.known(plan, scope, *extents)
                self.above_loops(plan, scope)
                return replace(scope, arrays=scope.arrays | {(name, OWN)})
            case Collect(name, _, extents, body):
                self.known(plan, scope, *extents)
                self.above_loops(plan, scope)
                tables = {**scope.tables, name: len(scope.parallel)}
                behind = self.made(scope, self.statement(body, replace(scope, tables=tables)))
                behind = replace(behind, tables={**behind.tables, **tables})
                arrays, functions = behind.arrays | {(name, HELD)}, behind.functions | {f"{name}.{AT}"}
                return replace(behind.knowing([f"{name}.{COUNT}"]), arrays=arrays, functions=functions)
            case Probe(dim, name, at):
                self.known(plan, scope, *at)
                self.table(plan, scope, name)
                return self.new(plan, scope, [dim], at)
            case Products():
                return scope  # compared with what is asked for as that which is no step (whole.py)
        return None

    def stores(self, plan: Plan, scope: PlanScope) -> None:
        """Values that are stored: in scalars, in arrays, as entries."""
        match plan:
            case Assign(name, kind, value):
                self.value(plan, scope, value)
                self.assigned(plan, scope, name, kind)
            case Store(target, value, monoid=None):
                self.value(plan, scope, value)
                self.operand(plan, scope, target)
                if (target.tensor, target.array) not in scope.copied:
                    self.apart(plan, scope, target.place)
            case Store(target, value):
                self.value(plan, scope, value)
                self.operand(plan, scope, target)
                self.combined(plan, scope)
            case Finish(name, kind, body):
                scalars = {**scope.scalars, name: (kind, len(scope.parallel))}
                self.statement(body, replace(self.new(plan, scope, [name]), scalars=scalars))
            case Append(tensor, coordinates, value):
                self.known(plan, scope, *coordinates, *(() if plan.last is None else (plan.last,)))
                self.value(plan, scope, value)
                if tensor not in self.assembled:
                    raise fault(plan, f"{tensor} is no result whose pattern is computed")
            case Clear(tensor, part=None) if tensor in scope.tables:
                self.table(plan, scope, tensor, changes=True)
            case Clear(tensor, part=None):
                if tensor not in self.outputs:
                    raise fault(plan, f"{tensor} is no result")
                if scope.parallel:
                    raise fault(plan, "iterations of a parallel loop have it in common")

    def effect(self, plan: Plan, scope: PlanScope) -> None:
        """What leaves a loop or the call, and what changes a table."""
        match plan:
            case Break():
                shared = any(scope.loop is p for p in scope.parallel)
                if shared or not isinstance(scope.loop, Scan | Repeat):
                    what = "a parallel loop" if shared else str(scope.loop or "no loop")
                    raise fault(plan, f"it stands in {what}, which does not end by it")
            case Refuse(name):
                self.scalar(plan, scope, name, "bool")
            case UpdateEntry(name, kind, at, value, old):
                self.known(plan, scope, *at)
                self.table(plan, scope, name, changes=True)
                scalars = {**scope.scalars, old: (kind, len(scope.parallel))}
                self.value(plan, replace(self.new(plan, scope, [old]), scalars=scalars), value)

    def nest(self, plan: Plan, scope: PlanScope) -> PlanScope:
        match plan:
            case Scan(dim, low, high, body):
                self.known(plan, scope, *low, *high)
                self.says_why(plan)
                inner = self.new(plan, scope.within(plan, plan.parallel), [dim], (*low, *high))
                private = self.private(plan, scope, len(inner.parallel))
                if plan.combined is not None:
                    self.statement(plan.combined, replace(scope.knowing(private), scalars={**scope.scalars, **private}))
                inner = replace(inner.knowing(private), scalars={**inner.scalars, **private})
                copies = () if plan.partition is None else plan.partition.copies
                inner = replace(inner, copied=inner.copied | {(c.target.tensor, c.target.array) for c in copies})
                return self.statement(body, replace(inner, varies=inner.varies | {dim}) if plan.parallel else inner)
            case Accumulate(storage=RegisterTile()):
                assert plan.meaning is not None
                return self.nest(plan.meaning, scope)
            case Accumulate():
                return self.accumulated(plan, scope)
            case Load(dim, call, body):
                self.known(plan, scope, call)
                return self.statement(body, self.new(plan, scope, [dim], [call]))
            case Guard(conditions, body):
                self.known(plan, scope, *conditions)
                return self.statement(body, scope.where(*conditions))
            case Find():
                return self.found(plan, scope)
            case Segment(dim, start, end, low, high, call, key, _, body):
                self.known(plan, scope, *low, *high, key.value, *plan.at)
                self.known(plan, scope.knowing([dim]), call)
                self.place(plan, scope, plan.place)
                return self.statement(body, self.new(plan, scope, [start, end], (*low, *high, key.value)))
            case BoundSearch(name, dim, low, high, call, value, _, _, body):
                self.known(plan, scope, *low, *high, value)
                self.known(plan, scope.knowing([dim]), call)
                self.place(plan, scope, plan.place)
                return self.statement(body, self.new(plan, scope, [name], (*low, *high, value)))
            case Reach(dim, low, high, call, first, last, _, body):
                self.known(plan, scope, *low, *high, first, last)
                self.known(plan, scope.knowing([dim]), call)
                return self.statement(body, scope)
            case SearchState(name, low, high, body=body):
                self.known(plan, scope, *low, *high, *plan.extents)
                return self.statement(body, replace(scope, places=scope.places | {name}))
            case Prefetch(_, _, high, _, start, _, body):
                self.known(plan, scope, *high, start)
                return self.statement(body, scope)
            case FindTable(name, _, dim, low, high, call, extent, body=body):
                self.known(plan, scope, *low, *high, extent)
                self.known(plan, scope.knowing([dim]), call)
                return self.statement(body, replace(scope, places=scope.places | {name}))
        inside = [part for part in children(plan) if isinstance(part, Plan)]
        if plan.writes and not inside:
            raise fault(plan, f"nothing says when it may change {plan.writes}")
        values = [getattr(plan, f.name) for f in fields(plan)]  # type: ignore[arg-type]
        inner = replace(scope, names=scope.names | {n for n in values if isinstance(n, str)})
        for part in inside:
            scope = self.made(scope, self.statement(part, inner))
        return scope

    def accumulated(self, plan: Accumulate, scope: PlanScope) -> PlanScope:
        """Totals; those that come to no other place are there for the body alone."""
        array = plan.target.tensor, plan.target.array
        inner = scope if plan.op else replace(scope, arrays=scope.arrays | {array})
        if not isinstance(plan.storage, Workspace):
            inner = replace(inner, totals={**scope.totals, plan.target.tensor: len(scope.parallel)})
        behind = self.statement(plan.body, inner)
        if not plan.op:
            return replace(behind, arrays=behind.arrays - {array})
        return behind if plan.finish is None else self.made(behind, self.statement(plan.finish, scope))

    def found(self, plan: Find, scope: PlanScope) -> PlanScope:
        self.known(plan, scope, *plan.low, *plan.high, *plan.at)
        self.says_why(plan)
        self.place(plan, scope, plan.place)
        inner = scope.within(plan, plan.parallel) if plan.parallel else scope.within(SEARCHED)
        sought = [] if plan.key is None else [plan.key.value]
        inner = self.new(plan, inner, [plan.dim], [*plan.low, *plan.high, *sought, *plan.conditions])
        if plan.parallel:
            inner = replace(inner, varies=inner.varies | {plan.dim})
        for dim, call in plan.loads:
            self.known(plan, inner, call)
            inner = self.new(plan, inner, [dim], [call])
        if plan.key is not None:
            self.known(plan, inner, plan.key.value)
        self.known(plan, inner, *plan.conditions, *plan.given)
        result = self.statement(plan.hit, inner)
        return result if plan.miss is None else self.statement(plan.miss, scope)

    # --- names ------------------------------------------------------------------------------------

    def made(self, scope: PlanScope, inner: PlanScope) -> PlanScope:
        """What was made inside is there from now on; names are not."""
        return replace(scope, arrays=inner.arrays, functions=inner.functions, tables=inner.tables)

    def new(self, plan: Plan, scope: PlanScope, names: Iterable[str], of: Iterable[Expr | Formula] = ()) -> PlanScope:
        names = list(names)
        for name in names:
            if name in scope.names:
                raise fault(plan, f"{name} is defined where it has a value already")
        return scope.knowing(names, of)

    def known(self, plan: Plan, scope: PlanScope, *parts: Expr | Formula) -> None:
        for part in parts:
            unknown = sorted(variables(part) - scope.names)
            if unknown:
                raise fault(plan, f"{unknown[0]} is used before it is defined")
            missing = [c.function for c in calls(part) if c.function not in scope.functions]
            if missing:
                raise fault(plan, f"there is no index array {missing[0]} yet")

    def value(self, plan: Plan, scope: PlanScope, value: Any) -> None:
        match value:
            case lang.Constant():
                return
            case lang.Apply(_, arguments):
                for argument in arguments:
                    self.value(plan, scope, argument)
            case lang.Index(expr):
                self.known(plan, scope, expr)
            case Holds(condition):
                self.known(plan, scope, condition)
            case Scalar(name, kind):
                self.scalar(plan, scope, name, kind)
            case Read(operand):
                self.operand(plan, scope, operand)
            case _:
                raise fault(plan, f"{type(value).__name__} is no value of a plan")

    def scalar(self, plan: Plan, scope: PlanScope, name: str, kind: str) -> None:
        if name not in scope.scalars:
            raise fault(plan, f"there is no scalar {name} here")
        if scope.scalars[name][0] != kind:
            raise fault(plan, f"{name} is of type {scope.scalars[name][0]}, but used as {kind}")

    def operand(self, plan: Plan, scope: PlanScope, operand: Operand) -> None:
        self.known(plan, scope, *operand.place, *operand.extents)
        if (operand.tensor, operand.array) not in scope.arrays:
            raise fault(plan, f"there is no array {operand.tensor}.{operand.array} yet")

    def place(self, plan: Plan, scope: PlanScope, name: str) -> None:
        if name and name not in scope.places:
            raise fault(plan, f"there is no state or table {name} around it")

    # --- what several threads may do ----------------------------------------------------------------

    def private(self, plan: Scan, scope: PlanScope, loops: int) -> dict[str, tuple[str, int]]:
        """The scalars that each part of a loop has: their types, and how many parallel loops are around them."""
        if plan.private and not plan.parallel:
            raise fault(plan, "it has no parts, but scalars for each of them")
        self.new(plan, scope, [p.name for p in plan.private])
        for scalar in plan.private:
            self.value(scalar, scope, scalar.value)
        return {p.name: (p.type, loops) for p in plan.private}

    def says_why(self, plan: Scan | Find) -> None:
        if plan.parallel and not plan.because:
            raise fault(plan, "it is parallel without a reason")

    def assigned(self, plan: Assign, scope: PlanScope, name: str, kind: str) -> None:
        self.scalar(plan, scope, name, kind)
        told = kind == "bool" and plan.value == lang.Constant(True)  # that something happened, whoever says it
        if scope.scalars[name][1] < len(scope.parallel) and not told:
            raise fault(plan, "iterations of a parallel loop have it in common")

    def combined(self, plan: Store, scope: PlanScope) -> None:
        """Iterations of a parallel loop that combine values in one place say how."""
        depth = scope.totals.get(plan.target.tensor, 0)
        together = (p for p in scope.parallel[depth:] if isinstance(p, Scan | Find))
        if any(p.partition is None or not p.partition.adds for p in together):
            if plan.target.tensor in scope.totals:
                raise fault(plan, "iterations of a parallel loop have it in common")
            self.apart(plan, scope, plan.target.place)

    def table(self, plan: Plan, scope: PlanScope, name: str, changes: bool = False) -> None:
        if name not in scope.tables:
            raise fault(plan, f"there is no table {name} yet")
        if changes and scope.tables[name] < len(scope.parallel):
            raise fault(plan, f"iterations of a parallel loop have the table {name} in common")

    def apart(self, plan: Store, scope: PlanScope, place: tuple[Expr, ...]) -> None:
        if scope.parallel and not scope.alone and not any(variables(p) & scope.varies for p in place):
            raise fault(plan, "iterations of a parallel loop store at one place")

    def above_loops(self, plan: Plan, scope: PlanScope) -> None:
        if scope.loop is not None:
            raise fault(plan, "it is made once, but stands in a loop")


def fault(node: Plan, what: str) -> InternalError:
    return WrongPlan(node, what)


__all__ = ["check_steps"]

"""Plans of steps after all rewrites: statements run at the points of regions that were compared.

Each nest of loops is compared with its region as it is made (meaning.py). In the whole plan each statement has to stand
within nests that are still those: all of their nodes are around it, in their order, and no other ones. Each value that
it reads or stores has to be one that such a nest has at its points, or that of an entry which was asked for and found;
entries come at the subscripts of the steps; each equation writes its target. What a rewrite has changed is not known
any more: it is counted, and nothing is claimed of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spfgen.facts.formula import Compare, Expr, Num, Var, substitute
from spfgen.ir import children, walk
from spfgen.lang.nodes import Access, Apply
from spfgen.plan.nodes import (
    Accumulate,
    Append,
    Array,
    Assign,
    Block,
    BoundSearch,
    Clear,
    Define,
    Find,
    Guard,
    If,
    Let,
    Load,
    Loaded,
    Plan,
    Probe,
    Products,
    RegisterTile,
    Scan,
    Segment,
    Store,
    UpdateEntry,
    Version,
    goes_on,
)
from spfgen.plan.verify.compared import Compared, MadeNest
from spfgen.plan.verify.unchanged import changed
from spfgen.space.nodes import Operand, Read, Steps
from spfgen.space.steps import Equation
from spfgen.space.typed import Holds

NOTHING = Block(())
EFFECTS = Assign | Store | UpdateEntry | Append | Let
Pending = tuple[Hashable, ...]


@dataclass(frozen=True)
class Unknown:
    """What nothing is known of in a plan: statements that are not within nests that were compared, values that are read
    or stored elsewhere than these say, nests that are gone."""

    statements: int = 0
    values: int = 0
    gone: int = 0
    changed: int = 0
    """Nodes that rewrites have changed (unchanged.py)."""

    def is_more_than(self, other: Unknown) -> bool:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return any(count > others for count, others in pairs)


def made_of(nodes: Sequence[Plan], does: Store) -> MadeNest:
    """A nest as it is used."""
    headers = tuple(h for n in nodes for h in [header(n)] if h is not None)
    means = _meanings(nodes)
    reads = (n.operand for n in walk(does.value) if isinstance(n, Read))
    return MadeNest(headers, tuple(_plain(o, means) for o in reads), False)


def header(node: Plan) -> Hashable | None:
    """A node of a nest without its body, and without what only makes it fast; None for one that stands for its body."""
    match node:
        case Scan(dim, low, high):
            return Scan(dim, low, high, NOTHING)
        case Find(dim, low, high, loads, conditions, _, _, miss, key=key, given=given) if miss is None:
            plain = tuple(Loaded(*x) for x in loads)
            return Find(dim, low, high, plain, conditions, "", NOTHING, key=key, given=given)
        case Define(dim, value, Plan()):
            return Define(dim, value, NOTHING)
        case Load(dim, call):
            return Load(dim, call, NOTHING)
        case Guard(conditions):
            return Guard(conditions, NOTHING)
        case BoundSearch() | Segment():
            return replace(node, body=NOTHING, because="")
    return None


def unknown_of(plan: Plan, compared: Compared, steps: Steps) -> Unknown:
    """What was not compared of a plan of steps."""
    check = _Nests([m for m in compared.made if m.is_known], _coordinates(steps))
    check.visit(plan, _Around())
    gone = [m for k, m in enumerate(check.made) if m.nodes and k not in check.seen]
    unread = check.operands - check.met
    lost = len(gone) + len(unread) + len(_not_written(plan, steps))
    return Unknown(check.statements, check.values, lost, sum(changed(p, plan) for p in compared.planned[-1:]))


def _coordinates(steps: Steps) -> frozenset[tuple[Any, ...]]:
    """The subscripts at which the steps read and write."""
    every = (n for step in steps.body for n in walk(step) if isinstance(n, Access | Equation))
    return frozenset(n.subscripts for n in every)


def _not_written(plan: Plan, steps: Steps) -> list[Equation]:
    """The equations of which nothing in the plan says that it writes their target."""
    written: dict[str, bool] = {}
    for block in (n for n in walk(plan, Plan | Version) if isinstance(n, Block) and n.because):
        does = any(isinstance(n, Store | UpdateEntry | Append | Clear) for n in walk(block, Plan | Version))
        written[block.because] = written.get(block.because, True) and does
    equations = (n for step in steps.body for n in walk(step) if isinstance(n, Equation))
    return [eq for eq in equations if not written.get(eq.text, False)]


@dataclass(frozen=True)
class _Around:
    """What is known at a statement. `pending` are the nodes around that are part of a nest which is not whole yet:
    every way to read them; `means` says what names are; `probes` are the tables of entries that were asked for, by the
    name of the entry, and `there` those of which it is known that there are."""

    pending: frozenset[Pending] = frozenset({()})
    means: Mapping[str, Expr] = field(default_factory=dict)
    probes: Mapping[str, str] = field(default_factory=dict)
    there: frozenset[str] = frozenset()

    def naming(self, dim: str, value: Expr) -> _Around:
        return replace(self, means={**self.means, dim: substitute(value, self.means)})


@dataclass
class _Nests:
    made: list[MadeNest]
    coordinates: frozenset[tuple[Any, ...]]
    seen: set[int] = field(default_factory=set)
    met: set[Hashable] = field(default_factory=set)
    unfilled: set[str] = field(default_factory=set)
    statements: int = 0
    values: int = 0

    def __post_init__(self) -> None:
        self.whole: dict[Pending, list[int]] = {}
        self.begun: set[Pending] = set()
        for k, nest in enumerate(self.made):
            self.whole.setdefault(nest.nodes, []).append(k)
            self.begun |= {nest.nodes[:n] for n in range(len(nest.nodes))}
        self.operands = {_key(o) for m in self.made for o in m.reads}
        self.coordinates |= {o.subscripts for m in self.made for o in m.reads}

    def visit(self, node: Plan | Version, around: _Around) -> None:
        match node:
            case Block(parts):
                for part in parts:
                    self.visit(part, around)
                    if goes_on(part):
                        around = around.naming(part.dim, part.value)
                    elif isinstance(part, Array) and part.fill is None:
                        self.unfilled.add(part.name)
                    elif isinstance(part, Probe):
                        self.at(part.at)
                        around = replace(around, probes={**around.probes, part.dim: part.name})
                return
            case Products():
                return
            case Accumulate(storage=RegisterTile()):
                assert node.meaning is not None
                self.visit(node.meaning, around)
                return
            case Load(dim, value) | Define(dim, value):
                around = around.naming(dim, value)
            case Find():
                around = replace(around, means=_meanings([node], around.means))
            case If(condition, then, otherwise):
                self.statement(node, around)
                self.visit(then, replace(around, there=around.there.union(_found(condition))))
                if otherwise is not None:
                    self.visit(otherwise, around)
                return
        head = header(node) if isinstance(node, Plan) else None
        if head is not None:
            assert isinstance(node, Plan)
            around = replace(around, pending=frozenset(self.within(head, around.pending, node)))
        if isinstance(node, EFFECTS) and getattr(node, "monoid", None) is None:  # else it is a path of its nest
            self.statement(node, around)
        for inner in children(node):
            if isinstance(inner, Plan | Version):
                self.visit(inner, around)

    def within(self, head: Hashable, pending: frozenset[Pending], node: Plan) -> Iterator[Pending]:
        for before in pending:
            now = (*before, head)
            if now in self.begun:
                yield now
            if now in self.whole:
                if any(isinstance(n, EFFECTS) for n in walk(node, Plan | Version)):
                    self.seen |= {*self.whole[now]}
                yield ()

    def statement(self, node: Plan, around: _Around) -> None:
        if () not in around.pending:
            self.statements += 1
        if isinstance(node, Store) and node.target.tensor in self.unfilled and _combines(node):
            self.values += 1  # with what holds nothing yet
        if isinstance(node, UpdateEntry):
            self.at(node.at)
        elif isinstance(node, Append):
            self.at(node.coordinates)
        expressions = [getattr(node, n) for n in ("value", "condition", "target") if hasattr(node, n)]
        for operand in (n for part in expressions for n in walk(part) if isinstance(n, Operand)):
            key = _key(_plain(operand, around.means))
            self.met.add(key)
            if operand.place and key not in self.operands and not self.is_entry(operand, around):
                self.values += 1

    def at(self, coordinates: tuple[Expr, ...]) -> None:
        """An entry is asked for, made or delivered."""
        if coordinates not in self.coordinates:
            self.values += 1

    def is_entry(self, operand: Operand, around: _Around) -> bool:
        """Whether it is the value of an entry that was asked for, and is there."""
        match operand.place:
            case (Var(name),):
                return around.probes.get(name) == operand.tensor and name in around.there
        return False


def _combines(store: Store) -> bool:
    """Whether a value is combined with the one that its place has."""
    return any(isinstance(n, Operand) and n.tensor == store.target.tensor for n in walk(store.value))


def _found(condition: Any) -> Iterator[str]:
    """The entries that are there if a condition holds."""
    match condition:
        case Holds(Compare(">=", Var(name), Num(0))):
            yield name
        case Apply("logical_and", arguments):
            for argument in arguments:
                yield from _found(argument)


def _meanings(nodes: Sequence[Plan], means: Mapping[str, Expr] | None = None) -> dict[str, Expr]:
    """What the names are that nodes read or compute."""
    meanings: dict[str, Expr] = dict(means or {})
    for node in nodes:
        match node:
            case Load(dim, value) | Define(dim, value):
                meanings[dim] = substitute(value, meanings)
            case Find(loads=loads):
                for dim, call in loads:
                    meanings[dim] = substitute(call, meanings)
    return meanings


def _plain(operand: Operand, means: Mapping[str, Expr]) -> Operand:
    """An operand whose place speaks of loops alone."""
    return replace(operand, place=tuple(substitute(p, means) for p in operand.place))


def _key(operand: Operand) -> Hashable:
    return operand.label, operand.tensor, operand.array, operand.place

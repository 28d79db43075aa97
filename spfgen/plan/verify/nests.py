"""Plans of steps, once all rewrites are through: what is done is done at the points of regions that were compared.

Each nest of loops is compared with its region as it is made (meaning.py). In the whole plan each statement has to stand
within nests that are still those: all of their nodes are around it, in their order, and no other ones. Each value that
it reads or stores has to be one that such a nest has at its points. What a rewrite has changed is not known any more:
it is counted, and nothing is claimed of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spfgen.facts.formula import Expr, substitute
from spfgen.ir import children, walk
from spfgen.plan.nodes import (
    Append,
    Assign,
    Block,
    Bound,
    Define,
    Do,
    Entry,
    Find,
    Guard,
    If,
    Let,
    Load,
    Loaded,
    Locate,
    Plan,
    Scan,
    Segment,
    Seq,
    Store,
    Version,
)
from spfgen.plan.verify.compared import Compared, Made
from spfgen.space.nodes import Operand, Read

NOTHING = Seq(())
EFFECTS = Assign | Store | Entry | Append | Let
Pending = tuple[Hashable, ...]


@dataclass(frozen=True)
class Unknown:
    """What nothing is known of in a plan: statements that are not within nests that were compared, values that are read
    or stored elsewhere than these say, nests that are gone."""

    statements: int = 0
    values: int = 0
    gone: int = 0

    def is_more_than(self, other: Unknown) -> bool:
        return self.statements > other.statements or self.values > other.values or self.gone > other.gone


def made_of(nodes: Sequence[Plan], does: Do) -> Made:
    """A nest as it is used."""
    headers = tuple(h for n in nodes for h in [header(n)] if h is not None)
    means = _meanings(nodes)
    reads = (n.operand for n in walk(does.value) if isinstance(n, Read))
    return Made(headers, tuple(_plain(o, means) for o in reads), False)


def header(node: Plan) -> Hashable | None:
    """A node of a nest without its body, and without what only makes it fast; None for one that stands for its body."""
    match node:
        case Scan(dim, low, high):
            return Scan(dim, low, high, NOTHING)
        case Find(dim, low, high, loads, conditions, _, _, miss, key=key, given=given) if miss is None:
            plain = tuple(Loaded(*x) for x in loads)
            return Find(dim, low, high, plain, conditions, "", NOTHING, key=key, given=given)
        case Locate(dim, value):
            return Locate(dim, value, NOTHING)
        case Load(dim, call):
            return Load(dim, call, NOTHING)
        case Guard(conditions):
            return Guard(conditions, NOTHING)
        case Bound() | Segment():
            return replace(node, body=NOTHING, because="")
    return None


def unknown_of(plan: Plan, compared: Compared) -> Unknown:
    """What was not compared of a plan of steps."""
    check = _Nests([m for m in compared.made if m.is_known])
    check.visit(plan, frozenset({()}), {})
    gone = [m for k, m in enumerate(check.made) if m.nodes and k not in check.seen]
    return Unknown(check.statements, check.values, len(gone))


@dataclass
class _Nests:
    made: list[Made]
    seen: set[int] = field(default_factory=set)
    statements: int = 0
    values: int = 0

    def __post_init__(self) -> None:
        self.whole: dict[Pending, list[int]] = {}
        self.begun: set[Pending] = set()
        for k, made in enumerate(self.made):
            self.whole.setdefault(made.nodes, []).append(k)
            self.begun |= {made.nodes[:n] for n in range(len(made.nodes))}
        self.operands = {_key(o): None for m in self.made for o in m.reads}

    def visit(self, node: Plan | Version, pending: frozenset[Pending], means: Mapping[str, Expr]) -> None:
        """`pending` are the nodes around that are part of a nest which is not whole yet: every way to read them."""
        match node:
            case Block(parts):
                for part in parts:
                    self.visit(part, pending, means)
                    if isinstance(part, Define):
                        means = {**means, part.dim: substitute(part.value, means)}
                return
            case Load(dim, call):
                means = {**means, dim: substitute(call, means)}
            case Locate(dim, value):
                means = {**means, dim: substitute(value, means)}
            case Find():
                means = {**means, **_meanings([node], means)}
        found = header(node) if isinstance(node, Plan) else None
        if found is not None:
            pending = frozenset(self.within(found, pending))
        if isinstance(node, EFFECTS | If):
            self.statement(node, pending, means)
        for inner in children(node):
            if isinstance(inner, Plan | Version):
                self.visit(inner, pending, means)

    def within(self, found: Hashable, pending: frozenset[Pending]) -> Iterator[Pending]:
        for before in pending:
            now = (*before, found)
            if now in self.begun:
                yield now
            if now in self.whole:
                self.seen |= {*self.whole[now]}
                yield ()

    def statement(self, node: Plan, pending: frozenset[Pending], means: Mapping[str, Expr]) -> None:
        if () not in pending:
            self.statements += 1
        own = [getattr(node, n) for n in ("value", "condition", "target") if hasattr(node, n)]
        for operand in (n for part in own for n in walk(part) if isinstance(n, Operand)):
            if operand.place and _key(_plain(operand, means)) not in self.operands:
                self.values += 1


def _meanings(nodes: Sequence[Plan], means: Mapping[str, Expr] | None = None) -> dict[str, Expr]:
    """What the names are that nodes read or compute."""
    found: dict[str, Expr] = dict(means or {})
    for node in nodes:
        match node:
            case Load(dim, value) | Locate(dim, value):
                found[dim] = substitute(value, found)
            case Find(loads=loads):
                for dim, call in loads:
                    found[dim] = substitute(call, found)
    return found


def _plain(operand: Operand, means: Mapping[str, Expr]) -> Operand:
    """An operand whose place speaks of loops alone."""
    return replace(operand, place=tuple(substitute(p, means) for p in operand.place))


def _key(operand: Operand) -> Hashable:
    return operand.label, operand.tensor, operand.array, operand.place

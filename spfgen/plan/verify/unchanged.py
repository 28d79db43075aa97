"""The nodes that rewrites have changed: the plan of steps before and after them, compared.

Names do not count: what a name stands for is read in its place. Nor does what only makes a loop fast, or how often
something stands there, if it is more often than before: loops are cut, and have the same body then. But no scalar may
be kept for more loops than before: it would begin an iteration with what another one has left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from spfgen.facts.formula import Compare, Num, Var
from spfgen.ir import children, walk
from spfgen.lang.nodes import Apply, Constant, Index
from spfgen.plan.nodes import (
    Assign,
    Block,
    Define,
    Find,
    If,
    InPlace,
    Let,
    Load,
    Plan,
    Products,
    Repeat,
    Scan,
    Version,
    Versions,
)
from spfgen.space.typed import Holds, Scalar

FAST = frozenset(
    "span because rejected partition parallel vector unroll pieces collapse ahead segment_keys chained private copies "
    "partial between flatten in_place exits loops algorithm rising shared additions".split()
)
"""Fields that say how fast something is, or why; check_steps.py, parallel.py and places.py look at those of threads."""
NAMES = Load | Define
BARE = Block | Version | Versions
"""Nodes that do nothing themselves."""


def changed(before: Plan, after: Plan) -> int:
    """How many nodes the plan has that the one before has not, and how many of that one it lacks."""
    forms = _Forms()
    was, now = (_Facts(forms, plan).counted() for plan in (before, after))
    loops, more_loops = _kept(before), _kept(after)
    longer = sum(more_loops[name] > n for name, n in loops.items())
    return sum(n for fact, n in now.items() if fact not in was) + sum((was - now).values()) + longer


def _kept(plan: Plan) -> Counter[str]:
    """Over how many loops each scalar keeps what it is assigned."""
    begun: dict[str, int] = {}
    kept: Counter[str] = Counter()

    def visit(node: Any, loops: int) -> None:
        inside = loops + isinstance(node, Scan | Repeat)
        for scalar in (node, *(node.private if isinstance(node, Scan) else ())):
            if isinstance(scalar, Let):
                begun[scalar.name] = inside
        if isinstance(node, Assign) and node.name in begun:
            kept[node.name] = max(kept[node.name], loops - begun[node.name])
        for part in children(node):
            if isinstance(part, Plan | Version):
                visit(part, inside)

    visit(plan, 0)
    return kept


@dataclass
class _Forms:
    """Values by what they are made of, numbered: those that are the same have one number."""

    numbers: dict[Hashable, int] = field(default_factory=dict)

    def of(self, value: Any, known: Mapping[str, int]) -> Hashable:
        match value:
            case Var(name) | Scalar(name) if name in known:
                return known[name]
            case tuple():
                return tuple([self.of(v, known) for v in value])
        if not is_dataclass(value):
            return type(value), repr(value)
        parts = tuple([self.of(getattr(value, name), known) for name in _FIELDS[type(value)]])
        return self.numbers.setdefault((type(value), parts), len(self.numbers))

    def number(self, value: Any, known: Mapping[str, int]) -> int:
        form = self.of(value, known)
        return form if isinstance(form, int) else self.numbers.setdefault(form, len(self.numbers))


@dataclass
class _Facts:
    """What the nodes of a plan say, each with what names stand for there. Positions that are found before a loop are
    `held` in scalars, which are -1 where there is none: what asks for one, and names it again, says nothing new. Nor
    does what asks whether a loop has an iteration: `some` are these conditions."""

    forms: _Forms
    plan: Plan
    some: set[Hashable] = field(default_factory=set)

    def __post_init__(self) -> None:
        assigned = [n for n in walk(self.plan, Plan | Version) if isinstance(n, Assign)]
        self.moving = {n.name for n in assigned}
        times = Counter(n.name for n in assigned)
        finds = [n for n in walk(self.plan, Plan | Version) if isinstance(n, Find) and _is_held(n)]
        hits = Counter(n.hit.name for n in finds if isinstance(n.hit, Assign))
        self.held = {
            n.hit.name: n.dim for n in finds if isinstance(n.hit, Assign) and hits[n.hit.name] == times[n.hit.name]
        }

    def counted(self) -> Counter[Hashable]:
        counts = Counter(self.of(self.plan, {}))
        return Counter({f: n for f, n in counts.items() if f not in self.some})

    def of(self, node: Any, known: Mapping[str, int]) -> Iterator[Hashable]:
        match node:
            case Products():  # compared with its instances (whole.py)
                return
            case InPlace(body=body):  # how entries get to their places: what is appended is the same
                yield from self.of(body, known)
                return
            case Block(parts):
                for part in parts:
                    yield from self.of(part, known)
                    known = self.naming(part, known)
                return
            case If(condition, then, otherwise):
                for one in _conjuncts(condition):
                    name = self.asked(one)
                    known = {**known, f"{name} is there": 0} if name else known
                    if not name:
                        yield If, self.forms.of(one, known)
                yield from self.of(then, known)
                if otherwise is not None:
                    yield from self.of(otherwise, known)
                return
            case Scan(private=private):
                known = {k: v for k, v in known.items() if k not in {p.name for p in private}}
                some = node.has_iterations
                self.some.add((If, self.forms.of(Holds(some), known)))
        inner = self.naming(node, known)
        if not isinstance(node, BARE | NAMES) and not self.is_name(node):
            names = [n for n in _FIELDS[type(node)] if not _is_plan(getattr(node, n))]
            yield type(node), tuple(self.forms.of(getattr(node, n), inner) for n in names)
        for name in _FIELDS[type(node)]:
            value = getattr(node, name)
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Plan | Version):
                    yield from self.of(part, inner)

    def asked(self, condition: Any) -> str:
        """The position of which it is asked whether there is one; empty for other conditions."""
        match condition:
            case Holds(Compare(">=", Var(name), Num(0))) if name in self.held:
                return name
        return ""

    def is_name(self, node: Any) -> bool:
        """Whether a node only gives something a name."""
        match node:
            case Let(name, value=Constant(-1)) if name in self.held:
                return True
            case Let(name):
                return name not in self.moving
            case Assign(name):
                return name in self.held
        return False

    def naming(self, node: Any, known: Mapping[str, int]) -> Mapping[str, int]:
        """With what a node gives a name to."""
        match node:
            case Define(dim, Var(name)) if self.held.get(name) == dim and f"{name} is there" in known:
                return {k: v for k, v in known.items() if k != dim}
            case Load(dim, value) | Define(dim, value):
                return {**known, dim: self.forms.number(value, known)}
            case Let(name, value=value) if name not in self.moving:
                return {**known, name: self.forms.number(value, known)}
            case Find(loads=loads):
                for dim, call in loads:
                    known = {**known, dim: self.forms.number(call, known)}
        return known


def _is_held(find: Find) -> bool:
    """Whether a scalar holds the position, and nothing else is done with it."""
    return isinstance(find.hit, Assign) and find.hit.value == Index(Var(find.dim)) and find.miss is None


def _conjuncts(condition: Any) -> Iterator[Any]:
    match condition:
        case Apply("logical_and", arguments):
            for argument in arguments:
                yield from _conjuncts(argument)
        case _:
            yield condition


class _Names(dict[type, tuple[str, ...]]):
    """The fields of each class of nodes that say what it does."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        names = self[kind] = tuple(f.name for f in fields(kind) if f.name not in FAST)
        return names


_FIELDS = _Names()


def _is_plan(value: Any) -> bool:
    return isinstance(value, Plan | Version) or (
        isinstance(value, tuple) and bool(value) and isinstance(value[0], Plan | Version)
    )

"""Merges: tensors that deliver one coordinate in order advance together.

A stream is a loop over positions along which a coordinate is proved to rise strictly. Where each region of a value is
one such stream, all of them are gone through at once, whatever their number: the least coordinate is next, those that
are there have a value, all others their fill. The code grows with the number of streams, not with their combinations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

from spfgen.errors import SpfgenError
from spfgen.facts.formula import And, Bin, Compare, Expr, Formula, Var, rename, substitute
from spfgen.facts.prove import implied
from spfgen.lang import nodes as lang
from spfgen.plan.depend import known_of_points
from spfgen.plan.drivers import driven
from spfgen.plan.nodes import (
    Assign,
    Block,
    Break,
    Define,
    Do,
    If,
    Let,
    Load,
    Locate,
    Plan,
    Repeat,
    Scan,
    Segment,
    chain,
    with_body,
)
from spfgen.plan.scan import Step, sources
from spfgen.plan.simplify import simplify
from spfgen.plan.steps.env import Env, Leaf, joined, key_of, number_of
from spfgen.plan.steps.tables import Tables
from spfgen.space.nodes import Instance, Read
from spfgen.space.regions import Region
from spfgen.space.typed import Holds, Scalar

LAST = 2**63 - 1
"""No coordinate: that of a stream that has run out."""


@dataclass(frozen=True)
class Stream:
    """Positions from `low` to before `high` of a tensor: `coordinate` rises strictly along them. `before` is what is
    read or computed first."""

    access: lang.Access
    before: tuple[Plan, ...]
    position: str
    low: Expr
    high: Expr
    coordinate: Expr
    read: Read


class Merging(Tables):
    """Merges of streams."""

    def merged(
        self,
        found: Sequence[Region],
        indices: Sequence[str],
        conditions: Sequence[Formula],
        leaf: Leaf,
        env: Env,
        distinct: Sequence[Expr] | None,
    ) -> list[Plan] | None:
        """The leaf once at each point that one of the regions has, by a merge; None where they are no streams."""
        plain = all(len(r.accesses) == 1 and not r.links and not r.where for r in found)
        if not self.context.level or len(found) < 2 or not plain or self.context.named:
            return None
        accesses = [r.accesses[0] for r in found]
        if any(key_of(a) in env.values or key_of(a) in env.absent for a in accesses):
            return None
        for index in reversed([i for i in indices if i in self.extents]):
            outer = [i for i in indices if i != index]
            if not all(self.indices_in(a) <= env.known | {*outer, index} for a in accesses):
                continue
            here = env.knowing(outer)
            streams = self.streams(accesses, index, here)
            if streams is None:
                continue
            inside = [c for c in conditions if index in self.indices_of(c)]
            around = tuple(c for c in conditions if c not in inside)
            if not all(self.is_affine(c) for c in around):
                return None

            advance = partial(self.advancing, streams, index, inside, leaf)
            if not outer and not around:
                return [advance(env)]
            return self.nests((), tuple(outer), around, advance, env, distinct)
        return None

    def streams(self, accesses: Sequence[lang.Access], index: str, env: Env) -> list[Stream] | None:
        labels = set(self.labels)
        found: list[Stream] = []
        for access in accesses:
            stream = self.stream(access, index, env)
            if stream is None:
                self.labels = labels
                return None
            found.append(stream)
        return found

    def stream(self, access: lang.Access, index: str, env: Env) -> Stream | None:
        """An access as a stream of the index, the others known."""
        if [s for s in access.subscripts if s == Var(index)] != [Var(index)] or index in env.known:
            return None
        if any(index in self.indices_in(lang.Access("", (s,))) for s in access.subscripts if s != Var(index)):
            return None
        try:
            instances = list(self.instances((access,), (index,), (), env))
        except SpfgenError:
            return None
        if len(instances) != 1 or instances[0].guards:
            return None
        instance = self.pointed(instances[0], (index,))
        steps = driven(instance, self.context)[0]
        scans = [s for s in steps if s.kind == "scan"]
        if len(scans) != 1 or scans[0].dim == index or not rises(instance, steps, scans[0].dim, index):
            return None
        nodes = list(chain(simplify(self.arranged(instance, env, None), (index, *sorted(env.known)))))
        at = next((k for k, n in enumerate(nodes) if isinstance(n, Scan)), None)
        if at is None or not isinstance(nodes[-1], Do):
            return None
        before, scan, after, does = nodes[:at], nodes[at], nodes[at + 1 : -1], nodes[-1]
        plain = all(isinstance(n, Load | Locate) for n in after)
        if not plain or not all(isinstance(n, Load | Locate | Segment) and not _is_kept(n) for n in before):
            return None
        values: dict[str, Expr] = {}
        for node in after:
            assert isinstance(node, Load | Locate)
            values[node.dim] = substitute(node.call if isinstance(node, Load) else node.value, values)
        assert isinstance(scan, Scan)
        assert isinstance(does.value, lang.Apply)
        (coordinate,) = does.target.place
        read = substitute(does.value.arguments[0], values)
        low = reduce(lambda a, b: Bin("max", a, b), scan.low)
        high = reduce(lambda a, b: Bin("min", a, b), scan.high)
        return Stream(access, tuple(before), scan.dim, low, high, substitute(coordinate, values), read)

    def advancing(
        self, streams: Sequence[Stream], index: str, conditions: Sequence[Formula], leaf: Leaf, env: Env
    ) -> Plan:
        """The streams gone through together, the other indices known."""
        following = Scalar(self.fresh(f"{index}_next"), "int64")
        lines: list[Plan] = [Let(s.position, "int64", lang.Index(s.low)) for s in streams]
        turn: list[Plan] = [Let(following.name, "int64", number_of(LAST, "int64"))]
        for s in streams:
            least = lang.Apply("minimum", (following, lang.Index(s.coordinate)))
            turn.append(If(Holds(_left(s)), Assign(following.name, "int64", least)))
        turn.append(If(lang.Apply("equal", (following, number_of(LAST, "int64"))), Break(), None, "all have run out"))
        turn.append(Define(index, Var(following.name)))
        values: dict[tuple[str, tuple[Expr, ...]], object] = {}
        steps: list[Plan] = []
        for s in streams:
            tensor = self.tensors[s.access.tensor]
            there = Scalar(self.fresh(f"{s.access.tensor}_there"), "bool")
            value = Scalar(self.fresh(f"{s.access.tensor}_value"), tensor.value_type)
            here = Holds(And((_left(s), Compare("=", s.coordinate, Var(index)))))
            turn += [
                Let(there.name, "bool", here),
                Let(value.name, value.type, number_of(tensor.layout.fill, value.type)),
                If(there, Assign(value.name, value.type, s.read)),
            ]
            values[key_of(s.access)] = value
            values[f"{s.access.tensor}?", s.access.subscripts] = there
            forward = lang.Apply("add", (Scalar(s.position, "int64"), lang.Constant(1)))
            steps.append(If(there, Assign(s.position, "int64", forward)))
        inner = leaf(env.knowing([index]).having(values))
        tests = [Holds(c) for c in conditions]
        if tests:
            inner = If(joined("logical_and", tests), inner)
        names = ", ".join(s.access.tensor for s in streams)
        why = f"{names} deliver {index} in order: they are merged"
        result: Plan = Block((*lines, Repeat(Block((*turn, inner, *steps)), why)))
        done: set[str] = set(env.loaded)
        for node in reversed([n for s in streams for n in s.before]):
            result = with_body(node, result)
        return _once(result, done)


def _once(plan: Plan, done: set[str]) -> Plan:
    """Without what is loaded a second time, or was further out."""
    if isinstance(plan, Load | Locate):
        inner = _once(plan.body, done | {plan.dim})
        return inner if plan.dim in done else with_body(plan, inner)
    return with_body(plan, _once(plan.body, done)) if isinstance(plan, Segment) else plan


def _is_kept(node: Plan) -> bool:
    """Whether a segment goes on from where another iteration left it."""
    return isinstance(node, Segment) and bool(node.place)


def _left(stream: Stream) -> Formula:
    return Compare("<", Var(stream.position), stream.high)


def rises(instance: Instance, steps: Sequence[Step], position: str, index: str) -> bool:
    """Whether the index is proved to rise strictly along a position."""
    near = {*sources(steps, {position, index}), *(s.dim for s in steps if s.dim)}
    names = {n: f"{n}'" for n in near - set(instance.sizes)}
    one = known_of_points(instance, steps, near)
    two = [rename(f, names) for f in one]
    if position not in names:
        return False
    later = Compare("<", Var(position), Var(names[position]))
    about = f"{index} along {position}: strictly rising"
    goal = Compare("<", Var(index), Var(names.get(index, index)))
    return implied([*one, *two, later], instance.axioms, goal, about=about).proved

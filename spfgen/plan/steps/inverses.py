"""Inverted gathers: for each stored A[i, k], `A[i, p[j]]` is at the j with p[j] = k.

Which j these are is a list for each k, made once: the last one, and for each j the one before it with the same value.
The same lists say which point is the last that writes to a place of `B[q[i], q[j]] = A[i, j]`, so that what A stores
drives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spfgen.facts.formula import ONE, ZERO, Bin, Expr, Formula, Var, rename, within
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.plan.choices import INVERSES
from spfgen.plan.context import Context
from spfgen.plan.nodes import Assign, Block, Break, Find, If, Let, Plan, Repeat, Segment
from spfgen.plan.steps.env import OUTSIDE, Env, Leaf
from spfgen.plan.steps.nests import names_in
from spfgen.plan.steps.stores import Stores
from spfgen.space.nodes import Program, Steps, extent_value
from spfgen.space.regions import Region
from spfgen.space.steps import Equation, GatherLink
from spfgen.space.typed import Holds, Scalar

PLAIN = lang.Access | lang.Apply | lang.Constant | lang.Index | Expr
"""What a value consists of that is the same wherever its index is."""


class Inverses(Stores):
    """Gathers from the side of what is stored."""

    def __init__(self, steps: Steps, program: Program, context: Context) -> None:
        super().__init__(steps, program, context)
        self.inverses: dict[tuple[Any, Any], tuple[str, str]] = {}
        """The arrays of the first places and the next ones, by the value and the extents of what it leads to."""

    def led_by_a_value(
        self,
        gathers: Sequence[GatherLink],
        region: Region,
        indices: Sequence[str],
        conditions: Sequence[Formula],
        leaf: Leaf,
        env: Env,
        distinct: Sequence[Expr] | None,
    ) -> list[Plan]:
        """The same, where it has to look for what is stored: that drives, and leads to the places whose values it has.
        A value whose loop leaves nothing to be looked for goes first."""
        inverted = [self.inverted_index(k, gathers, region, indices, env) for k in gathers]
        plain = not conditions and not region.where and not env.order and self.context.makes(INVERSES)
        self.indices |= {k.name for k in gathers}
        if (
            plain
            and all(isinstance(k, GatherLink) for k in region.links)
            and all(inverted)
            and len({*inverted}) == len(inverted)
        ):
            leading = next((k for k in gathers if not self.looks_for(region, env.knowing([k.name]))), None)
            if leading is None and not self.looks_for(region, env):
                return self.from_what_is_stored(gathers, [i for i in inverted if i], region, indices, leaf, env)
            if leading is not None:
                gathers = (leading, *(k for k in gathers if k is not leading))
        return super().led_by_a_value(gathers, region, indices, conditions, leaf, env, distinct)

    def inverted_index(
        self, gather: GatherLink, gathers: Sequence[GatherLink], region: Region, indices: Sequence[str], env: Env
    ) -> str | None:
        """The one index that the value speaks of, which nothing else of the region does."""
        names = names_in(gather.at) & self.indices
        others = {n for a in region.accesses for n in self.indices_in(a)}
        others |= {n for k in gathers if k is not gather for n in names_in(k.at)}
        if len(names) != 1 or names & env.known or names & others or not names <= {*indices} & self.extents.keys():
            return None
        if any(not isinstance(n, PLAIN) for n in walk(gather.at)) or Var(gather.name) not in gather.access.subscripts:
            return None
        read = {n.tensor for n in walk(gather.at) if isinstance(n, lang.Access)}
        return None if read & self.written or not read <= self.dense else names.pop()

    def last_writers(self, eq: Equation, access: lang.Access) -> list[tuple[GatherLink, str]] | None:
        """Of an equation that writes to places that are values, each of which speaks of one index: these, where a point
        is the last one that writes to its place if it is the last one for each of its indices. None: not so."""
        gathers = [GatherLink(p.name, p.value, access) for p in eq.at]
        direct = [s.name for s in eq.subscripts if isinstance(s, Var) and s.name in eq.indices]
        region = Region((lang.Access(eq.target, tuple(map(Var, direct))),))
        indices_of_gathers = [self.inverted_index(k, gathers, region, eq.indices, Env()) for k in gathers]
        inverted = [i for i in indices_of_gathers if i is not None]
        if len(inverted) < len(indices_of_gathers) or len(inverted) + len(direct) < len(eq.subscripts):
            return None
        if {*inverted, *direct} != {*eq.indices}:
            return None
        return list(zip(gathers, inverted, strict=True))

    def is_last(self, writers: Sequence[tuple[GatherLink, str]], env: Env) -> tuple[list[Plan], list[Any]]:
        """Whether nothing is written to the place of a point later, for each of its indices."""
        lines: list[Plan] = []
        tests: list[Any] = []
        for gather, index in writers:
            more, last, env = self.computed(lang.Access(self.inverse(gather, index)[0], (Var(gather.name),)), env)
            lines += more
            tests.append(lang.Apply("equal", (last, lang.Index(Bin("+", Var(index), ONE)))))
        return lines, tests

    def looks_for(self, region: Region, env: Env) -> bool:
        """Whether a nest of the accesses looks for something, where the names are known."""
        labels = set(self.labels)
        nests = self.nests(region.accesses, (), (), lambda _: Block(()), Env(env.known, parallel=False))
        self.labels = labels
        return any(isinstance(n, Find | Segment) for p in nests for n in walk(p, Plan))

    def from_what_is_stored(
        self,
        gathers: Sequence[GatherLink],
        inverted: Sequence[str],
        region: Region,
        indices: Sequence[str],
        leaf: Leaf,
        env: Env,
    ) -> list[Plan]:
        lists = [self.inverse(k, i) for k, i in zip(gathers, inverted, strict=True)]

        def inside(inner: Env, level: int = 0) -> Plan:
            if level == len(gathers):
                return leaf(inner)
            (first, following), gather, index = lists[level], gathers[level], inverted[level]
            at, left = Scalar(self.fresh(f"{index}_next"), "int64"), Scalar(self.fresh(f"{index}_before"), "int64")
            lines, start, inner = self.computed(lang.Access(first, (Var(gather.name),)), inner)
            known = inner.knowing([index])
            more, after, known = self.computed(lang.Access(following, (Var(index),)), known)
            ends = If(lang.Apply("equal", (at, lang.Constant(0))), Break())
            this = Let(index, "int64", lang.Apply("subtract", (at, lang.Constant(1))))
            body = inside(known, level + 1)
            steps = (ends, this, *more, Let(left.name, "int64", after), body, Assign(at.name, "int64", left))
            why = f"the places whose value is {gather.name}"
            return Block((*lines, Let(at.name, "int64", start), Repeat(Block(steps), why)))

        other_indices = [i for i in indices if i not in inverted]
        return self.driven_by(Region(region.accesses), other_indices, (), inside, env)

    def inverse(self, gather: GatherLink, index: str) -> tuple[str, str]:
        """The arrays for a value: where each of its numbers stands last, and before each place the one with the same
        number; places count from 1, 0 is none."""
        tensor = self.tensors[gather.access.tensor]
        ends = [e for s, e in zip(gather.access.subscripts, tensor.extents, strict=True) if s == Var(gather.name)]
        key = (rename(gather.at, {index: "index"}), (*ends, self.extents[index], gather.checked))
        arrays = self.inverses.get(key)
        if arrays is not None and arrays[0] in self.tensors:
            return arrays
        place, value = self.fresh(f"{index}_place"), self.fresh(f"{gather.name}_value")
        self.indices |= {place, value}
        self.extents[place] = self.extents[index]
        first, following = self.fresh(f"last_{index}"), self.fresh(f"before_{index}")
        self.own(first, "int64", 0, ends[:1])
        self.own(following, "int64", 0, [self.extent_name(index)])
        head, tail = lang.Access(first, (Var(value),)), lang.Access(following, (Var(place),))
        before = Scalar(self.fresh("before"), "int64")
        numbers = [extent_value(e, self.program.sizes.fixed) for e in ends]

        def leaf(inner: Env) -> Plan:
            lines, number = self.point_value(rename(gather.at, {index: place}), inner)
            known = inner.knowing([value])
            more, old, known = self.computed(head, known)
            own_place = lang.Apply("add", (lang.Index(Var(place)), lang.Constant(1)))
            put: list[Plan] = [Let(before.name, "int64", old)]
            put += self.stored(Equation(first, head.subscripts, (), None), head, own_place, known)
            put += self.stored(Equation(following, tail.subscripts, (), None), tail, before, known)
            inside = Holds(within(Var(value), ZERO, numbers[0]))
            missed = Block((Assign(OUTSIDE, "bool", lang.Constant(True)),)) if gather.checked else None
            return Block((*lines, Let(value, "int64", number), If(inside, Block((*more, *put)), missed)))

        self.refuses = self.refuses or gather.checked
        nests = self.nests((), (place,), (), leaf, Env(parallel=False))
        self.before.append(Block(tuple(nests), f"where each number of {index} stands"))
        self.inverses[key] = first, following
        return first, following

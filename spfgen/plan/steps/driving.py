"""Which of several accesses drive: all of them in one nest, or one alone, which the others are looked up for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from spfgen.facts.formula import Expr, Formula
from spfgen.lang import nodes as lang
from spfgen.plan.analyse.comparisons import compares_all
from spfgen.plan.nodes import Block, If, Plan
from spfgen.plan.steps.env import Env, Leaf, joined, key_of
from spfgen.plan.steps.tables import Tables
from spfgen.space.regions import Region


class Driving(Tables):
    """Which of several accesses drive: all of them in one nest, or one alone, which the others are looked up for."""

    def driven_by(
        self,
        region: Region,
        indices: Sequence[str],
        conditions: Sequence[Formula],
        leaf: Leaf,
        env: Env,
        distinct: Sequence[Expr] | None = None,
    ) -> list[Plan]:
        """The leaf at each point that the region has. Where a nest of all accesses compares all that one tensor stores
        with all that another does, one drives alone, if that spares the comparison."""
        restore = self.kept()
        usual = partial(super().driven_by, region, indices, conditions, leaf, env, distinct)
        nests = usual()
        if len(region.accesses) < 2 or region.links or not compares_all(nests, self.nest_context.stored):
            return nests
        for access in region.accesses:
            others = [a for a in region.accesses if a is not access]
            is_known = key_of(access) in env.values or key_of(access) in env.absent
            if is_known or any(not self.indices_in(a) <= self.indices_in(access) | env.known for a in others):
                continue
            restore()
            alone = replace(region, accesses=(access,))
            nests = self.driven_by_one(alone, others, indices, conditions, leaf, env, distinct)
            if not compares_all(nests, self.nest_context.stored):
                return nests
        restore()
        return usual()

    def driven_by_one(
        self,
        region: Region,
        others: Sequence[lang.Access],
        indices: Sequence[str],
        conditions: Sequence[Formula],
        leaf: Leaf,
        env: Env,
        distinct: Sequence[Expr] | None,
    ) -> list[Plan]:
        """The leaf at those points of the region's one access at which the others store something."""

        def inside(inner: Env) -> Plan:
            lines: list[Plan] = []
            flags = []
            for access in others:
                more, flag, inner = self.looked_up(access, inner)
                lines += more
                flags.append(flag)
            return Block((*lines, If(joined("logical_and", flags), leaf(inner))))

        return super().driven_by(region, indices, conditions, inside, env, distinct)

"""Guard hoisting: one test at the end of a segment replaces the tests at its other positions.

    for p in [begin, end) { j = f(p); if j < i { s += a[p]*x[j] }; if j = i { d += a[p] } }

What a triangle does not need is mostly not stored either, so that each row ends with its diagonal. Where j = i holds at
the last position, Z3 proves from the declared properties that j < i holds at all others: the loop over them asks
nothing, and how long it is does not depend on what it reads. Elsewhere every position is asked.

That a segment ends so cannot be known, but is to be expected where all that comes after such a position would do
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spfgen.facts.formula import ONE, Bin, Compare, Expr, Formula, Not, Var, conjunction, rename, show, substitute
from spfgen.facts.prove import Facts, implied
from spfgen.plan.analyse.known import Around, known_in, known_within, rewritten
from spfgen.plan.nodes import Block, Define, Guard, Load, Plan, Scan, lookups_of, specialised, with_body
from spfgen.plan.transform.simplify import without_unused

_WORDS = {"<": "before", ">": "after"}


def with_hoisted_guards(plan: Plan, facts: Facts, known: Sequence[Formula]) -> Plan:
    """The plan with such loops asked at their ends; `known` is what holds around it."""

    def change(node: Plan, around: Around) -> Plan | None:
        if not isinstance(node, Scan):
            return None
        loop = _loop(node, facts, [*known, *known_within(around)])
        return None if loop is None else loop.asked() or node

    return rewritten(change, plan)


def _loop(scan: Scan, facts: Facts, known: Sequence[Formula]) -> _Loop | None:
    """The loop, if it runs one iteration after the other and every part of it is asked for."""
    if scan != Scan(scan.dim, scan.low, scan.high, scan.body, because=scan.because, down=scan.down):
        return None
    looked_up, node = lookups_of(scan.body)
    parts = node.parts if isinstance(node, Block) else (node,)
    guards = tuple(n for n in parts if isinstance(n, Guard))
    if len(guards) < len(parts) or len(scan.low) != 1 or len(scan.high) != 1:
        return None
    return _Loop(scan, tuple(looked_up), guards, facts, tuple(known))


@dataclass(frozen=True)
class _Loop:
    """What is looked up at each position, and the parts of the body."""

    scan: Scan
    looked_up: tuple[Load | Define, ...]
    parts: tuple[Guard, ...]
    facts: Facts
    known: tuple[Formula, ...]

    def asked(self) -> Plan | None:
        """The loop behind the question whether what one of its parts asks for holds at its end."""
        for part in self.parts:
            if any(isinstance(f, Compare) and f.op == "=" for f in part.conditions):
                others = [self.answered(part, p, ">" if self.scan.down else "<") for p in self.parts]
                beyond = [self.answered(part, p, "<" if self.scan.down else ">") for p in self.parts]
                if None not in others and not any(f is None or f for f in beyond):
                    return self.split(part, [bool(f) for f in others])
        return None

    def answered(self, end: Guard, part: Guard, side: str) -> bool | None:
        """True or False if the guard of `part` provably holds at all, or at no, positions on `side` of the one where
        the guard of `end` holds; None if neither is proved."""
        varying = {self.scan.dim, *(n.dim for n in self.looked_up)}
        there = {n: f"{n}'" for n in varying}
        here = [f for node in (self.scan, *self.looked_up) for f in known_in(node)]
        assumptions = [
            *self.known,
            *here,
            *(rename(f, there) for f in (*here, *end.conditions)),
            Compare(side, Var(self.scan.dim), Var(there[self.scan.dim])),
        ]
        condition = conjunction(part.conditions)
        about = f"with {show(conjunction(end.conditions))} at one {self.scan.dim}, all {_WORDS[side]} it"
        if implied(assumptions, self.facts, Not(condition), about=about).proved:
            return False
        return True if implied(assumptions, self.facts, condition, about=about).proved else None

    def at_end(self, end: Guard, part: Guard) -> Plan | None:
        """What a part does at a position where another one runs: nothing where its conditions cannot hold there."""
        if part.conditions == end.conditions:
            return part.body
        known = [*self.known, *end.conditions]
        condition = conjunction(part.conditions)
        about = f"{show(condition)} where {show(conjunction(end.conditions))}"
        if implied(known, self.facts, Not(condition), about=about).proved:
            return None
        return part.body if implied(known, self.facts, condition, about=about).proved else part

    def split(self, end: Guard, others: Sequence[bool]) -> Plan:
        """The loop without its last iteration, and that one, where it is as expected; else the loop."""
        scan = self.scan
        low, high = scan.low[0], scan.high[0]
        place: Expr = low if scan.down else Bin("-", high, ONE)
        there: dict[str, Expr] = {scan.dim: place}
        for node in self.looked_up:
            there[node.dim] = substitute(node.call if isinstance(node, Load) else node.value, there)
        others_loop = replace(
            scan, body=self.above([p.body for p, runs in zip(self.parts, others, strict=True) if runs])
        )
        others_loop = (
            replace(others_loop, low=(Bin("+", low, ONE),)) if scan.down else replace(others_loop, high=(place,))
        )
        at_end = [body_at_end for p in self.parts if (body_at_end := self.at_end(end, p)) is not None]
        last = substitute(self.above(at_end), {scan.dim: place})
        when = (Compare("<", low, high), *(substitute(f, there) for f in end.conditions))
        asked = " and ".join(map(show, end.conditions))
        why = f"the last entry has {asked}: the others need no test"
        return specialised(when, without_unused(Block((others_loop, last))), scan, why, by_order=True)

    def above(self, parts: Sequence[Plan]) -> Plan:
        """The parts behind what is looked up."""
        result = parts[0] if len(parts) == 1 else Block(tuple(parts))
        for node in reversed(self.looked_up):
            result = with_body(node, result)
        return result

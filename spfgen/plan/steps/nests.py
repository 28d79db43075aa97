"""Nests of loops over the points at which accesses store something, and links between indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from spfgen.errors import InternalError
from spfgen.facts.formula import (
    ONE,
    ZERO,
    Bin,
    Compare,
    Expr,
    Formula,
    Num,
    Var,
    conjunction,
    conjuncts,
    variables,
    within,
)
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.plan.analyse.depend import distinct_by_facts, distinct_places
from spfgen.plan.analyse.injective import with_equal_positions
from spfgen.plan.analyse.lexicographic import is_in_order
from spfgen.plan.analyse.scan import Step, sources, wrapped
from spfgen.plan.build.drivers import driven, least_work
from spfgen.plan.build.nest import build_nest, known_at, stored_at
from spfgen.plan.choices import LOOKUP_EXITS
from spfgen.plan.context import Context
from spfgen.plan.finds.choose import choose_once
from spfgen.plan.nodes import Block, Define, Find, If, Load, Plan, Scan, Store, chain, with_body
from spfgen.plan.steps.env import POINT, Env, Leaf, OutOfOrder, Reads, joined, key_of
from spfgen.plan.steps.schedule_clauses import names_in_text, scheduled_nests
from spfgen.plan.steps.state import PlannerState
from spfgen.plan.transform.early_exit import with_early_exits
from spfgen.plan.transform.partition import partitioned
from spfgen.plan.transform.simplify import simplify
from spfgen.plan.verify import compared
from spfgen.plan.verify.meaning import check_nest, paths
from spfgen.plan.verify.nests import made_of
from spfgen.space.extents import Ranges
from spfgen.space.instances import make_instances
from spfgen.space.nodes import Instance, Program, Steps, value_of
from spfgen.space.regions import Region
from spfgen.space.steps import GatherLink, Link, Tie
from spfgen.space.typed import Holds

NOWHERE = lang.Access(POINT, ())


class NestPlanner(PlannerState):
    """Nests of loops over the points at which accesses store something, and links between indices."""

    def __init__(self, steps: Steps, program: Program, context: Context) -> None:
        super().__init__(steps, program, context)
        self.scanned: dict[str, tuple[Instance, tuple[Step, ...]]] = {}
        """The points of the nest that a loop is in, by the name of the loop."""
        self.named: dict[str, str] = {}
        """What the text calls the dimensions of nests."""

    def tells_apart(self, loop: str, at: Sequence[Expr]) -> bool:
        """Whether iterations of a loop with different values come by different coordinates."""
        if loop not in self.scanned:
            return False
        instance, steps = self.scanned[loop]
        written = _writing(instance, at)
        return distinct_places(written, loop) or distinct_by_facts(written, loop, steps)

    def driven_by(
        self,
        region: Region,
        indices: Sequence[str],
        conditions: Sequence[Formula],
        leaf: Leaf,
        env: Env,
        distinct: Sequence[Expr] | None = None,
    ) -> list[Plan]:
        """The leaf at each point that the region has. Links lead from what drives to the indices, or back."""
        gathers = [k for k in region.links if isinstance(k, GatherLink) and k.name not in env.known]
        if gathers:
            return self.led_by_a_value(gathers, region, indices, conditions, leaf, env, distinct)
        links = [k for k in region.links if not isinstance(k, GatherLink)]
        conditions = (*conditions, *region.where)
        lines, env = self.linked(links, env, partly=True)
        at_hand = self.at_hand(region.accesses, env)
        if at_hand is None:
            return []
        before, flags, unknown_accesses, env = at_hand
        lines += before
        pending = [link for link in links if not set(link.names) <= env.known]
        indices_of_accesses = {
            v for a in unknown_accesses for s in a.subscripts for v in variables(s) if v in self.indices
        }
        more = [
            p
            for k in pending
            if isinstance(k, Link) and indices_of_accesses & set(k.parts)
            for p in k.parts
            if p not in indices_of_accesses
        ]
        reached = self.reached(env.known | indices_of_accesses | set(more), pending)
        more += [i for i in indices if i not in reached]
        reached = self.reached(reached | set(more), pending)
        more += [n for link in pending for n in link.names if n not in reached and n not in more]
        here = env.known | indices_of_accesses | set(more)
        now = tuple(c for c in conditions if self.is_affine(c) and self.indices_of(c) <= here)
        later = tuple(c for c in conditions if c not in now)

        def inside(inner: Env) -> Plan:
            solved, guards, inner = self.solved(pending, inner)
            body = leaf(inner.where(conditions))
            tests = [*guards, *(Holds(c) for c in later)]
            if tests:
                body = If(joined("logical_and", tests), body)
            return Block((*solved, body)) if solved else body

        if not unknown_accesses and not more and not now:
            nest: list[Plan] = [inside(env)]
        else:
            nest = self.nests(unknown_accesses, tuple(more), now, inside, env, None if pending else distinct)
        if flags:
            nest = [If(joined("logical_and", flags), Block(tuple(nest)))]
        return [*lines, *nest]

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
        """The same where an index of the region's accesses is a value, in loops over the indices that this speaks of.
        Where it is to be refused only if the conditions hold, it does not lead."""
        later = {k.name for k in gathers}
        gather = next(k for k in gathers if not names_in(k.at) & later)
        first = [i for i in indices if i in names_in(gather.at) and i not in env.known]
        known = env.known | set(first)
        before = tuple(c for c in conditions if self.is_affine(c) and self.indices_of(c) <= known)
        after = tuple(c for c in conditions if c not in before)
        if (after and gather.checked) or not names_in(gather.at) & self.indices <= known:
            names = {k.name for k in region.links if isinstance(k, GatherLink)}
            remaining = tuple(a for a in region.accesses if not names_in(a) & names)
            where = tuple(c for c in region.where if not names_in(c) & names)
            return self.driven_by(Region(remaining, (), where), indices, conditions, leaf, env, distinct)

        def inside(inner: Env) -> Plan:
            lines, inner = self.placed(gather.name, gather.at, gather.access, inner, gather.checked)
            remaining = [i for i in indices if i not in first]
            return Block((*lines, *self.driven_by(region, remaining, after, leaf, inner.where(before))))

        if not first and not before:
            return [inside(env)]
        return self.nests((), first, before, inside, env, distinct)

    def placed(self, name: str, at: Any, access: lang.Access, env: Env, checked: bool = True) -> tuple[list[Plan], Env]:
        """A name for the integer that a value is: values.py."""
        raise NotImplementedError

    def at_hand(
        self, accesses: Sequence[lang.Access], env: Env
    ) -> tuple[list[Plan], list[Any], tuple[lang.Access, ...], Env] | None:
        """Which accesses need a nest: not those of which it is known that they store something, nor those that a
        question settles: the questions come with what is done for them first. None where one stores nothing."""
        lines: list[Plan] = []
        flags: list[Any] = []
        remaining: list[lang.Access] = []
        for access in accesses:
            key = key_of(access)
            if key in env.absent:
                return None
            is_table = access.tensor in self.tables.values() and self.indices_in(access) <= env.known
            if key not in env.values and not is_table:
                remaining.append(access)
                continue
            more, flag, env = self.looked_up(access, env)
            lines += more
            flags += [] if flag == lang.Constant(True) else [flag]
        return lines, flags, tuple(remaining), env

    def looked_up(self, access: lang.Access, env: Env) -> tuple[list[Plan], Any, Env]:
        """The value of an access where its indices are known; whether anything is stored there: values.py."""
        raise NotImplementedError

    def reached(self, known: set[str] | frozenset[str], links: Sequence[Link | Tie]) -> set[str]:
        """The names that links lead to."""
        reached = set(known)
        grown = True
        while grown:
            grown = False
            for link in links:
                new = set(decided_by(link, reached)) - reached
                reached |= new
                grown = grown or bool(new)
        return reached

    def linked(
        self, links: Sequence[Link | Tie | GatherLink], env: Env, partly: bool = False
    ) -> tuple[list[Plan], Env]:
        """What links decide of what is known. A tie whose index is looked for may have none: see `solved`."""
        lines: list[Plan] = []
        grown = True
        while grown:
            grown = False
            for link in links:
                if isinstance(link, GatherLink):
                    later = {k.name for k in links if isinstance(k, GatherLink)} | self.indices
                    if link.name not in env.known and names_in(link.at) & later <= env.known:
                        more, env = self.placed(link.name, link.at, link.access, env, link.checked)
                        lines += more
                        grown = True
                    continue
                for name, value in decided_by(link, set(env.known)).items():
                    if name in env.known or (isinstance(link, Tie) and name == link.index and partly):
                        continue
                    lines.append(Define(name, value))
                    env = env.knowing([name])
                    grown = True
        missing = [link for link in links if not set(link.names) <= env.known]
        if missing and not partly:
            raise InternalError(f"indices that nothing decides: {missing}")
        return lines, env

    def solved(self, links: Sequence[Link | Tie], env: Env) -> tuple[list[Plan], list[Any], Env]:
        """The same for what a driver has found: it has no point where a tie has none there."""
        lines: list[Plan] = []
        guards: list[Any] = []
        pending = list(links)
        while pending:
            ready = next((k for k in pending if set(k.names) <= env.known or decided_by(k, set(env.known))), None)
            if ready is None:
                raise InternalError(f"indices that nothing decides: {pending}")
            pending.remove(ready)
            if set(ready.names) <= env.known:
                guards.append(Holds(meaning_of(ready)))
                continue
            decided = decided_by(ready, set(env.known))
            if any(name in env.known for name in decided):
                guards.append(Holds(meaning_of(ready)))
            for name, value in decided.items():
                if name not in env.known:
                    lines.append(Define(name, value))
                    env = env.knowing([name])
                    if isinstance(ready, Tie) and name == ready.index:
                        guards += [Holds(meaning_of(ready)), Holds(within(Var(name), ZERO, self.extents[name]))]
        return lines, guards, env

    def nests(
        self,
        accesses: Sequence[lang.Access],
        over: Sequence[str],
        conditions: Sequence[Formula],
        leaf: Leaf,
        env: Env,
        distinct: Sequence[Expr] | None = None,
    ) -> list[Plan]:
        """The leaf at each point at which all accesses store something, with the `over` indices besides."""
        indices = dict.fromkeys(
            v for a in accesses for s in a.subscripts for v in sorted(variables(s)) if v in self.indices
        )
        unknown = [i for i in dict.fromkeys((*indices, *over)) if i not in env.known]
        instances = list(self.instances(accesses, unknown, conditions, env))
        if env.order and (len(instances) > 1 or not set(env.order) <= set(unknown)):
            raise OutOfOrder
        return [self.nest(i, accesses, unknown, leaf, env, distinct) for i in instances]

    def instances(
        self,
        accesses: Sequence[lang.Access],
        unknown: Sequence[str],
        conditions: Sequence[Formula],
        env: Env,
        target: lang.Access = NOWHERE,
    ) -> Iterator[Instance]:
        """The points at which all accesses store something, pieces that do not meet, for what is done at a target."""
        term: Any = lang.Constant(1)
        for k, access in enumerate(accesses):
            term = access if k == 0 else lang.Apply("multiply", (term, access))
        where = conjunction(list(conditions)) if conditions else None
        statement = lang.Statement(target, "=", term, where)
        tensors = {**self.tensors, POINT: self.point}
        ranges = self.ranges(unknown, env)
        yield from make_instances(statement, term, tensors, ranges, self.labels, tuple(unknown))

    def ranges(self, unknown: Sequence[str], env: Env) -> Ranges:
        """What is known of indices: those that a nest runs over, and those of loops around it."""
        known = {*env.known, *self.program.size_names}
        names = (*known, *self.sizes, *(e.name for e in self.extents.values() if isinstance(e, Var)))
        facts = [
            f for i in sorted(env.known & set(self.extents)) for f in conjuncts(within(Var(i), ZERO, self.extents[i]))
        ]
        return Ranges(
            tuple(dict.fromkeys(names)),
            self.program.sizes.fixed,
            {i: (self.extents[i],) for i in unknown if i in self.extents},
            tuple(facts),
            self.steps.free & env.known,
            frozenset(env.known),
        )

    def nest(
        self,
        instance: Instance,
        accesses: Sequence[lang.Access],
        unknown: Sequence[str],
        leaf: Leaf,
        env: Env,
        distinct: Sequence[Expr] | None,
    ) -> Plan:
        instance = with_equal_positions(instance)
        instance = self.pointed(instance, unknown)
        plan = self.arranged(instance, env, distinct)
        scheduled = scheduled_nests((instance,), self.context, self.steps.called)
        plan = simplify(plan, (*unknown, *sorted(env.known), *scheduled.named))
        check_nest(instance, plan)
        nodes = list(chain(plan))
        does = nodes[-1]
        assert isinstance(does, Store)
        kept = [n for n in nodes[:-1] if not (isinstance(n, Load | Define) and n.dim in env.loaded)]  # done further out
        compared.note_nest([*paths(plan)], made_of(kept, does))
        lines: list[Plan] = []
        for index, value in zip(unknown, does.target.place, strict=True):
            if value != Var(index):
                lines.append(Define(index, value))
        assert isinstance(does.value, lang.Apply)
        values = dict(zip(map(key_of, accesses), does.value.arguments, strict=True))
        loops = any(isinstance(n, Scan | Find) for n in nodes)
        loads = {n.dim for n in nodes if isinstance(n, Load | Define)}
        loads |= {loaded.dim for n in nodes if isinstance(n, Find) for loaded in n.loads}
        shared = any(isinstance(n, Scan | Find) and n.parallel for n in nodes)
        wanted = loops and not shared and any(m.word == "parallel" for m in self.context.marks)
        inner = replace(
            env,
            parallel=env.parallel and (wanted or not loops),
            inside=env.inside or wanted,
            loaded=env.loaded | loads,
            order=(),
        )
        body = leaf(inner.knowing(unknown).having(values))
        result: Plan = Block((*lines, body)) if lines else body
        for node in reversed(kept):
            result = with_body(node, result)
        return partitioned(instance, result) if env.parallel else result

    def pointed(self, instance: Instance, unknown: Sequence[str]) -> Instance:
        """The instance with the values of indices, and what it reads, as what is done at its points."""
        place = tuple(Var(i) for i in unknown)
        target = replace(instance.target, place=place, extents=tuple(ONE for _ in unknown))
        return replace(instance, target=target, value=Reads("add", tuple(value_of(o) for o in instance.reads)))

    def arranged(self, instance: Instance, env: Env, distinct: Sequence[Expr] | None) -> Plan:
        """Who drives, and the nest in which what is to be found is."""
        context = scheduled_nests((instance,), self.nest_context, self.steps.called)
        self.named |= names_in_text(instance, self.steps.called)

        def nests() -> Iterator[tuple[Instance, list[Plan], tuple[list[Step], Plan]]]:
            for steps in driven(instance, context, bool(env.known)):
                if env.order and not is_in_order(instance, steps, env.order):
                    continue
                parallel = self.parallel(instance, steps, distinct, env, context) if env.parallel else None
                does = stored_at(instance, known_at(instance, steps), "+=")
                placed = partial(wrapped, parallel=parallel)
                body = build_nest(instance, steps, does, context, placed, around=env.known)
                nest = choose_once(instance, body, steps, context)
                if context.makes(LOOKUP_EXITS):
                    nest = with_early_exits(instance, nest)
                yield instance, [nest], (steps, nest)

        best = least_work(nests(), context)
        if best is None:
            raise OutOfOrder
        steps, nest = best
        self.scanned |= {s.dim: (instance, tuple(steps)) for s in steps if s.dim}
        return nest

    def parallel(
        self, instance: Instance, steps: Sequence[Step], distinct: Sequence[Expr] | None, env: Env, context: Context
    ) -> tuple[str, str] | None:
        """The loop that the schedule names, or the outermost one, where its iterations are proved to write different
        points or change own scalars."""
        scans = [s.dim for s in steps if s.kind == "scan"]
        wanted = [d for d in scans if context.marked("parallel", d) is not None]
        scans = wanted or ([] if env.inside else scans)
        if not scans or context.is_serial(scans[0]):
            return None
        if env.own:
            return scans[0], "each part has scalars of its own, which are combined after the loop"
        if not distinct:
            return None
        if scans[0] not in sources(steps, {v for place in distinct for v in variables(place)}):
            return None  # all iterations have one place, which at most one of them writes
        written = _writing(instance, distinct)
        if distinct_places(written, scans[0]):
            return scans[0], "its iterations write different places"
        if distinct_by_facts(written, scans[0], steps):
            return scans[0], "its iterations write different places (by Z3 from the declared properties)"
        return None


def _writing(instance: Instance, at: Sequence[Expr]) -> Instance:
    """The instance with these coordinates as what it writes."""
    place = tuple(at)
    return replace(instance, target=replace(instance.target, place=place, extents=tuple(ONE for _ in place)))


def names_in(value: Any) -> set[str]:
    return {n.name for n in walk(value) if isinstance(n, Var)}


def decided_by(link: Link | Tie, known: set[str]) -> dict[str, Expr]:
    """The names that a link decides, where the others are known."""
    match link:
        case Tie(name, index, start, step):
            if index in known:
                moved: Expr = Var(index) if step == 1 else Bin("*", Num(step), Var(index))
                return {name: moved if start == ZERO else Bin("+", start, moved)}
            if name in known:
                distance = Bin("-", Var(name), start) if step > 0 else Bin("-", start, Var(name))
                return {index: distance if abs(step) == 1 else Bin("/", distance, Num(abs(step)))}
            return {}
        case Link(whole, parts, extents):
            if set(parts) <= known:
                result: Expr = Var(parts[0])
                for part, extent in zip(parts[1:], extents[1:], strict=True):
                    result = Bin("+", Bin("*", result, extent), Var(part))
                return {whole: result}
            if whole in known:
                quotient: Expr = Var(whole)
                decided: dict[str, Expr] = {}
                for part, extent in reversed([*zip(parts[1:], extents[1:], strict=True)]):
                    decided[part] = Bin("%", quotient, extent)
                    quotient = Bin("/", quotient, extent)
                decided[parts[0]] = quotient
                return decided
    return {}


def meaning_of(link: Link | Tie) -> Formula:
    """The link as a condition."""
    if isinstance(link, Tie):
        moved: Expr = Var(link.index) if link.step == 1 else Bin("*", Num(link.step), Var(link.index))
        return Compare("=", Var(link.name), Bin("+", link.start, moved))
    (value,) = decided_by(link, set(link.parts)).values()
    return Compare("=", Var(link.whole), value)

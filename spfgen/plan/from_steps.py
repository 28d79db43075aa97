"""Plans of steps: which tensor drives each loop, how all others are looked up.

An equation is carried out region by region (regions.py): the accesses of one region drive a nest of loops, and at each
of its points the value is computed; what does not drive is looked up there, and is its fill where nothing is found.
A point that an earlier region has is passed over, so that each point is met once. Where the value may differ
everywhere the loops run over all points. All of it holds for any layout: nests come from the scan (scan.py), and finds
from proofs (finds/), as for sums of products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
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
from spfgen.ir import fresh, walk
from spfgen.lang import nodes as lang
from spfgen.lang.types import TYPES
from spfgen.lang.typing import Kind, settled
from spfgen.layout.nodes import SCALAR
from spfgen.layout.proofs import stored_once
from spfgen.plan.check import check_nest
from spfgen.plan.context import Context
from spfgen.plan.depend import distinct_by_facts, distinct_places
from spfgen.plan.drivers import driven
from spfgen.plan.finds import with_finds
from spfgen.plan.finds.choose import choose_finds
from spfgen.plan.injective import with_equal_positions
from spfgen.plan.narrow import narrowed
from spfgen.plan.nodes import (
    Assign,
    Block,
    Define,
    Do,
    Find,
    Guard,
    If,
    Let,
    Plan,
    Scan,
    Store,
    chain,
    with_body,
)
from spfgen.plan.regions import Region, Regions
from spfgen.plan.scan import Step, with_quotients, wrapped
from spfgen.plan.simplify import simplify
from spfgen.plan.typed import Holds, Scalar, Types
from spfgen.sets.affine import NotAffine
from spfgen.sets.uf import linear
from spfgen.space.extents import Ranges
from spfgen.space.instances import make_instances
from spfgen.space.nodes import Instance, Program, Read, Tensor
from spfgen.space.steps import Chosen, Equation, Gathered, Link, Linked, Steps, Tie

POINT = "point"
"""The name of a tensor that is nowhere: it stands for what is done at a point."""

Key = tuple[str, tuple[Expr, ...]]


@dataclass(frozen=True)
class _Reads(lang.Apply):
    """What a nest reads at its points, until it is known what is done there."""


@dataclass(frozen=True)
class Env:
    """What is known at a point: the indices that have a value, accesses whose value is at hand, and those that are known
    to store nothing; whether loops may run on several threads."""

    known: frozenset[str] = frozenset()
    values: Mapping[Key, Any] = field(default_factory=dict)
    absent: frozenset[Key] = frozenset()
    parallel: bool = True

    def knowing(self, names: Sequence[str] | set[str]) -> Env:
        return replace(self, known=self.known | set(names))

    def having(self, values: Mapping[Key, Any]) -> Env:
        return replace(self, values={**self.values, **values})


Leaf = Callable[[Env], Plan]


def plan_steps(steps: Steps, program: Program, context: Context) -> Plan:
    """The plan of a kernel's steps. Raises SpecError, Unsupported."""
    return _Emitter(steps, program, context).plan()


class _Emitter:
    def __init__(self, steps: Steps, program: Program, context: Context) -> None:
        self.steps = steps
        self.program = program
        self.context = context
        self.tensors = {t.name: t for t in (*program.tensors, *program.temporaries)}
        self.point = Tensor(POINT, SCALAR, "float64", (), (), (), (), False, False)
        self.labels: set[str] = set()
        self.names: set[str] = {*steps.extents, *self.tensors}
        self.before: list[Plan] = []
        self.extents: dict[str, Expr] = {}
        self.scalars: dict[str, Kind] = {}
        self.called: dict[str, str] = {}
        self.inlined: dict[str, Any] = {}
        for index, extent in steps.extents.items():
            self.extents[index] = self.size(index, extent)

    def size(self, index: str, extent: Expr) -> Expr:
        """An extent as a name or a number: what is computed of others is so once."""
        if isinstance(extent, Var | Num):
            return extent
        name = self.fresh(f"{index}_extent")
        self.before.append(Define(name, extent))
        return Var(name)

    def fresh(self, wanted: str) -> str:
        found = fresh(wanted, self.names)
        self.names.add(found)
        return found

    @property
    def types(self) -> Types:
        return Types(self.context.types, self.scalars)

    @property
    def regions(self) -> Regions:
        layouts = {n: t.layout for n, t in self.tensors.items()}
        return Regions(layouts, self.dense, self.types, self.inlined)

    @cached_property
    def dense(self) -> frozenset[str]:
        """The tensors that have a value of its own everywhere."""
        return frozenset(n for n, t in self.tensors.items() if is_everywhere(t))

    def plan(self) -> Plan:
        parts = [p for s in self.steps.body for p in self.step(s, Env())]
        return Block((*self.before, *parts))

    # --- steps -----------------------------------------------------------------------------------

    def step(self, step: Any, env: Env) -> list[Plan]:
        match step:
            case Equation():
                return [Block(tuple(self.equation(step, env)), step.text)]
        raise InternalError(f"no plan of {step!r}")

    def equation(self, eq: Equation, env: Env) -> list[Plan]:
        target = self.tensors[eq.target]
        if eq.at:
            return self.scattered(eq, env)
        access = lang.Access(eq.target, eq.subscripts, eq.span)
        if eq.target not in self.dense or eq.within:
            return self.within(eq, access, env)
        reads = {(a.tensor, a.subscripts) for a in _accesses(eq.value) if a.tensor == eq.target}
        if reads - {(eq.target, eq.subscripts)}:
            return self.from_copy(eq, env)
        found = None if reads else self.regions.of(eq.value)
        fill = None if reads else self.regions.fill(eq.value)
        conditions = () if eq.where is None else tuple(conjuncts(eq.where))
        parts: list[Plan] = []
        if eq.updates is not None:
            neutral = eq.updates.operator.identity_of(TYPES[target.value_type])
            if fill is None or neutral is None or fill != neutral:
                found = None
        elif found is None or fill is None:
            found = None
            if conditions or not self.is_inside(eq, env):
                parts += self.filled(eq, access, lang.Constant(0), env)
        else:
            parts += self.filled(eq, access, lang.Constant(fill), env)
        if found is None:
            found = [Region((access,))]

        def leaf(inner: Env) -> Plan:
            lines, value = self.point_value(eq.value, inner)
            return Block((*lines, *self.stored(eq, access, value, inner)))

        return [*parts, *self.passes(found, eq.indices, conditions, leaf, env, eq.subscripts)]

    def is_inside(self, eq: Equation, env: Env) -> bool:
        """Whether the loops over the target's points meet all its points."""
        return True

    def filled(self, eq: Equation, access: lang.Access, value: Any, env: Env) -> list[Plan]:
        """Every point of the target becomes the value."""

        def leaf(inner: Env) -> Plan:
            return Block(tuple(self.stored(replace(eq, updates=None), access, value, inner)))

        return self.passes([Region((access,))], eq.indices, (), leaf, env, eq.subscripts)

    def stored(self, eq: Equation, access: lang.Access, value: Any, env: Env) -> list[Plan]:
        """The value in its place, which is looked for where the nest does not have it at hand."""
        key = (access.tensor, access.subscripts)

        def leaf(inner: Env) -> Plan:
            read = inner.values[key]
            assert isinstance(read, Read)
            new = value if eq.updates is None else replace(eq.updates, arguments=(read, value))
            return Store(read.operand, new)

        if isinstance(env.values.get(key), Read):
            return [leaf(env)]
        return self.nests((access,), (), (), leaf, replace(env, parallel=False))

    def within(self, eq: Equation, access: lang.Access, env: Env) -> list[Plan]:
        """A target that stores some points only: those drive."""

        def leaf(inner: Env) -> Plan:
            lines, value = self.point_value(eq.value, inner)
            return Block((*lines, *self.stored(eq, access, value, inner)))

        conditions = () if eq.where is None else tuple(conjuncts(eq.where))
        return self.passes([Region((access,))], eq.indices, conditions, leaf, env, eq.subscripts)

    # --- passes over regions ---------------------------------------------------------------------

    def passes(
        self,
        found: Sequence[Region],
        indices: Sequence[str],
        conditions: Sequence[Formula],
        leaf: Leaf,
        env: Env,
        distinct: Sequence[Expr] | None = None,
    ) -> list[Plan]:
        """The leaf once at each point of the indices that any of the regions has and where the conditions hold."""
        parts: list[Plan] = []
        for k, region in enumerate(found):
            earlier = found[:k]

            def once(inner: Env, earlier: Sequence[Region] = tuple(earlier)) -> Plan:
                return self.unless(earlier, leaf, inner)

            parts += self.driven_by(region, indices, conditions, once, env, distinct)
        return parts

    def unless(self, earlier: Sequence[Region], leaf: Leaf, env: Env) -> Plan:
        """The leaf, where none of these regions is at the point."""
        if not earlier:
            return leaf(env)
        first, *rest = earlier
        lines, present, env, alone = self.present(first, env)
        if alone:
            env = replace(env, absent=env.absent | {_key(first.accesses[0])})
        inner = self.unless(rest, leaf, env)
        return Block((*lines, If(lang.Apply("logical_not", (present,)), inner, None, "an earlier pass has the rest")))

    def present(self, region: Region, env: Env) -> tuple[list[Plan], Any, Env, bool]:
        """Whether all accesses of a region store something at the point; and whether that is the only question."""
        lines, env = self.linked(region.links, env)
        flags: list[Any] = [Holds(c) for c in region.where]
        for access in region.accesses:
            more, flag, env = self.looked_up(access, env)
            lines += more
            flags.append(flag)
        result = flags[0]
        for flag in flags[1:]:
            result = lang.Apply("logical_and", (result, flag))
        return lines, result, env, len(region.accesses) == 1 and not region.where and not region.links

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
        conditions = (*conditions, *region.where)
        lines, env = self.linked(region.links, env, partly=True)
        pending = [link for link in region.links if not set(link.names) <= env.known]
        own = {v for a in region.accesses for s in a.subscripts for v in variables(s) if v in self.extents}
        reached = self.reached(env.known | own, pending)
        more = [i for i in indices if i not in reached]
        reached = self.reached(reached | set(more), pending)
        more += [n for link in pending for n in link.names if n not in reached and n not in more]
        here = env.known | own | set(more)
        now = tuple(c for c in conditions if self.is_affine(c) and self.indices_of(c) <= here)
        later = tuple(c for c in conditions if c not in now)

        def inside(inner: Env) -> Plan:
            solved, guards, inner = self.solved(pending, inner)
            body = leaf(inner)
            tests = [*guards, *(Holds(c) for c in later)]
            if tests:
                condition = tests[0]
                for test in tests[1:]:
                    condition = lang.Apply("logical_and", (condition, test))
                body = If(condition, body)
            return Block((*solved, body)) if solved else body

        made = self.nests(region.accesses, tuple(more), now, inside, env, None if pending else distinct)
        return [*lines, *made]

    def is_affine(self, condition: Formula) -> bool:
        try:
            for node in walk(condition):
                if isinstance(node, Compare):
                    linear(node.left), linear(node.right)
        except NotAffine:
            return False
        return True

    def indices_of(self, condition: Formula) -> set[str]:
        return {v for v in variables(condition) if v in self.extents}

    # --- links -----------------------------------------------------------------------------------

    def reached(self, known: set[str] | frozenset[str], links: Sequence[Link | Tie]) -> set[str]:
        """The names that links lead to."""
        found = set(known)
        grown = True
        while grown:
            grown = False
            for link in links:
                new = set(_decided(link, found)) - found
                found |= new
                grown = grown or bool(new)
        return found

    def linked(self, links: Sequence[Link | Tie], env: Env, partly: bool = False) -> tuple[list[Plan], Env]:
        """What links decide of what is known. A tie whose index is looked for may have none: see `solved`."""
        lines: list[Plan] = []
        grown = True
        while grown:
            grown = False
            for link in links:
                for name, value in _decided(link, set(env.known)).items():
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
            ready = next((k for k in pending if set(k.names) <= env.known or _decided(k, set(env.known))), None)
            if ready is None:
                raise InternalError(f"indices that nothing decides: {pending}")
            pending.remove(ready)
            if set(ready.names) <= env.known:
                guards.append(Holds(_meaning(ready)))
                continue
            decided = _decided(ready, set(env.known))
            for name, value in decided.items():
                if name not in env.known:
                    lines.append(Define(name, value))
                    env = env.knowing([name])
                    if isinstance(ready, Tie) and name == ready.index:
                        guards += [Holds(_meaning(ready)), Holds(within(Var(name), ZERO, self.extents[name]))]
        return lines, guards, env

    # --- nests -----------------------------------------------------------------------------------

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
            v for a in accesses for s in a.subscripts for v in sorted(variables(s)) if v in self.extents
        )
        unknown = [i for i in (*indices, *over) if i not in env.known]
        parts: list[Plan] = []
        for instance in self.instances(accesses, unknown, conditions, env):
            parts.append(self.nest(instance, accesses, unknown, leaf, env, distinct))
        return parts

    def instances(
        self, accesses: Sequence[lang.Access], unknown: Sequence[str], conditions: Sequence[Formula], env: Env
    ) -> Iterator[Instance]:
        term: Any = lang.Constant(1)
        for k, access in enumerate(accesses):
            term = access if k == 0 else lang.Apply("multiply", (term, access))
        known = {*env.known, *self.program.parameters, *self.program.size_of}
        names = (*known, *(e.name for e in self.extents.values() if isinstance(e, Var)))
        facts = [
            f for i in sorted(env.known & set(self.extents)) for f in conjuncts(within(Var(i), ZERO, self.extents[i]))
        ]
        ranges = Ranges(
            tuple(dict.fromkeys(names)),
            self.program.fixed,
            {i: (self.extents[i],) for i in unknown},
            tuple(facts),
        )
        where = conjunction(list(conditions)) if conditions else None
        statement = lang.Statement(lang.Access(POINT, ()), "=", term, where)
        tensors = {**self.tensors, POINT: self.point}
        yield from make_instances(statement, term, tensors, ranges, self.labels, tuple(unknown))

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
        place = tuple(Var(i) for i in unknown)
        target = replace(instance.target, place=place, extents=tuple(self.extents[i] for i in unknown))
        reads = _Reads("add", tuple(Read(o) for o in instance.reads))
        instance = replace(instance, target=target, value=reads)
        plan = self.arranged(instance, env, distinct)
        plan = simplify(plan, (*unknown, *sorted(env.known), *self.context.named))
        nodes = list(chain(plan))
        does = nodes[-1]
        assert isinstance(does, Do)
        lines: list[Plan] = []
        for index, value in zip(unknown, does.target.place, strict=True):
            if value != Var(index):
                lines.append(Define(index, value))
        found = dict(zip(map(_key, accesses), does.value.arguments, strict=True))
        loops = any(isinstance(n, Scan | Find) for n in nodes)
        inner = replace(env, parallel=env.parallel and not loops).knowing(unknown).having(found)
        body = leaf(inner)
        result: Plan = Block((*lines, body)) if lines else body
        for node in reversed(nodes[:-1]):
            result = with_body(node, result)
        return result

    def arranged(self, instance: Instance, env: Env, distinct: Sequence[Expr] | None) -> Plan:
        """Who drives, and the nest in which what is to be found is: the first order in which nothing is compared with
        everything."""
        best: Plan | None = None
        for steps in driven(instance, self.context):
            parallel = self.parallel(instance, steps, distinct) if env.parallel and distinct is not None else None
            known = steps[-1].known if steps else instance.domain.space.universe()
            body: Plan = Do(instance.target, "+=", with_quotients(instance.value, known))
            if instance.guards:
                conditions = tuple(with_quotients(g, known) for g in instance.guards)
                body = Guard(conditions, body, "the place in the value array could not be proved to lie within it")
            for step in reversed(steps):
                body = wrapped(step, body, parallel)
            body = with_finds(narrowed(instance, body, steps, self.context))
            nest = choose_finds(instance, body, steps, self.context)[0].body
            check_nest(instance, nest)
            best = best or nest
            if not any(isinstance(n, Find) and n.key is None for n in walk(nest, Plan)):
                return nest
        assert best is not None
        return best

    def parallel(
        self, instance: Instance, steps: Sequence[Step], distinct: Sequence[Expr] | None
    ) -> tuple[str, str] | None:
        """The outermost loop, where its iterations are proved to write different points."""
        scans = [s.dim for s in steps if s.kind == "scan"]
        if not scans or self.context.is_serial(scans[0]) or not distinct:
            return None
        extents = tuple(ONE for _ in distinct)
        written = replace(instance, target=replace(instance.target, place=tuple(distinct), extents=extents))
        if distinct_places(written, scans[0]):
            return scans[0], "its iterations write different places"
        if distinct_by_facts(written, scans[0], steps):
            return scans[0], "its iterations write different places (by Z3 from the declared properties)"
        return None

    # --- values ----------------------------------------------------------------------------------

    def point_value(self, value: Any, env: Env) -> tuple[list[Plan], Any]:
        """The value at a point, and what is done for it first."""
        lines, found, _ = self.computed(value, env)
        return lines, found

    def computed(self, value: Any, env: Env) -> tuple[list[Plan], Any, Env]:
        match value:
            case lang.Constant():
                return [], value, env
            case lang.Index():
                return [], value, env
            case lang.Local(name):
                return [], Scalar(self.called[name], settled(self.scalars[name]).name), env
            case lang.Access():
                lines, _, env = self.looked_up(value, env)
                return lines, env.values[_key(value)], env
            case lang.Apply(_, arguments):
                lines = []
                found = []
                for argument in arguments:
                    more, one, env = self.computed(argument, env)
                    lines += more
                    found.append(one)
                return lines, replace(value, arguments=tuple(found)), env
            case Chosen(condition, then, otherwise):
                first, one, env = self.computed(then, env)
                second, other, env = self.computed(otherwise, env)
                return [*first, *second], lang.Apply("where", (Holds(condition), one, other), value.span), env
            case Linked(link, inner):
                lines, env = self.linked((link,), env)
                more, found_value, env = self.computed(inner, env)
                return [*lines, *more], found_value, env
            case Gathered(name, at, inner):
                lines, place, env = self.computed(at, env)
                self.extents.setdefault(name, Num(0))
                own = Let(name, "int64", place)
                more, found_value, env = self.computed(inner, env.knowing([name]))
                return [*lines, own, *more], found_value, env
            case lang.Reduce():
                lines, found_value = self.reduction(value, env)
                return lines, found_value, env
        raise InternalError(f"no plan of {value!r}")

    def looked_up(self, access: lang.Access, env: Env) -> tuple[list[Plan], Any, Env]:
        """The value of an access at a point where its indices are known; whether anything is stored there."""
        key = _key(access)
        tensor = self.tensors[access.tensor]
        kind = tensor.value_type
        fill = _typed(tensor.layout.fill, kind)
        if key in env.absent:
            return [], lang.Constant(False), env.having({key: fill})
        if key in env.values:
            flag = env.values.get((f"{access.tensor}?", access.subscripts), lang.Constant(True))
            return [], flag, env
        if not tensor.layout.rank:
            (instance,) = self.instances((access,), (), (), env)
            return [], lang.Constant(True), env.having({key: Read(instance.reads[0])})
        name = self.fresh(f"{access.tensor}_value")
        flag_name = self.fresh(f"{access.tensor}_there")
        once = stored_once(tensor.layout).proved
        value, there = Scalar(name, kind), Scalar(flag_name, "bool")

        def leaf(inner: Env) -> Plan:
            read = inner.values[key]
            if not once:  # what is stored several times counts as the sum
                first: Any = lang.Constant(0)
                old = lang.Apply("where", (there, value, _typed(0, kind)))
                read = lang.Apply("add", (old, read))
                del first
            return Block((Assign(name, kind, read), Assign(flag_name, "bool", lang.Constant(True))))

        found = self.nests((access,), (), (), leaf, replace(env, parallel=False))
        plain = self.plainly(found, name)
        if plain is not None:
            return [], lang.Constant(True), env.having({key: plain})
        lines: list[Plan] = [Let(name, kind, fill), Let(flag_name, "bool", lang.Constant(False)), *found]
        return lines, there, env.having({key: value, (f"{access.tensor}?", access.subscripts): there})

    def plainly(self, found: Sequence[Plan], name: str) -> Any:
        """The value itself, where nothing has to be looked for and nothing asked."""
        if len(found) == 1 and isinstance(found[0], Block):
            first = found[0].parts[0]
            if isinstance(first, Assign) and isinstance(first.value, Read):
                return first.value
        return None

    # --- reductions ------------------------------------------------------------------------------

    def reduction(self, node: lang.Reduce, env: Env) -> tuple[list[Plan], Any]:
        """A reduction over the indices at a point: a scalar that each point of a region is combined with. What no
        region has, n equal values, is combined at last."""
        if node.op in ("argmin", "argmax"):
            return self.argument(node, env)
        kind = self.types.reduced(node)
        neutral = self.types.identity(node)
        fill = self.regions.fill(node.value)
        found = self.regions.of(node.value)
        conditions = () if node.where is None else tuple(conjuncts(node.where))
        operator = lang.Apply(node.op, (), node.span, node.function)
        name = self.fresh(_accumulator(node.op))
        total = Scalar(name, kind.name)
        counted: Scalar | None = None
        if found is not None and fill is not None and neutral is not None and fill == neutral:
            pass
        elif found is not None and fill is not None and not conditions and self.has_power(node):
            counted = Scalar(self.fresh("visited"), "int64")
        else:
            found = [Region(())]
        started = None if neutral is not None else Scalar(self.fresh("started"), "bool")
        lines: list[Plan] = [Let(name, kind.name, _typed(0 if neutral is None else neutral, kind.name))]
        if started is not None:
            lines.append(Let(started.name, "bool", lang.Constant(False)))
        if counted is not None:
            lines.append(Let(counted.name, "int64", lang.Constant(0)))

        def combined(value: Any) -> list[Plan]:
            new = replace(operator, arguments=(total, _cast(value, kind.name)))
            if started is None:
                return [Assign(name, kind.name, new)]
            first = Assign(name, kind.name, value)
            return [If(started, Assign(name, kind.name, new), first), Assign(started.name, "bool", lang.Constant(True))]

        def leaf(inner: Env) -> Plan:
            more, value = self.point_value(node.value, inner)
            count = []
            if counted is not None:
                count = [Assign(counted.name, "int64", lang.Apply("add", (counted, lang.Constant(1))))]
            return Block((*more, *combined(value), *count))

        lines += self.passes(found, node.indices, conditions, leaf, replace(env, parallel=False))
        if counted is not None:
            whole = self.whole(node.indices)
            rest = lang.Apply("subtract", (lang.Index(whole), counted))
            value = self.power(node, _typed(fill, settled(self.types.kind(node.value)).name), rest, kind.name)
            lines.append(If(lang.Apply("less", (counted, lang.Index(whole))), Block(tuple(combined(value)))))
        if started is not None and node.function is None:
            lines += self.never_empty(node, started)
        return lines, total

    def never_empty(self, node: lang.Reduce, started: Scalar) -> list[Plan]:
        return []

    def whole(self, indices: Sequence[str]) -> Expr:
        result: Expr = ONE
        for index in indices:
            result = self.extents[index] if result == ONE else Bin("*", result, self.extents[index])
        return result

    def has_power(self, node: lang.Reduce) -> bool:
        """Whether n equal values are combined at once."""
        operator = lang.Apply(node.op, (), node.span, node.function).operator
        return operator.is_idempotent(self.types.reduced(node)) or operator.repeated in ("multiply", "power")

    def power(self, node: lang.Reduce, fill: Any, count: Any, kind: str) -> Any:
        operator = lang.Apply(node.op, (), node.span, node.function).operator
        if operator.is_idempotent(TYPES[kind]):
            return fill
        return lang.Apply(operator.repeated, (_cast(fill, kind), _cast(count, kind)), node.span)


def is_everywhere(tensor: Tensor) -> bool:
    """Whether every coordinate is a position of its own, and nothing else decides where its value stands."""
    layout = tensor.layout
    if not layout.rank:
        return True
    tied = {
        part.left.name: part.right.name
        for part in conjuncts(layout.relation)
        if isinstance(part, Compare) and part.op == "=" and isinstance(part.left, Var) and isinstance(part.right, Var)
    }
    positions = sorted(tied.get(c, "") for c in layout.coordinates)
    return not layout.indexes and len(layout.values) == 1 and positions == sorted(layout.positions)


def _key(access: lang.Access) -> Key:
    return access.tensor, access.subscripts


def _accesses(value: Any) -> Iterator[lang.Access]:
    return (n for n in walk(value) if isinstance(n, lang.Access))


def _typed(number: Any, kind: str) -> Any:
    """A number of an element type."""
    import numpy as np

    return lang.Constant(np.dtype(kind).type(number))


def _cast(value: Any, kind: str) -> Any:
    return lang.Apply(kind, (value,))


def _accumulator(op: str) -> str:
    return {"add": "sum", "multiply": "product", "maximum": "most", "minimum": "least"}.get(op, "result")


def _decided(link: Link | Tie, known: set[str]) -> dict[str, Expr]:
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
                rest: Expr = Var(whole)
                found: dict[str, Expr] = {}
                for part, extent in reversed([*zip(parts[1:], extents[1:], strict=True)]):
                    found[part] = Bin("%", rest, extent)
                    rest = Bin("/", rest, extent)
                found[parts[0]] = rest
                return found
    return {}


def _meaning(link: Link | Tie) -> Formula:
    """The link as a condition."""
    if isinstance(link, Tie):
        moved: Expr = Var(link.index) if link.step == 1 else Bin("*", Num(link.step), Var(link.index))
        return Compare("=", Var(link.name), Bin("+", link.start, moved))
    (value,) = _decided(link, set(link.parts)).values()
    return Compare("=", Var(link.whole), value)

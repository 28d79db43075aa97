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

from spfgen.errors import InternalError, SpecError
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
from spfgen.ir import fresh, rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.fills import fill_text
from spfgen.lang.types import TYPES
from spfgen.lang.typing import Kind, scalar_types, settled
from spfgen.layout.nodes import SCALAR
from spfgen.layout.proofs import stored_once
from spfgen.plan.context import Context
from spfgen.plan.depend import distinct_by_facts, distinct_places
from spfgen.plan.drivers import driven
from spfgen.plan.finds import with_finds
from spfgen.plan.finds.choose import choose_finds
from spfgen.plan.injective import with_equal_positions
from spfgen.plan.meaning import check_nest
from spfgen.plan.narrow import narrowed
from spfgen.plan.nodes import (
    Append,
    Array,
    Assign,
    Block,
    Break,
    Clear,
    Collect,
    Counted,
    Define,
    Do,
    Emptied,
    Entry,
    Find,
    Guard,
    If,
    Let,
    Load,
    Plan,
    Probe,
    Refuse,
    Repeat,
    Scan,
    Segment,
    Store,
    chain,
    with_body,
)
from spfgen.plan.scan import Step, with_quotients, wrapped
from spfgen.plan.simplify import simplify
from spfgen.sets.affine import NotAffine
from spfgen.sets.uf import linear
from spfgen.space.extents import Ranges
from spfgen.space.instances import make_instances
from spfgen.space.nodes import Instance, Operand, Program, Read, Tensor
from spfgen.space.own import COUNT, entries_of, own_tensor
from spfgen.space.regions import Region, Regions, is_everywhere, smallest, union
from spfgen.space.steps import Chosen, Equation, Gathered, Link, Linked, Steps, Tie
from spfgen.space.typed import Holds, Scalar, Types

POINT = "point"
"""The name of a tensor that is nowhere: it stands for what is done at a point."""

OUTSIDE = "outside"
"""The variable that says whether a place that is a value lay outside of its tensor."""

Key = tuple[str, tuple[Expr, ...]]


@dataclass(frozen=True)
class _Reads(lang.Apply):
    """What a nest reads at its points, until it is known what is done there."""


@dataclass(frozen=True)
class Env:
    """What is known at a point: the indices that have a value, accesses whose value is at hand, and those that are
    known to store nothing; whether loops may run on several threads; what is `loaded` from index arrays."""

    known: frozenset[str] = frozenset()
    values: Mapping[Key, Any] = field(default_factory=dict)
    absent: frozenset[Key] = frozenset()
    parallel: bool = True
    loaded: frozenset[str] = frozenset()

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
        self.indices: set[str] = {*steps.extents, *steps.free}
        """All names of indices, those that are values among them."""
        self.refuses = False
        self.sizes: dict[str, Expr] = {}
        for name, extent in steps.computed.items():
            self.names.add(name)
            self.before.append(Define(name, extent))
            self.sizes[name] = extent
        for index, extent in steps.extents.items():
            self.extents[index] = self.size(index, extent)
        self.kinds = dict(context.types)
        self.written = {n.target for s in steps.body for n in walk(s) if isinstance(n, Equation)}
        for tensor in program.temporaries:
            self.own(tensor.name, tensor.value_type, tensor.layout.fill, tensor.extents)
        self.scalars.update(scalar_types(steps.body, self.types.leaf))
        self.tables: dict[str, str] = {}
        """The tables of entries, by the tensors whose entries they hold."""
        steps = self.steps = replace(steps, body=tuple(self.once(s) for s in steps.body))
        self.assembled = {t.name for t in program.tensors if t.assembled is not None}
        """Results whose pattern is computed."""
        self.collected: dict[str, str] = {}
        """Those of them whose entries are kept in a table until all are there, and its name."""
        for name in sorted(self.assembled):
            self.collect(name)
        lets = [n for s in steps.body for n in walk(s) if isinstance(n, lang.Let)]
        changed = {n.name for s in steps.body for n in walk(s) if isinstance(n, lang.Set)}
        names = [n.name for n in lets]
        self.inlined.update({n.name: n.value for n in lets if names.count(n.name) == 1 and n.name not in changed})

    def collect(self, name: str) -> None:
        """A result that more than one equation writes, or one in a loop, is kept in a table."""
        found = [n for s in self.steps.body for n in walk(s) if isinstance(n, Equation) and n.target == name]
        alone = len(found) == 1 and found[0] in self.steps.body and found[0].updates is None and not found[0].at
        if not alone:
            table = self.collected[name] = self.fresh(f"{name}_kept")
            tensor = self.tensors[name]
            self.tensors[table] = entries_of(table, tensor)
            self.kinds[table] = tensor.value_type
            self.labels.add(table)
            self.tables[table] = table
            why = f"the entries of {name} until all are there"
            self.before.append(Collect(table, tensor.value_type, tensor.layout.rank, Block(()), why))

    def once(self, step: Any) -> Any:
        """Tensors that may store a coordinate several times are read from tables in which it stands once."""

        def rule(node: Any) -> Any:
            if isinstance(node, lang.Access) and node.tensor not in self.written:
                tensor = self.tensors[node.tensor]
                if tensor.layout.rank and not stored_once(tensor.layout).proved:
                    return replace(node, tensor=self.table(node.tensor))
            return None

        return rewrite(rule, step)

    def table(self, name: str) -> str:
        """The table of a tensor's entries."""
        if name not in self.tables:
            tensor = self.tensors[name]
            table = self.tables[name] = self.fresh(f"{name}_entries")
            self.kinds[table] = tensor.value_type
            self.tensors[table] = entries_of(table, tensor)
            self.labels.add(table)
            indices = self.indices_for(tensor)
            access = lang.Access(name, tuple(Var(i) for i in indices))

            def leaf(inner: Env) -> Plan:
                read = inner.values[_key(access)]
                old = Scalar(self.fresh("before"), tensor.value_type)
                added = lang.Apply("add", (old, read))
                return Entry(table, old.type, access.subscripts, added, old.name, _typed(0, old.type).value)

            body = Block(tuple(self.nests((access,), indices, (), leaf, Env(parallel=False))))
            why = f"the entries of {name}, each coordinate once"
            self.before.append(Collect(table, tensor.value_type, tensor.layout.rank, body, why))
            self.__dict__.pop("dense", None)
        return self.tables[name]

    def own(self, name: str, kind: str, fill: Any, extents: Sequence[str]) -> None:
        """Memory of the kernel's for a tensor."""
        self.tensors[name] = own_tensor(name, kind, extents)
        self.kinds[name] = kind
        self.labels.add(name)
        whole = tuple(self.sizes.get(e, Var(e)) for e in extents)
        self.before.append(Array(name, kind, whole, fill))

    def size(self, index: str, extent: Expr) -> Expr:
        """An extent as a name or a number: what is computed of others is so once."""
        if isinstance(extent, Var | Num):
            return extent
        name = self.fresh(f"{index}_extent")
        self.before.append(Define(name, extent))
        self.sizes[name] = extent
        return Var(name)

    def fresh(self, wanted: str) -> str:
        found = fresh(wanted, self.names)
        self.names.add(found)
        return found

    @property
    def types(self) -> Types:
        return Types(self.kinds, self.scalars)

    @property
    def regions(self) -> Regions:
        layouts = {n: t.layout for n, t in self.tensors.items()}
        return Regions(layouts, self.dense, self.types, self.inlined)

    @cached_property
    def dense(self) -> frozenset[str]:
        """The tensors that have a value of its own everywhere."""
        return frozenset(n for n, t in self.tensors.items() if is_everywhere(t))

    def plan(self) -> Plan:
        self.before += [Clear(name, "what it held before") for name in sorted(self.assembled)]
        parts = [p for s in self.steps.body for p in self.step(s, Env())]
        for name in self.collected:
            parts.append(Counted(self.collected[name]))
            parts += self.delivered(name)
        if self.refuses:
            self.before.insert(0, Let(OUTSIDE, "bool", lang.Constant(False)))
            parts.append(Refuse(OUTSIDE))
        return Block((*self.before, *parts))

    # --- steps -----------------------------------------------------------------------------------

    def step(self, step: Any, env: Env) -> list[Plan]:
        match step:
            case Equation():
                return [Block(tuple(self.equation(step, env)), step.text)]
            case lang.For():
                return self.loops(step, env)
            case lang.If(condition, then, otherwise):
                lines, test, env = self.computed(condition, env)
                env = self.settled(env)
                rest = self.block(otherwise, env) if otherwise else None
                return [*lines, If(test, self.block(then, env), rest)]
            case lang.Let(name, value):
                lines, found, _ = self.computed(value, env)
                self.called[name] = self.fresh(name)
                return [*lines, Let(self.called[name], settled(self.scalars[name]).name, found)]
            case lang.Set(name, op, value):
                lines, found, _ = self.computed(value, env)
                own = Scalar(self.called[name], settled(self.scalars[name]).name)
                if op != "=":
                    found = lang.Apply(_operator(op), (own, found), step.span, step.function)
                return [*lines, Assign(own.name, own.type, found)]
            case lang.While(condition, body):
                lines, test, inner = self.computed(condition, env)
                ends = If(lang.Apply("logical_not", (test,)), Break())
                return [Repeat(Block((*lines, ends, *self.block(body, self.settled(inner)).parts)))]
            case lang.Break():
                return [Break()]
        raise InternalError(f"no plan of {step!r}")

    def block(self, steps: Sequence[Any], env: Env) -> Block:
        return Block(tuple(p for s in steps for p in self.step(s, env)))

    def settled(self, env: Env) -> Env:
        """Without what was read of tensors that steps write."""
        kept = {k: v for k, v in env.values.items() if k[0].rstrip("?") not in self.written or isinstance(v, Read)}
        return replace(env, values=kept)

    def loops(self, step: lang.For, env: Env) -> list[Plan]:
        """A loop as written: where its body does nothing but where some tensors store something, these drive."""
        conditions = () if step.where is None else tuple(conjuncts(step.where))
        free_range = set(step.indices) & self.steps.free
        for access in (a for s in step.body for a in _accesses(s) if free_range & self.indices_in(a)):
            conditions = (*conditions, *self.inside(access))
        inner = replace(env, parallel=False)
        free = order_is_free(step.body, step.indices, self.written)
        found = self.effects(step.body, env.known | set(step.indices))
        if not free:
            found = None  # in the order of the indices, all of them
        apart = self.apart(step, env) if free else None
        regions = [Region((), ())] if found is None else found

        def leaf(env: Env) -> Plan:
            return self.block(step.body, self.settled(env))

        return self.passes(regions, step.indices, conditions, leaf, env if apart else inner, apart)

    def apart(self, step: lang.For, env: Env) -> tuple[Expr, ...] | None:
        """What tells iterations apart that have nothing to do with one another: an index of the loop that is the same
        subscript of all that is written, and of what of it is read."""
        accesses = [a for s in step.body for a in _accesses(s) if a.tensor in self.written]
        accesses += [lang.Access(n.target, n.subscripts) for s in step.body for n in walk(s) if isinstance(n, Equation)]
        own = {n.name for s in step.body for n in walk(s) if isinstance(n, lang.Let)}
        sets = {n.name for s in step.body for n in walk(s) if isinstance(n, lang.Set)}
        local = {t.name for t in self.program.temporaries}
        if not accesses or not sets <= own or any(a.tensor in local for a in accesses):
            return None
        for index in step.indices:
            places: dict[str, set[int]] = {}
            for access in accesses:
                here = {k for k, s in enumerate(access.subscripts) if s == Var(index)}
                places[access.tensor] = places.get(access.tensor, here) & here
            if all(places.values()):
                return (Var(index),)
        return None

    def effects(self, steps: Sequence[Any], known: frozenset[str] | set[str]) -> list[Region] | None:
        """The regions in which steps do anything; None: everywhere."""
        return union([self.effect(s, known) for s in steps])

    def effect(self, step: Any, known: frozenset[str] | set[str]) -> list[Region] | None:
        match step:
            case lang.Let():
                return []
            case lang.Break():
                return None
            case Equation(updates=updates, value=value, indices=indices) if updates is not None and not step.at:
                neutral = updates.operator.identity_of(TYPES[self.kinds[step.target]])
                if neutral is not None and self.regions.fill(value) == neutral:
                    return self.outer(self.regions.of(value), known)
            case lang.Set(_, op, value) if op != "=":
                operator = lang.Apply(_operator(op), (), function=step.function).operator
                neutral = operator.identity_of(settled(self.scalars[step.name]))
                if neutral is not None and self.regions.fill(value) == neutral:
                    return self.outer(self.regions.of(value), known)
            case lang.If(condition, then, otherwise):
                fill = self.regions.fill(condition)
                inside = self.effects(then, known)
                if otherwise:
                    return union([inside, self.effects(otherwise, known)])
                asked = self.outer(self.regions.of(condition), known) if fill is not None and not fill else None
                return smallest([asked, inside])
            case lang.For(indices, body):
                return self.outer(self.effects(body, set(known) | set(indices)), known)
        return None

    def outer(self, found: list[Region] | None, known: frozenset[str] | set[str]) -> list[Region] | None:
        """Regions in terms of known indices only: accesses with others are left out."""
        if found is None:
            return None
        result = []
        for region in found:
            kept = tuple(a for a in region.accesses if self.indices_in(a) <= known)
            if not kept or region.links:
                return None
            result.append(Region(kept, (), tuple(c for c in region.where if self.indices_of(c) <= known)))
        return list(dict.fromkeys(result))

    def indices_in(self, access: lang.Access) -> set[str]:
        return {v for s in access.subscripts for v in variables(s) if v in self.indices}

    def equation(self, eq: Equation, env: Env) -> list[Plan]:
        target = self.tensors[eq.target]
        if eq.at:
            return self.scattered(eq, env)
        if eq.target in self.assembled:
            return self.to_entries(eq, env)
        access = lang.Access(eq.target, eq.subscripts, eq.span)
        if eq.target not in self.dense or eq.within:
            return self.within(eq, access, env)
        reads = {(a.tensor, a.subscripts) for a in _accesses(eq.value) if a.tensor == eq.target}
        if reads - {(eq.target, eq.subscripts)}:
            return self.from_copy(eq, env)
        first, eq = self.hoisted(eq, env)
        if first:
            return [*first, *self.equation(eq, env)]
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
        if access.tensor in self.collected:
            return self.kept_entry(eq, access, value)
        if access.tensor in self.assembled:
            tensor = self.tensors[access.tensor]
            return [Append(access.tensor, access.subscripts, _cast(value, tensor.entry_type))]

        def leaf(inner: Env) -> Plan:
            read = inner.values[key]
            assert isinstance(read, Read)
            new = value if eq.updates is None else replace(eq.updates, arguments=(read, value))
            return Store(read.operand, new)

        if isinstance(env.values.get(key), Read):
            return [leaf(env)]
        return self.nests((access,), (), (), leaf, replace(env, parallel=False))

    def kept_entry(self, eq: Equation, access: lang.Access, value: Any) -> list[Plan]:
        """The value for a result whose entries are kept in a table until all are there."""
        table, kind = self.collected[access.tensor], self.kinds[access.tensor]
        fill = self.tensors[access.tensor].layout.fill
        old = Scalar(self.fresh("before"), kind)
        new = _cast(value, kind) if eq.updates is None else replace(eq.updates, arguments=(old, value))
        return [Entry(table, kind, access.subscripts, _cast(new, kind), old.name, _typed(fill, kind).value)]

    def delivered(self, name: str) -> list[Plan]:
        """All entries of a table, one after another, as those of a result."""
        table = self.collected[name]
        tensor = self.tensors[table]
        indices = self.indices_for(tensor)
        access = lang.Access(table, tuple(Var(i) for i in indices))

        def leaf(inner: Env) -> Plan:
            return Append(name, access.subscripts, _cast(inner.values[_key(access)], self.tensors[name].entry_type))

        return self.nests((access,), indices, (), leaf, Env())

    def to_entries(self, eq: Equation, env: Env) -> list[Plan]:
        """A result whose pattern is computed: what may differ from its fill is an entry."""
        access = lang.Access(eq.target, eq.subscripts, eq.span)
        tensor = self.tensors[eq.target]
        first, eq = self.tabled(eq, env)
        fill = tensor.layout.fill
        found, own = self.regions.of(eq.value), self.regions.fill(eq.value)
        neutral = own
        if eq.updates is not None:
            neutral = eq.updates.operator.identity_of(TYPES[tensor.value_type])
        same = own is not None and neutral is not None and fill_text(own) == fill_text(neutral)
        if eq.updates is None:
            same = own is not None and fill_text(_typed(own, tensor.value_type).value) == fill_text(fill)
        spoken = {s.name for s in eq.subscripts if isinstance(s, Var)}
        again = eq.updates is None and not (env.known & set(self.extents)) <= spoken
        everywhere = found is None or not same or again
        conditions = () if eq.where is None else tuple(conjuncts(eq.where))

        def leaf(inner: Env) -> Plan:
            lines, value = self.point_value(eq.value, inner)
            stored = self.stored(eq, access, value, inner)
            if everywhere and eq.updates is None and not again:
                kept = Scalar(self.fresh("value"), tensor.value_type)
                lines = [*lines, Let(kept.name, kept.type, _cast(value, kept.type))]
                differs = self.differs(kept, fill)
                stored = [If(differs, Block(tuple(self.stored(eq, access, kept, inner))))]
            return Block((*lines, *stored))

        regions = [Region(())] if everywhere else found or []
        emptied: list[Plan] = []
        if eq.updates is None and not env.known and eq.target in self.collected:
            emptied = [Emptied(self.collected[eq.target])]
        return [*first, *emptied, *self.passes(regions, eq.indices, conditions, leaf, env, eq.subscripts)]

    def differs(self, value: Scalar, fill: Any) -> Any:
        """Whether a value is not the fill; nan is nan."""
        number = _typed(fill, value.type)
        if fill != fill:
            return lang.Apply("logical_not", (lang.Apply("isnan", (value,)),))
        return lang.Apply("not_equal", (value, number))

    def tabled(self, eq: Equation, env: Env) -> tuple[list[Plan], Equation]:
        """Reductions that are their identity at most points become tables of the others."""
        if env.known:
            return [], eq
        parts: list[Plan] = []

        def rule(node: Any) -> Any:
            if not isinstance(node, lang.Reduce) or any(isinstance(n, lang.Local) for n in walk(node)):
                return None
            free, neutral, fill = self.free(node), self.types.identity(node), self.regions.fill(node.value)
            found = self.regions.of(node.value)
            if not free or not free <= set(eq.indices) or not found or neutral is None or fill != neutral:
                return None
            more, access = self.as_table(node, tuple(sorted(free)), found)
            parts.extend(more)
            return access

        value = _outermost(rule, eq.value)
        return (parts, replace(eq, value=value)) if parts else ([], eq)

    def as_table(
        self, node: lang.Reduce, indices: tuple[str, ...], found: Sequence[Region]
    ) -> tuple[list[Plan], lang.Access]:
        """A table of the points at which a reduction has anything to combine."""
        kind, neutral = self.types.reduced(node), self.types.identity(node)
        name = self.fresh(_accumulator(node.op))
        layout = own_tensor(name, kind.name, [self.extent_name(i) for i in indices])
        self.tensors[name] = entries_of(name, replace(layout, layout=replace(layout.layout, fill=neutral)))
        self.kinds[name] = kind.name
        self.labels.add(name)
        self.tables[name] = name
        self.__dict__.pop("dense", None)
        subscripts = tuple(Var(i) for i in indices)
        operator = lang.Apply(node.op, (), node.span, node.function)

        def leaf(inner: Env) -> Plan:
            lines, value = self.point_value(node.value, inner)
            old = Scalar(self.fresh("before"), kind.name)
            new = replace(operator, arguments=(old, _cast(value, kind.name)))
            number = _typed(neutral, kind.name).value
            return Block((*lines, Entry(name, kind.name, subscripts, _cast(new, kind.name), old.name, number)))

        body = self.passes(found, (*indices, *node.indices), self.conditions(node), leaf, Env(parallel=False))
        why = f"{node.op} at the points at which there is anything to combine"
        return [Collect(name, kind.name, len(indices), Block(tuple(body)), why)], lang.Access(name, subscripts)

    def within(self, eq: Equation, access: lang.Access, env: Env) -> list[Plan]:
        """A target that stores some points only: those drive."""

        def leaf(inner: Env) -> Plan:
            lines, value = self.point_value(eq.value, inner)
            return Block((*lines, *self.stored(eq, access, value, inner)))

        conditions = () if eq.where is None else tuple(conjuncts(eq.where))
        return self.passes([Region((access,))], eq.indices, conditions, leaf, env, eq.subscripts)

    def scattered(self, eq: Equation, env: Env) -> list[Plan]:
        """A target whose places are values: each point of the indices is met, and its place looked at."""
        target = self.tensors[eq.target]
        access = lang.Access(eq.target, eq.subscripts, eq.span)
        conditions = () if eq.where is None else tuple(conjuncts(eq.where))
        found: list[Region] | None = None
        if eq.updates is not None:
            neutral = eq.updates.operator.identity_of(TYPES[target.value_type])
            if neutral is not None and self.regions.fill(eq.value) == neutral:
                found = self.regions.of(eq.value)
        parts: list[Plan] = []
        if eq.updates is None and not env.known and eq.target not in self.assembled:
            parts += self.emptied(eq.target)

        def leaf(inner: Env) -> Plan:
            lines: list[Plan] = []
            for place in eq.at:
                more, inner = self.placed(place.name, place.value, access, inner)
                lines += more
            more, value = self.point_value(eq.value, inner)
            return Block((*lines, *more, *self.stored(eq, access, value, inner)))

        return [*parts, *self.passes([Region(())] if found is None else found, eq.indices, conditions, leaf, env)]

    def emptied(self, name: str) -> list[Plan]:
        """All of a tensor becomes its fill."""
        tensor = self.tensors[name]
        indices = self.indices_for(tensor)
        access = lang.Access(name, tuple(Var(i) for i in indices))
        eq = Equation(name, access.subscripts, indices, lang.Constant(tensor.layout.fill))
        return self.filled(eq, access, eq.value, Env())

    def indices_for(self, tensor: Tensor) -> tuple[str, ...]:
        """New indices over all of a tensor."""
        result = []
        for extent in tensor.extents:
            index = self.fresh("q")
            self.extents[index] = Num(self.program.fixed[extent]) if extent in self.program.fixed else Var(extent)
            self.indices.add(index)
            result.append(index)
        return tuple(result)

    def placed(self, name: str, at: Any, access: lang.Access, env: Env) -> tuple[list[Plan], Env]:
        """`name` is the place that a value says, which has to lie within the tensor."""
        lines, place, env = self.computed(at, env)
        self.indices.add(name)
        own = Scalar(name, "int64")
        lines = [*lines, Let(name, "int64", place)]
        tensor = self.tensors[access.tensor]
        inside = [
            within(s, ZERO, Num(self.program.fixed[e]) if e in self.program.fixed else Var(e))
            for s, e in zip(access.subscripts, tensor.extents, strict=True)
            if name in variables(s)
        ]
        missed = Block((Assign(OUTSIDE, "bool", lang.Constant(True)), Assign(name, "int64", lang.Constant(0))))
        test = lang.Apply("logical_not", (Holds(conjunction([Compare("<=", ZERO, Var(name)), *inside])),))
        self.refuses = True
        del own
        return [*lines, If(test, missed, None, "refused at the end")], env.knowing([name])

    def from_copy(self, eq: Equation, env: Env) -> list[Plan]:
        """A statement that reads its target elsewhere: what it reads is the target before the statement."""
        tensor = self.tensors[eq.target]
        name = self.fresh(f"{eq.target}_before")
        self.own(name, tensor.value_type, None, tensor.extents)
        indices = self.indices_for(tensor)
        subscripts = tuple(Var(i) for i in indices)
        old = lang.Access(eq.target, subscripts)
        copy = lang.Access(name, subscripts)
        copied = Equation(name, subscripts, indices, old)

        def leaf(inner: Env) -> Plan:
            lines, value = self.point_value(old, inner)
            return Block((*lines, *self.stored(copied, copy, value, inner)))

        def rule(node: Any) -> Any:
            if isinstance(node, lang.Access) and node.tensor == eq.target:
                return replace(node, tensor=name)
            return None

        first = self.passes([Region((copy,))], indices, (), leaf, replace(env, parallel=not env.known), subscripts)
        return [*first, *self.equation(replace(eq, value=rewrite(rule, eq.value)), env)]

    # --- reductions of all points at once --------------------------------------------------------

    def hoisted(self, eq: Equation, env: Env) -> tuple[list[Plan], Equation]:
        """Reductions whose operand cannot be gone through point by point without looking for each entry are made for
        all points first, in the operand's own order."""
        if env.known:
            return [], eq
        parts: list[Plan] = []

        def rule(node: Any) -> Any:
            if isinstance(node, lang.Reduce) and self.is_scattered(node, eq):
                more, access = self.of_all_points(node)
                parts.extend(more)
                return access
            return None

        value = _outermost(rule, eq.value)
        return (parts, replace(eq, value=value)) if parts else ([], eq)

    def is_scattered(self, node: lang.Reduce, eq: Equation) -> bool:
        """Whether, with the indices around it known, a nest of the reduction would look for entries in a loop that runs
        over everything."""
        if node.op in ("argmin", "argmax") or any(isinstance(n, lang.Local | Gathered) for n in walk(node)):
            return False
        known = self.free(node) & set(eq.indices)
        if not known or not self.free(node) <= set(eq.indices):
            return False
        found = self.regions.of(node.value)
        if not found or self.regions.fill(node.value) is None:
            return False
        if self.types.identity(node) != self.regions.fill(node.value) and (
            self.conditions(node) or not self.has_power(node)
        ):
            return False
        env = Env(frozenset(known), parallel=False)
        labels = set(self.labels)
        empty = Block(())
        nests = [p for r in found for p in self.driven_by(r, node.indices, self.conditions(node), lambda _: empty, env)]
        self.labels = labels
        return any(self.looks_everywhere(n) for nest in nests for n in walk(nest, Plan))

    def looks_everywhere(self, node: Plan) -> bool:
        if isinstance(node, Find) and node.key is None:
            return True
        if not isinstance(node, Scan):
            return False
        bounds = {v for e in (*node.low, *node.high) for v in variables(e)}
        sized = bounds <= {*self.program.size_of, *self.program.parameters, *self.sizes}
        return sized and any(isinstance(n, Find | Segment) for n in walk(node.body, Plan))

    def of_all_points(self, node: lang.Reduce) -> tuple[list[Plan], lang.Access]:
        """The reduction at all points of the indices around it, into memory of the kernel's."""
        indices = tuple(sorted(self.free(node)))
        kind = self.types.reduced(node)
        neutral, fill = self.types.identity(node), self.regions.fill(node.value)
        name = self.fresh(_accumulator(node.op))
        names = [self.extent_name(i) for i in indices]
        self.own(name, kind.name, 0 if neutral is None else neutral, names)
        counter = ""
        if neutral is None or neutral != fill:
            counter = self.fresh("visited")
            self.own(counter, "int64", 0, names)
        subscripts = tuple(Var(i) for i in indices)
        total, count = lang.Access(name, subscripts), lang.Access(counter, subscripts)
        operator = lang.Apply(node.op, (), node.span, node.function)
        adding = Equation(name, subscripts, (), None, operator)
        counting = Equation(counter, subscripts, (), None, lang.Apply("add", ()))
        first = Equation(name, subscripts, (), None)

        def combined(value: Any, inner: Env) -> list[Plan]:
            value = _cast(value, kind.name)
            more = self.stored(adding, total, value, inner)
            if neutral is None:
                lines, seen, _ = self.computed(count, inner)
                never = lang.Apply("equal", (seen, lang.Constant(0)))
                more = [*lines, If(never, Block(tuple(self.stored(first, total, value, inner))), Block(tuple(more)))]
            return more

        def leaf(inner: Env) -> Plan:
            lines, value = self.point_value(node.value, inner)
            done = combined(value, inner)
            if counter:
                done += self.stored(counting, count, lang.Constant(1), inner)
            return Block((*lines, *done))

        conditions = self.conditions(node)
        found = self.regions.of(node.value)
        assert found is not None
        parts = self.passes(found, (*indices, *node.indices), conditions, leaf, Env(), subscripts)
        if counter:
            whole = self.whole(node.indices)

            def last(inner: Env) -> Plan:
                lines, seen, inner = self.computed(count, inner)
                rest = lang.Apply("subtract", (lang.Index(whole), seen))
                number = _typed(fill, settled(self.types.kind(node.value)).name)
                value = self.power(node, number, rest, kind.name)
                more = Block(tuple(combined(value, inner)))
                return Block((*lines, If(lang.Apply("less", (seen, lang.Index(whole))), more)))

            parts += self.passes([Region((count,))], indices, (), last, Env(), subscripts)
        return parts, total

    def extent_name(self, index: str) -> str:
        """The extent of an index as the name of a size."""
        extent = self.extents[index]
        if isinstance(extent, Var):
            return extent.name
        name = self.fresh(f"{index}_extent")
        self.before.append(Define(name, extent))
        self.sizes[name] = extent
        return name

    def free(self, value: Any) -> set[str]:
        """The indices of a value that nothing within it binds."""
        names = {n.name for n in walk(value) if isinstance(n, Var) and n.name in self.indices}
        names |= {m for n in walk(value) if isinstance(n, Linked) for m in n.link.names}
        bound = {i for n in walk(value) if isinstance(n, lang.Reduce) for i in n.indices}
        for node in walk(value):
            if isinstance(node, Linked):
                inner = self.free(node.value)
                bound |= inner & set(
                    node.link.parts if isinstance(node.link, Link) else (node.link.name,)
                ) - self.outside(node)
        return names - bound

    def outside(self, node: Linked) -> set[str]:
        """Of the names of a link, those on the side that decides: what the value inside does not speak of."""
        spoken = {n.name for n in walk(node.value) if isinstance(n, Var)}
        spoken |= {m for n in walk(node.value) if isinstance(n, Linked) for m in n.link.names}
        return set(node.link.names) - spoken

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
        own = {v for a in region.accesses for s in a.subscripts for v in variables(s) if v in self.indices}
        more = [p for k in pending if isinstance(k, Link) and own & set(k.parts) for p in k.parts if p not in own]
        reached = self.reached(env.known | own | set(more), pending)
        more += [i for i in indices if i not in reached]
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
        return {v for v in variables(condition) if v in self.indices}

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
            if any(name in env.known for name in decided):
                guards.append(Holds(_meaning(ready)))
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
            v for a in accesses for s in a.subscripts for v in sorted(variables(s)) if v in self.indices
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
        names = (*known, *self.sizes, *(e.name for e in self.extents.values() if isinstance(e, Var)))
        facts = [
            f for i in sorted(env.known & set(self.extents)) for f in conjuncts(within(Var(i), ZERO, self.extents[i]))
        ]
        ranges = Ranges(
            tuple(dict.fromkeys(names)),
            self.program.fixed,
            {i: (self.extents[i],) for i in unknown if i in self.extents},
            tuple(facts),
            self.steps.free & env.known,
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
        target = replace(instance.target, place=place, extents=tuple(ONE for _ in unknown))
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
        assert isinstance(does.value, lang.Apply)
        found = dict(zip(map(_key, accesses), does.value.arguments, strict=True))
        loops = any(isinstance(n, Scan | Find) for n in nodes)
        loads = {n.dim for n in nodes if isinstance(n, Load)}
        inner = replace(env, parallel=env.parallel and not loops, loaded=env.loaded | loads)
        body = leaf(inner.knowing(unknown).having(found))
        result: Plan = Block((*lines, body)) if lines else body
        for node in reversed(nodes[:-1]):
            if not (isinstance(node, Load) and node.dim in env.loaded):  # the same call was read further out
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
                first, one, inner = self.computed(then, env)
                second, other, _ = self.computed(otherwise, env)
                if not first and not second:
                    return [], lang.Apply("where", (Holds(condition), one, other), value.span), env
                kind = self.types.of(value).name
                own = Scalar(self.fresh("chosen"), kind)
                yes = Block((*first, Assign(own.name, kind, one)))
                no = Block((*second, Assign(own.name, kind, other)))
                return [Let(own.name, kind, _typed(0, kind)), If(Holds(condition), yes, no)], own, env
            case Linked(link, inner):
                lines, env = self.linked((link,), env)
                more, found_value, env = self.computed(inner, env)
                return [*lines, *more], found_value, env
            case Gathered(name, at, inner):
                access = next(a for a in _accesses(inner) if any(name in variables(e) for e in a.subscripts))
                lines, within_env = self.placed(name, at, access, env)
                more, found_value, _ = self.computed(inner, within_env)
                return [*lines, *more], found_value, env
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
        if access.tensor not in self.written and any(self.compares(n) for p in found for n in walk(p, Plan)):
            return self.probed(access, env)
        plain = self.plainly(found, name)
        if plain is not None:
            return [], lang.Constant(True), env.having({key: plain})
        lines: list[Plan] = [Let(name, kind, fill), Let(flag_name, "bool", lang.Constant(False)), *found]
        return lines, there, env.having({key: value, (f"{access.tensor}?", access.subscripts): there})

    def compares(self, node: Plan) -> bool:
        """Whether a loop looks at everything that a tensor stores."""
        if not isinstance(node, Find | Scan):
            return False
        bounds = {v for e in (*node.low, *node.high) for v in variables(e)}
        everything = bool(bounds) and bounds <= {*self.context.stored, *(f"{t}.{COUNT}" for t in self.tables.values())}
        return everything and (isinstance(node, Scan) or node.key is None)

    def probed(self, access: lang.Access, env: Env) -> tuple[list[Plan], Any, Env]:
        """The same by a hash table of all that the tensor stores."""
        names = {t: n for n, t in self.tables.items()}
        table = access.tensor if access.tensor in names else self.table(access.tensor)
        tensor = self.tensors[table]
        entry = self.fresh(f"{access.tensor}_entry")
        (value,) = tensor.layout.values
        place = Operand(table, table, value.name, (Var(entry),), (Var(f"{table}.{COUNT}"),), (), (), True)
        there = Holds(Compare(">=", Var(entry), ZERO))
        name = self.fresh(f"{access.tensor}_value")
        found = Scalar(name, tensor.value_type)
        lines: list[Plan] = [
            Probe(entry, table, access.subscripts),
            Let(name, tensor.value_type, _typed(tensor.layout.fill, tensor.value_type)),
            If(there, Assign(name, tensor.value_type, Read(place))),
        ]
        key = _key(access)
        return lines, there, env.having({key: found, (f"{access.tensor}?", access.subscripts): there})

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
        conditions = self.conditions(node)
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

    def argument(self, node: lang.Reduce, env: Env) -> tuple[list[Plan], Any]:
        """The first index at which the value is least (or greatest); a nan is less and greater than all numbers, as in
        numpy. What no region has counts only where it could be the one: then all points are looked at."""
        if len(node.indices) != 1:
            raise SpecError(f"expected one index of `{node.op}`, but there are {len(node.indices)}", node.span)
        (index,) = node.indices
        kind = self.types.of(node.value)
        fill, found = self.regions.fill(node.value), self.regions.of(node.value)
        conditions = self.conditions(node)
        best, at = Scalar(self.fresh("best"), kind.name), Scalar(self.fresh(node.op), "int64")
        lines: list[Plan] = [
            Let(best.name, kind.name, _typed(0, kind.name)),
            Let(at.name, "int64", lang.Constant(-1)),
        ]
        less = "less" if node.op == "argmin" else "greater"

        def better(value: Any, place: Any) -> Any:
            def both(*parts: Any) -> Any:
                return _joined("logical_and", parts)

            def either(*parts: Any) -> Any:
                return _joined("logical_or", parts)

            sooner = lang.Apply("less", (place, at))
            same = both(lang.Apply("equal", (value, best)), sooner)
            found = either(lang.Apply(less, (value, best)), same)
            if kind.kind in "fc":
                nan, old = lang.Apply("isnan", (value,)), lang.Apply("isnan", (best,))
                known = lang.Apply("logical_not", (old,))
                found = either(both(nan, either(known, sooner)), both(known, found))
            return either(lang.Apply("less", (at, lang.Constant(0))), found)

        counted = Scalar(self.fresh("visited"), "int64") if found is not None and not conditions else None
        if counted is not None:
            lines.append(Let(counted.name, "int64", lang.Constant(0)))
        else:
            found = [Region(())]

        def leaf(inner: Env) -> Plan:
            more, value = self.point_value(node.value, inner)
            place = lang.Index(Var(index))
            taken = Block((Assign(best.name, kind.name, value), Assign(at.name, "int64", place)))
            count: list[Plan] = []
            if counted is not None:
                count = [Assign(counted.name, "int64", lang.Apply("add", (counted, lang.Constant(1))))]
            return Block((*more, If(better(value, place), taken), *count))

        inner = replace(env, parallel=False)
        lines += self.passes(found or [], node.indices, conditions, leaf, inner)
        if counted is not None:
            number = _typed(fill, kind.name)
            other = lang.Apply("less" if node.op == "argmin" else "greater", (best, number))
            decided = _joined("logical_and", (lang.Apply("greater_equal", (at, lang.Constant(0))), other))
            if kind.kind in "fc":
                decided = _joined("logical_or", (decided, lang.Apply("isnan", (best,))))
            open_ = _joined(
                "logical_and",
                (
                    lang.Apply("less", (counted, lang.Index(self.extents[index]))),
                    lang.Apply("logical_not", (decided,)),
                ),
            )
            counted = None
            again = self.passes([Region(())], node.indices, (), leaf, inner)
            lines.append(If(open_, Block(tuple(again))))
        return lines, at

    def conditions(self, node: lang.Reduce) -> tuple[Formula, ...]:
        """Where the points of a reduction are: its condition, and that accesses lie within their tensors. In a sum what
        lies outside is no more than a fill, unless nothing else bounds an index."""
        found = [] if node.where is None else list(conjuncts(node.where))
        free = set(node.indices) & self.steps.free
        for access in _direct(node.value):
            if node.op != "add" or free & self.indices_in(access):
                found += self.inside(access)
        return tuple(dict.fromkeys(found))

    def inside(self, access: lang.Access) -> list[Formula]:
        """That an access lies within its tensor, where that is a question."""
        found: list[Formula] = []
        for subscript, extent in zip(access.subscripts, self.tensors[access.tensor].extents, strict=True):
            size: Expr = Num(self.program.fixed[extent]) if extent in self.program.fixed else Var(extent)
            if isinstance(subscript, Var) and self.extents.get(subscript.name) == size:
                continue
            found += conjuncts(within(subscript, ZERO, size))
        return found

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


def _direct(value: Any) -> Iterator[lang.Access]:
    """The accesses of a value that nothing but operators is around."""
    match value:
        case lang.Access():
            yield value
        case lang.Apply(_, arguments):
            for argument in arguments:
                yield from _direct(argument)


def _joined(op: str, parts: Sequence[Any]) -> Any:
    result = parts[0]
    for part in parts[1:]:
        result = lang.Apply(op, (result, part))
    return result


def _outermost(rule: Callable[[Any], Any], value: Any) -> Any:
    """The rule applied from the outside in, not within what it has replaced."""
    found = rule(value)
    if found is not None:
        return found
    match value:
        case lang.Apply(_, arguments):
            return replace(value, arguments=tuple(_outermost(rule, a) for a in arguments))
        case Chosen(_, then, otherwise):
            return replace(value, then=_outermost(rule, then), otherwise=_outermost(rule, otherwise))
    return value


def _operator(op: str) -> str:
    return {"+=": "add"}.get(op, op)


def order_is_free(steps: Sequence[Any], indices: Sequence[str], written: set[str]) -> bool:
    """Whether iterations of a loop over the indices may run in any order: what they write are updates of which the
    order does not matter, or places of their own, and they read nothing of what others write."""
    inside = [n for s in steps for n in walk(s)]
    own = {n.name for n in inside if isinstance(n, lang.Let)}
    equations = [n for n in inside if isinstance(n, Equation)]
    if any(isinstance(n, lang.Break) for s in steps for n in _of_loop(s)) or any(
        isinstance(n, lang.While) for n in inside
    ):
        return False
    targets = {e.target for e in equations}
    for equation in equations:
        alone = {s.name for s in equation.subscripts if isinstance(s, Var)}
        if not set(indices) <= alone:
            operator = None if equation.updates is None else equation.updates.operator
            if operator is None or not operator.commutative or not operator.associative:
                return False
    for access in (n for s in steps for n in _accesses(s)):
        if access.tensor in targets:
            alone = {s.name for s in access.subscripts if isinstance(s, Var)}
            if not set(indices) <= alone:
                return False
    for step in (n for n in inside if isinstance(n, lang.Set) and n.name not in own):
        operator = None if step.op == "=" else lang.Apply(_operator(step.op), (), function=step.function).operator
        if operator is None or not operator.commutative or not operator.associative:
            return False
    sets = {n.name for n in inside if isinstance(n, lang.Set) and n.name not in own}
    return not any(isinstance(n, lang.Local) and n.name in sets for n in inside)


def _of_loop(step: Any) -> Iterator[Any]:
    """The steps that belong to the loop around, not to one further in."""
    yield step
    if isinstance(step, lang.If):
        for inner in (*step.then, *step.otherwise):
            yield from _of_loop(inner)


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

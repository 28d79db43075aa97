"""Steps whose sums are explicit (lang/normalize.py) to normal form: unique indices, views as relations of indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spfgen.errors import InternalError
from spfgen.facts.formula import (
    ONE,
    ZERO,
    Bin,
    Expr,
    Formula,
    Num,
    Var,
    rename,
    substitute,
)
from spfgen.ir import fresh, walk
from spfgen.lang import nodes as lang
from spfgen.lang.blocks import with_blocks, with_values
from spfgen.lang.show import show_statement
from spfgen.lang.uses import leaves_the_rest
from spfgen.lang.values import indices_of
from spfgen.space.conditions import condition_of
from spfgen.space.implicit_updates import without_values
from spfgen.space.steps import Chosen, Equation, Gathered, Link, Linked, Place, Tie
from spfgen.space.typed import Holds


@dataclass
class Normal:
    """Puts the steps of a kernel in normal form. `sizes` are names that are no indices; `taken` those of indices."""

    sizes: frozenset[str]
    taken: set[str] = field(default_factory=set)
    links: list[Link] = field(default_factory=list)
    collapsed: set[str] = field(default_factory=set)
    slices: dict[str, tuple[Any, Expr | None, Expr | None, int]] = field(default_factory=dict)
    further: list[tuple[str, tuple[Any, Expr | None, Expr | None, int]]] = field(default_factory=list)
    """Other slices of the same index, which have to be as long."""
    concats: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    called: dict[str, str] = field(default_factory=dict)
    """What each index was written as."""
    scalars: set[str] = field(default_factory=set)
    """Names of `let`."""
    shared: dict[str, str] = field(default_factory=dict)
    """Indices of reductions, and the first one of the same statement that was written alike: they have one range."""
    alike: dict[str, str] = field(default_factory=dict)
    """The first ones in the statement at hand, by what they were written as."""

    def steps(self, steps: Sequence[Any], names: Mapping[str, str]) -> tuple[Any, ...]:
        self.scalars |= {s.name for s in steps if isinstance(s, lang.Let)}
        return tuple(self.step(s, names) for s in steps)

    def step(self, step: Any, names: Mapping[str, str]) -> Any:
        """`names` are the indices bound around it, by what they are called here."""
        match step:
            case lang.Statement():
                return self.statement(step, names)
            case lang.For(indices, body, where):
                inner_names = {**names, **{i: self.new(i) for i in indices}}
                condition = None if where is None else rename(where, inner_names)
                loop = replace(
                    step,
                    indices=tuple(inner_names[i] for i in indices),
                    body=self.steps(body, inner_names),
                    where=condition,
                )
                return self.ended_at_once(loop)
        self.alike = {}
        step = with_values(step, lambda value: self.value(value, names))
        return with_blocks(step, lambda block: self.steps(block, names))

    def ended_at_once(self, loop: lang.For) -> lang.For:
        """A `break` ends the loop over all of its indices: where they are several, each of these loops."""
        if len(loop.indices) < 2 or not any(isinstance(s, lang.Break) for s in _own_steps(loop.body)):
            return loop
        *outer, last = loop.indices
        name = fresh("ended", self.taken | self.scalars)
        self.scalars.add(name)
        inner = replace(loop, indices=(last,), body=_told(loop.body, lang.Set(name, "=", lang.Constant(True))))
        ends = lang.If(lang.Local(name), (lang.Break(),), ())
        body = (lang.Let(name, lang.Constant(False)), inner, ends)
        return self.ended_at_once(replace(loop, indices=tuple(outer), body=body, where=None))

    def new(self, name: str) -> str:
        new_name = fresh(name, self.taken)
        self.taken.add(new_name)
        self.called[new_name] = name
        return new_name

    # --- statements ------------------------------------------------------------------------------

    def statement(self, step: lang.Statement, names: Mapping[str, str]) -> Equation:
        target = step.target
        self.alike = {}
        of_target: dict[str, str] = {}
        subscripts: list[Any] = []
        for subscript in target.subscripts:
            new_indices = (
                indices_of(lang.Access(target.tensor, (subscript,))) - self.sizes - set(names) - set(of_target)
            )
            of_target |= {n: self.new(n) for n in sorted(new_indices, key=lambda n: _first(subscript, n))}
        inside = {**names, **of_target}
        at: list[Place] = []
        for k, subscript in enumerate(target.subscripts):
            match subscript:
                case lang.Range(index, start, stop, by):
                    self.slices[inside[index]] = (("tensor", target.tensor, k), start, stop, by)
                    subscripts.append(_affine(inside[index], start, by, (target.tensor, k)))
                case Expr():
                    subscripts.append(rename(subscript, inside))
                case _:
                    name = self.new("at")
                    at.append(Place(name, self.value(subscript, inside)))
                    subscripts.append(Var(name))
        return Equation(
            target.tensor,
            tuple(subscripts),
            tuple(of_target.values()),
            self.value(step.value, inside),
            _update(step),
            tuple(at),
            None if step.where is None else rename(step.where, inside),
            step.within,
            leaves_the_rest(step),
            show_statement(without_values(step)),
            step.span,
        )

    # --- values ----------------------------------------------------------------------------------

    def value(self, value: Any, names: Mapping[str, str]) -> Any:
        match value:
            case lang.Constant() | lang.Local():
                return value
            case lang.Index(expr):
                return replace(value, expr=rename(expr, names))
            case lang.Access():
                return self.access(value, names)
            case lang.Apply(op, arguments):
                if (condition := condition_of(value)) is not None:
                    return Holds(rename(condition, names))
                operands = tuple(self.value(a, names) for a in arguments)
                if op == "where" and isinstance(operands[0], Holds):
                    return Chosen(operands[0].condition, operands[1], operands[2], value.span)
                return replace(value, arguments=operands)
            case lang.Reduce(_, indices, inner, where):
                inner_names = {**names, **{i: self.new(i) for i in indices}}
                self.shared |= {inner_names[i]: self.alike.setdefault(i, inner_names[i]) for i in indices}
                condition = None if where is None else rename(where, inner_names)
                return replace(
                    value,
                    indices=tuple(inner_names[i] for i in indices),
                    value=self.value(inner, inner_names),
                    where=condition,
                )
            case lang.Coalesce(arguments):
                values = [self.value(a, names) for a in arguments]
                result = values[-1]
                for argument in reversed(values[:-1]):
                    gathers: list[Gathered] = []
                    plain = ungathered(argument, gathers)
                    result = Chosen(InsideTensors(plain), plain, result, value.span)
                    for gather in reversed(gathers):
                        result = replace(gather, value=result, checked=False)
                return result
            case lang.Collapse(inner, old, new):
                inner_names = {**names, **{o: self.new(o) for o in old}}
                inner_names = {n: v for n, v in inner_names.items() if n != new or n in old}
                link = Link(names[new], tuple(inner_names[o] for o in old), ())
                self.links.append(link)
                self.collapsed.add(names[new])
                return Linked(link, self.value(inner, inner_names), value.span)
            case lang.Split(inner, old, new):
                inner_names = {**names, old: self.new(old)}
                link = Link(inner_names[old], tuple(names[n] for n in new), (), True)
                self.links.append(link)
                return Linked(link, self.value(inner, inner_names), value.span)
            case lang.Slice(inner, old, new, start, stop, by):
                marker = self.new(old)
                inner_names = {**names, old: marker}
                self.slices[names[new]] = (marker, start, stop, by)
                return moved(self.value(inner, inner_names), Tie(marker, names[new], start, by), value.span)
            case lang.Concat(values, old, new):
                return self.concat(value, values, old, names[new], names)
        raise InternalError(f"no normal form of {value!r}")

    def concat(
        self, node: lang.Concat, values: Sequence[Any], old: Sequence[str], new: str, names: Mapping[str, str]
    ) -> Any:
        markers = [self.new(o) for o in old]
        parts = [self.value(v, {**names, o: m}) for v, o, m in zip(values, old, markers, strict=True)]
        self.concats.append((new, tuple(markers)))
        return Joined(new, tuple(markers), tuple(parts), node.span)

    def access(self, access: lang.Access, names: Mapping[str, str]) -> Any:
        subscripts: list[Expr] = []
        at: list[tuple[str, Any]] = []
        for k, subscript in enumerate(access.subscripts):
            match subscript:
                case lang.Range(index, start, stop, by):
                    sliced = (("tensor", access.tensor, k), start, stop, by)
                    if self.slices.setdefault(names[index], sliced) != sliced:
                        self.further.append((names[index], sliced))
                    subscripts.append(_affine(names[index], start, by, (access.tensor, k)))
                case Expr():
                    subscripts.append(rename(subscript, names))
                case _:
                    name = self.new("at")
                    at.append((name, self.value(subscript, names)))
                    subscripts.append(Var(name))
        result: Any = replace(access, subscripts=tuple(subscripts))
        for name, place in reversed(at):
            result = Gathered(name, place, result, access.span)
        return result


def _own_steps(steps: Sequence[Any]) -> Iterator[Any]:
    """The steps that belong to a loop, not to one further in."""
    for step in steps:
        yield step
        if isinstance(step, lang.If):
            yield from _own_steps((*step.then, *step.otherwise))


def _told(steps: Sequence[Any], telling: lang.Set) -> tuple[Any, ...]:
    """The steps of a loop, with that one before each `break` that ends it."""
    result: list[Any] = []
    for step in steps:
        match step:
            case lang.Break():
                result.append(telling)
            case lang.If(_, then, otherwise):
                step = replace(step, then=_told(then, telling), otherwise=_told(otherwise, telling))
        result.append(step)
    return tuple(result)


@dataclass(frozen=True, slots=True)
class InsideTensors(Formula):
    """That all accesses of a value lie within their tensors; a formula once the extents are known."""

    value: Any


@dataclass(frozen=True, slots=True)
class Joined:
    """A concatenation whose parts' extents are not known yet: `old` are the indices of the parts."""

    new: str
    old: tuple[str, ...]
    parts: tuple[Any, ...]
    span: Any = field(default=None, compare=False, repr=False)


def ungathered(value: Any, gathers: list[Gathered]) -> Any:
    """The value without its gathers, inner ones first: they are put around what looks at their places itself. A place
    that is read outside of its tensor is none."""
    match value:
        case Gathered(_, at, inner):
            plain = ungathered(at, gathers)
            gathers.append(replace(value, at=Chosen(InsideTensors(plain), plain, lang.Constant(-1))))
            return ungathered(inner, gathers)
        case lang.Apply(_, arguments):
            return replace(value, arguments=tuple(ungathered(a, gathers) for a in arguments))
    return value


def _update(step: lang.Statement) -> lang.Apply | None:
    if step.op == "=":
        return None
    op = "add" if step.op == "+=" else step.op
    return lang.Apply(op, (), step.span, step.function)


def _affine(index: str, start: Expr | None, by: int, dimension: tuple[str, int]) -> Expr:
    """start + by*index; without a start the first place, or the last one where it goes down."""
    if start is None:
        start = ZERO if by > 0 else Bin("-", Last(*dimension), ONE)
    elif isinstance(start, Num) and start.value < 0:
        start = Bin("+", Last(*dimension), start)
    moved = Var(index) if by == 1 else Bin("*", Num(by), Var(index))
    return Bin("+", start, moved)  # also with a 0: the index does not stand alone, its extent is another


def Last(tensor: str, dimension: int) -> Expr:  # noqa: N802  (it makes a Var)
    """The extent of a tensor's dimension, before it has a name."""
    return Var(f"{tensor}#{dimension}")


def moved(value: Any, tie: Tie, span: Any) -> Any:
    """The value with the tie's name decided by its index: put in its place, unless a link speaks of it by name."""
    if any(tie.name in n.link.names for n in walk(value) if isinstance(n, Linked)):
        return Linked(tie, value, span)
    if any(tie.name in (n.new, *n.old) for n in walk(value) if isinstance(n, Joined)):
        return Linked(tie, value, span)
    step = Var(tie.index) if tie.step == 1 else Bin("*", Num(tie.step), Var(tie.index))
    return substitute(value, {tie.name: Bin("+", tie.start, step)})


def _first(value: Any, name: str) -> int:
    """Where the index stands first."""
    names = [n.name if isinstance(n, Var) else n.index for n in _named(value)]
    return names.index(name) if name in names else len(names)


def _named(value: Any) -> Iterator[Any]:
    return (n for n in walk(value) if isinstance(n, Var | lang.Range))

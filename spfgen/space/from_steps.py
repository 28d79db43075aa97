"""Joins steps with the layouts of their tensors: IR 1 to IR 2, for all that is more than sums of products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from spfgen.facts.formula import (
    Num,
    Var,
    rename,
)
from spfgen.ir import children, walk
from spfgen.lang import nodes as lang
from spfgen.lang.normalize import normalized
from spfgen.lang.show import show_statement
from spfgen.lang.uses import read_first, statements_in
from spfgen.layout.nodes import SCALAR, Layout
from spfgen.space.extents import Extents, Ranges
from spfgen.space.following import conditions_in
from spfgen.space.index_extents import IndexExtents
from spfgen.space.names import check_accesses, check_names, with_scalars
from spfgen.space.nodes import Group, Program
from spfgen.space.normal import Inside, Normal
from spfgen.space.pattern_overflow import doubts_of_steps
from spfgen.space.recurrences import in_order
from spfgen.space.results import check_fills, regions_in, with_fills, with_patterns, with_result_types
from spfgen.space.schedule import finds_of_steps, read_schedule_of_steps
from spfgen.space.steps import Chosen, Equation, Steps
from spfgen.space.tensors import make_tensors
from spfgen.space.terms import check_output


def join_steps(kernel: lang.Kernel, layouts: Mapping[str, Layout], beyond: str = "") -> Program:
    """The program of a kernel whose steps are no sums of products; `beyond`: why they are not. Raises SpecError(s)."""
    check_names(kernel)
    declared = with_scalars(kernel)
    layouts = {d.name: layouts.get(d.name, SCALAR) for d in declared}
    check_accesses(kernel, layouts)
    normal = Normal(frozenset(kernel.sizes))
    body = normal.steps(normalized(kernel.statements, kernel.sizes), {})
    uses = list(_accesses(body))
    local = {d.name for d in kernel.tensors if d.local}
    inputs = read_first(kernel.statements, in_loops=False) - local
    outputs = {s.target.tensor for s in statements_in(kernel.statements)} - local
    ordered = sorted(declared, key=lambda d: d.local)  # what calls know gives extents their names, so it comes first
    extents = Extents(kernel, ordered, layouts, [[_renamed(u, normal.shared) for u in uses]], outputs | local)
    made = make_tensors(kernel, declared, layouts, extents, inputs, outputs)
    made = with_result_types(kernel, declared, made, local)
    made = with_patterns(kernel, made)
    tensors = tuple(t for t in made if t.name not in local)
    temporaries = tuple(t for t in made if t.name in local)
    said = {d.name for d in kernel.tensors if d.use.fill is not None}
    found = IndexExtents(kernel, extents, normal, uses, (outputs - inputs) | local, local)
    found.bounding = [a for s in body for a in _bounding(s)]
    found.targets = [lang.Access(n.target, n.subscripts) for s in body for n in walk(s) if isinstance(n, Equation)]
    found.conditions = conditions_in(body)
    found.make_all_own()
    body = tuple(found.resolved(s) for s in body)
    for equation in (n for s in body for n in walk(s) if isinstance(n, Equation)):
        if not any((d.assembled or d.local) and d.name == equation.target for d in kernel.tensors):
            check_output(equation.target, layouts[equation.target], equation.span)
    tensors = with_fills(body, tensors, temporaries, said)
    check_fills(tensors)
    needed = found.needed(body)
    free = frozenset(i for i in needed if found.is_free(i))
    for index in free:
        found.check_bounded(index, body)
    indices = {i: found.extent(i) for i in sorted(normal.taken & (needed - free))}
    body = tuple(in_order(s, indices) for s in body)
    text = "\n".join(map(show_statement, kernel.statements))
    steps = Steps(body, indices, free, text, kernel.span, found.computed, normal.called)
    asked = [*dict.fromkeys(e.name for e in found.asked.values())]
    written: dict[str, dict[str, None]] = {}
    for index, extent in indices.items():
        if isinstance(extent, Var):
            written.setdefault(normal.called.get(index, index), {})[extent.name] = None
    own_regions = regions_in(body, (*tensors, *temporaries), reduced=True)
    names = (*extents.parameters(local), *extents.readings(tensors), *asked)
    limits = {i: (e,) for i, e in indices.items()}
    by_name = {t.name: t for t in (*tensors, *temporaries)}
    schedule = read_schedule_of_steps(kernel, by_name, beyond)
    doubts = doubts_of_steps(kernel, body, by_name, own_regions, Ranges(names, extents.fixed, limits, (), frozenset()))
    numbers = {normal.called.get(i, i): e.value for i in normal.taken if isinstance(e := found.known(i), Num)}
    return Program(
        kernel.name,
        kernel.doc,
        tensors,
        (*extents.parameters(local), *asked),
        {**extents.readings(tensors), **dict.fromkeys(asked, ())},
        extents.fixed,
        {name: tuple(sizes) for name, sizes in written.items()},
        (Group(steps.text, "=", "", (), None, kernel.span, steps),),
        schedule.order,
        finds_of_steps(kernel, by_name),
        schedule.marks,
        deterministic=kernel.deterministic,
        without_fill=kernel.without_fill,
        level=kernel.level,
        agreements=tuple(found.agreements()),
        derived=tuple(found.derived()),
        temporaries=temporaries,
        steps=True,
        doubts=doubts,
        beyond=beyond,
        numbers={name: number for name, number in numbers.items() if name not in written},
    )


def _accesses(body: Any) -> Iterator[lang.Access]:
    for node in (n for s in body for n in walk(s)):
        if isinstance(node, lang.Access):
            yield node
        elif isinstance(node, Equation):
            yield lang.Access(node.target, node.subscripts, node.span)


def _renamed(access: lang.Access, names: Mapping[str, str]) -> lang.Access:
    return replace(access, subscripts=tuple(rename(s, names) for s in access.subscripts))


def _bounding(node: Any) -> Iterator[lang.Access]:
    """The accesses but for those that `coalesce` catches outside of their tensors."""
    match node:
        case lang.Access():
            yield node
        case Chosen(Inside(), _, otherwise):
            yield from _bounding(otherwise)
        case _:
            for child in children(node):
                yield from _bounding(child)

"""Joins the statements with the layouts of their tensors: IR 1 to IR 2.

All statements come in normal form (normal.py). Those that are sums of products have the points of their instances
besides: for every additive term the relations of all accesses, with coordinates replaced by the subscripts, intersected
(Zhao et al. 2022, section 4). The layouts' positions stay dimensions beside the indices of the computation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

from spfgen.facts.formula import Num, Var, rename
from spfgen.ir import children, walk
from spfgen.lang import nodes as lang
from spfgen.lang.normalize import normalized
from spfgen.lang.show import show_statement
from spfgen.lang.typing import scalar_types
from spfgen.lang.uses import read_first, statements_in
from spfgen.layout.nodes import SCALAR, Layout
from spfgen.space.extents import Extents, Ranges
from spfgen.space.following import conditions_in
from spfgen.space.implicit_updates import added_up, without_values
from spfgen.space.index_extents import IndexExtents
from spfgen.space.names import accesses, check_accesses, check_names, with_scalars
from spfgen.space.nodes import Asked, Change, Program, ProgramSizes, Steps, Tensor
from spfgen.space.normal import InsideTensors, Normal
from spfgen.space.outside import Outside
from spfgen.space.pattern_overflow import doubts
from spfgen.space.recurrences import in_order
from spfgen.space.regions import is_everywhere
from spfgen.space.results import check_fills, regions_in, with_fills, with_patterns, with_result_types
from spfgen.space.schedule import read_schedule
from spfgen.space.size import check_size
from spfgen.space.steps import Chosen, Equation
from spfgen.space.sums import Sums, recurs, what_is_beyond
from spfgen.space.tensors import make_tensors
from spfgen.space.terms import check_output, check_signs
from spfgen.space.transform import transformed
from spfgen.space.typed import Types


def join(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> Program:
    """The program of a kernel. `layouts` gives the layout of each declared tensor. Raises SpecError(s), Unsupported."""
    check_size(kernel, layouts)
    check_names(kernel)
    declared = with_scalars(kernel)
    layouts = {d.name: layouts.get(d.name, SCALAR) for d in declared}
    check_accesses(kernel, layouts)
    kernel = added_up(kernel, layouts, lambda _, repeated: repeated)
    return _joined(kernel, declared, layouts)


def _joined(kernel: lang.Kernel, declared: Sequence[lang.TensorDecl], layouts: Mapping[str, Layout]) -> Program:
    """The program of a kernel whose names and accesses are right, with all its tensors and their layouts."""
    normal = Normal(frozenset(kernel.sizes))
    body = normal.steps(normalized(kernel.statements, kernel.sizes), {})
    stated = [s for s, _ in _equations(kernel.statements, body)]
    roles = _roles(kernel)
    local = roles.local
    extents = _extents(kernel, declared, layouts, normal, body, stated, roles)
    typed, sums = _typed_tensors(kernel, declared, layouts, extents, stated, roles)
    tensors = tuple(t for t in typed if t.name not in local)
    temporaries = tuple(t for t in typed if t.name in local)
    reach = _index_extents(kernel, extents, normal, body, roles)
    body = tuple(without_values(reach.resolved(s)) for s in body)
    free = _without_extent(reach, body)
    indices = {i: reach.extent(i) for i in sorted(normal.taken & (reach.needed(body) - free))}
    outside = Outside(reach.limits_of, reach.never_negative, free, _absent(typed, roles.outputs), _types(typed, body))
    body = tuple(outside.left_out(s) for s in body)
    equations = list(_equations(kernel.statements, body))
    _check_outputs(kernel, layouts, body, equations)
    tensors = with_fills(body, tensors, temporaries, {d.name for d in kernel.tensors if d.use.fill is not None})
    check_fills(tensors)
    asked = [*dict.fromkeys(e.name for e in reach.asked.values())]
    names = (*extents.parameters(local), *extents.readings(tensors), *asked)
    ranges = Ranges(names, extents.fixed, {i: (e,) for i, e in indices.items()}, (), frozenset())
    by_name = {t.name: t for t in (*tensors, *temporaries)}
    known_ranges = [extents.ranges(k + 1) for k in range(len(stated))]
    groups = sums.groups(equations, by_name, known_ranges, ranges, free, {*reach.computed})
    summed = _added_up(kernel, layouts, equations, groups)
    if summed != kernel:
        return _joined(summed, declared, layouts)
    schedule = read_schedule(kernel, by_name, [g.group for g in groups.values()], sums.others, sums.beyond)
    groups = _changed(groups, schedule.changes)
    body = tuple(in_order(s, indices, groups) for s in body)
    text = _text(kernel)
    steps = Steps(body, indices, free, text, kernel.span, reach.computed, normal.called, groups, frozenset(local))
    own_regions = regions_in(body, (*tensors, *temporaries), reduced=True)
    written = _written(indices, normal)
    sizes = ProgramSizes(
        {**extents.readings(tensors), **dict.fromkeys(asked, ())},
        extents.fixed,
        written,
        tuple(reach.agreements()),
        tuple(reach.derived()),
        _numbers(normal, reach, written),
    )
    return Program(
        kernel.name,
        kernel.doc,
        tensors,
        (*extents.parameters(local), *asked),
        sizes,
        steps,
        schedule,
        temporaries,
        deterministic=kernel.deterministic,
        without_fill=kernel.without_fill,
        level=kernel.level,
        doubts=doubts(kernel, steps, by_name, own_regions, sums.ranges, ranges),
        beyond=sums.beyond,
    )


def _added_up(
    kernel: lang.Kernel,
    layouts: Mapping[str, Layout],
    equations: Sequence[tuple[lang.Statement, Equation]],
    groups: Mapping[Equation, Asked],
) -> lang.Kernel:
    """The kernel with updates for those assignments that are no sums, where several points have one place."""
    of_regions = [s for s, e in equations if e not in groups or groups[e].group.point is not None]
    return added_up(kernel, layouts, lambda s, repeated: not repeated and (s in of_regions or recurs(s)))


def _text(kernel: lang.Kernel) -> str:
    return "\n".join(map(show_statement, map(without_values, kernel.statements)))


def _numbers(normal: Normal, reach: IndexExtents, written: Collection[str]) -> dict[str, int]:
    """The extents of indices that are numbers, by the names of the text, but for those that are `written` as sizes."""
    numbers = {normal.called.get(i, i): e.value for i in normal.taken if isinstance(e := reach.known(i), Num)}
    return {name: number for name, number in numbers.items() if name not in written}


def _absent(tensors: Sequence[Tensor], outputs: Set[str]) -> frozenset[str]:
    """Operands of which nothing is stored outside, and nothing is 0."""
    return frozenset(t.name for t in tensors if t.layout.fill == 0 and not (t.name in outputs or is_everywhere(t)))


def _types(tensors: Sequence[Tensor], body: Sequence[Any]) -> Types:
    scalars: dict[str, Any] = {}
    types = Types({t.name: t.value_type for t in tensors}, scalars)
    scalar_types(body, types.leaf, scalars)
    return types


class _Roles(NamedTuple):
    """Which tensors are read before anything is stored to them, which are stored, which are the kernel's own."""

    inputs: set[str]
    outputs: set[str]
    local: set[str]


def _roles(kernel: lang.Kernel) -> _Roles:
    local = {d.name for d in kernel.tensors if d.local}
    inputs = read_first(kernel.statements, in_loops=False) - local
    return _Roles(inputs, {s.target.tensor for s in statements_in(kernel.statements)} - local, local)


def _extents(
    kernel: lang.Kernel,
    declared: Sequence[lang.TensorDecl],
    layouts: Mapping[str, Layout],
    normal: Normal,
    body: Sequence[Any],
    stated: Sequence[lang.Statement],
    roles: _Roles,
) -> Extents:
    """The names of extents, from all accesses."""
    ordered = sorted(declared, key=lambda d: d.local)  # what calls know gives extents their names, so it comes first
    as_written = [[] if what_is_beyond(s) else [s.target, *accesses(s.value)] for s in stated]
    in_one = [_renamed(u, normal.shared) for u in _accesses(body)]
    return Extents(kernel, ordered, layouts, [in_one, *as_written], roles.outputs | roles.local)


def _typed_tensors(
    kernel: lang.Kernel,
    declared: Sequence[lang.TensorDecl],
    layouts: Mapping[str, Layout],
    extents: Extents,
    stated: Sequence[lang.Statement],
    roles: _Roles,
) -> tuple[tuple[Tensor, ...], Sums]:
    """All tensors with their value types and patterns, and the sums of products over them."""
    tensors = make_tensors(kernel, declared, layouts, extents, roles.inputs, roles.outputs)
    for statement in (s for s in stated if not what_is_beyond(s)):
        check_signs(statement, {t.name: t for t in tensors})
    tensors = with_result_types(kernel, declared, tensors, roles.local, _of_numbers(kernel, stated))
    sums = Sums(kernel, layouts, tensors)
    return with_patterns(kernel, tensors, sums.entry_types(stated)), sums


def _index_extents(
    kernel: lang.Kernel, extents: Extents, normal: Normal, body: Sequence[Any], roles: _Roles
) -> IndexExtents:
    """How far each index runs."""
    results = (roles.outputs - roles.inputs) | roles.local
    index_extents = IndexExtents(kernel, extents, normal, list(_accesses(body)), results, roles.local)
    index_extents.bounding = [a for s in body for a in _bounding(s)]
    index_extents.targets = [
        lang.Access(n.target, n.subscripts) for s in body for n in walk(s) if isinstance(n, Equation)
    ]
    index_extents.conditions = conditions_in(body)
    index_extents.make_all_own()
    return index_extents


def _without_extent(index_extents: IndexExtents, body: Sequence[Any]) -> frozenset[str]:
    """The indices that conditions bound, not extents. Raises an error for those that nothing bounds."""
    free = frozenset(i for i in index_extents.needed(body) if index_extents.is_free(i))
    for index in free:
        index_extents.check_bounded(index, body)
    return free


def _check_outputs(
    kernel: lang.Kernel,
    layouts: Mapping[str, Layout],
    body: Sequence[Any],
    equations: Sequence[tuple[lang.Statement, Equation]],
) -> None:
    """Raises an error for results whose layout cannot be stored to."""
    spans = {e: s.target.span for s, e in equations}
    free = {d.name for d in kernel.tensors if d.assembled or d.local}
    for equation in (n for s in body for n in walk(s) if isinstance(n, Equation)):
        if equation.target not in free:
            check_output(equation.target, layouts[equation.target], spans.get(equation) or equation.span)


def _changed(groups: Mapping[Equation, Asked], changes: Sequence[Change]) -> dict[Equation, Asked]:
    """The sums of products with what the schedule changes in their loops."""
    changed = transformed([g.group for g in groups.values()], changes)
    return {e: g._replace(group=new) for (e, g), new in zip(groups.items(), changed, strict=True)}


def _written(indices: Mapping[str, Any], normal: Normal) -> dict[str, tuple[str, ...]]:
    """The sizes that are the extents of indices, by the names that the text gives these."""
    written: dict[str, dict[str, None]] = {}
    for index, extent in indices.items():
        if isinstance(extent, Var):
            written.setdefault(normal.called.get(index, index), {})[extent.name] = None
    return {name: tuple(sizes) for name, sizes in written.items()}


def _of_numbers(kernel: lang.Kernel, stated: Sequence[lang.Statement]) -> set[str]:
    """Tensors that get sums of products of numbers and of themselves alone: nothing but the default says their type."""
    names = {s.target.tensor for s in stated}
    for statement in statements_in(kernel.statements):
        name = statement.target.tensor
        outside = not any(statement is s for s in stated)
        if outside or what_is_beyond(statement) or any(a.tensor != name for a in accesses(statement.value)):
            names.discard(name)
    return names


def _equations(statements: Sequence[Any], body: Sequence[Any]) -> Iterator[tuple[lang.Statement, Equation]]:
    """The statements that no loop is around, each with its normal form."""
    for statement, step in zip(statements, body, strict=True):
        match statement, step:
            case lang.Statement(), Equation():
                yield statement, step
            case lang.If(), lang.If():
                yield from _equations((*statement.then, *statement.otherwise), (*step.then, *step.otherwise))


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
        case Chosen(InsideTensors(), _, otherwise):
            yield from _bounding(otherwise)
        case _:
            for child in children(node):
                yield from _bounding(child)

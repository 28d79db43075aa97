"""Joins the statements with the layouts of their tensors: IR 1 to IR 2.

For every additive term: the relations of all accesses, with coordinates replaced by the subscripts, intersected
(Zhao et al. 2022, section 4). The layouts' positions stay dimensions beside the indices of the computation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spfgen.errors import SpecError
from spfgen.lang import nodes as lang
from spfgen.lang.products import first_beyond
from spfgen.lang.types import DEFAULT_VALUE, element_type, promoted
from spfgen.lang.typing import all_steps
from spfgen.layout.nodes import SCALAR, Layout
from spfgen.space.assembled import as_assembled
from spfgen.space.extents import Extents
from spfgen.space.following import Following
from spfgen.space.from_steps import join_steps
from spfgen.space.names import accesses, check_accesses, check_names, with_scalars
from spfgen.space.nodes import Group, Program, Tensor
from spfgen.space.pattern_overflow import doubts
from spfgen.space.result_types import result_types
from spfgen.space.schedule import forced_finds, read_schedule
from spfgen.space.size import check_size
from spfgen.space.sums import Operands, beyond_products, converted, recurs, what_is_beyond
from spfgen.space.tensors import inputs_and_outputs, make_tensors
from spfgen.space.terms import make_group
from spfgen.space.transform import transformed
from spfgen.space.values import SeveralPlaces, UnstoredDivisor, combined_type


def join(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> Program:
    """The iteration spaces of a kernel. `layouts` gives the layout of each declared tensor.

    Raises SpecError(s) for mistakes in the kernel, Unsupported for values that are not sums of products.
    """
    check_size(kernel, layouts)
    if first_beyond(kernel.statements) is None and _is_converted(kernel):
        typed = _with_result_types(kernel)
        kernel = kernel if _is_converted(typed) else typed
    if beyond := beyond_sums(kernel, layouts):
        return join_steps(kernel, layouts, beyond)
    try:
        return _join_sums(kernel, layouts)
    except (UnstoredDivisor, SeveralPlaces) as error:
        if kernel.is_scheduled or any(recurs(s) for s in kernel.statements):
            raise
        which = "a divisor may not be stored" if isinstance(error, UnstoredDivisor) else "values lie in several arrays"
        return join_steps(kernel, layouts, which)


def _with_result_types(kernel: lang.Kernel) -> lang.Kernel:
    """Results whose types the text leaves open have those of what is computed, where it says those of all operands."""
    declared = with_scalars(kernel)
    types = {d.name: element_type(d.use.value_type) for d in declared if d.use.value_type is not None}
    said = {name: found.name for name, found in types.items() if found is not None}
    written = {s.target.tensor for s in all_steps(kernel.statements) if isinstance(s, lang.Statement)}
    local = {d.name for d in declared if d.local}
    operands = [d for d in declared if d.name not in written | local]
    if not operands or any(d.name not in said for d in operands):
        return kernel
    try:
        found = result_types(kernel, said)
    except SpecError:  # is raised where the program is made
        return kernel
    tensors = (
        replace(d, use=replace(d.use, value_type=found[d.name])) if d.name in found and d.name not in said else d
        for d in declared
    )
    return replace(kernel, tensors=tuple(tensors))


def _join_sums(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> Program:
    check_names(kernel)
    declared = with_scalars(kernel)
    layouts = {d.name: layouts.get(d.name, SCALAR) for d in declared}
    check_accesses(kernel, layouts)
    uses = [(s.target, *accesses(s.value)) for s in kernel.statements]
    extents = Extents(kernel, declared, layouts, uses, {s.target.tensor for s in kernel.statements})
    tensors = make_tensors(kernel, declared, layouts, extents, *inputs_and_outputs(kernel.statements))
    tensors = tuple(_computed(kernel, t, tensors) for t in tensors)
    by_name = {t.name: t for t in tensors}
    groups: list[Group] = []
    temporaries: list[Tensor] = []
    for number, statement in enumerate(kernel.statements):
        group, sums = make_group(statement, {**by_name, **{t.name: t for t in temporaries}}, extents.ranges(number))
        groups.append(group)
        temporaries += sums
    schedule = read_schedule(kernel, by_name, groups)
    inputs, outputs = inputs_and_outputs(kernel.statements)
    following = Following(extents, kernel.statements, outputs - inputs)
    return Program(
        kernel.name,
        kernel.doc,
        tensors,
        extents.parameters(),
        extents.readings(tensors),
        extents.fixed,
        extents.of_indices(),
        transformed(groups, schedule.changes),
        schedule.order,
        forced_finds(kernel, by_name, groups),
        schedule.marks,
        schedule.outside,
        tuple(temporaries),
        deterministic=kernel.deterministic,
        without_fill=kernel.without_fill,
        level=kernel.level,
        agreements=tuple(extents.agreements()),
        doubts=doubts(kernel, by_name, extents),
        derived=tuple(following.rules()),
    )


def _computed(kernel: lang.Kernel, tensor: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """The tensor as a list of entries, if its pattern is computed."""
    if not any(d.assembled and d.shares is None and d.name == tensor.name for d in kernel.tensors):
        return tensor
    types = {t.name: t.value_type for t in tensors}
    own = [s for s in kernel.statements if s.target.tensor == tensor.name]
    return as_assembled(tensor, promoted(sorted({combined_type(s, types) for s in own})).name)


def _operands(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> Operands:
    found = {d.name: element_type(d.use.value_type or DEFAULT_VALUE) for d in with_scalars(kernel)}
    types = {name: kind.name for name, kind in found.items() if kind is not None}
    computed = {d.name for d in kernel.tensors if d.assembled and d.shares is None}
    return Operands(layouts, types, computed, kernel.sizes, kernel.is_scheduled or any(map(recurs, kernel.statements)))


def _is_converted(kernel: lang.Kernel) -> bool:
    """Whether an operation is not made in the type of its statement."""
    return converted(kernel.statements, _operands(kernel, {})) is not None


def beyond_sums(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> str:
    """What is more than that in a kernel; "" where nothing is."""
    for declared in kernel.tensors:
        if declared.local:
            return f"`{declared.name}` is a tensor of its own"
    if first_beyond(kernel.statements) is not None:
        return next(filter(None, map(what_is_beyond, kernel.statements)))
    known = _operands(kernel, layouts)
    return next(filter(None, (beyond_products(s, known) for s in kernel.statements)), "")

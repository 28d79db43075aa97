"""Joins the statements with the layouts of their tensors: IR 1 to IR 2.

For every additive term: the relations of all accesses, with coordinates replaced by the subscripts, intersected
(Zhao et al. 2022, section 4). The layouts' positions stay dimensions beside the indices of the computation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spfgen.errors import SpecError
from spfgen.facts.formula import variables
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.products import first_beyond
from spfgen.lang.show import show_value
from spfgen.lang.types import DEFAULT_VALUE, element_type, promoted
from spfgen.lang.typing import all_steps
from spfgen.layout.nodes import SCALAR, Layout
from spfgen.layout.proofs import stored_once
from spfgen.space.assembled import as_assembled, is_zero_on_fills
from spfgen.space.extents import Extents
from spfgen.space.following import Following
from spfgen.space.from_steps import join_steps
from spfgen.space.lost import doubts
from spfgen.space.names import accesses, check_accesses, check_names, with_scalars
from spfgen.space.nodes import Group, Program, Tensor
from spfgen.space.products import has_sum, is_long_by_element
from spfgen.space.recurrences import reads_the_rest
from spfgen.space.result_types import result_types
from spfgen.space.runs import is_about_runs
from spfgen.space.schedule import forced_finds, read_schedule
from spfgen.space.size import check_size
from spfgen.space.tensors import inputs_and_outputs, make_tensors
from spfgen.space.terms import make_group
from spfgen.space.transform import transformed
from spfgen.space.unions import merges
from spfgen.space.values import SeveralPlaces, UnstoredDivisor, combined_type, converted_within


def join(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> Program:
    """The iteration spaces of a kernel. `layouts` gives the layout of each declared tensor.

    Raises SpecError(s) for mistakes in the kernel, Unsupported for values that are not sums of products.
    """
    check_size(kernel, layouts)
    if first_beyond(kernel.statements) is None and _converted(kernel) is not None:
        typed = _with_result_types(kernel)
        kernel = kernel if _converted(typed) is not None else typed
    if beyond := beyond_sums(kernel, layouts):
        return join_steps(kernel, layouts, beyond)
    try:
        return _join_sums(kernel, layouts)
    except (UnstoredDivisor, SeveralPlaces) as error:
        if kernel.is_scheduled or any(_recurs(s) for s in kernel.statements):
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


def _is_summed(layout: Layout) -> bool:
    """What is not stored is 0, and what is stored the value, perhaps with another sign."""
    return layout.fill == 0 and all(t.operators in ((), ("negative",)) for t in layout.turned)


def _counted(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> str:
    """A tensor of truth values that are added up as numbers, and of which several may be stored at one coordinate; ""
    where there is none. At such a coordinate the tensor is true if one of them is, which is not how often they are."""
    known = ((d.name, element_type(d.use.value_type or DEFAULT_VALUE)) for d in kernel.tensors)
    types = {name: found.name for name, found in known if found is not None}  # others are refused later
    for statement in kernel.statements:
        read = {a.tensor for a in accesses(statement.value)}
        if not read | {statement.target.tensor} <= set(types) or combined_type(statement, types) == "bool":
            continue
        for name in sorted(n for n in read if types[n] == "bool"):
            layout = layouts.get(name, SCALAR)
            if layout.indexes and not stored_once(layout).proved:
                return name
    return ""


def _converted(kernel: lang.Kernel) -> Any | None:
    """The first operation that is not made in the type of its statement; None where all are, or numpy refuses one."""
    known = {d.name: element_type(d.use.value_type or DEFAULT_VALUE) for d in with_scalars(kernel)}
    types = {name: found.name for name, found in known.items() if found is not None}
    for statement in kernel.statements:
        used = {statement.target.tensor, *(a.tensor for a in accesses(statement.value))}
        try:
            found = converted_within(statement, types, kernel.sizes) if used <= set(types) else None
        except SpecError:
            continue
        if found is not None:
            return found
    return None


def _recurs(statement: lang.Statement) -> bool:
    """Whether a statement reads its target: this path alone knows an order for that."""
    return any(a.tensor == statement.target.tensor for a in accesses(statement.value))


def _divides_by_sums(statement: lang.Statement, computed: Collection[str]) -> bool:
    """Whether something is divided by a sum, and the pattern of that is computed or it is summed itself."""
    value = statement.value
    found = [n for n in walk(value) if isinstance(n, lang.Apply) and n.op == "divide" and has_sum(n.arguments[1])]
    sums = [n for n in walk(value) if isinstance(n, lang.Reduce)] if found else []
    bound = {i for r in sums for i in r.indices} | {v for s in statement.target.subscripts for v in variables(s)}
    return any(
        statement.target.tensor in computed
        or any(quotient is n for r in sums for n in walk(r.value))
        or any(variables(s) - bound for a in accesses(quotient) for s in a.subscripts)
        for quotient in found
    )


def _multiplies_sums(value: Any, layouts: Mapping[str, Layout]) -> bool:
    """Whether a sum is a factor of something that is mostly not stored, and another one at each place of that: it is
    needed at few points."""
    for product in (n for n in walk(value) if isinstance(n, lang.Apply) and n.op == "multiply"):
        factors = _factors(product)
        places = [
            _spoken_of(f) for f in factors if isinstance(f, lang.Access) and layouts.get(f.tensor, SCALAR).indexes
        ]
        sums = [_spoken_of(f) - {*f.indices} for f in factors if isinstance(f, lang.Reduce) and f.op == "add"]
        if any(place <= found for place in places for found in sums):
            return True
    return False


def _spoken_of(value: Any) -> set[str]:
    return {v for a in accesses(value) for s in a.subscripts for v in variables(s)}


def _factors(value: Any) -> list[Any]:
    if isinstance(value, lang.Apply) and value.op == "multiply":
        return [f for a in value.arguments for f in _factors(a)]
    return [value]


def is_sums(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> bool:
    """Whether all that a kernel does is assign and add sums of products, and what is made of them by the four
    operators, of tensors that are 0 where nothing is stored. What is computed along runs of equal values
    is more than that, as are results whose pattern is computed and whose fill value is not 0."""
    return not beyond_sums(kernel, layouts)


def beyond_sums(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> str:
    """What is more than that in a kernel; "" where nothing is."""
    for declared in kernel.tensors:
        if declared.local:
            return f"`{declared.name}` is a tensor of its own"
    for name, layout in layouts.items():
        if not _is_summed(layout):
            return (
                f"`{name}` is not 0 where nothing is stored" if layout.fill != 0 else f"values of `{name}` are turned"
            )
    if (found := first_beyond(kernel.statements)) is not None:
        return _what(found)
    if (node := _converted(kernel)) is not None:
        return f"`{show_value(node)}` is made in another type than the whole"
    if any(_recurs(s) and reads_the_rest(s, kernel.sizes) for s in kernel.statements):
        return "it reads places of its target that it does not write"
    if name := _counted(kernel, layouts):
        return f"a truth value of `{name}` may be stored several times"
    computed = {d.name for d in kernel.tensors if d.assembled and d.shares is None}
    if not kernel.is_scheduled and not any(_recurs(s) for s in kernel.statements):
        if any(is_about_runs(s, layouts, computed) for s in kernel.statements):
            return "values do not change along runs"
        if any(_divides_by_sums(s, computed) for s in kernel.statements):
            return "it divides by a sum"
        if any(_multiplies_sums(s.value, layouts) for s in kernel.statements):
            return "a sum is needed only where a factor of it is stored"
        if any(s.target.tensor in computed and merges(s, layouts) for s in kernel.statements):
            return "operands in one order are merged"
        if any(is_long_by_element(s) for s in kernel.statements):
            return "a product of sums would be written out as many products"
    if any(s.target.tensor in computed and not is_zero_on_fills(s.value) for s in kernel.statements):
        return "a result is not 0 where nothing is stored"
    if any(a.tensor in computed for s in kernel.statements for a in accesses(s.value)):
        return "it reads a result whose pattern it computes"
    return ""


def _what(node: object) -> str:
    match node:
        case lang.Statement(op=op):
            return f"it updates by `{op}`"
        case lang.Apply(op) | lang.Reduce(op):
            return f"`{op}` is more than sums and products"
        case lang.Access(tensor):
            return f"a subscript of `{tensor}` is a view or a value"
        case lang.Constant() | lang.Index() | lang.Local():
            return "a value is none of numbers that tensors hold"
        case lang.For() | lang.If() | lang.While() | lang.Let() | lang.Set():
            return "it has steps"
    return "it has views"

"""Joins the statements with the layouts of their tensors: IR 1 to IR 2.

For every additive term: the relations of all accesses, with coordinates replaced by the subscripts, intersected
(Zhao et al. 2022, section 4). The layouts' positions stay dimensions beside the indices of the computation.
"""

from __future__ import annotations

from collections.abc import Mapping

from spfgen.errors import SpecError
from spfgen.facts.formula import (
    Var,
)
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.layout.nodes import SCALAR, Layout
from spfgen.space.extents import Extents
from spfgen.space.names import accesses, check_accesses, check_names, with_scalars
from spfgen.space.nodes import (
    Program,
    Tensor,
)
from spfgen.space.tensors import make_tensors
from spfgen.space.terms import make_group


def join(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> Program:
    """The iteration spaces of a kernel. `layouts` gives the layout of each declared tensor.

    Raises SpecError(s) for mistakes in the kernel, Unsupported for values that are not sums of products.
    """
    check_names(kernel)
    declared = with_scalars(kernel)
    layouts = {d.name: layouts.get(d.name, SCALAR) for d in declared}
    check_accesses(kernel, layouts)
    extents = Extents(kernel, declared, layouts)
    tensors = make_tensors(kernel, declared, layouts, extents)
    by_name = {t.name: t for t in tensors}
    groups = tuple(make_group(s, by_name, extents) for s in kernel.statements)
    return Program(
        kernel.name,
        kernel.doc,
        tensors,
        extents.parameters(),
        extents.readings(tensors),
        extents.fixed,
        extents.of_indices(),
        groups,
        _order(kernel, by_name),
    )


def _order(kernel: lang.Kernel, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The loops named by the schedule, as dimensions."""
    indices = {
        n.name
        for s in kernel.statements
        for a in (s.target, *accesses(s.value))
        for e in a.subscripts
        for n in walk(e)
        if isinstance(n, Var)
    }
    result = []
    for loop in kernel.order:
        if loop.tensor is None:
            if loop.name not in indices:
                raise SpecError(
                    f"expected an index or a position such as `A.p`, but `{loop.name}` is neither",
                    loop.span,
                    (f"indices: {', '.join(sorted(indices - set(kernel.sizes)))}",),
                )
            result.append(loop.name)
        elif loop.tensor not in tensors or loop.name not in tensors[loop.tensor].layout.positions:
            known = ", ".join(f"{t.name}.{p}" for t in tensors.values() for p in t.layout.positions)
            raise SpecError(
                f"expected a position of a tensor, but `{loop.tensor}.{loop.name}` is not one",
                loop.span,
                (f"positions: {known}",),
            )
        else:
            result.append(f"{loop.tensor}.{loop.name}")
    return tuple(result)

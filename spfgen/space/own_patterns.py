"""Kernels that make results which others have the pattern of, or which have a part of another's: what the C calls
first where these come without arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from spfgen.facts.formula import Var
from spfgen.ir import fresh
from spfgen.lang import nodes as lang
from spfgen.lang.parse import parse_statements
from spfgen.lang.types import TYPES
from spfgen.lang.uses import accesses_in, read_first, statements_in
from spfgen.layout.nodes import Layout
from spfgen.space.assembled import may_be_assembled
from spfgen.space.nodes import Program, Tensor


def kernels_of_patterns(
    kernel: lang.Kernel, layouts: Mapping[str, Layout], program: Program
) -> Iterator[tuple[str, lang.Kernel]]:
    """Each such result that a kernel can make, with that kernel."""
    outputs = {t.name for t in program.tensors if t.is_output}
    declared = {d.name: d for d in kernel.tensors}
    lent = {d.shares.tensor for d in kernel.tensors if d.shares is not None and d.name in outputs}
    for tensor in program.tensors:
        made = tensor.is_made or tensor.borrows or tensor.is_input or not (tensor.arrays or tensor.sizes)
        if made or tensor.name not in outputs & declared.keys():
            continue
        shares = declared[tensor.name].shares
        if shares is None and tensor.name in lent:
            found = _alone(kernel, layouts, tensor, outputs, ())
        elif shares is not None and shares.indices and shares.tensor not in outputs:
            cover = _cover(kernel, program, tensor, shares)
            found = None if cover is None else _alone(kernel, layouts, tensor, outputs, cover)
        else:
            continue
        if found is not None:
            yield tensor.name, found


def _alone(
    kernel: lang.Kernel,
    layouts: Mapping[str, Layout],
    tensor: Tensor,
    outputs: Collection[str],
    more: tuple[lang.Statement, ...],
) -> lang.Kernel | None:
    """The kernel that computes this result, with a pattern of its own; what it needs besides is local."""
    name, steps, needed = tensor.name, list[object](), {tensor.name}
    for step in reversed(kernel.statements):
        if needed & {s.target.tensor for s in statements_in([step])}:
            steps.insert(0, step)
            needed |= {a.tensor for a in accesses_in([step])}
    if needed & read_first(steps, in_loops=True) & {*outputs}:
        return None  # what the caller gives would change
    statements = (*steps, *more)
    used = {a.tensor for a in accesses_in(statements)}
    declarations = []
    for declaration in (d for d in kernel.tensors if d.name in used):
        if declaration.name == name:
            use = replace(declaration.use, value_type=tensor.value_type)
            declaration = replace(declaration, use=use, shares=None, assembled=True)
        elif declaration.name in outputs:
            declaration = replace(declaration, shares=None, assembled=False, local=True)
        declarations.append(declaration)
    plain = replace(
        kernel, name=f"{kernel.name}_pattern_{name}", tensors=tuple(declarations), statements=statements,
        order=(), finds=(), directives=(),
    )  # fmt: skip
    scalars = used - {d.name for d in declarations}
    free = replace(plain, tensors=tuple(replace(d, assembled=False) for d in declarations))
    return None if scalars & {*outputs} or name not in may_be_assembled(free, layouts) else plain


def _cover(
    kernel: lang.Kernel, program: Program, tensor: Tensor, shares: lang.Shares
) -> tuple[lang.Statement, ...] | None:
    """What adds nothing to the result but an entry where the owner of the shared arrays stores something, at the first
    coordinate of all others."""
    owner = program.tensor(shares.tensor)
    if owner.layout.fill != 0 or tensor.layout.fill != 0 or TYPES[owner.value_type].kind in "bc":
        return None
    wanted = {*map(Var, shares.indices)}
    used = [*accesses_in(kernel.statements)]
    accesses = [
        next((a for a in used if a.tensor == t and wanted <= {*a.subscripts}), None) for t in (tensor.name, owner.name)
    ]
    if None in accesses:
        return None
    taken = {*shares.indices, *(d.name for d in kernel.tensors), *kernel.sizes}
    texts: list[str] = []
    others: list[str] = []
    for access in accesses:
        names = []
        for subscript in access.subscripts if access is not None else ():
            if subscript in wanted and isinstance(subscript, Var):
                names.append(subscript.name)
            else:
                names.append(fresh("at", taken))
                taken.add(names[-1])
        others = others or [n for n in names if n not in shares.indices]
        texts.append(f"{access.tensor if access is not None else ''}[{', '.join(names)}]")
    where = f" where {' and '.join(f'{n} = 0' for n in others)}" if others else ""
    return tuple(parse_statements(f"{texts[0]} += fmax(fmin({texts[1]}, 0), 0){where}"))

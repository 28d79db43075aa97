"""Results whose pattern is computed: those in sparse layouts without a given or shared pattern."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from spfgen.facts.formula import Var, variables
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.uses import read_first, statements_in
from spfgen.layout.nodes import Layout, as_entries
from spfgen.space.nodes import EntryList, Tensor


def with_assembled(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> lang.Kernel:
    """The kernel as it is where the caller gives no results: those that `may_be_assembled` are."""
    assembled = may_be_assembled(kernel, layouts)
    owners = {d.name: _owner(kernel, d, layouts) for d in kernel.tensors if d.name in assembled}
    declarations = []
    for declared in kernel.tensors:
        if declared.name in assembled:
            owner = owners[declared.name]
            while owner in owners:  # whose pattern is another's, or is only known when the kernel has run
                owner = owners[owner]
            declared = replace(declared, assembled=True, shares=lang.Shares(owner, ()) if owner else None)
        declarations.append(declared)
    return replace(kernel, tensors=tuple(declarations))


def with_given(kernel: lang.Kernel, names: Collection[str]) -> lang.Kernel:
    """The kernel where the caller gives these results: they have the pattern that they come with."""
    declarations = (replace(d, assembled=False, shares=None) if d.name in names else d for d in kernel.tensors)
    return replace(kernel, tensors=tuple(declarations))


def without_shared(kernel: lang.Kernel) -> lang.Kernel:
    """The kernel where all patterns that are computed are so entry by entry."""
    declarations = (replace(d, shares=None) if d.assembled else d for d in kernel.tensors)
    return replace(kernel, tensors=tuple(declarations))


def is_zero_on_fills(value: lang.Value) -> bool:
    """Whether sums and products of tensors that are 0 where nothing is stored are 0 where none of them stores
    anything; what depends on indices alone is no fill value."""
    return _where_all_are_zero(value) in (0, None)


def _where_all_are_zero(value: lang.Value) -> float | None:
    """The value where all tensors are 0, or None if it is not the same everywhere."""
    match value:
        case lang.Constant(number):
            return None if isinstance(number, complex) else float(number)
        case lang.Access():
            return 0.0
        case lang.Reduce(value=inner):
            return 0.0 if _where_all_are_zero(inner) == 0 else None
        case lang.Apply("multiply", arguments) if any(_where_all_are_zero(a) == 0 for a in arguments):
            return 0.0
        case lang.Apply(op, arguments):
            known = [n for n in map(_where_all_are_zero, arguments) if n is not None]
            if len(known) == len(arguments):
                return _applied(op, known)
    return None


def _applied(op: str, numbers: list[float]) -> float | None:
    match op, numbers:
        case "negative", [one]:
            return -one
        case "add", [one, two]:
            return one + two
        case "subtract", [one, two]:
            return one - two
        case "multiply", [one, two]:
            return one * two
        case "divide", [one, two]:
            return one / two if two else one
    return None


def _owner(kernel: lang.Kernel, declared: lang.TensorDecl, layouts: Mapping[str, Layout]) -> str:
    """The operand that is known to have the pattern of a result, because what is computed is that operand times what is
    everywhere; "" where there is none."""
    from spfgen.layout.proofs import as_output  # calls of compiled kernels do without

    assignments = [s for s in kernel.statements if isinstance(s, lang.Statement) and s.target.tensor == declared.name]
    if len(assignments) != 1 or any(not isinstance(s, lang.Statement) for s in kernel.statements):
        return ""
    (statement,) = assignments
    subscripts = statement.target.subscripts
    names = [s.name for s in subscripts if isinstance(s, Var)]
    if statement.op != "=" or statement.where is not None or len(set(names)) < len(subscripts):
        return ""
    factors, divisors = _factors(statement.value)
    known = [a for a in factors if isinstance(a, lang.Access)]
    sparse = [a for a in known if not _is_everywhere(a, layouts)]
    if len(sparse) != 1 or len(known) < len(factors) or not all(_is_everywhere(a, layouts) for a in divisors):
        return ""
    (access,) = sparse
    layout = layouts[declared.name]
    free = {v for a in (*known, *divisors) for s in a.subscripts for v in variables(s)}
    has_types = declared.use.index_type is not None or bool(declared.use.array_types)
    same = access.subscripts == subscripts and layouts.get(access.tensor) == layout and free <= {*names, *kernel.sizes}
    return access.tensor if same and not has_types and as_output(layout) is None else ""


def _factors(value: object) -> tuple[list[object], list[lang.Access]]:
    """The factors of a product, numbers left out, and the accesses that it is divided by; a value that is no product is
    a factor itself."""
    match value:
        case lang.Constant():
            return [], []
        case lang.Apply("negative", (inner,)):
            return _factors(inner)
        case lang.Apply("multiply", (left, right)):
            (one, below), (two, other) = _factors(left), _factors(right)
            return [*one, *two], [*below, *other]
        case lang.Apply("divide", (left, right)):
            one, below = _factors(left)
            return one, [*below, *(n for n in walk(right) if isinstance(n, lang.Access))]
    return [value], []


def _is_everywhere(access: lang.Access, layouts: Mapping[str, Layout]) -> bool:
    """Whether there is a value at each point, whatever the index arrays hold."""
    from spfgen.space.pattern_overflow import holds_all

    layout = layouts.get(access.tensor)
    if layout is None:
        return not access.subscripts
    plain = all(isinstance(s, Var) for s in access.subscripts)
    return plain and not layout.indexes and not layout.sizes and holds_all(layout)


def may_be_assembled(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> frozenset[str]:
    """Results that do not share a pattern, are not read before they are written, and whose layout has index arrays or
    sizes of its own, or places that cannot be written by coordinate. Where a statement is computed `within` the target,
    or the schedule speaks of positions of it, its pattern is given."""
    stated = [*statements_in(kernel.statements)]
    targets = {s.target.tensor for s in stated}
    excluded = {s.target.tensor for s in stated if s.within}
    excluded |= read_first(kernel.statements, in_loops=True)
    scheduled = [o for d in kernel.directives for o in (d.loops if isinstance(d, lang.Directive) else d.old)]
    excluded |= {o.tensor for o in (*kernel.order, *scheduled) if o.tensor is not None}
    excluded |= {f.tensor for f in kernel.finds if f.tensor is not None}
    names = []
    for declared in kernel.tensors:
        layout = layouts.get(declared.name)
        is_unshared = declared.shares is None and not declared.local
        if declared.name in targets - excluded and is_unshared and layout is not None:
            names += [declared.name] if layout.indexes or layout.sizes or _only_packs(layout) else []
    owners = {d.shares.tensor for d in kernel.tensors if d.shares is not None}
    return frozenset(names) - owners


def _only_packs(layout: Layout) -> bool:
    """Whether a tensor cannot be written by coordinate: a place stands for two of them, say."""
    from spfgen.layout.proofs import as_output

    return layout.rank > 0 and as_output(layout) is not None


def as_assembled(tensor: Tensor, entry_type: str) -> Tensor:
    """The tensor as the kernel has it: a list of entries with values of this type, in which they can be summed."""
    return replace(
        tensor,
        layout=as_entries(tensor.layout),
        index_types=(),
        sizes=(),
        arrays=(),
        assembled=EntryList(tensor.layout, tensor.index_types, entry_type),
    )

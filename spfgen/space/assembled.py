"""Which results have a pattern that is computed: those in sparse layouts whose pattern the text does not give."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from spfgen.ir import children, walk
from spfgen.lang import nodes as lang
from spfgen.layout.nodes import Layout, as_entries
from spfgen.space.nodes import Tensor


def with_assembled(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> lang.Kernel:
    """The kernel as it is where the caller gives no results: those that `may_be_assembled` are."""
    found = may_be_assembled(kernel, layouts)
    return replace(kernel, tensors=tuple(replace(d, assembled=d.name in found) for d in kernel.tensors))


def with_given(kernel: lang.Kernel, names: Collection[str]) -> lang.Kernel:
    """The kernel where the caller gives these results: they have the pattern that they come with."""
    found = (replace(d, assembled=False) if d.name in names else d for d in kernel.tensors)
    return replace(kernel, tensors=tuple(found))


def may_be_assembled(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> frozenset[str]:
    """Results that do not share a pattern, are not read, and whose layout has index arrays or sizes of its own. Where a
    statement is computed `within` the target, or the schedule speaks of positions of it, its pattern is given."""
    stated = [n for s in kernel.statements for n in walk(s) if isinstance(n, lang.Statement)]
    targets = {s.target.tensor for s in stated}
    given = {s.target.tensor for s in stated if s.within}
    given |= {name for s in kernel.statements for name in _read(s)}
    said = [o for d in kernel.directives for o in (d.loops if isinstance(d, lang.Directive) else d.old)]
    given |= {o.tensor for o in (*kernel.order, *said) if o.tensor is not None}
    given |= {f.tensor for f in kernel.finds if f.tensor is not None}
    found = []
    for declared in kernel.tensors:
        layout = layouts.get(declared.name)
        own = declared.shares is None and not declared.local
        if declared.name in targets - given and own and layout is not None:
            found += [declared.name] if layout.indexes or layout.sizes else []
    owners = {d.shares.tensor for d in kernel.tensors if d.shares is not None}
    return frozenset(found) - owners


def update_of(kernel: lang.Kernel, name: str) -> str:
    """Numpy's name of the operator that updates the tensor; addition where none does."""
    stated = (n for s in kernel.statements for n in walk(s) if isinstance(n, lang.Statement))
    found = [s.op for s in stated if s.target.tensor == name and s.op not in ("=", "+=")]
    return found[0] if found else "add"


def _read(node: object) -> Iterator[str]:
    """The tensors that are read in a statement, or by those inside of it."""
    match node:
        case lang.Access(tensor):
            yield tensor
        case lang.Statement(target=target):
            for part in (*target.subscripts, *(n for n in children(node) if n is not target)):
                yield from _read(part)
            return
    for part in children(node):
        yield from _read(part)


def as_assembled(tensor: Tensor, entry_type: str) -> Tensor:
    """The tensor as the kernel has it: a list of entries with values of this type, in which they can be summed."""
    return replace(
        tensor,
        layout=as_entries(tensor.layout),
        index_types=(),
        sizes=(),
        arrays=(),
        assembled=tensor.layout,
        entry_type=entry_type,
    )

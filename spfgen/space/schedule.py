"""The schedule of a kernel, as dimensions of its iteration spaces: the order of loops, and how positions are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from spfgen.errors import SpecError
from spfgen.facts.formula import Var
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.expressions import did_you_mean, raise_all, word_in
from spfgen.lang.types import FINDS
from spfgen.space.names import accesses
from spfgen.space.nodes import ForcedFind, Group, Tensor


def loop_order(kernel: lang.Kernel, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The loops named by the schedule, as dimensions."""
    indices = _indices(kernel)
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
            raise SpecError(
                f"expected a position of a tensor, but `{loop.tensor}.{loop.name}` is not one",
                loop.span,
                (_positions(tensors.values()),),
            )
        else:
            result.append(f"{loop.tensor}.{loop.name}")
    return tuple(result)


def forced_finds(kernel: lang.Kernel, tensors: Mapping[str, Tensor], groups: Sequence[Group]) -> tuple[ForcedFind, ...]:
    """The algorithms that the schedule asks for, by dimension: one for each access of the tensor."""
    raise_all([e for f in kernel.finds for e in (*_wrong_position(kernel, f, tensors), *_wrong_algorithm(f))])
    operands = [o for g in groups for i in g.instances for o in (i.target, *i.reads)]
    labels = {t: dict.fromkeys(o.label for o in operands if o.tensor == t) for t in tensors}
    return tuple(
        ForcedFind(f"{label}.{find.position}", find.algorithm, f"{find.tensor}.{find.position}", find.span)
        for find in kernel.finds
        for label in labels[find.tensor or ""]
    )


def _wrong_position(kernel: lang.Kernel, find: lang.ForcedFind, tensors: Mapping[str, Tensor]) -> Iterator[SpecError]:
    """What is to be found is no position of a tensor."""
    if find.tensor is None:
        name = find.position
        what = "an index" if name in _indices(kernel) else "a tensor" if name in tensors else "not one"
        message = f"expected a position of a tensor such as `A.p`, but `{name}` is {what}"
        yield SpecError(message, word_in(find.span, name), (_positions(tensors.values()),))
    elif find.tensor not in tensors:
        message = f"expected a tensor of the kernel, but `{find.tensor}` is not one"
        hint = did_you_mean(find.tensor, tensors) or f"its tensors: {', '.join(tensors)}"
        yield SpecError(message, word_in(find.span, find.tensor), (hint,))
    elif find.position not in tensors[find.tensor].layout.positions:
        known = tensors[find.tensor].layout.positions
        text = f"{find.tensor}.{find.position}"
        message = f"expected a position of `{find.tensor}`, but `{text}` is not one"
        listed = _positions([tensors[find.tensor]]) if known else f"`{find.tensor}` is a scalar: it has none"
        hints = (did_you_mean(find.position, known), listed)
        yield SpecError(message, word_in(find.span, text), [h for h in hints if h])


def _wrong_algorithm(find: lang.ForcedFind) -> Iterator[SpecError]:
    if find.algorithm not in FINDS:
        hints = (did_you_mean(find.algorithm, FINDS), f"algorithms: {', '.join(FINDS)}")
        message = f"expected an algorithm that finds positions, but `{find.algorithm}` is not one"
        yield SpecError(message, word_in(find.span, find.algorithm), [h for h in hints if h])


def _indices(kernel: lang.Kernel) -> set[str]:
    """The names in subscripts."""
    subscripts = [e for s in kernel.statements for a in (s.target, *accesses(s.value)) for e in a.subscripts]
    return {n.name for e in subscripts for n in walk(e) if isinstance(n, Var)}


def _positions(tensors: Iterable[Tensor]) -> str:
    """A hint: the positions there are."""
    return f"positions: {', '.join(f'{t.name}.{p}' for t in tensors for p in t.layout.positions) or 'none'}"

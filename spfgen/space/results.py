"""Types, patterns and fill values of results and of local tensors, as far as the text leaves them open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Any

from spfgen.errors import DataError, SpecError
from spfgen.facts.formula import Var
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.fills import plain_fill
from spfgen.lang.types import DEFAULT_VALUE, DEFAULT_WHOLE
from spfgen.lang.typing import Kind, scalar_types
from spfgen.layout.fill import fits, typed_fill
from spfgen.space.assembled import as_assembled
from spfgen.space.nodes import Tensor
from spfgen.space.regions import Regions, is_everywhere
from spfgen.space.result_types import result_types, values_in
from spfgen.space.steps import Equation
from spfgen.space.typed import Types

MOST_CHOICES = 250
"""So many choices of types are tried where the text says none."""


def with_result_types(
    kernel: lang.Kernel,
    declared: Sequence[lang.TensorDecl],
    tensors: Sequence[Tensor],
    local: set[str],
    default: Collection[str],
) -> tuple[Tensor, ...]:
    """Results, and tensors of the kernel's own, have the types of what is computed, unless the text says others, or
    nothing says one: those have the `default` type."""
    stated = {d.name for d in declared if d.use.value_type is not None or d.name in default}
    filled = {d.name for d in declared if d.use.fill is not None}
    open_ = [t.name for t in tensors if t.name not in stated and not (t.is_output or t.name in local)]
    accesses = [n for s in kernel.statements for n in walk(s) if isinstance(n, lang.Access)]
    subscripts = {n.tensor for a in accesses for v in values_in(a) for n in walk(v) if isinstance(n, lang.Access)}
    whole = dict.fromkeys((n for n in open_ if n in subscripts), DEFAULT_WHOLE)
    free = [n for n in open_ if n not in whole]
    refused: SpecError | None = None
    by_name = {t.name: t for t in tensors}
    for kinds in islice(_choices(len(free)), MOST_CHOICES):
        chosen = {n: _holding(by_name[n], k) for n, k in (*whole.items(), *zip(free, kinds, strict=True))}
        operands = tuple(replace(t, value_type=chosen.get(t.name) or t.value_type) for t in tensors)
        known = {t.name: t.value_type for t in operands if t.name in stated or not (t.is_output or t.name in local)}
        try:
            check_fills(t for t in operands if t.name in chosen)
            types = result_types(kernel, known)
        except SpecError as error:
            refused = refused or error
            continue
        typed = tuple(replace(t, value_type=types.get(t.name, t.value_type)) for t in operands)
        try:
            check_fills(t for t in typed if t.is_output and t.name in filled)
        except SpecError as error:
            refused = refused or error
            continue
        return typed
    assert refused is not None
    raise refused


def _choices(count: int) -> Iterator[tuple[str, ...]]:
    """Types for so many operands of which the text says none: calls decide, here any will do that has a meaning. First
    all the same."""
    kinds = (DEFAULT_VALUE, DEFAULT_WHOLE, "bool")
    yield from ((kind,) * count for kind in (*kinds, *LARGER.values()))
    yield from product(kinds, repeat=count)


LARGER = {DEFAULT_VALUE: "complex128", DEFAULT_WHOLE: "uint64"}
"""What holds fill values that the types before do not."""


def _holding(tensor: Tensor, kind: str) -> str | None:
    """The type, or one like it, that holds the tensor's fill value."""
    if _is_plain_zero(tensor.layout.fill):
        return kind
    fitting = (k for k in (kind, LARGER.get(kind)) if k and fits(tensor.layout.fill, k))
    return next(fitting, None)


def _is_plain_zero(fill: Any) -> bool:
    """Whether all types hold a fill value: it is asked without numpy, which most kernels do not need."""
    return repr(fill) in ("0", "0.0")


def check_fills(tensors: Iterable[Tensor]) -> None:
    """Raise SpecError for a fill value that the type of the values does not have."""
    for tensor in (t for t in tensors if not _is_plain_zero(t.layout.fill)):
        try:
            typed_fill(tensor.layout.fill, tensor.value_type)
        except DataError as error:
            raise SpecError(error.message, tensor.span, error.notes) from None


def with_patterns(kernel: lang.Kernel, tensors: Sequence[Tensor], types: Mapping[str, str]) -> tuple[Tensor, ...]:
    """Results whose pattern is computed are lists of entries, of these types where they are others."""
    computed = {d.name for d in kernel.tensors if d.assembled and d.shares is None}
    return tuple(as_assembled(t, types.get(t.name, t.value_type)) if t.name in computed else t for t in tensors)


def with_fills(
    body: Sequence[Any], tensors: Sequence[Tensor], local: Sequence[Tensor], stated: set[str]
) -> tuple[Tensor, ...]:
    """Results whose pattern is computed are, where nothing is stored, what their value is where no operand stores
    anything; unless the text says something else."""
    regions = regions_in(body, (*tensors, *local))
    result = []
    for tensor in tensors:
        equations = [n for s in body for n in walk(s) if isinstance(n, Equation) and n.target == tensor.name]
        alone = len(equations) == 1 and equations[0].updates is None and equations[0] in _everywhere(body)
        if tensor.assembled is not None and tensor.name not in stated and alone:
            fill = regions.fill(equations[0].value)
            if fill is not None:
                number = plain_fill(_cast(fill, tensor.value_type))
                layout = replace(tensor.layout, fill=number)
                assembled = replace(tensor.assembled, layout=replace(tensor.final_layout, fill=number))
                tensor = replace(tensor, layout=layout, assembled=assembled)
        result.append(tensor)
    return tuple(result)


def regions_in(body: Sequence[Any], tensors: Sequence[Tensor], reduced: bool = False) -> Regions:
    """What is known of the values of steps."""
    kinds = {t.name: t.value_type for t in tensors}
    scalars: dict[str, Kind] = {}
    types = Types(kinds, scalars)
    scalar_types(body, types.leaf, scalars)
    dense = frozenset(t.name for t in tensors if is_everywhere(t))
    return Regions({t.name: t.layout for t in tensors}, dense, types, {}, reduced=reduced)


def _everywhere(steps: Sequence[Any]) -> Iterator[Equation]:
    """The equations that write every place of their target, whatever the data are: under no condition, in no loop that
    may end early, or that goes over anything but places of the target: its range may be empty."""
    for step in steps:
        match step:
            case Equation():
                plain = all(isinstance(s, Var) for s in step.subscripts) and len(set(step.subscripts)) == len(
                    step.subscripts
                )
                if plain and step.where is None and not step.at and not step.within:
                    yield step
            case lang.For(indices, body, None) if not any(isinstance(n, lang.Break) for s in body for n in walk(s)):
                yield from (e for e in _everywhere(body) if {Var(i) for i in indices} <= set(e.subscripts))


def _cast(number: Any, kind: str) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        return np.asarray(number).astype(kind)[()]

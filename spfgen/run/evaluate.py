"""Index notation on arrays as they are: the layouts are those of the operands, results are numpy arrays.

A kernel is compiled for each text and choice of layouts, and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from spfgen.api import Kernel, made
from spfgen.errors import DataError, UsageError
from spfgen.lang import nodes as lang
from spfgen.lang.expressions import counted, did_you_mean
from spfgen.lang.optimization import level_of
from spfgen.lang.parse import parse_statements
from spfgen.lang.products import check_products
from spfgen.layout.nodes import SCALAR, Layout
from spfgen.run.bind import is_number
from spfgen.run.foreign import dense_layout, layout_for_output, tensor_of
from spfgen.run.form import canonical, remember
from spfgen.run.seen import checked_mode
from spfgen.run.tensor import Tensor
from spfgen.run.threads import checked_threads


@dataclass(frozen=True)
class _Text:
    """`ranks`: the number of subscripts of each tensor, in the order in which they stand."""

    statements: tuple[lang.Statement, ...]
    ranks: Mapping[str, int]
    targets: frozenset[str]


_KERNELS: dict[tuple[Any, ...], Kernel] = {}


def evaluate(
    statements: str,
    operands: Mapping[str, object],
    sizes: Mapping[str, int] | None = None,
    threads: int | None = None,
    validate: str = "once",
) -> Any:
    """See spfgen.evaluate."""
    kernel, tensors, checked = prepared(statements, operands, threads, validate)
    bound = kernel.bound(tensors, sizes, checked_threads(threads), validate, checked)
    bound()
    return kernel.results(bound, operands)


def prepared(
    statements: str, operands: Mapping[str, object], threads: int | None, validate: str
) -> tuple[Kernel, dict[str, object], frozenset[str]]:
    """The kernel for statements and the layouts of operands, what it takes, and which of that was validated."""
    text = _parsed(statements)
    checked_mode(validate)
    tensors: dict[str, object] = {}
    layouts: list[tuple[str, Layout]] = []
    _check_names(text, operands)
    for name, rank in text.ranks.items():
        value = operands.get(name)
        if value is None or (is_number(value) and not rank):
            layout = dense_layout(rank)
            tensors[name] = value
        elif name in text.targets:
            layout = canonical(layout_for_output(value, rank))
            tensors[name] = value
        else:
            tensor = tensor_of(value, name, validate)
            if tensor.layout.rank != rank:
                wanted = counted(rank, "dimension")
                raise DataError(f"expected `{name}` with {wanted}, but it has {tensor.layout.rank}")
            layout = canonical(tensor.layout)
            tensors[name] = tensor
        layouts.append((name, layout))
    kernel = _kernel(statements, text, layouts, checked_threads(threads))
    checked = frozenset(n for n, t in tensors.items() if isinstance(t, Tensor) and n not in text.targets)
    return kernel, tensors, checked


@lru_cache(maxsize=1024)
def _parsed(statements: str) -> _Text:
    from spfgen.space.names import accesses

    if not isinstance(statements, str):
        raise UsageError(f"expected statements as a text, but this is a {type(statements).__name__}")
    parsed = parse_statements(statements)
    check_products(parsed)
    ranks: dict[str, int] = {}
    for statement in parsed:
        for access in (statement.target, *accesses(statement.value)):
            ranks.setdefault(access.tensor, len(access.subscripts))
    return _Text(parsed, ranks, frozenset(s.target.tensor for s in parsed))


def _check_names(text: _Text, operands: Mapping[str, object]) -> None:
    for name in operands:
        if name not in text.ranks:
            known = f"the statements use: {', '.join(sorted(text.ranks))}"
            message = f"expected a tensor of the statements, but `{name}` is not one"
            raise UsageError(message, None, (did_you_mean(name, text.ranks) or known,))


def _kernel(statements: str, text: _Text, layouts: list[tuple[str, Layout]], threads: int | None) -> Kernel:
    level = level_of(None)
    key = (statements, threads, level, *[id(layout) for _, layout in layouts])
    kernel = _KERNELS.get(key)
    if kernel is None:
        declared = tuple(
            lang.TensorDecl(name, lang.LayoutUse(layout.name, settings=layout.constants))
            for name, layout in layouts
            if layout is not SCALAR
        )
        parsed = lang.Kernel("kernel", declared, (), text.statements, level=level)
        stored = {n: layout for n, layout in layouts if layout is not SCALAR}
        kernel = made(parsed, stored, threads, "once", kept=True)
        remember(_KERNELS, key, kernel)  # the kernel keeps its layouts alive, and so their identities
    return kernel

"""Limits on the size of a kernel: what cannot be planned in seconds is refused, with the number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spfgen import limits
from spfgen.errors import Unsupported
from spfgen.ir import children
from spfgen.lang import nodes as lang
from spfgen.lang.uses import statements_in
from spfgen.layout.nodes import Layout
from spfgen.space.names import accesses


def check_size(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> None:
    """Raises Unsupported."""
    statements = list(statements_in(kernel.statements))
    if len(statements) > limits.STATEMENTS:
        raise Unsupported(
            f"a kernel of {len(statements)} statements is not compiled, but one of at most {limits.STATEMENTS}",
            statements[limits.STATEMENTS].span,
            ("write several kernels",),
        )
    for statement in statements:
        sparse = [a for a in accesses(statement.value) if a.tensor in layouts and layouts[a.tensor].indexes]
        factors, sums = _factors(statement.value, layouts), _sums(statement.value)
        for count, most, what, remedy in (
            (len(sparse), limits.OPERANDS, "operands that store coordinates", "compute with some of them"),
            (factors, limits.FACTORS, "factors that store coordinates", "multiply some of them"),
            (sums, limits.SUMS, "sums one in another", "compute the inner ones"),
        ):
            if count > most:
                raise Unsupported(
                    f"a statement with {count} {what} is not compiled, but one with at most {most}",
                    statement.span,
                    (f"{remedy} first, in a call of its own",),
                )


def _factors(value: Any, layouts: Mapping[str, Layout]) -> int:
    """Of the longest product within a value."""
    match value:
        case lang.Access():
            return int(value.tensor in layouts and bool(layouts[value.tensor].indexes))
        case lang.Apply("multiply" | "divide", (left, right)):
            return _factors(left, layouts) + _factors(right, layouts)
    return max((_factors(part, layouts) for part in children(value)), default=0)


def _sums(value: Any) -> int:
    """How many sums stand one in another."""
    inner = max(map(_sums, children(value)), default=0)
    return inner + isinstance(value, lang.Reduce)

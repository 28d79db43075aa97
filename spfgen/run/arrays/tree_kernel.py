"""The value of a tree (graph.py) by one kernel, where that pays."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import numpy as np

from spfgen.errors import InternalError, SpfgenError, Unsupported
from spfgen.lang.fills import fill_number, fill_text
from spfgen.layout.nodes import Layout
from spfgen.run.arrays.entries import own_entries
from spfgen.run.arrays.graph import Node, in_order, stored
from spfgen.run.arrays.made import in_layout
from spfgen.run.arrays.pieces import Pattern, for_any_numbers, patterns
from spfgen.run.arrays.text import TARGET, Fused, fused
from spfgen.run.calls.call_cache import share_call
from spfgen.run.calls.evaluate import call_key, evaluate
from spfgen.run.calls.layout_signature import canonical
from spfgen.run.calls.samples import ready
from spfgen.run.handles import LayoutHandle, filled, handle_of
from spfgen.run.later import WARM, mode

ENOUGH = 20_000
"""Trees over fewer numbers are not worth a compilation."""


def by_kernel(
    node: Node,
    layout: Any = None,
    *,
    sparse: bool = False,
    always: bool = False,
    small: bool = False,
    times: float = 1,
    key: Hashable = None,
) -> Any | None:
    """The value by one kernel of the whole tree; None where that is not worth it (`always`: it is), or cannot be: who
    goes step by step then words what is wrong. `sparse`: only where the result is sparse; `small`: of few entries too,
    once there is a kernel. Its work counts so many `times`. Under `key` later calls are found at
    once (call_cache.py)."""
    if not always and stored(node) < ENOUGH and mode() not in ((WARM, "background") if small else (WARM,)):
        return None
    statement, pattern = fused(node), patterns(in_order(node))[id(node)]
    if statement is None or (sparse and pattern is None) or not (always or for_any_numbers(node)):
        return None
    if layout is None and not always and not _is_ready(node, statement, pattern, times):
        return None
    try:
        result = _by_kernel(node, statement, pattern, layout, key)
    except InternalError:
        raise
    except SpfgenError:
        return None
    return result if result.dtype == node.dtype else None


def _is_ready(node: Node, statement: Fused, pattern: Pattern | None, times: float) -> bool:
    wanted = None if pattern is None or not node.shape else (TARGET, pattern.layout, pattern.fill)
    return ready(
        statement.text, statement.operands, statement.sizes, wanted, int(stored(node) * times), int(ENOUGH * times)
    )


@lru_cache(maxsize=256)
def _out(layout: Layout, fill: str) -> dict[str, LayoutHandle]:
    """Where a result goes; the same object for the same layout, by which calls are remembered."""
    return {TARGET: filled(handle_of(layout), fill_number(fill))}


def _by_kernel(node: Node, statement: Fused, pattern: Pattern | None, layout: Any, key: Hashable) -> Any:
    """Raises SpfgenError where there is no such kernel."""
    where = pattern.layout if layout is None and pattern is not None else layout
    if where is None or not node.shape:
        result = evaluate(statement.text, statement.operands, statement.sizes or None)
        if not statement.sizes and result.dtype == node.dtype:
            share_call(key, call_key(statement.text, statement.operands), statement.operands)
        return result[()] if isinstance(result, np.ndarray) and not result.ndim else result
    if pattern is None:
        raise Unsupported("expected a sparse result")
    if layout is None:
        out = _out(canonical(where), fill_text(pattern.fill))
        result = evaluate(statement.text, statement.operands, statement.sizes or None, out=out, prune=True)
        if not statement.sizes and result.dtype == node.dtype:
            share_call(key, call_key(statement.text, statement.operands, None, out, True), statement.operands)
        return result
    handle = handle_of(where)
    result = evaluate(
        statement.text, statement.operands, statement.sizes, out={TARGET: filled(handle, pattern.fill)}, prune=True
    )
    wanted = handle.tree.fill_of(handle.use)
    is_so = wanted is None or fill_text(wanted) == fill_text(pattern.fill)
    return result if is_so else in_layout(own_entries(result), layout)

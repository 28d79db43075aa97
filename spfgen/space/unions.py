"""Sums, element by element, of tensors that deliver coordinates in one order: to merge them takes no workspace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spfgen import tuning
from spfgen.facts.formula import Var
from spfgen.lang import nodes as lang
from spfgen.layout.nodes import Layout


def merges(statement: lang.Statement, layouts: Mapping[str, Layout]) -> bool:
    """Whether the statement assigns a sum of tensors of one layout, perhaps times numbers, at one place, whose rows, or
    whatever they are, come in strict order."""
    if statement.op != "=" or statement.where is not None:
        return False
    names = [s.name for s in statement.target.subscripts if isinstance(s, Var)]
    terms = list(_terms(statement.value))
    accesses = [t for t in terms if isinstance(t, lang.Access)]
    if (
        len(set(names)) < len(statement.target.subscripts)
        or not 2 <= len(accesses) == len(terms) <= tuning.MERGED_STREAMS
    ):
        return False
    layouts_of = {a.tensor: layouts.get(a.tensor) for a in accesses}
    first = layouts_of[accesses[0].tensor]
    same = all(a.subscripts == statement.target.subscripts for a in accesses)
    return same and first is not None and all(x == first for x in layouts_of.values()) and _in_order(first)


def _terms(value: object) -> Iterator[object]:
    """The terms of a sum, without numbers as factors."""
    match value:
        case lang.Apply("add" | "subtract", parts):
            for part in parts:
                yield from _terms(part)
        case lang.Apply("negative", (inner,)):
            yield from _terms(inner)
        case lang.Apply("multiply", (lang.Constant(), inner)) | lang.Apply("multiply", (inner, lang.Constant())):
            yield from _terms(inner)
        case _:
            yield value


def _in_order(layout: Layout) -> bool:
    """Whether each coordinate is stored once, and those that have all others in common come in strict order."""
    if not layout.rank or not layout.indexes or layout.value_transforms or layout.is_pattern:
        return False
    # Packing is imported where it is needed: generating C does without numpy.
    from spfgen.errors import Unsupported
    from spfgen.layout.keys import key_plan
    from spfgen.layout.order import in_order
    from spfgen.layout.pack import key_orders
    from spfgen.layout.proofs import stored_once

    try:
        key = key_plan(layout, key_orders(layout))
    except Unsupported:
        return False
    alone = len(key.levels) == 1 and key.levels[0].end == key.levels[0].group + 1 == len(key.fields)
    return alone and stored_once(layout).proved and in_order(layout, key)

"""Results in their layout: how the arrays of a layout follow from the entries that a kernel makes (layout/keys.py)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spfgen.errors import Unsupported
from spfgen.layout.keys import KeyPlan, key_plan
from spfgen.layout.pack import key_orders
from spfgen.space.nodes import Tensor


@dataclass(frozen=True)
class KeyAssembly:
    """The arrays of `tensor`, by the key of each of its entries."""

    tensor: Tensor
    key: KeyPlan

    def lines(self) -> Iterator[tuple[str, str]]:
        """What is done, in words, each with the reason."""
        fields, calls = self.key.fields, self.key.plan.encoded.calls
        order = ", ".join(f"{f.name} downwards" if f.name in calls and f.down else f.name for f in fields)
        names = {n: calls[n].function for n in calls}
        yield f"sort the entries by ({order})", "unless they come in order; those at one place add up"
        for level in self.key.levels:
            rank = level.rank
            own = ", ".join(f.name for f in fields[: level.end])
            yield f"number {rank.position}", f"a position for each ({own})"
            if rank.begin:
                yield f"offsets {names[rank.begin]}", f"where the positions {rank.position} of a group begin"
            for name in rank.keys:
                yield f"insert {names[name]}", f"what is found at {rank.position}"
        (value,) = self.key.plan.encoded.layout.values
        yield f"insert {value.name}", "the values"


def assembly_by_key(tensor: Tensor) -> KeyAssembly | Unsupported | None:
    """How the C assembles a tensor; the reason if it cannot; None for a tensor whose pattern is given."""
    layout = tensor.assembled
    if layout is None:
        return None
    if tensor.axis is not None or layout.turned or layout.is_pattern or not layout.rank:
        return Unsupported(f"layout `{layout.name}` does not store one value for each entry")
    try:
        key = key_plan(layout, key_orders(layout))
    except Unsupported as error:
        return error
    calls, marks = key.plan.encoded.calls, key.plan.sentinels
    for rank in (level.rank for level in key.levels if level.rank.kind == "slots" and level.group):
        for array in (calls[n].function for n in rank.keys):
            if array not in marks:
                return Unsupported(f"layout `{layout.name}` has no mark for places of `{array}` that no entry has")
    return KeyAssembly(tensor, key)

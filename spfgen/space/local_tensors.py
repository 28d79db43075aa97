"""Tensors that a kernel has for itself: a value for each coordinate, in memory that it takes and gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from spfgen.facts.formula import ZERO, Call, Compare, Forall, Formula, Num, Var, conjunction, implies, within
from spfgen.layout.nodes import IndexArray, Layout, Property, ValueArray
from spfgen.space.nodes import Tensor

OWN = "own"
"""The name of the array of values."""


@cache
def _layout(rank: int) -> Layout:
    ks = range(1, rank + 1)
    parts: list[Formula] = [within(Var(f"at_{k}"), ZERO, Var(f"extent_{k}")) for k in ks]
    parts += [Compare("=", Var(f"c_{k}"), Var(f"at_{k}")) for k in ks]
    return Layout(
        "own",
        tuple(f"extent_{k}" for k in ks),
        (),
        (),
        tuple(f"at_{k}" for k in ks),
        tuple(f"c_{k}" for k in ks),
        conjunction(parts),
        (),
        (ValueArray(OWN, tuple(Var(f"extent_{k}") for k in ks), tuple(Var(f"at_{k}") for k in ks)),),
        0,
    )


def own_tensor(name: str, kind: str, extents: Sequence[str]) -> Tensor:
    """A tensor whose extents are these sizes."""
    return Tensor(name, _layout(len(extents)), kind, (), tuple(extents), (), (), False, False)


AT, HELD, COUNT = "at", "held", "count"
"""The coordinates of entries, their values, and how many there are."""


@cache
def _entries(rank: int) -> Layout:
    ks = range(rank)
    count, e, f = Var(COUNT), Var("e"), Var("f")
    parts: list[Formula] = [within(e, ZERO, count)]
    parts += [Compare("=", Var(f"c_{k + 1}"), Call(AT, (e, Num(k)))) for k in ks]
    ranges = [
        Forall(("e",), implies(within(e, ZERO, count), within(Call(AT, (e, Num(k))), ZERO, Var(f"extent_{k + 1}"))))
        for k in ks
    ]
    inside = conjunction([within(e, ZERO, count), within(f, ZERO, count)])
    same = conjunction([Compare("=", Call(AT, (e, Num(k))), Call(AT, (f, Num(k)))) for k in ks])
    once = Forall(("e", "f"), implies(conjunction([inside, same]), Compare("=", e, f)))
    return Layout(
        "entries",
        tuple(f"extent_{k + 1}" for k in ks),
        (),
        (COUNT,),
        ("e",),
        tuple(f"c_{k + 1}" for k in ks),
        conjunction(parts),
        (
            IndexArray(
                AT,
                (count, Num(rank)),
                tuple(Property(r, "within the extents") for r in ranges),
                (Property(once, "each coordinate once"),),
            ),
        ),
        (ValueArray(HELD, (count,), (e,)),),
        0,
    )


def entries_of(name: str, tensor: Tensor) -> Tensor:
    """A copy of a tensor's entries, each coordinate once."""
    layout = replace(_entries(tensor.layout.rank), fill=tensor.layout.fill)
    sizes, arrays = (f"{name}.{COUNT}",), ((AT, f"{name}.{AT}"),)
    return Tensor(name, layout, tensor.value_type, ((AT, "int64"),), tensor.extents, sizes, arrays, False, False)

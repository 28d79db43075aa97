"""Tensors that a kernel has for itself: a value for each coordinate, in memory that it takes and gives back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from spfgen.facts.formula import ZERO, Compare, Formula, Var, conjunction, within
from spfgen.layout.nodes import Layout, ValueArray
from spfgen.space.nodes import Tensor

OWN = "own"
"""The name of the array of values."""


@lru_cache
def _layout(rank: int, fill: float) -> Layout:
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
        fill,
    )


def own_tensor(name: str, kind: str, extents: Sequence[str]) -> Tensor:
    """A tensor whose extents are these sizes."""
    return Tensor(name, _layout(len(extents), 0), kind, (), tuple(extents), (), (), False, False)

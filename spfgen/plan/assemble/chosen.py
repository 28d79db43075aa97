"""What packing chooses where a relation leaves it open (layout/pack_chosen.py), as steps."""

from __future__ import annotations

from collections.abc import Mapping

from spfgen.errors import Unsupported
from spfgen.facts.formula import Expr
from spfgen.layout.pack_rules import KeyOrder, Rank, Ranked
from spfgen.plan.assemble.state import State


def make_starts(s: State, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    raise Unsupported(f"layout `{s.layout.name}` is not assembled in C: {rank.kind}", s.layout.span)


def make_places(s: State, rank: Rank, order: KeyOrder) -> None:
    raise Unsupported(f"layout `{s.layout.name}` is not assembled in C: {rank.kind}", s.layout.span)


def make_digits(s: State, rank: Rank, rules: Mapping[int, Ranked]) -> None:
    raise Unsupported(f"layout `{s.layout.name}` is not assembled in C: {rank.kind}", s.layout.span)


def rank_chunks(s: State, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder, low: Expr) -> None:
    raise Unsupported(f"layout `{s.layout.name}` is not assembled in C: {rank.kind}", s.layout.span)

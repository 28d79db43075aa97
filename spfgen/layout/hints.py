"""What the `pack` clauses of a layout mean for entries: columns to sort by, and where runs end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from spfgen.errors import InternalError, Unsupported
from spfgen.facts.formula import Call, Expr, Var, calls, evaluate, show, variables
from spfgen.ir import rewrite
from spfgen.layout.pack_rules import PackPlan, Rank
from spfgen.layout.points import Array, affine_value, row_ranks, sorted_order
from spfgen.sets.bounds import single_value


@dataclass(frozen=True)
class HintInputs:
    """Entries: `known` has a column (or one number) for each coordinate, size and position that is known."""

    count: int
    known: Mapping[str, Any]
    coordinates: tuple[str, ...]
    values: Array


def hint_columns(seen: HintInputs, plan: PackPlan, rank: Rank, unused: Array | None = None) -> list[Array]:
    """The values of the rank's hint for all entries, then for keys that no entry has; int64 each.

    Raises Unsupported when the hint speaks of something that such a key does not give.
    """
    more = np.zeros(0, dtype=np.int64) if unused is None else unused
    total = seen.count + len(more)
    columns: dict[str, Array] = {}

    def lookup(name: str) -> Any:
        if name not in columns:
            columns[name] = _column(seen, plan, rank, name, more)
        return columns[name]

    def value(expr: Expr) -> Array:
        for call in dict.fromkeys(calls(expr)):
            group, _ = row_ranks([value(a) for a in call.arguments], total)
            if call.function == "count":
                columns[show(call)] = np.asarray(np.bincount(group[: seen.count], minlength=total)[group])
            elif call.function in ("least", "most"):
                columns[show(call)] = _end(call, value, seen.count, total)
            else:
                named = variables(*call.arguments)
                others = [np.asarray(seen.known[c]) for c in seen.coordinates if c not in named]
                others += list(words(seen.values)) if call.function == "content" else []
                columns[show(call)] = patterns(group[: seen.count], others, total)[group]
        plain = rewrite(lambda n: Var(show(n)) if isinstance(n, Call) else None, expr)
        return np.broadcast_to(np.asarray(evaluate(plain, lookup, _no_call), dtype=np.int64), (total,))

    return [value(key) for key in rank.hint]


def _end(call: Call, value: Callable[[Expr], Array], count: int, total: int) -> Array:
    """The least or the most that entries with these other arguments have of the first; 0 where there is none."""
    ranked, *others = map(value, call.arguments)
    group, _ = row_ranks(others, total)
    sign = 1 if call.function == "least" else -1
    ends = np.full(total, 2**62)
    np.minimum.at(ends, group[:count], sign * ranked[:count])
    return np.where(ends == 2**62, 0, sign * ends)[group]


def _no_call(function: str, arguments: tuple[Any, ...]) -> Any:
    raise InternalError(f"{function} is left in a hint")


def _column(seen: HintInputs, plan: PackPlan, rank: Rank, name: str, unused: Array) -> Array:
    """The column of a name, continued for unused keys."""
    if name not in seen.known:
        raise Unsupported(
            f"layout `{plan.encoded.layout.name}` cannot be packed: `{name}` in `pack {rank.position} by ...` is not "
            "known when the position is numbered",
            plan.encoded.layout.span,
        )
    of_entries = np.broadcast_to(np.asarray(seen.known[name], dtype=np.int64), (seen.count,))
    if not len(unused):
        return of_entries
    if np.ndim(seen.known[name]) == 0:
        return np.full(seen.count + len(unused), seen.known[name], dtype=np.int64)
    about = plan.encoded.pieces[0].project({*plan.encoded.sizes, *rank.keys, name}).constraints(name)
    value = single_value(about, name)
    if value is None:
        raise Unsupported(
            f"layout `{plan.encoded.layout.name}` cannot be packed: `pack {rank.position} by ...` speaks of `{name}`, "
            f"which `{' and '.join(rank.keys)}` does not say for a place without entries",
            plan.encoded.layout.span,
        )
    known = {**{s: v for s, v in seen.known.items() if np.ndim(v) == 0}, rank.keys[0]: unused}
    return np.concatenate([of_entries, np.asarray(affine_value(value[0], known) // value[1], dtype=np.int64)])


def words(values: Array) -> Array:
    """The bytes of the values, as columns."""
    return np.ascontiguousarray(values).reshape(-1, 1).view(np.uint8).astype(np.int64).T


def patterns(group: Array, others: Sequence[Array], total: int) -> Array:
    """A number for each group of entries that two share when their entries have the same other coordinates."""
    contents, _ = row_ranks(list(others), len(group))
    _, first = row_ranks([group, contents], len(group))
    groups, content = group[first], contents[first]
    begins = np.flatnonzero(np.diff(groups, prepend=-1))
    numbers: dict[bytes, int] = {}
    pattern_numbers = [
        numbers.setdefault(content[a:b].tobytes(), len(numbers)) for a, b in pairwise([*begins.tolist(), len(content)])
    ]
    numbers_of_groups = np.full(total, len(numbers), dtype=np.int64)  # of the groups without entries
    numbers_of_groups[groups[begins]] = pattern_numbers
    return numbers_of_groups


def numbered_runs(groups: Sequence[Array], at: Array, hinted: Sequence[Array], values: Array | None) -> Array:
    """The number of the run of each entry: neighbours within a group, in the order of groups and places; int64[n].

    A run ends where the next place has no entry, where a hint changes, and with `values` where the value does.
    """
    count = len(at)
    place, first = row_ranks([*groups, at], count)
    new = np.ones(len(first), dtype=bool)
    along = at[first]
    if len(first) > 1:
        new[1:] = along[1:] != along[:-1] + 1
        for column in (*groups, *hinted):
            of_first = column[first]
            new[1:] |= of_first[1:] != of_first[:-1]
        if values is not None:
            of_first = np.ascontiguousarray(values[first]).reshape(-1, 1).view(np.uint8)
            new[1:] |= (of_first[1:] != of_first[:-1]).any(axis=1)
    return np.asarray(np.cumsum(new) - 1, dtype=np.int64)[place]


def numbered_blocks(groups: Sequence[Array], inside: Sequence[Array]) -> Array:
    """The number of the block of each entry, in the order of groups and places; int64[n].

    A block is a range of places. All `inside` of an entry lie in one, and blocks are as small as that allows.
    """
    count = len(inside[0])
    low, high = np.minimum.reduce(inside), np.maximum.reduce(inside)
    least = low.min(initial=0)
    low, high = low - least, high - least
    order = sorted_order([*groups, low], count)
    order = np.arange(count) if order is None else order
    group, _ = row_ranks(list(groups), count) if groups else (np.zeros(count, dtype=np.int64), None)
    group, low, high = group[order], low[order], high[order]
    width = int(high.max(initial=0)) + 1  # to keep groups apart in one running maximum
    reached = np.maximum.accumulate(group * width + high)
    new = np.ones(count, dtype=bool)
    new[1:] = group[1:] * width + low[1:] > reached[:-1]
    numbers = np.empty(count, dtype=np.int64)
    numbers[order] = np.cumsum(new) - 1
    return numbers

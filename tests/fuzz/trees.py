"""Layouts made at random: a level for each coordinate, in any order, stored in one of several ways."""

from __future__ import annotations

import numpy as np

KEYS = {
    # how a level stores its coordinate c, of the extent n, in `idx`; the range of what is stored
    "as it is": ("{c} = {idx}", "0 <= {call} < {n}"),
    "from the end": ("{c} + {idx} = {n} - 1", "0 <= {call} < {n}"),
    "from one": ("{c} + 1 = {idx}", "1 <= {call} <= {n}"),
    "moved": ("{c} = {idx} + 2", "-2 <= {call} < {n} - 2"),
}
ORDERS = ("strictly increasing", "strictly increasing", "strictly decreasing")


def random_tree(rng: np.random.Generator, rank: int, name: str) -> str:
    """A dense level is there for each coordinate; one of segments holds those that are stored, in some order."""
    order = [int(k) for k in rng.permutation(rank)]
    extents, coordinates = [f"n_{k}" for k in range(rank)], [f"c_{k}" for k in range(rank)]
    dense_first = bool(rng.random() < 0.5) and rank > 1
    sizes, conditions, arrays, positions = [], [], [], []
    above, count = "", "1"
    for depth, k in enumerate(order):
        position, extent = f"p_{depth}", extents[k]
        positions.append(position)
        if depth == 0 and dense_first:
            stored = "{c} = {p}" if rng.random() < 0.6 else "{c} + {p} = {n} - 1"
            conditions.append(f"0 <= {position} < {extent}")
            conditions.append(stored.format(c=coordinates[k], p=position, n=extent))
            above, count = position, extent
            continue
        sizes.append(f"s_{depth}")
        index, pointer = f"idx_{depth}", f"ptr_{depth}"
        if above:
            conditions.append(f"{pointer}({above}) <= {position} < {pointer}({above} + 1)")
            arrays.append(
                f"index {pointer}[{count} + 1] {{ range 0 <= {pointer}(q) <= s_{depth}  property increasing  "
                f"property {pointer}(0) = 0  property {pointer}({count}) = s_{depth} }}"
            )
        else:
            conditions.append(f"0 <= {position} < s_{depth}")
        key, limits = KEYS[str(rng.choice(list(KEYS)))]
        conditions.append(key.format(c=coordinates[k], idx=f"{index}({position})", n=extent))
        kind = str(rng.choice(ORDERS)) + (f" within {pointer}" if above else "")
        limits = limits.format(call=f"{index}(q)", n=extent)
        arrays.append(f"index {index}[s_{depth}] {{ range {limits}  property {kind} }}")
        above, count = position, f"s_{depth}"
    size = f"    size {', '.join(sizes)}\n" if sizes else ""
    relation = f"{{ [{', '.join(positions)}] -> [{', '.join(coordinates)}] : {' and '.join(conditions)} }}"
    body = "\n    ".join([f"relation {relation}", *arrays, f"value val[{count}] at [{above}]"])
    return f"layout {name}({', '.join(extents)}) {{\n{size}    {body}\n}}"

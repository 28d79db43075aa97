"""Products of three matrices and more, in the order that takes the fewest multiplications.

The order is found by dynamic programming over the numbers of entries that results are estimated to have, as if entries
lay anywhere (Cohen, "Structure prediction and computation of sparse matrix products", 1998, has closer estimates).
Values of one type alone are brought in another order: sums of floats may be rounded otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1, log1p

from spfgen.run.arrays.graph import Leaf, Node, Product, children, in_order, with_values
from spfgen.run.arrays.made import is_full
from spfgen.run.tensor import Tensor


@dataclass(frozen=True)
class _Part:
    """A product of neighbours: its extents, how many entries it may have, the multiplications up to it."""

    node: Node
    rows: int
    columns: int
    entries: float
    work: float
    text: str


def in_best_order(node: Node) -> tuple[Node, list[str]]:
    """(the graph with its chains of products in the best order, a sentence for each that is in another one)."""
    notes: list[str] = []
    order = in_order(node)
    uses = Counter(id(c) for n in order for c in children(n))
    inner = {id(c) for n in order if isinstance(n, Product) for c in children(n) if _goes_on(c, n, uses)}
    known: dict[int, Node] = {}
    for part in order:
        if isinstance(part, Product) and id(part) not in inner:
            factors = _factors(part, uses)
            if len(factors) > 2 and _is_associative(factors):
                best = _best([with_values(f, known) for f in factors])
                given = _as_written(part, uses)
                if best.work < given.work:
                    known[id(part)] = best.node
                    notes.append(f"{best.text}: about {best.work:.3g} multiplications, not {given.work:.3g}")
    return (with_values(node, known) if known else node), notes


def _is_associative(factors: Sequence[Node]) -> bool:
    """Whether the order plays no part: a vector at an end alone, between matrices it is a row and a column."""
    return all(len(f.shape) == 2 for f in factors[1:-1]) and all(len(f.shape) in (1, 2) for f in factors)


def _goes_on(part: Node, above: Node, uses: Counter[int]) -> bool:
    """Whether a product is part of the chain of that above."""
    return (
        isinstance(part, Product)
        and uses[id(part)] == 1
        and part.dtype == above.dtype == part.left.dtype == part.right.dtype
        and len(part.shape) <= 2
    )


def _factors(node: Node, uses: Counter[int]) -> list[Node]:
    factors: list[Node] = []
    waiting: list[tuple[Node, Node | None]] = [(node, None)]
    while waiting:
        part, above = waiting.pop()
        if isinstance(part, Product) and (above is None or _goes_on(part, above, uses)):
            waiting += [(part.right, part), (part.left, part)]
        else:
            factors.append(part)
    return factors


def _as_written(node: Node, uses: Counter[int]) -> _Part:
    """The work of the chain in the order in which it stands."""
    factors = {id(f): k for k, f in enumerate(_factors(node, uses))}
    parts: dict[int, _Part] = {}
    for part in in_order(node, factors):
        if id(part) in factors:
            parts[id(part)] = _factor(part, factors[id(part)])
        elif isinstance(part, Product):
            parts[id(part)] = _product(parts[id(part.left)], parts[id(part.right)], None)
    return parts[id(node)]


def _best(factors: Sequence[Node]) -> _Part:
    """Of all orders; of equal ones the first."""
    count = len(factors)
    table: dict[tuple[int, int], _Part] = {(k, k): _factor(f, k) for k, f in enumerate(factors)}
    for length in range(1, count):
        for low in range(count - length):
            high = low + length
            choices = [(table[low, k], table[k + 1, high]) for k in range(low, high)]
            one, other = min(choices, key=lambda pair: _product(pair[0], pair[1], None).work)
            table[low, high] = _product(one, other, Product(one.node, other.node))
    return table[0, count - 1]


def _factor(node: Node, place: int) -> _Part:
    rows = node.shape[0] if len(node.shape) == 2 or place else 1
    columns = node.shape[-1] if len(node.shape) == 2 or not place else 1
    sparse = isinstance(node, Leaf) and isinstance(node.value, Tensor) and not is_full(node.value.layout)
    entries = node.value.nse if sparse and isinstance(node, Leaf) else rows * columns
    return _Part(node, rows, columns, float(entries), 0.0, f"F{place + 1}")


def _product(left: _Part, right: _Part, node: Node | None) -> _Part:
    """Each entry meets those of one row of the other; places of the result are empty as if all were independent."""
    inner = max(1, left.columns)
    work = left.entries * right.entries / inner
    places = left.rows * right.columns
    meets = (left.entries / max(1, left.rows * inner)) * (right.entries / max(1, inner * right.columns))
    entries = float(places) if meets >= 1 else -places * expm1(inner * log1p(-meets))
    text = f"({left.text} @ {right.text})"
    return _Part(node or left.node, left.rows, right.columns, entries, left.work + right.work + work, text)

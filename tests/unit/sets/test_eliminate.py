"""What a set says of one dimension: nothing that is not so, and no less than isl says."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from spfgen.sets.affine import Affine
from spfgen.sets.bounds import single_value
from spfgen.sets.eliminate import about
from spfgen.sets.named import Constraint, Piece, Space

NAMES = ("n", "a", "b", "c", "x")


def random_piece(rng: np.random.Generator) -> Piece:
    constraints = []
    for _ in range(rng.integers(3, 8)):
        chosen = rng.choice(len(NAMES), rng.integers(1, 4), replace=False)
        terms = {NAMES[k]: int(rng.choice([-3, -2, -1, -1, 1, 1, 2, 3])) for k in chosen}
        constraints.append(Constraint(bool(rng.random() < 0.3), Affine.of(terms, int(rng.integers(-4, 5)))))
    return Space(NAMES).of(constraints)


def holds(constraint: Constraint, point: dict[str, int]) -> bool:
    value = constraint.value.constant + sum(k * point[str(a)] for a, k in constraint.value.terms)
    return value == 0 if constraint.equality else value >= 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_said_that_is_not_so(seed: int) -> None:
    rng = np.random.default_rng([7, seed])
    piece = random_piece(rng)
    hidden = {"a", "b", "c"} if seed % 2 else {"b"}
    found = about(piece, "x", hidden)
    assert all("x" in c.value.names() and not c.value.names() & hidden for c in found)
    inside = piece.listed()
    points = (dict(zip(NAMES, values, strict=True)) for values in product(range(-4, 5), repeat=len(NAMES)))
    for point in points:
        if all(holds(c, point) for c in inside):
            assert all(holds(c, point) for c in found), point


@pytest.mark.parametrize("seed", range(60))
def test_no_less_is_said_than_isl_says(seed: int) -> None:
    """Together with what is said of the other dimensions, which is not asked for; but for what is divisible."""
    piece = random_piece(np.random.default_rng([8, seed]))
    kept = {"n", "x"}
    exact = piece.project(kept).without_floors()
    others = [c for c in exact.constraints() if not c.value.coefficient("x")]
    found = piece.space.of([*about(piece, "x", {"a", "b", "c"}), *others])
    assert found.is_subset(exact)


def test_a_chain_of_equalities_and_bounds_is_followed() -> None:
    """x = 2a + b with b = c, 0 <= c <= 0 and n <= 2a <= n: x is n."""
    a, b, c, n, x = (Affine(((name, 1),)) for name in "abcnx")
    constraints = [
        Constraint(True, x - a.scaled(2) - b),
        Constraint(True, b - c),
        Constraint(False, c),
        Constraint(False, c.scaled(-1)),
        Constraint(False, a.scaled(2) - n),
        Constraint(False, n - a.scaled(2)),
    ]
    piece = Space(NAMES).of(constraints)
    assert single_value(about(piece, "x", {"a", "b", "c"}), "x") == (n, 1)
    assert single_value(about(piece, "x", {"b", "c"}), "x") == (n, 1)
    assert not about(Space(NAMES).of(constraints[1:]), "x", {"a", "b", "c"})


def test_what_is_not_linked_is_left_alone() -> None:
    a, n, x = (Affine(((name, 1),)) for name in "anx")
    piece = Space(NAMES).of([Constraint(False, n - a), Constraint(False, n - x)])
    assert about(piece, "x", {"a"}) == [Constraint(False, n - x)]


@pytest.mark.parametrize("seed", range(40))
def test_what_is_known_word_for_word_is_left_out(seed: int) -> None:
    """What is left says the same where the other set holds, and what both have is not said again."""
    rng = np.random.default_rng([9, seed])
    one, other = random_piece(rng), random_piece(rng)
    known = other.with_constraints(one.listed()[::2])
    left = one.gist(known)
    both, wanted = left.intersect(known), one.intersect(known)
    assert both.is_subset(wanted)
    assert wanted.is_subset(both)
    if not known.is_empty():
        assert not any(c in known.listed() for c in left.listed())

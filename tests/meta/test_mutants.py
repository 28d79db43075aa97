"""The verifier, measured: plans of random programs with a mistake in them, whose result differs; how many it refuses.

The floors only rise. What kinds are not seen is on the architecture page, checked against them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain

import pytest

from tests.meta.measure import Measured, measured
from tests.meta.mutate import KINDS
from tests.meta.programs import STEPS, SUMS, Planned, steps, sums

LOGGER = logging.getLogger(__name__)
FOCI = ("dense", "outputs", "common", "unseen", "order", "reads")
"""What there is more of in programs that are sums of products (tests/fuzz/programs.py)."""
FLOORS = {
    SUMS: (0.92, 0.98, 0.85, 0.93, 0.98, 0.93, 1.0, 0.98, 0.0, 0.88, 0.0),
    STEPS: (0.0, 0.0, 0.0, 0.2, 0.05, 0.0, 0.1, 0.15, 0.5, 0.0, 0.9),
}
"""Of each road, the share of each of the KINDS that is refused at least, of 500 programs."""


def programs(of_sums: int, of_steps: int) -> Iterator[Planned]:
    return chain(*(sums(focus, of_sums) for focus in FOCI), steps(of_steps))


def check(found: Measured) -> None:
    low = [
        f"{road}, {kind}: {share}, at least {floor:.0%}"
        for road, floors in FLOORS.items()
        for kind, floor in zip(KINDS, floors, strict=True)
        if (share := found.shares[road, kind]).differ and share.refused < round(floor * share.differ, 6)
    ]
    assert not low, "\n".join([*low, found.table()])


def test_some_mutants() -> None:
    """A few programs, always the same: what is refused entirely of many is so of these."""
    found = measured(programs(1, 3), 2)
    assert found.total().differ > 20
    entirely = [(road, k) for road, floors in FLOORS.items() for k, f in zip(KINDS, floors, strict=True) if f == 1]
    assert all(found.shares[key].refused == found.shares[key].differ for key in entirely), found.table()


@pytest.mark.fuzz
def test_mutants_of_many_programs() -> None:
    found = measured(programs(45, 330))
    LOGGER.info("%d programs\n%s", found.plans, found.table())
    check(found)

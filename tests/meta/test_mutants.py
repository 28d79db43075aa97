"""The verifier, measured: plans of random programs, and assemblies of all layouts, with a mistake in them, whose result
differs; how many it refuses.

The floors only rise. What kinds are not seen is on the architecture page, checked against them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.meta import assemblies, mutate_assembly
from tests.meta.measure import PLANNER, Measured, measured
from tests.meta.mutate import KINDS
from tests.meta.programs import STEPS, SUMS, Planned, assembled, steps, sums
from tests.unit.run.test_checks import LAYOUTS

LOGGER = logging.getLogger(__name__)
FOCI = ("dense", "outputs", "common", "unseen", "order", "reads")
"""What there is more of in programs that are sums of products (tests/fuzz/programs.py)."""
FLOORS = {
    SUMS: (0.88, 0.84, 0.9, 0.92, 1.0, 0.92, 1.0, 0.97, 0.85, 0.94, 0.9, 0.97),
    STEPS: (0.95, 0.95, 0.95, 0.97, 0.9, 0.95, 0.8, 0.9, 0.84, 0.8, 0.95, 0.97),
    PLANNER: (0.86, 0.38, 0.48, 0.88, 0.55, 0.86, 0.3, 0.77, 0.84, 0.0, 0.93, 0.97),
}
"""Of each road, the share of each of the KINDS that is refused at least, of many programs."""
ASSEMBLY_FLOORS = (0.99, 0.97, 0.97, 0.99, 0.97, 0.97, 0.97, 0.97, 0.97, 0.97)
"""The same of assemblies, of all layouts."""
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def programs(of_sums: int, of_steps: int, of_entries: int) -> Iterator[Planned]:
    return chain(*(sums(focus, of_sums) for focus in FOCI), steps(of_steps), assembled(of_entries))


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
    found = measured(programs(1, 2, 4), 2)
    assert found.total().differ > 15
    entirely = [(road, k) for road, floors in FLOORS.items() for k, f in zip(KINDS, floors, strict=True) if f == 1]
    assert all(found.shares[key].refused == found.shares[key].differ for key in entirely), found.table()


def test_the_page_says_what_is_seen() -> None:
    """The table of the architecture page has these floors."""
    columns = zip(KINDS, FLOORS[SUMS], FLOORS[STEPS], FLOORS[PLANNER], strict=True)
    rows = [f"| {k} | {a:.0%} | {b:.0%} | {c:.0%} |" for k, a, b, c in columns]
    rows_of_assemblies = [f"| {k} | {a:.0%} |" for k, a in zip(mutate_assembly.KINDS, ASSEMBLY_FLOORS, strict=True)]
    assert all("\n".join(part) in PAGE.read_text() for part in (rows, rows_of_assemblies))


def test_some_assemblies() -> None:
    """A few layouts."""
    names = ("csr", "bcsr", "dia", "jds", "runs")
    found = assemblies.measured([x for x in LAYOUTS if x.name in names and x.rank == 2], 1)
    assert found.total.differ > 30
    assert found.total.refused >= 0.95 * found.total.differ, found.table()


@pytest.mark.fuzz
def test_mutants_of_all_assemblies() -> None:
    found = assemblies.measured(LAYOUTS, 12)
    LOGGER.info("%d assemblies\n%s", found.count, found.table())
    low = [
        f"{kind}: {share}, at least {floor:.0%}"
        for kind, floor in zip(mutate_assembly.KINDS, ASSEMBLY_FLOORS, strict=True)
        if (share := found.shares[kind]).refused < round(floor * share.differ, 6)
    ]
    assert not low, "\n".join([*low, found.table()])


@pytest.mark.fuzz
def test_mutants_of_many_programs() -> None:
    found = measured(programs(45, 330, 120))
    LOGGER.info("%d programs\n%s", found.plans, found.table())
    check(found)

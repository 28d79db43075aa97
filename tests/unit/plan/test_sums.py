"""Where sums begin: as far out as threads do not meet at the places that they are added to."""

from __future__ import annotations

import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Find, Scan, is_sum

TEXT = "z[j] = A[i, j]*x[i]"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("schedule", "inside"),
    [
        # Blocks of 2 columns: c and j together say which block, c alone does not say which j.
        ("order A.c, j, A.bi, A.pb, A.r", {"A.r"}),
        ("order A.c, j, A.bi, A.pb, A.r; serial A.c", {"A.bi", "A.pb", "A.r"}),
        ("order j, A.bi, A.pb, A.r", {"A.bi", "A.pb", "A.r"}),
    ],
)
def test_a_sum_is_added_where_no_other_thread_adds(schedule: str, inside: set[str]) -> None:
    kernel = spfgen.compile(TEXT, A="bcsr(R=2, C=2)", x="dense", z="dense", schedule=schedule)
    sums = [n for p in kernel.generated.plans for n in walk(p) if is_sum(n)]
    assert sums
    for found in sums:
        assert {n.dim for n in walk(found) if isinstance(n, Scan | Find)} == inside

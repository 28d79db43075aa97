"""How often a loop adds, and to how many lines of memory."""

from __future__ import annotations

from typing import Any

import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan import share
from spfgen.plan.cost import mean_ratio
from spfgen.plan.nodes import Scan
from spfgen.plan.work import Work, work


@pytest.mark.parametrize(
    ("left", "right", "times"),
    [
        ("csr", "csr", 1),
        ("csr", "bcsr", 2),  # two neighbours
        ("bcsr", "csr", 1),  # another row of the right one for each column of a block
        ("bcsr(R=3, C=5)", "bcsr(R=5, C=4)", 20),  # the same places for each column of a block
        ("csr", "bcsr(R=1, C=12)", 1),  # more than a line has
    ],
)
def test_additions_to_a_line(left: str, right: str, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Work] = []

    def seen(*given: Any) -> Work:
        found.append(work(*given))
        return found[-1]

    monkeypatch.setattr(share, "work", seen)
    kernel = spfgen.compile("C[i,k] = A[i,j]*B[j,k]", A=left, B=right, C="dense", threads=2)
    shares = [n.share for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan) and n.share is not None]
    assert shares
    for known in shares:
        (whole,) = {w for w in found if w.nanoseconds == known.work}
        assert known.lines == whole.lines
        assert mean_ratio(whole.additions, whole.lines, {}) == pytest.approx(times)

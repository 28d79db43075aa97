"""Relations that the schedule puts on iteration spaces: new dimensions, each point once."""

from __future__ import annotations

import pytest

import spfgen
from spfgen.errors import SpecError
from spfgen.ir import walk
from spfgen.plan.nodes import Scan


def loops(schedule: str, layout: str = "csr") -> list[str]:
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A=layout, x="dense", y="dense", schedule=schedule)
    return list(dict.fromkeys(n.dim for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan)))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("tile i by 32", ["i_tile", "i", "A.pj"]),
        ("tile i by 32 as it; tile it by 4 as big", ["big", "it", "i", "A.pj"]),
        ("tile A.pj by 8", ["A.pj_tile", "i", "A.pj"]),
        ("split A.pj by 8", ["i", "A.pj_split", "A.pj"]),
        ("tile i by 8, j by 4; order j_tile, i_tile, i", ["j_tile", "i_tile", "i", "A.pj"]),
        ("split i by 8; order i, A.pj", ["i_split", "i", "A.pj"]),
        ("relation { [i, j] -> [t, j] : t = i + j }", ["t", "j"]),
        ("relation { [i, p = A.pj] -> [p, t] : t = i + p }", ["A.pj", "t"]),
        ("relation { [i] -> [half, i] : half = i/2 }", ["half", "i", "A.pj"]),
    ],
)
def test_new_loops(schedule: str, expected: list[str]) -> None:
    assert loops(schedule) == expected


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        ("[i] -> [t, i] : t = i and i >= 1", "it leaves out i = 0"),
        ("[i] -> [t, i] : 0 <= t < 2", "i = 0 has t = 0 and t = 1"),
        ("[i] -> [t, i] : t = i or t = i + 2", "it has alternatives"),
        ("[i] -> [t, i] : t = q", "`q` is neither"),
        ("[i] -> [j, i] : j = i", "`j` is defined already"),
        ("[i, i] -> [i] ", "`i` is given twice"),
        ("[i] -> [t, i] : t = f(i)", "`f.i.` is a call"),
    ],
)
def test_relations_that_are_refused(relation: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        loops(f"relation {{ {relation} }}")

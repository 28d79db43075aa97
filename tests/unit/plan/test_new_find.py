"""What a new find takes: one file that says what must be proved for it and what it costs.

C of its own can come later: until then every position is compared.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import spfgen
from spfgen.errors import SpecError
from spfgen.facts.formula import ONE
from spfgen.ir import walk
from spfgen.lang import types
from spfgen.plan.analyse.scan import with_quotients
from spfgen.plan.finds import choose
from spfgen.plan.finds.proposal import Offer, Proposal
from spfgen.plan.finds.query import KnownLoad, Query
from spfgen.plan.nodes import PLANS, Find, Key, Rejected

NAME, ALGORITHM = "interpolation", "interpolation search"


def propose(query: Query, key: KnownLoad) -> list[Offer]:
    """Where the keys rise or fall, and no two are the same."""
    order = query.order(key)
    if order.descending is None or not order.unique:
        return [Rejected(NAME, order.doubt or "keys may be the same")]
    value = with_quotients(key.value, query.before)
    found = Key(key.dim, value, order.descending, order.unique)
    find = replace(query.find, algorithm=ALGORITHM, conditions=query.remaining(key), key=found, because=order.words)
    return [Proposal(NAME, find, query.total(ONE))]


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    new = SimpleNamespace(NAME=NAME, ALGORITHMS={NAME: ALGORITHM}, propose=propose)
    monkeypatch.setattr(choose, "BY_KEY", (*choose.BY_KEY, new))
    monkeypatch.setattr(choose, "ALGORITHMS", {**choose.ALGORITHMS, NAME: ALGORITHM})
    monkeypatch.setitem(types.FINDS, NAME, "A guess from the distance of the keys.")  # type: ignore[arg-type]


def compiled(layout: str) -> spfgen.Kernel:
    return spfgen.compile(
        "s = A[i, j]*B[i, j]", A="csr", B=layout, schedule=f"order i, A.pj, B.pj; find B.pj : {NAME}", threads=1
    )


def test_it_is_taken_and_right() -> None:
    kernel = compiled("csr")
    (find,) = [n for p in kernel.generated.plans for n in walk(p, PLANS) if isinstance(n, Find)]
    assert find.algorithm == ALGORITHM
    assert f"by {ALGORITHM}" in kernel.explain()
    rng = np.random.default_rng(1)
    a, b = (np.where(rng.random((9, 7)) < 0.5, rng.integers(1, 9, (9, 7)), 0).astype(float) for _ in "ab")
    assert kernel(A=spfgen.pack(a, "csr"), B=spfgen.pack(b, "csr")) == (a * b).sum()


def test_without_the_property_it_is_refused() -> None:
    with pytest.raises(SpecError, match=r"proved correct for B\.pj"):
        compiled("csr_unsorted")

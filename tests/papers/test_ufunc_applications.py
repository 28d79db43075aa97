"""Henry et al. 2021, Compilation of Sparse Array Programming Models: the evaluation (section 8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.papers.support import floats

Check = Callable[..., None]

# --- 8.4: applications --------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["sv", "coo"])
def test_a_sum_of_eight(check: Check, layout: str) -> None:
    """Eight sparse vectors: no table of 256 regions."""
    names = "abcdefgh"
    text = " + ".join(f"{n}[i]" for n in names)
    layouts = "; ".join(f"{n}: {layout}" for n in names)
    data = {n: floats("n", density=0.2) for n in names}
    check(f"r[i] = {text}", lambda **given: sum(given.values()), data, [f"{layouts}; r: dense"])

"""Arrays found by the prover break nothing; facts that contradict are told."""

from __future__ import annotations

import pytest

import spfgen
from spfgen.catalogue import layout_named
from spfgen.lang.spec import builtin_names
from spfgen.layout.satisfy import contradicting, excluded, fitting_sizes, satisfying, small_sizes, with_entries
from spfgen.layout.validate import violation

SPEC = """
layout vector(n) {{
    size nnz
    relation {{ [p] -> [i] : 0 <= p < nnz and i = idx(p) }}
    index idx[nnz] {{
        range 0 <= idx(p) < n
        {properties}
    }}
    value val[nnz] at [p]
}}
"""


def layout(*properties: str):
    text = SPEC.format(properties="\n".join(f"property {p}" for p in properties))
    return spfgen.parse(text).layouts["vector"].layout()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [None, 1])
def test_arrays_satisfy_what_is_declared(seed) -> None:
    """Of every layout, those with nested calls and quantifiers too."""
    for name in builtin_names():
        found = layout_named(name)
        sizes = next(s for s in small_sizes(found) if satisfying(found, s, seed) is not None)
        arrays = satisfying(found, sizes, seed)
        assert arrays is not None
        assert violation(found, sizes, arrays) is None
        assert all(a.size for a in arrays.values())


def test_arrays_that_store_something() -> None:
    """Rows may be empty in arrays that satisfy all; what is drawn and tried stores something."""
    own = layout_named("csr")
    for seed in range(3):
        arrays = with_entries(own, {"nrow": 3, "ncol": 3, "nnz": 3}, seed)
        assert arrays is not None
        assert arrays["rowptr"][-1] == 3


def test_arrays_differ_by_seed() -> None:
    own = layout("injective")
    found = {tuple(satisfying(own, {"n": 4, "nnz": 3}, seed)["idx"].tolist()) for seed in range(6)}
    assert len(found) > 2


@pytest.mark.parametrize(
    ("properties", "wanted"),
    [
        (("strictly increasing",), ()),
        (("strictly increasing", "strictly decreasing", "injective"), ("strictly increasing", "strictly decreasing")),
        (("idx(0) = 5", "injective", "idx(0) = 6"), ("idx(0) = 5", "idx(0) = 6")),
        (("forall p : idx(p) > n",), ("forall p : idx(p) > n",)),
    ],
)
def test_facts_that_contradict(properties, wanted) -> None:
    found = tuple(p.text for p in contradicting(layout(*properties), 2))
    assert set(wanted) <= set(found)
    assert "injective" not in found
    assert bool(found) == bool(wanted)


def test_no_arrays_for_sizes_that_do_not_fit() -> None:
    assert satisfying(layout("injective"), {"n": 2, "nnz": 3}) is None


CHUNKS = """
layout chunks(nrow) {
    size nch, nval
    relation { [c, k, r] -> [i] : 0 <= c < nch and 0 <= k < width(c) and 0 <= r < 8 and i = col(off(c) + 8*k + r) }
    index width[nch] { range 1 <= width(c) }
    index off[nch + 1] {
        range 0 <= off(c) <= nval
        property off(0) = 0
        property forall c : off(c + 1) = off(c) + 8*width(c)
        property off(nch) = nval
    }
    index col[nval] { range 0 <= col(p) < nrow }
    value val[nval] at [off(c) + 8*k + r]
}
"""


def test_sizes_that_facts_decide() -> None:
    """Of an array whose length is a multiple of 8, of an extent that is large; the extents may be known."""
    own = spfgen.parse(CHUNKS).layouts["chunks"].layout()
    assert all(satisfying(own, sizes) is None for sizes in small_sizes(own))
    assert contradicting(own) == ()
    for extents in (None, {"nrow": 5}):
        *_, sizes = fitting_sizes(own, extents)
        arrays = satisfying(own, sizes)
        assert arrays is not None
        assert sizes["nval"] == 8 * arrays["width"].sum() > 0
        assert extents is None or sizes["nrow"] == 5
    large = layout("idx(0) = 1000")
    assert contradicting(large) == ()
    assert not excluded(large, large.facts)


def test_what_is_proved_to_exclude() -> None:
    for properties in (("forall p : idx(p) > n",), ("idx(0) = 5", "idx(0) = 6"), ("idx(nnz - 1) < 0",)):
        own = layout(*properties)
        assert excluded(own, own.facts)
    assert not excluded(layout("idx(0) = 5"), layout("idx(0) = 5").facts)

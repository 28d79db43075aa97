"""Declarations become layouts: families expanded, short forms written out, relations bounded."""

from __future__ import annotations

import pytest

import spfgen
from spfgen.errors import SpecError, SpecErrors
from spfgen.facts.formula import show
from spfgen.lang.spec import builtin_names
from spfgen.layout.nodes import Layout


def layout(text: str, **constants: int) -> Layout:
    spec = spfgen.parse(text)
    name = next(iter(spec.layouts))
    return spec.layouts[name](**constants).layout()


def array(property_text: str, extents: str = "n") -> Layout:
    """A layout with one index array that has this property."""
    return layout(
        f"""layout a(n) {{
            relation {{ [p] -> [i] : 0 <= p < n and i = p }}
            index ptr[n + 1] {{ range 0 <= ptr(p) <= n }}
            index idx[{extents}] {{ property {property_text} }}
            value val[n] at [p]
        }}"""
    )


@pytest.mark.parametrize("name", builtin_names())
@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_the_layouts_that_come_with_spfgen(name: str, rank: int) -> None:
    found = spfgen.parse("").layouts[name].layout(rank)
    assert len(found.coordinates) == found.rank
    assert found.values


def test_a_family_is_expanded() -> None:
    text = """layout a(n_{1..rank}; rank) {
        size nnz
        relation { [p] -> [i_{1..rank}] : 0 <= p < nnz and (each k in 1..rank : i_{k} = idx_{k}(p)) }
        each k in 1..rank { index idx_{k}[nnz] { range 0 <= idx_{k}(p) < n_{k} } }
        value val[n_{rank downto 1}] at [i]
    }"""
    with pytest.raises(SpecError, match="expected 2 subscripts"):
        layout(text, rank=2)
    found = layout(text.replace("val[n_{rank downto 1}] at [i]", "val[nnz] at [p]"), rank=3)
    assert found.parameters == ("n_1", "n_2", "n_3")
    assert [a.name for a in found.indexes] == ["idx_1", "idx_2", "idx_3"]
    assert show(found.relation) == "0 <= p < nnz and i_1 = idx_1(p) and i_2 = idx_2(p) and i_3 = idx_3(p)"


@pytest.mark.parametrize(
    ("short", "written_out"),
    [
        ("increasing", "forall p, q : p < q => idx(p) <= idx(q)"),
        ("strictly decreasing", "forall p, q : p < q => idx(q) < idx(p)"),
        ("injective", "forall p, q : idx(p) = idx(q) => p = q"),
        (
            "strictly increasing within ptr",
            "forall s, p, q : ptr(s) <= p < q < ptr(s + 1) => idx(p) < idx(q)",
        ),
    ],
)
def test_short_forms(short: str, written_out: str) -> None:
    (found,) = array(short).index("idx").properties
    assert show(found.formula) == written_out
    assert found.text == short


def test_alternatives_share_the_names_of_the_first() -> None:
    found = layout(
        """layout a(n) {
            relation { [p] -> [i] : 0 <= p < n and i = p; [q] -> [p] : 0 <= q < n and p = 0 }
            value val[n] at [p]
        }"""
    )
    assert (found.positions, found.coordinates) == (("p",), ("i",))
    assert show(found.relation).endswith("0 <= p < n and i = 0")


def test_a_coordinate_may_be_an_expression() -> None:
    found = layout("layout a(n) { relation { [p] -> [2p + 1] : 0 <= p < n } value val[n] at [p] }")
    assert show(found.relation) == "c1 = 2*p + 1 and 0 <= p < n"


def test_bindings_for_one_format_are_put_together() -> None:
    found = layout(
        """layout a(n) {
            relation { [p] -> [i] : 0 <= p < n and i = p }
            value val[n] at [p]
            value more[n] at [p]
            binds lib.form : val = data
            binds lib.form : more = parts[1 + 1]
            fill -2.5
        }"""
    )
    (binding,) = found.bindings
    assert (binding.library, binding.format) == ("lib", "form")
    assert binding.arrays == (("val", "data", None), ("more", "parts", 2))
    assert found.fill == -2.5


# --- positions must be bounded ------------------------------------------------------------------------

RELATIONS_WITHOUT_END = [
    "[p] -> [i] : 0 <= p and i = idx(p)",
    "[p] -> [i] : p < n and i = idx(p)",
    "[p] -> [i] : p != 3 and i = idx(p)",
    "[p] -> [i] : not (0 <= p < n) and i = idx(p)",
    "[p] -> [i] : i = idx(p)",
    "[p] -> [i] : 0 <= p < 2*p and i = idx(p)",
    "[p] -> [i] : ptr(p) <= p and i = idx(p)",
    "[p] -> [i] : 0 <= idx(p) < n and i = idx(p)",
    "[p] -> [i] : 0 <= p mod 2 <= 1 and i = idx(p)",
    "[p] -> [i] : (exists s : p = 2*s) and i = idx(p)",
    "[p] -> [i] : 0 <= p and (p < n or i = 3) and i = idx(p)",
]


@pytest.mark.parametrize("relation", RELATIONS_WITHOUT_END)
def test_a_length_of_an_array_is_no_bound(relation: str) -> None:
    text = f"""layout a(n) {{
        relation {{ {relation} }}
        index idx[n] {{ range 0 <= idx(p) < n }}
        index ptr[n] {{ range 0 <= ptr(p) < n }}
        value val[n] at [p]
    }}"""
    with pytest.raises(SpecError, match="expected bounds for the position `p`") as caught:
        layout(text)
    assert caught.value.span is not None
    assert caught.value.span.line == 2


@pytest.mark.parametrize(
    "relation",
    [
        "[p] -> [i] : i = p",
        "[p] -> [i] : i = 3p + 1",
        "[p] -> [i] : 0 <= p < n/2 and i = idx(p)",
        "[p] -> [i] : (exists s : 0 <= s < n and p = 2*s) and i = idx(p)",
        "[p] -> [i] : 0 <= p and (p < n or p = 7) and i = idx(p)",
        "[p] -> [i] : 0 <= p <= max(n, 3) and p < min(n, 9) and i = idx(p)",
    ],
)
def test_bounds_may_be_derived(relation: str) -> None:
    found = layout(
        f"""layout a(n) {{
            relation {{ {relation} }}
            index idx[n] {{ range 0 <= idx(p) < n }}
            value val[n] at [p]
        }}"""
    )
    assert found.positions == ("p",)


def test_quantified_names_do_not_meet_those_of_a_kernel() -> None:
    """The `s` of the relation is not the index `s` of the kernel."""
    text = """
    layout even(n) {
        relation { [p] -> [i] : 0 <= p < n and i = p and (exists s : p = 2*s) }
        value val[n] at [p]
    }
    layout plain(n) { relation { [p] -> [i] : 0 <= p < n and i = p } value val[n] at [p] }
    kernel copy { tensor A : even; tensor y : plain; y[s] += A[s] }
    """
    generated = spfgen.parse(text).kernels["copy"].compile().generated
    (instance,) = generated.program.groups[0].instances
    assert instance.domain.sample() is not None


def test_all_mistakes_of_a_layout_are_reported_at_once() -> None:
    text = """layout a(n) {
        size nnz
        relation { [p] -> [i] : 0 <= p < nz and i = p*n }
        index idx[m] { range 0 <= idx(p, q) < n  property forall p : ix(p) = r }
        value val[nnz] at [p, p]
    }"""
    with pytest.raises(SpecErrors) as caught:
        layout(text)
    assert len(caught.value.errors) == 7
    assert all(e.span is not None and e.notes for e in caught.value.errors)

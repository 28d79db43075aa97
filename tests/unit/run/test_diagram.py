"""Arrays and arrows: the arrows are the relation, whatever the layout; pictures are well formed."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import spfgen
from spfgen.catalogue import layout_named
from spfgen.errors import Unsupported
from spfgen.lang.spec import builtin_names
from spfgen.run.drawings.diagram import NOTHING, WIDTH, cells_of, diagram
from spfgen.run.drawings.drawing import drawn
from spfgen.run.drawings.example import example, packed_example
from spfgen.run.drawings.svg import svg

SEEN = ["sv", "rle", "csr", "csc", "bcsr", "coo_unsorted", "csf3", "dia", "ell", "jds", "vbl", "sym_csr", "dense"]


def arrows_of(picture):
    """(text of the cell where the arrow starts, text of the cell where it ends) for each entry."""
    by_box = {(c.x, c.y): c for c in picture.cells}
    found = []
    for arrow in picture.arrows:
        if arrow.colour is None:
            continue
        start, end = by_box[arrow.source], by_box[arrow.target]
        assert start.colour is not None
        found.append((start.text, end.text))
    return found


@pytest.mark.parametrize("name", SEEN)
def test_arrows_are_the_points_of_the_relation(name) -> None:
    tensor = example(layout_named(name))
    picture = diagram(tensor)
    arrows = arrows_of(picture)
    assert len(arrows) == len(tensor.to_coo().values) > 0
    assert all(a == b for a, b in arrows)
    assert len(picture.cells) == cells_of(tensor)
    assert len({(c.x, c.y) for c in picture.cells}) == len(picture.cells)
    assert all(0 <= c.x < picture.width and 0 <= c.y < picture.height for c in picture.cells)
    axes = [label for label in picture.labels if label.kind == "axis" and label.anchor == "start"]
    assert all(label.x + 7.3 * len(label.text) <= picture.width for label in axes)  # a letter of 12 px is 7.2 wide


def test_every_layout_has_an_example() -> None:
    for name in builtin_names():
        tensor = example(layout_named(name))
        tensor.validate()
        assert tensor.to_numpy().any(), name


def test_a_layout_that_holds_nothing_of_the_examples() -> None:
    """Elements of a mesh, not assembled: the prover finds arrays."""
    text = """
    layout ebe(n, m) {
        size ne
        relation { [e, a, b] -> [i, j] : 0 <= e < ne and 0 <= a, b < 4 and i = node(e, a) and j = node(e, b) }
        index node[ne, 4] { range 0 <= node(e, a) < n }
        value ke[ne, 4, 4] at [e, a, b]
    }"""
    assert example(spfgen.parse(text).layouts["ebe"].layout()).to_numpy().any()


def test_pointers_point_to_where_rows_begin() -> None:
    tensor = spfgen.pack(np.array([[1.0, 2.0], [0.0, 0.0], [0.0, 3.0]]), "csr")
    picture = diagram(tensor)
    left = min(c.x for c in picture.cells)
    grey = [a for a in picture.arrows if a.colour is None]
    assert [(a.end[0] - left) / WIDTH for a in grey] == tensor.arrays["rowptr"].tolist()


def test_elements_without_entries_are_grey() -> None:
    tensor = spfgen.pack(np.array([[1.0, 2.0], [0.0, 3.0]]), "ell")
    picture = diagram(tensor)
    assert [c.text for c in picture.cells if c.colour is None and c.stored] == ["-1", NOTHING]


@pytest.mark.parametrize("shape", [(0,), (1,), (0, 0), (0, 3), (1, 1), (2, 0, 2), (2, 2, 2), (2, 1, 2, 2)])
@pytest.mark.parametrize("name", ["dense", "coo", "csf"])
def test_degenerate_tensors(shape, name) -> None:
    tensor = spfgen.pack(np.ones(shape), name, shape=shape)
    found = ElementTree.fromstring(svg(diagram(tensor, "a < b & c")))
    assert found.tag.endswith("svg")
    assert float(found.get("width")) > 0
    boxes = [e for e in found.iter() if e.tag.endswith("rect")]
    assert len(boxes) == cells_of(tensor) + 1
    assert found[0].text == "a < b & c"


def test_a_number() -> None:
    assert [c.text for c in diagram(spfgen.pack(np.array(7.0), "dense", shape=())).cells] == ["7", "7"]


def test_a_tensor_in_a_notebook() -> None:
    small = spfgen.pack(np.eye(3), "csr")
    assert small._repr_svg_() == svg(diagram(small))
    large = spfgen.pack(np.eye(100), "csr")
    assert large._repr_svg_().count("<rect") == 48 - 14  # several entries in a cell
    assert spfgen.pack(np.ones((9, 9, 9)), "csf")._repr_svg_() is None


def test_a_layout_in_a_notebook() -> None:
    spec = spfgen.parse("layout two = csf(rank=2)")
    assert spec.layouts["two"]._repr_svg_().startswith("<svg ")
    nothing = (
        "layout none(n) { size m relation { [p] -> [i] : 0 <= p < m and i = f(p) } index f[m] { range n < f(p) < n } "
    )
    assert spfgen.parse(nothing + "value v[m] at [p] }").layouts["none"]._repr_svg_() is None


def test_values_of_any_type_have_short_texts() -> None:
    for value in (True, 1.23456789, 1 + 2j, -7, float("nan"), 1e300):
        tensor = spfgen.pack(np.array([value]), "sv")
        texts = [c.text for c in diagram(tensor).cells]
        assert all(len(t) <= 12 for t in texts)


def test_numbers_are_not_covered_by_arrows() -> None:
    """Within rows of cells arrows run beside the middle third, where numbers are."""
    for name in SEEN:
        picture = diagram(example(layout_named(name)))
        for arrow in picture.arrows:
            if arrow.colour is None:
                continue
            for (x, y), corner, (low, high) in (
                (arrow.start, arrow.source, (arrow.start[1], arrow.leaves)),
                (arrow.end, arrow.target, (arrow.arrives, arrow.end[1])),
            ):
                if high > low:
                    assert not WIDTH / 4 < x - corner[0] < 3 * WIDTH / 4, name
                assert y >= corner[1]


def test_examples_hold_more_than_a_diagonal() -> None:
    """Of entries, and of blocks, wherever the layout can hold others."""
    for name in builtin_names():
        tensor = example(layout_named(name, to_draw=True))
        assert cells_of(tensor) <= 900, name
        if len(tensor.shape) == 2 and not layout_named(name).name.startswith("diagonal"):
            rows, columns = np.nonzero(tensor.to_numpy())
            assert (rows != columns).any(), name
    unpackable = spfgen.parse(
        "layout jag(n, m) { size nnz relation { [p, q] -> [i, j] : 0 <= p < n and 0 <= q < cnt(p) and i = p "
        "and j = col(start(p) + q) } index cnt[n] { range 0 <= cnt(p) <= m } index start[n] { range 0 <= start(p) "
        "<= nnz } index col[nnz] { range 0 <= col(p) < m } value a[nnz] at [start(p) + q] }"
    ).layouts["jag"]
    rows, columns = np.nonzero(example(unpackable.layout(2)).to_numpy())
    assert (rows != columns).any()


def test_positions_keep_their_names() -> None:
    texts = [label.text for label in diagram(example(layout_named("bcsr"))).labels if label.kind == "name"]
    assert texts == ["browptr(bi)", "bcolidx(pb)", "val[pb, r, c]"]


def test_pictures_are_small() -> None:
    band = spfgen.pack(np.tri(24, k=1) - np.tri(24, k=-2), "dia")
    assert len(svg(diagram(band))) < 100 * cells_of(band)


def test_an_example_holds_an_entry_where_extents_are_odd() -> None:
    """LAPACK's rectangular full packed format."""
    layout = spfgen.parse(
        "layout rfp(n, m) { size h relation { [r, c] -> [i, j] :\n"
        "  m = n and n = 2*h - 1 and 0 <= c < h and c <= r < n and i = r and j = c\n"
        "  or m = n and n = 2*h - 1 and 0 <= r < c < h and i = c + h - 1 and j = r + h }\n"
        "value ar[h, n] at [c, r] }"
    ).layouts["rfp"]
    found = example(layout.layout())
    assert found.shape == (3, 3)
    assert np.count_nonzero(found.to_numpy())


SUMS = """layout sums(n, m) {
    size k, w
    relation { [q, t] -> [i, j] : 0 <= q < k and 0 <= t < w and i = a(q) + b(t) and j = c(t) - d(q)
                                  and 0 <= i < n and 0 <= j < m }
    index a[k] { range 0 <= a(p) < n }
    index b[w] { range 0 <= b(p) < n }
    index c[w] { range 0 <= c(p) < m }
    index d[k] { range 0 <= d(p) < m }
    value val[k, w] at [q, t]
}"""


def test_a_layout_that_cannot_be_packed_is_drawn_from_example_arrays_or_given_ones(tmp_path) -> None:
    layout = spfgen.parse(SUMS).layouts["sums"].layout()
    with pytest.raises(Unsupported, match="cannot be packed"):
        packed_example(layout)
    assert "<svg" in drawn(lambda rank, small: layout, None, None)
    path = str(tmp_path / "given.npz")
    np.savez(path, a=[0, 1], b=[0, 2], c=[2, 3], d=[0, 1], val=[[1.5, 2.5], [3.5, 4.5]])
    picture = drawn(lambda rank, small: layout, path, (4, 4))
    assert all(f">{v}<" in picture for v in ("1.5", "2.5", "3.5", "4.5"))

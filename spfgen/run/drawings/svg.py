"""A diagram as SVG: one element that stands alone, without scripts, fonts or references to anything outside."""

from __future__ import annotations

from xml.etree import ElementTree

from spfgen.run.drawings.diagram import HEIGHT, WIDTH, Arrow, Cell, Diagram, Label

PALETTE = (
    ("#cfe3f7", "#2f6fb0"),
    ("#fde0c5", "#c7690e"),
    ("#d3efd1", "#2f8a3c"),
    ("#f7d3dc", "#bd3a5f"),
    ("#e3d9f3", "#6f4bb0"),
    ("#d0efee", "#1d8583"),
    ("#f5ecbb", "#96800a"),
    ("#e8dcd0", "#7d5a3a"),
)
"""(of a cell, of an arrow) for each colour; they come again after the last."""
EMPTY, LINE, GREY, INK = "#ffffff", "#c4c8cf", "#8a9099", "#1f2328"
UNUSED = "#eef0f3"
FONTS = {
    "name": ("13", INK, "ui-monospace, Menlo, Consolas, monospace"),
    "index": ("9", GREY, "ui-monospace, Menlo, Consolas, monospace"),
    "axis": ("12", GREY, "ui-monospace, Menlo, Consolas, monospace"),
    "extents": ("11", GREY, "ui-monospace, Menlo, Consolas, monospace"),
}
CELL_FONT = "ui-monospace, Menlo, Consolas, monospace"
LONG = 4
"""Texts of more letters are written smaller."""


def svg(picture: Diagram) -> str:
    """The text of an <svg> element. What many elements share is said once, of a group."""
    root = ElementTree.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        width=_n(picture.width),
        height=_n(picture.height),
        viewBox=f"0 0 {_n(picture.width)} {_n(picture.height)}",
        role="img",
    )
    if picture.title:
        ElementTree.SubElement(root, "title").text = picture.title
    _add(root, "rect", width="100%", height="100%", rx=6, fill=EMPTY)
    groups = _Groups(root)
    for cell in picture.cells:
        _add(groups.of(fill=_fill(cell), stroke=LINE), "rect", x=cell.x, y=cell.y, width=WIDTH, height=HEIGHT)
    groups = _Groups(root)
    for arrow in picture.arrows:
        _arrow(groups, arrow)
    groups = _Groups(root)
    for cell in picture.cells:
        _text(groups, cell)
    for label in picture.labels:
        _label(groups, label)
    return ElementTree.tostring(root, encoding="unicode")


class _Groups:
    """A <g> for each combination of attributes, in the order in which they come."""

    def __init__(self, root: ElementTree.Element) -> None:
        self.root = root
        self.known: dict[tuple[tuple[str, object], ...], ElementTree.Element] = {}

    def of(self, **attributes: object) -> ElementTree.Element:
        key = tuple(attributes.items())
        if key not in self.known:
            self.known[key] = _add(self.root, "g", **attributes)
        return self.known[key]


def _fill(cell: Cell) -> str:
    if not cell.stored:
        return EMPTY
    return UNUSED if cell.colour is None else PALETTE[cell.colour % len(PALETTE)][0]


def _text(groups: _Groups, cell: Cell) -> None:
    """The value, in front of arrows that pass."""
    if not cell.text:
        return
    size = 13 if len(cell.text) < LONG else 13 * (LONG - 1) / len(cell.text)
    fill = GREY if cell.colour is None else INK
    group = groups.of(font_family=CELL_FONT, font_size=size, fill=fill, text_anchor="middle")
    _add(group, "text", x=cell.x + WIDTH / 2, y=cell.y + HEIGHT / 2 + 4.5).text = cell.text


def _label(groups: _Groups, label: Label) -> None:
    """The text above a white outline of it, where arrows end beside it. Not all renderers know `paint-order`."""
    size, fill, family = FONTS[label.kind]
    font = {"font_family": family, "font_size": size, "text_anchor": label.anchor}
    for more in ({"fill": EMPTY, "stroke": EMPTY, "stroke_width": 2.5, "aria_hidden": "true"}, {"fill": fill}):
        _add(groups.of(**font, **more), "text", x=label.x, y=label.y).text = label.text


def _arrow(groups: _Groups, arrow: Arrow) -> None:
    """Straight down beside the numbers, a curve between the arrays, and straight down again."""
    (x, y), (u, v) = arrow.start, arrow.end
    low, high = arrow.leaves, arrow.arrives
    bend = (high - low) / 2 if arrow.colour is None else max(18.0, (high - low) * 0.5)
    path = f"M{_n(x)},{_n(y)}" + (f"V{_n(low)}" if low > y else "")
    path += f"C{_n(x)},{_n(low + bend)} {_n(u)},{_n(high - bend)} {_n(u)},{_n(high)}" + (
        f"V{_n(v)}" if v > high else ""
    )
    if arrow.colour is None:
        _add(groups.of(fill="none", stroke=GREY, stroke_width=0.9, stroke_dasharray="2.5 2"), "path", d=path)
        _add(groups.of(fill=GREY), "circle", cx=u, cy=v, r=1.8)
        return
    colour = PALETTE[arrow.colour % len(PALETTE)][1]
    _add(groups.of(fill="none", stroke=colour, stroke_width=1.2, stroke_opacity=0.75), "path", d=path)
    _add(groups.of(fill=colour), "path", d=f"M{_n(u)},{_n(v)}l-3,-6h6z")


def _add(root: ElementTree.Element, tag: str, **attributes: object) -> ElementTree.Element:
    texts = {k.replace("_", "-"): _n(v) if isinstance(v, int | float) else str(v) for k, v in attributes.items()}
    return ElementTree.SubElement(root, tag, texts)


def _n(value: float) -> str:
    """A number of pixels without needless digits."""
    return f"{value:.1f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))

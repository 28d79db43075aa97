"""A diagram as SVG: one element that stands alone, without scripts, fonts or references to anything outside."""

from __future__ import annotations

from xml.etree import ElementTree

from spfgen.run.diagram import HEIGHT, WIDTH, Arrow, Cell, Diagram, Label

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
    """The text of an <svg> element."""
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
    for cell in picture.cells:
        _box(root, cell)
    for arrow in picture.arrows:
        _arrow(root, arrow)
    for cell in picture.cells:
        _text(root, cell)
    for label in picture.labels:
        _label(root, label)
    return ElementTree.tostring(root, encoding="unicode")


def _box(root: ElementTree.Element, cell: Cell) -> None:
    fill = UNUSED if cell.colour is None else PALETTE[cell.colour % len(PALETTE)][0]
    if not cell.stored:
        fill = EMPTY
    _add(root, "rect", x=cell.x, y=cell.y, width=WIDTH, height=HEIGHT, fill=fill, stroke=LINE)


def _text(root: ElementTree.Element, cell: Cell) -> None:
    """The value, in front of arrows that pass."""
    if not cell.text:
        return
    text = _add(root, "text", x=cell.x + WIDTH / 2, y=cell.y + HEIGHT / 2 + 4.5)
    text.text = cell.text
    size = 13 if len(cell.text) < LONG else 13 * (LONG - 1) / len(cell.text)
    fill = GREY if cell.colour is None else INK
    text.attrib |= {"font-family": CELL_FONT, "font-size": _n(size), "fill": fill, "text-anchor": "middle"}


def _label(root: ElementTree.Element, label: Label) -> None:
    size, fill, family = FONTS[label.kind]
    text = _add(root, "text", x=label.x, y=label.y)
    text.text = label.text
    text.attrib |= {"font-family": family, "font-size": size, "fill": fill, "text-anchor": label.anchor}


def _arrow(root: ElementTree.Element, arrow: Arrow) -> None:
    (x, y), (u, v) = arrow.start, arrow.end
    if arrow.colour is None:
        middle = (v - y) / 2
        path = f"M{_n(x)},{_n(y)} C{_n(x)},{_n(y + middle)} {_n(u)},{_n(v - middle)} {_n(u)},{_n(v)}"
        _add(root, "path", d=path, fill="none", stroke=GREY, stroke_width=0.9, stroke_dasharray="2.5 2")
        _add(root, "circle", cx=u, cy=v, r=1.8, fill=GREY)
        return
    colour = PALETTE[arrow.colour % len(PALETTE)][1]
    bend = max(18.0, (v - y) * 0.45)
    tip = v - 6
    path = f"M{_n(x)},{_n(y)} C{_n(x)},{_n(y + bend)} {_n(u)},{_n(tip - bend)} {_n(u)},{_n(tip)}"
    _add(root, "path", d=path, fill="none", stroke=colour, stroke_width=1.2, stroke_opacity=0.75)
    head = f"M{_n(u)},{_n(v)} l-3,-6.5 l6,0 z"
    _add(root, "path", d=head, fill=colour)


def _add(root: ElementTree.Element, tag: str, **attributes: object) -> ElementTree.Element:
    texts = {k.replace("_", "-"): _n(v) if isinstance(v, int | float) else str(v) for k, v in attributes.items()}
    return ElementTree.SubElement(root, tag, texts)


def _n(value: float) -> str:
    """A number of pixels without needless digits."""
    return f"{value:.1f}".rstrip("0").rstrip(".")

"""The documentation with Sphinx: `sphinx-build docs site`. `made/pages.py` runs the blocks of each page."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import spfgen
from docs.made import pages

DOCS = Path(__file__).resolve().parent

project = "spfgen"
author = "the spfgen developers"
copyright = author  # noqa: A001 - Sphinx's name
version = release = spfgen.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["made", PICTURES := "_pictures", "readme.svg"]

html_theme = "pydata_sphinx_theme"
html_title = "spfgen"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
html_sidebars = {page: [] for page in ("index", "install", "tutorial")}

myst_heading_anchors = 3
copybutton_prompt_text = "$ "
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("Array", "ArrayLike", "DTypeLike", "NDArray")}
python_maximum_signature_line_length = 88


def setup(app: Any) -> None:
    from spfgen.highlight import SpfLexer

    app.add_lexer("spf", SpfLexer)
    app.connect("source-read", _page)
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("autodoc-process-signature", _signature)
    app.connect("object-description-transform", _public_name)


def _page(app: Any, name: str, source: list[str]) -> None:
    """The page as it was made; its pictures are written where Sphinx finds them."""
    text, pictures = pages.made(DOCS / f"{name}.md")
    for path, content in pictures.items():
        target = DOCS / PICTURES / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
        text = text.replace(f"]({path})", f"]({PICTURES}/{name}/{path})")
    source[0] = re.sub(r'^```(\w+) title="([^"]+)"$', r"```{code-block} \1\n:caption: \2\n", text, flags=re.M)


def _docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings have code between single quotes and else no markup: so it is said in Sphinx's words."""
    for k, line in enumerate(lines):
        parts = re.split(r"`([^`]+)`", line)
        for n, part in enumerate(parts):
            parts[n] = f"``{part}``" if n % 2 else re.sub(r"([\\*|_])", r"\\\1", part)
        lines[k] = "".join(parts)


def _signature(app: Any, what: str, name: str, thing: Any, options: Any, arguments: str, result: str) -> Any:
    """No class of these is called by users: functions make its objects."""
    return ("", None) if arguments and what in ("class", "exception") else None


def _public_name(app: Any, domain: str, kind: str, content: Any) -> None:
    """Modules are not public, but `spfgen` and `spfgen.errors`."""
    from sphinx.addnodes import desc_addname

    for prefix in list(content.parent.findall(desc_addname)):
        if prefix.astext() not in ("spfgen.", "spfgen.errors."):
            prefix.parent.remove(prefix)

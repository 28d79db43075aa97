"""Writes anew what is generated in the pages: `python -m docs.made`."""

from docs.made.pages import ROOT, write

for page in sorted((ROOT / "docs").rglob("*.md")):
    write(page)

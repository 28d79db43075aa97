"""The hooks of mkdocs: every page goes through `pages.made`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from docs.made import generators, pages

assert generators.ALL  # imported now: mkdocs forgets the path after it has loaded this file

_PICTURES: dict[str, str] = {}


def on_files(files: Any, *, config: Any) -> Any:
    """Pages are made before mkdocs looks for what they link to."""
    from mkdocs.structure.files import File

    for file in files.documentation_pages():
        text, pictures = pages.made(Path(file.abs_src_path))
        _PICTURES[file.src_uri] = text
        for name, content in pictures.items():
            files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """The page as it was made."""
    return _PICTURES[page.file.src_uri]

"""Every page does what it says: its blocks run, its generators work; with Sphinx, all builds without a warning."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.made import generators, pages

DOCS = pages.ROOT / "docs"
PAGES = sorted(p.name for p in DOCS.glob("*.md"))
CHAPTERS = ("csr", "csf")
"""A few layouts stand for all, which are drawn when the whole is built."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PAGES)
def test_blocks_of_pages(name, monkeypatch) -> None:
    def some() -> generators.Made:
        found = {n: generators.chapter(n) for n in CHAPTERS}
        return "\n".join(t for t, _ in found.values()), {f"pictures/{n}.svg": p for n, (_, p) in found.items()}

    monkeypatch.setitem(generators.ALL, "gallery", some)
    text, pictures = pages.made(DOCS / name)
    assert text.startswith("# ")
    assert "<!-- made" not in text
    assert all("<svg" in content for path, content in pictures.items() if path.endswith(".svg"))


def test_a_page_that_does_not_do_what_it_says(tmp_path: Path) -> None:
    for block, words in {
        "```python\nassert 1 == 2\n```": "AssertionError",
        "```console\n$ spfgen layouts nope\n```": "ended with code 3",
        "```console\nspfgen layouts\n```": "expected a command",
        "```spf\nkernel k { y[i] = A[i, j] }\n```": "failed",
        "```console\n$ false # a comment\n```": "ended with code 1",
    }.items():
        page = tmp_path / "page.md"
        page.write_text(f"# Page\n\n{block}\n")
        with pytest.raises(pages.PageError, match=words):
            pages.made(page)


def test_blocks_of_a_page_share_names_and_folder(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '# P\n\n```spf title="a.spf"\nkernel k { tensor x : dense  s = x[i] }\n```\n\n```python\nn = 1\n```\n\n'
        "```python\nprint(n + 1)\n```\n\n"
        "```console lines=1\n$ spfgen check a.spf\n$ spfgen layouts x   # exit code 3\n```\n"
    )
    text, _ = pages.made(page)
    assert "```text\n2\n```" in text
    assert "kernel k\n... (2 more lines)" in text
    assert "(exit code 3)" in text


def test_the_page_of_python_has_all_public_names() -> None:
    import spfgen

    shown = set(re.findall(r"auto\w+:: spfgen\.(?:errors\.)?(\w+)$", (DOCS / "api.md").read_text(), re.M))
    assert set(spfgen.__all__) <= shown


@pytest.mark.skipif(importlib.util.find_spec("myst_parser") is None, reason="needs pip install '.[docs]'")
def test_the_whole_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", "docs", str(tmp_path / "site")],
        cwd=pages.ROOT,
        env={**os.environ, "PYTHONPATH": str(pages.ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "layouts.html").read_text().count("<img") >= 20

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
PAGES = sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", PAGES)
def test_blocks_of_pages(name) -> None:
    text, pictures = pages.made(DOCS / name)
    assert text.startswith("# ")
    assert all("<svg" in content for path, content in pictures.items() if path.endswith(".svg"))
    for path, content in pictures.items():
        if f"(pictures/{path})" in text:
            assert untitled(content) == untitled((DOCS / "pictures" / path).read_text()), f"write {path} anew"


def untitled(picture: str) -> str:
    """A picture is called after its layout in the gallery, after its data where it is drawn."""
    return re.sub(r"<title>.*?</title>", "", picture, count=1).strip()


@pytest.mark.parametrize("name", [n for n in generators.ALL if n != "gallery"])
def test_what_is_generated_is_current(name) -> None:
    found = {m["name"]: m["text"] for page in PAGES for m in pages.MADE.finditer((DOCS / page).read_text())}
    assert found[name] == pages.generated(name)[0], "run `python -m docs.made`"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", generators.drawn())
def test_chapters_of_layouts_are_current(name) -> None:
    text, picture = generators.chapter(name)
    assert text.strip() in (DOCS / "layouts.md").read_text(), "run `python -m docs.made`"
    assert picture == (DOCS / "pictures" / f"{name}.svg").read_text(), "run `python -m docs.made`"


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
        [str(DOCS / "publish"), str(tmp_path / "site")],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable, pages.UNRUN: "1"},  # the blocks run in other tests
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / ".nojekyll").exists()
    assert (tmp_path / "site" / "layouts.html").read_text().count("<img") >= 20


@pytest.mark.parametrize("name", [*PAGES, "../README.md", "../CHANGELOG.md"])
def test_links_work_where_pages_are_read_as_files(name: str) -> None:
    """Pages, anchors and pictures that a repository host shows: all are in the tree."""
    page = DOCS / name
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        found = (page.parent / path).resolve() if path else page.resolve()
        assert found.exists(), f"{name} links to {target}"
        if anchor and found.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), re.M)
            anchors = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
            assert anchor in anchors, f"{name} links to {target}"


def test_the_architecture_page_names_modules_that_exist() -> None:
    text = (DOCS / "architecture.md").read_text()
    files = [p.as_posix() for p in pages.ROOT.rglob("*") if p.suffix in (".py", ".h", ".lark")]
    named = set(re.findall(r"`([\w/]+\.(?:py|h|lark))`", text))
    assert not [n for n in named - {"math.h"} if not any(f.endswith(f"/{n}") for f in files)]
    folders = set(re.findall(r"<summary>(spfgen/.*)</summary>", text))
    with_modules = {f"{p.parent.relative_to(pages.ROOT).as_posix()}/" for p in (pages.ROOT / "spfgen").rglob("*.py")}
    assert folders == with_modules - {"spfgen/rt/"}  # C

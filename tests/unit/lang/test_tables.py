"""The parser's tables are kept on disk; of the layouts that come along only those are parsed that are named."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import lark
import pytest

from spfgen import folder
from spfgen.errors import SpecError
from spfgen.lang import parse, spec, syntax
from spfgen.lang.spec import builtin, builtin_names

ROOT = Path(__file__).resolve().parents[3]
ERRORS = sorted((ROOT / "tests" / "errors").glob("*.spf"))


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """A new cache folder, and a parser that is made anew."""
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("SPFGEN_CACHE", raising=False)
    forget()
    yield tmp_path / "kept" / "grammar"
    forget()


def forget() -> None:
    syntax._parser.cache_clear()


def outcome(text: str) -> object:
    """The tree of a text with all places, or the message about it."""
    try:
        tree = parse.parse_file(text, "f.spf")
    except SpecError as error:
        return str(error)
    meta = [(t.data, t.meta.line, t.meta.column, t.meta.end_column) for d in trees(tree) for t in d.iter_subtrees()]
    return tree, meta


def trees(tree):
    return [layout.tree for layout in tree.layouts if hasattr(layout, "tree")]


def texts() -> list[str]:
    files = [*ERRORS, *(ROOT / "layouts").glob("*.spf"), ROOT / "tests" / "data" / "kernels.spf"]
    return [file.read_text(encoding="utf-8", errors="replace") for file in files]


def test_kept_tables_are_the_same_parser(kept, monkeypatch) -> None:
    """Trees, places and messages; nothing is derived from the grammar a second time."""
    made = [outcome(text) for text in texts()]
    assert len(list(kept.iterdir())) == 1
    forget()
    monkeypatch.setattr(lark.Lark, "__init__", lambda *_, **__: pytest.fail("the tables are made again"))
    assert [outcome(text) for text in texts()] == made
    assert sum(isinstance(m, str) for m in made) > 50, "there are mistakes among them"


def test_damaged_tables_are_made_again(kept) -> None:
    outcome(texts()[0])
    (file,) = kept.iterdir()
    damaged = file.read_bytes()[:-100] + b"x" * 100
    file.write_bytes(damaged)
    assert folder.load("grammar", file.name) is None
    forget()
    expected = outcome(texts()[0])
    assert file.read_bytes() != damaged
    assert folder.load("grammar", file.name) is not None
    forget()
    assert outcome(texts()[0]) == expected


@pytest.mark.sampled(1)
@pytest.mark.parametrize("changed", ["OPTIONS", "version"])
def test_other_options_or_another_lark_are_other_tables(kept, monkeypatch, changed) -> None:
    syntax._parser()
    forget()
    if changed == "OPTIONS":
        monkeypatch.setattr(syntax, "OPTIONS", {**syntax.OPTIONS, "maybe_placeholders": False})
    else:
        monkeypatch.setattr(lark, "__version__", "1.2.99")
    syntax._parser()
    assert len(list(kept.iterdir())) == 2


def test_switched_off(kept, monkeypatch) -> None:
    monkeypatch.setenv("SPFGEN_CACHE", "off")
    assert outcome("kernel k { tensor x, y : dense  y[i] = x[i] }")
    assert not kept.exists()


# --- layouts by name -----------------------------------------------------------------------------------


def test_each_layout_is_parsed_alone_and_once(monkeypatch) -> None:
    # A cache of its own: layouts of other tests are told from each other by identity.
    monkeypatch.setattr(spec, "_builtin", cache(spec._builtin.__wrapped__))
    parsed = []
    parse_file = spec.parse_file
    monkeypatch.setattr(
        spec, "parse_file", lambda text, file, *known: parsed.append(file) or parse_file(text, file, *known)
    )
    names = builtin_names()
    assert parsed == []
    for name in names:
        found = builtin(name)
        assert found.name == name
        assert builtin(name) is found
    assert len(parsed) == len(names)
    assert builtin("no_such_layout") is None
    assert builtin("") is None


def test_names_are_all_that_the_files_define() -> None:
    whole = {}
    for file in (ROOT / "layouts").glob("*.spf"):
        for layout in parse.parse_file(file.read_text(encoding="utf-8"), f"layouts/{file.name}").layouts:
            whole[layout.name] = layout
    assert sorted(whole) == builtin_names()
    for name, layout in whole.items():
        found = builtin(name)
        assert (found.span.file, found.span.line, found.span.column) == (
            layout.span.file,
            layout.span.line,
            layout.span.column,
        )
        assert found.span.show() == layout.span.show()
        assert getattr(found, "tree", None) == getattr(layout, "tree", None)


PROGRAM = """
import sys
from spfgen import cli
assert cli.run(["generate", sys.argv[1], "-o", "-"]) == 0
heavy = [m for m in ("z3", "numpy", "scipy", "sympy", "filelock") if m in sys.modules]
print(heavy, file=sys.stderr)
"""


def test_generate_imports_nothing_heavy(tmp_path) -> None:
    file = tmp_path / "k.spf"
    file.write_text("kernel k { tensor A : bcsr  tensor B : coo  tensor C : dense  C[i, k] += A[i, j]*B[j, k] }")
    said = []
    for _ in range(2):
        command = [sys.executable, "-c", PROGRAM, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
        assert done.returncode == 0, done.stderr
        said.append(done.stderr.strip())
    assert said == ["['z3']", "[]"]

"""What errors show of texts and data: readable, with carets where they belong, and nothing that a terminal obeys."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import spfgen
from spfgen import cli
from spfgen.errors import Span, SpecError
from spfgen.lang.parse import parse_layout_use, parse_schedule, parse_statements
from spfgen.run.files.read import read


def test_carets_of_a_long_line() -> None:
    text = f"y[i] = {' + '.join(f'x[i + {k}]' for k in range(60))} + WRONG + {' + '.join(['z[i]'] * 60)}"
    column = text.index("WRONG") + 1
    line, carets = Span("f", text, 1, column, column + 5).show().split("\n")
    assert len(line) < 130
    assert line[carets.index("^") : carets.rindex("^") + 1] == "WRONG"
    assert line.strip().startswith("...")
    assert line.endswith("...")


def test_carets_in_what_check_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "long.spf"
    padding = " + ".join(["x[i]"] * 40)
    path.write_text(f"kernel k {{\n    tensor x, y : dense\n    y[i] = {padding} + WRONG[i]\n}}\n")
    assert cli.run(["check", str(path)]) == 3
    lines = capsys.readouterr().out.splitlines()
    carets = next(n for n, line in enumerate(lines) if "^" in line)
    first, last = lines[carets].index("^"), lines[carets].rindex("^")
    assert lines[carets - 1][first : last + 1] == "WRONG[i]"


@pytest.mark.parametrize("name", ["m.mtx", "m.tns", "m.npy", "m.npz"])
def test_binary_data_are_not_echoed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x7fELF\x1b[31m\0\x01\xff" + np.arange(200).tobytes())
    with pytest.raises(spfgen.SpfgenError) as caught:
        read(str(path))
    text = str(caught.value)
    assert "pickle" not in text
    assert "ELF" not in text
    assert text.isprintable()


def test_binary_text_is_not_echoed() -> None:
    with pytest.raises(SpecError) as caught:
        spfgen.parse("kernel k { \x1b[31m\0 }")
    assert all(line.isprintable() for line in str(caught.value).splitlines())


@pytest.mark.parametrize("text", ["csr order", "bcsr if <float>(R=4)", "csr<float>x", "csr;"])
def test_what_may_follow_a_layout_is_listed(text: str) -> None:
    with pytest.raises(SpecError, match=r"expected .*the end of the text.*, but found") as caught:
        parse_layout_use(text)
    assert "file" not in str(caught.value)


def test_hints_are_about_what_is_read() -> None:
    with pytest.raises(SpecError, match=r"for instance `tile i by 32"):
        parse_schedule("csr x")
    with pytest.raises(SpecError, match=r"read by spfgen\.parse"):
        parse_statements("(y")

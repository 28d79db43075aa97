"""What the README shows is what happens: its Python blocks run, its listings are what spfgen prints."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

import spfgen
from docs.made import pages
from experiments import report
from spfgen.catalogue import layout_named
from spfgen.run.drawings.drawing import drawn
from tests.readme_commands import README, commands

TEXT = README.read_text(encoding="utf-8")
KERNELS = spfgen.load(README.parent / "tests/data/kernels.spf").kernels


def block(marker: str) -> str:
    """The text of the fenced block after an HTML comment."""
    found = re.search(rf"<!-- {re.escape(marker)} -->\n```\w*\n(.*?)```", TEXT, re.DOTALL)
    assert found, f"the README has no block {marker!r}"
    return found.group(1)


def fenced(language: str) -> list[str]:
    """The texts of all fenced blocks in a language."""
    found: list[str] = []
    inside: list[str] | None = None
    for line in TEXT.splitlines(keepends=True):
        if line.startswith("```"):
            if inside is None:
                inside = []
                wanted = line.strip() == f"```{language}"
            else:
                found += ["".join(inside)] if wanted else []
                inside = None
        elif inside is not None:
            inside.append(line)
    return found


def loops(source: str) -> str:
    """The parallel loop: what follows its comments, up to the end of the function."""
    body = source.rpartition("    #pragma omp parallel for")[2].partition("\n    return SPFGEN_OK;")[0]
    return textwrap.dedent(f"    #pragma omp parallel for{body}") + "\n"


def proof(explained: str) -> str:
    """What was proved: the end of what `explain` prints."""
    holds, _, asked = explained[explained.index("  proved:") :].partition("\nobligations")
    return f"{textwrap.dedent(holds)}\nobligations{asked}\n"


def shown() -> dict[str, str]:
    kernel = KERNELS["csr_times_bcsr"].compile(finds={"B.pb": "sequential"}, optimize=1)
    return {"proof csr_times_bcsr": proof(kernel.explain()), "loops csr_times_bcsr": loops(kernel.source)}


@pytest.mark.parametrize("marker", ["proof csr_times_bcsr", "loops csr_times_bcsr"])
def test_listings(marker: str, request: pytest.FixtureRequest) -> None:
    wanted = shown()[marker]
    if request.config.getoption("--update-golden"):
        text = README.read_text(encoding="utf-8")
        new = re.sub(
            rf"(<!-- {re.escape(marker)} -->\n```\w*\n).*?```",
            lambda m: f"{m.group(1)}{wanted}```",
            text,
            flags=re.DOTALL,
        )
        README.write_text(new, encoding="utf-8")
        return
    assert block(marker) == wanted, "run pytest --update-golden"


def test_the_picture(request: pytest.FixtureRequest) -> None:
    """It is what `spfgen draw bcsr` draws."""
    picture = README.parent / "docs" / "readme.svg"
    drawn_now = drawn(lambda rank, small: layout_named("bcsr", rank=rank, to_draw=small), None, None)
    if request.config.getoption("--update-golden"):
        picture.write_text(drawn_now + "\n", encoding="utf-8")
    assert picture.read_text(encoding="utf-8") == drawn_now + "\n", "run pytest --update-golden"


def test_the_table_of_results() -> None:
    assert report.in_readme(report.known(), report.plots_in()) == results_in_readme(TEXT), (
        "run python -m experiments report"
    )


def results_in_readme(text: str) -> str:
    return text[text.index(report.BEGIN) : text.index(report.END)]


def test_blocks_run(tmp_path: Path) -> None:
    """Commands, spec files and Python, but for the commands that install."""
    page = tmp_path / "README.md"
    before, _, rest = TEXT.partition("```console\n")
    page.write_text(before + rest.partition("```\n")[2], encoding="utf-8")
    text, _ = pages.made(page, ("tests",))
    assert "parallel over i" in text
    assert "ok: y equals the numpy reference" in text


def test_spec_blocks_are_accepted() -> None:
    """Every spec in the README parses and compiles."""
    specs = [b for b in fenced("") if re.match(r"(#.*\n)*(layout|kernel) \w+.*\{\n", b)]
    assert len(specs) >= 3
    for spec in specs:
        for kernel in spfgen.parse(spec).kernels.values():
            kernel.compile()
        for layout in spfgen.parse(spec).layouts.values():
            layout.layout(2)


def test_two_commands_do_all_the_set_up() -> None:
    assert len(commands()) == 2

"""What the README shows is what happens: its Python blocks run, its listings are what spfgen prints."""

from __future__ import annotations

import re

import pytest

import spfgen
from spfgen.lang.types import FINDS
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
    """The function's part from the first loop to its end."""
    lines = source.splitlines()
    start = next(n for n, line in enumerate(lines) if line.strip().startswith("/* parallel over"))
    end = next(n for n, line in enumerate(lines) if "return SPFGEN_OK" in line)
    return "\n".join(line.removeprefix("    ") for line in lines[start:end]) + "\n"


def shown() -> dict[str, str]:
    kernel = KERNELS["csr_times_bcsr"].compile(finds={"B.pb": "sequential"})
    return {"explain csr_times_bcsr": kernel.explain() + "\n", "loops csr_times_bcsr": loops(kernel.source)}


@pytest.mark.parametrize("marker", ["explain csr_times_bcsr", "loops csr_times_bcsr"])
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


@pytest.mark.parametrize("number", range(TEXT.count("<!-- python -->")))
def test_python_blocks(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    found = re.findall(r"<!-- python -->\n```python\n(.*?)```", TEXT, re.DOTALL)
    exec(compile(found[number], f"README block {number}", "exec"), {})


def test_spec_blocks_are_accepted() -> None:
    """Every spec in the README parses and compiles."""
    specs = [b for b in fenced("") if re.match(r"(#.*\n)*(layout|kernel) \w+.*\{\n", b)]
    assert len(specs) >= 3
    for spec in specs:
        for kernel in spfgen.parse(spec).kernels.values():
            kernel.compile()
        for layout in spfgen.parse(spec).layouts.values():
            layout.layout(2)


def test_the_table_of_finds_is_that_of_the_compiler() -> None:
    assert dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", TEXT.partition("| algorithm |")[2], re.MULTILINE)) == FINDS


def test_two_commands_do_all_the_set_up() -> None:
    assert len(commands()) == 2

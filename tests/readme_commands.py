"""Prints the set-up commands of the README: the lines of its first console block, one per line."""

from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def commands() -> list[str]:
    """The commands of the first ```console block, continued lines joined, prompts removed."""
    block = README.read_text(encoding="utf-8").split("```console\n", 1)[1].split("```", 1)[0]
    return [line.removeprefix("$ ") for line in block.replace("\\\n", " ").splitlines() if line.startswith("$ ")]


if __name__ == "__main__":
    print("\n".join(commands()))  # noqa: T201

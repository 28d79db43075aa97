"""Prints what setup.cfg says that the package needs, and its extras that are named, one requirement per line."""

import sys
from configparser import ConfigParser
from pathlib import Path

SETUP = Path(__file__).resolve().parents[1] / "setup.cfg"


def requirements(extras: list[str]) -> list[str]:
    """The requirements as pip takes them."""
    config = ConfigParser()
    config.read(SETUP, encoding="utf-8")
    named = [config["options.extras_require"][extra] for extra in extras]
    lines = [line.strip() for text in (config["options"]["install_requires"], *named) for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))  # noqa: T201

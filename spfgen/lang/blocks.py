"""What steps consist of: blocks of steps, and values that are computed where the step stands.

The class of a step names its fields of either kind (`BLOCKS`, `VALUES`), so whatever only goes through steps knows of a
new kind of step, too. An equation has neither: its value is computed at each of its points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any


def blocks(step: Any) -> list[tuple[Any, ...]]:
    """The blocks of a step, in their order."""
    return [getattr(step, name) for name in getattr(type(step), "BLOCKS", ())]


def values(step: Any) -> list[Any]:
    """The values that a step computes, conditions among them."""
    return [getattr(step, name) for name in getattr(type(step), "VALUES", ())]


def with_blocks(step: Any, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Any:
    """The step with what `change` makes of its blocks."""
    return replace(step, **{n: change(getattr(step, n)) for n in step.BLOCKS}) if blocks(step) else step


def with_values(step: Any, change: Callable[[Any], Any]) -> Any:
    """The step with what `change` makes of its values."""
    return replace(step, **{n: change(getattr(step, n)) for n in step.VALUES}) if values(step) else step


def all_steps(steps: Iterable[Any]) -> Iterator[Any]:
    """The steps with those of their blocks, each before its own."""
    for step in steps:
        yield step
        for block in blocks(step):
            yield from all_steps(block)

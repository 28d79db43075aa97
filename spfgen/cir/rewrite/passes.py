"""Rewrites of C in their order: named passes, each a plain function on the functions of a kernel.

The last function is the one that is rewritten; those before it are what it calls. Each pass leaves the C meaning the
same, and leaves alone what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spfgen.cir.rewrite.serial_path import with_serial_path
from spfgen.cir.rewrite.tile_widths import with_tile_functions
from spfgen.cir.rewrite.trip_counts import specialized
from spfgen.cir.tree.nodes import Function
from spfgen.cir.tree.simplify import simplify

Functions = list[Function]


@dataclass(frozen=True)
class Pass:
    """A rewrite and the level of optimisation from which on it is made (lang/optimization.py)."""

    name: str
    rewrite: Callable[[Functions], Functions]
    level: int


def _last(rewrite: Callable[[Function], Functions]) -> Callable[[Functions], Functions]:
    """A pass that rewrites the last function, and may put others before it."""
    return lambda functions: [*functions[:-1], *rewrite(functions[-1])]


PASSES = (
    Pass("simplify C", _last(lambda f: [simplify(f)]), 0),
    Pass("tile functions", lambda functions: [w for f in functions for w in with_tile_functions(f)], 2),
    Pass("serial path", _last(lambda f: [*with_serial_path(f)]), 2),
    Pass("trip counts", lambda functions: [*specialized(functions[:-1], functions[-1]), functions[-1]], 2),
)
"""All passes, the first one first."""


def passed(function: Function, level: int, stop_after: str = "") -> Functions:
    """The function after all passes of the level, or after those up to the one of that name, behind what it calls."""
    functions = [function]
    for step in PASSES:
        if step.level <= level:
            functions = step.rewrite(functions)
        if step.name == stop_after:
            break
    return functions

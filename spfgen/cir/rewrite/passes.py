"""Rewrites of C in their order: named passes, each a plain function on the functions of a kernel.

They come in groups, of which the last function is the one that is rewritten; those before it are what it calls. Each
pass leaves the C meaning the same, and leaves alone what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from spfgen.cir.rewrite.forwarding import with_forwarding
from spfgen.cir.rewrite.scalar_replacement import with_scalar_replacement
from spfgen.cir.rewrite.serial_path import with_serial_path
from spfgen.cir.rewrite.tile_widths import with_tile_functions
from spfgen.cir.rewrite.trip_counts import specialized
from spfgen.cir.tree.names import Names
from spfgen.cir.tree.nodes import Block, Expr, Function, Stmt
from spfgen.cir.tree.outline import outlined
from spfgen.cir.tree.simplify import simplify

Functions = list[Function]


@dataclass(frozen=True)
class KernelFacts:
    """What passes may ask of a kernel: its names, its arrays of values with their types, and its index arrays, which
    nobody writes."""

    names: Names
    values: Mapping[Expr, str] = field(default_factory=dict)
    indices: tuple[str, ...] = ()


@dataclass(frozen=True)
class CPass:
    """A rewrite, what it is `about`, and the level of optimisation from which on it is made (lang/optimization.py)."""

    name: str
    about: str
    rewrite: Callable[[list[Functions], KernelFacts], list[Functions]]
    level: int


def _of_each(rewrite: Callable[[Functions], Functions]) -> Callable[[list[Functions], KernelFacts], list[Functions]]:
    """A pass that does the same with each group."""
    return lambda groups, _: [rewrite(functions) for functions in groups]


def _last(rewrite: Callable[[Function], Functions]) -> Callable[[Functions], Functions]:
    """A rewrite of the last function of a group as a rewrite of the group; it may put helper functions before it."""
    return lambda functions: [*functions[:-1], *rewrite(functions[-1])]


def _statements(
    rewrite: Callable[[tuple[Stmt, ...], KernelFacts], list[Stmt]],
) -> Callable[[list[Functions], KernelFacts], list[Functions]]:
    """A pass that rewrites the statements of the last function."""

    def rewritten(function: Function, known: KernelFacts) -> Function:
        return replace(function, body=Block(tuple(rewrite(function.body.statements, known))))

    return lambda groups, known: [[*functions[:-1], rewritten(functions[-1], known)] for functions in groups]


PASSES = (
    CPass(
        "forwarding",
        "passes a stored value to the next iteration in a register",
        _statements(lambda lines, known: with_forwarding(lines, known.values, known.names)),
        2,
    ),
    CPass(
        "scalar replacement",
        "reads the end of a segment, where the next one begins, once",
        _statements(lambda lines, known: with_scalar_replacement(lines, known.indices, known.names)),
        2,
    ),
    CPass(
        "outline",
        "makes functions of the nests that lowering has marked for it",
        lambda groups, _: [[f] for functions in groups for f in outlined(functions[-1])],
        0,
    ),
    CPass(
        "simplify C",
        "folds constants; removes empty blocks and unused names",
        _of_each(_last(lambda f: [simplify(f)])),
        0,
    ),
    CPass(
        "tile functions",
        "makes two functions of tiles of several widths: one for a tile, one for all widths",
        _of_each(lambda functions: [w for f in functions for w in with_tile_functions(f)]),
        2,
    ),
    CPass(
        "serial path", "starts no team of threads for one thread", _of_each(_last(lambda f: [*with_serial_path(f)])), 2
    ),
    CPass(
        "trip counts",
        "specializes a part of a loop for the width of a tile",
        _of_each(lambda functions: [*specialized(functions[:-1], functions[-1]), functions[-1]]),
        2,
    ),
)
"""All passes, the first one first."""


def passed(function: Function, known: KernelFacts, level: int, stop_after: str = "") -> Functions:
    """The function after all passes of the level, or after those up to the one of that name, behind what it calls."""
    groups = [[function]]
    for step in PASSES:
        if step.level <= level:
            groups = step.rewrite(groups, known)
        if step.name == stop_after:
            break
    return [function for functions in groups for function in functions]

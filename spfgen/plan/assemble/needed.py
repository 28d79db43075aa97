"""Steps that make what nobody reads are left out."""

from __future__ import annotations

from dataclasses import replace

from spfgen.facts.formula import Call, Var
from spfgen.ir import walk
from spfgen.plan.assemble.nodes import (
    MORE,
    NUMBER,
    PIECE,
    AssemblyStep,
    Filler,
    Fold,
    Insert,
    Into,
    Keep,
    MaxOverPoints,
    Movable,
    NumberBlocks,
    Offsets,
    Patterns,
    Ranks,
    Repeat,
    Running,
    SelectRows,
    Sort,
    UpperBound,
    Vec,
    When,
)

MAKERS = (Vec, Fold, Ranks, Sort, SelectRows, NumberBlocks, Patterns, Filler, Movable)
"""What only makes something that has a name; a Let may be a size of the layout, which is part of the result."""


def needed(steps: tuple[AssemblyStep, ...]) -> tuple[AssemblyStep, ...]:
    """The same results. A vector that is only written to, or kept in step with the entries, is not needed."""
    while True:
        read = set[str]()
        for step in steps:
            _read(step, read)
        kept = _without(steps, read)
        if kept == steps:
            return steps
        steps = kept


def _read(step: AssemblyStep, read: set[str]) -> None:
    match step:
        case When(condition, then, otherwise):
            _names(condition, read)
            for inner in (*then, *otherwise):
                _read(inner, read)
        case Repeat(body):
            for inner in body:
                _read(inner, read)
        case Keep(mask, columns):
            read |= {mask, *({MORE, NUMBER, PIECE} & {*columns})}
        case Into(_, length, place, value, _, when):
            for part in (length, place, value, when):
                _names(part, read)
        case Offsets(_, length) | Running(_, length):
            _names(length, read)
        case MaxOverPoints(_, shape, places, values):
            for part in (*shape, *values):
                _names(part, read)
            of_groups = (v for _, v in step.groups)
            read |= {*_given(step), *(n for p in (*places, *of_groups) for n in p.names())}
        case _:
            _names(step, read)
            read |= set(_given(step))


def _names(tree: object, read: set[str]) -> None:
    if tree is None:
        return
    for node in walk(tree):
        match node:
            case Var(name) | Call(name) | UpperBound(name):
                read.add(name)


def _given(step: AssemblyStep) -> tuple[str, ...]:
    """The vectors that a step reads by name."""
    match step:
        case Ranks(columns=columns) | Sort(columns=columns):
            return columns
        case NumberBlocks(_, _, group, low, high):
            return (group, low, high)
        case Patterns(_, _, group, content):
            return (group, content)
        case Filler(groups_of=group, keys_of=key):
            return (group, key)
        case Movable(_, _, group, slot, more, sizes):
            return (group, slot, more, sizes)
        case Insert(_, vector):
            return (vector,)
        case MaxOverPoints(_, arrays=arrays):
            return tuple(arrays.values())
    return tuple(n for n in (getattr(step, "mask", ""), getattr(step, "places", "")) if n) + tuple(
        v for v, _ in getattr(step, "turned", ())
    )


def _made(step: AssemblyStep) -> tuple[str, ...]:
    match step:
        case Ranks(rank, first, total) | Filler(rank, first, total):
            return (rank, first, total)
        case SelectRows(name, count):
            return (name, count)
        case Sort(name) | Movable(name):
            return (name,)
    return (step.name,)  # type: ignore[attr-defined]


def _without(steps: tuple[AssemblyStep, ...], read: set[str]) -> tuple[AssemblyStep, ...]:
    kept: list[AssemblyStep] = []
    for step in steps:
        match step:
            case When(_, then, otherwise):
                step = replace(step, then=_without(then, read), otherwise=_without(otherwise, read))
            case Repeat(body):
                step = replace(step, body=_without(body, read))
            case Keep(_, columns):
                step = replace(step, columns=tuple(c for c in columns if c in read))
            case Into(vector) | Offsets(vector, _, total="") | Running(vector) if vector not in read:
                continue
            case Offsets(vector, _, total) if total not in read:
                if vector not in read:
                    continue
                step = replace(step, total="")
            case _ if isinstance(step, MAKERS) and not read & {*_made(step)}:
                continue
        kept.append(step)
    return tuple(kept)

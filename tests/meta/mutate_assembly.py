"""Assemblies with one mistake each: of the steps over columns, and of the key by which a layout is assembled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from spfgen.facts.formula import ONE, TRUE, ZERO, And, Bin, Call, Compare, Expr, Formula, Not, Num, Or, Var
from spfgen.ir import walk
from spfgen.layout.keys import KeyLevel, KeyPlan
from spfgen.plan.assemble.by_key import Tree
from spfgen.plan.assemble.carried_by_key import Places
from spfgen.plan.assemble.nodes import (
    ROW,
    Assembly,
    AssemblyStep,
    Choose,
    Fail,
    Fold,
    Insert,
    Into,
    Keep,
    Let,
    MaxOverPoints,
    Offsets,
    Ranks,
    Repeat,
    Running,
    SelectRows,
    Sort,
    Vec,
    When,
    at,
    minus,
)

SHIFTED, SUMS, EXTENTS = "an offset shifted", "a prefix sum left out", "extents exchanged"
ORDER, LEVEL, SORTED = "keys exchanged", "a level left out", "an order dropped"
OCCUPIED, MARK, RUNS = "an occupied test dropped", "another mark", "a run closed elsewhere"
COUNTS = "counts of another nest"
KINDS = (SHIFTED, SUMS, EXTENTS, ORDER, LEVEL, SORTED, OCCUPIED, MARK, RUNS, COUNTS)


@dataclass(frozen=True)
class ByKey:
    """What there is of a layout with a key."""

    key: KeyPlan
    tree: Tree | None
    groups: Places | None


Mutant = tuple[str, Any]
"""The kind, and what an assembly has become."""


def mutants(assembly: Assembly | ByKey) -> Iterator[Mutant]:
    """All of one mistake."""
    if isinstance(assembly, ByKey):
        yield from _of_key(assembly)
        return
    vectors = [s.name for s in assembly.steps if isinstance(s, Vec)]
    for k, step in enumerate(assembly.steps):
        for kind, changed in _of_step(step, vectors):
            if changed != (step,):
                yield kind, replace(assembly, steps=(*assembly.steps[:k], *changed, *assembly.steps[k + 1 :]))


# --- steps ----------------------------------------------------------------------------------------------------


def _of_step(step: AssemblyStep, vectors: Sequence[str]) -> Iterator[tuple[str, tuple[AssemblyStep, ...]]]:
    """What a step becomes."""
    match step:
        case When(condition, then, otherwise):
            for k, inner in enumerate(then):
                for kind, changed in _of_step(inner, vectors):
                    yield kind, (When(condition, (*then[:k], *changed, *then[k + 1 :]), otherwise),)
            for k, inner in enumerate(otherwise):
                for kind, changed in _of_step(inner, vectors):
                    yield kind, (When(condition, then, (*otherwise[:k], *changed, *otherwise[k + 1 :])),)
        case Repeat(body):
            for k, inner in enumerate(body):
                for kind, changed in _of_step(inner, vectors):
                    yield kind, (Repeat((*body[:k], *changed, *body[k + 1 :])),)
        case Offsets(vector, length, total):
            first = Into(vector, ONE, ZERO, ONE, "add")
            yield SHIFTED, (step, replace(first, length=Bin("min", ONE, length)))
            yield SHIFTED, (replace(step, length=minus(length, 1)),)
            yield SUMS, ((Fold(total, length, at(vector), "sum", ZERO),) if total else ())
        case Ranks(columns=columns) | Sort(columns=columns):
            yield from ((ORDER, (replace(step, columns=c),)) for c in _exchanged(columns))
            if len(columns) > 1:
                for k in range(len(columns)):
                    yield LEVEL, (replace(step, columns=(*columns[:k], *columns[k + 1 :])),)
            if isinstance(step, Sort):
                yield SORTED, (Vec(step.order, step.length, ROW),)
                yield SORTED, (Vec(step.order, step.length, minus(minus(step.length, 1), ROW)),)
        case Insert(extents=extents):
            yield from ((EXTENTS, (replace(step, extents=e),)) for e in _exchanged(extents))
        case Into():
            yield from ((kind, (s,)) for kind, s in _of_into(step, vectors))
        case SelectRows(when=when):
            yield OCCUPIED, (replace(step, when=TRUE),)
            yield OCCUPIED, (replace(step, when=Not(when)),)
        case Keep() | Fail():
            yield OCCUPIED, ()
        case Running():
            yield RUNS, (replace(step, backwards=not step.backwards),)
            yield RUNS, (replace(step, least=not step.least),)
        case Vec(value=value):
            yield from _of_vec(step, value, vectors)
        case Let(value=value):
            yield SHIFTED, (replace(step, value=Bin("+", value, ONE)),)
        case Fold(how=how):
            yield COUNTS, (replace(step, how="sum" if how == "max" else "max"),)
            yield (
                SHIFTED,
                (replace(step, value=Bin("-", step.value, ONE)),) if isinstance(step.value, Expr) else (step,),
            )
        case MaxOverPoints(vector=vector) if vector:
            yield COUNTS, ()


def _of_into(step: Into, vectors: Sequence[str]) -> Iterator[tuple[str, AssemblyStep]]:
    if step.when is not None:
        yield OCCUPIED, replace(step, when=None)
        yield OCCUPIED, replace(step, when=Not(step.when))
    yield SHIFTED, replace(step, place=Bin("+", step.place, ONE))
    yield COUNTS, replace(step, how={"add": "set", "set": "add", "max": "min", "min": "max"}[step.how])
    yield COUNTS, replace(step, length=minus(step.length, 1))
    yield from ((COUNTS, replace(step, place=e)) for e in _of_others(step.place, vectors))
    yield from ((COUNTS, replace(step, value=e)) for e in _of_others(step.value, vectors))


def _of_vec(step: Vec, value: Expr | Formula, vectors: Sequence[str]) -> Iterator[tuple[str, tuple[AssemblyStep, ...]]]:
    match value:
        case Or(parts) if len(parts) > 1:  # where something begins
            for k in range(len(parts)):
                yield RUNS, (replace(step, value=Or((*parts[:k], *parts[k + 1 :]))),)
                yield RUNS, (replace(step, value=Or((*parts[:k], Not(parts[k]), *parts[k + 1 :]))),)
        case And(parts) if len(parts) > 1:
            for k in range(len(parts)):
                yield OCCUPIED, (replace(step, value=And((*parts[:k], *parts[k + 1 :]))),)
        case Choose(condition, yes, no):
            yield OCCUPIED, (replace(step, value=yes),)
            yield OCCUPIED, (replace(step, value=no),)
            yield OCCUPIED, (replace(step, value=Choose(Not(condition), yes, no)),)
        case Compare():
            yield OCCUPIED, (replace(step, value=Not(value)),)
        case Num() | Var():
            yield MARK, (replace(step, value=Bin("+", value, ONE)),)
        case Bin("*", left, right):
            yield EXTENTS, (replace(step, value=Bin("*", left, Bin("+", right, ONE))),)
        case Bin("/" | "%" as op, left, right):
            yield EXTENTS, (replace(step, value=Bin("%" if op == "/" else "/", left, right)),)
    if isinstance(value, Expr) and not isinstance(value, Num | Var):
        yield SHIFTED, (replace(step, value=Bin("+", value, ONE)),)
        yield from ((COUNTS, (replace(step, value=e),)) for e in _of_others(value, vectors))


def _of_others(value: Any, vectors: Sequence[str]) -> Iterator[Any]:
    """With a vector that is read exchanged with one that was made just before it."""
    if not isinstance(value, Expr):
        return
    for call in dict.fromkeys(n for n in walk(value) if isinstance(n, Call) and n.function in vectors):
        number = vectors.index(call.function)
        for other in vectors[max(0, number - 1) : number]:
            yield _with(value, call, replace(call, function=other))


def _with(tree: Any, old: Any, new: Any) -> Any:
    if tree == old:
        return new
    if isinstance(tree, tuple):
        return tuple(_with(t, old, new) for t in tree)
    if not is_dataclass(tree) or isinstance(tree, type):
        return tree
    return replace(tree, **{f.name: _with(getattr(tree, f.name), old, new) for f in fields(tree) if f.init})


def _exchanged(parts: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for k in range(len(parts) - 1):
        yield (*parts[:k], parts[k + 1], parts[k], *parts[k + 2 :])


# --- keys -----------------------------------------------------------------------------------------------------


def _of_key(own: ByKey) -> Iterator[Mutant]:
    """The digits, the levels, and what follows of them; the tree, and the numbers of groups."""
    for kind, changed in _of_plan(own.key):
        yield kind, replace(own, key=changed, tree=None, groups=None)
    if own.tree is not None:
        yield from ((kind, replace(own, tree=t)) for kind, t in _of_tree(own.tree))
    if own.groups is not None:
        arguments, extents = own.groups
        yield from ((EXTENTS, replace(own, groups=(arguments, e))) for e in _exchanged(extents))
        yield from ((EXTENTS, replace(own, groups=(a, extents))) for a in _exchanged(arguments))
        for number, argument in enumerate(arguments):
            changed = (*arguments[:number], Bin("+", argument, ONE), *arguments[number + 1 :])
            yield SHIFTED, replace(own, groups=(changed, extents))


def _of_plan(key: KeyPlan) -> Iterator[tuple[str, KeyPlan]]:
    yield from ((ORDER, replace(key, fields=f)) for f in _exchanged(key.fields))
    for k, field in enumerate(key.fields):
        yield SORTED, _at(key, "fields", k, replace(field, down=not field.down))
        lower = tuple((a, e.plus(-a)) for a, e in field.lower)
        upper = tuple((a, e.plus(-a)) for a, e in field.upper)
        yield EXTENTS, _at(key, "fields", k, replace(field, lower=lower))
        yield EXTENTS, _at(key, "fields", k, replace(field, upper=upper))
    for k, level in enumerate(key.levels):
        yield LEVEL, replace(key, levels=(*key.levels[:k], *key.levels[k + 1 :]))
        yield from ((LEVEL, _at(key, "levels", k, o)) for o in _of_level(level, len(key.fields)))
        rank = level.rank
        yield SHIFTED, _at(key, "levels", k, replace(level, rank=replace(rank, low=rank.low + 1)))
        yield from ((ORDER, _at(key, "levels", k, replace(level, rank=replace(rank, keys=n))))
                    for n in _exchanged(rank.keys))  # fmt: skip
        yield COUNTS, _at(key, "levels", k, replace(level, rank=replace(rank, begin="", kind="slots")))
    for name in ("computed", "after"):
        for k, rule in enumerate(getattr(key, name)):
            yield SHIFTED, _at(key, name, k, replace(rule, numerator=rule.numerator.plus(1)))
    for k in range(len(key.checks)):
        yield OCCUPIED, replace(key, checks=(*key.checks[:k], *key.checks[k + 1 :]))
    for array, mark in key.plan.sentinels.items():
        marks = {**key.plan.sentinels, array: mark.plus(1)}
        yield MARK, replace(key, plan=replace(key.plan, sentinels=marks))


def _of_level(level: KeyLevel, digits: int) -> Iterator[KeyLevel]:
    for group, end in ((level.group - 1, level.end), (level.group + 1, level.end),
                       (level.group, level.end - 1), (level.group, level.end + 1)):  # fmt: skip
        if 0 <= group <= end <= digits:
            yield replace(level, group=group, end=end)


def _at(key: KeyPlan, name: str, k: int, changed: Any) -> KeyPlan:
    parts = getattr(key, name)
    return replace(key, **{name: (*parts[:k], changed, *parts[k + 1 :])})


def _of_tree(tree: Tree) -> Iterator[tuple[str, Tree]]:
    yield from ((ORDER, replace(tree, order=o)) for o in _exchanged(tree.order))
    yield from ((ORDER, replace(tree, keys=k)) for k in _exchanged(tree.keys))
    yield from ((ORDER, replace(tree, begins=b)) for b in _exchanged(tree.begins))
    yield from ((EXTENTS, replace(tree, sizes=s)) for s in _exchanged(tree.sizes))
    yield SORTED, replace(tree, any_order=not tree.any_order)
    for k in range(len(tree.ends) - 1):
        parts = {name: getattr(tree, name) for name in ("ends", "begins", "keys", "sizes")}
        yield LEVEL, replace(tree, **{name: (*p[:k], *p[k + 1 :]) for name, p in parts.items()})

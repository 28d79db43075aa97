"""Slices as subscripts: `x[i(1:9:2)]` reads `x[1 + 2*i]`, `slice(A[j], j -> k, ...)` reads A at `start + step*k`. So an
index that they bind can be cut, and a block of work reads its part. Other views stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spfgen.cluster.separability import plain, quasi, within
from spfgen.facts.formula import Bin, Expr, Num, Var, chain, conjunction, substitute
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.normalize import normalized
from spfgen.lang.uses import accesses_in

Shapes = Mapping[str, Sequence[int]]
VIEWS = (lang.Collapse, lang.Split, lang.Concat, lang.Slice)


class _Stays(Exception):
    """The statement is left as it is: what is wrong with it is said where it is computed whole."""


def without_slices(step: Any, shapes: Shapes, sizes: Mapping[str, int]) -> tuple[Any, dict[str, int]]:
    """An equation without slices, and the extents of the indices of its result that they bound; others as they are."""
    if not isinstance(step, lang.Statement) or any(isinstance(s, lang.Range) for s in step.target.subscripts):
        return step, {}
    extents: dict[str, int] = {}
    try:
        value = rewrite(lambda n: _rule(n, step.target.tensor, shapes, sizes, extents), step.value)
        if not extents or any(isinstance(n, VIEWS) for n in walk(value)):  # extents of others follow from slices
            return step, {}
        explicit = normalized((replace(step, value=value),), tuple(sizes))[0]
        return _bounded(explicit, extents, shapes)
    except _Stays:
        return step, {}


def _rule(node: Any, target: str, shapes: Shapes, sizes: Mapping[str, int], extents: dict[str, int]) -> Any:
    match node:
        case lang.Access(tensor, subscripts) if any(isinstance(s, lang.Range) for s in subscripts):
            if tensor == target or tensor not in shapes:
                raise _Stays
            pairs = zip(subscripts, shapes[tensor], strict=True)
            return replace(node, subscripts=tuple(_of_range(s, n, sizes, extents) for s, n in pairs))
        case lang.Slice(value, old, new, start, stop, step):
            places = range(_number(start, sizes), _number(stop, sizes), step)
            _check_inside(value, old, places, shapes)
            _say(new, len(places), extents)
            return rewrite(lambda n: _moved(n, old, _at(places, new)), value)
    return None


def _of_range(subscript: Any, extent: int, sizes: Mapping[str, int], extents: dict[str, int]) -> Any:
    if not isinstance(subscript, lang.Range):
        return subscript
    start, stop = (None if e is None else _number(e, sizes) for e in (subscript.start, subscript.stop))
    places = range(*slice(start, stop, subscript.step).indices(extent))
    _say(subscript.index, len(places), extents)
    return _at(places, subscript.index)


def _number(expr: Expr, sizes: Mapping[str, int]) -> int:
    affine = quasi(substitute(expr, {n: Num(v) for n, v in sizes.items()}))
    if affine is None or affine.terms:
        raise _Stays
    return affine.constant


def _say(index: str, extent: int, extents: dict[str, int]) -> None:
    if not extent or extents.setdefault(index, extent) != extent:
        raise _Stays


def _at(places: range, index: str) -> Expr:
    moved: Expr = Var(index) if places.step == 1 else Bin("*", Num(places.step), Var(index))
    return Bin("+", moved, Num(places.start)) if places.start else moved


def _check_inside(value: Any, old: str, places: range, shapes: Shapes) -> None:
    """All that the slice takes is there, and the index is that of operands alone. Raises _Stays."""
    if not places or any(old in _binds(n) for n in walk(value)):
        raise _Stays
    for access in accesses_in([value]):
        for axis, subscript in enumerate(access.subscripts):
            if old in within(subscript) and (plain(subscript) != old or access.tensor not in shapes):
                raise _Stays
            if old in within(subscript) and not 0 <= min(places) <= max(places) < shapes[access.tensor][axis]:
                raise _Stays


def _binds(node: Any) -> set[str]:
    if isinstance(node, lang.Reduce):
        return {*node.indices}
    names = (node.old, node.new) if isinstance(node, VIEWS) else ()
    return {n for name in names for n in ((name,) if isinstance(name, str) else name)}


def _moved(node: Any, old: str, at: Expr) -> Any:
    match node:
        case lang.Access(_, subscripts):
            return replace(node, subscripts=tuple(substitute(s, {old: at}) if isinstance(s, Expr) else s
                                                  for s in subscripts))  # fmt: skip
        case lang.Index(expr):
            return replace(node, expr=substitute(expr, {old: at}))
        case lang.Reduce(where=where) if where is not None:
            return replace(node, where=substitute(where, {old: at}))
    return None


def _bounded(explicit: Any, extents: dict[str, int], shapes: Shapes) -> tuple[Any, dict[str, int]]:
    """Reductions run over what slices took; an index of the result has the extent that is given beside. Raises _Stays
    where an operand says another one."""
    if not isinstance(explicit, lang.Statement):
        raise _Stays
    for access in accesses_in([explicit.value]):
        for axis, index in enumerate(map(plain, access.subscripts)):
            if index in extents and shapes.get(access.tensor, ())[axis : axis + 1] != (extents[str(index)],):
                raise _Stays  # `x[i(0:4)]` is no subscript without a slice: an index that stands alone runs over all

    def rule(node: Any) -> Any:
        limited = [i for i in node.indices if i in extents] if isinstance(node, lang.Reduce) else []
        if not limited:
            return None
        ranges = [chain(Num(0), "<=", Var(i), "<", Num(extents[i])) for i in limited]
        return replace(node, where=conjunction([*ranges, *([] if node.where is None else [node.where])]))

    bounded = rewrite(rule, explicit)
    reduced = {i for n in walk(explicit) if isinstance(n, lang.Reduce) for i in n.indices}
    free = {plain(s) for s in explicit.target.subscripts}
    if not {*extents} <= reduced | {str(i) for i in free}:
        raise _Stays
    return bounded, {i: n for i, n in extents.items() if i not in reduced}


__all__ = ["without_slices"]

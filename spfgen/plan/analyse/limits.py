"""The integers that the C of a plan computes from sizes and index arrays: each call checks that they fit in 64 bits.

See facts/reach.py. Costs are computed in floating point, and what is fetched ahead is not read: they do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import cast

from spfgen.facts.formula import (
    ONE,
    ZERO,
    Bin,
    Compare,
    Expr,
    Forall,
    Num,
    Var,
    calls,
    conjuncts,
    substitute,
    variables,
)
from spfgen.facts.reach import LEAST, MOST, HeldValues, Limits, RangeStep
from spfgen.ir import walk
from spfgen.lang.types import TYPES
from spfgen.layout.nodes import IndexArray
from spfgen.plan.nodes import PLANS, Collect, Plan
from spfgen.sets.affine import Affine, NotAffine, affine, expression
from spfgen.space.local_tensors import AT
from spfgen.space.nodes import Program, Tensor, size_values

_TRIED = (2**62, 2**60, 2**56, 2**48, 2**40, 2**31, 2**15, 2**7)
"""The sizes of which one is found up to which nothing can be too large."""


def limits_of(program: Program, plans: Iterable[Plan]) -> Limits:
    """What the kernel computes, and the sizes that it is known to be good for."""
    steps = tuple(
        s for p in plans for n in walk(p, PLANS) if isinstance(n, Plan) for s in n.computed() if s != RangeStep(())
    )
    limits = Limits(steps, (*_arrays(program), *_tables(plans)))
    names = program.size_names
    fits = (n for n in _TRIED if limits.beyond(dict.fromkeys(names, (0, n))) is None)
    return Limits(limits.steps, limits.arrays, next(fits, 0))


def _arrays(program: Program) -> Iterator[tuple[str, HeldValues]]:
    """What each index array holds, by the name of the tensor that owns it."""
    known: set[str] = set()
    for tensor in program.tensors:
        kinds = dict(tensor.index_types)
        for array, function in tensor.arrays:
            if function not in known and function == f"{tensor.name}.{array}":
                known.add(function)
                yield function, _held(tensor, program, tensor.layout.index(array), kinds[array])


def _tables(plans: Iterable[Plan]) -> Iterator[tuple[str, HeldValues]]:
    """What the coordinates of each table of entries are."""
    for node in (n for p in plans for n in walk(p, PLANS) if isinstance(n, Collect)):
        extents = reduce(lambda a, b: Bin("max", a, b), node.extents, cast("Expr", ONE))
        yield f"{node.name}.{AT}", HeldValues(0, MOST, (ZERO,), (Bin("-", extents, ONE),))


def _held(tensor: Tensor, program: Program, array: IndexArray, kind: str) -> HeldValues:
    bits = 8 * TYPES[kind].bytes - 1
    bounds = [b for p in array.ranges if isinstance(p.formula, Forall) for b in _bounds(array, p.formula)]
    sizes = size_values(tensor, program.sizes.fixed)
    low, high = (tuple(substitute(e, sizes) for is_low, e in bounds if is_low == wanted) for wanted in (True, False))
    return HeldValues(max(-(2**bits), LEAST), min(2**bits - 1, MOST), low, high)


def _bounds(array: IndexArray, declared: Forall) -> Iterator[tuple[bool, Expr]]:
    """(whether it is the lower one, a bound over sizes) that a range gives for all values, each of which may occur."""
    for part in conjuncts(declared.body):
        match part:
            case Compare("<" | "<=" | ">" | ">=" as op, left, right):
                called = calls(left) + calls(right)
                if len(called) != 1 or called[0].function != array.name:
                    continue
                arguments = zip(called[0].arguments, array.extents, strict=True)
                named = {a.name: extent for a, extent in arguments if isinstance(a, Var)}
                more, less = (right, left) if op in ("<", "<=") else (left, right)
                try:
                    value = affine(Bin("-", more, less), lambda _: "") + Affine((), -1 if op in ("<", ">") else 0)
                except NotAffine:
                    continue
                times, others = value.coefficient(""), value.without("")
                if "" in others.names():
                    continue
                # Here times*f + rest >= 0, where `rest` may speak of where the value stands.
                at: dict[str, Expr] = {n: Bin("-", e, ONE) for n, e in named.items() if others.coefficient(n) > 0}
                at |= {n: ZERO for n in named if others.coefficient(n) < 0}
                if variables(expression(others)) & (set(declared.variables) - set(at)):
                    continue
                most: Expr = substitute(expression(others), at)
                if times > 0:
                    yield True, Bin("-", ZERO, Bin("/", most, Num(times)))
                elif times < 0:
                    yield False, Bin("/", most, Num(-times))

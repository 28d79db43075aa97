"""Small index arrays that satisfy everything a layout declares, found by the prover; or which facts exclude any.

Each element of the arrays is an integer without a name of its own; the declared facts, written out for every value of
their variables, are what the prover gets. For layouts that cannot be packed, and to tell facts that contradict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from spfgen.errors import DataError
from spfgen.facts.formula import (
    ONE,
    TRUE,
    ZERO,
    And,
    Bin,
    Call,
    Compare,
    Exists,
    Expr,
    Forall,
    Formula,
    Num,
    Or,
    Var,
    apply_operator,
    calls,
    conjunction,
    implies,
    opened,
    substitute,
    variables,
)
from spfgen.facts.prove import Facts, implied
from spfgen.ir import rewrite
from spfgen.layout.instances import Data, domain_of
from spfgen.layout.nodes import Layout, Property
from spfgen.layout.points import Array, enumerate_points, shape_of
from spfgen.layout.validate import violation

NOTHING = Facts((), {})
FALSE = Or(())
MOST = 20_000
"""More written out instances of a fact than that are not asked."""
EXTENTS, SIZES = (3, 2, 4), (3, 2, 1, 4)
"""What is tried for the extents of the tensor and for the sizes of the arrays."""
LARGEST = 16
"""Extents are not larger, whatever the constants of the layout."""
SOLVED = (64, 4096)
"""Up to what sizes are looked for that facts decide."""
TRIALS = 24
SEEDS = 6


def satisfying(layout: Layout, sizes: Mapping[str, int], seed: int | None = None) -> dict[str, Array] | None:
    """Index arrays (int64) of the declared extents that satisfy all facts; None when the prover finds none.

    `sizes` has all parameters and sizes, small ones. With a `seed`, many elements are random.
    """
    arrays = _satisfying(layout, sizes, layout.facts, seed)
    return None if arrays is None or violation(layout, sizes, arrays) is not None else arrays


def with_entries(layout: Layout, sizes: Mapping[str, int], seed: int) -> dict[str, Array] | None:
    """Of several index arrays that satisfy all facts, those that store most; None when the prover finds none."""
    best: tuple[int, dict[str, Array]] | None = None
    for trial in range(SEEDS):
        arrays = satisfying(layout, sizes, SEEDS * seed + trial)
        if arrays is None:
            return None
        count = enumerate_points(layout, sizes, arrays).count
        if best is None or count > best[0]:
            best = count, arrays
    return None if best is None else best[1]


def small_sizes(layout: Layout, least: int = 1) -> Iterator[dict[str, int]]:
    """Sizes to try, in which no array is empty; those of the arrays are at least `least`. In the last ones two blocks
    fit into an extent, however the constants make them."""
    block = prod(value for _, value in layout.constants)
    extents = dict.fromkeys((*EXTENTS, max(1, min(LARGEST, 2 * block))))
    names = (*layout.parameters, *layout.sizes)
    choices = product([n for n in SIZES if n >= least], repeat=len(layout.sizes))
    for extent, (array_sizes, _) in product(extents, zip(choices, range(TRIALS), strict=False)):
        sizes = dict(zip(names, (*[extent] * layout.rank, *array_sizes), strict=True))
        if all(0 not in shape_of(a.extents, sizes) for a in layout.indexes):
            yield sizes


def fitting_sizes(layout: Layout, extents: Mapping[str, int] | None = None, least: int = 1) -> Iterator[dict[str, int]]:
    """The small sizes, and those that the prover finds: where facts say what a size is by the values of arrays that
    have another one, few of the small ones fit. `extents` are those of the tensor, where they are known."""
    for sizes in small_sizes(layout, least):
        yield {**sizes, **(extents or {})}
    for known in (dict.fromkeys(layout.parameters, 3), {}) if extents is None else (extents,):
        solved = _solved(layout, {**known}, least)
        if solved is not None:
            yield solved


def _solved(layout: Layout, known: dict[str, int], least: int) -> dict[str, int] | None:
    """The known sizes with all others, from the outer arrays inwards: those of which facts say something by arrays
    whose sizes are known are solved for, one of the others is tried. None where there are none among the small ones."""
    unknown = [n for n in (*layout.sizes, *layout.parameters) if n not in known]
    if not unknown:
        return known
    known_arrays = {a.name: a.extents for a in layout.indexes if all(variables(e) <= known.keys() for e in a.extents)}
    facts = [f.formula for f in layout.facts if {c.function for c in calls(f.formula)} <= known_arrays.keys()]
    told = [n for n in unknown if any(n in variables(f) and calls(f) for f in facts)]
    if not told:
        shapes = [v for a in layout.indexes for e in a.extents for v in variables(e)]
        first = next((n for n in shapes if n in unknown), unknown[0])
        tries = ({**known, first: n} for n in SIZES if n >= least)
        return next((solved for sizes in tries if (solved := _solved(layout, sizes, least)) is not None), None)
    data = Data(layout, known, {n: np.zeros(shape_of(e, known), np.int64) for n, e in known_arrays.items()})
    try:
        wanted = [part for formula in facts for part in _written_out(data, formula)]
    except DataError:
        return None
    for most in SOLVED:
        ranges = [Compare(op, Var(n), Num(k)) for n in told for op, k in ((">=", least), ("<=", most))]
        answer = implied([*wanted, *ranges], NOTHING, FALSE)
        if answer.model is not None:
            model = dict(answer.model)
            return _solved(layout, {**known, **{n: model.get(n, least) for n in told}}, least)
    return None


def excluded(layout: Layout, facts: Sequence[Property]) -> bool:
    """Whether it is proved that no arrays which hold something satisfy these, whatever their sizes."""
    sizes = [Compare(">=", Var(n), ONE) for n in (*layout.parameters, *layout.sizes)]
    for array in layout.indexes:
        sizes += [Compare(">=", e, ONE) for e in array.extents]
    firsts = [Call(a.name, tuple(ZERO for _ in a.extents)) for a in layout.indexes]
    lasts = [Call(a.name, tuple(Bin("-", e, ONE) for e in a.extents)) for a in layout.indexes]
    terms = [Or((Compare(">=", c, ZERO), Compare("<", c, ZERO))) for c in (*firsts, *lasts)]
    axioms = Facts(tuple(f.formula for f in facts), {a.name: a.extents for a in layout.indexes})
    return implied([*sizes, *terms], axioms, FALSE, thorough=True).proved


def contradicting(layout: Layout, least: int = 1) -> tuple[Property, ...]:
    """Facts of which all but one can hold together, and not all, in arrays of any of the sizes that are tried; () if
    all can."""
    tried = list(fitting_sizes(layout, None, least))
    if any(_satisfying(layout, sizes, layout.facts, None) is not None for sizes in tried):
        return ()
    needed = list(layout.facts)
    for fact in layout.facts:
        fewer = [f for f in needed if f is not fact]
        if all(_satisfying(layout, sizes, fewer, None) is None for sizes in tried):
            needed = fewer
    return tuple(needed)


def _satisfying(
    layout: Layout, sizes: Mapping[str, int], facts: Sequence[Property], seed: int | None
) -> dict[str, Array] | None:
    shapes = {a.name: shape_of(a.extents, sizes) for a in layout.indexes}
    wanted = _all_written_out(layout, tuple(sizes.items()), tuple(f.formula for f in facts))
    elements = [_element(n, at) for n, s in shapes.items() for at in product(*map(range, s))]
    random = np.random.default_rng(seed)
    fixed: list[Formula] = []
    if seed is not None:
        top = max(1, *sizes.values())
        fixed = [Compare("=", e, Num(int(random.integers(0, top)))) for e in elements]
        random.shuffle(fixed)
        fixed = fixed[: len(fixed) // 2]
    while True:
        answer = implied([*wanted, *fixed, *(Compare(">=", e, Num(-(2**31))) for e in elements)], NOTHING, FALSE)
        if answer.model is not None:
            break
        if not fixed:
            return None
        fixed = fixed[: len(fixed) // 2]
    model_values = dict(answer.model)
    return {
        n: np.array([model_values.get(_element(n, at).name, 0) for at in product(*map(range, s))], np.int64).reshape(s)
        for n, s in shapes.items()
    }


@lru_cache(maxsize=8)
def _all_written_out(
    layout: Layout, sizes: tuple[tuple[str, int], ...], formulas: tuple[Formula, ...]
) -> tuple[Formula, ...]:
    """The formulas over elements. Several arrays are drawn for the same sizes."""
    known = dict(sizes)
    data = Data(layout, known, {a.name: np.zeros(shape_of(a.extents, known), np.int64) for a in layout.indexes})
    return tuple(part for formula in formulas for part in _written_out(data, formula))


def _element(array: str, at: Sequence[int]) -> Var:
    return Var(f"{array}[{','.join(map(str, at))}]")


def _written_out(data: Data, formula: Formula) -> Iterator[Formula]:
    """The formula over elements: one for each value of its outer variables for which its calls lie in their arrays."""
    names, body = opened(formula)
    for values in _values(data, names, body):
        plain = substitute(body, values)
        plain = substitute(plain, {n: Num(v) for n, v in data.sizes.items()})
        yield _elements(data, _opened(data, plain))


def _values(data: Data, names: tuple[str, ...], body: Formula) -> Iterator[dict[str, Expr]]:
    domain = domain_of(data, names, body)
    if domain is None:
        raise DataError("a variable of a property is not the argument of an array")
    ranges = [range(*domain[n]) for n in names]
    for values, _ in zip(product(*ranges), range(MOST), strict=False):
        yield dict(zip(names, map(Num, values), strict=True))


def _opened(data: Data, formula: Formula) -> Formula:
    """Without quantifiers: what they say for all values."""

    def rule(node: Formula | Expr) -> Formula | None:
        match node:
            case Forall(names, body):
                return And(tuple(substitute(body, v) for v in _values(data, names, body)))
            case Exists(names, body):
                return Or(tuple(substitute(body, v) for v in _values(data, names, body)))
        return None

    opened: Formula = rewrite(rule, formula)
    return opened


def _elements(data: Data, formula: Formula) -> Formula:
    """The formula with an element in place of each call; true where a call lies outside of its array."""
    call = next((c for c in reversed(calls(formula)) if not any(calls(a) for a in c.arguments)), None)
    if call is None:
        return formula
    shape = data.arrays[call.function].shape
    if not any(variables(a) for a in call.arguments):
        at = tuple(_number(a) for a in call.arguments)
        if any(not 0 <= k < n for k, n in zip(at, shape, strict=True)):
            return TRUE
        return _elements(data, _replaced(formula, call, _element(call.function, at)))
    cases: list[Formula] = []
    for at in product(*map(range, shape)):
        here = conjunction([Compare("=", a, Num(k)) for a, k in zip(call.arguments, at, strict=True)])
        cases.append(implies(here, _elements(data, _replaced(formula, call, _element(call.function, at)))))
    return And(tuple(cases))


def _replaced(formula: Formula, call: Call, element: Expr) -> Formula:
    result: Formula = rewrite(lambda n: element if n == call else None, formula)
    return result


def _number(expr: Expr) -> int:
    match expr:
        case Num(value):
            return value
        case Bin(op, left, right):
            return int(apply_operator(op, _number(left), _number(right)))
    raise DataError(f"no number: {expr}")

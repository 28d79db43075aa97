"""The estimated cost of a plan: formulas in the sizes, in nanoseconds.

A formula is an Expr over size names read as real numbers: `/` divides exactly, `log2` is a call. Counts are averages:
a loop over [f(i), f(i + 1)) runs as often as all of f's range divided by its segments; a value is where it is looked
for with the chance (stored values / possible values). They decide between plans that are all right, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from spfgen import tuning
from spfgen.errors import InternalError
from spfgen.facts.formula import ONE, ZERO, Bin, Call, Compare, Expr, Forall, Formula, Num, Var, calls, variables
from spfgen.ir import rewrite
from spfgen.sets.affine import NotAffine, divided, expression
from spfgen.sets.bounds import bounds
from spfgen.sets.uf import comparisons, linear, shifted
from spfgen.space.nodes import Instance


@dataclass(frozen=True)
class CountedSize:
    """What a size of a layout counts: a part of what lies within these extents. A width counts that for `each` position
    along some of them."""

    extents: tuple[str, ...]
    each: tuple[str, ...] = ()


def times(*factors: Expr) -> Expr:
    """The product, with what is 0 or 1 left out; x times y/x is y."""
    result: Expr = ONE
    left = list(factors)
    for k, factor in enumerate(left):
        if isinstance(factor, Bin) and factor.op == "/" and factor.right in left and factor.right != factor:
            left[left.index(factor.right)] = ONE
            left[k] = factor.left
    for factor in left:
        if ZERO in (result, factor):
            return ZERO
        if isinstance(result, Num) and isinstance(factor, Num):
            result = Num(result.value * factor.value)
        elif factor != ONE:
            result = factor if result == ONE else Bin("*", result, factor)
    return result


def plus(*terms: Expr) -> Expr:
    result: Expr = ZERO
    for term in terms:
        if isinstance(result, Num) and isinstance(term, Num):
            result = Num(result.value + term.value)
        elif term != ZERO:
            result = term if result == ZERO else Bin("+", result, term)
    return result


def over(numerator: Expr, denominator: Expr) -> Expr:
    if denominator == ONE or numerator == ZERO:
        return numerator
    return ONE if numerator == denominator else Bin("/", numerator, denominator)


def log2(value: Expr) -> Expr:
    """log2(value + 2): at least 1."""
    return Call("log2", (plus(value, Num(2)),))


THREADS = Call("threads", ())
"""The number of threads of the call."""


def nanoseconds(tenths: int) -> Expr:
    """A constant, given in tenths of a nanosecond."""
    return Num(tenths // 10) if tenths % 10 == 0 else Bin("/", Num(tenths), Num(10))


class Counts:
    """Average counts in one instance."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.sizes = set(instance.sizes)
        self.facts = comparisons(instance.facts)
        self.extents: dict[str, Expr] = {}

    def extent(self, dim: str) -> Expr:
        """How many values a dimension can have: its upper bound in the sizes."""
        if dim not in self.extents:
            extent = self.range(dim)
            if extent is None:
                reach = self.instance.domain.project({*self.sizes, dim}).constraints(dim)
                upper = [expression(divided(e, a).plus(1)) for a, e in bounds(reach, dim)[1] if e.names() <= self.sizes]
                extent = reduce(lambda a, b: Bin("min", a, b), upper) if upper else ONE
            self.extents[dim] = extent
        return self.extents[dim]

    def range(self, dim: str) -> Expr | None:
        """n when the declared range of a call lies in [0, n)."""
        about = [c for c in self.facts if c.value.coefficient(dim) and c.value.names() <= {*self.sizes, dim}]
        lower, upper = bounds(about, dim)
        if not any(not e.terms and e.constant <= 0 for _, e in lower):
            return None
        return next((expression(divided(e, a).plus(1)) for a, e in upper), None)

    def segment(self, dim: str) -> Expr | None:
        """The average length of [f(i), f(i + 1)), for a dimension that is such a call."""
        call = self.instance.calls.get(dim)
        if call is None:
            return None
        parents = [_real(e) for e in self.instance.axioms.extents[call.function]]
        return over(_real(self.extent(dim)), times(*parents))

    def trips(self, low: Iterable[Expr], high: Iterable[Expr]) -> Expr:
        """How often a loop over max(low) <= dim < min(high) runs on average."""
        lows, highs = list(low), list(high)
        for one, further in map(shifted, lows):
            for other, as_far in map(shifted, highs):
                if further == as_far and self._same_function(one, other):
                    length = self.segment(one)
                    if length is not None:
                        return length
        numbers = [e for e in highs if isinstance(e, Num)]
        if numbers and ZERO in lows:
            return min(numbers, key=lambda n: n.value)
        fixed = _least_difference(lows, highs)
        if fixed is not None:
            return Num(fixed)
        top = reduce(lambda a, b: Bin("min", a, b), map(self.typical, highs))
        bottom = reduce(lambda a, b: Bin("max", a, b), map(self.typical, lows))
        if top == bottom:
            return ONE
        return top if bottom == ZERO else Bin("max", Bin("-", top, bottom), ONE)

    def share(self, dim: str) -> Expr | None:
        """The average of a call of which facts say that one after the other fits into a range: f(i + 1) - f(i) is
        so many times w(i), so that all of them together are no more than the range of f."""
        call = self.instance.calls.get(dim)
        for formula in self.instance.axioms.formulas if call is not None else ():
            widths = _widths(formula)
            if widths is None or call is None or widths[1] != call.function:
                continue
            pointer, _, factor = widths
            whole = next((n for n, c in self.instance.calls.items() if c.function == pointer), None)
            if whole is not None:
                parents = [_real(e) for e in self.instance.axioms.extents[call.function]]
                return over(_real(self.extent(whole)), times(Num(factor), *parents))
        return None

    def _same_function(self, a: str, b: str) -> bool:
        calls = self.instance.calls
        return a in calls and b in calls and calls[a].function == calls[b].function

    def typical(self, expr: Expr) -> Expr:
        """The expression with half of its extent for each dimension that is not a size."""
        match expr:
            case Var(name) if name in self.instance.quotients:
                numerator, divisor = self.instance.quotients[name]
                return over(self.typical(numerator), Num(divisor))
            case Var(name) if (mean := self.share(name)) is not None:
                return mean
            case Var(name) if name not in self.sizes:
                return Bin("/", self.extent(name) if name in self.instance.domain.space.position else ONE, Num(2))
            case Bin("quot", left, right):
                return Bin("/", self.typical(left), self.typical(right))
            case Bin("rem" | "%", _, right):
                return Bin("/", self.typical(right), Num(2))
            case Bin(op, left, right):
                return Bin(op, self.typical(left), self.typical(right))
        return expr


def _widths(formula: Formula) -> tuple[str, str, int] | None:
    """(f, w, a) where the formula says that f(i + 1) = f(i) + a*w(i), or more, for all i."""
    body = formula.body if isinstance(formula, Forall) else formula
    if not isinstance(body, Compare) or body.op not in ("=", ">=", "<="):
        return None
    call_of = {f"#{k}": call for k, call in enumerate(dict.fromkeys(calls(body)))}
    names = {call: name for name, call in call_of.items()}

    def named(node: Any) -> Expr | None:
        return Var(names[node]) if isinstance(node, Call) and node in names else None

    try:
        left, right = (linear(rewrite(named, e)) for e in (body.left, body.right))
        value = left - right if body.op != "<=" else right - left
        terms = {str(name): factor for name, factor in value.terms}
        if value.constant or terms.keys() != call_of.keys() or len(terms) != 3:
            return None
        for sign in (1, -1) if body.op == "=" else (1,):
            signed = {n: sign * factor for n, factor in terms.items()}
            after = next((call_of[n] for n, factor in signed.items() if factor == 1), None)
            before = next(
                (call_of[n] for n, factor in signed.items() if after and factor == -1 and _follows(call_of[n], after)),
                None,
            )
            width = next((n for n in signed if call_of[n] not in (after, before)), "")
            if after and before and width and signed[width] < 0 and call_of[width].arguments == before.arguments:
                return after.function, call_of[width].function, -signed[width]
    except NotAffine:
        return None
    return None


def _follows(before: Call, after: Call) -> bool:
    """Whether one call is of the next argument of the other."""
    if before.function != after.function or len(after.arguments) != 1:
        return False
    step = linear(after.arguments[0]) - linear(before.arguments[0])
    return not step.terms and step.constant == 1


def _least_difference(lows: Sequence[Expr], highs: Sequence[Expr]) -> int | None:
    """The length of a tile: of [low, high) with low = f and high = f + length among others."""
    try:
        differences = [linear(b) - linear(a) for a in lows for b in highs]
    except NotAffine:
        return None
    return min((d.constant for d in differences if not d.terms and d.constant > 0), default=None)


def _real(expr: Expr) -> Expr:
    """An extent of an index array: the added one of a pointer array does not count."""
    try:
        value = linear(expr)
    except NotAffine:
        return expr
    return expression(value.plus(-1) if value.constant == 1 else value)


def cheapest(costs: Sequence[Sequence[Expr]], stored: Mapping[str, CountedSize], limit: int) -> list[tuple[int, ...]]:
    """The combinations (one number for each find) that are cheapest for some sizes, at most `limit` of them.

    Sizes are sampled; combinations are taken greedily until each sample is served within VARIANT_GAIN of its best.
    """
    if all(len(c) == 1 for c in costs):
        return [(0,) * len(costs)]
    wanted = names([c for each in costs for c in each])
    prices = [[_compiled(c, wanted) for c in each] for each in costs]
    points = [[[price(*sizes) for price in each] for each in prices] for sizes in _samples(wanted, stored)]
    bests = [tuple(min(range(len(c)), key=c.__getitem__) for c in point) for point in points]
    least = [sum(min(c) for c in point) for point in points]
    candidates = sorted(set(bests), key=lambda b: (-bests.count(b), b))
    totals = {b: [sum(c[n] for c, n in zip(point, b, strict=True)) for point in points] for b in candidates}
    taken: list[tuple[int, ...]] = []
    for _ in range(limit):
        served = [min([totals[b][k] for b in taken], default=math.inf) for k in range(len(points))]
        if all(s <= tuning.VARIANT_GAIN * m for s, m in zip(served, least, strict=True)):
            break

        def loss(b: tuple[int, ...], served: list[float] = served) -> float:
            total = totals[b]
            return sum(
                math.log(max(min(s, t), 1e-9) / max(m, 1e-9)) for s, t, m in zip(served, total, least, strict=True)
            )

        taken.append(min(candidates, key=loss))
    return taken


def mean_ratio(one: Expr, two: Expr, stored: Mapping[str, CountedSize]) -> float:
    """How many times the first costs what the second does: the geometric mean over sampled sizes."""
    wanted = names([one, two])
    first, second = _compiled(one, wanted), _compiled(two, wanted)
    pairs = [(first(*s), second(*s)) for s in _samples(wanted, stored)]
    ratios = [math.log(a / b) for a, b in pairs if a > 0 and b > 0]  # else loops are empty: sizes that do not fit
    return math.exp(sum(ratios) / max(1, len(ratios)))


def is_ever_less(one: Expr, two: Expr, stored: Mapping[str, CountedSize]) -> bool:
    """Whether the first costs less than the second for some of the sampled sizes."""
    wanted = names([one, two])
    first, second = _compiled(one, wanted), _compiled(two, wanted)
    return any(first(*s) < second(*s) for s in _samples(wanted, stored))


def evaluated(cost: Expr, sizes: Mapping[str, float]) -> float:
    """What a formula gives for these sizes. Raises KeyError where one is missing."""
    wanted = names([cost])
    return _compiled(cost, wanted)(*[sizes[n] for n in wanted])


def _samples(wanted: Sequence[str], stored: Mapping[str, CountedSize]) -> list[list[float]]:
    """Sizes spread over the magnitudes that occur: extents up to ten millions, of what could be stored a part."""
    result = []
    everything = sorted({*wanted, *(e for s in wanted if s in stored for e in stored[s].extents)})
    extents_asked = [(position, name) for position, name in enumerate(everything) if name not in stored]
    counts_asked = [(position, name, stored[name]) for position, name in enumerate(n for n in wanted if n in stored)]
    for k in range(tuning.SAMPLED_SIZES):
        sizes = {name: 10.0 ** (1 + 6 * _spread(k, position)) for position, name in extents_asked}
        for position, name, counted in counts_asked:
            each = math.prod(sizes.get(e, 1.0) for e in counted.each)
            most = math.prod(sizes.get(e, 1.0) for e in counted.extents) / each
            longest = max((sizes.get(e, 1.0) for e in counted.extents), default=1.0) / each
            part = most * (0.1 + 0.8 * _spread(k, position + 11))  # where all magnitudes are too large: some density
            sizes[name] = max(1.0, min(part, longest * 10.0 ** (2 - 6 * _spread(k, position + 7))))
        result.append([sizes[n] for n in wanted])
    return result


def _spread(k: int, position: int) -> float:
    """A number in [0, 1), evenly spread over k, different for each position (additive recurrence)."""
    return (0.5 + (k + 1) * (0.6180339887498949 * (position + 1) % 1.0)) % 1.0


def _compiled(cost: Expr, wanted: Sequence[str]) -> Callable[..., float]:
    """The formula as a function of the sizes."""
    places = {n: f"s{k}" for k, n in enumerate(wanted)}
    code = f"lambda {', '.join(places.values())}: {_python(cost, places)}"
    result: Callable[..., float] = eval(code, {"log2": _log2, "min": min, "max": max, "over": _over})
    return result


def _log2(number: float) -> float:
    return math.log2(max(number, 1.0))


def _over(a: float, b: float) -> float:
    return a / max(b, 1.0)


def _python(cost: Expr, places: Mapping[str, str]) -> str:
    match cost:
        case Num(number):
            return repr(float(number))
        case Var(name):
            return places[name]
        case Call("threads", ()):
            return repr(float(tuning.SAMPLED_THREADS))
        case Call("log2", (inner,)):
            return f"log2({_python(inner, places)})"
        case Bin("min" | "max" as op, left, right):
            return f"{op}({_python(left, places)}, {_python(right, places)})"
        case Bin("/" | "quot", left, right):
            return f"over({_python(left, places)}, {_python(right, places)})"
        case Bin("-", left, right):  # sizes are sampled one by one: a loop that ends before it begins costs nothing
            return f"max({_python(left, places)} - {_python(right, places)}, 0.0)"
        case Bin("+" | "*" as op, left, right):
            return f"({_python(left, places)} {op} {_python(right, places)})"
    raise InternalError(f"no cost for {cost!r}")


def simplified(cost: Expr) -> str:
    """The formula as a person reads it."""
    import sympy  # here alone: it takes longer to import than a kernel takes to generate

    symbols: dict[str, Any] = {}

    def term(node: Expr) -> Any:
        match node:
            case Num(number):
                return sympy.Integer(number)
            case Var(name):
                return symbols.setdefault(name, sympy.Symbol(name, positive=True))
            case Call("threads", ()):
                return sympy.Symbol("threads", positive=True)
            case Call("log2", (inner,)):
                return sympy.Function("log2")(term(inner))
            case Bin("min" | "max" as op, left, right):
                return (sympy.Min if op == "min" else sympy.Max)(term(left), term(right), evaluate=False)
            case Bin("+", left, right):
                return term(left) + term(right)
            case Bin("-", left, right):
                return term(left) - term(right)
            case Bin("*", left, right):
                return term(left) * term(right)
            case Bin("/" | "quot", left, right):
                return term(left) / term(right)
        raise InternalError(f"no cost for {node!r}")

    return str(sympy.N(sympy.expand(term(cost)), 3))


def names(costs: Iterable[Expr]) -> list[str]:
    """The sizes that formulas speak of, sorted."""
    return sorted(variables(*costs))

"""How the facts that a layout declares are checked on real arrays: each in linear time where a proof allows it.

A fact about single values is checked value by value. For one about pairs, Z3 is asked whether it follows from its
instances for neighbours (by induction on the distance of the pair), or else for pairs with equal keys that follow one
another. What can neither be proved is tried for all pairs, within a limit of work. Proofs may use the other facts that
are checked in full, never in a circle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations

from spfgen.facts.domains import arguments_inside
from spfgen.facts.formula import (
    ONE,
    Bin,
    Call,
    Compare,
    Exists,
    Expr,
    Forall,
    Formula,
    Not,
    Num,
    Var,
    calls,
    conjunction,
    conjuncts,
    implies,
    rename,
    substitute,
    variables,
)
from spfgen.facts.prove import Facts, implied
from spfgen.ir import walk
from spfgen.layout.loops import Loop, QuantifierLoops, own_calls, read, scan, solved_all, split
from spfgen.layout.nodes import IndexArray, Layout, Property
from spfgen.sets.affine import NotAffine

WINDOWS = (1, 2, 3)
"""Distances up to which neighbours are looked at."""


ONE_BY_ONE = "checked one by one"
ENDS = 4
"""Loops that differ by at most so many places at an end are made in one pass."""


@dataclass(frozen=True)
class CheckPart:
    """Instances of a fact: for the values that `scan` runs through, its variables are `values`."""

    values: tuple[tuple[str, Expr], ...]
    scan: QuantifierLoops


@dataclass(frozen=True)
class SegmentCheck(CheckPart):
    """Two loops, the inner one from `low` to before `high`, which need the outer variable; what is checked does not.

    Besides the inner variable is between `clip`. Proved: a segment, which may end before it begins, is followed by one
    that does not begin before either place. So what is wrong inside of segments can be counted in one loop over all
    places, less what is wrong between two segments (where there is at most one place, if `is_close`).
    """

    low: Expr
    high: Expr
    clip: Loop
    is_close: bool


@dataclass(frozen=True)
class GroupCheck:
    """The values of all variables but one, `second`, which follows `first` among those where all `keys` are equal.

    At such a pair `body` is checked; `inside` says that its calls are inside their arrays.
    """

    first: str
    second: str
    keys: tuple[Expr, ...]
    scan: QuantifierLoops
    inside: tuple[Formula, ...]
    body: Formula
    limits: tuple[Expr, Expr] | None = None
    """The only key is at least the first and less than the second, and no two may be equal: a set of keys is enough."""


@dataclass(frozen=True)
class Check:
    """How one fact is checked. `parts` are empty when it cannot be checked at all.

    `is_linear`: the work grows with the sizes of the arrays, whatever they hold. `stage`: the checks of a stage are
    made only when those before have found nothing, so that they can rely on ranges, and on the order of pointers.
    """

    array: str
    fact: Property
    names: tuple[str, ...]
    body: Formula
    parts: tuple[CheckPart | GroupCheck, ...]
    is_linear: bool
    stage: int
    because: str
    along: tuple[Property, ...] = ()
    """The facts of the checks right before this one that are made in the same pass over memory."""


def opened(formula: Formula) -> tuple[tuple[str, ...], Formula]:
    """The variables of the leading `forall`s, and what is below."""
    names: tuple[str, ...] = ()
    while isinstance(formula, Forall):
        names += formula.variables
        formula = formula.body
    return names, formula


_KEPT: dict[int, tuple[Layout, tuple[Check, ...]]] = {}


def checks_of(layout: Layout) -> tuple[Check, ...]:
    """The checks of all that is declared, in the order in which they are made; found once for each layout."""
    entry = _KEPT.get(id(layout))  # a layout is large: its hash takes longer than small arrays take to check
    if entry is None or entry[0] is not layout:
        if len(_KEPT) >= 256:
            _KEPT.clear()
        entry = _KEPT[id(layout)] = (layout, _checks(layout))
    return entry[1]


@lru_cache(maxsize=256)
def _checks(layout: Layout) -> tuple[Check, ...]:
    deriving = _Deriving(layout)
    waiting: dict[int, tuple[IndexArray, Property]] = {}
    checks_by_fact: dict[int, Check] = {}
    facts = [(a, f) for kind in ("ranges", "properties") for a in layout.indexes for f in getattr(a, kind)]
    for k, (array, fact) in enumerate(facts):
        check = deriving.each(array, fact)
        if check is None:
            waiting[k] = (array, fact)
        else:
            checks_by_fact[k] = check
            deriving.known.append(fact.formula)
    # Groups need more memory than neighbours, so they come when no more facts are proved from neighbours.
    for method in (deriving.neighbours, deriving.groups, deriving.windows):
        progress = True
        while progress:
            progress = False
            for k, (array, fact) in list(waiting.items()):
                check = method(array, fact)
                if check is not None:
                    checks_by_fact[k] = check
                    deriving.known.append(fact.formula)
                    del waiting[k]
                    progress = True
    checks_by_fact |= {k: deriving.all(*waiting[k]) for k in waiting}
    checks = sorted((checks_by_fact[k] for k in range(len(facts))), key=lambda c: c.stage)
    return _together(deriving.with_limits(deriving.in_segments(checks)))


def _together(checks: list[Check]) -> tuple[Check, ...]:
    """One pass over memory for the range of an array and its segments, and one for loops over the same places."""
    for check in filter(_is_segments, list(checks)):
        ranges = [c for c in checks if c.array == check.array and c.stage == 0 and _can_ride(c, checks)]
        if ranges:
            place = checks.index(check)
            along = replace(check, along=(ranges[0].fact,))
            checks[place : place + 1] = [replace(ranges[0], stage=check.stage), along]
            checks.remove(ranges[0])
    passes: dict[object, list[Check]] = {}
    for check in checks:
        passes.setdefault(_places(check) or id(check), []).append(check)
    return tuple(c for members in _in_blocks(list(passes.values())) for c in _joined(members))


def _in_blocks(passes: list[list[Check]]) -> list[list[Check]]:
    """What is asked of the bounds of segments is checked in the pass over segments, block by block ahead of them."""
    number = next((k for k, members in enumerate(passes) if _is_segments(members[-1])), None)
    if number is None:
        return passes
    (within,) = passes[number]
    first = number - len(within.along)
    over, _ = within.parts[0].scan.loops
    for k, members in enumerate(passes[:first]):
        between = [c for others in passes[k + 1 : first] for c in others]
        arrays = {c.array for c in members}
        late = any(c.stage > 1 or arrays & _computed(c.body) for c in between)
        if not late and within.array not in arrays and all(_places(c) and _reaches(c, over) for c in members):
            along = (*(c.fact for c in members), *within.along)
            moved = [[c] for c in members]
            others = [*passes[:k], *passes[k + 1 : first], *moved, *passes[first:number]]
            return [*others, [replace(within, along=along)], *passes[number + 1 :]]
    return passes


def _reaches(check: Check, over: Loop) -> bool:
    """Whether a check of one loop is made for each value of another loop, and few others."""
    if len(over.low) != 1 or len(over.high) != 1:
        return False
    (loop,) = check.parts[0].scan.loops
    try:
        low = read(over.low[0], {}) - read(loop.low[0], {})
        high = read(loop.high[0], {}) - read(over.high[0], {})
    except NotAffine:
        return False
    return not low.terms and not high.terms and 0 <= low.constant <= ENDS and 0 <= high.constant <= ENDS


def _joined(members: list[Check]) -> list[Check]:
    *others, last = members
    return [*others, replace(last, along=tuple(o.fact for o in others))] if others else members


def _is_segments(check: Check) -> bool:
    return len(check.parts) == 1 and isinstance(check.parts[0], SegmentCheck)


def _is_loop(check: Check) -> bool:
    """Whether it is one loop, in which nothing is asked before an array is read."""
    scans = [p.scan for p in check.parts if isinstance(p, CheckPart)]
    if len(scans) != 1 or len(check.parts) != 1 or _has_quantifier(check.body):
        return False
    return len(scans[0].loops) == 1 and not scans[0].guards and not scans[0].before and not scans[0].jumps


def _limits(check: Check) -> tuple[Expr, Expr] | None:
    """The least value of an array and what all are below, when the check is of such a range."""
    if not _is_loop(check):
        return None
    low = high = None
    for comparison in conjuncts(check.parts[0].scan.body):
        match comparison:
            case Compare(op, Call(_, (Var(_),)), bound) if not calls(bound) and not variables(bound) & set(check.names):
                match op:
                    case ">=":
                        low = bound
                    case ">":
                        low = Bin("+", bound, ONE)
                    case "<":
                        high = bound
                    case "<=":
                        high = Bin("+", bound, ONE)
    return None if low is None or high is None else (low, high)


def _can_ride(check: Check, checks: Sequence[Check]) -> bool:
    """Whether it is a loop, and nothing is computed with the array's values that could rely on what it finds."""
    return _is_loop(check) and not any(check.array in _computed(other.body) for other in checks if other.stage)


def _computed(body: Formula) -> set[str]:
    """The arrays whose values are part of a sum, or of an argument."""
    return {c.function for node in walk(body) if isinstance(node, Bin | Call) for c in calls(node) if c != node}


def _places(check: Check) -> object:
    """What loops over the same places, but for some at the ends, have in common; None for other checks.

    Only where nothing is computed with values: then nothing overflows before ranges are known.
    """
    if not _is_loop(check) or check.along or check.stage > 1:
        return None
    (loop,) = check.parts[0].scan.loops
    if _computed(check.parts[0].scan.body) or len(loop.low) != 1 or not isinstance(loop.low[0], Num):
        return None
    try:
        high = read(loop.high[0], {})
    except NotAffine:
        return None
    near = 0 <= loop.low[0].value <= ENDS and abs(high.constant) <= ENDS
    return high.terms if len(loop.high) == 1 and near else None


class _Deriving:
    """Finds a check for a fact. `known` are the facts whose checks are complete."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.extents = {a.name: a.extents for a in layout.indexes}
        self.known: list[Formula] = []
        self.ranges = {id(r) for a in layout.indexes for r in a.ranges}

    def check(
        self, array: IndexArray, fact: Property, parts: Sequence[CheckPart | GroupCheck], because: str, linear: bool
    ) -> Check:
        names, body = opened(fact.formula)
        stage = 0 if id(fact) in self.ranges else 1 + any(p.scan.jumps for p in parts)
        return Check(array.name, fact, names, body, tuple(parts), linear, stage, because)

    def each(self, array: IndexArray, fact: Property) -> Check | None:
        """All instances, when there are no more than an array has elements."""
        names, body = opened(fact.formula)
        if _has_quantifier(body) or not _is_covered(names, body):
            return None
        scanned = self.scanned(names, body, {})
        return self.check(array, fact, [scanned], ONE_BY_ONE, True) if scanned else None

    def all(self, array: IndexArray, fact: Property) -> Check:
        """All instances, however many."""
        names, body = opened(fact.formula)
        scanned = self.scanned(names, body, {}) if _is_bounded_inside(body, self.extents) else None
        reason = "checked for all values, if they are not too many: no fewer are known to be enough"
        if scanned is None:
            reason = "not checked: a variable has no bounds, as it is no argument of an array"
        return self.check(array, fact, [scanned] if scanned else [], reason, False)

    def scanned(self, names: Sequence[str], body: Formula, values: dict[str, Expr]) -> CheckPart | None:
        left = [n for n in names if n not in values]
        loops = scan(left, substitute(body, values), self.extents)
        if loops is None:
            return None
        return CheckPart(tuple((n, values.get(n, Var(n))) for n in names), loops)

    # --- segments -------------------------------------------------------------------------------------

    def in_segments(self, checks: list[Check]) -> list[Check]:
        """The checks, those of two loops in one pass over the segments where that is proved to be the same."""
        before = [c.fact.formula for c in checks if c.parts and not any(p.scan.jumps for p in c.parts) and c.is_linear]
        facts = Facts(tuple(before), self.extents)
        result = []
        for check in checks:
            part = check.parts[0] if len(check.parts) == 1 else None
            segments = self.segments(check, part, facts) if isinstance(part, CheckPart) and part.scan.jumps else None
            result.append(replace(check, parts=(segments,), is_linear=True) if segments else check)
        return result

    def segments(self, check: Check, part: CheckPart, facts: Facts) -> SegmentCheck | None:
        nest = part.scan
        if len(nest.loops) != 2 or nest.guards or _has_quantifier(nest.body):
            return None
        outer, inner = nest.loops
        bounds = (*outer.low, *outer.high)
        if outer.variable in variables(nest.body) or any(calls(b) for b in bounds):
            return None
        lows, clip_lows = _parted(inner.low, outer.variable)
        highs, clip_highs = _parted(inner.high, outer.variable)
        if not (lows and clip_lows and highs and clip_highs):
            return None
        low, high = _folded("max", lows), _folded("min", highs)
        following = {outer.variable: _plus(outer.variable, 1)}
        inside = [
            f for e in (low, high, substitute(low, following)) for f in arguments_inside(own_calls(e), self.extents)
        ]
        end, after = Bin("max", low, high), substitute(low, following)
        about = f"check of `{check.fact.text}`: segments follow one another"
        if not implied(inside, facts, Compare("<=", end, after), about=about).proved:
            return None
        about = f"check of `{check.fact.text}`: at most one place is between two segments"
        close = implied(inside, facts, Compare("<=", after, Bin("+", end, ONE)), about=about).proved
        clip = Loop(inner.variable, clip_lows, clip_highs)
        return SegmentCheck(part.values, nest, low, high, clip, close)

    # --- sets -----------------------------------------------------------------------------------------

    def with_limits(self, checks: list[Check]) -> list[Check]:
        """The checks, those of pairs with equal keys that are all wrong with the range of the key."""
        return [self.limited(check, checks) for check in checks]

    def limited(self, check: Check, checks: Sequence[Check]) -> Check:
        part = check.parts[-1] if check.parts else None
        if not isinstance(part, GroupCheck) or len(part.keys) != 1 or len(part.scan.loops) != 1:
            return check
        (key,) = part.keys
        if not isinstance(key, Call) or key.arguments != (Var(part.first),):
            return check
        if any(_is_segments(c) and c.array == key.function for c in checks):
            return check  # its range is known later
        limits = next((interval for c in checks if c.array == key.function and (interval := _limits(c))), None)
        same = Compare("=", key, rename(key, {part.first: part.second}))
        pair = [Compare("<", Var(part.first), Var(part.second)), same, *part.inside]
        about = f"check of `{check.fact.text}`: no two keys may be equal"
        facts = Facts((), self.extents)
        if limits is None or not implied(pair, facts, Not(part.body), about=about).proved:
            return check
        return replace(check, parts=(*check.parts[:-1], replace(part, limits=limits)))

    # --- pairs ----------------------------------------------------------------------------------------

    def neighbours(self, array: IndexArray, fact: Property) -> Check | None:
        return self.near(array, fact, 1)

    def windows(self, array: IndexArray, fact: Property) -> Check | None:
        checks = (self.near(array, fact, width) for width in WINDOWS[1:])
        return next((c for c in checks if c is not None), None)

    def near(self, array: IndexArray, fact: Property, width: int) -> Check | None:
        """Pairs of a distance up to `width`, when Z3 proves that the others follow."""
        names, body = opened(fact.formula)
        for first, second in _pairs(names, body):
            pair = _Pair(first, second, body, self.extents, Facts(tuple(self.known), self.extents), fact.text)
            directions = [pair] if pair.covers_turned() else [pair, pair.turned()]
            if not all(p.follows_from(width) for p in directions):
                continue
            steps = [{p.second: _plus(p.first, d)} for p in directions for d in range(1, width + 1)]
            if not pair.holds_alone():
                steps.insert(0, {second: Var(first)})
            parts = [self.scanned(names, body, step) for step in steps]
            if all(parts):
                what = "neighbours" if width == 1 else f"pairs up to {width} apart"
                because = f"checked for {what}: proved to imply it for all {first}, {second}"
                covered = all(_is_covered([n for n in names if n != next(iter(s))], body) for s in steps)
                linear = covered and not any(p.scan.jumps for p in parts if p)
                return self.check(array, fact, [p for p in parts if p], because, linear)
        return None

    def groups(self, array: IndexArray, fact: Property) -> Check | None:
        """Pairs with equal keys that follow one another, when Z3 proves that the others follow."""
        names, body = opened(fact.formula)
        for first, second in _pairs(names, body):
            pair = _Pair(first, second, body, self.extents, Facts(tuple(self.known), self.extents), fact.text)
            keys = pair.keys()
            if not keys or not pair.covers_turned() or not pair.follows_in_groups(keys):
                continue
            bounds = conjunction(pair.bounds_of_both())
            equal: list[Formula] = [Compare("=", k, k) for k in keys]
            outer = [n for n in names if n not in (first, second)]
            scanned = scan([*outer, first], implies(bounds, conjunction(equal)), self.extents)
            if scanned is None or scanned.loops[-1].variable != first:
                continue
            parts: list[CheckPart | GroupCheck] = []
            if not pair.holds_alone():
                alone = self.scanned(names, body, {second: Var(first)})
                if alone is None:
                    continue
                parts.append(alone)
            inside = arguments_inside(own_calls(body), self.extents)
            parts.append(
                GroupCheck(
                    first,
                    second,
                    keys,
                    scanned,
                    tuple(dict.fromkeys(p for f in inside for p in conjuncts(f))),
                    solved_all(body),
                )
            )
            because = (
                f"checked for pairs that follow one another among equal keys: proved to imply it for all {first}, "
            )
            return self.check(array, fact, parts, because + second, not scanned.jumps)
        return None


@dataclass(frozen=True)
class _Pair:
    """The instances of `body` for first < second, and what is provable of them."""

    first: str
    second: str
    body: Formula
    extents: dict[str, tuple[Expr, ...]]
    facts: Facts
    text: str

    def at(self, first: Expr, second: Expr) -> Formula:
        instance: Formula = substitute(self.body, {self.first: first, self.second: second})
        return instance

    def assumed(self, first: Expr, second: Expr) -> Formula:
        """The instance as a hypothesis: it says something only where its calls are inside."""
        body = self.at(first, second)
        return implies(conjunction(arguments_inside(own_calls(body), self.extents)), body)

    def turned(self) -> _Pair:
        """The instances for first > second."""
        return _Pair(self.second, self.first, self.body, self.extents, self.facts, self.text)

    def proved(self, assumptions: Sequence[Formula], goal: Formula, why: str) -> bool:
        inside = arguments_inside(own_calls(self.body), self.extents)
        about = f"check of `{self.text}`: {why}"
        return implied([*inside, *assumptions], self.facts, goal, thorough=True, about=about).proved

    def covers_turned(self) -> bool:
        """Whether the instances for first > second hold with those for first < second."""
        p, q = Var(self.first), Var(self.second)
        above = Compare("<", q, p)
        return self.proved([above, self.assumed(q, p)], self.body, f"{self.second} < {self.first}")

    def holds_alone(self) -> bool:
        """Whether the instances for first = second hold anyway."""
        p, q = Var(self.first), Var(self.second)
        return self.proved([Compare("=", p, q)], self.body, f"{self.first} = {self.second}")

    def follows_from(self, width: int) -> bool:
        """Whether an instance with second - first > width follows from those of smaller distances."""
        p, q = Var(self.first), Var(self.second)
        points = [p, *(_plus(self.first, d) for d in range(1, width + 1))]
        points += [*(Bin("-", q, Num(d)) for d in range(width, 0, -1)), q]
        assumptions: list[Formula] = [Compare("<", Bin("+", p, Num(width)), q)]
        for a, b in permutations(points, 2):
            if (a, b) == (p, q) or points.index(a) > points.index(b):
                continue
            nearer: list[Formula] = [Compare("<", a, b), Compare("<", Bin("-", b, a), Bin("-", q, p))]
            assumptions.append(implies(conjunction(nearer), self.assumed(a, b)))
        return self.proved(assumptions, self.body, f"neighbours imply it for all {self.first} < {self.second}")

    def keys(self) -> tuple[Expr, ...]:
        """Expressions of `first` that the conditions want equal at `second`."""
        keys: dict[Expr, None] = {}
        for condition in split(self.body)[0]:
            match condition:
                case Compare("=", a, b):
                    for one, other in ((a, b), (b, a)):
                        if self._is_moved(one, other):
                            keys[one] = None
        return tuple(keys)

    def _is_moved(self, a: Expr, b: Expr) -> bool:
        """Whether `b` is `a` at the second variable."""
        return self.first in variables(a) and bool(rename(a, {self.first: self.second}) == b)

    def follows_in_groups(self, keys: Sequence[Expr]) -> bool:
        """Whether an instance follows from those to and from a place between that has the same keys."""
        between = Var(f"{self.first}'")
        p, q = Var(self.first), Var(self.second)
        moved = [substitute(k, {self.first: between}) for k in keys]
        inside = arguments_inside([c for k in moved for c in own_calls(k)], self.extents)
        same: list[Formula] = [Compare("=", k, m) for k, m in zip(keys, moved, strict=True)]
        ordered = [Compare("<", p, between), Compare("<", between, q)]
        assumptions = [*ordered, *inside, *same, self.assumed(p, between), self.assumed(between, q)]
        return self.proved(assumptions, self.body, "pairs that follow one another among equal keys imply it for all")

    def bounds_of_both(self) -> list[Formula]:
        """Conditions, written for `first`, that both variables of a pair satisfy."""
        conditions = split(self.body)[0]
        p, q = Var(self.first), Var(self.second)
        bounds: dict[Formula, None] = {}
        for condition in conditions:
            if {self.first, self.second} <= variables(condition):
                continue
            of_first = rename(condition, {self.second: self.first})
            goal = conjunction([of_first, rename(of_first, {self.first: self.second})])
            if self.proved([Compare("<", p, q), *conditions], goal, "both places satisfy its bounds"):
                bounds[of_first] = None
        return list(bounds)


def _plus(name: str, distance: int) -> Expr:
    return Bin("+", Var(name), ONE if distance == 1 else Num(distance))


def _pairs(names: Sequence[str], body: Formula) -> Iterator[tuple[str, str]]:
    """Pairs of variables of which a condition says the order, or such that a call of one stands for the other, too."""
    if _has_quantifier(body):
        return
    occurring = calls(body)
    ordered = set(_ordered(body))
    for first, second in permutations(names, 2):
        if names.index(first) > names.index(second) and (first, second) not in ordered:
            continue
        if (second, first) in ordered:
            continue
        moved = any(rename(a, {first: second}) == b for a in occurring for b in occurring if first in variables(a))
        if moved or (first, second) in ordered:
            yield first, second


def _ordered(body: Formula) -> Iterator[tuple[str, str]]:
    """The pairs of variables of which a condition says that the first is less than the second."""
    for condition in split(body)[0]:
        match condition:
            case Compare("<" | "<=", Var(a), Var(b)) | Compare(">" | ">=", Var(b), Var(a)):
                yield a, b


def _parted(bounds: Sequence[Expr], name: str) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """(those that speak of the name, the others)"""
    about_name = tuple(b for b in bounds if name in variables(b))
    return about_name, tuple(b for b in bounds if b not in about_name)


def _folded(op: str, parts: Sequence[Expr]) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = Bin(op, result, part)
    return result


def _is_covered(names: Sequence[str], body: Formula) -> bool:
    """Whether there is a call that is another one for all other values of the names."""
    for call in calls(body):
        names_of_arguments = [variables(a) & set(names) for a in call.arguments]
        if (
            all(len(o) <= 1 for o in names_of_arguments)
            and set(names) <= set().union(*names_of_arguments)
            and not any(map(calls, call.arguments))
        ):
            return True
    return not names


def _has_quantifier(body: Formula) -> bool:
    return any(isinstance(n, Forall | Exists) for n in walk(body))


def _is_bounded_inside(body: Formula, extents: dict[str, tuple[Expr, ...]]) -> bool:
    """Whether the variables of all quantifiers inside the body have bounds."""
    for node in walk(body):
        if not isinstance(node, Forall | Exists):
            continue
        if scan(node.variables, node.body, extents, some=isinstance(node, Exists)) is None:
            return False
    return True

"""The extents of indices and tensors, and the ranges of indices that stand alone nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from spfgen.facts.formula import Bin, Compare, Expr, Formula, Num, Var, conjuncts, variables
from spfgen.facts.formula import evaluate as evaluate_expr
from spfgen.ir import walk
from spfgen.lang import nodes as n
from spfgen.lang.blocks import all_steps
from spfgen.lang.oracle.functions import NumpyTypes, dtype_of
from spfgen.lang.oracle.tree import accesses_of, conditions_of, named_by, nodes_of, used_in, values_of

Array = npt.NDArray[Any]
Limits = tuple[float, float]


@dataclass
class IndexRanges:
    """`sizes` are names of numbers; `given` extents of indices that the caller says. `extents` are found, and `limits`,
    both ends included, for all indices."""

    tensors: dict[str, Array]
    fills: dict[str, Any]
    sizes: dict[str, int]
    given: dict[str, int]
    declared: Mapping[str, n.TensorDecl]
    stored: dict[str, Any] = field(default_factory=dict)
    lets: dict[str, Any] = field(default_factory=dict)
    """The values of scalars that nothing changes."""
    absent_lets: dict[str, Any] = field(default_factory=dict)
    """Whether these are made of fills alone."""
    extents: dict[str, int] = field(default_factory=dict)
    limits: dict[str, Limits] = field(default_factory=dict)
    shapes: dict[str, list[int | None]] = field(default_factory=dict)
    repeating: int = 0
    """How many `while` loops the step stands in."""

    def read_extents(self) -> None:
        """The sizes that declared extents name, and the extents of tensors that are not passed."""
        for name, declaration in self.declared.items():
            array = self.tensors.get(name)
            if declaration.extents is None or array is None:
                continue
            for extent, actual in zip(declaration.extents, array.shape, strict=True):
                if isinstance(extent, Var):
                    self.sizes.setdefault(extent.name, actual)
                if self.expr(extent, {}) != actual:
                    raise ValueError(f"expected another extent of {name} than {actual}")

    def expr(self, expr: Expr, indices: Mapping[str, Any]) -> Any:
        def lookup(name: str) -> Any:
            if name in indices:
                return indices[name]
            if name in self.sizes:
                return self.sizes[name]
            raise ValueError(f"expected a number for `{name.partition('.')[0]}`")

        def call(name: str, _: Any) -> Any:
            raise ValueError(f"expected no call of `{name}` in a subscript")

        return evaluate_expr(expr, lookup, call)

    def prepare(self, steps: Sequence[Any]) -> None:
        """Find the extents of all indices and of the tensors that are made, and make these."""
        self.find(steps)
        self.make(steps)

    def find(self, steps: Sequence[Any]) -> None:
        """Find the extents of all indices, and the shapes of the tensors that are made."""
        accesses = [a for s in all_steps(steps) for a in accesses_of(s)]
        for access in accesses:
            rank = len(access.subscripts)
            if access.tensor in self.tensors:
                known: list[int | None] = list(self.tensors[access.tensor].shape)
            else:
                declaration = self.declared.get(access.tensor)
                known = [None] * rank
                if declaration is not None and declaration.extents is not None:
                    known = [int(self.expr(e, {})) for e in declaration.extents]
            shape = self.shapes.setdefault(access.tensor, known)
            if len(shape) != rank:
                raise ValueError(f"{access.tensor}: expected {rank} dimensions, not {len(shape)}")
        self.solve(steps, accesses)
        self.bound(steps, accesses)
        self.reach(accesses)

    def solve(self, steps: Sequence[Any], accesses: Sequence[n.Access]) -> None:
        """Extents from extents, until nothing is new."""
        nodes = [v for s in all_steps(steps) for value in values_of(s) for v in nodes_of(value)]
        for name in {i for a in accesses for s in a.subscripts for i in used_in(s)} | {
            i for v in nodes for i in named_by(v)
        }:
            plain = name.partition(".")[0]
            if plain in self.given:
                self.extents[name] = self.given[plain]
        before: Any = None
        while before != (before := (dict(self.extents), {k: tuple(v) for k, v in self.shapes.items()})):
            for access in accesses:
                self.solve_access(access)
            for node in nodes:
                self.solve_view(node)

    def solve_access(self, access: n.Access) -> None:
        shape = self.shapes[access.tensor]
        extents: dict[str, int] = {}
        for place, subscript in enumerate(access.subscripts):
            extent = shape[place]
            match subscript:
                case Var(name) if name not in self.sizes:
                    if extent is not None:
                        extents[name] = min(extent, extents.get(name, extent))
                    elif name in self.extents:
                        shape[place] = self.extents[name]
                case n.Range(index) if extent is not None:
                    extents[index] = min(len(self.slice_of(subscript, extent)), extents.get(index, extent))
        for name, length in extents.items():
            self.agree(name, length)

    def agree(self, name: str, extent: int) -> None:
        if self.extents.setdefault(name, extent) != extent:
            plain = name.partition(".")[0]
            raise ValueError(f"expected one extent of {plain}, but there are {self.extents[name]} and {extent}")

    def slice_of(self, subscript: n.Range, extent: int) -> range:
        start, stop = (None if b is None else int(self.expr(b, {})) for b in (subscript.start, subscript.stop))
        return range(*slice(start, stop, subscript.step).indices(extent))

    def solve_view(self, node: Any) -> None:
        known = self.extents
        match node:
            case n.Collapse(_, old, new) if all(o in known for o in old):
                self.agree(new, int(np.prod([known[o] for o in old], dtype=np.int64)))
            case n.Split(_, old, new):
                missing = [i for i in new if i not in known]
                others = int(np.prod([known[i] for i in new if i in known], dtype=np.int64))
                if not missing:
                    self.agree(old, others)
                elif len(missing) == 1 and old in known:
                    if not others or known[old] % others:
                        raise ValueError(f"expected an extent that {others} divides, not {known[old]}")
                    self.agree(missing[0], known[old] // others)
            case n.Concat(_, old, new) if all(o in known for o in old):
                self.agree(new, sum(known[o] for o in old))
            case n.Slice(_, _, new, start, stop, step):
                self.agree(new, len(range(int(self.expr(start, {})), int(self.expr(stop, {})), step)))

    def bound(self, steps: Sequence[Any], accesses: Sequence[n.Access]) -> None:
        """The ranges of indices that stand alone nowhere: what conditions and extents leave them."""
        self.limits = {name: (0, extent - 1) for name, extent in self.extents.items()}
        conditions = [c for s in all_steps(steps) for c in conditions_of(s)]
        names = {i for a in accesses for s in a.subscripts for i in used_in(s)}
        names |= {i for v in self.all_values(steps) for i in named_by(v)} | variables(*conditions)
        names -= set(self.sizes)
        rounds = 2 * len(names) + 2
        for turn in range(2 * rounds):
            hulls: dict[str, Limits] = {}
            for access in accesses:
                for place, subscript in enumerate(access.subscripts):
                    extent = self.shapes[access.tensor][place]
                    if isinstance(subscript, Expr) and extent is not None:
                        for name, (low, high) in self.pushed(subscript, (0, extent - 1)):
                            if turn >= rounds and inf in (-low, high):
                                continue  # indices that wait for each other: what else bounds them counts
                            old = hulls.get(name, (low, high))
                            hulls[name] = (min(low, old[0]), max(high, old[1]))
            narrowed: dict[str, Limits] = {}
            for rule in conditions:
                for part in conjuncts(rule):
                    for name, limits in self.pushed_rule(part):
                        narrowed[name] = both(narrowed.get(name, (-inf, inf)), limits)
            for name in names - set(self.extents):
                joint = both(hulls.get(name, (-inf, inf)), narrowed.get(name, (-inf, inf)))
                self.limits[name] = both(self.limits.get(name, (-inf, inf)), joint)

    def reach(self, accesses: Sequence[n.Access]) -> None:
        """The extents of tensors that are made: of an index that stands alone in no operand the largest for which each
        subscript lies inside, whatever the other indices are; along larger subscripts up to the last place."""
        for access in accesses:
            shape = self.shapes[access.tensor]
            for place, subscript in enumerate(access.subscripts):
                if shape[place] is not None or not isinstance(subscript, Expr):
                    continue
                is_index = isinstance(subscript, Var) and subscript.name not in self.sizes
                high = self.last_inside(subscript.name, accesses) if is_index else self.interval(subscript)[1]  # type: ignore[attr-defined]
                shape[place] = None if abs(high) == inf else max(int(high) + 1, 0)
                if isinstance(subscript, Var) and abs(high) < inf:
                    self.limits[subscript.name] = (0, high)

    def last_inside(self, name: str, accesses: Sequence[n.Access]) -> float:
        """The largest value of an index with which no subscript of it goes beyond the end it moves to; infinite where
        none says it."""
        last = inf
        for access in accesses:
            shape = self.shapes[access.tensor]
            for subscript, extent in zip(access.subscripts, shape, strict=True):
                if isinstance(subscript, Expr) and extent is not None and name in variables(subscript):
                    last = min(last, self.last_of(name, subscript, extent))
        return last

    def last_of(self, name: str, subscript: Expr, extent: int) -> float:
        def ends(value: int) -> Limits:
            before = self.limits.get(name, (-inf, inf))
            self.limits[name] = (value, value)
            result = self.interval(subscript)
            self.limits[name] = before
            return result

        first, second = ends(0), ends(1)
        if first == second or inf in map(abs, first):
            return inf
        value = -1
        while ends(value + 1)[1] < extent if second > first else ends(value + 1)[0] >= 0:
            value += 1
        return value

    def all_values(self, steps: Sequence[Any]) -> list[Any]:
        return [v for s in all_steps(steps) for value in values_of(s) for v in nodes_of(value)]

    def range_of(self, name: str) -> tuple[int, int]:
        """(low, high), high exclusive."""
        low, high = self.limits.get(name, (-inf, inf))
        if low == -inf or high == inf:
            raise ValueError(f"expected a range of `{name.partition('.')[0]}`, but nothing bounds it")
        return int(low), int(high) + 1

    def interval(self, expr: Expr) -> Limits:
        match expr:
            case Num(value):
                return value, value
            case Var(name):
                size = self.sizes.get(name)
                return self.limits.get(name, (-inf, inf)) if size is None else (size, size)
            case Bin("+", left, right):
                a, b = self.interval(left), self.interval(right)
                return a[0] + b[0], a[1] + b[1]
            case Bin("-", left, right):
                a, b = self.interval(left), self.interval(right)
                return a[0] - b[1], a[1] - b[0]
            case Bin("*", left, right):
                ends = [times(x, y) for x in self.interval(left) for y in self.interval(right)]
                return min(ends), max(ends)
            case Bin("/", left, Num(d)):
                a = self.interval(left)
                return (a[0] // d if a[0] > -inf else -inf), (a[1] // d if a[1] < inf else inf)
            case Bin("%", _, Num(d)):
                return 0, d - 1
        return -inf, inf

    def pushed(self, expr: Expr, limits: Limits) -> Iterator[tuple[str, Limits]]:
        """What follows for the indices of an expression that lies within limits."""
        low, high = limits
        terms, constant = linear(expr) or ({}, 0)
        if len(terms) < len(occurrences(expr)) and terms:  # i + i is 2*i
            expr = Num(constant)
            for name, factor in terms.items():
                expr = Bin("+", expr, Bin("*", Num(factor), Var(name))) if factor else expr
        match expr:
            case Var(name):
                yield name, limits
            case Bin("+", left, right):
                a, b = self.interval(left), self.interval(right)
                yield from self.pushed(left, (low - b[1], high - b[0]))
                yield from self.pushed(right, (low - a[1], high - a[0]))
            case Bin("-", left, right):
                a, b = self.interval(left), self.interval(right)
                yield from self.pushed(left, (low + b[0], high + b[1]))
                yield from self.pushed(right, (a[0] - high, a[1] - low))
            case Bin("*", left, right):
                for one, other in ((left, right), (right, left)):
                    least, most = self.interval(other)
                    if least == most and least:
                        ends = sorted((low / least, high / least))
                        yield from self.pushed(one, (up(ends[0]), down(ends[1])))
            case Bin("/", left, Num(d)):
                yield from self.pushed(left, (low * d, high * d + d - 1))

    def pushed_rule(self, rule: Formula) -> Iterator[tuple[str, Limits]]:
        if isinstance(rule, Compare):
            ends = {
                "<": (-inf, -1), "<=": (-inf, 0), ">": (1, inf), ">=": (0, inf), "=": (0, 0), "==": (0, 0),
            }  # fmt: skip
            if rule.op in ends:
                yield from self.pushed(Bin("-", rule.left, rule.right), ends[rule.op])

    def make(self, steps: Sequence[Any]) -> None:
        """The tensors that are not passed, filled."""
        targets = {s.target.tensor for s in all_steps(steps) if isinstance(s, n.Statement)}
        missing = [name for name in self.shapes if name not in self.tensors]
        for name in missing:
            if name not in targets:
                raise ValueError(f"expected tensor {name}, but it is not given")
            if None in self.shapes[name]:
                raise ValueError(f"expected {name} to be given: its extents do not follow")
        types = NumpyTypes({k: v.dtype for k, v in self.tensors.items()})
        target_types = types.of_targets(steps, missing)
        for name in missing:
            shape = tuple(int(e) for e in self.shapes[name] if e is not None)
            use = self.declared[name].use if name in self.declared else None
            kind = target_types[name] if use is None or use.value_type is None else np.dtype(dtype_of(use.value_type))
            if use is not None and use.fill is not None:
                self.fills.setdefault(name, use.fill)
            self.tensors[name] = np.full(shape, self.fills.get(name, 0), kind)


def both(a: Limits, b: Limits) -> Limits:
    return max(a[0], b[0]), min(a[1], b[1])


def times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def occurrences(expr: Expr) -> list[str]:
    return [e.name for e in walk(expr) if isinstance(e, Var)]


def linear(expr: Expr) -> tuple[dict[str, int], int] | None:
    """The factors of the indices of an affine expression, and its constant."""
    match expr:
        case Num(value):
            return {}, value
        case Var(name):
            return {name: 1}, 0
        case Bin("+" | "-" as op, left, right):
            one, two, sign = linear(left), linear(right), 1 if op == "+" else -1
            if one is None or two is None:
                return None
            names = {**one[0], **two[0]}
            return {n: one[0].get(n, 0) + sign * two[0].get(n, 0) for n in names}, one[1] + sign * two[1]
        case Bin("*", left, right):
            one, two = linear(left), linear(right)
            if one is None or two is None or (one[0] and two[0]):
                return None
            (terms, constant), (_, number) = (one, two) if one[0] else (two, one)
            return {n: k * number for n, k in terms.items()}, constant * number
    return None


def up(value: float) -> float:
    return value if abs(value) == inf else -(-value // 1)


def down(value: float) -> float:
    return value if abs(value) == inf else value // 1

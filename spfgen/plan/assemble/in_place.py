"""Results whose entries go to their place at once: counted in a first run of the loops, inserted in a second one.

It spares the list of entries and all that is done with it, but runs the loops twice. So it is for loops that only load
what they deliver, as those of conversions, slices, stacks and transposes do. What is counted, and what an entry brings
along, is the form of the result (forms.py): groups, where offsets follow from the numbers of entries; positions of
blocks and diagonals, which are marked and numbered; else keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

from spfgen.errors import InternalError
from spfgen.facts.formula import (
    And,
    Bin,
    Compare,
    Expr,
    Formula,
    Num,
    Or,
    Var,
    rename,
    substitute,
)
from spfgen.facts.prove import Facts, implied
from spfgen.ir import rewrite, walk
from spfgen.plan.assemble.forms import Form, Groups, Keys, Marks, form_of, forms_of
from spfgen.plan.choices import IN_PLACE
from spfgen.plan.context import Context
from spfgen.plan.nodes import PLANS, Append, Block, Define, Guard, If, InPlace, Let, Load, Plan, Products, Scan, goes_on
from spfgen.sets.affine import NotAffine, affine, expression
from spfgen.space.instances import declared_facts
from spfgen.space.nodes import Program, Tensor, size_values

PLAIN = Scan | Load | Define | Guard | Append | Block | Let | If
"""What may run twice: it changes nothing but the tensor that it appends to, and looks nothing up."""


def entries_in_place(plan: Plan, program: Program, context: Context, *, alone: bool) -> Plan:
    """The plan of statements, which may be `alone` in their kernel, with results that go to their place at once where
    that is less work; and without entries that equal the fill value, if these are not wanted."""
    plan = without_fills(plan) if program.without_fill else plan
    plan = in_place(plan, program, context) if alone else plan
    check_in_place(plan, program)
    return plan


def in_place(plan: Plan, program: Program, context: Context) -> Plan:
    """The plan of all statements with results that go to their place at once, where that is less work."""
    if context.stop_after or not context.makes(IN_PLACE) or context.marks:
        return plan
    for name, tensor in context.assembled.items():
        appended = [n for n in walk(plan, PLANS) if isinstance(n, Append) and n.tensor == name]
        if not appended or any(n.last is not None for n in appended):
            continue
        candidates = (_Wrapped(tensor, form, program).of(plan) for form in forms_of(tensor))
        plan = next((p for p in candidates if p is not None), plan)
    return plan


def without_fills(plan: Plan) -> Plan:
    """The plan that delivers no entries which equal the fill value."""
    changed: Plan = rewrite(lambda n: replace(n, without_fill=True) if isinstance(n, Append) else None, plan, PLANS)
    return changed


def check_in_place(plan: Plan, program: Program) -> None:
    """Raises InternalError where a part of a plan that is to run twice may not: all entries of its tensor come from it,
    it changes nothing else, so that both runs have the same entries; and what it says of their order and of the groups
    of parallel iterations is proved of it as it is."""
    for node in (n for n in walk(plan, PLANS) if isinstance(n, InPlace)):
        tensor = program.tensor(node.tensor)
        form = form_of(tensor, node.how)
        wrapped = None if form is None else _Wrapped(tensor, form, program).made(node.body)
        outside = [n for n in walk(plan, PLANS) if isinstance(n, Append) and n.tensor == node.tensor]
        inside = [n for n in walk(node.body, PLANS) if isinstance(n, Append)]
        if wrapped != node or len(outside) != len(inside):
            raise InternalError(f"entries of {node.tensor} are counted that are not those that are inserted")


@dataclass(frozen=True)
class _Wrapped:
    """The part of a plan that delivers the entries of a tensor, as one that runs twice."""

    tensor: Tensor
    form: Form
    program: Program

    def of(self, plan: Plan) -> Plan | None:
        if isinstance(plan, Products):
            inner = self.of(plan.body)
            return None if inner is None else replace(plan, body=inner)
        if not isinstance(plan, Block):
            return self.made(plan)
        places = [k for k, part in enumerate(plan.parts) if self.delivers(part)]
        first, last = places[0], places[-1] + 1
        if first + 1 == last and isinstance(plan.parts[first], Block | Products):
            inner = self.of(plan.parts[first])
        elif any(isinstance(p, Let) or goes_on(p) for p in plan.parts[first:last]):
            inner = None  # what follows may speak of it
        else:
            inner = self.made(plan.parts[first] if first + 1 == last else Block(plan.parts[first:last]))
        return None if inner is None else replace(plan, parts=(*plan.parts[:first], inner, *plan.parts[last:]))

    def delivers(self, plan: Plan) -> bool:
        return any(isinstance(n, Append) and n.tensor == self.tensor.name for n in walk(plan, PLANS))

    def made(self, plan: Plan) -> Plan | None:
        """None where it is more than loads, or the form asks for more."""
        nodes = list(walk(plan, PLANS))
        if any(not isinstance(n, PLAIN) for n in nodes) or any(_is_changed(n) for n in nodes):
            return None
        if any(isinstance(n, Append) and n.tensor != self.tensor.name for n in nodes):
            return None
        form = self.form
        ordered = isinstance(form, Groups) and self.is_ordered(plan)
        apart = self.is_apart(plan)
        if isinstance(form, Groups) and not ordered and not form.sortable:
            return None
        if isinstance(form, Marks) and not (self.stays_in_groups(plan) and self.is_once(plan)):
            return None
        if not apart and any(isinstance(n, Scan) and n.parallel and n.partition is None for n in nodes):
            return None
        why = "the loops only load what they deliver, so they run twice and no list is made"
        if isinstance(form, Keys):
            why = "the loops only load what they deliver, so they run twice and the list has room for all"
        return InPlace(self.tensor.name, plan, ordered, apart, why, form.how)

    def digits(self, append: Append) -> list[Expr]:
        """The group and the keys of an entry, as expressions of the nest."""
        key = self.form.key.key
        encoded = key.plan.encoded
        values: dict[str, Expr] = dict(zip(encoded.layout.coordinates, append.coordinates, strict=True))
        values |= size_values(self.tensor, self.program.sizes.fixed)
        for name, (numerator, divisor) in encoded.quotients.items():
            if numerator.names() <= values.keys():
                values[name] = _floor(substitute(expression(numerator), values), divisor)
        for rule in key.computed:
            values[rule.position] = _floor(substitute(expression(rule.numerator), values), rule.divisor)
        return [values[f.name] for f in key.fields[: key.levels[-1].end]]

    def is_apart(self, plan: Plan) -> bool:
        """Whether each iteration of a parallel loop has groups of its own: one digit of the group is its index."""
        for scan in (n for n in walk(plan, PLANS) if isinstance(n, Scan) and n.parallel):
            if not isinstance(self.form, Groups):
                return False
            inside = {d for n in walk(scan.body, PLANS) for d in _defines(n)}
            located = _located(scan.body)
            for append in (n for n in walk(scan, PLANS) if isinstance(n, Append)):
                digits = [substitute(d, located) for d in self.digits(append)[: self.form.group]]
                if not any(_follows(d, scan.dim, inside) for d in digits):
                    return False
        return True

    # --- order ------------------------------------------------------------------------------------------------

    def is_ordered(self, plan: Plan) -> bool:
        """Proved: of two entries of one group, the one that comes later has the greater keys. Nests that run one after
        the other are compared in pairs."""
        nests = _nests(plan)
        return bool(nests) and all(self.rises(first, then) for first, then in combinations_with_replacement(nests, 2))

    def stays_in_groups(self, plan: Plan) -> bool:
        """Proved: the entries of each group come one after the other in each nest, as groups never fall."""
        assert isinstance(self.form, Marks)
        count, nests = self.form.group, _nests(plan)
        fields = self.form.key.key.fields[:count]
        about = f"entries of a group of {self.tensor.name} come one after the other"

        def goal(pairs: Sequence[tuple[Expr, Expr]]) -> Formula:
            equal = And(tuple(Compare("=", a, b) for a, b in pairs[:count]))
            return Or((equal, _rising(pairs[:count], [f.down for f in fields])))

        return bool(nests) and (not count or all(self.holds(n, n, [], goal, about) for n in nests))

    def is_once(self, plan: Plan) -> bool:
        """Proved: no two entries have the same coordinates."""
        nests = _nests(plan)
        about = f"entries of {self.tensor.name} have coordinates of their own"

        def is_once(first: list[Plan], then: list[Plan]) -> bool:
            twin = _twins(then)
            one, two = first[-1], then[-1]
            assert isinstance(one, Append)
            assert isinstance(two, Append)
            pairs = zip(one.coordinates, (rename(e, twin) for e in two.coordinates), strict=True)
            differ = Or(tuple(Compare("!=", a, b) for a, b in pairs))
            return self.holds(first, then, [], lambda _: differ, about)

        return bool(nests) and all(is_once(first, then) for first, then in combinations_with_replacement(nests, 2))

    def rises(self, first: list[Plan], then: list[Plan]) -> bool:
        """Whether entries of the first nest that are in one group with entries of the other one, or with later ones of
        its own, have smaller keys."""
        level = self.form.key.key.levels[0]
        falls = [f.down for f in self.form.key.key.fields[level.group : level.end]]
        about = f"entries of a group of {self.tensor.name} come in the order of their keys"
        return self.holds(first, then, range(level.group), lambda p: _rising(p[level.group :], falls), about)

    def holds(
        self,
        first: list[Plan],
        then: list[Plan],
        same: Iterable[int],
        goal: Callable[[list[tuple[Expr, Expr]]], Formula],
        about: str,
    ) -> bool:
        """Proved of the digits of each entry of the first nest and of each one that comes later, of the other nest or
        its own, where these digits are the `same`."""
        twin = _twins(then)
        one, two = first[-1], then[-1]
        assert isinstance(one, Append)
        assert isinstance(two, Append)
        pairs = list(zip(self.digits(one), (rename(d, twin) for d in self.digits(two)), strict=True))
        known = [*(f for n in first for f in _says(n)), *(rename(f, twin) for n in then for f in _says(n))]
        known += [Compare("=", *pairs[k]) for k in same]
        loops = [n.dim for n in first if isinstance(n, Scan)] if first is then else []
        cases = [
            [*(Compare("=", Var(n), Var(twin[n])) for n in loops[:k]), Compare("<", Var(loop), Var(twin[loop]))]
            for k, loop in enumerate(loops)
        ]
        later = cases or ([] if first is then else [[]])
        wanted = goal(pairs)
        return bool(later) and all(implied([*known, *case], self.facts, wanted, about=about).proved for case in later)

    @property
    def facts(self) -> Facts:
        """What is declared of the index arrays that the loops read."""
        given = [t for t in self.program.tensors if t.assembled is None]
        return declared_facts(given, self.program.sizes.fixed)


def _paths(plan: Plan) -> list[list[Plan]]:
    """The nodes around each entry that nests deliver, one nest after the other; none where it is more than that."""
    if isinstance(plan, Append):
        return [[plan]]
    if isinstance(plan, Block):
        paths_of_parts = [_paths(part) for part in plan.parts]
        return [path for paths in paths_of_parts for path in paths] if all(paths_of_parts) else []
    if not isinstance(plan, Scan | Load | Define | Guard):
        return []
    return [[plan, *path] for path in _paths(plan.body)]


def _nests(plan: Plan) -> list[list[Plan]]:
    """The same, if loops rise and no node is around entries of two nests."""
    paths = _paths(plan)
    if any(isinstance(n, Scan) and n.down for path in paths for n in path):
        return []
    alone = len(paths) == 1 or not any(n is m for k, p in enumerate(paths) for q in paths[:k] for n in p for m in q)
    return paths if alone else []


def _twins(nest: Sequence[Plan]) -> dict[str, str]:
    """Other names for what a nest defines, for another one of its entries."""
    return {d: f"{d}'" for n in nest for d in _defines(n)}


def _is_changed(node: Plan) -> bool:
    """Whether threads have more of their own in a loop than the entries."""
    if not isinstance(node, Scan):
        return False
    shared = node.partition
    adds = shared is not None and bool(shared.adds or shared.row or shared.slice or shared.clears)
    return adds or bool(node.private or node.collapse or node.chained)


def _defines(node: object) -> tuple[str, ...]:
    match node:
        case Scan(dim) | Load(dim) | Define(dim):
            return (dim,)
    return ()


def _located(plan: Plan) -> dict[str, Expr]:
    """What is computed in a nest from indices around, if that is the same wherever it has that name."""
    values_of: dict[str, set[Expr]] = {}
    for node in walk(plan, PLANS):
        if isinstance(node, Define):
            values_of.setdefault(node.dim, set()).add(node.value)
    return {dim: next(iter(values)) for dim, values in values_of.items() if len(values) == 1}


def _says(node: Plan) -> Iterator[Formula]:
    """What a node of a nest makes hold of the points inside."""
    match node:
        case Scan(dim, low, high):
            yield from (Compare("<=", e, Var(dim)) for e in low)
            yield from (Compare("<", Var(dim), e) for e in high)
        case Load(dim, call):
            yield Compare("=", Var(dim), call)
        case Define(dim, value):
            yield Compare("=", Var(dim), value)
        case Guard(conditions):
            yield from conditions


def _rising(pairs: Sequence[tuple[Expr, Expr]], down: Sequence[bool]) -> Formula:
    """That the second ones come behind the first, compared from the first pair on."""
    goal: Formula = Or(())
    for (a, b), falls in reversed(list(zip(pairs, down, strict=True))):
        rises = Compare(">" if falls else "<", a, b)
        goal = rises if goal == Or(()) else Or((rises, And((Compare("=", a, b), goal))))
    return goal


def _follows(digit: Expr, dim: str, inside: set[str]) -> bool:
    """Whether a digit is the index of a loop, moved by what is the same in all its iterations."""
    try:
        value = affine(digit, _no_call)
    except NotAffine:
        return False
    return abs(value.coefficient(dim)) == 1 and not value.floors() and not value.names() & inside


def _no_call(call: object) -> str:
    raise NotAffine(call)  # type: ignore[arg-type]


def _floor(numerator: Expr, divisor: int) -> Expr:
    return numerator if divisor == 1 else Bin("/", numerator, Num(divisor))


def unwrapped(plan: Plan) -> Mapping[str, InPlace]:
    """The results that go to their place at once."""
    return {n.tensor: n for n in walk(plan, PLANS) if isinstance(n, InPlace)}

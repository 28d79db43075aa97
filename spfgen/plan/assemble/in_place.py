"""Results whose entries go to their place at once: counted in a first run of the loops, inserted in a second one.

It spares the list of entries and all that is done with it, but runs the loops twice. So it is for loops that only load
what they deliver, as those of conversions, slices, stacks and transposes do, and for layouts with one rank of
positions, which are numbered within groups that are known beforehand: offsets follow from the numbers of entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

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
    variables,
)
from spfgen.facts.prove import Facts, implied
from spfgen.ir import rewrite, walk
from spfgen.layout.keys import KeyPlan
from spfgen.plan.assemble.by_key import KeyAssembly, assembly_by_key
from spfgen.plan.choices import IN_PLACE
from spfgen.plan.context import Context
from spfgen.plan.nodes import (
    PLANS,
    Append,
    Block,
    Define,
    Guard,
    If,
    InPlace,
    Let,
    Load,
    Locate,
    Plan,
    Products,
    Scan,
    Seq,
)
from spfgen.sets.affine import NotAffine, affine, expression
from spfgen.space.instances import declared_facts
from spfgen.space.nodes import Program, Tensor, size_values

PLAIN = Scan | Load | Locate | Guard | Seq | Append | Block | Let | If | Define
"""What may run twice: it changes nothing but the tensor that it appends to, and looks nothing up."""


@dataclass(frozen=True)
class Groups:
    """A layout with one rank of positions in groups: the key of each entry; the number of its group, as the place in an
    array with these extents; whether groups can be sorted, each with its values, and entries at one place added up."""

    key: KeyAssembly
    arguments: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    sortable: bool

    @property
    def in_slots(self) -> bool:
        """Whether the positions of each group are numbered from 0."""
        (level,) = self.key.key.levels
        return level.rank.kind == "slots" and level.group > 0


@dataclass(frozen=True)
class PlacedAssembly:
    """How the arrays of a result are made of entries that go to their place at once."""

    key: KeyAssembly
    plan: InPlace

    def lines(self) -> Iterator[tuple[str, str]]:
        """What is done, in words, each with the reason."""
        (level,), calls = self.key.key.levels, self.key.key.plan.encoded.calls
        group, (value,) = (
            ", ".join(f.name for f in self.key.key.fields[: level.group]),
            self.key.key.plan.encoded.layout.values,
        )
        yield f"count the entries of each ({group})" if group else "count the entries", self.plan.because
        if level.rank.begin:
            why = "where the positions of a group begin: the sum of the counts before it"
            yield f"offsets {calls[level.rank.begin].function}", why
        for name in (*(calls[k].function for k in level.rank.keys), value.name):
            yield f"insert {name}", "at the next offset of its group"
        if not self.plan.ordered:
            yield f"sort each ({group})", "where it is not in order; entries at one place add up"


def counter_of(tensor: Tensor, plan: InPlace) -> str:
    """The type in which entries are counted: narrow where no group has more than there are coordinates of that type."""
    return "int32" if plan.ordered and {k for _, k in tensor.assembled_types} == {"int32"} else "int64"


def groups_of(tensor: Tensor) -> Groups | None:
    """The groups of a result; None where it has more than these."""
    found = assembly_by_key(tensor)
    if not isinstance(found, KeyAssembly) or tensor.entry_type != tensor.value_type:
        return None
    own = number_of_group(found.key)
    return None if own is None else Groups(found, *own, is_sortable(found.key))


def number_of_group(key: KeyPlan) -> tuple[tuple[Expr, ...], tuple[Expr, ...]] | None:
    """The number of the group of the only rank, as a place in an array with these extents, which are known; None where
    the layout has more than that."""
    layout = key.plan.encoded.layout
    if len(key.levels) != 1 or key.pads or key.checks or key.after:
        return None
    (level,), calls = key.levels, key.plan.encoded.calls
    rank, own = level.rank, (Var(level.rank.position),)
    if rank.kind not in ("pointer", "slots") or rank.low or rank.other or not (rank.begin or rank.keys):
        return None
    if rank.kind != "slots" and any(calls[k].arguments != own for k in rank.keys):
        return None
    call = calls[rank.begin or rank.keys[0]]
    pairs = zip(call.arguments, layout.index(call.function).extents, strict=True)
    kept = [(a, e) for a, e in pairs if a != Var(rank.position)]
    if any(not variables(e) <= {*layout.parameters} for _, e in kept):
        return None
    return tuple(a for a, _ in kept), tuple(e for _, e in kept)


def is_sortable(key: KeyPlan) -> bool:
    """Whether each group has one key, which rises, with a value at the same place, in arrays that are no longer than
    there are entries."""
    layout, (level,), calls = key.plan.encoded.layout, key.levels, key.plan.encoded.calls
    own, (value,), sizes = (Var(level.rank.position),), layout.values, layout.sizes
    if level.rank.kind != "pointer" or level.end != level.group + 1 or key.fields[level.group].down or len(sizes) != 1:
        return False
    extents = [*(layout.index(calls[k].function).extents for k in level.rank.keys), value.extents]
    alone = len(layout.indexes) == 1 + len(level.rank.keys) and value.position == own
    return alone and all(e == (Var(sizes[0]),) for e in extents)


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
        own = groups_of(tensor)
        found = None if own is None else _Wrapped(tensor, own, program).of(plan)
        plan = plan if found is None else found
    return plan


def without_fills(plan: Plan) -> Plan:
    """The plan that delivers no entries which equal the fill value."""
    made: Plan = rewrite(lambda n: replace(n, without_fill=True) if isinstance(n, Append) else None, plan, PLANS)
    return made


def check_in_place(plan: Plan, program: Program) -> None:
    """Raises InternalError where a part of a plan that is to run twice may not: all entries of its tensor come from it,
    it changes nothing else, so that both runs have the same entries; and what it says of their order and of the groups
    of parallel iterations is proved of it as it is."""
    for node in (n for n in walk(plan, PLANS) if isinstance(n, InPlace)):
        tensor = program.tensor(node.tensor)
        own = groups_of(tensor)
        made = None if own is None else _Wrapped(tensor, own, program).made(node.body)
        outside = [n for n in walk(plan, PLANS) if isinstance(n, Append) and n.tensor == node.tensor]
        inside = [n for n in walk(node.body, PLANS) if isinstance(n, Append)]
        if made != node or len(outside) != len(inside):
            raise InternalError(f"entries of {node.tensor} are counted that are not those that are inserted")


@dataclass(frozen=True)
class _Wrapped:
    """The part of a plan that delivers the entries of a tensor, as one that runs twice."""

    tensor: Tensor
    groups: Groups
    program: Program

    def of(self, plan: Plan) -> Plan | None:
        if isinstance(plan, Products):
            inner = self.of(plan.body)
            return None if inner is None else replace(plan, body=inner)
        if not isinstance(plan, Seq | Block):
            return self.made(plan)
        places = [k for k, part in enumerate(plan.parts) if self.delivers(part)]
        first, last = places[0], places[-1] + 1
        if first + 1 == last and isinstance(plan.parts[first], Seq | Block | Products):
            inner = self.of(plan.parts[first])
        elif isinstance(plan, Block) and any(isinstance(p, Let | Define) for p in plan.parts[first:last]):
            inner = None  # what follows may speak of it
        else:
            inner = self.made(plan.parts[first] if first + 1 == last else type(plan)(plan.parts[first:last]))
        return None if inner is None else replace(plan, parts=(*plan.parts[:first], inner, *plan.parts[last:]))

    def delivers(self, plan: Plan) -> bool:
        return any(isinstance(n, Append) and n.tensor == self.tensor.name for n in walk(plan, PLANS))

    def made(self, plan: Plan) -> Plan | None:
        """None where it is more than loads, or groups would have to be sorted that cannot be."""
        nodes = list(walk(plan, PLANS))
        if any(not isinstance(n, PLAIN) for n in nodes) or any(_is_changed(n) for n in nodes):
            return None
        if any(isinstance(n, Append) and n.tensor != self.tensor.name for n in nodes):
            return None
        ordered, apart = self.is_ordered(plan), self.is_apart(plan)
        if not ordered and not self.groups.sortable:
            return None
        if not apart and any(isinstance(n, Scan) and n.parallel and n.partition is None for n in nodes):
            return None
        why = "the loops only load what they deliver, so they run twice and no list is made"
        return InPlace(self.tensor.name, plan, ordered, apart, why)

    def digits(self, append: Append) -> list[Expr]:
        """The group and the keys of an entry, as expressions of the nest."""
        key = self.groups.key.key
        encoded = key.plan.encoded
        values: dict[str, Expr] = dict(zip(encoded.layout.coordinates, append.coordinates, strict=True))
        values |= size_values(self.tensor, self.program.fixed)
        for name, (numerator, divisor) in encoded.quotients.items():
            if numerator.names() <= values.keys():
                values[name] = _floor(substitute(expression(numerator), values), divisor)
        for rule in key.computed:
            values[rule.position] = _floor(substitute(expression(rule.numerator), values), rule.divisor)
        return [values[f.name] for f in key.fields[: key.levels[0].end]]

    def is_apart(self, plan: Plan) -> bool:
        """Whether each iteration of a parallel loop has groups of its own: one digit of the group is its index."""
        level = self.groups.key.key.levels[0]
        for scan in (n for n in walk(plan, PLANS) if isinstance(n, Scan) and n.parallel):
            inside = {d for n in walk(scan.body, PLANS) for d in _defines(n)}
            located = _located(scan.body)
            for append in (n for n in walk(scan, PLANS) if isinstance(n, Append)):
                digits = [substitute(d, located) for d in self.digits(append)[: level.group]]
                if not any(_follows(d, scan.dim, inside) for d in digits):
                    return False
        return True

    def is_ordered(self, plan: Plan) -> bool:
        """Proved: of two entries of one group, the one that comes later has the greater keys. Nests that run one after
        the other are compared in pairs."""
        paths = _paths(plan)
        if not paths or any(isinstance(n, Scan) and n.down for path in paths for n in path):
            return False
        alone = len(paths) == 1 or not any(n is m for k, p in enumerate(paths) for q in paths[:k] for n in p for m in q)
        nests = ((paths[k], paths[m]) for m in range(len(paths)) for k in range(m + 1))
        return alone and all(self.rises(first, then) for first, then in nests)

    def rises(self, first: Sequence[Plan], then: Sequence[Plan]) -> bool:
        """Whether entries of the first nest that are in one group with entries of the other one, or with later ones of
        its own, have smaller keys."""
        twin = {d: f"{d}'" for n in then for d in _defines(n)}
        key, (one, two) = self.groups.key.key, (first[-1], then[-1])
        assert isinstance(one, Append)
        assert isinstance(two, Append)
        pairs = list(zip(self.digits(one), (rename(d, twin) for d in self.digits(two)), strict=True))
        level = key.levels[0]
        same = [Compare("=", a, b) for a, b in pairs[: level.group]]
        rising = _rising(pairs[level.group :], [f.down for f in key.fields[level.group : level.end]])
        known = [*(f for n in first for f in _says(n)), *(rename(f, twin) for n in then for f in _says(n)), *same]
        about = f"entries of a group of {self.tensor.name} come in the order of their keys"
        loops = [n.dim for n in first if isinstance(n, Scan)] if first is then else []
        cases = [
            [*(Compare("=", Var(n), Var(twin[n])) for n in loops[:k]), Compare("<", Var(loop), Var(twin[loop]))]
            for k, loop in enumerate(loops)
        ]
        later = cases or ([] if first is then else [[]])
        return bool(later) and all(implied([*known, *case], self.facts, rising, about=about).proved for case in later)

    @property
    def facts(self) -> Facts:
        """What is declared of the index arrays that the loops read."""
        given = [t for t in self.program.tensors if t.assembled is None]
        return declared_facts(given, self.program.fixed)


def _paths(plan: Plan) -> list[list[Plan]]:
    """The nodes around each entry that nests deliver, one nest after the other; none where it is more than that."""
    if isinstance(plan, Append):
        return [[plan]]
    if isinstance(plan, Seq | Block):
        found = [_paths(part) for part in plan.parts]
        return [path for paths in found for path in paths] if all(found) else []
    if not isinstance(plan, Scan | Load | Locate | Guard):
        return []
    return [[plan, *path] for path in _paths(plan.body)]


def _is_changed(node: Plan) -> bool:
    """Whether threads have more of their own in a loop than the entries."""
    if not isinstance(node, Scan):
        return False
    shared = node.partition
    adds = shared is not None and bool(shared.adds or shared.row or shared.slice or shared.clears)
    return adds or bool(node.private or node.copies or node.collapse or node.chained)


def _defines(node: object) -> tuple[str, ...]:
    match node:
        case Scan(dim) | Load(dim) | Locate(dim) | Define(dim):
            return (dim,)
    return ()


def _located(plan: Plan) -> dict[str, Expr]:
    """What is computed in a nest from indices around, if that is the same wherever it has that name."""
    found: dict[str, set[Expr]] = {}
    for node in walk(plan, PLANS):
        if isinstance(node, Locate | Define):
            found.setdefault(node.dim, set()).add(node.value)
    return {dim: next(iter(values)) for dim, values in found.items() if len(values) == 1}


def _says(node: Plan) -> Iterator[Formula]:
    """What a node of a nest makes hold of the points inside."""
    match node:
        case Scan(dim, low, high):
            yield from (Compare("<=", e, Var(dim)) for e in low)
            yield from (Compare("<", Var(dim), e) for e in high)
        case Load(dim, call):
            yield Compare("=", Var(dim), call)
        case Locate(dim, value):
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

"""The order in which the dimensions of an instance are scanned.

What is determined by known dimensions comes at once. Otherwise a loop is opened, in this preference: what the
schedule says; a position whose key is already known (a find narrows, a new loop widens); dense outer indices;
positions of sparse operands in the order of the text; the remaining indices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from spfgen.errors import Unsupported
from spfgen.facts.formula import Var, variables
from spfgen.ir import walk
from spfgen.sets.bounds import bounds, single_value
from spfgen.sets.eliminate import about
from spfgen.sets.named import Constraint
from spfgen.space.names import unbounded
from spfgen.space.nodes import Instance, Operand


def scan_order(
    instance: Instance,
    wanted: Sequence[str] = (),
    outside: Sequence[tuple[str, str]] = (),
    named: Sequence[str] = (),
    first: Sequence[str] = (),
) -> tuple[str, ...]:
    """All dimensions but the sizes, each after those it depends on.

    `wanted` is the order of loops that the user asks for, `outside` are pairs of a loop and the one that it stands
    directly around; of dimensions that are equal those that are `named` become loops; `first` are dimensions that are
    known already. Raises SpecError when an index has no bounds, Unsupported when the wanted order cannot be had.
    """
    search = _Search(instance, outside, named)
    for name in first:
        search.learn(name)
    wanted = [w for w in wanted if w in search.unknown]
    while True:
        search.close()
        if not search.unknown:
            return tuple(search.order)
        pending = [w for w in wanted if w in search.unknown]
        possible = pending[:1] or search.preferred()
        candidates = search.bounded(possible) or search.bounded(possible, by_quotients=True)
        if not candidates and pending:
            raise Unsupported(
                f"the loop over `{pending[0]}` cannot be here: its bounds depend on loops that come later",
                None,
                (f"loops so far: {', '.join(search.order) or 'none'}",),
            )
        if not candidates:
            _unbounded(search)
        search.open(candidates)


def _unbounded(search: _Search) -> None:
    names = [n for n in search.instance.indices if n in search.unknown] or sorted(search.unknown)
    subscripts = [s for o in (search.instance.target, *search.instance.reads) for s in o.subscripts]
    spans = [v.span for s in subscripts for v in walk(s) if isinstance(v, Var) and v.name == names[0]]
    raise unbounded(names[0], next((s for s in spans if s is not None), None))


class _Search:
    """The state of the greedy choice: what is known, in which order it became so."""

    def __init__(self, instance: Instance, outside: Sequence[tuple[str, str]], named: Sequence[str]) -> None:
        self.instance = instance
        self.outside = outside
        self.named = named
        self.known = set(instance.sizes)
        self.order: list[str] = []
        self.calls = dict(instance.calls)
        self.needs = {n: variables(*c.arguments) for n, c in self.calls.items()}
        self.numerators = {n: variables(numerator) for n, (numerator, _) in instance.quotients.items()}
        self.unknown = [n for n in instance.domain.space.names if n not in self.known]
        self.dependent = instance.domain.hull().constraints()
        self.together = [c.value.names() for c in instance.domain.constraints()]
        self.doubtful = set(self.unknown)
        self.seen: dict[str, list[Constraint]] = {}

    def learn(self, name: str) -> None:
        for touched in self.touched(name):
            self.doubtful.add(touched)
            self.seen.pop(touched, None)
        self.known.add(name)
        self.order.append(name)
        self.unknown.remove(name)

    def close(self) -> None:
        """Take in everything that is determined: calls with known arguments, dimensions with one possible value."""
        progress = True
        while progress:
            progress = False
            for name in list(self.unknown):
                if name in self.calls:
                    determined = self.needs[name] <= self.known
                else:
                    determined = name in self.doubtful and self.determined(name)
                    self.doubtful.discard(name)
                if determined:
                    self.learn(name)
                    progress = True

    def touched(self, name: str) -> set[str]:
        """The unknown dimensions that constraints link to this one, through other unknown ones: for them alone
        it makes a difference to know it."""
        linked = {name}
        frontier = [name]
        while frontier:
            current = frontier.pop()
            for names in self.together:
                if current in names:
                    new = names - self.known - linked
                    linked |= new
                    frontier += new
        return linked

    def determined(self, name: str) -> bool:
        """As a quotient, by an equality at hand, else by the projection onto what is known."""
        if name in self.numerators and self.numerators[name] <= self.known:
            return True
        for constraint in self.dependent:
            if constraint.value.coefficient(name) and constraint.value.names() <= self.known | {name}:
                return True
        return single_value(self.about(name), name) is not None

    def about(self, name: str) -> list[Constraint]:
        """What the set says of a dimension, given what is known; remembered until something linked to it is learnt."""
        if name not in self.seen:
            self.seen[name] = about(self.instance.domain, name, self.touched(name) - {name})
        return self.seen[name]

    def bounded(self, names: Iterable[str], by_quotients: bool = False) -> list[str]:
        """Those that have bounds; or of which a quotient has some, from which theirs follow."""
        about = self.about_by_quotients if by_quotients else self.about
        return [n for n in names if n not in self.calls and all(bounds(about(n), n))]

    def about_by_quotients(self, name: str) -> list[Constraint]:
        hidden = self.touched(name) - {name}
        kept = self.instance.domain.project(n for n in self.instance.domain.space.names if n not in hidden)
        return kept.without_floors().constraints(name)

    def preferred(self) -> list[str]:
        """Unknown dimensions that may become loops, best first."""
        operands = [*self.instance.reads, self.instance.target]
        sparse = self.leading()
        indices = [i for i in self.instance.indices if i in self.unknown]
        dense = self.outer(indices, operands)
        positions = [n for n in self.unknown if n not in self.calls]
        result: list[str] = []
        for name in (*dense, *sparse, *indices, *positions):
            if name not in result:
                result.append(name)
        return result

    def leading(self) -> list[str]:
        """The first unknown position of each sparse operand: the order of a layout's positions is the natural one.
        But one that is stored at another position, or at indices, comes after those, where it can: it need not be
        looked for."""
        operands = [o for o in (*self.instance.reads, self.instance.target) if o.sparse]
        leading = []
        for operand in operands:
            waiting = [p for p in operand.positions if p in self.unknown]
            if waiting:
                named = variables(*operand.subscripts)
                others = [*waiting[1:], *(i for i in self.instance.indices if i in named & {*self.unknown})]
                leading.append(next(self.holding(waiting[0], others), waiting[0]))
        return leading

    def holding(self, position: str, others: list[str]) -> Iterator[str]:
        """The first of the others, in all of which calls that can be read now have this position stored."""
        for call, needs in self.needs.items():
            open_needs = [o for o in others if o in needs]
            readable = open_needs and needs <= self.known.union(open_needs)
            if readable and self.equal(call, position) and self.bounded(open_needs) == open_needs:
                yield open_needs[0]

    def outer(self, indices: list[str], operands: list[Operand]) -> list[str]:
        """Indices that no sparse operand has and that are never the fastest-running subscript: best outermost."""
        result = []
        for index in indices:
            users = [o for o in operands if any(index in variables(s) for s in o.subscripts)]
            if any(o.sparse for o in users) or not users or not any(o.sparse for o in operands):
                continue
            fastest = [o for o in users if o.place and self.moves(index, o)]
            if not fastest:
                result.append(index)
        return result

    def moves(self, index: str, operand: Operand) -> bool:
        """Whether the last subscript of the value array depends on the index."""
        names = variables(operand.place[-1])
        if index in names:
            return True
        return any(
            index in c.value.names() and names & c.value.names() for c in self.dependent if len(c.value.terms) == 2
        )

    def open(self, candidates: list[str]) -> None:
        """Open the first candidate; but a position whose key is known goes before any other."""
        leading = self.leading()
        for name in candidates:
            keys = self.keys(name) if name in leading else []
            if keys:
                self.loop(name)
                for key in keys:  # right after the position, so that it is compared before anything else is read
                    self.learn(key)
                return
        self.loop(candidates[0])

    def loop(self, name: str) -> None:
        """Open a loop, after those that stand directly around it; under the name that the schedule has for it."""
        best = next((n for n in self.named if n in self.unknown and self.equal(n, name)), name)
        for outer, inner in self.outside:
            if inner == best and outer in self.unknown and self.bounded([outer]):
                self.loop(outer)
        for dim in (best, name):
            if dim in self.unknown:
                self.learn(dim)

    def equal(self, one: str, two: str) -> bool:
        if one == two:
            return True
        return any(
            c.equality
            and not c.value.constant
            and {one, two} == c.value.names()
            and not sum(k for _, k in c.value.terms)
            for c in self.dependent
        )

    def keys(self, name: str) -> list[str]:
        """The calls of this position whose value is already known: the position is looked up by them."""
        inner = [c for c, needs in self.needs.items() if name in needs and needs <= self.known | {name}]
        return [c for c in inner if c in self.unknown and single_value(self.about(c), c) is not None]

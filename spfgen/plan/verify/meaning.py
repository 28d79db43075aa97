"""What a nest does: the plain loops that its nodes stand for, compared with what is asked for.

The nest is read back independently of how it was made: as it was scanned, and after each rewrite. A rewrite may drop
dimensions, give one the name of another, split a loop or put copies of its body side by side. So what is compared are
relations: an iteration of the nest belongs to the points of the instance that have its names, its places and what it
loads. Each one has to belong to exactly one point, and each point to exactly one iteration. Where an index array is
read, what is enforced so far must keep the subscript within the array.

Nodes that are there for speed are read as what they stand for, whatever pass has made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from spfgen.errors import InternalError
from spfgen.facts.formula import Bin, Call, Compare, Expr, Formula, Num, Var, conjuncts, rename, show, variables
from spfgen.ir import rewrite, walk
from spfgen.lang.nodes import Constant
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    Append,
    Block,
    BoundSearch,
    Cheapest,
    Clear,
    Define,
    Find,
    Guard,
    Load,
    Loaded,
    Partition,
    Plan,
    Registers,
    RegisterTile,
    Scan,
    Segment,
    Store,
    Variable,
    Versions,
)
from spfgen.plan.verify import compared
from spfgen.sets.bounds import single_value
from spfgen.sets.named import Constraint, Piece, Space
from spfgen.sets.uf import comparisons, linear, with_floors
from spfgen.space.nodes import Instance, Operand, Read

N = TypeVar("N")
NOTHING = Block(())
ZERO_VALUE = Constant(0)


class Fault(Exception):
    """What a nest does wrong, or is not proved to do right."""


class Difference(Fault):
    """What a nest does wrong, with an example."""


@dataclass(frozen=True)
class Wanted:
    """What a plan is to do, once at each point of the instance."""

    instance: Instance
    does: Store


@dataclass(frozen=True)
class Path:
    """Plain nodes from the outside in, each without its body, and what is done in the end. `when`: the nest is taken
    where these hold, so it has only those points. `finish` is the total that something is made of afterwards."""

    nodes: tuple[Plan, ...]
    does: Store
    when: tuple[Formula, ...] = ()
    finish: str = ""


def paths(plan: Plan, above: tuple[Plan, ...] = (), when: tuple[Formula, ...] = ()) -> Iterator[Path]:
    """The ways through a plan. Raises Fault for a node that is not known."""
    match plan:
        case Store(op=op, value=value):
            if op != "=" or value != ZERO_VALUE:  # else a place is cleared
                yield Path(above, plan, when)
        case Append():
            yield Path(above, plan.as_store, when)
        case Block(parts):
            for part in parts:
                yield from paths(part, above, when)
        case Versions(versions):
            for version in versions:
                conditions = () if isinstance(version.when, Cheapest) else version.when
                guarded = (*above, Guard(conditions, NOTHING)) if conditions else above
                if not version.by_order:
                    yield from paths(version.body, guarded, (*when, *conditions))
        case Scan(dim, low, high, body, pieces=pieces):
            if pieces and (low, high) != ((Num(0),), (Num(sum(pieces)),)):
                raise Fault(f"the pieces of {dim} are not the loop")
            yield from paths(body, (*above, Scan(dim, low, high, NOTHING)), when)
        case Find(dim, low, high, loads, conditions, _, hit, None, key=key, given=given):
            plain = tuple(Loaded(*x) for x in loads)
            plain_find = Find(dim, low, high, plain, conditions, "", NOTHING, key=key, given=given)
            yield from paths(hit, (*above, plain_find), when)
        case Define(dim, value, body):
            yield from paths(body, (*above, Define(dim, value, NOTHING)), when)
        case Load(dim, call, body):
            yield from paths(body, (*above, Load(dim, call, NOTHING)), when)
        case Guard(conditions, body):
            yield from paths(body, (*above, Guard(conditions, NOTHING)), when)
        case BoundSearch(body=body) | Segment(body=body):
            yield from paths(body, (*above, replace(plan, body=NOTHING, because="")), when)
        case Accumulate(storage=Variable(), body=body) if plan.op:
            for path in paths(body, above, when):
                _same_monoid(path, plan)
                summed = _with_sum(path, plan, len(above))
                yield summed if plan.finish is None else replace(summed, finish=plan.finish.name)
        case Accumulate(target, storage=Registers(dim, _, high, added), body=body):
            stored = Guard(tuple(Compare("<", Var(dim), e) for e in high), NOTHING)
            for path in paths(body, above, when):
                if path.does.target != added:
                    raise Fault(f"a sum for each {dim} is added to elsewhere")
                _same_monoid(path, plan)
                nodes = tuple(rewrite(lambda n: target if n == added else None, n) for n in path.nodes)
                yield replace(path, nodes=(*nodes, stored), does=replace(path.does, target=target))
        case Accumulate(target, "", body):
            for path in paths(body, above, when):
                if path.does.target.tensor == target.tensor:
                    _same_monoid(path, plan)
                yield path
        case _ if plan.meaning is not None:
            yield from paths(plan.meaning, above, when)
        case _:
            raise Fault(f"what the node means is not known: {type(plan).__name__}")


def _same_monoid(path: Path, plan: Accumulate) -> None:
    if path.does.monoid != plan.monoid:
        raise Fault(f"values for {plan.target.tensor} are combined in another way than their total")


def _with_sum(path: Path, plan: Accumulate, depth: int) -> Path:
    """The path, with the sum that the last addition goes to: of several places each has its own."""
    outer, inner = path.nodes[:depth], path.nodes[depth:]
    others = [n for n in inner if isinstance(n, Accumulate) and n.target.tensor == plan.target.tensor]
    if others and plan.target != path.does.target:
        return path
    kept = (n for n in inner if n not in others)
    return replace(path, nodes=(*outer, replace(plan, body=NOTHING, because="", finish=None), *kept))


def without_unused(path: Path) -> Path:
    """The path without what it reads and computes for others that run beside it."""
    used = variables(path.does)  # type: ignore[arg-type]
    kept: list[Plan] = []
    for node in reversed(path.nodes):
        if not isinstance(node, Load | Define) or node.dim in used:
            kept.insert(0, node)
            used |= variables(node)  # type: ignore[arg-type]
    return replace(path, nodes=tuple(kept))


def begins(plan: Plan, tensor: str) -> bool:
    """Whether a plan clears the tensor, or stores what it sums in place of adding it."""
    for node in walk(plan, PLANS):
        match node:
            case Clear(tensor=cleared) if cleared == tensor:
                return True
            case Store(target, op="=") | Accumulate(target, "=") if target.tensor == tensor:
                return True
            case Scan(partition=Partition(clears=cleared)) | Find(partition=Partition(clears=cleared)) if (
                cleared == tensor
            ):
                return True
    return False


def check_nest(instance: Instance, nest: Plan) -> None:
    """Raises InternalError where it is not proved that the nest does what is asked for."""
    try:
        compare(instance, nest, set())
    except Fault as fault:
        raise InternalError(str(fault)) from None


def compare(instance: Instance, nest: Plan, known: set[Path]) -> None:
    """Raises Fault where what the nest does differs from what is asked for; `known` are paths that do not."""
    for path in paths(nest):
        if path not in known:
            _Comparison(instance, path).compare()
            known.add(path)


def finishing(plan: Plan) -> Plan:
    """What a plan stores of totals, without what it combines in them."""

    def rule(node: object) -> Plan | None:
        if not isinstance(node, Accumulate) or node.finish is None:
            return None
        body, storage = node.finish.body, node.storage
        return Scan(storage.dim, storage.low, storage.high, body) if isinstance(storage, RegisterTile) else body

    result: Plan = rewrite(rule, plan, PLANS)
    return result


def compare_finished(instance: Instance, nest: Plan, known: set[Path]) -> None:
    """The same of what a nest stores of totals, where it reads and computes more than that needs."""
    for path in map(without_unused, paths(finishing(nest))):
        if path not in known:
            _Comparison(instance, path).compare()
            known.add(path)


def compare_path(instance: Instance, path: Path, sizes: Sequence[str] = ()) -> None:
    """Raises Fault where one way through a plan is not proved to do what the instance asks for; `sizes` are those of
    what runs beside."""
    _Comparison(instance, path, sizes).compare()


def compare_all(wanted: Sequence[Wanted], plan: Plan, known: set[tuple[Path, ...]]) -> None:
    """The same of a plan that is to do all of this, where loops are shared: what a path does not need is for others."""
    every = tuple(map(without_unused, paths(plan)))
    if every in known:
        return
    sizes = tuple(dict.fromkeys(s for w in wanted for s in w.instance.sizes))
    missing = [replace(w.instance, target=w.does.target, value=w.does.value) for w in wanted]
    for path in every:
        tensor = path.does.target.tensor
        mismatch: Fault | None = Fault(f"the plan does what was not asked for with {tensor}")
        for instance in [i for i in missing if i.target.tensor == tensor]:
            mismatch = None
            try:
                _Comparison(instance, path, sizes).compare()
            except Fault as fault:
                mismatch = fault
                continue
            missing.remove(instance)
            break
        if mismatch is not None:
            raise mismatch
    if missing:
        raise Fault(f"the plan leaves out what is added to {missing[0].target.tensor}")
    known.add(every)


class _Comparison:
    """Iterations of a path beside points of the instance, in one space: names of both are the same dimension."""

    def __init__(self, instance: Instance, path: Path, sizes: Sequence[str] = ()) -> None:
        """`sizes` are those of what runs beside."""
        instance_names = instance.domain.space.names
        defined = [n for node in path.nodes for n in _defined(node) if n not in instance.domain.space.position]
        defined += [n for n in sizes if n not in instance.domain.space.position]
        self.instance, self.path, self.made = instance, path, frozenset(defined)
        self.space = Space(dict.fromkeys((*instance_names, *defined))) if defined else instance.domain.space
        self.facts = self.space.of(comparisons(instance.facts))
        domain = instance.domain.reordered(self.space) if defined else instance.domain
        self.wanted = self.with_all(domain.intersect(self.facts), comparisons(path.when))
        self.done = self.space.universe()
        self.sizes = {*instance.sizes, *sizes}
        self.defined = {*self.sizes}
        self.linked: set[str] = set()
        self.links: list[Compare] = []
        self.products: list[tuple[str, Compare]] = []
        self.searched: set[str] = set()
        self.segments: dict[str, Segment] = {}
        self.first: tuple[Piece, dict[str, Expr | None]] = (self.wanted, {})
        """By which name `named_once` calls each, at those points."""

    def compare(self) -> None:
        """Raises Fault where they differ."""
        self.same_value()
        for node in self.path.nodes:
            self.read(node)
        self.use(*(p for o in _operands(self.path.does) for p in o.place))
        self.same_products()
        self.same_guards()
        self.done = self.with_all(self.done, self.left_out())
        done = self.done.intersect(self.facts)
        both = self.wanted.intersect(self.done)
        self.is_within(done, both, self.defined, "the plan visits a point that was not asked for")
        own_names = {*self.instance.domain.space.names, *self.sizes}
        self.is_within(self.wanted, both, own_names, "the plan leaves out a point")
        for known, what in (
            (self.defined, "an iteration stands for several points"),
            (own_names, "a point is visited twice"),
        ):
            left = self.undetermined(both, known)
            if left:
                raise Fault(f"{what}, with another {', '.join(sorted(left))}")
        compared.note(self.path, self.instance)

    def is_within(self, smaller: Piece, bigger: Piece, kept: set[str], what: str) -> None:
        """That what is kept of one set is in what is kept of the other."""
        hidden = {n for n in self.space.names if n not in kept}
        if not smaller.without(hidden).is_subset(bigger.without(hidden)):
            order = Space((*(n for n in self.space.names if n in kept), *hidden))
            point = smaller.reordered(order).outside_projection(bigger.reordered(order), hidden)
            kind = Difference if self.is_possible(point) else Fault
            raise kind(f"{what}: {point}")

    def is_possible(self, point: Mapping[str, int]) -> bool:
        """Whether there can be such a point: its quotients are some, and what is read at one place is one value."""
        for name, (numerator, divisor) in self.instance.quotients.items():
            value = _number(numerator, point)
            if name in point and value is not None and point[name] != value // divisor:
                return False
        read: dict[tuple[object, ...], int] = {}
        for name, call in self.instance.calls.items():
            place = (call.function, *(_number(a, point) for a in call.arguments))
            if name in point and None not in place and read.setdefault(place, point[name]) != point[name]:
                return False
        return True

    def undetermined(self, points: Piece, known: set[str]) -> set[str]:
        """The dimensions that may have several values where these have one."""
        determined = set(known)
        left = [n for n in self.space.names if n not in determined]
        equal = [c for c in points.constraints() if c.equality] if left else []
        while left:
            told = [n for n in left if self.is_told(equal, n, determined)]
            if told:
                determined |= {*told}
                left = [n for n in left if n not in determined]
                continue
            more = [n for n in left if self.is_determined(points, n, determined)]
            if not more:
                return set(left)
            determined |= {*more}
            left = [n for n in left if n not in determined]
        return set()

    def is_told(self, equal: Sequence[Constraint], name: str, known: set[str]) -> bool:
        """Whether an equality over `known` fixes a dimension, or it is loaded from an array at known subscripts."""
        if name in self.instance.calls and variables(self.instance.calls[name]) <= known:
            return True
        about = [c for c in equal if c.value.coefficient(name) and c.value.names() <= {*known, name}]
        return single_value(about, name) is not None

    def is_determined(self, points: Piece, name: str, known: set[str]) -> bool:
        if single_value(points.project({*known, name}).constraints(name), name) is not None:
            return True
        return points.function(name, known) is not None

    # --- what the plan says ----------------------------------------------------------------------

    def read(self, node: Plan) -> None:
        match node:
            case Scan(dim, low, high):
                self.use(*low, *high)
                self.define(dim)
                self.between(dim, low, high)
            case Find(dim, low, high, loads, conditions, key=key, given=given):
                self.use(*low, *high, *(() if key is None else (key.value,)))
                self.define(dim)
                self.between(dim, low, high)
                inside = [f for f in given if variables(f) <= self.space.position.keys()]
                self.require(*(f for f in inside if not variables(f) & {d for d, _ in loads}))
                for name, call in loads:
                    self.load(name, call)
                if key is not None:
                    self.require(Compare("=", Var(key.dim), key.value))
                self.use(*conditions)
                self.require(*inside, *conditions)
            case Define(dim, value):
                self.use(value)
                self.define(dim)
                self.require(Compare("=", Var(dim), value))
            case Load(dim, call):
                self.load(dim, call)
            case Guard(conditions):
                self.use(*conditions)
                self.require(*conditions)
            case BoundSearch(name, dim, low, high, value=value, condition=condition):
                self.use(*low, *high, value)
                self.between(dim, low, high)
                self.require(condition)
                self.searched.add(name)
            case Accumulate(target, op) if op:  # a temporary may have all its places
                within = self.path.nodes[self.path.nodes.index(node) :]
                loops = {n.dim for n in within if isinstance(n, Scan | Find)}
                if any(variables(p) & loops for p in target.place):
                    raise Fault(f"a sum is added to a place of {target.tensor} that changes within it")
            case Segment(start=start, end=end, low=low, high=high, key=key):
                self.use(*low, *high, key.value)
                self.searched |= {start, end}
                self.segments[start] = node

    def use(self, *parts: Expr | Formula) -> None:
        """What the plan speaks of has to have a value there."""
        for part in parts:
            unknown = variables(part) - self.defined - self.searched
            if unknown:
                raise Fault(f"the plan does not define {', '.join(sorted(unknown))}, but uses it in {show(part)}")

    def require(self, *formulas: Formula) -> None:
        self.done = self.with_all(self.done, comparisons(formulas))

    def define(self, dim: str) -> None:
        if dim in self.defined:
            raise Fault(f"the plan defines {dim} twice")
        self.defined.add(dim)

    def between(self, dim: str, low: Sequence[Expr], high: Sequence[Expr]) -> None:
        """What bounds say; of those that are searched for their node says it."""
        for op, bounds in ((">=", low), ("<", high)):
            for bound in bounds:
                if isinstance(bound, Var) and bound.name in self.segments:
                    self.within(dim, self.segments[bound.name])
                elif variables(bound) <= self.space.position.keys():
                    self.require(Compare(op, Var(dim), bound))

    def within(self, dim: str, segment: Segment) -> None:
        """All positions of a segment hold its key."""
        self.between(dim, segment.low, segment.high)
        for name, instance_call in self.instance.calls.items():
            if instance_call == rename(segment.call, {segment.dim: dim}) and name not in self.defined:
                self.require(Compare("=", Var(name), segment.key.value))
                self.linked.add(name)

    def load(self, dim: str, call: Call) -> None:
        """It is one of the instance's calls, whose arguments lie within the array by what is known here."""
        self.use(call)
        name, instance_call = self.same_call(dim, call)
        for mine, theirs in zip(call.arguments, instance_call.arguments, strict=True):
            self.tie(dim, mine, theirs)
        known = self.known()
        for formula in self.instance.domains[name]:
            quotients = sorted(variables(formula) & self.defined)  # a quotient that the plan computes has to be it here
            meanings = [c for n in quotients for c in self.instance.meaning(n, self.defined)]
            for constraint in (*comparisons(conjuncts(formula)), *meanings):
                if not known.implies(constraint):
                    raise Fault(f"{dim} may be read outside its array: {show(formula)} is not enforced")
        self.define(dim)
        if dim != name:
            self.links.append(Compare("=", Var(dim), Var(name)))
            self.require(self.links[-1])
            self.linked.add(name)

    def same_call(self, dim: str, call: Call) -> tuple[str, Call]:
        """Which of the instance's calls it is. A loop that the instance does not know is tied to the points so."""
        names = self.instance.domain.space.position
        alike = [
            (name, instance_call)
            for name, instance_call in self.instance.calls.items()
            if instance_call.function == call.function
        ]
        for name, instance_call in alike:
            same = [Compare("=", a, b) for a, b in zip(call.arguments, instance_call.arguments, strict=True) if a != b]
            same += [Compare("=", Var(dim), Var(name))] if dim in names and dim != name else []
            if self.holds(*same):
                return name, instance_call
        for name, instance_call in alike:
            ties = [Compare("=", a, b) for a, b in zip(call.arguments, instance_call.arguments, strict=True) if a != b]
            unknown = dim in (name, *self.made) and all(variables(t.left) - names.keys() for t in ties)
            if unknown and all(c.value.constant == 0 for c in comparisons(ties)):
                self.wanted = self.wanted.with_constraints(comparisons(ties))
                return name, instance_call
        raise Fault(f"{dim} is read from {show(call)}")

    def tie(self, dim: str, mine: Expr, theirs: Expr) -> None:
        """Names that the plan does not have get the values that they have at what is read: what is declared of it then
        speaks of the plan."""
        equal = Compare("=", mine, theirs)
        unknown = variables(theirs) - self.defined - self.linked
        if unknown:
            self.require(equal)
            self.linked |= unknown
        elif mine != theirs and not all(map(self.known().implies, comparisons([equal]))):
            raise Fault(f"{dim} is read at {show(mine)}, which need not be {show(theirs)}")

    def known(self) -> Piece:
        """What is enforced so far, and what is declared or follows by definition of that; not what it means that a
        quotient is one which the plan computes in some other way."""
        names = {*self.defined, *self.linked}
        left = [q for q in self.instance.quotients if q not in self.defined]
        meanings = [c for q in left for c in self.instance.meaning(q, names)]
        names |= {q for q, (numerator, _) in self.instance.quotients.items() if variables(numerator) <= names}
        declared = [c for c in comparisons(self.instance.facts) if c.value.names() <= names]
        return self.with_all(self.done, [*meanings, *declared])

    def left_out(self) -> list[Constraint]:
        """What the quotients are that the plan does not compute: what is declared may speak of them."""
        left = [q for q in self.instance.quotients if q not in self.defined]
        return [c for q in left for c in self.instance.meaning(q, self.space.names)]

    def with_all(self, piece: Piece, constraints: Sequence[Constraint]) -> Piece:
        """With all of them at once: islpy keeps a little memory for each object that it gives away."""
        return piece.intersect(self.space.of(constraints)) if constraints else piece

    def holds(self, *formulas: Compare) -> bool:
        """Whether all points that are asked for satisfy these. What is not affine has to be the same word for word, by
        one name for what is equal."""
        for formula in formulas:
            constraints = comparisons([formula])
            if not all(map(self.wanted.implies, constraints)):
                return False
            if not constraints and self.named_once(formula.left) != self.named_once(formula.right):
                return False
        return True

    def same_guards(self) -> None:
        """That conditions which are not affine are asked for, word for word."""
        asked: dict[Formula, Formula] = {}
        for node in self.path.nodes:
            if isinstance(node, Guard | Find):
                asked |= {self.named_once(f): f for c in node.conditions for f in conjuncts(c)}
        wanted = [f for g in self.instance.guards for f in conjuncts(g) if not comparisons([f])]
        for guard in wanted:  # which may be affine by other names
            if self.named_once(guard) not in asked:
                raise Fault(f"the plan does not ask for {show(guard)}")
        known = {self.named_once(f) for c in (*self.instance.guards, *self.path.when) for f in conjuncts(c)}
        for formula, formula_of_plan in asked.items():
            if formula not in known and not comparisons([formula_of_plan]):
                raise Fault(f"the plan asks for {show(formula_of_plan)}, which was not asked for")

    def named_once(self, expr: N) -> N:
        """The expression or condition with the first of all names that are equal at the points that are asked for."""
        if self.first[0] is not self.wanted:
            self.first = self.wanted, {}

        def rule(node: object) -> Expr | None:
            if not isinstance(node, Var):
                return None
            known = self.first[1]
            if node.name not in known:
                known[node.name] = self.first_name(node)
            return known[node.name]

        result: N = rewrite(rule, _without_marks(expr))
        return result

    def first_name(self, name: Var) -> Expr | None:
        """The number that a name is at the points that are asked for, or the first name that equals it there."""
        number = single_value(self.wanted.project({name.name}).constraints(name.name), name.name)
        if number is not None and not number[0].terms:
            return Num(number[0].constant // number[1])
        earlier = self.space.names[: self.space.position[name.name]]
        equal = (n for n in earlier if self.wanted.implies(comparisons([Compare("=", name, Var(n))])[0]))
        first = next(equal, None)
        return None if first is None else Var(first)

    def same_value(self) -> None:
        """That the same is done: at the same places, where these are in terms of the same names."""
        does, instance = self.path.does, self.instance
        if _shape(does.value) != _shape(instance.value):
            raise Fault("the plan computes another value")
        if does.monoid != instance.monoid:
            raise Fault("the plan combines values in another way")
        if self.path.finish != instance.finish:
            raise Fault(f"the plan stores {'another total' if self.path.finish else 'what was not made of the total'}")
        asked = replace(does, target=instance.target, value=instance.value)
        sums = [
            n.target for n in self.path.nodes if isinstance(n, Accumulate) and n.target.tensor == asked.target.tensor
        ]
        pairs = [*zip(_operands(does), _operands(asked), strict=True), *((target, asked.target) for target in sums)]
        for one, other in pairs:
            if (one.tensor, one.array, len(one.place)) != (other.tensor, other.array, len(other.place)):
                raise Fault(f"the plan works on {one.tensor} in place of {other.tensor}")
            for mine, theirs in zip(one.place, other.place, strict=True):
                self.same_place(one.tensor, mine, theirs)

    def same_place(self, tensor: str, mine: Expr, theirs: Expr) -> None:
        """That a subscript is the one that is asked for. Loops of the plan's own are tied to the points so."""
        mine, theirs = _without_marks(mine), _without_marks(theirs)
        if mine == theirs:
            return
        if isinstance(mine, Call):
            for name, instance_call in self.instance.calls.items():
                if instance_call.function == mine.function and self.holds(Compare("=", theirs, Var(name))):
                    for argument, asked in zip(mine.arguments, instance_call.arguments, strict=True):
                        self.same_place(tensor, argument, asked)
                    return
        equal = Compare("=", mine, theirs)
        match mine, theirs:
            case Bin(op, a, b), Bin(other, c, d) if op == other and not comparisons([equal]):
                self.same_place(tensor, a, c)
                self.same_place(tensor, b, d)
                return
        if not variables(mine) <= self.space.position.keys():
            raise Fault(f"the plan works on {tensor} at {show(mine)}, which nothing around it says")
        if not variables(mine) <= self.instance.domain.space.position.keys() and comparisons([equal]):
            self.wanted = self.wanted.with_constraints(comparisons([equal]))
        elif not comparisons([equal]):
            self.products.append((tensor, equal))
        elif not self.holds(equal):
            raise Fault(f"the plan works on {tensor} at {show(mine)}, not at {show(theirs)}")

    def same_products(self) -> None:
        """That subscripts are the same which are not affine, now that it is known what the plan's names are."""
        self.wanted = self.wanted.with_constraints(comparisons(self.links))
        for tensor, equal in self.products:
            if not self.holds(equal):
                raise Fault(f"the plan works on {tensor} at {show(equal.left)}, not at {show(equal.right)}")


def _number(expr: Expr, point: Mapping[str, int]) -> int | None:
    """The value of an affine expression at a point; None where the point does not say it."""
    value = linear(expr)
    if not value.names() <= point.keys():
        return None
    return value.constant + sum(k * point[str(name)] for name, k in value.terms)


def _operands(does: Store) -> list[Operand]:
    return [does.target, *(n.operand for n in walk(does.value) if isinstance(n, Read))]


def _defined(node: Plan) -> Iterator[str]:
    match node:
        case Find(dim, loads=loads):
            yield from (dim, *(n for n, _ in loads))
        case Scan(dim) | Define(dim) | Load(dim):
            yield dim


def _without_marks(node: N) -> N:
    """With one kind of division, whether or not its operands are known not to be negative."""

    def rule(n: object) -> Expr | None:
        return with_floors(n) if isinstance(n, Bin) and n.op in ("quot", "rem") else None

    result: N = rewrite(rule, node)
    return result


def _shape(value: object) -> object:
    """A value without its places."""
    value = _without_marks(value)
    return rewrite(lambda n: replace(n, place=(), subscripts=()) if isinstance(n, Operand) else None, value)

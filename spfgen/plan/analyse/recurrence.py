"""Statements that read what they write: which points must come before which, and in what order of loops they do.

`x[i] = ... x[j] ...` makes the point i need the point j. The pairs are a relation between two points of the statement,
in logical coordinates: all of the reading point's dimensions, and a twin of each of the writing one's. A loop may run
upwards where no pair has its writer later, downwards where none has it earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spfgen.errors import Unsupported
from spfgen.facts.formula import Expr, show
from spfgen.facts.formula import rename as renamed
from spfgen.plan.analyse.depend import coordinate
from spfgen.plan.analyse.scan import condition
from spfgen.sets.affine import Affine, NotAffine, divided, expression
from spfgen.sets.bounds import single_value
from spfgen.sets.named import Constraint, Piece, Space
from spfgen.sets.uf import comparisons, linear
from spfgen.space.nodes import Group, Instance, Operand

UP, DOWN, FREE = "upwards", "downwards", "in any order"


@dataclass(frozen=True)
class Need:
    """A read of the target: `pairs` are over the dimensions of its instance and the `twins` of the point's."""

    instance: Instance
    read: Operand
    pairs: Piece
    twins: Mapping[str, str]

    def among(self, constraints: Iterable[Constraint]) -> Piece:
        return self.pairs.with_constraints(constraints)

    def apart(self, loop: str, sign: int) -> Constraint:
        """The writer is later (sign 1), earlier (-1) or the same (0) in the loop."""
        difference = Affine(((self.twins[loop], 1), (loop, -1)))
        return Constraint(True, difference) if not sign else Constraint(False, difference.scaled(sign).plus(-1))

    def writer(self, loop: str) -> Expr | None:
        """The writer's value of a loop, in the dimensions of the reading point; None if it has several."""
        twin = self.twins[loop]
        about = self.pairs.project({*self.instance.domain.space.names, twin}).constraints(twin)
        single = single_value(about, twin)
        return None if single is None else expression(divided(*single))

    def text(self, loops: Sequence[str]) -> str:
        """The relation between writer and reader, over the loops."""
        twins = [self.twins[n] for n in loops]
        kept = {*self.instance.sizes, *loops, *twins}
        known = self.pairs.space.of(comparisons(self.instance.facts))
        constraints = self.pairs.project(kept).gist(known).constraints()
        conditions = [show(condition(c)) for c in constraints if c.value.names() <= kept]
        return f"{{ [{', '.join(twins)}] -> [{', '.join(loops)}] : {' and '.join(conditions)} }}"


@dataclass(frozen=True)
class LoopDirections:
    """How each loop of a statement must run, outermost first; the needs of those that carry any."""

    loops: tuple[tuple[str, str], ...]
    carried: Mapping[str, tuple[Need, ...]]

    def example(self, loop: str) -> str:
        """Two iterations of a loop of which one needs the other, as the end of a sentence."""
        for need in self.carried.get(loop, ()):
            for sign in (-1, 1):
                point = need.among([need.apart(loop, sign)]).sample()
                if point is not None:
                    first, second = point[need.twins[loop]], point[loop]
                    place = coordinate(need.read, point)
                    return f": iteration {loop} = {first} writes {place}, which iteration {loop} = {second} reads"
        return ""

    def way(self, loop: str) -> str:
        return dict(self.loops).get(loop, FREE)


def needs(group: Group, shared: Sequence[str]) -> list[Need]:
    """What the points of a statement need of its own. `shared` are the dimensions of the point in all instances."""
    assert group.point is not None
    dependences = []
    for instance in group.instances:
        for read in instance.reads:
            if read.tensor == group.target:
                dependences.append(_need(group.point, instance, read, shared))
    return dependences


def _need(point: Instance, instance: Instance, read: Operand, shared: Sequence[str]) -> Need:
    twins = {n: f"{n}'" for n in shared}
    sizes = [s for s in point.sizes if s not in instance.domain.space.position]
    space = Space((*sizes, *instance.domain.space.names, *twins.values()))
    pairs = instance.domain.reordered(space).with_constraints(comparisons(instance.facts))
    for constraint in point.domain.project({*point.sizes, *shared}).constraints():
        pairs = pairs.with_constraints([Constraint(constraint.equality, _twin(constraint.value, twins))])
    for written, other in zip(point.target.subscripts, read.subscripts, strict=True):
        try:
            same = linear(renamed(written, twins)) - linear(other)
        except NotAffine:  # not known to differ: then it may be any
            continue
        pairs = pairs.with_constraints([Constraint(True, same)])
    return Need(instance, read, pairs, twins)


def _twin(value: Affine, twins: Mapping[str, str]) -> Affine:
    return linear(renamed(expression(value), twins))


def running(group: Group, needs: Sequence[Need], loops: Sequence[str], fixed: bool) -> LoopDirections:
    """How the loops must run, outermost first: in the order given, or else (if it is not fixed) in another one.

    Raises Unsupported with a counterexample when no order has every writer before its readers.
    """
    left = [(n, n.pairs) for n in needs if not n.pairs.is_empty()]
    ways: list[tuple[str, str]] = []
    carried: dict[str, tuple[Need, ...]] = {}
    waiting = list(loops)
    # The first loop along which all needs go one way is as good as any: it leaves those along the others that it is
    # equal for, which are fewer. Nothing is tried twice.
    while waiting:
        for loop in waiting[:1] if fixed else waiting:
            earlier = [n for n, p in left if not p.with_constraints([n.apart(loop, -1)]).is_empty()]
            later = [n for n, p in left if not p.with_constraints([n.apart(loop, 1)]).is_empty()]
            if not (earlier and later):
                break
        else:
            raise _circle(group, needs, loops)
        ways.append((loop, UP if earlier else DOWN if later else FREE))
        if earlier or later:
            carried[loop] = tuple(earlier or later)
        left = [(n, p.with_constraints([n.apart(loop, 0)])) for n, p in left]
        left = [(n, p) for n, p in left if not p.is_empty()]
        waiting.remove(loop)
    if left:
        raise _circle(group, needs, loops)
    return LoopDirections(tuple(ways), carried)


def _circle(group: Group, needs: Sequence[Need], loops: Sequence[str]) -> Unsupported:
    """Two points that need each other, or one that needs itself, where there are such; else pairs in two directions."""
    examples = []
    for need in needs:
        for sign in (-1, 1):
            for loop in loops:
                pairs = need.among([need.apart(loop, sign)])
                if not pairs.is_empty():
                    examples.append(_example(group, need, _small(need, pairs, loops), loops))
    for need in needs:
        itself = need.among([need.apart(n, 0) for n in loops])
        if not itself.is_empty():
            first = _example(group, need, _small(need, itself, loops), loops)
            examples = [*examples[: 2 * (len(examples) > 1)], first]
    ordered = list(dict.fromkeys(examples))
    return Unsupported(
        f"`{group.target}` is read before it is written in every order of the loops",
        group.span,
        (
            f"for example {', and '.join(ordered[:2])}",
            "use a condition to order the values, such as `sum(j < i: ...)`, or assign to another tensor",
        ),
    )


def _small(need: Need, pairs: Piece, loops: Sequence[str]) -> Piece:
    """The pairs among the first few points, where there are some."""
    for limit in (1, 2, 4):
        names = [n for loop in loops for n in (loop, need.twins[loop])]
        near = pairs.with_constraints(
            Constraint(False, Affine(((n, sign),), limit if sign < 0 else 0)) for n in names for sign in (-1, 1)
        )
        if not near.is_empty():
            return near
    return pairs


def _example(group: Group, need: Need, pairs: Piece, loops: Sequence[str]) -> str:
    """`x[0] needs x[1]`."""
    assert group.point is not None
    point = pairs.sample() or {}

    def at(names: Mapping[str, str]) -> str:
        values = {n: point.get(names.get(n, n), 0) for n in point if "'" not in n}
        return f"{group.target}[{', '.join(_value(s, values) for s in group.point.target.subscripts)}]"  # type: ignore[union-attr]

    reader, writer = at({}), at(need.twins)
    return f"{reader} needs {'itself' if reader == writer else writer}"


def _value(subscript: Expr, values: Mapping[str, int]) -> str:
    value = linear(subscript)
    return str(value.constant + sum(c * values.get(str(n), 0) for n, c in value.terms))


def order_text(needs: Sequence[Need], loops: Sequence[str]) -> str:
    """Which reads need what, in words and as relations."""
    texts = []
    for need in needs:
        subscripts = ", ".join(map(show, need.read.subscripts))
        texts.append(f"it reads {need.read.tensor}[{subscripts}], written by {need.text(loops)}")
    return "; ".join(dict.fromkeys(texts))

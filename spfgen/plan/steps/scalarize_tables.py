"""Tables whose entries come one after another: scalars take their place.

A table of the points at which a reduction has something to combine is filled by one nest of loops and gone through by
another. Where the outer loops of the first come by each coordinate once, all that is combined at a coordinate comes
together: it is combined in a scalar, and what the second nest does with the entry follows at once. So nested reductions
over a tree of fibres are one nest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spfgen.facts.formula import ZERO, Call, Compare, Expr, Formula, Num, Var, conjuncts, variables
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.plan.nodes import (
    Assign,
    Block,
    Collect,
    Define,
    Find,
    Guard,
    If,
    Let,
    Load,
    Plan,
    Probe,
    Scan,
    SearchState,
    UpdateEntry,
    goes_on,
    with_body,
)
from spfgen.plan.steps.env import number_of
from spfgen.plan.steps.invariant import ends_loop, written
from spfgen.space.local_tensors import AT, COUNT
from spfgen.space.nodes import Operand, Read
from spfgen.space.typed import Scalar

Apart = Callable[[str, Sequence[Expr]], bool]
"""Whether iterations of a loop with different values come by different coordinates."""


@dataclass(frozen=True)
class Grouped:
    """A table of `extents`, with values of that type; another one of how many points each of its entries combines, or
    "" and the name of a scalar for whether there is any; the coordinates of an entry in terms of the loops that make
    it."""

    name: str
    kind: str
    counts: str
    seen: str
    at: tuple[Expr, ...]
    extents: tuple[Expr, ...]

    @property
    def names(self) -> set[str]:
        return {self.name, self.counts} - {""}


def streamed(plan: Block, tables: Sequence[Grouped], apart: Apart) -> Block:
    """The plan without the tables that it can do without."""
    for table in tables:

        def rule(node: Any, table: Grouped = table) -> Plan | None:
            return _fused(node, table, apart) if isinstance(node, Block) else None

        fused: Block = rewrite(rule, plan, Plan)
        if fused is not plan:
            kept = (p for p in fused.parts if not (isinstance(p, Collect) and p.name in table.names))
            fused = replace(fused, parts=tuple(kept))
            plan = plan if _mentions(fused, table.names) else fused
    return plan


def _fused(block: Block, table: Grouped, apart: Apart) -> Block | None:
    """The block without the table, if all that has to do with it is in there: what fills it, what completes its
    entries, and one loop over them."""
    parts = list(block.parts)
    filling = [k for k, p in enumerate(parts) if any(_enters(n, table.name) for n in walk(p, Plan))]
    if len(filling) != 1 + bool(table.counts):
        return None
    first, last = filling[0], filling[-1]
    nest = parts[first]
    if isinstance(nest, Collect):
        nest = nest.body.parts[0] if isinstance(nest.body, Block) and len(nest.body.parts) == 1 else nest
    after = [(k, candidate) for k in range(last + 1, len(parts)) for candidate in _loops_over(parts[k], table.name)]
    if len(after) != 1:
        return None
    place, (loop, before) = after[0]
    between = [*(p for k, p in enumerate(parts[first + 1 : place], first + 1) if k != last), *before]
    if _changed(between) & _read(nest):
        return None
    completing = None if first == last else parts[last]
    fused_nest = _nest(nest, completing, loop, table, apart)
    if fused_nest is None:
        return None
    parts[place] = rewrite(lambda n: fused_nest if n is loop else None, parts[place], Plan)
    return replace(block, parts=tuple(p for k, p in enumerate(parts) if k not in filling))


def _loops_over(plan: Plan, name: str, before: tuple[Plan, ...] = ()) -> list[tuple[Scan, tuple[Plan, ...]]]:
    """The loop over the entries of a table in what runs once, with what runs before it."""
    if isinstance(plan, Scan) and plan.high == (Var(f"{name}.{COUNT}"),):
        return [(plan, before)]
    if isinstance(plan, Block):
        parts = plan.parts
        return [f for k, p in enumerate(parts) for f in _loops_over(p, name, (*before, *parts[:k]))]
    return []


def _nest(nest: Plan, completing: Plan | None, loop: Scan, table: Grouped, apart: Apart) -> Plan | None:
    """The nest that fills a table, with what is done for an entry where all of it is there; None where that is not
    proved."""
    bound = {s.name for n in walk(nest, Plan) for s in n.computed() if s.name}
    done = _for_entry(loop, table, table.name, bound)
    completed = None if completing is None else _for_entry(completing, table, table.counts, bound)
    entries = [n for n in walk(nest, Plan) if isinstance(n, UpdateEntry) and n.name in table.names]
    if done is None or (completing is not None and completed is None) or len(entries) != len(table.names):
        return None
    entry = next(n for n in entries if n.name == table.name)
    seen = Scalar(table.counts or table.seen, "int64" if table.counts else "bool")
    why = "all its terms come together: the outer loops visit each coordinate once"
    lets = (
        Let(entry.name, entry.type, number_of(entry.fill, entry.type), why),
        Let(seen.name, seen.type, lang.Constant(0) if table.counts else lang.Constant(False)),
    )
    some = lang.Apply("less", (lang.Constant(0), seen)) if table.counts else seen

    def together(part: Plan) -> Plan:
        """What comes by one coordinate, and then what is done with it."""
        more = () if completed is None else (completed,)
        return Block((*lets, _assigning(part, table), If(some, Block((*more, done)))))

    needed = variables(*table.at) & bound
    fused_nest = _within(nest, needed, table.at, apart, together)
    if fused_nest is None or not loop.parallel:
        return fused_nest
    return _shared(fused_nest, loop)


def _within(
    plan: Plan, needed: set[str], at: Sequence[Expr], apart: Apart, rule: Callable[[Plan], Plan]
) -> Plan | None:
    """The nest with the rule applied where all that is needed is known; None where a loop around comes by the same
    coordinates again."""
    if not needed:
        return rule(plan)
    needed = needed - {s.name for s in plan.computed() if s.name}
    match plan:
        case Scan(dim, parallel=False) | Find(dim, miss=None, parallel=False) if apart(dim, at):
            pass
        case Load() | Define() | Guard():
            pass
        case Block((*defined, last)) if all(map(goes_on, defined)):
            names = {p.dim for p in defined if isinstance(p, Define)}
            inner = _within(last, needed - names, at, apart, rule)
            return None if inner is None else replace(plan, parts=(*defined, inner))
        case _:
            return None
    inner = _within(plan.inner, needed, at, apart, rule) if plan.inner is not None else None
    return None if inner is None else with_body(plan, inner)


def _shared(nest: Plan, loop: Scan) -> Plan | None:
    """The nest on several threads, as the loop over the entries was."""
    if any(isinstance(n, SearchState) for n in walk(nest, Plan)):
        return None
    match nest:
        case Scan():
            shared = replace(nest, private=loop.private, combined=loop.combined, partition=loop.partition)
            return replace(shared, parallel=True, because=loop.because)
        case Load() | Define() | Guard():
            inner = _shared(nest.body, loop)
            return None if inner is None else with_body(nest, inner)
    return None


def _for_entry(loop: Plan, table: Grouped, name: str, bound: set[str]) -> Plan | None:
    """What a loop over the entries of a table does for one of them, whose coordinates are known by what is `bound`."""
    if not isinstance(loop, Scan) or loop.segment_keys or loop.down or ends_loop(loop.body):
        return None
    if loop.partition is not None and loop.partition.adds:
        return None
    lines: list[Plan] = []
    node, inside = loop.body, _bounds(table)
    guards: list[Formula] = []
    while True:
        match node:
            case Load(dim, Call(function, (Var(entry), Num(k)))) if function == f"{name}.{AT}" and entry == loop.dim:
                if Var(dim) != table.at[k]:
                    if dim in bound:
                        return None
                    lines.append(Define(dim, table.at[k]))
                    inside |= _bounds(replace(table, at=(Var(dim),), extents=(table.extents[k],)))
                node = node.body
            case Guard(conditions):
                guards += [c for one in conditions for c in conjuncts(one) if c not in inside]
                node = node.body
            case _:
                break
    result: Plan = _assigning(node, table)
    if guards:
        result = Guard(tuple(guards), result)
    result = Block((*lines, result)) if lines else result
    return None if any(isinstance(n, Var) and n.name == loop.dim for n in walk(result)) else result


def _bounds(table: Grouped) -> set[Formula]:
    """What holds of the coordinates of all entries."""
    low = {Compare(">=", at, ZERO) for at in table.at}
    return low | {Compare(">", extent, at) for at, extent in zip(table.at, table.extents, strict=True)}


def _assigning(plan: Plan, table: Grouped) -> Plan:
    """The plan with scalars for the entry at hand."""

    def rule(node: Any) -> Any:
        match node:
            case UpdateEntry(name, kind, value=value, old=old) if name in table.names:
                scalar = Scalar(name, kind)
                new = rewrite(lambda n: scalar if n == Scalar(old, kind) else None, value)
                combined = Assign(name, kind, new)
                return combined if table.counts else Block((combined, Assign(table.seen, "bool", lang.Constant(True))))
            case Read(Operand(tensor=name)) if name in table.names:
                return Scalar(name, table.kind if name == table.name else "int64")
        return None

    result: Plan = rewrite(rule, plan)
    return result


def _enters(node: Any, name: str) -> bool:
    return isinstance(node, UpdateEntry) and node.name == name


def _changed(plans: Sequence[Plan]) -> set[str]:
    """The tensors, tables and scalars that are changed."""
    nodes = [n for p in plans for n in walk(p, Plan)]
    return {*written(nodes), *(n.name for n in nodes if isinstance(n, Assign))}


def _read(plan: Plan) -> set[str]:
    """The tensors, tables and scalars that are read."""
    nodes = list(walk(plan))
    names = {n.tensor for n in nodes if isinstance(n, Operand)} | {n.name for n in nodes if isinstance(n, Scalar)}
    return names | {n.function.partition(".")[0] for n in nodes if isinstance(n, Call)}


def _mentions(plan: Plan, names: Collection[str]) -> bool:
    """Whether a plan speaks of tables."""
    arrays = {f"{name}.{array}" for name in names for array in (AT, COUNT)}
    for node in walk(plan):
        match node:
            case Plan(writes=name) | Operand(tensor=name) if name in names:
                return True
            case Probe(_, name) if name in names:
                return True
            case Call(name) | Var(name) if name in arrays:
                return True
    return False

"""Names of what finds keep: each access has its own, in all nests that stand in the same loops.

Finds call their states, tables and ends of segments by the position that they look for. Within a nest no two finds look
for the same one, but nests of several sums may: for two reads of one tensor, or two mappings of its relation. A table
that is built of the same is one table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from spfgen.facts.formula import Var, rename
from spfgen.ir import fresh, rewrite, walk
from spfgen.plan.nodes import PLANS, Block, BoundSearch, Find, FindTable, Plan, SearchState, Segment

NOTHING = Block(())


def with_own_names(nests: Iterable[Plan]) -> list[Plan]:
    """The nests with names that no other one of them has, unless for the same table."""
    taken: set[str] = set()
    tables: dict[str, FindTable] = {}
    result = []
    for nest in nests:
        kept = [n for n in walk(nest, PLANS) if isinstance(n, SearchState | FindTable | Segment | BoundSearch)]
        wanted = [name for node in kept for name in sorted(own_names(node)) if not _is_known(node, tables)]
        names: dict[str, str] = {}
        for name in dict.fromkeys(wanted):
            names[name] = fresh(name, taken | set(wanted) - {name})
            taken.add(names[name])
        renamed = with_names(nest, {old: new for old, new in names.items() if old != new})
        tables |= {n.name: replace(n, body=NOTHING) for n in walk(renamed, PLANS) if isinstance(n, FindTable)}
        result.append(renamed)
    return result


def own_names(node: Plan) -> set[str]:
    """What a node gives a name to."""
    match node:
        case SearchState(name) | FindTable(name) | BoundSearch(name):
            return {name}
        case Segment(start=start, end=end):
            return {start, end}
    return set()


def used_names(plan: Plan) -> set[str]:
    """The names that a plan uses, of dimensions too."""
    nodes = [*walk(plan)]
    return {n.name for n in nodes if isinstance(n, Var)} | {
        n.place for n in nodes if isinstance(n, Find | Segment | BoundSearch)
    }


def _is_known(node: Plan, tables: Mapping[str, FindTable]) -> bool:
    return isinstance(node, FindTable) and tables.get(node.name) == replace(node, body=NOTHING)


def with_names(nest: Plan, names: Mapping[str, str]) -> Plan:
    """The nest with other names of what finds keep."""
    if not names:
        return nest

    def rule(node: object) -> Plan | None:
        match node:
            case SearchState(name) | FindTable(name) if name in names:
                return replace(node, name=names[name])
            case BoundSearch(name, place=place) if {name, place} & names.keys():
                return replace(node, name=names.get(name, name), place=names.get(place, place))
            case Segment(start=start, end=end, place=place) if {start, end, place} & names.keys():
                start, end, place = (names.get(n, n) for n in (start, end, place))
                return replace(node, start=start, end=end, place=place)
            case Find(place=place) if place in names:
                return replace(node, place=names[place])
        return None

    renamed: Plan = rewrite(rule, nest, PLANS)
    result: Plan = rename(renamed, names)
    return result

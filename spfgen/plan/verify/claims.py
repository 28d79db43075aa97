"""What `explain` may claim of a plan: what was compared with the statement, and what is only tested."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spfgen.ir import rewrite, walk
from spfgen.lang.expressions import counted
from spfgen.plan.nodes import (
    PLANS,
    Append,
    Clear,
    Collect,
    Find,
    Partition,
    Plan,
    Products,
    Repeat,
    RowWorkspace,
    Scan,
    Version,
)
from spfgen.plan.verify.compared import Compared
from spfgen.plan.verify.meaning import Fault, finishing, paths, without_unused
from spfgen.space.nodes import Group

POINTS = "the loops visit exactly the points of the iteration space (both inclusions, by isl)"
READS = "every read of an index array lies within the array (by isl, from the declared ranges)"
NESTS = "each loop nest, as it was made, visits the points of its region and reads within index arrays (by isl)"
SAME = "rewrites have only moved nodes of the plan, and given names to loads"
SUMS = "for sums of products, the loops visit exactly the points and read within index arrays (by isl)"
WHOLE = "after all rewrites, each statement is in such a nest, and reads and stores the values of the nest's points"


@dataclass(frozen=True)
class Claims:
    """What was `proved` of the loops as a whole, and what is `only_tested`."""

    proved: tuple[str, ...]
    only_tested: tuple[str, ...]


def claims(plan: Plan, compared: Compared) -> Claims:
    """Of the plan of a statement, or of all."""
    whole = bool(compared.nests) and all(compared.nests) and not compared.unknown
    alone = isinstance(plan, Products)
    sums = [n for n in walk(plan, PLANS) if isinstance(n, Products)]
    points = bool(sums) and all(_is_compared(n.asked.group, n.body, compared) for n in sums)
    tested = [] if alone else [*_of_steps(plan, whole)]
    if compared.changed:
        passes = ", ".join(dict.fromkeys(compared.rewritten))
        tested.append(f"{counted(compared.changed, 'node')} that rewrites have changed ({passes})")
    if alone:
        proved = [POINTS, READS] if points else []
        if not proved:
            tested.append("that the loops visit the points of the iteration space, and read within index arrays")
    else:
        proved = [SUMS] if points else []
        proved += [NESTS] if compared.nests and all(compared.nests) else []
        proved += [WHOLE] if whole else []
        proved += [SAME] if compared.planned and not compared.changed else []
        if not proved:
            tested.insert(0, "which points the loops visit, and that they read within index arrays")
    nodes = list(walk(plan, PLANS))
    if proved and any(isinstance(n, Version) and n.by_order for n in nodes):
        proved.append("versions with fewer tests, for sorted index arrays, are equivalent (by Z3)")
    if any(_clears(n) for n in nodes):
        tested.append("that elements are cleared before they are added to")
    if any(isinstance(n, RowWorkspace) for n in nodes):
        tested.append("that the entries of a row are added up before they are appended")
    if any(isinstance(n, Append) for n in nodes):
        tested.append("how the entries become the arrays of the result")
    tested.append("that the C, after all rewrites, computes what these loops say")
    return Claims(tuple(proved), tuple(tested))


def _is_compared(group: Group, plan: Plan, compared: Compared) -> bool:
    """Whether each way through the plan was compared, and the instances that they were compared with are as many as the
    statement has."""
    try:
        plain = rewrite(lambda n: n.body if isinstance(n, RowWorkspace) else None, plan, PLANS)
        stores = finishing(plain)
        every = [*paths(plain), *(paths(stores) if stores != plain else ())]
        compared_paths = [p if p in compared.paths else without_unused(p) for p in every]
    except Fault:
        return False
    instances = [i for path in compared_paths for i in compared.paths.get(path, ())]
    distinct = [i for k, i in enumerate(instances) if i not in instances[:k]]
    return all(p in compared.paths for p in compared_paths) and len(distinct) >= len(group.all)


def _of_steps(plan: Plan, whole: bool) -> Iterator[str]:
    nodes = list(walk(plan, PLANS))
    yield "what is computed at the points of nests" + ("" if whole else ", and how nests are combined and rewritten")
    merges = [n.because for n in nodes if isinstance(n, Repeat) and n.because.endswith("merged")]
    yield from (f"the merge: {why}" for why in dict.fromkeys(merges))
    if any(isinstance(n, Repeat) and not n.because for n in nodes):
        yield "when `while` ends"
    if any(isinstance(n, Collect) for n in nodes):
        yield "the contents of hash tables"


def _clears(node: object) -> bool:
    match node:
        case Clear():
            return True
        case Scan(partition=Partition(clears=tensor)) | Find(partition=Partition(clears=tensor)):
            return bool(tensor)
    return False

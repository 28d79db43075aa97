"""Segments that lie one behind the other, gone through in one loop: loop flattening.

    for i { for p in [f(i), f(i + 1)) { y[g(p)] += A[p]*x[i] } }

Where segments are short and of many lengths a processor foresees few of their ends. But all positions of some
neighbouring i are one range: one loop goes through it, which is told by marks where an i begins. Where no position
needs its i, one loop goes through them all.

    for i { for p in [f(i), f(i + 1)) { j = g(p); find j in a bitmap: hit } }

Where few positions hit, the i of a position is only looked for at a hit, on from the last one; and a block of positions
none of whose keys is in the bitmap is passed over.

CPU time without the pass by that with it, one thread, best of 9 or more on a busy machine, one run:
`y[i] = A[i,j]*x[j]` of csr and a sparse vector, flattened searches, 1.23 for a stencil and 2.16 for random columns
where a hundredth of the vector is stored; 0.94 and 0.99 where three tenths are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spfgen import tuning
from spfgen.facts.formula import Bin, Call, Compare, Expr, Num, Var, variables
from spfgen.facts.prove import implied
from spfgen.ir import rewrite
from spfgen.plan.analyse.segments import segments
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    Block,
    Clear,
    Define,
    Find,
    Flatten,
    Load,
    Plan,
    Scan,
    Store,
    chain,
    is_sum,
    with_body,
)
from spfgen.space.nodes import Instance


def flattened(instance: Instance, plan: Plan) -> Plan:
    """The plan whose loops over segments do so that add to memory, and do nothing else."""
    result: Plan = rewrite(lambda n: _by_marks(instance, n) if isinstance(n, Scan) else None, plan, PLANS)
    return result


def _by_marks(instance: Instance, outer: Scan) -> Plan | None:
    above: list[Load] = []
    inner = outer.body
    while isinstance(inner, Load):
        above.append(inner)
        inner = inner.body
    if not isinstance(inner, Scan) or not _is_plain(inner) or inner.parallel or outer.collapse or not _is_plain(outer):
        return None
    if not all(isinstance(n, Load | Define | Store) for n in chain(inner.body)):
        return None
    pointer = segments(outer, inner, above)
    used = variables(inner.body)  # type: ignore[arg-type]
    if not pointer or used & variables(*inner.low, *inner.high):
        return None
    if not used & {outer.dim, *(n.dim for n in above)}:
        flattened = Flatten(pointer, inner.dim)
    elif inner.ahead is not None and isinstance(inner.ahead.long, Compare) and inner.ahead.begins is not None:
        short = Compare("<=", inner.ahead.long.left, Bin("*", Num(tuning.FLATTENED_SEGMENT), inner.ahead.rows))
        flattened = Flatten(pointer, inner.dim, short, inner.ahead.rows)
    else:
        return None
    return replace(outer, flatten=flattened) if _segments_rise(instance, outer, pointer) else None


def with_flattened_searches(instance: Instance, plan: Plan) -> Plan:
    """The nest whose two innermost loops are one where it looks keys up in a bitmap: what a hit adds to a place of the
    row is added there at once."""
    nodes = list(chain(plan))
    scans = [k for k, n in enumerate(nodes) if isinstance(n, Scan | Find)]
    if len(scans) < 3:
        return plan
    outer, inner, innermost = scans[-3:]
    rows, positions, find = nodes[outer], nodes[inner], nodes[innermost]
    if not (isinstance(rows, Scan) and isinstance(positions, Scan) and isinstance(find, Find)):
        return plan
    between, before = nodes[outer + 1 : inner], nodes[inner + 1 : innermost]
    if not (_is_plain(rows) and _is_plain(positions)) or not _asks_bitmap(find, before, positions.dim):
        return plan
    pointer = segments(rows, positions, between)
    if not pointer or not _only_hits_ask(rows, between, before, find):
        return plan
    sums = {k: n for k, n in enumerate(nodes) if isinstance(n, Accumulate)}
    if any(k < outer or not is_sum(n) for k, n in sums.items()) or not _segments_rise(instance, rows, pointer):
        return plan  # what all rows add up is in a register
    if any(n.monoid is not None or n.finish is not None for n in sums.values()):
        return plan  # what a hit gives can be added at once, but not to what is made of a total
    if rows.partition is not None and rows.partition.adds not in ("", "copies"):
        return plan
    stored = next((n for n in nodes[:innermost] if is_sum(n)), None)
    whole = rows.partition and replace(rows.partition, slice=None, row="")
    rewritten_nodes: dict[int, Plan] = {
        outer: replace(rows, partition=whole, flatten=Flatten(pointer, positions.dim, hits=find.place))
    }
    result = find.hit
    for k in reversed(range(innermost + 1)):
        node = replace(find, hit=result) if k == innermost else rewritten_nodes.get(k, nodes[k])
        result = result if is_sum(node) else with_body(node, result)
    if stored is not None and stored.op == "=":
        return Block((Clear(stored.target.tensor, "what is found is added at once"), result))
    return result


def _is_plain(scan: Scan) -> bool:
    return len(scan.low) == len(scan.high) == 1 and not (
        scan.down or scan.vector or scan.unroll or scan.segment_keys or scan.flatten
    )


def _asks_bitmap(find: Find, before: Sequence[Plan], position: str) -> bool:
    """Whether a bitmap is asked for what an array holds at the position itself, and for nothing else."""
    if find.algorithm != "bitmap" or find.conditions or find.miss is not None:
        return False
    if find.key is None or not (find.key.inside and find.key.unique):
        return False
    key: Expr = find.key.value
    values = {n.dim: n.call if isinstance(n, Load) else n.value for n in before if isinstance(n, Load | Define)}
    while isinstance(key, Var) and key.name in values:
        key = values[key.name]
    return isinstance(key, Call) and key.arguments == (Var(position),)


def _only_hits_ask(rows: Scan, between: Sequence[Plan], before: Sequence[Plan], find: Find) -> bool:
    """Whether nothing but a hit asks for the row."""
    if not all(isinstance(n, Load | Define) or is_sum(n) for n in between):
        return False
    if not all(isinstance(n, Load | Define) for n in before):
        return False
    row = {rows.dim, *(n.dim for n in between if isinstance(n, Load | Define))}
    asked = [n.call if isinstance(n, Load) else n.value for n in before if isinstance(n, Load | Define)]
    assert find.key is not None
    return not any(variables(e) & row for e in (*asked, find.key.value, *find.low, *find.high))


def _segments_rise(instance: Instance, rows: Scan, pointer: str) -> bool:
    """Whether a segment never ends before it begins."""
    row = Var(rows.dim)
    inside = [Compare(">=", row, e) for e in rows.low] + [Compare("<", row, e) for e in rows.high]
    goal = Compare("<=", Call(pointer, (row,)), Call(pointer, (Bin("+", row, Num(1)),)))
    return implied(
        [*instance.sizes_known, *inside], instance.axioms, goal, about=f"all segments of {pointer} in one loop"
    ).proved

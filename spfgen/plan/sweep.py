"""Two loops over the segments of a pointer array, run as one over all positions.

    for i { for p in [f(i), f(i + 1)) { j = g(p); find j in a bitmap: hit } }

Few positions hit. The segments lie one behind the other, since f rises (proved), so the positions are swept in
blocks: a block none of whose keys is in the bitmap is passed over, and the segment of a position is only looked for at
a hit, on from the last one. What the hit adds to one place of the row is added there at once.
"""

from __future__ import annotations

from dataclasses import replace

from spfgen.facts.formula import Bin, Call, Compare, Expr, Num, Var, variables
from spfgen.facts.prove import implied
from spfgen.plan.nodes import Clear, Find, Load, Locate, Plan, Reduce, Row, Scan, Seq, Sweep, chain, with_body
from spfgen.space.nodes import Instance


def swept(instance: Instance, plan: Plan) -> Plan:
    """The nest with its two innermost loops as one, where that is right; else as it is."""
    nodes = list(chain(plan))
    scans = [k for k, n in enumerate(nodes) if isinstance(n, Scan | Find)]
    if len(scans) < 3:
        return plan
    outer, inner, found = scans[-3:]
    rows, positions, find = nodes[outer], nodes[inner], nodes[found]
    if not (isinstance(rows, Scan) and isinstance(positions, Scan) and isinstance(find, Find)):
        return plan
    between, before = nodes[outer + 1 : inner], nodes[inner + 1 : found]
    call = _key(find, before, positions.dim)
    pointer = pointer_of(rows, positions, between)
    if call is None or pointer is None or not _separate(rows, between, before, find):
        return plan
    if not segments_rise(instance, rows, pointer):
        return plan
    stored = next((n for n in nodes[: found + 1] if isinstance(n, Reduce)), None)
    hit: Plan = Row(
        rows.dim, pointer, positions.dim, _nested([n for n in between if not isinstance(n, Reduce)], find.hit)
    )
    body = _nested(before, replace(find, hit=hit))
    sweep: Plan = Sweep(
        positions.dim,
        rows.dim,
        pointer,
        rows.low,
        rows.high,
        call,
        find.place,
        body,
        rows.parallel,
        rows.because,
        rows.share,
    )
    result = _nested([n for n in nodes[:outer] if not isinstance(n, Reduce)], sweep)
    if stored is not None and stored.op == "=":
        return Seq((Clear(stored.target.tensor, "what is found is added at once"), result))
    return result


def _nested(nodes: list[Plan], inside: Plan) -> Plan:
    for node in reversed(nodes):
        inside = with_body(node, inside)
    return inside


def _key(find: Find, before: list[Plan], position: str) -> Call | None:
    """The call that the bitmap is asked for, when it is what an array holds at the position itself."""
    if (
        find.algorithm != "bitmap"
        or find.key is None
        or not find.key.inside
        or find.conditions
        or find.miss is not None
    ):
        return None
    if not find.key.unique:
        return None
    values: dict[str, Expr] = {}
    for node in before:
        match node:
            case Load(dim, call):
                values[dim] = call
            case Locate(dim, copied):
                values[dim] = copied
            case _:
                return None
    value: Expr = find.key.value
    while isinstance(value, Var) and value.name in values:
        value = values[value.name]
    return value if isinstance(value, Call) and value.arguments == (Var(position),) else None


def pointer_of(rows: Scan, positions: Scan, between: list[Plan]) -> str | None:
    """f when the inner loop runs over [f(i), f(i + 1))."""
    loads = {n.dim: n.call for n in between if isinstance(n, Load)}
    if len(positions.low) != 1 or len(positions.high) != 1 or len(rows.low) != 1 or len(rows.high) != 1:
        return None
    bounds = [loads.get(e.name) if isinstance(e, Var) else None for e in (positions.low[0], positions.high[0])]
    low, high = bounds
    if low is None or high is None or low.function != high.function:
        return None
    wanted = (Var(rows.dim),), (Bin("+", Var(rows.dim), Num(1)),)
    return low.function if (low.arguments, high.arguments) == wanted else None


def _separate(rows: Scan, between: list[Plan], before: list[Plan], find: Find) -> bool:
    """Whether nothing but a hit asks for the row."""
    if not all(isinstance(n, Load | Locate | Reduce) for n in between):
        return False
    about = {rows.dim, *(n.dim for n in between if isinstance(n, Load | Locate))}
    asked = [n.call if isinstance(n, Load) else n.value for n in before if isinstance(n, Load | Locate)]
    assert find.key is not None
    return not any(variables(e) & about for e in (*asked, find.key.value, *find.low, *find.high))


def segments_rise(instance: Instance, rows: Scan, pointer: str) -> bool:
    """Whether a segment never ends before it begins, and the next one begins where it ends."""
    row = Var(rows.dim)
    inside = [Compare(">=", row, e) for e in rows.low] + [Compare("<", row, e) for e in rows.high]
    sizes = [Compare(">=", Var(s), Num(0)) for s in instance.sizes]
    goal = Compare("<=", Call(pointer, (row,)), Call(pointer, (Bin("+", row, Num(1)),)))
    return implied([*sizes, *inside], instance.axioms, goal, about=f"all segments of {pointer} in one loop").proved

"""Register tiles: a few neighbouring values of the result are summed in registers over all loops inside.

    for p { for c { C[i, c] += A[p]*B[j(p), c] } }

reads and writes C once for each p. Instead c is cut into tiles whose sums fit into registers, and the loops over p run
once for each tile:

    for tiles of c { for p { for c in the tile { sum[c] += A[p]*B[j(p), c] } } C[i, c] = sum[c] for c in the tile }

Each place gets the same terms in the same order as with c outermost, and all loops inside run as if c stood there: no
bound, no condition and no array they read may speak of c. Planned is the nest with c outside, by which the place is
known above the loops inside; then the tile takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from spfgen import tuning
from spfgen.facts.formula import Num, Var, variables
from spfgen.ir import fresh, rewrite, walk
from spfgen.lang.types import TYPES
from spfgen.plan.analyse.scan import Step, sources
from spfgen.plan.analyse.value_types import sum_type
from spfgen.plan.build.nest import without_known
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    Block,
    Define,
    Guard,
    Load,
    Plan,
    RegisterTile,
    Scan,
    Store,
    chain,
    is_sum,
    with_body,
)
from spfgen.space.nodes import Instance, Operand, Read

NOTHING = Block(())


def outside(instance: Instance, steps: Sequence[Step]) -> tuple[str, ...] | None:
    """The order of the dimensions with the innermost loop moved to where the rest of the place is known; None where
    it is not that of the fastest-running subscript, or no loop would be inside."""
    loops = [k for k, s in enumerate(steps) if s.kind == "scan"]
    place = instance.target.place
    if len(loops) < 3 or not place:
        return None
    innermost = steps[loops[-1]]
    if any(isinstance(e, Num) and e.value <= tuning.TILE_NEEDLESS for e in innermost.high):
        return None
    around = {s.dim for s in steps[: loops[-2]]}
    moved = [s.dim for s in steps[loops[-1] :] if _comes_from(instance, steps, s, innermost.dim, around)]
    wanted = [v for p in place[:-1] for v in variables(p)]
    if not variables(place[-1]) & set(moved) or set(wanted) & set(moved):
        return None
    wanted += [v for v in variables(place[-1]) if v not in moved]
    level = max((k + 1 for k, s in enumerate(steps) if s.dim in wanted), default=0)
    before = {*instance.sizes, *(s.dim for s in steps[:level])}
    if not any(k < level for k in loops) or not any(level <= k for k in loops[:-1]):
        return None
    if not variables(*innermost.low, *innermost.high) <= before:
        return None
    if not sources(steps, moved) <= {*before, *moved}:
        return None
    dims = [s.dim for s in steps if s.dim and s.dim not in moved]
    at = sum(1 for s in steps[:level] if s.dim)
    return (*dims[:at], *moved, *dims[at:])


def _comes_from(instance: Instance, steps: Sequence[Step], step: Step, loop: str, around: set[str]) -> bool:
    """Whether the step is known from the loop, and from others further outside."""
    known_from = sources(steps, [step.dim])
    return (
        step.kind in ("scan", "locate")
        and loop in known_from
        and known_from <= {*instance.sizes, *around, step.dim, loop}
    )


def tiled(plan: Plan, types: Mapping[str, str]) -> Plan:
    """The plan with tiles for the loops that only go around the sum of one place, the fastest-running one."""

    def rule(node: object) -> Plan | None:
        return _tile(node, types) if isinstance(node, Scan) else None

    result = rewrite(rule, plan, PLANS)
    assert isinstance(result, Plan)
    return result


def _tile(scan: Scan, types: Mapping[str, str]) -> Plan | None:
    *around, do = chain(scan.body)
    before = next((k for k, n in enumerate(around) if not isinstance(n, Load | Define)), len(around))
    total = around.pop(before) if before < len(around) else do
    if not is_sum(total) or scan.parallel or scan.vector or scan.unroll or scan.down:
        return None
    if not isinstance(do, Store) or do.op == "=" or do.target.place != total.target.place:
        return None
    if not all(isinstance(n, Scan | Load | Define | Guard) and not getattr(n, "parallel", False) for n in around):
        return None
    reads = [n.operand for n in walk(do.value) if isinstance(n, Read)]
    if not all(_side_by_side(o, scan.dim) for o in (do.target, *reads)):
        return None
    if not any(scan.dim in variables(o.place[-1]) for o in (do.target, *reads) if o.place):
        return None
    if any(scan.dim in names for node in around for names in _own(node)):
        return None
    kinds = {types[o.tensor] for o in (do.target, *reads)}
    kinds |= set() if total.monoid is None else {total.monoid.type}
    element = TYPES[kinds.pop()]
    if kinds or element.kind == "b":
        return None
    bounds = frozenset(v for e in (*scan.low, *scan.high) for v in variables(e))  # a search has such names, too
    start, end = fresh(f"{scan.dim} from", bounds), fresh(f"{scan.dim} to", bounds)
    inner: Plan = Scan(scan.dim, (Var(start),), (Var(end),), do, vector=True)
    above = next((k for k, n in enumerate(around) if not isinstance(n, Load | Define)), len(around))
    for node in reversed(around[above:]):
        inner = with_body(node, inner)
    why = f"the sums of so many neighbouring places of {do.target.tensor} fit into registers"
    tile = RegisterTile(scan.dim, start, end, scan.low, scan.high, tuning.TILE_BYTES // element.bytes)
    finish = None if total.finish is None else without_known(around[:above], total.finish)
    result: Plan = replace(total, body=inner, storage=tile, because=why, finish=finish)
    for node in reversed(around[:above]):  # what all tiles need is read once
        result = with_body(node, result)
    return result


def _side_by_side(operand: Operand, dim: str) -> bool:
    """Whether the values for neighbouring values of the dimension are neighbours, or one and the same."""
    return not any(dim in variables(p) for p in operand.place[:-1]) and (
        operand.place[-1:] == (Var(dim),) or not any(dim in variables(p) for p in operand.place)
    )


def _own(node: Plan) -> Iterator[set[str]]:
    """The names that a node itself speaks of."""
    match node:
        case Scan(low=low, high=high):
            yield from map(variables, (*low, *high))
        case Load(call=call):
            yield variables(call)
        case Define(value=value):
            yield variables(value)
        case Guard(conditions):
            yield from map(variables, conditions)


def tiled_in_pieces(plan: Plan, types: Mapping[str, str]) -> Plan:
    """The plan whose tiles take a long loop inside piece by piece: what a few of its iterations read for one tile lies
    beside what they read for the next one, which is then still near; a tile that went through the whole loop would find
    nothing of it in the cache."""

    def rule(node: object) -> Plan | None:
        match node:
            case Accumulate(storage=RegisterTile() as tiles) if _may_be_cut(node, tiles, types):
                return replace(node, storage=replace(tiles, in_pieces=True))
        return None

    result: Plan = rewrite(rule, plan, PLANS)
    return result


def _may_be_cut(tile: Accumulate, tiles: RegisterTile, types: Mapping[str, str]) -> bool:
    """Whether the loop inside is the only one, nothing else is said of it, and sums lose nothing when they are stored
    in between."""
    scan, *others = chain(tile.body)
    target_type = TYPES[types[tile.target.tensor]]
    if not isinstance(scan, Scan) or sum_type(tile.body, target_type, types) != target_type:
        return False
    if scan != Scan(scan.dim, scan.low, scan.high, scan.body, because=scan.because):
        return False
    if any(isinstance(e, Num) and e.value <= 2 * tuning.TILE_ROUND for e in scan.high):
        return False
    loops = [n.dim for n in others if isinstance(n, Scan)]
    plain = all(isinstance(n, Load | Define | Guard | Scan | Store) for n in others)
    return plain and loops == [tiles.dim]

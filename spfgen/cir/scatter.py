"""Short loops that add to places which an array names, written out four at a time:

    for q in [f(j), f(j + 1)) { C[i, idx(q)] += A[p]*B[q] }

The positions q may be those of a find, too, where they stand side by side and a table has the first and the last.

No compiler runs such iterations side by side, as two of the places might be one, so that each takes its own counting
and comparing: with 20 to 70 entries a segment, all in the caches, four at a time take 5 to 15 % less. The order of the
additions stays as it is (rounds.py). Where the places are proved to differ (plan/apart.py), four of them are read, then
added to by vectors, then stored, in segments that are not short: another 5 to 10 % less. Where they lie all over the
memory, they are fetched ahead instead (plan/scattered.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from spfgen.cir import nodes as c
from spfgen.cir.build import INT, SIMD, loop
from spfgen.cir.fours import TIMES, VECTOR, stands_in_order
from spfgen.cir.rounds import between
from spfgen.cir.scope import Scope
from spfgen.cir.sums import pays
from spfgen.facts.formula import Bin, Expr, Num, Var, substitute, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.apart import named
from spfgen.plan.nodes import Do, Find, Load, Locate, Plan, Scan, chain
from spfgen.plan.scattered import fetching
from spfgen.space.nodes import Operand, Read

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering

N = TypeVar("N")
LONG = 12
"""Positions of a segment that has rounds with vectors: a vector waits for all its places. Where neighbouring segments
add to neighbouring places, as in a band, one segment then waits for the one before, and short ones do little else."""
ABOUT = "a long segment: four at a time are read, added to and stored, as no two of their places are the same"


def scatters(plan: Scan) -> bool:
    """Whether a loop over a segment has nothing inside but an addition to a place that an index array holds for each
    iteration. A loop from 0 on is as good as it is: it is long, or a part of loops that run as one."""
    if plan.parallel or plan.down or plan.vector or plan.unroll or plan.runs:
        return False
    if not all(variables(e) for e in plan.low) or any(isinstance(e, Num) for e in plan.high):
        return False
    return named(plan.body, plan.dim, set())


def hits_scatter(plan: Find) -> bool:
    """The same of a find: whether its hits have nothing inside but such an addition."""
    if plan.parallel or plan.conditions or plan.miss is not None:
        return False
    return named(plan.hit, plan.dim, {d for d, _ in plan.loads})


def scattered(low: Lowering, plan: Scan, scope: Scope, body: list[c.Stmt]) -> list[c.Stmt] | None:
    """The loop over `body`, four iterations in each round; None where it cannot be written so."""
    first, end = low.fold("spfgen_max", plan.low, scope), low.fold("spfgen_min", plan.high, scope)
    return _written_out(low, plan, plan.body, _made(plan.body), scope, (first, end), body)


def hits_scattered(
    low: Lowering, plan: Find, scope: Scope, limits: tuple[c.Expr, c.Expr], body: list[c.Stmt]
) -> list[c.Stmt] | None:
    """The same of hits that stand side by side, between limits."""
    made = {**plan.calls(), **_made(plan.hit)}
    return _written_out(low, plan, plan.hit, made, scope, limits, body)


def may_fetch(low: Lowering, plan: Scan, inner: Scan, scope: Scope, comment: Sequence[c.Stmt]) -> c.Stmt:
    """The loop, in which `inner` (or itself) fetches the places that it adds to, if they are scattered. Beside such
    waits it counts little how segments end: they are not taken together then."""
    assert inner.scattered is not None

    def answer(by: Scan, flat: str) -> c.Block:
        loop = by if inner is plan else rewrite(lambda n: by if n is inner else None, replace(plan, flat=flat))
        return c.Block(tuple(low.whole_scan(loop, scope, list(comment))))

    asked = pays(low, inner.scattered, scope)
    return c.If(asked, answer(fetching(inner), ""), answer(replace(inner, scattered=None), plan.flat))


def _written_out(
    low: Lowering,
    plan: Scan | Find,
    inner: Plan,
    made: Mapping[str, Expr],
    scope: Scope,
    limits: tuple[c.Expr, c.Expr],
    body: list[c.Stmt],
) -> list[c.Stmt] | None:
    *_, do = chain(inner)
    assert isinstance(do, Do)
    if plan.apart and _in_vectors(low, do, {plan.dim, *made}, plan.dim, scope):
        return _by_vectors(low, do, plan.dim, made, scope, limits, body)
    return between(low.names, low.names[plan.dim], *limits, body, TIMES)


def _in_vectors(low: Lowering, do: Do, inside: Collection[str], dim: str, scope: Scope) -> bool:
    """Whether what is added stands in order, in the type of the target, and is added to memory."""
    kind = low.kinds[do.target.tensor]
    key = (do.target.tensor, do.target.place)
    if scope.atomic or key in scope.rows or scope.running(do.target) is not None:
        return False
    reads = [n.operand for n in walk(do.value) if isinstance(n, Read)]
    ordered = all(_in_order(r, dim, inside) and r not in scope.copied for r in reads)
    return ordered and kind.kind == "f" and kind.bytes in (4, 8) and low.value_type(do.value, kind) == kind


def _by_vectors(
    low: Lowering,
    do: Do,
    dim: str,
    made: Mapping[str, Expr],
    scope: Scope,
    limits: tuple[c.Expr, c.Expr],
    body: list[c.Stmt],
) -> list[c.Stmt]:
    """Rounds in which four places are read, then added to, then stored; and a loop over what is left."""
    position, kind = low.names[dim], low.kinds[do.target.tensor]
    first, end = limits
    lines: list[c.Stmt] = []
    if not isinstance(end, c.Name | c.Int):
        lines.append(c.Declare(f"const {INT}", low.names.new(f"{position}_end"), end))
        end = c.Name(lines[-1].name)  # type: ignore[attr-defined]
    at, lane = (c.Name(low.names.new(n)) for n in (f"{position}_next", "lane"))
    low.names.table |= {f"@{n.name}": n.name for n in (at, lane)}
    here: Expr = Var(f"@{at.name}")
    width = VECTOR // kind.bytes
    vectors = [c.Name(low.names.new(f"{do.target.tensor}_values")) for _ in range(TIMES // width)]
    held: list[c.Stmt] = []
    stored: list[c.Stmt] = []
    for k in range(TIMES):
        element = c.Load(vectors[k // width], c.Int(k % width))
        target, there = _at(dim, made, scope, do.target, _further(here, k))
        place = low.place(target, there)
        held.append(c.Assign(element, "=", place))
        stored.append(c.Assign(place, "=", element))
    added: list[c.Stmt] = []
    for k, vector in enumerate(vectors):
        along = _further(Bin("+", here, Var(f"@{lane.name}")), k * width)
        value, there = _at(dim, made, scope, do.value, along)
        added.append(c.Assign(c.Load(vector, lane), "+=", low.value(value, there, kind)))
    each = [
        *(c.Declare(kind.c, v.name, length=width) for v in vectors),
        *held,
        loop(lane.name, c.Int(0), c.Int(width), added, SIMD, kind="int"),
        *stored,
        c.Assign(at, "+=", c.Int(TIMES)),
    ]
    more = c.Bin("<=", c.Bin("+", at, c.Int(TIMES)), end)
    long = c.Bin(">=", c.Bin("-", end, at), c.Int(LONG))
    rounds = c.If(long, c.Block((c.Comment(ABOUT), c.While(more, c.Block(tuple(each))))))
    rest = between(low.names, position, at, end, body, TIMES) or [loop(position, at, end, body)]
    return [*lines, c.Declare(INT, at.name, first), rounds, *rest]


def _made(plan: Plan) -> dict[str, Expr]:
    """What is loaded or located in a nest, and how."""
    nodes = list(chain(plan))
    loaded: dict[str, Expr] = {n.dim: n.call for n in nodes if isinstance(n, Load)}
    return loaded | {n.dim: n.value for n in nodes if isinstance(n, Locate)}


def _at(dim: str, made: Mapping[str, Expr], scope: Scope, node: N, position: Expr) -> tuple[N, Scope]:
    """A value or an operand inside of the loop over `dim` at a position, and the scope in which it is one; `made` says
    what the values are that are known inside."""
    inline = {name: substitute(value, {dim: position}) for name, value in made.items()}
    there: N = substitute(node, {dim: position})
    return there, replace(scope, inline={**scope.inline, **inline})


def _in_order(read: Operand, dim: str, inside: Collection[str]) -> bool:
    """Whether values stand in order along `dim`, or are the same: nothing else that is known `inside` says where."""
    others = {v for p in read.place for v in variables(p)} & (set(inside) - {dim})
    return not others and stands_in_order(read, dim)


def _further(place: Expr, count: int) -> Expr:
    return Bin("+", place, Num(count)) if count else place

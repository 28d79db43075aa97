"""Sums over long segments where one value is reached through an index array: four products in each round.

    for p in [f(i), f(i + 1)) { sum += a[p]*x[idx(p)] }

The values that lie scattered are put side by side first; what they are multiplied with is then read by vectors. No
question stands between the four, so that a processor reads further ahead. But where the lengths of segments vary it
foresees their ends less often: only long ones are worth that (plan/prefetch.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.build import INT, loop
from spfgen.cir.scope import Scope
from spfgen.facts.formula import Bin, Expr, Num, Var, substitute, variables
from spfgen.ir import walk
from spfgen.lang.types import ElementType
from spfgen.plan.nodes import Do, Load, Locate, Scan, chain
from spfgen.space.nodes import Operand, Read

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering

TIMES = 4
VECTOR = 16
"""Bytes: to put values together for wider vectors, and to add those up, takes longer than it saves."""
SIMD = "omp simd"


def in_fours(
    low: Lowering, plan: Scan, scope: Scope, total: tuple[str, ElementType], limits: tuple[c.Expr, c.Expr]
) -> tuple[c.Expr, list[c.Stmt], c.Name] | None:
    """Whether segments are long; the rounds while there are four more; the variable with the position where these leave
    off. None where it is not one value that lies scattered, or sizes do not tell how long segments are."""
    *above, do = chain(plan.body)
    name, kind = total
    first, end = limits
    if plan.ahead is None or plan.ahead.long is None or not isinstance(do, Do):
        return None
    if not variables(plan.ahead.long) <= low.program.size_of.keys():
        return None
    scattered = _scattered(low, plan, do, kind)
    if scattered is None:
        return None
    at, lane = (c.Name(low.names.new(n)) for n in (f"{low.names[plan.dim]}_next", "lane"))
    low.names.table |= {f"@{n.name}": n.name for n in (at, lane)}
    here: Expr = Var(f"@{at.name}")
    width = VECTOR // kind.bytes
    vectors = [c.Name(low.names.new(f"{scattered.tensor}_values")) for _ in range(TIMES // width)]

    def value(read: object, further: int, along: bool, held: c.Expr | None = None) -> c.Expr:
        """What a value is at that many positions further, and `along` the lanes of a vector."""
        place = Bin("+", here, Var(f"@{lane.name}")) if along else here
        place = Bin("+", place, Num(further)) if further else place
        inside = scope
        for node in above:
            assert isinstance(node, Load | Locate)
            made = node.call if isinstance(node, Load) else node.value
            inside = replace(inside, inline={**inside.inline, node.dim: substitute(made, {plan.dim: place})})
        if held is not None:
            inside = replace(inside, held={**inside.held, substitute(scattered, {plan.dim: place}): held})
        return low.value(substitute(read, {plan.dim: place}), inside, kind)

    gathered = [
        c.Assign(c.Load(vectors[k // width], c.Int(k % width)), "=", value(Read(scattered), k, along=False))
        for k in range(TIMES)
    ]
    products = [
        c.Assign(c.Load(vectors[0], lane), "+=" if k else "=", value(do.value, k * width, True, c.Load(v, lane)))
        for k, v in enumerate(vectors)
    ]
    sums: list[c.Expr] = [c.Load(vectors[0], c.Int(k)) for k in range(width)]
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [c.Bin("+", a, b) for a, b in zip(sums[:half], sums[half:], strict=True)]
    each = [
        *(c.Declare(kind.c, v.name, length=width) for v in vectors),
        *gathered,
        loop(lane.name, c.Int(0), c.Int(width), products, SIMD, kind="int"),
        c.Assign(c.Name(name), "+=", sums[0]),
        c.Assign(at, "+=", c.Int(TIMES)),
    ]
    more = c.Bin("<=", c.Bin("+", at, c.Int(TIMES)), end)
    comment = "long segments: four at a time, with vectors of what stands in order"
    why = "segments are long, on the average"
    longer = low.chosen("const bool", "longer", low.condition(plan.ahead.long, scope), why)
    rounds = c.While(more, c.Block(tuple(each)))
    return longer, [c.Comment(comment), c.Declare(INT, at.name, first), rounds], at


def _scattered(low: Lowering, plan: Scan, do: Do, kind: ElementType) -> Operand | None:
    """The one value that is reached through an index array, once, where all have the type of the sum and the others
    stand in order or stay the same."""
    *above, _ = chain(plan.body)
    if kind.kind != "f" or kind.bytes not in (4, 8) or not all(isinstance(n, Load | Locate) for n in above):
        return None
    inside = {n.dim for n in above if isinstance(n, Load | Locate)}
    reads = [n.operand for n in walk(do.value) if isinstance(n, Read)]
    scattered = [r for r in reads if {v for p in r.place for v in variables(p)} & inside]
    plain = [r for r in reads if r not in scattered]
    in_order = all(
        r.place == (Var(plan.dim),) or plan.dim not in {v for p in r.place for v in variables(p)} for r in plain
    )
    same = all(low.element_type(r) == kind for r in reads) and low.value_type(do.value, kind) == kind
    return scattered[0] if len(scattered) == 1 and plain and in_order and same else None

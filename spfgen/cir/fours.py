"""Sums over segments where values are reached through an index array: four products in each round.

    for p in [f(i), f(i + 1)) { sum += a[p]*x[idx(p)] }

The values that lie scattered are put side by side first; what they are multiplied with is then read by vectors. No
question stands between the four, so that a processor reads further ahead. But where the lengths of segments vary it
foresees both the end of the rounds and how much is left less often: that is worth it where segments are long
(plan/prefetch.py), or, as samples say, about as long as their neighbours.

Where a loop may end early, as in rows of slots, the last of the four says that none of them ends it: one question less
than they have one by one, which pays whatever the length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.build import INT, SIMD, joined, loop
from spfgen.cir.elements import zero
from spfgen.cir.gathers import GATHERS, sum_of_products
from spfgen.cir.scope import Scope
from spfgen.facts.formula import Bin, Compare, Expr, Num, Var, substitute, variables
from spfgen.ir import rewrite, walk
from spfgen.lang.types import TYPES, ElementType
from spfgen.plan.nodes import Do, Guard, Load, Locate, Scan, chain
from spfgen.space.nodes import Operand, Read

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering

TIMES = 4
VECTOR = 16
"""Bytes: to put values together for wider vectors, and to add those up, takes longer than it saves."""
FEW_SLOTS = 8
"""Rows of so few are written out (cir/sized.py)."""
VERY_SHORT, SHORT = 4, 12
"""Places of a segment, on the average: very short ones must nearly all be of one length; where processors gather well,
longer ones than short ones are gathered."""
NEARLY, MOSTLY, GATHERED = 0.05, 0.15, 0.08
"""By how much neighbours may differ, on the average: very short ones, others, and those that would else be gathered."""


def in_fours(
    low: Lowering,
    plan: Scan,
    scope: Scope,
    total: tuple[str, ElementType],
    limits: tuple[c.Expr, c.Expr],
    gathers: bool,
) -> tuple[c.Expr | None, list[c.Stmt]] | None:
    """Whether segments are long, where that is a question, and the loop in rounds. None where no value lies scattered,
    or nothing tells how long segments are. `gathers`: other segments are read by vectors where processors can."""
    *above, do = chain(plan.body)
    name, kind = total
    first, end = limits
    guarded = any(isinstance(n, Guard) for n in above)
    long = plan.ahead.long if plan.ahead is not None else None
    if not isinstance(do, Do) or not (guarded or (long is not None and variables(long) <= low.program.size_of.keys())):
        return None
    scattered = _scattered(low, plan, do, kind)
    if not scattered:
        return None
    at, lane = (c.Name(low.names.new(n)) for n in (f"{low.names[plan.dim]}_next", "lane"))
    low.names.table |= {f"@{n.name}": n.name for n in (at, lane)}
    width = VECTOR // kind.bytes
    vectors = {r: [c.Name(low.names.new(f"{r.tensor}_values")) for _ in range(TIMES // width)] for r in scattered}

    def further(count: int, along: bool = False) -> Expr:
        """The position that many further, and `along` the lanes of a vector."""
        place: Expr = Bin("+", Var(f"@{at.name}"), Var(f"@{lane.name}")) if along else Var(f"@{at.name}")
        return Bin("+", place, Num(count)) if count else place

    def value(read: object, place: Expr, held: Mapping[Operand, c.Expr] | None = None) -> c.Expr:
        found = _inside(plan, scope, place)
        if held is not None:
            here = {substitute(r, {plan.dim: place}): v for r, v in held.items()}
            found = replace(found, held={**found.held, **here})
        return low.value(substitute(read, {plan.dim: place}), found, kind)

    def holds(count: int) -> list[c.Expr]:
        return _goes_on(low, plan, scope, further(count))

    gathered = [
        c.Assign(c.Load(own[k // width], c.Int(k % width)), "=", value(Read(read), further(k)))
        for read, own in vectors.items()
        for k in range(TIMES)
    ]
    # To add up four lanes takes as long as a round: where one vector has all of it, that is done once.
    once = width == TIMES
    total_of = c.Name(low.names.new(f"{name}_vector")) if once else vectors[scattered[0]][0]

    def lanes(body: Sequence[c.Stmt]) -> c.Stmt:
        return loop(lane.name, c.Int(0), c.Int(width), body, SIMD, kind="int")

    products: list[c.Stmt] = []
    for k in range(TIMES // width):
        held = {read: c.Load(own[k], lane) for read, own in vectors.items()}
        product = value(do.value, further(k * width, along=True), held)
        products.append(c.Assign(c.Load(total_of, lane), "+=" if k or once else "=", product))
    added = c.Assign(c.Name(name), "+=", lanes_added(total_of, width))
    each = [
        *(c.Declare(kind.c, v.name, length=width) for own in vectors.values() for v in own),
        *gathered,
        lanes(products),
        *([] if once else [added]),
        c.Assign(at, "+=", c.Int(TIMES)),
    ]
    more = joined("&&", [c.Bin("<=", c.Bin("+", at, c.Int(TIMES)), end), *holds(TIMES - 1)])
    all_rounds: c.Stmt = c.While(more, c.Block(tuple(each)))
    if once:
        cleared = lanes([c.Assign(c.Load(total_of, lane), "=", zero(kind))])
        vector = c.Declare(kind.c, total_of.name, length=width)
        all_rounds = c.If(more, c.Block((vector, cleared, all_rounds, added)))
    left: list[c.Stmt] = []
    for k in reversed(range(TIMES - 1)):
        left = [c.Assign(c.Name(name), "+=", value(do.value, further(k))), *left]
        there = c.Bin("<", c.Bin("+", at, c.Int(k)) if k else at, end)
        left = [c.If(joined("&&", [there, *holds(k)]), c.Block(tuple(left)))]
    comment = c.Comment("four at a time, with vectors of what stands in order")
    rounds = _by_rows(low, [comment, c.Declare(INT, at.name, first), all_rounds, *left])
    if guarded or long is None:
        return None, rounds
    assert plan.ahead is not None
    return low.chosen("const bool", "steady", *_steady(low, plan, scope, gathers)), rounds


def lanes_added(vector: c.Name, width: int) -> c.Expr:
    """The sums of a vector together."""
    sums: list[c.Expr] = [c.Load(vector, c.Int(k)) for k in range(width)]
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [c.Bin("+", a, b) for a, b in zip(sums[:half], sums[half:], strict=True)]
    return sums[0]


def full_row(
    low: Lowering, plan: Scan, scope: Scope, total: tuple[str, ElementType], limits: tuple[c.Expr, c.Expr]
) -> tuple[c.Expr, list[c.Stmt]] | None:
    """In loops that may end early, over as many slots in each row: whether one runs to its end, as its last slot says,
    and what then adds all of it to the sum (cir/gathers.py). None where that is not such a sum."""
    first, slots = limits
    early = any(isinstance(n, Guard) and n.ends for n in chain(plan.body))
    whole = rewrite(lambda n: n.body if isinstance(n, Guard) and n.ends else None, plan.body)
    added = sum_of_products(low, replace(plan, body=whole), scope, total, limits) if early else None
    if added is None or first != c.Int(0) or not isinstance(slots, c.Name) or len(plan.high) != 1:
        return None
    why = "rows have many slots: full ones are read by vectors"
    many = low.chosen("const bool", "gathered", c.Bin("&&", GATHERS, c.Bin(">", slots, c.Int(FEW_SLOTS))), why)
    last = Bin("-", plan.high[0], Num(1))
    comment = c.Comment("the row is full, as its last slot says")
    return joined("&&", [many, *_goes_on(low, plan, scope, last)]), [comment, added]


def _inside(plan: Scan, scope: Scope, place: Expr) -> Scope:
    """Where what is looked up in the loop has its values at that position."""
    for node in chain(plan.body):
        if isinstance(node, Load | Locate):
            made = node.call if isinstance(node, Load) else node.value
            scope = replace(scope, inline={**scope.inline, node.dim: substitute(made, {plan.dim: place})})
    return scope


def _goes_on(low: Lowering, plan: Scan, scope: Scope, place: Expr) -> list[c.Expr]:
    """That the loop does not end before that position."""
    conditions = [f for n in chain(plan.body) if isinstance(n, Guard) for f in n.conditions]
    inside = _inside(plan, scope, place)
    return [low.condition(substitute(f, {plan.dim: place}), inside) for f in conditions]


def _steady(low: Lowering, plan: Scan, scope: Scope, gathers: bool) -> tuple[c.Expr, str]:
    """Whether segments are long, or about as long as their neighbours, and why that is asked. Where all else would be
    read by vectors that gather, only short ones of one length pay."""
    assert plan.ahead is not None
    long = plan.ahead.long
    assert isinstance(long, Compare)
    question = low.condition(long, scope)
    if plan.ahead.begins is None:
        return question, "segments are long, on the average"
    first, rows = low.expr(plan.ahead.begins, scope), low.expr(plan.ahead.rows, scope)
    assert isinstance(first, c.Load)
    assert isinstance(first.array, c.Name)
    array = first.array

    def shorter(than: int) -> c.Expr:
        return c.Bin("<", low.expr(long.left, scope), c.Bin("*", c.Int(than), rows))

    def samples(most: c.Expr) -> c.Expr:
        return c.Call(f"spfgen_steady_{_kinds(low)[array.name].name}", (array, rows, most))

    most = c.Select(shorter(VERY_SHORT), c.Float(NEARLY), c.Float(MOSTLY))
    question = c.Bin("||", question, samples(most))
    if not gathers:
        return question, "segments are long, on the average, or about as long as their neighbours"
    few = c.Bin("&&", shorter(SHORT), samples(c.Float(GATHERED)))
    return c.Select(GATHERS, few, question), "segments are short and as long as their neighbours, or else long"


def _by_rows(low: Lowering, lines: Sequence[c.Stmt]) -> list[c.Stmt]:
    """The lines with a pointer to each row of an array that they read: compilers find the row anew in each round."""
    kinds = _kinds(low)
    changed = {n.name for s in lines for n in walk(s, c.Stmt) if isinstance(n, c.Declare)}
    changed |= {n.variable for s in lines for n in walk(s, c.Stmt) if isinstance(n, c.For)}
    rows: dict[c.Expr, c.Declare] = {}

    def rule(node: object) -> c.Expr | None:
        match node:
            case c.Load(c.Name(array), c.Bin("+", c.Bin("*") as row, place)) if array in kinds:
                begin = c.Bin("+", c.Name(array), row)
                if any(isinstance(n, c.Load) or (isinstance(n, c.Name) and n.name in changed) for n in walk(row)):
                    return None
                if begin not in rows:
                    name = low.names.new(f"{array}_row")
                    rows[begin] = c.Declare(f"const {kinds[array].c} *", name, begin)
                return c.Load(c.Name(rows[begin].name), place)
        return None

    lines = [rewrite(rule, s) for s in lines]
    return [*rows.values(), *lines]


def _kinds(low: Lowering) -> dict[str, ElementType]:
    """The types of what arrays hold, by the names that these have in C: arrays that tensors share have one."""
    kinds = {(t.name, v.name): t.value_type for t in low.program.tensors for v in t.layout.values}
    kinds |= {(t.name, name): kind for t in low.program.tensors for name, kind in t.index_types}
    return {low.array_names[key]: TYPES[kind] for key, kind in kinds.items() if key in low.array_names}


def _scattered(low: Lowering, plan: Scan, do: Do, kind: ElementType) -> list[Operand]:
    """The values that are reached through index arrays. None where one of the others has not the type of the sum, or
    neither stands in order nor stays the same."""
    *above, _ = chain(plan.body)
    if kind.kind != "f" or kind.bytes not in (4, 8):
        return []
    if not all(isinstance(n, Load | Locate) or (isinstance(n, Guard) and n.ends) for n in above):
        return []
    found = {n.dim for n in above if isinstance(n, Load | Locate)}
    reads = [n.operand for n in walk(do.value) if isinstance(n, Read)]
    scattered = [r for r in dict.fromkeys(reads) if {v for p in r.place for v in variables(p)} & found]
    plain = [r for r in reads if r not in scattered]
    same = all(low.element_type(r) == kind for r in plain) and low.value_type(do.value, kind) == kind
    floats = all(low.element_type(r).kind == "f" for r in scattered)
    in_order = all(stands_in_order(r, plan.dim) for r in plain)
    return scattered if plain and in_order and same and floats else []


def stands_in_order(read: Operand, dim: str) -> bool:
    """Whether it is the same in a loop over this dimension, or its neighbours stand side by side."""
    *others, last = [dim in variables(p) for p in read.place] or [False]
    return not any(others) and (not last or read.place[-1] == Var(dim))

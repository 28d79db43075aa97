"""How loops run on several threads: what each thread takes, and what happens where two write one place.

Iterations are shared out by what they cost: by the lengths of the loops inside, where an array has them. A loop whose
iterations write different places needs nothing more; but one of them may be longer than a thread's share, and is then
split: each thread sums its part of the places that this iteration alone writes (`Slice`).

A loop that only adds is parallel too. Addition may come in any order, so this needs nothing of the data. What all add
to one variable is summed for each part. Places that are reached in order are shared by two threads only where a part
ends: proved from the declared properties. Else each thread has a copy of the target, or adds atomically, as the sizes
of the call decide (rt/copies.h).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

from spfgen import tuning
from spfgen.errors import Unsupported
from spfgen.facts.formula import (
    ONE,
    ZERO,
    And,
    Bin,
    Call,
    Compare,
    Expr,
    Formula,
    Num,
    Or,
    Var,
    calls,
    substitute,
    variables,
)
from spfgen.facts.prove import implied
from spfgen.ir import rewrite, walk
from spfgen.lang.types import TYPES
from spfgen.plan.analyse.cost import Counts, mean_ratio, over, plus, times
from spfgen.plan.analyse.depend import distinct_places
from spfgen.plan.analyse.segments import are_neighbours, segments
from spfgen.plan.analyse.value_types import sum_type
from spfgen.plan.analyse.work import by_algorithm, work
from spfgen.plan.choices import SPLIT_ROWS
from spfgen.plan.context import Context
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    Block,
    BoundSearch,
    Clear,
    Copy,
    Define,
    Find,
    FindTable,
    Finish,
    Guard,
    Load,
    Partition,
    Plan,
    Prefetch,
    Scan,
    SearchState,
    Segment,
    Slice,
    Store,
    Weight,
    body,
    chain,
    is_sum,
    with_body,
)
from spfgen.sets.affine import Affine, NotAffine, expression
from spfgen.sets.uf import linear, shifted
from spfgen.space.nodes import Instance, Mark, Monoid, Operand

ATOMIC = frozenset({"float32", "float64", "int32", "int64", "uint32", "uint64"})
"""Types that OpenMP adds atomically in one instruction or a short loop."""
Loop = Scan | Find


def measured(instance: Instance, plan: Plan, context: Context) -> Plan:
    """The nest with what is known of the work of the loop that may run on threads."""
    counts = Counts(instance)
    nodes = list(chain(plan))
    loops = [k for k, n in enumerate(nodes) if isinstance(n, Scan) or _compares(n)]
    wanted = _wanted([nodes[k] for k in loops], context)
    first = next((k for k in loops if wanted is None or wanted.dim == nodes[k].dim), None)  # type: ignore[attr-defined]
    if first is None:
        return plan
    loop_work = work(counts, nodes[first], by_algorithm, vectors=True)
    loop = nodes[first]
    assert isinstance(loop, Scan | Find)
    weight = _weight(instance, counts, loop) if isinstance(loop, Scan) else None
    uneven = weight is None and isinstance(loop, Scan) and _is_uneven(loop)
    result: Plan = replace(
        loop, partition=Partition(loop_work.nanoseconds, weight, uneven, additions=loop_work.additions)
    )
    return _around(nodes[:first], result)


def partitioned(instance: Instance, plan: Plan) -> Plan:
    """The plan with the weights of its parallel loops."""

    def rule(node: object) -> Plan | None:
        if not isinstance(node, Scan) or not node.parallel or node.collapse:
            return None
        weight = _weight(instance, None, node)
        return replace(node, partition=Partition(None, weight))

    result: Plan = rewrite(rule, plan, PLANS)
    return result


def on_threads(instance: Instance, plan: Plan, context: Context) -> Plan:
    """The plan with its outermost loop parallel, or the one that the schedule names, where that is right, and how
    threads add: a loop whose iterations write different places is parallel already.

    Raises Unsupported when the schedule wants a loop parallel that adds to one place in a way that cannot be.
    """
    shared_out = _shared_out(plan)
    if shared_out is None:
        return plan
    nodes, first, loop, partition = shared_out
    if loop.parallel:
        return plan
    if not any(isinstance(n, Store) for n in chain(loop)):
        return _around(nodes[:first], replace(loop, partition=None))
    adding = None if context.is_serial(loop.dim) else _adding(instance, nodes, first, partition, context)
    if adding is not None:
        partition, why = adding
        return _around(nodes[:first], replace(loop, parallel=True, because=why, partition=partition))
    wanted = _wanted([loop], context)
    if wanted is not None:
        raise Unsupported(
            f"`{wanted.dim}` cannot be parallel: its iterations add to one element, and threads cannot share that here",
            wanted.span,
            ("make a loop parallel whose iterations write different elements",),
        )
    return _around(nodes[:first], replace(loop, partition=None))


def with_split_rows(instance: Instance, plan: Plan, context: Context) -> Plan:
    """The plan whose parallel loop, where its iterations write different places, counts all that an iteration does; and
    of which threads split an iteration that is long, where that is right."""
    if isinstance(plan, Block):
        return Block(tuple(with_split_rows(instance, p, context) for p in plan.parts))
    shared_out = _shared_out(plan)
    if shared_out is None:
        return plan
    nodes, first, loop, partition = shared_out
    if not loop.parallel or partition.adds:
        return plan
    partition = replace(partition, fixed=context.deterministic, weight=_counted(partition.weight, ZERO))
    if any(isinstance(n, Store) for n in chain(loop)):
        partition = _disjoint(instance, loop, partition, context)
    return _around(nodes[:first], replace(loop, partition=partition))


def _shared_out(plan: Plan) -> tuple[list[Plan], int, Loop, Partition] | None:
    """The nodes of a nest, with the number of the loop whose work is known, that loop, and what is known of it."""
    nodes = list(chain(plan))
    for number, node in enumerate(nodes):
        if isinstance(node, Loop) and node.partition is not None:
            return nodes, number, node, node.partition
    return None


def _wanted(loops: Sequence[Plan], context: Context) -> Mark | None:
    """The loop that the schedule wants parallel."""
    marks = [context.marked("parallel", n.dim) for n in loops if isinstance(n, Loop)]
    return next((m for m in marks if m is not None), None)


def _around(nodes: Sequence[Plan], inside: Plan) -> Plan:
    for node in reversed(nodes):
        inside = with_body(node, inside)
    return inside


def _compares(node: Plan) -> bool:
    """A find that compares every position."""
    return isinstance(node, Find) and node.key is None


BETWEEN = Load | Define | Accumulate | Clear | Guard | Prefetch | SearchState | FindTable
"""What may stand between a loop whose iterations are split and the loop inside."""

# --- what iterations cost ---------------------------------------------------------------------------


def _weight(instance: Instance, counts: Counts | None, scan: Scan) -> Weight | None:
    """The array whose neighbouring values (or what is as far from both) bound the first inner loop that depends on the
    scan's own position; and those of the loops in that one."""
    loaded = {n.dim: n.call for n in walk(scan.body, PLANS) if isinstance(n, Load)}
    copies = {n.dim: n.value for n in walk(scan.body, PLANS) if isinstance(n, Define)}
    near = [n for n in walk(scan.body, PLANS) if isinstance(n, BoundSearch) and n.near]
    begun: dict[tuple[Expr, ...], tuple[Expr, ...]] = {(Var(n.name),): n.low for n in near}
    positions = {scan.dim, *(d for d, v in copies.items() if v == Var(scan.dim))}
    pointers: list[str] = []
    price: Expr = ONE
    for node in walk(scan.body, PLANS):
        if not isinstance(node, Scan | Find) or len(node.low) != 1:
            continue
        begin, further = shifted(begun.get(node.low, node.low)[0])
        low, ends = loaded.get(begin), (name for name, as_far in map(shifted, node.high) if as_far == further)
        highs = [loaded[n] for n in ends if n in loaded]
        function = next((h.function for h in highs if low is not None and are_neighbours(low, h, positions)), None)
        if function is not None:
            if pointers and not _in_reach(instance, scan, pointers, function):
                break
            if not pointers and counts is not None:
                price = plus(ONE, work(counts, body(node) or node, by_algorithm).nanoseconds)
            pointers.append(function)
            positions = {node.dim, *(d for d, v in copies.items() if v == Var(node.dim))}
        elif variables(node.low[0]) & positions:
            break
    return Weight(pointers[0], tuple(pointers[1:]), price=price) if pointers else None


def _in_reach(instance: Instance, scan: Scan, outer: Sequence[str], function: str) -> bool:
    """Whether g(f(i)) lies within the array g wherever a part of the loop may begin or end."""
    at: Expr = Var(scan.dim)
    known: list[Formula] = [Compare(">=", Var(s), ZERO) for s in instance.sizes]
    known += [Compare(">=", at, e) for e in scan.low] + [Compare("<=", at, e) for e in scan.high]
    if not variables(And(tuple(known))) <= {*instance.sizes, scan.dim}:
        return False
    for name in outer:
        at = Call(name, (at,))
    if function not in instance.axioms.extents:  # of a tensor that the nest was not made for
        return False
    (extent,) = instance.axioms.extents[function]
    goal = And((Compare(">=", at, ZERO), Compare("<", at, extent)))
    return implied(known, instance.axioms, goal, about=f"{function} is read within its bounds to share out work").proved


def _is_uneven(scan: Scan) -> bool:
    """Whether the bounds of a loop inside depend on the loop's own value."""
    known = {scan.dim}
    for node in chain(scan.body):
        match node:
            case Load(dim, value) | Define(dim, value) if variables(value) & known:
                known.add(dim)
            case Scan(low=low, high=high) | Find(low=low, high=high):
                if any(variables(e) & known for e in (*low, *high)) and _span(low, high) is None:
                    return True
    return False


def _counted(weight: Weight | None, cleared: Expr) -> Weight | None:
    """With what an iteration costs besides the positions of the loop inside, in such positions, if it clears so many
    values."""
    if weight is None:
        return None
    each: Expr = Num(1 + tuning.LOOP_START_NS // weight.price.value) if isinstance(weight.price, Num) else ONE
    return replace(weight, each=each if cleared == ZERO else plus(ONE, over(cleared, weight.price)))


def _cleared(loop: Loop) -> Expr:
    """How many values an iteration clears; a few do not count."""
    total: list[Expr] = []
    for node in walk(body(loop), PLANS):
        if isinstance(node, Clear) and node.part is not None:
            part = node.part.parts[0] if isinstance(node.part, Block) else node.part  # about a row
            loops = [n for n in walk(part, PLANS) if isinstance(n, Scan) and not any(calls(e) for e in n.high)]
            total.append(times(*(_span(n.low, n.high) or n.high[0] for n in loops if n.low)))
    return plus(*(t for t in total if not isinstance(t, Num)))


def _span(lows: Sequence[Expr], highs: Sequence[Expr]) -> Expr | None:
    """How many iterations a loop has at most, where that is a number."""
    for low, high in product(lows, highs):
        try:
            length = linear(high) - linear(low)
        except NotAffine:
            continue
        if not length.terms:
            return Num(length.constant)
    return None


# --- loops whose iterations write different places --------------------------------------------------


def _disjoint(instance: Instance, loop: Loop, partition: Partition, context: Context) -> Partition:
    """The share of a loop whose iterations write different places; with what it needs to split one of them."""
    weight = _counted(partition.weight, _cleared(loop))
    if weight is None:
        return partition
    partition = replace(partition, weight=weight)
    alike = not isinstance(weight.each, Num) and mean_ratio(weight.each, ONE, context.stored) > tuning.UNSPLIT_CLEARING
    target = stored(loop)
    if (
        alike
        or not context.makes(SPLIT_ROWS)
        or not isinstance(loop, Scan)
        or any(o.tensor == target.tensor for o in instance.reads)
    ):
        return partition
    outer = [*_above_loop(loop)]
    inner = next((n for n in chain(loop.body) if isinstance(n, Scan)), None)
    if inner is None or not all(isinstance(n, BETWEEN) for n in outer):
        return partition
    if segments(loop, inner, outer) != weight.pointer:
        return partition
    if _divides(instance, inner, outer):
        return replace(partition, row=inner.dim)
    row_slice = _slice(instance, loop, target)
    if (
        row_slice is None
        or not _one_behind_the_other(row_slice, target)
        or not _may_be_in_parts(instance, loop, row_slice, context)
    ):
        return partition
    return replace(partition, slice=row_slice, row=inner.dim)


def _may_be_in_parts(instance: Instance, loop: Scan, row_slice: Slice, context: Context) -> bool:
    """Whether what parts have of a place may be combined after the loop: in any order; and, where something is made of
    the total then, that speaks of the iteration and of the place alone, and the place can hold what parts have."""
    finish = finish_of(loop)
    target_type = TYPES[context.types[instance.target.tensor]]
    if instance.monoid is not None and not _is_orderless(instance.monoid):
        return False
    if finish is None:
        return instance.monoid is None or TYPES[instance.monoid.type] == target_type
    kind = sum_type(loop, target_type, context.types) if instance.monoid is None else TYPES[instance.monoid.type]
    rest = {e.name for e in row_slice.rest if isinstance(e, Var)}
    known = {*instance.sizes, loop.dim, *rest, *(s.name for n in walk(finish, PLANS) for s in n.computed())}
    return kind == target_type and variables(finish) <= known  # type: ignore[arg-type]


def finish_of(loop: Loop) -> Finish | None:
    """What is made of the total of a nest, with what is read and computed for it above."""
    above: list[Load | Define] = []
    for node in chain(body(loop) or loop):
        if isinstance(node, Load | Define):
            above.append(node)
        if isinstance(node, Accumulate) and node.op:
            if node.finish is None:
                return None
            inside = node.finish.body
            for outer in reversed(above):
                inside = with_body(outer, inside) if outer.dim in variables(inside) else inside  # type: ignore[arg-type]
            return replace(node.finish, body=inside)
    return None


def _is_orderless(monoid: Monoid, exactly: bool = False) -> bool:
    """Whether parts may combine values, and then what they have; `exactly`: to the last bit."""
    return monoid.operator.operator.is_orderless(TYPES[monoid.type], exactly)


def _divides(instance: Instance, inner: Scan, between: Sequence[Plan]) -> bool:
    """Whether threads may share an iteration: the loop inside writes different places, too, and nothing else is done
    that would be done twice. Where its iterations are short, they are not worth the question where they begin."""
    loops = any(isinstance(n, Scan) for n in chain(inner.body))
    plain = all(isinstance(n, Load | Define | Guard | Prefetch | SearchState | FindTable) for n in between)
    return loops and plain and distinct_places(instance, inner.dim)


def _one_behind_the_other(row_slice: Slice, target: Operand) -> bool:
    """Whether the places of a row lie in the target's array as they do in an array of their own."""
    several = next((k for k, offset in enumerate(row_slice.rest) if offset != ZERO), len(row_slice.rest))
    return row_slice.extents[several + 1 :] == target.extents[several + 1 :]


def _above_loop(loop: Loop) -> Iterable[Plan]:
    """The nodes between a loop and the first one in it."""
    node = body(loop)
    while node is not None and not isinstance(node, Scan | Find | Segment | Store):
        yield node
        node = body(node)


def stored(plan: Plan) -> Operand:
    """The place that a nest adds to, which ends in one addition."""
    do = list(chain(plan))[-1]
    assert isinstance(do, Store)
    return do.target


def _slice(instance: Instance, loop: Loop, target: Operand) -> Slice | None:
    """The places of an iteration, where it is known what they are whatever the iteration."""
    fixed = {*instance.sizes, loop.dim}
    values: dict[str, Expr] = {}
    ranges: dict[str, Expr] = {}
    above = True
    for node in chain(body(loop) or loop):
        match node:
            case Clear():
                pass
            case Load(dim, call) if above:
                fixed.add(dim)
                values[dim] = substitute(call, values)
            case Define(dim, value):
                values[dim] = substitute(value, values)
                if above:
                    fixed.add(dim)
            case Scan(dim, low, high):
                above = False
                top = next((e for e in high if variables(e) <= set(instance.sizes)), None)
                if low == (ZERO,) and top is not None:
                    ranges[dim] = top
            case Find() | Segment():
                above = False
    located = {d: v for d, v in values.items() if d not in fixed}
    base: list[Expr] = []
    offsets: list[Expr] = []
    extents: list[Expr] = []
    for place, extent in zip(target.place, target.extents, strict=True):
        names = variables(substitute(place, located))
        parts: tuple[Expr, Expr, Expr]
        if names <= fixed:
            parts = (place, ZERO, ONE)
        elif not names & (fixed - set(instance.sizes)):
            parts = (ZERO, place, extent)
        else:
            split = _split(substitute(place, located), fixed, ranges)
            if split is None:
                return None
            parts = split
        base.append(substitute(parts[0], values))
        offsets.append(parts[1])
        extents.append(parts[2])
    if target.place and all(b == ZERO for b in base):
        return None  # it could be all of the array
    return Slice(tuple(base), tuple(offsets), tuple(extents))


def _split(place: Expr, fixed: set[str], ranges: dict[str, Expr]) -> tuple[Expr, Expr, Expr] | None:
    """A subscript as `base + rest`, and the extent of the rest: a sum over loops that begin at 0."""
    try:
        value = linear(place)
    except NotAffine:
        return None
    terms = [(a, n) for a, n in value.terms if isinstance(a, str)]
    if len(terms) < len(value.terms):
        return None
    moving = Affine(tuple((a, n) for a, n in terms if a not in fixed))
    if not all(n > 0 and a in ranges for a, n in moving.terms if isinstance(a, str)):
        return None
    top = plus(*(times(Num(n), Bin("-", ranges[a], ONE)) for a, n in moving.terms if isinstance(a, str)), ONE)
    if len(moving.terms) == 1 and moving.terms[0][1] == 1 and isinstance(moving.terms[0][0], str):
        top = ranges[moving.terms[0][0]]
    return expression(value - moving), expression(moving), top


# --- loops that only add ----------------------------------------------------------------------------


def _adding(
    instance: Instance, nodes: Sequence[Plan], first: int, partition: Partition, context: Context
) -> tuple[Partition, str] | None:
    """How the loop adds on threads, and why; None where it does more than add, or would not gain."""
    do, loop = nodes[-1], nodes[first]
    if not isinstance(do, Store) or do.op == "=" or any(isinstance(n, Find) and n.miss is not None for n in nodes):
        return None
    if instance.monoid is not None and not _is_orderless(instance.monoid, context.deterministic):
        return None
    target = do.target
    if any(o.tensor == target.tensor for o in instance.reads):
        return None
    outside = nodes[:first]
    if any(isinstance(n, Scan | Find) for n in outside) and any(isinstance(n, SearchState) for n in outside):
        return None  # threads would share where a find stands
    partition = replace(partition, fixed=context.deterministic, weight=_counted(partition.weight, ZERO))
    only = f"its iterations only add to {target.tensor}"
    if any(map(is_sum, nodes[:first])):
        return replace(partition, adds="sum"), f"{only}: each part has a sum of its own; then the sums are added"
    if any(isinstance(n, Accumulate) and n.op == "=" for n in nodes[first:]):
        return None
    assert isinstance(loop, Loop)
    key_slice = _in_order(instance, loop, target)
    if key_slice is not None:
        why = f"{only}, element after element in order: two parts share an element only where one ends"
        return replace(partition, adds="segments", slice=key_slice), why
    kinds = {context.types.get(o.tensor, "") for o in (instance.target, *instance.reads)}
    is_atomic = len(kinds) == 1 and kinds <= ATOMIC and _scattered(nodes, do) and not context.deterministic
    is_atomic = is_atomic and do.monoid is None
    copy = Copy(replace(target, place=(), subscripts=(), positions=()), do.monoid)
    why = f"{only}: each thread adds to a copy of it, if copying is little work compared with the rest"
    if is_atomic:
        why += ", else atomically"
    return replace(partition, adds="copies", copies=(copy,), atomic=is_atomic), why


def _in_order(instance: Instance, loop: Loop, target: Operand) -> Slice | None:
    """The places of one key, if keys never fall along the loop, subscript by subscript, and no two keys share a place:
    where rest adds to a subscript, as in `i + j`, it must not reach the next key's."""
    if not isinstance(loop, Scan) or loop.partition is None or loop.partition.weight is not None:
        return None
    if not all(isinstance(n, Load | Define | Guard | Prefetch) or is_sum(n) for n in _above_loop(loop)):
        return None
    key_slice = _slice(instance, loop, target)
    if key_slice is None:
        return None
    subscripts = list(zip(key_slice.base, key_slice.rest, key_slice.extents, strict=True))
    keys = [_divisions(b) for b, _, _ in subscripts if b != ZERO]
    apart = [e if r != ZERO else ONE for b, r, e in subscripts if b != ZERO]
    if not keys or not any(loop.dim in variables(k) for k in keys):
        return None
    later = f"{loop.dim}'"
    two = [substitute(k, {loop.dim: Var(later)}) for k in keys]
    one, other = Var(loop.dim), Var(later)
    known: list[Formula] = [Compare(">=", Var(s), ZERO) for s in instance.sizes]
    known += [Compare(">=", one, e) for e in loop.low] + [Compare("<", other, e) for e in loop.high]
    known += [Compare("<", one, other)]
    if not variables(And(tuple(known))) <= {*instance.sizes, loop.dim, later}:
        return None
    rising: list[Formula] = []
    for k, (a, b) in enumerate(zip(keys, two, strict=True)):
        same = [Compare("=", x, y) for x, y in zip(keys[:k], two[:k], strict=True)]
        last = k == len(keys) - 1
        if apart[k] == ONE:
            steps = [Compare("<=" if last else "<", a, b)]
        else:
            steps = [Compare("<=", plus(a, apart[k]), b), *([Compare("=", a, b)] if last else [])]
        rising += [And((*same, s)) if same else s for s in steps]
    goal = rising[0] if len(rising) == 1 else Or(tuple(rising))
    about = f"places of {target.tensor} along {loop.dim} come in order"
    return key_slice if implied(known, instance.axioms, goal, about=about).proved else None


def _divisions(expr: Expr) -> Expr:
    """With the divisions of the language in place of C's."""

    def rule(node: object) -> Expr | None:
        if isinstance(node, Bin) and node.op in ("quot", "rem"):
            return Bin("/" if node.op == "quot" else "%", node.left, node.right)
        return None

    result: Expr = rewrite(rule, expr)
    return result


def _scattered(nodes: Sequence[Plan], do: Store) -> bool:
    """Whether the last subscript of the place is made of what an index array holds: such additions are scattered
    anyway, while others run by vectors, which atomic ones cannot."""
    if not do.target.place:
        return False
    loaded: set[str] = set()
    for node in nodes:
        match node:
            case Load(dim):
                loaded.add(dim)
            case Define(dim, value) if variables(value) & loaded:
                loaded.add(dim)
            case Find(loads=loads):
                loaded |= {d for d, _ in loads}
    return bool(variables(do.target.place[-1]) & loaded)

"""Small dense blocks: a vector of sums for each place, so that no addition waits for another.

    { y.[r] for r < R } : for p { for r { for c < C { y.[r] += A[p, r, c]*x[C*f(p) + c] } } }

adds up the products of a row of each block. With a sum for each r and c the loop over c is a vector operation; the sums
of a vector are added up behind the loop over p. Were it asked of each block whether it is whole, compilers would not
keep so many sums in registers: where C divides the size that cuts blocks off, all of them are, which Z3 proves.

CPU time without the pass by that with it, one thread, best of 9 or more on a busy machine, one run:
`y[i] = A[i,j]*x[j]` in bcsr 1.54 for a matrix of full blocks of 4 by 4, 1.25 for a stencil.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spfgen import tuning
from spfgen.facts.formula import ZERO, Bin, Compare, Formula, Num, Var, show
from spfgen.facts.prove import implied
from spfgen.ir import rewrite, walk
from spfgen.plan.analyse.known import Around, known_in, known_within, rewritten
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    Define,
    Guard,
    Load,
    Plan,
    Registers,
    Scan,
    Store,
    Version,
    Versions,
    chain,
    is_sum,
    specialised,
)
from spfgen.sets.affine import NotAffine, expression
from spfgen.sets.uf import linear
from spfgen.space.nodes import Instance

WHY = "then all blocks are whole along their rows"


def with_vector_sums(instance: Instance, plan: Plan) -> Plan:
    """The plan with such sums."""

    def change(node: Plan, around: Around) -> Plan | None:
        match node:
            case Accumulate(storage=Registers(lane="") as registers):
                return _as_vectors(instance, node, registers, known_within(around)) or node
        return None

    return rewritten(change, plan)


def _as_vectors(instance: Instance, sums: Accumulate, registers: Registers, known: Sequence[Formula]) -> Plan | None:
    """The sums as vectors where a size says that all blocks are whole; None where that cannot be."""
    inside = [*known, *(f for node in chain(sums.body) for f in known_in(node))]
    needs: dict[Formula, None] = {}
    lanes: dict[tuple[str, int], None] = {}

    def whole(node: object) -> Plan | None:
        match node:
            case Versions((Version(when=tuple() as when, body=Scan(registers.dim) as scan), Version(when=()))):
                conditions = [_by_size(instance, inside, f) for f in when]
                needs.update((f, None) for f in conditions if f is not None)
                return None if None in conditions else scan
        return None

    def by_vectors(node: object) -> Plan | None:
        match node:
            case Accumulate(registers.added, op, Scan() as scan) if is_sum(node) and op != "=":
                lanes[scan.dim, _times(scan)] = None
                return replace(scan, vector=True, pieces=_powers_of_two(_times(scan)))
            case Scan(registers.dim):
                return replace(node, unroll=registers.count)
        return None

    body: Plan = rewrite(by_vectors, rewrite(whole, sums.body, PLANS), PLANS)
    if len(lanes) != 1 or any(isinstance(n, Versions | Guard | Accumulate) for n in walk(body, PLANS)):
        return None
    ((lane, width),) = lanes
    if not 1 < width <= tuning.BLOCK_VECTOR_SUMS // registers.count:
        return None
    added = replace(registers.added, place=(*registers.added.place, Var(lane)))
    body = rewrite(lambda n: added if n == registers.added else None, body)
    storage = replace(registers, added=added, lane=lane, lanes=width)
    special = replace(sums, body=body, storage=storage)
    return specialised(tuple(needs), special, sums, WHY) if needs else special


def _times(scan: Scan) -> int:
    """How often a loop runs that does nothing but add up what lies side by side, if that is a number; else 0."""
    plain = all(isinstance(n, Load | Define | Store) for n in chain(scan.body))
    match scan:
        case Scan(low=(Num(0),), high=(Num(count),)) if plain:
            return count
    return 0


def _powers_of_two(count: int) -> tuple[int, ...]:
    """That many as the fewest powers of two, the largest first: of vectors of other lengths gcc (12) keeps the sums in
    memory."""
    return tuple(1 << k for k in reversed(range(count.bit_length())) if count >> k & 1)


def _by_size(instance: Instance, known: Sequence[Formula], need: Formula) -> Formula | None:
    """The condition on a size under which all blocks are full, s - C*b >= C for each block b: C divides s."""
    match need:
        case Compare(">=", left, Num(count)):
            pass
        case _:
            return None
    try:
        size = linear(left)
    except NotAffine:
        return None
    for name in size.names() - set(instance.sizes):
        if size.coefficient(name) % count:
            return None
        size = size.without(name)
    if not size.names():
        return None
    divides = Compare("=", Bin("%", expression(size), Num(count)), ZERO)
    natural = instance.sizes_known
    about = f"all blocks are whole where {count} divides {show(expression(size))}"
    return divides if implied([divides, *natural, *known], instance.axioms, need, about=about).proved else None

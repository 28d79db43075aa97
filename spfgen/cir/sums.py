"""Loops that only add to one sum: a processor need not wait for one addition before it starts the next.

Where the values stand side by side the sum is a vector's; where they are reached through an index array, which vectors
gain nothing from, two sums run side by side. Either way the order of the additions is another than the text's, and the
same whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.elements import zero
from spfgen.cir.scope import Scope
from spfgen.facts.formula import Bin, Num, Var, substitute, variables
from spfgen.ir import walk
from spfgen.lang.types import ElementType
from spfgen.plan.nodes import Do, Find, Load, Locate, Plan, Scan, chain
from spfgen.space.nodes import Operand, Read

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering

SHORT = 16
"""Loops that are known to be shorter are left as they are."""


def summing(plan: Scan, scope: Scope) -> tuple[str, ElementType] | None:
    """The sum, and its type, when the loop does nothing but add numbers to it."""
    if plan.parallel or plan.atomic or any(isinstance(e, Num) and e.value < SHORT for e in plan.high):
        return None
    nodes = list(chain(plan.body))
    if not all(isinstance(n, Load | Locate | Do) or (isinstance(n, Find) and n.algorithm == "scatter") for n in nodes):
        return None
    do = nodes[-1]
    if not isinstance(do, Do) or do.op != "+=":
        return None
    found = scope.running(do.target)
    return found if found is not None and found[1].kind in "fc" else None


def side_by_side(plan: Scan) -> bool:
    """Whether all that changes in the loop are values that stand one behind the other."""
    return not any(isinstance(n, Load | Find) for n in chain(plan.body)) and all(
        plan.dim not in {v for e in o.place[:-1] for v in variables(e)}
        and (o.place[-1:] == (Var(plan.dim),) or plan.dim not in {v for e in o.place for v in variables(e)})
        for o in _read(plan.body)
    )


def _read(plan: Plan) -> Iterator[Operand]:
    return (n.operand for n in walk(plan) if isinstance(n, Read))


def vector(name: str) -> str:
    """The pragma of a sum by vectors."""
    return f"omp simd reduction(+:{name})"


def two_sums(low: Lowering, plan: Scan, scope: Scope, name: str, kind: ElementType) -> list[c.Stmt]:
    """Two values at a time, each for a sum of its own."""
    position = low.names[plan.dim]
    end = low.fold("spfgen_min", plan.high, scope)
    lines: list[c.Stmt] = []
    if not isinstance(end, c.Name | c.Int):
        lines.append(c.Declare("const int64_t", low.names.new(f"{position}_end"), end))
        end = c.Name(lines[-1].name)  # type: ignore[attr-defined]
    other = low.names.new(f"{name}_2")
    at = c.Name(position)
    first = low.plan(plan.body, scope)
    following: Plan = substitute(plan.body, {plan.dim: Bin("+", Var(plan.dim), Num(1))})
    sums = {target: (other if found[0] == name else found[0], found[1]) for target, found in scope.sums.items()}
    folded = {t: (other if found[0] == name else found[0], found[1]) for t, found in scope.folded.items()}
    second = [s for s in low.plan(following, replace(scope, sums=sums, folded=folded)) if not isinstance(s, c.Comment)]
    more = c.If(c.Bin("<", c.Bin("+", at, c.Int(1)), end), c.Block(tuple(second)))
    body = c.Block((*_alone(first), more))
    return [
        *lines,
        c.Comment("two sums, so that one addition need not wait for the other"),
        c.Declare(kind.c, other, zero(kind)),
        c.For("int64_t", position, low.fold("spfgen_max", plan.low, scope), c.Bin("<", at, end), 2, body),
        c.Assign(c.Name(name), "+=", c.Name(other)),
    ]


def _alone(lines: list[c.Stmt]) -> list[c.Stmt]:
    """In braces, if something is declared."""
    return [c.Scope(c.Block(tuple(lines)))] if any(isinstance(s, c.Declare) for s in lines) else lines

"""Assignments several points of which have one place of the target: their values are added up.

`y[i + j] = abs(A[i, j])` is `y[i + j] = 0` and then `y[i + j] += abs(A[i, j])`. Sums of products are planned as sums
anyway. Whether two points have one place is a question to isl, whatever the extents are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spfgen.errors import Unsupported
from spfgen.facts.formula import ZERO, Compare, Expr, Var, conjuncts, rename, variables
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.blocks import with_blocks
from spfgen.lang.normalize import as_update
from spfgen.lang.values import indices_of
from spfgen.layout.nodes import Layout
from spfgen.sets.affine import Affine
from spfgen.sets.named import Constraint, Space
from spfgen.sets.uf import comparisons

NOTHING = lang.Constant(0)


def added_up(
    kernel: lang.Kernel, layouts: Mapping[str, Layout], wanted: Callable[[lang.Statement, bool], bool]
) -> lang.Kernel:
    """The kernel with an update for each `wanted` assignment (of which it is told whether it stands in a loop) several
    points of which have one place. Raises Unsupported where that has no meaning."""

    def steps(block: Sequence[Any], around: frozenset[str], repeated: bool) -> tuple[Any, ...]:
        return tuple(new for s in block for new in step(s, around, repeated))

    def step(old: Any, around: frozenset[str], repeated: bool) -> Sequence[Any]:
        if isinstance(old, lang.Statement):
            asked = _assigns(old) and wanted(old, repeated) and several_meet(old, around)
            return _cleared_first(old, layouts[old.target.tensor]) if asked else (old,)
        inner = around | {*old.indices} if isinstance(old, lang.For) else around
        again = repeated or isinstance(old, lang.For | lang.While)
        return (with_blocks(old, lambda block: steps(block, inner, again)),)

    return replace(kernel, statements=steps(kernel.statements, frozenset(kernel.sizes), False))


def without_values(step: Any) -> Any:
    """The step with plain zeros where values only say how far indices run."""
    return rewrite(lambda n: NOTHING if is_nothing(n) else None, step)


def several_meet(statement: lang.Statement, around: Collection[str]) -> bool:
    """Whether two points of a statement may have one place; `around` are the names that are known outside of it."""
    subscripts = statement.target.subscripts
    indices = sorted(indices_of(statement.target) - {*around})
    if {s.name for s in subscripts if isinstance(s, Var)} >= {*indices}:
        return False
    twins = {n: f"{n}'" for n in indices}
    rules: list[Any] = [Compare("<=", ZERO, Var(n)) for n in (*indices, *twins.values())]
    rules += [Compare("=", s, rename(s, twins)) for s in subscripts]
    for part in conjuncts(statement.where) if statement.where is not None else ():
        rules += [part, rename(part, twins)]
    others = sorted(variables(*rules) - {*indices, *twins.values()})
    pairs = Space((*others, *indices, *twins.values())).universe().with_constraints(comparisons(rules))
    later = (Constraint(False, Affine(((twins[n], 1), (n, -1))).plus(-1)) for n in indices)
    return any(not pairs.with_constraints([c]).is_empty() for c in later)


def _assigns(step: lang.Statement) -> bool:
    """Whether a step gives its target values at places that indices alone decide."""
    assigns = as_update(step).op == "=" and not is_nothing(step.value)
    return assigns and all(isinstance(s, Expr) for s in step.target.subscripts)


def _cleared_first(statement: lang.Statement, layout: Layout) -> tuple[lang.Statement, ...]:
    """The update behind what makes the places 0."""
    target = statement.target
    reads = any(n.tensor == target.tensor for n in walk(statement.value) if isinstance(n, lang.Access))
    if reads or layout.fill != 0:
        read = "the value reads" if reads else "has another fill value than 0"
        raise Unsupported(
            f"several points of the equation have one element of `{target.tensor}`, which {read}",
            statement.span,
            (f"write an update, `{target.tensor}[...] += ...`, after what the elements are to be before it",),
        )
    nothing = lang.Apply("where", (lang.Constant(False), statement.value, NOTHING), statement.span)
    return (replace(statement, value=nothing), replace(statement, op="+="))


def is_nothing(value: Any) -> bool:
    """Whether a value is 0 in the type of another one, and tells only how far that one's indices run."""
    match value:
        case lang.Apply("where", (lang.Constant(False), _, rest)):
            return bool(rest == NOTHING)
    return False

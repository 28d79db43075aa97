"""Whether a scan of one layout meets the entries of each group of another in the order of their keys."""

from __future__ import annotations

from spfgen.facts.formula import And, Bin, Compare, Expr, Formula, Num, Or, Var, conjunction, rename, substitute
from spfgen.facts.prove import implied
from spfgen.layout.keys import KeyField, KeyPlan
from spfgen.layout.nodes import Layout
from spfgen.layout.points import Expand, scan_of
from spfgen.layout.proofs import facts_of, stored
from spfgen.sets.affine import expression


def in_order(source: Layout, key: KeyPlan) -> bool:
    """Proved of the keys of the only rank: strictly in their order, so that none is there twice in a group.

    Two entries are compared: the scan meets one before the other when the first of their loops that differ say so.
    """
    scans = scan_of(source)
    if len(scans) != 1 or len(source.values) != 1:
        return False
    level = key.levels[0]
    loops = [s.name for s in scans[0] if isinstance(s, Expand)]
    twin = {n: f"{n}'" for n in (*source.positions, *source.coordinates)}
    one = stored(source, source.values[0])
    both = [*one, *(rename(f, twin) for f in one)]
    digits = [_digit(source, key, f) for f in key.fields[: level.end]]
    pairs = [(d, rename(d, twin)) for d in digits]
    same = [Compare("=", a, b) for a, b in pairs[: level.group]]
    goal: Formula = Or(())
    for (a, b), field in reversed(list(zip(pairs[level.group :], key.fields[level.group : level.end], strict=True))):
        rises = Compare(">" if field.down else "<", a, b)
        goal = rises if goal == Or(()) else Or((rises, And((Compare("=", a, b), goal))))
    about = f"{source.name} to {key.plan.encoded.layout.name}: entries of a group come in the order of their keys"
    for number, loop in enumerate(loops):
        before = [Compare("=", Var(n), Var(twin[n])) for n in loops[:number]]
        later = Compare("<", Var(loop), Var(twin[loop]))
        known = [*both, *same, conjunction([*before, later])]
        if not implied(known, facts_of(source), goal, about=about).proved:
            return False
    return True


def _digit(source: Layout, key: KeyPlan, field: KeyField) -> Expr:
    """A digit of the key as an expression of the source's coordinates."""
    target = key.plan.encoded
    values: dict[str, Expr] = {
        t: Var(s)
        for t, s in zip(
            (*target.layout.coordinates, *target.layout.parameters),
            (*source.coordinates, *source.parameters),
            strict=True,
        )
    }
    for name, (numerator, divisor) in target.quotients.items():
        if numerator.names() <= set(values):
            values[name] = _floor(substitute(expression(numerator), values), divisor)
    for rule in key.computed:
        if rule.numerator.names() <= set(values):
            values[rule.position] = _floor(substitute(expression(rule.numerator), values), rule.divisor)
    return values[field.name]


def _floor(numerator: Expr, divisor: int) -> Expr:
    return numerator if divisor == 1 else Bin("/", numerator, Num(divisor))

"""Several checks of one loop in one pass over memory."""

from __future__ import annotations

from spfgen.cir.checks.expressions import no_call
from spfgen.cir.checks.instances import noted
from spfgen.cir.checks.writer import Writer
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import loop
from spfgen.facts.formula import Bin, Expr
from spfgen.layout.checks import Check, CheckPart
from spfgen.sets.affine import affine


def fused(w: Writer) -> list[c.Stmt]:
    """Over the places that all look at, then over those at the ends."""
    checks = [*w.along, w.check]
    loops = [_part(k).scan.loops[0] for k in checks]
    variable = w.names.of(loops[0].variable)
    flags = [w.names.of(f"broken_{k + 1}") for k in range(len(checks))]
    low = max((scanned.low[0] for scanned in loops), key=_constant)
    high = min((scanned.high[0] for scanned in loops), key=_constant)
    each = [collected(w, k, variable, flag) for k, flag in zip(checks, flags, strict=True)]
    pragma = w.parallel(openmp.combined("|", *flags))
    return [
        *(c.Declare("int", flag, c.Int(0)) for flag in flags),
        c.Comment(f"which of them are wrong for some {loops[0].variable}"),
        loop(variable, w.expr(low), w.expr(high), each, pragma),
        *(end for k, flag in zip(checks, flags, strict=True) for end in ends(w, k, variable, flag, low, high)),
        c.Comment("the first place where the first of them is wrong"),
        *(c.If(c.Name(flag), c.Block((first_wrong(w, k, variable),))) for k, flag in zip(checks, flags, strict=True)),
    ]


def collected(w: Writer, check: Check, variable: str, flag: str) -> c.Stmt:
    """The statement: flag |= (the check fails at `variable`)."""
    with w.naming({_part(check).scan.loops[0].variable: c.Name(variable)}):
        return c.Assign(c.Name(flag), "|=", w.wrong(check.parts[0].scan.body, ())[1])


def ends(w: Writer, check: Check, variable: str, flag: str, low: Expr, high: Expr) -> list[c.Stmt]:
    """The same for the values of its loop below `low`, and from `high` on."""
    scanned = _part(check).scan.loops[0]
    each = [collected(w, check, variable, flag)]
    lines: list[c.Stmt] = []
    if scanned.low[0] != low:
        lines.append(loop(variable, w.expr(scanned.low[0]), w.expr(Bin("min", low, scanned.high[0])), each))
    if scanned.high[0] != high:
        start = c.Call("spfgen_max", (w.expr(scanned.low[0]), w.expr(high)))
        lines.append(loop(variable, start, w.expr(scanned.high[0]), each))
    return lines


def first_wrong(w: Writer, check: Check, variable: str) -> c.Stmt:
    """Leave at the first value for which the check fails, if there is one."""
    part = _part(check)
    scanned = part.scan.loops[0]
    back = len(w.along) - [*w.along, w.check].index(check)
    with w.naming({scanned.variable: c.Name(variable)}):
        wrong = w.wrong(part.scan.body, ())[1]
        leave = c.If(wrong, c.Block((*noted(w, part), *w.failed(back=back))))
    return loop(variable, w.expr(scanned.low[0]), w.expr(scanned.high[0]), [leave])


def _part(check: Check) -> CheckPart:
    (part,) = check.parts
    assert isinstance(part, CheckPart)
    return part


def _constant(bound: Expr) -> int:
    return affine(bound, no_call).constant

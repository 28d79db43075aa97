"""Several checks of one loop in one pass over memory."""

from __future__ import annotations

from collections.abc import Sequence

from spfgen.cir import nodes as c
from spfgen.cir.build import loop
from spfgen.cir.checks.expressions import no_call
from spfgen.cir.checks.instances import noted
from spfgen.cir.checks.writer import Writer
from spfgen.facts.formula import Bin, Expr
from spfgen.layout.checks import Part
from spfgen.sets.affine import affine


def together(w: Writer) -> list[c.Stmt]:
    """Over the places that all look at, then over those at the ends."""
    checks = [*w.along, w.check]
    parts = [k.parts[0] for k in checks]
    loops = [p.scan.loops[0] for p in parts]
    variable = w.names.of(loops[0].variable)
    flags = [w.names.of(f"broken_{k + 1}") for k in range(len(checks))]
    low = max((own.low[0] for own in loops), key=_constant)
    high = min((own.high[0] for own in loops), key=_constant)
    wrongs: list[c.Expr] = []
    kept: list[list[c.Stmt]] = []
    for part, own in zip(parts, loops, strict=True):
        assert isinstance(part, Part)
        with w.naming({own.variable: c.Name(variable)}):
            wrongs.append(w.wrong(part.scan.body, ())[1])
            kept.append(noted(w, part))
    lines: list[c.Stmt] = [c.Declare("int", flag, c.Int(0)) for flag in flags]

    def run(start: c.Expr, end: Expr, body: Sequence[c.Stmt], pragma: str = "") -> c.Stmt:
        return loop(variable, start, w.expr(end), body, pragma)

    each = [c.Assign(c.Name(flag), "|=", wrong) for flag, wrong in zip(flags, wrongs, strict=True)]
    lines.append(c.Comment(f"which of them are wrong for some {loops[0].variable}"))
    lines.append(run(w.expr(low), high, each, w.parallel(f"reduction(| : {', '.join(flags)})")))
    for own, one in zip(loops, each, strict=True):
        if own.low[0] != low:
            lines.append(run(w.expr(own.low[0]), Bin("min", low, own.high[0]), [one]))
        if own.high[0] != high:
            start = c.Call("spfgen_max", (w.expr(own.low[0]), w.expr(high)))
            lines.append(run(start, own.high[0], [one]))
    lines.append(c.Comment("the first place where the first of them is wrong"))
    for k, own in enumerate(loops):
        leave = c.If(wrongs[k], c.Block((*kept[k], *w.failed(back=len(loops) - 1 - k))))
        lines.append(c.If(c.Name(flags[k]), c.Block((run(w.expr(own.low[0]), own.high[0], [leave]),))))
    return lines


def _constant(bound: Expr) -> int:
    return affine(bound, no_call).constant

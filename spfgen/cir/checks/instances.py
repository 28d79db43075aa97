"""Instances one by one: all values in parallel; the values of the first instance that is wrong are kept.

Facts of neighbours in an order are of this kind too: their instances are for one place and the next.
"""

from __future__ import annotations

from spfgen.cir.checks.writer import NEVER, Writer, critical
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import INT, loop
from spfgen.facts.formula import Exists, Forall, Formula
from spfgen.ir import walk
from spfgen.layout.checks import CheckPart
from spfgen.layout.loops import Loop


def instances(w: Writer, part: CheckPart) -> list[c.Stmt]:
    nested = part.scan
    if not nested.loops:
        return alone(w, part)
    if len(nested.loops) == 1 and not _has_quantifier(nested.body):
        return single(w, part, nested.loops[0])
    return nest(w, part)


def alone(w: Writer, part: CheckPart) -> list[c.Stmt]:
    """A fact without variables."""
    lines, wrong = w.wrong(part.scan.body, part.scan.guards)
    return w.within(part.scan.before, [*lines, c.If(wrong, c.Block(tuple(w.failed())))])


def single(w: Writer, part: CheckPart, outer: Loop) -> list[c.Stmt]:
    """One loop: whether there is a wrong instance, then where the first is."""
    broken = w.names.of("broken")
    lines, low, high = w.bounds(outer)
    variable = w.names.of(outer.variable)
    with w.naming({outer.variable: c.Name(variable)}):
        more, wrong = w.wrong(part.scan.body, part.scan.guards)
        leave = c.If(wrong, c.Block((*noted(w, part), *w.failed())))
    collect = c.Assign(c.Name(broken), "|=", wrong)
    lines += [
        c.Declare("int", broken, c.Int(0)),
        c.Comment(f"whether it is wrong for some {outer.variable}"),
        loop(variable, low, high, [*more, collect], w.parallel(openmp.combined("|", broken))),
        c.Comment("the first that is wrong"),
        c.If(c.Name(broken), c.Block((loop(variable, low, high, [*more, leave]),))),
    ]
    return w.within(part.scan.before, lines)


def nest(w: Writer, part: CheckPart) -> list[c.Stmt]:
    """Loops in loops: for each value of the outermost, whether an instance is wrong, then where the first is."""
    outer, *inner = part.scan.loops
    first, broken = w.names.of("first"), w.names.of("broken")
    w.counted = not w.check.is_linear

    def collect() -> list[c.Stmt]:
        more, wrong = w.wrong(part.scan.body, part.scan.guards)
        if w.counted and _has_quantifier(part.scan.body):  # what was not looked for was not found
            wrong = c.Bin("&&", wrong, w.is_little())
        return [*more, c.Assign(c.Name(broken), "|=", wrong)]

    def row() -> list[c.Stmt]:
        bounds = w.bounds(inner[0]) if inner else None
        lines: list[c.Stmt] = [*bounds[0]] if bounds else []
        lines += [c.Declare("int", broken, c.Int(0)), *w.loops(inner, collect, known=bounds)]
        again = w.uncounted(lambda: w.loops(inner, lambda: search(w, part, outer, first), known=bounds))
        where = c.Comment(f"the first that is wrong; of several values of {outer.variable} the least")
        return [*lines, where, c.If(c.Name(broken), critical(again))]

    names = ", ".join(loop_inside.variable for loop_inside in inner) or "value inside"
    about = c.Comment(f"for every {outer.variable}, whether it is wrong for some {names}")
    lines: list[c.Stmt] = [c.Declare(INT, first, NEVER), *w.counter(), about]
    lines += w.within(part.scan.before, w.loops([outer], row, w.shared()))
    return [*lines, w.failed_at(first), *w.too_much()]


def search(w: Writer, part: CheckPart, outer: Loop, first: str) -> list[c.Stmt]:
    """Keep the values of an instance that is wrong, if that of the outer loop is less than `first`."""
    more, wrong = w.wrong(part.scan.body, part.scan.guards)
    at = w.scope[outer.variable]
    new = c.Bin("&&", c.Bin("<", at, c.Name(first)), wrong)
    return [*more, c.If(new, c.Block((c.Assign(c.Name(first), "=", at), *noted(w, part))))]


def noted(w: Writer, part: CheckPart) -> list[c.Stmt]:
    """Note the values of the variables of an instance."""
    return w.kept([e for _, e in part.values])


def _has_quantifier(body: Formula) -> bool:
    return any(isinstance(n, Forall | Exists) for n in walk(body))

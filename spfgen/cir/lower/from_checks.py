"""The checks of a layout (layout/checks.py) in C: a function for each, and one that calls them all.

Whether a value is wrong is collected without branches, so that plain loops are vectorised; where a range of values
holds a wrong one, it is run through again for the first. Every read is within its array, whatever the arrays hold:
that follows from the bounds of the loops, or is asked before the read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spfgen import tuning
from spfgen.cir.checks.fused import fused
from spfgen.cir.checks.instances import instances
from spfgen.cir.checks.keys import groups
from spfgen.cir.checks.names import BROKEN, HOLDS, MEMORY, UNCHECKED, CheckNames
from spfgen.cir.checks.segments import segments
from spfgen.cir.checks.writer import Writer
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT, joined
from spfgen.facts.formula import Call, show
from spfgen.ir import walk
from spfgen.lang.types import TYPES
from spfgen.layout.checks import Check, CheckPart, GroupCheck, SegmentCheck
from spfgen.layout.nodes import Layout


def check_functions(layout: Layout, checks: Sequence[Check], kinds: Mapping[str, str], name: str) -> list[c.Function]:
    """A function for each check of the layout and, the last, `name`, which makes them all; `kinds` are the types of the
    index arrays.

    `name` takes sizes, index arrays, `limit` (how much work is too much, where it is not bounded by the sizes of the
    arrays), `threads` and `report`: there it leaves the number of the first check that fails, or -1; in the places
    from 1 on the values of its variables; behind them, for each check, whether it was not made in full.
    """
    functions: list[c.Function | None] = [None] * len(checks)
    riding = {id(f) for check in checks for f in check.along}
    for k, check in enumerate(checks):
        if id(check.fact) not in riding:
            functions[k] = _function(Writer(layout, kinds, name, k, checks[k - len(check.along) : k + 1]))
    return [*(f for f in functions if f), _all(layout, checks, kinds, name, functions)]


def places(checks: Sequence[Check]) -> int:
    """The most variables that a check has: so many places of a report hold their values."""
    return max((len(check.names) for check in checks), default=0)


def _all(
    layout: Layout, checks: Sequence[Check], kinds: Mapping[str, str], name: str, functions: Sequence[c.Function | None]
) -> c.Function:
    names = CheckNames(layout, name)
    report = c.Name(names.report)
    lines: list[c.Stmt] = [c.Assign(c.Load(report, c.Int(0)), "=", c.Int(-1))]
    lines.append(c.Declare("int", names.status, c.Name(HOLDS)))
    flags = 1 + places(checks)
    for k, (check, function) in enumerate(zip(checks, functions, strict=True)):
        lines.append(c.Comment(f"{check.array}: {check.fact.text}; {check.because}"))
        if function is None:  # the next one sees to it
            continue
        call = c.Call(function.name, tuple(c.Name(p.name) for p in function.params))
        lines.append(c.Assign(c.Name(names.status), "=", call))
        failed = c.Bin("||", _is(names.status, BROKEN), _is(names.status, MEMORY))
        lines.append(c.If(failed, c.Block((c.Return(c.Name(names.status)),))))
        lines.append(c.Assign(c.Load(report, c.Int(flags + k)), "=", _is(names.status, UNCHECKED)))
    used = {n.name for s in lines for n in walk(s) if isinstance(n, c.Name)}
    params = _params(layout, kinds, names)
    lines = [c.Do(c.Cast("void", c.Name(p.name))) for p in params if p.name not in used] + lines
    lines.append(c.Return(c.Name(HOLDS)))
    doc = f"Whether index arrays satisfy all that layout {layout.name} declares of them; they may hold anything."
    doc += f"\n\nReturns {HOLDS}, {BROKEN} or {MEMORY}."
    return c.Function("int", name, tuple(params), c.Block(tuple(lines)), doc)


def _is(name: str, value: str) -> c.Expr:
    return c.Bin("==", c.Name(name), c.Name(value))


def _params(layout: Layout, kinds: Mapping[str, str], names: CheckNames) -> list[c.Param]:
    params = [c.Param(INT, names[n]) for n in (*layout.parameters, *layout.sizes)]
    for index in layout.indexes:
        shape = "".join(f"[{show(e)}]" for e in index.extents)
        params.append(c.Param(f"const {TYPES[kinds[index.name]].c} *", names[index.name], shape))
    params.append(c.Param(INT, names.limit, "give up a check that is not linear after so many instances"))
    params.append(c.Param("int", names.threads, "threads to use; 0 or less leaves the choice to OpenMP"))
    about = (
        "number of the check that failed, or -1; the values of its variables; for each check, whether it was not made"
    )
    params.append(c.Param(f"{INT} *", names.report, about))
    return params


def _function(w: Writer) -> c.Function:
    """The function of the writer's check, and of those that are made along with it."""
    checks = (*w.along, w.check)
    body = _body(w)
    body.append(c.Return(c.Name(HOLDS if w.check.parts else UNCHECKED)))
    body[:0] = w.declarations()
    if w.is_parallel:
        hashed = any(isinstance(part, GroupCheck) for part in w.check.parts)
        share = _total(w) if hashed else c.Bin("/", _total(w), c.Int(tuning.CHECKED_PER_NS))
        threads = c.Call("spfgen_threads", (c.Name(w.threads), c.Cast("double", share)))
        body.insert(0, c.Assign(c.Name(w.threads), "=", threads))
    used = {n.name for s in body for n in walk(s) if isinstance(n, c.Name)}
    params = [c.Param(INT, w.names[n]) for n in (*w.layout.parameters, *w.layout.sizes)]
    for index in w.layout.indexes:
        params.append(c.Param(f"const {TYPES[w.kinds[index.name]].c} *restrict", w.names[index.name]))
    params += [c.Param(INT, w.limit), c.Param("int", w.threads), c.Param(f"{INT} *", w.report)]
    doc = "\n".join(f"{k.array}: {k.fact.text}; {k.because}" for k in checks)
    wanted = tuple(p for p in params if p.name in used)
    return c.Function("int", w.name, wanted, c.Block(tuple(body)), doc, static=True)


def _body(w: Writer) -> list[c.Stmt]:
    """Every part of the check."""
    parts = w.check.parts
    if w.along and not isinstance(parts[0], SegmentCheck):
        return fused(w)
    blocks = [c.Block(tuple(_part(w, part))) for part in parts]
    return [c.Braces(block) for block in blocks] if len(parts) > 1 else [*blocks]


def _part(w: Writer, part: CheckPart | GroupCheck) -> list[c.Stmt]:
    match part:
        case GroupCheck():
            return groups(w, part)
        case SegmentCheck():
            return segments(w, part)
        case CheckPart():
            return instances(w, part)


def _total(w: Writer) -> c.Expr:
    """About how much there is to look at: the sizes of the arrays that are looked at."""
    bodies = [k.body for k in (*w.along, w.check)]
    functions = dict.fromkeys(n.function for body in bodies for n in walk(body) if isinstance(n, Call))
    sizes = [joined("*", [w.expr(e, True) for e in w.extents[f]]) for f in functions if w.extents[f]]
    return joined("+", sizes)

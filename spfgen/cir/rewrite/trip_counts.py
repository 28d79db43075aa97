"""A part of a loop is written out for as many places as one tile has (cir/rewrite/tile_widths.py).

    part(n, ...) { ... tiles(n, ...) ... }   ->   part_for(n, ...) { ... tiles(n, ...) ... }
                                                  part(n, ...) { if (n == 32) { part_for(32, ...); } else ... }

Where compilers know the number nothing is asked in each row of how many tiles it has, and of which widths: with few
terms in each the questions take as long as the sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from spfgen import tuning
from spfgen.cir.rewrite.outline_parts import NOINLINE
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import first_of
from spfgen.cir.tree.outline import INLINE
from spfgen.ir import fresh, walk


def specialized(functions: Sequence[c.Function], whole: c.Function) -> list[c.Function]:
    """The functions, those among them that are parts of `whole` with tiles written out."""
    taken = {f.name for f in functions} | {whole.name}
    ends = {f.name: tests for f in functions if (tests := tuple(_tests(f)))}
    result: list[c.Function] = []
    for function in functions:
        called = {n.function for n in walk(function) if isinstance(n, c.Call)}
        tests_of = {test for name in called & ends.keys() for test in ends[name]}
        sizes = {size for size, _, _ in tests_of} & {p.name for p in function.params}
        wide = [t for t in tests_of if {t[0]} == sizes and t[1] >= tuning.SPECIALIZED_WIDTH]
        widths = {width: flag for _, width, flag in sorted(wide, key=lambda t: t[1])}
        if not function.result.startswith(NOINLINE) or not widths:
            result.append(function)
            continue
        (size,) = sizes
        name = fresh(f"{function.name}_for", taken)
        taken.add(name)
        doc = f"{function.doc.rstrip('.')}, for a {size} that may be a number."
        one = replace(function, result=f"inline {INLINE} void", name=name, doc=doc)
        result += [one, _chosen(function, one, size, widths, whole)]
    return result


def _tests(function: c.Function) -> Iterator[tuple[str, int, c.Expr | None]]:
    """The size that is tested for whether a tile fits, the tile's width, and what else must be so."""
    if INLINE not in function.result:
        return
    for line in function.body.statements:
        if not isinstance(line, c.While | c.If):
            continue
        match line.condition:
            case c.Bin("&&", c.Name() as flag, c.Bin("<=", c.Bin("+", _, c.Int(width)), c.Name(size))):
                yield size, width, flag
            case c.Bin("<=", c.Bin("+", _, c.Int(width)), c.Name(size)):
                yield size, width, None


def _chosen(
    function: c.Function, one: c.Function, size: str, widths: Mapping[int, c.Expr | None], whole: c.Function
) -> c.Function:
    """What calls it with the width of each tile where there is one tile alone."""
    names = [c.Name(p.name) for p in function.params]
    cases = list[tuple[c.Expr, c.Block]]()
    for width, flag in sorted(widths.items(), reverse=True):
        alone: dict[str, c.Expr] = {size: c.Int(width)}
        alone |= dict.fromkeys(_false(whole, size, width, flag), c.Name("false"))
        asked: c.Expr = c.Bin("==", c.Name(size), c.Int(width))
        if flag is not None:
            asked = c.Bin("&&", flag, asked)
        cases.append((asked, _run(one, [alone.get(n.name, n) for n in names])))
    doc = f"The same, written out for each {size} that is the width of one tile."
    return replace(function, body=c.Block((first_of(cases, _run(one, names)),)), doc=doc)


def _run(one: c.Function, given: Sequence[c.Expr]) -> c.Block:
    return c.Block((c.Do(c.Call(one.name, tuple(given))),))


def _false(whole: c.Function, size: str, width: int, flag: c.Expr | None) -> Iterator[str]:
    """The answers found out at the begin that are no for this width: that the size is more than at least so many."""
    for line in whole.body.statements:
        match line:
            case c.Declare("const bool", name, c.Bin() as asked):
                if any(_too_few(a, size, width, flag) for a in _all(asked)):
                    yield name


def _all(asked: c.Expr) -> Iterator[c.Expr]:
    """The questions that are all answered with yes where the whole one is."""
    match asked:
        case c.Bin("&&", left, right):
            yield from _all(left)
            yield from _all(right)
        case _:
            yield asked


def _too_few(asked: c.Expr, size: str, width: int, flag: c.Expr | None) -> bool:
    """Whether it is asked if the size is more than a limit that is at least so wide."""
    match asked:
        case c.Bin(">", c.Name(name), limit) if name == size:
            if isinstance(limit, c.Select):
                limit = limit.yes if limit.condition == flag else limit.no
            return isinstance(limit, c.Int) and width <= limit.value
    return False

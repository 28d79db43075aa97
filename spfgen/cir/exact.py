"""A part of a loop is written out for as many places as one tile has (cir/widths.py).

    part(n, ...) { ... tiles(n, ...) ... }   ->   part_for(n, ...) { ... tiles(n, ...) ... }
                                                  part(n, ...) { if (n == 32) { part_for(32, ...); } else ... }

Where compilers know the number nothing is asked in each row of how many tiles it has, and of which widths: with few
terms in each the questions take as long as the sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from spfgen.cir import nodes as c
from spfgen.cir.alone import ALONE
from spfgen.cir.build import first_of
from spfgen.cir.outline import INLINE
from spfgen.ir import fresh, walk

SMALLEST = 16
"""The smallest width that is written out: with fewer places the other loops are what takes time."""


def written_out(functions: Sequence[c.Function], whole: c.Function) -> list[c.Function]:
    """The functions, those among them that are parts of `whole` with tiles written out."""
    taken = {f.name for f in functions} | {whole.name}
    ends = {f.name: tests for f in functions if (tests := tuple(_tests(f)))}
    made: list[c.Function] = []
    for function in functions:
        called = {n.function for n in walk(function) if isinstance(n, c.Call)}
        found = {test for name in called & ends.keys() for test in ends[name]}
        sizes = {size for size, _, _ in found} & {p.name for p in function.params}
        widths = {width: flag for name, width, flag in found if {name} == sizes and width >= SMALLEST}
        if not function.result.startswith(ALONE) or not widths:
            made.append(function)
            continue
        (size,) = sizes
        name = fresh(f"{function.name}_for", taken)
        taken.add(name)
        doc = f"{function.doc.rstrip('.')}, for a {size} that may be a number."
        one = replace(function, result=f"inline {INLINE} void", name=name, doc=doc)
        made += [one, _chosen(function, one, size, widths, _flags(whole, size))]
    return made


def _tests(function: c.Function) -> Iterator[tuple[str, int, c.Expr | None]]:
    """The size that is tested for whether a tile fits, the tile's width, and what else must be so."""
    given = {p.name for p in function.params}
    if INLINE not in function.result:
        return
    for line in function.body.statements:
        match line:
            case c.While(c.Bin("&&", c.Name() as flag, c.Bin("<=", c.Bin("+", _, c.Int(width)), c.Name(size)))):
                yield size, width, flag
            case c.While(c.Bin("<=", c.Bin("+", _, c.Int(width)), c.Name(size))) if size in given:
                yield size, width, None
            case c.If(c.Bin("<=", c.Bin("+", _, c.Int(width)), c.Name(size))) if size in given:
                yield size, width, None


def _flags(whole: c.Function, size: str) -> set[str]:
    """The answers found out at the begin to whether there is more than one tile."""
    answers = (s for s in whole.body.statements if isinstance(s, c.Declare) and s.type == "const bool")
    return {
        s.name for s in answers if isinstance(s.value, c.Bin) and s.value.op == ">" and s.value.left == c.Name(size)
    }


def _chosen(
    function: c.Function, one: c.Function, size: str, widths: Mapping[int, c.Expr | None], several: set[str]
) -> c.Function:
    """What calls it with the width of each tile where there is one tile alone."""
    names = [c.Name(p.name) for p in function.params]

    def run(*given: c.Expr) -> c.Block:
        return c.Block((c.Do(c.Call(one.name, given)),))

    cases = list[tuple[c.Expr, c.Block]]()
    for width, flag in sorted(widths.items(), key=lambda item: -item[0]):
        alone: dict[str, c.Expr] = {size: c.Int(width), **{n: c.Name("false") for n in several}}
        asked: c.Expr = c.Bin("==", c.Name(size), c.Int(width))
        if flag is not None:
            asked = c.Bin("&&", flag, asked)
        cases.append((asked, run(*(alone.get(n.name, n) for n in names))))
    doc = f"The same, written out for each {size} that is the width of one tile."
    return replace(function, body=c.Block((first_of(cases, run(*names)),)), doc=doc)

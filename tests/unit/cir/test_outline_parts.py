"""The body of a loop over parts becomes a function that takes what it needs."""

from __future__ import annotations

from spfgen.cir.lower.files import plain_file
from spfgen.cir.rewrite.outline_parts import with_outlined_part
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import loop
from spfgen.cir.tree.check import check
from spfgen.cir.tree.print import print_file, print_function

N, PART, OWN, WRONG = (c.Name(n) for n in ("n", "part", "own", "wrong"))
PRAGMA = "omp parallel for num_threads(parts)"


def counting(pragma: str, *before: c.Stmt) -> c.Function:
    """Each part adds to its own n counters, and notes that there are none."""
    add = c.Assign(c.Load(OWN, c.Name("k")), "+=", c.Int(1))
    body = [c.Declare("int *restrict", "own", c.Bin("+", c.Name("count"), c.Bin("*", PART, N)))]
    body += [c.Assign(WRONG, "|=", c.Un("!", N)), loop("k", c.Int(0), N, [add])]
    parts = loop("part", c.Int(0), c.Name("parts"), body, pragma, "int")
    params = (c.Param("int64_t", "n"), c.Param("int", "parts"), c.Param("int *restrict", "count"))
    whole = (*before, c.Declare("int", "wrong", c.Int(0)), parts, c.Return(WRONG))
    return c.Function("int", "tally", params, c.Block(whole))


def test_takes_restricted_arrays_and_gives_what_is_collected():
    part, calling = with_outlined_part(counting(f"{PRAGMA} reduction(|:wrong)"))
    head, _, body = print_function(part).partition("{")
    assert head.split("*/")[1].split() == "static SPFGEN_NOINLINE int tally_part(int64_t n, int *restrict own)".split()
    assert "int wrong = 0;" in body
    assert "return wrong;" in body
    assert "wrong |= tally_part(n, count + part * n);" in print_function(calling)
    file = plain_file([part, calling], "test")
    check(file)
    assert "#define SPFGEN_NOINLINE" in print_file(file)


def test_stays_where_it_is():
    for function in (counting(""), counting(f"{PRAGMA} reduction(|:wrong, more)", c.Declare("int", "more", c.Int(0)))):
        assert with_outlined_part(function) == [function]

"""How many entries each group has, or each bucket of groups: the first pass of two ways."""

from __future__ import annotations

from spfgen.cir.convert.both import BUCKETS, GROUPS, PARTS, Both, Pair, own_part
from spfgen.cir.nest import nests
from spfgen.cir.pack import Made, in_parts
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.affine import Names
from spfgen.cir.tree.build import INT
from spfgen.lang.types import TYPES


def count_groups(pair: Pair, in_buckets: bool = False) -> Made:
    """`in_buckets`: of each bucket of groups."""
    both = Both(pair, writes=False)

    def leaf(at: Names, value: c.Expr) -> list[c.Stmt]:
        lines, names = both.names(at)
        place = bucket_of(both.group(names)) if in_buckets else both.group(names)
        step = c.Assign(c.Load(c.Name("own"), place), "+=", c.Int(1))
        return both.kept(value, [*lines, *both.checked(names), step])

    kind, length = TYPES[pair.place].c, "buckets" if in_buckets else "groups"
    body = in_parts(
        [own_part("count", kind, length), *nests(both.source, leaf, "part", "parts")], openmp.combined("|", "wrong")
    )
    counts = ("count", c.Param(f"{kind} *restrict", "count", f"entries of each of the {length}, for each part"))
    what = "bucket of groups" if in_buckets else "group"
    doc = f"Counts the entries of {pair.source.name} in each {what} of {pair.layout.name}; 1 when one has no place."
    sizes = [*BUCKETS] if in_buckets else [GROUPS]
    name = "spfgen_count_buckets" if in_buckets else "spfgen_count_groups"
    return both.made(name, "int", [body], [PARTS, *sizes, counts], doc)


def bucket_of(group: c.Expr) -> c.Expr:
    """The bucket of a group: the product's upper half."""
    product = c.Bin("*", c.Cast("uint64_t", group), c.Name("factor"))
    return c.Cast(INT, c.Bin(">>", product, c.Int(32)))

"""A transposed copy of an array, a few columns at a time: those that share lines of the cache."""

from __future__ import annotations

from spfgen import tuning
from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.lower.workspaces import WorkspaceArray
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import INT, joined, linear_index, loop
from spfgen.plan.nodes import Transpose


def transpose(low: Lowering, plan: Transpose, scope: Scope) -> list[c.Stmt]:
    """The copy is made by all threads; then the body reads it."""
    given, copy = plan.operand, plan.copy
    kind = low.kinds[given.tensor]
    array = c.Name(low.names.new(f"{given.tensor}_transposed"))
    key = (copy.tensor, copy.array)
    extents = [low.expr(e, scope) for e in given.extents]
    low.workspaces.append(
        WorkspaceArray(array.name, kind.c, joined("*", extents), cleared=False, when=scope.when, filled=True)
    )
    low.arrays[f"{given.tensor}.{given.array}"] = None
    whole = c.Name(low.array_names[given.tensor, given.array])
    places = [c.Name(low.names.new("place")) for _ in extents]
    block, stop = c.Name(low.names.new("block")), c.Name(low.names.new("block_end"))

    def value(name: c.Name, order: list[int]) -> c.Expr:
        sizes = [given.extents[k] for k in order]
        return c.Load(name, linear_index([places[k] for k in order], sizes, lambda e: low.expr(e, scope)))

    everything = list(range(len(extents)))
    order = [k for k in everything if k != plan.axis] + [plan.axis]
    lines: list[c.Stmt] = [c.Assign(value(array, order), "=", value(whole, everything))]
    lines = [loop(places[-1].name, block, stop, lines)]
    for k in (plan.axis, *(k for k in reversed(everything[:-1]) if k != plan.axis)):
        lines = [loop(places[k].name, c.Int(0), extents[k], lines)]
    width = c.Int(max(tuning.CACHE_LINE // kind.bytes, 1))
    end = c.Call("spfgen_min", (c.Bin("+", block, width), extents[-1]))
    body = c.Block((c.Declare(f"const {INT}", stop.name, end), *lines))
    copied = c.For(INT, block.name, c.Int(0), c.Bin("<", block, extents[-1]), width.value, body, (openmp.EQUAL_PARTS,))
    low.array_names[key] = array.name
    return [c.Comment(f"a transposed copy: {plan.because}"), copied, *low.plan(plan.body, scope)]

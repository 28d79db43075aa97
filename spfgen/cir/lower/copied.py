"""Results with the pattern of an operand: copies of its index arrays, and values that are the fill value at first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spfgen.cir.lower.layout import field_name
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import any_of, folded, loop, operation
from spfgen.cir.tree.operators import literal
from spfgen.facts.formula import Bin, Expr, Num, Var
from spfgen.ir import fresh
from spfgen.lang.types import TYPES, ElementType
from spfgen.space.nodes import Program, Tensor

INT = "int64_t"
ZEROS = (c.Int(0), c.Float(0.0), c.Float(0.0, True), c.Name("false"))
GIVEN, MADE, MEMORY = c.Name("given"), c.Name("made"), c.Name("memory")


def of_sizes(expr: Expr, size: Callable[[str], c.Expr | None]) -> c.Expr | None:
    """An expression of sizes; None where it has one that is not known."""
    match expr:
        case Num(value):
            return c.Int(value)
        case Var(name):
            return size(name)
        case Bin(op, left, right):
            a, b = of_sizes(left, size), of_sizes(right, size)
            return None if a is None or b is None else operation(op, a, b)
    return None


def copying_function(program: Program, tensor: Tensor, structs: Mapping[str, c.Struct], name: str) -> c.Function:
    """`int NAME(given, made, memory)`: the arrays of a result whose struct is empty."""
    layout, owner = tensor.layout, tensor.shared_with or ""
    sizes = [field_name(n) for n in (*layout.parameters, *layout.sizes)]
    negative = any_of([c.Bin("<", c.Field(GIVEN, n), c.Int(0)) for n in sizes])
    lines: list[c.Stmt] = [c.If(negative, c.Return(c.Name("SPFGEN_ERROR_SHAPE")))]
    lines += [c.Assign(c.Field(MADE, n), "=", c.Field(GIVEN, n)) for n in sizes]
    kinds = {n: TYPES[k] for n, k in tensor.index_types} | {v.name: TYPES[tensor.value_type] for v in layout.values}
    counts: dict[str, c.Name] = {}
    for array in layout.arrays:
        counts[array] = c.Name(fresh(f"{array}_count", {n.name for n in counts.values()}))
        lines.append(c.Declare(f"const {INT}", counts[array].name, _elements(tensor, array)))
    indexes = [i.name for i in layout.indexes]
    missing = [c.Bin("&&", c.Un("!", c.Field(GIVEN, field_name(a))), c.Bin(">", counts[a], c.Int(0))) for a in indexes]
    lines.append(c.If(any_of(missing), c.Return(c.Name("SPFGEN_ERROR_NULL"))))
    fill = literal(layout.fill, TYPES[tensor.value_type])
    lines += [_allocated(a, n, kinds[a], a not in indexes and fill in ZEROS) for a, n in counts.items()]
    lines.append(c.If(any_of([c.Un("!", _held(a)) for a in counts]), c.Return(c.Name("SPFGEN_ERROR_MEMORY"))))
    for array, count in counts.items():
        if array in indexes:
            lines.append(_copied(array, count, kinds[array]))
        elif fill not in ZEROS:
            lines.append(loop("k", c.Int(0), count, [c.Assign(c.Load(_held(array), c.Name("k")), "=", fill)]))
    params = (
        c.Param(f"const {structs[owner].name} *", "given"),
        c.Param(f"{structs[tensor.name].name} *", "made"),
        c.Param("const spfgen_allocator *", "memory"),
    )
    body = c.Block((*lines, c.Return(c.Name("SPFGEN_OK"))))
    doc = f"{tensor.name} with the index arrays of {owner}."
    return c.Function("int", name, params, body, doc, static=True)


def _held(array: str) -> c.Expr:
    return c.Field(MADE, field_name(array))


def _elements(tensor: Tensor, array: str) -> c.Expr:
    parts = [of_sizes(e, lambda n: c.Field(GIVEN, field_name(n))) for e in tensor.layout.extents(array)]
    return folded("spfgen_times", [p for p in parts if p is not None]) if parts else c.Int(1)


def _allocated(array: str, count: c.Expr, kind: ElementType, cleared: bool) -> c.Stmt:
    function = "spfgen_result_zero" if cleared else "spfgen_result"
    call = c.Call(function, (MEMORY, count, c.Call("sizeof", (c.Name(kind.c),))))
    return c.Assign(_held(array), "=", c.Cast(f"{kind.c} *", call))


def _copied(array: str, count: c.Expr, kind: ElementType) -> c.Stmt:
    bytes_ = c.Bin("*", c.Cast("size_t", count), c.Call("sizeof", (c.Name(kind.c),)))
    target = c.Cast("void *", c.Cast("uintptr_t", _held(array)))
    copy = c.Do(c.Call("memcpy", (target, c.Field(GIVEN, field_name(array)), bytes_)))
    return c.If(c.Bin(">", count, c.Int(0)), c.Block((copy,)))

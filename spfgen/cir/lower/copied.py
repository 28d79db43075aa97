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
from spfgen.layout.nodes import Layout
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
    """`int NAME(given, made, memory)`: the arrays of a result whose struct has its extents and nothing else yet."""
    layout, owner = tensor.layout, program.tensor(tensor.shared_with or "")
    sizes = _theirs(tensor, owner)
    lines: list[c.Stmt] = [c.Assign(c.Field(MADE, n), "=", c.Field(GIVEN, theirs)) for n, theirs in sizes.items()]
    negative = [c.Bin("<", c.Field(MADE, n), c.Int(0)) for n in (*map(field_name, layout.parameters), *sizes)]
    lines.append(c.If(any_of(negative), c.Return(c.Name("SPFGEN_ERROR_SHAPE"))))
    kinds = {n: TYPES[k] for n, k in tensor.index_types} | {v.name: TYPES[tensor.value_type] for v in layout.values}
    counts: dict[str, c.Name] = {}
    for array in layout.arrays:
        counts[array] = c.Name(fresh(f"{array}_count", {n.name for n in counts.values()}))
        lines.append(c.Declare(f"const {INT}", counts[array].name, _elements(layout, array, MADE)))
    theirs = _arrays(tensor, owner)
    if tensor.extents != owner.extents:
        other = [c.Bin("!=", counts[a], _elements(owner.layout, t, GIVEN)) for a, t in theirs.items()]
        lines.append(c.If(any_of(other), c.Return(c.Name("SPFGEN_ERROR_SHAPE"))))
    missing = [
        c.Bin("&&", c.Un("!", c.Field(GIVEN, field_name(t))), c.Bin(">", counts[a], c.Int(0)))
        for a, t in theirs.items()
    ]
    lines.append(c.If(any_of(missing), c.Return(c.Name("SPFGEN_ERROR_NULL"))))
    fill = literal(layout.fill, TYPES[tensor.value_type])
    lines += [_allocated(a, n, kinds[a], a not in theirs and fill in ZEROS) for a, n in counts.items()]
    lines.append(c.If(any_of([c.Un("!", _held(a)) for a in counts]), c.Return(c.Name("SPFGEN_ERROR_MEMORY"))))
    for array, count in counts.items():
        if array in theirs:
            from_type = TYPES[dict(owner.index_types)[theirs[array]]]
            lines.append(_copied(array, field_name(theirs[array]), count, kinds[array], from_type))
        elif fill not in ZEROS:
            lines.append(loop("k", c.Int(0), count, [c.Assign(c.Load(_held(array), c.Name("k")), "=", fill)]))
    params = (
        c.Param(f"const {structs[owner.name].name} *", "given"),
        c.Param(f"{structs[tensor.name].name} *", "made"),
        c.Param("const spfgen_allocator *", "memory"),
    )
    body = c.Block((*lines, c.Return(c.Name("SPFGEN_OK"))))
    doc = f"{tensor.name} with the index arrays of {owner.name}."
    return c.Function("int", name, params, body, doc, static=True)


def _theirs(tensor: Tensor, owner: Tensor) -> dict[str, str]:
    """The fields of the owner that hold the sizes of the tensor, by its own fields."""
    held = {dim: field_name(n) for n, dim in zip(owner.layout.sizes, owner.sizes, strict=True)}
    return {field_name(n): held[dim] for n, dim in zip(tensor.layout.sizes, tensor.sizes, strict=True) if dim in held}


def _arrays(tensor: Tensor, owner: Tensor) -> dict[str, str]:
    """The index arrays of the owner that the tensor has, by its own ones."""
    held = {function: array for array, function in owner.arrays}
    return {array: held[function] for array, function in tensor.arrays if function in held}


def shared_check(program: Program, tensor: Tensor, structs: Mapping[str, c.Struct], name: str) -> c.Function:
    """`int NAME(given, made)`: whether a result has the index arrays that it shares with a tensor."""
    owner, wrong = program.tensor(tensor.shared_with or ""), c.Return(c.Name("SPFGEN_ERROR_PLACE"))
    sizes = [c.Bin("!=", c.Field(MADE, n), c.Field(GIVEN, theirs)) for n, theirs in _theirs(tensor, owner).items()]
    lines: list[c.Stmt] = [c.If(any_of(sizes), wrong)] if sizes else []
    for array, theirs in _arrays(tensor, owner).items():
        count, other = _elements(tensor.layout, array, MADE), _elements(owner.layout, theirs, GIVEN)
        one, two = (c.Load(c.Field(s, field_name(a)), c.Name("k")) for s, a in ((MADE, array), (GIVEN, theirs)))
        lines.append(c.If(c.Bin("!=", count, other), wrong))
        lines.append(loop("k", c.Int(0), count, [c.If(c.Bin("!=", one, two), wrong)]))
    params = (
        c.Param(f"const {structs[owner.name].name} *", "given"),
        c.Param(f"const {structs[tensor.name].name} *", "made"),
    )
    body = c.Block((*lines, c.Return(c.Name("SPFGEN_OK"))))
    return c.Function("int", name, params, body, f"Whether {tensor.name} has the arrays of {owner.name}.", static=True)


def _held(array: str) -> c.Expr:
    return c.Field(MADE, field_name(array))


def _elements(layout: Layout, array: str, held: c.Name) -> c.Expr:
    parts = [of_sizes(e, lambda n: c.Field(held, field_name(n))) for e in layout.extents(array)]
    return folded("spfgen_times", [p for p in parts if p is not None]) if parts else c.Int(1)


def _allocated(array: str, count: c.Expr, kind: ElementType, cleared: bool) -> c.Stmt:
    function = "spfgen_result_zero" if cleared else "spfgen_result"
    call = c.Call(function, (MEMORY, count, c.Call("sizeof", (c.Name(kind.c),))))
    return c.Assign(_held(array), "=", c.Cast(f"{kind.c} *", call))


def _copied(array: str, theirs: str, count: c.Expr, kind: ElementType, from_kind: ElementType) -> c.Stmt:
    if kind != from_kind:
        return _converted(array, theirs, count, kind, from_kind)
    bytes_ = c.Bin("*", c.Cast("size_t", count), c.Call("sizeof", (c.Name(kind.c),)))
    target = c.Cast("void *", c.Cast("uintptr_t", _held(array)))
    copy = c.Do(c.Call("memcpy", (target, c.Field(GIVEN, theirs), bytes_)))
    return c.If(c.Bin(">", count, c.Int(0)), c.Block((copy,)))


def _converted(array: str, theirs: str, count: c.Expr, kind: ElementType, from_kind: ElementType) -> c.Stmt:
    """Index by index, where the two have them in different types."""
    given, index = (
        c.Load(c.Field(GIVEN, theirs), c.Name("k")),
        c.Cast(kind.c, c.Load(c.Field(GIVEN, theirs), c.Name("k"))),
    )
    target = c.Load(c.Cast(f"{kind.c} *", c.Cast("uintptr_t", _held(array))), c.Name("k"))
    narrow = c.If(c.Bin("!=", index, given), c.Return(c.Name("SPFGEN_ERROR_INDEX")))
    checked = [narrow] if kind.bytes < from_kind.bytes else []
    return loop("k", c.Int(0), count, [*checked, c.Assign(target, "=", index)])

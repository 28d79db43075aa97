"""What an iteration space must satisfy (verified after it is made, in production too)."""

from __future__ import annotations

from collections.abc import Iterable

from spfgen.errors import InternalError
from spfgen.facts.formula import Call, Expr, Formula, calls, variables
from spfgen.ir import walk
from spfgen.space.local_tensors import OWN
from spfgen.space.nodes import Instance, Operand, Program, Read


def check_program(program: Program) -> None:
    """Raises InternalError when a name has no meaning or an instance is not closed."""
    names = [t.name for t in program.tensors]
    if len(set(names)) != len(names):
        raise InternalError(f"two tensors have one name: {names}")
    for group in program.groups:
        if group.target not in {t.name for t in program.every_tensor}:
            raise InternalError(f"{group.text}: {group.target} is no tensor")
        for instance in group.all:
            _check_instance(program, instance)


def _check_instance(program: Program, instance: Instance) -> None:
    dimensions = (
        *instance.sizes,
        *instance.indices,
        *instance.positions,
        *instance.quotients,
        *instance.calls,
        *instance.made,
    )
    if set(dimensions) != set(instance.domain.space.names) or len(set(dimensions)) != len(dimensions):
        raise InternalError(f"the dimensions {dimensions} are not those of the domain {instance.domain.space.names}")
    known = set(dimensions)
    for size in instance.sizes:
        if size not in program.sizes.readings:
            raise InternalError(f"nothing gives the size {size}")
    for call in instance.calls.values():
        _check_closed(call.arguments, known)
    for formula in (*instance.facts, *instance.guards, *(f for d in instance.domains.values() for f in d)):
        _check_closed([formula], known)
    if set(instance.domains) != set(instance.calls):
        raise InternalError("every call needs the condition that its arguments lie within the array")
    reads = [n.operand for n in walk(instance.value) if isinstance(n, Read)]
    for operand in (instance.target, *reads):
        _check_operand(program, operand, known)
    if instance.domain.is_empty():
        raise InternalError("an instance without points")


def _check_operand(program: Program, operand: Operand, known: set[str]) -> None:
    tensor = program.tensor(operand.tensor)
    own_arrays = [OWN] if tensor in program.temporaries else []
    if operand.array not in {*own_arrays, *(v.name for v in tensor.layout.values)}:
        raise InternalError(f"{operand.tensor} has no value array {operand.array}")
    if len(operand.place) != len(operand.extents):
        raise InternalError(f"{operand.label}: {len(operand.place)} subscripts for {len(operand.extents)} extents")
    _check_closed(operand.place, known)


def _check_closed(nodes: Iterable[Expr | Formula], known: set[str]) -> None:
    """Every name is a dimension, and calls have become dimensions."""
    for node in nodes:
        inner: list[Call] = calls(node)
        if inner:
            raise InternalError(f"a call was not encoded: {inner[0]}")
        unknown = variables(node) - known
        if unknown:
            raise InternalError(f"{sorted(unknown)} are no dimensions")

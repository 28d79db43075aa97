"""The types in which values are computed."""

from __future__ import annotations

from collections.abc import Mapping

from spfgen.ir import walk
from spfgen.lang.nodes import Apply, Constant
from spfgen.lang.ops import QUOTIENT
from spfgen.lang.types import ElementType, promoted
from spfgen.plan.nodes import Plan, stores_in
from spfgen.space.nodes import Read, Value

PRODUCTS = ("multiply", "divide", "negative")


def value_type(value: Value, target_type: ElementType, types: Mapping[str, str]) -> ElementType:
    """Values are combined in the widest of their types and that of the target."""
    kinds = {target_type.name}
    for node in walk(value):
        match node:
            case Read(operand):
                kinds.add(types[operand.tensor])
            case Constant(number) if isinstance(number, float):
                kinds |= set() if target_type.kind in "fc" else {"float64"}
            case Apply() if node.operator.result == QUOTIENT:
                kinds |= set() if target_type.kind in "fc" else {"float64"}
    return promoted(sorted(kinds))


def made_in(value: Apply, kind: ElementType, types: Mapping[str, str]) -> ElementType:
    """The type in which an operation is made where the whole has this one: a product of float32 is one in float64, too,
    as in numpy."""
    reads = [n for n in walk(value) if isinstance(n, Read)]
    if value.op not in PRODUCTS or not reads or kind.kind not in "fc":
        return kind
    promoted_type = promoted(sorted({types[n.operand.tensor] for n in reads}))
    return promoted_type if promoted_type.kind == kind.kind and promoted_type.bytes < kind.bytes else kind


def sum_type(body: Plan, target_type: ElementType, types: Mapping[str, str]) -> ElementType:
    """The type of a sum of what the body adds to a target of that type."""
    values = (n.value for n in stores_in(body))
    return promoted([target_type.name, *(value_type(v, target_type, types).name for v in values)])

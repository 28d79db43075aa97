"""How many operations a call does: the kernel's own loops, counting instead of computing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from spfgen.ir import rewrite, walk
from spfgen.lang.nodes import Apply, Constant
from spfgen.layout.nodes import SCALAR
from spfgen.plan.nodes import (
    Accumulate,
    Append,
    Block,
    Clear,
    Find,
    InPlace,
    Plan,
    Products,
    Registers,
    RowWorkspace,
    Scan,
    Store,
    Variable,
    Versions,
)
from spfgen.run.calls.call import Bound, function_name
from spfgen.run.tensor import Tensor
from spfgen.space.nodes import Operand, Value
from spfgen.space.nodes import Tensor as Declared

if TYPE_CHECKING:
    from spfgen.kernel import Kernel

COUNTER = "operations_counted"


def count_operations(kernel: Kernel, bound: Bound) -> int | None:
    """Additions, multiplications and divisions of values in one call (an accumulation counts as an addition). None of
    a kernel with statements whose course depends on values, such as `if` and `while`."""
    from spfgen.pipeline import make_plans, print_kernel
    from spfgen.run.compile import build, load

    program = bound.program
    counted_plans = make_plans(program)
    if not all(isinstance(p, Products) for p in counted_plans):
        return None
    plans = tuple(map(_counting, counted_plans))
    counter = Declared(COUNTER, SCALAR, "int64", (), (), (), (), False, True)
    counting = replace(program, tensors=(*program.tensors, counter))
    library = load(build(print_kernel(counting, plans).whole, optimise=False))
    total = np.zeros((), dtype=np.int64)
    tensors = {**bound.tensors, **bound.pending, COUNTER: Tensor(SCALAR, {}, {"val": total})}
    function = getattr(library, function_name(program))
    Bound(counting, function, tensors, bound.sizes, 1, assemblies=bound.assemblies)()
    return int(total)


def _counting(plan: Plan) -> Plan:
    target = Operand(COUNTER, COUNTER, "val", (), (), (), (), False)

    def rule(node: object) -> Plan | None:
        match node:
            case Store(_, value, op):
                return Store(target, Constant(_cost(value) + (op == "+=")), "+=")
            case Append(value=value):
                return Store(target, Constant(_cost(value) + 1), "+=")
            case Accumulate(body=body, storage=Variable() | Registers()) | RowWorkspace(body=body) | InPlace(body=body):
                return body
            case Clear(body=body):
                return body or Block(())
            case Versions() if not node.by_cost:
                return node.versions[-1].body
            case Scan():
                return replace(node, parallel=False, partial="")
            case Find():
                return replace(node, parallel=False)
        return None

    result = rewrite(rule, plan)
    assert isinstance(result, Plan)
    return result


def _cost(value: Value) -> int:
    return sum(isinstance(n, Apply) for n in walk(value))

"""The list of passes that rewrite C."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.cir.rewrite.passes import PASSES, CPass, KernelFacts
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.names import Names
from spfgen.ir import walk
from spfgen.pipeline import C_PASSES, PLAN_PASSES
from spfgen.run.calls.call import Bound
from spfgen.run.compile import build, load

STATEMENT = "Y[i, k] = A[i, j]*X[j, k]"


def test_names_are_those_of_one_pass() -> None:
    names = (*PLAN_PASSES, *C_PASSES)
    assert len({*names}) == len(names)


@dataclass(frozen=True, slots=True)
class Unknown(c.Stmt):
    """A statement that no pass has heard of."""

    body: c.Block


@pytest.mark.parametrize("step", PASSES, ids=lambda p: p.name)
def test_what_a_pass_does_not_know_it_leaves_alone(step: CPass) -> None:
    inner = c.Block((c.Return(c.Int(0)),))
    function = c.Function("int", "kernel", (), c.Block((Unknown(inner),)))
    program = spfgen.compile(STATEMENT, A="csr", X="dense", Y="dense").generated.program
    ((after,),) = step.rewrite([[function]], KernelFacts(Names(program, ())))
    assert [n.body for n in walk(after) if isinstance(n, Unknown)] == [inner]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["register tile", *C_PASSES])
def test_the_result_is_the_same_after_each_pass(name: str) -> None:
    """`--stop-after` takes the names of both lists."""
    a = csr_array(np.arange(12.0).reshape(3, 4) % 5)
    x = np.arange(4.0 * 37).reshape(4, 37) % 7
    kernel = spfgen.compile(STATEMENT, A="csr", X="dense", Y="dense")
    generated = kernel.stopped_after(name)
    function = getattr(load(build(generated.whole)), generated.program.name)
    y = spfgen.pack(np.zeros((3, 37)), "dense")
    tensors = {"A": spfgen.pack(a, "csr"), "X": spfgen.pack(x, "dense"), "Y": y}
    Bound(generated.program, function, tensors, {}, 2)()
    np.testing.assert_array_equal(y.to_numpy(), a @ x)

"""The verifier of iteration spaces fires."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from spfgen.errors import InternalError
from spfgen.facts.formula import Call, Compare, Num, Var
from spfgen.lang.spec import parse_tree
from spfgen.pipeline import resolve
from spfgen.sets.affine import Affine
from spfgen.sets.named import Constraint
from spfgen.space.check import check_program
from spfgen.space.from_lang import join
from spfgen.space.nodes import Group, Instance, Program, Read

SPEC = "kernel k { tensor A : bcsr  tensor x, y : dense  y[i] += A[i, j]*x[j] }"


def program() -> Program:
    tree = parse_tree(SPEC)
    kernel = tree.kernels["k"]
    return join(kernel, resolve(kernel, tree))


def changed(change: Callable[[Instance], Instance]) -> Program:
    whole = program()
    return with_group(whole, lambda group: replace(group, instances=(change(group.instances[0]),)))


def with_group(whole: Program, change: Callable[[Group], Group]) -> Program:
    sums = {e: asked._replace(group=change(asked.group)) for e, asked in whole.steps.sums.items()}
    return replace(whole, steps=replace(whole.steps, sums=sums))


CHANGES: dict[str, Callable[[Instance], Instance]] = {
    "an index is forgotten": lambda i: replace(i, indices=i.indices[1:]),
    "a position stands twice": lambda i: replace(i, positions=(*i.positions, i.positions[0])),
    "a fact speaks of a stranger": lambda i: replace(i, facts=(Compare("=", Var("stranger"), Num(0)),)),
    "a guard calls a function": lambda i: replace(i, guards=(Compare("=", Call("f", (Num(0),)), Num(0)),)),
    "a call without its domain": lambda i: replace(i, domains={}),
    "a place that is unknown": lambda i: replace(i, target=replace(i.target, place=(Var("stranger"),))),
    "a place with too many subscripts": lambda i: replace(i, target=replace(i.target, place=(Num(0), Num(0)))),
    "a value array that is not there": lambda i: replace(i, value=Read(replace(i.reads[0], array="nothing"))),
    "a size that nothing gives": lambda i: replace(i, sizes=("stranger", *i.sizes[1:])),
    "no points": lambda i: replace(i, domain=i.domain.with_constraints([Constraint(False, Affine((), -1))])),
}


def test_the_program_itself_passes() -> None:
    check_program(program())


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_noticed(name: str) -> None:
    with pytest.raises(InternalError):
        check_program(changed(CHANGES[name]))


def test_two_tensors_of_one_name() -> None:
    whole = program()
    with pytest.raises(InternalError, match="one name"):
        check_program(replace(whole, tensors=(*whole.tensors, whole.tensors[0])))


def test_a_target_that_is_no_tensor() -> None:
    whole = program()
    with pytest.raises(InternalError, match="no tensor"):
        check_program(with_group(whole, lambda group: replace(group, target="z")))

"""How positions are found reaches the program: by dimension, for each access of the tensor."""

from __future__ import annotations

import pytest

import spfgen
from spfgen.errors import SpecError, SpecErrors, UsageError
from spfgen.lang.spec import parse_tree
from spfgen.lang.types import FINDS
from spfgen.pipeline import resolve
from spfgen.plan.context import context_of
from spfgen.plan.steps.schedule_clauses import scheduled_nests
from spfgen.space.from_lang import join
from spfgen.space.nodes import Program


def program(text: str) -> Program:
    tree = parse_tree(f"kernel k {{ tensor A, A_2 : csr  tensor B : coo  tensor x, y, z : dense  {text} }}")
    kernel = tree.kernels["k"]
    return join(kernel, resolve(kernel, tree))


def finds(text: str) -> list[tuple[str, str]]:
    """The positions whose algorithm the schedule says, by the names that the nests of the statements have for them."""
    whole = program(text)
    assert all(f.span is not None for f in whole.schedule.finds)
    contexts = [scheduled_nests(g.all, context_of(whole), whole.steps.called) for g in whole.groups]
    return [*dict.fromkeys((f.dim, f.algorithm) for c in contexts for f in c.forced.values())]


USES = "z[i] = A_2[i, i]*x[i]  x[i] = A_2[i, i]*B[i, i]*y[i] "


@pytest.mark.parametrize("algorithm", FINDS)
def test_every_algorithm(algorithm: str) -> None:
    found = finds(f"y[i] = A[i, j]*B[i, j]*x[j]  {USES} schedule {{ order i  find B.p : {algorithm} }}")
    assert found == [("B.p", algorithm)]


def test_all_accesses_of_the_tensor_in_all_statements() -> None:
    found = finds(f"y[i] = A[i, j]*A[j, k]*A[k, i] + A[i, i]  {USES} schedule {{ find A.pj : hash  find B.p : loop }}")
    assert found == [("A.pj", "hash"), ("A_3.pj", "hash"), ("A_4.pj", "hash"), ("B.p", "loop")]


def test_an_access_is_never_taken_for_another_tensor() -> None:
    """`A_2` is a tensor: the second access of `A` is told apart by another number."""
    whole = program(f"y[i] = A[i, j]*A[j, k]*A_2[k, i]  {USES} schedule {{ find A_2.pj : hash }}")
    assert [f.dim for f in whole.schedule.finds] == ["A_2.pj"]
    owners = {p: o.tensor for i in whole.groups[0].instances for o in i.reads for p in o.positions}
    assert {p: t for p, t in owners.items() if p.endswith(".pj")} == {"A.pj": "A", "A_3.pj": "A", "A_2.pj": "A_2"}


def test_a_tensor_that_is_only_written() -> None:
    found = finds(f"A[i, j] = x[i]*y[j]  {USES} schedule {{ find A.pj : search  find z.p_{{1}} : loop }}")
    assert found == [("A.pj", "search"), ("z.p_1", "loop")]


def test_without_a_schedule_nothing_is_forced() -> None:
    assert finds(f"y[i] = A[i, j]*x[j]  {USES}") == []


def test_all_mistakes_are_reported() -> None:
    with pytest.raises(SpecErrors) as caught:
        program(f"y[i] = A[i, j]*x[j]  {USES} schedule {{ find D.p : hsah  find A.p : hash  find i : magic }}")
    named = [e.message.rpartition("but ")[2].split("`")[1] for e in caught.value.errors]
    assert named == ["D", "hsah", "A.p", "i", "magic"]


# --- without a file, and in place of what the file says ------------------------------------------------


def of(kernel: spfgen.Kernel) -> dict[str, str]:
    return {f.dim: f.algorithm for f in kernel.generated.program.schedule.finds}


def test_finds_of_compile() -> None:
    layouts = {"A": "csr", "B": "csr", "C": "dense"}
    kernel = spfgen.compile("C[i, j] = A[i, j]*B[i, j]", **layouts, finds={"B.pj": "loop"})
    assert of(kernel) == {"B.pj": "loop"}
    with pytest.raises(SpecError, match="`B` is a tensor"):
        spfgen.compile("C[i, j] = A[i, j]*B[i, j]", **layouts, finds={"B": "loop"})


def test_finds_take_the_place_of_what_the_schedule_says() -> None:
    spec = spfgen.parse(
        """kernel k { tensor A, B, D : csr  tensor C : dense  C[i, j] = A[i, j]*B[i, j]*D[i, j]
            schedule { find B.pj : search  find D.pj : loop } }"""
    )
    assert of(spec.kernels["k"].compile()) == {"B.pj": "search", "D.pj": "loop"}
    assert of(spec.kernels["k"].compile(finds={"B.pj": "loop"})) == {"D.pj": "loop", "B.pj": "loop"}


def test_clauses_of_compile() -> None:
    layouts = {"A": "csr", "x": "dense", "y": "dense"}
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", **layouts, schedule="tile i by 4 as it; serial it")
    found = kernel.generated.program.schedule
    assert (found.order, [(m.word, m.dim, m.number) for m in found.marks]) == (
        ("it",),
        [("tile", "it", 4), ("serial", "it", 0)],
    )
    both = spfgen.compile("y[i] = A[i, j]*x[j]", **layouts, schedule="order j", order=["i"])
    assert both.generated.program.schedule.order == ("i",)
    with pytest.raises(UsageError, match="clauses of a schedule as a text, but this is a list"):
        spfgen.compile("y[i] = A[i, j]*x[j]", **layouts, schedule=["tile i by 4"])  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="did you mean") as caught:
        spfgen.compile("y[i] = A[i, j]*x[j]", **layouts, schedule="tlie i by 4")
    assert caught.value.span is not None


def test_clauses_take_the_place_of_the_schedule() -> None:
    spec = spfgen.parse(
        """kernel k { tensor A : csr  tensor x, y : dense  y[i] = A[i, j]*x[j]
            schedule { order j, i  find A.pj : search } }"""
    )
    assert spec.kernels["k"].compile().generated.program.schedule.order == ("j", "i")
    found = spec.kernels["k"].compile(schedule="tile i by 4").generated.program.schedule
    assert (found.order, found.finds) == (("i_tile",), ())


def test_names_of_loops() -> None:
    """Those that a clause makes may be used before it; tiles of tiles stand outside of them."""
    layouts = {"A": "csr", "x": "dense", "y": "dense"}
    text = "serial big; tile i by 8 as it, it by 4 as big"
    found = spfgen.compile("y[i] = A[i, j]*x[j]", **layouts, schedule=text)
    assert found.generated.program.schedule.order == ("big", "it")
    with pytest.raises(SpecError, match="expected a new name for a loop, but `j` is defined already"):
        spfgen.compile("y[i] = A[i, j]*x[j]", **layouts, schedule="parallel i; fuse i, A.pj as j")

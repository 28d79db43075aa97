"""What iterations of a loop share: nothing, places that they add to, or values that one writes and another reads."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import spfgen
from spfgen.errors import SpecError, Unsupported
from spfgen.facts.prove import recorded
from spfgen.lang.nodes import Kernel, TensorDecl
from spfgen.lang.parse import parse_layout_use, parse_statements
from spfgen.lang.spec import SpecTree, parse_tree
from spfgen.lang.uses import read_first
from spfgen.pipeline import resolve
from spfgen.plan.analyse import recurrence
from spfgen.plan.analyse.depend import DEPENDENCE, INDEPENDENT, REDUCTION, Meeting, in_words, meetings, relation
from spfgen.plan.analyse.order import scan_order
from spfgen.plan.analyse.scan import Step, scan_steps
from spfgen.plan.context import Context
from spfgen.plan.transform.legal import check_order
from spfgen.sets.named import Space
from spfgen.space.extents import Extents
from spfgen.space.instances import make_instances
from spfgen.space.names import accesses, with_scalars
from spfgen.space.nodes import Instance
from spfgen.space.tensors import make_tensors

PLAIN = parse_tree("""
layout list(n, m) {
    doc "a coordinate list in any order"
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index row[nnz] { range 0 <= row(p) < n }
    index col[nnz] { range 0 <= col(p) < m }
    value val[nnz] at [p]
}
layout rows(n, m) {
    doc "some rows, each with one entry"
    size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index row[nnz] { range 0 <= row(p) < n  property injective }
    index col[nnz] { range 0 <= col(p) < m }
    value val[nnz] at [p]
}
""")


def instance(text: str, layouts: Mapping[str, str], tree: SpecTree = PLAIN) -> Instance:
    """The one instance of a statement, of which nothing else is asked: it may read its own target."""
    (statement,) = parse_statements(text)
    declared = tuple(TensorDecl(n, parse_layout_use(use)) for n, use in layouts.items())
    kernel = Kernel("k", declared, (), (statement,))
    found = resolve(kernel, tree)
    declarations = with_scalars(kernel)
    inputs, outputs = read_first(kernel.statements, in_loops=False), {s.target.tensor for s in kernel.statements}
    extents = Extents(kernel, declarations, found, [(statement.target, *accesses(statement.value))], outputs)
    tensors = {t.name: t for t in make_tensors(kernel, declarations, found, extents, inputs, outputs)}
    (made,) = make_instances(statement, statement.value, tensors, extents.ranges(0))
    return made


def steps_of(made: Instance, order: tuple[str, ...] = ()) -> list[Step]:
    dims = scan_order(made, order)
    return scan_steps(made, made.domain.reordered(Space((*made.sizes, *dims))), dims)


def all_meetings(made: Instance, order: tuple[str, ...] = ()) -> dict[str, Meeting]:
    steps = steps_of(made, order)
    return {s.dim: meetings(made, steps, s.dim) for s in steps if s.kind == "scan"}


DENSE = {"x": "dense", "y": "dense"}


@pytest.mark.parametrize(
    ("layout", "order", "kinds"),
    [
        ("csr", (), {"A.pi": INDEPENDENT, "A.pj": REDUCTION}),
        ("csr", ("j", "i"), {"j": REDUCTION, "i": INDEPENDENT, "A.pj": INDEPENDENT}),  # found: once
        ("dcsr", (), {"A.pi": INDEPENDENT, "A.pj": REDUCTION}),  # rowidx rises strictly
        ("coo", (), {"A.p": REDUCTION}),
        ("list", (), {"A.p": REDUCTION}),
        ("rows", (), {"A.p": INDEPENDENT}),  # no row twice
        ("csc", (), {"A.pj": REDUCTION, "A.pi": INDEPENDENT}),  # no row twice in a column
    ],
)
def test_matrix_times_vector(layout: str, order: tuple[str, ...], kinds: Mapping[str, str]) -> None:
    made = instance("y[i] += A[i, j]*x[j]", {"A": layout, **DENSE})
    assert {loop: m.kind for loop, m in all_meetings(made, order).items()} == kinds


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["csr", "coo", "csc", "bcsr(R=2, C=2)", "dense"])
def test_a_triangular_solve_in_place(layout: str) -> None:
    """The rows need each other: no loop over them may be parallel."""
    made = instance("x[i] += -A[i, j]*x[j] where j < i", {"A": layout, "x": "dense"})
    found = all_meetings(made)
    first = next(iter(found.values()))
    assert first.kind == DEPENDENCE
    assert "writes x[" in in_words(first)


def test_examples_are_true() -> None:
    """What is said to meet does: different iterations, one place."""
    made = instance("y[i] += A[i, j]*x[j]", {"A": "list", **DENSE})
    meeting = all_meetings(made)["A.p"]
    values = dict(meeting.example)
    assert 0 <= values["A.p"] < values["A.p'"] < values["A.nnz"]
    assert values["A.row(A.p)"] == values["A.row(A.p')"]
    first, second, row = values["A.p"], values["A.p'"], values["A.row(A.p)"]
    assert in_words(meeting) == f"iterations A.p = {first} and A.p = {second} both add to y[{row}]"


def test_relations() -> None:
    made = instance("y[i] += A[i, j]*x[j]", {"A": "list", **DENSE})
    steps = steps_of(made)
    text = relation(steps, meetings(made, steps, "A.p"))
    assert text == "{ [A.p] -> [A.p'] : A.p < A.p' and A.row(A.p) = A.row(A.p') }"
    solve = instance("x[i] += -A[i, j]*x[j] where j < i", {"A": "dense", "x": "dense"})
    steps = steps_of(solve, ("i", "j"))
    assert relation(steps, meetings(solve, steps, "i")) == "{ [i] -> [i'] : i < i' and i = j' }"


@pytest.mark.parametrize(
    ("condition", "order", "legal"),
    [
        (" where j < i", ("i", "j"), True),
        (" where j < i", ("j", "i"), True),  # column by column, each finished when it is used
        (" where j > i", ("i", "j"), False),  # this one runs downwards
        (" where j > i", ("j", "i"), False),
        (" where j = i - 1", ("i", "j"), True),
        ("", ("i", "j"), False),
    ],
)
def test_the_order_of_a_recurrence(condition: str, order: tuple[str, ...], legal: bool) -> None:
    made = instance(f"x[i] += -A[i, j]*x[j]{condition}", {"A": "dense", "x": "dense"})
    steps = steps_of(made, order)
    if legal:
        check_order(made, steps, Context())
    else:
        with pytest.raises(SpecError, match="elements are written before they are read") as caught:
            check_order(made, steps, Context())
        assert "the dependence: {" in caught.value.notes[0]


def test_explain_has_them() -> None:
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A="csr", **DENSE, schedule="serial i")
    (statement,) = kernel.explain(json=True)["statements"]
    rows, positions = statement["dependences"]
    assert (rows["loop"], rows["kind"], rows["relation"]) == ("i", INDEPENDENT, None)
    assert rows["runs"] == "serial, as the schedule says"
    assert (positions["loop"], positions["kind"]) == ("A.pj", REDUCTION)
    assert positions["relation"] == "{ [i, A.pj] -> [i', A.pj'] : i' = i and A.pj < A.pj' }"
    assert "both add to y[" in positions["example"]


def test_a_recurrence_over_many_loops(monkeypatch) -> None:
    """Each loop is looked at once for each place in the order, also where there is no order: not all 9! of them."""
    asked = []
    apart = recurrence.Need.apart
    monkeypatch.setattr(recurrence.Need, "apart", lambda *a: asked.append(a) or apart(*a))
    rest = ", ".join("cdefghi")
    forward = f"x[a, b, {rest}] = x[a + 1, b, {rest}] + x[a + 1, b - 1, {rest}]"
    explained = spfgen.compile(forward).explain()
    assert "scan a in" in explained
    assert len(asked) < 200
    with pytest.raises(Unsupported, match="in every order of the loops"):
        spfgen.compile(forward + f" + x[a - 1, b + 1, {rest}]")
    assert len(asked) < 500


def test_explain_of_a_recurrence() -> None:
    """The sum reads what the statement writes: the loop over the rows carries that, whatever the sum itself writes."""
    text = "x[i] = (b[i] - sum(j < i: L[i, j]*x[j]))/L[i, i]"
    (statement,) = spfgen.compile(text, L="csr", x="dense", b="dense").explain(json=True)["statements"]
    rows, positions = statement["dependences"]
    assert (rows["loop"], rows["kind"]) == ("i", DEPENDENCE)
    assert rows["relation"] == "{ [i] -> [i'] : i < i' and i = L.colidx(L.pj') }"
    assert rows["runs"] != "parallel"
    assert (positions["loop"], positions["kind"]) == ("L.pj", REDUCTION)


def test_a_place_is_asked_about_alone() -> None:
    """The place in a packed triangle is a product: with all that the loops around know, Z3 found no end."""
    with recorded() as answers:
        spfgen.compile("D[i, j] += A[i, k]*B[k, j] where j <= i", A="csr", B="antisym_csr", D="lower")
    asked = [a for a in answers if a.about.startswith("the place in D.val")]
    assert asked
    assert all(a.proved and "A.rowptr" not in a.text and "B.rowptr" not in a.text for a in asked)

"""The plans of shipped layouts' kernels and of random programs, carried out by the interpreter and compared with the
reference: nothing is compiled. A difference is reported with the first pass after which it is there.

`-m fuzz` draws thousands, other ones every time.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from spfgen.facts.formula import ONE
from spfgen.ir import rewrite, walk
from spfgen.pipeline import make_plans
from spfgen.plan import nodes
from spfgen.plan.nodes import PLANS, Nested, Plan, Scan
from spfgen.plan.transform import passes
from tests.differential.test_interpreter_of_steps import ALL_STATEMENTS
from tests.fuzz.common import common_cases
from tests.fuzz.interpreted import difference, joined, pass_names, problem
from tests.fuzz.programs import Case, Data, cases, known_layouts
from tests.fuzz.statements import STATEMENTS, layouts_of, reading, reading_cases

FOCI = ("dense", "outputs", "common", "unseen", "order", "finds", "schedules", "reads")
COMMON = {"deadline": None, "suppress_health_check": [*HealthCheck]}
EXTENTS = (("n0", 5), ("n1", 6), ("n2", 4))


def drawn(focus: str) -> st.SearchStrategy[Case]:
    own = {"common": common_cases, "reads": reading_cases}.get(focus)
    return cases(focus) if own is None else own()


def programs(focus: str, count: int, phases: tuple[Phase, ...], derandomize: bool) -> None:
    """Programs that are refused test nothing: there are few."""
    tally = {"ran": 0, "refused": 0}

    @settings(max_examples=count, database=None, phases=phases, derandomize=derandomize, **COMMON)
    @given(drawn(focus))
    def some(case: Case) -> None:
        refused, wrong = problem(case)
        tally["refused" if refused else "ran"] += 1
        assert not wrong, wrong

    some()
    assert tally["ran"] > tally["refused"], f"most programs are refused: {tally}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("focus", FOCI)
def test_random_programs(focus: str) -> None:
    """The same ones each time."""
    programs(focus, 5, (Phase.generate,), derandomize=True)


@pytest.mark.fuzz
@pytest.mark.parametrize("focus", FOCI)
def test_many_random_programs(focus: str) -> None:
    """SPFGEN_FUZZ says how many, in tens."""
    programs(focus, 10 * int(os.environ.get("SPFGEN_FUZZ", "300")), (Phase.generate, Phase.shrink), derandomize=False)


@pytest.mark.fuzz
@pytest.mark.parametrize("layout", layouts_of(2))
def test_every_layout_read_twice(layout: str) -> None:
    """Each of the programs that read one tensor several times."""
    wrong = []
    for statement in (s for s in STATEMENTS if "A[" in s):
        data = [Data((("n0", n),), (), density, seed) for n, density, seed in ((1, 1.0, 1), (3, 1.0, 2), (4, 0.4, 3))]
        layouts = {"A": layout, "B": "csr", "v": "sv"}
        wrong.append(problem(reading(statement, layouts, data))[1])
    assert not any(wrong), "\n".join(w for w in wrong if w)


# --- layouts that come with spfgen ------------------------------------------------------------------


def case(statement: str, layouts: dict[str, str], dims: dict[str, str], seeds: int = 2) -> Case:
    """The statement on small data, of tensors with these extents."""
    declared = "\n".join(f"    tensor {n} : {layout}" for n, layout in layouts.items())
    classes = {"i": "n0", "j": "n1", "k": "n2"}
    data = [Data(EXTENTS, (), density, seed) for seed, density in enumerate((0.4, 1.0, 0.2, 0.4, 0.6)[:seeds])]
    of = tuple((n, tuple(classes[d] for d in own)) for n, own in dims.items())
    return Case(f"kernel NAME {{\n{declared}\n    {statement}\n}}", of, (), tuple(data))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", known_layouts(2))
def test_shipped_layouts(layout: str) -> None:
    for statement, dims in (
        ("y[i] = A[i, j]*x[j]", {"A": "ij", "x": "j", "y": "i"}),
        ("Y[i, k] = A[i, j]*X[j, k]", {"A": "ij", "X": "jk", "Y": "ik"}),
    ):
        layouts = {n: layout if n == "A" else "dense" for n in dims}
        refused, wrong = problem(case(statement, layouts, dims))
        assert not refused
        assert not wrong, wrong


# --- what random testing found ------------------------------------------------------------------------

EMPTY = Data((("n0", 0), ("n1", 3), ("n2", 4)), (), 1.0, 1)
FOUND = {
    "an index that is two things in one loop": case(
        "y[i] = v[i + 1]*sum(j: v[j]*x[j])",
        {"v": "vector_and_its_reverse", "x": "dense", "y": "dense"},
        {"v": "i", "x": "i", "y": "i"},
    ),
    "an index array without elements": case(
        "y[j] += C[i, i]*D[i, i + 1] where 0 <= i < j or i >= 4",
        {"C": "one_in_four_rows", "D": "one_in_four_rows", "y": "dense"},
        {"C": "ii", "D": "ik", "y": "j"},
    ),
    "a quotient of what may be -1": case(
        "s += A[i, j]*B[i, j]", {"A": "even_columns", "B": "band"}, {"A": "ij", "B": "ij"}
    ),
    "a table above loops that never run": case(
        "Y[i, j] = A[j, k]*b[i]*C[i, i]",
        {"A": "symmetric", "b": "coo", "C": "jds", "Y": "dense"},
        {"A": "jk", "b": "i", "C": "ii", "Y": "ij"},
        seeds=5,
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FOUND)
def test_what_was_wrong_once(name: str) -> None:
    found = replace(FOUND[name], data=(EMPTY, *FOUND[name].data))
    assert problem(found) == ("", "")


# --- after each pass ----------------------------------------------------------------------------------

STEPS = {
    "rows": case("y[i] = A[i, j]*x[j]", {"A": "csr", "x": "dense", "y": "dense"}, {"A": "ij", "x": "j", "y": "i"}),
    "blocks": case(
        "Y[i, k] = A[i, j]*X[j, k]",
        {"A": "bcsr(R=2, C=3)", "X": "csr", "Y": "dense"},
        {"A": "ij", "X": "jk", "Y": "ik"},
    ),
    "places": case("y[i] = A[i, j]*x[j]", {"A": "coo", "x": "sv", "y": "dense"}, {"A": "ij", "x": "j", "y": "i"}),
    "value": case(
        "y[i] = u[i]/(1 + sum(j: A[i, j]*A[i, j]*x[j]))",
        {"A": "csr", "x": "dense", "u": "sv", "y": "dense"},
        {"A": "ij", "x": "j", "u": "i", "y": "i"},
    ),
}
"""Kernels that most passes have something to do with."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", STEPS)
def test_after_each_pass(name: str) -> None:
    found = joined(replace(STEPS[name], data=STEPS[name].data[:1]))
    plans = []
    for after in pass_names():
        plans.append(make_plans(found.program, stop_after=after))
        if plans[-2:-1] != plans[-1:]:
            assert not (wrong := difference(found, plans[-1])), f"after `{after}`: {wrong}"
    assert plans[-1] == make_plans(found.program)
    assert len({*map(repr, plans)}) > 2, "the passes have nothing to do"


@pytest.mark.fuzz
@pytest.mark.parametrize("focus", FOCI)
def test_random_programs_after_each_pass(focus: str) -> None:
    @settings(
        max_examples=int(os.environ.get("SPFGEN_FUZZ", "300")) // 3, database=None, phases=(Phase.generate,), **COMMON
    )
    @given(drawn(focus))
    def some(case: Case) -> None:
        refused, wrong = problem(case)
        assert not wrong, wrong
        if not refused:
            found = joined(case)
            for after in pass_names():
                wrong = difference(found, make_plans(found.program, stop_after=after))
                assert not wrong, f"after `{after}`: {wrong}\n\n{case.text()}"

    some()


# --- each node ------------------------------------------------------------------------------------------

SQUARE = {"A": "ii", "b": "i", "x": "i"}
VECTORS = {"A": "ij", "x": "j", "y": "i"}
MATRICES = {"A": "ij", "X": "jk", "Y": "ik"}
SAMPLED = {"A": "ij", "C": "ij", "U": "ik", "X": "kj"}
PRODUCT, MATRIX = "y[i] = A[i, j]*x[j]", "Y[i, k] = A[i, j]*X[j, k]"
NODES = {
    "levels": case("x[i] = b[i] - sum(j < i: A[i, j]*x[j])", {"A": "csr", "b": "dense", "x": "dense"}, SQUARE),
    "state": case(f"{PRODUCT} schedule {{ find x.p : gallop }}", {"A": "csr", "x": "sv", "y": "dense"}, VECTORS),
    "segment": case(
        "Y[i, j] = A[i, j]*B[i, j] schedule { order i, j }",
        {"A": "dense", "B": "coo", "Y": "dense"},
        {"A": "ij", "B": "ij", "Y": "ij"},
    ),
    "bound": case(f"{PRODUCT} schedule {{ tile j by 3 }}", {"A": "csr", "x": "dense", "y": "dense"}, VECTORS),
    "sums": case(PRODUCT, {"A": "bcsr", "x": "dense", "y": "dense"}, VECTORS),
    "prefetch": case(MATRIX, {"A": "csr", "X": "csr", "Y": "dense"}, MATRICES),
    "tile": case(MATRIX, {"A": "csr", "X": "dense", "Y": "dense"}, MATRICES),
    "zeros": case(MATRIX, {"A": "bcsr", "X": "csr", "Y": "dense"}, MATRICES),
    "flattened": case(PRODUCT, {"A": "csc", "x": "dense", "y": "dense"}, VECTORS),
    "full segments": case(PRODUCT, {"A": "ell", "x": "dense", "y": "dense"}, VECTORS),
    "flattened searches": case(PRODUCT, {"A": "csr", "x": "sv", "y": "dense"}, VECTORS),
    "table": case(PRODUCT, {"A": "coo", "x": "sv", "y": "dense"}, VECTORS),
    "value": STEPS["value"],
    "transpose": replace(
        case(
            "C[i, j] = A[i, j]*U[i, k]*X[k, j]",
            {"A": "csr", "C": "csr shares A", "U": "dense", "X": "dense"},
            SAMPLED,
        ),
        shares=(("C", "A"),),
    ),
}
"""Kernels whose plans have all kinds of nodes."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", NODES)
def test_plans_of_all_kinds(name: str) -> None:
    refused, wrong = problem(NODES[name])
    assert not refused
    assert not wrong, wrong


def test_all_kinds_of_nodes_are_carried_out() -> None:
    found = [p for kernel in NODES.values() for p in make_plans(joined(kernel).program)]
    kinds = {type(n) for p in found for n in walk(p, PLANS)}
    known = {k for k in vars(nodes).values() if isinstance(k, type) and issubclass(k, Plan)}
    assert {k.__name__ for k in known - kinds - {Plan, Nested}} == {
        "Finish",
        "InPlace",  # put around the plan of a statement at last: tests/differential/test_in_place.py
        *(k.__name__ for k in {*ALL_STATEMENTS} - {nodes.Block, nodes.Define, nodes.Store}),
    }


# --- the test's own tools -----------------------------------------------------------------------------


def one_less(plan: Plan) -> Plan:
    """The loops without what would be their first iteration."""

    def rule(node: object) -> Plan | None:
        return replace(node, low=(*node.low, ONE)) if isinstance(node, Scan) else None

    result: Plan = rewrite(rule, plan)
    return result


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check after each pass, which would refuse what the interpreter is to notice."""
    monkeypatch.setattr("spfgen.plan.from_space.Verified", lambda given, nests: lambda nests: None)


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["register tile", "work partition", "early exit"])
def test_a_wrong_pass_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a pass that loses something the report has the name, whatever comes after it."""
    wrong = passes.Pass(name, "one less", passes.of_each(lambda given, nest: one_less(nest)), 2)
    changed = tuple(wrong if p.name == name else p for p in passes.PASSES)
    monkeypatch.setattr(passes, "PASSES", changed)
    monkeypatch.setattr("spfgen.plan.transform.passes.PASSES", changed)
    _, reported = problem(STEPS["rows"])
    assert reported.startswith(f"wrong after `{name}`")
    assert "kernel k" in reported


@pytest.mark.usefixtures("unchecked")
def test_what_is_not_cleared_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = passes.Pass("early exit", "nothing is cleared", lambda given, nests: replace(nests, before=()), 2)
    changed = tuple(wrong if p.name == "early exit" else p for p in passes.PASSES)
    monkeypatch.setattr("spfgen.plan.transform.passes.PASSES", changed)
    _, reported = problem(case("y[i] = A[i, j]", {"A": "coo", "y": "dense"}, {"A": "ij", "y": "i"}))
    assert "y is added to before it is cleared" in reported

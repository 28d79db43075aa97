"""Every provable algorithm on layouts that spfgen does not have, with data that packing never makes; and finds
forced at random in random programs: refused with a reason, or right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spfgen.errors import SpecError
from spfgen.lang.parse import parse_layout_use
from spfgen.lang.types import FINDS
from spfgen.pipeline import RANK, layout_of
from tests.fuzz import runner, unseen
from tests.fuzz.programs import Case, Data, compiled, forced, known_layouts, unseen_layouts

SMALL = ((5, 6, 4), (1, 1, 1), (0, 3, 2), (3, 0, 0))
DATA = tuple(
    Data((("n0", a), ("n1", b), ("n2", c)), (), density, 3 * k + 2)
    for k, ((a, b, c), density) in enumerate(
        [
            *((SMALL[0], d) for d in (0.4, 0.0, 1.0)),
            *((s, 1.0) for s in SMALL[1:]),
            ((23, 19, 7), 0.3),
            ((40, 9, 5), 0.5),
        ]
    )
)
"""Seeds leave 2, 0 and 1 modulo 3: the kernels run with one to three threads."""

TEXTS: dict[int, list[tuple[str, dict[str, str], str]]] = {
    # statement, the layouts of the other tensors, order
    1: [
        ("s = x[i]*A[i]", {"x": "dense"}, "i"),
        ("s = B[i]*A[i]", {"B": "sv"}, "B.p"),
        ("s = B[i]*A[i]", {"B": "sv_decreasing"}, "B.p"),
        ("s = B[i]*A[i]", {"B": "falling_vector"}, "B.p"),
        ("s = B[i]*A[i + 1]", {"B": "sv_unsorted"}, "B.p"),
        ("s = A[i]*B[i]", {"B": "sv"}, ""),
    ],
    2: [
        ("C[i, j] = B[i, j]*A[i, j]", {"B": "csr", "C": "dense"}, "B.pi"),
        ("C[i, j] = B[i, j]*A[i, j]", {"B": "csc", "C": "dense"}, "B.pj"),
        ("C[i, j] = B[i, j]*A[i, j]", {"B": "falling_list", "C": "dense"}, "B.p"),
        ("C[i, j] = B[i, j]*A[i, j]", {"B": "falling_rows", "C": "dense"}, "B.r"),
        ("C[i, j] = B[i, j]*A[i, j]", {"B": "csr", "C": "dense"}, "i, A"),
        ("y[i] = A[i, j]*x[j]", {"x": "sv", "y": "dense"}, ""),
        ("y[i] = A[i, j]*x[j]", {"x": "falling_vector", "y": "dense"}, "i, A"),
        ("y[i] = A[i, 2]*B[i, j]", {"B": "csr", "y": "dense"}, ""),
    ],
    3: [("y[i] = A[i, j, k]*x[j]*z[k]", {"x": "sv", "z": "sv_unsorted", "y": "dense"}, "")],
}
DIMS = {"x": "j", "y": "i", "z": "k", "C": "ij"}
CLASS = {"i": "n0", "j": "n1", "k": "n2"}


def made(text: str, layouts: dict[str, str], order: str, rank: int) -> Case:
    """The kernel without finds."""
    extents = {n: d for n, d in DIMS.items() if f"{n}[" in text} | {"A": "ijk"[:rank], "B": "ijk"[:rank]}
    if rank == 1:
        extents["x"] = "i"
    dims = tuple((n, tuple(CLASS[i] for i in d)) for n, d in extents.items() if f"{n}[" in text)
    declared = "\n".join(f"    tensor {n} : {layouts[n]}" for n, _ in dims)
    schedule = f"schedule {{ order {order} }}" if order else ""
    return Case(f"kernel NAME {{\n{declared}\n    {text}\n    {schedule}\n}}", dims, (), DATA)


def first_position(name: str, rank: int) -> str:
    declaration, settings = unseen.tree().resolve(parse_layout_use(name))
    if RANK in dict(declaration.constants):
        settings[RANK] = rank
    return layout_of(declaration, settings).positions[0]


def cases(rank: int, number: int, everything: bool) -> Iterator[Case]:
    """One statement in all layouts, each provable algorithm forced in turn; or in each fourth, other ones for the next
    statement, with every other algorithm, the others in the next layout."""
    text, layouts, order = TEXTS[rank][number]
    names = [*unseen_layouts(rank), *(n for n in unseen.MAKERS if n in known_layouts(rank))]
    chosen = 0
    for k, name in enumerate(dict.fromkeys(names)):
        if not everything and rank == 2 and (k + number) % 4:
            continue
        own = order.replace("A", f"A.{first_position(name, rank)}")
        case = made(text, {**layouts, "A": name}, own, rank)
        yield from forced(case) if everything else forced(case, tuple(FINDS)[chosen % 2 :: 2])
        chosen += 1


STATEMENTS = [(r, n) for r, texts in TEXTS.items() for n in range(len(texts))]


@pytest.mark.parametrize(("rank", "number"), STATEMENTS)
@pytest.mark.exhaustive
def test_unseen_layouts(rank: int, number: int) -> None:
    """`-m fuzz` has all of them."""
    checked(list(cases(rank, number, everything=False)))


@pytest.mark.fuzz
@pytest.mark.parametrize(("rank", "number"), STATEMENTS)
def test_all_unseen_layouts(rank: int, number: int) -> None:
    checked(list(cases(rank, number, everything=True)))


def checked(every: list[Case]) -> None:
    used: set[str] = set()
    for start in range(0, len(every), 40):
        outcomes = runner.run(every[start : start + 40])
        problems = [o.report() for o in outcomes if o.problem or o.refused]
        assert not problems, f"{len(problems)} of {len(outcomes)}:\n" + min(problems, key=len)
        assert all(o.runs == len(DATA) for o in outcomes)
        used |= {a for o in outcomes for a in FINDS if f": {a} " in o.case.kernel}
    assert len(used) > 1


def test_a_refusal_is_an_error_of_the_user() -> None:
    case = made("s = B[i]*A[i]", {"A": "unbounded_vector", "B": "sv"}, "B.p", 1)
    with pytest.raises(SpecError, match="range"):
        compiled(case.with_finds({"A.p": "bitmap"}))

"""Every kernel under random legal schedules equals dense numpy: loops in any order, tiles, splits, parallel loops.

Orders, tile sizes and layouts are drawn by seed; what is refused must be refused with a hint at what to do instead.
`-m exhaustive` runs every order of the indices of every kernel, with and without a tile, and many more random ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pytest

from spfgen.errors import SpecError, Unsupported
from spfgen.ir import walk
from spfgen.pipeline import Generated
from spfgen.plan.nodes import LevelLoop, Scan
from tests.differential.kernels import CASES, DENSITIES, Case, choices, sampled
from tests.differential.support import Array, Batch, Program, operand, zeros_like

SIZES = (1, 2, 3, 5, 8)
"""Of tiles: some divide the extents, some do not, some are larger."""
SHAPES = (
    {"i": 7, "j": 9, "k": 5, "l": 4},
    {"i": 1, "j": 1, "k": 1, "l": 1},
    {"i": 0, "j": 3, "k": 2, "l": 2},
    {"i": 4, "j": 0, "k": 0, "l": 3},
)
Generator = np.random.Generator
WORDS = ("vectorize {a}", "vectorize {a}", "unroll {a} by 3", "prefetch {a} by 2", "fuse {a}, {b}", "parallel {a}",
         "serial {a}", "levels {a}", "deterministic")  # fmt: skip


def solved(right: Array, matrix: Array) -> Array:
    """The solution with the lower triangle of the matrix, on whose diagonal are ones."""
    result = np.array(right)
    for i in range(len(right)):
        result[i] -= matrix[i, :i] @ result[:i]
    return result


VALUES = (
    Case(
        "product of sums",
        "y[i] = sum(j: A[i, j]*x[j])*sum(j: A[i, j])",
        {"y": "i", "A": "ij", "x": "j"},
        lambda a, x: (a @ x) * a.sum(axis=1),
    ),
    Case(
        "sums of rows",
        "C[i, k] = (sum(j: A[i, j]*B[j, k]) + 1)*sum(j: A[i, j])",
        {"C": "ik", "A": "ij", "B": "jk"},
        lambda a, b: (a @ b + 1) * a.sum(axis=1)[:, None],
    ),
    Case("solve", "x[i] = b[i] - sum(j < i: L[i, j]*x[j])", {"x": "i", "b": "i", "L": "ii"}, solved),
    Case(
        "solve upwards",
        "x[i] = b[i] - sum(j > i: L[i, j]*x[j])",
        {"x": "i", "b": "i", "L": "ii"},
        lambda b, a: solved(b[::-1], a[::-1, ::-1])[::-1],
    ),
    Case("solves", "X[i, k] = B[i, k] - sum(j < i: L[i, j]*X[j, k])", {"X": "ik", "B": "ik", "L": "ii"}, solved),
    Case("prefixes", "x[i] = x[i - 1] + b[i]*b[i]", {"x": "i", "b": "i"}, lambda b: np.cumsum(b * b)),
)
"""Values that are more than sums of products, some of which need what they write."""


def indices(case: Case) -> list[str]:
    return list(dict.fromkeys("".join(case.subscripts.values())))


@cache
def unscheduled(program: Program) -> Generated:
    """What many schedules are drawn for, made once."""
    return program.generated("kernel")


def drawn(case: Case, program: Program, rng: Generator) -> str:
    """Clauses of a schedule: some tiles of indices and positions, an order of some loops, a parallel one."""
    made = unscheduled(program)
    sparse = [o for g in made.program.groups for i in g.instances for o in i.reads if o.sparse]
    loops = [*indices(case), *dict.fromkeys(p for o in sparse for p in o.positions)]
    clauses, new = [], []
    for number, loop in enumerate(rng.permutation(loops)[: rng.integers(0, 3)]):
        word = rng.choice(["tile", "tile", "split"])
        clauses.append(f"{word} {loop} by {rng.choice(SIZES)} as t{number}")
        if word == "tile":
            new.append(f"t{number}")
    if len(indices(case)) > 1 and rng.random() < 0.2:
        a, b = rng.permutation(indices(case))[:2]
        form = rng.choice(["{a} + {b}", "{a} - {b}", "2*{a} + {b}", "({a} + {b})/3", "{b} - {a}/2"])
        clauses.append(f"relation {{ [{a}, {b}] -> [skewed, {b}] : skewed = {form.format(a=a, b=b)} }}")
    named = [str(n) for n in rng.permutation([*indices(case), *new])]
    if rng.random() < 0.7:
        clauses.append(f"order {', '.join(named[: rng.integers(1, len(named) + 1)])}")
    if rng.random() < 0.25:
        clauses.append(f"parallel {rng.choice(named)}")
    return "; ".join(clauses)


def marked(case: Case, program: Program, rng: Generator) -> str:
    """Besides, one or two words for the loops that there are."""
    text = drawn(case, program, rng)
    clauses = [text] if text and rng.random() < 0.5 else []
    loops = [n.dim for p in unscheduled(program).plans for n in walk(p) if isinstance(n, Scan | LevelLoop)]
    loops = list(dict.fromkeys([*loops, *indices(case), *(t for t in ("t0", "t1") if f"as {t}" in " ".join(clauses))]))
    for word in rng.choice(WORDS, rng.integers(1, 3)):
        clauses.append(word.format(a=rng.choice(loops), b=rng.choice(loops)))
    return "; ".join(dict.fromkeys(clauses))


def accepted(program: Program, name: str) -> Generated | None:
    """What is generated; None for what is refused, which must say why and where."""
    try:
        return program.generated(name)
    except (SpecError, Unsupported) as error:
        if not error.notes:
            raise AssertionError(f"no hint: {program}: {error}") from error
        return None


def check(case: Case, batch: Batch, shapes: Sequence[dict[str, int]] = SHAPES) -> Iterator[str]:
    """Run every kernel on all shapes and densities; yields what went wrong."""
    for number, program in enumerate(batch.programs):
        made = batch.generated[number]
        for (variant, shape), density in itertools.product(enumerate(shapes), DENSITIES):
            tensors, dense = {}, []
            for place, name in enumerate(case.operands):
                extents = tuple(shape[i] for i in case.subscripts[name])
                tensor, array = operand(made.program.tensor(name).layout, extents, density, 10 * variant + place)
                tensors[name] = tensor
                dense.append(array)
            expected: Array = case.meaning(*dense)
            tensors[case.output] = zeros_like(made, case.output, tensors, expected.shape)
            batch.run(number, tensors, threads=3)
            found = tensors[case.output].to_numpy()
            if not np.array_equal(found, expected):
                yield f"{program} shape {shape} density {density}:\n{found}\nexpected\n{expected}"


def run(case: Case, programs: Sequence[Program]) -> tuple[int, list[str]]:
    """How many of the programs are accepted, and what is wrong with these."""
    made = {p: g for n, p in enumerate(programs) if (g := accepted(p, f"kernel_{n}")) is not None}
    if not made:
        return 0, []
    batch = Batch(list(made), eager=True, generated=list(made.values()))
    return len(made), list(itertools.islice(check(case, batch), 3))


def in_layouts(case: Case, rows: int) -> list[Program]:
    lists = choices(case, case.operands)
    combinations = sampled(list(lists.values()), 1)
    rng = np.random.default_rng([7, len(case.name)])
    output = {case.output: "dense"} if case.subscripts[case.output] else {}
    chosen = [combinations[k] for k in rng.permutation(len(combinations))[:rows]]
    return [Program(case.text, {**output, **dict(zip(lists, row, strict=True))}) for row in chosen]


def scheduled(case: Case, rows: int, each: int) -> list[Program]:
    rng = np.random.default_rng([11, len(case.name)])
    draw = marked if case in VALUES else drawn
    programs = [(p, draw(case, p, rng)) for p in in_layouts(case, rows) for _ in range(each)]
    return [Program(p.text, p.layouts, schedule=text) for p, text in programs]


def parts(programs: list[Program], size: int) -> Iterator[list[Program]]:
    return (programs[k : k + size] for k in range(0, len(programs), size))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_random_schedules(case: Case) -> None:
    programs = scheduled(case, 3, 2 if len(case.operands) < 3 else 1)
    count, problems = run(case, programs)
    assert not problems, "\n".join(problems)
    assert count >= 1


@pytest.mark.parametrize("case", VALUES, ids=lambda c: c.name)
@pytest.mark.exhaustive
def test_random_schedules_of_values(case: Case) -> None:
    """With words for loops of sums; few of those that are drawn are legal."""
    count, problems = run(case, scheduled(case, 2, 8))
    assert not problems, "\n".join(problems)
    assert count >= 1


@pytest.mark.exhaustive
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("case", [*CASES, *VALUES], ids=lambda c: c.name)
def test_many_random_schedules(case: Case) -> None:
    total = 0
    for part in parts(scheduled(case, 40, 6), 60):
        count, problems = run(case, part)
        total += count
        assert not problems, "\n".join(problems)
    assert total >= 10  # of vectors, solves and prefix sums there are few that are legal


@pytest.mark.exhaustive
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_every_order_of_the_indices(case: Case) -> None:
    """With and without a tile of the first one, which stands outermost."""
    for program in in_layouts(case, 12):
        orders = list(itertools.permutations(indices(case)))
        texts = [f"order {', '.join(o)}" for o in orders]
        texts += [f"tile {o[0]} by 3 as t; order t, {', '.join(o[1:] + o[:1])}" for o in orders]
        count, problems = run(case, [Program(program.text, program.layouts, schedule=t) for t in texts])
        assert not problems, "\n".join(problems)
        assert count

"""Reductions of which something is made at each place: one nest, with the passes that sums of products have."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import spfgen
import spfgen.lang.nodes
from spfgen.errors import InternalError
from spfgen.ir import rewrite, walk
from spfgen.plan.nodes import IN_TURN, PLANS, Accumulate, Registers, Scan, Store, is_tile
from spfgen.plan.verify.meaning import Fault, compare
from spfgen.space.nodes import Monoid
from tests.fuzz.carried import by_the_interpreter

Array = np.ndarray[Any, Any]
VALUES: dict[str, tuple[str, Callable[[Array, Array, Array], Array]]] = {
    "max": ("y[i] = max(j: A[i,j]*x[j])", lambda a, x, z: (a * x).max(1, initial=-np.inf)),
    "min": ("y[i] = min(j: A[i,j]*x[j]) + z[i]", lambda a, x, z: (a * x).min(1, initial=np.inf) + z),
    "absolute": ("y[i] = abs(sum(j: A[i,j]*x[j]))", lambda a, x, z: np.abs(a @ x)),
    "divided": ("y[i] = sum(j: A[i,j]*x[j])/z[i]", lambda a, x, z: a @ x / z),
    "dividing": ("y[i] = 1 - z[i]/(999 + sum(j: A[i,j]*x[j])*z[i])", lambda a, x, z: 1 - z / (999 + a @ x * z)),
    "quotient": ("y[i] = sum(j: abs(A[i,j])*x[j])/z[i]", lambda a, x, z: np.abs(a) @ x / z),
    "some": ("y[i] = sum(j: where(A[i,j] > 0, A[i,j], 0)*x[j])", lambda a, x, z: np.where(a > 0, a, 0) @ x),
    "product": ("y[i] = prod(j: A[i,j]*x[j] + 1)", lambda a, x, z: (a * x + 1).prod(1)),
    "whole": ("y[i] = max(j: int64(4*A[i,j]))", lambda a, x, z: (4 * a).astype(int).max(1, initial=np.iinfo(int).min)),
}
MERGED = "function both(a, b) { return a + b property commutative property associative property identity 0 }"
AS_GIVEN = "function both(a, b) { return a + b property commutative property identity 0 }"


def compiled(text: str, layout: str = "csr", **how: Any) -> spfgen.Kernel:
    kinds = {"A": layout, "x": "dense", "z": "dense", "y": "dense<int64>" if "int64" in text else "dense"}
    return spfgen.compile(text, **{n: k for n, k in kinds.items() if f"{n}[" in text}, **how)


def matrices() -> list[Array]:
    """Of no size, of one value, with empty rows and one that is far longer than the others."""
    rng = np.random.default_rng(5)
    some = np.where(rng.random((30, 50)) < 0.3, rng.standard_normal((30, 50)), 0)
    some[[0, 7, 29]] = 0
    some[3] = -1 - rng.random(50)
    long = np.zeros((5, 30000))
    long[[0, 4], 3], long[2] = 2, rng.standard_normal(30000)
    return [np.zeros((0, 0)), np.zeros((0, 3)), np.zeros((3, 0)), np.ones((1, 1)), some, long]


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize(("threads", "level"), [(1, 0), (1, 1), (1, 2), (3, 2)])
@pytest.mark.sampled(18)
def test_results(name: str, threads: int, level: int) -> None:
    text, wanted = VALUES[name]
    kernel = compiled(text, threads=threads, optimize=level)
    rng = np.random.default_rng(6)
    for a in matrices():
        given = {"x": rng.standard_normal(a.shape[1]) / 4, "z": 1 + rng.random(a.shape[0])}
        if a.shape[1] > 50:
            given["x"] /= 1000
        found = kernel(A=spfgen.pack(a, "csr"), **{n: v for n, v in given.items() if f"{n}[" in text})
        assert np.allclose(found, wanted(a, given["x"], given["z"])), a.shape


@pytest.mark.parametrize("name", VALUES)
def test_nests(name: str) -> None:
    """Threads share the work by what is stored, and long rows; no value waits for another."""
    (plan,) = compiled(VALUES[name][0], schedule="").generated.plans
    rows, columns = [n for n in walk(plan, PLANS) if isinstance(n, Scan) and n.dim in ("i", "A.pj")][:2]
    assert rows.parallel
    assert rows.partition is not None
    assert rows.partition.weight is not None
    assert rows.partition.row == "A.pj"
    assert rows.partition.slice is not None
    assert columns.ahead is not None
    assert columns.partial == (IN_TURN if name != "whole" else "")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["max", "absolute", "some", "divided", "dividing"])
@pytest.mark.parametrize("layout", ["csc", "coo", "dcsr", "ell", "bcsr", "sym_csr", "csr_rle", "sell"])
def test_layouts(name: str, layout: str) -> None:
    """Where threads meet at places, or a nest does not come by all of them, totals are in the places of the result."""
    text, wanted = VALUES[name]
    kernel = compiled(text, layout, threads=3)
    rng = np.random.default_rng(8)
    for rows in (0, 1, 2, 60):
        a = np.where(rng.random((rows, rows)) < 0.2, rng.standard_normal((rows, rows)), 0)
        a = a + a.T if layout == "sym_csr" else a
        a[rows // 3 : rows // 2, :] = a[:, rows // 3 : rows // 2] = 0
        x = rng.standard_normal(rows)
        z = {"z": 1 + np.arange(float(rows))} if "z[" in text else {}
        assert np.allclose(kernel(A=spfgen.pack(a, layout), x=x, **z), wanted(a, x, z.get("z", x))), rows


ROWS: dict[str, tuple[str, Callable[[Array, Array, Array], Array]]] = {
    "max": ("y[i,k] = max(j: A[i,j]*x[j,k])", lambda a, x, z: (a[:, :, None] * x).max(1, initial=-np.inf)),
    "min": ("y[i,k] = z[k] - min(j: A[i,j]*x[j,k])", lambda a, x, z: z - (a[:, :, None] * x).min(1, initial=np.inf)),
    "absolute": ("y[i,k] = abs(sum(j: A[i,j]*x[j,k]))", lambda a, x, z: np.abs(a @ x)),
    "divided": ("y[i,k] = sum(j: A[i,j]*x[j,k])/z[k]", lambda a, x, z: a @ x / z),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("interpreted", [False, True])
@pytest.mark.sampled(3)
def test_tiles(name: str, interpreted: bool) -> None:
    """Totals of neighbouring places are kept in registers, whatever they are combined by and whatever is made of them;
    long rows take them piece by piece."""
    text, wanted = ROWS[name]
    rng = np.random.default_rng(6)
    some = np.where(rng.random((7, 30 if interpreted else 300)) < 0.6, rng.standard_normal((7, 1)), 0)
    some[[0, 3]] = 0
    cases = [(some, 1), (some, 5), (some, 40 if interpreted else 200), (some[:0], 2), (some[:, :0], 130)]
    if not interpreted:
        long = np.zeros((4, 15000))
        long[1], long[3, 5:] = rng.standard_normal(15000), 2
        cases += [(long, 3), (long, 70)]
    with by_the_interpreter() if interpreted else nullcontext([True]) as ran:
        kernel = compiled(text, threads=3, schedule="")
        nodes = list(walk(kernel.generated.plans[0], PLANS))
        (tile,) = filter(is_tile, nodes)
        assert [n.partition.row for n in nodes if isinstance(n, Scan) and n.partition is not None] == ["A.pj"]
        assert tile.monoid is not None
        assert tile.finish is not None
        for a, width in cases:
            x, z = rng.standard_normal((a.shape[1], width)), 1 + rng.random(width)
            given = {"A": spfgen.pack(a, "csr"), "x": x, **({"z": z} if "z[" in text else {})}
            assert np.allclose(kernel(**given), wanted(a, x, z)), (a.shape, width)
        assert ran


@pytest.mark.parametrize("interpreted", [False, True])
def test_blocks(interpreted: bool) -> None:
    """Totals of small blocks are in registers, too."""
    rng = np.random.default_rng(8)
    with by_the_interpreter() if interpreted else nullcontext([True]) as ran:
        kernel = compiled(VALUES["max"][0], "bcsr", threads=3, schedule="")
        kept = [n.storage for n in walk(kernel.generated.plans[0], PLANS) if isinstance(n, Accumulate)]
        assert {1, 2} == {s.lanes for s in kept if isinstance(s, Registers)}
        for shape in ((4, 6), (5, 6), (6, 5), (1, 1)):
            a = np.where(rng.random(shape) < 0.6, rng.standard_normal(shape), 0)
            x = rng.standard_normal(shape[1])
            assert np.allclose(kernel(A=spfgen.pack(a, "bcsr"), x=x), (a * x).max(1)), shape
        assert ran


def test_which_way() -> None:
    """Of a reduction that is scattered threads have copies, which begin as what changes nothing."""
    (plan,) = compiled(VALUES["max"][0], "csc", schedule="").generated.plans
    shared = [n.partition for n in walk(plan, PLANS) if isinstance(n, Scan) and n.parallel and n.partition is not None]
    assert [p.adds for p in shared if p.adds] == ["copies", "copies"]  # of totals, and of how many values they have
    (other,) = compiled(VALUES["max"][0], "csr_rle", schedule="").generated.plans
    runs = spfgen.compile("y[i] = max(j: A[i,j])", A="csr_rle", y="dense", schedule="").generated.plans[0]
    assert any(isinstance(n, Accumulate) for n in walk(other, PLANS))
    assert not any(isinstance(n, Accumulate) for n in walk(runs, PLANS))  # once for each run


def function(text: str, reduced: str = "A[i,j]*x[j]") -> spfgen.Kernel:
    spec = f"{text}\nkernel kernel {{ tensor A : csr  tensor x : dense  tensor y : dense\ny[i] = both(j: {reduced}) }}"
    return spfgen.parse(spec).kernels["kernel"].compile(threads=2, schedule="")


def test_functions() -> None:
    """What a user's function declares decides whether its values are taken apart."""
    kernel = function(MERGED)
    (plan,) = kernel.generated.plans
    assert any(isinstance(n, Accumulate) and n.monoid is not None for n in walk(plan, PLANS))
    (other,) = function(AS_GIVEN).generated.plans
    assert not any(isinstance(n, Accumulate) for n in walk(other, PLANS))
    assert not any(isinstance(n, Scan) and n.partial for n in walk(other, PLANS))
    a = matrices()[-1]
    x = np.random.default_rng(2).standard_normal(a.shape[1])
    assert np.allclose(kernel(A=spfgen.pack(a, "csr"), x=x), a @ x)


def test_what_is_verified() -> None:
    """Another operator, or a total that nothing is made of, is refused."""
    made = compiled(VALUES["max"][0]).generated
    (plan,) = made.plans
    nest = next(n for n in walk(plan, PLANS) if isinstance(n, Scan))
    instance = next(i for i in made.compared.instances if i.finish)
    compare(instance, nest, set())
    other = Monoid(spfgen.lang.nodes.Apply("minimum", ()), "float64", np.inf)

    def by_another(node: Any) -> Any:
        return replace(node, monoid=other) if isinstance(node, Store | Accumulate) and node.monoid is not None else None

    def unfinished(node: Any) -> Any:
        return replace(node, finish=None) if isinstance(node, Accumulate) else None

    def apart(node: Any) -> Any:
        return replace(node, monoid=other) if isinstance(node, Accumulate) else None

    for rule in (by_another, unfinished, apart):
        with pytest.raises((Fault, InternalError)):
            compare(instance, rewrite(rule, nest, PLANS), set())

"""Sequential iteration and galloping: what must be proved of array, keys and loops, and where the position is kept.

(Zhao et al. 2022, appendix A: loop order, state indices, reduced state indices.)
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.errors import SpecError
from spfgen.facts.formula import Expr, Var, variables
from spfgen.ir import walk
from spfgen.lang.types import FINDS
from spfgen.plan.nodes import Find, Scan, SearchState
from tests.differential.support import packed
from tests.unit.plan.asking import (
    SORTED,
    Layout,
    allowed,
    entries,
    listed,
    matrix,
    of_kind,
    only,
    rows,
    run,
    stored,
    vector,
    why_not,
)

DOT = "s = x[i]*y[i]"
WALKS = ("sequential", "gallop")

# --- the order of the keys ------------------------------------------------------------------------------

DRIVERS = {
    # of x -> the keys rise (1), fall (-1), or neither; its positions
    "property strictly increasing": (1, [0, 1, 3, 4]),
    "property increasing": (1, [0, 1, 1, 4, 4]),
    "property strictly decreasing": (-1, [4, 3, 1, 0]),
    "property decreasing": (-1, [4, 4, 1, 1, 0]),
    "property injective": (0, [3, 0, 4, 1]),
    "": (0, [3, 0, 3, 4, 1, 1]),
}
FOUND = {
    # of y -> its array rises or falls; its positions
    "property strictly increasing": (1, [1, 3, 5]),
    "property increasing": (1, [1, 1, 3, 4, 4, 4]),
    "property strictly decreasing": (-1, [5, 3, 1]),
    "property decreasing": (-1, [4, 4, 4, 3, 1, 1]),
}


def product_of(x: list[int], y: list[int]) -> tuple[Any, Any, float]:
    xs, ys = np.arange(1.0, 1.0 + len(x)), np.arange(20.0, 20.0 + len(y))
    pairs = product(zip(x, xs, strict=True), zip(y, ys, strict=True))
    return xs, ys, sum(a * b for (i, a), (j, b) in pairs if i == j)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("driver", "found"), [(d, f) for d in DRIVERS for f in FOUND if DRIVERS[d][0]])
def test_keys_that_run_one_way_are_followed(driver: str, found: str) -> None:
    """With the array or against it; against it from the end to the start, and then not by galloping."""
    keys, x = DRIVERS[driver]
    falls, y = FOUND[found]
    layouts: dict[str, Layout] = {"x": vector(driver), "y": vector(found)}
    against = keys != falls
    walks = allowed(DOT, "y.p", ["x.p"], **layouts) & {*WALKS}
    assert walks == ({"sequential"} if against else {*WALKS})
    xs, ys, wanted = product_of(x, y)
    for algorithm in walks:
        kernel = spfgen.compile(DOT, order=["x.p"], finds={"y.p": algorithm}, **layouts)
        key, state = only(kernel, Find).key, only(kernel, SearchState)
        assert key is not None
        assert (key.backward, key.descending) == (against, falls < 0)
        assert not state.over, "one state for all iterations"
        assert run(kernel, x=stored(layouts["x"], 6, x, xs), y=stored(layouts["y"], 6, y, ys)) == wanted
        assert run(kernel, x=stored(layouts["x"], 6, [], []), y=stored(layouts["y"], 6, y, ys)) == 0
        assert run(kernel, x=stored(layouts["x"], 6, x, xs), y=stored(layouts["y"], 6, [], [])) == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("driver", "found"), [(d, f) for d in DRIVERS for f in FOUND if not DRIVERS[d][0]])
def test_keys_in_any_order_are_not_followed(driver: str, found: str) -> None:
    layouts: dict[str, Layout] = {"x": vector(driver), "y": vector(found)}
    assert not allowed(DOT, "y.p", ["x.p"], **layouts) & {*WALKS}
    assert "smaller key" in why_not(DOT, "y.p", ["x.p"], **layouts)["sequential"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("algorithm", [*FINDS])
@pytest.mark.parametrize(("driver", "found"), [(d, f) for d in DRIVERS for f in FOUND if not DRIVERS[d][0]])
def test_keys_in_any_order_are_found_all_the_same(driver: str, found: str, algorithm: str) -> None:
    """By whatever is allowed."""
    layouts: dict[str, Layout] = {"x": vector(driver), "y": vector(found)}
    (_, x), (_, y) = DRIVERS[driver], FOUND[found]
    xs, ys, wanted = product_of(x, y)
    try:
        kernel = spfgen.compile(DOT, order=["x.p"], finds={"y.p": algorithm}, **layouts)
    except SpecError:
        assert algorithm in WALKS
        return
    assert run(kernel, x=stored(layouts["x"], 6, x, xs), y=stored(layouts["y"], 6, y, ys)) == wanted


@pytest.mark.parametrize("algorithm", WALKS)
def test_the_data_would_break_a_wrong_choice(algorithm: str) -> None:
    """A driver whose keys rise, given keys that do not: the walk has gone past them."""
    kernel = spfgen.compile(DOT, order=["x.p"], finds={"y.p": algorithm}, validate="never", x="sv", y="sv")
    _, x = DRIVERS["property injective"]
    xs, ys, wanted = product_of(x, [1, 3, 4])
    lie = stored("sv", 6, x, xs, check=False)
    assert run(kernel, x=lie, y=stored("sv", 6, [1, 3, 4], ys)) != wanted


def test_without_a_loop_around_it_there_is_nothing_to_follow() -> None:
    assert not allowed("s = y[3]", "y.p", y="sv") & {*WALKS}
    kernel = spfgen.compile("s = y[3]", y="sv")
    assert run(kernel, y=stored("sv", 6, [1, 3], [5.0, 7.0])) == 7


# --- where the position is kept -------------------------------------------------------------------------


def levels(kernel: spfgen.Kernel) -> list[str]:
    """The states and loops of the only nest, outermost first."""
    (plan,) = kernel.generated.plans
    names = []
    for node in walk(plan):
        if isinstance(node, SearchState):
            names.append("state")
        elif isinstance(node, Scan) or (isinstance(node, Find) and node.key is None):
            names.append(node.dim)
    return names


def forced(text: str, finds: dict[str, str], order: list[str], **layouts: Layout) -> spfgen.Kernel:
    return spfgen.compile(text, order=order, finds=finds, **layouts)


PRODUCT = "C[i, j] = A[i, j]*B[i, j]"
A, B = matrix((37, 29), 0.4, 1), matrix((37, 29), 0.3, 2)


@pytest.mark.parametrize("algorithm", WALKS)
def test_rows_by_rows_keep_one_position(algorithm: str) -> None:
    """csr x csr: the position starts anew in every row, above the inner loop or whenever the row changes."""
    kernel = forced(PRODUCT, {"B.pj": algorithm}, ["i"], A="csr", B="csr", C="dense")
    state = only(kernel, SearchState)
    assert not state.extents, "a scalar"
    places = levels(kernel)
    assert places.index("state") < places.index("A.pj")
    assert places.index("state") > places.index("i") or len(state.over) == 1
    for threads in (1, 3):
        assert np.array_equal(run(kernel, threads, A=A, B=B), A * B)


@pytest.mark.parametrize("algorithm", WALKS)
def test_a_list_by_rows_starts_anew_with_the_row(algorithm: str) -> None:
    """coo x dcsr: the only loop is over the list; the state index is the row, a reduced index, and needs no array."""
    kernel = forced(PRODUCT, {"B.pi": algorithm, "B.pj": algorithm}, ["A.p"], A="coo", B="dcsr", C="dense")
    one, two = of_kind(kernel, SearchState)
    assert not one.over, "the rows of both rise"
    assert len(two.over) == 1, "the columns rise within a row"
    assert not two.extents
    assert len(of_kind(kernel, Scan)) == 1
    for threads in (1, 3):
        assert np.array_equal(run(kernel, threads, A=A, B=B), A * B)


@pytest.mark.parametrize("algorithm", WALKS)
def test_columns_by_rows_keep_a_position_for_each_row(algorithm: str) -> None:
    """csc x csr: the rows come again and again, in each with a larger column: an array over the rows."""
    kernel = forced(PRODUCT, {"B.pj": algorithm}, ["A.pj"], A="csc", B="csr", C="dense")
    state = only(kernel, SearchState)
    assert len(state.over) == len(state.extents) == 1
    assert "nrow" in str(state.extents[0])
    assert levels(kernel)[0] == "state"
    for threads in (1, 3):
        assert np.array_equal(run(kernel, threads, A=A, B=B), A * B)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("algorithm", WALKS)
@pytest.mark.parametrize(
    ("blocks", "others"), [("R=2, C=3", "R=2, C=3"), ("R=2, C=2", "R=2, C=4"), ("R=2, C=3", "R=2, C=2")]
)
def test_blocks_by_blocks(blocks: str, others: str, algorithm: str) -> None:
    """bcsr x bcsr: keys are block columns, where the blocks differ floors of columns; they never fall in a block row,
    or (when the key changes within a block, which is passed by rows) in a row."""
    kernel = forced(PRODUCT, {"B.pb": algorithm}, ["A.bi"], A=f"bcsr({blocks})", B=f"bcsr({others})", C="dense")
    assert bool(only(kernel, SearchState).extents) == (others == "R=2, C=2" and blocks == "R=2, C=3")
    a, b = matrix((24, 24), 0.3, 1), matrix((24, 24), 0.3, 2)
    for threads in (1, 3):
        assert np.array_equal(run(kernel, threads, A=a, B=b), a * b)


@pytest.mark.parametrize(("rising", "algorithm"), [(True, "sequential"), (True, "gallop"), (False, "sequential")])
def test_a_parallel_loop_carries_the_state(rising: bool, algorithm: str) -> None:
    """csr x coo: the rows of the list are followed by the parallel loop over the rows, in each thread from where its
    rows begin (or end, when they are followed from the end)."""
    layout = "coo" if rising else listed("property decreasing", COLUMNS)
    kernel = forced(PRODUCT, {"B.p": algorithm}, ["i"], A="csr", B=layout, C="dense")
    states = of_kind(kernel, SearchState)
    assert any(not s.over and s.backward != rising for s in states), "nothing is kept from row to row"
    assert of_kind(kernel, Scan)[0].parallel
    order = slice(None) if rising else slice(None, None, -1)
    row, col = (np.concatenate(v) for v in zip(*[(np.full(len(c), r), c) for r, c in by_row(B)[order]], strict=True))
    tensor, b = entries(layout, B.shape, row, col)
    for threads in (1, 2, 3, 7):
        assert np.array_equal(run(kernel, threads, A=A, B=tensor), A * b)


COLUMNS = "property forall p < q : row(p) = row(q) => col(p) < col(q)"


def by_row(dense: Any) -> list[tuple[int, Any]]:
    return [(r, np.flatnonzero(dense[r])) for r in range(len(dense))]


def test_a_bound_that_is_read_anew_keeps_nothing() -> None:
    """The rows of B are those that A's columns name: they come in an order of their own within each row of A, so a
    position is kept for each row of B, or none."""
    text = "C[i, k] = A[i, j]*B[j, k]*D[i, k]"
    layouts: dict[str, Layout] = {"A": "csr", "B": "csr", "D": "dense", "C": "dense"}
    a, b, d = matrix((13, 11), 0.4, 1), matrix((11, 9), 0.4, 2), matrix((13, 9), 0.9, 3)
    order = ["i", "k", "j"]
    for algorithm in allowed(text, "B.pj", order, **layouts):
        kernel = spfgen.compile(text, order=order, finds={"B.pj": algorithm}, **layouts)
        for state in of_kind(kernel, SearchState):
            assert depends_on(kernel, (*state.over, *bounds_outside(kernel, state)))
        for threads in (1, 3):
            assert np.array_equal(run(kernel, threads, A=a, B=b, D=d), np.einsum("ij,jk,ik->ik", a, b, d)), algorithm


def depends_on(kernel: spfgen.Kernel, exprs: tuple[Expr, ...]) -> bool:
    sizes = {*kernel.generated.program.sizes.readings}
    return any(variables(e) - sizes for e in exprs)


def bounds_outside(kernel: spfgen.Kernel, state: SearchState) -> tuple[Expr, ...]:
    """The loops that stand above the state."""
    (plan,) = kernel.generated.plans
    result: list[Expr] = []
    for node in walk(plan):
        if node is state:
            break
        if isinstance(node, Scan):
            result.append(Var(node.dim))
    return tuple(result)


# --- the order of the array, where the driver is a matrix -------------------------------------------------

WEAK = {
    "property strictly increasing within ptr": ({*WALKS}, False),
    "property increasing within ptr": ({*WALKS}, False),
    "property strictly decreasing within ptr": ({"sequential"}, True),
    "property decreasing within ptr": ({"sequential"}, True),
    "property injective within ptr": (set(), False),
    "property strictly increasing within other": (set(), False),
    "": (set(), False),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("properties", WEAK)
def test_only_sorted_rows_are_followed(properties: str) -> None:
    walks, backward = WEAK[properties]
    layouts: dict[str, Layout] = {"A": "csr", "B": rows(properties), "C": "dense"}
    assert allowed(PRODUCT, "B.pj", ["i"], **layouts) & {*WALKS} == walks
    for algorithm in walks:
        key = only(forced(PRODUCT, {"B.pj": algorithm}, ["i"], **layouts), Find).key
        assert key is not None
        assert key.backward == backward


DRIVING = {
    "property strictly increasing within ptr": False,
    "property increasing within ptr": False,
    "property strictly decreasing within ptr": True,
    "property decreasing within ptr": True,
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("properties", DRIVING)
def test_sorted_drivers_are_followed(properties: str) -> None:
    """A's columns fall: B's are followed from the end. With duplicates the same position is found again."""
    backward = DRIVING[properties]
    layout = rows(properties)
    kernel = forced(PRODUCT, {"B.pj": "sequential"}, ["A.pi"], A=layout, B="csr", C="dense")
    key = only(kernel, Find).key
    assert key is not None
    assert key.backward == backward
    assert not only(kernel, SearchState).extents
    twice = "strictly" not in properties
    columns = [np.repeat(c, 2) if twice else c for _, c in by_row(A)]
    columns = [c[::-1] if backward else c for c in columns]
    col = np.concatenate(columns)
    ptr = np.cumsum([0, *map(len, columns)])
    val = np.arange(1.0, 1.0 + len(col))
    a = np.zeros(A.shape)
    np.add.at(a, (np.repeat(np.arange(len(A)), np.diff(ptr)), col), val)
    arrays = {"ptr": ptr.astype(np.int32), "other": np.zeros(1, np.int32), "col": col.astype(np.int32), "val": val}
    tensor = spfgen.tensor(layout, shape=A.shape, **arrays)
    for threads in (1, 3):
        assert np.array_equal(run(kernel, threads, A=tensor, B=B), a * B)


def test_rows_in_any_order_can_only_be_searched() -> None:
    """An unsorted driver: no walk in B's sorted rows, but a search; a search in A's rows, which are sorted in B's."""
    layouts: dict[str, Layout] = {"A": rows("property injective within ptr"), "B": "csr", "C": "dense"}
    assert "search" in allowed(PRODUCT, "B.pj", ["A.pj"], **layouts)
    assert not allowed(PRODUCT, "A.pj", ["B.pi", "B.pj"], **layouts) & SORTED


# --- finds inside of finds that have more than one hit ----------------------------------------------------

FALLING = ("property decreasing", COLUMNS)
PAIR = "y[i] = A[i, j]*x[j]"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("outer", ["sequential", "search", "hash", "array", "bitmap", "loop"])
@pytest.mark.parametrize("inner", ["sequential", "gallop", "search"])
def test_a_walk_inside_of_a_find_with_several_hits(outer: str, inner: str) -> None:
    """The rows of A fall and come several times, its columns rise within a row: those of x are followed in the order
    in which the positions of A are found."""
    layout = listed(*FALLING)
    kernel = forced(PAIR, {"A.p": outer, "x.p": inner}, ["i"], A=layout, x="sv", y="dense")
    tensor, a = entries(layout, (3, 4), [2, 2, 2, 0, 0], [0, 1, 3, 1, 2])
    x = stored("sv", 4, [0, 1, 2, 3], [1.0, 10.0, 100.0, 1000.0])
    assert np.array_equal(run(kernel, A=tensor, x=x), a @ [1, 10, 100, 1000])


# --- states in parallel loops -----------------------------------------------------------------------------

TALL, WIDE = matrix((400, 400), 1, 1), matrix((400, 400), 0.1, 2)


@pytest.mark.parametrize("algorithm", WALKS)
def test_each_thread_has_an_array_of_states(algorithm: str) -> None:
    """dense x csr by columns: nothing to share the columns out by, and a state for each row."""
    kernel = forced(PRODUCT, {"B.pj": algorithm}, ["j", "i"], A="dense", B="csr", C="dense")
    assert of_kind(kernel, Scan)[0].parallel
    assert only(kernel, SearchState).extents
    assert all(np.array_equal(run(kernel, 3, A=TALL, B=WIDE), TALL * WIDE) for _ in range(20))


def test_a_parallel_plain_loop_carries_the_state() -> None:
    """The entries of one column of a list: a plain loop, whose iterations write different rows."""
    kernel = forced("y[i] = A[i, 3]*x[i]", {"x.p": "sequential"}, [], A="coo", x="sv", y="dense")
    (loop,) = (f for f in of_kind(kernel, Find) if f.key is None)
    assert loop.parallel
    rng = np.random.default_rng(0)
    n = 20000
    a = np.zeros((n, 4))
    a[:, 3], a[:, 1] = rng.random(n) < 0.8, 1
    x = np.where(rng.random(n) < 0.5, rng.integers(1, 9, n), 0).astype(float)
    tensors = {
        "A": packed(kernel.generated.program.tensor("A").layout, a),
        "x": packed(kernel.generated.program.tensor("x").layout, x),
    }
    assert all(np.array_equal(run(kernel, 3, **tensors), a[:, 3] * x) for _ in range(60))


def test_a_state_array_without_places() -> None:
    """Empty rows are no lack of memory."""
    text = "C[i, j] = A[i, j]*B[i + 1, j]"
    kernel = forced(text, {"B.pj": "sequential"}, ["j", "i"], A="dense", B="csr", C="dense")
    assert only(kernel, SearchState).extents
    empty = np.zeros((0, 4))
    assert run(kernel, A=empty, B=empty, C=np.zeros((0, 4))).shape == (0, 4)


def test_a_state_for_each_of_too_many_values_is_not_taken() -> None:
    """Memory for 2^62 positions is not there, nor needed."""
    shape = (2**62, 2**62)
    a = spfgen.tensor("coo", shape=shape, idx_1=np.array([1, 5]), idx_2=np.array([2, 2**61]), val=np.array([2.0, 3.0]))
    b = spfgen.tensor("coo", shape=shape, idx_1=np.array([2, 9]), idx_2=np.array([1, 2**61]), val=np.array([7.0, 3.0]))
    assert spfgen.compile("s = A[i, j]*B[j, i]", A="coo", B="coo")(A=a, B=b) == 14


def test_states_of_threads_that_start_again_and_again() -> None:
    """A parallel loop within a serial one: states that are kept in an array would have to be cleared each time."""
    schedule = "split A.pi by 8 as block; order j, i; parallel i"
    rng = np.random.default_rng(3)
    dense = np.where(rng.random((30, 9)) < 0.4, rng.integers(1, 9, (30, 9)), 0).astype(float)
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A="dcsr", x="dense", y="dense", schedule=schedule, threads=3)
    x = np.arange(9.0)
    assert np.array_equal(kernel(A=spfgen.pack(dense, "dcsr"), x=x), dense @ x)
    assert not any(isinstance(n, SearchState) and n.extents for p in kernel.generated.plans for n in walk(p))


def test_keys_of_a_loop_that_runs_downwards() -> None:
    """The later iteration has the smaller key, also where the state is kept for a block of them."""
    matrix = np.triu(np.arange(1.0, 26.0).reshape(5, 5)).T
    kernel = spfgen.compile(
        "y[i] = (u[i] - sum(j > i: A[j, i]*y[j]))/(2 + A[i, i])", A="bcsr(R=2, C=1)", u="dense", y="dense"
    )
    u = np.arange(1.0, 6.0)
    wanted = np.linalg.solve(matrix.T + 2 * np.eye(5), u)
    assert np.allclose(kernel(A=matrix, u=u), wanted)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(("image", "weights"), [("coo_unsorted", "dcsr"), ("csc", "coo")])
def test_states_within_loops_have_room_for_all_of_them(image: str, weights: str, level: int) -> None:
    """One for each row of the weights, of which an index of the loops around says how many there are."""
    text = "A[i, j] = where(I[i, j] != 0, sum(p, q: coalesce(I[i + p - 1, j + q - 1], 0)*F[p, q]), 0)"
    rng = np.random.default_rng(3)
    given = np.where(rng.random((6, 7)) < 0.5, rng.integers(1, 5, (6, 7)), 0).astype(float)
    filter_ = np.arange(1.0, 10.0).reshape(3, 3)
    kernel = spfgen.compile(text, optimize=level, I=image, F=weights, A="dense")
    padded = np.pad(given, 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
    expected = np.where(given != 0, (windows * filter_).sum((2, 3)), 0)
    np.testing.assert_array_equal(kernel(I=given, F=filter_), expected)

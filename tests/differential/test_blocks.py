"""Programs over blocks give what they give without blocks, wherever axes are cut."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from tests.differential.in_blocks import any_cuts, in_blocks

dask = pytest.importorskip("dask")

N, M = 11, 7
LAYOUTS = [None, "csr", "csc", "coo", "dia"]


@pytest.fixture(autouse=True)
def _one_by_one():
    with dask.config.set(scheduler="synchronous"):
        yield


def operands(rng: np.random.Generator, layout: str | None) -> dict[str, object]:
    def matrix(n: int, m: int) -> object:
        dense = np.where(rng.random((n, m)) < 0.4, rng.integers(1, 9, (n, m)), 0).astype(float)
        return dense if layout is None else spfgen.pack(dense, layout)

    return {
        "A": matrix(N, M),
        "B": matrix(M, N),
        "S": matrix(N, N),
        "x": rng.integers(1, 9, M).astype(float),
        "y": rng.integers(1, 9, N).astype(float),
        "w": rng.integers(1, 4, 3).astype(float),
        "at": rng.integers(0, N, N),
        "c": 3.0,
    }


PROGRAMS = {
    "r[i] = A[i,j]*x[j]": {},
    "r[j] = A[i,j]*y[i]": {},
    "r[i] = A[i,j]*x[j] + y[i]": {},
    "r[i] = c*A[i,j]*x[j] - S[i,k]*y[k]": {},
    "r[i,k] = A[i,j]*B[j,k]": {},
    "r[i,k] = S[i,k]*A[i,j]*B[j,k]": {},
    "r[i,j] = A[i,j] + B[j,i]": {},
    "r[i,j] = max(A[i,j], y[i])": {},
    "r = A[i,j]": {},
    "r = max(i, j: A[i,j])": {},
    "r[i] = min(j: A[i,j] + x[j])": {},
    "r[i] = prod(j: A[i,j])": {},
    "r[j] = any(i: A[i,j] > 4)": {},
    "r[i] = argmax(j: A[i,j])": {},
    "r[i] = argmin(j: S[i,j]*y[j] where j < i)": {},
    "r = argmax(j: abs(x[j] - 4))": {},
    "r[i] = sqrt(sum(j: A[i,j]))": {},
    "r[i] = y[i-1] + y[i] + y[i+1]": {},
    "r[i] = y[i-1] + y[i+1]": {"i": N},
    "r[i,j] = S[i+r,j]*w[r]": {"i": N - 2},
    "r[i] = S[2*i, j]*y[j]": {"i": 4},
    "r[i] = y[at[i]]*i": {},
    "r[at[i]] += y[i]": {"r.n_1": N},
    "r[i,j] = S[i,j]*(i + 2*j)": {},
    "r[i] = S[i,i]": {},
    "r[i] = sum(j: S[i,j]*y[j] where j < i)": {},
    "r[i,j] = S[i,j] where i < j": {},
    "r[i] = coalesce(y[i-1], 5) + y[i]": {},
    "r[i] = sum(j: A[i,j])/max(j: A[i,j] + 1)": {},
    "r[i] = mod(y[i], 3)": {},
    "r[i] = max(p: y[2*i+p] where 0 <= p < 2)": {},
    "r[i] = sum(j: S[i,j]*y[j] where abs(i-j) <= 2)": {},
    "r[i] = max(j: S[i,j]*y[j+1] where i - 2 <= j <= i)": {},
    "r[i,j] = S[i,j] + y[j] where abs(i-j) <= 1": {},
    "r[i] = S[i,j]*y[i+j] where 2*i <= j": {},
    "r[i] = min(j: y[j] where abs(i-j) <= 3)": {"i": N, "j": N},
    "r[i,k] = A[i,j]*B[j,k] where j <= i <= j + 1 and k < 2": {},
    "r[i] = sum(j < i: S[i,j]) + max(k: A[i,k] where i <= k)": {},
    "r[k] = collapse(A[i,j], (i, j) -> k)": {"r.n_1": N * M},
}


def to_array(value: object) -> np.ndarray:
    return value.to_numpy() if hasattr(value, "to_numpy") else np.asarray(value)


def check(text: str, given: dict[str, object], blocked: dict[str, object], sizes: dict[str, int], out=None) -> None:
    wanted = spfgen.evaluate(text, **given, sizes=sizes or None, out=out)
    with any_cuts(np.random.default_rng(len(blocked))):
        found = spfgen.evaluate(text, **blocked, sizes=sizes or None, out=out)
    assert found.shape == np.shape(to_array(wanted))
    result = found.compute()
    np.testing.assert_allclose(to_array(result), to_array(wanted), err_msg=f"{text}\n{found.explain()}")
    assert isinstance(result, spfgen.Tensor) == isinstance(wanted, spfgen.Tensor)
    assert to_array(result).dtype == to_array(wanted).dtype == found.dtype


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("text", PROGRAMS)
def test_programs_in_blocks(text: str, layout: str | None) -> None:
    rng = np.random.default_rng([len(text), LAYOUTS.index(layout)])
    used = {n: v for n, v in operands(rng, layout).items() if n in uses(text)}
    for _ in range(2):
        blocked = {n: v if rng.random() < 0.2 else in_blocks(rng, v) for n, v in used.items()}
        if not any(hasattr(v, "bounds") for v in blocked.values()):
            continue
        check(text, used, blocked, PROGRAMS[text])


def uses(text: str) -> set[str]:
    from spfgen.lang.parse import parse_statements
    from spfgen.lang.uses import accesses_in

    return {a.tensor for a in accesses_in(parse_statements(text))}


def test_what_cannot_be_computed_apart_is_refused() -> None:
    x = spfgen.blocks(np.arange(6.0), {0: 2})
    with pytest.raises(spfgen.SpfgenError, match="`r` is read along `i` while it is computed"):
        spfgen.evaluate("r[i] = r[i-1] + x[i]", x=x)
    with pytest.raises(spfgen.SpfgenError, match="expected `y`, which is written, in blocks"):
        spfgen.evaluate("y[i] += x[i]", x=x, y=np.ones(6))
    with pytest.raises(spfgen.SpfgenError, match="`r` is read along `i` while it is computed"):
        spfgen.evaluate("for i { r[i] = x[i] + r[i-1] }", x=x)
    with pytest.raises(spfgen.SpfgenError, match="runs over 6 places and y has 5"):
        spfgen.evaluate("r[i] = x[i]*y[i]", x=x, y=np.ones(5))
    with pytest.raises(spfgen.SpfgenError, match="one way to cut `i`, but there are several"):
        spfgen.blocks(np.arange(6.0), {0: 2}, count={"i": 2})
    with pytest.raises(spfgen.SpfgenError, match="add up to 6 along `i`"):
        spfgen.blocks(np.arange(6.0), {"i": (2, 5)})


def test_several_equations() -> None:
    dense = np.arange(12.0).reshape(4, 3)
    found = spfgen.evaluate("y[i] = A[i,j]; z[j] = A[i,j]*y[i]", A=spfgen.blocks(dense, {"i": 3, "j": 2}))
    np.testing.assert_allclose(found["z"].compute(), dense.T @ dense.sum(1))


def diagonal() -> tuple[np.ndarray, Any]:
    dense = np.diag(np.arange(1.0, 8))
    dense[2, 5] = 3
    return dense, spfgen.blocks(dense, {"i": 3, "j": 4}, layout="csr")


def test_signs() -> None:
    dense, a = diagonal()
    x = np.arange(7.0)
    np.testing.assert_allclose((a @ x).compute(), dense @ x)
    assert isinstance((a @ a.T).compute(), spfgen.Tensor)
    np.testing.assert_allclose((a @ a.T).compute().to_numpy(), dense @ dense.T)
    np.testing.assert_allclose(a.persist().compute().to_numpy(), dense)
    np.testing.assert_allclose(a[1:6, ::2].compute().to_numpy(), dense[1:6, ::2])
    assert float(a[2, 5]) == 3
    assert len(list(a)) == 7
    assert a.astype("float32").compute().dtype == np.float32


@pytest.mark.exhaustive
def test_functions_and_doors() -> None:
    dense, a = diagonal()
    x = np.arange(7.0)
    np.testing.assert_allclose((x @ a).compute(), x @ dense)
    np.testing.assert_allclose((2 * a + a.T * a).compute().to_numpy(), 2 * dense + dense.T * dense)
    np.testing.assert_allclose(a.sum(0).compute(), dense.sum(0))
    np.testing.assert_allclose(a.max(1).compute(), dense.max(1))
    np.testing.assert_allclose(spfgen.einsum("ij,ij->j", a, a).compute(), (dense**2).sum(0))
    np.testing.assert_allclose(spfgen.einsum("ij,jk->ik", a, a, layout="csr").compute().to_numpy(), dense @ dense)
    np.testing.assert_allclose(a.matvec(x), dense @ x)
    np.testing.assert_allclose((a[2:] @ x).compute(), dense[2:] @ x)
    np.testing.assert_allclose(a.mean(1).compute(), dense.mean(1))
    assert float(a.mean()) == dense.mean()


def test_what_a_blocked_tensor_does_not_have() -> None:
    dense, a = diagonal()
    with pytest.raises(spfgen.SpfgenError, match=r"expected an axis for `argmin`"):
        a.argmin()
    with pytest.raises(AttributeError, match=r"the tensor that A.compute\(\) makes of its blocks has `to_numpy`"):
        _ = a.to_numpy
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        _ = a.nothing
    with pytest.raises(spfgen.SpfgenError, match="expected one array or tensor") as refused:
        _ = sp.csr_array(dense) @ a
    assert "spfgen.pack(M) @ A" in str(refused.value)


def test_blocks_that_a_function_makes() -> None:
    def made(bounds: tuple[tuple[int, int], ...]) -> np.ndarray:
        (low, high), (left, right) = bounds
        return np.add.outer(np.arange(low, high), np.arange(left, right))

    a = spfgen.blocks(made, {"i": 2, "j": 3}, shape=(5, 7), layout="csr")
    np.testing.assert_array_equal(a.compute().to_numpy(), np.add.outer(np.arange(5), np.arange(7)))
    assert a.blocks == (3, 3)
    assert len(a) == 5
    coordinates = sp.coo_array(np.eye(5))
    assert spfgen.blocks(coordinates, {"j": 2}).blocks == (1, 3), "of a layout whose axes have no such names"
    with pytest.raises(spfgen.SpfgenError, match="expected an axis to cut, but it is 'k'"):
        spfgen.blocks(coordinates, {"k": 2})


def test_blocks_that_weigh_the_same() -> None:
    dense = np.triu(np.ones((20, 20)))
    a = spfgen.blocks(spfgen.pack(dense, "csr"), balance={"i": 4})
    weights = [int(dense[low:high].sum()) for low, high in zip(a.bounds[0], a.bounds[0][1:], strict=False)]
    assert max(weights) - min(weights) <= 20
    np.testing.assert_array_equal(a.compute().to_numpy(), dense)


def test_one_text_for_blocks_within() -> None:
    """A halo needs other numbers in the text at the ends alone: all blocks between them share a kernel."""
    from spfgen.cluster.tasks import RunKernel

    x = spfgen.blocks(np.arange(40.0), {0: 5})
    found = spfgen.evaluate("r[i] = x[i-1] + x[i] + x[i+1]", x=x)
    texts = {t[0].text for t in dict(found.graph).values() if isinstance(t, tuple) and isinstance(t[0], RunKernel)}
    assert len(texts) <= 3
    assert "the places of i - 1" in found.explain()


def test_arrays_of_dask() -> None:
    da = pytest.importorskip("dask.array")
    dense = np.arange(30.0).reshape(5, 6) % 4
    a = spfgen.blocks(da.from_array(dense, chunks=(2, 4)), layout="csr")
    np.testing.assert_array_equal(a.compute().to_numpy(), dense)
    np.testing.assert_allclose(spfgen.evaluate("y[i] = A[i,j]*x[j]", A=a, x=np.ones(6)).compute(), dense.sum(1))
    back = spfgen.evaluate("y[i] = A[i,j]", A=a).to_dask_array()
    np.testing.assert_allclose(back.compute(), dense.sum(1))


@pytest.mark.exhaustive
def test_reads_at_several_places_and_values() -> None:
    """Extents that only the program says, gathers and scatters, other fill values, functions of the user."""
    rng = np.random.default_rng(5)
    x = rng.random(9)
    s = np.where(rng.random((9, 9)) < 0.5, rng.random((9, 9)), 0)
    away = spfgen.pack(np.where(s > 0, s, np.inf), "csr fill inf")
    at = np.arange(8) % 5
    for text, given in {
        "y[i] = x[i-1] + x[i+1]": {"x": x},
        "y[i] = x[8-i]": {"x": x},
        "y[i] = x[2*i+j]*w[j]": {"x": x, "w": np.ones(2)},
        "y[i+j] = x[i]*w[j]": {"x": x, "w": np.ones(3)},
        "y[i] = x[i(1:9:2)]": {"x": x},
        "y[i] = x[p[i]+1]": {"x": x, "p": at},
        "y[i] = S[p[i],j]*x[j]": {"S": s, "x": x, "p": at},
        "y[i,k] = min(j: F[i,j]+F[j,k])": {"F": away},
        "function g(a) { return a*2 + 1 }\ny[i] = g(x[i])": {"x": x},
        "y[i] = (S[i,j]+S[j,i])*x[j]": {"S": s, "x": x},
    }.items():
        check(text, given, {n: in_blocks(rng, v) for n, v in given.items()}, {})


def test_threads_of_dask() -> None:
    """Tasks side by side: kernels are made and called from several threads."""
    rng = np.random.default_rng(7)
    dense = np.where(rng.random((60, 50)) < 0.2, 1.0, 0.0)
    a, x = spfgen.blocks(spfgen.pack(dense, "csr"), {0: 3, 1: 11}), rng.random(50)
    found = spfgen.evaluate("y[i] = 3*A[i,j]*x[j]", A=a, x=x)
    np.testing.assert_allclose(found.compute(scheduler="threads", num_workers=4), 3 * dense @ x)


def test_an_error_says_in_which_block() -> None:
    at = spfgen.blocks(np.arange(8), {0: 3})
    found = spfgen.evaluate("y[i] = x[at[i]]", x=np.ones(7), at=at)
    with pytest.raises(spfgen.SpfgenError, match=r"in the block of work i in \[6, 8\)"):
        found.compute()


@pytest.mark.exhaustive
def test_solvers_of_scipy() -> None:
    from scipy.sparse.linalg import cg

    dense = np.diag(np.full(12, 3.0)) - np.eye(12, k=1) - np.eye(12, k=-1)
    operator = spfgen.aslinearoperator(spfgen.blocks(spfgen.pack(dense, "csr"), {0: 5, 1: 7}))
    found, failed = cg(operator, np.ones(12), rtol=1e-12)
    assert not failed
    np.testing.assert_allclose(dense @ found, np.ones(12))
    np.testing.assert_allclose(operator.rmatvec(np.arange(12.0)), dense.T @ np.arange(12.0))


def test_arrays_beside_a_pickle_that_are_not_aligned() -> None:
    """As they come in messages between processes."""
    tensor, buffers = spfgen.pack(np.eye(5), "csr"), []
    text = pickle.dumps(tensor, protocol=5, buffer_callback=buffers.append)
    moved = [memoryview(bytearray(b"x") + bytearray(b.raw()))[1:] for b in buffers]
    found = pickle.loads(text, buffers=moved)
    np.testing.assert_array_equal(spfgen.evaluate("y[i] = A[i,j]", A=found), np.ones(5))


@pytest.mark.fuzz
def test_programs_on_two_processes() -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        dask.config.set(scheduler="distributed"),
    ):
        for seed in range(20):
            _all_programs(seed)


@pytest.mark.fuzz
def test_programs_with_many_cuts() -> None:
    for seed in range(170):
        _all_programs(seed)


def _all_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    given = operands(rng, LAYOUTS[seed % len(LAYOUTS)])
    for text, sizes in PROGRAMS.items():
        used = {n: v for n, v in given.items() if n in uses(text)}
        blocked = {n: v if rng.random() < 0.2 else in_blocks(rng, v) for n, v in used.items()}
        if any(hasattr(v, "bounds") for v in blocked.values()):
            check(text, used, blocked, sizes)


def test_a_bag_of_coordinates_and_values() -> None:
    bag = pytest.importorskip("dask.bag")
    pairs = [((0, 1), 2), ((3, 2), 5), ((np.array([1, 2]), np.array([0, 0])), np.array([1, 1])), ((3, 2), 1)]
    wanted = np.zeros((4, 3), int)
    for (i, j), value in pairs:
        np.add.at(wanted, (i, j), value)
    made = spfgen.blocks(bag.from_sequence(pairs, npartitions=3), {0: 3, 1: 2}, shape=(4, 3), layout="csr")
    np.testing.assert_array_equal(made.compute().to_numpy(), wanted)
    np.testing.assert_array_equal((made @ np.ones(3, int)).compute(), wanted.sum(1))
    assert made.dtype == int
    far = spfgen.blocks(bag.from_sequence([((9, 0), 1.0)]), {0: 2}, shape=(4, 3))
    with pytest.raises(spfgen.SpfgenError, match="below 4 along axis 0, but one is 9"):
        far.compute()
    with pytest.raises(spfgen.SpfgenError, match="2 coordinates for each value"):
        spfgen.blocks(bag.from_sequence([3, 4]), {0: 2}, shape=(4, 3)).compute()
    with pytest.raises(spfgen.SpfgenError, match="the shape of the whole beside a bag"):
        spfgen.blocks(bag.from_sequence(pairs), {0: 2})


@pytest.mark.exhaustive
def test_a_layout_for_each_block() -> None:
    dense = np.diag(np.ones(40)) + np.pad(np.ones((20, 20)), (0, 20))
    made = spfgen.blocks(dense, {0: 20, 1: 20}, layout="auto")
    assert len({block.layout.name for block in dict(made.graph).values()}) > 1
    x = np.arange(40.0)
    np.testing.assert_allclose(spfgen.evaluate("y[i] = A[i,j]*x[j]", A=made, x=x).compute(), dense @ x)
    from_bounds = spfgen.blocks(lambda b: dense[slice(*b[0]), slice(*b[1])], {0: 15}, shape=(40, 40), layout="auto")
    np.testing.assert_array_equal(from_bounds.compute().to_numpy(), dense)


def test_compiled_kernels_take_blocks() -> None:
    dense, x = np.diag(np.arange(6.0)), np.arange(6.0)
    kernel = spfgen.compile("C[i,k] = A[i,j]*B[j,k]", A="csr", B="csr", C="csr", deterministic=True, validate="always")
    found = kernel(A=spfgen.blocks(spfgen.pack(dense, "csr"), {0: 4, 1: 3}), B=spfgen.pack(dense, "csr"))
    assert found.compute().layout.name == "csr"
    np.testing.assert_array_equal(found.compute().to_numpy(), dense @ dense)
    spec = spfgen.parse("kernel k { size w tensor x, y : dense for i { if i >= w { y[i] = x[i]*2 } } }")
    half = spec.kernels["k"].compile()(x=spfgen.blocks(x, {0: (1, 0, 4, 1)}), w=3)
    np.testing.assert_array_equal(half.compute(), np.where(x >= 3, 2 * x, 0))


def test_results_that_are_given_stay_as_they_are() -> None:
    x = np.arange(6.0)
    y = spfgen.blocks(np.full(6, 2.0), {0: 4})
    found = spfgen.evaluate("y[i] min= x[i]", x=spfgen.blocks(x, {0: 2}), y=y)
    np.testing.assert_array_equal(found.compute(), np.minimum(x, 2))
    np.testing.assert_array_equal(y.compute(), np.full(6, 2.0))
    s = spfgen.evaluate("d[j] max= A[i,j]", A=spfgen.blocks(np.eye(6), {0: 2, 1: 4}), d=y)
    np.testing.assert_array_equal(s.compute(), np.full(6, 2.0))


def test_what_explain_says() -> None:
    dense = np.eye(12)
    found = spfgen.evaluate("y[i] = A[i+r,j]*w[r]", A=spfgen.blocks(dense, {0: 4}), w=np.ones(3))
    told = found.explain()
    assert "cut along i: 3 blocks of [0, 10)" in told
    assert "the places of i + r" in told
    assert "proved (isl, for all bounds): each point of the iteration space is in one block of work along i" in told
    assert "proved (isl, for all bounds): blocks of work along i write `y` at different places" in told
    np.testing.assert_allclose(found.compute(), [dense[i : i + 3].sum() for i in range(10)])


def test_a_reduction_is_cut_beside_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is called 2.5-D: each layer has a part of the sum, layers are combined in a tree."""
    monkeypatch.setattr("spfgen.tuning.CLUSTER_PACK", 1.0)  # blocks are taken as they are
    dense = np.random.default_rng(6).integers(0, 3, (8, 8)).astype(float)
    a, b = (spfgen.blocks(dense, cut, layout="csr") for cut in ({0: 4, 1: 2}, {0: 2, 1: 4}))
    found = spfgen.evaluate("C[i,j] = A[i,k]*B[k,j]", A=a, B=b, out="csr")
    assert "2.5-D: a grid of i x j for each part of k; parts of operands are replicated" in found.explain()
    np.testing.assert_array_equal(found.compute().to_numpy(), dense @ dense)


def test_a_matrix_with_more_places_than_an_array_may_have() -> None:
    n = 10**10
    ends = [0, 1, n - 1]
    made = spfgen.blocks((np.array([ends, ends[::-1]]), np.array([1.0, 2.0, 3.0])), count={0: 2}, shape=(n, n))
    found = spfgen.evaluate("s = A[i,j]", A=made)
    assert float(found.compute()) == 6.0


SLICES = {
    "r[i] = y[i(1:9:2)]": "the places of 2*i + 1",
    "r[i] = y[i(::-1)]": "",
    "r[i,j] = A[i(1:4),j(::2)]": "the places of i + 1",
    "r[k] = slice(y[j], j -> k, (2, 8, 3))": "the places of 3*k + 2",
    "r[i] = sum(k: slice(A[i,j], j -> k, (1, 5, 2)))": "cut along i",
    "r[i] = y[i(2:7)] + y[i(0:5)]": "not cut along i: a view binds it",
}


@pytest.mark.parametrize("text", SLICES)
def test_slices(text: str) -> None:
    """They are read as subscripts, so that what they bind is cut; but where that is no subscript."""
    rng = np.random.default_rng(3)
    used = {n: v for n, v in operands(rng, None).items() if n in uses(text)}
    blocked = {n: spfgen.blocks(v, {0: 2}) for n, v in used.items()}
    check(text, used, blocked, {})
    assert SLICES[text] in spfgen.evaluate(text, **blocked).explain()


def test_ranges_that_conditions_alone_say() -> None:
    """A block of work has its part of them, whether the index is cut or not."""
    x = np.arange(1.0, 7.0)
    text = "r[i] = sum(p: x[2*i+p]*(p+1) where 0 <= p < 2)"
    loops = spfgen.parse("kernel k { tensor x, y : dense for i, p { y[i] += x[2*i+p] where 0 <= p < 2 } }").kernels["k"]
    for width in (1, 2, 4):
        with any_cuts(np.random.default_rng(width)):
            found = spfgen.evaluate(text, x=spfgen.blocks(x, {0: width}))
            updated = loops.compile()(x=spfgen.blocks(x, {0: width}), y=spfgen.blocks(np.ones(3), {0: 2}))
        np.testing.assert_array_equal(found.compute(), x[::2] + 2 * x[1::2])
        np.testing.assert_array_equal(updated.compute(), x[::2] + x[1::2] + 1)


def test_a_band_needs_the_blocks_on_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of work without points are left out, and of what is read beside a block goes what belongs to the band."""
    n, width = 20, 5
    i, j = np.indices((n, n))
    dense, x = np.random.default_rng(2).random((n, n)), np.arange(n, dtype=float)
    band = np.where(abs(i - j) <= 3, dense, 0)
    a = spfgen.blocks(dense, {0: width, 1: width}, layout="csr")
    text = "y[i] = sum(j: A[i,j]*x[j] where abs(i-j) <= 3)"
    rows = spfgen.evaluate(text, A=a.rechunk([a.bounds[0], (0, n)]), x=x)
    monkeypatch.setattr("spfgen.tuning.CLUSTER_PACK", 1.0)  # blocks are taken as they are
    found = spfgen.evaluate("C[i,j] = A[i,j] where abs(i-j) <= 3", A=a, out="csr")
    product = spfgen.evaluate(text, A=a, x=x)
    for made in (found, product):
        assert "10 of 16 blocks of work have something to do" in made.explain()
        assert sum(str(k[0]).startswith("work-") for k in dict(made.graph)) == 10
    assert "x: the places of j that belong to its part of i" in rows.explain()
    assert "A: its part of i, whole" in rows.explain(), "what is there is not cut"
    np.testing.assert_array_equal(found.compute().to_numpy(), band)
    np.testing.assert_allclose(product.compute(), band @ x)
    np.testing.assert_allclose(rows.compute(), band @ x)


def test_bands_read_places_with_one_text() -> None:
    """The numbers that differ from block to block are arguments: all share a kernel."""
    from spfgen.cluster.tasks import RunKernel

    x = spfgen.blocks(np.arange(60.0), {0: 4})
    found = spfgen.evaluate("y[i] = sum(j: x[i+j] where abs(i-j) <= 2)", sizes={"i": 30, "j": 30}, x=x)
    texts = {t[0].text for t in dict(found.graph).values() if isinstance(t, tuple) and isinstance(t[0], RunKernel)}
    assert len(texts) == 1
    wanted = [sum(i + j for j in range(max(0, i - 2), min(30, i + 3))) for i in range(30)]
    np.testing.assert_array_equal(found.compute(), wanted)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("word", ["argmin", "argmax"])
def test_places_of_the_best(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts have their best value beside its place: nan wins, then the first among equals; -1 where there is none."""
    monkeypatch.setattr("spfgen.tuning.CLUSTER_TASK", -1.0)
    dense = np.random.default_rng(4).integers(0, 3, (6, 9)).astype(float)
    dense[1, 7] = dense[2, 2] = dense[2, 8] = np.nan
    for array in (dense, np.nan_to_num(dense).astype(np.uint8), dense > 1):
        a = spfgen.blocks(array, {0: 4, 1: (2, 0, 1, 6)})
        found = spfgen.evaluate(f"r[i] = {word}(j: A[i,j])", A=a)
        assert f"results are combined by {word}" in found.explain()
        np.testing.assert_array_equal(found.compute(), getattr(array, word)(axis=1))
        assert found.compute().dtype == found.dtype == np.int64
        one = spfgen.evaluate(f"r = {word}(j: x[j])", x=spfgen.blocks(array[0], {0: 2}))
        assert int(one.compute()) == getattr(array[0], word)()
    text = f"r[i] = {word}(j: A[i,j] where j < i - 3)"
    some = spfgen.evaluate(text, A=spfgen.blocks(dense, {0: 2, 1: 3}), out="sv fill -1")
    wanted = [-1, -1, -1, -1, *[getattr(dense[i, : i - 3], word)() for i in (4, 5)]]
    np.testing.assert_array_equal(some.compute().to_numpy(), wanted)
    kept = spfgen.evaluate(f"r[i] = {word}(j: A[i,j])", A=spfgen.blocks(dense * 1j, {1: 3}))
    assert f"not cut along j: `{word}` of complex numbers" in kept.explain()


def test_where_nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of a result in which the condition never holds has its fill value, or the identity of a reduction."""
    a = spfgen.blocks(np.ones((8, 8)), {0: 2, 1: 2})
    monkeypatch.setattr("spfgen.tuning.CLUSTER_TASK", -1.0)
    least = spfgen.evaluate("y[i] = min(j: A[i,j] where j < i - 5)", A=a)
    filled = spfgen.evaluate("C[i,j] = A[i,j] where j < i - 5", A=a, out="csr fill 7")
    kept = spfgen.evaluate("y[i] += A[i,j] where j < i - 5", A=a, y=spfgen.blocks(np.ones(8), {0: 4}))
    np.testing.assert_array_equal(least.compute(), [np.inf] * 6 + [1, 1])
    i, j = np.indices((8, 8))
    np.testing.assert_array_equal(filled.compute().to_numpy(), np.where(j < i - 5, 1, 7))
    x = spfgen.pack(np.full(8, 2.0), "sv fill 2")
    fills = spfgen.evaluate(
        "C[i,j] = A[i,j] + x[j] where j < i - 5", A=spfgen.blocks(np.ones((8, 8)), {0: 2}, layout="csr"), x=x
    )
    np.testing.assert_array_equal(fills.compute(), np.where(j < i - 5, 3, 2))
    np.testing.assert_array_equal(kept.compute(), [1] * 6 + [2, 3])


def test_what_combines_depends_on_the_type() -> None:
    """The least of floats may be found in any order; of complex numbers it may not."""
    dense = np.arange(12.0).reshape(3, 4) - 5
    for array, said in ((dense, "results are combined by minimum"), (dense * 1j, "not cut along j: `minimum` of com")):
        with any_cuts(np.random.default_rng(1)):
            found = spfgen.evaluate("y[i] = min(j: A[i,j])", A=spfgen.blocks(array, {1: 2}))
        assert said in found.explain()
        np.testing.assert_array_equal(found.compute(), array.min(1))


def test_an_index_that_two_loops_bind_with_other_extents() -> None:
    text = "for j { q[j] min= min(k: A[k, j]); for l { for k, i { R[k, l] -= A[i, j] } } }"
    kernel = spfgen.parse(f"kernel k {{ tensor A, R, q : dense {text} }}").kernels["k"].compile()
    a = np.arange(12.0).reshape(3, 4)
    found = kernel(A=spfgen.blocks(a, {1: 3}), R=spfgen.blocks(np.ones((5, 2)), {0: 2}), q=spfgen.blocks(np.ones(4)))
    np.testing.assert_array_equal(found["R"].compute(), np.full((5, 2), 1 - a.sum()))
    np.testing.assert_array_equal(found["q"].compute(), np.minimum(a.min(0), 1))


def test_a_local_tensor_that_is_read_before_it_is_written() -> None:
    text = "for l { y[l] += w[l] + x[l] } for l { w[l] += x[l] } for l { y[l] += w[l] }"
    kernel = spfgen.parse(f"kernel k {{ tensor x, y : dense local tensor w : dense {text} }}").kernels["k"].compile()
    x = np.arange(4.0)
    found = kernel(x=spfgen.blocks(x, {0: 2}), y=spfgen.blocks(np.zeros(4), {0: 3}))
    np.testing.assert_array_equal(found.compute(), 2 * x)


def test_blocks_with_another_fill_value() -> None:
    """Of results, of empty blocks, of coordinates beside which nothing is stored, and where blocks differ in it."""
    bag = pytest.importorskip("dask.bag")
    dense = np.zeros((5, 4))
    dense[1, 2] = 3
    a = spfgen.blocks(spfgen.pack(dense, "csr"), {0: (0, 2, 0, 3)})
    kernel = spfgen.compile("C[i,j] = A[i,j] + 1", A="csr", C="csr fill 1")
    for found in (kernel(A=a), spfgen.evaluate("C[i,j] = A[i,j] + 1", A=a, out="csr fill 1")):
        np.testing.assert_array_equal(found.compute().to_numpy(), dense + 1)
        assert found.compute().fill_value == 1
    pairs, wanted = [((0, 1), 2.0), ((3, 2), 1.0)], np.full((5, 4), np.inf)
    wanted[0, 1], wanted[3, 2] = 2, 1
    places = (np.array([[0, 3], [1, 2]]), np.array([2.0, 1.0]))
    for source in (bag.from_sequence(pairs), places):
        made = spfgen.blocks(source, {0: 2}, shape=(5, 4), layout="csr fill inf")
        np.testing.assert_array_equal(made.compute().to_numpy(), wanted)
    mixed = spfgen.blocks(lambda box: spfgen.pack(dense[slice(*box[0])], "csr", fill=box[0][0]), {0: 2}, shape=(5, 4))
    np.testing.assert_array_equal(mixed.compute().to_numpy(), dense)
    np.testing.assert_array_equal(spfgen.evaluate("y[j] = A[i,j]", A=mixed).compute(), dense.sum(0))


BAND = "abs(i-j) <= 2"
CHOICES = {
    f"C[i,j] = where({BAND}, A[i,j], 0)": lambda a, x, b: np.where(b, a, 0),
    "C[i,j] = where(abs(i-j) > k, 0, A[i,j])": lambda a, x, b: np.where(b, a, 0),
    f"C[i,j] = A[i,j]*({BAND})": lambda a, x, b: np.where(b, a, 0),
    f"C[i,j] = where({BAND} and A[i,j] > 0.5, A[i,j], 0)": lambda a, x, b: np.where(b & (a > 0.5), a, 0),
    f"C[i,j] = where({BAND}, A[i,j], 7)": lambda a, x, b: np.where(b, a, 7),
    f"y[i] = sum(j: where({BAND}, A[i,j]*x[j], 0))": lambda a, x, b: np.where(b, a, 0) @ x,
    f"y[i] = where({BAND}, A[i,j], 0)*x[j]": lambda a, x, b: np.where(b, a, 0) @ x,
    f"y[i] = max(j: where({BAND}, A[i,j], -inf))": lambda a, x, b: np.where(b, a, -np.inf).max(1),
    f"y[i] = max(j: where({BAND}, A[i,j], 0.5))": lambda a, x, b: np.where(b, a, 0.5).max(1),
    f"y[i] = sum(j: where({BAND}, A[i,j], 1))": lambda a, x, b: np.where(b, a, 1).sum(1),
    f"y[i] = sqrt(sum(j: where({BAND}, A[i,j]*x[j], 0)))": lambda a, x, b: np.sqrt(np.where(b, a, 0) @ x),
}
ALL_BLOCKS = ("A[i,j], 7)", "A[i,j], 0.5)", "A[i,j], 1)", "sqrt")
"""What these end in: elsewhere they have a value that is no fill value or identity, or cannot be cut along j."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", ["csr", None])
@pytest.mark.parametrize("text", CHOICES)
def test_conditions_in_values(text: str, layout: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice counts only where its condition holds: blocks without such points are left out if the other choice is
    what the result has there anyway."""
    monkeypatch.setattr("spfgen.tuning.CLUSTER_PACK", 1.0)  # blocks are taken as they are
    i, j = np.indices((12, 12))
    dense, x = np.random.default_rng(2).random((12, 12)), np.arange(12.0)
    a = spfgen.blocks(dense, {0: 3, 1: 3}, layout=layout)
    given = {"A": a, **({"x": x} if "x[" in text else {}), **({"k": 2} if " k" in text else {})}
    found = spfgen.evaluate(text, **given, out="csr" if text.startswith("C") else None)
    np.testing.assert_allclose(to_array(found.compute()), CHOICES[text](dense, x, abs(i - j) <= 2))
    is_decided = not any(word in text for word in ALL_BLOCKS)
    if is_decided and len(found.explain().splitlines()[2].split(" x ")) > 1 and layout is not None:
        assert "10 of 16 blocks of work have something to do" in found.explain()


def test_what_a_condition_in_a_value_does_not_leave_out() -> None:
    """A dense factor is a number where the condition fails: 0 times infinity is nan, and blocks say so as one does."""
    dense, x = np.ones((6, 6)), np.array([1, 1, 1, 1, 1, np.inf])
    text = "y[i] = where(i >= j, A[i,j], 0)*x[j]"
    found = spfgen.evaluate(text, A=spfgen.blocks(dense, {0: 2, 1: 2}), x=x)
    np.testing.assert_array_equal(found.compute(), spfgen.evaluate(text, A=dense, x=x))


@pytest.mark.parametrize(
    "text",
    [
        "y[i] = A[i,j]*(i <= j)",
        "for i { if i > 2 { y[i] = A[i,j]*(i <= j) } }",
        "y[i] = sum(k: A[i,k]*(k < i)) + A[i,j]*(i <= j)",
    ],
)
def test_implicit_sums_over_an_index_of_a_condition(text: str) -> None:
    """Blocks read a part of the sum's range; the kernel of a block said that it has no such index."""
    dense = np.arange(64.0).reshape(8, 8)
    whole, found = (spfgen.evaluate(text, A=a) for a in (dense, spfgen.blocks(dense, {0: 2, 1: 2})))
    np.testing.assert_allclose(np.asarray(found.compute()), np.asarray(whole))


@pytest.mark.parametrize("cuts", [{0: 1, 1: 1}, {0: 2, 1: 1}, {0: 3}])
@pytest.mark.parametrize(
    "value",
    ["max(j: {}*x[j])", "prod(j: {}*x[j])", "sum(j: exp({}*x[j]))", "min(j: {}*x[j] + 1)", "any(j: 1 - {}*x[j] > 1)"],
)
def test_a_product_that_is_0_counts_where_a_0_makes_a_difference(value: str, cuts: dict[int, int]) -> None:
    """The other factor has to be read there, and blocks without other points are computed."""
    rng = np.random.default_rng(0)
    dense, x = -rng.random((6, 6)), rng.random(6)
    text = "y[i] = " + value.format("where(abs(i-j) <= 1, A[i,j], 0)")
    whole = spfgen.evaluate(text, A=spfgen.pack(dense, "csr"), x=x)
    found = spfgen.evaluate(text, A=spfgen.blocks(dense, cuts, layout="csr"), x=spfgen.blocks(x, {0: 1}))
    np.testing.assert_allclose(found.compute(), whole)


def stencil(n: int) -> Any:
    rng = np.random.default_rng(1)
    return sp.diags([rng.uniform(-1, 1, n) for _ in range(4)], [-2, 0, 1, 5], shape=(n, n)).tocsr()


NARROWED = {
    "y[i] = A[i,j]*x[j]": ["x"],
    "y[i] = A[i,j]*x[j]/(2 + x[i]) - x[i]": ["x"],
    "y[i] = sum(j: A[i,j]*(x[j] + j))": ["x"],
    "y[i] = sum(j: A[i,j]*x[j] where j < i)": ["x"],
    "s = x[i]*A[i,j]*x[j]": ["x"],
    "y[i] = A[i,j]*B[j,k]*x[k]": ["B"],
    "C[i,j] = A[i,k]*B[k,j]": ["B"],
    "C[i,j] = A[i,k]*A[k,j]": ["A"],
    "C[i,r] = A[i,j]*U[j,r]": ["U"],
    "y[i] = A[i,j]*x[59-j]": ["x"],
    "y[i] = sum(j: A[i,j]*x[j] where abs(i - j) <= 1)": ["x"],
    "y[i] = sum(j: where(abs(i - j) <= 1, A[i,j], 0)*x[j])": ["x"],
    "y[i] = sum(j: A[i,j]*x[j]*(j <= i))": ["x"],
    "C[i,j] = A[i,j]*x[j]": ["x"],
    "C[i,j] = A[i,j]*U[i,r]*U[j,r]": ["U"],
    "C[j,i] = A[i,j]*x[j]": ["x"],
    "z[j] = A[i,j]*x[j]*x[i]": ["x"],
    "C[i,j] = A[i,j]*x[j] + S[i,j]": [],
    "C[i,j] = A[i,j]*x[j] + 1": [],
    "y[i] = max(j: A[i,j]*x[j])": [],
    "y[i] = sum(j: exp(A[i,j]*x[j]))": [],
    "y[i] = sum(j: A[i,j] + x[j])": [],
    "y[i] = A[i,j]*x[j] + S[i,j]*x[j]": [],
}


@pytest.mark.parametrize("layout", ["csr", "coo", "dcsr", "ell"])
@pytest.mark.parametrize("text", NARROWED)
@pytest.mark.sampled(6)
def test_only_what_meets_entries_of_a_block_is_read(text: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where sums go along the columns of a stencil's rows, other operands are read at a few of them."""
    monkeypatch.setattr("spfgen.tuning.CLUSTER_BESIDE", 0.0)
    matrix, rng = stencil(60), np.random.default_rng(2)
    x, u = rng.uniform(-1, 1, 60), rng.uniform(-1, 1, (60, 3))
    other = sp.random(60, 60, 0.2, "csr", rng=3)
    plain = {"A": matrix, "B": matrix, "S": other, "x": x, "U": u}
    used = {n: v for n, v in plain.items() if n + "[" in text}
    out = "csr" if text.startswith("C[i,j]") else None
    whole = spfgen.evaluate(text, **{n: spfgen.pack(v, layout) if n in "ABS" else v for n, v in used.items()}, out=out)
    cut = {n: spfgen.blocks(v, {0: 7}, layout=layout if n in "ABS" else None) for n, v in used.items()}
    for given in (cut, {**cut, **({"x": x} if "x" in used else {})}):
        found = spfgen.evaluate(text, **given, out=out)
        np.testing.assert_allclose(to_array(found.compute()), to_array(whole), atol=1e-12)
        lines = [line for line in found.explain().splitlines() if "where blocks of A have entries" in line]
        narrowed = {line.split(":")[0] for line in lines} - {"A" if text.count("A[") == 1 else ""}
        assert narrowed == (set(NARROWED[text]) if layout != "ell" else set())


def test_a_vector_is_sent_whole() -> None:
    """It is smaller than the matrix: the tasks that cut it would take longer."""
    found = spfgen.evaluate("y[i] = A[i,j]*x[j]", A=spfgen.blocks(stencil(60), {0: 7}), x=np.ones(60))
    assert "where blocks of A have entries" not in found.explain()


def test_blocks_without_entries_read_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spfgen.tuning.CLUSTER_BESIDE", 0.0)
    dense = np.zeros((9, 20))
    dense[0, 3], dense[8, 15], dense[8, 17] = 1, 2, 3
    x = np.arange(20.0)
    found = spfgen.evaluate("y[i] = A[i,j]*x[j]", A=spfgen.blocks(dense, {0: 3}, layout="csr"), x=x)
    np.testing.assert_allclose(found.compute(), dense @ x)
    assert "where blocks of A have entries" in found.explain()

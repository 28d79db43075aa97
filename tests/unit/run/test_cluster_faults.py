"""What goes wrong on a cluster: the result is the same, or the person sees which block and what."""

from __future__ import annotations

import os
import re
import signal
import time
import traceback
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen.errors import DataError, UsageError

distributed = pytest.importorskip("distributed")

N, M, STEP = 40, 12, 10
X = np.arange(float(M))
DENSE = np.where(np.random.default_rng(0).random((N, M)) < 0.3, 2.0, 0.0)


def rows(box):  # type: ignore[no-untyped-def]
    (low, high), _ = box
    return sp.csr_array(DENSE[low:high])


def blocked(function=rows):  # type: ignore[no-untyped-def]
    return spfgen.blocks(function, {"i": STEP}, shape=(N, M), layout="csr")


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    """Two workers in this process, which take no time to start."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "processes": False}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as found:
        yield found


def no_place(box):  # type: ignore[no-untyped-def]
    return sp.csr_array((3, 3)) if box[0][0] == 20 else rows(box)


def no_disk(box):  # type: ignore[no-untyped-def]
    if box[0][0] == 20:
        raise OSError("the disk is gone")
    return rows(box)


def no_memory(box):  # type: ignore[no-untyped-def]
    return np.ones((2**20, 2**36)) if box[0][0] == 20 else rows(box)


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (no_place, DataError, r"expected a block of shape \(10, 12\), but it is \(3, 3\)"),
        (no_disk, OSError, "the disk is gone"),
        (no_memory, MemoryError, "Unable to allocate"),
    ],
)
def test_an_exception_says_in_which_block(client, function, kind, words) -> None:
    with pytest.raises(kind, match=words) as found:
        (blocked(function) @ X).compute()
    assert "in the block [20:30, 0:12]" in "".join(traceback.format_exception_only(found.value))


def test_an_exception_says_in_which_block_of_work(client) -> None:
    at = spfgen.blocks(np.where(np.arange(N) == 25, 99, 0), {"i": STEP})
    with pytest.raises(DataError, match=r"`p\[5\]` is 99(.|\n)*in the block of work i in \[20, 30\) of `y\[i\] = x"):
        spfgen.evaluate("y[i] = x[p[i]]", p=at, x=X).compute()


def test_an_exception_in_a_function_of_blocks(client) -> None:
    def picky(block):  # type: ignore[no-untyped-def]
        if block.ndim == 1 and block[0] == 20:
            raise RuntimeError("not this one")
        return block

    with pytest.raises(RuntimeError, match="not this one") as found:
        spfgen.blocks(np.arange(N), {"i": STEP}).map(picky).compute()
    assert found.value.__notes__ == ["in the block [20:30]"]


@pytest.mark.parametrize(("version", "words"), [("0.0.1", "has 0.0.1"), (None, "has none")])
def test_versions_that_differ_are_said_at_once(client, monkeypatch, version, words) -> None:
    good = blocked()
    said = client.get_versions(packages=["spfgen"])
    said["workers"][min(said["workers"])] = {"packages": {"spfgen": version}}
    monkeypatch.setattr(client, "get_versions", lambda **_: said)
    monkeypatch.setattr("spfgen.cluster.workers._asked", {})
    for plan in (blocked, lambda: good @ X):
        own = said["client"]["packages"]["spfgen"]  # of what is installed
        with pytest.raises(UsageError, match=f"expected spfgen {own} on all .* {words}"):
            plan()


def test_the_scheduler_knows_true_sizes(client) -> None:
    held = blocked().persist()
    distributed.wait(held)
    sizes = client.nbytes(summary=False)
    for place in range(N // STEP):
        tensor = spfgen.pack(DENSE[place * STEP : (place + 1) * STEP], "csr")
        assert tensor.nbytes <= sizes[held.name, place, 0] <= tensor.nbytes + 1000


def test_another_client_gets_what_is_published(client) -> None:
    client.publish_dataset(A=blocked().persist())
    try:
        with distributed.Client(client.scheduler.address) as other:
            np.testing.assert_allclose((other.get_dataset("A") @ X).compute(), DENSE @ X)
    finally:
        client.unpublish_dataset("A")


def test_work_that_is_cancelled_can_be_asked_for_again(client) -> None:
    def slow(box):  # type: ignore[no-untyped-def]
        time.sleep(0.05)
        return rows(box)

    made = blocked(slow)
    client.cancel((made @ X).persist())
    np.testing.assert_allclose((made @ X).compute(), DENSE @ X)


@pytest.mark.exhaustive
def test_a_worker_that_is_killed() -> None:
    """In the middle of computing, and with results that it holds."""

    def slow(box):  # type: ignore[no-untyped-def]
        time.sleep(0.2)
        return rows(box)

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as own:
        held = (blocked(slow) @ X).persist()
        time.sleep(0.3)
        os.kill(min(own.run(os.getpid).values()), signal.SIGKILL)
        np.testing.assert_array_equal(held.compute(), DENSE @ X)
        os.kill(max(own.run(os.getpid).values()), signal.SIGKILL)
        np.testing.assert_array_equal((held + 1).compute(), DENSE @ X + 1)


@pytest.mark.exhaustive
def test_machines_with_other_processors_compile_for_themselves(tmp_path, monkeypatch) -> None:
    """A worker whose processor is another one does not take what is in the cache of the folder that they share."""

    def be_another():  # type: ignore[no-untyped-def]
        from spfgen.run import compile as compiling

        compiling._processor = lambda: "another processor"

    def files() -> set[str]:
        return {p.name for p in tmp_path.rglob("*.so")}

    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path))  # workers have what is set when they begin
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as own,
    ):
        first, second = own.scheduler_info()["workers"]
        own.run(be_another, workers=[second])
        products = [(blocked() @ X) * k for k in (1, 2)]
        for count, worker in enumerate((first, second), 1):
            found = own.compute(products[count - 1], workers=[worker]).result()
            np.testing.assert_allclose(found, DENSE @ X * count)
            assert len(files()) >= count


PROGRAMS = {
    "y[i] = A[i,j]*x[j]": ("A", "x"),
    "y[j] = A[i,j]*u[i]": ("A", "u"),
    "C[i,k] = A[i,j]*A[j,k]": ("A",),
    "C[i,j] = A[i,j]*U[i,r]*V[j,r]": ("A", "U", "V"),
    "C[i,j] = A[i,j] + B[i,j]": ("A", "B"),
    "y[i] = x[i-1] + x[i+1]": ("x",),
}


def received(dask_worker) -> int:  # type: ignore[no-untyped-def]
    return int(sum(one["total"] for one in dask_worker.transfer_incoming_log))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", PROGRAMS)
@pytest.mark.sampled(3)
def test_as_many_bytes_are_sent_as_explain_says(text, monkeypatch) -> None:
    """By the counters of the workers, within a tenth; dask moves no work to others here, as it may do else."""
    n, rng = 4000, np.random.default_rng(0)
    matrix = sp.random_array((n, n), density=5 / n, rng=rng, format="csr")
    given = {
        "A": matrix,
        "B": matrix.T.tocsr(),
        **{k: rng.random(n) for k in "xu"},
        **{k: rng.random((n, 4)) for k in "UV"},
    }
    cut = {"A": {0: 8}, "B": {1: 8}}
    out = "csr" if text.startswith("C") else None
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "processes": False}
    import dask

    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as own,
    ):
        operands = {k: spfgen.blocks(given[k], count=cut.get(k, {0: 8})).persist() for k in PROGRAMS[text]}
        distributed.wait(list(operands.values()))
        made = spfgen.evaluate(text, **operands, out=out)
        before = sum(own.run(received).values())
        held = made.persist()
        distributed.wait(held)
        sent = sum(own.run(received).values()) - before
        said = re.search(r"([\d,]+) bytes sent", made.explain())
    assert said is not None
    assert int(said[1].replace(",", "")) == pytest.approx(sent, rel=0.1, abs=100)


def test_all_workers_have_work_beside_one_large_block(client) -> None:
    """A vector in one block that is larger than each block of the matrix does not draw all work to it."""
    a = spfgen.blocks(sp.eye_array(4000, format="csr"), count={0: 16}).persist()
    x = spfgen.blocks(np.arange(4000.0), count={0: 1}).persist()
    held = spfgen.evaluate("y[i] = A[i,j]*x[j]", A=a, x=x).persist()
    distributed.wait(held)
    places = client.who_has(held)
    assert len({worker for workers in places.values() for worker in workers}) == 2
    np.testing.assert_array_equal(held.compute(), np.arange(4000.0))

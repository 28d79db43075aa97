"""Hash maps, position arrays, bitmaps and scatters: what they need of the keys, and a scatter of all around it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError, SpecError
from spfgen.plan.nodes import Find, FindTable, Scan
from spfgen.run.tensor import Tensor, make_tensor
from tests.unit.plan.asking import (
    ALL,
    FULL,
    SORTED,
    TABLES,
    Layout,
    allowed,
    listed,
    matrix,
    of_kind,
    only,
    run,
    stored,
    vector,
    why_not,
)

DOT = "s = x[i]*y[i]"
BOUNDED = TABLES - {"hash"}
"""What has a place for each possible key."""

# --- the range of the keys ------------------------------------------------------------------------------

SHIFTED = """
layout shifted(n) {
    size nnz
    relation { [p] -> [i] : 0 <= p < nnz and i = idx(p) %s }
    index idx[nnz] { range %s  property strictly increasing }
    value val[nnz] at [p]
}
"""
RANGES = {
    # range of idx, what is added to it -> allowed; idx of a vector of 6
    ("0 <= idx(p) < n", ""): (ALL, [0, 2, 5]),
    ("0 <= idx(p) and idx(p) < n", ""): (ALL, [0, 2, 5]),
    ("0 <= idx(p) <= n - 1", ""): (ALL, [0, 2, 5]),
    ("1 <= idx(p) <= n", "- 1"): (ALL, [1, 3, 6]),
    ("0 <= idx(p) < 2*n", "- 3"): (ALL, [0, 3, 8, 11]),
    ("2 <= idx(p) < n", ""): (ALL, [2, 5]),
    ("-1 <= idx(p) < n", ""): (ALL - BOUNDED, [-1, 0, 5]),
    ("-3 <= idx(p) < n - 3", "+ 3"): (ALL - BOUNDED, [-3, 0, 2]),
    ("0 <= idx(p)", ""): (ALL - BOUNDED, [0, 5, 6, 900]),
    ("idx(p) < n", ""): (ALL - BOUNDED, [-900, -1, 0, 5]),
    ("-n < idx(p) < n", ""): (ALL - BOUNDED, [-5, -1, 0, 5]),
    ("idx(p) <= idx(p)", ""): (ALL - BOUNDED, [-70000, 0, 5, 70000]),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("bounds", "added"), RANGES)
def test_a_place_for_each_key_needs_a_declared_range(bounds: str, added: str) -> None:
    expected, idx = RANGES[bounds, added]
    layout = spfgen.parse(SHIFTED % (added, bounds)).layouts["shifted"]
    assert allowed(DOT, "y.p", ["i"], x="dense", y=layout) == expected
    if not expected & BOUNDED:
        assert "range" in why_not(DOT, "y.p", ["i"], x="dense", y=layout)["array"]
    x, val = np.arange(1.0, 7.0), np.arange(10.0, 10.0 + len(idx))
    shift = int(added.replace(" ", "") or 0)
    wanted = sum(x[i + shift] * v for i, v in zip(idx, val, strict=True) if 0 <= i + shift < 6)
    for algorithm in expected:
        kernel = spfgen.compile(DOT, order=["i"], finds={"y.p": algorithm}, x="dense", y=layout)
        assert run(kernel, x=x, y=stored(layout, 6, idx, val)) == wanted, algorithm


@pytest.mark.parametrize("algorithm", sorted(BOUNDED))
def test_room_for_no_key(algorithm: str) -> None:
    layout = spfgen.parse(SHIFTED % ("+ 1", "0 <= idx(p) < n - 1")).layouts["shifted"]
    kernel = spfgen.compile(DOT, order=["i"], finds={"y.p": algorithm}, x="dense", y=layout)
    assert run(kernel, x=np.zeros(0), y=stored(layout, 0, [], np.zeros(0))) == 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("algorithm", sorted(ALL))
@pytest.mark.parametrize("subscript", ["i + 1", "i - 2", "2*i", "i + j"])
def test_keys_outside_of_the_range_find_nothing(subscript: str, algorithm: str) -> None:
    """The coordinates of x lie where those of y need not."""
    text = f"s = x[i]*z[j]*y[{subscript}]"
    if algorithm not in allowed(text, "y.p", ["x.p"], x="sv_unsorted", z="sv", y="sv"):
        return
    kernel = spfgen.compile(text, order=["x.p"], finds={"y.p": algorithm}, x="sv_unsorted", z="sv", y="sv")
    x = stored("sv_unsorted", 9, [8, 0, 3, 1], [1.0, 2.0, 3.0, 4.0])
    z = stored("sv", 3, [0, 2], [1.0, 5.0])
    y = stored("sv", 4, [0, 1, 3], [10.0, 20.0, 30.0])
    dense = dict(zip([0, 1, 3], [10.0, 20.0, 30.0], strict=True))
    wanted = 0.0
    for i, a in zip([8, 0, 3, 1], [1.0, 2.0, 3.0, 4.0], strict=True):
        for j, b in ((0, 1.0), (2, 5.0)):
            key = {"i + 1": i + 1, "i - 2": i - 2, "2*i": 2 * i, "i + j": i + j}[subscript]
            wanted += a * b * dense.get(key, 0.0)
    assert run(kernel, x=x, y=y, z=z) == wanted


@pytest.mark.parametrize("algorithm", sorted(BOUNDED))
@pytest.mark.parametrize(("x", "y"), [("dense", "sv"), ("csr", "csr")])
def test_memory_that_is_not_there(x: str, y: str, algorithm: str) -> None:
    """Room for 2**60 keys: an error, no crash, and nothing was written. A hash map needs no such room."""
    matrices = x == "csr"
    text = "C[i] = A[i, k]*B[i, k]" if matrices else "C[i] = A[i, k]*y[k]"
    layouts: dict[str, Layout] = (
        {"A": "csr", "B": "csr", "C": "dense"} if matrices else {"A": "csr", "y": "sv", "C": "dense"}
    )
    place = "B.pj" if matrices else "y.p"
    huge = 2**60
    a = csr((3, huge), [0, 1, 1, 2], [5, 7], [2.0, 3.0])
    others: dict[str, Tensor] = {}
    if matrices:
        others["B"] = csr((3, huge), [0, 1, 1, 2], [5, 6], [10.0, 20.0])
    else:
        found = spfgen.parse("").layouts["sv"].layout(1)
        others["y"] = make_tensor(found, {"idx": np.array([5], np.int32), "val": np.array([10.0])}, (huge,))
    output = np.full(3, 77.0)
    kernel = spfgen.compile(text, finds={place: algorithm}, **layouts)
    with pytest.raises((DataError, MemoryError), match="memory"):
        run(kernel, 2, A=a, C=output, **others)
    assert output.tolist() == [77.0] * 3
    hashed = spfgen.compile(text, finds={place: "hash"}, **layouts)
    assert run(hashed, 2, A=a, C=output, **others).tolist() == [20.0, 0.0, 0.0]


def csr(shape: tuple[int, int], rowptr: list[int], colidx: list[int], val: list[float]) -> Tensor:
    layout = spfgen.parse("").layouts["csr"].layout(2)
    arrays: dict[str, Any] = {
        "rowptr": np.array(rowptr, np.int32),
        "colidx": np.array(colidx, np.int32),
        "val": np.array(val),
    }
    return make_tensor(layout, arrays, shape)


# --- the range of the positions ---------------------------------------------------------------------------


def test_a_range_that_changes_in_every_iteration_has_no_table() -> None:
    """The row of B changes with every element of A: a table would be used once."""
    text = "C[i, j] = A[i, j]*B[j, i]"
    assert not allowed(text, "B.pj", ["A.pi"], A="csr", B="csr", C="dense") & TABLES
    assert "range" in why_not(text, "B.pj", ["A.pi"], A="csr", B="csr", C="dense")["hash"]


@pytest.mark.parametrize("algorithm", sorted(TABLES))
def test_a_table_stands_where_its_range_is_known(algorithm: str) -> None:
    """Of a vector above all loops; of a row within the loop over rows, where it must be emptied for the next."""
    kernel = spfgen.compile("C[i] = A[i, k]*y[k]", finds={"y.p": algorithm}, A="csr", y="sv", C="dense")
    assert inside(kernel, FindTable, Scan)
    assert not inside(kernel, Scan, FindTable)
    y = stored("sv", 150, [0, 7, 149], [1.0, 2.0, 3.0])
    a, b = matrix((40, 150), 0.3, 1), matrix((40, 150), 0.1, 2)
    assert np.array_equal(run(kernel, 3, A=a, y=y), a[:, [0, 7, 149]] @ [1, 2, 3])
    kernel = spfgen.compile("C[i] = A[i, k]*B[i, k]", finds={"B.pj": algorithm}, A="csr", B="csr", C="dense")
    assert inside(kernel, Scan, FindTable)
    assert inside(kernel, FindTable, Scan)
    for threads in (1, 3):
        assert np.array_equal(run(kernel, threads, A=a, B=b), (a * b).sum(1))


def inside(kernel: spfgen.Kernel, outer: type, inner: type) -> bool:
    from spfgen.ir import walk

    return any(isinstance(n, inner) for o in of_kind(kernel, outer) for n in walk(o) if n is not o)


# --- equal keys --------------------------------------------------------------------------------------------

KEPT = {
    "property strictly increasing": ("unique", [0, 2, 5]),
    "property injective": ("unique", [5, 0, 2]),
    "property increasing": ("side by side", [0, 2, 2, 2, 5, 5]),
    "property decreasing": ("side by side", [5, 5, 2, 2, 2, 0]),
    "": ("chained", [2, 5, 2, 0, 5, 2]),
}


@pytest.mark.parametrize("algorithm", sorted(TABLES - {"scatter"}))
@pytest.mark.parametrize("properties", KEPT)
def test_equal_keys_are_kept_as_the_layout_allows(properties: str, algorithm: str) -> None:
    """All positions of a key are met, in their order: a walk inside depends on it."""
    kept, idx = KEPT[properties]
    layout = vector(properties)
    kernel = spfgen.compile(DOT, order=["i"], finds={"y.p": algorithm}, x="dense", y=layout)
    assert only(kernel, FindTable).order == kept
    key = only(kernel, Find).key
    assert key is not None
    assert key.unique == (kept == "unique")
    x, val = np.arange(1.0, 7.0), np.arange(10.0, 10.0 + len(idx))
    assert run(kernel, x=x, y=stored(layout, 6, idx, val)) == sum(x[i] * v for i, v in zip(idx, val, strict=True))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("algorithm", sorted(TABLES - {"scatter"}))
@pytest.mark.parametrize("properties", ["property increasing", "property decreasing", ""])
def test_equal_keys_come_in_their_order(properties: str, algorithm: str) -> None:
    """Not only all of them: the columns of a row rise with the positions, and x is followed in that order."""
    layout = listed(properties, "property forall p < q : row(p) = row(q) => col(p) < col(q)")
    order = {"property increasing": slice(None), "property decreasing": slice(None, None, -1), "": [3, 0, 2, 1]}[
        properties
    ]
    row = np.repeat(np.arange(4)[order], 3) if properties else np.array([3, 0, 3, 2, 0, 0, 2, 3, 1])
    a = np.zeros((4, 8))
    col = np.zeros(len(row), int)
    for r in range(4):
        col[row == r] = np.sort(np.random.default_rng(r).choice(8, (row == r).sum(), replace=False))
    val = np.arange(1.0, 1.0 + len(row))
    a[row, col] = val
    arrays: dict[str, Any] = {"row": row.astype(np.int32), "col": col.astype(np.int32), "val": val}
    tensor = spfgen.tensor(layout, shape=(4, 8), **arrays)
    x = np.where(np.arange(8) % 3 == 0, 0, np.arange(1.0, 9.0))
    for walk in ("sequential", "gallop"):
        finds = {"A.p": algorithm, "x.p": walk}
        kernel = spfgen.compile("y[i] = A[i, j]*x[j]", order=["i"], finds=finds, A=layout, x="sv", y="dense")
        for threads in (1, 2):
            assert np.array_equal(run(kernel, threads, A=tensor, x=x), a @ x)


@pytest.mark.parametrize("algorithm", sorted(TABLES))
def test_keys_that_collide(algorithm: str) -> None:
    """Keys whose hashes have the same leading bits, keys that are multiples of powers of two, 0, and the largest."""
    layout = vector("property injective")
    multiplier, n = 0x9E3779B97F4A7C15, 2**18
    keys = np.arange(n, dtype=np.uint64)
    crowded = np.argsort((keys * np.uint64(multiplier)) >> np.uint64(40), kind="stable")[-700:].astype(np.int64)
    far = np.setdiff1d(np.arange(0, n, 1024), crowded)
    idx = np.random.default_rng(0).permutation(np.unique([*crowded, *far, 0, n - 1]))
    val = np.arange(1.0, 1.0 + len(idx))
    x = np.zeros(n)
    x[idx[::2]] = 1
    x[np.setdiff1d(np.arange(n), idx)[::100]] = 1000
    kernel = spfgen.compile(DOT, order=["i"], finds={"y.p": algorithm}, x="dense", y=layout)
    assert run(kernel, x=x, y=stored(layout, n, list(idx), val)) == val[::2].sum()


# --- scatter -------------------------------------------------------------------------------------------------

KERNEL = "kernel k { %s  %s  schedule { order i  find y.p : scatter } }"
FACTOR = {
    # statements and tensors -> whether what y does not store adds nothing
    "s = x[i]*y[i]": True,
    "s = 2*y[i]*x[i]": True,
    "s = -y[i]*x[i]": True,
    "s = x[i]*(-(y[i]*3))": True,
    "s = x[i]*y[i]/4": True,
    "s = x[i]*y[i]*z[i]": True,
    "Z[i] += x[i]*y[i]": True,
    "Z[i] = x[i]*y[i]": True,
    "s = x[i]*y[i]*y[i]": False,
    "s = y[i]*(x[i] + y[i])": False,
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("statement", FACTOR)
def test_a_scatter_needs_a_factor_of_all_that_is_added(statement: str) -> None:
    tensors = {n: "dense" for n in "xzZ" if f"{n}[" in statement} | {"y": "sv"}
    declared = " ".join(f"tensor {n} : {use}" for n, use in tensors.items())
    text = KERNEL % (declared, statement)
    x, z = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([2.0, 0.0, 1.0, 1.0, 0.0])
    y = stored("sv", 5, [1, 3, 4], [10.0, 20.0, 30.0])
    dense = np.array([0.0, 10.0, 0.0, 20.0, 30.0])
    if not FACTOR[statement]:
        with pytest.raises(SpecError, match="`scatter`"):
            spfgen.parse(text).kernels["k"].compile()
        text = text.replace("scatter", "hash")
    kernel = spfgen.parse(text).kernels["k"].compile()
    given: dict[str, Any] = {n: v for n, v in (("x", x), ("y", y), ("z", z)) if n in tensors}
    if "+=" in statement:
        given["Z"] = np.ones(5)
    _, op, right = statement.partition("+=" if "+=" in statement else "=")
    value = eval(right.replace("[i]", ""), {"x": x, "y": dense, "z": z})
    found = run(kernel, **given)
    if statement.startswith("s"):
        assert found == value.sum()
    else:
        assert np.array_equal(found, value + (op == "+="))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "place", "layouts", "reason"),
    [
        ("C[i, j] = A[i, j]*B[i, j]", "B.p", {"A": "dense", "B": "coo_unsorted", "C": "dense"}, "more than the key"),
        ("C[i, j] = A[i, j]*B[i, j]", "B.pb", {"A": "dense", "B": "bcsr", "C": "dense"}, "read at B.pb"),
        ("C[i, j] = A[i, j]*B[i, j]", "B.pi", {"A": "dense", "B": "dcsr", "C": "dense"}, "read at B.pi"),
        ("C[i, j] = A[i, j]*B[i, j]", "B.p", {"A": "csr", "B": "coo", "C": "dense"}, "more than a value"),
        ("s = x[i]*y[i]", "y.p", {"x": "dense", "y": "sv<complex128>"}, "complex"),
        ("s = x[i]*y[i]", "y.p", {"x": "dense<complex128>", "y": "sv<complex64>"}, "complex"),
    ],
)
def test_a_scatter_must_tell_what_is_stored(text: str, place: str, layouts: dict[str, Layout], reason: str) -> None:
    order = ["i"] if "j" not in text or layouts["A"] == "csr" else ["i", "j"]
    may = allowed(text, place, order, **layouts)
    assert "scatter" not in may
    assert {"hash", "array", "bitmap"} <= may
    assert reason in why_not(text, place, order, **layouts)["scatter"]


SPECIAL = {
    "infinite where y stores nothing": ([np.inf, 2.0, -np.inf, 3.0, 1.0], [1.0, 2.0, 3.0]),
    "no number where y stores nothing": ([np.nan, 2.0, np.nan, 3.0, 1.0], [1.0, 2.0, 3.0]),
    "infinite where y stores zero": ([1.0, np.inf, 1.0, 3.0, 1.0], [0.0, 2.0, 3.0]),
    "infinite where y stores minus zero": ([1.0, np.inf, 1.0, 3.0, 1.0], [-0.0, 2.0, 3.0]),
    "y infinite": ([1.0, 2.0, 0.0, 3.0, 1.0], [np.inf, 2.0, 3.0]),
    "y no number": ([1.0, 2.0, 0.0, 3.0, 1.0], [1.0, np.nan, 3.0]),
    "y infinite and x zero": ([1.0, 0.0, 1.0, 3.0, 1.0], [np.inf, 2.0, 3.0]),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("layout", ["sv", "sv_unsorted", "coo_unsorted"])
@pytest.mark.parametrize("special", SPECIAL)
def test_what_is_not_stored_is_not_multiplied(special: str, layout: str, kind: str) -> None:
    """0*inf is no number; but where nothing is stored nothing is multiplied."""
    x, val = SPECIAL[special]
    y = stored(layout, 5, [1, 3, 4], np.array(val, kind))
    x_array = np.array(x, kind)
    with np.errstate(invalid="ignore"):
        wanted = sum(x_array[i] * v for i, v in zip([1, 3, 4], np.array(val, kind), strict=True))
    (position,) = spfgen.parse("").layouts[layout].layout(1).positions
    kernel = spfgen.compile(DOT, order=["i"], finds={f"y.{position}": "scatter"}, x="dense", y=layout)
    np.testing.assert_array_equal(run(kernel, x=x_array, y=y), wanted)


MIXED = [(a, b) for a in ("int32", "int8", "uint8", "bool", "int64") for b in ("float64", "float32", "complex128")]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("of_y", "of_x"), MIXED)
def test_whole_numbers_that_are_not_stored_are_not_multiplied(of_y: str, of_x: str) -> None:
    """Whole numbers have no sign of their own for «not stored»; beside floats 0 is not enough."""
    x = np.array([np.inf, 2.0, np.nan, 3.0, 1.0], of_x)
    y = stored("sv", 5, [1, 3, 4], np.array([1, 1, 1], of_y))
    layouts = {"x": f"dense<{of_x}>", "y": f"sv<{of_y}>"}
    may = allowed(DOT, "y.p", ["i"], **layouts)
    assert "scatter" not in may
    assert "hash" in may
    for algorithm in may & TABLES:
        kernel = spfgen.compile(DOT, order=["i"], finds={"y.p": algorithm}, **layouts)
        assert run(kernel, x=x, y=y) == 6


def test_whole_numbers_without_a_schedule() -> None:
    """As a user meets it: a mask of whole numbers over an array with gaps."""
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", order=["i", "j"], A="dense", x="sv", y="dense")
    a = matrix((200, 100), 1)
    a[:, 3] = np.nan
    for count in (1, 33, 98):
        idx = [j for j in range(100) if j != 3][:count]
        x = stored("sv", 100, idx, np.ones(count, np.int32))
        assert np.array_equal(run(kernel, 2, A=a, x=x), a[:, idx].sum(1))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "other", "val"),
    [
        ("int8", "int64", [100, 100]),
        ("uint8", "int32", [200, 100]),
        ("int32", "float64", [2**31 - 1, 2**31 - 1]),
        ("bool", "int64", [1, 1]),
        ("float32", "float64", [1.0, 2.0**-30]),
    ],
)
def test_equal_keys_add_up_in_the_type_of_the_kernel(kind: str, other: str, val: list[float]) -> None:
    """Not in that of the operand: 100 + 100 is 200, though not in int8."""
    layouts = {"x": f"dense<{other}>", "y": f"coo_unsorted<{kind}>"}
    y = stored("coo_unsorted", 4, [2, 2], np.array(val, kind))
    may = allowed(DOT, "y.p", ["i"], **layouts)
    assert "hash" in may
    for algorithm in may:
        text = "kernel k {{ tensor x : {x} tensor y : {y} tensor s : scalar<{o}> {d} schedule {{ order i find y.p : {a} }} }}"  # noqa: E501
        kernel = spfgen.parse(text.format(d=DOT, a=algorithm, o=other, **layouts)).kernels["k"].compile()
        assert run(kernel, x=np.ones(4, other), y=y) == sum(val), algorithm
    kernel = spfgen.compile(DOT, order=["i"], x="dense", y="coo_unsorted")
    assert run(kernel, x=np.ones(4, other), y=y) == sum(val)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("kind", ["bool", "int8", "int64", "uint16", "float32", "float64"])
@pytest.mark.parametrize("algorithm", sorted(TABLES))
def test_one_type_for_all(algorithm: str, kind: str) -> None:
    """Equal keys, in the type of the kernel; uint16 and int8 wrap as they do without a table."""
    layouts = {"x": f"dense<{kind}>", "y": f"coo_unsorted<{kind}>"}
    text = (
        "kernel k {{ tensor x : {x} tensor y : {y} tensor s : scalar<{o}> {d} schedule {{ order i find y.p : {a} }} }}"
    )
    kernel = spfgen.parse(text.format(d=DOT, a=algorithm, o=kind, **layouts)).kernels["k"].compile()
    x = np.array([1, 1, 0, 1]).astype(kind)
    y = stored("coo_unsorted", 4, [3, 0, 3, 2, 3], np.array([1, 1, 1, 1, 1]).astype(kind))
    assert run(kernel, x=x, y=y) == (1 if kind == "bool" else 4)
    assert FULL[algorithm] == only(kernel, Find).algorithm


def test_sorted_or_not_makes_no_difference_to_a_table() -> None:
    for properties in ("property strictly increasing", "property strictly decreasing", "property injective", ""):
        assert allowed(DOT, "y.p", ["i"], x="dense", y=vector(properties)) - SORTED == TABLES | {"loop"}


# --- flattened searches: a bitmap that is asked for the keys of all rows in one loop ------------------------

PERMUTED = """
layout permuted(nrow, ncol) {
    size nnz, m
    relation { [r, p] -> [i, j] : 0 <= r < nrow and ptr(r) <= p < ptr(r + 1) and i = r and j = perm(%s) }
    index ptr[nrow + 1] { range 0 <= ptr(p) <= nnz  property increasing }
    index col[nnz] { range 0 <= col(p) < m }
    index perm[m] { range 0 <= perm(q) < ncol }
    value val[nnz] at [p]
}
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("algorithm", sorted(ALL))
def test_keys_that_are_read_from_another_place(algorithm: str) -> None:
    """The column of an element is that of a place which its position does not say."""
    layout = spfgen.parse(PERMUTED % "col(p)").layouts["permuted"]
    text, layouts = "y[i] = A[i, j]*x[j]", {"A": layout, "x": "sv", "y": "dense"}
    if algorithm not in allowed(text, "x.p", **layouts):
        return
    rng = np.random.default_rng(2)
    nrow, ncol, nnz, m = 20, 30, 100, 200
    ptr = np.sort(np.concatenate([[0], rng.integers(0, nnz + 1, nrow - 1), [nnz]]))
    col, perm, val = rng.integers(0, m, nnz), rng.integers(0, ncol, m), rng.integers(1, 9, nnz).astype(float)
    arrays: dict[str, Any] = {
        "ptr": ptr.astype(np.int32),
        "col": col.astype(np.int32),
        "perm": perm.astype(np.int32),
        "val": val,
    }
    a = np.zeros((nrow, ncol))
    np.add.at(a, (np.repeat(np.arange(nrow), np.diff(ptr)), perm[col]), val)
    x = np.where(rng.random(ncol) < 0.3, rng.integers(1, 9, ncol), 0).astype(float)
    kernel = spfgen.compile(text, finds={"x.p": algorithm}, **layouts)
    for threads in (1, 3):
        assert np.array_equal(run(kernel, threads, A=spfgen.tensor(layout, shape=a.shape, **arrays), x=x), a @ x)

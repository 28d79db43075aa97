"""The C function alone makes a result in its layout; Python's packer is no part of it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.cir.lower.layout import field_name, finished
from spfgen.run.calls.call import struct_of
from spfgen.run.compile import build, load
from spfgen.run.tensor import Tensor
from tests.fuzz.programs import known_layouts

Array = np.ndarray[Any, Any]
MEMORY, PLACE, INDEX = 3, 5, 6


class Memory(ctypes.Structure):
    """rt/allocator_type.h"""

    _fields_ = (
        ("allocate", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
        ("resize", ctypes.c_void_p),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)),
        ("context", ctypes.c_void_p),
        ("max_workspace", ctypes.c_int64),
    )


def called(
    kernel: Any, tensors: Mapping[str, Tensor], shape: Sequence[int], threads: int = 1, memory: Memory | None = None
) -> tuple[int, Any, Tensor | None]:
    """The status, the struct of the last result that is not given, and what it holds."""
    generated = kernel.generated
    library = load(build(generated.whole))
    program = generated.program
    given, result, declared = [], None, None
    for one in program.tensors:
        own = finished(one)
        struct = struct_of(own)()
        if one.name in tensors:
            tensor = tensors[one.name]
            for name in (*own.layout.parameters, *own.layout.sizes):
                setattr(struct, field_name(name), tensor.sizes[name])
            for name in own.layout.arrays:
                setattr(struct, field_name(name), tensor.arrays[name].ctypes.data)
        else:
            result, declared = struct, own
            for name, extent in zip(own.layout.parameters, shape, strict=True):
                setattr(struct, field_name(name), extent)
        given.append(struct)
    pointers = [ctypes.byref(s) for s in given]
    function = getattr(library, f"{program.name}_in")
    status = function(*pointers, threads, None if memory is None else ctypes.byref(memory))
    if declared is None:
        return status, None, None
    if status:
        assert all(not getattr(result, field_name(a)) for a in declared.layout.arrays), "something is left behind"
        return status, result, None
    sizes = {n: getattr(result, field_name(n)) for n in (*declared.layout.parameters, *declared.layout.sizes)}
    kinds = dict(declared.index_types) | {v.name: declared.value_type for v in declared.layout.values}
    arrays = {}
    for name in declared.layout.arrays:
        extents = [int(e) for e in _shape(declared.layout, name, sizes)]
        kind = np.dtype(kinds[name])
        held = ctypes.string_at(getattr(result, field_name(name)), int(np.prod(extents)) * kind.itemsize)
        arrays[name] = np.frombuffer(held, kind).reshape(extents).copy()
    return status, result, Tensor(declared.layout, sizes, arrays)


def _shape(layout: Any, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    from spfgen.layout.points import shape_of

    return shape_of(layout.extents(name), sizes)


UPPER = """layout upper_rows(nrow, ncol) {
    size nnz
    relation { [i, p] -> [i, j] : 0 <= i < nrow and ptr(i) <= p < ptr(i + 1) and j = idx(p) and j >= i }
    index ptr[nrow + 1] { range 0 <= ptr(q) <= nnz  property increasing  property ptr(0) = 0  property ptr(nrow) = nnz }
    index idx[nnz]      { range 0 <= idx(q) < ncol  property strictly increasing within ptr }
    value val[nnz] at [p]
}
"""


def copying(layout: str, rank: int, value: str = "", before: str = "") -> Any:
    """The kernel that copies entries in any order, some of them twice, to a layout; None where the C makes entries."""
    indices = ", ".join("ijkl"[:rank])
    tensors = f"tensor A : coo_unsorted(rank={rank})  tensor B : {layout}{value}"
    text = f"kernel copied {{ {tensors}  B[{indices}] = A[{indices}] }}"
    kernel = spfgen.parse(before + text).kernels["copied"].compile()
    return kernel if kernel.generated.assemblies else None


def entries(rank: int, count: int, extent: int, seed: int, once: bool = False) -> tuple[Tensor, Array]:
    """In any order, some of them twice; or in order, each `once`."""
    rng = np.random.default_rng(seed)
    coords = tuple(rng.integers(0, extent, count) for _ in range(rank))
    if once:
        coords = tuple(np.unique(np.array(coords), axis=1))
        count = len(coords[0])
    values = rng.integers(1, 9, count) * 1.0
    dense = np.zeros((extent,) * rank)
    np.add.at(dense, coords, values)
    arrays = {f"idx_{k + 1}": c.astype(np.int32) for k, c in enumerate(coords)} | {"val": values}
    return spfgen.tensor(f"coo_unsorted(rank={rank})", shape=dense.shape, **arrays), dense


LAYOUTS = [(rank, name) for rank in (1, 2, 3) for name in known_layouts(rank)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("rank", "layout"), LAYOUTS)
def test_layouts(rank: int, layout: str) -> None:
    kernel = copying(layout, rank)
    if kernel is None:
        pytest.skip("the C makes entries")
    sizes = ((0, 4, 1), (1, 1, 1), (9, 4, 2), (60, 5, 3), (40, 30, 2))
    for (count, extent, threads), once in ((s, once) for s in sizes for once in (False, True)):
        given, dense = entries(rank, count, extent, count, once)
        status, _, found = called(kernel, {"A": given}, (extent,) * rank, threads)
        if status:
            assert status == PLACE, status
            with pytest.raises(spfgen.errors.SpfgenError):
                kernel(A=given)
            continue
        assert found is not None
        found.validate()
        np.testing.assert_array_equal(found.to_numpy(), dense != 0 if found.layout.is_pattern else dense)
        wanted = kernel(A=given)
        assert {n: a.tolist() for n, a in found.arrays.items()} == {n: a.tolist() for n, a in wanted.arrays.items()}


class Counted:
    """An allocator that fails at one of its calls, and knows what is not released."""

    def __init__(self, fails_at: int) -> None:
        self.left: dict[int, Any] = {}
        self.calls, self.fails_at = 0, fails_at
        self.kinds = dict(Memory._fields_)
        allocate, release = self.kinds["allocate"](self.allocate), self.kinds["release"](self.release)
        self.struct = Memory(allocate, None, release, None, 0)

    def allocate(self, _: object, size: int) -> int | None:
        self.calls += 1
        if self.calls == self.fails_at:
            return None
        own = ctypes.create_string_buffer(size)
        self.left[ctypes.addressof(own)] = own
        return ctypes.addressof(own)

    def release(self, _: object, address: int) -> None:
        del self.left[address]


def test_memory_of_the_caller() -> None:
    """All arrays come from it; where one allocation fails nothing is left."""
    kernel = copying("csr", 2)
    given, dense = entries(2, 9, 4, 1)
    for number in range(4):
        memory = Counted(number)
        status, result, found = called(kernel, {"A": given}, (4, 4), memory=memory.struct)
        if number:
            assert (status, memory.left) == (MEMORY, {})
            continue
        assert found is not None
        np.testing.assert_array_equal(found.to_numpy(), dense)
        assert {*memory.left} == {getattr(result, name) for name in ("rowptr", "colidx", "val")}


def test_workspaces_are_limited() -> None:
    kernel = copying("csr", 2)
    given, _ = entries(2, 1000, 50, 1)
    limit = Memory(Memory._fields_[0][1](), None, Memory._fields_[2][1](), None, 100)
    assert called(kernel, {"A": given}, (50, 50), memory=limit)[0] == MEMORY


def test_entries_without_a_place() -> None:
    """What is no fill value has to be stored; the fill value needs no place."""
    kernel = copying("upper_rows", 2, before=UPPER)
    given, dense = entries(2, 30, 5, 3)
    assert called(kernel, {"A": given}, (5, 5))[0] == PLACE
    far = np.subtract(*np.indices((5, 5))) > 0
    given.arrays["val"][far[given.arrays["idx_1"], given.arrays["idx_2"]]] = 0
    status, _, found = called(kernel, {"A": given}, (5, 5))
    assert (status, found is None) == (0, False)
    np.testing.assert_array_equal(found.to_numpy(), np.where(far, 0, dense))


@pytest.mark.parametrize("value", ["<float32>", "<float64, int64>", "<int16>"])
def test_types(value: str) -> None:
    kernel = copying("csr", 2, value)
    given, dense = entries(2, 30, 5, 3)
    _, _, found = called(kernel, {"A": given}, (5, 5))
    assert found is not None
    assert found.dtype == value.strip("<>").split(",", maxsplit=1)[0]
    np.testing.assert_array_equal(found.to_numpy(), dense)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["coo3", "csf3"])
def test_keys_that_do_not_fit_in_64_bits(layout: str) -> None:
    """Three coordinates of 30 bits: the result is made step by step."""
    kernel = copying(layout, 3)
    rng = np.random.default_rng(8)
    coords = rng.integers(0, 2**30, (3, 20)).repeat(2, axis=1)
    arrays = {f"idx_{k + 1}": c.astype(np.int32) for k, c in enumerate(coords)}
    given = spfgen.tensor("coo_unsorted(rank=3)", shape=(2**30,) * 3, val=np.arange(1.0, 41), **arrays)
    status, _, found = called(kernel, {"A": given}, (2**30,) * 3)
    assert status == 0
    wanted = kernel(A=given)
    assert found is not None
    assert {n: a.tolist() for n, a in found.arrays.items()} == {n: a.tolist() for n, a in wanted.arrays.items()}


def test_several_results() -> None:
    """Each in its layout; a dense one beside them."""
    text = """kernel several { tensor A : csr  tensor B : csc  tensor C : dcsr  tensor y : dense
        B[i, j] = 2*A[i, j]
        C[j, i] = A[i, j]
        y[i] = A[i, j] }"""
    generated = spfgen.parse(text).kernels["several"].compile().generated
    library = load(build(generated.whole))
    values = np.array([[0, 1.0, 2], [0, 0, 0], [3, 0, 4]])
    given = spfgen.pack(values, "csr")
    structs = {t.name: struct_of(finished(t))() for t in generated.program.tensors}
    for name in ("nrow", "ncol", "nnz"):
        setattr(structs["A"], name, given.sizes[name])
    for name, array in given.arrays.items():
        setattr(structs["A"], name, array.ctypes.data)
    y = np.zeros(3)
    structs["y"].n_1, structs["y"].val = 3, y.ctypes.data
    assert library.several(*map(ctypes.byref, structs.values()), 1) == 0
    assert (structs["B"].nnz, structs["C"].nnz, structs["C"].nnzrow) == (4, 4, 3)
    colptr = ctypes.cast(structs["B"].colptr, ctypes.POINTER(ctypes.c_int32))
    assert colptr[:4] == [0, 1, 2, 4]
    np.testing.assert_array_equal(y, values.sum(1))


def sharing(use: str, own: str = "csr") -> Any:
    text = (
        f"kernel shared {{ tensor A : csr{use}  tensor x : dense  tensor C : {own} shares A  C[i, j] = A[i, j]*x[j] }}"
    )
    return spfgen.parse(text).kernels["shared"].compile()


@pytest.mark.parametrize(("use", "own"), [("", "csr"), ("<float64, int64>", "csr"), ("", "csr<float32, int64>")])
def test_results_with_the_pattern_of_an_operand(use: str, own: str) -> None:
    """Without arrays they are made over copies; each allocation fails once."""
    kernel = sharing(use, own)
    values = np.array([[0, 1.0, 2], [0, 0, 0], [3, 0, 4]])
    wide = np.int64 if use else np.int32
    a = spfgen.pack(values, "csr")
    a = Tensor(a.layout, a.sizes, {n: v.astype(wide) if n != "val" else v for n, v in a.arrays.items()})
    operands = {"A": a, "x": spfgen.tensor("dense", shape=(3,), val=np.array([1.0, 0, 3]))}
    for number in range(4):
        memory = Counted(number)
        status, result, found = called(kernel, operands, (0, 0), memory=memory.struct)
        if number:
            assert (status, memory.left) == (MEMORY, {})
            continue
        assert found is not None
        found.validate()
        np.testing.assert_array_equal(found.to_numpy(), values * [1, 0, 3])
        assert found.sizes["nnz"] == 4  # x[1] is 0: the pattern is that of A
        assert {*memory.left} == {getattr(result, name) for name in ("rowptr", "colidx", "val")}


def test_indices_that_do_not_fit_a_shared_pattern() -> None:
    arrays = {"rowptr": np.array([0, 1]), "colidx": np.array([2**40]), "val": np.ones(1)}
    a = Tensor(spfgen.pack(np.zeros((1, 1)), "csr").layout, {"nrow": 1, "ncol": 2**41, "nnz": 1}, arrays)
    text = "kernel wide { tensor A : csr<float64, int64>  tensor C : csr shares A  C[i, j] = 2*A[i, j] }"
    memory = Counted(0)
    kernel = spfgen.parse(text).kernels["wide"].compile()
    assert called(kernel, {"A": a}, (0, 0), memory=memory.struct)[0] == INDEX
    assert not memory.left
    implicit = spfgen.parse(text.replace(" shares A", "")).kernels["wide"].compile()
    assert called(implicit, {"A": a}, (0, 0), memory=memory.struct)[0] == INDEX


def test_a_shared_result_that_comes_with_arrays() -> None:
    """It is written in place."""
    kernel = sharing("")
    values = np.array([[0, 1.0, 2], [3, 0, 4]])
    a = spfgen.pack(values, "csr")
    operands = {"A": a, "x": spfgen.tensor("dense", shape=(3,), val=np.array([1.0, 2, 3]))}
    given = Tensor(a.layout, a.sizes, {**a.arrays, "val": np.zeros(a.nnz)})
    memory = Counted(0)
    status, _, _ = called(kernel, {**operands, "C": given}, (), memory=memory.struct)
    assert (status, memory.calls) == (0, 0)
    np.testing.assert_array_equal(given.to_numpy(), values * [1, 2, 3])


def test_results_that_share_a_part_of_the_pattern_of_an_operand() -> None:
    """Where A has a fibre the result has one, too: with the fill value, where nothing else is in it."""
    text = """kernel part { tensor A : csf3  tensor B : csr  tensor C : csf3 shares A on i, j
        C[i, j, l] = A[i, j, k]*B[k, l] }"""
    kernel = spfgen.parse(text).kernels["part"].compile()
    left, right = np.zeros((3, 3, 3)), np.zeros((3, 4))
    left[0, 1, 2], left[2, 0, 1], left[2, 2, 2], right[2, 3] = 2, np.inf, 4, 5
    a, b = spfgen.pack(left, "csf3"), spfgen.pack(right, "csr")
    for number in (0, 1, 2, 5):
        memory = Counted(number)
        status, _, found = called(kernel, {"A": a, "B": b}, (0, 0, 0), memory=memory.struct)
        if number:
            assert (status, memory.left) == (MEMORY, {})
            continue
        assert found is not None
        found.validate()
        for name in ("idx_1", "ptr_2", "idx_2"):
            np.testing.assert_array_equal(found.arrays[name], a.arrays[name])
        expected = np.zeros((3, 3, 4))
        expected[0, 1, 3], expected[2, 2, 3] = 10, 20
        np.testing.assert_array_equal(found.to_numpy(), expected)


def test_results_that_share_a_pattern_with_each_other() -> None:
    """The last one has the pattern of the one before, and neither comes with arrays."""
    text = """kernel both { tensor A, B : csr  tensor C : csr  tensor D : csr shares C
        C[i, j] = A[i, k]*B[k, j]
        D[i, j] = A[i, j] }"""
    kernel = spfgen.parse(text).kernels["both"].compile()
    values = np.array([[1.0, 2, 0], [0, 3, 0], [4, 0, 5]])
    a = spfgen.pack(values, "csr")
    for number in range(8):
        memory = Counted(number)
        status, _, found = called(kernel, {"A": a, "B": a}, (0, 0), memory=memory.struct)
        if status:
            assert (status, memory.left) == (MEMORY, {})
            assert 0 < number < 7
            continue
        assert found is not None
        found.validate()
        np.testing.assert_array_equal(found.to_numpy(), values)
        assert found.sizes["nnz"] == 5 + 1  # (2, 1) is stored in C


LIMITED: Mapping[str, Callable[[Array, Array], Array]] = {
    "C[j, i] = A[i, j]": lambda a, b: a.T,
    "C[i, j] = 2*A[i, j] + B[i, j]": lambda a, b: 2 * a + b,
    "C[i, j] = A[i, k]*B[k, j]": lambda a, b: a @ b,
    "C[i, j] = A[i, j]; C[i, j] -= B[j, i]": lambda a, b: a - b.T,
}


def limited(text: str, layout: str) -> tuple[Any, dict[str, Tensor], Array]:
    """A kernel, operands of 80 rows with more than 60 entries each, and the result."""
    tensors = "A, B" if "B[" in text else "A"
    kernel = spfgen.parse(f"kernel limited {{ tensor {tensors} : csr  tensor C : {layout}  {text} }}").kernels[
        "limited"
    ]
    rng = np.random.default_rng(5)
    a, b = (np.where(rng.random((80, 80)) < 0.03, rng.integers(1, 5, (80, 80)), 0) * 1.0 for _ in "AB")
    operands = {n: spfgen.pack(v, "csr") for n, v in zip("AB", (a, b), strict=True) if f"{n}[" in text}
    return kernel.compile(), operands, LIMITED[text](a, b)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", ["csr", "coo", "dcsr", "csc", "csr_unsorted", "ell"])
@pytest.mark.parametrize("text", LIMITED)
def test_indices_beyond_the_largest(text: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if 60 were the largest number of 32 bits: refused, and nothing is left behind."""
    compiled = build
    monkeypatch.setitem(called.__globals__, "build", lambda whole: compiled(whole.replace("INT32_MAX", "60")))
    kernel, operands, _ = limited(text, layout)
    memory = Counted(0)
    assert called(kernel, operands, (0, 0), 2, memory.struct)[0] == INDEX
    assert not memory.left


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", ["csr", "coo", "dcsr", "csc", "csr_unsorted", "ell"])
@pytest.mark.parametrize("text", LIMITED)
def test_any_limit_of_workspaces(text: str, layout: str) -> None:
    """With each there is no memory, and nothing is left behind, or the result is what it is without."""
    kernel, operands, expected = limited(text, layout)
    for most in (1, 1000, 10_000, 100_000, 0):
        memory = Counted(0)
        memory.struct.max_workspace = most
        status, _, found = called(kernel, operands, (0, 0), 2, memory.struct)
        if most and status:
            assert (status, memory.left) == (MEMORY, {})
            continue
        assert found is not None
        np.testing.assert_array_equal(found.to_numpy(), expected)

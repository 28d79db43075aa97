"""What numpy's arrays can do, by name and by sign: shared by tensors and by lazy arrays.

Who inherits says what a function of single values, a reduction and a matrix product are (`_called`, `_reduced`, ...).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, Protocol, Self, TypeVar, overload

import numpy as np

from spfgen.late_imports import LateImport
from spfgen.public import Public

NAMESPACE: LateImport[Any] = LateImport("namespace")
"""spfgen.array"""

S = TypeVar("S", bound="Operators[Any, Any]")
C = TypeVar("C")
R = TypeVar("R", covariant=True)
"""What reductions give: arrays or numbers, by the rank, which types do not know; of lazy arrays lazy ones."""
K = TypeVar("K", covariant=True)
"""What they give with `keepdims`: an array always."""


class _Applied(Protocol[C]):
    """A sign with what stands before it: beside a number or one of its kind it gives one of its kind."""

    @overload
    def __call__(self, other: C | complex, /) -> C: ...
    @overload
    def __call__(self, other: object, /) -> Any: ...


class _Sign(Protocol):
    """What type checkers see of `+` and its like."""

    def __get__(self, before: S, kind: type | None = None) -> _Applied[S]: ...


class _Extreme(Protocol[R, K]):
    @overload
    def __call__(
        self, axis: Any = None, out: None = None, *, keepdims: Literal[True], initial: Any = None, where: Any = True
    ) -> K: ...
    @overload
    def __call__(
        self, axis: Any = None, out: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True
    ) -> R: ...


class _Truth(Protocol[R, K]):
    @overload
    def __call__(self, axis: Any = None, out: None = None, *, keepdims: Literal[True], where: Any = True) -> K: ...
    @overload
    def __call__(self, axis: Any = None, out: Any = None, *, keepdims: bool = False, where: Any = True) -> R: ...


class _Place(Protocol[R, K]):
    @overload
    def __call__(self, axis: Any = None, out: None = None, *, keepdims: Literal[True]) -> K: ...
    @overload
    def __call__(self, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> R: ...


def _elementwise(name: str, reflected: bool = False) -> _Sign:
    method: Any = _binary(name, reflected)
    sign: _Sign = method
    return sign


def _binary(name: str, reflected: bool = False) -> Callable[[Any, object], Any]:
    function = getattr(np, name)

    def operator(self: Operators[Any, Any], other: object) -> Any:
        if not self._goes_with(other):
            _check_imports(self, other)
            return NotImplemented
        return self._called(function, (other, self) if reflected else (self, other), {})

    operator.__doc__ = f"numpy.{name}{' with the operands exchanged' if reflected else ''}."
    return operator


def _check_imports(*operands: object) -> None:
    """Raises UsageError for what an earlier import of spfgen made."""
    from spfgen.public import check_import

    for operand in operands:
        check_import(operand)


def _unary(name: str) -> Callable[[S], S]:
    function = getattr(np, name)

    def operator(self: S) -> S:
        result: S = self._called(function, (self,), {})
        return result

    operator.__doc__ = f"numpy.{name}."
    return operator


def _words(first: str, types: str, example: str) -> str:
    """The docstring of a reduction."""
    shapes = "Shapes: any; the axes are left out, or have extent 1 with `keepdims`."
    fill = "Fill: counts wherever nothing is stored; the result is dense."
    cost = "Cost: a pass over what is stored, and a group for each element of the result."
    return f"{first}\n\n{shapes} Types: {types}.\n{fill}\n{cost}\n\n{example}\n"


def _extreme(name: str, doc: str) -> Any:
    def method(
        self: Operators[Any, Any],
        axis: Any = None,
        out: Any = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        return self._reduced(name, axis, keepdims, out=out, initial=initial, where=where)

    method.__doc__ = doc
    return method


def _truth(name: str, doc: str) -> Any:
    def method(
        self: Operators[Any, Any], axis: Any = None, out: Any = None, *, keepdims: bool = False, where: Any = True
    ) -> Any:
        return self._reduced(name, axis, keepdims, out=out, where=where)

    method.__doc__ = doc
    return method


def _place(name: str, doc: str) -> Any:
    def method(self: Operators[Any, Any], axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        return self._reduced(name, axis, keepdims, out=out)

    method.__doc__ = doc
    return method


class Operators(Public, Generic[R, K]):
    """Signs and methods of numpy's arrays."""

    __slots__ = ()

    shape: Any
    dtype: Any

    def _called(self, function: np.ufunc, operands: Sequence[object], options: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _reduced(self, name: str, axis: Any, keepdims: bool, **options: Any) -> Any:
        raise NotImplementedError

    def _goes_with(self, other: object) -> bool:
        raise NotImplementedError

    def transpose(self, *axes: Any) -> Self:
        raise NotImplementedError

    def _number(self) -> Any:
        """The only element."""
        raise NotImplementedError

    def __float__(self) -> float:
        return float(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in "iu":
            raise TypeError(f"expected one integer as an index, but the shape is {self.shape}, of {self.dtype}")
        return int(self._number())

    def __setitem__(self, key: object, value: object) -> None:
        """Tensors share arrays, and are not written to. Raises TypeError."""
        raise TypeError(
            "expected a mutable array, but tensors are immutable: write "
            "numpy.where(mask, value, T) for a new one, or T.to_numpy()"
        )

    def __complex__(self) -> complex:
        return complex(self._number())

    __add__, __radd__ = _elementwise("add"), _elementwise("add", True)
    __sub__, __rsub__ = _elementwise("subtract"), _elementwise("subtract", True)
    __mul__, __rmul__ = _elementwise("multiply"), _elementwise("multiply", True)
    __truediv__, __rtruediv__ = _elementwise("true_divide"), _elementwise("true_divide", True)
    __floordiv__, __rfloordiv__ = _elementwise("floor_divide"), _elementwise("floor_divide", True)
    __mod__, __rmod__ = _elementwise("remainder"), _elementwise("remainder", True)
    __divmod__, __rdivmod__ = _binary("divmod"), _binary("divmod", True)
    __rpow__ = _elementwise("power", True)
    __matmul__, __rmatmul__ = _binary("matmul"), _binary("matmul", True)
    __and__, __rand__ = _elementwise("bitwise_and"), _elementwise("bitwise_and", True)
    __or__, __ror__ = _elementwise("bitwise_or"), _elementwise("bitwise_or", True)
    __xor__, __rxor__ = _elementwise("bitwise_xor"), _elementwise("bitwise_xor", True)
    __lshift__, __rlshift__ = _elementwise("left_shift"), _elementwise("left_shift", True)
    __rshift__, __rrshift__ = _elementwise("right_shift"), _elementwise("right_shift", True)
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")
    __lt__, __le__ = _elementwise("less"), _elementwise("less_equal")
    __gt__, __ge__ = _elementwise("greater"), _elementwise("greater_equal")
    __hash__ = object.__hash__
    __neg__, __pos__, __abs__ = _unary("negative"), _unary("positive"), _unary("absolute")
    __invert__ = _unary("invert")

    @overload
    def __pow__(self, other: Self | complex) -> Self: ...
    @overload
    def __pow__(self, other: object) -> Any: ...
    def __pow__(self, other: object) -> Any:
        if not self._goes_with(other):
            return NotImplemented
        if type(other) is int and other == 2:  # as numpy does it
            return self._called(np.square, (self,), {})
        return self._called(np.power, (self, other), {})

    @property
    def T(self) -> Self:  # noqa: N802
        """The transpose: the dimensions in the reverse order. Cost: that of `transpose`.

        >>> A.T.to_numpy()
        array([[0. , 1. ],
               [0.5, 0. ]])
        """
        return self.transpose()

    @property
    def mT(self) -> Self:  # noqa: N802
        """The last two dimensions exchanged. Raises ValueError where there are fewer. Cost: that of `transpose`.

        >>> A[None].mT.shape
        (1, 2, 2)
        """
        rank = len(self.shape)
        if rank < 2:
            raise ValueError(f"expected two dimensions or more, but the shape is {self.shape}")
        return self.transpose(*range(rank - 2), rank - 1, rank - 2)

    @property
    def device(self) -> str:
        """Where the arrays are: "cpu", as the array API standard asks.

        >>> A.device
        'cpu'
        """
        return "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> Self:
        """The array itself: there is one device. Raises ValueError for another one.

        Shapes: any. Types: any. Fill: stays. Cost: none.

        >>> A.to_device("cpu") is A
        True
        """
        if device != "cpu" or stream is not None:
            raise ValueError(f'expected the device "cpu", which is the only one, but it is {device!r}')
        return self

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """`spfgen.array`, the namespace of the array API standard. Raises ValueError for a version that it is not."""
        versions = ("2021.12", "2022.12", "2023.12", "2024.12")
        if api_version not in (None, *versions):
            raise ValueError(f"expected a version of the array API up to {versions[-1]}, but it is {api_version!r}")
        return NAMESPACE()

    def conj(self) -> Self:
        """The complex conjugate of each element; numbers that are not complex as they are.

        Shapes: any, which stay. Types: any, which stay. Fill: is conjugated, too. Cost: a pass over what is stored;
        none for numbers that are not complex.

        >>> C.conj().imag.to_numpy()
        array([[ 0., -1.],
               [-2.,  0.]])
        """
        if self.dtype.kind != "c":
            return self

        result: Self = self._called(np.conjugate, (self,), {})
        return result

    @overload
    def sum(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        *,
        keepdims: Literal[True],
        initial: Any = None,
        where: Any = True,
    ) -> K: ...
    @overload
    def sum(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> R: ...
    def sum(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        """numpy.sum; numbers are added to `initial`, and those where `where` is false are left out.

        Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: any, or `dtype`; of small integers
        and bool 64 bits. Fill: counts wherever nothing is stored; the result is dense. Cost: a pass over what is
        stored, and a group for each element of the result.

        >>> A.sum(axis=1)
        array([0.5, 1. ])
        """
        return self._reduced("add", axis, keepdims, dtype=dtype, out=out, initial=initial, where=where)

    @overload
    def prod(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        *,
        keepdims: Literal[True],
        initial: Any = None,
        where: Any = True,
    ) -> K: ...
    @overload
    def prod(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> R: ...
    def prod(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        """numpy.prod: the product.

        Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: any, or `dtype`; of small integers
        and bool 64 bits. Fill: counts wherever nothing is stored; the result is dense. Cost: a pass over what is
        stored, and a group for each element of the result.

        >>> (A + 1).prod()
        np.float64(3.0)
        """
        return self._reduced("multiply", axis, keepdims, dtype=dtype, out=out, initial=initial, where=where)

    max: _Extreme[R, K] = _extreme(
        "maximum", _words("numpy.max: the largest value.", "any, which stay", ">>> A.max(axis=0)\narray([1. , 0.5])")
    )
    min: _Extreme[R, K] = _extreme(
        "minimum", _words("numpy.min: the smallest value.", "any, which stay", ">>> A.min()\nnp.float64(0.0)")
    )
    any: _Truth[R, K] = _truth(
        "logical_or", _words("numpy.any: whether an element is true.", "any; bool", ">>> A.any()\nnp.True_")
    )
    all: _Truth[R, K] = _truth(
        "logical_and",
        _words("numpy.all: whether all elements are true.", "any; bool", ">>> A.all(axis=1)\narray([False, False])"),
    )

    @overload
    def mean(
        self, axis: Any = None, dtype: Any = None, out: None = None, *, keepdims: Literal[True], where: Any = True
    ) -> K: ...
    @overload
    def mean(
        self, axis: Any = None, dtype: Any = None, out: Any = None, *, keepdims: bool = False, where: Any = True
    ) -> R: ...
    def mean(
        self, axis: Any = None, dtype: Any = None, out: Any = None, *, keepdims: bool = False, where: Any = True
    ) -> Any:
        """numpy.mean: the arithmetic mean.

        Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: any, or `dtype`; of integers and
        bool float64. Fill: counts wherever nothing is stored; the result is dense. Cost: a pass over what is stored,
        and a group for each element of the result.

        >>> A.mean(axis=0)
        array([0.5 , 0.25])
        """
        return self._reduced("mean", axis, keepdims, dtype=dtype, out=out, where=where)

    @overload
    def var(
        self, axis: Any = None, dtype: Any = None, out: None = None, ddof: float = 0, *, keepdims: Literal[True]
    ) -> K: ...
    @overload
    def var(
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, *, keepdims: bool = False
    ) -> R: ...
    def var(
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, *, keepdims: bool = False
    ) -> Any:
        """numpy.var: the sum of squares of deviations from the mean over their number less `ddof`.

        Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: any, or `dtype`; of integers and
        bool float64. Fill: counts wherever nothing is stored; the result is dense. Cost: a pass over what is stored,
        and a group for each element of the result.

        >>> A.var(axis=0)
        array([0.25  , 0.0625])
        """
        return self._reduced("var", axis, keepdims, dtype=dtype, out=out, ddof=ddof)

    @overload
    def std(
        self, axis: Any = None, dtype: Any = None, out: None = None, ddof: float = 0, *, keepdims: Literal[True]
    ) -> K: ...
    @overload
    def std(
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, *, keepdims: bool = False
    ) -> R: ...
    def std(
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, *, keepdims: bool = False
    ) -> Any:
        """numpy.std: the square root of `var`.

        Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: any, or `dtype`; of integers and
        bool float64. Fill: counts wherever nothing is stored; the result is dense. Cost: a pass over what is stored,
        and a group for each element of the result.

        >>> A.std(axis=0)
        array([0.5 , 0.25])
        """
        return self._reduced("std", axis, keepdims, dtype=dtype, out=out, ddof=ddof)

    argmax: _Place[R, K] = _place(
        "argmax",
        _words("numpy.argmax: the first place of the largest value.", "any; int64", ">>> A.argmax()\nnp.int64(2)"),
    )
    argmin: _Place[R, K] = _place(
        "argmin",
        _words(
            "numpy.argmin: the first place of the smallest value.", "any; int64", ">>> A.argmin(axis=0)\narray([0, 1])"
        ),
    )

    def dot(self, other: Any) -> Any:
        """numpy.dot: of matrices and vectors `self @ other`, of more dimensions the last with the last but one.

        Shapes: any of which the extents agree. Types: as numpy promotes them. Fill: 0 of sparse operands, else as dense
        arrays; with a numpy array the result is one. Cost: a multiplication for each pair of entries that meet.

        >>> A.dot([1.0, 2.0])
        array([1., 1.])
        """
        rank = len(other.shape) if hasattr(other, "shape") else np.ndim(other)
        if 0 < rank <= 2 >= len(self.shape) > 0:
            return self @ other
        dot: Any = np.dot
        return dot(self, other)


_OF_SCIPY = {
    "multiply": "write `A * B`",
    "power": "write `A ** n`",
    "maximum": "write `numpy.maximum(A, B)`",
    "minimum": "write `numpy.minimum(A, B)`",
    "getnnz": "it is `A.nnz`, or `A.nse` for the number of stored elements",
    **dict.fromkeys(
        ("data", "indices", "indptr", "row", "col", "offsets"), "`A.arrays` has the arrays of the layout, by name"
    ),
    **dict.fromkeys(
        ("asformat", "tocsr", "tocsc", "tocoo", "tobsr", "todia", "todok", "tolil"),
        '`A.convert("csr")` changes the layout, `A.to_scipy()` makes an array of scipy',
    ),
    **dict.fromkeys(("getrow", "getcol"), "write `A[i, :]` or `A[:, j]`"),
}
"""What those who know scipy's sparse arrays look for, and what there is instead."""


def unknown_attribute(owner: object, name: str) -> AttributeError:
    """The error for a name that is not there, with the one that was meant."""
    kind = type(owner)
    message = f"'{kind.__name__}' object has no attribute '{name}'"
    near = difflib.get_close_matches(name, [n for n in dir(kind) if not n.startswith("_")], 1)
    hint = f": did you mean `{near[0]}`?" if near else ""
    if name in _OF_SCIPY:
        hint = f": {_OF_SCIPY[name]}"
    return AttributeError(message + hint, name=name, obj=owner)

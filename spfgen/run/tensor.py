"""A tensor at run time: a layout, its sizes and numpy arrays under the names of the spec."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from math import prod
from os import PathLike
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, cast, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from spfgen.errors import DataError, SpfgenError, UsageError, said
from spfgen.facts.formula import Bin, Expr, evaluate, show, variables
from spfgen.ir import walk
from spfgen.lang.expressions import counted
from spfgen.lang.types import INDEX_TYPES, MARK_TYPES, TYPES
from spfgen.late_imports import LateImport
from spfgen.layout.fill import typed_fill
from spfgen.layout.nodes import Layout
from spfgen.public import check_import
from spfgen.run.calls.layout_signature import LayoutSignature, canonical, form_of, no_call, remember
from spfgen.run.calls.validation_cache import broken, owners
from spfgen.run.coordinates import Coordinates
from spfgen.run.operators import Operators, unknown_attribute
from spfgen.run.threads import MOST_THREADS, checked_threads

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # type checkers know it; typing has the default from Python 3.13 on

    from spfgen.run.validate import ReadyCheck

    Shape = TypeVar("Shape", bound=tuple[int, ...], default=tuple[int, ...], covariant=True)
    """The type of a shape, which says the rank where that is known: `tuple[int, int]` of a matrix."""
else:
    from typing import TypeVar

    Shape = TypeVar("Shape", covariant=True)

Array = NDArray[Any]

MARK = np.dtype(MARK_TYPES[0])
DTYPES = frozenset(np.dtype(n) for n in TYPES)

Parts: TypeAlias = "slice | list[int] | list[bool] | Array | Tensor | None"
"""Subscripts that leave a dimension: they give a tensor. A number may, by the rank, which types do not say."""

LARGEST = 2**63 - 1
"""Sizes are int64 in C."""

PRIORITY = 20.0
"""Above the 10.1 of scipy's arrays."""


class ArrayFunctions(Protocol):
    """run/arrays/methods.py"""

    def part(self, tensor: Tensor, name: str, /) -> Tensor[Any]: ...
    def cast(self, tensor: Tensor, dtype: Any, /) -> Tensor[Any]: ...
    def transposed(self, tensor: Tensor, axes: Sequence[Any], /) -> Tensor[Any]: ...
    def reshape(self, a: object, shape: Any, order: str, /) -> Tensor[Any]: ...
    def squeeze(self, a: object, axis: Any, /) -> Any: ...
    def diagonal(self, a: object, offset: int, /) -> Tensor: ...
    def clipped(self, a: Any, low: Any, high: Any, /) -> Any: ...
    def rounded(self, a: Any, decimals: int, /) -> Tensor[Any]: ...
    def nonzero(self, tensor: Tensor, /) -> tuple[Array, ...]: ...
    def nonzero_count(self, tensor: Tensor, /) -> int: ...
    def number(self, tensor: Tensor, /) -> Any: ...
    def truth(self, value: Any, /) -> bool: ...
    def item(self, tensor: Tensor, key: Any, /) -> Any: ...
    def rows(self, tensor: Tensor, /) -> Iterator[Any]: ...
    def in_place(self, tensor: Tensor, /) -> Array: ...
    def dense_of(self, tensor: Tensor, /) -> np.ndarray[Any, np.dtype[Any]]: ...
    def is_operand(self, value: object, /) -> bool: ...
    def applied(self, function: np.ufunc, operands: Sequence[object], options: dict[str, Any], /) -> Any: ...
    def reduced(self, tensor: Tensor, name: str, axis: Any, keepdims: bool, /, **options: Any) -> Any: ...
    def called(self, function: Any, arguments: Any, options: Any, /) -> Any: ...
    def ufunc_called(
        self, function: np.ufunc, method: str, operands: Sequence[Any], options: dict[str, Any], /
    ) -> Any: ...


class Exchange(Protocol):
    """run/exchange.py"""

    def coordinates(
        self, layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array], /
    ) -> tuple[tuple[Array, ...], Array]: ...
    def pack(self, obj: object, layout: Any, /, *, constants: Mapping[str, int], fill: object) -> Tensor[Any]: ...
    def pickled(self, tensor: Tensor, /) -> tuple[Any, ...]: ...
    def save(self, tensor: Tensor, path: str | PathLike[str], force: bool, /) -> None: ...
    def to_scipy(self, tensor: Tensor, form: str | None, /) -> Any: ...
    def to_torch(self, tensor: Tensor, form: str | None, /) -> Any: ...
    def to_jax(self, tensor: Tensor, /) -> Any: ...


class Pictures(Protocol):
    """run/drawings/picture.py"""

    def glimpse(self, tensor: Tensor, /) -> str: ...
    def html(self, tensor: Tensor, /) -> str: ...
    def svg(self, tensor: Tensor, /) -> str | None: ...


class Chunks(Protocol):
    """cluster/backend.py"""

    def register(self) -> None: ...
    def token(self, tensor: Tensor, /) -> tuple[object, ...]: ...


ARRAYS: LateImport[ArrayFunctions] = LateImport("array functions")
EXCHANGE: LateImport[Exchange] = LateImport("exchange")
PICTURES: LateImport[Pictures] = LateImport("pictures")
CHUNKS: LateImport[Chunks] = LateImport("chunks")


@dataclass(frozen=True, eq=False, repr=False)
class Tensor(Operators[Any, NDArray[Any]], Generic[Shape]):
    """A tensor in a layout: `sizes` are its extents and sizes, `arrays` its index and value arrays, by name.

    The arrays are C-contiguous and have the shapes that the layout declares. The tensor shares them with whoever made
    them.

    Operators, indexing and numpy's functions have the results that they have for dense arrays, in which elements that
    are not stored have the fill value. Results are new tensors: in the layout of the first operand that can store the
    entries, or in coordinates. With a dense array as an operand the result is a dense array, unless its value at the
    fill value does not depend on the dense array, as for a product with fill value 0. Reductions return dense arrays
    and numbers.

    Signs, `A + B` and its like: Shapes: any that go together; `@` as numpy.matmul. Types: as numpy promotes them.
    Fill: the function of the fill values. Cost: a pass over what is stored.

    Each method says which shapes and types it takes, what becomes of the fill, and what it costs. Examples are about
    these tensors:

    >>> import numpy as np, spfgen
    >>> A = spfgen.pack(np.array([[0.0, 0.5], [1.0, 0.0]]), "csr")
    >>> C = A + 2j * A
    >>> (2 * A - A.T).to_numpy()
    array([[0. , 0. ],
           [1.5, 0. ]])
    """

    layout: Layout
    sizes: Mapping[str, int]
    arrays: Mapping[str, Array]

    def __post_init__(self) -> None:
        layout: object = self.layout
        if not isinstance(layout, Layout):
            hint = "`spfgen.tensor` makes one of a layout's name and its arrays, `spfgen.pack` of a matrix"
            raise UsageError(f"expected a layout, but this is a {type(layout).__name__}", None, (hint,))

    @property
    def shape(self) -> Shape:
        """The logical extents.

        >>> A.shape
        (2, 2)
        """
        return cast("Shape", tuple([self.sizes[p] for p in self.layout.parameters]))

    @property
    def ndim(self) -> int:
        """The number of logical dimensions.

        >>> A.ndim
        2
        """
        return self.layout.rank

    @property
    def size(self) -> int:
        """The number of elements: the product of the extents.

        >>> A.size
        4
        """
        return prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values.

        >>> A.dtype
        dtype('float64')
        """
        return self.arrays[self.layout.values[0].name].dtype

    @property
    def nse(self) -> int:
        """The number of stored elements, padding included. Cost: none; of a layout without values a pass over what is
        stored.

        >>> A.nse, A.convert("bcsr", R=2, C=2).nse
        (2, 4)
        """
        if self.layout.is_pattern:
            return len(self.to_coo().values)
        return sum(self.arrays[v.name].size for v in self.layout.values)

    @property
    def nnz(self) -> int:
        """The number of elements that differ from the fill value. Cost: a pass over what is stored.

        >>> A.nnz, A.convert("bcsr", R=2, C=2).nnz
        (2, 2)
        """
        return ARRAYS().nonzero_count(self)

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays; memory that several of them share counts once.

        >>> A.nbytes == sum(a.nbytes for a in A.arrays.values())
        True
        """
        return sum({_address(a): a.nbytes for a in sorted(self.arrays.values(), key=lambda a: a.nbytes)}.values())

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes

    @property
    def __array_priority__(self) -> float:
        """Above that of the arrays of numpy and scipy. dask asks for it before it looks for the functions of a type of
        chunks, which are registered then."""
        if "dask.array" in sys.modules:
            CHUNKS().register()
        return PRIORITY

    @property
    def real(self) -> Tensor[Shape]:
        """The real parts. Fill: its real part. Cost: a pass over what is stored.

        >>> C.real.to_numpy()
        array([[0. , 0.5],
               [1. , 0. ]])
        """
        return ARRAYS().part(self, "real")

    @property
    def imag(self) -> Tensor[Shape]:
        """The imaginary parts. Fill: its imaginary part. Cost: a pass over what is stored.

        >>> C.imag.to_numpy()
        array([[0., 1.],
               [2., 0.]])
        """
        return ARRAYS().part(self, "imag")

    @property
    def fill(self) -> Any:
        """What the tensor is where nothing is stored: a numpy number of its dtype.

        >>> (A + 1).fill
        np.float64(1.0)
        """
        known, dtype = form_of(self.layout).fills, self.dtype
        if dtype not in known:
            known[dtype] = typed_fill(self.layout.fill, dtype)
        return known[dtype]

    @property
    def fill_value(self) -> Any:
        """`fill`, as PyData/Sparse calls it.

        >>> A.fill_value
        np.float64(0.0)
        """
        return self.fill

    def validate(self, *, threads: int = 0) -> tuple[str, ...]:
        """Check the index arrays, as they are now, against all that the layout declares; `threads` of 0 leaves their
        number to OpenMP.

        Returns the properties that were not checked in full, as the layout words them: those that would take too long,
        because no quick check is known to be enough; () when all was checked. Raises DataError with the first array,
        places and values that break a property; UsageError for what is no number of threads.

        Shapes: any. Types: any. Fill: plays no part. Cost: a pass over the index arrays, by compiled code.

        >>> A.validate()
        ()
        """
        if type(threads) is not int or not 0 <= threads <= MOST_THREADS:
            threads = checked_threads(threads) or 0
        ready: ReadyCheck | None = self.__dict__.get("ready_check")
        if ready is not None and ready.is_for(self.sizes, self.arrays):
            unchecked_facts = ready(threads)
            return tuple([p.text for p in unchecked_facts]) if unchecked_facts else ()
        from spfgen.run.validate import check_arrays, ready_check

        _check_arrays(self)
        unchecked = check_arrays(self.layout, self.sizes, self.arrays, threads)
        self.__dict__["ready_check"] = ready_check(self.layout, self.sizes, self.arrays)
        return tuple([p.text for p in unchecked])

    def to_coo(self) -> Coordinates:
        """The stored entries; an entry stored twice stands twice.

        `coords`: an int64 array [n] for each dimension, `values`: [n] of the tensor's dtype, `shape`, `fill`.

        Shapes: any. Types: any, which stay. Fill: is told, not stored. Cost: a pass over what is stored.

        >>> A.to_coo().coords
        (array([0, 1]), array([1, 0]))
        """
        check_unchanged(self)
        coords, values = EXCHANGE().coordinates(self.layout, self.sizes, self.arrays)
        return Coordinates(self.shape, tuple(coords), values, self.layout.fill)

    def to_numpy(self) -> np.ndarray[Shape, np.dtype[Any]]:
        """A new dense array, with the fill value where nothing is stored; entries stored twice are added (`or` for
        bool). Raises DataError when it is too large.

        Shapes: any. Types: any, which stay. Fill: is written to all other elements. Cost: all elements.

        >>> A.to_numpy()
        array([[0. , 0.5],
               [1. , 0. ]])
        """
        return cast("np.ndarray[Shape, np.dtype[Any]]", self.to_coo().to_dense())

    def toarray(self) -> Array:
        """`to_numpy`, as scipy calls it.

        Shapes: any. Types: any, which stay. Fill: is written to all other elements. Cost: all elements.

        >>> A.toarray().shape
        (2, 2)
        """
        return self.to_numpy()

    def todense(self) -> Array:
        """`to_numpy`, as PyData/Sparse and scipy call it.

        Shapes: any. Types: any, which stay. Fill: is written to all other elements. Cost: all elements.

        >>> type(A.todense())
        <class 'numpy.ndarray'>
        """
        return self.to_numpy()

    def to_scipy(self, format: str | None = None) -> Any:  # noqa: A002
        """An array of scipy.sparse, in its own format where scipy has the layout (then over the same arrays, as far
        as scipy keeps their types), else in `coo`; or in the `format` that is asked for ("csr", ...).

        Raises DataError for what scipy.sparse cannot hold: a number, another fill value than 0.

        Shapes: one dimension or more. Types: any, which stay. Fill: 0. Cost: none in a format of scipy; else a pass
        over what is stored.

        >>> S = A.to_scipy()
        >>> S.format, np.shares_memory(S.data, A.arrays["val"])
        ('csr', True)
        """
        return EXCHANGE().to_scipy(self, format)

    def to_torch(self, format: str | None = None) -> Any:  # noqa: A002
        """A tensor of torch: in its "csr" or "csc" where the layout is one of these, else in "coo"; or "strided".

        Shapes: any; two dimensions in "csr" and "csc". Types: those that torch has. Fill: 0. Cost: a pass over what is
        stored where the layout is none of torch's.

        >>> import torch
        >>> A.to_torch().layout
        torch.sparse_csr
        """
        return EXCHANGE().to_torch(self, format)

    def to_jax(self) -> Any:
        """A BCOO array of jax.experimental.sparse.

        Shapes: any. Types: those that jax has. Fill: 0. Cost: a pass over what is stored.

        >>> import jax
        >>> A.to_jax().shape
        (2, 2)
        """
        return EXCHANGE().to_jax(self)

    def convert(self, layout: Any, /, *, fill: object = None, **constants: int) -> Tensor[Shape]:
        """The tensor in another layout, in new arrays: `convert("bcsr", R=4, C=4)`; entries stored twice are added.

        The fill value stays, unless another one is asked for: then what held the old one is stored. Raises DataError
        when the layout has no place for an entry, Unsupported when it cannot be packed.

        Shapes: those that the layout has. Types: any, which stay. Fill: stays. Cost: a pass over what is stored, and a
        sort where the orders differ; all elements for another fill.

        >>> A.convert("csc").layout.name, A.convert("coo", fill=2).nse
        ('csc', 4)
        """
        return EXCHANGE().pack(self, layout, constants=constants, fill=fill)

    def save(self, path: str | PathLike[str], *, force: bool = False) -> None:
        """Write an .npz file that `spfgen.load_tensor` reads: the arrays by name, and the text of the layout.

        A file that is there is overwritten with `force` only. Raises UsageError.

        Shapes: any. Types: any, which stay. Fill: stays. Cost: the arrays are written as they are.

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     A.save(os.path.join(folder, "A.npz"))
        ...     spfgen.load_tensor(os.path.join(folder, "A.npz")).layout.name
        'csr'
        """
        EXCHANGE().save(self, path, force)

    def astype(self, dtype: DTypeLike, *, copy: bool = True) -> Tensor[Shape]:
        """The same pattern with values of another type, as numpy converts them. Without `copy` it is the tensor itself
        where it has that type.

        Shapes: any, which stay. Types: any that kernels have. Fill: is converted. Cost: a pass over the values; index
        arrays are shared where they are read-only.

        >>> A.astype("int8").to_numpy()
        array([[0, 0],
               [1, 0]], dtype=int8)
        """
        return self if not copy and dtype == self.dtype else ARRAYS().cast(self, dtype)

    def copy(self) -> Tensor[Shape]:
        """The same tensor over new arrays.

        Shapes: any, which stay. Types: any, which stay. Fill: stays. Cost: a copy of the arrays.

        >>> np.shares_memory(A.copy().arrays["val"], A.arrays["val"])
        False
        """
        return Tensor(self.layout, dict(self.sizes), {n: a.copy() for n, a in self.arrays.items()})

    def transpose(self, *axes: Any) -> Tensor[Shape]:
        """numpy.transpose: the dimensions in another order, without `axes` in the reverse one.

        Shapes: any. Types: any, which stay. Fill: stays. Cost: none where there is a layout over the same arrays for
        it, as csc for csr and the reverse order; else a pass over what is stored and a sort.

        >>> A.transpose().layout.name, np.shares_memory(A.transpose().arrays["val"], A.arrays["val"])
        ('csc', True)
        """
        return ARRAYS().transposed(self, axes)

    def reshape(self, *shape: Any, order: str = "C") -> Tensor:
        """numpy.reshape: `T.reshape(6, -1)`; `spfgen.reshape` takes a layout, too.

        Shapes: any, to any of as many elements. Types: any, which stay. Fill: stays. Cost: a pass over what is stored,
        and a sort.

        >>> A.reshape(4).to_numpy()
        array([0. , 0.5, 1. , 0. ])
        """
        return ARRAYS().reshape(self, shape[0] if len(shape) == 1 else shape, order)

    def ravel(self, order: str = "C") -> Tensor[tuple[int]]:
        """All elements in one dimension, the last index of `self` fastest, or the first in the order "F"; `flatten` is
        the same.

        Shapes: any, to one dimension. Types: any, which stay. Fill: stays. Cost: a pass over what is stored, and a
        sort.

        >>> A.ravel(order="F").to_numpy()
        array([0. , 1. , 0.5, 0. ])
        """
        return cast("Tensor[tuple[int]]", self.reshape(-1, order=order))

    flatten = ravel

    def squeeze(self, axis: Any = None) -> Any:
        """numpy.squeeze: without the dimensions of extent 1, or those of `axis`.

        Shapes: any. Types: any, which stay. Fill: stays. Cost: a pass over what is stored.

        >>> A[:1].squeeze().shape
        (2,)
        """
        return ARRAYS().squeeze(self, axis)

    def diagonal(self, offset: int = 0) -> Tensor:
        """A diagonal of a matrix, `offset` columns to the right of the main one.

        Shapes: two dimensions, to one. Types: any, which stay. Fill: stays. Cost: a pass over what is stored.

        >>> A.diagonal(1).to_numpy()
        array([0.5])
        """
        return ARRAYS().diagonal(self, offset)

    def clip(self, min: Any = None, max: Any = None) -> Any:  # noqa: A002
        """numpy.clip: at least `min` and at most `max`, where these are given.

        Shapes: those of `min` and `max` go with it. Types: as numpy promotes them. Fill: is clipped, too. Cost: a pass
        over what is stored.

        >>> A.clip(0.25, 0.75).to_numpy()
        array([[0.25, 0.5 ],
               [0.75, 0.25]])
        """
        return ARRAYS().clipped(self, min, max)

    def __round__(self, decimals: int = 0) -> Tensor[Shape]:
        """numpy.round: to so many decimals, halves to even ones.

        Shapes: any, which stay. Types: any, which stay. Fill: is rounded, too. Cost: a pass over what is stored.

        >>> A.round().to_numpy()
        array([[0., 0.],
               [1., 0.]])
        """
        return ARRAYS().rounded(self, decimals)

    round = __round__

    def trace(self, offset: int = 0) -> Any:
        """The sum of a diagonal of a matrix, as a number.

        Shapes: two dimensions. Types: any; of small integers and bool 64 bits. Fill: counts where nothing is stored.
        Cost: a pass over what is stored.

        >>> A.trace(1)
        np.float64(0.5)
        """
        return self.diagonal(offset).sum()

    def nonzero(self) -> tuple[Array, ...]:
        """numpy.nonzero: an array of coordinates for each dimension, in row-major order.

        Shapes: any, to arrays of one dimension. Types: any; int64. Fill: other than 0 counts wherever nothing is
        stored. Cost: a pass over what is stored; all elements where the fill is not 0.

        >>> A.nonzero()
        (array([0, 1]), array([1, 0]))
        """
        return ARRAYS().nonzero(self)

    def item(self) -> Any:
        """The only element as a number of Python. Raises ValueError when there are more, or none.

        Shapes: of one element. Types: any. Fill: it is the number where nothing is stored. Cost: none.

        >>> A[:1, 1:].item()
        0.5
        """
        return ARRAYS().number(self).item()

    @overload
    def __getitem__(self, key: Parts | tuple[Parts, ...]) -> Tensor: ...
    @overload
    def __getitem__(self, key: tuple[Parts, int | EllipsisType] | tuple[int | EllipsisType, Parts]) -> Tensor: ...
    @overload
    def __getitem__(self, key: Any) -> Any: ...
    def __getitem__(self, key: Any) -> Any:
        return ARRAYS().item(self, key)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __contains__(self, value: object) -> bool:
        return bool((self == value).any())

    def __iter__(self) -> Iterator[Any]:
        return ARRAYS().rows(self)

    def __bool__(self) -> bool:
        return ARRAYS().truth(self)

    def _number(self) -> Any:
        return self.item()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """What numpy.asarray makes of it: a dense array, which is its own one where it has one. numpy's functions do
        not ask for it by themselves."""
        if not copy and any(b.library == "numpy" for b in self.layout.bindings):
            return np.asarray(ARRAYS().in_place(self), dtype=dtype, copy=copy)
        if copy is False:
            raise ValueError("a tensor that is not dense becomes a numpy array only by a copy")
        dense = ARRAYS().dense_of(self)
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def __array_ufunc__(self, function: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        return ARRAYS().ufunc_called(function, method, operands, options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        return ARRAYS().called(function, arguments, options)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        array = ARRAYS().in_place(self)
        return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return ARRAYS().in_place(self).__dlpack_device__()

    def _called(self, function: np.ufunc, operands: Sequence[object], options: dict[str, Any]) -> Any:
        return ARRAYS().applied(function, operands, options)

    def _reduced(self, name: str, axis: Any, keepdims: bool, **options: Any) -> Any:
        return ARRAYS().reduced(self, name, axis, keepdims, **options)

    def _goes_with(self, other: object) -> bool:
        return ARRAYS().is_operand(other)

    if not TYPE_CHECKING:  # who checks types is to see that a name is not there

        def __getattr__(self, name: str) -> Any:
            raise unknown_attribute(self, name)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return CHUNKS().token(self)

    def __reduce__(self) -> tuple[Any, ...]:
        check_import(self)
        return EXCHANGE().pickled(self)

    def __copy__(self) -> Tensor[Shape]:
        return Tensor(self.layout, dict(self.sizes), dict(self.arrays))

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor[Shape]:
        return self.copy()

    def __repr__(self) -> str:
        return f"<spfgen.Tensor {described(self)}>{PICTURES().glimpse(self)}"

    def _repr_html_(self) -> str:
        return PICTURES().html(self)

    def _repr_svg_(self) -> str | None:
        return PICTURES().svg(self)


def _rebuilt(layout: Layout, sizes: dict[str, int], arrays: dict[str, Array]) -> Tensor:
    """A tensor from a pickle; it shares kernels with those that are in an equal layout.
    Arrays that came beside a pickle may begin anywhere in a message: those that are not aligned are copied.

    Raises DataError for a layout as another version of spfgen has it."""
    if not all(hasattr(layout, f.name) for f in fields(layout)):
        hint = "make it anew, or save it where it was made by Tensor.save: other versions read that"
        raise DataError("expected a tensor that this version of spfgen pickled, but another one did", None, (hint,))
    return Tensor(canonical(layout), sizes, {n: a if a.flags.aligned else a.copy() for n, a in arrays.items()})


class TensorRecord:
    """The arrays of a tensor when they were last looked at; `is_checked` says that they were found to satisfy the
    layout. `known` is for what is made of them, as long as they stay."""

    __slots__ = ("_arrays", "_frozen", "_sizes", "is_checked", "known")

    def __init__(self, tensor: Tensor) -> None:
        form = form_of(tensor.layout)
        arrays = [(n, tensor.arrays[n]) for n in form.arrays]
        self._sizes = dict(tensor.sizes)
        self._arrays = [(n, a, a.shape, a.dtype) for n, a in arrays]
        chains = [owners(tensor.arrays[n]) for n in form.indexes]
        self._frozen = None if None in chains else [a for chain in chains for a in chain or ()]
        self.is_checked = False
        self.known: dict[Any, Any] = {}

    def is_of(self, tensor: Tensor) -> bool:
        """Whether the tensor has these arrays, in these shapes and types."""
        if self._sizes != tensor.sizes:
            return False
        arrays = tensor.arrays
        for name, array, shape, dtype in self._arrays:
            if arrays.get(name) is not array or array.shape != shape or array.dtype is not dtype:
                return False
        return True

    def is_frozen(self) -> bool:
        """Whether nobody can have written to the index arrays."""
        if self._frozen is None:
            return False
        return True not in [a.flags.writeable for a in self._frozen]


def check_unchanged(tensor: Tensor, validate: str = "once") -> TensorRecord:
    """The arrays are still what the layout declares: others may have been put in their place, or other elements.

    Raises DataError.
    """
    seen: TensorRecord | None = tensor.__dict__.get("seen_arrays")
    if seen is None or not seen.is_of(tensor):
        _check_arrays(tensor)
        seen = TensorRecord(tensor)
        tensor.__dict__["seen_arrays"] = seen
    elif seen.is_checked and validate == "once" and seen.is_frozen():
        return seen
    problem = broken(tensor.layout, tensor.sizes, tensor.arrays, validate)
    if problem is not None:
        raise problem
    seen.is_checked = seen.is_checked or validate != "never"
    return seen


def _check_arrays(tensor: Tensor) -> None:
    """Types and shapes of the arrays, which are used where they are. Raises DataError."""
    layout, arrays = tensor.layout, tensor.arrays
    _check_names(layout, arrays)
    hint = ("make a new tensor with spfgen.tensor(layout, ...)",)
    for name in (*layout.parameters, *layout.sizes):
        size_number(name, tensor.sizes.get(name))
    for name in form_of(layout).arrays:
        ready = as_array(arrays[name], name, form_of(layout).types.get(name))
        if not isinstance(arrays[name], np.ndarray) or _address(ready) != _address(arrays[name]):
            message = f"expected `{name}` to be an array of numpy that is contiguous, aligned and in the byte order of "
            raise DataError(f"{message}this machine, but it is another one now", None, hint)
        extents = extents_of(layout, name, tensor.sizes)
        if arrays[name].shape != extents:
            message = f"expected `{name}` with shape {extents}, but it has {arrays[name].shape} now"
            raise DataError(message, None, hint)
    _check_same_type(layout, arrays)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def described(tensor: Tensor) -> str:
    """`name(R=3, C=2), 3 x 4, 6 stored, float64`."""
    shape = [" x ".join(map(str, tensor.shape))] if tensor.shape else []
    layout = tensor.layout
    filled = "fill 1" if layout.fill_text == "1" and tensor.dtype == bool else ""
    name = layout.title.replace(filled, "fill True") if filled else layout.title
    return ", ".join([name, *shape, f"{tensor.nse} stored", str(tensor.dtype)])


@contextmanager
def about(name: str) -> Iterator[None]:
    """Every DataError from inside names the tensor `name`."""
    try:
        yield
    except DataError as error:
        raise named(error, name) from error


def named(error: DataError, name: str) -> DataError:
    """The error, with a message that names the tensor."""
    if f"`{name}`" in error.message:
        return error
    return DataError(f"`{name}`: {error.message}", error.span, error.notes)


def make_tensor(
    layout: Layout,
    arrays: Mapping[str, object],
    shape: Sequence[int] | int | None = None,
    sizes: Mapping[str, int] | None = None,
    *,
    check: bool = True,
) -> Tensor:
    """A tensor over the caller's own arrays; sizes that are not given are solved from their lengths.

    Declared facts are checked for index arrays that were not seen before, unless `check` is false. Raises DataError
    when an array is missing, has a wrong type or length, or breaks a declared fact.
    """
    form = form_of(layout)
    if layout.is_pattern:
        arrays = with_ones(layout, arrays)
    _check_names(layout, arrays)
    ready = {n: as_array(arrays[n], n, form.types.get(n)) for n in form.arrays}
    given = given_sizes(layout, shape, sizes)
    known, shaped = _fitted(form, ready, given)
    problem = broken(layout, known, shaped, "once" if check else "never")
    if problem is not None:
        raise problem
    _check_same_type(layout, shaped)
    typed_fill(layout.fill, shaped[layout.values[0].name].dtype)
    return Tensor(layout, known, shaped)


def with_ones(layout: Layout, arrays: Mapping[str, object]) -> dict[str, object]:
    """The arrays with the 1 that a layout without values stands for. Raises DataError where another number does."""
    result = dict(arrays)
    for name in (v.name for v in layout.values if v.implied):
        if not np.all(plain_array(result.setdefault(name, np.ones(1, bool)), name) == 1):
            raise DataError(f"expected a 1 in `{name}`: layout `{layout.name}` stores no values, but it is another one")
    return result


def _fitted(
    form: LayoutSignature, arrays: Mapping[str, Array], given: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, Array]]:
    """(sizes, arrays in their declared shapes); what does not depend on contents is remembered."""
    key = (*[a.shape for a in arrays.values()], *given.items())
    solved = form.solved.get(key)
    if solved is None:
        known, sources = _solved(form.layout, arrays, given)
        shaped = {n: _shaped(form.layout, n, arrays[n], known, sources) for n in form.arrays}
        remember(form.solved, key, (known, {n: a.shape for n, a in shaped.items()}))
        return known, shaped
    known, shapes = solved
    return dict(known), {n: a if a.shape == shapes[n] else a.reshape(shapes[n]) for n, a in arrays.items()}


def _check_names(layout: Layout, arrays: Mapping[str, object]) -> None:
    if tuple(arrays) == form_of(layout).arrays:
        return
    notes = (f"its arrays: {', '.join(layout.arrays)}",)
    for name in arrays:
        if name not in layout.arrays:
            message = f"expected arrays of layout `{layout.name}`, but `{name}` is not one"
            raise DataError(message, None, notes)
    for name in layout.arrays:
        if name not in arrays:
            raise DataError(f"expected array `{name}` of layout `{layout.name}`, but it is missing", None, notes)


def _check_same_type(layout: Layout, arrays: Mapping[str, Array]) -> None:
    """All value arrays of a tensor have one type."""
    first = layout.values[0].name
    for other in [v.name for v in layout.values[1:]]:
        if arrays[other].dtype != arrays[first].dtype:
            raise DataError(
                f"expected values of one type, but `{first}` is {arrays[first].dtype} and "
                f"`{other}` is {arrays[other].dtype}"
            )


def as_array(value: object, name: str, index_types: frozenset[np.dtype[Any]] | None = None) -> Array:
    """The array itself where it can be used as it is; aligned, contiguous and in the machine's byte order otherwise.
    `index_types`: those that an index array may have."""
    array = plain_array(value, name)
    flags = array.flags
    if array.dtype in (DTYPES if index_types is None else index_types) and flags.c_contiguous and flags.aligned:
        return array
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if index_types is not None and array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)  # what numpy makes of an empty list
    if index_types is not None and array.dtype == bool and MARK in index_types:
        array = array.view(MARK)
    if array.dtype not in (DTYPES if index_types is None else index_types):
        raise _wrong_type(array, name, index_types)
    ready = array.flags.c_contiguous and array.flags.aligned
    return array if ready else np.require(array, requirements=["C", "A"])


def plain_array(value: object, name: str) -> Array:
    """numpy.asarray, with an error that names the array."""
    if type(value) is np.ndarray:
        return value
    if isinstance(value, Tensor):
        raise DataError(f"expected an array for `{name}`, but it is <spfgen.Tensor {described(value)}>")
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        hint = f"say what they are: {name}.filled(0)"
        raise DataError(f"expected `{name}` without masked values, but some are", None, (hint,))
    try:
        return np.asarray(value)
    except SpfgenError:
        raise
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        if getattr(value, "requires_grad", False) is True:
            hint = f"gradients do not pass through a kernel: pass {name}.detach()"
            raise DataError(f"expected `{name}` without gradients, but it requires them", None, (hint,)) from None
        raise DataError(f"expected `{name}` to be an array of numbers, but numpy says: {error}") from None


def _wrong_type(array: Array, name: str, index_types: frozenset[np.dtype[Any]] | None) -> DataError:
    if index_types is not None:
        names = [t for t in MARK_TYPES if np.dtype(t) in index_types]
        message = f"expected an index array `{name}` of type {' or '.join(names)}"
        fitting = [t for t in INDEX_TYPES if np.can_cast(array.dtype, t)] or INDEX_TYPES[-1:]
        notes = [f"convert it: {name}.astype('{fitting[0]}')"]
    else:
        notes = [f"the types are {', '.join(TYPES)}"]
        message = f"expected numbers in `{name}`, of a type that C has too"
        if array.dtype.kind in "US" and not array.ndim:
            hint = "a file is read by spfgen.load_tensor, scipy.io.mmread or numpy.load"
            return DataError(f"expected numbers in `{name}`, but this is a text", None, (hint,))
        if array.dtype == object and not array.ndim:
            notes = [f"read it first: {name}.to_memory()"] if hasattr(array.item(), "to_memory") else []
            return DataError(f"expected an array of numbers as `{name}`, but this is {said(array.item())}", None, notes)
        if array.dtype.kind in "f":
            notes.append("convert it: `.astype('float64')`")
    return DataError(f"{message}, but its type is {array.dtype.name}", None, notes)


def given_sizes(layout: Layout, shape: Sequence[int] | int | None, sizes: Mapping[str, int] | None) -> dict[str, int]:
    """The sizes that the caller says, checked."""
    known: dict[str, int] = {}
    if shape is not None:
        extents = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        if len(extents) != layout.rank:
            message = f"expected a shape of {counted(layout.rank, 'extent')} for layout `{layout.name}`"
            raise DataError(f"{message}, but it is {shape}")
        known = {n: size_number(n, e) for n, e in zip(layout.parameters, extents, strict=True)}
    names = (*layout.parameters, *layout.sizes)
    for name, given in (sizes or {}).items():
        if name not in names:
            message = f"expected a size of layout `{layout.name}`, but `{name}` is not one"
            raise DataError(message, None, (f"its sizes: {', '.join(names)}",))
        value = size_number(name, given)
        if known.setdefault(name, value) != value:
            raise DataError(f"expected one value of `{name}`, but shape says {known[name]} and sizes says {value}")
    return known


def size_number(name: str, value: object) -> int:
    """The value of a size. Raises DataError when it is no integer, negative or too large for int64."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise DataError(f"expected an integer for `{name}`, but it is {value!r}") from None
    if number < 0:
        raise DataError(f"expected `{name}` not to be negative, but it is {number}")
    if number > LARGEST:
        raise DataError(f"expected `{name}` to be below 2^63, but it is {number}")
    return number


def _solved(
    layout: Layout, arrays: Mapping[str, Array], given: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, str]]:
    """Sizes from the lengths of arrays: each declared extent with one unknown size is an equation for it.

    Also says for each size that was solved from which array.
    """
    known, sources = dict(given), dict[str, str]()
    wanted = [*layout.parameters, *layout.sizes]
    progress = True
    while progress and not all(n in known for n in wanted):
        progress = False
        for name, extent, length in _equations(layout, arrays):
            unknown = variables(extent) - set(known)
            if len(unknown) != 1:
                continue
            size = unknown.pop()
            value = _solve(extent, size, known, length)
            if value is not None:
                known[size], sources[size] = value, name
                progress = True
            elif _is_monotone(extent):
                message = f"expected an array `{name}` of length {show(extent)}"
                raise DataError(f"{message}, but no {size} gives its length {length}")
    missing = [n for n in wanted if n not in known]
    if missing:
        message = f"expected the arrays to give the size `{missing[0]}` of layout `{layout.name}`, but they do not"
        remedy = f"sizes={{'{missing[0]}': ...}}"
        raise DataError(message, None, (f"pass {remedy if missing[0] in layout.sizes else f'shape=... or {remedy}'}",))
    return known, sources


def _equations(layout: Layout, arrays: Mapping[str, Array]) -> Iterator[tuple[str, Expr, int]]:
    """(array, declared extent, length) for each dimension of each array. Raises DataError for a wrong rank."""
    for name in layout.arrays:
        extents, array = layout.extents(name), arrays[name]
        if array.ndim == len(extents):
            yield from ((name, e, n) for e, n in zip(extents, array.shape, strict=True))
        elif array.ndim != 1:
            message = f"expected array `{name}` with {counted(len(extents), 'dimension')}, but it has {array.ndim}"
            raise DataError(message, None, (_declared(layout, name),))


def _declared(layout: Layout, name: str) -> str:
    text = "".join(f"[{show(e)}]" for e in layout.extents(name))
    return f"layout `{layout.name}` declares {name}{text}"


def _is_monotone(extent: Expr) -> bool:
    """Without min, max and remainders the extent grows with its size; then no solution means a wrong length."""
    return not any(isinstance(n, Bin) and n.op in ("min", "max", "%", "/") for n in walk(extent))


def _solve(extent: Expr, size: str, known: Mapping[str, int], length: int) -> int | None:
    """The value of `size` for which the extent is `length`; None when there is none, or more than one."""

    def at(value: int) -> int:
        return int(evaluate(extent, lambda n: value if n == size else known[n], no_call))

    low, high = 0, 1
    while at(high) < length and high < 2**62:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        if at(middle) < length:
            low = middle + 1
        else:
            high = middle
    return low if at(low) == length and at(low + 1) != length else None


def extents_of(layout: Layout, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape that the layout declares for one of its arrays."""
    return form_of(layout).shape(name, sizes)


def _shaped(layout: Layout, name: str, array: Array, sizes: Mapping[str, int], sources: Mapping[str, str]) -> Array:
    """The array in the declared shape; a flat one of the right length is viewed in it."""
    shape = extents_of(layout, name, sizes)
    if array.shape == shape:
        return array
    if array.ndim == 1 and array.size == prod(shape):
        return array.reshape(shape)
    notes = [_declared(layout, name)]
    for size in sorted(variables(*layout.extents(name))):
        source = f" by the length of `{sources[size]}`" if size in sources else ""
        notes.append(f"{size} is {sizes[size]}{source}")
    raise DataError(f"expected array `{name}` of shape {shape}, but its shape is {array.shape}", None, notes)

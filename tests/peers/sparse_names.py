"""A plugin of pytest that stands for PyData/Sparse: its classes make tensors, its functions are those of spfgen and
numpy on tensors.

What is dense here and sparse there, as a sum along an axis, counts as an instance of its classes.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import sparse
from scipy.sparse import issparse
from sparse.numba_backend import _utils

import spfgen
import spfgen.array as xp
from spfgen import Tensor
from spfgen.array.operands import as_array
from tests.peers.sparse_skips import SKIPS
from tests.peers.suite import skip

LAYOUTS = {"COO": "coo", "GCXS": "csf", "DOK": "coo_unsorted"}


class Kind(type):
    form: str = "COO"

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor | np.ndarray | np.generic)

    def __call__(cls, *given: Any, **options: Any) -> Any:
        given = tuple(theirs(g) for g in given)
        return ours(getattr(sparse, cls.form)(*given, **options), cls.form)

    def from_numpy(cls, x: Any, *given: Any, **options: Any) -> Any:
        return ours(getattr(sparse, cls.form).from_numpy(x, *given, **options), cls.form)

    def from_scipy_sparse(cls, x: Any, **options: Any) -> Any:
        return ours(getattr(sparse, cls.form).from_scipy_sparse(x, **options), cls.form)

    def from_iter(cls, x: Any, *given: Any, **options: Any) -> Any:
        return ours(sparse.COO.from_iter(x, *given, **options), cls.form)

    def from_coo(cls, x: Any) -> Any:
        return x


def theirs(value: Any) -> Any:
    """A tensor as one of PyData/Sparse."""
    if not isinstance(value, Tensor):
        return value
    own = value.to_coo()
    return sparse.COO(
        np.array(own.coords).reshape(value.ndim, -1), own.values, value.shape, fill_value=value.fill_value
    )


def ours(value: Any, form: str = "COO") -> Any:
    if not isinstance(value, sparse.SparseArray):
        return value
    own = value.asformat("coo") if value.ndim != 0 else sparse.COO(value)
    if not own.ndim:
        return spfgen.array.asarray(np.asarray(own.todense()))
    return spfgen.pack((tuple(own.coords), own.data), _layout(form, own.ndim), shape=own.shape, fill=own.fill_value)


def _layout(form: str, rank: int) -> str:
    return "coo" if rank < 2 else LAYOUTS[form]


class SparseArray(metaclass=Kind):
    form = "COO"


COO, GCXS, DOK = (Kind(n, (SparseArray,), {"form": n}) for n in LAYOUTS)
FORMS = {"coo": "COO", "gcxs": "GCXS", "dok": "DOK"}


def random(*given: Any, format: Any = "coo", **options: Any) -> Any:  # noqa: A002
    options.pop("compressed_axes", None)
    form = FORMS[format] if isinstance(format, str) else format.form
    return ours(sparse.random(*given, **options), form)


def assert_eq(x: Any, y: Any, check_nnz: bool = True, compare_dtype: bool = True, **options: Any) -> None:
    """Equal shapes, types and values."""
    x, y = (np.asarray(v) for v in (x, y))
    assert x.shape == y.shape
    if compare_dtype:
        assert x.dtype == y.dtype
    if x.dtype.kind in "iub" and y.dtype.kind in "iub":
        assert np.array_equal(x, y)
    else:
        assert np.allclose(x, y, equal_nan=True, **options)


def asarray(value: Any, format: str | None = None, **options: Any) -> Any:  # noqa: A002
    found = xp.asarray(value, **options)
    return found if format is None or not found.ndim else found.asformat(format)


def full(shape: Any, fill_value: Any, dtype: Any = None, format: Any = "coo", order: str = "C", **options: Any) -> Any:  # noqa: A002
    return xp.full(shape, fill_value, dtype=dtype, **options)


def zeros_like(value: Any, dtype: Any = None, **options: Any) -> Any:
    return np.zeros_like(value, dtype=dtype, **_shape(options))


def ones_like(value: Any, dtype: Any = None, **options: Any) -> Any:
    return np.ones_like(value, dtype=dtype, **_shape(options))


def full_like(value: Any, fill_value: Any, dtype: Any = None, **options: Any) -> Any:
    return np.full_like(value, fill_value, dtype=dtype, **_shape(options))


def _shape(options: dict[str, Any]) -> dict[str, Any]:
    return {"shape": options["shape"]} if options.get("shape") is not None else {}


def as_coo(value: Any, **options: Any) -> Any:
    return value if isinstance(value, Tensor) else COO(value, **options)


def asnumpy(value: Any, **options: Any) -> Any:
    return np.asarray(value, **options)


def _of(name: str) -> Any:
    for place in (spfgen, xp, np):
        if hasattr(place, name) and name not in ("random", "einsum"):
            return getattr(place, name)
    return getattr(sparse, name) if hasattr(sparse, name) else getattr(_utils, name)


def where(*given: Any) -> Any:
    return np.where(*given)


def can_cast(own: Any, other: Any, /, *, casting: str = "safe") -> Any:
    return np.can_cast(own, other, casting=casting)


def result_type(*given: Any) -> Any:
    return np.result_type(*given)


def einsum(*given: Any, **options: Any) -> Any:
    return as_array(np.einsum(*given, **options))


def dot(one: Any, other: Any) -> Any:
    return np.dot(one, other)


def matmul(one: Any, other: Any) -> Any:
    return np.matmul(*(spfgen.pack(o, "coo") if issparse(o) else o for o in (one, other)))


def tensordot(one: Any, other: Any, axes: Any = 2, **options: Any) -> Any:
    return np.asarray(t) if isinstance(t := np.tensordot(one, other, axes), np.generic) else t


def elemwise(function: Any, *given: Any, **options: Any) -> Any:
    return as_array(function(*given, **options))


def _made(name: str, *given: Any, **options: Any) -> Any:
    return getattr(xp, name)(*given, **{n: v for n, v in options.items() if n not in ("format", "order")})


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float, format: Any = "coo", **options: Any) -> Any:  # noqa: A002, N803
    return xp.eye(N, M, k=k, dtype=dtype)


for _name in ("zeros", "ones", "empty"):
    globals()[_name] = functools.partial(_made, _name)
concat = xp.concat
concatenate, stack = spfgen.concatenate, spfgen.stack


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _of(name)


@pytest.fixture(scope="session")
def rng() -> Any:
    return _utils.default_rng


def give_names() -> None:
    own: Any = Tensor
    own.coords = property(lambda self: _kept(self, "coords", lambda own: np.array(own.coords).reshape(self.ndim, -1)))
    own.data = property(lambda self: _kept(self, "values", lambda own: own.values))
    own.format = property(lambda self: {v: k.lower() for k, v in LAYOUTS.items()}.get(self.layout.name, "coo"))
    own.tocsr = lambda self: self.to_scipy("csr")
    own.density = property(lambda self: self.nnz / self.size)
    own.asformat = lambda self, form, **options: spfgen.pack(self, _layout(FORMS[form], self.ndim))
    own.tocoo = lambda self: self
    own.to_scipy_sparse = lambda self, **options: self.to_scipy()
    own.maybe_densify = lambda self, *given, **options: self.to_numpy()
    own.swapaxes = lambda self, a, b: np.swapaxes(self, a, b)
    own.conjugate = lambda self: self.conj()
    own.isinf = lambda self: np.isinf(self)
    own.isnan = lambda self: np.isnan(self)
    own.broadcast_to = lambda self, shape: np.broadcast_to(self, shape)
    for name in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean"):
        setattr(own, name, functools.partialmethod(_nan, name))


def _kept(self: Tensor, name: str, part: Any) -> Any:
    """An array of the entries, the same one each time."""
    return self.__dict__.setdefault(f"theirs_{name}", part(self.to_coo()))


def _nan(self: Tensor, name: str, *given: Any, **options: Any) -> Any:
    return getattr(np, name)(self, *given, **options)


give_names()


def pytest_collection_modifyitems(items: Any) -> None:
    skip(items, SKIPS)

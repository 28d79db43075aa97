"""A plugin of pytest: `csr_array` and its like of scipy.sparse make tensors in that layout, which get scipy's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse import _sputils

import spfgen
from spfgen import Tensor
from spfgen.run.tensor import DTYPES
from tests.peers.scipy_skips import SKIPS
from tests.peers.suite import skip

FORMATS = {"csr": "csr", "csc": "csc", "coo": "coo", "dia": "dia", "bsr": "bcsr(R=1, C=1)"}
SCIPY = {f: getattr(sp, f"{f}_array") for f in FORMATS}
NAMES = {n.partition("(")[0]: f for f, n in FORMATS.items()}


class Kind(type):
    """The type of the names: a tensor in that layout is an instance."""

    form: str

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor) and format_of(value) == cls.form

    def __call__(cls, *given: Any, **options: Any) -> Any:
        return made(cls.form, *given, **options)

    def __getitem__(cls, item: Any) -> Any:
        return SCIPY[cls.form][item]


def format_of(tensor: Tensor) -> str:
    return NAMES.get(tensor.layout.name, tensor.layout.name)


def made(form: str, given: Any, shape: Any = None, dtype: Any = None, copy: bool = False, **options: Any) -> Any:
    """What scipy makes of the arguments, as a tensor in the layout."""
    if isinstance(given, Tensor):
        found = given.to_scipy("coo")
        if shape is not None and tuple(shape) != given.shape:
            raise ValueError("inconsistent shapes")
        own = found if dtype is None else found.astype(dtype)
    else:
        own = SCIPY[form](given, shape=shape, dtype=dtype, **options)
    return packed(own, form)


def packed(own: Any, form: str) -> Any:
    layout = FORMATS[form] if own.ndim == 2 else "coo"
    return spfgen.pack(own.tocoo(), layout)


def _method(name: str) -> Any:
    def add(function: Any) -> Any:
        setattr(Tensor, name, function)
        return function

    return add


def give_names() -> None:
    """scipy's names for what tensors have under another one, or for a change of the layout."""
    own: Any = Tensor
    own.format = property(format_of)
    own.multiply = lambda self, other: self * other
    own.divide = lambda self, other: self / other
    own.power = lambda self, n, dtype=None: (self if dtype is None else self.astype(dtype)) ** n
    own.maximum = lambda self, other: np.maximum(self, other)
    own.minimum = lambda self, other: np.minimum(self, other)
    own.conjugate = lambda self, copy=True: self.conj()
    own.getnnz = lambda self, axis=None: self.nse if axis is None else np.bincount(
        self.to_scipy("coo").coords[1 - axis % 2], minlength=self.shape[1 - axis % 2]
    )  # fmt: skip
    own.count_nonzero = lambda self, axis=None: np.count_nonzero(self, axis=axis)
    own.asformat = lambda self, form, copy=False: self if form is None else packed(self.to_scipy("coo"), form)
    for form in FORMATS:
        setattr(own, f"to{form}", lambda self, *a, form=form, **k: packed(self.to_scipy("coo"), form))
    for name in ("todok", "tolil"):
        setattr(own, name, lambda self, copy=False, name=name: getattr(self.to_scipy("coo"), name)())
    own.toarray = _dense
    own.todense = _dense
    for name in (
        "sqrt",
        "sin",
        "tan",
        "arcsin",
        "arctan",
        "sinh",
        "tanh",
        "arcsinh",
        "arctanh",
        "rint",
        "sign",
        "expm1",
    ):
        setattr(own, name, lambda self, name=name: getattr(np, name)(self))
    for name in ("log1p", "deg2rad", "rad2deg", "floor", "ceil", "trunc"):
        setattr(own, name, lambda self, name=name: getattr(np, name)(self))
    for name in ("max", "min", "argmax", "argmin"):
        setattr(own, name, _extreme(name))
    for name in ("nanmax", "nanmin"):
        setattr(own, name, _of_numbers(name))
    for name in ("data", "indices", "indptr", "coords", "row", "col", "offsets"):
        setattr(own, name, property(lambda self, name=name: getattr(self.to_scipy(), name)))
    diagonal, turned, summed, copied = own.diagonal, own.transpose, own.reshape, own.copy
    own.diagonal = lambda self, k=0, **o: diagonal(self, o.get("offset", k))
    own.transpose = lambda self, *given, axes=None, copy=False: (
        turned(self, *given) if axes is None else turned(self, axes)
    )
    own.reshape = lambda self, *shape, order="C", copy=False: summed(self, *shape, order=order)
    own.copy = lambda self: copied(self)
    own.swapaxes = lambda self, a, b: np.swapaxes(self, a, b)
    own.permute_dims = lambda self, axes=None, copy=False: self.transpose(axes)
    own.tensordot = lambda self, other, axes=2: np.tensordot(self, other, axes)


def _extreme(name: str) -> Any:
    before = getattr(Tensor, name)

    def method(self: Tensor, axis: Any = None, out: Any = None, *, explicit: bool = False, **options: Any) -> Any:
        if explicit:
            pytest.skip("reductions of what is stored alone are not there: T.arrays has the values")
        return before(self, axis, out, **options)

    return method


def _of_numbers(name: str) -> Any:
    """nanmax: nan counts as what is less than anything."""
    function = {"nanmax": np.fmax, "nanmin": np.fmin}[name]

    def method(self: Tensor, axis: Any = None, out: Any = None, *, explicit: bool = False) -> Any:
        return function.reduce(self, axis=axis, out=out)

    return method


class Arrays(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor | sp.sparray)


class sparray(metaclass=Arrays):  # noqa: N801
    """Whether something is an array as those of scipy: tensors are."""


def issparse(value: object) -> bool:
    return isinstance(value, Tensor) or bool(sp.issparse(value))


_raises = pytest.raises
pytest.raises = lambda *kinds, match=None, **options: _raises(*kinds, **options)  # type: ignore[assignment, misc]  # words are ours


def _dense(self: Tensor, order: Any = None, out: Any = None) -> Any:
    if out is None:
        return np.array(np.asarray(self), order=order or "C")
    if order is not None:
        raise ValueError("order cannot be specified if out is not None")
    if out.shape != self.shape or out.dtype != self.dtype:
        raise ValueError("out array must be same dtype and shape as sparse array")
    out[...] = np.asarray(self)
    return out


give_names()
_sputils.supported_dtypes[:] = [t for t in _sputils.supported_dtypes if np.dtype(t) in DTYPES]  # which C has, too
for _form in FORMATS:
    globals()[f"{_form}_array"] = Kind(f"{_form}_array", (), {"form": _form})


def __getattr__(name: str) -> Any:
    return getattr(sp, name)


def pytest_collection_modifyitems(items: Any) -> None:
    skip(items, SKIPS)

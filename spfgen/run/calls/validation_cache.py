"""Which index arrays were checked against which layout, so that a buffer is checked the first time it is seen.

An array is known by identity, as long as it lives, and by a fingerprint: whoever changes the indices of a matrix in
place has them checked again. Of an array of more than FINGERPRINT entries only so many places, spread evenly, are
compared; a change elsewhere goes unnoticed, and `validate="always"` is for those who make one. Arrays that nobody can
write to, as those that spfgen makes, need no fingerprint.
"""

from __future__ import annotations

import warnings
import weakref
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spfgen.errors import DataError, UsageError
from spfgen.layout.nodes import Layout
from spfgen.run.calls.layout_signature import form_of

FINGERPRINT = 4096
MODES = ("once", "always", "never")


@dataclass(slots=True)
class _Record:
    """`verdicts`: (id of a layout, sizes) to the layout and what the arrays break in it, None when nothing. `equal`: of
    two arrays, whether they hold the same numbers; None when nobody asked."""

    arrays: tuple[weakref.ref[Any], ...]
    fingerprint: tuple[Any, ...]
    verdicts: dict[tuple[int, ...], tuple[Layout, DataError | None]] = field(default_factory=dict)
    equal: bool | None = None


_RECORDS: dict[tuple[int, ...], _Record] = {}


def checked_mode(mode: str) -> str:
    """Raises UsageError when it does not say when to validate."""
    if not isinstance(mode, str) or mode not in MODES:
        raise UsageError(f"expected validate to be one of {', '.join(map(repr, MODES))}, but it is {mode!r}")
    return mode


def broken(layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Any], mode: str = "once") -> DataError | None:
    """What the arrays, in their declared shapes, break of the ranges and properties of the layout.

    Under `never` nothing is looked at.
    """
    form = form_of(layout)
    if not form.indexes or mode == "never":
        return None
    key = (id(layout), *[sizes[n] for n in form.sizes])
    record = _record([arrays[n] for n in form.indexes])
    verdict = record.verdicts.get(key) if mode == "once" else None
    if verdict is None or verdict[0] is not layout:
        verdict = record.verdicts[key] = (layout, _checked(layout, sizes, arrays))
    error = verdict[1]
    return None if error is None else DataError(error.message, error.span, error.notes)


def equal(one: Any, other: Any, mode: str = "once") -> bool:
    """Whether two index arrays hold the same numbers; under `never` that is taken for granted."""
    if one is other or mode == "never":
        return True
    record = _record((one, other))
    if record.equal is None or mode == "always":
        import numpy as np  # not before there are arrays: `generate` needs none

        record.equal = bool(np.array_equal(one, other))
    return record.equal


def trust(layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> None:
    """Remember arrays that satisfy the layout because they were made so."""
    form = form_of(layout)
    if form.indexes:
        record = _record([arrays[n] for n in form.indexes])
        record.verdicts[(id(layout), *[sizes[n] for n in form.sizes])] = (layout, None)


def _checked(layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> DataError | None:
    from spfgen.run.validate import check_arrays

    try:
        unchecked = check_arrays(layout, sizes, arrays)
    except DataError as error:
        return DataError(error.message, error.span, error.notes)  # without the traceback, which holds the arrays
    for fact in unchecked:
        warnings.warn(
            f"`{fact.text}` of layout `{layout.name}` was not checked: there is no fast check for it, and too many "
            "values to try",
            stacklevel=2,
        )
    return None


def _record(arrays: Sequence[Any]) -> _Record:
    """What is known of these arrays: nothing when they have changed since they were looked at."""
    key = tuple([id(a) for a in arrays])
    prints = tuple([fingerprint(a) for a in arrays])
    record = _RECORDS.get(key)
    if record is not None and record.fingerprint == prints:
        return record

    def forget(_: object) -> None:
        _RECORDS.pop(key, None)

    record = _RECORDS[key] = _Record(tuple([weakref.ref(a, forget) for a in arrays]), prints)
    return record


def owners(array: Any) -> tuple[Any, ...] | None:
    """The array and those whose memory it shares, if none of them can be written to; None if one can."""
    chain = []
    while array is not None and not getattr(array, "is_owned", False):
        if not hasattr(array, "flags") or array.flags.writeable:
            return None
        chain.append(array)
        array = array.base
    return tuple(chain)


def fingerprint(array: Any) -> tuple[Any, ...]:
    """What shows that an array has changed: of a long one only samples."""
    size = array.size
    if not size or owners(array) is not None:
        return (array.shape, array.dtype)
    sample = array if size <= FINGERPRINT else array.reshape(-1)[:: -(-size // FINGERPRINT)].tobytes()
    return (array.shape, array.dtype, zlib.crc32(sample))

"""Tensors in files: an .npz with the arrays by name and the text of the layout. Nothing in it is executed."""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from spfgen.errors import DataError, InternalError, SpfgenError, UsageError, a_type
from spfgen.lang.fills import fill_number
from spfgen.lang.nodes import LayoutDecl
from spfgen.lang.parse import parse_file
from spfgen.lang.spec import builtin
from spfgen.layout.checked import layout_of
from spfgen.layout.nodes import Layout
from spfgen.run.calls.layout_signature import canonical, form_of, remember
from spfgen.run.files.write import replace_file
from spfgen.run.handles import text_of
from spfgen.run.tensor import Tensor, _rebuilt, check_unchanged, make_tensor

DAMAGE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What numpy, zipfile and json raise for files that are not what they should be."""
ENDING = ".npz"
FORMAT, WITH_FILL = 1, 2
"""Files of the second format say a fill value that is not that of the layout's text."""
MOST_PACKED = 1100
"""Deflate makes a byte of at most 1032."""
ABOUT, TEXT, ARRAY = "spfgen", "layout", "array."
"""Entries of the file: a JSON text, the layout's text, and one for each array."""


def save(
    tensor: Tensor, path: str | os.PathLike[str], force: bool = False, beside: Mapping[str, str] | None = None
) -> None:
    """See Tensor.save. `beside` are texts of further entries, which `load_tensor` leaves alone."""
    target = Path(_checked(path))
    if not target.name.lower().endswith(ENDING):
        raise UsageError(f"expected a file ending in {ENDING}, but got {target}")
    target = target.resolve()  # the file behind a symbolic link is exchanged, not the link
    if target.exists() and not target.is_file():
        raise UsageError(f"expected a file to write, but {path} is something else")
    if target.exists() and not force:
        raise UsageError(f"expected a new file, but {path} exists", None, ("overwrite it with force=True",))
    about, text = said_of(tensor)
    texts = {**(beside or {}), ABOUT: json.dumps(about), TEXT: text}
    entries: dict[str, Any] = {name: np.array(text_of_entry) for name, text_of_entry in texts.items()}
    entries |= {f"{ARRAY}{name}": array for name, array in tensor.arrays.items()}
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **entries)
    replace_file(target, stream.getbuffer())


def said_of(tensor: Tensor) -> tuple[dict[str, Any], str]:
    """What a file says of a tensor beside its arrays: what `tensor_of_file` takes, and the layout's text. Raises
    DataError where the arrays are not what they were, Unsupported for a layout without a text."""
    check_unchanged(tensor)
    about, text = _said_of_layout(tensor.layout)
    return {**about, "sizes": {n: int(v) for n, v in tensor.sizes.items()}}, text


def _said_of_layout(layout: Layout) -> tuple[dict[str, Any], str]:
    about = {"format": FORMAT, "layout": layout.name, "constants": dict(layout.constants)}
    text = text_of(layout)
    if _layout(text, layout.name, dict(layout.constants)).fill_text != layout.fill_text:
        about |= {"format": WITH_FILL, "fill": layout.fill_text}
    return about, text


def pickled(tensor: Tensor) -> tuple[Any, ...]:
    """What pickle keeps: the layout's text, which other versions read, as a file has it; the layout itself where no
    text says all of it."""
    form = form_of(tensor.layout)
    if form.said is None:
        form.said = ()
        with suppress(SpfgenError):
            about, text = _said_of_layout(tensor.layout)
            form.said = (about, text) if _layout_said(about, text) == tensor.layout else ()
    parts = dict(tensor.sizes), dict(tensor.arrays)
    return (unpickled, (*form.said, *parts)) if form.said else (_rebuilt, (tensor.layout, *parts))


def unpickled(about: Mapping[str, Any], text: str, sizes: dict[str, int], arrays: dict[str, Any]) -> Tensor:
    """The tensor of which `pickled` kept this; its arrays are checked when they are used. Raises DataError."""
    key = (text, *[(n, str(v)) for n, v in about.items()])
    if key not in _PICKLED:
        try:
            remember(_PICKLED, key, _layout_said(about, text))
        except SpfgenError as error:
            message = f"expected a pickled tensor that this version of spfgen reads, but {error.message}"
            raise DataError(message, error.span, error.notes) from error
    return _rebuilt(_PICKLED[key], sizes, arrays)


_PICKLED: dict[Any, Layout] = {}


def _layout_said(about: Mapping[str, Any], text: str) -> Layout:
    """The layout of which `_said_of_layout` said this. Raises DataError."""
    if about["format"] not in (FORMAT, WITH_FILL):
        raise DataError(f"its format is {about['format']}, and this spfgen reads {FORMAT} and {WITH_FILL}")
    fill = fill_number(about["fill"]) if about["format"] == WITH_FILL else None
    return _layout(text, about["layout"], about["constants"], fill)


def tensor_of_file(about: Mapping[str, Any], text: str, arrays: Mapping[str, Any]) -> Tensor:
    """The tensor of which `said_of` said this; its arrays are checked against its layout. Raises DataError, and what
    DAMAGE lists for what is not written as it should be."""
    return make_tensor(_layout_said(about, text), arrays, None, about["sizes"])


def shape_said(about: Mapping[str, Any], text: str) -> tuple[int, ...]:
    """The shape of the tensor of which `said_of` said this; arrays are not needed. Raises as `tensor_of_file`."""
    layout = _layout(text, about["layout"], about["constants"])
    return tuple(int(about["sizes"][p]) for p in layout.parameters)


def texts_of(path: str | os.PathLike[str], *names: str) -> dict[str, str]:
    """Those entries of a file of a tensor that are texts; no array is read. Raises DataError."""
    with _reading(path), np.load(path, allow_pickle=False) as file:
        if not isinstance(file, Mapping):
            raise DataError("it holds no tensor of spfgen")
        _check_bytes(file)
        return {n: str(file[n]) for n in names if n in file}


def _checked(path: object) -> str | os.PathLike[str]:
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"expected the path of a file, but this is {a_type(path)}")
    return path


def load_tensor(path: str | os.PathLike[str]) -> Tensor:
    """A tensor from a file that Tensor.save wrote. Its arrays are checked against its layout.

    Raises DataError when the file cannot be read, is no such file, or its arrays break the layout; UsageError when
    `path` is no path.
    """
    _checked(path)
    with _reading(path):
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, Mapping) or ABOUT not in file or TEXT not in file:
                raise DataError("it holds no tensor of spfgen")
            _check_bytes(file)
            about = json.loads(str(file[ABOUT]))
            arrays = {n.removeprefix(ARRAY): file[n] for n in file if n.startswith(ARRAY)}
            text = str(file[TEXT])
        return tensor_of_file(about, text, arrays)


@contextmanager
def _reading(path: object) -> Iterator[None]:
    """Whatever goes wrong is a DataError about the file."""
    try:
        yield
    except InternalError:
        raise
    except SpfgenError as error:
        raise _unreadable(path, error.message, error.notes) from error
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except DAMAGE as error:
        foreign = "contains pickled" in str(error)  # what numpy takes any file for that is none of its own
        raise _unreadable(path, "it is not an .npz file" if foreign else f"it is damaged ({error})") from error


def read_tensor(path: str, layout: Layout, shape: tuple[int, ...] | None = None) -> Tensor | None:
    """The tensor of an .npz in this layout: one that Tensor.save wrote, or the layout's arrays by name.

    An archive of arrays may hold sizes, too: `shape`, and single numbers named after sizes of the layout. None for
    every other file, whose entries are to be packed. Raises DataError for what breaks the layout.
    """
    if not path.lower().endswith(ENDING) or not Path(path).is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            names = set(file) if isinstance(file, Mapping) else set()
            if {ABOUT, TEXT} <= names:
                tensor = load_tensor(path)
                if shape is not None and tuple(shape) != tensor.shape:
                    expected, stored = (" x ".join(map(str, s)) for s in (shape, tensor.shape))
                    raise DataError(f"expected extents of {expected}, as --shape says, but {path} holds {stored}")
                return tensor if tensor.layout == layout else None
            arrays_alone = not layout.indexes and len(names) == 1  # may be the dense array whose entries are packed
            if arrays_alone or not set(layout.arrays) <= names:
                return None
            arrays = {n: file[n] for n in layout.arrays}
            sizes = {n: int(file[n]) for n in (*layout.parameters, *layout.sizes) if n in names - set(arrays)}
            extents = tuple(map(int, file["shape"])) if "shape" in names else None
    except SpfgenError:  # a ValueError, too
        raise
    except (OSError, *DAMAGE):
        return None  # whoever reads its entries says what is wrong with it
    try:
        return make_tensor(layout, arrays, shape or extents, sizes)
    except DataError as error:
        raise DataError(
            f"expected arrays of layout `{layout.name}` in {path}: {error.message}", None, error.notes
        ) from error


def _check_bytes(file: Any) -> None:
    """No entry says that it is larger than its bytes in the file can be: memory is taken for what it says."""
    for info in file.zip.infolist():
        if info.file_size > MOST_PACKED * (info.compress_size + 1):
            raise DataError(f"it is damaged ({info.filename} says {info.file_size} bytes)")
        with file.zip.open(info) as stream:
            formats: Any = np.lib.format
            version = formats.read_magic(stream)
            read = formats.read_array_header_1_0 if version == (1, 0) else formats.read_array_header_2_0
            shape, _, dtype = read(stream)
        if prod(shape) * dtype.itemsize > info.file_size:
            raise DataError(f"it is damaged ({info.filename} says a shape of {shape}, but is shorter)")


def unpacked_bytes(path: str) -> int:
    """The bytes of the arrays of an .npz in memory, as its directory says them. Raises DataError."""
    try:
        with zipfile.ZipFile(path) as file:
            return sum(info.file_size for info in file.infolist() if info.filename.startswith(ARRAY))
    except (OSError, *DAMAGE) as error:
        raise _unreadable(path, f"it is damaged ({error})") from error


def _unreadable(path: object, reason: str, notes: tuple[str, ...] = ()) -> DataError:
    return DataError(f"expected a tensor that Tensor.save wrote, but {path} cannot be read: {reason}", None, notes)


def _layout(text: str, name: str, constants: Mapping[str, int], fill: Any = None) -> Layout:
    """The layout of the text; the one that comes with spfgen where they are equal, so that kernels are shared."""
    settings = {str(n): int(v) for n, v in constants.items()}
    declarations = [item for item in parse_file(text, "<layout>").layouts if isinstance(item, LayoutDecl)]
    if [item.name for item in declarations] != [name]:
        raise DataError(f"it holds no layout `{name}`")
    layout = layout_of(declarations[0], settings, fill)
    known = builtin(name)
    if isinstance(known, LayoutDecl) and known.constants == declarations[0].constants:
        canonical(layout_of(known, settings, fill))
    return canonical(layout)

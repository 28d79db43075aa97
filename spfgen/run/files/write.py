"""Write matrices and tensors to files that `read` and others read back with the same values."""

from __future__ import annotations

import io
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spfgen.errors import UsageError
from spfgen.run.coordinates import Coordinates

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENDINGS = (".npy", ".npz", ".mtx", ".mtx.gz", ".tns", ".tns.gz")

SHAPE_COMMENT = "# spfgen shape:"
"""Our .tns files say their shape in a first comment; the format itself has no place for it."""


def write(path: str | os.PathLike[str], data: Coordinates | NDArray[Any], force: bool = False) -> None:
    """Write data to a file by its ending; what is there already stays unless `force`.

    .npy: an ndarray. .npz: an ndarray (named `data`), or Coordinates of two dimensions as scipy.sparse does.
    .mtx (.gz): two dimensions; Coordinates in the coordinate format (bool that is all True as `pattern`), an
    ndarray in the array format. .tns (.gz): real Coordinates, or the entries of an ndarray that are not 0.

    The file appears complete or not at all. Raises UsageError when the file exists, cannot be written, or its
    ending is unknown or does not suit the data.
    """
    target = Path(path)
    ending = next((ending for ending in ENDINGS if target.name.lower().endswith(ending)), None)
    if ending is None:
        raise UsageError(f"expected a file ending in one of {' '.join(ENDINGS)}, but got {target}")
    target = target.resolve()  # the file behind a symbolic link is exchanged, not the link
    if target.exists() and not target.is_file():
        raise UsageError(f"expected a file to write, but {path} is something else")
    if target.exists() and not force:
        raise UsageError(f"expected a new file, but {path} exists", notes=["overwrite it with --force"])
    content = _content(ending.split(".")[1], data, str(path))
    if ending.endswith(".gz"):
        import gzip

        content = gzip.compress(content, mtime=0)  # no time stamp: same data, same bytes
    replace_file(target, content)


def replace_file(target: Path, content: bytes | memoryview) -> None:
    """Write a file so that it appears complete or not at all. Raises UsageError when it cannot be written."""
    # Beside the target, because a rename works only within a file system.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _content(kind: str, data: Coordinates | NDArray[Any], path: str) -> bytes:
    dtype = data.values.dtype if isinstance(data, Coordinates) else data.dtype
    if dtype.kind not in "biufc":
        raise UsageError(f"expected numbers or bool to write, but they are {dtype}")
    if kind == "npy":
        return _npy(data, path)
    if kind == "npz":
        return _npz(data, path)
    return _mtx(data, path) if kind == "mtx" else _tns(data, path)


def _npy(data: Coordinates | NDArray[Any], path: str) -> bytes:
    import numpy as np

    if isinstance(data, Coordinates):
        raise UsageError(
            f"expected a dense array to write {path}, but the data are stored entries",
            notes=["write .tns, or .mtx or .npz when there are two dimensions"],
        )
    stream = io.BytesIO()
    np.save(stream, data, allow_pickle=False)
    return stream.getvalue()


def _npz(data: Coordinates | NDArray[Any], path: str) -> bytes:
    import numpy as np

    stream = io.BytesIO()
    if isinstance(data, Coordinates):
        from scipy import sparse

        _need_matrix(data, path)
        try:
            matrix = sparse.coo_array((data.values, data.coords), shape=data.shape)
        except ValueError as error:  # a dtype that scipy.sparse does not have
            raise UsageError(f"expected data that suit {path}, but {error}") from error
        sparse.save_npz(stream, matrix)
    else:
        np.savez_compressed(stream, data=data)
    return stream.getvalue()


def _mtx(data: Coordinates | NDArray[Any], path: str) -> bytes:
    import numpy as np
    from scipy import sparse
    from scipy.io import mmwrite

    _need_matrix(data, path)
    stream = io.BytesIO()
    if isinstance(data, Coordinates):
        pattern = data.values.dtype.kind == "b" and bool(np.all(data.values))
        matrix = sparse.coo_array((_wide(data.values, path), data.coords), shape=data.shape)
        mmwrite(stream, matrix, field="pattern" if pattern else None, symmetry="general")
    else:
        mmwrite(stream, _wide(data, path), symmetry="general")
    return stream.getvalue()


def _tns(data: Coordinates | NDArray[Any], path: str) -> bytes:
    import numpy as np

    if not isinstance(data, Coordinates):
        places = np.nonzero(data) if data.ndim else ()
        coords = tuple(coord.astype(np.int64) for coord in places)
        data = Coordinates(data.shape, coords, data[places].reshape(-1))
    values = _wide(data.values, path)
    if values.dtype.kind == "c" or not data.shape:
        raise UsageError(f"expected real numbers in some dimension to write {path}, but the data have others")
    # Python prints the shortest text that reads back as the same number.
    columns = [(coord + 1).tolist() for coord in data.coords] + [values.tolist()]
    lines = [" ".join((SHAPE_COMMENT, *map(str, data.shape)))]
    lines += [" ".join(map(repr, row)) for row in zip(*columns, strict=True)]
    return ("\n".join(lines) + "\n").encode("ascii")


def _need_matrix(data: Coordinates | NDArray[Any], path: str) -> None:
    if len(data.shape) != 2:
        raise UsageError(
            f"expected two dimensions to write {path}, but there are {len(data.shape)}",
            notes=["write .tns, or .npy for a dense array"],
        )


def _wide(values: NDArray[Any], path: str) -> NDArray[Any]:
    """The values in the widest dtype of their kind.

    The short decimal form of a float32 would read back as a float64 that is another number.
    """
    kind = values.dtype.kind
    wide = {"b": "int64", "i": "int64", "u": "uint64", "f": "float64", "c": "complex128"}[kind]
    if values.dtype.itemsize > 8 * (1 + (kind == "c")):
        raise UsageError(f"expected {wide} at most to write {path}, but the numbers are {values.dtype}")
    return values.astype(wide)

"""Disk cache of shared objects: one file `<key>.so` per kernel, beside it in `<key>.json` its checksum and what it is.

A key names everything that determines the object file, so an entry never has to be invalidated. Entries are
made under a lock per key (many processes that start at once compile once) and appear by a rename, so nobody
ever sees half a file. The folder is ours alone, because what lies in it is executed.

Environment: `SPFGEN_CACHE_DIR` names the folder; `SPFGEN_CACHE=off` keeps nothing beyond the process.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import re
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spfgen.errors import InternalError, ToolError, UsageError
from spfgen.folder import (
    KINDS,
    MEASURED,
    cache_setting,
    clear_small_files,
    hash_of,
    is_open,
    is_ours,
    wanted_folder,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


LOGGER = logging.getLogger(__name__)
_OURS = re.compile(r"([0-9a-f]{64})\.(?:so|json|lock|.*tmp)")


@dataclass(frozen=True)
class Entry:
    """A shared object in the folder: its key, what it is, its size, and when it was made (seconds since 1970)."""

    key: str
    about: str
    bytes: int
    made: float


@dataclass(frozen=True)
class Folder:
    """The folder in use; `problem` says why it is not the `wanted` one (None when the cache is off)."""

    path: Path
    wanted: Path | None
    problem: str = ""


key = hash_of
"""The name of an entry: a hash of the parts."""


def where() -> Folder:
    """Choose the folder, make it if need be, and check that it can be used. Says nothing; see `path`.

    Raises UsageError when `SPFGEN_CACHE` is neither on nor off.
    """
    setting = cache_setting()
    if setting not in ("", "on", "off"):
        raise UsageError(
            f"expected on or off in the environment variable SPFGEN_CACHE, but it is {setting!r}",
            notes=["the folder is set by SPFGEN_CACHE_DIR"],
        )
    if setting == "off":
        return Folder(_private_folder(), None)
    try:
        wanted = wanted_folder()
    except (OSError, RuntimeError) as error:  # a home folder that nobody knows
        return Folder(_private_folder(), None, f"the cache folder cannot be found: {error}")
    problem = _problem_of(wanted)
    return Folder(_private_folder() if problem else wanted, wanted, problem)


def path() -> Path:
    """The folder in use. Warns once when it is a temporary one because the wanted one cannot be used."""
    folder = where()
    if folder.problem:
        _warn_once(f"kernels are compiled anew in every process: {folder.problem} (set SPFGEN_CACHE_DIR)")
    return folder.path


def kept() -> Path:
    """The folder that outlives the process, for those who look after it.

    Raises UsageError when `SPFGEN_CACHE` is off, ToolError when the folder cannot be used.
    """
    folder = where()
    if folder.problem:
        raise ToolError(f"expected a cache folder, but {folder.problem}", notes=["set SPFGEN_CACHE_DIR to another one"])
    if folder.wanted is None:
        raise UsageError("expected a cache folder, but SPFGEN_CACHE is off, so that nothing is kept")
    return folder.path


def fetch(key: str, make: Callable[[Path], None], about: str = "") -> Path:
    """The shared object of `key`; calls `make(temporary path)` when there is none or it is damaged.

    `about` says to people what it is.

    Of many processes and threads that ask at once, one calls `make`; the others wait for it. What `make`
    raises is passed on and leaves nothing behind; only an OSError becomes a ToolError about the folder.
    """
    folder = path()
    entry = folder / f"{key}.so"
    if _is_intact(entry):
        LOGGER.debug("kept: %s", about or key)
        return entry
    try:
        with _lock(folder / f"{key}.lock"):
            if not _is_intact(entry):  # nobody was faster while we waited
                _create(entry, make, about)
    except OSError as error:
        raise ToolError(
            f"expected to write the kernel cache, but {folder}: {error.strerror or error}",
            notes=["set SPFGEN_CACHE_DIR to another folder, or SPFGEN_CACHE=off"],
        ) from error
    return entry


def has(key: str) -> bool:
    """Whether `fetch` finds it."""
    return _is_intact(path() / f"{key}.so")


def entries(folder: Path) -> tuple[Entry, ...]:
    """The shared objects in the folder, the newest first."""
    listed = []
    for file in folder.glob("*.so"):
        # Another process may clear the folder while this one looks.
        with contextlib.suppress(OSError):
            if _OURS.fullmatch(file.name) and file.is_file():
                status = file.stat()
                about = str(_record(file).get("about", ""))
                listed.append(Entry(file.stem, about, status.st_size, status.st_mtime))
    return tuple(sorted(listed, key=lambda e: (-e.made, e.key)))


def clear(*, tuned: bool = False) -> int:
    """Remove all entries, and what killed processes left; returns the number of entries removed.

    Kernels that are loaded go on working; entries that are being made right now stay. Z3's answers and the parser's
    tables go too; the schedules that `spfgen tune` found only when `tuned`. Other files in the folder are not touched.
    Raises ToolError when a file cannot be removed.
    """
    from filelock import FileLock, Timeout

    folder = path()
    count = 0
    keys = {match[1] for file in folder.iterdir() if (match := _OURS.fullmatch(file.name))}
    for one in sorted(keys):
        lock = folder / f"{one}.lock"
        try:
            with FileLock(lock, timeout=0):
                files = list(folder.glob(f"{one}.*"))
                count += sum(file.suffix == ".so" for file in files)
                for file in files:
                    if file != lock:
                        _remove(file)
                # Two processes may now make one entry, if one waits for this very file: twice the work
                # at worst, since entries appear by a rename.
                lock.unlink(missing_ok=True)
        except Timeout:
            continue
        except OSError as error:
            raise ToolError(f"expected to clear {folder}, but {error.strerror or error}") from error
    clear_small_files(folder, [kind for kind in KINDS if tuned or kind != MEASURED])
    return count


@contextlib.contextmanager
def _lock(file: Path) -> Iterator[None]:
    """Hold the lock. On file systems that have none (some network ones) nobody waits: the work may be done twice."""
    from filelock import FileLock

    lock = FileLock(file, mode=0o600)
    try:
        lock.acquire()
    except NotImplementedError:
        pass
    except OSError:  # something else has its name, a folder or a broken link
        with contextlib.suppress(OSError):
            _remove(file)
        with contextlib.suppress(OSError, NotImplementedError):
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _create(entry: Path, make: Callable[[Path], None], about: str) -> None:
    handle, name = tempfile.mkstemp(prefix=f"{entry.stem}.", suffix=".tmp", dir=entry.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        make(temporary)
        if not temporary.is_file() or temporary.stat().st_size == 0:
            raise InternalError(f"expected a shared object but {temporary.name} is empty or missing")
        # A linker makes its output readable for all; the cache is for its owner.
        temporary.chmod(0o700)
        record = {"sha256": _checksum(temporary), "bytes": temporary.stat().st_size, "about": about}
        _replace(temporary, entry)
        temporary.write_text(json.dumps(record) + "\n", encoding="utf-8")
        temporary.chmod(0o600)
        # The record comes last: a crash in between leaves an entry that is rebuilt, not one that is trusted.
        _replace(temporary, entry.with_suffix(".json"))
    finally:
        temporary.unlink(missing_ok=True)


def _replace(temporary: Path, target: Path) -> None:
    with temporary.open("rb") as stream:
        os.fsync(stream.fileno())
    if target.is_dir() and not target.is_symlink():
        _remove(target)  # a rename replaces all but folders
    temporary.replace(target)


def _remove(file: Path) -> None:
    """Remove what bears the name of an entry, whatever it has become."""
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    else:
        file.unlink(missing_ok=True)


def _is_intact(entry: Path) -> bool:
    record = _record(entry)
    try:
        size = entry.stat().st_size
        return size > 0 and size == record.get("bytes") and _checksum(entry) == record.get("sha256")
    except OSError:
        return False


def _record(entry: Path) -> dict[str, object]:
    """What is written down about an entry; nothing when that is missing or damaged."""
    try:
        record = json.loads(entry.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _problem_of(folder: Path) -> str:
    """Why kernels cannot be kept in `folder`, in words; empty when they can."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        return f"the cache folder {folder} cannot be made: {error.strerror or error}"
    if not is_ours(status):
        return f"the cache folder {folder} belongs to somebody else, who could exchange kernels"
    if is_open(status):
        return f"others may write to the cache folder {folder} and could exchange kernels"
    try:
        # Permissions do not tell about file systems that are read-only or full, nor bind root; trying tells.
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"the cache folder {folder} cannot be written: {error.strerror or error}"


@functools.cache
def _private_folder() -> Path:
    import atexit

    folder = Path(tempfile.mkdtemp(prefix="spfgen-"))
    maker = os.getpid()

    def remove() -> None:
        # A forked child shares the folder with its parent and must not take it away.
        if os.getpid() == maker:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


@functools.cache
def _warn_once(text: str) -> None:
    warnings.warn(text, stacklevel=3)

"""The folder in which spfgen keeps what it made, and small files in it.

Environment: `SPFGEN_CACHE_DIR` names the folder; `SPFGEN_CACHE=off` keeps nothing beyond the process. The folder is
for its owner alone: kernels in it are executed, proofs are believed.

Compiled kernels lie in it (run/cache.py), and in a subfolder of each kind small files: Z3's answers, the tables of the
parser, the C of kernels, that they are compiled (run/later.py), that layouts were checked (layout/checked.py), how
layouts are packed (layout/table.py), and schedules that were measured (tuned.py): those alone cannot be made anew in a
moment, and stay when the rest is cleared.
A small file is named by a hash of all that determines what it holds, and begins with a checksum: what is damaged or not
ours counts as absent. It appears by a rename, so that many processes may read and write at once. Nothing about small
files ever fails: where they cannot be kept, their content is made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import stat
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

MEASURED = "tuned"
SOLVERS = ("islpy", "z3")
KINDS = ("answers", "grammar", "kernels", "layouts", "packing", "ready", MEASURED)
_OURS = re.compile(r"[0-9a-f]{64}(\.\d+-\d+\.tmp)?")


def variable(name: str) -> str:
    """What a variable of the environment says, "" where it is not set: each call of an operation asks. `os.environ.get`
    raises and catches an exception then, which takes ten times as long as a look at its dictionary."""
    held = getattr(os.environ, "_data", None)
    if held is not None and os.environ.encodekey(name) not in held:
        return ""
    return os.environ.get(name, "")


def cache_setting() -> str:
    """What `SPFGEN_CACHE` says; empty or `on` when things are kept."""
    return variable("SPFGEN_CACHE").strip().lower()


def wanted_folder() -> Path:
    """The folder that the user wants, whether or not it can be used."""
    if chosen := os.environ.get("SPFGEN_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    # platformdirs looks at XDG_CACHE_HOME on Linux only; people set it on macOS as well. The specification
    # wants a relative path to be ignored.
    if (home := os.environ.get("XDG_CACHE_HOME")) and Path(home).is_absolute():
        return Path(home) / "spfgen"
    import platformdirs

    return platformdirs.user_cache_path("spfgen", appauthor=False)


def is_ours(status: os.stat_result) -> bool:
    """Whether the folder with this status belongs to the user, or to root, who may do anything anyway."""
    return not hasattr(os, "geteuid") or status.st_uid in (0, os.geteuid())


def is_open(status: os.stat_result) -> bool:
    """Whether others than its owner may write to it."""
    return bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


# --- small files ----------------------------------------------------------------------------------------


def hash_of(*parts: str) -> str:
    """The sha256 of the parts as hexadecimal digits. Lengths count too: ("ab", "c") is not ("a", "bc")."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape")
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def load(kind: str, key: str) -> bytes | None:
    """What was stored under the key, if it is intact and nobody else can have put it there."""
    folder = _folder(kind)
    try:
        if folder is None or not _is_trusted(folder):
            return None
        checksum, _, data = (folder / key).read_bytes().partition(b"\n")
    except OSError:
        return None
    return data if checksum == _checksum(key, data) else None


def save(kind: str, key: str, data: bytes) -> None:
    """Store the data under the key where that is possible."""
    folder = _folder(kind)
    if folder is None:
        return
    with contextlib.suppress(OSError):
        for one in (folder.parent, folder):  # a mode is for the last folder of a path only
            one.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_trusted(folder):
            temporary = folder / f"{key}.{os.getpid()}-{threading.get_ident()}.tmp"
            try:
                temporary.touch(mode=0o600)
                temporary.write_bytes(_checksum(key, data) + b"\n" + data)
                temporary.replace(folder / key)
            finally:
                temporary.unlink(missing_ok=True)


def remove(kind: str, key: str) -> bool:
    """Remove what was stored under the key; says whether there was anything."""
    folder = _folder(kind)
    with contextlib.suppress(OSError):
        if folder is not None:
            (folder / key).unlink()
            return True
    return False


def holds(kind: str) -> bool:
    """Whether anything of that kind can have been stored."""
    folder = _folder(kind)
    return folder is not None and folder.is_dir()


def clear_small_files(folder: Path, kinds: Sequence[str] = KINDS) -> None:
    """Remove the small files of the folder, and what killed processes left of them; nothing that is not ours."""
    for kind in kinds:
        with contextlib.suppress(OSError):
            for file in (folder / kind).iterdir():
                if _OURS.fullmatch(file.name):
                    file.unlink(missing_ok=True)
            (folder / kind).rmdir()


def small_files(folder: Path) -> dict[str, tuple[int, int]]:
    """How many small files of each kind the folder holds, and their bytes."""
    counts = {}
    for kind in KINDS:
        sizes = []
        with contextlib.suppress(OSError):
            for file in (folder / kind).iterdir():
                with contextlib.suppress(OSError):
                    sizes.append(file.stat().st_size)
        counts[kind] = (len(sizes), sum(sizes))
    return counts


def human_bytes(count: int) -> str:
    """`1.5 kB`: a number of bytes in the unit that suits it, units of 1000."""
    units = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
    size, power = float(count), 0
    while size >= 999.5 and power + 1 < len(units):
        size, power = size / 1000, power + 1
    return f"{size:.3g} {units[power]}"


def _folder(kind: str) -> Path | None:
    """Where the small files of a kind lie; None when nothing is to be kept beyond the process."""
    assert kind in KINDS
    if cache_setting() not in ("", "on"):
        return None
    try:
        return wanted_folder() / kind
    except (OSError, RuntimeError):  # there is no home folder
        return None


def _is_trusted(folder: Path) -> bool:
    """Whether the folder and the one around it are for us alone: a forged proof is a wrong kernel."""
    for one in (folder.parent, folder):
        status = one.stat()
        if not is_ours(status) or is_open(status):
            return False
    return True


def _checksum(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + data).hexdigest().encode()


# --- what decides what is generated -----------------------------------------------------------------------


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """Of all files that decide what is generated: their sizes and times, or that they are not there."""
    package = os.walk(Path(__file__).parent)
    files = sorted(f"{f}{os.sep}{n}" for f, _, names in package for n in names if n.endswith((".py", ".lark", ".h")))
    specs = [importlib.util.find_spec(name) for name in SOLVERS]
    files += [spec.origin for spec in specs if spec is not None and spec.origin is not None]
    return hash_of(*[f"{file}: {_stamp(file)}" for file in files])


def _stamp(file: str) -> str:
    try:
        status = os.stat(file)  # noqa: PTH116 - of hundreds of files: Path takes four times as long
    except OSError:
        return "absent"
    return f"{status.st_size} {status.st_mtime_ns}"

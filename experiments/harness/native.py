"""C files that live beside an experiment: compile, load through ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.case import Missing

FLAGS = ("-O3", "-march=native", "-std=c99", "-fopenmp")


def compiler() -> str:
    """The C compiler: $CC, or `cc`."""
    return os.environ.get("CC", "cc")


def command(source: Path, output: Path, extra: Sequence[str] = ()) -> list[str]:
    """The command line that makes a shared library; the same flags for all contestants written in C."""
    return [*compiler().split(), *FLAGS, "-shared", "-fPIC", *extra, str(source), "-o", str(output), "-lm"]


@cache
def load(source: Path, extra: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The library made of one C file, compiled unless the same text was compiled before."""
    if shutil.which(compiler().split()[0]) is None:
        raise Missing(f"no C compiler {compiler()!r}")
    # "native" means another thing on another machine, and the folder may be shared: the key has the CPU.
    key = (source.read_text(), compiler(), FLAGS, extra, platform.node(), platform.machine())
    name = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
    folder = Path(tempfile.gettempdir()) / f"spfgen-experiments-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"{source.stem}-{name}.so"
    if not library.exists():
        fresh = library.with_suffix(f".{os.getpid()}.so")
        done = subprocess.run(command(source, fresh, extra), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{source.name} does not compile: {done.stderr.strip()}")
        fresh.replace(library)
    return ctypes.CDLL(str(library))


def pointer(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    """The address of the first element; the caller keeps the array alive."""
    if not array.flags.c_contiguous:
        raise ValueError("expected a contiguous array")
    return ctypes.c_void_p(array.ctypes.data)


def bind(function: Any, *arguments: Any) -> Callable[[], Any]:
    """The function with its arguments converted once, so that a timed call converts nothing."""
    ready = [pointer(a) if isinstance(a, np.ndarray) else a for a in arguments]
    ready = [ctypes.c_int(a) if isinstance(a, int) else a for a in ready]
    return partial(function, *ready)

"""C and C++ files that live beside an experiment: compile, load through ctypes."""

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
CPP_FLAGS = ("-O3", "-march=native", "-std=c++17", "-fopenmp")


def compiler() -> str:
    """The C compiler: $CC, or `cc`."""
    return os.environ.get("CC", "cc")


def cpp_compiler() -> str:
    """The C++ compiler: $CXX, or `c++`."""
    return os.environ.get("CXX", "c++")


def language(source: Path) -> tuple[str, tuple[str, ...]]:
    """The compiler of a file and its flags."""
    return (cpp_compiler(), CPP_FLAGS) if source.suffix == ".cpp" else (compiler(), FLAGS)


def cache_folder() -> Path:
    """Where things are kept that take long to make: compiled files, large made matrices."""
    folder = Path(tempfile.gettempdir()) / f"spfgen-experiments-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def command(source: Path, output: Path, extra: Sequence[str] = ()) -> list[str]:
    """The command line that makes a shared library; the same flags for all contestants written in C."""
    tool, flags = language(source)
    return [*tool.split(), *flags, "-shared", "-fPIC", *extra, str(source), "-o", str(output), "-lm"]


@cache
def load(source: Path, extra: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The library made of one file, compiled unless the same text was compiled before."""
    tool, flags = language(source)
    if shutil.which(tool.split()[0]) is None:
        raise Missing(f"no compiler {tool!r}")
    # "native" means another thing on another machine, and the folder may be shared: the key has the CPU.
    key = (source.read_text(), tool, flags, extra, platform.node(), platform.machine())
    name = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
    library = cache_folder() / f"{source.stem}-{name}.so"
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

"""What the figures were measured on. Only the standard library: this is imported before numpy."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
PACKAGES = ("numpy", "scipy", "mkl", "python-graphblas", "suitesparse-graphblas", "islpy", "spfgen")


def usable_cores() -> int:
    """Physical cores that this process may use (two hardware threads of one core count once)."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        topology = CPUS / f"cpu{cpu}" / "topology"
        cores.add((_read(topology / "physical_package_id"), _read(topology / "core_id") or str(cpu)))
    return max(1, len(cores))


def caches() -> dict[str, int]:
    """Bytes of each cache that the first CPU sees, by name: L1 data, L2 unified, ..."""
    found = {}
    for index in sorted((CPUS / "cpu0" / "cache").glob("index*")):
        size = re.fullmatch(r"(\d+)([KMG]?)", _read(index / "size"))
        if size:
            factor = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[size[2]]
            found[f"L{_read(index / 'level')} {_read(index / 'type').lower()}"] = int(size[1]) * factor
    return found


def last_level_cache() -> int:
    """Bytes of the largest cache; a guess of 64 MB where the system does not say."""
    return max(caches().values(), default=64 << 20)


def available_memory() -> int:
    """Bytes that can be allocated without swapping."""
    found = re.search(r"MemAvailable:\s+(\d+) kB", _read(Path("/proc/meminfo")))
    return int(found[1]) * 1024 if found else 4 << 30


def cpu_model() -> str:
    """The name that the CPU gives itself."""
    found = re.search(r"model name\s*:\s*(.+)", _read(Path("/proc/cpuinfo")))
    return found[1].strip() if found else platform.processor() or platform.machine()


def others_running() -> int:
    """How many threads of the whole machine run or are ready to, without the one that asks; 0 if unknown."""
    found = re.search(r" (\d+)/\d+ ", _read(Path("/proc/loadavg")))
    return int(found[1]) - 1 if found else 0


def waited_for_cores() -> int:
    """Nanoseconds that threads of this process were ready to run and had no core, in all; 0 where unknown.

    When it grows during a sample, other processes took cores away, and the sample tells nothing.
    """
    total = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        fields = _read(task).split()
        total += int(fields[1]) if len(fields) == 3 else 0
    return total


def versions() -> dict[str, str]:
    """Python, the C compiler, and the packages that are there."""
    found = {"python": platform.python_version(), "cc": _compiler_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def describe() -> dict[str, object]:
    """All of it, for the record. No host name and no path: the record may be shown around."""
    threading = ("OMP_", "GOMP_", "MKL_", "KMP_", "OPENBLAS_")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "cpus": os.cpu_count(),
        "caches": caches(),
        "system": f"{platform.system()} {platform.release()}",
        "load_average": os.getloadavg(),
        "versions": versions(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(threading)},
    }


def _compiler_version() -> str:
    try:
        done = subprocess.run(
            [*os.environ.get("CC", "cc").split(), "--version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return "missing"
    return done.stdout.splitlines()[0] if done.stdout else "unknown"


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""

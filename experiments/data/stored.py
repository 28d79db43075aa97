"""Real matrices: small ones of the repository, and those of the folder that SPFGEN_DATA names."""

from __future__ import annotations

import csv
import gzip
import lzma
import os
from dataclasses import dataclass
from pathlib import Path

from scipy.io import mmread
from scipy.sparse import csr_array

from experiments.data.shape import as_csr

REPOSITORY_DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
OPENERS = {".gz": gzip.open, ".xz": lzma.open}


@dataclass(frozen=True, slots=True)
class StoredMatrix:
    """A Matrix Market file that has not been read yet. `entries` is 0 when nobody has counted them."""

    name: str
    path: Path
    entries: int = 0

    def load(self) -> csr_array:
        """Read it; a pattern has ones, a symmetric file is expanded."""
        opener = OPENERS.get(self.path.suffix, open)
        with opener(self.path, "rb") as stream:
            return as_csr(mmread(stream))


def repository_matrices() -> list[StoredMatrix]:
    """The small ones that come with the tests."""
    return [StoredMatrix(p.name.removesuffix(".mtx.gz"), p) for p in sorted(REPOSITORY_DATA.glob("*.mtx.gz"))]


def shared_matrices(least_entries: int = 0) -> list[StoredMatrix]:
    """Real matrices of the group "open", largest first.

    Only that group: the other one is for final measurements, and nothing may be tuned to it.
    """
    named = os.environ.get("SPFGEN_DATA")
    if not named:
        return []
    folder = Path(named)
    with (folder / "MANIFEST.tsv").open(newline="") as stream:
        reader = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        rows = [row for row in reader if row["group"] == "open"]
    found = [
        StoredMatrix(row["name"], folder / row["path"], int(row["nnz"]))
        for row in rows
        if row["kind"] == "matrix" and row["field"] != "complex" and ".mtx" in row["path"]
    ]
    return sorted((m for m in found if m.entries >= least_entries), key=lambda m: (-m.entries, m.name))

"""Images: those of the folder that SPFGEN_DATA names, and made ones."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class StoredImages:
    """Bytes that have not been read yet: one image, or several of one shape."""

    name: str
    path: Path

    def load(self) -> Array:
        """The images, which are the first array of the file."""
        with np.load(self.path) as arrays:
            return np.asarray(arrays[arrays.files[0]])


def shared_images(prefix: str) -> list[StoredImages]:
    """Those of the group "open" with such a name."""
    named = os.environ.get("SPFGEN_DATA")
    if not named:
        return []
    with (Path(named) / "MANIFEST.tsv").open(newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        StoredImages(row["name"], Path(named) / row["path"])
        for row in rows
        if row["group"] == "open" and row["kind"] == "images" and row["name"].startswith(prefix)
    ]


def head(slices: int, rows: int, columns: int, seed: int = 70) -> Array:
    """Slices of something like a head: an ellipsoid with nothing around it, brighter ones within, and noise."""
    random = np.random.default_rng(seed)
    z, y, x = np.meshgrid(*(np.linspace(-1, 1, n) for n in (slices, rows, columns)), indexing="ij")
    found = np.where(x**2 + y**2 + z**2 < 0.7, 110.0, 0.0)
    for _ in range(12):
        centre, radius = random.uniform(-0.5, 0.5, 3), random.uniform(0.05, 0.25)
        inner = (z - centre[0]) ** 2 + (y - centre[1]) ** 2 + (x - centre[2]) ** 2 < radius**2
        found[inner] += random.uniform(-60, 90)
    found[found > 0] += random.normal(0, 12, int((found > 0).sum()))
    return np.clip(found, 0, 255).astype(np.uint8)


def drawings(count: int, size: int, seed: int = 71) -> Array:
    """Black and white images with some thick lines and discs each: 1 is ink."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:size, :size] / size
    found = np.zeros((count, size, size), np.uint8)
    for image in found:
        for _ in range(4):
            (a, b, c, d), width = random.uniform(0.15, 0.85, 4), random.uniform(0.02, 0.06)
            along = np.clip(((x - a) * (c - a) + (y - b) * (d - b)) / ((c - a) ** 2 + (d - b) ** 2 + 1e-9), 0, 1)
            image[np.hypot(x - a - along * (c - a), y - b - along * (d - b)) < width] = 1
        a, b = random.uniform(0.25, 0.75, 2)
        image[np.hypot(x - a, y - b) < random.uniform(0.05, 0.2)] = 1
    return found


def magnified(image: Array, times: int) -> Array:
    """Each pixel of the last two dimensions as a square of pixels."""
    return image.repeat(times, axis=-2).repeat(times, axis=-1)

"""Images: erosion, a blur, blending, a histogram under a mask, and how alike all pairs of images are.

Black and white images are drawings, magnified so that they have runs. Erosion of ours works on words of 64 pixels;
other contestants have bytes, a bitmap, runs. OpenCV and numpy have dense images of bytes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from experiments.data import images
from experiments.harness.case import Runner
from experiments.peers import opencv
from experiments.structured.task import TEXT, Data, Task

Array = np.ndarray[Any, Any]

WORD = 64
BINS = 16
EROSION_OF_WORDS = """
local tensor t : dense<uint64>
for y {
    for x { t[x] = coalesce(p[y - 1,x], ones) & p[y,x] & coalesce(p[y + 1,x], ones) }
    for x {
        let c = t[x]
        let before = coalesce(t[x - 1], ones)
        let after = coalesce(t[x + 1], ones)
        q[y,x] = ((c << 1) | (before >> 63)) & c & ((c >> 1) | (after << 63))
    }
}
"""
EROSION = """
local tensor t : dense<bool>
for y {
    for x { t[x] = coalesce(p[y - 1,x], true) & p[y,x] & coalesce(p[y + 1,x], true) }
    for x { q[y,x] = coalesce(t[x - 1], true) & t[x] & coalesce(t[x + 1], true) }
}
"""
HISTOGRAM = """
h[b] = 0
for y, x { if m[y,x] { h[p[y,x]//16] += 1 } }
"""
SIMILARITY = """
local tensor r : dense
r[k] = sum(p: A[k,p]**2)
O[k,l] = r[k] + r[l] - 2*sum(p: A[k,p]*A[l,p])
"""


# --- data ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def drawing(quick: bool) -> Array:
    """Whether there is ink: four drawings side by side, magnified; real ones where there are any."""
    count, times = 4, 2 if quick else 16
    stored = images.shared_images("omniglot")
    found = stored[0].load()[:count] if stored else images.drawings(count, 105)
    wide = images.magnified(np.concatenate(list(found), axis=1), times)
    return np.ascontiguousarray(wide[:, : wide.shape[1] // WORD * WORD] != 0)


def ink(quick: bool) -> Data:
    """A drawing as p."""
    return {"p": drawing(quick)}


def words(data: Data) -> Data:
    """The bits of 64 pixels in a word, the first pixel lowest; `ones` is a word that is full."""
    bits = np.packbits(data["p"], axis=1, bitorder="little")
    return {"p": bits.view(np.uint64), "ones": np.uint64(2**WORD - 1)}


def pixels(found: Any, data: Data) -> Array:
    """The pixels of words."""
    return np.unpackbits(np.asarray(found).view(np.uint8), axis=1, bitorder="little").astype(bool)


def grey(quick: bool) -> Data:
    """An image whose rows have runs of ten pixels, and weights of its neighbours."""
    random = np.random.default_rng(63)
    rows, columns = (100, 30) if quick else (2000, 300)
    image = np.repeat(random.integers(0, 256, (rows, columns)), 10, axis=1)
    image[random.random(rows) < 0.5] = 0
    return {"p": image.astype(float), "w": np.full((3, 3), 1.0)}


def two_images(quick: bool) -> Data:
    """Two images: in their rows, values stay the same for 8 places and for 12."""
    random = np.random.default_rng(62)
    rows, columns = (120, 480) if quick else (2000, 2400)
    a, b = (
        np.repeat(random.integers(0, 256, (rows, columns // length)), length, axis=1).astype(float)
        for length in (8, 12)
    )
    return {"A": a, "B": b}


def masked(quick: bool) -> Data:
    """Grey noise as p, and a drawing as the mask m."""
    mask = drawing(quick)
    return {"m": mask, "p": np.random.default_rng(64).integers(0, 256, mask.shape).astype(np.uint8)}


def digits(quick: bool) -> Data:
    """An image in each row: digits where there are any, else drawings; whole numbers."""
    count = 60 if quick else 600
    stored = images.shared_images("mnist")
    found = stored[0].load()[:count] if stored else 255 * images.drawings(count, 28)
    return {"A": found.reshape(count, -1).astype(float)}


# --- what it means -------------------------------------------------------------------------------------


def eroded(p: Array) -> Array:
    """Ink whose eight neighbours are ink, too; so is all that is outside."""
    columns = p.shape[1]
    around = np.pad(p, 1, constant_values=True)
    over = around[:-2] & around[1:-1] & around[2:]
    return over[:, :columns] & over[:, 1 : columns + 1] & over[:, 2:]


def blurred(p: Array, w: Array) -> Array:
    """The sum of nine neighbours, what is outside is 0."""
    columns = p.shape[1]
    around = np.pad(p, 1)
    over = around[:-2] + around[1:-1] + around[2:]
    return over[:, :columns] + over[:, 1 : columns + 1] + over[:, 2:]


def similarity(A: Array) -> Array:  # noqa: N803
    """Squares of distances."""
    squares = (A**2).sum(axis=1)
    return squares[:, None] + squares - 2 * (A @ A.T)


# --- OpenCV --------------------------------------------------------------------------------------------


def opencv_erosion(data: Data, threads: int) -> Runner:
    image, kernel = data["p"].astype(np.uint8), np.ones((3, 3), np.uint8)
    return opencv.prepare(lambda cv2: cv2.erode(image, kernel, borderType=cv2.BORDER_CONSTANT, borderValue=1), threads)


def opencv_blur(data: Data, threads: int) -> Runner:
    image = data["p"]
    return opencv.prepare(
        lambda cv2: cv2.boxFilter(image, -1, (3, 3), normalize=False, borderType=cv2.BORDER_CONSTANT), threads
    )


def opencv_blending(data: Data, threads: int) -> Runner:
    """On bytes; OpenCV rounds them itself."""
    a, b = data["A"].astype(np.uint8), data["B"].astype(np.uint8)
    return opencv.prepare(lambda cv2: cv2.addWeighted(a, 0.25, b, 0.75, 0.0), threads)


def opencv_histogram(data: Data, threads: int) -> Runner:
    mask, image = data["m"].astype(np.uint8), data["p"]
    return opencv.prepare(lambda cv2: cv2.calcHist([image], [0], mask, [BINS], [0, 256]).ravel(), threads)


TASKS = (
    Task(
        "erosion of an image",
        EROSION_OF_WORDS,
        {"p": "dense<uint64>", "q": "dense<uint64>"},
        ink,
        eroded,
        {
            "bytes": {TEXT: EROSION, "p": "dense<bool>", "q": "dense<bool>"},
            "bitmap": {TEXT: EROSION, "p": "bit_map_pattern", "q": "dense<bool>"},
            "runs": {TEXT: EROSION, "p": "csr_rle<bool>", "q": "dense<bool>"},
        },
        peers={"opencv": opencv_erosion},
        operands=words,
        result=pixels,
    ),
    Task(
        "blur of an image",
        "q[y,x] = p[y + r - 1,x + c - 1]*w[r,c]",
        {"p": "csr_rle", "w": "dense", "q": "dense"},
        grey,
        blurred,
        {"dense": {"p": "dense"}, "bitmap": {"p": "bit_map"}},
        peers={"opencv": opencv_blur},
        sizes=lambda data: dict(zip("yx", data["p"].shape, strict=True)),
    ),
    Task(
        "blending of two images of runs",
        "C[i,j] = round(0.25*A[i,j] + 0.75*B[i,j])",
        {"A": "csr_rle", "B": "csr_rle", "C": "csr_rle"},
        two_images,
        lambda A, B: np.round(0.25 * A + 0.75 * B),  # noqa: N803
        {"dense result": {"C": "dense"}},
        peers={"opencv": opencv_blending},
    ),
    Task(
        "histogram of an image under a mask",
        HISTOGRAM,
        {"m": "csr_rle<bool>", "p": "dense<uint8>", "h": "dense<int64>"},
        masked,
        lambda m, p: np.bincount(p[m] // BINS, minlength=BINS),
        {"bytes": {"m": "dense<bool>"}, "bitmap": {"m": "bit_map_pattern"}},
        peers={"opencv": opencv_histogram},
        operands=lambda data: {**data, "h": np.zeros(BINS, np.int64)},
    ),
    Task(
        "similarity of all pairs of images",
        SIMILARITY,
        {"A": "csr", "O": "dense"},
        digits,
        similarity,
        {"runs": {"A": "csr_rle"}, "vbl": {"A": "vbl"}, "dense": {"A": "dense"}},
    ),
)

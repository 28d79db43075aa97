"""OpenCV: operations on dense images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from experiments.harness.case import Missing, Runner
from experiments.peers.kernels import measured


def module() -> Any:
    """The package."""
    try:
        import cv2
    except ImportError as error:
        raise Missing(f"{error}; pip install opencv-python-headless") from error
    return cv2


def prepare(apply: Callable[[Any], Any], threads: int) -> Runner:
    """A call of the library, which has so many threads in each call."""
    cv2 = module()

    def call() -> Any:
        cv2.setNumThreads(threads)
        return apply(cv2)

    return measured(call)

"""Where a case lies: matrix, layout, density of x, threads; and the label that says so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """The coordinates of a case."""

    matrix: str
    layout: str
    density: float
    threads: int

    @property
    def label(self) -> str:
        """The label of the case."""
        return f"{self.matrix}, {self.layout}, x {self.density:g}, {threads_text(self.threads)}"

    @staticmethod
    def of(label: str) -> Point:
        """The point with this label."""
        matrix, layout, density, threads = label.rsplit(", ", 3)
        return Point(matrix, layout, float(density.removeprefix("x ")), int(threads.split()[0]))


def threads_text(threads: int) -> str:
    """The thread count in words."""
    return "1 thread" if threads == 1 else f"{threads} threads"

"""What cuts, costs, texts of blocks and explanations ask of equations that are planned together (joint_plan.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spfgen.cluster.blocked import Blocked
from spfgen.cluster.cuts import Bounds, Box
from spfgen.cluster.extents import KnownExtents
from spfgen.cluster.iteration_space import BlocksOfWork, ReadPart
from spfgen.cluster.separability import OperandRead, Separable, Way

Cuts = Mapping[str, Bounds]
"""The bounds of the blocks of indices."""
Ranges = dict[str, tuple[int, int]]
Place = Mapping[str, int]
Parts = tuple[ReadPart | str | None, ...]
"""Along each axis: what isl says, an index whose block it is, or all of it."""


class Joint(Protocol):
    """Equations or loops that are planned together. Members mean what they mean in joint_plan.py."""

    operands: Mapping[str, Any]
    kept: Mapping[str, Blocked]
    layouts: Mapping[str, Any]
    said: dict[str, int]
    named: dict[str, int]
    found: KnownExtents
    steps: tuple[Any, ...]
    targets: tuple[str, ...]
    separable: Separable
    reads: tuple[OperandRead, ...]
    named_steps: tuple[Any, ...]
    parts: dict[str, Parts]
    cuts: Cuts
    sources: dict[str, Any]
    narrowed: dict[str, tuple[tuple[OperandRead, int], ...]]

    @property
    def extents(self) -> Mapping[str, int]: ...

    @property
    def moved(self) -> tuple[str, ...]: ...

    @property
    def dtypes(self) -> dict[str, np.dtype[Any]]: ...

    @property
    def scheduled(self) -> list[tuple[Place, bool]]: ...

    def operand(self, name: str) -> Any: ...

    def sizes_of(self, boxes: Mapping[str, Box]) -> dict[str, float]: ...

    def work(self, cut: tuple[str, ...]) -> BlocksOfWork: ...

    def parts_of(self, read: OperandRead, cut: tuple[str, ...]) -> Parts: ...

    def ranges_in(self, cuts: Cuts, place: Place) -> Ranges: ...

    def is_under(self, read: OperandRead, cut: Collection[str]) -> bool: ...

    def follows(self, read: OperandRead, cut: tuple[str, ...]) -> set[str]: ...

    def has_points(self, cuts: Cuts, places: NDArray[np.int64], under: Any = None) -> NDArray[np.bool_]: ...

    def box(self, read: OperandRead, ranges: Ranges, parts: Parts | None = None) -> Box: ...

    def way(self, index: str, target: str) -> Way: ...

    def is_whole(self, index: str, tensor: str) -> bool: ...

    def combined(self, target: str) -> Way | None: ...

    def order_of(self, cuts: Collection[str]) -> list[str]: ...

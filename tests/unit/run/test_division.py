"""Places divided by what may be 0: such a point is not stored, for the kernel as for numpy; no process ends."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import spfgen
from spfgen.errors import SpecError

BY_SIZE = "value v[h] at [p mod h]"
BY_ENTRY = "index f[n] { range -9 <= f(p) } value v[h] at [p mod f(p)]"
TWO = "index f[n] { range -9 <= f(p) } value v[n, 2] at [p, floor(p/f(p)) mod 2]"
PRODUCT = "value v[4] at [p mod (h*w)]"
EXTENT = "value v[n/h + 1] at [p/h]"
INDEX_EXTENT = "index f[n/h] { range 0 <= f(p) < n } value v[n] at [p]"


@pytest.mark.parametrize(
    ("arrays", "sizes", "given", "expected"),
    [
        (BY_SIZE, {"h": 0}, {"v": []}, [0, 0, 0]),
        (BY_SIZE, {"h": 2}, {"v": [5, 6]}, [5, 6, 5]),
        (BY_ENTRY, {"h": 2}, {"f": [0, 2, -3], "v": [5, 6]}, [0, 6, 0]),
        (TWO, {"h": 0}, {"f": [0, -1, 2], "v": [[1, 2], [3, 4], [5, 6]]}, [0, 0, 6]),
        (PRODUCT, {"h": 0, "w": 3}, {"v": [1, 2, 3, 4]}, [0, 0, 0]),
        (PRODUCT, {"h": 1, "w": 2}, {"v": [1, 2, 3, 4]}, [1, 2, 1]),
        (EXTENT, {"h": 0}, {"v": [7]}, [0, 0, 0]),
        (EXTENT, {"h": 2}, {"v": [7, 8]}, [7, 7, 8]),
        (INDEX_EXTENT, {"h": 0}, {"f": [], "v": [1, 2, 3]}, [1, 2, 3]),
    ],
)
def test_places(arrays: str, sizes: Mapping[str, int], given: Mapping[str, list[int]], expected: list[int]) -> None:
    names = ", ".join(["h", *(["w"] if "w" in sizes else [])])
    text = f"layout L(n) {{ size {names} relation {{ [p] -> [i] : 0 <= p < n and i = p }} {arrays} }}"
    layout = spfgen.parse(text).layouts["L"]
    typed = {n: np.array(a, dtype=np.float64 if n == "v" else np.int32) for n, a in given.items()}
    tensor = spfgen.tensor(layout, shape=(3,), sizes=dict(sizes), **typed)
    kernel = spfgen.compile("y[i] = A[i]", A=layout, y="dense")
    with np.errstate(all="raise"):
        assert tensor.to_numpy().tolist() == expected
    assert kernel(A=tensor).tolist() == expected


def test_a_divisor_that_is_divided() -> None:
    """Whether it is positive is no affine condition."""
    text = "layout L(n) { size h relation { [p] -> [i] : 0 <= p < n and i = p } value v[n] at [p mod (n mod h)] }"
    with pytest.raises(SpecError, match="`n mod h` is a division by an unknown"):
        spfgen.parse(text).layouts["L"].layout(1)

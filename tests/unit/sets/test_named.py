"""Sets with named dimensions: numbers of any size, and memory that is not asked for again and again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spfgen.sets.affine import Affine
from spfgen.sets.named import Constraint, Space

GROWTH = """
import gc
import spfgen

def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4

def compiled(numbers):
    for number in numbers:
        spfgen.compile(f"y[i] = {number}*A[i, j]*x[j] + b[i]", A="csr", x="dense", b="sv", y="dense")

compiled(range(20))
before = resident()
compiled(range(100, 140))
print((resident() - before) / 40)
"""


@pytest.mark.parametrize("number", [0, 1, -1, 2**62, -(2**63), 2**63, 2**64, -(2**70), 3 * 2**100])
def test_numbers_of_any_size(number: int) -> None:
    space = Space(["i", "j"])
    wanted = Constraint(False, Affine((("i", 1), ("j", 3)), number))
    (found,) = space.of([wanted]).constraints()
    assert found == wanted
    assert space.of([Constraint(True, Affine((("i", 1),), -number)), wanted]).restrict({"i"}).sample() == {
        "i": number,
        "j": 0,
    }


def test_equal_sets_with_other_names() -> None:
    """What isl made is kept by the places of dimensions, not by their names."""
    for names in (["i", "j"], ["j", "i"], ["k", "l"]):
        first, second = names
        wanted = [Constraint(False, Affine(((first, 2), (second, -1)), 5)), Constraint(True, Affine(((second, 1),), 1))]
        assert set(Space(names).of(wanted).project([second]).constraints()) == {wanted[1]}


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say how much memory is used")
def test_compilations_keep_little_memory() -> None:
    """islpy keeps 32 bytes for each object that it gives away: 70 kB for this kernel, where nothing was made once."""
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 25

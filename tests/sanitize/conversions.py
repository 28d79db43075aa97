"""Packs and converts with C that is compiled with sanitizers; run as a program, in which their library comes first. Its
argument says which half of the layouts are targets."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import spfgen
from spfgen import tuning
from spfgen.cir.lower.files import runtime
from spfgen.run import compile as compiling
from spfgen.run import conversion
from spfgen.run import pack as packing
from spfgen.run.calls import functions
from spfgen.run.examining.sanitized import FLAGS
from spfgen.run.packing_interpreter import by_table

Array = np.ndarray[Any, Any]
SHAPES = ((0, 5), (12, 9), (40, 300))
TARGETS = ("csc", "bcsr(R=2, C=3)", "dia", "ell")


def data(shape: tuple[int, int], random: np.random.Generator) -> Iterator[tuple[list[Array], Array]]:
    """No entries, some and a full row, in order and not; once with several at one place."""
    dense = random.random(shape) < 0.3
    dense[shape[0] // 2 : shape[0] // 2 + 1] = True
    found = [c.astype(np.int32) for c in np.nonzero(dense)]
    count = len(found[0])
    for order in (np.arange(0), np.arange(count), random.permutation(count), random.integers(0, max(count, 1), count)):
        yield [c[order] for c in found], np.arange(1.0, len(order) + 1)


def main() -> None:
    """What is read or written outside of an array ends the program; what is wrong raises."""
    compiling.QUICK = "-O0"  # every access that the C makes is there
    compiling.build = functools.partial(compiling.build, extra_flags=tuple(FLAGS), optimise=False)
    functions.build = compiling.build
    tuning.CONVERT_BUCKET = 40
    tuning.PACK_PER_THREAD = 1
    random = np.random.default_rng(3)
    layouts = spfgen.parse("").layouts
    csr, *targets = (layouts[name].layout() for name in ("csr", *TARGETS[int(sys.argv[1]) :: 2]))

    for shape in SHAPES:
        for far, apart in ((0, 0), (0, 101), (2**40, 0)):  # buckets of groups, or not, or not asked
            tuning.CONVERT_FAR_BYTES, tuning.CONVERT_MANY_APART = far, apart
            runtime.cache_clear()
            conversion._KNOWN.clear()
            for coords, values in data(shape, random):
                expected = np.zeros(shape)
                np.add.at(expected, tuple(coords), values)
                for target in (csr, *targets):
                    tabled = by_table(target, shape, coords, values, {})
                    assert tabled is not None, target.name
                    places, found = packing.coordinates(target, tabled.sizes, tabled.arrays, small=2**40)
                    dense = np.zeros(shape)
                    np.add.at(dense, tuple(places), found)
                    np.testing.assert_array_equal(dense, expected, err_msg=f"{target.name}, {shape}")
                for threads in (1, 3):
                    made = packing.pack_entries(csr, shape, tuple(coords), values, threads=threads, small=0)
                    for target in targets:
                        own = packing.convert_arrays(csr, made.sizes, made.arrays, target, threads=threads, small=0)
                        places, found = packing.coordinates(target, own.sizes, own.arrays, threads=threads, small=0)
                        dense = np.zeros(shape)
                        np.add.at(dense, tuple(places), found)
                        np.testing.assert_array_equal(dense, expected, err_msg=f"{target.name}, {shape}")
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()

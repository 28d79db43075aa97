"""Random programs with random cuts: planned as always, but each block of work is carried out by the oracle of the
language, so that nothing is compiled. What they give is what the oracle gives for the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import spfgen
from spfgen.cluster.joint_plan import Settings
from spfgen.cluster.program import _Program
from spfgen.cluster.separability import plain
from spfgen.cluster.tasks import RunKernel
from spfgen.errors import SpfgenError, Unsupported
from spfgen.facts.formula import Num
from spfgen.lang import nodes as lang
from spfgen.lang.interpret import Interpreter as Oracle
from spfgen.lang.interpret import interpret
from spfgen.lang.oracle.names import IndexRenamer
from spfgen.lang.oracle.values import Frame
from spfgen.lang.parse import parse_statements
from spfgen.lang.spec import parse_tree
from spfgen.lang.uses import statements_in
from tests.differential.in_blocks import any_cuts, in_blocks
from tests.fuzz import test_random_expressions as equations
from tests.fuzz import test_random_loops as loops
from tests.fuzz import test_random_views as views

Array = np.ndarray[Any, Any]


@dataclass
class Program:
    """`arrays` are the operands, `fills` those fill values that are not 0; `sizes` the numbers that the text names,
    `said` extents of indices; `local` tensors are no results."""

    steps: tuple[Any, ...]
    arrays: dict[str, Array]
    fills: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    said: dict[str, int] = field(default_factory=dict)
    local: tuple[str, ...] = ()


def _interpreted(self: RunKernel, *parts: Any) -> Any:
    operands = {**dict(self.given), **dict(zip(self.names, parts, strict=True))}
    fills = {n: v.fill_value for n, v in operands.items() if isinstance(v, spfgen.Tensor)}
    arrays = {n: v.to_numpy() if isinstance(v, spfgen.Tensor) else np.array(v) for n, v in operands.items()}
    sizes = {n: v for n, v in self.sizes if "." not in n}
    shapes: dict[str, list[int]] = {}
    for name, extent in self.sizes:
        if "." in name:
            shapes.setdefault(name.partition(".")[0], []).append(extent)
    declared = {
        n: lang.TensorDecl(n, lang.LayoutUse("dense"), tuple(map(Num, e))) for n, e in shapes.items() if n not in arrays
    }
    named = {n: v for n, v in sizes.items() if n in self.written.sizes}
    said = {n: v for n, v in sizes.items() if n not in named}
    run = Oracle(arrays, fills, named, said, declared)
    run.read_extents()
    with np.errstate(all="ignore"):
        unique = IndexRenamer(frozenset(named)).steps(self.written.steps, {})
        run.prepare(unique)
        run.steps(unique, Frame(), {})
    found = run.tensors
    return {n: found[n][()] for n in (*self.targets, *(self.best or ())[:1])}


@contextmanager
def by_the_oracle() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunKernel, "carried_out", _interpreted)
        yield


def equation(seed: int) -> Program | None:
    try:
        found, sets = equations.random_equation(seed)
    except equations.Skipped:
        return None
    _, known = sets[seed % 3]
    used = {o.name for o in found.operands}
    fills = {o.name: o.fill for o in found.operands if o.axes and o.fill != 0}
    said = equations.alone(found.value)
    sizes = {i: known.extents[equations.EXTENT_OF[i]] for i in found.free if i not in said}
    steps = parse_statements(found.text())
    return Program(steps, {n: a for n, a in known.arrays.items() if n in used}, fills, {}, sizes)


def view(seed: int) -> Program | None:
    found = views.random_view(seed)
    target = f"R[{', '.join(n for n, _ in found.shape)}]" if found.shape else "R"
    steps = parse_statements(f"{target} = {views.show(found)}")
    arrays = {}
    for tensor, extents in views.tensors(found).items():
        rng = np.random.default_rng([seed, crc32(tensor.encode())])
        arrays[tensor] = np.where(rng.random(extents) < 0.6, rng.integers(-3, 5, extents).astype(float), 0.0)
    return Program(steps, arrays, {}, {}, dict(views.split_sizes(found) or {}))


def loop(seed: int) -> Program | None:
    found = loops.random_program(seed)
    names = loops.used(found.steps)
    tensors = [t for t in found.tensors if t.name in names]
    if not any(t.role == "result" for t in tensors) or not loops.bounded(found.steps):
        return None
    rng = np.random.default_rng([seed, 1])
    arrays, fills = {}, {}
    for tensor in tensors:
        shape = tuple(loops.EXTENTS[seed % 3][a] for a in tensor.axes)
        if tensor.role == "local":
            continue
        made = np.asarray(rng.integers(-3, 6, shape), loops.DTYPES[tensor.kind])
        kept = rng.random(shape) < 0.6
        arrays[tensor.name] = np.where(kept, made, np.asarray(tensor.fill).astype(made.dtype))
        if tensor.role == "read" and tensor.fill != 0:
            fills[tensor.name] = tensor.fill
    local = tuple(t.name for t in tensors if t.role == "local")
    return Program(parse_statements(found.text()), arrays, fills, {}, {}, local)


def of_case(case: Any, seed: int) -> Program:
    """A program of tests/fuzz/programs.py, with its sizes and results that come in."""
    kernel = parse_tree(case.kernel.replace("kernel NAME", "kernel k"), "program.spf").kernels["k"]
    data = case.data[seed % len(case.data)]
    extents, rng = dict(data.extents), np.random.default_rng(seed)
    dims = dict(case.dims)
    arrays = {}
    for name, axes in dims.items():
        shape = tuple(extents[a] for a in axes)
        arrays[name] = np.where(rng.random(shape) < 0.6, rng.integers(-3, 5, shape).astype(float), 0.0)
    for access in (n for s in kernel.statements for n in _accesses(s)):
        if access.tensor not in arrays:
            arrays[access.tensor] = np.asarray(float(rng.integers(1, 4)))
    sizes = {n: {**extents, **dict(data.sizes)}.get(n, 2) for n in kernel.sizes}
    return Program(tuple(kernel.statements), arrays, {}, sizes)


CONDITIONS = ("abs(i - j) <= 2", "i + 3 <= j", "i - 1 <= j", "2 <= i + j < 7", "2*i <= j + 1", "j < i - 1 or j > i + 2",
              "i == j + 2", "i % 2 == j % 2 and j <= i + 1")  # fmt: skip
PRODUCTS = ("A[i,j]*x[j]", "x[j]*y[i]", "A[i,j]*w[i+j]", "A[i,j]")
VALUES = (*PRODUCTS, "A[i,j] + x[j]", "A[i,j]*x[j+1] - y[i]", "x[j] + w[2*i+j]", "x[j]")
BANDS = (
    "R[i] = OP(j: VALUE where CONDITION)", "R[i,j] = VALUE where CONDITION", "R[i] = PRODUCT where CONDITION",
    "R[i] += PRODUCT where CONDITION", "R[j] max= OP(i: A[i,j] + x[j] where CONDITION)", "R = PRODUCT where CONDITION",
    "R[i] = OP(j: VALUE where CONDITION) + y[i]", "R[i] = OP(j: VALUE where CONDITION) + sum(k: A[i,k])",
    "R[i,j] = A[i,j] + sum(k: A[k,j]*y[k] where k <= i) where CONDITION", "R[i] = argmax(j: VALUE)",
    "for i, j { R[i] += PRODUCT where CONDITION }", "for i, j { R[i] max= VALUE where CONDITION }",
)  # fmt: skip


def band(seed: int) -> Program:
    """A program whose condition leaves a band, a triangle or a corner of the points."""
    rng = np.random.default_rng([seed, 5])
    n, m = (int(e) for e in rng.integers(1, 12, 2))
    words = {"OP": ("sum", "min", "max", "any", "prod"), "VALUE": VALUES, "PRODUCT": PRODUCTS, "CONDITION": CONDITIONS}
    text = str(rng.choice(BANDS))
    for word, several in words.items():
        text = text.replace(word, str(rng.choice(several)))
    shapes = {"A": (n, m), "x": (m,), "y": (n,), "w": (2 * n + m,), "R": (m,) if "R[j]" in text else (n,)}
    steps = parse_statements(text)
    reads = [a for s in steps for a in _accesses(s) if a.tensor != "R"]
    is_given = any(s.op != "=" for s in statements_in(steps))
    names = {a.tensor for a in reads} | ({"R"} if is_given else set())
    arrays = {t: np.where(rng.random(e) < 0.7, rng.integers(-3, 5, e).astype(float), 0.0) for t, e in shapes.items()
              if t in names}  # fmt: skip
    fills = {t: float(rng.integers(1, 4)) for t in arrays if t != "R" and rng.random() < 0.15}
    alone = {str(s) for s in (plain(s) for a in reads for s in a.subscripts) if s is not None}
    return Program(steps, arrays, fills, {}, {i: e for i, e in (("i", n), ("j", m)) if i not in alone})


def _accesses(step: Any) -> Iterator[lang.Access]:
    from spfgen.lang.uses import accesses_in

    yield from accesses_in([step])


KINDS: Mapping[str, Callable[[int], Program | None]] = {"equation": equation, "view": view, "loop": loop, "band": band}


def outcome(program: Program, seed: int) -> str:
    """ "" where results are the same, "left out" where the program has no meaning; else what is wrong, or why it is
    refused."""
    rng = np.random.default_rng([seed, 77])
    try:
        with np.errstate(all="ignore"):
            kernel = lang.Kernel("k", (), tuple(program.sizes), program.steps)
            wanted = interpret(kernel, program.arrays, program.fills, {**program.sizes, **program.said})
    except (ValueError, ArithmeticError, TypeError, KeyError):
        return "left out"
    targets = dict.fromkeys(s.target.tensor for s in statements_in(program.steps))
    if not set(targets) - {*program.local}:
        return "left out"
    given: dict[str, Any] = {}
    for name, array in program.arrays.items():
        fill = program.fills.get(name)
        value = array if fill is None else spfgen.pack(array, "coo", fill=fill)
        cut = array.ndim and (name in targets or rng.random() < 0.85)
        given[name] = in_blocks(rng, value) if cut else value if array.ndim else array[()]
        if name in targets and not array.ndim:
            return "left out"
    if not any(hasattr(v, "bounds") for v in given.values()):
        return "left out"
    told = ""
    try:
        with by_the_oracle(), any_cuts(rng), np.errstate(all="ignore"):
            made = _Program(program.steps, given, program.said, dict.fromkeys(targets), Settings(), program.sizes,
                            program.local).results()  # fmt: skip
            results = made if isinstance(made, dict) else {next(n for n in targets if n not in program.local): made}
            for name, found in results.items():
                told = found.explain()
                value = found.compute(scheduler="sync")
                same = np.shape(value) == wanted[name].shape and np.allclose(value, wanted[name], equal_nan=True)
                assert same, f"{name}: {value!r}, expected {wanted[name]!r}\n{told}"
                assert found.dtype == wanted[name].dtype, f"{name}: {found.dtype} is {wanted[name].dtype}"
    except Unsupported as error:
        return f"refused: {error.message}"
    except SpfgenError as error:
        return f"error: {error}\n{told}"
    except AssertionError as error:
        return f"wrong: {error}"
    except Exception as error:
        import traceback

        return f"crash: {type(error).__name__}: {error}\n{traceback.format_exc()[-900:]}\n{told}"
    return ""


def report(program: Program, seed: int, kind: str) -> str:
    from spfgen.lang.show import show_statement

    found = outcome(program, seed)
    if not found or found == "left out" or found.startswith("refused"):
        return ""
    text = "\n".join(map(show_statement, program.steps))
    return f"{kind} {seed}:\n{text}\n{program.arrays}\n{program.sizes} {program.said}\n{found}"


def try_one(seed: int, level: int = 1) -> str:
    kind = list(KINDS)[seed % len(KINDS)]
    program = KINDS[kind](seed)
    return "" if program is None else report(program, seed, kind)

"""Compiles many programs at once and runs each in a child process; says what differs from the reference."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spfgen.errors import DataError, SpecError, SpfgenError, Unsupported
from spfgen.facts.formula import Var
from spfgen.ir import walk
from spfgen.lang.nodes import Kernel
from spfgen.pipeline import Generated
from spfgen.run.calls.call import Bound
from spfgen.run.compile import find_compiler
from spfgen.space.nodes import Program
from spfgen.space.steps import Equation
from tests.differential.support import eager_source, one_file
from tests.fuzz.operands import Operand, make
from tests.fuzz.programs import Case, Data, compiled
from tests.oracle import Stored, evaluate

PATIENCE = 120
"""Seconds for all kernels of a call of the compiler."""


@dataclass
class Outcome:
    """`refused`: why spfgen does not compile it. `problem`: what is wrong."""

    case: Case
    refused: str = ""
    problem: str = ""
    made: Generated | None = None
    kernel: Kernel | None = None
    runs: int = 0

    def report(self) -> str:
        return f"{self.problem}\n\n{self.case.text()}\n"


@dataclass
class Tally:
    """How many programs were compiled and how many refused: a test that refuses all tests nothing."""

    ran: int = 0
    refused: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def add(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if outcome.refused:
                self.refused += 1
                reason = outcome.refused.partition("`")[0][:60]
                self.reasons[reason] = self.reasons.get(reason, 0) + 1
            else:
                self.ran += 1


def run(cases: Sequence[Case], flags: Sequence[str] = ("-O0",)) -> list[Outcome]:
    """Generate, compile (without optimisation, in half the time, if not told so) and run; outcomes in the order of the
    cases."""
    outcomes = [_generated(case, f"kernel_{n}") for n, case in enumerate(cases)]
    ready = [(n, o) for n, o in enumerate(outcomes) if o.made is not None]
    with tempfile.TemporaryDirectory() as temporary:
        target = _compiled(ready, Path(temporary), flags)
        todo = [(n, o) for n, o in ready if not o.problem]
        if target is not None:
            _run_in_child(todo, target)
    return outcomes


NO_LOOP = ("expected a loop", "expected loops of one statement", "expected one parallel loop")
"""What a schedule that is drawn may be told."""


def _generated(case: Case, name: str) -> Outcome:
    outcome = Outcome(case)
    try:
        outcome.kernel = case.tree(name).kernels[name]
        outcome.made = compiled(case, name)
    except Unsupported as error:
        outcome.refused = str(error.message)
    except SpfgenError as error:
        changed = ("a position that is searched for", "an algorithm that is proved correct")
        if " find " in case.kernel and any(words in str(error) for words in changed):
            outcome.refused = "a forced find changes who drives"
            return outcome
        if (
            (" as tile_" in case.kernel or " order " in case.kernel)
            and isinstance(error, SpecError)
            and any(w in str(error) for w in NO_LOOP)
        ):
            outcome.refused = "a schedule of what is no loop"
            return outcome
        # values of hermitian layouts are functions of what is stored: no sum of products
        refusals = (*NO_LOOP, "must be inside", "for sums of products alone") if " : hermitian" in case.kernel else ()
        if isinstance(error, SpecError) and any(words in str(error) for words in refusals):
            outcome.refused = "an order of loops that a value made of functions has not"
            return outcome
        outcome.problem = f"{type(error).__name__}: {error}"
    except Exception:
        outcome.problem = traceback.format_exc()
    return outcome


def _compiled(ready: Sequence[tuple[int, Outcome]], folder: Path, flags: Sequence[str]) -> Path | None:
    """One shared object of all kernels that the compiler accepts."""
    compiler = find_compiler()
    for _ in range(2):
        texts = {}
        for n, outcome in ready:
            if not outcome.problem and outcome.made is not None:
                texts[f"kernel_{n}.c"] = eager_source(outcome.made.whole)
        if not texts:
            return None
        source = folder / "kernels.c"
        source.write_text(one_file(texts), encoding="utf-8")
        target = folder / "kernels.so"
        command = [*compiler.command, "-std=c99", *flags, "-fPIC", "-shared", *compiler.openmp]
        result = subprocess.run(
            [*command, str(source), "-lm", "-o", str(target)], capture_output=True, text=True, cwd=folder
        )
        if result.returncode == 0:
            return target
        for n, outcome in ready:
            if f"kernel_{n}.c:" in result.stderr:
                outcome.problem = f"C that does not compile:\n{result.stderr}"
    raise AssertionError(result.stderr)


def _run_in_child(todo: Sequence[tuple[int, Outcome]], library: Path) -> None:
    """A crash of a kernel must not be one of the test: run in a child, which tells what it is doing."""
    waiting = list(todo)
    while waiting:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            signal.alarm(PATIENCE)  # a kernel that does not end is a crash
            with os.fdopen(writing, "wb") as pipe:
                try:
                    _child(waiting, library, pipe)
                finally:
                    pipe.flush()
                    os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            done = 0
            while True:
                try:
                    problem, runs = pickle.load(pipe)
                except (EOFError, pickle.UnpicklingError):
                    break
                waiting[done][1].problem, waiting[done][1].runs = problem, runs
                done += 1
        _, status = os.waitpid(child, 0)
        if done < len(waiting):
            waiting[done][1].problem = f"the kernel crashed (status {status})"
            done += 1
        waiting = waiting[done:]


def _child(todo: Sequence[tuple[int, Outcome]], library: Path, pipe: Any) -> None:
    import ctypes

    loaded = ctypes.CDLL(str(library))
    for n, outcome in todo:
        problem, runs = "", 0
        for data in outcome.case.data:
            try:
                problem = check(outcome, getattr(loaded, f"kernel_{n}"), data)
            except Exception:
                problem = traceback.format_exc()
            if problem:
                problem = f"{problem}\nwith {data}"
                break
            runs += 1
        pickle.dump((problem, runs), pipe)
        pipe.flush()


# --- one run ------------------------------------------------------------------------------------------


def operands(case: Case, program: Program, data: Data) -> dict[str, Operand]:
    """Random operands; an output that is cleared before anything reads it starts as rubbish."""
    extents = {**dict(data.extents)}
    dims = dict(case.dims)
    rng = np.random.default_rng([data.seed, 5])
    result: dict[str, Operand] = {}
    shares = dict(case.shares)
    # Sums of one type are the same however they are cut; the rest is asked of numbers that nothing cancels.
    values = "values" if len({t.value_type for t in program.tensors}) == 1 else "positive"
    for tensor in sorted(program.tensors, key=lambda t: t.name in shares):
        shape = tuple(extents[c] for c in dims.get(tensor.name, ()))
        lender = result[shares[tensor.name]].tensor if tensor.name in shares else None
        kinds = dict(tensor.index_types)
        seed = int(rng.integers(0, 1000))
        fill = "rubbish" if _cleared(tensor.name, program) else values
        result[tensor.name] = make(tensor.layout, shape, data.density, seed, tensor.value_type, kinds, fill, lender)
    return result


def _cleared(name: str, program: Program) -> bool:
    """Whether the first statement that speaks of the tensor is `name[...] = ...`."""
    for group in () if program.beyond else program.groups:
        if any(r.tensor == name for instance in group.instances for r in instance.reads):
            return False
        if group.target == name:
            return group.op == "="
    return False


def check(outcome: Outcome, function: Any, data: Data) -> str:
    """Run once; the first difference from the reference."""
    made, kernel = outcome.made, outcome.kernel
    assert made is not None
    assert kernel is not None
    before = operands(outcome.case, made.program, data)
    after = {n: o.copy() for n, o in before.items()}
    for name, owner in outcome.case.shares:  # shared arrays are one array
        for array in before[name].layout.indexes:
            after[name].tensor.arrays[array.name] = after[owner].tensor.arrays[array.name]  # type: ignore[index]
    sizes = {**dict(data.sizes), **dict(data.extents)}
    wanted = evaluate(kernel, {n: o.meaning() for n, o in before.items()}, {n: sizes[n] for n in kernel.sizes})
    try:
        Bound(made.program, function, {n: o.tensor for n, o in after.items()}, sizes, 1 + data.seed % 3)()
    except DataError as error:
        # Among other statements each value that is added to a sparse target is looked at, even if their sum is 0.
        if any(f"expected `{name}` to store all that" in str(error) for name in _with_gaps(kernel, before)):
            return ""
        raise
    for name, operand in after.items():
        found = operand.tensor.arrays
        if name not in wanted:
            for array, values in found.items():
                if not np.array_equal(values, before[name].tensor.arrays[array], equal_nan=values.dtype.kind in "fc"):
                    return f"the operand {name}.{array} was changed"
            continue
        expected, real = wanted[name], operand.meaning()
        a, b = (t.values if isinstance(t, Stored) else t for t in (expected, real))
        if not same(a, b, exact=all(map(is_exact, wanted.values()))):
            where = ""
            if isinstance(real, Stored):
                where = f" at {[tuple(map(int, c)) for c in zip(*real.coords, strict=True)]}"
            return f"{name} is {b.tolist()}{where}\nexpected {a.tolist()}\n{shown(before)}"
        for problem in elsewhere(operand, before[name], made.program, name):
            return problem
    return ""


def _with_gaps(kernel: Kernel, before: dict[str, Operand]) -> list[str]:
    """The targets that may lack a place: not all coordinates are stored, or a subscript may lie outside."""
    targets = [s.target for s in kernel.statements if s.target.tensor in before]
    moved = {t.tensor for t in targets if not all(isinstance(s, Var) for s in t.subscripts)}
    return [t.tensor for t in targets if t.tensor in moved or not before[t.tensor].is_full]


def is_exact(result: Stored | np.ndarray) -> bool:
    """Whether sums of whole numbers of this size are the same in any order: a recurrence may grow beyond that."""
    values = result.values if isinstance(result, Stored) else result
    finite = np.abs(values[np.isfinite(values)])
    return values.dtype.kind not in "fc" or not finite.size or bool(finite.max() < 1 / np.finfo(values.dtype).eps)


def same(a: np.ndarray, b: np.ndarray, exact: bool) -> bool:
    """Whether two results are equal; `exact` or but for what is lost by rounding."""
    if exact or a.shape != b.shape:
        return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    largest = np.abs(a[np.isfinite(a)]).max(initial=0.0)
    return bool(np.allclose(a, b, rtol=0.0, atol=float(1e-9 * largest), equal_nan=True))


def elsewhere(operand: Operand, before: Operand, program: Program, name: str) -> list[str]:
    """Places that stand for no coordinate stay as they were, unless the array is cleared."""
    if any(n.target == name and n.updates is None for n in walk(program.steps) if isinstance(n, Equation)):
        return []
    for value in operand.layout.values:
        free = np.ones(operand.tensor.arrays[value.name].shape, bool)
        for entry in operand.entries:
            if entry.array == value.name:
                free[entry.place] = False
        old, new = before.tensor.arrays[value.name][free], operand.tensor.arrays[value.name][free]
        if not np.array_equal(old, new, equal_nan=old.dtype.kind in "fc"):
            return [f"{name}.{value.name} was changed at a place that stands for no coordinate"]
    return []


def shown(operands: dict[str, Operand]) -> str:
    lines = []
    for name, operand in operands.items():
        arrays = ", ".join(f"{n} = {a.tolist()}" for n, a in operand.tensor.arrays.items())
        lines.append(f"    {name}: {operand.layout.name} {dict(operand.tensor.sizes)} {arrays}")
    return "\n".join(lines)

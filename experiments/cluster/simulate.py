"""The plan on up to 1,024 workers without data: `python -m experiments.cluster.simulate [--quick]`.

The planner of programs over blocks plans operands of which there are only shapes, cuts and sizes, for workers that are
not there. What it expects to be sent, the rate of each kernel, measured here, and a network of a given latency and
bandwidth give the time of a program, beside the least that any algorithm must send:

- SpMV, PageRank and SpGEMM of random matrices with d entries in each of n rows, for algorithms that do not look at the
  pattern: a worker has at least min(2n/sqrt(p), 2dn/p) numbers of the vectors, less the 2n/p that are its own, and
  min(dn/sqrt(p), d^2 n/p) entries of the matrices (Ballard, Buluc, Demmel, Grigori, Lipshitz, Schwartz, Toledo,
  "Communication optimal parallel multiplication of sparse random matrices", SPAA 2013, Section 4; constants of the
  matrices are left out there).
- MTTKRP of a tensor of I places and R columns: 3 R (I/p)^(1/3) numbers less the 3 R I^(1/3)/p that are its own
  (Ballard, Knight, Rouse, "Communication lower bounds for matricized tensor times Khatri-Rao product", IPDPS 2018, for
  small R).

A 2.5-D cut has a layer of workers for each part of a third index (k of SpGEMM, which is summed in a tree; r of SpMM),
so that operands are replicated (Solomonik, Demmel, "Communication-optimal parallel 2.5D matrix multiplication and LU
factorization algorithms", Euro-Par 2011, Section 3). A cut is advised where its operands have room.

Results of SpGEMM count with one entry for each product, which is how many there are where products seldom meet; the
planner itself takes results for a hundredth full. Time of tasks is that of one scheduler, one after the other.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import log2, prod, sqrt
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from experiments.cluster import PROGRAMS
from experiments.harness.log import say, show

ENTRIES, PER_ROW, COLUMNS = 10**12, 100, 16
LATENCY, BANDWIDTH = 20e-6, 10e9 / 8
WORKERS = (16, 256, 1024)
COPIES, MEMORY = 4, 64e9
"""How often operands are replicated in a 2.5-D cut, and the bytes of operands that a worker has room for."""
FIRST, SPARSE_ENTRY, NUMBER = 0, 12, 8
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Cut:
    """How operands are cut: the blocks along each index for p workers."""

    name: str
    counts: Callable[[int], Mapping[Any, int]]
    """By index; by operand and index where operands differ."""


def _root(workers: int, degree: int) -> int:
    return max(1, round(workers ** (1 / degree)))


def _layer(workers: int) -> int:
    return _root(workers // COPIES, 2)


CUTS = {
    "spmv": (Cut("1-D", lambda p: {"i": p}), Cut("2-D", lambda p: {"i": _root(p, 2), "j": _root(p, 2)})),
    "spgemm": (
        Cut("1-D", lambda p: {"i": p, ("A2", "k"): p}),
        Cut("2-D", lambda p: dict.fromkeys("ijk", _root(p, 2))),
        Cut("2.5-D", lambda p: {"i": _layer(p), "j": _layer(p), "k": COPIES}),
        Cut("3-D", lambda p: {"i": _root(p, 3), "j": _root(p, 3), "k": _root(p, 3)}),
    ),
    "mttkrp": (
        Cut("1-D", lambda p: {"i": p}),
        Cut("2-D", lambda p: {"i": _root(p, 2), "j": _root(p, 2)}),
        Cut("3-D", lambda p: dict.fromkeys("ijk", _root(p, 3))),
    ),
}
CUTS |= dict.fromkeys(("sddmm", "pagerank"), CUTS["spmv"])
CUTS["spmm"] = (*CUTS["spmv"], Cut("2.5-D", lambda p: {"i": _layer(p), "j": _layer(p), "r": COPIES}))


@dataclass(frozen=True)
class Line:
    """One program, cut in one way, on some workers: bytes for each worker, those that it gets and sends and those of
    operands that it holds, and seconds."""

    program: str
    cut: str
    workers: int
    sent: float
    held: float
    least: float | None
    seconds: float
    alone: float

    @property
    def efficiency(self) -> float:
        return self.alone / (self.workers * self.seconds)

    @property
    def over(self) -> float | None:
        return self.sent / self.least if self.least else None


# --- what there is to plan -----------------------------------------------------------------------------


def shapes(program: str, entries: int) -> dict[str, tuple[tuple[str, ...], float]]:
    """The indices of each operand, and its bytes."""
    n, dense = extents(program, entries), NUMBER
    if program == "mttkrp":
        return {"T": (("i", "j", "k"), 20.0 * entries), "B": (("j", "r"), dense * n["j"] * COLUMNS),
                "C": (("k", "r"), dense * n["k"] * COLUMNS)}  # fmt: skip
    matrix = float(SPARSE_ENTRY * entries)
    if program == "spgemm":
        return {"A": (("i", "k"), matrix), "A2": (("k", "j"), matrix)}
    vector, factor = dense * n["j"], dense * n["j"] * COLUMNS
    beside: dict[str, tuple[tuple[str, ...], float]] = {
        "spmv": {"x": (("j",), vector)},
        "pagerank": {"x": (("j",), vector), "d": (("j",), vector)},
        "spmm": {"B": (("j", "r"), factor)},
        "sddmm": {"U": (("i", "r"), factor), "V": (("j", "r"), factor)},
    }[program]
    return {"A": (("i", "j"), matrix), **beside}


def extents(program: str, entries: int) -> dict[str, int]:
    """Of each index: matrices have 100 entries in a row, tensors as many places along each axis as 10^7 of 10^12."""
    side = entries // PER_ROW if program != "mttkrp" else max(1000, round(10**7 * (entries / 10**12) ** (1 / 3)))
    return {**dict.fromkeys("ijk", side), "r": COLUMNS}


def planned(program: str, entries: int, counts: Mapping[Any, int], workers: int) -> Any:
    """The planner's unit of this program and what it chooses for so many workers."""
    from spfgen.cluster.blocked import Blocked
    from spfgen.cluster.choose_cuts import choose
    from spfgen.cluster.construction import example_of
    from spfgen.cluster.cuts import by_count
    from spfgen.cluster.joint_plan import JointPlan, Settings
    from spfgen.cluster.workers import Workers
    from spfgen.lang.parse import parse_statements

    extent = extents(program, entries)
    operands = {}
    for name, (indices, memory) in shapes(program, entries).items():
        bounds = tuple(by_count(extent[i], counts.get((name, i), counts.get(i, 1))) for i in indices)
        layout = {"A": "csr", "A2": "csr", "T": "csf3"}.get(name)
        example = example_of(len(indices), np.dtype("float64"), layout)
        operands[name] = Blocked({}, name, bounds, lambda e=example: e, layout, int(memory))  # type: ignore[misc]
    steps = tuple(parse_statements(PROGRAMS[program]))
    target = steps[0].target.tensor
    layouts = {target: "csr" if program in ("spgemm", "sddmm") else None}
    unit = JointPlan(steps, operands, {}, {}, {}, layouts, (), Settings(), {})
    return unit, choose(unit, Workers(workers))


def work_of(program: str, entries: int) -> float:
    """Multiplications."""
    return float(entries) * {"spgemm": PER_ROW, "spmm": COLUMNS, "sddmm": COLUMNS, "mttkrp": COLUMNS}.get(program, 1)


def result_bytes(program: str, entries: int) -> float:
    """Of all of the result."""
    n = extents(program, entries)
    if program == "spgemm":
        return SPARSE_ENTRY * work_of(program, entries)
    if program == "sddmm":
        return float(SPARSE_ENTRY * entries)
    return float(NUMBER * n["i"] * (1 if program in ("spmv", "pagerank") else COLUMNS))


def least(program: str, entries: int, workers: int) -> float | None:
    """The bytes that one worker at least must send or get, None where none is known here."""
    n = extents(program, entries)["i"]
    if workers == 1:
        return None
    if program in ("spmv", "pagerank"):
        return NUMBER * max(0.0, min(2 * n / sqrt(workers), 2 * entries / workers) - 2 * n / workers)
    if program == "spgemm":
        return SPARSE_ENTRY * min(PER_ROW * n / sqrt(workers), PER_ROW**2 * n / workers)
    if program == "mttkrp":
        return NUMBER * 3 * COLUMNS * (n / workers ** (1 / 3) - n / workers)
    return None


# --- time ----------------------------------------------------------------------------------------------


def simulated(program: str, cut: Cut, entries: int, workers: int, rate: float) -> Line:
    """One line: the slowest worker computes, gets what it reads, and results meet in a tree."""
    from spfgen import tuning
    from spfgen.cluster.choose_cuts import combining
    from spfgen.cluster.separability import COMBINED

    unit, choice = planned(program, entries, cut.counts(workers), workers)
    total = prod(len(b) - 1 for b in choice.cuts.values())
    target = unit.targets[FIRST]
    parts = prod(len(b) - 1 for i, b in choice.cuts.items() if unit.way(i, target).kind == COMBINED)
    operands = choice.cost.sent - combining(unit, choice.cuts, choice.on)
    # Entries of parts of a sparse result seldom meet: parts together have as many as the result.
    whole = result_bytes(program, entries)
    away = 1 - 1 / workers
    combined = whole * away * (log2(max(parts, 1)) if program == "spgemm" else parts - 1)
    sent = (operands + combined) / workers
    work = work_of(program, entries)
    compute = work / total * rate * max(1.0, total / workers)
    steps = len(unit.reads) + log2(max(parts, 1))
    seconds = compute + sent / BANDWIDTH + LATENCY * steps + choice.cost.tasks * tuning.CLUSTER_TASK
    held = (operands + sum(size for _, size in shapes(program, entries).values())) / workers
    return Line(program, cut.name, workers, sent, held, least(program, entries, workers), seconds, work * rate)


def rates(quick: bool) -> dict[str, float]:
    """Seconds of one multiplication in each kernel with one thread, the median of some calls."""
    import spfgen
    from experiments.cluster import SPARSE, Data, matrices, tensors
    from experiments.data.made import uniform

    n = 20_000 if quick else 100_000
    found = {}
    for program in PROGRAMS:
        data: Data = tensors(20 * n) if program == "mttkrp" else matrices(program, lambda: uniform(n, n, 10))
        operands = dict(data.operands)
        if program == "mttkrp":
            values, places, shape = operands["T"]
            operands["T"] = spfgen.pack((places, values), "csf3", shape=shape)
            points = len(values) * COLUMNS
        else:
            operands |= {k: spfgen.pack(v, "csr") for k, v in operands.items() if hasattr(v, "tocsr")}
            points = 10 * n * {"spgemm": 10, "spmm": COLUMNS, "sddmm": COLUMNS}.get(program, 1)
        out = "csr" if program in SPARSE else None
        times = []
        for _ in range(4):
            start = time.process_time()  # whatever else the machine does
            spfgen.evaluate(data.text, **operands, out=out, threads=1)
            times.append(time.process_time() - start)
        found[program] = median(times[1:]) / points
    return found


def lines(per_multiplication: Mapping[str, float], weak: bool) -> Iterator[Line]:
    """All programs and cuts; `weak`: as many entries for each worker, else as many in all."""
    for program, rate in per_multiplication.items():
        for cut in CUTS[program]:
            for workers in WORKERS:
                entries = ENTRIES // WORKERS[-1] * workers if weak else ENTRIES
                yield simulated(program, cut, entries, workers, rate)


# --- what is printed -----------------------------------------------------------------------------------


def table(found: list[Line]) -> str:
    """Markdown."""
    names = ("program", "cut", "workers", "MB sent by each", "least known, MB", "times", "GB of operands", "seconds",
             "efficiency")  # fmt: skip
    rows = [f"| {' | '.join(names)} |", "| --- " * len(names) + "|"]
    for line in found:
        least_known = "" if line.least is None else f"{line.least / 1e6:,.1f}"
        over = "" if line.over is None else f"{line.over:.1f}"
        sent = f"{line.sent / 1e6:,.1f} | {least_known} | {over} | {line.held / 1e9:,.1f}"
        rows.append(
            f"| {line.program} | {line.cut} | {line.workers:,} | {sent} | {line.seconds:,.2f} | {line.efficiency:.2f} |"
        )
    return "\n".join(rows)


def advice(found: list[Line]) -> str:
    """Which cut mends what is far from the bound, on the most workers, among those for which there is memory."""
    rows = []
    for program in PROGRAMS:
        own = [x for x in found if x.program == program and x.workers == WORKERS[-1]]
        fit = [x for x in own if x.held <= MEMORY] or own
        first, best = own[FIRST], min(fit, key=lambda x: x.sent)
        times = f", {best.over:.1f} times the least known" if best.over else ""
        if best is first:
            text = f"1-D sends least of these cuts{times}."
        else:
            less = first.sent / best.sent
            text = f"{best.cut} sends {less:.1f} times less than 1-D{times}; "
            text += f"efficiency {best.efficiency:.2f}, not {first.efficiency:.2f}."
        rows.append(f"- {program}: {text}{_of_copies(own, best)}")
    return "\n".join(rows)


def _of_copies(own: list[Line], best: Line) -> str:
    """What a 2.5-D cut would change."""
    found = next((x for x in own if x.cut == "2.5-D"), None)
    if found is None or found is best:
        return ""
    room = "" if found.held <= MEMORY else f", and needs {found.held / 1e9:,.0f} GB for operands on each worker"
    times = found.sent / best.sent
    return f" 2.5-D, with operands on {COPIES} workers, sends {times:.1f} times as much as {best.cut}{room}."


def plot(strong: list[Line], weak: list[Line], path: Path) -> None:
    """Bytes beside the bound, and efficiency, over workers."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "spfgen", "svg.fonttype": "none"}):
        figure = Figure(figsize=(11, 2.6 * len(PROGRAMS)), layout="constrained")
        for row, program in zip(figure.subplots(len(PROGRAMS), 3), PROGRAMS, strict=True):
            for cut in CUTS[program]:
                for axes, found, what in ((row[0], strong, "sent"), (row[1], strong, "efficiency"),
                                          (row[2], weak, "efficiency")):  # fmt: skip
                    own = [x for x in found if (x.program, x.cut) == (program, cut.name) and x.workers > 1]
                    axes.plot([x.workers for x in own], [getattr(x, what) for x in own], marker=".", label=cut.name)
            known = [x for x in strong if x.program == program and x.cut == "1-D" and x.least]
            row[0].plot([x.workers for x in known], [x.least for x in known], "k--", linewidth=1)
            row[0].set_yscale("log")
            row[0].legend(frameon=False)
            for axes, title in zip(
                row, ("bytes of each worker", "efficiency, strong", "efficiency, weak"), strict=True
            ):
                axes.set_xscale("log", base=2)
                axes.set_title(f"{program}: {title}", fontsize=9)
        figure.savefig(path, format="svg", metadata={"Date": None})
    path.write_text("\n".join(x.rstrip() for x in path.read_text().splitlines()) + "\n")


def main(arguments: list[str]) -> int:
    """Measure, plan, print; write SIMULATED.md and simulated.svg beside this file."""
    parser = argparse.ArgumentParser(prog="python -m experiments.cluster.simulate", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="rates from smaller data, which caches hold")
    quick = parser.parse_args(arguments).quick
    measured = rates(quick)
    strong, weak = list(lines(measured, False)), list(lines(measured, True))
    kernels = ", ".join(f"{p} {r * 1e9:.2f}" for p, r in measured.items())
    text = f"""# Simulated

Written by `python -m experiments.cluster.simulate`; do not edit. {ENTRIES:,} entries, {PER_ROW} in each row of a
matrix, {COLUMNS} columns of factors; {LATENCY * 1e6:.0f} us and {BANDWIDTH * 8 / 1e9:.0f} Gbit/s between workers of one
thread. Nanoseconds of a multiplication, measured on {"data that caches hold" if quick else "larger data"}: {kernels}.
Rates are of processor time; {os.cpu_count()} processors had {os.getloadavg()[0]:.0f} processes to run then, whose use
of caches and memory counts.

## Strong scaling

{table(strong)}

## Weak scaling, {ENTRIES // WORKERS[-1]:,} entries for each worker

{table(weak)}

## Which cut

{advice(strong)}
"""
    show(text)
    (HERE / "SIMULATED.md").write_text(text + "\n![Over workers](simulated.svg)\n", encoding="utf-8")
    try:
        plot(strong, weak, HERE / "simulated.svg")
    except ImportError:
        say("no plot: pip install matplotlib")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

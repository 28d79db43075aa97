"""What the figures come to, and whether the targets are met."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.harness.case import OURS
from experiments.harness.race import Outcome
from experiments.harness.table import share_of_roof
from experiments.harness.timing import geometric_mean
from experiments.spmv.contestants import BUSY

CSR_TARGETS = {"mkl": 1.0, "taco": 1.2, "taco-best": 1.0, "scipy": 1.2, "eigen": 1.2, "graphblas": 1.2}
NEVER_BELOW = 0.9
CHOSEN, INSPECTED = "ours-chosen", "mkl-ie"
EVENLY, LONG_ROWS = 0.9, "power law"
"""On matrices with very long rows all threads are to be at work to within a tenth."""
NEAR, REGULAR = 0.85, "stencil"
"""Where a matrix lies in memory, and rows ask little of the processor, csr is to be that near to the bandwidth."""
PEERS = ("scipy", "mkl", "mkl-ie")
OF_NO_LAYOUT = ("power law", "uniform")
"""Matrices with no structure that a layout is for: how far behind csr coo, csc and dcsr are there has no target."""

NOTES = (
    "ratios are times of the other / ours; scipy has one thread whatever the thread count",
    "taco is its kernel with schedule(dynamic,32), taco-best the best of several schedules",
    "ours-chosen is our kernel in the layout that tune_layouts chose, as Kernel.optimize binds it: both inspectors are "
    "handed csr, so mkl-ie's target is beside ours-chosen; beside csr as it is it has none, as it may store A anew",
    "ours-csr is our own kernel on the same matrix in csr; its target counts matrices with the layout's structure, "
    "plain ones (power law, uniform) have none that csr lacks",
)

Ratio = tuple[float, str]


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report: means over the cases of each layout and thread count."""
    groups: dict[tuple[str, int], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.label.partition(",")[0], outcome.threads or 1), []).append(outcome)
    lines = []
    for (layout, threads), group in groups.items():
        lines.append(f"A in {layout}, {threads} thread{'s' if threads > 1 else ''}, {len(group)} cases")
        lines += (f"  {line}" for line in (_csr(group) if layout == "csr" else _layout(group)))
    return "\n".join([*lines, *(f"note: {note}" for note in NOTES)])


def _csr(group: Sequence[Outcome]) -> Iterator[str]:
    for name, target in CSR_TARGETS.items():
        yield from _figures(name, _ratios(group, (name,)), target, None)
    yield from _figures("best peer", _ratios(group, tuple(CSR_TARGETS)), None, NEVER_BELOW)
    yield from _figures("mkl-ie", _ratios(group, (INSPECTED,)), None, None)
    yield from _figures("mkl-ie/chosen", _of_chosen(group), 1.0, NEVER_BELOW)
    yield from _figures("busy threads", _busy(group), None, EVENLY)
    yield from _figures("roofline", _of_the_roof(group), None, NEAR)


def _layout(group: Sequence[Outcome]) -> Iterator[str]:
    names = dict.fromkeys(e.name for o in group for e in o.entries if e.name != "ours")
    for name in names:
        yield from _figures(name, _ratios(group, (name,)), None, None)
    yield from _figures("best peer", _ratios(group, PEERS), 1.0, None)
    plain = [o for o in group if any(kind in o.label for kind in OF_NO_LAYOUT)]
    yield from _figures("ours in csr", _ratios([o for o in group if o not in plain], ("ours-csr",)), 1.0, None)
    yield from _figures("  plain", _ratios(plain, ("ours-csr",)), None, None)


def _ratios(group: Sequence[Outcome], names: Sequence[str]) -> list[Ratio]:
    """For each case the smallest ratio to ours among these."""
    found = []
    for outcome in group:
        ratios = [(e.ratio, f"{e.title}: {outcome.label}") for e in outcome.best() if e.name in names and e.ratio]
        if ratios:
            found.append(min(ratios))
    return found


def _of_chosen(group: Sequence[Outcome]) -> list[Ratio]:
    """MKL's time with its inspector over ours in the layout that was chosen."""
    found = []
    for outcome in group:
        ratios = {e.name: e.ratio for e in outcome.best() if e.ratio}
        if {CHOSEN, INSPECTED} <= ratios.keys():
            found.append((ratios[INSPECTED] / ratios[CHOSEN], outcome.label))
    return found


def _busy(group: Sequence[Outcome]) -> list[Ratio]:
    """How evenly our threads are at work where rows differ most."""
    found = []
    for outcome in (o for o in group if LONG_ROWS in o.label):
        remarks = [e.remark for e in outcome.entries if e.name == OURS and e.remark.startswith(BUSY)]
        found += [(float(remark.removeprefix(BUSY)), outcome.label) for remark in remarks]
    return found


def _of_the_roof(group: Sequence[Outcome]) -> list[Ratio]:
    """Our share of the bandwidth on stencils in memory."""
    entries = [(o, e) for o in group if REGULAR in o.label for e in o.best() if e.name == OURS]
    return [(share, o.label) for o, e in entries if (share := share_of_roof(e, o)) is not None]


def _figures(title: str, ratios: Sequence[Ratio], target: float | None, floor: float | None) -> Iterator[str]:
    if ratios:
        mean, (least, where) = geometric_mean([r for r, _ in ratios]), min(ratios)
        text = f"{title:<14}geometric mean {mean:.3f}{_verdict(mean, target)}"
        yield f"{text}; least {least:.3f} ({where}){_verdict(least, floor)}"


def _verdict(figure: float, target: float | None) -> str:
    return "" if target is None else f", target {target:g}: {'met' if figure >= target else 'NOT met'}"

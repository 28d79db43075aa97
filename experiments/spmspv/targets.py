"""What the figures come to: means over the cases, the worst case, and whether the targets are met."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from experiments.harness.case import OURS
from experiments.harness.race import SKIPPED, Entry, Outcome
from experiments.harness.timing import geometric_mean
from experiments.spmspv.point import Point, threads_text

LIBRARIES = ("taco", "eigen", "eigen-dense", "eigen-rows", "scipy", "graphblas")
WITH_BITMAP = (*LIBRARIES, "graphblas-bitmap")
COLUMN_LIBRARIES = ("taco", "eigen", "eigen-dense", "graphblas")
DENSE_COLUMN_LIBRARIES = ("taco", "eigen-dense")

TIMES_MERGE = 20.0
TIMES_LIBRARY = 2.5
NEVER_BELOW = 0.95
SEQUENTIAL_TIMES_MERGE = 1.6
TIMES_COLUMN_LIBRARY = 1.0

NOTES = (
    "ratios are times of the other / ours; the targets of csr are for every thread count, those of csc for one thread",
    "each library is timed in its natural product: eigen, scipy and graphblas make a sparse result, all others a "
    "dense one, which costs a write of all of y",
    "A and x are in each library's own form beforehand, untimed; graphblas-bitmap has x as an array of the full "
    "length, which is no list of its entries any more: hence apart",
    "bytes that must move: csr all columns and the values that meet an entry of x (who searches long rows for a "
    "few entries may read less); csc the columns that x names; both x and y",
)

Ratio = tuple[float, str]
"""A ratio and where it was found."""


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    groups: dict[tuple[str, int], list[Outcome]] = {}
    for outcome in outcomes:
        point = Point.of(outcome.label)
        groups.setdefault((point.layout, point.threads), []).append(outcome)
    lines = []
    for (layout, threads), group in groups.items():
        lines.append(f"A in {layout}, {threads_text(threads)}, {len(group)} cases")
        lines += (f"  {line}" for line in (_rows(group) if layout == "csr" else _columns(group, threads)))
    return "\n".join([*lines, *(f"note: {note}" for note in NOTES), *_skipped(outcomes)])


def _rows(group: Sequence[Outcome]) -> Iterator[str]:
    """The figures of csr."""
    yield _mean("merge / ours", over_ours(group, ["merge"]), TIMES_MERGE)
    yield _mean("merge / spfgen-sequential", over(group, "merge", "spfgen-sequential"), SEQUENTIAL_TIMES_MERGE)
    yield _mean("best library / ours", over_ours(group, LIBRARIES), TIMES_LIBRARY)
    yield _least("least of any library / ours", over_ours(group, LIBRARIES), NEVER_BELOW)
    yield _mean("best library, with bitmap", over_ours(group, WITH_BITMAP), TIMES_LIBRARY)
    yield _least("least, with bitmap", over_ours(group, WITH_BITMAP), NEVER_BELOW)
    yield _mean("scatter by hand / ours", over_ours(group, ["scatter"]))
    for other in ("search", "gallop", "hash", "array", "bitmap", "scatter", "sequential"):
        if ratios := over_ours(group, [f"spfgen-{other}"]):
            yield _mean(f"spfgen-{other} / ours", ratios)
    if ratios := over_ours(group, {e.name for o in group for e in o.entries if e.name.startswith("spfgen-")}):
        yield _mean("best forced / ours", ratios)
        yield _least("least forced / ours", ratios)


def _columns(group: Sequence[Outcome], threads: int) -> Iterator[str]:
    """The figures of csc."""
    target = TIMES_COLUMN_LIBRARY if threads == 1 else None
    yield _mean("best library / ours", over_ours(group, COLUMN_LIBRARIES), target)
    yield _least("least of any library / ours", over_ours(group, COLUMN_LIBRARIES), target)
    yield _mean("best with a dense result", over_ours(group, DENSE_COLUMN_LIBRARIES))
    yield _least("least with a dense result", over_ours(group, DENSE_COLUMN_LIBRARIES))
    yield _mean("scipy / ours", over_ours(group, ["scipy"]))
    yield _mean("columns by hand / ours", over_ours(group, ["columns"]))


def over_ours(group: Iterable[Outcome], names: Iterable[str]) -> list[Ratio]:
    """For each case the smallest ratio to ours among these."""
    found = []
    wanted = set(names)
    for outcome in group:
        ratios = [(e.ratio, f"{e.title}: {outcome.label}") for e in outcome.best() if e.name in wanted and e.ratio]
        if ratios:
            found.append(min(ratios))
    return found


def over(group: Iterable[Outcome], above: str, below: str) -> list[Ratio]:
    """For each case the ratio of two of the others."""
    found = []
    for outcome in group:
        entries: dict[str, Entry] = {e.name: e for e in outcome.best()}
        one, two = entries.get(above), entries.get(below)
        if one and two and one.timing and two.timing:
            found.append((one.timing.median / two.timing.median, outcome.label))
    return found


def _mean(title: str, ratios: Sequence[Ratio], target: float | None = None) -> str:
    if not ratios:
        return f"{title:<28}no figure{'' if target is None else f', target {target:g}: not met'}"
    mean = geometric_mean([ratio for ratio, _ in ratios])
    return f"{title:<28}geometric mean {mean:.3f} over {len(ratios)} cases{_verdict(mean, target)}"


def _least(title: str, ratios: Sequence[Ratio], target: float | None = None) -> str:
    if not ratios:
        return f"{title:<28}no figure{'' if target is None else f', target {target:g}: not met'}"
    least, where = min(ratios)
    below = "" if target is None else f", below in {sum(r < target for r, _ in ratios)} of {len(ratios)}"
    return f"{title:<28}{least:.3f} ({where}){_verdict(least, target)}{below}"


def _verdict(figure: float, target: float | None) -> str:
    return "" if target is None else f", target {target:g}: {'met' if figure >= target else 'NOT met'}"


def _skipped(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Who was too slow: a mean without its worst cases flatters it."""
    for outcome in outcomes:
        for entry in outcome.entries:
            if entry.status == SKIPPED and entry.name != OURS:
                yield f"skipped: {outcome.label}: {entry.title}: {entry.reason}"

"""The end of a report: for each thread count, our speed against each peer, and whether the targets are met."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from experiments.harness.race import Outcome
from experiments.harness.timing import geometric_mean


@dataclass(frozen=True, slots=True)
class Target:
    """The time of the fastest of `peers` over ours shall be at least `times`: as geometric mean of all cases.

    With `each`, in every case. `part` picks the cases whose label has this text.
    """

    title: str
    peers: tuple[str, ...]
    times: float | None = None
    each: bool = False
    part: str = ""


def closing(outcomes: Sequence[Outcome], targets: Sequence[Target], notes: Sequence[str] = ()) -> str:
    """The figures of every target, for one thread and for more."""
    lines = []
    for threads in sorted({o.threads or 1 for o in outcomes}):
        group = [o for o in outcomes if (o.threads or 1) == threads]
        lines.append(f"{threads} thread{'s' if threads > 1 else ''}, {len(group)} cases; time of the other / ours")
        lines += (f"  {line}" for target in targets for line in _figures(target, group))
    return "\n".join([*lines, *(f"note: {note}" for note in notes)])


def ratios(outcomes: Iterable[Outcome], peers: Iterable[str]) -> list[tuple[float, str]]:
    """For each case the smallest ratio to ours among these, and where it was found."""
    wanted = set(peers)
    found = []
    for outcome in outcomes:
        own = [(e.ratio, f"{outcome.label}: {e.title}") for e in outcome.best() if e.name in wanted and e.ratio]
        if own:
            found.append(min(own))
    return found


def _figures(target: Target, group: Sequence[Outcome]) -> Iterator[str]:
    found = ratios([o for o in group if target.part in o.label], target.peers)
    if not found:
        return
    mean, (least, where) = geometric_mean([r for r, _ in found]), min(found)
    verdict = ""
    if target.times is not None:
        figure = least if target.each else mean
        verdict = f", target {target.times:g}: {'met' if figure >= target.times else 'NOT met'}"
    yield f"{target.title:<34}geometric mean {mean:.3f} over {len(found)}, least {least:.3f} ({where}){verdict}"

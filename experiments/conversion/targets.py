"""What the figures come to, and whether the targets are met."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.harness.race import Outcome
from experiments.harness.timing import geometric_mean

TIMES_SCIPY = 1.5
NEVER_BELOW = 0.9


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report: ratios are times of the other / ours."""
    lines: list[str] = []
    for threads in sorted({o.threads or 1 for o in outcomes}):
        group = [o for o in outcomes if (o.threads or 1) == threads]
        lines.append(f"{threads} thread{'s' if threads > 1 else ''}, {len(group)} cases")
        lines += (f"  {line}" for line in _of(group, threads))
    return "\n".join(lines)


def _of(group: Sequence[Outcome], threads: int) -> Iterator[str]:
    for name in ("scipy", "scipy-sorted", "sparse"):
        ratios = [(e.ratio, o.label) for o in group for e in o.best() if e.name == name and e.ratio]
        if not ratios:
            continue
        mean, (least, where) = geometric_mean([r for r, _ in ratios]), min(ratios)
        asked = name == "scipy" and threads == 1
        yield f"{name} / ours: geometric mean {mean:.2f} over {len(ratios)} cases{_verdict(mean, TIMES_SCIPY, asked)}"
        yield f"{name} / ours: least {least:.2f} ({where}){_verdict(least, NEVER_BELOW, asked)}"
        for task in dict.fromkeys(o.label.partition(",")[0] for o in group):
            own = [r for r, label in ratios if label.startswith(f"{task},")]
            if own:
                yield f"    {task}: {geometric_mean(own):.2f} ({min(own):.2f} to {max(own):.2f})"


def _verdict(figure: float, target: float, asked: bool) -> str:
    return f", target {target:g}: {'met' if figure >= target else 'NOT met'}" if asked else ""
